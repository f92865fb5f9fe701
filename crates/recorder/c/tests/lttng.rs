//! Programs with LTTng's tracepoints that are compiled with our headers in place of LTTng-UST's, as they are.
//! `conformance/live_lttng_ust.py` compares what they record with LTTng-UST.

use std::path::{Path, PathBuf};
use std::process::Command;

use record::control::EventCondition;
use tracemill_ring::condition::{Comparison, FieldCondition, Literal, Number, Operand, OperandPart};

use self::util::{Folder, WARNINGS, by_babeltrace, discarded, events, has, libraries, root, run};

mod util;

const SOURCES: [&str; 4] = ["mill.c", "messages.c", "probes.c", "oven.c"];

/// Compilers, with a dialect.
const COMPILERS: [(&str, &[&str]); 9] = [
    ("gcc", &["-std=c99", "-D_GNU_SOURCE", "-O0"]),
    ("gcc", &["-std=gnu11", "-O2"]),
    ("gcc", &["-std=c17", "-O3"]),
    ("gcc", &["-std=c2x", "-O2"]),
    ("g++", &["-x", "c++", "-std=c++11", "-O0"]),
    ("g++", &["-x", "c++", "-std=c++17", "-O2"]),
    ("g++", &["-x", "c++", "-std=c++2b", "-O2"]),
    ("clang", &["-std=gnu99", "-O2"]),
    ("clang++", &["-x", "c++", "-std=c++20", "-O2"]),
];

/// The events of `mill.c`: a level, the name, the fields with the labels of their values. In CTF 2 a level is an attribute of
/// babeltrace2, which is not read as one.
fn expected(format: &str) -> Vec<String> {
    let swapped = "[16777216, -16777217, 738263040]";
    let mut lines: Vec<String> = [
        "4 mill:numbers i=-5 i8=-5 u16=12816 u64=18364758544493064721 u_hex=18364758544493064720 p_hex=32513 b=1 \
         network=513 network_hex=513 f=1.5 d=-0.25",
        &format!(
            "13 mill:lists array=[1, -2] array_hex=[1, -2] array_network=[16777216, -16777217] \
             array_network_hex=[16777216, -16777217] array_text=flour _sequence_length=3 sequence=[1, -2, 300] \
             _sequence_hex_length=3 sequence_hex=[102, 108, 111] _sequence_network_length=3 \
             sequence_network={swapped} _sequence_network_hex_length=3 sequence_network_hex={swapped} \
             _sequence_text_length=4 sequence_text=flou string=flour"
        ),
        "13 mill:lists array=[1, -2] array_hex=[1, -2] array_network=[16777216, -16777217] \
         array_network_hex=[16777216, -16777217] array_text=123456 _sequence_length=0 sequence=[] \
         _sequence_hex_length=0 sequence_hex=[] _sequence_network_length=0 sequence_network=[] \
         _sequence_network_hex_length=0 sequence_network_hex=[] _sequence_text_length=0 sequence_text= string=1234567",
        "13 mill:grains grain=-1(rye) small=-1(rye)",
        "13 mill:grains grain=0(oats) small=0(oats)",
        "13 mill:grains grain=7(wheat) small=7(wheat)",
        "13 mill:grains grain=10(spelt) small=10(spelt)",
        "13 mill:grains grain=11 small=11",
        "13 mill:grains grain=40(the \"best\" \\ all) small=40(the \"best\" \\ all)",
        "13 mill:bare",
        "13 mill:sack_in sack=1 name=rye",
        "11 mill:sack_out sack=2 name=(null)",
        "13 mill:ten sum=55",
        "2 oven:baked name=bread heat=220(hot) heat_hex=220 heat_network=3690987520 share=55 first=[-7] short_name=bre \
         _times_length=2 times=[-7, 8] _start_length=2 start=br",
        "13 oven:opened door=1",
        "13 oven:closed door=-1",
        "14 lttng_ust_tracef:event _msg_length=14 msg=3 sacks of rye",
        "14 lttng_ust_tracef:event _msg_length=4 msg=none",
        &format!("14 lttng_ust_tracef:event _msg_length=2000 msg={}", "x".repeat(2000)),
        "3 lttng_ust_tracelog:LTTNG_UST_TRACEPOINT_LOGLEVEL_ERR line=25 file=messages.c func=messages _msg_length=14 \
         msg=oven 2 is cold",
        "14 lttng_ust_tracef:event _msg_length=6 msg=late !",
        "13 lttng_ust_tracelog:LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_LINE line=15 file=messages.c func=formatted \
         _msg_length=6 msg=late !",
        "14 lttng_ust_tracelog:LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG line=28 file=messages.c func=messages \
         _msg_length=4 msg=done",
    ]
    .map(String::from)
    .into();
    // The compiler is given the whole path.
    let file = format!("file={}", programs().join("messages.c").display());
    for line in &mut lines {
        *line = line.replace("file=messages.c", &file);
        if format == "ctf2" {
            *line = line.split_off(line.find(' ').expect("a level") + 1);
        }
    }
    lines
}

