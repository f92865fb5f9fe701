//! Options and exit status on traces of the CTF drafts.

mod util;

use util::Folder;

const METADATA: &str = "trace { major = 1; minor = 1; }
type uint8_t { parent = integer; size = 8; }
section { name = main; event { header_type = type2; } }
event { name = tick; id = 1; section = main; fields = type { parent = struct; fields = { { uint8_t, n } } } }
";

/// A packet of v1.1 with one event; a checksum of its content follows scheme 3.
fn packet(count: u32, time: u32, n: u8, checksum: u32) -> Vec<u8> {
    let numbers = |numbers: &[u32]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    let mut bytes = numbers(&[0xC1FC_1FC1, 7, 55, 55, checksum, count, time, 0, time, 0, 0]);
    bytes.extend([32, 0, 0, 3]);
    bytes.extend(numbers(&[time]));
    bytes.extend([1, 0, n]);
    bytes
}

/// Three packets; the checksum of the second does not match.
fn trace() -> Folder {
    let folder = Folder::new();
    // CRC-32 of the seven bytes of each event.
    let stream = [packet(0, 10, 1, crc(10, 1)), packet(1, 20, 2, 0), packet(2, 30, 3, crc(30, 3))].concat();
    folder.file("t/metadata", METADATA).file("t/main_0", stream);
    folder
}

fn crc(time: u32, n: u8) -> u32 {
    let [a, b, c, d] = time.to_le_bytes();
    let mut crc = u32::MAX;
    for byte in [a, b, c, d, 1, 0, n] {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

#[test]
fn a_wrong_checksum_is_told_and_its_events_are_withheld_when_strict() {
    let folder = trace();
    let said = "t/main_0: byte 55, packet 1: the crc32 checksum";
    let run = folder.run("print t").ends(3, &[said]);
    assert_eq!(run.stdout.lines().count(), 3);
    assert_eq!(run.stderr.matches("checksum").count(), 1, "{}", run.stderr);
    let run = folder.run("print t --strict").ends(1, &[said]);
    assert_eq!(run.stdout.lines().count(), 1, "{}", run.stdout);
    assert!(run.stdout.contains("n = 1"));
    let run = folder.run("print t --no-verify").ends(0, &[]);
    assert_eq!(run.stdout.lines().count(), 3);
    folder.run("check t").ends(3, &[]);
    folder.run("info t --count").ends(3, &[said]);
    folder.run("info t").ends(0, &[]);
}

#[test]
fn strict_gives_the_events_before_a_bad_header() {
    let folder = trace();
    let stream = |second: Vec<u8>| [packet(0, 10, 1, crc(10, 1)), second, packet(2, 30, 3, crc(30, 3))].concat();
    let mut bad = packet(1, 20, 2, crc(20, 2));
    bad[0] = 0;
    folder.file("t/main_0", stream(bad.clone()));
    let run = folder.run("print t").ends(3, &["t/main_0: byte 55, packet 1: the magic number"]);
    assert_eq!(run.stdout.lines().count(), 2, "{}", run.stdout);
    let run = folder.run("print t --strict").ends(1, &["t/main_0: byte 55, packet 1: the magic number"]);
    assert_eq!(run.stdout.lines().count(), 1, "{}", run.stdout);
    // The fault stands after what another file says before it.
    folder.file("t/main_1", [packet(0, 5, 4, crc(5, 4)), packet(1, 9, 5, crc(9, 5))].concat());
    let run = folder.run("print t --strict").ends(1, &["t/main_0: byte 55, packet 1: the magic number"]);
    assert_eq!(run.stdout.lines().count(), 3, "{}", run.stdout);
    // Before it there is no event.
    folder.file("t/main_2", bad);
    let run = folder.run("print t --strict").ends(1, &["t/main_2: byte 0, packet 0: the magic number"]);
    assert_eq!(run.stdout, "");
    folder.run("info t --strict").ends(1, &["t/main_0: byte 55"]);
}

#[test]
fn options_of_the_drafts_are_checked() {
    let folder = trace();
    folder.run("print t --key-file nothing").ends(2, &["--key-file names `nothing`: there is no such file or folder"]);
    folder.run("print t --max-expanded much").ends(2, &["`much` is not a number for --max-expanded"]);
    let run = folder.run("print t --no-verify --clock-frequency 1000 --clock-offset 1 --format jsonl").ends(0, &[]);
    assert!(run.stdout.starts_with("{\"ns\":1010000000,\"cycles\":10,"), "{}", run.stdout);
    // A section has no number: only streams of v1.6 do.
    assert!(!run.stdout.contains("\"stream\":"), "{}", run.stdout);
}

#[test]
fn packets_are_compressed_encrypted_and_summed_on_request() {
    let folder = trace();
    folder.file("key", "000102030405060708090a0b0c0d0e0f").file("words", "open sesame\n");
    let lines = folder.run("print t --no-verify --format jsonl --filter n!=2").ends(0, &[]).stdout;
    let payloads = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split("\"payload\"").nth(1).unwrap_or("").to_string()).collect()
    };
    let cases = [
        ("ctf1.1", "--packet-compression bzip2 --packet-checksum sha1", ""),
        ("ctf1.1", "--packet-compression gzip --packet-key-file key --byte-order big", "--key-file key"),
        ("ctf1.6", "--packet-compression xz --packet-checksum md5 --packet-key-file key", "--key-file key"),
        ("ctf1.6", "--packet-checksum crc32 --packet-size 64", ""),
    ];
    for (at, (to, options, key)) in cases.into_iter().enumerate() {
        folder.run(&format!("convert t --no-verify --quiet --filter n!=2 --to {to} -o out{at} {options}")).ends(0, &[]);
        if !key.is_empty() {
            folder.run(&format!("print out{at}")).ends(3, &["encrypted"]);
        }
        let read = folder.run(&format!("print out{at} --format jsonl {key}")).ends(0, &[]);
        assert_eq!(payloads(&read.stdout), payloads(&lines), "{to} {options}");
    }
    folder.run("convert t --to ctf1.1 -o no --packet-compression xz").ends(2, &["v1.1 has bzip2 and gzip only"]);
    folder
        .run("convert t --to ctf2 -o no --packet-checksum md5")
        .ends(2, &["--packet-checksum is not an option of ctf2"]);
}

#[test]
fn a_draft_that_is_cut_keeps_its_packets() {
    let folder = trace();
    folder.run("convert t --no-verify --to ctf1.1 -o all").ends(0, &[]);
    let files = |name: &str| std::fs::read(folder.path(name)).expect("a file");
    assert_eq!(files("t/main_0"), files("all/main_0"));
    folder.run("convert t --no-verify --to ctf1.1 -o cut --begin 15ns").ends(0, &[]);
    assert_eq!(files("cut/main_0"), [packet(1, 20, 2, 0), packet(2, 30, 3, crc(30, 3))].concat());
    assert_eq!(files("cut/metadata"), METADATA.as_bytes());
    folder.run("convert t --no-verify --to ctf1.1 -o some --filter n>=2").ends(0, &[]);
    // The checksum that did not match is rebuilt.
    assert_eq!(files("some/main_0"), [packet(1, 20, 2, crc(20, 2)), packet(2, 30, 3, crc(30, 3))].concat());
}
