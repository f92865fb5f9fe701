//! Calls in the trace event format of Chrome, as `dump --chrome` writes it.

use std::io::{self, Write};
use std::rc::Rc;

use tracemill_codec::text::json::{self, Escapes};
use tracemill_format::calls::{CallKind, CallRecord, CallSource, CallTask, Findings, ValueStyle, event_id};
use tracemill_format::open_calls::{CallLevel, End, OpenCalls};

use crate::consistency::is_consistent;
use crate::follow::{Follower, SCHEDULE, ShownRecord};
use crate::select::CallOptions;
use crate::tasks::task_name;
use crate::text::{Micros, entry};

/// Bytes that are gathered before they are written.
const BUFFER: usize = 64 << 10;

/// How the trace is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChromeOptions {
    /// Leave out arguments and return values.
    pub no_values: bool,
    /// Every begin has its end and the other way round: ends without a beginning are left out, calls that were left by
    /// others than themselves end with those. It is so without asking, unless the source has a reference
    /// ([`CallSource::has_reference`]) and its records do not contradict themselves.
    pub is_balanced: bool,
}

/// Writes a source; gives what was wrong with it.
///
/// # Errors
/// Errors of the writer.
pub fn write(
    source: &dyn CallSource,
    calls: CallOptions,
    options: ChromeOptions,
    out: &mut dyn Write,
) -> io::Result<Findings> {
    let between = crate::follow::between(source, &calls);
    let is_balanced = options.is_balanced
        || !source.has_reference()
        || calls.is_disabled
        || between.is_some()
        || calls.rules.has_switches()
        || !is_consistent(source, &calls.tids);
    let options = ChromeOptions { is_balanced, ..options };
    let mut chrome = Chrome {
        source,
        options,
        text: Vec::with_capacity(2 * BUFFER),
        has_event: false,
        open: vec![OpenCalls::new(source.max_depth()); source.tasks().len()],
        scratch: Vec::new(),
        tasks: source.tasks().iter().map(ids).collect(),
        names: Vec::new(),
        micros: Micros::default(),
    };
    let mut follower = Follower::new(source, calls);
    chrome.header(&crate::tasks::names(&follower));
    while let Some(record) = follower.next() {
        chrome.record(&mut follower, &record);
        if chrome.text.len() >= BUFFER {
            out.write_all(&chrome.text)?;
            chrome.text.clear();
        }
    }
    for at in 0..follower.tasks.len() {
        let last = follower.last_of(at);
        while follower.tasks[at].stack_count > 0 && !is_balanced {
            let Some(frame) = follower.close(at, last).filter(|frame| !frame.is_hidden) else { continue };
            if follower.is_outside(at, &frame) {
                continue;
            }
            let name = match frame.address {
                // As uftrace names them here.
                event_id::SCHED_OUT | event_id::SCHED_OUT_PREEMPTED => format!("<{:x}>", frame.address),
                address => follower.known_symbol(frame.symbol, address).symbol.name.clone(),
            };
            // Its begin was not written.
            if !follower.is_skipped_library_call(frame.symbol, frame.address) {
                chrome.write_event(at, last, &json(&name), false, None);
            }
            follower.end_exit(at);
        }
        chrome.close(at, last, chrome.open[at].len());
    }
    chrome.footer();
    out.write_all(&chrome.text)?;
    Ok(follower.take_findings())
}

struct Chrome<'a> {
    source: &'a dyn CallSource,
    options: ChromeOptions,
    text: Vec<u8>,
    has_event: bool,
    /// The open calls of each task, when the output is balanced: their names as they stand in strings.
    open: Vec<OpenCalls<Rc<str>>>,
    scratch: Vec<u8>,
    /// Text between time and name of the ends and of the begins of each task.
    tasks: Vec<[String; 2]>,
    /// Names as they stand in strings, by their symbol.
    names: Vec<Option<Rc<str>>>,
    micros: Micros,
}

