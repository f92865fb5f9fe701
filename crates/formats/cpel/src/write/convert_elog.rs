//! Any trace as a log of VPP: a type for each event class, with its fields as arguments as far as these have room.

use std::collections::HashMap;
use std::rc::Rc;

use tracemill_codec::chunk::EventRef;
use tracemill_codec::value::Value;
use tracemill_model::clock::ClockMap;
use tracemill_model::error::Result;
use tracemill_model::packet::Gap;
use tracemill_model::schema::{ClockOrigin, DisplayBase, EventClassId, FieldKind, Mapping, Schema};

use super::convert::{Conversion, classes};
use super::elog_values::{put_cstring, put_integer, stored_ns, time_of, words};
use super::fields::{FieldValues, Leaf, leaves, mapped};
use super::known_clock;
use super::tracks::Rule;
use crate::elog::header::{EVENT_BYTES, MAGIC, UNIX_FROM};
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::{Source, TraceWriter};
use tracemill_format::writer::ClassKey;
use tracemill_format::{OutPath, Spill};

/// Octets of arguments that an event has.
const MAX_ARGS: usize = 20;
/// Octets of an offset in the string table.
const TEXT_BYTES: usize = 4;
/// Most strings of an enumeration.
const MAX_LABELS: usize = 4096;

/// Writes a log.
pub(super) struct ElogConverter {
    log: Conversion,
    /// By source, then by class.
    classes: Vec<Vec<Rc<ElogClass>>>,
    /// By stream of all sources.
    clocks: Vec<Option<ClockMap>>,
    /// Type by class, and for classes of many ids by name.
    numbers: HashMap<ClassKey, u16>,
    types: Vec<ElogType>,
    events: Spill,
    count: u32,
    /// Ns of the first event; what is stored for it.
    start: Option<(i128, u64)>,
    /// Ns of the last event.
    last: i128,
    event: Vec<u8>,
}

/// The form that the events of a class get.
struct ElogClass {
    rule: Rule,
    args: Vec<Arg>,
    labels: Vec<Vec<u8>>,
    /// The losses of an event, by kind.
    losses: Vec<Lost>,
}

