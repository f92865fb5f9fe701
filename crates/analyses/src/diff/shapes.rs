//! Event classes by name, with the kinds of their fields: those that only one side has, and those that differ.

use std::collections::BTreeMap;

use tracemill_engine::session::Session;
use tracemill_model::schema::{EventClassId, FieldClassId, FieldKind, FieldPath, PathStep, Schema, Scope};

/// FieldShapes that are compared of a class.
const MAX_FIELDS: usize = 4096;

/// The scopes whose fields are those of events. Headers and contexts of packets belong to the format.
const SCOPES: [Scope; 3] = [Scope::CommonContext, Scope::SpecificContext, Scope::Payload];

/// A field: its kind, and how a format stores it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldShape {
    /// Its kind; of arrays with the kind of their elements.
    pub kind: String,
    /// Its size and sign, where it has some.
    pub encoding: String,
}

/// The fields of the events of a name, by path. Classes of one name count as one.
pub type FieldShapes = BTreeMap<String, FieldShape>;

/// The fields of all events that the traces of a session declare, by name of the event.
pub fn shapes(session: &Session) -> BTreeMap<String, FieldShapes> {
    let mut shapes: BTreeMap<String, FieldShapes> = BTreeMap::new();
    for trace in &session.traces {
        for (at, class) in trace.schema.events().iter().enumerate() {
            // Classes that stand for many names are known by those of their events.
            let Some(name) = class.name.as_deref().filter(|_| class.open_ids.is_none()) else { continue };
            let fields = shapes.entry(name.to_string()).or_default();
            visit_leaves(&trace.schema, EventClassId(at as u32), &SCOPES, &mut |leaf| {
                fields.entry(leaf.text).or_insert_with(|| shape(&trace.schema, leaf.class));
            });
        }
    }
    shapes
}

/// A field without members of its own.
pub(super) struct LeafField {
    /// Its path, as filters write it for plain names.
    pub(super) text: String,
    pub(super) path: FieldPath,
    pub(super) class: FieldClassId,
}

/// Shows the fields of a class that have no members, down the structures.
pub(super) fn visit_leaves(schema: &Schema, class: EventClassId, scopes: &[Scope], see: &mut dyn FnMut(LeafField)) {
    let mut left = MAX_FIELDS;
    for &scope in scopes {
        let path = FieldPath { scope, steps: Vec::new() };
        if let Some(root) = schema.scope_root(scope, class) {
            visit(schema, root, (scope.key(), path), &mut left, see);
        }
    }
}

fn visit(
    schema: &Schema,
    class: FieldClassId,
    (text, path): (&str, FieldPath),
    left: &mut usize,
    see: &mut dyn FnMut(LeafField),
) {
    match &schema.field_class(class).kind {
        FieldKind::Struct(structure) if !structure.is_tuple() => {
            for (member, at) in structure.members.iter().zip(0..) {
                let mut path = path.clone();
                path.steps.push(PathStep::Member(at));
                visit(schema, member.class, (&format!("{text}.{}", member.name), path), left, see);
            }
        }
        _ if *left > 0 => {
            *left -= 1;
            see(LeafField { text: text.to_string(), path, class });
        }
        _ => {}
    }
}

fn shape(schema: &Schema, class: FieldClassId) -> FieldShape {
    let kind = &schema.field_class(class).kind;
    let plain = |encoding: String| FieldShape { kind: kind.name().to_string(), encoding };
    match kind {
        FieldKind::Integer(integer) => {
            let sign = if integer.signed { "signed" } else { "unsigned" };
            plain(match integer.len_bits {
                0 => format!("{sign}, of variable length"),
                bits => format!("{sign}, {bits} bits"),
            })
        }
        // Bits without names are numbers to those who read them.
        FieldKind::BitArray(bits) => {
            FieldShape { kind: "integer".to_string(), encoding: format!("{} bits", bits.len_bits) }
        }
        FieldKind::BitMap(bits) | FieldKind::Boolean(bits) => plain(format!("{} bits", bits.len_bits)),
        FieldKind::Float(float) => plain(format!("{} bits", float.len_bits)),
        FieldKind::Array(array) => {
            let element = shape(schema, array.element);
            FieldShape { kind: format!("array of {}", element.kind), encoding: element.encoding }
        }
        // A field that may be absent is of the kind that it has where it is there.
        FieldKind::Optional(optional) => shape(schema, optional.content),
        // Texts that are made when they are shown are texts to those who read them.
        FieldKind::Rendered(_) => FieldShape { kind: "string".to_string(), encoding: "rendered".to_string() },
        _ => plain(String::new()),
    }
}

/// Events and fields that differ.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct SchemaDifference {
    /// Events that occur on one side, and that the other one does not even declare, by side.
    pub only: [Vec<String>; 2],
    /// FieldShapes that differ, of events that both sides declare and one of them has.
    pub fields: Vec<FieldDifference>,
    /// How many fields are stored otherwise, though they are of one kind.
    pub stored_otherwise: Vec<FieldDifference>,
}

/// A field that only one side has, or of which the sides differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldDifference {
    /// The event.
    pub event: String,
    /// The path.
    pub field: String,
    /// The field of each side.
    pub sides: [Option<FieldShape>; 2],
}

/// Compares what both sides declare. `occurs` says of a name whether each side has such events.
pub fn compare_shapes(
    a: &BTreeMap<String, FieldShapes>,
    b: &BTreeMap<String, FieldShapes>,
    occurs: impl Fn(&str) -> [bool; 2],
) -> SchemaDifference {
    let mut found = SchemaDifference::default();
    for (event, of_a) in a {
        let Some(of_b) = b.get(event).filter(|_| occurs(event) != [false; 2]) else { continue };
        let paths = of_a.keys().chain(of_b.keys().filter(|path| !of_a.contains_key(*path)));
        for path in paths {
            let sides = [of_a.get(path), of_b.get(path)].map(|shape| shape.cloned());
            let list = match &sides {
                [Some(a), Some(b)] if a == b => continue,
                [Some(a), Some(b)] if a.kind == b.kind => &mut found.stored_otherwise,
                _ => &mut found.fields,
            };
            list.push(FieldDifference { event: event.clone(), field: path.clone(), sides });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(list: &[(&str, &str, &str)]) -> FieldShapes {
        let shape = |kind: &str, encoding: &str| FieldShape { kind: kind.into(), encoding: encoding.into() };
        list.iter().map(|(path, kind, encoding)| (path.to_string(), shape(kind, encoding))).collect()
    }

    #[test]
    fn fields_differ_by_name_kind_and_encoding() {
        let a = fields(&[("payload.a", "integer", "32"), ("payload.b", "string", ""), ("payload.c", "float", "32")]);
        let b = fields(&[("payload.a", "integer", "64"), ("payload.b", "integer", "8"), ("payload.d", "float", "32")]);
        let [a, b] = [a, b].map(|fields| BTreeMap::from([("e".to_string(), fields.clone()), ("never".into(), fields)]));
        let found = compare_shapes(&a, &b, |name| [name == "e", false]);
        let names = |list: &[FieldDifference]| list.iter().map(|one| one.field.clone()).collect::<Vec<_>>();
        assert_eq!(names(&found.fields), ["payload.b", "payload.c", "payload.d"]);
        assert_eq!(names(&found.stored_otherwise), ["payload.a"]);
        assert!(found.fields.iter().all(|one| one.event == "e"));
        assert_eq!(compare_shapes(&a, &a, |_| [true; 2]), SchemaDifference::default());
    }
}
