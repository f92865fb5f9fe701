//! `perf_event_attr`: what an event counts, and what its samples hold (`SPEC.md`, section 4).

use tracemill_codec::bits::{u32_at, u64_at};
use tracemill_format::code::{CodeMachine, SampleRegisters};
use tracemill_model::schema::ByteOrder;

use super::records::{HEADER, PerfRecord, kind};

/// Bytes of the first version; later ones are longer.
const MIN_BYTES: usize = 64;

/// Bits of `sample_type`: parts that samples have.
pub(crate) mod part {
    pub(crate) const IP: u64 = 1 << 0;
    pub(crate) const TID: u64 = 1 << 1;
    pub(crate) const TIME: u64 = 1 << 2;
    pub(crate) const ADDR: u64 = 1 << 3;
    pub(crate) const READ: u64 = 1 << 4;
    pub(crate) const CALLCHAIN: u64 = 1 << 5;
    pub(crate) const ID: u64 = 1 << 6;
    pub(crate) const CPU: u64 = 1 << 7;
    pub(crate) const PERIOD: u64 = 1 << 8;
    pub(crate) const STREAM_ID: u64 = 1 << 9;
    pub(crate) const RAW: u64 = 1 << 10;
    pub(crate) const BRANCH_STACK: u64 = 1 << 11;
    pub(crate) const REGS_USER: u64 = 1 << 12;
    pub(crate) const STACK_USER: u64 = 1 << 13;
    pub(crate) const WEIGHT: u64 = 1 << 14;
    pub(crate) const DATA_SRC: u64 = 1 << 15;
    pub(crate) const IDENTIFIER: u64 = 1 << 16;
    pub(crate) const TRANSACTION: u64 = 1 << 17;
    pub(crate) const REGS_INTR: u64 = 1 << 18;
    pub(crate) const PHYS_ADDR: u64 = 1 << 19;
    pub(crate) const AUX: u64 = 1 << 20;
    pub(crate) const CGROUP: u64 = 1 << 21;
    pub(crate) const DATA_PAGE_SIZE: u64 = 1 << 22;
    pub(crate) const CODE_PAGE_SIZE: u64 = 1 << 23;
    pub(crate) const WEIGHT_STRUCT: u64 = 1 << 24;
    /// All of them.
    pub(crate) const ALL: u64 = (1 << 25) - 1;

    /// Names of the bits, as `perf evlist -v` prints them.
    pub(crate) const NAMES: [&str; 25] = [
        "IP",
        "TID",
        "TIME",
        "ADDR",
        "READ",
        "CALLCHAIN",
        "ID",
        "CPU",
        "PERIOD",
        "STREAM_ID",
        "RAW",
        "BRANCH_STACK",
        "REGS_USER",
        "STACK_USER",
        "WEIGHT",
        "DATA_SRC",
        "IDENTIFIER",
        "TRANSACTION",
        "REGS_INTR",
        "PHYS_ADDR",
        "AUX",
        "CGROUP",
        "DATA_PAGE_SIZE",
        "CODE_PAGE_SIZE",
        "WEIGHT_STRUCT",
    ];
}

/// Bits of `read_format`.
pub(crate) mod read {
    pub(crate) const TOTAL_TIME_ENABLED: u64 = 1 << 0;
    pub(crate) const TOTAL_TIME_RUNNING: u64 = 1 << 1;
    pub(crate) const ID: u64 = 1 << 2;
    pub(crate) const GROUP: u64 = 1 << 3;
    pub(crate) const LOST: u64 = 1 << 4;
}

/// Bits of the flags.
pub(super) mod flag {
    pub(crate) const DISABLED: u32 = 0;
    pub(crate) const INHERIT: u32 = 1;
    pub(crate) const EXCLUDE_USER: u32 = 4;
    pub(crate) const EXCLUDE_KERNEL: u32 = 5;
    pub(crate) const EXCLUDE_HV: u32 = 6;
    pub(crate) const MMAP: u32 = 8;
    pub(crate) const COMM: u32 = 9;
    pub(crate) const FREQ: u32 = 10;
    pub(crate) const ENABLE_ON_EXEC: u32 = 12;
    pub(crate) const TASK: u32 = 13;
    pub(crate) const PRECISE: u32 = 15;
    pub(crate) const MMAP_DATA: u32 = 17;
    pub(crate) const SAMPLE_ID_ALL: u32 = 18;
    pub(crate) const EXCLUDE_HOST: u32 = 19;
    pub(crate) const EXCLUDE_GUEST: u32 = 20;
    pub(crate) const EXCLUDE_CALLCHAIN_USER: u32 = 22;
    pub(crate) const MMAP2: u32 = 23;
    pub(crate) const COMM_EXEC: u32 = 24;
    pub(crate) const USE_CLOCKID: u32 = 25;
    pub(crate) const CONTEXT_SWITCH: u32 = 26;
    pub(crate) const BUILD_ID: u32 = 34;
}

