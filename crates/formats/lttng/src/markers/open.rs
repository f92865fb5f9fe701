//! From a folder to an opened trace: channels, markers, the clock, packets.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracemill_codec::chunk::Bytes;
use tracemill_model::error::{Error, ErrorKind, Result};
use tracemill_model::packet::Packet;
use tracemill_model::schema::{ByteOrder, ClockClass, ClockOrigin, Schema};

use super::blocks::{self, Block};
use super::events::EventWalk;
use super::folder::{self, ChannelFile, FileKind};
use super::header::{MIN_LEN, SubBufferHeader};
use super::metadata::{self, Dialect, MarkerDefinitions};
use super::reader::{FilePlan, MarkersReader, SourceFile, SubBufferPacket};
use super::schema::{ChannelClass, ChannelSchemaBuilder};
use crate::files;
use crate::messages::Messages;
use tracemill_format::{DataFile, FoundTrace, OpenContext, OpenTrace, Section, Storage, Stream};

/// Sub-buffers with more bytes of events than this are read in pieces of this size.
pub(crate) const PIECE_BYTES: usize = 1 << 20;
/// The option that counts time from the Unix epoch.
pub(crate) const WALL_CLOCK: &str = "wall-clock";
/// Frequencies that a clock may have, in Hz.
const POSSIBLE_HZ: std::ops::RangeInclusive<u64> = 1..=100_000_000_000;

/// Opens each folder as a trace.
pub(crate) fn open(context: &OpenContext<'_>, found: &[FoundTrace]) -> Vec<Result<OpenTrace>> {
    let has_wall_clock = context.settings.get(WALL_CLOCK).is_some();
    found.iter().map(|found| open_one(context.storage, found, has_wall_clock)).collect()
}

/// A channel of a CPU that can be read.
struct File {
    name: ChannelFile,
    bytes: Arc<dyn Bytes>,
    blocks: Vec<Block>,
}

fn open_one(storage: &dyn Storage, found: &FoundTrace, has_wall_clock: bool) -> Result<OpenTrace> {
    let mut messages = Messages::default();
    let mut channels = Vec::new();
    for name in folder::channel_files(storage, &found.path)? {
        let path = name.path.clone();
        match storage.open(&path).and_then(|bytes| read_file(name, bytes, &mut messages)) {
            Ok(file) => channels.extend(file),
            Err(error) => messages.errors.push(error.in_file(&path)),
        }
    }
    if channels.is_empty() {
        let first = messages.errors.into_iter().next();
        let error = first.unwrap_or_else(|| Error::malformed("no file of the trace holds a sub-buffer"));
        return Err(error.in_file(&found.path));
    }
    warn_of_differences(&channels, &mut messages);
    let metadata: Vec<&File> = channels.iter().filter(|file| file.name.is_metadata()).collect();
    let (definitions, dialect) = read_definitions(&metadata, &found.path, &mut messages);
    let Some((clock_file, clock_header)) = clock_header(&channels, &mut messages) else {
        return Err(Error::malformed("no file of the trace holds a sub-buffer").in_file(&found.path));
    };
    let mut schema = Schema::new("lttng-legacy");
    schema.version = (u32::from(super::header::MAJOR), u32::from(clock_header.minor));
    schema.byte_order = clock_header.order;
    let clock = schema.add_clock(clock(&clock_header, &clock_file, has_wall_clock, &mut messages));
    let mut sections = vec![trace_section(&clock_header), marker_section(&definitions)];
    sections.extend(files::info_sections(storage, &found.path, &mut messages.warnings));
    let mut builder = ChannelSchemaBuilder::new(schema, &definitions, dialect, Some(clock));
    let classes = add_channels(&mut builder, &channels)?;
    let place = |error: Error| match metadata.first() {
        Some(file) => error.in_file(&file.name.path),
        None => error.in_file(&found.path),
    };
    messages.append(&mut builder.messages, place);
    let schema = builder.schema;
    let mut reader = MarkersReader { parts: files::other_files(storage, &found.path), ..MarkersReader::default() };
    let mut streams = Vec::new();
    for (file, class) in channels.into_iter().zip(classes) {
        let (packets, pieces) = packets(&file, &class);
        reader.kept.push(SourceFile { name: file.name.clone(), bytes: file.bytes.clone() });
        let is_reported = file.name.is_metadata();
        reader.files.insert(
            file.name.relative.clone(),
            FilePlan { cpu: file.name.cpu, class: class.clone(), pieces, is_reported },
        );
        let File { name, bytes, .. } = file;
        let data = DataFile { path: name.path, relative: name.relative.clone(), bytes, is_indexed: false };
        streams.push(Stream {
            name: name.relative,
            class: class.stream,
            id: None,
            files: vec![data],
            packets: packets.into(),
        });
    }
    let mut trace = OpenTrace::from_folder(found, schema, Arc::new(reader));
    (trace.streams, trace.sections) = (streams, sections);
    (trace.faults, trace.warnings) = (messages.errors, messages.warnings);
    Ok(trace)
}

