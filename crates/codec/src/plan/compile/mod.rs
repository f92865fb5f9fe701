//! From trees of field classes to flat lists of instructions.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tracemill_model::schema::{
    ByteOrder, FieldClass, FieldClassId, FieldKind, FieldOffset, FieldPath, IntegerClass, Length, OptionalClass,
    PathStep, Presence, RenderedClass, Role, Roles, Schema, Scope, StringLength,
};

mod containers;
mod leaves;
mod shared;

pub use shared::{KnownAlignment, SharedSlots};
use shared::{is_wide, marks, selected_at};

use super::{NodeId, Op, Plan, PlanNode, SelectTable};
use crate::layout;

/// The root structures of the six scopes, in the order of [`Scope::ALL`].
pub type ScopeRoots = [Option<FieldClassId>; 6];

/// Most slots of a plan; classes that need more cannot be met outside of attacks.
const MAX_SLOTS: usize = 60_000;

/// A slot that nothing sets: the mark of what is never there.
const NEVER: u16 = u16::MAX;

#[derive(Clone, Copy, PartialEq, Eq)]
enum PlanMode {
    Row,
    Skip,
}

/// Compiles the scopes of an event (or a packet) one after the other into one plan.
pub struct Compiler<'s> {
    schema: &'s Schema,
    roots: ScopeRoots,
    form: PlanForm,
    out: PlanParts,
    slots: Slots,
    bases: Bases,
    at: Position,
}

/// The form of the plan.
struct PlanForm {
    mode: PlanMode,
    /// Fields with a role are read for it.
    with_roles: bool,
    /// Structures that are always there have no marks.
    is_flat: bool,
    /// Fields of two byte orders may not meet inside a byte, and can.
    checks_orders: bool,
    can_mix_orders: bool,
}

/// The parts of the plan, as far as it is compiled.
#[derive(Default)]
struct PlanParts {
    ops: Vec<Op>,
    nodes: Vec<PlanNode>,
    tables: Vec<SelectTable>,
    renders: Vec<RenderedClass>,
    lengths: Vec<Arc<BTreeMap<u64, u64>>>,
    ends: Vec<u32>,
    root_nodes: Vec<Option<NodeId>>,
}

/// Numbers of the slots in which a run keeps values: those of values and marks first, then those of the loops around the
/// field that is being compiled.
struct Slots {
    values: HashMap<FieldPath, u16>,
    marks: HashMap<FieldPath, u16>,
    /// Slots that say that the value of a field fits 64 bits, for fields that may not.
    fits: HashMap<FieldPath, u16>,
    /// The fields with a slot which stand in the selected option of a variant.
    joined: Vec<FieldPath>,
    next: u16,
    count: u16,
    loops: u16,
}

/// Slots of the places of structures with bit-fields.
#[derive(Default)]
struct Bases {
    /// The slot of the outermost one.
    first: u16,
    /// Number of open ones, and the most that are open at once.
    open: u16,
    most: u16,
}

/// Position of the compiler: in the tree of classes, and in the bits of the packet.
struct Position {
    known: KnownAlignment,
    /// Bits to pass over that are not yet an instruction.
    pending: u64,
    /// How far after the beginning of the fields the position is, in bits, when a placed field was the last one.
    placed: Option<u64>,
    scope: Scope,
    steps: Vec<PathStep>,
    parent: NodeId,
    /// Arrays, variants and optionals around it.
    depth: u32,
}

impl<'s> Compiler<'s> {
    /// A compiler of a plan that calls a visitor for each field. `roots` are those of all six scopes, in the order of
    /// [`Scope::ALL`]; `known` is what is known of the position where the first scope that is added begins.
    pub fn row(schema: &'s Schema, shared: &SharedSlots, roots: ScopeRoots, known: KnownAlignment) -> Self {
        Compiler::new(schema, shared, roots, known, PlanMode::Row)
    }

    /// A compiler of a plan that only finds where the scopes end.
    pub fn skip(schema: &'s Schema, shared: &SharedSlots, roots: ScopeRoots, known: KnownAlignment) -> Self {
        Compiler::new(schema, shared, roots, known, PlanMode::Skip)
    }

