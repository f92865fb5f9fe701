//! Fields found by their names, and the way from a path to a node of a plan or to a value.

use tracemill_codec::plan::{NodeId, Plan};
use tracemill_codec::value::Value;
use tracemill_model::schema::{FieldClassId, FieldKind, FieldPath, PathStep, Schema, Scope};

use crate::names;

/// The member of this name of the root structure of a scope, through an optional field to its content; `root` is the class
/// of that structure. In event headers also a member of what a conversion [stored](names::STORED).
pub fn member(schema: &Schema, scope: Scope, root: Option<FieldClassId>, name: &str) -> Option<FieldPath> {
    find(schema, scope, root, name, |_| true)
}

/// See [`member`]; `is_wanted` judges the kind of the field.
pub(crate) fn find(
    schema: &Schema,
    scope: Scope,
    root: Option<FieldClassId>,
    name: &str,
    is_wanted: impl Fn(&FieldKind) -> bool + Copy,
) -> Option<FieldPath> {
    let all = schema.members(root);
    for (at, member) in all.iter().enumerate().filter(|(_, member)| names::is_name(&member.name, name)) {
        let mut steps = vec![PathStep::Member(at as u32)];
        let mut kind = &schema.field_class(member.class).kind;
        while let Some((step, class)) = inner(kind) {
            steps.push(step);
            kind = &schema.field_class(class).kind;
        }
        if is_wanted(kind) {
            return Some(FieldPath { scope, steps });
        }
    }
    let at = all.iter().position(|member| scope == Scope::EventHeader && &*member.name == names::STORED)?;
    let mut inside = find(schema, scope, Some(all[at].class), name, is_wanted)?;
    inside.steps.insert(0, PathStep::Member(at as u32));
    Some(inside)
}

/// The field that a field is there for: the content of an optional one, and the array of a structure that holds its length besides.
fn inner(kind: &FieldKind) -> Option<(PathStep, FieldClassId)> {
    match kind {
        FieldKind::Optional(optional) => Some((PathStep::Content, optional.content)),
        FieldKind::Struct(pair) => match &pair.members[..] {
            [length, elements] if &*length.name == names::LENGTH && &*elements.name == names::ELEMENTS => {
                Some((PathStep::Member(1), elements.class))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Is it a number that names something?
pub(crate) fn is_integer(kind: &FieldKind) -> bool {
    matches!(kind, FieldKind::Integer(_))
}

/// Is it a text?
pub(crate) fn is_text(kind: &FieldKind) -> bool {
    matches!(kind, FieldKind::String(_) | FieldKind::Rendered(_))
}

/// The node of a field in a plan of its scope: of a packet context, of an event header, or of the contexts and the payload
/// of an event together.
pub fn node_of(plan: &Plan, path: &FieldPath) -> Option<NodeId> {
    let section = (path.scope as usize).saturating_sub(Scope::CommonContext as usize);
    let mut node = plan.roots.get(section).copied().flatten()?;
    for step in &path.steps {
        let child = if let PathStep::Member(at) = step { *at as usize } else { 0 };
        let parent = node;
        // Nodes stand in the order of the tree, parents first.
        let mut below = (parent + 1..plan.nodes.len() as NodeId).filter(|&at| plan.nodes[at as usize].parent == parent);
        node = below.nth(child)?;
    }
    Some(node)
}

/// The value of a field, of the values of its scope.
pub fn value_of<'v>(scope: &'v Value, path: &FieldPath) -> Option<&'v Value> {
    path.steps.iter().try_fold(scope, |value, step| match (step, value) {
        (PathStep::Member(at), Value::Struct(members)) => members.get(*at as usize).map(|(_, value)| value),
        // An optional field has the value of its content.
        (PathStep::Content, value) => Some(value),
        _ => None,
    })
}
