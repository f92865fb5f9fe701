//! Any trace as one of 2.6: event classes become markers of channels, which a metadata channel describes.
//!
//! Everything is packed, and times are ns. Fields that are neither numbers nor texts become text, since formats of markers
//! have only these.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write;

use tracemill_codec::chunk::EventRef;
use tracemill_codec::value::Value;
use tracemill_model::clock::{ClockMap, NS_PER_SECOND};
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::{Gap, GapKind};
use tracemill_model::schema::{
    ClockOrigin, DisplayBase, EventClassId, FieldClassId, FieldKind as SchemaKind, Origin, Schema, Scope,
};

use super::super::FORMAT;
use super::super::format_string::{FieldKind, MarkerField, Sizes};
use super::super::header::{ClockStart, NEWEST_MINOR, SubBufferHeader};
use super::super::metadata::{Dialect, Marker, SET_ID, core_markers};
use super::encode::{EncodedMarker, EventOut};
use super::{BUFFER, OpenSubBuffer, PAGE, id_values};
use crate::facilities::core_names;
use crate::padding::write_zeros;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::{Source, TraceWriter, WriteOptions};
use tracemill_format::writer::{ClassKey, count_headers};
use tracemill_format::{OutFile, OutPath, as_file_name};
use tracemill_semantics::cpu;
use tracemill_semantics::names::CPU;

/// Sizes of the C types of the machine that is written, which aligns nothing.
const SIZES: Sizes = Sizes { int: 4, long: 8, pointer: 8, size_t: 8, alignment: 0 };
/// Length of the header of a sub-buffer of 2.6.
const HEADER_BYTES: u32 = 68;
/// A sub-buffer ends at this size, unless the user wants another.
const BLOCK_BYTES: usize = 128 << 10;
/// Most channels: each has a file for each CPU.
const MAX_CHANNELS: usize = 255;
/// Most fields of a marker, as its reader takes them.
const MAX_FIELDS: usize = 512;
/// Structures in each other that are taken apart.
const MAX_DEPTH: usize = 8;
/// Files of one channel and CPU that only zeros before the number tell apart.
const MAX_ZEROS: usize = 40;
/// Channel of events whose channel is one too many.
const OTHER: &str = "other";

/// A trace that is written.
pub(crate) struct MarkersConverter {
    folder: OutPath,
    source: Source,
    header: SubBufferHeader,
    /// By stream class; `None` when no clock has a known frequency, and cycles stay.
    clocks: Option<HashMap<u32, ClockMap>>,
    channels: Vec<NewChannel>,
    /// By class, and for classes of many ids by name: channel, marker.
    known: HashMap<ClassKey, Option<(usize, usize)>>,
    files: HashSet<String>,
    /// Names of the events that say what other events there are.
    core: HashSet<String>,
    /// The files of the stream that is written, by channel.
    open: BTreeMap<usize, ChannelFileOut>,
    /// Files that are complete.
    done: Vec<OutFile>,
    /// Events and packets that were lost before the next event.
    lost: [u64; 2],
    last: u64,
    is_begun: bool,
    block_bytes: usize,
    losses: Losses,
}

struct NewChannel {
    name: String,
    markers: Vec<NewMarker>,
}

struct NewMarker {
    name: String,
    format: String,
    form: EncodedMarker,
    sources: Vec<FieldSource>,
}

/// Where the value of a field comes from.
#[derive(Clone)]
struct FieldSource {
    scope: Scope,
    path: Vec<usize>,
    class: FieldClassId,
    /// Is it made a text, because markers have nothing like it?
    is_made: bool,
}

struct ChannelFileOut {
    out: OutFile,
    block: Option<OpenSubBuffer>,
    /// Counters of lost events and sub-buffers.
    lost: [u32; 2],
}

