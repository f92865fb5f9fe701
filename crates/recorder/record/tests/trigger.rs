//! Triggers and contexts: snapshots of what was before, for each kind of cause; what is recorded with an event.

mod util;

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tracemill_record::control::{Cause, Command, Contexts, EventCondition, Trigger, ask, rules};
use tracemill_record::{Format, Recorder, event};
use tracemill_ring::condition::{Comparison, FieldCondition, Literal, Number, Operand, OperandPart};
use util::{Folder, again, argument, discarded, events, numbers};

/// One recorder a process at a time.
static ONE: Mutex<()> = Mutex::new(());

fn lock() -> std::sync::MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The folder of a snapshot, when it is there.
fn snapshot(trace: &Path, number: u32) -> PathBuf {
    let path = PathBuf::from(format!("{}.trigger{number}", trace.display()));
    let begin = Instant::now();
    while !path.exists() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{} does not come", path.display());
        std::thread::sleep(Duration::from_millis(1));
    }
    path
}

/// The condition that `i` is a number.
fn is(i: u64) -> EventCondition {
    let operand = Operand { parts: vec![OperandPart::Field("i".to_string())] };
    let number = Number { floor: i.into(), has_fraction: false, real: None };
    let condition = FieldCondition::Compare(operand, Comparison::Equal, Literal::Number(number));
    EventCondition { events: "t:*".to_string(), source: format!("i == {i}"), condition }
}

#[test]
fn an_event_leads_to_a_snapshot_of_what_was_before() {
    let _one = lock();
    let folder = Folder::new("event");
    for (name, before) in [("all", Duration::ZERO), ("part", Duration::from_millis(300))] {
        let path = folder.join(name);
        let trigger = Trigger { cause: Cause::Event(is(5_000)), before };
        let options = Recorder::options(&path).flight(1 << 20).packet(4096);
        let recorder = options.trigger(trigger).start().expect("it starts");
        for i in 0..5_001_u64 {
            if i == 4_000 {
                std::thread::sleep(Duration::from_millis(700));
            }
            event!(target: "t", "tick", i = i);
        }
        let kept = numbers(&snapshot(&path, 1));
        assert!(kept.is_sorted() && kept.last() == Some(&5_000), "{:?}", kept.last());
        // To the packet, with the time that passed meanwhile.
        let first = *kept.first().expect("an event");
        match before.is_zero() {
            true => assert_eq!(first, 0),
            false => assert!((3_500..=4_000).contains(&first), "{first}"),
        }
        assert_eq!(discarded(&snapshot(&path, 1)), 0);
        // Once more, as often as it comes true; later ones are told apart.
        event!(target: "t", "tick", i = 5_000_u64);
        assert_eq!(numbers(&snapshot(&path, 2)).iter().filter(|i| **i == 5_000).count(), 2);
        ask(&path, &[Command::NoTriggers]).expect("it answers");
        event!(target: "t", "tick", i = 5_000_u64);
        recorder.finish().expect("it finishes");
        assert!(!folder.join(&format!("{name}.trigger3")).exists());
        assert_eq!(numbers(&path).len(), 5_003);
    }
}

