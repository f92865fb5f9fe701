//! Types with their names resolved, before they get a place in a trace.
//!
//! A [`TsdlType`] is what a `typedef` stands for. It is shared by reference count; only when it is put under a scope
//! (`instance.rs`) do its relative paths become absolute ones. A type without paths inside is *closed*: it has the
//! same field class everywhere, which is remembered in the type.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use tracemill_codec::text::Span;
use tracemill_model::schema::{ClockId, FieldClassId, FloatClass, IntegerClass, Roles};

use crate::deep::MAX_LEVELS;

/// Deepest nesting of types in a field.
pub(super) const MAX_DEPTH: u16 = MAX_LEVELS as u16;

/// Structures with more members get a table of their names.
const INDEXED_MEMBERS: usize = 16;

/// A shared type.
pub(super) type TypeRef = Rc<TsdlType>;

/// A type.
#[derive(Clone, Debug)]
pub(super) struct TsdlType {
    /// Its kind.
    pub(super) kind: TypeKind,
    /// Effective alignment in bits.
    pub(super) align_bits: u32,
    /// Roles that the packet and event reader gives to it.
    pub(super) roles: Roles,
    /// Number of types from here down to the deepest leaf.
    pub(super) depth: u16,
    /// Are there paths inside?
    pub(super) is_open: bool,
    /// Length in bits from an aligned start, when it is always the same.
    pub(super) len_bits: Option<u64>,
    /// Clocks that integers inside update.
    pub(super) clocks: Clocks,
    /// The field class of a closed type, once it has one.
    pub(super) class: Cell<Option<FieldClassId>>,
}

/// Kind of a type.
#[derive(Clone, Debug)]
pub(super) enum TypeKind {
    /// Integer or enumeration.
    Integer(IntegerClass),
    /// Floating point number.
    Float(FloatClass),
    /// Null-terminated string.
    String,
    /// Structure.
    Struct(Rc<StructType>),
    /// Variant.
    Variant(Rc<VariantType>),
    /// Array of a known length.
    Array(TypeRef, u64),
    /// Array whose length is another field.
    Sequence(TypeRef, Rc<Reference>),
    /// A type that was defined inside the structure with this id: paths that leave the type go on looking there, not
    /// where the type is used (CTF 1.8.3, example in 4.2.2).
    Defined(u32, TypeRef),
}

/// A structure.
#[derive(Clone, Debug)]
pub(super) struct StructType {
    /// Identity of a structure body; copies with other roles keep it.
    pub(super) id: u32,
    /// Members in order.
    pub(super) fields: Rc<NamedFields>,
}

/// A variant.
#[derive(Clone, Debug)]
pub(super) struct VariantType {
    /// Path of its selector; none when the tag is still to come (`variant name <tag>`).
    pub(super) tag: Option<Rc<Reference>>,
    /// Options in order.
    pub(super) options: Rc<NamedFields>,
}

/// A member of a structure or an option of a variant.
#[derive(Clone, Debug)]
pub(super) struct TsdlField {
    /// Name without one leading underscore.
    pub(super) name: Arc<str>,
    /// Name as it is written.
    pub(super) raw_name: Arc<str>,
    /// Where the name is written.
    pub(super) span: Span,
    /// Its type.
    pub(super) ty: TypeRef,
}

/// Fields that are found by their raw names.
#[derive(Clone, Default, Debug)]
pub(super) struct NamedFields {
    list: Vec<TsdlField>,
    index: HashMap<Arc<str>, usize>,
    /// Where the last member ends, counted from the start of the structure.
    end_bits: Option<u64>,
    /// Alignment that the units of bit fields need.
    align_bits: u32,
}

impl NamedFields {
    /// The members of a structure, none yet: unlike those of a variant they have known places.
    pub(super) fn for_struct() -> NamedFields {
        NamedFields { end_bits: Some(0), ..NamedFields::default() }
    }

    /// Where the last member of a structure ends, in bits from the structure's start, when that is always the same.
    pub(super) fn end_bits(&self) -> Option<u64> {
        self.end_bits
    }

    /// Raises the alignment of the structure.
    pub(super) fn raise_alignment(&mut self, align_bits: u32) {
        self.align_bits = self.align_bits.max(align_bits);
    }

