//! Calls as they happened, indented: what `replay` prints.

mod columns;

use std::io::{self, Write};

use tracemill_format::calls::{
    CallKind, CallOrigin, CallRecord, CallSource, CallSymbol, Color, ColorStyle, Findings, ValueStyle, event_id,
};

pub use columns::ReplayField;

use crate::follow::{FastStep, Follower, StackFrame};
use crate::select::CallOptions;
use crate::tasks::task_name;
use crate::text::{entry, put_blanks, put_source_line, time_text};

/// How a replay looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayOptions {
    /// Columns.
    pub fields: Vec<ReplayField>,
    /// An empty line where the task changes.
    pub task_newline: bool,
    /// Each task in a column of its own: blanks from one column to the next, halved.
    pub column_offset: Option<i32>,
    /// Records that a line stands for.
    pub lines: ReplayLines,
    /// Leave out the names of functions at their ends.
    pub no_comment: bool,
    /// Leave out arguments and return values.
    pub no_values: bool,
    /// The module after names of library calls.
    pub module_names: bool,
    /// Where the source text of functions begins.
    pub source_lines: bool,
}

/// Records that a line of a replay stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplayLines {
    /// One, or an entry and an exit with nothing between them.
    #[default]
    Joined,
    /// One.
    Single,
    /// One, without stacks.
    Flat,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        ReplayOptions {
            fields: vec![ReplayField::Duration, ReplayField::Tid],
            task_newline: false,
            column_offset: None,
            lines: ReplayLines::Joined,
            no_comment: false,
            no_values: false,
            module_names: false,
            source_lines: false,
        }
    }
}

/// Bytes that are gathered before they are written.
const BUFFER: usize = 64 << 10;

/// Replays a source; gives what was wrong with it.
///
/// # Errors
/// Errors of the writer.
pub fn write(
    source: &dyn CallSource,
    calls: CallOptions,
    options: &ReplayOptions,
    out: &mut dyn Write,
) -> io::Result<Findings> {
    let count = source.tasks().len();
    let colors = calls.colors;
    let mut replay = Replay {
        colors,
        follower: Follower::new(source, calls),
        options,
        text: Vec::with_capacity(2 * BUFFER),
        scratch: Vec::new(),
        tasks: vec![TaskOutput { column: None, time: 0, time_before: 0, color: Color::Green }; count],
        names: source.tasks().iter().map(|task| task.first_name.clone()).collect(),
        tids: source.tasks().iter().map(|task| format!("[{:6}]", task.tid.unsigned_abs())).collect(),
        usual: source.tasks().iter().map(|task| usual(task.tid, options).filter(|_| !colors.is_colored())).collect(),
        calls: Vec::new(),
        columns: 0,
        last_task: None,
        flat_count: 0,
    };
    replay.header();
    let mut before = 0;
    let has_fast_path = replay.has_fast_path();
    loop {
        if replay.text.len() >= BUFFER {
            out.write_all(&replay.text)?;
            replay.text.clear();
        }
        if has_fast_path && replay.fast(&mut before) {
            continue;
        }
        let Some(record) = replay.follower.next() else { break };
        replay.see_name(&record);
        if !replay.follower.is_shown(&record) {
            continue;
        }
        if record.time > 0 {
            if before > record.time {
                replay.inverted(record.task as usize);
            }
            before = record.time;
        }
        replay.record(&record);
    }
    replay.remaining();
    out.write_all(&replay.text)?;
    Ok(replay.follower.take_findings())
}

/// Bytes of the columns that are shown unless others are requested: ` 123.456 us [123456] | `.
const USUAL: usize = 23;

/// The usual columns of a task without a duration; `None` when there are others, or the task's id is long.
fn usual(tid: i64, options: &ReplayOptions) -> Option<[u8; USUAL]> {
    let is_usual = options.fields == [ReplayField::Duration, ReplayField::Tid];
    let text = format!("{:12}[{:6}] | ", "", tid.unsigned_abs());
    text.as_bytes().try_into().ok().filter(|_| is_usual)
}

