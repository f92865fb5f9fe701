//! VPP's event logs, `elog v0` (`SPEC.md`, section 3).

pub(super) mod events;
pub(super) mod format;
pub(super) mod header;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tracemill_codec::bits::read_uint;
use tracemill_codec::chunk::{Bytes, copied_start};
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::{
    ByteOrder, ClockClass, ClockOrigin, EnvValue, EventClass, FieldClass, FieldClassId, FieldKind, FloatClass,
    IntegerClass, Mapping, QUICK_BYTES, Render, RenderedClass, Schema, StreamClass, StreamClassId, StringClass,
    Summary,
};

use super::diagnostics::Diagnostics;
use super::fast_text::Strings;
use super::log::structure;
use super::strings::{MAX_TEXT, long_string, string_at};
use super::tables::{number, table, text};
use events::ElogReader;
use format::ElogFormat;
use header::{Arg, EventType, LogHeader, MAGIC};
use tracemill_format::{DataFile, EntryKind, FoundTrace, OpenContext, OpenTrace, Section, Storage, Stream};

/// The option that cuts names of events.
pub(super) const SHORT_NAMES: &str = "short-names";

/// Is the file a VPP event log?
pub(super) fn probe(storage: &dyn Storage, path: &Path) -> bool {
    matches!(storage.kind(path), Some(EntryKind::File(_)))
        && storage.read_start(path, MAGIC.len()).is_ok_and(|start| start == MAGIC)
}

/// Opens all files that were found.
pub(super) fn open(context: &OpenContext<'_>, found: &[FoundTrace]) -> Vec<Result<OpenTrace>> {
    let open_one = |found: &FoundTrace| {
        let file = context.storage.open(&found.path)?;
        open_file(found, file, context.settings.get(SHORT_NAMES).is_some()).map_err(|error| error.in_file(&found.path))
    };
    found.iter().map(open_one).collect()
}

fn open_file(found: &FoundTrace, file: Arc<dyn Bytes>, short_names: bool) -> Result<OpenTrace> {
    let header = Arc::new(LogHeader::read(file.bytes())?);
    let len = file.bytes().len();
    let mut diagnostics = Diagnostics::new(&found.path, false);
    check_header(&header, file.bytes(), &mut diagnostics);
    let mut schema = schema(&header);
    let default_clock = Some(clock(&mut schema));
    let stream = schema.add_stream(StreamClass { id: 0, default_clock, ..StreamClass::default() });
    let stream = stream.unwrap_or(StreamClassId(0));
    // Texts of it are wanted until the end.
    let strings = copied_start(&file, header.strings.0 + header.strings.1);
    for of in 0..header.types.len() {
        add_class(&mut schema, stream, &header, of, &strings, short_names);
    }
    let data = DataFile::single(found, file);
    let reader = ElogReader::new(header.clone(), data.bytes.clone());
    let mut packets = events::packets(&header, len, stream);
    if let Some(error) = reader.find_times(data.bytes.bytes(), &mut packets) {
        diagnostics.error("events are cut", error);
    }
    let mut trace = OpenTrace::from_file(found, schema, Arc::new(reader));
    trace.streams = vec![Stream {
        name: data.relative.clone(),
        class: stream,
        id: None,
        files: vec![data],
        packets: packets.into(),
    }];
    trace.sections = tables(&header);
    [trace.faults, trace.warnings, trace.remarks] = diagnostics.finish();
    Ok(trace)
}

/// Warnings about the parts before the events.
fn check_header(header: &LogHeader, file: &[u8], diagnostics: &mut Diagnostics) {
    for (at, of) in header.types.iter().enumerate() {
        if of.args.is_none() {
            let args = String::from_utf8_lossy(&of.format_args).into_owned();
            let error = Error::malformed(format!("event type {at} has arguments that cannot be read: `{args}`"));
            let help = "reading ends at the first event of this type";
            diagnostics.error("arguments cannot be read", error.at_offset(of.at).with_help(help));
        }
        if of.number as usize != at + 1 {
            let message = format!("event type {at} says that its number is {}, not {}", of.number, at + 1);
            diagnostics.remark("types have other numbers", of.at, message);
        }
    }
    if !header.ring.is_power_of_two() {
        let message = format!("the ring had {} entries, no power of two", header.ring);
        diagnostics.remark("rings", MAGIC.len() as u64, message);
    }
    let texts =
        header.types.iter().flat_map(|of| [&of.format[..]].into_iter().chain(of.labels.iter().map(|label| &**label)));
    let longest = texts.chain(header.tracks.iter().map(|track| &track[..])).map(<[u8]>::len).max().unwrap_or(0);
    let (at, len) = long_string(header.strings(file)).map_or((0, longest), |(at, len)| (header.strings.0 + at, len));
    if len > MAX_TEXT {
        diagnostics.warn(
            "strings are long",
            at as u64,
            format!("a string has {len} octets: texts show {MAX_TEXT} of them"),
        );
    }
    let kept: usize = header.types.iter().map(|of| of.labels.len()).sum();
    if let Some(of) = header.types.iter().find(|of| of.labels.len() < of.label_count as usize) {
        let message = format!(
            "the types have more than {kept} enumeration strings: those from string {} of the type at {:#x} on are not kept",
            of.labels.len(),
            of.at
        );
        diagnostics.warn("enumerations are long", of.at, message);
    }
    let left = file.len() - header.events;
    if header.count == 0 && left > 0 {
        let message = format!("{left} octets where events would be are ignored: the log says that it has none");
        diagnostics.warn("trailing octets", header.events as u64, message);
    } else if header.count > 0 && left == 0 {
        let message = format!("the log says that it has {} events, the file ends before the first", header.count);
        let error = Error::truncated(message).at_offset(header.events as u64);
        diagnostics.error("events are cut", error);
    }
}

