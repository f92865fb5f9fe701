//! Any trace as a Gist log: of each event its time, track, code and one number. A CPEL or Gist log keeps its own.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use tracemill_codec::chunk::EventRef;
use tracemill_codec::value::Value;
use tracemill_model::clock::NS_PER_SECOND;
use tracemill_model::error::Result;
use tracemill_model::packet::Gap;
use tracemill_model::schema::{ByteOrder, ClockOrigin, EventClassId, FieldKind, Schema, Scope};

use super::convert::{Conversion, classes};
use super::fields::{FieldRoute, FieldValues, Leaf, leaves};
use super::known_clock;
use super::sections::{TimeMapping, put_record};
use super::tracks::Rule;
use crate::definitions::words;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::{Source, TraceWriter};
use tracemill_format::writer::ClassKey;
use tracemill_format::{OutPath, Spill};

/// Most codes that are kept apart, and most tracks whose names are looked at: each takes memory.
const MAX_KNOWN: usize = 1 << 20;
/// First number of tracks whose own one is taken: threads do not have numbers like that.
const MADE_TRACKS: u32 = 1 << 31;
/// Formats whose events have a code, a track and a datum.
const NATIVE: [&str; 2] = ["gist", "cpel"];

/// Writes a log.
pub(super) struct GistConverter {
    log: Conversion,
    /// How events of the only source have code, track and datum, where they do.
    native: Option<Native>,
    /// By source, then by class.
    classes: Vec<Vec<Rc<ClassForm>>>,
    /// By stream of all sources; `None` for those without a time that the log can have.
    times: Vec<Option<TimeMapping>>,
    codes: Codes,
    tracks: TrackNumbers,
    events: Spill,
    count: u32,
    /// Time of the last event.
    last: u64,
    record: Vec<u8>,
}

/// How an event has code, track and datum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Native {
    /// As the reader of its log decodes it.
    Decoded,
    /// As members of its payload.
    Members,
}

/// The form that the events of a class get.
struct ClassForm {
    rule: Rule,
    /// The field that becomes the datum.
    datum: Option<FieldRoute>,
}

impl ClassForm {
    fn new(schema: &Schema, event: EventClassId, rule: Rule) -> ClassForm {
        let datum = datum(schema, &own_leaves(schema, event, &rule)).map(|leaf| leaf.place.clone());
        ClassForm { rule, datum }
    }
}

/// The fields of a class that its track does not hold.
fn own_leaves(schema: &Schema, event: EventClassId, rule: &Rule) -> Vec<Leaf> {
    let mut held = rule.places();
    held.extend(rule.number().cloned());
    leaves(schema, event, &held).0
}

/// The field that becomes the datum: that of a log of this family, else the first number of at most 32 bits.
fn datum<'a>(schema: &Schema, leaves: &'a [Leaf]) -> Option<&'a Leaf> {
    let is_number = |leaf: &&Leaf| match &schema.field_class(leaf.class).kind {
        FieldKind::Integer(integer) => (1..=32).contains(&integer.len_bits),
        FieldKind::BitArray(bits) => bits.len_bits <= 32,
        FieldKind::Boolean(_) => true,
        _ => false,
    };
    let is_native = NATIVE.contains(&schema.format);
    let of_log = leaves.iter().find(|leaf| is_native && leaf.name == "datum");
    of_log.or_else(|| leaves.iter().find(is_number))
}

impl GistConverter {
    pub(super) fn new(path: &OutPath, sources: &[Source]) -> GistConverter {
        let native = match sources {
            [source] if NATIVE.contains(&source.origin.format.as_str()) => Some(source),
            _ => None,
        };
        let mut log = Conversion::new(path, sources, None);
        if native.is_some() {
            // Headers that CTF 2 gave it are not its own.
            log.losses = Losses::default();
        }
        let classes = classes(sources, ClassForm::new);
        for (source, classes) in sources.iter().zip(&classes) {
            count_classes(&mut log.losses, source, classes);
        }
        let times = times(sources, &log.places, &mut log.losses);
        let is_decoded = |source: &Source| source.schema.format == source.origin.format;
        GistConverter {
            native: native.map(|source| if is_decoded(source) { Native::Decoded } else { Native::Members }),
            codes: Codes::new(sources),
            tracks: TrackNumbers::default(),
            events: Spill::new(path, "events"),
            log,
            classes,
            times,
            count: 0,
            last: 0,
            record: Vec::new(),
        }
    }

