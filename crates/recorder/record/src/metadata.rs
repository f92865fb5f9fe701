//! The metadata of a trace, in both dialects.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read};

use crate::contexts::Contexts;
use crate::field::{FieldClass, IntegerClass};
use crate::rules::Level;

/// The dialect of CTF that is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Format {
    /// CTF 2, JSON.
    #[default]
    Ctf2,
    /// CTF 1.8, which more programs read.
    Ctf18,
}

/// The trace and its process, as the metadata describe them.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    pub(crate) uuid: [u8; 16],
    pub(crate) hostname: String,
    pub(crate) procname: String,
    pub(crate) pid: u32,
}

impl Environment {
    /// Of a new trace of this process, whose id that is.
    pub(crate) fn read_process(pid: u32) -> io::Result<Environment> {
        Ok(Environment { uuid: uuid()?, hostname: hostname(), procname: procname(), pid })
    }
}

fn uuid() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    // Version 4, the variant of RFC 9562.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(bytes)
}

fn hostname() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").map(|name| name.trim().to_string()).unwrap_or_default()
}

fn procname() -> String {
    fs::read_to_string("/proc/self/comm").map(|name| name.trim_end_matches('\n').to_string()).unwrap_or_default()
}

/// Frequency and origin of the clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RecordedClock {
    /// In Hz.
    pub(crate) frequency: u64,
    /// Time at cycle 0, in ns since the epoch.
    pub(crate) origin_ns: i128,
}

/// Half of a call that a class stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CallHalf {
    /// It is no call.
    None,
    /// It begins.
    Entry,
    /// It ends.
    Exit,
}

/// A class of events.
#[derive(Clone, Debug)]
pub(crate) struct RecordedClass {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) call: CallHalf,
    pub(crate) level: Option<Level>,
    /// Facts that are recorded with each event, before its fields.
    pub(crate) contexts: Contexts,
    pub(crate) fields: Vec<(String, FieldClass)>,
}

impl RecordedClock {
    /// Whole seconds and cycles of the time at cycle 0.
    fn offset(self) -> (i64, u64) {
        let seconds = self.origin_ns.div_euclid(1_000_000_000);
        let rest = self.origin_ns.rem_euclid(1_000_000_000) * i128::from(self.frequency) / 1_000_000_000;
        (seconds as i64, rest as u64)
    }

    fn ctf2(self) -> String {
        let (seconds, cycles) = self.offset();
        format!(
            "\x1e{{\"type\": \"clock-class\", \"id\": \"cycles\", \"name\": \"cycles\", \"frequency\": {}, \"origin\": \
             \"unix-epoch\", \"offset-from-origin\": {{\"seconds\": {seconds}, \"cycles\": {cycles}}}}}",
            self.frequency
        )
    }

    fn ctf18(self) -> String {
        let (seconds, cycles) = self.offset();
        format!(
            "clock {{ name = cycles; freq = {}; offset_s = {seconds}; offset = {cycles}; absolute = true; }};",
            self.frequency
        )
    }
}

/// Everything before the event classes.
pub(crate) fn beginning(format: Format, environment: &Environment, clock: RecordedClock) -> String {
    match format {
        Format::Ctf2 => ctf2(environment, clock),
        Format::Ctf18 => ctf18(environment, clock),
    }
}

/// An event class.
pub(crate) fn class(format: Format, class: &RecordedClass) -> String {
    match format {
        Format::Ctf2 => ctf2_class(class),
        Format::Ctf18 => ctf18_class(class),
    }
}

/// Metadata that we wrote, with another clock.
pub(crate) fn with_clock(text: &str, clock: RecordedClock) -> String {
    let is_clock =
        |line: &str| line.starts_with("clock { name = cycles;") || line.starts_with("\x1e{\"type\": \"clock-class\"");
    let mut changed = String::with_capacity(text.len() + 64);
    for line in text.split_inclusive('\n') {
        match (is_clock(line), line.starts_with('\x1e')) {
            (true, true) => changed.push_str(&clock.ctf2()),
            (true, false) => changed.push_str(&clock.ctf18()),
            (false, _) => changed.push_str(line.strip_suffix('\n').unwrap_or(line)),
        }
        changed.push_str(if line.ends_with('\n') { "\n" } else { "" });
    }
    changed
}

/// A text as a JSON string, which TSDL reads the same.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push('?'),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

