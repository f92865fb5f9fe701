//! From the values of an event to those of its definition.

use tracemill_codec::value::Value;
use tracemill_model::schema::{FieldClassId, FieldKind, Schema};

use crate::facilities::definitions::{FieldDefinition, TypeKind};

/// A value as the type of its field has it; counts fields that are absent where the type has no place for that.
pub(super) fn shape(kind: &TypeKind, value: Value, absent: &mut u64) -> Value {
    match (kind, value) {
        (TypeKind::Sequence(..), Value::Null) => Value::List(Vec::new()),
        (kind, Value::Null) => {
            *absent += 1;
            nothing(kind)
        }
        (TypeKind::Sequence(..), Value::Blob(bytes)) => {
            Value::List(bytes.into_iter().map(|byte| Value::Unsigned(byte.into())).collect())
        }
        (TypeKind::Sequence(_, element) | TypeKind::Array(_, element), Value::List(values)) => {
            Value::List(values.into_iter().map(|value| shape(&element.kind, value, absent)).collect())
        }
        (TypeKind::Sequence(_, element), value) => Value::List(vec![shape(&element.kind, value, absent)]),
        (TypeKind::Struct(fields), Value::Option(chosen, _, value)) => {
            let mut value = Some(*value);
            let option = |(at, field): (usize, &FieldDefinition)| {
                let own = (at == chosen).then(|| value.take()).flatten();
                let element = if let TypeKind::Sequence(_, element) = &field.class.kind { Some(element) } else { None };
                let values = own.zip(element).map(|(value, element)| vec![shape(&element.kind, value, absent)]);
                (field.name.clone(), Value::List(values.unwrap_or_default()))
            };
            Value::Struct(fields.iter().enumerate().map(option).collect())
        }
        (TypeKind::Struct(fields), value @ (Value::Struct(_) | Value::List(_))) => {
            let values = fields.iter().zip(value.into_parts());
            let member = |(of, value): (&FieldDefinition, _)| (of.name.clone(), shape(&of.class.kind, value, absent));
            Value::Struct(values.map(member).collect())
        }
        // An optional field that has the place of one that is not.
        (
            TypeKind::Integer(_) | TypeKind::Enumeration(_) | TypeKind::Float(_) | TypeKind::String,
            Value::List(mut values),
        ) => shape(kind, values.pop().unwrap_or_default(), absent),
        (TypeKind::String, Value::Wide(value)) => {
            Value::Text(value.to_i128().map_or("?".into(), |value| value.to_string()).into())
        }
        (_, value) => value,
    }
}

/// Brings texts to UTF-8, counts those with a zero inside, and makes lists of optional fields.
pub(super) fn in_utf8(schema: &Schema, class: FieldClassId, value: &mut Value, truncated: &mut u64) {
    match (&schema.field_class(class).kind, value) {
        (FieldKind::String(string), Value::Text(bytes)) => {
            if string.encoding.unit_bytes() > 1 {
                *bytes = string.encoding.to_utf8(bytes).into_bytes();
            }
            *truncated += u64::from(bytes.contains(&0));
        }
        (FieldKind::Rendered(_), Value::Text(bytes)) => *truncated += u64::from(bytes.contains(&0)),
        (FieldKind::Optional(optional), value) => {
            // As many elements as there are fields: an array that is there is one of them.
            let content = match std::mem::take(value) {
                Value::Null => Vec::new(),
                mut content => {
                    in_utf8(schema, optional.content, &mut content, truncated);
                    vec![content]
                }
            };
            *value = Value::List(content);
        }
        (FieldKind::Struct(structure), Value::Struct(members)) => {
            for (member, (_, value)) in structure.members.iter().zip(members) {
                in_utf8(schema, member.class, value, truncated);
            }
        }
        (FieldKind::Struct(structure), Value::List(values)) => {
            for (member, value) in structure.members.iter().zip(values) {
                in_utf8(schema, member.class, value, truncated);
            }
        }
        (FieldKind::Array(array), Value::List(values)) => {
            values.iter_mut().for_each(|value| in_utf8(schema, array.element, value, truncated));
        }
        (FieldKind::Variant(variant), Value::Option(at, _, value)) => {
            if let Some(option) = variant.options.get(*at) {
                in_utf8(schema, option.class, value, truncated);
            }
        }
        _ => {}
    }
}

/// The value that stands for a field that is absent.
fn nothing(kind: &TypeKind) -> Value {
    match kind {
        TypeKind::Integer(_) | TypeKind::Enumeration(_) => Value::Unsigned(0),
        TypeKind::Float(_) => Value::Real(0.0),
        TypeKind::String => Value::Text(Vec::new()),
        TypeKind::Sequence(..) => Value::List(Vec::new()),
        TypeKind::Array(len, element) => Value::List((0..*len).map(|_| nothing(&element.kind)).collect()),
        TypeKind::Struct(fields) | TypeKind::Union(fields) => {
            Value::Struct(fields.iter().map(|field| (field.name.clone(), nothing(&field.class.kind))).collect())
        }
    }
}
