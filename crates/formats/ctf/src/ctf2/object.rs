//! Typed access to the properties of a JSON object.

use std::sync::Arc;

use tracemill_codec::text::Span;
use tracemill_model::error::{Error, Result};

use super::json::{JsonKind, JsonValue, Property};
use super::words::{listed, quoted, suggest};
use crate::metadata_text::MetadataText;

/// A JSON object that is being read as something: a fragment, a field class, ...
#[derive(Clone, Copy)]
pub(super) struct Object<'v> {
    pub(super) source: &'v MetadataText<'v>,
    pub(super) span: Span,
    /// Name of its kind, with the article: "a field class".
    pub(super) what: &'static str,
    pub(super) properties: &'v [Property<'v>],
}

impl<'v> Object<'v> {
    /// The value as an object, or an error that says what it should be.
    pub(super) fn new(source: &'v MetadataText<'v>, value: &'v JsonValue<'v>, what: &'static str) -> Result<Self> {
        match &value.kind {
            JsonKind::Object(properties) => Ok(Object { source, span: value.span, what, properties }),
            _ => {
                let message = format!("expected {what} (an object), found {}", value.describe(source));
                Err(value.span.malformed(source, message))
            }
        }
    }

    /// Warns of properties that are not in `known`, and checks `attributes` and `extensions` when they are.
    ///
    /// CTF 2 leaves no room for properties of one's own outside of those two; Babeltrace and yactfr refuse them.
    pub(super) fn check_properties(&self, known: &[&str]) -> Result<()> {
        for property in self.properties {
            let Property { key, key_span, value } = property;
            match &**key {
                "user-attributes" if known.contains(&"attributes") => {
                    self.source.candidate(*key_span, "property `user-attributes`")?;
                    Object::new(self.source, value, "attributes")?;
                }
                name if !known.contains(&name) => {
                    let error = || {
                        let message = format!("unknown property {} of {}", quoted(key), self.what);
                        suggest(key_span.malformed(self.source, message), key, known.iter().copied())
                    };
                    self.source.tolerate(error, || "it is ignored".into())?;
                }
                "attributes" => {
                    Object::new(self.source, value, "attributes")?;
                }
                "extensions" => self.refuse_extensions(value)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Warns of properties that are not in `own` or those of every fragment and field class.
    pub(super) fn check_typed(&self, own: &[&[&str]]) -> Result<()> {
        self.check_properties(&[&["type"], &*own.concat(), &["attributes", "extensions"]].concat())
    }

    /// An extension may change the format itself, so a reader that does not know it must stop (CTF 2, 5.1).
    fn refuse_extensions(&self, value: &'v JsonValue<'v>) -> Result<()> {
        for namespace in Object::new(self.source, value, "extensions")?.properties {
            let extensions = Object::new(self.source, &namespace.value, "the extensions of a namespace")?;
            if let Some(extension) = extensions.properties.first() {
                let message = format!(
                    "extension {} of namespace {} is not supported",
                    quoted(&extension.key),
                    quoted(&namespace.key)
                );
                let error = extension.key_span.unsupported(self.source, message);
                return Err(error.with_help("an extension may change how the data is laid out; no extension is known"));
            }
        }
        Ok(())
    }

    /// A property that may be missing.
    pub(super) fn optional(&self, name: &str) -> Option<&'v JsonValue<'v>> {
        self.properties.iter().find(|property| property.key == name).map(|property| &property.value)
    }

    /// A property that must be there.
    pub(super) fn required(&self, name: &str) -> Result<&'v JsonValue<'v>> {
        self.optional(name).ok_or_else(|| self.missing(name))
    }

    /// The error about a property that is not there.
    pub(super) fn missing(&self, name: &str) -> Error {
        self.span.malformed(self.source, format!("{} has no property `{name}`, which is required", self.what))
    }

    /// A string property.
    pub(super) fn string(&self, name: &str) -> Result<Option<Arc<str>>> {
        self.optional(name).map(|value| self.as_string(name, value).map(Arc::from)).transpose()
    }

    /// A string property that must be there.
    pub(super) fn required_string(&self, name: &str) -> Result<&'v str> {
        self.as_string(name, self.required(name)?)
    }

    /// A property with one of a few words: the meaning of that word.
    pub(super) fn word<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<Option<T>> {
        let Some(value) = self.optional(name) else { return Ok(None) };
        let text = self.as_string(name, value)?;
        match words.iter().find(|(word, _)| *word == text) {
            Some(&(_, meaning)) => Ok(Some(meaning)),
            None => {
                let names: Vec<&str> = words.iter().map(|&(word, _)| word).collect();
                let message = format!("property `{name}` is {}, expected {}", quoted(text), listed(&names));
                Err(suggest(value.span.malformed(self.source, message), text, names))
            }
        }
    }

    /// An integer property within bounds.
    pub(super) fn integer(&self, name: &str, low: i128, high: i128) -> Result<Option<i128>> {
        self.optional(name).map(|value| integer(self.source, name, value, low, high)).transpose()
    }

    /// An unsigned 64-bit property.
    pub(super) fn unsigned(&self, name: &str) -> Result<Option<u64>> {
        Ok(self.integer(name, 0, u64::MAX.into())?.map(|value| value as u64))
    }

    /// An unsigned 64-bit property that must be there.
    pub(super) fn required_unsigned(&self, name: &str) -> Result<u64> {
        self.unsigned(name)?.ok_or_else(|| self.missing(name))
    }

    /// An array property.
    pub(super) fn array(&self, name: &str) -> Result<Option<&'v [JsonValue<'v>]>> {
        self.optional(name).map(|value| array(self.source, name, value)).transpose()
    }

    /// The error about something that may stand once only; `first` is where it stands already.
    pub(super) fn second(&self, span: Span, message: impl Into<String>, first: Span) -> Error {
        span.malformed(self.source, message).with_related("the first one", first.place(self.source))
    }

    fn as_string(&self, name: &str, value: &'v JsonValue<'v>) -> Result<&'v str> {
        match &value.kind {
            JsonKind::String(text) => Ok(text),
            _ => Err(mismatch(self.source, name, value, "a string")),
        }
    }
}

