//! Calls that are selected: filters, triggers, and the ends of calls that are guessed. They act as uftrace's do.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::record::{CallValues, RECORD, RecordKind};
use crate::same_thread::SameThread;
use crate::saved::Saved;
use crate::settings::SETTINGS;
use crate::table::{self, Action, CallValue};
use crate::thread::{FrameState, Hook, RecordPath, Selection, StartedCall, ThreadData};
use crate::{rules, system, values};

/// Is recording on? Triggers of all threads switch it.
static IS_ON: AtomicBool = AtomicBool::new(true);
/// Has a trigger ended it?
static IS_OVER: AtomicBool = AtomicBool::new(false);

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
/// The call changed nothing of the selection but how many are recorded, and has no values left: the stubs may end it.
pub(crate) const SIMPLE: u32 = 128;

/// Must calls be looked at one by one?
pub(crate) fn is_wanted() -> bool {
    SETTINGS.is_selective.get()
}

/// Recording waits for a trigger.
pub(crate) fn start_off() {
    IS_ON.store(false, Ordering::Relaxed);
}

/// Is recording on?
pub(crate) fn is_recording() -> bool {
    IS_ON.load(Ordering::Relaxed) && !IS_OVER.load(Ordering::Relaxed)
}

/// May the stubs take calls of functions without an action? They know of filters, of values and of the shortest time.
pub(crate) fn is_simple() -> bool {
    let others = table::DEPTH | table::SIZE | table::ON | table::OFF | table::FINISH;
    SETTINGS.nesting.get() == usize::MAX
        && SETTINGS.size.get() == 0
        && !SETTINGS.guesses.get()
        && IS_ON.load(Ordering::Relaxed)
        && !rules::has_flag(table::HAS_CALLERS)
        && !rules::has_any(others)
}

/// The selection of a thread that begins.
pub(crate) fn begin() -> Selection {
    Selection {
        ins: 0,
        outs: 0,
        depth: SETTINGS.nesting.get() as u64,
        time: SETTINGS.time.get(),
        size: SETTINGS.size.get(),
        recorded: 0,
        was_on: IS_ON.load(Ordering::Relaxed),
    }
}

/// Are functions without an action left out?
pub(crate) fn skips(selection: &Selection) -> bool {
    selection.outs > 0 || selection.ins == 0 && rules::has_flag(table::OPT_IN)
}

/// Changes the selection that holds now.
fn set_selection(thread: &ThreadData, selection: Selection) {
    thread.selected.now.set(selection);
    thread.selected.skips.set(skips(&selection));
}

/// Where the values of a call are put together; of use only when there are values.
fn buffer(thread: &ThreadData, at: usize) -> *mut u8 {
    let behind_extras = thread.selected.extras.wrapping_add(thread.frames);
    behind_extras.cast_mut().cast::<u8>().wrapping_add(at * values::ROOM)
}

/// Bytes that a call needs beside its frame.
pub(crate) fn len() -> usize {
    size_of::<FrameState>() + if rules::has_values() { values::ROOM } else { 0 }
}

/// Does an entry wait for the end of its call?
pub(crate) fn is_late() -> bool {
    SETTINGS.time.get() > 0 || rules::has_flag(table::IS_LATE)
}

/// The selection that an action makes of the one that holds.
struct Decision {
    selection: Selection,
    /// Is recording on from it on?
    is_on: bool,
    /// Is the call left out?
    is_skipped: bool,
}

fn is_let_in(selection: &Selection) -> bool {
    selection.ins > 0 || !rules::has_flag(table::OPT_IN)
}

impl Action {
    /// Has it one of these flags?
    #[inline(always)]
    fn has_flag(&self, flags: u64) -> bool {
        self.flags & flags != 0
    }
}

impl Decision {
    /// Is the call recorded, if recording is on?
    fn records(&self, action: &Action) -> bool {
        !self.is_skipped && self.selection.outs == 0 && is_let_in(&self.selection) && !action.has_flag(table::ALONE)
    }
}

