//! Questions to analyses: their options and forms, conditions on rows, texts in which the user defines what is asked.

pub(crate) mod condition;
pub(crate) mod event_paths;
pub(crate) mod forms;
pub(crate) mod query;
pub(crate) mod unmatched;
pub(crate) mod written;
