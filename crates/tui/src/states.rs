//! States of CPUs and threads, and those that the user defines: a line for each track, and the visits of one of them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use tracemill_answers::{StateTracks, TraceState};
use tracemill_lod::states::{Of, StateKind, StatePiece};

use crate::cursor::{Cursor, CursorMove, next_of};
use crate::range::Range;
use crate::text::{TIME, TimePrinter, cut, duration, left, right, visible};

/// The subject of a track: it stays the same when traces grow.
type TrackOf = (u32, Of);

/// The version of the traces, a track and a range: what visits are of.
type VisitsOf = (usize, TrackOf, Range);

/// The screen.
#[derive(Default)]
pub(crate) struct StatesScreen {
    /// The chosen track.
    pub(crate) tracks: Cursor,
    /// The track whose visits are shown, and the chosen one of them.
    open: Option<TrackOf>,
    pub(crate) visits: Cursor,
    /// The visits that were shown last, and of what.
    held: RefCell<Option<(VisitsOf, Rc<Vec<StatePiece>>)>>,
    /// The lines of tracks that were shown last, without names, and for what.
    lines: ((usize, Range, usize), HashMap<usize, String>),
}

/// Columns of a name at most.
const NAME: usize = 30;

/// States of a track that a line names in words.
const IN_WORDS: usize = 6;

impl StatesScreen {
    /// Tracks in the order in which they are shown: those of the user were asked for, so they come first.
    fn shown(state: &TraceState) -> Vec<usize> {
        let Some(kept) = state.states() else { return Vec::new() };
        let (own, others): (Vec<usize>, Vec<usize>) =
            kept.shown_tracks().partition(|track| matches!(kept.states.tracks[*track].of, Of::Custom(..)));
        [own, others].concat()
    }

    fn track(&self, state: &TraceState) -> Option<usize> {
        Self::shown(state).get(self.tracks.at).copied()
    }