/// The sub-buffers of a file, `None` when it has none.
fn read_file(name: ChannelFile, bytes: Arc<dyn Bytes>, messages: &mut Messages) -> Result<Option<File>> {
    let content = bytes.bytes();
    if content.len() < MIN_LEN {
        let message = format!("{} bytes are too few for a sub-buffer; the file is skipped", content.len());
        messages.warnings.push(Error::new(ErrorKind::NotThisFormat, message).in_file(&name.path).at_offset(0));
        return Ok(None);
    }
    if let FileKind::OldMarkers { major, minor } = folder::start(content) {
        let message =
            format!("the file is of version {major}.{minor} with the header of before 2.0, which is not read");
        return Err(Error::unsupported(message).at_offset(57));
    }
    let mut walked = blocks::walk(&name.path, content);
    if walked.blocks.is_empty() {
        if folder::start(content) == FileKind::Markers || name.has_number {
            messages.errors.extend(walked.messages.errors.into_iter().take(1));
        } else {
            let message = "the magic number of a sub-buffer is not there; the file is skipped";
            messages.warnings.push(Error::new(ErrorKind::NotThisFormat, message).in_file(&name.path).at_offset(16));
        }
        return Ok(None);
    }
    messages.append(&mut walked.messages, |error| error);
    Ok(Some(File { name, bytes, blocks: walked.blocks }))
}

fn read_definitions(
    metadata: &[&File],
    folder: &std::path::Path,
    messages: &mut Messages,
) -> (MarkerDefinitions, Dialect) {
    let mut definitions = MarkerDefinitions::default();
    let Some(first) = metadata.first() else {
        let message = "the trace has no file `metadata_N`, which names the events and their fields";
        let help = "events are shown as `CHANNEL.event_ID` where they state their size";
        messages.errors.push(Error::malformed(message).in_file(folder).with_help(help));
        return (definitions, Dialect::WithChannel);
    };
    let dialect = metadata::dialect(first.bytes.bytes(), &first.blocks);
    for file in metadata {
        definitions.read(file.bytes.bytes(), &file.blocks, dialect);
        messages.append(&mut definitions.messages, |error| error.in_file(&file.name.path));
    }
    (definitions, dialect)
}

/// The header that gives the clock: that of the first sub-buffer of the metadata, of the lowest CPU.
fn clock_header(files: &[File], messages: &mut Messages) -> Option<(PathBuf, SubBufferHeader)> {
    let metadata = files.iter().filter(|file| file.name.is_metadata()).min_by_key(|file| file.name.cpu);
    let file = metadata.or(files.first())?;
    if metadata.is_none() {
        let message = "the clock is that of this file, for there is no metadata channel";
        messages.warnings.push(Error::inconsistent(message).in_file(&file.name.path).at_offset(0));
    }
    let header = file.blocks.first()?.header.clone();
    let other = files.iter().find(|file| file.blocks.first().is_some_and(|block| block.header.start != header.start));
    if let Some(other) = other {
        let message =
            format!("the file states another start or frequency than `{}`, whose clock is used", file.name.relative);
        let warning = Error::inconsistent(message).in_file(&other.name.path).at_offset(24);
        messages.warnings.push(warning.with_help("it may be a file of another trace; reported once for the trace"));
    }
    Some((file.name.path.clone(), header))
}