/// An integer within bounds; `name` is the property it belongs to.
pub(super) fn integer(source: &str, name: &str, value: &JsonValue<'_>, low: i128, high: i128) -> Result<i128> {
    match value.kind {
        JsonKind::Integer(number) if (low..=high).contains(&number) => Ok(number),
        JsonKind::Integer(number) => {
            Err(value.span.malformed(source, format!("property `{name}` is `{number}`, expected {low} to {high}")))
        }
        _ => Err(mismatch(source, name, value, "an integer")),
    }
}

/// The elements of an array; `name` is the property it belongs to.
pub(super) fn array<'v>(source: &str, name: &str, value: &'v JsonValue<'v>) -> Result<&'v [JsonValue<'v>]> {
    match &value.kind {
        JsonKind::Array(values) => Ok(values),
        _ => Err(mismatch(source, name, value, "an array")),
    }
}

/// The error about a value of the wrong JSON type.
pub(super) fn mismatch(source: &str, name: &str, value: &JsonValue<'_>, expected: &str) -> Error {
    value.span.malformed(source, format!("property `{name}` is {}, expected {expected}", value.describe(source)))
}

#[cfg(test)]
mod tests {
    use super::super::json;
    use super::*;

    fn with_object(text: &str, check: impl FnOnce(Object<'_>)) {
        let source = MetadataText::new(text, true);
        let value = json::parse(&source, Span::new(0, text.len()), 1).unwrap();
        check(Object::new(&source, &value, "a thing").unwrap());
    }

    #[test]
    fn properties_by_type() {
        with_object(r#"{"s": "x", "n": 300, "a": [1]}"#, |object| {
            assert_eq!(object.required_string("s").unwrap(), "x");
            assert_eq!(object.unsigned("n").unwrap(), Some(300));
            assert_eq!(object.unsigned("none").unwrap(), None);
            assert_eq!(object.array("a").unwrap().map(<[_]>::len), Some(1));
            let message = |error: Error| error.message().to_owned();
            assert_eq!(message(object.integer("n", 1, 9).unwrap_err()), "property `n` is `300`, expected 1 to 9");
            assert_eq!(
                message(object.unsigned("s").unwrap_err()),
                "property `s` is the string `x`, expected an integer"
            );
            assert_eq!(message(object.required("zz").unwrap_err()), "a thing has no property `zz`, which is required");
            let error = object.word("s", &[("xy", 1), ("b", 2)]).unwrap_err();
            assert_eq!(error.message(), "property `s` is `x`, expected `xy` or `b`");
        });
    }

    #[test]
    fn unknown_properties_and_extensions_are_refused() {
        with_object(r#"{"namee": 1}"#, |object| {
            let error = object.check_properties(&["name", "type"]).unwrap_err();
            assert_eq!(error.help(), Some("did you mean `name`?"));
        });
        with_object(r#"{"extensions": {"a": {}, "b": {"c": null}}, "attributes": {}}"#, |object| {
            let error = object.check_properties(&["attributes", "extensions"]).unwrap_err();
            assert_eq!(error.message(), "extension `c` of namespace `b` is not supported");
            assert_eq!(error.kind(), tracemill_model::error::ErrorKind::Unsupported);
        });
        with_object(r#"{"attributes": 3}"#, |object| {
            let error = object.check_properties(&["attributes"]).unwrap_err();
            assert_eq!(error.message(), "expected attributes (an object), found the integer `3`");
        });
    }
}
