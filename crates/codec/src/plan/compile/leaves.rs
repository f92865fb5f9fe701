//! Instructions of numbers, texts and blobs.

use tracemill_model::schema::{BitsClass, ByteOrder, FieldClass, FloatClass, IntegerClass, Length, Role, Roles};

use super::super::{NodeId, Op};
use super::shared::is_wide;
use super::{Compiler, PlanMode};

impl Compiler<'_> {
    pub(super) fn integer(&mut self, class: &FieldClass, integer: &IntegerClass, node: NodeId) {
        let slot = self.saved_slot();
        let roles = self.effective_roles(class);
        let len = integer.len_bits;
        if integer.is_variable_length() {
            self.emit(Op::Leb { node, signed: integer.signed });
            self.forget_bytes();
        } else {
            let op = self.integer_op(integer, node);
            if slot.is_none() && roles.is_empty() {
                return self.leaf(op, u64::from(len));
            }
            self.emit(op);
            self.at.known = self.at.known.advance(u64::from(len));
        }
        if let Some(slot) = slot {
            self.save(slot, is_wide(&class.kind));
        }
        self.emit_roles(roles, len);
    }

    pub(super) fn integer_op(&self, integer: &IntegerClass, node: NodeId) -> Op {
        let big = integer.byte_order == ByteOrder::Big;
        let (len, signed, reversed) = (integer.len_bits, integer.signed, integer.reversed_bits);
        let plain = self.at.known.is_byte() && !reversed;
        match (len, signed) {
            (8, false) if plain => Op::U8 { node },
            (8, true) if plain => Op::S8 { node },
            (16, false) if plain => Op::U16 { node, big },
            (16, true) if plain => Op::S16 { node, big },
            (32, false) if plain => Op::U32 { node, big },
            (32, true) if plain => Op::S32 { node, big },
            (64, false) if plain => Op::U64 { node, big },
            (64, true) if plain => Op::S64 { node, big },
            (1..=64, _) => Op::Bits { node, len: len as u8, big, reversed, signed },
            _ => Op::Wide { node, len, big, reversed, signed },
        }
    }

    pub(super) fn emit_roles(&mut self, roles: Roles, len_bits: u32) {
        let len = len_bits.min(64) as u8;
        let wide = len_bits == 0 || len_bits > 64;
        // The clock first: a packet's beginning is the value that its field gives to the clock.
        if roles.has(Role::Timestamp) {
            self.emit(Op::Clock { len });
        }
        const VALUES: [Role; 10] = [
            Role::PacketMagic,
            Role::StreamClassId,
            Role::StreamId,
            Role::PacketTotalSize,
            Role::PacketContentSize,
            Role::PacketBegin,
            Role::PacketEnd,
            Role::DiscardedEvents,
            Role::PacketSequence,
            Role::EventClassId,
        ];
        for role in VALUES {
            if roles.has(role) {
                self.emit(Op::Role { role, len, wide });
            }
        }
    }

    pub(super) fn bits(&mut self, bits: &BitsClass, node: NodeId) {
        let big = bits.byte_order == ByteOrder::Big;
        let (len, reversed) = (bits.len_bits, bits.reversed_bits);
        let op = match len {
            1..=64 => Op::Bits { node, len: len as u8, big, reversed, signed: false },
            _ => Op::Wide { node, len, big, reversed, signed: false },
        };
        self.leaf(op, u64::from(len));
    }

    /// A floating point number.
    pub(super) fn float(&mut self, float: &FloatClass, node: NodeId) {
        let big = float.byte_order == ByteOrder::Big;
        let len = u64::from(float.len_bits);
        let op = match float.len_bits {
            32 if self.at.known.is_byte() && !float.reversed_bits => Op::F32 { node, big },
            64 if self.at.known.is_byte() && !float.reversed_bits => Op::F64 { node, big },
            len => Op::Float { node, len, big, reversed: float.reversed_bits },
        };
        self.leaf(op, len);
    }

    pub(super) fn boolean(&mut self, bits: &BitsClass, node: NodeId) {
        let big = bits.byte_order == ByteOrder::Big;
        let op = Op::Boolean { node, len: bits.len_bits, big, reversed: bits.reversed_bits };
        match self.saved_slot() {
            None => self.leaf(op, u64::from(bits.len_bits)),
            Some(slot) => {
                self.emit(op);
                self.at.known = self.at.known.advance(u64::from(bits.len_bits));
                self.save(slot, false);
            }
        }
    }

    /// Saves the value of the field that was read.
    pub(super) fn save(&mut self, slot: u16, is_wide: bool) {
        match self.slot_here(&self.slots.fits) {
            Some(fits) if is_wide => self.emit(Op::SaveWide { slot, fits }),
            Some(fits) if !self.slots.joined.is_empty() => {
                self.emit(Op::Save { slot });
                self.emit(Op::Set { slot: fits, value: 1 });
            }
            _ => self.emit(Op::Save { slot }),
        }
        self.note_saved();
    }

    /// Bytes of a string or blob, whose number `length` says; they come in units.
    pub(super) fn bytes(&mut self, length: &Length, unit: u8, op: impl FnOnce(u16) -> Op) {
        match length {
            Length::Static(bytes) if self.form.mode == PlanMode::Skip && bytes.is_multiple_of(unit.into()) => {
                self.advance(bytes.saturating_mul(8))
            }
            Length::Static(bytes) => {
                let slot = self.loop_slots();
                self.emit(Op::Set { slot, value: *bytes });
                self.emit(op(slot));
                self.at.known = self.at.known.advance(bytes.wrapping_mul(8));
            }
            length => {
                let slot = self.length_slot(length, 8);
                self.emit(op(slot));
                self.forget_bytes();
            }
        }
    }
}