/// Types of events.
pub(super) mod event_type {
    pub(crate) const HARDWARE: u32 = 0;
    pub(crate) const SOFTWARE: u32 = 1;
    pub(crate) const TRACEPOINT: u32 = 2;
    pub(crate) const HW_CACHE: u32 = 3;
    pub(crate) const RAW: u32 = 4;
    pub(crate) const BREAKPOINT: u32 = 5;
}

/// `PERF_SAMPLE_REGS_ABI_64`.
const ABI_64: u64 = 2;

/// Bits of registers of x86 (`enum perf_event_x86_regs`).
mod x86 {
    pub(super) const BP: u32 = 6;
    pub(super) const SP: u32 = 7;
    pub(super) const IP: u32 = 8;
}

/// Bits of registers of 64-bit Arm (`enum perf_event_arm_regs`).
mod arm64 {
    pub(super) const FP: u32 = 29;
    pub(super) const LR: u32 = 30;
    pub(super) const SP: u32 = 31;
    pub(super) const PC: u32 = 32;
}

const HARDWARE: [&str; 10] = [
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "bus-cycles",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
    "ref-cycles",
];
const SOFTWARE: [&str; 12] = [
    "cpu-clock",
    "task-clock",
    "page-faults",
    "context-switches",
    "cpu-migrations",
    "minor-faults",
    "major-faults",
    "alignment-faults",
    "emulation-faults",
    "dummy",
    "bpf-output",
    "cgroup-switches",
];
const CACHES: [&str; 7] = ["L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node"];
/// Accesses of a kind, and misses among them.
const CACHE_ACCESSES: [(&str, &str); 3] =
    [("loads", "load-misses"), ("stores", "store-misses"), ("prefetches", "prefetch-misses")];

/// The attributes of an event: what it counts, what its samples hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct PerfAttr {
    pub(crate) event_type: u32,
    pub(crate) config: u64,
    /// Period, or frequency.
    pub(crate) period: u64,
    pub(crate) sample_type: u64,
    pub(crate) read_format: u64,
    flags: u64,
    breakpoint: u32,
    config1: u64,
    pub(crate) branch_type: u64,
    pub(crate) regs_user: u64,
    pub(crate) regs_intr: u64,
    clock_id: i32,
}

impl PerfAttr {
    /// Reads as much as there is; later parts are zero. `None` when not even the first version is there.
    pub(crate) fn parse(bytes: &[u8], order: ByteOrder) -> Option<PerfAttr> {
        if bytes.len() < MIN_BYTES {
            return None;
        }
        let stated = u32_at(bytes, 4, order)? as usize;
        // A size of 0 is that of the first version (Linux, `perf_copy_attr`).
        let size = if stated == 0 { MIN_BYTES } else { stated.clamp(MIN_BYTES, bytes.len()) };
        let bytes = &bytes[..size];
        let (u32, u64) = (|at| u32_at(bytes, at, order).unwrap_or(0), |at| u64_at(bytes, at, order).unwrap_or(0));
        // Flags are bit-fields: compilers of big-endian machines begin with the highest bit of each byte.
        let flag_byte = |byte: u8| if order == ByteOrder::Big { byte.reverse_bits() } else { byte };
        let flags = bytes[40..48].iter().rev().fold(0, |flags, &byte| flags << 8 | u64::from(flag_byte(byte)));
        Some(PerfAttr {
            event_type: u32(0),
            config: u64(8),
            period: u64(16),
            sample_type: u64(24),
            read_format: u64(32),
            flags,
            breakpoint: u32(52),
            config1: u64(56),
            branch_type: u64(72),
            regs_user: u64(80),
            clock_id: u32(92) as i32,
            regs_intr: u64(96),
        })
    }

    fn has_flag(&self, flag: u32) -> bool {
        self.flags >> flag & 1 == 1
    }

