//! From a file to an opened trace: sections, definitions, a stream for each event section.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use tracemill_codec::bits::u32_at;
use tracemill_codec::chunk::Bytes;
use tracemill_codec::trace_plans::TracePlans;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::{
    BlobClass, ByteOrder, ClockClass, ClockId, EnvValue, EventClass, EventClassId, FieldClass, FieldClassId, FieldKind,
    IntegerClass, Length, Member, OpenIds, RenderedClass, Schema, StreamClass, StreamClassId, StructClass, Summary,
};

use super::checks::{ByOffset, Limits};
use super::container::{self, Container, Kind, NAME_BYTES, Records, Section};
use super::definitions::{Definitions, EventDefinition, EventText, NONE, Text, TrackDefinition, each_twice};
use super::elog;
use super::events::{Classes, EventSection, RECORD_BYTES, Reader};
use super::gist;
use super::log_parts::LogParts;
use super::notes::Notes;
use super::printf::{Budget, Format};
use super::settings::Wishes;
use super::strings::{MAX_TEXT, StringTable, Symbols, long_string};
use super::tables;
use tracemill_format::{DataFile, EntryKind, Found, OpenContext, OpenTrace, Section as Table, Storage, Stream};

/// Event classes of the first section that has any; without them its events name themselves.
const MAX_CLASSES: usize = 100_000;
/// Event classes that all sections have together when there are several; events of further ones name themselves. A file
/// can ask for sections times definitions.
const MAX_SHARED: usize = 1 << 14;
/// Octets of all names of event classes together.
const MAX_NAMES: usize = 16 << 20;
/// Events whose times are looked at when a file is opened, so that `info` knows when it begins and ends.
const MAX_LOOK: u64 = 1 << 17;

/// Is the file a CPEL or a Gist log?
pub(super) fn probe(storage: &dyn Storage, path: &Path) -> bool {
    let Some(EntryKind::File(len)) = storage.kind(path) else { return false };
    let Ok(start) = storage.read_start(path, 16) else { return false };
    let Some(&first) = start.first() else { return false };
    // The length of its magic is a number of events, too: that of a Gist log of 144 octets.
    if start.starts_with(elog::header::MAGIC) {
        return false;
    }
    if gist::is_gist(&start, len) {
        return true;
    }
    // Only few versions are believed at once: files of all kinds are asked.
    let is_near = first & 0x7f != 0 && start.len() >= 8 && (first & 0x7f < 8 || container::is_first(&start, len));
    is_near && storage.open(path).is_ok_and(|file| container::probe(file.bytes()))
}

/// Opens all files that were found.
pub(super) fn open(context: &OpenContext<'_>, found: &[Found]) -> Vec<Result<OpenTrace>> {
    let open_one = |found: &Found| {
        let (is_forced, is_strict) = (context.named_format.is_some(), context.strict);
        let wishes = Wishes { is_forced, is_strict, ..Wishes::of(context.settings)? };
        let file = context.storage.open(&found.path)?;
        let len = file.bytes().len() as u64;
        let start = &file.bytes()[..file.bytes().len().min(16)];
        let opened = if gist::is_gist(start, len) || context.named_format == Some("gist") {
            gist::open(context.storage, found, file, &wishes)
        } else {
            open_container(found, file, &wishes)
        };
        opened.map_err(|error| error.in_file(&found.path))
    };
    found.iter().map(open_one).collect()
}

