//! A time, filter, name or task that selects nothing: each command says why.

mod util;

use util::{Folder, run, run_with, ticks_metadata, ticks_packet};

const AFTER: &str =
    "selects events from 2030-01-01 00:00:00.000000000, but the last event is at 2026-11-21 08:31:10.781941362";
const BEFORE: &str =
    "selects events up to 1999-01-01 00:00:00.000000000, but the first event is at 2026-11-21 08:31:10.212652163";

#[test]
fn times_outside_of_the_trace_are_told_beside_its_own() {
    for format in ["text", "jsonl", "csv"] {
        run(&format!("print --format {format} --begin 2030-01-01 mill")).ends(0, &["`--begin 2030-01-01`", AFTER]);
        run(&format!("print --format {format} --end 1999-01-01 mill")).ends(0, &["`--end 1999-01-01`", BEFORE]);
    }
    run("print --begin +1h mill").ends(0, &["`--begin +1h` selects events from 2026-11-21 09:31:10.212652163"]);
    // A count of seconds is answered by one.
    run("print --begin 2000000000 mill")
        .ends(0, &["from 2000000000.000000000, but the last event is at 1795249870.781941362"]);
    run("report --state mill:grind --begin 2030-01-01 mill").ends(0, &[AFTER]);
    run_with("print mill --filter", &["time > \"2030-01-01\""]).ends(0, &["events are wanted from 2030-01-01"]);
    run("print --begin 08:31:10.2127 --end 08:31:10.212701 mill").ends(0, &["none between them"]);
    // Other streams go on.
    run("print --begin 08:31:10.78 --stream paper_0 mill").ends(0, &["but the last event is at 2026-11-21 08:31:10.7"]);
    assert_eq!(run("print --begin 2030-01-01 -q mill").ends(0, &[]).stderr, "");
}

#[test]
fn every_output_of_convert_says_why_it_is_empty() {
    let folder = Folder::new();
    let mill = util::demo("mill");
    for target in ["ctf2", "ctf1.8", "perfetto", "chrome", "jsonl", "csv", "cpel", "gist", "html"] {
        let out = folder.path(target).display().to_string();
        let run = run_with("convert --begin 2030-01-01 --force", &["--to", target, "-o", &out, &mill]);
        assert!(run.stderr.contains(AFTER), "{target}: {}", run.stderr);
    }
}

#[test]
fn names_that_nothing_has_are_told_with_what_was_meant() {
    let of = |filter: &str| run_with("print mill --filter", &[filter]).ends(0, &[]).stderr;
    assert_eq!(
        of("name == \"mill:gind\""),
        "warning: no event class is called `mill:gind`; did you mean `mill:grind`?\n"
    );
    assert_eq!(of("name =~ \"^gind\""), "warning: no event class matches `^gind`\n");
    assert_eq!(of("name == \"mil:*\" and payload.gear == 3"), "warning: no event class matches `mil:*`\n");
    assert_eq!(of("stream == \"paper_9\""), "warning: no stream is called `paper_9`; did you mean `paper_0`?\n");
    // Names of which one is there, and names that are not wanted, are no reason.
    assert_eq!(of("(name == \"mill:gind\" or name == \"mill:grind\") and payload.gear == 3 and time > \"08:00\""), "");
    assert_eq!(
        of("name != \"mill:gind\" and payload.gear == 99"),
        "warning: no event is selected: none matches --filter\n"
    );
    assert_eq!(
        of("name == \"mill:stage\" and payload.gear == 3"),
        "warning: no event is selected: no event class can match --filter\n"
    );
    assert_eq!(
        run("print --skip 99999 mill").ends(0, &[]).stderr,
        "warning: no event is selected: --skip 99999 leaves all of them out\n"
    );
    assert_eq!(run("print --limit 0 mill").ends(0, &[]).stderr, "");
}

#[test]
fn a_trace_without_events_says_so_only_when_something_was_selected() {
    let folder = Folder::new();
    folder.file("t/metadata", ticks_metadata("")).file("t/s", ticks_packet(&[], 0));
    assert_eq!(folder.run("print t").ends(0, &[]).stderr, "");
    folder.run("print t --begin 5").ends(0, &["there are no events to select from"]);
}

#[test]
fn tasks_and_ranges_without_calls_are_told() {
    for command in ["replay", "report", "graph", "flame", "dump"] {
        let at = "../calls/tasting";
        run(&format!("{command} --tid 99 {at}"))
            .ends(0, &["no task has the tid `99`; the tasks are 12529, 12531, 12532"]);
        run(&format!("{command} -r 5s~6s {at}"))
            .ends(0, &["no record is in this time range: the records are from 0.0"]);
        run(&format!("{command} -r 1~2 {at}")).ends(0, &["the records are from 7896.529012739 s to 7896.540497038 s"]);
        assert!(
            !run(&format!("{command} -r 1us~6s --tid 12531 {at}")).ends(0, &[]).stderr.contains("no "),
            "{command}"
        );
        run(&format!("{command} -F tasting::tast {at}"))
            .ends(0, &["`tasting::tast` matches no function; did you mean `tasting::taste`?"]);
    }
}
