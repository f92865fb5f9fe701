//! Random traces, made by the definitions of their formats and by nothing of the program, are read, written in every format
//! that can hold them, and read back: what comes out is equal, or counted as lost.
//!
//! `TRACEMILL_SEED=17 cargo test` runs one seed only, `TRACEMILL_SEEDS=100000` that many.
#![cfg(unix)]

mod bits;
mod ctf2;
#[path = "../folder/mod.rs"]
mod folder;
mod json;
mod logs;
mod nasty;
mod run;
// The tests of codec use more of it.
#[path = "../../../codec/tests/random/schemas.rs"]
#[allow(dead_code)]
mod schemas;
mod uftrace;
mod value;

use std::collections::BTreeMap;
use std::path::Path;

use folder::Folder;
use json::Json;
use run::{Shown, convert, convert_in, lines_of, open, open_all, open_any, open_with, shown};
use schemas::Rng;
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::split::SplitBy;
use tracemill_engine::timeline::Selection;
use tracemill_format::Settings;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::WriteOptions;
use tracemill_model::schema::ByteOrder;
use value::Shape;

/// Seeds beyond the usual number that found something: an empty structure at the end of a part, a part whose last packet
/// ended after the first event of the next one.
const FOUND: [u64; 2] = [385, 767];

/// Runs the seeds; a failure says which one.
fn for_each_seed(count: u64, mut case: impl FnMut(&mut Rng, &Folder) -> Result<(), String>) -> bool {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (seeds, more) = match number("TRACEMILL_SEED") {
        Some(seed) => (seed..seed + 1, &[][..]),
        None => (0..number("TRACEMILL_SEEDS").unwrap_or(count), &FOUND[..]),
    };
    let is_all = seeds.end - seeds.start >= count;
    let mut failures = Vec::new();
    for seed in seeds.chain(more.iter().copied()) {
        let folder = Folder::new("trips");
        let mut rng = Rng::new(seed);
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case(&mut rng, &folder)));
        let message = match done {
            Ok(Ok(())) => continue,
            Ok(Err(message)) => message,
            Err(_) => "panic".to_string(),
        };
        if std::env::var("TRACEMILL_KEEP").is_ok() {
            std::mem::forget(folder);
        }
        failures.push(format!("seed {seed}: {message}"));
        if failures.len() > 20 {
            break;
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    is_all
}

/// Options that a user may choose of all targets.
fn random_options(rng: &mut Rng) -> WriteOptions {
    WriteOptions {
        byte_order: rng.pick(&[None, Some(ByteOrder::Little), Some(ByteOrder::Big)]),
        packet_bytes: rng.pick(&[None, None, Some(64), Some(4096)]),
        index: rng.chance(20),
        ..WriteOptions::default()
    }
}

/// Lines of the same time may stand in any order; `keys` are compared, or all but `trace`.
fn same(want: &[String], found: &[String], keys: Option<&[&str]>) -> Result<(), String> {
    let reduced = |lines: &[String]| -> Vec<String> {
        let mut last = None;
        let mut all: Vec<(Option<i128>, String)> = lines
            .iter()
            .map(|line| {
                let Json::Object(members) = Json::parse(line) else { panic!("{line} is not an object") };
                let ns = members.iter().find(|(name, _)| name == "ns").and_then(|(_, ns)| ns.integer());
                last = ns.or(last);
                let is_kept = |name: &str| keys.map_or(name != "trace", |keys| keys.contains(&name));
                let kept: Vec<_> = members.into_iter().filter(|(name, _)| is_kept(name)).collect();
                (last, format!("{:?}", Json::Object(kept)))
            })
            .collect();
        all.sort();
        all.into_iter().map(|(_, line)| line).collect()
    };
    let (want, found) = (reduced(want), reduced(found));
    for (want, found) in want.iter().zip(&found) {
        if want != found {
            return Err(format!("\n  {want}\nbecame\n  {found}"));
        }
    }
    if want.len() == found.len() { Ok(()) } else { Err(format!("{} lines became {}", want.len(), found.len())) }
}

