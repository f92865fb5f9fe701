//! Syntax tree of v1.1 metadata. Two trees are equal when they say the same, wherever they stand.

use tracemill_codec::text::Span;

use super::super::cursor::{Spanned, UncomparedSpan};
use super::super::types::{HeaderForm, WrittenOrder};

/// A top-level declaration.
#[derive(Clone, Debug)]
pub(super) enum V11Declaration {
    Trace(TraceBlock),
    Section(SectionBlock),
    Event(EventBlock),
    Abstract(Spanned<String>, Body),
    Concrete(Spanned<String>, Body),
}

/// `trace { }`
#[derive(Clone, Debug)]
pub(super) struct TraceBlock {
    pub(super) session_id: Option<Spanned<i128>>,
}

/// `section { }`
#[derive(Clone, PartialEq, Debug)]
pub(super) struct SectionBlock {
    pub(super) name: Spanned<String>,
    pub(super) header: HeaderForm,
    pub(super) has_event_size: bool,
    pub(super) context: Option<TypeRef>,
}

/// `event { }`
#[derive(Clone, PartialEq, Debug)]
pub(super) struct EventBlock {
    pub(super) name: Spanned<String>,
    pub(super) id: Spanned<i128>,
    pub(super) section: Spanned<String>,
    pub(super) fields: TypeRef,
}

/// A name, or a type without one.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum TypeRef {
    Name(Spanned<String>),
    Body(Box<Body>),
}

impl TypeRef {
    pub(super) fn span(&self) -> Span {
        match self {
            TypeRef::Name(name) => name.span,
            TypeRef::Body(body) => body.span.value,
        }
    }
}

/// `{ attribute; ... }`: each attribute once.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Body {
    pub(super) span: UncomparedSpan,
    pub(super) parent: Option<Spanned<String>>,
    pub(super) size: Option<Spanned<i128>>,
    pub(super) align: Option<u32>,
    pub(super) unit_size: Option<u32>,
    pub(super) length: Option<Spanned<i128>>,
    pub(super) exp_dig: Option<Spanned<i128>>,
    pub(super) mant_dig: Option<Spanned<i128>>,
    pub(super) signed: Option<bool>,
    pub(super) byte_order: Option<WrittenOrder>,
    pub(super) is_ascii: Option<bool>,
    pub(super) elem_type: Option<TypeRef>,
    pub(super) length_type: Option<TypeRef>,
    pub(super) map: Option<Vec<(Spanned<String>, i128, i128)>>,
    pub(super) fields: Option<Vec<(Spanned<String>, TypeRef)>>,
}

impl Body {
    pub(super) fn new(span: Span) -> Self {
        Body { span: UncomparedSpan { value: span }, ..Body::default() }
    }
}
