//! The second pass: lines become events in bytes, a slice of the text at a time, for all CPUs at once.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tracemill_codec::chunk::{Bytes, PacketData};
use tracemill_codec::spine::Spine;
use tracemill_codec::trace_plans::TracePlans;
use tracemill_format::calls::CallEvents;
use tracemill_format::{OpenTrace, OpenedPacket, PacketReader, Storage, Stream, TraceFiles};
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::{Gap, GapKind, Packet};

use super::classes::{Scratch, TextClass};
use super::line::{LineHead, LineTime, NO_CPU};
use super::pattern::FieldValue;
use super::perf_script::LineExtras;
use super::survey::{LossBefore, SLICE_BYTES, Survey, cpu_slot};
use super::walk::{TextItem, TextWalk};

/// Slices whose packets wait for their streams.
const MAX_WAITING: usize = 4;

/// Opens the packets of a text.
pub(super) struct TextReader {
    pub(super) file: Arc<dyn Bytes>,
    /// The part of the file that is the text.
    pub(super) range: std::ops::Range<usize>,
    pub(super) path: PathBuf,
    pub(super) survey: Survey,
    pub(super) waiting: WaitingSlices,
}

/// Slices that were read, the oldest first, and those that threads read now.
#[derive(Default)]
pub(super) struct WaitingSlices {
    slices: Mutex<Vec<SlicePackets>>,
    /// A slice was read.
    done: Condvar,
}

/// The packets of a slice that were not requested yet, by their CPUs; `None` while a thread reads it.
struct SlicePackets {
    slice: u32,
    packets: Option<HashMap<u32, CpuPacket>>,
}

/// A packet in bytes.
#[derive(Default)]
struct CpuPacket {
    bytes: Vec<u8>,
    spine: Spine,
    /// Is the last event the end of a call whose time follows from how long it took? And when it began.
    leaf: Option<u64>,
}

impl PacketReader for TextReader {
    fn cpu_count(&self) -> Option<u64> {
        self.survey.cpus
    }

    fn open_packet(&self, plans: &Arc<TracePlans>, stream: &Stream, index: usize, _clock: u64) -> Result<OpenedPacket> {
        let packet = &stream.packets.at(index);
        let of = self.survey.packets.get(packet.index as usize);
        let of = of.ok_or_else(|| Error::malformed("the file has no such packet"))?;
        let encoded = self.take_packet(of.slice, of.cpu).ok_or_else(|| {
            Error::malformed("the lines changed while they were read").in_file(&self.path).at_offset(of.at)
        })?;
        let packet = Packet { content_bits: encoded.bytes.len() as u64 * 8, ..packet.clone() };
        let mut data = PacketData::found(plans, &self.file, packet, (Arc::new(encoded.bytes), 0), encoded.spine);
        data.cpu = Some(of.cpu).filter(|cpu| *cpu != NO_CPU);
        let mut opened = OpenedPacket::new(data);
        let gap = |loss: &LossBefore| Gap {
            kind: GapKind::DiscardedEvents,
            count: loss.count,
            begin_cycles: loss.since.or(loss.until),
            end_cycles: loss.until.or(loss.since),
        };
        opened.gaps = of.losses.iter().map(gap).collect();
        Ok(opened)
    }

    fn files(&self, trace: &OpenTrace, _storage: &dyn Storage) -> Option<TraceFiles> {
        Some(TraceFiles::single(trace))
    }

    fn call_events(&self) -> &'static [CallEvents] {
        super::CALLS
    }
}