enum Arg {
    /// An integer of so many octets.
    Integer(Leaf, u8, &'static str),
    Enum(Leaf, u8),
    Float(Leaf, u8),
    /// A text as it is.
    Text(Leaf),
    /// A text made of other fields. Is it of a single one, which the format names?
    Made(Vec<Leaf>, bool),
}

struct ElogType {
    format: String,
    args: String,
    labels: Vec<Vec<u8>>,
}

impl ElogType {
    /// The number of a string of its enumeration: that of the value, as far as there is room for it.
    fn label(&mut self, value: u64) -> u64 {
        let wanted = usize::try_from(value).unwrap_or(MAX_LABELS).min(MAX_LABELS - 1);
        while self.labels.len() <= wanted {
            self.labels.push(self.labels.len().to_string().into_bytes());
        }
        value.min(self.labels.len() as u64 - 1)
    }
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

impl ElogClass {
    fn new(schema: &Schema, event: EventClassId, rule: Rule) -> ElogClass {
        let (leaves, _) = leaves(schema, event, &rule.places());
        let (mut labels, mut losses) = (None, Vec::new());
        let arg = |leaf| Self::arg(schema, leaf, &mut labels, &mut losses);
        let mut args: Vec<Arg> = leaves.into_iter().map(arg).collect();
        if args.iter().map(Arg::len).sum::<usize>() > MAX_ARGS {
            // Arguments without room become a text, which needs room itself.
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
        ElogClass { rule, args, labels: labels.unwrap_or_default(), losses }
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

impl ElogConverter {
    pub(super) fn new(path: &OutPath, sources: &[Source]) -> ElogConverter {
        let mut log = Conversion::new(path, sources, None);
        let classes = classes(sources, ElogClass::new);
        let lost = classes.iter().flatten().flat_map(|class| &class.losses);
        lost.for_each(|&kind| log.losses.add(kind, 1));
        let mut clock = |&(source, stream): &(usize, usize)| {
            let source = &sources[source];
            let clock = known_clock(source, source.streams[stream].class);
            log.losses.add(Lost::ClockOrigins, clock.is_some_and(|clock| clock.origin != ClockOrigin::Unix).into());
            log.losses.add(Lost::ClocklessStreams, clock.is_none().into());
            clock.map(|clock| source.clock_map(clock))
        };
        ElogConverter {
            clocks: log.places.iter().map(&mut clock).collect(),
            log,
            classes,
            numbers: HashMap::new(),
            types: Vec::new(),
            events: Spill::new(path, "events"),
            count: 0,
            start: None,
            last: 0,
            event: Vec::new(),
        }
    }

    /// The number of the type of an event, made when it is met first; `None` when there are too many.
    fn number(&mut self, source: usize, event: EventRef<'_>, of: &ElogClass) -> Option<u16> {
        let key = ClassKey::from_event(source, event);
        if let Some(&number) = self.numbers.get(&key) {
            return Some(number);
        }
        // Not kept when there are too many: there may be any number of them.
        let number = u16::try_from(self.types.len()).ok()?;
        let mut format = type_name(&key.name(&self.log.sources[source].schema));
        let mut args = String::new();
        for arg in &of.args {
            format.push(' ');
            format.push_str(&arg.shown());
            args.push_str(&arg.code());
        }
        self.types.push(ElogType { format, args, labels: of.labels.clone() });
        self.numbers.insert(key, number);
        Some(number)
    }

    /// Appends the value of an argument.
    fn write_argument(&mut self, arg: &Arg, number: u16, schema: &Schema, fields: &mut FieldValues<'_>) -> Result<()> {
        let value = match arg {
            Arg::Integer(leaf, ..) => fields.get(&leaf.place)?.and_then(Value::integer).unwrap_or(0) as u64,
            Arg::Enum(leaf, _) => {
                let value = fields.get(&leaf.place)?.and_then(Value::integer).unwrap_or(0) as u64;
                let known = self.types.get_mut(usize::from(number)).map_or(value, |of| of.label(value));
                self.log.losses.add(Lost::LargeEnumerators, (known != value).into());
                known
            }
            Arg::Float(leaf, len) => {
                let value = match fields.get(&leaf.place)? {
                    Some(Value::Real(value)) => *value,
                    _ => 0.0,
                };
                if *len == 4 { (value as f32).to_bits().into() } else { value.to_bits() }
            }
            Arg::Text(leaf) => {
                let mut text = fields.get(&leaf.place)?.and_then(Value::bytes).unwrap_or(&[]).to_vec();
                self.log.text(&mut text)?.into()
            }
            Arg::Made(leaves, is_one) => {
                let mut text = Vec::new();
                fields.text(schema, leaves, &mut text)?;
                // The format names a single one.
                let name = leaves.first().filter(|leaf| *is_one && !leaf.name.is_empty());
                let skip = name.map_or(0, |leaf| leaf.name.len() + 1);
                self.log.text(&mut text.get(skip..).unwrap_or(&[]).to_vec())?.into()
            }
        };
        put_integer(&mut self.event, value, arg.len() as u8);
        Ok(())
    }

    /// Ns of an event; those without have the time of the event before.
    fn ns(&mut self, stream: usize, event: EventRef<'_>, is_untimed: bool) -> i128 {
        let clock = self.clocks[stream].as_ref().filter(|_| !is_untimed);
        let Some(ns) = clock.map(|clock| clock.ns(event.cycles())) else {
            self.log.losses.add(Lost::UntimedEvents, 1);
            return self.last;
        };
        if self.start.is_none() {
            let stored = stored_ns(ns, false);
            self.log.losses.add(Lost::EarlyLogs, stored.is_none().into());
            let from = if stored.is_some() { ns } else { ns.clamp(0, i128::from(UNIX_FROM) - 1) };
            self.start = Some((from, stored.unwrap_or(from as u64)));
        }
        self.last = ns;
        ns
    }
}

impl TraceWriter for ElogConverter {
    fn losses(&self) -> Losses {
        self.log.losses.clone()
    }

    fn event(&mut self, stream: usize, event: EventRef<'_>) -> Result<()> {
        let Some(&(source, _)) = self.log.places.get(stream) else { return Ok(()) };
        let class = self.classes[source][event.class().0 as usize].clone();
        let schema = self.log.sources[source].schema.clone();
        let Some(number) = self.number(source, event, &class).filter(|_| self.count < u32::MAX) else {
            self.log.losses.add(Lost::MoreEventTypes, 1);
            return Ok(());
        };
        let ns = self.ns(stream, event, schema.event(event.class()).is_untimed);
        let start = self.start.map_or(ns, |(start, _)| start);
        let mut fields = FieldValues::new(event);
        let track = self.log.track(&class.rule, &mut fields, stream)?;
        let time = time_of(ns - start, 1, &mut self.log.losses);
        self.event.clear();
        self.event.reserve(EVENT_BYTES + MAX_ARGS);
        self.event.extend_from_slice(&number.to_be_bytes());
        self.event.extend_from_slice(&(track as u16).to_be_bytes());
        self.event.extend_from_slice(&words(time.to_bits()));
        for arg in &class.args {
            self.write_argument(arg, number, &schema, &mut fields)?;
        }
        self.count += 1;
        self.events.append(0, &self.event)?;
        self.log.output.grow(self.event.len())
    }

    fn gap(&mut self, _stream: usize, gap: &Gap) -> Result<()> {
        self.log.losses.add_gap(gap);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Losses> {
        let (start, stored) = self.start.unwrap_or_default();
        // The logger's own clock counts ns here.
        let took = u64::try_from(self.last - start).unwrap_or(0);
        let ElogConverter { log, types, mut events, count, .. } = *self;
        let Conversion { output, tracks, mut strings, losses, .. } = log;
        let mut head = MAGIC.to_vec();
        let put_count = |head: &mut Vec<u8>, count: usize| head.extend_from_slice(&(count as u32).to_be_bytes());
        head.extend_from_slice(&count.max(1).checked_next_power_of_two().unwrap_or(1 << 31).to_be_bytes());
        for value in [stored.saturating_add(took), took, stored, 0] {
            head.extend_from_slice(&words(value));
        }
        put_count(&mut head, types.len());
        for (at, of) in types.iter().enumerate() {
            put_cstring(&mut head, of.format.as_bytes());
            put_cstring(&mut head, of.args.as_bytes());
            put_count(&mut head, at + 1);
            put_count(&mut head, of.labels.len());
            of.labels.iter().for_each(|label| put_cstring(&mut head, label));
        }
        put_count(&mut head, tracks.names.len());
        tracks.names.iter().for_each(|name| put_cstring(&mut head, name));
        put_count(&mut head, strings.len() as usize);
        output.write(|log| {
            log.write_all(&head)?;
            strings.copy_to(log)?;
            log.write_all(&count.to_be_bytes())?;
            log.put_waiting(&mut events)
        })?;
        Ok(losses)
    }
}
