//! The head of a file, and its features: everything beside the records (`SPEC.md`, sections 1 and 2).

use std::collections::HashMap;

use tracemill_codec::bits::{u32_at, u64_at};
use tracemill_ftrace::tracing_data::KernelFormats;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::ByteOrder;

use super::attr::{IdPlaces, PerfAttr, RecordedEvent, SampleId};
use super::records::{HEADER, PerfRecord, kind};

/// The first bytes of a file of a little-endian machine, and of a big-endian one.
const MAGICS: [(&[u8; 8], ByteOrder); 2] = [(b"PERFILE2", ByteOrder::Little), (b"2ELIFREP", ByteOrder::Big)];
/// Bytes of the head of a file that was written to a pipe.
const PIPE_HEAD: u64 = 16;
/// Bytes of the head of any other file.
pub(crate) const FILE_HEAD: usize = 104;
/// Events that a file may have recorded; all tracepoints of a kernel are some thousand.
const MAX_EVENTS: usize = 1 << 14;
/// Ids of all of them: events times CPUs.
const MAX_IDS: usize = 1 << 22;
/// Entries of a list that are kept to be shown.
const MAX_LIST: usize = 1 << 16;

/// Numbers of features.
pub(crate) mod feature {
    pub(crate) const TRACING_DATA: u32 = 1;
    pub(crate) const BUILD_ID: u32 = 2;
    pub(crate) const HOSTNAME: u32 = 3;
    pub(crate) const OSRELEASE: u32 = 4;
    pub(crate) const VERSION: u32 = 5;
    pub(crate) const ARCH: u32 = 6;
    pub(crate) const NRCPUS: u32 = 7;
    pub(crate) const CPUDESC: u32 = 8;
    pub(crate) const CPUID: u32 = 9;
    pub(crate) const TOTAL_MEM: u32 = 10;
    pub(crate) const CMDLINE: u32 = 11;
    pub(crate) const EVENT_DESC: u32 = 12;
    pub(crate) const CPU_TOPOLOGY: u32 = 13;
    pub(crate) const PMU_MAPPINGS: u32 = 16;
    pub(crate) const GROUP_DESC: u32 = 17;
    pub(crate) const SAMPLE_TIME: u32 = 21;
    pub(crate) const CLOCKID: u32 = 23;
    pub(crate) const DIR_FORMAT: u32 = 24;
    pub(crate) const COMPRESSED: u32 = 27;
    pub(crate) const CLOCK_DATA: u32 = 29;
    /// Bits of the map of features.
    pub(crate) const COUNT: u32 = 256;

    /// Names of the features, by number.
    pub(crate) const NAMES: [&str; 33] = [
        "reserved",
        "tracing_data",
        "build_id",
        "hostname",
        "osrelease",
        "version",
        "arch",
        "nrcpus",
        "cpudesc",
        "cpuid",
        "total_mem",
        "cmdline",
        "event_desc",
        "cpu_topology",
        "numa_topology",
        "branch_stack",
        "pmu_mappings",
        "group_desc",
        "auxtrace",
        "stat",
        "cache",
        "sample_time",
        "mem_topology",
        "clockid",
        "dir_format",
        "bpf_prog_info",
        "bpf_btf",
        "compressed",
        "cpu_pmu_caps",
        "clock_data",
        "hybrid_topology",
        "pmu_caps",
        "e_machine",
    ];
}

/// A file that was mapped, and its build id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct BuildId {
    pub(crate) pid: i32,
    pub(crate) id: Vec<u8>,
    pub(crate) file: String,
}

/// Two clocks at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ClockData {
    pub(crate) clock_id: i32,
    pub(crate) wall_ns: u64,
    pub(crate) clock_ns: u64,
}

