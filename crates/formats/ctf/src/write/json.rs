//! JSON, as much as metadata need.

use std::fmt::Write;

use tracemill_codec::text::json::{self, Escapes};

/// Appends a string.
pub(super) fn put_string(out: &mut String, text: &str) {
    out.push('"');
    json::escape(text, Escapes { letters: "", delete: true }, |piece| *out += piece);
    out.push('"');
}

/// Appends an array; `put` appends each value.
pub(super) fn put_list<T>(out: &mut String, values: impl IntoIterator<Item = T>, mut put: impl FnMut(&mut String, T)) {
    out.push('[');
    for (at, value) in values.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        put(out, value);
    }
    out.push(']');
}

/// Writes the properties of an object, one after the other; it ends with its value here.
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
}

impl Drop for Object<'_> {
    fn drop(&mut self) {
        self.out.push('}');
    }
}
