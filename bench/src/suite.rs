//! The rows: what is run, in which order, and what it is compared with.
//!
//! Everything that is compared with each other runs in rounds, one after the other in each round (A B A B), so that a
//! machine that becomes slower for a while becomes slower for all of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::decode::{self, Decoded};
use crate::measure::{self, Run, Samples};
use crate::others;
use crate::report::{Measure, ReportRow};
use crate::traces::{self, BenchTrace, BenchTraces};

/// How to run.
pub(crate) struct Setup {
    /// Our program.
    pub(crate) tracemill: PathBuf,
    /// Is the other reader there?
    pub(crate) peer: bool,
    /// Rounds.
    pub(crate) runs: usize,
    /// Only rows of these numbers; all when empty.
    pub(crate) only: Vec<u8>,
    /// The traces that are read.
    pub(crate) traces: BenchTraces,
}

/// Something that is run once in each round.
pub(crate) type Round<'a> = Box<dyn FnMut() -> Result<Run> + 'a>;

/// Rounds of small traces for one of a large one: they take less time and vary more.
const SMALL_ROUNDS: usize = 3;

impl Setup {
    fn is_selected(&self, rows: &[u8]) -> bool {
        self.only.is_empty() || self.only.iter().any(|row| rows.contains(row))
    }

    /// Our program with a trace; arguments may follow.
    pub(crate) fn program(&self, command: &str, trace: &Path, arguments: &[&str]) -> Command {
        let mut program = Command::new(&self.tracemill);
        program.args([command, "--progress", "never"]).args(arguments).arg(trace);
        program
    }

    pub(crate) fn ours<'a>(&'a self, command: &'a str, trace: &'a Path, arguments: &'a [&'a str]) -> Round<'a> {
        Box::new(move || measure::child(&mut self.program(command, trace, arguments)))
    }

    /// The other reader; `None` without it.
    fn peers<'a>(&'a self, trace: &'a Path, arguments: &'a [&'a str]) -> Option<Round<'a>> {
        let task = move || measure::child(measure::peer().args(arguments).arg(trace));
        self.peer.then(|| Box::new(task) as Round<'a>)
    }
}

/// Runs tasks in rounds; an absent task has no samples.
pub(crate) fn rounds<const N: usize>(
    title: &str,
    count: usize,
    mut tasks: [Option<Round<'_>>; N],
) -> Result<[Option<Samples>; N]> {
    let mut samples: [Option<Samples>; N] = std::array::from_fn(|at| tasks[at].is_some().then(Samples::default));
    for round in 1..=count {
        eprintln!("{title}: round {round} of {count}");
        for (task, samples) in tasks.iter_mut().zip(&mut samples) {
            if let (Some(task), Some(samples)) = (task, samples) {
                samples.0.push(task()?);
            }
        }
    }
    Ok(samples)
}

/// A decoder as a task; the checksum has to be the same in each round.
fn decoding<'a>(decode: fn(&Path) -> Result<Decoded>, trace: &'a Path) -> Option<Round<'a>> {
    let mut before = None;
    Some(Box::new(move || {
        let (decoded, run) = measure::in_process(|| decode(trace))?;
        if *before.get_or_insert(decoded) != decoded {
            return Err(format!("{}: decoding twice gave different values", trace.display()));
        }
        Ok(run)
    }))
}

fn opening(trace: &Path) -> Option<Round<'_>> {
    Some(Box::new(move || Ok(measure::in_process(|| decode::open(trace).map(drop))?.1)))
}

/// How many times the CPU time of `ours` that of `peer` is.
fn times(ours: &Samples, peer: Option<&Samples>) -> Option<f64> {
    Some(peer?.cpu().median / ours.cpu().median)
}