#[inline(always)]
fn decide(thread: &ThreadData, action: &Action) -> Decision {
    let mut selection = thread.selected.now.get();
    let mut is_on = IS_ON.load(Ordering::Relaxed);
    let is_skipped = 'skipped: {
        if selection.outs > 0 || IS_OVER.load(Ordering::Relaxed) {
            break 'skipped true;
        }
        if action.has_flag(table::FILTER_IN | table::FILTER_OUT) {
            selection.ins += u32::from(action.has_flag(table::FILTER_IN));
            selection.outs += u32::from(action.has_flag(table::FILTER_OUT));
            selection.depth = SETTINGS.nesting.get() as u64;
        } else if !is_let_in(&selection) {
            break 'skipped true;
        }
        if action.has_flag(table::DEPTH) {
            selection.depth = action.depth;
        }
        if action.has_flag(table::TIME) {
            selection.time = action.time;
        }
        if action.has_flag(table::SIZE) {
            selection.size = action.size;
        }
        is_on = (is_on || action.has_flag(table::ON)) && !action.has_flag(table::OFF);
        let is_filter =
            action.has_flag(table::FILTER_IN | table::FILTER_OUT | table::DEPTH | table::TIME | table::SIZE);
        if selection.depth == 0 || action.own_size < selection.size || action.has_flag(table::ALONE) && !is_filter {
            break 'skipped true;
        }
        // Without a limit the depth is not counted: the stubs do not count it either.
        selection.depth -= u64::from(thread.path != RecordPath::Selected && !action.has_flag(table::ALONE));
        false
    };
    Decision { selection, is_on, is_skipped }
}

/// Would this call be recorded, if it were not too deep? Not where that depends on its time or on what it calls.
pub(crate) fn would_record(thread: &ThreadData, address: usize) -> bool {
    let action = rules::action_at(address);
    let decision = decide(thread, action);
    let is_known = decision.selection.time == 0 && !rules::has_flag(table::HAS_CALLERS);
    decision.is_on && is_known && decision.records(action)
}

/// A function was entered. `false` when there is no room for its record.
///
/// # Safety
/// As for [`ThreadData::push`]; what the stub saved are the registers of the caller.
pub(crate) unsafe fn enter(thread: &ThreadData, call: StartedCall<'_>) -> bool {
    let action = rules::action_at(call.address);
    // As the stubs do it, with values as well.
    let is_plain = action.flags & !table::PATCH == 0 && action.results[1] == 0 && !thread.selected.skips.get();
    let recorded = thread.selected.now.recorded.get();
    if is_plain && thread.path == RecordPath::Selected && recorded == thread.depth.get() {
        let arguments = rules::values(action.arguments);
        let saved = call.saved.filter(|_| !arguments.is_empty());
        if !thread.selected.is_late || saved.is_none() {
            // SAFETY: the caller's.
            return unsafe { enter_simply(thread, StartedCall { saved, ..call }, arguments) };
        }
    }
    let decision = decide(thread, action);
    if decision.is_skipped && call.hook != Hook::Instrumented {
        set_selection(thread, decision.selection);
        switch(decision.is_on);
        return true;
    }
    // SAFETY: the caller's.
    unsafe { enter_decided(thread, call, action, decision) }
}

/// Switches recording, unless it is so.
#[inline(always)]
fn switch(is_on: bool) {
    if IS_ON.load(Ordering::Relaxed) != is_on {
        IS_ON.store(is_on, Ordering::Relaxed);
    }
}

