//! Tests of the whole front end: metadata text in, schema or error out.

use tracemill_model::error::{Error, ErrorKind};
use tracemill_model::schema::{
    ArrayClass, ByteOrder, ClockOrigin, DisplayBase, FieldClass, FieldClassId, FieldKind, FieldPath, IntegerClass,
    Length, PathStep, Role, Schema, Scope, StringLength, VariantClass,
};

use super::{Flavour, parse, probe, read_text};

use self::packets::packet;

mod packets;

const TYPES: &str =
    "typealias integer { size = 8; } := uint8_t; typealias integer { size = 32; align = 32; } := uint32_t;
typealias integer { size = 32; align = 32; signed = true; } := int;
typealias integer { size = 8; align = 8; encoding = UTF8; } := char;
";

const TRACE: &str = "trace { major = 1; minor = 8; byte_order = le; };\n";

/// A trace with the usual types and more text. The extra text starts on line 6.
fn with_types(rest: &str) -> String {
    format!("{TRACE}{TYPES}\n{rest}")
}

/// A trace with one event that has these fields; the fields start on line 7.
fn with_fields(fields: &str) -> String {
    with_types(&format!("event {{ name = e; fields := struct {{\n{fields}\n}}; }};"))
}

fn schema(text: &str) -> Schema {
    parse(text, true).unwrap_or_else(|error| panic!("{error}\nin:\n{text}")).0
}

fn fault(text: &str) -> Error {
    match parse(text, true) {
        Ok(_) => panic!("no fault in:\n{text}"),
        Err(error) => error,
    }
}

fn payload(schema: &Schema) -> FieldClassId {
    schema.events()[0].payload.expect("the event has fields")
}

fn member(schema: &Schema, parent: FieldClassId, name: &str) -> FieldClassId {
    let FieldKind::Struct(class) = &schema.field_class(parent).kind else { panic!("not a structure") };
    let found = class.members.iter().find(|member| &*member.raw_name == name);
    found.unwrap_or_else(|| panic!("no member {name}")).class
}

fn field<'s>(schema: &'s Schema, name: &str) -> &'s FieldClass {
    schema.field_class(member(schema, payload(schema), name))
}

fn integer(class: &FieldClass) -> &IntegerClass {
    let FieldKind::Integer(class) = &class.kind else { panic!("not an integer: {class:?}") };
    class
}

fn array(class: &FieldClass) -> &ArrayClass {
    let FieldKind::Array(class) = &class.kind else { panic!("not an array: {class:?}") };
    class
}

fn variant(class: &FieldClass) -> &VariantClass {
    let FieldKind::Variant(class) = &class.kind else { panic!("not a variant: {class:?}") };
    class
}

fn path(scope: Scope, members: &[u32]) -> FieldPath {
    FieldPath { scope, steps: members.iter().map(|at| PathStep::Member(*at)).collect() }
}

