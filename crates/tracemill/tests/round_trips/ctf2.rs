//! Random traces of CTF 2, made by its definition and by nothing of the program: metadata, packets, what lines must show.

use std::fmt::Write;
use std::path::Path;

use crate::bits::{Bits, Order};
use crate::json::quoted;
use crate::nasty;
use crate::schemas::Rng;
use crate::value::Val;

/// A field class.
struct Type {
    kind: Kind,
    align: u64,
    /// Selectors of later fields: their place among the values that are kept.
    slot: Option<usize>,
}

/// An option of a variant: its name, the numbers that select it, its class.
type Choice = (Option<String>, Vec<(i128, i128)>, Type);

type Labels = Vec<(String, Vec<(i128, i128)>)>;

/// How many: fixed, or in a field.
#[derive(Clone)]
enum Count {
    Fixed(u64),
    /// The place of the value, and the location.
    Field(usize, String),
}

enum Kind {
    /// `small` keeps lengths and selectors in bounds.
    Integer {
        bits: u32,
        signed: bool,
        order: Order,
        reversed: bool,
        labels: Labels,
        small: Option<(i128, i128)>,
    },
    Variable {
        signed: bool,
        labels: Labels,
        small: Option<(i128, i128)>,
    },
    Boolean {
        bits: u32,
        order: Order,
        reversed: bool,
    },
    BitArray {
        bits: u32,
        order: Order,
        reversed: bool,
    },
    BitMap {
        bits: u32,
        order: Order,
        flags: Labels,
    },
    Real {
        bits: u32,
        order: Order,
        reversed: bool,
    },
    Text {
        count: Option<Count>,
        encoding: &'static str,
    },
    Blob {
        count: Count,
        media: Option<&'static str>,
    },
    Structure {
        members: Vec<(String, Type)>,
        minimum: u64,
    },
    Array {
        element: Box<Type>,
        count: Count,
        minimum: u64,
    },
    Optional {
        content: Box<Type>,
        slot: usize,
        at: String,
        is_boolean: bool,
        ranges: Vec<(i128, i128)>,
    },
    Variant {
        options: Vec<Choice>,
        slot: usize,
        at: String,
    },
}

/// A member that later ones may refer to.
#[derive(Clone)]
struct Selector {
    slot: usize,
    location: String,
    is_boolean: bool,
    /// Its numbers are small and none is negative.
    is_length: bool,
    bounds: (i128, i128),
    /// Labels that name each of its numbers once.
    labels: Labels,
}

struct Stream {
    id: u64,
    clock: Option<usize>,
    id_bits: u32,
    time_bits: u32,
    has_id: bool,
    common: Option<Type>,
    packet: Option<Type>,
    events: Vec<Event>,
    counts: bool,
    ends: bool,
    /// Packets say their sizes. Others are files, and a header begins at a whole byte: what is left of one is no event.
    is_sized: bool,
}

struct Event {
    id: u64,
    name: Option<String>,
    specific: Option<Type>,
    payload: Option<Type>,
}

/// Contents that a line must show.
#[derive(Debug)]
pub(crate) struct Want {
    pub(crate) name: Option<String>,
    pub(crate) id: u64,
    pub(crate) stream: u64,
    pub(crate) cycles: Option<u64>,
    pub(crate) scopes: [(&'static str, Option<Val>); 3],
}

/// A trace: the files of its folder, and its events stream after stream.
pub(crate) struct Trace {
    files: Vec<(String, Vec<u8>)>,
    pub(crate) wants: Vec<Vec<Want>>,
}

impl Trace {
    /// Writes it to a folder that is not there yet.
    pub(crate) fn write(&self, folder: &Path) {
        std::fs::create_dir_all(folder).expect("a folder can be made");
        for (name, bytes) in &self.files {
            std::fs::write(folder.join(name), bytes).expect("a file can be written");
        }
    }
}

struct Maker<'r> {
    rng: &'r mut Rng,
    order: Order,
    slots: Vec<i128>,
    selectors: Vec<Selector>,
    budget: u32,
    /// May there be numbers of more than 64 bits?
    has_wide: bool,
    /// Traces that every format can hold: no other byte orders, no wide numbers, plain names.
    is_plain: bool,
}

/// Makes one trace.
pub(crate) fn random_trace(rng: &mut Rng, is_plain: bool) -> Trace {
    let order = rng.pick(&[Order::Little, Order::Big]);
    let mut maker =
        Maker { rng, order, slots: Vec::new(), selectors: Vec::new(), budget: 0, has_wide: false, is_plain };
    maker.trace()
}

impl Maker<'_> {
    fn trace(&mut self) -> Trace {
        let clocks: Vec<String> = (0..self.rng.below(3)).map(|at| self.clock(at)).collect();
        let mut streams: Vec<Stream> = Vec::new();
        for at in 0..1 + self.rng.below(3) {
            let id = if self.rng.chance(80) { at } else { self.rng.pick(&[at + 7, 255, 65535, u64::MAX - at]) };
            if streams.iter().all(|stream| stream.id != id) {
                let stream = self.stream(id, clocks.len());
                streams.push(stream);
            }
        }
        let uuid: Option<Vec<u8>> = self.rng.chance(60).then(|| (0..16).map(|_| self.rng.next() as u8).collect());
        let metadata = self.metadata(&clocks, &streams, uuid.as_deref());
        let mut trace = Trace { files: vec![("metadata".into(), metadata)], wants: Vec::new() };
        for (at, stream) in streams.iter().enumerate() {
            for instance in 0..1 + self.rng.below(2) {
                let mut wants = Vec::new();
                let mut packets = self.packets(stream, instance, uuid.as_deref(), &mut wants);
                if stream.is_sized && !packets.is_empty() {
                    packets = vec![packets.concat()];
                }
                for (number, bytes) in packets.into_iter().enumerate() {
                    trace.files.push((format!("s{at}_{instance}_{number}"), bytes));
                }
                trace.wants.push(wants);
            }
        }
        trace
    }

