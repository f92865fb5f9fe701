//! Any trace as a CPEL log: a track for each thread, CPU or stream, a code for each event class, and of the fields one
//! number, or a text.

use std::collections::HashMap;
use std::rc::Rc;

use tracemill_codec::chunk::EventRef;
use tracemill_codec::value::Value;
use tracemill_model::clock::NS_PER_SECOND;
use tracemill_model::error::Result;
use tracemill_model::packet::Gap;
use tracemill_model::schema::{ByteOrder, ClockClass, ClockOrigin, DisplayBase, EventClassId, FieldKind, Schema};

use super::convert::{Conversion, classes};
use super::fields::{FieldValues, Leaf, leaves, mapped, store};
use super::known_clock;
use super::sections::{
    TimeMapping, added_ticks, definitions, events_head, log_head, put_record, rate_of, section_head,
};
use super::tracks::Rule;
use crate::container::SectionType;
use crate::settings::Wishes;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::{Source, TraceWriter, WriteOptions};
use tracemill_format::writer::ClassKey;
use tracemill_format::{OutPath, Spill};

/// Name of the string table, as programs of VPP call theirs.
const TABLE: &str = "FileStrtab";
/// Most events of a section: its length has 32 bits.
const MAX_EVENTS: u64 = (u32::MAX as u64 - 72) / 20;
/// Seconds from 1970 to 9 September 2001: times of 10^18 ns and more are taken as dates (`SPEC.md`, D21).
const SINCE_2001: u64 = 1_000_000_000;
/// Most codes: each takes memory.
const MAX_CODES: usize = 1 << 20;

/// Writes a log.
pub(super) struct CpelConverter {
    log: Conversion,
    order: ByteOrder,
    /// By source, then by class.
    classes: Vec<Vec<Rc<ClassForm>>>,
    /// By stream of all sources; `None` for those without a clock of a known frequency.
    times: Vec<Option<TimeMapping>>,
    /// Code by class, and for classes of many ids by name.
    codes: HashMap<ClassKey, u32>,
    /// Offsets of name and format of data, by code.
    definitions: Vec<[u32; 2]>,
    /// Offsets of the names of tracks.
    track_names: Vec<u32>,
    /// Events with times, then those without.
    sections: [Vec<SpooledSection>; 2],
    rate: u32,
    /// Ticks of a second.
    frequency: u64,
    is_unix: bool,
    date: Option<u32>,
    /// Events that do not show that their clock counts from 1970.
    before_2001: u64,
    record: Vec<u8>,
    text: Vec<u8>,
}

struct SpooledSection {
    count: u64,
    spool: Spill,
}

/// The form that the events of a class get.
struct ClassForm {
    rule: Rule,
    datum: Datum,
}

enum Datum {
    /// No fields.
    Nothing,
    /// The only field, with its format.
    Number(Leaf, String),
    /// A text that sums the event up.
    Summary(Leaf),
    /// All fields.
    Text(Vec<Leaf>),
}

impl ClassForm {
    fn new(schema: &Schema, event: EventClassId, rule: Rule) -> ClassForm {
        let (mut leaves, has_summary) = leaves(schema, event, &rule.places());
        let datum = match leaves.as_slice() {
            [] => Datum::Nothing,
            [first, ..] if has_summary => Datum::Summary(first.clone()),
            [leaf] => match conversion(&schema.field_class(leaf.class).kind) {
                Some(conversion) => {
                    let format = format!("{}={conversion}", doubled(&leaf.name));
                    Datum::Number(leaves.remove(0), format)
                }
                None => Datum::Text(leaves),
            },
            _ => Datum::Text(leaves),
        };
        ClassForm { rule, datum }
    }
}

impl Datum {
    /// The format of the data of its events.
    fn format(&self) -> &str {
        match self {
            Datum::Nothing => "",
            Datum::Number(_, format) => format,
            Datum::Summary(_) | Datum::Text(_) => "%s",
        }
    }
}

/// How a number of at most 32 bits is shown, when that is what a field holds.
fn conversion(kind: &FieldKind) -> Option<&'static str> {
    match kind {
        FieldKind::Integer(integer) if (1..=32).contains(&integer.len_bits) && integer.mappings.is_none() => {
            Some(match (integer.base, integer.signed) {
                (DisplayBase::Hexadecimal, _) => "%#x",
                (DisplayBase::Octal, _) => "%#o",
                (_, true) => "%d",
                (_, false) => "%u",
            })
        }
        FieldKind::BitArray(bits) if bits.len_bits <= 32 => Some("%#x"),
        _ => None,
    }
}

