//! Fields of samples and of other records, in one order for the schema and for the bytes of events (`SPEC.md`, section 5).
//!
//! A [`FieldSink`] receives every field with its value. That of [`super::classes`] makes members of it, from an empty record;
//! [`EventBytes`] writes the values.

use tracemill_codec::bits::{u32_at, u64_at};
use tracemill_ftrace::classes::{RecordLayout, push_locator};
use tracemill_ftrace::event_format::Machine;

use super::attr::{PerfAttr, part, read};
use super::records::{HEADER, PerfRecord, kind, misc};

/// Bits of `branch_sample_type` that change the layout of samples.
const BRANCH_HW_INDEX: u64 = 1 << 17;
const BRANCH_COUNTERS: u64 = 1 << 19;

/// A number as it is stored, and shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Number {
    U16,
    I32,
    U32,
    U64,
    /// In hexadecimal.
    Address,
}

impl Number {
    /// Bytes that it takes.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Number::U16 => 2,
            Number::I32 | Number::U32 => 4,
            Number::U64 | Number::Address => 8,
        }
    }
}

/// Takes the fields of a record in their order.
pub(crate) trait FieldSink {
    /// A number.
    fn number(&mut self, name: &'static str, number: Number, value: u64);
    /// Yes or no.
    fn flag(&mut self, name: &'static str, value: bool);
    /// A text.
    fn text(&mut self, name: &'static str, value: &[u8]);
    /// Numbers of 64 bits.
    fn numbers(&mut self, name: &'static str, number: Number, values: impl Iterator<Item = u64>);
    /// Bytes.
    fn bytes(&mut self, name: &'static str, value: &[u8]);
    /// The number of the name of a thread.
    fn comm(&mut self, number: u32);
    /// The place of an address in its file, at a time.
    fn place(&mut self, name: &'static str, address: u64, time: u64);
}

/// Reads a record from the front; what is not there is 0.
pub(crate) struct RecordParts<'r, 'b> {
    record: &'r PerfRecord<'b>,
    at: usize,
    end: usize,
    /// Some of it was not there.
    pub(crate) is_short: bool,
}

impl<'r, 'b> RecordParts<'r, 'b> {
    /// The parts after the header; `end_bytes` at its end are not among them.
    pub(crate) fn new(record: &'r PerfRecord<'b>, end_bytes: usize) -> Self {
        let end = record.bytes.len().saturating_sub(end_bytes).max(HEADER);
        RecordParts { record, at: HEADER, end, is_short: false }
    }

    fn take(&mut self, len: usize) -> &'b [u8] {
        let end = self.end.min(self.record.bytes.len());
        let bytes = self.record.bytes.get(self.at.min(end)..end).unwrap_or(&[]);
        self.is_short |= bytes.len() < len;
        let bytes = &bytes[..bytes.len().min(len)];
        self.at += bytes.len();
        bytes
    }

    fn u64(&mut self) -> u64 {
        let bytes = self.take(8);
        u64_at(bytes, 0, self.record.order).unwrap_or(0)
    }

    fn u32(&mut self) -> u32 {
        let bytes = self.take(4);
        u32_at(bytes, 0, self.record.order).unwrap_or(0)
    }

    fn u16(&mut self) -> u16 {
        let bytes = self.take(2);
        tracemill_codec::bits::u16_at(bytes, 0, self.record.order).unwrap_or(0)
    }

    /// Numbers of 64 bits, some of which may not be there.
    fn numbers(&mut self, count: u64) -> impl Iterator<Item = u64> + Clone + use<'b> {
        let order = self.record.order;
        let len = usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(8);
        let bytes = self.take(len);
        bytes.chunks_exact(8).map(move |number| u64_at(number, 0, order).unwrap_or(0))
    }

    /// A text up to its zero, or to the end.
    fn text(&mut self) -> &'b [u8] {
        let rest = self.take(self.end.saturating_sub(self.at));
        &rest[..memchr::memchr(0, rest).unwrap_or(rest.len())]
    }

    fn rest(&mut self) -> &'b [u8] {
        self.take(self.end.saturating_sub(self.at))
    }
}

/// Call chains: numbers that say of what the addresses after them are.
mod context {
    pub(super) const HYPERVISOR: u64 = -32i64 as u64;
    pub(super) const KERNEL: u64 = -128i64 as u64;
    pub(super) const USER: u64 = -512i64 as u64;
    /// The first of them.
    pub(super) const FIRST: u64 = -4095i64 as u64;
}

/// The addresses of a call chain that are of the kernel (or of the user's program), from the innermost on.
fn addresses_of(values: impl Iterator<Item = u64>, first: u64, wanted: u64) -> impl Iterator<Item = u64> {
    let mut now = first;
    values.filter(move |&value| {
        if value >= context::FIRST {
            now = value;
            return false;
        }
        now == wanted
    })
}

/// Call chains with addresses of neither the kernel nor its programs are shown as they are, too.
pub(crate) fn has_other_contexts(mut values: impl Iterator<Item = u64>) -> bool {
    values.any(|value| value >= context::FIRST && value != context::KERNEL && value != context::USER)
}

/// The context of a record's own address.
fn first_context(record: &PerfRecord<'_>) -> u64 {
    match record.misc & misc::CPUMODE {
        misc::KERNEL => context::KERNEL,
        misc::HYPERVISOR | misc::GUEST_KERNEL | misc::GUEST_USER => context::HYPERVISOR,
        _ => context::USER,
    }
}

/// Forms of one event that have classes of their own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) enum RecordForm {
    /// The usual one.
    #[default]
    Plain,
    /// A sample whose call chain has addresses of a guest or hypervisor; a map with a build id; a switch to another thread.
    Other,
}

/// The form of a record.
pub(crate) fn form_of(record: &PerfRecord<'_>) -> RecordForm {
    let flag = match record.kind {
        kind::MMAP2 => misc::MMAP_BUILD_ID,
        kind::SWITCH_CPU_WIDE => misc::SWITCH_OUT,
        _ => 0,
    };
    if record.misc & flag != 0 { RecordForm::Other } else { RecordForm::Plain }
}

/// The fields of a sample but who it is of and when. Gives its raw bytes, which are fields only where no format says what
/// is in them.
pub(crate) fn sample_fields<'b, S: FieldSink>(
    sink: &mut S,
    attr: &PerfAttr,
    parts: &mut RecordParts<'_, 'b>,
    form: Option<RecordForm>,
    shows: SampleParts,
) -> (&'b [u8], RecordForm) {
    let has = |part: u64| attr.has(part);
    let (mut raw, mut found) = (&[][..], form.unwrap_or_default());
    if has(part::IDENTIFIER) {
        sink.number("id", Number::U64, parts.u64());
    }
    if has(part::IP) {
        let ip = parts.u64();
        sink.number("ip", Number::Address, ip);
        if let Some(time) = shows.place_at {
            sink.place("bin", ip, time);
        }
    }
    if has(part::TID) {
        parts.take(8);
    }
    if has(part::TIME) {
        parts.take(8);
    }
    if has(part::ADDR) {
        sink.number("addr", Number::Address, parts.u64());
    }
    if has(part::ID) {
        let id = parts.u64();
        if !has(part::IDENTIFIER) {
            sink.number("id", Number::U64, id);
        }
    }
    if has(part::STREAM_ID) {
        sink.number("stream_id", Number::U64, parts.u64());
    }
    if has(part::CPU) {
        let cpu = parts.u32();
        parts.u32();
        if shows.cpu {
            sink.number("cpu", Number::U32, cpu.into());
        }
    }
    if has(part::PERIOD) {
        sink.number("period", Number::U64, parts.u64());
    } else if let Some(period) = attr.fixed_period() {
        sink.number("period", Number::U64, period);
    }
    if has(part::READ) {
        read_fields(sink, attr, parts);
    }
    if has(part::CALLCHAIN) {
        let count = parts.u64();
        let chain = parts.numbers(count);
        if form.is_none() && has_other_contexts(chain.clone()) {
            found = RecordForm::Other;
        }
        let first = first_context(parts.record);
        sink.numbers("callchain_kernel", Number::Address, addresses_of(chain.clone(), first, context::KERNEL));
        sink.numbers("callchain_user", Number::Address, addresses_of(chain.clone(), first, context::USER));
        if found == RecordForm::Other {
            sink.numbers("callchain", Number::Address, chain);
        }
    }
    if has(part::RAW) {
        let len = parts.u32() as usize;
        raw = parts.take(len);
        if shows.raw {
            sink.bytes("raw", raw);
        }
    }
    if has(part::BRANCH_STACK) {
        let count = parts.u64();
        if attr.branch_type & BRANCH_HW_INDEX != 0 {
            sink.number("branch_hw_index", Number::U64, parts.u64());
        }
        let branches = parts.numbers(count.saturating_mul(3));
        sink.numbers("branch_from", Number::Address, branches.clone().step_by(3));
        sink.numbers("branch_to", Number::Address, branches.clone().skip(1).step_by(3));
        sink.numbers("branch_flags", Number::Address, branches.skip(2).step_by(3));
        if attr.branch_type & BRANCH_COUNTERS != 0 {
            sink.numbers("branch_counters", Number::U64, parts.numbers(count));
        }
    }
    if has(part::REGS_USER) {
        registers(sink, parts, attr.regs_user, ("user_abi", "user_regs"));
    }
    if has(part::STACK_USER) {
        let size = parts.u64();
        let stack = parts.take(usize::try_from(size).unwrap_or(usize::MAX));
        let used = if size > 0 { parts.u64() } else { 0 };
        // Beyond what is used the kernel leaves what was there before.
        sink.bytes("user_stack", &stack[..stack.len().min(usize::try_from(used).unwrap_or(usize::MAX))]);
    }
    if has(part::WEIGHT_STRUCT) {
        let weight = parts.u64();
        sink.number("weight", Number::U32, weight & 0xffff_ffff);
        sink.number("weight2", Number::U16, weight >> 32 & 0xffff);
        sink.number("weight3", Number::U16, weight >> 48);
    } else if has(part::WEIGHT) {
        sink.number("weight", Number::U64, parts.u64());
    }
    if has(part::DATA_SRC) {
        sink.number("data_src", Number::Address, parts.u64());
    }
    if has(part::TRANSACTION) {
        sink.number("transaction", Number::Address, parts.u64());
    }
    if has(part::REGS_INTR) {
        registers(sink, parts, attr.regs_intr, ("intr_abi", "intr_regs"));
    }
    let last = [
        (part::PHYS_ADDR, "phys_addr", Number::Address),
        (part::CGROUP, "cgroup", Number::U64),
        (part::DATA_PAGE_SIZE, "data_page_size", Number::U64),
        (part::CODE_PAGE_SIZE, "code_page_size", Number::U64),
    ];
    for (part, name, number) in last {
        if has(part) {
            sink.number(name, number, parts.u64());
        }
    }
    if has(part::AUX) {
        let size = parts.u64();
        sink.bytes("aux", parts.take(usize::try_from(size).unwrap_or(usize::MAX)));
    }
    (raw, found)
}

