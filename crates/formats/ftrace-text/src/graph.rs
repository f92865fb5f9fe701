//! Lines of the tracer `function_graph`: calls by their braces, and how long they took.
//!
//! ```text
//!  1103.816263 |   0)   bash-1994    | d..1 |   1.382 us    |      mutex_unlock();
//!  time            CPU  task           flags    duration           the call, two blanks for each call that it is in
//! ```
//!
//! All columns but the last two can be switched off. Without the times these follow from the durations ([`GraphClock`]).

use memchr::{memchr, memmem};

use super::line::{EventForm, LineEvent, LineHead, LineTime, MAX_CPUS, flags_of, number, task};
use super::pattern::FieldValue;

/// Names of the events that a `trace.dat` has of these calls.
pub(super) const ENTRY: &[u8] = b"funcgraph_entry";
/// See [`ENTRY`].
pub(super) const EXIT: &[u8] = b"funcgraph_exit";

/// Calls that are open at once on a CPU whose times are kept.
const MAX_OPEN: usize = 256;

/// A line of the tracer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct GraphLine<'a> {
    pub(super) cpu: u32,
    pub(super) time: Option<u64>,
    pub(super) task: Option<(&'a [u8], i32)>,
    pub(super) flags: Option<(u8, u8)>,
    /// `None` for a line that says only that another task runs.
    pub(super) event: Option<LineEvent<'a>>,
}

impl<'a> GraphLine<'a> {
    /// Reads a line; `None` when it is not one of the tracer.
    pub(super) fn read(line: &'a [u8]) -> Option<GraphLine<'a>> {
        let mut text = line.trim_ascii();
        let mut time = None;
        let (first, mut rest) = number(text)?;
        let mut cpu = first;
        if let Some(fraction) = rest.strip_prefix(b".") {
            let (micros, after) = number(fraction).filter(|(micros, _)| *micros < 1_000_000)?;
            time = Some(first.checked_mul(1_000_000_000)?.checked_add(micros * 1000)?);
            text = after.trim_ascii_start().strip_prefix(b"|")?.trim_ascii_start();
            (cpu, rest) = number(text)?;
        }
        let cpu = u32::try_from(cpu).ok().filter(|cpu| *cpu < MAX_CPUS)?;
        rest = rest.strip_prefix(b")")?;
        if let Some(at) = memmem::find(rest, b"=>").filter(|_| memchr(b'|', rest).is_none()) {
            task(&rest[..at])?;
            let (comm, pid, _) = task(&rest[at + 2..])?;
            return Some(GraphLine { cpu, time, task: Some((comm, pid)), flags: None, event: None });
        }
        let (mut of_task, mut flags) = (None, None);
        for _ in 0..4 {
            let end = memchr(b'|', rest)?;
            let cell = rest[..end].trim_ascii();
            let is_mark = cell.is_empty() || cell.ends_with(b"us") || cell.ends_with(b"=>") || cell.starts_with(b"<=");
            if is_mark {
                let (name, form) = form_of(&rest[end + 1..]);
                let event = match form {
                    // A line of an interrupt has nothing after the bar.
                    None if rest[end + 1..].trim_ascii().is_empty() => None,
                    None => Some(LineEvent::read(comment(&rest[end + 1..])?)),
                    Some(form) => Some(LineEvent { form, name, fields: rest.trim_ascii_end() }),
                };
                return Some(GraphLine { cpu, time, task: of_task, flags, event });
            }
            match task(cell) {
                Some((comm, pid, _)) if of_task.is_none() => of_task = Some((comm, pid)),
                _ if flags.is_none() && cell.len() <= 8 => flags = Some(flags_of(cell)?),
                _ => return None,
            }
            rest = &rest[end + 1..];
        }
        None
    }
}

/// Is the text of a call its beginning, its end, or both? And the name of its event.
fn form_of(code: &[u8]) -> (&'static [u8], Option<EventForm>) {
    let code = code.trim_ascii();
    match code {
        [b'}', ..] => (EXIT, Some(EventForm::GraphExit)),
        [b'/', b'*', ..] | [] => (b"", None),
        _ => (ENTRY, Some(EventForm::GraphEntry)),
    }
}

/// The text in a comment.
fn comment(code: &[u8]) -> Option<&[u8]> {
    Some(code.trim_ascii().strip_prefix(b"/*")?.strip_suffix(b"*/")?.trim_ascii())
}

/// The call of an event that trace-cmd shows: `funcgraph_entry:  0.5 us  |  f();`. `None` for all other events.
pub(super) fn of_named<'a>(event: &LineEvent<'a>) -> Option<LineEvent<'a>> {
    if event.form != EventForm::Named || event.name != ENTRY && event.name != EXIT {
        return None;
    }
    let bar = memchr(b'|', event.fields)?;
    match form_of(&event.fields[bar + 1..]) {
        (name, Some(form)) => Some(LineEvent { form, name, fields: event.fields }),
        _ => None,
    }
}

