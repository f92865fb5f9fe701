//! Calls in the order in which they began, indented by depth.

use std::collections::{HashMap, HashSet, VecDeque};

use tracemill_answers::TraceState;
use tracemill_lod::calls::{Call, SessionCalls};
use tracemill_lod::search::Direction;

use crate::cursor::CursorMove;
use crate::range::{Range, ns_range};
use crate::text::{TIME, TimePrinter, cut, duration, left, right, visible};

/// The place of a call among all: when it begins, its task, its number there.
type CallPlace = (i64, usize, u64);

/// A call of a task.
#[derive(Clone, Copy)]
struct CallRow {
    task: usize,
    call: Call,
}

impl CallRow {
    fn place(&self) -> CallPlace {
        (self.call.begin, self.task, self.call.number)
    }
}

/// Calls that a search looks at.
pub(crate) const SEARCHED: usize = 1_000_000;

/// The screen.
#[derive(Default)]
pub(crate) struct Replay {
    /// The first call in sight, and the chosen one.
    top: Option<CallPlace>,
    at: Option<CallPlace>,
    folded: HashSet<(usize, u64)>,
    /// Calls that stand on so many others are not shown.
    depth: Option<usize>,
    /// The task; `None` for all.
    task: Option<usize>,
}

/// The calls as they are shown.
struct ShownCalls<'r> {
    calls: &'r SessionCalls,
    replay: &'r Replay,
    range: (i64, i64),
}

impl ShownCalls<'_> {
    fn tasks(&self) -> impl Iterator<Item = usize> {
        let task = self.replay.task;
        (0..self.calls.tasks.len()).filter(move |own| task.is_none_or(|task| task == *own))
    }

    /// Are the calls that it makes hidden?
    fn is_closed(&self, row: &CallRow) -> bool {
        self.replay.depth.is_some_and(|depth| row.call.depth + 1 >= depth)
            || self.replay.folded.contains(&(row.task, row.call.number))
    }

    fn row(&self, task: usize, number: u64) -> Option<CallRow> {
        let call = self.calls.call(task, number)?;
        Some(CallRow { task, call })
    }

    /// The call itself, or the outermost closed one that it is inside of.
    fn visible(&self, row: CallRow) -> CallRow {
        let (mut visible, mut inner) = (row, row);
        while let Some(outer) = inner.call.parent.and_then(|parent| self.row(row.task, parent)) {
            if self.is_closed(&outer) {
                visible = outer;
            }
            inner = outer;
        }
        visible
    }

    /// The next visible call of the task.
    fn next(&self, row: &CallRow) -> Option<CallRow> {
        let CallRow { task, call } = *row;
        if !self.is_closed(row) {
            return self.row(task, call.number + 1);
        }
        // A call without an end contains all calls that follow.
        let behind = self.calls.locate(task, call.end? - 1, Direction::Next);
        let mut next = match behind {
            Some(behind) if behind.number > call.number => CallRow { task, call: behind },
            _ => self.row(task, call.number + 1)?,
        };
        while next.call.depth > call.depth {
            next = self.row(task, next.call.number + 1)?;
        }
        Some(next)
    }

    /// The first visible call of a task that is not before a place.
    fn first_from(&self, task: usize, place: CallPlace) -> Option<CallRow> {
        let mut row = CallRow { task, call: self.calls.locate(task, place.0.saturating_sub(1), Direction::Next)? };
        while row.place() < place {
            row = self.row(task, row.call.number + 1)?;
        }
        let visible = self.visible(row);
        if visible.call.number == row.call.number { Some(row) } else { self.next(&visible) }
    }

    /// The last visible call of a task before a place.
    fn last_before(&self, task: usize, (begin, of, number): CallPlace) -> Option<CallRow> {
        let row = match task.cmp(&of) {
            std::cmp::Ordering::Equal => self.row(task, number.checked_sub(1)?)?,
            order => {
                // Calls of tasks that come first may begin at the same time.
                let begin = if order.is_lt() { begin.saturating_add(1) } else { begin };
                CallRow { task, call: self.calls.locate(task, begin, Direction::Previous)? }
            }
        };
        Some(self.visible(row))
    }

    /// Visible calls from a place on, in order.
    fn from(&self, place: CallPlace) -> impl Iterator<Item = CallRow> {
        let place = place.max((self.range.0, 0, 0));
        let mut heads: Vec<CallRow> = self.tasks().filter_map(|task| self.first_from(task, place)).collect();
        std::iter::from_fn(move || {
            let at = (0..heads.len()).min_by_key(|&at| heads[at].place())?;
            let row = heads[at];
            match self.next(&row) {
                Some(next) => heads[at] = next,
                None => drop(heads.swap_remove(at)),
            }
            (row.call.begin <= self.range.1).then_some(row)
        })
    }

    /// Visible calls before a place, the last one first.
    fn before(&self, place: CallPlace) -> impl Iterator<Item = CallRow> {
        let place = place.min((self.range.1, usize::MAX, u64::MAX));
        let mut heads: Vec<CallRow> = self.tasks().filter_map(|task| self.last_before(task, place)).collect();
        std::iter::from_fn(move || {
            let at = (0..heads.len()).max_by_key(|&at| heads[at].place())?;
            let row = heads[at];
            match self.last_before(row.task, row.place()) {
                Some(before) => heads[at] = before,
                None => drop(heads.swap_remove(at)),
            }
            (row.call.begin >= self.range.0).then_some(row)
        })
    }

    /// The call at a place, or the closed one that hides it, or the next one.
    fn find(&self, place: CallPlace) -> Option<CallRow> {
        let row = self.row(place.1, place.2).filter(|row| row.place() == place);
        row.map(|row| self.visible(row)).or_else(|| self.from(place).next())
    }
}

