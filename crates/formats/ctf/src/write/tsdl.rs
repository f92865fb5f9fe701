//! The metadata of CTF 1.8: TSDL text made of a schema.
//!
//! Every integer is written out with all its attributes, so that nothing depends on defaults; every member gets the
//! underscore in front that readers of CTF 1.8 take away again, so that no name is a word of the language.

use std::fmt::Write;

use tracemill_model::schema::{
    ByteOrder, ClockClass, ClockId, ClockOrigin, EnvValue, EventClass, FieldClassId, FieldKind, FieldPath,
    IntegerClass, Length, Member, PathStep, Role, Schema, StreamClass,
};

use super::marks::BEFORE;
use super::metadata::{Roots, class_at, member_names};
use super::radix;
use crate::names::{self, identifier, is_identifier, is_word};
use crate::tsdl::PREFIXES;
use tracemill_codec::text::uuid_text;

/// Writes the metadata of a schema whose fields have classes of CTF 1.8 only.
pub(super) fn write(schema: &Schema, comment: &str) -> Vec<u8> {
    let mut writer = TsdlWriter {
        schema,
        out: String::new(),
        roots: [None; 6],
        clock: None,
        around: Vec::new(),
        has_coded: false,
        is_tagged: false,
    };
    writer.line(0, &format!("/* {} */", comment.replace("*/", "* /")));
    writer.trace();
    writer.environment();
    for clock in schema.clocks().iter().filter(|clock| clock.frequency > 0) {
        writer.clock(clock);
    }
    for stream in schema.streams() {
        writer.stream(stream);
    }
    for event in schema.events() {
        writer.event(event);
    }
    // Readers look for the first line.
    let mark = if writer.has_coded { format!("{}\n", names::MARK) } else { String::new() };
    format!("/* CTF 1.8 */\n{mark}{}", writer.out).into_bytes()
}

/// The name under which a clock is declared.
fn clock_name(clock: &ClockClass) -> String {
    identifier(&clock.id)
}

/// The name of a member.
pub(super) fn member_name(name: &str) -> String {
    format!("_{}", names::coded(name))
}

/// The name of an option of a variant, and the label that selects it. Readers take one underscore in front away.
fn option_name(name: &str) -> String {
    let code = names::coded(name);
    match is_identifier(&code) && !code.starts_with('_') && !is_word(&code) {
        true => code,
        false => format!("_{code}"),
    }
}

/// A string of TSDL.
fn quoted(text: &str) -> String {
    names::quoted(text, &[('\n', 'n'), ('\t', 't'), ('\r', 'r')])
}

fn order_text(order: ByteOrder) -> &'static str {
    match order {
        ByteOrder::Little => "le",
        ByteOrder::Big => "be",
    }
}

struct TsdlWriter<'a> {
    schema: &'a Schema,
    out: String,
    roots: Roots,
    /// The clock of the stream that is written.
    clock: Option<ClockId>,
    /// Structures around the field that is written, with how many members of each are written.
    around: Vec<(FieldClassId, usize)>,
    /// Is the name of a member coded?
    has_coded: bool,
    /// Is the field that is written an enumeration, or the variant that it selects, whose options are named in code?
    is_tagged: bool,
}

