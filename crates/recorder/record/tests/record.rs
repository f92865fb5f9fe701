//! Traces that programs record, read back; programs that are killed; discards; snapshots; forks.
//!
//! Programs that end badly are this one again, with `TRACEMILL_TEST_CHILD` saying what they do.

mod util;

use std::io::Read as _;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Child;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tracemill_record::{Format, Mode, Options, Recorder, event, recover, snapshot, span};
use util::{Folder, again, argument, discarded, events, numbers};

/// One recorder a process at a time.
static ONE: Mutex<()> = Mutex::new(());

fn lock() -> std::sync::MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[test]
fn all_kinds_of_values_are_read_back_in_both_dialects() {
    let _one = lock();
    let folder = Folder::new("values");
    for (format, yes) in [(Format::Ctf2, "true"), (Format::Ctf18, "1")] {
        let path = folder.join(&format!("{format:?}"));
        let recorder = Recorder::options(&path).format(format).start().expect("it starts");
        let (text, owned) = ("Mühle", String::from("own"));
        event!(target: "t", "small", a = 1_u8, b = -2_i8, c = 3_u16, d = -4_i16, e = 5_u32, f = -6_i32);
        event!(target: "t", "large", a = u64::MAX, b = i64::MIN, c = 1.5_f32, d = -2.25_f64, e = true, f = 7_usize);
        event!(target: "t", "texts", text = text, owned = owned, empty = "", long = "ü".repeat(5000));
        event!(target: "t", "lists", numbers = [1_u16, 2, 3], floats = &[0.5_f64][..], none = [0_i32; 0]);
        event!(target: "t", "event", event = 1_u8, align = 2_u8);
        event!("bare");
        {
            let _span = span!(target: "t", "work", item = 3_u32);
        }
        let summary = recorder.finish().expect("it finishes");
        assert_eq!(summary.discarded, 0);
        let long = "ü".repeat(4095 / 2);
        let expected = [
            "t:small a=1 b=-2 c=3 d=-4 e=5 f=-6".to_string(),
            format!("t:large a=18446744073709551615 b=-9223372036854775808 c=1.5 d=-2.25 e={yes} f=7"),
            format!("t:texts text=Mühle owned=own empty= long={long}"),
            "t:lists numbers=[1, 2, 3] floats=[0.5] none=[]".to_string(),
            "t:event event=1 align=2".to_string(),
            "record:bare ".to_string(),
            "t:work_entry item=3".to_string(),
            "t:work_exit ".to_string(),
        ];
        assert!(events(&path) == expected, "{:#?}", events(&path));
        assert_eq!(discarded(&path), 0);
        assert!(!path.join(".ring").exists());
    }
}

/// Lengths of texts and lists are fields, too, and have names that no other field has.
#[test]
fn lengths_have_names_of_their_own() {
    let _one = lock();
    let folder = Folder::new("lengths");
    for format in [Format::Ctf2, Format::Ctf18] {
        let path = folder.join(&format!("{format:?}"));
        let recorder = Recorder::options(&path).format(format).start().expect("it starts");
        event!(target: "t", "e", a = "x", a_length = 7_u8, a_length_ = 8_u8, b = [9_u8]);
        recorder.finish().expect("it finishes");
        let traces = tracemill::open([&path]).expect("a trace");
        let event = traces.events().into_iter().next().expect("an event").expect("a sound event");
        let fields = event.fields().expect("sound fields").filter(|field| field.path.starts_with("payload."));
        let fields: Vec<_> = fields.map(|field| format!("{}={}", &field.path[8..], field.value)).collect();
        let expected = ["a_length__=1", "a=x", "a_length=7", "a_length_=8", "b_length=1", "b=[9]"];
        assert_eq!(fields, expected, "{format:?}");
    }
}

/// A place in a generic function, of whose fields one has the type of its argument.
fn generic<T: tracemill_record::Field>(value: T) {
    event!(target: "t", "generic", value = value);
}

/// Two fields whose types depend on the caller.
fn generic_pair<A: tracemill_record::Field, B: tracemill_record::Field>(a: A, b: B) {
    event!(target: "t", "pair", a = a, b = b);
}