/// Begins a call that has a frame. As [`enter`].
///
/// # Safety
/// As for [`enter`].
#[inline(always)]
unsafe fn enter_decided(thread: &ThreadData, call: StartedCall<'_>, action: &Action, decision: Decision) -> bool {
    let is_recorded = decision.records(action);
    let Decision { mut selection, is_on, is_skipped } = decision;
    let before = thread.selected.now.get();
    let is_written = is_recorded && is_on && (!is_late() || action.has_flag(table::FINISH));
    let arguments = rules::values(action.arguments);
    if is_written && !thread.has_room(if arguments.is_empty() { RECORD } else { WITH_VALUES }) {
        return false;
    }
    // Open calls are written before a pause, and before the end.
    let is_pause = is_recorded && !is_on && before.was_on;
    if (is_pause || is_written) && !flush(thread, thread.depth.get()) {
        return false;
    }
    let flag = |has: bool, flag: u32| if has { flag } else { 0 };
    let mut flags = flag(is_recorded, RECORDED) | flag(!is_on, DISABLED);
    if !is_skipped {
        flags |= flag(action.has_flag(table::FILTER_IN), LET_IN) | flag(action.has_flag(table::FILTER_OUT), LEFT_OUT);
        flags |= flag(action.has_flag(table::TRACED), TRACED) | flag(action.has_flag(table::CALLER), CALLER);
    }
    let recorded = selection.recorded;
    if is_recorded {
        selection.recorded += 1;
        if action.has_flag(table::ON | table::OFF) || is_pause {
            selection.was_on = is_on;
        }
    }
    let at = thread.depth.get();
    // SAFETY: the caller's; there is room for this call, as the depth is below the limit.
    unsafe { thread.push(call) };
    set_selection(thread, selection);
    switch(is_on);
    let extra = thread.extra(at);
    let clock = system::now();
    extra.clock.set(clock);
    extra.flags.set(flags);
    extra.recorded.set(recorded as u32);
    extra.depth.set(before.depth);
    extra.time.set(before.time);
    extra.size.set(before.size);
    let values = match call.saved.filter(|_| is_recorded && is_on && !arguments.is_empty()) {
        // SAFETY: there is room for the values of each call; the caller's, for the registers.
        Some(saved) => unsafe { values::collect(arguments, saved, thread.pid.get(), buffer(thread, at)) },
        None => 0,
    };
    extra.values.set(values as u32);
    extra.results[0].set(action.results[0]);
    extra.results[1].set(action.results[1]);
    if is_written {
        extra.flags.set(flags | WRITTEN);
        let values = CallValues { at: buffer(thread, at), len: values };
        if !thread.record_at(RecordKind::Entry, recorded, call.address, Some(clock), values) {
            // A handler took the last place.
            thread.count_lost(1);
        }
    }
    let has_values = action.results[1] > 0 || values > 0 && !is_written;
    let is_same = flags == RECORDED && selection.time == before.time && recorded == at;
    if thread.path == RecordPath::Selected && is_same && !has_values {
        extra.flags.change(|flags| flags | SIMPLE);
    }
    if action.has_flag(table::FINISH) && !is_skipped {
        IS_OVER.store(true, Ordering::Relaxed);
    }
    true
}

/// A function was entered whose call changes nothing of the selection, with arguments when they are written at once. As
/// [`enter`].
///
/// # Safety
/// As for [`enter`].
unsafe fn enter_simply(thread: &ThreadData, call: StartedCall<'_>, arguments: &[CallValue]) -> bool {
    let at = thread.depth.get();
    let is_late = thread.selected.is_late;
    if !is_late && !thread.has_room(if call.saved.is_none() { RECORD } else { WITH_VALUES }) {
        return false;
    }
    thread.selected.now.recorded.set(at + 1);
    // SAFETY: the caller's; there is room for this call, as the depth is below the limit.
    unsafe { thread.push(call) };
    let extra = thread.extra(at);
    let clock = system::now();
    extra.clock.set(clock);
    extra.recorded.set(at as u32);
    extra.values.set(0);
    extra.flags.set(if is_late { RECORDED | SIMPLE } else { RECORDED | SIMPLE | WRITTEN });
    if !is_late {
        let buffer = buffer(thread, at);
        let len = match call.saved {
            // SAFETY: there is room for the values of each call; the caller's, for the registers.
            Some(saved) => unsafe { values::collect(arguments, saved, thread.pid.get(), buffer) },
            None => 0,
        };
        if !thread.record_at(RecordKind::Entry, at, call.address, Some(clock), CallValues { at: buffer, len }) {
            // A handler took the last place.
            thread.count_lost(1);
        }
    }
    true
}

/// Writes the entries of open calls that wait. `false` when there is no room for all of them.
pub(crate) fn flush(thread: &ThreadData, depth: usize) -> bool {
    let mut first = depth;
    while first > 0 && thread.extra(first - 1).flags.get() & WRITTEN == 0 {
        first -= 1;
    }
    for at in first..depth {
        let extra = thread.extra(at);
        let flags = extra.flags.get();
        if flags & (RECORDED | DISABLED) != RECORDED {
            continue;
        }
        // Before it is so: what a handler writes meanwhile would write it as well.
        extra.flags.set(flags | WRITTEN);
        let (recorded, address) = (extra.recorded.get() as usize, thread.frame(at).address.get());
        let values = CallValues { at: buffer(thread, at), len: extra.values.get() as usize };
        if !thread.record_at(RecordKind::Entry, recorded, address, Some(extra.clock.get()), values) {
            extra.flags.set(flags);
            return false;
        }
    }
    true
}

