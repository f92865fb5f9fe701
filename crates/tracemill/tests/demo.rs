//! The examples, run; and the library on the demo traces.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tracemill::{GapKind, Lines, Options, Step, Traces};

mod memory;

use memory::Folder;

#[path = "../examples/convert.rs"]
mod convert;
#[path = "../examples/iterate.rs"]
mod iterate;
#[path = "../examples/latency.rs"]
mod latency;
#[path = "../examples/own_format.rs"]
mod own_format;
#[path = "../examples/write_trace.rs"]
mod write_trace;

fn demo(trace: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo").join(trace).to_string_lossy().into_owned()
}

/// A folder of this test.
fn folder(name: &str) -> Folder {
    let path = std::env::temp_dir().join(format!("tracemill-demo-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).expect("it can be made");
    Folder(path)
}

fn open(paths: &[&str]) -> Traces {
    tracemill::open(paths.iter().map(|path| demo(path))).expect("the demo opens")
}

fn lines(traces: &Traces, condition: &str) -> String {
    let mut out = Vec::new();
    let events = traces.events().filter(condition).expect("it is a condition");
    let (_, damage) = events.write_lines(Lines::Jsonl, &mut out).expect("memory takes all");
    assert!(damage.is_empty(), "{damage:?}");
    String::from_utf8(out).expect("JSON lines are UTF-8")
}

#[test]
fn examples_have_at_most_thirty_lines() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let files =
        std::fs::read_dir(folder).expect("the folder is there").map(|entry| entry.expect("it can be read").path());
    let files: Vec<PathBuf> = files.collect();
    let programs = [convert::main, iterate::main, latency::main, own_format::main, write_trace::main];
    assert_eq!(files.len(), programs.len(), "each is run below");
    for path in files {
        let lines = std::fs::read_to_string(&path).expect("it is a text").lines().count();
        assert!(lines <= 30, "{} has {lines} lines", path.display());
    }
}

#[test]
fn example_iterate() {
    let mut out = Vec::new();
    iterate::run(&demo("traces"), "name == \"*\"", &mut out).expect("the demo opens");
    let text = String::from_utf8(out).expect("it is UTF-8");
    assert_eq!(text.lines().filter(|line| line.contains(" packet_context.cpu_id=")).count(), 4085, "{text:.500}");
    assert!(
        text.contains(
            "1795249870.190152266 Some(11572) orders:taken header.id=65535 header.v={\"extended\": {\"id\": 0, "
        ),
        "{text:.500}"
    );
    assert!(text.contains(" payload.goods=[1310, 7024]\n"), "{text:.500}");
    assert!(text.contains(" were lost\n"), "losses are shown");
}

#[test]
fn example_latency() {
    let longest = latency::run([&demo("traces/orders"), "orders:taken", "orders:sent", "payload.id"]);
    let longest = longest.expect("both events are there").expect("orders were sent");
    assert!(longest.contains("payload.id") || longest.contains("Integer("), "{longest}");
    assert!(longest.contains(" us; the mean of "), "{longest}");
}

#[test]
fn example_convert() {
    let folder = folder("convert");
    let out = folder.0.join("out").to_string_lossy().into_owned();
    for to in ["ctf2", "ctf1.8"] {
        let events = convert::run(&demo("traces/orders"), to, &out).expect("it is written");
        let of = tracemill::open([&out]).expect("it can be read");
        assert_eq!(lines(&of, "cpu == 0").lines().count() as u64, events);
        assert_eq!(events, of.events().into_iter().count() as u64);
    }
    let error = open(&["traces/orders"]).convert("ctf2", &out).map(|_| ()).expect_err("it is there");
    assert!(error.to_string().contains("the output exists already"), "{error}");
}

#[test]
fn example_write_trace() {
    let folder = folder("write");
    let traces = write_trace::run(&folder.0.join("made").to_string_lossy()).expect("it is written and read");
    let lost: u64 = traces.survey()[0].streams.iter().filter_map(|stream| stream.discarded_events).sum();
    assert_eq!((traces.events().into_iter().count(), lost), (4, 24));
}

#[test]
fn example_own_format() {
    let folder = folder("own");
    let path = folder.0.join("log");
    std::fs::write(&path, "SENSORS\n5 door 1\n1700000000000000000 heat -40\n").expect("it can be written");
    let traces = own_format::run(&path).expect("it is one");
    assert_eq!(traces.iter().map(|trace| trace.format()).collect::<Vec<_>>(), ["sensors"]);
    let seen: Vec<_> = traces
        .events()
        .into_iter()
        .map(|event| {
            event.map(|event| {
                (event.time().ns(), event.name().into_owned(), event.get("number").and_then(|of| of.as_i64()))
            })
        })
        .collect::<Result<_, _>>()
        .expect("nothing is damaged");
    let events =
        [(Some(5), "door".to_string(), Some(1)), (Some(1_700_000_000_000_000_000), "heat".to_string(), Some(-40))];
    assert_eq!(seen, events);
    // The traces of a user's format can be converted like any other.
    traces.convert("ctf2", folder.0.join("out")).expect("it can be converted");
    let again = tracemill::open([folder.0.join("out")]).expect("it can be read");
    assert_eq!(lines(&again, "name == \"heat\"").lines().count(), 1);
    // Without the format it is unknown.
    assert!(tracemill::open([&path]).is_err());
}

#[test]
fn counts_are_those_of_the_demo() {
    let traces = open(&[""]);
    let (mut counts, mut lost, mut string_bytes) = (BTreeMap::<String, u64>::new(), 0, 0);
    for step in traces.events().steps().expect("nothing was chosen") {
        match step {
            Step::Event(event) => {
                *counts.entry(event.name().into_owned()).or_default() += 1;
                string_bytes += event.get("payload.customer").and_then(|of| Some(of.as_str()?.len())).unwrap_or(0);
            }
            Step::Lost(loss) if loss.kind == GapKind::DiscardedEvents => lost += loss.count.unwrap_or(0),
            Step::Lost(_) => {}
            Step::Damage(error) => panic!("{error}"),
            Step::Warning(_) => {}
        }
    }
    let events = |name: &str| counts[name];
    assert_eq!(counts.values().sum::<u64>(), 9154);
    assert_eq!((events("mill:grind"), events("mill:label"), events("orders:complaint")), (1106, 189, 20));
    assert_eq!(lost, 7091);
    assert!(string_bytes > 0);
}

#[test]
fn lines_do_not_depend_on_the_number_of_threads() {
    let run = |jobs| {
        let paths = [demo("traces/mill"), demo("traces/orders")];
        let traces = Options::new().jobs(jobs).open(paths).expect("the demo opens");
        lines(&traces, "name == \"orders:*\" and payload.id > 100")
    };
    let one = run(1);
    assert!(one.lines().count() > 100 && one.lines().all(|line| line.contains("\"name\":\"orders:")), "{one:.300}");
    assert_eq!(one, run(3));
}

#[test]
fn a_path_that_no_event_class_has_is_an_error_with_its_place() {
    let traces = open(&["traces/orders"]);
    let error = traces.events().filter("payload.idd == 1").map(|_| ()).expect_err("no event class has it").to_string();
    assert!(error.contains("line 1, column 9") && error.contains("did you mean"), "{error}");
}

#[test]
fn what_does_not_exist_is_an_error() {
    let error = tracemill::open(["no such folder"]).map(|_| ()).expect_err("there is none");
    assert!(error.to_string().contains("there is no such file or folder"), "{error}");
    let both = [PathBuf::from(demo("traces/orders")), PathBuf::from("no such folder")];
    assert!(tracemill::open(both).is_err(), "each path must give a trace");
    assert!(tracemill::open(Vec::<PathBuf>::new()).is_err());
}

#[test]
fn values_are_those_of_the_lines() {
    // All fields that `get` reads, in whatever order they are asked, are those of `fields`.
    for event in open(&[""]).events() {
        let event = event.expect("nothing is damaged");
        let all: Vec<_> = event.fields().expect("it is whole").collect();
        for field in all.iter().rev().chain(&all) {
            let value = event.get(&field.path).unwrap_or_else(|| panic!("{} has no {}", event.name(), field.path));
            assert_eq!(format!("{value:?}"), format!("{:?}", field.value), "{} of {}", field.path, event.name());
        }
    }
}

#[test]
fn survey_and_check_agree_on_the_losses() {
    let traces = open(&["traces/losses"]);
    let [trace] = &traces.count()[..] else { panic!("one trace") };
    assert_eq!(trace.streams.iter().filter_map(|stream| stream.discarded_events).sum::<u64>(), 7070);
    assert_eq!(trace.class_events.as_ref().map(|counts| counts.iter().sum::<u64>()), Some(931));
    assert_eq!(traces.check().events, 931);
}
