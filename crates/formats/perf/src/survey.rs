//! The first pass: which streams and classes a file has, and when; headers and ids of records are all that it reads.
//!
//! A file is cut into slices of whole rounds (`SPEC.md`, section 8). What a stream has in one is a packet. Records that belong
//! after the first one of the next slice are held over to that: so the packets of a stream follow each other in time.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tracemill_codec::bits::{u32_at, u64_at};
use tracemill_format::mapped::{CodeMapping, EXECUTABLE, KERNEL, MappedCode, UNREGISTERED};
use tracemill_model::error::Error;
use tracemill_model::schema::ByteOrder;

use super::attr::{SampleId, part};
use super::classes::{ClassKey, RecordContent, StreamKind};
use super::comms::CommsBuilder;
use super::fields::{RecordForm, form_of};
use super::file::{IdCache, PerfFile, c_text};
use super::records::{HEADER, PerfRecord, Records, kind, misc};

/// A slice ends at the first end of a round after this many bytes.
const SLICE_BYTES: usize = 1 << 20;
/// It ends after this many bytes, whether a round ends there or not.
const MAX_SLICE_BYTES: usize = 16 << 20;
/// CPUs that have streams of their own.
const MAX_CPUS: u32 = 1 << 13;
/// Faults of records that are kept.
const MAX_FAULTS: usize = 100;
/// PerfClasses that a file may have.
const MAX_CLASSES: usize = 1 << 15;

/// Keys of classes that are looked up without the set of all.
const RECENT: usize = 32;

/// A stream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum StreamKey {
    Cpu(u32),
    Timed,
    Untimed,
}

impl StreamKey {
    pub(crate) fn kind(self) -> StreamKind {
        match self {
            StreamKey::Cpu(_) => StreamKind::Cpu,
            StreamKey::Timed => StreamKind::Timed,
            StreamKey::Untimed => StreamKind::Untimed,
        }
    }
}

/// The event, thread, time and stream of a record of the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordOrigin {
    pub(crate) event: Option<usize>,
    pub(crate) id: SampleId,
    pub(crate) stream: StreamKey,
}

impl RecordOrigin {
    /// Finds it.
    #[inline]
    pub(crate) fn from_record(file: &PerfFile, record: &PerfRecord<'_>, ids: &mut IdCache) -> RecordOrigin {
        let event = file.event_of(record, ids);
        let id = file.sample_id(event, record);
        let stream = match (id.time, id.cpu) {
            (None, _) => StreamKey::Untimed,
            (Some(_), Some(cpu)) if cpu < MAX_CPUS => StreamKey::Cpu(cpu),
            (Some(_), _) => StreamKey::Timed,
        };
        RecordOrigin { event, id, stream }
    }

    /// The class of the record, when a form of it is known.
    #[inline]
    pub(crate) fn key(&self, record: &PerfRecord<'_>, form: RecordForm) -> ClassKey {
        let content = match (record.kind, self.event) {
            (kind::SAMPLE, Some(event)) => RecordContent::Sample(event as u32),
            (kind::SAMPLE, None) => RecordContent::UnknownSample,
            (kind, _) => RecordContent::Other(kind),
        };
        ClassKey { stream: self.stream.kind(), content, form, has_who: self.id.who.is_some() }
    }
}

/// The number of records that a record says were lost. Those that a filter kept out are none.
#[inline]
pub(crate) fn lost(record: &PerfRecord<'_>) -> Option<u64> {
    match record.kind {
        kind::LOST => Some(record.u64(HEADER + 8)),
        kind::LOST_SAMPLES if record.misc & misc::LOST_SAMPLES_BPF == 0 => Some(record.u64(HEADER)),
        _ => None,
    }
}

/// Is a loss what perf counted of an event for the whole recording? The kernel reported most of it when it happened.
#[inline]
pub(crate) fn is_count(record: &PerfRecord<'_>, origin: &RecordOrigin) -> bool {
    record.kind == kind::LOST_SAMPLES && origin.id.time.is_none()
}

/// Is a record an event? Others say something about the file, or hold other records.
#[inline]
pub(crate) fn is_event(kind: u32) -> bool {
    const OTHERS: std::ops::RangeInclusive<u32> = kind::FIRST_USER..=kind::SCHEDSTAT_DOMAIN;
    match kind {
        kind::AUXTRACE_ERROR | kind::STAT | kind::STAT_ROUND => true,
        kind => !OTHERS.contains(&kind),
    }
}

/// The records of a stream in a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamPart {
    pub(crate) slice: u32,
    pub(crate) bytes: u64,
    /// The first and the last time.
    pub(crate) times: Option<(u64, u64)>,
    /// Records from this time on belong to the part after it.
    pub(crate) held_from: Option<u64>,
    /// Records of the part before it were held over from this time on.
    pub(crate) before: Option<u64>,
}

