//! Fields that stand where the schema or the record says, not after each other: rows and the referee agree.

use std::sync::Arc;

use tracemill_codec::chunk::{Bytes, Chunk, ChunkSink, PacketData};
use tracemill_codec::plan::{DecoderState, NodeId, Visitor};
use tracemill_codec::spine::Spine;
use tracemill_codec::trace_plans::TracePlans;
use tracemill_model::packet::Packet;
use tracemill_model::schema::{
    ArrayClass, Encoding, EventClass, FieldClass, FieldKind, FieldOffset, IntegerClass, Length, Member, Schema, Scope,
    StreamClass, StringClass, StringLength, StructClass,
};
use tracemill_referee::{DecodedValue, Interpreter};

/// Collects values; elements of the last array into an array.
#[derive(Default)]
struct Seen {
    values: Vec<DecodedValue>,
    array: Option<Vec<DecodedValue>>,
}

impl Visitor for Seen {
    fn signed(&mut self, _node: NodeId, value: i64) {
        self.array.as_mut().unwrap_or(&mut self.values).push(DecodedValue::Signed(value));
    }

    fn string(&mut self, _node: NodeId, bytes: &[u8]) {
        self.values.push(DecodedValue::String(bytes.to_vec()));
    }

    fn begin_array(&mut self, _node: NodeId, _len: u64) {
        self.array = Some(Vec::new());
    }

    fn end_array(&mut self, _node: NodeId) {
        self.values.extend(self.array.take().map(DecodedValue::Array));
    }
}

#[test]
fn placed_fields_are_read_where_they_say() {
    let mut schema = Schema::new("test");
    let mut leaf =
        |kind: FieldKind, place: FieldOffset| schema.add_field_class(FieldClass::new(kind, 8).with_offset(place));
    let at = |offset_bytes: u32| FieldOffset::At { offset_bytes };
    let number = |bits: u32| FieldKind::Integer(IntegerClass { signed: true, ..IntegerClass::unsigned(bits) });
    let text = |length: Length| {
        let length = StringLength::Bytes(length);
        FieldKind::String(StringClass { encoding: Encoding::Utf8, length })
    };
    let late = leaf(number(16), at(6));
    let early = leaf(number(8), at(1));
    let next = leaf(number(8), at(2));
    let fixed = leaf(text(Length::Static(3)), at(9));
    let located = leaf(text(Length::Located), FieldOffset::Located { offset_bytes: 12 });
    let element = schema.add_field_class(FieldClass::new(number(16), 8));
    let array = FieldKind::Array(ArrayClass { element, length: Length::Located });
    let array =
        schema.add_field_class(FieldClass::new(array, 8).with_offset(FieldOffset::Located { offset_bytes: 20 }));
    let fixed_only = [("late", late), ("early", early), ("next", next), ("fixed", fixed)];
    let all = [fixed_only.as_slice(), &[("located", located), ("array", array)]].concat();
    let mut bytes = vec![0xee, 0xfd, 5, 0, 0, 0, 0x34, 0x12, 0, b'a', 0, b'b'];
    for word in [28u32, 2, 30, 2] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(b"hi\x01\x00\xff\xff");
    for members in [fixed_only.to_vec(), all] {
        let mut schema = schema.clone();
        let count = members.len();
        let member = |(name, class): (&str, _)| Member::new(name, class);
        let members = members.into_iter().map(member).collect();
        let payload = schema.add_field_class(FieldClass::new(FieldKind::Struct(StructClass { members }), 8));
        let stream = schema.add_stream(StreamClass::default()).expect("one stream");
        let class = EventClass { payload: Some(payload), ..EventClass::new(0, stream) };
        let class = schema.add_event(class).expect("one class");
        let roots = Scope::ALL.map(|scope| schema.scope_root(scope, class));
        let bits = bytes.len() as u64 * 8;
        let value = Interpreter::new(&schema, roots, &bytes, bits).scope(Scope::Payload);
        let mut expected = vec![
            DecodedValue::Signed(0x1234),
            DecodedValue::Signed(-3),
            DecodedValue::Signed(5),
            DecodedValue::String(b"a".to_vec()),
        ];
        if count == 6 {
            let array = DecodedValue::Array(vec![DecodedValue::Signed(1), DecodedValue::Signed(-1)]);
            expected.extend([DecodedValue::String(b"hi".to_vec()), array]);
        }
        assert_eq!(value, Ok(Some(DecodedValue::Struct(expected.clone()))));

        let file: Arc<dyn Bytes> = Arc::new(bytes.clone());
        let plans = Arc::new(TracePlans::new(Arc::new(schema)));
        let mut spine = Spine::default();
        spine.push(class, 0, 0, 0);
        let packet = Packet::new(stream, 0, bits);
        let packet = Arc::new(PacketData::found(&plans, &file, packet, (file.clone(), 0), spine));
        let mut chunk = Chunk::new(packet.clone(), 0, 1);
        packet.scan(&mut 0, &mut DecoderState::default(), &mut ChunkSink::new(&mut chunk, 10));
        let mut flat = Seen::default();
        chunk.event(0).visit_flat(&mut DecoderState::default(), &mut flat).expect("all is there");
        assert_eq!(flat.values, expected);
    }
}