fn schema(header: &LogHeader) -> Schema {
    let mut schema = Schema::new("elog");
    schema.byte_order = ByteOrder::Big;
    schema.summary = Some(Summary { before: "track_name".into(), has_name: false, after: "text".into() });
    let integer = |value: u64| EnvValue::Integer(value.into());
    schema.environment = vec![
        ("ring_size".into(), integer(header.ring.into())),
        ("saved_ns".into(), integer(header::unix_ns(header.saved.0))),
        ("saved_cpu_clock".into(), integer(header.saved.1)),
        ("started_ns".into(), integer(header.start_ns())),
        ("started_cpu_clock".into(), integer(header.started.1)),
    ];
    schema
}

/// Times are stored as seconds since the logger's start; here they are made ns since 1970.
fn clock(schema: &mut Schema) -> tracemill_model::schema::ClockId {
    let clock = ClockClass { origin: ClockOrigin::Unix, has_made_cycles: true, ..ClockClass::nanoseconds("vpp") };
    schema.add_clock(clock)
}

/// Adds the class of a type; classes have the numbers of types.
fn add_class(
    schema: &mut Schema,
    stream: StreamClassId,
    header: &Arc<LogHeader>,
    type_index: usize,
    file: &Arc<dyn Bytes>,
    short_names: bool,
) {
    let of = &header.types[type_index];
    let maker = |what: Synthesized| -> Arc<EventText> {
        Arc::new(EventText { what, header: header.clone(), file: file.clone() })
    };
    let mut members = vec![
        ("track".to_string(), integer(schema, 2, None)),
        ("track_name".to_string(), rendered(schema, 0, maker(Synthesized::Track))),
        ("text".to_string(), rendered(schema, 0, maker(Synthesized::Text(Box::new(ElogFormat::new(of)))))),
    ];
    // One for all arguments of the type.
    let labels = mappings(&of.labels);
    for (at, &arg) in of.args.iter().flatten().enumerate() {
        let class = match arg {
            Arg::Integer(len) => integer(schema, len, None),
            Arg::Enum(len) => integer(schema, len, Some(&labels)),
            Arg::Text(len) => rendered(schema, len, maker(Synthesized::String)),
            Arg::Float(len) => {
                let class = FloatClass::new(u32::from(len) * 8, ByteOrder::Big);
                schema.add_field_class(FieldClass::new(FieldKind::Float(class), 8))
            }
            Arg::String => {
                let class = StringClass::utf8();
                schema.add_field_class(FieldClass::new(FieldKind::String(class), 8))
            }
        };
        members.push((format!("arg{at}"), class));
    }
    let members: Vec<(&str, FieldClassId)> = members.iter().map(|(name, class)| (name.as_str(), *class)).collect();
    let payload = structure(schema, &members);
    let mut class = EventClass::new(type_index as u64, stream);
    class.name = Some(String::from_utf8_lossy(name(of, short_names)).into());
    class.payload = Some(payload);
    schema.add_event(class);
}

/// The name of a type: its format, or the part of it that the G2 viewer shows (`SPEC.md`, D34).
fn name(of: &EventType, short: bool) -> &[u8] {
    let end = of.format.iter().position(|octet| matches!(octet, b' ' | b'(' | b'%')).filter(|&end| short && end > 0);
    &of.format[..end.unwrap_or(of.format.len()).min(MAX_TEXT)]
}

fn mappings(labels: &[Box<[u8]>]) -> Arc<[Mapping]> {
    let mapping = |at: usize| Mapping {
        label: String::from_utf8_lossy(&labels[at][..labels[at].len().min(MAX_TEXT)]).into(),
        ranges: vec![(at as i128, at as i128)],
    };
    (0..labels.len()).map(mapping).collect()
}

fn integer(schema: &mut Schema, len: u8, labels: Option<&Arc<[Mapping]>>) -> FieldClassId {
    let mut class = IntegerClass::unsigned(u32::from(len) * 8);
    class.byte_order = ByteOrder::Big;
    class.mappings = labels.cloned();
    schema.add_field_class(FieldClass::new(FieldKind::Integer(class), 8))
}