    fn name(&mut self) -> String {
        if self.is_plain { format!("n{}", self.rng.below(100)) } else { nasty::name(self.rng) }
    }

    fn clock(&mut self, at: u64) -> String {
        let frequency = self.rng.pick(&[1_000_000_000, 1_000_000_000, 1000, 1, 7, 3_000_000_000, 2_995_200_000]);
        let mut json =
            format!("{{\"type\": \"clock-class\", \"id\": {}, \"frequency\": {frequency}", quoted(&format!("c{at}")));
        if self.rng.chance(60) {
            let _ = write!(json, ", \"name\": {}", quoted(&self.name()));
        }
        if self.rng.chance(50) {
            json.push_str(", \"origin\": \"unix-epoch\"");
        } else if self.rng.chance(30) {
            json.push_str(", \"origin\": {\"namespace\": \"n\", \"name\": \"o\", \"uid\": \"u\"}");
        }
        if self.rng.chance(50) {
            let seconds = self.rng.pick(&[0i64, 1, -1, 1_700_000_000, 1_600_000_000, -5_000_000]);
            let cycles = self.rng.below(frequency);
            let _ = write!(json, ", \"offset-from-origin\": {{\"seconds\": {seconds}, \"cycles\": {cycles}}}");
        }
        if self.rng.chance(20) {
            let _ =
                write!(json, ", \"precision\": {}, \"description\": {}", self.rng.below(1000), quoted(&self.name()));
        }
        json.push('}');
        json
    }

    fn stream(&mut self, id: u64, clocks: usize) -> Stream {
        self.selectors.clear();
        let clock = (clocks > 0 && self.rng.chance(85)).then(|| self.rng.below(clocks as u64) as usize);
        let packet = self.maybe_root("packet-context", 40);
        let common = self.maybe_root("event-record-common-context", 40);
        let mut events: Vec<Event> = Vec::new();
        // Events of no size at all are no events.
        let has_id = clock.is_none() || self.rng.chance(85);
        let id_bits = self.rng.pick(&[3, 5, 8, 16, 32, 64]);
        let (shared, count) = (self.selectors.len(), if has_id { 1 + self.rng.below(4) } else { 1 });
        for at in 0..count {
            self.selectors.truncate(shared);
            let id = if has_id && self.rng.chance(20) { self.rng.below(1 << id_bits.min(62)) } else { at };
            if events.iter().any(|event| event.id == id) {
                continue;
            }
            let specific = self.maybe_root("event-record-specific-context", 30);
            let payload = self.maybe_root("event-record-payload", 85);
            let name = self.rng.chance(85).then(|| self.name());
            events.push(Event { id, name, specific, payload });
        }
        let time_bits = self.rng.pick(&[64, 64, 32, 27, 40, 63]);
        let (counts, ends, is_sized) = (self.rng.chance(40), self.rng.chance(60), self.rng.chance(85));
        Stream { id, clock, id_bits, time_bits, has_id, common, packet, events, counts, ends, is_sized }
    }

    fn maybe_root(&mut self, scope: &str, percent: u64) -> Option<Type> {
        if !self.rng.chance(percent) {
            return None;
        }
        self.budget = 1 + self.rng.below(14) as u32;
        if self.rng.chance(5) {
            self.budget = 0;
        }
        self.has_wide = scope == "event-record-payload";
        let before = self.selectors.len();
        let root = self.structure(0);
        // From other scopes a location says its origin; only members of the root are named so.
        let (Kind::Structure { members, .. }, all) = (&root.kind, &mut self.selectors) else { return None };
        let own: Vec<Selector> = all.split_off(before);
        for selector in own {
            if let Some((name, _)) = members.iter().find(|(_, class)| class.slot == Some(selector.slot)) {
                let location = format!("{{\"origin\": \"{scope}\", \"path\": [{}]}}", quoted(name));
                all.push(Selector { location, ..selector });
            }
        }
        Some(root)
    }

    fn structure(&mut self, depth: u32) -> Type {
        let mut members: Vec<(String, Type)> = Vec::new();
        let around = self.selectors.clone();
        if depth > 0 {
            for selector in &mut self.selectors {
                selector.location = selector.location.replace("{\"path\": [", "{\"path\": [null, ");
            }
        }
        for _ in 0..if depth == 0 { 1 + self.rng.below(7) } else { self.rng.below(4) } {
            if self.budget == 0 {
                break;
            }
            self.budget -= 1;
            let name = self.name();
            if members.iter().any(|(of, _)| *of == name) {
                continue;
            }
            let mut class = self.class(depth + 1);
            self.note(&mut class, &name);
            members.push((name, class));
        }
        if depth > 0 {
            // The selectors of this structure are not visible outside of it.
            self.selectors = around;
        }
        let minimum = self.rng.pick(&[1, 1, 1, 1, 8, 32]);
        let align = members.iter().map(|(_, class)| class.align).fold(minimum, u64::max);
        Type { kind: Kind::Structure { members, minimum }, align, slot: None }
    }

