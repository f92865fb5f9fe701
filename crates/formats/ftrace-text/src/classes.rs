//! The classes of a file's events: which one a line is of, and the schema that they make.

use std::borrow::Cow;
use std::collections::HashMap;

use tracemill_codec::text::marks::{MarkMap, mix, mix_bytes};
use tracemill_model::schema::{
    ArrayClass, ByteOrder, ClockClass, ClockOrigin, DisplayBase, EventClass, EventClassId, FieldClass, FieldClassId,
    FieldKind, IntegerClass, Length, Member, Schema, StreamClass, StreamClassId, StringClass, StructClass,
};

use super::division::{self, ValueForms, number_of};
use super::graph;
use super::known::{KnownEvent, known};
use super::line::{EventForm, LineEvent, LineHead};
use super::pattern::{FieldType, FieldValue};
use super::perf_script::LineExtras;

/// Names of events; lines with others are not read.
const MAX_NAMES: usize = 1 << 14;
/// TextClasses of a name by their keys; lines with other keys have their text as one field.
const MAX_DIVISIONS: usize = 64;

/// Texts that programs write to `trace_marker` stand after the name of a function of the kernel. Old kernels print 0 there.
const MARKS: [&[u8]; 2] = [b"tracing_mark_write", b"0"];

/// Known facts about the events of a name.
#[derive(Debug)]
struct EventName {
    known: Option<&'static KnownEvent>,
    /// The class of each pattern, with each set of extras.
    of_pattern: Vec<Option<usize>>,
    /// TextClasses that keys of lines make, by the marks of the keys.
    of_keys: MarkMap<usize>,
}

/// A class of events.
#[derive(Debug)]
pub(super) struct TextClass {
    name: String,
    fields: Vec<(String, FieldType)>,
    /// Forms of the values of fields, where the texts decide.
    forms: Vec<ValueForms>,
    is_hex: bool,
    /// Mark of the name, and the class among those of the name.
    key: (u64, LineClass),
    pub(super) id: EventClassId,
}

/// The classes of a file.
#[derive(Debug, Default)]
pub(super) struct TextClasses {
    names: Vec<EventName>,
    by_mark: MarkMap<usize>,
    pub(super) classes: Vec<TextClass>,
    pub(super) has_flags: bool,
    pub(super) has_tgid: bool,
    pub(super) has_instance: bool,
    /// Are there lines without a CPU?
    pub(super) lacks_cpu: bool,
}

/// Buffers for a line that is divided.
#[derive(Default)]
pub(super) struct Scratch<'a> {
    keys: Vec<&'a [u8]>,
    pub(super) values: Vec<FieldValue<'a>>,
}

/// Where a class is, or how it is made.
#[derive(Clone, Copy, Debug)]
enum LineClass {
    Pattern(usize),
    Keys(u64),
}