/// The clock: time is counted from the zero of the cycles, as the viewer of the time showed it, or from the Unix epoch
/// by the start time. Both add the time since the start to the time of the start, each in whole ns.
fn clock(header: &SubBufferHeader, file: &Path, has_wall_clock: bool, messages: &mut Messages) -> ClockClass {
    const NS: u128 = 1_000_000_000;
    let (frequency, seconds) = frequency(header, file, messages);
    let start_ns = match has_wall_clock {
        true => u128::from(header.start.seconds) * NS + u128::from(header.start.microseconds) * 1000,
        // Less than 2^126, and only a clock slower than 1 Hz leaves the seconds that can be held.
        false => u128::from(header.begin_cycles) * (NS * u128::from(seconds)) / u128::from(frequency.max(1)),
    };
    let offset_seconds = i64::try_from(start_ns / NS).unwrap_or(i64::MAX);
    if start_ns / NS > i64::MAX as u128 {
        let message =
            format!("a start {} s after the zero of time, which is held at {offset_seconds} s", start_ns / NS);
        let offset = if has_wall_clock { 24 } else { 0 };
        messages.warnings.push(Error::inconsistent(message).in_file(file).at_offset(offset));
    }
    ClockClass {
        frequency,
        seconds,
        offset_seconds,
        offset_ns: (start_ns % NS) as i64,
        offset_cycles: -i128::from(header.begin_cycles),
        origin: if has_wall_clock { ClockOrigin::Unix } else { ClockOrigin::Unknown },
        ..ClockClass::nanoseconds("tsc")
    }
}

/// Ticks, and in how many seconds they pass: `freq_scale` multiplies before 2.3 and divides from there on.
fn frequency(header: &SubBufferHeader, file: &Path, messages: &mut Messages) -> (u64, u32) {
    let scale = header.start.scale.max(1);
    let start = header.start.frequency;
    let (ticks, seconds) = match header.minor {
        0..3 => (start.saturating_mul(scale.into()), 1),
        _ if start.is_multiple_of(scale.into()) => (start / u64::from(scale), 1),
        _ => (start, scale),
    };
    let hz = ticks / u64::from(seconds);
    let mut warn = |message: String| {
        messages.warnings.push(Error::inconsistent(message).in_file(file).at_offset(40));
    };
    if start == 0 {
        warn("the clock has the frequency 0: events have cycles and no time".into());
    } else if !POSSIBLE_HZ.contains(&hz) {
        warn(format!("a clock of {hz} Hz (frequency {start}, scale {scale}) is improbable"));
    }
    (ticks, seconds)
}

/// Files of one trace are of one version, byte order and size of pointers; each is read by its own all the same.
fn warn_of_differences(files: &[File], messages: &mut Messages) {
    let shape = |file: &File| {
        let header = &file.blocks.first()?.header;
        Some((header.minor, header.order, header.arch_size))
    };
    let Some(first) = files.first() else { return };
    if let Some(other) = files.iter().find(|file| shape(file) != shape(first)) {
        let message = format!(
            "the file differs from `{}` in version, byte order or size of pointers; each is read by its own values",
            first.name.relative
        );
        messages.warnings.push(Error::inconsistent(message).in_file(&other.name.path).at_offset(16));
    }
}

/// The class of each file: one for each channel, as far as its files are written alike.
fn add_channels(builder: &mut ChannelSchemaBuilder, files: &[File]) -> Result<Vec<Arc<ChannelClass>>> {
    let mut known: HashMap<_, Arc<ChannelClass>> = HashMap::new();
    let mut classes = Vec::new();
    for file in files {
        let Some(first) = file.blocks.first() else { continue };
        let key = (file.name.prefix.as_str(), first.header.shape());
        let class = match known.get(&key) {
            Some(class) => class.clone(),
            None => {
                let number = known.len() as u64;
                let class = builder.add(number, &file.name.channel, file.name.is_metadata(), key.1);
                let class = Arc::new(class.ok_or_else(|| Error::unsupported("the trace has too many channels"))?);
                known.insert(key, class.clone());
                class
            }
        };
        classes.push(class);
    }
    Ok(classes)
}