/// Results of the first pass.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// Where slices begin; the last one is where they end.
    pub(crate) slices: Vec<usize>,
    pub(crate) streams: BTreeMap<StreamKey, Vec<StreamPart>>,
    pub(crate) keys: BTreeSet<ClassKey>,
    /// Number of records of each type, and bytes of other data that they have.
    pub(crate) counts: BTreeMap<u32, (u64, u64)>,
    /// The type of the record before, and how many follow each other that are not counted yet.
    last_count: Option<(u32, u64)>,
    /// Samples of ids that no event has.
    pub(crate) unknown_ids: u64,
    pub(crate) comms: CommsBuilder,
    pub(crate) maps: MappedCode,
    pub(crate) faults: Vec<Error>,
    more_faults: u64,
    /// The sums of lost records as the kernel reported them, and of those that perf counted at the end of the recording.
    pub(crate) lost: u64,
    pub(crate) counted_lost: u64,
    /// Where the first of perf's counts is.
    pub(crate) first_count_at: Option<usize>,
    ids: IdCache,
    /// Keys that were added, by the numbers of their contents.
    recent: [Option<ClassKey>; RECENT],
    /// It stopped at a record that holds others: the file is to be unpacked first.
    pub(crate) needs_unpacking: bool,
    /// The parts of streams in the slice at hand.
    open: Vec<(StreamKey, StreamPart)>,
    places: HashMap<StreamKey, usize>,
    /// The stream of the record before, which is mostly that of the next.
    last: usize,
}

impl Survey {
    /// Reads the headers of all records from one place to another; events that records describe are added to the file. Records
    /// that hold others end it, unless they `were_unpacked`.
    pub(crate) fn read(file: &mut PerfFile, bytes: &[u8], (from, to): (usize, usize), were_unpacked: bool) -> Survey {
        let mut survey = Survey { slices: vec![from], ..Survey::default() };
        let mut records = Records::new(bytes, file.order, from, to);
        let mut begin = from;
        while let Some(record) = records.next() {
            match record {
                Ok(record) => {
                    if !were_unpacked && matches!(record.kind, kind::COMPRESSED | kind::COMPRESSED2) {
                        survey.needs_unpacking = true;
                        return survey;
                    }
                    survey.record(file, &record);
                }
                Err(error) => survey.fault(error),
            }
            let len = records.at - begin;
            let is_round = bytes
                .get(records.at.saturating_sub(HEADER)..records.at)
                .is_some_and(|last| u32_at(last, 0, file.order) == Some(kind::FINISHED_ROUND));
            if len >= MAX_SLICE_BYTES || is_round && len >= SLICE_BYTES {
                survey.end_slice(records.at);
                begin = records.at;
            }
        }
        if begin < records.at {
            survey.end_slice(records.at);
        }
        if let Some((kind, count)) = survey.last_count.take() {
            survey.counts.entry(kind).or_default().0 += count;
        }
        survey.hold_over();
        if survey.more_faults > 0 {
            let message = format!("{} more records that cannot be read", survey.more_faults);
            survey.faults.push(Error::malformed(message));
        }
        survey
    }

    fn fault(&mut self, error: Error) {
        if self.faults.len() < MAX_FAULTS { self.faults.push(error) } else { self.more_faults += 1 }
    }

    fn record(&mut self, file: &mut PerfFile, record: &PerfRecord<'_>) {
        match &mut self.last_count {
            Some((kind, count)) if *kind == record.kind && record.extra.is_empty() => *count += 1,
            last => {
                if let Some((kind, count)) = last.replace((record.kind, 1)) {
                    self.counts.entry(kind).or_default().0 += count;
                }
                self.counts.entry(record.kind).or_default().1 += record.extra.len() as u64;
            }
        }
        if !is_event(record.kind) {
            file.take_record(record);
            return self.take_thread_map(record);
        }
        let origin = RecordOrigin::from_record(file, record, &mut self.ids);
        let key = origin.key(record, form_of(record));
        let recent = &mut self.recent[key.content.number() % RECENT];
        if *recent != Some(key) {
            *recent = Some(key);
            self.add_key(file, key);
        }
        self.unknown_ids += u64::from(key.content == RecordContent::UnknownSample);
        self.take_names(record, &origin);
        self.take_maps(record, &origin);
        match lost(record) {
            None => {}
            Some(count) if is_count(record, &origin) => {
                self.counted_lost = self.counted_lost.saturating_add(count);
                self.first_count_at.get_or_insert(record.at);
            }
            Some(count) => self.lost = self.lost.saturating_add(count),
        }
        let part = self.part_of(origin.stream);
        part.bytes += record.bytes.len() as u64;
        if let Some(time) = origin.id.time {
            let (low, high) = part.times.get_or_insert((time, time));
            (*low, *high) = ((*low).min(time), (*high).max(time));
        }
    }