    /// Do its samples have this part?
    #[inline]
    pub(crate) fn has(&self, part: u64) -> bool {
        self.sample_type & part != 0
    }

    /// Do records other than samples end with who, when and where?
    #[inline]
    pub(crate) fn has_sample_id(&self) -> bool {
        self.has_flag(flag::SAMPLE_ID_ALL)
    }

    /// Is [`PerfAttr::period`] a frequency?
    pub(crate) fn is_frequency(&self) -> bool {
        self.has_flag(flag::FREQ)
    }

    /// The number of events for which each sample stands, where that is always the same.
    pub(crate) fn fixed_period(&self) -> Option<u64> {
        Some(self.period).filter(|period| *period > 0 && !self.is_frequency())
    }

    /// The number of the tracepoint.
    pub(crate) fn tracepoint(&self) -> Option<u16> {
        let is_one = self.event_type == event_type::TRACEPOINT;
        u16::try_from(self.config).ok().filter(|_| is_one)
    }

    /// The clock of its times, by the number of `clock_gettime`; `None` for the one that perf has itself.
    pub(crate) fn clock_id(&self) -> Option<i32> {
        self.has_flag(flag::USE_CLOCKID).then_some(self.clock_id)
    }

    /// The name that perf gives to events of it, where the file says none.
    pub(crate) fn name(&self) -> String {
        let of = |names: &[&str]| {
            usize::try_from(self.config).ok().and_then(|at| names.get(at)).map(|name| name.to_string())
        };
        let name = match self.event_type {
            event_type::HARDWARE => of(&HARDWARE),
            event_type::SOFTWARE => of(&SOFTWARE),
            event_type::HW_CACHE => self.cache_name(),
            event_type::RAW => Some(format!("raw 0x{:x}", self.config)),
            event_type::BREAKPOINT => Some(self.breakpoint_name()),
            event_type::TRACEPOINT => Some(format!("tracepoint:{}", self.config)),
            _ => None,
        };
        let name = name.unwrap_or_else(|| format!("type{}:0x{:x}", self.event_type, self.config));
        name + &self.modifiers()
    }

    fn cache_name(&self) -> Option<String> {
        let part = |shift: u32| (self.config >> shift & 0xff) as usize;
        let (accesses, misses) = CACHE_ACCESSES.get(part(8))?;
        let access = if part(16) == 0 { accesses } else { misses };
        Some(format!("{}-{access}", CACHES.get(part(0))?))
    }

    fn breakpoint_name(&self) -> String {
        let access: String = ['r', 'w', 'x']
            .iter()
            .zip([1, 2, 4])
            .filter(|(_, bit)| self.breakpoint & bit != 0)
            .map(|(letter, _)| *letter)
            .collect();
        format!("mem:0x{:x}:{access}", self.config1)
    }

    /// `:u`, `:ppH`: where it counts, how precisely, as perf shows it.
    fn modifiers(&self) -> String {
        let precise = (self.flags >> flag::PRECISE & 3) as usize;
        let mut letters = String::new();
        let mut counted = |flags: [(u32, char); 3]| {
            letters.extend(flags.iter().filter(|(flag, _)| !self.has_flag(*flag)).map(|(_, letter)| letter));
        };
        let is_restricted =
            [flag::EXCLUDE_KERNEL, flag::EXCLUDE_USER, flag::EXCLUDE_HV].iter().any(|flag| self.has_flag(*flag));
        if is_restricted {
            counted([(flag::EXCLUDE_KERNEL, 'k'), (flag::EXCLUDE_USER, 'u'), (flag::EXCLUDE_HV, 'h')]);
        }
        letters.extend(std::iter::repeat_n('p', precise));
        // Guests are left out by default in these cases, and then the modifier says nothing.
        let leaves_guests = is_restricted || precise > 0;
        if self.has_flag(flag::EXCLUDE_HOST) || self.has_flag(flag::EXCLUDE_GUEST) == leaves_guests {
            let hosts = [(flag::EXCLUDE_HOST, 'H'), (flag::EXCLUDE_GUEST, 'G')];
            letters.extend(hosts.iter().filter(|(flag, _)| !self.has_flag(*flag)).map(|(_, letter)| letter));
        }
        if letters.is_empty() || letters == "HG" { String::new() } else { format!(":{letters}") }
    }

