//! Meaning of keys.

mod follow;
mod shown;

use std::sync::Arc;

use tracemill_answers::TraceState;
use tracemill_engine::parsed_query::ParsedQuery;

use crate::cursor::CursorMove;
use crate::events::EventsScreen;
use crate::graph::Graph;
use crate::range::Range;
use crate::replay::{Replay, SEARCHED};
use crate::report::Report;
use crate::samples::SampledEvents;
use crate::states::StatesScreen;
use crate::text::{TimePrinter, visible};
use follow::Following;

/// A key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "they are named after the keys")]
pub enum KeyPress {
    Char(char),
    Enter,
    Escape,
    Backspace,
    Tab,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
}

/// A screen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Screen {
    Events,
    Replay,
    Report,
    Graph,
    States,
}

const SCREENS: [(Screen, &str); 5] = [
    (Screen::Events, "events"),
    (Screen::Replay, "replay"),
    (Screen::Report, "report"),
    (Screen::Graph, "graph"),
    (Screen::States, "states"),
];

/// Purpose of a line that is typed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Prompt {
    Search,
    Filter,
    Time,
}

impl Prompt {
    fn label(self) -> &'static str {
        match self {
            Prompt::Search => "search: ",
            Prompt::Filter => "filter: ",
            Prompt::Time => "go to time: ",
        }
    }
}

/// All keys, and what they do.
const KEYS: &[(&str, &str)] = &[
    ("1 2 3 4 5, Tab", "events, replay, report, graph, states; R and G as in uftrace"),
    ("Up Down, k j", "line up, line down"),
    ("PageUp PageDown", "page up, page down"),
    ("Home End", "first line, last line; --follow stays at the last"),
    ("/  N  P", "search a name; next hit, previous hit"),
    ("F", "events: show those that a filter leaves; empty: all"),
    ("t", "events, replay, visits: go to a time"),
    ("<  >  =", "the range begins, ends at the chosen line; the whole time"),
    ("Enter", "replay, graph: fold, unfold; events: to the calls of that time"),
    ("Enter  u", "states: visits of a track, then events; back to the tracks"),
    ("c e  C E", "graph: fold, unfold the nodes below; all of them"),
    ("u  n p", "replay, graph: to the caller; graph: next, previous node beside"),
    ("[  ]", "replay: less deep, deeper"),
    ("T", "replay: one task after the other, then all"),
    ("s", "report: next sort key"),
    ("g  G", "graph of this function; of all"),
    ("v", "report, graph: samples of the next event"),
    ("w", "density over the whole time"),
    ("h ?", "these keys"),
    ("q", "end"),
];

/// How a line looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    Plain,
    Title,
    Header,
    Chosen,
    Dim,
}

/// How traces are shown.
#[derive(Clone, Copy, Default, Debug)]
pub struct TuiSettings {
    /// One line after the other, commands as lines of text.
    pub is_plain: bool,
    /// Colours; without them the chosen line is reversed.
    pub is_colored: bool,
    /// Universal time instead of local time.
    pub gmt: bool,
}

/// The state of the program.
pub struct App {
    state: Arc<TraceState>,
    settings: TuiSettings,
    clock: TimePrinter,
    screen: Screen,
    events: EventsScreen,
    replay: Replay,
    report: Report,
    graph: Graph,
    states: StatesScreen,
    range: Option<Range>,
    /// The event whose samples are shown; that of the most without it.
    sampled: Option<String>,
    prompt: Option<(Prompt, String)>,
    searched: String,
    message: Option<String>,
    has_strip: bool,
    has_help: bool,
    is_ended: bool,
    /// Lines of the list that were shown last.
    height: usize,
    was_complete: bool,
    has_calls: bool,
    /// `None` where traces are shown as they were when they were opened.
    following: Option<Following>,
}

impl App {
    /// Shows traces, whose [reading](TraceState::read) is another thread's work.
    pub fn new(state: Arc<TraceState>, settings: TuiSettings) -> App {
        let clock = TimePrinter::new(settings.gmt, state.input.traces.is_unix);
        App {
            state,
            settings,
            clock,
            screen: Screen::Events,
            events: EventsScreen::default(),
            replay: Replay::default(),
            report: Report::default(),
            graph: Graph::default(),
            states: StatesScreen::default(),
            sampled: None,
            range: None,
            prompt: None,
            searched: String::new(),
            message: None,
            has_strip: false,
            has_help: false,
            is_ended: false,
            height: 20,
            was_complete: false,
            has_calls: false,
            following: None,
        }
    }

    pub(crate) fn settings(&self) -> TuiSettings {
        self.settings
    }

