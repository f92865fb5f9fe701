//! Schemas whose fields stand on whole bytes, as [`tracemill_codec::encode`] writes them: the rules that redaction and the
//! writers of CTF share. What a field with parts becomes is for each of them to say.

use tracemill_codec::encode::Encode;
use tracemill_codec::plan::Plan;
use tracemill_model::schema::{
    BitsClass, ByteOrder, FieldClass, FieldClassId, FieldKind, FloatClass, IntegerClass, PathStep, Schema, Scope,
};

/// The owner of a scope: a stream class or an event class, of the two that are given.
pub fn owner_of(scope: Scope, (stream, event): (u32, u32)) -> u32 {
    match scope {
        Scope::PacketHeader => 0,
        Scope::PacketContext | Scope::EventHeader | Scope::CommonContext => stream,
        Scope::SpecificContext | Scope::Payload => event,
    }
}

/// An integer class in another order of bytes.
pub fn integer(class: &IntegerClass, byte_order: ByteOrder) -> IntegerClass {
    IntegerClass { byte_order, reversed_bits: false, ..class.clone() }
}

/// A class of bits in another order of bytes.
pub fn bits(class: &BitsClass, byte_order: ByteOrder) -> BitsClass {
    BitsClass { byte_order, reversed_bits: false, ..class.clone() }
}

/// The class of floating point numbers of 32 or 64 bits that holds those of a class best.
pub fn float(class: &FloatClass, byte_order: ByteOrder) -> FloatClass {
    FloatClass::new(if class.len_bits == 32 { 32 } else { 64 }, byte_order)
}

/// Adds a class to a schema: leaves begin at whole bytes, others where their parts do.
pub fn add(schema: &mut Schema, kind: FieldKind) -> FieldClassId {
    let align_bits = match &kind {
        FieldKind::Struct(structure) => schema.struct_align_bits(&structure.members, 1),
        FieldKind::Array(array) => schema.field_class(array.element).align_bits,
        FieldKind::Optional(_) | FieldKind::Variant(_) => 1,
        _ => 8,
    };
    schema.add_field_class(FieldClass::new(kind, align_bits))
}

/// The encoding of the fields of a class in the layout of a remapped one of the same kind.
pub fn encode_of(kind: &FieldKind, order: ByteOrder) -> Encode {
    let fixed = |len_bits: u32, signed: bool| match u8::try_from(len_bits) {
        Ok(len_bits) if len_bits <= 64 => Encode::Fixed { len_bits, order },
        _ => Encode::Wide { len_bits, order, signed },
    };
    match kind {
        FieldKind::Integer(class) if class.is_variable_length() => Encode::Leb,
        FieldKind::Integer(class) => fixed(class.len_bits, class.signed),
        FieldKind::BitArray(class) | FieldKind::BitMap(class) => fixed(class.len_bits, false),
        FieldKind::Boolean(_) => Encode::Boolean,
        FieldKind::Float(class) if class.len_bits == 32 => Encode::Float32(order),
        FieldKind::Float(_) => Encode::Float64(order),
        FieldKind::String(class) => Encode::Text(class.encoding),
        FieldKind::Blob(_) => Encode::Bytes,
        _ => Encode::Parts,
    }
}

/// Scope and way down of each node of a plan; `scopes` are those of its sections.
pub fn places(schema: &Schema, plan: &Plan, scopes: &[Scope]) -> Vec<(Scope, Vec<PathStep>)> {
    let mut places = vec![(Scope::PacketHeader, Vec::new()); plan.nodes.len()];
    let mut parts = vec![0u32; plan.nodes.len()];
    for (root, scope) in plan.roots.iter().zip(scopes) {
        if let Some(place) = root.and_then(|root| places.get_mut(root as usize)) {
            place.0 = *scope;
        }
    }
    for (at, node) in plan.nodes.iter().enumerate() {
        let parent = node.parent as usize;
        if parent == at {
            continue;
        }
        let step = match schema.field_class(plan.nodes[parent].class).kind {
            FieldKind::Struct(_) => PathStep::Member(parts[parent]),
            FieldKind::Variant(_) => PathStep::Option(parts[parent]),
            FieldKind::Array(_) => PathStep::Element,
            _ => PathStep::Content,
        };
        parts[parent] += 1;
        let (scope, mut steps) = places[parent].clone();
        steps.push(step);
        places[at] = (scope, steps);
    }
    places
}
