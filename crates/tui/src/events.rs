//! The table of events.

use std::sync::Arc;

use tracemill_answers::{Row, TraceState, read_rows};
use tracemill_lod::search;
use tracemill_lod::{EventSet, Index};

use crate::cursor::{Cursor, CursorMove};
use crate::range::Range;
use crate::text::{self, TIME, TimePrinter, left, right, visible};
use crate::work::Work;

/// Lines for the fields of the chosen event.
pub(crate) const DETAILS: usize = 6;

/// The table.
#[derive(Default)]
pub(crate) struct EventsScreen {
    /// Among the wanted rows.
    pub(crate) cursor: Cursor,
    /// The filter, and what it leaves.
    filter: Option<String>,
    set: Work<FilterResult>,
    /// The rows that were read last, for the question that they answer.
    rows: Option<(RowsKey, Result<Vec<Row>, String>)>,
}

/// The events that a filter leaves, or what is wrong with it.
pub(crate) type FilterResult = Result<Arc<EventSet>, String>;

/// Names the rows of the table: from which on, how many, with which filter, whether events had numbers.
type RowsKey = (usize, usize, Option<String>, Option<Range>, bool);

/// Events that are shown before they have numbers.
const EARLY: usize = 200;

impl EventsScreen {
    fn chosen_set(&self) -> Option<&EventSet> {
        self.set.get()?.as_ref().ok().map(|set| &**set)
    }

    /// Numbers of the first wanted row and of the one after the last, among those of the filter.
    fn span(&self, state: &TraceState, range: Option<Range>) -> (usize, usize) {
        let Some(index) = state.index() else { return (0, EARLY) };
        let rank = |event: usize| self.chosen_set().map_or(event, |set| set.rank(event));
        let from = |ns: i128| rank(index.first_from(ns).unwrap_or(index.events()));
        let all = (0, self.chosen_set().map_or(index.events(), EventSet::len));
        range.map_or(all, |(begin, end)| (from(begin), from(end.saturating_add(1))))
    }

    /// How many rows there are.
    pub(crate) fn len(&self, state: &TraceState, range: Option<Range>) -> usize {
        let (first, behind) = self.span(state, range);
        behind.saturating_sub(first)
    }

    /// The number of an event by its row.
    fn event(&self, state: &TraceState, range: Option<Range>, row: usize) -> Option<usize> {
        let place = self.span(state, range).0 + row;
        match (state.index(), self.chosen_set()) {
            (Some(index), None) => (place < index.events()).then_some(place),
            (Some(_), Some(set)) => set.select(place),
            (None, _) => Some(place),
        }
    }

    /// Sets another filter; an empty one is none.
    pub(crate) fn set_filter(&mut self, state: &Arc<TraceState>, text: &str) {
        self.cursor = Cursor::default();
        self.rows = None;
        if text.trim().is_empty() {
            self.filter = None;
            self.set.clear();
            return;
        }
        self.filter = Some(text.to_string());
        let (state, text) = (state.clone(), text.to_string());
        self.set.begin(move || filtered(&state, &text));
    }

    /// Is the last row chosen?
    pub(crate) fn is_at_end(&self, state: &TraceState, range: Option<Range>) -> bool {
        self.cursor.at + 1 >= self.len(state, range)
    }

    /// The traces have grown: the chosen row and the first one in sight stay those of their events. `set`: what the filter leaves
    /// of them now.
    pub(crate) fn grow(&mut self, [before, now]: [(&TraceState, Option<Range>); 2], set: Option<FilterResult>) {
        let places = [self.cursor.at, self.cursor.first()].map(|row| self.event(before.0, before.1, row));
        if let Some(set) = set {
            self.set.set(set);
        }
        self.rows = None;
        let (Some(old), Some(new)) = (before.0.index(), now.0.index()) else { return };
        let [at, top] = places.map(|event| event.map_or(0, |event| self.row(now, same_event(old, new, event))));
        self.cursor.place(at, top);
    }

