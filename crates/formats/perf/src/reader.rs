//! The second pass: the records of a slice become events in bytes, for all streams at once.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tracemill_codec::chunk::{Bytes, PacketData};
use tracemill_codec::spine::Spine;
use tracemill_codec::trace_plans::TracePlans;
use tracemill_format::code::{CodeMaps, SampleRegisters};
use tracemill_format::mapped::MappedCode;
use tracemill_format::{Faults, OpenedPacket, PacketReader, Stream};
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::{Gap, GapKind, Packet};
use tracemill_model::schema::EventClassId;

use super::classes::{PerfClasses, RecordContent};
use super::comms::{Comms, NameSpan};
use super::fields::{
    EventBytes, FieldSink, Number, RecordForm, RecordParts, SampleParts, form_of, record_fields, sample_fields,
};
use super::file::{IdCache, PerfFile};
use super::records::{HEADER, PerfRecord, Records, kind};
use super::survey::{RecordOrigin, StreamKey, StreamPart, Survey, is_count, is_event, lost};

/// Slices whose packets wait for their streams.
const MAX_WAITING: usize = 4;
/// Slices of which is kept that one stream was read alone.
const MAX_ALONE: usize = 64;
/// Faults that are reported one by one for a packet.
const MAX_FAULTS: usize = 16;

/// Opens the packets of a file.
pub(crate) struct PerfReader {
    pub(crate) file: PerfFile,
    /// The records, one after the other.
    pub(crate) records: Arc<dyn Bytes>,
    /// Are they where the file has them?
    pub(crate) is_in_place: bool,
    pub(crate) survey: Survey,
    pub(crate) classes: PerfClasses,
    pub(crate) comms: Arc<Comms>,
    pub(crate) maps: Arc<MappedCode>,
    /// Streams by their names.
    pub(crate) streams: HashMap<String, StreamKey>,
    pub(crate) cpus: Option<u64>,
    /// Slices that were read.
    pub(crate) waiting: Mutex<WaitingSlices>,
}

/// Slices that were read, the oldest first.
#[derive(Default)]
pub(crate) struct WaitingSlices {
    slices: Vec<Arc<Slice>>,
    /// Slices of which one stream was read alone.
    alone: VecDeque<usize>,
}

/// A slice, and the packets of it that were not requested yet.
struct Slice {
    number: usize,
    packets: Mutex<Option<HashMap<StreamKey, Encoded>>>,
}

/// A packet in bytes.
#[derive(Default)]
struct Encoded {
    bytes: Vec<u8>,
    spine: Spine,
    faults: Faults<MAX_FAULTS>,
    gaps: Vec<Gap>,
    last: u64,
    is_sorted: bool,
}

impl PacketReader for PerfReader {
    fn code_maps(&self) -> Option<&dyn CodeMaps> {
        Some(&*self.maps)
    }

    fn sample_registers(&self, class: EventClassId) -> Option<SampleRegisters> {
        self.classes.registers(class)
    }

    fn cpu_count(&self) -> Option<u64> {
        self.cpus
    }

    fn open_packet(&self, plans: &Arc<TracePlans>, stream: &Stream, index: usize, _clock: u64) -> Result<OpenedPacket> {
        let packet = &stream.packets.at(index);
        let key = self.streams.get(&stream.name);
        let part = key.and_then(|key| self.survey.streams.get(key)?.get(packet.index as usize));
        let Some((key, part)) = key.zip(part) else {
            return Err(Error::malformed(format!("the stream `{}` has no such packet", stream.name)));
        };
        let encoded = self.take_part(*key, part);
        let packet = Packet { content_bits: encoded.bytes.len() as u64 * 8, ..packet.clone() };
        let file = &stream.files[packet.file as usize].bytes;
        let mut data = PacketData::found(plans, file, packet, (Arc::new(encoded.bytes), 0), encoded.spine);
        if let StreamKey::Cpu(cpu) = key {
            data.cpu = Some(*cpu);
        }
        let faults = encoded.faults.finish("faults like these in the packet");
        Ok(OpenedPacket { faults, gaps: encoded.gaps, ..OpenedPacket::new(data) })
    }
}

