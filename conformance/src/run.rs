//! Runs a case through the real engine and compares.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use tracemill_codec::text::out::Out;
use tracemill_engine::merge::Note;
use tracemill_engine::selection;
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::timeline::{self, Selection};
use tracemill_model::error::Error;
use tracemill_model::packet::GapKind;
use tracemill_render::lines::{LineFormat, LinePlan};
use tracemill_render::print::{PrintOutput, print};
use tracemill_render::text::Before;

use crate::case::{Case, Expected, Where};
use crate::json;

/// The outcome of a case.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// The trace was refused.
    pub refused: bool,
    /// JSON lines.
    pub lines: Vec<String>,
    /// Faults, warnings and losses, or the errors of the refusal.
    pub said: Vec<Said>,
}

/// Something that was said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Said {
    /// `fault`, `warning`, `loss` or `error`.
    pub kind: &'static str,
    /// File below the folder of the trace, or name of the stream for a loss.
    pub file: String,
    /// Where in the file.
    pub place: Where,
    /// Packet.
    pub packet: Option<u64>,
    /// Message, event, field and help: what the words of an expectation are looked for in.
    pub text: String,
}

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.kind != "error" {
            write!(f, "{} ", self.kind)?;
        }
        f.write_str(&self.file)?;
        match self.place {
            Where::File => {}
            Where::Byte(byte, bit) => {
                let word = if self.kind == "error" { "byte " } else { "" };
                write!(f, " {word}{byte}")?;
                if bit != 0 {
                    write!(f, ".{bit}")?;
                }
            }
            Where::Text(line, column) => write!(f, " {line}:{column}")?,
        }
        if let Some(packet) = self.packet {
            write!(f, " packet {packet}")?;
        }
        write!(f, ": {}", self.text)
    }
}

/// Reads the trace of a case with so many threads.
pub fn run(case: &Case, jobs: usize) -> Outcome {
    let (storage, path) = case.storage();
    let mut outcome = Outcome::default();
    let opened = Session::open(&storage, std::slice::from_ref(&path), &OpenOptions::new(tracemill_formats::FORMATS));
    let session = match opened {
        Ok(session) => session,
        Err(error) => {
            outcome.said.push(said("error", &error, &case.folder));
            outcome.refused = true;
            return outcome;
        }
    };
    outcome.refused = session.traces.is_empty();
    let kind = if outcome.refused { "error" } else { "fault" };
    outcome.said.extend(session.failures.iter().map(|error| said(kind, error, &case.folder)));
    if outcome.refused {
        return outcome;
    }
    outcome.said.extend(session.warnings.iter().map(|error| said("warning", error, &case.folder)));
    for trace in &session.traces {
        outcome.said.extend(trace.warnings.iter().map(|error| said("warning", error, &case.folder)));
        outcome.said.extend(trace.faults.iter().map(|error| said("fault", error, &case.folder)));
    }
    print_lines(case, &session, jobs, &mut outcome);
    outcome
}

fn print_lines(case: &Case, session: &Session, jobs: usize, outcome: &mut Outcome) {
    let streams = match selection::streams(session, &[]) {
        Ok(streams) => streams,
        Err(error) => return outcome.said.push(said("error", &error, &case.folder)),
    };
    let plan = Arc::new(LinePlan {
        format: LineFormat::Jsonl,
        streams: streams.clone(),
        filter: None,
        many_traces: session.traces.len() > 1,
        with_ends: false,
    });
    let mut merger = timeline::merger(session, &streams, &Selection::default());
    let mut bytes = Vec::new();
    print(session, &mut merger, &plan, jobs, |output| {
        match output {
            PrintOutput::Lines(rendered) => {
                for part in rendered.parts(Before::Nothing, None, &mut Out::default()) {
                    bytes.extend_from_slice(part);
                }
            }
            PrintOutput::Fault(error) | PrintOutput::Note(Note::Fault(error)) => {
                outcome.said.push(said("fault", &error, &case.folder));
            }
            PrintOutput::Note(Note::Warning(error)) => outcome.said.push(said("warning", &error, &case.folder)),
            PrintOutput::Note(Note::Gap(stream, gap)) => {
                let thing = match gap.kind {
                    GapKind::DiscardedEvents => "events",
                    GapKind::LostPackets => "packets",
                };
                let number = |value: Option<u64>| value.map_or("?".to_string(), |value| value.to_string());
                let (from, to) = (number(gap.begin_cycles), number(gap.end_cycles));
                outcome.said.push(Said {
                    kind: "loss",
                    file: streams[stream.0 as usize].stream.name.clone(),
                    place: Where::File,
                    packet: None,
                    text: format!("{} {thing} from {from} to {to}", number(gap.count)),
                });
            }
        }
        ControlFlow::Continue(())
    });
    outcome.lines = String::from_utf8_lossy(&bytes).lines().map(str::to_string).collect();
}