    /// Was it asked to end?
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Is something on its way that will change what is shown?
    pub fn is_busy(&self) -> bool {
        !self.state.is_complete() || self.events.is_busy() || self.report.is_busy() || self.graph.is_busy()
    }

    /// Takes note of what was done meanwhile. Says whether something is new.
    pub fn poll(&mut self) -> bool {
        let (mut is_new, wrong) = self.events.poll();
        if let Some(wrong) = wrong {
            self.message = Some(wrong);
        }
        is_new |= self.report.poll();
        is_new |= self.graph.poll();
        is_new |= self.take_grown();
        let (is_complete, has_calls) = (self.state.is_complete(), self.state.calls().is_some());
        if is_complete != self.was_complete || has_calls != self.has_calls {
            (self.was_complete, self.has_calls) = (is_complete, has_calls);
            is_new = true;
            if self.following.is_some() {
                // Before, there was no last line.
                self.follow_end([self.events.cursor.at == 0, true]);
            }
        }
        match self.screen {
            Screen::Report => self.report.request(&self.state, self.range, self.sampled.as_deref()),
            Screen::Graph => self.graph.request(&self.state, self.range, self.sampled.as_deref()),
            Screen::Events | Screen::Replay | Screen::States => {}
        }
        is_new || !is_complete
    }

    /// Does what a key means.
    pub fn press(&mut self, key: KeyPress) {
        if self.prompt.is_some() {
            self.type_key(key);
            return;
        }
        self.message = None;
        if std::mem::take(&mut self.has_help) {
            self.is_ended |= key == KeyPress::Char('q');
            return;
        }
        let page = self.height.max(2) as i64 - 1;
        match key {
            KeyPress::Char('q') => self.is_ended = true,
            KeyPress::Char('h' | '?') => self.has_help = true,
            KeyPress::Char('1') => self.screen = Screen::Events,
            KeyPress::Char('2') => self.screen = Screen::Replay,
            KeyPress::Char('3' | 'R') => self.screen = Screen::Report,
            KeyPress::Char('4') => self.screen = Screen::Graph,
            KeyPress::Char('5') => self.screen = Screen::States,
            KeyPress::Tab => {
                let at = SCREENS.iter().position(|(screen, _)| *screen == self.screen).unwrap_or(0);
                self.screen = SCREENS[(at + 1) % SCREENS.len()].0;
            }
            KeyPress::Up | KeyPress::Char('k') => self.step(CursorMove::By(-1)),
            KeyPress::Down | KeyPress::Char('j') => self.step(CursorMove::By(1)),
            KeyPress::PageUp => self.step(CursorMove::By(-page)),
            KeyPress::PageDown => self.step(CursorMove::By(page)),
            KeyPress::Home => self.step(CursorMove::Home),
            KeyPress::End => self.step(CursorMove::End),
            KeyPress::Char('/') => self.prompt = Some((Prompt::Search, String::new())),
            KeyPress::Char('F') => {
                let old = self.events.filter().unwrap_or_default().to_string();
                self.prompt = Some((Prompt::Filter, old));
            }
            KeyPress::Char('t') => self.prompt = Some((Prompt::Time, String::new())),
            KeyPress::Char('N') => self.search(true),
            KeyPress::Char('P') => self.search(false),
            KeyPress::Char('<') => self.narrow(true),
            KeyPress::Char('>') => self.narrow(false),
            KeyPress::Char('=') => self.set_range(None),
            KeyPress::Char('w') => self.has_strip = !self.has_strip,
            KeyPress::Char('s') if self.screen == Screen::Report => self.report.next_key(),
            KeyPress::Char('v') if matches!(self.screen, Screen::Report | Screen::Graph) => self.next_sampled(),
            KeyPress::Char('g') => self.graph_of_chosen(),
            KeyPress::Char('G') => {
                self.screen = Screen::Graph;
                self.graph.choose(None);
            }
            key => self.press_on_screen(key),
        }
    }