#[test]
fn a_duration_leads_to_a_snapshot() {
    let _one = lock();
    let folder = Folder::new("longer");
    let path = folder.join("t");
    let longer = |by: Option<&str>| Cause::Longer {
        begin: "d:begin".to_string(),
        end: "d:end".to_string(),
        by: by.map(str::to_string),
        limit: Duration::from_millis(200),
    };
    let recorder = Recorder::options(&path).flight(1 << 20).start().expect("it starts");
    let told = |by| {
        ask(&path, &[Command::NoTriggers, Command::Trigger(Trigger { cause: longer(by), before: Duration::ZERO })])
    };
    told(Some("i")).expect("it answers");
    // Pairs overlap, and end in another thread.
    for i in 0..100_u64 {
        event!(target: "d", "begin", i = i);
    }
    std::thread::scope(|scope| {
        scope.spawn(|| (0..99).for_each(|i: u64| event!(target: "d", "end", i = i)));
    });
    assert!(!folder.join("t.trigger1").exists(), "they were quick");
    std::thread::sleep(Duration::from_millis(250));
    event!(target: "d", "end", i = 99_u64);
    let kept = events(&snapshot(&path, 1));
    assert_eq!(kept.len(), 200);
    assert_eq!(kept.last().map(String::as_str), Some("d:end i=99"));
    // Without a field, those of a thread.
    told(None).expect("it answers");
    event!(target: "d", "begin", i = 1_u64);
    std::thread::sleep(Duration::from_millis(250));
    std::thread::scope(|scope| {
        scope.spawn(|| event!(target: "d", "end", i = 2_u64));
    });
    std::thread::sleep(Duration::from_millis(200));
    assert!(!folder.join("t.trigger2").exists(), "another thread has not begun");
    event!(target: "d", "end", i = 3_u64);
    assert_eq!(events(&snapshot(&path, 2)).last().map(String::as_str), Some("d:end i=3"));
    recorder.finish().expect("it finishes");
}

/// Records and gets signals, or panics.
fn record_until_it_ends(folder: &Path) {
    let cause = std::fs::read_to_string(folder.join("cause")).expect("a cause");
    let options = Recorder::options(folder.join("t")).flight(1 << 20);
    let signal = cause.parse().ok();
    let cause = if cause == "exit" { Cause::Event(is(999)) } else { signal.map_or(Cause::Panic, Cause::Signal) };
    let is_at_exit = matches!(cause, Cause::Event(_));
    let _recorder = options.trigger(Trigger { cause, before: Duration::ZERO }).start().expect("it starts");
    (0..1000_u64).for_each(|i| event!(target: "t", "tick", i = i));
    if is_at_exit {
        std::fs::write(folder.join("alive"), "").expect("a file");
        std::process::exit(0);
    }
    match signal {
        // SAFETY: it is not read: the process ends. The standard library has a handler, which lets it.
        Some(libc::SIGSEGV) => unsafe {
            std::ptr::without_provenance::<u8>(8).read_volatile();
        },
        // SAFETY: a call without pointers.
        Some(signal) => assert_eq!(unsafe { libc::raise(signal) }, 0),
        None => assert!(std::thread::spawn(|| panic!("as the test wants")).join().is_err()),
    }
    snapshot(&folder.join("t"), 1);
    event!(target: "t", "tick", i = 1000_u64);
    std::fs::write(folder.join("alive"), "").expect("a file");
}

#[test]
fn signals_and_panics_lead_to_snapshots() {
    if let Some(folder) = argument() {
        return record_until_it_ends(&folder);
    }
    for (cause, ends_by) in [
        (libc::SIGUSR1.to_string(), None),
        (libc::SIGTERM.to_string(), Some(libc::SIGTERM)),
        (libc::SIGABRT.to_string(), Some(libc::SIGABRT)),
        (libc::SIGSEGV.to_string(), Some(libc::SIGSEGV)),
        (libc::SIGWINCH.to_string(), None),
        ("panic".to_string(), None),
        // The program ends just after the event.
        ("exit".to_string(), None),
    ] {
        let folder = Folder::new(&format!("signal-{cause}"));
        std::fs::write(folder.join("cause"), &cause).expect("a file");
        let mut child = again("signals_and_panics_lead_to_snapshots", &folder.0);
        let output = child.output().expect("it runs");
        assert_eq!(output.status.signal(), ends_by, "{cause}: {output:?}");
        assert_eq!(folder.join("alive").exists(), ends_by.is_none(), "{cause}: {output:?}");
        assert_eq!(numbers(&snapshot(&folder.join("t"), 1)), (0..1000).collect::<Vec<u64>>(), "{cause}");
    }
}

