//! Recordings of calls that are sent and received over the network.
#![cfg(all(feature = "record", target_os = "linux"))]

#[path = "util/recorded.rs"]
mod recorded;
mod util;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use recorded::*;
use util::{Folder, command};

/// A receiver, and the port that it listens on.
fn receiver(folder: &Folder) -> (Child, BufReader<std::process::ChildStderr>, SocketAddr) {
    let mut command = command();
    command.args(["recv", "--port", "0", "--once", "-d", "received"]).current_dir(folder.path("."));
    let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let mut messages = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    messages.read_line(&mut line).expect("a message");
    let address = line.split_whitespace().find_map(|word| word.trim_end_matches(':').parse().ok());
    (child, messages, address.unwrap_or_else(|| panic!("no address: {line}")))
}

fn ended(mut child: Child, mut messages: BufReader<std::process::ChildStderr>) -> (Option<i32>, String) {
    let mut text = String::new();
    messages.read_to_string(&mut text).expect("messages");
    (child.wait().expect("it ends").code(), text)
}

fn message(kind: u16, content: &[u8]) -> Vec<u8> {
    [&[0xfa, 0xce][..], &kind.to_be_bytes(), &(content.len() as u32).to_be_bytes(), content].concat()
}

#[test]
fn a_recording_that_was_sent_is_that_which_is_written() {
    let folder = Folder::new();
    if compile(&folder, "values.c", "-pg", "program").is_none() {
        return;
    }
    let (child, messages, address) = receiver(&folder);
    let line = format!("record --host 127.0.0.1 --port {} -o board ./program", address.port());
    folder.run(&line).ends(3, &[]);
    assert!(!folder.path("board").exists());
    let (status, text) = ended(child, messages);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("received/board is complete"), "{text}");
    folder.run("record -o o ./program").ends(3, &[]);
    let shape = |name: &str| {
        let text = folder.run(&format!("report -f call {name}")).ends(0, &[]).stdout;
        let mut lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        lines.sort();
        lines
    };
    assert_eq!(shape("received/board"), shape("o"));
    // A machine at which nobody listens.
    folder.run("record --host 127.0.0.1 --port 1 -o board ./program").ends(125, &["cannot connect", "recv"]);
}

#[test]
fn uftrace_sends_and_receives() {
    let folder = Folder::new();
    if compile(&folder, "values.c", "-pg", "program").is_none() || !is_there("uftrace") {
        return;
    }
    let (child, messages, address) = receiver(&folder);
    let port = address.port().to_string();
    let mut sender = Command::new("uftrace");
    sender.args(["record", "--no-event", "--host", "127.0.0.1", "--port", &port, "-d", "theirs", "./program"]);
    sender.current_dir(folder.path(".")).output().expect("it runs");
    let (status, text) = ended(child, messages);
    assert_eq!(status, Some(0), "{text}");
    folder.run("check received/theirs").ends(0, &[]);
    let ours = folder.run("replay received/theirs").ends(0, &[]).stdout;
    let theirs =
        Command::new("uftrace").args(["replay", "-d", "received/theirs"]).current_dir(folder.path(".")).output();
    assert_eq!(ours, String::from_utf8_lossy(&theirs.expect("it runs").stdout));
}

#[test]
fn names_stay_in_the_folder() {
    let folder = Folder::new();
    let (child, messages, address) = receiver(&folder);
    let mut connection = TcpStream::connect(address).expect("it listens");
    connection.write_all(&message(101, b"../../out/side")).expect("it reads");
    let name = b"../evil.sym";
    let content = [&(name.len() as u32).to_be_bytes()[..], name, b"content"].concat();
    connection.write_all(&message(106, &content)).expect("it reads");
    let (status, text) = ended(child, messages);
    assert_eq!(status, Some(3), "{text}");
    assert!(text.contains("`../evil.sym` is no name of a file of a recording"), "{text}");
    let received: Vec<_> = fs::read_dir(folder.path("received")).expect("a folder").flatten().collect();
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].file_name(), "side");
    assert_eq!(fs::read_dir(received[0].path()).expect("a folder").count(), 0);
}

#[test]
fn what_is_sent_in_part_is_kept_and_told() {
    for (sent, told) in [
        (
            [message(101, b"t"), message(102, b"\0\0\0\x07records")[..13].to_vec()].concat(),
            "ended before the recording did",
        ),
        ([message(101, b"t"), b"\0\0\0\0\0\0\0\0".to_vec()].concat(), "wrong magic number"),
        (message(102, b"\0\0\0\x07records"), "it has no name"),
        ([message(101, b"t"), message(99, b"")].concat(), "a message of kind 99"),
        (message(101, &[b'x'; 5000]), "a name has 5000 bytes"),
        // Lengths that nothing comes for take no memory.
        ([message(101, b"t"), b"\xfa\xce\0\x66\xff\xff\xff\xff\0\0\0\x07abc".to_vec()].concat(), "ended before"),
    ] {
        let folder = Folder::new();
        let (child, messages, address) = receiver(&folder);
        let mut connection = TcpStream::connect(address).expect("it listens");
        // It may have been refused already.
        let _ = connection.write_all(&sent);
        drop(connection);
        let (status, text) = ended(child, messages);
        assert!(status == Some(3) && text.contains(told), "{told}: {text}");
    }
}
