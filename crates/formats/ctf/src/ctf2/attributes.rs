//! Notes of `convert` in the attributes of the metadata that it writes: what CTF 2 has no property for, and what the
//! trace was before.
//!
//! Attributes never change how data are decoded by others. What is not as we write it is as if it were not there: it
//! belongs to somebody else's idea of our namespace.

use std::sync::Arc;

use tracemill_codec::text::put_from_base64;
use tracemill_model::schema::{CallHalf, ClockClass, Mapping, Origin, Summary, TracePart};

use super::json::{JsonKind, JsonValue, Property};
use super::object::Object;

/// Our namespace.
pub(crate) const NAMESPACE: &str = "tracemill";

/// The attribute of an optional or variant whose ranges are those of a boolean that is written as an integer.
pub(crate) const OF_BOOLEAN: &str = "boolean-ranges";

/// Our attributes of an object of the metadata.
#[derive(Clone, Copy)]
pub(super) struct Own<'v>(&'v [Property<'v>]);

impl<'v> Own<'v> {
    /// Our attributes of `object`; empty when it has none.
    pub(super) fn from_object(object: &Object<'v>) -> Own<'v> {
        let attributes = object.optional("attributes").map(Own::from).unwrap_or(Own(&[]));
        attributes.inside(NAMESPACE)
    }

    fn from(value: &'v JsonValue<'v>) -> Own<'v> {
        match &value.kind {
            JsonKind::Object(properties) => Own(properties),
            _ => Own(&[]),
        }
    }

    fn get(&self, name: &str) -> Option<&'v JsonValue<'v>> {
        self.0.iter().find(|property| property.key == name).map(|property| &property.value)
    }

    fn inside(&self, name: &str) -> Own<'v> {
        self.get(name).map_or(Own(&[]), Own::from)
    }

    fn list(&self, name: &str) -> &'v [JsonValue<'v>] {
        match self.get(name).map(|value| &value.kind) {
            Some(JsonKind::Array(values)) => values,
            _ => &[],
        }
    }

    fn text(&self, name: &str) -> Option<&'v str> {
        match self.get(name).map(|value| &value.kind) {
            Some(JsonKind::String(text)) => Some(text),
            _ => None,
        }
    }

    fn number<T: TryFrom<i128>>(&self, name: &str) -> Option<T> {
        match self.get(name).map(|value| &value.kind) {
            Some(JsonKind::Integer(number)) => T::try_from(*number).ok(),
            _ => None,
        }
    }

    /// Is it there and true?
    pub(super) fn has(&self, name: &str) -> bool {
        matches!(self.get(name).map(|value| &value.kind), Some(JsonKind::Boolean(true)))
    }

    /// The name that a member of a structure has in fact.
    pub(super) fn name(&self) -> Option<&'v str> {
        self.text("name")
    }

    /// The trace that was converted.
    pub(super) fn origin(&self) -> Option<Arc<Origin>> {
        let own = self.inside("origin");
        let version = own.list("version").iter().map(|value| match value.kind {
            JsonKind::Integer(number) => u32::try_from(number).unwrap_or(0),
            _ => 0,
        });
        let version: Vec<u32> = version.collect();
        let part = |value: &'v JsonValue<'v>| {
            let own = Own::from(value);
            let mut bytes = own.text("text").unwrap_or("").as_bytes().to_vec();
            if own.text("text").is_none() {
                put_from_base64(own.text("base64")?.as_bytes(), &mut bytes)?;
            }
            Some(TracePart { name: own.text("name")?.to_string(), bytes: bytes.into() })
        };
        let stream = |value: &'v JsonValue<'v>| {
            let own = Own::from(value);
            Some((own.text("file")?.to_string(), own.text("name")?.to_string()))
        };
        Some(Arc::new(Origin {
            format: own.text("format")?.to_string(),
            version: (version.first().copied().unwrap_or(0), version.get(1).copied().unwrap_or(0)),
            parts: own.list("parts").iter().filter_map(part).collect(),
            streams: own.list("streams").iter().filter_map(stream).collect(),
            has_same_packets: own.has("same-packets"),
            moved_ns: own.number("moved-ns").unwrap_or(0),
        }))
    }

    /// Half of a call that the events of a class are.
    pub(super) fn call(&self) -> Option<CallHalf> {
        match self.text("call")? {
            "entry" => Some(CallHalf::Entry),
            "exit" => Some(CallHalf::Exit),
            _ => None,
        }
    }

    /// How text sums events up.
    pub(super) fn summary(&self) -> Option<Summary> {
        let own = self.inside("summary");
        let (before, after) = (own.text("before")?.into(), own.text("after")?.into());
        Some(Summary { before, has_name: own.has("has-name"), after })
    }

    /// Adds to a clock what CTF 2 cannot say of it.
    pub(super) fn complete_clock(&self, clock: &mut ClockClass) {
        if self.has("unknown-frequency") {
            clock.frequency = 0;
        }
        clock.has_made_cycles = self.has("made-cycles");
        let ratio = self.inside("ratio");
        if let (Some(ticks), Some(seconds)) = (ratio.number("ticks"), ratio.number("seconds"))
            && ticks > 0
            && seconds > 0
        {
            (clock.frequency, clock.seconds) = (ticks, seconds);
        }
        let own = self.inside("offset");
        if let (Some(seconds), Some(cycles), Some(ns)) = (own.number("seconds"), own.number("cycles"), own.number("ns"))
        {
            (clock.offset_seconds, clock.offset_cycles, clock.offset_ns) = (seconds, cycles, ns);
        }
    }

    /// The labels of an enumeration in the order that decides how they are shown, when an object of JSON cannot hold it.
    pub(super) fn mappings(&self) -> Option<Arc<[Mapping]>> {
        let range = |value: &JsonValue<'_>| match &value.kind {
            JsonKind::Array(bounds) => match bounds.as_slice() {
                [JsonValue { kind: JsonKind::Integer(low), .. }, JsonValue { kind: JsonKind::Integer(high), .. }] => {
                    Some((*low, *high))
                }
                _ => None,
            },
            _ => None,
        };
        let mapping = |value: &'v JsonValue<'v>| {
            let own = Own::from(value);
            let ranges: Option<Vec<_>> = own.list("ranges").iter().map(range).collect();
            Some(Mapping { label: own.text("label")?.into(), ranges: ranges? })
        };
        self.get("mappings")?;
        self.list("mappings").iter().map(mapping).collect()
    }
}