/// Numbers of the events of a name, in their order.
fn numbers_of(path: &Path, name: &str) -> Vec<u64> {
    let lines = events(path);
    let lines = lines.iter().filter_map(|line| line.strip_prefix(name)?.strip_prefix(" i="));
    lines.map(|number| number.parse().expect("a number")).collect()
}

/// The snapshots of a trace, in their order.
fn snapshots(trace: &Path) -> Vec<PathBuf> {
    (1..)
        .map(|number| PathBuf::from(format!("{}.trigger{number}", trace.display())))
        .take_while(|path| path.exists())
        .collect()
}

/// Records in several threads, one of which meets a trigger again and again, until it is killed.
fn record_until_killed(folder: &Path) {
    let path = folder.join("t");
    let condition = FieldCondition::Const(true);
    let cause = Cause::Event(EventCondition { events: "k:cause".to_string(), source: String::new(), condition });
    let trigger = Trigger { cause, before: Duration::from_millis(5) };
    let counter = std::fs::File::create(folder.join("count")).expect("a file");
    let _recorder = Recorder::options(&path).flight(32 << 10).packet(4096).trigger(trigger).start().expect("it starts");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for i in 0_u64.. {
                    event!(target: "k", "tick", i = i);
                }
            });
        }
        for i in 0_u64.. {
            event!(target: "k", "cause", i = i);
            std::os::unix::fs::FileExt::write_all_at(&counter, &(i + 1).to_le_bytes(), 0).expect("it is written");
            std::thread::sleep(Duration::from_millis(4));
        }
    });
}

/// Each number is one more than the one before of its stream.
fn has_no_holes(path: &Path) -> bool {
    let traces = tracemill::open([path]).expect("a trace");
    let mut last = std::collections::HashMap::new();
    traces.events().into_iter().all(|event| {
        let event = event.expect("a sound event");
        let i = event.get("payload.i").and_then(|value| value.as_u64()).expect("a number");
        let thread = event.get("packet_context.tid").and_then(|value| value.as_u64()).expect("a thread");
        last.insert(thread, i).is_none_or(|before| before + 1 == i)
    })
}

#[test]
fn snapshots_are_whole_or_absent_when_the_program_is_killed() {
    if let Some(folder) = argument() {
        return record_until_killed(&folder);
    }
    let rounds = if std::env::var_os("TRACEMILL_LONG").is_some() { 100 } else { 6 };
    let mut state = u64::from(std::process::id()) | 1;
    let mut count = 0;
    for round in 0..rounds {
        let folder = Folder::new(&format!("killed-{round}"));
        let path = folder.join("t");
        let mut child = again("snapshots_are_whole_or_absent_when_the_program_is_killed", &folder.0);
        let mut child = child.spawn().expect("it runs");
        snapshot(&path, 1);
        std::thread::sleep(Duration::from_micros(random(&mut state) % 60_000));
        child.kill().expect("it is killed");
        child.wait().expect("it ends");
        let last = std::fs::read(folder.join("count")).expect("a count");
        let last = u64::from_le_bytes(last.try_into().expect("a number"));
        let recovered = tracemill_record::recover(&path).expect("it is recovered");
        assert!(recovered.damaged.is_empty(), "{recovered:?}");
        let causes = numbers_of(&path, "k:cause");
        let first = causes[0];
        assert!((last..=last + 1).contains(&(first + causes.len() as u64)), "{last}, {causes:?}");
        assert!(has_no_holes(&path));
        assert_eq!(discarded(&path), 0);
        // Of one that was being made, nothing is left; the others have what was there before.
        let names = std::fs::read_dir(&folder.0).expect("the folder").flatten();
        assert!(!names.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().starts_with('.')));
        let snapshots = snapshots(&path);
        let mut before = 0;
        for snapshot in &snapshots {
            let causes = numbers_of(snapshot, "k:cause");
            assert!(has_no_holes(snapshot) && discarded(snapshot) == 0 && !snapshot.join(".ring").exists());
            let newest = *causes.last().expect("the cause") + 1;
            assert!(newest > before && newest <= last + 1, "{newest} after {before}, of {last}");
            before = newest;
        }
        count += snapshots.len();
    }
    assert!(count >= rounds);
}