/// By tasks: those that they are after the traces have grown.
fn same_tasks(before: &SessionCalls, now: &SessionCalls) -> Vec<Option<usize>> {
    let mut new: HashMap<(usize, i64), VecDeque<usize>> = HashMap::new();
    for (at, task) in now.tasks.iter().enumerate() {
        new.entry((task.trace, task.tid)).or_default().push_back(at);
    }
    before.tasks.iter().map(|task| new.get_mut(&(task.trace, task.tid))?.pop_front()).collect()
}

/// Before all calls.
const FIRST: CallPlace = (i64::MIN, 0, 0);
const LAST: CallPlace = (i64::MAX, usize::MAX, u64::MAX);

impl Replay {
    fn visible_calls<'r>(&'r self, calls: &'r SessionCalls, range: Option<Range>) -> ShownCalls<'r> {
        ShownCalls { calls, replay: self, range: ns_range(range, calls) }
    }

    fn chosen(&self, shown: &ShownCalls<'_>) -> Option<CallRow> {
        shown.find(self.at.unwrap_or(FIRST)).or_else(|| shown.before(LAST).next())
    }

    /// Is the last call chosen?
    pub(crate) fn is_at_end(&self, state: &TraceState, range: Option<Range>) -> bool {
        let Some(calls) = state.calls() else { return true };
        let shown = self.visible_calls(calls, range);
        let last = shown.before(LAST).next().map(|row| row.place());
        self.chosen(&shown).map(|row| row.place()) == last
    }

    /// The traces have grown: the chosen call and the first one in sight stay, and so do calls that are folded.
    pub(crate) fn grow(&mut self, before: &TraceState, now: &TraceState) {
        let (Some(before), Some(now)) = (before.calls(), now.calls()) else {
            *self = Replay::default();
            return;
        };
        let tasks = same_tasks(before, now);
        let task = |task: usize| tasks.get(task).copied().flatten();
        let place = |(begin, of, number): CallPlace| {
            let is_it = |of: &usize| now.call(*of, number).is_some_and(|call| call.begin == begin);
            task(of).filter(is_it).map_or((begin, 0, 0), |of| (begin, of, number))
        };
        // Places before and after all calls are of no task.
        let moved = |at: CallPlace| if [FIRST, LAST].contains(&at) { at } else { place(at) };
        (self.at, self.top) = (self.at.map(moved), self.top.map(moved));
        self.task = self.task.and_then(task);
        self.folded = self.folded.iter().filter_map(|&(of, number)| Some((task(of)?, number))).collect();
    }

