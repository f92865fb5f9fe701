//! The referee: decodes fields by walking the tree of their classes, bit by bit, straight from the rules.
//!
//! It is slow and makes a value for everything. Tests hold the compiled plans of [`tracemill_codec::plan`] to it; it
//! shares nothing with them but the kinds of faults, the set of roles, and the fewest bits of a class. Nothing that is
//! released depends on it.
//!
//! The rules on faults: a field's fault is at its first bit after the alignment. When the padding itself passes the
//! end of the content, the fault is a [`FaultKind::PastEnd`] of the padding, at the position before it.

#![forbid(unsafe_code)]

mod numbers;

use std::collections::{HashMap, HashSet};

use tracemill_codec::bits::Wide;
use tracemill_codec::layout;
use tracemill_codec::plan::{FaultKind, RoleValues, ScopeRoots};
use tracemill_model::schema::{
    ArrayClass, BitsClass, ByteOrder, Encoding, FieldClass, FieldClassId, FieldKind, FieldOffset, FieldPath,
    FloatClass, IntegerClass, Length, OptionalClass, PathStep, Presence, Role, Schema, Scope, StringClass,
    StringLength, StructClass, VariantClass,
};

use self::numbers::{extended, number_value, real, wide_of};

/// A decoded field.
#[derive(Clone, Debug)]
pub enum DecodedValue {
    /// An unsigned integer, bit array or bit map of at most 64 bits.
    Unsigned(u64),
    /// A signed integer of at most 64 bits.
    Signed(i64),
    /// An integer, bit array or bit map of more than 64 bits.
    Wide(Wide),
    /// A boolean.
    Bool(bool),
    /// A floating point number.
    Real(f64),
    /// A string without its end, in the encoding of its class.
    String(Vec<u8>),
    /// A blob.
    Blob(Vec<u8>),
    /// A structure.
    Struct(Vec<DecodedValue>),
    /// An array.
    Array(Vec<DecodedValue>),
    /// A variant: the index of its option, and the field.
    Variant(usize, Box<DecodedValue>),
    /// An optional field.
    Optional(Option<Box<DecodedValue>>),
}

/// Numbers are equal when their bits are, but every NaN equals every other.
impl PartialEq for DecodedValue {
    fn eq(&self, other: &DecodedValue) -> bool {
        match (self, other) {
            (DecodedValue::Unsigned(a), DecodedValue::Unsigned(b)) => a == b,
            (DecodedValue::Signed(a), DecodedValue::Signed(b)) => a == b,
            (DecodedValue::Wide(a), DecodedValue::Wide(b)) => a == b,
            (DecodedValue::Bool(a), DecodedValue::Bool(b)) => a == b,
            (DecodedValue::Real(a), DecodedValue::Real(b)) => a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(),
            (DecodedValue::String(a), DecodedValue::String(b)) | (DecodedValue::Blob(a), DecodedValue::Blob(b)) => {
                a == b
            }
            (DecodedValue::Struct(a), DecodedValue::Struct(b)) | (DecodedValue::Array(a), DecodedValue::Array(b)) => {
                a == b
            }
            (DecodedValue::Variant(a, inner_a), DecodedValue::Variant(b, inner_b)) => a == b && inner_a == inner_b,
            (DecodedValue::Optional(a), DecodedValue::Optional(b)) => a == b,
            _ => false,
        }
    }
}

/// A field that cannot be decoded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NaiveFault {
    /// Why.
    pub kind: FaultKind,
    /// Its place, in bits from the start of the packet.
    pub at_bits: u64,
    /// Class of the field.
    pub class: FieldClassId,
    /// Path below its scope, as [`tracemill_codec::plan::Plan::path`] writes it.
    pub path: String,
}

/// Most elements without size in an array and all arrays inside it.
const MAX_IDLE: u32 = 1 << 16;

/// Most bytes of a LEB128 integer.
const MAX_LEB128_BYTES: usize = 256;

