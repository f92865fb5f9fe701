//! Opens a sub-buffer, or a piece of a large one: finds its events and leaves their payloads where they are.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use tracemill_codec::chunk::{Bytes, PacketData};
use tracemill_codec::spine::Spine;
use tracemill_codec::trace_plans::TracePlans;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::TracePart;

use super::blocks;
use super::events::{CLOCK_BITS, EventWalk, Fit, FoundEvent, SubBufferForm};
use super::folder::ChannelFile;
use super::metadata::lost_error;
use super::parts;
use super::schema::ChannelClass;
use crate::files::{self, slice};
use tracemill_format::{OpenTrace, OpenedPacket, PacketReader, Storage, Stream, TraceFiles};

/// Pieces begin at a multiple of this, so that alignments stay what they are in the sub-buffer.
pub(crate) const PIECE_ALIGN: u32 = 16;
/// Smaller packets are not worth a call.
const POPULATE_FROM: usize = 128 << 10;
/// Events on average have more bytes than this: room that a spine begins with.
const USUAL_EVENT_BYTES: usize = 24;

/// A packet of ours: a sub-buffer, or a piece of one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SubBufferPacket {
    /// Where the sub-buffer begins in its file.
    pub block_offset: u64,
    pub shape: SubBufferForm,
    /// First event, from the start of the sub-buffer.
    pub from: u32,
    /// Where the events of the piece end.
    pub to: u32,
    /// The clock before the first event.
    pub cycles: u64,
    /// The clock at the end of the sub-buffer, as its header states it.
    pub end_cycles: u64,
}

impl SubBufferPacket {
    /// First byte that belongs to it, from the start of the sub-buffer.
    pub(crate) fn base(&self, is_first: bool) -> u32 {
        if is_first { 0 } else { self.from - self.from % PIECE_ALIGN }
    }
}

/// A file, for reading.
#[derive(Debug)]
pub(crate) struct FilePlan {
    pub cpu: u32,
    pub class: Arc<ChannelClass>,
    /// One for each packet.
    pub pieces: Vec<SubBufferPacket>,
    /// Was the damage of its events reported when the trace was opened?
    pub is_reported: bool,
}

/// A file, for writing it again.
pub(crate) struct SourceFile {
    pub name: ChannelFile,
    pub bytes: Arc<dyn Bytes>,
}

/// Opens packets of a trace.
#[derive(Default)]
pub(crate) struct MarkersReader {
    /// By name of the stream.
    pub files: HashMap<String, FilePlan>,
    /// All files in the order of the trace.
    pub kept: Vec<SourceFile>,
    /// Files beside the channels.
    pub parts: Vec<files::KeptFile>,
    /// Ids that were reported not to fit, by stream class.
    pub reported: Mutex<HashSet<(u32, u16)>>,
}

impl MarkersReader {
    /// Is this the first time that this is reported of a marker?
    fn is_new(&self, class: &ChannelClass, id: u16) -> bool {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner).insert((class.stream.0, id))
    }

    /// Reports the size of an event that does not fit its marker: an error for one that is too short, else a warning for its
    /// marker.
    fn report_size(&self, plan: &FilePlan, piece: &SubBufferPacket, found: &FoundEvent, opened: &mut OpenedPacket) {
        let FoundEvent { id, start, body, end, fit } = *found;
        let (channel, size) = (&plan.class.name, end - body);
        let at = piece.block_offset + start as u64;
        let message = match fit {
            Fit::Exact => return,
            Fit::Shorter => {
                let message =
                    format!("the fields of event {id} of channel `{channel}` need more than its {size} bytes");
                let error = Error::malformed(message).at_offset(at);
                opened.faults.push(error.with_help("the event is shown without fields, those after it are read"));
                return;
            }
            Fit::Longer(more) => {
                format!(
                    "event {id} of channel `{channel}` has {more} bytes after its fields; reported once for the marker"
                )
            }
            Fit::Unknown => {
                format!("no format is known for event {id} of channel `{channel}`; reported once for the marker")
            }
        };
        if self.is_new(&plan.class, id) {
            opened.warnings.push(Error::inconsistent(message).at_offset(at));
        }
    }
}

impl PacketReader for MarkersReader {
    fn has_stated_times(&self) -> bool {
        true
    }

    fn parts(&self) -> Result<Vec<TracePart>> {
        let mut parts = files::parts_of(&self.parts);
        for SourceFile { name, bytes } in &self.kept {
            // Walked over again, as few need it.
            let blocks = blocks::walk(&name.path, bytes.bytes()).blocks;
            let of = parts::parts_of(name, bytes.bytes(), &blocks);
            parts.extend(of.into_iter().map(|(name, bytes)| TracePart { name, bytes: bytes.into() }));
        }
        Ok(parts)
    }

