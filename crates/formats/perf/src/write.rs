//! `perf.data` for whoever records: attributes of events, the head, records that no kernel writes, features
//! (`SPEC.md`, sections 1 to 4). Little-endian, as the machines are on which we record.

use std::collections::BTreeMap;

use super::attr::{event_type, flag, part, read};
use super::file::{FILE_HEAD, feature};
use super::records::{HEADER, kind, misc};

/// Bytes of `perf_event_attr` that are written; Linux 4.8 and later know all of them.
const ATTR_BYTES: usize = 112;
/// Texts of features are padded to this many bytes.
const TEXT_ALIGN: usize = 64;
/// Bytes of a build id.
const BUILD_ID: usize = 20;

/// Sources of samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SampleSource {
    /// Cycles of the processor.
    Cycles,
    /// The clock of the CPU, for machines without counters of cycles.
    CpuClock,
    /// Switches from one thread to another.
    ContextSwitches,
}

impl SampleSource {
    /// Its name, as perf has it.
    pub fn name(self) -> &'static str {
        match self {
            SampleSource::Cycles => "cycles",
            SampleSource::CpuClock => "cpu-clock",
            SampleSource::ContextSwitches => "context-switches",
        }
    }

    fn number(self) -> (u32, u64) {
        match self {
            SampleSource::Cycles => (event_type::HARDWARE, 0),
            SampleSource::CpuClock => (event_type::SOFTWARE, 0),
            SampleSource::ContextSwitches => (event_type::SOFTWARE, 3),
        }
    }
}

/// Rate of samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SampleRate {
    /// Samples in each second of a CPU.
    Hz(u64),
    /// One for so many events.
    Every(u64),
}

/// Stacks of the program in samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UserStack {
    /// Addresses that the kernel finds by frame pointers.
    FramePointers,
    /// The registers of a mask, and so many bytes of the stack.
    Copied(u64, u32),
}

/// An event whose samples are recorded: the choices that make its `perf_event_attr`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SampledEvent {
    /// Source of the samples.
    pub source: SampleSource,
    /// Rate of the samples.
    pub rate: SampleRate,
    /// Stacks of the program.
    pub user_stack: UserStack,
    /// Are samples in the kernel left out?
    pub excludes_kernel: bool,
    /// Does it also record maps, names, forks, ends and switches of threads?
    pub is_tracker: bool,
    /// Do maps have build ids in the place of inodes? Since Linux 5.12.
    pub has_build_ids: bool,
    /// Are losses counted for each event? Since Linux 6.0.
    pub counts_losses: bool,
    /// Is it the same for threads and processes that are made later?
    pub is_inherited: bool,
    /// Does it begin when a program is executed? Otherwise when it is enabled.
    pub begins_at_exec: bool,
    /// The clock of the times, by the number of `clock_gettime`.
    pub clock_id: i32,
}

/// The parts of each sample: with these, `IDENTIFIER` is the first, and the time is the fourth.
const SAMPLE_PARTS: u64 =
    part::IDENTIFIER | part::IP | part::TID | part::TIME | part::CPU | part::PERIOD | part::CALLCHAIN;
/// Where the time of a sample of [`SampledEvent`] is.
pub const SAMPLE_TIME_AT: usize = HEADER + 24;
/// Bytes after records other than samples: thread, time, CPU, id.
const SAMPLE_ID_BYTES: usize = 32;

impl SampledEvent {
    /// The name that perf gives it.
    pub fn name(&self) -> String {
        format!("{}{}", self.source.name(), if self.excludes_kernel { ":u" } else { "" })
    }