/// Ends the innermost call. `false` when there is no room for its records.
pub(crate) fn close(thread: &ThreadData, saved: Option<&Saved>) -> bool {
    let at = thread.depth.get() - 1;
    let extra = thread.extra(at);
    let flags = extra.flags.get();
    if flags & SIMPLE != 0 && thread.busy.get() == 0 && close_simply(thread, at, flags) {
        return true;
    }
    // As uftrace does, the end of a call that began before recording did is written.
    let is_recorded = flags & RECORDED != 0 && IS_ON.load(Ordering::Relaxed) && !IS_OVER.load(Ordering::Relaxed);
    if thread.busy.get() == 0 && is_recorded && !record_exit(thread, at, flags, saved) {
        return false;
    }
    let mut selection = thread.selected.now.get();
    selection.ins -= u32::from(flags & LET_IN != 0);
    selection.outs -= u32::from(flags & LEFT_OUT != 0);
    if flags & RECORDED != 0 {
        selection.recorded = extra.recorded.get() as usize;
    }
    // Calls that the stubs began have no more.
    if flags & SIMPLE == 0 {
        (selection.depth, selection.time, selection.size) = (extra.depth.get(), extra.time.get(), extra.size.get());
    }
    set_selection(thread, selection);
    extra.flags.set(0);
    extra.values.set(0);
    thread.depth.set(at);
    true
}

/// Ends a call as the stubs do. `false` when there is no room for its record, or when its entry waits and is to be written.
#[inline(always)]
fn close_simply(thread: &ThreadData, at: usize, flags: u32) -> bool {
    let extra = thread.extra(at);
    let is_over = if thread.selected.is_late {
        let is_short = system::now().wrapping_sub(extra.clock.get()) <= thread.selected.now.time.get();
        flags & WRITTEN == 0 && is_short
    } else {
        thread.record(RecordKind::Exit, at, thread.frame(at).address.get())
    };
    if is_over {
        extra.flags.set(0);
        thread.selected.now.recorded.set(at);
        thread.depth.set(at);
    }
    is_over
}

/// Writes the end of a call that is kept, and before it the entries that wait. `false` when there is no room.
#[inline(always)]
fn record_exit(thread: &ThreadData, at: usize, flags: u32, saved: Option<&Saved>) -> bool {
    let extra = thread.extra(at);
    let (clock, now) = (extra.clock.get(), system::now());
    let is_kept = flags & (WRITTEN | TRACED) != 0
        || now.wrapping_sub(clock) > thread.selected.now.time.get()
            && (flags & CALLER != 0 || !rules::has_flag(table::HAS_CALLERS));
    let end = SETTINGS.guesses.get().then(|| match thread.frame(at).is_instrumented() {
        true => guess(thread, clock, now),
        // The end of a call to a library is known. What is guessed later is not before it.
        false => {
            thread.guessed.set(now);
            now
        }
    });
    if !is_kept {
        return true;
    }
    if !flush(thread, at + 1) {
        return false;
    }
    let results = match flags & SIMPLE {
        0 => rules::values([extra.results[0].get(), extra.results[1].get()]),
        _ => &[],
    };
    let buffer = buffer(thread, at);
    let len = match saved.filter(|_| !results.is_empty()) {
        // SAFETY: there is room for the values of each call; the stub saved the registers.
        Some(saved) => unsafe { values::collect(results, saved, thread.pid.get(), buffer) },
        None => 0,
    };
    let (recorded, address) = (extra.recorded.get() as usize, thread.frame(at).address.get());
    thread.record_at(RecordKind::Exit, recorded, address, end, CallValues { at: buffer, len })
}

/// When a call ended that is found to be over: half way from its beginning, and not before the last record.
fn guess(thread: &ThreadData, begin: u64, now: u64) -> u64 {
    let guessed = (begin + now.wrapping_sub(begin) / 2).max(thread.guessed.get() + 1).min(now);
    thread.guessed.set(guessed);
    guessed
}
