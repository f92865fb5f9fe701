//! Recorders that lack something: room on the disk, the right to write, descriptors, calls of the system.
//!
//! Each is this program again, in a process of its own, with `TRACEMILL_TEST_CHILD` naming its folder.

mod util;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use tracemill_record::control::{Cause, Command as Order, Contexts, EventCondition, Trigger, ask};
use tracemill_record::{Mode, Recorder, event, recover};
use tracemill_ring::condition::FieldCondition;
use util::{Folder, again, argument, discarded, numbers};

/// Tries so many events, and says on stdout how many there were, and how it ended. In the mode `full` as many more as fill a
/// disk of 200 KiB.
fn record(folder: &Path, count: u64) {
    let mode = std::fs::read_to_string(folder.join("mode")).expect("the mode");
    let mut options = Recorder::options(folder.join("small/t")).stream(32 << 10).packet(4096);
    options.flush = Duration::from_millis(2);
    options.mode = if mode == "flight" { Mode::Flight } else { Mode::Stream };
    let recorder = match options.start() {
        Ok(recorder) => recorder,
        Err(error) => return println!("refused: {error}"),
    };
    let mut tried = 0;
    let moved = || std::fs::metadata(folder.join("small/t/stream_0")).map_or(0, |file| file.len());
    // Until so little room is left that what is in the ring has none.
    while mode == "full" && moved() < 136 << 10 {
        (0..100).for_each(|i| event!(target: "t", "tick", i = tried + i));
        tried += 100;
        std::thread::sleep(Duration::from_micros(200));
    }
    for i in 0..count {
        event!(target: "t", "tick", i = tried + i);
    }
    println!("tried: {}", tried + count);
    match recorder.finish() {
        Ok(summary) => println!("finished: {} {}", summary.discarded, summary.uncounted),
        Err(error) => println!("unfinished: {error}"),
    }
}

/// Runs a command of the shell, in which `"$@"` is the test, where disks can be mounted for it alone. `None`, and
/// said so, where that is not allowed.
fn with_mounts(test: &str, folder: &Folder, shell: &str) -> Option<Output> {
    std::fs::create_dir_all(folder.join("small")).expect("a folder");
    let again = again(test, &folder.0);
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", shell, "sh"]).arg(again.get_program()).args(again.get_args());
    command.env("TRACEMILL_TEST_CHILD", &folder.0).env("SMALL", folder.join("small"));
    let output = command.output().ok();
    let output = output.filter(|output| !String::from_utf8_lossy(&output.stderr).contains("unshare: "));
    if output.is_none() {
        eprintln!("left out: file systems cannot be mounted here");
    }
    output
}

/// The line of stdout that begins so.
fn line<'a>(output: &'a str, start: &str) -> &'a str {
    output.lines().find_map(|line| line.split_once(start)).unwrap_or_else(|| panic!("{start} is not in {output}")).1
}

#[test]
fn events_without_room_on_the_disk_are_counted() {
    if let Some(folder) = argument() {
        return record(&folder, 20_000);
    }
    let folder = Folder::new("full");
    // The ring fits, and some packets; then the disk is full, and there is room again before the trace is read.
    let shell = "mount -t tmpfs -o size=200k none \"$SMALL\" && \"$@\"; mount -o remount,size=20m \"$SMALL\"; \
        cp -r \"$SMALL/t\" \"$TRACEMILL_TEST_CHILD/t\"";
    std::fs::write(folder.join("mode"), "full").expect("a file");
    let Some(output) = with_mounts("events_without_room_on_the_disk_are_counted", &folder, shell) else { return };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let path = folder.join("t");
    // It could not be finished: what had no room in files is in the rings, and can be moved now.
    assert!(!line(&text, "unfinished: ").is_empty());
    recover(&path).expect("it can be recovered");
    let (kept, lost) = (numbers(&path), discarded(&path));
    assert!(lost > 0 && kept.windows(2).all(|pair| pair[0] < pair[1]), "{lost}");
    assert_eq!((kept.len() as u64 + lost).to_string(), line(&text, "tried: "));
}

#[test]
fn a_thread_without_room_for_a_ring_is_not_recorded() {
    const TRIED: u64 = 3;
    if let Some(folder) = argument() {
        return record(&folder, TRIED);
    }
    let folder = Folder::new("no-ring");
    let shell = "mount -t tmpfs -o size=24k none \"$SMALL\" && \"$@\"; mount -o remount,size=20m \"$SMALL\"; \
        cp -r \"$SMALL/t\" \"$TRACEMILL_TEST_CHILD/t\"";
    for mode in ["flight", "stream"] {
        std::fs::write(folder.join("mode"), mode).expect("a file");
        let Some(output) = with_mounts("a_thread_without_room_for_a_ring_is_not_recorded", &folder, shell) else {
            return;
        };
        let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(line(&text, "finished: "), format!("{TRIED} {TRIED}"), "{said}");
        assert_eq!(said.matches("a thread is not recorded: ").count(), 1, "{said}");
        assert!(numbers(&folder.join("t")).is_empty());
        std::fs::remove_dir_all(folder.join("t")).expect("it is removed");
    }
}

