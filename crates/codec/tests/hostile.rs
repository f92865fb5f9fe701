//! Cases that random schemas seldom or never make: absent selectors one by one, absurd lengths, many of something.

#[allow(dead_code, reason = "the random tests use more of it")]
#[path = "random/tree.rs"]
mod tree;

use std::sync::Arc;

use tracemill_codec::bits::read_float;
use tracemill_codec::layout::tree_sizes;
use tracemill_codec::plan::{Compiler, DecoderState, FaultKind, KnownAlignment, PlanInput, SharedSlots};
use tracemill_codec::spine::{EventFault, ScanEnd, SpineSink};
use tracemill_codec::trace_plans::TracePlans;
use tracemill_model::schema::*;
use tracemill_referee::{DecodedValue, Interpreter};

use tree::{Tree, compare_fault};

/// A schema that is being written.
struct Builder(Schema);

impl Builder {
    fn new() -> Self {
        Builder(Schema::new("hostile"))
    }

    fn add(&mut self, kind: FieldKind, align_bits: u32) -> FieldClassId {
        self.0.add_field_class(FieldClass::new(kind, align_bits))
    }

    fn unsigned(&mut self, len_bits: u32) -> FieldClassId {
        self.add(FieldKind::Integer(IntegerClass::unsigned(len_bits)), 8)
    }

    fn bytes(&mut self, length: Length) -> FieldClassId {
        self.add(FieldKind::Blob(BlobClass { length, media_type: "".into() }), 8)
    }

    fn structure(&mut self, classes: &[FieldClassId]) -> FieldClassId {
        let member = |(at, &class)| {
            let name: Arc<str> = format!("m{at}").into();
            Member { raw_name: name.clone(), name, class }
        };
        let members: Vec<_> = classes.iter().enumerate().map(member).collect();
        let align = self.0.struct_align_bits(&members, 1);
        self.add(FieldKind::Struct(StructClass { members }), align)
    }

    fn array(&mut self, element: FieldClassId, length: Length) -> FieldClassId {
        let align = self.0.field_class(element).align_bits;
        self.add(FieldKind::Array(ArrayClass { element, length }), align)
    }

    /// Present when the member `selector` of the payload is 1.
    fn optional(&mut self, selector: FieldPath, content: FieldClassId) -> FieldClassId {
        let presence = Presence::Ranges(vec![(1, 1)]);
        self.add(FieldKind::Optional(OptionalClass { selector, presence, content }), 1)
    }

    fn variant(&mut self, selector: FieldPath, options: &[FieldClassId]) -> FieldClassId {
        let option = |(at, &class)| {
            let ranges = vec![(at as i128, at as i128)];
            VariantOption { name: None, raw_name: None, ranges, class }
        };
        let options = options.iter().enumerate().map(option).collect();
        self.add(FieldKind::Variant(VariantClass { selector, options }), 1)
    }

    /// One stream class and one event class with a payload.
    fn finish(mut self, stream: StreamClass, payload: &[FieldClassId]) -> Schema {
        let payload = self.structure(payload);
        let stream = self.0.add_stream(stream).unwrap();
        self.0.add_event(EventClass { payload: Some(payload), ..EventClass::new(0, stream) }).unwrap();
        self.0
    }
}

fn at(scope: Scope, steps: &[PathStep]) -> FieldPath {
    FieldPath { scope, steps: steps.to_vec() }
}

fn payload(steps: &[PathStep]) -> FieldPath {
    at(Scope::Payload, steps)
}

use PathStep::{Content, Element, Member as M, Option as O, Selected};

