//! Headers of events: an id and a time stamp, read by their plan or, as nearly all are, in a form of their own.

use tracemill_model::clock::{extend_cycles, extend_masked};
use tracemill_model::schema::{
    ByteOrder, FieldClass, FieldClassId, FieldKind, FieldPath, PathStep, Placement, Range, Role, Schema, Scope,
};

use crate::bits;
use crate::plan::{DecoderState, Fault, FaultKind, KnownAlignment, NoVisitor, Plan, PlanInput, SharedSlots};

pub(crate) trait ReadHeader {
    fn read(&self, input: PlanInput<'_>, pos_bits: &mut u64, state: &mut DecoderState) -> Result<Option<u64>, Fault>;

    /// Saves what fields after the header refer to, where `read` does not.
    fn save(&self, _input: PlanInput<'_>, _start_bits: u64, _state: &mut DecoderState) {}
}

impl ReadHeader for Plan {
    #[inline]
    fn read(&self, input: PlanInput<'_>, pos_bits: &mut u64, state: &mut DecoderState) -> Result<Option<u64>, Fault> {
        state.roles.event_id = None;
        let order = state.order;
        self.run(input, pos_bits, state, &mut NoVisitor).inspect_err(|_| state.order = order)?;
        Ok(state.roles.event_id)
    }
}

/// A header whose fields all stand at fixed places: nothing, or an id and a time stamp, or both forms of LTTng
/// (CTF 1.8.3, 6.1.1 and 6.1.2), where the id selects between a compact and an extended rest.
#[derive(Default)]
pub(crate) struct FastHeader {
    /// The part that is read first.
    prefix: HeaderPart,
    /// Integer that selects the arm.
    selector: Option<FixedPlaceInteger>,
    /// Slot of the selector, for classes outside the header that refer to it too.
    slot: Option<u16>,
    arms: Vec<(u64, u64, HeaderPart)>,
    /// Alignment of the position after it, as far as it is known.
    pub(crate) known: KnownAlignment,
    /// The header as one word, when it has that form.
    pub(crate) one_word: Option<OneWord>,
}

/// The form of most headers: selector, id and time stamp inside the first eight bytes, with the first arm chosen.
pub(crate) struct OneWord {
    big: bool,
    selector: WordPiece,
    /// Values of the selector for which this form holds.
    low: u64,
    high: u64,
    id: WordPiece,
    has_id: bool,
    time: WordPiece,
    time_len_bits: u32,
    end_bits: u64,
}

/// A number inside a word.
#[derive(Clone, Copy, Default)]
struct WordPiece {
    shift: u32,
    mask: u64,
}

impl WordPiece {
    /// `None` when the piece does not lie in the word; an absent piece reads as 0.
    fn from_piece(piece: Option<FixedPlaceInteger>, big: bool) -> Option<Self> {
        let Some(piece) = piece else { return Some(WordPiece::default()) };
        let end = piece.offset_bits + piece.len_bits;
        let shift = if big { 64u32.checked_sub(end)? } else { piece.offset_bits };
        (end <= 64 && piece.big == big).then_some(WordPiece { shift, mask: bits::mask(piece.len_bits) })
    }

    #[inline]
    fn read(self, word: u64) -> u64 {
        word >> self.shift & self.mask
    }
}

impl OneWord {
    fn from_header(header: &FastHeader, align_bits: u32) -> Option<Self> {
        if !align_bits.is_multiple_of(8) {
            return None;
        }
        let (low, high, arm) = match header.arms.first() {
            // A time stamp before the selector as well would be a second update of the clock.
            Some((low, high, arm)) if header.prefix.time.is_none() => (*low, *high, *arm),
            None if header.selector.is_none() => (0, u64::MAX, header.prefix),
            _ => return None,
        };
        let id = arm.id.or(header.prefix.id);
        let big = header.selector.or(id).or(arm.time)?.big;
        Some(OneWord {
            big,
            selector: WordPiece::from_piece(header.selector, big)?,
            low,
            high,
            id: WordPiece::from_piece(id, big)?,
            has_id: id.is_some(),
            time: WordPiece::from_piece(arm.time, big)?,
            time_len_bits: arm.time.map_or(0, |piece| piece.len_bits),
            end_bits: u64::from(arm.end_bits),
        })
    }

    /// The bytes that the header takes, when it has an id and ends with a byte.
    pub(crate) fn whole_bytes(&self) -> Option<usize> {
        (self.has_id && self.end_bits.is_multiple_of(8)).then_some((self.end_bits / 8) as usize)
    }

    /// The id and the clock of the header that begins with these bytes; `None` leaves it to the general way.
    #[inline(always)]
    pub(crate) fn id_and_clock(&self, bytes: &[u8; 8], clock: u64) -> Option<(u64, u64)> {
        let word = if self.big { u64::from_be_bytes(*bytes) } else { u64::from_le_bytes(*bytes) };
        let selector = self.selector.read(word);
        if selector < self.low || selector > self.high {
            return None;
        }
        let clock = extend_masked(clock, self.time.read(word), self.time.mask);
        Some((self.id.read(word), clock))
    }

    /// Does it have a time stamp?
    pub(crate) fn has_time(&self) -> bool {
        self.time_len_bits > 0
    }

    /// The id, and the first bit after the header; `None` leaves the header to the general way.
    #[inline]
    fn read(&self, input: PlanInput<'_>, start: u64, state: &mut DecoderState) -> Option<(Option<u64>, u64)> {
        let end = start + self.end_bits;
        let bytes = input.bytes.get((start >> 3) as usize..)?.first_chunk()?;
        let word = if self.big { u64::from_be_bytes(*bytes) } else { u64::from_le_bytes(*bytes) };
        let selector = self.selector.read(word);
        if selector < self.low || selector > self.high || end > input.end_bits {
            return None;
        }
        if self.time_len_bits > 0 {
            state.clock = extend_cycles(state.clock, self.time.read(word), self.time_len_bits);
            state.clock_is_set = true;
        }
        Some((self.has_id.then(|| self.id.read(word)), end))
    }
}

/// An unsigned integer at a fixed place.
#[derive(Clone, Copy)]
struct FixedPlaceInteger {
    offset_bits: u32,
    len_bits: u32,
    big: bool,
}

/// Id and time stamp of one part of a header.
#[derive(Clone, Copy, Default)]
struct HeaderPart {
    id: Option<FixedPlaceInteger>,
    time: Option<FixedPlaceInteger>,
    end_bits: u32,
}

impl FastHeader {
    pub(crate) fn from_schema(schema: &Schema, shared: &SharedSlots, root: Option<FieldClassId>) -> Option<Self> {
        let Some(root) = root else {
            return Some(FastHeader::default());
        };
        let is_selector = shared.has_scope(Scope::EventHeader, &header_selectors(schema, root));
        if is_selector || has_placement(schema, root) || shared.mixes_orders {
            return None;
        }
        let class = schema.field_class(root);
        let align = class.align_bits;
        let FieldKind::Struct(structure) = &class.kind else { return None };
        let mut header = FastHeader::default();
        let mut pieces: Vec<Option<FixedPlaceInteger>> = Vec::new();
        for (at, member) in structure.members.iter().enumerate() {
            let class = schema.field_class(member.class);
            if let FieldKind::Variant(variant) = &class.kind {
                let [PathStep::Member(tag)] = *variant.selector.steps else { return None };
                if variant.selector.scope != Scope::EventHeader || at + 1 != structure.members.len() {
                    return None;
                }
                header.selector = Some((*pieces.get(tag as usize)?)?);
                header.slot = shared.slot(&variant.selector);
                for option in &variant.options {
                    let mut part = HeaderPart { id: None, time: None, ..header.prefix };
                    part.add(schema, option.class, align)?;
                    header.arms.extend(
                        option.ranges.iter().filter_map(|&range| unsigned(range)).map(|(low, high)| (low, high, part)),
                    );
                }
                continue;
            }
            pieces.push(header.prefix.add(schema, member.class, align)?);
        }
        let ends = header
            .arms
            .iter()
            .map(|arm| arm.2.end_bits)
            .chain(header.arms.is_empty().then_some(header.prefix.end_bits));
        header.known =
            ends.map(|end| KnownAlignment::aligned(align).advance(u64::from(end))).reduce(KnownAlignment::join)?;
        header.one_word = OneWord::from_header(&header, align);
        Some(header)
    }
}

impl ReadHeader for FastHeader {
    #[inline(always)]
    fn read(&self, input: PlanInput<'_>, pos_bits: &mut u64, state: &mut DecoderState) -> Result<Option<u64>, Fault> {
        if let Some(form) = &self.one_word
            && let Some((id, end)) = form.read(input, *pos_bits, state)
        {
            *pos_bits = end;
            return Ok(id);
        }
        self.read_parts(input, pos_bits, state)
    }

    fn save(&self, input: PlanInput<'_>, start_bits: u64, state: &mut DecoderState) {
        if let (Some(slot), Some(selector)) = (self.slot, self.selector) {
            state.save(slot, selector.read(input, start_bits));
        }
    }
}

impl FastHeader {
    /// Any form of the header, part by part.
    #[inline(never)]
    fn read_parts(
        &self,
        input: PlanInput<'_>,
        pos_bits: &mut u64,
        state: &mut DecoderState,
    ) -> Result<Option<u64>, Fault> {
        let start = *pos_bits;
        let end = self.prefix.check(input, start)?;
        let mut id = self.prefix.id.map(|piece| piece.read(input, start));
        self.prefix.tick(input, start, state);
        *pos_bits = end;
        if let Some(selector) = self.selector {
            let value = selector.read(input, start);
            let Some((_, _, arm)) = self.arms.iter().find(|(low, high, _)| *low <= value && value <= *high) else {
                return Err(Fault { kind: FaultKind::NoOption { value: value.into() }, at_bits: end, node: 0 });
            };
            *pos_bits = arm.check(input, start)?;
            id = arm.id.map(|piece| piece.read(input, start)).or(id);
            arm.tick(input, start, state);
        }
        Ok(id)
    }
}

/// The part of a range that an unsigned integer can reach.
fn unsigned((low, high): Range) -> Option<(u64, u64)> {
    let high = u64::try_from(high.min(i128::from(u64::MAX))).ok()?;
    Some((u64::try_from(low.max(0)).ok()?, high))
}

impl HeaderPart {
    /// Adds a field of fixed size; returns where an unsigned integer of at most 64 bits stands.
    fn add(&mut self, schema: &Schema, id: FieldClassId, max_align: u32) -> Option<Option<FixedPlaceInteger>> {
        let class = schema.field_class(id);
        if class.align_bits > max_align {
            return None;
        }
        let start = self.end_bits.checked_next_multiple_of(class.align_bits)?;
        if let FieldKind::Struct(structure) = &class.kind {
            self.end_bits = start;
            for member in &structure.members {
                self.add(schema, member.class, max_align)?;
            }
            return Some(None);
        }
        let len = u32::try_from(crate::layout::leaf_bits(class)?).ok()?;
        self.end_bits = start.checked_add(len)?;
        let piece = as_piece(class, start);
        let wants = [(Role::EventClassId, &mut self.id), (Role::Timestamp, &mut self.time)];
        for (role, place) in wants {
            if class.roles.has(role) && place.replace(piece?).is_some() {
                return None;
            }
        }
        Some(piece)
    }

    #[inline]
    fn check(&self, input: PlanInput<'_>, start: u64) -> Result<u64, Fault> {
        let end = start + u64::from(self.end_bits);
        if end <= input.end_bits {
            return Ok(end);
        }
        Err(Fault { kind: FaultKind::PastEnd { need_bits: u64::from(self.end_bits) }, at_bits: start, node: 0 })
    }

    #[inline]
    fn tick(&self, input: PlanInput<'_>, start: u64, state: &mut DecoderState) {
        if let Some(piece) = self.time {
            state.clock = extend_cycles(state.clock, piece.read(input, start), piece.len_bits);
            state.clock_is_set = true;
        }
    }
}

fn as_piece(class: &FieldClass, offset_bits: u32) -> Option<FixedPlaceInteger> {
    match &class.kind {
        FieldKind::Integer(integer) if !integer.signed && !integer.reversed_bits && integer.len_bits <= 64 => {
            let big = integer.byte_order == ByteOrder::Big;
            Some(FixedPlaceInteger { offset_bits, len_bits: integer.len_bits, big })
        }
        _ => None,
    }
}

impl FixedPlaceInteger {
    #[inline]
    fn read(self, input: PlanInput<'_>, start: u64) -> u64 {
        let at = start + u64::from(self.offset_bits);
        if self.big {
            bits::read_be(input.bytes, at, self.len_bits)
        } else {
            bits::read_le(input.bytes, at, self.len_bits)
        }
    }
}

/// Do rules of place beside the alignment hold somewhere in the tree?
fn has_placement(schema: &Schema, root: FieldClassId) -> bool {
    crate::layout::descendants(schema, root).any(|class| class.placement != Placement::default())
}

/// Fields that the header's own variants refer to: a fast header needs no slots for them.
fn header_selectors(schema: &Schema, root: FieldClassId) -> Vec<FieldPath> {
    let class = schema.field_class(root);
    crate::layout::children(class)
        .into_iter()
        .filter_map(|id| match &schema.field_class(id).kind {
            FieldKind::Variant(variant) => Some(variant.selector.clone()),
            _ => None,
        })
        .collect()
}