/// Runs everything that is wanted and possible.
pub(crate) fn run(setup: &Setup) -> Result<Vec<ReportRow>> {
    let mut rows = Vec::new();
    let traces = &setup.traces;
    if let Some(large) = &traces.large
        && setup.is_selected(&[1, 3, 4, 5, 6, 7, 20])
    {
        let facts = Facts::decode(large)?;
        if setup.is_selected(&[1, 4]) {
            decode_rows(setup, &facts, &mut rows)?;
        }
        if setup.is_selected(&[3]) {
            text_rows(setup, &facts, &mut rows)?;
        }
        if setup.is_selected(&[5]) {
            begin_rows(setup, &facts, &mut rows)?;
        }
        if setup.is_selected(&[6]) {
            first_line_row(setup, &facts, &mut rows)?;
        }
        if setup.is_selected(&[7]) {
            memory_rows(setup, &facts, &mut rows)?;
        }
        if setup.is_selected(&[20]) {
            export_rows(setup, &facts, &mut rows)?;
            ctf_rows(setup, &facts, &mut rows)?;
        }
    }
    if setup.is_selected(&[8]) {
        if let (Some(large), Some(small)) = (&traces.large, &traces.small) {
            growth_rows(setup, large, small, &mut rows)?;
        }
        if let (Some(few), Some(many)) = (&traces.wide_40, &traces.wide_2000) {
            class_rows(setup, few, many, &mut rows)?;
        }
    }
    if let (Some(legacy), Some(ctf), true) = (&traces.legacy, traces.small.as_ref(), setup.is_selected(&[9])) {
        legacy_rows(setup, legacy, ctf, &mut rows)?;
    }
    if setup.is_selected(&[9]) {
        if let Some(log) = &traces.cpel {
            log_rows(setup, log, &CPEL_ROWS, &mut rows)?;
        }
        if let Some(log) = &traces.elog {
            log_rows(setup, log, &ELOG_ROWS, &mut rows)?;
        }
    }
    if let (Some(tiny), true) = (&traces.tiny, setup.is_selected(&[10])) {
        tiny_rows(setup, tiny, &mut rows)?;
    }
    if let (Some(kernel), true) = (&traces.kernel, setup.is_selected(&[11])) {
        kernel_rows(setup, kernel, &mut rows)?;
    }
    if let (Some(kernel), true) = (&traces.kernel, setup.is_selected(&[12])) {
        others::rows(setup, kernel, &mut rows)?;
    }
    rows.sort_by_key(|row| row.id);
    Ok(rows)
}

/// Row 10: packets of one event.
fn tiny_rows(setup: &Setup, trace: &BenchTrace, rows: &mut Vec<ReportRow>) -> Result<()> {
    let facts = Facts::decode(trace)?;
    let tasks = [Some(setup.ours("print", facts.path, &["-j1"])), setup.peers(facts.path, &[])];
    let [ours, peer] = rounds("row 10", setup.runs, tasks)?;
    let ours = ours.unwrap_or_default();
    let seconds = Some(ours.wall().median);
    let row = facts.row("10a", "print -j1, a million packets of one event, elapsed", ours, peer.as_ref());
    rows.push(ReportRow { result: seconds, unit: " s", target: Measure::Under(2.0), ..row });
    let mut peak = None;
    for _ in 0..setup.runs.min(3) {
        peak = peak.max(measure::peak_private_bytes(&mut setup.program("print", facts.path, &["-j2"]))?);
    }
    let mib = peak.map(|bytes| bytes as f64 / f64::from(1 << 20));
    let row = facts.row("10b", "print -j2 of it, peak private memory", Samples::default(), None);
    rows.push(ReportRow { result: mib, unit: " MiB", target: Measure::Under(64.0), ..row });
    Ok(())
}

