//! Lines of `perf script`: a sample or another record, with the frames of its call chain in the lines after it.
//!
//! ```text
//!     bash 1994/1996 [000]  1103.816263:     250000 cpu-clock:
//!     comm pid/tid   cpu    time         period     event      text, or an address with its symbol
//!         7f76a33c462a main+0x2a (/usr/bin/x)
//! ```
//!
//! The process, the CPU and the period may be left out.

use memchr::memchr;

use super::line::{EventForm, LineEvent, LineHead, MAX_CPUS, NO_CPU, number, time};

/// Parts of a line that `perf script` has and text of ftrace has not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct LineExtras<'a> {
    pub(super) period: Option<u64>,
    /// Lines of a call chain.
    pub(super) frames: &'a [u8],
}

impl LineExtras<'_> {
    /// Which of them there are: classes differ by that.
    #[inline]
    pub(super) fn mask(&self) -> usize {
        usize::from(self.period.is_some()) | usize::from(!self.frames.is_empty()) << 1
    }
}

/// Records other than samples.
const RECORD: &[u8] = b"PERF_RECORD_";

/// Takes a line of an event apart; `None` when it is not one.
#[inline]
pub(super) fn read(line: &[u8]) -> Option<(LineHead<'_>, LineExtras<'_>, LineEvent<'_>)> {
    let mut from = 0;
    // The time is the first word of digits with a point in them and a colon at the end that has a thread before it.
    while let Some(step) = memchr(b'.', &line[from..]) {
        let point = from + step;
        from = point + 1;
        let digits = line[..point].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let begin = point - digits;
        if digits == 0 || begin == 0 || !line[begin - 1].is_ascii_whitespace() {
            continue;
        }
        if let Some((time, rest)) = time(&line[begin..])
            && let Some((comm, who, cpu)) = task(&line[..begin])
        {
            let (tgid, pid) = who;
            let rest = rest.trim_ascii_start();
            let (period, event) = event(rest)?;
            let head = LineHead { instance: b"", comm, pid, tgid: tgid.map(Some), cpu, flags: None, time, rest };
            return Some((head, LineExtras { period, frames: &[] }, event));
        }
    }
    None
}

/// A process, where the line has it, and a thread.
type LineIds = (Option<i32>, i32);

/// Name, process and thread, and CPU.
fn task(text: &[u8]) -> Option<(&[u8], LineIds, u32)> {
    let mut text = text.trim_ascii_end();
    let mut cpu = NO_CPU;
    if text.last() == Some(&b']') {
        let open = memchr::memrchr(b'[', text)?;
        // perf prints -1 where it does not know the CPU.
        cpu = match number(&text[open + 1..text.len() - 1]) {
            Some((cpu, b"")) => u32::try_from(cpu).ok().filter(|cpu| *cpu < MAX_CPUS)?,
            _ if text[open + 1..].starts_with(b"-") => NO_CPU,
            _ => return None,
        };
        text = text[..open].trim_ascii_end();
    }
    let blank = text.iter().rposition(u8::is_ascii_whitespace)?;
    let ids = &text[blank + 1..];
    let who = match memchr(b'/', ids) {
        Some(slash) => (Some(id(&ids[..slash])?), id(&ids[slash + 1..])?),
        None => (None, id(ids)?),
    };
    let comm = text[..blank].trim_ascii();
    (!comm.is_empty()).then_some((comm, who, cpu))
}

/// The number of a thread or process; that of one that has ended is -1.
fn id(text: &[u8]) -> Option<i32> {
    let (digits, sign) = text.strip_prefix(b"-").map_or((text, 1), |digits| (digits, -1));
    let (value, b"") = number(digits)? else { return None };
    i32::try_from(value).ok().map(|value| value * sign)
}

