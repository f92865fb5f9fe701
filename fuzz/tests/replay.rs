//! Every target over its seeds and over some thousands of mutations of them, the same ones each time.
//!
//! It stands in for the fuzzers where there is no libFuzzer. `REPLAY_SECONDS` is the time that all targets share (40
//! unless set), `REPLAY_SEED` chooses other mutations. An input that fails is written to `artifacts/TARGET/`.

mod mutate;
mod seeds;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mutate::Mutator;
use tracemill_fuzz::{TARGETS, Target};

/// Mutations of each target, when there is time.
const MUTATIONS: u64 = 30_000;

/// The longest that one input may take; a debug build on a busy machine is slow.
const MAX_TIME: Duration = Duration::from_secs(10);

/// The most memory that the process may ever have taken, where the system tells. The largest schema that is not
/// refused takes a good part of it.
const MAX_MEMORY_KIB: u64 = 1 << 20;

#[test]
fn every_target_over_its_seeds_and_their_mutations() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let share = Duration::from_secs(number("REPLAY_SECONDS").unwrap_or(40)) / TARGETS.len() as u32;
    let max = if number("REPLAY_SECONDS").is_some() { u64::MAX } else { MUTATIONS };
    let seed = number("REPLAY_SEED").unwrap_or(1);
    let watchdog = Watchdog::start();
    let mut failures = Vec::new();
    for target in TARGETS {
        let seeds = seeds::load(target.0);
        assert!(!seeds.is_empty(), "{} has no seeds", target.0);
        let start = Instant::now();
        let mut runs = 0u64;
        let mut failed = None;
        for seed in &seeds {
            failed = failed.or(run(target, seed, &watchdog).err());
            runs += 1;
        }
        let mut mutator = Mutator::new(seed, target.0);
        while failed.is_none() && runs < max && start.elapsed() < share {
            failed = run(target, &mutator.next(&seeds), &watchdog).err();
            runs += 1;
        }
        println!("{}: {} seeds, {runs} runs in {:.1} s", target.0, seeds.len(), start.elapsed().as_secs_f64());
        failures.extend(failed);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn run(target: Target, input: &[u8], watchdog: &Watchdog) -> Result<(), String> {
    let start = Instant::now();
    watchdog.set(Some((start, target.0, input.to_vec())));
    let result = catch_unwind(AssertUnwindSafe(|| target.1(input)));
    watchdog.set(None);
    let what = match result {
        Err(_) => "panic".to_string(),
        Ok(()) if start.elapsed() > MAX_TIME => format!("{} s", start.elapsed().as_secs()),
        Ok(()) => match peak_memory_kib() {
            Some(kib) if kib > MAX_MEMORY_KIB => format!("{kib} KiB of memory"),
            _ => return Ok(()),
        },
    };
    Err(format!("{}: {what}, input in {}", target.0, save(target.0, input).display()))
}

/// The high-water mark of the process.
fn peak_memory_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

fn save(target: &str, input: &[u8]) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("artifacts").join(target);
    let hash = input
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let path = folder.join(format!("replay-{hash:016x}"));
    if std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, input)).is_err() {
        eprintln!("cannot write {}, the input is {input:?}", path.display());
    }
    path
}

type Current = Option<(Instant, &'static str, Vec<u8>)>;

/// Ends the process when an input does not end.
struct Watchdog(Arc<Mutex<Current>>);

impl Watchdog {
    fn start() -> Self {
        let current: Arc<Mutex<Current>> = Arc::default();
        let watched = current.clone();
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_secs(1));
                let now = watched.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some((start, target, input)) = &*now
                    && start.elapsed() > 3 * MAX_TIME
                {
                    eprintln!("{target}: hangs, input in {}", save(target, input).display());
                    std::process::exit(1);
                }
            }
        });
        Watchdog(current)
    }

    fn set(&self, current: Current) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = current;
    }
}