impl TextClasses {
    /// The class of a line, with its values in the buffer. `None`: there are too many names.
    #[inline]
    pub(super) fn take_in<'a>(
        &mut self,
        event: &LineEvent<'a>,
        extras: &LineExtras<'a>,
        scratch: &mut Scratch<'a>,
    ) -> Option<usize> {
        let event = &usual(event);
        let mark = name_mark(event);
        let name = match self.by_mark.get(&mark) {
            Some(&name) => name,
            None if self.names.len() >= MAX_NAMES => return None,
            None => {
                let known = known(event.form, event.name);
                let of_pattern = vec![None; known.map_or(0, |known| known.patterns.len() * EXTRAS)];
                self.names.push(EventName { known, of_pattern, of_keys: MarkMap::default() });
                self.by_mark.insert(mark, self.names.len() - 1);
                self.names.len() - 1
            }
        };
        let of = &mut self.names[name];
        let place = place(of, event, extras, scratch);
        let count = self.classes.len();
        let class = match place {
            LineClass::Pattern(at) => of.of_pattern[at].get_or_insert(count),
            LineClass::Keys(mark) => of.of_keys.entry(mark).or_insert(count),
        };
        let class = *class;
        if class == count {
            let fields = match place {
                LineClass::Pattern(at) => {
                    let fields = of.known.map_or(&[][..], |known| &known.patterns[at / EXTRAS].fields);
                    let fields = fields.iter().chain(extra_fields(at % EXTRAS));
                    fields.map(|(name, of)| ((*name).to_string(), *of)).collect()
                }
                LineClass::Keys(_) => fields_of(&scratch.keys, &scratch.values),
            };
            self.classes.push(TextClass {
                name: class_name(event),
                forms: vec![ValueForms::default(); fields.len()],
                fields,
                is_hex: event.form == EventForm::SysEnter,
                key: (mark, place),
                id: EventClassId(0),
            });
        }
        if let LineClass::Keys(_) = place {
            let class = &mut self.classes[class];
            for (forms, value) in class.forms.iter_mut().zip(&scratch.values) {
                if let FieldValue::Either(text) = value {
                    forms.add(text, class.is_hex);
                }
            }
        }
        Some(class)
    }

    /// The class of a line that was taken in before.
    #[inline]
    pub(super) fn find<'a>(
        &self,
        event: &LineEvent<'a>,
        extras: &LineExtras<'a>,
        scratch: &mut Scratch<'a>,
    ) -> Option<&TextClass> {
        let event = &usual(event);
        let of = &self.names[*self.by_mark.get(&name_mark(event))?];
        let class = match place(of, event, extras, scratch) {
            LineClass::Pattern(at) => of.of_pattern[at]?,
            LineClass::Keys(mark) => *of.of_keys.get(&mark)?,
        };
        self.classes.get(class)
    }

    /// Takes in the classes of lines that come after its own; gives the number of names that are too many.
    pub(super) fn join(&mut self, other: TextClasses) -> usize {
        let (mut refused, mut names) = (0, other.names);
        let mut marks: Vec<(usize, u64)> = other.by_mark.iter().map(|(mark, name)| (*name, *mark)).collect();
        marks.sort_unstable();
        for (name, mark) in marks {
            if self.by_mark.contains_key(&mark) {
                continue;
            }
            if self.names.len() >= MAX_NAMES {
                refused += 1;
                continue;
            }
            let known = names[name].known;
            let of_pattern = std::mem::take(&mut names[name].of_pattern).iter().map(|_| None).collect();
            self.by_mark.insert(mark, self.names.len());
            self.names.push(EventName { known, of_pattern, of_keys: MarkMap::default() });
        }
        for class in other.classes {
            let Some(name) = self.by_mark.get(&class.key.0) else { continue };
            let (of, count) = (&mut self.names[*name], self.classes.len());
            let at = match class.key.1 {
                LineClass::Pattern(at) => *of.of_pattern[at].get_or_insert(count),
                LineClass::Keys(mark) => *of.of_keys.entry(mark).or_insert(count),
            };
            if at == count {
                self.classes.push(class);
                continue;
            }
            for (own, forms) in self.classes[at].forms.iter_mut().zip(class.forms) {
                own.join(forms);
            }
        }
        self.has_flags |= other.has_flags;
        self.has_tgid |= other.has_tgid;
        self.has_instance |= other.has_instance;
        self.lacks_cpu |= other.lacks_cpu;
        refused
    }

    /// Decides what is a number; to be called when all lines were taken in.
    pub(super) fn finish(&mut self) {
        for class in &mut self.classes {
            for ((_, of), forms) in class.fields.iter_mut().zip(&class.forms) {
                if *forms != ValueForms::default() {
                    *of = forms.finish();
                }
            }
        }
    }

    /// Names and fields of the classes, in their order.
    #[cfg(test)]
    pub(super) fn shown(&self) -> Vec<String> {
        self.classes.iter().map(|class| format!("{} {:?}", class.name, class.fields)).collect()
    }

    /// The schema, and its one stream class.
    pub(super) fn schema(&mut self, format: &'static str, clock: ClockClass) -> (Schema, StreamClassId) {
        let mut schema = Schema::new(format);
        let clock = schema.add_clock(clock);
        let mut of_type = HashMap::new();
        let mut header = Vec::new();
        if self.has_flags {
            for name in ["common_flags", "common_preempt_count"] {
                header.push(Member::new(name, integer(&mut schema, 8, false, DisplayBase::Decimal)));
            }
        }
        header.push(Member::new("common_pid", field_class(&mut schema, &mut of_type, FieldType::I32)));
        header.push(Member::new("common_comm", field_class(&mut schema, &mut of_type, FieldType::Text)));
        if self.has_tgid {
            header.push(Member::new("tgid", field_class(&mut schema, &mut of_type, FieldType::I32)));
        }
        if self.has_instance {
            header.push(Member::new("instance", field_class(&mut schema, &mut of_type, FieldType::Text)));
        }
        let header = structure(&mut schema, header);
        let stream = StreamClass {
            has_no_id: true,
            has_cpu: !self.lacks_cpu,
            default_clock: Some(clock),
            event_header: Some(header),
            ..StreamClass::default()
        };
        let stream = schema.add_twin_stream(stream);
        for (at, class) in self.classes.iter_mut().enumerate() {
            let members = class
                .fields
                .iter()
                .map(|(name, of)| Member::new(name.as_str(), field_class(&mut schema, &mut of_type, *of)));
            let members = members.collect();
            let payload = structure(&mut schema, members);
            class.id = schema.add_twin_event(EventClass {
                name: Some(class.name.as_str().into()),
                payload: Some(payload),
                ..EventClass::new(at as u64, stream)
            });
        }
        (schema, stream)
    }

    /// Appends the header of an event. The process of `tgids` stands for one that the line does not know.
    #[inline]
    pub(super) fn put_header(&self, head: &LineHead<'_>, tgids: &HashMap<i32, i32>, out: &mut Vec<u8>) {
        if self.has_flags {
            let (flags, depth) = head.flags.unwrap_or_default();
            out.extend_from_slice(&[flags, depth]);
        }
        out.extend_from_slice(&head.pid.to_le_bytes());
        out.extend_from_slice(head.comm);
        out.push(0);
        if self.has_tgid {
            let tgid = head.tgid.flatten().or_else(|| tgids.get(&head.pid).copied()).unwrap_or(0);
            out.extend_from_slice(&tgid.to_le_bytes());
        }
        if self.has_instance {
            out.extend_from_slice(head.instance);
            out.push(0);
        }
    }
}