/// Decodes scopes one after the other.
///
/// A clone keeps what headers and contexts said, so that many events can be decoded after one packet header.
#[derive(Clone)]
pub struct Interpreter<'a> {
    /// Its position, in bits from the start of the packet.
    pub pos_bits: u64,
    /// First bit after the header of the event that is decoded.
    pub body_bits: u64,
    /// Length of the field that said last where it is.
    located_len: u64,
    /// The full value of the clock.
    pub clock: u64,
    /// Did a field set the clock?
    pub clock_is_set: bool,
    /// Values of fields with a role, as last read.
    pub roles: RoleValues,
    schema: &'a Schema,
    roots: ScopeRoots,
    bytes: &'a [u8],
    end_bits: u64,
    /// Every field that some other field refers to.
    selectors: HashSet<FieldPath>,
    /// Values of the selectors that are decoded and still there; `None` for one that does not fit 64 bits.
    values: HashMap<FieldPath, Option<i128>>,
    place: FieldPath,
    names: Vec<&'a str>,
    open_arrays: u32,
    idle: u32,
    /// First bits of the structures around the place.
    bases: Vec<u64>,
    /// Byte order of the field before, unless a byte was begun without any.
    pub order: Option<ByteOrder>,
}

type Result<T> = std::result::Result<T, NaiveFault>;

impl<'a> Interpreter<'a> {
    /// An interpreter of the scopes with these roots (in the order of [`Scope::ALL`]), at the start of a packet whose
    /// content ends at `end_bits`, at most `8 * bytes.len()`.
    pub fn new(schema: &'a Schema, roots: ScopeRoots, bytes: &'a [u8], end_bits: u64) -> Self {
        let mut interpreter = Interpreter {
            pos_bits: 0,
            body_bits: 0,
            located_len: 0,
            clock: 0,
            clock_is_set: false,
            roles: RoleValues::default(),
            schema,
            roots,
            bytes,
            end_bits,
            selectors: HashSet::new(),
            values: HashMap::new(),
            place: FieldPath { scope: Scope::PacketHeader, steps: Vec::new() },
            names: Vec::new(),
            open_arrays: 0,
            idle: 0,
            bases: Vec::new(),
            order: None,
        };
        interpreter.set_roots(roots);
        interpreter
    }

    /// Goes on with the scopes of another event.
    pub fn set_roots(&mut self, roots: ScopeRoots) {
        self.roots = roots;
        // A field of a shared scope is a selector when any event class of the trace uses it.
        let all = (0..self.schema.field_class_count()).map(|at| self.schema.field_class(FieldClassId(at as u32)));
        let shared = all.filter_map(layout::reference).filter(|path| path.scope <= Scope::CommonContext);
        self.selectors = shared.cloned().collect();
        let mut stack: Vec<_> = roots.into_iter().flatten().collect();
        while let Some(id) = stack.pop() {
            let class = self.schema.field_class(id);
            self.selectors.extend(layout::reference(class).cloned());
            stack.extend(layout::children(class));
        }
    }

    /// Decodes a scope from the current position; `None` when it is not declared.
    pub fn scope(&mut self, scope: Scope) -> Result<Option<DecodedValue>> {
        self.place = FieldPath { scope, steps: Vec::new() };
        self.names.clear();
        self.open_arrays = 0;
        self.forget();
        self.roots[scope as usize].map(|root| self.field(root)).transpose()
    }

