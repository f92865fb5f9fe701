//! From a path to its place in an event class.

use std::sync::Arc;

use tracemill_codec::plan::{NodeId, Plan};
use tracemill_model::schema::{
    Encoding, EventClassId, FieldClassId, FieldKind, FieldPath, LabelList, Length, Mapping, PathStep, Schema, Scope,
    VariantOption,
};
use tracemill_semantics::cpu_field;

use super::syntax::{Path, PathHead, StepKind, SyntaxStep};

/// Where the value of a path comes from, for the events of one class.
#[derive(Clone, Debug)]
pub enum PathPlace {
    /// Nowhere.
    Absent,
    /// Something that is no field.
    Spine(PathHead),
    /// A field.
    Field(FieldPlace),
}

/// A field of an event class.
#[derive(Clone, Debug)]
pub struct FieldPlace {
    pub scope: Scope,
    /// The way down from the root: which child, and which element when the parent is an array.
    children: Vec<(u32, Option<u64>)>,
    pub class: FieldClassId,
}

impl FieldPlace {
    /// The way down from the root: which child, and which element of an array.
    pub(super) fn steps(&self) -> impl Iterator<Item = (usize, Option<u64>)> {
        self.children.iter().map(|&(child, element)| (child as usize, element))
    }

    /// The place of a field that is known by its path through members and optional fields.
    pub(super) fn resolve(schema: &Schema, event: EventClassId, path: &FieldPath) -> Option<FieldPlace> {
        let mut class = schema.scope_root(path.scope, event)?;
        let mut children = Vec::new();
        for step in &path.steps {
            let (child, below) = match (step, &schema.field_class(class).kind) {
                (PathStep::Member(at), FieldKind::Struct(of)) => (*at, of.members.get(*at as usize)?.class),
                (PathStep::Content, FieldKind::Optional(of)) => (0, of.content),
                _ => return None,
            };
            children.push((child, None));
            class = below;
        }
        Some(FieldPlace { scope: path.scope, children, class })
    }

    /// The way down from the root: which child. `None` when an element of an array is chosen on it.
    pub fn children(&self) -> Option<Vec<u32>> {
        self.children.iter().map(|&(child, element)| element.is_none().then_some(child)).collect()
    }
}

/// Kinds of values, by the values that they can be compared with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ComparableKind {
    Integer,
    /// An integer with labels or flags.
    Labelled,
    Real,
    Bool,
    Text,
    Time,
    /// A kind without comparisons: a blob, a structure, an array.
    Nothing(&'static str),
}

impl ComparableKind {
    /// The kind for people.
    pub(super) fn describe(self) -> &'static str {
        match self {
            ComparableKind::Integer => "an integer",
            ComparableKind::Labelled => "an integer with labels",
            ComparableKind::Real => "a floating point number",
            ComparableKind::Bool => "a boolean",
            ComparableKind::Text => "a string",
            ComparableKind::Time => "a time",
            ComparableKind::Nothing(what) => what,
        }
    }
}

/// How far a path goes in an event class that does not have it.
#[derive(Clone, Debug)]
pub(crate) struct Miss {
    /// Number of steps that were found; 0 also when the scope is not declared.
    pub found: usize,
    /// The class in which the next step was looked for, `None` when there is no such scope.
    pub inside: Vec<FieldClassId>,
}