    /// Headers may state an end before their last event, and a beginning after their first.
    fn has_proven_times(&self) -> bool {
        false
    }

    fn files(&self, trace: &OpenTrace, storage: &dyn Storage) -> Option<TraceFiles> {
        Some(files::all_files(trace, storage))
    }

    fn open_packet(&self, plans: &Arc<TracePlans>, stream: &Stream, index: usize, _: u64) -> Result<OpenedPacket> {
        let known = self.files.get(&stream.name).and_then(|plan| Some((plan, plan.pieces.get(index)?)));
        let (Some((plan, piece)), Some(packet)) = (known, stream.packets.get(index)) else {
            return Err(Error::malformed("the packet is not one of this stream"));
        };
        let file = &stream.files[packet.file as usize].bytes;
        let base = (packet.offset_bytes.saturating_sub(piece.block_offset)) as usize;
        let len = (piece.to as usize).saturating_sub(base);
        if len >= POPULATE_FROM {
            file.will_read(packet.offset_bytes as usize, len);
        }
        let data = slice(file.bytes(), piece.block_offset, piece.to.into());
        let mut spine = Spine::default();
        spine.reserve((len / USUAL_EVENT_BYTES).min(1 << 16));
        let mut packet = packet.clone();
        packet.content_bits = (data.len().saturating_sub(base) as u64) * 8;
        let content = (file.clone(), packet.offset_bytes as usize);
        let found = PacketData::found(plans, file, packet, content, Spine::default());
        let mut opened = OpenedPacket::new(PacketData { cpu: Some(plan.cpu), ..found });
        let bits = |at: usize| (at.saturating_sub(base) * 8) as u32;
        // Events without a class of their own, with their ids.
        let mut open: Vec<(usize, u16)> = Vec::new();
        let mut walk = EventWalk::new(piece.shape, data, &plan.class.layouts, piece.from as usize, piece.cycles);
        let mut is_late = false;
        while let Some(next) = walk.next() {
            let found = match next {
                Ok(found) => found,
                Err(lost) => {
                    if !plan.is_reported {
                        opened.faults.push(lost_error(&lost, &plan.class.name, piece.block_offset, data.len()));
                    }
                    break;
                }
            };
            let mut class = plan.class.class(found.id);
            if found.fit != Fit::Exact {
                if !plan.is_reported {
                    self.report_size(plan, piece, &found, &mut opened);
                }
                if matches!(found.fit, Fit::Shorter | Fit::Unknown) {
                    class = plan.class.open;
                    open.push((spine.len(), found.id));
                }
            }
            if walk.cycles > piece.end_cycles && !is_late {
                is_late = report_late(walk.cycles, &found, piece, &mut opened);
            }
            spine.push(class, walk.cycles, bits(found.start), bits(found.body));
        }
        if !open.is_empty() {
            add_ids(&mut opened.data, data.get(base..).unwrap_or_default(), &mut spine, &open);
        }
        opened.data.spine = Some(spine);
        Ok(opened)
    }
}

/// A clock that is far after the end of the sub-buffer: one wrap was seen that was none.
fn report_late(cycles: u64, found: &FoundEvent, piece: &SubBufferPacket, opened: &mut OpenedPacket) -> bool {
    if piece.end_cycles == 0 || cycles - piece.end_cycles < 1 << (CLOCK_BITS - 1) {
        return false;
    }
    let message = format!(
        "the clock may be wrong: an event at {cycles} cycles in a sub-buffer that ends at {}; reported once for the \
         sub-buffer",
        piece.end_cycles
    );
    opened.warnings.push(Error::inconsistent(message).at_offset(piece.block_offset + found.start as u64));
    true
}

/// Gives events without a class of their own an id that their class can find: after a copy of the packet.
fn add_ids(packet: &mut PacketData, bytes: &[u8], spine: &mut Spine, open: &[(usize, u16)]) {
    let mut own = Vec::with_capacity(bytes.len() + open.len() * 4);
    own.extend_from_slice(bytes);
    for &(event, id) in open {
        if let Some(body) = spine.bodies.get_mut(event) {
            *body = (own.len() * 8) as u32;
        }
        own.extend(u32::from(id).to_le_bytes());
    }
    packet.packet.content_bits = own.len() as u64 * 8;
    packet.bytes = Arc::new(own);
    packet.base_bytes = 0;
}
