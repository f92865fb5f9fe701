//! One packet header and context: read, and judged (`SPEC.md`, D29, D34 and D42).

use tracemill_codec::bits::{put_uint, u32_at};
use tracemill_codec::plan::{DecoderState, FaultKind, NodeId, PlanInput, Visitor};
use tracemill_codec::spine::EventFault;
use tracemill_codec::trace_plans::TracePlans;
use tracemill_model::error::Error;
use tracemill_model::schema::{ByteOrder, FieldKind, StreamClassId};

use super::metadata::{self, Dialect, HEADER_11, HEADER_16, MAGIC};
use super::packet_fields::{self, ContextMeaning};
use super::transform::{Schemes, StoredChecksum};
use tracemill_codec::text::uuid_text;

/// Identity that every packet of a file must have.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) dialect: Dialect,
    pub(super) order: ByteOrder,
    /// Session id (v1.1), once it is known.
    pub(super) session_id: Option<u32>,
    /// UUID (v1.6), once it is known.
    pub(super) uuid: Option<[u8; 16]>,
    /// The section (v1.1) or stream (v1.6) of the file, once it is known.
    pub(super) class: Option<StreamClassId>,
}

impl Identity {
    /// Bytes with which every packet of the file begins, as far as they are known.
    pub(super) fn pattern(&self) -> Vec<u8> {
        let mut pattern = Vec::new();
        put_uint(&mut pattern, MAGIC.into(), 4, self.order);
        match (self.dialect, self.session_id, self.uuid) {
            (Dialect::V11, Some(id), _) => put_uint(&mut pattern, id.into(), 4, self.order),
            (Dialect::V16, _, Some(uuid)) => pattern.extend(uuid),
            _ => {}
        }
        pattern
    }
}

/// A packet header that can be trusted.
#[derive(Clone, Debug)]
pub(super) struct DraftHeader {
    pub(super) class: StreamClassId,
    pub(super) session_id: u32,
    pub(super) uuid: [u8; 16],
    /// First bit of the context, and first byte after it: there the content begins.
    pub(super) context_bits: u64,
    pub(super) content_start: u64,
    /// Sizes in bytes as the header states them.
    pub(super) content_size: u64,
    pub(super) packet_size: u64,
    pub(super) begin: Option<u64>,
    pub(super) end: Option<u64>,
    /// Counters with their widths.
    pub(super) discarded: Option<(u64, u32)>,
    pub(super) count: Option<(u64, u32)>,
    /// Significant bits of the packet counter, when a field says them.
    pub(super) count_bits: Option<u64>,
    pub(super) schemes: Schemes,
    pub(super) checksum: StoredChecksum,
    pub(super) cpu: Option<u32>,
    /// The packet is not one of this file, or the trace: it is passed over.
    pub(super) stranger: Option<Error>,
}

impl DraftHeader {
    /// Bytes of the file that the packet takes when `rest` are left: a truncated one has what is there.
    pub(super) fn stored_content(&self, rest: u64) -> u64 {
        self.content_size.min(rest)
    }

    /// Does the file end inside the packet?
    pub(super) fn is_truncated(&self, rest: u64) -> bool {
        self.packet_size > rest
    }
}

/// A header that cannot be used.
#[derive(Debug)]
pub(super) enum Unusable {
    /// The file ends inside it.
    Cut(Error),
    /// It is no header of this trace: the next one has to be searched.
    Untrusted(Error),
}

/// Reads the header at the start of `rest`, which goes to the end of the file. At most `limit` bytes are looked at.
pub(super) fn read(plans: &TracePlans, identity: &Identity, rest: &[u8], limit: u64) -> Result<DraftHeader, Unusable> {
    check_magic(identity, rest)?;
    let owner = owner(plans, identity, rest)?;
    let context = ContextFields::read(plans, identity.dialect, owner.class, (rest, limit))?;
    let content_start = context.end_bits.div_ceil(8);
    let (content_size, packet_size) = (
        context.value(ContextMeaning::ContentSize).unwrap_or(0),
        context.value(ContextMeaning::PacketSize).unwrap_or(0),
    );
    if content_size < content_start || packet_size < content_size {
        let message = format!(
            "the packet states {content_size} bytes of content in {packet_size} bytes, and its header takes {content_start}"
        );
        return Err(untrusted(message));
    }
    Ok(DraftHeader {
        class: owner.class,
        session_id: owner.session_id,
        uuid: owner.uuid,
        context_bits: context.begin_bits,
        content_start,
        content_size,
        packet_size,
        begin: context.value(ContextMeaning::Begin),
        end: context.value(ContextMeaning::End),
        discarded: context.find_number(ContextMeaning::Discarded),
        count: context.find_number(ContextMeaning::Count),
        count_bits: context.value(ContextMeaning::CountBits),
        schemes: Schemes {
            compression: context.value(ContextMeaning::Compression).unwrap_or(0),
            encryption: context.value(ContextMeaning::Encryption).unwrap_or(0),
            checksum: context.value(ContextMeaning::ChecksumScheme).unwrap_or(0),
        },
        checksum: context.checksum(),
        cpu: context.value(ContextMeaning::Cpu).and_then(|cpu| u32::try_from(cpu).ok()),
        stranger: owner.stranger,
    })
}

