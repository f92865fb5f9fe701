//! Values as canonical JSON (`docs/jsonl.md`).

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use crate::bits::Wide;
use crate::chunk::{EventFields, EventRef, PacketData};
use crate::plan::{DecoderState, Fault, NodeId, Plan, Visitor, VisitorCall};
use tracemill_model::schema::{
    Encoding, FieldClassId, FieldKind, LabelList, Mapping, Schema, Scope, StreamClassId, VariantOption,
};

use super::out::{Out, SmallTexts, TextPiece};
use super::strings;

/// Prints the scopes of one trace's events as JSON objects.
#[derive(Default)]
pub struct JsonTrace {
    schema: Arc<Schema>,
    /// By class.
    events: Vec<Option<Box<JsonTable>>>,
    headers: HashMap<StreamClassId, JsonTable>,
    contexts: HashMap<StreamClassId, JsonTable>,
    /// For each stream the rendered context of the packet that was printed last.
    packets: Vec<Option<(Arc<PacketData>, Vec<u8>)>>,
    state: DecoderState,
}

/// How the fields of a plan are printed.
pub struct JsonTable {
    nodes: Vec<NodeJson>,
}

struct NodeJson {
    before: TextPiece,
    kind: JsonForm,
}

enum JsonForm {
    Plain,
    Enum(Box<EnumJson>),
    Flags(Arc<[Mapping]>),
    Text(Encoding),
    Blob(Arc<str>),
    Variant(Vec<TextPiece>),
    /// A structure that is a list.
    Tuple,
}

struct EnumJson {
    class: LabelList,
    /// `,"labels":[..]}` of small values.
    texts: SmallTexts,
}

impl JsonTrace {
    /// A printer of events of `schema`.
    pub fn new(schema: Arc<Schema>) -> Self {
        JsonTrace { schema, ..JsonTrace::default() }
    }

    /// Appends a scope's object; false and nothing when the scope is not declared. Common context, specific context
    /// and payload must be asked for with `fields` in this order.
    pub fn scope<'e>(
        &mut self,
        out: &mut Out,
        stream: usize,
        event: EventRef<'e>,
        fields: &mut ScopedFields<'e>,
        scope: Scope,
        before: &[u8],
    ) -> Result<bool, Fault> {
        if self.schema.scope_root(scope, event.class()).is_none() {
            if scope >= Scope::CommonContext {
                fields.get(event, &mut self.state).visit(scope, &mut self.state, &mut crate::plan::NoVisitor)?;
            }
            return Ok(false);
        }
        out.put(before);
        let plans = &event.chunk.packet.plans;
        let class = event.chunk.packet.packet.class;
        match scope {
            Scope::PacketHeader => {}
            Scope::PacketContext => {
                let packet = &event.chunk.packet;
                match self.packets.get(stream) {
                    Some(Some((known, _))) if PacketData::is_same(known, packet) => {}
                    _ => self.begin_packet(stream, packet)?,
                }
                if let Some(Some((_, text))) = self.packets.get(stream) {
                    out.put(text);
                }
            }
            Scope::EventHeader => {
                let table =
                    self.headers.entry(class).or_insert_with(|| JsonTable::new(&self.schema, plans.header_rows(class)));
                event.visit_header(&mut DecoderState::default(), &mut JsonPrinter { out, table })?;
            }
            _ => {
                let id = event.class();
                let at = id.0 as usize;
                if self.events.get(at).is_none_or(Option::is_none) {
                    let len = self.events.len().max(at + 1);
                    self.events.resize_with(len, || None);
                    self.events[at] = Some(Box::new(JsonTable::new(&self.schema, plans.event_rows(id))));
                }
                let Some(Some(table)) = self.events.get_mut(at) else { return Ok(true) };
                let fields = fields.get(event, &mut self.state);
                fields.visit(scope, &mut self.state, &mut JsonPrinter { out, table })?;
            }
        }
        Ok(true)
    }

    #[cold]
    fn begin_packet(&mut self, stream: usize, packet: &Arc<PacketData>) -> Result<(), Fault> {
        let class = packet.packet.class;
        let plan = packet.plans.packet_context_rows(class);
        let table = self.contexts.entry(class).or_insert_with(|| JsonTable::new(&self.schema, plan));
        let mut text = Out::default();
        packet.visit_context(&mut JsonPrinter { out: &mut text, table })?;
        let len = self.packets.len().max(stream + 1);
        self.packets.resize_with(len, || None);
        self.packets[stream] = Some((packet.clone(), text.written().to_vec()));
        Ok(())
    }
}

