//! Events that end before their last field.

use std::fmt::Write;
use std::sync::Arc;

use tracemill_codec::chunk::{Chunk, ChunkSink, PacketData};
use tracemill_codec::plan::{DecoderState, NodeId, Visitor};
use tracemill_codec::spine::Spine;
use tracemill_codec::trace_plans::TracePlans;
use tracemill_model::packet::Packet;
use tracemill_model::schema::{
    ArrayClass, EventClass, EventClassId, FieldClass, FieldClassId, FieldKind, IntegerClass, Length, Member, Schema,
    Scope, StreamClass, StreamClassId, StructClass,
};

/// Writes what a visitor is reported.
#[derive(Default)]
struct Log(String);

impl Visitor for Log {
    fn unsigned(&mut self, node: NodeId, value: u64) {
        let _ = write!(self.0, "{node}={value} ");
    }
    fn begin_struct(&mut self, node: NodeId) {
        let _ = write!(self.0, "{node}{{ ");
    }
    fn end_struct(&mut self, _: NodeId) {
        self.0 += "} ";
    }
    fn begin_array(&mut self, node: NodeId, len: u64) {
        let _ = write!(self.0, "{node}[{len} ");
    }
    fn end_array(&mut self, _: NodeId) {
        self.0 += "] ";
    }
    fn absent(&mut self, node: NodeId) {
        let _ = write!(self.0, "{node}? ");
    }
}

fn structure(schema: &mut Schema, classes: &[FieldClassId]) -> FieldClassId {
    let member = |(at, class): (usize, &FieldClassId)| {
        let name: Arc<str> = format!("m{at}").into();
        Member::new(name, *class)
    };
    let members = classes.iter().enumerate().map(member).collect();
    schema.add_field_class(FieldClass::new(FieldKind::Struct(StructClass { members }), 8))
}

/// `{ u8, { u8, u8 }, u8-counted u8[], u8 }`: nodes 0{ 1 2{ 3 4 } 5[ 6 ] 7 }.
fn schema() -> Arc<Schema> {
    let mut schema = Schema::new("test");
    let stream = schema.add_stream(StreamClass::default()).expect("the first one");
    let byte = FieldKind::Integer(IntegerClass::unsigned(8));
    let byte = schema.add_field_class(FieldClass::new(byte, 8));
    let pair = structure(&mut schema, &[byte, byte]);
    let length = Length::Inline(byte);
    let array = FieldKind::Array(ArrayClass { element: byte, length });
    let array = schema.add_field_class(FieldClass::new(array, 8));
    let payload = structure(&mut schema, &[byte, pair, array, byte]);
    let mut class = EventClass::new(0, stream);
    class.payload = Some(payload);
    schema.add_event(class).expect("the first one");
    Arc::new(schema)
}

/// The event of these bytes, cut at `end`: scope by scope, and in one go.
fn visit(bytes: &[u8], end: Option<u32>) -> (String, String) {
    let plans = Arc::new(TracePlans::new(schema()));
    let mut spine = Spine::default();
    spine.push(EventClassId(0), 5, 0, 0);
    if let Some(end) = end {
        spine.cut(0, end * 8);
    }
    let bytes = Arc::new(bytes.to_vec());
    let bits = bytes.len() as u64 * 8;
    let packet = Packet::new(StreamClassId(0), 0, bits);
    let data = Arc::new(PacketData {
        plans,
        bytes: bytes.clone(),
        base_bytes: 0,
        file: bytes,
        packet,
        cpu: None,
        spine: Some(spine),
        context_bits: 0,
        events_bits: 0,
        state: DecoderState::default(),
        copied: None,
    });
    let mut chunk = Chunk::new(data.clone(), 0, 1);
    data.scan(&mut 0, &mut DecoderState::default(), &mut ChunkSink::new(&mut chunk, 9));
    let (mut rows, mut flat, mut state) = (Log::default(), Log::default(), DecoderState::default());
    let event = chunk.event(0);
    let mut fields = event.fields(&mut state);
    for scope in [Scope::CommonContext, Scope::SpecificContext, Scope::Payload] {
        fields.visit(scope, &mut state, &mut rows).expect("cut events have no faults");
    }
    event.visit_flat(&mut state, &mut flat).expect("cut events have no faults");
    (rows.0, flat.0)
}

#[test]
fn members_that_are_not_whole_are_absent() {
    let bytes = [1, 2, 3, 2, 4, 5, 6];
    let whole = "0{ 1=1 2{ 3=2 4=3 } 5[2 6=4 6=5 ] 7=6 } ";
    assert_eq!(visit(&bytes, None).0, whole);
    assert_eq!(visit(&bytes, Some(7)).0, whole);
    let expected = [
        (0, "0{ 1? 2? 5? 7? } "),
        (1, "0{ 1=1 2? 5? 7? } "),
        (2, "0{ 1=1 2? 5? 7? } "),
        (3, "0{ 1=1 2{ 3=2 4=3 } 5? 7? } "),
        (4, "0{ 1=1 2{ 3=2 4=3 } 5? 7? } "),
        (5, "0{ 1=1 2{ 3=2 4=3 } 5? 7? } "),
        (6, "0{ 1=1 2{ 3=2 4=3 } 5[2 6=4 6=5 ] 7? } "),
    ];
    for (end, line) in expected {
        let (rows, flat) = visit(&bytes, Some(end));
        assert_eq!(rows, line, "cut at {end}");
        // Structures that are always there have no marks, but that of the end.
        let marks = |text: &str| text.replace("0{ ", "").replace("2{ ", "").replace("} ", "").replace("2? ", "3? 4? ");
        assert_eq!(marks(&flat), marks(line), "cut at {end}");
    }
}
