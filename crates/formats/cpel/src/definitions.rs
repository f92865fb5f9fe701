//! Names of codes, tracks and data: definitions of all sections together (`SPEC.md`, D15, D16, D24).

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use tracemill_model::schema::{QUICK_BYTES, Render};

use super::fast_text;
use super::printf::{PrintfFormat, TextTables};
use super::strings::{MAX_TEXT, StringTable, Symbols};

/// Ids below this are looked up in a table.
const DENSE: u32 = 1 << 16;
/// Tracks below this have their names at hand.
const KEPT_TRACKS: u32 = 1024;
/// Octets of a text that a field of octets holds.
pub(super) const MAX_OCTETS: usize = MAX_TEXT;
/// No definition.
pub(super) const NONE: u32 = u32::MAX;

/// From ids to indexes of definitions.
#[derive(Clone, Debug, Default)]
pub(super) struct ById {
    dense: Vec<u32>,
    /// Larger ids, sorted.
    sparse: Vec<(u32, u32)>,
}

impl ById {
    /// The ids of definitions in their order, no two of them equal.
    fn new(ids: impl Iterator<Item = u32>) -> Self {
        let mut by_id = ById::default();
        let mut sorted: Vec<(u32, u32)> = ids.zip(0..).collect();
        sorted.sort_unstable();
        for (id, at) in sorted {
            if id < DENSE {
                by_id.dense.resize(id as usize + 1, NONE);
                by_id.dense[id as usize] = at;
            } else {
                by_id.sparse.push((id, at));
            }
        }
        by_id
    }

    /// The index of an id, [`NONE`] without one.
    #[inline]
    pub(super) fn get(&self, id: u32) -> u32 {
        match self.dense.get(id as usize) {
            Some(&at) => at,
            None => self.get_sparse(id),
        }
    }

    fn get_sparse(&self, id: u32) -> u32 {
        self.sparse.binary_search_by_key(&id, |entry| entry.0).map_or(NONE, |at| self.sparse[at].1)
    }
}

/// Leaves the first definition of each id.
fn first_of_each<T>(mut definitions: Vec<T>, id: impl Fn(&T) -> u32) -> (ById, Vec<T>) {
    let mut known = HashSet::new();
    definitions.retain(|definition| known.insert(id(definition)));
    (ById::new(definitions.iter().map(&id)), definitions)
}

/// Calls `report` with the index of each id that stands a second time.
pub(super) fn each_twice(ids: &[u32], report: impl FnMut(usize)) {
    let mut known = HashSet::new();
    ids.iter().enumerate().filter(|(_, id)| !known.insert(**id)).map(|(at, _)| at).for_each(report);
}

/// The definition of an event code.
#[derive(Clone, Debug)]
pub(super) struct EventDefinition {
    /// The code.
    pub(super) code: u32,
    /// Format of its name; `None` for the default.
    pub(super) name: Option<PrintfFormat>,
    /// Format of its datum; `None` for no text.
    pub(super) datum: Option<PrintfFormat>,
}

/// The definition of a track.
#[derive(Clone, Debug)]
pub(super) struct TrackDefinition {
    /// The track.
    pub(super) id: u32,
    /// Format of its name; `None` for the default.
    pub(super) name: Option<PrintfFormat>,
}

/// All definitions of a file.
#[derive(Debug)]
pub(super) struct LogDefinitions {
    /// Event definitions, in the order of the file.
    pub(super) events: Vec<EventDefinition>,
    /// Which of them a code means.
    pub(super) by_code: ById,
    /// Track definitions, in the order of the file.
    pub(super) tracks: Vec<TrackDefinition>,
    /// Which of them a track means.
    pub(super) by_track: ById,
    /// Names of the first tracks, where they are the same whatever refers to them.
    track_names: Vec<Option<Box<[u8]>>>,
    /// `track_names`, ready to be copied.
    quick_tracks: fast_text::ShortNames,
    /// The symbols of `%k`.
    pub(super) symbols: Symbols,
    default_name: PrintfFormat,
    default_track: PrintfFormat,
}

impl LogDefinitions {
    /// Puts definitions together; the first one of an id counts.
    pub(super) fn new(events: Vec<EventDefinition>, tracks: Vec<TrackDefinition>, symbols: Symbols) -> Self {
        let (by_code, events) = first_of_each(events, |event| event.code);
        let (by_track, tracks) = first_of_each(tracks, |track| track.id);
        let name_of = |track: u32| {
            let definition = tracks.get(by_track.get(track) as usize)?;
            definition.name.as_ref()?.constant().map(Into::into)
        };
        let track_names: Vec<Option<Box<[u8]>>> = (0..KEPT_TRACKS).map(name_of).collect();
        let quick_tracks =
            fast_text::ShortNames::new(track_names.iter().map(|name| name.as_deref().unwrap_or_default()));
        LogDefinitions {
            by_code,
            events,
            track_names,
            quick_tracks,
            by_track,
            tracks,
            symbols,
            default_name: PrintfFormat::from_text("E%d"),
            default_track: PrintfFormat::from_text("%d"),
        }
    }

    fn names<'a>(&'a self, strings: Option<&'a StringTable>) -> TextTables<'a> {
        TextTables { strings, symbols: &self.symbols }
    }