#[test]
fn a_place_in_a_generic_function_has_a_class_for_each_type() {
    let _one = lock();
    let folder = Folder::new("generic");
    let recorder = Recorder::options(folder.join("t")).start().expect("it starts");
    generic(1_u8);
    generic("two");
    generic(3_u64);
    generic(4_u8);
    // Into a folder that is there it does not go, but on in the one before.
    let refused = recorder.rotate(&folder.0).expect_err("a folder that exists");
    assert_eq!(refused.kind(), std::io::ErrorKind::AlreadyExists, "{refused}");
    recorder.rotate(folder.join("u")).expect("it goes on");
    generic(5_u64);
    event!(target: "t", "generic", other = 6_u8);
    // Whose classes were the same number once, when it had 16 bits.
    generic_pair(7.5_f32, "eight");
    generic_pair(9_i8, [10_u32]);
    recorder.finish().expect("it finishes");
    let expected = ["t:generic value=1", "t:generic value=two", "t:generic value=3", "t:generic value=4"];
    assert_eq!(events(&folder.join("t")), expected);
    let expected = ["t:generic value=5", "t:generic other=6", "t:pair a=7.5 b=eight", "t:pair a=9 b=[10]"];
    assert_eq!(events(&folder.join("u")), expected);
}

/// An event whose value takes its time.
fn late(value: &mut dyn FnMut() -> u64) {
    event!(target: "t", "late", i = value());
}

/// Numbers of classes are those of a recording: an event that was on its way when the next one began gets a new one.
#[test]
fn an_event_that_meets_the_next_recording_has_a_class_of_that() {
    let _one = lock();
    let folder = Folder::new("next");
    let first = Recorder::options(folder.join("a")).start().expect("it starts");
    late(&mut || 5);
    let (mut first, mut second) = (Some(first), None);
    late(&mut || {
        first.take().expect("it runs").finish().expect("it finishes");
        second = Some(Recorder::options(folder.join("b")).start().expect("it starts again"));
        std::thread::scope(|scope| scope.spawn(|| event!(target: "t", "other", text = "six")).join().expect("it ends"));
        7
    });
    second.expect("it runs").finish().expect("it finishes");
    assert_eq!(events(&folder.join("a")), ["t:late i=5"]);
    assert_eq!(events(&folder.join("b")), ["t:other text=six", "t:late i=7"]);
    assert_eq!(discarded(&folder.join("b")), 0);
}

#[test]
fn what_is_off_is_not_evaluated() {
    let _one = lock();
    let folder = Folder::new("off");
    let evaluated = AtomicU64::new(0);
    let poll = || event!(target: "t", "poll", i = evaluated.fetch_add(1, Ordering::Relaxed));
    poll();
    let recorder = Recorder::options(folder.join("a")).filter("t:*,-t:poll").start().expect("it starts");
    poll();
    event!(target: "t", "on", i = 7_u64);
    event!(target: "u", "other", i = 8_u64);
    assert!(Recorder::options(folder.join("b")).start().is_err(), "one at a time");
    drop(recorder);
    poll();
    assert_eq!(evaluated.load(Ordering::Relaxed), 0);
    assert_eq!(numbers(&folder.join("a")), [7]);
    let recorder = Recorder::options(folder.join("b")).start().expect("it starts again");
    poll();
    recorder.finish().expect("it finishes");
    assert_eq!(numbers(&folder.join("b")), [0]);
}

#[test]
fn streams_keep_all_events_of_all_threads() {
    let _one = lock();
    let folder = Folder::new("threads");
    let path = folder.join("t");
    let options = Recorder::options(&path).block(64 << 10).packet(4096).flush(Duration::from_millis(5));
    let recorder = options.start().expect("it starts");
    for _ in 0..3 {
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                scope.spawn(move || {
                    for i in 0..20_000_u64 {
                        event!(target: "t", "tick", i = i * 4 + thread);
                    }
                });
            }
        });
    }
    recorder.finish().expect("it finishes");
    let mut all = numbers(&path);
    all.sort_unstable();
    let expected: Vec<u64> = (0..80_000).flat_map(|i| [i; 3]).collect();
    assert_eq!(all.len(), expected.len());
    assert!(all == expected);
    assert_eq!(discarded(&path), 0);
    let streams = std::fs::read_dir(&path).expect("the trace").count() - 1;
    assert!(streams <= 8, "rings are given to new threads: {streams}");
}