/// Decodes the payload of event 0 in every way.
fn decode(schema: &Schema, bytes: &[u8], end_bits: u64) -> Result<DecodedValue, (FaultKind, u64)> {
    let roots = Scope::ALL.map(|scope| schema.scope_root(scope, EventClassId(0)));
    let shared = SharedSlots::from_schema(schema);
    let mut compilers =
        [Compiler::row, Compiler::skip].map(|compiler| compiler(schema, &shared, roots, KnownAlignment::START));
    compilers.iter_mut().for_each(|compiler| compiler.add(Scope::Payload));
    let [row, skip] = compilers.map(Compiler::finish);
    let input = PlanInput::new(bytes, end_bits);
    let (mut row_pos, mut skip_pos, mut visitor) = (0, 0, Tree::default());
    let row_end = row.run(input, &mut row_pos, &mut DecoderState::default(), &mut visitor);
    let skip_end = skip.skip(input, &mut skip_pos, &mut DecoderState::default());
    let mut naive = Interpreter::new(schema, roots, bytes, end_bits);
    assert_eq!(row_end.is_ok(), skip_end.is_ok(), "{row_end:?} {skip_end:?}\n{row}\n{skip}");
    match (naive.scope(Scope::Payload), row_end) {
        (Ok(value), Ok(())) => {
            assert_eq!((naive.pos_bits, naive.pos_bits), (row_pos, skip_pos), "\n{row}\n{skip}");
            assert_eq!(visitor.finish(), value);
            Ok(value.expect("the payload is declared"))
        }
        (Err(want), Err(found)) => {
            compare_fault(&want, &found, &row).unwrap();
            Err((found.kind, found.at_bits))
        }
        (want, found) => panic!("want {want:?}\nfound {found:?}\n{row}"),
    }
}

fn decode_all(schema: &Schema, bytes: &[u8]) -> Result<DecodedValue, (FaultKind, u64)> {
    decode(schema, bytes, bytes.len() as u64 * 8)
}

#[test]
fn a_selector_in_an_absent_optional_is_a_fault() {
    let mut b = Builder::new();
    let byte = b.unsigned(8);
    let length = b.optional(payload(&[M(0)]), byte);
    let data = b.bytes(Length::Field(payload(&[M(1), Content])));
    let schema = b.finish(StreamClass::default(), &[byte, length, data]);
    assert!(decode_all(&schema, &[1, 2, 7, 8]).is_ok());
    assert_eq!(decode_all(&schema, &[0, 2, 7, 8]), Err((FaultKind::AbsentSelector, 8)));
}

#[test]
fn a_selector_in_another_option_is_a_fault() {
    let mut b = Builder::new();
    let byte = b.unsigned(8);
    let (one, two) = (b.structure(&[byte, byte]), b.structure(&[byte]));
    let variant = b.variant(payload(&[M(0)]), &[one, two]);
    let array = b.array(byte, Length::Field(payload(&[M(1), O(0), M(1)])));
    let schema = b.finish(StreamClass::default(), &[byte, variant, array]);
    assert!(decode_all(&schema, &[0, 5, 1, 9]).is_ok());
    assert_eq!(decode_all(&schema, &[1, 5, 1, 9]), Err((FaultKind::AbsentSelector, 16)));
}

#[test]
fn a_selector_is_found_in_the_option_that_was_selected() {
    let mut b = Builder::new();
    let (byte, word) = (b.unsigned(8), b.unsigned(16));
    // The second member is a byte, a word, one that may be absent, in an option of another variant, or not there.
    let one = b.structure(&[byte, byte]);
    let two = b.structure(&[byte, word]);
    let absent = b.optional(payload(&[M(1), O(2), M(0)]), byte);
    let three = b.structure(&[byte, absent]);
    let inner = b.variant(payload(&[M(1), O(3), M(0)]), &[byte, word]);
    let four = b.structure(&[byte, inner]);
    let five = b.structure(&[byte]);
    let variant = b.variant(payload(&[M(0)]), &[one, two, three, four, five]);
    let data = b.bytes(Length::Field(payload(&[M(1), Selected(0), M(1)])));
    let schema = b.finish(StreamClass::default(), &[byte, variant, data]);
    for bytes in
        [[0, 9, 2, 7, 7].as_slice(), &[1, 9, 2, 0, 7, 7], &[2, 1, 2, 7, 7], &[3, 0, 2, 7, 7], &[3, 1, 2, 0, 7, 7]]
    {
        let DecodedValue::Struct(members) = decode_all(&schema, bytes).expect("the length is there") else { panic!() };
        assert_eq!(members[2], DecodedValue::Blob(vec![7, 7]));
        assert!(matches!(decode_all(&schema, &bytes[..bytes.len() - 1]), Err((FaultKind::PastEnd { .. }, _))));
    }
    for (bytes, at) in [([2, 0, 7, 7], 16), ([4, 2, 7, 7], 16)] {
        assert_eq!(decode_all(&schema, &bytes), Err((FaultKind::AbsentSelector, at)));
    }
}

