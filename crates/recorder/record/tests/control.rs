//! Commands for a recorder that runs: events on and off, conditions, the next folder, the end; peers that are no friends.

mod util;

use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tracemill_record::control::{Command, EventCondition, Reply, ask, folders_of};
use tracemill_record::{Level, Recorder, event, recover, snapshot};
use tracemill_ring::condition::{Comparison, FieldCondition, Literal, Number, Operand, OperandPart};
use util::{Folder, again, argument, discarded, events, numbers};

/// One recorder a process at a time.
static ONE: Mutex<()> = Mutex::new(());

fn lock() -> std::sync::MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn tell(folder: &Path, commands: &[Command]) -> Reply {
    ask(folder, commands).expect("the recorder answers")
}

/// The condition `i OP number`.
fn about_i(comparison: Comparison, floor: i128) -> FieldCondition {
    let i = Operand { parts: vec![OperandPart::Field("i".to_string())] };
    FieldCondition::Compare(i, comparison, Literal::Number(Number { floor, has_fraction: false, real: None }))
}

fn filter(events: &str, source: &str, condition: FieldCondition) -> Command {
    Command::Filter(EventCondition { events: events.to_string(), source: source.to_string(), condition })
}

#[test]
fn events_are_switched_while_the_program_runs() {
    let _one = lock();
    let folder = Folder::new("switched");
    let path = folder.join("t");
    let recorder = Recorder::options(&path).filter("c:*,-c:poll").start().expect("it starts");
    let round = |i: u64| {
        event!(target: "c", "read", i = i);
        event!(target: "c", "poll", i = i);
        event!(level: Level::Warning, target: "d", "warns", i = i);
        event!(level: Level::Debug, target: "d", "details", i = i);
    };
    round(1);
    let reply = tell(&path, &[Command::List]);
    assert_eq!((reply.pid, &reply.folder), (std::process::id(), &path.canonicalize().expect("a folder")));
    let list: Vec<_> = reply.events.iter().filter(|event| event.name.starts_with(['c', 'd'])).collect();
    let shown: Vec<_> = list.iter().map(|event| (event.name.as_str(), event.level.as_str(), event.is_on)).collect();
    let expected =
        [("c:poll", "", false), ("c:read", "", true), ("d:details", "debug", false), ("d:warns", "warning", false)];
    assert_eq!(shown, expected);
    assert_eq!(list[0].fields, [("i".to_string(), "u64".to_string())]);
    tell(&path, &[Command::Enable("d:*@info,c:poll".to_string())]);
    round(2);
    tell(&path, &[Command::Enable("-*".to_string()), Command::Enable("c:poll".to_string())]);
    round(3);
    recorder.finish().expect("it finishes");
    let expected = ["c:read i=1", "c:read i=2", "c:poll i=2", "d:warns i=2", "c:poll i=3"];
    assert_eq!(events(&path), expected);
    assert!(ask(&path, &[]).is_err(), "there is no recorder any more");
}

#[test]
fn conditions_are_tested_where_events_are_recorded() {
    let _one = lock();
    let folder = Folder::new("conditions");
    let path = folder.join("t");
    let recorder = Recorder::options(&path).start().expect("it starts");
    let evaluated = AtomicU64::new(0);
    let round = |begin: u64| {
        for i in begin..begin + 10 {
            event!(target: "f", "many", text = "x", i = { evaluated.fetch_add(1, Ordering::Relaxed); i });
            event!(target: "f", "others", i = i as u32);
            event!(target: "f", "without", other = i);
        }
    };
    round(0);
    let reply = tell(&path, &[filter("f:*", "i >= 15", about_i(Comparison::GreaterOrEqual, 15)), Command::List]);
    assert!(reply.notes.is_empty(), "{:?}", reply.notes);
    assert!(reply.events.iter().filter(|event| event.name.starts_with("f:")).all(|event| event.condition == "i >= 15"));
    round(10);
    // Another one for one of them; the other stays. Fields that no event has are worth a remark.
    let wrong = FieldCondition::Truth(Operand { parts: vec![OperandPart::Field("id".to_string())] });
    let reply = tell(&path, &[filter("f:others", "not id", FieldCondition::Not(Box::new(wrong)))]);
    assert!(reply.notes[0].contains("`id`"), "{:?}", reply.notes);
    round(20);
    tell(
        &path,
        &[
            filter("f:*", "true", FieldCondition::Const(true)),
            filter("f:without", "false", FieldCondition::Const(false)),
        ],
    );
    round(30);
    assert_eq!(recorder.discarded(), 0);
    recorder.finish().expect("it finishes");
    let of = |name: &str| -> Vec<u64> {
        let lines = events(&path);
        let lines = lines.iter().filter(|line| line.starts_with(name));
        lines.filter_map(|line| line.rsplit('=').next()?.parse().ok()).collect()
    };
    assert_eq!(of("f:many"), (0..10).chain(15..40).collect::<Vec<u64>>());
    assert_eq!(of("f:others"), (0..10).chain(15..40).collect::<Vec<u64>>());
    assert_eq!(of("f:without"), (0..10).collect::<Vec<u64>>(), "it has no `i`, and then it is off");
    assert_eq!(evaluated.load(Ordering::Relaxed), 40, "each value is made once");
    assert_eq!(discarded(&path), 0);
}

