//! Comparison of field classes by what they describe, whatever their ids are.

use std::collections::HashSet;

use tracemill_codec::layout;
use tracemill_model::schema::{EventClass, FieldClassId, FieldKind, IntegerClass, Schema, VariantClass};

/// Do both classes describe the same bytes and names? `with_labels` compares the labels of enumerations too.
pub(crate) fn is_same_class(a: &Schema, of_a: FieldClassId, b: &Schema, of_b: FieldClassId, with_labels: bool) -> bool {
    let mut stack = vec![(of_a, of_b)];
    // Types that share their parts double with every level when all uses are compared.
    let mut compared = HashSet::new();
    while let Some((of_a, of_b)) = stack.pop() {
        if !compared.insert((of_a, of_b)) {
            continue;
        }
        let (of_a, of_b) = (a.field_class(of_a), b.field_class(of_b));
        let (parts_a, parts_b) = (layout::children(of_a), layout::children(of_b));
        if of_a.align_bits != of_b.align_bits
            || of_a.roles != of_b.roles
            || layout::reference(of_a) != layout::reference(of_b)
            || parts_a.len() != parts_b.len()
            || !is_same_leaf(&of_a.kind, &of_b.kind, with_labels)
        {
            return false;
        }
        stack.extend(parts_a.into_iter().zip(parts_b));
    }
    true
}

/// Are both event classes of a schema declared alike?
pub(crate) fn is_same_event(schema: &Schema, a: &EventClass, b: &EventClass) -> bool {
    let is_same_root = |of_a: Option<FieldClassId>, of_b: Option<FieldClassId>| match (of_a, of_b) {
        (Some(of_a), Some(of_b)) => is_same_class(schema, of_a, schema, of_b, true),
        _ => of_a.is_none() && of_b.is_none(),
    };
    (&a.name, &a.namespace, &a.uid, a.log_level, &a.emf_uri) == (&b.name, &b.namespace, &b.uid, b.log_level, &b.emf_uri)
        && is_same_root(a.specific_context, b.specific_context)
        && is_same_root(a.payload, b.payload)
}

/// Are they equal apart from their parts?
fn is_same_leaf(a: &FieldKind, b: &FieldKind, with_labels: bool) -> bool {
    match (a, b) {
        (FieldKind::Integer(a), FieldKind::Integer(b)) => {
            let layout =
                |of: &IntegerClass| (of.len_bits, of.signed, of.byte_order, of.reversed_bits, of.mappings.is_some());
            layout(a) == layout(b) && (!with_labels || a.mappings == b.mappings)
        }
        (FieldKind::Struct(a), FieldKind::Struct(b)) => {
            a.members.iter().map(|member| &member.name).eq(b.members.iter().map(|member| &member.name))
        }
        (FieldKind::Variant(a), FieldKind::Variant(b)) => {
            let options = |of: &VariantClass| -> Vec<_> {
                of.options.iter().map(|option| (option.name.clone(), option.ranges.clone())).collect()
            };
            options(a) == options(b)
        }
        (FieldKind::Array(a), FieldKind::Array(b)) => a.length == b.length,
        (FieldKind::Optional(a), FieldKind::Optional(b)) => a.presence == b.presence,
        (FieldKind::String(a), FieldKind::String(b)) => {
            a.length == b.length && a.encoding.unit_bytes() == b.encoding.unit_bytes()
        }
        (a, b) => a == b,
    }
}
