//! Writing `trace.dat`: trace-cmd.dat.v6(5), trace-cmd.dat.v7(5). `target` writes traces of any format, `sections` the files,
//! `classes` the formats of events that had none.
//!
//! Here: a new file, version 6, of what a recorder read from the kernel of this machine.
//!
//! ```text
//! Description::head     event formats, symbols: known before the first event
//! tail                  names of tasks, options, places of the pages: known after the last one
//! the pages             of one CPU after the other, as the kernel gave them
//! ```

mod classes;
pub(crate) mod sections;
mod target;

pub use target::TARGET;

use tracemill_codec::bits::put_uint;
use tracemill_model::schema::ByteOrder;

use crate::container::MAGIC;
use crate::options::id;

/// The order of the bytes of this machine, and so of its kernel.
const ORDER: ByteOrder = if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };

/// The step that writes a file, for errors.
const WRITING: &str = "write the file";

/// The kernel's description of its events.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// Bytes of a page of the ring buffer (a sub-buffer, where those are larger).
    pub page_bytes: u32,
    /// The file `events/header_page`.
    pub header_page: Vec<u8>,
    /// The file `events/header_event`.
    pub header_event: Vec<u8>,
    /// Format files of the system `ftrace`.
    pub ftrace: Vec<Vec<u8>>,
    /// The other systems by name, and the format files of their events.
    pub systems: Vec<(String, Vec<Vec<u8>>)>,
    /// The symbols of the kernel, as `/proc/kallsyms` has them.
    pub symbols: Vec<u8>,
    /// The file `printk_formats`.
    pub printk_formats: Vec<u8>,
}

impl Description {
    /// The file up to the names of tasks.
    pub fn head(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend(b"6\0");
        out.push(u8::from(ORDER == ByteOrder::Big));
        out.push(size_of::<usize>() as u8);
        put_uint(&mut out, self.page_bytes.into(), 4, ORDER);
        for (name, text) in [("header_page", &self.header_page), ("header_event", &self.header_event)] {
            put_name(&mut out, name);
            put_sized(&mut out, text, 8);
        }
        put_uint(&mut out, self.ftrace.len() as u64, 4, ORDER);
        self.ftrace.iter().for_each(|format| put_sized(&mut out, format, 8));
        put_uint(&mut out, self.systems.len() as u64, 4, ORDER);
        for (name, formats) in &self.systems {
            put_name(&mut out, name);
            put_uint(&mut out, formats.len() as u64, 4, ORDER);
            formats.iter().for_each(|format| put_sized(&mut out, format, 8));
        }
        put_sized(&mut out, &self.symbols, 4);
        put_sized(&mut out, &self.printk_formats, 4);
        out
    }
}

/// Options of a recording, as the file holds them.
#[derive(Clone, Debug, Default)]
pub struct Options {
    bytes: Vec<u8>,
}

impl Options {
    /// Microseconds between the clock of the tracer and the Unix epoch.
    pub fn date(&mut self, offset_us: i64) {
        let sign = if offset_us < 0 { "-" } else { "" };
        self.text(id::DATE, &format!("{sign}{:#x}", offset_us.unsigned_abs()));
    }

    /// The file `trace_clock`, which has the chosen clock in brackets.
    pub fn clock(&mut self, text: &str) {
        self.text(id::TRACECLOCK, text);
    }

    /// Name and version of the system.
    pub fn uname(&mut self, text: &str) {
        self.text(id::UNAME, text);
    }

    /// The statistics of a CPU, which say what was lost.
    pub fn cpu_statistics(&mut self, text: &str) {
        self.text(id::CPUSTAT, text);
    }

    /// Number of CPUs of the machine.
    pub fn cpu_count(&mut self, count: u32) {
        let mut content = Vec::new();
        put_uint(&mut content, count.into(), 4, ORDER);
        self.option(id::CPUCOUNT, &content);
    }

    /// The options as bytes, without the mark of their end.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn text(&mut self, option: u16, text: &str) {
        let mut content = text.as_bytes().to_vec();
        content.push(0);
        self.option(option, &content);
    }

    fn option(&mut self, option: u16, content: &[u8]) {
        put_uint(&mut self.bytes, option.into(), 2, ORDER);
        put_sized(&mut self.bytes, content, 4);
    }
}

/// The file from the names of tasks to the first page, and where the pages of each CPU begin.
///
/// `head_bytes` is the size of the head, `comms` holds lines `PID NAME`, `options` is of [`Options::as_bytes`], `sizes` are
/// the bytes of the pages of each CPU: multiples of `page_bytes`.
pub fn tail(head_bytes: u64, comms: &[u8], options: &[u8], sizes: &[u64], page_bytes: u32) -> (Vec<u8>, Vec<u64>) {
    let mut out = Vec::new();
    put_sized(&mut out, comms, 8);
    put_uint(&mut out, sizes.len() as u64, 4, ORDER);
    out.extend(b"options  \0");
    out.extend(options);
    put_uint(&mut out, id::DONE.into(), 2, ORDER);
    out.extend(b"flyrecord\0");
    let table_bytes = sizes.len() as u64 * 16;
    let first = (head_bytes + out.len() as u64 + table_bytes).next_multiple_of(page_bytes.max(1).into());
    let mut places = Vec::with_capacity(sizes.len());
    let mut place = first;
    for &size in sizes {
        places.push(place);
        put_uint(&mut out, place, 8, ORDER);
        put_uint(&mut out, size, 8, ORDER);
        place += size;
    }
    out.resize((first - head_bytes) as usize, 0);
    (out, places)
}

fn put_name(out: &mut Vec<u8>, name: &str) {
    out.extend(name.as_bytes());
    out.push(0);
}

/// Bytes after their number.
fn put_sized(out: &mut Vec<u8>, bytes: &[u8], len_bytes: usize) {
    put_uint(out, bytes.len() as u64, len_bytes, ORDER);
    out.extend(bytes);
}
