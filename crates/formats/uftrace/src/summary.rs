//! The recorder's notes on the run, as `uftrace info` shows it.

use std::fmt::Write;

use tracemill_format::calls::CallTask;

use super::info::Info;

/// The file with notes of the user.
pub(super) const NOTES: &str = "note.txt";

/// The entries of `info` as text, with the names that tasks had last; empty when the recorder announced none.
pub(super) fn summary(info: &Info, tasks: &[CallTask], names: &[Vec<u8>], notes: Option<&[u8]>) -> Vec<u8> {
    if info.header.groups == 0 {
        return Vec::new();
    }
    let mut text = SummaryLines(String::new());
    text.heading("system information");
    text.entry(info, "program version", "uftrace_version");
    text.entry(info, "recorded on", "record_date");
    text.entry(info, "cmdline", "cmdline");
    text.entry(info, "cpu info", "cpuinfo.desc");
    if let Some([online, possible]) = numbers(info, "cpuinfo.nr_cpus") {
        text.line("number of cpus", format_args!("{online} / {possible} (online / possible)"));
    }
    text.entry(info, "memory info", "meminfo");
    if let Some([one, five, fifteen]) = numbers(info, "loadinfo") {
        text.line("system load", format_args!("{one:.2} / {five:.2} / {fifteen:.2} (1 / 5 / 15 min)"));
    }
    text.entry(info, "kernel version", "osinfo.kernel");
    text.entry(info, "hostname", "osinfo.hostname");
    text.entry(info, "distro", "osinfo.distro");
    text.0.push_str("#\n");
    text.heading("process information");
    if info.tids.is_some() {
        text.line("number of tasks", format_args!("{}", tasks.len()));
        let name = |(task, name): (&CallTask, &Vec<u8>)| format!("{}({})", task.tid, String::from_utf8_lossy(name));
        text.line("task list", format_args!("{}", tasks.iter().zip(names).map(name).collect::<Vec<_>>().join(", ")));
    }
    text.entry(info, "exe image", "exename");
    text.entry(info, "build id", "build_id");
    text.entry(info, "arguments", "argspec");
    text.entry(info, "return values", "retspec");
    if info.specs.is_auto {
        text.line("auto-args", format_args!("true"));
    }
    text.entry(info, "pattern", "pattern_type");
    if let Some(status) = entry(info, "exit_status").and_then(|status| status.trim().parse().ok()) {
        text.line("exit status", format_args!("{}", exit_status(status)));
    }
    text.entry(info, "elapsed time", "elapsed_time");
    if let (Some([system]), Some([user])) = (numbers(info, "usageinfo.systime"), numbers(info, "usageinfo.usrtime")) {
        text.line("cpu time", format_args!("{system:.3} / {user:.3} sec (sys / user)"));
    }
    if let Some([wanted, forced]) = numbers(info, "usageinfo.ctxsw") {
        text.line("context switch", format_args!("{wanted} / {forced} (voluntary / involuntary)"));
    }
    if let Some([size]) = numbers(info, "usageinfo.maxrss") {
        text.line("max rss", format_args!("{size} KB"));
    }
    if let Some([major, minor]) = numbers(info, "usageinfo.pagefault") {
        text.line("page fault", format_args!("{major} / {minor} (major / minor)"));
    }
    if let Some([read, written]) = numbers(info, "usageinfo.iops") {
        text.line("disk iops", format_args!("{read} / {written} (read / write)"));
    }
    let Some(notes) = notes else {
        text.0.push('\n');
        return text.0.into_bytes();
    };
    text.0.push_str("#\n");
    text.heading("extra note information");
    let mut bytes = text.0.into_bytes();
    bytes.extend_from_slice(notes);
    bytes.push(b'\n');
    bytes
}

/// The lines of the text.
struct SummaryLines(String);

impl SummaryLines {
    fn heading(&mut self, title: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# {title}\n# {}", "=".repeat(title.len()));
    }

    fn line(&mut self, name: &str, value: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.0, "# {name:<20}: {value}");
    }

    /// An entry of the file as it is, when it is there.
    fn entry(&mut self, info: &Info, name: &str, key: &str) {
        if let Some(value) = entry(info, key) {
            self.line(name, format_args!("{value}"));
        }
    }
}

fn entry<'a>(info: &'a Info, key: &str) -> Option<&'a str> {
    info.entries.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
}

/// The numbers of an entry, between slashes; what is none counts as 0, as there.
fn numbers<const N: usize>(info: &Info, key: &str) -> Option<[f64; N]> {
    let mut parts = entry(info, key)?.split('/').map(|part| {
        let part = part.trim_start();
        let len = part.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(part.len());
        part[..len].parse().unwrap_or(0.0)
    });
    Some(std::array::from_fn(|_| parts.next().unwrap_or(0.0)))
}

/// Meaning of the status of an ended process, as `wait` gives it.
fn exit_status(status: i64) -> String {
    /// The recorder stopped by a trigger, and did not wait for the end.
    const FINISHED: i64 = 1 << 16;
    match status & 0x7f {
        _ if status == FINISHED => "terminated by finish trigger".into(),
        0 => format!("exited with code: {}", status >> 8 & 0xff),
        0x7f => format!("unknown exit status: {status}"),
        signal => format!("terminated by signal: {signal} ({})", signal_text(signal)),
    }
}

/// The text of a signal of Linux.
fn signal_text(signal: i64) -> String {
    const TEXTS: [&str; 31] = [
        "Hangup",
        "Interrupt",
        "Quit",
        "Illegal instruction",
        "Trace/breakpoint trap",
        "Aborted",
        "Bus error",
        "Floating point exception",
        "Killed",
        "User defined signal 1",
        "Segmentation fault",
        "User defined signal 2",
        "Broken pipe",
        "Alarm clock",
        "Terminated",
        "Stack fault",
        "Child exited",
        "Continued",
        "Stopped (signal)",
        "Stopped",
        "Stopped (tty input)",
        "Stopped (tty output)",
        "Urgent I/O condition",
        "CPU time limit exceeded",
        "File size limit exceeded",
        "Virtual timer expired",
        "Profiling timer expired",
        "Window changed",
        "I/O possible",
        "Power failure",
        "Bad system call",
    ];
    // The C library keeps the first two real-time signals for itself.
    match usize::try_from(signal - 1).ok().and_then(|at| TEXTS.get(at)) {
        Some(text) => (*text).into(),
        None if (34..=64).contains(&signal) => format!("Real-time signal {}", signal - 34),
        None => format!("Unknown signal {signal}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_those_of_wait() {
        let texts = [
            (0, "exited with code: 0"),
            (256, "exited with code: 1"),
            (11, "terminated by signal: 11 (Segmentation fault)"),
            (139, "terminated by signal: 11 (Segmentation fault)"),
            (44, "terminated by signal: 44 (Real-time signal 10)"),
            (33, "terminated by signal: 33 (Unknown signal 33)"),
            (127, "unknown exit status: 127"),
            (-1, "unknown exit status: -1"),
            (65_536, "terminated by finish trigger"),
        ];
        for (status, text) in texts {
            assert_eq!(exit_status(status), text);
        }
    }
}
