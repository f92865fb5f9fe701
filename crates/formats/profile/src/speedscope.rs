//! Profiles of speedscope: frames that all share, and profiles of samples, or of calls that begin and end.

use std::ops::Range;

use tracemill_model::error::{Error, Result};

use crate::profile::{
    NONE, Profile, ProfileRecord, ProfileThread, ProfileUnit, RecordKind, named_thread, sampled_event, without_zeros,
};
use crate::tape::{Tape, elements, members};

/// The unit of the values of a profile, and the power of ten from it to ns.
fn unit_of(text: &[u8]) -> (ProfileUnit, i32) {
    match text {
        b"nanoseconds" => (ProfileUnit::Ns, 0),
        b"microseconds" => (ProfileUnit::Ns, 3),
        b"milliseconds" => (ProfileUnit::Ns, 6),
        b"seconds" => (ProfileUnit::Ns, 9),
        b"bytes" => (ProfileUnit::Bytes, 0),
        _ => (ProfileUnit::Counts, 0),
    }
}

pub(crate) fn read(file: &[u8]) -> Result<Profile> {
    let mut profile = Profile::default();
    let (found, cut) = members(file);
    let member = |name: &str| found.iter().find(|member| member.name == name.as_bytes());
    let shared = member("shared").ok_or_else(|| Error::malformed("the profile has no frames (`shared`)"))?;
    let frames = match shared.end {
        Some(end) => frames(&mut profile, &file[shared.at..end], shared.at),
        None => return Err(Error::malformed("the file ends in its frames").at_offset(file.len() as u64)),
    };
    let list = member("profiles").ok_or_else(|| Error::malformed("the file has no profiles"))?;
    let (places, end) = elements(file, list.at);
    for place in places {
        let text = &file[place.clone()];
        match Tape::read(text) {
            Ok(tape) => match thread(&mut profile, &tape, &frames, place.clone()) {
                Some(thread) => profile.threads.push(thread),
                None => profile.fault("a profile is neither `sampled` nor `evented`", place.start),
            },
            Err(fault) => {
                profile.fault(&format!("a profile cannot be read: {}", said(fault.reason)), place.start + fault.at)
            }
        }
    }
    if let Some(at) = end.or(cut) {
        profile.fault("the file ends in a profile, which is left out", at);
    }
    Ok(profile.finish())
}

/// The reason of a fault, in words.
pub(crate) fn said(reason: &str) -> &str {
    if reason.is_empty() { "it is not complete" } else { reason }
}

/// The frames that all profiles share: the numbers of their names.
fn frames(profile: &mut Profile, text: &[u8], place: usize) -> Vec<u32> {
    let tape = match Tape::read(text) {
        Ok(tape) => tape,
        Err(fault) => {
            profile.fault(&format!("the frames cannot be read: {}", said(fault.reason)), place + fault.at);
            return Vec::new();
        }
    };
    let list = tape.path(&["frames"]);
    let mut frames = Vec::new();
    for at in list.into_iter().flat_map(|at| tape.elements(at)) {
        let text = |name: &str| tape.member(at, name).and_then(|at| tape.text(at)).filter(|text| !text.is_empty());
        let name = text("name").unwrap_or_default();
        let name = match text("file") {
            Some(file) => [&*name, b" (", &*file, b")"].concat(),
            None => name.into_owned(),
        };
        frames.push(profile.name(&name));
    }
    frames
}

/// The records of a profile; `None` when it is of no known type.
fn thread(profile: &mut Profile, tape: &Tape<'_>, frames: &[u32], place: Range<usize>) -> Option<ProfileThread> {
    let text = |name: &str| tape.path(&[name]).and_then(|at| tape.text(at)).unwrap_or_default();
    let (unit, power) = unit_of(&text("unit"));
    let start = tape.path(&["startValue"]).and_then(|at| tape.scaled(at, power)).unwrap_or(0);
    let title = text("name");
    let (event, title) = sampled_event(&title);
    let (name, number) = named_thread(title);
    let mut thread = ProfileThread {
        name: without_zeros(name),
        thread: number,
        place: place.clone(),
        unit,
        event: event.map(without_zeros),
        is_timed: unit == ProfileUnit::Ns,
        ..ProfileThread::default()
    };
    match &*text("type") {
        b"sampled" => sampled(profile, tape, frames, &mut thread, (start, power)),
        b"evented" => evented(profile, tape, frames, &mut thread, power),
        _ => return None,
    }
    Some(thread)
}

/// A sample begins where those before it end, as speedscope shows them.
fn sampled(
    profile: &mut Profile,
    tape: &Tape<'_>,
    frames: &[u32],
    thread: &mut ProfileThread,
    (start, power): (i64, i32),
) {
    let weights = tape.column(tape.path(&["weights"]), power);
    let (mut at, mut missing) = (start, 0);
    for (number, stack) in tape.path(&["samples"]).into_iter().flat_map(|at| tape.elements(at)).enumerate() {
        let mut node = NONE;
        for frame in tape.elements(stack) {
            match tape.index(frame).and_then(|frame| frames.get(frame as usize)) {
                Some(&name) => node = profile.stack(node, name),
                None => missing += 1,
            }
        }
        let weight = weights.get(number).copied().flatten().unwrap_or(0);
        thread.records.push(ProfileRecord { at, weight: weight.max(0) as u64, kind: RecordKind::Sample(node) });
        at = at.saturating_add(weight.max(0));
    }
    tell_missing(profile, thread, missing);
}

fn evented(profile: &mut Profile, tape: &Tape<'_>, frames: &[u32], thread: &mut ProfileThread, power: i32) {
    thread.is_timed = true;
    let mut missing = 0;
    for event in tape.path(&["events"]).into_iter().flat_map(|at| tape.elements(at)) {
        let member = |name: &str| tape.member(event, name);
        let name = member("frame").and_then(|at| tape.index(at)).and_then(|frame| frames.get(frame as usize));
        let kind = member("type").and_then(|at| tape.text(at));
        let kind = match (kind.as_deref(), name) {
            (Some(b"O"), Some(&name)) => RecordKind::Entry(name),
            (Some(b"C"), Some(&name)) => RecordKind::Exit(name),
            _ => {
                missing += 1;
                continue;
            }
        };
        let Some(at) = member("at").and_then(|at| tape.scaled(at, power)) else {
            missing += 1;
            continue;
        };
        thread.records.push(ProfileRecord { at, weight: 0, kind });
    }
    tell_missing(profile, thread, missing);
}

fn tell_missing(profile: &mut Profile, thread: &ProfileThread, missing: u64) {
    if missing > 0 {
        let message = format!("{missing} frames or events of a profile name no frame or no time, and are left out");
        profile.fault(&message, thread.place.start);
    }
}
