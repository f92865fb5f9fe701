//! Prepared output of the fields of a class: the text before each value, and the form of the value.

use std::sync::Arc;

use tracemill_codec::layout::{self, DataFields, is_character};
use tracemill_codec::plan::{NodeId, Plan};
use tracemill_model::schema::{
    DisplayBase, Encoding, FieldClassId, FieldKind, FieldPath, IntegerClass, LabelList, OptionalClass, PathStep,
    Presence, Schema, Scope,
};

use super::options::Palette;
use super::words::name_text;
use tracemill_codec::text::out::{SmallTexts, TextPiece};

/// Output for each node of a plan.
///
/// Text that is known beforehand is gathered into what stands before the next value: the ends of structures, the
/// beginnings of scopes, commas and names. Inside arrays, variants and optional fields each mark is printed on its own.
pub(super) struct TextTable {
    pub(super) nodes: Vec<NodeText>,
    pub(super) palette: Palette,
    /// ` [0] = `, `, [1] = `: the texts before the first elements of arrays.
    pub(super) indexes: Vec<TextPiece>,
    /// Is any scope printed?
    pub(super) is_shown: bool,
    /// The array of characters that is open: where it begins in the line, and its bytes.
    pub(super) text_start: usize,
    pub(super) characters: Vec<u8>,
    /// Text after the last value.
    pub(super) tail: Vec<u8>,
}

/// Names that are printed: of scopes, and of the fields of each scope.
pub(super) struct SectionNames<'a> {
    pub(super) scope: bool,
    pub(super) fields: &'a [bool],
}

/// Elements whose index is prepared.
pub(super) const INDEXES: usize = 32;

pub(super) struct NodeText {
    /// Text before the value: comma, name.
    pub(super) before: TextPiece,
    pub(super) kind: TextForm,
    pub(super) visible: bool,
    /// A structure whose marks are printed with its neighbours.
    pub(super) is_folded: bool,
    /// Elements of this array show their index.
    pub(super) indexed: bool,
    /// Form of a value.
    pub(super) short: PlainForm,
}

/// The values that most fields are, without colour.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PlainForm {
    /// An integer in base 10.
    Decimal,
    /// An integer in base 16, when it has no sign.
    Hexadecimal,
    /// A text in UTF-8.
    Text,
    /// All others.
    No,
}

pub(super) enum TextForm {
    Decimal,
    Hexadecimal {
        mask: u64,
    },
    Octal {
        mask: u64,
    },
    Binary {
        len_bits: u32,
    },
    Enum(Box<EnumText>),
    Text(Encoding),
    Blob(Arc<str>),
    /// An 8-bit integer that is a character, in an array.
    Character,
    /// An array of those: its text is shown too when it can be.
    Characters,
    /// An optional field without marks of its own: most often it is there.
    Bare,
    /// A structure that is a list.
    Tuple,
    Other,
}

pub(super) struct EnumText {
    pub(super) class: LabelList,
    pub(super) base: TextForm,
    /// Text up to the number for small values: from `( ` to ` : container = `.
    pub(super) texts: SmallTexts,
    pub(super) palette: Palette,
}

impl TextTable {
    /// Prepares the nodes of a plan whose roots are `scopes`, those that are declared; `text` stands before them.
    pub(super) fn new(
        schema: &Schema,
        plan: &Plan,
        palette: Palette,
        data: &DataFields,
        scopes: &[(Scope, &str)],
        names: &SectionNames<'_>,
        text: Vec<u8>,
    ) -> Self {
        let has_array =
            plan.nodes.iter().any(|node| matches!(schema.field_class(node.class).kind, FieldKind::Array(_)));
        let index = |at: usize| TextPiece::new(format!("{} [{at}] = ", if at == 0 { "" } else { "," }));
        let indexes = if has_array { (0..INDEXES).map(index).collect() } else { Vec::new() };
        let mut builder =
            TextTableBuilder { schema, palette, data, names: false, nodes: Vec::with_capacity(plan.nodes.len()), text };
        let mut is_shown = false;
        for (section, root) in plan.roots.iter().enumerate() {
            let Some(root) = root else { continue };
            let (scope, scope_name) = scopes[section];
            let mut path = FieldPath { scope, steps: Vec::new() };
            builder.names = names.fields[section];
            let class = plan.nodes[*root as usize].class;
            let before = builder.text.len();
            let mut start = Vec::from(if is_shown { ", " } else { "" });
            if names.scope {
                start.extend_from_slice(name_text(palette, scope_name).as_bytes());
            }
            let shown = builder.field(class, &mut path, &start, true);
            if !shown {
                builder.text.truncate(before);
            }
            is_shown |= shown;
        }
        let TextTableBuilder { nodes, text, .. } = builder;
        TextTable { nodes, palette, indexes, is_shown, text_start: 0, characters: Vec::new(), tail: text }
    }

    /// The prepared text of an index of an array of integers, and the form of its elements.
    #[inline]
    pub(super) fn indexed(&self, array: NodeId, index: u64) -> Option<(&TextPiece, PlainForm)> {
        let [array, element, ..] = self.nodes.get(array as usize..)? else { return None };
        let piece = self.indexes.get(index as usize)?;
        (array.visible && array.indexed).then_some((piece, element.short))
    }
}