fn open_container(found: &Found, file: Arc<dyn Bytes>, wishes: &Wishes) -> Result<OpenTrace> {
    let mut notes = Notes::new(&found.path, wishes.is_strict);
    let container = Container::read(file.bytes(), wishes.is_forced, &mut notes)?;
    let tables = Tables::of(&container, &file, &mut notes);
    let mut described = vec![tables::Row::default(); container.sections.len()];
    let mut binder = Binder { container: &container, file: &file, tables: &tables, budget: Budget::new() };
    let definitions = Arc::new(binder.definitions(&mut described, &mut notes));
    let mut log = Log::new("cpel", definitions.clone());
    log.schema.byte_order = container.order;
    log.schema.version = (u32::from(container.version), 0);
    let date = tables::date(container.date);
    log.schema.environment.push(("date".into(), EnvValue::String(date.into())));
    let (mut sections, mut has_events) = (Vec::new(), false);
    for (at, section) in container.sections.iter().enumerate() {
        described[at].title = section.kind.name();
        if section.kind != Kind::EVENTS {
            continue;
        }
        has_events = true;
        let Some(records) = container.records(file.bytes(), section, &mut notes) else { continue };
        let named = tables.find(&records);
        // Not for those who want it strict (`SPEC.md`, D14).
        let strings = named.or_else(|| tables.only().filter(|_| !wishes.is_strict));
        if named.is_none() && records.count > 0 {
            let instead = if strings.is_some() { "the only one of the file is used" } else { "`%s` finds no strings" };
            let message = format!(
                "{} names the string table `{}`, which is not there: {instead}",
                section.title(),
                String::from_utf8_lossy(records.table())
            );
            notes.warn("string tables are missing", section.data, message);
        }
        let frequency = wishes.frequency_of(records.rate);
        if frequency == 0 && records.count > 0 {
            let message = format!("{} has a clock rate of 0: its events have no times", section.title());
            let error = Error::new(tracemill_model::error::ErrorKind::Inconsistent, message);
            let error = error.at_offset(section.data + NAME_BYTES as u64 + 4);
            notes.add(super::notes::Level::Warning, "rates are 0", error.with_help("--ticks-per-us N gives one"));
        }
        described[at].records = Some(records);
        described[at].frequency = frequency;
        sections.push(log.add(section.number, section.title(), &records, frequency, strings, &file, wishes));
    }
    if !has_events && !container.is_cut {
        notes.warn("no events", 0, "there is no event section, so there are no events");
    }
    let tables = tables::all(&container, &file, &described, &definitions, &tables.all);
    let log_parts = LogParts::new(&file, &container, described.iter().map(|row| row.records));
    Ok(log.finish(found, file, sections, tables, log_parts, notes))
}

/// The string tables of a file.
pub(super) struct Tables {
    /// All of them with their sections, in the order of the file.
    pub(super) all: Vec<(Section, StringTable)>,
    /// For each of them where strings begin that have no NUL; `None` when all have one.
    cut_from: Vec<Option<usize>>,
    by_name: HashMap<Vec<u8>, usize>,
}

impl Tables {
    fn of(container: &Container, file: &Arc<dyn Bytes>, notes: &mut Notes) -> Self {
        let mut tables = Tables { all: Vec::new(), cut_from: Vec::new(), by_name: HashMap::new() };
        let of_kind = container.sections.iter().filter(|section| section.kind == Kind::STRINGS);
        for section in of_kind {
            let (from, to) = (section.data as usize, (section.data + section.len) as usize);
            let table = StringTable::new(file.clone(), from, to);
            let name = table.string(0).unwrap_or(&[]);
            if section.declared % 4 != 0 {
                let message = format!("{} has {} octets, no multiple of 4", section.title(), section.declared);
                notes.remark("string tables are not padded", section.at(), message);
            }
            if table.len() == 0 {
                notes.warn("string tables are empty", section.at(), format!("{} has no name", section.title()));
            } else if !table.is_terminated(0) {
                let message = format!("the name of {} is not terminated: it ends with the section", section.title());
                notes.cut_name(section.data, message);
            }
            let cut = name[..name.len().min(NAME_BYTES)].to_vec();
            let text = String::from_utf8_lossy(&cut).into_owned();
            if tables.by_name.insert(cut, tables.all.len()).is_some() {
                let message =
                    format!("{} has the name `{text}` of a table before it: this one counts", section.title());
                notes.warn("string tables have one name", section.data, message);
            }
            if let Some((at, len)) = long_string(table.octets()) {
                let message = format!(
                    "{} has a string of {len} octets at offset {at:#x}: texts show {MAX_TEXT} of them",
                    section.title()
                );
                notes.warn("strings are long", section.data + at as u64, message);
            }
            let last_nul = memchr::memrchr(0, table.octets()).map_or(0, |nul| nul + 1);
            tables.cut_from.push(Some(last_nul).filter(|&from| from < table.len()));
            tables.all.push((*section, table));
        }
        tables
    }

