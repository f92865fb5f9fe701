//! Broken metadata: every error is found, at its place, with what was expected. All are read strictly.

use tracemill_model::error::{Error, ErrorKind};

use super::super::parse;
use super::*;

/// An error: the fragments after the preamble, the text that the error must point to (the first one that is behind
/// the mark `^^` in the last fragment, if there is a mark, and the whole last fragment otherwise), and the message.
fn check(fragments: &[&str], message: &str) -> Error {
    let mut fragments: Vec<String> = fragments.iter().map(|&fragment| fragment.to_owned()).collect();
    let last = fragments.pop().unwrap();
    let mark = last.find("^^").unwrap_or(0);
    fragments.push(last.replacen("^^", "", 1));
    let lines: Vec<&str> = fragments.iter().map(String::as_str).collect();
    let text = metadata(&lines);
    let error = parse(text.as_bytes(), true).expect_err(message);
    assert_eq!(error.message(), message, "{error}");
    let place = error.place().text.as_ref().unwrap();
    let before: Vec<&str> = lines[..lines.len() - 1].to_vec();
    // One more for the record separator.
    let expected = metadata(&before).len() + 1 + mark;
    assert_eq!(place.offset, expected, "{error}");
    assert_eq!(place.line as usize, text[..expected].matches('\n').count() + 1);
    error
}

/// An error in a field class that is the only member of a payload.
fn check_class(class: &str, message: &str) -> Error {
    check(&[STREAM, &payload(&member("m", class))], message)
}

