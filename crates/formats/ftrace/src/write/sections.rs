//! The sections of a file apart from its pages, as both versions hold them, and files made of them.

use std::io::{self, Write};

use tracemill_codec::bits::put_uint;
use tracemill_model::error::Result;
use tracemill_model::schema::{ByteOrder, TracePart};

use crate::container::MAGIC;
use crate::options::id;
use tracemill_format::{OutPath, Spill};

/// The sections in the order of version 6, and the names under which a trace keeps them.
pub(crate) const SECTIONS: [(u16, &str); 6] = [
    (id::HEADER_INFO, "header_info"),
    (id::FTRACE_EVENTS, "ftrace_events"),
    (id::EVENT_FORMATS, "event_formats"),
    (id::KALLSYMS, "kallsyms"),
    (id::PRINTK, "printk"),
    (id::CMDLINES, "cmdlines"),
];
/// The part with the options.
pub(crate) const OPTIONS: &str = "options";
/// The part with what stands before the sections: byte order, size of a long, version, size of a page, is data packed?
pub(crate) const START: &str = "start";

/// Everything but the pages, in the form of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct DatSections {
    pub(crate) order: ByteOrder,
    pub(crate) long_bytes: u8,
    pub(crate) page_bytes: u32,
    pub(crate) version: u32,
    pub(crate) is_packed: bool,
    /// As [`SECTIONS`].
    pub(crate) sections: [Vec<u8>; 6],
    /// Options that say nothing about places in the file.
    pub(crate) options: Vec<(u16, Vec<u8>)>,
}

/// The pages of one CPU of an instance: which text of the spill, and its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct CpuPages {
    pub(super) cpu: u32,
    pub(super) text: usize,
    pub(super) len: u64,
}

/// An instance with its CPUs; the top one has no name.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) name: String,
    pub(super) clock: String,
    pub(super) cpus: Vec<CpuPages>,
}

impl DatSections {
    /// As parts of a trace.
    pub(crate) fn to_parts(&self) -> Vec<TracePart> {
        let big = u8::from(self.order == ByteOrder::Big);
        let mut start = vec![big, self.long_bytes, self.version as u8, u8::from(self.is_packed)];
        start.extend(self.page_bytes.to_le_bytes());
        let mut options = Vec::new();
        for (option, content) in &self.options {
            put_uint(&mut options, (*option).into(), 2, ByteOrder::Little);
            put_uint(&mut options, content.len() as u64, 4, ByteOrder::Little);
            options.extend(content);
        }
        let part = |name: &str, bytes: &[u8]| TracePart { name: name.into(), bytes: bytes.into() };
        let sections = SECTIONS.iter().zip(&self.sections).map(|((_, name), bytes)| part(name, bytes));
        [part(START, &start), part(OPTIONS, &options)].into_iter().chain(sections).collect()
    }

    /// From the parts of a trace; `None` when they are not those of a `trace.dat`.
    pub(super) fn from_parts(parts: &[TracePart]) -> Option<DatSections> {
        let part = |name: &str| parts.iter().find(|part| part.name == name).map(|part| &*part.bytes);
        let start = part(START)?;
        let [big, long_bytes, version, is_packed] = *start.first_chunk()?;
        let page_bytes = u32::from_le_bytes(*start.get(4..)?.first_chunk()?);
        let mut sections: [Vec<u8>; 6] = Default::default();
        for (section, (_, name)) in sections.iter_mut().zip(SECTIONS) {
            *section = part(name)?.to_vec();
        }
        let (mut options, mut rest) = (Vec::new(), part(OPTIONS)?);
        while let Some(head) = rest.first_chunk::<6>() {
            let option = u16::from_le_bytes([head[0], head[1]]);
            let len = u32::from_le_bytes([head[2], head[3], head[4], head[5]]) as usize;
            options.push((option, rest.get(6..6 + len)?.to_vec()));
            rest = &rest[6 + len..];
        }
        Some(DatSections {
            order: if big == 1 { ByteOrder::Big } else { ByteOrder::Little },
            long_bytes,
            page_bytes,
            version: version.into(),
            is_packed: is_packed == 1,
            sections,
            options,
        })
    }

    fn put(&self, out: &mut Vec<u8>, value: u64, len: usize) {
        put_uint(out, value, len, self.order);
    }

