//! State that a thread keeps for the functions of `special`: the places of `setjmp`, and what it lends to a child of `vfork`.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};

use crate::same_thread::SameThread;
use crate::thread::{FrameState, OpenFrame, Selection, SelectionCell, ThreadRing};

/// Where `setjmp` was called.
#[derive(Default)]
pub(crate) struct JumpPoint {
    /// Its argument; 0 for none.
    pub(crate) buffer: AtomicUsize,
    /// Calls that were open.
    pub(crate) depth: AtomicU32,
    /// Of these were recorded.
    pub(crate) recorded: AtomicU32,
    /// The address that stands for the function; 0 when its call is not recorded.
    pub(crate) address: AtomicUsize,
}

/// The points of a thread, of which the oldest makes room for a new one.
#[derive(Default)]
pub(crate) struct JumpPoints {
    points: [JumpPoint; 32],
    pub(crate) next: AtomicUsize,
}

impl JumpPoints {
    pub(crate) fn find(&self, buffer: usize) -> Option<&JumpPoint> {
        self.points.iter().find(|point| point.buffer.get() == buffer)
    }

    /// The point for this buffer: there is one for each.
    pub(crate) fn place(&self, buffer: usize) -> &JumpPoint {
        self.find(buffer).unwrap_or_else(|| {
            let next = self.next.get();
            self.next.set(next + 1);
            &self.points[next % self.points.len()]
        })
    }
}

/// The state that a thread gives up while a child of `vfork` uses its data.
pub(crate) struct Lent {
    pub(crate) is_lent: AtomicBool,
    pub(crate) ring: ThreadRing,
    pub(crate) pos: AtomicUsize,
    pub(crate) end: AtomicUsize,
    pub(crate) lost: AtomicU64,
    pub(crate) pid: AtomicUsize,
    pub(crate) depth: AtomicUsize,
    pub(crate) over: AtomicUsize,
    pub(crate) selection: SelectionCell,
    /// The call of `vfork`: the calls of the child have its place.
    pub(crate) frame: OpenFrame,
    pub(crate) extra: FrameState,
}

impl Lent {
    pub(crate) fn none(selection: Selection) -> Lent {
        Lent {
            is_lent: AtomicBool::new(false),
            ring: ThreadRing::none(),
            pos: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
            pid: AtomicUsize::new(0),
            depth: AtomicUsize::new(0),
            over: AtomicUsize::new(0),
            selection: SelectionCell::new(selection),
            frame: OpenFrame::default(),
            extra: FrameState::default(),
        }
    }
}
