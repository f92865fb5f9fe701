//! Types as metadata text, in either language.

use std::fmt::Write;

use tracemill_model::schema::Mapping;

use super::super::metadata::Dialect;
use super::super::types::{Class, Event, Field, Form, Group, Int, Kind, Metadata, Order};
use crate::names;
use tracemill_codec::text::uuid_text;

/// The metadata of a trace that the other way round gives the same types.
pub(super) fn write(metadata: &Metadata, dialect: Dialect, comment: &str) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let comment = comment.replace("*/", "* /").replace('\0', " ");
    match dialect {
        Dialect::V11 => {
            let _ = write!(out, "trace {{ major = 1; minor = 1;");
            if let Some(id) = metadata.session_id {
                let _ = write!(out, " session_id = {id};");
            }
            let _ = writeln!(out, " }}\n/* {comment} */");
            for (group, events) in &metadata.groups {
                section(&mut out, group);
                let section = group.name.as_deref().unwrap_or("");
                for event in events {
                    let _ = write!(out, "event {{ name = {}; id = {}; ", quoted(&event.name), event.id);
                    let _ = write!(out, "section = {}; fields = ", quoted(section));
                    reference_11(&mut out, &event.payload);
                    out.push_str("; }\n");
                }
            }
        }
        Dialect::V16 => {
            let _ = write!(out, "trace {{ major = 1; minor = 6;");
            if let Some(uuid) = &metadata.uuid {
                let _ = write!(out, " uuid = \"{}\";", uuid_text(uuid));
            }
            let _ = writeln!(out, " }};\n/* {comment} */");
            for (group, events) in &metadata.groups {
                stream(&mut out, group);
                for event in events {
                    event_16(&mut out, group, event);
                }
            }
        }
    }
    out
}

fn section(out: &mut String, group: &Group) {
    let form = if group.header == Form::One { 1 } else { 2 };
    let name = quoted(group.name.as_deref().unwrap_or(""));
    let _ = write!(out, "section {{ name = {name}; event {{ header_type = type{form};");
    if group.has_event_size || group.context.is_some() {
        let _ = write!(out, " context {{ event_size = {};", group.has_event_size);
        if let Some(context) = &group.context {
            out.push_str(" fields = ");
            reference_11(out, context);
            out.push(';');
        }
        out.push_str(" }");
    }
    out.push_str(" } }\n");
}

/// A type as v1.1 writes it where it is used.
fn reference_11(out: &mut String, class: &Class) {
    if matches!(class.kind, Kind::Text { is_ascii: false }) {
        out.push_str("string");
        return;
    }
    out.push_str("type { ");
    match &class.kind {
        Kind::Integer(int) if class.unit > 0 => {
            let _ = write!(out, "parent = gcc_bitfield; unit_size = {}; ", class.unit);
            int_attributes(out, *int, class.align);
        }
        Kind::Integer(int) => {
            out.push_str("parent = integer; ");
            int_attributes(out, *int, class.align);
        }
        Kind::Enum(int, labels) => {
            out.push_str("parent = enum; ");
            int_attributes(out, *int, class.align);
            out.push_str("map = { ");
            for (label, low, high) in ranges(labels) {
                let _ = match low == high {
                    true => write!(out, "{{ {low}, {} }}, ", quoted(label)),
                    false => write!(out, "{{ {{ {low}, {high} }}, {} }}, ", quoted(label)),
                };
            }
            out.push_str("}; ");
        }
        Kind::Float { bits, order } => {
            out.push_str("parent = floating_point; ");
            float_attributes(out, *bits, *order, class.align);
        }
        Kind::Text { is_ascii } => {
            let _ = write!(out, "parent = string; encoding = {}; ", if *is_ascii { "ASCII" } else { "UTF8" });
        }
        Kind::Struct(fields) => {
            out.push_str("parent = struct; fields = { ");
            for field in fields {
                out.push_str("{ ");
                reference_11(out, &field.class);
                let _ = write!(out, ", {} }}, ", field.name);
            }
            out.push_str("}; ");
        }
        Kind::Array(len, element) => {
            let _ = write!(out, "parent = array; length = {len}; elem_type = ");
            reference_11(out, element);
            out.push_str("; ");
        }
        Kind::Sequence(length, element) => {
            out.push_str("parent = sequence; length_type = ");
            reference_11(out, length);
            out.push_str("; elem_type = ");
            reference_11(out, element);
            out.push_str("; ");
        }
    }
    out.push('}');
}

fn int_attributes(out: &mut String, int: Int, align: u32) {
    let _ = write!(out, "size = {}; align = {align}; ", int.size);
    if int.signed {
        out.push_str("signed = true; ");
    }
    byte_order(out, int.order);
}

fn float_attributes(out: &mut String, bits: u32, order: Order, align: u32) {
    let (exponent, mantissa) = match bits {
        16 => (5, 11),
        32 => (8, 24),
        64 => (11, 53),
        _ => (15, 113),
    };
    let _ = write!(out, "exp_dig = {exponent}; mant_dig = {mantissa}; align = {align}; ");
    byte_order(out, order);
}

fn byte_order(out: &mut String, order: Order) {
    out.push_str(match order {
        Order::Native => "",
        Order::Little => "byte_order = le; ",
        Order::Big => "byte_order = be; ",
    });
}

fn ranges(labels: &[Mapping]) -> impl Iterator<Item = (&str, i128, i128)> {
    labels.iter().flat_map(|label| label.ranges.iter().map(|&(low, high)| (&*label.label, low, high)))
}