#[test]
fn what_an_option_of_the_element_before_held_is_not_used() {
    // Elements of {choice, variant of {length} or {}, blob}: the second has no length.
    let mut b = Builder::new();
    let byte = b.unsigned(8);
    let (one, two) = (b.structure(&[byte]), b.structure(&[]));
    let variant = b.variant(payload(&[M(0), Element, M(0)]), &[one, two]);
    let data = b.bytes(Length::Field(payload(&[M(0), Element, M(1), Selected(0), M(0)])));
    let element = b.structure(&[byte, variant, data]);
    let array = b.array(element, Length::Static(2));
    let schema = b.finish(StreamClass::default(), &[array]);
    assert!(decode_all(&schema, &[0, 1, 7, 0, 0]).is_ok());
    assert_eq!(decode_all(&schema, &[0, 1, 7, 1, 7]), Err((FaultKind::AbsentSelector, 32)));
}

#[test]
fn a_user_inside_the_option_needs_no_check() {
    let mut b = Builder::new();
    let byte = b.unsigned(8);
    let data = b.bytes(Length::Field(payload(&[M(1), O(0), M(0)])));
    let option = b.structure(&[byte, data]);
    let variant = b.variant(payload(&[M(0)]), &[option]);
    let schema = b.finish(StreamClass::default(), &[byte, variant]);
    assert!(decode_all(&schema, &[0, 2, 9, 9]).is_ok());
    let roots = Scope::ALL.map(|scope| schema.scope_root(scope, EventClassId(0)));
    let mut compiler = Compiler::row(&schema, &SharedSlots::from_schema(&schema), roots, KnownAlignment::START);
    compiler.add(Scope::Payload);
    assert!(!compiler.finish().to_string().contains("Require"));
}

#[test]
fn a_selector_of_the_element_before_is_not_used() {
    // Elements of {flag, optional length, blob}: the second has no length.
    let mut b = Builder::new();
    let byte = b.unsigned(8);
    let inner = |step| payload(&[M(0), Element, M(step)]);
    let length = b.optional(inner(0), byte);
    let data = b.bytes(Length::Field(payload(&[M(0), Element, M(1), Content])));
    let element = b.structure(&[byte, length, data]);
    let array = b.array(element, Length::Static(2));
    let schema = b.finish(StreamClass::default(), &[array]);
    assert!(decode_all(&schema, &[1, 1, 7, 1, 0]).is_ok());
    assert_eq!(decode_all(&schema, &[1, 1, 7, 0, 0]), Err((FaultKind::AbsentSelector, 32)));
}

#[test]
fn optionals_inside_optionals_are_checked_from_the_outside() {
    // Elements of {flag, optional {flag, optional length}, blob}: the inner mark is stale when the outer is absent.
    let mut b = Builder::new();
    let byte = b.unsigned(8);
    let outer = [M(0), Element, M(1), Content];
    let length = b.optional(payload(&[&outer[..], &[M(0)]].concat()), byte);
    let content = b.structure(&[byte, length]);
    let optional = b.optional(payload(&[M(0), Element, M(0)]), content);
    let data = b.bytes(Length::Field(payload(&[&outer[..], &[M(1), Content]].concat())));
    let element = b.structure(&[byte, optional, data]);
    let array = b.array(element, Length::Static(2));
    let schema = b.finish(StreamClass::default(), &[array]);
    assert!(decode_all(&schema, &[1, 1, 1, 7, 1, 1, 0]).is_ok());
    assert_eq!(decode_all(&schema, &[1, 1, 1, 7, 0, 0, 0]), Err((FaultKind::AbsentSelector, 40)));
    assert_eq!(decode_all(&schema, &[1, 1, 1, 7, 1, 0, 0]), Err((FaultKind::AbsentSelector, 48)));
}

