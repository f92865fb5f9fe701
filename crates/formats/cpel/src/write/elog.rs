//! Any trace as a log of VPP: a type for each event class, with its fields as arguments as far as these have room.

use std::collections::HashMap;

use tracemill_codec::chunk::EventRef;
use tracemill_codec::value::Value;
use tracemill_model::clock::ClockMap;
use tracemill_model::error::Result;
use tracemill_model::packet::Gap;
use tracemill_model::schema::{ClockClass, ClockOrigin, DisplayBase, EventClassId, FieldKind, Mapping, Schema};

use super::elog_own::{put_cstring, put_integer, stored_ns, time_of, words};
use super::fields::{self, Fields, Leaf, Strings, leaves, mapped};
use super::log::clocks;
use super::spool::{Output, Spool, WRITING};
use super::tracks::{Rule, Tracks};
use crate::elog::header::{EVENT_BYTES, MAGIC, UNIX_FROM};
use tracemill_format::OutPath;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::{Source, TraceWriter, WriteOptions};
use tracemill_format::writer::{ClassKey, count_headers};
use tracemill_semantics::{Semantics, names};

/// Octets of arguments that an event has.
const MAX_ARGS: usize = 20;
/// Octets of an offset in the string table.
const TEXT_BYTES: usize = 4;
/// Most strings of an enumeration.
const MAX_LABELS: usize = 4096;
/// Types and tracks have numbers of 16 bits.
const MAX_TYPES: usize = 1 << 16;

/// Writes a log.
pub(super) struct Log {
    output: Output,
    sources: Vec<Source>,
    streams: Vec<Stream>,
    classes: HashMap<(usize, EventClassId), Class>,
    /// Type by class, and for classes of many ids by name.
    numbers: HashMap<ClassKey, u16>,
    types: Vec<Type>,
    /// By source.
    semantics: Vec<Semantics>,
    tracks: Tracks,
    strings: Strings,
    events: Spool,
    count: u32,
    /// Ns of the first event; what is stored for it.
    start: Option<(i128, u64)>,
    /// Ns of the last event.
    last: i128,
    losses: Losses,
    scratch: Vec<u8>,
}

struct Stream {
    source: usize,
    stream: usize,
    clock: Option<ClockMap>,
}

/// What the events of a class become.
#[derive(Clone)]
struct Class {
    rule: Rule,
    args: Vec<Arg>,
    labels: Vec<Vec<u8>>,
    /// What is lost of it, by kind.
    losses: Vec<Lost>,
}

#[derive(Clone)]
enum Arg {
    /// An integer of so many octets.
    Integer(Leaf, u8, &'static str),
    Enum(Leaf, u8),
    Float(Leaf, u8),
    /// A text as it is.
    Text(Leaf),
    /// A text of other fields.
    Made(Vec<Leaf>, bool),
}

struct Type {
    format: Vec<u8>,
    args: String,
    labels: Vec<Vec<u8>>,
}

impl Arg {
    fn len(&self) -> usize {
        match self {
            Arg::Integer(_, len, _) | Arg::Enum(_, len) | Arg::Float(_, len) => usize::from(*len),
            Arg::Text(_) | Arg::Made(..) => TEXT_BYTES,
        }
    }

    /// Its letter and size.
    fn code(&self) -> String {
        match self {
            Arg::Integer(_, len, _) => format!("i{len}"),
            Arg::Enum(_, len) => format!("t{len}"),
            Arg::Float(_, len) => format!("f{len}"),
            Arg::Text(_) | Arg::Made(..) => format!("T{TEXT_BYTES}"),
        }
    }