    fn press_on_screen(&mut self, key: KeyPress) {
        let state = self.state.clone();
        match (self.screen, key) {
            (Screen::Events, KeyPress::Enter) => {
                if let Some(ns) = self.events.time(&state, self.range).filter(|_| state.calls().is_some()) {
                    self.screen = Screen::Replay;
                    self.replay.go_to(&state, self.range, ns);
                }
            }
            (Screen::Replay, KeyPress::Enter | KeyPress::Char(' ')) => self.replay.fold(&state, self.range),
            (Screen::Replay, KeyPress::Char('u')) => self.replay.up(&state, self.range),
            (Screen::Replay, KeyPress::Char('[')) => self.replay.deeper(&state, false),
            (Screen::Replay, KeyPress::Char(']')) => self.replay.deeper(&state, true),
            (Screen::Replay, KeyPress::Char('T')) => self.replay.next_task(&state),
            (Screen::Graph, KeyPress::Enter | KeyPress::Char(' ')) => self.graph.fold(),
            (Screen::States, KeyPress::Enter | KeyPress::Char(' ')) if self.states.is_open() => {
                if let Some(ns) = self.states.time(&state, self.range) {
                    self.screen = Screen::Events;
                    self.events.go_to(&state, self.range, ns);
                }
            }
            (Screen::States, KeyPress::Enter | KeyPress::Char(' ')) => self.states.open(&state),
            (Screen::States, KeyPress::Char('u') | KeyPress::Escape) => self.states.close(),
            (Screen::Graph, KeyPress::Char('u')) => self.graph.up(),
            (Screen::Graph, KeyPress::Char('n')) => self.graph.sibling(true),
            (Screen::Graph, KeyPress::Char('p')) => self.graph.sibling(false),
            (Screen::Graph, KeyPress::Char(fold @ ('c' | 'C'))) => self.graph.fold_below(true, fold == 'C'),
            (Screen::Graph, KeyPress::Char(fold @ ('e' | 'E'))) => self.graph.fold_below(false, fold == 'E'),
            (_, KeyPress::Char(sign)) => self.message = Some(format!("`{sign}` does nothing here; h shows the keys")),
            _ => {}
        }
    }

    fn type_key(&mut self, key: KeyPress) {
        let Some((prompt, text)) = &mut self.prompt else { return };
        match key {
            KeyPress::Char(sign) => text.push(sign),
            KeyPress::Backspace => drop(text.pop()),
            KeyPress::Escape => self.prompt = None,
            KeyPress::Enter => {
                let (prompt, text) = (*prompt, std::mem::take(text));
                self.prompt = None;
                self.answer(prompt, text);
            }
            _ => {}
        }
    }

    fn answer(&mut self, prompt: Prompt, text: String) {
        match prompt {
            Prompt::Search => {
                if !text.is_empty() {
                    self.searched = text;
                }
                self.search(true);
            }
            Prompt::Filter if self.state.index().is_none() => {
                self.message = Some("the events are being counted".to_string());
            }
            Prompt::Filter => {
                self.screen = Screen::Events;
                self.events.set_filter(&self.state, &text);
            }
            Prompt::Time => match self.instant(&text) {
                Ok(ns) if self.screen == Screen::Replay => self.replay.go_to(&self.state, self.range, ns),
                Ok(ns) if self.screen == Screen::States && self.states.is_open() => {
                    self.states.go_to(&self.state, self.range, ns);
                }
                Ok(ns) => {
                    self.screen = Screen::Events;
                    self.events.go_to(&self.state, self.range, ns);
                }
                Err(wrong) => self.message = Some(wrong),
            },
        }
    }

    /// A time as `--begin` takes it.
    fn instant(&self, text: &str) -> Result<i128, String> {
        let mut choice = ParsedQuery::default();
        let session = &self.state.input.traces.session;
        let found = choice.set_begin("time", text).and_then(|()| choice.bind(session, self.settings.gmt));
        let found = found.map_err(|error| error.message().to_string())?;
        found.0.begin_ns.ok_or_else(|| format!("`{text}` is not a time"))
    }

    fn step(&mut self, step: CursorMove) {
        match self.screen {
            Screen::Events => self.events.step(&self.state, self.range, step),
            Screen::Replay => self.replay.step(&self.state, self.range, step),
            Screen::Report => self.report.step(step),
            Screen::Graph => self.graph.step(step),
            Screen::States => self.states.step(&self.state, self.range, step),
        }
    }

    fn search(&mut self, is_next: bool) {
        let text = self.searched.clone();
        if text.is_empty() {
            self.message = Some("/ searches a name".to_string());
            return;
        }
        let is_found = match self.screen {
            Screen::Events => self.events.search(&self.state, self.range, &text, is_next),
            Screen::Replay => self.replay.search(&self.state, self.range, &text, is_next),
            Screen::Report => self.report.search(&text, is_next),
            Screen::Graph => self.graph.search(&text, is_next),
            Screen::States => self.states.search(&self.state, self.range, &text, is_next),
        };
        if !is_found {
            let where_to = if is_next { "after" } else { "before" };
            let is_far = self.screen == Screen::Replay && self.replay.count(&self.state) > SEARCHED as u64;
            let reach = if is_far { format!(" of the {SEARCHED} calls") } else { String::new() };
            self.message = Some(format!("`{text}` is in no name{reach} {where_to} this line"));
        }
    }

