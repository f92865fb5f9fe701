//! The blocks that programs have allocated, and what an event changes of them.

use std::rc::Rc;

use tracemill_semantics::states::{Happening, Map, Ns};
use tracemill_semantics::{Concept, Field};

use crate::kernel::aggregate::keys::NO_KEY;
use crate::kernel::aggregate::latest::Latest;

/// Blocks that are kept at most, to know their sizes when they are freed.
const MAX_BLOCKS: usize = if cfg!(test) { 64 } else { 1 << 20 };

/// A process, from its first event here to its end.
pub(super) struct Process {
    pub(super) pid: Option<i64>,
    /// Name of its first thread, or of the first one that was met.
    pub(super) comm: Option<Rc<str>>,
    is_named_by_first: bool,
}

/// A block that is allocated.
pub(super) struct Block {
    pub(super) bytes: u64,
    /// When it was allocated.
    pub(super) at: Ns,
    /// The group that it was allocated by.
    pub(super) group: u32,
    /// The thread that allocated it.
    tid: i64,
    /// Was there a block at its address whose end was not seen?
    has_replaced: bool,
}

/// An event about blocks.
pub(super) struct BlockEvent {
    pub(super) kind: BlockEventKind,
    /// The block that it makes or frees; 0 for none.
    pub(super) ptr: Option<u64>,
    /// Bytes of the block that it makes.
    pub(super) bytes: Option<i128>,
    /// Does it say that it failed, whatever the pointer is?
    pub(super) has_failed: bool,
}

/// The kinds of such events.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockEventKind {
    Alloc,
    /// The block before.
    Realloc(Option<u64>),
    Free,
}

impl BlockEvent {
    /// An event about a block.
    pub(super) fn of(kind: BlockEventKind, ptr: u64) -> BlockEvent {
        BlockEvent { kind, ptr: Some(ptr), bytes: None, has_failed: false }
    }

    /// An event of the C library.
    pub(super) fn of_library(happening: &Happening<'_>) -> BlockEvent {
        // Addresses may be signed numbers in the trace.
        let pointer = |field| happening.values.integer(field).map(|pointer| pointer as u64);
        let kind = match happening.concept {
            Concept::HeapFree => BlockEventKind::Free,
            Concept::HeapRealloc => BlockEventKind::Realloc(pointer(Field::Old)),
            _ => BlockEventKind::Alloc,
        };
        BlockEvent {
            kind,
            ptr: pointer(Field::Ptr),
            bytes: bytes_of(happening),
            // The result of posix_memalign says whether it failed: the pointer is then as it was.
            has_failed: happening.number(Field::Ret).is_some_and(|result| result != 0),
        }
    }
}

/// The fate of one block, as an event has it.
pub(super) enum HeapChange {
    /// It was allocated, with this many bytes.
    Allocated(u64),
    /// It was freed. A block that was allocated before the trace, or in a loss, is not known.
    Freed(Option<Block>),
    /// It must have been freed: another one is at its address.
    Replaced(Block),
    /// It could not be allocated.
    Failed,
}

/// All blocks and processes.
pub(super) struct Blocks {
    pub(super) processes: Vec<Process>,
    /// Processes that have not ended, by machine and number.
    living: Map<(u32, Option<i64>), u32>,
    /// By process and address.
    known: Latest<(u32, u64), Block>,
    /// Blocks that were dropped, as there were too many.
    pub(super) dropped: u64,
    /// Blocks whose end was not seen.
    pub(super) replaced: u64,
    /// Events without a pointer or a size.
    pub(super) bad_fields: u64,
}

impl Default for Blocks {
    fn default() -> Self {
        Blocks {
            processes: Vec::new(),
            living: Map::default(),
            known: Latest::new(MAX_BLOCKS),
            dropped: 0,
            replaced: 0,
            bad_fields: 0,
        }
    }
}

impl Blocks {
    /// The process of an event of a thread, by their numbers. The name is asked for where it may be needed.
    pub(super) fn process<C: AsRef<str>>(
        &mut self,
        machine: u32,
        (pid, tid): (Option<i64>, Option<i64>),
        comm: impl FnOnce() -> Option<C>,
    ) -> u32 {
        let processes = &mut self.processes;
        let at = *self.living.entry((machine, pid)).or_insert_with(|| {
            processes.push(Process { pid, comm: None, is_named_by_first: false });
            processes.len() as u32 - 1
        });
        let process = &mut processes[at as usize];
        let is_first = pid.is_some() && tid == pid;
        if (process.comm.is_none() || is_first && !process.is_named_by_first)
            && let Some(comm) = comm()
        {
            (process.comm, process.is_named_by_first) = (Some(comm.as_ref().into()), is_first);
        }
        at
    }

    /// A process ends, or becomes another program: the next event of its number is of a new one. Gives the one that ended.
    pub(super) fn end(&mut self, machine: u32, pid: i64) -> Option<u32> {
        self.living.remove(&(machine, Some(pid)))
    }

    /// Shows each change that an event makes, in order. The group is the one of blocks that it allocates.
    pub(super) fn apply(
        &mut self,
        (process, tid): (u32, Option<i64>),
        group: u32,
        event: &BlockEvent,
        at: Ns,
        mut each: impl FnMut(HeapChange),
    ) {
        let Some(new) = event.ptr else {
            self.bad_fields += 1;
            return;
        };
        if event.kind == BlockEventKind::Free {
            if new != 0 {
                each(HeapChange::Freed(self.known.remove(&(process, new))));
            }
            return;
        }
        let Some(bytes) = event.bytes else {
            self.bad_fields += 1;
            return;
        };
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let tid = tid.unwrap_or(NO_KEY);
        let old = match event.kind {
            BlockEventKind::Realloc(old) => old.filter(|old| *old != 0),
            _ => None,
        };
        if new == 0 || event.has_failed {
            // A size of 0 frees the block that there was, and that is no failure.
            match old.filter(|_| bytes == 0) {
                Some(old) => each(HeapChange::Freed(self.known.remove(&(process, old)))),
                None => each(HeapChange::Failed),
            }
            return;
        }
        if let Some(old) = old.filter(|old| !self.is_freed_already((process, *old), tid)) {
            each(HeapChange::Freed(self.known.remove(&(process, old))));
        }
        let before = self.known.remove(&(process, new));
        let block = Block { bytes, at, group, tid, has_replaced: before.is_some() };
        if let Some(before) = before {
            self.replaced += 1;
            each(HeapChange::Replaced(before));
        }
        self.dropped += u64::from(self.known.insert((process, new), block).is_some());
        each(HeapChange::Allocated(bytes));
    }

    /// Was the block that a `realloc` moved taken for freed? The event follows the call, so another thread may have got the
    /// address of the old block, and recorded that, before.
    fn is_freed_already(&mut self, key: (u32, u64), tid: i64) -> bool {
        let Some(block) = self.known.get_mut(&key) else { return false };
        let is_late = block.has_replaced && block.tid != tid;
        block.has_replaced &= !is_late;
        is_late
    }

    /// The blocks that are still allocated, in no order; those that processes had when they ended are among them.
    pub(super) fn left(&self) -> impl Iterator<Item = &Block> {
        self.known.values()
    }
}

/// The bytes that a call asks for.
fn bytes_of(happening: &Happening<'_>) -> Option<i128> {
    let size = happening.values.integer(Field::Bytes)?.max(0);
    let count = happening.values.integer(Field::Count).unwrap_or(1).max(0);
    Some(size.saturating_mul(count))
}
