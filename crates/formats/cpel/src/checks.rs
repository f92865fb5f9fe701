//! Warnings about the strings that events name by their offsets (`SPEC.md`, D11, D28): reported once a section.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tracemill_model::error::Error;

use super::definitions::{EventDefinition, LogDefinitions, TrackDefinition};
use super::printf::PrintfFormat;

/// Which texts are strings of the table of a section, by their offset there.
#[derive(Clone, Debug)]
pub(super) struct ByOffset {
    /// For each event definition whether its data are.
    pub(super) data: Arc<[bool]>,
    /// For each event definition whether its name is.
    names: Option<Arc<[bool]>>,
    /// For each track definition.
    tracks: Option<Arc<[bool]>>,
}

/// Where the strings of a section's table are.
#[derive(Clone, Debug)]
pub(super) struct TableLimits {
    pub(super) by_offset: ByOffset,
    /// Octets of the table.
    pub(super) len: usize,
    /// Strings from here on have no NUL.
    pub(super) good: usize,
    /// Is a name without a NUL an error?
    pub(super) is_strict: bool,
}

/// Which value of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ValuePart {
    Name,
    Track,
    Datum,
}

/// Warnings of a section that were reported already.
#[derive(Debug, Default)]
pub(super) struct ReportedWarnings(AtomicU8);

impl ByOffset {
    /// `None` when no text is one.
    pub(super) fn from_definitions(definitions: &LogDefinitions) -> Option<Self> {
        let is_one = |format: &Option<PrintfFormat>| format.as_ref().is_some_and(PrintfFormat::has_string);
        let data: Arc<[bool]> = definitions.events.iter().map(|event| is_one(&event.datum)).collect();
        let names: Arc<[bool]> = definitions.events.iter().map(|EventDefinition { name, .. }| is_one(name)).collect();
        let tracks: Arc<[bool]> = definitions.tracks.iter().map(|TrackDefinition { name, .. }| is_one(name)).collect();
        let has = |list: Arc<[bool]>| list.contains(&true).then_some(list);
        let has_data = data.contains(&true);
        let (names, tracks) = (has(names), has(tracks));
        (has_data || names.is_some() || tracks.is_some()).then_some(ByOffset { data, names, tracks })
    }
}

impl TableLimits {
    /// Looks at names of events and tracks; most logs have none to look at. `event` gives code and track of an event.
    pub(super) fn check_names(
        &self,
        definitions: &LogDefinitions,
        events: impl Iterator<Item = (u32, u32)>,
        mut found: impl FnMut(usize, ValuePart, u32),
    ) {
        let ByOffset { names, tracks, .. } = &self.by_offset;
        if names.is_none() && tracks.is_none() {
            return;
        }
        let is_one = |list: &Option<Arc<[bool]>>, at: u32| {
            list.as_ref().is_some_and(|list| list.get(at as usize) == Some(&true))
        };
        for (event, (code, track)) in events.enumerate() {
            if code as usize >= self.good && is_one(names, definitions.by_code.get(code)) {
                found(event, ValuePart::Name, code);
            }
            if track as usize >= self.good && is_one(tracks, definitions.by_track.get(track)) {
                found(event, ValuePart::Track, track);
            }
        }
    }

    /// The error about an offset of the section `title`, unless it was reported already, and whether it is a fault.
    pub(super) fn new_error(
        &self,
        told: &ReportedWarnings,
        title: &str,
        part: ValuePart,
        offset: u32,
        code: u32,
    ) -> Option<(Error, bool)> {
        let is_outside = offset as usize >= self.len;
        let bit = 1 << (part as u8 * 2 + u8::from(is_outside));
        if told.0.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            return None;
        }
        let what = match part {
            ValuePart::Name => "the name of an event".to_string(),
            ValuePart::Track => "the name of a track".to_string(),
            ValuePart::Datum => format!("a datum of event code {code}"),
        };
        let message = match is_outside {
            true => format!("{title}: {what} is the offset {offset:#x}, outside of the string table; reported once"),
            false => format!("{title}: {what}, the string at offset {offset:#x}, has no NUL; reported once"),
        };
        let is_fault = self.is_strict && !is_outside && part != ValuePart::Datum;
        Some((Error::inconsistent(message), is_fault))
    }
}