    /// How a format shows it.
    fn shown(&self) -> String {
        let named = |leaf: &Leaf, conversion: &str| format!("{}={conversion}", plain(&leaf.name));
        match self {
            Arg::Integer(leaf, _, conversion) => named(leaf, conversion),
            Arg::Enum(leaf, _) | Arg::Text(leaf) => named(leaf, "%s"),
            Arg::Float(leaf, _) => named(leaf, "%.9f"),
            Arg::Made(leaves, true) => named(&leaves[0], "%s"),
            Arg::Made(..) => "%s".into(),
        }
    }
}

/// A name as a part of a format.
fn plain(name: &str) -> String {
    mapped(name, |one| matches!(one, '%' | '\0'))
}

/// The name of an event as the beginning of a format: up to its first blank, `(` or `%` that is what viewers show.
fn type_name(name: &str) -> String {
    mapped(name, |one| matches!(one, ' ' | '(' | '%' | '\0'))
}

impl Class {
    fn of(schema: &Schema, semantics: &Semantics, event: EventClassId) -> Class {
        let rule = Rule::of(semantics, event);
        let (leaves, _) = leaves(schema, event, &rule.places());
        let (mut labels, mut losses) = (None, Vec::new());
        let mut args: Vec<Arg> = Vec::new();
        for leaf in leaves {
            args.push(Self::arg(schema, leaf, &mut labels, &mut losses));
        }
        if args.iter().map(Arg::len).sum::<usize>() > MAX_ARGS {
            // What has no room becomes a text, which needs room itself.
            let (mut room, mut rest, mut typed) = (MAX_ARGS - TEXT_BYTES, Vec::new(), Vec::new());
            for arg in args {
                match (room.checked_sub(arg.len()), arg) {
                    (Some(left), arg) => {
                        room = left;
                        typed.push(arg);
                    }
                    (None, Arg::Made(leaves, _)) => rest.extend(leaves),
                    (None, Arg::Integer(leaf, ..) | Arg::Enum(leaf, _) | Arg::Float(leaf, _) | Arg::Text(leaf)) => {
                        losses.push(Lost::FieldsBeyondArguments);
                        rest.push(leaf);
                    }
                }
            }
            typed.push(Arg::Made(rest, false));
            args = typed;
        }
        Class { rule, args, labels: labels.unwrap_or_default(), losses }
    }

    fn arg(schema: &Schema, leaf: Leaf, labels: &mut Option<Vec<Vec<u8>>>, losses: &mut Vec<Lost>) -> Arg {
        let len_of = |bits: u32| if bits == 0 { 8 } else { (bits.div_ceil(8) as u8).next_power_of_two() };
        match &schema.field_class(leaf.class).kind {
            FieldKind::Integer(integer) if integer.len_bits <= 64 => {
                let len = len_of(integer.len_bits);
                if let Some(mappings) = &integer.mappings {
                    if let (None, false, Some(all)) = (&labels, integer.signed, label_list(mappings)) {
                        *labels = Some(all);
                        return Arg::Enum(leaf, len);
                    }
                    losses.push(Lost::FurtherLabels);
                }
                if integer.signed {
                    losses.push(Lost::Signs);
                    return if len == 8 { Arg::Integer(leaf, 8, "%Ld") } else { Arg::Integer(leaf, 4, "%d") };
                }
                Arg::Integer(leaf, len, unsigned(len, integer.base == DisplayBase::Hexadecimal))
            }
            FieldKind::BitArray(bits) if bits.len_bits <= 64 => {
                let len = len_of(bits.len_bits.max(1));
                Arg::Integer(leaf, len, unsigned(len, true))
            }
            FieldKind::Boolean(_) => Arg::Integer(leaf, 1, "%u"),
            FieldKind::Float(float) if matches!(float.len_bits, 32 | 64) => {
                let len = (float.len_bits / 8) as u8;
                Arg::Float(leaf, len)
            }
            FieldKind::String(_) | FieldKind::Rendered(_) => Arg::Text(leaf),
            _ => {
                losses.push(Lost::FieldsAsText);
                Arg::Made(vec![leaf], true)
            }
        }
    }
}

/// How formats show a number without a sign.
fn unsigned(len: u8, is_hex: bool) -> &'static str {
    match (len, is_hex) {
        (8, true) => "0x%Lx",
        (8, false) => "%Lu",
        (_, true) => "0x%x",
        (_, false) => "%u",
    }
}

/// The strings of an enumeration by their numbers, when these are few; numbers without one have themselves.
fn label_list(mappings: &[Mapping]) -> Option<Vec<Vec<u8>>> {
    let mut labels: Vec<Option<Vec<u8>>> = Vec::new();
    for mapping in mappings {
        for &(low, high) in &mapping.ranges {
            let low = usize::try_from(low).ok()?;
            let high = usize::try_from(high).ok().filter(|&high| high < MAX_LABELS)?;
            for at in low..=high {
                labels.resize(labels.len().max(at + 1), None);
                labels[at].get_or_insert_with(|| mapping.label.as_bytes().to_vec());
            }
        }
    }
    let label = |(at, label): (usize, Option<Vec<u8>>)| label.unwrap_or_else(|| at.to_string().into_bytes());
    Some(labels.into_iter().enumerate().map(label).collect())
}