/// The fields of an event while its scopes are printed one after the other.
#[derive(Default)]
pub struct ScopedFields<'a>(Option<EventFields<'a>>);

impl<'a> ScopedFields<'a> {
    fn get(&mut self, event: EventRef<'a>, state: &mut DecoderState) -> &mut EventFields<'a> {
        self.0.get_or_insert_with(|| event.fields(state))
    }
}

impl JsonTable {
    /// The keys of a plan's fields.
    pub fn new(schema: &Schema, plan: &Plan) -> Self {
        let nodes = plan.nodes.iter().zip(0..).map(|(node, id): (_, NodeId)| {
            let parent = schema.field_class(plan.nodes[node.parent as usize].class);
            let is_first = id <= node.parent + 1;
            let before = match &parent.kind {
                FieldKind::Struct(class) if node.parent != id && !class.is_tuple() => key(!is_first, &node.name),
                FieldKind::Struct(_) if !is_first => TextPiece::new(","),
                _ => TextPiece::new(""),
            };
            NodeJson { before, kind: kind(schema, node.class) }
        });
        JsonTable { nodes: nodes.collect() }
    }
}

fn key(comma: bool, name: &str) -> TextPiece {
    let mut out = Out::default();
    if comma {
        out.put_byte(b',');
    }
    strings::put_json(&mut out, name.as_bytes());
    out.put_byte(b':');
    TextPiece::new(out.written())
}

fn kind(schema: &Schema, id: FieldClassId) -> JsonForm {
    match &schema.field_class(id).kind {
        FieldKind::Integer(class) if class.mappings.is_some() => {
            JsonForm::Enum(Box::new(EnumJson { class: class.label_list(), texts: SmallTexts::default() }))
        }
        FieldKind::BitMap(class) => JsonForm::Flags(class.flags.clone()),
        FieldKind::String(class) => JsonForm::Text(class.encoding),
        FieldKind::Rendered(_) => JsonForm::Text(Encoding::Utf8),
        FieldKind::Blob(class) => JsonForm::Blob(class.media_type.clone()),
        FieldKind::Struct(class) if class.is_tuple() => JsonForm::Tuple,
        FieldKind::Variant(class) => {
            let option = |(at, option): (usize, &VariantOption)| match &option.name {
                Some(name) => key(false, name),
                None => key(false, &at.to_string()),
            };
            JsonForm::Variant(class.options.iter().enumerate().map(option).collect())
        }
        _ => JsonForm::Plain,
    }
}

/// Prints fields, each with the key before it.
pub struct JsonPrinter<'a> {
    out: &'a mut Out,
    table: &'a mut JsonTable,
}

impl<'a> JsonPrinter<'a> {
    /// A printer of fields of the table's plan.
    pub fn new(out: &'a mut Out, table: &'a mut JsonTable) -> Self {
        JsonPrinter { out, table }
    }

    /// Bytes printed so far.
    pub fn printed_bytes(&self) -> usize {
        self.out.len()
    }

    /// Place at which the value of a node begins when it is printed next: after its key.
    pub fn start_of(&mut self, node: NodeId) -> usize {
        let before = self.out.len();
        self.out.put_piece(&self.table.nodes[node as usize].before);
        let start = self.out.len();
        self.out.truncate(before);
        start
    }