/// The end of a call that a line shows with its beginning, and the ns from one to the other.
pub(super) fn end_of_leaf<'a>(event: &LineEvent<'a>) -> Option<(LineEvent<'a>, u64)> {
    if event.form != EventForm::GraphEntry || !without_comment(event.fields).0.ends_with(b";") {
        return None;
    }
    let duration = duration(event.fields).unwrap_or(0);
    Some((LineEvent { form: EventForm::GraphExit, name: EXIT, ..*event }, duration))
}

/// A text without the comment at its end, and that comment.
fn without_comment(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    let text = text.trim_ascii_end();
    match memmem::rfind(text, b"/*").filter(|_| text.ends_with(b"*/")) {
        Some(at) => (text[..at].trim_ascii_end(), comment(&text[at..])),
        None => (text, None),
    }
}

/// The duration before the bar, in ns.
pub(super) fn duration(text: &[u8]) -> Option<u64> {
    let cell = text[..memchr(b'|', text)?].trim_ascii();
    // Marks of long calls: `+ 12.345 us`.
    let at = cell.iter().position(u8::is_ascii_digit)?;
    let (micros, rest) = number(&cell[at..])?;
    let (part, rest) = match rest.strip_prefix(b".") {
        Some(fraction) => {
            let (part, after) = number(fraction)?;
            let digits = fraction.len() - after.len();
            (if digits <= 3 { part * 10u64.pow(3 - digits as u32) } else { return None }, after)
        }
        None => (0, rest),
    };
    (rest.trim_ascii() == b"us").then(|| micros.checked_mul(1000)?.checked_add(part))?
}

/// The fields of the beginning or the end of a call, as keys and values.
pub(super) fn fields<'a>(event: &LineEvent<'a>, keys: &mut Vec<&'a [u8]>, values: &mut Vec<FieldValue<'a>>) {
    keys.clear();
    values.clear();
    let code = memchr(b'|', event.fields).map_or(&b""[..], |bar| &event.fields[bar + 1..]);
    // Two blanks, and two for each call that it is in.
    let blanks = code.iter().take_while(|byte| **byte == b' ').count();
    let depth = (blanks.saturating_sub(2) / 2) as u64;
    let (code, note) = without_comment(code.trim_ascii());
    let is_exit = event.form == EventForm::GraphExit;
    // `} /* f */` names the function, `} /* = 0x0 */` its result, `} /* f = 0x0 */` both.
    let (named, result) = match note.map(|note| (note, memchr(b'=', note))) {
        Some((note, Some(at))) => (note[..at].trim_ascii(), Some(note[at + 1..].trim_ascii())),
        Some((note, None)) => (note, None),
        None => (&b""[..], None),
    };
    let open = memchr(b'(', code);
    let symbol = match open {
        Some(open) => code[..open].trim_ascii(),
        None if code.starts_with(b"}") => named.strip_suffix(b"()").unwrap_or(named),
        None => code.trim_ascii_end(),
    };
    if !symbol.is_empty() {
        keys.push(b"symbol");
        values.push(FieldValue::Text(symbol));
    }
    keys.push(b"depth");
    values.push(FieldValue::Number(depth));
    if is_exit {
        if let Some(duration) = duration(event.fields) {
            keys.push(b"duration");
            values.push(FieldValue::Number(duration));
        }
        if let Some(result) = result {
            keys.push(b"ret");
            values.push(FieldValue::Either(result));
        }
        return;
    }
    let arguments = open.and_then(|open| {
        let close = memchr::memrchr(b')', code).filter(|close| *close > open)?;
        Some(code[open + 1..close].trim_ascii()).filter(|arguments| !arguments.is_empty())
    });
    if let Some(arguments) = arguments {
        keys.push(b"args");
        values.push(FieldValue::Text(arguments));
    }
}

/// State of a CPU in lines of the tracer: its task, and the time where lines have none. A call begins when what is before it
/// ended, and ends as long after its beginning as it took: what passes between calls is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GraphClock {
    /// Where the name of its task stands in the text, and the number.
    task: (usize, usize, i32),
    now: u64,
    open: Vec<u64>,
    /// Calls inside of those that are kept.
    deeper: u64,
}

impl GraphClock {
    /// The head that a line stands for.
    pub(super) fn head<'a>(&mut self, line: &GraphLine<'a>, text: &'a [u8]) -> LineHead<'a> {
        if let Some((comm, pid)) = line.task {
            self.task = ((comm.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize), comm.len(), pid);
        }
        let (begin, len, pid) = self.task;
        if let Some(event) = line.event.filter(|_| line.time.is_none()) {
            self.pass(&event);
        }
        LineHead {
            instance: b"",
            comm: text.get(begin..).and_then(|text| text.get(..len)).unwrap_or_default(),
            pid,
            tgid: None,
            cpu: line.cpu,
            flags: line.flags,
            time: LineTime::Ns(line.time.unwrap_or(self.now)),
            rest: b"",
        }
    }