    /// The time of the chosen line.
    fn time(&self) -> Option<i128> {
        match self.screen {
            Screen::Events => self.events.time(&self.state, self.range),
            Screen::Replay => self.replay.time(&self.state, self.range),
            Screen::States => self.states.time(&self.state, self.range),
            Screen::Report | Screen::Graph => None,
        }
    }

    fn narrow(&mut self, is_begin: bool) {
        let (Some(index), Some(ns)) = (self.state.index(), self.time()) else {
            self.message = Some("a line with a time begins or ends the range: an event, a call or a visit".to_string());
            return;
        };
        let (begin, end) = self.range.unwrap_or((index.begin, index.end));
        self.set_range(Some(if is_begin { (ns, end.max(ns)) } else { (begin.min(ns), ns) }));
    }

    fn set_range(&mut self, range: Option<Range>) {
        // The cursors stay where they are in time.
        let (of_event, of_call) =
            (self.events.time(&self.state, self.range), self.replay.time(&self.state, self.range));
        let of_visit = self.states.time(&self.state, self.range);
        self.range = range;
        self.report.forget();
        self.graph.forget();
        if let Some(ns) = of_event {
            self.events.go_to(&self.state, range, ns);
        }
        if let Some(ns) = of_call {
            self.replay.go_to(&self.state, range, ns);
        }
        if let Some(ns) = of_visit {
            self.states.go_to(&self.state, range, ns);
        }
    }

    /// Shows the graph of the chosen function.
    fn graph_of_chosen(&mut self) {
        let function = match self.screen {
            Screen::Events | Screen::States => None,
            Screen::Replay => self.replay.function(&self.state, self.range),
            Screen::Report => self.report.chosen().map(str::to_string),
            Screen::Graph => self.graph.chosen(),
        };
        let has_functions = self.state.calls().is_some() || self.sampled_events().is_some();
        let Some(function) = function.filter(|_| has_functions) else {
            self.message = Some("g shows the graph of a function; choose one in replay, report or graph".to_string());
            return;
        };
        let is_call = self.state.calls().map(|calls| calls.names.contains(&function));
        if is_call.or_else(|| self.graph.has_function(&function)) == Some(false) {
            self.message = Some(format!("`{function}` is not a function"));
            return;
        }
        self.screen = Screen::Graph;
        self.graph.request(&self.state, self.range, self.sampled.as_deref());
        self.graph.choose(Some(&function));
    }

    /// The events of the samples that are shown.
    fn sampled_events(&self) -> Option<&SampledEvents> {
        match self.screen {
            Screen::Report => self.report.samples(),
            Screen::Graph => self.graph.samples(),
            Screen::Events | Screen::Replay | Screen::States => None,
        }
    }

    /// Shows the samples of the next event.
    fn next_sampled(&mut self) {
        let Some(next) = self.sampled_events().and_then(SampledEvents::next).map(str::to_string) else {
            self.message = Some("no other event has samples here".to_string());
            return;
        };
        self.sampled = Some(next);
        self.report.forget();
        self.graph.forget();
    }
}

// ---- For those that read line by line ----

impl App {
    /// Does what is typed after `/`, `F` or `t`.
    pub(crate) fn command(&mut self, sign: char, text: &str) {
        self.message = None;
        let prompt = match sign {
            '/' => Prompt::Search,
            'F' => Prompt::Filter,
            _ => Prompt::Time,
        };
        self.answer(prompt, text.to_string());
    }

    /// The keys, a line each.
    pub(crate) fn keys() -> impl Iterator<Item = String> {
        KEYS.iter().map(|(keys, what)| format!("{keys}: {what}"))
    }

    /// The last line.
    pub(crate) fn status(&mut self) -> String {
        match &self.message {
            Some(message) => visible(message),
            None => self.state(),
        }
    }

    /// Goes on by whole pages: the chosen line is the first one in sight.
    pub(crate) fn turn_page(&mut self, is_next: bool) {
        let page = self.height as i64;
        self.step(CursorMove::By(if is_next { page } else { -page }));
        match self.screen {
            Screen::Events => self.events.cursor.scroll(),
            Screen::Replay => self.replay.scroll(),
            Screen::Report => self.report.cursor.scroll(),
            Screen::Graph => self.graph.cursor.scroll(),
            Screen::States => self.states.cursor().scroll(),
        }
    }

    /// Name of the screen.
    pub(crate) fn screen_name(&self) -> &'static str {
        if self.screen == Screen::States && self.states.is_open() {
            return "visits";
        }
        SCREENS.iter().find(|(screen, _)| *screen == self.screen).map_or("", |(_, name)| name)
    }

    /// Lines of the list at once.
    pub(crate) fn set_height(&mut self, height: usize) {
        self.height = height;
    }
}
