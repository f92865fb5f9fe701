//! Programs in C and C++ that record, compiled here with each compiler that is installed and linked both ways; their traces
//! are read back, and beside those of a program in Rust.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use record::{Format, Recorder, event};

use self::util::{Folder, WARNINGS, build, built, by_babeltrace, discarded, events, has, libraries, root, run};

mod util;

/// The folder of the libraries for aarch64, built first, where that can be.
fn libraries_for_aarch64() -> Option<PathBuf> {
    const TARGET: &str = "aarch64-unknown-linux-gnu";
    let folder = Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]).output();
    let folder = folder.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string()).unwrap_or_default();
    if !Path::new(&folder).is_dir() {
        eprintln!("!!! SKIPPED: Rust's target {TARGET} is not installed");
        return None;
    }
    has("aarch64-linux-gnu-gcc").then(|| {
        build(&["--target", TARGET]);
        built("aarch64-unknown-linux-gnu/debug")
    })
}

/// A compiler, its dialect, and how much it optimizes.
#[derive(Clone, Copy, Debug)]
struct Compiler(&'static str, &'static [&'static str], &'static str);

const C: &[&str] = &["-x", "c", "-std=c11"];
const CPP: &[&str] = &["-x", "c++", "-std=c++17"];

impl Compiler {
    fn command(self, source: &str) -> Command {
        let mut command = Command::new(self.0);
        command.args(self.1).args(WARNINGS).args([self.2, "-g", "-I"]).arg(root().join("crates/recorder/c/include"));
        command.arg(root().join("crates/recorder/c/tests/programs").join(source)).args(["-x", "none"]);
        command
    }

    /// Compiles and links a program.
    fn program(self, source: &str, is_static: bool, to: &Path) {
        self.program_with(source, libraries(), is_static, to);
    }

    /// Compiles and links a program with the libraries of this folder.
    fn program_with(self, source: &str, libraries: &Path, is_static: bool, to: &Path) {
        let mut command = self.command(source);
        command.arg("-o").arg(to);
        match is_static {
            true => command.arg(libraries.join("libtracemill_record.a")).arg("-pthread"),
            false => {
                let path = format!("-Wl,-rpath,{}", libraries.display());
                command.args(["-ltracemill_record", "-pthread", &path]).arg("-L").arg(libraries)
            }
        };
        run(&mut command);
    }
}

/// Links a static program. The linker warns of functions of the system that Rust's standard library has, and that the recorder
/// never calls.
fn link_static(command: &mut Command) {
    let output = command.arg("-static").output().expect("the compiler runs");
    let said = String::from_utf8_lossy(&output.stderr);
    let are_known =
        said.lines().all(|line| line.contains("libtracemill_record.a(std-") || line.contains("/library/std/"));
    assert!(output.status.success() && are_known, "{command:?}: {said}");
}

/// The numbers `i` of the events of a name, in their order.
fn numbers(path: &Path, name: &str) -> Vec<u64> {
    let events = events(path);
    let of = events.iter().filter_map(|line| line.strip_prefix(name)?.strip_prefix(" i="));
    of.map(|number| number.parse().expect("a number")).collect()
}

/// The same events as those of `values.c`.
fn record_values(path: &Path, format: Format) {
    let recorder = Recorder::options(path).format(format).flight(1 << 20).start().expect("it starts");
    let text = "ü".repeat(2500);
    event!(target: "t", "small", a = 1_u8, b = -2_i8, c = 3_u16, d = -4_i16, e = 5_u32, f = -6_i32);
    event!(target: "t", "large", a = u64::MAX, b = i64::MIN, c = 1.5_f32, d = -2.25_f64, e = true, f = false);
    event!(target: "t", "texts", text = "Mühle", part = "part", empty = "", null = "(null)", none = "", longer = text);
    event!(target: "t", "bytes", three = [1_u8, 2, 3], null = &[0_u8; 0][..]);
    event!(
        target: "t", "twelve", a = 1_u8, b = 2_u8, c = 3_u8, d = 4_u8, e = 5_u8, f = 6_u8, g = 7_u8, h = 8_u8, i = 9_u8,
        j = 10_u8, k = 11_u8, l = "twelve"
    );
    event!(target: "t", "bare");
    recorder.finish().expect("it finishes");
}

#[test]
fn values_are_those_of_the_same_program_in_rust() {
    let folder = Folder::new("values");
    let has_babeltrace = has("babeltrace2");
    let mut count = 0;
    for (format, name) in [(Format::Ctf2, "ctf2"), (Format::Ctf18, "ctf1.8")] {
        let rust = folder.join(&format!("rust-{name}"));
        record_values(&rust, format);
        let expected = events(&rust);
        assert_eq!(expected.len(), 6);
        for tool in ["gcc", "clang"].into_iter().filter(|tool| has(tool)) {
            for (at, dialect) in [C, CPP].into_iter().enumerate() {
                for (optimized, is_static) in [("-O0", true), ("-O2", false), ("-O3", true)] {
                    let compiler = Compiler(tool, dialect, optimized);
                    let program = folder.join("values");
                    compiler.program("values.c", is_static, &program);
                    let path = folder.join(&format!("{tool}-{at}-{name}{optimized}"));
                    run(Command::new(&program).arg(&path).arg(name));
                    assert_eq!(events(&path), expected, "{compiler:?}");
                    assert_eq!(discarded(&path), 0);
                    if format == Format::Ctf18 && has_babeltrace {
                        assert_eq!(by_babeltrace(&path), by_babeltrace(&rust), "{compiler:?}");
                    }
                    count += 1;
                }
            }
        }
    }
    assert!(count > 0 || !has("cc"), "a compiler is there, but none that is known");
}

/// On aarch64, where an emulator is installed; otherwise programs are compiled and linked only.
#[test]
fn values_are_the_same_on_aarch64() {
    let Some(libraries) = libraries_for_aarch64() else { return };
    let folder = Folder::new("aarch64");
    record_values(&folder.join("rust"), Format::Ctf2);
    for (optimized, is_static) in [("-O0", true), ("-O2", false), ("-O3", true)] {
        let compiler = Compiler("aarch64-linux-gnu-gcc", C, optimized);
        let program = folder.join("values");
        compiler.program_with("values.c", &libraries, is_static, &program);
        if has("qemu-aarch64") {
            let path = folder.join(&format!("c{optimized}"));
            run(Command::new("qemu-aarch64")
                .args(["-L", "/usr/aarch64-linux-gnu"])
                .arg(&program)
                .arg(&path)
                .arg("ctf2"));
            assert_eq!(events(&path), events(&folder.join("rust")), "{compiler:?}");
        }
    }
}

#[test]
fn nothing_is_left_where_it_is_disabled() {
    if !has("gcc") {
        return;
    }
    let folder = Folder::new("disabled");
    for dialect in [C, CPP] {
        let object = folder.join("values.o");
        run(Compiler("gcc", dialect, "-O2").command("values.c").args(["-DTM_DISABLE", "-c", "-o"]).arg(&object));
        let symbols = if has("nm") { run(Command::new("nm").arg(&object)) } else { String::from("main") };
        assert!(symbols.contains("main") && !symbols.contains("tm_"), "{symbols}");
    }
}

/// Compiles `work.c` into a folder, if there is a compiler. Linked to the shared library, as plugins are.
fn work(folder: &Folder) -> bool {
    let is_there = has("gcc");
    if is_there {
        Compiler("gcc", C, "-O2").program("work.c", false, &folder.join("work"));
    }
    is_there
}

/// Runs a kind of work, and gives what it tried and discarded.
fn tried_and_discarded(folder: &Folder, kind: &str, mode: &str) -> (u64, u64) {
    let _ = std::fs::remove_dir_all(folder.join("t"));
    let output = run(Command::new(folder.join("work")).arg(kind).arg(&folder.0).arg(mode));
    let (tried, discarded) = output.trim().split_once(' ').expect("two numbers");
    (tried.parse().expect("a number"), discarded.parse().expect("a number"))
}

#[test]
fn all_modes_keep_or_count_the_events_of_threads() {
    let folder = Folder::new("threads");
    if !work(&folder) {
        return;
    }
    for mode in ["stream", "block", "flight"] {
        let (tried, lost) = tried_and_discarded(&folder, "threads", mode);
        let path = folder.join("t");
        let mut kept = numbers(&path, "t:tick");
        match mode {
            // Of as many rings as threads ran at a time: one at least.
            "flight" => assert!(kept.len() >= 15 * 250 && lost == 0, "{}, {lost}", kept.len()),
            _ => assert_eq!(kept.len() as u64 + lost, tried, "{mode}"),
        }
        assert_eq!(discarded(&path), lost, "{mode}");
        if mode == "block" {
            kept.sort_unstable();
            assert!(kept == (0..80_000).flat_map(|i| [i; 3]).collect::<Vec<u64>>());
        }
        assert!(!path.join(".ring").exists());
    }
}

#[test]
fn signal_handlers_record_within_an_event() {
    let folder = Folder::new("signals");
    if !work(&folder) {
        return;
    }
    for mode in ["stream", "flight"] {
        let (tried, lost) = tried_and_discarded(&folder, "interrupted", mode);
        let path = folder.join("t");
        // `discarded` finds no damage, and no time that goes back.
        assert_eq!(discarded(&path), lost, "{mode}");
        assert_eq!(events(&path).len() as u64 + lost, tried, "{mode}");
        assert!(tried > 400_003, "{mode}: there were signals");
    }
}

#[test]
fn what_was_written_survives_a_kill() {
    let folder = Folder::new("killed");
    if !work(&folder) {
        return;
    }
    let rounds = if std::env::var_os("TRACEMILL_LONG").is_some() { 50 } else { 4 };
    for mode in ["flight", "block"] {
        for round in 0..rounds {
            let _ = std::fs::remove_dir_all(folder.join("t"));
            std::fs::write(folder.join("counter"), [0; 4096]).expect("a file");
            let counted = || {
                let bytes = std::fs::read(folder.join("counter")).expect("the counter");
                u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"))
            };
            let mut work = Command::new(folder.join("work"));
            let mut child =
                work.arg("killed").arg(&folder.0).arg(mode).stdout(Stdio::null()).spawn().expect("it starts");
            while counted() < 100 {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_micros(1_000 + 1_700 * round));
            child.kill().expect("it can be killed");
            child.wait().expect("it is over");
            let path = folder.join("t");
            record::recover(&path).expect("it is recovered");
            let kept = numbers(&path, "t:tick");
            let last = *kept.last().expect("events") + 1;
            assert!(last == counted() || last == counted() + 1, "{mode} {round}: {last}, {} counted", counted());
            assert!(kept.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{mode} {round}");
            assert!(mode == "flight" || kept[0] == 0, "{mode} {round}");
            assert_eq!(discarded(&path), 0);
        }
    }
}

#[test]
fn children_record_when_they_should() {
    let folder = Folder::new("forked");
    if !work(&folder) {
        return;
    }
    for (mode, traces) in [("follow", 2), ("alone", 1)] {
        tried_and_discarded(&folder, "forked", mode);
        let names = std::fs::read_dir(&folder.0).expect("the folder").map(|entry| entry.expect("an entry").path());
        let mut names: Vec<_> = names.filter(|path| path.is_dir()).collect();
        names.sort();
        let kept: Vec<_> = names.iter().map(|path| numbers(path, "t:tick")).collect();
        assert_eq!(kept, [vec![1, 3, 4], vec![2]][..traces], "{mode}: {names:?}");
        assert!(names.iter().all(|path| !path.join(".ring").exists()));
        names.iter().for_each(|path| std::fs::remove_dir_all(path).expect("it is removed"));
    }
}

#[test]
fn rings_are_given_to_thousands_of_threads() {
    let folder = Folder::new("many");
    if !work(&folder) {
        return;
    }
    let (tried, lost) = tried_and_discarded(&folder, "many", "block");
    let path = folder.join("t");
    assert_eq!((numbers(&path, "t:tick"), lost), ((0..tried).collect::<Vec<_>>(), 0));
    assert!(!numbers(&path, "t:outside").is_empty());
    let streams = std::fs::read_dir(&path).expect("the trace").count() - 1;
    assert!(streams <= 3, "{streams} rings");
}

#[test]
fn libraries_come_and_go() {
    let folder = Folder::new("unloaded");
    if !work(&folder) {
        return;
    }
    let mut plugin = Compiler("gcc", C, "-O2").command("plugin.c");
    let path = format!("-Wl,-rpath,{}", libraries().display());
    plugin.args(["-shared", "-fPIC", "-ltracemill_record", &path, "-L"]).arg(libraries());
    run(plugin.arg("-o").arg(folder.join("plugin.so")));
    tried_and_discarded(&folder, "unloaded", "block");
    let rounds = (0..50).flat_map(|i| [1000, i, 2000, i].map(|i| format!(" i={i}")));
    let names = ["p:event", "p:event", "p:event", "t:tick"].into_iter().cycle();
    let expected: Vec<_> = names.zip(rounds).map(|(name, i)| format!("{name}{i}")).collect();
    assert_eq!(events(&folder.join("t")), expected);
    assert_eq!(events(&folder.join("u")), ["t:tick i=50"]);
}

/// A library may bring the recorder into a program, and go away before its threads end.
#[test]
fn the_recorder_stays_where_a_library_brought_it() {
    let folder = Folder::new("brought");
    if !has("gcc") {
        return;
    }
    run(Compiler("gcc", C, "-O2").command("host.c").args(["-pthread", "-ldl", "-o"]).arg(folder.join("host")));
    for is_static in [false, true] {
        let mut plugin = Compiler("gcc", C, "-O2").command("plugin.c");
        plugin.args(["-shared", "-fPIC", "-pthread"]);
        match is_static {
            true => plugin.arg(libraries().join("libtracemill_record.a")),
            false => {
                let path = format!("-Wl,-rpath,{}", libraries().display());
                plugin.args(["-ltracemill_record", &path, "-L"]).arg(libraries())
            }
        };
        run(plugin.arg("-o").arg(folder.join("plugin.so")));
        let path = folder.join(if is_static { "static" } else { "shared" });
        run(Command::new(folder.join("host")).arg(folder.join("plugin.so")).env("TRACEMILL_RECORD", &path));
        let mut kept = numbers(&path, "p:event");
        kept.sort_unstable();
        // With the recorder in it, it begins before that does.
        let expected = if is_static { &[1][..] } else { &[1, 1000] };
        assert_eq!(kept, expected, "{is_static}");
    }
}

#[test]
fn bytes_that_are_no_text_are_cut() {
    let folder = Folder::new("raw");
    if !work(&folder) {
        return;
    }
    assert_eq!(tried_and_discarded(&folder, "raw", "stream"), (1, 0));
    let all = events(&folder.join("t"));
    assert!(all.len() == 1 && all[0].starts_with("t:raw text_length=4095 "), "{all:?}");
}

#[test]
fn a_snapshot_has_what_was_there() {
    let folder = Folder::new("snapshots");
    if !work(&folder) {
        return;
    }
    for mode in ["flight", "stream"] {
        tried_and_discarded(&folder, "snapshots", mode);
        let kept = ["copy", "t"].map(|name| numbers(&folder.join(name), "t:tick"));
        assert_eq!(kept, [vec![0], vec![0, 1]], "{mode}");
        std::fs::remove_dir_all(folder.join("copy")).expect("it is removed");
    }
}

#[test]
fn the_environment_starts_before_main() {
    let folder = Folder::new("environment");
    if !work(&folder) {
        return;
    }
    let recorded = |kind: &str, is_static: bool| {
        if is_static {
            Compiler("gcc", C, "-O2").program("work.c", true, &folder.join("work"));
        }
        let mut command = Command::new(folder.join("work"));
        command.arg(kind).arg(&folder.0).arg("stream");
        command.env("TRACEMILL_RECORD", folder.join("e")).env("TRACEMILL_RECORD_EVENTS", "t:tick");
        run(&mut command);
        let kept = numbers(&folder.join("e"), "t:tick");
        std::fs::remove_dir_all(folder.join("e")).expect("it is removed");
        kept
    };
    for is_static in [false, true] {
        assert_eq!(recorded("environment", is_static), [11]);
        // The program's own recording is the one of the environment then.
        assert_eq!(recorded("snapshots", is_static), [0, 1]);
        assert!(!folder.join("t").exists());
        std::fs::remove_dir_all(folder.join("copy")).expect("it is removed");
    }
    let mut wrong = Command::new(folder.join("work"));
    wrong.arg("environment").arg(&folder.0).arg("stream");
    wrong.env("TRACEMILL_RECORD", folder.join("e")).env("TRACEMILL_RECORD_SIZE", "many");
    let output = wrong.output().expect("it runs");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && message.lines().count() == 1, "{message}");
    assert!(message.contains("TRACEMILL_RECORD_SIZE=many: expected a number"), "{message}");
    // Where it cannot be reported it is an error all the same, and not the end of the program.
    let full = std::fs::File::options().write(true).open("/dev/full").expect("a file");
    let mut wrong = Command::new(folder.join("work"));
    wrong.args(["snapshots"]).arg(&folder.0).arg("stream").env("TRACEMILL_RECORD_SIZE", "many").stderr(full);
    assert_eq!(wrong.status().expect("it runs").code(), Some(1));
}

/// Dialects of each compiler that is installed, with and without its extensions.
#[test]
fn the_header_is_read_in_all_dialects() {
    let of_c = ["c99", "gnu99", "c11", "gnu11", "c17", "gnu17", "c2x", "gnu2x"];
    // The names of C23 and C++23 that older compilers have, too.
    let of_cpp = ["c++11", "gnu++11", "c++14", "c++17", "c++20", "gnu++20", "c++2b", "gnu++2b"];
    let mut tried = 0;
    for (compiler, language, dialects) in
        [("gcc", "c", of_c), ("clang", "c", of_c), ("g++", "c++", of_cpp), ("clang++", "c++", of_cpp)]
    {
        if !has(compiler) {
            continue;
        }
        for dialect in dialects {
            for disabled in [None, Some("-DTM_DISABLE")] {
                for (source, more) in [("values.c", None), ("twin.c", None), ("twin.c", Some("-DFIRST"))] {
                    let mut command = Command::new(compiler);
                    command.args(["-x", language, &format!("-std={dialect}"), "-fsyntax-only"]).args(WARNINGS);
                    command.arg("-DTWIN=a").args(disabled).args(more);
                    command.arg("-I").arg(root().join("crates/recorder/c/include"));
                    command.arg(root().join("crates/recorder/c/tests/programs").join(source));
                    run(&mut command);
                    tried += 1;
                }
            }
        }
    }
    assert!(tried == 0 || tried >= 48, "{tried}");
}

/// A library of two that record, with the recorder as these arguments say.
fn build_twin(folder: &Folder, name: &str, recorder: &[&str]) {
    let mut command = Compiler("gcc", C, "-O2").command("twin.c");
    let path = format!("-Wl,-rpath,{}", libraries().display());
    command.arg(format!("-DTWIN={name}")).args(Some("-DFIRST").filter(|_| name == "a"));
    command.args(["-shared", "-fPIC"]).arg(path).arg("-L").arg(libraries()).args(recorder).arg("-pthread");
    run(command.arg("-o").arg(folder.join(&format!("lib{name}.so"))));
}

#[test]
fn two_libraries_of_a_program_record() {
    if !has("gcc") {
        return;
    }
    let archive = libraries().join("libtracemill_record.a");
    let archive = archive.to_string_lossy();
    let hidden = [&*archive, "-Wl,--exclude-libs,ALL"];
    // The shared library, or the symbols of the first static one: one recorder. Hidden symbols: one for each.
    for (kind, recorder, is_one) in [
        ("shared", &["-ltracemill_record"][..], true),
        ("static", &[&*archive][..], true),
        ("hidden", &hidden[..], false),
    ] {
        let folder = Folder::new(&format!("twins-{kind}"));
        ["a", "b"].iter().for_each(|name| build_twin(&folder, name, recorder));
        let mut program = Command::new("gcc");
        program.arg(root().join("crates/recorder/c/tests/programs/twins.c")).arg("-o").arg(folder.join("twins"));
        program.arg("-L").arg(&folder.0).args([
            "-la",
            "-lb",
            "-pthread",
            &format!("-Wl,-rpath,{}", folder.0.display()),
        ]);
        run(program.arg(format!("-Wl,-rpath-link,{}", libraries().display())));
        let said = run(Command::new(folder.join("twins")).arg(&folder.0));
        // -EBUSY and -ENOENT.
        assert_eq!(said.trim(), if is_one { "0 -16 0 -2" } else { "0 0 0 0" }, "{kind}");
        let counts = |name: &str| {
            let all = events(&folder.join(name));
            ["both", "first", "second"]
                .map(|event| all.iter().filter(|line| line.starts_with(&format!("twins:{event} "))).count())
        };
        if is_one {
            assert_eq!(counts("a"), [40_000, 20_000, 20_000], "{kind}");
            assert!(!folder.join("b").exists(), "{kind}");
        } else {
            assert_eq!(counts("a"), [20_000, 20_000, 0], "{kind}");
            assert_eq!(counts("b"), [20_000, 0, 20_000], "{kind}");
        }
    }
}

#[test]
fn static_programs_record() {
    let folder = Folder::new("static");
    if !has("gcc") {
        return;
    }
    let compiler = Compiler("gcc", C, "-O2");
    let mut command = compiler.command("values.c");
    command.arg(libraries().join("libtracemill_record.a")).args(["-pthread", "-o"]).arg(folder.join("static"));
    link_static(&mut command);
    compiler.program("values.c", false, &folder.join("dynamic"));
    for format in ["ctf2", "ctf1.8"] {
        let [first, second] = ["static", "dynamic"].map(|name| {
            let path = folder.join(&format!("{name}-{format}"));
            run(Command::new(folder.join(name)).arg(&path).arg(format));
            events(&path)
        });
        assert!(!first.is_empty() && first == second, "{first:?}");
    }
}

/// As a stranger installs it: into a folder, found by pkg-config and by CMake.
#[test]
fn what_is_installed_is_found() {
    if !has("gcc") {
        return;
    }
    let folder = Folder::new("installed");
    let prefix = folder.join("first");
    let mut install = Command::new(root().join("crates/recorder/c/install/install"));
    install.arg("--prefix").arg(&prefix).args(["--libdir", "lib/here", "--profile", "dev"]);
    run(install.env("CARGO_NET_OFFLINE", "true"));
    // It may be moved.
    let moved = folder.join("moved");
    std::fs::rename(&prefix, &moved).expect("it is moved");
    let library = moved.join("lib/here");
    let source = root().join("crates/recorder/c/tests/programs/values.c");
    let check = |program: &Path, name: &str| {
        let path = folder.join(name);
        run(Command::new(program).arg(&path).arg("ctf2").env("LD_LIBRARY_PATH", &library));
        assert!(!events(&path).is_empty(), "{name}");
    };
    // Also the headers for LTTng's tracepoints.
    let mut traced = Command::new("gcc");
    traced.arg("-I").arg(moved.join("include/lttng-ust-compat")).args(["-fsyntax-only", "-std=gnu11"]);
    run(traced.arg(root().join("crates/recorder/c/tests/programs/lttng/mill.c")));
    if has("pkg-config") {
        for (name, more) in [("shared", None), ("static", Some("--static"))] {
            let mut config = Command::new("pkg-config");
            config.args(["--cflags", "--libs", "tracemill-record"]).args(more);
            let flags = run(config.env("PKG_CONFIG_PATH", library.join("pkgconfig")));
            let mut command = Command::new("gcc");
            command.arg("-o").arg(folder.join("program")).arg(&source).args(flags.split_whitespace());
            match more {
                Some(_) => link_static(&mut command),
                None => drop(run(&mut command)),
            }
            check(&folder.join("program"), name);
            let needed = run(Command::new("readelf").arg("-d").arg(folder.join("program")));
            assert_eq!(needed.contains("[libtracemill_record.so.0."), more.is_none(), "{needed}");
        }
        let mut version = Command::new("pkg-config");
        version.args(["--modversion", "tracemill-record"]).env("PKG_CONFIG_PATH", library.join("pkgconfig"));
        assert_eq!(run(&mut version).trim(), env!("CARGO_PKG_VERSION"));
    }
    if has("cmake") {
        let project = folder.join("project");
        std::fs::create_dir(&project).expect("a folder");
        let version = env!("CARGO_PKG_VERSION").rsplit_once('.').map_or("", |(version, _)| version);
        let lists = format!(
            "cmake_minimum_required(VERSION 3.13)\nproject(values C)\nfind_package(tracemill-record {version} REQUIRED)\n\
             add_executable(shared {source})\ntarget_link_libraries(shared tracemill::record)\n\
             add_executable(static {source})\ntarget_link_libraries(static tracemill::record_static)\n",
            source = source.display()
        );
        std::fs::write(project.join("CMakeLists.txt"), lists).expect("a file");
        let prefix = format!("-DCMAKE_PREFIX_PATH={}", library.display());
        let mut configure = Command::new("cmake");
        configure
            .arg("-S")
            .arg(&project)
            .arg("-B")
            .arg(project.join("build"))
            .arg(format!("{prefix};{}", moved.display()));
        run(configure.arg(format!("-Dtracemill-record_DIR={}", library.join("cmake/tracemill-record").display())));
        run(Command::new("cmake").arg("--build").arg(project.join("build")));
        ["shared", "static"].iter().for_each(|name| check(&project.join("build").join(name), &format!("cmake-{name}")));
    }
}

/// The functions that lead to an event, by frame pointers.
#[test]
fn events_have_the_calls_that_led_to_them() {
    if !has("gcc") || !has("nm") {
        return;
    }
    let folder = Folder::new("stacks");
    let mut command = Compiler("gcc", C, "-O2").command("stacks.c");
    command.args(["-fno-omit-frame-pointer", "-no-pie"]).arg(libraries().join("libtracemill_record.a"));
    run(command.args(["-pthread", "-o"]).arg(folder.join("stacks")));
    let contexts = record::control::Contexts::parse("cpu,callstack").expect("contexts");
    let rules = record::control::rules(&[record::control::Command::Contexts { events: "*".to_string(), contexts }]);
    run(Command::new(folder.join("stacks")).arg(folder.join("t")).env("TRACEMILL_RECORD_RULES", rules));
    let symbols = run(Command::new("nm").args(["-S", "--defined-only"]).arg(folder.join("stacks")));
    let function = |address: u64| {
        let mut functions = symbols.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            let mut number = || u64::from_str_radix(words.next()?, 16).ok();
            let (begin, len) = (number()?, number()?);
            (begin..begin + len).contains(&address).then(|| words.nth(1)).flatten()
        });
        // The compiler may put the calls for what is rare aside.
        functions.next().unwrap_or("?").trim_end_matches(".cold").to_string()
    };
    let traces = tracemill::open([folder.join("t")]).expect("a trace");
    let mut count = 0;
    for event in traces.events() {
        let event = event.expect("a sound event");
        let stack = event.get("event_context.callstack_user").expect("a stack").to_string();
        let calls = stack.trim_matches(['[', ']']).split(", ").map(|call| call.parse().expect("an address"));
        let names: Vec<String> = calls.map(function).collect();
        assert_eq!(names[..3], ["inner", "outer", "main"], "{names:?}");
        count += 1;
    }
    assert_eq!(count, 3);
}
