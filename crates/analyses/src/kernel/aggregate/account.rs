//! Sums of groups, and how they are kept.

use crate::kernel::value::Cell;

/// Sums of a group.
pub(crate) trait Sum: Default {
    /// Adds what another group has.
    fn add(&mut self, other: Self);
}

/// An account.
pub(crate) trait Account: Sum + Clone {
    /// Appends its numbers.
    fn put(&self, cells: &mut Vec<Cell>);

    /// Adds an account that was made later, given by its numbers. Takes those that it has put, so that others may follow.
    fn take(&mut self, numbers: &mut impl Iterator<Item = Option<i128>>);

    /// Is it so large that it had better stay open?
    fn is_large(&self) -> bool {
        false
    }
}
