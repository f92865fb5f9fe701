//! `tracemill record` of function calls: programs run as without it, and uftrace and we read the folder alike.
//!
//! Programs are compiled by gcc and g++. Without those, or without uftrace, what needs them is left out, and said so.
#![cfg(all(feature = "record", target_os = "linux"))]

#[path = "util/recorded.rs"]
mod recorded;
mod util;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use recorded::*;
use util::{Folder, command};

#[test]
fn programs_run_as_without_it() {
    let folder = Folder::new();
    let has_uftrace = is_there("uftrace");
    for (source, commands) in [
        ("values.c", &["replay", "report", "graph", "dump"][..]),
        ("exceptions.cc", &["replay", "report", "graph", "dump"]),
        // The first program's `main` has no end, and uftrace looks for its name in the second one: no report.
        ("threads.c", &["replay", "graph", "dump"]),
        ("processes.c", &["replay", "report", "graph", "dump"]),
    ] {
        for way in WAYS {
            for level in ["-O0", "-O2"] {
                let what = format!("{source} {way} {level}");
                let Some(program) = compile(&folder, source, &format!("{way} {level}"), "program") else { return };
                let plain = Command::new(&program).current_dir(folder.path("")).output().expect("it runs");
                let traced = ours(&folder, &["record", "-o", "o", "./program"]);
                let told = String::from_utf8_lossy(&traced.stderr);
                // Its timer interrupts calls while they are written, 5000 times a second: in the last place of a slot one of
                // the two has no room, and is counted.
                let is_told = told.strip_prefix("o: ").and_then(|told| told.strip_suffix(" were lost\n"));
                let lost = is_told.and_then(|told| told.rsplit(' ').next()).and_then(|lost| lost.parse::<u64>().ok());
                assert!(
                    told.is_empty() || source == "threads.c" && lost.is_some_and(|lost| lost < 5),
                    "{what}: {told}"
                );
                assert_eq!(String::from_utf8_lossy(&traced.stdout), String::from_utf8_lossy(&plain.stdout), "{what}");
                assert_eq!(traced.status.code(), plain.status.code(), "{what}");
                is_read_alike(&folder, commands, &what);
                assert!(entries(&folder, "main") >= 1, "{what}");
                // How often threads are interrupted is not the same each time, and uftrace loses calls by `longjmp`.
                if has_uftrace && source == "exceptions.cc" {
                    assert_eq!(calls(&folder, "o"), calls_of_uftrace(&folder, "--no-pager"), "{what}");
                }
                // With calls to libraries, the program ends early in uftrace.
                if has_uftrace && source == "processes.c" {
                    ours(&folder, &["record", "--no-libcall", "-o", "o", "./program"]);
                    assert_eq!(calls(&folder, "o"), calls_of_uftrace(&folder, "--no-libcall"), "{what}");
                }
            }
        }
    }
    assert!(folder.path("o.old/info").is_file(), "a folder of the same name is kept");
    let left: Vec<_> = fs::read_dir(folder.path("o")).expect("the folder").flatten().map(|e| e.file_name()).collect();
    assert!(!left.iter().any(|name| name == ".ring" || name == "libtracemill_calls.so"), "{left:?}");
}

#[test]
fn children_that_nobody_tells_have_rings_of_their_own() {
    let folder = Folder::new();
    for way in WAYS {
        let Some(_) = compile(&folder, "raw.c", &format!("-O0 {way}"), "program") else { return };
        for (options, many, calls) in
            [("", "", 100), ("", "many", 20_000), ("-b 4K", "many", 20_000), ("-N nothing", "", 100)]
        {
            let words = ["record", "-o", "o"].into_iter().chain(options.split_whitespace());
            let words: Vec<_> = words.chain(["./program"]).chain(many.split_whitespace()).collect();
            let traced = ours(&folder, &words);
            let what = format!("{way} {options} {many}");
            assert_eq!(traced.status.code(), Some(0), "{what}: {}", String::from_utf8_lossy(&traced.stderr));
            let found = ["parents", "childs", "grandchilds", "main"].map(|name| entries(&folder, name));
            assert_eq!(found, [2 * calls + 1, calls + 1, 1, 1], "{what}");
            is_read_alike(&folder, &["replay", "graph", "dump"], &what);
        }
    }
}

