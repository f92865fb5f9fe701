//! Any trace as a CPEL log: a track for each thread, CPU or stream, a code for each event class, and of the fields one
//! number, or a text.

use std::collections::HashMap;

use tracemill_codec::bits::put_uint;
use tracemill_codec::chunk::EventRef;
use tracemill_codec::value::Value;
use tracemill_model::clock::NS_PER_SECOND;
use tracemill_model::error::Result;
use tracemill_model::packet::Gap;
use tracemill_model::schema::{ByteOrder, ClockClass, ClockOrigin, DisplayBase, EventClassId, FieldKind, Schema};

use super::fields::{self, Fields, Leaf, Strings, leaves, mapped};
use super::own::{Times, added_ticks, events_head, put_record, rate_of};
use super::spool::{Output, Spool, WRITING};
use super::tracks::{Rule, Tracks};
use crate::container::{Kind, NAME_BYTES};
use crate::settings::Wishes;
use tracemill_format::OutPath;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::{Source, TraceWriter, WriteOptions};
use tracemill_format::writer::{ClassKey, count_headers};
use tracemill_semantics::{Semantics, names};

/// Name of the string table, as programs of VPP call theirs.
const TABLE: &str = "FileStrtab";
/// Most events of a section: its length has 32 bits.
const MAX_EVENTS: u64 = (u32::MAX as u64 - 72) / 20;
/// Seconds from 1970 to 9 September 2001: times of 10^18 ns and more are taken as dates (`SPEC.md`, D21).
const SINCE_2001: u64 = 1_000_000_000;
/// Most codes: each takes memory.
const MAX_CODES: usize = 1 << 20;

/// Writes a log.
pub(super) struct Log {
    output: Output,
    order: ByteOrder,
    sources: Vec<Source>,
    streams: Vec<Stream>,
    classes: HashMap<(usize, EventClassId), Class>,
    /// Code by class, and for classes of many ids by name.
    codes: HashMap<ClassKey, u32>,
    /// Offsets of name and format of data, by code.
    definitions: Vec<[u32; 2]>,
    /// By source.
    semantics: Vec<Semantics>,
    tracks: Tracks,
    /// Offsets of the names of tracks.
    track_names: Vec<u32>,
    strings: Strings,
    /// Events with times, then those without.
    sections: [Vec<Section>; 2],
    rate: u32,
    /// Ticks of a second.
    frequency: u64,
    is_unix: bool,
    date: Option<u32>,
    /// Events that do not show that their clock counts from 1970.
    before_2001: u64,
    losses: Losses,
    scratch: Vec<u8>,
    text: Vec<u8>,
}

struct Stream {
    source: usize,
    stream: usize,
    times: Option<Times>,
}

struct Section {
    count: u64,
    spool: Spool,
}