    fn new(schema: &'s Schema, shared: &SharedSlots, roots: ScopeRoots, known: KnownAlignment, mode: PlanMode) -> Self {
        // Visits of single events come after a pass that has found them and checked the orders.
        let checks_orders = mode == PlanMode::Skip && shared.mixes_orders;
        let slots = Slots {
            values: shared.slots.clone(),
            marks: shared.marks.clone(),
            fits: shared.fits.clone(),
            joined: Vec::new(),
            next: shared.len() as u16,
            count: 0,
            loops: 0,
        };
        let (scope, steps) = (Scope::PacketHeader, Vec::new());
        let mut compiler = Compiler {
            schema,
            roots,
            form: PlanForm {
                mode,
                with_roles: true,
                is_flat: false,
                checks_orders,
                can_mix_orders: shared.mixes_orders,
            },
            out: PlanParts::default(),
            slots,
            bases: Bases::default(),
            at: Position { known, pending: 0, placed: None, scope, steps, parent: 0, depth: 0 },
        };
        for (scope, root) in Scope::ALL.into_iter().zip(roots) {
            if let Some(root) = root {
                compiler.find_references(root, &mut FieldPath { scope, steps: Vec::new() });
            }
        }
        compiler.slots.joined =
            compiler.slots.values.keys().filter(|path| selected_at(path).is_some()).cloned().collect();
        compiler.bases.first = compiler.slots.next;
        compiler.slots.next = compiler.slots.next.saturating_add(compiler.bases.most);
        compiler.slots.count = compiler.slots.next;
        compiler
    }

    /// Leaves roles and clock updates alone: for visits of events whose header was decoded before.
    #[must_use]
    pub fn without_roles(mut self) -> Self {
        self.form.with_roles = false;
        self
    }

    /// Refuses fields of two byte orders in a byte, as plans do that only find where scopes end.
    #[must_use]
    pub fn with_order_checks(mut self) -> Self {
        self.form.checks_orders = self.form.can_mix_orders;
        self
    }

    /// Leaves out the marks of structures outside of arrays, variants and optionals, for visitors that know the tree.
    #[must_use]
    pub fn flat(mut self) -> Self {
        self.form.is_flat = true;
        self
    }

    /// Adds a scope; one that is not declared adds an empty section.
    pub fn add(&mut self, scope: Scope) {
        self.at.scope = scope;
        self.at.placed = None;
        let root_node = self.roots[scope as usize].map(|_| self.out.nodes.len() as NodeId);
        self.out.root_nodes.push(root_node);
        self.clear_places(scope);
        if let Some(root) = self.roots[scope as usize] {
            self.at.parent = self.out.nodes.len() as NodeId;
            self.field(root, Arc::from(""));
        }
        self.flush();
        self.out.ends.push(self.out.ops.len() as u32);
    }

    /// The plan of some scopes, a section for each.
    pub fn plan(mut self, scopes: &[Scope]) -> Plan {
        scopes.iter().for_each(|&scope| self.add(scope));
        self.finish()
    }

    /// The finished plan.
    pub fn finish(mut self) -> Plan {
        self.flush();
        Plan {
            ops: self.out.ops.into(),
            tables: self.out.tables.into(),
            renders: self.out.renders.into(),
            lengths: self.out.lengths.into(),
            slots: usize::from(self.slots.count),
            nodes: self.out.nodes.into(),
            ends: self.out.ends.into(),
            roots: self.out.root_nodes.into(),
            known: self.at.known,
        }
    }

