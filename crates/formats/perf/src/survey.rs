//! The first pass: which streams and classes a file has, and when; headers and ids of records are all that it reads.
//!
//! A file is cut into slices of whole rounds (`SPEC.md`, section 8). What a stream has in one is a packet. Records that belong
//! after the first one of the next slice are held over to that: so the packets of a stream follow each other in time.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tracemill_codec::bits::{u32_at, u64_at};
use tracemill_model::error::Error;

use super::attr::{SampleId, part};
use super::classes::{ClassKey, RecordContent, StreamKind};
use super::comms::CommsBuilder;
use super::fields::{RecordForm, form_of};
use super::file::{PerfFile, c_text};
use super::records::{HEADER, PerfRecord, Records, kind};

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
    pub(crate) fn from_record(file: &PerfFile, record: &PerfRecord<'_>) -> RecordOrigin {
        let event = file.event_of(record);
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
            (kind, _) => RecordContent::PerfRecord(kind),
        };
        ClassKey { stream: self.stream.kind(), content, form, has_who: self.id.who.is_some() }
    }
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
    /// Samples of ids that no event has.
    pub(crate) unknown_ids: u64,
    pub(crate) comms: CommsBuilder,
    pub(crate) faults: Vec<Error>,
    more_faults: u64,
    /// It stopped at a record that holds others: the file is to be unpacked first.
    pub(crate) needs_unpacking: bool,
    /// Numbers of the records of a stream in the slice at hand.
    open: HashMap<StreamKey, StreamPart>,
}

impl Survey {
    /// Reads the headers of all records from one place to another; events that records describe are added to the file. Records
    /// that hold others end it, unless they `were_unpacked`.
    pub(crate) fn read(file: &mut PerfFile, bytes: &[u8], (from, to): (usize, usize), were_unpacked: bool) -> Survey {
        let mut survey = Survey { slices: vec![from], ..Survey::default() };
        let mut records = Records::new(bytes, file.order, from, to);
        let mut begin = from;
        // One thread writes many records, so the key of the last one is mostly that of the next.
        let mut last_key = None;
        while let Some(record) = records.next() {
            match record {
                Ok(record) => {
                    if !were_unpacked && matches!(record.kind, kind::COMPRESSED | kind::COMPRESSED2) {
                        survey.needs_unpacking = true;
                        return survey;
                    }
                    survey.record(file, &record, &mut last_key);
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

    fn record(&mut self, file: &mut PerfFile, record: &PerfRecord<'_>, last_key: &mut Option<ClassKey>) {
        let count = self.counts.entry(record.kind).or_default();
        count.0 += 1;
        count.1 += record.extra.len() as u64;
        if !is_event(record.kind) {
            file.take_record(record);
            return self.take_thread_map(record);
        }
        let origin = RecordOrigin::from_record(file, record);
        let key = origin.key(record, form_of(record));
        if *last_key != Some(key) {
            self.add_key(file, key);
            *last_key = Some(key);
        }
        self.unknown_ids += u64::from(key.content == RecordContent::UnknownSample);
        self.take_names(record, &origin);
        let part = self.open.entry(origin.stream).or_insert(StreamPart {
            slice: self.slices.len() as u32 - 1,
            bytes: 0,
            times: None,
            held_from: None,
            before: None,
        });
        part.bytes += record.bytes.len() as u64;
        if let Some(time) = origin.id.time {
            let (low, high) = part.times.get_or_insert((time, time));
            (*low, *high) = ((*low).min(time), (*high).max(time));
        }
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
        for (stream, part) in self.open.drain() {
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
