//! Files of trace-cmd around bytes that are fuzzed.

use tracemill_ftrace::event_format::{EventFormat, Machine};
use tracemill_ftrace::print_format::PrintFormat;
use tracemill_model::schema::ByteOrder;

use crate::exercise;
use crate::storage::Folder;

/// Formats of events with fields of every kind.
pub(crate) const FORMATS: &[&str] = &[
    "name: fixed\nID: 1\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
     \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
     \tfield:long x;\toffset:24;\tsize:8;\tsigned:1;\n",
    "name: located\nID: 2\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
     \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\tfield:__data_loc char[] a;\toffset:8;\tsize:4;\tsigned:0;\n\
     \tfield:__rel_loc u16[] b;\toffset:12;\tsize:4;\tsigned:0;\n\tfield:unsigned long rest[];\toffset:16;\tsize:0;\tsigned:0;\n",
];

/// Opens a file and reads it in every way.
pub(crate) fn read(data: &[u8]) {
    let mut folder = Folder::new(&[], &[]);
    folder.add("trace.dat", data);
    exercise::read(&folder);
}

/// The numbers of a machine, by the choices of the input.
struct Writer {
    is_big: bool,
    long: usize,
}

impl Writer {
    fn number(&self, value: usize, len: usize) -> Vec<u8> {
        let value = value as u64;
        if self.is_big { value.to_be_bytes()[8 - len..].to_vec() } else { value.to_le_bytes()[..len].to_vec() }
    }

    fn texts(&self, texts: &[&str]) -> Vec<u8> {
        let texts = texts.iter().flat_map(|text| [self.number(text.len(), 8), text.as_bytes().to_vec()].concat());
        texts.collect()
    }
}

const PAGE_BYTES: usize = 256;

/// A file with one CPU, of version 6.
pub(crate) fn file(choices: u8, formats: &[&str], pages: &[u8]) -> Vec<u8> {
    let w = Writer { is_big: choices & 1 != 0, long: if choices & 2 != 0 { 4 } else { 8 } };
    let mut out = b"\x17\x08\x44tracing6\0".to_vec();
    out.extend([choices & 1, w.long as u8]);
    out.extend(w.number(PAGE_BYTES, 4));
    for name in ["header_page\0", "header_event\0"] {
        out.extend(name.bytes().chain(w.number(0, 8)));
    }
    out.extend([w.number(formats.len(), 4), w.texts(formats)].concat());
    // No other events, symbols, format strings and processes; one CPU.
    out.extend([w.number(0, 4), w.number(0, 4), w.number(0, 4), w.number(0, 8), w.number(1, 4)].concat());
    out.extend(b"flyrecord\0");
    let offset = out.len() + 16;
    out.extend([w.number(offset, 8), w.number(pages.len(), 8)].concat());
    out.extend(pages);
    out
}

/// A format, and what it reads of a record: nothing that is not there.
pub(crate) fn check_format(text: &str, choices: u8, record: &[u8]) {
    let w = Writer { is_big: choices & 1 != 0, long: if choices & 2 != 0 { 4 } else { 8 } };
    let byte_order = if w.is_big { ByteOrder::Big } else { ByteOrder::Little };
    let machine = Machine { byte_order, long_bytes: w.long as u8 };
    match EventFormat::parse(text, machine) {
        Err(error) => assert!(!error.message().is_empty()),
        Ok(format) => {
            for field in format.common.iter().chain(&format.fields) {
                let (range, is_whole) = field.range(record, machine);
                assert!(range.end <= record.len());
                assert_eq!(field.bytes(record, machine).len(), range.len());
                assert!(is_whole || range.len() < 1 << 16);
                field.integer(record, machine);
            }
            let name = |address: u64, with_offset: bool| with_offset.then(|| format!("f{address:x}"));
            let mut printed = Vec::new();
            PrintFormat::parse(&format, machine).write(record, &name, &mut printed);
            assert!(printed.len() <= (1 << 16) * (1 + text.len()), "what is printed is as long as line and record");
        }
    }
    let record = &record[..record.len().min(160) / 4 * 4];
    let mut page = [w.number(5, 8), w.number(8 + record.len(), w.long), w.number(0, 4)].concat();
    page.extend(w.number(4 + record.len(), 4));
    page.extend(record);
    page.resize(PAGE_BYTES, 0);
    read(&file(choices, &[text], &page));
}
