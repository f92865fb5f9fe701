//! Names, ids, times: what needs no field.

use super::{Input, kernel, kernel_named, open};
use crate::filter::{Expression, Needs, TimeContext};

const FIRST: i128 = 1_700_000_001_000_000_000;
const FAR: i128 = 1 << 100;

#[test]
fn words_of_the_spine() {
    let input = kernel();
    for (text, want) in [
        ("id == 1", vec![2, 3]),
        ("stream == 7", vec![0, 1, 2, 3, 4, 5]),
        ("stream == 0", vec![]),
        (r#"stream == "channel0_*""#, vec![0, 1, 2, 3, 4, 5]),
        (r#"stream != "channel0_1""#, vec![]),
        ("cpu == 2", vec![0, 1, 2, 3, 4, 5]),
        ("cpu in (0, 1)", vec![]),
        (r#"trace == "kern*""#, vec![0, 1, 2, 3, 4, 5]),
        ("ns == 1700000001002000000", vec![2]),
        ("ns >= 1700000001003000000.5", vec![4, 5]),
        ("cycles < 1001000000", vec![0]),
    ] {
        assert_eq!(input.matching(text), want, "{text}");
    }
}

#[test]
fn several_traces_know_their_names() {
    let input = kernel_named(&["a/one", "a/two"]);
    assert_eq!(input.matching(r#"trace == "*/two" and name == "tick""#), [10]);
    assert!(input.filter(r#"trace == "*/two""#).is_decided_by_spine());
}

#[test]
fn times_of_each_form() {
    let input = kernel();
    for (text, want) in [
        (r#"time == "1700000001.002""#, vec![2]),
        (r#"time == "1700000001002000000ns""#, vec![2]),
        (r#"time >= "2023-11-14 22:13:21.004""#, vec![4, 5]),
        (r#"time < "2023-11-14T23:13:21.001+01:00""#, vec![0]),
        (r#"time >= "22:13:21.005""#, vec![5]),
        (r#"time >= "+3ms" and time <= "-1ms""#, vec![3, 4]),
        (r#"time in ("+1ms", "+2ms")"#, vec![1, 2]),
        (r#"time != "+1ms""#, vec![0, 2, 3, 4, 5]),
        (r#""+4ms" < time"#, vec![5]),
        ("time", vec![0, 1, 2, 3, 4, 5]),
    ] {
        assert_eq!(input.matching(text), want, "{text}");
    }
}

#[test]
fn needs_are_known_before_binding() {
    let needs = |text: &str| Expression::parse(text).unwrap().needs();
    assert_eq!(needs("id == 1"), Needs::default());
    assert_eq!(needs(r#"id == 1 or not (time > "+1s")"#), Needs { first: true, last: false });
    assert_eq!(needs(r#"time > "10:00" and time < "-1s""#), Needs { first: true, last: true });
    assert_eq!(needs(r#"time > "12.5" and prev_comm == "+1s""#), Needs::default());
}

#[test]
fn time_ranges_are_those_of_conjunctions() {
    let input = kernel();
    let range = |text: &str| input.filter(text).time_range();
    assert_eq!(range(r#"time >= "+1ms""#), Some((FIRST + 1_000_000, FAR)));
    assert_eq!(
        range(r#"time > "+1ms" and ns < 1700000001004000000 and vtid"#),
        Some((FIRST + 1_000_001, FIRST + 3_999_999))
    );
    assert_eq!(range(r#"time == "+1ms" or time == "+3ms""#), Some((FIRST + 1_000_000, FIRST + 3_000_000)));
    assert_eq!(range(r#"time == "+1ms" or vtid"#), None);
    assert_eq!(range(r#"not time == "+1ms""#), None);
    assert_eq!(range("ns > 5 and ns < 5"), Some((FAR, -FAR)));
    assert_eq!(range("ns == 1.5"), Some((FAR, -FAR)));
    assert_eq!(range("ns <= 1.5"), Some((-FAR, 1)));
    assert_eq!(range("ns >= 1.5"), Some((2, FAR)));
    assert_eq!(range("ns > 99999999999999999999999999999999999999999999"), Some((FAR, -FAR)));
    assert_eq!(range("ns > -99999999999999999999999999999999999999999999"), None);
    assert_eq!(range("ns != 5"), None);
    assert_eq!(range("false"), Some((FAR, -FAR)));
}

#[test]
fn classes_that_cannot_match_are_left_out() {
    let input = kernel();
    let classes = |text: &str| {
        let classes = input.filter(text).classes(0)?;
        Some((0..4).filter(|&at| classes.has(at)).collect::<Vec<_>>())
    };
    assert_eq!(classes(r#"name == "sched_*" and vtid == 1"#), Some(vec![0]));
    assert_eq!(classes("prev_pid == 0"), Some(vec![0]));
    assert_eq!(classes("not prev_pid == 0"), None);
    assert_eq!(classes("prev_pid == 0 or ret == 0"), Some(vec![0, 1]));
    assert_eq!(classes("vtid == 0"), None);
    assert_eq!(classes("id == 1 and id == 2"), Some(vec![]));
    assert_eq!(classes("stream != 7"), Some(vec![]));
    assert_eq!(classes(r#"stream == "x""#), None);
}

#[test]
fn the_spine_decides_names_and_times() {
    let input = kernel();
    for (text, want) in [
        (r#"name == "sched_*""#, true),
        (r#"name == "sched_*" and time >= "+1ms" and ns < 1700000001004000000"#, true),
        (r#"not name == "tick" or id == 7"#, true),
        (r#"id == 2 or prev_pid == 0 and id == 1"#, true),
        (r#"name == "sched_*" or time >= "+1ms""#, false),
        (r#"time != "+1ms""#, false),
        ("cpu == 2", false),
        (r#"stream == "x""#, false),
        ("vtid == 1", false),
        ("cycles > 1", false),
    ] {
        assert_eq!(input.filter(text).is_decided_by_spine(), want, "{text}");
        input.matching(text);
    }
}

#[test]
fn an_event_without_time_has_none_of_its_words() {
    let input = kernel();
    for text in ["ns", "time", "cycles", r#"time != "0""#, "ns >= 0", "ns != 0"] {
        let filter = input.filter(text);
        let mut matcher = filter.matcher();
        let mut event = input.events().next().unwrap();
        event.ns = None;
        assert!(!matcher.matches(&event), "{text}");
    }
}

#[test]
fn traces_without_clock_or_events() {
    let metadata = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; };\n\
        event { fields := struct { integer { size = 8; align = 8; } x; }; };";
    let schema = || tracemill_ctf::tsdl::parse(metadata, false).unwrap().0;
    let input = Input::new(vec![("plain", schema(), vec![1, 2, 3])]);
    assert_eq!(input.matching("x >= 2"), [1, 2]);
    assert!(input.fault(r#"time > "5""#).1.contains("no stream of the input has a clock"));
    assert!(input.fault("cpu == 0").1.contains("no packet of the input names a cpu"));
    assert!(input.fault("name == 'x'").1.contains("no event class of the input has `name`"));
    // With a second trace that has times, the first one's events have none.
    let mut both = kernel();
    let (trace, chunk) = open("plain", schema(), vec![1, 2, 3]);
    both.session.traces.push(trace);
    both.session.corrections.push(0);
    both.chunks.push((1, 0, chunk.unwrap()));
    assert_eq!(both.matching("ns > 0 and id == 0"), [0, 1]);
    assert!(!both.filter("ns > 0").is_decided_by_spine() || both.filter("ns > 0").classes(1).is_some());
    assert_eq!(both.matching("not time > '0'"), [6, 7, 8]);
    assert_eq!(both.matching("x"), [6, 7, 8]);
    let none = Input::new(Vec::new());
    assert!(none.matching("anything == 5").is_empty());
}

#[test]
fn filters_are_shared_between_threads() {
    fn is_shared<T: Send + Sync + Clone>(_: &T) {}
    let input = kernel();
    let filter = input.filter(r#"path =~ "x" and cpu == 2"#);
    is_shared(&filter);
    let times = TimeContext { gmt: true, ..TimeContext::default() };
    let error = Expression::parse(r#"id == 1 and time > "+1ms""#).unwrap().bind(&input.session, &times).err().unwrap();
    assert_eq!(error.place().text.as_ref().unwrap().column, 21);
}