struct Count(u32);

impl SpineSink for Count {
    fn event(&mut self, _: EventClassId, _: u64, _: u64, _: u64) -> bool {
        self.0 += 1;
        true
    }
}

#[test]
fn absent_selectors_in_shared_scopes_are_faults() {
    for scope in [Scope::PacketContext, Scope::EventHeader, Scope::CommonContext] {
        let mut b = Builder::new();
        let byte = b.unsigned(8);
        let length = b.optional(at(scope, &[M(0)]), byte);
        let root = Some(b.structure(&[byte, length]));
        let data = b.bytes(Length::Field(at(scope, &[M(1), Content])));
        let mut stream = StreamClass::default();
        match scope {
            Scope::PacketContext => stream.packet_context = root,
            Scope::EventHeader => stream.event_header = root,
            _ => stream.common_context = root,
        }
        let schema = b.finish(stream, &[byte, data]);
        let plans = TracePlans::new(Arc::new(schema));
        let scan = |bytes: &[u8]| {
            let input = PlanInput::new(bytes, bytes.len() as u64 * 8);
            let (mut pos, mut state, mut count) = (0, DecoderState::default(), Count(0));
            plans.read_packet_context(StreamClassId(0), input, &mut pos, &mut state).unwrap();
            let end = plans.scanner(StreamClassId(0)).scan(input, &mut pos, &mut state, &mut count);
            (count.0, end)
        };
        // In the packet context the first two bytes serve all events.
        let (good, bad): (&[u8], &[u8]) = match scope {
            Scope::PacketContext => (&[1, 1, 7, 9, 7, 9], &[0, 7, 9]),
            _ => (&[1, 1, 7, 9, 1, 1, 7, 9], &[1, 1, 7, 9, 0, 7, 9]),
        };
        assert_eq!(scan(good), (2, ScanEnd::Complete), "{scope:?}");
        let (count, end) = scan(bad);
        assert_eq!(count, u32::from(scope != Scope::PacketContext));
        let ScanEnd::Fault(EventFault::Field { fault, path, .. }) = end else { panic!("{scope:?}: {end:?}") };
        let want = (FaultKind::AbsentSelector, bad.len() as u64 * 8 - 8, "payload.m1");
        assert_eq!((fault.kind, fault.at_bits, &*path), want, "{scope:?}");
    }
}

#[test]
fn a_selector_of_an_undeclared_scope_is_absent() {
    let mut b = Builder::new();
    let data = b.bytes(Length::Field(at(Scope::CommonContext, &[M(0)])));
    let schema = b.finish(StreamClass::default(), &[data]);
    assert_eq!(decode_all(&schema, &[0]), Err((FaultKind::AbsentSelector, 0)));
}

#[test]
fn absurd_static_lengths_are_refused() {
    for len in [1 << 31, 1 << 58, 1 << 60, 1 << 61, u64::MAX / 8, u64::MAX / 8 + 1, u64::MAX - 1, u64::MAX] {
        for depth in 0..3 {
            let mut b = Builder::new();
            let byte = b.unsigned(8);
            let (data, array) = (b.bytes(Length::Static(len)), b.array(byte, Length::Static(len)));
            let nested = b.array(array, Length::Static(len));
            let mut fields = [data, array, nested];
            for _ in 0..depth {
                // After a byte, in an array: sizes are summed and multiplied when the plan is made.
                fields = fields.map(|field| {
                    let element = b.structure(&[byte, field, byte]);
                    b.array(element, Length::Static(3))
                });
            }
            for field in fields {
                let schema = Builder(b.0.clone()).finish(StreamClass::default(), &[byte, field, byte]);
                let (kind, _) = decode_all(&schema, &[0; 100]).unwrap_err();
                assert!(matches!(kind, FaultKind::TooLong { .. } | FaultKind::PastEnd { .. }), "{kind:?}");
            }
        }
    }
}