fn stream(out: &mut String, group: &Group) {
    let form = |form| if form == Form::One { 1 } else { 2 };
    let _ = write!(out, "stream {{ id = {}; event {{ header_type = event_header_{}; ", group.id, form(group.header));
    if group.extension != group.header {
        let _ = write!(out, "header_type_ext = event_header_{}_ext; ", form(group.extension));
    }
    if let Some(context) = &group.context {
        out.push_str("context_type = ");
        spec_16(out, context);
        out.push_str("; ");
    }
    out.push_str("}; packet { context_type = ");
    if let Some(context) = &group.packet_context {
        spec_16(out, context);
    }
    out.push_str("; }; };\n");
}

fn event_16(out: &mut String, group: &Group, event: &Event) {
    let _ = write!(out, "event {{ name = {}; id = {}; stream = {}; fields = ", quoted(&event.name), event.id, group.id);
    spec_16(out, &event.payload);
    out.push_str("; };\n");
}

/// A type as v1.6 writes it before a name; arrays and sequences stand behind that.
fn spec_16(out: &mut String, class: &Class) {
    match &class.kind {
        Kind::Integer(int) => {
            out.push_str("integer { ");
            int_attributes(out, *int, class.align);
            out.push('}');
        }
        Kind::Enum(int, labels) => {
            out.push_str("enum <integer { ");
            int_attributes(out, *int, class.align);
            out.push_str("}> { ");
            for (label, low, high) in ranges(labels) {
                let _ = match low == high {
                    true => write!(out, "{} = {low}, ", quoted(label)),
                    false => write!(out, "{} = {low} ... {high}, ", quoted(label)),
                };
            }
            out.push('}');
        }
        Kind::Float { bits, order } => {
            out.push_str("floating_point { ");
            float_attributes(out, *bits, *order, class.align);
            out.push('}');
        }
        Kind::Text { is_ascii: true } => out.push_str("string { encoding = ASCII; }"),
        Kind::Text { is_ascii: false } => out.push_str("string"),
        Kind::Struct(fields) => {
            out.push_str("struct { ");
            for field in fields {
                field_16(out, field);
            }
            out.push('}');
        }
        Kind::Array(_, element) | Kind::Sequence(_, element) => spec_16(out, element),
    }
}

fn field_16(out: &mut String, field: &Field) {
    spec_16(out, &field.class);
    let _ = write!(out, " {}", field.name);
    // The leftmost bracket is the outermost.
    let mut class = &field.class;
    loop {
        class = match &class.kind {
            Kind::Array(len, element) => {
                let _ = write!(out, "[{len}]");
                element
            }
            Kind::Sequence(length, element) => {
                out.push('[');
                spec_16(out, length);
                out.push(']');
                element
            }
            _ => break,
        };
    }
    out.push_str("; ");
}

/// A string of the drafts.
fn quoted(text: &str) -> String {
    names::quoted(text, &[('\n', 'n')])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drafts::{v11, v16};

    #[test]
    fn the_text_of_types_gives_the_same_types() {
        let text = "trace { major = 1; minor = 1; session_id = 9; }
            type u8 { parent = integer; size = 8; }
            section { name = \"a \\\"b\"; event { header_type = type1;
              context { event_size = true; fields = type { parent = struct; fields = { { u8, pid } } } } } }
            section { name = b; event { header_type = type2; } }
            event { name = \"x\\ny\"; id = 7; section = b; fields = type { parent = struct; fields = {
              { type { parent = gcc_bitfield; size = 3; unit_size = 16; signed = true; align = 2; }, f },
              { type { parent = enum; size = 12; byte_order = be; align = 8;
                map = { { -1, no }, { { 2, 9 }, \"two nine\" } } }, e },
              { type { parent = array; length = 3; elem_type = type {
                parent = sequence; length_type = u8; elem_type = string; } }, m },
              { type { parent = floating_point; exp_dig = 11; mant_dig = 53; align = 64; }, d },
              { type { parent = string; encoding = ASCII; }, s } } } }"
            .replace("{ -1, no }, ", "");
        let read = v11::read(&text).expect("it is v1.1");
        let again = v11::read(&write(&read, Dialect::V11, "a */ b")).expect("it is v1.1 too");
        assert_eq!((read.groups, read.session_id), (again.groups, again.session_id));

        let text = "trace { major = 1; minor = 6; uuid = \"00010203-0405-0607-0809-0a0b0c0d0e0f\"; };
            typedef integer { size = 8; } u8; typedef integer { size = 32; align = 32; } u32;
            stream { id = 5; event { header_type = event_header_2; header_type_ext = event_header_1_ext;
              context_type = struct { u8 pid; }; };
              packet { context_type = struct { u32 content_size; u32 packet_size; u8 checksum[16]; }; }; };
            event { name = odd; id = 4294967295; stream = 5; fields = struct {
              enum <integer { size = 9; signed = true; }> { minus = -3, \"a b\" = 0 ... 7 } e;
              u8 m[2][3]; struct { string s[u32]; } n[u8][2]; floating_point { exp_dig = 8; mant_dig = 24;
              byte_order = le; } f; string { encoding = ASCII; } t; }; };";
        let read = v16::read(text).expect("it is v1.6");
        let again = v16::read(&write(&read, Dialect::V16, "")).expect("it is v1.6 too");
        assert_eq!((read.groups, read.uuid), (again.groups, again.uuid));
    }
}
