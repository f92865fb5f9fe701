//! Contents of a `trace.dat`: the sections that versions 6 and 7 have in common.

use std::collections::{BTreeMap, HashMap};

use tracemill_model::error::{Error, Result};
use tracemill_model::schema::ByteOrder;

use super::bytes::{ByteReader, text};
use super::event_format::{EventFormat, FormatField, Machine};
use super::format_strings::FormatStrings;
use super::options::TraceOptions;
use super::ring_buffer::{MAX_PAGE_BYTES, PageLayout};
use super::write::sections::{DatSections, SECTIONS};
use super::{v6, v7};
use tracemill_format::Faults;

/// First bytes of every file, before the version.
pub(crate) const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// Faults that are reported one by one for a file.
const MAX_FAULTS: usize = 100;
/// Fields that all formats may have together: a large kernel has some 30,000.
const MAX_FIELDS: usize = 1 << 18;
/// Different sets of common fields that are looked at.
const MAX_COMMON: usize = 16;
/// CPUs that a buffer may have, and all buffers of a file together.
pub(crate) const MAX_CPUS: u32 = 1 << 16;

/// A file, as its sections say.
#[derive(Default)]
pub(crate) struct Container {
    /// Version: 6 or 7.
    pub(crate) version: u32,
    /// Order of the bytes of all numbers.
    pub(crate) byte_order: ByteOrder,
    /// Bytes of a `long` of the programs that were traced.
    pub(crate) long_bytes: u8,
    /// Bytes of a page.
    pub(crate) page_bytes: u32,
    /// How pages are laid out.
    pub(crate) layout: PageLayout,
    /// Formats of events with their systems; the ids differ.
    pub(crate) formats: Vec<(String, EventFormat)>,
    /// Errors of formats that cannot be used, by the number of the event: they matter when such an event occurs.
    pub(crate) unusable: HashMap<u16, Error>,
    /// Format strings of the kernel's code.
    pub(crate) format_strings: FormatStrings,
    /// Names of processes.
    pub(crate) comms: Vec<(i64, String)>,
    /// Options.
    pub(crate) options: TraceOptions,
    /// Buffers: the first is the top one.
    pub(crate) buffers: Vec<Buffer>,
    /// How trace data and sections are packed: algorithm and version.
    pub(crate) compression: Option<(String, String)>,
    /// Errors of parts that cannot be read.
    pub(crate) faults: Faults<MAX_FAULTS>,
    /// Formats whose numbers other formats have too, by that number.
    pub(crate) ambiguous: HashMap<u16, Error>,
    /// The sections as they are, for a writer.
    pub(crate) raw: DatSections,
    /// The text with the kernel's symbols, until all sections are read.
    symbols: Vec<u8>,
    fields: usize,
    /// Places of the formats by the numbers of their events.
    offsets: HashMap<u16, u64>,
}

/// The trace data of one instance of the tracer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Buffer {
    /// Name of the instance; empty for the top one.
    pub(crate) name: String,
    /// Its clock, when it says which.
    pub(crate) clock: Option<String>,
    /// Bytes of its pages.
    pub(crate) page_bytes: u32,
    /// The data of its CPUs.
    pub(crate) cpus: Vec<CpuData>,
    /// Is the data packed?
    pub(crate) is_packed: bool,
    /// Is it text, and not records?
    pub(crate) is_text: bool,
}

/// Where the data of one CPU is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuData {
    /// Number of the CPU.
    pub cpu: u32,
    /// Offset in the file.
    pub offset: u64,
    /// Bytes there.
    pub len: u64,
}

impl Container {
    /// Reads all but the trace data.
    ///
    /// # Errors
    /// When the file is none of these, or ends before it says anything.
    pub(crate) fn read(file: &[u8]) -> Result<Container> {
        // Until the byte order is known only bytes are read.
        let mut reader = ByteReader::new(file, ByteOrder::Little, 0);
        if reader.take(MAGIC.len() as u64, "the magic number")? != MAGIC {
            return Err(Error::malformed("the file does not begin as a trace.dat"));
        }
        let version = reader.string("the version")?;
        let version_number = match version.as_str() {
            "6" => 6,
            "7" => 7,
            _ => {
                let error = Error::unsupported(format!("version `{version}` of trace.dat"));
                return Err(error.with_help("versions 6 and 7 are read"));
            }
        };
        let (mut container, mut reader) = Container::of_machine(file, reader, version_number)?;
        if version_number == 6 {
            v6::read(&mut container, &mut reader, file);
        } else {
            v7::read(&mut container, &mut reader, file)?;
        }
        container.complete_raw();
        container.check_formats();
        let (symbols, machine) = (std::mem::take(&mut container.symbols), container.machine());
        container.format_strings.finish(&symbols, machine);
        container.check_cpus(file.len() as u64);
        Ok(container)
    }