/// A file, without its records.
#[derive(Debug, Default)]
pub(crate) struct PerfFile {
    pub(crate) order: ByteOrder,
    /// Was it written to a pipe, so that everything is a record?
    pub(crate) is_pipe: bool,
    /// Where its records are.
    pub(crate) data: (usize, usize),
    pub(crate) events: Vec<RecordedEvent>,
    pub(crate) places: Vec<IdPlaces>,
    by_id: HashMap<u64, u32>,
    /// Do samples of some of them have times?
    has_times: bool,
    /// Texts for the environment, in the order of the file.
    pub(crate) texts: Vec<(&'static str, String)>,
    /// Numbers for the environment.
    pub(crate) numbers: Vec<(&'static str, u64)>,
    pub(crate) build_ids: Vec<BuildId>,
    /// Are the records of threads in files next to it?
    pub(crate) is_of_folder: bool,
    pub(crate) groups: Vec<(String, u32, u32)>,
    pub(crate) pmus: Vec<(u32, String)>,
    pub(crate) clock: Option<ClockData>,
    pub(crate) is_compressed: bool,
    pub(crate) formats: KernelFormats,
    /// Places of the formats by the numbers of their events.
    format_of: HashMap<u16, usize>,
    /// Features that are there, with their bytes.
    pub(crate) features: Vec<(String, u64)>,
    pub(crate) faults: Vec<Error>,
    pub(crate) warnings: Vec<Error>,
}

/// Events of some ids: a file has few ids, and numbers them one after the other.
#[derive(Debug)]
pub(crate) struct IdCache {
    entries: [Option<(u64, u32)>; IdCache::ENTRIES],
}

impl IdCache {
    const ENTRIES: usize = 64;
}

impl Default for IdCache {
    fn default() -> Self {
        IdCache { entries: [None; IdCache::ENTRIES] }
    }
}

/// Is this the beginning of a file of perf?
pub(crate) fn order_of(start: &[u8]) -> Option<ByteOrder> {
    let is_own = |(magic, _): &&(&[u8; 8], ByteOrder)| start.starts_with(*magic);
    let order = MAGICS.iter().find(is_own)?.1;
    let size = u64_at(start, 8, order)?;
    (size == PIPE_HEAD || (FILE_HEAD as u64..1 << 16).contains(&size)).then_some(order)
}

/// Reads numbers and texts of a feature, one after the other.
struct FeatureReader<'b> {
    bytes: &'b [u8],
    at: usize,
    order: ByteOrder,
}

impl<'b> FeatureReader<'b> {
    fn u32(&mut self) -> Option<u32> {
        let value = u32_at(self.bytes, self.at, self.order);
        self.at += 4;
        value
    }

    fn u64(&mut self) -> Option<u64> {
        let value = u64_at(self.bytes, self.at, self.order);
        self.at += 8;
        value
    }

    fn take(&mut self, len: usize) -> Option<&'b [u8]> {
        let bytes = self.bytes.get(self.at..)?.get(..len)?;
        self.at += len;
        Some(bytes)
    }

    /// A text, after the bytes that it takes.
    fn text(&mut self) -> Option<String> {
        let len = self.u32()? as usize;
        self.take(len).map(c_text)
    }
}

/// The text up to the first zero.
pub(crate) fn c_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..memchr::memchr(0, bytes).unwrap_or(bytes.len())]).into_owned()
}

