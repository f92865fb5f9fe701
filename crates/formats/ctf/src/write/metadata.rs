//! The metadata of CTF 2: a JSON text sequence made of a schema.
//!
//! Babeltrace 2.1.1 takes an optional field as absent whenever its selector is a boolean. Such selectors are written as
//! unsigned integers, which decode alike everywhere; our attributes say that they are booleans.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write;

use tracemill_codec::bits::mask;
use tracemill_codec::layout;
use tracemill_codec::text::base64;
use tracemill_model::schema::{
    BitsClass, ByteOrder, CallHalf, ClockClass, ClockOrigin, Encoding, EnvValue, EventClass, FieldClassId, FieldKind,
    FieldPath, IntegerClass, Length, Mapping, Member, OptionalClass, Origin, PathStep, Presence, Range, Role, Roles,
    Schema, Scope, StreamClass, StringLength, StructClass, VariantClass,
};

use super::json::{Object, put_list, put_string};
use super::marks::{BEFORE, Mark, Marks};
use super::radix;
use crate::ctf2::attributes::{NAMESPACE, OF_BOOLEAN};
use crate::ctf2::field_class::ENCODINGS;
use crate::ctf2::fragments::ROOTS;
use crate::ctf2::locations::origin_text;
use crate::ctf2::ranges::boolean_ranges;
use crate::ctf2::roles::ROLES;

/// The namespace under which babeltrace2 keeps what CTF 2 has no property for.
const ATTRIBUTES: &str = "babeltrace.org,2020";

/// Writes the metadata of a schema whose fields have classes of CTF 2 only.
pub(super) fn write(schema: &Schema, marks: &Marks, comment: &str) -> Vec<u8> {
    let mut writer = JsonMetadataWriter { schema, marks, selectors: &boolean_selectors(schema), out: String::new() };
    writer.fragment("preamble", |object, _| {
        object.number("version", 2);
        if let Some(uuid) = &schema.uuid {
            let _ = write!(object.key("uuid"), "{uuid:?}");
        }
        write_attributes(object, |own| {
            own.string("comment", comment);
            if let Some(summary) = &schema.summary {
                let mut object = Object::begin(own.key("summary"));
                object.string("before", &summary.before);
                object.number("has-name", summary.has_name);
                object.string("after", &summary.after);
            }
            if let Some(of) = &schema.origin {
                origin(own, of);
            }
        });
    });
    writer.fragment("trace-class", |object, writer| {
        identity(object, &schema.namespace, &schema.name, &schema.uid);
        environment(object, schema);
        writer.root(object, Scope::PacketHeader);
    });
    for clock in schema.clocks() {
        writer.fragment("clock-class", |object, _| clock_class(object, clock));
    }
    for stream in schema.streams() {
        writer.fragment("data-stream-class", |object, writer| writer.stream(object, stream));
    }
    for event in schema.events() {
        writer.fragment("event-record-class", |object, writer| writer.event(object, event));
    }
    writer.out.into_bytes()
}

/// The booleans that select optional fields or options of variants and can be written as integers.
fn boolean_selectors(schema: &Schema) -> HashSet<FieldClassId> {
    let streams = schema.streams().iter().map(|stream| schema.stream_roots(stream));
    let events = schema.events().iter().map(|event| schema.event_roots(event));
    let mut selectors = HashSet::new();
    for roots in streams.chain(events) {
        for class in roots.iter().flatten().flat_map(|root| layout::descendants(schema, *root)) {
            let selector = match &class.kind {
                FieldKind::Optional(optional) => &optional.selector,
                FieldKind::Variant(variant) => &variant.selector,
                _ => continue,
            };
            if let Some(id) = class_at(schema, &roots, selector)
                && matches!(&schema.field_class(id).kind, FieldKind::Boolean(bits) if bits.len_bits <= 64)
            {
                selectors.insert(id);
            }
        }
    }
    selectors
}

/// Puts our attributes into an object.
fn write_attributes(object: &mut Object<'_>, put: impl FnOnce(&mut Object<'_>)) {
    own_of(&mut Object::begin(object.key("attributes")), put);
}