impl Chrome<'_> {
    fn header(&mut self, names: &[Vec<u8>]) {
        self.add("{\"traceEvents\":[\n");
        for (task, name) in self.source.tasks().iter().zip(names) {
            let (tid, name) = (task.tid, json(&String::from_utf8_lossy(name)));
            for what in ["process_name", "thread_name"] {
                self.metadata(&tid.to_string(), what, &format!("[{tid}] {name}"));
            }
        }
    }

    /// Appends the name of a process or a thread, as it stands in a string.
    fn metadata(&mut self, ids: &str, what: &str, name: &str) {
        self.separate();
        self.add(&format!(
            "{{\"ts\":0,\"ph\":\"M\",\"pid\":{ids},\"name\":\"{what}\",\"args\":{{\"name\":\"{name}\"}}}}"
        ));
    }

    fn footer(&mut self) {
        let recording = self.source.recording();
        self.add("\n], \"displayTimeUnit\": \"ns\", \"metadata\": {\n");
        let entries =
            [("version", recording.version), ("recorded_time", recording.date), ("command_line", recording.command)];
        let lines = entries.into_iter().filter_map(|(key, value)| Some(format!("\"{key}\":\"{}\"", json(&value?))));
        self.add(&lines.collect::<Vec<_>>().join(",\n"));
        self.add("\n} }\n");
    }

    #[inline]
    fn add(&mut self, text: &str) {
        self.text.extend_from_slice(text.as_bytes());
    }

    fn separate(&mut self) {
        if std::mem::replace(&mut self.has_event, true) {
            self.add(",\n");
        }
    }

    fn record(&mut self, follower: &mut Follower<'_>, record: &CallRecord) {
        let Some(ShownRecord { place, .. }) = follower.step(record) else { return };
        match (record.kind, record.address) {
            (CallKind::Entry | CallKind::Exit, _) => self.call(follower, record, place),
            // uftrace writes the end of it only.
            (CallKind::Event, event_id::SCHED_OUT_PREEMPTED) if !self.options.is_balanced => {}
            (CallKind::Event, event_id::SCHED_IN | event_id::SCHED_OUT | event_id::SCHED_OUT_PREEMPTED) => {
                let name = Rc::from(SCHEDULE);
                self.event(record.task as usize, record.time, place, &name, record.is_sched_out(), None);
            }
            (CallKind::Event, event_id::TASK_NAME) => self.task_name(record),
            (CallKind::Event | CallKind::Lost, _) => {}
        }
    }

    /// A task gets another name.
    fn task_name(&mut self, record: &CallRecord) {
        self.scratch.clear();
        self.source.put_event_data(record, &mut self.scratch);
        let name = json(&String::from_utf8_lossy(task_name(&self.scratch)));
        let task = &self.source.tasks()[record.task as usize];
        let (pid, tid) = (task.pid, task.tid);
        if pid != tid {
            return self.metadata(&format!("{pid},\"tid\":{tid}"), "thread_name", &format!("[{tid}] {name}"));
        }
        for what in ["process_name", "thread_name"] {
            self.metadata(&tid.to_string(), what, &name);
        }
    }

    fn call(&mut self, follower: &mut Follower<'_>, record: &CallRecord, place: isize) {
        let is_entry = record.kind == CallKind::Entry;
        let values = (record.has_values && !self.options.no_values).then_some(record);
        let at = record.task as usize;
        if !follower.options.no_library_calls
            && let Some(Some(name)) = self.names.get(record.symbol as usize)
        {
            let name = name.clone();
            return self.event(at, record.time, place, &name, is_entry, values);
        }
        if follower.is_skipped_library_call(record.symbol, record.address) {
            return;
        }
        let known = follower.known_symbol(record.symbol, record.address).symbol;
        let name: Rc<str> = json(&known.name).into();
        // Addresses without symbol share their ids.
        if !known.name.starts_with('<') {
            *entry(&mut self.names, record.symbol) = Some(name.clone());
        }
        self.event(at, record.time, place, &name, is_entry, values);
    }

    /// A call, or what is one for the stack, begins or ends at a place of the stack.
    #[inline]
    fn event(
        &mut self,
        at: usize,
        time: u64,
        place: isize,
        name: &Rc<str>,
        is_entry: bool,
        values: Option<&CallRecord>,
    ) {
        if !self.options.is_balanced {
            return self.write_event(at, time, name, is_entry, values);
        }
        // Places are below zero after some lost records.
        let level = Some(CallLevel { is_kernel: false, depth: place.cast_unsigned() as u64 ^ 1 << 63 });
        let open = &self.open[at];
        if is_entry {
            // A call that is still open at this level was left without an exit.
            self.close(at, time, open.abandoned_at(level));
            if !self.open[at].begin(level, name.clone()) {
                return;
            }
        } else {
            let is_same = |open: &Rc<str>| open == name;
            let mut end = self.open[at].end(level, is_same);
            if end.0 == End::Lone {
                end = self.open[at].end(None, is_same);
            }
            if end.0 != End::OfCall {
                return;
            }
            self.close(at, time, end.1);
            self.open[at].pop();
        }
        self.write_event(at, time, name, is_entry, values);
    }

    /// Ends the innermost open calls.
    fn close(&mut self, at: usize, time: u64, count: usize) {
        for _ in 0..count {
            if let Some(name) = self.open[at].pop() {
                self.write_event(at, time, &name, false, None);
            }
        }
    }

    /// Appends an event; its name is as it stands in a string.
    fn write_event(&mut self, at: usize, time: u64, name: &str, is_entry: bool, values: Option<&CallRecord>) {
        self.add(if self.has_event { ",\n{\"ts\":" } else { "{\"ts\":" });
        self.has_event = true;
        self.micros.write(&mut self.text, time);
        self.text.extend_from_slice(self.tasks[at][usize::from(is_entry)].as_bytes());
        self.add(name);
        let Some(record) = values else { return self.add("\"}") };
        self.text.push(b'"');
        self.scratch.clear();
        self.source.put_values(record, ValueStyle::Json, &mut self.scratch);
        let (key, open, close) = if is_entry { ("arguments", "(", ")") } else { ("retval", "", "") };
        self.add(&format!(
            ",\"args\":{{\"{key}\":\"{open}{}{close}\"}}}}",
            json_inside(&String::from_utf8_lossy(&self.scratch))
        ));
    }
}

