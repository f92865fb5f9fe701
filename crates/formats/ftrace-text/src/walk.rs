//! The lines of a text, one item after the other, as both passes read them.

use memchr::memchr;

use super::classes::has_lines;
use super::graph::{self, GraphClock, GraphLine};
use super::line::{self, LineEvent, LineHead, lost};
use super::perf_script::{self, LineExtras};

/// Longer lines are not read.
const MAX_LINE_BYTES: usize = 16 << 20;
/// Lines after an event that are taken for the rest of its text.
const MAX_MORE_LINES: usize = 1 << 12;
/// CPUs in lines of the tracer `function_graph`.
const MAX_GRAPH_CPUS: usize = 256;

/// The program that wrote a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum TextDialect {
    /// The kernel's tracer, trace-cmd.
    #[default]
    Ftrace,
    /// `perf script`.
    PerfScript,
}

/// A line of an event with the lines that go on with it, or something else.
pub(super) enum TextItem<'a> {
    Event {
        head: LineHead<'a>,
        event: LineEvent<'a>,
        extras: LineExtras<'a>,
        /// The end of a call that the line shows with its beginning, and the ns from one to the other.
        leaf: Option<(LineEvent<'a>, u64)>,
    },
    /// Events that a CPU lost before its next one.
    Lost { cpu: u32, count: Option<u64> },
    /// A heading or a line without a meaning.
    Remark(&'a [u8]),
    /// A line that is none of these, and why.
    Wrong(&'static str),
}

/// Goes through the items of a text.
pub(super) struct TextWalk<'a> {
    text: &'a [u8],
    dialect: TextDialect,
    /// Where the next item begins.
    pub(super) at: usize,
    /// CPUs in lines of the tracer `function_graph`.
    pub(super) clocks: GraphClocks,
    /// Is there a line of that tracer that has no time?
    pub(super) has_made_times: bool,
    /// Lines of the item before the one at hand, without its first.
    pub(super) more_lines: u64,
    /// Is there a zero byte in the text?
    has_zero: bool,
}

/// States of CPUs in lines of the tracer `function_graph`.
pub(super) type GraphClocks = Vec<(u32, GraphClock)>;

impl<'a> TextWalk<'a> {
    /// A walk that begins at an item, where the CPUs are in these states.
    pub(super) fn new(text: &'a [u8], dialect: TextDialect, at: usize, clocks: GraphClocks, has_zero: bool) -> Self {
        TextWalk { text, dialect, at, clocks, has_made_times: false, more_lines: 0, has_zero }
    }

    /// The item at hand; steps over it.
    #[inline]
    pub(super) fn next(&mut self) -> TextItem<'a> {
        let (text, at) = (self.text, self.at);
        let rest = &text[at..];
        let len = memchr(b'\n', rest).unwrap_or(rest.len());
        let line = &rest[..len];
        self.at = (at + len + 1).min(text.len());
        self.more_lines = 0;
        if len > MAX_LINE_BYTES {
            return TextItem::Wrong("it is longer than 16 MiB");
        }
        if self.dialect == TextDialect::PerfScript {
            return self.of_perf(line, at);
        }
        let Some(head) = LineHead::read(line) else {
            return match other(line) {
                TextItem::Wrong(reason) => self.of_graph(line).unwrap_or(TextItem::Wrong(reason)),
                item => item,
            };
        };
        let mut event = LineEvent::read(head.rest);
        let mut leaf = None;
        if has_lines(&event) && self.at < text.len() {
            let first = self.at;
            self.at = end_of_more(text, first);
            if self.at > first {
                self.more_lines = memchr::memchr_iter(b'\n', &text[first..self.at]).count() as u64;
                event = with_more(event, text, (at, first, self.at));
            }
        } else if let Some(call) = graph::of_named(&event) {
            event = call;
            leaf = graph::end_of_leaf(&event);
        }
        if self.has_zero && memchr(0, &text[at..self.at]).is_some() {
            return TextItem::Wrong("a zero byte is in it");
        }
        TextItem::Event { head, event, extras: LineExtras::default(), leaf }
    }

    /// The item of a line of `perf script` that begins at `at`.
    fn of_perf(&mut self, line: &'a [u8], at: usize) -> TextItem<'a> {
        let text = line.trim_ascii();
        if text.is_empty() || text[0] == b'#' {
            return TextItem::Remark(b"");
        }
        let Some((head, mut extras, event)) = perf_script::read(line.trim_ascii_end()) else {
            return TextItem::Wrong("it is not a line of `perf script`");
        };
        let first = self.at;
        self.at = perf_script::end_of_frames(self.text, first);
        extras.frames = &self.text[first..self.at];
        self.more_lines = memchr::memchr_iter(b'\n', extras.frames).count() as u64;
        if self.has_zero && memchr(0, &self.text[at..self.at]).is_some() {
            return TextItem::Wrong("a zero byte is in it");
        }
        TextItem::Event { head, event, extras, leaf: None }
    }

    /// The item of a line of the tracer `function_graph`.
    #[cold]
    fn of_graph(&mut self, line: &'a [u8]) -> Option<TextItem<'a>> {
        let line = GraphLine::read(line).filter(|_| memchr(0, line).is_none())?;
        let known = self.clocks.iter().position(|(cpu, _)| *cpu == line.cpu);
        let at = match known {
            Some(at) => at,
            None if self.clocks.len() >= MAX_GRAPH_CPUS => {
                return Some(TextItem::Wrong("there are more than 256 CPUs in calls before it"));
            }
            None => {
                self.clocks.push((line.cpu, GraphClock::default()));
                self.clocks.len() - 1
            }
        };
        let clock = &mut self.clocks[at].1;
        let head = clock.head(&line, self.text);
        let Some(event) = line.event else { return Some(TextItem::Remark(b"")) };
        self.has_made_times |= line.time.is_none();
        let leaf = graph::end_of_leaf(&event);
        if let (Some((_, duration)), None) = (leaf, line.time) {
            clock.end_leaf(duration);
        }
        Some(TextItem::Event { head, event, extras: LineExtras::default(), leaf })
    }
}

/// Where the lines end that go on with an event.
fn end_of_more(text: &[u8], first: usize) -> usize {
    let mut at = first;
    for _ in 0..MAX_MORE_LINES {
        let rest = &text[at..];
        let len = memchr(b'\n', rest).unwrap_or(rest.len());
        let line = &rest[..len];
        let is_item = LineHead::read(line).is_some() || GraphLine::read(line).is_some();
        if len > MAX_LINE_BYTES || is_item || !matches!(other(line), TextItem::Wrong(_)) {
            break;
        }
        at = (at + len + 1).min(text.len());
        if at == text.len() {
            break;
        }
    }
    at
}

/// An event with the lines after its own: those of a stack are all that it has.
fn with_more<'a>(event: LineEvent<'a>, text: &'a [u8], (at, first, next): (usize, usize, usize)) -> LineEvent<'a> {
    let more = &text[first..next];
    let is_stack = event.form == line::EventForm::Stack || event.fields.starts_with(b"<stack trace");
    if is_stack {
        return LineEvent { form: line::EventForm::Stack, name: event.name, fields: more };
    }
    // The fields are the end of the line, so they go on where it does.
    let line = &text[at..first];
    let trimmed = line.trim_ascii_end().len();
    let begin = at + trimmed - event.fields.len();
    LineEvent { fields: text[begin..next].trim_ascii_end(), ..event }
}

#[cold]
fn other(line: &[u8]) -> TextItem<'_> {
    let text = line.trim_ascii();
    if let Some((cpu, count)) = lost(text) {
        return TextItem::Lost { cpu, count };
    }
    let is_empty_cpu = || {
        let rest = text.strip_prefix(b"CPU ").and_then(line::number);
        rest.is_some_and(|(_, rest)| rest == b" is empty")
    };
    let is_version = text.starts_with(b"version = ") || text.starts_with(b"cpus=");
    if text.is_empty()
        || text[0] == b'#'
        || is_rule(text)
        || is_version
        || is_empty_cpu()
        || text == b"TRACE:"
        || text.starts_with(b"capturing trace")
    {
        return TextItem::Remark(text);
    }
    TextItem::Wrong("it is not a line of ftrace")
}

/// Lines around those by which `function_graph` says that another task runs.
fn is_rule(text: &[u8]) -> bool {
    text.len() > 8 && text.iter().all(|byte| *byte == b'-')
}
