//! Running a plan over the bytes of a packet.

use std::collections::BTreeMap;
use std::sync::Arc;

use tracemill_model::clock::extend_cycles;
use tracemill_model::schema::{ByteOrder, RenderedClass, Role};

use super::{DecoderState, Fault, FaultKind, MAX_IDLE, NoVisitor, NodeId, Op, Plan, PlanInput, SelectTable, Visitor};
use crate::bits::{self, Wide};

impl Plan {
    /// Decodes all sections from `*pos_bits`, which ends after the last field.
    pub fn run<V: Visitor>(
        &self,
        input: PlanInput<'_>,
        pos_bits: &mut u64,
        state: &mut DecoderState,
        visitor: &mut V,
    ) -> Result<(), Fault> {
        self.run_ops(0..self.ops.len(), input, pos_bits, state, visitor)
    }

    /// Decodes the section `index` only.
    pub fn run_section<V: Visitor>(
        &self,
        index: usize,
        input: PlanInput<'_>,
        pos_bits: &mut u64,
        state: &mut DecoderState,
        visitor: &mut V,
    ) -> Result<(), Fault> {
        self.run_sections(index..index + 1, input, pos_bits, state, visitor)
    }

    /// Decodes some sections.
    #[inline]
    pub(crate) fn run_sections<V: Visitor>(
        &self,
        sections: std::ops::Range<usize>,
        input: PlanInput<'_>,
        pos_bits: &mut u64,
        state: &mut DecoderState,
        visitor: &mut V,
    ) -> Result<(), Fault> {
        let end_of = |sections: usize| if sections == 0 { 0 } else { self.ends[sections - 1] as usize };
        self.run_ops(end_of(sections.start)..end_of(sections.end), input, pos_bits, state, visitor)
    }

    /// The number of sections.
    pub fn sections(&self) -> usize {
        self.ends.len()
    }

    /// Decodes without a visitor.
    pub fn skip(&self, input: PlanInput<'_>, pos_bits: &mut u64, state: &mut DecoderState) -> Result<(), Fault> {
        self.run(input, pos_bits, state, &mut NoVisitor)
    }

    #[inline]
    fn run_ops<V: Visitor>(
        &self,
        range: std::ops::Range<usize>,
        input: PlanInput<'_>,
        pos_bits: &mut u64,
        state: &mut DecoderState,
        visitor: &mut V,
    ) -> Result<(), Fault> {
        if range.is_empty() {
            return Ok(());
        }
        state.grow(self.slots);
        let tables = PlanTables { selects: &self.tables, renders: &self.renders, lengths: &self.lengths };
        run_list(&self.ops[..range.end], range.start, tables, input, pos_bits, state, visitor)
            .map_err(|(kind, at)| Fault { kind, at_bits: *pos_bits, node: self.node_at(at) })
    }

    /// The field that an instruction is about: it or the next one says.
    #[cold]
    fn node_at(&self, at: usize) -> NodeId {
        self.ops[at..].iter().find_map(|op| op.node()).unwrap_or(0)
    }
}

/// Tables that instructions refer to.
#[derive(Clone, Copy)]
pub(super) struct PlanTables<'a> {
    selects: &'a [SelectTable],
    renders: &'a [RenderedClass],
    lengths: &'a [Arc<BTreeMap<u64, u64>>],
}

impl PlanTables<'_> {
    pub(super) const NONE: PlanTables<'static> = PlanTables { selects: &[], renders: &[], lengths: &[] };
}

/// Runs instructions from `start` on. The error is why the event ends early, and at which instruction.
#[inline]
pub(super) fn run_list<V: Visitor>(
    ops: &[Op],
    start: usize,
    tables: PlanTables<'_>,
    input: PlanInput<'_>,
    pos_bits: &mut u64,
    state: &mut DecoderState,
    visitor: &mut V,
) -> Result<(), (FaultKind, usize)> {
    let content = input.bytes.get(..(input.end_bits >> 3) as usize).unwrap_or(&[]);
    let mut run =
        PlanRun { input, content, pos: *pos_bits, last: 0, last_bits: 0, is_huge: false, idle: 0, fault: None };
    let mut at = start;
    while let Some(&op) = ops.get(at) {
        match run.step(op, at, tables, state, visitor) {
            Ok(next) => at = next,
            Err(Stop) => {
                *pos_bits = run.pos;
                return Err((run.fault.unwrap_or(FaultKind::Unterminated), at));
            }
        }
    }
    *pos_bits = run.pos;
    Ok(())
}