    /// A member that others may refer to.
    fn note(&mut self, class: &mut Type, name: &str) {
        let (is_boolean, bounds, labels) = match &class.kind {
            Kind::Integer { small: Some(bounds), labels, .. } | Kind::Variable { small: Some(bounds), labels, .. } => {
                let is_one_each = |value| labels.iter().filter(|(_, ranges)| has(ranges, value)).count() == 1;
                let is_parted = (bounds.0..=bounds.1).all(is_one_each);
                (false, *bounds, if is_parted { labels.clone() } else { Labels::new() })
            }
            Kind::Boolean { .. } => (true, (0, 1), Labels::new()),
            _ => return,
        };
        let slot = self.slots.len();
        self.slots.push(0);
        class.slot = Some(slot);
        let location = format!("{{\"path\": [{}]}}", quoted(name));
        self.selectors.push(Selector {
            slot,
            location,
            is_boolean,
            is_length: !is_boolean && bounds.0 >= 0,
            bounds,
            labels,
        });
    }

    fn selector(&mut self, is_wanted: impl Fn(&Selector) -> bool) -> Option<Selector> {
        let found: Vec<&Selector> = self.selectors.iter().filter(|selector| is_wanted(selector)).collect();
        if found.is_empty() {
            return None;
        }
        let at = found.len() - 1 - self.rng.below(found.len().min(3) as u64) as usize;
        Some(found[at].clone())
    }

    fn count(&mut self) -> Count {
        self.count_in(1)
    }

    /// A count that is a multiple of `unit`, which divides 4.
    fn count_in(&mut self, unit: u64) -> Count {
        let fits = |bounds: (i128, i128)| unit == 1 || bounds == (4, 4);
        match self.selector(|selector| selector.is_length && fits(selector.bounds)) {
            Some(of) if self.rng.chance(70) => Count::Field(of.slot, of.location),
            _ => Count::Fixed(self.rng.below(5) * unit),
        }
    }

    fn class(&mut self, depth: u32) -> Type {
        if depth < 5 && self.rng.chance(40) {
            match self.rng.below(8) {
                0..=1 => return self.structure(depth),
                2..=4 => return self.array(depth),
                5 => {
                    if let Some(class) = self.optional(depth) {
                        return class;
                    }
                }
                _ => {
                    if let Some(class) = self.variant(depth) {
                        return class;
                    }
                }
            }
        }
        self.leaf()
    }

    fn array(&mut self, depth: u32) -> Type {
        let count = self.count();
        let element = Box::new(self.class(depth + 1));
        let minimum = self.rng.pick(&[1, 1, 1, 8, 16]);
        let align = element.align.max(minimum);
        Type { kind: Kind::Array { element, count, minimum }, align, slot: None }
    }

    fn optional(&mut self, depth: u32) -> Option<Type> {
        let of = self.selector(|_| true)?;
        let ranges = if of.is_boolean { Vec::new() } else { self.ranges(of.bounds) };
        let content = Box::new(self.class(depth + 1));
        let kind = Kind::Optional { content, slot: of.slot, at: of.location, is_boolean: of.is_boolean, ranges };
        Some(Type { kind, align: 1, slot: None })
    }

    fn ranges(&mut self, bounds: (i128, i128)) -> Vec<(i128, i128)> {
        let span = (bounds.1 - bounds.0) as u64;
        (0..1 + self.rng.below(2))
            .map(|_| {
                let low = bounds.0 + self.rng.below(span + 1) as i128;
                (low, low + self.rng.pick(&[0, 0, 1, 1000]))
            })
            .collect()
    }

    fn variant(&mut self, depth: u32) -> Option<Type> {
        let of = self.selector(|selector| !selector.is_boolean)?;
        let mut options: Vec<Choice> = Vec::new();
        // The labels of the selector are the options, as CTF 1.8 has it.
        if !of.labels.is_empty() && self.rng.chance(80) {
            for (name, ranges) in of.labels {
                let class = self.class(depth + 1);
                options.push((Some(name), ranges, class));
            }
            return Some(Type {
                kind: Kind::Variant { options, slot: of.slot, at: of.location },
                align: 1,
                slot: None,
            });
        }
        let mut from = of.bounds.0;
        while from <= of.bounds.1 {
            let to = (from + self.rng.below(4) as i128).min(of.bounds.1);
            let mut ranges = vec![(from, to)];
            if to > from && self.rng.chance(50) {
                ranges = vec![(from + 1, to), (from, from)];
            }
            let class = self.class(depth + 1);
            let name = self.rng.chance(85).then(|| self.name());
            let name = name.filter(|name| options.iter().all(|(of, ..)| of.as_ref() != Some(name)));
            options.push((name, ranges, class));
            from = to + 1;
        }
        Some(Type { kind: Kind::Variant { options, slot: of.slot, at: of.location }, align: 1, slot: None })
    }