#[test]
fn what_a_killed_program_left_of_a_snapshot_is_not_in_the_way() {
    let _one = lock();
    let folder = Folder::new("left");
    let path = folder.join("t");
    std::fs::create_dir(folder.join(".t.trigger")).expect("a folder");
    std::fs::write(folder.join(".t.trigger/stream_0"), "a part").expect("a file");
    let trigger = Trigger { cause: Cause::Event(is(1)), before: Duration::ZERO };
    let recorder = Recorder::options(&path).trigger(trigger).start().expect("it starts");
    event!(target: "t", "tick", i = 1_u64);
    // The next folder has nothing of that: so the snapshot is made before.
    recorder.rotate(folder.join("u")).expect("it goes on");
    event!(target: "t", "tick", i = 1_u64);
    recorder.finish().expect("it finishes");
    for name in ["t", "u"] {
        assert_eq!(snapshots(&folder.join(name)).iter().map(|path| numbers(path)).collect::<Vec<_>>(), [[1]], "{name}");
    }
    assert!(!folder.join(".t.trigger").exists());
}

/// A random number.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Threads come and go, while commands change what they record; none of that loses an event.
#[test]
fn many_threads_record_while_commands_change_what_they_record() {
    let _one = lock();
    let folder = Folder::new("threads");
    let path = folder.join("t");
    let trigger = Trigger { cause: Cause::Event(is(u64::MAX)), before: Duration::ZERO };
    let options = Recorder::options(&path).block(32 << 10).packet(4096).trigger(trigger);
    let recorder = options.start().expect("it starts");
    let (threads, count) = if std::env::var_os("TRACEMILL_LONG").is_some() { (10_000, 100) } else { (400, 100) };
    let (is_over, longest) = (std::sync::atomic::AtomicBool::new(false), "x".repeat(100));
    std::thread::scope(|scope| {
        let commands = scope.spawn(|| {
            let mut rounds = 0_u64;
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                let contexts = ["tid,cpu", "-", "callstack", "cpu"][rounds as usize % 4];
                let contexts = Contexts::parse(contexts).expect("contexts");
                let mut odd = is(rounds % 50);
                odd.events = "m:odd".to_string();
                let changes = [
                    Command::Contexts { events: "m:*".to_string(), contexts },
                    Command::Filter(odd),
                    Command::Enable(["m:odd", "-m:odd"][rounds as usize / 2 % 2].to_string()),
                    Command::List,
                ];
                ask(&path, &changes).expect("it answers");
                rounds += 1;
            }
            rounds
        });
        for begin in (0..threads).step_by(8) {
            std::thread::scope(|scope| {
                for thread in begin..(begin + 8).min(threads) {
                    let longest = &longest;
                    scope.spawn(move || {
                        for i in 0..count {
                            event!(target: "m", "all", i = thread * count + i, text = &longest[..i as usize % 100]);
                            event!(target: "m", "odd", i = i);
                        }
                    });
                }
            });
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(commands.join().expect("it ends") > 2);
    });
    assert_eq!(recorder.finish().expect("it finishes").discarded, 0);
    assert!(!folder.join("t.trigger1").exists(), "the trigger's event has not come");
    let (mut all, mut contexts) = (Vec::new(), 0);
    let traces = tracemill::open([&path]).expect("a trace");
    for event in traces.events() {
        let event = event.expect("a sound event");
        let number = |name: &str| event.get(name).and_then(|value| value.as_u64());
        if let Some(tid) = number("event_context.vtid") {
            assert_eq!(Some(tid), number("packet_context.tid"));
            contexts += 1;
        }
        if event.name() == "m:all" {
            all.extend(number("payload.i"));
        }
    }
    all.sort_unstable();
    assert!(all == (0..threads * count).collect::<Vec<u64>>(), "{} of {}", all.len(), threads * count);
    assert!(contexts > 0);
    assert_eq!(discarded(&path), 0);
}