#[test]
fn integers_take_all_attributes() {
    let schema = schema(&with_fields(
        "integer { size = 12; signed = 1; base = x; byte_order = network; align = 4; color = red; } a;
         integer { size = 24; base = 8; encoding = none; } b; integer { size = 0x40; base = \"binary\"; } c;",
    ));
    let a = field(&schema, "a");
    assert_eq!(format!("{:?}", integer(a).base), "Hexadecimal");
    assert_eq!((integer(a).len_bits, integer(a).signed, a.align_bits), (12, true, 4));
    assert_eq!(format!("{:?}", integer(a).byte_order), "Big");
    assert_eq!((integer(field(&schema, "b")).len_bits, field(&schema, "b").align_bits), (24, 8));
    assert_eq!(integer(field(&schema, "c")).len_bits, 64);
}

#[test]
fn leaves_are_shared_and_have_no_roles_of_others() {
    let schema = schema(&format!(
        "{TRACE}{TYPES} stream {{ event.header := struct {{ uint32_t id; uint32_t x; }}; }};
         event {{ id = 0; fields := struct {{ uint32_t a; uint32_t b; integer {{ size = 32; align = 32; }} c; }}; }};
         event {{ id = 1; fields := struct {{ uint32_t id; }}; }};"
    ));
    let [first, second] = [0, 1].map(|at| schema.events()[at].payload.expect("it has fields"));
    let shared = member(&schema, first, "a");
    assert_eq!([member(&schema, first, "b"), member(&schema, first, "c"), member(&schema, second, "id")], [shared; 3]);
    let header = schema.streams()[0].event_header.expect("it has a header");
    assert_eq!(member(&schema, header, "x"), shared);
    assert!(schema.field_class(member(&schema, header, "id")).roles.has(Role::EventClassId));
    assert!(schema.field_class(shared).roles.is_empty());
}

#[test]
fn names_of_several_words_and_pointers() {
    let schema = schema(&with_types(
        "typealias integer { size = 64; } := unsigned long; typealias integer { size = 64; base = 10; } := struct page *;
         typealias unsigned long := ulong; typedef ulong word_t, pair_t[2];
         event { name = e; fields := struct { unsigned long a; const unsigned long b; struct page *c; word_t d; pair_t e; }; };",
    ));
    for name in ["a", "b", "d"] {
        assert_eq!(integer(field(&schema, name)).len_bits, 64);
    }
    assert_eq!(format!("{:?}", integer(field(&schema, "c")).base), "Hexadecimal");
    assert_eq!(array(field(&schema, "e")).length, Length::Static(2));
}

#[test]
fn enumerations_map_labels_to_ranges() {
    let schema = schema(&with_fields(
        "enum : integer { size = 8; signed = true; } { A, B, \"C D\" = -5 ... -3, E, A = 9, } x; enum e { Z = 1, } y; enum e z;",
    ));
    let mappings = integer(field(&schema, "x")).mappings.as_ref().expect("it has labels");
    let got: Vec<_> = mappings.iter().map(|mapping| (&*mapping.label, mapping.ranges.clone())).collect();
    assert_eq!(got, [("A", vec![(0, 0), (9, 9)]), ("B", vec![(1, 1)]), ("C D", vec![(-5, -3)]), ("E", vec![(-2, -2)])]);
    assert_eq!(integer(field(&schema, "y")).len_bits, 32, "the container is int");
    assert_eq!(integer(field(&schema, "z")), integer(field(&schema, "y")));
}

#[test]
fn text_arrays_are_strings() {
    let schema = schema(&with_types(
        "env { n = 5; }; event { fields := struct { uint8_t len; char a[3]; char b[len]; char c[2][env.n]; uint8_t d[3];
         integer { size = 8; align = 16; encoding = ASCII; } e[2]; }; };",
    ));
    let FieldKind::String(a) = &field(&schema, "a").kind else { panic!() };
    assert_eq!(a.length, StringLength::Bytes(Length::Static(3)));
    let FieldKind::String(b) = &field(&schema, "b").kind else { panic!() };
    assert_eq!(b.length, StringLength::Bytes(Length::Field(path(Scope::Payload, &[0]))));
    let c = array(field(&schema, "c"));
    assert_eq!(c.length, Length::Static(2));
    let FieldKind::String(c) = &schema.field_class(c.element).kind else { panic!() };
    assert_eq!(c.length, StringLength::Bytes(Length::Static(5)));
    assert_eq!(array(field(&schema, "d")).length, Length::Static(3));
    assert_eq!(array(field(&schema, "e")).length, Length::Static(2), "characters with gaps are no text");
}

#[test]
fn structures_align_on_their_members_and_variants_on_nothing() {
    let schema = schema(&with_fields(
        "struct { uint8_t a; uint32_t b; } s; struct { uint8_t a; } align(64) t; struct named { uint8_t a; } align(16) u;
         struct named v; enum : uint8_t { k } tag; variant <tag> { uint32_t k; } w; uint32_t x[0];",
    ));
    let aligns = ["s", "t", "u", "v", "w", "x"].map(|name| field(&schema, name).align_bits);
    assert_eq!(aligns, [32, 64, 16, 16, 1, 32]);
    assert_eq!(schema.field_class(payload(&schema)).align_bits, 64);
}

#[test]
fn relative_paths_look_outwards_among_earlier_fields() {
    let schema = schema(&with_fields(
        "uint8_t n; struct { struct { uint8_t m; } k; uint8_t a[n]; struct { uint8_t n; uint8_t b[n]; uint8_t c[k.m]; } in[n]; } out;",
    ));
    let out = member(&schema, payload(&schema), "out");
    let a = schema.field_class(member(&schema, out, "a"));
    assert_eq!(array(a).length, Length::Field(path(Scope::Payload, &[0])));
    let inner = array(schema.field_class(member(&schema, out, "in"))).element;
    let b = schema.field_class(member(&schema, inner, "b"));
    let expected = [PathStep::Member(1), PathStep::Member(2), PathStep::Element, PathStep::Member(0)];
    assert_eq!(array(b).length, Length::Field(FieldPath { scope: Scope::Payload, steps: expected.to_vec() }));
    let c = schema.field_class(member(&schema, inner, "c"));
    assert_eq!(array(c).length, Length::Field(path(Scope::Payload, &[1, 0, 0])));
}