/// Is everything shown that was written?
fn compare(wants: &[Vec<ctf2::Want>], lines: &[String], shape: Shape) -> Result<(), String> {
    let count: usize = wants.iter().map(Vec::len).sum();
    if lines.len() != count {
        return Err(format!("{count} events, {} lines", lines.len()));
    }
    let lines: Vec<Json> = lines.iter().map(|line| Json::parse(line)).collect();
    let mut is_taken = vec![false; lines.len()];
    for want in wants.iter().flatten() {
        let is_it = |json: &Json| {
            json.member("name").and_then(Json::text) == want.name.as_deref()
                && json.member("id").and_then(Json::integer) == Some(want.id.into())
                && json.member("stream").and_then(Json::integer) == Some(want.stream.into())
                && json.member("cycles").and_then(Json::integer) == want.cycles.map(i128::from)
                && want.scopes.iter().all(|(key, value)| match (value, json.member(key)) {
                    (Some(value), Some(json)) => value.is_shown(json, shape),
                    (None, None) => true,
                    _ => false,
                })
        };
        match (0..lines.len()).find(|&at| !is_taken[at] && is_it(&lines[at])) {
            Some(at) => is_taken[at] = true,
            None => {
                let like = lines.iter().find(|json| {
                    json.member("cycles").and_then(Json::integer) == want.cycles.map(i128::from)
                        && json.member("stream").and_then(Json::integer) == Some(want.stream.into())
                });
                return Err(format!("no line shows {want:?}, one of this time is {like:?}"));
            }
        }
    }
    Ok(())
}

/// Losses by kind, and how often something was compared all the same.
#[derive(Default, Debug)]
struct Tally {
    compared: BTreeMap<String, u64>,
    refused: BTreeMap<String, u64>,
    losses: BTreeMap<String, u64>,
}

impl Tally {
    fn lost(&mut self, to: &str, losses: &Losses) {
        for kind in losses.kinds() {
            *self.losses.entry(format!("{to}: {kind}")).or_default() += 1;
        }
    }

    fn compared(&mut self, what: &str) {
        *self.compared.entry(what.to_string()).or_default() += 1;
    }
}

/// Keys of a line that stay when packets are rebuilt.
const OF_EVENTS: &[&str] = &["ns", "cycles", "name", "id", "stream", "stream_context", "event_context", "payload"];

/// A trace is written as itself and through CTF 2 and back: the same lines.
fn round_trips(path: &Path, format: &str, rng: &mut Rng, folder: &Folder, tally: &mut Tally) -> Result<(), String> {
    let said = |what: &str, error: String| format!("{format} {what}: {error}");
    let is_ctf = matches!(format, "ctf2" | "ctf1.8");
    let session = open(path).map_err(|error| said("opened", error))?;
    let Shown { lines: want, faults, gaps } = shown(&session);
    if let Some(fault) = faults.first() {
        return Err(said("read", fault.clone()));
    }
    let out = |name: &str| folder.path().join(format!("{format}.{name}"));
    for (name, options) in [("own", WriteOptions::default()), ("other", random_options(rng))] {
        let losses = convert(&session, format, &out(name), &options).map_err(|error| said(name, error))?;
        // Needless empty packets may be left out where packets are rebuilt; unknown ones stay as they are.
        let is_counted = |kind| match is_ctf {
            true => matches!(kind, Lost::FirstLostPackets | Lost::LastGaps),
            false => kind == Lost::OtherSections,
        };
        if !losses.kinds().all(is_counted) {
            return Err(said(&format!("{name} {options:?}"), format!("{losses:?} of itself")));
        }
        let after = shown(&open(&out(name)).map_err(|error| said(name, error))?);
        if let Some(fault) = after.faults.first() {
            return Err(said(name, fault.clone()));
        }
        let is_anew = name == "other" && is_ctf || options.packet_bytes.is_some();
        let keys = is_anew.then_some(OF_EVENTS);
        same(&want, &after.lines, keys).map_err(|error| said(&format!("{name} {options:?}"), error))?;
        if losses.is_empty() && gaps != after.gaps {
            return Err(said(&format!("{name} {options:?}"), format!("gaps {gaps:?} became {:?}", after.gaps)));
        }
    }
    let options = match rng.chance(50) {
        true => WriteOptions { packet_bytes: None, ..random_options(rng) },
        false => WriteOptions::default(),
    };
    let losses = convert(&session, "ctf2", &out("c"), &options).map_err(|error| said("to ctf2", error))?;
    tally.lost(&format!("{format} to ctf2"), &losses);
    let through = open(&out("c")).map_err(|error| said("as ctf2", error))?;
    let shown_through = shown(&through);
    if let Some(fault) = shown_through.faults.first() {
        return Err(said("as ctf2", fault.clone()));
    }
    // Names that we coded for CTF 1.8 are themselves again.
    let has_coded = format == "ctf1.8" && want.iter().any(|line| line.contains("_x"));
    if losses.is_empty() && !has_coded {
        same(&want, &shown_through.lines, Some(&["ns", "name", "payload"])).map_err(|error| said("as ctf2", error))?;
    }
    let back = convert(&through, format, &out("back"), &WriteOptions::default())
        .map_err(|error| said(&format!("back {options:?}"), error))?;
    tally.lost(&format!("{format} back"), &back);
    let found = lines_of(&out("back")).map_err(|error| said("back", error))?;
    if losses.is_empty() && back.is_empty() {
        // Options that rebuild packets keep the events.
        let is_anew = is_ctf && (options.byte_order.is_some() || options.index);
        same(&want, &found, is_anew.then_some(OF_EVENTS)).map_err(|error| said(&format!("back {options:?}"), error))?;
        tally.compared(&format!("{format} back"));
    }
    Ok(())
}

