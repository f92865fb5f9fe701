//! Random schemas and bytes.

use std::sync::Arc;

use tracemill_model::schema::*;

/// SplitMix64.
pub(crate) struct Rng(u64);

impl Rng {
    /// The numbers of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bd1_e995)
    }

    /// The next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// True `percent` times of a hundred.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of several.
    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// Bytes of a kind that makes lengths small and selectors likely to hit; and where the content ends.
pub(crate) fn random_bytes(rng: &mut Rng) -> (Vec<u8>, u64) {
    let len = match rng.below(10) {
        0 => rng.below(4),
        1..=3 => rng.below(64),
        _ => rng.below(400),
    };
    let mut kind = rng.below(7);
    let mut bytes = Vec::new();
    for at in 0..len {
        if kind == 6 || rng.chance(2) && at % 16 == 0 {
            kind = rng.below(7);
        }
        bytes.push(match kind {
            0 => 0,
            1 => rng.pick(&[0, 0, 0, 0, 0, 1, 2, 3]),
            2 => rng.below(4) as u8,
            3 => rng.next() as u8,
            4 => rng.pick(&[0xff, 0x80, 0, 1, 0x7f, 0xfe]),
            _ => rng.pick(&[0, 0, 0, 0, 0, 0, 0, 1, 0x10, 0x20, 0x40, 0x80]),
        });
    }
    let bits = len * 8;
    let end = if rng.chance(60) { bits } else { rng.below(bits + 1) };
    (bytes, end)
}

#[derive(Clone, Copy, PartialEq)]
enum Sort {
    Unsigned,
    Signed,
    Boolean,
}

/// A field that later ones may refer to.
struct Selector {
    path: FieldPath,
    sort: Sort,
}

/// Makes one schema.
pub(crate) struct Generator<'r> {
    rng: &'r mut Rng,
    schema: Schema,
    selectors: Vec<Selector>,
    /// Arrays of single bits outside of arrays, which optional fields may look into.
    marks: Vec<FieldPath>,
    scope: Scope,
    steps: Vec<PathStep>,
    /// Fields that may still be made in this scope.
    budget: u32,
    /// Absurd lengths and alignments are allowed.
    is_hostile: bool,
    /// Byte order of most fields, and how many percent have any: two of them in a byte end the event.
    order: ByteOrder,
    mixed: u64,
    /// Classes that hold no reference: they may be used again.
    closed: Vec<FieldClassId>,
}

/// A schema of a number of stream classes with a few event classes each.
pub(crate) fn random_schema(rng: &mut Rng, streams: usize) -> Schema {
    let is_hostile = rng.chance(15);
    let order = rng.pick(&[ByteOrder::Little, ByteOrder::Big]);
    let mixed = rng.pick(&[0, 0, 5, 20, 100]);
    let mut generator = Generator {
        rng,
        order,
        mixed,
        schema: Schema::new("random"),
        selectors: Vec::new(),
        marks: Vec::new(),
        scope: Scope::PacketHeader,
        steps: Vec::new(),
        budget: 0,
        is_hostile,
        closed: Vec::new(),
    };
    generator.trace(streams);
    generator.schema
}

