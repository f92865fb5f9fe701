//! Metadata front end.
