//! The second pass: lines become events in bytes, a slice of the file at a time, for all streams at once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tracemill_codec::chunk::{Bytes, PacketData};
use tracemill_codec::spine::Spine;
use tracemill_codec::trace_plans::TracePlans;
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::Packet;

use super::classes::Kinds;
use super::line::{EventLine, STREAM_SCOPES, TimeKind, lines};
use super::survey::{SLICE_BYTES, Survey};
use tracemill_format::json::{Refused, TapeToken, TokenWalk};
use tracemill_format::{OpenedPacket, PacketReader, Stream};

/// Slices whose packets wait for their streams.
const MAX_WAITING: usize = 4;

/// Opens the packets of all traces of a file.
pub(super) struct JsonlReader {
    pub(super) file: Arc<dyn Bytes>,
    pub(super) path: PathBuf,
    pub(super) survey: Survey,
    pub(super) kinds: Kinds,
    /// Slices that were read, the oldest first, with the packets that were not requested yet.
    pub(super) waiting: Mutex<Vec<SlicePackets>>,
}

/// The packets of a slice that were not requested yet, by their contexts.
pub(super) struct SlicePackets {
    number: u64,
    packets: HashMap<usize, Encoded>,
}

/// A packet in bytes.
#[derive(Default)]
struct Encoded {
    bytes: Vec<u8>,
    spine: Spine,
    cpu: Option<u32>,
    last: u64,
}

impl PacketReader for JsonlReader {
    fn open_packet(&self, plans: &Arc<TracePlans>, stream: &Stream, index: usize, _clock: u64) -> Result<OpenedPacket> {
        let packet = &stream.packets.at(index);
        let of = self.survey.packets.get(packet.index as usize);
        let of = of.ok_or_else(|| Error::malformed("the file has no such packet"))?;
        let encoded = self.take_packet(of.slice, of.context).ok_or_else(|| {
            Error::malformed("the lines changed while they were read").in_file(&self.path).at_offset(of.at)
        })?;
        let packet = Packet { content_bits: encoded.bytes.len() as u64 * 8, ..packet.clone() };
        let mut data = PacketData::found(plans, &self.file, packet, (Arc::new(encoded.bytes), 0), encoded.spine);
        data.cpu = encoded.cpu;
        Ok(OpenedPacket::new(data))
    }
}

impl JsonlReader {
    fn take_packet(&self, slice: u64, context: usize) -> Option<Encoded> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let known = waiting.iter_mut().find(|known| known.number == slice);
        if let Some(encoded) = known.and_then(|known| known.packets.remove(&context)) {
            return Some(encoded);
        }
        // It was never read, or its packets were asked for before.
        waiting.retain(|known| known.number != slice);
        let mut packets = self.read(slice);
        let encoded = packets.remove(&context);
        waiting.push(SlicePackets { number: slice, packets });
        waiting.retain(|known| !known.packets.is_empty());
        if waiting.len() > MAX_WAITING {
            waiting.remove(0);
        }
        encoded
    }

    /// The packets of a slice, by their contexts.
    fn read(&self, slice: u64) -> HashMap<usize, Encoded> {
        let begin = slice as usize * SLICE_BYTES;
        let (mut packets, mut tokens) = (HashMap::new(), Vec::new());
        for (at, line) in lines(self.file.bytes(), begin, begin + SLICE_BYTES) {
            // The first pass reported what cannot be read.
            if self.survey.has_refused(slice, at) {
                continue;
            }
            if let Ok(own) = EventLine::read(line, &mut tokens) {
                let _ = self.add(&own, line, &tokens, slice, &mut packets);
            }
        }
        packets
    }

    /// Appends a line to its packet. Nothing is appended when it is none of the lines that the first pass took in.
    fn add(
        &self,
        own: &EventLine,
        line: &[u8],
        tokens: &[TapeToken],
        slice: u64,
        packets: &mut HashMap<usize, Encoded>,
    ) -> Option<()> {
        let context = *self.survey.context_of.get(&own.context_mark)?;
        let event = &self.kinds.events[self.kinds.event_of[*self.survey.event_of.get(&own.event_mark)?]];
        let stream = &self.kinds.streams[event.stream];
        let encode = |scope: usize, out: &mut Vec<u8>| -> Result<(), Refused> {
            let shape = match scope.checked_sub(STREAM_SCOPES) {
                None => &stream.shapes[scope],
                Some(scope) => &event.shapes[scope],
            };
            match (shape, own.scopes[scope]) {
                (Some(shape), Some(at)) => shape.encode(&mut TokenWalk { line, tokens, at }, out),
                (None, None) => Ok(()),
                _ => Err(Refused::Other),
            }
        };
        let encoded = match packets.entry(context) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(vacant) => {
                let mut encoded = Encoded { cpu: own.cpu, ..Encoded::default() };
                encode(super::line::PACKET_CONTEXT, &mut encoded.bytes).ok()?;
                encoded.last = self.before(slice, context, event.stream);
                vacant.insert(encoded)
            }
        };
        let start = encoded.bytes.len();
        let mut body = start;
        for scope in [0, 2, 3, 4] {
            if scope == 2 {
                body = encoded.bytes.len();
            }
            if encode(scope, &mut encoded.bytes).is_err() {
                encoded.bytes.truncate(start);
                return None;
            }
        }
        let time = match stream.time {
            TimeKind::Ns => own.ns,
            _ => own.cycles.map(i128::from),
        };
        encoded.last = time.map_or(encoded.last, |time| stream.cycles(time));
        let (Ok(start_bits), Ok(body_bits)) = (u32::try_from(start * 8), u32::try_from(body * 8)) else {
            encoded.bytes.truncate(start);
            return None;
        };
        encoded.spine.push(event.class, encoded.last, start_bits, body_bits);
        Some(())
    }

    /// The time before the lines of a context in a slice.
    fn before(&self, slice: u64, context: usize, stream: usize) -> u64 {
        let packets = &self.survey.packets;
        let first = packets.partition_point(|packet| packet.slice < slice);
        let own = packets[first..].iter().take_while(|packet| packet.slice == slice);
        let before = own.into_iter().find(|packet| packet.context == context).and_then(|packet| packet.before);
        let stream = &self.kinds.streams[stream];
        let time = before.map(|(time, ns)| if stream.time == TimeKind::Ns { ns } else { time });
        time.map_or(0, |time| stream.cycles(time))
    }
}
