//! How the nodes of plans are written: tables for the encoder.

use std::collections::HashMap;

use tracemill_codec::encode::Encode;
use tracemill_codec::plan::Plan;
use tracemill_model::schema::{ArrayClass, BlobClass, ByteOrder, Encoding, FieldKind, Length, PathStep, Schema, Scope};

use super::Dialect;
use tracemill_format::redact::FieldPlace;
use tracemill_format::redact::{Dropped, owner_of};

/// How fields are written, by stream or event class, scope and place.
pub(super) type Special = HashMap<(u32, Scope, Vec<PathStep>), Encode>;

/// How the nodes of a plan are written: what the mapper of the classes has decided. `scopes` are those of the plan's sections.
pub(super) fn encodes(mapped: &Mapped<'_>, plan: &Plan, owner: (u32, u32), scopes: &[Scope]) -> Box<[Encode]> {
    let mut table = vec![Encode::Parts; plan.nodes.len()];
    let mut places: Vec<(Scope, Vec<PathStep>)> = vec![(Scope::PacketHeader, Vec::new()); plan.nodes.len()];
    let mut parts = vec![0u32; plan.nodes.len()];
    // For each node, the way down to it, and whether it is hidden.
    let mut ways: Vec<(Vec<u32>, bool)> = vec![(Vec::new(), false); plan.nodes.len()];
    let mut is_dropped = vec![false; plan.nodes.len()];
    for (root, scope) in plan.roots.iter().zip(scopes) {
        if let Some(place) = root.and_then(|root| places.get_mut(root as usize)) {
            place.0 = *scope;
        }
    }
    for (at, node) in plan.nodes.iter().enumerate() {
        let parent = node.parent as usize;
        if parent != at {
            let index = parts[parent];
            parts[parent] += 1;
            let step = match mapped.schema.field_class(plan.nodes[parent].class).kind {
                FieldKind::Struct(_) => PathStep::Member(index),
                FieldKind::Variant(_) => PathStep::Option(index),
                FieldKind::Array(_) => PathStep::Element,
                _ => PathStep::Content,
            };
            let (scope, mut steps) = places[parent].clone();
            steps.push(step);
            places[at] = (scope, steps);
            let (mut way, is_hidden) = ways[parent].clone();
            way.push(index);
            let is_own = |field: &FieldPlace| field.class.0 == owner.1 && field.scope == scope && field.children == way;
            let is_hidden = is_hidden || mapped.hidden.iter().any(is_own);
            let is_own = || mapped.dropped.contains(&(owner_of(scope, owner), scope, way.clone()));
            is_dropped[at] = is_dropped[parent] || !mapped.dropped.is_empty() && is_own();
            ways[at] = (way, is_hidden);
        } else {
            let scope = places[at].0;
            ways[at].1 = mapped.hidden.iter().any(|field| field.is_all_of(owner.1, scope));
        }
        let (scope, steps) = &places[at];
        let special = mapped.special.get(&(owner_of(*scope, owner), *scope, steps.clone()));
        table[at] = match special {
            Some(encode) => *encode,
            None => encode_of(mapped, &mapped.schema.field_class(node.class).kind),
        };
        if ways[at].1 {
            table[at] = table[at].hidden();
        }
        if is_dropped[at] {
            table[at] = Encode::Nothing;
        }
    }
    table.into()
}

/// What is written for each node of a plan in events that end before it: zeros, of which there are as many as its fields
/// take at least. `None` for what may be absent anyway.
pub(super) fn fillers(schema: &Schema, plan: &Plan, nodes: &[Encode]) -> Box<[Option<Vec<u8>>]> {
    let mut sizes = vec![0usize; plan.nodes.len()];
    let mut parts: Vec<Vec<usize>> = vec![Vec::new(); plan.nodes.len()];
    for (at, node) in plan.nodes.iter().enumerate().filter(|(at, node)| node.parent as usize != *at) {
        parts[node.parent as usize].push(at);
    }
    // Parts stand behind what they are of.
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
    let fill = |(at, node): (usize, &tracemill_codec::plan::Node)| {
        let may_be_absent =
            matches!(schema.field_class(node.class).kind, FieldKind::Optional(_) | FieldKind::Rendered(_));
        // More than a field of an event can take.
        (!may_be_absent).then(|| vec![0; sizes[at].min(1 << 24)])
    };
    plan.nodes.iter().enumerate().map(fill).collect()
}

/// What [`encodes`] needs of a mapping.
pub(super) struct Mapped<'a> {
    pub dialect: Dialect,
    pub order: ByteOrder,
    pub schema: &'a Schema,
    pub special: &'a Special,
    pub hidden: &'a [FieldPlace],
    pub dropped: &'a Dropped,
}

fn encode_of(mapped: &Mapped<'_>, kind: &FieldKind) -> Encode {
    let order = mapped.order;
    let fixed = |len_bits: u32, signed: bool| match u8::try_from(len_bits) {
        Ok(len_bits) if len_bits <= 64 => Encode::Fixed { len_bits, order },
        _ => Encode::Wide { len_bits, order, signed },
    };
    let is_ctf2 = mapped.dialect == Dialect::Ctf2;
    match kind {
        FieldKind::Integer(class) if class.is_variable_length() && is_ctf2 => Encode::Leb,
        FieldKind::Integer(class) if class.is_variable_length() => Encode::Fixed { len_bits: 64, order },
        FieldKind::Integer(class) => fixed(class.len_bits, class.signed),
        FieldKind::BitArray(class) | FieldKind::BitMap(class) => fixed(class.len_bits, false),
        FieldKind::Boolean(_) => Encode::Boolean,
        FieldKind::Float(class) if class.len_bits == 32 => Encode::Float32(order),
        FieldKind::Float(_) => Encode::Float64(order),
        FieldKind::String(class) if class.encoding == Encoding::Ascii => Encode::Utf8(Encoding::Ascii),
        FieldKind::String(class) if is_ctf2 || class.encoding == Encoding::Utf8 => Encode::Text(class.encoding),
        FieldKind::String(class) => Encode::Utf8(class.encoding),
        FieldKind::Blob(_) => Encode::Bytes,
        FieldKind::Rendered(_) => Encode::Plain,
        _ => Encode::Parts,
    }
}