    fn field(&mut self, id: FieldClassId) -> Result<DecodedValue> {
        let class = self.schema.field_class(id);
        match class.place {
            None => {
                self.align(id, class.align_bits)?;
                self.fit_in_unit(id, class)?;
            }
            Some(FieldOffset::At { offset_bytes }) => self.pos_bits = self.body_bits + u64::from(offset_bytes) * 8,
            Some(FieldOffset::Located { offset_bytes }) => {
                self.pos_bits = self.body_bits + u64::from(offset_bytes) * 8;
                self.need(id, 32)?;
                let offset: u32 = (0..4).map(|at| u32::from(self.byte()) << (8 * at)).sum();
                self.need(id, 32)?;
                let len: u32 = (0..4).map(|at| u32::from(self.byte()) << (8 * at)).sum();
                self.located_len = u64::from(len);
                self.pos_bits = self.body_bits + u64::from(offset) * 8;
                self.need(id, 0)?;
            }
        }
        match &class.kind {
            FieldKind::Integer(integer) => self.integer(id, class, integer),
            FieldKind::BitArray(bits) | FieldKind::BitMap(bits) => Ok(number_value(&self.bits_of(id, bits)?, false)),
            FieldKind::Boolean(bits) => {
                let value = self.bits_of(id, bits)?.contains(&true);
                self.values.extend(self.looked_up().into_iter().map(|path| (path, Some(i128::from(value)))));
                Ok(DecodedValue::Bool(value))
            }
            FieldKind::Float(FloatClass { len_bits, byte_order, reversed_bits }) => {
                Ok(DecodedValue::Real(real(&self.bits(id, *len_bits, *byte_order, *reversed_bits)?)))
            }
            FieldKind::String(string) => self.string(id, string),
            FieldKind::Blob(blob) => {
                let bytes = self.counted_bytes(id, &blob.length, 1)?;
                if class.roles.has(Role::TraceUuid) {
                    self.roles.uuid = bytes.as_slice().try_into().ok();
                }
                Ok(DecodedValue::Blob(bytes))
            }
            FieldKind::Rendered(rendered) => {
                self.need(id, u64::from(rendered.len_bytes) * 8)?;
                let own: Vec<u8> = (0..rendered.len_bytes).map(|_| self.byte()).collect();
                let whole = &self.bytes[..(self.end_bits / 8) as usize];
                let mut text = Vec::new();
                let is_there = rendered.render.render(&whole[(self.body_bits / 8) as usize..], &own, &mut text);
                Ok(DecodedValue::Optional(is_there.then(|| Box::new(DecodedValue::String(text)))))
            }
            FieldKind::Struct(structure) => {
                self.bases.push(self.pos_bits);
                let value = self.structure(structure)?;
                self.bases.pop();
                self.align(id, class.placement.end_align_bits)?;
                Ok(value)
            }
            FieldKind::Array(array) => {
                let value = self.array(id, array)?;
                if class.roles.has(Role::TraceUuid) {
                    self.roles.uuid = uuid_of(&value);
                }
                Ok(value)
            }
            FieldKind::Optional(optional) => self.optional(id, optional),
            FieldKind::Variant(variant) => self.variant(id, variant),
        }
    }

    /// Moves a bit-field that does not fit in what is left of its unit.
    fn fit_in_unit(&mut self, id: FieldClassId, class: &FieldClass) -> Result<()> {
        let (unit, Some(base)) = (u64::from(class.placement.unit_bits), self.bases.last()) else { return Ok(()) };
        if unit == 0 {
            return Ok(());
        }
        let used = (self.pos_bits - base) % unit;
        if used + layout::leaf_bits(class).unwrap_or(0) > unit {
            self.need(id, unit - used)?;
            let last_byte = self.pos_bits.div_ceil(8);
            self.pos_bits += unit - used;
            if last_byte <= self.pos_bits / 8 {
                self.order = None;
            }
        }
        Ok(())
    }

