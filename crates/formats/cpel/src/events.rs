//! Event sections: records of 20 octets, found in the order of time (`SPEC.md`, sections 1 and 1.2, D17, D22, D23).

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use tracemill_codec::bits::u32_at;
use tracemill_codec::chunk::{Bytes, PacketData};
use tracemill_codec::spine::Spine;
use tracemill_codec::trace_plans::TracePlans;
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::Packet;
use tracemill_model::schema::{ByteOrder, EventClassId, StreamClassId};

use super::checks::{ReportedWarnings, TableLimits, ValuePart};
use super::container::RECORD_BYTES;
use super::definitions::{EVENT_BYTES, LogDefinitions, NONE, words};
use super::log_parts::LogParts;
use super::order::{RecordOrder, Timed};
use super::strings::StringTable;
use tracemill_format::{OpenTrace, OpenedPacket, PacketReader, Storage, Stream, TraceFiles};

/// Events of a packet: small enough that its buffers are used again.
pub(super) const PACKET_EVENTS: u64 = 4096;

/// How the classes of a section are numbered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Classes {
    /// Class of the first definition; `None` when all events are of the open class.
    pub(super) first: Option<u32>,
    /// The class of events without a definition.
    pub(super) open: EventClassId,
}

/// The events of a section.
pub(super) struct EventSection {
    pub(super) bytes: Arc<dyn Bytes>,
    /// `section 4 (events)`.
    pub(super) title: String,
    pub(super) order: ByteOrder,
    /// Offset of the first record.
    pub(super) first: u64,
    /// Number of records.
    pub(super) count: u64,
    pub(super) classes: Classes,
    pub(super) definitions: Arc<LogDefinitions>,
    /// Where the strings are that events name by their offsets; `None` when they name none.
    pub(super) limits: Option<TableLimits>,
    /// Do events hold the octets of their texts (`--octets`), and of which table?
    pub(super) octets: Option<Option<StringTable>>,
    /// Are times those of a counter of 32 bits (`--wrap 32`)?
    pub(super) wraps: bool,
    /// Event sections of the file.
    pub(super) sections: usize,
    pub(super) times: OnceLock<SectionTimes>,
    pub(super) told: ReportedWarnings,
}

/// The findings of one look at all times of a section.
pub(super) struct SectionTimes {
    /// The records in the order of time; `None` when they stand so.
    order: Option<RecordOrder>,
    /// Records from which on 2^32 more is added, when times wrap.
    wraps: Vec<u32>,
    /// First step back by more than 2^63: the record, the times before and at it.
    far_back: Option<(u64, u64, u64)>,
    /// First step back: the record, the times before and at it.
    goes_back: Option<(u64, u64, u64)>,
}

impl EventSection {
    fn records(&self) -> &[[u8; RECORD_BYTES as usize]] {
        let end = self.first + self.count * RECORD_BYTES;
        let octets = self.bytes.bytes().get(self.first as usize..end as usize).unwrap_or(&[]);
        octets.as_chunks().0
    }

    fn word(&self, record: &[u8; RECORD_BYTES as usize], at: usize) -> u32 {
        u32_at(record, at, self.order).unwrap_or(0)
    }

    /// The time as it is stored: the high word first, whatever the byte order (`SPEC.md`, D17).
    #[inline]
    fn raw_time(&self, record: &[u8; RECORD_BYTES as usize]) -> u64 {
        u64::from(self.word(record, 0)) << 32 | u64::from(self.word(record, 4))
    }

    fn times(&self) -> &SectionTimes {
        self.times.get_or_init(|| match self.order {
            ByteOrder::Little => self.scan_times::<true>(),
            ByteOrder::Big => self.scan_times::<false>(),
        })
    }

    fn scan_times<const LITTLE: bool>(&self) -> SectionTimes {
        let mut times = SectionTimes { order: None, wraps: Vec::new(), far_back: None, goes_back: None };
        let records = self.records();
        let raw_of = |record: &[u8; RECORD_BYTES as usize]| {
            let octets = *record.first_chunk::<8>().unwrap_or(&[0; 8]);
            if LITTLE { u64::from_le_bytes(octets).rotate_left(32) } else { u64::from_be_bytes(octets) }
        };
        // Nearly all logs: nothing to do.
        let (mut largest, mut goes_back) = (0, false);
        for record in records {
            let raw = raw_of(record);
            goes_back |= raw < largest;
            largest = raw;
        }
        if !goes_back {
            return times;
        }
        let (mut before_raw, mut before, mut base, mut is_sorted) = (0u64, 0u64, 0u64, true);
        for (at, record) in records.iter().enumerate() {
            let raw = raw_of(record);
            if raw < before_raw {
                if self.wraps && before_raw - raw > 1 << 31 {
                    base = base.wrapping_add(1 << 32);
                    times.wraps.push(at as u32);
                }
                if !self.wraps && before_raw - raw > 1 << 63 && times.far_back.is_none() {
                    times.far_back = Some((at as u64, before_raw, raw));
                }
            }
            let time = raw.wrapping_add(base);
            if time < before {
                is_sorted = false;
                times.goes_back.get_or_insert((at as u64, before, time));
            }
            (before_raw, before) = (raw, time);
        }
        if !is_sorted {
            times.order = Some(RecordOrder::from_timed(
                &InFile { section: self, records, times: &times },
                records.len() as u32,
                self.sections,
            ));
        }
        times
    }