/// The analyses of rows 11: the options of each, and how many times the cost of `print` it may have.
const ANALYSES: [(&str, &str, &[&str], Option<f64>); 14] = [
    ("11a", "cpu", &[], Some(1.0)),
    ("11b", "sched", &[], Some(1.0)),
    ("11c", "irq", &[], Some(1.0)),
    ("11d", "syscalls", &[], Some(1.0)),
    ("11e", "io", &[], Some(1.0)),
    ("11f", "memory", &[], Some(1.0)),
    ("11g", "locks", &[], Some(1.0)),
    ("11h", "processes", &[], Some(1.0)),
    ("11i", "stats", &[], Some(1.0)),
    ("11j", "path", &["--tid", "1001"], Some(1.0)),
    ("11k", "states", &["--format", "jsonl"], None),
    ("11l", "states", &[], None),
    ("11m", "syscalls", &["--log", "--format", "jsonl"], None),
    ("11n", "cpu,sched,irq,syscalls,io", &[], None),
];

/// Rows 11: analyses of a kernel trace, beside printing it.
fn kernel_rows(setup: &Setup, trace: &BenchTrace, rows: &mut Vec<ReportRow>) -> Result<()> {
    let facts = Facts::decode(trace)?;
    for (id, name, options, limit) in ANALYSES {
        let arguments: Vec<&str> = ["-j1", name].iter().chain(options).copied().collect();
        let tasks = [
            Some(setup.ours("analyze", facts.path, &arguments)),
            Some(setup.ours("print", facts.path, &["--format", "text", "-j1"])),
        ];
        let [ours, print] = rounds(&format!("row {id}"), setup.runs, tasks)?.map(Option::unwrap_or_default);
        let result = Some(ours.cpu().median / print.cpu().median);
        let what = [&["analyze", name], options, &["-j1, to print"]].concat().join(" ");
        let row = facts.row(id, &what, ours, None);
        rows.push(ReportRow { result, target: limit.map_or(Measure::None, Measure::Under), ..row });
    }
    let peak = measure::peak_private_bytes(&mut setup.program("analyze", facts.path, &["-j1", "processes"]))?;
    let mib = peak.map(|bytes| bytes as f64 / f64::from(1 << 20));
    let row = facts.row("11o", "analyze processes -j1, peak private memory", Samples::default(), None);
    rows.push(ReportRow { result: mib, unit: " MiB", target: Measure::Under(64.0), ..row });
    Ok(())
}

/// A trace and how large it is.
struct Facts<'a> {
    trace: &'a BenchTrace,
    path: &'a Path,
    decoded: Decoded,
}

impl<'a> Facts<'a> {
    /// Decodes the trace once. Thereby its files are in memory, for us and for the other reader.
    fn decode(trace: &'a BenchTrace) -> Result<Self> {
        eprintln!("reading {} once", trace.name);
        Ok(Facts { trace, path: &trace.path, decoded: decode::rows(&trace.path)? })
    }

    fn row(&self, id: &'static str, what: &str, ours: Samples, peer: Option<&Samples>) -> ReportRow {
        ReportRow {
            id,
            what: what.to_string(),
            trace: self.trace.name.clone(),
            events: Some(self.decoded.events),
            bytes: Some(self.decoded.bytes),
            result: times(&ours, peer),
            peer: peer.cloned(),
            peer_ns: None,
            ours,
            unit: "x",
            target: Measure::None,
            aim: None,
        }
    }
}

/// Rows 1 and 4: everything that the other reader's decoding without output is compared with.
fn decode_rows(setup: &Setup, facts: &Facts<'_>, rows: &mut Vec<ReportRow>) -> Result<()> {
    const FILTER: &str = "name == \"plant:empty\"";
    let hits = measure::lines(&mut setup.program("print", facts.path, &["-j1", "--filter", FILTER]))?;
    if hits == 0 {
        return Err(format!("{}: no events with {FILTER}; record the trace as bench/record says", facts.trace.name));
    }
    let tasks = [
        decoding(decode::rows, facts.path),
        setup.peers(facts.path, &["-o", "dummy"]),
        Some(setup.ours("info", facts.path, &["--count", "-j1"])),
        Some(setup.ours("print", facts.path, &["-j1", "--filter", FILTER])),
    ];
    let [by_row, peer, count, filter] = rounds("rows 1, 4", setup.runs, tasks)?.map(Option::unwrap_or_default);
    let peer = Some(peer).filter(|peer| !peer.0.is_empty());
    let of = |id, what: &str, ours, least, aim| ReportRow {
        target: Measure::AtLeast(least),
        aim,
        ..facts.row(id, what, ours, peer.as_ref())
    };
    rows.push(of("1", "decode every field, row view", by_row, 8.0, Some(12.0)));
    rows.push(of("4a", "info --count -j1", count, 15.0, Some(25.0)));
    rows.push(of("4b", &format!("print --filter -j1, {hits} hits"), filter, 15.0, None));
    Ok(())
}