    /// The text of a string.
    pub fn text_of<'b>(&self, node: NodeId, bytes: &'b [u8]) -> Cow<'b, str> {
        match self.table.nodes[node as usize].kind {
            JsonForm::Text(encoding) if encoding != Encoding::Utf8 => encoding.to_utf8(bytes).into(),
            _ => String::from_utf8_lossy(bytes),
        }
    }

    /// The labels of an integer, each once, or its flags; `None` when its class has neither.
    pub fn names_of(&self, node: NodeId, value: VisitorCall<'_>) -> Option<Vec<&str>> {
        let number = match value {
            VisitorCall::Unsigned(value) => value.into(),
            VisitorCall::Signed(value) => value.into(),
            VisitorCall::Wide(value) => number_for_labels(value),
            _ => return None,
        };
        match &self.table.nodes[node as usize].kind {
            JsonForm::Enum(labels) => Some(label_names(&labels.class, number)),
            JsonForm::Flags(flags) => Some(match value {
                VisitorCall::Wide(wide) => names_of_flags(flags, |flag| has_wide_flag(flag, wide)),
                _ => names_of_flags(flags, |flag| has_flag(flag, number)),
            }),
            _ => None,
        }
    }

    #[inline]
    fn begin(&mut self, node: NodeId) -> &mut NodeJson {
        let json = &mut self.table.nodes[node as usize];
        self.out.put_piece(&json.before);
        json
    }

    /// A number with its labels or flags around it.
    fn with_labels(&mut self, node: NodeId, value: i128, is_set: impl Fn(&Mapping) -> bool, put: impl Fn(&mut Out)) {
        let json = &mut self.table.nodes[node as usize];
        self.out.put_piece(&json.before);
        match &mut json.kind {
            JsonForm::Enum(labels) => {
                self.out.put(b"{\"value\":");
                put(self.out);
                labels.write(self.out, value);
            }
            JsonForm::Flags(flags) => {
                self.out.put(b"{\"value\":");
                put(self.out);
                self.out.put(b",\"flags\":");
                put_names(self.out, &names_of_flags(flags, is_set));
                self.out.put_byte(b'}');
            }
            _ => put(self.out),
        }
    }
}

/// Is a flag set in a bit map of any width?
pub fn has_wide_flag(flag: &Mapping, value: &Wide) -> bool {
    flag.ranges.iter().any(|&(low, high)| value.has_bit_in(low, high))
}

/// Is one of the bits of a flag set?
pub fn has_flag(flag: &Mapping, value: i128) -> bool {
    flag.ranges.iter().any(|&(low, high)| (low.max(0)..=high.min(126)).any(|bit| value >> bit & 1 == 1))
}

fn names_of_flags(flags: &[Mapping], is_set: impl Fn(&Mapping) -> bool) -> Vec<&str> {
    flags.iter().filter(|flag| is_set(flag)).map(|flag| &*flag.label).collect()
}

/// The number whose labels a wide integer has: labels are of at most 127 bits, a larger number has none.
fn number_for_labels(value: &Wide) -> i128 {
    value.to_i128().unwrap_or(i128::MIN)
}

/// Appends names as a JSON array.
pub fn put_names(out: &mut Out, names: &[&str]) {
    out.put_byte(b'[');
    for (at, name) in names.iter().enumerate() {
        if at > 0 {
            out.put_byte(b',');
        }
        strings::put_json(out, name.as_bytes());
    }
    out.put_byte(b']');
}

impl EnumJson {
    fn write(&mut self, out: &mut Out, value: i128) {
        let EnumJson { class, texts } = self;
        texts.write(out, value, |out| {
            out.put(b",\"labels\":");
            put_names(out, &label_names(class, value));
            out.put_byte(b'}');
        });
    }
}

fn label_names(class: &LabelList, value: i128) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for label in class.labels_for(value) {
        if !names.contains(&&**label) {
            names.push(label);
        }
    }
    names
}

