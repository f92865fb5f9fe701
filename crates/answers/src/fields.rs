//! The fields of an event as a page shows them one by one.

use std::sync::Arc;

use tracemill_codec::bits::Wide;
use tracemill_codec::chunk::EventRef;
use tracemill_codec::plan::{DecoderState, Fault, NoVisitor, NodeId, Plan, Visitor};
use tracemill_codec::text::fields_json::{has_flag, has_wide_flag};
use tracemill_codec::text::out::Out;
use tracemill_codec::text::strings;
use tracemill_model::schema::{FieldKind, Mapping, Schema, Scope};

/// A single value of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldAnswer {
    /// Its path, as filters take it.
    pub path: String,
    /// The value for people.
    pub text: String,
    /// The kind of value: `integer`, `real`, `boolean`, `string`, `enumeration` or `null`.
    pub kind: &'static str,
}

/// Scopes, and what their paths begin with.
const SCOPES: [(Scope, &str); 5] = [
    (Scope::EventHeader, "header"),
    (Scope::PacketContext, "packet_context"),
    (Scope::CommonContext, "stream_context"),
    (Scope::SpecificContext, "event_context"),
    (Scope::Payload, "payload"),
];

/// All single values of an event, scope by scope; none when a field cannot be decoded.
pub(crate) fn fields(event: EventRef<'_>) -> Vec<FieldAnswer> {
    let mut fields = Vec::new();
    match add_all(event, &mut fields) {
        Ok(()) => fields,
        Err(_) => Vec::new(),
    }
}

fn add_all(event: EventRef<'_>, out: &mut Vec<FieldAnswer>) -> Result<(), Fault> {
    let packet = &event.chunk.packet;
    let (plans, stream) = (&packet.plans, packet.packet.class);
    let schema = plans.schema();
    let mut state = DecoderState::default();
    let mut body = event.fields(&mut state);
    for (scope, key) in SCOPES {
        let is_declared = schema.scope_root(scope, event.class()).is_some();
        let plan = match scope {
            Scope::EventHeader => plans.header_rows(stream),
            Scope::PacketContext => plans.packet_context_rows(stream),
            _ => plans.event_rows(event.class()),
        };
        let mut list = FieldList { schema, plan, path: key.to_string(), around: Vec::new(), out: &mut *out };
        match scope {
            Scope::EventHeader if is_declared => event.visit_header(&mut DecoderState::default(), &mut list)?,
            Scope::PacketContext if is_declared => packet.visit_context(&mut list)?,
            Scope::EventHeader | Scope::PacketContext => {}
            _ if is_declared => body.visit(scope, &mut state, &mut list)?,
            _ => body.visit(scope, &mut state, &mut NoVisitor)?,
        }
    }
    Ok(())
}

/// Something that holds others.
enum Around {
    Struct,
    /// With the index of its next member.
    Tuple(u64),
    /// With the index of its element.
    Array(u64),
    /// With the name of the option.
    Variant(Arc<str>),
    Optional,
}

/// Adds single values to a list.
struct FieldList<'a> {
    schema: &'a Schema,
    plan: &'a Plan,
    /// The path of the innermost that is around the next value.
    path: String,
    /// All that are around the next value, the innermost last, with the length of the path before each.
    around: Vec<(Around, usize)>,
    out: &'a mut Vec<FieldAnswer>,
}