#[test]
fn all_calls_are_there_whatever_the_size_of_rings() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "counter.c", "-pg", "program") else { return };
    let run = |more: &[&str], counter: &str| {
        let arguments = [&["record", "-o", "o"], more, &["./program", counter, "50000"]].concat();
        let output = ours(&folder, &arguments);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let grow = ["-b", "4K", "--when-full", "grow", "--max-buffer", "128K"];
    let ways = [&["-b", "4K"][..], &[], &["--ring-dir", "."], &["-b", "4K", "--when-full", "grow"], &grow];
    for (at, more) in ways.into_iter().enumerate() {
        run(more, &format!("c{at}"));
        assert_eq!(entries(&folder, "leaf"), 50_000, "{more:?}");
    }
    run(&["-D", "1"], "depth");
    assert_eq!((entries(&folder, "main"), entries(&folder, "leaf")), (1, 0));
    // Half a ring's records may be lost at once; what there is, and what is counted, is all.
    let message = run(&["-b", "4K", "--when-full", "lose"], "lose");
    let kept = entries(&folder, "leaf");
    assert!(
        kept == 50_000 && message.is_empty() || kept < 50_000 && message.contains("were lost"),
        "{kept}: {message}"
    );
    is_read_alike(&folder, &["replay", "graph", "dump"], "lost records");
}

#[test]
fn rings_that_grow_need_no_recorder_for_a_while() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "counter.c", "-pg", "program") else { return };
    let mut recorder = command();
    recorder.current_dir(folder.path("")).args(["record", "-o", "o", "-b", "4K", "--when-full", "grow"]);
    let mut recorder = recorder.args(["./program", "counter", "200000"]).spawn().expect("it runs");
    wait_for("a call", || counted(&folder) > 0);
    let signal = |name: &str| {
        assert!(Command::new("kill").args([name, &recorder.id().to_string()]).status().expect("it runs").success());
    };
    signal("-STOP");
    // The stopped recorder takes no records, and the program ends all the same: 6 MB are in its rings by then.
    wait_for("the end", || counted(&folder) == 200_000);
    signal("-CONT");
    assert_eq!(recorder.wait().expect("it ends").code(), Some(0));
    assert_eq!(entries(&folder, "leaf"), 200_000);
    is_read_alike(&folder, &["replay", "graph"], "grown");
}

/// A program that gives up its rights may not ask whether the recorder lives, and waits for it all the same.
#[test]
fn programs_without_rights_wait_for_the_recorder() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "counter.c", "-pg -DNOBODY", "program") else { return };
    let mut recorder = command();
    recorder.current_dir(folder.path("")).args([
        "record",
        "-v",
        "-o",
        "o",
        "-b",
        "4K",
        "./program",
        "counter",
        "100000",
    ]);
    let mut recorder = recorder.stderr(std::process::Stdio::piped()).spawn().expect("it runs");
    let mut is_over = false;
    wait_for("a call", || {
        is_over = recorder.try_wait().expect("it can be asked").is_some();
        is_over || counted(&folder) > 0
    });
    if counted(&folder) == 0 {
        eprintln!("left out: rights can be given up by root only");
        return;
    }
    let signal = |name: &str| {
        assert!(Command::new("kill").args([name, &recorder.id().to_string()]).status().expect("it runs").success());
    };
    signal("-STOP");
    // So long that it asks.
    std::thread::sleep(Duration::from_millis(500));
    signal("-CONT");
    let output = recorder.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(0) && !said.contains("lost"), "{said}");
    assert_eq!(entries(&folder, "leaf"), 100_000);
}

