//! Writing a trace with markers as it was: its sub-buffers, and events from their values. `convert` makes one of any other.

mod convert;
mod encode;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracemill_codec::chunk::{EventRef, PacketData};
use tracemill_codec::value::Value;
use tracemill_model::error::Result;
use tracemill_model::packet::Gap;
use tracemill_model::schema::ByteOrder;

pub(crate) use self::convert::MarkersConverter;
use self::encode::{EncodedMarker, EventOut};
use super::blocks;
use super::folder::ChannelFile;
use super::format_string;
use super::header::SubBufferHeader;
use super::metadata::{self, Dialect, Marker, MarkerDefinitions, SET_FORMAT, SET_ID, core_markers};
use super::parts::{BLOCKS, DEFINITIONS};
use crate::padding::write_zeros;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::{Source, TraceWriter, WriteOptions};
use tracemill_format::writer::{enters, payload_members};
use tracemill_format::{OutFile, OutPath, is_below};

/// A sub-buffer is ended before it has more bytes than this.
const MAX_BLOCK: usize = 64 << 20;
/// Size of pages: sub-buffers that must grow are a multiple of it.
const PAGE: u32 = 4096;
/// Bytes of sub-buffers that wait for each other.
const BUFFER: usize = 8 << 10;

/// A trace that is written as it was.
pub(crate) struct MarkersRewriter {
    dialect: Dialect,
    definitions: MarkerDefinitions,
    /// The files beside the channels.
    files: Vec<(OutPath, Arc<[u8]>)>,
    streams: Vec<ChannelStream>,
    /// A file of metadata, for what must be said when none of them is among the streams.
    control: Option<ChannelStream>,
    written_ids: BTreeSet<(String, u16)>,
    written_formats: BTreeSet<(String, String)>,
    /// Properties of the trace that cannot be kept.
    losses: Losses,
}

struct ChannelStream {
    out: OutFile,
    channel: String,
    is_metadata: bool,
    /// The headers of all its sub-buffers.
    heads: Vec<SubBufferHeader>,
    next: usize,
    packet: Option<Arc<PacketData>>,
    open: Option<OpenSubBuffer>,
    /// Markers that its events have.
    used: BTreeSet<u16>,
    /// The markers of the channel that can be decoded, by id.
    forms: HashMap<u16, EncodedMarker>,
}

/// A sub-buffer that is filled.
struct OpenSubBuffer {
    header: SubBufferHeader,
    bytes: Vec<u8>,
    /// The clock after its last event.
    cycles: u64,
}

impl MarkersRewriter {
    /// `None` when the parts of the source do not make a trace.
    pub(crate) fn new(folder: &OutPath, source: &Source, options: &WriteOptions) -> Option<MarkersRewriter> {
        let parts = &source.origin.parts;
        let mut definitions = MarkerDefinitions::default();
        let (mut dialect, mut files) = (None, Vec::new());
        for part in parts.iter().filter(|part| is_below(&part.name)) {
            if let Some(name) = part.name.strip_prefix(DEFINITIONS) {
                let walked = blocks::walk(Path::new(name), &part.bytes);
                let dialect = *dialect.get_or_insert_with(|| metadata::dialect(&part.bytes, &walked.blocks));
                definitions.read(&part.bytes, &walked.blocks, dialect);
            } else if !part.name.starts_with(BLOCKS) {
                files.push((folder.join(&part.name), part.bytes.clone()));
            }
        }
        let dialect = dialect.unwrap_or(Dialect::WithChannel);
        let stream = |name: &str| {
            let heads = heads(source.origin.part(&format!("{BLOCKS}{name}"))?, options.byte_order);
            (is_below(name) && !heads.is_empty())
                .then(|| ChannelStream::new(folder, name, heads, dialect, &definitions))
        };
        let streams: Vec<ChannelStream> =
            source.streams.iter().map(|of| stream(&of.origin_name)).collect::<Option<_>>()?;
        let control = match streams.iter().any(|stream| stream.is_metadata) {
            true => None,
            false => parts.iter().find_map(|part| stream(part.name.strip_prefix(DEFINITIONS)?)),
        };
        let mut losses = Losses::default();
        let is_corrected = source.moved_ns() != 0 || source.drift.is_some();
        losses.add(Lost::ClockCorrections, is_corrected.into());
        Some(MarkersRewriter {
            dialect,
            definitions,
            files,
            streams,
            control,
            written_ids: BTreeSet::new(),
            written_formats: BTreeSet::new(),
            losses,
        })
    }

    /// Remembers the definition that an event of the metadata holds.
    fn remember_definition(&mut self, id: u16, values: &[Value]) {
        let mut values = values.iter();
        let mut text = || Some(String::from_utf8_lossy(values.next()?.bytes()?).into_owned());
        let channel = if self.dialect == Dialect::WithChannel { text() } else { Some(String::new()) };
        let (Some(channel), Some(name)) = (channel, text()) else { return };
        match (id, values.next().and_then(Value::integer)) {
            (SET_ID, Some(marker)) => drop(self.written_ids.insert((channel, marker as u16))),
            (SET_FORMAT, _) => drop(self.written_formats.insert((channel, name))),
            _ => {}
        }
    }