    /// Its `perf_event_attr`.
    pub fn attr(&self) -> Vec<u8> {
        let (kind, config) = self.source.number();
        let (rate, is_frequency) = match self.rate {
            SampleRate::Hz(hz) => (hz, true),
            SampleRate::Every(count) => (count, false),
        };
        let (parts, registers, stack) = match self.user_stack {
            UserStack::FramePointers => (0, 0, 0),
            UserStack::Copied(registers, bytes) => (part::REGS_USER | part::STACK_USER, registers, bytes),
        };
        let mut flags = 0;
        let mut set = |number: u32, is_set: bool| flags |= u64::from(is_set) << number;
        set(flag::DISABLED, true);
        set(flag::INHERIT, self.is_inherited);
        set(flag::EXCLUDE_KERNEL, self.excludes_kernel);
        // Perf's modifier `u` stands for both.
        set(flag::EXCLUDE_HV, self.excludes_kernel);
        set(flag::EXCLUDE_GUEST, self.source == SampleSource::Cycles);
        set(flag::FREQ, is_frequency);
        set(flag::ENABLE_ON_EXEC, self.begins_at_exec);
        set(flag::SAMPLE_ID_ALL, true);
        // The kernel's own unwinding of a program would be a second, worse chain.
        set(flag::EXCLUDE_CALLCHAIN_USER, stack > 0);
        set(flag::USE_CLOCKID, true);
        let of_trackers = [flag::MMAP, flag::COMM, flag::TASK, flag::MMAP2, flag::COMM_EXEC, flag::CONTEXT_SWITCH];
        of_trackers.into_iter().for_each(|number| set(number, self.is_tracker));
        // Unwinding tables are not in the maps of code.
        set(flag::MMAP_DATA, self.is_tracker && stack > 0);
        set(flag::BUILD_ID, self.is_tracker && self.has_build_ids);
        let mut out = Words::default();
        out.u32(kind).u32(ATTR_BYTES as u32).u64(config).u64(rate).u64(SAMPLE_PARTS | parts);
        out.u64(read::ID | if self.counts_losses { read::LOST } else { 0 }).u64(flags);
        // Wake-ups are those of the ring; no breakpoint, no configuration, no branches.
        out.u32(0).u32(0).u64(0).u64(0).u64(0);
        out.u64(registers).u32(stack).u32(self.clock_id as u32).u64(0).u64(0);
        debug_assert_eq!(out.0.len(), ATTR_BYTES);
        out.0
    }
}

/// An event with the ids of its instances, one for each CPU and thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrittenEvent {
    /// The event.
    pub event: SampledEvent,
    /// Its ids.
    pub ids: Vec<u64>,
}

/// Numbers and texts, one after the other.
#[derive(Default)]
struct Words(Vec<u8>);

impl Words {
    fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// A text of a feature, after its length.
    fn text(&mut self, text: &str) -> &mut Self {
        let len = (text.len() + 1).next_multiple_of(TEXT_ALIGN);
        self.u32(len as u32);
        self.padded(text.as_bytes(), len)
    }

    fn padded(&mut self, bytes: &[u8], len: usize) -> &mut Self {
        let end = self.0.len() + len;
        self.bytes(bytes);
        self.0.resize(end, 0);
        self
    }
}

/// The head of a file with so many bytes of records, and these features after them.
pub fn head(events: &[WrittenEvent], record_bytes: u64, features: &FeatureBuilder) -> Vec<u8> {
    let ids: usize = events.iter().map(|event| event.ids.len() * 8).sum();
    let attrs_at = (FILE_HEAD + ids) as u64;
    let attrs_bytes = (events.len() * (ATTR_BYTES + 16)) as u64;
    let mut bits = [0_u64; 4];
    features.list.keys().for_each(|number| bits[(number / 64) as usize] |= 1 << (number % 64));
    let mut out = Words::default();
    out.bytes(b"PERFILE2").u64(FILE_HEAD as u64).u64(ATTR_BYTES as u64 + 16);
    out.u64(attrs_at).u64(attrs_bytes).u64(attrs_at + attrs_bytes).u64(record_bytes).u64(0).u64(0);
    bits.into_iter().for_each(|word| {
        out.u64(word);
    });
    debug_assert_eq!(out.0.len(), FILE_HEAD);
    out.0
}

/// The file up to its first record, with a head that states no records.
pub fn beginning(events: &[WrittenEvent]) -> Vec<u8> {
    let mut out = Words(head(events, 0, &FeatureBuilder::default()));
    events.iter().flat_map(|event| &event.ids).for_each(|id| {
        out.u64(*id);
    });
    let mut place = FILE_HEAD as u64;
    for event in events {
        let bytes = event.ids.len() as u64 * 8;
        out.bytes(&event.event.attr()).u64(place).u64(bytes);
        place += bytes;
    }
    out.0
}

/// Collects the features of a file, in any order.
#[derive(Clone, Debug, Default)]
pub struct FeatureBuilder {
    list: BTreeMap<u32, Vec<u8>>,
}

