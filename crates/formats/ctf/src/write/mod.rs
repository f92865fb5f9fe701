//! Writing CTF: any schema, any events, in either dialect.
//!
//! Packets that are CTF already keep their bytes (`same`, `translate`); those of other traces are made anew (`mapping`,
//! `fields`, `packets`).
//!
//! A trace becomes a folder; several become one folder each inside the output, or one trace (`merge`). A stream becomes a file; its packets are
//! built in memory and written when they end. The metadata come last: without them a folder is no trace, and by then
//! all event classes are known.

pub mod build;
mod copy;
mod encodes;
mod fields;
mod json;
mod mapping;
mod merge;
mod metadata;
mod packets;
mod same;
mod shift;
mod translate;
mod tsdl;

pub(crate) use self::copy::copy as copy_trace;
pub(crate) use self::tsdl::identifier;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracemill_codec::chunk::{EventRef, PacketData};
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::Gap;
use tracemill_model::schema::{Origin, Schema, StreamClassId};

use self::fields::Marks;
use self::mapping::{Headers, Mapping, has_own_ids};
use self::packets::StreamWriter;
use self::same::SameStream;
use crate::packets::METADATA_PART;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::out_file::make_folder;
use tracemill_format::target::{Source, Target, TraceWriter, WriteOptions};

/// CTF 2.
pub static CTF2: Target = Target::folder(&["ctf2"], "Common Trace Format 2", create_ctf2)
    .cannot_hold(&[Lost::WideFloats])
    .copied_by(copy::copy_ctf2);

/// CTF 1.8.
pub static CTF18: Target = Target::folder(&["ctf1.8"], "Common Trace Format 1.8", create_ctf18)
    .cannot_hold(&[
        Lost::UntimedClasses,
        Lost::Optionals,
        Lost::VariantTags,
        Lost::VariableIntegers,
        Lost::Blobs,
        Lost::BitFlags,
        Lost::Booleans,
        Lost::Encodings,
        Lost::WideFloats,
        Lost::Names,
        Lost::TextForm,
    ])
    .copied_by(copy::copy_ctf18);

/// A version of the metadata, and what fields there are in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dialect {
    /// CTF 1.8.
    Ctf18,
    /// CTF 2.
    Ctf2,
}

impl Dialect {
    fn format(self) -> &'static str {
        match self {
            Dialect::Ctf18 => "ctf1.8",
            Dialect::Ctf2 => "ctf2",
        }
    }

    fn version(self) -> (u32, u32) {
        match self {
            Dialect::Ctf18 => (1, 8),
            Dialect::Ctf2 => (2, 0),
        }
    }
}

fn create_ctf2(path: &Path, sources: &[Source], options: &WriteOptions) -> Result<Box<dyn TraceWriter>> {
    Ok(Box::new(Writer::new(Dialect::Ctf2, path, sources, options)?))
}

fn create_ctf18(path: &Path, sources: &[Source], options: &WriteOptions) -> Result<Box<dyn TraceWriter>> {
    Ok(Box::new(Writer::new(Dialect::Ctf18, path, sources, options)?))
}

/// Writes traces.
struct Writer {
    traces: Vec<TraceOut>,
    /// For each stream of all sources its trace.
    trace_of: Vec<usize>,
    streams: Vec<StreamOut>,
    losses: Losses,
    /// Where all of them become one.
    merged: Option<PathBuf>,
    /// Are there packets that could not be put together of some of their events?
    has_whole: bool,
}

/// A trace that is written.
struct TraceOut {
    folder: PathBuf,
    /// Its name among the others.
    name: String,
    form: Form,
}

/// How the packets of a trace are made.
enum Form {
    /// Every field anew, in a layout of ours.
    New { mapping: Box<Mapping>, comment: String },
    /// They keep their bytes, and these are the metadata.
    Same { metadata: Vec<u8> },
}

/// A stream that is written.
enum StreamOut {
    New(Box<StreamWriter>),
    Same(Box<SameStream>),
}