    /// The table of a file that has only one.
    fn only(&self) -> Option<(&StringTable, Option<usize>)> {
        let [(_, table)] = self.all.as_slice() else { return None };
        Some((table, self.cut_from[0]))
    }

    /// The table that a section names, and where its strings begin that have no NUL.
    fn find(&self, records: &Records) -> Option<(&StringTable, Option<usize>)> {
        self.by_name.get(records.table()).map(|&at| (&self.all[at].1, self.cut_from[at]))
    }
}

/// Binds definitions and symbols to their strings.
struct Binder<'a> {
    container: &'a Container,
    file: &'a Arc<dyn Bytes>,
    tables: &'a Tables,
    budget: Budget,
}

impl Binder<'_> {
    fn definitions(&mut self, described: &mut [tables::Row], notes: &mut Notes) -> Definitions {
        let (mut events, mut tracks, mut symbols) = (Vec::new(), Vec::new(), Vec::new());
        // Where each definition stands, for what is told of it.
        let (mut events_at, mut tracks_at) = (Vec::new(), Vec::new());
        for (at, section) in self.container.sections.iter().enumerate() {
            let kinds = [Kind::SYMBOLS, Kind::EVENT_DEFINITIONS, Kind::TRACK_DEFINITIONS];
            if !kinds.contains(&section.kind) {
                continue;
            }
            let Some(records) = self.container.records(self.file.bytes(), section, notes) else { continue };
            described[at].records = Some(records);
            let table = self.table_of(section, &records, notes);
            match section.kind {
                Kind::SYMBOLS => self.add_symbols(section, &records, table, &mut symbols, notes),
                Kind::EVENT_DEFINITIONS => self.each::<3>(&records, |this, at, [code, name, datum]| {
                    let name = this.format(section, table, (name, at + 4), true, notes);
                    let datum = this.format(section, table, (datum, at + 8), false, notes);
                    events.push(EventDefinition { code, name, datum });
                    events_at.push(at);
                }),
                _ => self.each::<2>(&records, |this, at, [id, name]| {
                    let name = this.format(section, table, (name, at + 4), true, notes);
                    tracks.push(TrackDefinition { id, name });
                    tracks_at.push(at);
                }),
            }
        }
        let all = self.tables.all.iter().map(|(_, table)| table.clone()).collect();
        let codes: Vec<u32> = events.iter().map(|event| event.code).collect();
        each_twice(&codes, |at| {
            let message = format!("event code {} is defined twice: the first one counts", codes[at]);
            notes.warn("event codes are defined twice", events_at[at], message);
        });
        let ids: Vec<u32> = tracks.iter().map(|track| track.id).collect();
        each_twice(&ids, |at| {
            let message = format!("track {} is defined twice: the first one counts", ids[at]);
            notes.warn("tracks are defined twice", tracks_at[at], message);
        });
        Definitions::new(events, tracks, Symbols::new(all, symbols))
    }

    /// The table that a section of definitions names; the only one of the file when that is not there (`SPEC.md`, D14).
    fn table_of(&self, section: &Section, records: &Records, notes: &mut Notes) -> Option<usize> {
        if let Some(&at) = self.tables.by_name.get(records.table()) {
            return Some(at);
        }
        let name = String::from_utf8_lossy(records.table());
        let message = format!("{} names the string table `{name}`, which is not there", section.title());
        let error = Error::malformed(message).at_offset(section.data);
        let only = (self.tables.all.len() == 1).then_some(0);
        let help = match only {
            Some(_) => "the only string table of the file is used",
            None => "its definitions have no formats",
        };
        notes.fault("string tables of definitions are missing", error.with_help(help));
        only
    }

    /// Calls `take` for each record of `N` words with its offset in the file.
    fn each<const N: usize>(&mut self, records: &Records, mut take: impl FnMut(&mut Self, u64, [u32; N])) {
        let file = self.file.clone();
        let (from, len) = (records.first as usize, records.count as usize * N * 4);
        let octets = file.bytes().get(from..from + len).unwrap_or(&[]);
        for (at, record) in octets.chunks_exact(N * 4).enumerate() {
            let word = |word: usize| u32_at(record, word * 4, self.container.order).unwrap_or(0);
            let words = std::array::from_fn(word);
            take(self, (from + at * N * 4) as u64, words);
        }
    }

    /// The format at an offset that stands `at` some place; `None` for the default (`SPEC.md`, D24).
    fn format(
        &mut self,
        section: &Section,
        table: Option<usize>,
        (offset, at): (u32, u64),
        is_name: bool,
        notes: &mut Notes,
    ) -> Option<Format> {
        let index = table?;
        let (of, table) = &self.tables.all[index];
        if offset == 0 {
            return None;
        }
        let format = Format::at(table, offset, &mut self.budget);
        if format.is_none() {
            let message = format!(
                "{}: a format at offset {offset:#x} of {}, which has {} octets: it counts as missing",
                section.title(),
                of.title(),
                table.len()
            );
            notes.warn("formats are outside of their tables", at, message);
        } else if self.is_cut(index, offset) {
            let message =
                format!("the string at offset {offset:#x} of {} has no NUL: it ends with the section", of.title());
            if is_name {
                notes.cut_name(at, message);
            } else {
                notes.warn("strings are not terminated", at, message);
            }
        }
        format
    }

    /// Has the string at an offset no end of its own?
    fn is_cut(&self, table: usize, offset: u32) -> bool {
        self.tables.cut_from[table].is_some_and(|from| offset as usize >= from)
    }

    fn add_symbols(
        &mut self,
        section: &Section,
        records: &Records,
        table: Option<usize>,
        symbols: &mut Vec<(u32, u32, u32)>,
        notes: &mut Notes,
    ) {
        let (mut before, mut unsorted) = (0, None);
        let index = table.map_or(u32::MAX, |table| table as u32);
        self.each::<2>(records, |this, at, [value, name]| {
            if value < before {
                unsorted.get_or_insert((at, before, value));
            }
            before = value;
            if let Some(table) = table {
                let (index, (of, table)) = (table, &this.tables.all[table]);
                if name as usize >= table.len() {
                    let message = format!("{}: a name at offset {name:#x}, outside of {}", section.title(), of.title());
                    notes.warn("names of symbols are outside of their tables", at + 4, message);
                } else if this.is_cut(index, name) {
                    let message = format!("the name at offset {name:#x} of {} has no NUL", of.title());
                    notes.cut_name(at + 4, message);
                }
            }
            symbols.push((value, index, name));
        });
        if let Some((at, before, value)) = unsorted {
            let message = format!("{} is not sorted: the value {value:#x} stands behind {before:#x}", section.title());
            notes.warn("symbols are not sorted", at, message);
        }
    }
}

