//! Trace JSON of Chrome: the Trace Event Format, in which many programs write traces. See `README.md` and `SPEC.md`.
//!
//! ```text
//! document    where the events of a file are
//! event       an event: its members, its time
//! stacks      the dictionary of stacks, and events with one
//! survey      the first pass: classes, names, and an index of positions in the order of time
//! reader      the second pass: events in bytes
//! ```
//!
//! A part of the crate `tracemill`, which names what programs should use: this API may change at any time.
#![forbid(unsafe_code)]

mod document;
mod event;
mod reader;
mod stacks;
mod survey;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use tracemill_format::calls::CallEvents;
use tracemill_format::slices;
use tracemill_format::{DataFile, EntryKind, Format, FoundTrace, OpenContext, OpenTrace, Section, Storage, Stream};
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::Packet;
use tracemill_model::packet_list::PacketList;
use tracemill_model::schema::{ClockClass, ClockOrigin, EnvValue, Schema};

use reader::ChromeReader;
use survey::ChromeSurvey;

/// Trace JSON of Chrome.
pub static FORMAT: Format = Format::new(&["chrome"], "trace JSON of Chrome (Trace Event Format)", probe, open)
    .looks_like("trace JSON of Chrome is an object with a list `traceEvents`, or a list of objects with `ph`")
    .with_calls()
    .made_of_others();

/// Slices whose names stand in a field, or nowhere.
const CALLS: &[CallEvents] = &[CallEvents::by_symbol(slices::SLICE.0, slices::SLICE.1, slices::SYMBOL)];

/// Bytes that are looked at to recognize a file.
const PROBE_BYTES: usize = 64 << 10;

fn probe(storage: &dyn Storage, path: &Path) -> bool {
    matches!(storage.kind(path), Some(EntryKind::File(_)))
        && storage.read_start(path, PROBE_BYTES).is_ok_and(|start| document::is_document(&start))
}

fn open(context: &OpenContext<'_>, found: &[FoundTrace]) -> Vec<Result<OpenTrace>> {
    found.iter().map(|found| open_file(context.storage, found).map_err(|error| error.in_file(&found.path))).collect()
}

fn open_file(storage: &dyn Storage, found: &FoundTrace) -> Result<OpenTrace> {
    let file = storage.open(&found.path)?;
    let len = file.bytes().len();
    file.will_read(0, len);
    let mut survey = ChromeSurvey::read(file.bytes(), &found.path)?;
    if file.len_now() < len as u64 {
        let message = "the file was cut while it was read";
        return Err(Error::malformed(message).at_offset(file.len_now()));
    }
    let base_ns = survey.first_ns().min(0);
    let names = std::mem::take(&mut survey.names);
    let clock = clock(&survey, base_ns);
    let mut schema = Schema::new("chrome");
    let clock = schema.add_clock(clock);
    let class = survey.classes.add_to(&mut schema, clock, &names);
    for (name, value) in &survey.document.members {
        schema.environment.push((name.as_str().into(), EnvValue::String(value.as_str().into())));
    }
    let data = DataFile::single(found, file.clone());
    let mut packets = PacketList::default();
    for (index, packet) in survey.packets.iter().enumerate() {
        let cycles = |ns: i64| Some(ns.wrapping_sub(base_ns) as u64);
        packets.push(&Packet {
            index: index as u64,
            begin_cycles: cycles(packet.range.0),
            end_cycles: cycles(packet.range.1),
            ..Packet::new(class, packet.bytes.0, (packet.bytes.1 - packet.bytes.0) * 8)
        });
    }
    let stream = Stream { name: data.relative.clone(), class, id: None, files: vec![data], packets };
    let metadata = std::mem::take(&mut survey.metadata);
    let (faults, warnings) = (std::mem::take(&mut survey.faults), std::mem::take(&mut survey.warnings));
    let reader = ChromeReader { file, path: found.path.clone(), survey, base_ns };
    let mut trace = OpenTrace::from_file(found, schema, Arc::new(reader));
    trace.streams = vec![stream];
    (trace.faults, trace.warnings) = (faults, warnings);
    if !metadata.is_empty() {
        trace.sections.push(Section::from_items(
            "metadata",
            &metadata,
            &[
                ("pid", &|(pid, ..)| Section::number(*pid)),
                ("tid", &|(_, tid, ..)| Section::number(*tid)),
                ("name", &|(_, _, name, _)| Section::text(name)),
                ("value", &|(.., value)| value.as_deref().and_then(Section::text)),
            ],
        ));
    }
    Ok(trace)
}

/// The clock of a file. One that tracemill wrote says when its zero was.
fn clock(survey: &ChromeSurvey, base_ns: i64) -> ClockClass {
    let class = ClockClass { has_made_cycles: true, ..ClockClass::nanoseconds("ns") };
    let member = |name| survey.document.member(name);
    let own = member("base_ns").and_then(|text| text.parse::<i128>().ok()).filter(|_| survey.classes.is_own);
    let Some(own) = own else {
        let origin = ClockOrigin::of_first_ns(survey.first_ns().into());
        return ClockClass { offset_cycles: base_ns.into(), origin, ..class };
    };
    let origin = if member("base_origin") == Some("unix") { ClockOrigin::Unix } else { ClockOrigin::Unknown };
    ClockClass { offset_cycles: own.saturating_add(base_ns.into()), origin, ..class }
}