fn major_minor() -> (&'static str, &'static str) {
    (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"))
}

fn ctf2_integer(kind: &str, bits: u32, role: &str) -> String {
    let role = if role.is_empty() { String::new() } else { format!(", \"roles\": [\"{role}\"]") };
    format!("{{\"type\": \"{kind}\", \"length\": {bits}, \"byte-order\": \"little-endian\", \"alignment\": 8{role}}}")
}

fn ctf2_unsigned(bits: u32, role: &str) -> String {
    ctf2_integer("fixed-length-unsigned-integer", bits, role)
}

fn ctf2_structure<'a>(members: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let members = members.into_iter();
    let members: Vec<String> =
        members.map(|(name, class)| format!("{{\"name\": {}, \"field-class\": {class}}}", quoted(name))).collect();
    format!("{{\"type\": \"structure\", \"member-classes\": [{}]}}", members.join(", "))
}

fn ctf2(environment: &Environment, clock: RecordedClock) -> String {
    let uuid: Vec<String> = environment.uuid.iter().map(u8::to_string).collect();
    let (major, minor) = major_minor();
    let header = ctf2_structure([
        ("magic", ctf2_unsigned(32, "packet-magic-number")),
        ("uuid", "{\"type\": \"static-length-blob\", \"length\": 16, \"roles\": [\"metadata-stream-uuid\"]}".into()),
        ("stream_id", ctf2_unsigned(32, "data-stream-class-id")),
        ("stream_instance_id", ctf2_unsigned(64, "data-stream-id")),
    ]);
    let context = ctf2_structure([
        ("timestamp_begin", ctf2_unsigned(64, "default-clock-timestamp")),
        ("timestamp_end", ctf2_unsigned(64, "packet-end-default-clock-timestamp")),
        ("content_size", ctf2_unsigned(64, "packet-content-length")),
        ("packet_size", ctf2_unsigned(64, "packet-total-length")),
        ("packet_seq_num", ctf2_unsigned(64, "packet-sequence-number")),
        ("events_discarded", ctf2_unsigned(64, "discarded-event-record-counter-snapshot")),
        ("monotonic", ctf2_unsigned(64, "")),
        ("tid", ctf2_unsigned(32, "")),
        ("pid", ctf2_unsigned(32, "")),
    ]);
    let event_header = ctf2_structure([
        ("timestamp", ctf2_unsigned(48, "default-clock-timestamp")),
        ("id", ctf2_unsigned(16, "event-record-class-id")),
    ]);
    format!(
        "\x1e{{\"type\": \"preamble\", \"version\": 2, \"uuid\": [{}]}}\n\x1e{{\"type\": \"trace-class\", \"environment\": \
         {{\"hostname\": {}, \"procname\": {}, \"vpid\": {}, \"tracer_name\": \"tracemill-record\", \"tracer_major\": \
         {major}, \"tracer_minor\": {minor}}}, \"packet-header-field-class\": {header}}}\n{}\n\x1e{{\"type\": \
         \"data-stream-class\", \"default-clock-class-id\": \"cycles\", \"packet-context-field-class\": {context}, \
         \"event-record-header-field-class\": {event_header}}}\n",
        uuid.join(", "),
        quoted(&environment.hostname),
        quoted(&environment.procname),
        environment.pid,
        clock.ctf2()
    )
}

/// An integer as C programs describe it.
fn ctf2_described(integer: IntegerClass) -> String {
    let sign = if integer.is_signed { "signed" } else { "unsigned" };
    let order = if integer.is_big_endian { "big" } else { "little" };
    let base = if integer.is_hexadecimal { ", \"preferred-display-base\": 16" } else { "" };
    let mut labels: Vec<(&str, Vec<String>)> = Vec::new();
    for (name, first, last) in integer.ranges() {
        let range = format!("[{first}, {last}]");
        match labels.iter_mut().find(|(known, _)| *known == name) {
            Some((_, ranges)) => ranges.push(range),
            None => labels.push((name, vec![range])),
        }
    }
    let labels: Vec<String> =
        labels.iter().map(|(name, ranges)| format!("{}: [{}]", quoted(name), ranges.join(", "))).collect();
    let labels = if labels.is_empty() { String::new() } else { format!(", \"mappings\": {{{}}}", labels.join(", ")) };
    format!(
        "{{\"type\": \"fixed-length-{sign}-integer\", \"length\": {}, \"byte-order\": \"{order}-endian\", \"alignment\": \
         8{base}{labels}}}",
        integer.bits
    )
}

fn ctf2_field(class: FieldClass) -> String {
    match class {
        FieldClass::Unsigned(bits) => ctf2_unsigned(bits, ""),
        FieldClass::Signed(bits) => ctf2_integer("fixed-length-signed-integer", bits, ""),
        FieldClass::Bool => ctf2_integer("fixed-length-boolean", 8, ""),
        FieldClass::Float(bits) => ctf2_integer("fixed-length-floating-point-number", bits, ""),
        FieldClass::Integer(integer) => ctf2_described(integer),
        FieldClass::Array(count, integer) => format!(
            "{{\"type\": \"static-length-array\", \"length\": {count}, \"element-field-class\": {}}}",
            ctf2_described(integer)
        ),
        FieldClass::String => "{\"type\": \"null-terminated-string\"}".into(),
        FieldClass::FixedText(count) => format!("{{\"type\": \"static-length-string\", \"length\": {count}}}"),
        FieldClass::Text | FieldClass::Slice(_) | FieldClass::Sequence(_) | FieldClass::SequenceText => {
            unreachable!("their length stands before them")
        }
    }
}

