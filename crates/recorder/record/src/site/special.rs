//! Sites whose events need more than to be written: a condition is tested first, contexts come before the fields, triggers look at
//! what was written. Their state is a number of this table, so
//! that all other sites pay nothing for it.
//!
//! Entries of the table stay for ever: a thread may be looking at it whenever it changes. It grows only by what was never
//! asked for before.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use tracemill_ring::condition::FieldCondition;

use super::{FIRST, SPECIAL};
use crate::contexts::Contexts;
use crate::field::FieldClass;
use crate::trigger::BoundTrigger;

/// The needs of events of a site.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Special {
    /// The class of its events in the trace.
    pub(crate) id: u32,
    /// Their name.
    pub(crate) name: String,
    /// The classes of their fields.
    pub(crate) classes: Vec<FieldClass>,
    /// Only events of which this is true are recorded.
    pub(crate) condition: FieldCondition<usize>,
    /// Facts that are recorded with them.
    pub(crate) contexts: Contexts,
    /// The triggers that look at them.
    pub(crate) triggers: Vec<BoundTrigger>,
}

/// The way of an event that is on.
#[derive(Clone, Copy)]
pub(crate) enum Way {
    /// It is written, with this id of its class.
    Plain(u32),
    /// It needs more.
    Special(&'static Special),
}

impl Way {
    /// The way that a state stands for. `None` when nothing is recorded.
    #[inline(always)]
    pub(crate) fn of_state(state: u32) -> Option<Way> {
        match state {
            ..FIRST => None,
            FIRST..SPECIAL => Some(Way::Plain(state - FIRST)),
            SPECIAL.. => of_state(state).map(Way::Special),
        }
    }
}

const CHUNK: usize = 1024;
const CHUNKS: usize = 1024;

type Chunk = Box<[OnceLock<Special>]>;

static TABLE: [OnceLock<Chunk>; CHUNKS] = [const { OnceLock::new() }; CHUNKS];
/// Entries of the table.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// The needs that a state stands for.
fn of_state(state: u32) -> Option<&'static Special> {
    let at = (state & !SPECIAL) as usize;
    TABLE.get(at / CHUNK)?.get()?[at % CHUNK].get()
}

/// The state that stands for these needs; `None` when the table is full. Only under the recorder's lock.
pub(crate) fn state_of(special: Special) -> Option<u32> {
    let count = COUNT.load(Ordering::Relaxed);
    let known = (0..count).rev().map(|at| SPECIAL | at);
    if let Some(state) = known.into_iter().find(|state| of_state(*state) == Some(&special)) {
        return Some(state);
    }
    let chunk = TABLE.get(count as usize / CHUNK)?;
    let chunk = chunk.get_or_init(|| (0..CHUNK).map(|_| OnceLock::new()).collect());
    chunk[count as usize % CHUNK].set(special).ok()?;
    COUNT.store(count + 1, Ordering::Relaxed);
    Some(SPECIAL | count)
}