    fn integer(&mut self, id: FieldClassId, class: &FieldClass, integer: &IntegerClass) -> Result<DecodedValue> {
        let bits = if integer.is_variable_length() {
            self.leb128(id)?
        } else {
            self.bits(id, integer.len_bits, integer.byte_order, integer.reversed_bits)?
        };
        let wide = wide_of(&bits, integer.signed);
        let low = wide.limbs[0];
        let sign = integer.signed && bits[bits.len() - 1];
        let top_is_sign = bits.iter().skip(if integer.signed { 63 } else { 64 }).all(|&bit| bit == sign);
        let value = if integer.signed { i128::from(low as i64) } else { i128::from(low) };
        let value = top_is_sign.then_some(value);
        self.values.extend(self.looked_up().into_iter().map(|path| (path, value)));
        // No id is larger than 64 bits, and no packet: such a number counts as the largest.
        let is_huge = match wide.to_i128() {
            Some(value) if integer.signed => i64::try_from(value).is_err(),
            Some(value) => u64::try_from(value).is_err(),
            None => true,
        };
        self.note_roles(class, low, if is_huge { u64::MAX } else { low }, bits.len() as u32);
        let fits = bits.len() <= 64 || integer.is_variable_length() && top_is_sign;
        Ok(match (fits, integer.signed) {
            (true, false) => DecodedValue::Unsigned(low),
            (true, true) => DecodedValue::Signed(low as i64),
            (false, _) => DecodedValue::Wide(wide),
        })
    }

    fn note_roles(&mut self, class: &FieldClass, low: u64, value: u64, len_bits: u32) {
        let has = |role| class.roles.has(role);
        if has(Role::Timestamp) {
            self.clock = extended(self.clock, low, len_bits);
            self.clock_is_set = true;
        }
        let (clock, roles) = (self.clock, &mut self.roles);
        if has(Role::PacketMagic) {
            roles.magic = Some(value);
        }
        if has(Role::StreamClassId) {
            roles.stream_class_id = Some(value);
        }
        if has(Role::StreamId) {
            roles.stream_id = Some(value);
        }
        if has(Role::PacketTotalSize) {
            roles.total_bits = Some(value);
        }
        if has(Role::PacketContentSize) {
            roles.content_bits = Some(value);
        }
        if has(Role::PacketBegin) {
            roles.begin_cycles = Some(clock);
        }
        if has(Role::PacketEnd) {
            roles.end_cycles = Some(extended(clock, value, len_bits));
        }
        if has(Role::DiscardedEvents) {
            (roles.discarded, roles.discarded_len_bits) = (Some(value), len_bits.min(64));
        }
        if has(Role::PacketSequence) {
            (roles.sequence, roles.sequence_len_bits) = (Some(value), len_bits.min(64));
        }
        if has(Role::EventClassId) {
            roles.event_id = Some(value);
        }
    }

    fn string(&mut self, id: FieldClassId, string: &StringClass) -> Result<DecodedValue> {
        let unit = unit_bytes(string.encoding);
        match &string.length {
            StringLength::Bytes(length) => {
                let mut bytes = self.counted_bytes(id, length, unit as u64)?;
                let units = bytes.len() / unit;
                if let Some(zero) = (0..units).find(|at| bytes[at * unit..][..unit].iter().all(|&byte| byte == 0)) {
                    bytes.truncate(zero * unit);
                }
                Ok(DecodedValue::String(bytes))
            }
            StringLength::NullTerminated => {
                let start = self.pos_bits;
                let mut bytes = Vec::new();
                loop {
                    if self.left() < unit as u64 * 8 {
                        self.pos_bits = start;
                        return Err(self.fault(id, FaultKind::Unterminated));
                    }
                    let code: Vec<u8> = (0..unit).map(|_| self.byte()).collect();
                    if code.iter().all(|&byte| byte == 0) {
                        return Ok(DecodedValue::String(bytes));
                    }
                    bytes.extend(code);
                }
            }
        }
    }

    fn counted_bytes(&mut self, id: FieldClassId, length: &Length, unit: u64) -> Result<Vec<u8>> {
        let len = self.length(id, length, 8)?;
        let Some(bits) = len.checked_mul(8) else {
            return Err(self.fault(id, FaultKind::TooLong { len }));
        };
        self.need(id, bits)?;
        if !len.is_multiple_of(unit) {
            return Err(self.fault(id, FaultKind::PartialUnit { bytes: len, unit: unit as u8 }));
        }
        Ok((0..len).map(|_| self.byte()).collect())
    }