/// What the events of a class become.
struct Class {
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

impl Class {
    fn of(schema: &Schema, semantics: &Semantics, event: EventClassId) -> Class {
        let rule = Rule::of(semantics, event);
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
        Class { rule, datum }
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

impl Log {
    pub(super) fn new(path: &OutPath, sources: &[Source], options: &WriteOptions) -> Log {
        let mut losses = Losses::default();
        sources.iter().for_each(|source| count_headers(&mut losses, source, &[names::CPU], &["id", "timestamp", "v"]));
        let semantics: Vec<Semantics> = sources.iter().map(|source| Semantics::new(&source.schema)).collect();
        for (schema, semantics) in sources.iter().map(|source| &source.schema).zip(&semantics) {
            for at in 0..schema.events().len() {
                let event = EventClassId(at as u32);
                match Class::of(schema, semantics, event).datum {
                    Datum::Text(_) => losses.add(Lost::Fields, 1),
                    Datum::Summary(leaf) => {
                        let is_more = leaves(schema, event, &[leaf.place]).0.len() > 1;
                        losses.add(Lost::FieldsBesideText, is_more.into());
                    }
                    Datum::Nothing | Datum::Number(..) => {}
                }
            }
        }
        let clocks: Vec<(&ClockClass, &Source)> = clocks(sources).into_iter().flatten().collect();
        let is_unix = !clocks.is_empty() && clocks.iter().all(|(clock, _)| clock.origin == ClockOrigin::Unix);
        // A log says no origin. Times from 2001 on say by their size that they count from 1970, if all of them do.
        let origins = clocks.iter().filter(|(clock, _)| !is_unix && clock.origin != ClockOrigin::Unknown).count();
        losses.add(Lost::ClockOrigins, origins as u64);
        let rate = rate(&clocks);
        if rate.is_none() {
            let short = clocks.iter().filter(|(clock, _)| clock.frequency > NS_PER_SECOND as u64).count();
            losses.add(Lost::ShortCycles, short as u64);
        }
        let times = |(clock, source): (&ClockClass, &Source)| match (rate, added_ticks(clock, source.correction_ns)) {
            (Some(_), Some(ticks)) => Times::Ticks(ticks),
            _ => Times::Ns(source.clock_map(clock)),
        };
        let places = sources.iter().enumerate().flat_map(|(at, of)| (0..of.streams.len()).map(move |one| (at, one)));
        let streams = places.zip(self::clocks(sources)).map(|((source, stream), clock)| Stream {
            source,
            stream,
            times: clock.map(times),
        });
        Log {
            streams: streams.collect(),
            output: Output::new(path),
            order: options.byte_order.unwrap_or(ByteOrder::Big),
            sources: sources.to_vec(),
            classes: HashMap::new(),
            codes: HashMap::new(),
            definitions: Vec::new(),
            semantics,
            tracks: Tracks::default(),
            track_names: Vec::new(),
            strings: Strings::new(Spool::new(path, "strings")),
            sections: [Vec::new(), Vec::new()],
            rate: rate.unwrap_or(NS_PER_SECOND as u32),
            frequency: Wishes::default().frequency_of(rate.unwrap_or(NS_PER_SECOND as u32)).max(1),
            is_unix,
            date: None,
            before_2001: 0,
            losses,
            scratch: Vec::new(),
            text: Vec::new(),
        }
    }

    /// The offset of a text in the string table.
    fn string(&mut self, text: &[u8]) -> Result<u32> {
        if self.strings.len() == 0 {
            self.strings.begin(TABLE)?;
        }
        let before = self.strings.len();
        let Some(at) = self.strings.add(text)? else {
            self.losses.add(Lost::TextsBeyondTable, 1);
            return Ok(0);
        };
        self.output.grow((self.strings.len() - before) as usize)?;
        Ok(at)
    }

    /// The code of an event, defined when it is met first.
    fn code(&mut self, source: usize, event: EventRef<'_>, format: &str) -> Result<u32> {
        let key = ClassKey::of(source, event);
        if let Some(&code) = self.codes.get(&key) {
            return Ok(code);
        }
        if self.definitions.len() >= MAX_CODES {
            self.losses.add(Lost::MoreEventNames, 1);
            return Ok(MAX_CODES as u32);
        }
        let name = key.name(&self.sources[source].schema);
        let mut name = doubled(&name).into_bytes();
        let is_cut = fields::storable(&mut name);
        self.losses.add(Lost::LongNames, is_cut.into());
        let definition = [self.string(&name)?, self.string(format.as_bytes())?];
        self.definitions.push(definition);
        // Viewers cannot look for the code 0.
        let code = self.definitions.len() as u32;
        self.codes.insert(key, code);
        Ok(code)
    }
}

/// For each stream of all sources its clock, when that has a known frequency.
pub(super) fn clocks(sources: &[Source]) -> Vec<Option<(&ClockClass, &Source)>> {
    let of = |source: &'_ Source, class| {
        let clock = source.schema.stream(class).default_clock?;
        (source.schema.clock(clock).frequency > 0).then_some(clock)
    };
    let each = sources.iter().flat_map(|source| source.streams.iter().map(move |stream| (source, stream.class)));
    each.map(|(source, class)| of(source, class).map(|clock| (source.schema.clock(clock), source))).collect()
}

/// The rate of all clocks when they have one that a section can say.
fn rate(clocks: &[(&ClockClass, &Source)]) -> Option<u32> {
    let (first, _) = clocks.first()?;
    let can_be = |(clock, source): &(&ClockClass, &Source)| {
        // Ticks of less than a ns reach less far, once something is added.
        let is_slow = clock.frequency <= NS_PER_SECOND as u64;
        let ticks = added_ticks(clock, source.correction_ns).filter(|&ticks| is_slow || ticks == 0);
        clock.frequency == first.frequency && source.drift.is_none() && ticks.is_some()
    };
    rate_of(first.frequency).filter(|_| clocks.iter().all(can_be))
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
        let mut of = Fields::new(event);
        let (format, mut text) = match &class.datum {
            Datum::Nothing => ("", None),
            Datum::Number(_, format) => (format.as_str(), None),
            Datum::Summary(_) | Datum::Text(_) => ("%s", Some(std::mem::take(&mut self.text))),
        };
        let code = self.code(source, event, format)?;
        let datum = match (&class.datum, &mut text) {
            (Datum::Number(leaf, _), _) => of.get(&leaf.place)?.and_then(Value::integer).unwrap_or(0) as u32,
            (Datum::Summary(leaf), Some(text)) => {
                text.clear();
                text.extend_from_slice(of.get(&leaf.place)?.and_then(Value::bytes).unwrap_or(&[]));
                self.losses.add(Lost::LongTexts, fields::storable(text).into());
                self.string(text)?
            }
            (Datum::Text(leaves), Some(text)) => {
                text.clear();
                of.text(&schema, leaves, text)?;
                self.losses.add(Lost::LongTexts, fields::storable(text).into());
                self.string(text)?
            }
            _ => 0,
        };
        self.text = text.unwrap_or(std::mem::take(&mut self.text));
        let place = (&self.sources[..], source, own_stream);
        let track = self.tracks.of(&class.rule, (event, &mut of), stream, place, &mut self.losses)?;
        self.classes.insert(key, class);
        while let Some(name) = self.tracks.names.get(self.track_names.len()).cloned() {
            let name = doubled_octets(&name);
            let at = self.string(&name)?;
            self.track_names.push(at);
        }
        let is_untimed = schema.event(event.class()).is_untimed;
        let times = self.streams[stream].times.as_ref().filter(|_| !is_untimed);
        let time = times.map_or(event.cycles(), |times| times.of(event.cycles(), &mut self.losses));
        let is_timed = times.is_some();
        if is_timed && self.is_unix {
            let seconds = time / self.frequency;
            self.date.get_or_insert(u32::try_from(seconds).unwrap_or(0));
            self.before_2001 += u64::from(seconds < SINCE_2001);
        }
        self.scratch.clear();
        put_record(&mut self.scratch, time, [code, track, datum], self.order);
        let sections = &mut self.sections[usize::from(!is_timed)];
        if sections.last().is_none_or(|section| section.count >= MAX_EVENTS) {
            let name = format!("events-{is_timed}-{}", sections.len());
            sections.push(Section { count: 0, spool: Spool::new(self.output.path(), &name) });
        }
        if let Some(section) = sections.last_mut() {
            section.count += 1;
            section.spool.write(&self.scratch)?;
        }
        self.output.grow(self.scratch.len())
    }