/// A command of the shell where file systems can be mounted for it alone; `tracemill` is this program there. `None`,
/// and said so, where that is not allowed.
fn with_mounts(folder: &Folder, shell: &str) -> Option<Output> {
    let ours = Path::new(env!("CARGO_BIN_EXE_tracemill")).parent().expect("a folder");
    let path = format!("{}:{}", ours.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", shell]).current_dir(folder.path("")).env("PATH", path);
    let output = command.output().ok();
    let output = output.filter(|output| !String::from_utf8_lossy(&output.stderr).contains("unshare: "));
    if output.is_none() {
        eprintln!("left out: file systems cannot be mounted here");
    }
    output
}

#[test]
fn programs_run_to_their_end_whatever_becomes_of_the_recording() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "counter.c", "-pg", "program") else { return };
    fs::create_dir(folder.path("small")).expect("a folder");
    // The disk gets full: what is missing is counted. Symbols have no room either, until there is some.
    let shell = "mount -t tmpfs -o size=700k none small && tracemill record -o small/o ./program counter 100000; \
        echo $?; mount -o remount,size=40m small && tracemill record --recover small/o && cp -r small/o o";
    let Some(output) = with_mounts(&folder, shell) else { return };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((counted(&folder), &*output.stdout), (100_000, &b"0\n"[..]), "{said}");
    assert!(said.contains("the recording is not complete: No space left"), "{said}");
    let lost = said.split(" records, ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
    assert!(lost.is_some_and(|lost| lost > 100_000), "{said}");
    let kept = entries(&folder, "leaf") as u64;
    assert!(kept > 0 && 2 * kept < 200_002 - lost.unwrap_or(0) + 100, "{kept}: {said}");
    is_read_alike(&folder, &["replay", "graph", "dump"], "a full disk");
    // A folder that cannot be written at all: that is said before the program runs.
    let _ = fs::remove_file(folder.path("counter"));
    let shell = "mount -t tmpfs -o ro none small && tracemill record -o small/o ./program counter 5; echo $?";
    let output = with_mounts(&folder, shell).expect("as before");
    assert_eq!((counted(&folder), &*output.stdout), (0, &b"125\n"[..]));
    assert!(String::from_utf8_lossy(&output.stderr).contains("Read-only file system"));
    // Without memory for rings they are files of the folder.
    let shell =
        "mount -t tmpfs -o ro none /dev/shm && tracemill record -o r ./program counter 500 && tracemill dump -d r";
    let output = with_mounts(&folder, shell).expect("as before");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text.matches("[entry] leaf(").count(), 500, "{}", String::from_utf8_lossy(&output.stderr));
}

/// The ring of a thread that is over goes to the next one; what it held stays that of the first.
#[test]
fn threads_that_come_and_go_share_rings() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "many.c", "-pg -O1 -fno-inline", "program") else { return };
    fs::create_dir(folder.path("rings")).expect("a folder");
    for (more, threads) in
        [(&[][..], 50), (&["--no-libcall", "-b", "4K", "--when-full", "lose", "-A", "leaf@arg1"], 50)]
    {
        let arguments = [&["record", "-o", "o", "--ring-dir", "rings"], more, &["./program", "50", "rings"]].concat();
        let output = ours(&folder, &arguments);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{more:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "2\n", "{more:?}: one of main, one of the others");
        assert_eq!((entries(&folder, "leaf"), entries(&folder, "work")), (3 * threads, threads), "{more:?}");
        let files = fs::read_dir(folder.path("o")).expect("the folder").flatten();
        let files = files.filter(|file| file.file_name().to_string_lossy().ends_with(".dat")).count();
        assert_eq!(files, threads + 1, "{more:?}: a file of each task");
        is_read_alike(&folder, &["replay", "graph", "dump"], "threads that come and go");
    }
    // Without a look at rings, as fast as threads come.
    let threads = if std::env::var_os("TRACEMILL_LONG").is_some() { 10_000 } else { 1_000 };
    let output = ours(&folder, &["record", "-o", "o", "./program", &threads.to_string(), "none"]);
    assert_eq!((output.status.code(), &*String::from_utf8_lossy(&output.stderr)), (Some(0), ""));
    assert_eq!((entries(&folder, "leaf"), entries(&folder, "work")), (3 * threads, threads));
    assert_eq!(fs::read_dir(folder.path("rings")).expect("the folder").count(), 0, "rings are removed");
}