impl PerfFile {
    /// Reads the head of a file and its features.
    ///
    /// # Errors
    /// When it is none, or not even its head can be read.
    pub(crate) fn read(bytes: &[u8]) -> Result<PerfFile> {
        let Some(order) = order_of(bytes) else {
            return Err(Error::malformed("the file does not begin as a perf.data").at_offset(0));
        };
        let mut file = PerfFile { order, ..PerfFile::default() };
        if u64_at(bytes, 8, order) == Some(PIPE_HEAD) {
            file.is_pipe = true;
            file.data = (PIPE_HEAD as usize, bytes.len());
            return Ok(file);
        }
        let number = |at: usize| u64_at(bytes, at, order).unwrap_or(0);
        if bytes.len() < FILE_HEAD {
            let message = format!("{} of the {FILE_HEAD} bytes of the head are there", bytes.len());
            return Err(Error::truncated(message).at_offset(bytes.len() as u64));
        }
        let attr_bytes = number(16);
        let section = |at: usize| (number(at), number(at + 8));
        file.read_attrs(bytes, section(24), attr_bytes);
        let (from, len) = section(40);
        let start = usize::try_from(from).unwrap_or(usize::MAX).min(bytes.len());
        let left = bytes.len() - start;
        let end = match usize::try_from(len) {
            Ok(0) if left > 0 => {
                let error = Error::truncated("the head says that there are no records: the recording was not finished");
                file.faults
                    .push(error.at_offset(48).with_help("everything up to the end of the file is read as records"));
                bytes.len()
            }
            Ok(len) if len <= left => start + len,
            _ => {
                let message = format!("{left} of the {len} bytes of records are there");
                file.faults.push(Error::truncated(message).at_offset(bytes.len() as u64));
                bytes.len()
            }
        };
        file.data = (start, end);
        if len > 0 {
            file.read_features(bytes, end);
        }
        Ok(file)
    }

    fn read_attrs(&mut self, bytes: &[u8], (from, len): (u64, u64), attr_bytes: u64) {
        let fault = |message: String| Error::malformed(message).at_offset(from);
        // The last 16 bytes are where its ids are.
        let Some(own) = usize::try_from(attr_bytes).ok().filter(|&all| (64 + 16..1 << 16).contains(&all)) else {
            return self.faults.push(fault(format!("an event takes {attr_bytes} bytes in the head, which cannot be")));
        };
        let start = usize::try_from(from).unwrap_or(usize::MAX);
        let Some(section) =
            start.checked_add(usize::try_from(len).unwrap_or(usize::MAX)).and_then(|end| bytes.get(start..end))
        else {
            return self.faults.push(fault(format!("the {len} bytes of events are not all in the file")));
        };
        for entry in section.chunks_exact(own) {
            let Some(attr) = PerfAttr::parse(&entry[..own - 16], self.order) else { continue };
            let place = |at: usize| u64_at(entry, own - 16 + at, self.order).unwrap_or(0);
            let (from, len) = (place(0), place(8));
            let ids = usize::try_from(from).ok().and_then(|from| bytes.get(from..)?.get(..usize::try_from(len).ok()?));
            if ids.is_none() && len > 0 {
                self.faults.push(fault(format!("the {len} bytes of ids of an event are not all in the file")));
            }
            let ids = ids.unwrap_or(&[]).chunks_exact(8).filter_map(|id| u64_at(id, 0, self.order)).collect();
            self.add_event(RecordedEvent { attr, ids, name: None });
        }
    }

    /// Adds an event that was recorded.
    pub(crate) fn add_event(&mut self, event: RecordedEvent) {
        if self.events.len() >= MAX_EVENTS || self.by_id.len() + event.ids.len() > MAX_IDS {
            let message = format!("more than {MAX_EVENTS} events, or more than {MAX_IDS} ids of them");
            if self.faults.iter().all(|fault| fault.message() != message) {
                self.faults.push(Error::unsupported(message).with_help("samples of the others are shown as bytes"));
            }
            return;
        }
        let number = self.events.len() as u32;
        event.ids.iter().for_each(|&id| {
            self.by_id.entry(id).or_insert(number);
        });
        self.has_times |= event.attr.has(super::attr::part::TIME);
        self.places.push(event.attr.places());
        self.events.push(event);
    }