/// Finds a path in an event class.
pub(crate) fn resolve(schema: &Schema, event: EventClassId, path: &Path) -> Result<PathPlace, Miss> {
    let class = schema.event(event);
    let nothing = || Miss { found: 0, inside: Vec::new() };
    let spine_if = |there: bool| if there { Ok(PathPlace::Spine(path.head)) } else { Err(nothing()) };
    let clock = schema.stream(class.stream).default_clock.map(|clock| schema.clock(clock));
    let has_time = clock.is_some_and(|clock| clock.frequency > 0) && !class.is_untimed;
    match path.head {
        PathHead::Name => spine_if(class.name.is_some() || class.open_ids.is_some()),
        PathHead::Id | PathHead::Stream | PathHead::StreamName | PathHead::Trace | PathHead::Beside { .. } => {
            spine_if(true)
        }
        PathHead::Ns | PathHead::Time => spine_if(has_time),
        PathHead::Cycles => spine_if(schema.has_cycles(event)),
        PathHead::Cpu if schema.stream(class.stream).has_cpu => spine_if(true),
        PathHead::Cpu => {
            let place = cpu_field(schema, class.stream).and_then(|path| FieldPlace::resolve(schema, event, &path));
            let place = place.filter(|place| kind(schema, place.class) == ComparableKind::Integer);
            place.map(PathPlace::Field).ok_or_else(nothing)
        }
        PathHead::Scope(scope) => walk(schema, scope, event, &path.steps).map(PathPlace::Field),
        PathHead::Context => search(schema, &PathHead::CONTEXTS, event, &path.steps),
        PathHead::Bare => {
            let [event_context, stream_context, packet_context] = PathHead::CONTEXTS;
            let scopes = [Scope::Payload, event_context, stream_context, packet_context];
            search(schema, &scopes, event, &path.steps)
        }
    }
}

/// The first of the scopes that has the first step decides.
fn search(schema: &Schema, scopes: &[Scope], event: EventClassId, steps: &[SyntaxStep]) -> Result<PathPlace, Miss> {
    let mut missed = Miss { found: 0, inside: Vec::new() };
    for &scope in scopes {
        match walk(schema, scope, event, steps) {
            Ok(place) => return Ok(PathPlace::Field(place)),
            Err(miss) if miss.found > 0 => return Err(miss),
            Err(mut miss) => missed.inside.append(&mut miss.inside),
        }
    }
    Err(missed)
}

fn walk(schema: &Schema, scope: Scope, event: EventClassId, steps: &[SyntaxStep]) -> Result<FieldPlace, Miss> {
    let root = schema.scope_root(scope, event);
    let mut class = root.ok_or(Miss { found: 0, inside: Vec::new() })?;
    let mut children = Vec::new();
    for (found, step) in steps.iter().enumerate() {
        class = content(schema, class, &mut children);
        let next = match (&schema.field_class(class).kind, &step.kind) {
            (FieldKind::Struct(structure), StepKind::Member(name)) => {
                let at = structure.members.iter().position(|member| member.name == *name);
                at.map(|at| (at, None, structure.members[at].class))
            }
            (FieldKind::Struct(structure), StepKind::Index(index)) if structure.is_tuple() => {
                let member = usize::try_from(*index).ok().and_then(|at| structure.members.get(at));
                member.map(|member| (*index as usize, None, member.class))
            }
            (FieldKind::Variant(variant), StepKind::Member(name)) => {
                let mut options = variant.options.iter().enumerate();
                options
                    .find(|(at, option)| option_name(*at, option) == *name)
                    .map(|(at, option)| (at, None, option.class))
            }
            (FieldKind::Array(array), StepKind::Index(index)) => {
                let is_inside = !matches!(array.length, Length::Static(length) if *index >= length);
                is_inside.then_some((0, Some(*index), array.element))
            }
            _ => None,
        };
        let Some((child, index, below)) = next else { return Err(Miss { found, inside: vec![class] }) };
        children.push((child as u32, index));
        class = below;
    }
    class = content(schema, class, &mut children);
    Ok(FieldPlace { scope, children, class })
}

/// Goes through optional fields: a path does not name them.
fn content(schema: &Schema, mut class: FieldClassId, children: &mut Vec<(u32, Option<u64>)>) -> FieldClassId {
    while let FieldKind::Optional(optional) = &schema.field_class(class).kind {
        children.push((0, None));
        class = optional.content;
    }
    class
}

/// The name of an option as JSON lines have it.
pub(super) fn option_name(at: usize, option: &VariantOption) -> Arc<str> {
    option.name.clone().unwrap_or_else(|| at.to_string().into())
}