    fn start(&self, version: &str) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend(version.bytes());
        out.extend([0, u8::from(self.order == ByteOrder::Big), self.long_bytes]);
        self.put(&mut out, self.page_bytes.into(), 4);
        out
    }

    fn option(&self, out: &mut Vec<u8>, option: u16, content: &[u8]) {
        self.put(out, option.into(), 2);
        self.put(out, content.len() as u64, 4);
        out.extend(content);
    }

    fn padding(&self, at: u64) -> usize {
        (at.next_multiple_of(u64::from(self.page_bytes.max(1))) - at) as usize
    }

    /// Writes a file of version 6. The first instance is the top one.
    pub(super) fn write_v6(&self, path: &OutPath, instances: &[Instance], pages: &mut Spill) -> Result<()> {
        let failed = path.failed(super::WRITING);
        let mut head = self.start("6");
        self.sections.iter().for_each(|section| head.extend(section));
        self.put(&mut head, instances[0].cpus.len() as u64, 4);
        head.extend(b"options  \0");
        self.options.iter().for_each(|(option, content)| self.option(&mut head, *option, content));
        let mut places = Vec::new();
        for instance in &instances[1..] {
            places.push(head.len() + 6);
            let content: Vec<u8> = [0; 8].into_iter().chain(instance.name.bytes()).chain([0]).collect();
            self.option(&mut head, id::BUFFER, &content);
            let mut count = Vec::new();
            self.put(&mut count, instance.cpus.len() as u64, 4);
            self.option(&mut head, id::CPUCOUNT, &count);
        }
        self.put(&mut head, id::DONE.into(), 2);
        // Sizes are known, and so is where each table stands.
        let mut at = head.len() as u64;
        let mut tables = Vec::new();
        for (number, instance) in instances.iter().enumerate() {
            if let Some(place) = number.checked_sub(1) {
                let mut offset = Vec::new();
                self.put(&mut offset, at, 8);
                head[places[place]..places[place] + 8].copy_from_slice(&offset);
            }
            let mut table = b"flyrecord\0".to_vec();
            let mut first = at + table.len() as u64 + instance.cpus.len() as u64 * 16;
            let padding = self.padding(first);
            first += padding as u64;
            at = first;
            for cpu in &instance.cpus {
                self.put(&mut table, at, 8);
                self.put(&mut table, cpu.len, 8);
                at += cpu.len;
            }
            table.resize(table.len() + padding, 0);
            tables.push(table);
        }
        let mut file = path.create(super::WRITING)?;
        file.write_all(&head).map_err(&failed)?;
        for (table, instance) in tables.iter().zip(instances) {
            file.write_all(table).map_err(&failed)?;
            for cpu in &instance.cpus {
                pages.copy(cpu.text, &mut file).map_err(&failed)?;
            }
        }
        file.flush().map_err(&failed)
    }

    /// Writes a file of version 7. The options stand before all other sections, as they have the same size wherever these are.
    pub(super) fn write_v7(
        &self,
        path: &OutPath,
        instances: &[Instance],
        pages: &mut Spill,
        packed: Option<&mut Spill>,
    ) -> Result<()> {
        let failed = path.failed(super::WRITING);
        let is_packed = packed.is_some();
        let mut lens: Vec<Vec<u64>> = instances.iter().map(|of| of.cpus.iter().map(|cpu| cpu.len).collect()).collect();
        let pages = match packed {
            None => pages,
            Some(packed) => {
                for (instance, lens) in instances.iter().zip(&mut lens) {
                    for (cpu, len) in instance.cpus.iter().zip(lens) {
                        *len = self.pack_cpu(*cpu, pages, packed).map_err(&failed)?;
                    }
                }
                packed
            }
        };
        let mut head = self.start("7");
        head.extend(if is_packed { b"zstd\x001.5\0".as_slice() } else { b"none\0\0" });
        let first = head.len() as u64 + 8;
        self.put(&mut head, first, 8);
        let bodies: Vec<Vec<u8>> = self.sections.iter().map(|section| self.body(section, is_packed)).collect();
        // Twice: first for its size.
        let options = self.options_v7(instances, &lens, &bodies, 0, is_packed).0;
        let after = first + HEAD_BYTES + options.len() as u64;
        let (options, paddings) = self.options_v7(instances, &lens, &bodies, after, is_packed);
        self.section_head(&mut head, id::DONE, options.len() as u64, false);
        head.extend(options);
        for ((option, _), body) in SECTIONS.iter().zip(&bodies) {
            self.section_head(&mut head, *option, body.len() as u64, is_packed);
            head.extend(body);
        }
        let mut file = path.create(super::WRITING)?;
        file.write_all(&head).map_err(&failed)?;
        for ((instance, lens), padding) in instances.iter().zip(&lens).zip(paddings) {
            let mut head = Vec::new();
            self.section_head(&mut head, id::BUFFER, padding as u64 + lens.iter().sum::<u64>(), is_packed);
            head.resize(head.len() + padding, 0);
            file.write_all(&head).map_err(&failed)?;
            for cpu in &instance.cpus {
                pages.copy(cpu.text, &mut file).map_err(&failed)?;
            }
        }
        file.flush().map_err(&failed)
    }

    /// The list of options, when the other sections begin at `at`, and the zeros before the pages of each instance.
    fn options_v7(
        &self,
        instances: &[Instance],
        lens: &[Vec<u64>],
        bodies: &[Vec<u8>],
        mut at: u64,
        is_packed: bool,
    ) -> (Vec<u8>, Vec<usize>) {
        let mut out = Vec::new();
        let mut paddings = Vec::new();
        for ((option, _), body) in SECTIONS.iter().zip(bodies) {
            let mut place = Vec::new();
            self.put(&mut place, at, 8);
            self.option(&mut out, *option, &place);
            at += HEAD_BYTES + body.len() as u64;
        }
        self.options.iter().for_each(|(option, content)| self.option(&mut out, *option, content));
        for (instance, lens) in instances.iter().zip(lens) {
            let mut option = Vec::new();
            self.put(&mut option, at, 8);
            option.extend(instance.name.bytes().chain([0]).chain(instance.clock.bytes()).chain([0]));
            self.put(&mut option, self.page_bytes.into(), 4);
            self.put(&mut option, instance.cpus.len() as u64, 4);
            let padding = self.padding(at + HEAD_BYTES);
            paddings.push(padding);
            at += HEAD_BYTES + padding as u64;
            for (cpu, len) in instance.cpus.iter().zip(lens) {
                self.put(&mut option, cpu.cpu.into(), 4);
                self.put(&mut option, at, 8);
                // As trace-cmd counts: without the number of pieces.
                self.put(&mut option, if is_packed { len.saturating_sub(4) } else { *len }, 8);
                at += len;
            }
            self.option(&mut out, id::BUFFER, &option);
        }
        self.option(&mut out, id::DONE, &[0; 8]);
        (out, paddings)
    }

    fn section_head(&self, out: &mut Vec<u8>, section: u16, len: u64, is_packed: bool) {
        self.put(out, section.into(), 2);
        self.put(out, is_packed.into(), 2);
        self.put(out, 0, 4);
        self.put(out, len, 8);
    }

    fn body(&self, section: &[u8], is_packed: bool) -> Vec<u8> {
        if !is_packed {
            return section.to_vec();
        }
        let packed = zstd(section);
        let mut out = Vec::new();
        self.put(&mut out, packed.len() as u64, 4);
        self.put(&mut out, section.len() as u64, 4);
        out.extend(packed);
        out
    }

    /// Packs the pages of a CPU in pieces, and gives the bytes of all of them with their number.
    fn pack_cpu(&self, cpu: CpuPages, pages: &mut Spill, packed: &mut Spill) -> io::Result<u64> {
        let piece_bytes = PIECE_PAGES * self.page_bytes as usize;
        let mut out = PieceWriter { of: self, text: cpu.text, packed, waiting: Vec::new(), piece_bytes, len: 4 };
        let mut count = Vec::new();
        self.put(&mut count, cpu.len.div_ceil(piece_bytes as u64), 4);
        out.packed.append(cpu.text, &count).map_err(io::Error::other)?;
        pages.copy(cpu.text, &mut out)?;
        out.flush()?;
        Ok(out.len)
    }
}

/// Bytes before the content of a section.
const HEAD_BYTES: u64 = 16;
/// Pages that are packed in one piece.
const PIECE_PAGES: usize = 10;

/// Packs what is written to it, piece by piece.
struct PieceWriter<'a> {
    of: &'a DatSections,
    text: usize,
    packed: &'a mut Spill,
    waiting: Vec<u8>,
    piece_bytes: usize,
    len: u64,
}

impl PieceWriter<'_> {
    fn piece(&mut self, len: usize) -> io::Result<()> {
        let rest = self.waiting.split_off(len);
        let body = self.of.body(&std::mem::replace(&mut self.waiting, rest), true);
        self.len += body.len() as u64;
        self.packed.append(self.text, &body).map_err(io::Error::other)
    }
}

impl Write for PieceWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting.extend_from_slice(bytes);
        while self.waiting.len() >= self.piece_bytes {
            self.piece(self.piece_bytes)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.waiting.len() {
            0 => Ok(()),
            len => self.piece(len),
        }
    }
}

/// A frame of zstd.
fn zstd(content: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(content, ruzstd::encoding::CompressionLevel::Fastest)
}
