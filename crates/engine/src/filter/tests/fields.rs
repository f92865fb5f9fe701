//! Scopes, and values of every class.

use super::{Data, Input, ctf2_schema, kernel};

#[test]
fn scopes_by_their_names() {
    let input = kernel();
    for (text, want) in [
        ("header.id == 2", vec![4]),
        ("header.timestamp == 1005000000", vec![5]),
        ("packet_context.cpu_id == 2", vec![0, 1, 2, 3, 4, 5]),
        ("stream_context.vtid == 4711", vec![0, 2]),
        ("event_context.prio == 9", vec![2]),
        ("payload.vtid == 3", vec![5]),
        ("header.id == 3 and payload.vtid == 3 and stream_context.vtid == 4713 and cpu == 2", vec![5]),
        ("payload.`in` == 1", vec![5]),
        ("payload.in == 1", vec![5]),
        ("`in` == 1", vec![5]),
        ("`name` == 2", vec![5]),
        ("payload . name == 2", vec![5]),
        ("payload.args[2] == -3", vec![0]),
        ("args[0] == 1 or args[2] == 6", vec![0, 1]),
    ] {
        assert_eq!(input.matching(text), want, "{text}");
    }
}

#[test]
fn bare_words_look_in_payload_then_contexts() {
    let input = kernel();
    assert_eq!(input.matching("vtid == 3"), [5]); // the payload hides the context
    assert_eq!(input.matching("$ctx.vtid == 4713"), [5]);
    assert_eq!(input.matching("shared == 99"), [0, 1, 4, 5]); // the event context hides the packet's
    assert_eq!(input.matching("$ctx.shared == 2"), [3]);
    assert_eq!(input.matching("procname == 'prog' and prio == 0"), [3]);
}

