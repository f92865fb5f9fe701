//! Traces of very many streams.

mod util;

use util::{Folder, ticks_metadata, ticks_packet};

/// More streams than files may be open at a time, and than threads read ahead.
#[test]
fn thousands_of_streams_are_one_timeline() {
    const STREAMS: u32 = 2500;
    let folder = Folder::new();
    folder.file("t/metadata", ticks_metadata(""));
    for number in 0..STREAMS {
        folder.file(&format!("t/s{number}"), ticks_packet(&[(u64::from(number) * 10, number)], 0));
    }
    let program = env!("CARGO_BIN_EXE_tracemill");
    let run = |command: &str| {
        let script = format!("ulimit -n 256 && exec '{program}' {command}");
        let output = std::process::Command::new("bash").args(["-c", &script]).current_dir(folder.path("")).output();
        util::Run::from_output(output.expect("a shell runs"))
    };
    let lines = run("print -j4 --format csv --columns n t").ends(0, &[]).stdout;
    assert!(lines.lines().skip(1).map(str::to_string).eq((0..STREAMS).map(|number| number.to_string())));
    run("check t").ends(0, &[]);
    run("convert -j4 --to jsonl -o out t").ends(0, &[]);
    assert_eq!(std::fs::read_to_string(folder.path("out")).expect("lines").lines().count(), STREAMS as usize);
}
