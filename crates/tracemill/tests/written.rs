//! Random schemas and bytes, written as CTF 2 and read back: times and payloads are the same.
//!
//! `TRACEMILL_SEED=17 cargo test` runs one seed only, `TRACEMILL_SEEDS=1000000` that many.

// The tests of codec use more of it.
mod memory;
// The tests of codec use more of it.
#[path = "../../codec/tests/random/schemas.rs"]
#[allow(dead_code)]
mod schemas;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use tracemill::target;
use tracemill_engine::convert::{Conversion, ConvertOptions, sources};
use tracemill_engine::selection::streams;
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_engine::timeline::{Selection, merger};
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::WriteOptions;
use tracemill_model::error::Result;
use tracemill_model::schema::{ByteOrder, ClockClass};
use tracemill_render::lines::{LineFormat, LinePlan};
use tracemill_render::print::{PrintOutput, print};

use memory::{Folder, STREAM, in_memory};
use schemas::{Rng, random_bytes, random_schema};

/// Time and payload of each event, and the faults that came up.
fn lines(session: &Session) -> (Vec<String>, usize) {
    let streams = streams(session, &[]).expect("all streams");
    let plan = LinePlan {
        format: LineFormat::Jsonl,
        streams: streams.clone(),
        filter: None,
        many_traces: false,
        with_ends: false,
    };
    let mut merger = merger(session, &streams, &Selection::default());
    let (mut text, mut faults) = (Vec::new(), 0);
    print(session, &mut merger, &Arc::new(plan), 1, |output| {
        match output {
            PrintOutput::Lines(lines) => text.extend_from_slice(lines.out.written()),
            PrintOutput::Fault(_) => faults += 1,
            PrintOutput::Note(tracemill_engine::merge::Note::Fault(_)) => faults += 1,
            PrintOutput::Note(_) => {}
        }
        ControlFlow::Continue(())
    });
    let text = String::from_utf8(text).expect("lines are UTF-8");
    let part = |line: &str| {
        let time = line.split_once(",\"").map_or("", |(time, _)| time);
        let payload = line.rsplit_once(",\"payload\":").map_or("", |(_, payload)| payload);
        format!("{time} {payload}")
    };
    (text.lines().map(part).collect(), faults)
}

fn write(session: &Session, path: &Path, options: &WriteOptions) -> Result<Losses> {
    let streams = streams(session, &[])?;
    let target = target("ctf2", &[])?;
    let writer = (target.create)(&FileSystem.path(path), &sources(session, &streams).unwrap(), options)?;
    let selection = Selection::default();
    let conversion = Conversion {
        session,
        streams: &streams,
        selection: &selection,
        options: &ConvertOptions::default(),
        in_order: false,
    };
    Ok(conversion.run(writer, &mut |_| ControlFlow::Continue(()))?.losses)
}

/// Kinds of losses that show in payloads.
fn is_shown(kind: Lost) -> bool {
    matches!(
        kind,
        Lost::SharedNames
            | Lost::ComputedLengths
            | Lost::Optionals
            | Lost::UnselectedOptions
            | Lost::AbsentTexts
            | Lost::TruncatedTexts
    )
}

#[test]
fn what_is_written_reads_back() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("TRACEMILL_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("TRACEMILL_SEEDS").unwrap_or(600),
    };
    let is_whole = seeds.end - seeds.start >= 600;
    let folder = Folder(std::env::temp_dir().join(format!("tracemill-written-{}", std::process::id())));
    let (mut compared, mut events, mut lossy, mut refused) = (0, 0, 0, 0);
    for seed in seeds {
        let mut rng = Rng::new(seed);
        let mut schema = random_schema(&mut rng, 1);
        if rng.chance(50) {
            let clock = schema.add_clock(ClockClass::nanoseconds("clock"));
            schema.stream_mut(STREAM).default_clock = Some(clock);
        }
        let (bytes, content_bits) = random_bytes(&mut rng);
        let before = in_memory(schema, bytes, content_bits);
        let options = WriteOptions {
            packet_bytes: rng.chance(30).then(|| 64 + rng.below(2000) as usize),
            byte_order: Some(ByteOrder::big_if(rng.chance(50))),
            ..WriteOptions::default()
        };
        let path = folder.0.join(seed.to_string());
        let losses = match write(&before, &path, &options) {
            Ok(losses) => losses,
            Err(error) => {
                assert!(error.message().contains("cannot be kept"), "seed {seed}: {error}");
                refused += 1;
                continue;
            }
        };
        let after =
            Session::open(&FileSystem, std::slice::from_ref(&path), &OpenOptions::new(tracemill_formats::FORMATS))
                .expect("options are right");
        let failures: Vec<String> = after.failures.iter().map(ToString::to_string).collect();
        assert!(failures.is_empty(), "seed {seed}: {failures:?}");
        if losses.kinds().any(is_shown) {
            lossy += 1;
            continue;
        }
        let (want, _) = lines(&before);
        let (found, faults) = lines(&after);
        assert_eq!(faults, 0, "seed {seed}");
        assert_eq!(want.len(), found.len(), "seed {seed}");
        for (at, (want, found)) in want.iter().zip(&found).enumerate() {
            assert_eq!(want, found, "seed {seed}, event {at}, {losses:?}");
        }
        compared += 1;
        events += want.len();
        let _ = std::fs::remove_dir_all(&path);
    }
    println!("{compared} compared with {events} events, {lossy} with losses in payloads, {refused} refused");
    assert!(!is_whole || compared > 100 && events > 300, "{compared} {events} {lossy} {refused}");
}
