//! `convert --to html`: a page that holds its data.
#![cfg(feature = "viewer")]

mod util;

use std::io::Read as _;
use std::process::{Command, Output};

use flate2::read::ZlibDecoder;
use serde_json::Value;
use util::{Folder, demo};

fn convert(options: &[&str], out: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tracemill"));
    command.args(["convert", "--to", "html", "-o", out]).args(options).output().expect("the program starts")
}

fn page(options: &[&str]) -> String {
    let folder = Folder::new();
    let out = folder.path("page.html");
    let output = convert(options, out.to_str().expect("a plain name"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read_to_string(out).expect("the page is there")
}

/// The data of the page, unpacked.
fn data(page: &str) -> Vec<u8> {
    let (_, rest) = page.split_once("<script type=\"text/plain\" id=\"data\">").expect("the data");
    let (text, _) = rest.split_once("</script>").expect("its end");
    let sign = |sign: u8| {
        let place =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".iter().position(|own| *own == sign);
        place.expect("base64") as u32
    };
    let mut bytes = Vec::new();
    for four in text.trim_end_matches('=').as_bytes().chunks(4) {
        let all = four.iter().fold(0, |all, own| all << 6 | sign(*own)) << (6 * (4 - four.len()));
        bytes.extend_from_slice(&all.to_be_bytes()[1..four.len()]);
    }
    let mut unpacked = Vec::new();
    ZlibDecoder::new(&*bytes).read_to_end(&mut unpacked).expect("zlib");
    unpacked
}

/// Session, tracks and problems, at the beginning of the data.
fn head(data: &[u8]) -> Value {
    let end = data.iter().position(|byte| byte & 0x80 == 0).expect("a length");
    let length = data[..=end].iter().rev().fold(0, |all, byte| all << 7 | usize::from(byte & 0x7f));
    serde_json::from_slice(&data[end + 1..end + 1 + length]).expect("JSON")
}

fn holds(data: &[u8], text: &str) -> bool {
    data.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn a_page_holds_what_is_chosen() {
    let mill = demo("mill");
    let mill = mill.as_str();
    let whole = page(&[mill]);
    let policy = whole.find("Content-Security-Policy").expect("a policy");
    assert!(policy < whole.find("<style>").unwrap() && policy < whole.find("<script").unwrap());
    assert!(whole[policy..].starts_with("Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-"));
    assert!(!whole.contains("src=\"") && !whole.contains("@import") && !whole.contains("rel=\"stylesheet\""));
    let told = head(&data(&whole));
    assert_eq!((&told["session"]["events"], &told["session"]["traces"][0]["format"]), (&2000.into(), &"ctf1.8".into()));
    assert!(told["session"]["features"].as_array().unwrap().contains(&"file".into()));
    let some = head(&data(&page(&["--skip", "10", "--limit", "7", mill])));
    assert_eq!(some["session"]["events"], 7);
    let of_tracks = some["tracks"].as_array().unwrap().iter().filter(|track| track["kind"] == "events");
    assert_eq!(of_tracks.map(|track| track["events"].as_u64().unwrap()).sum::<u64>(), 7);
    let filtered = head(&data(&page(&["--filter", "payload.grams > 100", mill])));
    assert_eq!(filtered["names"], serde_json::json!(["mill:grind"]));
    assert_eq!(head(&data(&page(&["--limit", "0", mill])))["session"]["events"], 0);
}

#[test]
fn hidden_fields_are_not_in_it() {
    let mill = demo("mill");
    let mill = mill.as_str();
    let plain = data(&page(&[mill]));
    assert!(holds(&plain, "Huehuetenango") && holds(&plain, "remark"));
    let hidden = data(&page(&["--anonymise", "payload.origin", "--drop-field", "payload.remark", mill]));
    assert!(!holds(&hidden, "Huehuetenango") && holds(&hidden, "origin"));
    assert!(!holds(&hidden, "\"remark\""), "the field is left out");
    // Names of threads are in calls and states, too.
    let calls = demo("../calls/tasting");
    let calls = calls.as_str();
    assert!(!head(&data(&page(&[calls])))["tasks"].as_array().unwrap().is_empty());
    let told = head(&data(&page(&["--anonymise", "payload.tid", calls])));
    assert_eq!((&told["tasks"], &told["functions"]), (&serde_json::json!([]), &serde_json::json!([])));
    assert!(told["problems"]["warnings"].to_string().contains("calls and states are left out"));
}

#[test]
fn what_a_page_cannot_be_is_said() {
    let folder = Folder::new();
    let out = folder.path("page.html");
    let (out, mill) = (out.to_str().unwrap(), demo("mill"));
    let mill = mill.as_str();
    for (options, message) in [
        (&["--split", "stream", mill][..], "--split is not an option of html"),
        (&["--index", mill], "--index is not an option of html"),
        (&["--filter", "payload.nothing == 1", mill], "payload.nothing"),
    ] {
        let output = convert(options, out);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && text.contains(message), "{options:?}: {text}");
        assert!(!std::path::Path::new(out).exists());
    }
    let output = convert(&["/nowhere"], out);
    assert_eq!(output.status.code(), Some(1));
    std::fs::write(out, "mine").unwrap();
    assert_eq!(convert(&[mill], out).status.code(), Some(1));
    assert_eq!(std::fs::read_to_string(out).unwrap(), "mine");
}

/// An array has as many values as its event has room for: time and memory of the page grow with the text, no faster.
#[cfg(unix)]
#[test]
fn long_arrays_take_little_memory() {
    let folder = Folder::new();
    let line = |ns: u32, len: usize| {
        let values = vec!["7"; len].join(",");
        format!("{{\"ns\":{ns},\"name\":\"e\",\"payload\":{{\"a\":[{values}]}}}}\n")
    };
    folder.file("long.jsonl", (0..6).map(|at| line(at, 20_000 + at as usize)).collect::<String>());
    let mut shell = std::process::Command::new("sh");
    let script = "ulimit -d 614400; exec \"$0\" convert --to html -o page.html long.jsonl";
    let program = util::command().get_program().to_os_string();
    shell.args(["-c", script]).arg(program).current_dir(folder.path("."));
    util::Run::from_output(shell.output().expect("it runs")).ends(0, &[]);
}
