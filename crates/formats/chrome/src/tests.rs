//! Whole files: what they become, and what is reported of damaged ones.

use tracemill_format::OpenTrace;
use tracemill_format::testing::{OneFile, events_of, shown};
use tracemill_model::clock::ClockMap;
use tracemill_model::error::Error;
use tracemill_model::schema::Scope;

fn open(text: &str) -> OpenTrace {
    let file = OneFile::new(text);
    assert!(file.is_of(&super::FORMAT), "{text}");
    file.open_as(&super::FORMAT).expect("a trace")
}

/// The result of reading: a line for each event.
struct Read {
    lines: Vec<String>,
    faults: Vec<String>,
    warnings: Vec<String>,
}

fn read(text: &str) -> Read {
    let trace = open(text);
    let messages = |errors: &[Error]| errors.iter().map(|error| error.message().to_string()).collect();
    let (faults, warnings) = (messages(&trace.faults), messages(&trace.warnings));
    let mut read = Read { lines: Vec::new(), faults, warnings };
    for stream in &trace.streams {
        let clock = trace.schema.stream(stream.class).default_clock.expect("a clock");
        let map = ClockMap::new(trace.schema.clock(clock), 0);
        for index in 0..stream.packets.len() {
            let opened = trace.reader.open_packet(&trace.plans, stream, index, 0).expect("a packet");
            assert!(opened.faults.is_empty(), "{:?}", opened.faults);
            let chunk = events_of(opened.data);
            for at in 0..chunk.len() {
                let event = chunk.event(at);
                let class = trace.schema.event(event.class());
                let values = |scope| event.values(scope).expect("whole").map_or(String::new(), |of| shown(&of));
                let (ns, name) = (map.ns(event.cycles()), class.name.clone().unwrap_or_default());
                let (common, context) = (values(Scope::CommonContext), values(Scope::SpecificContext));
                read.lines.push(format!("{ns} {name} | {common} | {context} | {}", values(Scope::Payload)));
            }
        }
    }
    read
}

#[test]
fn slices_begin_and_end_in_the_order_of_time() {
    let read = read(
        r#"{"traceEvents":[
            {"name":"process_name","ph":"M","pid":1,"args":{"name":"mill"}},
            {"name":"thread_name","ph":"M","pid":1,"tid":2,"args":{"name":"main"}},
            {"name":"inner","ph":"X","ts":2.5,"dur":1,"pid":1,"tid":2,"cat":"c","args":{"path":"/a","n":-1}},
            {"name":"outer","ph":"X","ts":1,"dur":"2.5","pid":1,"tid":2},
            {"name":"zero","ph":"X","ts":3.5,"pid":1,"tid":2},
            {"name":"b","ph":"B","ts":0.001,"pid":1,"tid":3,"args":{"x":[1,2]}},
            {"ph":"E","ts":9,"pid":1,"tid":3}
        ],"displayTimeUnit":"ns"}"#,
    );
    let want = [
        "1 b_entry | pid=1 tid=3 comm=null process_name=\"mill\" | ph=\"B\" | x=[1 2]",
        "1000 outer_entry | pid=1 tid=2 comm=\"main\" process_name=\"mill\" | ph=\"X\" | ",
        "2500 inner_entry | pid=1 tid=2 comm=\"main\" process_name=\"mill\" | ph=\"X\" cat=\"c\" | path=\"/a\" n=-1",
        "3500 inner_exit | pid=1 tid=2 comm=\"main\" process_name=\"mill\" | ph=\"X\" | ",
        "3500 outer_exit | pid=1 tid=2 comm=\"main\" process_name=\"mill\" | ph=\"X\" | ",
        "3500 zero_entry | pid=1 tid=2 comm=\"main\" process_name=\"mill\" | ph=\"X\" | ",
        "3500 zero_exit | pid=1 tid=2 comm=\"main\" process_name=\"mill\" | ph=\"X\" | ",
        "9000 slice_exit | pid=1 tid=3 comm=null process_name=\"mill\" | ph=\"E\" | ",
    ];
    assert_eq!(read.lines, want);
    assert!(read.faults.is_empty() && read.warnings.is_empty());
}

#[test]
fn slices_of_one_time_nest() {
    let event = |name: &str, ts: u32, dur: u32| {
        format!("{{\"name\":\"{name}\",\"ph\":\"X\",\"ts\":{ts},\"dur\":{dur},\"pid\":1,\"tid\":1}}")
    };
    let events = [event("c", 5, 2), event("a", 5, 9), event("b", 5, 9), event("d", 7, 7), event("e", 5, 0)];
    let read = read(&format!("[{}", events.join(",\n")));
    let names: Vec<&str> = read.lines.iter().map(|line| line.split(' ').nth(1).expect("a name")).collect();
    let want =
        ["a_entry", "b_entry", "c_entry", "e_entry", "e_exit", "c_exit", "d_entry", "d_exit", "b_exit", "a_exit"];
    assert_eq!(names, want);
}