/// A text as a format that shows it.
fn doubled(text: &str) -> String {
    mapped(text, |one| one == '\0').replace('%', "%%")
}

impl CpelConverter {
    pub(super) fn new(path: &OutPath, sources: &[Source], options: &WriteOptions) -> CpelConverter {
        let mut log = Conversion::new(path, sources, Some(TABLE));
        let losses = &mut log.losses;
        let classes = classes(sources, ClassForm::new);
        for (source, classes) in sources.iter().zip(&classes) {
            for (at, class) in classes.iter().enumerate() {
                match &class.datum {
                    Datum::Text(_) => losses.add(Lost::Fields, 1),
                    Datum::Summary(leaf) => {
                        let beside =
                            leaves(&source.schema, EventClassId(at as u32), std::slice::from_ref(&leaf.place)).0;
                        losses.add(Lost::FieldsBesideText, (beside.len() > 1).into());
                    }
                    Datum::Nothing | Datum::Number(..) => {}
                }
            }
        }
        let clock_of = |&(source, stream): &(usize, usize)| {
            let source = &sources[source];
            Some((known_clock(source, source.streams[stream].class)?, source))
        };
        let clocks: Vec<(&ClockClass, &Source)> = log.places.iter().filter_map(clock_of).collect();
        let is_unix = !clocks.is_empty() && clocks.iter().all(|(clock, _)| clock.origin == ClockOrigin::Unix);
        // A log has no origin. Times from 2001 on show by their size that they count from 1970, if all of them do.
        let origins = clocks.iter().filter(|(clock, _)| !is_unix && clock.origin != ClockOrigin::Unknown).count();
        losses.add(Lost::ClockOrigins, origins as u64);
        let rate = rate(&clocks);
        if rate.is_none() {
            let short = clocks.iter().filter(|(clock, _)| clock.frequency > NS_PER_SECOND as u64).count();
            losses.add(Lost::ShortCycles, short as u64);
        }
        let times = log
            .places
            .iter()
            .map(|place| clock_of(place).map(|(clock, source)| TimeMapping::new(rate, clock, source).1));
        let rate = rate.unwrap_or(NS_PER_SECOND as u32);
        CpelConverter {
            times: times.collect(),
            log,
            order: options.byte_order.unwrap_or(ByteOrder::Big),
            classes,
            codes: HashMap::new(),
            definitions: Vec::new(),
            track_names: Vec::new(),
            sections: [Vec::new(), Vec::new()],
            rate,
            frequency: Wishes::default().frequency_of(rate).max(1),
            is_unix,
            date: None,
            before_2001: 0,
            record: Vec::new(),
            text: Vec::new(),
        }
    }

    /// The code of an event, defined when it is met first.
    fn code(&mut self, source: usize, event: EventRef<'_>, format: &str) -> Result<u32> {
        let key = ClassKey::from_event(source, event);
        if let Some(&code) = self.codes.get(&key) {
            return Ok(code);
        }
        if self.definitions.len() >= MAX_CODES {
            self.log.losses.add(Lost::MoreEventNames, 1);
            return Ok(MAX_CODES as u32);
        }
        let mut name = doubled(&key.name(&self.log.sources[source].schema)).into_bytes();
        self.log.losses.add(Lost::LongNames, store(&mut name).into());
        let definition = [self.log.string(&name)?, self.log.string(format.as_bytes())?];
        self.definitions.push(definition);
        // Viewers cannot look for the code 0.
        let code = self.definitions.len() as u32;
        self.codes.insert(key, code);
        Ok(code)
    }

    /// The datum of an event of a class.
    fn datum(&mut self, datum: &Datum, schema: &Schema, fields: &mut FieldValues<'_>) -> Result<u32> {
        self.text.clear();
        match datum {
            Datum::Nothing => return Ok(0),
            Datum::Number(leaf, _) => {
                return Ok(fields.get(&leaf.place)?.and_then(Value::integer).unwrap_or(0) as u32);
            }
            Datum::Summary(leaf) => {
                self.text.extend_from_slice(fields.get(&leaf.place)?.and_then(Value::bytes).unwrap_or(&[]));
            }
            Datum::Text(leaves) => fields.text(schema, leaves, &mut self.text)?,
        }
        self.log.text(&mut self.text)
    }