impl PerfReader {
    /// The events of a stream in a slice.
    fn take_part(&self, stream: StreamKey, part: &StreamPart) -> Encoded {
        let number = part.slice as usize;
        let slice = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            match waiting.slices.iter().find(|slice| slice.number == number) {
                Some(slice) => slice.clone(),
                None => {
                    // A stream that begins late comes here long before the others. When another one follows, all will.
                    let newest = waiting.slices.iter().map(|slice| slice.number + 1).max();
                    if newest.is_some_and(|newest| number > newest) && !waiting.alone.contains(&number) {
                        waiting.alone.push_back(number);
                        if waiting.alone.len() > MAX_ALONE {
                            waiting.alone.pop_front();
                        }
                        drop(waiting);
                        return self.read(number, Some(stream)).remove(&stream).unwrap_or_default();
                    }
                    let slice = Arc::new(Slice { number, packets: Mutex::default() });
                    if waiting.slices.len() >= MAX_WAITING {
                        waiting.slices.remove(0);
                    }
                    waiting.slices.push(slice.clone());
                    slice
                }
            }
        };
        let mut packets = slice.packets.lock().unwrap_or_else(PoisonError::into_inner);
        let packets = packets.get_or_insert_with(|| self.read(number, None));
        // A packet that is read a second time is rebuilt, alone.
        packets.remove(&stream).unwrap_or_else(|| self.read(number, Some(stream)).remove(&stream).unwrap_or_default())
    }

    /// The last time of a stream before a slice.
    fn last_before(&self, stream: StreamKey, slice: usize) -> Option<u64> {
        let parts = self.survey.streams.get(&stream)?;
        let at = parts.partition_point(|part| (part.slice as usize) < slice);
        parts[..at].last()?.times.map(|(_, last)| last)
    }

    fn part(&self, stream: StreamKey, slice: usize) -> Option<&StreamPart> {
        let parts = self.survey.streams.get(&stream)?;
        parts.binary_search_by_key(&(slice as u32), |part| part.slice).ok().map(|at| &parts[at])
    }

    /// The packets of a slice; of one stream, if only that is wanted.
    fn read(&self, slice: usize, only: Option<StreamKey>) -> HashMap<StreamKey, Encoded> {
        let mut encoder = Encoder {
            reader: self,
            slice,
            packets: Packets::default(),
            event: EventBytes::default(),
            ids: IdCache::default(),
            name: NameSpan::default(),
        };
        let has_earlier = |stream: &StreamKey| self.part(*stream, slice).is_some_and(|part| part.before.is_some());
        let needs_earlier = match only {
            Some(stream) => has_earlier(&stream),
            None => self.survey.streams.keys().any(has_earlier),
        };
        let places = |slice: usize| Some((*self.survey.slices.get(slice)?, *self.survey.slices.get(slice + 1)?));
        let earlier = slice.checked_sub(1).filter(|_| needs_earlier);
        for (number, is_earlier) in earlier.map(|earlier| (earlier, true)).into_iter().chain([(slice, false)]) {
            let Some((from, to)) = places(number) else { continue };
            // The time from which records are held over, of the stream at hand.
            let mut held: Option<(StreamKey, Option<u64>)> = None;
            let mut records = Records::new(self.records.bytes(), self.file.order, from, to);
            while let Some(record) = records.next() {
                // The first pass reported what cannot be read.
                let Ok(record) = record else { continue };
                if !is_event(record.kind) {
                    continue;
                }
                let origin = RecordOrigin::from_record(&self.file, &record, &mut encoder.ids);
                if only.is_some_and(|only| only != origin.stream) {
                    continue;
                }
                let held_from = match held {
                    Some((stream, from)) if stream == origin.stream => from,
                    _ => {
                        let from = self.part(origin.stream, number).and_then(|part| part.held_from);
                        held = Some((origin.stream, from));
                        from
                    }
                };
                let is_held = held_from.zip(origin.id.time).is_some_and(|(from, time)| time >= from);
                if is_held == is_earlier {
                    encoder.add(&record, &origin);
                }
            }
        }
        let mut packets = encoder.packets.list;
        packets.iter_mut().for_each(|(_, encoded)| encoded.sort());
        packets.into_iter().collect()
    }
}

/// The packets of a slice while they are made.
#[derive(Default)]
struct Packets {
    list: Vec<(StreamKey, Encoded)>,
    places: HashMap<StreamKey, usize>,
    /// The one of the record before, which is mostly that of the next.
    last: usize,
}

impl Packets {
    #[inline]
    fn of(&mut self, stream: StreamKey) -> &mut Encoded {
        if self.list.get(self.last).is_none_or(|(last, _)| *last != stream) {
            self.last = *self.places.entry(stream).or_insert_with(|| {
                self.list.push((stream, Encoded { is_sorted: true, ..Encoded::default() }));
                self.list.len() - 1
            });
        }
        &mut self.list[self.last].1
    }
}

/// Makes events of records.
struct Encoder<'r> {
    reader: &'r PerfReader,
    slice: usize,
    packets: Packets,
    event: EventBytes,
    ids: IdCache,
    name: NameSpan,
}