fn truncated(inside: &str) -> Unusable {
    Unusable::Cut(Error::truncated(format!("truncated packet: the file ends inside {inside}")))
}

fn untrusted(message: String) -> Unusable {
    Unusable::Untrusted(Error::malformed(message))
}

/// Is the fixed header there, with the magic number in the byte order of the trace?
fn check_magic(identity: &Identity, rest: &[u8]) -> Result<(), Unusable> {
    let fixed = if identity.dialect == Dialect::V11 { HEADER_11 } else { HEADER_16 };
    match metadata::magic_order(rest) {
        Some(order) if order != identity.order => {
            Err(untrusted("the packet has the byte order that the trace has not".to_string()))
        }
        Some(_) if rest.len() < fixed => Err(truncated("the header of a packet")),
        Some(_) => Ok(()),
        None if rest.len() < 4 => Err(truncated("the magic number of a packet")),
        None => {
            let found: Vec<String> = rest.iter().take(4).map(|byte| format!("{byte:02X}")).collect();
            Err(untrusted(format!("the magic number of a packet is missing: found the bytes {}", found.join(" "))))
        }
    }
}

/// The trace and the stream class that a packet names.
struct Owner {
    class: StreamClassId,
    session_id: u32,
    uuid: [u8; 16],
    /// See [`DraftHeader::stranger`].
    stranger: Option<Error>,
}

fn owner(plans: &TracePlans, identity: &Identity, rest: &[u8]) -> Result<Owner, Unusable> {
    let number = |at: usize| u32_at(rest, at, identity.order).unwrap_or(0);
    let schema = plans.schema();
    let strange = |message: String| Error::inconsistent(message);
    if identity.dialect == Dialect::V11 {
        let session_id = number(4);
        let other = identity.session_id.filter(|&wanted| wanted != session_id);
        let stranger = other.map(|wanted| {
            strange(format!("the packet has the session id {session_id:#010x}, the trace has {wanted:#010x}"))
        });
        let class = identity.class.ok_or_else(|| untrusted("the file belongs to no section".to_string()))?;
        return Ok(Owner { class, session_id, uuid: [0; 16], stranger });
    }
    let uuid = rest.get(4..).and_then(|rest| rest.first_chunk::<16>()).copied().unwrap_or_default();
    let of_other_trace = identity.uuid.filter(|&wanted| wanted != uuid).map(|wanted| {
        let (found, wanted) = (uuid_text(&uuid), uuid_text(&wanted));
        strange(format!("the packet carries the uuid {found} of another trace, expected {wanted}"))
    });
    let id = number(20);
    let Some(class) = schema.stream_by_id(id.into()) else {
        return Err(untrusted(format!("no stream is declared that has the id {id} of the packet")));
    };
    let of_other_stream = identity.class.filter(|&wanted| wanted != class).map(|wanted| {
        let wanted = schema.stream(wanted).id;
        strange(format!("the packet belongs to the stream {id}, and its file to the stream {wanted}"))
    });
    Ok(Owner { class, session_id: 0, uuid, stranger: of_other_trace.or(of_other_stream) })
}

/// The fields of a packet context that have a meaning.
struct ContextFields {
    members: Vec<TopField>,
    values: Vec<HeaderValue>,
    begin_bits: u64,
    end_bits: u64,
}

impl ContextFields {
    fn read(
        plans: &TracePlans,
        dialect: Dialect,
        class: StreamClassId,
        (rest, limit): (&[u8], u64),
    ) -> Result<ContextFields, Unusable> {
        // The fixed header of v1.1 goes on where the context of v1.6 begins.
        let begin_bits = if dialect == Dialect::V11 { 64 } else { 192 };
        let plan = plans.packet_context_rows(class);
        let members = members(plans, class);
        let mut fields = KnownFields { members: &members, values: vec![HeaderValue::None; members.len()] };
        let input = PlanInput::new(rest, (rest.len() as u64).min(limit).saturating_mul(8));
        let (mut end_bits, mut state) = (begin_bits, DecoderState::default());
        if let Err(fault) = plan.run(input, &mut end_bits, &mut state, &mut fields) {
            let path = format!("packet_context{}", plan.path(fault.node));
            return Err(match fault.kind {
                FaultKind::Negative { .. } | FaultKind::OtherByteOrder => {
                    Unusable::Untrusted(Error::malformed(fault.kind.to_string()).in_field(path))
                }
                _ if (rest.len() as u64) <= limit => truncated(&format!("the context of a packet, at `{path}`")),
                _ => untrusted(format!("the context of the packet is longer than {limit} bytes")),
            });
        }
        Ok(ContextFields { values: fields.values, members, begin_bits, end_bits })
    }