    /// Moves the cursor.
    pub(crate) fn step(&mut self, state: &TraceState, range: Option<Range>, step: CursorMove) {
        let Some(calls) = state.calls() else { return };
        let shown = self.visible_calls(calls, range);
        let found = match step {
            CursorMove::Home => shown.from(FIRST).next(),
            CursorMove::End => shown.before(LAST).next(),
            CursorMove::By(by) => {
                let Some(row) = self.chosen(&shown) else { return };
                let many = usize::try_from(by.unsigned_abs()).unwrap_or(usize::MAX);
                match by >= 0 {
                    true => shown.from(row.place()).take(many.saturating_add(1)).last(),
                    false => shown.before(row.place()).take(many).last(),
                }
            }
        };
        if let Some(row) = found {
            self.at = Some(row.place());
        }
    }

    /// Goes to the first call that does not begin before a time.
    pub(crate) fn go_to(&mut self, state: &TraceState, range: Option<Range>, ns: i128) {
        let Some(calls) = state.calls() else { return };
        let ns = ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        let found = self.visible_calls(calls, range).from((ns, 0, 0)).next().map(|row| row.place());
        self.at = found.or(Some(LAST));
    }

    /// The begin of the chosen call.
    pub(crate) fn time(&self, state: &TraceState, range: Option<Range>) -> Option<i128> {
        let shown = self.visible_calls(state.calls()?, range);
        self.chosen(&shown).map(|row| row.call.begin.into())
    }

    /// The name of the function of the chosen call.
    pub(crate) fn function(&self, state: &TraceState, range: Option<Range>) -> Option<String> {
        let calls = state.calls()?;
        let row = self.chosen(&self.visible_calls(calls, range))?;
        Some(calls.names[row.call.name as usize].clone())
    }

    /// Hides the calls that the chosen one makes, or shows them.
    pub(crate) fn fold(&mut self, state: &TraceState, range: Option<Range>) {
        let Some(calls) = state.calls() else { return };
        let Some(row) = self.chosen(&self.visible_calls(calls, range)) else { return };
        let key = (row.task, row.call.number);
        if !self.folded.remove(&key) {
            self.folded.insert(key);
        }
        self.at = Some(row.place());
    }

    /// Goes to the call that made the chosen one.
    pub(crate) fn up(&mut self, state: &TraceState, range: Option<Range>) {
        let Some(calls) = state.calls() else { return };
        let shown = self.visible_calls(calls, range);
        let made_by = self.chosen(&shown).and_then(|row| shown.row(row.task, row.call.parent?));
        if let Some(row) = made_by {
            self.at = Some(row.place());
        }
    }

    /// Shows less deep calls, or deeper ones.
    pub(crate) fn deeper(&mut self, state: &TraceState, is_deeper: bool) {
        let Some(calls) = state.calls() else { return };
        let deepest = calls.tasks.iter().map(|task| task.depth as usize).max().unwrap_or(0);
        let depth = self.depth.unwrap_or(deepest);
        let depth = if is_deeper { depth + 1 } else { depth.saturating_sub(1).max(1) };
        self.depth = (depth < deepest).then_some(depth);
    }

    /// Shows the next task alone; after the last one all of them.
    pub(crate) fn next_task(&mut self, state: &TraceState) {
        let Some(calls) = state.calls() else { return };
        let first = self.task.map_or(0, |task| task + 1);
        self.task = (first..calls.tasks.len()).find(|task| calls.tasks[*task].calls > 0);
    }

    /// Limits of what is shown, in words.
    pub(crate) fn limits(&self, state: &TraceState) -> Vec<String> {
        let Some(calls) = state.calls() else { return Vec::new() };
        let task = self.task.map(|task| &calls.tasks[task]);
        let task = task.map(|task| format!("task {} {}", task.tid, visible(&task.name)));
        task.into_iter().chain(self.depth.map(|depth| format!("depth {depth}"))).collect()
    }