    fn read_features(&mut self, bytes: &[u8], end: usize) {
        let word = |at: usize| u64_at(bytes, 72 + at * 8, self.order).unwrap_or(0);
        let mut words = [0, 1, 2, 3].map(word);
        // A map of words of 32 bits of a big-endian machine. There is a host name in every file.
        if words[0] >> feature::HOSTNAME & 1 == 0 && words[0].rotate_left(32) >> feature::HOSTNAME & 1 == 1 {
            words = words.map(|word| word.rotate_left(32));
        }
        let is_set = |number: &u32| words[(number / 64) as usize] >> (number % 64) & 1 == 1;
        let numbers: Vec<u32> = (0..feature::COUNT).filter(is_set).collect();
        for (at, number) in numbers.into_iter().enumerate() {
            let entry = end + at * 16;
            let place = u64_at(bytes, entry, self.order).zip(u64_at(bytes, entry + 8, self.order));
            let Some((from, len)) = place else {
                let message = format!("the file ends before it says where the feature `{}` is", feature_name(number));
                self.faults.push(Error::truncated(message).at_offset(bytes.len() as u64));
                break;
            };
            let start = usize::try_from(from).unwrap_or(usize::MAX);
            let content =
                bytes.get(start..).map(|rest| &rest[..rest.len().min(usize::try_from(len).unwrap_or(usize::MAX))]);
            let content = content.unwrap_or(&[]);
            if (content.len() as u64) < len {
                let message =
                    format!("{} of the {len} bytes of the feature `{}` are there", content.len(), feature_name(number));
                self.faults.push(Error::truncated(message).at_offset(from));
            }
            self.take_feature(number, content, from);
        }
    }

    /// Takes the content of a feature, which lies at `offset`.
    pub(crate) fn take_feature(&mut self, number: u32, content: &[u8], offset: u64) {
        // A pipe may repeat them, which says nothing.
        if self.features.len() >= feature::COUNT as usize {
            return;
        }
        self.features.push((feature_name(number), content.len() as u64));
        if number == feature::TRACING_DATA {
            return self.take_formats(content, offset);
        }
        let mut reader = FeatureReader { bytes: content, at: 0, order: self.order };
        if self.read_feature(number, &mut reader).is_none() && !content.is_empty() {
            let message = format!("the feature `{}` ends before it should", feature_name(number));
            self.warnings.push(Error::malformed(message).at_offset(offset));
        }
    }

    /// Takes format files.
    pub(crate) fn take_formats(&mut self, content: &[u8], offset: u64) {
        match KernelFormats::read(content, offset) {
            Ok(mut formats) => {
                self.faults.append(&mut formats.faults);
                self.format_of = formats.formats.iter().enumerate().map(|(at, (_, format))| (format.id, at)).collect();
                self.formats = formats;
            }
            Err(error) => self.faults.push(error.with_help("tracepoints are shown as bytes")),
        }
    }