#[test]
fn absolute_paths_reach_every_scope() {
    let text = format!(
        "{TYPES} trace {{ major = 1; minor = 8; byte_order = be; packet.header := struct {{ uint8_t a; }}; }};
         stream {{ packet.context := struct {{ uint8_t b; }}; event.header := struct {{ uint8_t c; }};
                   event.context := struct {{ uint8_t d; uint8_t x[stream.event.header.c]; }}; }};
         event {{ context := struct {{ uint8_t e; }}; fields := struct {{ uint8_t f;
            uint8_t q[trace.packet.header.a]; uint8_t r[stream.packet.context.b]; uint8_t s[stream.event.header.c];
            uint8_t t[stream.event.context.d]; uint8_t u[event.context.e]; uint8_t v[event.fields.f]; }}; }};"
    );
    let schema = schema(&text);
    for (name, scope) in ["q", "r", "s", "t", "u", "v"].into_iter().zip(Scope::ALL) {
        assert_eq!(array(field(&schema, name)).length, Length::Field(path(scope, &[0])), "{name}");
    }
}

#[test]
fn absolute_path_into_the_own_array_element() {
    let schema = schema(&with_fields("struct { uint8_t n; uint8_t d[event.fields.rows.n]; } rows[4];"));
    let rows = array(field(&schema, "rows")).element;
    let steps = vec![PathStep::Member(0), PathStep::Element, PathStep::Member(0)];
    let length = array(schema.field_class(member(&schema, rows, "d"))).length.clone();
    assert_eq!(length, Length::Field(FieldPath { scope: Scope::Payload, steps }));
}

#[test]
fn a_type_defined_in_a_structure_looks_where_it_is_defined() {
    // The example of CTF 1.8.3, 4.2.2.
    let schema = schema(&with_fields(
        "enum : uint8_t { a, b } x; typedef variant <x> { uint32_t a; uint8_t b; } example_variant;
         struct { enum : int { x, y, z } x; example_variant v; } s[10];",
    ));
    let element = array(field(&schema, "s")).element;
    let v = variant(schema.field_class(member(&schema, element, "v")));
    assert_eq!(v.selector, path(Scope::Payload, &[0]));
}

#[test]
fn a_type_defined_outside_looks_where_it_is_used() {
    let schema = schema(&with_types(
        "struct pair { uint8_t len; uint8_t data[len]; }; event { fields := struct { struct pair p, q; }; };",
    ));
    for (at, name) in [(0, "p"), (1, "q")] {
        let pair = member(&schema, payload(&schema), name);
        let data = schema.field_class(member(&schema, pair, "data"));
        assert_eq!(array(data).length, Length::Field(path(Scope::Payload, &[at, 0])));
    }
}

#[test]
fn variants_take_the_ranges_of_their_labels() {
    let schema = schema(&with_fields(
        "enum : uint8_t { a = 1, b = 2 ... 3, _c, d, b = 9 } t; variant v { uint8_t a; uint32_t _b; string _c; string z; };
         variant v <t> w;",
    ));
    let w = variant(field(&schema, "w"));
    let ranges: Vec<_> = w.options.iter().map(|option| option.ranges.clone()).collect();
    assert_eq!(ranges, [vec![(1, 1)], vec![(2, 3), (9, 9)], vec![(4, 4)], vec![]]);
    assert_eq!(w.options[1].name.as_deref(), Some("b"));
    assert_eq!(w.options[1].raw_name.as_deref(), Some("_b"));
    assert_eq!(w.selector, path(Scope::Payload, &[0]));
}

#[test]
fn an_exact_option_name_beats_a_stripped_one() {
    let schema = schema(&with_fields("enum : uint8_t { x } t; variant <t> { uint8_t _x; uint32_t x; } v;"));
    let ranges: Vec<_> = variant(field(&schema, "v")).options.iter().map(|option| option.ranges.len()).collect();
    assert_eq!(ranges, [0, 1]);
}