fn rendered(schema: &mut Schema, len: u8, render: Arc<EventText>) -> FieldClassId {
    schema.add_field_class(FieldClass::new(FieldKind::Rendered(RenderedClass { len_bytes: len.into(), render }), 8))
}

/// Makes a text of an event.
struct EventText {
    what: Synthesized,
    header: Arc<LogHeader>,
    file: Arc<dyn Bytes>,
}

#[derive(Debug)]
enum Synthesized {
    /// The name of its track.
    Track,
    /// Its format with its arguments.
    Text(Box<ElogFormat>),
    /// A string of the string table, by its offset.
    String,
}

impl fmt::Debug for EventText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventText({:?})", self.what)
    }
}

/// Octets of an event before its arguments as it is decoded: its track.
const TRACK_BYTES: usize = 2;

/// Octets of the stored time before them.
pub(crate) const TIME_BYTES: usize = 8;

impl EventText {
    /// The string table: what is ready of it, and how all of it is found.
    #[inline]
    fn strings<'a>(&'a self) -> (&'a Strings, impl Fn() -> &'a [u8]) {
        (&self.header.quick_strings, || self.header.strings(self.file.bytes()))
    }
}

impl Render for EventText {
    #[inline]
    fn render(&self, event: &[u8], own: &[u8], out: &mut Vec<u8>) -> bool {
        let begin = out.len();
        match &self.what {
            Synthesized::Track => {
                let track = event.first_chunk::<TRACK_BYTES>().map(|track| usize::from(u16::from_be_bytes(*track)));
                let Some(name) = track.and_then(|track| self.header.tracks.get(track)) else { return false };
                out.extend_from_slice(&name[..name.len().min(MAX_TEXT)]);
            }
            Synthesized::Text(format) => {
                let strings = self.header.strings(self.file.bytes());
                format.render(event.get(TRACK_BYTES..).unwrap_or(&[]), strings, out);
                return true;
            }
            Synthesized::String => {
                let strings = self.header.strings(self.file.bytes());
                let Some(text) = string_at(strings, read_uint(own, ByteOrder::Big)) else { return false };
                out.extend_from_slice(text);
            }
        }
        super::printf::make_utf8(out, begin);
        true
    }

    #[inline]
    fn quick(&self, event: &[u8], _own: &[u8], room: &mut [u8; QUICK_BYTES]) -> Option<usize> {
        let (&[a, b], args) = event.split_first_chunk::<TRACK_BYTES>()?;
        match &self.what {
            Synthesized::Track => self.header.quick_tracks.copy(u16::from_be_bytes([a, b]).into(), room),
            Synthesized::Text(format) => format.quick(args, self.strings(), room),
            Synthesized::String => None,
        }
    }

    #[inline]
    fn text<'a>(&'a self, event: &'a [u8], own: &'a [u8], scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        if let Synthesized::Track = self.what {
            let track = event.first_chunk::<TRACK_BYTES>().map(|track| usize::from(u16::from_be_bytes(*track)))?;
            let name = self.header.tracks.get(track)?;
            if name.len() <= MAX_TEXT && name.is_ascii() {
                return Some(name);
            }
        }
        if let Synthesized::Text(format) = &self.what {
            let args = event.get(TRACK_BYTES..).unwrap_or(&[]);
            if let Some(len) = format.quick_text(args, self.strings(), scratch) {
                return scratch.get(..len);
            }
        }
        scratch.clear();
        self.render(event, own, scratch).then_some(scratch)
    }
}

/// Labels of a type that `info` shows.
const CELL_LABELS: usize = 1024;

/// Sections that `info` shows beside the events.
fn tables(header: &LogHeader) -> Vec<Section> {
    let types = header.types.iter().enumerate().map(|(at, of)| {
        // The cell shows no more octets than so many labels have.
        let labels = of.labels.iter().take(CELL_LABELS).map(|label| String::from_utf8_lossy(label).into_owned());
        let labels: Vec<String> = labels.collect();
        vec![
            Some(number(at as u32)),
            Some(text(&of.format)),
            Some(text(&of.format_args)),
            Some(text(labels.join(", ").as_bytes())),
        ]
    });
    let tracks = header.tracks.iter().enumerate().map(|(at, name)| vec![Some(number(at as u32)), Some(text(name))]);
    let log = vec![
        Some(number(header.count)),
        Some(EnvValue::Integer(header.events as i128)),
        Some(EnvValue::Integer(header.strings.1 as i128)),
    ];
    vec![
        table("log", &["declared_events", "first_event_at", "string_table_octets"], 1, std::iter::once(log)),
        table("event types", &["type", "format", "arguments", "enumeration"], header.types.len(), types),
        table("tracks", &["track", "name"], header.tracks.len(), tracks),
    ]
}

/// Calls: the events that VPP writes around the nodes of its graph.
const CALLS: &[tracemill_format::calls::CallEvents] =
    &[tracemill_format::calls::CallEvents::named("*-call:*", "*-return:*")];