/// Texts that a file states about the machine and the recorder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MachineText {
    /// Name of the host.
    Hostname,
    /// Release of the kernel.
    Release,
    /// Version of the recorder.
    Version,
    /// Architecture.
    Arch,
    /// Name of the processor.
    CpuDescription,
    /// Vendor, family, model and stepping of the processor.
    CpuId,
}

/// A file of code and its build id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrittenBuildId {
    /// Is it the kernel, or a module of it?
    pub is_kernel: bool,
    /// Its path, as maps have it.
    pub path: String,
    /// The id, at most 20 bytes of it.
    pub id: Vec<u8>,
}

impl FeatureBuilder {
    fn add(&mut self, number: u32, content: &mut Words) {
        self.list.insert(number, std::mem::take(&mut content.0));
    }

    /// A text about the machine.
    pub fn text(&mut self, which: MachineText, text: &str) {
        let number = match which {
            MachineText::Hostname => feature::HOSTNAME,
            MachineText::Release => feature::OSRELEASE,
            MachineText::Version => feature::VERSION,
            MachineText::Arch => feature::ARCH,
            MachineText::CpuDescription => feature::CPUDESC,
            MachineText::CpuId => feature::CPUID,
        };
        self.add(number, Words::default().text(text));
    }

    /// CPUs that there are, and those that are online.
    pub fn cpus(&mut self, available: u32, online: u32) {
        self.add(feature::NRCPUS, Words::default().u32(available).u32(online));
    }

    /// Memory of the machine.
    pub fn memory(&mut self, kib: u64) {
        self.add(feature::TOTAL_MEM, Words::default().u64(kib));
    }

    /// The command that recorded.
    pub fn command<'w>(&mut self, words: impl ExactSizeIterator<Item = &'w str>) {
        let mut content = Words::default();
        content.u32(words.len() as u32);
        words.for_each(|word| {
            content.text(word);
        });
        self.add(feature::CMDLINE, &mut content);
    }

    /// The events, with their names.
    pub fn events(&mut self, events: &[WrittenEvent]) {
        let mut content = Words::default();
        content.u32(events.len() as u32).u32(ATTR_BYTES as u32);
        for event in events {
            content.bytes(&event.event.attr()).u32(event.ids.len() as u32).text(&event.event.name());
            event.ids.iter().for_each(|id| {
                content.u64(*id);
            });
        }
        self.add(feature::EVENT_DESC, &mut content);
    }

    /// The kernel's sources of events: their numbers and names.
    pub fn pmus(&mut self, pmus: &[(u32, String)]) {
        let mut content = Words::default();
        content.u32(pmus.len() as u32);
        pmus.iter().for_each(|(number, name)| {
            content.u32(*number).text(name);
        });
        self.add(feature::PMU_MAPPINGS, &mut content);
    }

    /// Times of the first and the last sample.
    pub fn sample_times(&mut self, first_ns: u64, last_ns: u64) {
        self.add(feature::SAMPLE_TIME, Words::default().u64(first_ns).u64(last_ns));
    }

    /// Resolution of the clock.
    pub fn clock_resolution(&mut self, ns: u64) {
        self.add(feature::CLOCKID, Words::default().u64(ns));
    }

    /// The time since 1970 at one moment of the clock.
    pub fn clock_origin(&mut self, clock_id: i32, wall_ns: u64, clock_ns: u64) {
        const VERSION: u32 = 1;
        let mut content = Words::default();
        content.u32(VERSION).u32(clock_id as u32).u64(wall_ns).u64(clock_ns);
        self.add(feature::CLOCK_DATA, &mut content);
    }

    /// Build ids of files.
    pub fn build_ids(&mut self, files: &[WrittenBuildId]) {
        const OF_USER: u16 = 2;
        const HAS_SIZE: u16 = 1 << 15;
        let mut content = Words::default();
        for file in files {
            let name = (file.path.len() + 1).next_multiple_of(TEXT_ALIGN);
            let id = &file.id[..file.id.len().min(BUILD_ID)];
            let mode = if file.is_kernel { misc::KERNEL } else { OF_USER };
            content.bytes(&record_head(0, mode | HAS_SIZE, 36 + name)).u32(u32::MAX);
            content.padded(id, BUILD_ID).u32(id.len() as u32).padded(file.path.as_bytes(), name);
        }
        self.add(feature::BUILD_ID, &mut content);
    }

    /// The bytes after the records, which end at `at`: places of the features, and the features.
    pub fn tail(&self, at: u64) -> Vec<u8> {
        let mut out = Words::default();
        let mut place = at + self.list.len() as u64 * 16;
        for content in self.list.values() {
            out.u64(place).u64(content.len() as u64);
            place += content.len() as u64;
        }
        self.list.values().for_each(|content| {
            out.bytes(content);
        });
        out.0
    }
}