    /// Adds a field. The caller has checked that its raw name is new.
    pub(super) fn push(&mut self, field: TsdlField) {
        if self.list.len() == INDEXED_MEMBERS {
            self.index = self.list.iter().enumerate().map(|(at, field)| (field.raw_name.clone(), at)).collect();
        }
        if self.list.len() >= INDEXED_MEMBERS {
            self.index.insert(field.raw_name.clone(), self.list.len());
        }
        // The structure is aligned at least as each member, so padding can be counted from its start.
        self.end_bits = self
            .end_bits
            .zip(field.ty.len_bits)
            .and_then(|(end, len)| end.checked_next_multiple_of(u64::from(field.ty.align_bits))?.checked_add(len));
        self.list.push(field);
    }

    /// Index of the field with this raw name.
    pub(super) fn position(&self, raw_name: &str) -> Option<usize> {
        if self.list.len() > INDEXED_MEMBERS {
            return self.index.get(raw_name).copied();
        }
        self.list.iter().position(|field| &*field.raw_name == raw_name)
    }

    /// All fields, in order.
    pub(super) fn as_slice(&self) -> &[TsdlField] {
        &self.list
    }

    /// The first field with this display name.
    pub(super) fn by_display_name(&self, name: &str) -> Option<(usize, &TsdlField)> {
        self.list.iter().enumerate().find(|(_, field)| &*field.name == name)
    }

    /// These fields with other types, in the same order.
    pub(super) fn with_types(&self, types: Vec<TypeRef>) -> Rc<NamedFields> {
        let list = self.list.iter().zip(types).map(|(field, ty)| TsdlField { ty, ..field.clone() }).collect();
        Rc::new(NamedFields { list, index: self.index.clone(), end_bits: self.end_bits, align_bits: self.align_bits })
    }
}

/// A path as it is written in `[path]` or `<path>`.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    /// Its words.
    pub(super) words: Vec<Arc<str>>,
    /// Where it is.
    pub(super) span: Span,
}

impl Reference {
    /// The path as it is written.
    pub(super) fn text(&self) -> String {
        self.words.iter().map(|word| &**word).collect::<Vec<_>>().join(".")
    }
}

/// The clocks that the integers inside a type are mapped to: enough to find the one of a stream class, or two that
/// contradict each other.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Clocks {
    /// No integer is mapped.
    #[default]
    None,
    /// All mapped integers are mapped to this one.
    One(ClockId),
    /// At least these two.
    Two(ClockId, ClockId),
}

impl Clocks {
    /// The clocks of two types together.
    #[must_use]
    pub(super) fn and(self, other: Clocks) -> Clocks {
        match (self, other) {
            (Clocks::None, clocks) | (clocks, Clocks::None) => clocks,
            (Clocks::One(a), Clocks::One(b)) if a == b => self,
            (Clocks::One(a), Clocks::One(b)) => Clocks::Two(a, b),
            (Clocks::Two(..), _) => self,
            (_, Clocks::Two(..)) => other,
        }
    }
}

impl TsdlType {
    /// An integer or enumeration.
    pub(super) fn integer(class: IntegerClass, align_bits: u32) -> TsdlType {
        let clocks = class.clock.map_or(Clocks::None, Clocks::One);
        TsdlType { clocks, ..TsdlType::leaf(TypeKind::Integer(class), align_bits) }
    }

    /// A type without types inside.
    pub(super) fn leaf(kind: TypeKind, align_bits: u32) -> TsdlType {
        let len_bits = match &kind {
            TypeKind::Integer(class) => Some(u64::from(class.len_bits)),
            TypeKind::Float(class) => Some(u64::from(class.len_bits)),
            _ => None,
        };
        TsdlType {
            kind,
            len_bits,
            align_bits,
            roles: Roles::NONE,
            depth: 1,
            is_open: false,
            clocks: Clocks::None,
            class: Cell::new(None),
        }
    }

    /// A structure with a minimum alignment.
    pub(super) fn structure(id: u32, fields: Rc<NamedFields>, minimum_align_bits: u32) -> TsdlType {
        let minimum_align_bits = minimum_align_bits.max(fields.align_bits).max(1);
        let align = fields.list.iter().map(|field| field.ty.align_bits).fold(minimum_align_bits, u32::max);
        let len_bits = fields.end_bits;
        let parts = fields.list.iter().map(|field| &field.ty);
        let ty = TsdlType::leaf(TypeKind::String, align).with_parts(parts);
        TsdlType { len_bits, kind: TypeKind::Struct(Rc::new(StructType { id, fields })), ..ty }
    }