#[test]
fn packet_header_and_context_have_roles() {
    let text = format!(
        "{TYPES} trace {{ major = 1; minor = 8; byte_order = le; packet.header := struct {{ uint32_t magic; uint8_t uuid[16];
           uint32_t stream_id; uint32_t stream_instance_id; }}; }};
         clock {{ name = c; freq = 1000; offset_s = 5; }};
         stream {{ id = 3; packet.context := struct {{ uint32_t timestamp_begin; integer {{ size = 64; map = clock.c.value; }}
           timestamp_end; uint32_t events_discarded; uint32_t packet_seq_num; uint32_t content_size; uint32_t packet_size;
           uint32_t cpu_id; }}; event.header := struct {{ enum : uint8_t {{ few = 0 ... 30, many = 31 }} id;
             variant <id> {{ struct {{ uint32_t timestamp; }} few; struct {{ uint32_t id; uint32_t timestamp; }} many; }} v; }}; }};"
    );
    let schema = schema(&text);
    let header = schema.packet_header.expect("it has a header");
    let roles = |parent, name: &str| schema.field_class(member(&schema, parent, name)).roles;
    for (name, role) in [
        ("magic", Role::PacketMagic),
        ("uuid", Role::TraceUuid),
        ("stream_id", Role::StreamClassId),
        ("stream_instance_id", Role::StreamId),
    ] {
        assert!(roles(header, name).has(role), "{name}");
    }
    let stream = &schema.streams()[0];
    let context = stream.packet_context.expect("it has a context");
    for (name, role) in [
        ("timestamp_begin", Role::PacketBegin),
        ("timestamp_end", Role::PacketEnd),
        ("events_discarded", Role::DiscardedEvents),
        ("packet_seq_num", Role::PacketSequence),
        ("content_size", Role::PacketContentSize),
        ("packet_size", Role::PacketTotalSize),
    ] {
        assert!(roles(context, name).has(role), "{name}");
    }
    assert!(roles(context, "timestamp_begin").has(Role::Timestamp));
    assert!(!roles(context, "timestamp_end").has(Role::Timestamp));
    assert!(integer(schema.field_class(member(&schema, context, "timestamp_end"))).clock.is_some());
    assert!(roles(context, "cpu_id").is_empty());
    let event_header = stream.event_header.expect("it has a header");
    assert!(roles(event_header, "id").has(Role::EventClassId));
    let options = &variant(schema.field_class(member(&schema, event_header, "v"))).options;
    assert!(roles(options[0].class, "timestamp").has(Role::Timestamp));
    assert!(roles(options[1].class, "id").has(Role::EventClassId));
    assert_eq!(stream.default_clock, schema.clock_by_id("c"));
    assert_eq!(schema.clocks()[0].origin, ClockOrigin::Unix);
}

#[test]
fn unmapped_timestamps_get_an_implicit_clock() {
    let schema = schema(&format!("{TRACE}{TYPES} stream {{ event.header := struct {{ uint32_t timestamp; }}; }};"));
    assert_eq!((&*schema.clocks()[0].id, schema.clocks()[0].frequency), ("default", 1_000_000_000));
    assert!(schema.streams()[0].default_clock.is_some());
}