fn record_head(kind: u32, misc: u16, bytes: usize) -> [u8; HEADER] {
    let mut out = [0; HEADER];
    out[..4].copy_from_slice(&kind.to_le_bytes());
    out[4..6].copy_from_slice(&misc.to_le_bytes());
    // Callers have no text that is longer than a path.
    out[6..].copy_from_slice(&u16::try_from(bytes).unwrap_or(u16::MAX).to_le_bytes());
    out
}

/// A record of before the recording, or of its end: no thread wrote it, at no time.
fn record(kind: u32, misc: u16, content: &Words, text: Option<&[u8]>) -> Vec<u8> {
    // Linux has no longer paths.
    const LONGEST: usize = 4096;
    let text = text.map(|text| &text[..text.len().min(LONGEST)]);
    let text_bytes = text.map_or(0, |text| (text.len() + 1).next_multiple_of(8));
    let mut out = Words::default();
    out.bytes(&record_head(kind, misc, HEADER + content.0.len() + text_bytes + SAMPLE_ID_BYTES));
    out.bytes(&content.0).padded(text.unwrap_or_default(), text_bytes).padded(&[], SAMPLE_ID_BYTES);
    out.0
}

/// The name that a thread had before the recording.
pub fn comm_record(pid: u32, tid: u32, name: &[u8]) -> Vec<u8> {
    record(kind::COMM, 0, Words::default().u32(pid).u32(tid), Some(name))
}

/// A file of code that a process had mapped before the recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrittenMap<'p> {
    /// The process.
    pub pid: u32,
    /// First address.
    pub address: u64,
    /// Length.
    pub len_bytes: u64,
    /// Place in the file.
    pub offset: u64,
    /// Numbers of the device.
    pub device: (u32, u32),
    /// Number of the file on the device.
    pub inode: u64,
    /// `PROT_EXEC` and the like.
    pub protection: u32,
    /// `MAP_PRIVATE` or `MAP_SHARED`.
    pub flags: u32,
    /// Path.
    pub path: &'p [u8],
}

impl WrittenMap<'_> {
    /// Is it one of code?
    pub fn is_code(&self) -> bool {
        const EXECUTE: u32 = 4;
        self.protection & EXECUTE != 0
    }

    /// The record of it.
    pub fn record(&self) -> Vec<u8> {
        const OF_USER: u16 = 2;
        let mut content = Words::default();
        content.u32(self.pid).u32(self.pid).u64(self.address).u64(self.len_bytes).u64(self.offset);
        content.u32(self.device.0).u32(self.device.1).u64(self.inode).u64(0).u32(self.protection).u32(self.flags);
        let data = if self.is_code() { 0 } else { misc::MMAP_DATA };
        record(kind::MMAP2, OF_USER | data, &content, Some(self.path))
    }
}

/// Code of the kernel, or of a module of it.
pub fn kernel_map_record(address: u64, len_bytes: u64, offset: u64, name: &str) -> Vec<u8> {
    let mut content = Words::default();
    content.u32(u32::MAX).u32(0).u64(address).u64(len_bytes).u64(offset);
    record(kind::MMAP, misc::KERNEL, &content, Some(name.as_bytes()))
}

/// Records that had no room where they should have been written.
pub fn lost_record(id: u64, count: u64) -> Vec<u8> {
    record(kind::LOST, 0, Words::default().u64(id).u64(count), None)
}

/// Samples of an event that were lost, as its counter says at the end.
pub fn lost_samples_record(id: u64, count: u64) -> Vec<u8> {
    let mut out = record(kind::LOST_SAMPLES, 0, Words::default().u64(count), None);
    // The id of the event is the last of what stands after a record.
    let at = out.len() - 8;
    out[at..].copy_from_slice(&id.to_le_bytes());
    out
}

/// The end of a round over all rings.
pub fn finished_round() -> [u8; HEADER] {
    record_head(kind::FINISHED_ROUND, 0, HEADER)
}