/// Row 3: text.
fn text_rows(setup: &Setup, facts: &Facts<'_>, rows: &mut Vec<ReportRow>) -> Result<()> {
    let tasks = [
        Some(setup.ours("print", facts.path, &["--format", "text", "-j1"])),
        setup.peers(facts.path, &[]),
        Some(setup.ours("print", facts.path, &["--format", "text", "-j2"])),
    ];
    let [one, peer, two] = rounds("row 3", setup.runs, tasks)?;
    let (one, two) = (one.unwrap_or_default(), two.unwrap_or_default());
    let faster = one.wall().median / two.wall().median;
    let walls = peer.as_ref().map(|peer| peer.wall().median / two.wall().median);
    let text = facts.row("3a", "print --format text -j1", one, peer.as_ref());
    rows.push(ReportRow { target: Measure::AtLeast(10.0), ..text });
    let two_jobs = |id, what: &str, result| ReportRow { result, ..facts.row(id, what, two.clone(), peer.as_ref()) };
    rows.push(two_jobs("3b", "print --format text -j2, elapsed: to -j1", Some(faster)));
    rows.push(two_jobs("3c", "print --format text -j2, elapsed: to peer", walls));
    Ok(())
}

/// Row 5: the last hundredth of the time.
fn begin_rows(setup: &Setup, facts: &Facts<'_>, rows: &mut Vec<ReportRow>) -> Result<()> {
    let begin = format!("--begin={}", last_hundredth(facts.path)?);
    let ours_arguments = ["-j1", begin.as_str()];
    let peer_arguments = &ours_arguments[1..];
    let (_folder, bare) = traces::without_index(facts.trace)?;
    // A time that selects nothing, or something else than the other reader selects, would measure nothing.
    let events = measure::lines(&mut setup.program("print", facts.path, &ours_arguments))?;
    let mut others = vec![measure::lines(&mut setup.program("print", &bare, &ours_arguments))?];
    if setup.peer {
        others.push(measure::lines(measure::peer().args(peer_arguments).arg(facts.path))?);
    }
    if events == 0 || others.iter().any(|&other| other != events) {
        return Err(format!("print {begin} gives {events} lines; without index, and by the other reader: {others:?}"));
    }
    let tasks = [
        Some(setup.ours("print", facts.path, &ours_arguments)),
        setup.peers(facts.path, peer_arguments),
        Some(setup.ours("print", &bare, &ours_arguments)),
    ];
    let [with, peer, without] = rounds("row 5", setup.runs, tasks)?;
    for (id, what, ours) in [("5a", "print --begin -j1, last 1 %", with), ("5b", "the same, no index files", without)] {
        let ours = ours.unwrap_or_default();
        let result = times(&ours, peer.as_ref()).map(|times| 100.0 / times);
        let row = facts.row(id, what, ours, peer.as_ref());
        rows.push(ReportRow {
            events: Some(events),
            bytes: None,
            result,
            unit: " %",
            target: Measure::Under(1.0),
            ..row
        });
    }
    Ok(())
}

/// Seconds since the origin at which the last hundredth of the events' time begins, as both programs read them.
fn last_hundredth(trace: &Path) -> Result<String> {
    let (first, last) = decode::times(trace)?;
    let begin = last - (last - first) / 100;
    if begin < 0 {
        return Err(format!("{}: its times are before 1970", trace.display()));
    }
    Ok(format!("{}.{:09}", begin / 1_000_000_000, begin % 1_000_000_000))
}