struct PlanRun<'a> {
    input: PlanInput<'a>,
    /// The whole bytes of the content: reads of whole bytes need one check.
    content: &'a [u8],
    pos: u64,
    /// The integer read last, its width when it is a LEB128 one, and whether it does not fit 64 bits.
    last: u64,
    last_bits: u32,
    is_huge: bool,
    /// Elements without size in the outermost array.
    idle: u32,
    /// Why the event ends early. Beside the result of each step, so that this stays in registers.
    fault: Option<FaultKind>,
}

/// The event ends early; [`PlanRun::fault`] says why.
struct Stop;

impl<'a> PlanRun<'a> {
    /// Notes why the event ends here.
    #[cold]
    #[inline(never)]
    fn fail(&mut self, kind: FaultKind) -> Stop {
        self.fault = Some(kind);
        Stop
    }

    /// Checks that `bits` remain; the position stays.
    #[inline]
    fn need(&mut self, bits: u64) -> Result<(), Stop> {
        match self.pos.checked_add(bits) {
            Some(end) if end <= self.input.end_bits => Ok(()),
            _ => Err(self.fail(FaultKind::PastEnd { need_bits: bits })),
        }
    }

    /// The next `N` bytes; the position is on a byte boundary.
    #[inline]
    fn next_bytes<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let at = (self.pos >> 3) as usize;
        match self.content.get(at..).and_then(|rest| rest.first_chunk::<N>()) {
            Some(chunk) => {
                self.pos += N as u64 * 8;
                Ok(*chunk)
            }
            None => Err(self.fail(FaultKind::PastEnd { need_bits: N as u64 * 8 })),
        }
    }

    fn take_bytes(&mut self, len: u64) -> Result<&'a [u8], Stop> {
        let Some(bits) = len.checked_mul(8) else { return Err(self.fail(FaultKind::TooLong { len })) };
        self.need(bits)?;
        let at = (self.pos >> 3) as usize;
        self.pos += bits;
        Ok(&self.input.bytes[at..at + len as usize])
    }

    #[inline]
    fn read(&mut self, len: u32, big: bool, reversed: bool) -> Result<u64, Stop> {
        self.need(u64::from(len))?;
        let value = bits::read_bits(self.input.bytes, self.pos, len, order(big), reversed);
        self.pos += u64::from(len);
        Ok(value)
    }

    // Rare kinds of fields stay out of line: `step` is slower with them (measured, 10 % of a scan).

    #[inline(never)]
    fn wide(&mut self, len: u32, big: bool, reversed: bool, signed: bool) -> Result<Wide, Stop> {
        self.need(u64::from(len))?;
        let wide = Wide::read(self.input.bytes, self.pos, len, order(big), reversed, signed);
        self.pos += u64::from(len);
        self.set_wide(&wide);
        Ok(wide)
    }

    #[inline(never)]
    fn boolean(&mut self, len: u32, big: bool, reversed: bool) -> Result<bool, Stop> {
        if len <= 64 {
            return Ok(self.read(len, big, reversed)? != 0);
        }
        let wide = self.wide(len, big, reversed, false)?;
        Ok(wide.limbs.iter().any(|&limb| limb != 0))
    }

    #[inline(never)]
    fn float(&mut self, len: u32, big: bool, reversed: bool) -> Result<f64, Stop> {
        self.need(u64::from(len))?;
        let value = bits::read_float(self.input.bytes, self.pos, len, order(big), reversed);
        self.pos += u64::from(len);
        Ok(value)
    }

    #[inline(never)]
    fn rendered<V: Visitor>(
        &self,
        node: NodeId,
        class: &RenderedClass,
        own: &[u8],
        state: &mut DecoderState,
        visitor: &mut V,
    ) {
        let event = self.content.get((state.body_bits >> 3) as usize..).unwrap_or(&[]);
        let text = match V::FOR_PEOPLE {
            false => class.render.text(event, own, &mut state.text),
            true => {
                state.text.clear();
                let is_there = class.render.render_for_people(event, own, &mut state.text);
                is_there.then_some(&*state.text)
            }
        };
        match text {
            Some(text) => visitor.string(node, text),
            None => visitor.absent(node),
        }
    }

    /// Goes to a field that says itself where it is; its length.
    #[inline(never)]
    fn locate(&mut self, bytes: u32, body_bits: u64) -> Result<u64, Stop> {
        self.pos = body_bits.saturating_add(u64::from(bytes) * 8);
        let offset = u32::from_le_bytes(self.next_bytes::<4>()?);
        let len = u32::from_le_bytes(self.next_bytes::<4>()?);
        self.pos = body_bits.saturating_add(u64::from(offset) * 8);
        self.need(0)?;
        Ok(u64::from(len))
    }

    /// Bytes from here to the end of the content.
    fn rest(&self) -> &'a [u8] {
        self.content.get((self.pos >> 3) as usize..).unwrap_or(&[])
    }

    #[inline]
    fn string(&mut self, unit: u8) -> Result<&'a [u8], Stop> {
        let rest = self.rest();
        let len = match unit {
            1 => bits::zero_at(rest),
            unit => end_of_units(rest, usize::from(unit)),
        };
        let Some(len) = len else { return Err(self.fail(FaultKind::Unterminated)) };
        self.pos += (len as u64 + u64::from(unit)) * 8;
        Ok(&rest[..len])
    }

    #[inline(always)]
    fn step<V: Visitor>(
        &mut self,
        op: Op,
        at: usize,
        tables: PlanTables<'_>,
        state: &mut DecoderState,
        visitor: &mut V,
    ) -> Result<usize, Stop> {
        macro_rules! integer {
            ($node:expr, $big:expr, $type:ty, $bits:expr, $visit:ident, $wide:ty) => {{
                let bytes = self.next_bytes::<{ $bits / 8 }>()?;
                let value = if $big { <$type>::from_be_bytes(bytes) } else { <$type>::from_le_bytes(bytes) };
                let value = <$wide>::from(value);
                self.last = value as u64;
                visitor.$visit($node, value);
            }};
        }
        match op {
            Op::Advance { bits } => {
                self.need(bits)?;
                self.pos += bits;
            }
            Op::AdvanceBy { len, stride_bits, last_bits } => {
                let len = state.slots[usize::from(len)];
                if len > 0 {
                    let bits = (len - 1).checked_mul(u64::from(stride_bits));
                    let bits = bits.and_then(|bits| bits.checked_add(u64::from(last_bits)));
                    let Some(bits) = bits else { return Err(self.fail(FaultKind::TooLong { len })) };
                    self.need(bits)?;
                    self.pos += bits;
                }
            }
            Op::Align { mask } => {
                let padding = self.pos.wrapping_neg() & u64::from(mask);
                self.need(padding)?;
                self.pos += padding;
            }
            Op::U8 { node } => integer!(node, false, u8, 8, unsigned, u64),
            Op::S8 { node } => integer!(node, false, i8, 8, signed, i64),
            Op::U16 { node, big } => integer!(node, big, u16, 16, unsigned, u64),
            Op::S16 { node, big } => integer!(node, big, i16, 16, signed, i64),
            Op::U32 { node, big } => integer!(node, big, u32, 32, unsigned, u64),
            Op::S32 { node, big } => integer!(node, big, i32, 32, signed, i64),
            Op::U64 { node, big } => integer!(node, big, u64, 64, unsigned, u64),
            Op::S64 { node, big } => integer!(node, big, i64, 64, signed, i64),
            Op::F32 { node, big } => {
                let bytes = self.next_bytes::<4>()?;
                let value = if big { f32::from_be_bytes(bytes) } else { f32::from_le_bytes(bytes) };
                visitor.real(node, f64::from(value));
            }
            Op::F64 { node, big } => {
                let bytes = self.next_bytes::<8>()?;
                visitor.real(node, if big { f64::from_be_bytes(bytes) } else { f64::from_le_bytes(bytes) });
            }
            Op::Bits { node, len, big, reversed, signed } => {
                let value = self.read(u32::from(len), big, reversed)?;
                if signed {
                    let value = bits::sign_extend(value, u32::from(len));
                    self.last = value as u64;
                    visitor.signed(node, value);
                } else {
                    self.last = value;
                    visitor.unsigned(node, value);
                }
            }
            Op::Wide { node, len, big, reversed, signed } => {
                let wide = self.wide(len, big, reversed, signed)?;
                visitor.wide(node, &wide);
            }
            Op::Boolean { node, len, big, reversed } => {
                let value = self.boolean(len, big, reversed)?;
                self.last = u64::from(value);
                visitor.boolean(node, value);
            }
            Op::Float { node, len, big, reversed } => {
                let value = self.float(len, big, reversed)?;
                visitor.real(node, value);
            }
            Op::Leb { node, signed } => self.leb128(node, signed, visitor)?,
            Op::Str { node, unit } => {
                let bytes = self.string(unit)?;
                visitor.string(node, bytes);
            }
            Op::StrBytes { node, unit, len } => {
                let bytes = self.take_bytes(state.slots[usize::from(len)])?;
                if unit > 1 && !bytes.len().is_multiple_of(usize::from(unit)) {
                    self.pos -= bytes.len() as u64 * 8;
                    return Err(self.fail(FaultKind::PartialUnit { bytes: bytes.len() as u64, unit }));
                }
                visitor.string(node, until_zero(bytes, usize::from(unit)));
            }
            Op::Blob { node, len } => {
                let bytes = self.take_bytes(state.slots[usize::from(len)])?;
                visitor.blob(node, bytes);
            }
            Op::Rendered { node, render, bytes } => {
                let own = self.take_bytes(u64::from(bytes))?;
                self.rendered(node, &tables.renders[usize::from(render)], own, state, visitor);
            }
            Op::Seek { bytes } => self.pos = state.body_bits.saturating_add(u64::from(bytes) * 8),
            Op::Locate { bytes, len } => state.slots[usize::from(len)] = self.locate(bytes, state.body_bits)?,
            Op::Set { slot, value } => state.slots[usize::from(slot)] = value,
            Op::Save { slot } => state.slots[usize::from(slot)] = self.last,
            Op::SaveWide { slot, fits } => {
                state.slots[usize::from(slot)] = self.last;
                state.slots[usize::from(fits)] = u64::from(!self.is_huge);
            }
            Op::RequireFit { slot } => {
                if state.slots[usize::from(slot)] == 0 {
                    return Err(self.fail(FaultKind::HugeSelector));
                }
            }
            Op::Require { slot } => {
                if state.slots.get(usize::from(slot)).is_none_or(|&is_there| is_there == 0) {
                    return Err(self.fail(FaultKind::AbsentSelector));
                }
            }
            Op::Role { role, len, wide } => {
                if wide && self.is_huge {
                    // No id is that large, and no packet.
                    self.last = u64::MAX;
                }
                self.set_role(role, len, state);
            }
            Op::Clock { len } => {
                let len = if len == 0 { self.last_bits } else { u32::from(len) };
                state.clock = extend_cycles(state.clock, self.last, len);
                state.clock_is_set = true;
            }
            Op::Uuid => {
                let at = (self.pos >> 3) as usize;
                if self.pos.checked_add(128).is_some_and(|end| end <= self.input.end_bits) {
                    state.roles.uuid = self.input.bytes.get(at..).and_then(|rest| rest.first_chunk()).copied();
                }
            }
            Op::BeginStruct { node } => visitor.begin_struct(node),
            Op::EndStruct { node } => visitor.end_struct(node),
            Op::Fit { len, min_bits, .. } => {
                let len = state.slots[usize::from(len)];
                let end = len.checked_mul(u64::from(min_bits)).and_then(|bits| bits.checked_add(self.pos));
                if end.is_none_or(|end| end > self.input.end_bits) {
                    return Err(self.fail(FaultKind::TooLong { len }));
                }
            }
            Op::Integers { node, len, bytes, signed, big } => {
                let len = state.slots[usize::from(len)];
                let content = self.take_bytes(len.saturating_mul(u64::from(bytes)))?;
                visitor.begin_array(node, len);
                integers(content, node, bytes, signed, big, visitor);
                visitor.end_array(node);
            }
            Op::BeginArray { node, len, counter, end, outermost } => {
                let len = state.slots[usize::from(len)];
                visitor.begin_array(node, len);
                if len == 0 {
                    visitor.end_array(node);
                    return Ok(end as usize);
                }
                if outermost {
                    self.idle = 0;
                }
                let [index, total, begin] = loop_slots(state, counter);
                (*index, *total, *begin) = (0, len, self.pos);
                visitor.element(node, 0);
            }
            Op::EndArray { node, counter, begin } => {
                let [index, total, element] = loop_slots(state, counter);
                if self.pos == *element {
                    self.idle += 1;
                    if self.idle > MAX_IDLE {
                        return Err(self.fail(FaultKind::EmptyElements));
                    }
                }
                *element = self.pos;
                *index += 1;
                if *index < *total {
                    visitor.element(node, *index);
                    return Ok(begin as usize);
                }
                visitor.end_array(node);
            }
            Op::Select { node, slot, table } => {
                let (table, raw) = (&tables.selects[table as usize], state.slots[usize::from(slot)]);
                let Some(option) = table.option(raw) else {
                    return Err(self.fail(FaultKind::NoOption { value: table.value(raw) }));
                };
                visitor.begin_variant(node, option);
                return Ok(table.targets[option] as usize);
            }
            Op::EndVariant { node } => visitor.end_variant(node),
            Op::Optional { node, slot, table } => {
                let (table, raw) = (&tables.selects[table as usize], state.slots[usize::from(slot)]);
                if table.option(raw).is_none() {
                    visitor.absent(node);
                    return Ok(table.targets[0] as usize);
                }
                visitor.begin_optional(node);
            }
            Op::EndOptional { node } => visitor.end_optional(node),
            Op::Unmarked { node, place, index, absent } => {
                if self.unmarked(node, state.slots[usize::from(place)], index, visitor) {
                    return Ok(at + 1);
                }
                return Ok(absent as usize);
            }
            Op::Length { .. }
            | Op::LookUp { .. }
            | Op::Place { .. }
            | Op::Base { .. }
            | Op::Unit { .. }
            | Op::Order { .. }
            | Op::EndAlign { .. } => self.rare(op, tables, state)?,
            Op::Jump { to } => return Ok(to as usize),
        }
        Ok(at + 1)
    }

    #[inline]
    fn leb128<V: Visitor>(&mut self, node: NodeId, signed: bool, visitor: &mut V) -> Result<(), Stop> {
        let rest = self.rest();
        let Some(len) = bits::leb128_len(rest) else { return Err(self.fail(FaultKind::EndlessInteger)) };
        let bytes = &rest[..len];
        self.pos += len as u64 * 8;
        self.last_bits = len as u32 * 7;
        match bits::leb128_u64(bytes, signed) {
            Some(value) => {
                self.last = value;
                self.is_huge = false;
                if signed { visitor.signed(node, value as i64) } else { visitor.unsigned(node, value) }
            }
            None => {
                let wide = bits::leb128_wide(bytes, signed);
                self.set_wide(&wide);
                visitor.wide(node, &wide);
            }
        }
        Ok(())
    }

    /// Instructions that few formats need.
    #[inline(never)]
    fn rare(&mut self, op: Op, tables: PlanTables<'_>, state: &mut DecoderState) -> Result<(), Stop> {
        match op {
            Op::Length { slot, len, big, reversed, signed, .. } => {
                let start = self.pos;
                let value = self.read(u32::from(len), big, reversed)?;
                if signed {
                    let len = bits::sign_extend(value, u32::from(len));
                    if len < 0 {
                        self.pos = start;
                        return Err(self.fail(FaultKind::Negative { len }));
                    }
                }
                state.slots[usize::from(slot)] = value;
            }
            Op::LookUp { from, to, table } => {
                let value = state.slots[usize::from(from)];
                state.slots[usize::from(to)] = tables.lengths[table as usize].get(&value).copied().unwrap_or(0);
            }
            Op::Place { slot } => state.slots[usize::from(slot)] = self.pos + 1,
            Op::Base { slot } => state.slots[usize::from(slot)] = self.pos,
            Op::Unit { base, len, unit } => {
                let used = self.pos.wrapping_sub(state.slots[usize::from(base)]) % u64::from(unit);
                if used + u64::from(len) > u64::from(unit) {
                    let padding = u64::from(unit) - used;
                    self.need(padding)?;
                    let before = self.pos.div_ceil(8);
                    self.pos += padding;
                    if before <= self.pos / 8 {
                        // No field stands in the byte where the unit begins.
                        state.order = None;
                    }
                }
            }
            Op::Order { big, .. } => {
                let before = state.order.replace(order(big));
                if self.pos & 7 != 0 && before.is_some_and(|before| before != order(big)) {
                    return Err(self.fail(FaultKind::OtherByteOrder));
                }
            }
            Op::EndAlign { mask, .. } => {
                let padding = self.pos.wrapping_neg() & u64::from(mask);
                self.need(padding)?;
                self.pos += padding;
            }
            _ => {}
        }
        Ok(())
    }

    /// Shows whether an optional field is there that a bit may mark as absent.
    #[inline(never)]
    fn unmarked<V: Visitor>(&self, node: NodeId, place: u64, index: u32, visitor: &mut V) -> bool {
        if self.is_marked(place, index) {
            visitor.absent(node);
            return false;
        }
        visitor.begin_optional(node);
        true
    }

    /// Is a bit set of an array that begins at `place` minus 1? `index` holds the byte order in its lowest bit.
    fn is_marked(&self, place: u64, index: u32) -> bool {
        let Some(at) = place.checked_sub(1).and_then(|place| place.checked_add(u64::from(index >> 1))) else {
            return false;
        };
        at < self.input.end_bits && bits::read_bits(self.input.bytes, at, 1, order(index & 1 == 1), false) == 1
    }

    fn set_wide(&mut self, wide: &Wide) {
        self.last = wide.limbs[0];
        self.is_huge = match wide.to_i128() {
            Some(value) if wide.signed => i64::try_from(value).is_err(),
            Some(value) => u64::try_from(value).is_err(),
            None => true,
        };
    }

    fn set_role(&self, role: Role, len: u8, state: &mut DecoderState) {
        let value = Some(self.last);
        let roles = &mut state.roles;
        let len_bits = if len == 0 { self.last_bits.min(64) } else { u32::from(len) };
        match role {
            Role::PacketMagic => roles.magic = value,
            Role::StreamClassId => roles.stream_class_id = value,
            Role::StreamId => roles.stream_id = value,
            Role::PacketTotalSize => roles.total_bits = value,
            Role::PacketContentSize => roles.content_bits = value,
            Role::PacketBegin => roles.begin_cycles = Some(state.clock),
            Role::PacketEnd => roles.end_cycles = Some(extend_cycles(state.clock, self.last, len_bits)),
            Role::DiscardedEvents => {
                roles.discarded = value;
                roles.discarded_len_bits = len_bits;
            }
            Role::PacketSequence => {
                roles.sequence = value;
                roles.sequence_len_bits = len_bits;
            }
            Role::EventClassId => roles.event_id = value,
            Role::TraceUuid | Role::Timestamp => {}
        }
    }
}