    fn structure(&mut self, structure: &'a StructClass) -> Result<DecodedValue> {
        let mut values = Vec::new();
        for (at, member) in structure.members.iter().enumerate() {
            values.push(self.inside(PathStep::Member(at as u32), &member.name, member.class)?);
        }
        Ok(DecodedValue::Struct(values))
    }

    fn array(&mut self, id: FieldClassId, array: &ArrayClass) -> Result<DecodedValue> {
        if self.selectors.contains(&self.place) {
            self.values.insert(self.place.clone(), Some(i128::from(self.pos_bits)));
        }
        let element_align = self.schema.field_class(array.element).align_bits;
        let len = self.length(id, &array.length, element_align)?;
        let least = u128::from(len) * u128::from(layout::min_bits(self.schema, array.element));
        if least > u128::from(self.left()) {
            return Err(self.fault(id, FaultKind::TooLong { len }));
        }
        if self.open_arrays == 0 {
            self.idle = 0;
        }
        self.open_arrays += 1;
        let mut values = Vec::new();
        for _ in 0..len {
            let start = self.pos_bits;
            values.push(self.inside(PathStep::Element, "", array.element)?);
            if self.pos_bits == start {
                self.idle += 1;
                if self.idle > MAX_IDLE {
                    return Err(self.fault(id, FaultKind::EmptyElements));
                }
            }
        }
        self.open_arrays -= 1;
        // After the array there is no current element.
        self.forget_below(PathStep::Element);
        Ok(DecodedValue::Array(values))
    }

    fn optional(&mut self, id: FieldClassId, optional: &OptionalClass) -> Result<DecodedValue> {
        let is_there = match &optional.presence {
            Presence::Unmarked(index) => self.is_unmarked(&optional.selector, *index),
            _ => self.is_selected(id, optional)?,
        };
        if !is_there {
            self.forget_below(PathStep::Content);
            return Ok(DecodedValue::Optional(None));
        }
        let content = self.inside(PathStep::Content, "", optional.content)?;
        Ok(DecodedValue::Optional(Some(Box::new(content))))
    }

    /// Is the bit not set, or the array of bits not there?
    fn is_unmarked(&self, path: &FieldPath, index: u32) -> bool {
        let Some(&Some(start)) = self.values.get(path) else { return true };
        let at = start as u64 + u64::from(index);
        let Some(byte) = self.bytes.get((at / 8) as usize).filter(|_| at < self.end_bits) else { return true };
        let mut id = self.roots[path.scope as usize];
        for step in &path.steps {
            let steps = id.into_iter().flat_map(|id| layout::steps(self.schema.field_class(id)));
            id = steps.filter(|(found, _)| found == step).map(|(_, id)| id).next();
        }
        let element = id.and_then(|id| layout::children(self.schema.field_class(id)).first().copied());
        let is_big = element.is_some_and(|id| {
            let kind = &self.schema.field_class(id).kind;
            matches!(kind, FieldKind::Integer(integer) if integer.byte_order == ByteOrder::Big)
        });
        byte >> (if is_big { 7 - at % 8 } else { at % 8 }) & 1 == 0
    }

    fn is_selected(&self, id: FieldClassId, optional: &OptionalClass) -> Result<bool> {
        let selector = self.selector(id, &optional.selector)?;
        Ok(match &optional.presence {
            Presence::Unmarked(_) => true,
            Presence::Boolean => selector != 0,
            Presence::Ranges(ranges) => ranges.iter().any(|&(low, high)| low <= selector && selector <= high),
        })
    }

    fn variant(&mut self, id: FieldClassId, variant: &'a VariantClass) -> Result<DecodedValue> {
        let value = self.selector(id, &variant.selector)?;
        for at in 0..variant.options.len() {
            self.forget_below(PathStep::Option(at as u32));
            self.forget_below(PathStep::Selected(at as u32));
        }
        for (at, option) in variant.options.iter().enumerate() {
            if option.ranges.iter().any(|&(low, high)| low <= value && value <= high) {
                let name = option.name.as_deref().unwrap_or("");
                let inner = self.inside(PathStep::Option(at as u32), name, option.class)?;
                return Ok(DecodedValue::Variant(at, Box::new(inner)));
            }
        }
        Err(self.fault(id, FaultKind::NoOption { value }))
    }

