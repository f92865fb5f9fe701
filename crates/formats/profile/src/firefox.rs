//! Profiles of the Firefox Profiler, in its processed form: tables by columns, for each thread or shared by all.

use std::ops::Range;

use tracemill_model::error::{Error, Result};

use crate::profile::{
    NONE, Profile, ProfileRecord, ProfileThread, ProfileUnit, RecordKind, named_thread, sampled_event, without_zeros,
};
use crate::speedscope::said;
use crate::tape::{Tape, elements, members};

/// Times are ms.
const MS: i32 = 6;

pub(crate) fn read(file: &[u8]) -> Result<Profile> {
    let mut profile = Profile::default();
    let (found, cut) = members(file);
    let value = |name: &str| {
        let member = found.iter().find(|member| member.name == name.as_bytes())?;
        Some((member.at, member.end))
    };
    let tape_of = |name: &str| {
        let (at, end) = value(name)?;
        Tape::read(&file[at..end?]).ok()
    };
    if let Some(meta) = tape_of("meta") {
        let start = meta.path(&["startTime"]).and_then(|at| meta.scaled(at, MS)).filter(|ns| *ns > 0);
        profile.start_ns = start.map(i128::from);
    }
    // Newer profiles have the tables once for all threads.
    let shared = tape_of("shared");
    let (list, _) = value("threads").ok_or_else(|| Error::malformed("the profile has no threads"))?;
    let (places, end) = elements(file, list);
    for place in places {
        match Tape::read(&file[place.clone()]) {
            Ok(tape) => {
                let thread = Thread { tape: &tape, shared: shared.as_ref() }.read(&mut profile, place);
                profile.threads.push(thread);
            }
            Err(fault) => {
                profile.fault(&format!("a thread cannot be read: {}", said(fault.reason)), place.start + fault.at)
            }
        }
    }
    if let Some(at) = end.or(cut) {
        profile.fault("the file ends in a thread, which is left out", at);
    }
    Ok(profile.finish())
}

struct Thread<'t> {
    tape: &'t Tape<'t>,
    shared: Option<&'t Tape<'t>>,
}

impl<'t> Thread<'t> {
    /// A table of the thread, or the shared one.
    fn table(&self, names: &[&str]) -> (&'t Tape<'t>, Option<usize>) {
        match (self.tape.path(names), self.shared) {
            (None, Some(shared)) => (shared, shared.path(names)),
            (found, _) => (self.tape, found),
        }
    }

    fn indexes(&self, names: &[&str]) -> Vec<Option<u32>> {
        let (tape, at) = self.table(names);
        tape.indexes(at)
    }

    fn read(&self, profile: &mut Profile, place: Range<usize>) -> ProfileThread {
        let tape = self.tape;
        let text = |name: &str| tape.path(&[name]).and_then(|at| tape.text(at)).unwrap_or_default();
        let integer = |name: &str| tape.path(&[name]).and_then(|at| tape.integer(at));
        let title = text("name");
        let (event, title) = sampled_event(&title);
        let thread = integer("tid");
        let (name, _) = match named_thread(title) {
            (name, number) if number == thread => (name, number),
            _ => (title, None),
        };
        let is_time = tape.path(&["samples", "weightType"]).and_then(|at| tape.text(at));
        let unit = match is_time.as_deref() {
            Some(b"tracing-ms") => ProfileUnit::Ns,
            Some(b"bytes") => ProfileUnit::Bytes,
            _ => ProfileUnit::Counts,
        };
        let mut found = ProfileThread {
            name: without_zeros(name),
            process: integer("pid"),
            thread,
            process_name: without_zeros(&text("processName")),
            place,
            unit,
            event: event.map(without_zeros),
            is_timed: true,
            records: Vec::new(),
        };
        let names = self.names(profile);
        let missing = self.samples(profile, &names, &mut found) + self.markers(&names, &mut found);
        if missing > 0 {
            let message = format!("{missing} samples, markers or stacks of a thread refer to what is not there");
            profile.fault(&message, found.place.start);
        }
        found
    }

    /// The texts of a thread, by their numbers.
    fn names(&self, profile: &mut Profile) -> Vec<u32> {
        let mut names = Vec::new();
        for list in ["stringArray", "stringTable"] {
            let (tape, at) = self.table(&[list]);
            for at in at.into_iter().flat_map(|at| tape.elements(at)) {
                names.push(profile.name(&tape.text(at).unwrap_or_default()));
            }
            if !names.is_empty() {
                break;
            }
        }
        names
    }

    /// Reads the samples; how many parts are missing.
    fn samples(&self, profile: &mut Profile, names: &[u32], thread: &mut ProfileThread) -> u64 {
        let mut missing = 0;
        let functions = self.indexes(&["funcTable", "name"]);
        let frames = self.indexes(&["frameTable", "func"]);
        let of_stacks = self.indexes(&["stackTable", "frame"]);
        let callers = self.indexes(&["stackTable", "prefix"]);
        let mut stacks: Vec<u32> = Vec::with_capacity(of_stacks.len());
        for (at, frame) in of_stacks.iter().enumerate() {
            let function = frame.and_then(|frame| frames.get(frame as usize).copied().flatten());
            let name = function.and_then(|function| functions.get(function as usize).copied().flatten());
            let name = name.and_then(|name| names.get(name as usize));
            let caller = match callers.get(at).copied().flatten() {
                None => NONE,
                Some(caller) if (caller as usize) < at => stacks[caller as usize],
                Some(_) => {
                    missing += 1;
                    NONE
                }
            };
            let Some(&name) = name else {
                missing += 1;
                stacks.push(caller);
                continue;
            };
            stacks.push(profile.stack(caller, name));
        }
        let tape = self.tape;
        let column = |name: &str, power| tape.column(tape.path(&["samples", name]), power);
        let (times, deltas) = (column("time", MS), column("timeDeltas", MS));
        let weights = column("weight", if thread.unit == ProfileUnit::Ns { MS } else { 0 });
        let mut at = 0i64;
        let stack_column = tape.path(&["samples", "stack"]);
        for (number, stack) in tape.indexes(stack_column).into_iter().enumerate() {
            match (times.get(number).copied().flatten(), deltas.get(number).copied().flatten()) {
                (Some(time), _) => at = time,
                (None, Some(delta)) => at = at.saturating_add(delta),
                (None, None) => missing += 1,
            }
            let node = match stack {
                None => NONE,
                Some(stack) => stacks.get(stack as usize).copied().unwrap_or_else(|| {
                    missing += 1;
                    NONE
                }),
            };
            let weight = weights.get(number).copied().flatten().unwrap_or(1).max(0) as u64;
            thread.records.push(ProfileRecord { at, weight, kind: RecordKind::Sample(node) });
        }
        missing
    }

    fn markers(&self, names: &[u32], thread: &mut ProfileThread) -> u64 {
        let tape = self.tape;
        let times = tape.column(tape.path(&["markers", "startTime"]), MS);
        let ends = tape.column(tape.path(&["markers", "endTime"]), MS);
        let mut missing = 0;
        for (number, name) in tape.indexes(tape.path(&["markers", "name"])).into_iter().enumerate() {
            let name = name.and_then(|name| names.get(name as usize));
            // A marker of an end has no beginning.
            let time = times.get(number).copied().flatten().or_else(|| ends.get(number).copied().flatten());
            match (name, time) {
                (Some(&name), Some(at)) => {
                    thread.records.push(ProfileRecord { at, weight: 0, kind: RecordKind::Marker(name) });
                }
                _ => missing += 1,
            }
        }
        missing
    }
}
