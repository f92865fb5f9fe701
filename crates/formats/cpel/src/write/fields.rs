//! The fields of the events of other formats, as a flat list, and as text.

use std::collections::HashMap;
use std::io::Write;

use tracemill_codec::chunk::EventRef;
use tracemill_codec::value::Value;
use tracemill_model::error::Result;
use tracemill_model::schema::{DisplayBase, EventClassId, FieldClassId, FieldKind, Schema, Scope};

use super::output::Log;
use crate::strings::MAX_TEXT;
use tracemill_format::Spill;

/// Structures in each other that are taken apart.
const MAX_DEPTH: usize = 8;
/// Octets of the strings that are found again.
const MAX_KNOWN: usize = 32 << 20;

/// A field that is no structure.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub(super) place: FieldRoute,
    /// Its name; of a member of a structure with the names of those around it.
    pub(super) name: String,
    pub(super) class: FieldClassId,
}

/// Where a field is: the way down from the root of a scope.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FieldRoute {
    pub(super) scope: Scope,
    pub(super) path: Vec<usize>,
}

/// The fields of an event but for some, those of its payload first; and whether the first one is a text that sums the
/// event up.
pub(super) fn leaves(schema: &Schema, event: EventClassId, without: &[FieldRoute]) -> (Vec<Leaf>, bool) {
    let mut leaves = Vec::new();
    for scope in [Scope::Payload, Scope::SpecificContext, Scope::CommonContext] {
        let root = schema.scope_root(scope, event);
        add(schema, &FieldRoute { scope, path: Vec::new() }, "", root, &mut leaves);
    }
    leaves.retain(|leaf| !without.contains(&leaf.place));
    let summary = schema.summary.as_ref().map(|summary| &*summary.after);
    let is_summary = |leaf: &Leaf| leaf.place.scope == Scope::Payload && summary == Some(leaf.name.as_str());
    let at = leaves.iter().position(is_summary);
    if let Some(at) = at {
        leaves[..=at].rotate_right(1);
    }
    (leaves, at.is_some())
}

fn add(schema: &Schema, place: &FieldRoute, name: &str, class: Option<FieldClassId>, leaves: &mut Vec<Leaf>) {
    let Some(class) = class else { return };
    match &schema.field_class(class).kind {
        FieldKind::Struct(structure) if !structure.is_tuple() && place.path.len() < MAX_DEPTH => {
            for (at, member) in structure.members.iter().enumerate() {
                let mut place = place.clone();
                place.path.push(at);
                let name = if name.is_empty() { member.name.to_string() } else { format!("{name}.{}", member.name) };
                add(schema, &place, &name, Some(member.class), leaves);
            }
        }
        _ => leaves.push(Leaf { place: place.clone(), name: name.to_string(), class }),
    }
}

/// The fields of an event, read when they are asked for.
pub(super) struct FieldValues<'a> {
    pub(super) event: EventRef<'a>,
    scopes: Vec<(Scope, Option<Value>)>,
}

impl<'a> FieldValues<'a> {
    pub(super) fn new(event: EventRef<'a>) -> Self {
        FieldValues { event, scopes: Vec::new() }
    }

    /// The value at a place; `None` where there is none.
    pub(super) fn get(&mut self, place: &FieldRoute) -> Result<Option<&Value>> {
        let at = match self.scopes.iter().position(|(scope, _)| *scope == place.scope) {
            Some(at) => at,
            None => {
                let values = self.event.values(place.scope)?;
                self.scopes.push((place.scope, values));
                self.scopes.len() - 1
            }
        };
        let mut value = self.scopes.get(at).and_then(|(_, value)| value.as_ref());
        for &member in &place.path {
            value = match value {
                Some(Value::Struct(members)) => members.get(member).map(|(_, value)| value),
                _ => None,
            };
        }
        Ok(value)
    }