impl Writer {
    fn new(dialect: Dialect, path: &Path, sources: &[Source], options: &WriteOptions) -> Result<Writer> {
        let mut writer = Writer {
            traces: Vec::new(),
            trace_of: Vec::new(),
            streams: Vec::new(),
            losses: Losses::default(),
            merged: None,
            has_whole: false,
        };
        let short = below_all(&sources.iter().map(|source| source.name.as_str()).collect::<Vec<_>>());
        if options.merge && sources.len() > 1 {
            writer.add_merged(dialect, path, sources, &short, options)?;
            return Ok(writer);
        }
        for (source, name) in sources.iter().zip(names_of(&short)) {
            let folder = if sources.len() == 1 { path.to_path_buf() } else { path.join(&name) };
            let names = names_of(&source.streams.iter().map(|stream| stream.name.as_str()).collect::<Vec<_>>());
            let form = match same_metadata(dialect, source, &names, options) {
                Some(metadata) => {
                    writer.has_whole |= !can_be_cut(source);
                    writer.add_same(source, &folder, names, metadata)
                }
                None => {
                    let headers = Headers { has_stream_ids: has_own_ids(source), are_shared: false };
                    let mut mapping = writer.mapping(dialect, source, headers, options)?;
                    // Where a clock drifts the times are no numbers of cycles that the origin had.
                    mapping.to.origin = origin(source, &names, false).filter(|_| source.drift.is_none());
                    writer.add_streams(&mapping, source, &folder, names, options);
                    Form::New { mapping: Box::new(mapping), comment: comment(&source.schema) }
                }
            };
            writer.traces.push(TraceOut { folder, name, form });
        }
        Ok(writer)
    }

    fn add_same(&mut self, source: &Source, folder: &Path, names: Vec<String>, metadata: Vec<u8>) -> Form {
        for (name, of) in names.into_iter().zip(&source.streams) {
            self.trace_of.push(self.traces.len());
            let has_file_each = of.is_joined && !same::can_be_joined(&source.schema, of.class);
            let stream = SameStream::new(folder.join(name), &source.schema, has_file_each);
            self.streams.push(StreamOut::Same(Box::new(stream)));
        }
        Form::Same { metadata }
    }

    /// All sources as one trace: every packet is made anew.
    fn add_merged(
        &mut self,
        dialect: Dialect,
        path: &Path,
        sources: &[Source],
        short: &[&str],
        options: &WriteOptions,
    ) -> Result<()> {
        let parts = merge::parts_of_one(sources, &mut self.losses);
        let headers = Headers { has_stream_ids: merge::have_own_ids(&parts), are_shared: true };
        let of_trace = |(source, short): (&Source, &&str)| {
            let names = source.streams.iter().map(|stream| format!("{short}/{}", stream.name));
            names.collect::<Vec<_>>()
        };
        let names: Vec<String> = parts.iter().zip(short).flat_map(of_trace).collect();
        let mut names = names_of(&names.iter().map(String::as_str).collect::<Vec<_>>()).into_iter();
        let mut taken = HashSet::new();
        for (source, name) in parts.iter().zip(names_of(short)) {
            let mut mapping = self.mapping(dialect, source, headers, options)?;
            merge::check_header(&mapping, source)?;
            merge::number(&mut mapping, &mut taken);
            let own = names.by_ref().take(source.streams.len()).collect();
            self.add_streams(&mapping, source, path, own, options);
            let form = Form::New { mapping: Box::new(mapping), comment: comment(&source.schema) };
            self.traces.push(TraceOut { folder: path.to_path_buf(), name, form });
        }
        self.merged = Some(path.to_path_buf());
        Ok(())
    }

    fn mapping(
        &mut self,
        dialect: Dialect,
        source: &Source,
        headers: Headers,
        options: &WriteOptions,
    ) -> Result<Mapping> {
        let order = options.byte_order.unwrap_or_default();
        let mapping = Mapping::new(dialect, order, source, headers);
        let mapping = mapping.map_err(|error| error.in_file(Path::new(&source.name)))?;
        self.losses.extend(&mapping.losses);
        Ok(mapping)
    }