/// The kind of the values of a class.
pub(super) fn kind(schema: &Schema, class: FieldClassId) -> ComparableKind {
    match &schema.field_class(class).kind {
        FieldKind::Integer(integer) if integer.mappings.is_some() => ComparableKind::Labelled,
        FieldKind::BitMap(_) => ComparableKind::Labelled,
        FieldKind::Integer(_) | FieldKind::BitArray(_) => ComparableKind::Integer,
        FieldKind::Boolean(_) => ComparableKind::Bool,
        FieldKind::Float(_) => ComparableKind::Real,
        FieldKind::String(_) | FieldKind::Rendered(_) => ComparableKind::Text,
        FieldKind::Blob(_) => ComparableKind::Nothing("a blob"),
        FieldKind::Struct(_) => ComparableKind::Nothing("a structure"),
        FieldKind::Array(_) => ComparableKind::Nothing("an array"),
        FieldKind::Optional(_) => ComparableKind::Nothing("an optional field"),
        FieldKind::Variant(_) => ComparableKind::Nothing("a variant"),
    }
}

impl PathPlace {
    /// The kind of the values, `None` when there are none.
    pub(super) fn kind(&self, schema: &Schema) -> Option<ComparableKind> {
        match self {
            PathPlace::Absent => None,
            PathPlace::Field(place) => Some(kind(schema, place.class)),
            PathPlace::Spine(
                PathHead::Name | PathHead::Trace | PathHead::StreamName | PathHead::Beside { is_text: true, .. },
            ) => Some(ComparableKind::Text),
            PathPlace::Spine(PathHead::Time) => Some(ComparableKind::Time),
            PathPlace::Spine(_) => Some(ComparableKind::Integer),
        }
    }

    /// Facts about the values that are known before any is read.
    pub(super) fn detail(&self, schema: &Schema) -> Detail {
        match self {
            PathPlace::Field(place) => place.detail(schema),
            _ => Detail::Plain,
        }
    }
}

/// Facts about the values of a field that are known before any is read.
#[derive(Clone, Debug)]
pub enum Detail {
    /// No facts.
    Plain,
    /// Labels of an enumeration.
    Labels(LabelList),
    /// Flags of a bit map.
    Flags(Arc<[Mapping]>),
    /// Encoding of a text.
    Text(Encoding),
    /// A structure, with members or without.
    Struct {
        /// Whether it has no members.
        is_empty: bool,
    },
}

impl FieldPlace {
    pub(super) fn detail(&self, schema: &Schema) -> Detail {
        match &schema.field_class(self.class).kind {
            FieldKind::Integer(integer) => match &integer.mappings {
                Some(_) => Detail::Labels(integer.label_list()),
                None => Detail::Plain,
            },
            FieldKind::BitMap(bits) => Detail::Flags(bits.flags.clone()),
            FieldKind::String(string) => Detail::Text(string.encoding),
            FieldKind::Rendered(_) => Detail::Text(Encoding::Utf8),
            FieldKind::Struct(structure) => Detail::Struct { is_empty: structure.members.is_empty() },
            _ => Detail::Plain,
        }
    }

    /// The node of the field in a plan, and the elements that must be chosen on the way: (array, index).
    pub(super) fn locate(&self, plan: &Plan, section: usize) -> Option<(NodeId, Vec<(NodeId, u64)>)> {
        let mut node = plan.roots.get(section).copied().flatten()?;
        let mut elements = Vec::new();
        for &(child, index) in &self.children {
            elements.extend(index.map(|index| (node, index)));
            let parent = node;
            // Nodes stand in the order of the tree, parents first.
            let mut below =
                (parent + 1..plan.nodes.len() as NodeId).filter(|&at| plan.nodes[at as usize].parent == parent);
            node = below.nth(child as usize)?;
        }
        Some((node, elements))
    }
}