/// Losses of which the values are there, in another shape, or which no line shows.
fn is_other_shape(kind: Lost) -> bool {
    matches!(kind, Lost::VariantTags | Lost::Names | Lost::FirstLostPackets | Lost::LastGaps)
        || kind.to_string().contains("(they become ")
}

#[test]
fn ctf2_is_read_written_and_read_back() {
    let mut tally = Tally::default();
    let is_all = for_each_seed(60, |rng, folder| {
        let is_plain = rng.chance(25);
        let trace = ctf2::random_trace(rng, is_plain);
        let path = folder.path().join("trace");
        trace.write(&path);
        let session = open(&path)?;
        let before = shown(&session);
        if let Some(fault) = before.faults.first() {
            return Err(format!("read: {fault}"));
        }
        compare(&trace.wants, &before.lines, Shape::Own).map_err(|error| format!("read: {error}"))?;
        // As CTF: the values stay, those of CTF 1.8 in the shape that it gives them.
        for (to, name) in [("ctf2", "kept"), ("ctf2", "anew"), ("ctf1.8", "old")] {
            let options = if name == "kept" { WriteOptions::default() } else { random_options(rng) };
            let out = folder.path().join(name);
            let losses = convert(&session, to, &out, &options).map_err(|error| format!("{name}: {error}"))?;
            tally.lost(to, &losses);
            let lines = lines_of(&out).map_err(|error| format!("{name}: {error}"))?;
            if losses.kinds().any(|kind| kind == Lost::EmptyNames || !is_other_shape(kind)) {
                continue;
            }
            tally.compared(to);
            if to == "ctf2" {
                compare(&trace.wants, &lines, Shape::Own).map_err(|error| format!("{name} {options:?}: {error}"))?;
                let keys = ["ns", "cycles", "name", "id", "stream", "stream_context", "event_context", "payload"];
                same(&before.lines, &lines, Some(&keys)).map_err(|error| format!("{name}: {error}"))?;
                continue;
            }
            // Names are coded in CTF 1.8, and come back in CTF 2.
            let again = folder.path().join("again");
            convert(&open(&out)?, "ctf2", &again, &WriteOptions::default())
                .map_err(|error| format!("again: {error}"))?;
            let lines = lines_of(&again).map_err(|error| format!("again: {error}"))?;
            compare(&trace.wants, &lines, Shape::Ctf18).map_err(|error| format!("again {options:?}: {error}"))?;
        }
        Ok(())
    });
    println!("{tally:#?}");
    assert!(!is_all || tally.compared.get("ctf2").is_some_and(|&count| count > 30), "{tally:?}");
}

/// Formats that are read and written.
const FORMATS: &[&str] = &["ctf1.8", "ctf1.6", "ctf1.1", "lttng-legacy", "uftrace", "cpel", "gist", "elog", "ctf2"];

