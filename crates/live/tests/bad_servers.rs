//! Relay daemons that do not behave: each ends the connection or a stream with a sentence, and what was shown stays.

mod relay;
#[path = "relay/watch.rs"]
mod watching;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use relay::{Packet, Script, ScriptStep, StreamScript};
use tracemill_live::source::Patience;
use tracemill_live::viewer::ViewerOptions;
use watching::{Watched, options, watch, watch_with};

fn packet(begin: u64, end: u64, sequence: u64, times: &[u64]) -> ScriptStep {
    ScriptStep::Packet(Packet::new(begin, end, sequence, times))
}

/// One stream with two packets.
fn one_stream() -> Script {
    Script::new(&[&[packet(0, 9, 0, &[1, 2]), packet(10, 19, 1, &[11])]])
}

fn put(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
}

/// Views a server whose answers to a command are changed, from the `nth` on.
fn spoiled(command: u32, nth: u32, change: impl Fn(&mut Vec<u8>) + Send + 'static) -> Watched {
    let mut count = 0;
    let script = one_stream().spoiled(move |of, _, mut answer| {
        count += u32::from(of == command);
        if of == command && count >= nth {
            change(&mut answer);
        }
        Some(answer)
    });
    watch(script.serve())
}

#[track_caller]
fn has_fault(watched: &Watched, text: &str) {
    assert!(watched.faults.iter().any(|fault| fault.contains(text)), "{text:?} is not in {watched:?}");
}

/// A server that says these bytes whatever it is asked, and keeps the connection or not.
fn says(bytes: &'static [u8], keeps: bool) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 36];
        let _ = stream.read_exact(&mut request);
        let _ = stream.write_all(bytes);
        if keeps {
            std::thread::sleep(Duration::from_secs(20));
        }
    });
    port
}