/// Walks a tree in the order in which the plan numbered its nodes.
pub(super) struct TextTableBuilder<'a> {
    pub(super) schema: &'a Schema,
    pub(super) palette: Palette,
    pub(super) data: &'a DataFields,
    pub(super) names: bool,
    pub(super) nodes: Vec<NodeText>,
    /// Text that waits for the next value.
    pub(super) text: Vec<u8>,
}

impl TextTableBuilder<'_> {
    /// Adds the nodes of a field; says whether it is visible. `folds` is false inside arrays, variants and optionals.
    fn field(&mut self, id: FieldClassId, path: &mut FieldPath, before: &[u8], folds: bool) -> bool {
        if !self.data.has(self.schema, id, path) {
            self.add_hidden(id);
            return false;
        }
        let class = self.schema.field_class(id);
        self.text.extend_from_slice(before);
        let is_folded = folds && matches!(class.kind, FieldKind::Struct(_));
        let before = if is_folded { TextPiece::new("") } else { TextPiece::new(std::mem::take(&mut self.text)) };
        let kind = self.kind(id);
        let short = match kind {
            TextForm::Decimal if self.palette.value.is_empty() => PlainForm::Decimal,
            TextForm::Hexadecimal { .. } if self.palette.value.is_empty() => PlainForm::Hexadecimal,
            TextForm::Text(Encoding::Utf8) if self.palette.value.is_empty() => PlainForm::Text,
            _ => PlainForm::No,
        };
        self.nodes.push(NodeText { before, kind, visible: true, is_folded, indexed: self.names, short });
        match &class.kind {
            FieldKind::Struct(structure) => {
                let (begin, end) = if structure.is_tuple() { (b'[', b" ]") } else { (b'{', b" }") };
                if is_folded {
                    self.text.push(begin);
                }
                let mut shown = 0;
                for (member_at, member) in structure.members.iter().enumerate() {
                    path.steps.push(PathStep::Member(member_at as u32));
                    let mut before = Vec::from(if shown > 0 { ", " } else { " " });
                    if self.names {
                        let Palette { field_name, reset, .. } = self.palette;
                        let name = self.schema.peer_name(member);
                        before.extend_from_slice(format!("{field_name}{name}{reset} = ").as_bytes());
                    }
                    shown += usize::from(self.field(member.class, path, &before, folds));
                    path.steps.pop();
                }
                if is_folded {
                    self.text.extend_from_slice(end);
                }
            }
            FieldKind::Array(array) => {
                path.steps.push(PathStep::Element);
                let element = self.nodes.len();
                self.field(array.element, path, b"", false);
                if is_character(self.schema, array.element) {
                    self.nodes[element].kind = TextForm::Character;
                    self.nodes[element].short = PlainForm::No;
                    self.nodes[element - 1].kind = TextForm::Characters;
                }
                path.steps.pop();
            }
            FieldKind::Optional(optional) => {
                path.steps.push(PathStep::Content);
                self.field(optional.content, path, b"", false);
                path.steps.pop();
            }
            FieldKind::Variant(variant) => {
                for (option_at, option) in variant.options.iter().enumerate() {
                    path.steps.push(PathStep::Option(option_at as u32));
                    self.field(option.class, path, b"", false);
                    path.steps.pop();
                }
            }
            _ => {}
        }
        true
    }

    fn add_hidden(&mut self, id: FieldClassId) {
        self.nodes.push(NodeText {
            before: TextPiece::new(""),
            kind: TextForm::Other,
            visible: false,
            is_folded: false,
            indexed: false,
            short: PlainForm::No,
        });
        for child in layout::children(self.schema.field_class(id)) {
            self.add_hidden(child);
        }
    }

    fn kind(&self, id: FieldClassId) -> TextForm {
        match &self.schema.field_class(id).kind {
            FieldKind::Integer(class) if class.mappings.is_some() => TextForm::Enum(Box::new(EnumText {
                class: class.label_list(),
                base: integer_kind(class),
                texts: SmallTexts::default(),
                palette: self.palette,
            })),
            FieldKind::Integer(class) => integer_kind(class),
            FieldKind::BitArray(_) | FieldKind::BitMap(_) => TextForm::Hexadecimal { mask: u64::MAX },
            FieldKind::String(class) => TextForm::Text(class.encoding),
            FieldKind::Rendered(_) => TextForm::Text(Encoding::Utf8),
            FieldKind::Blob(class) => TextForm::Blob(class.media_type.clone()),
            FieldKind::Optional(OptionalClass { presence: Presence::Unmarked(_), .. }) => TextForm::Bare,
            FieldKind::Struct(class) if class.is_tuple() => TextForm::Tuple,
            _ => TextForm::Other,
        }
    }
}

pub(super) fn integer_kind(class: &IntegerClass) -> TextForm {
    let len_bits = if class.is_variable_length() { 64 } else { class.len_bits };
    // Octal and hexadecimal show a negative number as its bits, rounded up to whole digits.
    let mask = |digit_bits: u32| match len_bits.next_multiple_of(digit_bits) {
        _ if len_bits >= 64 => u64::MAX,
        64.. => u64::MAX,
        bits => (1 << bits) - 1,
    };
    match class.base {
        DisplayBase::Decimal => TextForm::Decimal,
        DisplayBase::Hexadecimal => TextForm::Hexadecimal { mask: mask(4) },
        DisplayBase::Octal => TextForm::Octal { mask: if class.signed { mask(3) } else { u64::MAX } },
        DisplayBase::Binary => TextForm::Binary { len_bits },
    }
}