impl MarkersConverter {
    pub(crate) fn new(folder: &OutPath, source: &Source, options: &WriteOptions) -> MarkersConverter {
        let schema = &source.schema;
        let mut losses = Losses::default();
        count_headers(&mut losses, source, &[CPU], &[CPU]);
        let mut clocks = HashMap::new();
        for class in source.streams.iter().map(|stream| stream.class) {
            let clock = schema.stream(class).default_clock.map(|clock| schema.clock(clock));
            let Some(clock) = clock.filter(|clock| clock.frequency > 0) else { continue };
            if clocks.insert(class.0, source.clock_map(clock)).is_none() {
                losses.add(Lost::ClockOrigins, (clock.origin != ClockOrigin::Unknown).into());
                losses.add(Lost::ClockFrequencies, (i128::from(clock.frequency) != NS_PER_SECOND).into());
            }
        }
        let clocks = Some(clocks).filter(|clocks| !clocks.is_empty());
        let frequency = if clocks.is_some() { NS_PER_SECOND as u64 } else { 0 };
        let header = SubBufferHeader {
            order: options.byte_order.unwrap_or(schema.byte_order),
            minor: NEWEST_MINOR,
            arch_size: 8,
            alignment: SIZES.alignment,
            begin_cycles: 0,
            end_cycles: 0,
            start: ClockStart { seconds: 0, microseconds: 0, frequency, scale: 1 },
            header_bytes: HEADER_BYTES,
            data_bytes: HEADER_BYTES,
            total_bytes: HEADER_BYTES,
            events_lost: Some(0),
            corrupt: Some(0),
        };
        MarkersConverter {
            folder: folder.clone(),
            source: source.clone(),
            header,
            clocks,
            channels: Vec::new(),
            known: HashMap::new(),
            files: HashSet::new(),
            core: definition_events(&source.origin),
            open: BTreeMap::new(),
            done: Vec::new(),
            lost: [0; 2],
            last: 0,
            is_begun: false,
            block_bytes: options.packet_bytes.unwrap_or(BLOCK_BYTES).clamp(4096, 16 << 20),
            losses,
        }
    }

    fn time(&mut self, stream: usize, event: EventRef<'_>, is_untimed: bool) -> u64 {
        let class = self.source.streams[stream].class;
        let time = match (&self.clocks, is_untimed) {
            (_, true) => {
                self.losses.add(Lost::UntimedEvents, 1);
                return self.last;
            }
            (None, false) => event.cycles(),
            (Some(clocks), false) => match clocks.get(&class.0).map(|clock| u64::try_from(clock.ns(event.cycles()))) {
                Some(Ok(ns)) => ns,
                Some(Err(_)) => {
                    self.losses.add(Lost::OutsideTimes, 1);
                    0
                }
                None => {
                    self.losses.add(Lost::ClocklessEvents, 1);
                    0
                }
            },
        };
        self.last = time;
        time
    }

    /// Sets the start of the trace: the microsecond of its first event, so that times are the same with `--wall-clock`.
    fn begin(&mut self, time: u64) {
        self.header.begin_cycles = time;
        if self.clocks.is_some() {
            let micros = time / 1000;
            self.header.begin_cycles = micros * 1000;
            let start = &mut self.header.start;
            (start.seconds, start.microseconds) = (micros / 1_000_000, micros % 1_000_000);
        }
    }

    /// Channel and marker of a class, made when it is met first.
    fn place(&mut self, event: EventRef<'_>) -> Option<(usize, usize)> {
        let key = ClassKey::from_event(0, event);
        if let Some(place) = self.known.get(&key) {
            return *place;
        }
        let schema = self.source.schema.clone();
        let full = key.name(&schema).into_owned();
        let (mut channel, mut marker) = split(&full);
        let mut at = self.channels.iter().position(|known| known.name == channel);
        if at.is_none() && self.channels.len() >= MAX_CHANNELS {
            (channel, marker) = (OTHER.into(), plain(&full));
            at = self.channels.iter().position(|known| known.name == channel);
        }
        let at = at.unwrap_or_else(|| {
            self.channels.push(NewChannel { name: channel.clone(), markers: Vec::new() });
            self.channels.len() - 1
        });
        let markers = &mut self.channels[at].markers;
        let mut name = marker.clone();
        // A format belongs to a name, and classes of one name may have other fields.
        while markers.iter().any(|known| known.name == name) {
            name = format!("{marker}_{}", markers.len());
            marker.push('_');
        }
        self.losses.add(Lost::MarkerNames, (format!("{channel}.{name}") != full).into());
        let place = (markers.len() <= usize::from(u16::MAX)).then(|| {
            let fields = Fields::of_class(&schema, event.class(), &mut self.losses);
            let Fields { format, fields, sources, .. } = fields;
            let form = EncodedMarker::new(fields, SIZES.alignment, self.header.shape());
            markers.push(NewMarker { name, format, form, sources });
            (at, markers.len() - 1)
        });
        self.known.insert(key, place);
        place
    }

