//! Whole files: what they become, and what is reported of damaged ones.

use tracemill_format::testing::{OneFile, events_of, shown};
use tracemill_format::{Format, OpenTrace};
use tracemill_model::clock::ClockMap;
use tracemill_model::error::Error;
use tracemill_model::schema::{ClockOrigin, Scope};

use crate::{FIREFOX, FOLDED, SPEEDSCOPE};

/// The result of reading: a line for each event.
struct Read {
    lines: Vec<String>,
    faults: Vec<String>,
    warnings: Vec<String>,
    trace: OpenTrace,
}

fn read(format: &'static Format, text: &str) -> Read {
    let file = OneFile::new(text);
    for one in [&FOLDED, &SPEEDSCOPE, &FIREFOX] {
        assert_eq!(file.is_of(one), std::ptr::eq(one, format), "{:?}: {text}", one.names);
    }
    let trace = file.open_as(format).expect("a trace");
    let messages = |errors: &[Error]| errors.iter().map(|error| error.message().to_string()).collect();
    let (faults, warnings, mut lines) = (messages(&trace.faults), messages(&trace.warnings), Vec::new());
    for stream in &trace.streams {
        let clock = trace.schema.stream(stream.class).default_clock;
        let map = clock.map(|clock| ClockMap::new(trace.schema.clock(clock), 0));
        for index in 0..stream.packets.len() {
            let opened = trace.reader.open_packet(&trace.plans, stream, index, 0).expect("a packet");
            assert!(opened.faults.is_empty(), "{:?}", opened.faults);
            let chunk = events_of(opened.data);
            for at in 0..chunk.len() {
                let event = chunk.event(at);
                let name = trace.schema.event(event.class()).name.clone().unwrap_or_default();
                let values = |scope| event.values(scope).expect("whole").map_or(String::new(), |of| shown(&of));
                let ns = map.as_ref().map_or("-".to_string(), |map| map.ns(event.cycles()).to_string());
                lines.push(format!("{ns} {name} | {} | {}", values(Scope::CommonContext), values(Scope::Payload)));
            }
        }
    }
    Read { lines, faults, warnings, trace }
}

#[test]
fn folded_stacks_are_samples_without_time() {
    let more = "main;g 1\n".repeat(9);
    let text = format!("main;f(int, long);dead beef 12\r\nmain 3\n\nmain;f x\n{more}idle;nap 18446744073709551615");
    let mut found = read(&FOLDED, &text);
    assert_eq!(found.lines.len(), 12);
    found.lines.dedup();
    assert_eq!(
        found.lines,
        [
            "- stack | comm=\"\" | period=12 callchain=[\"0 dead beef\" \"f(int, long)\" \"main\"]",
            "- stack | comm=\"\" | period=3 callchain=[\"main\"]",
            "- stack | comm=\"\" | period=1 callchain=[\"g\" \"main\"]",
            "- stack | comm=\"\" | period=18446744073709551615 callchain=[\"nap\" \"idle\"]",
        ]
    );
    assert_eq!(found.faults, ["a line is no stack with a number"]);
    assert_eq!(found.trace.faults[0].place().offset, Some(40));
    for other in ["", "a b 12\nc d 4\n", "a;b 1\nnot a stack\n", "a;b -1\n", "{\"a\":1}"] {
        assert!(!OneFile::new(other).is_of(&FOLDED), "{other:?}");
    }
}

const SHARED: &str = r#"{"$schema":"https://www.speedscope.app/file-format-schema.json","shared":{"frames":[{"name":"main","file":"a.c","line":1},{"name":"f"}]},"profiles":["#;

#[test]
fn sampled_profiles_of_speedscope_are_samples() {
    let text = r#"{"type":"sampled","name":"cpu-clock: mill 7","unit":"milliseconds","startValue":1.5,"endValue":9,
        "samples":[[0,1],[],[0,9]],"weights":[0.25,2,1]},
        {"type":"sampled","name":"","unit":"bytes","startValue":0,"endValue":9,"samples":[[1]],"weights":[64]}],"exporter":"x"}"#;
    let found = read(&SPEEDSCOPE, &format!("{SHARED}{text}"));
    assert_eq!(
        found.lines,
        [
            "1500000 cpu-clock | tid=7 comm=\"mill\" | period=250000 callchain=[\"f\" \"main (a.c)\"]",
            "1750000 cpu-clock | tid=7 comm=\"mill\" | period=2000000 callchain=[]",
            "3750000 cpu-clock | tid=7 comm=\"mill\" | period=1000000 callchain=[\"main (a.c)\"]",
            "- bytes | comm=\"\" | period=64 callchain=[\"f\"]",
        ]
    );
    assert_eq!(found.faults, ["1 frames or events of a profile name no frame or no time, and are left out"]);
}