    /// Appends the record at hand to the sections of events with a time, or to those of events without.
    fn put_record(&mut self, is_timed: bool) -> Result<()> {
        let sections = &mut self.sections[usize::from(!is_timed)];
        if sections.last().is_none_or(|section| section.count >= MAX_EVENTS) {
            let name = format!("events-{is_timed}-{}", sections.len());
            sections.push(SpooledSection { count: 0, spool: Spill::new(self.log.output.path(), &name) });
        }
        if let Some(section) = sections.last_mut() {
            section.count += 1;
            section.spool.append(0, &self.record)?;
        }
        self.log.output.grow(self.record.len())
    }
}

/// The rate of all clocks when they have one that a section can state.
fn rate(clocks: &[(&ClockClass, &Source)]) -> Option<u32> {
    let (first, _) = clocks.first()?;
    let can_be = |(clock, source): &(&ClockClass, &Source)| {
        // Ticks of less than a ns reach less far, once something is added.
        let is_slow = clock.frequency <= NS_PER_SECOND as u64;
        clock.frequency == first.frequency && added_ticks(clock, source).is_some_and(|ticks| is_slow || ticks == 0)
    };
    rate_of(first.frequency).filter(|_| clocks.iter().all(can_be))
}

impl TraceWriter for CpelConverter {
    fn losses(&self) -> Losses {
        self.log.losses.clone()
    }

    fn event(&mut self, stream: usize, event: EventRef<'_>) -> Result<()> {
        let Some(&(source, _)) = self.log.places.get(stream) else { return Ok(()) };
        let class = self.classes[source][event.class().0 as usize].clone();
        let schema = self.log.sources[source].schema.clone();
        let mut fields = FieldValues::new(event);
        let code = self.code(source, event, class.datum.format())?;
        let datum = self.datum(&class.datum, &schema, &mut fields)?;
        let track = self.log.track(&class.rule, &mut fields, stream)?;
        while let Some(name) = self.log.tracks.names.get(self.track_names.len()) {
            let name = doubled_octets(name);
            self.track_names.push(self.log.string(&name)?);
        }
        let is_untimed = schema.event(event.class()).is_untimed;
        let times = self.times[stream].as_ref().filter(|_| !is_untimed);
        let is_timed = times.is_some();
        let time = times.map_or(event.cycles(), |times| times.time(event.cycles(), &mut self.log.losses));
        if is_timed && self.is_unix {
            let seconds = time / self.frequency;
            self.date.get_or_insert(u32::try_from(seconds).unwrap_or(0));
            self.before_2001 += u64::from(seconds < SINCE_2001);
        }
        self.record.clear();
        put_record(&mut self.record, time, [code, track, datum], self.order);
        self.put_record(is_timed)
    }

    fn gap(&mut self, _stream: usize, gap: &Gap) -> Result<()> {
        self.log.losses.add_gap(gap);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Losses> {
        self.log.string(b"")?;
        self.log.strings.pad()?;
        if self.sections.iter().all(Vec::is_empty) {
            self.sections[0].push(SpooledSection { count: 0, spool: Spill::new(self.log.output.path(), "events") });
        }
        self.log.losses.add(Lost::EarlyOrigins, self.before_2001);
        let CpelConverter { log, order, definitions: events, track_names, mut sections, rate, date, .. } = *self;
        let Conversion { output, mut strings, losses, .. } = log;
        let count = 3 + sections.iter().map(Vec::len).sum::<usize>();
        output.write(|log| {
            log.write_all(&log_head(count, date.unwrap_or(0), order))?;
            log.write_all(&section_head(SectionType::STRINGS, strings.len(), order))?;
            strings.copy_to(log)?;
            let events = events.iter().enumerate().map(|(at, &[name, datum])| [at as u32 + 1, name, datum]);
            log.write_all(&definitions(SectionType::EVENT_DEFINITIONS, TABLE, events, order))?;
            let tracks = track_names.iter().enumerate().map(|(track, &name)| [track as u32, name]);
            log.write_all(&definitions(SectionType::TRACK_DEFINITIONS, TABLE, tracks, order))?;
            for (of_kind, rate) in sections.iter_mut().zip([rate, 0]) {
                for section in of_kind {
                    log.write_all(&events_head(TABLE.as_bytes(), section.count, rate, 0, order)?)?;
                    log.put_waiting(&mut section.spool)?;
                }
            }
            Ok(())
        })?;
        Ok(losses)
    }
}

/// Octets as a format that shows them.
fn doubled_octets(text: &[u8]) -> Vec<u8> {
    text.iter().flat_map(|&octet| std::iter::repeat_n(octet, if octet == b'%' { 2 } else { 1 })).collect()
}
