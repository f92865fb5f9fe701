//! Events that tests play, and random ones.

pub(crate) mod played;
pub(crate) mod random;
pub(crate) mod seeds;
