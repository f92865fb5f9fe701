//! Which CPUs the streams that are read cover, and when (`docs/kernel.md`, section 2.6).

use std::collections::{BTreeMap, BTreeSet, HashSet};

use tracemill_engine::selection::SelectedStream;
use tracemill_engine::session::Session;
use tracemill_format::{OpenTrace, Stream};
use tracemill_model::clock::ClockMap;
use tracemill_semantics::states::{Machines, Ns};
use tracemill_semantics::{Concept, Field, Recording, cpu};

use crate::kernel::reading::reader::Reader;

/// A tracer starts and stops CPU by CPU: streams that begin or end within this time do so together. It is the longest tick
/// of a kernel.
const TOGETHER_NS: Ns = 10_000_000;

/// CPUs of one machine that the environment may claim: kernels are made for this many.
const MAX_CLAIMED: u64 = 8192;

/// Packets of a stream in which its CPU is looked for.
const LOOKED_AT: usize = 4;

/// For each machine, whether none of its events can say on which CPU it happened, though they tell what CPUs do: then it has
/// one CPU.
pub(crate) fn machines_of_one_cpu(
    reader: &Reader,
    machines: usize,
    session: &Session,
    streams: &[SelectedStream],
) -> Vec<bool> {
    const OF_CPUS: [Concept; 4] = [Concept::Switch, Concept::IrqEntry, Concept::SoftEntry, Concept::SysEntry];
    let (mut is_told, mut has_number) = (vec![false; machines], vec![false; machines]);
    for of in streams {
        let (trace, machine) = (&session.traces[of.trace], reader.machine(of.trace) as usize);
        is_told[machine] |= OF_CPUS.iter().any(|concept| reader.has(of.trace, *concept));
        has_number[machine] |= reader.contexts_name_cpus(of.trace) || cpu_of_stream(trace, &of.stream).is_some();
    }
    is_told.iter().zip(has_number).map(|(is_told, has_number)| *is_told && !has_number).collect()
}

/// The CPU of a stream, as its first packets say.
fn cpu_of_stream(trace: &OpenTrace, stream: &Stream) -> Option<u64> {
    (0..stream.packets.len().min(LOOKED_AT)).find_map(|packet| {
        let opened = trace.reader.open_packet(&trace.plans, stream, packet, 0).ok()?;
        cpu(&opened.data)
    })
}

/// The times that the streams of a CPU cover; `None` where they do not say.
#[derive(Default)]
struct Covered {
    from: Option<Ns>,
    to: Option<Ns>,
    has_open_begin: bool,
    has_open_end: bool,
}

/// The CPUs of a machine, as far as its streams tell.
#[derive(Default)]
struct OfMachine {
    covered: BTreeMap<u64, Covered>,
    /// CPUs whose streams are not read, and those that the environment counts.
    named: BTreeSet<u64>,
    /// Is there a stream whose CPU its packets do not say? Then it may be any.
    has_other: bool,
    names_sleep: bool,
}

/// Tells the machines which CPUs are seen, and when. Only streams that may have switches count.
pub(crate) fn report_coverage(machines: &mut Machines, reader: &Reader, session: &Session, streams: &[SelectedStream]) {
    let wanted: HashSet<(usize, usize)> = streams.iter().map(|of| (of.trace, of.index)).collect();
    let mut found: BTreeMap<u32, OfMachine> = BTreeMap::new();
    for (at, trace) in session.traces.iter().enumerate().filter(|(at, _)| reader.has(*at, Concept::Switch)) {
        let of = found.entry(reader.machine(at)).or_default();
        let counted = Recording::from_schema(&trace.schema).cpus.or(trace.reader.cpu_count());
        of.named.extend(0..counted.filter(|count| *count <= MAX_CLAIMED).unwrap_or(0));
        of.names_sleep |= reader.has_field(at, Concept::Wake, Field::From);
        for (index, stream) in trace.streams.iter().enumerate() {
            if !reader.stream_has(at, stream.class, Concept::Switch) || stream.packets.is_empty() {
                continue;
            }
            let number = cpu_of_stream(trace, stream);
            match (number, wanted.contains(&(at, index))) {
                (Some(number), true) => {
                    let clock = session.clock_map(at, stream.class).filter(|_| trace.reader.has_stated_times());
                    of.covered.entry(number).or_default().add(stream, clock.as_ref());
                }
                (Some(number), false) => drop(of.named.insert(number)),
                (None, true) => of.has_other = true,
                (None, false) => {}
            }
        }
    }
    found.into_iter().filter(|(_, of)| !of.has_other).for_each(|(machine, of)| of.report(machines, machine));
}

impl Covered {
    fn add(&mut self, stream: &Stream, clock: Option<&ClockMap>) {
        let packets = &stream.packets;
        let ns = |cycles: u64| Some(clock?.ns(cycles));
        let begin = packets.begin_cycles(0);
        let last = packets.len() - 1;
        // A packet that ends where it begins was not finished: its end was never stated.
        let end = packets.end_cycles(last).filter(|end| packets.begin_cycles(last).is_none_or(|begin| begin < *end));
        match begin.and_then(ns) {
            Some(begin) => self.from = Some(self.from.map_or(begin, |from| from.min(begin))),
            None => self.has_open_begin = true,
        }
        match end.and_then(ns) {
            Some(end) => self.to = Some(self.to.map_or(end, |to| to.max(end))),
            None => self.has_open_end = true,
        }
    }
}

impl OfMachine {
    fn report(mut self, machines: &mut Machines, machine: u32) {
        let first = self.covered.values().filter_map(|covered| covered.from).min();
        let last = self.covered.values().filter_map(|covered| covered.to).max();
        // Every machine has a CPU 0.
        if !self.covered.is_empty() {
            self.named.insert(0);
        }
        machines.record_cpus(machine, self.covered.keys().copied(), self.names_sleep);
        for (cpu, covered) in &self.covered {
            let from = covered
                .from
                .filter(|from| !covered.has_open_begin && first.is_some_and(|first| first + TOGETHER_NS < *from));
            let to = covered.to.filter(|to| !covered.has_open_end && last.is_some_and(|last| *to + TOGETHER_NS < last));
            machines.cover_cpu(machine, *cpu, from, to);
        }
        self.named
            .iter()
            .filter(|cpu| !self.covered.contains_key(cpu))
            .for_each(|cpu| machines.miss_cpu(machine, *cpu));
    }
}
