//! A format that can be read.

use std::path::Path;

use tracemill_model::error::Result;

use crate::open::{FoundTrace, OpenContext, OpenTrace};
use crate::setting::Setting;
use crate::storage::Storage;

/// Recognises a folder or file of a format; see [`Format::probe`].
pub type Probe = fn(&dyn Storage, &Path) -> bool;

/// Opens what was found of a format; see [`Format::open`].
pub type OpenFn = fn(&OpenContext<'_>, &[FoundTrace]) -> Vec<Result<OpenTrace>>;

/// A format that can be read: one static value, one line in the registry.
///
/// It does no I/O of its own: it lists folders and opens files through a [`Storage`]. It answers with an [`OpenTrace`]: a
/// schema, its plans, for each stream where the packets are, and a [`PacketReader`](crate::PacketReader) that opens one of
/// them. Chunks, rows, columns, merge, filters and output come from there for free.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Format {
    /// Names by which the user knows it; the first is for `--input-format`.
    pub names: &'static [&'static str],
    /// A name for `--input-format` that means any of the names, where one reader reads several formats.
    pub common_name: Option<&'static str>,
    /// One line about it, for the list of formats; one for each name where they differ.
    pub description: &'static str,
    /// Is this folder or file a trace of the format? Looks at content, never at names alone.
    pub probe: Probe,
    /// Opens everything that was found of this format, in the order given. Folders that are parts of one trace become
    /// one. An error stands for the trace that could not be opened.
    pub open: OpenFn,
    /// Options that it adds.
    pub settings: &'static [Setting],
    /// The look of a trace of it, for the list of formats and for the message that nothing was found: `a CTF trace is a folder
    /// with a file `metadata``. May be empty.
    pub looks_like: &'static str,
    /// Is a trace of it always a folder?
    pub is_folder: bool,
    /// May its traces hold function calls ([`PacketReader::calls`](crate::PacketReader::calls))?
    pub has_calls: bool,
    /// Are its files made of other traces, to be read when they are named, or when there is nothing else in a folder?
    pub is_transcript: bool,
}

impl Format {
    /// A format without options, whose traces hold no calls.
    pub const fn new(names: &'static [&'static str], description: &'static str, probe: Probe, open: OpenFn) -> Format {
        Format {
            names,
            common_name: None,
            description,
            probe,
            open,
            settings: &[],
            looks_like: "",
            is_folder: false,
            has_calls: false,
            is_transcript: false,
        }
    }

    /// Sets [`Format::common_name`].
    pub const fn with_common_name(self, name: &'static str) -> Format {
        Format { common_name: Some(name), ..self }
    }

    /// Is this one of the names by which the user means it?
    pub fn is_named(&self, name: &str) -> bool {
        self.names.contains(&name) || self.common_name == Some(name)
    }

    /// Sets [`Format::looks_like`].
    pub const fn looks_like(self, looks_like: &'static str) -> Format {
        Format { looks_like, ..self }
    }

    /// Sets [`Format::is_folder`].
    pub const fn in_folders(self) -> Format {
        Format { is_folder: true, ..self }
    }

    /// Adds options.
    pub const fn with_settings(self, settings: &'static [Setting]) -> Format {
        Format { settings, ..self }
    }

    /// Sets [`Format::has_calls`].
    pub const fn with_calls(self) -> Format {
        Format { has_calls: true, ..self }
    }

    /// Sets [`Format::is_transcript`].
    pub const fn made_of_others(self) -> Format {
        Format { is_transcript: true, ..self }
    }
}

/// The names of some formats, each once.
pub fn names_of<'a>(formats: impl IntoIterator<Item = &'a &'static Format>) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for name in formats.into_iter().flat_map(|format| format.names) {
        if !names.contains(name) {
            names.push(name);
        }
    }
    names
}

/// The options that some formats add, each once.
pub fn settings_of(formats: &[&'static Format]) -> Vec<&'static Setting> {
    let mut settings: Vec<&'static Setting> = Vec::new();
    for setting in formats.iter().flat_map(|format| format.settings) {
        if !settings.iter().any(|known| known.name == setting.name) {
            settings.push(setting);
        }
    }
    settings
}
