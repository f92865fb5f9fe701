//! Values of fields.

use std::borrow::Cow;
use std::fmt;

use tracemill_codec::bits::Wide;
use tracemill_codec::value::Value as Tree;
use tracemill_model::schema::{FieldClass, FieldClassId, FieldKind, Schema};

/// The value of a field. Displayed, a number is decimal and a text itself; for debugging, texts are quoted.
///
/// ```
/// # let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/traces/orders");
/// let traces = tracemill::open([demo])?;
/// let event = traces.events().filter("payload.id > 100")?.into_iter().next().expect("there is one")?;
/// let id = event.get("payload.id").expect("the filter asked for it");
/// assert!(id.as_u64() > Some(100));
/// assert_eq!(id.to_string(), id.as_i128().unwrap().to_string());
/// assert_eq!(id.as_str(), None);
/// # Ok::<(), tracemill::Error>(())
/// ```
#[derive(Clone)]
pub struct Value<'a> {
    data: Data<'a>,
    class: Option<(&'a Schema, FieldClassId)>,
}

#[derive(Clone)]
enum Data<'a> {
    Integer(i128),
    Wide(Cow<'a, Wide>),
    Real(f64),
    Boolean(bool),
    Text(Cow<'a, [u8]>),
    /// Bytes, an array, a structure.
    Tree(Cow<'a, Tree>),
}

impl<'a> Value<'a> {
    pub(crate) fn integer(value: i128, class: Option<(&'a Schema, FieldClassId)>) -> Self {
        Value { data: Data::Integer(value), class }
    }

    pub(crate) fn wide(value: &'a Wide, class: (&'a Schema, FieldClassId)) -> Self {
        Value { data: Data::Wide(Cow::Borrowed(value)), class: Some(class) }
    }

    pub(crate) fn real(value: f64, class: (&'a Schema, FieldClassId)) -> Self {
        Value { data: Data::Real(value), class: Some(class) }
    }

    pub(crate) fn boolean(value: bool, class: (&'a Schema, FieldClassId)) -> Self {
        Value { data: Data::Boolean(value), class: Some(class) }
    }

    pub(crate) fn text(value: impl Into<Cow<'a, [u8]>>, class: Option<(&'a Schema, FieldClassId)>) -> Self {
        Value { data: Data::Text(value.into()), class }
    }

    /// `None` for what is absent.
    pub(crate) fn tree(value: Cow<'a, Tree>, (schema, mut class): (&'a Schema, FieldClassId)) -> Option<Self> {
        while let FieldKind::Optional(optional) = &schema.field_class(class).kind {
            class = optional.content;
        }
        let data = match value {
            Cow::Borrowed(Tree::Text(text)) => Data::Text(Cow::Borrowed(text)),
            Cow::Borrowed(Tree::Wide(wide)) => Data::Wide(Cow::Borrowed(wide)),
            Cow::Owned(Tree::Text(text)) => Data::Text(Cow::Owned(text)),
            Cow::Owned(Tree::Wide(wide)) => Data::Wide(Cow::Owned(wide)),
            value => match &*value {
                Tree::Null => return None,
                Tree::Unsigned(value) => Data::Integer((*value).into()),
                Tree::Signed(value) => Data::Integer((*value).into()),
                Tree::Boolean(value) => Data::Boolean(*value),
                Tree::Real(value) => Data::Real(*value),
                _ => Data::Tree(value),
            },
        };
        Some(Value { data, class: Some((schema, class)) })
    }

    /// The integer that it is.
    pub fn as_i128(&self) -> Option<i128> {
        match &self.data {
            Data::Integer(value) => Some(*value),
            Data::Wide(value) => value.to_i128(),
            _ => None,
        }
    }

    /// The integer that it is, when that fits.
    pub fn as_i64(&self) -> Option<i64> {
        self.as_i128().and_then(|value| value.try_into().ok())
    }

    /// The integer that it is, when that fits.
    pub fn as_u64(&self) -> Option<u64> {
        self.as_i128().and_then(|value| value.try_into().ok())
    }

    /// The number that it is: a floating point number, or the one next to an integer.
    pub fn as_f64(&self) -> Option<f64> {
        match &self.data {
            Data::Real(value) => Some(*value),
            Data::Integer(value) => Some(*value as f64),
            _ => None,
        }
    }

    /// The boolean that it is.
    pub fn as_bool(&self) -> Option<bool> {
        match &self.data {
            Data::Boolean(value) => Some(*value),
            _ => None,
        }
    }

    /// The text that it is; `None` also for a text that is no UTF-8, which is still displayed.
    pub fn as_str(&self) -> Option<&str> {
        match &self.data {
            Data::Text(text) => std::str::from_utf8(text).ok(),
            _ => None,
        }
    }

    /// The bytes of a text or of a field of bytes.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match &self.data {
            Data::Text(text) => Some(text),
            Data::Tree(tree) => tree.bytes(),
            _ => None,
        }
    }

    /// The labels that an enumeration has for it, or the names of the flags that are set, in the order of their
    /// declaration.
    pub fn labels(&self) -> impl Iterator<Item = &'a str> {
        let value = self.as_i128();
        let mappings = match self.class.map(|(schema, class)| &schema.field_class(class).kind) {
            Some(FieldKind::Integer(integer)) => integer.mappings.as_deref(),
            Some(FieldKind::BitMap(bits)) => Some(&*bits.flags),
            _ => None,
        };
        let is_flags =
            self.class.is_some_and(|(schema, class)| matches!(schema.field_class(class).kind, FieldKind::BitMap(_)));
        let has = move |range: &(i128, i128), value: i128| match is_flags {
            true => (range.0.max(0)..=range.1.min(126)).any(|bit| value >> bit & 1 == 1),
            false => range.0 <= value && value <= range.1,
        };
        let matching = mappings
            .into_iter()
            .flatten()
            .filter(move |mapping| value.is_some_and(|value| mapping.ranges.iter().any(|range| has(range, value))));
        matching.map(|mapping| &*mapping.label)
    }

    /// The class of the field; `None` for what is no field, as the name of an event.
    pub fn class(&self) -> Option<&'a FieldClass> {
        self.class.map(|(schema, class)| schema.field_class(class))
    }

    /// The elements of an array, or the values of the members of a structure; nothing for everything else.
    pub fn elements(&self) -> impl Iterator<Item = Value<'_>> {
        self.children().map(|(_, value)| value)
    }

    /// The members of a structure with their names; an option that was chosen of a variant.
    pub fn members(&self) -> impl Iterator<Item = (&str, Value<'_>)> {
        self.children().filter_map(|(name, value)| Some((name?, value)))
    }

    /// The member of a structure.
    pub fn member(&self, name: &str) -> Option<Value<'_>> {
        self.members().find(|(of, _)| *of == name).map(|(_, value)| value)
    }

    fn children(&self) -> impl Iterator<Item = (Option<&str>, Value<'_>)> {
        let mut children: Vec<(Option<&str>, &Tree, FieldClassId)> = Vec::new();
        if let (Data::Tree(tree), Some((schema, class))) = (&self.data, self.class) {
            match (&**tree, &schema.field_class(class).kind) {
                (Tree::Struct(members), FieldKind::Struct(of)) => {
                    let of = members.iter().zip(&of.members);
                    children.extend(of.map(|((name, value), of)| (Some(&**name), value, of.class)));
                }
                (Tree::List(members), FieldKind::Struct(of)) => {
                    children.extend(members.iter().zip(&of.members).map(|(value, of)| (None, value, of.class)));
                }
                (Tree::List(elements), FieldKind::Array(of)) => {
                    children.extend(elements.iter().map(|value| (None, value, of.element)));
                }
                (Tree::Option(at, name, value), FieldKind::Variant(of)) => {
                    children.extend(of.options.get(*at).map(|option| (name.as_deref(), &**value, option.class)));
                }
                _ => {}
            }
        }
        let schema = self.class.map(|(schema, _)| schema);
        children
            .into_iter()
            .filter_map(move |(name, value, class)| Some((name, Value::tree(Cow::Borrowed(value), (schema?, class))?)))
    }

    fn write(&self, out: &mut fmt::Formatter<'_>, is_quoted: bool) -> fmt::Result {
        match &self.data {
            Data::Integer(value) => write!(out, "{value}"),
            Data::Wide(value) => out.write_str(&value.to_decimal()),
            Data::Real(value) => write!(out, "{value}"),
            Data::Boolean(value) => write!(out, "{value}"),
            Data::Text(text) if is_quoted => write!(out, "{:?}", String::from_utf8_lossy(text)),
            Data::Text(text) => out.write_str(&String::from_utf8_lossy(text)),
            Data::Tree(tree) => match &**tree {
                Tree::Blob(bytes) => bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}")),
                Tree::Struct(_) | Tree::Option(_, Some(_), _) => out.debug_map().entries(self.members()).finish(),
                _ => out.debug_list().entries(self.elements()).finish(),
            },
        }
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(out, false)
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(out, true)
    }
}