    /// Where the registers by which stacks are followed are in its samples. `arch` is the machine that the file names, if it does
    /// (`SPEC.md`, section 5).
    pub(crate) fn sample_registers(&self, arch: Option<&str>, order: ByteOrder) -> Option<SampleRegisters> {
        let is_arm = match arch {
            Some("x86_64") => false,
            Some("aarch64") => true,
            Some(_) => return None,
            None => self.regs_user >> arm64::PC & 1 == 1,
        };
        if order != ByteOrder::Little || !self.has(part::REGS_USER) || !self.has(part::STACK_USER) {
            return None;
        }
        let index = |bit: u32| {
            let before = self.regs_user & ((1 << bit) - 1);
            (self.regs_user >> bit & 1 == 1).then_some(before.count_ones() as usize)
        };
        Some(match is_arm {
            false => SampleRegisters {
                machine: CodeMachine::X86_64,
                abi: ABI_64,
                instruction: index(x86::IP)?,
                stack: index(x86::SP)?,
                frame: index(x86::BP)?,
                link: None,
            },
            true => SampleRegisters {
                machine: CodeMachine::Aarch64,
                abi: ABI_64,
                instruction: index(arm64::PC)?,
                stack: index(arm64::SP)?,
                frame: index(arm64::FP)?,
                link: Some(index(arm64::LR)?),
            },
        })
    }

    /// Where ids, times and the like stand in its records.
    pub(crate) fn places(&self) -> IdPlaces {
        let count = |parts: u64| (self.sample_type & parts).count_ones() as usize * 8;
        let has = |part: u64, place: usize| self.has(part).then_some(place);
        let after = |parts: u64| 8 + count(parts);
        let start = HEADER + count(part::IDENTIFIER);
        let in_sample = SamplePlaces {
            id: has(part::IDENTIFIER, HEADER)
                .or(has(part::ID, start + count(part::IP | part::TID | part::TIME | part::ADDR))),
            who: has(part::TID, start + count(part::IP)),
            time: has(part::TIME, start + count(part::IP | part::TID)),
            cpu: has(
                part::CPU,
                start + count(part::IP | part::TID | part::TIME | part::ADDR | part::ID | part::STREAM_ID),
            ),
        };
        let at_end = self.has_sample_id().then(|| SamplePlaces {
            id: has(part::IDENTIFIER, 8).or(has(part::ID, after(part::STREAM_ID | part::CPU))),
            who: has(part::TID, after(part::TIME | part::ID | part::STREAM_ID | part::CPU | part::IDENTIFIER)),
            time: has(part::TIME, after(part::ID | part::STREAM_ID | part::CPU | part::IDENTIFIER)),
            cpu: has(part::CPU, after(part::IDENTIFIER)),
        });
        let end_bytes = if self.has_sample_id() {
            count(part::TID | part::TIME | part::ID | part::STREAM_ID | part::CPU | part::IDENTIFIER)
        } else {
            0
        };
        IdPlaces { in_sample, at_end: at_end.unwrap_or_default(), end_bytes }
    }
}

/// Where ids, times and the like stand in records: in samples from the front, in others from the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct IdPlaces {
    in_sample: SamplePlaces,
    at_end: SamplePlaces,
    /// Bytes that they take at the end of records other than samples.
    pub(crate) end_bytes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct SamplePlaces {
    id: Option<usize>,
    who: Option<usize>,
    time: Option<usize>,
    cpu: Option<usize>,
}

/// Thread, time and CPU of a record, as far as it says them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SampleId {
    /// Process and thread.
    pub(crate) who: Option<(i32, i32)>,
    pub(crate) time: Option<u64>,
    pub(crate) cpu: Option<u32>,
}

impl IdPlaces {
    fn place(self, record: &PerfRecord<'_>, of: impl Fn(SamplePlaces) -> Option<usize>) -> Option<usize> {
        if record.kind == kind::SAMPLE {
            return of(self.in_sample).filter(|at| at + 8 <= record.bytes.len());
        }
        let at = of(self.at_end)?;
        // Before it stands the header at least.
        record.bytes.len().checked_sub(at).filter(|&at| at >= HEADER)
    }

    /// The id of the event that a record of the kernel is of.
    #[inline]
    pub(crate) fn id(self, record: &PerfRecord<'_>) -> Option<u64> {
        self.place(record, |places| places.id).map(|at| record.u64(at))
    }