    /// Chooses the next call of a function whose name holds a text.
    pub(crate) fn search(&mut self, state: &TraceState, range: Option<Range>, text: &str, is_next: bool) -> bool {
        let Some(calls) = state.calls() else { return false };
        let text = text.to_lowercase();
        let is_meant: Vec<bool> = calls.names.iter().map(|name| name.to_lowercase().contains(&text)).collect();
        let shown = self.visible_calls(calls, range);
        let Some(row) = self.chosen(&shown) else { return false };
        let is_it = |row: &CallRow| is_meant[row.call.name as usize];
        let found = match is_next {
            true => shown.from(row.place()).skip(1).take(SEARCHED).find(is_it),
            false => shown.before(row.place()).take(SEARCHED).find(is_it),
        };
        let place = found.map(|row| row.place());
        self.at = place.or(self.at);
        place.is_some()
    }

    /// Makes the chosen line the first one in sight.
    pub(crate) fn scroll(&mut self) {
        self.top = self.at;
    }

    /// The header, which says who called the first line, the lines in sight, the chosen one.
    pub(crate) fn lines(
        &mut self,
        state: &TraceState,
        range: Option<Range>,
        clock: &mut TimePrinter,
        (width, height): (usize, usize),
    ) -> (String, Vec<String>, Option<usize>) {
        let Some(calls) = state.calls() else { return (String::new(), Vec::new(), None) };
        let height = height.max(1);
        let shown = self.visible_calls(calls, range);
        let Some(chosen) = self.chosen(&shown) else { return (String::new(), Vec::new(), None) };
        let page = |top: CallPlace| shown.from(top).take(height).collect::<Vec<CallRow>>();
        let is_chosen = |row: &CallRow| row.place() == chosen.place();
        let mut rows = page(self.top.unwrap_or(FIRST));
        if !rows.iter().any(is_chosen) {
            let is_above = self.top.is_some_and(|top| chosen.place() < top);
            let above = if is_above { 0 } else { height - 1 };
            rows = page(shown.before(chosen.place()).take(above).last().unwrap_or(chosen).place());
        }
        let top = rows.first().map(CallRow::place);
        let mut callers = Vec::new();
        let mut outer = rows.first().and_then(|row| shown.row(row.task, row.call.parent?));
        while let Some(row) = outer {
            callers.push(visible(&calls.names[row.call.name as usize]));
            outer = row.call.parent.and_then(|parent| shown.row(row.task, parent));
        }
        callers.reverse();
        let inside = if callers.is_empty() { String::new() } else { format!("  in {}", callers.join(" > ")) };
        let header = format!("{} {} {} call{inside}", left("time", TIME), right("duration", 11), right("tid", 7));
        let mut line = |row: &CallRow| {
            let call = &row.call;
            let length = call.end.map_or("no end".to_string(), |end| duration(end - call.begin));
            let has_inner =
                shown.row(row.task, call.number + 1).is_some_and(|next| next.call.parent == Some(call.number));
            let fold = if has_inner && shown.is_closed(row) { "+ " } else { "  " };
            let line = format!(
                "{} {} {} {}{fold}{}",
                left(&clock.text(Some(call.begin.into())), TIME),
                right(&length, 11),
                right(&calls.tasks[row.task].tid.to_string(), 7),
                "  ".repeat(call.depth.min(60)),
                visible(&calls.names[call.name as usize])
            );
            cut(&line, width)
        };
        let lines = rows.iter().map(&mut line).collect();
        let at = rows.iter().position(is_chosen);
        (self.top, self.at) = (top, Some(chosen.place()));
        (cut(&header, width), lines, at)
    }

    /// The place of the chosen call among those of its task, and their number.
    pub(crate) fn count(&self, state: &TraceState) -> u64 {
        let tasks = state.calls().into_iter().flat_map(|calls| calls.tasks.iter().enumerate());
        tasks.filter(|(at, _)| self.task.is_none_or(|task| task == *at)).map(|(_, task)| task.calls).sum()
    }
}
