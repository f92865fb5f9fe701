//! Converting to CTF: every field is rebuilt, in a layout of ours.

use std::collections::HashSet;
use std::path::Path;

use tracemill_codec::chunk::{EventRef, PacketData};
use tracemill_format::OutPath;
use tracemill_format::lost::Losses;
use tracemill_format::target::{Needs, Source, StreamTarget, TraceWriter, WriteOptions};
use tracemill_model::error::Result;
use tracemill_model::packet::Gap;
use tracemill_model::schema::Schema;

use super::mapping::{Headers, Mapping, has_own_ids};
use super::marks::Marks;
use super::packets::StreamWriter;
use super::{Dialect, comment, merge, metadata, names_of, origin, tsdl, write_metadata};

/// Writes one trace of a source, or of several that become one.
pub(super) struct CtfConverter {
    folder: OutPath,
    parts: Vec<OutputPart>,
    streams: Vec<ConvertedStream>,
    losses: Losses,
}

/// The part of the output that a source becomes.
struct OutputPart {
    /// Its name among the others.
    name: String,
    mapping: Mapping,
    comment: String,
}

struct ConvertedStream {
    /// The part that it belongs to.
    part: usize,
    out: StreamWriter,
    /// Losses of it alone.
    losses: Losses,
}

/// A stream that is written by itself.
struct Alone<'a> {
    out: &'a mut StreamWriter,
    /// The mapping of its part, and a copy that has the tables of the classes that were met.
    of_part: &'a Mapping,
    own: Option<Box<Mapping>>,
    losses: &'a mut Losses,
}

impl StreamTarget for Alone<'_> {
    #[inline]
    fn event(&mut self, event: EventRef<'_>) -> Result<()> {
        self.out.event(self.own.get_or_insert_with(|| Box::new(self.of_part.clone())), event)
    }

    fn packet(&mut self, _packet: &PacketData) -> Result<()> {
        Ok(())
    }

    fn empty_packet(&mut self, packet: &PacketData) -> Result<()> {
        let mapping = self.own.as_deref().unwrap_or(self.of_part);
        self.out.empty_packet(mapping, packet)
    }

    fn gap(&mut self, gap: &Gap) -> Result<()> {
        let mapping = self.own.as_deref().unwrap_or(self.of_part);
        self.out.gap(mapping, gap, self.losses)
    }

    fn end(&mut self) -> Result<()> {
        let mapping = self.own.as_deref().unwrap_or(self.of_part);
        self.out.end(mapping)?;
        // There are as many copies as threads.
        self.own = None;
        Ok(())
    }
}

/// Copies of event classes that streams may make to be written by themselves: many streams of many classes have not enough
/// events for them.
const MOST_COPIES: usize = 1 << 17;

impl CtfConverter {
    /// A trace of a source.
    pub(super) fn new(
        dialect: Dialect,
        folder: OutPath,
        source: &Source,
        files: Vec<String>,
        options: &WriteOptions,
    ) -> Result<CtfConverter> {
        let headers = Headers { has_stream_ids: has_own_ids(source), are_shared: false };
        let mut mapping = mapping(dialect, source, headers, options)?;
        // Where a clock drifts the times are no numbers of cycles that the origin had.
        mapping.to.origin = origin(source, &files, false).filter(|_| source.drift.is_none());
        let mut converter = CtfConverter { folder, parts: Vec::new(), streams: Vec::new(), losses: Losses::default() };
        converter.add(source, String::new(), mapping, files, options);
        Ok(converter)
    }

    /// One trace of all sources.
    pub(super) fn merged(
        dialect: Dialect,
        path: &OutPath,
        sources: &[Source],
        short: &[&str],
        options: &WriteOptions,
    ) -> Result<CtfConverter> {
        let folder = path.clone();
        let mut converter = CtfConverter { folder, parts: Vec::new(), streams: Vec::new(), losses: Losses::default() };
        let parts = merge::parts_of_one(sources, &mut converter.losses);
        let headers = Headers { has_stream_ids: merge::have_own_ids(&parts), are_shared: true };
        let of_trace = |(source, short): (&Source, &&str)| {
            let names = source.streams.iter().map(|stream| format!("{short}/{}", stream.name));
            names.collect::<Vec<_>>()
        };
        let files: Vec<String> = parts.iter().zip(short).flat_map(of_trace).collect();
        let mut files = names_of(&files.iter().map(String::as_str).collect::<Vec<_>>()).into_iter();
        let mut taken = HashSet::new();
        for (source, name) in parts.iter().zip(names_of(short)) {
            let mut mapping = mapping(dialect, source, headers, options)?;
            merge::check_header(&mapping, source)?;
            merge::number(&mut mapping, &mut taken);
            let own = files.by_ref().take(source.streams.len()).collect();
            converter.add(source, name, mapping, own, options);
        }
        Ok(converter)
    }