#[test]
fn enumerations_equal_their_number_or_any_label() {
    let input = kernel();
    for (text, want) in [
        ("state == 2", vec![1]),
        (r#"state == "RUNNING""#, vec![0]),
        (r#"state == "SLEEPING""#, vec![1]),
        (r#"state == "DEEP""#, vec![1]),
        (r#"state == "D*""#, vec![1]),
        (r#"state != "DEEP""#, vec![0]),
        (r#"state != "NOWHERE""#, vec![0, 1]),
        (r#"state =~ "^SLEEP""#, vec![1]),
        (r#"state in ("RUNNING", 2)"#, vec![0, 1]),
        ("state >= 1", vec![1]),
    ] {
        assert_eq!(input.matching(text), want, "{text}");
    }
}

const BYTE: &str = r#"{"type": "fixed-length-unsigned-integer", "length": 8, "byte-order": "little-endian"}"#;

fn all_classes() -> Input {
    let at = r#""selector-field-location": {"path": ["tag"]}"#;
    let schema = ctf2_schema(&[
        ("tag", BYTE),
        ("flag", r#"{"type": "fixed-length-boolean", "length": 8, "byte-order": "little-endian"}"#),
        (
            "map",
            r#"{"type": "fixed-length-bit-map", "length": 8, "byte-order": "little-endian",
                "flags": {"read": [[0, 0]], "write": [[1, 1]], "any": [[0, 7]]}}"#,
        ),
        ("bits", r#"{"type": "fixed-length-bit-array", "length": 16, "byte-order": "big-endian"}"#),
        ("wide", r#"{"type": "fixed-length-unsigned-integer", "length": 200, "byte-order": "little-endian"}"#),
        ("deep", r#"{"type": "fixed-length-signed-integer", "length": 136, "byte-order": "little-endian"}"#),
        ("blob", r#"{"type": "static-length-blob", "length": 2}"#),
        ("utf16", r#"{"type": "null-terminated-string", "encoding": "utf-16le"}"#),
        (
            "maybe",
            &format!(r#"{{"type": "optional", {at}, "selector-field-ranges": [[1, 9]], "field-class": {BYTE}}}"#),
        ),
        (
            "choice",
            &format!(
                r#"{{"type": "variant", {at}, "options": [
                    {{"name": "word", "selector-field-ranges": [[0, 0]], "field-class": {{"type": "null-terminated-string"}}}},
                    {{"selector-field-ranges": [[1, 1]], "field-class": {BYTE}}},
                    {{"name": "pair", "selector-field-ranges": [[2, 2]], "field-class": {{"type": "structure",
                      "member-classes": [{{"name": "x", "field-class": {BYTE}}}, {{"name": "odd-name", "field-class": {BYTE}}}]}}}}]}}"#
            ),
        ),
        (
            "grid",
            &format!(
                r#"{{"type": "static-length-array", "length": 2, "element-field-class":
                    {{"type": "static-length-array", "length": 2, "element-field-class":
                      {{"type": "structure", "member-classes": [{{"name": "v", "field-class": {BYTE}}}]}}}}}}"#
            ),
        ),
        ("empty", r#"{"type": "structure"}"#),
    ]);
    let event = |data: Data, tag: u8, map: u8, wide: u8, choice: &[u8]| {
        let data = data.u8(tag).u8(tag).u8(map).put(&[0x12, tag]);
        let data = data.put(&[1]).put(&[0; 23]).u8(wide).put(&[0xfe; 16]).u8(0xff ^ tag).put(&[1, 2]);
        let data = data.put(&[b'h', 0, 0xe9, 0, 0, 0]);
        let data = if tag > 0 { data.u8(42) } else { data };
        data.put(choice).put(&[1, 2, 3, 4 + tag])
    };
    let data = event(Data::default(), 0, 0b00, 0x80, b"hello\0");
    let data = event(data, 1, 0b01, 0x00, &[77]);
    let data = event(data, 2, 0b10, 0x01, &[5, 6]);
    Input::new(vec![("all", schema, data.0)])
}

#[test]
fn booleans_and_bits() {
    let input = all_classes();
    for (text, want) in [
        ("flag == true", vec![1, 2]),
        ("flag != true", vec![0]),
        ("flag == false", vec![0]),
        ("flag in (true)", vec![1, 2]),
        ("flag", vec![1, 2]),
        ("not flag", vec![0]),
        ("bits == 0x1202", vec![2]),
        ("bits & 0xff00 == 0x1200", vec![0, 1, 2]),
        (r#"map == "read""#, vec![1]),
        (r#"map == "write""#, vec![2]),
        (r#"map == "any""#, vec![1, 2]),
        (r#"map != "any""#, vec![0]),
        (r#"map == "w*""#, vec![2]),
        ("map == 1", vec![1]),
        ("map & 3 != 0", vec![1, 2]),
        ("map", vec![1, 2]),
    ] {
        assert_eq!(input.matching(text), want, "{text}");
    }
}

#[test]
fn integers_beyond_128_bits() {
    let input = all_classes();
    // 2^192 + 1 and 128 * 2^192 + 1
    let low = "6277101735386680763835789423207666416102355444464034512897";
    let high = "803469022129495137770981046170581301261101496891396417650689";
    assert_eq!(input.matching(&format!("wide == {low}")), [2]);
    assert_eq!(input.matching(&format!("wide == {high}")), [0]);
    assert_eq!(input.matching(&format!("wide >= {low}")), [0, 2]);
    assert_eq!(input.matching("wide == 1"), [1]);
    assert_eq!(input.matching("wide > 340282366920938463463374607431768211456"), [0, 2]);
    assert_eq!(input.matching(&format!("wide & 0x01{}", "0".repeat(48))), [2]);
    assert_eq!(input.matching("wide & 1 == 1"), [0, 1, 2]);
    assert_eq!(input.matching("wide < 1e58"), [1, 2]);
    assert_eq!(input.matching("deep < 0"), [0, 1, 2]);
    assert_eq!(input.matching("deep < -170141183460469231731687303715884105728"), [1, 2]);
    assert_eq!(input.matching("deep < wide"), [0, 1, 2]);
}

#[test]
fn variants_optionals_and_arrays() {
    let input = all_classes();
    for (text, want) in [
        (r#"choice.word == "hello""#, vec![0]),
        ("choice.1 == 77", vec![1]),
        ("choice.`1` == 77", vec![1]),
        ("payload.choice.pair.x == 5", vec![2]),
        ("choice.pair.`odd-name` == 6", vec![2]),
        ("choice.pair", vec![2]),
        ("choice", vec![0, 1, 2]),
        ("maybe == 42", vec![1, 2]),
        ("maybe != 42", vec![]),
        ("not maybe == 42", vec![0]),
        ("maybe", vec![1, 2]),
        ("grid[1][1].v == 6", vec![2]),
        ("grid[0][1].v == 2 and grid[1][0].v == 3 and grid[1][1].v == 4", vec![0]),
        ("grid", vec![0, 1, 2]),
        ("empty", vec![]),
        ("blob", vec![0, 1, 2]),
        (r#"utf16 == "hé""#, vec![0, 1, 2]),
        (r#"utf16 =~ "^h.$""#, vec![0, 1, 2]),
    ] {
        assert_eq!(input.matching(text), want, "{text}");
    }
}

#[test]
fn a_kind_that_fits_in_no_class_is_an_error() {
    let input = all_classes();
    for (text, column, words) in [
        (r#"blob == "x""#, 1, "`blob` is a blob and cannot be compared with a string"),
        ("flag == 1", 1, "`flag` is a boolean and cannot be compared with a number | compare it with `true`"),
        ("tag == 1 and utf16 == 5", 14, "`utf16` is a string and cannot be compared with a number | strings stand"),
        ("choice == 5", 1, "`choice` is a variant"),
        ("grid[0] == 5", 1, "`grid[0]` is an array"),
        ("empty != 5", 1, "`empty` is a structure"),
        (r#"tag == "1""#, 1, "`tag` is an integer and cannot be compared with a string | numbers stand"),
        (r#"tag =~ "1""#, 1, "`tag` is an integer and cannot be compared with a regular expression"),
        (r#"map < "read""#, 1, "`map` is an integer with labels and cannot be ordered against a string"),
        ("tag & utf16 != 0", 7, "`utf16` is a string; `&` masks integers only"),
        ("flag & 1", 1, "`flag` is a boolean; `&` masks integers only"),
        ("flag < flag", 1, "`flag` is a boolean and cannot be ordered against a boolean"),
        ("utf16 == tag", 1, "`utf16` is a string and cannot be compared with an integer"),
        (r#"tag in (1, "x")"#, 1, "cannot be compared with a string"),
    ] {
        let (at, message) = input.fault(text);
        assert!(at == column && message.contains(words), "{text}: column {at}: {message}");
    }
}