    /// The time of an event; those without have that of the event before.
    fn time(&mut self, stream: usize, event: EventRef<'_>, is_untimed: bool) -> u64 {
        match self.times.get(stream).and_then(Option::as_ref).filter(|_| !is_untimed) {
            Some(times) => self.last = times.time(event.cycles(), &mut self.log.losses),
            None => self.log.losses.add(Lost::UntimedEvents, 1),
        }
        self.last
    }

    /// Code, track and datum of an event of any trace.
    fn words(&mut self, (source, stream): (usize, usize), event: EventRef<'_>) -> Result<[u32; 3]> {
        let class = self.classes[source][event.class().0 as usize].clone();
        let mut fields = FieldValues::new(event);
        let track = self.log.track(&class.rule, &mut fields, stream)?;
        let track = self.tracks.number(track, &self.log.tracks.origins, &mut self.log.losses);
        let code = self.codes.code(source, event, &self.log.sources[source].schema, &mut self.log.losses);
        let datum = match &class.datum {
            None => 0,
            Some(place) => match fields.get(place)? {
                Some(Value::Boolean(is_true)) => u32::from(*is_true),
                value => value.and_then(Value::integer).unwrap_or(0) as u32,
            },
        };
        Ok([code, track, datum])
    }
}

/// Counts what the classes of a source have and no record.
fn count_classes(losses: &mut Losses, source: &Source, classes: &[Rc<ClassForm>]) {
    let schema = &source.schema;
    let format = source.origin.format.as_str();
    if format == NATIVE[0] {
        // Names and texts of its events stood in headers, not in the log.
        return;
    }
    for (at, form) in classes.iter().enumerate() {
        let id = EventClassId(at as u32);
        let class = schema.event(id);
        // Events without a definition in their log have no names, and no texts.
        let is_named = class.name.is_some() || class.open_ids.is_some() && !NATIVE.contains(&format);
        losses.add(Lost::EventNames, is_named.into());
        if is_named || !NATIVE.contains(&format) {
            let own = own_leaves(schema, id, &form.rule);
            losses.add(Lost::FieldsBesideNumber, (own.len() > usize::from(form.datum.is_some())).into());
        }
    }
}

/// How the streams get their times. A Gist log keeps its ticks; times of other traces are ns, as far as one of their
/// clocks has a known frequency.
fn times(sources: &[Source], places: &[(usize, usize)], losses: &mut Losses) -> Vec<Option<TimeMapping>> {
    let is_gist = matches!(sources, [source] if source.origin.format == NATIVE[0]);
    let clock_of = |&(source, stream): &(usize, usize)| {
        let source = &sources[source];
        Some((known_clock(source, source.streams[stream].class)?, source))
    };
    if places.iter().all(|place| clock_of(place).is_none()) {
        return places.iter().map(|_| Some(TimeMapping::Ticks(0))).collect();
    }
    let time = |place| {
        let (clock, source) = clock_of(place)?;
        // Ticks stay ticks where they move by whole ones.
        if is_gist && let (_, times @ TimeMapping::Ticks(_)) = TimeMapping::new(Some(0), clock, source) {
            return Some(times);
        }
        losses.add(Lost::ClockFrequencies, 1);
        losses.add(Lost::ClockOrigins, (clock.origin != ClockOrigin::Unknown).into());
        losses.add(Lost::ShortCycles, (clock.frequency > NS_PER_SECOND as u64).into());
        Some(TimeMapping::Ns(source.clock_map(clock)))
    };
    places.iter().map(time).collect()
}

/// The codes of event classes: their ids, as long as these differ.
struct Codes {
    known: HashMap<ClassKey, u32>,
    /// The name of the class that has a code.
    names: HashMap<u32, String>,
    /// The ids of all classes, which no other class gets.
    ids: HashSet<u64>,
    /// The last code that was given to a class whose id is another one's.
    made: u32,
}

impl Codes {
    fn new(sources: &[Source]) -> Codes {
        let classes = sources.iter().flat_map(|source| source.schema.events());
        Codes { known: HashMap::new(), names: HashMap::new(), ids: classes.map(|class| class.id).collect(), made: 0 }
    }