    /// The file of a channel for a CPU. Files of one CPU differ by zeros before its number.
    fn file_name(&mut self, channel: usize, cpu: u32) -> String {
        let channel = &self.channels[channel].name;
        let numbers = (0..).flat_map(|more| (0..MAX_ZEROS).map(move |zeros| (cpu.wrapping_add(more), zeros)));
        let mut names = numbers.map(|(cpu, zeros)| format!("{channel}_{}{cpu}", "0".repeat(zeros)));
        let name = names.find(|name| !self.files.contains(name)).unwrap_or_default();
        self.files.insert(name.clone());
        name
    }

    /// The values of the fields of a marker.
    fn values(&mut self, event: EventRef<'_>, sources: &[FieldSource]) -> Result<Vec<Value>> {
        let schema = &self.source.schema;
        let mut scopes: Vec<(Scope, Option<Value>)> = Vec::new();
        let (mut absent, mut truncated) = (0, 0);
        let mut values = Vec::with_capacity(sources.len());
        for source in sources {
            if !scopes.iter().any(|(scope, _)| *scope == source.scope) {
                scopes.push((source.scope, event.values(source.scope).map_err(Error::from)?));
            }
            let root = scopes.iter().find(|(scope, _)| *scope == source.scope);
            let mut value = root.and_then(|(_, value)| value.as_ref());
            for &member in &source.path {
                value = match value {
                    Some(Value::Struct(members)) => members.get(member).map(|(_, value)| value),
                    _ => None,
                };
            }
            let value = value.cloned().unwrap_or_default();
            absent += u64::from(value.is_null() && !source.is_made);
            let value = match (value, &schema.field_class(source.class).kind) {
                (value, _) if source.is_made => {
                    let mut text = Vec::new();
                    put_text(&mut text, &value);
                    Value::Text(text)
                }
                (Value::Text(bytes), SchemaKind::String(string)) if string.encoding.unit_bytes() > 1 => {
                    Value::Text(string.encoding.to_utf8(&bytes).into_bytes())
                }
                (value, _) => value,
            };
            truncated += u64::from(value.bytes().is_some_and(|text| text.contains(&0)));
            values.push(value);
        }
        self.losses.add(Lost::AbsentFields, absent);
        self.losses.add(Lost::TruncatedTexts, truncated);
        Ok(values)
    }

    /// Writes the events that define the markers.
    fn write_metadata(&self) -> Result<OutFile> {
        let header = self.header.clone();
        let shape = header.shape();
        let mut file = ChannelFileOut::new(self.folder.join("metadata_0"));
        let begin = header.begin_cycles;
        file.begin(&header, begin);
        let core = core_markers(Dialect::WithChannel);
        let forms = core.map(|(id, _, fields)| (id, EncodedMarker::new(fields, SIZES.alignment, shape)));
        for channel in &self.channels {
            for (at, marker) in channel.markers.iter().enumerate() {
                let names = [&channel.name, &marker.name].map(|name| Value::Text(name.clone().into_bytes()));
                let own = Marker { name: marker.name.clone(), sizes: SIZES };
                let format = Value::Text(marker.format.clone().into_bytes());
                for (id, form) in &forms {
                    let values = match *id {
                        SET_ID => id_values(names.to_vec(), at as u16, &own),
                        _ => names.iter().cloned().chain([format.clone()]).collect(),
                    };
                    if file.is_full(self.block_bytes) {
                        file.flush()?;
                        file.begin(&header, begin);
                    }
                    file.event(*id, begin, form, &values);
                }
            }
        }
        file.finish()
    }
}

impl TraceWriter for MarkersConverter {
    fn losses(&self) -> Losses {
        self.losses.clone()
    }

    fn event(&mut self, stream: usize, event: EventRef<'_>) -> Result<()> {
        let class = self.source.schema.event(event.class());
        if class.name.as_deref().is_some_and(|name| self.core.contains(name)) {
            return Ok(());
        }
        let is_untimed = class.is_untimed;
        let Some((channel, marker)) = self.place(event) else {
            self.losses.add(Lost::MoreEventClasses, 1);
            return Ok(());
        };
        let time = self.time(stream, event, is_untimed);
        if !std::mem::replace(&mut self.is_begun, true) {
            self.begin(time);
        }
        let sources = self.channels[channel].markers[marker].sources.clone();
        let values = self.values(event, &sources)?;
        if !self.open.contains_key(&channel) {
            let cpu = cpu(&event.chunk.packet).and_then(|cpu| u32::try_from(cpu).ok()).unwrap_or(0);
            let name = self.file_name(channel, cpu);
            self.open.insert(channel, ChannelFileOut::new(self.folder.join(name)));
        }
        let Some(file) = self.open.get_mut(&channel) else { return Ok(()) };
        let lost = std::mem::take(&mut self.lost);
        if lost != [0; 2] || file.is_full(self.block_bytes) {
            file.flush()?;
            for (counter, more) in file.lost.iter_mut().zip(lost) {
                *counter = counter.wrapping_add(more as u32);
            }
        }
        file.begin(&self.header, time);
        file.event(marker as u16, time, &self.channels[channel].markers[marker].form, &values);
        Ok(())
    }

