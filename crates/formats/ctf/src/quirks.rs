//! Mistakes of known producers in the times of their packets, mended when the trace is opened.
//!
//! | quirk | producers | mended |
//! |---|---|---|
//! | an event after the packet's end | lttng-ust before 2.11; lttng-modules before 2.9.13, 2.10.10, 2.11 | a packet ends where the next begins, the last one at its last event |
//! | an event before the packet's beginning | barectf before 2.3.1 | from the second packet on, a packet begins at its first event, and the one before ends there |
//! | no end time | lttng-crash, all versions of LTTng | a packet ends where the next begins, the last one at its last event |

use std::sync::Arc;

use tracemill_codec::spine::SpineSink;
use tracemill_codec::trace_plans::TracePlans;
use tracemill_model::error::Error;
use tracemill_model::packet::Packet;
use tracemill_model::schema::{EnvValue, EventClassId, Schema};

use super::packets;
use tracemill_format::{PacketReader, Stream};

/// The producer as the environment names it: name, major, minor, patch level.
fn producer(schema: &Schema) -> Option<(&str, (i128, i128, i128))> {
    let Some(EnvValue::String(name)) = schema.env("tracer_name") else { return None };
    let number = |names: &[&str]| {
        names.iter().find_map(|name| match schema.env(name) {
            Some(EnvValue::Integer(value)) => Some(*value),
            _ => None,
        })
    };
    let major = number(&["tracer_major"])?;
    let patch = number(&["tracer_patch", "tracer_patchlevel"]);
    Some((name, (major, number(&["tracer_minor"])?, patch.unwrap_or(0))))
}

/// Mends the packets of a stream, and says so once.
pub(crate) fn repair(schema: &Schema, plans: &Arc<TracePlans>, stream: &mut Stream, warnings: &mut Vec<Error>) {
    let Some((name, version)) = producer(schema) else { return };
    if stream.packets.iter().all(|packet| packet.begin_cycles.is_none()) {
        return;
    }
    match name {
        "lttng-ust" if version < (2, 11, 0) => end_at_next(plans, stream, |_| true),
        "lttng-modules" if has_event_after_packet(version) => end_at_next(plans, stream, |_| true),
        "barectf" if version < (2, 3, 1) => begin_at_first_event(plans, stream),
        _ => {}
    }
    if name.starts_with("lttng-") {
        let is_crash = |packet: &Packet| packet.end_cycles == Some(0) && packet.begin_cycles.is_some_and(|at| at != 0);
        if stream.packets.iter().any(|packet| is_crash(&packet)) {
            end_at_next(plans, stream, is_crash);
            let message =
                format!("stream `{}` has packets without an end time, as lttng-crash leaves them", stream.name);
            let warning = Error::inconsistent(message);
            warnings.push(warning.with_help("they end at the next packet's beginning or at their last event"));
        }
    }
}

fn has_event_after_packet(version: (i128, i128, i128)) -> bool {
    match version {
        (2, 10, patch) => patch < 10,
        (2, 9, patch) => patch < 13,
        version => version < (2, 9, 0),
    }
}

fn end_at_next(plans: &Arc<TracePlans>, stream: &mut Stream, which: impl Fn(&Packet) -> bool) {
    for at in 0..stream.packets.len() {
        if !which(&stream.packets.at(at)) {
            continue;
        }
        let next = stream.packets.get(at + 1).and_then(|next| next.begin_cycles);
        let end = next.or_else(|| event_times(plans, stream, at, usize::MAX).map(|(_, last)| last));
        let mut stored = None;
        stream.packets.update(at, |packet| {
            stored = std::mem::replace(&mut packet.end_cycles, end.or(packet.begin_cycles));
            // lttng-crash stores no end.
            stored = stored.filter(|stored| packet.begin_cycles.is_none_or(|begin| begin <= *stored));
        });
        if at + 1 < stream.packets.len() {
            stream.packets.update(at + 1, |next| next.lost_since = stored);
        }
    }
}

fn begin_at_first_event(plans: &Arc<TracePlans>, stream: &mut Stream) {
    for at in 1..stream.packets.len() {
        let Some((first, _)) = event_times(plans, stream, at, 1) else { continue };
        stream.packets.update(at, |packet| packet.begin_cycles = Some(first));
        stream.packets.update(at - 1, |before| before.end_cycles = Some(first));
    }
}

struct PacketTimes {
    first: Option<u64>,
    last: u64,
    left: usize,
}

impl SpineSink for PacketTimes {
    fn event(&mut self, _class: EventClassId, cycles: u64, _start_bits: u64, _body_bits: u64) -> bool {
        self.first.get_or_insert(cycles);
        self.last = cycles;
        self.left -= 1;
        self.left > 0
    }
}

/// Clock values of the first and the last of at most `max` events of a packet.
fn event_times(plans: &Arc<TracePlans>, stream: &Stream, at: usize, max: usize) -> Option<(u64, u64)> {
    let data = packets::CtfReader::default().open_packet(plans, stream, at, 0).ok()?.data;
    let mut times = PacketTimes { first: None, last: 0, left: max };
    let (mut pos, mut state) = (data.first_event(), data.state.clone());
    data.scan(&mut pos, &mut state, &mut times);
    times.first.map(|first| (first, times.last))
}
