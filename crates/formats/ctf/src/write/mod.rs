//! Writing CTF: any schema, any events, in either dialect.
//!
//! Packets that are CTF already keep their bytes (`rewrite`, `same`, `translate`); those of other traces are rebuilt
//! (`convert`, `mapping`, `fields`, `packets`).
//!
//! A trace becomes a folder; several become one folder each inside the output, or one trace (`merge`). A stream becomes a
//! file; its packets are built in memory and written when they end. The metadata come last: without them a folder is no
//! trace, and by then all event classes are known.

pub mod build;
mod convert;
mod encodes;
mod fields;
mod frame;
mod json;
mod mapping;
mod marks;
mod merge;
mod metadata;
mod packets;
mod rewrite;
mod same;
mod shift;
mod translate;
mod tsdl;

use std::sync::Arc;

use tracemill_model::error::Result;
use tracemill_model::schema::{DisplayBase, Origin, Schema};

use self::convert::CtfConverter;
use self::rewrite::CtfRewriter;
use tracemill_format::OutPath;
use tracemill_format::lost::Lost;
use tracemill_format::target::{Created, Source, Target, WriteOptions};
use tracemill_format::writer::writer_of_each;

/// CTF 2.
pub static CTF2: Target = Target::folder(&["ctf2"], "Common Trace Format 2", |path, sources, options| {
    create(Dialect::Ctf2, path, sources, options)
})
.with_endings(&["ctf", "ctf2"])
.needs_sound_packets(|sources, options| needs_sound_packets(Dialect::Ctf2, sources, options))
.cannot_hold(&[Lost::WideFloats]);

/// CTF 1.8.
pub static CTF18: Target = Target::folder(&["ctf1.8"], "Common Trace Format 1.8", |path, sources, options| {
    create(Dialect::Ctf18, path, sources, options)
})
.needs_sound_packets(|sources, options| needs_sound_packets(Dialect::Ctf18, sources, options))
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
]);

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

fn create(dialect: Dialect, path: &OutPath, sources: &[Source], options: &WriteOptions) -> Created {
    let short = below_all(&sources.iter().map(|source| source.name.as_str()).collect::<Vec<_>>());
    if options.merge && sources.len() > 1 {
        return Ok(Box::new(CtfConverter::merged(dialect, path, sources, &short, options)?));
    }
    let folders = names_of(&short);
    writer_of_each(sources, |at, source| {
        let folder = if sources.len() == 1 { path.clone() } else { path.join(&folders[at]) };
        let files = file_names(source);
        Ok(match rewrite::metadata(dialect, source, &files, options) {
            Some(metadata) => Box::new(CtfRewriter::new(folder, source, files, metadata)),
            None => Box::new(CtfConverter::new(dialect, folder, source, files, options)?),
        })
    })
}

/// Are packets of a source kept as they are that could not be put together of some of their events?
fn needs_sound_packets(dialect: Dialect, sources: &[Source], options: &WriteOptions) -> bool {
    let is_rewritten = |source| rewrite::metadata(dialect, source, &file_names(source), options).is_some();
    let is_merged = options.merge && sources.len() > 1;
    !is_merged && sources.iter().any(|source| !rewrite::can_be_cut(source) && is_rewritten(source))
}

/// The names of the files of a trace's streams.
fn file_names(source: &Source) -> Vec<String> {
    names_of(&source.streams.iter().map(|stream| stream.name.as_str()).collect::<Vec<_>>())
}

/// The comment of metadata about what the trace was.
pub(crate) fn comment(schema: &Schema) -> String {
    format!("converted from {} {}.{}", schema.format, schema.version.0, schema.version.1)
}

fn radix(base: DisplayBase) -> u32 {
    match base {
        DisplayBase::Binary => 2,
        DisplayBase::Octal => 8,
        DisplayBase::Decimal => 10,
        DisplayBase::Hexadecimal => 16,
    }
}

pub(crate) fn write_metadata(folder: &OutPath, text: &[u8]) -> Result<()> {
    folder.make_folder()?;
    folder.join("metadata").write("write the metadata", text)
}

/// The origin of the trace as the output states it; nothing when it has always been of this format, or fields of it were
/// hidden.
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