    fn gap(&mut self, _stream: usize, gap: &Gap) -> Result<()> {
        let count = gap.count.unwrap_or(1);
        self.losses.add(Lost::UnknownGaps, gap.count.is_none().into());
        let at = usize::from(gap.kind == GapKind::LostPackets);
        // A reader takes a step of more than half of the counter for one back.
        let held = (self.lost[at] + count.min(u32::MAX.into())).min(u32::MAX as u64 / 2);
        let lost = [Lost::DiscardedCounts, Lost::LostPacketCounts][at];
        self.losses.add(lost, (self.lost[at].saturating_add(count)).saturating_sub(held));
        self.lost[at] = held;
        Ok(())
    }

    fn end_stream(&mut self, _stream: usize) -> Result<()> {
        let lost = std::mem::take(&mut self.lost);
        self.losses.add(Lost::LastGaps, lost.iter().filter(|lost| **lost > 0).count() as u64);
        for (_, file) in std::mem::take(&mut self.open) {
            self.done.push(file.finish()?);
        }
        self.last = 0;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Losses> {
        self.end_stream(0)?;
        let metadata = self.write_metadata()?;
        self.done.iter().chain([&metadata]).try_for_each(OutFile::check)?;
        Ok(self.losses)
    }
}

impl ChannelFileOut {
    fn new(path: OutPath) -> ChannelFileOut {
        ChannelFileOut { out: OutFile::with_buffer(path, BUFFER), block: None, lost: [0; 2] }
    }

    /// Begins a sub-buffer at a time, unless one is open.
    fn begin(&mut self, header: &SubBufferHeader, begin_cycles: u64) {
        let [events_lost, corrupt] = self.lost.map(Some);
        self.block.get_or_insert_with(|| {
            OpenSubBuffer::new(SubBufferHeader { begin_cycles, events_lost, corrupt, ..header.clone() })
        });
    }

    fn is_full(&self, bytes: usize) -> bool {
        self.block.as_ref().is_some_and(|block| block.bytes.len() >= bytes)
    }

    /// Appends an event to the sub-buffer that is open.
    fn event(&mut self, id: u16, cycles: u64, form: &EncodedMarker, values: &[Value]) {
        let Some(block) = &mut self.block else { return };
        let shape = block.header.shape();
        let mut payload = Vec::new();
        form.payload(shape, values, &mut payload);
        let event = EventOut { id, before: block.cycles, cycles, form: Some(form), payload: Some(&payload) };
        event.write(shape, &mut block.bytes);
        block.cycles = cycles;
        block.header.end_cycles = block.header.end_cycles.max(cycles);
    }

    fn flush(&mut self) -> Result<()> {
        let Some(OpenSubBuffer { mut header, bytes, .. }) = self.block.take() else { return Ok(()) };
        // Sizes have 32 bits; sub-buffers are ended far below.
        header.data_bytes = bytes.len() as u32;
        header.total_bytes = header.data_bytes.next_multiple_of(PAGE);
        self.out.write(&header.encode())?;
        self.out.write(&bytes[header.header_bytes as usize..])?;
        write_zeros(&mut self.out, (header.total_bytes - header.data_bytes) as usize)
    }

    fn finish(mut self) -> Result<OutFile> {
        self.flush()?;
        self.out.end()?;
        Ok(self.out)
    }
}

/// The fields of a marker, being put together.
struct Fields<'a> {
    schema: &'a Schema,
    losses: &'a mut Losses,
    format: String,
    fields: Vec<MarkerField>,
    sources: Vec<FieldSource>,
}

