//! Makes pages and whole files for tests, of either byte order, long size and version.

use std::io::Write;

use tracemill_codec::bits::put_uint;
use tracemill_model::schema::ByteOrder;

/// The lowest `len` bytes of a number.
pub fn bytes(order: ByteOrder, value: u64, len: usize) -> Vec<u8> {
    pack(order, &[(value as i64, len)])
}

/// Numbers with their lengths, one after the other.
pub fn pack(order: ByteOrder, parts: &[(i64, usize)]) -> Vec<u8> {
    let mut out = Vec::new();
    parts.iter().for_each(|&(value, len)| put_uint(&mut out, value as u64, len, order));
    out
}

/// A page of the ring buffer.
#[derive(Clone)]
pub struct PageBuilder {
    order: ByteOrder,
    long: usize,
    time: u64,
    records: Vec<u8>,
    missed: Option<Option<u64>>,
    commit: Option<u64>,
}

impl PageBuilder {
    /// A page that begins at `time`, of a machine with `long` bytes a word.
    pub fn new(order: ByteOrder, long: u8, time: u64) -> Self {
        PageBuilder { order, long: long.into(), time, records: Vec::new(), missed: None, commit: None }
    }

    fn head(&mut self, kind: u64, delta: u64) {
        let word = match self.order {
            ByteOrder::Little => kind | delta << 5,
            ByteOrder::Big => kind << 27 | delta,
        };
        self.word(word);
    }

    fn word(&mut self, word: u64) {
        let bytes = bytes(self.order, word, 4);
        self.records.extend(bytes);
    }

    /// A record whose length is in its head: a multiple of 4 up to 112; shorter data is filled with zeros.
    pub fn event(&mut self, delta: u64, data: &[u8]) {
        let words = data.len().div_ceil(4);
        self.head(words as u64, delta);
        self.records.extend(data);
        self.records.resize(self.records.len().next_multiple_of(4), 0);
    }

    /// A record whose length stands after its head.
    pub fn long_event(&mut self, delta: u64, data: &[u8]) {
        self.head(0, delta);
        self.word(data.len() as u64 + 4);
        self.records.extend(data);
        self.records.resize(self.records.len().next_multiple_of(4), 0);
    }

    /// A record of `len` bytes that was discarded.
    pub fn discarded(&mut self, delta: u64, len: usize) {
        self.head(29, delta);
        self.word(len as u64);
        self.records.resize(self.records.len() + len - 4, 0xee);
    }

    /// Appends a record with the upper bits of a time delta.
    pub fn time_extend(&mut self, delta: u64) {
        self.head(30, delta & 0x7ff_ffff);
        self.word(delta >> 27);
    }

    /// Appends a record with a full time.
    pub fn time_stamp(&mut self, time: u64) {
        self.head(31, time & 0x7ff_ffff);
        self.word(time >> 27);
    }

    /// Ends the records with padding.
    pub fn end_padding(&mut self) {
        self.head(29, 0);
    }

    /// Events were lost before the page.
    pub fn missed(mut self, count: Option<u64>) -> Self {
        self.missed = Some(count);
        self
    }

    /// The page lies about what it holds.
    pub fn commit(mut self, commit: u64) -> Self {
        self.commit = Some(commit);
        self
    }

    /// The bytes of the page.
    pub fn build(self, page_bytes: usize) -> Vec<u8> {
        let flags = match self.missed {
            None => 0,
            Some(None) => 1 << 31,
            Some(Some(_)) => 3 << 30,
        };
        let mut page = bytes(self.order, self.time, 8);
        page.extend(bytes(self.order, self.commit.unwrap_or(self.records.len() as u64 | flags), self.long));
        page.extend(&self.records);
        if let Some(Some(count)) = self.missed {
            page.extend(bytes(self.order, count, self.long));
        }
        assert!(page.len() <= page_bytes);
        page.resize(page_bytes, 0);
        page
    }
}

/// A format file: fields as `TYPE NAME;OFFSET;SIZE;SIGNED`, after the common ones.
pub fn format(name: &str, id: u16, fields: &[&str]) -> String {
    let common = [
        "unsigned short common_type;0;2;0",
        "unsigned char common_flags;2;1;0",
        "unsigned char common_preempt_count;3;1;0",
        "int common_pid;4;4;1",
    ];
    let line = |field: &&str| {
        let parts: Vec<&str> = field.split(';').collect();
        format!("\tfield:{};\toffset:{};\tsize:{};\tsigned:{};\n", parts[0], parts[1], parts[2], parts[3])
    };
    let common: String = common.iter().map(line).collect();
    let own: String = fields.iter().map(line).collect();
    format!("name: {name}\nID: {id}\nformat:\n{common}\n{own}\nprint fmt: \"\"\n")
}

