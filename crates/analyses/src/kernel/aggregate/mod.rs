//! Sums and spans by group, in few bytes each.

pub(crate) mod aggregate_map;
pub(crate) mod groups;
pub(crate) mod keys;
pub(crate) mod latest;
pub(crate) mod spans;
pub(crate) mod sum;
