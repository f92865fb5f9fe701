//! The first passes over a file. One finds what packets say of others, and where events are; one gives all their classes,
//! and puts them into the order of time.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use tracemill_format::Faults;
use tracemill_format::perfetto::{WireFields, clock, message};
use tracemill_format::slices::{PhasePart, SliceClasses, SliceIds, TrackNames, order_of};
use tracemill_model::error::Error;

use super::clocks::{ClockKey, Clocks};
use super::events::{CounterValue, EventBuilder, EventContext, TrackEvent, content, content_type, items, part};
use super::ftrace::{BundleHead, FtraceClasses, each_event};
use super::packets::{PacketItem, PacketWalk, TracePacket, read_packet};
use super::sequences::{Sequences, THREAD_DESCRIPTOR};
use super::tracks::Tracks;
use super::unpack::Unpacked;

/// Events of a packet.
const PACKET_EVENTS: usize = 1 << 13;
/// Events of a packet of a CPU whose bundles overlap in time.
const MAX_CPU_EVENTS: u64 = 1 << 16;
/// Faults that are reported one by one.
const MAX_REPORTED: usize = 1000;
/// CPUs of all machines.
const MAX_CPUS: usize = 1 << 14;
/// Threads and processes that have names.
const MAX_NAMES: usize = 1 << 20;
/// Losses that are kept.
const MAX_LOSSES: usize = 1 << 16;

/// A part of a packet that is an event: see [`part`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventPlace {
    /// Its time in the trace's clock.
    pub(crate) ns: i64,
    /// The offset of the packet, and the part.
    place: u64,
    /// The state of its sequence.
    pub(crate) state: u32,
}

impl EventPlace {
    pub(crate) fn packet(&self) -> usize {
        (self.place >> 16) as usize
    }

    pub(crate) fn part(&self) -> u16 {
        self.place as u16
    }
}

/// An event while it is put into the order of time.
#[derive(Clone, Copy, Debug)]
struct IndexEntry {
    time: u64,
    clock: u32,
    state: u32,
    /// Order of equal times: see [`order_of`].
    order: u64,
    place: u64,
}

/// A packet of a stream: a part of its index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexedPacket {
    pub(crate) first: usize,
    pub(crate) count: usize,
    pub(crate) range: (i64, i64),
    /// Bytes of the file, about.
    pub(crate) bytes: (usize, usize),
}

/// Packets that were lost before a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketLoss {
    pub(crate) since: i64,
    pub(crate) until: i64,
}

/// A stream of events that belong to threads, to processes, or to neither.
#[derive(Debug, Default)]
pub(crate) struct SliceStream {
    pub(crate) classes: SliceClasses,
    pub(crate) places: Vec<EventPlace>,
    pub(crate) packets: Vec<IndexedPacket>,
    pub(crate) losses: Vec<PacketLoss>,
}

/// A bundle of the events of a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BundlePlace {
    /// The offset of its packet.
    pub(crate) at: usize,
    pub(crate) len: usize,
    /// First and last time, in its clock until all is read, and then in the trace's.
    pub(crate) range: (i64, i64),
    pub(crate) count: u64,
    /// A number that is added to its times.
    pub(crate) shift: i64,
    clock: u32,
    /// Were events lost before it?
    pub(crate) is_after_loss: bool,
    /// The thread that runs before it.
    pub(crate) running: i32,
}

/// A CPU: its bundles, and packets of them.
#[derive(Debug, Default)]
pub(crate) struct CpuStream {
    pub(crate) bundles: Vec<BundlePlace>,
    pub(crate) packets: Vec<IndexedPacket>,
    running: Option<i32>,
}

/// Kinds of streams, in the order of their numbers.
pub(crate) const KINDS: [SliceIds; 3] = [SliceIds::Thread, SliceIds::Process, SliceIds::None];