/// Puts our attributes into the attributes of an object.
fn own_of(attributes: &mut Object<'_>, put: impl FnOnce(&mut Object<'_>)) {
    put(&mut Object::begin(attributes.key(NAMESPACE)));
}

/// Puts the trace that was converted: its format, files and parts.
fn origin(own: &mut Object<'_>, of: &Origin) {
    let mut object = Object::begin(own.key("origin"));
    object.string("format", &of.format);
    let _ = write!(object.key("version"), "[{},{}]", of.version.0, of.version.1);
    if of.has_same_packets {
        object.number("same-packets", true);
    }
    if of.moved_ns != 0 {
        object.number("moved-ns", of.moved_ns);
    }
    list(object.key("parts"), &of.parts, |object, part| {
        object.string("name", &part.name);
        match std::str::from_utf8(&part.bytes) {
            Ok(text) => object.string("text", text),
            Err(_) => {
                let mut text = String::new();
                base64(&part.bytes, |piece| text += piece);
                object.string("base64", &text);
            }
        }
    });
    list(object.key("streams"), &of.streams, |object, (file, name)| {
        object.string("file", file);
        object.string("name", name);
    });
}

/// Writes an array of objects.
fn list<T>(out: &mut String, values: &[T], put: impl Fn(&mut Object<'_>, &T)) {
    put_list(out, values, |out, value| {
        put(&mut Object::begin(out), value);
    });
}

struct JsonMetadataWriter<'a> {
    schema: &'a Schema,
    marks: &'a Marks,
    selectors: &'a HashSet<FieldClassId>,
    out: String,
}

impl JsonMetadataWriter<'_> {
    fn fragment(&mut self, kind: &str, properties: impl FnOnce(&mut Object<'_>, &mut Parts<'_>)) {
        self.out.push('\u{1e}');
        let mut object = Object::begin(&mut self.out);
        object.string("type", kind);
        properties(
            &mut object,
            &mut Parts {
                schema: self.schema,
                marks: self.marks,
                selectors: self.selectors,
                scope: Scope::PacketHeader,
                roots: self.schema.stream_roots(&StreamClass::default()),
                before: "".into(),
            },
        );
        drop(object);
        self.out.push('\n');
    }
}

type OptionalText = Option<std::sync::Arc<str>>;

fn identity(object: &mut Object<'_>, namespace: &OptionalText, name: &OptionalText, uid: &OptionalText) {
    for (key, text) in [("namespace", namespace), ("name", name), ("uid", uid)] {
        object.optional_string(key, text.as_deref());
    }
}

fn environment(object: &mut Object<'_>, schema: &Schema) {
    if schema.environment.is_empty() {
        return;
    }
    let mut values = Object::begin(object.key("environment"));
    for (at, (name, value)) in schema.environment.iter().enumerate() {
        // A key stands once; the last value counts.
        if schema.environment.iter().skip(at + 1).any(|(other, _)| other == name) {
            continue;
        }
        match value {
            EnvValue::Integer(value) => values.number(name, value),
            EnvValue::String(value) => values.string(name, value),
        }
    }
}