    /// The time of the event `at` in the order of time.
    fn time_of(&self, at: u64) -> Option<u64> {
        let (times, records) = (self.times(), self.records());
        let record = match &times.order {
            Some(order) => order.record(&InFile { section: self, records, times }, at)?,
            None => at as u32,
        };
        records.get(record as usize)?;
        Some(times.extended(self, records, record))
    }

    /// Its packets. Times are known when all of them are looked at.
    pub(super) fn packets(&self, class: StreamClassId, look: bool) -> Vec<Packet> {
        let packets = (0..self.count.div_ceil(PACKET_EVENTS)).map(|index| {
            let from = index * PACKET_EVENTS;
            let count = PACKET_EVENTS.min(self.count - from);
            let bits = count * RECORD_BYTES * 8;
            Packet {
                index,
                begin_cycles: if look { self.time_of(from) } else { None },
                end_cycles: if look { self.time_of(from + count - 1) } else { None },
                ..Packet::new(class, self.first + from * RECORD_BYTES, bits)
            }
        });
        packets.collect()
    }

    /// Warnings about its times, for its first packet.
    fn warnings(&self) -> Vec<Error> {
        let times = self.times();
        let far = if times.far_back.is_some() { "a time goes back by more than 2^63" } else { "time goes back" };
        let Some((at, before, now)) = times.far_back.or(times.goes_back) else { return Vec::new() };
        let message = format!("{}: {far}, from {before} to {now}; reported once for the section", self.title);
        let error = Error::inconsistent(message).at_offset(self.first + at * RECORD_BYTES);
        vec![error.with_help("events are sorted by their times as they stand")]
    }

    /// Reads the events of a packet.
    fn read(&self, packet: u64, faults: &mut Vec<Error>, warnings: &mut Vec<Error>) -> (Vec<u8>, Spine) {
        let (times, records) = (self.times(), self.records());
        let from = (packet * PACKET_EVENTS).min(records.len() as u64) as usize;
        let to = (from + PACKET_EVENTS as usize).min(records.len());
        let mut columns = PacketColumns {
            out: Vec::with_capacity((to - from) * EVENT_BYTES),
            cycles: Vec::with_capacity(to - from),
            classes: Vec::with_capacity(to - from),
            bad: [None; 2],
        };
        let places = from as u64..to as u64;
        let order = times.order.as_ref().map(|order| order.records(&InFile { section: self, records, times }, places));
        let picked = order.iter().flatten().filter_map(|&at| records.get(at as usize));
        match (&order, self.order) {
            (None, ByteOrder::Big) => self.read_each::<false>(records[from..to].iter(), &mut columns),
            (None, ByteOrder::Little) => self.read_each::<true>(records[from..to].iter(), &mut columns),
            (Some(_), ByteOrder::Big) => self.read_each::<false>(picked, &mut columns),
            (Some(_), ByteOrder::Little) => self.read_each::<true>(picked, &mut columns),
        }
        // Which record an event was.
        let record_of = |event: usize| match &order {
            None => (from + event) as u32,
            Some(order) => order.get(event).copied().unwrap_or(0),
        };
        if !times.wraps.is_empty() {
            for (event, cycles) in columns.cycles.iter_mut().enumerate() {
                *cycles = cycles.wrapping_add(times.added(record_of(event)));
            }
        }
        if let Some(limits) = &self.limits {
            let mut tell = |event: usize, part: ValuePart, offset: u32, code: u32| {
                if let Some((error, is_fault)) = limits.new_error(&self.told, &self.title, part, offset, code) {
                    let word = [12, 8, 16][part as usize];
                    let error = error.at_offset(self.first + u64::from(record_of(event)) * RECORD_BYTES + word);
                    if is_fault { faults.push(error) } else { warnings.push(error) }
                }
            };
            for (event, code, datum) in columns.bad.iter().flatten() {
                tell(*event, ValuePart::Datum, *datum, *code);
            }
            let events = columns.out.as_chunks::<EVENT_BYTES>().0.iter().filter_map(|event| words(event));
            let events = events.map(|[code, track, _]| (code, track));
            limits.check_names(&self.definitions, events, |event, part, offset| tell(event, part, offset, 0));
        }
        let mut starts: Vec<u32> = (0..columns.cycles.len() as u32).map(|at| at * EVENT_BYTES as u32 * 8).collect();
        if let Some(strings) = &self.octets {
            let events = std::mem::take(&mut columns.out);
            for (event, start) in events.as_chunks::<EVENT_BYTES>().0.iter().zip(&mut starts) {
                *start = columns.out.len() as u32 * 8;
                columns.out.extend_from_slice(event);
                let event = words(event).unwrap_or_default();
                self.definitions.put_octets(event, strings.as_ref(), &mut columns.out);
            }
        }
        let bodies = starts.clone();
        (columns.out, Spine { cycles: columns.cycles, classes: columns.classes, starts, bodies, ..Spine::default() })
    }