#[test]
fn libraries_that_are_loaded_have_names() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "plugin.c", "-pg -shared -fPIC -DPLUGIN", "plugin.so") else { return };
    compile(&folder, "plugin.c", "-pg", "program");
    let output = ours(&folder, &["record", "-o", "o", "./program", "./plugin.so"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "41\n");
    assert_eq!((entries(&folder, "plugged"), entries(&folder, "twice")), (1, 1));
    is_read_alike(&folder, &["replay", "report", "graph", "dump"], "a library");
    // As with uftrace, its functions are met too late for actions.
    for options in ["-N twice", "-F plugged", "-A twice@arg1"] {
        let arguments: Vec<_> = ["record", "-o", "o"].into_iter().chain(options.split(' ')).collect();
        let output = ours(&folder, &[&arguments[..], &["./program", "./plugin.so"]].concat());
        assert_eq!(String::from_utf8_lossy(&output.stdout), "41\n", "{options}");
        assert_eq!((entries(&folder, "plugged"), entries(&folder, "twice")), (1, 1), "{options}");
        is_read_alike(&folder, &["replay", "graph", "dump"], options);
    }
}

/// A library without a folder in its name is looked for where the program says, and where the environment does before that.
#[test]
fn libraries_are_found_where_the_program_says() {
    let folder = Folder::new();
    for name in ["lib", "other"] {
        fs::create_dir(folder.path(name)).expect("a folder");
    }
    let flags = "-pg -shared -fPIC -DPLUGIN";
    let Some(_) = compile(&folder, "plugin.c", flags, "lib/libplugged.so") else { return };
    compile(&folder, "plugin.c", &format!("{flags} -DMORE=2"), "other/libplugged.so");
    compile(&folder, "plugin.c", "-pg -Wl,--enable-new-dtags,-rpath,$ORIGIN/lib", "program");
    for (path, printed) in [("", "41\n"), ("other", "42\n")] {
        let mut record = command();
        record.current_dir(folder.path("")).args(["record", "-o", "o", "./program", "libplugged.so"]);
        let output = record.env("LD_LIBRARY_PATH", path).output().expect("it runs");
        assert_eq!(String::from_utf8_lossy(&output.stdout), printed, "{path}");
        assert_eq!((entries(&folder, "plugged"), entries(&folder, "twice")), (1, 1), "{path}");
        is_read_alike(&folder, &["replay", "report", "graph", "dump"], path);
    }
    folder.run("record -o o ./program libnone.so").ends(1, &[]);
}

/// The loader divides the names of libraries at blanks and colons.
#[test]
fn folders_may_have_any_name() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "counter.c", "-pg", "program") else { return };
    fs::create_dir(folder.path("a b:c")).expect("a folder");
    let output = ours(&folder, &["record", "-o", "a b:c/o", "./program", "counter", "3"]);
    assert_eq!((output.status.code(), &*String::from_utf8_lossy(&output.stderr)), (Some(0), ""));
    fs::rename(folder.path("a b:c/o"), folder.path("o")).expect("a folder");
    assert_eq!(entries(&folder, "leaf"), 3);
    // Impossible outputs are refused before the program runs.
    let long = format!("{0}/{0}", "long".repeat(60));
    fs::create_dir_all(folder.path(&long)).expect("a folder");
    let refused = |arguments: &[&str], why: &str| {
        let output = ours(&folder, &[&["record"], arguments, &["./program", "other", "3"]].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(125) && said.contains(why), "{said}");
        assert!(!folder.path("other").exists());
    };
    refused(&["-o", "a b:c/o", "--ring-dir", "a b:c"], "a blank or a colon");
    refused(&["-o", &format!("{long}/o")], "the path of the data folder is longer than 400 bytes");
    refused(&["-o", "p", "--ring-dir", &long], "the path of the folder of rings is longer than 400 bytes");
}

#[test]
fn what_cannot_be_recorded_is_refused() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "counter.c", "-fpatchable-function-entry=5", "program") else { return };
    folder.run("record ./program x 1").ends(125, &["`-P PATTERN` records the functions"]);
    folder.run("record --force -o t ./program x 1").ends(0, &[]);
    folder.file("mine/file", "");
    compile(&folder, "counter.c", "-pg", "program");
    folder.run("record -o mine ./program x 1").ends(125, &["it exists and is not a recording of calls"]);
    assert!(folder.path("mine/file").is_file());
}