/// A place in a generic function has conditions for each class.
fn generic<T: tracemill_record::Field>(i: T) {
    event!(target: "g", "generic", i = i);
}

#[test]
fn conditions_know_the_classes_of_generic_places() {
    let _one = lock();
    let folder = Folder::new("generic-conditions");
    let path = folder.join("t");
    let recorder = Recorder::options(&path).start().expect("it starts");
    tell(&path, &[filter("*", "i > 5", about_i(Comparison::Greater, 5))]);
    (0..9_u8).for_each(generic);
    (0..9_i64).for_each(generic);
    generic("seven");
    recorder.finish().expect("it finishes");
    assert_eq!(numbers(&path), [6, 7, 8, 6, 7, 8]);
}

#[test]
fn the_next_folder_and_the_end_come_from_outside() {
    let _one = lock();
    let folder = Folder::new("outside");
    let paths = [folder.join("a"), folder.join("b")];
    let recorder = Recorder::options(&paths[0]).block(1 << 20).start().expect("it starts");
    let (count, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let threads = [0, 1].map(|_| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    event!(target: "o", "tick", i = count.fetch_add(1, Ordering::Relaxed));
                }
            })
        });
        while count.load(Ordering::Relaxed) < 10_000 {
            std::thread::yield_now();
        }
        assert_eq!(folders_of(std::process::id()).expect("this process"), [paths[0].canonicalize().expect("a folder")]);
        let reply = tell(&paths[0], &[Command::Rotate(paths[1].clone())]);
        assert_eq!(reply.finished, Some(0));
        assert!(!paths[0].join(".ring").exists(), "it is finished");
        let refused = ask(&paths[1], &[Command::Rotate(paths[0].clone())]).expect_err("it exists");
        assert!(refused.to_string().contains("exists"), "{refused}");
        let at_rotation = count.load(Ordering::Relaxed);
        while count.load(Ordering::Relaxed) < at_rotation + 10_000 {
            std::thread::yield_now();
        }
        is_over.store(true, Ordering::Relaxed);
        threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
        let reply = tell(&paths[1], &[Command::Stop]);
        assert_eq!(reply.finished, Some(0));
    });
    event!(target: "o", "tick", i = 0_u64);
    let refused = recorder.rotate(folder.join("c")).expect_err("it has ended");
    assert!(refused.to_string().contains("ended"), "{refused}");
    assert_eq!(recorder.finish().expect("it had been finished").discarded, 0);
    let mut all: Vec<u64> = paths.iter().flat_map(|path| numbers(path)).collect();
    assert!(paths.iter().all(|path| discarded(path) == 0));
    all.sort_unstable();
    assert!(all.iter().copied().eq(0..count.load(Ordering::Relaxed)), "none is lost, none is there twice");
    let threads = std::fs::read_dir("/proc/self/task").expect("threads").flatten();
    let names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
    assert_eq!(names.filter(|name| name.trim() == "tracemill").count(), 0, "no thread of the recorder is left");
}

fn connect(path: &Path) -> UnixStream {
    let folder = std::fs::File::open(path.join(".ring/control")).expect("the folder of the socket");
    UnixStream::connect(format!("/proc/self/fd/{}/socket", folder.as_raw_fd())).expect("it listens")
}

/// A random number.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn requests_that_make_no_sense_do_no_harm() {
    let _one = lock();
    let folder = Folder::new("senseless");
    // A path that is longer than an address of a socket.
    let path = folder.join(&"long".repeat(30));
    let recorder = Recorder::options(&path).start().expect("it starts");
    event!(target: "h", "harm", i = 1_u64);
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let mut known = b"TMCTRL1\0".to_vec();
    known.extend([3, 1, 0, 0, 0, b'*', 4, 0, 0, 0]);
    known.extend(b"true");
    known.extend([1, 0, 0, 0, 1, 1]);
    for round in 0..200 {
        let mut request = known.clone();
        for _ in 0..round % 7 {
            let at = random(&mut state) as usize % request.len();
            request[at] = random(&mut state) as u8;
        }
        request.truncate(request.len() - random(&mut state) as usize % 9 % request.len());
        let len = match round % 5 {
            0 => random(&mut state) as u32,
            _ => request.len() as u32,
        };
        let mut stream = connect(&path);
        // A peer that is refused may not be taken at all.
        let _ = stream.write_all(&len.to_le_bytes()).and_then(|()| stream.write_all(&request));
        if round % 3 == 0 {
            let _ = stream.shutdown(std::net::Shutdown::Write);
            stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
            let mut reply = Vec::new();
            let read = stream.read_to_end(&mut reply);
            assert!(read.is_ok() || reply.len() > 4 || read.is_err_and(|error| error.raw_os_error() == Some(104)));
        }
    }
    // Peers that say nothing are in nobody's way for long.
    let silent: Vec<UnixStream> = (0..20).map(|_| connect(&path)).collect();
    let begin = Instant::now();
    tell(&path, &[Command::Enable("*".to_string()), filter("*", "true", FieldCondition::Const(true))]);
    assert!(begin.elapsed() < Duration::from_secs(40));
    drop(silent);
    event!(target: "h", "harm", i = 2_u64);
    recorder.finish().expect("it finishes");
    let numbers: Vec<u64> = numbers(&path);
    assert!(numbers == [1, 2], "{numbers:?}");
}