#[test]
fn evented_profiles_of_speedscope_are_calls() {
    let text = r#"{"type":"evented","name":"mill 7","unit":"microseconds","startValue":0,"endValue":9,"events":[
        {"type":"O","frame":0,"at":-1},{"type":"O","frame":1,"at":2.5},{"type":"C","frame":1,"at":3},{"type":"?","frame":1,"at":3}]},
        {"type":"other"}, {"type":"evented","name":"cut"#;
    let found = read(&SPEEDSCOPE, &format!("{SHARED}{text}"));
    assert_eq!(
        found.lines,
        [
            "-1000 func_entry | tid=7 comm=\"mill\" | symbol=\"main (a.c)\"",
            "2500 func_entry | tid=7 comm=\"mill\" | symbol=\"f\"",
            "3000 func_exit | tid=7 comm=\"mill\" | symbol=\"f\"",
        ]
    );
    assert_eq!(
        found.faults,
        [
            "1 frames or events of a profile name no frame or no time, and are left out",
            "a profile is neither `sampled` nor `evented`",
            "the file ends in a profile, which is left out",
        ]
    );
}

/// A thread of the Firefox Profiler with these samples and markers, beside two stacks: `main`, and `f` in it.
fn firefox(head: &str, samples: &str, markers: &str) -> String {
    let tables = r#""stringArray":["main","f","GC"],"funcTable":{"length":2,"name":[0,1]},
        "frameTable":{"length":2,"func":[0,1]},"stackTable":{"length":3,"prefix":[null,0,2],"frame":[0,1,1]}"#;
    format!(
        r#"{{"meta":{{"preprocessedProfileVersion":55,"startTime":{head}}},"threads":[{{"name":"Web Content","pid":"12","tid":13,
        "processName":"firefox",{tables},"samples":{{{samples}}},"markers":{{{markers}}}}}]}}"#
    )
}

#[test]
fn profiles_of_firefox_are_samples_and_markers() {
    let text = firefox(
        "1700000000000.5",
        r#""length":3,"stack":[1,null,0],"time":[1,3.5,2.000001],"weight":null,"weightType":"samples""#,
        r#""length":2,"name":[2,9],"startTime":[2.5,1],"endTime":[null,null]"#,
    );
    let found = read(&FIREFOX, &text);
    let who = "pid=12 tid=13 comm=\"Web Content\" process_name=\"firefox\"";
    assert_eq!(
        found.lines,
        [
            format!("1700000000001500000 sample | {who} | period=1 callchain=[\"f\" \"main\"]"),
            format!("1700000000002500001 sample | {who} | period=1 callchain=[\"main\"]"),
            format!("1700000000003000000 GC | {who} | "),
            format!("1700000000004000000 sample | {who} | period=1 callchain=[]"),
        ]
    );
    assert_eq!(found.trace.schema.clocks()[0].origin, ClockOrigin::Unix);
    // The third stack is its own caller, the second marker has no name.
    assert_eq!(found.faults, ["2 samples, markers or stacks of a thread refer to what is not there"]);
}

#[test]
fn times_of_firefox_may_be_distances_and_weights_times() {
    let samples = r#""length":2,"stack":[0,1],"timeDeltas":[1,0.5],"weight":[2,0.25],"weightType":"tracing-ms""#;
    let found = read(&FIREFOX, &firefox("0", samples, ""));
    let who = "pid=12 tid=13 comm=\"Web Content\" process_name=\"firefox\"";
    assert_eq!(
        found.lines,
        [
            format!("1000000 wall-clock | {who} | period=2000000 callchain=[\"main\"]"),
            format!("1500000 wall-clock | {who} | period=250000 callchain=[\"f\" \"main\"]"),
        ]
    );
    assert_eq!(found.trace.schema.clocks()[0].origin, ClockOrigin::Unknown);
}

#[test]
fn deep_stacks_keep_their_innermost_functions() {
    let stack: Vec<String> = (0..5000).map(|at| format!("f{at}")).collect();
    let text: String = (0..120).map(|_| format!("{} 1\n", stack.join(";"))).collect();
    let found = read(&FOLDED, &text);
    assert_eq!(found.lines.len(), 120);
    assert!(found.lines[0].contains("callchain=[\"f4999\" ") && found.lines[0].ends_with("\"f904\"]"));
    assert_eq!(found.warnings, ["stacks of more than 4096 functions: the outermost are left out"]);
    // Each of them has 20 kB of names.
    assert!(found.trace.streams[0].packets.len() > 1);
}

#[test]
fn damaged_files_are_read_up_to_the_damage() {
    for text in ["{\"shared\":{\"frames\":[", "{\"$schema\":\"speedscope\",\"frames\":1}", SHARED] {
        let file = OneFile::new(text);
        assert!(file.is_of(&SPEEDSCOPE) || !text.contains("speedscope"), "{text}");
        // An error, or a trace without events.
        if let Ok(trace) = file.open_as(&SPEEDSCOPE) {
            assert!(trace.streams.is_empty() && !trace.faults.is_empty(), "{text}");
        }
    }
    let whole = firefox("0", r#""stack":[0],"time":[1]"#, "");
    for cut in (0..whole.len()).step_by(7) {
        let file = OneFile::new(&whole[..cut]);
        if let Ok(trace) = file.open_as(&FIREFOX) {
            assert!(!trace.faults.is_empty(), "{}", &whole[..cut]);
        }
    }
}