/// Results of the passes.
#[derive(Debug, Default)]
pub(crate) struct PerfettoSurvey {
    pub(crate) sequences: Sequences,
    pub(crate) tracks: Tracks,
    pub(crate) clocks: Clocks,
    /// By kind.
    pub(crate) streams: [SliceStream; 3],
    pub(crate) cpus: BTreeMap<(u32, u32), CpuStream>,
    pub(crate) ftrace: FtraceClasses,
    pub(crate) names: TrackNames,
    /// Values of incremental counters, by place.
    pub(crate) sums: HashMap<u64, i64>,
    /// Packets by content: their number, and how many are shown as events.
    pub(crate) counts: BTreeMap<u32, (u64, u64)>,
    pub(crate) system: Vec<(String, String)>,
    pub(crate) uuid: Option<(u64, u64)>,
    pub(crate) faults: Vec<Error>,
    pub(crate) warnings: Vec<Error>,
}

/// State of the first pass.
#[derive(Default)]
struct FirstPass {
    index: Vec<IndexEntry>,
    faults: Faults<MAX_REPORTED>,
    /// Time of the last event in old traces, by sequence, in µs.
    last_us: HashMap<(u32, u32), i64>,
    /// The clock and time of the last packet of each sequence.
    last: HashMap<(u32, u32), (u32, u64)>,
    /// Values of incremental counters so far, by the state of their sequence and their track.
    sums: HashMap<(u32, u64), i64>,
    /// The clock and time of the last packet.
    last_time: Option<(u32, u64)>,
    /// Parts of process trees without a time before the first packet that has one.
    early: Vec<(u64, u32)>,
    losses: Vec<(u32, u64, u64, u32)>,
    threads: HashMap<(i64, i64), Arc<str>>,
    processes: HashMap<(i64, i64), Arc<str>>,
    /// Events without a time, by content.
    untimed: BTreeMap<u32, u64>,
    ftrace_errors: u64,
    broken_pages: u64,
    misfits: u64,
    refused_classes: u64,
    refused_cpus: u64,
    long_lists: u64,
}

impl PerfettoSurvey {
    /// Reads a file. `first_faults` are those of its packets that were found when it was unpacked.
    pub(crate) fn read(unpacked: &Unpacked, path: &Path, first_faults: Vec<Error>) -> PerfettoSurvey {
        let bytes = unpacked.bytes.bytes();
        let mut survey = PerfettoSurvey::default();
        let mut pass = FirstPass::default();
        let in_file = |error: Error| error.in_file(path);
        for error in first_faults {
            pass.faults.report(|| in_file(error));
        }
        for item in PacketWalk::new(bytes) {
            match item {
                PacketItem::Packet(packet) => survey.take_in(bytes, &packet, &mut pass),
                PacketItem::Fault(error) => pass.faults.report(|| in_file(error)),
            }
        }
        if !pass.early.is_empty() {
            let clock = survey.clocks.number(ClockKey::new(0, 0, clock::BOOTTIME));
            let order = order_of(PhasePart::Instant, None);
            let entry = |(place, state)| IndexEntry { time: 0, clock, state, order, place };
            pass.index.extend(std::mem::take(&mut pass.early).into_iter().map(entry));
        }
        for key in survey.clocks.finish() {
            let of = if key.sequence == 0 { String::new() } else { format!(" of the sequence {}", key.sequence) };
            let message = format!("no snapshot relates the clock {}{of} to that of the trace", clock_name(key.id));
            survey.warnings.push(in_file(Error::inconsistent(message).with_help("its times are shown as they are")));
        }
        survey.finish_names(&mut pass);
        survey.finish_events(unpacked, path, &mut pass);
        survey.finish_cpus();
        survey.warn(path, &pass);
        survey.faults = pass.faults.finish("packets or events cannot be read; they are skipped");
        survey
    }

    /// The clock and the time of a packet.
    fn time_of(&mut self, packet: &TracePacket<'_>, state: u32) -> Option<(u32, u64)> {
        let time = packet.timestamp?;
        let default = || self.sequences.states[state as usize].defaults(packet)?.clock;
        let id = packet.clock.or_else(default).unwrap_or(clock::BOOTTIME);
        let own = self.clocks.number(ClockKey::new(packet.machine, packet.sequence, id));
        Some((own, self.clocks.ns(own, time)))
    }

