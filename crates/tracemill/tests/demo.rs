//! The examples, run on the demo traces.

use std::path::{Path, PathBuf};

use tracemill::{FORMATS, FileSystem, OpenOptions, Session, check, survey};

#[path = "../examples/count.rs"]
mod count;
#[path = "../examples/lines.rs"]
mod lines;

fn demo(trace: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo").join(trace)
}

#[test]
fn counts_are_those_of_the_demo() {
    let (counts, lost) = count::count(&[demo("")]).expect("the demo can be opened");
    let events = |name: &str| counts[name].events;
    assert_eq!(counts.values().map(|count| count.events).sum::<u64>(), 4295);
    assert_eq!((events("mill:grind"), events("mill:label"), events("orders:complaint")), (1106, 189, 20));
    assert_eq!(lost, 7070);
    assert!(counts["mill:label"].string_bytes > 0);
    assert_eq!(counts["mill:bell"].string_bytes, 0);
}

#[test]
fn lines_do_not_depend_on_the_number_of_threads() {
    let run = |jobs| {
        let mut out = Vec::new();
        let paths = [demo("traces/mill"), demo("traces/orders")];
        lines::write_lines(&mut out, "name == \"orders:*\" and payload.id > 100", &paths, jobs)
            .expect("the demo opens");
        String::from_utf8(out).expect("JSON lines are UTF-8")
    };
    let one = run(1);
    assert!(one.lines().count() > 100 && one.lines().all(|line| line.contains("\"name\":\"orders:")), "{one:.300}");
    assert_eq!(one, run(3));
}

#[test]
fn a_path_that_no_event_class_has_is_an_error_with_its_place() {
    let error = lines::write_lines(&mut Vec::new(), "payload.idd == 1", &[demo("traces/orders")], 1);
    let error = error.expect_err("no event class has it").to_string();
    assert!(error.contains("line 1, column 9") && error.contains("did you mean"), "{error}");
}

#[test]
fn survey_and_check_agree_on_the_losses() {
    let session =
        Session::open(&FileSystem, &[demo("traces/losses")], &OpenOptions::new(FORMATS)).expect("options are right");
    assert!(session.failures.is_empty());
    let [trace] = &survey(&session, true, 1)[..] else { panic!("one trace") };
    assert_eq!(trace.streams.iter().filter_map(|stream| stream.discarded_events).sum::<u64>(), 7070);
    assert_eq!(trace.class_events.as_ref().map(|counts| counts.iter().sum::<u64>()), Some(931));
    assert_eq!(check(&session, |_| true), 931);
}