#[test]
fn absurd_lengths_in_the_data_are_refused() {
    for len in [u64::MAX, u64::MAX / 8, u64::MAX / 8 + 1, 1 << 60, 1 << 32, 1000] {
        let mut b = Builder::new();
        let (length, byte) = (b.unsigned(64), b.unsigned(8));
        let path = || Length::Field(payload(&[M(0)]));
        let pair = b.structure(&[length, byte]);
        let string = |encoding| {
            let length = StringLength::Bytes(Length::Field(payload(&[M(0)])));
            FieldKind::String(StringClass { encoding, length })
        };
        let (text, wide_text) = (b.add(string(Encoding::Utf8), 8), b.add(string(Encoding::Utf32Be), 8));
        let nested = b.array(pair, Length::Static(4));
        let fields =
            [b.bytes(path()), b.array(byte, path()), b.array(pair, path()), b.array(nested, path()), text, wide_text];
        for field in fields {
            let schema = Builder(b.0.clone()).finish(StreamClass::default(), &[length, field, byte]);
            let bytes = [&len.to_le_bytes()[..], &[0; 92]].concat();
            for end_bits in [800, 799, 65, 64] {
                let (kind, at_bits) = decode(&schema, &bytes, end_bits).unwrap_err();
                assert!(matches!(kind, FaultKind::TooLong { .. } | FaultKind::PastEnd { .. }), "{kind:?}");
                assert_eq!(at_bits, 64);
            }
        }
    }
}

#[test]
fn strings_of_pieces_of_code_units_are_faults_wherever_they_stand() {
    for (encoding, unit) in [(Encoding::Utf16Be, 2u8), (Encoding::Utf16Le, 2), (Encoding::Utf32Le, 4)] {
        for bytes in 0..=9 {
            let mut b = Builder::new();
            let (length, byte) = (b.unsigned(8), b.unsigned(8));
            let mut string =
                |length| b.add(FieldKind::String(StringClass { encoding, length: StringLength::Bytes(length) }), 8);
            let (fixed, counted) = (string(Length::Static(bytes)), string(Length::Field(payload(&[M(0)]))));
            let in_array = b.array(fixed, Length::Static(2));
            for field in [fixed, counted, in_array] {
                let schema = Builder(b.0.clone()).finish(StreamClass::default(), &[length, field, byte]);
                let result = decode_all(&schema, &[&[bytes as u8][..], &[1; 40]].concat());
                let expected = match bytes.is_multiple_of(unit.into()) {
                    true => Ok(()),
                    false => Err((FaultKind::PartialUnit { bytes, unit }, 8)),
                };
                assert_eq!(result.map(|_| ()), expected, "{encoding:?}");
            }
        }
    }
}