    fn take_in(&mut self, bytes: &[u8], packet: &TracePacket<'_>, pass: &mut FirstPass) {
        let key = (packet.machine, packet.sequence);
        let is_known = pass.last.contains_key(&key);
        let state = self.sequences.take_in(bytes, packet);
        if let Some((content::CLOCK_SNAPSHOT, content)) = packet.content {
            self.clocks.snapshot(packet.machine, packet.sequence, content);
        }
        let time = self.time_of(packet, state);
        if let Some((clock, ns)) = time {
            pass.last_time = time;
            for (place, state) in pass.early.drain(..) {
                let order = order_of(PhasePart::Instant, None);
                pass.index.push(IndexEntry { time: ns, clock, state, order, place });
            }
            let before = pass.last.insert(key, (clock, ns));
            // The first packet of a sequence is always marked so.
            if packet.is_after_loss && is_known && !packet.is_first && pass.losses.len() < MAX_LOSSES {
                let since = before.filter(|(own, _)| *own == clock).map_or(ns, |(_, ns)| ns);
                pass.losses.push((clock, since, ns, state));
            }
        }
        let Some((kind, content)) = packet.content else { return };
        let counts = self.counts.entry(kind).or_default();
        counts.0 += 1;
        let before = pass.index.len();
        match kind {
            content::FTRACE => self.bundle(packet, content, pass),
            content::TRACK_EVENT => self.track_event(packet, content, (state, time), pass),
            content::TRACK_DESCRIPTOR => self.tracks.take_in(content),
            content::SYSTEM_INFO => self.system_info(content),
            content::TRACE_UUID => {
                let number = |wanted| WireFields::new(content).find(|(number, _)| *number == wanted);
                let value = |wanted| number(wanted).map_or(0, |(_, value)| value.number());
                self.uuid = Some((value(2), value(1)));
            }
            content::CLOCK_SNAPSHOT | content::SYNCHRONIZATION | content::PROCESS_DESCRIPTOR | THREAD_DESCRIPTOR => {}
            content::PROCESS_TREE | content::PROCESS_STATS | content::ANDROID_LOG => {
                self.list(packet, kind, content, (state, time), pass);
            }
            _ if content_type(kind).is_none() => return,
            _ => match time {
                Some((clock, time)) => {
                    let place = (packet.at as u64) << 16;
                    pass.index.push(IndexEntry {
                        time,
                        clock,
                        state,
                        order: order_of(PhasePart::Instant, None),
                        place,
                    });
                }
                None => *pass.untimed.entry(kind).or_default() += 1,
            },
        }
        let has_own_place =
            !matches!(kind, content::TRACK_EVENT | content::PROCESS_STATS) && pass.index.len() == before;
        let is_read =
            kind == content::FTRACE || pass.index.len() > before || has_own_place && content_type(kind).is_some();
        self.counts.entry(kind).or_default().1 += u64::from(is_read);
    }

    fn system_info(&mut self, content: &[u8]) {
        let Some(of) = message("SystemInfo") else { return };
        for (number, value) in WireFields::new(content) {
            let name = of.field(number).map(|field| field.name);
            match (number, name) {
                (1, _) => {
                    // As LTTng names what `uname` gives.
                    for (number, value) in WireFields::new(value.bytes()) {
                        let name = ["sysname", "kernel_version", "kernel_release", "machine"].get(number as usize - 1);
                        if let Some(name) = name {
                            self.system.push(((*name).into(), String::from_utf8_lossy(value.bytes()).into_owned()));
                        }
                    }
                }
                (_, Some(name)) if value.bytes().is_empty() => {
                    self.system.push((name.into(), value.number().to_string()))
                }
                (_, Some(name)) => self.system.push((name.into(), String::from_utf8_lossy(value.bytes()).into_owned())),
                _ => {}
            }
        }
        self.system.sort();
        self.system.dedup_by(|a, b| a.0 == b.0);
    }