/// Events as [`expected`] has them.
fn described(path: &Path) -> Vec<String> {
    let traces = tracemill::open([path]).expect("a trace");
    let line = |event: tracemill::Result<tracemill::Event<'_>>| {
        let event = event.expect("a sound event");
        let level = event.class().log_level.map(|level| format!("{level} ")).unwrap_or_default();
        let mut line = level + &event.name();
        for field in event.fields().expect("sound fields").filter(|field| field.path.starts_with("payload.")) {
            line.push_str(&format!(" {}={}", &field.path[8..], field.value));
            field.value.labels().for_each(|label| line.push_str(&format!("({label})")));
        }
        line
    };
    traces.events().into_iter().map(line).collect()
}

fn programs() -> PathBuf {
    root().join("crates/recorder/c/tests/programs/lttng")
}

fn compile(compiler: (&str, &[&str]), sources: &[&str], options: &[&str], to: &Path) -> Command {
    let mut command = Command::new(compiler.0);
    let include = root().join("crates/recorder/c/include");
    command.args(compiler.1).args(WARNINGS).arg("-g").arg("-I").arg(include.join("lttng-ust-compat"));
    command.arg("-I").arg(include).arg("-I").arg(programs()).args(options);
    command.args(sources.iter().map(|source| programs().join(source))).args(["-x", "none", "-o"]).arg(to);
    command
}

/// Links to the shared library.
fn link(command: &mut Command) -> &mut Command {
    let path = format!("-Wl,-rpath,{}", libraries().display());
    command.args(["-ltracemill_record", "-pthread", "-ldl", &path, "-L"]).arg(libraries())
}

const GCC: (&str, &[&str]) = ("gcc", &["-std=gnu11", "-O2"]);

fn record(program: &mut Command, to: &Path, format: &str) {
    run(program.env("TRACEMILL_RECORD", to).env("TRACEMILL_RECORD_FORMAT", format));
}