impl Encoder<'_> {
    fn add(&mut self, record: &PerfRecord<'_>, origin: &RecordOrigin) {
        let (file, comms) = (&self.reader.file, &self.reader.comms);
        let encoded = self.packets.of(origin.stream);
        let event = &mut self.event;
        event.clear();
        if let Some((pid, tid)) = origin.id.who {
            event.number("pid", Number::I32, pid as u32 as u64);
            event.number("tid", Number::I32, tid as u32 as u64);
            event.comm(comms.number(tid, origin.id.time.unwrap_or(u64::MAX), &mut self.name));
        }
        let at = record.at as u64;
        let place = |error: Error| if self.reader.is_in_place { error.at_offset(at) } else { error };
        let (form, raw, is_short);
        let key = origin.key(record, RecordForm::Plain);
        match key.content {
            RecordContent::Sample(number) => {
                let attr = &file.events[number as usize].attr;
                // Its class is that of any form, as far as its raw bytes are concerned.
                let has_format = self.reader.classes.find(&key).is_some_and(|class| class.tracepoint.is_some());
                let has_place = !has_format && origin.id.who.is_some();
                let shows = SampleParts {
                    raw: !has_format,
                    cpu: !matches!(origin.stream, StreamKey::Cpu(_)),
                    place_at: has_place.then_some(origin.id.time.unwrap_or(u64::MAX)),
                };
                let mut parts = RecordParts::new(record, 0);
                (raw, form) = sample_fields(event, attr, &mut parts, None, shows);
                is_short = parts.is_short;
            }
            RecordContent::UnknownSample => {
                (raw, form, is_short) = (&[][..], RecordForm::Plain, false);
                event.bytes("record", record.bytes.get(HEADER..).unwrap_or(&[]));
            }
            RecordContent::Other(kind) => {
                (raw, form) = (&[][..], form_of(record));
                let attr = origin.event.or(Some(0)).and_then(|at| file.events.get(at)).map(|event| &event.attr);
                let end_bytes = if kind < kind::FIRST_USER { file.end_bytes(origin.event) } else { 0 };
                let mut parts = RecordParts::new(record, end_bytes);
                record_fields(event, attr, (kind, form), &mut parts);
                is_short = parts.is_short;
            }
        }
        let Some(class) = self.reader.classes.find(&origin.key(record, form)) else {
            encoded.faults.report(|| place(Error::unsupported("an event of one class too many; it is skipped")));
            return;
        };
        if is_short {
            encoded.faults.report(|| {
                let message = format!("a record of {} bytes is too short for its fields", record.bytes.len());
                place(Error::malformed(message))
                    .in_event(&*class.name)
                    .with_help("those that are not there are shown as 0")
            });
        }
        let machine = file.formats.machine;
        let tracepoint = match &class.tracepoint {
            None => None,
            Some(layout) if raw.len() >= layout.min_bytes => Some((layout, raw, machine)),
            Some(layout) => {
                encoded.faults.report(|| {
                    let (len, min, name) = (raw.len(), layout.min_bytes, &class.name);
                    let message = format!("{len} raw bytes, and the format of `{name}` needs {min}");
                    place(Error::malformed(message)).with_help("the event is skipped")
                });
                return;
            }
        };
        let start = encoded.bytes.len();
        let faults = &mut encoded.faults;
        event.finish(&mut encoded.bytes, tracepoint, |field| {
            faults.report(|| {
                let error = Error::malformed(format!("`{field}` is said to be where the record is not"));
                place(error).in_event(&*class.name).with_help("only what is there of it is shown")
            });
        });
        let (Ok(bits), Ok(_)) = (u32::try_from(start * 8), u32::try_from(encoded.bytes.len() * 8)) else {
            encoded.bytes.truncate(start);
            encoded.faults.report(|| place(Error::unsupported("the packet is too large for another event")));
            return;
        };
        let time = origin.id.time.unwrap_or(encoded.last);
        encoded.is_sorted &= time >= encoded.last;
        let count = match lost(record) {
            // Of perf's own counts only what the kernel did not report is a loss.
            Some(_) if is_count(record, origin) => {
                let survey = &self.reader.survey;
                let more = survey.counted_lost.saturating_sub(survey.lost);
                (more > 0 && survey.first_count_at == Some(record.at)).then_some(more)
            }
            count => count,
        };
        if let Some(count) = count {
            let before = Some(encoded.last).filter(|last| *last > 0);
            let before = before.or_else(|| self.reader.last_before(origin.stream, self.slice));
            let (kind, begin) = (GapKind::DiscardedEvents, before.map_or(time, |before| before.min(time)));
            encoded.gaps.push(Gap { kind, count: Some(count), begin_cycles: Some(begin), end_cycles: Some(time) });
        }
        encoded.last = time;
        encoded.spine.push(class.id, time, bits, bits);
    }
}

impl Encoded {
    /// Puts the events in the order of time; those of one time stay in that of the file.
    fn sort(&mut self) {
        if self.is_sorted {
            return;
        }
        let mut order: Vec<u32> = (0..self.spine.len() as u32).collect();
        order.sort_by_key(|&at| self.spine.cycles[at as usize]);
        let mut sorted = Spine::default();
        sorted.reserve(order.len());
        for at in order {
            let at = at as usize;
            sorted.cycles.push(self.spine.cycles[at]);
            sorted.classes.push(self.spine.classes[at]);
            sorted.starts.push(self.spine.starts[at]);
            sorted.bodies.push(self.spine.bodies[at]);
        }
        self.spine = sorted;
    }
}
