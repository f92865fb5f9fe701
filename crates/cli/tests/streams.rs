//! Streams of bytes that come without a folder: from stdin, a FIFO, a TCP connection, or a file.
#![cfg(unix)]

mod util;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use util::{Folder, command};

/// A trace of a board: nothing but events.
const METADATA: &str = "/* CTF 1.8 */
    typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
    typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
    trace { major = 1; minor = 8; byte_order = le; };
    clock { name = board; freq = 1000000000; };
    typealias integer { size = 32; align = 8; signed = false; map = clock.board.value; } := time_t;
    stream { event.header := struct { time_t timestamp; uint8_t id; }; };
    event { name = tick; id = 16; fields := struct { uint32_t number; }; };
";
const EVENT_BYTES: usize = 9;

/// Events of these numbers.
fn events(numbers: std::ops::Range<u32>) -> Vec<u8> {
    let event = |number: u32| [&(number * 1000).to_le_bytes()[..], &[16], &number.to_le_bytes()].concat();
    numbers.flat_map(event).collect()
}

fn folder() -> Folder {
    let folder = Folder::new();
    std::fs::write(folder.path("metadata"), METADATA).expect("it can be written");
    folder
}

fn start(folder: &Folder, arguments: &str) -> Child {
    let mut command = command();
    command.args(arguments.split_whitespace()).current_dir(folder.path("."));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

/// The numbers of the events that it printed, its messages and status.
fn ended(child: Child) -> (Vec<u64>, String, Option<i32>) {
    let output = child.wait_with_output().expect("it ends");
    (numbers(&output.stdout), String::from_utf8_lossy(&output.stderr).into_owned(), output.status.code())
}

fn numbers(lines: &[u8]) -> Vec<u64> {
    let text = String::from_utf8_lossy(lines).into_owned();
    let number = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).expect("it is JSON");
        value["payload"]["number"].as_u64().expect("a number")
    };
    text.lines().map(number).collect()
}

#[test]
fn stdin_is_a_stream_that_comes_in_pieces() {
    let folder = folder();
    let mut child = start(&folder, "print --format jsonl --metadata metadata -");
    let mut to = child.stdin.take().expect("it is a pipe");
    let mut from = BufReader::new(child.stdout.take().expect("it is a pipe"));
    let bytes = events(0..100);
    let (one, two) = bytes.split_at(40 * EVENT_BYTES + 5);
    to.write_all(one).expect("it reads");
    // Events are shown before the others come.
    let mut shown = String::new();
    for _ in 0..40 {
        from.read_line(&mut shown).expect("it is text");
    }
    assert_eq!(numbers(shown.as_bytes()), (0..40).collect::<Vec<_>>());
    to.write_all(two).expect("it reads");
    drop(to);
    let mut rest = Vec::new();
    from.read_to_end(&mut rest).expect("it ends");
    assert_eq!(numbers(&rest), (40..100).collect::<Vec<_>>());
    let (_, messages, status) = ended(child);
    assert_eq!((messages.as_str(), status), ("", Some(0)));
}

#[test]
fn what_ends_in_the_middle_of_an_event_is_told() {
    let folder = folder();
    let mut child = start(&folder, "print --format jsonl --metadata metadata -");
    let bytes = events(0..10);
    child.stdin.take().expect("a pipe").write_all(&bytes[..bytes.len() - 2]).expect("it reads");
    let (numbers, messages, status) = ended(child);
    assert_eq!((numbers.len(), status), (9, Some(3)));
    let place = format!("stream/stdin: byte {}, packet 0", 9 * EVENT_BYTES + 5);
    assert!(messages.contains(&place) && messages.matches("error").count() == 1, "{messages}");
}

#[test]
fn fifos_and_files_are_merged() {
    let folder = folder();
    let made = Command::new("mkfifo").arg(folder.path("line")).status().expect("mkfifo is there");
    assert!(made.success());
    std::fs::write(folder.path("file.bin"), events(50..60)).expect("it can be written");
    let child = start(&folder, "print --format jsonl --metadata metadata line file.bin");
    std::fs::write(folder.path("line"), events(0..100)).expect("it is read");
    let (mut numbers, messages, status) = ended(child);
    numbers.sort_unstable();
    let expected: Vec<u64> =
        (0..100).flat_map(|at| std::iter::repeat_n(at, 1 + usize::from((50..60).contains(&at)))).collect();
    assert_eq!((numbers, messages.as_str(), status), (expected, "", Some(0)));
}

#[test]
fn connections_are_streams_that_are_kept() {
    let folder = folder();
    let mut child = start(&folder, "convert --to ctf1.8 --until-idle 3s --metadata metadata tcp://0 -o kept");
    let mut messages = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    messages.read_line(&mut line).expect("a message");
    let address =
        line.split_whitespace().find_map(|word| word.trim_end_matches(':').parse::<std::net::SocketAddr>().ok());
    let address = address.unwrap_or_else(|| panic!("no address: {line}"));
    assert!(address.ip().is_loopback());
    for from in [0, 1000] {
        let mut connection = TcpStream::connect(address).expect("it listens");
        connection.write_all(&events(from..from + 20)).expect("it reads");
    }
    assert_eq!(ended(child).2, Some(0));
    let kept = folder.run("print --format jsonl kept").ends(0, &[]);
    assert_eq!(numbers(kept.stdout.as_bytes()), (0..20).chain(1000..1020).collect::<Vec<u64>>());
    assert_eq!(std::fs::read_dir(folder.path("kept")).expect("a folder").count(), 3, "two streams and metadata");
}

#[test]
fn places_after_damage_are_found() {
    let folder = folder();
    // Three bytes are missing, then there are 50 too many.
    let bytes = [&events(0..100)[..300], &events(0..100)[303..], &[0xEE; 50], &events(100..200)].concat();
    std::fs::write(folder.path("s"), &bytes).expect("it can be written");
    let asked = "print --format jsonl --metadata metadata s";
    folder.run(asked).ends(3, &["no event class has the id"]);
    let found = folder.run(&format!("{asked} --resync")).ends(3, &["up to where events make sense again"]);
    // The event that lost bytes, and the one that lost its beginning in it.
    let expected: Vec<u64> = (0..200).filter(|number| ![33].contains(number)).collect();
    assert_eq!(numbers(found.stdout.as_bytes()), expected);
    // Again, as a stream that grows.
    let mut child = start(&folder, &format!("{} --resync", asked.replace(" s", " -")));
    let mut to = child.stdin.take().expect("a pipe");
    for piece in bytes.chunks(400) {
        to.write_all(piece).expect("it reads");
        sleep(Duration::from_millis(300));
    }
    drop(to);
    assert_eq!(ended(child).0, expected);
}

#[test]
fn mistakes_are_told() {
    let folder = folder();
    folder.run("print --metadata metadata nothing").ends(1, &["nothing"]);
    folder.run("print --metadata missing -").ends(1, &["missing"]);
    folder.run("print --metadata metadata tcp://board").ends(2, &["names no port", "tcp://4711"]);
    folder.run("print --listen 0.0.0.0 s").ends(2, &["--metadata"]);
}