    /// The track whose visits are shown.
    fn open_track<'s>(&self, state: &'s TraceState) -> Option<(&'s StateTracks, usize)> {
        let (kept, of) = (state.states()?, self.open?);
        let at = kept.states.tracks.iter().position(|track| (track.machine, track.of) == of)?;
        Some((kept, at))
    }

    /// The visits of the open track in a range.
    fn visits(&self, state: &TraceState, range: Option<Range>) -> Rc<Vec<StatePiece>> {
        let (Some((kept, track)), Some(of)) = (self.open_track(state), self.open) else { return Rc::default() };
        let key = (state.version, of, range_of(state, range));
        let mut held = self.held.borrow_mut();
        if held.as_ref().is_none_or(|(of, _)| *of != key) {
            *held = Some((key, Rc::new(pieces(kept, track, key.2).collect())));
        }
        held.as_ref().map_or_else(Rc::default, |(_, visits)| visits.clone())
    }

    /// Are visits shown?
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// The cursor of the list that is shown.
    pub(crate) fn cursor(&mut self) -> &mut Cursor {
        if self.is_open() { &mut self.visits } else { &mut self.tracks }
    }

    pub(crate) fn len(&self, state: &TraceState, range: Option<Range>) -> usize {
        if self.is_open() { self.visits(state, range).len() } else { Self::shown(state).len() }
    }

    pub(crate) fn step(&mut self, state: &TraceState, range: Option<Range>, step: CursorMove) {
        let count = self.len(state, range);
        self.cursor().step(step, count);
    }

    /// The beginning of the chosen visit.
    pub(crate) fn time(&self, state: &TraceState, range: Option<Range>) -> Option<i128> {
        self.visits(state, range).get(self.visits.at).map(|piece| piece.from)
    }

    /// Shows the visits of the chosen track.
    pub(crate) fn open(&mut self, state: &TraceState) {
        let Some((kept, track)) = state.states().zip(self.track(state)) else { return };
        let track = &kept.states.tracks[track];
        self.open = Some((track.machine, track.of));
        self.visits = Cursor::default();
    }

    /// Shows the tracks again.
    pub(crate) fn close(&mut self) {
        self.open = None;
    }

    /// Goes to the visit at a time, or to the next one.
    pub(crate) fn go_to(&mut self, state: &TraceState, range: Option<Range>, ns: i128) {
        let visits = self.visits(state, range);
        let at = visits.partition_point(|piece| piece.to <= ns);
        self.visits.at = at.min(visits.len().saturating_sub(1));
    }

    /// Chooses the next track, or the next visit, whose name has a text.
    pub(crate) fn search(&mut self, state: &TraceState, range: Option<Range>, text: &str, is_next: bool) -> bool {
        let Some(kept) = state.states() else { return false };
        let text = text.to_lowercase();
        let names: Vec<&str> = if self.is_open() {
            self.visits(state, range).iter().map(|piece| &*kept.states.names[piece.name as usize]).collect()
        } else {
            Self::shown(state).iter().map(|track| &*kept.states.tracks[*track].name).collect()
        };
        let at = self.cursor().at;
        let found = next_of(names.len(), at, is_next, |at| names[at].to_lowercase().contains(&text));
        if let Some(found) = found {
            self.cursor().at = found;
        }
        found.is_some()
    }

    /// The place of the cursor, and what is missing, in words.
    pub(crate) fn status(&self, state: &TraceState, range: Option<Range>) -> Vec<String> {
        let count = self.len(state, range);
        let mut parts = match self.open_track(state) {
            Some((kept, track)) => {
                let at = (self.visits.at + 1).min(count);
                vec![format!("{at} of {count} visits of {}", visible(&kept.states.tracks[track].name))]
            }
            None => vec![format!("{count} tracks")],
        };
        parts.extend(state.states().into_iter().flat_map(|kept| &kept.states.left_out).map(|text| visible(text)));
        parts
    }

    /// The header, the lines in sight, the chosen one, details.
    pub(crate) fn lines(
        &mut self,
        state: &TraceState,
        range: Option<Range>,
        clock: &mut TimePrinter,
        (width, height): (usize, usize),
        is_plain: bool,
    ) -> (String, Vec<String>, Option<usize>, Vec<String>) {
        let Some(kept) = state.states() else { return (String::new(), Vec::new(), None, Vec::new()) };
        if let Some((kept, track)) = self.open_track(state) {
            let visits = self.visits(state, range);
            let top = self.visits.top(height);
            let line = |piece: &StatePiece| {
                let time = left(&clock.text(Some(piece.from)), TIME);
                let took = right(&duration(piece.to - piece.from), 11);
                cut(&format!("{time} {took}  {}", visible(&kept.states.names[piece.name as usize])), width)
            };
            let lines: Vec<String> = visits.iter().skip(top).take(height.max(1)).map(line).collect();
            let title = visible(&kept.states.tracks[track].name);
            let header = cut(&format!("{} {}  state of {title}", left("begin", TIME), right("duration", 11)), width);
            let chosen = (!lines.is_empty()).then(|| self.visits.at - top);
            return (header, lines, chosen, details(state, kept, track, range, width));
        }
        let shown = Self::shown(state);
        let (top, range_shown) = (self.tracks.top(height), range_of(state, range));
        let of_name = NAME.min(width / 3);
        let letters = Letters::new(kept);
        let key = (state.version, range_shown, width);
        if self.lines.0 != key {
            self.lines = (key, HashMap::new());
        }
        let known = &mut self.lines.1;
        let line = |track: &usize| {
            let name = left(&visible(&kept.states.tracks[*track].name), of_name);
            let rest = known.entry(*track).or_insert_with(|| match is_plain {
                true => in_words(state, kept, *track, range),
                false => letters.strip(kept, *track, range_shown, width.saturating_sub(of_name + 1)),
            });
            cut(&format!("{name} {rest}"), width)
        };
        let lines: Vec<String> = shown.iter().skip(top).take(height.max(1)).map(line).collect();
        if lines.is_empty() {
            return (String::new(), lines, None, Vec::new());
        }
        let what = if is_plain { "states" } else { "states over the time, by their letters" };
        let header = cut(&format!("{} {what}", left("track", of_name)), width);
        let track = shown.get(self.tracks.at).copied();
        let details = track.map_or(Vec::new(), |track| details(state, kept, track, range, width));
        (header, lines, Some(self.tracks.at - top), details)
    }
}

/// First and last ns that are shown.
fn range_of(state: &TraceState, range: Option<Range>) -> Range {
    let (begin, end) = state.ends();
    range.unwrap_or((begin.unwrap_or(0), end.unwrap_or(0)))
}

/// The pieces of a track in which it is in a state: of CPUs, which run threads too, those of the last lane.
fn pieces(kept: &StateTracks, track: usize, range: Range) -> impl Iterator<Item = StatePiece> {
    let last = kept.states.tracks[track].depth().saturating_sub(1);
    kept.states.pieces_in(track, last, range)
}

/// The states of a track, the longest first: name, share of the time in which it is in any, number, time.
fn sums(state: &TraceState, kept: &StateTracks, track: usize, range: Option<Range>) -> Vec<(String, f64, u64, i128)> {
    let found = kept.states.statistics(Some(range_of(state, range)), &[track], &|| false).unwrap_or_default();
    let own = || found.iter().filter(|of| of.kind != StateKind::Running);
    let whole = own().map(|of| of.total).sum::<i128>().max(1) as f64;
    own()
        .map(|of| {
            let name = of.name.map_or("idle", |name| &kept.states.names[name as usize]);
            (visible(name), of.total as f64 / whole * 100.0, of.pieces, of.total)
        })
        .collect()
}

