//! One side of a comparison, read once.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use tracemill_engine::event::Event;
use tracemill_engine::events::Events;
use tracemill_engine::filter::{Access, Captured, CapturedValue, FieldReader};
use tracemill_engine::merge::Note;
use tracemill_engine::session::Session;
use tracemill_model::schema::{DisplayBase, FieldKind, FieldPath, Scope};
use tracemill_semantics::names::is_of_who;

use super::names::{EventNames, NameLookup};
use super::noise::{Metric, MetricKind};
use super::shapes::visit_leaves;
use super::spread::ValueSpread;
use crate::run::Input;

/// Fields of one class whose values are compared, at most: the first ones.
const MAX_NUMBERS: usize = 256;

/// One side as it was read.
#[derive(Default)]
pub struct Side {
    /// Number of events.
    pub events: u64,
    /// How many of them have no time.
    pub untimed: u64,
    /// The smallest and the largest time in ns; `None` without events that have a time.
    pub range: Option<(i128, i128)>,
    /// Number of events by the number of their name.
    pub counts: Vec<u64>,
    /// The sequences of the streams, in the order of the input.
    pub streams: Vec<Sequence>,
    /// How values are spread.
    pub spreads: BTreeMap<Metric, ValueSpread>,
}

/// The names of the events of a stream in their order, as a number that other sequences hardly have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sequence {
    /// Number of events.
    pub events: u64,
    hash: u128,
}

impl Default for Sequence {
    fn default() -> Self {
        Sequence { events: 0, hash: 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d }
    }
}