    fn add_streams(
        &mut self,
        mapping: &Mapping,
        source: &Source,
        folder: &Path,
        names: Vec<String>,
        options: &WriteOptions,
    ) {
        for (at, (stream, name)) in source.streams.iter().zip(names).enumerate() {
            self.trace_of.push(self.traces.len());
            let id = stream.id.unwrap_or(at as u64);
            let stream = StreamWriter::new(folder.join(name), stream.class, id, mapping.order, options);
            let stream = if options.index { stream.with_index() } else { stream };
            self.streams.push(StreamOut::New(Box::new(stream)));
        }
    }

    /// The metadata of the one trace that all became.
    fn merged_metadata(&self) -> Vec<u8> {
        let mut parts = Vec::new();
        let mut comments: Vec<&str> = Vec::new();
        for trace in &self.traces {
            let Form::New { mapping, comment } = &trace.form else { continue };
            parts.push((&**mapping, trace.name.as_str()));
            if !comments.contains(&comment.as_str()) {
                comments.push(comment);
            }
        }
        let Some((first, _)) = parts.first() else { return Vec::new() };
        let (schema, marks) = merge::schema(&parts);
        text_of(first.dialect, &schema, &marks, &comments.join("; "))
    }
}

/// The metadata in a dialect.
fn text_of(dialect: Dialect, schema: &Schema, marks: &Marks, comment: &str) -> Vec<u8> {
    match dialect {
        Dialect::Ctf2 => metadata::write(schema, marks, comment),
        Dialect::Ctf18 => tsdl::write(schema, comment),
    }
}

impl TraceWriter for Writer {
    fn joins_traces(&self) -> bool {
        true
    }

    fn needs_sound_packets(&self) -> bool {
        self.has_whole
    }

    fn losses(&self) -> Losses {
        self.losses.clone()
    }

    #[inline]
    fn event(&mut self, stream: usize, event: EventRef<'_>) -> Result<()> {
        match (&mut self.streams[stream], &mut self.traces[self.trace_of[stream]].form) {
            (StreamOut::New(stream), Form::New { mapping, .. }) => stream.event(mapping, event),
            (StreamOut::Same(stream), _) => stream.event(event),
            _ => Ok(()),
        }
    }

    fn takes_packets(&self) -> bool {
        !self.traces.is_empty() && self.traces.iter().all(|trace| matches!(trace.form, Form::Same { .. }))
    }

    fn packet(&mut self, stream: usize, packet: &PacketData) -> Result<()> {
        match &mut self.streams[stream] {
            StreamOut::Same(stream) => stream.packet(packet),
            StreamOut::New(_) => Ok(()),
        }
    }

    fn empty_packet(&mut self, stream: usize, packet: &PacketData) -> Result<()> {
        match (&mut self.streams[stream], &self.traces[self.trace_of[stream]].form) {
            (StreamOut::New(stream), Form::New { mapping, .. }) => stream.empty_packet(mapping, packet),
            (StreamOut::Same(stream), _) => stream.packet(packet),
            _ => Ok(()),
        }
    }

    fn gap(&mut self, stream: usize, gap: &Gap) -> Result<()> {
        match (&mut self.streams[stream], &self.traces[self.trace_of[stream]].form) {
            (StreamOut::New(stream), Form::New { mapping, .. }) => stream.gap(mapping, gap, &mut self.losses),
            (StreamOut::Same(stream), _) => stream.gap(gap),
            _ => Ok(()),
        }
    }

    fn end_stream(&mut self, stream: usize) -> Result<()> {
        match (&mut self.streams[stream], &self.traces[self.trace_of[stream]].form) {
            (StreamOut::New(stream), Form::New { mapping, .. }) => stream.end(mapping),
            (StreamOut::Same(stream), _) => stream.end(),
            _ => Ok(()),
        }
    }

