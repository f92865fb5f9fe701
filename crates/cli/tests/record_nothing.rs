//! `tracemill record` of programs that cannot be recorded, or of which nothing is: each reason has its sentence.
#![cfg(all(feature = "record", target_os = "linux"))]

#[path = "util/recorded.rs"]
mod recorded;
mod util;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use recorded::*;
use util::Folder;

/// Writes a script, which can be executed.
fn script(folder: &Folder, name: &str, text: &str) {
    folder.file(name, text);
    set_mode(&folder.path(name), 0o755);
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("the mode can be changed");
}

#[test]
fn what_scripts_and_shells_run_is_recorded() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "counter.c", "-pg", "program") else { return };
    script(&folder, "both.sh", "#!/bin/sh\n./program c1 3\n./program c2 4 | cat\n");
    for words in
        [&["./both.sh"][..], &["sh", "both.sh"], &["sh", "-c", "./program c1 3; ./program c2 4"], &["env", "./both.sh"]]
    {
        for name in ["c1", "c2"] {
            let _ = fs::remove_file(folder.path(name));
        }
        let output = ours(&folder, &[&["record", "-o", "o"], words].concat());
        assert_eq!((output.status.code(), &*String::from_utf8_lossy(&output.stderr)), (Some(0), ""), "{words:?}");
        assert_eq!((entries(&folder, "leaf"), entries(&folder, "main")), (7, 2), "{words:?}");
    }
    // Its status is that of the script, also when nothing of it is recorded; that is said.
    script(&folder, "none.sh", "#!/bin/sh\nexit 3\n");
    let said = "o: nothing was recorded: 1 program ran with the library of the recorder, and none of them is instrumented: \
        compile what they run with -pg";
    folder.run("record -o o ./none.sh").ends(3, &[said]);
    folder.run("record --no-libcall -o o --force true").ends(0, &["o: nothing was recorded: "]);
    folder
        .run("record -o o true")
        .ends(125, &["it is neither instrumented nor linked", "--force records its calls to libraries"]);
}

#[test]
fn programs_that_no_library_can_be_loaded_into_are_refused_with_the_reason() {
    let folder = Folder::new();
    let Some(program) = compile(&folder, "counter.c", "-pg", "program") else { return };
    compile(&folder, "counter.c", "-pg -static", "static");
    compile(&folder, "counter.c", "-pg -static-pie", "pie");
    for name in ["static", "pie"] {
        let help = "link it without -static";
        folder.run(&format!("record -o o ./{name} c 3")).ends(125, &["it is linked statically", help]);
        assert!(!folder.path("c").exists() && !folder.path("o").exists());
        folder.run(&format!("record -o o --force ./{name} c 3")).ends(0, &["warning: ", "it is linked statically"]);
        fs::remove_file(folder.path("c")).expect("it ran");
    }
    let mut bytes = fs::read(&program).expect("the program");
    bytes[18] = 183;
    fs::write(folder.path("other"), bytes).expect("a file");
    set_mode(&folder.path("other"), 0o755);
    folder.run("record ./other c 3").ends(125, &["it is a program for AArch64, and calls are recorded on x86-64 only"]);
    fs::copy(&program, folder.path("privileged")).expect("a file");
    let owner = Command::new("chown").arg("65534").arg(folder.path("privileged")).status();
    if !owner.is_ok_and(|status| status.success()) {
        return eprintln!("left out: only root can make a program of another user");
    }
    set_mode(&folder.path("privileged"), 0o4755);
    let why = "it is setuid, setgid or has capabilities: the loader ignores LD_PRELOAD";
    folder.run("record ./privileged c 3").ends(125, &[why, "as the user whose rights it gets"]);
    // A file that may be executed and not be read: by somebody who is not root.
    fs::create_dir(folder.path("open")).expect("a folder");
    set_mode(&folder.path("open"), 0o777);
    set_mode(&program, 0o711);
    let as_nobody = |more: &[&str]| {
        let mut record = Command::new("setpriv");
        record.args(["--reuid=65534", "--regid=65534", "--clear-groups", env!("CARGO_BIN_EXE_tracemill"), "record"]);
        record
            .args(["--no-libcall", "-o", "open/o"])
            .args(more)
            .args(["./program", "open/c", "3"])
            .current_dir(folder.path(""));
        let output = record.output().ok()?;
        Some((output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned()))
    };
    let Some((status, said)) = as_nobody(&[]) else { return eprintln!("left out: there is no setpriv") };
    if said.contains("setpriv: ") {
        return eprintln!("left out: {said}");
    }
    assert!(status == Some(125) && said.contains("its file cannot be read (Permission denied"), "{said}");
    let (status, said) = as_nobody(&["--force"]).expect("as before");
    assert!(status == Some(0) && said.contains("program have no names: its file cannot be read: "), "{said}");
    assert_eq!(calls(&folder, "open/o"), 4);
}

