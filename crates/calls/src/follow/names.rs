//! Names of functions, and what they say about their calls.

use std::borrow::Cow;
use std::rc::Rc;

use tracemill_format::calls::{CallSymbol, event_id};

use super::Follower;
use crate::text::entry;

/// Properties of a symbol id.
#[derive(Clone, Debug)]
pub struct KnownSymbol {
    /// The symbol.
    pub symbol: Rc<CallSymbol>,
    pub(super) special: Special,
}

/// Meaning of the name of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    None,
    Exec,
    Setjmp,
    Longjmp,
    Fork,
}

impl Follower<'_> {
    /// Properties of the symbol of an address.
    pub fn known_symbol(&mut self, symbol: u32, address: u64) -> KnownSymbol {
        if let Some(Some(known)) = self.known.get(symbol as usize) {
            return known.clone();
        }
        let mut found = self.source.symbol(symbol, address);
        let is_event = symbol == 0 || found.name.starts_with('<');
        if let Cow::Owned(escaped) = self.options.colors.escaped(&found.name) {
            found.name = escaped;
        }
        if is_event {
            match address {
                event_id::SCHED_IN | event_id::SCHED_OUT | event_id::SCHED_BOTH => found.name = SCHEDULE.into(),
                event_id::SCHED_OUT_PREEMPTED | event_id::SCHED_BOTH_PREEMPTED => found.name = PREEMPTED.into(),
                _ => {}
            }
        }
        let known = KnownSymbol { special: special(&found.name), symbol: Rc::new(found) };
        // Addresses without symbol share the ids of their modules: their names differ.
        if is_event {
            return known;
        }
        *entry(&mut self.known, symbol) = Some(known.clone());
        known
    }

    #[inline]
    pub(super) fn special(&mut self, symbol: u32, address: u64) -> Special {
        match self.known.get(symbol as usize) {
            Some(Some(known)) => known.special,
            _ if symbol == 0 => Special::None,
            _ => self.known_symbol(symbol, address).special,
        }
    }
}

/// Name of a time without processor.
pub(crate) const SCHEDULE: &str = "linux:schedule";
/// Name of one that the system has chosen.
pub(crate) const PREEMPTED: &str = "linux:schedule (pre-empted)";

/// Names that say what a function does to the stack.
pub(crate) fn special(name: &str) -> Special {
    match name {
        "execl" | "execlp" | "execle" | "execv" | "execve" | "execvp" | "execvpe" => Special::Exec,
        "setjmp" | "_setjmp" | "sigsetjmp" | "__sigsetjmp" => Special::Setjmp,
        "longjmp" | "siglongjmp" | "__longjmp_chk" => Special::Longjmp,
        "fork" | "vfork" | "daemon" => Special::Fork,
        _ => Special::None,
    }
}
