//! JSON, as much as metadata need.

use std::fmt::Write;

/// Appends a string.
pub(super) fn put_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => {
                // Writing to a string does not fail.
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Writes the properties of an object, one after the other.
pub(super) struct Object<'a> {
    out: &'a mut String,
    is_empty: bool,
}

impl<'a> Object<'a> {
    pub(super) fn begin(out: &'a mut String) -> Self {
        out.push('{');
        Object { out, is_empty: true }
    }

    /// Begins a property; its value is to be appended.
    pub(super) fn key(&mut self, name: &str) -> &mut String {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.out.push(',');
        }
        put_string(self.out, name);
        self.out.push(':');
        self.out
    }

    pub(super) fn string(&mut self, name: &str, value: &str) {
        put_string(self.key(name), value);
    }

    pub(super) fn optional_string(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.string(name, value);
        }
    }

    pub(super) fn number(&mut self, name: &str, value: impl std::fmt::Display) {
        let _ = write!(self.key(name), "{value}");
    }

    pub(super) fn end(self) {
        self.out.push('}');
    }
}

/// Bytes as base64: the standard alphabet, filled up.
pub(super) fn to_base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for piece in bytes.chunks(3) {
        let bits = (0..3).fold(0u32, |bits, at| bits << 8 | u32::from(piece.get(at).copied().unwrap_or(0)));
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at) & 63) as usize];
            out.push(if at <= piece.len() { char::from(digit) } else { '=' });
        }
    }
    out
}
