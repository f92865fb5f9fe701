//! Streams without packets that lost or changed bytes on their way, such as over a serial line: where their events make
//! sense again.
//!
//! Such a stream does not mark where its events begin. But an event has an id that its class knows, and is not far in time from
//! the one before. Where an event cannot be decoded, or is far from the one before, places after the begin of the event
//! before are tried, byte by byte: the first one is taken from which on [`ENOUGH`] events follow one another closely. The
//! stretches between such places become packets, which is what the rest of the program knows how to read.

use std::path::Path;

use tracemill_codec::layout;
use tracemill_codec::plan::{DecoderState, PlanInput};
use tracemill_codec::spine::{EventFault, ScanEnd, SpineSink};
use tracemill_codec::trace_plans::TracePlans;
use tracemill_format::Faults;
use tracemill_model::error::Error;
use tracemill_model::packet::Packet;
use tracemill_model::packet_list::PacketList;
use tracemill_model::schema::{EventClassId, FieldClassId, Role, Schema, StreamClassId};

/// Name of the option.
pub(crate) const RESYNC: &str = "resync";

/// Events in a row that show that a place is one where an event begins.
const ENOUGH: usize = 4;
/// Steps in time after which it is known how long they are.
const LEARNED: u32 = 16;
/// How many times as long as any step before a step is that shows damage.
const LONGER: u64 = 16;
/// Bytes after a place within which one that fits better is looked for.
const NEARBY: usize = 256;
/// Bytes of the events that are tried at a place: more of them show nothing, and a string without an end takes no longer.
const TRIED_BYTES: usize = 16 << 10;
/// Bytes that are looked at in vain for each byte of the stream, at most.
const MAX_COST: u64 = 256;
/// Stretches that are reported one by one.
const MAX_FAULTS: usize = 1000;

/// The stretches of a stream that make sense, and what lies between them.
pub(crate) struct Stretches {
    pub(crate) packets: PacketList,
    pub(crate) faults: Vec<Error>,
}

/// The stretches of a stream without packets in which one event follows the other.
pub(crate) fn stretches(plans: &TracePlans, class: StreamClassId, path: &Path, bytes: &[u8]) -> Stretches {
    let mut search = Search {
        plans,
        class,
        bytes,
        steps: Steps::of(plans.schema(), class),
        cost: (bytes.len() as u64).saturating_mul(MAX_COST),
    };
    let mut packets = PacketList::default();
    let mut faults = Faults::<MAX_FAULTS>::default();
    let (mut begin, mut index, mut clock) = (0, 0, 0);
    while begin < bytes.len() {
        let run = search.run(begin, clock);
        if run.end > begin {
            let bits = (run.end - begin) as u64 * 8;
            packets.push(&Packet { index, ..Packet::new(class, begin as u64, bits) });
        }
        index += 1;
        clock = run.clock;
        let Some(why) = run.why else { break };
        let next = run.next.unwrap_or(bytes.len());
        let skipped = next - run.end;
        let help = match run.next {
            Some(_) => format!("{skipped} bytes are skipped, up to where events make sense again"),
            None if search.cost == 0 => format!("{skipped} bytes are skipped: finding events in them takes too long"),
            None => format!("{skipped} bytes are skipped: there is no place after it where {ENOUGH} events make sense"),
        };
        faults.report(|| why.in_file(path).at_offset(run.end as u64).in_packet(index).with_help(help));
        index += 1;
        begin = next;
    }
    Stretches { packets, faults: faults.finish("stretches make no sense") }
}

/// Which steps in time are near.
#[derive(Clone, Copy)]
struct Steps {
    has_clock: bool,
    /// Steps up to this one are near, in cycles.
    near: u64,
    /// The longest step that was near, and how many were.
    longest: u64,
    count: u32,
    /// It never gets larger than this: a clock that has wrapped says nothing about longer steps.
    most: u64,
    frequency: u64,
    /// The last step that was far, and was taken all the same.
    far: Option<u64>,
}