    fn gap(&mut self, _stream: usize, gap: &Gap) -> Result<()> {
        self.losses.add_gap(gap);
        Ok(())
    }

    fn end_stream(&mut self, _stream: usize) -> Result<()> {
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Losses> {
        self.string(b"")?;
        self.strings.finish()?;
        let order = self.order;
        if self.sections.iter().all(Vec::is_empty) {
            self.sections[0].push(Section { count: 0, spool: Spool::new(self.output.path(), "events") });
        }
        let before = self.before_2001;
        self.losses.add(Lost::EarlyOrigins, before);
        let Log { output, mut strings, definitions, track_names, mut sections, rate, date, losses, .. } = *self;
        let path = output.path().clone();
        let failed = path.failed(WRITING);
        let count = 3 + sections.iter().map(Vec::len).sum::<usize>();
        output.write(|out| {
            let mut head = vec![1 | if order == ByteOrder::Little { 0x80 } else { 0 }, 0];
            let mut number = (count as u16).to_be_bytes();
            if order == ByteOrder::Little {
                number.reverse();
            }
            head.extend_from_slice(&number);
            put_uint(&mut head, date.unwrap_or(0).into(), 4, order);
            put_uint(&mut head, Kind::STRINGS.0.into(), 4, order);
            put_uint(&mut head, strings.len(), 4, order);
            out.write_all(&head).map_err(&failed)?;
            strings.copy_to(out)?;
            let codes = definitions.iter().zip(1..).map(|(&[name, datum], code)| vec![code, name, datum]);
            out.write_all(&records(Kind::EVENT_DEFINITIONS, codes, order)).map_err(&failed)?;
            let tracks = track_names.iter().zip(0..).map(|(&name, track)| vec![track, name]);
            out.write_all(&records(Kind::TRACK_DEFINITIONS, tracks, order)).map_err(&failed)?;
            for (of_kind, rate) in sections.iter_mut().zip([rate, 0]) {
                for section in of_kind {
                    let head = events_head(TABLE.as_bytes(), section.count, rate, 0, order)?;
                    out.write_all(&head).map_err(&failed)?;
                    section.spool.copy_to(out)?;
                }
            }
            Ok(())
        })?;
        Ok(losses)
    }
}

/// Octets as a format that shows them.
fn doubled_octets(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for &octet in text {
        out.push(octet);
        if octet == b'%' {
            out.push(octet);
        }
    }
    out
}

/// A section of records.
fn records(kind: Kind, records: impl Iterator<Item = Vec<u32>>, order: ByteOrder) -> Vec<u8> {
    let mut body = TABLE.as_bytes().to_vec();
    body.resize(NAME_BYTES, 0);
    let (mut all, mut count) = (Vec::new(), 0);
    for record in records {
        record.iter().for_each(|&word| put_uint(&mut all, word.into(), 4, order));
        count += 1;
    }
    put_uint(&mut body, count as u64, 4, order);
    let mut out = Vec::with_capacity(8 + body.len() + all.len());
    put_uint(&mut out, kind.0.into(), 4, order);
    put_uint(&mut out, (body.len() + all.len()) as u64, 4, order);
    out.extend_from_slice(&body);
    out.extend_from_slice(&all);
    out
}