    /// Gives a slot to every field that a class of the tree refers to, and marks to what may be absent on the way.
    fn find_references(&mut self, id: FieldClassId, place: &mut FieldPath) {
        let class = self.schema.field_class(id);
        // Slots of shared scopes are fixed for the trace: what has none there gets none here.
        if let Some(path) = layout::reference(class)
            && path.scope > Scope::CommonContext
            && usize::from(self.slots.next) + path.steps.len() < MAX_SLOTS
        {
            let may_be_huge = self.may_be_huge(path);
            let next = &mut self.slots.next;
            let mut new = || {
                *next += 1;
                *next - 1
            };
            self.slots.values.entry(path.clone()).or_insert_with(&mut new);
            if may_be_huge {
                self.slots.fits.entry(path.clone()).or_insert_with(&mut new);
            }
            for mark in marks(path, Some(place)) {
                self.slots.marks.entry(mark).or_insert_with(&mut new);
            }
        }
        let has_base = self.has_bit_fields(class);
        self.bases.open += u16::from(has_base);
        self.bases.most = self.bases.most.max(self.bases.open);
        for (step, child) in layout::steps(class) {
            place.steps.push(step);
            self.find_references(child, place);
            place.steps.pop();
        }
        self.bases.open -= u16::from(has_base);
    }

    /// Does a structure hold bit-fields, bare or optional?
    fn has_bit_fields(&self, class: &FieldClass) -> bool {
        let FieldKind::Struct(structure) = &class.kind else { return false };
        structure.members.iter().any(|member| {
            let class = self.schema.field_class(member.class);
            let content = match &class.kind {
                FieldKind::Optional(optional) => self.schema.field_class(optional.content),
                _ => class,
            };
            content.placement.unit_bits > 0
        })
    }

    /// The slot of a length or selector of the field that is being compiled; before that, the instructions that
    /// refuse it when it may be absent and is.
    fn selector(&mut self, path: &FieldPath) -> u16 {
        let place = FieldPath { scope: self.at.scope, steps: self.at.steps.clone() };
        for mark in marks(path, Some(&place)) {
            let slot = self.slots.marks.get(&mark).copied().unwrap_or(NEVER);
            self.emit(Op::Require { slot });
        }
        let is_number = matches!(self.class_at(path), Some(FieldKind::Integer(_) | FieldKind::Boolean(_)));
        let Some(slot) = self.slots.values.get(path).copied().filter(|_| is_number) else {
            // No such number in this stream, or an absurd number of them.
            self.emit(Op::Require { slot: NEVER });
            return 0;
        };
        if let Some(slot) = self.slots.fits.get(path).copied().filter(|_| self.may_be_huge(path)) {
            self.emit(Op::RequireFit { slot });
        }
        slot
    }

    /// Can the value that a path leads to have more than 64 bits? The options of a variant differ: one of them may.
    fn may_be_huge(&self, path: &FieldPath) -> bool {
        selected_at(path).is_some() || self.class_at(path).is_some_and(is_wide)
    }

    /// The slot to note in whether the next field is there, which is one `step` below the current place. Until it is
    /// decoded it is not.
    fn mark(&mut self, step: PathStep) -> Option<u16> {
        if self.slots.marks.is_empty() {
            return None;
        }
        let mut path = FieldPath { scope: self.at.scope, steps: self.at.steps.clone() };
        path.steps.push(step);
        let slot = self.slots.marks.get(&path).copied()?;
        self.emit(Op::Set { slot, value: 0 });
        Some(slot)
    }

    /// The slots of the loop over an array inside the current loops: three of [`Op::BeginArray`].
    ///
    /// Slots are used again when a loop has ended, so their number is that of the nesting. The one of a static length
    /// is the second: it is copied into itself.
    fn loop_slots(&mut self) -> u16 {
        let first = self.slots.next.saturating_add(self.slots.loops.saturating_mul(3));
        self.slots.count = self.slots.count.max(first.saturating_add(3));
        first
    }

    /// The arrays of a scope that others look into are not there until they are decoded.
    fn clear_places(&mut self, scope: Scope) {
        let is_array = |path: &FieldPath| matches!(self.class_at(path), Some(FieldKind::Array(_)));
        let of_scope = self.slots.values.iter().filter(|(path, _)| path.scope == scope && is_array(path));
        let slots: Vec<u16> = of_scope.map(|(_, &slot)| slot).collect();
        for slot in slots {
            self.emit(Op::Set { slot, value: 0 });
        }
    }

    fn emit(&mut self, op: Op) {
        self.flush();
        self.out.ops.push(op);
    }

