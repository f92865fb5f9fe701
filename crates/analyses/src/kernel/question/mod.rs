//! Questions to analyses: their options and forms, conditions on rows.

pub(crate) mod condition;
pub(crate) mod forms;
pub(crate) mod query;
pub(crate) mod unmatched;