#[test]
fn contexts_are_recorded_with_events() {
    let _one = lock();
    let folder = Folder::new("contexts");
    for format in [Format::Ctf2, Format::Ctf18] {
        let path = folder.join(&format!("{format:?}"));
        let recorder = Recorder::options(&path).format(format).start().expect("it starts");
        event!(target: "c", "plain", i = 1_u64);
        event!(target: "c", "rich", text = "before", i = 1_u64);
        let contexts = Contexts::parse("tid,cpu,perf:page-faults,callstack").expect("contexts");
        let set = |contexts| Command::Contexts { events: "c:rich".to_string(), contexts };
        match ask(&path, &[set(contexts)]) {
            Ok(reply) => assert!(reply.notes[0].contains("perf:page-faults"), "{:?}", reply.notes),
            Err(error) => {
                // Where the kernel gives no counters.
                eprintln!("!!! SKIPPED: {error}");
                ask(&path, &[set(Contexts::parse("tid,cpu,callstack").expect("contexts"))]).expect("it answers");
            }
        }
        event!(target: "c", "plain", i = 2_u64);
        event!(target: "c", "rich", text = "after", i = 2_u64);
        // SAFETY: a call without arguments.
        let own = unsafe { libc::gettid() };
        let tid = std::thread::spawn(|| {
            event!(target: "c", "rich", text = "thread", i = 3_u64);
            // SAFETY: a call without arguments.
            unsafe { libc::gettid() }
        });
        let tid = tid.join().expect("it ends");
        ask(&path, &[set(Contexts::default())]).expect("it answers");
        event!(target: "c", "rich", text = "again", i = 4_u64);
        recorder.finish().expect("it finishes");
        let expected = ["c:plain i=1", "c:rich text=before i=1", "c:plain i=2", "c:rich text=after i=2"];
        assert_eq!(events(&path)[..4], expected);
        assert_eq!(events(&path)[4..], ["c:rich text=thread i=3", "c:rich text=again i=4"]);
        let traces = tracemill::open([&path]).expect("a trace");
        let mut tids = Vec::new();
        for event in traces.events() {
            let event = event.expect("a sound event");
            let number = |name: &str| event.get(&format!("event_context.{name}")).and_then(|value| value.as_u64());
            if let Some(tid) = number("vtid") {
                tids.push(tid);
                let cpus = std::thread::available_parallelism().map_or(1024, |cpus| cpus.get().max(1024)) as u64;
                assert!(number("cpu_id").is_some_and(|cpu| cpu < cpus));
                assert!(event.get("event_context.callstack_user").is_some());
            }
        }
        assert_eq!(tids, [own as u64, tid as u64]);
    }
}

#[test]
fn rules_may_come_by_the_environment() {
    if let Some(folder) = argument() {
        let recorder = Recorder::options(folder.join("t")).start().expect("it starts");
        (0..10_u64).for_each(|i| event!(target: "t", "tick", i = i));
        (0..10_u64).for_each(|i| event!(target: "u", "tick", i = i));
        recorder.finish().expect("it finishes");
        return;
    }
    let folder = Folder::new("rules");
    let mut child = again("rules_may_come_by_the_environment", &folder.0);
    let rules = rules(&[Command::Enable("-*,t:*".to_string()), Command::Filter(is(7))]);
    assert!(child.env("TRACEMILL_RECORD_RULES", rules).output().expect("it runs").status.success());
    assert_eq!(events(&folder.join("t")), ["t:tick i=7"]);
    let mut child = again("rules_may_come_by_the_environment", &folder.join("wrong"));
    let output = child.env("TRACEMILL_RECORD_RULES", "544d").output().expect("it runs");
    assert!(!output.status.success(), "it says so, and does not begin");
}