    fn flush(&mut self) {
        if self.at.pending > 0 {
            self.out.ops.push(Op::Advance { bits: self.at.pending });
            self.at.pending = 0;
        }
    }

    fn next_op(&mut self) -> u32 {
        self.flush();
        self.out.ops.len() as u32
    }

    /// Passes over a number of bits that is known now.
    fn advance(&mut self, bits: u64) {
        self.at.pending = self.at.pending.saturating_add(bits);
        self.at.known = self.at.known.advance(bits);
    }

    fn align(&mut self, align_bits: u32) {
        match self.at.known.padding(align_bits) {
            Some(padding) => self.advance(padding),
            None => {
                self.emit(Op::Align { mask: align_bits - 1 });
                self.at.known = KnownAlignment::aligned(align_bits);
            }
        }
    }

    fn node(&mut self, class: FieldClassId, name: Arc<str>) -> NodeId {
        let is_content = self.at.steps.last() == Some(&PathStep::Content);
        self.out.nodes.push(PlanNode { class, name, parent: self.at.parent, is_content });
        self.out.nodes.len() as NodeId - 1
    }

    /// Slot for the value of the current field, if a length or selector is looked up in it.
    fn saved_slot(&self) -> Option<u16> {
        self.slot_here(&self.slots.values)
    }

    /// The slot that fields have by their paths, of the current field.
    fn slot_here(&self, slots: &HashMap<FieldPath, u16>) -> Option<u16> {
        if slots.is_empty() {
            return None;
        }
        let path = FieldPath { scope: self.at.scope, steps: self.at.steps.clone() };
        slots.get(self.joined_path(&path).unwrap_or(&path)).copied()
    }

    /// The path through a selected option that the field at a place is one of the ways of.
    fn joined_path(&self, place: &FieldPath) -> Option<&FieldPath> {
        self.slots.joined.iter().find(|path| {
            let Some(at) = selected_at(path).filter(|_| path.scope == place.scope) else { return false };
            let is_option = matches!(place.steps.get(at), Some(PathStep::Option(_)));
            is_option && path.steps[..at] == place.steps[..at] && {
                let (ours, theirs) = (self.names_after(place, at), self.names_after(path, at));
                ours.is_some() && ours == theirs
            }
        })
    }

