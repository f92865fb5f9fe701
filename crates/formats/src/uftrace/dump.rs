//! The records of a folder as they are stored, one after the other: what `dump` prints.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::{self, Write};

use super::arguments::{Form, Spec};
use super::calls::{CallFile, Calls};
use super::info::feature;
use super::kernel::CpuRecords;
use super::records::{Kind, Payload, Record, Step, TaskBytes};
use super::values::{enumerator, put_event, unsigned};
use super::{demangle, perf};
use crate::calls::{CallKind, CallOrigin, CallRecord, CallSource, DumpOptions};

/// Names of the bits of the feature mask, from bit 0.
const FEATURES: [&str; 12] = [
    "PLTHOOK",
    "TASK_SESSION",
    "KERNEL",
    "ARGUMENT",
    "RETVAL",
    "SYM_REL_ADDR",
    "MAX_STACK",
    "EVENT",
    "PERF_EVENT",
    "AUTO_ARGS",
    "DEBUG_INFO",
    "ESTIMATE_RETURN",
];
/// Names of the bits of the info mask, from bit 0.
const GROUPS: [&str; 14] = [
    "EXE_NAME",
    "EXE_BUILD_ID",
    "EXIT_STATUS",
    "CMDLINE",
    "CPUINFO",
    "MEMINFO",
    "OSINFO",
    "TASKINFO",
    "USAGEINFO",
    "LOADINFO",
    "ARG_SPEC",
    "RECORD_DATE",
    "PATTERN_TYPE",
    "VERSION",
];

/// Bytes that are gathered before they are written.
const BUFFER: usize = 64 << 10;

/// What the header of `info` says, as it is shown.
#[derive(Clone, Debug)]
pub(super) struct Header {
    pub bytes: Vec<u8>,
    pub version: u32,
    pub header_size: u64,
    pub features: u64,
    pub groups: u64,
}

/// Writes everything.
pub(super) fn write(calls: &Calls, options: DumpOptions, out: &mut dyn Write) -> io::Result<()> {
    let mut dump = Dump { calls, options, text: String::with_capacity(2 * BUFFER), offset: 0, names: Vec::new() };
    dump.header();
    for number in 0..calls.tasks.len() {
        let tid = calls.tasks[number].tid;
        let _ = writeln!(dump.text, "reading {tid}.dat");
        let file = calls.files.iter().find_map(|file| match file {
            CallFile::Task(task, bytes) if *task == number => Some(bytes),
            _ => None,
        });
        if let Some(bytes) = file {
            dump.task(&mut calls.task(bytes.bytes(), tid), number as u32, tid, out)?;
        }
    }
    dump.kernel(out)?;
    if !options.no_events {
        dump.perf(out)?;
    }
    out.write_all(dump.text.as_bytes())
}

struct Dump<'a> {
    calls: &'a Calls,
    options: DumpOptions,
    text: String,
    /// Bytes of the file that were shown.
    offset: u64,
    /// Names of symbols, by their id.
    names: Vec<Option<String>>,
}

/// Appends a number with leading letters up to a width.
fn put_number(text: &mut String, value: u64, base: u64, width: usize, fill: char) {
    let mut digits = [0u8; 20];
    let (mut at, mut rest) = (digits.len(), value);
    while rest > 0 || at == digits.len() {
        at -= 1;
        digits[at] = b"0123456789abcdef"[(rest % base) as usize];
        rest /= base;
    }
    let digits = &digits[at..];
    text.extend(std::iter::repeat_n(fill, width.saturating_sub(digits.len())));
    text.extend(digits.iter().map(|&digit| char::from(digit)));
}

