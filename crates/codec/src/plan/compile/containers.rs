//! Instructions for arrays, variants and optionals.

use std::sync::Arc;

use tracemill_model::schema::{
    ByteOrder, FieldClass, FieldClassId, FieldKind, FieldPath, Length, PathStep, Placement, Range, Role, StructClass,
};

use super::super::{NodeId, Op, SelectTable};
use super::{Compiler, KnownAlignment, PlanMode};
use crate::layout;

impl Compiler<'_> {
    pub(super) fn array(&mut self, class: &FieldClass, element: FieldClassId, length: &Length, node: NodeId) {
        if self.effective_roles(class).has(Role::TraceUuid) {
            self.emit(Op::Uuid);
        }
        if let Some(slot) = self.saved_slot() {
            self.emit(Op::Place { slot });
        }
        let element_align = self.schema.field_class(element).align_bits;
        let fixed = if self.form.mode == PlanMode::Skip { self.fixed_element(element) } else { None };
        match (length, fixed) {
            (Length::Static(0), Some(_)) => return,
            (Length::Static(len), Some((stride, last))) => {
                let bits = (len - 1).saturating_mul(u64::from(stride)).saturating_add(u64::from(last));
                return self.advance(bits);
            }
            (length, Some((stride_bits, last_bits))) => {
                let len = self.length_slot(length, element_align);
                self.emit(Op::AdvanceBy { len, stride_bits, last_bits });
                // An empty array ends where it begins, any other after its last element.
                let one = self.at.known.advance(u64::from(last_bits));
                self.at.known = self.at.known.join(one).join(one.advance(u64::from(stride_bits)));
                return;
            }
            _ => {}
        }
        let counter = self.loop_slots();
        let len = match length {
            Length::Static(len) => {
                self.emit(Op::Set { slot: counter + 1, value: *len });
                counter + 1
            }
            length => self.length_slot(length, element_align),
        };
        let min_bits = layout::min_bits(self.schema, element).min(u64::from(u32::MAX)) as u32;
        if min_bits > 0 {
            self.emit(Op::Fit { node, len, min_bits });
        }
        if let Some((bytes, signed, big)) = self.plain_element(element) {
            self.emit(Op::Integers { node, len, bytes, signed, big });
            let parent = std::mem::replace(&mut self.at.parent, node);
            self.node(element, Arc::from(""));
            self.at.parent = parent;
            self.at.known = self.at.known.join(self.at.known.advance(u64::from(bytes) * 8));
            return;
        }
        let begin_array = self.next_op();
        let outermost = self.slots.loops == 0;
        self.emit(Op::BeginArray { node, len, counter, end: 0, outermost });
        self.slots.loops += 1;
        let begin = self.next_op();
        let before = self.at.known;
        // Elements follow each other at any position that is possible after one of them.
        self.at.known = match self.fixed_element(element) {
            Some((stride, last)) if stride == last => before.join(before.advance(u64::from(stride))),
            _ => KnownAlignment::NOTHING,
        };
        self.child(node, PathStep::Element, element, Arc::from(""));
        self.emit(Op::EndArray { node, counter, begin });
        self.slots.loops -= 1;
        let end = self.next_op();
        self.out.ops[begin_array as usize] = Op::BeginArray { node, len, counter, end, outermost };
        self.at.known = before.join(self.at.known);
    }

    /// Bytes, sign and order of elements that are whole integers on byte boundaries, one after the other, and that
    /// nothing depends on: such an array is one instruction of a row plan.
    fn plain_element(&mut self, element: FieldClassId) -> Option<(u8, bool, bool)> {
        let class = self.schema.field_class(element);
        let FieldKind::Integer(integer) = &class.kind else { return None };
        let is_whole = matches!(integer.len_bits, 8 | 16 | 32 | 64) && integer.len_bits % class.align_bits == 0;
        self.at.steps.push(PathStep::Element);
        let is_saved = self.saved_slot().is_some();
        self.at.steps.pop();
        let is_plain = is_whole && self.at.known.is_byte() && !integer.reversed_bits && !is_saved;
        (is_plain && self.form.mode == PlanMode::Row && self.effective_roles(class).is_empty()).then_some((
            integer.len_bits as u8 / 8,
            integer.signed,
            integer.byte_order == ByteOrder::Big,
        ))
    }

    /// Distance and size of the elements when all of them have the same fixed size. Elements without size are gone
    /// through one by one, since their number is limited.
    fn fixed_element(&self, element: FieldClassId) -> Option<(u32, u32)> {
        let bits = self.fixed_size(element, 0).filter(|&bits| bits > 0)?;
        let align = u64::from(self.schema.field_class(element).align_bits);
        let stride = bits.checked_next_multiple_of(align)?;
        Some((u32::try_from(stride).ok()?, u32::try_from(bits).ok()?))
    }

    /// Size of a class that begins `start` bits after a multiple of every alignment inside it, when it is fixed and
    /// nothing outside depends on its fields. Nested variable classes may depend on fields inside: not fixed then.
    fn fixed_size(&self, id: FieldClassId, start: u64) -> Option<u64> {
        let class = self.schema.field_class(id);
        if !self.effective_roles(class).is_empty() || class.placement != Placement::default() {
            return None;
        }
        let is_checked =
            |class: &FieldClass| layout::bit_field(&class.kind).is_some_and(|(bits, _)| !bits.is_multiple_of(8));
        if self.form.checks_orders && (is_checked(class) || class.align_bits < 8) {
            return None;
        }
        let aligned = start.checked_next_multiple_of(u64::from(class.align_bits))?;
        // A field inside is never needed from outside: a path that leads through an array means the element that is
        // being decoded, so its user is in the same element, and an element with such a user has no fixed size.
        match &class.kind {
            FieldKind::Struct(structure) => {
                let end = structure
                    .members
                    .iter()
                    .try_fold(aligned, |at, member| at.checked_add(self.fixed_size(member.class, at)?))?;
                Some(end - start)
            }
            FieldKind::Array(array) => {
                let Length::Static(len) = array.length else { return None };
                let bits = self.fixed_size(array.element, 0).filter(|&bits| bits > 0)?;
                let stride =
                    bits.checked_next_multiple_of(u64::from(self.schema.field_class(array.element).align_bits))?;
                let size = if len == 0 { 0 } else { stride.checked_mul(len - 1)?.checked_add(bits)? };
                Some(aligned.checked_add(size)? - start)
            }
            _ => Some(aligned.checked_add(layout::leaf_bits(class)?)? - start),
        }
    }

    pub(super) fn variant(
        &mut self,
        node: NodeId,
        selector: &FieldPath,
        ranges: Vec<(Range, u32)>,
        options: Vec<(FieldClassId, Arc<str>)>,
    ) {
        let slot = self.selector(selector);
        self.clear_joined();
        let marks: Vec<_> = (0..options.len()).map(|at| self.mark(PathStep::Option(at as u32))).collect();
        let table = self.out.tables.len() as u32;
        self.out.tables.push(SelectTable::new(self.selector_is_signed(selector), ranges));
        self.emit(Op::Select { node, slot, table });
        let before = self.at.known;
        let mut after: Option<KnownAlignment> = None;
        let (mut targets, mut jumps) = (Vec::new(), Vec::new());
        for (at, (class, name)) in options.into_iter().enumerate() {
            targets.push(self.next_op());
            self.at.known = before;
            if let Some(slot) = marks[at] {
                self.emit(Op::Set { slot, value: 1 });
            }
            self.child(node, PathStep::Option(at as u32), class, name);
            self.visit(Op::EndVariant { node });
            jumps.push(self.next_op());
            self.emit(Op::Jump { to: 0 });
            after = Some(after.map_or(self.at.known, |known| known.join(self.at.known)));
        }
        let end = self.next_op();
        for jump in jumps {
            self.out.ops[jump as usize] = Op::Jump { to: end };
        }
        self.out.tables[table as usize].targets = targets.into();
        self.at.known = after.unwrap_or(before);
    }

    /// An optional that is there unless a bit is set.
    pub(super) fn unmarked(&mut self, node: NodeId, selector: &FieldPath, index: u32, content: FieldClassId) {
        let element = match self.class_at(selector) {
            Some(FieldKind::Array(array)) => Some(&self.schema.field_class(array.element).kind),
            _ => None,
        };
        let is_big = matches!(element, Some(FieldKind::Integer(element)) if element.byte_order == ByteOrder::Big);
        let place = self.slots.values.get(selector).copied().filter(|_| element.is_some());
        let index = index.saturating_mul(2) | u32::from(is_big);
        let mark = self.mark(PathStep::Content);
        let unmarked = self.next_op();
        if let Some(place) = place {
            self.emit(Op::Unmarked { node, place, index, absent: 0 });
        } else if self.form.mode == PlanMode::Row {
            let (slot, table) = (self.loop_slots(), self.out.tables.len() as u32);
            self.out.tables.push(SelectTable::new(false, vec![((1, 1), 1)]));
            self.emit(Op::Set { slot, value: 1 });
            self.emit(Op::Optional { node, slot, table });
            self.out.tables[table as usize].targets = Box::new([0, 0]);
        }
        if let Some(slot) = mark {
            self.emit(Op::Set { slot, value: 1 });
        }
        let before = self.at.known;
        let absent = self.content(node, content);
        if let Some(place) = place {
            self.out.ops[unmarked as usize] = Op::Unmarked { node, place, index, absent };
            self.at.known = before.join(self.at.known);
        }
    }

    /// A structure: its members, and the padding after them.
    pub(super) fn structure(&mut self, class: &FieldClass, structure: &StructClass, node: NodeId) {
        self.visit(Op::BeginStruct { node });
        let has_base = self.has_bit_fields(class);
        if has_base {
            self.emit(Op::Base { slot: self.bases.first.saturating_add(self.bases.open) });
            self.bases.open += 1;
        }
        for (at, member) in structure.members.iter().enumerate() {
            self.child(node, PathStep::Member(at as u32), member.class, member.name.clone());
        }
        self.bases.open -= u16::from(has_base);
        self.visit(Op::EndStruct { node });
        let end_align = class.placement.end_align_bits;
        if end_align > 1 && self.form.mode == PlanMode::Row {
            // The structure is to blame when its padding does not fit.
            self.emit(Op::EndAlign { node, mask: end_align - 1 });
            self.at.known = KnownAlignment::aligned(end_align);
        } else {
            self.align(end_align);
        }
    }

    pub(super) fn optional(
        &mut self,
        node: NodeId,
        selector: &FieldPath,
        ranges: Vec<(Range, u32)>,
        content: FieldClassId,
    ) {
        let slot = self.selector(selector);
        let mark = self.mark(PathStep::Content);
        let table = self.out.tables.len() as u32;
        self.out.tables.push(SelectTable::new(self.selector_is_signed(selector), ranges));
        self.emit(Op::Optional { node, slot, table });
        let present = self.next_op();
        if let Some(slot) = mark {
            self.emit(Op::Set { slot, value: 1 });
        }
        let before = self.at.known;
        let absent = self.content(node, content);
        self.out.tables[table as usize].targets = Box::new([absent, present]);
        self.at.known = before.join(self.at.known);
    }

    /// The content of an optional, and where its absence goes on.
    fn content(&mut self, node: NodeId, content: FieldClassId) -> u32 {
        self.child(node, PathStep::Content, content, Arc::from(""));
        self.visit(Op::EndOptional { node });
        self.next_op()
    }
}