#[test]
fn other_phases_keep_all_that_they_say() {
    let read = read(
        r#"[{"name":"mem","ph":"C","ts":1,"pid":1,"args":{"used":5,"free":1.5}},
            {"name":"io","ph":"b","cat":"x","id":"0x1","ts":2,"pid":1,"tid":1},
            {"name":"io","ph":"e","id":"0x1","cat":"x","ts":3,"pid":1,"tid":2},
            {"name":"step","ph":"s","id":7,"cat":"f","ts":4,"pid":1,"tid":1},
            {"name":"step","ph":"f","id":7,"cat":"f","bp":"e","ts":5,"pid":1,"tid":2},
            {"name":"now","ph":"i","s":"g","ts":6,"pid":"render","tid":"io"},
            {"name":"odd","ph":"Q","ts":7,"args":"text"}]"#,
    );
    let field = |at: usize, name: &str| {
        let rest = read.lines[at].split(&format!("{name}=")).nth(1).expect("the field");
        rest.split(' ').next().expect("a value").to_string()
    };
    let name = |at: usize| read.lines[at].split(' ').nth(1).expect("a name");
    assert_eq!(
        (0..7).map(name).collect::<Vec<_>>(),
        ["mem_counter", "io_entry", "io_close", "step", "step", "now", "odd"]
    );
    assert!(read.lines[0].ends_with("used=5 free=Real(1.5)"), "{}", read.lines[0]);
    assert_eq!(field(1, "span_id"), field(2, "span_id"));
    assert_eq!(field(3, "flow_id"), field(4, "flow_id"));
    assert!(read.lines[4].contains("bp=\"e\""));
    assert_ne!(field(5, "pid"), "0");
    assert!(read.lines[6].ends_with("| ph=\"Q\" | args=\"text\""), "{}", read.lines[6]);
}

#[test]
fn files_of_tracemill_have_their_scopes_again() {
    let read = read(
        r#"{"displayTimeUnit":"ns","otherData":{"base_ns":"1700000000000000001","base_origin":"unix"},"traceEvents":[
            {"name":"a","ph":"i","s":"t","pid":1,"tid":2,"ts":0.002,"args":{"stream_context":{"cpu":3},"payload":{"n":4}}}]}"#,
    );
    assert_eq!(read.lines, ["1700000000000000003 a | pid=1 tid=2 | ph=\"i\" s=\"t\" cpu=3 | n=4"]);
}

#[test]
fn damage_costs_an_event() {
    let read = read(
        r#"[{"name":"a","ph":"i","ts":1,"pid":1,"tid":1},
            {"name":"b","ph":"i","ts":2,"pid":1,"tid":1,"args":{"x":nope,"list":[{"ph":1}]}},
            {"name":"c","ph":"i","ts":3,"pid":1,"tid":1}, 17,
            {"name":"d","ph":"i","pid":1,"tid":1},
            {"name":"e","ph":"X","ts":3,"dur":-1,"pid":1,"tid":1},
            {"name":"f","ph":"i","ts":5,"pid":1,"tid":1},
            {"name":"g","ph":"i","ts":6,"pi"#,
    );
    let names: Vec<&str> = read.lines.iter().map(|line| line.split(' ').nth(1).expect("a name")).collect();
    assert_eq!(names, ["a", "c", "f"]);
    assert_eq!(
        read.faults,
        [
            "no JSON value begins like this; the event is skipped",
            "an event is expected in the list of events",
            "the event has no `ts`; the event is skipped",
            "`dur` is not a length of time; the event is skipped",
            "the file ends in the middle of an event",
        ]
    );
}

#[test]
fn times_before_zero_and_members_that_are_not_read() {
    let read = read(
        r#"{"traceEvents":[{"name":"a","ph":"i","ts":-5,"pid":1},{"name":"b","ph":"i","ts":"1.5","pid":1}],
            "systemTraceEvents":"tracer","samples":17,"stackFrames":[]}"#,
    );
    assert_eq!(read.lines, ["-5000 a | pid=1 tid=0 | ph=\"i\" | ", "1500 b | pid=1 tid=0 | ph=\"i\" | "]);
    assert_eq!(read.warnings, ["the trace has members next to its events that are not read: `systemTraceEvents`"]);
}

/// Frames of a dictionary, whose innermost stack is 3, 2, 1. Number 7 calls itself, and 8 is none.
const STACKS: &str = r#""stackFrames":{"1":{"name":"main","category":"app"},"2":{"parent":"1","name":"add (\"x\")"},
    "3":{"name":"beef","category":"[kernel]","parent":2},"7":{"name":"loop","parent":7},"8":{"category":"c"}}"#;