impl Steps {
    fn of(schema: &Schema, class: StreamClassId) -> Steps {
        let stream = schema.stream(class);
        let clock = stream.default_clock.map(|clock| schema.clock(clock).frequency);
        let bits = stream.event_header.and_then(|root| time_bits(schema, root));
        let most = match bits {
            Some(bits @ 3..64) => 1 << (bits - 2),
            _ => u64::MAX,
        };
        let frequency = clock.unwrap_or(0);
        Steps {
            has_clock: clock.is_some() && bits.is_some(),
            near: frequency.min(most),
            longest: 0,
            count: 0,
            most,
            frequency,
            far: None,
        }
    }

    /// Is an event near the one before?
    fn is_near(&self, before: u64, cycles: u64) -> bool {
        !self.has_clock || cycles.checked_sub(before).is_some_and(|step| step <= self.near)
    }

    /// Learns a step that was right: most others are not much longer.
    fn learn(&mut self, step: u64) {
        self.longest = self.longest.max(step);
        self.count = self.count.saturating_add(1);
        if self.count >= LEARNED || self.longest > self.near / LONGER {
            self.near = self.longest.max(1).saturating_mul(LONGER).min(self.most);
        }
    }

    /// Learns a step that was far and for which there was nothing better, if the one before was like it: events are rare here.
    /// A single one may be of a damaged event.
    fn learn_far(&mut self, step: u64) {
        let is_like = |other: u64| other / 4 <= step && step / 4 <= other;
        if self.far.replace(step).is_some_and(is_like) {
            self.learn(step);
        }
    }
}

/// Bits of the smallest time in the header of events.
fn time_bits(schema: &Schema, root: FieldClassId) -> Option<u64> {
    let times = layout::descendants(schema, root).filter(|class| class.roles.has(Role::Timestamp));
    times.map(|class| layout::leaf_bits(class).unwrap_or(64)).min()
}

struct Search<'a> {
    plans: &'a TracePlans,
    class: StreamClassId,
    bytes: &'a [u8],
    steps: Steps,
    /// Bytes that may still be looked at in vain.
    cost: u64,
}

/// Events that follow one another.
struct Run {
    /// One past their last byte.
    end: usize,
    /// The clock after them.
    clock: u64,
    /// Why they end; `None` at the end of the stream.
    why: Option<Error>,
    /// Where others begin.
    next: Option<usize>,
}

/// Takes events as long as each is near the one before.
struct Follow {
    steps: Steps,
    /// Takes no event after these.
    most: usize,
    taken: usize,
    /// The last event: its first bit and time.
    last: Option<(u64, u64)>,
    /// The time before it.
    before: u64,
    /// The time of the first event.
    first: Option<u64>,
    /// The first bit of an event that is far from the one before, and its time.
    far: Option<(u64, u64)>,
}

impl Follow {
    fn new(steps: Steps, most: usize, clock: u64) -> Follow {
        Follow { steps, most, taken: 0, last: None, before: clock, first: None, far: None }
    }
}

impl SpineSink for Follow {
    fn event(&mut self, _class: EventClassId, cycles: u64, start_bits: u64, _body_bits: u64) -> bool {
        if self.last.is_some_and(|(_, before)| !self.steps.is_near(before, cycles)) {
            self.far = Some((start_bits, cycles));
            return false;
        }
        if let Some((_, before)) = self.last {
            self.steps.learn(cycles.saturating_sub(before));
            self.before = before;
        }
        self.first.get_or_insert(cycles);
        self.last = Some((start_bits, cycles));
        self.taken += 1;
        self.taken < self.most
    }
}