#[test]
fn flight_keeps_the_last_events() {
    let _one = lock();
    let folder = Folder::new("flight");
    let path = folder.join("t");
    let recorder = Recorder::options(&path).flight(16 << 10).packet(4096).start().expect("it starts");
    for i in 0..10_000_u64 {
        event!(target: "t", "tick", i = i);
    }
    recorder.finish().expect("it finishes");
    let kept = numbers(&path);
    assert_eq!(kept.last(), Some(&9_999));
    assert!(kept.len() > 3 * 200 && kept.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{}", kept.len());
}

#[test]
fn events_without_room_are_counted() {
    let _one = lock();
    let folder = Folder::new("discards");
    let path = folder.join("t");
    let options = Recorder::options(&path).stream(8192).packet(4096).flush(Duration::ZERO);
    let recorder = options.start().expect("it starts");
    let mut attempts = 0_u64;
    // Until there was no room, however quick the consumer is.
    while attempts < 300_000 || recorder.discarded() == 0 {
        event!(target: "t", "tick", i = attempts);
        attempts += 1;
    }
    event!(target: "t", "huge", i = 0_u64, text = "x".repeat(4000));
    let summary = recorder.finish().expect("it finishes");
    let kept = numbers(&path).len() as u64;
    assert!(summary.discarded > 1, "{summary:?}");
    assert_eq!(kept + summary.discarded, attempts + 1);
    assert_eq!(discarded(&path), summary.discarded);
}

/// Tells a thread to end, also when the test fails.
struct End<'a>(&'a std::sync::atomic::AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn snapshots_are_sound_while_events_are_written() {
    let _one = lock();
    let folder = Folder::new("snapshots");
    let rounds = if std::env::var_os("TRACEMILL_LONG").is_some() { 500 } else { 12 };
    for mode in [Mode::Flight, Mode::Block] {
        let path = folder.join(&format!("{mode:?}"));
        let mut options = Recorder::options(&path).flight(32 << 10).packet(4096);
        options.mode = mode;
        let recorder = options.start().expect("it starts");
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let end = End(&is_over);
            scope.spawn(|| {
                let mut i = 0_u64;
                while !is_over.load(Ordering::Relaxed) && (mode == Mode::Flight || i < 100_000) {
                    event!(target: "t", "tick", i = i);
                    i += 1;
                }
            });
            for round in 0..rounds {
                let copy = folder.join("copy");
                recorder.snapshot(&copy).expect("a snapshot");
                let kept = numbers(&copy);
                assert!(kept.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{mode:?} {round}: numbers are missing");
                assert_eq!(discarded(&copy), 0);
                std::fs::remove_dir_all(copy).expect("it is removed");
            }
            drop(end);
        });
        recorder.finish().expect("it finishes");
    }
}

/// A pipe takes packets, and cannot be brought to a disk.
#[test]
fn a_packet_that_the_disk_does_not_take_is_moved_once() {
    let _one = lock();
    let folder = Folder::new("sync");
    let path = folder.join("t");
    let options = Recorder::options(&path).block(16 << 10).packet(4096).flush(Duration::ZERO).sync(true);
    let recorder = options.start().expect("it starts");
    let pipe = path.join("stream_0");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("it runs").success());
    let mut pipe = std::fs::File::options().read(true).write(true).open(pipe).expect("a pipe");
    // One more than fit into three packets of 250 events.
    (0..751_u64).for_each(|i| event!(target: "t", "tick", i = i));
    let mut packet = [0; 96 + 250 * 16];
    let mut number = || {
        pipe.read_exact(&mut packet).expect("a packet");
        packet[64]
    };
    assert_eq!([number(), number(), number()], [0, 1, 2]);
    assert!(recorder.finish().is_err(), "a pipe cannot be cut");
}

#[test]
fn rotation_loses_no_event() {
    let _one = lock();
    let folder = Folder::new("rotation");
    let recorder = Recorder::options(folder.join("0")).block(64 << 10).packet(4096).start().expect("it starts");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..200_000_u64 {
                event!(target: "t", "tick", i = i);
            }
        });
        for part in 1..4 {
            recorder.rotate(folder.join(&part.to_string())).expect("it goes on");
        }
    });
    recorder.finish().expect("it finishes");
    let parts: Vec<_> = (0..4).map(|part| numbers(&folder.join(&part.to_string()))).collect();
    assert!(
        parts.concat() == (0..200_000).collect::<Vec<u64>>(),
        "{:?}",
        parts.iter().map(Vec::len).collect::<Vec<_>>()
    );
}