    /// Steps over the time of an event.
    fn pass(&mut self, event: &LineEvent<'_>) {
        match event.form {
            EventForm::GraphEntry if self.open.len() < MAX_OPEN => self.open.push(self.now),
            EventForm::GraphEntry => self.deeper += 1,
            EventForm::GraphExit => self.end_leaf(duration(event.fields).unwrap_or(0)),
            _ => {}
        }
    }

    /// The innermost call ends, which took this many ns.
    pub(super) fn end_leaf(&mut self, duration: u64) {
        let begin = match self.deeper.checked_sub(1) {
            Some(deeper) => {
                self.deeper = deeper;
                self.now
            }
            None => self.open.pop().unwrap_or(self.now),
        };
        self.now = self.now.max(begin.saturating_add(duration));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> Option<String> {
        let line = GraphLine::read(line.as_bytes())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let task = line.task.map(|(comm, pid)| format!("{}-{pid}", text(comm)));
        let event = line.event.map(|event| {
            let (mut keys, mut values) = (Vec::new(), Vec::new());
            fields(&event, &mut keys, &mut values);
            let value = |value: &FieldValue<'_>| match value {
                FieldValue::Text(of) | FieldValue::Either(of) => text(of),
                FieldValue::Number(number) => number.to_string(),
                _ => String::new(),
            };
            let pairs: Vec<_> =
                keys.iter().zip(&values).map(|(key, of)| format!("{}={}", text(key), value(of))).collect();
            let leaf = end_of_leaf(&event).map_or(String::new(), |(_, ns)| format!(" +{ns}"));
            format!("{:?} {}{leaf}", event.form, pairs.join(" "))
        });
        Some(format!("{} {:?} {task:?} {event:?}", line.cpu, line.time))
    }

    #[test]
    fn lines_with_any_columns_are_read() {
        let cases = [
            (" 0)               |  sys_open() {", r#"0 None None Some("GraphEntry symbol=sys_open depth=0")"#),
            (
                " 0)   1.382 us    |        __might_sleep();",
                r#"0 None None Some("GraphEntry symbol=__might_sleep depth=3 +1382")"#,
            ),
            (" 1)  + 12.5 us    |    }", r#"1 None None Some("GraphExit depth=1 duration=12500")"#),
            (
                " 1)  ! 123.456 us |    } /* f = 0x1 */",
                r#"1 None None Some("GraphExit symbol=f depth=1 duration=123456 ret=0x1")"#,
            ),
            (
                " 1)   1.757 us    |        } /* f() */",
                r#"1 None None Some("GraphExit symbol=f depth=3 duration=1757")"#,
            ),
            (" 2) $ 3594274 us  |  }", r#"2 None None Some("GraphExit depth=0 duration=3594274000")"#),
            (
                " 1)   0.1 us |  f(a=0x1, b=2); /* = -1 */",
                r#"1 None None Some("GraphEntry symbol=f depth=0 args=a=0x1, b=2 +100")"#,
            ),
            (
                " 5.000001 |   3)  a b-17    | d..1 |   |  f() {",
                r#"3 Some(5000001000) Some("a b-17") Some("GraphEntry symbol=f depth=0")"#,
            ),
            (" 0)   bash-7    =>   <idle>-0   ", r#"0 None Some("<idle>-0") None"#),
            (" 0)   ==========> |", "0 None None None"),
        ];
        for (line, want) in cases {
            assert_eq!(shown(line).as_deref(), Some(want), "{line}");
        }
        for line in ["", " 0) x", "12", " 0)  what is this |  f();", " ------------------------------------------"] {
            assert_eq!(shown(line), None, "{line}");
        }
        let event =
            GraphLine::read(b" 0)               |  /* sched_waking: comm=a pid=1 */").and_then(|line| line.event);
        assert_eq!(event.map(|event| event.name), Some(&b"sched_waking"[..]));
    }

    #[test]
    fn times_follow_from_durations() {
        let lines = [" 0)  |  f() {", " 0)  1 us |    g();", " 0)  2 us |    h();", " 0)  5 us |  }", " 0)  |  f() {"];
        let mut clock = GraphClock::default();
        let times = lines.iter().map(|line: &&str| {
            let line = GraphLine::read(line.as_bytes()).expect("a line");
            let time = clock.head(&line, b"").time.value();
            if let Some((_, ns)) = line.event.as_ref().and_then(end_of_leaf) {
                clock.end_leaf(ns);
            }
            time
        });
        assert_eq!(times.collect::<Vec<_>>(), [0, 0, 1000, 5000, 5000]);
    }
}
