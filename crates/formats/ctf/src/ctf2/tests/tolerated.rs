//! Metadata that the specification forbids and whose meaning is clear: read, with a warning at its place.

use tracemill_model::error::Error;
use tracemill_model::schema::{FieldKind, Presence, StructClass};

use super::super::parse;
use super::*;

/// Reads metadata that only the strict refuse, by their first oddity.
fn tolerated(fragments: &[&str]) -> (Schema, Vec<Error>) {
    let text = metadata(fragments);
    let (schema, warnings) = parse(text.as_bytes(), false).unwrap();
    let refused = parse(text.as_bytes(), true).unwrap_err();
    assert_eq!((refused.message(), refused.place()), (warnings[0].message(), warnings[0].place()));
    (schema, warnings)
}

/// Where errors are, and their messages.
fn reported(errors: &[Error]) -> Vec<(u32, u32, &str)> {
    let place = |error: &Error| error.place().text.as_ref().map_or((0, 0), |text| (text.line, text.column));
    errors.iter().map(|error| (place(error).0, place(error).1, error.message())).collect()
}

fn payload_of(schema: &Schema) -> &StructClass {
    match &schema.field_class(schema.events()[0].payload.unwrap()).kind {
        FieldKind::Struct(class) => class,
        other => panic!("not a structure: {other:?}"),
    }
}