fn clock_class(object: &mut Object<'_>, clock: &ClockClass) {
    object.string("id", &clock.id);
    identity(object, &clock.namespace, &clock.name, &clock.uid);
    object.optional_string("description", clock.description.as_deref());
    let (ticks, unit) = (clock.frequency.max(1), u64::from(clock.seconds.max(1)));
    object.number("frequency", (ticks / unit).max(1));
    if let Some(precision) = clock.precision {
        object.number("precision", precision);
    }
    if let Some(accuracy) = clock.accuracy {
        object.number("accuracy", accuracy);
    }
    let mut offset = Object::begin(object.key("offset-from-origin"));
    // The last cycle before the zero, for those who do not read our attributes.
    let frequency = i128::from(ticks);
    let is_ratio = unit > 1;
    if is_ratio {
        let seconds = clock.offset_cycles.saturating_mul(unit.into()).div_euclid(frequency);
        offset.number("seconds", i128::from(clock.offset_seconds).saturating_add(seconds));
    } else {
        let cycles = clock.offset_cycles + i128::from(clock.offset_ns) * frequency / 1_000_000_000;
        offset.number("seconds", i128::from(clock.offset_seconds) + cycles.div_euclid(frequency));
        offset.number("cycles", cycles.rem_euclid(frequency));
    }
    drop(offset);
    match &clock.origin {
        ClockOrigin::Unix => object.string("origin", "unix-epoch"),
        ClockOrigin::Unknown => {}
        ClockOrigin::Custom { namespace, name, uid } => {
            let mut origin = Object::begin(object.key("origin"));
            origin.optional_string("namespace", namespace.as_deref());
            origin.string("name", name);
            origin.string("uid", uid);
        }
    }
    if clock.frequency == 0 || clock.has_made_cycles || clock.offset_ns != 0 || is_ratio {
        write_attributes(object, |own| {
            if clock.frequency == 0 {
                own.number("unknown-frequency", true);
            }
            if clock.has_made_cycles {
                own.number("made-cycles", true);
            }
            if is_ratio {
                let mut object = Object::begin(own.key("ratio"));
                object.number("ticks", ticks);
                object.number("seconds", unit);
            }
            if clock.offset_ns != 0 || is_ratio {
                let mut object = Object::begin(own.key("offset"));
                object.number("seconds", clock.offset_seconds);
                object.number("cycles", clock.offset_cycles);
                object.number("ns", clock.offset_ns);
            }
        });
    }
}

/// Writes field classes.
struct Parts<'a> {
    schema: &'a Schema,
    marks: &'a Marks,
    /// Booleans that are written as integers.
    selectors: &'a HashSet<FieldClassId>,
    scope: Scope,
    roots: Roots,
    /// Name of the member that was written last.
    before: std::sync::Arc<str>,
}