impl Log {
    pub(super) fn new(path: &OutPath, sources: &[Source], _options: &WriteOptions) -> Log {
        let mut losses = Losses::default();
        sources.iter().for_each(|source| count_headers(&mut losses, source, &[names::CPU], &["id", "timestamp", "v"]));
        let semantics: Vec<Semantics> = sources.iter().map(|source| Semantics::new(&source.schema)).collect();
        for (schema, semantics) in sources.iter().map(|source| &source.schema).zip(&semantics) {
            for at in 0..schema.events().len() {
                let class = Class::of(schema, semantics, EventClassId(at as u32));
                class.losses.into_iter().for_each(|kind| losses.add(kind, 1));
            }
        }
        let map = |(clock, source): (&ClockClass, &Source)| source.clock_map(clock);
        let clocks = clocks(sources);
        let others = clocks.iter().flatten().filter(|(clock, _)| clock.origin != ClockOrigin::Unix).count();
        losses.add(Lost::ClockOrigins, others as u64);
        losses.add(Lost::ClocklessStreams, clocks.iter().filter(|clock| clock.is_none()).count() as u64);
        let places = sources.iter().enumerate().flat_map(|(at, of)| (0..of.streams.len()).map(move |one| (at, one)));
        let stream =
            |((source, stream), clock): ((usize, usize), Option<_>)| Stream { source, stream, clock: clock.map(map) };
        Log {
            streams: places.zip(clocks).map(stream).collect(),
            output: Output::new(path),
            sources: sources.to_vec(),
            classes: HashMap::new(),
            numbers: HashMap::new(),
            types: Vec::new(),
            semantics,
            tracks: Tracks::default(),
            strings: Strings::new(Spool::new(path, "strings")),
            events: Spool::new(path, "events"),
            count: 0,
            start: None,
            last: 0,
            losses,
            scratch: Vec::new(),
        }
    }

    /// The offset of a text in the string table.
    fn string(&mut self, mut text: Vec<u8>) -> Result<u32> {
        self.losses.add(Lost::LongTexts, fields::storable(&mut text).into());
        let before = self.strings.len();
        let Some(at) = self.strings.add(&text)? else {
            self.losses.add(Lost::TextsBeyondTable, 1);
            return Ok(0);
        };
        self.output.grow((self.strings.len() - before) as usize)?;
        Ok(at)
    }

    /// The number of the type of an event, made when it is met first; `None` when there are too many.
    fn number(&mut self, source: usize, event: EventRef<'_>, of: &Class) -> Option<u16> {
        let key = ClassKey::of(source, event);
        if let Some(&number) = self.numbers.get(&key) {
            return Some(number);
        }
        if self.types.len() >= MAX_TYPES {
            // Not kept: there may be any number of them.
            return None;
        }
        let name = key.name(&self.sources[source].schema);
        let mut format = type_name(&name);
        let mut args = String::new();
        for arg in &of.args {
            format.push(' ');
            format.push_str(&arg.shown());
            args.push_str(&arg.code());
        }
        let number = u16::try_from(self.types.len()).ok()?;
        self.types.push(Type { format: format.into_bytes(), args, labels: of.labels.clone() });
        self.numbers.insert(key, number);
        Some(number)
    }

    /// Appends the value of an argument.
    fn put(&mut self, arg: &Arg, number: u16, schema: &Schema, of: &mut Fields<'_>) -> Result<()> {
        match arg {
            Arg::Integer(leaf, len, _) => {
                let value = of.get(&leaf.place)?.and_then(Value::integer).unwrap_or(0);
                put_integer(&mut self.scratch, value as u64, *len);
            }
            Arg::Enum(leaf, len) => {
                let value = of.get(&leaf.place)?.and_then(Value::integer).unwrap_or(0) as u64;
                let mut known = value;
                if let Some(of) = self.types.get_mut(usize::from(number)) {
                    // Numbers without a string get one, as far as there is room.
                    let wanted = usize::try_from(value).unwrap_or(MAX_LABELS).min(MAX_LABELS - 1);
                    while of.labels.len() <= wanted {
                        of.labels.push(of.labels.len().to_string().into_bytes());
                    }
                    known = value.min(of.labels.len() as u64 - 1);
                }
                self.losses.add(Lost::LargeEnumerators, (known != value).into());
                put_integer(&mut self.scratch, known, *len);
            }
            Arg::Float(leaf, len) => {
                let value = match of.get(&leaf.place)? {
                    Some(Value::Real(value)) => *value,
                    _ => 0.0,
                };
                let bits = if *len == 4 { u64::from((value as f32).to_bits()) } else { value.to_bits() };
                put_integer(&mut self.scratch, bits, *len);
            }
            Arg::Text(leaf) => {
                let text = of.get(&leaf.place)?.and_then(Value::bytes).unwrap_or(&[]).to_vec();
                let at = self.string(text)?;
                put_integer(&mut self.scratch, at.into(), TEXT_BYTES as u8);
            }
            Arg::Made(leaves, is_one) => {
                let mut text = Vec::new();
                of.text(schema, leaves, &mut text)?;
                // The format names a single one.
                let name = leaves.first().filter(|leaf| *is_one && !leaf.name.is_empty());
                let skip = name.map_or(0, |leaf| leaf.name.len() + 1);
                let at = self.string(text.get(skip..).unwrap_or(&[]).to_vec())?;
                put_integer(&mut self.scratch, at.into(), TEXT_BYTES as u8);
            }
        }
        Ok(())
    }