/// A whole file.
#[derive(Clone)]
pub struct FileBuilder {
    /// Byte order.
    pub order: ByteOrder,
    /// Bytes of a word.
    pub long: u8,
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Text of `events/header_page`.
    pub header_page: String,
    /// Format files of the tracers.
    pub ftrace_formats: Vec<String>,
    /// Subsystems: their names and format files.
    pub systems: Vec<(&'static str, Vec<String>)>,
    /// Format strings of the kernel, a line each.
    pub format_strings: &'static str,
    /// Names of tasks, a line each.
    pub comms: &'static str,
    /// Options: id and content.
    pub options: Vec<(u16, Vec<u8>)>,
    /// Instances: name, clock, pages of each CPU. The first is the top one.
    pub buffers: Vec<(&'static str, &'static str, Vec<Vec<u8>>)>,
    /// Pages of a packed piece; 0 for data that is not packed.
    pub pages_packed: usize,
}

impl FileBuilder {
    /// A file without events.
    pub fn new(order: ByteOrder, long: u8, page_bytes: usize) -> Self {
        let data = 8 + usize::from(long);
        let header_page = format!(
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
             \tfield: local_t commit;\toffset:8;\tsize:{long};\tsigned:1;\n\
             \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
             \tfield: char data;\toffset:{data};\tsize:{};\tsigned:0;\n",
            page_bytes - data
        );
        FileBuilder {
            order,
            long,
            page_bytes,
            header_page,
            ftrace_formats: Vec::new(),
            systems: Vec::new(),
            format_strings: "0x1 : \"x\"\n",
            comms: "1 init\n7 a b\n",
            options: Vec::new(),
            buffers: vec![("", "mono", Vec::new())],
            pages_packed: 0,
        }
    }

    /// A page in the byte order and word size of the file.
    pub fn page(&self, time: u64) -> PageBuilder {
        PageBuilder::new(self.order, self.long, time)
    }

    /// Adds a CPU to the top instance.
    pub fn cpu(&mut self, pages: Vec<PageBuilder>) {
        let pages = pages.into_iter().flat_map(|page| page.build(self.page_bytes)).collect();
        self.buffers[0].2.push(pages);
    }

    fn number(&self, out: &mut Vec<u8>, value: u64, len: usize) {
        out.extend(bytes(self.order, value, len));
    }

    fn start(&self, version: &str) -> Vec<u8> {
        let mut out = b"\x17\x08\x44tracing".to_vec();
        out.extend(version.bytes().chain([0, u8::from(self.order == ByteOrder::Big), self.long]));
        self.number(&mut out, self.page_bytes as u64, 4);
        out
    }

    fn header_info(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, content) in [("header_page\0", self.header_page.as_str()), ("header_event\0", "# events\n")] {
            out.extend(name.bytes());
            self.number(&mut out, content.len() as u64, 8);
            out.extend(content.bytes());
        }
        out
    }

    fn formats(&self, formats: &[String]) -> Vec<u8> {
        let mut out = bytes(self.order, formats.len() as u64, 4);
        for format in formats {
            self.number(&mut out, format.len() as u64, 8);
            out.extend(format.bytes());
        }
        out
    }

    fn event_formats(&self) -> Vec<u8> {
        let mut out = bytes(self.order, self.systems.len() as u64, 4);
        for (system, formats) in &self.systems {
            out.extend(system.bytes().chain([0]));
            out.extend(self.formats(formats));
        }
        out
    }

    fn comms(&self) -> Vec<u8> {
        let mut out = bytes(self.order, self.comms.len() as u64, 8);
        out.extend(self.comms.bytes());
        out
    }

    fn option(&self, out: &mut Vec<u8>, id: u16, content: &[u8]) {
        self.number(out, id.into(), 2);
        self.number(out, content.len() as u64, 4);
        out.extend(content);
    }

    /// The bytes of the file, version 6.
    pub fn build_v6(&self) -> Vec<u8> {
        let mut out = self.start("6");
        out.extend(self.header_info());
        out.extend(self.formats(&self.ftrace_formats));
        out.extend(self.event_formats());
        for text in ["ffffffff81000000 T _stext\n", self.format_strings] {
            self.number(&mut out, text.len() as u64, 4);
            out.extend(text.bytes());
        }
        out.extend(self.comms());
        self.number(&mut out, self.buffers[0].2.len() as u64, 4);
        out.extend(b"options  \0");
        for (id, content) in &self.options {
            self.option(&mut out, *id, content);
        }
        let mut instances = Vec::new();
        for (name, _, cpus) in &self.buffers[1..] {
            instances.push(out.len() + 6);
            let content: Vec<u8> = [0; 8].into_iter().chain(name.bytes()).chain([0]).collect();
            self.option(&mut out, 3, &content);
            self.option(&mut out, 8, &bytes(self.order, cpus.len() as u64, 4));
        }
        self.number(&mut out, 0, 2);
        for (at, (_, _, cpus)) in self.buffers.iter().enumerate() {
            if let Some(at) = at.checked_sub(1) {
                let offset = bytes(self.order, out.len() as u64, 8);
                out[instances[at]..instances[at] + 8].copy_from_slice(&offset);
            }
            out.extend(b"flyrecord\0");
            let mut offset = (out.len() + cpus.len() * 16).next_multiple_of(self.page_bytes);
            for pages in cpus {
                self.number(&mut out, offset as u64, 8);
                self.number(&mut out, pages.len() as u64, 8);
                offset += pages.len();
            }
            out.resize(out.len().next_multiple_of(self.page_bytes), 0);
            cpus.iter().for_each(|pages| out.extend(pages));
        }
        out
    }

