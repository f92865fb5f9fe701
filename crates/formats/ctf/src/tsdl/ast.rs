//! The syntax tree of one top-level declaration. It borrows the metadata text and is dropped when resolved.

use std::borrow::Cow;

use tracemill_codec::text::Span;

/// An identifier, keyword or literal.
#[derive(Clone, Debug)]
pub(super) struct Word<'s> {
    /// Its value: escapes are replaced, quotes removed.
    pub(super) text: Cow<'s, str>,
    /// Where it is.
    pub(super) span: Span,
}

/// An expression.
#[derive(Clone, Debug)]
pub(super) enum Expr<'s> {
    /// A constant with its sign.
    Integer(i128, Span),
    /// Words joined by `.` or `->`; a single word or string is a path of one word.
    Path(Vec<Word<'s>>, Span),
    /// Legal, but nothing here gives it a meaning (`a[3]`).
    Other(Span),
}

impl Expr<'_> {
    /// Where it is.
    pub(super) fn span(&self) -> Span {
        match self {
            Expr::Integer(_, span) | Expr::Path(_, span) | Expr::Other(span) => *span,
        }
    }

    /// The words of a path with `.` between them.
    pub(super) fn dotted(&self) -> Option<Cow<'_, str>> {
        match self {
            Expr::Path(words, _) => match words.as_slice() {
                [word] => Some(Cow::Borrowed(&word.text)),
                words => Some(Cow::Owned(words.iter().map(|word| &*word.text).collect::<Vec<_>>().join("."))),
            },
            _ => None,
        }
    }
}

/// A type with its place.
#[derive(Clone, Debug)]
pub(super) struct TypeSpec<'s> {
    /// Its kind.
    pub(super) kind: SpecKind<'s>,
    /// Where it is.
    pub(super) span: Span,
}

/// Contents of a type specifier.
#[derive(Clone, Debug)]
pub(super) enum SpecKind<'s> {
    /// `integer { ... }`
    Integer(Vec<BlockItem<'s>>),
    /// `floating_point { ... }`
    Float(Vec<BlockItem<'s>>),
    /// `string`, `string { ... }`
    String(Vec<BlockItem<'s>>),
    /// `struct name { ... } align(n)`
    Struct(StructSpec<'s>),
    /// `variant name <tag> { ... }`
    Variant(VariantSpec<'s>),
    /// `enum name : container { ... }`
    Enum(EnumSpec<'s>),
    /// Words that name a type: `uint32_t`, `unsigned long`, `const char`.
    Name(Vec<Word<'s>>),
}

/// A structure.
#[derive(Clone, Debug)]
pub(super) struct StructSpec<'s> {
    /// The name after `struct`.
    pub(super) name: Option<Word<'s>>,
    /// Its declarations, when it is defined here.
    pub(super) body: Option<Vec<BlockItem<'s>>>,
    /// Argument of `align`.
    pub(super) align: Option<Expr<'s>>,
}

/// A variant.
#[derive(Clone, Debug)]
pub(super) struct VariantSpec<'s> {
    /// The name after `variant`.
    pub(super) name: Option<Word<'s>>,
    /// The path between `<` and `>`.
    pub(super) tag: Option<Expr<'s>>,
    /// Its declarations, when it is defined here.
    pub(super) body: Option<Vec<BlockItem<'s>>>,
}

/// An enumeration.
#[derive(Clone, Debug)]
pub(super) struct EnumSpec<'s> {
    /// The name after `enum`.
    pub(super) name: Option<Word<'s>>,
    /// The type after `:`.
    pub(super) container: Option<Box<TypeSpec<'s>>>,
    /// Its labels, when it is defined here.
    pub(super) body: Option<Vec<Enumerator<'s>>>,
}

/// One label of an enumeration.
#[derive(Clone, Debug)]
pub(super) struct Enumerator<'s> {
    /// The label.
    pub(super) label: Word<'s>,
    /// The value after `=`.
    pub(super) low: Option<Expr<'s>>,
    /// The value after `...`.
    pub(super) high: Option<Expr<'s>>,
}

/// The declarator after a type: pointers, a name, lengths.
#[derive(Clone, Debug)]
pub(super) struct Declarator<'s> {
    /// One entry for each `*`: is it `* const`?
    pub(super) pointers: Vec<bool>,
    /// The name, if any.
    pub(super) name: Option<Word<'s>>,
    /// The lengths between brackets, in the order of the text; `None` for `[]`.
    pub(super) lengths: Vec<Option<Expr<'s>>>,
    /// The width after `:`.
    pub(super) width: Option<Expr<'s>>,
    /// Where it is.
    pub(super) span: Span,
}

/// A declaration inside a block, a structure, a variant, or at the top level.
#[derive(Clone, Debug)]
pub(super) enum BlockItem<'s> {
    /// `type a, b[3];`
    Fields(TypeSpec<'s>, Vec<Declarator<'s>>),
    /// `typedef type a, b[3];`
    Typedef(TypeSpec<'s>, Vec<Declarator<'s>>),
    /// `typealias target := alias;`
    Alias(Box<Alias<'s>>),
    /// `left = right;`
    Assign(Expr<'s>, Expr<'s>),
    /// `left := type;`
    Define(Expr<'s>, TypeSpec<'s>),
}

/// A `typealias`.
#[derive(Clone, Debug)]
pub(super) struct Alias<'s> {
    /// The type that gets a name.
    pub(super) target: TypeSpec<'s>,
    /// Pointers and lengths of the target.
    pub(super) target_declarator: Declarator<'s>,
    /// The new name as it is looked up: words and pointers with single spaces.
    pub(super) name: String,
    /// Where the name is.
    pub(super) name_span: Span,
}

impl BlockItem<'_> {
    /// Where it is.
    pub(super) fn span(&self) -> Span {
        match self {
            BlockItem::Fields(spec, _) | BlockItem::Typedef(spec, _) => spec.span,
            BlockItem::Alias(alias) => alias.name_span,
            BlockItem::Assign(left, right) => left.span().to(right.span()),
            BlockItem::Define(left, spec) => left.span().to(spec.span),
        }
    }
}

/// The name of a pointer type: `struct page *`, `char * const`.
pub(super) fn pointer_name(mut base: String, pointers: &[bool]) -> String {
    for is_const in pointers {
        base.push_str(if *is_const { " * const" } else { " *" });
    }
    base
}