impl TextReader {
    fn take_packet(&self, slice: u32, cpu: u32) -> Option<CpuPacket> {
        let WaitingSlices { slices, done } = &self.waiting;
        let mut waiting = slices.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(at) = waiting.iter().position(|known| known.slice == slice) {
            let Some(packets) = &mut waiting[at].packets else {
                waiting = done.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let found = packets.remove(&cpu);
            // Without it, it was requested before.
            if found.is_none() || packets.is_empty() {
                waiting.remove(at);
            }
            if found.is_some() {
                return found;
            }
        }
        waiting.push(SlicePackets { slice, packets: None });
        drop(waiting);
        // Dropping the mark ends the wait of others, also after a panic.
        let mut mark = ReadingMark { waiting: &self.waiting, slice, packets: None };
        let mut packets = self.read(slice);
        let found = packets.remove(&cpu);
        mark.packets = Some(packets).filter(|packets| !packets.is_empty());
        found
    }

    /// The packets of a slice, by their CPUs.
    fn read(&self, slice: u32) -> HashMap<u32, CpuPacket> {
        let survey = &self.survey;
        let text = &self.file.bytes()[self.range.clone()];
        let (mut packets, mut scratch) = (Vec::<(u32, CpuPacket)>::new(), Scratch::default());
        // Number of the packet of each CPU, and one.
        let mut of_cpu = Vec::<usize>::new();
        let Some(&first) = survey.firsts.get(slice as usize) else { return HashMap::new() };
        let end = (slice as usize + 1).saturating_mul(SLICE_BYTES).min(text.len());
        let mut walk = TextWalk::new(
            text,
            survey.dialect,
            first as usize,
            survey.clocks.get(&slice).cloned().unwrap_or_default(),
            survey.has_zero,
        );
        while walk.at < end {
            let TextItem::Event { head, event, extras, leaf } = walk.next() else { continue };
            // The first pass reported what is not taken here.
            if matches!(head.time, LineTime::Ns(_)) != survey.is_ns {
                continue;
            }
            let Some(class) = survey.classes.find(&event, &extras, &mut scratch) else { continue };
            let cpu = cpu_slot(head.cpu);
            if cpu >= of_cpu.len() {
                of_cpu.resize(cpu + 1, 0);
            }
            if of_cpu[cpu] == 0 {
                packets.push((head.cpu, CpuPacket::default()));
                of_cpu[cpu] = packets.len();
            }
            let encoded = &mut packets[of_cpu[cpu] - 1].1;
            let time = head.time.value();
            encoded.append(survey, class, (&head, time), &scratch.values);
            let Some((end, duration)) = leaf else { continue };
            let Some(class) = survey.classes.find(&end, &LineExtras::default(), &mut scratch) else { continue };
            encoded.append(survey, class, (&head, time.saturating_add(duration)), &scratch.values);
            encoded.leaf = Some(time);
        }
        packets.into_iter().collect()
    }
}

impl CpuPacket {
    /// Appends an event at a time.
    #[inline]
    fn append(
        &mut self,
        survey: &Survey,
        class: &TextClass,
        (head, time): (&LineHead<'_>, u64),
        values: &[FieldValue<'_>],
    ) {
        // Times of lines are whole µs, so the next line may come before the end of a call that took some ns.
        if let (Some(begin), Some(last)) = (self.leaf.take(), self.spine.cycles.last_mut()) {
            *last = (*last).min(time.max(begin));
        }
        let start = self.bytes.len();
        survey.classes.put_header(head, &survey.tgids, &mut self.bytes);
        let body = self.bytes.len();
        let is_whole = class.write(values, &mut self.bytes);
        match (u32::try_from(start * 8), u32::try_from(body * 8)) {
            (Ok(start_bits), Ok(body_bits)) if is_whole => self.spine.push(class.id, time, start_bits, body_bits),
            _ => self.bytes.truncate(start),
        }
    }
}

/// A thread reads a slice. When it is dropped the packets wait for their streams, or the slice is read by others.
struct ReadingMark<'a> {
    waiting: &'a WaitingSlices,
    slice: u32,
    packets: Option<HashMap<u32, CpuPacket>>,
}

impl Drop for ReadingMark<'_> {
    fn drop(&mut self) {
        let mut waiting = self.waiting.slices.lock().unwrap_or_else(PoisonError::into_inner);
        let own = |known: &SlicePackets| known.slice == self.slice && known.packets.is_none();
        if let Some(at) = waiting.iter().position(own) {
            match self.packets.take() {
                Some(packets) => waiting[at].packets = Some(packets),
                None => {
                    waiting.remove(at);
                }
            }
        }
        while waiting.iter().filter(|known| known.packets.is_some()).count() > MAX_WAITING {
            let Some(oldest) = waiting.iter().position(|known| known.packets.is_some()) else { break };
            waiting.remove(oldest);
        }
        self.waiting.done.notify_all();
    }
}