/// Row 6: until the first line is there.
fn first_line_row(setup: &Setup, facts: &Facts<'_>, rows: &mut Vec<ReportRow>) -> Result<()> {
    let ours: Round<'_> = Box::new(|| measure::first_byte(&mut setup.program("print", facts.path, &[])));
    let peer: Round<'_> = Box::new(|| measure::first_byte(measure::peer().arg(facts.path)));
    let [ours, peer] = rounds("row 6", setup.runs, [Some(ours), setup.peer.then_some(peer)])?;
    let ours = ours.unwrap_or_default();
    let ms = ours.wall().median * 1e3;
    let what = match &peer {
        Some(peer) => format!("print, until the first byte (peer: {:.1} ms)", peer.wall().median * 1e3),
        None => "print, until the first byte".to_string(),
    };
    let row = facts.row("6", &what, ours, peer.as_ref());
    rows.push(ReportRow {
        events: None,
        bytes: None,
        result: Some(ms),
        unit: " ms",
        target: Measure::Under(20.0),
        ..row
    });
    Ok(())
}

/// Row 7: private memory.
fn memory_rows(setup: &Setup, facts: &Facts<'_>, rows: &mut Vec<ReportRow>) -> Result<()> {
    let runs: [(_, _, &str, &[&str]); 2] = [
        ("7a", "print -j2, peak private memory", "print", &["-j2"]),
        ("7b", "info --count, the same", "info", &["--count"]),
    ];
    for (id, what, command, arguments) in runs {
        eprintln!("row {id}");
        let mut peak = None;
        for _ in 0..setup.runs.min(3) {
            peak = peak.max(measure::peak_private_bytes(&mut setup.program(command, facts.path, arguments))?);
        }
        let mib = peak.map(|bytes| bytes as f64 / f64::from(1 << 20));
        let row = facts.row(id, what, Samples::default(), None);
        rows.push(ReportRow { result: mib, unit: " MiB", target: Measure::Under(64.0), ..row });
    }
    Ok(())
}

/// A name for output in memory, where the system has a file system there.
fn output_in_memory() -> PathBuf {
    let shared = Path::new("/dev/shm");
    let folder = if shared.is_dir() { shared.to_path_buf() } else { std::env::temp_dir() };
    folder.join(format!("tracemill-bench-{}", std::process::id()))
}

/// Rows 20: CTF out of CTF, to memory, by one thread: copied, chosen by a field, rebuilt.
fn ctf_rows(setup: &Setup, facts: &Facts<'_>, rows: &mut Vec<ReportRow>) -> Result<()> {
    const FILTER: &str = "payload.worker == 1";
    let hits = measure::lines(&mut setup.program("print", facts.path, &["-q", "--filter", FILTER]))?;
    if hits == 0 {
        return Err(format!("no event of the trace has {FILTER}"));
    }
    let output = output_in_memory();
    let clear = || {
        // The output does not exist before the first run.
        let _ = std::fs::remove_dir_all(&output);
    };
    let to = output.to_string_lossy().into_owned();
    let ours = |form: &[&str]| -> Round<'_> {
        let arguments: Vec<String> =
            ["-q", "-j1", "-o", &to].iter().chain(form).map(|argument| (*argument).to_string()).collect();
        Box::new(move || {
            clear();
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            measure::child(&mut setup.program("convert", facts.path, &arguments))
        })
    };
    let peer: Round<'_> = Box::new(|| {
        clear();
        measure::child(measure::peer().args(["-o", "ctf", "-w", &to]).arg(facts.path))
    });
    let tasks = [
        Some(ours(&["--to", "ctf1.8"])),
        Some(ours(&["--to", "ctf1.8", "--filter", FILTER])),
        Some(ours(&["--to", "ctf2", "--byte-order", "big"])),
        setup.peer.then_some(peer),
    ];
    let [copied, chosen, encoded, peer] = rounds("rows 20, CTF", setup.runs, tasks)?;
    clear();
    let [copied, chosen, encoded] = [copied, chosen, encoded].map(Option::unwrap_or_default);
    let (seconds, events) = (copied.cpu().median, facts.decoded.events as f64);
    let row = facts.row("20g", "convert as itself, seconds a GB", copied, None);
    let result = Some(seconds / (facts.decoded.bytes as f64 / 1e9));
    rows.push(ReportRow { result, unit: " s/GB", target: Measure::Under(1.0), ..row });
    let row = facts.row("20h", &format!("convert --filter '{FILTER}': {hits} events"), chosen, peer.as_ref());
    rows.push(ReportRow { target: Measure::AtLeast(5.0), ..row });
    let row = facts.row("20i", "convert --to ctf2, every field anew", encoded.clone(), peer.as_ref());
    rows.push(row);
    let result = Some(events / encoded.cpu().median / 1e6);
    let row = facts.row("20j", "the same, millions of events a second", encoded, None);
    rows.push(ReportRow { result, unit: " M/s", target: Measure::AtLeast(5.0), ..row });
    Ok(())
}

