//! Opens packets for their events: where they lie, or what their content becomes when it is undone.

use std::borrow::Cow;
use std::sync::Arc;

use tracemill_codec::chunk::{Bytes, PacketData};
use tracemill_codec::plan::DecoderState;
use tracemill_codec::spine::{ScanEnd, SpineSink};
use tracemill_codec::trace_plans::TracePlans;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::{EventClassId, TracePart};

use super::header::{self, DraftHeader, Identity, Unusable};
use super::metadata::Dialect;
use super::transform::{self, Undo};
use tracemill_format::{OpenTrace, OpenedPacket, PacketReader, Storage, Stream, TraceFiles};

/// Reads the packets of one trace.
pub(super) struct DraftReader {
    /// Identity that its packets share; the class is that of each file.
    pub(super) identity: Identity,
    pub(super) undo: Undo,
    /// The file of metadata, and the text that was read of it.
    pub(super) metadata: Arc<dyn Bytes>,
    pub(super) text: String,
}

impl PacketReader for DraftReader {
    fn has_stated_times(&self) -> bool {
        true
    }

    fn parts(&self) -> Result<Vec<TracePart>> {
        Ok(super::write::parts(self.metadata.bytes(), &self.text, &self.identity))
    }

    fn files(&self, trace: &OpenTrace, storage: &dyn Storage) -> Option<TraceFiles> {
        crate::packets::files_of(trace, storage)
    }

    fn open_packet(&self, plans: &Arc<TracePlans>, stream: &Stream, index: usize, clock: u64) -> Result<OpenedPacket> {
        let packet = &stream.packets.at(index);
        let file = &stream.files[packet.file as usize].bytes;
        let rest = file.bytes().get(packet.offset_bytes as usize..).unwrap_or(&[]);
        let identity = Identity { class: Some(stream.class), ..self.identity.clone() };
        let header = header::read(plans, &identity, rest, u64::MAX).map_err(|unusable| match unusable {
            Unusable::Cut(error) | Unusable::Untrusted(error) => error,
        })?;
        let left = rest.len() as u64;
        let stored_end = header.stored_content(left);
        let stored = rest.get(header.content_start as usize..stored_end as usize).unwrap_or(&[]);
        file.will_read((packet.offset_bytes + header.content_start) as usize, stored.len());
        let mut faults = Vec::new();
        let is_truncated = header.is_truncated(left);
        let content = if stored.is_empty() {
            Some(Cow::Borrowed(stored))
        } else if is_truncated {
            // Reported when the packets were found.
            header.schemes.is_none().then_some(Cow::Borrowed(stored))
        } else {
            let place = |error: Error| error.at_offset(packet.offset_bytes);
            let content = self.content(&header, rest, stored).map_err(place)?;
            faults.extend(content.1.map(place));
            Some(content.0)
        };
        let (bytes, base_bytes, content_end): (Arc<dyn Bytes>, usize, u64) = match content {
            None => (file.clone(), packet.offset_bytes as usize, header.content_start),
            Some(Cow::Borrowed(_)) => (file.clone(), packet.offset_bytes as usize, stored_end),
            Some(Cow::Owned(expanded)) => {
                let mut bytes = rest.get(..header.content_start as usize).unwrap_or(&[]).to_vec();
                bytes.extend_from_slice(&expanded);
                let end = bytes.len() as u64;
                (Arc::new(bytes), 0, end)
            }
        };
        let mut packet = packet.clone();
        packet.content_bits = content_end * 8;
        let mut data = PacketData {
            plans: plans.clone(),
            bytes,
            base_bytes,
            file: file.clone(),
            packet,
            cpu: header.cpu,
            spine: None,
            context_bits: header.context_bits,
            events_bits: header.content_start * 8,
            state: DecoderState::new(header.begin.unwrap_or(clock)),
            copied: None,
        };
        if is_truncated && header.schemes.is_none() {
            keep_whole_events(&mut data);
        }
        let mut opened = OpenedPacket::new(data);
        // Damaged packets are rewritten, so that the output is sound.
        opened.can_be_copied = !is_truncated && faults.is_empty();
        opened.faults = faults;
        opened.warnings.extend(check_event_sizes(&opened.data));
        Ok(opened)
    }
}