impl Parts<'_> {
    fn stream(&mut self, object: &mut Object<'_>, stream: &StreamClass) {
        self.roots = self.schema.stream_roots(stream);
        object.number("id", stream.id);
        identity(object, &stream.namespace, &stream.name, &stream.uid);
        if let Some(clock) = stream.default_clock {
            object.string("default-clock-class-id", &self.schema.clock(clock).id);
        }
        for scope in [Scope::PacketContext, Scope::EventHeader, Scope::CommonContext] {
            self.root(object, scope);
        }
    }

    fn event(&mut self, object: &mut Object<'_>, event: &EventClass) {
        self.roots = self.schema.event_roots(event);
        object.number("id", event.id);
        object.number("data-stream-class-id", self.schema.stream(event.stream).id);
        identity(object, &event.namespace, &event.name, &event.uid);
        let level = event.log_level.and_then(log_level_name);
        if level.is_some() || event.emf_uri.is_some() || event.is_untimed || event.call.is_some() {
            let mut attributes = Object::begin(object.key("attributes"));
            if level.is_some() || event.emf_uri.is_some() {
                let mut of_peer = Object::begin(attributes.key(ATTRIBUTES));
                of_peer.optional_string("log-level", level);
                of_peer.optional_string("emf-uri", event.emf_uri.as_deref());
            }
            if event.is_untimed || event.call.is_some() {
                own_of(&mut attributes, |own| {
                    if event.is_untimed {
                        own.number("untimed", true);
                    }
                    own.optional_string("call", event.call.map(call_name));
                });
            }
        }
        for scope in [Scope::SpecificContext, Scope::Payload] {
            self.root(object, scope);
        }
    }

    fn root(&mut self, object: &mut Object<'_>, scope: Scope) {
        if let Some(root) = self.roots[scope as usize] {
            self.scope = scope;
            self.class(object.key(ROOTS[scope as usize]), root);
        }
    }

    fn class(&mut self, out: &mut String, id: FieldClassId) {
        let class = self.schema.field_class(id);
        let mut object = Object::begin(out);
        match &class.kind {
            FieldKind::Integer(integer) => self.integer(&mut object, integer, class.align_bits),
            FieldKind::BitArray(bits) => fixed(&mut object, "fixed-length-bit-array", bits, class.align_bits),
            FieldKind::BitMap(bits) => {
                fixed(&mut object, "fixed-length-bit-map", bits, class.align_bits);
                mappings(object.key("flags"), &bits.flags);
            }
            FieldKind::Boolean(bits) => {
                let is_selector = self.selectors.contains(&id);
                let kind = if is_selector { "fixed-length-unsigned-integer" } else { "fixed-length-boolean" };
                fixed(&mut object, kind, bits, class.align_bits);
            }
            FieldKind::Float(float) => {
                object.string("type", "fixed-length-floating-point-number");
                layout(&mut object, float.len_bits, float.byte_order, float.reversed_bits, class.align_bits);
            }
            FieldKind::String(string) => {
                match &string.length {
                    StringLength::NullTerminated => object.string("type", "null-terminated-string"),
                    StringLength::Bytes(length) => {
                        self.length(&mut object, "static-length-string", "dynamic-length-string", length);
                    }
                }
                encoding(&mut object, string.encoding);
            }
            FieldKind::Blob(blob) => {
                self.length(&mut object, "static-length-blob", "dynamic-length-blob", &blob.length);
                object.string("media-type", &blob.media_type);
            }
            // Not of CTF 2: the mapping leaves none.
            FieldKind::Rendered(_) => object.string("type", "null-terminated-string"),
            FieldKind::Struct(structure) => self.structure(&mut object, structure, class.align_bits),
            FieldKind::Array(array) => {
                self.length(&mut object, "static-length-array", "dynamic-length-array", &array.length);
                self.class(object.key("element-field-class"), array.element);
                if class.align_bits > self.schema.field_class(array.element).align_bits {
                    object.number("minimum-alignment", class.align_bits);
                }
            }
            FieldKind::Optional(optional) => {
                object.string("type", "optional");
                self.location(object.key("selector-field-location"), &optional.selector);
                match (&optional.presence, self.boolean_bits(&optional.selector)) {
                    (Presence::Ranges(list), _) => {
                        let list = self.selected(&optional.selector, list);
                        ranges(object.key("selector-field-ranges"), &list);
                    }
                    (_, Some(len_bits)) => {
                        let all_but_0 = (1, i128::from(mask(len_bits)));
                        ranges(object.key("selector-field-ranges"), &[all_but_0]);
                    }
                    (_, None) => {}
                }
                self.class(object.key("field-class"), optional.content);
            }
            FieldKind::Variant(variant) => {
                object.string("type", "variant");
                self.location(object.key("selector-field-location"), &variant.selector);
                put_list(object.key("options"), &variant.options, |out, option| {
                    let mut object = Object::begin(out);
                    object.optional_string("name", option.name.as_deref());
                    let list = self.selected(&variant.selector, &option.ranges);
                    ranges(object.key("selector-field-ranges"), &list);
                    self.class(object.key("field-class"), option.class);
                });
            }
        }
        roles(&mut object, class.roles, self.scope);
        self.mark(&mut object, id, &class.kind);
    }

    fn structure(&mut self, object: &mut Object<'_>, structure: &StructClass, align_bits: u32) {
        object.string("type", "structure");
        put_list(object.key("member-classes"), structure.members.iter().enumerate(), |out, (at, member)| {
            let mut object = Object::begin(out);
            object.string("name", unique_name(member));
            if let Some(before) = at.checked_sub(1).and_then(|at| structure.members.get(at)) {
                self.before = unique_name(before).into();
            }
            self.class(object.key("field-class"), member.class);
            if unique_name(member) != &*member.name {
                write_attributes(&mut object, |own| own.string("name", &member.name));
            }
        });
        // Of the members or its own, whichever is larger.
        if align_bits > self.schema.struct_align_bits(&structure.members, 1) {
            object.number("minimum-alignment", align_bits);
        }
    }

    /// Says in attributes of our own what CTF 2 has no word for.
    fn mark(&self, object: &mut Object<'_>, id: FieldClassId, kind: &FieldKind) {
        match (self.marks.get(&id), kind) {
            (Some(Mark::WithLength), _) => write_attributes(object, |own| own.number("with-length", true)),
            (Some(Mark::BitMap), _) => write_attributes(object, |own| own.number("bit-map", true)),
            (Some(Mark::Mappings(labels)), _) => write_attributes(object, |own| {
                list(own.key("mappings"), labels, |object, label| {
                    object.string("label", &label.label);
                    ranges(object.key("ranges"), &label.ranges);
                });
            }),
            (None, FieldKind::Boolean(_)) if self.selectors.contains(&id) => {
                write_attributes(object, |own| own.number("boolean", true));
            }
            (None, FieldKind::Optional(optional))
                if optional.presence == Presence::Boolean && self.boolean_bits(&optional.selector).is_some() =>
            {
                write_attributes(object, |own| own.number("boolean", true));
            }
            (None, FieldKind::Optional(OptionalClass { selector, presence: Presence::Ranges(_), .. }))
            | (None, FieldKind::Variant(VariantClass { selector, .. }))
                if self.is_boolean(selector) =>
            {
                write_attributes(object, |own| own.number(OF_BOOLEAN, true));
            }
            (None, FieldKind::String(string)) if string.encoding == Encoding::Ascii => {
                write_attributes(object, |own| own.number("ascii", true));
            }
            (None, FieldKind::Struct(structure)) if structure.is_tuple() => {
                write_attributes(object, |own| own.number("tuple", true));
            }
            (None, _) => {}
        }
    }

    /// Ranges of a selector, as they are written: a boolean that is written as an integer has more values than 0 and 1.
    fn selected<'r>(&self, selector: &FieldPath, ranges: &'r [Range]) -> Cow<'r, [Range]> {
        let Some(len_bits) = self.boolean_bits(selector) else { return Cow::Borrowed(ranges) };
        let of_true = |high: i128| if high == 0 { 0 } else { mask(len_bits).into() };
        Cow::Owned(boolean_ranges(ranges).into_iter().map(|(low, high)| (low, of_true(high))).collect())
    }

    fn is_boolean(&self, selector: &FieldPath) -> bool {
        let id = class_at(self.schema, &self.roots, selector);
        id.is_some_and(|id| matches!(self.schema.field_class(id).kind, FieldKind::Boolean(_)))
    }

    /// The size of a selector that is a boolean and written as an integer.
    fn boolean_bits(&self, selector: &FieldPath) -> Option<u32> {
        let id = class_at(self.schema, &self.roots, selector).filter(|id| self.selectors.contains(id))?;
        match &self.schema.field_class(id).kind {
            FieldKind::Boolean(bits) => Some(bits.len_bits),
            _ => None,
        }
    }

    fn integer(&mut self, object: &mut Object<'_>, integer: &IntegerClass, align_bits: u32) {
        let kind = match (integer.is_variable_length(), integer.signed) {
            (false, false) => "fixed-length-unsigned-integer",
            (false, true) => "fixed-length-signed-integer",
            (true, false) => "variable-length-unsigned-integer",
            (true, true) => "variable-length-signed-integer",
        };
        object.string("type", kind);
        if !integer.is_variable_length() {
            layout(object, integer.len_bits, integer.byte_order, integer.reversed_bits, align_bits);
        }
        let base = radix(integer.base);
        if base != 10 {
            object.number("preferred-display-base", base);
        }
        if let Some(labels) = &integer.mappings {
            mappings(object.key("mappings"), labels);
        }
    }

    fn length(&mut self, object: &mut Object<'_>, fixed: &str, dynamic: &str, length: &Length) {
        match length {
            Length::Static(len) => {
                object.string("type", fixed);
                object.number("length", len);
            }
            Length::Field(path) => {
                object.string("type", dynamic);
                self.location(object.key("length-field-location"), path);
            }
            // Not of CTF 2: the mapping leaves none.
            Length::Inline(_) | Length::Table { .. } | Length::Located => object.string("type", fixed),
        }
    }

    /// The names of the members on the way: what stands between them (elements, options) goes without saying.
    fn location(&self, out: &mut String, path: &FieldPath) {
        let mut object = Object::begin(out);
        if path.steps == [PathStep::Member(BEFORE)] {
            // Without an origin, the structure around the field is meant; ours has two members.
            return put_list(object.key("path"), [&self.before], |out, name| put_string(out, name));
        }
        object.string("origin", origin_text(path.scope));
        let names = member_names(self.schema, &self.roots, path);
        put_list(object.key("path"), names, |out, name| put_string(out, &name));
    }
}

