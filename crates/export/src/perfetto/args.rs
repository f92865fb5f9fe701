//! Fields of events as debug annotations, and the strings that stand once for all packets.

use std::collections::HashMap;
use std::sync::Arc;

use tracemill_codec::bits::Wide;
use tracemill_codec::plan::{NodeId, Plan, Visitor};
use tracemill_format::lost::{Losses, Lost};
use tracemill_model::schema::{Encoding, FieldClassId, FieldKind, IntegerClass, Mapping, Schema, Scope};

use tracemill_codec::text::fields_json::{has_flag, has_wide_flag};
use tracemill_codec::text::out::Out;
use tracemill_codec::text::strings;
use tracemill_format::perfetto::ProtoWriter;

/// Fields of `TrackEvent` and `DebugAnnotation`.
const DEBUG_ANNOTATIONS: u32 = 4;
const NAME_IID: u32 = 1;
const BOOL_VALUE: u32 = 2;
const UINT_VALUE: u32 = 3;
const INT_VALUE: u32 = 4;
const DOUBLE_VALUE: u32 = 5;
const STRING_VALUE: u32 = 6;
const DICT_ENTRIES: u32 = 11;
const ARRAY_VALUES: u32 = 12;
const STRING_VALUE_IID: u32 = 17;

/// Fields of `InternedData`.
const EVENT_CATEGORIES: u32 = 1;
const EVENT_NAMES: u32 = 2;
const ANNOTATION_NAMES: u32 = 3;
const ANNOTATION_STRINGS: u32 = 29;

/// Titles that events say themselves are interned up to this number, and up to this many bytes; others are written out.
const MAX_TITLES: usize = 1 << 16;
const MAX_TITLE_BYTES: usize = 8 << 20;
/// Values of an enumeration whose labels are kept ready.
const MAX_LABELLED: usize = 1 << 12;

/// Strings that have a number in this trace.
#[derive(Default)]
pub(super) struct Interned {
    categories: HashMap<Arc<str>, u64>,
    titles: HashMap<Box<[u8]>, u64>,
    title_bytes: usize,
    names: HashMap<Arc<str>, u64>,
    labels: HashMap<Arc<str>, u64>,
    /// Strings that no packet holds yet.
    pub(super) pending: ProtoWriter,
}

/// Adds a string to a message `InternedData`.
fn announce(pending: &mut ProtoWriter, field: u32, iid: u64, text: &[u8]) {
    pending.begin(field);
    pending.unsigned(1, iid);
    pending.bytes(2, text);
    pending.end();
}

/// The number of a string of one kind.
fn number(known: &mut HashMap<Arc<str>, u64>, pending: &mut ProtoWriter, field: u32, text: &Arc<str>) -> u64 {
    if let Some(iid) = known.get(text) {
        return *iid;
    }
    let iid = known.len() as u64 + 1;
    known.insert(text.clone(), iid);
    announce(pending, field, iid, text.as_bytes());
    iid
}

impl Interned {
    pub(super) fn category(&mut self, text: &Arc<str>) -> u64 {
        number(&mut self.categories, &mut self.pending, EVENT_CATEGORIES, text)
    }

    fn name(&mut self, text: &Arc<str>) -> u64 {
        number(&mut self.names, &mut self.pending, ANNOTATION_NAMES, text)
    }

    fn label(&mut self, text: &Arc<str>) -> u64 {
        number(&mut self.labels, &mut self.pending, ANNOTATION_STRINGS, text)
    }

    /// The number of a title, `None` when there are too many.
    pub(super) fn title(&mut self, text: &[u8]) -> Option<u64> {
        if let Some(iid) = self.titles.get(text) {
            return Some(*iid);
        }
        if self.titles.len() >= MAX_TITLES || self.title_bytes + text.len() > MAX_TITLE_BYTES {
            return None;
        }
        let iid = self.titles.len() as u64 + 1;
        self.title_bytes += text.len();
        self.titles.insert(text.into(), iid);
        announce(&mut self.pending, EVENT_NAMES, iid, String::from_utf8_lossy(text).as_bytes());
        Some(iid)
    }
}

/// How the fields of a plan are written.
pub(super) struct ArgumentTable {
    nodes: Vec<NodeArgs>,
}

struct NodeArgs {
    /// The field that holds the annotation.
    field: u32,
    /// Its name, as a field.
    name: Box<[u8]>,
    kind: ArgumentKind,
}

