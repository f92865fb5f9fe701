//! The second pass: events of a part of the index, read again where they stand in the file.

use std::path::PathBuf;
use std::sync::Arc;

use tracemill_codec::chunk::{Bytes, PacketData};
use tracemill_codec::spine::Spine;
use tracemill_codec::trace_plans::TracePlans;
use tracemill_format::calls::CallEvents;
use tracemill_format::json::Refused;
use tracemill_format::slices::{PhasePart, SliceEvent};
use tracemill_format::{OpenTrace, OpenedPacket, PacketReader, Storage, Stream, TraceFiles};
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::Packet;

use super::document::MAX_EVENT_BYTES;
use super::stacks::ReadEvent;
use super::survey::{ChromeSurvey, SAMPLE};

/// Opens the packets of a file.
pub(super) struct ChromeReader {
    pub(super) file: Arc<dyn Bytes>,
    pub(super) path: PathBuf,
    pub(super) survey: ChromeSurvey,
    /// Ns that are 0 in the events.
    pub(super) base_ns: i64,
}

impl PacketReader for ChromeReader {
    fn reads_packets_alone(&self) -> bool {
        true
    }

    fn open_packet(&self, plans: &Arc<TracePlans>, stream: &Stream, index: usize, _clock: u64) -> Result<OpenedPacket> {
        let packet = &stream.packets.at(index);
        let of = self.survey.packets.get(packet.index as usize);
        let of = of.ok_or_else(|| Error::malformed("the file has no such packet"))?;
        let places = self.survey.places.get(of.first..of.first + of.count).unwrap_or_default();
        let (file, mut bytes, mut spine, mut event) =
            (self.file.bytes(), Vec::new(), Spine::default(), SliceEvent::default());
        let (mut changed, mut refusals, mut stack) = (None, Vec::new(), Vec::new());
        spine.reserve(places.len());
        for place in places {
            let begin = (place >> 1) as usize;
            let text = file.get(begin..file.len().min(begin + MAX_EVENT_BYTES)).unwrap_or_default();
            let start = bytes.len();
            match self.append_event(text, place & 1 == 1, (&mut event, &mut stack), &mut bytes, &mut spine) {
                Ok(true) => {}
                Ok(false) => {
                    bytes.truncate(start);
                    changed.get_or_insert(begin);
                }
                // Labels may hold what a text cannot: the first pass does not know yet that they become texts.
                Err(refused) => {
                    bytes.truncate(start);
                    let message = format!("{}; the event is skipped", String::from(refused));
                    refusals.push(Error::malformed(message).in_file(&self.path).at_offset(begin as u64));
                }
            }
        }
        let packet = Packet { content_bits: bytes.len() as u64 * 8, ..packet.clone() };
        let mut opened = OpenedPacket::new(PacketData::found(plans, &self.file, packet, (Arc::new(bytes), 0), spine));
        opened.faults.extend(refusals);
        opened.faults.extend(changed.map(|at| {
            let error = Error::malformed("the file changed while it was read, or its events have too many bytes");
            error.in_file(&self.path).at_offset(at as u64)
        }));
        Ok(opened)
    }

    fn files(&self, trace: &OpenTrace, _storage: &dyn Storage) -> Option<TraceFiles> {
        Some(TraceFiles::single(trace))
    }

    fn call_events(&self) -> &'static [CallEvents] {
        super::CALLS
    }
}

impl ChromeReader {
    /// Appends the event at the beginning of a text, or its end. `false` when it is not what the first pass read.
    ///
    /// # Errors
    /// When a value of it cannot be stored.
    fn append_event(
        &self,
        text: &[u8],
        is_end: bool,
        (event, stack): (&mut SliceEvent, &mut Vec<u8>),
        bytes: &mut Vec<u8>,
        spine: &mut Spine,
    ) -> std::result::Result<bool, Refused> {
        let read = self.survey.frames.read_event(text, Some(SAMPLE), event, stack);
        let Ok(ReadEvent { object, text, .. }) = read else { return Ok(false) };
        let part = if is_end { PhasePart::Exit } else { PhasePart::from_phase(object.members.phase) };
        let length = if is_end { object.dur.unwrap_or(0) } else { 0 };
        let ns = object.ts.and_then(|ns| ns.checked_add(length));
        let (Some(ns), Some(class)) = (ns, self.survey.classes.find(event, text, part)) else { return Ok(false) };
        let Ok(start_bits) = u32::try_from(bytes.len() * 8) else { return Ok(false) };
        match class.write(event, text, bytes) {
            Ok(()) => {}
            Err(Refused::Zero) => return Err(Refused::Zero),
            Err(_) => return Ok(false),
        }
        if u32::try_from(bytes.len() * 8).is_err() {
            return Ok(false);
        }
        spine.push(class.id, ns.wrapping_sub(self.base_ns) as u64, start_bits, start_bits);
        Ok(true)
    }
}
