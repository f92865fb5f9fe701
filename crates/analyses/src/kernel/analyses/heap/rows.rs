//! The rows of `heap`: groups, and their columns.

use std::rc::Rc;

use tracemill_semantics::states::Ns;

use super::By;
use super::sums::HeapSums;
use crate::kernel::aggregate::aggregate_map::{SumKey, SumRows};
use crate::kernel::rows::column_of::{ColumnOf, column, own_column};
use crate::kernel::table::Unit;
use crate::kernel::value::Value;

/// A group, as rows show it.
#[derive(Clone, Default)]
pub(super) struct GroupLabel {
    pub(super) machine: u32,
    pub(super) pid: Option<i64>,
    pub(super) tid: Option<i64>,
    pub(super) comm: Option<Rc<str>>,
    pub(super) call: Option<Rc<str>>,
    pub(super) place: Option<String>,
    /// The functions of the path, outermost first.
    pub(super) path: Option<String>,
}

/// The sums of a group, or its blocks that were not freed.
#[derive(Default)]
pub(super) struct HeapRow<'r> {
    pub(super) label: Option<&'r GroupLabel>,
    pub(super) sums: HeapSums,
    pub(super) left: Left,
}

/// Blocks that were not freed.
#[derive(Clone, Copy, Default)]
pub(super) struct Left {
    pub(super) blocks: u64,
    pub(super) bytes: i128,
    /// When the first and the last of them were allocated.
    pub(super) times: Option<(Ns, Ns)>,
}

impl Left {
    /// Adds a block.
    pub(super) fn add(&mut self, bytes: u64, at: Ns) {
        self.blocks += 1;
        self.bytes = self.bytes.saturating_add(bytes.into());
        let (first, last) = self.times.unwrap_or((at, at));
        self.times = Some((first.min(at), last.max(at)));
    }
}