    /// A variant.
    pub(super) fn variant(tag: Option<Rc<Reference>>, options: Rc<NamedFields>) -> TsdlType {
        let ty = TsdlType::leaf(TypeKind::String, 1).with_parts(options.list.iter().map(|field| &field.ty));
        TsdlType { is_open: true, kind: TypeKind::Variant(Rc::new(VariantType { tag, options })), ..ty }
    }

    /// An array of a known length.
    pub(super) fn array(element: TypeRef, length: u64) -> TsdlType {
        let ty = TsdlType::leaf(TypeKind::String, element.align_bits).with_parts([&element]);
        TsdlType { len_bits: array_len_bits(&element, length), kind: TypeKind::Array(element, length), ..ty }
    }

    /// An array whose length is another field.
    pub(super) fn sequence(element: TypeRef, length: Rc<Reference>) -> TsdlType {
        let ty = TsdlType::leaf(TypeKind::String, element.align_bits).with_parts([&element]);
        TsdlType { is_open: true, kind: TypeKind::Sequence(element, length), ..ty }
    }

    /// A type that was defined inside the structure `home`.
    pub(super) fn defined(home: u32, inner: &TypeRef) -> TypeRef {
        match inner.kind {
            // The innermost mark decides, and a chain of typedefs must not become a chain of marks.
            TypeKind::Defined(..) => inner.clone(),
            _ => Rc::new(TsdlType { kind: TypeKind::Defined(home, inner.clone()), ..(**inner).clone() }),
        }
    }

    /// This type with the properties that it has of the types inside it.
    fn with_parts<'t>(mut self, types: impl IntoIterator<Item = &'t TypeRef>) -> TsdlType {
        for ty in types {
            self.depth = self.depth.max(ty.depth + 1);
            self.is_open |= ty.is_open;
            self.clocks = self.clocks.and(ty.clocks);
        }
        self
    }

    /// This type with more roles.
    pub(super) fn with_roles(&self, roles: Roles) -> TsdlType {
        TsdlType { roles, class: Cell::new(None), ..self.clone() }
    }

    /// The type behind the mark of its definition.
    pub(super) fn plain(&self) -> &TsdlType {
        match &self.kind {
            TypeKind::Defined(_, inner) => inner,
            _ => self,
        }
    }

    /// The integer, when it is one.
    pub(super) fn as_integer(&self) -> Option<&IntegerClass> {
        match &self.plain().kind {
            TypeKind::Integer(class) => Some(class),
            _ => None,
        }
    }

    /// The structure, when it is one.
    pub(super) fn as_struct(&self) -> Option<&Rc<StructType>> {
        match &self.plain().kind {
            TypeKind::Struct(structure) => Some(structure),
            _ => None,
        }
    }

    /// Is it a character that makes an array of it a string? The characters must follow each other without gaps.
    pub(super) fn is_text_character(&self) -> bool {
        self.align_bits == 8 && self.as_integer().is_some_and(|class| class.is_character && class.len_bits == 8)
    }

    /// Name of its kind, for messages.
    pub(super) fn noun(&self) -> &'static str {
        match &self.plain().kind {
            TypeKind::Integer(class) if class.mappings.is_some() => "an enumeration",
            TypeKind::Integer(class) if class.signed => "a signed integer",
            TypeKind::Integer(_) => "an integer",
            TypeKind::Float(_) => "a floating point number",
            TypeKind::String => "a string",
            TypeKind::Struct(_) => "a structure",
            TypeKind::Variant(_) => "a variant",
            TypeKind::Array(..) => "an array",
            TypeKind::Sequence(..) => "a sequence",
            TypeKind::Defined(..) => "a type",
        }
    }
}

/// Elements are aligned, but the last one is not padded.
fn array_len_bits(element: &TsdlType, length: u64) -> Option<u64> {
    let Some(gaps) = length.checked_sub(1) else {
        return Some(0);
    };
    let len = element.len_bits?;
    len.checked_next_multiple_of(u64::from(element.align_bits))?.checked_mul(gaps)?.checked_add(len)
}