impl Sequence {
    /// Appends a name: FNV-1a of 128 bits, by words instead of bytes.
    #[inline]
    fn push(&mut self, name: u32) {
        self.events += 1;
        self.hash = (self.hash ^ u128::from(name)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
}

impl Side {
    /// Reads the events of an input. Notes go to `note`, which says whether to go on.
    pub fn read(input: &Input<'_>, names: &mut EventNames, note: &mut dyn FnMut(Note) -> ControlFlow<()>) -> Side {
        let mut reading = SideReading::new(input);
        let events = Events::new(input.session, input.streams, &input.selection, input.filter.as_ref());
        events.for_each(|event| reading.add(event, names), note);
        reading.side(names)
    }

    /// Number of events of a name.
    pub fn count(&self, name: u32) -> u64 {
        self.counts.get(name as usize).copied().unwrap_or(0)
    }

    /// The time from the first event to the last one in ns.
    pub fn duration_ns(&self) -> Option<i128> {
        self.range.map(|(first, last)| last - first)
    }
}

/// Fields of a class that are compared, with their places in the values of a side.
type ComparedFields = Box<[(Access, usize)]>;

struct SideReading {
    side: Side,
    lookup: NameLookup,
    /// By trace and stream, its number among those that are read.
    numbers: Vec<Vec<usize>>,
    /// Times from event to event by name, with the time of the last event. How a format divides events into streams does not
    /// matter so.
    intervals: Vec<(Option<i128>, ValueSpread)>,
    fields: FieldReader,
    captured: Captured,
    /// By trace and class; nothing of a class that was not met yet.
    classes: Vec<Vec<Option<ComparedFields>>>,
    values: Vec<ValueSpread>,
    /// Places in `values` by event and field.
    of_fields: BTreeMap<(String, String), usize>,
}

impl SideReading {
    fn new(input: &Input<'_>) -> Self {
        let session: &Session = input.session;
        let mut numbers: Vec<Vec<usize>> =
            session.traces.iter().map(|trace| vec![usize::MAX; trace.streams.len()]).collect();
        input.streams.iter().zip(0..).for_each(|(of, number)| numbers[of.trace][of.index] = number);
        let classes = session.traces.iter().map(|trace| vec![None; trace.schema.events().len()]);
        SideReading {
            side: Side { streams: vec![Sequence::default(); input.streams.len()], ..Side::default() },
            lookup: NameLookup::new(session),
            numbers,
            intervals: Vec::new(),
            fields: FieldReader::new(session),
            captured: Captured::default(),
            classes: classes.collect(),
            values: Vec::new(),
            of_fields: BTreeMap::new(),
        }
    }

    #[inline]
    fn add(&mut self, event: &Event<'_>, names: &mut EventNames) {
        let name = self.lookup.id(event, names);
        let at = name as usize;
        if self.side.counts.len() <= at {
            self.side.counts.resize(at + 1, 0);
            self.intervals.resize_with(at + 1, Default::default);
        }
        self.side.events += 1;
        self.side.counts[at] += 1;
        let stream = self.numbers[event.trace][event.stream];
        if let Some(sequence) = self.side.streams.get_mut(stream) {
            sequence.push(name);
        }
        match event.ns {
            Some(ns) => self.add_time(ns, at),
            None => self.side.untimed += 1,
        }
        self.add_values(event, names, name);
    }

    fn add_time(&mut self, ns: i128, name: usize) {
        let (first, last) = self.side.range.unwrap_or((ns, ns));
        self.side.range = Some((first.min(ns), last.max(ns)));
        let (last, spread) = &mut self.intervals[name];
        if let Some(last) = last.replace(ns) {
            spread.add((ns - last) as f64);
        }
    }

    fn add_values(&mut self, event: &Event<'_>, names: &EventNames, name: u32) {
        let (trace, class) = (event.trace, event.raw.class().0 as usize);
        if self.classes[trace][class].is_none() {
            self.classes[trace][class] = Some(self.fields_of(event, names.text(name)));
        }
        let Some(fields) = &self.classes[trace][class] else { return };
        let mut is_captured = false;
        for &(access, at) in fields {
            let value = match access {
                Access::Fixed(integer, _) => {
                    let chunk = event.raw.chunk;
                    let bits = integer.read(chunk.packet.input(), chunk.body_bits(event.raw.at));
                    bits.map(|bits| if integer.is_signed() { bits as i64 as f64 } else { bits as f64 })
                }
                Access::Field(index, _) => {
                    if !std::mem::replace(&mut is_captured, true) {
                        self.fields.capture(event, &mut self.captured);
                    }
                    match self.captured.get(index) {
                        Some(CapturedValue::Integer(value)) => Some(value as f64),
                        Some(CapturedValue::Real(value)) => Some(value),
                        _ => None,
                    }
                }
                _ => None,
            };
            value.into_iter().for_each(|value| self.values[at].add(value));
        }
    }

    /// The fields of a class whose values are compared.
    #[cold]
    fn fields_of(&mut self, event: &Event<'_>, name: &str) -> ComparedFields {
        let schema = event.raw.chunk.packet.plans.schema();
        let mut found: Vec<(String, FieldPath)> = Vec::new();
        visit_leaves(schema, event.raw.class(), &[Scope::Payload], &mut |leaf| {
            let own = leaf.text.rsplit('.').next().unwrap_or_default();
            if found.len() < MAX_NUMBERS && is_amount(&schema.field_class(leaf.class).kind) && !is_of_who(own) {
                found.push((leaf.text, leaf.path));
            }
        });
        let places = found.into_iter().map(|(text, path)| {
            let next = self.values.len();
            let at = *self.of_fields.entry((name.to_string(), text)).or_insert(next);
            if at == next {
                self.values.push(ValueSpread::default());
            }
            (self.fields.find_field(event, &path), at)
        });
        places.collect()
    }

    fn side(self, names: &EventNames) -> Side {
        let mut side = self.side;
        let metric = |kind, of: &str, part: &str| Metric { kind, of: of.to_string(), part: part.to_string() };
        for (name, (_, spread)) in self.intervals.into_iter().enumerate().filter(|(_, (_, spread))| spread.count() > 0)
        {
            side.spreads.insert(metric(MetricKind::Interval, names.text(name as u32), ""), spread);
        }
        let mut values: Vec<Option<ValueSpread>> = self.values.into_iter().map(Some).collect();
        for ((event, field), at) in self.of_fields {
            if let Some(spread) = values[at].take().filter(|spread| spread.count() > 0) {
                side.spreads.insert(metric(MetricKind::Value, &event, &field), spread);
            }
        }
        side
    }
}

/// Is it a number of which more or less means something? Addresses and masks, which producers want in other bases, differ
/// from run to run, and so do times.
fn is_amount(kind: &FieldKind) -> bool {
    match kind {
        FieldKind::Integer(integer) => {
            integer.base == DisplayBase::Decimal && integer.clock.is_none() && !integer.is_character
        }
        FieldKind::Float(_) => true,
        _ => false,
    }
}
