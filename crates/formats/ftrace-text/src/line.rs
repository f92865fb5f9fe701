//! A line of an event taken apart: task, CPU, flags, time, and what follows them.
//!
//! ```text
//!            bash-1994  ( 1994) [000] d..2.  1103.816263: sched_switch: prev_comm=bash ...
//!            comm pid    tgid    cpu  flags  time         the rest
//! ```

use memchr::{memchr, memmem, memrchr};

/// Bits of `common_flags`, as the kernel stores them (`include/linux/trace_events.h`).
mod flag {
    pub(super) const IRQS_OFF: u8 = 0x01;
    pub(super) const IRQS_UNKNOWN: u8 = 0x02;
    pub(super) const NEED_RESCHED: u8 = 0x04;
    pub(super) const HARD_IRQ: u8 = 0x08;
    pub(super) const SOFT_IRQ: u8 = 0x10;
    pub(super) const PREEMPT_RESCHED: u8 = 0x20;
    pub(super) const NMI: u8 = 0x40;
    pub(super) const BH_OFF: u8 = 0x80;
}

/// Bytes of the column of a process at most.
const MAX_TGID_BYTES: usize = 24;
/// Digits of a thread at most.
const MAX_PID_DIGITS: usize = 10;
/// Digits of a CPU at most.
const MAX_CPU_DIGITS: usize = 6;
/// CPUs have numbers below this.
pub(super) const MAX_CPUS: u32 = 1 << 16;
/// The number that stands for no CPU.
pub(super) const NO_CPU: u32 = MAX_CPUS;

/// The time of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LineTime {
    /// Seconds with a fraction, or µs since the first line, as ns.
    Ns(u64),
    /// A count of a clock that does not count ns.
    Cycles(u64),
}

impl LineTime {
    /// The number.
    #[inline]
    pub(super) fn value(self) -> u64 {
        let (LineTime::Ns(value) | LineTime::Cycles(value)) = self;
        value
    }
}

/// The beginning of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LineHead<'a> {
    /// The instance, or the file, in texts of several; empty for the top one.
    pub(super) instance: &'a [u8],
    /// Name of the task; empty when the tracer did not know it.
    pub(super) comm: &'a [u8],
    pub(super) pid: i32,
    /// The process, where there is a column for it: `None` in there is unknown.
    pub(super) tgid: Option<Option<i32>>,
    /// [`NO_CPU`] where the line has none.
    pub(super) cpu: u32,
    /// `common_flags` and `common_preempt_count`.
    pub(super) flags: Option<(u8, u8)>,
    pub(super) time: LineTime,
    /// Text after the time.
    pub(super) rest: &'a [u8],
}

impl<'a> LineHead<'a> {
    /// The beginning of a line; `None` when it is not the line of an event.
    #[inline]
    pub(super) fn read(line: &'a [u8]) -> Option<LineHead<'a>> {
        let mut from = 0;
        while let Some(step) = memchr(b'[', &line[from..]) {
            if let Some(head) = with_brackets(line, from + step) {
                return Some(head);
            }
            from += step + 1;
        }
        of_latency(line)
    }
}

/// The head whose CPU begins with the bracket at `open`.
#[inline]
fn with_brackets(line: &[u8], open: usize) -> Option<LineHead<'_>> {
    let (cpu, after) = number(&line[open + 1..])?;
    if cpu >= MAX_CPUS.into() || after.first() != Some(&b']') || line.len() - open - 2 - after.len() >= MAX_CPU_DIGITS {
        return None;
    }
    let mut rest = blanks(&after[1..])?;
    let mut flags = None;
    let is_digit = |rest: &[u8]| rest.first().is_some_and(u8::is_ascii_digit);
    // Flags may begin with a digit in no kernel.
    if !is_digit(rest) {
        let end = memchr(b' ', rest)?;
        flags = Some(flags_of(&rest[..end])?);
        rest = blanks(&rest[end..])?;
    }
    let (time, rest) = time(rest)?;
    let (comm, pid, tgid) = task(&line[..open])?;
    let (instance, comm) = instance(comm);
    Some(LineHead { instance, comm, pid, tgid, cpu: cpu as u32, flags, time, rest: rest.trim_ascii_start() })
}