/// The packets of a file: its sub-buffers, large ones in pieces.
fn packets(file: &File, class: &ChannelClass) -> (Vec<Packet>, Vec<SubBufferPacket>) {
    let (mut packets, mut pieces) = (Vec::new(), Vec::new());
    let (mut lost_before, mut corrupt_before) = (None, None);
    for block in &file.blocks {
        let header = &block.header;
        let data = block.data(file.bytes.bytes());
        let whole = SubBufferPacket {
            block_offset: block.offset,
            shape: header.shape(),
            from: header.header_bytes,
            to: data.len() as u32,
            cycles: header.begin_cycles,
            end_cycles: header.end_cycles,
        };
        let first = packets.len();
        let parts = if data.len() > PIECE_BYTES { pieces_of(&whole, data, class) } else { vec![whole] };
        let ends = header.end_cycles >= header.begin_cycles;
        for (at, piece) in parts.iter().enumerate() {
            let next = parts.get(at + 1);
            let base = u64::from(piece.base(at == 0));
            let end = next.map_or(block.here_bytes, |next| u64::from(next.base(false)));
            packets.push(Packet {
                index: packets.len() as u64,
                content_bits: (u64::from(piece.to).saturating_sub(base)) * 8,
                begin_cycles: Some(piece.cycles),
                end_cycles: match next {
                    Some(next) => Some(next.cycles),
                    None => ends.then_some(header.end_cycles),
                },
                discarded_snapshot: header.events_lost.map(u64::from),
                ..Packet::new(class.stream, block.offset + base, (end - base) * 8)
            });
        }
        pieces.extend(parts);
        if let Some(packet) = packets.get_mut(first) {
            packet.discarded_before = since(&mut lost_before, header.events_lost);
            packet.lost_packets_before = since(&mut corrupt_before, header.corrupt);
        }
    }
    (packets, pieces)
}

/// How far a counter of 32 bits went since the sub-buffer before; one that went back started again.
fn since(before: &mut Option<u32>, now: Option<u32>) -> u64 {
    let Some(now) = now else { return 0 };
    let step = now.wrapping_sub(before.replace(now).unwrap_or(0));
    u64::from(if step <= u32::MAX / 2 { step } else { now })
}

/// Divides a large sub-buffer into pieces between its events.
fn pieces_of(whole: &SubBufferPacket, data: &[u8], class: &ChannelClass) -> Vec<SubBufferPacket> {
    let mut pieces = Vec::new();
    let mut walk = EventWalk::new(whole.shape, data, &class.layouts, whole.from as usize, whole.cycles);
    let mut piece = whole.clone();
    while let Some(Ok(found)) = walk.next() {
        if found.end - piece.from as usize >= PIECE_BYTES && found.end < data.len() {
            piece.to = found.end as u32;
            let next = SubBufferPacket { from: piece.to, to: whole.to, cycles: walk.cycles, ..whole.clone() };
            pieces.push(std::mem::replace(&mut piece, next));
        }
    }
    pieces.push(piece);
    pieces
}

/// The start of the trace and the machine, as the headers state them.
fn trace_section(header: &SubBufferHeader) -> Section {
    let start = &header.start;
    let order = if header.order == ByteOrder::Little { "little endian" } else { "big endian" };
    let cells = [
        ("byte_order", Section::text(order)),
        ("pointer_size", Section::number(header.arch_size)),
        ("alignment", Section::number(header.alignment)),
        ("start_time_sec", Section::number(start.seconds)),
        ("start_time_usec", Section::number(start.microseconds)),
        ("start_cycles", Section::number(header.begin_cycles)),
        ("start_freq", Section::number(start.frequency)),
        ("freq_scale", Section::number(start.scale)),
    ];
    let (columns, row) = cells.into_iter().unzip();
    Section { title: "trace start".into(), columns, rows: vec![row] }
}

/// The markers and their formats.
fn marker_section(definitions: &MarkerDefinitions) -> Section {
    let mut rows = Vec::new();
    for (name, channel) in &definitions.channels {
        for (id, marker) in &channel.ids {
            let format = channel.formats.get(&marker.name).map(|format| String::from_utf8_lossy(format).into_owned());
            rows.push(vec![
                Section::text(name).filter(|_| !name.is_empty()),
                Section::number(*id),
                Section::text(&marker.name),
                format.as_deref().and_then(Section::text),
                Section::number(marker.sizes.alignment),
            ]);
        }
    }
    Section { title: "markers".into(), columns: vec!["channel", "id", "name", "format", "alignment"], rows }
}