    #[inline]
    fn part_of(&mut self, stream: StreamKey) -> &mut StreamPart {
        if self.open.get(self.last).is_none_or(|(last, _)| *last != stream) {
            let slice = self.slices.len() as u32 - 1;
            self.last = *self.places.entry(stream).or_insert_with(|| {
                let part = StreamPart { slice, bytes: 0, times: None, held_from: None, before: None };
                self.open.push((stream, part));
                self.open.len() - 1
            });
        }
        &mut self.open[self.last].1
    }

    fn add_key(&mut self, file: &PerfFile, key: ClassKey) {
        if self.keys.len() >= MAX_CLASSES {
            return;
        }
        if let RecordContent::Sample(event) = key.content
            && file.events[event as usize].attr.has(part::CALLCHAIN)
        {
            self.keys.insert(ClassKey { form: RecordForm::Other, ..key });
        }
        self.keys.insert(key);
    }

    /// Names of threads. Without times they change with the place in the file.
    fn take_names(&mut self, record: &PerfRecord<'_>, origin: &RecordOrigin) {
        let time = || origin.id.time.unwrap_or(0);
        match record.kind {
            kind::COMM => {
                let name = record.bytes.get(HEADER + 8..).unwrap_or(&[]);
                let name = &name[..memchr::memchr(0, name).unwrap_or(name.len())];
                self.comms.name(record.u32(HEADER + 4) as i32, time(), name);
            }
            kind::FORK => {
                let (tid, parent) = (record.u32(HEADER + 8) as i32, record.u32(HEADER + 12) as i32);
                self.comms.fork(tid, time(), parent);
            }
            _ => {}
        }
    }

    /// Code that processes map.
    fn take_maps(&mut self, record: &PerfRecord<'_>, origin: &RecordOrigin) {
        let (pid, time) = (record.u32(HEADER) as i32, origin.id.time.unwrap_or(0));
        let name = |at: usize| {
            let name = record.bytes.get(at..).unwrap_or(&[]);
            &name[..memchr::memchr(0, name).unwrap_or(name.len())]
        };
        let build_id = match record.misc & misc::MMAP_BUILD_ID != 0 && record.kind == kind::MMAP2 {
            true => record.bytes.get(44..64).and_then(|id| id.get(..usize::from(record.bytes[40]))).unwrap_or(&[]),
            false => &[],
        };
        let map = |name_at: usize| CodeMapping {
            begin: record.u64(16),
            len: record.u64(24),
            file_offset: record.u64(32),
            name: name(name_at),
            build_id,
            is_function: false,
        };
        match record.kind {
            kind::MMAP if record.misc & misc::MMAP_DATA == 0 => self.maps.map(pid, time, &map(40)),
            kind::MMAP2 if record.u32(64) & EXECUTABLE != 0 => self.maps.map(pid, time, &map(72)),
            kind::KSYMBOL if record.u32(20) >> 16 & UNREGISTERED == 0 && record.order == ByteOrder::Little => {
                let (begin, len) = (record.u64(8), record.u32(16).into());
                let map = CodeMapping { begin, len, file_offset: 0, name: name(24), build_id: &[], is_function: true };
                self.maps.map(KERNEL, time, &map);
            }
            kind::COMM if record.misc & misc::COMM_EXEC != 0 => self.maps.exec(pid, time),
            kind::FORK => self.maps.fork(pid, time, record.u32(12) as i32),
            _ => {}
        }
    }

    /// Names of the threads that perf was asked to watch.
    fn take_thread_map(&mut self, record: &PerfRecord<'_>) {
        let threads = record.bytes.get(HEADER + 8..).unwrap_or(&[]).chunks_exact(24);
        for thread in threads.filter(|_| record.kind == kind::THREAD_MAP) {
            let (tid, name) = (u64_at(thread, 0, record.order).unwrap_or(0), c_text(&thread[8..]));
            if !name.is_empty() {
                self.comms.name(tid as i32, 0, name.as_bytes());
            }
        }
    }

    fn end_slice(&mut self, end: usize) {
        self.slices.push(end);
        self.places.clear();
        for (stream, part) in self.open.drain(..) {
            self.streams.entry(stream).or_default().push(part);
        }
    }

    /// Finds what is held over from one slice to the next.
    fn hold_over(&mut self) {
        for parts in self.streams.values_mut() {
            for at in 1..parts.len() {
                let (Some((_, last)), Some((first, _))) = (parts[at - 1].times, parts[at].times) else { continue };
                if parts[at].slice == parts[at - 1].slice + 1 && last > first {
                    parts[at - 1].held_from = Some(first);
                    parts[at].before = Some(first);
                }
            }
        }
    }
}
