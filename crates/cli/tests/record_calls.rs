//! `tracemill record` of function calls: programs run as without it, and uftrace and we read the folder alike.
//!
//! Programs are compiled by gcc and g++. Without those, or without uftrace, what needs them is left out, and said so.

mod util;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use util::{Folder, command};

/// The ways in which programs tell their calls.
const WAYS: [&str; 3] = ["-pg", "-pg -mfentry", "-finstrument-functions"];

fn is_there(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !is_there {
        eprintln!("left out: {program} is not installed");
    }
    is_there
}

/// Compiles a program; `None` when there is no compiler for it.
fn compile(folder: &Folder, source: &str, flags: &str, name: &str) -> Option<PathBuf> {
    let compiler = if source.ends_with(".cc") { "g++" } else { "gcc" };
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) || !is_there(compiler) {
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let mut compile = Command::new(compiler);
    compile.args(flags.split_whitespace()).arg("-o").arg(folder.path(name)).arg(source).args(["-lpthread", "-ldl"]);
    let output = compile.output().expect("the compiler runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(folder.path(name))
}

/// Runs the program of ours in a folder.
fn ours(folder: &Folder, arguments: &[&str]) -> Output {
    command().current_dir(folder.path("")).args(arguments).output().expect("it runs")
}

/// What both print about the folder `o` is equal, and uftrace warns of nothing.
fn is_read_alike(folder: &Folder, commands: &[&str], what: &str) {
    if !is_there("uftrace") {
        return;
    }
    for name in commands {
        let theirs =
            Command::new("uftrace").args([name, "-d", "o"]).current_dir(folder.path("")).output().expect("it runs");
        assert_eq!(String::from_utf8_lossy(&theirs.stderr), "", "{what}: uftrace {name}");
        let ours = ours(folder, &[name, "-d", "o"]);
        assert_eq!(String::from_utf8_lossy(&ours.stderr), "", "{what}: {name}");
        assert!(ours.stdout == theirs.stdout, "{what}: {name} differs");
        assert!(theirs.stdout.len() > 50, "{what}: {name}");
    }
}

/// The number of records of `dump` that are entries of this function.
fn entries(folder: &Folder, function: &str) -> usize {
    let output = ours(folder, &["dump", "-d", "o"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter(|line| line.contains("[entry]") && line.contains(&format!(" {function}("))).count()
}

/// The number of entries in a folder.
fn calls(folder: &Folder, data: &str) -> usize {
    let output = ours(folder, &["dump", "-d", data]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).matches("[entry]").count()
}

/// The number of entries that uftrace records of the program.
fn calls_of_uftrace(folder: &Folder) -> usize {
    let mut theirs = Command::new("uftrace");
    theirs.args(["record", "--no-libcall", "--no-event", "-d", "u", "./program"]);
    theirs.current_dir(folder.path("")).output().expect("it runs");
    calls(folder, "u")
}

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
                assert_eq!(String::from_utf8_lossy(&traced.stderr), "", "{what}");
                assert_eq!(String::from_utf8_lossy(&traced.stdout), String::from_utf8_lossy(&plain.stdout), "{what}");
                assert_eq!(traced.status.code(), plain.status.code(), "{what}");
                is_read_alike(&folder, commands, &what);
                assert!(entries(&folder, "main") >= 1, "{what}");
                // How often threads are interrupted is not the same each time, and uftrace loses calls by `longjmp`.
                if has_uftrace && matches!(source, "exceptions.cc" | "processes.c") {
                    assert_eq!(calls(&folder, "o"), calls_of_uftrace(&folder), "{what}");
                }
            }
        }
    }
    assert!(folder.path("o.old/info").is_file(), "a folder of the same name is kept");
    let left: Vec<_> = fs::read_dir(folder.path("o")).expect("the folder").flatten().map(|e| e.file_name()).collect();
    assert!(!left.iter().any(|name| name == ".ring" || name == "libtracemill_calls.so"), "{left:?}");
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
    // Nobody takes anything, and the program ends all the same: 6 MB are in its rings by then.
    wait_for("the end", || counted(&folder) == 200_000);
    signal("-CONT");
    assert_eq!(recorder.wait().expect("it ends").code(), Some(0));
    assert_eq!(entries(&folder, "leaf"), 200_000);
    is_read_alike(&folder, &["replay", "graph"], "grown");
}