/// The names of a structure's members: of each field, and of the length before it, which no other has. `said` is how the
/// dialect says a name.
fn members(fields: &[(String, FieldClass)], said: impl Fn(&str) -> String) -> Vec<(String, String)> {
    let mut taken = HashSet::new();
    let mut free = |mut name: String| {
        while !taken.insert(name.clone()) {
            name.push('_');
        }
        name
    };
    let names: Vec<String> = fields.iter().map(|(name, _)| free(said(name))).collect();
    let with_length = names.into_iter().zip(fields).map(|(name, (_, class))| {
        let length = class.length_name(&name).map(&mut free).unwrap_or_default();
        (name, length)
    });
    with_length.collect()
}

/// The members of a structure, with the lengths that stand before some of them. `scope` is the name of the structure.
fn ctf2_members(fields: &[(String, FieldClass)], scope: &str) -> String {
    let array = |length: String, name: String, location: &str, element: &str| {
        let array = format!(
            "{{\"type\": \"dynamic-length-array\", \"length-field-location\": {location}, \"element-field-class\": \
             {element}}}"
        );
        [(length, ctf2_unsigned(32, "")), (name, array)]
    };
    let mut all = Vec::new();
    for ((name, length), (_, field)) in members(fields, str::to_string).into_iter().zip(fields) {
        let location = format!("{{\"origin\": \"{scope}\", \"path\": [{}]}}", quoted(&length));
        match field {
            FieldClass::Text | FieldClass::SequenceText => {
                let text = format!("{{\"type\": \"dynamic-length-string\", \"length-field-location\": {location}}}");
                all.extend([(length, ctf2_unsigned(32, "")), (name, text)]);
            }
            FieldClass::Slice(element) => all.extend(array(length, name, &location, &ctf2_field(**element))),
            FieldClass::Sequence(element) => {
                all.extend(array(length, name, &location, &ctf2_described(*element)));
            }
            field => all.push((name, ctf2_field(*field))),
        }
    }
    ctf2_structure(all.iter().map(|(name, class)| (name.as_str(), class.clone())))
}

fn ctf2_class(class: &RecordedClass) -> String {
    let call = match class.call {
        CallHalf::None => None,
        CallHalf::Entry => Some("\"tracemill\": {\"call\": \"entry\"}".to_string()),
        CallHalf::Exit => Some("\"tracemill\": {\"call\": \"exit\"}".to_string()),
    };
    let level =
        class.level.map(|level| format!("\"babeltrace.org,2020\": {{\"log-level\": \"{}\"}}", level.name_in_traces()));
    let attributes = match (call, level) {
        (None, None) => String::new(),
        (call, level) => {
            let attributes: Vec<String> = call.into_iter().chain(level).collect();
            format!(", \"attributes\": {{{}}}", attributes.join(", "))
        }
    };
    let payload = ctf2_members(&class.fields, "event-record-payload");
    let context = match class.contexts.fields() {
        fields if fields.is_empty() => String::new(),
        fields => {
            let context = ctf2_members(&fields, "event-record-specific-context");
            format!(", \"specific-context-field-class\": {context}")
        }
    };
    format!(
        "\x1e{{\"type\": \"event-record-class\", \"id\": {}, \"name\": {}{attributes}{context}, \
         \"payload-field-class\": {payload}}}\n",
        class.id,
        quoted(&class.name)
    )
}