/// A trace is written in a format, and what comes out goes through CTF 2 and back.
fn becomes(session: &Session, to: &str, rng: &mut Rng, folder: &Folder, tally: &mut Tally) -> Result<(), String> {
    let out = folder.path().join(to);
    let mut options = random_options(rng);
    if to == "lttng-legacy" {
        options.settings.0.insert("lttng-version", rng.pick(&["0.7", "0.8", "2.6"]).into());
    }
    match convert(session, to, &out, &options) {
        Err(error) => {
            *tally.refused.entry(format!("{to}: {error}")).or_default() += 1;
            Ok(())
        }
        // A folder of uftrace without a record is none.
        Ok(_) if to == "uftrace" && !std::fs::read_dir(&out).is_ok_and(|mut all| all.any(has_records)) => Ok(()),
        Ok(losses) => {
            tally.lost(to, &losses);
            round_trips(&out, to, rng, folder, tally)
        }
    }
}

fn has_records(entry: std::io::Result<std::fs::DirEntry>) -> bool {
    entry.is_ok_and(|entry| {
        entry.path().extension().is_some_and(|ext| ext == "dat") && entry.metadata().is_ok_and(|of| of.len() > 0)
    })
}

#[test]
fn every_format_goes_through_ctf2_and_back() {
    let mut tally = Tally::default();
    for_each_seed(25, |rng, folder| {
        let is_plain = rng.chance(50);
        let path = folder.path().join("trace");
        ctf2::random_trace(rng, is_plain).write(&path);
        let session = open(&path)?;
        FORMATS.iter().try_for_each(|to| becomes(&session, to, rng, folder, &mut tally))
    });
    println!("{tally:#?}");
}

#[test]
fn folders_of_uftrace_go_through_ctf2_and_back() {
    let mut tally = Tally::default();
    for_each_seed(50, |rng, folder| {
        let path = folder.path().join("data");
        let records = uftrace::write(rng, &path);
        if records == 0 {
            return Ok(());
        }
        let session = open(&path)?;
        let before = shown(&session);
        let is_record = |line: &&String| !line.contains("\"source\":\"perf") && !line.contains("\"source\":\"extern");
        let found = before.lines.iter().filter(is_record).count();
        if found != records {
            return Err(format!("{records} records, {found} lines"));
        }
        round_trips(&path, "uftrace", rng, folder, &mut tally)?;
        let to = rng.pick(FORMATS);
        if to == "uftrace" { Ok(()) } else { becomes(&session, to, rng, folder, &mut tally) }
    });
    println!("{tally:#?}");
}

#[test]
fn event_logs_go_through_ctf2_and_back() {
    let mut tally = Tally::default();
    for_each_seed(50, |rng, folder| {
        for (format, write) in logs::ALL {
            let path = folder.path().join(format!("log.{format}"));
            let events = write(rng, &path);
            let found = lines_of(&path).map_err(|error| format!("{format} read: {error}"))?.len();
            if found != events {
                return Err(format!("{format}: {events} events, {found} lines"));
            }
            round_trips(&path, format, rng, folder, &mut tally)?;
            let to = rng.pick(FORMATS);
            if !logs::ALL.iter().any(|(name, _)| *name == to) {
                becomes(&open(&path)?, to, rng, &Folder::new("trips-on"), &mut tally)?;
            }
        }
        Ok(())
    });
    println!("{tally:#?}");
}