#[test]
fn a_killed_recorder_leaves_what_is_needed_for_values() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "counter.c", "-pg -g", "program") else { return };
    for option in [&["-A", "leaf@arg1/p"][..], &["-a", "--srcline"]] {
        let _ = fs::remove_file(folder.path("counter"));
        let mut recorder = command();
        recorder.current_dir(folder.path("")).args(["record", "-o", "o"]).args(option);
        let mut recorder = recorder.args(["./program", "counter", "60000"]).spawn().expect("it runs");
        wait_for("a call", || counted(&folder) > 100);
        recorder.kill().expect("it can be killed");
        recorder.wait().expect("it is over");
        wait_for("the end", || counted(&folder) == 60_000);
        wait_for("recovery", || ours(&folder, &["record", "--recover", "o"]).status.success());
        is_read_alike(&folder, &["replay", "report", "graph", "dump"], option[0]);
        let replay = ours(&folder, &["replay", "-d", "o", "-f", "none"]);
        assert!(String::from_utf8_lossy(&replay.stdout).contains("leaf(0x7"), "{option:?}");
        assert!(!folder.path("o/.recording").exists());
    }
}

/// A command of the shell where file systems can be mounted that nobody else sees; `tracemill` is this program there. `None`,
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
    for (more, threads) in [(&[][..], 50), (&["-b", "4K", "--when-full", "lose", "-A", "leaf@arg1"], 50)] {
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
}

/// The counter that the program keeps.
fn counted(folder: &Folder) -> u64 {
    let bytes = fs::read(folder.path("counter")).unwrap_or_default();
    bytes.first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    // Ten minutes: a machine may be slow.
    for _ in 0..120_000 {
        if is_there() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{what} did not happen");
}

#[test]
fn calls_survive_a_kill_of_the_program() {
    let rounds = if std::env::var_os("TRACEMILL_LONG").is_some() { 100 } else { 4 };
    for round in 0..rounds {
        let folder = Folder::new();
        let Some(_) = compile(&folder, "counter.c", WAYS[round % 3], "program") else { return };
        fs::write(folder.path("kill"), "#!/bin/sh\n").expect("a file");
        let mut recorder = command();
        recorder.current_dir(folder.path("")).args(["record", "-o", "o", "./program", "counter"]);
        let mut recorder = recorder.spawn().expect("it runs");
        wait_for("a call", || counted(&folder) > 100);
        std::thread::sleep(Duration::from_micros(500 + 700 * round as u64));
        let tasks = fs::read_to_string(folder.path("o/task.txt")).expect("tasks");
        let pid = tasks.split("pid=").nth(1).and_then(|rest| rest.split(' ').next()).expect("a process").to_string();
        assert!(Command::new("kill").args(["-9", &pid]).status().expect("it runs").success());
        assert_eq!(recorder.wait().expect("it ends").code(), Some(137));
        let (kept, counted) = (entries(&folder, "leaf") as u64, counted(&folder));
        assert!(kept == counted || kept == counted + 1, "round {round}: {kept} calls, {counted} counted");
    }
}

#[test]
fn a_recorder_that_is_killed_leaves_what_can_be_recovered() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "counter.c", "-pg", "program") else { return };
    let mut recorder = command();
    recorder.current_dir(folder.path("")).args(["record", "-o", "o", "./program", "counter", "400000"]);
    let mut recorder = recorder.spawn().expect("it runs");
    wait_for("a call", || counted(&folder) > 20_000);
    recorder.kill().expect("it can be killed");
    recorder.wait().expect("it is over");
    // The program goes on without it, to its end.
    wait_for("the end", || counted(&folder) == 400_000);
    wait_for("recovery", || ours(&folder, &["record", "--recover", "o"]).status.success());
    // What was in the rings is there: all up to some call, and none twice.
    let kept = entries(&folder, "leaf");
    assert!((20_000..=400_000).contains(&kept), "{kept}");
    is_read_alike(&folder, &["replay", "report", "graph", "dump"], "recovered");
    assert!(!folder.path("o/.ring").exists());
}