impl<'a> Fields<'a> {
    /// The fields of the payload of a class, then its contexts.
    fn of_class(schema: &'a Schema, event: EventClassId, losses: &'a mut Losses) -> Fields<'a> {
        let mut own = Fields { schema, losses, format: String::new(), fields: Vec::new(), sources: Vec::new() };
        for scope in [Scope::Payload, Scope::CommonContext, Scope::SpecificContext] {
            if let Some(root) = schema.scope_root(scope, event) {
                own.add(scope, &[], "", root);
            }
        }
        own
    }

    fn add(&mut self, scope: Scope, path: &[usize], name: &str, class: FieldClassId) {
        let schema = self.schema;
        if let SchemaKind::Struct(structure) = &schema.field_class(class).kind
            && !structure.is_tuple()
            && path.len() < MAX_DEPTH
        {
            for (at, member) in structure.members.iter().enumerate() {
                let name = if name.is_empty() { member.name.to_string() } else { format!("{name}.{}", member.name) };
                self.add(scope, &[path, &[at]].concat(), &name, member.class);
            }
            return;
        }
        if self.fields.len() >= MAX_FIELDS {
            self.losses.add(Lost::UndefinedFields, 1);
            return;
        }
        let integer =
            |len_bytes, is_signed, base| FieldKind::Integer { len_bytes, is_signed, base, is_network_order: false };
        let (kind, lost, is_made) = match &schema.field_class(class).kind {
            SchemaKind::Integer(integer_class) if integer_class.len_bits <= 64 => {
                let bits = if integer_class.len_bits == 0 { 64 } else { integer_class.len_bits };
                let bytes = (bits.next_power_of_two().max(8) / 8) as u8;
                let base = match integer_class.base {
                    base @ (DisplayBase::Hexadecimal | DisplayBase::Octal) if !integer_class.signed => base,
                    _ => DisplayBase::Decimal,
                };
                let lost = integer_class.mappings.is_some().then_some(Lost::Labels);
                (integer(bytes, integer_class.signed, base), lost, false)
            }
            SchemaKind::Integer(_) => (FieldKind::Text, Some(Lost::WideIntegers), true),
            SchemaKind::Boolean(_) => (integer(1, false, DisplayBase::Decimal), Some(Lost::Booleans), false),
            SchemaKind::BitArray(bits) if bits.len_bits <= 64 => {
                (integer(8, false, DisplayBase::Hexadecimal), Some(Lost::BitArrays), false)
            }
            SchemaKind::String(_) | SchemaKind::Rendered(_) => (FieldKind::Text, None, false),
            _ => (FieldKind::Text, Some(Lost::FieldsAsText), true),
        };
        lost.into_iter().for_each(|lost| self.losses.add(lost, 1));
        let shown: String = name.chars().map(|one| if is_name(one) { one } else { '_' }).collect();
        self.losses.add(Lost::NameCharacters, (shown != name).into());
        let shown = if shown.is_empty() { "_".to_string() } else { shown };
        if !self.format.is_empty() {
            self.format.push(' ');
        }
        self.format.push_str(&shown);
        self.format.push(' ');
        self.format.push_str(&conversion(kind));
        self.fields.push(MarkerField { name: shown, kind });
        self.sources.push(FieldSource { scope, path: path.to_vec(), class, is_made });
    }
}

/// Names of the events by which a trace of legacy LTTng describes the others: they are made anew.
fn definition_events(origin: &Origin) -> HashSet<String> {
    let mut names = core_names(origin);
    if origin.format == FORMAT.names[0] && origin.version.0 == 2 {
        for (_, marker, _) in core_markers(Dialect::WithChannel) {
            names.extend(["metadata", "control/metadata"].map(|channel| format!("{channel}.{marker}")));
        }
    }
    names
}

/// May a character stand in the name of a field?
fn is_name(one: char) -> bool {
    !matches!(one, ' ' | '%' | '#') && !one.is_control()
}

/// A field as a format has it: `#1u%u`, `%llx`, `%s`.
fn conversion(kind: FieldKind) -> String {
    let FieldKind::Integer { len_bytes, is_signed, base, .. } = kind else { return "%s".into() };
    let letter = match (is_signed, base) {
        (true, _) => 'd',
        (false, DisplayBase::Hexadecimal) => 'x',
        (false, DisplayBase::Octal) => 'o',
        (false, _) => 'u',
    };
    match len_bytes {
        8 => format!("%ll{letter}"),
        4 => format!("%{letter}"),
        _ => format!("#{len_bytes}{letter}%{letter}"),
    }
}