#[test]
fn only_the_owner_may_enter() {
    let _one = lock();
    let folder = Folder::new("owner");
    let path = folder.join("t");
    let recorder = Recorder::options(&path).start().expect("it starts");
    let mode = std::fs::metadata(path.join(".ring/control")).expect("a folder").mode();
    assert_eq!(mode & 0o777, 0o700);
    recorder.finish().expect("it finishes");
    let recorder = Recorder::options(folder.join("u")).control(false).start().expect("it starts");
    assert!(!folder.join("u").join(".ring/control").exists());
    assert!(ask(&folder.join("u"), &[Command::List]).is_err());
    recorder.finish().expect("it finishes");
}

#[test]
fn a_peer_of_another_user_is_not_answered() {
    let user = |program: &str| std::process::Command::new(program).args(["-u", "nobody", "true"]).status();
    if std::fs::metadata("/proc/self").map_or(1, |own| own.uid()) != 0
        || !user("runuser").is_ok_and(|ran| ran.success())
    {
        eprintln!("!!! SKIPPED: only root can be two users");
        return;
    }
    let _one = lock();
    let folder = Folder::new("peer");
    let path = folder.join("t");
    let recorder = Recorder::options(&path).start().expect("it starts");
    // Even if somebody opens the folder and the socket to others.
    let open = |name: &str| {
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(path.join(name), all).expect("it is ours");
    };
    open(".ring/control");
    open(".ring/control/socket");
    let socket = path.join(".ring/control/socket");
    let script = format!(
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect({socket:?}); s.settimeout(5)\n\
         try: s.sendall(b'\\x09\\0\\0\\0TMCTRL1\\0\\x01'); print(s.recv(1) == b'')\n\
         except OSError: print(True)"
    );
    let peer = std::process::Command::new("runuser").args(["-u", "nobody", "--", "python3", "-c", &script]).output();
    let peer = peer.expect("it runs");
    assert_eq!(String::from_utf8_lossy(&peer.stdout).trim(), "True", "{peer:?}");
    assert_eq!(tell(&path, &[]).pid, std::process::id());
    recorder.finish().expect("it finishes");
}

/// Records with commands from other threads, until it is killed. A counter that is not in the trace says what was recorded.
fn record_until_killed(folder: &Path) {
    let path = folder.join("t");
    let _recorder = Recorder::options(&path).block(1 << 16).packet(4096).start().expect("it starts");
    let counter = std::fs::File::create(folder.join("count")).expect("a file");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0_u64.. {
                event!(target: "k", "all", i = i);
                std::os::unix::fs::FileExt::write_all_at(&counter, &(i + 1).to_le_bytes(), 0).expect("it is written");
                event!(target: "k", "some", i = i);
            }
        });
        scope.spawn(|| {
            for round in 0_i128.. {
                let switch = if round % 2 == 0 { "k:some" } else { "-k:some" };
                tell(&path, &[Command::Enable(switch.to_string())]);
                tell(&path, &[filter("k:some", "i > N", about_i(Comparison::Greater, round)), Command::List]);
            }
        });
    });
}

#[test]
fn commands_lose_nothing_when_the_program_is_killed() {
    if let Some(folder) = argument() {
        return record_until_killed(&folder);
    }
    let rounds = if std::env::var_os("TRACEMILL_LONG").is_some() { 100 } else { 8 };
    let mut state = u64::from(std::process::id()) | 1;
    for round in 0..rounds {
        let folder = Folder::new(&format!("killed-{round}"));
        let mut child = again("commands_lose_nothing_when_the_program_is_killed", &folder.0).spawn().expect("it runs");
        while std::fs::metadata(folder.join("count")).map_or(0, |file| file.len()) < 8 {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(random(&mut state) % 300_000));
        child.kill().expect("it is killed");
        child.wait().expect("it ends");
        let path = folder.join("t");
        snapshot(&path, &folder.join("s")).expect("a copy");
        assert!(recover(&path).expect("it is recovered").damaged.is_empty());
        let count = std::fs::read(folder.join("count")).expect("a count");
        let count = u64::from_le_bytes(count.try_into().expect("a number"));
        for path in [&path, &folder.join("s")] {
            let all = events(path);
            let all = all.iter().filter(|line| line.starts_with("k:all")).count() as u64;
            assert!((count..=count + 1).contains(&all), "{all} of {count}");
            assert_eq!(discarded(path), 0);
        }
    }
}