impl DraftReader {
    /// The content of a packet with its schemes undone, and the error of a checksum that does not match.
    fn content<'c>(
        &self,
        header: &DraftHeader,
        rest: &[u8],
        stored: &'c [u8],
    ) -> Result<(Cow<'c, [u8]>, Option<Error>)> {
        let mismatch = match self.undo.verifies {
            true => transform::verify(stored, header.schemes.checksum, &header.checksum)?,
            false => None,
        };
        let (associated, salt) = match self.identity.dialect {
            Dialect::V11 => (rest.get(4..8), header.session_id.to_le_bytes().to_vec()),
            Dialect::V16 => (rest.get(4..24), header.uuid.to_vec()),
        };
        let undone = self.undo.undo(stored, header.schemes, associated.unwrap_or(&[]), &salt);
        match (undone, mismatch) {
            (Ok(content), mismatch) => Ok((
                content,
                mismatch
                    .map(|fault| fault.with_help("its events are read all the same, unless --strict").losing_nothing()),
            )),
            (Err(error), None) => Err(error),
            // One error for one packet: the checksum shows the cause.
            (Err(error), Some(mismatch)) => {
                Err(mismatch.with_help(format!("and {}; the packet is skipped", error.message())))
            }
        }
    }
}

/// Ends the content of a packet that the file cuts off after its last whole event.
fn keep_whole_events(data: &mut PacketData) {
    let (mut pos, mut state) = (data.events_bits, data.state.clone());
    let end = data.plans.scanner(data.packet.class).scan(data.input(), &mut pos, &mut state, &mut Nothing);
    if matches!(&end, ScanEnd::Fault(fault) if header::is_past_end(fault)) {
        data.packet.content_bits = pos;
    }
}

/// Takes events and forgets them.
struct Nothing;

impl SpineSink for Nothing {
    fn event(&mut self, _: EventClassId, _: u64, _: u64, _: u64) -> bool {
        true
    }
}

/// Takes one event at a time.
#[derive(Default)]
struct One(Option<(EventClassId, u64)>);

impl SpineSink for One {
    fn event(&mut self, class: EventClassId, _: u64, _: u64, body_bits: u64) -> bool {
        self.0 = Some((class, body_bits));
        false
    }
}

/// Compares the sizes that the contexts of events state with what their payloads take (`SPEC.md`, D9).
fn check_event_sizes(data: &PacketData) -> Option<Error> {
    let class = data.packet.class;
    let schema = data.plans.schema();
    let context = schema.stream(class).common_context?;
    let is_first = schema.members(Some(context)).first().is_some_and(|member| &*member.name == "event_size");
    if schema.format != "ctf1.1" || !is_first {
        return None;
    }
    let align = u64::from(schema.field_class(context).align_bits);
    let order = schema.byte_order;
    let (mut pos, mut state) = (data.events_bits, data.state.clone());
    let (mut wrong, mut first) = (0u64, None);
    loop {
        let mut one = One::default();
        let end = data.plans.scanner(class).scan(data.input(), &mut pos, &mut state, &mut one);
        let (Some((event, body)), ScanEnd::Full) = (one.0, end) else { break };
        let stated =
            tracemill_codec::bits::read_bits(data.input().bytes, body.next_multiple_of(align), 32, order, false);
        // After the context, aligned as the payload is.
        let mut start = body;
        let section = data.plans.event_rows(event).run_section(
            0,
            data.input(),
            &mut start,
            &mut state.clone(),
            &mut tracemill_codec::plan::NoVisitor,
        );
        let payload = schema.event(event).payload.map_or(1, |payload| schema.field_class(payload).align_bits);
        let start = start.next_multiple_of(payload.into());
        let actual = pos.saturating_sub(start).div_ceil(8);
        if section.is_ok() && stated != actual {
            wrong += 1;
            first.get_or_insert((body, stated, actual));
        }
    }
    let (body, stated, actual) = first?;
    let message = format!(
        "an event states a payload of {stated} bytes and has one of {actual}; so or like it {wrong} events of the packet"
    );
    let warning = Error::inconsistent(message);
    Some(match data.is_in_place() {
        true => warning.at_bit(data.packet.offset_bytes * 8 + body),
        false => warning.at_offset(data.packet.offset_bytes),
    })
}
