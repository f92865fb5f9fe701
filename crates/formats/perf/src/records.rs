//! Records: header by header, and where reading goes on after damage (`SPEC.md`, section 3).

use tracemill_codec::bits::{u16_at, u32_at, u64_at};
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::ByteOrder;

/// Bytes of a record's header: type, flags, size.
pub const HEADER: usize = 8;
/// Records that must follow each other before a place after damage counts as one where a record begins.
const CHAIN: usize = 8;

/// Types of records: those of the kernel, and from [`kind::FIRST_USER`] on those that perf adds.
pub mod kind {
    /// A file is mapped.
    pub const MMAP: u32 = 1;
    /// Records were lost.
    pub const LOST: u32 = 2;
    /// A thread gets a name.
    pub const COMM: u32 = 3;
    /// A thread ends.
    pub const EXIT: u32 = 4;
    /// Samples stop, as there are too many.
    pub const THROTTLE: u32 = 5;
    /// Samples go on.
    pub const UNTHROTTLE: u32 = 6;
    /// A thread is made.
    pub const FORK: u32 = 7;
    /// Counts of an event.
    pub const READ: u32 = 8;
    /// A sample.
    pub const SAMPLE: u32 = 9;
    /// A file is mapped, with its inode or build id.
    pub const MMAP2: u32 = 10;
    /// Hardware trace data was written.
    pub const AUX: u32 = 11;
    /// Hardware tracing begins.
    pub const ITRACE_START: u32 = 12;
    /// Samples were lost.
    pub const LOST_SAMPLES: u32 = 13;
    /// A CPU turns to or from a thread.
    pub const SWITCH: u32 = 14;
    /// The same, with the other thread.
    pub const SWITCH_CPU_WIDE: u32 = 15;
    /// Namespaces of a thread.
    pub const NAMESPACES: u32 = 16;
    /// A symbol of the kernel comes or goes.
    pub const KSYMBOL: u32 = 17;
    /// A BPF program comes or goes.
    pub const BPF_EVENT: u32 = 18;
    /// A control group.
    pub const CGROUP: u32 = 19;
    /// Code of the kernel is changed.
    pub const TEXT_POKE: u32 = 20;
    /// An id in hardware trace data.
    pub const AUX_OUTPUT_HW_ID: u32 = 21;
    /// The part of a call chain that is of the program.
    pub const CALLCHAIN_DEFERRED: u32 = 22;

    /// The first type that perf adds.
    pub const FIRST_USER: u32 = 64;
    /// An event that is recorded.
    pub const HEADER_ATTR: u32 = 64;
    /// A name of an event, in old files.
    pub const HEADER_EVENT_TYPE: u32 = 65;
    /// Format files, after the record.
    pub const HEADER_TRACING_DATA: u32 = 66;
    /// The build id of a file.
    pub const HEADER_BUILD_ID: u32 = 67;
    /// The end of a round.
    pub const FINISHED_ROUND: u32 = 68;
    /// Ids of events.
    pub const ID_INDEX: u32 = 69;
    /// A kind of hardware trace.
    pub const AUXTRACE_INFO: u32 = 70;
    /// Hardware trace data, after the record.
    pub const AUXTRACE: u32 = 71;
    /// Hardware trace data that cannot be decoded.
    pub const AUXTRACE_ERROR: u32 = 72;
    /// Threads that are watched.
    pub const THREAD_MAP: u32 = 73;
    /// CPUs that are watched.
    pub const CPU_MAP: u32 = 74;
    /// Settings of `perf stat`.
    pub const STAT_CONFIG: u32 = 75;
    /// A count of `perf stat`.
    pub const STAT: u32 = 76;
    /// The end of a round of `perf stat`.
    pub const STAT_ROUND: u32 = 77;
    /// More about an event.
    pub const EVENT_UPDATE: u32 = 78;
    /// How hardware counts become times.
    pub const TIME_CONV: u32 = 79;
    /// A feature.
    pub const HEADER_FEATURE: u32 = 80;
    /// Packed records.
    pub const COMPRESSED: u32 = 81;
    /// The end of what perf makes of what there was before.
    pub const FINISHED_INIT: u32 = 82;
    /// Packed records, and padding.
    pub const COMPRESSED2: u32 = 83;
    /// Texts of a BPF program.
    pub const BPF_METADATA: u32 = 84;
    /// Statistics of a CPU.
    pub const SCHEDSTAT_CPU: u32 = 85;
    /// Statistics of a scheduling domain.
    pub const SCHEDSTAT_DOMAIN: u32 = 86;
    /// Types above this are taken for damage when a place to go on is searched.
    pub(super) const LAST: u32 = 95;
}

