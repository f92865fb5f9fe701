//! The screens as lines of text.

use std::sync::atomic::Ordering;

use tracemill_lod::{LossKind, tiles};

use super::{App, KEYS, Look, SCREENS, Screen};
use crate::events::DETAILS;
use crate::text::{cut, duration, left, visible};

impl App {
    /// How far the reading is, in words.
    fn progress(&self) -> Option<String> {
        if self.state.index().is_none() {
            let done = self.state.timeline().done(&self.state.progress);
            let numbered = self.state.progress.events.load(Ordering::Relaxed);
            return Some(if numbered > 0 {
                format!("{numbered} events read")
            } else {
                format!("counting events, {:.0} %", done * 100.0)
            });
        }
        let busy = [
            (!self.state.is_complete(), "following calls"),
            (self.events.is_busy(), "filtering"),
            (self.report.is_busy() || self.graph.is_busy(), "adding up"),
        ];
        busy.iter().find(|(is_busy, _)| *is_busy).map(|(_, what)| what.to_string())
    }

    fn title(&self, width: usize) -> String {
        let names = SCREENS.iter().enumerate().map(|(at, (screen, name))| match *screen == self.screen {
            true => format!("[{} {name}]", at + 1),
            false => format!(" {} {name} ", at + 1),
        });
        let traces = &self.state.input.traces.session.traces;
        let trace = match &traces[..] {
            [one] => visible(&one.path.file_name().unwrap_or(one.path.as_os_str()).to_string_lossy()),
            many => format!("{} traces", many.len()),
        };
        let right = self.progress().unwrap_or_else(|| "h keys  q end".to_string());
        let line = format!("{}  {trace}", names.collect::<Vec<_>>().concat());
        let room = width.saturating_sub(right.len() + 1);
        cut(&format!("{} {right}", left(&line, room)), width)
    }

    /// The place of the cursor, and all that narrows the screen, in words.
    pub(super) fn state(&mut self) -> String {
        let mut parts = Vec::new();
        match self.screen {
            Screen::Events => {
                let count = self.events.len(&self.state, self.range);
                if self.state.index().is_some() {
                    parts.push(format!("{} of {count} events", (self.events.cursor.at + 1).min(count)));
                }
                parts.extend(self.events.filter().map(|filter| format!("filter {}", visible(filter))));
            }
            Screen::Replay => {
                parts.push(format!("{} calls", self.replay.count(&self.state)));
                parts.extend(self.replay.limits(&self.state));
            }
            Screen::Report => parts.push(format!("{} names", self.report.len())),
            Screen::Graph => {
                parts.push(format!("{} lines", self.graph.len()));
                parts.extend(self.graph.function().map(|function| format!("of {}", visible(function))));
            }
            Screen::States => parts.extend(self.states.status(&self.state, self.range)),
        }
        if self.goes_on() {
            parts.push("follows".to_string());
        }
        parts.extend(self.sampled_events().map(|samples| format!("samples of {}", visible(&samples.event))));
        if let Some((begin, end)) = self.range {
            let (from, to) = (self.clock.text(Some(begin)), self.clock.text(Some(end)));
            parts.push(format!("{from} to {to}, {}", duration(end - begin)));
        }
        if !matches!(self.screen, Screen::Events | Screen::States) && self.events.filter().is_some() {
            parts.push("of all events, whatever the filter".to_string());
        }
        if let Some(index) = self.state.index() {
            for (kind, what) in [(LossKind::Events, "events"), (LossKind::Packets, "packets")] {
                let losses = index.losses.iter().filter(|loss| loss.kind == kind);
                let lost: u64 = losses.filter_map(|loss| loss.count).sum();
                if lost > 0 {
                    parts.push(format!("{lost} {what} lost"));
                }
            }
            let faults = index.faults.len() + self.state.input.problems.0.len();
            if faults > 0 {
                parts.push(format!("{faults} faults"));
            }
        }
        match self.state.input.traces.session.aligned_begins.len() {
            0 => {}
            1 => parts.push("1 clock cannot be compared: aligned at its begin".to_string()),
            many => parts.push(format!("{many} clocks cannot be compared: aligned at their begins")),
        }
        parts.join("   ")
    }

