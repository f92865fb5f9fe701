//! Parts of traces that are scanned by themselves.

use std::ops::Range;

/// The part of a trace that one file of a scan stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ScanPart {
    /// A range of the packets of a stream of the database.
    Packets { stream: usize, packets: Range<usize> },
    /// All streams, in the order of time.
    Merged,
}