/// Ends a process at once.
fn kill(mut child: Child) {
    child.kill().expect("it can be killed");
    child.wait().expect("it is over");
}

/// A number in a file, which survives the process that writes it.
struct Counter(memory::Counter);

#[allow(unsafe_code)]
mod memory {
    use std::os::fd::AsRawFd;
    use std::sync::atomic::AtomicU64;

    /// A number in a mapped file.
    pub(super) type Counter = &'static AtomicU64;

    /// Calls a function each 20 us while something is done.
    pub(super) fn interrupt(handler: extern "C" fn(libc::c_int), work: impl FnOnce()) {
        // SAFETY: the handler only does what handlers may; structures of this stack; the timer is deleted.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = libc::SIGUSR1;
            event.sigev_notify_thread_id = libc::syscall(libc::SYS_gettid) as i32;
            let mut timer: libc::timer_t = std::mem::zeroed();
            assert_eq!(libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer), 0);
            let time = libc::timespec { tv_sec: 0, tv_nsec: 20_000 };
            let every = libc::itimerspec { it_interval: time, it_value: time };
            assert_eq!(libc::timer_settime(timer, 0, &every, std::ptr::null_mut()), 0);
            work();
            libc::timer_delete(timer);
        }
    }

    /// Forks; the child does something and ends without a word.
    pub(super) fn fork(work: impl FnOnce()) {
        // SAFETY: as `child` wants it.
        unsafe { child(libc::fork(), work, || {}) };
    }

    /// As [`fork`], without the knowledge of the C library; the parent does something before the child does.
    pub(super) fn fork_unknown(meanwhile: impl FnOnce(), work: impl FnOnce()) {
        let mut ends = [0; 2];
        // SAFETY: as `child` wants it: without a stack it goes on with this one. A pipe is made, and a byte goes through it.
        unsafe {
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
            let wait = || assert_eq!(libc::read(ends[0], [0_u8; 1].as_mut_ptr().cast(), 1), 1);
            let work = || {
                wait();
                work();
            };
            let meanwhile = || {
                meanwhile();
                assert_eq!(libc::write(ends[1], [1_u8].as_ptr().cast(), 1), 1);
            };
            child(libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as i32, work, meanwhile);
        }
    }

    /// Goes on as a child that was just made, or as its parent.
    ///
    /// # Safety
    /// The child only records and ends.
    unsafe fn child(child: i32, work: impl FnOnce(), meanwhile: impl FnOnce()) {
        let mut status = 0;
        if child == 0 {
            work();
            // SAFETY: the caller's.
            unsafe { libc::exit(0) };
        }
        meanwhile();
        // SAFETY: its status is awaited.
        assert_eq!(unsafe { (libc::waitpid(child, &mut status, 0), status) }, (child, 0));
    }

    /// Maps a file of 4096 bytes for ever.
    pub(super) fn map(path: &std::path::Path) -> Counter {
        let file = std::fs::File::options().read(true).write(true).create(true).truncate(false).open(path);
        let file = file.expect("a file");
        file.set_len(4096).expect("a length");
        // SAFETY: a new mapping that is never removed; only atomics reach it.
        unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let page = libc::mmap(std::ptr::null_mut(), 4096, protection, libc::MAP_SHARED, file.as_raw_fd(), 0);
            assert_ne!(page, libc::MAP_FAILED);
            AtomicU64::from_ptr(page.cast())
        }
    }
}

impl Counter {
    fn new(path: &Path) -> Counter {
        Counter(memory::map(path))
    }
}

/// Records for ever, and counts each event when it is written.
fn record_until_killed(folder: &Path) {
    let counter = Counter::new(&folder.join("counter"));
    let mode = std::fs::read_to_string(folder.join("mode")).expect("the mode");
    let options = Options::default().packet(4096);
    let mut options = if mode == "flight" { options.flight(4 << 20) } else { options.block(64 << 10) };
    options.path = folder.join("t");
    options.flush = Duration::from_millis(2);
    let _recorder = options.start().expect("it starts");
    for i in 0..u64::MAX {
        event!(target: "t", "tick", i = i);
        counter.0.store(i + 1, Ordering::Release);
    }
}