/// The name of a member that no other has.
fn unique_name(member: &Member) -> &str {
    if member.raw_name.is_empty() { &member.name } else { &member.raw_name }
}

/// The names of the members that a path goes through, below the roots of the scopes.
pub(super) fn member_names(schema: &Schema, roots: &Roots, path: &FieldPath) -> Vec<String> {
    let mut names = Vec::new();
    walk(schema, roots, path, |member| names.push(unique_name(member).to_string()));
    names
}

/// The class at the end of a path.
pub(super) fn class_at(schema: &Schema, roots: &Roots, path: &FieldPath) -> Option<FieldClassId> {
    walk(schema, roots, path, |_| {})
}

fn walk(schema: &Schema, roots: &Roots, path: &FieldPath, mut through: impl FnMut(&Member)) -> Option<FieldClassId> {
    let mut at = roots[path.scope as usize]?;
    for step in &path.steps {
        let class = schema.field_class(at);
        if let (FieldKind::Struct(class), PathStep::Member(index)) = (&class.kind, step) {
            through(class.members.get(*index as usize)?);
        }
        at = layout::child(class, *step)?;
    }
    Some(at)
}

/// Roots of the scopes that stand before and around what is written.
pub(super) type Roots = [Option<FieldClassId>; 6];

fn fixed(object: &mut Object<'_>, kind: &str, bits: &BitsClass, align_bits: u32) {
    object.string("type", kind);
    layout(object, bits.len_bits, bits.byte_order, bits.reversed_bits, align_bits);
}