    fn read_feature(&mut self, number: u32, reader: &mut FeatureReader<'_>) -> Option<()> {
        let name = match number {
            feature::HOSTNAME => "hostname",
            feature::OSRELEASE => "release",
            feature::VERSION => "version",
            feature::ARCH => "arch",
            feature::CPUDESC => "cpudesc",
            feature::CPUID => "cpuid",
            _ => "",
        };
        match number {
            feature::BUILD_ID => self.read_build_ids(reader),
            _ if !name.is_empty() => self.texts.push((name, reader.text()?)),
            feature::NRCPUS => {
                self.numbers.push(("nrcpus_available", reader.u32()?.into()));
                self.numbers.push(("nrcpus_online", reader.u32()?.into()));
            }
            feature::TOTAL_MEM => self.numbers.push(("total_mem_kb", reader.u64()?)),
            feature::CMDLINE => {
                let count = reader.u32()?;
                let mut words: Vec<String> = Vec::new();
                for _ in 0..count {
                    words.push(reader.text()?);
                }
                self.texts.push(("cmdline", words.join(" ")));
            }
            feature::EVENT_DESC => {
                let (count, attr_bytes) = (reader.u32()?, reader.u32()? as usize);
                for at in 0..count as usize {
                    reader.take(attr_bytes)?;
                    let ids = reader.u32()? as usize;
                    let name = reader.text()?;
                    reader.take(ids.checked_mul(8)?)?;
                    if let Some(event) = self.events.get_mut(at) {
                        event.name = Some(name);
                    }
                }
            }
            feature::PMU_MAPPINGS => {
                for _ in 0..reader.u32()? {
                    let pmu = (reader.u32()?, reader.text()?);
                    if self.pmus.len() < MAX_LIST {
                        self.pmus.push(pmu);
                    }
                }
            }
            feature::GROUP_DESC => {
                for _ in 0..reader.u32()? {
                    let group = (reader.text()?, reader.u32()?, reader.u32()?);
                    if self.groups.len() < MAX_LIST {
                        self.groups.push(group);
                    }
                }
            }
            feature::CPU_TOPOLOGY => {
                for name in ["sibling_cores", "sibling_threads"] {
                    let mut lists = Vec::new();
                    for _ in 0..reader.u32()? {
                        lists.push(reader.text()?);
                    }
                    self.texts.push((name, lists.join(" ")));
                }
            }
            feature::SAMPLE_TIME => {
                self.numbers.push(("first_sample_ns", reader.u64()?));
                self.numbers.push(("last_sample_ns", reader.u64()?));
            }
            feature::CLOCKID => self.numbers.push(("clock_resolution_ns", reader.u64()?)),
            feature::CLOCK_DATA => {
                reader.u32()?;
                let clock_id = reader.u32()? as i32;
                self.clock = Some(ClockData { clock_id, wall_ns: reader.u64()?, clock_ns: reader.u64()? });
            }
            feature::DIR_FORMAT => {
                self.is_of_folder = true;
            }
            feature::COMPRESSED => self.is_compressed = true,
            _ => {}
        }
        Some(())
    }

    fn read_build_ids(&mut self, reader: &mut FeatureReader<'_>) {
        let mut records = super::records::Records::new(reader.bytes, self.order, 0, reader.bytes.len());
        while let Some(record) = records.next() {
            match record {
                Ok(record) => self.take_build_id(&record),
                Err(error) => self.warnings.push(Error::new(error.kind(), format!("build ids: {}", error.message()))),
            }
        }
    }

    /// Takes a record with the build id of a file.
    pub(crate) fn take_build_id(&mut self, record: &PerfRecord<'_>) {
        /// The byte after the id is its size.
        const HAS_SIZE: u16 = 1 << 15;
        let Some((id, file)) = record.bytes.get(12..36).zip(record.bytes.get(36..)) else { return };
        let len = if record.misc & HAS_SIZE != 0 { usize::from(id[20]).min(20) } else { 20 };
        if self.build_ids.len() < MAX_LIST {
            let pid = record.u32(8) as i32;
            self.build_ids.push(BuildId { pid, id: id[..len].to_vec(), file: c_text(file) });
        }
    }

    /// Takes a record that says what other files have in their head. False when it is none.
    pub(crate) fn take_record(&mut self, record: &PerfRecord<'_>) -> bool {
        let offset = record.at as u64;
        match record.kind {
            kind::HEADER_ATTR => {
                let size = record.u32(HEADER + 4) as usize;
                let size = if size == 0 { 64 } else { size };
                let own = record.bytes.get(HEADER..).and_then(|rest| rest.get(..size));
                if let Some(attr) = own.and_then(|own| PerfAttr::parse(own, self.order)) {
                    let ids = record.bytes[HEADER + size..].chunks_exact(8);
                    let ids = ids.filter_map(|id| u64_at(id, 0, self.order)).collect();
                    self.add_event(RecordedEvent { attr, ids, name: None });
                } else {
                    self.faults.push(Error::malformed("the record of an event is too short for it").at_offset(offset));
                }
            }
            kind::HEADER_TRACING_DATA => {
                self.take_formats(record.extra, offset + record.bytes.len() as u64);
            }
            kind::HEADER_BUILD_ID => self.take_build_id(record),
            kind::HEADER_FEATURE => {
                let number = u32::try_from(record.u64(HEADER)).unwrap_or(u32::MAX);
                let content = record.bytes.get(HEADER + 8..).unwrap_or(&[]);
                self.take_feature(number, content, offset + HEADER as u64 + 8);
            }
            kind::EVENT_UPDATE => {
                const NAME: u64 = 2;
                let of = self.by_id.get(&record.u64(16)).map(|&at| at as usize);
                if let (NAME, Some(event)) = (record.u64(8), of.and_then(|at| self.events.get_mut(at))) {
                    event.name = Some(c_text(record.bytes.get(24..).unwrap_or(&[])));
                }
            }
            _ => return false,
        }
        true
    }

