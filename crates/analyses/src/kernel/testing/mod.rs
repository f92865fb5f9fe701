//! Events that tests play, and random ones.

pub(crate) mod played;
mod random;
pub(crate) mod seeds;
