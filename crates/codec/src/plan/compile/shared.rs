//! Knowledge from outside of a scope: the alignment of its beginning, and its fields that other scopes refer to.

use std::collections::HashMap;

use tracemill_model::schema::{ByteOrder, FieldClassId, FieldKind, FieldPath, PathStep, Schema, Scope};

use super::MAX_SLOTS;
use crate::layout;

/// Knowledge of a position: it is `residue` modulo `2^log2` bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KnownAlignment {
    log2: u8,
    residue: u64,
}

/// Alignments above 2^16 bits are not tracked.
const MAX_LOG2: u8 = 16;

impl KnownAlignment {
    /// An unknown position.
    pub const NOTHING: KnownAlignment = KnownAlignment { log2: 0, residue: 0 };

    /// The start of a packet.
    pub const START: KnownAlignment = KnownAlignment { log2: MAX_LOG2, residue: 0 };

    /// A position that is a multiple of `align_bits`.
    pub fn aligned(align_bits: u32) -> Self {
        KnownAlignment { log2: (align_bits.trailing_zeros() as u8).min(MAX_LOG2), residue: 0 }
    }

    /// Knowledge of the position `bits` further on.
    pub(crate) fn advance(self, bits: u64) -> Self {
        KnownAlignment { residue: self.residue.wrapping_add(bits) & ((1 << self.log2) - 1), ..self }
    }

    /// Bits of padding up to a multiple of `align_bits`, when that is known.
    pub(super) fn padding(self, align_bits: u32) -> Option<u64> {
        let align = u64::from(align_bits);
        (align <= 1 << self.log2).then(|| self.residue.wrapping_neg() & (align - 1))
    }

    /// Knowledge of a position that is one of two.
    pub(crate) fn join(self, other: KnownAlignment) -> Self {
        let log2 = self.log2.min(other.log2).min((self.residue ^ other.residue).trailing_zeros() as u8);
        KnownAlignment { log2, residue: self.residue & ((1 << log2) - 1) }
    }

    /// Is the position a whole byte?
    pub fn is_byte(self) -> bool {
        self.log2 >= 3 && self.residue & 7 == 0
    }
}

/// Slots of the fields in scopes that several event classes share: headers and common contexts.
///
/// They are fixed for the whole trace, so that a packet header read once serves every event class.
///
/// Beside the slots of values there are those of marks: a mark is 1 when the optional field or the option of a variant
/// is there through which the path of a length or selector goes. Where integers of more than 64 bits can be met, each
/// value also has a slot that is 1 when it fits: what stands at the path in one class decides nothing in another, so
/// only who uses the value can refuse it.
#[derive(Clone, Debug, Default)]
pub struct SharedSlots {
    pub(super) slots: HashMap<FieldPath, u16>,
    pub(super) marks: HashMap<FieldPath, u16>,
    pub(super) fits: HashMap<FieldPath, u16>,
    /// Can fields of two byte orders meet inside a byte?
    pub(crate) mixes_orders: bool,
}

impl SharedSlots {
    /// Finds every field of a shared scope that some class of the schema refers to. Linear in the schema.
    pub fn from_schema(schema: &Schema) -> Self {
        let mut shared = SharedSlots { mixes_orders: mixes_orders(schema), ..SharedSlots::default() };
        let has_wide = has_wide(schema);
        for at in 0..schema.field_class_count() {
            let class = schema.field_class(FieldClassId(at as u32));
            if let Some(path) = layout::reference(class)
                && path.scope <= Scope::CommonContext
                && shared.len() + path.steps.len() < MAX_SLOTS / 2
                && !shared.slots.contains_key(path)
            {
                shared.slots.insert(path.clone(), shared.len() as u16);
                if has_wide {
                    shared.fits.insert(path.clone(), shared.len() as u16);
                }
                // The fields that refer to it, and their places, are not known here: each step gets its mark.
                for mark in marks(path, None) {
                    let next = shared.len() as u16;
                    shared.marks.entry(mark).or_insert(next);
                }
            }
        }
        shared
    }

    /// Is there a slot for a field of the scope that is not among `except`?
    pub(crate) fn has_scope(&self, scope: Scope, except: &[FieldPath]) -> bool {
        self.slots.keys().any(|path| path.scope == scope && !except.contains(path))
    }

    /// The slot of a field.
    pub(crate) fn slot(&self, path: &FieldPath) -> Option<u16> {
        self.slots.get(path).copied()
    }

    /// The number of slots.
    pub fn len(&self) -> usize {
        self.slots.len() + self.marks.len() + self.fits.len()
    }

    /// Does no class refer to a shared scope?
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

/// Can fields of two byte orders meet inside a byte? In most traces they cannot, and nothing is checked.
pub(super) fn mixes_orders(schema: &Schema) -> bool {
    let classes = (0..schema.field_class_count()).map(|at| schema.field_class(FieldClassId(at as u32)));
    let (mut little, mut big, mut has_odd) = (false, false, false);
    for class in classes {
        if let Some((len_bits, order)) = layout::bit_field(&class.kind) {
            has_odd |= !len_bits.is_multiple_of(8);
            if !len_bits.is_multiple_of(8) || class.align_bits < 8 {
                little |= order == ByteOrder::Little;
                big |= order == ByteOrder::Big;
            }
        }
    }
    has_odd && little && big
}

/// Is there an integer that may have more than 64 bits?
fn has_wide(schema: &Schema) -> bool {
    (0..schema.field_class_count()).any(|at| is_wide(&schema.field_class(FieldClassId(at as u32)).kind))
}

/// Is it an integer that may have more than 64 bits?
pub(super) fn is_wide(kind: &FieldKind) -> bool {
    matches!(kind, FieldKind::Integer(integer) if integer.is_variable_length() || integer.len_bits > 64)
}

/// The optional fields and options through which `path` goes and `user` does not: they may be absent when the user is
/// there. From the first option on that is whatever was selected it is the field itself that may be absent.
pub(super) fn marks<'p>(path: &'p FieldPath, user: Option<&'p FieldPath>) -> impl Iterator<Item = FieldPath> + 'p {
    let end = selected_at(path).unwrap_or(path.steps.len());
    let steps = (0..path.steps.len()).filter_map(move |at| {
        let steps = &path.steps[..=at];
        let is_around = user.is_some_and(|user| user.scope == path.scope && user.steps.starts_with(steps));
        let may_be_absent = matches!(steps[at], PathStep::Option(_) | PathStep::Content) && !is_around && at < end;
        may_be_absent.then(|| FieldPath { scope: path.scope, steps: steps.to_vec() })
    });
    let joined = (end < path.steps.len()).then(|| path.clone());
    steps.chain(joined)
}

/// Index of the step of a path that goes through the selected option of a variant.
pub(super) fn selected_at(path: &FieldPath) -> Option<usize> {
    path.steps.iter().position(|step| matches!(step, PathStep::Selected(_)))
}
