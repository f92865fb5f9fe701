//! How the nodes of plans are written: tables for the encoder.

use std::collections::HashMap;

use tracemill_codec::encode::Encode;
use tracemill_codec::plan::{Plan, PlanNode};
use tracemill_model::schema::{ArrayClass, BlobClass, Encoding, FieldKind, Length, PathStep, Schema, Scope};

use super::Dialect;
use super::mapping::Mapping;
use tracemill_format::remap::{self, owner_of, places};

/// How fields are written, by stream or event class, scope and place.
pub(super) type Special = HashMap<(u32, Scope, Vec<PathStep>), Encode>;

/// How the nodes of a plan are written: what the mapper of the classes has decided. `scopes` are those of the plan's sections.
pub(super) fn encodes(mapping: &Mapping, plan: &Plan, owner: (u32, u32), scopes: &[Scope]) -> Box<[Encode]> {
    let encode = |(node, (scope, steps)): (&PlanNode, (Scope, Vec<PathStep>))| {
        let special = mapping.special.get(&(owner_of(scope, owner), scope, steps)).copied();
        special.unwrap_or_else(|| encode_of(mapping, &mapping.from.field_class(node.class).kind))
    };
    plan.nodes.iter().zip(places(&mapping.from, plan, scopes)).map(encode).collect()
}

/// Fillers for each node of a plan in events that end before it: zeros, of which there are as many as its fields take at
/// least. `None` for what may be absent anyway.
pub(super) fn fillers(schema: &Schema, plan: &Plan, nodes: &[Encode]) -> Box<[Option<Vec<u8>>]> {
    let mut sizes = vec![0usize; plan.nodes.len()];
    let mut parts: Vec<Vec<usize>> = vec![Vec::new(); plan.nodes.len()];
    for (at, node) in plan.nodes.iter().enumerate().filter(|(at, node)| node.parent as usize != *at) {
        parts[node.parent as usize].push(at);
    }
    // Parts stand after what they are of.
    for at in (0..plan.nodes.len()).rev() {
        let kind = &schema.field_class(plan.nodes[at].class).kind;
        let inside: usize = parts[at].iter().map(|part| sizes[*part]).sum();
        sizes[at] = nodes.get(at).map_or(0, |encode| encode.least_bytes())
            + match kind {
                FieldKind::Struct(_) => inside,
                FieldKind::Array(ArrayClass { length: Length::Static(len), .. }) => {
                    inside.saturating_mul(usize::try_from(*len).unwrap_or(usize::MAX))
                }
                FieldKind::Blob(BlobClass { length: Length::Static(len), .. }) => *len as usize,
                FieldKind::Variant(_) if matches!(nodes.get(at), Some(Encode::Tag { .. })) => {
                    parts[at].first().map_or(0, |part| sizes[*part])
                }
                _ => 0,
            };
    }
    let fill = |(at, node): (usize, &PlanNode)| {
        let may_be_absent =
            matches!(schema.field_class(node.class).kind, FieldKind::Optional(_) | FieldKind::Rendered(_));
        // More than a field of an event can take.
        (!may_be_absent).then(|| vec![0; sizes[at].min(1 << 24)])
    };
    plan.nodes.iter().enumerate().map(fill).collect()
}

fn encode_of(mapping: &Mapping, kind: &FieldKind) -> Encode {
    let is_ctf2 = mapping.dialect == Dialect::Ctf2;
    match kind {
        FieldKind::Integer(class) if class.is_variable_length() && !is_ctf2 => {
            Encode::Fixed { len_bits: 64, order: mapping.order }
        }
        FieldKind::String(class) if class.encoding == Encoding::Ascii => Encode::Utf8(Encoding::Ascii),
        FieldKind::String(class) if !is_ctf2 && class.encoding != Encoding::Utf8 => Encode::Utf8(class.encoding),
        FieldKind::Rendered(_) => Encode::Plain,
        kind => remap::encode_of(kind, mapping.order),
    }
}