    /// Appends the name of an event code.
    pub(super) fn put_event(&self, code: u32, strings: Option<&StringTable>, out: &mut Vec<u8>) {
        self.name_format(code).render(code, self.names(strings), out);
    }

    /// Appends the octets of the texts of an event, each after its length (32 bits, little endian): its name, the name
    /// of its track, its datum. Of each the first [`MAX_OCTETS`].
    pub(super) fn put_octets(&self, event: [u32; 3], strings: Option<&StringTable>, out: &mut Vec<u8>) {
        let [code, track, datum] = event;
        let formats = [
            (Some(self.name_format(code)), code),
            (Some(self.track_format(track)), track),
            (self.datum_format(code), datum),
        ];
        for (format, value) in formats {
            let at = out.len();
            out.extend_from_slice(&[0; 4]);
            if let Some(format) = format {
                format.put_octets(value, self.names(strings), out);
            }
            out.truncate(at + 4 + MAX_OCTETS);
            let len = (out.len() - at - 4) as u32;
            out[at..at + 4].copy_from_slice(&len.to_le_bytes());
        }
    }

    fn name_format(&self, code: u32) -> &PrintfFormat {
        let event = self.events.get(self.by_code.get(code) as usize);
        event.and_then(|event| event.name.as_ref()).unwrap_or(&self.default_name)
    }

    #[inline]
    fn track_format(&self, track: u32) -> &PrintfFormat {
        let track = self.tracks.get(self.by_track.get(track) as usize);
        track.and_then(|track| track.name.as_ref()).unwrap_or(&self.default_track)
    }

    #[inline]
    fn datum_format(&self, code: u32) -> Option<&PrintfFormat> {
        self.events.get(self.by_code.get(code) as usize)?.datum.as_ref()
    }
}

/// Octets of an event as it is decoded: code, track, datum, little endian.
pub(super) const EVENT_BYTES: usize = 12;

/// Code, track and datum of an event as it is decoded; `None` when it is truncated.
#[inline]
pub(super) fn words(event: &[u8]) -> Option<[u32; 3]> {
    let &[c0, c1, c2, c3, t0, t1, t2, t3, d0, d1, d2, d3] = event.first_chunk::<EVENT_BYTES>()?;
    Some([[c0, c1, c2, c3], [t0, t1, t2, t3], [d0, d1, d2, d3]].map(u32::from_le_bytes))
}

/// Which text of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TextRole {
    /// The name of its code.
    Name,
    /// The name of its track.
    Track,
    /// Its datum.
    Datum,
}

/// Makes one of the texts of an event.
pub(super) struct EventText {
    pub(super) text: TextRole,
    pub(super) definitions: Arc<LogDefinitions>,
    /// The table of its section.
    pub(super) strings: Option<StringTable>,
}

impl fmt::Debug for EventText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventText({:?})", self.text)
    }
}

impl Render for EventText {
    #[inline]
    fn render(&self, event: &[u8], _own: &[u8], out: &mut Vec<u8>) -> bool {
        let Some([code, track, datum]) = words(event) else { return false };
        let (definitions, names) = (&*self.definitions, self.definitions.names(self.strings.as_ref()));
        match self.text {
            TextRole::Name => definitions.name_format(code).render(code, names, out),
            TextRole::Track => definitions.track_format(track).render(track, names, out),
            TextRole::Datum => {
                if let Some(format) = definitions.datum_format(code) {
                    format.render(datum, names, out);
                }
            }
        }
        true
    }

    #[inline]
    fn quick(&self, event: &[u8], _own: &[u8], room: &mut [u8; QUICK_BYTES]) -> Option<usize> {
        let [code, track, datum] = words(event)?;
        let (definitions, names) = (&*self.definitions, self.definitions.names(self.strings.as_ref()));
        match self.text {
            TextRole::Name => None,
            TextRole::Track => match definitions.quick_tracks.copy(track, room) {
                Some(len) => Some(len),
                None => definitions.track_format(track).quick(track, names, room),
            },
            TextRole::Datum => match definitions.datum_format(code) {
                Some(format) => format.quick(datum, names, room),
                None => Some(0),
            },
        }
    }

    #[inline]
    fn text<'a>(&'a self, event: &'a [u8], _own: &'a [u8], scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        let [code, track, datum] = words(event)?;
        let (definitions, names) = (&*self.definitions, self.definitions.names(self.strings.as_ref()));
        Some(match self.text {
            TextRole::Name => definitions.name_format(code).text_of(code, names, scratch),
            TextRole::Track => match definitions.track_names.get(track as usize) {
                Some(Some(name)) => name,
                _ => definitions.track_format(track).text_of(track, names, scratch),
            },
            TextRole::Datum => match definitions.datum_format(code) {
                Some(format) => format.text_of(datum, names, scratch),
                None => &[],
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_equal_ids_counts() {
        let ids = [7, 3, 7, 70_000, 0, 70_000, u32::MAX, 7];
        let mut twice = Vec::new();
        each_twice(&ids, |at| twice.push(at));
        assert_eq!(twice, [2, 5, 7]);
        let (by_id, left) = first_of_each(ids.to_vec(), |&id| id);
        assert_eq!(left, [7, 3, 70_000, 0, u32::MAX]);
        assert_eq!(left.iter().map(|&id| by_id.get(id)).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert_eq!([1, 8, 65_535, 65_536, u32::MAX - 1].map(|id| by_id.get(id)), [NONE; 5]);
    }
}