    /// Reads what stands after the version: byte order, size of a long, size of a page. Gives a container without content, and
    /// the reader of the rest.
    pub(crate) fn of_machine<'b>(
        bytes: &'b [u8],
        mut reader: ByteReader<'b>,
        version: u32,
    ) -> Result<(Container, ByteReader<'b>)> {
        let byte_order = match reader.take(1, "the byte order")? {
            [0] => ByteOrder::Little,
            [1] => ByteOrder::Big,
            other => {
                let message = format!("the byte order is {}, neither 0 nor 1", other[0]);
                return Err(Error::malformed(message).at_offset(reader.offset() - 1));
            }
        };
        let long_bytes = reader.take(1, "the size of a long")?[0];
        if !matches!(long_bytes, 4 | 8) {
            let message = format!("a long of {long_bytes} bytes, neither 4 nor 8");
            return Err(Error::malformed(message).at_offset(reader.offset() - 1));
        }
        let mut reader = ByteReader::new(&bytes[reader.position()..], byte_order, reader.offset());
        let page_bytes = reader.u32("the size of a page")?;
        if !is_page_size(page_bytes) {
            let error = Error::malformed(format!("a page of {page_bytes} bytes")).at_offset(reader.offset() - 4);
            return Err(error.with_help("pages have 64 bytes to 4 MiB, a multiple of 4"));
        }
        let machine = Machine { byte_order, long_bytes };
        let container = Container {
            version,
            byte_order,
            long_bytes,
            page_bytes,
            layout: PageLayout::new(machine, page_bytes as usize),
            ..Container::default()
        };
        Ok((container, reader))
    }

    /// Says in the sections what stands before them, and gives those that the file lacks their shortest form.
    fn complete_raw(&mut self) {
        let raw = &mut self.raw;
        (raw.order, raw.long_bytes, raw.page_bytes) = (self.byte_order, self.long_bytes, self.page_bytes);
        (raw.version, raw.is_packed) = (self.version, self.compression.is_some());
        for (section, (number, _)) in raw.sections.iter_mut().zip(SECTIONS) {
            if section.is_empty() {
                section.resize(if number == super::options::id::CMDLINES { 8 } else { 4 }, 0);
            }
        }
    }

    /// Keeps a section as it is: what the reader has read of `before`.
    pub(crate) fn keep_section(&mut self, section: u16, before: &[u8], reader: &ByteReader<'_>) {
        let read = &before[..before.len().saturating_sub(reader.rest().len())];
        if let Some(at) = SECTIONS.iter().position(|(known, _)| *known == section) {
            self.raw.sections[at] = read.to_vec();
        }
    }

    /// The layout of pages and the formats that sections say.
    pub(crate) fn from_sections(sections: &DatSections) -> Container {
        let machine = Machine { byte_order: sections.order, long_bytes: sections.long_bytes };
        let mut container = Container {
            byte_order: sections.order,
            long_bytes: sections.long_bytes,
            page_bytes: sections.page_bytes,
            layout: PageLayout::new(machine, sections.page_bytes as usize),
            ..Container::default()
        };
        let reader = |at: usize| ByteReader::new(&sections.sections[at], sections.order, 0);
        // Faults were reported when the trace was read.
        let _ = container.read_header_info(&mut reader(0));
        let _ = container.read_ftrace_formats(&mut reader(1));
        let _ = container.read_event_formats(&mut reader(2));
        container.check_formats();
        container
    }

    /// Reports a fault, unless too many were reported.
    pub(crate) fn fault(&mut self, error: Error) {
        self.faults.report(|| error);
    }

    /// The kernel whose records these are.
    pub(crate) fn machine(&self) -> Machine {
        self.layout.machine
    }

    /// `header_page`, `header_event`: how pages are laid out.
    pub(crate) fn read_header_info(&mut self, reader: &mut ByteReader<'_>) -> Result<()> {
        for name in ["header_page", "header_event"] {
            let offset = reader.offset();
            let found = reader.string(name)?;
            if found != name {
                let message = format!("found `{}`, expected `{name}`", found.chars().take(40).collect::<String>());
                return Err(Error::malformed(message).at_offset(offset));
            }
            let len = reader.u64("the size of a header")?;
            let offset = reader.offset();
            let content = reader.take(len, name)?;
            // Kernels before 2.6.30 have no such file.
            if name == "header_page" && !content.is_empty() {
                match PageLayout::from_header_page(&text(content), self.byte_order, self.page_bytes as usize) {
                    Ok(layout) => self.layout = layout,
                    Err(error) => {
                        let long = self.long_bytes;
                        let help = format!("pages are read as all kernels with a long of {long} bytes write them");
                        self.fault(error.at_offset(offset).with_help(help));
                    }
                }
            }
        }
        Ok(())
    }

    /// The formats of the tracer's own events.
    pub(crate) fn read_ftrace_formats(&mut self, reader: &mut ByteReader<'_>) -> Result<()> {
        let count = reader.u32("the number of ftrace events")?;
        self.read_formats(reader, "ftrace", count)
    }

    /// The formats of all other events, system by system.
    pub(crate) fn read_event_formats(&mut self, reader: &mut ByteReader<'_>) -> Result<()> {
        for _ in 0..reader.u32("the number of event systems")? {
            let system = reader.string("the name of an event system")?;
            let count = reader.u32("the number of events of a system")?;
            self.read_formats(reader, &system, count)?;
        }
        Ok(())
    }

    fn read_formats(&mut self, reader: &mut ByteReader<'_>, system: &str, count: u32) -> Result<()> {
        for _ in 0..count {
            let len = reader.u64("the size of an event format")?;
            let offset = reader.offset();
            let content = text(reader.take(len, "an event format")?);
            match EventFormat::parse(&content, self.machine()) {
                Ok(format) => self.add_format(system, format, offset),
                Err(error) => {
                    let help = format!("events of this format, of the system `{system}`, are shown as bytes");
                    let error = error.at_offset(offset).with_help(help);
                    // No event can have a format without a number.
                    if let Some(id) = EventFormat::number(&content) {
                        self.unusable.entry(id).or_insert(error);
                    }
                }
            }
        }
        Ok(())
    }

    /// Drops formats that do not fit the others, when all have been read.
    pub(crate) fn check_formats(&mut self) {
        let mut counts: Vec<(&[FormatField], usize)> = Vec::new();
        for (_, format) in &self.formats {
            match counts.iter().position(|(common, _)| *common == format.common) {
                Some(at) => counts[at].1 += 1,
                None if counts.len() < MAX_COMMON => counts.push((&format.common, 1)),
                None => {}
            }
        }
        // Of as many formats the first ones.
        let most = counts.iter().rev().max_by_key(|(_, count)| *count);
        let Some(common) = most.map(|(common, _)| common.to_vec()) else { return };
        let is_odd = |format: &EventFormat| format.common != common;
        for (system, format) in self.formats.extract_if(.., |(_, format)| is_odd(format)) {
            let message = format!("the common fields of `{}` are not those of the other events", format.name);
            let help = format!("events of this format, of the system `{system}`, are shown as bytes");
            let offset = self.offsets.get(&format.id).copied().unwrap_or(0);
            let error = Error::malformed(message).at_offset(offset).with_help(help);
            self.unusable.entry(format.id).or_insert(error);
        }
    }

    fn add_format(&mut self, system: &str, format: EventFormat, offset: u64) {
        let id = format.id;
        if self.offsets.contains_key(&id) {
            // The same event may be in several sections.
            let same = self.formats.iter().find(|(_, other)| other.id == id);
            if let Some((_, other)) = same.filter(|(_, known)| *known != format) {
                let message = format!("`{}` has the number {id} of `{}`", format.name, other.name);
                let error = Error::malformed(message).at_offset(offset).with_help("the first one is taken");
                self.ambiguous.entry(id).or_insert(error);
            }
            return;
        }
        self.offsets.insert(id, offset);
        let is_type = |field: &FormatField| field.name == "common_type" && (field.offset, field.size) == (0, 2);
        self.fields += format.fields.len() + 1;
        let error = if !format.common.iter().any(is_type) {
            Error::malformed(format!("`{}` does not begin with a `common_type` of 2 bytes", format.name))
        } else if self.fields > MAX_FIELDS {
            Error::unsupported(format!("more than {MAX_FIELDS} fields in all formats"))
        } else {
            return self.formats.push((system.to_string(), format));
        };
        self.unusable.entry(id).or_insert(error.at_offset(offset).with_help("its events are shown as bytes"));
    }

    /// Format strings of the kernel's code: lines of an address and a string.
    pub(crate) fn read_format_strings(&mut self, reader: &mut ByteReader<'_>) -> Result<()> {
        let len = reader.u32("the size of the kernel's format strings")?;
        self.format_strings.read(&text(reader.take(len.into(), "the kernel's format strings")?));
        Ok(())
    }

    /// Names of addresses of the kernel, which format strings may ask for.
    pub(crate) fn read_symbols(&mut self, reader: &mut ByteReader<'_>) -> Result<()> {
        let len = reader.u32("the size of the kernel's symbols")?;
        self.symbols = reader.take(len.into(), "the kernel's symbols")?.to_vec();
        Ok(())
    }

    /// Names of processes: lines of a number and a name.
    pub(crate) fn read_comms(&mut self, reader: &mut ByteReader<'_>) -> Result<()> {
        let len = reader.u64("the size of the list of processes")?;
        let content = text(reader.take(len, "the list of processes")?);
        for line in content.lines() {
            if let Some((pid, name)) = line.trim_start().split_once(' ')
                && let Ok(pid) = pid.parse()
            {
                self.comms.push((pid, name.trim_end_matches('\0').to_string()));
            }
        }
        Ok(())
    }

    /// Cuts the data of CPUs to what is there, and drops what overlaps.
    fn check_cpus(&mut self, file_len: u64) {
        let mut faults = Vec::new();
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for buffer in &mut self.buffers {
            let of = if buffer.name.is_empty() { String::new() } else { format!(" of `{}`", buffer.name) };
            for data in &mut buffer.cpus {
                let end = data.offset.saturating_add(data.len);
                if data.len > 0 && end > file_len {
                    let there = file_len.saturating_sub(data.offset);
                    let message = format!("{there} of the {} bytes of CPU {}{of} are there", data.len, data.cpu);
                    faults.push(Error::truncated(message).at_offset(file_len.min(data.offset)));
                    data.len = there;
                }
            }
            for data in buffer.cpus.iter().filter(|data| data.len > 0) {
                ranges.push((data.offset, data.offset + data.len));
            }
        }
        // Data that is said to belong to many CPUs would be read many times.
        ranges.sort_unstable();
        let overlaps: Vec<(u64, u64)> =
            ranges.windows(2).filter(|pair| pair[1].0 < pair[0].1).map(|pair| (pair[1].0, pair[0].1)).collect();
        if let Some(&(begin, _)) = overlaps.first() {
            let mut taken: BTreeMap<u64, u64> = BTreeMap::new();
            for buffer in &mut self.buffers {
                for data in buffer.cpus.iter_mut().filter(|data| data.len > 0) {
                    let end = data.offset + data.len;
                    let before = taken.range(..end).next_back();
                    if before.is_none_or(|(_, &before)| before <= data.offset) {
                        taken.insert(data.offset, end);
                    } else {
                        data.len = 0;
                    }
                }
            }
            let message = format!("the data of {} CPUs overlaps that of others", overlaps.len());
            let error = Error::malformed(message).at_offset(begin);
            faults.push(error.with_help("what belongs to two is read for the first of them"));
        }
        faults.into_iter().for_each(|fault| self.fault(fault));
    }
}

/// Can a page have this size?
pub(crate) fn is_page_size(bytes: u32) -> bool {
    bytes >= 64 && bytes as usize <= MAX_PAGE_BYTES && bytes.is_multiple_of(4)
}