impl FieldList<'_> {
    /// Makes the path that of a node; gives the length that it had.
    fn enter(&mut self, node: NodeId) -> usize {
        let before = self.path.len();
        match self.around.last_mut() {
            Some((Around::Struct, _)) => {
                self.path.push('.');
                self.path.push_str(&self.plan.nodes[node as usize].name);
            }
            Some((Around::Tuple(next), _)) => {
                self.path.push_str(&format!("[{next}]"));
                *next += 1;
            }
            Some((Around::Array(at), _)) => self.path.push_str(&format!("[{at}]")),
            Some((Around::Variant(option), _)) => {
                self.path.push('.');
                self.path.push_str(option);
            }
            Some((Around::Optional, _)) | None => {}
        }
        before
    }

    fn begin(&mut self, node: NodeId, around: Around) {
        let before = self.enter(node);
        self.around.push((around, before));
    }

    fn end(&mut self) {
        if let Some((_, before)) = self.around.pop() {
            self.path.truncate(before);
        }
    }

    fn kind(&self, node: NodeId) -> &FieldKind {
        &self.schema.field_class(self.plan.nodes[node as usize].class).kind
    }

    fn add(&mut self, node: NodeId, text: String, kind: &'static str) {
        let before = self.enter(node);
        self.out.push(FieldAnswer { path: self.path.clone(), text, kind });
        self.path.truncate(before);
    }

    /// A number, with its labels or flags where it has some.
    fn add_number(&mut self, node: NodeId, number: String, value: i128, is_set: impl Fn(&Mapping) -> bool) {
        let mut labels: Vec<&str> = Vec::new();
        match self.kind(node) {
            FieldKind::Integer(class) if class.mappings.is_some() => {
                for label in class.labels(value) {
                    if !labels.contains(&&**label) {
                        labels.push(label);
                    }
                }
            }
            FieldKind::BitMap(class) => {
                labels.extend(class.flags.iter().filter(|flag| is_set(flag)).map(|flag| &*flag.label));
            }
            _ => return self.add(node, number, "integer"),
        }
        let text = if labels.is_empty() { number } else { format!("{} ({number})", labels.join(" ")) };
        self.add(node, text, "enumeration");
    }
}