impl<'r> HeapRow<'r> {
    const PID: ColumnOf<'r, Self> =
        column("pid", Unit::Name, |row| Value::integer(row.label.and_then(|label| label.pid)));
    const TID: ColumnOf<'r, Self> =
        column("tid", Unit::Name, |row| Value::integer(row.label.and_then(|label| label.tid)));
    const COMM: ColumnOf<'r, Self> =
        column("comm", Unit::Name, |row| Value::text(row.label.and_then(|label| label.comm.as_deref())));
    const CALL: ColumnOf<'r, Self> = own_column("call", Unit::Name, "function that allocates or frees", |row| {
        Value::text(row.label.and_then(|label| label.call.as_deref()))
    });
    const PLACE: ColumnOf<'r, Self> =
        own_column("place", Unit::Name, "function that called it, or the address after the call", |row| {
            Value::text(row.label.and_then(|label| label.place.as_deref()))
        });
    const PATH: ColumnOf<'r, Self> = own_column(
        "path",
        Unit::Name,
        "functions that were open when it was called, outermost first, at most 128 of them",
        |row| Value::text(row.label.and_then(|label| label.path.as_deref())),
    );
    const ALLOCS: ColumnOf<'r, Self> =
        own_column("allocs", Unit::Count, "blocks that were allocated, also by realloc", |row| row.sums.allocs.into());
    const FREES: ColumnOf<'r, Self> =
        own_column("frees", Unit::Count, "blocks that were freed, also by realloc", |row| row.sums.frees.into());
    const UNKNOWN: ColumnOf<'r, Self> =
        own_column("unknown_frees", Unit::Count, "those of blocks whose allocation is not in the trace", |row| {
            row.sums.unknown_frees.into()
        });
    const FAILED: ColumnOf<'r, Self> =
        own_column("failed", Unit::Count, "allocations that failed", |row| row.sums.failed.into());
    const BYTES: ColumnOf<'r, Self> =
        own_column("bytes", Unit::Count, "bytes that were allocated", |row| row.sums.bytes.into());
    const BYTES_FREED: ColumnOf<'r, Self> =
        own_column("bytes_freed", Unit::Count, "bytes of known blocks that were freed", |row| row.sums.freed.into());
    const BEGIN_BYTES: ColumnOf<'r, Self> =
        own_column("begin_bytes", Unit::Count, "bytes of known blocks at the beginning", |row| row.sums.begin.into());
    const LIVE: ColumnOf<'r, Self> =
        own_column("live", Unit::Count, "blocks that were not freed by the end", |row| row.sums.end.blocks.into());
    const LIVE_BYTES: ColumnOf<'r, Self> =
        own_column("live_bytes", Unit::Count, "bytes of these blocks", |row| row.sums.end.bytes.into());
    const PEAK_BYTES: ColumnOf<'r, Self> =
        own_column("peak_bytes", Unit::Count, "the most bytes in known blocks", |row| row.sums.peak.into());
    const PEAK: ColumnOf<'r, Self> =
        own_column("peak", Unit::Time, "when that was reached first; empty if at the beginning", |row| {
            Value::integer(row.sums.peak_at)
        });
    const BLOCKS: ColumnOf<'r, Self> =
        own_column("blocks", Unit::Count, "blocks that were never freed", |row| row.left.blocks.into());
    const LEFT_BYTES: ColumnOf<'r, Self> =
        own_column("bytes", Unit::Count, "bytes of these blocks", |row| row.left.bytes.into());
    const FIRST: ColumnOf<'r, Self> = own_column("first", Unit::Time, "when the first of them was allocated", |row| {
        Value::integer(row.left.times.map(|(first, _)| first))
    });
    const LAST: ColumnOf<'r, Self> = own_column("last", Unit::Time, "when the last of them was allocated", |row| {
        Value::integer(row.left.times.map(|(_, last)| last))
    });

    const BY_PROCESS: &'r [ColumnOf<'r, Self>] = &[
        Self::PID,
        Self::COMM,
        Self::ALLOCS,
        Self::FREES,
        Self::UNKNOWN,
        Self::FAILED,
        Self::BYTES,
        Self::BYTES_FREED,
        Self::BEGIN_BYTES,
        Self::LIVE,
        Self::LIVE_BYTES,
        Self::PEAK_BYTES,
        Self::PEAK,
    ];
    const BY_THREAD: &'r [ColumnOf<'r, Self>] = &[
        Self::PID,
        Self::TID,
        Self::COMM,
        Self::ALLOCS,
        Self::FREES,
        Self::UNKNOWN,
        Self::FAILED,
        Self::BYTES,
        Self::BYTES_FREED,
        Self::LIVE,
        Self::LIVE_BYTES,
    ];
    const BY_CALL: &'r [ColumnOf<'r, Self>] = &[
        Self::CALL,
        Self::ALLOCS,
        Self::FREES,
        Self::UNKNOWN,
        Self::FAILED,
        Self::BYTES,
        Self::BYTES_FREED,
        Self::LIVE,
        Self::LIVE_BYTES,
    ];
    const BY_PLACE: &'r [ColumnOf<'r, Self>] = &[
        Self::PID,
        Self::PLACE,
        Self::ALLOCS,
        Self::FREES,
        Self::UNKNOWN,
        Self::FAILED,
        Self::BYTES,
        Self::BYTES_FREED,
        Self::LIVE,
        Self::LIVE_BYTES,
    ];
    const BY_PATH: &'r [ColumnOf<'r, Self>] = &[
        Self::PID,
        Self::PATH,
        Self::ALLOCS,
        Self::FREES,
        Self::UNKNOWN,
        Self::FAILED,
        Self::BYTES,
        Self::BYTES_FREED,
        Self::LIVE,
        Self::LIVE_BYTES,
    ];
    const LEFT_OF_PROCESS: &'r [ColumnOf<'r, Self>] =
        &[Self::PID, Self::COMM, Self::BLOCKS, Self::LEFT_BYTES, Self::FIRST, Self::LAST];
    const LEFT_OF_THREAD: &'r [ColumnOf<'r, Self>] =
        &[Self::PID, Self::TID, Self::COMM, Self::BLOCKS, Self::LEFT_BYTES, Self::FIRST, Self::LAST];
    const LEFT_OF_CALL: &'r [ColumnOf<'r, Self>] =
        &[Self::CALL, Self::BLOCKS, Self::LEFT_BYTES, Self::FIRST, Self::LAST];
    const LEFT_OF_PLACE: &'r [ColumnOf<'r, Self>] =
        &[Self::PID, Self::COMM, Self::PLACE, Self::BLOCKS, Self::LEFT_BYTES, Self::FIRST, Self::LAST];
    const LEFT_OF_PATH: &'r [ColumnOf<'r, Self>] =
        &[Self::PID, Self::COMM, Self::PATH, Self::BLOCKS, Self::LEFT_BYTES, Self::FIRST, Self::LAST];

    /// The values over all rows: of sums, and of blocks that were not freed.
    pub(super) const OF_ALL: &'r [ColumnOf<'r, Self>] = &[
        Self::ALLOCS,
        Self::FREES,
        Self::UNKNOWN,
        Self::FAILED,
        Self::BYTES,
        Self::BYTES_FREED,
        Self::BEGIN_BYTES,
        Self::LIVE,
        Self::LIVE_BYTES,
        Self::PEAK_BYTES,
        Self::PEAK,
    ];
    pub(super) const LEFT_OF_ALL: &'r [ColumnOf<'r, Self>] = &[Self::BLOCKS, Self::LEFT_BYTES];

    /// The columns of sums.
    pub(super) fn columns(by: By) -> &'r [ColumnOf<'r, Self>] {
        match by {
            By::Process => Self::BY_PROCESS,
            By::Thread => Self::BY_THREAD,
            By::Call => Self::BY_CALL,
            By::Place => Self::BY_PLACE,
            By::Path => Self::BY_PATH,
        }
    }

    /// The columns of blocks that were not freed.
    pub(super) fn columns_of_left(by: By) -> &'r [ColumnOf<'r, Self>] {
        match by {
            By::Process => Self::LEFT_OF_PROCESS,
            By::Thread => Self::LEFT_OF_THREAD,
            By::Call => Self::LEFT_OF_CALL,
            By::Place => Self::LEFT_OF_PLACE,
            By::Path => Self::LEFT_OF_PATH,
        }
    }
}

/// The groups of rows.
pub(super) struct Labels {
    pub(super) by: By,
    pub(super) labels: Vec<GroupLabel>,
}

impl Labels {
    /// The key of the sums of a group in a step.
    pub(super) fn key(machine: u32, pid: Option<i64>, group: u32, step: i64) -> SumKey<4> {
        [step, machine.into(), pid.unwrap_or(i64::MIN), group.into()]
    }
}

impl SumRows<4, HeapSums> for Labels {
    type Row<'r> = HeapRow<'r>;

    fn columns<'r>(&self) -> &'r [ColumnOf<'r, HeapRow<'r>>] {
        HeapRow::columns(self.by)
    }

    fn row<'r>(&'r self, key: &SumKey<4>, sums: HeapSums, _: Ns) -> HeapRow<'r> {
        HeapRow { label: self.labels.get(key[3] as usize), sums, left: Left::default() }
    }

    fn machine(&self, key: &SumKey<4>) -> u32 {
        key[1] as u32
    }

    fn number(&self, key: &SumKey<4>) -> i64 {
        key[2]
    }
}