/// What sections with the same string table have in common: their texts are the same.
#[derive(Clone)]
struct Shared {
    payload: FieldClassId,
    name: Arc<EventText>,
    /// The names of all definitions, when they were made; `Some(None)` when they are too long to be kept.
    names: Option<Option<Arc<[Arc<str>]>>>,
}

/// A log being put together: its schema, and what a class needs.
pub(super) struct Log {
    pub(super) schema: Schema,
    definitions: Arc<Definitions>,
    clocks: HashMap<u64, ClockId>,
    /// For each stream its section, its class, and whether its times are looked at.
    streams: Vec<(u32, StreamClassId, bool)>,
    classes: usize,
    names: usize,
    looked: u64,
    /// By the first octet of a string table (none without one) what its sections have in common.
    shared: HashMap<Option<usize>, Shared>,
    /// Which texts are strings by their offset; `None` when there are none.
    by_offset: Option<ByOffset>,
}

impl Log {
    pub(super) fn new(format: &'static str, definitions: Arc<Definitions>) -> Self {
        let mut schema = Schema::new(format);
        schema.version = (1, 0);
        schema.summary = Some(Summary { before: "track_name".into(), has_name: true, after: "datum_text".into() });
        let by_offset = ByOffset::of(&definitions);
        Log {
            schema,
            definitions,
            clocks: HashMap::new(),
            streams: Vec::new(),
            classes: 0,
            names: 0,
            looked: 0,
            shared: HashMap::new(),
            by_offset,
        }
    }