    /// Order, alignment and the order of bits of a number of so many bits: other orders only where bytes are not shared.
    fn places(&mut self, bits: u32) -> (Order, u64, bool) {
        if bits.is_multiple_of(8) && !self.is_plain && self.rng.chance(25) {
            let order = self.rng.pick(&[Order::Little, Order::Big]);
            return (order, self.rng.pick(&[8, 8, 16, 32, 64]), self.rng.chance(15));
        }
        let align = if self.is_plain { 8 } else { self.rng.pick(&[1, 1, 1, 2, 8, 8, 8, 16, 32, 64]) };
        (self.order, align, false)
    }

    fn labels(&mut self, bounds: (i128, i128)) -> Labels {
        if !self.rng.chance(25) {
            return Vec::new();
        }
        let mut labels: Labels = Vec::new();
        for _ in 0..1 + self.rng.below(4) {
            let name = self.name();
            if labels.iter().any(|(of, _)| *of == name) {
                continue;
            }
            let ranges = (0..1 + self.rng.below(2)).map(|_| {
                let low = (bounds.0 + self.rng.below(5) as i128).min(bounds.1);
                let low = if self.rng.chance(20) { bounds.1 } else { low };
                (low, (low + self.rng.pick(&[0, 0, 1, 3])).min(bounds.1))
            });
            labels.push((name, ranges.collect()));
        }
        labels
    }

    /// Labels of which each number has one.
    fn parted(&mut self, (mut from, to): (i128, i128)) -> Labels {
        let mut labels: Labels = Vec::new();
        while from <= to {
            let name = self.name();
            if labels.iter().all(|(of, _)| *of != name) {
                let last = (from + self.rng.below(3) as i128).min(to);
                labels.push((name, vec![(from, last)]));
                from = last + 1;
            }
        }
        labels
    }

    fn leaf(&mut self) -> Type {
        let made = |kind, align| Type { kind, align, slot: None };
        match self.rng.below(20) {
            0..=3 => {
                let small =
                    if self.rng.chance(70) { self.rng.pick(&[(0, 1), (0, 3), (0, 5), (4, 4)]) } else { (-2, 2) };
                let bits = self.rng.pick(&[4, 8, 8, 16, 33, 64]);
                let (order, align, reversed) = self.places(bits);
                let labels = if self.rng.chance(30) { self.parted(small) } else { self.labels(small) };
                if self.rng.chance(15) {
                    return made(Kind::Variable { signed: small.0 < 0, labels, small: Some(small) }, 8);
                }
                let kind = Kind::Integer { bits, signed: small.0 < 0, order, reversed, labels, small: Some(small) };
                made(kind, align)
            }
            4..=8 => {
                let bits = match self.rng.below(10) {
                    0..=4 => self.rng.pick(&[8, 16, 32, 64]),
                    5 if !self.is_plain && self.has_wide => 65 + self.rng.below(55) as u32,
                    _ if self.is_plain => 32,
                    _ => 1 + self.rng.below(64) as u32,
                };
                let signed = self.rng.chance(40);
                let (order, align, reversed) = self.places(bits);
                let labels = self.labels(nasty::bounds(bits, signed));
                made(Kind::Integer { bits, signed, order, reversed, labels, small: None }, align)
            }
            9 => made(Kind::Variable { signed: self.rng.chance(50), labels: Vec::new(), small: None }, 8),
            10 | 11 => {
                let bits = self.rng.pick(&[1, 1, 8, 13, 32]);
                let (order, align, reversed) = self.places(bits);
                made(Kind::Boolean { bits, order, reversed }, align)
            }
            12 => {
                let most = if self.has_wide { 100 } else { 64 };
                let bits = if self.is_plain { 32 } else { 1 + self.rng.below(most) as u32 };
                let (order, align, reversed) = self.places(bits);
                made(Kind::BitArray { bits, order, reversed }, align)
            }
            13 => {
                let bits = 1 + self.rng.below(64) as u32;
                let (order, align, _) = self.places(bits);
                let mut flags: Labels = Vec::new();
                for _ in 0..1 + self.rng.below(3) {
                    let low = i128::from(self.rng.below(u64::from(bits)));
                    let name = self.name();
                    if flags.iter().all(|(of, _)| *of != name) {
                        flags.push((name, vec![(low, (low + self.rng.pick(&[0, 0, 2])).min(i128::from(bits) - 1))]));
                    }
                }
                made(Kind::BitMap { bits, order, flags }, align)
            }
            14 | 15 => {
                let bits = self.rng.pick(&[32, 64, 64]);
                let (order, align, reversed) = self.places(bits);
                made(Kind::Real { bits, order, reversed }, align)
            }
            16..=18 => {
                let encoding =
                    self.rng.pick(&["utf-8", "utf-8", "utf-8", "utf-16le", "utf-16be", "utf-32le", "utf-32be"]);
                let unit = encoded("\0", encoding).len() as u64;
                let count = if self.rng.chance(60) { None } else { Some(self.count_in(unit)) };
                made(Kind::Text { count, encoding }, 8)
            }
            _ => {
                let media = self.rng.pick(&[None, None, Some("image/png"), Some(""), Some("text/plain; x=\"y\"")]);
                made(Kind::Blob { count: self.count(), media }, 8)
            }
        }
    }