    fn inside(&mut self, step: PathStep, name: &'a str, class: FieldClassId) -> Result<DecodedValue> {
        self.place.steps.push(step);
        self.names.push(name);
        self.forget();
        let value = self.field(class)?;
        self.names.pop();
        self.place.steps.pop();
        Ok(value)
    }

    fn length(&mut self, id: FieldClassId, length: &Length, element_align: u32) -> Result<u64> {
        match length {
            Length::Static(len) => Ok(*len),
            Length::Field(path) => Ok(self.selector(id, path)? as u64),
            Length::Located => Ok(self.located_len),
            Length::Inline(class) => {
                let class = self.schema.field_class(*class);
                self.align(id, class.align_bits)?;
                let FieldKind::Integer(integer) = &class.kind else { return Ok(0) };
                let start = self.pos_bits;
                let bits = self.bits(id, integer.len_bits, integer.byte_order, integer.reversed_bits)?;
                let low = wide_of(&bits, integer.signed).limbs[0];
                if integer.signed && (low as i64) < 0 {
                    self.pos_bits = start;
                    return Err(self.fault(id, FaultKind::Negative { len: low as i64 }));
                }
                self.align(id, element_align)?;
                Ok(low)
            }
            Length::Table { selector, lengths } => {
                let value = self.selector(id, selector)? as u64;
                Ok(lengths.get(&value).copied().unwrap_or(0))
            }
        }
    }

    fn align(&mut self, id: FieldClassId, align_bits: u32) -> Result<()> {
        let align = u64::from(align_bits);
        let padding = (align - self.pos_bits % align) % align;
        self.need(id, padding)?;
        self.pos_bits += padding;
        Ok(())
    }

    fn selector(&self, id: FieldClassId, path: &FieldPath) -> Result<i128> {
        let value = self.values.get(path).ok_or_else(|| self.fault(id, FaultKind::AbsentSelector))?;
        value.ok_or_else(|| self.fault(id, FaultKind::HugeSelector))
    }

    /// The paths by which lengths and selectors look the current field up.
    fn looked_up(&self) -> Vec<FieldPath> {
        let mut found: Vec<FieldPath> = self.selectors.get(&self.place).cloned().into_iter().collect();
        let members = |steps: &[PathStep]| steps.iter().filter(|step| matches!(step, PathStep::Member(_))).count();
        for path in &self.selectors {
            let Some(at) = path.steps.iter().position(|step| matches!(step, PathStep::Selected(_))) else { continue };
            let is_below = path.scope == self.place.scope
                && self.place.steps.len() > at
                && self.place.steps[..at] == path.steps[..at]
                && matches!(self.place.steps[at], PathStep::Option(_))
                && !self.place.steps[at..].contains(&PathStep::Element);
            if !is_below || members(&path.steps) != members(&self.place.steps) {
                continue;
            }
            // The names after the option, theirs and ours.
            let mut theirs = Vec::new();
            let mut id = self.roots[path.scope as usize];
            for (depth, step) in path.steps.iter().enumerate() {
                let class = id.map(|id| self.schema.field_class(id));
                if let (Some(FieldKind::Struct(class)), PathStep::Member(member), true) =
                    (class.map(|class| &class.kind), step, depth > at)
                {
                    theirs.push(&*class.members[*member as usize].name);
                }
                id = class.and_then(|class| layout::child(class, *step));
            }
            let ours = self.names.iter().zip(&self.place.steps).skip(at);
            let ours = ours.filter(|(_, step)| matches!(step, PathStep::Member(_))).map(|(name, _)| *name);
            if ours.eq(theirs) {
                found.push(path.clone());
            }
        }
        found
    }

