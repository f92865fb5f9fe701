//! The schemas that come out of metadata.

use tracemill_model::schema::{
    ClockOrigin, EnvValue, FieldClass, FieldClassId, FieldKind, FieldPath, Length, PathStep, Presence, Role, Schema,
    Scope, StringLength,
};

use super::super::{parse, probe};
use super::*;

/// The class at a place in the payload of the first event record class.
fn at(schema: &Schema, steps: &[PathStep]) -> FieldClass {
    schema.field_class(id_at(schema, schema.events()[0].payload.unwrap(), steps)).clone()
}

fn id_at(schema: &Schema, root: FieldClassId, steps: &[PathStep]) -> FieldClassId {
    steps.iter().fold(root, |id, step| match (&schema.field_class(id).kind, step) {
        (FieldKind::Struct(class), PathStep::Member(index)) => class.members[*index as usize].class,
        (FieldKind::Array(class), PathStep::Element) => class.element,
        (FieldKind::Optional(class), PathStep::Content) => class.content,
        (FieldKind::Variant(class), PathStep::Option(index)) => class.options[*index as usize].class,
        (kind, step) => panic!("no {step:?} in {kind:?}"),
    })
}

fn length_path(class: &FieldClass) -> FieldPath {
    let length = match &class.kind {
        FieldKind::Array(class) => &class.length,
        FieldKind::Blob(class) => &class.length,
        FieldKind::String(class) => match &class.length {
            StringLength::Bytes(length) => length,
            StringLength::NullTerminated => panic!("null-terminated"),
        },
        kind => panic!("no length in {kind:?}"),
    };
    match length {
        Length::Field(path) => path.clone(),
        length => panic!("no field holds the length {length:?}"),
    }
}