    // Metadata.

    fn metadata(&mut self, clocks: &[String], streams: &[Stream], uuid: Option<&[u8]>) -> Vec<u8> {
        let mut fragments = Vec::new();
        let mut preamble = String::from("{\"type\": \"preamble\", \"version\": 2");
        if let Some(uuid) = uuid {
            let _ = write!(preamble, ", \"uuid\": {uuid:?}");
        }
        fragments.push(preamble + "}");
        let mut trace = String::from("{\"type\": \"trace-class\"");
        for key in ["name", "namespace", "uid"] {
            if self.rng.chance(30) {
                let _ = write!(trace, ", \"{key}\": {}", quoted(&self.name()));
            }
        }
        if self.rng.chance(40) {
            let mut entries: Vec<(String, String)> = Vec::new();
            for _ in 0..self.rng.below(4) {
                let name = self.name();
                let value = if self.rng.chance(50) {
                    quoted(&nasty::text(self.rng))
                } else {
                    self.rng.pick(&[0, -1, i64::MIN, i64::MAX, 42]).to_string()
                };
                if entries.iter().all(|(of, _)| *of != name) {
                    entries.push((name, value));
                }
            }
            let list: Vec<String> = entries.iter().map(|(name, value)| format!("{}: {value}", quoted(name))).collect();
            let _ = write!(trace, ", \"environment\": {{{}}}", list.join(", "));
        }
        let role = |role: &str, bits: u32, align: u32, order: Order| {
            format!(
                "{{\"type\": \"fixed-length-unsigned-integer\", \"length\": {bits}, \"alignment\": {align}, \
                 \"byte-order\": \"{}\", \"roles\": [\"{role}\"]}}",
                word(order)
            )
        };
        let order = self.order;
        let member = |name: &str, class: String| format!("{{\"name\": {}, \"field-class\": {class}}}", quoted(name));
        let structure =
            |members: Vec<String>| format!("{{\"type\": \"structure\", \"member-classes\": [{}]}}", members.join(", "));
        let mut header = vec![member("magic", role("packet-magic-number", 32, 8, order))];
        if uuid.is_some() {
            let class = "{\"type\": \"static-length-blob\", \"length\": 16, \"roles\": [\"metadata-stream-uuid\"]}";
            header.push(member("uuid", class.into()));
        }
        header.push(member("stream_id", role("data-stream-class-id", 64, 8, order)));
        header.push(member("instance", role("data-stream-id", 16, 8, order)));
        let _ = write!(trace, ", \"packet-header-field-class\": {}}}", structure(header));
        fragments.push(trace);
        fragments.extend(clocks.iter().cloned());
        for stream in streams {
            let mut json = format!("{{\"type\": \"data-stream-class\", \"id\": {}", stream.id);
            if self.rng.chance(30) {
                let _ = write!(json, ", \"name\": {}", quoted(&self.name()));
            }
            if let Some(clock) = stream.clock {
                let _ = write!(json, ", \"default-clock-class-id\": \"c{clock}\"");
            }
            let sizes = [("p content", "packet-content-length"), ("p total", "packet-total-length")];
            let size = |(name, size): (&str, &str)| match stream.is_sized {
                true => member(name, role(size, 32, 8, order)),
                false => member(name, role("", 32, 8, order).replace(", \"roles\": [\"\"]", "")),
            };
            let mut context: Vec<String> = sizes.into_iter().map(size).collect();
            if stream.clock.is_some() {
                context.push(member("p begin", role("default-clock-timestamp", 64, 8, order)));
                if stream.ends {
                    context.push(member("p end", role("packet-end-default-clock-timestamp", 64, 8, order)));
                }
            }
            if stream.counts {
                context.push(member("p lost", role("discarded-event-record-counter-snapshot", 32, 8, order)));
                context.push(member("p number", role("packet-sequence-number", 32, 8, order)));
            }
            if let Some(more) = &stream.packet {
                // Its members are those of the context itself: locations begin there.
                let Kind::Structure { members, .. } = &more.kind else { continue };
                context.extend(members.iter().map(|(name, class)| member(name, json_of(class))));
            }
            let _ = write!(json, ", \"packet-context-field-class\": {}", structure(context));
            let (mut head, align) = (Vec::new(), if stream.is_sized { 1 } else { 8 });
            if stream.has_id {
                head.push(member("id", role("event-record-class-id", stream.id_bits, align, order)));
            }
            if stream.clock.is_some() {
                let align = if stream.has_id { 1 } else { align };
                head.push(member("time", role("default-clock-timestamp", stream.time_bits, align, order)));
            }
            let _ = write!(json, ", \"event-record-header-field-class\": {}", structure(head));
            if let Some(common) = &stream.common {
                let _ = write!(json, ", \"event-record-common-context-field-class\": {}", json_of(common));
            }
            fragments.push(json + "}");
            for event in &stream.events {
                let mut json = format!(
                    "{{\"type\": \"event-record-class\", \"id\": {}, \"data-stream-class-id\": {}",
                    event.id, stream.id
                );
                if let Some(name) = &event.name {
                    let _ = write!(json, ", \"name\": {}", quoted(name));
                }
                if let Some(class) = &event.specific {
                    let _ = write!(json, ", \"specific-context-field-class\": {}", json_of(class));
                }
                if let Some(class) = &event.payload {
                    let _ = write!(json, ", \"payload-field-class\": {}", json_of(class));
                }
                fragments.push(json + "}");
            }
        }
        fragments.iter().flat_map(|json| format!("\x1e{json}\n").into_bytes()).collect()
    }