    /// Thread, time and CPU of a record of the kernel.
    #[inline]
    pub(crate) fn sample_id(self, record: &PerfRecord<'_>) -> SampleId {
        let who = self.place(record, |places| places.who);
        SampleId {
            who: who.map(|at| (record.u32(at) as i32, record.u32(at + 4) as i32)),
            time: self.place(record, |places| places.time).map(|at| record.u64(at)),
            cpu: self.place(record, |places| places.cpu).map(|at| record.u32(at)),
        }
    }
}

/// An event that was recorded.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct RecordedEvent {
    pub(crate) attr: PerfAttr,
    /// Ids of its instances: one for each CPU or thread.
    pub(crate) ids: Vec<u64>,
    /// The name that the file says.
    pub(crate) name: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attr(order: ByteOrder, event_type: u32, config: u64, flags: [u8; 8]) -> PerfAttr {
        let mut bytes = vec![0; 112];
        let put = |bytes: &mut Vec<u8>, at: usize, value: u64, len: usize| {
            let value = tracemill_codec::bits::uint_bytes(value, order);
            let value = if order == ByteOrder::Big { &value[8 - len..] } else { &value[..len] };
            bytes[at..at + len].copy_from_slice(value);
        };
        put(&mut bytes, 0, event_type.into(), 4);
        put(&mut bytes, 4, 112, 4);
        put(&mut bytes, 8, config, 8);
        bytes[40..48].copy_from_slice(&flags);
        PerfAttr::parse(&bytes, order).unwrap()
    }

    #[test]
    fn names() {
        let name = |event_type, config, flags: u8| {
            attr(ByteOrder::Little, event_type, config, [flags, 0, 0, 0, 0, 0, 0, 0]).name()
        };
        assert_eq!(name(0, 0, 0), "cycles");
        assert_eq!(name(0, 1, 1 << 5 | 1 << 6), "instructions:u");
        assert_eq!(name(1, 0, 1 << 4), "cpu-clock:kh");
        assert_eq!(name(3, 0x1_0000, 0), "L1-dcache-load-misses");
        assert_eq!(name(3, 0x1_0203, 0), "dTLB-prefetch-misses");
        assert_eq!(name(9, 7, 0), "type9:0x7");
        assert_eq!(name(0, u64::MAX, 0), "type0:0xffffffffffffffff");
    }

    #[test]
    fn registers_are_found_by_their_mask() {
        let sample_type = part::REGS_USER | part::STACK_USER;
        let attr = |regs_user| PerfAttr { regs_user, sample_type, ..PerfAttr::default() };
        let of = |regs_user, arch| attr(regs_user).sample_registers(arch, ByteOrder::Little);
        // As perf asks for them.
        let x86 = of(0xff_0fff, None).expect("registers");
        assert_eq!((x86.machine, x86.instruction, x86.stack, x86.frame), (CodeMachine::X86_64, 8, 7, 6));
        assert_eq!(x86.link, None);
        let arm = of(0x1_ffff_ffff, None).expect("registers");
        assert_eq!((arm.machine, arm.instruction, arm.stack, arm.frame), (CodeMachine::Aarch64, 32, 31, 29));
        assert_eq!((arm.link, of(0x1_ffff_ffff, Some("aarch64"))), (Some(30), Some(arm)));
        // With three registers.
        let few = of(0x1c0, Some("x86_64")).expect("registers");
        assert_eq!((few.instruction, few.stack, few.frame), (2, 1, 0));
        assert_eq!((of(0x0c0, None), of(0xff_0fff, Some("riscv64"))), (None, None));
        assert_eq!(attr(0xff_0fff).sample_registers(None, ByteOrder::Big), None);
        let without_stack = PerfAttr { sample_type: part::REGS_USER, ..attr(0xff_0fff) };
        assert_eq!(without_stack.sample_registers(None, ByteOrder::Little), None);
    }

    #[test]
    fn flags_of_both_orders() {
        let little = attr(ByteOrder::Little, 0, 0, [0, 0, 1 << 2, 1 << 1, 0, 0, 0, 0]);
        let big = attr(ByteOrder::Big, 0, 0, [0, 0, 1 << 5, 1 << 6, 0, 0, 0, 0]);
        assert!(little.has_sample_id() && big.has_sample_id());
        assert_eq!((little.clock_id(), big.clock_id()), (Some(0), Some(0)));
    }
}
