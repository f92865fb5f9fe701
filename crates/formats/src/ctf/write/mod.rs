//! Writing CTF: any schema, any events, in either dialect.
//!
//! A trace becomes a folder; several become one folder each inside the output. A stream becomes a file; its packets are
//! built in memory and written when they end. The metadata come last: without them a folder is no trace, and by then
//! all event classes are known.

mod copy;
mod fields;
mod json;
mod mapping;
mod metadata;
mod packets;
mod tsdl;

pub(in crate::ctf) use self::copy::copy as copy_trace;
pub(in crate::ctf) use self::tsdl::identifier;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracemill_codec::chunk::EventRef;
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::Gap;
use tracemill_model::schema::Origin;

use self::mapping::Mapping;
use self::packets::StreamWriter;
use crate::target::{Losses, Source, Target, TraceWriter, WriteOptions};

/// CTF 2.
pub(crate) static CTF2: Target = Target {
    names: &["ctf2"],
    description: "Common Trace Format 2",
    cannot_hold: &["floating point numbers wider than 64 bits"],
    is_folder: true,
    wants_order: false,
    create: create_ctf2,
    copy: Some(copy::copy_ctf2),
    settings: &[],
};

/// CTF 1.8.
pub(crate) static CTF18: Target = Target {
    names: &["ctf1.8"],
    description: "Common Trace Format 1.8",
    cannot_hold: &[
        "events without time",
        "optional fields (they become sequences)",
        "variants without an enumeration of their options (they get a tag)",
        "integers of variable length (they become integers of 64 bits)",
        "blobs, bit maps, booleans (they become integers)",
        "encodings of strings other than UTF-8",
        "floating point numbers wider than 64 bits",
        "namespaces and unique ids",
        "form of text lines",
    ],
    is_folder: true,
    wants_order: false,
    create: create_ctf18,
    copy: Some(copy::copy_ctf18),
    settings: &[],
};

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
    streams: Vec<StreamWriter>,
    losses: Losses,
}

/// A trace that is written.
struct TraceOut {
    folder: PathBuf,
    mapping: Mapping,
    comment: String,
}

impl Writer {
    fn new(dialect: Dialect, path: &Path, sources: &[Source], options: &WriteOptions) -> Result<Writer> {
        let order = options.byte_order.unwrap_or_default();
        let mut writer =
            Writer { traces: Vec::new(), trace_of: Vec::new(), streams: Vec::new(), losses: Losses::default() };
        let folders = names_of(&sources.iter().map(|source| source.name.as_str()).collect::<Vec<_>>());
        for (source, name) in sources.iter().zip(folders) {
            let folder = if sources.len() == 1 { path.to_path_buf() } else { path.join(name) };
            let mut mapping =
                Mapping::new(dialect, order, source).map_err(|error| error.in_file(Path::new(&source.name)))?;
            writer.losses.extend(&mapping.losses);
            let names = names_of(&source.streams.iter().map(|stream| stream.name.as_str()).collect::<Vec<_>>());
            mapping.to.origin = origin(source, &names);
            for (at, (stream, name)) in source.streams.iter().zip(names).enumerate() {
                writer.trace_of.push(writer.traces.len());
                let id = stream.id.unwrap_or(at as u64);
                let stream = StreamWriter::new(folder.join(name), stream.class, id, order, options.packet_bytes);
                writer.streams.push(if options.index { stream.with_index() } else { stream });
            }
            let comment = format!(
                "converted from {} {}.{}",
                source.schema.format, source.schema.version.0, source.schema.version.1
            );
            writer.traces.push(TraceOut { folder, mapping, comment });
        }
        Ok(writer)
    }
}

impl TraceWriter for Writer {
    fn losses(&self) -> Losses {
        self.losses.clone()
    }

    #[inline]
    fn event(&mut self, stream: usize, event: EventRef<'_>) -> Result<()> {
        let trace = &mut self.traces[self.trace_of[stream]];
        self.streams[stream].event(&mut trace.mapping, event)
    }

    fn gap(&mut self, stream: usize, gap: &Gap) -> Result<()> {
        let trace = &self.traces[self.trace_of[stream]];
        self.streams[stream].gap(&trace.mapping, gap, &mut self.losses)
    }

    fn end_stream(&mut self, stream: usize) -> Result<()> {
        let trace = &mut self.traces[self.trace_of[stream]];
        self.streams[stream].end(&trace.mapping)
    }

    fn finish(mut self: Box<Self>) -> Result<Losses> {
        for stream in 0..self.streams.len() {
            self.end_stream(stream)?;
            self.streams[stream].write_index()?;
            self.losses.extend(&self.streams[stream].losses());
        }
        for trace in &self.traces {
            make_folder(&trace.folder)?;
            let text = match trace.mapping.dialect {
                Dialect::Ctf2 => metadata::write(&trace.mapping.to, &trace.mapping.marks, &trace.comment),
                Dialect::Ctf18 => tsdl::write(&trace.mapping.to, &trace.comment),
            };
            let path = trace.folder.join("metadata");
            fs::write(&path, text).map_err(|error| Error::io("write the metadata", &path, &error))?;
        }
        Ok(self.losses)
    }
}

/// What the output says that the trace was; nothing when it has always been of this format.
fn origin(source: &Source, files: &[String]) -> Option<Arc<Origin>> {
    let of = &source.origin;
    if of.format == Dialect::Ctf2.format() {
        return None;
    }
    let streams = files.iter().zip(&source.streams).map(|(file, stream)| (file.clone(), stream.origin_name.clone()));
    Some(Arc::new(Origin { streams: streams.collect(), has_same_packets: false, ..(**of).clone() }))
}

fn make_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| Error::io("make the folder", path, &error))
}

/// Names of files for names of streams or traces: one plain component each, all different, in the same order of bytes.
pub(in crate::ctf) fn names_of(names: &[&str]) -> Vec<String> {
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