    #[inline]
    fn read_each<'a, const LITTLE: bool>(
        &'a self,
        records: impl Iterator<Item = &'a [u8; RECORD_BYTES as usize]>,
        columns: &mut PacketColumns,
    ) {
        let word = |octets: [u8; 4]| if LITTLE { u32::from_le_bytes(octets) } else { u32::from_be_bytes(octets) };
        let limits = self.limits.as_ref();
        let by_offset = limits.map_or(&[][..], |limits| &limits.by_offset.data[..]);
        // All of an empty table are wrong.
        let good = limits.map_or(u64::MAX, |limits| limits.good as u64);
        let table_len = limits.map_or(0, |limits| limits.len as u64);
        let by_code = &self.definitions.by_code;
        let classes = self.classes;
        for (event, record) in records.enumerate() {
            let &[a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t] = record;
            let (track, code, datum) = (word([i, j, k, l]), word([m, n, o, p]), word([q, r, s, t]));
            let cycles = u64::from(word([a, b, c, d])) << 32 | u64::from(word([e, f, g, h]));
            let definition = by_code.get(code);
            let class = match classes.first {
                Some(first) if definition != NONE => first + definition,
                _ => classes.open.0,
            };
            if u64::from(datum) >= good && by_offset.get(definition as usize) == Some(&true) {
                columns.bad[usize::from(u64::from(datum) >= table_len)].get_or_insert((event, code, datum));
            }
            columns.out.extend_from_slice([code, track, datum].map(u32::to_le_bytes).as_flattened());
            columns.cycles.push(cycles);
            columns.classes.push(class);
        }
    }
}

/// The columns of a packet that is read.
struct PacketColumns {
    out: Vec<u8>,
    cycles: Vec<u64>,
    classes: Vec<u32>,
    /// The first datum that names a string without a NUL, and the first one outside of the table: event, code, datum.
    bad: [Option<(usize, u32, u32)>; 2],
}

/// Records and their times.
struct InFile<'a> {
    section: &'a EventSection,
    records: &'a [[u8; RECORD_BYTES as usize]],
    times: &'a SectionTimes,
}

impl Timed for InFile<'_> {
    fn for_each(&self, records: Range<u32>, mut take: impl FnMut(u32, u64)) {
        let wraps = &self.times.wraps;
        let mut wrapped = wraps.partition_point(|&wrap| wrap < records.start);
        for at in records {
            let Some(record) = self.records.get(at as usize) else { return };
            wrapped += usize::from(wraps.get(wrapped) == Some(&at));
            take(at, self.section.raw_time(record).wrapping_add((wrapped as u64) << 32));
        }
    }

    fn time(&self, record: u32) -> u64 {
        self.times.extended(self.section, self.records, record)
    }
}

impl SectionTimes {
    /// The ticks that wraps add to the time of a record.
    fn added(&self, record: u32) -> u64 {
        (self.wraps.partition_point(|&wrap| wrap <= record) as u64) << 32
    }

    fn extended(&self, section: &EventSection, records: &[[u8; RECORD_BYTES as usize]], record: u32) -> u64 {
        let raw = records.get(record as usize).map_or(0, |record| section.raw_time(record));
        if self.wraps.is_empty() { raw } else { raw.wrapping_add(self.added(record)) }
    }
}

/// Opens the packets of all event sections of a file.
pub(super) struct CpelReader {
    /// For each stream class its section.
    pub(super) sections: Vec<EventSection>,
    /// The parts of the file beside events.
    pub(super) log_parts: LogParts,
}

impl PacketReader for CpelReader {
    fn parts(&self) -> Result<Vec<tracemill_model::schema::TracePart>> {
        Ok(self.log_parts.parts())
    }

    fn files(&self, trace: &OpenTrace, _: &dyn Storage) -> Option<TraceFiles> {
        Some(TraceFiles::single(trace))
    }

    fn open_packet(&self, plans: &Arc<TracePlans>, stream: &Stream, index: usize, _clock: u64) -> Result<OpenedPacket> {
        let packet = &stream.packets.at(index);
        let file = &stream.files[packet.file as usize];
        let section = self.sections.get(stream.class.0 as usize);
        let section = section.ok_or_else(|| Error::malformed("the stream has no event section"))?;
        let mut warnings = if index == 0 { section.warnings() } else { Vec::new() };
        let mut faults = Vec::new();
        let (out, spine) = section.read(packet.index, &mut faults, &mut warnings);
        let packet = Packet { content_bits: out.len() as u64 * 8, ..packet.clone() };
        let data = PacketData::found(plans, &file.bytes, packet, (Arc::new(out), 0), spine);
        Ok(OpenedPacket { faults, warnings, ..OpenedPacket::new(data) })
    }
}
