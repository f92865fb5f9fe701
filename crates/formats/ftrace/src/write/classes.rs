//! Event classes of other formats as format files of the kernel, and their events as records.

use std::collections::HashSet;
use std::fmt::Write;

use tracemill_codec::chunk::EventRef;
use tracemill_codec::value::Value;
use tracemill_model::error::Result;
use tracemill_model::schema::{
    DisplayBase, EventClassId, FieldClassId, FieldKind, FieldPath, PathStep, Schema, Scope, StringLength,
};

use crate::event_format::{EventFormat, Machine};
use crate::record_writer::{begin, put_bytes, write_field};
use tracemill_format::lost::{Losses, Lost};

/// Bytes of the name of a task in a record.
const COMM_BYTES: usize = 16;
/// Labels of an enumeration that a format may hold.
const MAX_LABELS: usize = 256;
/// Fields of variable length that a format may have.
const MAX_DYNAMIC: usize = 32;
/// The fields that every record has.
pub(super) const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n";

/// An event class in the words of the kernel.
pub(super) struct MadeClass {
    pub(super) format: EventFormat,
    pub(super) text: String,
    pub(super) system: String,
    sources: Vec<Leaf>,
    /// Losses of the class, counted once.
    pub(super) losses: Losses,
}

/// A field of a class, and its form in the record.
struct Leaf {
    scope: Scope,
    /// Members from the root of the scope.
    path: Vec<usize>,
    name: String,
    form: LeafForm,
}

enum LeafForm {
    Integer {
        bytes: u8,
        signed: bool,
        hex: bool,
        labels: Vec<(i128, String)>,
    },
    Comm,
    Text,
    Array {
        bytes: u8,
        signed: bool,
    },
    /// Shown as text.
    Made,
}

/// The class of events of a name, with the number `id`. Fields at `hidden` paths are said elsewhere in the record.
pub(super) fn made(
    schema: &Schema,
    class: EventClassId,
    name: &str,
    id: u16,
    machine: Machine,
    hidden: &[FieldPath],
) -> Result<MadeClass> {
    let given = name;
    let (system, name) = split(given);
    let mut leaves = Leaves { schema, hidden, is_kernel: system != "events", names: HashSet::new(), found: Vec::new() };
    let mut losses = Losses::default();
    losses.add(Lost::OtherNames, (name != given).into());
    let roots = schema.event_roots(schema.event(class));
    for scope in [Scope::Payload, Scope::SpecificContext, Scope::CommonContext] {
        if let Some(root) = roots[scope as usize] {
            let count = leaves.found.len();
            leaves.add(root, scope, &mut Vec::new(), "", &mut losses);
            losses.add(Lost::EventContexts, (scope != Scope::Payload && leaves.found.len() > count).into());
        }
    }
    let mut found = leaves.found;
    let is_dynamic = |leaf: &Leaf| !matches!(leaf.form, LeafForm::Integer { .. } | LeafForm::Comm);
    let mut count = 0;
    found.retain(|leaf| {
        count += usize::from(is_dynamic(leaf));
        !is_dynamic(leaf) || count <= MAX_DYNAMIC
    });
    losses.add(Lost::UndefinedFields, count.saturating_sub(MAX_DYNAMIC) as u64);
    let text = format_text(&name, id, &found);
    let format = EventFormat::parse(&text, machine)?;
    Ok(MadeClass { format, text, system, sources: found, losses })
}

/// System and event of a name, as identifiers.
fn split(name: &str) -> (String, String) {
    let known = [
        ("sched_", "sched"),
        ("irq_", "irq"),
        ("softirq_", "irq"),
        ("sys", "syscalls"),
        ("block_", "block"),
        ("timer_", "timer"),
        ("hrtimer_", "timer"),
        ("power_", "power"),
        ("kmem_", "kmem"),
    ];
    match name.split_once(':') {
        Some((system, name)) => (identifier(system), identifier(name)),
        None => {
            let system = known.iter().find(|(prefix, _)| name.starts_with(prefix)).map_or("events", |(_, of)| of);
            (system.into(), identifier(name))
        }
    }
}

fn identifier(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        if c.is_ascii_alphanumeric() || c == '_' {
            out.push(c);
        } else {
            // Writing to a string does not fail.
            let _ = write!(out, "_x{:X}_", c as u32);
        }
    }
    if out.is_empty() || out.starts_with(|c: char| c.is_ascii_digit()) {
        out.insert(0, '_');
    }
    out
}

struct Leaves<'s> {
    schema: &'s Schema,
    hidden: &'s [FieldPath],
    /// Is it an event of a kernel, whose fields have the kernel's names?
    is_kernel: bool,
    names: HashSet<String>,
    found: Vec<Leaf>,
}