#[test]
fn options_of_uftrace_are_known() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "values.c", "-pg", "program") else { return };
    let letters = ["-S x", "-W cpu", "-g"];
    let names = ["--signal x", "--rt-prio 1", "--list-event"];
    for option in letters.into_iter().chain(names) {
        folder.run(&format!("record -o r {option} ./program")).ends(125, &["cannot be had: "]);
        assert!(!folder.path("r").exists(), "{option}");
    }
    let unused = ["--no-event", "--no-sched", "--num-thread 2", "--libmcount-single", "--color no", "--no-pltbind"];
    for option in unused.into_iter().chain(["--no-libcall", "--nest-libcall"]) {
        folder.run(&format!("record -d o {option} ./program")).ends(3, &[]);
    }
    for option in ["--clock mono_raw", "--clock boot", "--no-randomize-addr", "--max-stack 65535"] {
        folder.run(&format!("record -d o {option} ./program")).ends(3, &[]);
        is_read_alike(&folder, &["replay", "report", "dump"], option);
    }
    folder.run("record -d o -v --time ./program").ends(3, &["o: ", " records", "elapsed time:", "user time:"]);
    folder.run("record -d idle --nop ./program").ends(3, &[]);
    assert!(!folder.path("idle").exists());
}

/// With few descriptors, and where calls of the system are forbidden, the program does what it does without us.
#[test]
fn programs_without_descriptors_and_in_sandboxes_are_recorded() {
    let folder = Folder::new();
    let Some(program) = compile(&folder, "limits.c", "-pg -O1", "program") else { return };
    for (arguments, lengths) in [(&["0"][..], 1), (&["2"], 3), (&["2", "sandbox"], 3), (&["20", "sandbox"], 3)] {
        let plain = Command::new(&program).args(arguments).current_dir(folder.path("")).output().expect("it runs");
        let record = ["record", "--no-libcall", "-o", "o", "-A", "length@arg1/s", "./program"];
        let traced = ours(&folder, &[&record[..], arguments].concat());
        // Each thread has two calls.
        let told =
            if arguments[0] == "0" { "o: 2 threads were not recorded, with 4 calls: they have no ring\n" } else { "" };
        assert_eq!(String::from_utf8_lossy(&traced.stderr), told, "{arguments:?}");
        assert_eq!((traced.status.code(), &traced.stdout), (plain.status.code(), &plain.stdout), "{arguments:?}");
        // A thread needs a descriptor for a moment.
        assert_eq!(entries(&folder, "length"), lengths, "{arguments:?}");
        is_read_alike(&folder, &["replay", "report", "graph", "dump"], "limits");
        let replay = ours(&folder, &["replay", "-d", "o", "-f", "none"]);
        let text = String::from_utf8_lossy(&replay.stdout).into_owned();
        // Texts are read by a call that the sandbox forbids.
        let is_read = text.contains("length(\"main\")");
        assert_eq!(is_read, arguments.len() == 1, "{arguments:?}: {text}");
        assert_eq!(text.contains("length(\"descriptors\")"), arguments[0] != "0", "{text}");
    }
}

/// Threads that have no ring are reported, and so are calls that are too deep; the program does what it does without us.
#[test]
fn calls_that_have_no_place_are_told() {
    let folder = Folder::new();
    for way in WAYS {
        let Some(_) = compile(&folder, "ringless.c", way, "program") else { return };
        fs::create_dir_all(folder.path("small")).expect("a folder");
        // One ring of 32 KiB has room there, and the bell.
        let shell = "mount -t tmpfs -o size=60k none small && \
            tracemill record --no-libcall -o o -b 4K --ring-dir small ./program; echo $?; tracemill dump -d o";
        let Some(output) = with_mounts(&folder, shell) else { return };
        let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(text.starts_with("6012\n0\n"), "{way}: {text}{said}");
        assert_eq!(text.matches("[entry] leaf(").count(), 2, "{way}: {text}");
        assert!(said.contains("o: 4 threads were not recorded, with 6010 calls: they have no ring"), "{way}: {said}");
        // Of what is asked for: calls that the user leaves out are not missing.
        for (options, is_told, count) in [
            ("--max-stack 5", true, 4),
            ("--max-stack 5 -F .", true, 4),
            ("--max-stack 5 -D 2000", true, 4),
            ("--max-stack 5 -D 2000 -F .", true, 4),
            ("-D 5", false, 4),
            ("--max-stack 5 -D 5 -F main", false, 4),
            ("--max-stack 1 -N deep", false, 0),
            ("--max-stack 1 -F main -N deep", false, 0),
            ("--max-stack 5 -t 30s", false, 0),
        ] {
            let run = folder.run(&format!("record --no-libcall -o o {options} ./program 7")).ends(0, &[]);
            let told = run.stderr.contains("o: calls deeper than 5 were left out");
            assert_eq!((&*run.stdout, told), ("7\n", is_told), "{way} {options}: {}", run.stderr);
            // Of a recording without any call the reason is reported.
            let is_empty = run.stderr.starts_with("o: nothing was recorded: no call matches the options");
            assert!(is_told || run.stderr.is_empty() || is_empty, "{way} {options}: {}", run.stderr);
            assert_eq!(is_empty, options.contains("-t 30s"), "{way} {options}: {}", run.stderr);
            assert_eq!(entries(&folder, "deep"), count, "{way} {options}");
        }
        let run = folder.run("record --no-libcall -o o --max-stack 8 ./program 7").ends(0, &[]);
        assert_eq!((run.stderr, entries(&folder, "deep")), (String::new(), 7), "{way}");
    }
}

