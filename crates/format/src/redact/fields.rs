//! The fields that are redacted: where they are, and which may not be.

use std::collections::HashSet;

use tracemill_codec::layout;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::{EventClassId, FieldClassId, FieldKind, FieldPath, PathStep, Schema, Scope};

use crate::remap::owner_of;

/// A field that is left out or whose values are hidden, with everything below it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FieldPlace {
    /// The class of the events.
    pub class: EventClassId,
    /// Where it is: a context or the payload.
    pub scope: Scope,
    /// The way down from the root: which child. The root itself, with all fields of the scope, when there is none.
    pub children: Vec<u32>,
}

impl FieldPlace {
    /// Is a field of a class inside it, or the field itself? `way` leads to that from the root of its scope.
    pub(super) fn holds(&self, class: u32, scope: Scope, way: &[u32]) -> bool {
        self.class.0 == class && self.scope == scope && way.starts_with(&self.children)
    }
}

/// Fields that are left out: their owners (see [`owner_of`]), scopes, and the way down to them.
pub(super) type Dropped = HashSet<(u32, Scope, Vec<u32>)>;

/// The child, by number, to which a step leads.
pub(super) fn child_of(step: &PathStep) -> u32 {
    match step {
        PathStep::Member(at) | PathStep::Option(at) | PathStep::Selected(at) => *at,
        PathStep::Element | PathStep::Content => 0,
    }
}

/// Refuses to hide values that others need for their lengths or kinds.
///
/// # Errors
/// When one of the fields has such a value.
pub(super) fn refuse_used_values(schema: &Schema, fields: &[FieldPlace]) -> Result<()> {
    refuse_used(schema, fields, "--anonymise cannot change it", |_| false)
}

/// Refuses fields that others need for their lengths or kinds. `is_gone` says which of the users do not count.
fn refuse_used(
    schema: &Schema,
    fields: &[FieldPlace],
    help: &str,
    is_gone: impl Fn(&(u32, Scope, Vec<u32>)) -> bool,
) -> Result<()> {
    for field in fields {
        let class = schema.event(field.class);
        let stream = schema.stream(class.stream);
        let roots = [
            (Scope::CommonContext, stream.common_context),
            (Scope::SpecificContext, class.specific_context),
            (Scope::Payload, class.payload),
        ];
        let mut stack: Vec<(Scope, Vec<u32>, FieldClassId)> =
            roots.into_iter().filter_map(|(scope, root)| Some((scope, Vec::new(), root?))).collect();
        while let Some((scope, way, id)) = stack.pop() {
            let place = (owner_of(scope, (class.stream.0, field.class.0)), scope, way);
            if is_gone(&place) {
                continue;
            }
            let user = schema.field_class(id);
            let path = layout::reference(user).filter(|path| path.scope == field.scope);
            if path.is_some_and(|path| leads_into(path, &field.children)) {
                let name = class.name.as_deref().unwrap_or_default();
                let message = format!("a field of `{name}` says the length or the kind of another one");
                return Err(Error::unsupported(message).with_help(help));
            }
            for (at, child) in layout::children(user).into_iter().enumerate() {
                let way = place.2.iter().copied().chain([at as u32]).collect();
                stack.push((scope, way, child));
            }
        }
    }
    Ok(())
}

/// The fields that are left out, by their owners.
///
/// # Errors
/// When others could not be read without one of them, or one is no member of a structure.
pub(super) fn droppable(schema: &Schema, fields: &[FieldPlace]) -> Result<Dropped> {
    let mut dropped = Dropped::new();
    let fields: Vec<FieldPlace> = fields.iter().map(|field| with_optionals(schema, field)).collect();
    for field in &fields {
        let class = schema.event(field.class);
        match parents(schema, field).last() {
            Some(Some(FieldKind::Struct(_))) => {}
            Some(_) => {
                let message = "only members of structures can be left out";
                return Err(Error::unsupported(message).with_help("name the field that holds it with --drop-field"));
            }
            None => {
                let message = format!("`{}` is not a field, but all of them", field.scope.key());
                return Err(Error::unsupported(message).with_help("name fields in it with --drop-field"));
            }
        }
        let owner = owner_of(field.scope, (class.stream.0, field.class.0));
        dropped.insert((owner, field.scope, field.children.clone()));
    }
    let help = "--drop-field cannot leave it out alone: drop the other field, too";
    refuse_used(schema, &fields, help, |place| dropped.contains(place))?;
    Ok(dropped)
}

/// A field together with the optionals of which it is the content.
fn with_optionals(schema: &Schema, field: &FieldPlace) -> FieldPlace {
    let parents = parents(schema, field);
    let kept = parents.iter().rposition(|parent| !matches!(parent, Some(FieldKind::Optional(_))));
    FieldPlace { children: field.children[..kept.map_or(0, |at| at + 1)].to_vec(), ..field.clone() }
}

/// The kinds of the fields on the way down to a field, the root of its scope first; `None` where there is no such field.
fn parents<'s>(schema: &'s Schema, field: &FieldPlace) -> Vec<Option<&'s FieldKind>> {
    let mut id = schema.scope_root(field.scope, field.class);
    let parents = field.children.iter().map(|child| {
        let parent = id.map(|id| schema.field_class(id));
        id = parent.and_then(|parent| layout::children(parent).into_iter().nth(*child as usize));
        parent.map(|parent| &parent.kind)
    });
    parents.collect()
}

/// Does a path end at a field or below it?
fn leads_into(path: &FieldPath, children: &[u32]) -> bool {
    let is_child = |(step, child): (&PathStep, &u32)| match step {
        PathStep::Member(at) | PathStep::Option(at) => at == child,
        // Any option may be the selected one.
        _ => true,
    };
    children.len() <= path.steps.len() && path.steps.iter().zip(children).all(is_child)
}