impl Leaves<'_> {
    fn add(&mut self, id: FieldClassId, scope: Scope, path: &mut Vec<usize>, name: &str, losses: &mut Losses) {
        let steps = path.iter().map(|at| PathStep::Member(*at as u32));
        if self.hidden.iter().any(|hidden| hidden.scope == scope && steps.clone().eq(hidden.steps.iter().copied())) {
            return;
        }
        let class = self.schema.field_class(id);
        let form = match &class.kind {
            FieldKind::Struct(of) => {
                for (at, member) in of.members.iter().enumerate() {
                    path.push(at);
                    let inner = match name.is_empty() {
                        true => member.name.to_string(),
                        false => format!("{name}_{}", member.name),
                    };
                    self.add(member.class, scope, path, &inner, losses);
                    path.pop();
                }
                return;
            }
            FieldKind::Integer(of) if of.len_bits <= 64 => {
                let labels = of.mappings.as_deref().unwrap_or_default();
                let single = labels.iter().filter(|label| label.ranges.iter().all(|(low, high)| low == high));
                let labels: Vec<(i128, String)> = single
                    .flat_map(|label| label.ranges.iter().map(|(value, _)| (*value, label.label.to_string())))
                    .filter(|(value, label)| !label.contains(['"', '\\', '\n']) && i64::try_from(*value).is_ok())
                    .take(MAX_LABELS)
                    .collect();
                let stated: usize = of.mappings.iter().flat_map(|all| all.iter()).map(|label| label.ranges.len()).sum();
                losses.add(Lost::RangeLabels, (stated > labels.len()).into());
                let bits = if of.len_bits == 0 { 64 } else { of.len_bits };
                let hex = of.base == DisplayBase::Hexadecimal;
                LeafForm::Integer { bytes: whole(bits), signed: of.signed, hex, labels }
            }
            FieldKind::Boolean(of) if of.len_bits <= 64 => {
                losses.add(Lost::Booleans, 1);
                LeafForm::Integer { bytes: 1, signed: false, hex: false, labels: Vec::new() }
            }
            FieldKind::BitArray(of) | FieldKind::BitMap(of) if of.len_bits <= 64 => {
                losses.add(Lost::BitArrays, 1);
                LeafForm::Integer { bytes: whole(of.len_bits), signed: false, hex: true, labels: Vec::new() }
            }
            FieldKind::String(of) => {
                let is_fixed = matches!(of.length, StringLength::Bytes(_)) || self.is_kernel;
                if is_fixed && name.ends_with("comm") { LeafForm::Comm } else { LeafForm::Text }
            }
            FieldKind::Rendered(_) => LeafForm::Text,
            FieldKind::Blob(_) => {
                losses.add(Lost::Blobs, 1);
                LeafForm::Array { bytes: 1, signed: false }
            }
            FieldKind::Array(of) => match &self.schema.field_class(of.element).kind {
                FieldKind::Integer(element) if element.len_bits <= 64 && element.mappings.is_none() => {
                    let bits = if element.len_bits == 0 { 64 } else { element.len_bits };
                    LeafForm::Array { bytes: whole(bits), signed: element.signed }
                }
                _ => {
                    losses.add(Lost::FieldsAsText, 1);
                    LeafForm::Made
                }
            },
            _ => {
                losses.add(Lost::FieldsAsText, 1);
                LeafForm::Made
            }
        };
        let mut own = identifier(name);
        if self.is_kernel && (own == "tid" || own.ends_with("_tid")) {
            // The kernel calls a thread so.
            own.replace_range(own.len() - 3.., "pid");
            losses.add(Lost::KernelNames, 1);
        }
        losses.add(Lost::OtherNames, (!self.is_kernel && own != name).into());
        while own.starts_with("common_") || !self.names.insert(own.clone()) {
            own.insert(0, '_');
        }
        self.found.push(Leaf { scope, path: path.clone(), name: own, form });
    }
}

fn whole(bits: u32) -> u8 {
    (bits.div_ceil(8).max(1) as u8).next_power_of_two()
}

/// The name in C of an integer.
fn type_name(bytes: u8, signed: bool) -> &'static str {
    match (bytes, signed) {
        (1, false) => "unsigned char",
        (1, true) => "signed char",
        (2, false) => "unsigned short",
        (2, true) => "short",
        (4, false) => "unsigned int",
        (4, true) => "int",
        (_, false) => "unsigned long",
        (_, true) => "long",
    }
}

