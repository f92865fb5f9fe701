//! Events at places of another alignment: their bits stay, the padding between them changes.
//!
//! Fields are aligned to the start of their packet. Where an event begins as far from a multiple of its largest alignment
//! as it did in the input, its bits are copied in one go; otherwise each field is put where its own alignment wants it.

use tracemill_codec::bits::copy_bits;
use tracemill_codec::chunk::EventRef;
use tracemill_codec::layout;
use tracemill_codec::plan::{DecoderState, NodeId, Plan, Visitor, VisitorCall};
use tracemill_model::schema::{ByteOrder, FieldClassId, FieldKind, Length, Placement, Schema, Scope, StringLength};

/// Is all that a field takes known when it is shown? The size of a text of counted bytes is not.
pub(super) fn can_shift(schema: &Schema, roots: impl Iterator<Item = FieldClassId>) -> bool {
    let mut stack: Vec<FieldClassId> = roots.collect();
    let mut is_known = vec![false; schema.field_class_count()];
    while let Some(id) = stack.pop() {
        if is_known.get_mut(id.0 as usize).is_none_or(|known| std::mem::replace(known, true)) {
            continue;
        }
        let class = schema.field_class(id);
        let is_sized = match &class.kind {
            FieldKind::String(class) => {
                matches!(class.length, StringLength::NullTerminated | StringLength::Bytes(Length::Static(_)))
            }
            FieldKind::Blob(class) => !matches!(class.length, Length::Inline(_) | Length::Located),
            FieldKind::Array(class) => !matches!(class.length, Length::Inline(_) | Length::Located),
            FieldKind::Rendered(_) => false,
            _ => true,
        };
        if !is_sized || class.place.is_some() || class.placement != Placement::default() {
            return false;
        }
        stack.extend(layout::children(class));
    }
    true
}

/// Puts the event that begins at `from` at `at`; the first bit behind it, or nothing when it does not end at `end` in
/// the input.
pub(super) fn shift(
    schema: &Schema,
    event: EventRef<'_>,
    (from, end): (u64, u64),
    to: &mut Vec<u8>,
    at: u64,
    state: &mut DecoderState,
) -> Option<u64> {
    let packet = &event.chunk.packet;
    let plans = &packet.plans;
    let header = plans.header_rows(packet.packet.class);
    let mut fields = Shift { schema, plan: header, source: packet.input().bytes, from, to, at };
    event.visit_header(state, &mut fields).ok()?;
    fields.plan = plans.event_rows(event.class());
    let mut event_fields = event.fields(state);
    for scope in [Scope::CommonContext, Scope::SpecificContext, Scope::Payload] {
        event_fields.visit(scope, state, &mut fields).ok()?;
    }
    (fields.from == end).then_some(fields.at)
}

struct Shift<'a> {
    schema: &'a Schema,
    plan: &'a Plan,
    source: &'a [u8],
    /// Place in the input.
    from: u64,
    to: &'a mut Vec<u8>,
    /// Place in the output.
    at: u64,
}

impl<'a> Shift<'a> {
    fn kind(&self, node: NodeId) -> Option<&'a FieldKind> {
        let node = self.plan.nodes.get(node as usize)?;
        Some(&self.schema.field_class(node.class).kind)
    }

    fn align(&mut self, node: NodeId) {
        let Some(node) = self.plan.nodes.get(node as usize) else { return };
        let align = u64::from(self.schema.field_class(node.class).align_bits);
        (self.from, self.at) = (self.from.next_multiple_of(align), self.at.next_multiple_of(align));
    }

    fn copy_field(&mut self, node: NodeId, len_bits: u64, order: ByteOrder) {
        self.align(node);
        copy_bits(self.source, self.from, self.to, self.at, len_bits, order);
        (self.from, self.at) = (self.from + len_bits, self.at + len_bits);
    }

    fn number(&mut self, node: NodeId) {
        let Some(kind) = self.kind(node) else { return };
        if let Some((len_bits, order)) = layout::bit_field(kind) {
            self.copy_field(node, len_bits.into(), order);
        } else if let FieldKind::Integer(_) = kind {
            self.align(node);
            let rest = self.source.get((self.from / 8) as usize..).unwrap_or(&[]);
            let count = rest.iter().position(|byte| byte & 0x80 == 0).map_or(rest.len(), |last| last + 1);
            self.copy_field(node, count as u64 * 8, ByteOrder::Little);
        }
    }
}

impl Visitor for Shift<'_> {
    fn any_call(&mut self, node: NodeId, shown: VisitorCall<'_>) {
        match shown {
            VisitorCall::Unsigned(_)
            | VisitorCall::Signed(_)
            | VisitorCall::Wide(_)
            | VisitorCall::Boolean(_)
            | VisitorCall::Real(_) => {
                self.number(node);
            }
            VisitorCall::String(bytes) => {
                let Some(FieldKind::String(class)) = self.kind(node) else { return };
                let len = match class.length {
                    StringLength::Bytes(Length::Static(len)) => len,
                    _ => (bytes.len() + class.encoding.unit_bytes()) as u64,
                };
                self.copy_field(node, len.saturating_mul(8), ByteOrder::Little);
            }
            VisitorCall::Blob(bytes) => self.copy_field(node, bytes.len() as u64 * 8, ByteOrder::Little),
            VisitorCall::BeginStruct | VisitorCall::BeginArray(_) => self.align(node),
            _ => {}
        }
    }
}
