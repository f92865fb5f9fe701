//! Types as metadata text, in either language.

use tracemill_codec::text::uuid_text;
use tracemill_model::schema::Mapping;

use super::super::metadata::Dialect;
use super::super::types::{
    DraftClass, DraftEvent, DraftField, DraftType, DraftTypeKind, HeaderForm, Int, Metadata, SectionClass, WrittenOrder,
};
use crate::names::{self, FLOATS};

/// The metadata of a trace that the other way round gives the same types.
pub(super) fn write(metadata: &Metadata, dialect: Dialect, comment: &str) -> String {
    let comment = comment.replace("*/", "* /").replace('\0', " ");
    let is_11 = dialect == Dialect::V11;
    let mut out = if is_11 {
        let id = metadata.session_id.map_or(String::new(), |id| format!(" session_id = {id};"));
        format!("trace {{ major = 1; minor = 1;{id} }}\n/* {comment} */\n")
    } else {
        let uuid = metadata.uuid.map_or(String::new(), |uuid| format!(" uuid = \"{}\";", uuid_text(&uuid)));
        format!("trace {{ major = 1; minor = 6;{uuid} }};\n/* {comment} */\n")
    };
    for (group, events) in &metadata.groups {
        out += &if is_11 { section(group) } else { stream(group) };
        for event in events {
            out += &if is_11 { event_11(group, event) } else { event_16(group, event) };
        }
    }
    out
}

fn section(group: &SectionClass) -> String {
    let name = quoted(group.name.as_deref().unwrap_or(""));
    let context = match &group.context {
        Some(context) => {
            format!(" context {{ event_size = {}; fields = {}; }}", group.has_event_size, reference_11(context))
        }
        None if group.has_event_size => " context { event_size = true; }".to_string(),
        None => String::new(),
    };
    format!("section {{ name = {name}; event {{ header_type = type{};{context} }} }}\n", number(group.header))
}

fn event_11(group: &SectionClass, event: &DraftEvent) -> String {
    let (name, section) = (quoted(&event.name), quoted(group.name.as_deref().unwrap_or("")));
    let fields = reference_11(&event.payload);
    format!("event {{ name = {name}; id = {}; section = {section}; fields = {fields}; }}\n", event.id)
}

/// The number of a form of the event header in its name.
fn number(form: HeaderForm) -> u32 {
    if form == HeaderForm::One { 1 } else { 2 }
}

/// A type as v1.1 writes it where it is used.
fn reference_11(class: &DraftClass) -> String {
    let body = match &class.kind {
        DraftTypeKind::Integer(int) if class.unit > 0 => {
            format!("gcc_bitfield; unit_size = {}; {}", class.unit, int_attributes(*int, class.align))
        }
        DraftTypeKind::Integer(int) => format!("integer; {}", int_attributes(*int, class.align)),
        DraftTypeKind::Enum(int, labels) => {
            let pair = |(label, low, high): (&str, i128, i128)| match low == high {
                true => format!("{{ {low}, {} }}, ", quoted(label)),
                false => format!("{{ {{ {low}, {high} }}, {} }}, ", quoted(label)),
            };
            let map: String = ranges(labels).map(pair).collect();
            format!("enum; {}map = {{ {map}}}; ", int_attributes(*int, class.align))
        }
        DraftTypeKind::Float { bits, order } => {
            format!("floating_point; {}", float_attributes(*bits, *order, class.align))
        }
        DraftTypeKind::Text { is_ascii: true } => "string; encoding = ASCII; ".to_string(),
        DraftTypeKind::Text { is_ascii: false } => return "string".to_string(),
        DraftTypeKind::Struct(fields) => {
            let field = |field: &DraftField| format!("{{ {}, {} }}, ", reference_11(&field.class), field.name);
            format!("struct; fields = {{ {}}}; ", fields.iter().map(field).collect::<String>())
        }
        DraftTypeKind::Array(len, element) => format!("array; length = {len}; elem_type = {}; ", reference_11(element)),
        DraftTypeKind::Sequence(length, element) => {
            let (length, element) = (reference_11(length), reference_11(element));
            format!("sequence; length_type = {length}; elem_type = {element}; ")
        }
    };
    format!("type {{ parent = {body}}}")
}