    /// The number of a meaning, with the bits of its field.
    fn find_number(&self, meaning: ContextMeaning) -> Option<(u64, u32)> {
        self.members.iter().zip(&self.values).find_map(|(member, value)| match value {
            HeaderValue::Number(number) if member.meaning == Some(meaning) => Some((*number, member.bits)),
            _ => None,
        })
    }

    fn value(&self, meaning: ContextMeaning) -> Option<u64> {
        self.find_number(meaning).map(|(value, _)| value)
    }

    fn checksum(&self) -> StoredChecksum {
        let mut fields = self.members.iter().zip(&self.values);
        match fields.find(|(member, _)| member.meaning == Some(ContextMeaning::Checksum)) {
            None => StoredChecksum::Nowhere,
            Some((member, HeaderValue::Number(value))) => StoredChecksum::Number(*value, member.bits),
            Some((_, HeaderValue::Bytes(bytes))) => StoredChecksum::Bytes(bytes.clone()),
            Some((_, HeaderValue::None)) => StoredChecksum::Odd,
        }
    }
}

/// A field at the top level of a packet context.
struct TopField {
    node: NodeId,
    /// Node of its elements, when it is an array of bytes.
    element: Option<NodeId>,
    meaning: Option<ContextMeaning>,
    /// Width of an integer, 0 for anything else.
    bits: u32,
}

#[derive(Clone, Debug)]
enum HeaderValue {
    None,
    Number(u64),
    Bytes(Vec<u8>),
}

/// The fields of a context that have a meaning.
fn members(plans: &TracePlans, class: StreamClassId) -> Vec<TopField> {
    let plan = plans.packet_context_rows(class);
    let schema = plans.schema();
    let Some(root) = plan.roots.first().copied().flatten() else { return Vec::new() };
    let mut members: Vec<TopField> = Vec::new();
    for (at, node) in plan.nodes.iter().enumerate() {
        let at = at as NodeId;
        if at == root {
            continue;
        }
        if node.parent == root {
            let name = match node.name.strip_prefix("section_packet_count") {
                // v1.1 counts sections where v1.6 counts streams.
                Some(rest) if schema.format == "ctf1.1" => format!("stream_packet_count{rest}"),
                _ => node.name.to_string(),
            };
            let bits = match &schema.field_class(node.class).kind {
                FieldKind::Integer(integer) => integer.len_bits,
                _ => 0,
            };
            let meaning = packet_fields::meaning(&name);
            members.push(TopField { node: at, element: None, meaning, bits });
        } else if let Some(member) = members.iter_mut().rev().find(|member| member.node == node.parent)
            && is_byte(&schema.field_class(node.class).kind)
            && matches!(schema.field_class(plan.nodes[node.parent as usize].class).kind, FieldKind::Array(_))
        {
            member.element = Some(at);
        }
    }
    members.retain(|member| member.meaning.is_some());
    members
}

fn is_byte(kind: &FieldKind) -> bool {
    matches!(kind, FieldKind::Integer(integer) if integer.len_bits == 8)
}

/// Collects the values of the fields that have a meaning.
struct KnownFields<'a> {
    members: &'a [TopField],
    values: Vec<HeaderValue>,
}

impl KnownFields<'_> {
    fn set(&mut self, node: NodeId, value: u64) {
        for (member, place) in self.members.iter().zip(&mut self.values) {
            if member.node == node {
                // A negative number is the bits of its field.
                let unused_bits = 64 - member.bits.clamp(1, 64);
                *place = HeaderValue::Number(value & (u64::MAX >> unused_bits));
            } else if member.element == Some(node)
                && member.meaning == Some(ContextMeaning::Checksum)
                && let HeaderValue::Bytes(bytes) = place
            {
                bytes.push(value as u8);
            }
        }
    }
}

impl Visitor for KnownFields<'_> {
    fn unsigned(&mut self, node: NodeId, value: u64) {
        self.set(node, value);
    }

    fn signed(&mut self, node: NodeId, value: i64) {
        self.set(node, value as u64);
    }

    fn begin_array(&mut self, node: NodeId, _len: u64) {
        for (member, place) in self.members.iter().zip(&mut self.values) {
            if member.node == node && member.element.is_some() {
                *place = HeaderValue::Bytes(Vec::new());
            }
        }
    }
}

/// Is it the error that the content ends too early?
pub(super) fn is_past_end(fault: &EventFault) -> bool {
    matches!(
        fault,
        EventFault::Field { fault, .. }
            if matches!(fault.kind, FaultKind::PastEnd { .. } | FaultKind::Unterminated | FaultKind::TooLong { .. })
    )
}