    /// Ns of an event; those without have the time of the event before.
    fn ns(&mut self, stream: usize, event: EventRef<'_>, is_untimed: bool) -> i128 {
        let clock = self.streams[stream].clock.as_ref().filter(|_| !is_untimed);
        let Some(ns) = clock.map(|clock| clock.ns(event.cycles())) else {
            self.losses.add(Lost::UntimedEvents, 1);
            return self.last;
        };
        if self.start.is_none() {
            let stored = stored_ns(ns, false);
            if stored.is_none() {
                self.losses.add(Lost::EarlyLogs, 1);
            }
            let from = if stored.is_some() { ns } else { ns.clamp(0, i128::from(UNIX_FROM) - 1) };
            self.start = Some((from, stored.unwrap_or(from as u64)));
        }
        self.last = ns;
        ns
    }
}

impl TraceWriter for Log {
    fn losses(&self) -> Losses {
        self.losses.clone()
    }

    fn event(&mut self, stream: usize, event: EventRef<'_>) -> Result<()> {
        let Some(&Stream { source, stream: own_stream, .. }) = self.streams.get(stream) else { return Ok(()) };
        let schema = self.sources[source].schema.clone();
        let key = (source, event.class());
        // Taken out, and put back below.
        let class =
            self.classes.remove(&key).unwrap_or_else(|| Class::of(&schema, &self.semantics[source], event.class()));
        let number = self.number(source, event, &class);
        let number = number.filter(|_| self.count < u32::MAX);
        let Some(number) = number else {
            self.classes.insert(key, class);
            self.losses.add(Lost::MoreEventTypes, 1);
            return Ok(());
        };
        let ns = self.ns(stream, event, schema.event(event.class()).is_untimed);
        let start = self.start.map_or(ns, |(start, _)| start);
        let mut of = Fields::new(event);
        let place = (&self.sources[..], source, own_stream);
        let track = self.tracks.of(&class.rule, (event, &mut of), stream, place, &mut self.losses)?;
        let time = time_of(ns - start, 1, &mut self.losses);
        self.scratch.clear();
        self.scratch.reserve(EVENT_BYTES + MAX_ARGS);
        self.scratch.extend_from_slice(&number.to_be_bytes());
        self.scratch.extend_from_slice(&(track as u16).to_be_bytes());
        self.scratch.extend_from_slice(&words(time.to_bits()));
        for arg in &class.args {
            self.put(arg, number, &schema, &mut of)?;
        }
        self.classes.insert(key, class);
        self.count += 1;
        self.events.write(&self.scratch)?;
        self.output.grow(self.scratch.len())
    }

    fn gap(&mut self, _stream: usize, gap: &Gap) -> Result<()> {
        self.losses.add_gap(gap);
        Ok(())
    }

    fn end_stream(&mut self, _stream: usize) -> Result<()> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Losses> {
        let (start, stored) = self.start.unwrap_or_default();
        // The logger's own clock counts ns here.
        let took = u64::try_from(self.last - start).unwrap_or(0);
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&self.count.max(1).checked_next_power_of_two().unwrap_or(1 << 31).to_be_bytes());
        for value in [stored.saturating_add(took), took, stored, 0] {
            head.extend_from_slice(&words(value));
        }
        head.extend_from_slice(&(self.types.len() as u32).to_be_bytes());
        for (of, number) in self.types.iter().zip(1u32..) {
            put_cstring(&mut head, &of.format);
            put_cstring(&mut head, of.args.as_bytes());
            head.extend_from_slice(&number.to_be_bytes());
            head.extend_from_slice(&(of.labels.len() as u32).to_be_bytes());
            of.labels.iter().for_each(|label| put_cstring(&mut head, label));
        }
        head.extend_from_slice(&(self.tracks.names.len() as u32).to_be_bytes());
        self.tracks.names.iter().for_each(|name| put_cstring(&mut head, name));
        let Log { output, mut strings, mut events, count, losses, .. } = *self;
        head.extend_from_slice(&(strings.len() as u32).to_be_bytes());
        let path = output.path().clone();
        let failed = path.failed(WRITING);
        output.write(|out| {
            out.write_all(&head).map_err(&failed)?;
            strings.copy_to(out)?;
            out.write_all(&count.to_be_bytes()).map_err(&failed)?;
            events.copy_to(out)
        })?;
        Ok(losses)
    }
}