#[test]
fn clocks_take_offsets_of_any_size() {
    let schema = schema(&format!(
        "{TRACE} clock {{ name = a; offset = 18446744073709551615; offset_s = -7; precision = 3; description = \"d\"; }};
         clock {{ name = b; absolute = TRUE; offset = -4; uuid = \"2a6422d0-6cee-11e0-8c08-cb07d7b3a564\"; }}; clock {{ name = c; }};"
    ));
    let [a, b, c] = schema.clocks() else { panic!() };
    assert_eq!((a.offset_cycles, a.offset_seconds, a.precision), (i128::from(u64::MAX), -7, Some(3)));
    assert_eq!((b.offset_cycles, &b.origin), (-4, &ClockOrigin::Unix));
    assert_eq!(c.origin, ClockOrigin::Unknown);
}

#[test]
fn blocks_may_come_in_any_order_and_be_implied() {
    let schema = schema(&format!(
        "event {{ name = \"a b\"; loglevel = 13; model.emf.uri = \"u\"; fields := struct {{ uint8_t x; }}; }};
         callsite {{ name = \"a b\"; ip = 0x1; }}; {TYPES}{TRACE} env {{ domain = \"kernel\"; pid = -1; }};"
    ));
    let event = &schema.events()[0];
    assert_eq!((event.id, event.name.as_deref(), event.log_level), (0, Some("a b"), Some(13)));
    assert_eq!(event.emf_uri.as_deref(), Some("u"));
    assert_eq!(schema.streams().len(), 1);
    assert_eq!((schema.version, schema.environment.len()), ((1, 8), 2));
    assert!(event.specific_context.is_none());
}

#[test]
fn empty_fields_are_not_missing_fields() {
    let schema = schema(&format!("{TRACE} event {{ fields := struct {{}}; }};"));
    assert!(matches!(&schema.field_class(payload(&schema)).kind, FieldKind::Struct(class) if class.members.is_empty()));
}

#[test]
fn type_names_are_scoped() {
    let text = with_types(
        "event { typealias integer { size = 7; } := uint8_t; fields := struct { uint8_t a; struct { typedef uint32_t uint8_t;
         uint8_t b; } s; uint8_t c; }; };",
    );
    let schema = schema(&text);
    let s = member(&schema, payload(&schema), "s");
    assert_eq!(integer(field(&schema, "a")).len_bits, 7);
    assert_eq!(integer(schema.field_class(member(&schema, s, "b"))).len_bits, 32);
    assert_eq!(integer(field(&schema, "c")).len_bits, 7);
}

/// Members in front of a bit field of 20 bits in `int`, its alignment, and the alignment of the structure.
#[test]
fn bit_fields_move_to_the_next_unit_when_they_do_not_fit() {
    for (before, align, struct_align) in [
        ("", 1, 32),
        ("int a:12;", 1, 32),
        ("int a:13;", 32, 32),
        ("uint8_t a; uint8_t b:4;", 1, 32),
        ("uint8_t a; uint8_t b:5;", 32, 32),
        ("uint8_t a[0];", 1, 32),
        ("integer { size = 1; align = 8; } a[2];", 1, 32),
        ("integer { size = 1; align = 8; } a[3];", 32, 32),
        ("struct { integer { size = 12; align = 4; } a; } a; int b;", 1, 32),
        ("struct { uint8_t a; struct { int a:1; } b; } a;", 1, 32),
        ("struct { uint8_t a; struct { int a:13; } b; } a;", 32, 32),
        ("integer { size = 5; align = 64; } a;", 1, 64),
    ] {
        let schema = schema(&with_fields(&format!("{before} int x:20;")));
        let x = field(&schema, "x");
        assert_eq!((integer(x).len_bits, integer(x).signed, x.align_bits), (20, true, align), "{before}");
        assert_eq!(schema.field_class(payload(&schema)).align_bits, struct_align, "{before}");
    }
}

#[test]
fn bit_fields_are_integers_of_their_type() {
    let schema = schema(&with_fields(
        "integer { size = 16; align = 8; byte_order = be; base = hex; encoding = UTF8; } a:9; enum : int { A } b:3;",
    ));
    let a = integer(field(&schema, "a"));
    assert_eq!((a.len_bits, a.byte_order, a.base), (9, ByteOrder::Big, DisplayBase::Hexadecimal));
    assert!(!a.is_character);
    let b = integer(field(&schema, "b"));
    assert_eq!((b.len_bits, b.signed, b.labels(0).count()), (3, true, 1));
}

/// Source text, line and column of the error, and a part of its message.
#[test]
fn faults_point_to_their_token() {
    let in_fields: &[(&str, u32, u32, &str)] = &[
        ("uint8_t x;\nuint32 y;", 8, 1, "unknown type `uint32`"),
        ("uint8_t x, x;", 7, 12, "field `x` of the structure is declared twice"),
        ("integer { size = 0; } x;", 7, 18, "integer has a size of 0 bits"),
        ("integer { size = 4097; } x;", 7, 18, "integer of 4097 bits"),
        ("integer { align = 8; } x;", 7, 1, "integer has no `size`"),
        ("integer { size = -8; } x;", 7, 18, "expected a positive integer, found `-8`"),
        ("integer { size = 8; align = 3; } x;", 7, 29, "power of two, found `3`"),
        ("integer { size = 8; size = 9; } x;", 7, 21, "`size` is declared twice"),
        ("integer { size = 8; base = 7; } x;", 7, 28, "expected a base"),
        ("integer { size = 8; signed = maybe; } x;", 7, 30, "expected `true` or `false`, found `maybe`"),
        ("integer { size = 8; byte_order = middle; } x;", 7, 34, "expected a byte order"),
        ("integer { size = 8; encoding = EBCDIC; } x;", 7, 32, "expected an encoding"),
        ("integer { size = 8; map = clock.c.value; } x;", 7, 33, "unknown clock `c`"),
        ("integer { size = 8; map = c; } x;", 7, 27, "expected `clock.NAME.value`, found `c`"),
        ("floating_point { exp_dig = 8; mant_dig = 25; } x;", 7, 31, "`mant_dig` 25"),
        ("floating_point { exp_dig = 8; } x;", 7, 1, "has no `mant_dig`"),
        ("enum : uint8_t { } x;", 7, 1, "enumeration has no labels"),
        ("typedef string t; enum : t { A } x;", 7, 26, "must be an integer, not a string"),
        ("enum : uint8_t { A = 5 ... 3 } x;", 7, 22, "range of label `A` starts at 5"),
        ("enum : uint8_t { A = b } x;", 7, 22, "expected an integer, found `b`"),
        ("variant { uint8_t a; } x;", 7, 24, "variant is used without a tag"),
        ("variant <t> { uint8_t a; } x;", 7, 10, "no field `t` before its user"),
        ("uint8_t t; variant <t> { uint8_t a; } x;", 7, 21, "tag `t` must be an enumeration, not an integer"),
        (
            "enum : uint8_t { a } t; variant <t> { uint8_t a, a; } x;",
            7,
            50,
            "field `a` of the variant is declared twice",
        ),
        ("uint8_t x[n]; uint8_t n;", 7, 11, "`n` does not come before its user"),
        ("int n; uint8_t x[n];", 7, 18, "length `n` must be an unsigned integer, not a signed integer"),
        ("string n; uint8_t x[n];", 7, 21, "not a string"),
        ("uint8_t x[stream.event.header.id];", 7, 11, "`stream.event.header` is not declared"),
        ("uint8_t x[event.fields.y];", 7, 11, "field `event.fields.y` does not exist"),
        ("uint8_t x[event.fields.x];", 7, 11, "does not come before its user"),
        ("uint8_t x[env.n];", 7, 11, "environment has no `n`"),
        ("uint8_t x[-1];", 7, 11, "expected a positive integer, found `-1`"),
        ("uint8_t x[];", 7, 9, "array has no length"),
        ("uint8_t x:9;", 7, 11, "bit field is wider than its type of 8 bits"),
        ("uint8_t x:0;", 7, 11, "bit field has a size of 0 bits"),
        ("uint8_t x:-1;", 7, 11, "expected a positive integer, found `-1`"),
        ("uint8_t :3;", 7, 9, "field has no name"),
        ("string x:3;", 7, 1, "must be an integer or an enumeration, not a string"),
        ("struct { uint8_t a; } x:3;", 7, 1, "not a structure"),
        ("integer { size = 12; } x:3;", 7, 1, "bit field in a type of 12 bits"),
        ("uint8_t x[2]:3;", 7, 9, "pointers and arrays cannot be bit fields"),
        ("uint8_t *x:3;", 7, 9, "pointers and arrays cannot be bit fields"),
        ("typedef uint8_t t:3;", 7, 17, "must be a field of a structure"),
        ("string s; uint8_t x:3;", 7, 19, "the offset of the bit field is not known"),
        ("uint8_t n; struct { uint8_t v[n]; } s[2]; int x:3;", 7, 47, "the offset of the bit field is not known"),
        ("uint32_t a[0xffffffffffffffff]; int x:3;", 7, 37, "the offset of the bit field is not known"),
        ("struct page *x;", 7, 1, "unknown type `struct page *`"),
        ("struct { uint8_t n; } a[2]; uint8_t x[a.n];", 7, 39, "goes into an array"),
        ("struct s { uint8_t a; }; struct s { uint8_t b; };", 7, 33, "type `struct s` is declared twice"),
        ("typedef uint8_t t; typedef uint8_t t;", 7, 36, "type `t` is declared twice"),
        ("typealias uint8_t x := t;", 7, 19, "expected `:=`, found `x`"),
        ("a = 3;", 7, 1, "expected a field of the structure"),
        ("uint8_t;", 7, 1, "field has no name"),
    ];
    for (fields, line, column, message) in in_fields {
        check_fault(&with_fields(fields), *line, *column, message);
    }
    let after_types: &[(&str, u32, u32, &str)] = &[
        ("trace { major = 1; };", 6, 1, "`trace` block is declared twice"),
        ("stream { }; stream { };", 6, 13, "`stream` block has no `id`"),
        ("stream { id = 1; }; stream { id = 1; };", 6, 35, "stream class 1 is declared twice"),
        ("stream { id = 1; }; stream { id = 2; };", 6, 35, "its packet header has no `stream_id`"),
        ("event { stream_id = 4; };", 6, 21, "no stream class has the id 4"),
        ("event { id = 1; }; event { };", 6, 20, "`event` block has no `id`"),
        ("event { id = 1; }; event { id = 2; };", 6, 20, "its event header has no `id`"),
        ("event { fields := uint8_t; };", 6, 19, "expected a structure, found an integer"),
        ("event { id = x; };", 6, 14, "expected an integer, found `x`"),
        (
            "stream { event.header := struct { int id; }; };",
            6,
            39,
            "`id` of the event header must be an unsigned integer",
        ),
        (
            "stream { packet.context := struct { string content_size; }; };",
            6,
            44,
            "must be an unsigned integer, not a string",
        ),
        ("clock { freq = 10; };", 6, 1, "`clock` block has no `name`"),
        ("clock { name = a; freq = 0; };", 6, 26, "clock has a frequency of 0"),
        ("clock { name = a; }; clock { name = a; };", 6, 30, "clock `a` is declared twice"),
        ("uint8_t x;", 6, 9, "a field must be inside a structure"),
        ("x = 3;", 6, 1, "an assignment must be inside a block"),
        ("event { name = \"x };", 6, 16, "string is never closed"),
        ("/* event", 6, 1, "comment is never closed"),
        ("event { name = x } ;", 6, 18, "expected `;`, found `}`"),
        ("event { a = # };", 6, 13, "unexpected character `#`"),
    ];
    for (text, line, column, message) in after_types {
        check_fault(&with_types(text), *line, *column, message);
    }
    let whole: &[(&str, u32, u32, &str)] = &[
        ("", 1, 1, "metadata has no `trace` block"),
        ("trace { major = 1; minor = 8; };", 1, 1, "`trace` block has no `byte_order`"),
        ("trace { major = 1; minor = 7; byte_order = le; };", 1, 20, "CTF version 1.7, not 1.8"),
        ("trace { major = 2; minor = 0; byte_order = le; };", 1, 9, "CTF version 2.0, not 1.8"),
        ("trace { major = 1; minor = 8; byte_order = native; };", 1, 44, "expected `le` or `be`"),
        ("trace { major = 1; minor = 8; byte_order = le; uuid = \"1\"; };", 1, 55, "expected a UUID"),
        ("trace { major = 99999999999999999999; };", 1, 17, "integer does not fit in 64 bits"),
    ];
    for (text, line, column, message) in whole {
        check_fault(text, *line, *column, message);
    }
}

fn check_fault(text: &str, line: u32, column: u32, message: &str) {
    let error = fault(text);
    let place = error.place().text.clone().unwrap_or_default();
    assert!(error.message().contains(message), "expected {message}, got {error}\nin:\n{text}");
    assert_eq!((place.line, place.column), (line, column), "{error}\nin:\n{text}");
}

#[test]
fn faults_offer_help_and_other_places() {
    let error = fault(&with_fields("uint23_t x;"));
    assert_eq!(error.help(), Some("did you mean `uint32_t`?"));
    let error = fault(&with_fields("uint8_t a; string a;"));
    assert_eq!(error.related()[0].0, "first declared here");
    assert_eq!((error.related()[0].1.line, error.related()[0].1.column), (7, 9));
    let error = fault(&with_types(
        "stream { event.header := struct { uint8_t len; }; }; event { name = e; fields := struct { uint8_t x[len]; }; };",
    ));
    assert_eq!(error.help(), Some("a field of another scope needs its full path: `stream.event.header.len`"));
    assert_eq!(error.place().event.as_deref(), Some("e"));
}

#[test]
fn two_clocks_in_one_stream_class_are_refused() {
    let clocks = "clock { name = a; }; clock { name = b; };\n";
    let mapped = |clock: &str| format!("integer {{ size = 8; map = clock.{clock}.value; }} f_{clock};");
    let error = fault(&format!("{TRACE}{clocks}event {{ fields := struct {{ {} {} }}; }};", mapped("a"), mapped("b")));
    assert!(error.message().contains("two clocks, `a` and `b`"), "{error}");
    let error = fault(&with_types(&format!("{clocks}stream {{ event.header := struct {{ uint8_t timestamp; }}; }};")));
    assert!(error.message().contains("`timestamp` is mapped to no clock, and the trace has 2"), "{error}");
}

#[test]
fn types_and_brackets_nest_up_to_a_limit() {
    let nested =
        |levels: usize| with_fields(&format!("{}uint8_t x;{}", "struct {".repeat(levels), "} x;".repeat(levels)));
    schema(&nested(990));
    assert!(fault(&nested(1005)).message().contains("type nests more than 1000 levels"));
    assert!(fault(&nested(10_000)).message().contains("nests more than 1010 levels of brackets"));
    let arrays = with_fields(&format!("uint8_t x{};", "[1]".repeat(5000)));
    assert!(fault(&arrays).message().contains("type nests more than 1000 levels"));
    let typedefs: String = (0..3000).map(|at| format!("typedef struct {{ t{at} x; }} t{};", at + 1)).collect();
    assert!(fault(&with_types(&format!("typedef uint8_t t0; {typedefs}"))).message().contains("1000 levels"));
}

#[test]
fn typedefs_that_double_do_not_explode() {
    let doubling = |leaf: &str, levels: usize| {
        let typedefs: String = (0..levels).map(|at| format!("struct s{} {{ struct s{at} a, b; }};", at + 1)).collect();
        with_types(&format!(
            "struct s0 {{ {leaf} }}; {typedefs} stream {{ event.header := struct {{ struct s{levels} s; }}; }};
             event {{ fields := struct {{ struct s{levels} s; }}; }};"
        ))
    };
    schema(&doubling("uint8_t id;", 50));
    let error = fault(&doubling("uint8_t n; uint8_t d[n];", 50));
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("field classes"), "{error}");
}