fn ctf18(environment: &Environment, clock: RecordedClock) -> String {
    let mut text = String::from("/* CTF 1.8 */\n");
    for bits in [8, 16, 32, 64] {
        for (sign, is_signed) in [("u", false), ("i", true)] {
            let _ = writeln!(
                text,
                "typealias integer {{ size = {bits}; align = 8; signed = {is_signed}; }} := {sign}{bits};"
            );
        }
    }
    text.push_str(
        "typealias integer { size = 8; align = 8; signed = false; encoding = UTF8; } := character;\n\
         typealias floating_point { exp_dig = 8; mant_dig = 24; align = 8; } := f32;\n\
         typealias floating_point { exp_dig = 11; mant_dig = 53; align = 8; } := f64;\n",
    );
    let hex: String = environment.uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let uuid = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-");
    let (major, minor) = major_minor();
    let _ = write!(
        text,
        "trace {{ major = 1; minor = 8; uuid = \"{uuid}\"; byte_order = le;\n\
         \tpacket.header := struct {{ u32 magic; u8 uuid[16]; u32 stream_id; u64 stream_instance_id; }};\n}};\n\
         env {{ hostname = {}; procname = {}; vpid = {}; tracer_name = \"tracemill-record\"; tracer_major = {major}; \
         tracer_minor = {minor}; }};\n{}\n\
         typealias integer {{ size = 64; align = 8; signed = false; map = clock.cycles.value; }} := time64;\n\
         typealias integer {{ size = 48; align = 8; signed = false; map = clock.cycles.value; }} := time48;\n\
         stream {{ id = 0;\n\tpacket.context := struct {{ time64 timestamp_begin; time64 timestamp_end; u64 content_size; \
         u64 packet_size; u64 packet_seq_num; u64 events_discarded; u64 monotonic; u32 tid; u32 pid; }};\n\
         \tevent.header := struct {{ time48 timestamp; u16 id; }};\n}};\n",
        quoted(&environment.hostname),
        quoted(&environment.procname),
        environment.pid,
        clock.ctf18()
    );
    text
}

/// A name as TSDL can say it: readers take one underscore off, so that no name is a keyword. Fields of `tracing` may have
/// dots in their names, and more.
fn ctf18_name(name: &str) -> String {
    let letters = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    std::iter::once('_').chain(letters).collect()
}

/// An integer as C programs describe it.
fn ctf18_described(integer: IntegerClass) -> String {
    let order = if integer.is_big_endian { " byte_order = be;" } else { "" };
    let base = if integer.is_hexadecimal { " base = 16;" } else { "" };
    let IntegerClass { bits, is_signed, .. } = integer;
    let type_ = format!("integer {{ size = {bits}; align = 8; signed = {is_signed};{order}{base} }}");
    let label = |(name, first, last): (&str, i128, i128)| match first == last {
        true => format!("{} = {first}", quoted(name)),
        false => format!("{} = {first} ... {last}", quoted(name)),
    };
    let labels: Vec<String> = integer.ranges().map(label).collect();
    if labels.is_empty() { type_ } else { format!("enum : {type_} {{ {} }}", labels.join(", ")) }
}

fn ctf18_type(class: FieldClass) -> String {
    match class {
        FieldClass::Unsigned(bits) => format!("u{bits}"),
        FieldClass::Signed(bits) => format!("i{bits}"),
        FieldClass::Bool => "u8".into(),
        FieldClass::Float(bits) => format!("f{bits}"),
        FieldClass::Integer(integer) | FieldClass::Array(_, integer) | FieldClass::Sequence(integer) => {
            ctf18_described(integer)
        }
        FieldClass::String => "string".into(),
        FieldClass::Text | FieldClass::SequenceText | FieldClass::FixedText(_) => "character".into(),
        FieldClass::Slice(element) => ctf18_type(*element),
    }
}

fn ctf18_members(fields: &[(String, FieldClass)]) -> String {
    let mut all = String::new();
    for ((name, length), (_, field)) in members(fields, ctf18_name).into_iter().zip(fields) {
        let type_ = ctf18_type(*field);
        let _ = match field {
            FieldClass::Array(count, _) | FieldClass::FixedText(count) => write!(all, " {type_} {name}[{count}];"),
            _ if length.is_empty() => write!(all, " {type_} {name};"),
            _ => write!(all, " u32 {length}; {type_} {name}[{length}];"),
        };
    }
    all
}

fn ctf18_class(class: &RecordedClass) -> String {
    let fields = ctf18_members(&class.fields);
    let level = class.level.map(|level| format!(" loglevel = {};", level.number())).unwrap_or_default();
    let context = match class.contexts.fields() {
        fields if fields.is_empty() => String::new(),
        fields => format!(" context := struct {{{} }};", ctf18_members(&fields)),
    };
    format!(
        "event {{ id = {}; name = {}; stream_id = 0;{level}{context} fields := struct {{{fields} }}; }};\n",
        class.id,
        quoted(&class.name)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_replaced_in_both_dialects() {
        let environment = Environment { uuid: [1; 16], hostname: "mill".into(), procname: "a \"b\"".into(), pid: 7 };
        let (first, last) = (
            RecordedClock { frequency: 1_000, origin_ns: 5 },
            RecordedClock { frequency: 2_000, origin_ns: -1_500_000_000 },
        );
        for format in [Format::Ctf2, Format::Ctf18] {
            let text = beginning(format, &environment, first);
            assert_eq!(with_clock(&text, first), text);
            assert_eq!(with_clock(&text, last), beginning(format, &environment, last));
        }
        assert_eq!(last.offset(), (-2, 1_000));
    }
}