/// A child that never appears in the recording has its sentence, whichever process started it and how.
#[test]
fn children_that_cannot_be_recorded_are_named() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "starts.c", "-pg", "starts") else { return };
    compile(&folder, "counter.c", "-pg", "program");
    compile(&folder, "counter.c", "-pg -static", "static");
    let said = format!(
        "o: nothing of {}, which was started, can be recorded: it is linked statically, so the library of the recorder cannot \
         be loaded into it; link it without -static (and -static-pie)\n",
        folder.path("static").display()
    );
    for way in ["exec", "vfork", "spawn", "file"] {
        let _ = fs::remove_file(folder.path("c"));
        let run = folder.run(&format!("record -o o ./starts {way} ./static")).ends(0, &[]);
        assert_eq!(run.stderr, said, "{way}");
        fs::remove_file(folder.path("c")).expect("it ran");
        let run = folder.run(&format!("record -o o ./starts {way} ./program")).ends(0, &[]);
        assert_eq!((&*run.stderr, entries(&folder, "leaf")), ("", 3), "{way}");
    }
    // One that is not there was not started.
    let run = folder.run("record -o o ./starts exec ./none").ends(0, &[]);
    assert_eq!(run.stderr, "");
    let _ = fs::remove_file(folder.path("c"));
    let output = ours(&folder, &["record", "-o", "o", "sh", "-c", "./static c 3; ./static c 3; true"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.starts_with(&said) && stderr.matches("./static").count() == 0, "{stderr}");
    assert!(stderr.matches("linked statically").count() == 1 && !stderr.contains("compile"), "{stderr}");
}

#[test]
fn functions_without_room_for_a_patch_are_patched_all_the_same() {
    let folder = Folder::new();
    for room in ["5", "7,2", "32,16", "3", "4", "5,1", "6,2"] {
        let flags = format!("-O0 -fpatchable-function-entry={room}");
        let Some(_) = compile(&folder, "counter.c", &flags, "program") else { return };
        let run = folder.run("record --no-libcall -o o -P . ./program c 3").ends(0, &[]);
        fs::remove_file(folder.path("c")).expect("it ran");
        assert_eq!((&*run.stderr, calls(&folder, "o")), ("", 4), "{room}");
    }
}

#[test]
fn recordings_without_a_call_say_why() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "counter.c", "-pg", "program") else { return };
    for options in ["-t 1000s", "--disable", "-F leaf -N leaf"] {
        let said = "o: nothing was recorded: no call matches the options (";
        folder.run(&format!("record -o o {options} ./program c 3")).ends(0, &[said]);
    }
    let run = folder.run("record -o o ./program c 3").ends(0, &[]);
    assert_eq!(run.stderr, "");
}

/// In seccomp's strict mode a thread may neither call the system nor read the clock.
#[test]
fn programs_in_strict_sandboxes_go_on_and_their_calls_are_counted() {
    let folder = Folder::new();
    for way in WAYS {
        let Some(program) = compile(&folder, "strict.c", &format!("{way} -O1"), "program") else { return };
        let plain = Command::new(&program).args(["10"]).output().expect("it runs");
        assert_eq!((plain.status.code(), &*plain.stdout), (Some(0), &b"done\n"[..]));
        for (options, raw) in [("", ""), ("", " raw"), ("-A fib@arg1", ""), ("-F .", " raw")] {
            // 177 calls before, 242785 there.
            let run = folder.run(&format!("record --no-libcall -o o {options} ./program 25{raw}")).ends(0, &[]);
            let said = "o: 242785 calls were not recorded, since their thread had entered seccomp's strict mode, in which no \
                clock can be read\n";
            assert_eq!((&*run.stdout, &*run.stderr), ("done\n", said), "{way} {options} {raw}");
            assert_eq!(entries(&folder, "fib"), 177, "{way} {options} {raw}");
        }
        let run = folder.run("record -o o ./program 10 fails").ends(0, &[]);
        assert_eq!((run.stderr, entries(&folder, "fib")), (String::new(), 2 * 177), "{way}");
    }
    let run = folder.run("record -o o ./program 10 filter").ends(0, &[]);
    let said = "1 process was killed by a seccomp filter (SIGSYS), maybe for a system call of the recorder";
    assert!(run.stderr.contains(said) || entries(&folder, "fib") == 3 * 177, "{}", run.stderr);
}
