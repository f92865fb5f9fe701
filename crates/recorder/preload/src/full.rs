//! Calls that are selected: filters, triggers, and the ends of calls that are guessed. They act as uftrace's do.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::process::SETTINGS;
use crate::rules;
use crate::stubs::Saved;
use crate::system;
use crate::table::{self, Action};
use crate::thread::{ENTRY, EXIT, Frame, Hook, RECORD, Thread, Way};
use crate::values;

/// Is recording on? Triggers of all threads switch it.
static IS_ON: AtomicBool = AtomicBool::new(true);
/// Has a trigger ended it?
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// The selection that holds below the open calls.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct State {
    /// Open calls of functions that are let in.
    ins: u32,
    /// Open calls of functions that are left out.
    outs: u32,
    /// Depth that is left.
    depth: u64,
    /// Shortest time of a call, in counts of the clock.
    pub(crate) time: u64,
    /// Smallest size of a function.
    size: u64,
    /// Open calls that are recorded, or would be if recording were on.
    pub(crate) recorded: usize,
    /// Was recording on at the last call of this thread that switched it?
    was_on: bool,
}

/// The state of an open call beside its frame. A place without a call has no flags.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Extra {
    pub(crate) clock: u64,
    /// The stubs write these two as one number.
    pub(crate) flags: u32,
    recorded: u32,
    /// To be restored at the end: what [`State`] had before the call.
    depth: u64,
    time: u64,
    size: u64,
    /// Length of its arguments, while its entry waits.
    values: u32,
    /// Its return values, by their place in the table.
    results: [u64; 2],
}

impl Extra {
    const NONE: Extra =
        Extra { clock: 0, flags: 0, recorded: 0, depth: 0, time: 0, size: 0, values: 0, results: [0; 2] };
}

/// Bytes of a record with values, at most.
const WITH_VALUES: usize = RECORD + 16 + values::MOST;

/// The call is recorded, or would be if recording were on.
pub(crate) const RECORDED: u32 = 1;
/// Its entry is written.
pub(crate) const WRITTEN: u32 = 2;
/// Recording was off when it began.
const DISABLED: u32 = 4;
const LET_IN: u32 = 8;
const LEFT_OUT: u32 = 16;
const TRACED: u32 = 32;
const CALLER: u32 = 64;
/// The call changed nothing of the state but how many are recorded, and has no values left: the stubs may end it.
pub(crate) const SIMPLE: u32 = 128;

/// Must calls be looked at one by one?
pub(crate) fn is_wanted() -> bool {
    SETTINGS.is_full.load(Ordering::Relaxed)
}

/// Recording waits for a trigger.
pub(crate) fn start_off() {
    IS_ON.store(false, Ordering::Relaxed);
}

/// May the stubs take calls of functions without an action? They know of filters, of values and of the shortest time.
pub(crate) fn is_simple() -> bool {
    let others = table::DEPTH | table::SIZE | table::ON | table::OFF | table::FINISH;
    SETTINGS.nesting.load(Ordering::Relaxed) == usize::MAX
        && SETTINGS.size.load(Ordering::Relaxed) == 0
        && !SETTINGS.guesses.load(Ordering::Relaxed)
        && IS_ON.load(Ordering::Relaxed)
        && !rules::says(table::HAS_CALLERS)
        && !rules::has_any(others)
}

impl State {
    /// Are functions without an action left out?
    pub(crate) fn skips(&self) -> bool {
        self.outs > 0 || self.ins == 0 && rules::says(table::OPT_IN)
    }

    pub(crate) fn new() -> State {
        State {
            ins: 0,
            outs: 0,
            depth: SETTINGS.nesting.load(Ordering::Relaxed) as u64,
            time: SETTINGS.time.load(Ordering::Relaxed),
            size: SETTINGS.size.load(Ordering::Relaxed),
            recorded: 0,
            was_on: IS_ON.load(Ordering::Relaxed),
        }
    }
}

fn extra(thread: &Thread, at: usize) -> *mut Extra {
    // SAFETY: behind the frames, of which there are `limit`, the mapping has room for as many of these.
    unsafe { thread.selected.extras.add(at) }
}

