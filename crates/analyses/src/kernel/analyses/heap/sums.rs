//! Sums of allocations: counts, bytes and the level that follows from them.

use tracemill_semantics::states::Ns;

use crate::kernel::aggregate::sum::{Aggregate, Packing, Sum};

/// Blocks that are allocated and not freed.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Level {
    pub(super) blocks: i64,
    pub(super) bytes: i128,
}

impl Level {
    /// The level after a change.
    pub(super) fn plus(self, change: Level) -> Level {
        Level { blocks: self.blocks + change.blocks, bytes: self.bytes.saturating_add(change.bytes) }
    }
}

/// Allocations and frees of a group in a step, and its level.
#[derive(Clone, Copy, Default)]
pub(super) struct HeapSums {
    /// Has anything been added?
    pub(super) is_used: bool,
    pub(super) allocs: u64,
    pub(super) frees: u64,
    /// Frees of blocks that are not known.
    pub(super) unknown_frees: u64,
    pub(super) failed: u64,
    pub(super) bytes: i128,
    pub(super) freed: i128,
    pub(super) begin: i128,
    pub(super) end: Level,
    pub(super) peak: i128,
    /// When the peak was reached; `None` when it was so from the beginning.
    pub(super) peak_at: Option<Ns>,
}

impl HeapSums {
    /// Notes the level of the group before something changes.
    pub(super) fn begin_at(&mut self, level: Level) {
        if !self.is_used {
            *self =
                HeapSums { is_used: true, begin: level.bytes, end: level, peak: level.bytes, ..HeapSums::default() };
        }
    }

    /// Notes the level after a change.
    pub(super) fn note_level(&mut self, level: Level, at: Ns) {
        self.end = level;
        if level.bytes > self.peak {
            (self.peak, self.peak_at) = (level.bytes, Some(at));
        }
    }

    /// Adds counts, without the level.
    pub(super) fn count(&mut self, other: &HeapSums) {
        self.allocs += other.allocs;
        self.frees += other.frees;
        self.unknown_frees += other.unknown_frees;
        self.failed += other.failed;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.freed = self.freed.saturating_add(other.freed);
    }
}

impl Sum for HeapSums {
    /// Adds what came later.
    fn add(&mut self, later: HeapSums) {
        if !later.is_used {
            return;
        }
        if !self.is_used {
            *self = later;
            return;
        }
        self.count(&later);
        self.end = later.end;
        if later.peak > self.peak {
            (self.peak, self.peak_at) = (later.peak, later.peak_at);
        }
    }
}

impl Aggregate for HeapSums {
    fn pack<I: Iterator<Item = Option<i128>>>(&mut self, packing: &mut Packing<'_, I>) {
        packing.truth(&mut self.is_used);
        packing.number(&mut self.allocs);
        packing.number(&mut self.frees);
        packing.number(&mut self.unknown_frees);
        packing.number(&mut self.failed);
        packing.number(&mut self.bytes);
        packing.number(&mut self.freed);
        packing.number(&mut self.begin);
        packing.number(&mut self.end.blocks);
        packing.number(&mut self.end.bytes);
        packing.number(&mut self.peak);
        packing.option(&mut self.peak_at);
    }
}
