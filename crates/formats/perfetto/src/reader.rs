//! The last pass: events of a packet, read again where they stand in the file.

use std::path::PathBuf;
use std::sync::Arc;

use tracemill_codec::chunk::{Bytes, PacketData};
use tracemill_codec::spine::Spine;
use tracemill_codec::trace_plans::TracePlans;
use tracemill_format::calls::CallEvents;
use tracemill_format::{OpenTrace, OpenedPacket, PacketReader, Storage, Stream, TraceFiles};
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::{Gap, GapKind, Packet};

use super::events::{EventBuilder, EventContext, content};
use super::ftrace::each_event;
use super::packets::{TracePacket, read_packet};
use super::survey::{CpuStream, IndexedPacket, PerfettoSurvey, SliceStream};
use super::unpack::Unpacked;

/// Streams of a trace, by the number in their packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StreamOrigin {
    /// Events of a kind, by its number.
    Slices(usize),
    /// A CPU of a machine.
    Cpu(u32, u32),
}

/// Opens the packets of a trace.
pub(crate) struct PerfettoReader {
    pub(crate) file: Arc<dyn Bytes>,
    pub(crate) unpacked: Unpacked,
    pub(crate) path: PathBuf,
    pub(crate) survey: PerfettoSurvey,
    /// Streams by name.
    pub(crate) origins: Vec<(String, StreamOrigin)>,
    /// Ns that are 0 in the events.
    pub(crate) base_ns: i64,
}

/// Events in bytes.
#[derive(Default)]
struct EncodedEvents {
    bytes: Vec<u8>,
    spine: Spine,
    gaps: Vec<Gap>,
    /// The first offset whose events are not those that were found before.
    changed: Option<usize>,
}

impl PacketReader for PerfettoReader {
    fn reads_packets_alone(&self) -> bool {
        true
    }

    fn cpu_count(&self) -> Option<u64> {
        let (_, cpus) = self.survey.system.iter().find(|(name, _)| name == "num_cpus")?;
        cpus.parse().ok()
    }