#[test]
fn elements_without_size_are_counted_in_the_outermost_array() {
    let limit = 1 << 16;
    let schema = |inner: u64, outer: u64, has_byte: bool| {
        let mut b = Builder::new();
        let empty = b.structure(&[]);
        let byte = b.unsigned(8);
        let inner = b.array(empty, Length::Static(inner));
        let element = if has_byte { b.structure(&[byte, inner]) } else { inner };
        let outer = b.array(element, Length::Static(outer));
        b.finish(StreamClass::default(), &[outer, outer, byte])
    };
    // An inner array without size is an element without size of the outer one.
    assert!(decode_all(&schema(0, limit, false), &[0]).is_ok());
    assert_eq!(decode_all(&schema(0, limit + 1, false), &[0]), Err((FaultKind::EmptyElements, 0)));
    assert!(decode_all(&schema(limit - 1, 1, false), &[0]).is_ok());
    assert_eq!(decode_all(&schema(limit, 1, false), &[0]), Err((FaultKind::EmptyElements, 0)));
    assert_eq!(decode_all(&schema(u64::MAX, 1, false), &[0]), Err((FaultKind::EmptyElements, 0)));
    assert_eq!(decode_all(&schema(u64::MAX, u64::MAX, false), &[0]), Err((FaultKind::EmptyElements, 0)));
    // Elements with size are not counted, those inside them are.
    assert!(decode_all(&schema(limit / 64, 64, true), &[0; 129]).is_ok());
    assert_eq!(decode_all(&schema(limit / 64, 65, true), &[0; 131]), Err((FaultKind::EmptyElements, 520)));
}

#[test]
fn many_small_arrays_are_not_idle() {
    let mut b = Builder::new();
    let byte = b.unsigned(8);
    let inner = b.array(byte, Length::Static(1));
    let count = b.unsigned(32);
    let string = StringClass::utf8();
    let string = b.add(FieldKind::String(string), 8);
    let strings = b.array(string, Length::Static(1));
    let outer = b.array(strings, Length::Field(payload(&[M(0)])));
    let others = b.array(inner, Length::Field(payload(&[M(0)])));
    let schema = b.finish(StreamClass::default(), &[count, outer, others, byte]);
    let len = 70_000u32;
    let mut bytes = len.to_le_bytes().to_vec();
    bytes.resize(4 + 2 * len as usize + 1, 0);
    assert!(decode_all(&schema, &bytes).is_ok());
}

#[test]
fn alignments_are_from_the_start_of_the_packet() {
    for log2 in [3, 12, 16, 17, 20, 31] {
        let mut b = Builder::new();
        let byte = b.unsigned(8);
        let far = b.add(FieldKind::Integer(IntegerClass::unsigned(8)), 1 << log2);
        let optional = b.optional(payload(&[M(0)]), far);
        let schema = b.finish(StreamClass::default(), &[byte, optional, byte]);
        let mut bytes = vec![1u8; (1 << 13) + 100];
        bytes[1 << 13] = 2;
        let result = decode_all(&schema, &bytes);
        match log2 {
            3..=16 => assert!(result.is_ok(), "{log2}"),
            _ => assert_eq!(result, Err((FaultKind::PastEnd { need_bits: (1 << log2) - 8 }, 8))),
        }
        let (kind, at_bits) = decode(&schema, &bytes[..1], 8).unwrap_err();
        let need_bits = if log2 == 3 { 8 } else { (1 << log2) - 8 };
        assert_eq!((kind, at_bits), (FaultKind::PastEnd { need_bits }, 8));
    }
}

#[test]
fn any_number_of_static_lengths_is_fine() {
    let mut b = Builder::new();
    let byte = b.unsigned(8);
    let (data, array) = (b.bytes(Length::Static(1)), b.array(byte, Length::Static(1)));
    let fields: Vec<_> = [data, array].into_iter().cycle().take(70_000).collect();
    let schema = b.finish(StreamClass::default(), &fields);
    assert!(decode_all(&schema, &vec![1; 70_000]).is_ok());
}

