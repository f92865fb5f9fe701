//! The clock of a converted trace.

use std::collections::HashMap;

use tracemill_model::clock::{ClockMap, NS_PER_SECOND};
use tracemill_model::schema::{ClockClass, ClockOrigin};

use crate::facilities::block::TraceHeader;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::{Source, SourceStream};

/// The cycles of the trace that is written.
pub(super) enum OutputClock {
    /// They are those of the source.
    Same,
    /// They are ns; for each stream class the clock, when it has one.
    Ns(HashMap<u32, ClockMap>),
}

/// Chooses the clock of the trace: that of its streams when they have one and the format can hold it, else one of ns.
pub(super) fn clock(source: &Source, header: &mut TraceHeader, losses: &mut Losses) -> OutputClock {
    let schema = &source.schema;
    let of = |stream: &SourceStream| schema.stream(stream.class).default_clock;
    let first = source.streams.first().and_then(of);
    let is_one = source.streams.iter().all(|stream| of(stream) == first);
    if let (Some(id), true, None) = (first, is_one, source.drift)
        && same_clock(schema.clock(id), source.correction_ns, header)
    {
        return OutputClock::Same;
    }
    losses.add(Lost::StartCycles, 1);
    (header.start_freq, header.freq_scale) = (1_000_000, 1000);
    let mut maps = HashMap::new();
    let mut is_unix = false;
    for stream in &source.streams {
        let Some(clock) = of(stream).map(|id| schema.clock(id)).filter(|clock| clock.frequency > 0) else { continue };
        is_unix |= clock.origin == ClockOrigin::Unix;
        maps.insert(stream.class.0, source.clock_map(clock));
    }
    if is_unix {
        // Cycles are ns since the epoch; a start of one second keeps the origin.
        (header.start_sec, header.start_tsc) = (1, 1_000_000_000);
    }
    OutputClock::Ns(maps)
}

/// Sets the start of a trace so that its cycles are those of a clock; false when that cannot be.
fn same_clock(clock: &ClockClass, correction_ns: i64, header: &mut TraceHeader) -> bool {
    if clock.seconds > 1 || clock.has_made_cycles || matches!(clock.origin, ClockOrigin::Custom { .. }) {
        return false;
    }
    if clock.frequency == 0 {
        return true;
    }
    let scale = if clock.frequency.is_multiple_of(1000) { 1000 } else { 1 };
    let freq = clock.frequency / u64::from(scale);
    let mut ns =
        i128::from(clock.offset_seconds) * NS_PER_SECOND + i128::from(clock.offset_ns) + i128::from(correction_ns);
    let mut start = -clock.offset_cycles;
    if clock.origin == ClockOrigin::Unknown {
        (header.start_freq, header.freq_scale) = (freq, scale);
        return ns == 0 && start == 0;
    }
    let frequency = i128::from(clock.frequency);
    if start < 0 {
        let seconds = (-start).div_euclid(frequency) + i128::from((-start).rem_euclid(frequency) != 0);
        start += seconds * frequency;
        ns += seconds * NS_PER_SECOND;
    }
    // Clocks of ns can move by some to a whole microsecond.
    if clock.frequency == NS_PER_SECOND as u64 {
        let step = (1000 - ns.rem_euclid(1000)) % 1000;
        (start, ns) = (start + step, ns + step);
    }
    let (Ok(tsc), true) = (u64::try_from(start), ns > 0 && ns % 1000 == 0) else { return false };
    let Ok(seconds) = i64::try_from(ns / NS_PER_SECOND) else { return false };
    (header.start_freq, header.freq_scale, header.start_tsc) = (freq, scale, tsc);
    (header.start_sec, header.start_usec) = (seconds as u64, (ns % NS_PER_SECOND / 1000) as u64);
    true
}