enum ArgumentKind {
    Plain,
    Labels(IntegerClass, HashMap<i128, Box<[u8]>>),
    Flags(Arc<[Mapping]>),
    Text(Encoding),
    Variant,
    Tuple,
}

impl ArgumentTable {
    /// A table of a plan whose roots are called so.
    pub(super) fn new(schema: &Schema, plan: &Plan, roots: &[Scope], interned: &mut Interned) -> Self {
        let mut nodes = Vec::with_capacity(plan.nodes.len());
        for (root, scope) in plan.roots.iter().zip(roots) {
            if let Some(root) = root {
                let name = named(&scope.key().into(), interned);
                add(schema, plan.nodes[*root as usize].class, (DEBUG_ANNOTATIONS, name), interned, &mut nodes);
            }
        }
        ArgumentTable { nodes }
    }
}

fn named(name: &Arc<str>, interned: &mut Interned) -> Box<[u8]> {
    let mut field = ProtoWriter::default();
    field.unsigned(NAME_IID, interned.name(name));
    field.written().into()
}

/// Adds the nodes of a field in the order in which the plan numbered them.
fn add(schema: &Schema, id: FieldClassId, at: (u32, Box<[u8]>), interned: &mut Interned, nodes: &mut Vec<NodeArgs>) {
    let class = schema.field_class(id);
    let kind = match &class.kind {
        FieldKind::Integer(class) if class.mappings.is_some() => ArgumentKind::Labels(class.clone(), HashMap::new()),
        FieldKind::BitMap(class) => ArgumentKind::Flags(class.flags.clone()),
        FieldKind::String(class) => ArgumentKind::Text(class.encoding),
        FieldKind::Struct(class) if class.is_tuple() => ArgumentKind::Tuple,
        FieldKind::Variant(_) => ArgumentKind::Variant,
        _ => ArgumentKind::Plain,
    };
    nodes.push(NodeArgs { field: at.0, name: at.1.clone(), kind });
    match &class.kind {
        FieldKind::Struct(structure) => {
            for member in &structure.members {
                let at = match structure.is_tuple() {
                    true => (ARRAY_VALUES, Box::default()),
                    false => (DICT_ENTRIES, named(&member.name, interned)),
                };
                add(schema, member.class, at, interned, nodes);
            }
        }
        FieldKind::Array(array) => add(schema, array.element, (ARRAY_VALUES, Box::default()), interned, nodes),
        FieldKind::Optional(optional) => add(schema, optional.content, at, interned, nodes),
        FieldKind::Variant(variant) => {
            for (index, option) in variant.options.iter().enumerate() {
                let name = option.name.clone().unwrap_or_else(|| index.to_string().into());
                add(schema, option.class, (DICT_ENTRIES, named(&name, interned)), interned, nodes);
            }
        }
        _ => {}
    }
}

/// Writes fields as annotations.
pub(super) struct Args<'a> {
    pub(super) out: &'a mut ProtoWriter,
    pub(super) table: &'a mut ArgumentTable,
    pub(super) interned: &'a mut Interned,
    pub(super) losses: &'a mut Losses,
}

impl Args<'_> {
    #[inline]
    fn begin(&mut self, node: NodeId) -> &NodeArgs {
        let of = &self.table.nodes[node as usize];
        self.out.begin(of.field);
        self.out.append(&of.name);
        of
    }

    /// A bit map with the flags that are set in it.
    fn flags(&mut self, flags: &[Mapping], is_set: impl Fn(&Mapping) -> bool, put: impl Fn(&mut ProtoWriter)) {
        let names: Vec<_> = flags.iter().filter(|flag| is_set(flag)).map(|flag| &flag.label).collect();
        put_labelled(self.out, self.interned, put, "flags", &names);
    }

    #[inline(never)]
    fn labels(&mut self, node: NodeId, value: i128, put: impl Fn(&mut ProtoWriter)) {
        let of = &mut self.table.nodes[node as usize];
        let ArgumentKind::Labels(class, known) = &mut of.kind else { return put(self.out) };
        if let Some(fields) = known.get(&value) {
            return self.out.append(fields);
        }
        let mut names: Vec<&Arc<str>> = class.labels(value).collect();
        let mut seen = std::collections::HashSet::new();
        names.retain(|name| seen.insert(*name));
        let mut fields = ProtoWriter::default();
        put_labelled(&mut fields, self.interned, put, "labels", &names);
        self.out.append(fields.written());
        if known.len() < MAX_LABELLED {
            known.insert(value, fields.written().into());
        }
    }
}