    fn open_packet(&self, plans: &Arc<TracePlans>, stream: &Stream, index: usize, _clock: u64) -> Result<OpenedPacket> {
        let packet = &stream.packets.at(index);
        let (encoded, cpu) = self
            .encode(&stream.name, packet.index as usize)
            .ok_or_else(|| Error::malformed(format!("the stream `{}` has no such packet", stream.name)))?;
        let packet = Packet { content_bits: encoded.bytes.len() as u64 * 8, ..packet.clone() };
        let mut data = PacketData::found(plans, &self.file, packet, (Arc::new(encoded.bytes), 0), encoded.spine);
        data.cpu = cpu;
        let mut opened = OpenedPacket::new(data);
        opened.gaps = encoded.gaps;
        opened.faults.extend(encoded.changed.map(|at| {
            let error = Error::malformed("the file changed while it was read, or its events have too many bytes");
            error.in_file(&self.path).at_offset(self.unpacked.place(at))
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

impl PerfettoReader {
    /// The events of a packet of a stream, and its CPU.
    fn encode(&self, stream: &str, index: usize) -> Option<(EncodedEvents, Option<u32>)> {
        let (_, origin) = self.origins.iter().find(|(name, _)| name == stream)?;
        match origin {
            StreamOrigin::Slices(kind) => {
                let own = &self.survey.streams[*kind];
                let packet = own.packets.get(index)?;
                let before = index.checked_sub(1).map(|before| own.packets[before].range.1);
                Some((self.encode_slices(own, packet, before), None))
            }
            StreamOrigin::Cpu(machine, cpu) => {
                let own = self.survey.cpus.get(&(*machine, *cpu))?;
                Some((self.encode_cpu(own, own.packets.get(index)?), Some(*cpu)))
            }
        }
    }

    fn cycles(&self, ns: i64) -> u64 {
        ns.wrapping_sub(self.base_ns) as u64
    }

    fn encode_slices(&self, own: &SliceStream, info: &IndexedPacket, before: Option<i64>) -> EncodedEvents {
        let (bytes, survey) = (self.unpacked.bytes.bytes(), &self.survey);
        let mut encoded = EncodedEvents::default();
        let mut builder = EventBuilder::default();
        let mut last: Option<TracePacket<'_>> = None;
        let context = EventContext { bytes, tracks: &survey.tracks, sums: &survey.sums };
        encoded.spine.reserve(info.count);
        for place in &own.places[info.first..info.first + info.count] {
            if last.as_ref().is_none_or(|last| last.at != place.packet()) {
                last = read_packet(bytes, place.packet()).ok();
            }
            let start = encoded.bytes.len();
            let state = &survey.sequences.states[place.state as usize];
            let class = last.as_ref().and_then(|packet| {
                let built = builder.build(context, packet, state, place.part())?;
                let class = own.classes.find(&builder.event, &builder.line, built.part)?;
                class.write(&builder.event, &builder.line, &mut encoded.bytes).ok()?;
                Some(class.id)
            });
            match (class, u32::try_from(start * 8), u32::try_from(encoded.bytes.len() * 8)) {
                (Some(class), Ok(bits), Ok(_)) => encoded.spine.push(class, self.cycles(place.ns), bits, bits),
                _ => {
                    encoded.bytes.truncate(start);
                    encoded.changed.get_or_insert(place.packet());
                }
            }
        }
        let from = own.losses.partition_point(|loss| before.is_some_and(|before| loss.until <= before));
        for loss in own.losses[from..].iter().take_while(|loss| loss.until <= info.range.1) {
            encoded.gaps.push(Gap {
                kind: GapKind::LostPackets,
                count: None,
                begin_cycles: Some(self.cycles(loss.since.max(self.base_ns))),
                end_cycles: Some(self.cycles(loss.until)),
            });
        }
        encoded
    }

    fn encode_cpu(&self, own: &CpuStream, info: &IndexedPacket) -> EncodedEvents {
        let bytes = self.unpacked.bytes.bytes();
        let (mut encoded, mut slots) = (EncodedEvents::default(), Vec::new());
        for (number, bundle) in own.bundles.iter().enumerate().skip(info.first).take(info.count) {
            let packet = read_packet(bytes, bundle.at).ok();
            let Some((content::FTRACE, bundle_bytes)) = packet.and_then(|packet| packet.content) else {
                encoded.changed.get_or_insert(bundle.at);
                continue;
            };
            if bundle.is_after_loss {
                let before = number.checked_sub(1).map_or(bundle.range.0, |before| own.bundles[before].range.1);
                encoded.gaps.push(Gap {
                    kind: GapKind::DiscardedEvents,
                    count: None,
                    begin_cycles: Some(self.cycles(before.min(bundle.range.0))),
                    end_cycles: Some(self.cycles(bundle.range.0)),
                });
            }
            let mut running = bundle.running;
            // The first pass reported columns that do not fit together.
            let _ = each_event(bundle_bytes, &mut running, |event| {
                let time = (event.time.min(i64::MAX as u64) as i64).saturating_add(bundle.shift);
                let classes = &self.survey.ftrace;
                if !classes.write(&event, self.cycles(time), &mut slots, &mut encoded.bytes, &mut encoded.spine) {
                    encoded.changed.get_or_insert(bundle.at);
                }
            });
        }
        encoded.spine = sorted(encoded.spine);
        encoded
    }
}

/// The events in the order of time; those of one time stay in that of the file.
fn sorted(spine: Spine) -> Spine {
    if spine.cycles.is_sorted() {
        return spine;
    }
    let mut order: Vec<u32> = (0..spine.len() as u32).collect();
    order.sort_by_key(|&at| spine.cycles[at as usize]);
    let mut sorted = Spine::default();
    sorted.reserve(order.len());
    for at in order {
        let at = at as usize;
        sorted.cycles.push(spine.cycles[at]);
        sorted.classes.push(spine.classes[at]);
        sorted.starts.push(spine.starts[at]);
        sorted.bodies.push(spine.bodies[at]);
    }
    sorted
}