    /// `name=value`, one after the other.
    pub(super) fn text(&mut self, schema: &Schema, leaves: &[Leaf], out: &mut Vec<u8>) -> Result<()> {
        for (at, leaf) in leaves.iter().enumerate() {
            if at > 0 {
                out.push(b' ');
            }
            out.extend_from_slice(leaf.name.as_bytes());
            if !leaf.name.is_empty() {
                out.push(b'=');
            }
            let value = self.get(&leaf.place)?;
            put_value(out, value.unwrap_or(&Value::Null), Some((schema, leaf.class)));
        }
        Ok(())
    }
}

/// Appends a value as text. The class of a value says its labels and its base.
fn put_value(out: &mut Vec<u8>, value: &Value, class: Option<(&Schema, FieldClassId)>) {
    let kind = class.map(|(schema, class)| &schema.field_class(class).kind);
    // Writing to a vector does not fail.
    let mut put = |text: std::fmt::Arguments<'_>| drop(out.write_fmt(text));
    match value {
        Value::Null => put(format_args!("null")),
        Value::Unsigned(_) | Value::Signed(_) => {
            let number = value.integer().unwrap_or(0);
            let (label, base) = match kind {
                Some(FieldKind::Integer(integer)) => {
                    let mapping = integer.mappings.iter().flat_map(|mappings| mappings.iter());
                    (mapping.into_iter().find(|mapping| mapping.contains(number)).map(|of| &*of.label), integer.base)
                }
                Some(FieldKind::BitArray(_) | FieldKind::BitMap(_)) => (None, DisplayBase::Hexadecimal),
                _ => (None, DisplayBase::Decimal),
            };
            match (label, base) {
                (Some(label), _) => {
                    put_quoted(out, label.as_bytes());
                    let _ = write!(out, "({number})");
                }
                (None, DisplayBase::Hexadecimal) if number >= 0 => put(format_args!("{number:#x}")),
                (None, DisplayBase::Octal) if number >= 0 => put(format_args!("{number:#o}")),
                _ => put(format_args!("{number}")),
            }
        }
        Value::Wide(wide) => match wide.to_i128() {
            Some(number) => put(format_args!("{number}")),
            None => {
                put(format_args!("0x"));
                for limb in wide.limbs.iter().rev() {
                    let _ = write!(out, "{limb:016x}");
                }
            }
        },
        Value::Boolean(value) => put(format_args!("{value}")),
        Value::Real(value) => put(format_args!("{value}")),
        Value::Text(text) => put_quoted(out, text),
        Value::Blob(octets) => {
            for octet in octets {
                let _ = write!(out, "{octet:02x}");
            }
        }
        Value::List(values) => {
            for (at, value) in values.iter().enumerate() {
                out.extend_from_slice(if at == 0 { b"[" } else { b", " });
                put_value(out, value, None);
            }
            out.extend_from_slice(if values.is_empty() { b"[]" } else { b"]" });
        }
        Value::Struct(members) => {
            for (at, (name, value)) in members.iter().enumerate() {
                out.extend_from_slice(if at == 0 { b"{" } else { b", " });
                out.extend_from_slice(name.as_bytes());
                out.push(b'=');
                put_value(out, value, None);
            }
            out.extend_from_slice(if members.is_empty() { b"{}" } else { b"}" });
        }
        Value::Option(_, name, value) => {
            if let Some(name) = name {
                out.extend_from_slice(name.as_bytes());
                out.push(b':');
            }
            put_value(out, value, None);
        }
    }
}

/// A text in quotes; what would end it, and control characters, after a backslash.
fn put_quoted(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for &octet in text {
        match octet {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', octet]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 | 0x7f => drop(write!(out, "\\x{octet:02x}")),
            _ => out.push(octet),
        }
    }
    out.push(b'"');
}

/// A name as a format that has none of these characters: they become `_xHEX_`, and so does the `_` of what looks so.
pub(super) fn mapped(name: &str, is_forbidden: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(name.len());
    for (at, one) in name.char_indices() {
        let is_like = one == '_' && looks_mapped(&name[at..]);
        if is_like || is_forbidden(one) {
            out.push_str(&format!("_x{:X}_", u32::from(one)));
        } else {
            out.push(one);
        }
    }
    out
}