#[test]
fn what_cannot_be_recorded_is_refused() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "counter.c", "-fpatchable-function-entry=5", "program") else { return };
    folder.run("record ./program x 1").ends(125, &["-P says which of its functions are recorded"]);
    folder.run("record --force -o t ./program x 1").ends(0, &[]);
    folder.file("mine/file", "");
    compile(&folder, "counter.c", "-pg", "program");
    folder.run("record -o mine ./program x 1").ends(125, &["it exists and is no recording of calls"]);
    assert!(folder.path("mine/file").is_file());
}

#[test]
fn options_of_uftrace_are_known() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "values.c", "-pg", "program") else { return };
    let letters = ["-k", "-K 1", "-S x", "-W cpu", "-g", "-l"];
    let names = ["--host x", "--port 1", "--signal x", "--rt-prio 1", "--no-pltbind", "--list-event"];
    for option in letters.into_iter().chain(names) {
        folder.run(&format!("record -o r {option} ./program")).ends(125, &["cannot be had: "]);
        assert!(!folder.path("r").exists(), "{option}");
    }
    for option in ["--no-libcall", "--no-event", "--no-sched", "--num-thread 2", "--libmcount-single", "--color no"] {
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

/// The calls of a folder, by name and nesting, as uftrace replays them.
fn nesting(folder: &Folder, data: &str) -> String {
    let mut replay = Command::new("uftrace");
    let output =
        replay.args(["replay", "-f", "none", "-d", data]).current_dir(folder.path("")).output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{data}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter(|line| !line.starts_with("task:")).flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn calls_are_selected_as_uftrace_does() {
    let folder = Folder::new();
    // The number of calls of `leaf` that are left.
    let cases = [
        ("-F busy", 30, true),
        ("-N busy", 15, true),
        ("-F busy -N both", 24, true),
        ("-C leaf", 45, true),
        ("-C both", 0, true),
        ("-D 2", 0, true),
        ("-F busy -D 2", 0, true),
        ("-T busy@depth=1", 15, true),
        ("-T both@depth=1", 37, true),
        ("--match glob -N b*", 13, true),
        ("-F ^(all|deep)$", 42, true),
        ("-F all -T busy@notrace", 8, true),
        ("-F deep -D 2", 30, true),
        ("-F all@depth=2", 2, true),
        ("-T off@trace_off -T on@trace_on", 41, true),
        ("--disable -T on@trace_on", 33, true),
        ("-T on@finish", 12, true),
        ("-t 5ms -T deep@trace", 0, true),
        ("-t 5ms", 0, true),
        ("-e", 45, true),
        // Sizes are the compiler's matter.
        ("-Z 30", 45, false),
        ("-T busy@size=30", 45, false),
    ];
    let has_uftrace = is_there("uftrace");
    for way in WAYS {
        let flags = format!("-O1 -fno-inline -fno-optimize-sibling-calls {way}");
        let Some(_) = compile(&folder, "selected.c", &flags, "program") else { return };
        for (options, leaves, is_known) in cases {
            let what = format!("{way}: {options}");
            // A machine that stops for some ms makes long calls of short ones, though not each time.
            let mut tries = if options.starts_with("-t") { 50 } else { 1 };
            loop {
                let arguments: Vec<_> = ["record", "-o", "o"].into_iter().chain(options.split(' ')).collect();
                let output = ours(&folder, &[&arguments[..], &["./program"]].concat());
                assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{what}");
                let found = if is_known { entries(&folder, "leaf") } else { leaves };
                let nestings = has_uftrace.then(|| {
                    let mut theirs = Command::new("uftrace");
                    theirs.args(["record", "--no-libcall", "--no-event", "-d", "u"]).args(options.split(' '));
                    let output = theirs.arg("./program").current_dir(folder.path("")).output().expect("it runs");
                    assert!(output.status.success(), "{what}");
                    [nesting(&folder, "o"), nesting(&folder, "u")]
                });
                let is_same = found == leaves && nestings.as_ref().is_none_or(|[ours, theirs]| ours == theirs);
                tries -= 1;
                assert!(is_same || tries > 0, "{what}: {found} of {leaves} leaves, {nestings:#?}");
                if is_same {
                    break;
                }
            }
            if !has_uftrace {
                continue;
            }
            // Ends without a beginning are told.
            if !options.starts_with("--disable") {
                is_read_alike(&folder, &["replay", "graph", "dump"], &what);
            }
        }
    }
    folder.run("record -o r -T leaf@read=proc/statm ./program").ends(125, &["no counters are read"]);
    folder.run("record -o r -L main.c ./program").ends(125, &["`replay -L` does"]);
    folder.run("record -o r -H leaf ./program").ends(125, &["`replay -H` hides them"]);
    folder.run("record -o r -N nothing ./program").ends(0, &["`!nothing` matches no function"]);
}

#[test]
fn values_are_those_that_uftrace_records() {
    let folder = Folder::new();
    let lists: [&[&str]; 4] = [
        &[
            "-A",
            "ten@arg1/i32,arg2/i32,arg3/u32,arg7/i32,arg8/x32,arg9/i32,arg10/u32",
            "-A",
            "floats@fparg1/32,fparg2,fparg8",
            "-A",
            "text@arg1/s,arg2/c;half@fparg1/32;address@arg1/p;narrow@arg1/i16,arg2/u8",
            "-A",
            "mixed@arg1/i32,fparg1,arg2/s,fparg2/64,arg3",
            "-A",
            "length@arg1/S;Thing::get@arg2/i32;again@arg1%rdi",
            "-R",
            "text@retval/s;ten@retval/i32;half@retval/f32;address@retval/x",
            "-R",
            "narrow@retval/i16;Thing::get@retval/i32",
        ],
        &["-A", "te@arg1/s", "-A", "^ten@arg2/i32", "-R", "ai@retval/i32", "-t", "1ns"],
        &["--match", "glob", "-A", "*t*@arg1/x8", "-F", "te*", "-b", "4K"],
        &["-A", "wide@fparg1/80%stack+1", "-R", "wide@retval/f80"],
    ];
    for way in ["-pg -O0", "-pg -mfentry -O1 -fno-inline -fno-ipa-cp -fno-ipa-sra"] {
        let Some(_) = compile(&folder, "arguments.cc", way, "program") else { return };
        for (at, list) in lists.iter().enumerate() {
            let traced = ours(&folder, &[&["record", "-o", "o"], *list, &["./program"]].concat());
            assert_eq!(String::from_utf8_lossy(&traced.stderr), "", "{way}: {list:?}");
            let replay = ours(&folder, &["replay", "-d", "o", "-f", "none"]);
            let text = String::from_utf8_lossy(&replay.stdout).into_owned();
            if at == 0 && way.ends_with("-O0") {
                for call in [
                    "ten(1, -2, 3, 7, 0x8, -9, 10) = -19;",
                    "floats(1.500000, 2.250000, 8.500000);",
                    "text(\"hello\", 'c') = \"ello\";",
                    "text(\"<0x10>\", 'c') = \"NULL\";",
                    "narrow(-3, 200) = -203;",
                    "mixed(1, 2.500000, \"abc\", 3.500000, 0x10000000000);",
                    "length(\"short\"s);",
                ] {
                    assert!(text.contains(call), "{call}: {text}");
                }
            }
            // Floats of 80 bits end uftrace's `dump`.
            is_read_alike(&folder, if at == 3 { &["replay"] } else { &["replay", "report", "graph", "dump"] }, way);
            if !is_there("uftrace") {
                continue;
            }
            let mut theirs = Command::new("uftrace");
            theirs.args(["record", "--no-libcall", "--no-event", "-d", "u"]).args(*list).arg("./program");
            assert!(theirs.current_dir(folder.path("")).output().expect("it runs").status.success(), "{list:?}");
            assert_eq!(nesting(&folder, "o"), nesting(&folder, "u"), "{way}: {list:?}");
        }
    }
    for wrong in
        ["text", "text@", "text@arg1/q", "text@arg1/o", "text@arg0", "text@arg1/t8", "text@arg1%rax", "text@retval"]
    {
        let output = ours(&folder, &["record", "-o", "r", "-A", wrong, "./program"]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(125) && message.contains("names no value"), "{wrong}: {message}");
    }
}

#[test]
fn types_come_from_debugging_information() {
    let folder = Folder::new();
    for way in ["-pg", "-pg -mfentry"] {
        let flags = format!("{way} -g -O0");
        let Some(_) = compile(&folder, "types.cc", &flags, "program") else { return };
        let traced = ours(&folder, &["record", "-o", "o", "-a", "--srcline", "./program"]);
        assert_eq!((traced.status.code(), &*String::from_utf8_lossy(&traced.stderr)), (Some(0), ""), "{way}");
        is_read_alike(&folder, &["replay", "report", "graph"], way);
        let replay = ours(&folder, &["replay", "-d", "o", "-f", "none", "--no-comment"]);
        let text = String::from_utf8_lossy(&replay.stdout).into_owned();
        let known = [
            "many(-1, -2, 200, 1, -5, 6, 7, -8) = 198;",
            "floats(1.500000, 2.000000, 3.000000, 4.000000, 5.000000, 6.000000, 7.000000, 8.000000, 9.500000) = 46.000000;",
            "wide(1, 2.500000, 3.500000, 4.500000, \"e\") = 112.500000;",
            "next(RED, 1) = GREEN;",
            "next(BLUE, 0) = BLUE;",
            "text(\"name\", 'y') = \"name\";",
            "text(\"name\", 'x') = \"NULL\";",
            "is_even(4) = 1;",
            "narrow(-7) = -8;",
            "nothing();",
            "by_value(1) = 10;",
            "large(7);",
            "in_memory() = 7;",
            ") = 11;",
            "size(\"text\"s, 1) = 5;",
            "call(&twice, 21) {",
            "twice(21) = 42;",
            "half(3.000000) = 1.500000;",
        ];
        for call in known {
            assert!(text.contains(call), "{call}: {text}");
        }
        let lines = ours(&folder, &["replay", "-d", "o", "-f", "none", "--srcline", "-F", "nothing"]);
        let lines = String::from_utf8_lossy(&lines.stdout).into_owned();
        assert!(lines.contains("types.cc:23"), "{lines}");
        // What is named wins, and the rest is as before.
        ours(&folder, &["record", "-o", "o", "--auto-args", "-A", "twice@arg1/x", "./program"]);
        is_read_alike(&folder, &["replay", "report"], way);
        let replay = ours(&folder, &["replay", "-d", "o", "-f", "none"]);
        let text = String::from_utf8_lossy(&replay.stdout).into_owned();
        assert!(text.contains("twice(0x15)") && text.contains("half(3.000000)"), "{text}");
    }
    // Without debugging information nothing is known.
    compile(&folder, "types.cc", "-pg", "program");
    folder.run("record -o o -a ./program").ends(0, &[]);
    is_read_alike(&folder, &["replay", "report", "graph", "dump"], "without types");
}

#[test]
fn entries_are_patched() {
    let folder = Folder::new();
    let levels = "-O1 -fno-inline -fno-optimize-sibling-calls";
    let ways = ["=5", "=5 -fcf-protection -no-pie", "=9", "=5 -fcf-protection -fPIE -pie"];
    for way in ways {
        let flags = format!("{levels} -fpatchable-function-entry{way}");
        let Some(_) = compile(&folder, "selected.c", &flags, "program") else { return };
        let cases =
            [("-P .", 45), ("-P ^.*[fn]$ -U on", 45), ("-P . -U leaf", 0), ("-P . -N busy", 15), ("-P . -e", 45)];
        for (options, leaves) in cases {
            let arguments: Vec<_> = ["record", "-o", "o"].into_iter().chain(options.split(' ')).collect();
            let output = ours(&folder, &[&arguments[..], &["./program"]].concat());
            assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{way}: {options}");
            assert_eq!(entries(&folder, "leaf"), leaves, "{way}: {options}");
            assert_eq!(entries(&folder, "on"), if options.contains("-U on") { 0 } else { 3 }, "{way}: {options}");
            is_read_alike(&folder, &["replay", "report", "graph", "dump"], options);
        }
    }
    // With too little room, or none, nothing is patched, and the program runs.
    compile(&folder, "selected.c", &format!("{levels} -fpatchable-function-entry=4"), "program");
    folder.run("record -o small -P . ./program").ends(0, &[]);
    if is_there("clang") {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/selected.c");
        for room in [5, 6, 7, 8, 9, 11, 16] {
            let mut clang = Command::new("clang");
            clang.args(["-O1", "-fno-inline", "-o"]).arg(folder.path("program")).arg(&source);
            clang.arg(format!("-fpatchable-function-entry={room}"));
            assert!(clang.output().expect("it runs").status.success());
            folder.run("record -o o -P . ./program").ends(0, &[]);
            assert_eq!((entries(&folder, "leaf"), entries(&folder, "on")), (45, 3), "{room}");
        }
    }
}

#[test]
fn selection_works_where_rings_are_small_and_threads_many() {
    let folder = Folder::new();
    for way in WAYS {
        let Some(program) = compile(&folder, "threads.c", way, "program") else { return };
        let plain = Command::new(&program).current_dir(folder.path("")).output().expect("it runs");
        for options in ["-b 4K -t 1ns", "-b 4K -N main@depth=9", "-e -b 4K", "-C . -b 4K"] {
            let arguments: Vec<_> = ["record", "-o", "o"].into_iter().chain(options.split(' ')).collect();
            let traced = ours(&folder, &[&arguments[..], &["./program"]].concat());
            let what = format!("{way}: {options}");
            assert_eq!(String::from_utf8_lossy(&traced.stdout), String::from_utf8_lossy(&plain.stdout), "{what}");
            assert_eq!(traced.status.code(), plain.status.code(), "{what}");
        }
        let Some(program) = compile(&folder, "exceptions.cc", way, "program") else { return };
        let plain = Command::new(&program).current_dir(folder.path("")).output().expect("it runs");
        for options in ["-t 1us", "-F main", "-N nothing", "-e"] {
            let arguments: Vec<_> = ["record", "-o", "o"].into_iter().chain(options.split(' ')).collect();
            let traced = ours(&folder, &[&arguments[..], &["./program"]].concat());
            assert_eq!(traced.stdout, plain.stdout, "{way}: {options}");
            is_read_alike(&folder, &["replay", "graph", "dump"], options);
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

/// `--to` converts what was recorded, and leaves nothing else; a format that nobody knows is said before the program runs.
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
    assert_eq!(names(&folded), names(&again));
    let hidden = fs::read_dir(folder.path("")).expect("a folder").flatten().map(|entry| entry.file_name());
    let hidden: Vec<_> = hidden.filter(|name| name.to_string_lossy().starts_with('.')).collect();
    assert_eq!(hidden, Vec::<std::ffi::OsString>::new());
    let second = ours(&folder, &["record", "--to", "folded", "-o", "out", program]);
    assert_eq!(second.status.code(), Some(125));
}