fn layout(object: &mut Object<'_>, len_bits: u32, order: ByteOrder, is_reversed: bool, align_bits: u32) {
    object.number("length", len_bits);
    let (name, first_to_last) = match order {
        ByteOrder::Little => ("little-endian", true),
        ByteOrder::Big => ("big-endian", false),
    };
    object.string("byte-order", name);
    if is_reversed {
        object.string("bit-order", if first_to_last { "last-to-first" } else { "first-to-last" });
    }
    if align_bits > 1 {
        object.number("alignment", align_bits);
    }
}

fn encoding(object: &mut Object<'_>, encoding: Encoding) {
    // The first one goes without saying.
    if let Some((name, _)) = ENCODINGS[1..].iter().find(|(_, of)| *of == encoding) {
        object.string("encoding", name);
    }
}

fn mappings(out: &mut String, mappings: &[Mapping]) {
    let mut object = Object::begin(out);
    for mapping in mappings {
        ranges(object.key(&mapping.label), &mapping.ranges);
    }
}

fn ranges(out: &mut String, ranges: &[Range]) {
    put_list(out, ranges, |out, (low, high)| {
        let _ = write!(out, "[{low},{high}]");
    });
}

fn roles(object: &mut Object<'_>, roles: Roles, scope: Scope) {
    let is_of = |role: Role| roles.has(role) && (role != Role::Timestamp || scope == Scope::EventHeader);
    let list: Vec<&str> = ROLES.iter().filter(|(.., role)| is_of(*role)).map(|&(name, ..)| name).collect();
    if !list.is_empty() {
        let _ = write!(object.key("roles"), "{list:?}");
    }
}

/// The name of half of a call.
fn call_name(half: CallHalf) -> &'static str {
    match half {
        CallHalf::Entry => "entry",
        CallHalf::Exit => "exit",
    }
}

/// The names of log levels of CTF 1.8 as LTTng numbers them.
fn log_level_name(level: i64) -> Option<&'static str> {
    const NAMES: &str = "emergency alert critical error warning notice info debug:system debug:program debug:process \
                         debug:module debug:unit debug:function debug:line debug";
    NAMES.split(' ').nth(usize::try_from(level).ok()?)
}