impl Dump<'_> {
    // Writing to a string cannot fail.
    fn header(&mut self) {
        let Header { bytes, version, header_size, mut features, groups } = self.calls.header.clone();
        if !self.calls.has_perf {
            features &= !feature::PERF_EVENT;
        }
        let magic: String = bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
        let order = if byte(14) == 1 { "little" } else { "big" };
        let bits = if byte(15) == 2 { "64" } else { "32" };
        let _ = writeln!(self.text, "uftrace file header: magic         = {magic}");
        let _ = writeln!(self.text, "uftrace file header: version       = {version}");
        let _ = writeln!(self.text, "uftrace file header: header size   = {header_size}");
        let _ = writeln!(self.text, "uftrace file header: endian        = {} ({order})", byte(14));
        let _ = writeln!(self.text, "uftrace file header: class         = {} ({bits} bit)", byte(15));
        for (name, mask, names) in [("features", features, &FEATURES[..]), ("info    ", groups, &GROUPS[..])] {
            let known = names.iter().enumerate().filter(|(bit, _)| mask >> bit & 1 == 1);
            let known: Vec<&str> = known.map(|(_, name)| *name).collect();
            let hex = if mask == 0 { "0".to_string() } else { format!("{mask:#x}") };
            let _ = writeln!(self.text, "uftrace file header: {name}      = {hex} ({})", known.join(" | "));
        }
        self.hex(&bytes);
        self.text.push('\n');
    }

    fn task(&mut self, task: &mut TaskBytes<'_>, number: u32, tid: i64, out: &mut dyn Write) -> io::Result<()> {
        let (mut at, mut time, mut before) = (0, 0, 0);
        self.offset = 0;
        loop {
            match task.step(at, time) {
                Step::Record { record, symbol, payload, next } => {
                    if before > record.time {
                        self.text += "\n*************************************\n";
                        self.text += "* inverted time - data seems broken *\n";
                        self.text += "*************************************\n\n";
                    }
                    before = record.time;
                    if record.kind() != Kind::Lost {
                        time = record.time;
                    }
                    self.offset = at as u64;
                    self.record(task, at, number, tid, record, symbol, payload);
                    at = next;
                }
                Step::Bad { .. } => match task.resume(at + 8, time, usize::MAX) {
                    Some(next) => at = next,
                    None => return Ok(()),
                },
                Step::Torn => return Ok(()),
            }
            if self.text.len() >= BUFFER {
                out.write_all(self.text.as_bytes())?;
                self.text.clear();
            }
        }
    }

    fn line(&mut self, time: u64, tid: i64) {
        put_number(&mut self.text, (time / 1_000_000_000) & 0xffff_ffff, 10, 0, '0');
        self.text.push('.');
        put_number(&mut self.text, time % 1_000_000_000, 10, 9, '0');
        self.text += "  ";
        put_number(&mut self.text, tid.unsigned_abs(), 10, 5, ' ');
        self.text += ": ";
    }

    /// Appends the name of a symbol; those of symbols with a name are remembered.
    fn name(&mut self, symbol: u32, address: u64) {
        if let Some(Some(name)) = self.names.get(symbol as usize) {
            self.text += name;
            return;
        }
        let name = self.calls.symbol(symbol, address).name;
        self.text += &name;
        if !name.starts_with('<') {
            let at = symbol as usize;
            if self.names.len() <= at {
                self.names.resize(at + 1, None);
            }
            self.names[at] = Some(name);
        }
    }

    fn record(
        &mut self,
        task: &TaskBytes<'_>,
        at: usize,
        number: u32,
        tid: i64,
        record: Record,
        symbol: u32,
        payload: Payload,
    ) {
        let kind = record.kind();
        if kind == Kind::Event && self.options.no_events {
            return;
        }
        self.line(record.time, tid);
        let (word, call_kind) = match kind {
            Kind::Entry => ("entry", CallKind::Entry),
            Kind::Exit => ("exit ", CallKind::Exit),
            Kind::Lost => ("lost ", CallKind::Lost),
            Kind::Event => ("event", CallKind::Event),
        };
        let address = record.address();
        let name = match kind {
            Kind::Event => self.calls.event_names.name(address as u32),
            Kind::Lost => format!("<{address:x}>"),
            _ => String::new(),
        };
        self.text.push('[');
        self.text += word;
        self.text += "] ";
        match kind {
            Kind::Entry | Kind::Exit => self.name(symbol, address),
            _ => self.text += &name,
        }
        self.text.push('(');
        put_number(&mut self.text, address, 16, 0, '0');
        self.text += ") depth: ";
        put_number(&mut self.text, record.depth().into(), 10, 0, '0');
        self.text.push('\n');
        if self.options.hex {
            self.hex(task.bytes.get(at..at + 16).unwrap_or(&[]));
        }
        if self.options.no_values {
            return;
        }
        match payload {
            Payload::Values { list, from, len } => {
                let specs = &task.signatures.lists[list as usize];
                let data = &task.bytes[from..from + len];
                let record = CallRecord {
                    time: record.time,
                    address,
                    values: 0,
                    symbol,
                    task: number,
                    values_len: 0,
                    depth: record.depth(),
                    kind: call_kind,
                    origin: CallOrigin::Task,
                    has_values: true,
                };
                self.values(specs, data, task.big, tid, &record);
                if self.options.hex {
                    self.hex(data);
                }
            }
            Payload::Data { from, len } => {
                let data = &task.bytes[from..from + len];
                self.line(record.time, tid);
                let _ = writeln!(self.text, "[data ] length = {len}");
                let mut shown = String::new();
                put_event(address as u32, data, task.big, false, &mut shown);
                let separator = if shown.is_empty() { "" } else { ": " };
                let _ = writeln!(self.text, "  {name}{separator}{shown}");
                if self.options.hex {
                    self.hex(data);
                }
            }
            _ => {}
        }
    }

    fn values(&mut self, specs: &[Spec], data: &[u8], big: bool, tid: i64, record: &CallRecord) {
        let is_exit = record.kind == CallKind::Exit;
        let mut end = 0;
        for spec in specs {
            end = spec.take(data, end, big).map_or(end, |(_, next)| next);
        }
        self.line(record.time, tid);
        let word = if is_exit { "retval" } else { "args " };
        let _ = writeln!(self.text, "[{word}] length = {end}");
        let mut at = 0;
        for (index, spec) in specs.iter().enumerate() {
            let Some((value, next)) = spec.take(data, at, big) else { return };
            at = next;
            if is_exit {
                self.text += "  retval ";
            } else {
                let _ = write!(self.text, "  args[{index}] ");
            }
            self.value(spec, value, big, tid, record);
        }
    }

    fn value(&mut self, spec: &Spec, value: &[u8], big: bool, tid: i64, record: &CallRecord) {
        let is_exit = record.kind == CallKind::Exit;
        let number = unsigned(value, big);
        let letter = match &spec.form {
            Form::Text | Form::StdString => {
                let text = if value.starts_with(&[0xff; 4]) { b"NULL" } else { value };
                let text = String::from_utf8_lossy(text.split(|&byte| byte == 0).next().unwrap_or(&[]));
                let word = if spec.form == Form::StdString { "std::string" } else { "str" };
                let _ = writeln!(self.text, "{word}: {text}");
                return;
            }
            Form::Pointer => {
                let id = self.calls.names.id_at(tid, record.time, number);
                let symbol = self.calls.names.symbol(id).filter(|_| id > 0);
                let _ = match symbol {
                    Some(symbol) => {
                        writeln!(self.text, "p: {number:x} (&{})", demangle::simple_name(&symbol.name))
                    }
                    None if number == 0 => writeln!(self.text, "p: {}", if is_exit { "(nil)" } else { "0" }),
                    None => writeln!(self.text, "p: {number:#x}"),
                };
                return;
            }
            Form::Structure(name) => {
                let _ = write!(self.text, "struct {}:", name.as_deref().unwrap_or(""));
                for (at, byte) in value.iter().enumerate() {
                    self.text += if at % 16 == 0 { "\n\t" } else { "" };
                    let _ = write!(self.text, "{byte:02x} ");
                    self.text += if at % 8 == 7 { " " } else { "" };
                }
                self.text.push('\n');
                return;
            }
            Form::Enumeration(name, values) if !is_exit => {
                let shown = enumerator(values.as_ref(), number as u32 as i32);
                let _ = writeln!(self.text, "enum {name}: {shown} ({number})");
                return;
            }
            Form::Enumeration(..) => 'e',
            Form::Auto => 'd',
            Form::Signed => 'i',
            Form::Unsigned => 'u',
            Form::Hexadecimal => 'x',
            Form::Octal => 'o',
            Form::Character => 'c',
            Form::Float => 'f',
        };
        let (bits, digits) = (spec.size * 8, spec.size * 2);
        // Floats of 80 bits are wider than the numbers that are shown here.
        if value.len() > 8 {
            let hex: String = value.iter().rev().map(|byte| format!("{byte:02x}")).collect();
            let _ = writeln!(self.text, "{letter}{bits}: 0x{hex}");
        } else {
            let _ = writeln!(self.text, "{letter}{bits}: 0x{number:0digits$x}");
        }
    }

    /// Records of the kernel, of all tasks.
    fn kernel(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let Some(kernel) = self.calls.kernel.as_deref() else { return Ok(()) };
        self.text.push('\n');
        let traced: HashSet<i64> = self.calls.tasks.iter().map(|task| task.tid).collect();
        for file in &self.calls.files {
            let CallFile::Kernel(cpu, bytes) = file else { continue };
            let _ = writeln!(self.text, "reading kernel-cpu{cpu}.dat");
            let mut records = CpuRecords::new(kernel, bytes.bytes());
            while let Some(record) = records.next(|tid| traced.contains(&tid)) {
                if let Some(count) = record.lost {
                    self.line(record.time, record.tid);
                    // The number is not always known.
                    let count = if count > 0 { count as i64 } else { -1 };
                    let _ = writeln!(self.text, "[lost ]: {count} events");
                }
                let data = bytes.bytes().get(record.from..record.from + record.len).unwrap_or(&[]);
                match record.call {
                    Some((address, depth, is_exit)) => {
                        self.line(record.time, record.tid);
                        self.text += if is_exit { "[exit ] " } else { "[entry] " };
                        self.name(self.calls.names.kernel_id(address), address);
                        let _ = writeln!(self.text, "({:x}) depth: {depth}", address & 0xffff_ffff_ffff);
                    }
                    None if self.options.no_events => continue,
                    None => {
                        self.line(record.time, record.tid);
                        let name = self.calls.event_names.name(record.id.into());
                        let _ = write!(self.text, "[event] {name}({}) ", record.id);
                        let calls = self.calls;
                        calls.put_kernel_event(record.id.into(), data, &mut self.text);
                        self.text.push('\n');
                    }
                }
                self.offset = record.from as u64;
                self.hex(data);
                self.write_full(out)?;
            }
        }
        Ok(())
    }

    /// Writes what is gathered, when it is enough.
    fn write_full(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.text.len() >= BUFFER {
            out.write_all(self.text.as_bytes())?;
            self.text.clear();
        }
        Ok(())
    }

    fn perf(&mut self, out: &mut dyn Write) -> io::Result<()> {
        for (file, path) in self.calls.files.iter().zip(&self.calls.paths) {
            let CallFile::Perf(bytes) = file else { continue };
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name == "perf-cpu0.dat" {
                self.text.push('\n');
            }
            let _ = writeln!(self.text, "reading {name}");
            let mut at = 0;
            while let Some(Ok((next, event))) = perf::next(bytes.bytes(), self.calls.order, at) {
                at = next;
                let Some(event) = event else { continue };
                self.line(event.time, event.tid.into());
                let name = self.calls.event_names.name(event.id);
                let _ = writeln!(self.text, "[event] {name}({})", event.id);
                if self.text.len() >= BUFFER {
                    out.write_all(self.text.as_bytes())?;
                    self.text.clear();
                }
            }
        }
        Ok(())
    }

    fn hex(&mut self, bytes: &[u8]) {
        if !self.options.hex {
            return;
        }
        for row in bytes.chunks(16) {
            let _ = write!(self.text, " <{:016x}>:", self.offset);
            for (at, byte) in row.iter().enumerate() {
                let gap = if at == 8 { "  " } else { " " };
                let _ = write!(self.text, "{gap}{byte:02x}");
            }
            self.text.push('\n');
            self.offset += row.len() as u64;
        }
    }
}