    fn finish(mut self: Box<Self>) -> Result<Losses> {
        for at in 0..self.streams.len() {
            self.end_stream(at)?;
            self.losses.extend(&match &self.streams[at] {
                StreamOut::New(stream) => {
                    stream.write_index()?;
                    stream.losses()
                }
                StreamOut::Same(stream) => stream.losses(),
            });
        }
        if let Some(folder) = &self.merged {
            write_metadata(folder, &self.merged_metadata())?;
        }
        for trace in self.traces.iter().filter(|_| self.merged.is_none()) {
            match &trace.form {
                Form::Same { metadata } => write_metadata(&trace.folder, metadata)?,
                Form::New { mapping, comment } => {
                    let text = text_of(mapping.dialect, &mapping.to, &mapping.marks, comment);
                    write_metadata(&trace.folder, &text)?;
                }
            }
        }
        for stream in &self.streams {
            match stream {
                StreamOut::New(stream) => stream.check()?,
                StreamOut::Same(stream) => stream.check()?,
            }
        }
        Ok(self.losses)
    }
}

fn write_metadata(folder: &Path, text: &[u8]) -> Result<()> {
    make_folder(folder)?;
    let path = folder.join("metadata");
    fs::write(&path, text).map_err(|error| Error::io("write the metadata", &path, &error))
}

fn comment(schema: &Schema) -> String {
    format!("converted from {} {}.{}", schema.format, schema.version.0, schema.version.1)
}

/// The metadata with which the packets of a source can be kept as they are; `None` when they cannot.
fn same_metadata(dialect: Dialect, source: &Source, names: &[String], options: &WriteOptions) -> Option<Vec<u8>> {
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
fn can_be_cut(source: &Source) -> bool {
    let mut classes: Vec<StreamClassId> = source.streams.iter().map(|stream| stream.class).collect();
    classes.dedup();
    classes.iter().all(|class| same::can_be_cut(&source.schema, *class))
}

/// What the output says that the trace was; nothing when it has always been of this format, or fields of it were hidden.
fn origin(source: &Source, files: &[String], has_same_packets: bool) -> Option<Arc<Origin>> {
    let of = &source.origin;
    if of.format.is_empty() || of.format == Dialect::Ctf2.format() {
        return None;
    }
    let streams = files.iter().zip(&source.streams).map(|(file, stream)| (file.clone(), stream.origin_name.clone()));
    let (streams, moved_ns) = (streams.collect(), source.moved_ns());
    Some(Arc::new(Origin { streams, has_same_packets, moved_ns, ..(**of).clone() }))
}

/// Names of traces without the folders that hold all of them, so that a second conversion names them alike.
fn below_all<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let Some(first) = names.first() else { return Vec::new() };
    let shared = names.iter().fold(first.len(), |shared, name| {
        first.bytes().zip(name.bytes()).take(shared).take_while(|(a, b)| a == b).count()
    });
    let cut = first.as_bytes()[..shared].iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
    names.iter().map(|name| name.get(cut..).unwrap_or(name)).collect()
}

/// Names of files for names of streams or traces: one plain component each, all different, in the same order of bytes.
pub(crate) fn names_of(names: &[&str]) -> Vec<String> {
    let plain = |name: &str| -> String {
        let trimmed = name.trim_matches(['/', '.']);
        let text: String =
            trimmed.chars().map(|c| if c == '/' || c == '\\' || c.is_control() { '_' } else { c }).collect();
        match text.as_str() {
            "" => "stream".to_string(),
            "metadata" | "index" => format!("{text}_"),
            _ => text,
        }
    };
    let flat: Vec<String> = names.iter().map(|name| plain(name)).collect();
    let is_in_order = flat.windows(2).all(|pair| pair[0] < pair[1]) && flat.iter().all(|name| name.len() < 200);
    if is_in_order {
        return flat;
    }
    let width = names.len().to_string().len();
    let short = |name: &str| name.chars().take(48).collect::<String>();
    flat.iter().enumerate().map(|(at, name)| format!("{at:0width$}_{}", short(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::below_all;

    #[test]
    fn traces_are_named_below_the_folder_of_all() {
        assert_eq!(below_all(&["a/b/x", "a/b/y/z"]), ["x", "y/z"]);
        assert_eq!(below_all(&["a/t", "a/t/sub"]), ["t", "t/sub"]);
        assert_eq!(below_all(&["one"]), ["one"]);
        assert_eq!(below_all(&["ä/x", "å/y"]), ["ä/x", "å/y"]);
    }
}