    /// Writes the definitions of used markers that were left out: without them their events mean nothing.
    fn write_missing(&mut self) -> Result<()> {
        let channels = &self.definitions.channels;
        let mut used = BTreeSet::new();
        for of in self.streams.iter().filter(|of| !of.is_metadata) {
            // Before 2.3 ids belong to the whole trace.
            let channel = if channels.contains_key(&of.channel) { of.channel.as_str() } else { "" };
            used.extend(of.used.iter().map(|&id| (channel.to_string(), id)));
        }
        let mut missing = Vec::new();
        for (channel, id) in &used {
            let Some(known) = channels.get(channel) else { continue };
            let Some(marker) = known.ids.get(id) else { continue };
            let mut names = vec![Value::Text(marker.name.clone().into_bytes())];
            if self.dialect == Dialect::WithChannel {
                names.insert(0, Value::Text(channel.clone().into_bytes()));
            }
            if !self.written_ids.contains(&(channel.clone(), *id)) {
                missing.push((SET_ID, id_values(names.clone(), *id, marker)));
            }
            if let Some(format) = known.formats.get(&marker.name)
                && self.written_formats.insert((channel.clone(), marker.name.clone()))
            {
                names.push(Value::Text(format.clone()));
                missing.push((SET_FORMAT, names));
            }
        }
        let Some(of) = self.streams.iter_mut().find(|of| of.is_metadata).or(self.control.as_mut()) else {
            return Ok(());
        };
        if missing.is_empty() {
            return Ok(());
        }
        of.seek(None)?;
        let cycles = of.open.as_ref().map_or(0, |open| open.cycles);
        missing.iter().try_for_each(|(id, values)| of.write(*id, cycles, Some(values)))
    }
}

impl TraceWriter for MarkersRewriter {
    fn losses(&self) -> Losses {
        self.losses.clone()
    }

    fn event(&mut self, stream: usize, event: EventRef<'_>) -> Result<()> {
        let Some(of) = self.streams.get_mut(stream) else { return Ok(()) };
        if enters(&mut of.packet, event) {
            of.seek(event.chunk.packet.packet.begin_cycles)?;
        }
        let Ok(id) = u16::try_from(event.id()) else {
            self.losses.add(Lost::LongEventIds, 1);
            return Ok(());
        };
        let values = payload_members(event)?;
        if of.is_metadata {
            self.remember_definition(id, values.as_deref().unwrap_or_default());
        }
        let of = &mut self.streams[stream];
        of.used.insert(id);
        of.write(id, event.cycles(), values.as_deref())
    }

    // Packets say themselves what was lost before them.
    fn gap(&mut self, _stream: usize, _gap: &Gap) -> Result<()> {
        Ok(())
    }

    fn end_stream(&mut self, stream: usize) -> Result<()> {
        match self.streams.get_mut(stream) {
            // That of the metadata may have to say more at the end.
            Some(of) if !of.is_metadata => of.finish(),
            _ => Ok(()),
        }
    }

    fn finish(mut self: Box<Self>) -> Result<Losses> {
        for stream in 0..self.streams.len() {
            self.end_stream(stream)?;
        }
        self.write_missing()?;
        self.streams.iter_mut().chain(&mut self.control).try_for_each(ChannelStream::finish)?;
        for (path, bytes) in &self.files {
            let mut file = OutFile::new(path.clone());
            file.write(bytes)?;
            file.end()?;
        }
        self.streams.iter().chain(&self.control).try_for_each(|of| of.out.check())?;
        Ok(self.losses)
    }
}

impl ChannelStream {
    fn new(
        folder: &OutPath,
        name: &str,
        heads: Vec<SubBufferHeader>,
        dialect: Dialect,
        definitions: &MarkerDefinitions,
    ) -> ChannelStream {
        let file = ChannelFile::new(PathBuf::new(), name.to_string());
        let mut forms = HashMap::new();
        // The files of a channel that are written otherwise are of another class, and so is this.
        let shape = heads.first().map(SubBufferHeader::shape);
        if let (true, Some(shape)) = (file.is_metadata(), shape) {
            for (id, _, fields) in core_markers(dialect) {
                forms.insert(id, EncodedMarker::new(fields, shape.alignment, shape));
            }
        }
        let channel = definitions.channel(&file.channel);
        for (&id, marker) in channel.iter().flat_map(|channel| &channel.ids) {
            let format = channel.and_then(|channel| channel.formats.get(&marker.name));
            let fields = format.filter(|_| marker.sizes.are_possible());
            let fields = fields.and_then(|format| format_string::parse(format, &marker.sizes).ok());
            if let (Some(fields), Some(shape)) = (fields, shape) {
                forms.entry(id).or_insert_with(|| EncodedMarker::new(fields, marker.sizes.alignment, shape));
            }
        }
        let is_metadata = file.is_metadata();
        let out = OutFile::with_buffer(folder.join(name), BUFFER);
        let (channel, used) = (file.channel, BTreeSet::new());
        ChannelStream { out, channel, is_metadata, heads, next: 0, packet: None, open: None, used, forms }
    }