#[test]
fn samples_have_the_names_of_their_stacks() {
    let list = r#"[{"name":"tick","ph":"P","ts":1,"pid":1,"tid":2,"sf":3,"args":{"n":4}},
        {"name":"now","ph":"i","s":"t","ts":2,"pid":1,"tid":2,"sf":"1"},
        {"name":"slice","ph":"B","ts":3,"pid":1,"tid":2,"sf":3},
        {"name":"other","ph":"P","ts":4,"pid":1,"tid":2,"sf":8}]"#;
    let want = [
        r#"1000 tick | pid=1 tid=2 | ph="P" callchain=["0 beef ([kernel])" "0 add (\"x\") ([unknown])" "main (app)"] | n=4"#,
        r#"2000 now | pid=1 tid=2 | ph="i" s="t" callchain=["main (app)"] | "#,
        r#"3000 slice_entry | pid=1 tid=2 | ph="B" sf=3 | "#,
        r#"4000 other | pid=1 tid=2 | ph="P" sf=8 | "#,
    ];
    // Before the events and after them.
    for text in [format!("{{\"traceEvents\":{list},{STACKS}}}"), format!("{{{STACKS},\"traceEvents\":{list}}}")] {
        let read = read(&text);
        assert_eq!((read.lines.as_slice(), read.faults, read.warnings), (&want.map(String::from)[..], vec![], vec![]));
    }
    // The name of a member inside of an event is not one.
    let read =
        read(r#"{"traceEvents":[{"name":"a","ph":"P","ts":1,"sf":1,"args":{"stackFrames":{"1":{"name":"f"}}}}]}"#);
    assert!(read.lines[0].contains("sf=1"), "{:?}", read.lines);
}

#[test]
fn a_list_of_samples_is_read_after_the_events() {
    let samples = r#"[{"cpu":1,"tid":"5","ts":"2","name":"clock","sf":3,"weight":1},{"tid":5,"ts":1,"sf":1,"name":"clock","cpu":0,"weight":2},
        {"tid":5,"name":"clock","sf":1}, {"tid":6,"ts":3,"name":"clock","cpu":0,"sf":7,"weight":1}]"#;
    let event = r#"{"name":"a","ph":"i","ts":1.5,"pid":1,"tid":5}"#;
    let read = read(&format!("{{\"traceEvents\":[{event}],{STACKS},\"samples\":{samples}}}"));
    let starts: Vec<&str> = read.lines.iter().map(|line| line.split(" | ").next().expect("a part")).collect();
    assert_eq!(starts, ["1000 clock", "1500 a", "2000 clock", "3000 clock"]);
    assert!(read.lines[0].contains("tid=5 | ph=\"P\"") && read.lines[0].contains("callchain=[\"main (app)\"]"));
    assert_eq!(read.faults, ["the event has no `ts`; the event is skipped"]);
    // Its frame calls itself: the stack ends somewhere.
    let calls = read.lines[3].matches("\"loop\"").count();
    assert!((1000..10_000).contains(&calls), "{calls}");
}

#[test]
fn samples_of_tracemill_are_among_its_events() {
    let read = read(&format!(
        r#"{{"otherData":{{"base_ns":"5","base_origin":"unknown"}},"traceEvents":[
            {{"name":"a","ph":"B","pid":1,"tid":2,"ts":0,"sf":1,"args":{{"payload":{{"n":4}}}}}}],{STACKS},
            "samples":[{{"tid":2,"ts":0,"name":"a","sf":1,"weight":1}}]}}"#
    ));
    assert_eq!(read.lines, [r#"5 a_entry | pid=1 tid=2 | ph="B" callchain=["main (app)"] | n=4"#]);
    assert!(read.faults.is_empty() && read.warnings.is_empty());
}

#[test]
fn many_packets_are_in_order() {
    let events =
        (0..30_000u64).rev().map(|at| format!("{{\"name\":\"n{}\",\"ph\":\"i\",\"ts\":{at},\"pid\":1}}", at % 9));
    let read = read(&format!("[{}]", events.collect::<Vec<_>>().join(",")));
    let times = read.lines.iter().map(|line| line.split(' ').next().expect("a time").parse::<u64>().expect("a number"));
    assert!(times.eq((0..30_000).map(|at| at * 1000)));
}

#[test]
fn other_files_are_not_taken() {
    for text in ["", "{}", "[]", "[1]", "{\"ns\":1}", "[{\"a\":1}]", "# tracer: nop"] {
        assert!(!OneFile::new(text).is_of(&super::FORMAT), "{text}");
    }
}