/// Index, length and element start of a loop over an array.
#[inline(always)]
fn loop_slots(state: &mut DecoderState, counter: u16) -> &mut [u64; 3] {
    let at = usize::from(counter);
    (&mut state.slots[at..at + 3]).try_into().expect("three slots")
}

/// Shows the elements of an array of whole integers.
#[inline]
fn integers<V: Visitor>(content: &[u8], node: NodeId, bytes: u8, signed: bool, big: bool, visitor: &mut V) {
    macro_rules! elements {
        ($type:ty, $len:expr, $visit:ident, $wide:ty) => {
            for (index, chunk) in content.chunks_exact($len).enumerate() {
                let Some(chunk) = chunk.first_chunk::<$len>() else { break };
                let value = if big { <$type>::from_be_bytes(*chunk) } else { <$type>::from_le_bytes(*chunk) };
                visitor.$visit(node, index as u64, <$wide>::from(value));
            }
        };
    }
    match (bytes, signed) {
        (1, false) => elements!(u8, 1, unsigned_element, u64),
        (1, true) => elements!(i8, 1, signed_element, i64),
        (2, false) => elements!(u16, 2, unsigned_element, u64),
        (2, true) => elements!(i16, 2, signed_element, i64),
        (4, false) => elements!(u32, 4, unsigned_element, u64),
        (4, true) => elements!(i32, 4, signed_element, i64),
        (_, false) => elements!(u64, 8, unsigned_element, u64),
        (_, true) => elements!(i64, 8, signed_element, i64),
    }
}

fn order(big: bool) -> ByteOrder {
    ByteOrder::big_if(big)
}

/// Bytes before the first code unit of `unit` bytes that is zero.
fn end_of_units(bytes: &[u8], unit: usize) -> Option<usize> {
    bytes.chunks_exact(unit).position(|chunk| chunk.iter().all(|&byte| byte == 0)).map(|at| at * unit)
}

fn until_zero(bytes: &[u8], unit: usize) -> &[u8] {
    let end = if unit == 1 { memchr::memchr(0, bytes) } else { end_of_units(bytes, unit) };
    &bytes[..end.unwrap_or(bytes.len())]
}