/// Parts of samples that are not fields everywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SampleParts {
    /// The raw bytes, where no format says what is in them.
    pub(crate) raw: bool,
    /// The CPU, where the stream is not that of a CPU.
    pub(crate) cpu: bool,
    /// The place of the address in its file: of samples that are not tracepoints and have a process. The time.
    pub(crate) place_at: Option<u64>,
}

/// Registers: none of them when the kind of machine code is 0.
fn registers<S: FieldSink>(
    sink: &mut S,
    parts: &mut RecordParts<'_, '_>,
    mask: u64,
    (abi_name, name): (&'static str, &'static str),
) {
    let abi = parts.u64();
    sink.number(abi_name, Number::U64, abi);
    let count = if abi == 0 { 0 } else { mask.count_ones() };
    sink.numbers(name, Number::Address, parts.numbers(count.into()));
}

/// Counts of the event, or of all events of its group.
fn read_fields<S: FieldSink>(sink: &mut S, attr: &PerfAttr, parts: &mut RecordParts<'_, '_>) {
    let has = |bit: u64| attr.read_format & bit != 0;
    let is_group = has(read::GROUP);
    let count = if is_group { parts.u64() } else { 1 };
    let first = if is_group { 0 } else { parts.u64() };
    if has(read::TOTAL_TIME_ENABLED) {
        sink.number("time_enabled", Number::U64, parts.u64());
    }
    if has(read::TOTAL_TIME_RUNNING) {
        sink.number("time_running", Number::U64, parts.u64());
    }
    let with = usize::from(has(read::ID)) + usize::from(has(read::LOST));
    if !is_group {
        sink.numbers("values", Number::U64, std::iter::once(first));
        if has(read::ID) {
            sink.numbers("value_ids", Number::U64, std::iter::once(parts.u64()));
        }
        if has(read::LOST) {
            sink.numbers("value_lost", Number::U64, std::iter::once(parts.u64()));
        }
        return;
    }
    let all = parts.numbers(count.saturating_mul(1 + with as u64));
    sink.numbers("values", Number::U64, all.clone().step_by(1 + with));
    if has(read::ID) {
        sink.numbers("value_ids", Number::U64, all.clone().skip(1).step_by(1 + with));
    }
    if has(read::LOST) {
        sink.numbers("value_lost", Number::U64, all.skip(with).step_by(1 + with));
    }
}