impl Search<'_> {
    /// The events from a byte on.
    fn run(&mut self, begin: usize, clock: u64) -> Run {
        let rest = &self.bytes[begin..];
        let input = PlanInput::new(rest, rest.len() as u64 * 8);
        let (mut pos, mut state) = (0, DecoderState::new(clock));
        let mut follow = Follow::new(self.steps, usize::MAX, clock);
        loop {
            let end = self.plans.scanner(self.class).scan(input, &mut pos, &mut state, &mut follow);
            self.steps = follow.steps;
            let last = follow.last.map_or(begin, |(start, _)| begin + (start / 8) as usize);
            let Some((start, cycles)) = follow.far.take() else {
                let ScanEnd::Fault(fault) = end else {
                    return Run { end: self.bytes.len(), clock: state.clock, why: None, next: None };
                };
                let bad = begin + pos.div_ceil(8) as usize;
                let from = if follow.taken > 0 { last + 1 } else { begin + 1 };
                let next = self.next_place(from, self.bytes.len(), state.clock);
                let (end, clock) = match next.is_some_and(|next| next < bad || self.is_before(next, &follow)) {
                    true => (last, follow.before),
                    false => (bad, state.clock),
                };
                return Run { end, clock, why: Some(error_of(&fault)), next };
            };
            // It may be right all the same: then events follow it, or nothing is better.
            let (_, before) = follow.last.unwrap_or_default();
            let (far, after_far) = (begin + (start / 8) as usize, begin + (pos / 8) as usize);
            let better = self.next_place(last + 1, after_far, before);
            let next = match better {
                Some(next) if next < far => Some(next),
                // Only its time is wrong.
                _ if self.goes_on(after_far, before) => Some(after_far),
                other => other,
            };
            // Or the time of the event before is wrong.
            let is_bad_before = next == Some(far) && self.goes_on(far, follow.before) && self.is_before(far, &follow);
            match next {
                Some(next) if next != far || is_bad_before => {
                    let why = Some(Error::malformed(self.far_words(before, cycles)));
                    let (end, clock) = match next < far || self.is_before(next, &follow) {
                        true => (last, follow.before),
                        false => (far, before),
                    };
                    return Run { end, clock, why, next: Some(next) };
                }
                Some(_) => {}
                None => follow.steps.learn_far(cycles.saturating_sub(before)),
            }
            (follow.last, follow.before) = (Some((start, cycles)), before);
            follow.taken += 1;
        }
    }

    /// Is the event at a place before the last one that was followed? Then that one is damaged, as is one in which another
    /// event begins.
    fn is_before(&mut self, place: usize, followed: &Follow) -> bool {
        let Some((_, last)) = followed.last.filter(|_| self.steps.has_clock) else { return false };
        let first = self.follow(place, Follow::new(self.steps, 1, followed.before), followed.before);
        first.last.is_some_and(|(_, cycles)| cycles < last)
    }

    /// The first byte in a range from which on events follow one another; of those nearby, one whose time is near `clock`.
    fn next_place(&mut self, from: usize, to: usize, clock: u64) -> Option<usize> {
        let mut first = None;
        for place in from..to {
            let found = self.follow(place, Follow::new(self.steps, ENOUGH, clock), clock);
            if found.taken >= ENOUGH {
                if found.first.is_some_and(|time| self.steps.is_near(clock, time)) {
                    return Some(place);
                }
                first.get_or_insert(place);
            }
            if self.cost == 0 || first.is_some_and(|first| place - first >= NEARBY) {
                break;
            }
        }
        first
    }

    /// Do the events from a byte on follow one of the time `before`?
    fn goes_on(&mut self, from: usize, before: u64) -> bool {
        let after = Follow { last: Some((0, before)), ..Follow::new(self.steps, ENOUGH, before) };
        self.follow(from, after, before).taken >= ENOUGH
    }

    /// Decodes events from a byte on.
    fn follow(&mut self, place: usize, mut follow: Follow, clock: u64) -> Follow {
        let rest = self.bytes.get(place..).unwrap_or(&[]);
        let window = &rest[..rest.len().min(TRIED_BYTES)];
        let input = PlanInput::new(window, window.len() as u64 * 8);
        let (mut pos, mut state) = (0, DecoderState::new(clock));
        let end = self.plans.scanner(self.class).scan(input, &mut pos, &mut state, &mut follow);
        // Strings without an end, and the like, are looked for up to the end, which is fast.
        let is_cut = matches!(end, ScanEnd::Fault(EventFault::Field { .. }));
        let looked = 1 + pos / 8 + if is_cut { window.len() as u64 / 64 } else { 0 };
        self.cost = self.cost.saturating_sub(looked);
        follow
    }

    fn far_words(&self, before: u64, cycles: u64) -> String {
        let seconds = |cycles: u64| cycles as f64 / self.steps.frequency.max(1) as f64;
        match cycles.checked_sub(before) {
            Some(step) => format!("the time of an event is {:.3} s after that of the one before", seconds(step)),
            None => format!("the time of an event is {:.3} s before that of the one before", seconds(before - cycles)),
        }
    }
}

