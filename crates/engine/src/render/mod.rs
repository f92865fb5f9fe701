//! Events as text.

pub mod json;
pub mod out;
pub mod strings;
pub mod text;
pub mod time;
