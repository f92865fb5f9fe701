//! Kernel data: `kernel_header` with the formats of events, and the pages of the kernel's ring buffers in
//! `kernel-cpuN.dat` (`SPEC.md`, section 8).
//!
//! ```text
//! PAGE_SIZE: 4096
//! LONG_SIZE: 8
//! ENDIAN: LE
//! TRACEFS: events/header_page: 205          205 bytes follow, then the next line
//! TRACEFS: events/sched/sched_switch/format: 1488
//! ```
//!
//! Records of `ftrace:funcgraph_entry` and `ftrace:funcgraph_exit` are calls, all others are events.

use std::collections::BTreeMap;

use tracemill_codec::bits::{u32_at, u64_at};
use tracemill_model::error::Error;
use tracemill_model::packet::Packet;
use tracemill_model::schema::{ByteOrder, StreamClassId};

use super::layout::MAX_ERRORS;
use super::slices;
use tracemill_ftrace::container::CpuData;
use tracemill_ftrace::event_format::{Content, ContentPlace, EventFormat, FormatField, Machine};
use tracemill_ftrace::packets::{self, PacketPlaces, StreamInfo};
use tracemill_ftrace::print_format::PrintFormat;
use tracemill_ftrace::ring_buffer::{MAX_PAGE_BYTES, Missed, PageLayout, Record, Records};

/// The smallest page that can be one: header and a record.
const MIN_PAGE_BYTES: usize = 64;
/// Name of the module of the kernel's symbols.
pub(super) const MODULE: &str = "[kernel]";

/// The contents of `kernel_header`.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    pub layout: PageLayout,
    /// By id.
    pub formats: BTreeMap<u16, KernelFormat>,
}

/// The format of one event.
#[derive(Clone, Debug)]
pub(super) struct KernelFormat {
    pub format: EventFormat,
    /// `sched:sched_switch`.
    pub name: String,
    /// The fields of a call, when its records are calls.
    pub call: Option<CallForm>,
    pub print: PrintFormat,
    /// Bytes that a record has at least.
    pub min_bytes: usize,
    /// The field with the task that a record is of, and those with tasks that it may be about.
    task: Option<FormatField>,
    others: [Option<FormatField>; 2],
    /// Where the numbers of a call stand, when they have the usual sizes.
    places: Option<CallPlaces>,
}

/// Where records of a kernel of 64 bits have the numbers of a call.
#[derive(Clone, Copy, Debug)]
struct CallPlaces {
    function: usize,
    depth: usize,
    task: usize,
    is_exit: bool,
}

impl CallPlaces {
    fn from_form(call: &CallForm, task: Option<&FormatField>) -> Option<CallPlaces> {
        let place = |field: &FormatField, bytes: u32| (field.size == bytes).then_some(field.offset as usize);
        let is_number = |field: &&FormatField| matches!(field.content, Content::Integer(element) if element.signed);
        let task = task.filter(is_number).and_then(|task| place(task, 4))?;
        Some(CallPlaces {
            function: place(&call.function, 8)?,
            depth: place(&call.depth, 4)?,
            task,
            is_exit: call.is_exit,
        })
    }

    /// Task, address and depth.
    #[inline]
    fn read(&self, record: &[u8], order: ByteOrder) -> Option<(i64, u64, u16)> {
        let task = u32_at(record, self.task, order)? as i32;
        let depth = u32_at(record, self.depth, order)?;
        Some((task.into(), u64_at(record, self.function, order)?, u16::try_from(depth).unwrap_or(u16::MAX)))
    }
}

/// The fields of a call that matter.
#[derive(Clone, Debug)]
pub(super) struct CallForm {
    pub is_exit: bool,
    pub function: FormatField,
    pub depth: FormatField,
    /// Its arguments or its return value, where the kernel stores some.
    pub value: Option<FormatField>,
}