fn in_words(state: &TraceState, kept: &StateTracks, track: usize, range: Option<Range>) -> String {
    let sums = sums(state, kept, track, range);
    let mut words: Vec<String> =
        sums.iter().take(IN_WORDS).map(|(name, share, ..)| format!("{name} {share:.0} %")).collect();
    if sums.len() > IN_WORDS {
        words.push(format!("{} more", sums.len() - IN_WORDS));
    }
    words.join(", ")
}

/// All states of a track with their letters and sums, a line each.
fn details(state: &TraceState, kept: &StateTracks, track: usize, range: Option<Range>, width: usize) -> Vec<String> {
    let letters = Letters::new(kept);
    let line = |(name, share, pieces, total): (String, f64, u64, i128)| {
        let letter = letters.of(&name);
        let times = if pieces == 1 { "once".to_string() } else { format!("{pieces} times") };
        cut(&format!("{letter}  {}  {share:5.1} %  {}  {times}", left(&name, NAME), right(&duration(total), 11)), width)
    };
    let of = &kept.states.tracks[track];
    let head = cut(&visible(&of.name), width);
    std::iter::once(head).chain(sums(state, kept, track, range).into_iter().map(line)).collect()
}

/// The letters of states on lines of tracks.
struct Letters(HashMap<String, char>);

/// Letters of the states of CPUs and threads.
const KNOWN: [(&str, char); 14] = [
    ("unknown", '?'),
    ("idle", ' '),
    ("user", 'u'),
    ("system call", 's'),
    ("trap", 't'),
    ("kernel", 'k'),
    ("interrupt", 'i'),
    ("softirq", 'o'),
    ("runnable", 'r'),
    ("blocked", '-'),
    ("new", 'n'),
    ("exiting", 'e'),
    ("zombie", 'z'),
    ("suspended", '_'),
];

/// The letter of all states for which none is left.
const OTHER: char = '*';

impl Letters {
    /// Of all states that tracks are in. A state has the first sign of its name that no other one has.
    fn new(kept: &StateTracks) -> Letters {
        let known = KNOWN.map(|(name, letter)| (name.to_string(), letter));
        let mut letters: HashMap<String, char> = HashMap::from(known);
        let mut used: Vec<char> = KNOWN.iter().map(|(_, letter)| *letter).collect();
        for (kind, name) in kept.states.present(&Vec::from_iter(kept.shown_tracks())) {
            let Some(name) = name.filter(|_| kind == StateKind::Custom) else { continue };
            let name = visible(&kept.states.names[name as usize]);
            let own = name.chars().filter(char::is_ascii_alphanumeric);
            let others = own.clone().map(|sign| sign.to_ascii_uppercase());
            let any = ('a'..='z').chain('A'..='Z').chain('0'..='9');
            if letters.contains_key(&name) {
                continue;
            }
            let letter = own.chain(others).chain(any).find(|sign| !used.contains(sign)).unwrap_or(OTHER);
            used.push(letter);
            letters.insert(name, letter);
        }
        Letters(letters)
    }

    fn of(&self, name: &str) -> char {
        self.0.get(name).copied().unwrap_or(OTHER)
    }

    /// The states of a track over a range, in so many columns: the state of most time in each.
    fn strip(&self, kept: &StateTracks, track: usize, (begin, end): Range, columns: usize) -> String {
        let columns = columns.max(1) as i128;
        let length = end - begin + 1;
        let edge = |column: i128| begin + length * column / columns;
        // By column: the state of most time, and that time.
        let mut most: Vec<HashMap<u32, i128>> = vec![HashMap::new(); columns as usize];
        for piece in pieces(kept, track, (begin, end)) {
            let (from, to) = (piece.from.max(begin), piece.to.min(end + 1));
            let first = (from - begin) * columns / length;
            for column in first.max(0)..columns {
                if edge(column) >= to && column > first {
                    break;
                }
                let time = to.min(edge(column + 1)) - from.max(edge(column));
                // A state that takes no time shows where nothing else is.
                *most[column as usize].entry(piece.name).or_default() += time.max(0);
            }
        }
        let letter = |times: &HashMap<u32, i128>| {
            let longest = times.iter().max_by_key(|(name, time)| (**time, std::cmp::Reverse(**name)));
            longest.map_or(' ', |(name, _)| self.of(&visible(&kept.states.names[*name as usize])))
        };
        most.iter().map(letter).collect()
    }
}
