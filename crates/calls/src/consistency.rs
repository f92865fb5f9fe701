//! Do records contradict themselves? A look at them before they are shown, for what must be decided at the beginning.
//!
//! Each record of a call says its depth, so that what is missing shows: an exit at another depth than that of the call
//! which is open, an entry where the call before it at that depth was not left. Some functions do that by their nature:
//! a jump leaves calls without exits, a program that is replaced starts over, and a forked task that goes on with another
//! program leaves the `fork` that its parent entered. Nothing but the depths of open calls is kept.

use tracemill_format::calls::{CallKind, CallOrigin, CallRecord, CallSource, CallStream};

use crate::follow::{Special, special};
use crate::text::entry;

/// Can all calls be followed from their entries to their exits? Damage and lost records say no. `tids`: the tasks that are
/// wanted, unless it is empty.
pub(crate) fn is_consistent(source: &dyn CallSource, tids: &[i64]) -> bool {
    let mut functions = FunctionMeanings { source, tids, known: Vec::new() };
    (0..source.stream_count()).all(|stream| is_stream_consistent(source.open(stream), &mut functions))
}

fn is_stream_consistent(mut stream: Box<dyn CallStream + '_>, functions: &mut FunctionMeanings<'_>) -> bool {
    let mut block: Vec<CallRecord> = Vec::new();
    let mut depths = None;
    let mut goes_on = true;
    while goes_on {
        block.clear();
        goes_on = stream.fill(&mut block);
        for record in &block {
            if record.origin == CallOrigin::Task && !functions.is_wanted(record) {
                return true;
            }
            if record.kind == CallKind::Lost {
                return false;
            }
            // Kernel calls are shown only inside the calls of tasks, and may begin anywhere.
            if record.origin != CallOrigin::Task {
                continue;
            }
            let depths = depths.get_or_insert_with(|| Depths::new(is_forked(functions.source, record)));
            let is_sound = match record.kind {
                CallKind::Entry => depths.enter(record.depth, functions.special(record)),
                CallKind::Exit => depths.leave(record.depth, || functions.special(record)),
                CallKind::Event | CallKind::Lost => true,
            };
            if !is_sound {
                return false;
            }
        }
    }
    depths.is_none_or(|depths| !depths.has_left_fork) && stream.take_findings().faults.is_empty()
}

fn is_forked(source: &dyn CallSource, record: &CallRecord) -> bool {
    source.tasks().get(record.task as usize).is_some_and(|task| task.parent != 0)
}

/// Meanings of the names of functions, by their symbols.
struct FunctionMeanings<'a> {
    source: &'a dyn CallSource,
    tids: &'a [i64],
    known: Vec<Option<Special>>,
}

impl FunctionMeanings<'_> {
    /// Is the task of a record wanted? All records of a stream are of one task.
    #[inline]
    fn is_wanted(&self, record: &CallRecord) -> bool {
        let tid = || self.source.tasks().get(record.task as usize).map(|task| task.tid);
        self.tids.is_empty() || tid().is_some_and(|tid| self.tids.contains(&tid))
    }

    #[inline]
    fn special(&mut self, record: &CallRecord) -> Special {
        match self.known.get(record.symbol as usize) {
            Some(Some(special)) => *special,
            _ => self.look_up(record),
        }
    }

    #[cold]
    fn look_up(&mut self, record: &CallRecord) -> Special {
        // An address has no name that says anything.
        let found = match record.symbol {
            0 => Special::None,
            symbol => special(&self.source.symbol(symbol, record.address).name),
        };
        *entry(&mut self.known, record.symbol) = Some(found);
        found
    }
}

/// The depths of the open calls of a task: each is larger than the one before, so that they are as many as a depth has
/// values at most.
#[derive(Default)]
struct Depths {
    open: Vec<u16>,
    /// Calls may have been left without exits.
    has_jumped: bool,
    /// The next call at depth 0 may be the first one of another program.
    may_begin_anew: bool,
    /// The exit of the `fork` that began the task may come.
    may_leave_fork: bool,
    /// It came, and the task was not seen to go on with another program.
    has_left_fork: bool,
}

