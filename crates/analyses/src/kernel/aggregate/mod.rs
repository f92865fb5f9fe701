//! Sums and spans by group, in few bytes each.

pub(crate) mod keys;
pub(crate) mod latest;
pub(crate) mod ledger;
pub(crate) mod spans;
pub(crate) mod sum;