    /// The event that a record of the kernel is of; `None` for an id that no event has.
    #[inline]
    pub(crate) fn event_of(&self, record: &PerfRecord<'_>, known: &mut IdCache) -> Option<usize> {
        if self.events.len() < 2 {
            return self.events.first().map(|_| 0);
        }
        // Ids stand at the same place in the records of all events, or could not be told.
        match self.places[0].id(record) {
            None => Some(0),
            Some(0) if record.kind != kind::SAMPLE => Some(0),
            Some(id) => {
                let entry = &mut known.entries[id as usize % IdCache::ENTRIES];
                if entry.is_none_or(|(of, _)| of != id) {
                    *entry = Some((id, *self.by_id.get(&id)?));
                }
                entry.map(|(_, at)| at as usize)
            }
        }
    }

    /// Thread, time and CPU of a record of the kernel.
    #[inline]
    pub(crate) fn sample_id(&self, event: Option<usize>, record: &PerfRecord<'_>) -> SampleId {
        // Records of perf itself end with fields of theirs.
        if record.kind >= kind::FIRST_USER {
            return SampleId::default();
        }
        let places = event.or(Some(0)).and_then(|event| self.places.get(event));
        let mut id = places.map_or(SampleId::default(), |places| places.sample_id(record));
        // A record that perf made itself says 0, or nothing.
        let is_time = |time: &u64| *time != 0 && *time != u64::MAX;
        if id.time.is_none_or(|time| !is_time(&time)) {
            id = SampleId { cpu: id.cpu.filter(|_| record.kind == kind::SAMPLE), time: None, ..id };
            if record.kind != kind::SAMPLE {
                id.who = None;
            }
        }
        let own = match record.kind {
            kind::FORK | kind::EXIT => Some(24),
            kind::THROTTLE | kind::UNTHROTTLE => Some(8),
            _ => None,
        };
        let own_time = own.map(|at| record.u64(at)).filter(is_time).filter(|_| self.has_times);
        SampleId { time: id.time.or(own_time), ..id }
    }

    /// The bytes that end a record which is not a sample and say who, when and where.
    pub(crate) fn end_bytes(&self, event: Option<usize>) -> usize {
        event.or(Some(0)).and_then(|event| self.places.get(event)).map_or(0, |places| places.end_bytes)
    }

    /// The name of an event: the tracepoint's own, what the file says, or what its attributes mean.
    pub(crate) fn event_name(&self, at: usize) -> String {
        let event = &self.events[at];
        let tracepoint = event.attr.tracepoint().and_then(|id| self.format(id));
        match (tracepoint, &event.name) {
            (Some((_, format)), _) => format.name.clone(),
            (None, Some(name)) if event.attr.tracepoint().is_some() => {
                name.split_once(':').map_or(name.as_str(), |(_, name)| name).to_string()
            }
            (None, Some(name)) => name.clone(),
            (None, None) => event.attr.name(),
        }
    }

    /// The format of a tracepoint, with its system.
    pub(crate) fn format(&self, id: u16) -> Option<&(String, tracemill_ftrace::event_format::EventFormat)> {
        self.format_of.get(&id).and_then(|&at| self.formats.formats.get(at))
    }
}

/// The name of a feature.
fn feature_name(number: u32) -> String {
    feature::NAMES.get(number as usize).map_or_else(|| format!("feature {number}"), |name| name.to_string())
}