#[test]
fn preamble() {
    for (text, column, message) in [
        (r#"{"type": "preamble"}"#, 1, "a preamble has no property `version`, which is required"),
        (r#"{"type": "preamble", "version": 2.0}"#, 33, "property `version` is the number `2.0`, expected 2"),
        (r#"{"type": "preamble", "version": 2, "uuid": [1]}"#, 44, "property `uuid` has 1 elements, expected 16"),
        (r#"{"version": 2}"#, 1, "a fragment has no property `type`, which is required"),
        (r#"[1]"#, 1, "expected a fragment (an object), found an array"),
        (r#"{"type": "clock-class"}"#, 10, "the first fragment is a `clock-class`, expected a `preamble`"),
    ] {
        let error = parse(text.as_bytes(), true).unwrap_err();
        assert_eq!((error.message(), error.place().text.as_ref().unwrap().column), (message, column));
    }
    let error = parse(b"\x1e{\"type\": \"preamble\", \"version\": 3}", true).unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::Unsupported, "CTF version `3`, expected 2"));
    let bytes: Vec<String> = (0..16).map(|byte| (byte * 20).to_string()).collect();
    let text = format!(r#"{{"type": "preamble", "version": 2, "uuid": [{}]}}"#, bytes.join(","));
    assert_eq!(parse(text.as_bytes(), true).unwrap_err().message(), "property `uuid` is `260`, expected 0 to 255");
    let error = parse(b" \n ", true).unwrap_err();
    assert_eq!(error.message(), "the metadata has no fragment, expected a `preamble`");
    let error = parse(b"{\"type\": \"pr\xffeamble\"}", true).unwrap_err();
    assert_eq!((error.message(), error.place().text.as_ref().unwrap().column), ("byte 0xff is not UTF-8", 13));
    let error = check(&[r#"{"type": "preamble", "version": 2}"#], "a second preamble, expected only one");
    assert_eq!(error.related()[0].1.line, 1);
}

#[test]
fn fragments() {
    let error = check(&[r#"{"type": ^^"clock-clas"}"#], "unknown type `clock-clas` of a fragment");
    assert_eq!(error.help(), Some("did you mean `clock-class`?"));
    check(&[r#"{"type": ^^3}"#], "property `type` is the integer `3`, expected a string");
    check(&[r#"{"type": "trace-class", ^^"nam": "x"}"#], "unknown property `nam` of a trace class");
    check(&[r#"{"type": "trace-class", "name": ^^null}"#], "property `name` is `null`, expected a string");
    let trace = r#"{"type": "trace-class"}"#;
    check(&[trace, trace], "a second trace class, expected at most one");
    check(&[STREAM, trace], "a trace class after a data stream class");
    check(
        &[r#"{"type": "trace-class", "environment": {"a": 1, "b": ^^[]}}"#],
        "environment entry `b` is an array, expected an integer or a string",
    );
    check(
        &[r#"{"type": "trace-class", "packet-header-field-class": ^^{"type": "null-terminated-string"}}"#],
        "property `packet-header-field-class` is not a structure field class",
    );
    check(&[r#"{"type": "trace-class", "attributes": ^^[]}"#], "expected attributes (an object), found an array");
    let error = check(
        &[r#"{"type": "trace-class", "extensions": {"my.tracer": {^^"piano": {}}}}"#],
        "extension `piano` of namespace `my.tracer` is not supported",
    );
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn clock_classes() {
    check(&[r#"{"type": "clock-class", "id": "c"}"#], "a clock class has no property `frequency`, which is required");
    check(&[r#"{"type": "clock-class", "frequency": 1}"#], "a clock class has no property `id`, which is required");
    check(
        &[r#"{"type": "clock-class", "id": "c", "frequency": ^^0}"#],
        "property `frequency` is `0`, expected 1 to 18446744073709551615",
    );
    check(
        &[r#"{"type": "clock-class", "id": "c", "frequency": 5, "offset-from-origin": {"cycles": ^^5}}"#],
        "property `cycles` is `5`, expected less than the frequency `5`",
    );
    check(
        &[r#"{"type": "clock-class", "id": "c", "frequency": 5, "offset-from-origin": {"cycles": ^^-1}}"#],
        "property `cycles` is `-1`, expected 0 to 18446744073709551615",
    );
    check(
        &[r#"{"type": "clock-class", "id": "c", "frequency": 5, "origin": ^^"unix"}"#],
        "property `origin` is `unix`, expected `unix-epoch`",
    );
    check(
        &[r#"{"type": "clock-class", "id": "c", "frequency": 5, "origin": ^^{"name": "o"}}"#],
        "a clock origin has no property `uid`, which is required",
    );
    check(
        &[
            r#"{"type": "clock-class", "id": "c", "frequency": 5}"#,
            r#"{"type": "clock-class", "id": ^^"c", "frequency": 6}"#,
        ],
        "two clock classes have the id `c`",
    );
}

#[test]
fn streams_and_events() {
    let error = check(
        &[
            r#"{"type": "clock-class", "id": "clock", "frequency": 5}"#,
            r#"{"type": "data-stream-class", "default-clock-class-id": ^^"clok"}"#,
        ],
        "no clock class has the id `clok` before this point",
    );
    assert_eq!(error.help(), Some("did you mean `clock`?"));
    check(&[STREAM, r#"{"type": "data-stream-class", "id": ^^0}"#], "two data stream classes have the id `0`");
    check(&[r#"{"type": "event-record-class"}"#], "no data stream class has the id `0` before this point");
    check(
        &[STREAM, r#"{"type": "event-record-class", "data-stream-class-id": ^^3}"#],
        "no data stream class has the id `3` before this point",
    );
    let event = r#"{"type": "event-record-class", "id": 4}"#;
    let error = check(
        &[STREAM, event, r#"{"type": "event-record-class", "id": ^^4}"#],
        "two event record classes of the data stream class `0` have the id `4`; they are the same",
    );
    assert_eq!(error.related()[0].1.line, 3);
    check(
        &[STREAM, r#"{"type": "event-record-class", "id": ^^18446744073709551616}"#],
        "property `id` is `18446744073709551616`, expected 0 to 18446744073709551615",
    );
}

#[test]
fn field_classes() {
    let error = check_class(r#"{"type": ^^"strutcure"}"#, "unknown type `strutcure` of a field class");
    assert_eq!(error.help(), Some("did you mean `structure`?"));
    check_class("^^7", "expected a field class (an object), found the integer `7`");
    check_class(
        r#"^^{"type": "fixed-length-boolean", "byte-order": "big-endian"}"#,
        "a boolean field class has no property `length`, which is required",
    );
    check_class(
        r#"{"type": "fixed-length-boolean", "length": ^^0, "byte-order": "big-endian"}"#,
        "property `length` is `0`, expected 1 to 1048576",
    );
    check_class(
        r#"{"type": "fixed-length-boolean", "length": 8, "byte-order": ^^"big"}"#,
        "property `byte-order` is `big`, expected `little-endian` or `big-endian`",
    );
    check_class(
        r#"{"type": "fixed-length-boolean", "length": 8, "byte-order": "big-endian", "alignment": ^^24}"#,
        "property `alignment` is `24`, expected a power of two",
    );
    check_class(
        r#"{"type": "fixed-length-bit-map", "length": 8, "byte-order": "big-endian", "flags": {"a": [[0, ^^8]]}}"#,
        "property `flags` is `8`, expected 0 to 7",
    );
    check_class(
        r#"{"type": "fixed-length-bit-map", "length": 8, "byte-order": "big-endian", "flags": ^^{}}"#,
        "a bit map needs at least one flag",
    );
    check_class(
        r#"{"type": "fixed-length-floating-point-number", "length": ^^48, "byte-order": "big-endian"}"#,
        "length of a floating point number is `48`, expected 16, 32, 64, 128 or a larger multiple of 32",
    );
    check_class(
        r#"{"type": "variable-length-signed-integer", "preferred-display-base": ^^12}"#,
        "property `preferred-display-base` is the integer `12`, expected 2, 8, 10 or 16",
    );
    check_class(
        r#"{"type": "variable-length-signed-integer", "mappings": {"a": [^^[2, 1]]}}"#,
        "range from `2` to `1` is upside down",
    );
    check_class(
        r#"{"type": "variable-length-signed-integer", "mappings": {"a": [^^[2]]}}"#,
        "an integer range has 1 elements, expected 2",
    );
    check_class(
        r#"{"type": "variable-length-signed-integer", "mappings": {"a": ^^[]}}"#,
        "an integer range set needs at least one range",
    );
    check_class(
        r#"{"type": "null-terminated-string", "encoding": ^^"utf8"}"#,
        "property `encoding` is `utf8`, expected `utf-8`, `utf-16be`, `utf-16le`, `utf-32be` or `utf-32le`",
    );
    check_class(
        r#"{"type": "static-length-blob", "length": ^^-1}"#,
        "property `length` is `-1`, expected 0 to 18446744073709551615",
    );
    check_class(
        r#"{"type": "variant", "selector-field-location": {"path": ["x"]}, "options": ^^[]}"#,
        "a variant needs at least one option",
    );
    check_class(
        r#"{"type": "variant", "selector-field-location": {"path": ["x"]}, "options": [
            {"selector-field-ranges": [[0, 4]], "field-class": {"type": "structure"}},
            {"selector-field-ranges": ^^[[9, 9], [4, 5]], "field-class": {"type": "structure"}}]}"#,
        "selector value `4` belongs to two options of a variant",
    );
    let error = check(
        &[
            r#"{"type": "field-class-alias", "name": "u8", "field-class": {"type": "structure"}}"#,
            STREAM,
            &payload(&member("m", "^^\"u9\"")),
        ],
        "no field class alias named `u9` before this point",
    );
    assert_eq!(error.help(), Some("did you mean `u8`?"));
    check(
        &[
            r#"{"type": "field-class-alias", "name": "u8", "field-class": {"type": "structure"}}"#,
            r#"{"type": "field-class-alias", "name": ^^"u8", "field-class": {"type": "structure"}}"#,
        ],
        "two field class aliases are named `u8`",
    );
    let again = r#"{"name": ^^"a", "field-class": {"type": "structure"}}"#;
    check(
        &[STREAM, &payload(&format!("{}, {again}", member("a", STRING)))],
        "two members of a structure are named `a`",
    );
}

#[test]
fn roles() {
    let integer = |role: &str, length: u32| {
        format!(
            r#"{{"type": "fixed-length-unsigned-integer", "length": {length}, "byte-order": "big-endian", "roles": [^^"{role}"]}}"#
        )
    };
    let header = |members: &str| {
        format!(
            r#"{{"type": "trace-class", "packet-header-field-class": {{"type": "structure", "member-classes": [{members}]}}}}"#
        )
    };
    let error = check_class(&integer("packet-magic", 32), "unknown role `packet-magic`");
    assert_eq!(error.help(), None);
    check_class(&integer("metadata-stream-uuid", 32), "role `metadata-stream-uuid` is for a static-length blob");
    check(
        &[&header(&member("m", &integer("packet-magic-number", 16)))],
        "role `packet-magic-number` is for a fixed-length unsigned integer of 32 bits",
    );
    let second = format!("{}, {}", member("a", UINT), member("m", &integer("packet-magic-number", 32)));
    check(&[&header(&second)], "role `packet-magic-number` is for the first member of the packet header");
    let blob = |length: u32| {
        format!(r#"{{"type": "static-length-blob", "length": {length}, "roles": [^^"metadata-stream-uuid"]}}"#)
    };
    check(&[&header(&member("m", &blob(15)))], "role `metadata-stream-uuid` is for a static-length blob of 16 bytes");
    check(&[&header(&member("m", &blob(16)))], "role `metadata-stream-uuid`, but the preamble has no property `uuid`");
    for (scope, role) in [
        ("event-record-header-field-class", "default-clock-timestamp"),
        ("packet-context-field-class", "packet-end-default-clock-timestamp"),
    ] {
        let stream = format!(
            r#"{{"type": "data-stream-class", "{scope}": {{"type": "structure", "member-classes": [{}]}}}}"#,
            member("t", &integer(role, 64))
        );
        let message = format!("role `{role}`, but the data stream class has no property `default-clock-class-id`");
        check(&[&stream], &message);
    }
    check_class(
        r#"{"type": "variable-length-signed-integer", ^^"roles": []}"#,
        "unknown property `roles` of a variable-length signed integer field class",
    );
}

#[test]
fn locations() {
    let blob = |location: &str| {
        member("b", &format!(r#"{{"type": "dynamic-length-blob", "length-field-location": {location}}}"#))
    };
    let fault = |before: &str, location: &str, message: &str| {
        let members = if before.is_empty() { blob(location) } else { format!("{before}, {}", blob(location)) };
        check(&[STREAM, &payload(&members)], message)
    };
    let error =
        fault(&member("length", UINT), r#"{"path": [^^"lenght"]}"#, "no member named `lenght` in the structure");
    assert_eq!(error.help(), Some("did you mean `length`?"));
    fault("", r#"{"path": [^^"b"]}"#, "`b` is the field that needs the location");
    fault("", r#"{"path": [^^null, "b"]}"#, "`null` asks for the parent of a root structure");
    fault(
        &member("n", SINT),
        r#"^^{"path": ["n"]}"#,
        "the length field is a signed integer, expected an unsigned integer",
    );
    fault(&member("n", STRING), r#"^^{"path": ["n"]}"#, "the length field is a string, expected an unsigned integer");
    fault(&member("n", UINT), r#"{"path": [^^"n", "x"]}"#, "`n` is not a structure, but the path goes on");
    let inner = r#"{"type": "structure"}"#;
    fault(&member("s", inner), r#"^^{"path": ["s"]}"#, "the length field is a structure, expected an unsigned integer");
    let around = format!(r#"{{"type": "structure", "member-classes": [{}]}}"#, blob(r#"{"path": [null, ^^"s"]}"#));
    check(&[STREAM, &payload(&member("s", &around))], "the field location leads to a structure");
    fault(
        &member("a", &format!(r#"{{"type": "static-length-array", "length": 2, "element-field-class": {UINT}}}"#)),
        r#"{"path": [^^"a"]}"#,
        "`a` is an array that is no longer being decoded, so it has no current element",
    );
    fault(
        &format!(
            "{}, {}",
            member("n", UINT),
            member(
                "v",
                &format!(
                    r#"{{"type": "variant", "selector-field-location": {{"path": ["n"]}},
                        "options": [{{"selector-field-ranges": [[0, 0]], "field-class": {UINT}}}]}}"#
                )
            )
        ),
        r#"{"path": ["v", ^^"x"]}"#,
        "no option of the variant has a field at the end of this path",
    );
    fault("", r#"{"origin": ^^"packet-context", "path": ["n"]}"#, "origin `packet-context` has no field class here");
    check(
        &[STREAM, &payload(&format!("{}, {}", blob(r#"{"path": [^^"n"]}"#), member("n", UINT)))],
        "`n` is decoded after the field that needs it",
    );
    let early = r#"{"type": "dynamic-length-blob", "length-field-location": {"origin": ^^"event-record-payload", "path": ["n"]}}"#;
    check(
        &[
            STREAM,
            &format!(
                r#"{{"type": "event-record-class", "specific-context-field-class": {{"type": "structure",
                    "member-classes": [{}]}}}}"#,
                member("b", early)
            ),
        ],
        "origin `event-record-payload` is decoded after the `event-record-specific-context`",
    );
}

#[test]
fn selectors() {
    let optional = |selector: &str, rest: &str| {
        format!(
            "{}, {}",
            member("s", selector),
            member(
                "o",
                &format!(
                    r#"{{"type": "optional", "field-class": {STRING}, "selector-field-location": ^^{{"path": ["s"]}}{rest}}}"#
                )
            )
        )
    };
    check(
        &[STREAM, &payload(&optional(UINT, ""))],
        "the selector is an integer, but the optional has no property `selector-field-ranges`",
    );
    check(
        &[STREAM, &payload(&optional(STRING, ""))],
        "the selector field is a string, expected a boolean or an integer",
    );
    let with_ranges = optional(BOOLEAN, r#", "selector-field-ranges": ^^[[1, 1]]"#).replacen("^^{", "{", 1);
    check(
        &[STREAM, &payload(&with_ranges)],
        "`selector-field-ranges` of an optional whose selector is a boolean, expected an integer selector",
    );
    let variant = format!(
        r#"{{"type": "variant", "selector-field-location": ^^{{"path": ["s"]}},
            "options": [{{"selector-field-ranges": [[0, 0]], "field-class": {STRING}}}]}}"#
    );
    check(
        &[STREAM, &payload(&format!("{}, {}", member("s", BOOLEAN), member("v", &variant)))],
        "the selector field is a boolean, expected an integer",
    );
}

#[test]
fn a_fault_in_an_alias_says_where_it_is_used() {
    let blob = r#"{"type": "dynamic-length-blob", "length-field-location": {"path": ["n"]}}"#;
    let alias = format!(r#"{{"type": "field-class-alias", "name": "b", "field-class": {blob}}}"#);
    let error = parse(metadata(&[&alias, STREAM, &payload(&member("m", "\"b\""))]).as_bytes(), true).unwrap_err();
    assert_eq!(error.message(), "no member named `n` in the structure");
    assert_eq!(error.place().text.as_ref().unwrap().line, 2);
    assert_eq!((error.related()[0].0.as_str(), error.related()[0].1.line), ("used from here", 4));
}

#[test]
fn syntax_faults_name_their_fragment() {
    check(
        &[STREAM, "{\"type\": \"event-record-class\"^^"],
        "fragment 3 is not valid JSON: expected `,` or `}` after a property, found the end of the fragment",
    );
    check(&["{} ^^{}"], "fragment 2 is not valid JSON: expected the end of the fragment, found `{`");
}

#[test]
fn deep_nesting_is_refused() {
    let deep = |levels: usize| {
        let open = r#"{"type": "static-length-array", "length": 1, "element-field-class": "#;
        payload(&member("d", &format!("{}{STRING}{}", open.repeat(levels), "}".repeat(levels))))
    };
    // The structure and the string are two levels more.
    schema(&[STREAM, &deep(998)]);
    let message = "field classes are nested more than 1000 levels deep";
    let error = parse(metadata(&[STREAM, &deep(999)]).as_bytes(), true).unwrap_err();
    assert_eq!((error.message(), error.place().text.as_ref().unwrap().line), (message, 3));
    let error = parse(metadata(&[STREAM, &deep(10_000)]).as_bytes(), true).unwrap_err();
    assert!(error.message().contains("nested more than"), "{error}");
    // Aliases count as what they stand for.
    let mut fragments =
        vec![r#"{"type": "field-class-alias", "name": "a0", "field-class": {"type": "structure"}}"#.to_owned()];
    for level in 1..1000 {
        fragments.push(format!(
            r#"{{"type": "field-class-alias", "name": "a{level}", "field-class": {{"type": "static-length-array",
                "length": 1, "element-field-class": "a{}"}}}}"#,
            level - 1
        ));
    }
    fragments.push(STREAM.to_owned());
    let mut lines: Vec<&str> = fragments.iter().map(String::as_str).collect();
    schema(&lines);
    let user = payload(&member("m", "^^\"a999\""));
    lines.push(&user);
    check(&lines, message);
}

#[test]
fn aliases_that_double_are_refused() {
    let double = |first: &str, name: &str| {
        let mut fragments =
            vec![format!(r#"{{"type": "field-class-alias", "name": "{name}0", "field-class": {first}}}"#)];
        for level in 1..40 {
            let before = format!("\"{name}{}\"", level - 1);
            fragments.push(format!(
                r#"{{"type": "field-class-alias", "name": "{name}{level}", "field-class": {{"type": "structure",
                    "member-classes": [{}, {}]}}}}"#,
                member("l", &before),
                member("r", &before)
            ));
        }
        fragments.push(STREAM.to_owned());
        fragments.push(payload(&member("m", &format!("\"{name}39\""))));
        let lines: Vec<&str> = fragments.iter().map(String::as_str).collect();
        parse(metadata(&lines).as_bytes(), true).unwrap_err()
    };
    let error = double(STRING, "a");
    assert!(error.message().ends_with("fields when every alias is written out"), "{error}");
    // Many uses of an alias with references, each of which needs classes of its own.
    let members: Vec<String> = (0..2000).map(|index| member(&format!("s{index}"), STRING)).collect();
    let pair = format!(
        r#"{{"type": "structure", "member-classes": [{}, {}, {}]}}"#,
        member("n", UINT),
        member(
            "a",
            &format!(
                r#"{{"type": "dynamic-length-array", "element-field-class": {STRING}, "length-field-location": {{"path": ["n"]}}}}"#
            )
        ),
        members.join(", ")
    );
    let error = double(&pair, "p");
    assert!(error.message().ends_with("fields when every alias is written out"), "{error}");
}

#[test]
fn field_classes_of_all_events_together_have_a_limit() {
    let users: Vec<String> = (0..1000)
        .map(|index| {
            let class = r#"{"type": "dynamic-length-blob", "length-field-location": {"path": ["n"]}}"#;
            member(&format!("b{index}"), class)
        })
        .collect();
    let alias = format!(
        r#"{{"type": "field-class-alias", "name": "p", "field-class": {{"type": "structure", "member-classes": [{}, {}]}}}}"#,
        member("n", UINT),
        users.join(", ")
    );
    let mut text = metadata(&[&alias, STREAM]);
    for id in 0..2000 {
        text.push_str(&format!(
            "\u{1e}{{\"type\": \"event-record-class\", \"id\": {id}, \"payload-field-class\": \"p\"}}\n"
        ));
    }
    let error = parse(text.as_bytes(), true).unwrap_err();
    assert!(error.message().ends_with("field classes when every alias is written out"), "{error}");
    assert_eq!(error.related()[0].0, "used from here");
}
