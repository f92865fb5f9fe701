//! Every error points to its place.

use super::kernel;

#[test]
fn syntax() {
    let input = kernel();
    for (text, column, words) in [
        ("", 1, "expected a path or a value, found the end of the expression"),
        ("  ", 3, "expected a path or a value"),
        ("id ==", 6, "expected a path or a value, found the end of the expression"),
        ("id == 1 and", 12, "expected a path or a value"),
        ("id == 1 id == 2", 9, "expected `and`, `or` or the end of the expression, found `id`"),
        ("id == 1 AND id == 2", 9, "did you mean `and`?"),
        ("id = 1", 4, "unexpected character `=` | `==` compares"),
        ("id == 1 | id == 2", 9, "unexpected character `|` | `||`"),
        ("(id == 1", 9, "expected `)`, found the end of the expression"),
        ("id == 1)", 8, "this `)` closes nothing"),
        ("id == 1 or (name == \"x\"", 24, "expected `)`"),
        ("id < 1 < 2", 8, "comparisons do not chain"),
        ("name == \"abc", 9, "the string has no end"),
        ("`abc", 1, "the name has no closing backquote"),
        ("payload.`` == 1", 9, "a name of no characters"),
        ("payload. == 1", 10, "expected the name of a member after `.`, found `==`"),
        ("args[x] == 1", 6, "expected the index of an element"),
        ("args[-1] == 1", 6, "expected the index of an element"),
        ("args[1 == 1", 8, "expected `]`"),
        ("id == 5x", 7, "`5x` is not a number"),
        ("id == 0x", 7, "`0x` is no hexadecimal number"),
        ("id == 017", 7, "begins with 0; write `0o17` or `17`"),
        ("id == 1 and 5", 13, "a value alone is not a condition"),
        ("\"x\"", 1, "a value alone is not a condition"),
        ("1 == 1", 1, "both sides are values"),
        ("name =~ 5", 9, "expected a regular expression in quotes"),
        ("name =~ \"a(b\"", 9, "bad regular expression: unclosed group"),
        ("\"x\" =~ name", 5, "the regular expression stands on the right"),
        ("name == \"a\\q\"", 11, "unknown escape `\\q`"),
        ("cpu in 1, 2", 8, "expected `(` and a list of values"),
        ("cpu in ()", 9, "expected a path or a value, found `)`"),
        ("cpu in (1 2)", 11, "expected `,` or `)`"),
        ("5 in (5)", 1, "expected a path before `in`"),
        ("id & 1.5 == 1", 6, "`&` masks integers"),
        ("1 & 2 == 2", 1, "expected a path on one side of `&`"),
        ("id == 1 & name == \"x\" == 1", 16, "comparisons do not chain"),
        ("(id == 1) & (id == 2)", 1, "`&&` or `and` joins conditions"),
        ("(id == 1) == 1", 1, "found a condition"),
        ("$app.x == 1", 1, "unknown word `$app`"),
        ("$ctx == 1", 6, "expected `.` and a name after `$ctx`"),
        ("name.x == 1", 6, "`name` has no members | a field of this name is `payload.name`"),
        ("in == 1", 1, "stands in backquotes: `in`"),
        ("flag < true", 8, "true and false can only be compared with"),
        ("id + 1 == 2", 4, "there is no arithmetic"),
        ("é == 1 und id == 2", 8, "expected `and`, `or`"),
        ("id == 1 # comment", 9, "unexpected character `#`"),
        ("id == 1\nand id =< 2", 8, "unexpected character `=`"),
    ] {
        let (at, message) = input.fault(text);
        assert!(at == column && message.contains(words), "{text}: column {at}: {message}");
    }
}

#[test]
fn paths_that_no_class_has() {
    let input = kernel();
    for (text, column, words) in [
        ("id == 1 and payload.prev_pdi == 0", 21, "has `payload.prev_pdi` | did you mean `prev_pid`?"),
        ("prev_pdi == 0", 1, "no event class of the input has `prev_pdi` | did you mean `prev_pid`?"),
        ("$ctx.vtdi == 0", 6, "has `$ctx.vtdi` | did you mean `vtid`?"),
        ("nmae == 'x'", 1, "did you mean `name`?"),
        ("not (paylod.x == 1)", 6, "did you mean `payload`?"),
        ("stream_context.zzzzzzzz == 1", 16, "it has `procname`, `vtid`"),
        ("payload.args[3] == 1", 13, "has `payload.args[3]` | `payload.args` has 3 elements, counted from 0"),
        ("payload.args.x == 1", 14, "`payload.args` is an array; `payload.args[0]` is its first element"),
        ("prev_comm.x == 1", 11, "`prev_comm` is a string and has no parts"),
        ("prev_pid[0] == 1", 9, "`prev_pid` is an integer and has no parts"),
        ("payload[0] == 1", 8, "`payload` is not an array"),
        ("header.`no such` == 1", 8, "has `header.`no such`` | it has `id`, `timestamp`"),
        ("_vtid == 1", 1, "did you mean `vtid`?"),
        ("q == 1", 1, "has `q` | there are `id`, `in`, `ns`, `cpu`"),
        ("header.timestmap", 8, "did you mean `timestamp`?"),
        ("trace == 5", 1, "`trace` is a string and cannot be compared with a number"),
        ("id == '1'", 1, "numbers stand without quotes"),
        ("time > 12", 1, "`time` takes a time in quotes"),
        ("time > ns", 1, "`time` is a time and cannot be ordered against an integer"),
        ("time =~ '1'", 9, "`time` is not a string"),
        ("time & 1", 1, "`time` is a time; `&` masks integers only"),
        ("id == 1 and time > 'soon'", 21, "expected a time, found `soon`"),
        ("time > '2023-11-14 25:00'", 20, "there is no time 25:00"),
        ("time > '+1s'", 9, "nothing is known of the first one"),
        ("load & 1 == 1", 1, "`load` is a floating point number; `&` masks integers only"),
        ("cpu == 'a'", 1, "`cpu` is an integer and cannot be compared with a string"),
    ] {
        let (at, message) = input.fault(text);
        assert!(at == column && message.contains(words), "{text}: column {at}: {message}");
    }
}

#[test]
fn depth_is_limited() {
    let input = kernel();
    let deep = format!("{}id == 1{}", "(".repeat(10_000), ")".repeat(10_000));
    assert_eq!(input.fault(&deep), (101, "more than 100 parentheses inside each other".into()));
    assert_eq!(input.fault(&"(".repeat(10_000)).0, 101);
    assert_eq!(input.fault(&"not (".repeat(10_000)).0, 505);
    assert_eq!(input.fault(&"id in (".repeat(10_000)).0, 11);
}

#[test]
fn huge_regular_expressions_are_refused() {
    let (at, message) = kernel().fault("name =~ '(((a{100}){100}){100}){100}'");
    assert!(at == 9 && message.contains("bad regular expression"), "{message}");
}
