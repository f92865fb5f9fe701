//! Ids of tracks. That of a field or of a value says what its track shows, so that it need not be remembered.
//!
//! | id | track |
//! |---|---|
//! | `bN`, `cN`, `gN` | a base track, the calls of a task, the group of a trace |
//! | `p.GROUP.NAME.PATH` | of the events of one name of a trace the field at a path |
//! | `p.GROUP.NAME.PATH.PATH.VALUE` | the same of those whose other field has a value |
//! | `nMACHINE.DEFINITION.KEY` | of a key of a definition of the user the counter |
//! | `v.GROUP.PATH.VALUE` | of a trace the events whose value of a path this is |
//!
//! Signs of names, paths and values that ids do not have stand as `-` and two hexadecimal digits.

use tracemill_engine::filter::KeyValue;

use crate::traces::ShownTraces;

/// The id of a base track.
pub(crate) fn base_id(track: usize) -> String {
    format!("b{track}")
}

/// The id of the calls of a task.
pub(crate) fn calls_id(task: usize) -> String {
    format!("c{task}")
}

/// The id of the group of a trace.
pub(crate) fn group_id(trace: usize) -> String {
    format!("g{trace}")
}

/// Signs of a text that an id has; of longer ones it has a sum.
const SIGNS: usize = 80;

/// The events and the field that a counter shows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FieldId {
    pub(crate) trace: usize,
    /// The name of the events.
    pub(crate) name: String,
    /// The path, as filters take it.
    pub(crate) path: String,
    /// The events that are meant, when these are not all.
    pub(crate) of: Option<FieldValue>,
}

/// Events whose field has a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FieldValue {
    pub(crate) path: String,
    /// The value as text.
    pub(crate) value: String,
}

/// A text as a part of an id.
pub(crate) fn encoded(text: &str) -> String {
    let sign = |byte: u8| match byte {
        b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(byte).to_string(),
        other => format!("-{other:02X}"),
    };
    text.bytes().map(sign).collect()
}

/// The text of a part of an id.
pub(crate) fn decoded(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'-' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digit = |sign: u8| char::from(sign).to_digit(16);
        bytes.push((digit(digits[0])? << 4 | digit(digits[1])?) as u8);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

impl FieldId {
    /// Parses an id; `None` when it is none of a counter.
    pub(crate) fn parse(traces: &ShownTraces, id: &str) -> Option<FieldId> {
        let parts: Vec<&str> = id.strip_prefix("p.")?.split('.').collect();
        let (group, name, path, of) = match parts[..] {
            [group, name, path] => (group, name, path, None),
            [group, name, path, of, value] => (group, name, path, Some((of, value))),
            _ => return None,
        };
        let trace = (0..traces.session.traces.len()).find(|trace| group_id(*trace) == group)?;
        let of = match of {
            Some((path, value)) => Some(FieldValue { path: decoded(path)?, value: decoded(value)? }),
            None => None,
        };
        Some(FieldId { trace, name: decoded(name)?, path: decoded(path)?, of })
    }

    /// The id.
    pub(crate) fn id(&self) -> String {
        let of = self.of.as_ref().map(|of| format!(".{}.{}", encoded(&of.path), encoded(&of.value)));
        let (name, path) = (encoded(&self.name), encoded(&self.path));
        format!("p.{}.{name}.{path}{}", group_id(self.trace), of.unwrap_or_default())
    }

    /// The paths that are read.
    pub(crate) fn paths(&self) -> String {
        let of = self.of.as_ref().map(|of| format!(",{}", of.path));
        format!("{}{}", self.path, of.unwrap_or_default())
    }

    /// How a page calls it: `grams of mill:grind`.
    pub(crate) fn title(&self) -> String {
        let short = ["payload.", "event_context.", "stream_context.", "packet_context."]
            .iter()
            .find_map(|scope| self.path.strip_prefix(scope));
        format!("{} of {}", short.unwrap_or(&self.path), self.name)
    }
}

/// The parts of the id of a track by a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ValueId {
    pub(crate) trace: usize,
    pub(crate) path: String,
    /// The value, as ids have it.
    pub(crate) value: String,
}

/// A value as ids have it.
pub(crate) fn id_of_value(value: Option<&KeyValue>) -> String {
    let Some(value) = value else { return "o".to_string() };
    let kind = match value {
        KeyValue::Absent => "n",
        KeyValue::Integer(_) => "i",
        KeyValue::Bool(_) => "b",
        KeyValue::Number(_) => "r",
        KeyValue::Text(_) => "t",
    };
    let text = value.to_string();
    if text.len() <= SIGNS {
        return format!("{kind}{}", encoded(&text));
    }
    // FNV-1a: the same in each run.
    let sum = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("h{sum:016x}")
}

impl ValueId {
    /// The parts of an id; `None` when it is no id of such a track.
    pub(crate) fn parse(traces: &ShownTraces, id: &str) -> Option<ValueId> {
        let mut parts = id.strip_prefix("v.")?.split('.');
        let (group, path, value) = (parts.next()?, parts.next()?, parts.next()?);
        let trace = (0..traces.session.traces.len()).find(|trace| group_id(*trace) == group)?;
        let is_value = value.starts_with(['o', 'n', 'i', 'b', 'r', 't', 'h']) && parts.next().is_none();
        is_value.then_some(())?;
        Some(ValueId { trace, path: decoded(path)?, value: value.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_ids_are_texts() {
        assert_eq!(decoded("mill-3Agrind").as_deref(), Some("mill:grind"));
        assert_eq!(decoded("payload-2Eargs-5B1-5D").as_deref(), Some("payload.args[1]"));
        assert_eq!(decoded("-C3-BC").as_deref(), Some("ü"));
        for wrong in ["-", "-3", "-zz", "-C3", "-+1x"] {
            assert_eq!(decoded(wrong), None, "{wrong}");
        }
    }
    #[test]
    fn values_are_parts_of_ids() {
        let id = |value: KeyValue| id_of_value(Some(&value));
        assert_eq!(id(KeyValue::Integer(-5)), "i-2D5");
        assert_eq!(id(KeyValue::Text(b"a.b c".to_vec())), "ta-2Eb-20c");
        assert_eq!((id(KeyValue::Absent), id_of_value(None)), ("n".to_string(), "o".to_string()));
        let long = id(KeyValue::Text(vec![b'x'; 100]));
        assert!(long.len() == 17 && long != id(KeyValue::Text(vec![b'x'; 101])), "{long}");
        assert_eq!(decoded(&encoded("payload.args[1] ü")).as_deref(), Some("payload.args[1] ü"));
    }
}