/// Channel and marker of a name: at its first `:` or `.`, else at its first `_`.
fn split(name: &str) -> (String, String) {
    let at = name.find([':', '.']).or_else(|| name.get(1..).and_then(|rest| rest.find('_')).map(|at| at + 1));
    let (channel, marker) = match at {
        Some(at) if at > 0 && at + 1 < name.len() => (&name[..at], &name[at + 1..]),
        _ => ("user", name),
    };
    let mut channel: String = as_file_name(channel).chars().take(60).collect();
    // Names with a meaning of their own, and hidden files.
    if channel == "metadata" || channel.starts_with("flight-") || channel.starts_with('.') {
        channel.insert(0, '_');
    }
    (channel, plain(marker))
}

/// A text without zeros, which end names.
fn plain(text: &str) -> String {
    text.chars().map(|one| if one == '\0' { '_' } else { one }).collect()
}

/// Appends a value as text: `[1, 2]`, `{a=1}`.
fn put_text(out: &mut Vec<u8>, value: &Value) {
    // Writing to a vector does not fail.
    let mut put = |text: std::fmt::Arguments<'_>| drop(out.write_fmt(text));
    match value {
        Value::Null => put(format_args!("null")),
        Value::Unsigned(number) => put(format_args!("{number}")),
        Value::Signed(number) => put(format_args!("{number}")),
        Value::Wide(wide) => put(format_args!("{}", wide.to_decimal())),
        Value::Boolean(value) => put(format_args!("{value}")),
        Value::Real(value) => put(format_args!("{value}")),
        Value::Text(text) => out.extend(text.iter().map(|&octet| if octet == 0 { b'_' } else { octet })),
        Value::Blob(octets) => octets.iter().for_each(|octet| drop(write!(out, "{octet:02x}"))),
        Value::List(values) => {
            out.push(b'[');
            for (at, value) in values.iter().enumerate() {
                out.extend_from_slice(if at > 0 { b", " } else { b"" });
                put_text(out, value);
            }
            out.push(b']');
        }
        Value::Struct(members) => {
            out.push(b'{');
            for (at, (name, value)) in members.iter().enumerate() {
                out.extend_from_slice(if at > 0 { b", " } else { b"" });
                out.extend(plain(name).bytes());
                out.push(b'=');
                put_text(out, value);
            }
            out.push(b'}');
        }
        Value::Option(_, _, value) => put_text(out, value),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::format_string::parse;
    use super::*;

    #[test]
    fn names_become_channel_and_marker() {
        for (name, channel, marker) in [
            ("fs.open", "fs", "open"),
            ("sched_switch", "sched", "switch"),
            ("a:b.c", "a", "b.c"),
            ("open", "user", "open"),
            ("_x", "user", "_x"),
            ("metadata.x", "_metadata", "x"),
            ("flight-a.x", "_flight-a", "x"),
            ("../x", "user", "../x"),
            ("a/b.x", "a_b", "x"),
            ("a.\0", "a", "_"),
            ("", "user", ""),
        ] {
            assert_eq!(split(name), (channel.to_string(), marker.to_string()), "{name}");
        }
    }

    #[test]
    fn conversions_are_read_as_what_they_are_written_for() {
        let bases = [
            (true, DisplayBase::Decimal),
            (false, DisplayBase::Decimal),
            (false, DisplayBase::Octal),
            (false, DisplayBase::Hexadecimal),
        ];
        for len_bytes in [1, 2, 4, 8] {
            for (is_signed, base) in bases {
                let kind = FieldKind::Integer { len_bytes, is_signed, base, is_network_order: false };
                let format = format!("a {} b %s", conversion(kind));
                let fields = parse(format.as_bytes(), &SIZES).expect("it is a format");
                let field = |name: &str, kind| MarkerField { name: name.into(), kind };
                assert_eq!(fields, [field("a", kind), field("b", FieldKind::Text)], "{format}");
            }
        }
    }

    #[test]
    fn values_have_a_text() {
        let inside = Value::Struct(vec![("x".into(), Value::Real(0.5)), ("y".into(), Value::Blob(vec![1, 255]))]);
        let value = Value::List(vec![Value::Null, Value::Signed(-1), Value::Text(b"a\0b".to_vec()), inside]);
        let mut text = Vec::new();
        put_text(&mut text, &Value::Option(0, None, Box::new(value)));
        assert_eq!(String::from_utf8_lossy(&text), "[null, -1, a_b, {x=0.5, y=01ff}]");
    }
}