    // Packets.

    fn packets(&mut self, stream: &Stream, instance: u64, uuid: Option<&[u8]>, wants: &mut Vec<Want>) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let mut clock = match self.rng.below(5) {
            0 => 0,
            1 => (1 << 62) + self.rng.below(1000),
            2 => u64::MAX - (1 << 30),
            _ => self.rng.below(1 << 40),
        };
        let (mut lost, mut number) = (0, self.rng.pick(&[0, 0, 5]));
        for _ in 0..self.rng.below(4) {
            let mut out = Bits::default();
            let order = self.order;
            out.put(0xc1fc_1fc1, 32, order, false);
            if let Some(uuid) = uuid {
                out.put_bytes(uuid);
            }
            out.put(stream.id.into(), 64, order, false);
            out.put(instance.into(), 16, order, false);
            let inner = stream.packet.as_ref().map_or(1, |class| match &class.kind {
                Kind::Structure { members, .. } => members.iter().map(|(_, class)| class.align).max().unwrap_or(1),
                _ => 1,
            });
            out.align(inner.max(8));
            let sizes = out.pos;
            out.put(0, 64, order, false);
            let mut end_at = None;
            if stream.clock.is_some() {
                out.put(clock.into(), 64, order, false);
                if stream.ends {
                    end_at = Some(out.pos);
                    out.put(0, 64, order, false);
                }
            }
            if stream.counts {
                lost += self.rng.pick(&[0, 0, 0, 7]);
                number += self.rng.pick(&[1, 1, 1, 3]);
                out.put(lost, 32, order, false);
                out.put(number, 32, order, false);
            }
            if let Some(context) = &stream.packet {
                let Kind::Structure { members, .. } = &context.kind else { continue };
                for (_, class) in members {
                    self.value(class, &mut out);
                }
            }
            for _ in 0..self.rng.pick(&[0, 1, 3, 12]) {
                if stream.events.is_empty() {
                    break;
                }
                let event = &stream.events[self.rng.below(stream.events.len() as u64) as usize];
                if !stream.is_sized {
                    out.align(8);
                }
                if stream.has_id {
                    out.put(event.id.into(), stream.id_bits, order, false);
                }
                if stream.clock.is_some() {
                    clock += self.rng.below(1 << 20);
                    out.put(clock.into(), stream.time_bits, order, false);
                }
                let common = stream.common.as_ref().map(|class| self.value(class, &mut out));
                let specific = event.specific.as_ref().map(|class| self.value(class, &mut out));
                let payload = event.payload.as_ref().map(|class| self.value(class, &mut out));
                wants.push(Want {
                    name: event.name.clone(),
                    id: event.id,
                    stream: stream.id,
                    cycles: stream.clock.map(|_| clock),
                    scopes: [("stream_context", common), ("event_context", specific), ("payload", payload)],
                });
            }
            let content = out.pos;
            out.align(8);
            if stream.is_sized {
                out.seek(out.pos + 8 * self.rng.pick(&[0, 0, 3, 64]));
            }
            let total = out.pos;
            out.seek(sizes);
            out.put(content.into(), 32, order, false);
            out.put(total.into(), 32, order, false);
            if let Some(at) = end_at {
                out.seek(at);
                clock += self.rng.below(10);
                out.put(clock.into(), 64, order, false);
            }
            all.push(out.bytes);
        }
        all
    }

    fn value(&mut self, class: &Type, out: &mut Bits) -> Val {
        let is_stepped = !matches!(class.kind, Kind::Optional { .. } | Kind::Variant { .. });
        if is_stepped {
            out.align(class.align);
        }
        let value = self.content(class, out);
        if let Some(slot) = class.slot {
            self.slots[slot] = match &value {
                Val::Int(value) | Val::Enum(value, _) => *value,
                Val::Bool(value) => i128::from(*value),
                _ => 0,
            };
        }
        value
    }

    fn content(&mut self, class: &Type, out: &mut Bits) -> Val {
        match &class.kind {
            Kind::Integer { bits, signed, order, reversed, labels, small } => {
                let value = match small {
                    Some((low, high)) => low + self.rng.below((high - low + 1) as u64) as i128,
                    None if !labels.is_empty() && self.rng.chance(70) => labels[0].1[0].0,
                    None => nasty::number(self.rng, *bits, *signed),
                };
                out.put(value, *bits, *order, *reversed);
                labelled(value, labels)
            }
            Kind::Variable { signed, labels, small } => {
                let bits = 1 + self.rng.below(64) as u32;
                let value = match small {
                    Some((low, high)) => low + self.rng.below((high - low + 1) as u64) as i128,
                    None => nasty::number(self.rng, bits, *signed),
                };
                out.put_leb(value, *signed, self.rng.pick(&[0, 0, 0, 1, 3]));
                labelled(value, labels)
            }
            Kind::Boolean { bits, order, reversed } => {
                let value = if self.rng.chance(50) { 0 } else { nasty::number(self.rng, *bits, false) };
                out.put(value, *bits, *order, *reversed);
                Val::Bool(value != 0)
            }
            Kind::BitArray { bits, order, reversed } => {
                let value = nasty::number(self.rng, *bits, false);
                out.put(value, *bits, *order, *reversed);
                Val::Int(value)
            }
            Kind::BitMap { bits, order, flags } => {
                let value = nasty::number(self.rng, *bits, false);
                out.put(value, *bits, *order, false);
                let is_set = |ranges: &[(i128, i128)]| {
                    ranges.iter().any(|&(low, high)| (low..=high).any(|bit| value >> bit & 1 == 1))
                };
                let set = flags.iter().filter(|(_, ranges)| is_set(ranges)).map(|(name, _)| name.clone());
                Val::Map(value, set.collect())
            }
            Kind::Real { bits, order, reversed } => {
                let value = nasty::real_bits(self.rng, *bits);
                out.put(value.into(), *bits, *order, *reversed);
                Val::Real(if *bits == 32 { f32::from_bits(value as u32).into() } else { f64::from_bits(value) })
            }
            Kind::Text { count, encoding } => {
                let limit = count.as_ref().map(|count| self.count_of(count) as usize);
                let text = nasty::text(self.rng);
                let mut bytes = encoded(&text, encoding);
                let zero = encoded("\0", encoding);
                match limit {
                    None => bytes.extend(&zero),
                    Some(limit) => {
                        bytes.extend(zero.iter().cycle().take(limit.saturating_sub(bytes.len())));
                        bytes.truncate(limit);
                    }
                }
                out.put_bytes(&bytes);
                let end = match limit {
                    None => bytes.len() - zero.len(),
                    Some(_) => bytes.len(),
                };
                Val::Text(decoded(&bytes[..end], encoding))
            }
            Kind::Blob { count, media } => {
                let len = self.count_of(count);
                let bytes: Vec<u8> = (0..len).map(|_| self.rng.next() as u8).collect();
                out.put_bytes(&bytes);
                Val::Blob(media.unwrap_or("application/octet-stream").into(), bytes)
            }
            Kind::Structure { members, .. } => {
                Val::Struct(members.iter().map(|(name, class)| (name.clone(), self.value(class, out))).collect())
            }
            Kind::Array { element, count, .. } => {
                let len = self.count_of(count);
                Val::List((0..len).map(|_| self.value(element, out)).collect())
            }
            Kind::Optional { content, slot, is_boolean, ranges, .. } => {
                let selector = self.slots[*slot];
                let is_there = if *is_boolean { selector != 0 } else { has(ranges, selector) };
                Val::Opt(is_there.then(|| Box::new(self.value(content, out))))
            }
            Kind::Variant { options, slot, .. } => {
                let selector = self.slots[*slot];
                let found =
                    options.iter().position(|(_, ranges, _)| has(ranges, selector)).expect("an option for each");
                let (name, _, class) = &options[found];
                let name = name.clone().unwrap_or_else(|| found.to_string());
                Val::Variant(name, Box::new(self.value(class, out)))
            }
        }
    }

    fn count_of(&self, count: &Count) -> u64 {
        match count {
            Count::Fixed(count) => *count,
            Count::Field(slot, _) => self.slots[*slot] as u64,
        }
    }
}