/// A number with names: `value`, and the names as a list.
fn put_labelled(
    out: &mut ProtoWriter,
    interned: &mut Interned,
    put: impl Fn(&mut ProtoWriter),
    list: &str,
    names: &[&Arc<str>],
) {
    out.begin(DICT_ENTRIES);
    out.unsigned(NAME_IID, interned.name(&"value".into()));
    put(out);
    out.end();
    if names.is_empty() {
        return;
    }
    out.begin(DICT_ENTRIES);
    out.unsigned(NAME_IID, interned.name(&list.into()));
    for name in names {
        out.begin(ARRAY_VALUES);
        out.unsigned(STRING_VALUE_IID, interned.label(name));
        out.end();
    }
    out.end();
}

impl Visitor for Args<'_> {
    const FOR_PEOPLE: bool = true;

    #[inline]
    fn unsigned(&mut self, node: NodeId, value: u64) {
        match &self.begin(node).kind {
            ArgumentKind::Labels(..) => self.labels(node, value.into(), |out| out.unsigned(UINT_VALUE, value)),
            ArgumentKind::Flags(flags) => {
                let flags = flags.clone();
                self.flags(&flags, |flag| has_flag(flag, value.into()), |out| out.unsigned(UINT_VALUE, value));
            }
            _ => self.out.unsigned(UINT_VALUE, value),
        }
        self.out.end();
    }

    #[inline]
    fn signed(&mut self, node: NodeId, value: i64) {
        match &self.begin(node).kind {
            ArgumentKind::Labels(..) => self.labels(node, value.into(), |out| out.signed(INT_VALUE, value)),
            _ => self.out.signed(INT_VALUE, value),
        }
        self.out.end();
    }

    fn wide(&mut self, node: NodeId, value: &Wide) {
        self.losses.add(Lost::WideIntegers, 1);
        let text = value.to_decimal();
        let put = |out: &mut ProtoWriter| out.bytes(STRING_VALUE, text.as_bytes());
        match &self.begin(node).kind {
            ArgumentKind::Labels(..) => self.labels(node, value.to_i128().unwrap_or(i128::MIN), put),
            ArgumentKind::Flags(flags) => {
                let flags = flags.clone();
                self.flags(&flags, |flag| has_wide_flag(flag, value), put);
            }
            _ => put(self.out),
        }
        self.out.end();
    }

    fn boolean(&mut self, node: NodeId, value: bool) {
        self.begin(node);
        self.out.unsigned(BOOL_VALUE, value.into());
        self.out.end();
    }

    fn real(&mut self, node: NodeId, value: f64) {
        self.begin(node);
        self.out.double(DOUBLE_VALUE, value);
        self.out.end();
    }

    fn string(&mut self, node: NodeId, bytes: &[u8]) {
        let encoding = if let ArgumentKind::Text(encoding) = self.begin(node).kind { encoding } else { Encoding::Utf8 };
        if encoding.is_utf8(bytes) {
            self.out.bytes(STRING_VALUE, bytes);
        } else {
            let text = encoding.to_utf8(bytes);
            self.losses.add(Lost::BadTexts, text.contains(char::REPLACEMENT_CHARACTER).into());
            self.out.bytes(STRING_VALUE, text.as_bytes());
        }
        self.out.end();
    }

    fn blob(&mut self, node: NodeId, bytes: &[u8]) {
        self.begin(node);
        let mut text = Out::default();
        strings::put_base64(&mut text, bytes);
        self.out.bytes(STRING_VALUE, text.written());
        self.out.end();
    }

    fn begin_struct(&mut self, node: NodeId) {
        self.begin(node);
    }

    fn end_struct(&mut self, _node: NodeId) {
        self.out.end();
    }

    fn begin_array(&mut self, node: NodeId, _len: u64) {
        self.begin(node);
    }

    fn end_array(&mut self, _node: NodeId) {
        self.out.end();
    }

    fn begin_variant(&mut self, node: NodeId, _option: usize) {
        self.begin(node);
    }

    fn end_variant(&mut self, _node: NodeId) {
        self.out.end();
    }

    fn absent(&mut self, node: NodeId) {
        // An element keeps its place among the others.
        if self.table.nodes[node as usize].field == ARRAY_VALUES {
            self.begin(node);
            self.out.end();
        }
    }
}