/// The fields of a record of the kernel that is not a sample.
pub(crate) fn record_fields<S: FieldSink>(
    sink: &mut S,
    attr: Option<&PerfAttr>,
    (kind, form): (u32, RecordForm),
    parts: &mut RecordParts<'_, '_>,
) {
    let flags = parts.record.misc;
    let who = |sink: &mut S, parts: &mut RecordParts<'_, '_>, names: [&'static str; 2]| {
        names.into_iter().for_each(|name| sink.number(name, Number::I32, parts.u32().into()));
    };
    match kind {
        kind::MMAP | kind::MMAP2 => {
            who(sink, parts, ["pid", "tid"]);
            sink.number("addr", Number::Address, parts.u64());
            sink.number("len", Number::Address, parts.u64());
            sink.number("pgoff", Number::Address, parts.u64());
            if kind == kind::MMAP {
                sink.flag("data", flags & misc::MMAP_DATA != 0);
            } else {
                if form == RecordForm::Other {
                    let len = usize::from(parts.take(1).first().copied().unwrap_or(0));
                    parts.take(3);
                    let id = parts.take(20);
                    sink.text("build_id", tracemill_codec::text::hex(&id[..id.len().min(len)]).as_bytes());
                } else {
                    sink.number("maj", Number::U32, parts.u32().into());
                    sink.number("min", Number::U32, parts.u32().into());
                    sink.number("ino", Number::U64, parts.u64());
                    sink.number("ino_generation", Number::U64, parts.u64());
                }
                sink.number("prot", Number::U32, parts.u32().into());
                sink.number("flags", Number::U32, parts.u32().into());
            }
            sink.text("filename", parts.text());
        }
        kind::LOST => {
            sink.number("id", Number::U64, parts.u64());
            sink.number("lost", Number::U64, parts.u64());
        }
        kind::COMM => {
            who(sink, parts, ["pid", "tid"]);
            sink.flag("exec", flags & misc::COMM_EXEC != 0);
            sink.text("comm", parts.text());
        }
        kind::FORK | kind::EXIT => {
            who(sink, parts, ["pid", "ppid"]);
            who(sink, parts, ["tid", "ptid"]);
        }
        kind::THROTTLE | kind::UNTHROTTLE => {
            parts.take(8);
            sink.number("id", Number::U64, parts.u64());
            sink.number("stream_id", Number::U64, parts.u64());
        }
        kind::READ => {
            who(sink, parts, ["pid", "tid"]);
            read_fields(sink, attr.unwrap_or(&PerfAttr::default()), parts);
        }
        kind::AUX => {
            sink.number("aux_offset", Number::Address, parts.u64());
            sink.number("aux_size", Number::Address, parts.u64());
            sink.number("flags", Number::Address, parts.u64());
        }
        kind::ITRACE_START => who(sink, parts, ["pid", "tid"]),
        kind::LOST_SAMPLES => {
            sink.number("lost", Number::U64, parts.u64());
            sink.flag("filtered", flags & misc::LOST_SAMPLES_BPF != 0);
        }
        kind::SWITCH | kind::SWITCH_CPU_WIDE => {
            sink.flag("out", flags & misc::SWITCH_OUT != 0);
            sink.flag("preempt", flags & misc::SWITCH_PREEMPT != 0);
            match (kind, form) {
                (kind::SWITCH, _) => {}
                (_, RecordForm::Other) => who(sink, parts, ["next_pid", "next_tid"]),
                (_, RecordForm::Plain) => who(sink, parts, ["prev_pid", "prev_tid"]),
            }
        }
        kind::NAMESPACES => {
            who(sink, parts, ["pid", "tid"]);
            let count = parts.u64();
            let all = parts.numbers(count.saturating_mul(2));
            sink.numbers("dev", Number::U64, all.clone().step_by(2));
            sink.numbers("ino", Number::U64, all.skip(1).step_by(2));
        }
        kind::KSYMBOL => {
            sink.number("addr", Number::Address, parts.u64());
            sink.number("len", Number::U32, parts.u32().into());
            sink.number("type", Number::U16, parts.u16().into());
            sink.number("flags", Number::U16, parts.u16().into());
            sink.text("name", parts.text());
        }
        kind::BPF_EVENT => {
            sink.number("type", Number::U16, parts.u16().into());
            sink.number("flags", Number::U16, parts.u16().into());
            sink.number("id", Number::U32, parts.u32().into());
            sink.text("tag", tracemill_codec::text::hex(parts.take(8)).as_bytes());
        }
        kind::CGROUP => {
            sink.number("id", Number::U64, parts.u64());
            sink.text("path", parts.text());
        }
        kind::TEXT_POKE => {
            sink.number("addr", Number::Address, parts.u64());
            let (old, new) = (parts.u16().into(), parts.u16().into());
            sink.bytes("old_bytes", parts.take(old));
            sink.bytes("new_bytes", parts.take(new));
        }
        kind::AUXTRACE_ERROR => {
            for name in ["type", "code", "cpu"] {
                sink.number(name, Number::U32, parts.u32().into());
            }
            who(sink, parts, ["pid", "tid"]);
            parts.take(4);
            sink.number("ip", Number::Address, parts.u64());
            sink.number("time", Number::U64, parts.u64());
            sink.text("msg", parts.text());
        }
        kind::STAT => {
            sink.number("id", Number::U64, parts.u64());
            sink.number("cpu", Number::I32, parts.u32().into());
            sink.number("thread", Number::I32, parts.u32().into());
            for name in ["value", "enabled", "running"] {
                sink.number(name, Number::U64, parts.u64());
            }
        }
        kind::STAT_ROUND => {
            sink.number("type", Number::U64, parts.u64());
            sink.number("time", Number::U64, parts.u64());
        }
        kind::AUX_OUTPUT_HW_ID => sink.number("hw_id", Number::Address, parts.u64()),
        kind::CALLCHAIN_DEFERRED => {
            sink.number("cookie", Number::Address, parts.u64());
            let count = parts.u64();
            let chain = parts.numbers(count);
            sink.numbers("callchain_user", Number::Address, addresses_of(chain, context::USER, context::USER));
        }
        _ => sink.bytes("record", parts.rest()),
    }
}