    /// Begins the sub-buffer that begins at this time; where none does, the one that is open goes on.
    fn seek(&mut self, begin: Option<u64>) -> Result<()> {
        let later = self.heads.iter().enumerate().skip(self.next);
        let found = later.clone().find(|(_, head)| begin == Some(head.begin_cycles)).map(|(at, _)| at);
        let at = match found {
            Some(at) => at,
            None if self.open.is_some() => return Ok(()),
            None => self.next.min(self.heads.len().saturating_sub(1)),
        };
        self.empty_blocks(at)?;
        if let Some(head) = self.heads.get(at) {
            self.open = Some(OpenSubBuffer::new(head.clone()));
        }
        self.next = at + 1;
        Ok(())
    }

    /// Writes what is open and the sub-buffers up to one that never had events. Those that had some and have none now are
    /// left out.
    fn empty_blocks(&mut self, to: usize) -> Result<()> {
        self.flush()?;
        for at in self.next..to.min(self.heads.len()) {
            let head = &self.heads[at];
            if head.data_bytes == head.header_bytes {
                self.open = Some(OpenSubBuffer::new(head.clone()));
                self.flush()?;
            }
        }
        self.next = self.next.max(to);
        Ok(())
    }

    /// Writes an event into the sub-buffer that was begun.
    fn write(&mut self, id: u16, cycles: u64, values: Option<&[Value]>) -> Result<()> {
        if let Some(open) = self.open.as_ref().filter(|open| open.bytes.len() > MAX_BLOCK) {
            let header = SubBufferHeader { begin_cycles: open.cycles, total_bytes: PAGE, ..open.header.clone() };
            self.flush()?;
            self.open = Some(OpenSubBuffer::new(header));
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        let shape = open.header.shape();
        let form = self.forms.get(&id);
        let mut payload = Vec::new();
        // An event without values that should have some is one that could not be decoded.
        let is_whole = form.is_some_and(|form| form.fields.is_empty() || values.is_some());
        if let Some(form) = form.filter(|_| is_whole) {
            form.payload(shape, values.unwrap_or_default(), &mut payload);
        }
        let event = EventOut { id, before: open.cycles, cycles, form, payload: is_whole.then_some(&payload) };
        event.write(shape, &mut open.bytes);
        open.cycles = cycles;
        Ok(())
    }

    /// Writes the sub-buffer that is open.
    fn flush(&mut self) -> Result<()> {
        let Some(OpenSubBuffer { mut header, bytes, .. }) = self.open.take() else { return Ok(()) };
        // Sizes have 32 bits; sub-buffers are ended far below.
        header.data_bytes = bytes.len() as u32;
        if header.total_bytes < header.data_bytes {
            header.total_bytes = header.data_bytes.next_multiple_of(PAGE);
        }
        self.out.write(&header.encode())?;
        self.out.write(&bytes[header.header_bytes as usize..])?;
        write_zeros(&mut self.out, (header.total_bytes - header.data_bytes) as usize)
    }

    fn finish(&mut self) -> Result<()> {
        if self.next < self.heads.len() || self.open.is_some() {
            self.empty_blocks(self.heads.len())?;
        }
        self.out.end()
    }
}

impl OpenSubBuffer {
    fn new(header: SubBufferHeader) -> OpenSubBuffer {
        OpenSubBuffer { bytes: vec![0; header.header_bytes as usize], cycles: header.begin_cycles, header }
    }
}

/// The values of the event that gives a marker its id.
fn id_values(mut names: Vec<Value>, id: u16, marker: &Marker) -> Vec<Value> {
    let sizes = &marker.sizes;
    names.push(Value::Unsigned(id.into()));
    let bytes = [sizes.int, sizes.long, sizes.pointer, sizes.size_t, sizes.alignment];
    names.extend(bytes.map(|byte| Value::Unsigned(byte.into())));
    names
}

/// The headers of a part, in the byte order that is wanted.
fn heads(mut bytes: &[u8], order: Option<ByteOrder>) -> Vec<SubBufferHeader> {
    let mut heads = Vec::new();
    while let Ok(mut header) = SubBufferHeader::parse(bytes) {
        bytes = bytes.get(header.header_bytes as usize..).unwrap_or_default();
        header.order = order.unwrap_or(header.order);
        heads.push(header);
    }
    heads
}