/// The head of the latency format: CPU and flags are one word, and the time may be µs.
#[cold]
fn of_latency(line: &[u8]) -> Option<LineHead<'_>> {
    // The task ends with a dash and digits before the first word that is a CPU with flags.
    let mut at = line.iter().position(|byte| !byte.is_ascii_whitespace())?;
    for _ in 0..24 {
        let end = at + line[at..].iter().position(u8::is_ascii_whitespace)?;
        let next = end + line[end..].iter().position(|byte| !byte.is_ascii_whitespace())?;
        if let Some((cpu, flags)) = number(&line[at..end])
            && cpu < MAX_CPUS.into()
            && (3..=8).contains(&flags.len())
            && let Some(flags) = flags_of(flags)
            && let Some((time, rest)) = time(&line[next..]).or_else(|| micros(&line[next..]))
            && let Some((comm, pid, tgid)) = task(&line[..at])
        {
            let (cpu, flags, rest) = (cpu as u32, Some(flags), rest.trim_ascii_start());
            return Some(LineHead { instance: b"", comm, pid, tgid, cpu, flags, time, rest });
        }
        at = next;
    }
    None
}

/// Name, thread and process of a task; see [`LineHead`].
pub(super) type LineTask<'a> = (&'a [u8], i32, Option<Option<i32>>);

/// The task before the CPU.
#[inline]
pub(super) fn task(text: &[u8]) -> Option<LineTask<'_>> {
    let mut text = text.trim_ascii_end();
    let mut tgid = None;
    if text.last() == Some(&b')') {
        let last = text.len().saturating_sub(MAX_TGID_BYTES);
        let open = last + memrchr(b'(', &text[last..])?;
        let inside = text[open + 1..text.len() - 1].trim_ascii();
        tgid = Some(match number(inside) {
            Some((tgid, b"")) => Some(i32::try_from(tgid).ok()?),
            None if inside.iter().all(|byte| *byte == b'-') => None,
            _ => return None,
        });
        text = text[..open].trim_ascii_end();
    }
    // From the end, so that a line with many brackets is not searched for each of them.
    let digits = text.iter().rev().take(MAX_PID_DIGITS).take_while(|byte| byte.is_ascii_digit()).count();
    let (task, digits) = text.split_at(text.len() - digits);
    let (pid, _) = number(digits)?;
    let comm = task.strip_suffix(b"-")?.trim_ascii_start();
    Some((known(comm), i32::try_from(pid).ok()?, tgid))
}

/// The name of a task, empty when the tracer did not know it.
#[inline]
fn known(comm: &[u8]) -> &[u8] {
    if comm == b"<...>" { b"" } else { comm }
}

/// The instance or the file that trace-cmd writes before lines of several, and the name of the task: that is a column of 16,
/// and names have 15 bytes at most.
#[inline]
fn instance(comm: &[u8]) -> (&[u8], &[u8]) {
    const COLUMN: usize = 16;
    let column = if comm.len() > COLUMN { memmem::find(comm, b": ").map(|at| at + 2) } else { None };
    match column.filter(|column| comm.len() - column >= COLUMN) {
        Some(column) => (&comm[..column - 2], known(comm[column..].trim_ascii_start())),
        None => (b"", comm),
    }
}

/// Seconds with a fraction of at most nine digits, or a count, with a colon after it.
#[inline]
pub(super) fn time(text: &[u8]) -> Option<(LineTime, &[u8])> {
    let (seconds, rest) = number(text)?;
    let (time, rest) = match rest.first()? {
        b'.' => {
            let (fraction, after) = number(&rest[1..])?;
            let digits = rest.len() - 1 - after.len();
            let scale = *POWERS.get(9usize.checked_sub(digits)?)?;
            let ns = seconds.checked_mul(1_000_000_000)?.checked_add(fraction * scale)?;
            (LineTime::Ns(ns), after)
        }
        _ => (LineTime::Cycles(seconds), rest),
    };
    let rest = rest.strip_prefix(b":")?;
    rest.first().is_none_or(u8::is_ascii_whitespace).then_some((time, rest))
}