    /// The header, the list, the chosen line, details.
    pub(crate) fn list(&mut self, width: usize, height: usize) -> (String, Vec<String>, Option<usize>, Vec<String>) {
        let App { state, range, clock, .. } = self;
        let is_ready = state.is_complete();
        let (header, lines, chosen) = match self.screen {
            Screen::Events => return self.events.lines(state, *range, clock, (width, height)),
            Screen::Replay => self.replay.lines(state, *range, clock, (width, height)),
            Screen::Report => self.report.lines((width, height)),
            Screen::Graph => self.graph.lines((width, height)),
            Screen::States => {
                let found = self.states.lines(state, *range, clock, (width, height), self.settings.is_plain);
                if !found.0.is_empty() {
                    return found;
                }
                let says = match is_ready {
                    true => "there are no states in these traces; --states FILE defines some",
                    false => "the trace is being read",
                };
                return (says.to_string(), Vec::new(), None, Vec::new());
            }
        };
        if header.is_empty() && lines.is_empty() {
            let says = match is_ready {
                true if self.report.is_busy() || self.graph.is_busy() => "adding up",
                true if state.calls().is_none() && !(state.has_samples() && self.screen != Screen::Replay) => {
                    "there are no calls in these traces; 1 shows events, 3 counts them"
                }
                true => "nothing is in this range; = shows the whole time",
                false => "the trace is being read",
            };
            return (says.to_string(), lines, None, Vec::new());
        }
        (header, lines, chosen, Vec::new())
    }

    /// Everything, in lines of so many columns.
    pub(crate) fn view(&mut self, width: usize, height: usize) -> Vec<(String, Look)> {
        let mut lines = vec![(self.title(width), Look::Title)];
        if self.has_help {
            let of_keys = KEYS.iter().map(|(keys, _)| keys.len()).max().unwrap_or(0);
            lines.extend(
                KEYS.iter().map(|(keys, what)| (cut(&format!("{}  {what}", left(keys, of_keys)), width), Look::Plain)),
            );
            lines.truncate(height);
            return lines;
        }
        if self.has_strip {
            lines.push((self.strip(width), Look::Plain));
        }
        // Title, header and status stand around the list.
        let has_details = matches!(self.screen, Screen::Events | Screen::States) && height >= 20;
        let of_details = if has_details { DETAILS + 1 } else { 0 };
        let room = height.saturating_sub(lines.len() + 2 + of_details);
        self.height = room.max(1);
        let (header, list, chosen, mut details) = self.list(width, room);
        if details.len() > DETAILS {
            let more = details.len() - DETAILS + 1;
            details.truncate(DETAILS - 1);
            details.push(format!("and {more} more"));
        }
        lines.push((header, Look::Header));
        let count = list.len();
        lines.extend(list.into_iter().enumerate().map(|(at, line)| {
            let look = if chosen == Some(at) { Look::Chosen } else { Look::Plain };
            (line, look)
        }));
        lines.extend((count..room).map(|_| (String::new(), Look::Plain)));
        if of_details > 0 {
            lines.push(("-".repeat(width), Look::Dim));
            let known = details.len();
            lines.extend(details.into_iter().map(|line| (line, Look::Plain)));
            lines.extend((known..DETAILS).map(|_| (String::new(), Look::Plain)));
        }
        let status = match (&self.prompt, &self.message) {
            (Some((prompt, text)), _) => format!("{}{}_", prompt.label(), visible(text)),
            (None, Some(message)) => visible(message),
            (None, None) => self.state(),
        };
        lines.push((cut(&status, width), Look::Dim));
        lines.truncate(height);
        lines
    }

    /// How many events are where, over the whole time; what is in the range stands between brackets.
    fn strip(&self, width: usize) -> String {
        const HEIGHTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let timeline = self.state.timeline();
        let columns = width.max(1);
        let (Some(first), Some(last)) = self.state.ends() else { return String::new() };
        let (begin, end) = (first - timeline.origin, last - timeline.origin);
        let length = (end - begin).max(1);
        // Buckets that are narrower than a column, and not more than tiles can hold.
        let narrow = (length / columns as i128).max(1).ilog2();
        let level =
            (0..=tiles::MAX_LEVEL).find(|level| *level >= narrow && end >> (level + 10) < 4096).unwrap_or(narrow);
        let wanted = ((begin.max(0) >> (level + 10)) as u64, (end.max(0) >> (level + 10)) as u64);
        let tracks: Vec<usize> = (0..timeline.tracks().len()).collect();
        let source = self.state.input.traces.source();
        let index = self.state.index().map(|index| &**index);
        let density = tiles::together(&tiles::density((&timeline, index), &source, &tracks, level, wanted, false));
        let mut counts = vec![0u64; columns];
        let base = i128::from(wanted.0) << (level + 10);
        let column =
            |ns: i128| (((ns - begin) * columns as i128) / (length + 1)).clamp(0, columns as i128 - 1) as usize;
        for (at, events) in density.at.iter().zip(&density.events) {
            counts[column(base + (i128::from(*at) << level))] += events;
        }
        let most = counts.iter().copied().max().unwrap_or(0).max(1);
        let height = |count: u64| match count {
            0 => 0,
            count => 1 + ((count as f64).ln_1p() / (most as f64).ln_1p() * 7.0).round() as usize,
        };
        let mut strip: Vec<char> = counts.iter().map(|count| HEIGHTS[height(*count).min(8)]).collect();
        if let Some((from, to)) = self.range {
            strip[column(from - timeline.origin)] = '[';
            strip[column(to - timeline.origin)] = ']';
        }
        strip.into_iter().collect()
    }
}
