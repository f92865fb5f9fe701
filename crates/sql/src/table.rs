//! Tables of events: their columns, and where in events the values are.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use tracemill_codec::plan::{NodeId, Plan};
use tracemill_columns::{ChosenColumns, ColumnRequest, integer_of};
use tracemill_engine::session::Session;
use tracemill_model::schema::{DisplayBase, EventClassId, FieldClassId, FieldKind, Schema as TraceSchema, Scope};

use crate::event_columns::{COMMON, EventColumn, OF_ALL};
use crate::kinds::SqlKind;

/// A table of events.
pub(crate) struct EventTable {
    pub(crate) name: String,
    pub(crate) schema: SchemaRef,
    /// In the order of the schema.
    pub(crate) columns: Vec<TableColumn>,
    /// Its classes; `None` for all.
    pub(crate) classes: Option<HashSet<(usize, EventClassId)>>,
}

/// Where the values of a column are.
#[derive(Clone)]
pub(crate) enum TableColumn {
    /// Something that every event has.
    Event(EventColumn),
    /// The JSON of a scope.
    Json(Scope),
    /// A field.
    Field(Arc<FieldColumn>),
}

/// A column of fields.
pub(crate) struct FieldColumn {
    /// Its path, such as `payload.load`.
    pub(crate) path: String,
    pub(crate) data_type: DataType,
    /// Its field in each class that has it.
    pub(crate) places: HashMap<(usize, EventClassId), ColumnPlace>,
    /// A note on how types that differ were unified.
    pub(crate) note: Option<String>,
}

/// A field of a class.
#[derive(Clone, Debug)]
pub(crate) struct ColumnPlace {
    pub(crate) scope: Scope,
    /// The field in the plan of the scope, which is inside of structures that are always there and of nothing else.
    pub(crate) node: NodeId,
    pub(crate) wish: ColumnRequest,
    /// The way from there to a value inside of it.
    pub(crate) steps: Vec<ValueStep>,
    pub(crate) kind: SqlKind,
    pub(crate) class: FieldClassId,
}

/// A step into a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ValueStep {
    Member(usize),
    Element(u64),
}

/// The scopes of fields, in the order of their columns.
pub(crate) const SCOPES: [Scope; 5] =
    [Scope::Payload, Scope::SpecificContext, Scope::CommonContext, Scope::PacketContext, Scope::EventHeader];

/// The plan of a scope of a class, and the section of it.
pub(crate) fn plan_of(session: &Session, trace: usize, class: EventClassId, scope: Scope) -> (&Plan, usize) {
    let plans = &session.traces[trace].plans;
    let stream = plans.schema().event(class).stream;
    match scope {
        Scope::PacketHeader => (plans.packet_header_rows(), 0),
        Scope::PacketContext => (plans.packet_context_rows(stream), 0),
        Scope::EventHeader => (plans.header_rows(stream), 0),
        _ => (plans.event_rows(class), scope as usize - Scope::CommonContext as usize),
    }
}

impl EventTable {
    /// The table of all events.
    pub(crate) fn events() -> EventTable {
        let mut fields = Vec::new();
        let mut columns = Vec::new();
        for column in COMMON.into_iter().chain(OF_ALL) {
            fields.push(Field::new(column.name(), column.data_type(), true));
            columns.push(TableColumn::Event(column));
        }
        for scope in
            [Scope::EventHeader, Scope::PacketContext, Scope::CommonContext, Scope::SpecificContext, Scope::Payload]
        {
            fields.push(Field::new(scope.key(), DataType::Utf8, true));
            columns.push(TableColumn::Json(scope));
        }
        EventTable { name: "events".into(), schema: Arc::new(Schema::new(fields)), columns, classes: None }
    }

    /// The table of some classes.
    pub(crate) fn from_classes(session: &Session, name: &str, classes: &[(usize, EventClassId)]) -> EventTable {
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        let mut taken: Vec<String> = Vec::new();
        for column in COMMON {
            taken.push(column.name().to_string());
            fields.push(Field::new(column.name(), column.data_type(), true));
            columns.push(TableColumn::Event(column));
        }
        let mut merged: Vec<Merged> = Vec::new();
        for &(trace, class) in classes {
            // Each class has its own names that are taken.
            let mut taken = taken.clone();
            for (name, path, place) in columns_of(session, trace, class, &mut taken) {
                let at = merged.iter().position(|known| known.name == name).unwrap_or_else(|| {
                    merged.push(Merged::new(name, path, place.kind.clone()));
                    merged.len() - 1
                });
                merged[at].add((trace, class), place);
            }
        }
        for column in merged {
            fields.push(column.field(session));
            columns.push(TableColumn::Field(Arc::new(column.into_column())));
        }
        let classes = Some(classes.iter().copied().collect());
        EventTable { name: name.into(), schema: Arc::new(Schema::new(fields)), columns, classes }
    }

    /// Is a class in the table?
    pub(crate) fn has(&self, trace: usize, class: EventClassId) -> bool {
        self.classes.as_ref().is_none_or(|classes| classes.contains(&(trace, class)))
    }
}

/// A column in the making: the fields of one name in all classes.
pub(crate) struct Merged {
    name: String,
    path: String,
    kind: SqlKind,
    places: HashMap<(usize, EventClassId), ColumnPlace>,
    first: Option<((usize, EventClassId), ColumnPlace)>,
    differs: bool,
}