    /// Adds a section of events; its stream class has its number.
    #[expect(clippy::too_many_arguments, reason = "a plain list of what a section is")]
    pub(super) fn add(
        &mut self,
        number: u32,
        title: String,
        records: &Records,
        frequency: u64,
        strings: Option<(&StringTable, Option<usize>)>,
        file: &Arc<dyn Bytes>,
        wishes: &Wishes,
    ) -> EventSection {
        let clock = match self.clocks.get(&frequency) {
            Some(&clock) => clock,
            None => {
                let name = if frequency == 0 { "ticks".to_string() } else { format!("{frequency} Hz") };
                let clock = self.schema.add_clock(ClockClass { frequency, ..ClockClass::nanoseconds(&name) });
                self.clocks.insert(frequency, clock);
                clock
            }
        };
        let class = StreamClass {
            id: u64::from(number),
            name: Some(title.as_str().into()),
            default_clock: Some(clock),
            ..StreamClass::default()
        };
        let limits = strings.and_then(|(table, cut_from)| {
            let good = cut_from.unwrap_or(table.len());
            Some(Limits { by_offset: self.by_offset.clone()?, len: table.len(), good, is_strict: wishes.is_strict })
        });
        let strings = strings.map(|(table, _)| table.clone());
        // Sections are numbered, so the number is free.
        let stream = self.schema.add_stream(class).unwrap_or(StreamClassId(0));
        let look = self.looked + records.count <= MAX_LOOK;
        self.looked += if look { records.count } else { 0 };
        self.streams.push((number, stream, look));
        let all_defined = look && self.are_defined(records, file);
        let octets = wishes.octets.then(|| strings.clone());
        let classes = self.add_classes(stream, records.count, all_defined, strings, wishes.octets);
        let (order, definitions) = (self.schema.byte_order, self.definitions.clone());
        let place = (records.first, records.count);
        EventSection::new(file.clone(), title, order, place, classes, definitions, limits, octets, wishes.wraps)
    }

    /// Has the code of each event a definition?
    fn are_defined(&self, records: &Records, file: &Arc<dyn Bytes>) -> bool {
        let (from, to) = (records.first as usize, (records.first + records.count * RECORD_BYTES) as usize);
        let (records, _) = file.bytes().get(from..to).unwrap_or(&[]).as_chunks::<{ RECORD_BYTES as usize }>();
        let order = self.schema.byte_order;
        let code = |record: &[u8; RECORD_BYTES as usize]| u32_at(record, 12, order).unwrap_or(0);
        records.iter().all(|record| self.definitions.by_code.get(code(record)) != NONE)
    }

    fn add_classes(
        &mut self,
        stream: StreamClassId,
        count: u64,
        all_defined: bool,
        strings: Option<StringTable>,
        octets: bool,
    ) -> Classes {
        let key = strings.as_ref().map(StringTable::start);
        let shared = match self.shared.get(&key) {
            Some(shared) => shared.clone(),
            None => {
                let shared = self.shared(strings.clone(), octets);
                self.shared.insert(key, shared.clone());
                shared
            }
        };
        let events = self.definitions.events.len();
        let room = if self.classes == 0 { MAX_CLASSES } else { MAX_SHARED };
        let mut first = None;
        if count > 0 && self.classes + events <= room && events > 0 {
            let names = match shared.names {
                None => {
                    let names: Option<Arc<[Arc<str>]>> = self.names_of(strings.as_ref()).map(Into::into);
                    if let Some(shared) = self.shared.get_mut(&key) {
                        shared.names = Some(names.clone());
                    }
                    names
                }
                Some(names) => names,
            };
            first = names.map(|names| self.add_defined(stream, shared.payload, &names));
        }
        if let (Some(first), true) = (first, all_defined) {
            return Classes { first: Some(first), open: EventClassId(first) };
        }
        let mut class = EventClass::new(1 << 32, stream);
        class.payload = Some(shared.payload);
        class.open_ids = Some(OpenIds { offset_bytes: 0, name: shared.name });
        let open = self.schema.add_event(class).unwrap_or(EventClassId(0));
        Classes { first, open }
    }

