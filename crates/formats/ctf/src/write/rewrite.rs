//! Rewriting a trace of CTF: packets keep their bytes.

use tracemill_codec::chunk::{EventRef, PacketData};
use tracemill_format::OutPath;
use tracemill_format::lost::Losses;
use tracemill_format::target::{Needs, Source, StreamTarget, TraceWriter, WriteOptions};
use tracemill_model::error::Result;
use tracemill_model::packet::Gap;
use tracemill_model::schema::StreamClassId;

use super::same::{self, SameStream};
use super::{Dialect, origin, translate, write_metadata};
use crate::packets::METADATA_PART;

/// Writes a trace whose packets stay as they are.
pub(super) struct CtfRewriter {
    folder: OutPath,
    metadata: Vec<u8>,
    streams: Vec<SameStream>,
}

impl CtfRewriter {
    pub(super) fn new(folder: OutPath, source: &Source, files: Vec<String>, metadata: Vec<u8>) -> CtfRewriter {
        let streams = files.into_iter().zip(&source.streams).map(|(file, of)| {
            let has_file_each = of.is_joined && !same::can_be_joined(&source.schema, of.class);
            SameStream::new(folder.join(file), &source.schema, has_file_each)
        });
        CtfRewriter { streams: streams.collect(), folder, metadata }
    }
}

impl TraceWriter for CtfRewriter {
    fn needs(&self) -> Needs {
        Needs { joined_traces: true, whole_packets: true, ..Needs::default() }
    }

    #[inline]
    fn event(&mut self, stream: usize, event: EventRef<'_>) -> Result<()> {
        self.streams[stream].event(event)
    }

    fn packet(&mut self, stream: usize, packet: &PacketData) -> Result<()> {
        self.streams[stream].packet(packet)
    }

    fn empty_packet(&mut self, stream: usize, packet: &PacketData) -> Result<()> {
        self.streams[stream].packet(packet)
    }

    fn gap(&mut self, stream: usize, gap: &Gap) -> Result<()> {
        self.streams[stream].gap(gap)
    }

    fn end_stream(&mut self, stream: usize) -> Result<()> {
        self.streams[stream].end()
    }

    fn streams(&mut self) -> Option<Vec<Box<dyn StreamTarget + Send + '_>>> {
        Some(
            self.streams
                .iter_mut()
                .map(|stream| Box::new(Alone(stream)) as Box<dyn StreamTarget + Send + '_>)
                .collect(),
        )
    }

    fn finish(mut self: Box<Self>) -> Result<Losses> {
        let mut losses = Losses::default();
        for stream in &mut self.streams {
            stream.end()?;
            losses.extend(&stream.losses());
        }
        write_metadata(&self.folder, &self.metadata)?;
        self.streams.iter().try_for_each(SameStream::check)?;
        Ok(losses)
    }
}

/// A stream that is written by itself.
struct Alone<'a>(&'a mut SameStream);

impl StreamTarget for Alone<'_> {
    #[inline]
    fn event(&mut self, event: EventRef<'_>) -> Result<()> {
        self.0.event(event)
    }

    fn packet(&mut self, packet: &PacketData) -> Result<()> {
        self.0.packet(packet)
    }

    fn empty_packet(&mut self, packet: &PacketData) -> Result<()> {
        self.0.packet(packet)
    }

    fn gap(&mut self, gap: &Gap) -> Result<()> {
        self.0.gap(gap)
    }

    fn end(&mut self) -> Result<()> {
        self.0.end()
    }
}

/// The metadata with which the packets of a source can be kept as they are; `None` when they cannot.
pub(super) fn metadata(dialect: Dialect, source: &Source, names: &[String], options: &WriteOptions) -> Option<Vec<u8>> {
    let is_ctf = [Dialect::Ctf18, Dialect::Ctf2].iter().any(|dialect| dialect.format() == source.schema.format);
    let has_form = options.packet_bytes.is_some() || options.byte_order.is_some() || options.index;
    // Packets hold cycles, and a drift moves each of them.
    let has_drift = source.drift.is_some();
    // Where fields were hidden before, nothing says what the trace was: its packets are not those of any file.
    let is_redacted = source.origin.format.is_empty();
    if !is_ctf || is_redacted || has_form || has_drift || options.is_cut && !can_be_cut(source) {
        return None;
    }
    let of = &source.origin;
    let has_packets_of_origin = of.format == source.schema.format || of.has_same_packets;
    let is_moved = source.correction_ns != 0;
    let is_moved_since = source.moved_ns() != 0;
    let own = || source.parts.iter().find(|part| part.name == METADATA_PART).map(|part| part.bytes.to_vec());
    match dialect {
        _ if source.schema.format == dialect.format() && !is_moved => own(),
        _ if of.format == dialect.format() && has_packets_of_origin && !is_moved_since => {
            of.part(METADATA_PART).map(<[u8]>::to_vec)
        }
        Dialect::Ctf18 => None,
        Dialect::Ctf2 => translate::metadata_of(source, origin(source, names, has_packets_of_origin)),
    }
}

/// Can the packets of all streams be put together of some of their events?
pub(super) fn can_be_cut(source: &Source) -> bool {
    let mut classes: Vec<StreamClassId> = source.streams.iter().map(|stream| stream.class).collect();
    classes.dedup();
    classes.iter().all(|class| same::can_be_cut(&source.schema, *class))
}