impl Merged {
    pub(crate) fn new(name: String, path: String, kind: SqlKind) -> Merged {
        Merged { name, path, kind, places: HashMap::new(), first: None, differs: false }
    }

    pub(crate) fn add(&mut self, class: (usize, EventClassId), place: ColumnPlace) {
        self.differs |= self.kind.data_type != place.kind.data_type;
        self.kind = self.kind.merge(&place.kind);
        self.first.get_or_insert_with(|| (class, place.clone()));
        self.places.insert(class, place);
    }

    pub(crate) fn field(&self, session: &Session) -> Field {
        let mut metadata = HashMap::from([("tracemill.path".to_string(), self.path.clone())]);
        if let Some(((trace, _), place)) = &self.first {
            let schema = &session.traces[*trace].schema;
            match &content(schema, place.class).kind {
                FieldKind::Integer(class) => {
                    metadata.insert("tracemill.bits".into(), class.len_bits.to_string());
                    let base = match class.base {
                        DisplayBase::Hexadecimal => "16",
                        DisplayBase::Octal => "8",
                        DisplayBase::Binary => "2",
                        _ => "10",
                    };
                    metadata.insert("tracemill.base".into(), base.into());
                }
                FieldKind::Blob(blob) => {
                    metadata.insert("media_type".into(), blob.media_type.to_string());
                }
                _ => {}
            }
        }
        Field::new(&self.name, self.kind.data_type.clone(), true).with_metadata(metadata)
    }

    pub(crate) fn into_column(self) -> FieldColumn {
        let note = self.differs.then(|| match self.kind.data_type {
            DataType::Utf8 => "JSON: the classes of this name have kinds that nothing else holds".to_string(),
            _ => "widened: the classes of this name have different kinds".to_string(),
        });
        FieldColumn { path: self.path, data_type: self.kind.data_type, places: self.places, note }
    }
}

/// The class of a field, or of what an optional field holds.
pub(crate) fn content(schema: &TraceSchema, class: FieldClassId) -> &tracemill_model::schema::FieldClass {
    match &schema.field_class(class).kind {
        FieldKind::Optional(optional) => content(schema, optional.content),
        _ => schema.field_class(class),
    }
}

/// The columns of a class: names, paths, places. Names are added to those that are taken.
fn columns_of(
    session: &Session,
    trace: usize,
    class: EventClassId,
    taken: &mut Vec<String>,
) -> Vec<(String, String, ColumnPlace)> {
    let schema = &*session.traces[trace].schema;
    let mut columns = Vec::new();
    for scope in SCOPES {
        let members = schema.members(schema.scope_root(scope, class));
        if members.is_empty() {
            continue;
        }
        let (plan, section) = plan_of(session, trace, class, scope);
        let Some(root) = plan.roots.get(section).copied().flatten() else { continue };
        let nodes: Vec<NodeId> = children(plan, root).collect();
        let mut wishes: Vec<(String, String, NodeId, ColumnRequest)> = Vec::new();
        for (member, &node) in members.iter().zip(&nodes) {
            let has_meaning = !schema.says_more(member.class);
            if scope < Scope::CommonContext && has_meaning {
                continue;
            }
            let mut name = member.name.to_string();
            if taken.contains(&name) {
                name = format!("{}_{}", scope.key(), member.name);
            }
            let name = free(name, taken);
            let path = format!("{}.{}", scope.key(), member.name);
            wishes.push((name.clone(), path.clone(), node, ColumnRequest::Value));
            let mut beside = |suffix: &str, wish| {
                let name = free(format!("{name}_{suffix}"), taken);
                wishes.push((name, path.clone(), node, wish));
            };
            match integer_of(schema, member.class) {
                Some((mappings, false)) => {
                    beside("label", ColumnRequest::Label);
                    if ChosenColumns::has_overlaps(mappings) {
                        beside("labels", ColumnRequest::Labels);
                    }
                }
                Some((_, true)) => beside("flags", ColumnRequest::Flags),
                None => {}
            }
        }
        let plain: Vec<(NodeId, ColumnRequest)> = wishes.iter().map(|&(_, _, node, wish)| (node, wish)).collect();
        let types = ChosenColumns::new(schema, plan, &plain).fields();
        for ((name, path, node, wish), field) in wishes.into_iter().zip(types) {
            let class = plan.nodes[node as usize].class;
            let kind = SqlKind { data_type: field.data_type().clone(), bits: bits_of(schema, class) };
            columns.push((name, path, ColumnPlace { scope, node, wish, steps: Vec::new(), kind, class }));
        }
    }
    columns
}

/// A name that is not taken, with `_` after it where it must be; it is taken then.
fn free(mut name: String, taken: &mut Vec<String>) -> String {
    while taken.contains(&name) {
        name.push('_');
    }
    taken.push(name.clone());
    name
}

/// The nodes directly inside of a node.
pub(crate) fn children(plan: &Plan, parent: NodeId) -> impl Iterator<Item = NodeId> + '_ {
    (parent + 1..plan.nodes.len() as NodeId).filter(move |&at| plan.nodes[at as usize].parent == parent)
}

/// Bits of an integer, 64 when its length is variable; 0 for others.
pub(crate) fn bits_of(schema: &TraceSchema, class: FieldClassId) -> u32 {
    match &content(schema, class).kind {
        FieldKind::Integer(class) if class.is_variable_length() => 64,
        FieldKind::Integer(class) => class.len_bits,
        FieldKind::BitArray(class) | FieldKind::BitMap(class) => class.len_bits,
        _ => 0,
    }
}