    /// Takes in a track event: itself, the end of its slice, the values of further counters.
    fn track_event(
        &mut self,
        packet: &TracePacket<'_>,
        content: &[u8],
        (state, time): (u32, Option<(u32, u64)>),
        pass: &mut FirstPass,
    ) {
        let event = TrackEvent::read(content);
        let key = (packet.machine, packet.sequence);
        let (clock, time) = match (time, event.absolute_us, event.delta_us) {
            (Some(time), ..) => time,
            (None, None, None) => {
                *pass.untimed.entry(content::TRACK_EVENT).or_default() += 1;
                return;
            }
            (None, absolute, delta) => {
                let last = pass.last_us.get(&key).copied().unwrap_or_default();
                let us = absolute.unwrap_or_else(|| last.saturating_add(delta.unwrap_or(0)));
                // Only differences change the time from which the next ones count.
                if absolute.is_none() {
                    pass.last_us.insert(key, us);
                }
                let own = self.clocks.number(ClockKey::new(packet.machine, packet.sequence, clock::MONOTONIC));
                (own, self.clocks.ns(own, u64::try_from(us).unwrap_or(0).saturating_mul(1000)))
            }
        };
        let place = |part: u16| (packet.at as u64) << 16 | u64::from(part);
        let length = event.length_ns();
        let entry = |time, own: PhasePart, part| IndexEntry {
            time,
            clock,
            state,
            order: order_of(own, length),
            place: place(part),
        };
        let own = PhasePart::from_phase(event.phase);
        pass.index.push(entry(time, own, part::EVENT));
        if let Some(length) = length {
            pass.index.push(entry(time.saturating_add(length), PhasePart::Exit, part::END));
        }
        let of = &self.sequences.states[state as usize];
        if let (b'C', Some(value), Some(track)) = (event.phase, event.value, event.track(of, packet)) {
            add_increment(&self.tracks, &mut pass.sums, &mut self.sums, (state, track, value), place(part::EVENT));
        }
        let order = order_of(PhasePart::Counter, None);
        for ((track, value), number) in event.extra_counters(of, packet).into_iter().zip(part::FIRST_COUNTER..) {
            add_increment(&self.tracks, &mut pass.sums, &mut self.sums, (state, track, value), place(number));
            pass.index.push(IndexEntry { time, clock, state, order, place: place(number) });
        }
    }

    /// Takes in the items of a packet with lists.
    fn list(
        &mut self,
        packet: &TracePacket<'_>,
        kind: u32,
        content: &[u8],
        (state, time): (u32, Option<(u32, u64)>),
        pass: &mut FirstPass,
    ) {
        for (number, (_, field, item)) in items(kind, content).enumerate() {
            let Ok(number) = u16::try_from(number) else {
                pass.long_lists += 1;
                continue;
            };
            let value =
                |wanted: u32| WireFields::new(item).find(|(number, _)| *number == wanted).map(|(_, value)| value);
            let id = |wanted| i64::from(value(wanted).map_or(0, |value| value.number()) as i32);
            let name = |wanted: u32| value(wanted).map_or(&[][..], |value| value.bytes());
            let own = match kind {
                content::ANDROID_LOG => {
                    let clock = self.clocks.number(ClockKey::new(packet.machine, 0, clock::REALTIME));
                    value(5).map(|time| (clock, self.clocks.ns(clock, time.number())))
                }
                _ => time,
            };
            if kind == content::PROCESS_TREE && pass.threads.len() + pass.processes.len() < MAX_NAMES {
                let named = if field == 1 { name(3) } else { name(2) };
                let named: Arc<str> = String::from_utf8_lossy(named).into();
                match field {
                    _ if named.is_empty() => {}
                    1 => _ = pass.processes.insert((id(1), 0), named),
                    _ => _ = pass.threads.insert((id(3), id(1)), named),
                }
            }
            let place = (packet.at as u64) << 16 | u64::from(number);
            let is_tree = kind == content::PROCESS_TREE;
            // A process tree describes what already runs: it holds from the packet before on.
            let Some((clock, time)) = own.or(if is_tree { pass.last_time } else { None }) else {
                match is_tree {
                    true => pass.early.push((place, state)),
                    false => *pass.untimed.entry(kind).or_default() += 1,
                }
                continue;
            };
            pass.index.push(IndexEntry { time, clock, state, order: order_of(PhasePart::Instant, None), place });
        }
    }