impl Kernel {
    /// Reads the file; what is wrong is pushed to `faults`.
    pub(super) fn read(bytes: &[u8], faults: &mut Vec<Error>) -> Kernel {
        let mut machine = Machine { byte_order: ByteOrder::Little, long_bytes: 8 };
        let (mut page_bytes, mut header_page) = (4096, None);
        let mut texts: Vec<(String, usize, &[u8])> = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let len = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
            let line = String::from_utf8_lossy(&rest[..len]);
            let (start, line) = (at, line.trim_end());
            at += len;
            let mut odd = |message: &str, help: &str| {
                let error = Error::malformed(format!("{message}: `{}`", line.chars().take(80).collect::<String>()));
                faults.push(error.at_offset(start as u64).with_help(help.to_string()));
            };
            let (key, value) = line.split_once(':').map_or((line, ""), |(key, value)| (key, value.trim()));
            match (key, value) {
                ("PAGE_SIZE", value) => match value.parse() {
                    Ok(size) if (MIN_PAGE_BYTES..=MAX_PAGE_BYTES).contains(&size) => page_bytes = size,
                    _ => odd("a size that no page has", "4096 is taken"),
                },
                ("LONG_SIZE", "4") => machine.long_bytes = 4,
                ("LONG_SIZE", "8") => machine.long_bytes = 8,
                ("ENDIAN", "LE") => machine.byte_order = ByteOrder::Little,
                ("ENDIAN", "BE") => machine.byte_order = ByteOrder::Big,
                ("TRACEFS", value) => {
                    let parsed = value.rsplit_once(": ").map(|(name, len)| (name, len.parse::<usize>()));
                    let Some((name, Ok(wanted))) = parsed else {
                        odd("a line without a name and a length", "reading goes on after it");
                        continue;
                    };
                    let there = bytes.len() - at;
                    if wanted > there {
                        odd("the file ends inside what a line announces", "what is there of it is read");
                    }
                    let text = &bytes[at..at + wanted.min(there)];
                    match name {
                        "events/header_page" => header_page = Some(text),
                        _ => texts.push((name.to_string(), at, text)),
                    }
                    at += text.len();
                }
                ("", "") => {}
                _ => odd("a line that is none of a kernel's header", "it is skipped"),
            }
        }
        let layout = match header_page.map(String::from_utf8_lossy) {
            Some(text) => PageLayout::from_header_page(&text, machine.byte_order, page_bytes).unwrap_or_else(|error| {
                faults.push(error.with_help("pages are read as those of all known kernels"));
                PageLayout::new(machine, page_bytes)
            }),
            None => PageLayout::new(machine, page_bytes),
        };
        let mut kernel = Kernel { layout, formats: BTreeMap::new() };
        for (name, at, text) in texts {
            if let Err(error) = kernel.add(&name, text, machine) {
                faults.push(error.at_offset(at as u64).with_help(format!("the events of `{name}` are shown as bytes")));
            }
        }
        kernel
    }

    fn add(&mut self, path: &str, text: &[u8], machine: Machine) -> Result<(), Error> {
        let mut parts = path.split('/');
        let (Some("events"), Some(system), Some(_), Some("format")) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            // Other files say nothing about events.
            return Ok(());
        };
        let format = EventFormat::parse(&String::from_utf8_lossy(text), machine)?;
        let call = CallForm::from_format(system, &format);
        let print = PrintFormat::parse(&format, machine);
        let name = format!("{system}:{}", format.name);
        if let Some(known) = self.formats.get(&format.id) {
            let message = format!("the number {} of `{name}` is that of `{}`", format.id, known.name);
            return Err(Error::inconsistent(message));
        }
        let [task, next, other] = ["common_pid", "next_pid", "pid"].map(|name| format.field(name).cloned());
        let others = [next, other];
        let min_bytes = format.min_bytes() as usize;
        let places = call.as_ref().and_then(|call| CallPlaces::from_form(call, task.as_ref()));
        self.formats.insert(format.id, KernelFormat { format, name, call, print, min_bytes, task, others, places });
        Ok(())
    }

    /// The formats, by id.
    pub(super) fn formats(&self) -> impl Iterator<Item = &KernelFormat> {
        self.formats.values()
    }

    /// The format of an id.
    pub(super) fn format(&self, id: u64) -> Option<&KernelFormat> {
        self.formats.get(&u16::try_from(id).ok()?)
    }

    pub(super) fn machine(&self) -> Machine {
        self.layout.machine
    }

    /// The id of a record, when it has one, and its format, when that is known and fits.
    pub(super) fn format_of(&self, record: &[u8]) -> Option<(u16, Option<&KernelFormat>)> {
        let id = self.machine().number(record.get(..2)?) as u16;
        let format = self.formats.get(&id).filter(|known| record.len() >= known.min_bytes);
        Some((id, format))
    }

    /// The task of a record. Where that one was not traced, it may be about one that was.
    #[inline]
    pub(super) fn tid(&self, known: Option<&KernelFormat>, record: &[u8], is_traced: impl Fn(i64) -> bool) -> i64 {
        let machine = self.machine();
        let number = |field: &FormatField| i64::try_from(field.integer(record, machine)?).ok();
        // Where every kernel has it, whatever is left of a format.
        let usual = || record.get(4..8).map(|bytes| i64::from(machine.number(bytes) as u32 as i32));
        let own = known.and_then(|known| number(known.task.as_ref()?)).or_else(usual);
        let own = own.unwrap_or(-1);
        let Some(known) = known.filter(|known| known.call.is_none() && !is_traced(own)) else {
            return own;
        };
        let mut others = known.others.iter().flatten().filter_map(number);
        others.find(|&tid| is_traced(tid)).unwrap_or(own)
    }

    /// The pages of a file with all records from one time to another, as far as they are in order: where the first
    /// begins and the last ends. Of a file of any length a few pages are looked at.
    ///
    /// Of a page whose header says an earlier time than those before it, or a later one than those after it, nothing
    /// is concluded: it may be damaged.
    pub(super) fn pages_around(&self, bytes: &[u8], between: (u64, u64)) -> (usize, usize) {
        let size = self.layout.page_bytes;
        let time = |page: usize| {
            let header = bytes.get(page * size..)?.get(..size).and_then(|bytes| self.layout.page(bytes).ok())?;
            // Pages without records tell no time.
            (header.bad_commit.is_none() && !header.records.is_empty()).then_some(header.time)
        };
        let count = bytes.len().div_ceil(size);
        let is_ordered = |page: usize| {
            let near = page.saturating_sub(ORDERED_PAGES)..count.min(page + ORDERED_PAGES + 1);
            near.map(time).try_fold(0, |before, time| time.filter(|&time| before <= time)).is_some()
        };
        let first = time(0).unwrap_or(0);
        slices::search(bytes.len(), slices::NEAR.max(2 * size), first, between, |place, high, _| {
            let page = place.div_ceil(size);
            let tries = (page..count).take(PAGE_TRIES).take_while(|&next| next == page || next * size < high);
            tries.into_iter().find(|&page| is_ordered(page)).and_then(|page| Some((page * size, time(page)?)))
        })
    }

    /// Packets of a file, and what is known of its stream.
    /// Unless packets are wanted they are one.
    pub(super) fn packets(
        &self,
        bytes: &[u8],
        cpu: u32,
        class: StreamClassId,
        is_cut: bool,
    ) -> (Vec<Packet>, StreamInfo) {
        let info = StreamInfo::from_pages(cpu, self.layout);
        let is_used = |page: &[u8]| self.layout.page(page).map_or(true, |page| !page.records.is_empty());
        let packets = match is_cut {
            true => packets::in_file(bytes, CpuData { cpu, offset: 0, len: bytes.len() as u64 }, &info, class),
            false if bytes.chunks(self.layout.page_bytes).any(is_used) => {
                vec![Packet::new(class, 0, bytes.len() as u64 * 8)]
            }
            false => Vec::new(),
        };
        (packets, info)
    }
}