/// Packets of the drafts are compressed, encrypted and summed as the user wants it.
#[test]
fn sealed_packets_of_the_drafts_are_read_back() {
    for_each_seed(25, |rng, folder| {
        let path = folder.path().join("trace");
        ctf2::random_trace(rng, true).write(&path);
        let session = open(&path)?;
        let key = folder.path().join("key");
        folder.write("key", &[7; 16]);
        for (to, compressions) in
            [("ctf1.1", &["none", "bzip2", "gzip"][..]), ("ctf1.6", &["none", "bzip2", "gzip", "xz"])]
        {
            let plain = folder.path().join(format!("{to}.plain"));
            if let Err(error) = convert(&session, to, &plain, &WriteOptions::default()) {
                return Err(format!("{to}: {error}"));
            }
            let want = lines_of(&plain).map_err(|error| format!("{to}: {error}"))?;
            let (mut settings, mut reading) = (Settings::default(), OpenOptions::new(tracemill_formats::FORMATS));
            let mut set = |name: &'static str, value: &str| settings.0.insert(name, value.to_string());
            set("packet-compression", rng.pick(compressions));
            set("packet-checksum", rng.pick(&["none", "md5", "sha1", "crc32"]));
            if rng.chance(50) {
                set("packet-key-file", &key.display().to_string());
                reading.settings.0.insert("key-file", key.display().to_string());
            }
            let said = format!("{to} {settings:?}");
            let options = WriteOptions { settings, ..random_options(rng) };
            // Of a draft and of another trace.
            for (name, from) in [("sealed", &session), ("again", &open(&plain)?)] {
                let out = folder.path().join(format!("{to}.{name}"));
                convert(from, to, &out, &options).map_err(|error| format!("{said} {name}: {error}"))?;
                let sealed = open_with(&out, &reading).map_err(|error| format!("{said} {name}: {error}"))?;
                let found = shown(&sealed);
                if let Some(fault) = found.faults.first() {
                    return Err(format!("{said} {name}: {fault}"));
                }
                same(&want, &found.lines, Some(OF_EVENTS)).map_err(|error| format!("{said} {name}: {error}"))?;
            }
        }
        Ok(())
    });
}

/// The parts together hold what the whole held.
#[test]
fn parts_hold_every_event_once() {
    for_each_seed(25, |rng, folder| {
        let path = folder.path().join("trace");
        let is_plain = rng.chance(50);
        ctf2::random_trace(rng, is_plain).write(&path);
        for to in ["ctf2", "ctf1.8", "ctf1.6", "ctf1.1"] {
            let session = open(&path)?;
            let whole = folder.path().join(format!("{to}.whole"));
            convert(&session, to, &whole, &WriteOptions::default()).map_err(|error| format!("{to}: {error}"))?;
            let want = lines_of(&whole).map_err(|error| format!("{to}: {error}"))?;
            let by = match rng.below(4) {
                0 => SplitBy::Stream,
                1 => SplitBy::Process,
                2 => SplitBy::Time(rng.pick(&[1_000, 1_000_000, 1_000_000_000])),
                _ => SplitBy::Size(rng.pick(&[1, 5000])),
            };
            let out = folder.path().join(format!("{to}.parts"));
            let options = WriteOptions { is_cut: true, is_part: by.wants_order(), ..WriteOptions::default() };
            let said = |error: String| format!("{to} {by:?}: {error}");
            let losses = match convert_in(&session, to, &out, &options, Some(by), &Selection::default()) {
                // Events far apart would make too many parts.
                Err(error) if error.contains("parts") => continue,
                losses => losses.map_err(said)?,
            };
            if want.is_empty() {
                continue;
            }
            // Parts of processes run beside each other, and are one trace of several folders.
            let parts = if by == SplitBy::Process { open_any(&out) } else { open(&out) };
            let found = shown(&parts.map_err(said)?);
            if let Some(fault) = found.faults.first() {
                return Err(said(fault.clone()));
            }
            let keys = ["ns", "name", "id", "stream", "stream_context", "event_context", "payload"];
            same(&want, &found.lines, Some(&keys)).map_err(|error| said(format!("{losses:?} {error}")))?;
        }
        Ok(())
    });
}

