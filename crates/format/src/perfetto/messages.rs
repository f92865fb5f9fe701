//! The messages of Perfetto: names, numbers and types of their fields, as its public schema has them.
//!
//! `messages.txt` is made by `conformance/perfetto_messages.py`. A line is a message with its fields, or an enumeration with
//! its labels; `*` marks fields that may be there several times:
//!
//! ```text
//! message SchedSwitchFtraceEvent 1:prev_comm:text 2:prev_pid:i32
//! enum FtraceClock 0:FTRACE_CLOCK_UNSPECIFIED 1:FTRACE_CLOCK_UNKNOWN
//! ```

use std::collections::HashMap;
use std::sync::LazyLock;

/// The type of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldType {
    /// `int32` and `int64`, by their bits.
    Signed(u32),
    /// `uint32` and `uint64`, by their bits.
    Unsigned(u32),
    /// `sint32` and `sint64`: small numbers of either sign are short.
    ZigZag,
    /// `fixed32` and `fixed64`, by their bits.
    Fixed(u32),
    /// `float` and `double`, by their bits.
    Float(u32),
    /// `bool`.
    Bool,
    /// `string`.
    Text,
    /// `bytes`.
    Bytes,
    /// A message, by its number.
    Message(u16),
    /// An enumeration, by its number.
    Enum(u16),
}

/// A field of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageField {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub of: FieldType,
    /// May it be there several times?
    pub is_repeated: bool,
}

/// A message: its fields by their numbers, in ascending order.
#[derive(Debug)]
pub struct MessageType {
    /// Its name, with that of the message that it is in before a dot.
    pub name: &'static str,
    /// Its fields.
    pub fields: Vec<MessageField>,
}

impl MessageType {
    /// The field of a number.
    #[inline]
    pub fn field(&self, number: u32) -> Option<&MessageField> {
        // Most messages number their fields from 1 on.
        let usual = self.fields.get((number as usize).wrapping_sub(1)).filter(|field| field.number == number);
        usual.or_else(|| Some(&self.fields[self.fields.binary_search_by_key(&number, |field| field.number).ok()?]))
    }

    /// The field of a name.
    pub fn named(&self, name: &str) -> Option<&MessageField> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// An enumeration: values with their labels.
type EnumType = Vec<(i32, &'static str)>;

struct Table {
    messages: Vec<MessageType>,
    by_name: HashMap<&'static str, u16>,
    enums: Vec<EnumType>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::parse(include_str!("messages.txt")));

impl Table {
    fn parse(text: &'static str) -> Table {
        let lines = || text.lines().filter(|line| !line.starts_with('#'));
        let named = |kind: &'static str| lines().filter_map(move |line| line.strip_prefix(kind)?.strip_prefix(' '));
        let numbers = |kind: &'static str| -> HashMap<&'static str, u16> {
            named(kind).map(|line| line.split(' ').next().unwrap_or_default()).zip(0..).collect()
        };
        let (by_name, enum_numbers) = (numbers("message"), numbers("enum"));
        let type_of = |of: &str| match of {
            "i32" => FieldType::Signed(32),
            "i64" => FieldType::Signed(64),
            "u32" => FieldType::Unsigned(32),
            "u64" => FieldType::Unsigned(64),
            "z64" => FieldType::ZigZag,
            "x32" => FieldType::Fixed(32),
            "x64" => FieldType::Fixed(64),
            "f32" => FieldType::Float(32),
            "f64" => FieldType::Float(64),
            "bool" => FieldType::Bool,
            "text" => FieldType::Text,
            name => match (by_name.get(name), enum_numbers.get(name)) {
                (Some(message), _) => FieldType::Message(*message),
                (None, Some(number)) => FieldType::Enum(*number),
                (None, None) => FieldType::Bytes,
            },
        };
        let field = |word: &'static str| {
            let mut parts = word.split(':');
            let (number, name, of) = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?);
            let (of, is_repeated) = of.strip_suffix('*').map_or((of, false), |of| (of, true));
            Some(MessageField { number, name, of: type_of(of), is_repeated })
        };
        let message = |line: &'static str| {
            let (name, fields) = line.split_once(' ').unwrap_or((line, ""));
            MessageType { name, fields: fields.split(' ').filter_map(field).collect() }
        };
        let label = |word: &'static str| {
            let (value, label) = word.split_once(':')?;
            Some((value.parse().ok()?, label))
        };
        Table {
            messages: named("message").map(message).collect(),
            enums: named("enum").map(|line| line.split(' ').filter_map(label).collect()).collect(),
            by_name,
        }
    }
}

/// The message of a name.
pub fn message(name: &str) -> Option<&'static MessageType> {
    Some(&TABLE.messages[usize::from(*TABLE.by_name.get(name)?)])
}

/// The message of a number, which a field has as its type.
#[inline]
pub fn message_at(number: u16) -> Option<&'static MessageType> {
    TABLE.messages.get(usize::from(number))
}

/// The label of a value of an enumeration.
pub fn label(of: u16, value: i64) -> Option<&'static str> {
    labels(of).iter().find(|(own, _)| i64::from(*own) == value).map(|(_, label)| *label)
}

/// The values of an enumeration and their labels.
pub fn labels(of: u16) -> &'static [(i32, &'static str)] {
    TABLE.enums.get(usize::from(of)).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_number_and_name() {
        let event = message("FtraceEvent").expect("it is in the table");
        let switch = event.field(4).expect("it has a field 4");
        assert_eq!((switch.name, event.named("sched_switch")), ("sched_switch", Some(switch)));
        let FieldType::Message(switch) = switch.of else { panic!("{:?} is not a message", switch.of) };
        let switch = message_at(switch).expect("it is in the table");
        let comm = MessageField { number: 5, name: "next_comm", of: FieldType::Text, is_repeated: false };
        assert_eq!((switch.name, switch.field(5)), ("SchedSwitchFtraceEvent", Some(&comm)));
        assert_eq!(event.field(6), None);
        assert_eq!(event.field(327).map(|field| field.name), Some("generic"));
    }

    #[test]
    fn every_line_of_the_table_is_read_whole() {
        for line in include_str!("messages.txt").lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split(' ');
            let (kind, name, count) = (words.next(), words.next().expect("a name"), words.count());
            if kind == Some("message") {
                let fields = &message(name).expect(name).fields;
                assert_eq!(fields.len(), count, "{name}");
                assert!(fields.is_sorted_by(|a, b| a.number < b.number), "{name}");
            }
        }
        assert_eq!(TABLE.enums.iter().filter(|labels| labels.is_empty()).count(), 0);
    }

    #[test]
    fn values_have_labels() {
        let bundle = message("FtraceEventBundle").expect("it is in the table");
        let Some(MessageField { of: FieldType::Enum(clock), .. }) = bundle.named("ftrace_clock") else {
            panic!("it has a clock")
        };
        assert_eq!((label(*clock, 2), label(*clock, 99)), (Some("FTRACE_CLOCK_GLOBAL"), None));
    }
}