/// The first half of a name, of more bytes than are left in any page.
const LONG: &str = match std::str::from_utf8(&[b'x'; 5000]) {
    Ok(text) => text,
    Err(_) => "",
};

/// Events of a class that no disk has taken yet; `T` is another one of a place that is known.
fn late<T: tracemill_record::Field>(value: T) {
    event!(target: LONG, "late", i = value);
}

/// Records while the disk takes no description of a class, and when it does again.
fn record_late(folder: &Path) {
    let small = folder.join("small");
    let recorder = Recorder::options(small.join("t")).flight(8192).packet(4096).start().expect("it starts");
    event!(target: "t", "tick", i = 0_u64);
    late(1_u64);
    let filler = small.join("filler");
    let mut file = std::fs::File::create(&filler).expect("a file");
    while file.write(&[0; 4096]).is_ok() {}
    for i in 2..5 {
        event!(target: LONG, "never", i = i as u64);
        late(i as u32);
    }
    assert_eq!(recorder.discarded(), 6);
    drop(file);
    std::fs::remove_file(filler).expect("it is removed");
    let mut tried = 8;
    for event in [|i: u64| event!(target: LONG, "again", i = i), |i| late(i as u32)] {
        loop {
            let before = recorder.discarded();
            event(tried);
            tried += 1;
            assert!(tried < 20_000, "the disk is not asked again");
            if recorder.discarded() == before {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let summary = recorder.finish().expect("it finishes");
    println!("tried: {tried}\nfinished: {}", summary.discarded);
}

#[test]
fn events_that_cannot_be_described_are_counted_until_they_can() {
    if let Some(folder) = argument() {
        return record_late(&folder);
    }
    let folder = Folder::new("undescribed");
    let shell = "mount -t tmpfs -o size=1m none \"$SMALL\" && \"$@\" && cp -r \"$SMALL/t\" \"$TRACEMILL_TEST_CHILD/t\"";
    let name = "events_that_cannot_be_described_are_counted_until_they_can";
    let Some(output) = with_mounts(name, &folder, shell) else { return };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let (kept, lost) = (numbers(&folder.join("t")), discarded(&folder.join("t")));
    assert_eq!(kept[..2], [0, 1]);
    assert_eq!((kept.len(), lost.to_string().as_str()), (4, line(&text, "finished: ")));
    assert_eq!((kept.len() as u64 + lost).to_string(), line(&text, "tried: "));
}

/// Takes commands and meets a trigger while the disk is full, and when it is not any more.
fn record_commands(folder: &Path) {
    let small = folder.join("small");
    let path = small.join("t");
    let events = "t:cause".to_string();
    let cause = Cause::Event(EventCondition { events, source: String::new(), condition: FieldCondition::Const(true) });
    let options = Recorder::options(&path).flight(64 << 10).packet(4096);
    let recorder = options.trigger(Trigger { cause, before: Duration::ZERO }).start().expect("it starts");
    let meet = |i: u64| event!(target: "t", "cause", i = i);
    // A description of more bytes than are left in any page.
    let long = |i: u64| event!(target: LONG, "long", i = i);
    let tell = |commands: &[Order]| ask(&path, commands);
    let contexts = |names: &str| {
        let contexts = Contexts::parse(names).expect("contexts");
        Order::Contexts { events: "*:long".to_string(), contexts }
    };
    long(0);
    meet(1);
    // An event that was met before a command is over when the command is answered.
    tell(&[Order::List]).expect("it answers");
    assert!(small.join("t.trigger1").exists());
    let filler = small.join("filler");
    let mut file = std::fs::File::create(&filler).expect("a file");
    while file.write(&[0; 4096]).is_ok() {}
    meet(2);
    tell(&[contexts("cpu")]).expect("it answers");
    let names = std::fs::read_dir(&small).expect("a folder").flatten().map(|entry| entry.file_name());
    let names: Vec<_> = names.filter(|name| !["t", "t.trigger1", "filler"].iter().any(|known| name == known)).collect();
    assert!(names.is_empty(), "a part of a snapshot is left: {names:?}");
    long(3);
    assert_eq!(recorder.discarded(), 1, "its class with the context cannot be described");
    tell(&[contexts("-")]).expect("it answers");
    long(3);
    let refused = tell(&[Order::Rotate(small.join("u"))]).expect_err("there is no room");
    assert!(refused.to_string().contains("space"), "{refused}");
    assert!(!small.join("u").exists(), "the folder can be made later");
    drop(file);
    std::fs::remove_file(filler).expect("it is removed");
    meet(4);
    tell(&[Order::NoTriggers, Order::Rotate(small.join("u"))]).expect("there is room");
    meet(5);
    let summary = recorder.finish().expect("it finishes");
    assert_eq!(summary.discarded, 0, "those were of the folder before");
}

#[test]
fn a_full_disk_takes_no_snapshot_and_the_recording_goes_on() {
    if let Some(folder) = argument() {
        return record_commands(&folder);
    }
    let folder = Folder::new("commands");
    let shell = "mount -t tmpfs -o size=1m none \"$SMALL\" && \"$@\" && cp -r \"$SMALL\" \"$TRACEMILL_TEST_CHILD/all\"";
    let name = "a_full_disk_takes_no_snapshot_and_the_recording_goes_on";
    let Some(output) = with_mounts(name, &folder, shell) else { return };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(said.matches("t.trigger2: no snapshot: ").count(), 1, "{said}");
    let all = folder.join("all");
    for (trace, expected, lost) in [
        ("t", &[0, 1, 2, 3, 4][..], 1),
        ("t.trigger1", &[0, 1], 0),
        ("t.trigger2", &[0, 1, 2, 3, 4], 1),
        ("u", &[5], 0),
    ] {
        assert_eq!((numbers(&all.join(trace)), discarded(&all.join(trace))), (expected.to_vec(), lost), "{trace}");
    }
}

/// A program that asks for no summary reports it all the same.
#[test]
fn the_end_of_a_process_tells_what_is_missing() {
    const NAME: &str = "the_end_of_a_process_tells_what_is_missing";
    if argument().is_some() {
        return (0..3_u64).for_each(|i| event!(target: "t", "tick", i = i));
    }
    let folder = Folder::new("exit");
    for (size, told) in [("24k", 1), ("20m", 0)] {
        let shell = format!("mount -t tmpfs -o size={size} none \"$SMALL\" && TRACEMILL_RECORD=\"$SMALL/t\" \"$@\"");
        let Some(output) = with_mounts(NAME, &folder, &shell) else { return };
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert_eq!(said.matches("tracemill-record: 3 events were discarded").count(), told, "{said}");
        assert_eq!(said.matches("tracemill-record: ").count(), 2 * told, "{said}");
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error() {
    if let Some(folder) = argument() {
        return record(&folder, 1);
    }
    let folder = Folder::new("read-only");
    std::fs::write(folder.join("mode"), "stream").expect("a file");
    let shell = "mount -t tmpfs -o ro none \"$SMALL\" && \"$@\" && TRACEMILL_RECORD=\"$SMALL/u\" \"$@\"";
    let Some(output) = with_mounts("a_folder_that_cannot_be_written_is_an_error", &folder, shell) else { return };
    let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    assert!(line(&text, "refused: ").contains("Read-only file system"), "{text}");
    // By the environment: one line, and the program runs.
    let said: Vec<_> = said.lines().filter(|line| line.contains("tracemill-record")).collect();
    assert!(said.len() == 1 && said[0].contains("nothing is recorded: ") && said[0].contains("Read-only"), "{said:?}");
}

#[test]
fn a_process_without_descriptors_goes_on() {
    if let Some(folder) = argument() {
        return record(&folder, 5);
    }
    let folder = Folder::new("descriptors");
    std::fs::create_dir(folder.join("small")).expect("a folder");
    std::fs::write(folder.join("mode"), "stream").expect("a file");
    // With so few, files of the trace cannot be opened at one point or another: it is refused, or events are counted, or
    // what has been recorded stays in the rings; with more of them it works.
    let mut has_worked = false;
    for limit in 3..16 {
        let again = again("a_process_without_descriptors_goes_on", &folder.0);
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -n {limit}; exec \"$@\""), "sh"]).arg(again.get_program());
        shell.args(again.get_args()).env("TRACEMILL_TEST_CHILD", &folder.0);
        let output = shell.output().expect("it runs");
        let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        // The loader and the test itself need some.
        if !output.status.success() && !text.contains("finished: ") {
            assert!(!has_worked, "{limit}: {text}{said}");
            continue;
        }
        let path = folder.join("small/t");
        match text.contains("unfinished: ") {
            true => assert!(recover(&path).is_ok(), "{limit}: {text}"),
            false if text.contains("refused: ") => {}
            false => {
                let (lost, uncounted) = line(&text, "finished: ").split_once(' ').expect("two numbers");
                let (lost, uncounted): (u64, u64) =
                    (lost.parse().expect("a number"), uncounted.parse().expect("a number"));
                assert_eq!(numbers(&path).len() as u64 + lost, 5, "{limit}: {text}{said}");
                assert_eq!(discarded(&path) + uncounted, lost, "{limit}: {text}{said}");
                has_worked = lost == 0;
            }
        }
        let _ = std::fs::remove_dir_all(&path);
    }
    assert!(has_worked);
}