impl TsdlWriter<'_> {
    fn line(&mut self, depth: usize, text: &str) {
        self.indent(depth);
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn indent(&mut self, depth: usize) {
        for _ in 0..depth {
            self.out.push('\t');
        }
    }

    fn trace(&mut self) {
        self.line(0, "\ntrace {");
        self.line(1, "major = 1;");
        self.line(1, "minor = 8;");
        if let Some(uuid) = &self.schema.uuid {
            self.line(1, &format!("uuid = \"{}\";", uuid_text(uuid)));
        }
        self.line(1, &format!("byte_order = {};", order_text(self.schema.byte_order)));
        self.root("packet.header", self.schema.packet_header);
        self.line(0, "};");
    }

    fn environment(&mut self) {
        if self.schema.environment.is_empty() {
            return;
        }
        self.line(0, "\nenv {");
        for (name, value) in &self.schema.environment {
            let name = identifier(name);
            let line = match value {
                EnvValue::Integer(value) => format!("{name} = {value};"),
                EnvValue::String(value) => format!("{name} = {};", quoted(value)),
            };
            self.line(1, &line);
        }
        self.line(0, "};");
    }

    fn clock(&mut self, clock: &ClockClass) {
        self.line(0, "\nclock {");
        self.line(1, &format!("name = \"{}\";", clock_name(clock)));
        if let Some(uid) = clock.uid.as_ref().filter(|uid| is_uuid(uid)) {
            self.line(1, &format!("uuid = \"{uid}\";"));
        }
        if let Some(description) = &clock.description {
            self.line(1, &format!("description = {};", quoted(description)));
        }
        self.line(1, &format!("freq = {};", clock.frequency));
        if let Some(precision) = clock.precision {
            self.line(1, &format!("precision = {precision};"));
        }
        self.line(1, &format!("offset_s = {};", clock.offset_seconds));
        self.line(1, &format!("offset = {};", clock.offset_cycles));
        if clock.origin == ClockOrigin::Unix {
            self.line(1, "absolute = true;");
        }
        self.line(0, "};");
    }

    fn stream(&mut self, stream: &StreamClass) {
        self.roots = self.schema.stream_roots(stream);
        self.clock = stream.default_clock;
        self.line(0, "\nstream {");
        self.line(1, &format!("id = {};", stream.id));
        self.root("packet.context", stream.packet_context);
        self.root("event.header", stream.event_header);
        self.root("event.context", stream.common_context);
        self.line(0, "};");
    }

    fn event(&mut self, event: &EventClass) {
        let stream = self.schema.stream(event.stream);
        self.roots = self.schema.event_roots(event);
        self.line(0, "\nevent {");
        // babeltrace2 wants a name, and takes an empty one for none.
        self.line(1, &format!("name = {};", quoted(event.name.as_deref().unwrap_or(""))));
        self.line(1, &format!("id = {};", event.id));
        self.line(1, &format!("stream_id = {};", stream.id));
        if let Some(level) = event.log_level {
            self.line(1, &format!("loglevel = {level};"));
        }
        if let Some(uri) = &event.emf_uri {
            self.line(1, &format!("model.emf.uri = {};", quoted(uri)));
        }
        self.root("context", event.specific_context);
        self.root("fields", event.payload);
        self.line(0, "};");
    }

    fn root(&mut self, name: &str, root: Option<FieldClassId>) {
        let Some(root) = root else { return };
        self.indent(1);
        let _ = write!(self.out, "{name} := ");
        let suffix = self.class(root, None, 1);
        debug_assert!(suffix.is_empty());
        self.out.push_str(";\n");
    }

    /// Writes a class up to the name of its field; gives what stands after the name.
    fn class(&mut self, id: FieldClassId, before: Option<&str>, depth: usize) -> String {
        let class = self.schema.field_class(id);
        match &class.kind {
            FieldKind::Integer(integer) => {
                let clock = class.roles.has(Role::Timestamp) || class.roles.has(Role::PacketEnd);
                self.integer(integer, class.align_bits, clock);
            }
            FieldKind::Float(float) => {
                let (exponent, mantissa) = if float.len_bits == 32 { (8, 24) } else { (11, 53) };
                let order = order_text(float.byte_order);
                let _ = write!(
                    self.out,
                    "floating_point {{ exp_dig = {exponent}; mant_dig = {mantissa}; byte_order = {order}; align = {}; }}",
                    class.align_bits
                );
            }
            FieldKind::String(_) => self.out.push_str("string { encoding = UTF8; }"),
            FieldKind::Struct(structure) => {
                self.out.push_str("struct {\n");
                let mut last: Option<String> = None;
                self.around.push((id, 0));
                let is_tagged = self.is_tag(&structure.members);
                for member in &structure.members {
                    self.indent(depth + 1);
                    // Names with a meaning to readers stand as they are.
                    let is_plain = self.schema.field_class(member.class).roles.is_empty();
                    let name = if is_plain { member_name(&member.name) } else { member.name.to_string() };
                    self.has_coded |= name.strip_prefix('_').is_some_and(|name| *name != *member.name);
                    self.is_tagged = is_tagged;
                    let suffix = self.class(member.class, last.as_deref(), depth + 1);
                    let _ = writeln!(self.out, " {name}{suffix};");
                    last = Some(name);
                    if let Some((_, written)) = self.around.last_mut() {
                        *written += 1;
                    }
                }
                self.around.pop();
                self.indent(depth);
                let _ = write!(self.out, "}} align({})", class.align_bits.max(1));
            }
            FieldKind::Array(array) => {
                let inner = self.class(array.element, None, depth);
                let length = match &array.length {
                    Length::Static(len) => len.to_string(),
                    Length::Field(path) => self.reference(path, before),
                    // Not of CTF 1.8: the mapping leaves none.
                    Length::Inline(_) | Length::Table { .. } | Length::Located => "0".to_string(),
                };
                return format!("[{length}]{inner}");
            }
            FieldKind::Variant(variant) => {
                let selector = self.reference(&variant.selector, before);
                let is_tagged = std::mem::take(&mut self.is_tagged);
                let _ = writeln!(self.out, "variant <{selector}> {{");
                for option in &variant.options {
                    self.indent(depth + 1);
                    let suffix = self.class(option.class, None, depth + 1);
                    let raw = option.raw_name.as_deref().unwrap_or("option");
                    let raw = if is_tagged { self.option_name(raw) } else { raw.to_string() };
                    let _ = writeln!(self.out, " {raw}{suffix};");
                }
                self.indent(depth);
                self.out.push('}');
            }
            // Not of CTF 1.8: the mapping leaves none.
            FieldKind::BitArray(_)
            | FieldKind::BitMap(_)
            | FieldKind::Boolean(_)
            | FieldKind::Blob(_)
            | FieldKind::Rendered(_)
            | FieldKind::Optional(_) => {}
        }
        String::new()
    }

    /// Are the members an enumeration and the variant whose options have its labels as names?
    fn is_tag(&self, members: &[Member]) -> bool {
        let [tag, value] = members else { return false };
        let kinds = [tag, value].map(|member| &self.schema.field_class(member.class).kind);
        let [FieldKind::Integer(integer), FieldKind::Variant(variant)] = kinds else { return false };
        [&*tag.name, &*value.name] == names::TAGGED
            && integer.mappings.as_ref().is_some_and(|labels| names::is_tag(labels, &variant.options))
    }

    fn option_name(&mut self, name: &str) -> String {
        let coded = option_name(name);
        self.has_coded |= coded.strip_prefix('_').unwrap_or(&coded) != name;
        coded
    }

    fn integer(&mut self, integer: &IntegerClass, align_bits: u32, has_clock: bool) {
        let is_tagged = std::mem::take(&mut self.is_tagged);
        let Some(mappings) = &integer.mappings else { return self.plain_integer(integer, align_bits, has_clock) };
        self.out.push_str("enum : ");
        self.plain_integer(integer, align_bits, has_clock);
        self.out.push_str(" { ");
        let mut comma = "";
        for mapping in mappings.iter() {
            for (low, high) in &mapping.ranges {
                let label = if is_tagged { self.option_name(&mapping.label) } else { mapping.label.to_string() };
                let label = quoted(&label);
                let _ = match low == high {
                    true => write!(self.out, "{comma}{label} = {low}"),
                    false => write!(self.out, "{comma}{label} = {low} ... {high}"),
                };
                comma = ", ";
            }
        }
        self.out.push_str(" }");
    }

    fn plain_integer(&mut self, integer: &IntegerClass, align_bits: u32, has_clock: bool) {
        let _ = write!(
            self.out,
            "integer {{ size = {}; align = {align_bits}; signed = {}; base = {}; byte_order = {};",
            integer.len_bits,
            integer.signed,
            radix(integer.base),
            order_text(integer.byte_order)
        );
        if has_clock {
            let clock = self.clock.map(|clock| clock_name(self.schema.clock(clock)));
            if let Some(name) = clock {
                let _ = write!(self.out, " map = clock.{name}.value;");
            }
        }
        self.out.push_str(" }");
    }

    /// A field that is referred to: the one before, or from the root of its scope.
    fn reference(&self, path: &FieldPath, before: Option<&str>) -> String {
        if path.steps == [PathStep::Member(BEFORE)] {
            return before.unwrap_or("_tag").to_string();
        }
        if let Some(name) = self.name_around(path) {
            return name;
        }
        let mut text = PREFIXES[path.scope as usize].0.join(".");
        for name in member_names(self.schema, &self.roots, path) {
            text.push('.');
            text.push_str(&member_name(&name));
        }
        text
    }

    /// The plain name of a field in a structure around the one that is written, unless a nearer one has the name too.
    fn name_around(&self, path: &FieldPath) -> Option<String> {
        let (last, way) = path.steps.split_last()?;
        let PathStep::Member(index) = last else { return None };
        let parent = class_at(self.schema, &self.roots, &FieldPath { scope: path.scope, steps: way.to_vec() })?;
        let of = |id: FieldClassId| self.schema.members(Some(id));
        let target = of(parent).get(*index as usize)?;
        for (id, written) in self.around.iter().rev() {
            let found = of(*id).iter().take(*written).position(|member| member.name == target.name);
            match found {
                Some(at) if *id == parent && at == *index as usize => return Some(member_name(&target.name)),
                Some(_) => return None,
                None => {}
            }
        }
        None
    }
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_identifiers() {
        assert_eq!(member_name("9a"), "_9a");
        assert_eq!(member_name("int"), "_int");
        assert_eq!(member_name("a-b"), "_a_x2d_b");
        assert_eq!(quoted("a\"\\\n\u{1}"), "\"a\\\"\\\\\\n\\001\"");
    }
}