impl Generator<'_> {
    fn trace(&mut self, streams: usize) {
        self.schema.packet_header = self.maybe_root(Scope::PacketHeader, 60);
        let (shared, shared_marks) = (self.selectors.len(), self.marks.len());
        for id in 0..streams {
            self.stream(id as u64);
            self.selectors.truncate(shared);
            self.marks.truncate(shared_marks);
        }
    }

    fn stream(&mut self, id: u64) {
        let packet_context = self.maybe_root(Scope::PacketContext, 60);
        let event_header = self.event_header();
        let common_context = self.maybe_root(Scope::CommonContext, 40);
        let class = StreamClass { id, packet_context, event_header, common_context, ..StreamClass::default() };
        let stream = self.schema.add_stream(class).unwrap();
        let (shared, shared_marks) = (self.selectors.len(), self.marks.len());
        for at in 0..1 + self.rng.below(4) {
            let id = if self.rng.chance(90) { at } else { self.rng.pick(&[at, 31, 65535, 70_000, u64::MAX]) };
            let specific_context = self.maybe_root(Scope::SpecificContext, 30);
            let payload = self.maybe_root(Scope::Payload, 85);
            let _ = self.schema.add_event(EventClass { specific_context, payload, ..EventClass::new(id, stream) });
            self.selectors.truncate(shared);
            self.marks.truncate(shared_marks);
        }
    }

    fn maybe_root(&mut self, scope: Scope, percent: u64) -> Option<FieldClassId> {
        if !self.rng.chance(percent) {
            return None;
        }
        self.scope = scope;
        self.budget = 2 + self.rng.below(14) as u32;
        Some(self.structure(0))
    }

    fn event_header(&mut self) -> Option<FieldClassId> {
        self.scope = Scope::EventHeader;
        self.budget = 8;
        match self.rng.below(8) {
            0 => None,
            1 | 2 => Some(self.plain_header()),
            3 => Some(self.lttng_header(5, 27, 8)),
            4 => Some(self.lttng_header(16, 32, 8)),
            5 => {
                let (id, time, align) = (1 + self.rng.below(12), 1 + self.rng.below(63), self.rng.pick(&[1, 1, 8, 32]));
                Some(self.lttng_header(id as u32, time as u32, align))
            }
            _ => self.maybe_root(Scope::EventHeader, 100),
        }
    }

    fn plain_header(&mut self) -> FieldClassId {
        let mut members = Vec::new();
        for role in [Role::EventClassId, Role::Timestamp] {
            let len = self.rng.pick(&[3, 5, 8, 11, 16, 32, 64]);
            let align = self.rng.pick(&[1, 8, 16, 32]);
            let class = self.role_integer(len, align, role);
            self.note(members.len(), Sort::Unsigned);
            members.push(class);
        }
        if self.rng.chance(30) {
            members.swap(0, 1);
        }
        self.finish_struct(members, 1)
    }

    /// An id that selects a short form with a time stamp, or a long form with id and time stamp.
    fn lttng_header(&mut self, id_bits: u32, time_bits: u32, align: u32) -> FieldClassId {
        let escape = (1i128 << id_bits) - 1;
        let id = self.role_integer(id_bits, 1, Role::EventClassId);
        self.note(0, Sort::Unsigned);
        let time = self.role_integer(time_bits, 1, Role::Timestamp);
        let short = self.finish_struct(vec![time], 1);
        let (long_id, long_time) =
            (self.role_integer(32, 8, Role::EventClassId), self.role_integer(64, 8, Role::Timestamp));
        let long = self.finish_struct(vec![long_id, long_time], 1);
        let escape = if self.rng.chance(50) { 1.min(escape) } else { escape };
        let option = |ranges, class| VariantOption { name: Some("form".into()), raw_name: None, ranges, class };
        let options = vec![option(vec![(0, escape - 1)], short), option(vec![(escape, escape)], long)];
        let selector = FieldPath { scope: Scope::EventHeader, steps: vec![PathStep::Member(0)] };
        let variant = FieldKind::Variant(VariantClass { selector, options });
        let variant = self.schema.add_field_class(FieldClass::new(variant, 1));
        self.finish_struct(vec![id, variant], align)
    }

    fn role_integer(&mut self, len_bits: u32, align: u32, role: Role) -> FieldClassId {
        let byte_order = self.byte_order();
        let class = IntegerClass { byte_order, ..IntegerClass::unsigned(len_bits) };
        let class = FieldClass::new(FieldKind::Integer(class), align).with_roles(Roles::NONE.with(role));
        self.schema.add_field_class(class)
    }

    /// Notes a member of the root as a selector.
    fn note(&mut self, at: usize, sort: Sort) {
        let path = FieldPath { scope: self.scope, steps: vec![PathStep::Member(at as u32)] };
        self.selectors.push(Selector { path, sort });
    }

    fn finish_struct(&mut self, classes: Vec<FieldClassId>, minimum_bits: u32) -> FieldClassId {
        let member = |(at, class)| {
            let name: Arc<str> = format!("m{at}").into();
            Member { raw_name: name.clone(), name, class }
        };
        let members: Vec<_> = classes.into_iter().enumerate().map(member).collect();
        let align = self.schema.struct_align_bits(&members, minimum_bits);
        let end_align_bits = if self.rng.chance(10) { self.rng.pick(&[8, 32, 64]) } else { 1 };
        let class = FieldClass::new(FieldKind::Struct(StructClass { members }), align);
        let placement = Placement { end_align_bits, ..Placement::default() };
        self.schema.add_field_class(class.with_placement(placement))
    }

    fn structure(&mut self, depth: u32) -> FieldClassId {
        let count = if depth == 0 { 1 + self.rng.below(7) } else { self.rng.below(4) };
        let mut classes = Vec::new();
        for at in 0..count {
            if self.budget == 0 {
                break;
            }
            self.budget -= 1;
            self.steps.push(PathStep::Member(at as u32));
            classes.push(if self.rng.chance(12) { self.bit_field() } else { self.field(depth + 1) });
            self.steps.pop();
        }
        let minimum = if self.rng.chance(15) { self.align(&[2, 8, 16, 32, 64, 128]) } else { 1 };
        self.finish_struct(classes, minimum)
    }

    /// A bit-field of C.
    fn bit_field(&mut self) -> FieldClassId {
        let unit_bits = self.rng.pick(&[8, 16, 24, 32, 64]);
        let byte_order = self.byte_order();
        let len_bits = 1 + self.rng.below(u64::from(unit_bits)) as u32;
        let class = IntegerClass { byte_order, signed: self.rng.chance(50), ..IntegerClass::unsigned(len_bits) };
        let class = FieldClass::new(FieldKind::Integer(class), self.rng.pick(&[1, 1, 1, 8]));
        let placement = Placement { unit_bits, ..Placement::default() };
        self.schema.add_field_class(class.with_placement(placement))
    }

    fn align(&mut self, usual: &[u32]) -> u32 {
        if self.is_hostile && self.rng.chance(5) {
            return self.rng.pick(&[1 << 16, 1 << 17, 1 << 31]);
        }
        self.rng.pick(usual)
    }

    fn field(&mut self, depth: u32) -> FieldClassId {
        if !self.closed.is_empty() && self.rng.chance(7) {
            return self.rng.pick(&self.closed.clone());
        }
        let before = self.schema.field_class_count();
        let composite = if depth >= 6 { 0 } else { 40 };
        let id = if self.rng.chance(composite) {
            match self.rng.below(10) {
                0..=2 => self.structure(depth),
                3..=5 => self.array(depth),
                6 | 7 => self.optional(depth),
                _ => self.variant(depth),
            }
        } else {
            self.leaf()
        };
        let all = (before..self.schema.field_class_count()).map(|at| self.schema.field_class(FieldClassId(at as u32)));
        if all.into_iter().all(|class| tracemill_codec::layout::reference(class).is_none()) {
            self.closed.push(id);
        }
        id
    }

    /// An array of single bits.
    fn mark_array(&mut self) -> FieldClassId {
        let length = match (self.rng.below(3), self.selector(&[Sort::Unsigned])) {
            (0, Some((selector, _))) => {
                let lengths = (0..20).map(|value| (value, value % 7)).collect();
                Length::Table { selector, lengths: Arc::new(lengths) }
            }
            (1, _) => self.inline_length(),
            _ => Length::Static(self.rng.below(20)),
        };
        let byte_order = self.byte_order();
        let bit = IntegerClass { byte_order, ..IntegerClass::unsigned(1) };
        let element = self.add(FieldKind::Integer(bit), 1);
        if !self.steps.contains(&PathStep::Element) {
            self.marks.push(FieldPath { scope: self.scope, steps: self.steps.clone() });
        }
        let align = match length {
            Length::Inline(class) => self.schema.field_class(class).align_bits,
            _ => 1,
        };
        self.add(FieldKind::Array(ArrayClass { element, length }), align)
    }

    /// A length that stands before what it counts.
    fn inline_length(&mut self) -> Length {
        let byte_order = self.byte_order();
        let len_bits = self.rng.pick(&[1, 2, 3, 3, 8, 16]);
        let class = IntegerClass { byte_order, signed: self.rng.chance(30), ..IntegerClass::unsigned(len_bits) };
        let align = self.rng.pick(&[1, 1, 8, 16]);
        Length::Inline(self.add(FieldKind::Integer(class), align))
    }

    fn array(&mut self, depth: u32) -> FieldClassId {
        if self.rng.chance(15) {
            return self.mark_array();
        }
        let mut length = if self.rng.chance(25) { self.inline_length() } else { self.length() };
        self.steps.push(PathStep::Element);
        let element = self.field(depth + 1);
        self.steps.pop();
        // Elements without size take the tests a long time.
        if tracemill_codec::layout::min_bits(&self.schema, element) == 0 && self.rng.chance(90) {
            length = Length::Static(self.rng.below(4));
        }
        let minimum = if self.rng.chance(10) { self.align(&[8, 16, 64]) } else { 1 };
        let of_length = match length {
            Length::Inline(class) => self.schema.field_class(class).align_bits,
            _ => 1,
        };
        let align = self.schema.field_class(element).align_bits.max(minimum).max(of_length);
        self.add(FieldKind::Array(ArrayClass { element, length }), align)
    }

    fn optional(&mut self, depth: u32) -> FieldClassId {
        if !self.marks.is_empty() && self.rng.chance(50) {
            let selector = self.marks[self.rng.below(self.marks.len() as u64) as usize].clone();
            let presence = Presence::Unmarked(self.rng.below(9) as u32);
            self.steps.push(PathStep::Content);
            let content = self.field(depth + 1);
            self.steps.pop();
            return self.add(FieldKind::Optional(OptionalClass { selector, presence, content }), 1);
        }
        let Some((selector, sort)) = self.selector(&[Sort::Boolean, Sort::Boolean, Sort::Unsigned, Sort::Signed])
        else {
            return self.leaf();
        };
        let presence = match sort {
            Sort::Boolean => Presence::Boolean,
            Sort::Unsigned => Presence::Ranges(self.rng.pick(&[[(0, 0), (3, 1000)], [(1, 2), (7, i128::MAX)]]).into()),
            Sort::Signed => Presence::Ranges(self.rng.pick(&[[(-3, 0), (200, 300)], [(i128::MIN, -1), (1, 1)]]).into()),
        };
        self.steps.push(PathStep::Content);
        let content = self.field(depth + 1);
        self.steps.pop();
        self.add(FieldKind::Optional(OptionalClass { selector, presence, content }), 1)
    }

    fn variant(&mut self, depth: u32) -> FieldClassId {
        let Some((selector, sort)) = self.selector(&[Sort::Unsigned, Sort::Unsigned, Sort::Signed]) else {
            return self.leaf();
        };
        let has_rest = self.rng.chance(75);
        let count = 1 + self.rng.below(4) as i128;
        let mut options = Vec::new();
        for at in 0..count {
            let ranges = match at {
                0 if self.rng.chance(80) => vec![(0, 0), (250, 260)],
                _ if has_rest && at + 1 == count => vec![(i128::MIN, -1), (0, i128::MAX)],
                _ if sort == Sort::Signed && self.rng.chance(30) => vec![(-100, -1), (at, at)],
                _ => vec![(at, at + 1), (at * 100, at * 100 + 50)],
            };
            self.steps.push(PathStep::Option(at as u32));
            let class = self.field(depth + 1);
            self.steps.pop();
            let name: Option<Arc<str>> = self.rng.chance(80).then(|| format!("o{at}").into());
            options.push(VariantOption { raw_name: name.clone(), name, ranges, class });
        }
        self.add(FieldKind::Variant(VariantClass { selector, options }), 1)
    }

    /// A field that is decoded before the current one, and in the same elements of the same arrays.
    fn selector(&mut self, sorts: &[Sort]) -> Option<(FieldPath, Sort)> {
        let sort = self.rng.pick(sorts);
        let (scope, place) = (self.scope, &self.steps);
        let is_visible = |path: &FieldPath| {
            (0..path.steps.len())
                .filter(|&at| path.steps[at] == PathStep::Element)
                .all(|at| path.scope == scope && place.starts_with(&path.steps[..=at]))
        };
        let of_sort: Vec<_> = self.selectors.iter().filter(|s| s.sort == sort && is_visible(&s.path)).collect();
        // The last ones are near, and so more interesting.
        let near = of_sort.len().min(3) as u64;
        if near == 0 {
            return None;
        }
        let at = if self.rng.chance(60) {
            of_sort.len() as u64 - 1 - self.rng.below(near)
        } else {
            self.rng.below(of_sort.len() as u64)
        };
        Some((of_sort[at as usize].path.clone(), sort))
    }

    fn length(&mut self) -> Length {
        if self.rng.chance(60)
            && let Some((path, _)) = self.selector(&[Sort::Unsigned])
        {
            return Length::Field(path);
        }
        if self.is_hostile && self.rng.chance(10) {
            return Length::Static(self.rng.pick(&[1 << 31, 1 << 60, 1 << 61, u64::MAX, u64::MAX / 8 + 1, 70_000]));
        }
        Length::Static(self.rng.below(5))
    }

    fn add(&mut self, kind: FieldKind, align: u32) -> FieldClassId {
        self.schema.add_field_class(FieldClass::new(kind, align))
    }

    fn leaf(&mut self) -> FieldClassId {
        match self.rng.below(20) {
            0..=8 => self.integer(),
            9 | 10 => self.boolean(),
            11 | 12 => {
                let bits = self.bits();
                let align = self.align(&[1, 1, 4, 8, 32]);
                let kind = if self.rng.chance(50) { FieldKind::BitArray(bits) } else { FieldKind::BitMap(bits) };
                self.add(kind, align)
            }
            13 | 14 => {
                let len_bits = self.rng.pick(&[16, 32, 32, 64, 64, 128, 160, 256]);
                let byte_order = self.byte_order();
                let class = FloatClass { len_bits, byte_order, reversed_bits: self.rng.chance(15) };
                let align = self.align(&[1, 8, 8, 32, 64]);
                self.add(FieldKind::Float(class), align)
            }
            15..=17 => {
                let encoding = self.rng.pick(&[
                    Encoding::Utf8,
                    Encoding::Utf8,
                    Encoding::Utf16Be,
                    Encoding::Utf16Le,
                    Encoding::Utf32Be,
                    Encoding::Utf32Le,
                ]);
                let length = match self.length() {
                    _ if self.rng.chance(40) => StringLength::NullTerminated,
                    // Mostly whole code units: others are faults.
                    Length::Static(units) if units < 5 && self.rng.chance(90) => {
                        StringLength::Bytes(Length::Static(units * encoding.unit_bytes() as u64))
                    }
                    length => StringLength::Bytes(length),
                };
                let align = self.align(&[8, 8, 8, 16, 32]);
                self.add(FieldKind::String(StringClass { encoding, length }), align)
            }
            18 => {
                let length = self.length();
                let align = self.align(&[8, 8, 16]);
                self.add(FieldKind::Blob(BlobClass { length, media_type: "".into() }), align)
            }
            _ => self.uuid(),
        }
    }

    fn uuid(&mut self) -> FieldClassId {
        let roles = if self.rng.chance(70) { Roles::NONE.with(Role::TraceUuid) } else { Roles::NONE };
        let length = Length::Static(16);
        let kind = if self.rng.chance(50) {
            FieldKind::Blob(BlobClass { length, media_type: "".into() })
        } else {
            let element = self.add(FieldKind::Integer(IntegerClass::unsigned(8)), 8);
            FieldKind::Array(ArrayClass { element, length })
        };
        self.schema.add_field_class(FieldClass::new(kind, 8).with_roles(roles))
    }

    fn byte_order(&mut self) -> ByteOrder {
        if self.rng.chance(self.mixed) { self.rng.pick(&[ByteOrder::Little, ByteOrder::Big]) } else { self.order }
    }

    fn bits(&mut self) -> BitsClass {
        let len_bits = if self.rng.chance(80) { 1 + self.rng.below(64) } else { 60 + self.rng.below(150) } as u32;
        let byte_order = self.byte_order();
        BitsClass { len_bits, byte_order, reversed_bits: self.rng.chance(15), flags: Arc::new([]) }
    }

    fn boolean(&mut self) -> FieldClassId {
        let mut bits = self.bits();
        if self.rng.chance(70) {
            bits.len_bits = self.rng.pick(&[1, 1, 8]);
        }
        let align = self.align(&[1, 8]);
        let path = FieldPath { scope: self.scope, steps: self.steps.clone() };
        self.selectors.push(Selector { path, sort: Sort::Boolean });
        self.add(FieldKind::Boolean(bits), align)
    }

    fn integer(&mut self) -> FieldClassId {
        let len_bits = match self.rng.below(10) {
            0..=5 => self.rng.pick(&[8, 8, 16, 32, 64]),
            6 | 7 => 1 + self.rng.below(64) as u32,
            8 => 0,
            _ => 60 + self.rng.below(140) as u32,
        };
        let byte_order = self.byte_order();
        let signed = self.rng.chance(25);
        let class = IntegerClass {
            byte_order,
            signed,
            reversed_bits: len_bits != 0 && self.rng.chance(10),
            ..IntegerClass::unsigned(len_bits)
        };
        let align =
            if len_bits == 0 { self.align(&[8, 8, 8, 16]) } else { self.align(&[1, 1, 2, 8, 8, 8, 16, 32, 64]) };
        let mut roles = Roles::NONE;
        if self.rng.chance(if self.scope == Scope::EventHeader { 60 } else { 25 }) {
            let choices: &[Role] = match self.scope {
                Scope::PacketHeader => &[Role::PacketMagic, Role::StreamClassId, Role::StreamId],
                Scope::PacketContext => &[
                    Role::PacketTotalSize,
                    Role::PacketContentSize,
                    Role::PacketBegin,
                    Role::PacketEnd,
                    Role::DiscardedEvents,
                    Role::PacketSequence,
                ],
                Scope::EventHeader => &[Role::EventClassId, Role::Timestamp],
                _ => &[Role::Timestamp],
            };
            roles = roles.with(self.rng.pick(choices));
            if roles.has(Role::PacketBegin) {
                roles = roles.with(Role::Timestamp);
            }
        }
        let path = FieldPath { scope: self.scope, steps: self.steps.clone() };
        if len_bits <= 64 || self.rng.chance(20) {
            self.selectors.push(Selector { path, sort: if signed { Sort::Signed } else { Sort::Unsigned } });
        }
        let class = FieldClass::new(FieldKind::Integer(class), align).with_roles(roles);
        self.schema.add_field_class(class)
    }
}