#[test]
fn large_types_used_often_are_counted() {
    let uses: String = (0..3000).map(|at| format!("struct big b{at};")).collect();
    let members: String = (0..3000).map(|at| format!("uint8_t m{at};")).collect();
    let text =
        with_types(&format!("struct big {{ {members} uint8_t d[m0]; }}; event {{ fields := struct {{ {uses} }}; }};"));
    assert!(fault(&text).message().contains("field classes and members"));
    let labels: String = (0..3000).map(|at| format!("l = {at},")).collect();
    let uses: String = (0..3000).map(|at| format!("variant v <t> v{at};")).collect();
    let text = with_fields(&format!("enum : int {{ {labels} }} t; variant v {{ uint8_t l; }}; {uses}"));
    assert!(fault(&text).message().contains("field classes and members"));
}

/// The `metadata` files below the folder that the environment names, or none.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let Some(root) = std::env::var_os("TRACEMILL_CORPUS") else { return Vec::new() };
    let mut folders: Vec<_> =
        ["ctf-1.8", "babeltrace-tests"].iter().map(|name| std::path::Path::new(&root).join(name)).collect();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|name| name == "metadata") {
                files.extend(std::fs::read(&path).map(|bytes| (path.display().to_string(), bytes)));
            }
        }
    }
    files.sort();
    files
}