impl TextClass {
    /// Appends the payload of an event; false when the values are not those of the class.
    #[inline]
    pub(super) fn write(&self, values: &[FieldValue<'_>], out: &mut Vec<u8>) -> bool {
        if values.len() != self.fields.len() {
            return false;
        }
        for (value, (_, of)) in values.iter().zip(&self.fields) {
            match (of, value) {
                (FieldType::Text, FieldValue::Text(text) | FieldValue::Either(text)) => {
                    out.extend_from_slice(text);
                    out.push(0);
                }
                (FieldType::I32 | FieldType::U32, FieldValue::Number(value)) => {
                    out.extend_from_slice(&(*value as u32).to_le_bytes());
                }
                (FieldType::I64 | FieldType::U64 | FieldType::Hex, FieldValue::Number(value)) => {
                    out.extend_from_slice(&value.to_le_bytes());
                }
                (FieldType::I64 | FieldType::U64 | FieldType::Hex, FieldValue::Either(text)) => {
                    let Some(value) = number_of(text, *of) else { return false };
                    out.extend_from_slice(&value.to_le_bytes());
                }
                (FieldType::Arguments, FieldValue::Arguments(all)) => {
                    all.iter().for_each(|one| out.extend_from_slice(&one.to_le_bytes()));
                }
                (FieldType::Texts, FieldValue::Lines(lines)) => put_lines(lines, out),
                _ => return false,
            }
        }
        true
    }
}

/// Appends the texts of lines, with their number before them: frames without the arrow at their beginning.
fn put_lines(lines: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let mut count = 0u32;
    for line in lines.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty()) {
        out.extend_from_slice(line.strip_prefix(b"=>").unwrap_or(line).trim_ascii());
        out.push(0);
        count += 1;
    }
    out[start..start + 4].copy_from_slice(&count.to_le_bytes());
}

/// The event in the form that a `trace.dat` has for it.
#[inline]
fn usual<'a>(event: &LineEvent<'a>) -> LineEvent<'a> {
    if event.form == EventForm::Named && event.fields.starts_with(b"<stack trace") {
        let name = event.name.strip_suffix(b"_stack").unwrap_or(b"stack");
        return LineEvent { form: EventForm::Stack, name, fields: b"" };
    }
    *event
}

