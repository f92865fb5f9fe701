//! Fields as a tree of values, for those who look at few of them or write them in a way of their own.
//!
//! Slower than a visitor by an order of magnitude: for writers of formats whose records hold a handful of named fields,
//! and for tests.

use std::sync::Arc;

use tracemill_model::schema::{FieldKind, Scope};

use crate::bits::Wide;
use crate::chunk::EventRef;
use crate::plan::{DecoderState, Fault, NodeId, Plan, Visitor, VisitorCall};
use crate::trace_plans::TracePlans;

/// A field.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Value {
    /// Absent.
    #[default]
    Null,
    /// An unsigned integer, an enumeration by its value, bits as a number.
    Unsigned(u64),
    /// A signed integer.
    Signed(i64),
    /// An integer of more than 64 bits.
    Wide(Wide),
    /// A boolean.
    Boolean(bool),
    /// A floating point number.
    Real(f64),
    /// A string: its bytes, in the encoding of its class.
    Text(Vec<u8>),
    /// Bytes.
    Blob(Vec<u8>),
    /// The elements of an array, or the members of a tuple.
    List(Vec<Value>),
    /// A structure: names and fields.
    Struct(Vec<(Arc<str>, Value)>),
    /// A variant: the index of the option that was chosen, its name, the field.
    Option(usize, Option<Arc<str>>, Box<Value>),
}

impl Value {
    /// The member of this name, when it is a structure that has one.
    pub fn member(&self, name: &str) -> Option<&Value> {
        match self {
            Value::Struct(members) => members.iter().find(|(of, _)| &**of == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The number that it is, when it is an integer or a boolean.
    pub fn integer(&self) -> Option<i128> {
        match self {
            Value::Unsigned(value) => Some((*value).into()),
            Value::Signed(value) => Some((*value).into()),
            Value::Boolean(value) => Some((*value).into()),
            Value::Wide(value) => value.to_i128(),
            _ => None,
        }
    }

    /// The bytes of a string or blob.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Text(bytes) | Value::Blob(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The elements of a list.
    pub fn elements(&self) -> Option<&[Value]> {
        match self {
            Value::List(elements) => Some(elements),
            _ => None,
        }
    }

    /// The members of a structure without their names, or the elements of a list; none of anything else.
    pub fn into_parts(self) -> Vec<Value> {
        match self {
            Value::Struct(members) => members.into_iter().map(|(_, value)| value).collect(),
            Value::List(values) => values,
            _ => Vec::new(),
        }
    }

    /// Is it absent?
    pub fn is_null(&self) -> bool {
        *self == Value::Null
    }
}

macro_rules! from {
    ($($type:ty => $variant:ident),*) => {$(
        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Value::$variant(value.into())
            }
        }
    )*};
}

from!(u64 => Unsigned, u32 => Unsigned, i64 => Signed, i32 => Signed, f64 => Real, bool => Boolean);
from!(&str => Text, String => Text);

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(elements: Vec<T>) -> Self {
        Value::List(elements.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

impl EventRef<'_> {
    /// The fields of a scope of the event as a structure; `None` when the scope is not declared, and for the packet
    /// header.
    ///
    /// # Errors
    /// When a field cannot be decoded.
    pub fn values(&self, scope: Scope) -> Result<Option<Value>, Fault> {
        let packet = &self.chunk.packet;
        let plans = &packet.plans;
        if plans.schema().scope_root(scope, self.class()).is_none() {
            return Ok(None);
        }
        let mut state = DecoderState::default();
        match scope {
            Scope::PacketHeader => Ok(None),
            Scope::PacketContext => {
                let mut values = ValueBuilder::new(plans, plans.packet_context_rows(packet.packet.class));
                packet.visit_context(&mut values)?;
                Ok(values.values.pop())
            }
            Scope::EventHeader => {
                let mut values = ValueBuilder::new(plans, plans.header_rows(packet.packet.class));
                self.visit_header(&mut state, &mut values)?;
                Ok(values.values.pop())
            }
            _ => {
                let mut values = ValueBuilder::new(plans, plans.event_rows(self.class()));
                self.fields(&mut state).visit(scope, &mut state, &mut values)?;
                Ok(values.values.pop())
            }
        }
    }
}

/// Builds the tree of the fields that a plan shows.
struct ValueBuilder<'a> {
    plans: &'a TracePlans,
    plan: &'a Plan,
    /// Begun and not ended, with the number of values before it, and its option.
    open: Vec<(NodeId, usize, usize)>,
    /// Values that belong to what is open: each thing takes its own when it ends, so that it has as much room as it needs.
    values: Vec<Value>,
}

impl<'a> ValueBuilder<'a> {
    fn new(plans: &'a TracePlans, plan: &'a Plan) -> Self {
        ValueBuilder { plans, plan, open: Vec::with_capacity(4), values: Vec::with_capacity(8) }
    }

    fn push(&mut self, value: Value) {
        self.values.push(value);
    }

    fn begin(&mut self, node: NodeId, option: usize) {
        self.open.push((node, self.values.len(), option));
    }

    fn end(&mut self) {
        let Some((node, first, option)) = self.open.pop() else { return };
        let class = self.plan.nodes.get(node as usize).map(|node| self.plans.schema().field_class(node.class));
        let value = {
            let mut own = self.values.drain(first..);
            match class.map(|class| &class.kind) {
                Some(FieldKind::Struct(class)) if class.is_tuple() => Value::List(own.collect()),
                Some(FieldKind::Struct(class)) => {
                    Value::Struct(class.members.iter().map(|member| member.name.clone()).zip(own).collect())
                }
                Some(FieldKind::Variant(class)) => {
                    let name = class.options.get(option).and_then(|option| option.name.clone());
                    Value::Option(option, name, Box::new(own.next().unwrap_or(Value::Null)))
                }
                Some(FieldKind::Optional(_)) => own.next().unwrap_or(Value::Null),
                _ => Value::List(own.collect()),
            }
        };
        self.push(value);
    }
}

impl Visitor for ValueBuilder<'_> {
    fn any_call(&mut self, node: NodeId, shown: VisitorCall<'_>) {
        match shown {
            VisitorCall::Unsigned(value) => self.push(Value::Unsigned(value)),
            VisitorCall::Signed(value) => self.push(Value::Signed(value)),
            VisitorCall::Wide(value) => self.push(Value::Wide(value.clone())),
            VisitorCall::Boolean(value) => self.push(Value::Boolean(value)),
            VisitorCall::Real(value) => self.push(Value::Real(value)),
            VisitorCall::String(bytes) => self.push(Value::Text(bytes.to_vec())),
            VisitorCall::Blob(bytes) => self.push(Value::Blob(bytes.to_vec())),
            VisitorCall::BeginStruct | VisitorCall::BeginArray(_) | VisitorCall::BeginOptional => self.begin(node, 0),
            VisitorCall::BeginVariant(option) => self.begin(node, option),
            VisitorCall::EndStruct | VisitorCall::EndArray | VisitorCall::EndVariant | VisitorCall::EndOptional => {
                self.end()
            }
            VisitorCall::Element(_) => {}
            VisitorCall::Absent => self.push(Value::Null),
        }
    }
}