/// A thread that has no ring may have a child that gets one.
#[test]
fn children_of_threads_without_a_ring_are_recorded() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "ringless.c", "-pg", "program") else { return };
    fs::create_dir_all(folder.path("small")).expect("a folder");
    for way in ["0", "1"] {
        // Beside the file one ring of 36 KiB has room there, and the bell.
        let shell = format!(
            "mount -t tmpfs -o size=120k none small && head -c 60k /dev/zero >small/file && \
             tracemill record --no-libcall -o o -b 4K --ring-dir small ./program {way} small/file; echo $?; tracemill dump -d o"
        );
        let Some(output) = with_mounts(&folder, &shell) else { return };
        let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(text.starts_with("0\n"), "{way}: {text}{said}");
        assert_eq!(text.matches("[entry] leaf(").count(), 1 + 3, "{way}: {text}{said}");
        assert_eq!(said, "o: 1 threads were not recorded, with 1 calls: they have no ring\n", "{way}");
    }
}

/// Every program that the recorded one becomes or starts is recorded, regardless of the environment it is given, and
/// sees that environment.
#[test]
fn programs_with_environments_of_their_own_are_recorded() {
    let folder = Folder::new();
    for way in WAYS {
        let Some(program) = compile(&folder, "becomes.c", &format!("{way} -O1"), "program") else { return };
        let run = |mut command: Command| {
            command.current_dir(folder.path("")).env("LD_PRELOAD", "libdl.so.2").output().expect("it runs")
        };
        let plain = run(Command::new(&program));
        let text = String::from_utf8_lossy(&plain.stdout).into_owned();
        assert_eq!(text.matches(" yes libm.so.6\n").count(), 14, "{plain:?}");
        assert_eq!(text.matches("\nunsetenv 14 yes libdl.so.2:libm.so.6\n").count(), 1, "{plain:?}");
        for more in [&[][..], &["-b", "4K", "-F", "."]] {
            let mut record = command();
            record.args(["record", "-o", "o"]).args(more).arg("./program");
            let traced = run(record);
            assert_eq!(String::from_utf8_lossy(&traced.stderr), "", "{way}");
            assert_eq!(String::from_utf8_lossy(&traced.stdout), String::from_utf8_lossy(&plain.stdout), "{way}");
            // Each but the first program calls once, and so does one that became none; the one with a timer at each signal.
            assert_eq!(
                (entries(&folder, "leaf") - entries(&folder, "tick"), entries(&folder, "main")),
                (15 + 1, 15 + 1),
                "{way}"
            );
            assert!(entries(&folder, "tick") >= 20, "{way}");
            is_read_alike(&folder, &["replay", "graph", "dump"], way);
        }
    }
}