#[test]
fn corpus_is_read() {
    let broken = [
        "fail.fail1",
        "fail.fail2",
        "fail.integer-range",
        "fail.metadata-syntax-error",
        "fail.invalid-sequence",
        "fail.packet-based-metadata",
        "fail.smalltrace",
        "fail.invalid-variant",
        "fail.lttng-modules-2.0-pre1",
    ];
    for (path, bytes) in corpus().iter().filter(|(_, bytes)| !bytes.is_empty()) {
        let result = read_text(bytes).and_then(|metadata| parse(&metadata.text, true)).map(|(schema, _)| schema);
        let is_broken = broken.iter().any(|name| path.contains(name));
        match result {
            Ok(schema) => assert!(!is_broken, "{path}: {} events", schema.events().len()),
            Err(error) => assert!(is_broken, "{path}: {error}"),
        }
    }
}

/// Metadata that uses most of the language.
const RICH: &str = include_str!("rich.tsdl");

#[test]
fn a_cut_text_never_panics() {
    schema(RICH);
    for len in 0..RICH.len() {
        if let Some(text) = RICH.get(..len) {
            let _ = parse(text, false);
        }
        let _ = read_text(&RICH.as_bytes()[..len]);
    }
    for (_, bytes) in corpus().iter().filter(|(path, _)| path.contains("ust-contexts")) {
        let text = read_text(bytes).expect("readable").text;
        (0..text.len()).filter_map(|len| text.get(..len)).for_each(|text| drop(parse(text, false)));
    }
}

#[test]
fn changed_bytes_never_panic() {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) as usize % below
    };
    let pieces: Vec<&[u8]> = RICH.as_bytes().split_inclusive(|byte| b" ;{}".contains(byte)).collect();
    for round in 0..3000 {
        let mut bytes = RICH.as_bytes().to_vec();
        for _ in 0..1 + round % 4 {
            let at = random(bytes.len());
            match random(4) {
                0 => bytes[at] = random(256) as u8,
                1 => drop(bytes.remove(at)),
                2 => drop(bytes.splice(at..at, pieces[random(pieces.len())].iter().copied())),
                _ => bytes[at] = b" ;{}[]<>=:.*-0\"'\\/"[random(18)],
            }
        }
        if let Ok(metadata) = read_text(&bytes) {
            let _ = parse(&metadata.text, false).map_err(|error| error.to_string());
        }
        let mut packets = packet(&bytes[..bytes.len() / 2], round % 2 == 0, 3);
        packets.extend(packet(&bytes[bytes.len() / 2..], round % 2 == 0, 0));
        let at = random(80);
        packets[at] ^= 1 << random(8);
        let _ = (probe(&packets), read_text(&packets).map_err(|error| error.to_string()));
    }
}
