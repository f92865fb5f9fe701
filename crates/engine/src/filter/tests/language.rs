//! Operators, literals, precedence.

use super::kernel;
use crate::filter::Expression;

#[test]
fn globs_and_plain_strings() {
    let input = kernel();
    for (text, want) in [
        (r#"name == "sched_*""#, vec![0, 1]),
        (r#"name == 'sched_switch'"#, vec![0, 1]),
        (r#"name != "sched_*""#, vec![2, 3, 4, 5]),
        (r#"name == "t?ck""#, vec![4]),
        (r#"name == "*""#, vec![0, 1, 2, 3, 4, 5]),
        (r#""sched_*" == name"#, vec![0, 1]),
        (r#"prev_comm == "bash*""#, vec![1]),
        (r#"prev_comm == "bash\*""#, vec![1]),
        (r#"prev_comm == "bas\*""#, vec![]),
        (r#"prev_comm == "*""#, vec![0, 1]),
        (r#"path == "/etc/?""#, vec![3]),
        (r#"path == "/etc/??""#, vec![]),
        (r#"name in ("tick", "file_*")"#, vec![2, 3, 4]),
    ] {
        assert_eq!(input.matching(text), want, "{text}");
    }
}

#[test]
fn strings_are_ordered_by_bytes_and_globs_mean_nothing_there() {
    let input = kernel();
    assert_eq!(input.matching(r#"prev_comm < "bash+""#), [1]);
    assert_eq!(input.matching(r#"prev_comm >= "bash*""#), [0, 1]);
    assert_eq!(input.matching(r#"prev_comm > "bash*""#), [0]);
    assert_eq!(input.matching(r#"prev_comm <= "bash\*""#), [1]);
}

#[test]
fn regular_expressions_search_anywhere() {
    let input = kernel();
    assert_eq!(input.matching(r#"path =~ "^/proc/""#), [2]);
    assert_eq!(input.matching(r#"path =~ "\w+/é$""#), [3]);
    assert_eq!(input.matching(r#"name =~ "sw|ck""#), [0, 1, 4]);
    assert_eq!(input.matching(r#"prev_comm =~ 'h\*'"#), [1]);
    assert_eq!(input.matching(r#"stream_context.procname =~ "^pr.g$""#), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn numbers_of_every_form_and_operator() {
    let input = kernel();
    for (text, want) in [
        ("prev_pid == 0", vec![0]),
        ("prev_pid != 0", vec![1]),
        ("prev_pid < 0", vec![1]),
        ("prev_pid <= -5", vec![1]),
        ("prev_pid > -5", vec![0]),
        ("prev_pid >= -0x5", vec![0, 1]),
        ("-5 == prev_pid", vec![1]),
        ("0 > prev_pid", vec![1]),
        ("prev_pid == 0.0", vec![0]),
        ("prev_pid > -5.5", vec![0, 1]),
        ("args[1] == 0o200", vec![0]),
        ("args[1] == 0b10000000", vec![0]),
        ("ret == 3e0", vec![3]),
        ("load == 0.5", vec![2]),
        ("load < 1", vec![2]),
        ("load <= 5e-1", vec![2]),
        ("ret in (-2, 0x3)", vec![2, 3]),
        ("vtid in (1)", vec![3]),
    ] {
        assert_eq!(input.matching(text), want, "{text}");
    }
}

#[test]
fn nan_is_unequal_to_everything_and_not_zero() {
    let input = kernel();
    assert_eq!(input.matching("load != 0.5"), [3]);
    assert_eq!(input.matching("load == load"), [2]);
    assert_eq!(input.matching("load >= 0 or load < 0"), [2]);
    assert_eq!(input.matching("load"), [2, 3]);
}

#[test]
fn masks() {
    let input = kernel();
    for (text, want) in [
        ("payload.args[1] & 0x80 != 0", vec![0]),
        ("payload.args[1] & 0x80", vec![0]),
        ("(args[1] & 0x7f) == 0x7f", vec![1]),
        ("0 == args[1] & 0x7f", vec![0]),
        ("args[2] & 0xff == 253", vec![0]),
        ("args[0] & args[2] == 4", vec![1]),
        ("args[0] & 7 & 5 == 1", vec![0]),
        ("state & 2 != 0", vec![1]),
        ("not (args[1] & 0x80)", vec![1, 2, 3, 4, 5]),
    ] {
        assert_eq!(input.matching(text), want, "{text}");
    }
}

#[test]
fn or_binds_weaker_than_and_and_not_strongest() {
    let input = kernel();
    for (text, want) in [
        (r#"name == "tick" or name == "file_open" and ret == 3"#, vec![3, 4]),
        (r#"(name == "tick" or name == "file_open") and ret == 3"#, vec![3]),
        (r#"not name == "tick" and vtid == 4711"#, vec![0, 2]),
        (r#"not (name == "tick" and vtid == 4711)"#, vec![0, 1, 2, 3, 4, 5]),
        (r#"!name == "tick" && $ctx.vtid == 4711 || name == "tick""#, vec![0, 2, 4]),
        (r#"not not name == "tick""#, vec![4]),
        (r#"$ctx.vtid == 4711 && (ret < 0 || not payload.path =~ "^/proc/")"#, vec![0, 2]),
        ("true", vec![0, 1, 2, 3, 4, 5]),
        ("not true or prev_pid == 0", vec![0]),
        ("((((prev_pid)) == ((0))))", vec![0]),
    ] {
        assert_eq!(input.matching(text), want, "{text}");
    }
}

#[test]
fn absent_values_compare_false_and_not_turns_it() {
    let input = kernel();
    assert_eq!(input.matching("prev_pid != 12345"), [0, 1]);
    assert_eq!(input.matching("not prev_pid == 12345"), [0, 1, 2, 3, 4, 5]);
    assert_eq!(input.matching("not prev_pid != 12345"), [2, 3, 4, 5]);
    assert_eq!(input.matching("items[0] != 7"), [3]); // the other array is empty
    assert_eq!(input.matching("prev_pid == ret"), [] as [usize; 0]);
    assert_eq!(input.matching("prev_pid != ret"), [] as [usize; 0]);
    assert_eq!(input.matching("prev_pid & ret != 1"), [] as [usize; 0]);
}

#[test]
fn a_path_alone_is_there_and_not_zero_or_empty() {
    let input = kernel();
    for (text, want) in [
        ("prev_pid", vec![1]),
        ("vtid", vec![0, 1, 2, 3, 5]),
        ("$ctx.vtid", vec![0, 1, 2, 3, 5]),
        ("path", vec![2, 3]),
        ("items", vec![3]),
        ("items[1]", vec![3]),
        ("event_context", vec![2, 3]),
        ("payload", vec![0, 1, 2, 3, 5]),
        ("state", vec![1]),
        ("name", vec![0, 1, 2, 3, 4, 5]),
        ("id", vec![2, 3, 4, 5]),
        ("$ctx.prio", vec![2]),
    ] {
        assert_eq!(input.matching(text), want, "{text}");
    }
}

#[test]
fn paths_of_two_sides() {
    let input = kernel();
    assert_eq!(input.matching("vtid > prev_pid"), [0, 1]);
    assert_eq!(input.matching("cpu < args[0]"), [1]);
    assert_eq!(input.matching("ns == ns and time >= time and load < ret"), [] as [usize; 0]);
    assert_eq!(input.matching("load > ret"), [2]);
    assert_eq!(input.matching("path != $ctx.procname"), [2, 3]);
}

#[test]
fn ten_thousand_terms_need_no_stack() {
    let input = kernel();
    let many = vec!["vtid == 4711"; 10_000];
    assert_eq!(input.matching(&many.join(" and ")), [0, 2]);
    assert_eq!(input.matching(&many.join(" or ")), [0, 2]);
    assert_eq!(input.matching(&format!("{} vtid == 4711", "not ".repeat(10_000))), [0, 2]);
    assert_eq!(input.matching(&format!("vtid {} == 4711", "& -1 ".repeat(10_000))), [0, 2]);
    assert_eq!(input.matching(&format!("{}vtid == 4711{}", "(".repeat(100), ")".repeat(100))), [0, 2]);
}

#[test]
fn recorders_take_what_is_about_names_and_fields() {
    use tracemill_ring::condition::PlainValue;
    let condition = |text: &str| Expression::parse(text).expect("an expression").condition();
    let is_true = |text: &str, name: &str| {
        let values = [
            PlainValue::Integer(7),
            PlainValue::Real(1.5),
            PlainValue::Bool(true),
            PlainValue::Text("Mühle".as_bytes()),
        ];
        let bound = condition(text).expect("a condition").bind(name, &["sack", "grams", "ok", "what"]);
        bound.is_true(name, |at| values[at])
    };
    for (text, want) in [
        ("sack == 7 and payload.grams < 2", true),
        ("sack in (1, 7)", true),
        ("sack & 6 == 6 and not sack & 8", true),
        ("grams >= 1.5 and ok == true", true),
        (r#"what == "M?h*" and name == "app:*""#, true),
        (r#"what == "M\*""#, false),
        ("sack > grams or false", true),
        ("missing != 1", false),
        ("not missing == 1", true),
        ("sack < 1e40 and sack > -99999999999999999999999999999999999999999999", true),
    ] {
        assert_eq!(is_true(text, "app:request"), want, "{text}");
    }
    assert!(!is_true(r#"name == "app:*""#, "lib:x"));
    for (text, why) in [
        ("cpu == 1", "`cpu`"),
        ("id == 1", "`id`"),
        ("$ctx.tid == 1", "`$ctx.tid`"),
        ("sack == 7 and time > \"+1s\"", "`time`"),
        ("what =~ \"M.h\"", "regular expressions"),
        ("payload.list[1] == 2", "parts of a field"),
    ] {
        let error = condition(text).expect_err("it is about more");
        assert!(error.to_string().contains(why), "{text}: {error}");
    }
    let deep = "not (".repeat(40) + "sack == 1" + &" or ok)".repeat(40);
    assert!(condition(&deep).expect_err("too deep").to_string().contains("nested"));
}