fn array(path: &str, element: &str) -> String {
    format!(r#"{{"type": "dynamic-length-array", "length-field-location": {path}, "element-field-class": {element}}}"#)
}

fn structure(members: &[String]) -> String {
    format!(r#"{{"type": "structure", "member-classes": [{}]}}"#, members.join(", "))
}

use PathStep::{Content, Element, Member, Option as Choice};

#[test]
fn probe_knows_its_own() {
    assert!(probe(b"\x1e{\"type\": \"preamble\"}"));
    assert!(probe(b" \n\x1e"));
    assert!(probe(b"{\"version\": 2, \"type\": \"preamble\"}"));
    assert!(!probe(b"{\"traceEvents\": []}"));
    assert!(!probe(b"/* CTF 1.8 */"));
    assert!(!probe(b""));
}

#[test]
fn framing_is_tolerant() {
    let (schema, _) =
        parse(b" \n{\"type\": \"preamble\", \"version\": 2}\n\x1e\x1e\n\x1e {\"type\": \"data-stream-class\"}", true)
            .unwrap();
    assert_eq!((schema.format, schema.version, schema.streams().len()), ("ctf2", (2, 0), 1));
}

#[test]
fn fragments_and_their_defaults() {
    let schema = schema(&[
        r#"{"type": "trace-class", "namespace": "ns", "name": "t", "uid": "u", "environment": {"z": -5, "a": "\u00e9"}}"#,
        r#"{"type": "clock-class", "id": "a", "frequency": 1}"#,
        r#"{"type": "clock-class", "id": "b", "namespace": "n", "name": "m", "uid": "u", "frequency": 18446744073709551615,
            "origin": {"name": "o", "uid": "7"}, "offset-from-origin": {"seconds": -3, "cycles": 18446744073709551614},
            "precision": 1, "accuracy": 2, "description": "d"}"#,
        r#"{"type": "clock-class", "id": "c", "frequency": 5, "origin": "unix-epoch", "offset-from-origin": {}}"#,
        STREAM,
        r#"{"type": "data-stream-class", "id": 18446744073709551615, "name": "s", "default-clock-class-id": "b"}"#,
        r#"{"type": "event-record-class", "name": "e"}"#,
        r#"{"type": "event-record-class", "data-stream-class-id": 18446744073709551615, "attributes": {}}"#,
    ]);
    assert_eq!(schema.environment[0], ("z".into(), EnvValue::Integer(-5)));
    assert_eq!(schema.environment[1], ("a".into(), EnvValue::String("é".into())));
    assert_eq!(schema.uid.as_deref(), Some("u"));
    let [a, b, c] = schema.clocks() else { panic!("three clocks") };
    assert_eq!((a.offset_seconds, a.offset_cycles, &a.origin), (0, 0, &ClockOrigin::Unknown));
    assert_eq!((b.offset_seconds, b.offset_cycles), (-3, i128::from(u64::MAX) - 1));
    assert_eq!(b.origin, ClockOrigin::Custom { namespace: None, name: "o".into(), uid: "7".into() });
    assert_eq!((b.precision, b.accuracy, b.description.as_deref()), (Some(1), Some(2), Some("d")));
    assert_eq!(c.origin, ClockOrigin::Unix);
    let stream = schema.stream(schema.stream_by_id(u64::MAX).unwrap());
    assert_eq!(schema.clock(stream.default_clock.unwrap()).id, b.id);
    assert_eq!(schema.streams()[0].default_clock, None);
    assert_eq!(schema.events().len(), 2);
    assert_eq!(stream.events.len(), 1);
}

#[test]
fn alignment_of_structures_and_arrays() {
    let word = r#"{"type": "fixed-length-bit-array", "length": 4, "byte-order": "big-endian", "alignment": 32}"#;
    let bit = r#"{"type": "fixed-length-bit-array", "length": 1, "byte-order": "big-endian"}"#;
    let fixed = |element: &str, minimum: u32| {
        format!(
            r#"{{"type": "static-length-array", "length": 0, "minimum-alignment": {minimum}, "element-field-class": {element}}}"#
        )
    };
    let optional =
        format!(r#"{{"type": "optional", "selector-field-location": {{"path": ["b"]}}, "field-class": {word}}}"#);
    let schema = schema(&[
        STREAM,
        &payload(
            &[
                member("w", &fixed(word, 8)),
                member("m", &fixed(bit, 64)),
                member("b", BOOLEAN),
                member("o", &optional),
                member("s", r#"{"type": "structure", "minimum-alignment": 128}"#),
                member("t", STRING),
            ]
            .join(", "),
        ),
    ]);
    let align = |steps: &[PathStep]| at(&schema, steps).align_bits;
    assert_eq!(align(&[Member(0)]), 32);
    assert_eq!((align(&[Member(1)]), align(&[Member(1), Element])), (64, 1));
    assert_eq!((align(&[Member(3)]), align(&[Member(3), Content])), (1, 32));
    assert_eq!((align(&[Member(4)]), align(&[Member(5)]), align(&[])), (128, 8, 128));
}

#[test]
fn a_location_without_origin_starts_in_the_nearest_structure() {
    let inner = structure(&[
        member("len", UINT),
        member("near", &array(r#"{"path": ["len"]}"#, UINT)),
        member("far", &array(r#"{"path": [null, "len"]}"#, STRING)),
        member("aside", &array(r#"{"path": [null, "side", "n"]}"#, STRING)),
    ]);
    let nested = array(r#"{"path": ["len"]}"#, &array(r#"{"path": ["len"]}"#, &inner));
    let schema = schema(&[
        STREAM,
        &payload(
            &[member("side", &structure(&[member("n", UINT)])), member("len", UINT), member("a", &nested)].join(", "),
        ),
    ]);
    let path = |steps: &[PathStep]| length_path(&at(&schema, steps)).steps;
    let inside = [Member(2), Element, Element];
    let steps = |last: u32| [&inside[..], &[Member(last)]].concat();
    assert_eq!(path(&[Member(2)]), [Member(1)]);
    assert_eq!(path(&[Member(2), Element]), [Member(1)]);
    assert_eq!(path(&steps(1)), steps(0));
    assert_eq!(path(&steps(2)), [Member(1)]);
    assert_eq!(path(&steps(3)), [Member(0), Member(0)]);
}

#[test]
fn a_location_with_an_origin_goes_through_what_is_being_decoded() {
    // The specification's example 89, inside an array and an optional.
    let option = structure(&[
        member("lemon", UINT),
        member("stick", &array(r#"{"origin": "event-record-payload", "path": ["all", "clinic", "lemon"]}"#, STRING)),
    ]);
    let variant = format!(
        r#"{{"type": "variant", "selector-field-location": {{"origin": "event-record-payload", "path": ["all", "lawyer"]}},
            "options": [{{"selector-field-ranges": [[0, 0]], "field-class": {STRING}}},
                        {{"name": "x", "selector-field-ranges": [[1, 4], [-2, -1]], "field-class": {option}}}]}}"#
    );
    let inside = structure(&[member("lawyer", SINT), member("clinic", &variant)]);
    let optional = format!(
        r#"{{"type": "optional", "selector-field-location": {{"path": ["has"]}}, "selector-field-ranges": [[1, 9]],
            "field-class": {inside}}}"#
    );
    let all = format!(r#"{{"type": "static-length-array", "length": 3, "element-field-class": {optional}}}"#);
    let schema = schema(&[STREAM, &payload(&[member("has", UINT), member("all", &all)].join(", "))]);
    let optional_at = [Member(1), Element];
    let FieldKind::Optional(class) = at(&schema, &optional_at).kind else { panic!("an optional") };
    assert_eq!(class.selector, FieldPath { scope: Scope::Payload, steps: vec![Member(0)] });
    assert_eq!(class.presence, Presence::Ranges(vec![(1, 9)]));
    let inside = [&optional_at[..], &[Content]].concat();
    let FieldKind::Variant(class) = at(&schema, &[&inside[..], &[Member(1)]].concat()).kind else {
        panic!("a variant")
    };
    assert_eq!(class.selector.steps, [&inside[..], &[Member(0)]].concat());
    assert_eq!((class.options[0].name.as_deref(), class.options[1].name.as_deref()), (None, Some("x")));
    assert_eq!(class.options[1].ranges, [(1, 4), (-2, -1)]);
    let option = [&inside[..], &[Member(1), Choice(1)]].concat();
    let user = at(&schema, &[&option[..], &[Member(1)]].concat());
    assert_eq!(length_path(&user).steps, [&option[..], &[Member(0)]].concat());
}

#[test]
fn locations_reach_earlier_scopes() {
    let uints = |name: &str| structure(&[member("skip", STRING), member(name, UINT)]);
    let user = |origin: &str, name: &str| {
        let location = format!(r#"{{"origin": "{origin}", "path": ["{name}"]}}"#);
        format!(r#"{{"type": "dynamic-length-blob", "length-field-location": {location}, "media-type": "a/b"}}"#)
    };
    let header = uints("h");
    let stream = format!(
        r#"{{"type": "data-stream-class", "packet-context-field-class": {}, "event-record-header-field-class": {},
            "event-record-common-context-field-class": {}}}"#,
        structure(&[member("skip", STRING), member("c", UINT), member("u", &user("packet-header", "h"))]),
        uints("e"),
        uints("m"),
    );
    let users: Vec<String> = [
        ("packet-header", "h"),
        ("packet-context", "c"),
        ("event-record-header", "e"),
        ("event-record-common-context", "m"),
        ("event-record-specific-context", "s"),
    ]
    .iter()
    .map(|(origin, name)| member(name, &user(origin, name)))
    .collect();
    let event = format!(
        r#"{{"type": "event-record-class", "specific-context-field-class": {}, "payload-field-class": {}}}"#,
        uints("s"),
        structure(&users)
    );
    let trace = format!(r#"{{"type": "trace-class", "packet-header-field-class": {header}}}"#);
    let schema = schema(&[&trace, &stream, &event]);
    for (index, scope) in Scope::ALL[..5].iter().enumerate() {
        let path = length_path(&at(&schema, &[Member(index as u32)]));
        assert_eq!(path, FieldPath { scope: *scope, steps: vec![Member(1)] });
    }
    let context = schema.streams()[0].packet_context.unwrap();
    let path = length_path(schema.field_class(id_at(&schema, context, &[Member(2)])));
    assert_eq!(path.scope, Scope::PacketHeader);
}

#[test]
fn a_path_may_go_through_an_optional_that_is_decoded() {
    let inside = structure(&[member("n", UINT)]);
    let optional =
        format!(r#"{{"type": "optional", "selector-field-location": {{"path": ["b"]}}, "field-class": {inside}}}"#);
    let string =
        r#"{"type": "dynamic-length-string", "length-field-location": {"path": ["o", "n"]}, "encoding": "utf-16le"}"#;
    let schema =
        schema(&[STREAM, &payload(&[member("b", BOOLEAN), member("o", &optional), member("s", string)].join(", "))]);
    let FieldKind::Optional(class) = at(&schema, &[Member(1)]).kind else { panic!("an optional") };
    assert_eq!(class.presence, Presence::Boolean);
    assert_eq!(length_path(&at(&schema, &[Member(2)])).steps, [Member(1), Content, Member(0)]);
}

#[test]
fn aliases_share_leaves_and_renew_references() {
    let pair = structure(&[member("n", "\"u\""), member("a", &array(r#"{"path": ["n"]}"#, "\"u\""))]);
    let schema = schema(&[
        &format!(r#"{{"type": "field-class-alias", "name": "u", "field-class": {UINT}}}"#),
        r#"{"type": "field-class-alias", "name": "v", "field-class": "u"}"#,
        &format!(r#"{{"type": "field-class-alias", "name": "pair", "field-class": {pair}}}"#),
        STREAM,
        &payload(&[member("x", "\"v\""), member("p", "\"pair\""), member("q", "\"pair\"")].join(", ")),
    ]);
    let root = schema.events()[0].payload.unwrap();
    let id = |steps: &[PathStep]| id_at(&schema, root, steps);
    assert_eq!(id(&[Member(0)]), id(&[Member(1), Member(0)]));
    assert_eq!(id(&[Member(0)]), id(&[Member(2), Member(1), Element]));
    assert_ne!(id(&[Member(1)]), id(&[Member(2)]));
    assert_eq!(length_path(&at(&schema, &[Member(2), Member(1)])).steps, [Member(2), Member(0)]);
}

#[test]
fn roles_mean_something_only_in_their_scope() {
    let stamp = r#"{"type": "field-class-alias", "name": "ts", "field-class": {"type": "fixed-length-unsigned-integer",
        "length": 64, "byte-order": "little-endian", "roles": ["default-clock-timestamp", "event-record-class-id"]}}"#;
    let root = structure(&[member("t", "\"ts\"")]);
    let stream = format!(
        r#"{{"type": "data-stream-class", "default-clock-class-id": "c", "packet-context-field-class": {root},
            "event-record-header-field-class": {root}, "event-record-common-context-field-class": {root}}}"#
    );
    let schema = schema(&[
        r#"{"type": "clock-class", "id": "c", "frequency": 9}"#,
        stamp,
        &stream,
        &payload(&member("t", "\"ts\"")),
    ]);
    let stream = &schema.streams()[0];
    let roles = |root: Option<FieldClassId>| schema.field_class(id_at(&schema, root.unwrap(), &[Member(0)])).roles;
    let context = roles(stream.packet_context);
    assert!(context.has(Role::PacketBegin) && context.has(Role::Timestamp) && !context.has(Role::EventClassId));
    let header = roles(stream.event_header);
    assert!(!header.has(Role::PacketBegin) && header.has(Role::Timestamp) && header.has(Role::EventClassId));
    assert!(roles(stream.common_context).is_empty());
    assert!(roles(schema.events()[0].payload).is_empty());
}

#[test]
fn the_packet_header_has_its_roles() {
    let header = structure(&[
        member(
            "m",
            r#"{"type": "fixed-length-unsigned-integer", "length": 32, "byte-order": "big-endian", "roles": ["packet-magic-number"]}"#,
        ),
        member("u", r#"{"type": "static-length-blob", "length": 16, "roles": ["metadata-stream-uuid"]}"#),
        member("i", r#"{"type": "variable-length-unsigned-integer", "roles": ["data-stream-class-id"]}"#),
        member("s", r#"{"type": "variable-length-unsigned-integer", "roles": ["data-stream-id"]}"#),
    ]);
    let text = format!(
        "\u{1e}{{\"type\": \"preamble\", \"version\": 2, \"uuid\": [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,255]}}\n\
         \u{1e}{{\"type\": \"trace-class\", \"packet-header-field-class\": {header}}}\n"
    );
    let schema = parse(text.as_bytes(), true).unwrap().0;
    assert_eq!(schema.uuid.unwrap()[15], 255);
    let role = |index: u32| schema.field_class(id_at(&schema, schema.packet_header.unwrap(), &[Member(index)])).roles;
    assert!(role(0).has(Role::PacketMagic) && role(1).has(Role::TraceUuid));
    assert!(role(2).has(Role::StreamClassId) && role(3).has(Role::StreamId));
}

#[test]
fn many_event_record_classes_take_linear_time() {
    let mut text = metadata(&[STREAM]);
    for id in 0..20_000 {
        text.push_str(&format!("\u{1e}{{\"type\": \"event-record-class\", \"id\": {id}, \"name\": \"e{id}\"}}\n"));
    }
    assert_eq!(parse(text.as_bytes(), true).unwrap().0.events().len(), 20_000);
}

#[test]
fn many_locations_into_one_large_structure_take_linear_time() {
    let wide: Vec<String> = (0..5_000).map(|index| member(&format!("n{index}"), UINT)).collect();
    let users: Vec<String> = (0..5_000)
        .map(|index| {
            let location = format!(r#"{{"origin": "event-record-specific-context", "path": ["n{index}"]}}"#);
            member(&format!("a{index}"), &array(&location, UINT))
        })
        .collect();
    let event = format!(
        r#"{{"type": "event-record-class", "specific-context-field-class": {}, "payload-field-class": {}}}"#,
        structure(&wide),
        structure(&users)
    );
    let schema = schema(&[STREAM, &event]);
    assert_eq!(length_path(&at(&schema, &[Member(4_999)])).steps, [Member(4_999)]);
}