#[test]
fn no_relay_daemon() {
    let error = |port| watch_with(options(port), Patience::Timers(10)).unwrap_err().to_string();
    let http = error(says(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", false));
    assert!(http.contains("is not that of a relay daemon") && http.contains("`HTTP/1.1 400 Bad`"), "{http}");
    let begin = Instant::now();
    let quick = ViewerOptions { timeout: Duration::from_millis(300), ..options(says(b"", true)) };
    let silent = watch_with(quick, Patience::Timers(10)).unwrap_err().to_string();
    assert!(silent.contains("the server is silent"), "{silent}");
    assert!(begin.elapsed() < Duration::from_secs(15), "before the server closes the connection");
    let closed = error(says(b"", false));
    assert!(closed.contains("closed the connection"), "{closed}");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let refused = error(port);
    assert!(refused.contains("cannot connect") && refused.contains("lttng-relayd"), "{refused}");
}

#[test]
fn other_versions() {
    for (at, number, text) in [(8, 3, "version 3, expected 2"), (12, 3, "version 2.3, expected at least 2.4")] {
        let script = one_stream().spoiled(move |command, _, mut answer| {
            if command == 1 {
                put(&mut answer, at, number);
            }
            Some(answer)
        });
        let error = watch_with(options(script.serve()), Patience::Timers(10)).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn counts_that_cannot_be() {
    has_fault(&spoiled(2, 1, |answer| put(answer, 0, 100_001)), "100001 sessions, expected at most 100000");
    has_fault(&spoiled(3, 1, |answer| put(answer, 4, 65_537)), "65537 streams, expected at most 65536");
    has_fault(&spoiled(3, 1, |answer| put(answer, 4, u32::MAX)), "4294967295 streams");
}

#[test]
fn statuses_of_attach() {
    for (status, text) in [
        (0, "status 0, expected 1 to 6"),
        (2, "another viewer is attached"),
        (4, "is not live"),
        (5, "refuses to begin"),
        (6, "has forgotten this viewer"),
        (7, "status 7, expected 1 to 6"),
        (u32::MAX, "status 4294967295"),
    ] {
        has_fault(&spoiled(3, 1, move |answer| put(answer, 0, status)), text);
    }
    // It ended between the list and this.
    let watched = spoiled(3, 1, |answer| *answer = vec![0, 0, 0, 3, 0, 0, 0, 0]);
    assert!(watched.faults.is_empty() && watched.events.is_empty(), "{watched:?}");
    has_fault(&spoiled(8, 1, |answer| put(answer, 0, 2)), "makes no session");
}

#[test]
fn packets_that_cannot_be() {
    let long =
        |at: usize, number: u64| move |answer: &mut Vec<u8>| answer[at..at + 8].copy_from_slice(&number.to_be_bytes());
    for (watched, text) in [
        (spoiled(4, 2, long(8, 0)), "a packet of 0 bits"),
        (spoiled(4, 2, long(8, 2047)), "expected whole bytes"),
        (spoiled(4, 2, long(8, u64::MAX - 7)), "expected at most 1073741824"),
        (spoiled(4, 2, long(16, 4096)), "4096 bits of content in a packet of 2048 bits"),
    ] {
        has_fault(&watched, text);
        has_fault(&watched, "nothing more of this stream is read");
        assert_eq!(watched.times(), [1, 2], "{watched:?}");
    }
}

#[test]
fn packets_of_another_length() {
    let shorter = |answer: &mut Vec<u8>| {
        answer.truncate(12 + 100);
        put(answer, 4, 100);
    };
    let watched = spoiled(5, 2, shorter);
    has_fault(&watched, "a packet of 256 bytes is answered with 100 bytes");
    assert_eq!(watched.times(), [1, 2]);
    let empty = |answer: &mut Vec<u8>| {
        answer.truncate(12);
        put(answer, 4, 0);
    };
    has_fault(&spoiled(5, 2, empty), "a packet of 256 bytes is answered with 0 bytes");
    has_fault(&spoiled(5, 2, |answer| put(answer, 4, u32::MAX)), "says 4294967295 bytes, expected the 256");
}

#[test]
fn statuses_of_streams() {
    for status in [0, 7, 1000] {
        let watched = spoiled(4, 2, move |answer| put(answer, 56, status));
        has_fault(&watched, &format!("`next index` is answered with status {status}"));
        assert_eq!(watched.times(), [1, 2]);
        let watched = spoiled(5, 2, move |answer| put(answer, 0, status));
        has_fault(&watched, &format!("`get packet` is answered with status {status}"));
    }
    has_fault(&spoiled(4, 2, |answer| put(answer, 56, 4)), "cannot read its index");
    // Refused: it is lost, and the stream goes on.
    let mut count = 0;
    let script = Script::new(&[&[packet(0, 9, 0, &[1]), packet(10, 19, 1, &[11]), packet(20, 29, 2, &[21])]]);
    let script = script.spoiled(move |command, _, answer| {
        count += u32::from(command == 5);
        Some(if command == 5 && count == 2 { vec![0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0] } else { answer })
    });
    let watched = watch(script.serve());
    has_fault(&watched, "refuses the packet from 10 to 19 cycles: it is lost");
    assert_eq!((watched.times(), watched.lost), (vec![1, 21], 1), "{watched:?}");
    // A flag that is set for ever is no reason to ask for ever.
    let watched = spoiled(5, 2, |answer| *answer = [3u32, 0, 1].map(u32::to_be_bytes).concat());
    has_fault(&watched, "refuses the packet");
}

#[test]
fn statuses_of_new_streams() {
    has_fault(&spoiled(7, 1, |answer| put(answer, 0, 3)), "cannot say which streams are new");
    has_fault(&spoiled(7, 1, |answer| put(answer, 0, 9)), "`new streams` with status 9");
}

#[test]
fn metadata_that_cannot_be() {
    let claims = |answer: &mut Vec<u8>| answer[..8].copy_from_slice(&(257u64 << 20).to_be_bytes());
    has_fault(&spoiled(6, 1, claims), "269484032 bytes, expected at most 268435456");
    for (status, text) in [(3, "cannot be read by the relay daemon"), (8, "status 8, expected 1 to 3")] {
        // Its packets are never asked for, so the session would stay open.
        let script = one_stream().spoiled(move |of, _, answer| {
            Some(match of {
                6 => [vec![0; 11], vec![status]].concat(),
                7 => [4u32, 0].map(u32::to_be_bytes).concat(),
                _ => answer,
            })
        });
        has_fault(&watch(script.serve()), text);
    }
    // The metadata stream ends: no fault once something was read.
    let watched = spoiled(6, 2, |answer| *answer = [vec![0; 8], vec![0, 0, 0, 3]].concat());
    assert_eq!((watched.times(), watched.faults.len()), (vec![1, 2, 11], 0), "{watched:?}");
    // Not metadata at all: nothing of that trace is shown.
    let nonsense = |answer: &mut Vec<u8>| {
        if answer.len() > 12 {
            answer[12..].fill(b'x');
        }
    };
    assert!(spoiled(6, 1, nonsense).events.is_empty());
}

#[test]
fn streams_that_are_named_twice() {
    let entry = |id: u64, trace: u64, is_metadata: u8, path: &str, channel: &str| {
        let mut entry = [id.to_be_bytes(), trace.to_be_bytes()].concat();
        entry.extend([0, 0, 0, is_metadata]);
        entry.extend(path.bytes().chain(std::iter::repeat_n(0, 4096 - path.len())));
        entry.extend(channel.bytes().chain(std::iter::repeat_n(0, 255 - channel.len())));
        entry
    };
    for second in [
        entry(10, 1, 0, "ust/uid/1000/64-bit", "other"),
        entry(10, 1, 1, "ust/uid/1000/64-bit", "c_0"),
        entry(30, 1, 0, "elsewhere", "c_1"),
        entry(101, 1, 0, "ust/uid/1000/64-bit", "metadata"),
        entry(31, 1, 1, "ust/uid/1000/64-bit", "metadata"),
    ] {
        let watched = spoiled(3, 1, move |answer| {
            put(answer, 4, 3);
            answer.extend(&second);
        });
        assert_eq!(watched.times(), [1, 2, 11], "{watched:?}");
        assert!(watched.warnings[0].contains("a second time, as something else"), "{watched:?}");
    }
}

/// A trace whose metadata never come ends the session; the others are shown until then.
#[test]
fn a_trace_without_metadata() {
    let mut script = one_stream();
    let steps = (0..10_000).map(|_| ScriptStep::Retry).collect();
    script.streams.push(StreamScript { id: 50, trace: 2, channel: "c_9".into(), steps });
    let quick = ViewerOptions { metadata_wait: Duration::from_millis(300), ..options(script.serve()) };
    let watched = watch_with(quick, Patience::Timers(10)).expect("the connection is made");
    has_fault(&watched, "the metadata of trace 2");
}

#[test]
fn texts_that_are_no_names() {
    let mut script = one_stream();
    script.path = "../../\u{1b}[31m/etc\n";
    script.streams[0].channel = "../../metadata".into();
    let watched = watch(script.serve());
    assert_eq!((watched.times(), watched.faults.len()), (vec![1, 2, 11], 0), "{watched:?}");
    // Names that fill their fields have no NUL.
    let fill =
        |byte: u8| move |answer: &mut Vec<u8>| answer[8..].chunks_mut(4371).for_each(|entry| entry[20..].fill(byte));
    for byte in [b'/', b'a', 0xff] {
        let watched = spoiled(3, 1, fill(byte));
        assert_eq!((watched.times(), watched.faults.len()), (vec![1, 2, 11], 0), "{watched:?}");
    }
    // Another path is another trace: one without streams, one without metadata.
    let watched = spoiled(3, 1, |answer| answer[8 + 20..8 + 4371].fill(b'a'));
    has_fault(&watched, "did not come");
}

#[test]
fn times_that_go_back() {
    let script =
        Script::new(&[&[packet(100, 190, 0, &[110, 120]), packet(10, 90, 1, &[20, 30]), packet(200, 210, 2, &[205])]]);
    let watched = watch(script.serve());
    assert_eq!(watched.times(), [110, 120, 20, 30, 205], "{watched:?}");
    assert_eq!(watched.warnings.iter().filter(|text| text.contains("times go back")).count(), 1, "{watched:?}");
    let script = Script::new(&[&[packet(50, 20, 0, &[])]]);
    assert!(watch(script.serve()).warnings[0].contains("from 50 to 20 cycles"));
}

#[test]
fn a_beacon_that_is_not_kept() {
    // It promises 500 and then gives 20.
    let liar = [ScriptStep::Quiet(500), packet(10, 600, 0, &[20, 510])];
    let other = [packet(0, 90, 0, &[1, 80]), packet(100, 900, 1, &[100, 400, 700])];
    let mut script = Script::new(&[&liar, &other]);
    script.delay = Duration::from_millis(30);
    let watched = watch(script.serve());
    let mut sorted = watched.times();
    sorted.sort_unstable();
    assert_eq!(sorted, [1, 20, 80, 100, 400, 510, 700], "{watched:?}");
    assert!(watched.warnings.iter().any(|text| text.contains("times go back")), "{watched:?}");
}

#[test]
fn indexes_that_contradict_their_packets() {
    let watched = spoiled(4, 2, |answer| answer[31] = 12);
    has_fault(&watched, "says that the packet begins at cycles 12, the packet says 10");
    assert_eq!(watched.times(), [1, 2, 11], "{watched:?}");
}

#[test]
fn bytes_after_an_answer() {
    let watched = spoiled(9, 1, |answer| answer.push(0));
    assert_eq!(watched.times(), [1, 2, 11]);
    // They are the next answer, which then does not fit.
    let watched = spoiled(4, 2, |answer| answer.extend([0xff; 12]));
    assert!(!watched.faults.is_empty(), "{watched:?}");
    assert!(watched.times().starts_with(&[1, 2]) || watched.events.is_empty(), "{watched:?}");
}

/// Every answer, cut at every byte: the connection ends with a sentence, and nothing hangs.
#[test]
fn answers_that_are_cut() {
    for command in [1u32, 8, 2, 3, 6, 4, 5, 7] {
        let whole: usize = match command {
            1 => 20,
            8 => 4,
            2 => 4 + 20 + 319,
            3 => 8 + 2 * 4371,
            6 => 12 + relay::METADATA.len(),
            4 => 64,
            5 => 12 + 256,
            _ => 8,
        };
        let step = (whole / 40).max(1);
        for len in (0..whole).step_by(step).chain([whole - 1]) {
            let mut is_cut = false;
            let script = one_stream().spoiled(move |of, _, mut answer| {
                if is_cut {
                    return None;
                }
                if of == command {
                    is_cut = true;
                    answer.truncate(len);
                    // The rest never comes.
                    answer.shrink_to_fit();
                }
                Some(answer)
            });
            let quick = ViewerOptions { timeout: Duration::from_millis(40), ..options(script.serve()) };
            let said = match watch_with(quick, Patience::Timers(10)) {
                Ok(watched) => watched.faults.join("\n"),
                Err(error) => error.to_string(),
            };
            assert!(said.contains("the reply to"), "{command} {len}: {said}");
        }
    }
}