/// Does a text that goes on in the next line go on with its event?
#[inline]
pub(super) fn has_lines(event: &LineEvent<'_>) -> bool {
    match event.form {
        EventForm::Stack => true,
        EventForm::Named if event.fields.starts_with(b"<stack trace") => true,
        // Marks of atrace are one line.
        EventForm::Named if event.fields == b"E" || event.fields.get(1) == Some(&b'|') => false,
        EventForm::Named => matches!(event.name, b"print" | b"bprint" | b"bputs") || MARKS.contains(&event.name),
        _ => false,
    }
}

#[inline]
fn name_mark(event: &LineEvent<'_>) -> u64 {
    mix_bytes(event.form as u64, event.name)
}

/// Sets of extras: with a period or not, with a call chain or not.
const EXTRAS: usize = 4;
const EXTRA_FIELDS: [(&str, FieldType); 2] = [("period", FieldType::U64), ("callchain", FieldType::Texts)];

/// The fields of a set of extras.
fn extra_fields(mask: usize) -> impl Iterator<Item = &'static (&'static str, FieldType)> {
    EXTRA_FIELDS.iter().enumerate().filter(move |(at, _)| mask >> at & 1 == 1).map(|(_, field)| field)
}

/// The class that the text of an event has with its extras, and its values.
#[inline]
fn place<'a>(of: &EventName, event: &LineEvent<'a>, extras: &LineExtras<'a>, scratch: &mut Scratch<'a>) -> LineClass {
    let (class, mask) = (text_place(of, event, scratch), extras.mask());
    if mask == 0 {
        return match class {
            LineClass::Pattern(at) => LineClass::Pattern(at * EXTRAS),
            class => class,
        };
    }
    scratch.values.extend(extras.period.map(FieldValue::Number));
    if !extras.frames.is_empty() {
        scratch.values.push(FieldValue::Lines(extras.frames));
    }
    match class {
        LineClass::Pattern(at) => LineClass::Pattern(at * EXTRAS + mask),
        LineClass::Keys(mark) => {
            scratch.keys.extend(extra_fields(mask).map(|(name, _)| name.as_bytes()));
            LineClass::Keys(mix(mark, mask as u64))
        }
    }
}

/// The class that the text of an event has, and its values.
#[inline]
fn text_place<'a>(of: &EventName, event: &LineEvent<'a>, scratch: &mut Scratch<'a>) -> LineClass {
    if event.form == EventForm::Stack {
        scratch.values.clear();
        scratch.keys.clear();
        scratch.keys.push(b"caller");
        scratch.values.push(FieldValue::Lines(event.fields));
        return LineClass::Keys(0);
    }
    if event.form == EventForm::Named && MARKS.contains(&event.name) {
        scratch.keys.clear();
        scratch.values.clear();
        scratch.keys.extend([&b"ip"[..], b"buf"]);
        scratch.values.extend([FieldValue::Text(event.name), FieldValue::Text(event.fields)]);
        return LineClass::Keys(0);
    }
    if let EventForm::GraphEntry | EventForm::GraphExit = event.form {
        graph::fields(event, &mut scratch.keys, &mut scratch.values);
        let mark = scratch.keys.iter().fold(2, |mark, key| mix_bytes(mark, key));
        return LineClass::Keys(mark);
    }
    if let Some(known) = of.known {
        for (at, pattern) in known.patterns.iter().enumerate() {
            if pattern.read(event.fields, &mut scratch.values) {
                return LineClass::Pattern(known.class_of[at]);
            }
        }
    }
    division::divide(event, &mut scratch.keys, &mut scratch.values);
    let mark = scratch.keys.iter().fold(1, |mark, key| mix_bytes(mark, key));
    let mark = mix(mark, scratch.keys.len() as u64);
    if of.of_keys.len() < MAX_DIVISIONS || of.of_keys.contains_key(&mark) {
        return LineClass::Keys(mark);
    }
    scratch.keys.clear();
    scratch.values.clear();
    scratch.keys.push(division::TEXT);
    scratch.values.push(FieldValue::Text(event.fields));
    LineClass::Keys(1)
}