#[test]
fn lines_are_read_back() {
    let mut compared = 0;
    let is_all = for_each_seed(30, |rng, folder| {
        let path = folder.path().join("trace");
        let is_plain = rng.chance(30);
        ctf2::random_trace(rng, is_plain).write(&path);
        let mut sources = vec![path];
        let data = folder.path().join("data");
        if uftrace::write(rng, &data) > 0 {
            sources.push(data);
        }
        for (format, write) in logs::ALL {
            let path = folder.path().join(format!("log.{format}"));
            write(rng, &path);
            sources.push(path);
        }
        for source in sources {
            let name = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let want = lines_of(&source)?;
            if want.is_empty() {
                continue;
            }
            let said = |what: &str, error: String| format!("{name} {what}: {error}");
            folder.write(&format!("{name}.jsonl"), (want.join("\n") + "\n").as_bytes());
            let lines = folder.path().join(format!("{name}.jsonl"));
            let session = match open(&lines) {
                // Of clocks of a few Hz.
                Err(error) if error.contains("more than 2^64 ns apart") => continue,
                session => session.map_err(|error| said("read", error))?,
            };
            let found = shown(&session);
            if let Some(fault) = found.faults.first() {
                return Err(said("read", fault.clone()));
            }
            // Where no clock is found, they have none.
            let has_clock = session.traces.iter().all(|trace| trace.warnings.is_empty());
            let keys = [
                "ns",
                "name",
                "id",
                "stream",
                "header",
                "packet_context",
                "stream_context",
                "event_context",
                "payload",
            ];
            let keys = (!has_clock).then_some(&keys[..]);
            same(&want, &found.lines, keys).map_err(|error| said("read", error))?;
            let out = folder.path().join(format!("{name}.of_lines"));
            let losses =
                convert(&session, "ctf2", &out, &random_options(rng)).map_err(|error| said("to ctf2", error))?;
            let found = lines_of(&out).map_err(|error| said("as ctf2", error))?;
            if losses.is_empty() {
                same(&want, &found, Some(&["ns", "name", "payload"])).map_err(|error| said("as ctf2", error))?;
                compared += 1;
            }
        }
        Ok(())
    });
    assert!(compared > 60 || !is_all, "{compared}");
}

/// A cut by time holds the events of that time, bit for bit; twice the same.
#[test]
fn cuts_hold_what_they_should() {
    let mut cut = 0;
    for_each_seed(40, |rng, folder| {
        let path = folder.path().join("trace");
        let is_plain = rng.chance(20);
        ctf2::random_trace(rng, is_plain).write(&path);
        let old = folder.path().join("old");
        convert(&open(&path)?, "ctf1.8", &old, &WriteOptions::default())?;
        for (name, path, targets) in [("ctf2", &path, &["ctf2", "ctf1.8"][..]), ("ctf1.8", &old, &["ctf1.8", "ctf2"])] {
            let session = open(path)?;
            let all = shown(&session).lines;
            let ns_of = |line: &String| Json::parse(line).member("ns").and_then(Json::integer);
            let mut times: Vec<i128> = all.iter().filter_map(ns_of).collect();
            times.sort_unstable();
            if times.is_empty() {
                continue;
            }
            let any = |rng: &mut Rng| Some(times[rng.below(times.len() as u64) as usize]).filter(|_| rng.chance(80));
            let (begin_ns, end_ns) = (any(rng), any(rng));
            let selection = Selection { begin_ns, end_ns, ..Selection::default() };
            let want: Vec<String> = all
                .iter()
                .filter(|line| {
                    let ns = ns_of(line);
                    // Streams without a clock are not cut.
                    ns.is_none_or(|ns| begin_ns.is_none_or(|begin| begin <= ns) && end_ns.is_none_or(|end| ns <= end))
                })
                .cloned()
                .collect();
            for to in targets {
                let out = folder.path().join(format!("{name}.{to}.cut"));
                let said = |error: String| format!("{name} to {to}, {begin_ns:?} to {end_ns:?}: {error}");
                let is_cut = begin_ns.is_some() || end_ns.is_some();
                let options = WriteOptions { is_cut, ..WriteOptions::default() };
                let losses = convert_in(&session, to, &out, &options, None, &selection).map_err(said)?;
                let found = lines_of(&out).map_err(said)?;
                if found.len() != want.len() {
                    return Err(said(format!("{} of {} events: {}", want.len(), all.len(), found.len())));
                }
                let has_coded = name != *to && want.iter().any(|line| line.contains("_x"));
                let is_same_shape = name == *to || losses.is_empty() && name == "ctf1.8";
                if is_same_shape && !has_coded {
                    same(&want, &found, Some(OF_EVENTS)).map_err(said)?;
                    cut += 1;
                }
            }
        }
        Ok(())
    });
    assert!(cut > 0);
}