fn said(kind: &'static str, error: &Error, folder: &Path) -> Said {
    let place = error.place();
    let file = place.file.as_ref().map(|file| file.strip_prefix(folder).unwrap_or(file).to_string_lossy());
    let file = file.filter(|file| !file.is_empty()).map_or("trace".to_string(), |file| file.replace('\\', "/"));
    let position = match (&place.text, place.offset) {
        (Some(text), _) => Where::Text(text.line, text.column),
        (None, Some(offset)) => Where::Byte(offset, place.bit),
        (None, None) => Where::File,
    };
    let mut text = error.message().to_string();
    for (noun, name) in [("event", &place.event), ("field", &place.field)] {
        if let Some(name) = name {
            text += &format!(", {noun} `{name}`");
        }
    }
    if let Some(help) = error.help() {
        text += &format!("; help: {help}");
    }
    Said { kind, file, place: position, packet: place.packet, text }
}

/// Runs a case with one and with two threads and tells everything that is not as expected.
pub fn check(case: &Case) -> Vec<String> {
    let outcome = run(case, 1);
    let mut wrong = compare(case, &outcome);
    if run(case, 2) != outcome {
        wrong.push("two threads give something else than one".into());
    }
    wrong
}

/// The parts of an outcome that are not as expected.
pub fn compare(case: &Case, outcome: &Outcome) -> Vec<String> {
    let mut wrong = Vec::new();
    if let Some(error) = &case.error {
        if !outcome.refused {
            wrong.push(format!("line {}: the trace is not refused", error.line));
        }
        compare_said(std::slice::from_ref(error), &outcome.said, &mut wrong);
        return wrong;
    }
    if outcome.refused {
        wrong.push("the trace is refused".into());
    }
    compare_said(&case.faults, &outcome.said, &mut wrong);
    let Some(lines) = &case.lines else { return wrong };
    for ((number, want), have) in lines.iter().zip(&outcome.lines) {
        match json::parse(have) {
            Err(why) => wrong.push(format!("line {number}: what was printed is no JSON ({why}): {have}")),
            Ok(value) => {
                if let Some(difference) = json::difference(want, &value) {
                    wrong.push(format!("line {number}: {difference}\n    printed {have}"));
                }
            }
        }
    }
    for (number, _) in lines.iter().skip(outcome.lines.len()) {
        wrong.push(format!("line {number}: this line was not printed"));
    }
    for line in outcome.lines.iter().skip(lines.len()) {
        wrong.push(format!("one line more was printed: {line}"));
    }
    wrong
}

fn compare_said(wanted: &[Expected], said: &[Said], wrong: &mut Vec<String>) {
    for (want, have) in wanted.iter().zip(said) {
        if !matches(want, have) {
            wrong.push(format!("line {}: expected something else than\n    {have}", want.line));
        }
    }
    for want in wanted.iter().skip(said.len()) {
        wrong.push(format!("line {}: this was not said", want.line));
    }
    for have in said.iter().skip(wanted.len()) {
        wrong.push(format!("not expected: {have}"));
    }
}

fn matches(want: &Expected, have: &Said) -> bool {
    let mut rest = have.text.as_str();
    let has_words = want.words.iter().all(|words| match rest.find(words.as_str()) {
        Some(at) => {
            rest = &rest[at + words.len()..];
            true
        }
        None => false,
    });
    want.kind == have.kind
        && want.file == have.file
        && want.place == have.place
        && (want.packet.is_none() || want.packet == have.packet)
        && has_words
}