/// The bytes of an event: fields of fixed size in their order, then its tracepoint, then what other fields point to.
#[derive(Debug, Default)]
pub(crate) struct EventBytes {
    fixed: Vec<u8>,
    tail: Vec<u8>,
    /// Where in `fixed` places in `tail` stand.
    places: Vec<usize>,
}

impl EventBytes {
    /// Forgets the event before.
    pub(crate) fn clear(&mut self) {
        self.fixed.clear();
        self.tail.clear();
        self.places.clear();
    }

    fn locate(&mut self, len: usize) {
        self.places.push(self.fixed.len());
        push_locator(&mut self.fixed, self.tail.len(), len);
    }

    /// Appends the event to `out`, with the record of its tracepoint; calls `wrong` for each field of that that is not all
    /// there.
    pub(crate) fn finish(
        &mut self,
        out: &mut Vec<u8>,
        tracepoint: Option<(&RecordLayout, &[u8], Machine)>,
        wrong: impl FnMut(&str),
    ) {
        let (start, mut wrong) = (out.len(), wrong);
        out.extend_from_slice(&self.fixed);
        if let Some((layout, record, machine)) = tracepoint {
            layout.copy(record, machine, self.fixed.len(), out, |field| wrong(&field.name));
        }
        let base = out.len() - start;
        for &at in &self.places {
            let place = start + at;
            if let Some(offset) = out.get(place..).and_then(|bytes| bytes.first_chunk::<4>()) {
                let offset = u32::from_le_bytes(*offset) as usize + base;
                out[place..place + 4].copy_from_slice(&(offset as u32).to_le_bytes());
            }
        }
        out.extend_from_slice(&self.tail);
    }
}