#[test]
fn what_was_written_survives_a_kill() {
    if let Some(folder) = argument() {
        return record_until_killed(&folder);
    }
    let rounds = if std::env::var_os("TRACEMILL_LONG").is_some() { 100 } else { 8 };
    for mode in ["flight", "stream"] {
        for round in 0..rounds {
            let folder = Folder::new("killed");
            std::fs::write(folder.join("mode"), mode).expect("a file");
            let child = again("what_was_written_survives_a_kill", &folder.0).spawn().expect("it starts");
            let counter = Counter::new(&folder.join("counter"));
            while counter.0.load(Ordering::Acquire) < 100 {
                std::thread::sleep(Duration::from_millis(1));
            }
            // Not at a round time: 1 to 12 ms.
            let nanos =
                std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time").subsec_nanos();
            std::thread::sleep(Duration::from_micros(1_000 + u64::from(nanos) % 11_000));
            kill(child);
            let counted = counter.0.load(Ordering::Acquire);
            let path = folder.join("t");
            for step in ["in its ring", "recovered"] {
                let kept = numbers(&path);
                let what = format!("{mode}, round {round}, {step}: {} events, {counted} counted", kept.len());
                let last = *kept.last().expect("events") + 1;
                assert!(last == counted || last == counted + 1, "{what}, last {last}");
                assert!(kept.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{what}");
                assert!(mode == "flight" || kept[0] == 0, "{what}");
                assert_eq!(discarded_of_rings(&path), 0, "{what}");
                if step == "in its ring" {
                    snapshot(&path, &folder.join("copy")).expect("a copy of a dead trace");
                    assert_eq!(numbers(&folder.join("copy")), kept, "{what}");
                    let recovered = recover(&path).expect("it can be recovered");
                    // Of a stream all may have been moved, when the next packet was only begun.
                    let has_packets = recovered.packets > 0 || mode == "stream";
                    assert!(has_packets && recovered.damaged.is_empty(), "{recovered:?}");
                    assert!(!path.join(".ring").exists());
                }
            }
        }
    }
}

/// As [`discarded`], where a warning says that there are rings.
fn discarded_of_rings(path: &Path) -> u64 {
    let traces = tracemill::open([path]).expect("a trace");
    assert_eq!(traces.damage().count(), 0);
    let surveys = traces.count();
    surveys.iter().flat_map(|trace| &trace.streams).map(|stream| stream.discarded_events.unwrap_or(0)).sum()
}

#[test]
fn a_trace_that_is_being_recorded_is_read_and_not_recovered() {
    let _one = lock();
    let folder = Folder::new("live");
    let path = folder.join("t");
    let recorder = Recorder::options(&path).flight(64 << 10).start().expect("it starts");
    event!(target: "t", "tick", i = 5_u64);
    assert_eq!(numbers(&path), [5]);
    assert!(recover(&path).is_err());
    // The header says what is known of the clock by now.
    let ring = std::fs::File::options().read(true).write(true).open(path.join(".ring/0.ring")).expect("a ring");
    let mut known = [0; 8];
    ring.write_all_at(&known, 192).expect("a frequency");
    while known == [0; 8] {
        std::thread::sleep(Duration::from_millis(10));
        ring.read_exact_at(&mut known, 192).expect("a frequency");
    }
    assert!(u64::from_le_bytes(known) > 1_000_000);
    // One at a time; what was refused leaves nothing.
    let second = Recorder::options(folder.join("second")).start();
    assert!(matches!(second, Err(tracemill_record::StartError::IsRecording)));
    assert!(!folder.join("second").exists());
    recorder.finish().expect("it finishes");
    assert!(recover(&path).is_err(), "there is nothing to recover");
    assert_eq!(numbers(&path), [5]);
}

#[test]
fn the_environment_starts_and_the_end_of_the_process_finishes() {
    if argument().is_some() {
        return event!(target: "t", "tick", i = 11_u64);
    }
    let folder = Folder::new("environment");
    let mut child = again("the_environment_starts_and_the_end_of_the_process_finishes", &folder.0);
    child.env("TRACEMILL_RECORD", folder.join("t")).env("TRACEMILL_RECORD_FORMAT", "ctf1.8");
    assert!(child.status().expect("it runs").success());
    assert_eq!(numbers(&folder.join("t")), [11]);
    assert!(!folder.join("t/.ring").exists());
    // Each with a wrong value: one line, no recording, and the program runs.
    let name = "the_environment_starts_and_the_end_of_the_process_finishes";
    for (variable, value, wanted) in [
        ("SIZE", "many", "a number of bytes with K, M or G"),
        ("SIZE", "0", "a number of bytes with K, M or G"),
        ("PACKET", "-4K", "a number of bytes with K, M or G"),
        ("MODE", "fast", "`stream`, `flight` or `block`"),
        ("FORMAT", "ctf", "`ctf2` or `ctf1.8`"),
        ("FLUSH", "often", "a number of seconds"),
    ] {
        let mut child = again(name, &folder.0);
        child.env("TRACEMILL_RECORD", folder.join("u")).env(format!("TRACEMILL_RECORD_{variable}"), value);
        let output = child.output().expect("it runs");
        assert!(output.status.success() && !folder.join("u").exists(), "{variable}={value}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let said: Vec<_> = said.lines().filter(|line| line.contains("tracemill-record: ")).collect();
        let expected = format!("TRACEMILL_RECORD_{variable}={value}: expected {wanted}");
        assert!(said.len() == 1 && said[0].contains(&expected), "{said:?}");
    }
    // A folder that is there is one that cannot be made.
    let mut child = again(name, &folder.0);
    let output = child.env("TRACEMILL_RECORD", &folder.0).output().expect("it runs");
    assert!(output.status.success() && String::from_utf8_lossy(&output.stderr).contains("nothing is recorded: "));
    // All of them with right ones.
    let mut child = again(name, &folder.0);
    child.env("TRACEMILL_RECORD", folder.join("of-%p")).env("TRACEMILL_RECORD_MODE", "block");
    child
        .env("TRACEMILL_RECORD_SIZE", "64k")
        .env("TRACEMILL_RECORD_PACKET", "8K")
        .env("TRACEMILL_RECORD_FLUSH", "0.25");
    child.env("TRACEMILL_RECORD_EVENTS", "-*,t:ti*").env("TRACEMILL_RECORD_FORMAT", "ctf2");
    let child = child.spawn().expect("it runs");
    let pid = child.id();
    assert!(child.wait_with_output().expect("it ends").status.success());
    assert_eq!(numbers(&folder.join(&format!("of-{pid}"))), [11]);
}

/// Attempts of the signal handler.
static ATTEMPTS: AtomicU64 = AtomicU64::new(0);

/// A signal handler that records three events.
extern "C" fn on_signal(_: libc::c_int) {
    for _ in 0..3 {
        event!(target: "t", "signal", i = ATTEMPTS.fetch_add(1, Ordering::Relaxed));
    }
}

/// Records while signals interrupt it, and says how many events were tried and discarded.
fn record_with_signals(folder: &Path) {
    let mode = std::fs::read_to_string(folder.join("mode")).expect("the mode");
    let options = Recorder::options(folder.join("t")).packet(4096);
    let options = if mode == "flight" { options.flight(64 << 20) } else { options.stream(64 << 10) };
    let recorder = options.start().expect("it starts");
    // The first event of a place is not for a signal handler.
    on_signal(0);
    let mut ticks = 0_u64;
    memory::interrupt(on_signal, || {
        // Until there was a signal, however quick the machine is.
        while ticks < 400_000 || ATTEMPTS.load(Ordering::Relaxed) == 3 {
            event!(target: "t", "tick", i = ticks);
            ticks += 1;
        }
    });
    let summary = recorder.finish().expect("it finishes");
    let tried = ticks + ATTEMPTS.load(Ordering::Relaxed);
    std::fs::write(folder.join("counts"), format!("{tried} {}", summary.discarded)).expect("a file");
}

#[test]
fn signal_handlers_record_within_an_event() {
    if let Some(folder) = argument() {
        return record_with_signals(&folder);
    }
    for mode in ["flight", "stream"] {
        let folder = Folder::new("signals");
        std::fs::write(folder.join("mode"), mode).expect("a file");
        assert!(again("signal_handlers_record_within_an_event", &folder.0).status().expect("it runs").success());
        let counts = std::fs::read_to_string(folder.join("counts")).expect("counts");
        let (tried, lost) = counts.split_once(' ').expect("two numbers");
        let (tried, lost): (u64, u64) = (tried.parse().expect("a number"), lost.parse().expect("a number"));
        // `discarded` finds no damage, and no time that goes back.
        assert_eq!(discarded(&folder.join("t")), lost, "{mode}");
        assert_eq!(numbers(&folder.join("t")).len() as u64 + lost, tried, "{mode}");
        assert!(tried > 400_003, "{mode}: there were signals");
    }
}

/// Forks a child that records, and one that does not. They go elsewhere first, as daemons do.
fn fork(folder: &Path) {
    std::env::set_current_dir(folder).expect("a folder");
    for (name, follow) in [("followed-%p", true), ("alone", false)] {
        let recorder = Recorder::options(name).follow_fork(follow).start().expect("it starts");
        event!(target: "t", "tick", i = 1_u64);
        memory::fork(|| {
            std::env::set_current_dir("/").expect("a folder");
            event!(target: "t", "tick", i = 2_u64);
        });
        event!(target: "t", "tick", i = 3_u64);
        recorder.finish().expect("it finishes");
    }
}

/// As [`fork`], by the call of the system alone.
fn fork_unknown(folder: &Path) {
    let tick = |i: u64| event!(target: "t", "tick", i = i);
    for (name, follow) in [("followed", true), ("alone", false)] {
        let recorder = Recorder::options(folder.join(name)).follow_fork(follow).start().expect("it starts");
        tick(1);
        let grandchild = || (300..302).for_each(tick);
        let child = || {
            (10..210).for_each(tick);
            memory::fork_unknown(|| tick(210), grandchild);
        };
        memory::fork_unknown(|| (2..=9).for_each(tick), child);
        recorder.finish().expect("it finishes");
    }
}

#[test]
fn children_that_nobody_tells_leave_their_parents_alone() {
    if let Some(folder) = argument() {
        return fork_unknown(&folder);
    }
    let folder = Folder::new("unknown");
    let name = "children_that_nobody_tells_leave_their_parents_alone";
    assert!(again(name, &folder.0).status().expect("it runs").success());
    let names = std::fs::read_dir(&folder.0).expect("the folder");
    let mut names: Vec<_> = names.map(|entry| entry.expect("an entry").path()).collect();
    names.sort();
    let kept: Vec<_> = names.iter().map(|path| (numbers(path), discarded(path))).collect();
    // The event that a child finds out by is counted.
    let expected =
        [((1..=9).collect::<Vec<_>>(), 0), ((1..=9).collect(), 0), ((11..=210).collect(), 1), (vec![301], 1)];
    assert_eq!(kept, expected, "{names:?}");
    assert!(names.iter().all(|path| !path.join(".ring").exists()));
}

#[test]
fn children_record_when_they_should() {
    if let Some(folder) = argument() {
        return fork(&folder);
    }
    let folder = Folder::new("fork");
    assert!(again("children_record_when_they_should", &folder.0).status().expect("it runs").success());
    let names = std::fs::read_dir(&folder.0).expect("the folder");
    let mut names: Vec<_> = names.map(|entry| entry.expect("an entry").path()).collect();
    names.sort();
    let kept: Vec<_> = names.iter().map(|path| numbers(path)).collect();
    assert_eq!(kept, [vec![1, 3], vec![1, 3], vec![2]], "{names:?}");
    let [_, parent, child] = names.as_slice() else { panic!("{names:?}") };
    assert!(child.to_string_lossy().starts_with(&format!("{}.", parent.display())), "{names:?}");
    assert!(names.iter().all(|path| !path.join(".ring").exists()));
}

#[test]
fn exec_ends_a_recording_in_order_and_begins_the_next() {
    const NAME: &str = "exec_ends_a_recording_in_order_and_begins_the_next";
    if let Some(folder) = argument() {
        let turn: u64 = std::env::var("TURN").map_or(1, |turn| turn.parse().expect("a number"));
        event!(target: "t", "tick", i = turn);
        if turn < 3 {
            let error = again(NAME, &folder).env("TURN", (turn + 1).to_string()).exec();
            panic!("exec: {error}");
        }
        return;
    }
    for mode in ["stream", "flight"] {
        let folder = Folder::new(&format!("exec-{mode}"));
        let mut child = again(NAME, &folder.0);
        child.env("TRACEMILL_RECORD", folder.join("t")).env("TRACEMILL_RECORD_MODE", mode);
        let output = child.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !said.contains("tracemill-record"), "{said}");
        for (name, turn) in [("t", 1), ("t.2", 2), ("t.3", 3)] {
            assert_eq!(numbers(&folder.join(name)), [turn], "{mode} {name}");
            assert!(!folder.join(name).join(".ring").exists(), "{mode} {name}");
        }
    }
}