/// Where the values of a call are put together; of use only when there are values.
fn buffer(thread: &Thread, at: usize) -> *mut u8 {
    extra(thread, thread.limit).cast::<u8>().wrapping_add(at * values::ROOM)
}

/// Bytes that a call needs beside its frame.
pub(crate) fn len() -> usize {
    size_of::<Extra>() + if rules::has_values() { values::ROOM } else { 0 }
}

/// Does an entry wait for the end of its call?
pub(crate) fn is_late() -> bool {
    SETTINGS.time.load(Ordering::Relaxed) > 0 || rules::says(table::IS_LATE)
}

/// The selection that an action makes of that which holds.
struct Selection {
    state: State,
    /// Is recording on from it on?
    is_on: bool,
    /// Is the call left out?
    is_skipped: bool,
}

fn is_let_in(state: &State) -> bool {
    state.ins > 0 || !rules::says(table::OPT_IN)
}

/// Is a call recorded, if recording is on?
fn is_selected(state: &State, is_skipped: bool, action: &Action) -> bool {
    !is_skipped && state.outs == 0 && is_let_in(state) && action.flags & table::ALONE == 0
}

#[inline(always)]
fn select(thread: &Thread, action: &Action) -> Selection {
    let is = |flag: u64| action.flags & flag != 0;
    let mut state = thread.selected.state;
    let mut is_on = IS_ON.load(Ordering::Relaxed);
    let is_skipped = 'skipped: {
        if state.outs > 0 || IS_OVER.load(Ordering::Relaxed) {
            break 'skipped true;
        }
        if is(table::FILTER_IN | table::FILTER_OUT) {
            state.ins += u32::from(is(table::FILTER_IN));
            state.outs += u32::from(is(table::FILTER_OUT));
            state.depth = SETTINGS.nesting.load(Ordering::Relaxed) as u64;
        } else if !is_let_in(&state) {
            break 'skipped true;
        }
        if is(table::DEPTH) {
            state.depth = action.depth;
        }
        if is(table::TIME) {
            state.time = action.time;
        }
        if is(table::SIZE) {
            state.size = action.size;
        }
        is_on = (is_on || is(table::ON)) && !is(table::OFF);
        let is_filter = is(table::FILTER_IN | table::FILTER_OUT | table::DEPTH | table::TIME | table::SIZE);
        if state.depth == 0 || action.own_size < state.size || is(table::ALONE) && !is_filter {
            break 'skipped true;
        }
        // Without a limit nobody counts: neither do the stubs.
        state.depth -= u64::from(thread.way != Way::Selected && !is(table::ALONE));
        false
    };
    Selection { state, is_on, is_skipped }
}

/// Would this call be recorded, if it were not too deep? Where that depends on its time or on what it calls nobody knows.
pub(crate) fn would_record(thread: &Thread, address: usize) -> bool {
    let action = rules::of(address);
    let Selection { state, is_on, is_skipped } = select(thread, action);
    let is_known = state.time == 0 && !rules::says(table::HAS_CALLERS);
    is_on && is_known && is_selected(&state, is_skipped, action)
}

