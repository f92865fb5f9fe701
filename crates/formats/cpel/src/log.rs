//! The schema and the streams of a CPEL or Gist log: event classes of its definitions, a stream for each event section.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use tracemill_codec::bits::u32_at;
use tracemill_codec::chunk::Bytes;
use tracemill_model::schema::{
    BlobClass, ClockClass, ClockId, EventClass, EventClassId, FieldClass, FieldClassId, FieldKind, IntegerClass,
    Length, Member, OpenIds, RenderedClass, Schema, StreamClass, StreamClassId, StructClass, Summary,
};

use super::checks::{ByOffset, ReportedWarnings, TableLimits};
use super::container::{RECORD_BYTES, RecordHeader};
use super::definitions::{EventText, LogDefinitions, NONE, TextRole};
use super::diagnostics::Diagnostics;
use super::events::{Classes, CpelReader, EventSection};
use super::log_parts::LogParts;
use super::settings::Wishes;
use super::strings::StringTable;
use tracemill_format::{DataFile, FoundTrace, OpenTrace, Section as Table, Stream};

/// Event classes of the first section that has any; without them its events name themselves.
const MAX_CLASSES: usize = 100_000;
/// Event classes that all sections have together when there are several; events of further ones name themselves. A file
/// can ask for sections times definitions.
const MAX_SHARED: usize = 1 << 14;
/// Octets of all names of event classes together.
const MAX_NAMES: usize = 16 << 20;
/// Events whose times are looked at when a file is opened, so that `info` knows when it begins and ends.
const MAX_LOOK: u64 = 1 << 17;

/// The field classes and names of all sections with the same string table: their texts are the same.
#[derive(Clone)]
struct TableTexts {
    payload: FieldClassId,
    name: Arc<EventText>,
    /// The names of all definitions, when they were made; `Some(None)` when they are too long to be kept.
    names: Option<Option<Arc<[Arc<str>]>>>,
}

/// A log being put together: its schema, and what a class needs.
pub(super) struct Log {
    pub(super) schema: Schema,
    definitions: Arc<LogDefinitions>,
    clocks: HashMap<u64, ClockId>,
    /// For each stream its section, its class, and whether its times are looked at.
    streams: Vec<(u32, StreamClassId, bool)>,
    classes: usize,
    names: usize,
    looked: u64,
    /// By the first octet of a string table (none without one) what its sections have in common.
    shared: HashMap<Option<usize>, TableTexts>,
    /// Which texts are strings by their offset; `None` when there are none.
    by_offset: Option<ByOffset>,
}

impl Log {
    pub(super) fn new(format: &'static str, definitions: Arc<LogDefinitions>) -> Self {
        let mut schema = Schema::new(format);
        schema.version = (1, 0);
        schema.summary = Some(Summary { before: "track_name".into(), has_name: true, after: "datum_text".into() });
        let by_offset = ByOffset::from_definitions(&definitions);
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
    #[expect(clippy::too_many_arguments, reason = "a list of what a section is")]
    pub(super) fn add(
        &mut self,
        number: u32,
        title: String,
        records: &RecordHeader,
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
            id: number.into(),
            name: Some(title.as_str().into()),
            default_clock: Some(clock),
            ..StreamClass::default()
        };
        let limits = strings.and_then(|(table, cut_from)| {
            let good = cut_from.unwrap_or(table.len());
            Some(TableLimits {
                by_offset: self.by_offset.clone()?,
                len: table.len(),
                good,
                is_strict: wishes.is_strict,
            })
        });
        let strings = strings.map(|(table, _)| table.clone());
        // Sections are numbered, so the number is free.
        let stream = self.schema.add_stream(class).unwrap_or(StreamClassId(0));
        let look = self.looked + records.count <= MAX_LOOK;
        self.looked += if look { records.count } else { 0 };
        self.streams.push((number, stream, look));
        let all_defined = look && self.are_defined(records, file);
        EventSection {
            bytes: file.clone(),
            title,
            order: self.schema.byte_order,
            first: records.first,
            count: records.count,
            octets: wishes.octets.then(|| strings.clone()),
            classes: self.add_classes(stream, records.count, all_defined, strings, wishes.octets),
            definitions: self.definitions.clone(),
            limits,
            wraps: wishes.wraps,
            sections: 1,
            times: OnceLock::new(),
            told: ReportedWarnings::default(),
        }
    }

    /// Has the code of each event a definition?
    fn are_defined(&self, records: &RecordHeader, file: &Arc<dyn Bytes>) -> bool {
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
        let mut shared = match self.shared.get(&key) {
            Some(shared) => shared.clone(),
            None => self.shared(strings.clone(), octets),
        };
        let events = self.definitions.events.len();
        let room = if self.classes == 0 { MAX_CLASSES } else { MAX_SHARED };
        let mut first = None;
        if count > 0 && self.classes + events <= room && events > 0 {
            let names = shared.names.take().unwrap_or_else(|| self.names_of(strings.as_ref()).map(Into::into));
            first = names.as_ref().map(|names| self.add_defined(stream, shared.payload, names));
            shared.names = Some(names);
        }
        self.shared.insert(key, shared.clone());
        if let (Some(first), true) = (first, all_defined) {
            return Classes { first: Some(first), open: EventClassId(first) };
        }
        let mut class = EventClass::new(1 << 32, stream);
        class.payload = Some(shared.payload);
        class.open_ids = Some(OpenIds { offset_bytes: 0, name: shared.name });
        let open = self.schema.add_event(class).unwrap_or(EventClassId(0));
        Classes { first, open }
    }

    /// State that the sections of one string table share.
    fn shared(&mut self, strings: Option<StringTable>, octets: bool) -> TableTexts {
        let rendered = |text: TextRole| -> Arc<EventText> {
            Arc::new(EventText { text, definitions: self.definitions.clone(), strings: strings.clone() })
        };
        let (name, track, datum) = (rendered(TextRole::Name), rendered(TextRole::Track), rendered(TextRole::Datum));
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
            let blob = BlobClass::new(Length::Inline(length));
            for name in ["name_octets", "track_octets", "datum_octets"] {
                members.push((name, schema.add_field_class(FieldClass::new(FieldKind::Blob(blob.clone()), 8))));
            }
        }
        TableTexts { payload: structure(schema, &members), name, names: None }
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
        found: &FoundTrace,
        file: Arc<dyn Bytes>,
        mut sections: Vec<EventSection>,
        tables: Vec<Table>,
        log_parts: LogParts,
        diagnostics: Diagnostics,
    ) -> OpenTrace {
        let data = DataFile::single(found, file);
        let (mut streams, count) = (Vec::new(), sections.len());
        sections.iter_mut().for_each(|section| section.sections = count);
        for (section, &(number, class, look)) in sections.iter().zip(&self.streams) {
            streams.push(Stream {
                name: if count > 1 { format!("{}:{number}", data.relative) } else { data.relative.clone() },
                class,
                id: None,
                files: vec![data.clone()],
                packets: section.packets(class, look).into(),
            });
        }
        let mut trace = OpenTrace::from_file(found, self.schema, Arc::new(CpelReader { sections, log_parts }));
        (trace.streams, trace.sections) = (streams, tables);
        [trace.faults, trace.warnings, trace.remarks] = diagnostics.finish();
        trace
    }
}

/// A structure of members that stand on whole octets.
pub(super) fn structure(schema: &mut Schema, members: &[(&str, FieldClassId)]) -> FieldClassId {
    let members = members.iter().map(|&(name, class)| Member::new(name, class)).collect();
    schema.add_field_class(FieldClass::new(FieldKind::Struct(StructClass { members }), 8))
}