    fn section(&self, out: &mut Vec<u8>, id: u16, content: &[u8], is_packed: bool) -> usize {
        let at = out.len();
        let mut body = content.to_vec();
        if is_packed {
            let packed = zlib(content);
            body = bytes(self.order, packed.len() as u64, 4);
            self.number(&mut body, content.len() as u64, 4);
            body.extend(packed);
        }
        self.section_head(out, id, body.len(), is_packed);
        out.extend(body);
        at
    }

    fn section_head(&self, out: &mut Vec<u8>, id: u16, len: usize, is_packed: bool) {
        self.number(out, id.into(), 2);
        self.number(out, is_packed.into(), 2);
        self.number(out, 0, 4);
        self.number(out, len as u64, 8);
    }

    /// The bytes of the file, version 7.
    pub fn build_v7(&self) -> Vec<u8> {
        let is_packed = self.pages_packed > 0;
        let mut out = self.start("7");
        out.extend(if is_packed { b"zlib\x001.2\0".as_slice() } else { b"none\0\0" });
        let first = out.len();
        self.number(&mut out, 0, 8);
        let mut places = Vec::new();
        // Not in the order of their numbers: nothing asks for that.
        for (id, content) in [(18, self.event_formats()), (16, self.header_info()), (21, self.comms())] {
            places.push((id, self.section(&mut out, id, &content, is_packed)));
        }
        places.push((17, self.section(&mut out, 17, &self.formats(&self.ftrace_formats), is_packed)));
        let mut strings = bytes(self.order, self.format_strings.len() as u64, 4);
        strings.extend(self.format_strings.bytes());
        places.push((20, self.section(&mut out, 20, &strings, is_packed)));
        let mut buffers = Vec::new();
        for (name, clock, cpus) in &self.buffers {
            let at = out.len();
            self.section_head(&mut out, 3, 1, is_packed);
            out.resize(out.len().next_multiple_of(self.page_bytes), 0);
            let mut option = bytes(self.order, at as u64, 8);
            option.extend(name.bytes().chain([0]).chain(clock.bytes()).chain([0]));
            self.number(&mut option, self.page_bytes as u64, 4);
            self.number(&mut option, cpus.len() as u64, 4);
            for (cpu, pages) in cpus.iter().enumerate() {
                let data = self.cpu_data(pages);
                self.number(&mut option, cpu as u64, 4);
                self.number(&mut option, out.len() as u64, 8);
                // As trace-cmd counts: without the number of pieces.
                self.number(&mut option, (data.len() - if is_packed { 4 } else { 0 }) as u64, 8);
                out.extend(data);
            }
            buffers.push(option);
        }
        // Two lists of options.
        let mut last = Vec::new();
        buffers.iter().for_each(|buffer| self.option(&mut last, 3, buffer));
        self.option(&mut last, 0, &[0; 8]);
        let last = self.section(&mut out, 0, &last, false);
        let mut list = Vec::new();
        places.iter().for_each(|&(id, at)| self.option(&mut list, id, &bytes(self.order, at as u64, 8)));
        self.options.iter().for_each(|(id, content)| self.option(&mut list, *id, content));
        self.option(&mut list, 0, &bytes(self.order, last as u64, 8));
        let list = self.section(&mut out, 0, &list, is_packed);
        out[first..first + 8].copy_from_slice(&bytes(self.order, list as u64, 8));
        out
    }

    fn cpu_data(&self, pages: &[u8]) -> Vec<u8> {
        if self.pages_packed == 0 {
            return pages.to_vec();
        }
        let chunks: Vec<&[u8]> = pages.chunks(self.pages_packed * self.page_bytes).collect();
        let mut out = bytes(self.order, chunks.len() as u64, 4);
        for chunk in chunks {
            let packed = zlib(chunk);
            self.number(&mut out, packed.len() as u64, 4);
            self.number(&mut out, chunk.len() as u64, 4);
            out.extend(packed);
        }
        out
    }
}

/// Content packed by zlib.
pub fn zlib(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(content).expect("memory");
    encoder.finish().expect("memory")
}