    /// Takes in a bundle of the events of a CPU.
    fn bundle(&mut self, packet: &TracePacket<'_>, content: &[u8], pass: &mut FirstPass) {
        let head = BundleHead::read(content);
        pass.ftrace_errors += head.errors;
        pass.broken_pages += u64::from(head.broken_page);
        self.ftrace.describe(content);
        let key = (packet.machine, head.cpu);
        if !self.cpus.contains_key(&key) && self.cpus.len() >= MAX_CPUS {
            pass.refused_cpus += 1;
            return;
        }
        let cpu = self.cpus.entry(key).or_default();
        let before = if head.has_lost_events { None } else { cpu.running };
        let (mut running, mut range, mut count, mut refused) = (before.unwrap_or(-1), None, 0u64, 0u64);
        let ftrace = &mut self.ftrace;
        let whole = each_event(content, &mut running, |event| {
            ftrace.count_unknown(&event);
            if !ftrace.take_in(&event) {
                refused += 1;
                return;
            }
            count += 1;
            let time = event.time.min(i64::MAX as u64) as i64;
            let (first, last) = range.unwrap_or((time, time));
            range = Some((first.min(time), last.max(time)));
        });
        pass.misfits += whole.err().unwrap_or(0) as u64;
        pass.refused_classes += refused;
        cpu.running = (running >= 0).then_some(running);
        let Some(range) = range else { return };
        let (id, shift) = match head.clock {
            2 if head.ftrace_ns != 0 && head.boot_ns != 0 => {
                (clock::BOOTTIME, head.boot_ns.wrapping_sub(head.ftrace_ns) as i64)
            }
            4 => (clock::MONOTONIC_RAW, 0),
            _ => (clock::BOOTTIME, 0),
        };
        let clock = self.clocks.number(ClockKey::new(packet.machine, 0, id));
        self.clocks.ns(clock, range.0 as u64);
        cpu.bundles.push(BundlePlace {
            at: packet.at,
            len: packet.end - packet.at,
            range,
            count,
            shift,
            clock,
            is_after_loss: head.has_lost_events,
            running: before.unwrap_or(-1),
        });
    }

    fn finish_names(&mut self, pass: &mut FirstPass) {
        for (key, name) in self.tracks.names.drain(..) {
            let of = if key.1 == 0 { &mut pass.processes } else { &mut pass.threads };
            if of.len() < MAX_NAMES {
                of.insert(key, String::from_utf8_lossy(&name).into());
            }
        }
        let threads = Arc::new(std::mem::take(&mut pass.threads));
        self.names = TrackNames { threads, processes: Arc::new(std::mem::take(&mut pass.processes)) };
    }