/// The fields of keys; a key that is there again gets a number.
fn fields_of(keys: &[&[u8]], values: &[FieldValue<'_>]) -> Vec<(String, FieldType)> {
    let mut fields: Vec<(String, FieldType)> = Vec::new();
    for (key, value) in keys.iter().zip(values) {
        let key = String::from_utf8_lossy(key);
        let is_taken = |name: &str| fields.iter().any(|(own, _)| own == name);
        let mut numbered = (2..).map(|number| format!("{key}_{number}"));
        let name = if is_taken(&key) { numbered.find(|name| !is_taken(name)) } else { Some(key.to_string()) };
        let of = match value {
            FieldValue::Lines(_) => FieldType::Texts,
            FieldValue::Number(_) => FieldType::U64,
            _ => FieldType::Text,
        };
        fields.push((name.unwrap_or_default(), of));
    }
    fields
}

/// The name of a class, as a `trace.dat` has it.
fn class_name(event: &LineEvent<'_>) -> String {
    let name = String::from_utf8_lossy(event.name);
    let own: Cow<'_, str> = match event.form {
        EventForm::Named if MARKS.contains(&event.name) => "print".into(),
        EventForm::Named | EventForm::Sample | EventForm::Record => name,
        EventForm::SysEnter => format!("sys_enter_{}", name.strip_prefix("sys_").unwrap_or(&name)).into(),
        EventForm::SysExit => format!("sys_exit_{}", name.strip_prefix("sys_").unwrap_or(&name)).into(),
        EventForm::Function => "function".into(),
        EventForm::Stack if name.starts_with("user") => "user_stack".into(),
        EventForm::Stack => "kernel_stack".into(),
        EventForm::GraphEntry => "funcgraph_entry".into(),
        EventForm::GraphExit => "funcgraph_exit".into(),
        EventForm::Other => "unknown".into(),
    };
    own.into_owned()
}

fn structure(schema: &mut Schema, members: Vec<Member>) -> FieldClassId {
    schema.add_field_class(FieldClass::new(FieldKind::Struct(StructClass { members }), 8))
}

fn integer(schema: &mut Schema, len_bits: u32, signed: bool, base: DisplayBase) -> FieldClassId {
    let class = IntegerClass { signed, base, byte_order: ByteOrder::Little, ..IntegerClass::unsigned(len_bits) };
    schema.add_field_class(FieldClass::new(FieldKind::Integer(class), 8))
}

/// The class of fields of a type, which all fields of it have.
fn field_class(schema: &mut Schema, known: &mut HashMap<FieldType, FieldClassId>, of: FieldType) -> FieldClassId {
    if let Some(&class) = known.get(&of) {
        return class;
    }
    let class = match of {
        FieldType::I32 => integer(schema, 32, true, DisplayBase::Decimal),
        FieldType::U32 => integer(schema, 32, false, DisplayBase::Decimal),
        FieldType::I64 => integer(schema, 64, true, DisplayBase::Decimal),
        FieldType::U64 => integer(schema, 64, false, DisplayBase::Decimal),
        FieldType::Hex => integer(schema, 64, false, DisplayBase::Hexadecimal),
        FieldType::Text => schema.add_field_class(FieldClass::new(FieldKind::String(StringClass::utf8()), 8)),
        FieldType::Arguments => {
            let element = field_class(schema, known, FieldType::U64);
            let array = ArrayClass { element, length: Length::Static(6) };
            schema.add_field_class(FieldClass::new(FieldKind::Array(array), 8))
        }
        FieldType::Texts => {
            let element = field_class(schema, known, FieldType::Text);
            let length = Length::Inline(field_class(schema, known, FieldType::U32));
            schema.add_field_class(FieldClass::new(FieldKind::Array(ArrayClass { element, length }), 8))
        }
    };
    known.insert(of, class);
    class
}

/// The clock of the lines of a file.
pub(super) fn clock(is_ns: bool, first: u64) -> ClockClass {
    let class = ClockClass::nanoseconds(if is_ns { "ns" } else { "cycles" });
    if !is_ns {
        return ClockClass { frequency: 0, ..class };
    }
    ClockClass { has_made_cycles: true, origin: ClockOrigin::of_first_ns(first.into()), ..class }
}