impl Visitor for FieldList<'_> {
    fn unsigned(&mut self, node: NodeId, value: u64) {
        self.add_number(node, value.to_string(), value.into(), |flag| has_flag(flag, value.into()));
    }

    fn signed(&mut self, node: NodeId, value: i64) {
        self.add_number(node, value.to_string(), value.into(), |flag| has_flag(flag, value.into()));
    }

    fn wide(&mut self, node: NodeId, value: &Wide) {
        // Labels are of at most 127 bits; a larger number has none.
        let number = value.to_i128().unwrap_or(i128::MIN);
        self.add_number(node, value.to_decimal(), number, |flag| has_wide_flag(flag, value));
    }

    fn boolean(&mut self, node: NodeId, value: bool) {
        self.add(node, value.to_string(), "boolean");
    }

    fn real(&mut self, node: NodeId, value: f64) {
        // JSON, of which this is a view, has no number for the others.
        if !value.is_finite() {
            let text = if value.is_nan() { "NaN" } else { ["Infinity", "-Infinity"][usize::from(value < 0.0)] };
            return self.add(node, text.to_string(), "string");
        }
        let text = format!("{value:?}");
        // An exponent has its sign.
        let signed = if text.contains("e-") { text } else { text.replace('e', "e+") };
        self.add(node, signed, "real");
    }

    fn string(&mut self, node: NodeId, bytes: &[u8]) {
        let text = match self.kind(node) {
            FieldKind::String(class) => class.encoding.to_utf8(bytes),
            _ => String::from_utf8_lossy(bytes).into_owned(),
        };
        self.add(node, text, "string");
    }

    fn blob(&mut self, node: NodeId, bytes: &[u8]) {
        let media_type = match self.kind(node) {
            FieldKind::Blob(class) => class.media_type.to_string(),
            _ => String::new(),
        };
        let mut out = Out::default();
        strings::put_base64(&mut out, bytes);
        let before = self.enter(node);
        let texts = [("media_type", media_type), ("base64", String::from_utf8_lossy(out.written()).into_owned())];
        self.out.extend(texts.map(|(part, text)| FieldAnswer {
            path: format!("{}.{part}", self.path),
            text,
            kind: "string",
        }));
        self.path.truncate(before);
    }

    fn begin_struct(&mut self, node: NodeId) {
        let is_tuple = matches!(self.kind(node), FieldKind::Struct(class) if class.is_tuple());
        self.begin(node, if is_tuple { Around::Tuple(0) } else { Around::Struct });
    }

    fn end_struct(&mut self, _node: NodeId) {
        self.end();
    }

    fn begin_array(&mut self, node: NodeId, _len: u64) {
        self.begin(node, Around::Array(0));
    }

    fn element(&mut self, _node: NodeId, index: u64) {
        if let Some((Around::Array(at), _)) = self.around.last_mut() {
            *at = index;
        }
    }

    fn end_array(&mut self, _node: NodeId) {
        self.end();
    }

    fn begin_variant(&mut self, node: NodeId, option: usize) {
        let name = match self.kind(node) {
            FieldKind::Variant(class) => class.options.get(option).and_then(|option| option.name.clone()),
            _ => None,
        };
        self.begin(node, Around::Variant(name.unwrap_or_else(|| option.to_string().into())));
    }

    fn end_variant(&mut self, _node: NodeId) {
        self.end();
    }

    fn begin_optional(&mut self, node: NodeId) {
        self.begin(node, Around::Optional);
    }

    fn end_optional(&mut self, _node: NodeId) {
        self.end();
    }

    fn absent(&mut self, node: NodeId) {
        self.add(node, "null".to_string(), "null");
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use serde_json::Value;
    use tracemill_engine::selection::streams;
    use tracemill_engine::session::{OpenOptions, Session};
    use tracemill_engine::source::FileSystem;
    use tracemill_engine::timeline::Selection;

    use crate::input::AnswerInput;
    use crate::rows;
    use crate::state::TraceState;
    use crate::traces::ShownTraces;

    type Told = (String, String, &'static str);

    /// The single values of a line of `print --format jsonl`.
    fn of_line(line: &str) -> (Value, Vec<Told>) {
        let line: Value = serde_json::from_str(line).expect("a line is JSON");
        let mut fields = Vec::new();
        for (_, scope) in super::SCOPES {
            if let Some(Value::Object(members)) = line.get(scope) {
                members.iter().for_each(|(name, value)| add(&format!("{scope}.{name}"), value, &mut fields));
            }
        }
        (line, fields)
    }

    fn add(path: &str, value: &Value, out: &mut Vec<Told>) {
        let mut put = |text: String, kind| out.push((path.to_string(), text, kind));
        match value {
            Value::Null => put("null".to_string(), "null"),
            Value::Bool(value) => put(value.to_string(), "boolean"),
            Value::Number(number) => {
                let text = number.to_string();
                let kind = if text.contains(['.', 'e', 'E']) { "real" } else { "integer" };
                put(text, kind);
            }
            Value::String(text) => put(text.clone(), "string"),
            Value::Array(elements) => {
                elements.iter().enumerate().for_each(|(at, element)| add(&format!("{path}[{at}]"), element, out));
            }
            Value::Object(members) => {
                let labels = ["labels", "flags"].into_iter().find_map(|name| members.get(name)?.as_array());
                match (members.get("value"), labels) {
                    (Some(Value::Number(number)), Some(labels)) => {
                        let labels: Vec<&str> = labels.iter().filter_map(Value::as_str).collect();
                        let number = number.to_string();
                        let text = if labels.is_empty() { number } else { format!("{} ({number})", labels.join(" ")) };
                        put(text, "enumeration");
                    }
                    _ => members.iter().for_each(|(name, value)| add(&format!("{path}.{name}"), value, out)),
                }
            }
        }
    }

    fn rows_are_as_lines(path: &Path) -> usize {
        let session = Session::open(&FileSystem, &[path.to_path_buf()], &OpenOptions::new(tracemill_formats::FORMATS));
        let Ok(session) = session else { return 0 };
        let streams = streams(&session, &[]).expect("all streams");
        let state = TraceState::new(AnswerInput::new(ShownTraces::new(session, streams, Selection::default(), None)));
        let state = state.expect("random numbers");
        let events: Vec<usize> = (0..20_000).collect();
        let rows = rows::read(&state, None, &events, true).expect("they are there");
        for row in &rows {
            let (line, wanted) = of_line(row.json.as_deref().unwrap_or_default());
            let told = row.fields.iter().map(|field| (field.path.clone(), field.text.clone(), field.kind));
            assert_eq!(told.collect::<Vec<_>>(), wanted, "{}: {line}", path.display());
            let name = line.get("name").and_then(Value::as_str);
            assert_eq!((row.name.as_deref(), row.cpu), (name, line.get("cpu").and_then(Value::as_u64)), "{line}");
            assert_eq!(row.ns.map(|ns| ns.to_string()), line["ns"].as_number().map(ToString::to_string), "{line}");
        }
        rows.len()
    }

    #[test]
    fn fields_are_those_of_the_lines() {
        let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo");
        let of_folder = |folder: &str| {
            let entries = std::fs::read_dir(demo.join(folder)).expect("a folder").flatten();
            entries.map(|entry| entry.path()).collect::<Vec<PathBuf>>()
        };
        let all = ["traces", "logs", "calls", "kernel"].into_iter().filter(|name| demo.join(name).is_dir());
        let all: usize = all.flat_map(of_folder).map(|path| rows_are_as_lines(&path)).sum();
        assert!(all > 1000, "{all} rows");
    }
}