/// Flags of records.
pub mod misc {
    /// The mode of a sample: kernel, program, guest.
    pub const CPUMODE: u16 = 7;
    /// The kernel, in [`CPUMODE`].
    pub const KERNEL: u16 = 1;
    /// A hypervisor, in [`CPUMODE`].
    pub const HYPERVISOR: u16 = 3;
    /// The kernel of a guest, in [`CPUMODE`].
    pub const GUEST_KERNEL: u16 = 4;
    /// A program of a guest, in [`CPUMODE`].
    pub const GUEST_USER: u16 = 5;
    /// Data is mapped, not code.
    pub const MMAP_DATA: u16 = 1 << 13;
    /// The thread got its name by `exec`.
    pub const COMM_EXEC: u16 = 1 << 13;
    /// The CPU turns from the thread.
    pub const SWITCH_OUT: u16 = 1 << 13;
    /// A filter kept the samples out.
    pub const LOST_SAMPLES_BPF: u16 = 1 << 15;
    /// The thread could have gone on.
    pub const SWITCH_PREEMPT: u16 = 1 << 14;
    /// There is a build id in the place of the inode.
    pub const MMAP_BUILD_ID: u16 = 1 << 14;
}

/// The name of a type of records, as `perf script` prints it.
pub(crate) fn name(kind: u32) -> Option<&'static str> {
    Some(match kind {
        kind::MMAP => "PERF_RECORD_MMAP",
        kind::LOST => "PERF_RECORD_LOST",
        kind::COMM => "PERF_RECORD_COMM",
        kind::EXIT => "PERF_RECORD_EXIT",
        kind::THROTTLE => "PERF_RECORD_THROTTLE",
        kind::UNTHROTTLE => "PERF_RECORD_UNTHROTTLE",
        kind::FORK => "PERF_RECORD_FORK",
        kind::READ => "PERF_RECORD_READ",
        kind::SAMPLE => "PERF_RECORD_SAMPLE",
        kind::MMAP2 => "PERF_RECORD_MMAP2",
        kind::AUX => "PERF_RECORD_AUX",
        kind::ITRACE_START => "PERF_RECORD_ITRACE_START",
        kind::LOST_SAMPLES => "PERF_RECORD_LOST_SAMPLES",
        kind::SWITCH => "PERF_RECORD_SWITCH",
        kind::SWITCH_CPU_WIDE => "PERF_RECORD_SWITCH_CPU_WIDE",
        kind::NAMESPACES => "PERF_RECORD_NAMESPACES",
        kind::KSYMBOL => "PERF_RECORD_KSYMBOL",
        kind::BPF_EVENT => "PERF_RECORD_BPF_EVENT",
        kind::CGROUP => "PERF_RECORD_CGROUP",
        kind::TEXT_POKE => "PERF_RECORD_TEXT_POKE",
        kind::AUX_OUTPUT_HW_ID => "PERF_RECORD_AUX_OUTPUT_HW_ID",
        kind::CALLCHAIN_DEFERRED => "PERF_RECORD_CALLCHAIN_DEFERRED",
        kind::HEADER_ATTR => "PERF_RECORD_HEADER_ATTR",
        kind::HEADER_EVENT_TYPE => "PERF_RECORD_HEADER_EVENT_TYPE",
        kind::HEADER_TRACING_DATA => "PERF_RECORD_HEADER_TRACING_DATA",
        kind::HEADER_BUILD_ID => "PERF_RECORD_HEADER_BUILD_ID",
        kind::FINISHED_ROUND => "PERF_RECORD_FINISHED_ROUND",
        kind::ID_INDEX => "PERF_RECORD_ID_INDEX",
        kind::AUXTRACE_INFO => "PERF_RECORD_AUXTRACE_INFO",
        kind::AUXTRACE => "PERF_RECORD_AUXTRACE",
        kind::AUXTRACE_ERROR => "PERF_RECORD_AUXTRACE_ERROR",
        kind::THREAD_MAP => "PERF_RECORD_THREAD_MAP",
        kind::CPU_MAP => "PERF_RECORD_CPU_MAP",
        kind::STAT_CONFIG => "PERF_RECORD_STAT_CONFIG",
        kind::STAT => "PERF_RECORD_STAT",
        kind::STAT_ROUND => "PERF_RECORD_STAT_ROUND",
        kind::EVENT_UPDATE => "PERF_RECORD_EVENT_UPDATE",
        kind::TIME_CONV => "PERF_RECORD_TIME_CONV",
        kind::HEADER_FEATURE => "PERF_RECORD_HEADER_FEATURE",
        kind::COMPRESSED => "PERF_RECORD_COMPRESSED",
        kind::FINISHED_INIT => "PERF_RECORD_FINISHED_INIT",
        kind::COMPRESSED2 => "PERF_RECORD_COMPRESSED2",
        kind::BPF_METADATA => "PERF_RECORD_BPF_METADATA",
        kind::SCHEDSTAT_CPU => "PERF_RECORD_SCHEDSTAT_CPU",
        kind::SCHEDSTAT_DOMAIN => "PERF_RECORD_SCHEDSTAT_DOMAIN",
        _ => return None,
    })
}