fn int_attributes(int: Int, align: u32) -> String {
    let signed = if int.signed { "signed = true; " } else { "" };
    format!("size = {}; align = {align}; {signed}{}", int.size, byte_order(int.order))
}

fn float_attributes(bits: u32, order: WrittenOrder, align: u32) -> String {
    let (exponent, mantissa) = FLOATS.iter().find(|(known, _)| *known == bits).map_or((15, 113), |(_, digits)| *digits);
    format!("exp_dig = {exponent}; mant_dig = {mantissa}; align = {align}; {}", byte_order(order))
}

fn byte_order(order: WrittenOrder) -> &'static str {
    match order {
        WrittenOrder::Native => "",
        WrittenOrder::Little => "byte_order = le; ",
        WrittenOrder::Big => "byte_order = be; ",
    }
}

fn ranges(labels: &[Mapping]) -> impl Iterator<Item = (&str, i128, i128)> {
    labels.iter().flat_map(|label| label.ranges.iter().map(|&(low, high)| (&*label.label, low, high)))
}

fn stream(group: &SectionClass) -> String {
    let spec = |class: &Option<DraftType>| class.as_deref().map_or(String::new(), spec_16);
    let (header, extension) = (number(group.header), number(group.extension));
    let mut event = format!("header_type = event_header_{header}; ");
    if extension != header {
        event += &format!("header_type_ext = event_header_{extension}_ext; ");
    }
    if group.context.is_some() {
        event += &format!("context_type = {}; ", spec(&group.context));
    }
    let packet = spec(&group.packet_context);
    format!("stream {{ id = {}; event {{ {event}}}; packet {{ context_type = {packet}; }}; }};\n", group.id)
}

fn event_16(group: &SectionClass, event: &DraftEvent) -> String {
    let (name, fields) = (quoted(&event.name), spec_16(&event.payload));
    format!("event {{ name = {name}; id = {}; stream = {}; fields = {fields}; }};\n", event.id, group.id)
}

/// A type as v1.6 writes it before a name; arrays and sequences stand after that.
fn spec_16(class: &DraftClass) -> String {
    match &class.kind {
        DraftTypeKind::Integer(int) => format!("integer {{ {}}}", int_attributes(*int, class.align)),
        DraftTypeKind::Enum(int, labels) => {
            let pair = |(label, low, high): (&str, i128, i128)| match low == high {
                true => format!("{} = {low}, ", quoted(label)),
                false => format!("{} = {low} ... {high}, ", quoted(label)),
            };
            let labels: String = ranges(labels).map(pair).collect();
            format!("enum <integer {{ {}}}> {{ {labels}}}", int_attributes(*int, class.align))
        }
        DraftTypeKind::Float { bits, order } => {
            format!("floating_point {{ {}}}", float_attributes(*bits, *order, class.align))
        }
        DraftTypeKind::Text { is_ascii: true } => "string { encoding = ASCII; }".to_string(),
        DraftTypeKind::Text { is_ascii: false } => "string".to_string(),
        DraftTypeKind::Struct(fields) => format!("struct {{ {}}}", fields.iter().map(field_16).collect::<String>()),
        DraftTypeKind::Array(_, element) | DraftTypeKind::Sequence(_, element) => spec_16(element),
    }
}

fn field_16(field: &DraftField) -> String {
    let (mut class, mut brackets) = (&field.class, String::new());
    // The leftmost bracket is the outermost.
    loop {
        class = match &class.kind {
            DraftTypeKind::Array(len, element) => {
                brackets += &format!("[{len}]");
                element
            }
            DraftTypeKind::Sequence(length, element) => {
                brackets += &format!("[{}]", spec_16(length));
                element
            }
            _ => return format!("{} {}{brackets}; ", spec_16(class), field.name),
        };
    }
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