/// The period and what follows it.
fn event(rest: &[u8]) -> Option<(Option<u64>, LineEvent<'_>)> {
    let (period, rest) = match number(rest) {
        Some((period, after)) if after.first().is_some_and(u8::is_ascii_whitespace) => {
            (Some(period), after.trim_ascii_start())
        }
        _ => (None, rest),
    };
    if rest.starts_with(RECORD) {
        let end = rest.iter().position(|byte| *byte == b':' || byte.is_ascii_whitespace()).unwrap_or(rest.len());
        let fields = rest[end..].strip_prefix(b":").unwrap_or(&rest[end..]).trim_ascii();
        return Some((period, LineEvent { form: EventForm::Record, name: &rest[..end], fields }));
    }
    let word = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
    let name = rest[..word].strip_suffix(b":").filter(|name| !name.is_empty())?;
    let fields = rest[word..].trim_ascii();
    let event = match tracepoint(name) {
        Some(name) => LineEvent { form: EventForm::Named, name, fields },
        None => LineEvent { form: EventForm::Sample, name, fields },
    };
    Some((period, event))
}

/// The name of a tracepoint without its system; `None` for events with modifiers (`cycles:u`) and the like.
fn tracepoint(name: &[u8]) -> Option<&[u8]> {
    let colon = memchr(b':', name)?;
    let (system, own) = (&name[..colon], &name[colon + 1..]);
    let is_word = |text: &[u8]| {
        !text.is_empty() && text.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
    };
    let is_modifier = own.iter().all(|byte| b"ukhHGIpPSDWebR".contains(byte));
    (is_word(system) && is_word(own) && !is_modifier).then_some(own)
}

/// Where the lines end that are frames of the event before them.
pub(super) fn end_of_frames(text: &[u8], first: usize) -> usize {
    let mut at = first;
    while text.get(at) == Some(&b'\t') {
        at += memchr(b'\n', &text[at..]).map_or(text.len() - at, |len| len + 1);
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> Option<String> {
        let (head, extras, event) = read(line.as_bytes())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let cpu = if head.cpu == NO_CPU { "-".to_string() } else { head.cpu.to_string() };
        Some(format!(
            "{}|{:?} {}|{cpu}|{}|{:?}|{:?} {}|{}",
            text(head.comm),
            head.tgid.flatten(),
            head.pid,
            head.time.value(),
            extras.period,
            event.form,
            text(event.name),
            text(event.fields)
        ))
    }

    #[test]
    fn lines_of_all_forms_are_read() {
        let cases = [
            (
                "sh 22906 43231.069673:     250000 cpu-clock: ",
                "sh|None 22906|-|43231069673000|Some(250000)|Sample cpu-clock|",
            ),
            (
                "  Web Content  7/8   [003]     1.000000001:          1 cycles:u:  7f00 f(int)+0x2 (/x y)",
                "Web Content|Some(7) 8|3|1000000001|Some(1)|Sample cycles:u|7f00 f(int)+0x2 (/x y)",
            ),
            (
                "perf 23063 [000] 43234.803040: sched:sched_waking: comm=migration/0 pid=18",
                "perf|None 23063|0|43234803040000|None|Named sched_waking|comm=migration/0 pid=18",
            ),
            ("a 1.5 -1/-1 [-01] 2.5: cpu/event=1/P: 0", "a 1.5|Some(-1) -1|-|2500000000|None|Sample cpu/event=1/P|0"),
            (
                "sh 22906 43231.069407: PERF_RECORD_COMM exec: sh:22906/22906",
                "sh|None 22906|-|43231069407000|None|Record PERF_RECORD_COMM|exec: sh:22906/22906",
            ),
            ("x 1 [000] 1.0: probe:do_x: (ffff) a=1", "x|None 1|0|1000000000|None|Named do_x|(ffff) a=1"),
        ];
        for (line, want) in cases {
            assert_eq!(shown(line).as_deref(), Some(want), "{line}");
        }
        for line in [
            "",
            "# captured on: x 1 2.5: a:",
            "bash-1994 [000] d..2. 1.5: sched_switch: a",
            "bash-1994 [000] 1.5: sched_switch: a",
            "\t7f76a33c462a main+0x2a (/usr/bin/x)",
            "x 1 1.5: no event",
        ] {
            let is_heading = line.starts_with('#');
            assert!(shown(line).is_none() || is_heading, "{line}");
        }
    }
}