/// A process that goes on after the end of the recording starts programs as without it: the library is not there any more.
#[test]
fn programs_that_start_after_the_recording_are_left_alone() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "becomes.c", "-pg -O1", "program") else { return };
    assert!(Command::new("mkfifo").arg(folder.path("go")).status().expect("it runs").success());
    let shell = "(unset TRACEMILL_CALLS LD_PRELOAD; read line <go; /bin/true 2>said; mv said done) \
        >/dev/null 2>&1 </dev/null &";
    let mut recorder = command();
    recorder.current_dir(folder.path("")).args(["record", "-o", "o", "./program", "0", shell]);
    let mut recorder = recorder.stderr(std::process::Stdio::piped()).spawn().expect("it runs");
    // It waits for the shell, and says so, until it is interrupted.
    let mut said = String::new();
    let mut stderr = BufReader::new(recorder.stderr.take().expect("a pipe"));
    stderr.read_line(&mut said).expect("it says something");
    assert!(said.contains("o: the program has ended, 1 process goes on that it started: "), "{said}");
    let interrupt = Command::new("kill").args(["-INT", &recorder.id().to_string()]).status();
    assert!(interrupt.expect("it runs").success());
    assert_eq!(recorder.wait().expect("it ends").code(), Some(0));
    assert!(!folder.path("o/.ring").exists());
    fs::write(folder.path("go"), "on\n").expect("somebody reads it");
    wait_for("the end", || folder.path("done").exists());
    assert_eq!(fs::read_to_string(folder.path("done")).expect("it is there"), "");
}

/// Programs that rustc has tell their calls, with threads and a panic that is caught.
#[test]
fn programs_in_rust_tell_their_calls() {
    let folder = Folder::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/calls.rs");
    let mut rustc = Command::new("rustc");
    rustc.args(["+nightly", "-Zinstrument-mcount", "-Copt-level=1", "-o"]).arg(folder.path("program")).arg(source);
    let compiled = rustc.output();
    if !compiled.is_ok_and(|output| output.status.success()) {
        eprintln!("left out: there is no rustc that can instrument programs");
        return;
    }
    let plain = Command::new(folder.path("program")).current_dir(folder.path("")).output().expect("it runs");
    for more in [&[][..], &["-b", "4K"], &["-e"]] {
        let traced = ours(&folder, &[&["record", "-o", "o"], more, &["./program"]].concat());
        assert_eq!(String::from_utf8_lossy(&traced.stderr), "", "{more:?}");
        assert_eq!((traced.status.code(), &traced.stdout), (plain.status.code(), &plain.stdout), "{more:?}");
        let dump = ours(&folder, &["dump", "-d", "o"]);
        let text = String::from_utf8_lossy(&dump.stdout).into_owned();
        let calls = |name: &str| text.lines().filter(|line| line.contains("[entry]") && line.contains(name)).count();
        assert_eq!([calls(" calls::part("), calls(" calls::leaf(")], [5 + 3, 10 + 1 + 3], "{more:?}");
        for name in ["replay", "report", "graph", "dump"].into_iter().filter(|_| is_there("uftrace")) {
            // uftrace does not know the names of today's Rust.
            let arguments = [name, "--demangle=no", "-d", "o"];
            let theirs =
                Command::new("uftrace").args(arguments).current_dir(folder.path("")).output().expect("it runs");
            let read = ours(&folder, &arguments);
            assert_eq!((theirs.stderr, read.stderr), (Vec::new(), Vec::new()), "{name} {more:?}");
            assert!(theirs.stdout == read.stdout && read.stdout.len() > 1000, "{name} {more:?}");
        }
    }
}

#[test]
fn addresses_may_be_the_same_in_each_run() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "counter.c", "-pg -fPIE -pie", "program") else { return };
    let addresses = || {
        ours(&folder, &["record", "-o", "o", "--no-randomize-addr", "./program", "counter", "1"]);
        fs::remove_file(folder.path("counter")).expect("the program ran");
        let dump = ours(&folder, &["dump", "-d", "o"]);
        let text = String::from_utf8_lossy(&dump.stdout).into_owned();
        text.split("main(").nth(1).and_then(|rest| rest.split(')').next()).expect("a call").to_string()
    };
    assert_eq!(addresses(), addresses());
}

#[test]
fn symbols_may_come_from_another_folder() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "counter.c", "-pg", "program") else { return };
    folder.run("record -o first ./program counter 3").ends(0, &[]);
    let text = fs::read_to_string(folder.path("first/program.sym")).expect("symbols");
    fs::create_dir(folder.path("symbols")).expect("a folder");
    folder.file("symbols/program.sym", text.replace(" leaf", " renamed"));
    folder.run("record -o o --with-syms symbols ./program other 3").ends(0, &[]);
    assert_eq!(entries(&folder, "renamed"), 3);
}