    /// The names of the members on a path after a step; `None` where it goes through an array.
    fn names_after(&self, path: &FieldPath, at: usize) -> Option<Vec<&'s str>> {
        let mut id = self.roots[path.scope as usize]?;
        let mut names = Vec::new();
        for (depth, step) in path.steps.iter().enumerate() {
            let class = self.schema.field_class(id);
            if let (FieldKind::Struct(class), PathStep::Member(member), true) = (&class.kind, step, depth > at) {
                names.push(&*class.members.get(*member as usize)?.name);
            }
            if matches!(step, PathStep::Element) && depth > at {
                return None;
            }
            id = layout::child(class, *step)?;
        }
        Some(names)
    }

    /// The value of the current field was saved: those who look for it in a selected option find it.
    fn note_saved(&mut self) {
        if self.slots.joined.is_empty() {
            return;
        }
        let place = FieldPath { scope: self.at.scope, steps: self.at.steps.clone() };
        let mark = self.joined_path(&place).and_then(|path| self.slots.marks.get(path)).copied();
        if let Some(slot) = mark {
            self.emit(Op::Set { slot, value: 1 });
        }
    }

    /// Marks all fields in the options of the variant at the current place as absent until they are decoded.
    fn clear_joined(&mut self) {
        let is_below = |path: &&FieldPath| {
            path.scope == self.at.scope
                && selected_at(path) == Some(self.at.steps.len())
                && path.steps.starts_with(&self.at.steps)
        };
        let below = self.slots.joined.iter().filter(is_below);
        let slots: Vec<u16> = below.filter_map(|path| self.slots.marks.get(path)).copied().collect();
        for slot in slots {
            self.emit(Op::Set { slot, value: 0 });
        }
    }

    /// Does the value of the field matter to anything but a visitor?
    fn effective_roles(&self, class: &FieldClass) -> Roles {
        if self.form.with_roles { class.roles } else { Roles::NONE }
    }

    fn field(&mut self, id: FieldClassId, name: Arc<str>) {
        let class = self.schema.field_class(id);
        let node = self.node(id, name);
        let placed = self.at.placed.take();
        match class.place {
            None => self.align(class.align_bits),
            Some(place) => self.place(place, placed),
        }
        self.unit(class);
        self.check_order(class, node);
        let depth = self.at.depth;
        if matches!(class.kind, FieldKind::Array(_) | FieldKind::Optional(_) | FieldKind::Variant(_)) {
            self.at.depth += 1;
        }
        match &class.kind {
            FieldKind::Integer(integer) => self.integer(class, integer, node),
            FieldKind::BitArray(bits) | FieldKind::BitMap(bits) => self.bits(bits, node),
            FieldKind::Boolean(bits) => self.boolean(bits, node),
            FieldKind::Float(float) => self.float(float, node),
            FieldKind::String(string) => {
                let unit = string.encoding.unit_bytes() as u8;
                match &string.length {
                    StringLength::NullTerminated => {
                        self.emit(Op::Str { node, unit });
                        self.forget_bytes();
                    }
                    StringLength::Bytes(length) => self.bytes(length, unit, |len| Op::StrBytes { node, unit, len }),
                }
            }
            FieldKind::Blob(blob) => {
                let is_uuid = self.effective_roles(class).has(Role::TraceUuid);
                if is_uuid {
                    self.emit(Op::Uuid);
                }
                self.bytes(&blob.length, 1, |len| Op::Blob { node, len });
            }
            FieldKind::Rendered(rendered) => {
                let render = self.out.renders.len() as u16;
                if self.form.mode == PlanMode::Row {
                    self.out.renders.push(rendered.clone());
                }
                let bytes = rendered.len_bytes;
                self.leaf(Op::Rendered { node, render, bytes }, u64::from(bytes) * 8);
            }
            FieldKind::Struct(structure) => self.structure(class, structure, node),
            FieldKind::Array(array) => self.array(class, array.element, &array.length, node),
            FieldKind::Optional(OptionalClass { selector, presence: Presence::Unmarked(index), content }) => {
                self.unmarked(node, selector, *index, *content);
            }
            FieldKind::Optional(optional) => {
                let ranges = match &optional.presence {
                    // Any bit pattern but zero is true; a boolean is saved as 0 or 1.
                    Presence::Boolean => vec![((1, i128::from(u64::MAX)), 1)],
                    Presence::Ranges(ranges) => ranges.iter().map(|&range| (range, 1)).collect(),
                    Presence::Unmarked(_) => Vec::new(),
                };
                self.optional(node, &optional.selector, ranges, optional.content);
            }
            FieldKind::Variant(variant) => {
                let ranges = variant.options.iter().enumerate();
                let ranges = ranges.flat_map(|(at, option)| option.ranges.iter().map(move |&range| (range, at as u32)));
                let options =
                    variant.options.iter().map(|option| (option.class, option.name.clone().unwrap_or_default()));
                self.variant(node, &variant.selector, ranges.collect(), options.collect());
            }
        }
        self.at.depth = depth;
        if let Some(FieldOffset::At { offset_bytes }) = class.place {
            self.at.placed = layout::leaf_bits(class).and_then(|bits| bits.checked_add(u64::from(offset_bytes) * 8));
        }
    }

    /// A field one step below a node.
    fn child(&mut self, node: NodeId, step: PathStep, class: FieldClassId, name: Arc<str>) {
        let parent = std::mem::replace(&mut self.at.parent, node);
        self.at.steps.push(step);
        self.field(class, name);
        self.at.steps.pop();
        self.at.parent = parent;
    }

    /// Goes to where a field says that it is, unless the field before it ends there.
    fn place(&mut self, place: FieldOffset, placed: Option<u64>) {
        match place {
            FieldOffset::At { offset_bytes } if placed == Some(u64::from(offset_bytes) * 8) => {}
            FieldOffset::At { offset_bytes } => {
                self.emit(Op::Seek { bytes: offset_bytes });
                self.at.known = KnownAlignment::aligned(8);
            }
            FieldOffset::Located { offset_bytes } => {
                let len = self.located_slot();
                self.emit(Op::Locate { bytes: offset_bytes, len });
                self.at.known = KnownAlignment::aligned(8);
            }
        }
    }

    /// The slot of the length of a field that says itself where it is.
    fn located_slot(&mut self) -> u16 {
        self.loop_slots().saturating_add(1)
    }

    /// A bit-field moves to the next unit when it does not fit in this one.
    fn unit(&mut self, class: &FieldClass) {
        let unit = class.placement.unit_bits;
        if unit > 0
            && self.bases.open > 0
            && let Some(len) = layout::leaf_bits(class).and_then(|len| u8::try_from(len).ok())
        {
            self.emit(Op::Unit { base: self.bases.first.saturating_add(self.bases.open - 1), len, unit });
            self.at.known = KnownAlignment::NOTHING;
        }
    }

    /// A field that does not begin and end on bytes, as far as is known, must have the byte order of the one before.
    fn check_order(&mut self, class: &FieldClass, node: NodeId) {
        if self.form.checks_orders
            && let Some((len_bits, order)) = layout::bit_field(&class.kind)
            && !(self.at.known.is_byte() && len_bits.is_multiple_of(8))
        {
            self.emit(Op::Order { node, big: order == ByteOrder::Big });
        }
    }

    /// Structure marks and other calls that only a visitor needs.
    fn visit(&mut self, op: Op) {
        let is_folded =
            self.form.is_flat && self.at.depth == 0 && matches!(op, Op::BeginStruct { .. } | Op::EndStruct { .. });
        if self.form.mode == PlanMode::Row && !is_folded {
            self.emit(op);
        }
    }

    /// A leaf of fixed size that nothing depends on.
    fn leaf(&mut self, op: Op, bits: u64) {
        if self.form.mode == PlanMode::Row {
            self.emit(op);
            self.at.known = self.at.known.advance(bits);
        } else {
            self.advance(bits);
        }
    }

    /// A field of unknown size that takes whole bytes was passed.
    fn forget_bytes(&mut self) {
        self.at.known = self.at.known.join(self.at.known.advance(8));
    }

    /// The slot of a length that the data hold; what follows is aligned for the elements.
    fn length_slot(&mut self, length: &Length, element_align: u32) -> u16 {
        match length {
            Length::Static(value) => {
                let slot = self.loop_slots() + 1;
                self.emit(Op::Set { slot, value: *value });
                slot
            }
            Length::Field(path) => self.selector(path),
            Length::Located => self.located_slot(),
            Length::Inline(class) => {
                let slot = self.loop_slots() + 1;
                let node = self.out.nodes.len() as NodeId - 1;
                let class = self.schema.field_class(*class);
                self.align(class.align_bits);
                self.check_order(class, node);
                if let FieldKind::Integer(IntegerClass { len_bits, byte_order, reversed_bits, signed, .. }) = class.kind
                {
                    let (len, big) = (len_bits.clamp(1, 64), byte_order == ByteOrder::Big);
                    self.emit(Op::Length { node, slot, len: len as u8, big, reversed: reversed_bits, signed });
                    self.at.known = self.at.known.advance(u64::from(len));
                }
                self.align(element_align);
                slot
            }
            Length::Table { selector, lengths } => {
                let from = self.selector(selector);
                let to = self.loop_slots() + 1;
                let table = self.out.lengths.len() as u32;
                self.out.lengths.push(lengths.clone());
                self.emit(Op::LookUp { from, to, table });
                to
            }
        }
    }

    fn selector_is_signed(&self, path: &FieldPath) -> bool {
        matches!(self.class_at(path), Some(FieldKind::Integer(integer)) if integer.signed)
    }

    /// Kind of the field that a path leads to in the trees of this event.
    fn class_at(&self, path: &FieldPath) -> Option<&'s FieldKind> {
        let root = self.roots[path.scope as usize]?;
        let down = |id, step: &PathStep| layout::child(self.schema.field_class(id), *step);
        path.steps.iter().try_fold(root, down).map(|id| &self.schema.field_class(id).kind)
    }
}