    /// What the sections of one string table have in common.
    fn shared(&mut self, strings: Option<StringTable>, octets: bool) -> Shared {
        let rendered = |text: Text| -> Arc<EventText> {
            Arc::new(EventText { text, definitions: self.definitions.clone(), strings: strings.clone() })
        };
        let (name, track, datum) = (rendered(Text::Name), rendered(Text::Track), rendered(Text::Datum));
        let number = |schema: &mut Schema| {
            schema.add_field_class(FieldClass::new(FieldKind::Integer(IntegerClass::unsigned(32)), 8))
        };
        let text = |schema: &mut Schema, render: Arc<EventText>| {
            schema.add_field_class(FieldClass::new(FieldKind::Rendered(RenderedClass { len_bytes: 0, render }), 8))
        };
        let schema = &mut self.schema;
        let mut members = vec![
            ("code", number(schema)),
            ("track", number(schema)),
            ("track_name", text(schema, track)),
            ("datum", number(schema)),
            ("datum_text", text(schema, datum)),
        ];
        if octets {
            let length = number(schema);
            let blob = BlobClass { length: Length::Inline(length), media_type: "application/octet-stream".into() };
            for name in ["name_octets", "track_octets", "datum_octets"] {
                members.push((name, schema.add_field_class(FieldClass::new(FieldKind::Blob(blob.clone()), 8))));
            }
        }
        Shared { payload: structure(schema, &members), name, names: None }
    }

    /// The names of all definitions in a section; `None` when they are too long to be kept.
    fn names_of(&mut self, strings: Option<&StringTable>) -> Option<Vec<Arc<str>>> {
        let (mut names, mut name) = (Vec::new(), Vec::new());
        for event in &self.definitions.events {
            name.clear();
            self.definitions.put_event(event.code, strings, &mut name);
            self.names += name.len();
            if self.names > MAX_NAMES {
                return None;
            }
            names.push(String::from_utf8_lossy(&name).into());
        }
        Some(names)
    }

    /// Adds a class for each definition, with the numbers of the definitions from the first one on.
    fn add_defined(&mut self, stream: StreamClassId, payload: FieldClassId, names: &[Arc<str>]) -> u32 {
        let first = self.schema.events().len() as u32;
        for (at, name) in names.iter().enumerate() {
            let code = self.definitions.events[at].code;
            let mut class = EventClass::new(u64::from(code), stream);
            class.name = Some(name.clone());
            class.payload = Some(payload);
            self.schema.add_event(class);
            self.classes += 1;
        }
        first
    }

    /// The trace.
    pub(super) fn finish(
        self,
        found: &Found,
        file: Arc<dyn Bytes>,
        mut sections: Vec<EventSection>,
        tables: Vec<Table>,
        log_parts: LogParts,
        notes: Notes,
    ) -> OpenTrace {
        let relative = found.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let data = DataFile { path: found.path.clone(), relative: relative.clone(), bytes: file, is_indexed: false };
        let mut streams = Vec::new();
        let count = sections.len();
        sections.iter_mut().for_each(|section| section.sections = count);
        let several = count > 1;
        for (section, &(number, class, look)) in sections.iter().zip(&self.streams) {
            streams.push(Stream {
                name: if several { format!("{relative}:{number}") } else { relative.clone() },
                class,
                id: None,
                files: vec![data.clone()],
                packets: section.packets(class, look),
            });
        }
        let schema = Arc::new(self.schema);
        let [faults, warnings, remarks] = notes.finish();
        OpenTrace {
            name: found.name.clone(),
            path: found.path.clone(),
            own_name: String::new(),
            plans: Arc::new(TracePlans::new(schema.clone())),
            schema,
            has_other_bytes: true,
            reader: Arc::new(Reader { sections, log_parts }),
            streams,
            sections: tables,
            remarks,
            faults,
            warnings,
        }
    }
}

/// A structure of members that stand on whole octets.
pub(super) fn structure(schema: &mut Schema, members: &[(&str, FieldClassId)]) -> FieldClassId {
    let members =
        members.iter().map(|&(name, class)| Member { name: name.into(), raw_name: name.into(), class }).collect();
    schema.add_field_class(FieldClass::new(FieldKind::Struct(StructClass { members }), 8))
}

/// The definitions of a log whose names are given.
pub(super) fn no_definitions() -> Definitions {
    Definitions::new(Vec::new(), Vec::new(), Symbols::default())
}

/// The byte order of a log without a header.
pub(super) const BIG: ByteOrder = ByteOrder::Big;