/// Rows 20: exports, to memory where the system has a file system there.
fn export_rows(setup: &Setup, facts: &Facts<'_>, rows: &mut Vec<ReportRow>) -> Result<()> {
    let output = output_in_memory();
    let clear = || {
        // The output does not exist before the first run.
        let _ = std::fs::remove_dir_all(&output).or_else(|_| std::fs::remove_file(&output));
    };
    let to = output.to_string_lossy().into_owned();
    for (rate, memory, form) in [("20a", "20b", "perfetto"), ("20c", "20d", "parquet"), ("20e", "20f", "arrow")] {
        let arguments = ["-q", "--to", form, "-o", to.as_str()];
        let known = Command::new(&setup.tracemill).arg("formats").output().map_err(|error| error.to_string())?;
        if !String::from_utf8_lossy(&known.stdout).contains(form) {
            eprintln!("rows 20, {form}: the program was built without it (--features columnar)");
            continue;
        }
        let run: Round<'_> = Box::new(|| {
            clear();
            measure::child(&mut setup.program("convert", facts.path, &arguments))
        });
        let [samples] = rounds(&format!("rows 20, {form}"), setup.runs, [Some(run)])?;
        let samples = samples.unwrap_or_default();
        let result = Some(facts.decoded.events as f64 / samples.cpu().median / 1e6);
        let row = facts.row(rate, &format!("convert --to {form}, millions of events a second"), samples, None);
        rows.push(ReportRow { result, unit: " M/s", target: Measure::AtLeast(2.0), ..row });
        clear();
        let peak = measure::peak_private_bytes(&mut setup.program("convert", facts.path, &arguments))?;
        let result = peak.map(|bytes| bytes as f64 / f64::from(1 << 20));
        let row = facts.row(memory, "the same, peak private memory", Samples::default(), None);
        rows.push(ReportRow { result, unit: " MiB", target: Measure::Under(128.0), ..row });
        clear();
    }
    Ok(())
}

/// Row 8, first part: does an event cost more in a longer trace?
fn growth_rows(setup: &Setup, large: &BenchTrace, small: &BenchTrace, rows: &mut Vec<ReportRow>) -> Result<()> {
    let facts = [Facts::decode(small)?, Facts::decode(large)?];
    let tasks = [
        decoding(decode::rows, &small.path),
        decoding(decode::rows, &large.path),
        opening(&small.path),
        opening(&large.path),
    ];
    let samples = rounds("row 8, events", setup.runs, tasks)?.map(Option::unwrap_or_default);
    let [of_small, of_large, open_small, open_large] = samples;
    compare(
        ("8a", "row view, ns/event: longer to shorter"),
        &facts,
        [of_small, of_large],
        [open_small, open_large],
        1.1,
        rows,
    );
    Ok(())
}

