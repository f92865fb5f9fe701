//! Traces of Perfetto: packets of protocol buffers. See `README.md` and `SPEC.md`.
//!
//! ```text
//! packets     packets, one after the other; what follows damage
//! unpack      packets inside packets
//! sequences   texts by number, defaults: what packets say for those after them
//! clocks      clocks, and how their times are related
//! tracks      whose tracks are
//! values      annotations and messages as values
//! events      packets as events
//! ftrace      bundles of events of the kernel
//! survey      the first passes: classes, and an index of places in the order of time
//! reader      the last pass: events in bytes
//! ```
//!
//! A part of the crate `tracemill`, which names what programs should use: this API may change at any time.
#![forbid(unsafe_code)]

mod clocks;
mod event_field;
mod events;
mod ftrace;
mod packets;
mod reader;
mod sequences;
mod survey;
#[cfg(test)]
mod tests;
mod tracks;
mod unpack;
mod values;

use std::path::Path;
use std::sync::Arc;

use tracemill_format::calls::CallEvents;
use tracemill_format::perfetto::{is_trace_start, message};
use tracemill_format::{
    DataFile, EntryKind, Format, FoundTrace, OpenContext, OpenTrace, Section, Storage, Stream, slices,
};
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::Packet;
use tracemill_model::packet_list::PacketList;
use tracemill_model::schema::{ClockClass, ClockOrigin, EnvValue, Schema, StreamClassId};

use reader::{PerfettoReader, StreamOrigin};
use survey::{IndexedPacket, PerfettoSurvey};
use unpack::Unpacked;

/// Traces of Perfetto.
pub static FORMAT: Format = Format::new(&["perfetto"], "protocol buffers of Perfetto (TracePacket)", probe, open)
    .looks_like("a trace of Perfetto is a file of protocol buffers, often `.pftrace` or `.perfetto-trace`")
    .with_calls()
    .made_of_others();

/// Slices whose names stand in a field, or nowhere.
const CALLS: &[CallEvents] = &[CallEvents::by_symbol(slices::SLICE.0, slices::SLICE.1, slices::SYMBOL)];

/// Bytes that are looked at to recognize a file.
const PROBE_BYTES: usize = 4096;

fn probe(storage: &dyn Storage, path: &Path) -> bool {
    matches!(storage.kind(path), Some(EntryKind::File(_)))
        && storage.read_start(path, PROBE_BYTES).is_ok_and(|start| is_trace_start(&start))
}

fn open(context: &OpenContext<'_>, found: &[FoundTrace]) -> Vec<Result<OpenTrace>> {
    found.iter().map(|found| open_file(context.storage, found).map_err(|error| error.in_file(&found.path))).collect()
}

fn open_file(storage: &dyn Storage, found: &FoundTrace) -> Result<OpenTrace> {
    let file = storage.open(&found.path)?;
    let len = file.bytes().len();
    file.will_read(0, len);
    let (unpacked, faults) = match unpack::has_packed(file.bytes()) {
        true => unpack::unpack(storage, file.bytes())?,
        false => (Unpacked::plain(file.clone()), Vec::new()),
    };
    let mut survey = PerfettoSurvey::read(&unpacked, &found.path, faults);
    if file.len_now() < len as u64 {
        let message = "the file was cut while it was read";
        return Err(Error::malformed(message).at_offset(file.len_now()));
    }
    let base_ns = survey.first_ns().min(0);
    let mut schema = Schema::new(FORMAT.names[0]);
    let clock = schema.add_clock(clock(&survey, base_ns));
    for (name, value) in &survey.system {
        let number = value.parse::<i128>().ok().filter(|_| name != "kernel_version");
        let value = number.map_or_else(|| EnvValue::String(value.as_str().into()), EnvValue::Integer);
        schema.environment.push((name.as_str().into(), value));
    }
    let data = DataFile::single(found, file.clone());
    let (mut streams, mut origins) = (Vec::new(), Vec::new());
    let mut add =
        |name: String, class: StreamClassId, id: Option<u64>, packets: &[IndexedPacket], origin: StreamOrigin| {
            let mut list = PacketList::default();
            for (index, packet) in packets.iter().enumerate() {
                let cycles = |ns: i64| Some(ns.wrapping_sub(base_ns) as u64);
                // Packets that were unpacked lie nowhere in the file.
                let (at, end) = (unpacked.place(packet.bytes.0), unpacked.place(packet.bytes.1));
                list.push(&Packet {
                    index: index as u64,
                    begin_cycles: cycles(packet.range.0),
                    end_cycles: cycles(packet.range.1),
                    ..Packet::new(class, at, end.saturating_sub(at).min(len as u64 - at.min(len as u64)) * 8)
                });
            }
            origins.push((name.clone(), origin));
            streams.push(Stream { name, class, id, files: vec![data.clone()], packets: list });
        };
    if !survey.cpus.is_empty() {
        let class = survey.ftrace.add_to(&mut schema, clock);
        for ((machine, cpu), own) in &survey.cpus {
            let name = if *machine == 0 { format!("cpu{cpu}") } else { format!("machine{machine} cpu{cpu}") };
            add(name, class, None, &own.packets, StreamOrigin::Cpu(*machine, *cpu));
        }
    }
    for (kind, name) in ["threads", "processes", "others"].into_iter().enumerate() {
        let own = &mut survey.streams[kind];
        if !own.packets.is_empty() {
            let class = own.classes.add_to(&mut schema, clock, &survey.names);
            add(name.into(), class, None, &own.packets, StreamOrigin::Slices(kind));
        }
    }
    streams.sort_by(|a, b| a.name.cmp(&b.name));
    let (faults, warnings) = (std::mem::take(&mut survey.faults), std::mem::take(&mut survey.warnings));
    let section = packets_section(&survey);
    let reader = PerfettoReader { file, unpacked, path: found.path.clone(), survey, origins, base_ns };
    let mut trace = OpenTrace::from_file(found, schema, Arc::new(reader));
    trace.streams = streams;
    trace.sections.push(section);
    (trace.faults, trace.warnings) = (faults, warnings);
    Ok(trace)
}

/// The table of packets by what they hold.
fn packets_section(survey: &PerfettoSurvey) -> Section {
    let name = |kind: u32| message("TracePacket").and_then(|of| of.field(kind)).map(|field| field.name);
    Section::from_items(
        "packets",
        &survey.counts,
        &[
            ("packet", &|(kind, _)| Section::text(name(**kind).unwrap_or("unknown"))),
            ("field", &|(kind, _)| Section::number(**kind)),
            ("count", &|(_, (count, _))| Section::number(*count)),
            ("is_read", &|(_, (_, read))| Section::text(if *read > 0 { "yes" } else { "no" })),
        ],
    )
}

/// The clock of a trace, with the time of day at its zero when a snapshot says so.
fn clock(survey: &PerfettoSurvey, base_ns: i64) -> ClockClass {
    let class = ClockClass { has_made_cycles: true, ..ClockClass::nanoseconds("ns") };
    let (zero, origin) = match survey.clocks.unix_zero() {
        Some(zero) => (zero, ClockOrigin::Unix),
        None if survey.clocks.is_unix() => (0, ClockOrigin::Unix),
        None => (0, ClockOrigin::of_first_ns(survey.first_ns().into())),
    };
    ClockClass { offset_cycles: zero.saturating_add(base_ns.into()), origin, ..class }
}