/// Text between time and name of the ends and of the begins of a task: process and task, the latter unless it is the
/// former.
fn ids(task: &CallTask) -> [String; 2] {
    let tid = if task.pid == task.tid { String::new() } else { format!(",\"tid\":{}", task.tid) };
    ["E", "B"].map(|kind| format!(",\"ph\":\"{kind}\",\"pid\":{}{tid},\"name\":\"", task.pid))
}

/// A text as it stands in a JSON string.
fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    json::escape(text, Escapes::NUMBERS, |piece| out += piece);
    out
}

/// A text that was made to stand in a JSON string: what would end the string or stand for nothing is mended.
fn json_inside(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if matches!(letters.peek(), Some('"' | '\\')) => {
                out.push('\\');
                out.extend(letters.next());
            }
            '\\' => out += "\\\\",
            '"' => out += "\\\"",
            letter if letter < ' ' => out += &format!("\\u{:04x}", letter as u32),
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stay_inside_of_their_strings() {
        assert_eq!(json("a\"b\\\n"), "a\\\"b\\\\\\u000a");
        assert_eq!(json_inside("\\\"a\\\\n\\\""), "\\\"a\\\\n\\\"");
        assert_eq!(json_inside("a\"b\\"), "a\\\"b\\\\");
    }
}