/// A record where it lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PerfRecord<'b> {
    /// Its type.
    pub(crate) kind: u32,
    /// Its flags.
    pub(crate) misc: u16,
    /// Where it begins.
    pub(crate) at: usize,
    /// Its bytes, header included.
    pub(crate) bytes: &'b [u8],
    /// Bytes after it that belong to it: trace data of hardware, format files.
    pub(crate) extra: &'b [u8],
    /// Order of the bytes of its numbers.
    pub(crate) order: ByteOrder,
}

impl PerfRecord<'_> {
    /// The number at a place, 0 where the record ends before it.
    #[inline]
    pub(crate) fn u64(&self, at: usize) -> u64 {
        u64_at(self.bytes, at, self.order).unwrap_or(0)
    }

    /// As [`PerfRecord::u64`].
    #[inline]
    pub(crate) fn u32(&self, at: usize) -> u32 {
        u32_at(self.bytes, at, self.order).unwrap_or(0)
    }
}

/// Records one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Records<'b> {
    bytes: &'b [u8],
    order: ByteOrder,
    /// Where the next one begins.
    pub(crate) at: usize,
    end: usize,
}

impl<'b> Records<'b> {
    /// The records from one place to another.
    pub(crate) fn new(bytes: &'b [u8], order: ByteOrder, from: usize, to: usize) -> Self {
        Records { bytes, order, at: from, end: to.min(bytes.len()) }
    }

    fn header(&self, at: usize) -> Option<(u32, u16, usize)> {
        let head = self.bytes.get(at..self.end)?;
        let size = u16_at(head, 6, self.order)?;
        Some((u32_at(head, 0, self.order)?, u16_at(head, 4, self.order)?, size.into()))
    }

    /// Bytes of what follows a record and belongs to it.
    fn extra(&self, kind: u32, at: usize) -> u64 {
        match kind {
            kind::AUXTRACE => u64_at(self.bytes, at + HEADER, self.order).unwrap_or(0),
            kind::HEADER_TRACING_DATA => {
                u64::from(u32_at(self.bytes, at + HEADER, self.order).unwrap_or(0)).next_multiple_of(8)
            }
            _ => 0,
        }
    }