const POWERS: [u64; 9] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// `17us :`, `4us+:`: µs since the first line.
fn micros(text: &[u8]) -> Option<(LineTime, &[u8])> {
    let (micros, rest) = number(text)?;
    let rest = rest.strip_prefix(b"us")?;
    let colon = rest.iter().take(2).position(|byte| *byte == b':')?;
    Some((LineTime::Ns(micros.checked_mul(1000)?), &rest[colon + 1..]))
}

/// The decimal digits at the beginning, and what follows them. At least one and at most 19.
#[inline]
pub(super) fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let (mut value, mut at) = (0u64, 0);
    while let Some(digit) = text.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit < 10) {
        if at == 19 {
            return None;
        }
        value = value * 10 + u64::from(digit);
        at += 1;
    }
    (at > 0).then(|| (value, &text[at..]))
}

/// The text after blanks, of which there is at least one.
#[inline]
fn blanks(text: &[u8]) -> Option<&[u8]> {
    let rest = text.trim_ascii_start();
    (rest.len() < text.len()).then_some(rest)
}

/// The flags of a column such as `d..2.`, and the depths of disabled preemption and migration.
#[inline]
pub(super) fn flags_of(column: &[u8]) -> Option<(u8, u8)> {
    let mut flags = 0;
    for (at, byte) in column.iter().enumerate().take(3) {
        flags |= match (at, byte) {
            (_, b'.') => 0,
            (0, b'd') => flag::IRQS_OFF,
            (0, b'D') => flag::IRQS_OFF | flag::BH_OFF,
            (0, b'b') => flag::BH_OFF,
            (0, b'X') => flag::IRQS_UNKNOWN,
            (1, b'N' | b'B') => flag::NEED_RESCHED | flag::PREEMPT_RESCHED,
            (1, b'n' | b'L' | b'b') => flag::NEED_RESCHED,
            (1, b'p') => flag::PREEMPT_RESCHED,
            (1, b'l') => 0,
            (2, b'Z') => flag::NMI | flag::HARD_IRQ,
            (2, b'z') => flag::NMI,
            (2, b'H') => flag::HARD_IRQ | flag::SOFT_IRQ,
            (2, b'h') => flag::HARD_IRQ,
            (2, b's') => flag::SOFT_IRQ,
            // Columns that other systems add; what they mean is not known.
            (_, byte) if byte.is_ascii_alphanumeric() || *byte == b'#' => 0,
            _ => return None,
        };
    }
    let digit = |at: usize| match column.get(at) {
        Some(byte) => (*byte as char).to_digit(16).unwrap_or(0) as u8,
        None => 0,
    };
    Some((flags, digit(3) | digit(4) << 4))
}

/// The form in which a line says what happened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum EventForm {
    /// `name: fields`.
    Named,
    /// `sys_read(fd: 3, buf: 7ffd)`.
    SysEnter,
    /// `sys_read -> 0x5`.
    SysExit,
    /// `function <-caller`.
    Function,
    /// `<stack trace>`, with frames in the lines after it.
    Stack,
    /// The beginning of a call of the tracer `function_graph`, or all of it.
    GraphEntry,
    /// The end of one.
    GraphExit,
    /// A sample of perf: an address with its symbol, or nothing.
    Sample,
    /// Another record of perf.
    Record,
    /// A text without a name.
    Other,
}

/// Text of a line after its head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LineEvent<'a> {
    pub(super) form: EventForm,
    /// The name as the line has it; that of a stack is what stands between `<` and `>`.
    pub(super) name: &'a [u8],
    /// Text after the name, without blanks around it.
    pub(super) fields: &'a [u8],
}