    /// Gives all events their classes, in the order of the file, and puts them into the order of time.
    fn finish_events(&mut self, unpacked: &Unpacked, path: &Path, pass: &mut FirstPass) {
        let bytes = unpacked.bytes.bytes();
        for (stream, ids) in self.streams.iter_mut().zip(KINDS) {
            (stream.classes.ids, stream.classes.hides_phases, stream.classes.is_own) = (ids, true, true);
        }
        let mut builder = EventBuilder::default();
        let mut sorted: [Vec<(EventPlace, u64)>; 3] = Default::default();
        let mut last: Option<TracePacket<'_>> = None;
        for entry in std::mem::take(&mut pass.index) {
            let own = EventPlace {
                ns: self.clocks.to_trace(entry.clock, entry.time),
                place: entry.place,
                state: entry.state,
            };
            if last.as_ref().is_none_or(|last| last.at != own.packet()) {
                last = read_packet(bytes, own.packet()).ok();
            }
            let Some(packet) = &last else { continue };
            let context = EventContext { bytes, tracks: &self.tracks, sums: &self.sums };
            let state = &self.sequences.states[own.state as usize];
            let Some(built) = builder.build(context, packet, state, own.part()) else { continue };
            let stream = &mut self.streams[built.ids as usize];
            if let Err(refused) = stream.classes.take_in(&builder.event, &builder.line, built.part) {
                let message = format!("{}; the event is skipped", String::from(refused));
                let at = unpacked.place(packet.at);
                pass.faults.report(|| Error::malformed(message).in_file(path).at_offset(at));
                continue;
            }
            sorted[built.ids as usize].push((own, entry.order));
        }
        if builder.zeros > 0 {
            let message = format!("texts that hold the character U+0000: {}", builder.zeros);
            self.warnings.push(Error::malformed(message).in_file(path).with_help("it is shown as U+FFFD"));
        }
        if builder.unknown_texts > 0 {
            let message = format!("numbers of texts that the file does not hold: {}", builder.unknown_texts);
            self.warnings.push(Error::malformed(message).in_file(path).with_help("they are shown as numbers, `#12`"));
        }
        for (stream, mut index) in self.streams.iter_mut().zip(sorted) {
            // Of slices of one length at one time, the one that the file has later is inside.
            index.sort_by_key(|(own, order)| {
                let is_end = own.part() == part::END && *order < 1 << 62;
                (own.ns, *order, if is_end { !own.place } else { own.place })
            });
            stream.places = index.iter().map(|(own, _)| *own).collect();
            for (number, part) in stream.places.chunks(PACKET_EVENTS).enumerate() {
                let low = part.iter().map(EventPlace::packet).min().unwrap_or(0);
                let high = part.iter().map(EventPlace::packet).max().unwrap_or(0);
                let range = (part[0].ns, part[part.len() - 1].ns);
                let (first, count) = (number * PACKET_EVENTS, part.len());
                stream.packets.push(IndexedPacket { first, count, range, bytes: (low, high + 1) });
            }
        }
        // A loss is shown where its sequence goes on: with events of threads, where there are any.
        for (clock, since, until, _) in std::mem::take(&mut pass.losses) {
            let loss =
                PacketLoss { since: self.clocks.to_trace(clock, since), until: self.clocks.to_trace(clock, until) };
            if let Some(stream) = self.streams.iter_mut().find(|stream| !stream.packets.is_empty()) {
                stream.losses.push(loss);
            }
        }
        self.streams.iter_mut().for_each(|stream| stream.losses.sort_by_key(|loss| loss.until));
    }

    /// Puts the bundles of CPUs into packets: each of some events, and of bundles that overlap in time.
    fn finish_cpus(&mut self) {
        for cpu in self.cpus.values_mut() {
            for bundle in &mut cpu.bundles {
                let (first, last) = bundle.range;
                let at = self.clocks.to_trace(bundle.clock, first.wrapping_add(bundle.shift).max(0) as u64);
                bundle.shift = at.wrapping_sub(first);
                bundle.range = (at, last.saturating_add(bundle.shift));
            }
            cpu.bundles.sort_by_key(|bundle| bundle.range.0);
            let (mut first, mut events, mut range) = (0, 0u64, (0, 0));
            for (at, bundle) in cpu.bundles.iter().enumerate() {
                let is_apart = at > first && bundle.range.0 >= range.1;
                if is_apart && events >= PACKET_EVENTS as u64 || at > first && events >= MAX_CPU_EVENTS {
                    cpu.packets.push(packet_of(&cpu.bundles, first, at, range));
                    (first, events) = (at, 0);
                }
                range = if at == first { bundle.range } else { (range.0, range.1.max(bundle.range.1)) };
                events += bundle.count;
            }
            if first < cpu.bundles.len() {
                cpu.packets.push(packet_of(&cpu.bundles, first, cpu.bundles.len(), range));
            }
        }
        self.cpus.retain(|_, cpu| !cpu.packets.is_empty());
    }