/// Several traces become one that holds the events of all.
#[test]
fn merged_traces_hold_the_events_of_all() {
    for_each_seed(30, |rng, folder| {
        let mut paths = Vec::new();
        for at in 0..2 + rng.below(2) {
            let path = folder.path().join(format!("t{at}"));
            let is_plain = rng.chance(50);
            ctf2::random_trace(rng, is_plain).write(&path);
            paths.push(path);
        }
        if rng.chance(30) {
            // The same trace twice has everything in common.
            paths.push(folder.path().join("again"));
            let name = paths[0].clone();
            convert(&open(&name)?, "ctf2", &folder.path().join("again"), &WriteOptions::default())?;
        }
        let session = open_all(&paths, &OpenOptions::new(tracemill_formats::FORMATS))?;
        let want = shown(&session).lines;
        for to in ["ctf2", "ctf1.8"] {
            let out = folder.path().join(format!("{to}.merged"));
            let options = WriteOptions { merge: true, ..random_options(rng) };
            let said = |error: String| format!("{to}: {error}");
            convert_in(&session, to, &out, &options, None, &Selection::default()).map_err(said)?;
            // Twice the same trace is one of several folders, whose time goes back.
            let merged = open_any(&out).map_err(said)?;
            if merged.traces.len() != 1 {
                return Err(said(format!("{} traces", merged.traces.len())));
            }
            let Shown { lines: found, faults, .. } = shown(&merged);
            if let Some(fault) = faults.first() {
                return Err(said(fault.clone()));
            }
            let keys: &[&str] = match to {
                "ctf2" => &["ns", "name", "stream_context", "event_context", "payload"],
                // Values have other shapes there, and empty names are none.
                _ => &["ns"],
            };
            same(&want, &found, Some(keys)).map_err(said)?;
        }
        Ok(())
    });
}

/// Moved clocks of a trace stay moved, also where it becomes itself again, or are counted.
#[test]
fn moved_clocks_go_through_ctf2_and_back() {
    let mut compared = BTreeMap::<&str, u64>::new();
    let is_all = for_each_seed(30, |rng, folder| {
        let path = folder.path().join("trace");
        ctf2::random_trace(rng, true).write(&path);
        let mut sources = Vec::new();
        let session = open(&path)?;
        for to in ["ctf1.8", "ctf1.6", "ctf1.1", "lttng-legacy"] {
            let out = folder.path().join(to);
            if convert(&session, to, &out, &WriteOptions::default()).is_ok() {
                sources.push((to, out));
            }
        }
        let data = folder.path().join("data");
        if uftrace::write(rng, &data) > 0 {
            sources.push(("uftrace", data));
        }
        for (format, write) in logs::ALL {
            let log = folder.path().join(format!("log.{format}"));
            write(rng, &log);
            sources.push((format, log));
        }
        for (format, path) in sources {
            let by = rng.pick(&[1_000, 1_000_000_000, 12_345_678_000, -2_000_000, 86_400_000_000_000]);
            let moved = OpenOptions { clock_offsets: vec![(None, by)], ..OpenOptions::new(tracemill_formats::FORMATS) };
            let said = |what: &str, error: String| format!("{format} {what}, moved by {by}: {error}");
            let session = open_with(&path, &moved).map_err(|error| said("opened", error))?;
            let want = shown(&session).lines;
            let out = |name: &str| folder.path().join(format!("{format}.{name}"));
            let options = WriteOptions::default();
            let mut losses = convert(&session, "ctf2", &out("c"), &options).map_err(|error| said("to ctf2", error))?;
            let through = open(&out("c")).map_err(|error| said("as ctf2", error))?;
            same(&want, &shown(&through).lines, Some(&["ns", "name"])).map_err(|error| said("as ctf2", error))?;
            losses.extend(&convert(&through, format, &out("back"), &options).map_err(|error| said("back", error))?);
            let own = convert(&session, format, &out("own"), &options).map_err(|error| said("own", error))?;
            for (name, losses) in [("back", losses), ("own", own)] {
                let found = shown(&open(&out(name)).map_err(|error| said(name, error))?);
                if let Some(fault) = found.faults.first() {
                    return Err(said(name, fault.clone()));
                }
                let is_moved = |kind: Lost| ["times ", "events "].iter().any(|what| kind.to_string().starts_with(what));
                if losses.kinds().all(|kind| is_other_shape(kind) && !is_moved(kind)) {
                    same(&want, &found.lines, Some(&["ns", "name", "payload"])).map_err(|error| said(name, error))?;
                    *compared.entry(format).or_default() += 1;
                }
            }
        }
        Ok(())
    });
    println!("{compared:?}");
    assert!(!is_all || compared.len() == 8, "{compared:?}");
}