fn error_of(fault: &EventFault) -> Error {
    match fault {
        EventFault::UnknownId { id, .. } => Error::malformed(format!("no event class has the id {id}")),
        EventFault::Empty { .. } => Error::malformed("an event has no bytes"),
        EventFault::Field { fault, path, .. } => Error::malformed(fault.kind.to_string()).in_field(path.clone()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const METADATA: &str = "/* CTF 1.8 */
        typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
        typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
        trace { major = 1; minor = 8; byte_order = le; };
        clock { name = board; freq = 1000000000; };
        typealias integer { size = 32; align = 8; signed = false; map = clock.board.value; } := time_t;
        stream { event.header := struct { time_t timestamp; uint8_t id; }; };
        event { name = out; id = 16; fields := struct { uint32_t thread; uint8_t name[12]; }; };
        event { name = idle; id = 17; };
        event { name = text; id = 34; fields := struct { string text; }; };";

    fn plans() -> TracePlans {
        TracePlans::new(Arc::new(crate::tsdl::parse(METADATA, false).unwrap().0))
    }

    /// A small generator of numbers.
    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % limit
        }
    }

    /// Events as bytes, with steps in time below `step`: where each begins, and its time.
    fn stream(random: &mut Random, count: usize, step: u64) -> (Vec<u8>, Vec<(usize, u64)>) {
        let (mut bytes, mut events, mut time) = (Vec::new(), Vec::new(), 0);
        for _ in 0..count {
            time += 1 + random.below(step);
            events.push((bytes.len(), time));
            bytes.extend((time as u32).to_le_bytes());
            match random.below(3) {
                0 => {
                    bytes.push(16);
                    bytes.extend(0x2000_0000_u32.to_le_bytes());
                    bytes.extend(b"main thread\0");
                }
                1 => bytes.push(17),
                _ => {
                    bytes.push(34);
                    bytes.extend(std::iter::repeat_n(b'x', random.below(30) as usize));
                    bytes.push(0);
                }
            }
        }
        (bytes, events)
    }

    #[derive(Default)]
    struct FoundEvents(Vec<(usize, u64)>, usize);

    impl SpineSink for FoundEvents {
        fn event(&mut self, _: EventClassId, cycles: u64, start_bits: u64, _: u64) -> bool {
            self.0.push((self.1 + (start_bits / 8) as usize, cycles));
            true
        }
    }

    /// The events of the stretches, read as packets are.
    fn events(plans: &TracePlans, bytes: &[u8]) -> (Vec<(usize, u64)>, Vec<Error>) {
        let stretches = stretches(plans, StreamClassId(0), Path::new("s"), bytes);
        let (mut found, mut state) = (FoundEvents::default(), DecoderState::new(0));
        let mut end = 0;
        for packet in stretches.packets.iter() {
            let begin = packet.offset_bytes as usize;
            assert!(begin >= end, "stretches overlap");
            end = begin + (packet.content_bits / 8) as usize;
            let content = &bytes[begin..end];
            let input = PlanInput::new(content, packet.content_bits);
            (found.1, state) = (begin, DecoderState::new(state.clock));
            let ended = plans.scanner(StreamClassId(0)).scan(input, &mut 0, &mut state, &mut found);
            assert_eq!(ended, ScanEnd::Complete, "a stretch is whole events");
        }
        (found.0, stretches.faults)
    }

    #[test]
    fn undamaged_streams_are_one_stretch() {
        let plans = plans();
        for (seed, step) in [(1, 1000), (2, 900_000_000), (3, 4_000_000_000), (4, 3_000_000)] {
            let (bytes, events_of) = stream(&mut Random(seed), 300, step);
            let (found, faults) = events(&plans, &bytes);
            assert_eq!((found, faults.len()), (events_of, 0), "steps below {step} ns");
        }
        // Three seconds without events.
        let (mut bytes, mut of) = stream(&mut Random(5), 40, 1000);
        for (at, time) in &mut of[20..] {
            *time += 3_000_000_000;
            bytes[*at..*at + 4].copy_from_slice(&(*time as u32).to_le_bytes());
        }
        let (found, faults) = events(&plans, &bytes);
        assert_eq!((found, faults.len()), (of, 0));
    }

    #[test]
    fn damage_costs_the_events_that_it_meets() {
        let plans = plans();
        let mut most_lost = 0;
        for seed in 0..300 {
            let mut random = Random(seed);
            let (bytes, of) = stream(&mut random, 120, 100_000);
            let at = random.below(bytes.len() as u64 * 8 / 10) as usize;
            let len = 1 + random.below(40) as usize;
            let mut damaged = bytes[..at].to_vec();
            // Bytes are missing, or are others, or there are more.
            let (taken, added) = match random.below(3) {
                0 => (len, 0),
                1 => (len, len),
                _ => (0, len),
            };
            damaged.extend((0..added).map(|_| random.below(256) as u8));
            damaged.extend(&bytes[at + taken..]);
            let (found, faults) = events(&plans, &damaged);
            assert!(faults.len() <= 3, "seed {seed}: {faults:?}");
            let end_of = |event: usize| of.get(event + 1).map_or(bytes.len(), |next| next.0);
            let mut lost = 0;
            for (event, &(begin, time)) in of.iter().enumerate() {
                let is_met = begin < at + taken.max(1) && end_of(event) > at;
                let moved = if begin >= at + taken { begin + added - taken } else { begin };
                lost += usize::from(!is_met && !found.contains(&(moved, time)));
            }
            most_lost = most_lost.max(lost);
            assert!(lost <= 3, "seed {seed}: {lost} events that were not damaged are lost, {faults:?}");
        }
        assert!(most_lost > 0, "places are not found by luck");
    }

    #[test]
    fn what_is_skipped_is_counted() {
        let plans = plans();
        let (bytes, of) = stream(&mut Random(9), 100, 1000);
        let (before, after) = bytes.split_at(of[50].0);
        let damaged = [before, &[0xEE; 100], after].concat();
        let (found, faults) = events(&plans, &damaged);
        assert_eq!(found.len(), 100);
        let [fault] = &faults[..] else { panic!("{faults:?}") };
        assert_eq!((fault.message(), fault.place().offset), ("no event class has the id 238", Some(of[50].0 as u64)));
        assert_eq!(fault.help(), Some("100 bytes are skipped, up to where events make sense again"));
        // The end of the stream has no place.
        let (_, faults) = events(&plans, &[before, &[0xEE; 100]].concat());
        let help = "100 bytes are skipped: there is no place after it where 4 events make sense";
        assert_eq!(faults[0].help(), Some(help));
    }

    #[test]
    fn noise_takes_no_time_in_the_square_of_its_length() {
        let plans = plans();
        // Strings without an end everywhere.
        let noise: Vec<u8> = [0, 0, 0, 0, 34].into_iter().cycle().map(|byte| byte | 1).take(1 << 20).collect();
        let (_, faults) = events(&plans, &noise);
        assert!(!faults.is_empty());
    }
}
