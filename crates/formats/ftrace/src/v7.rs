//! Version 7: sections anywhere in the file, found through lists of options, packed or not.

use std::borrow::Cow;
use std::collections::HashSet;

use tracemill_model::error::{Error, Result};

use super::bytes::ByteReader;
use super::compression::{Algorithm, MAX_SECTION_BYTES};
use super::container::{Buffer, Container, CpuData, MAX_CPUS, is_page_size};
use super::options::{clock_of, id};

/// Flag of a section: its content is packed.
const PACKED: u16 = 1;
/// Lists of options that a file may have.
const MAX_LISTS: usize = 10_000;

/// Reads everything after the size of a page. A section that cannot be read costs that section.
///
/// # Errors
/// When the file ends before it says where its first section is.
pub(crate) fn read(container: &mut Container, reader: &mut ByteReader<'_>, file: &[u8]) -> Result<()> {
    let name = reader.string("the name of the compression")?;
    let version = reader.string("the version of the compression")?;
    let algorithm = match Algorithm::parse(&name) {
        Ok(algorithm) => algorithm,
        Err(error) => {
            container.fault(error.at_offset(reader.offset()));
            None
        }
    };
    if name != "none" {
        container.compression = Some((name, version));
    }
    let first = reader.u64("the place of the first options")?;
    let sections = Sections { file, algorithm, order: container.byte_order };
    let mut places = SectionPlaces::default();
    read_lists(container, &sections, first, &mut places);
    // Fields are read with what the header says of the kernel.
    let steps: [(u16, Take); 6] = [
        (id::HEADER_INFO, Container::read_header_info),
        (id::FTRACE_EVENTS, Container::read_ftrace_formats),
        (id::EVENT_FORMATS, Container::read_event_formats),
        (id::KALLSYMS, Container::read_symbols),
        (id::PRINTK, Container::read_format_strings),
        (id::CMDLINES, Container::read_comms),
    ];
    for (option, take) in steps {
        for &(_, offset) in places.sections.iter().filter(|&&(id, _)| id == option) {
            let result = sections.open(offset, option).and_then(|section| {
                let mut reader = section.reader();
                take(container, &mut reader)?;
                container.keep_section(option, &section.bytes, &reader);
                Ok(())
            });
            if let Err(error) = result {
                container.fault(error);
            }
        }
    }
    for (mut buffer, offset) in places.buffers {
        match sections.header(offset) {
            Ok((header, _)) => {
                buffer.is_packed = header.is_packed;
                if buffer.is_text {
                    buffer.cpus.push(CpuData { cpu: 0, offset: header.content, len: header.len });
                }
                container.buffers.push(buffer);
            }
            Err(error) => container.fault(error),
        }
    }
    container.buffers.sort_by_key(|buffer| !buffer.name.is_empty());
    Ok(())
}

type Take = fn(&mut Container, &mut ByteReader<'_>) -> Result<()>;

/// Where the options say that sections are.
#[derive(Default)]
struct SectionPlaces {
    sections: Vec<(u16, u64)>,
    buffers: Vec<(Buffer, u64)>,
}

/// The sections of a file.
struct Sections<'f> {
    file: &'f [u8],
    algorithm: Option<Algorithm>,
    order: tracemill_model::schema::ByteOrder,
}

struct SectionHeader {
    id: u16,
    is_packed: bool,
    len: u64,
    /// Offset of its content.
    content: u64,
}

/// A section, unpacked.
struct UnpackedSection<'f> {
    bytes: Cow<'f, [u8]>,
    order: tracemill_model::schema::ByteOrder,
    offset: u64,
}

impl UnpackedSection<'_> {
    fn reader(&self) -> ByteReader<'_> {
        match &self.bytes {
            Cow::Borrowed(bytes) => ByteReader::new(bytes, self.order, self.offset),
            Cow::Owned(bytes) => ByteReader::for_unpacked(bytes, self.order, self.offset),
        }
    }
}

impl<'f> Sections<'f> {
    fn header(&self, offset: u64) -> Result<(SectionHeader, ByteReader<'f>)> {
        let mut reader = ByteReader::new(self.file, self.order, 0);
        reader.take(offset, "what lies before a section")?;
        let id = reader.u16("the number of a section")?;
        let flags = reader.u16("the flags of a section")?;
        reader.u32("the description of a section")?;
        let len = reader.u64("the size of a section")?;
        Ok((SectionHeader { id, is_packed: flags & PACKED != 0, len, content: reader.offset() }, reader))
    }