impl FieldSink for EventBytes {
    #[inline]
    fn number(&mut self, _name: &'static str, number: Number, value: u64) {
        self.fixed.extend_from_slice(&value.to_le_bytes()[..number.bytes()]);
    }

    fn flag(&mut self, _name: &'static str, value: bool) {
        self.fixed.push(value.into());
    }

    fn text(&mut self, name: &'static str, value: &[u8]) {
        self.bytes(name, value);
    }

    fn numbers(&mut self, _name: &'static str, number: Number, values: impl Iterator<Item = u64>) {
        let begin = self.tail.len();
        values.for_each(|value| self.tail.extend_from_slice(&value.to_le_bytes()[..number.bytes()]));
        let count = (self.tail.len() - begin) / number.bytes();
        self.places.push(self.fixed.len());
        push_locator(&mut self.fixed, begin, count);
    }

    fn bytes(&mut self, _name: &'static str, value: &[u8]) {
        self.locate(value.len());
        self.tail.extend_from_slice(value);
    }

    fn place(&mut self, _name: &'static str, address: u64, time: u64) {
        self.fixed.extend_from_slice(&address.to_le_bytes());
        self.fixed.extend_from_slice(&time.to_le_bytes());
    }

    fn comm(&mut self, number: u32) {
        self.fixed.extend_from_slice(&number.to_le_bytes());
    }
}