/// A function was entered. Not 0 when there is no room for its record.
pub(crate) unsafe fn enter(
    thread: &mut Thread,
    place: usize,
    address: usize,
    hook: Hook,
    saved: Option<&Saved>,
) -> usize {
    let action = rules::of(address);
    // As the stubs do it, beside values.
    let is_plain = action.flags & !table::PATCH == 0 && action.results[1] == 0 && !thread.selected.skips;
    if is_plain && thread.way == Way::Selected && thread.selected.state.recorded == thread.depth {
        let arguments = rules::values(action.arguments);
        let saved = saved.filter(|_| !arguments.is_empty());
        if !thread.selected.is_late || saved.is_none() {
            // SAFETY: the caller's.
            return unsafe { enter_simply(thread, place, address, hook, saved, arguments) };
        }
    }
    let is = |flag: u64| action.flags & flag != 0;
    let before = thread.selected.state;
    let was_on = IS_ON.load(Ordering::Relaxed);
    let Selection { mut state, is_on, is_skipped } = select(thread, action);
    if is_skipped && hook != Hook::Told {
        thread.set_state(state);
        if is_on != was_on {
            IS_ON.store(is_on, Ordering::Relaxed);
        }
        return 0;
    }
    let is_recorded = is_selected(&state, is_skipped, action);
    let is_written = is_recorded && is_on && (!is_late() || is(table::FINISH));
    let arguments = rules::values(action.arguments);
    if is_written && !thread.has_room(if arguments.is_empty() { RECORD } else { WITH_VALUES }) {
        return 1;
    }
    // What is open is written before a pause, and before the end.
    let is_pause = is_recorded && !is_on && before.was_on;
    // SAFETY: frames below the depth are filled.
    if (is_pause || is_written) && unsafe { !flush(thread, thread.depth) } {
        return 1;
    }
    let flag = |has: bool, flag: u32| if has { flag } else { 0 };
    let mut flags = flag(is_recorded, RECORDED) | flag(!is_on, DISABLED);
    if !is_skipped {
        flags |= flag(is(table::FILTER_IN), LET_IN) | flag(is(table::FILTER_OUT), LEFT_OUT);
        flags |= flag(is(table::TRACED), TRACED) | flag(is(table::CALLER), CALLER);
    }
    let recorded = state.recorded;
    if is_recorded {
        state.recorded += 1;
        if is(table::ON | table::OFF) || is_pause {
            state.was_on = is_on;
        }
    }
    let at = thread.depth;
    // SAFETY: the caller's, for the place; there is room for this call, as the depth is below the limit.
    unsafe { thread.push(place, address, hook) };
    thread.set_state(state);
    if is_on != was_on {
        IS_ON.store(is_on, Ordering::Relaxed);
    }
    let clock = system::now();
    let (recorded_at, State { depth, time, size, .. }) = (recorded as u32, before);
    // SAFETY: as above.
    unsafe { extra(thread, at).write(Extra { clock, flags, recorded: recorded_at, depth, time, size, ..Extra::NONE }) };
    if let Some(saved) = saved.filter(|_| is_recorded && is_on && !arguments.is_empty()) {
        // SAFETY: as above; the stub saved the registers of the caller.
        unsafe {
            let len = values::collect(arguments, saved, thread.own.pid, buffer(thread, at));
            (*extra(thread, at)).values = len as u32;
        }
    }
    // SAFETY: as above.
    unsafe { (*extra(thread, at)).results = action.results };
    if is_written {
        // SAFETY: as above.
        let values = unsafe {
            (*extra(thread, at)).flags |= WRITTEN;
            (buffer(thread, at).cast_const(), (*extra(thread, at)).values as usize)
        };
        if !thread.record_at(ENTRY, recorded, address, Some(clock), values) {
            // A handler took the last place.
            thread.lose(1);
        }
    }
    // SAFETY: as above.
    unsafe {
        let entry = extra(thread, at);
        let has_values = action.results[1] > 0 || (*entry).values > 0 && !is_written;
        let is_same = flags == RECORDED && state.time == before.time && recorded == at;
        if thread.way == Way::Selected && is_same && !has_values {
            (*entry).flags |= SIMPLE;
        }
    }
    if is(table::FINISH) && !is_skipped {
        IS_OVER.store(true, Ordering::Relaxed);
    }
    0
}

/// A function was entered whose call changes nothing of the selection, with arguments when they are written at once. As
/// [`enter`].
unsafe fn enter_simply(
    thread: &mut Thread,
    place: usize,
    address: usize,
    hook: Hook,
    saved: Option<&Saved>,
    arguments: &[table::Value],
) -> usize {
    let at = thread.depth;
    if !thread.selected.is_late && !thread.has_room(if saved.is_none() { RECORD } else { WITH_VALUES }) {
        return 1;
    }
    let flags = if thread.selected.is_late { RECORDED | SIMPLE } else { RECORDED | SIMPLE | WRITTEN };
    // SAFETY: the caller's, for the place; there is room for this call, as the depth is below the limit, and beside it.
    unsafe {
        thread.selected.state.recorded = at + 1;
        thread.push(place, address, hook);
        let entry = extra(thread, at);
        ((*entry).clock, (*entry).recorded, (*entry).values) = (system::now(), at as u32, 0);
        (*entry).flags = flags;
        if !thread.selected.is_late {
            let buffer = buffer(thread, at);
            let len = saved.map_or(0, |saved| values::collect(arguments, saved, thread.own.pid, buffer));
            if !thread.record_at(ENTRY, at, address, Some((*entry).clock), (buffer.cast_const(), len)) {
                // A handler took the last place.
                thread.lose(1);
            }
        }
    }
    0
}