    /// Forgets the fields at and below the current place: they are about to be decoded again, or to be absent.
    fn forget(&mut self) {
        if self.values.is_empty() {
            return;
        }
        let place = &self.place;
        self.values.retain(|path, _| path.scope != place.scope || !path.steps.starts_with(&place.steps));
    }

    fn forget_below(&mut self, step: PathStep) {
        self.place.steps.push(step);
        self.forget();
        self.place.steps.pop();
    }

    fn left(&self) -> u64 {
        self.end_bits - self.pos_bits
    }

    fn need(&self, id: FieldClassId, bits: u64) -> Result<()> {
        if bits > self.left() {
            return Err(self.fault(id, FaultKind::PastEnd { need_bits: bits }));
        }
        Ok(())
    }

    fn fault(&self, class: FieldClassId, kind: FaultKind) -> NaiveFault {
        let parts = self.names.iter().zip(&self.place.steps).map(|(name, step)| match (step, name.is_empty()) {
            (PathStep::Content, _) => String::new(),
            (_, true) => "[]".into(),
            _ => format!(".{name}"),
        });
        NaiveFault { kind, at_bits: self.pos_bits, class, path: parts.collect() }
    }

    fn byte(&mut self) -> u8 {
        assert_eq!(self.pos_bits % 8, 0, "bytes stand on byte boundaries");
        self.pos_bits += 8;
        self.bytes[self.pos_bits as usize / 8 - 1]
    }

    fn leb128(&mut self, id: FieldClassId) -> Result<Vec<bool>> {
        let start = self.pos_bits;
        let mut bits = Vec::new();
        for _ in 0..MAX_LEB128_BYTES {
            if self.left() < 8 {
                break;
            }
            let byte = self.byte();
            bits.extend((0..7).map(|at| byte >> at & 1 == 1));
            if byte < 0x80 {
                return Ok(bits);
            }
        }
        self.pos_bits = start;
        Err(self.fault(id, FaultKind::EndlessInteger))
    }

    fn bits_of(&mut self, id: FieldClassId, class: &BitsClass) -> Result<Vec<bool>> {
        self.bits(id, class.len_bits, class.byte_order, class.reversed_bits)
    }

    /// The bits of a number, the least significant one first.
    fn bits(&mut self, id: FieldClassId, len: u32, order: ByteOrder, is_reversed: bool) -> Result<Vec<bool>> {
        let before = self.order.replace(order);
        if !self.pos_bits.is_multiple_of(8) && before.is_some_and(|before| before != order) {
            return Err(self.fault(id, FaultKind::OtherByteOrder));
        }
        self.need(id, u64::from(len))?;
        let mut bits = Vec::new();
        for at in self.pos_bits..self.pos_bits + u64::from(len) {
            let byte = self.bytes[at as usize / 8];
            bits.push(match order {
                ByteOrder::Little => byte >> (at % 8) & 1 == 1,
                ByteOrder::Big => byte >> (7 - at % 8) & 1 == 1,
            });
        }
        self.pos_bits += u64::from(len);
        // In a big-endian number the first bit of the stream is the most significant one.
        if (order == ByteOrder::Big) != is_reversed {
            bits.reverse();
        }
        Ok(bits)
    }
}

fn unit_bytes(encoding: Encoding) -> usize {
    match encoding {
        Encoding::Utf8 | Encoding::Ascii => 1,
        Encoding::Utf16Be | Encoding::Utf16Le => 2,
        Encoding::Utf32Be | Encoding::Utf32Le => 4,
    }
}

fn uuid_of(array: &DecodedValue) -> Option<[u8; 16]> {
    let DecodedValue::Array(elements) = array else { return None };
    let byte = |value: &DecodedValue| match value {
        DecodedValue::Unsigned(value) => u8::try_from(*value).ok(),
        _ => None,
    };
    elements.iter().map(byte).collect::<Option<Vec<u8>>>()?.try_into().ok()
}