fn has(ranges: &[(i128, i128)], value: i128) -> bool {
    ranges.iter().any(|&(low, high)| low <= value && value <= high)
}

fn labelled(value: i128, labels: &Labels) -> Val {
    if labels.is_empty() {
        return Val::Int(value);
    }
    let names = labels.iter().filter(|(_, ranges)| has(ranges, value)).map(|(name, _)| name.clone());
    Val::Enum(value, names.collect())
}

fn encoded(text: &str, encoding: &str) -> Vec<u8> {
    match encoding {
        "utf-16le" => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        "utf-16be" => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
        "utf-32le" => text.chars().flat_map(|letter| (letter as u32).to_le_bytes()).collect(),
        "utf-32be" => text.chars().flat_map(|letter| (letter as u32).to_be_bytes()).collect(),
        _ => text.as_bytes().to_vec(),
    }
}

/// A text as a line shows it: it ends at a zero.
fn decoded(bytes: &[u8], encoding: &str) -> String {
    let text = match encoding {
        "utf-16le" => {
            let units = bytes.as_chunks().0;
            String::from_utf16_lossy(&units.iter().map(|&unit| u16::from_le_bytes(unit)).collect::<Vec<_>>())
        }
        "utf-16be" => {
            let units = bytes.as_chunks().0;
            String::from_utf16_lossy(&units.iter().map(|&unit| u16::from_be_bytes(unit)).collect::<Vec<_>>())
        }
        "utf-32le" | "utf-32be" => {
            let units = bytes.as_chunks().0;
            let number = if encoding == "utf-32le" { u32::from_le_bytes } else { u32::from_be_bytes };
            let letters = units.iter().map(|&unit| char::from_u32(number(unit)).unwrap_or('\u{fffd}'));
            letters.collect()
        }
        _ => String::from_utf8_lossy(bytes).into_owned(),
    };
    match text.find('\0') {
        Some(end) => text[..end].to_string(),
        None => text,
    }
}