/// Row 8, second part: does an event cost more when there are more classes?
fn class_rows(setup: &Setup, few: &BenchTrace, many: &BenchTrace, rows: &mut Vec<ReportRow>) -> Result<()> {
    let facts = [Facts::decode(few)?, Facts::decode(many)?];
    let (few, many) = (few.path.as_path(), many.path.as_path());
    let tasks = [
        decoding(decode::rows, few),
        decoding(decode::rows, many),
        opening(few),
        opening(many),
        Some(setup.ours("info", few, &["--count", "-j1"])),
        Some(setup.ours("info", many, &["--count", "-j1"])),
        Some(setup.ours("info", few, &["-j1"])),
        Some(setup.ours("info", many, &["-j1"])),
    ];
    let samples = rounds("row 8, classes", setup.runs * SMALL_ROUNDS, tasks)?.map(Option::unwrap_or_default);
    let [rows_few, rows_many, open_few, open_many, count_few, count_many, info_few, info_many] = samples;
    let open = [open_few, open_many];
    let mut pair = |label, samples, open| compare(label, &facts, samples, open, 1.5, rows);
    pair(("8b", "row view, ns/event: many classes to few"), [rows_few, rows_many], open);
    pair(("8d", "info --count, ns/event: many classes to few"), [count_few, count_many], [info_few, info_many]);
    Ok(())
}

/// Row 9: LTTng 0.7 beside CTF 1.8, each by its events.
fn legacy_rows(setup: &Setup, legacy: &BenchTrace, ctf: &BenchTrace, rows: &mut Vec<ReportRow>) -> Result<()> {
    eprintln!("reading {} once", legacy.name);
    let own = Facts { trace: legacy, path: &legacy.path, decoded: decode::rows(&legacy.path)? };
    let facts = [own, Facts::decode(ctf)?];
    let tasks = [
        decoding(decode::rows, &legacy.path),
        decoding(decode::rows, &ctf.path),
        Some(setup.ours("print", &legacy.path, &["--format", "text", "-j1"])),
        Some(setup.ours("print", &ctf.path, &["--format", "text", "-j1"])),
    ];
    let [decoded, ctf_decoded, text, ctf_text] = rounds("row 9", setup.runs, tasks)?.map(Option::unwrap_or_default);
    for (id, what, ours, ctf) in [
        ("9i", "LTTng 0.7, row view by chunks, events/s: to CTF 1.8", decoded, ctf_decoded),
        ("9j", "LTTng 0.7, print --format text -j1, the same", text, ctf_text),
    ] {
        let per_event = |samples: &Samples, at: usize| samples.cpu().median / facts[at].decoded.events as f64;
        let result = per_event(&ctf, 1) / per_event(&ours, 0);
        rows.push(facts[1].row(id, &format!("  on {}", facts[1].trace.name), ctf, None));
        let row = facts[0].row(id, what, ours, None);
        rows.push(ReportRow { result: Some(result), target: Measure::AtLeast(0.5), ..row });
    }
    let peak = measure::peak_private_bytes(&mut setup.program("print", &legacy.path, &["-j2"]))?;
    let row = facts[0].row("9k", "LTTng 0.7, print -j2, peak private memory", Samples::default(), None);
    let mib = peak.map(|bytes| bytes as f64 / f64::from(1 << 20));
    rows.push(ReportRow { result: mib, unit: " MiB", target: Measure::Under(64.0), ..row });
    Ok(())
}