impl Depths {
    fn new(is_forked: bool) -> Depths {
        Depths { may_leave_fork: is_forked, ..Depths::default() }
    }

    /// Enters a call; false when the one before it at its depth was not left.
    #[inline]
    fn enter(&mut self, depth: u16, special: Special) -> bool {
        self.may_leave_fork = false;
        if self.open.last().is_some_and(|&last| last >= depth) && !self.enter_unbalanced(depth) {
            return false;
        }
        match special {
            Special::Longjmp => self.has_jumped = true,
            Special::Exec => (self.may_begin_anew, self.has_left_fork) = (true, false),
            Special::None | Special::Setjmp | Special::Fork => {}
        }
        self.open.push(depth);
        true
    }

    #[cold]
    fn enter_unbalanced(&mut self, depth: u16) -> bool {
        let is_other_program = self.may_begin_anew && depth == 0;
        if is_other_program {
            (self.has_jumped, self.may_begin_anew) = (false, false);
        }
        while self.open.last().is_some_and(|&last| last >= depth) {
            self.open.pop();
        }
        is_other_program || self.has_jumped
    }

    /// Leaves a call; false when another one is open, or none.
    #[inline]
    fn leave(&mut self, depth: u16, special: impl FnOnce() -> Special) -> bool {
        match self.open.last() {
            Some(&last) if last == depth => {
                self.open.pop();
                true
            }
            _ => self.leave_other(depth, special()),
        }
    }

    #[cold]
    fn leave_other(&mut self, depth: u16, special: Special) -> bool {
        if std::mem::take(&mut self.may_leave_fork) && special == Special::Fork {
            self.has_left_fork = true;
            return true;
        }
        // The second exit of a `setjmp`.
        while self.open.last().is_some_and(|&last| last >= depth) {
            self.open.pop();
        }
        self.has_jumped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follows(is_forked: bool, steps: &[(bool, u16, Special)]) -> bool {
        let mut depths = Depths::new(is_forked);
        let is_sound = steps.iter().all(|&(is_entry, depth, special)| match is_entry {
            true => depths.enter(depth, special),
            false => depths.leave(depth, || special),
        });
        is_sound && !depths.has_left_fork
    }

    #[test]
    fn what_is_missing_shows_in_the_depths() {
        const NONE: Special = Special::None;
        assert!(follows(false, &[(true, 0, NONE), (true, 2, NONE), (false, 2, NONE), (false, 0, NONE)]));
        assert!(follows(false, &[(true, 0, NONE), (true, 1, NONE)]), "open at the end");
        assert!(!follows(false, &[(false, 0, NONE)]), "an exit alone");
        assert!(!follows(false, &[(true, 0, NONE), (true, 1, NONE), (false, 0, NONE)]), "an exit is missing");
        assert!(!follows(false, &[(true, 0, NONE), (true, 0, NONE)]), "an exit is missing before an entry");
        assert!(!follows(false, &[(true, 0, NONE), (false, 1, NONE)]), "an entry is missing");
    }

    #[test]
    fn some_functions_do_not_simply_return() {
        const NONE: Special = Special::None;
        let jump = [(true, 0, NONE), (true, 1, Special::Setjmp), (false, 1, Special::Setjmp), (true, 1, NONE)];
        let back = [(true, 2, Special::Longjmp), (false, 1, Special::Setjmp), (false, 0, NONE)];
        assert!(follows(false, &[&jump[..], &back[..]].concat()));
        let replaced = [(true, 0, NONE), (true, 1, Special::Exec), (true, 0, NONE), (false, 0, NONE)];
        assert!(follows(false, &replaced));
        let forked = [(false, 1, Special::Fork), (true, 1, Special::Exec), (true, 0, NONE), (false, 0, NONE)];
        assert!(follows(true, &forked));
        assert!(!follows(true, &[(false, 1, Special::Fork), (true, 1, NONE), (false, 1, NONE)]), "the same program");
        assert!(!follows(true, &[(false, 1, Special::Fork), (false, 0, NONE), (true, 0, Special::Exec)]));
        assert!(!follows(false, &[(false, 1, Special::Fork)]), "no forked task");
    }
}