    /// The filter.
    pub(crate) fn filter(&self) -> Option<&str> {
        self.filter.as_deref()
    }

    /// Takes note of what was done meanwhile. Says what is wrong with the filter.
    pub(crate) fn poll(&mut self) -> (bool, Option<String>) {
        let is_new = self.set.poll();
        let wrong = self.set.get().and_then(|set| set.as_ref().err().cloned());
        if wrong.is_some() {
            self.filter = None;
            self.set.clear();
        }
        (is_new, wrong)
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.set.is_running()
    }

    /// Moves the cursor.
    pub(crate) fn step(&mut self, state: &TraceState, range: Option<Range>, step: CursorMove) {
        self.cursor.step(step, self.len(state, range));
    }

    /// Goes to the first row that is not before a time.
    pub(crate) fn go_to(&mut self, state: &TraceState, range: Option<Range>, ns: i128) {
        let Some(index) = state.index() else { return };
        let event = index.first_from(ns).unwrap_or(index.events().saturating_sub(1));
        self.go_to_event(state, range, event);
    }

    fn go_to_event(&mut self, state: &TraceState, range: Option<Range>, event: usize) {
        self.cursor.at = self.row((state, range), event);
    }

    /// The row of an event, or the next one where it is not shown.
    fn row(&self, (state, range): (&TraceState, Option<Range>), event: usize) -> usize {
        let rank = self.chosen_set().map_or(event, |set| set.rank(event));
        let (first, behind) = self.span(state, range);
        rank.clamp(first, behind.max(first + 1) - 1) - first
    }

    /// The time of the chosen row.
    pub(crate) fn time(&self, state: &TraceState, range: Option<Range>) -> Option<i128> {
        state.index()?.ns(self.event(state, range, self.cursor.at)?)
    }

    /// Chooses the next event whose name holds a text. Says whether there is one.
    pub(crate) fn search(&mut self, state: &TraceState, range: Option<Range>, text: &str, is_next: bool) -> bool {
        let (Some(index), Some(event)) = (state.index(), self.event(state, range, self.cursor.at)) else {
            return false;
        };
        let (first, behind) = self.span(state, range);
        let found =
            search::find(index, text, (event as i64, is_next), self.chosen_set(), &|| false).unwrap_or_default();
        let rank = |event: usize| self.chosen_set().map_or(event, |set| set.rank(event));
        match found.event.filter(|event| (first..behind).contains(&rank(*event))) {
            Some(event) => {
                self.go_to_event(state, range, event);
                true
            }
            None => false,
        }
    }