    fn code(&mut self, source: usize, event: EventRef<'_>, schema: &Schema, losses: &mut Losses) -> u32 {
        let key = ClassKey::from_event(source, event);
        if let Some(&code) = self.known.get(&key) {
            return code;
        }
        let id = u32::try_from(event.id()).ok();
        if self.known.len() >= MAX_KNOWN {
            losses.add(Lost::MoreEventNames, 1);
            return self.made;
        }
        let name = key.name(schema).into_owned();
        let code = match id.filter(|code| self.names.get(code).is_none_or(|known| *known == name)) {
            Some(code) => code,
            None => {
                losses.add(if id.is_some() { Lost::SharedEventIds } else { Lost::LongClassIds }, 1);
                let is_taken = |code| self.names.contains_key(&code) || self.ids.contains(&code.into());
                // There are fewer codes and ids than numbers, so one is free.
                self.made = (self.made + 1..u32::MAX).find(|&code| !is_taken(code)).unwrap_or(u32::MAX);
                self.made
            }
        };
        self.names.entry(code).or_insert(name);
        self.known.insert(key, code);
        code
    }
}

/// The numbers of tracks: those of their threads and CPUs, as long as these differ.
#[derive(Default)]
struct TrackNumbers {
    /// By track.
    numbers: Vec<u32>,
    taken: HashSet<u32>,
    made: u32,
    /// Tracks of a CPEL log that were met.
    met: HashSet<u32>,
}

impl TrackNumbers {
    fn number(&mut self, track: u32, origins: &[super::tracks::TrackOrigin], losses: &mut Losses) -> u32 {
        for origin in origins.get(self.numbers.len()..).unwrap_or(&[]) {
            losses.add(Lost::TrackNames, origin.is_named.into());
            let number = match origin.number.filter(|number| !self.taken.contains(number)) {
                Some(number) => number,
                None => {
                    losses.add(Lost::TrackNumbers, (!origin.is_stream).into());
                    // Far fewer tracks are kept apart than there are such numbers.
                    while self.taken.contains(&(MADE_TRACKS + self.made)) {
                        self.made += 1;
                    }
                    MADE_TRACKS + self.made
                }
            };
            self.taken.insert(number);
            self.numbers.push(number);
        }
        self.numbers.get(track as usize).copied().unwrap_or(MADE_TRACKS)
    }

    /// Counts the name of a track of a CPEL log when it is met first.
    fn count_name(&mut self, track: u32, event: EventRef<'_>, losses: &mut Losses) -> Result<()> {
        if self.met.len() >= MAX_KNOWN || !self.met.insert(track) {
            return Ok(());
        }
        let payload = event.values(Scope::Payload)?;
        let name = payload.as_ref().and_then(|payload| payload.member("track_name")?.bytes());
        losses.add(Lost::TrackNames, name.is_some_and(|name| name != track.to_string().as_bytes()).into());
        Ok(())
    }
}

impl TraceWriter for GistConverter {
    fn losses(&self) -> Losses {
        self.log.losses.clone()
    }

    fn event(&mut self, stream: usize, event: EventRef<'_>) -> Result<()> {
        let Some(&(source, _)) = self.log.places.get(stream) else { return Ok(()) };
        if self.count == u32::MAX {
            self.log.losses.add(Lost::UncountedEvents, 1);
            return Ok(());
        }
        let own = match self.native {
            None => Some(self.words((source, stream), event)?),
            Some(Native::Decoded) => words(event.body()),
            Some(Native::Members) => words_of_members(event)?,
        };
        let Some([code, track, datum]) = own else {
            self.log.losses.add(Lost::OtherEvents, 1);
            return Ok(());
        };
        if self.native.is_some() && self.log.sources[source].origin.format != NATIVE[0] {
            self.tracks.count_name(track, event, &mut self.log.losses)?;
        }
        let is_untimed = self.log.sources[source].schema.event(event.class()).is_untimed;
        let time = self.time(stream, event, is_untimed);
        self.record.clear();
        put_record(&mut self.record, time, [code, track, datum], ByteOrder::Big);
        self.count += 1;
        self.events.append(0, &self.record)?;
        self.log.output.grow(self.record.len())
    }

    fn gap(&mut self, _stream: usize, gap: &Gap) -> Result<()> {
        self.log.losses.add_gap(gap);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Losses> {
        let GistConverter { log, mut events, count, .. } = *self;
        let Conversion { output, losses, .. } = log;
        output.write(|log| {
            log.write_all(&count.to_be_bytes())?;
            log.put_waiting(&mut events)
        })?;
        Ok(losses)
    }
}

/// Code, track and datum of an event that came another way than from its log.
pub(super) fn words_of_members(event: EventRef<'_>) -> Result<Option<[u32; 3]>> {
    let payload = event.values(Scope::Payload)?;
    let number = |name| Some(payload.as_ref()?.member(name)?.integer()? as u32);
    let words = || Some([number("code")?, number("track")?, number("datum")?]);
    Ok(words())
}