impl<'a> LineEvent<'a> {
    /// Divides what follows the head of a line.
    #[inline]
    pub(super) fn read(rest: &'a [u8]) -> LineEvent<'a> {
        let other = LineEvent { form: EventForm::Other, name: b"", fields: rest.trim_ascii_end() };
        let mut from = 0;
        while let Some(step) = memchr::memchr2(b':', b' ', &rest[from..]) {
            let at = from + step;
            if rest[at] == b' ' {
                return with_blank(rest, at).unwrap_or(other);
            }
            if rest.get(at + 1).is_none_or(u8::is_ascii_whitespace) {
                if rest.starts_with(b"sys_") && memchr(b'(', &rest[..at]).is_some() {
                    return call(rest).unwrap_or(other);
                }
                let (name, fields) = (&rest[..at], rest[at + 1..].trim_ascii());
                return match name.is_empty() {
                    true => other,
                    false => LineEvent { form: EventForm::Named, name, fields },
                };
            }
            from = at + 1;
        }
        call(rest).unwrap_or(other)
    }
}

/// `sys_read(..)`: a system call with its arguments.
fn call(rest: &[u8]) -> Option<LineEvent<'_>> {
    let rest = rest.trim_ascii_end();
    let open = memchr(b'(', rest).filter(|_| rest.starts_with(b"sys_") && rest.last() == Some(&b')'))?;
    let (name, fields) = (&rest[..open], rest[open + 1..rest.len() - 1].trim_ascii());
    Some(LineEvent { form: EventForm::SysEnter, name, fields })
}

/// A text with a blank after its first word, at `at`.
fn with_blank(rest: &[u8], at: usize) -> Option<LineEvent<'_>> {
    let (name, after) = (&rest[..at], rest[at..].trim_ascii());
    let of = |form, name, fields| Some(LineEvent { form, name, fields });
    if after.starts_with(b"<-") {
        return of(EventForm::Function, b"function", rest.trim_ascii_end());
    }
    // Switches and wake-ups of the latency tracers have no name.
    for (arrow, name) in [(&b"==> ["[..], &b"context_switch"[..]), (b"+ [", b"wakeup")] {
        if after.starts_with(arrow) {
            return of(EventForm::Named, name, rest.trim_ascii());
        }
    }
    if let Some(ret) = after.strip_prefix(b"-> ").filter(|_| name.starts_with(b"sys_")) {
        return of(EventForm::SysExit, name, ret);
    }
    let stack = rest.trim_ascii_end();
    if let Some(kind) = stack.strip_prefix(b"<").and_then(|rest| rest.strip_suffix(b"trace>")) {
        return of(EventForm::Stack, kind.trim_ascii(), b"");
    }
    if name.starts_with(b"sys_") {
        return call(rest);
    }
    // `name : text`, as some tracers of other systems have it.
    let fields = after.strip_prefix(b":").filter(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))?;
    of(EventForm::Named, name, fields.trim_ascii())
}