#[test]
fn too_many_selectors_are_refused_not_confused() {
    for scope in [Scope::CommonContext, Scope::Payload] {
        let mut b = Builder::new();
        let byte = b.unsigned(8);
        let mut fields = vec![byte; 70_000];
        let mut users = Vec::new();
        for member in 0..70_000 {
            users.push(b.bytes(Length::Field(at(scope, &[M(member)]))));
        }
        let mut stream = StreamClass::default();
        if scope == Scope::CommonContext {
            stream.common_context = Some(b.structure(&fields));
            fields = users;
        } else {
            fields.extend(users);
        }
        let schema = b.finish(stream, &fields);
        let bytes = vec![0; 70_000];
        let roots = Scope::ALL.map(|scope| schema.scope_root(scope, EventClassId(0)));
        let shared = SharedSlots::from_schema(&schema);
        for compiler in [Compiler::row, Compiler::skip] {
            let mut compiler = compiler(&schema, &shared, roots, KnownAlignment::START);
            compiler.add(Scope::CommonContext);
            compiler.add(Scope::Payload);
            let input = PlanInput::new(&bytes, bytes.len() as u64 * 8);
            let fault = compiler.finish().skip(input, &mut 0, &mut DecoderState::default()).unwrap_err();
            assert_eq!((fault.kind, fault.at_bits), (FaultKind::AbsentSelector, 560_000));
        }
    }
}

#[test]
fn floats_of_any_length_are_read() {
    for len_bits in [128u32, 160, 1024, 1 << 19, (1 << 19) + 32, 1 << 20] {
        let mut bytes = vec![0u8; len_bits as usize / 8];
        let read = |bytes: &[u8]| {
            let mut b = Builder::new();
            let float = FloatClass { len_bits, byte_order: ByteOrder::Big, reversed_bits: false };
            let float = b.add(FieldKind::Float(float), 8);
            let schema = b.finish(StreamClass::default(), &[float]);
            let value = read_float(bytes, 0, len_bits, ByteOrder::Big, false);
            assert_eq!(decode_all(&schema, bytes), Ok(DecodedValue::Struct(vec![DecodedValue::Real(value)])));
            value
        };
        assert_eq!(read(&bytes), 0.0);
        let exponent_bits = (4.0 * f64::from(len_bits).log2()).round() as usize - 13;
        // The exponent of one is all ones but the first.
        (2..=exponent_bits).for_each(|bit| bytes[bit / 8] |= 0x80 >> (bit % 8));
        assert_eq!(read(&bytes), 1.0);
        bytes[0] |= 0x80;
        assert_eq!(read(&bytes), -1.0);
        bytes[0] |= 0x40;
        assert_eq!(read(&bytes), f64::NEG_INFINITY);
        bytes[len_bits as usize / 8 - 1] = 1;
        assert!(read(&bytes).is_nan());
        bytes.fill(0x7f);
        assert_eq!(read(&bytes), f64::INFINITY);
        bytes[0] = 0;
        assert_eq!(read(&bytes), 0.0);
    }
}

#[test]
fn shared_classes_can_make_trees_of_any_size() {
    let mut b = Builder::new();
    let mut class = b.unsigned(8);
    assert_eq!(tree_sizes(&b.0).into_iter().max().unwrap_or(0), 1);
    for level in 1..100u32 {
        class = b.structure(&[class, class]);
        assert_eq!(
            tree_sizes(&b.0).into_iter().max().unwrap_or(0),
            1u64.checked_shl(level + 1).map_or(u64::MAX, |size| size - 1)
        );
    }
}

#[test]
fn nothing_is_decoded_from_nothing() {
    let mut b = Builder::new();
    let empty = b.structure(&[]);
    let schema = b.finish(StreamClass::default(), &[empty]);
    assert_eq!(decode(&schema, &[], 0), Ok(DecodedValue::Struct(vec![DecodedValue::Struct(vec![])])));
    let mut b = Builder::new();
    let bit = b.add(FieldKind::Integer(IntegerClass::unsigned(1)), 1);
    let schema = b.finish(StreamClass::default(), &[bit]);
    assert_eq!(decode(&schema, &[], 0), Err((FaultKind::PastEnd { need_bits: 1 }, 0)));
    assert_eq!(decode(&schema, &[1], 0), Err((FaultKind::PastEnd { need_bits: 1 }, 0)));
    assert_eq!(decode(&schema, &[1], 1), Ok(DecodedValue::Struct(vec![DecodedValue::Unsigned(1)])));
}