fn looks_mapped(text: &str) -> bool {
    let digits = text.strip_prefix("_x").and_then(|rest| rest.split_once('_')).map(|(digits, _)| digits);
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

/// The strings of a table that is written: equal ones are one, as long as they are not too many.
pub(super) struct Strings {
    spool: Spill,
    /// Name that the table begins with, which no text is.
    name: Option<&'static str>,
    known: HashMap<Box<[u8]>, u32>,
    known_bytes: usize,
}

impl Strings {
    /// An empty table.
    pub(super) fn new(spool: Spill, name: Option<&'static str>) -> Self {
        Strings { spool, name, known: HashMap::new(), known_bytes: 0 }
    }

    /// Writes the name of the table, unless it is there.
    pub(super) fn begin(&mut self) -> Result<()> {
        match self.name.take() {
            Some(name) => self.push(name.as_bytes()),
            None => Ok(()),
        }
    }

    fn push(&mut self, text: &[u8]) -> Result<()> {
        self.spool.append(0, text)?;
        self.spool.append(0, &[0])
    }

    /// Octets so far.
    pub(super) fn len(&self) -> u64 {
        self.spool.len()
    }

    /// The offset of a text, which has no NUL in it; `None` when the table is full.
    pub(super) fn add(&mut self, text: &[u8]) -> Result<Option<u32>> {
        if let Some(&known) = self.known.get(text) {
            return Ok(Some(known));
        }
        // With room for what pads it.
        let end = self.spool.len() + text.len() as u64 + 5;
        let (Ok(at), true) = (u32::try_from(self.spool.len()), end <= u64::from(u32::MAX)) else { return Ok(None) };
        self.push(text)?;
        if self.known_bytes > MAX_KNOWN {
            self.known.clear();
            self.known_bytes = 0;
        }
        self.known_bytes += text.len() + 64;
        self.known.insert(text.into(), at);
        Ok(Some(at))
    }

    /// Fills it up with NULs to a multiple of 4.
    pub(super) fn pad(&mut self) -> Result<()> {
        let len = self.spool.len();
        self.spool.append(0, &[0; 3][..(len.next_multiple_of(4) - len) as usize])
    }

    /// Writes all of it.
    pub(super) fn copy_to(&mut self, log: &mut Log<'_>) -> Result<()> {
        log.put_waiting(&mut self.spool)
    }
}

/// Makes a text one that a table holds: without a NUL, and no longer than is shown of one. Was it truncated?
pub(super) fn store(text: &mut Vec<u8>) -> bool {
    let len = memchr::memchr(0, text).unwrap_or(text.len()).min(MAX_TEXT);
    let is_truncated = len < text.len();
    text.truncate(len);
    is_truncated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_mapped_so_that_they_can_be_mapped_back() {
        let forbidden = |one: char| matches!(one, ' ' | '%' | '\0');
        for (name, want) in [
            ("sched_switch", "sched_switch"),
            ("a b%", "a_x20_b_x25_"),
            ("_x20_", "_x5F_x20_"),
            ("_x_", "_x_"),
            ("_xag_\0", "_xag__x0_"),
            ("_x2", "_x2"),
        ] {
            assert_eq!(mapped(name, forbidden), want);
        }
    }

    #[test]
    fn values_have_a_text() {
        let text = |value: Value| {
            let mut out = Vec::new();
            put_value(&mut out, &value, None);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(Value::Signed(-3)), "-3");
        assert_eq!(text(Value::Text(b"a\"b\\\n\x01".to_vec())), "\"a\\\"b\\\\\\n\\x01\"");
        assert_eq!(text(Value::List(vec![Value::Boolean(true), Value::Null])), "[true, null]");
        assert_eq!(text(Value::List(vec![])), "[]");
        let inside = Value::Struct(vec![("x".into(), Value::Real(0.5)), ("y".into(), Value::Blob(vec![1, 255]))]);
        assert_eq!(text(Value::Option(1, Some("b".into()), Box::new(inside))), "b:{x=0.5, y=01ff}");
    }
}