#[test]
fn the_process_id_may_be_kept() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "counter.c", "-pg", "program") else { return };
    let mut recorder = command();
    recorder.current_dir(folder.path("")).args(["record", "--keep-pid", "-o", "o", "./program", "counter", "1000"]);
    let mut recorder = recorder.spawn().expect("it runs");
    assert_eq!(recorder.wait().expect("it ends").code(), Some(0));
    wait_for("the end of the recording", || folder.path("o/info").is_file() && !folder.path("o/.ring").exists());
    assert!(folder.path(&format!("o/{}.dat", recorder.id())).is_file());
    assert_eq!(entries(&folder, "leaf"), 1000);
    is_read_alike(&folder, &["replay", "report"], "the same process id");
}

#[test]
fn the_commands_of_the_page_work() {
    let folder = Folder::new();
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/record.md")).expect("the page");
    let (_, rest) = page.split_once("```c\n").expect("a program");
    let (program, rest) = rest.split_once("```\n").expect("its end");
    let (section, _) = rest.split_once("\n`record` writes").expect("the commands end");
    folder.file("app.c", program);
    if !is_there("gcc") {
        return;
    }
    let ours = Path::new(env!("CARGO_BIN_EXE_tracemill")).parent().expect("a folder");
    let path = format!("{}:{}", ours.display(), std::env::var("PATH").unwrap_or_default());
    let commands: Vec<_> = section.lines().filter_map(|line| line.strip_prefix("    ")).collect();
    assert_eq!(commands.len(), 4, "{commands:?}");
    for line in commands {
        let mut shell = Command::new("sh");
        let output =
            shell.args(["-c", line]).env("PATH", &path).current_dir(folder.path("")).output().expect("it runs");
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(!line.contains("report") || text.contains(" 100  step"), "{text}");
    }
    assert!(fs::read_to_string(folder.path("calls.svg")).expect("a flame graph").contains("step"));
}

/// `--to` converts what was recorded, and leaves nothing else; an unknown format is refused before the program runs.
#[test]
fn a_recording_becomes_another_format() {
    let folder = Folder::new();
    let Some(program) = compile(&folder, "values.c", "-pg", "program") else { return };
    let program = program.to_str().expect("a plain name");
    let unknown = ours(&folder, &["record", "--to", "ctf3", "-o", "out", program]);
    assert_eq!(unknown.status.code(), Some(125));
    assert_eq!(String::from_utf8_lossy(&unknown.stdout), "");
    let plain = ours(&folder, &["record", "-o", "o", program]);
    let output = ours(&folder, &["record", "--to", "folded", "-o", "out", program]);
    assert_eq!(output.status.code(), plain.status.code(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stdout, plain.stdout);
    let folded = fs::read_to_string(folder.path("out")).expect("the output");
    let names = |text: &str| -> std::collections::BTreeSet<String> {
        // The process has another number each time.
        let calls = |line: &str| Some(line.rsplit_once(' ')?.0.split_once(';')?.1.to_string());
        text.lines().filter_map(calls).collect()
    };
    let converted = ours(&folder, &["convert", "--to", "folded", "-o", "again", "o"]);
    assert!(converted.status.success(), "{}", String::from_utf8_lossy(&converted.stderr));
    let again = fs::read_to_string(folder.path("again")).expect("the output");
    assert!(folded.contains("main"), "{folded}");
    // A call that took no time of its own has no line, so of two runs the innermost calls may differ.
    let (first, second) = (names(&folded), names(&again));
    for path in first.symmetric_difference(&second) {
        let calls =
            |names: &std::collections::BTreeSet<String>| names.iter().any(|name| name.starts_with(&format!("{path};")));
        assert!(!calls(&first) && !calls(&second), "{path} calls others, and is in one of them only");
    }
    assert!(first.intersection(&second).count() > 10, "{folded}");
    let hidden = fs::read_dir(folder.path("")).expect("a folder").flatten().map(|entry| entry.file_name());
    let hidden: Vec<_> = hidden.filter(|name| name.to_string_lossy().starts_with('.')).collect();
    assert_eq!(hidden, Vec::<std::ffi::OsString>::new());
    let second = ours(&folder, &["record", "--to", "folded", "-o", "out", program]);
    assert_eq!(second.status.code(), Some(125));
}