/// Shared strings: the same names come back in thousands of event classes.
#[derive(Default, Debug)]
pub(super) struct SharedNames(HashSet<Arc<str>>);

impl SharedNames {
    /// The shared string with this text.
    pub(super) fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(name) = self.0.get(text) {
            return name.clone();
        }
        let name: Arc<str> = text.into();
        self.0.insert(name.clone());
        name
    }
}

/// A name of a type in a lexical scope.
#[derive(Clone, Debug)]
pub(super) struct Definition {
    /// The type.
    pub(super) ty: TypeRef,
    /// Where it was given the name.
    pub(super) span: Span,
}

/// Type names of nested lexical scopes (CTF 1.8.3, 7.3.1). Keys are written as in the text: `unsigned long`,
/// `struct page *`, `variant v`.
#[derive(Default, Debug)]
pub(super) struct TypeScopes {
    scopes: Vec<TypeScope>,
}

#[derive(Default, Debug)]
struct TypeScope {
    names: HashMap<String, Definition>,
    home: Option<u32>,
}

impl TypeScopes {
    /// Enters a scope; `home` is the structure whose body it is.
    pub(super) fn push(&mut self, home: Option<u32>) {
        let home = home.or_else(|| self.scopes.last().and_then(|scope| scope.home));
        self.scopes.push(TypeScope { names: HashMap::new(), home });
    }

    /// Leaves the innermost scope.
    pub(super) fn pop(&mut self) {
        self.scopes.pop();
    }

    /// Names a type in the innermost scope. Gives back the earlier definition when the name is taken there.
    pub(super) fn define(&mut self, name: String, definition: Definition) -> Option<Definition> {
        let scope = self.scopes.last_mut()?;
        if let Some(earlier) = scope.names.get(&name) {
            return Some(earlier.clone());
        }
        scope.names.insert(name, definition);
        None
    }

    /// The type of a name, from the innermost scope outwards.
    pub(super) fn find(&self, name: &str) -> Option<TypeRef> {
        for scope in self.scopes.iter().rev() {
            if let Some(definition) = scope.names.get(name) {
                return Some(match scope.home {
                    Some(home) if definition.ty.is_open => TsdlType::defined(home, &definition.ty),
                    _ => definition.ty.clone(),
                });
            }
        }
        None
    }

    /// All names that can be used here.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.scopes.iter().flat_map(|scope| scope.names.keys()).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn byte() -> TypeRef {
        Rc::new(TsdlType::integer(IntegerClass::unsigned(8), 8))
    }

    fn field(name: &str) -> TsdlField {
        TsdlField { name: name.into(), raw_name: name.into(), span: Span::default(), ty: byte() }
    }

    #[test]
    fn fields_are_found_in_small_and_large_structures() {
        for count in [3, INDEXED_MEMBERS, INDEXED_MEMBERS + 1, 100] {
            let mut fields = NamedFields::default();
            (0..count).for_each(|at| fields.push(field(&format!("f{at}"))));
            assert!((0..count).all(|at| fields.position(&format!("f{at}")) == Some(at)), "{count}");
            assert_eq!(fields.position("g"), None);
        }
    }

    #[test]
    fn inner_names_hide_outer_ones_and_end_with_their_scope() {
        let mut scopes = TypeScopes::default();
        scopes.push(None);
        assert!(scopes.define("t".into(), Definition { ty: byte(), span: Span::default() }).is_none());
        scopes.push(Some(1));
        let string = Rc::new(TsdlType::leaf(TypeKind::String, 8));
        assert!(scopes.define("t".into(), Definition { ty: string.clone(), span: Span::default() }).is_none());
        assert!(scopes.define("t".into(), Definition { ty: string, span: Span::default() }).is_some());
        assert_eq!(scopes.find("t").map(|ty| ty.noun()), Some("a string"));
        scopes.pop();
        assert_eq!(scopes.find("t").map(|ty| ty.noun()), Some("an integer"));
    }

    #[test]
    fn clocks_add_up() {
        let (a, b) = (Clocks::One(ClockId(0)), Clocks::One(ClockId(1)));
        assert_eq!(a.and(Clocks::None).and(a), a);
        assert_eq!(a.and(b).and(a), Clocks::Two(ClockId(0), ClockId(1)));
    }
}