    fn open(&self, offset: u64, expected: u16) -> Result<UnpackedSection<'f>> {
        let (header, mut reader) = self.header(offset)?;
        if header.id != expected {
            let message = format!("section {} where options say that section {expected} is", header.id);
            return Err(Error::malformed(message).at_offset(offset));
        }
        let content = reader.take(header.len, "the content of a section")?;
        if !header.is_packed {
            return Ok(UnpackedSection { bytes: Cow::Borrowed(content), order: self.order, offset: header.content });
        }
        let Some(algorithm) = self.algorithm else {
            let message = format!("section {} is packed, and the file does not say how", header.id);
            return Err(Error::malformed(message).at_offset(offset));
        };
        let mut reader = ByteReader::new(content, self.order, header.content);
        let packed = reader.u32("the packed size of a section")?;
        let len = reader.u32("the size of a section")?;
        let packed = reader.take(packed.into(), "a packed section")?;
        let bytes =
            algorithm.unpack(packed, len.into(), MAX_SECTION_BYTES).map_err(|error| error.at_offset(header.content))?;
        Ok(UnpackedSection { bytes: Cow::Owned(bytes), order: self.order, offset: header.content })
    }
}

/// Reads the lists of options, each of which says where the next one is.
fn read_lists(container: &mut Container, sections: &Sections<'_>, first: u64, places: &mut SectionPlaces) {
    let (mut next, mut seen) = (first, HashSet::new());
    while next != 0 {
        if !seen.insert(next) || seen.len() > MAX_LISTS {
            let message = format!("the list of options at {next} is its own successor");
            return container.fault(Error::malformed(message).at_offset(next));
        }
        let list =
            sections.open(next, id::DONE).and_then(|section| read_list(container, &mut section.reader(), places));
        match list {
            Ok(after) => next = after,
            Err(error) => return container.fault(error.with_help("options after it are not found")),
        }
    }
}

/// Reads one list; where the next one is, or 0.
fn read_list(container: &mut Container, reader: &mut ByteReader<'_>, places: &mut SectionPlaces) -> Result<u64> {
    loop {
        let option = reader.u16("the number of an option")?;
        let len = reader.u32("the size of an option")?;
        let offset = reader.offset();
        let content = reader.take(len.into(), "an option")?;
        let mut inside = ByteReader::new(content, container.byte_order, offset);
        let result = match option {
            id::DONE => return inside.u64("the place of the next options"),
            id::BUFFER => read_buffer(&mut inside).map(|buffer| places.buffers.push(buffer)),
            id::BUFFER_TEXT => read_text_buffer(&mut inside).map(|buffer| places.buffers.push(buffer)),
            id::HEADER_INFO..=id::CMDLINES => {
                inside.u64("the place of a section").map(|at| places.sections.push((option, at)))
            }
            _ => {
                container.raw.options.push((option, content.to_vec()));
                container.options.apply_option(option, content, container.byte_order, offset).map(drop)
            }
        };
        if let Err(error) = result {
            container.fault(error.with_help("the option is skipped"));
        }
    }
}

/// A buffer, and where its section is.
fn read_buffer(reader: &mut ByteReader<'_>) -> Result<(Buffer, u64)> {
    let (mut buffer, at) = read_text_buffer(reader)?;
    buffer.is_text = false;
    let offset = reader.offset();
    buffer.page_bytes = reader.u32("the size of a page")?;
    if !is_page_size(buffer.page_bytes) {
        return Err(Error::malformed(format!("a page of {} bytes", buffer.page_bytes)).at_offset(offset));
    }
    let count = reader.u32("the number of CPUs")?;
    if count > MAX_CPUS {
        return Err(Error::unsupported(format!("{count} CPUs, more than {MAX_CPUS}")).at_offset(offset));
    }
    for _ in 0..count {
        let cpu = reader.u32("the number of a CPU")?;
        let offset = reader.u64("the place of the data of a CPU")?;
        let len = reader.u64("the size of the data of a CPU")?;
        buffer.cpus.push(CpuData { cpu, offset, len });
    }
    Ok((buffer, at))
}

fn read_text_buffer(reader: &mut ByteReader<'_>) -> Result<(Buffer, u64)> {
    let at = reader.u64("the place of a buffer")?;
    let name = reader.string("the name of a buffer")?;
    let clock = clock_of(&reader.string("the clock of a buffer")?);
    let clock = Some(clock).filter(|clock| !clock.is_empty());
    Ok((Buffer { name, clock, is_text: true, ..Buffer::default() }, at))
}
