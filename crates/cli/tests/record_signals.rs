//! Signals to `tracemill record` alone, as `kill`, service managers and containers send them.
#![cfg(all(feature = "record", target_os = "linux"))]

#[path = "util/recorded.rs"]
mod recorded;
mod util;

use std::process::{Command, Stdio};

use recorded::*;
use util::{Folder, command};

#[test]
fn the_program_gets_the_signal_that_ends_and_is_recorded_to_its_end() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "term.c", "-pg", "program") else { return };
    let ways = [
        ("--no-libcall -o calls", "info calls"),
        ("--nop", "formats"),
        // A process of its own records.
        ("--no-libcall --keep-pid -o kept", "info kept"),
        ("--sample -o perf.data", "info perf.data"),
        ("--sample -o both", "info both"),
        ("-E sched:sched_switch -o kernel.dat", "info kernel.dat"),
        ("--no-libcall -E sched:sched_switch -o kernel", "info kernel"),
    ];
    for (options, look) in ways {
        let recorder = command()
            .current_dir(folder.path(""))
            .arg("record")
            .args(options.split(' '))
            .arg("./program")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let mut recorder = recorder.expect("it runs");
        wait_for("the program", || {
            folder.path("ready").exists() || recorder.try_wait().expect("it can be asked").is_some()
        });
        if !folder.path("ready").exists() {
            let output = recorder.wait_with_output().expect("it has ended");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(
                output.status.code() == Some(125) && (options.contains("-E") || options.contains("--sample")),
                "{said}"
            );
            eprintln!("left out: {said}");
            continue;
        }
        let kill = Command::new("kill").args(["-TERM", &recorder.id().to_string()]).status();
        assert!(kill.expect("there is kill").success());
        let output = recorder.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(7), "{options}: {said}");
        for name in ["ready", "cleaned"] {
            std::fs::remove_file(folder.path(name)).unwrap_or_else(|error| panic!("{options}: {name}: {error}"));
        }
        let look: Vec<&str> = look.split(' ').collect();
        wait_for("the end of the recording", || ours(&folder, &look).status.success());
    }
}