#[test]
fn tracepoints_have_the_values_that_they_are_given() {
    let folder = Folder::new("lttng");
    let has_babeltrace = has("babeltrace2");
    for (at, compiler) in COMPILERS.into_iter().enumerate().filter(|(_, compiler)| has(compiler.0)) {
        let program = folder.join("mill");
        let mut command = compile(compiler, &SOURCES, &[], &program);
        match at % 2 {
            0 => run(link(&mut command)),
            _ => run(command.arg(libraries().join("libtracemill_record.a")).args(["-pthread", "-ldl"])),
        };
        // Without a recording, no argument is evaluated.
        run(&mut Command::new(&program));
        for format in ["ctf2", "ctf1.8"] {
            let path = folder.join(&format!("{at}-{format}"));
            record(&mut Command::new(&program), &path, format);
            assert_eq!(described(&path), expected(format), "{compiler:?}, {format}");
            assert_eq!(discarded(&path), 0);
        }
        if has_babeltrace {
            let lines = by_babeltrace(&folder.join(&format!("{at}-ctf1.8")));
            assert_eq!(lines.len(), expected("ctf1.8").len());
            assert!(lines[0].contains("u_hex = 0xFEDCBA9876543210, p_hex = 0x7F01, b = 1, "), "{}", lines[0]);
            assert!(lines[1].contains("array_network_hex = [ [0] = 0x1000000, [1] = 0xFEFFFFFF ]"), "{}", lines[1]);
            assert!(lines[8].contains(r#"small = ( "the \"best\" \\ all" : container = 40 )"#), "{}", lines[8]);
        }
    }
}

/// A program that is built to run without its probes records when they are loaded with it.
#[test]
fn probes_may_be_loaded_with_the_program_only() {
    let folder = Folder::new("lttng-dynamic");
    if !has("gcc") {
        return;
    }
    let program = folder.join("mill");
    // The formatted messages are a part of the program, and need the library.
    let options = ["-DLTTNG_UST_TRACEPOINT_PROBE_DYNAMIC_LINKAGE", "-DWITHOUT_MESSAGES"];
    run(compile(GCC, &["mill.c"], &options, &program).arg("-ldl"));
    let probes = ["probes.c", "oven.c"].map(|source| {
        let to = folder.join(&source.replace(".c", ".so"));
        run(link(&mut compile(GCC, &[source], &["-shared", "-fPIC"], &to)));
        to.display().to_string()
    });
    run(&mut Command::new(&program));
    let mut expected = expected("ctf2");
    expected.truncate(16);
    record(Command::new(&program).env("LD_PRELOAD", probes.join(":")), &folder.join("both"), "ctf2");
    assert_eq!(described(&folder.join("both")), expected);
    expected.retain(|line| line.starts_with("oven:"));
    let output = Command::new(&program)
        .env("LD_PRELOAD", &probes[1])
        .env("TRACEMILL_RECORD", folder.join("one"))
        .output()
        .expect("it runs");
    // It counts on the arguments of the other provider.
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(described(&folder.join("one")), expected);
}

/// Its tracepoints are forgotten when a library is unloaded: what is stored later is not stored there.
#[test]
fn libraries_with_tracepoints_come_and_go() {
    let folder = Folder::new("lttng-unloaded");
    if !has("gcc") {
        return;
    }
    let library = folder.join("mill.so");
    run(link(&mut compile(GCC, &SOURCES, &["-shared", "-fPIC", "-Dmain=run"], &library)));
    run(link(&mut compile(GCC, &["host.c"], &[], &folder.join("host"))));
    let path = folder.join("trace");
    record(Command::new(folder.join("host")).arg(&library), &path, "ctf2");
    let expected = expected("ctf2");
    assert_eq!(described(&path), [&expected[..], &expected, &expected].concat());
    // Three copies share their classes: the metadata describes each once.
    let metadata = std::fs::read_to_string(path.join("metadata")).expect("it is text");
    let numbers = "\"mill:numbers\", \"attributes\": {\"babeltrace.org,2020\": {\"log-level\": \"warning\"}}";
    assert_eq!(metadata.matches(numbers).count(), 1);
}

/// Callers and probes in libraries of their own, as large programs have them.
#[test]
fn callers_and_probes_may_be_in_several_libraries() {
    let folder = Folder::new("lttng-libraries");
    if !has("gcc") {
        return;
    }
    let shared = ["-shared", "-fPIC"];
    let path = format!("-Wl,-rpath,{}", folder.0.display());
    run(link(&mut compile(GCC, &["probes.c", "oven.c"], &shared, &folder.join("libprobes.so"))));
    let with_probes = |command: &mut Command| {
        run(link(command).args(["-lprobes", &path, "-L"]).arg(&folder.0));
    };
    with_probes(&mut compile(
        GCC,
        &["mill.c", "messages.c"],
        &["-shared", "-fPIC", "-Dmain=run"],
        &folder.join("librun.so"),
    ));
    std::fs::write(folder.join("main.c"), "int run(void);\nint main(void) { return run(); }\n").expect("a file");
    let mut main = Command::new("gcc");
    main.arg(folder.join("main.c")).arg("-o").arg(folder.join("main")).args(["-lrun", &path, "-L"]).arg(&folder.0);
    with_probes(&mut main);
    record(&mut Command::new(folder.join("main")), &folder.join("trace"), "ctf2");
    assert_eq!(described(&folder.join("trace")), expected("ctf2"));
}

/// The variable of the environment that chooses events chooses tracepoints by their names.
#[test]
fn tracepoints_are_chosen_by_name() {
    let folder = Folder::new("lttng-chosen");
    if !has("gcc") {
        return;
    }
    let program = folder.join("mill");
    run(link(&mut compile(GCC, &SOURCES, &[], &program)));
    let mut chosen = Command::new(&program);
    chosen.env("TRACEMILL_RECORD_EVENTS", "mill:*,-mill:?*s,-mill:bare,-mill:ten,oven:closed");
    // Its last line says that tracepoints are all on or all off.
    let output = chosen.env("TRACEMILL_RECORD", folder.join("trace")).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        events(&folder.join("trace")),
        ["mill:sack_in sack=1 name=rye", "mill:sack_out sack=2 name=(null)", "oven:closed door=-1"]
    );
}

/// The condition `field OP literal`.
fn compared(field: &str, comparison: Comparison, literal: Literal) -> FieldCondition {
    FieldCondition::Compare(operand(field), comparison, literal)
}

fn operand(field: &str) -> Operand {
    Operand { parts: vec![OperandPart::Field(field.to_string())] }
}

/// Conditions know the fields of LTTng's macros, and events have them after their contexts.
#[test]
fn tracepoints_have_conditions_contexts_and_levels() {
    let folder = Folder::new("lttng-rules");
    if !has("gcc") {
        return;
    }
    let program = folder.join("mill");
    run(link(&mut compile(GCC, &SOURCES, &[], &program)));
    let record = |name: &str, events: &str, commands: &[record::control::Command]| {
        let mut chosen = Command::new(&program);
        chosen.env("TRACEMILL_RECORD", folder.join(name)).env("TRACEMILL_RECORD_EVENTS", events);
        // Its status says whether tracepoints are all on or all off, which they need not be.
        chosen.env("TRACEMILL_RECORD_RULES", record::control::rules(commands)).output().expect("it runs");
        assert_eq!(discarded(&folder.join(name)), 0);
        described(&folder.join(name))
    };
    let all = expected("ctf2");
    let starting = |starts: &[&str]| -> Vec<String> {
        all.iter().filter(|line| starts.iter().any(|start| line.starts_with(start))).cloned().collect()
    };

    let err = "lttng_ust_tracelog:LTTNG_UST_TRACEPOINT_LOGLEVEL_ERR";
    let debug = "lttng_ust_tracelog:LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG ";
    assert_eq!(record("levels", "-*,*@error", &[]), starting(&["oven:baked", err]));
    assert_eq!(record("lines", "*,-*@debug:line", &[]), starting(&["lttng_ust_tracef", debug]));

    let text = |text: &str| Literal::Text(text.into());
    let number = |floor| Literal::Number(Number { floor, has_fraction: false, real: None });
    let filter = |condition| {
        let events = "*".to_string();
        record::control::Command::Filter(EventCondition { events, source: String::new(), condition })
    };
    let contexts = record::control::Command::Contexts {
        events: "*".to_string(),
        contexts: record::control::Contexts::parse("cpu,tid").expect("contexts"),
    };
    // Up to the field by which the two are told apart.
    let lists = "mill:lists array=[1, -2] array_hex=[1, -2] array_network=[16777216, -16777217] \
                 array_network_hex=[16777216, -16777217] array_text=";
    let [flour, digits] = ["flour", "123456"].map(|text| format!("{lists}{text}"));
    for (at, (condition, starts)) in [
        (compared("grain", Comparison::Equal, text("rye")), &["mill:grains grain=-1"][..]),
        (compared("small", Comparison::Equal, number(40)), &["mill:grains grain=40"]),
        (compared("network", Comparison::Equal, number(513)), &["mill:numbers"]),
        (compared("heat", Comparison::Equal, Literal::Glob(b"h*".into())), &["oven:baked"]),
        (FieldCondition::Truth(operand("sequence")), &[flour.as_str()]),
        (compared("array_text", Comparison::Equal, text("123456")), &[digits.as_str()]),
        (FieldCondition::Truth(operand("array_hex")), &["mill:lists"]),
        (compared("array_hex", Comparison::Equal, number(1)), &[]),
        (compared("name", Comparison::Equal, text("rye")), &["mill:sack_in"]),
        (
            compared("msg", Comparison::Equal, Literal::Glob(b"xx*".into())),
            &["lttng_ust_tracef:event _msg_length=2000"],
        ),
        (
            compared("func", Comparison::Equal, text("formatted")),
            &["lttng_ust_tracelog:LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_LINE"],
        ),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(record(&format!("{at}"), "", &[filter(condition.clone())]), starting(starts), "{condition:?}");
        let name = format!("{at}-contexts");
        assert_eq!(record(&name, "", &[filter(condition), contexts.clone()]), starting(starts));
        for event in tracemill::open([folder.join(&name)]).expect("a trace").events() {
            let event = event.expect("a sound event");
            assert!(event.get("event_context.vtid").is_some() && event.get("event_context.cpu_id").is_some());
        }
    }
}

#[test]
fn what_is_not_supported_is_named() {
    let folder = Folder::new("lttng-unsupported");
    let expected = [
        ("1", "lttng_ust_field_float(long double, number, ..) is not supported"),
        ("2", "lttng_ust_field_array(float, list, ..) is not supported"),
        ("3", "lttng_ust_field_sequence(float, list, ..) is not supported"),
        ("4", "<lttng/ust-events.h> (contexts and providers made at run time) is not supported"),
    ];
    for compiler in [("gcc", &["-std=c99"][..]), ("g++", &["-x", "c++", "-std=c++11"])].into_iter().filter(|c| has(c.0))
    {
        run(compile(compiler, &["unsupported.c"], &["-c"], &folder.join("none.o")).arg("-g"));
        for (number, message) in expected {
            let option = format!("-DUNSUPPORTED_{number}");
            let output = compile(compiler, &["unsupported.c"], &["-c", &option], &folder.join("some.o")).output();
            let output = output.expect("the compiler runs");
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && errors.contains(message), "{number}: {errors}");
        }
    }
}