/// The format file of an event.
fn format_text(name: &str, id: u16, leaves: &[Leaf]) -> String {
    let mut out = format!("name: {name}\nID: {id}\nformat:\n{COMMON}\n");
    let (mut at, mut shown, mut arguments) = (8usize, Vec::new(), String::new());
    for Leaf { name, form, .. } in leaves {
        let (declaration, size, signed) = match form {
            LeafForm::Integer { bytes, signed, .. } => {
                (format!("{} {name}", type_name(*bytes, *signed)), usize::from(*bytes), *signed)
            }
            LeafForm::Comm => (format!("char {name}[{COMM_BYTES}]"), COMM_BYTES, false),
            LeafForm::Text | LeafForm::Made => (format!("__data_loc char[] {name}"), 4, false),
            LeafForm::Array { bytes, signed } => {
                (format!("__data_loc {}[] {name}", type_name(*bytes, *signed)), 4, *signed)
            }
        };
        at = at.next_multiple_of(if matches!(form, LeafForm::Comm) { 1 } else { size });
        // Writing to a string does not fail.
        let _ = writeln!(out, "\tfield:{declaration};\toffset:{at};\tsize:{size};\tsigned:{};", u8::from(signed));
        at += size;
        let (conversion, argument) = match form {
            LeafForm::Integer { labels, .. } if !labels.is_empty() => {
                let list: String =
                    labels.iter().map(|(value, label)| format!(", {{ {value}, \"{label}\" }}")).collect();
                ("%s".to_string(), format!("__print_symbolic(REC->{name}{list})"))
            }
            LeafForm::Integer { bytes, signed, hex, .. } => {
                let long = if *bytes == 8 { "l" } else { "" };
                let conversion = match (hex, signed) {
                    (true, _) => format!("0x%{long}x"),
                    (_, true) => format!("%{long}d"),
                    (_, false) => format!("%{long}u"),
                };
                (conversion, format!("REC->{name}"))
            }
            LeafForm::Comm => ("%s".into(), format!("REC->{name}")),
            LeafForm::Text | LeafForm::Made => ("%s".into(), format!("__get_str({name})")),
            LeafForm::Array { bytes, .. } => {
                let count = format!("__get_dynamic_array_len({name}) / {bytes}");
                ("%s".into(), format!("__print_array(__get_dynamic_array({name}), {count}, {bytes})"))
            }
        };
        shown.push(format!("{name}={conversion}"));
        let _ = write!(arguments, ", {argument}");
    }
    let _ = writeln!(out, "\nprint fmt: \"{}\"{arguments}", shown.join(" "));
    out
}

impl MadeClass {
    /// The record of an event of the class, and what it cannot hold.
    pub(super) fn record(&self, event: EventRef<'_>, pid: i64, machine: Machine, losses: &mut Losses) -> Vec<u8> {
        let order = machine.byte_order;
        let mut out = begin(order, &self.format);
        put_bytes(&mut out, 4, &crate::record_writer::number_bytes(order, pid as u64, 4));
        let mut known: Option<(Scope, Option<Value>)> = None;
        for (leaf, field) in self.sources.iter().zip(&self.format.fields) {
            if known.as_ref().is_none_or(|(scope, _)| *scope != leaf.scope) {
                known = Some((leaf.scope, event.values(leaf.scope).ok().flatten()));
            }
            let root = known.as_ref().and_then(|(_, value)| value.as_ref());
            let value = leaf.path.iter().try_fold(root, |value, at| match value? {
                Value::Struct(members) => Some(members.get(*at).map(|(_, value)| value)),
                _ => None,
            });
            let Some(Some(value)) = value else {
                losses.add(Lost::AbsentFields, 1);
                continue;
            };
            let mut text = |value: &Value| match value.bytes() {
                Some(bytes) => {
                    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
                    losses.add(Lost::TruncatedTexts, (end < bytes.len()).into());
                    bytes[..end].to_vec()
                }
                None => Vec::new(),
            };
            let own = match leaf.form {
                LeafForm::Comm => {
                    let mut bytes = text(value);
                    bytes.truncate(COMM_BYTES - 1);
                    Value::Text(bytes)
                }
                LeafForm::Text => Value::Text(text(value)),
                LeafForm::Made => {
                    let mut shown = String::new();
                    show(value, &mut shown);
                    Value::Text(shown.into_bytes())
                }
                _ => value.clone(),
            };
            write_field(order, &mut out, field, &own);
        }
        out
    }
}

/// A value as text.
fn show(value: &Value, out: &mut String) {
    // Writing to a string does not fail.
    let _ = match value {
        Value::Null => write!(out, "null"),
        Value::Boolean(value) => write!(out, "{value}"),
        Value::Real(value) => write!(out, "{value}"),
        Value::Text(bytes) => write!(out, "{}", String::from_utf8_lossy(bytes)),
        Value::Blob(bytes) => bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}")),
        Value::List(values) => {
            out.push('[');
            for (at, value) in values.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                show(value, out);
            }
            write!(out, "]")
        }
        Value::Struct(members) => {
            out.push('{');
            for (at, (name, value)) in members.iter().enumerate() {
                let _ = write!(out, "{}{name}: ", if at > 0 { ", " } else { "" });
                show(value, out);
            }
            write!(out, "}}")
        }
        Value::Option(_, _, value) => {
            show(value, out);
            Ok(())
        }
        other => write!(out, "{}", other.integer().unwrap_or_default()),
    };
}