    /// The header, the lines in sight with the chosen one, and what is known of that.
    pub(crate) fn lines(
        &mut self,
        state: &TraceState,
        range: Option<Range>,
        clock: &mut TimePrinter,
        (width, height): (usize, usize),
    ) -> (String, Vec<String>, Option<usize>, Vec<String>) {
        let (top, height) = (self.cursor.top(height), height.max(1));
        let count = self.len(state, range).saturating_sub(top).min(height);
        let question = (top, count, self.filter.clone(), range, state.index().is_some());
        if self.rows.as_ref().is_none_or(|(known, _)| *known != question) {
            let wanted: Vec<usize> = (top..top + count).map_while(|row| self.event(state, range, row)).collect();
            let read = read_rows(state, state.index().map(|index| &**index), &wanted, false);
            self.rows = Some((question, read.map_err(|error| error.message().to_string())));
        }
        let rows = match &self.rows {
            Some((_, Ok(rows))) => &rows[..],
            Some((_, Err(wrong))) => return (text::cut(wrong, width), Vec::new(), None, Vec::new()),
            None => &[],
        };
        let track = |row: &Row| match state.index() {
            Some(index) => index.kind(row.event).map(|(_, track)| index.tracks[track].name.clone()).unwrap_or_default(),
            None => row.stream_name.clone(),
        };
        let names: Vec<String> = rows.iter().map(|row| visible(row.name.as_deref().unwrap_or("-"))).collect();
        let tracks: Vec<String> = rows.iter().map(|row| visible(&track(row))).collect();
        let widest = |texts: &[String], most: usize| {
            let widths = texts.iter().map(|text| unicode_width::UnicodeWidthStr::width(&**text));
            widths.max().unwrap_or(0).clamp(5, most)
        };
        let of_name = widest(&names, (width / 4).clamp(16, 40));
        let of_track = if width >= 100 { widest(&tracks, 16) } else { 0 };
        let of_number = rows.last().map_or(1, |row| row.event.to_string().len()).max(5);
        let mut header = format!("{} {} {} ", right("event", of_number), left("time", TIME), right("since", 12));
        if of_track > 0 {
            header += &format!("{} ", left("track", of_track));
        }
        header += &format!("{} fields", left("name", of_name));
        let time = |row: &Row| state.index().map_or(row.ns, |index| index.ns(row.event));
        let mut before =
            top.checked_sub(1).and_then(|row| self.event(state, range, row)).and_then(|event| state.index()?.ns(event));
        let mut lines = Vec::with_capacity(rows.len());
        for ((row, name), track) in rows.iter().zip(&names).zip(&tracks) {
            let ns = time(row);
            let since = ns.zip(before).map_or("-".to_string(), |(ns, before)| text::duration(ns - before));
            before = ns;
            let mut line = format!(
                "{} {} {} ",
                right(&row.event.to_string(), of_number),
                left(&clock.text(ns), TIME),
                right(&since, 12)
            );
            if of_track > 0 {
                line += &format!("{} ", left(track, of_track));
            }
            line += &format!("{} {}", left(name, of_name), visible(&row.text));
            lines.push(text::cut(&line, width));
        }
        let details = rows.get(self.cursor.at - top).map_or(Vec::new(), |row| details(row, width));
        let chosen = (!rows.is_empty()).then(|| (self.cursor.at - top).min(rows.len() - 1));
        (header, lines, chosen, details)
    }
}

/// The events that a filter leaves.
pub(crate) fn filtered(state: &TraceState, text: &str) -> FilterResult {
    state.set(text).map_err(|error| match error.help() {
        Some(help) => format!("{}: {help}", error.message()),
        None => error.message().to_string(),
    })
}

/// The number that an event has after the traces have grown: others may have come before it.
fn same_event(before: &Index, now: &Index, event: usize) -> usize {
    fn key(index: &Index, event: usize) -> Option<(Option<i128>, &str, &str)> {
        let (name, track) = index.kind(event)?;
        Some((index.ns(event), name, &index.tracks[track].name))
    }
    let wanted = key(before, event);
    if key(now, event) == wanted {
        return event;
    }
    let last = now.events().saturating_sub(1);
    let Some(ns) = before.ns(event) else { return event.min(last) };
    let first = now.first_from(ns).unwrap_or(last);
    let of_time = (first..now.events()).take_while(|event| now.ns(*event) == Some(ns));
    of_time.into_iter().find(|event| key(now, *event) == wanted).unwrap_or(first)
}

/// The fields of an event, in as many lines as there is room for.
fn details(row: &Row, width: usize) -> Vec<String> {
    let place = &row.place;
    let mut lines = Vec::new();
    let mut line = String::new();
    for field in &row.fields {
        let one = visible(&format!("{} = {}", field.path, field.text));
        let is_full = line.len() + one.len() + 3 > width && !line.is_empty();
        if is_full {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line += "   ";
        }
        line += &one;
    }
    lines.push(line);
    let all = lines.len();
    lines.truncate(DETAILS - 1);
    if all > lines.len()
        && let Some(last) = lines.last_mut()
    {
        *last = format!("{} ..", text::cut(last, width.saturating_sub(3)));
    }
    lines.push(format!("packet {}, byte {} bit {} of {}", place.packet, place.byte, place.bit, visible(&place.file)));
    lines.into_iter().map(|line| text::cut(&line, width)).collect()
}