    fn warn(&mut self, path: &Path, pass: &FirstPass) {
        let mut warn = |error: Error| self.warnings.push(error.in_file(path));
        for (kind, (count, _)) in self.counts.iter().filter(|(_, (_, shown))| *shown == 0) {
            let name = message("TracePacket").and_then(|of| of.field(*kind)).map(|field| field.name);
            let untimed = pass.untimed.contains_key(kind);
            let error = match name {
                Some(_) if untimed => continue,
                Some(name) => Error::unsupported(format!("packets `{name}` that are not shown: {count}")),
                None => Error::unsupported(format!("packets of the unknown kind {kind}: {count}")),
            };
            warn(error);
        }
        for (kind, count) in &pass.untimed {
            let name = content_type(*kind).map_or("unknown", |(name, _)| name);
            warn(Error::malformed(format!("`{name}` without a time, which are not shown: {count}")));
        }
        let mut unknown: Vec<_> = self.ftrace.unknown.iter().collect();
        unknown.sort_unstable();
        for (number, count) in unknown {
            let error = match number {
                0 => Error::unsupported(format!("events of the kernel without a message: {count}"))
                    .with_help("they are shown without fields, as `empty`"),
                number => Error::unsupported(format!("events of the kernel of the unknown kind {number}: {count}"))
                    .with_help("their fields are shown by their numbers"),
            };
            warn(error);
        }
        for (count, what) in [
            (pass.ftrace_errors, "faults that the recorder met in the kernel's buffers"),
            (pass.broken_pages, "pages of the kernel's buffers that the recorder could not read, which are not shown"),
            (pass.misfits, "events of the compact form whose columns do not fit together; they are skipped"),
            (pass.refused_classes, "events of the kernel of more classes than are kept; they are skipped"),
            (pass.refused_cpus, "bundles of more CPUs than are kept; they are skipped"),
            (pass.long_lists, "items of packets that hold more than 65536; they are skipped"),
        ] {
            if count > 0 {
                warn(Error::malformed(format!("{what}: {count}")));
            }
        }
        if self.streams.iter().any(|stream| stream.classes.is_full()) {
            warn(Error::unsupported("more classes of events than are kept; later ones have their values as one text"));
        }
        if self.clocks.is_cut {
            warn(Error::unsupported("more snapshots of clocks than are kept; later ones do not count"));
        }
    }

    /// The smallest time.
    pub(crate) fn first_ns(&self) -> i64 {
        let slices = self.streams.iter().filter_map(|stream| stream.packets.first());
        let cpus = self.cpus.values().filter_map(|cpu| cpu.packets.first());
        slices.chain(cpus).map(|packet| packet.range.0).min().unwrap_or(0)
    }
}

/// Keeps the value that an incremental counter has after a change.
fn add_increment(
    tracks: &Tracks,
    sums: &mut HashMap<(u32, u64), i64>,
    by_place: &mut HashMap<u64, i64>,
    (state, track, value): (u32, u64, CounterValue),
    place: u64,
) {
    let (Some(counter), CounterValue::Whole(value)) = (tracks.counter(track), value) else { return };
    if counter.is_incremental {
        let sum = sums.entry((state, track)).or_default();
        *sum = sum.wrapping_add(value);
        by_place.insert(place, *sum);
    }
}

fn packet_of(bundles: &[BundlePlace], first: usize, end: usize, range: (i64, i64)) -> IndexedPacket {
    let own = &bundles[first..end];
    let low = own.iter().map(|bundle| bundle.at).min().unwrap_or(0);
    let len: usize = own.iter().map(|bundle| bundle.len).sum();
    IndexedPacket { first, count: own.len(), range, bytes: (low, low + len) }
}

/// The name of a clock.
pub(crate) fn clock_name(id: u32) -> String {
    let field = message("ClockSnapshot").and_then(|of| of.named("primary_trace_clock"));
    let label = field.and_then(|field| match field.of {
        tracemill_format::perfetto::FieldType::Enum(of) => tracemill_format::perfetto::messages::label(of, id.into()),
        _ => None,
    });
    label.map_or_else(|| id.to_string(), |label| label.trim_start_matches("BUILTIN_CLOCK_").to_lowercase())
}