/// Events that a CPU lost before its next one: the CPU, and how many where that is known.
pub(super) fn lost(line: &[u8]) -> Option<(u32, Option<u64>)> {
    let (cpu, rest) = number(line.trim_ascii().strip_prefix(b"CPU:")?)?;
    let inside = rest.trim_ascii().strip_prefix(b"[")?.strip_suffix(b"]")?;
    let count = |text: &[u8]| match number(text) {
        Some((count, rest)) => (Some(count), rest.trim_ascii().to_vec()),
        None => (None, text.to_vec()),
    };
    let count = match inside.strip_prefix(b"LOST ") {
        Some(rest) => match count(rest) {
            (count, words) if words == b"EVENTS" => count,
            _ => return None,
        },
        None => match count(inside) {
            (count, words) if words == b"EVENTS DROPPED" => count,
            _ => return None,
        },
    };
    Some((u32::try_from(cpu).ok().filter(|cpu| *cpu < MAX_CPUS)?, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> Option<String> {
        let head = LineHead::read(line.as_bytes())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let event = LineEvent::read(head.rest);
        Some(format!(
            "{}|{}|{:?}|{}|{:x?}|{:?}|{:?} {}|{}",
            text(head.comm),
            head.pid,
            head.tgid,
            head.cpu,
            head.flags,
            head.time,
            event.form,
            text(event.name),
            text(event.fields)
        ))
    }

    #[test]
    fn heads_of_all_forms_are_read() {
        let cases = [
            (
                "          <idle>-0       [001] d..2.  100.000100: sched_switch: prev_comm=swapper/1",
                "<idle>|0|None|1|Some((1, 2))|Ns(100000100000)|Named sched_switch|prev_comm=swapper/1",
            ),
            (
                "       CPU 0/KVM-4242    [003]   100.000200: x:      y",
                "CPU 0/KVM|4242|None|3|None|Ns(100000200000)|Named x|y",
            ),
            (
                " kworker/u8:1-0-123 (-----) [000] dNH3 1.5: x: a [0] b: c",
                "kworker/u8:1-0|123|Some(None)|0|Some((3d, 3))|Ns(1500000000)|Named x|a [0] b: c",
            ),
            ("  a-1  (  77) [010] .... 12: x:", "a|1|Some(Some(77))|10|Some((0, 0))|Cycles(12)|Named x|"),
            (
                "<...>-5 [000] .... 1.123456789: sys_read(fd: 3, buf: 7f)",
                "|5|None|0|Some((0, 0))|Ns(1123456789)|SysEnter sys_read|fd: 3, buf: 7f",
            ),
            ("[x]-5 [000] .... 1.1: sys_read -> 0x5", "[x]|5|None|0|Some((0, 0))|Ns(1100000000)|SysExit sys_read|0x5"),
            ("a-5 [000] ...1 1.1: sys_getpid()", "a|5|None|0|Some((0, 1))|Ns(1100000000)|SysEnter sys_getpid|"),
            (
                "a-5 [000] ...1 1.1: f.part.0 <-g",
                "a|5|None|0|Some((0, 1))|Ns(1100000000)|Function function|f.part.0 <-g",
            ),
            ("a-5 [000] ...11 1.1: <stack trace>", "a|5|None|0|Some((0, 11))|Ns(1100000000)|Stack stack|"),
            ("  <idle>-0       0d.s2    0us+: f <-g", "<idle>|0|None|0|Some((11, 2))|Ns(0)|Function function|f <-g"),
            (
                "  <idle>-0       0dNs3   17us : f <-g",
                "<idle>|0|None|0|Some((35, 3))|Ns(17000)|Function function|f <-g",
            ),
            (
                " uftrace-17993   0.....  1103.816774: x: y",
                "uftrace|17993|None|0|Some((0, 0))|Ns(1103816774000)|Named x|y",
            ),
            (
                "  <idle>-0       3d..3   30us :      0:120:R ==> [003]  2448: 94:R sleep",
                "<idle>|0|None|3|Some((1, 3))|Ns(30000)|Named context_switch|0:120:R ==> [003]  2448: 94:R sleep",
            ),
            ("mine:            <...>-8021  [001]  1.5: x: y", "|8021|None|1|None|Ns(1500000000)|Named x|y"),
            ("a-5 [000] .... 1.1: mark : y", "a|5|None|0|Some((0, 0))|Ns(1100000000)|Named mark|y"),
            ("a-5 [000] .... 1.1: just words", "a|5|None|0|Some((0, 0))|Ns(1100000000)|Other |just words"),
        ];
        for (line, want) in cases {
            assert_eq!(shown(line).as_deref(), Some(want), "{line}");
        }
        let brackets = "[0] 1: ".repeat(1 << 18);
        for line in [
            &*brackets,
            "",
            "# tracer: nop",
            " => __schedule",
            "a-1 [00] x",
            "a [000] 1.1: x: y",
            "a-1 [000] 1.1234567890: x:",
        ] {
            assert_eq!(shown(line), None, "{line}");
        }
    }

    #[test]
    fn losses_are_read() {
        assert_eq!(lost(b"CPU:2 [LOST 1123 EVENTS]"), Some((2, Some(1123))));
        assert_eq!(lost(b"CPU:0 [LOST EVENTS]\r"), Some((0, None)));
        assert_eq!(lost(b"CPU:1 [78 EVENTS DROPPED]"), Some((1, Some(78))));
        assert_eq!(lost(b"CPU:1 [EVENTS DROPPED]"), Some((1, None)));
        for line in ["CPU:x [LOST EVENTS]", "CPU:1 LOST", "CPU:1 [FOUND 3 EVENTS]", "CPU:99999999 [LOST EVENTS]"] {
            assert_eq!(lost(line.as_bytes()), None, "{line}");
        }
    }
}