/// Writes the entries of open calls that wait. `false` when there is no room for all of them.
unsafe fn flush(thread: &mut Thread, depth: usize) -> bool {
    // SAFETY: frames below the depth are filled, and so is what they have beside them.
    unsafe {
        let mut first = depth;
        while first > 0 && (*extra(thread, first - 1)).flags & WRITTEN == 0 {
            first -= 1;
        }
        for at in first..depth {
            let (entry, Frame { address, .. }) = (extra(thread, at), *thread.frame(at));
            if (*entry).flags & (RECORDED | DISABLED) != RECORDED {
                continue;
            }
            // Before it is so: what a handler writes meanwhile would write it as well.
            (*entry).flags |= WRITTEN;
            let values = (buffer(thread, at).cast_const(), (*entry).values as usize);
            if !thread.record_at(ENTRY, (*entry).recorded as usize, address, Some((*entry).clock), values) {
                (*entry).flags &= !WRITTEN;
                return false;
            }
        }
    }
    true
}

/// Ends the innermost call. `false` when there is no room for its records.
pub(crate) unsafe fn close(thread: &mut Thread, saved: Option<&Saved>) -> bool {
    let at = thread.depth - 1;
    // SAFETY: frames below the depth are filled, and so is what they have beside them.
    unsafe {
        let entry = extra(thread, at);
        if (*entry).flags & SIMPLE != 0 && thread.busy == 0 {
            let is_over = match thread.selected.is_late {
                true => {
                    let is_short = system::now().wrapping_sub((*entry).clock) <= thread.selected.state.time;
                    (*entry).flags & WRITTEN == 0 && is_short
                }
                false => thread.record(EXIT, at, (*thread.frame(at)).address),
            };
            if is_over {
                (*entry).flags = 0;
                thread.selected.state.recorded = at;
                thread.depth = at;
                return true;
            }
        }
        let (Extra { clock, flags, recorded, depth, time, size, results, .. }, Frame { address, .. }) =
            (*extra(thread, at), *thread.frame(at));
        // As uftrace does, the end of a call that began before recording did is written.
        let is_recorded = flags & RECORDED != 0 && IS_ON.load(Ordering::Relaxed) && !IS_OVER.load(Ordering::Relaxed);
        if thread.busy == 0 && is_recorded {
            let now = system::now();
            let is_kept = flags & (WRITTEN | TRACED) != 0
                || now.wrapping_sub(clock) > thread.selected.state.time
                    && (flags & CALLER != 0 || !rules::says(table::HAS_CALLERS));
            let end = SETTINGS.guesses.load(Ordering::Relaxed).then(|| thread.guess(clock, now));
            let recorded = recorded as usize;
            if is_kept {
                if !flush(thread, at + 1) {
                    return false;
                }
                let results = if flags & SIMPLE == 0 { rules::values(results) } else { &[] };
                let buffer = buffer(thread, at);
                let len = match saved.filter(|_| !results.is_empty()) {
                    Some(saved) => values::collect(results, saved, thread.own.pid, buffer),
                    None => 0,
                };
                if !thread.record_at(EXIT, recorded, address, end, (buffer.cast_const(), len)) {
                    return false;
                }
            }
        }
        let mut state = thread.selected.state;
        state.ins -= u32::from(flags & LET_IN != 0);
        state.outs -= u32::from(flags & LEFT_OUT != 0);
        if flags & RECORDED != 0 {
            state.recorded = recorded as usize;
        }
        // What the stubs began has no more.
        if flags & SIMPLE == 0 {
            (state.depth, state.time, state.size) = (depth, time, size);
        }
        thread.set_state(state);
        ((*extra(thread, at)).flags, (*extra(thread, at)).values) = (0, 0);
    }
    thread.depth = at;
    true
}