impl CallForm {
    fn from_format(system: &str, format: &EventFormat) -> Option<CallForm> {
        let is_fixed =
            |field: &&FormatField| field.place == ContentPlace::Fixed && matches!(field.content, Content::Integer(_));
        let number = |name: &str| format.field(name).filter(is_fixed).cloned();
        let (is_exit, value) = match (system, format.name.as_str()) {
            ("ftrace", "funcgraph_entry") => {
                (false, format.field("args").filter(|field| field.place == ContentPlace::Rest).cloned())
            }
            ("ftrace", "funcgraph_exit") => (true, number("retval")),
            _ => return None,
        };
        Some(CallForm { is_exit, function: number("func")?, depth: number("depth")?, value })
    }

    /// Address and depth of a call, and is it left?
    #[inline]
    pub(super) fn read(&self, record: &[u8], machine: Machine) -> (u64, u16, bool) {
        let number = |field: &FormatField| field.integer(record, machine).unwrap_or(0) as u64;
        let address = number(&self.function);
        (address, u16::try_from(number(&self.depth)).unwrap_or(u16::MAX), self.is_exit)
    }
}

/// A record as those who follow calls see it.
pub(super) struct KernelRecord {
    pub time: u64,
    pub tid: i64,
    pub id: u16,
    /// A call: its address, depth, and is it left?
    pub call: Option<(u64, u16, bool)>,
    /// Where its bytes are in the file.
    pub from: usize,
    pub len: usize,
    /// Records that were lost before it on its processor: their number, 0 when it is unknown.
    pub lost: Option<u64>,
}

/// Pages before and after one that must be in order with it for its time to be believed.
const ORDERED_PAGES: usize = 2;
/// Pages that are tried for one.
const PAGE_TRIES: usize = 16;