struct Replay<'a> {
    follower: Follower<'a>,
    options: &'a ReplayOptions,
    colors: ColorStyle,
    text: Vec<u8>,
    scratch: Vec<u8>,
    tasks: Vec<TaskOutput>,
    names: Vec<Vec<u8>>,
    /// Ids of tasks as lines show them.
    tids: Vec<String>,
    /// The usual columns of each task, with room for the duration.
    usual: Vec<Option<[u8; USUAL]>>,
    /// By symbol: texts of its calls, once it was met.
    calls: Vec<Option<CallTexts>>,
    columns: i32,
    last_task: Option<usize>,
    /// Records that were shown flat.
    flat_count: u64,
}

/// Texts after the columns of a line: for a call without callees, and for the beginning and the end of another one.
struct CallTexts {
    leaf: Box<[u8]>,
    entry: Box<[u8]>,
    exit: Box<[u8]>,
}

/// State of the output of a task.
#[derive(Clone, Copy)]
struct TaskOutput {
    column: Option<i32>,
    /// Time of the record that is shown, and of the one before.
    time: u64,
    time_before: u64,
    /// The color of events.
    color: Color,
}

impl Replay<'_> {
    fn header(&mut self) {
        if self.options.fields.is_empty() {
            return;
        }
        // As uftrace, which looks at the first record.
        if self.options.lines != ReplayLines::Flat && self.follower.has_records() {
            for (at, field) in self.options.fields.iter().enumerate() {
                self.text.push(if at == 0 { b'#' } else { b' ' });
                self.text.extend_from_slice(field.header().as_bytes());
            }
            self.text.extend_from_slice(b"   FUNCTION");
        }
        if self.options.source_lines {
            self.colors.write(&mut self.text, Color::Gray, " [SOURCE]");
        }
        self.text.push(b'\n');
    }

    /// Tasks get names as records pass by.
    fn see_name(&mut self, record: &CallRecord) {
        if record.is_event(event_id::TASK_NAME) {
            self.scratch.clear();
            self.follower.source.put_event_data(record, &mut self.scratch);
            self.names[record.task as usize] = task_name(&self.scratch).to_vec();
        }
    }

    /// May lines be put together from texts that were made before?
    fn has_fast_path(&self) -> bool {
        let ReplayOptions { task_newline, column_offset, lines, module_names, source_lines, .. } = *self.options;
        let is_special = task_newline || column_offset.is_some() || module_names || source_lines;
        let is_usual = lines == ReplayLines::Joined && self.colors == ColorStyle::None;
        self.follower.has_fast_path() && is_usual && !is_special
    }

    /// Shows the next call, or the next end of one, when nothing is special about it: true when it did.
    #[inline]
    fn fast(&mut self, before: &mut u64) -> bool {
        let Some(&CallRecord { time, symbol, task, has_values, .. }) = self.follower.ready() else { return false };
        let at = task as usize;
        let Some(usual) = &self.usual[at] else { return false };
        // The texts that are learned here serve the next call of the function.
        let Some(Some(texts)) = self.calls.get(symbol as usize) else { return self.learn() };
        if has_values || time < *before || time == 0 {
            return false;
        }
        let Some((step, depth)) = self.follower.take_fast() else { return false };
        *before = time;
        let shown = &mut self.tasks[at];
        (shown.time_before, shown.time) = (shown.time, time);
        let mut columns = *usual;
        let (text, depth) = match step {
            FastStep::Leaf(taken) => {
                columns[1..11].copy_from_slice(&time_text(taken));
                (&texts.leaf, depth)
            }
            FastStep::Entered => (&texts.entry, depth),
            FastStep::Left(taken) => {
                columns[1..11].copy_from_slice(&time_text(taken));
                (&texts.exit, depth - 1)
            }
        };
        self.text.extend_from_slice(&columns);
        put_blanks(&mut self.text, usize::try_from(depth).unwrap_or(0) * 2);
        self.text.extend_from_slice(text);
        true
    }

    /// Makes the texts of the calls of the next record's symbol; false when it has none.
    #[cold]
    fn learn(&mut self) -> bool {
        let call = self.follower.ready().filter(|record| record.is_call() && record.symbol > 0);
        let Some(&CallRecord { symbol, address, .. }) = call else { return false };
        let known = self.follower.known_symbol(symbol, address).symbol;
        let name = &known.name;
        let call = if name.ends_with(')') { name.clone() } else { format!("{name}()") };
        let comment = if self.options.no_comment { String::new() } else { format!(" /* {name} */") };
        *entry(&mut self.calls, symbol) = Some(CallTexts {
            leaf: format!("{call};\n").into_bytes().into(),
            entry: format!("{call} {{\n").into_bytes().into(),
            exit: format!("}}{comment}\n").into_bytes().into(),
        });
        true
    }

    fn record(&mut self, record: &CallRecord) {
        let at = record.task as usize;
        if self.options.lines == ReplayLines::Flat {
            return self.flat(record);
        }
        if record.kind == CallKind::Lost {
            return self.lost(record);
        }
        if record.is_call() && self.follower.is_skipped_library_call(record.symbol, record.address) {
            return;
        }
        let shown = &mut self.tasks[at];
        (shown.time_before, shown.time) = (shown.time, record.time);
        match record.kind {
            CallKind::Entry => self.entry(record),
            CallKind::Exit => self.exit(record),
            _ => self.event(record),
        }
    }

    fn entry(&mut self, record: &CallRecord) {
        let at = record.task as usize;
        let Some(entered) = self.follower.enter(record) else { return };
        let place = entered.place;
        self.newline(at);
        let rule = self.follower.rule(record.symbol).map(|rule| (rule.has_backtrace, rule.color));
        let (has_backtrace, color) = rule.unwrap_or_default();
        if has_backtrace {
            self.backtrace(at, place);
        }
        self.tasks[at].color = color.unwrap_or(Color::Green);
        let depth = entered.depth + self.column(at);
        let is_joined = self.options.lines == ReplayLines::Joined;
        let next = if is_joined { self.skip(record, i32::from(record.depth)) } else { None };
        let leaf =
            next.filter(|next| next.task == record.task && next.depth == record.depth && next.kind == CallKind::Exit);
        match leaf {
            Some(_) => self.follower.leave_at_once(entered),
            None => self.follower.go_in(entered),
        }
        let frame = self.follower.tasks[at].frame(place).copied();
        self.fields(at, frame.as_ref(), leaf.is_some());
        self.indent(depth);
        let known = self.follower.known_symbol(record.symbol, record.address).symbol;
        self.write_colored(color, &known.name);
        self.module(&known, color);
        if record.has_values && !self.options.no_values {
            self.text.push(b'(');
            self.values(record);
            self.text.push(b')');
        } else if record.has_values || !known.name.ends_with(')') {
            // A name with parameters gets no others, unless values were recorded: as in uftrace.
            self.text.extend_from_slice(b"()");
        }
        match leaf {
            Some(exit) => {
                self.return_value(&exit);
                self.text.push(b';');
            }
            None => self.text.extend_from_slice(b" {"),
        }
        if self.options.source_lines && !self.options.no_comment {
            let source = self.follower.source;
            put_source_line(&mut self.text, source, record.symbol, self.colors, [" /* ", " */"]);
        }
        self.text.push(b'\n');
    }

    fn exit(&mut self, record: &CallRecord) {
        let at = record.task as usize;
        let Some(shown) = self.follower.step_seen(record) else { return };
        let frame = self.follower.tasks[at].frame(shown.place).copied();
        let depth = shown.depth + self.column(at);
        self.newline(at);
        self.fields(at, frame.as_ref(), true);
        self.indent(depth);
        self.text.push(b'}');
        if record.has_values && !self.options.no_values {
            self.return_value(record);
            self.text.push(b';');
        }
        if !self.options.no_comment {
            let known = self.follower.known_symbol(record.symbol, record.address).symbol;
            self.text.extend_from_slice(self.colors.begin(Color::Gray).as_bytes());
            self.text.extend_from_slice(b" /* ");
            self.text.extend_from_slice(known.name.as_bytes());
            self.module(&known, None);
            self.text.extend_from_slice(b" */");
            self.text.extend_from_slice(self.colors.end().as_bytes());
        }
        self.text.push(b'\n');
    }

    /// A record as a line of its own.
    fn flat(&mut self, record: &CallRecord) {
        let at = record.task as usize;
        let Some(frame) = self.follower.tasks[at].frame(isize::from(record.depth as i16)).copied() else { return };
        if record.is_call() && self.follower.is_skipped_library_call(record.symbol, record.address) {
            return;
        }
        let known = record.is_call().then(|| self.follower.known_symbol(record.symbol, record.address).symbol);
        let (count, tid) = (self.flat_count, self.follower.source.tasks()[at].tid);
        self.flat_count += 1;
        let (time, depth) = (record.time, record.depth);
        let name = known.as_ref().map_or("", |known| &known.name);
        let line = match record.kind {
            CallKind::Entry => format!("[{count}] ==> {tid}/{depth}: ip ({name}), time ({time})\n"),
            CallKind::Exit => format!("[{count}] <== {tid}/{depth}: ip ({name}), time ({time}:{})\n", frame.time),
            CallKind::Lost => format!("[{count}] XXX {tid}: lost {} records\n", record.address as u32 as i32),
            CallKind::Event => {
                self.text.extend_from_slice(format!("[{count}] !!! {tid}: ").as_bytes());
                self.put_event(record);
                format!(" time ({time})\n")
            }
        };
        self.text.extend_from_slice(line.as_bytes());
    }

    /// The callers of a call, before its line.
    fn backtrace(&mut self, at: usize, place: isize) {
        let frames = self.follower.tasks[at].below(place).to_vec();
        for (place, frame) in frames.iter().enumerate() {
            self.text.push(b' ');
            for &field in &self.options.fields {
                match field {
                    ReplayField::Duration => self.text.extend_from_slice(b" backtrace"),
                    field => self.field(field, at, Some(frame), true),
                }
                self.text.push(b' ');
            }
            if !self.options.fields.is_empty() {
                self.text.extend_from_slice(b"| ");
            }
            let known = self.follower.known_symbol(frame.symbol, frame.address).symbol;
            let line = format!("/* [{place:2}] {} */\n", known.name);
            self.colors.write(&mut self.text, Color::Gray, &line);
        }
    }

    fn lost(&mut self, record: &CallRecord) {
        let at = record.task as usize;
        let depth = self.follower.tasks[at].display_depth + 1;
        self.newline(at);
        self.fields(at, None, false);
        self.text.extend_from_slice(self.colors.begin(Color::Red).as_bytes());
        self.indent(depth);
        match record.address as u32 as i32 {
            count if count > 0 => self.text.extend_from_slice(format!("/* LOST {count} records!! */\n").as_bytes()),
            _ => self.text.extend_from_slice(b"/* LOST some records!! */\n"),
        }
        self.text.extend_from_slice(self.colors.end().as_bytes());
    }

    fn event(&mut self, record: &CallRecord) {
        let at = record.task as usize;
        let Some(event) = self.follower.step_seen(record) else { return };
        self.newline(at);
        let mut depth = event.depth + self.column(at);
        let mut shown = *record;
        let mut is_sched_in = record.address == event_id::SCHED_IN;
        if record.is_sched_out()
            && self.options.lines == ReplayLines::Joined
            && let Some(next) = self.skip(record, 0)
            && next.task == record.task
            && next.address == event_id::SCHED_IN
        {
            self.follower.take_peeked();
            shown.address = match record.address {
                event_id::SCHED_OUT => event_id::SCHED_BOTH,
                _ => event_id::SCHED_BOTH_PREEMPTED,
            };
            is_sched_in = true;
        }
        if record.address == event_id::EXTERNAL {
            depth = 0;
        }
        let Some(frame) = self.follower.left_call(at) else { return };
        self.fields(at, Some(&frame).filter(|frame| is_sched_in && frame.time > 0), true);
        let color = self.tasks[at].color;
        self.text.extend_from_slice(self.colors.begin(color).as_bytes());
        self.indent(depth);
        self.text.extend_from_slice(b"/* ");
        self.text.extend_from_slice(self.colors.end().as_bytes());
        self.put_event(&shown);
        self.colors.write(&mut self.text, color, " */\n");
    }

    fn put_event(&mut self, record: &CallRecord) {
        let (colors, color) = (self.colors, self.tasks[record.task as usize].color);
        let name = self.follower.source.event_name(record);
        self.scratch.clear();
        self.follower.source.put_event_data(record, &mut self.scratch);
        let (name, data) = (colors.escaped(&name), colors.escaped_bytes(&self.scratch));
        match record.address {
            _ if data.is_empty() => colors.write(&mut self.text, color, &*name),
            event_id::EXTERNAL => colors.write(&mut self.text, color, [name.as_bytes(), b": ", &data].concat()),
            event_id::FIRST_USER.. => colors.write(&mut self.text, color, &*name),
            _ => {
                colors.write(&mut self.text, color, &*name);
                colors.write(&mut self.text, color, [&b" ("[..], &data, b")"].concat());
            }
        }
    }

    /// The next record that is shown; those before it that are not are taken. `None` when a line cannot be joined with
    /// what follows.
    fn skip(&mut self, current: &CallRecord, depth: i32) -> Option<CallRecord> {
        if self.follower.is_jump(current.task as usize) {
            return None;
        }
        loop {
            let next = self.follower.peek()?;
            let is_same = next.task == current.task && next.origin == current.origin;
            if is_same && depth >= i32::from(next.depth) {
                return Some(next);
            }
            if next.kind == CallKind::Lost {
                return None;
            }
            if !self.is_skipped(current.task, &next) {
                return Some(next);
            }
            self.follower.take_peeked();
            self.see_name(&next);
            self.follower.skip(&next);
            if !self.follower.is_enabled {
                return None;
            }
        }
    }

    /// Is the record, which is not taken yet, one that is not shown?
    fn is_skipped(&mut self, current: u32, next: &CallRecord) -> bool {
        let at = next.task as usize;
        // uftrace looks for its name in the program of the task that is shown.
        let is_known = |source: &dyn CallSource| {
            let program = |task: u32| source.program_at(task as usize, next.time).0;
            next.task == current || program(next.task) == program(current)
        };
        let is_inside = self.follower.tasks[at].user_stack_count > 0;
        if next.origin == CallOrigin::Kernel && !self.follower.options.kernel.all && !is_inside {
            return true;
        }
        if next.kind == CallKind::Event {
            // Neither are events of a task whose program is not known yet.
            let is_unknown = || {
                let source = self.follower.source;
                let is_asked = source.has_reference() && next.origin != CallOrigin::Kernel;
                is_asked && source.program_at(at, next.time).0.is_none()
            };
            if !is_inside && (!self.follower.options.events.all || is_unknown()) {
                return true;
            }
        } else if self.follower.is_skipped_library_call(next.symbol, next.address) && is_known(self.follower.source) {
            return true;
        }
        if next.kind != CallKind::Exit {
            return self.follower.would_hide(next);
        }
        if self.follower.is_left_out(at) {
            return true;
        }
        let task = &mut self.follower.tasks[at];
        let count = task.stack_count;
        count >= 1 && task.frame(count - 1).is_none_or(|frame| frame.is_hidden)
    }

    #[inline]
    fn indent(&mut self, depth: i32) {
        put_blanks(&mut self.text, usize::try_from(depth).unwrap_or(0) * 2);
    }

    /// How far a task's calls are moved to the right, in steps of indentation.
    fn column(&mut self, at: usize) -> i32 {
        let Some(offset) = self.options.column_offset else { return 0 };
        let column = *self.tasks[at].column.get_or_insert_with(|| {
            self.columns += 1;
            self.columns - 1
        });
        column * offset
    }

    fn newline(&mut self, at: usize) {
        if !self.options.task_newline {
            return;
        }
        if self.last_task.replace(at).is_some_and(|last| last != at) {
            self.empty_fields();
            self.text.push(b'\n');
        }
    }

    fn inverted(&mut self, at: usize) {
        self.empty_fields();
        self.text.extend_from_slice(self.colors.begin(Color::Red).as_bytes());
        self.text.push(b' ');
        self.indent(self.follower.tasks[at].display_depth + 1);
        self.text.extend_from_slice(b"/* inverted time: broken data? */\n");
        self.text.extend_from_slice(self.colors.end().as_bytes());
    }

    fn values(&mut self, record: &CallRecord) {
        self.scratch.clear();
        self.follower.source.put_values(record, ValueStyle::Text(self.colors), &mut self.scratch);
        self.text.extend_from_slice(&self.scratch);
    }

    fn return_value(&mut self, record: &CallRecord) {
        if record.has_values && !self.options.no_values {
            self.text.extend_from_slice(b" = ");
            self.values(record);
        }
    }

    fn write_colored(&mut self, color: Option<Color>, text: &str) {
        match color {
            Some(color) => self.colors.write(&mut self.text, color, text),
            None => self.text.extend_from_slice(text.as_bytes()),
        }
    }

    /// Appends the library of a call to one, when it is wanted.
    fn module(&mut self, known: &CallSymbol, color: Option<Color>) {
        if self.options.module_names
            && known.is_library_call
            && let Some(module) = self.follower.source.library_of(&known.name)
        {
            self.write_colored(color, &format!("@{module}"));
        }
    }

    /// The calls without an exit.
    fn remaining(&mut self) {
        let mut has_title = false;
        for at in 0..self.follower.tasks.len() {
            let count = self.follower.tasks[at].stack_count;
            let frames = self.follower.tasks[at].below(count).to_vec();
            let is_waiting =
                |frame: &StackFrame| matches!(frame.address, event_id::SCHED_OUT | event_id::SCHED_OUT_PREEMPTED);
            if count == 1 && frames.first().is_some_and(is_waiting) {
                continue;
            }
            let empty = frames.iter().take_while(|frame| frame.address == 0).count();
            if empty == frames.len() {
                continue;
            }
            if self.follower.has_kernel && self.follower.tasks[at].user_stack_count == 0 {
                // The end of a task is a system call without an exit.
                let known = self.follower.known_symbol(frames[0].symbol, frames[0].address).symbol;
                if known.name.contains("sys_exit") || known.name == "do_syscall_64" {
                    continue;
                }
            }
            if !std::mem::replace(&mut has_title, true) {
                self.text.extend_from_slice(b"\nuftrace stopped tracing with remaining functions");
                self.text.extend_from_slice(b"\n================================================\n");
            }
            let tid = self.follower.source.tasks()[at].tid;
            self.text.extend_from_slice(format!("task: {tid}\n").as_bytes());
            for (place, frame) in frames.iter().enumerate().skip(empty).rev() {
                let known = self.follower.known_symbol(frame.symbol, frame.address).symbol;
                self.text.extend_from_slice(format!("[{}] {}\n", place - empty, known.name).as_bytes());
            }
            self.text.push(b'\n');
        }
    }
}