/// Lines for one thing on two traces: each by itself, and their cost per event compared, without and with opening.
fn compare(
    (id, what): (&'static str, &str),
    facts: &[Facts<'_>; 2],
    samples: [Samples; 2],
    open: [Samples; 2],
    limit: f64,
    rows: &mut Vec<ReportRow>,
) {
    let per_event = |at: usize, opening: f64| {
        (samples[at].cpu().median - opening * open[at].cpu().median) / facts[at].decoded.events as f64
    };
    let without_opening = per_event(1, 1.0) / per_event(0, 1.0);
    let with_opening = per_event(1, 0.0) / per_event(0, 0.0);
    let [base, other] = samples;
    rows.push(facts[0].row(id, &format!("  on {}", facts[0].trace.name), base, None));
    rows.push(facts[1].row(id, &format!("  on {}", facts[1].trace.name), other.clone(), None));
    for (how, result) in [("opening taken off", without_opening), ("opening included", with_opening)] {
        let row = facts[1].row(id, &format!("{what}, {how}"), other.clone(), None);
        rows.push(ReportRow { result: Some(result), target: Measure::Under(limit), ..row });
    }
}

/// Names of the rows of an event log, and the programs that they are compared with.
struct LogRows {
    /// Text, `info`, `report --state`, memory.
    ids: [&'static str; 4],
    /// CPU time of the peer's text for an event, in ns.
    peer_ns: f64,
    /// How many times faster text should be, and the aim.
    faster: (f64, f64),
    /// An event of which there is one in so many, by its number.
    state: &'static str,
}

// The peers are programs of VPP's source tree that no distribution packs, so they are not run here. Their figures were
// measured with logs of 20 million events, output to /dev/null, on a machine of two processors: user time of the peer
// divided by the number of events. Ratios to them depend on the processor, unlike those of the other rows.
const CPEL_ROWS: LogRows = LogRows { ids: ["9a", "9c", "9e", "9g"], peer_ns: 306.0, faster: (6.0, 10.0), state: "7" };
const ELOG_ROWS: LogRows = LogRows { ids: ["9b", "9d", "9f", "9h"], peer_ns: 243.0, faster: (5.0, 8.0), state: "2" };

/// Row 9: event logs.
fn log_rows(setup: &Setup, log: &BenchTrace, of: &LogRows, rows: &mut Vec<ReportRow>) -> Result<()> {
    eprintln!("reading {} once", log.name);
    let facts = Facts { trace: log, path: &log.path, decoded: decode::rows(&log.path)? };
    let state = ["-j1", "--state", of.state];
    let tasks = [
        Some(setup.ours("print", facts.path, &["--format", "text", "-j1"])),
        Some(setup.ours("info", facts.path, &[])),
        Some(setup.ours("report", facts.path, &state)),
    ];
    let [text, info, state] = rounds("row 9", setup.runs, tasks)?.map(Option::unwrap_or_default);
    let events = facts.decoded.events as f64;
    let [text_id, info_id, state_id, memory_id] = of.ids;
    let faster = of.peer_ns * events / 1e9 / text.cpu().median;
    let row = facts.row(text_id, "event log: print --format text -j1", text, None);
    rows.push(ReportRow {
        result: Some(faster),
        peer_ns: Some(of.peer_ns),
        target: Measure::AtLeast(of.faster.0),
        aim: Some(of.faster.1),
        ..row
    });
    let ms = info.wall().median * 1e3;
    let row = facts.row(info_id, "event log: info, elapsed", info, None);
    rows.push(ReportRow {
        events: None,
        bytes: None,
        result: Some(ms),
        unit: " ms",
        target: Measure::Under(50.0),
        ..row
    });
    let seconds = state.cpu().median * 20e6 / events;
    let row = facts.row(state_id, "event log: report --state, for 20 M events", state, None);
    rows.push(ReportRow { result: Some(seconds), unit: " s", target: Measure::Under(0.7), ..row });
    let peak = measure::peak_private_bytes(&mut setup.program("print", facts.path, &["-j2"]))?;
    let mib = peak.map(|bytes| bytes as f64 / f64::from(1 << 20));
    let row = facts.row(memory_id, "event log: print -j2, peak private memory", Samples::default(), None);
    rows.push(ReportRow { result: mib, unit: " MiB", target: Measure::Under(64.0), ..row });
    Ok(())
}
