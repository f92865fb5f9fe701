//! Rules of names in TSDL, and names of members that it has no place for as identifiers that say which names they stand
//! for.
//!
//! Every character that no identifier has becomes `_xHEX_`, and so does an underscore that begins what looks like one of
//! those. So no two names become the same, and every name can be had back. Metadata that hold such names say so in a
//! comment ([`MARK`]); nothing else is read that way, as `_x20_` may be part of the name that a producer gave.

use std::fmt::Write;
use std::sync::Arc;

use tracemill_model::schema::{FieldClassId, FieldKind, Mapping, Schema, VariantOption};

/// Can TSDL have it as a name?
pub(super) fn is_identifier(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Is it a word of TSDL?
pub(super) fn is_word(text: &str) -> bool {
    const WORDS: &str = "align callsite char clock const double enum env event float floating_point int integer long \
                         short signed stream string struct trace typealias typedef unsigned variant void _Bool \
                         _Complex _Imaginary";
    WORDS.split(' ').any(|word| word == text)
}

/// A name in which `_xHEX_` stands for every character that is not plain; `is_plain` is given what is after it too.
fn encoded(name: &str, is_plain: impl Fn(char, &str) -> bool) -> String {
    let mut text = String::with_capacity(name.len() + 1);
    for (at, c) in name.char_indices() {
        if is_plain(c, &name[at + c.len_utf8()..]) {
            text.push(c);
        } else {
            // Writing to a string does not fail.
            let _ = write!(text, "_x{:x}_", c as u32);
        }
    }
    text
}

/// A name as TSDL can have it: every other character becomes `_xHEX_`.
pub(super) fn identifier(name: &str) -> String {
    let text = encoded(name, |c, _| c.is_ascii_alphanumeric() || c == '_');
    if is_identifier(&text) { text } else { format!("_{text}") }
}

/// A string literal of C. `letters` are the control characters with an escape of their own, the others are octal.
pub(super) fn quoted(text: &str, letters: &[(char, char)]) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match letters.iter().find(|(of, _)| *of == c) {
            Some((_, letter)) => out.extend(['\\', *letter]),
            None if matches!(c, '"' | '\\') => out.extend(['\\', c]),
            None if c.is_ascii_control() => {
                // Writing to a string does not fail.
                let _ = write!(out, "\\{:03o}", c as u32);
            }
            None => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Sizes of floating point numbers in bits, with the digits of exponent and mantissa that metadata state.
pub(super) const FLOATS: [(u32, (i128, i128)); 4] = [(16, (5, 11)), (32, (8, 24)), (64, (11, 53)), (128, (15, 113))];

/// Line of metadata whose names of members are coded.
pub(super) const MARK: &str = "/* tracemill: members are named in code, _xHEX_ is a character */";

/// Most digits of a character.
const DIGITS: usize = 6;

/// Does the text of metadata say that its names are coded?
pub(super) fn has_mark(text: &str) -> bool {
    text.lines().take(3).any(|line| line == MARK)
}

/// The code of a name, after the first character of an identifier.
pub(super) fn coded(name: &str) -> String {
    encoded(name, |c, rest| c.is_ascii_alphanumeric() || c == '_' && !looks_coded(rest))
}

/// Would an underscore before this text be read as the beginning of a coded character, however the text is coded?
fn looks_coded(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix('x') else { return false };
    let digits = rest.bytes().take(DIGITS).take_while(u8::is_ascii_hexdigit).count();
    digits > 0 && rest[digits..].chars().next().is_some_and(|c| !c.is_ascii_alphanumeric())
}

/// The name that stands for a coded one.
pub(super) fn plain(text: &str) -> String {
    let (mut name, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(c) = rest.chars().next() {
        let (c, len) = character(rest).unwrap_or((c, c.len_utf8()));
        name.push(c);
        rest = &rest[len..];
    }
    name
}

/// The coded character at the beginning of a text, and its length.
fn character(text: &str) -> Option<(char, usize)> {
    let digits = text.strip_prefix("_x")?;
    let len = digits.bytes().take(DIGITS).take_while(u8::is_ascii_hexdigit).count();
    let c = char::from_u32(u32::from_str_radix(&digits[..len], 16).ok()?)?;
    digits[len..].starts_with('_').then_some((c, len + 3))
}

/// The members of a structure that stands for a variant whose options are named in code, too: the enumeration and the
/// variant that it selects.
pub(super) const TAGGED: [&str; 2] = ["tag", "value"];

/// A schema with the names that its coded ones stand for; the coded ones are as the metadata have them.
pub(super) fn with_plain_names(schema: &Schema) -> Schema {
    let mut schema = schema.clone();
    for at in 0..schema.field_class_count() {
        let id = FieldClassId(at as u32);
        let mut class = schema.field_class(id).clone();
        let FieldKind::Struct(structure) = &mut class.kind else { continue };
        if let [tag, value] = structure.members.as_slice()
            && [&*tag.name, &*value.name] == TAGGED
        {
            plain_options(&mut schema, tag.class, value.class);
        }
        for member in &mut structure.members {
            member.name = Arc::from(plain(&member.name));
        }
        schema.set_field_class(id, class);
    }
    schema.has_coded_names = true;
    schema
}

/// Are the labels the names of the options, in their order?
pub(super) fn is_tag(labels: &[Mapping], options: &[VariantOption]) -> bool {
    labels.iter().map(|of| Some(&of.label)).eq(options.iter().map(|option| option.name.as_ref()))
}

/// Names the options of a variant, and the labels that select them, as they were named before.
fn plain_options(schema: &mut Schema, tag: FieldClassId, value: FieldClassId) {
    let (mut labels, mut options) = (schema.field_class(tag).clone(), schema.field_class(value).clone());
    let (FieldKind::Integer(integer), FieldKind::Variant(variant)) = (&mut labels.kind, &mut options.kind) else {
        return;
    };
    let Some(mappings) = &integer.mappings else { return };
    let raw_names = variant.options.iter().map(|option| option.raw_name.as_ref());
    if !mappings.iter().map(|of| Some(&of.label)).eq(raw_names) {
        return;
    }
    for option in &mut variant.options {
        option.name = option.name.as_deref().map(|name| plain(name).into());
        option.raw_name = option.name.clone();
    }
    let plain = mappings
        .iter()
        .zip(&variant.options)
        .map(|(mapping, option)| Mapping { label: option.name.clone().unwrap_or_default(), ..mapping.clone() });
    integer.mappings = Some(plain.collect());
    schema.set_field_class(tag, labels);
    schema.set_field_class(value, options);
}

#[cfg(test)]
mod tests {
    use super::{coded, identifier, plain, quoted};

    #[test]
    fn names_become_identifiers() {
        assert_eq!(identifier("a b"), "a_x20_b");
        assert_eq!(identifier("9a"), "_9a");
        assert_eq!(quoted("a\"\\\n\t\u{1}", &[('\n', 'n')]), "\"a\\\"\\\\\\n\\011\\001\"");
    }

    #[test]
    fn every_name_can_be_had_back() {
        assert_eq!((coded("a b"), coded("a_x20_b")), ("a_x20_b".into(), "a_x5f_x20_b".into()));
        assert_eq!((coded("_x"), coded("x_x1")), ("_x".into(), "x_x1".into()));
        let pieces = ["", "_", "x", "é", "20", "_x", "_x20_", "\u{10ffff}", "a", "5f", " ", "_x5f_", "g"];
        let mut known = std::collections::HashMap::new();
        for a in pieces {
            for b in pieces {
                for c in pieces {
                    for d in pieces {
                        let name = [a, b, c, d].concat();
                        let code = coded(&name);
                        assert!(code.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{code}");
                        assert_eq!(plain(&code), name, "{code}");
                        assert_eq!(*known.entry(code).or_insert_with(|| name.clone()), name);
                    }
                }
            }
        }
    }
}
