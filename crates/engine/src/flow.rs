//! Whether to go on.

/// The answer of a callback: whether the work that calls it goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// Go on.
    Continue,
    /// Stop as soon as possible.
    Stop,
}