/// Goes through the records of one processor.
pub(super) struct CpuRecords<'a> {
    kernel: &'a Kernel,
    bytes: &'a [u8],
    /// The next page.
    page: usize,
    records: Option<Records<'a>>,
    /// Where the page of `records` begins.
    base: usize,
    lost: Option<u64>,
    pub(super) faults: Vec<Error>,
    /// The formats that were met last, by the ends of their ids.
    recent: [Option<(u16, &'a KernelFormat)>; RECENT_FORMATS],
}

/// A power of two.
const RECENT_FORMATS: usize = 8;

impl<'a> CpuRecords<'a> {
    pub(super) fn new(kernel: &'a Kernel, bytes: &'a [u8]) -> Self {
        CpuRecords::from_pages(kernel, bytes, (0, bytes.len()))
    }

    /// The records of some pages of the file, from where the first one begins to where the last one ends.
    pub(super) fn from_pages(kernel: &'a Kernel, bytes: &'a [u8], (from, to): (usize, usize)) -> Self {
        let bytes = &bytes[..to.min(bytes.len())];
        let recent = [None; RECENT_FORMATS];
        CpuRecords { kernel, bytes, page: from, records: None, base: from, lost: None, faults: Vec::new(), recent }
    }

    /// As [`Kernel::format_of`].
    #[inline]
    fn format_of(&mut self, record: &[u8]) -> Option<(u16, Option<&'a KernelFormat>)> {
        let id = self.kernel.machine().number(record.get(..2)?) as u16;
        let recent = &mut self.recent[usize::from(id) % RECENT_FORMATS];
        let known = match *recent {
            Some((of, format)) if of == id => Some(format),
            _ => {
                let format = self.kernel.formats.get(&id);
                *recent = format.map(|format| (id, format)).or(*recent);
                format
            }
        };
        Some((id, known.filter(|known| record.len() >= known.min_bytes)))
    }

    /// The task of the last record of a file from a page on.
    pub(super) fn last_task(
        kernel: &'a Kernel,
        bytes: &'a [u8],
        from: usize,
        is_traced: impl Fn(i64) -> bool,
    ) -> Option<i64> {
        let pages = (from..bytes.len()).step_by(kernel.layout.page_bytes).rev();
        let last_of = |page: usize| {
            let mut records = CpuRecords::from_pages(kernel, bytes, (page, page + kernel.layout.page_bytes));
            std::iter::from_fn(|| records.next(&is_traced)).last().map(|record| record.tid)
        };
        pages.into_iter().find_map(last_of)
    }

    /// The next record.
    #[inline]
    pub(super) fn next(&mut self, is_traced: impl Fn(i64) -> bool) -> Option<KernelRecord> {
        loop {
            let record = match self.records.as_mut().and_then(Records::next_short) {
                Some(record) => record,
                None => match self.next_any()? {
                    Some(record) => record,
                    None => continue,
                },
            };
            let from = self.base + record.offset;
            let Some(bytes) = self.bytes.get(from..from + record.len) else { continue };
            let Some((id, known)) = self.format_of(bytes) else { continue };
            let places = known.and_then(|known| known.places);
            let quick = places.and_then(|places| places.read(bytes, self.kernel.machine().byte_order));
            let (tid, call) = match (quick, known) {
                (Some((tid, address, depth)), _) => (tid, Some((address, depth, places.is_some_and(|of| of.is_exit)))),
                (None, None) if self.kernel.formats.contains_key(&id) => {
                    let message = format!("a record of {} bytes is shorter than its format says", bytes.len());
                    self.fault(Error::malformed(message).at_offset(from as u64).with_help("the event is skipped"));
                    continue;
                }
                _ => {
                    let of_call = known.and_then(|known| known.call.as_ref());
                    let call = of_call.map(|call| call.read(bytes, self.kernel.machine()));
                    (self.kernel.tid(known, bytes, is_traced), call)
                }
            };
            let (time, len, lost) = (record.time, record.len, self.lost.take());
            return Some(KernelRecord { time, tid, id, call, from, len, lost });
        }
    }

    /// The next record of any form, `None` in it when there is none before the next page; `None` at the end.
    #[cold]
    fn next_any(&mut self) -> Option<Option<Record>> {
        match self.records.as_mut().map(Iterator::next) {
            Some(Some(Ok(record))) => return Some(Some(record)),
            Some(Some(Err(error))) => {
                let at = self.base as u64 + error.place().offset.unwrap_or(0);
                self.fault(Error::new(error.kind(), error.message()).at_offset(at));
                self.records = None;
            }
            _ => self.next_page()?,
        }
        Some(None)
    }

    fn next_page(&mut self) -> Option<()> {
        let layout = &self.kernel.layout;
        let rest = self.bytes.get(self.page..).filter(|rest| !rest.is_empty())?;
        let bytes = &rest[..rest.len().min(layout.page_bytes)];
        self.base = self.page;
        self.page += bytes.len();
        match layout.page(bytes) {
            Ok(page) => {
                if let Some(missed) = page.missed {
                    self.lost = Some(match missed {
                        Missed::Some => 0,
                        Missed::Count(count) => count,
                    });
                }
                self.records = Some(layout.records(&page));
                let fault = packets::page_fault(&page, layout, bytes, self.base, &PacketPlaces::InFile(0));
                fault.into_iter().for_each(|fault| self.fault(fault));
            }
            Err(error) => self.fault(error.at_offset(self.base as u64)),
        }
        Some(())
    }

    #[cold]
    fn fault(&mut self, error: Error) {
        if self.faults.len() < MAX_ERRORS {
            self.faults.push(error);
        }
    }
}