#[test]
fn unknown_properties_are_ignored() {
    let (schema, warnings) = tolerated(&[
        r#"{"type": "data-stream-class", "nam": "x", "shape": {"round": [true]}}"#,
        &payload(&member("a", r#"{"type": "null-terminated-string", "length": 3}"#)),
    ]);
    let [stream, shape, class] = reported(&warnings)[..] else { panic!("three warnings: {warnings:?}") };
    assert_eq!(stream, (2, 32, "unknown property `nam` of a data stream class"));
    assert_eq!(shape, (2, 44, "unknown property `shape` of a data stream class"));
    assert_eq!((class.0, class.2), (3, "unknown property `length` of a null-terminated string field class"));
    let help: Vec<_> = warnings.iter().map(Error::help).collect();
    assert_eq!(help, [Some("did you mean `name`?"), Some("it is ignored"), Some("it is ignored")]);
    assert_eq!(schema.streams()[0].name, None);
}

#[test]
fn commas_at_the_end_are_as_if_they_were_not_there() {
    let (schema, warnings) = tolerated(&["{\"type\": \"data-stream-class\",\n }", &payload(&member("a", STRING))]);
    assert_eq!(reported(&warnings), [(2, 30, "fragment 2 is not valid JSON: a comma before `}`")]);
    assert_eq!(schema.events().len(), 1);
}

#[test]
fn a_second_member_of_a_name_gets_a_number() {
    let names = ["a", "a_2", "a", "b", "a", "b"];
    let members: Vec<String> = names.iter().map(|name| member(name, UINT)).collect();
    let blob = r#"{"type": "dynamic-length-blob", "length-field-location": {"path": ["a"]}}"#;
    let (schema, warnings) = tolerated(&[STREAM, &payload(&[&members.join(", "), ", ", &member("c", blob)].concat())]);
    let class = payload_of(&schema);
    let shown: Vec<_> = class.members.iter().map(|member| &*member.name).collect();
    assert_eq!(shown, ["a", "a_2", "a_3", "b", "a_4", "b_2", "c"]);
    let messages: Vec<_> = warnings.iter().map(Error::message).collect();
    let [a, b] = ["a", "b"].map(|name| format!("two members of a structure are named `{name}`"));
    assert_eq!(messages, [&a, &a, &b]);
    assert_eq!(warnings[0].help(), Some("this one is read as `a_3`; field locations mean the first one"));
    // The location means the first one.
    let FieldKind::Blob(blob) = &schema.field_class(class.members[6].class).kind else { panic!("a blob") };
    let tracemill_model::schema::Length::Field(path) = &blob.length else { panic!("a field") };
    assert_eq!(path.steps, [tracemill_model::schema::PathStep::Member(0)]);
}

#[test]
fn a_second_option_of_a_name_gets_a_number() {
    let option =
        |at: u32| format!(r#"{{"name": "o", "selector-field-ranges": [[{at}, {at}]], "field-class": {STRING}}}"#);
    let variant = format!(
        r#"{{"type": "variant", "selector-field-location": {{"path": ["n"]}}, "options": [{}, {}]}}"#,
        option(0),
        option(1)
    );
    let members = [member("n", UINT), member("v", &variant)].join(", ");
    let (schema, warnings) = tolerated(&[STREAM, &payload(&members)]);
    assert_eq!(warnings[0].message(), "two options of a variant are named `o`");
    let FieldKind::Variant(class) = &schema.field_class(payload_of(&schema).members[1].class).kind else {
        panic!("a variant")
    };
    let names: Vec<_> = class.options.iter().map(|option| option.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["o", "o_2"]);
}

#[test]
fn ranges_of_a_boolean_selector_are_those_of_0_and_1() {
    for (ranges, presence) in [
        ("[[1, 1]]", Presence::Boolean),
        ("[[1, 255]]", Presence::Boolean),
        ("[[0, 0]]", Presence::Ranges(vec![(0, 0)])),
        ("[[0, 1]]", Presence::Ranges(vec![(0, 1)])),
    ] {
        let optional = format!(
            r#"{{"type": "optional", "field-class": {STRING}, "selector-field-location": {{"path": ["s"]}},
                "selector-field-ranges": {ranges}}}"#
        );
        let members = [member("s", BOOLEAN), member("o", &optional)].join(", ");
        let (schema, warnings) = tolerated(&[STREAM, &payload(&members)]);
        let message =
            "`selector-field-ranges` of an optional whose selector is a boolean, expected an integer selector";
        assert_eq!(reported(&warnings), [(4, 42, message)]);
        let FieldKind::Optional(class) = &schema.field_class(payload_of(&schema).members[1].class).kind else {
            panic!("an optional")
        };
        assert_eq!(class.presence, presence, "{ranges}");
    }
}

#[test]
fn a_boolean_may_select_an_option_while_its_values_are_told_apart() {
    let fragment = |second: &str| {
        let option = |ranges: &str| format!(r#"{{"selector-field-ranges": {ranges}, "field-class": {STRING}}}"#);
        let variant = format!(
            r#"{{"type": "variant", "selector-field-location": {{"path": ["s"]}}, "options": [{}, {}]}}"#,
            option("[[0, 0]]"),
            option(second)
        );
        payload(&[member("s", BOOLEAN), member("v", &variant)].join(", "))
    };
    let (schema, warnings) = tolerated(&[STREAM, &fragment("[[1, 255]]")]);
    assert_eq!(warnings[0].message(), "the selector field is a boolean, expected an integer");
    let FieldKind::Variant(class) = &schema.field_class(payload_of(&schema).members[1].class).kind else {
        panic!("a variant")
    };
    let ranges: Vec<_> = class.options.iter().map(|option| option.ranges.clone()).collect();
    assert_eq!(ranges, [vec![(0, 0)], vec![(1, 1)]]);
    // With three values of an integer that a boolean does not have.
    let three = fragment(r#"[[1, 1]], "field-class": {"type": "structure"}}, {"selector-field-ranges": [[2, 2]]"#);
    let error = parse(metadata(&[STREAM, &three]).as_bytes(), false).unwrap_err();
    assert_eq!(error.message(), "selector value `1` belongs to two options of a variant");
}

#[test]
fn thousands_of_oddities_are_summed_up() {
    let members: Vec<String> = (0..5000).map(|_| member("a", UINT)).collect();
    let (schema, warnings) = tolerated(&[STREAM, &payload(&members.join(", "))]);
    assert_eq!(&*payload_of(&schema).members[4999].name, "a_5000");
    assert_eq!(warnings.len(), 101);
    assert_eq!(warnings[100].message(), "4899 more oddities of the metadata");
}