    fn add(&mut self, source: &Source, name: String, mapping: Mapping, files: Vec<String>, options: &WriteOptions) {
        for (at, (stream, file)) in source.streams.iter().zip(files).enumerate() {
            let id = stream.id.unwrap_or(at as u64);
            let out = StreamWriter::new(self.folder.join(file), stream.class, id, mapping.order, options);
            let out = if options.index { out.with_index() } else { out };
            self.streams.push(ConvertedStream { part: self.parts.len(), out, losses: Losses::default() });
        }
        self.losses.extend(&mapping.losses);
        self.parts.push(OutputPart { name, mapping, comment: comment(&source.schema) });
    }

    /// The metadata of the trace, or of the one that all became.
    fn metadata(&self) -> Vec<u8> {
        match &self.parts[..] {
            [] => Vec::new(),
            [OutputPart { mapping, comment, .. }] => text_of(mapping.dialect, &mapping.to, &mapping.marks, comment),
            [first, ..] => {
                let mut comments: Vec<&str> = Vec::new();
                for part in &self.parts {
                    if !comments.contains(&part.comment.as_str()) {
                        comments.push(&part.comment);
                    }
                }
                let parts: Vec<_> = self.parts.iter().map(|part| (&part.mapping, part.name.as_str())).collect();
                let (schema, marks) = merge::schema(&parts);
                text_of(first.mapping.dialect, &schema, &marks, &comments.join("; "))
            }
        }
    }
}

fn mapping(dialect: Dialect, source: &Source, headers: Headers, options: &WriteOptions) -> Result<Mapping> {
    let order = options.byte_order.unwrap_or_default();
    let mapping = Mapping::new(dialect, order, source, headers);
    mapping.map_err(|error| error.in_file(Path::new(&source.name)))
}

/// The metadata in a dialect.
pub(super) fn text_of(dialect: Dialect, schema: &Schema, marks: &Marks, comment: &str) -> Vec<u8> {
    match dialect {
        Dialect::Ctf2 => metadata::write(schema, marks, comment),
        Dialect::Ctf18 => tsdl::write(schema, comment),
    }
}

impl TraceWriter for CtfConverter {
    fn needs(&self) -> Needs {
        Needs { joined_traces: true, ..Needs::default() }
    }

    fn losses(&self) -> Losses {
        self.losses.clone()
    }

    #[inline]
    fn event(&mut self, stream: usize, event: EventRef<'_>) -> Result<()> {
        let ConvertedStream { part, out, .. } = &mut self.streams[stream];
        out.event(&mut self.parts[*part].mapping, event)
    }

    fn empty_packet(&mut self, stream: usize, packet: &PacketData) -> Result<()> {
        let ConvertedStream { part, out, .. } = &mut self.streams[stream];
        out.empty_packet(&self.parts[*part].mapping, packet)
    }

    fn gap(&mut self, stream: usize, gap: &Gap) -> Result<()> {
        let ConvertedStream { part, out, losses } = &mut self.streams[stream];
        out.gap(&self.parts[*part].mapping, gap, losses)
    }

    fn end_stream(&mut self, stream: usize) -> Result<()> {
        let ConvertedStream { part, out, .. } = &mut self.streams[stream];
        out.end(&self.parts[*part].mapping)
    }

    fn streams(&mut self) -> Option<Vec<Box<dyn StreamTarget + Send + '_>>> {
        let mut events = self.parts.iter().flat_map(|part| &part.mapping.events);
        // Classes that stand for many ids get classes of their own in the order in which events come.
        if events.any(|of| of.is_open) {
            return None;
        }
        let parts = &self.parts;
        let copies: usize = self.streams.iter().map(|stream| parts[stream.part].mapping.events.len()).sum();
        if copies > MOST_COPIES {
            return None;
        }
        let mut alone: Vec<Box<dyn StreamTarget + Send + '_>> = Vec::new();
        for ConvertedStream { part, out, losses } in &mut self.streams {
            alone.push(Box::new(Alone { out, of_part: &parts[*part].mapping, own: None, losses }));
        }
        Some(alone)
    }

    fn finish(mut self: Box<Self>) -> Result<Losses> {
        for at in 0..self.streams.len() {
            self.end_stream(at)?;
            self.streams[at].out.write_index()?;
            self.losses.extend(&self.streams[at].losses);
            self.losses.extend(&self.streams[at].out.losses());
        }
        write_metadata(&self.folder, &self.metadata())?;
        self.streams.iter().try_for_each(|stream| stream.out.check())?;
        Ok(self.losses)
    }
}
