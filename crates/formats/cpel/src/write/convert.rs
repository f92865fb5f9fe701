//! Shared parts of the conversions of any trace to CPEL and to VPP's event logs: texts, tracks, classes and losses.

use std::rc::Rc;

use tracemill_model::error::Result;
use tracemill_model::schema::{EventClassId, Schema};

use super::fields::{FieldValues, Strings, store};
use super::output::LogFile;
use super::tracks::{LogTracks, Rule};
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::Source;
use tracemill_format::writer::count_headers;
use tracemill_format::{OutPath, Spill};
use tracemill_semantics::{Semantics, names};

/// A log that is made of other traces, without what only one of the formats has.
pub(super) struct Conversion {
    pub(super) output: LogFile,
    pub(super) sources: Vec<Source>,
    /// For each stream of all sources its source, and its place there.
    pub(super) places: Vec<(usize, usize)>,
    pub(super) tracks: LogTracks,
    pub(super) strings: Strings,
    pub(super) losses: Losses,
}

impl Conversion {
    /// Begins a log. `table` is the name that its string table begins with.
    pub(super) fn new(path: &OutPath, sources: &[Source], table: Option<&'static str>) -> Conversion {
        let mut losses = Losses::default();
        sources.iter().for_each(|source| count_headers(&mut losses, source, &[names::CPU], &["id", "timestamp", "v"]));
        let streams = sources.iter().map(|source| source.streams.len()).enumerate();
        Conversion {
            output: LogFile::new(path),
            sources: sources.to_vec(),
            places: streams.flat_map(|(source, count)| (0..count).map(move |stream| (source, stream))).collect(),
            tracks: LogTracks::default(),
            strings: Strings::new(Spill::new(path, "strings"), table),
            losses,
        }
    }

    /// The offset of a text in the string table, without what no text holds.
    pub(super) fn text(&mut self, text: &mut Vec<u8>) -> Result<u32> {
        self.losses.add(Lost::LongTexts, store(text).into());
        self.string(text)
    }

    /// The offset of a text in the string table; 0 when the table is full.
    pub(super) fn string(&mut self, text: &[u8]) -> Result<u32> {
        self.strings.begin()?;
        let before = self.strings.len();
        let Some(at) = self.strings.add(text)? else {
            self.losses.add(Lost::TextsBeyondTable, 1);
            return Ok(0);
        };
        self.output.grow((self.strings.len() - before) as usize)?;
        Ok(at)
    }

    /// The track of an event of a stream.
    pub(super) fn track(&mut self, rule: &Rule, fields: &mut FieldValues<'_>, stream: usize) -> Result<u32> {
        let (source, own_stream) = self.places[stream];
        self.tracks.track(rule, fields, stream, (&self.sources, source, own_stream), &mut self.losses)
    }
}

/// The forms that the event classes of each source get.
pub(super) fn classes<C>(sources: &[Source], make: impl Fn(&Schema, EventClassId, Rule) -> C) -> Vec<Vec<Rc<C>>> {
    let of_source = |source: &Source| {
        let semantics = Semantics::new(&source.schema);
        let events = (0..source.schema.events().len()).map(|at| EventClassId(at as u32));
        events.map(|event| Rc::new(make(&source.schema, event, Rule::for_class(&semantics, event)))).collect()
    };
    sources.iter().map(of_source).collect()
}
