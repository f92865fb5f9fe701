//! Traces inside compressed files and archives read as if they had been unpacked by hand.

mod util;

use std::fs;
use std::io::Write;
use std::path::Path;

use serde_json::Value;
use util::{Folder, json_lines, run_with};

fn demo(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo").join(path)
}

/// The files of a demo trace, with a folder before their names.
fn members(trace: &str, folder: &str) -> Vec<(String, Vec<u8>)> {
    let mut members = Vec::new();
    let mut entries: Vec<_> = fs::read_dir(demo("traces").join(trace)).expect("the demo is there").flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries.iter().filter(|entry| entry.path().is_file()) {
        let name = format!("{folder}{}", entry.file_name().to_string_lossy());
        members.push((name, fs::read(entry.path()).expect("it can be read")));
    }
    members
}

fn header(name: &[u8], len: usize, kind: u8) -> Vec<u8> {
    let mut block = vec![0; 512];
    block[..name.len().min(100)].copy_from_slice(&name[..name.len().min(100)]);
    block[100..108].copy_from_slice(b"0000644\0");
    block[124..136].copy_from_slice(format!("{len:011o}\0").as_bytes());
    block[148..156].copy_from_slice(b"        ");
    block[156] = kind;
    block[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

fn member(tar: &mut Vec<u8>, name: &str, content: &[u8], kind: u8) {
    tar.extend(header(name.as_bytes(), content.len(), kind));
    tar.extend(content);
    tar.resize(tar.len().next_multiple_of(512), 0);
}

fn tar(members: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut tar = Vec::new();
    for (name, content) in members {
        if name.len() > 100 {
            member(&mut tar, "././@LongLink", format!("{name}\0").as_bytes(), b'L');
        }
        member(&mut tar, name, content, b'0');
    }
    tar.resize(tar.len() + 1024, 0);
    tar
}

fn zip(members: &[(String, Vec<u8>)], method: u16) -> Vec<u8> {
    let (mut zip, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in members {
        let packed = match method {
            8 => {
                let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(content).expect("it goes to memory");
                encoder.finish().expect("it goes to memory")
            }
            _ => content.clone(),
        };
        let offset = zip.len() as u32;
        let mut shared = vec![20, 0, 0, 0];
        shared.extend(method.to_le_bytes());
        shared.extend([0; 4]);
        shared.extend(crc32fast::hash(content).to_le_bytes());
        shared.extend((packed.len() as u32).to_le_bytes());
        shared.extend((content.len() as u32).to_le_bytes());
        shared.extend((name.len() as u16).to_le_bytes());
        shared.extend([0; 2]);
        zip.extend(b"PK\x03\x04");
        zip.extend(&shared);
        zip.extend(name.as_bytes());
        zip.extend(&packed);
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(&shared);
        directory.extend([0; 10]);
        directory.extend(offset.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (offset, len) = (zip.len() as u32, directory.len() as u32);
    zip.extend(&directory);
    zip.extend(b"PK\x05\x06\0\0\0\0");
    zip.extend((members.len() as u16).to_le_bytes());
    zip.extend((members.len() as u16).to_le_bytes());
    zip.extend(len.to_le_bytes());
    zip.extend(offset.to_le_bytes());
    zip.extend([0; 2]);
    zip
}

fn compress(bytes: &[u8], how: &str) -> Vec<u8> {
    match how {
        "gz" => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(bytes).expect("it goes to memory");
            encoder.finish().expect("it goes to memory")
        }
        "bz2" => {
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::default());
            encoder.write_all(bytes).expect("it goes to memory");
            encoder.finish().expect("it goes to memory")
        }
        "xz" => {
            let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 6);
            encoder.write_all(bytes).expect("it goes to memory");
            encoder.finish().expect("it goes to memory")
        }
        _ => ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest),
    }
}

const ALGORITHMS: [&str; 4] = ["gz", "bz2", "xz", "zst"];

fn lines(folder: &Folder, trace: &str) -> String {
    folder.run_with("print --format jsonl -q", &[trace]).ends(0, &[]).stdout
}

fn plain(trace: &Path) -> String {
    run_with("print --format jsonl -q", &[&trace.display().to_string()]).ends(0, &[]).stdout
}

fn payloads(lines: &str) -> Vec<(Value, Value, Value)> {
    json_lines(lines).iter().map(|line| (line["ns"].clone(), line["name"].clone(), line["payload"].clone())).collect()
}

#[test]
fn archives_read_as_the_folders_in_them() {
    let folder = Folder::new();
    let want = plain(&demo("traces/orders"));
    assert!(!want.is_empty());
    let packed = members("orders", "some/folder/");
    let archive = tar(&packed);
    folder.file("plain", &archive).file("stored", zip(&packed, 0)).file("deflated", zip(&packed, 8));
    for algorithm in ALGORITHMS {
        folder.file(algorithm, compress(&archive, algorithm));
    }
    for name in ["plain", "stored", "deflated", "gz", "bz2", "xz", "zst"] {
        assert_eq!(lines(&folder, name), want, "{name}");
        folder.run_with("info --count --json", &[name]).ends(0, &[]);
        folder.run_with("check -q", &[name]).ends(0, &[]);
        folder.run_with("convert --to ctf2 -o", &[&format!("{name}-out"), name]).ends(0, &[]);
        assert_eq!(payloads(&lines(&folder, &format!("{name}-out"))), payloads(&want), "{name}");
    }
    let info = folder.run("info --json gz").ends(0, &[]).stdout;
    assert!(info.contains("\"name\":\"gz/some/folder\"") || info.contains("gz/some/folder"), "{info}");
}

#[test]
fn a_compressed_file_reads_as_the_file() {
    let folder = Folder::new();
    let logs: Vec<_> = fs::read_dir(demo("logs")).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    let log = logs.iter().find(|path| path.is_file()).expect("the demo has event logs");
    let (want, bytes) = (plain(log), fs::read(log).expect("it can be read"));
    for algorithm in ALGORITHMS {
        folder.file(algorithm, compress(&bytes, algorithm));
        assert_eq!(lines(&folder, algorithm), want, "{algorithm}");
    }
    // Members and frames one after the other.
    let (head, tail) = bytes.split_at(bytes.len() / 2);
    for algorithm in ALGORITHMS {
        folder.file("joined", [compress(head, algorithm), compress(tail, algorithm)].concat());
        assert_eq!(lines(&folder, "joined"), want, "{algorithm}");
    }
    folder.file("twice", compress(&compress(&bytes, "xz"), "gz"));
    assert_eq!(lines(&folder, "twice"), want);
}

#[test]
fn a_compressed_log_is_converted_to_a_log() {
    let folder = Folder::new();
    let bytes = fs::read(demo("logs/belt.cpel")).expect("the demo has it");
    folder.file("packed", compress(&bytes, "gz"));
    folder.file("log", bytes);
    folder.run("convert --to cpel -o out packed").ends(0, &[]);
    // A log that is rewritten has its events in the order of time.
    assert_eq!(lines(&folder, "out"), lines(&folder, "log"));
}

#[test]
fn folders_and_archives_hold_archives() {
    let folder = Folder::new();
    let inner = compress(&tar(&members("orders", &format!("{}/", "long".repeat(40)))), "gz");
    let outer = zip(&[("in/ner.tgz".to_string(), inner), ("readme".to_string(), b"hello".to_vec())], 8);
    folder.file("below/outer.zip", outer).file("below/other/mill.tar", tar(&members("mill", "./")));
    let count = |text: &str| text.lines().count();
    let want = count(&plain(&demo("traces/orders"))) + count(&plain(&demo("traces/mill")));
    assert_eq!(count(&lines(&folder, "below")), want);
    let text = lines(&folder, "below");
    assert!(text.contains("\"trace\":\"below/other/mill.tar\""), "{}", text.lines().next().unwrap_or(""));
    assert!(text.contains("below/outer.zip/in/ner.tgz/longlong"));
}

#[test]
fn damaged_archives_are_told_and_read_as_far_as_they_go() {
    let folder = Folder::new();
    let all = members("mill", "");
    let archive = tar(&all);
    for algorithm in ALGORITHMS {
        let mut packed = compress(&archive, algorithm);
        packed.truncate(packed.len() - 9);
        folder.file("cut", &packed);
        // A decoder of Zstandard gives nothing of a frame that it may still have to look back at.
        let status = if algorithm == "zst" { 1 } else { 3 };
        folder.run("print cut").ends(status, &["error: cut", "cannot unpack the rest of it as"]);
    }
    folder.file("cut.tar", &archive[..archive.len() - 2048]);
    folder.run("print cut.tar").ends(3, &["cut.tar: byte", "the archive ends inside the member"]);
    let mut wrong = archive.clone();
    let second = 512 + all[0].1.len().next_multiple_of(512);
    wrong[second + 3] ^= 0x40;
    folder.file("wrong.tar", &wrong);
    folder.run("print wrong.tar").ends(if all[0].0 == "metadata" { 3 } else { 1 }, &["the checksum does not match"]);
    let whole = zip(&all, 0);
    folder.file("cut.zip", &whole[..whole.len() / 2]);
    folder.run("print cut.zip").ends(1, &["cut.zip", "no directory at its end"]);
    let mut changed = whole.clone();
    let stream = &all.iter().find(|member| member.0 != "metadata").expect("it has streams").1;
    let at = memchr_of(&changed, &stream[stream.len() - 64..]) + 40;
    changed[at] ^= 1;
    folder.file("changed.zip", &changed);
    folder.run("print changed.zip").ends(3, &["the checksum of the member", "does not match"]);
    folder.file("nothing.tar", tar(&[("readme".to_string(), b"hello".to_vec())]));
    folder.run("print nothing.tar").ends(1, &["nothing.tar"]);
}

fn memchr_of(bytes: &[u8], part: &[u8]) -> usize {
    bytes.windows(part.len()).position(|window| window == part).expect("it is there")
}

#[test]
fn names_do_not_lead_out_of_an_archive() {
    let folder = Folder::new();
    let mut all = members("orders", "/absolute/");
    all.push(("../../outside/metadata".to_string(), b"/* CTF 1.8 */".to_vec()));
    folder.file("archive", tar(&all));
    let run =
        folder.run("print --format jsonl archive").ends(3, &["`../../outside/metadata` leads out of the archive"]);
    assert_eq!(run.stdout, plain(&demo("traces/orders")));
    assert!(!folder.path("../../outside").exists());
    folder.file("archive.zip", zip(&all, 8));
    folder.run("print archive.zip").ends(3, &["leads out of the archive", "the member is left out"]);
}

#[test]
fn links_inside_an_archive_are_followed() {
    let folder = Folder::new();
    let mut archive = Vec::new();
    for (at, (name, content)) in members("orders", "trace/").iter().enumerate() {
        member(&mut archive, &format!("store/{at}"), content, b'0');
        let mut link = header(name.as_bytes(), 0, b'2');
        let target = format!("../store/{at}");
        link[157..157 + target.len()].copy_from_slice(target.as_bytes());
        link[148..156].copy_from_slice(b"        ");
        let sum: u32 = link.iter().map(|&byte| u32::from(byte)).sum();
        link[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        archive.extend(link);
    }
    archive.resize(archive.len() + 1024, 0);
    folder.file("archive", archive);
    assert_eq!(lines(&folder, "archive"), plain(&demo("traces/orders")));
}

#[test]
fn what_grows_without_measure_is_refused() {
    let folder = Folder::new();
    let packed = compress(&tar(&members("mill", "")), "gz");
    folder.file("archive", &packed);
    folder.run("print --max-unpacked 4K archive").ends(1, &["archive", "more than 4096 bytes", "--max-unpacked"]);
    folder.run("print -q --max-unpacked 100M archive").ends(0, &[]);
    // A window of 2 GiB, claimed by a few bytes.
    folder.file("window", [0x28, 0xb5, 0x2f, 0xfd, 0x00, 21 << 3, 0x21, 0, 0, 1, 2, 3, 4]);
    folder.run("print window").ends(1, &["a zstd window of 2147483648 bytes"]);
    // Archives inside each other without end.
    let mut nested = tar(&members("orders", ""));
    for _ in 0..12 {
        nested = tar(&[("a".to_string(), nested)]);
    }
    folder.file("nested", nested);
    folder.run("print nested").ends(1, &["archives inside each other"]);
}