fn word(order: Order) -> &'static str {
    match order {
        Order::Little => "little-endian",
        Order::Big => "big-endian",
    }
}

fn json_of_ranges(ranges: &[(i128, i128)]) -> String {
    let list: Vec<String> = ranges.iter().map(|(low, high)| format!("[{low}, {high}]")).collect();
    format!("[{}]", list.join(", "))
}

fn json_of_labels(labels: &Labels) -> String {
    let list: Vec<String> =
        labels.iter().map(|(name, ranges)| format!("{}: {}", quoted(name), json_of_ranges(ranges))).collect();
    format!("{{{}}}", list.join(", "))
}

fn json_of_bits(kind: &str, bits: u32, order: Order, align: u64, reversed: bool) -> String {
    let usual = order == Order::Little;
    let bit_order = if usual != reversed { "first-to-last" } else { "last-to-first" };
    format!(
        "{{\"type\": \"{kind}\", \"length\": {bits}, \"byte-order\": \"{}\", \"alignment\": {align}, \
         \"bit-order\": \"{bit_order}\"",
        word(order)
    )
}

fn json_of(class: &Type) -> String {
    let align = class.align;
    let with_labels = |labels: &Labels| {
        if labels.is_empty() { String::new() } else { format!(", \"mappings\": {}", json_of_labels(labels)) }
    };
    let json_of_count = |count: &Count| match count {
        Count::Fixed(count) => format!("\"length\": {count}"),
        Count::Field(_, location) => format!("\"length-field-location\": {location}"),
    };
    match &class.kind {
        Kind::Integer { bits, signed, order, reversed, labels, .. } => {
            let kind = if *signed { "fixed-length-signed-integer" } else { "fixed-length-unsigned-integer" };
            json_of_bits(kind, *bits, *order, align, *reversed) + &with_labels(labels) + "}"
        }
        Kind::Variable { signed, labels, .. } => {
            let kind = if *signed { "signed" } else { "unsigned" };
            format!("{{\"type\": \"variable-length-{kind}-integer\"{}}}", with_labels(labels))
        }
        Kind::Boolean { bits, order, reversed } => {
            json_of_bits("fixed-length-boolean", *bits, *order, align, *reversed) + "}"
        }
        Kind::BitArray { bits, order, reversed } => {
            json_of_bits("fixed-length-bit-array", *bits, *order, align, *reversed) + "}"
        }
        Kind::BitMap { bits, order, flags } => {
            let json = json_of_bits("fixed-length-bit-map", *bits, *order, align, false);
            format!("{json}, \"flags\": {}}}", json_of_labels(flags))
        }
        Kind::Real { bits, order, reversed } => {
            json_of_bits("fixed-length-floating-point-number", *bits, *order, align, *reversed) + "}"
        }
        Kind::Text { count, encoding } => {
            let (kind, count) = match count {
                None => ("null-terminated", String::new()),
                Some(count @ Count::Fixed(_)) => ("static-length", ", ".to_string() + &json_of_count(count)),
                Some(count) => ("dynamic-length", ", ".to_string() + &json_of_count(count)),
            };
            format!("{{\"type\": \"{kind}-string\", \"encoding\": \"{encoding}\"{count}}}")
        }
        Kind::Blob { count, media } => {
            let kind = if matches!(count, Count::Fixed(_)) { "static" } else { "dynamic" };
            let media = media.map(|media| format!(", \"media-type\": {}", quoted(media))).unwrap_or_default();
            format!("{{\"type\": \"{kind}-length-blob\", {}{media}}}", json_of_count(count))
        }
        Kind::Structure { members, minimum } => {
            let list: Vec<String> = members
                .iter()
                .map(|(name, class)| format!("{{\"name\": {}, \"field-class\": {}}}", quoted(name), json_of(class)))
                .collect();
            format!(
                "{{\"type\": \"structure\", \"minimum-alignment\": {minimum}, \"member-classes\": [{}]}}",
                list.join(", ")
            )
        }
        Kind::Array { element, count, minimum } => {
            let kind = if matches!(count, Count::Fixed(_)) { "static" } else { "dynamic" };
            format!(
                "{{\"type\": \"{kind}-length-array\", \"minimum-alignment\": {minimum}, {}, \"element-field-class\": {}}}",
                json_of_count(count),
                json_of(element)
            )
        }
        Kind::Optional { content, at, is_boolean, ranges, .. } => {
            let ranges = if *is_boolean {
                String::new()
            } else {
                format!(", \"selector-field-ranges\": {}", json_of_ranges(ranges))
            };
            format!(
                "{{\"type\": \"optional\", \"selector-field-location\": {at}{ranges}, \"field-class\": {}}}",
                json_of(content)
            )
        }
        Kind::Variant { options, at, .. } => {
            let list: Vec<String> = options
                .iter()
                .map(|(name, ranges, class)| {
                    let name = name.as_ref().map(|name| format!("\"name\": {}, ", quoted(name))).unwrap_or_default();
                    format!(
                        "{{{name}\"selector-field-ranges\": {}, \"field-class\": {}}}",
                        json_of_ranges(ranges),
                        json_of(class)
                    )
                })
                .collect();
            format!("{{\"type\": \"variant\", \"selector-field-location\": {at}, \"options\": [{}]}}", list.join(", "))
        }
    }
}