    /// The next record; `None` at the end. An error stands for bytes that are skipped.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Result<PerfRecord<'b>>> {
        let at = self.at;
        if at >= self.end {
            return None;
        }
        let Some((kind, misc, size)) = self.header(at) else {
            let left = self.end - at;
            return Some(Err(
                self.skip(Error::truncated(format!("{left} bytes are too few for the header of a record")))
            ));
        };
        if size < HEADER {
            return Some(Err(
                self.skip(Error::malformed(format!("a record of {size} bytes, expected at least {HEADER}")))
            ));
        }
        let Some(bytes) = self.bytes[..self.end].get(at..at + size) else {
            let left = self.end - at;
            return Some(Err(self.skip(Error::truncated(format!("{left} of the {size} bytes of a record are there")))));
        };
        let extra = match self.extra(kind, at) {
            0 => &[][..],
            len => {
                let rest = &self.bytes[at + size..self.end];
                match usize::try_from(len).ok().and_then(|len| rest.get(..len)) {
                    Some(extra) => extra,
                    None => {
                        let name = name(kind).unwrap_or_default();
                        let message = format!("{} of the {len} bytes after a {name} are there", rest.len());
                        return Some(Err(self.skip(Error::truncated(message))));
                    }
                }
            }
        };
        self.at = at + size + extra.len();
        Some(Ok(PerfRecord { kind, misc, at, bytes, extra, order: self.order }))
    }

    /// Goes to the next place where records follow each other, or to the end.
    #[cold]
    fn skip(&mut self, error: Error) -> Error {
        let at = self.at;
        let next = (at + 8..self.end).step_by(8).find(|&place| self.is_chain(place));
        self.at = next.unwrap_or(self.end);
        let skipped = self.at - at;
        let help = match next {
            Some(_) => format!("{skipped} bytes are skipped"),
            None => format!("the rest, {skipped} bytes, is skipped"),
        };
        error.at_offset(at as u64).with_help(help)
    }

    /// Do records follow each other from a place on, some of them or up to the end?
    fn is_chain(&self, mut at: usize) -> bool {
        for _ in 0..CHAIN {
            if at == self.end {
                return true;
            }
            let Some((kind, _, size)) = self.header(at) else { return false };
            if size < HEADER || !size.is_multiple_of(8) || kind == 0 || kind > kind::LAST {
                return false;
            }
            let extra = usize::try_from(self.extra(kind, at)).unwrap_or(usize::MAX);
            at = at.saturating_add(size).saturating_add(extra);
            if at > self.end {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, size: u16, fill: u8) -> Vec<u8> {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend(size.to_le_bytes());
        bytes.resize(usize::from(size).max(8), fill);
        bytes
    }

    fn walk(bytes: &[u8]) -> Vec<Result<(u32, usize), String>> {
        let mut records = Records::new(bytes, ByteOrder::Little, 0, bytes.len());
        std::iter::from_fn(|| records.next())
            .map(|record| record.map(|record| (record.kind, record.at)).map_err(|error| error.message().to_string()))
            .collect()
    }

    #[test]
    fn reading_goes_on_after_a_record_of_no_size() {
        let mut bytes = record(kind::COMM, 16, 0);
        bytes.extend(record(kind::SAMPLE, 0, 0));
        bytes.extend([0xee; 24]);
        (0..9).for_each(|_| bytes.extend(record(kind::SAMPLE, 16, 1)));
        let found = walk(&bytes);
        assert_eq!(found[0], Ok((kind::COMM, 0)));
        assert_eq!(found[1], Err("a record of 0 bytes, expected at least 8".into()));
        assert_eq!(found[2], Ok((kind::SAMPLE, 48)));
        assert_eq!(found.len(), 11);
    }

    #[test]
    fn what_belongs_to_a_record_is_no_record() {
        let mut bytes = record(kind::AUXTRACE, 48, 0);
        bytes[8..16].copy_from_slice(&24u64.to_le_bytes());
        bytes.extend([0xff; 24]);
        bytes.extend(record(kind::FINISHED_ROUND, 8, 0));
        assert_eq!(walk(&bytes), [Ok((kind::AUXTRACE, 0)), Ok((kind::FINISHED_ROUND, 72))]);
        bytes.truncate(60);
        assert_eq!(walk(&bytes), [Err("12 of the 24 bytes after a PERF_RECORD_AUXTRACE are there".into())]);
    }
}