/// Appends a float as JSON: the shortest decimal that reads back, or a string where JSON has no number.
pub fn put_float(out: &mut Out, value: f64) {
    if value.is_nan() {
        out.put(b"\"NaN\"");
    } else if value.is_infinite() {
        out.put(if value < 0.0 { b"\"-Infinity\"" } else { b"\"Infinity\"" });
    } else {
        out.put_fmt(format_args!("{value:?}"));
    }
}

impl Visitor for JsonPrinter<'_> {
    #[inline]
    fn unsigned(&mut self, node: NodeId, value: u64) {
        if matches!(self.table.nodes[node as usize].kind, JsonForm::Plain) {
            self.begin(node);
            return self.out.put_u64(value);
        }
        self.with_labels(node, value.into(), |flag| has_flag(flag, value.into()), |out| out.put_u64(value));
    }

    #[inline]
    fn signed(&mut self, node: NodeId, value: i64) {
        if matches!(self.table.nodes[node as usize].kind, JsonForm::Plain) {
            self.begin(node);
            return self.out.put_i64(value);
        }
        self.with_labels(node, value.into(), |flag| has_flag(flag, value.into()), |out| out.put_i64(value));
    }

    fn wide(&mut self, node: NodeId, value: &Wide) {
        let text = value.to_decimal();
        self.with_labels(
            node,
            number_for_labels(value),
            |flag| has_wide_flag(flag, value),
            |out| out.put(text.as_bytes()),
        );
    }

    fn boolean(&mut self, node: NodeId, value: bool) {
        self.begin(node);
        self.out.put(if value { b"true" } else { b"false" });
    }

    fn real(&mut self, node: NodeId, value: f64) {
        self.begin(node);
        put_float(self.out, value);
    }

    fn string(&mut self, node: NodeId, bytes: &[u8]) {
        match self.begin(node).kind {
            JsonForm::Text(encoding) if encoding != Encoding::Utf8 => {
                strings::put_json(self.out, encoding.to_utf8(bytes).as_bytes());
            }
            _ => strings::put_json(self.out, bytes),
        }
    }

    fn blob(&mut self, node: NodeId, bytes: &[u8]) {
        let media_type =
            if let JsonForm::Blob(media_type) = &self.begin(node).kind { media_type.clone() } else { "".into() };
        self.out.put(b"{\"media_type\":");
        strings::put_json(self.out, media_type.as_bytes());
        self.out.put(b",\"base64\":\"");
        strings::put_base64(self.out, bytes);
        self.out.put(b"\"}");
    }

    fn begin_struct(&mut self, node: NodeId) {
        let is_tuple = matches!(self.begin(node).kind, JsonForm::Tuple);
        self.out.put_byte(if is_tuple { b'[' } else { b'{' });
    }

    fn end_struct(&mut self, node: NodeId) {
        let is_tuple = matches!(self.table.nodes[node as usize].kind, JsonForm::Tuple);
        self.out.put_byte(if is_tuple { b']' } else { b'}' });
    }

    fn begin_array(&mut self, node: NodeId, _len: u64) {
        self.begin(node);
        self.out.put_byte(b'[');
    }

    #[inline]
    fn element(&mut self, _node: NodeId, index: u64) {
        if index > 0 {
            self.out.put_byte(b',');
        }
    }

    fn end_array(&mut self, _node: NodeId) {
        self.out.put_byte(b']');
    }

    fn begin_variant(&mut self, node: NodeId, option: usize) {
        let json = &self.table.nodes[node as usize];
        self.out.put_piece(&json.before);
        self.out.put_byte(b'{');
        if let JsonForm::Variant(options) = &json.kind {
            self.out.put_piece(&options[option]);
        }
    }

    fn end_variant(&mut self, _node: NodeId) {
        self.out.put_byte(b'}');
    }

    fn begin_optional(&mut self, node: NodeId) {
        self.begin(node);
    }

    fn absent(&mut self, node: NodeId) {
        self.begin(node);
        self.out.put(b"null");
    }
}
