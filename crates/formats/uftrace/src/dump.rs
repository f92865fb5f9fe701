//! The records of a folder as they are stored, one after the other: what `dump` prints.

use std::fmt::Write as _;
use std::io::{self, Write};

use tracemill_codec::text::{hex, nine_digits};
use tracemill_model::schema::ByteOrder;

use super::arguments::{ArgumentForm, ArgumentSpec, NULL_TEXT};
use super::calls::{CallFile, FolderCalls, call};
use super::info::{FEATURES, GROUPS, InfoHeader, feature};
use super::kernel::CpuRecords;
use super::records::{Payload, RECORD, Record, RecordKind, RecordStep, TaskBytes};
use super::values::{enumerator, put_event, unsigned};
use super::{perf, slices};
use tracemill_format::calls::{CallKind, CallOrigin, CallRecord, CallSource, DumpOptions, Findings, event_id};
use tracemill_format::demangle::demangled;

/// Bits of the masks of features and of groups that the peer names.
const NAMED_FEATURES: usize = 12;
const NAMED_GROUPS: usize = 14;

/// Bytes that are gathered before they are written.
const BUFFER: usize = 64 << 10;

/// Writes all records that `want` is true for.
pub(super) fn write(
    calls: &FolderCalls,
    options: DumpOptions<'_>,
    want: &mut dyn FnMut(&CallRecord) -> bool,
    out: &mut dyn Write,
) -> io::Result<Findings> {
    let mut dump = Dump {
        calls,
        options,
        findings: Findings::default(),
        bytes: Vec::with_capacity(2 * BUFFER),
        text: String::new(),
        offset: 0,
        begin: Begin::new(),
        shown: vec![(u64::MAX, 0, String::new()); SHOWN],
        want,
        out,
    };
    dump.header();
    for number in 0..if options.no_tasks { 0 } else { calls.tasks.len() } {
        let tid = calls.tasks[number].tid;
        let _ = writeln!(dump.text, "reading {tid}.dat");
        let file = calls.files.iter().find_map(|file| match file {
            CallFile::Task(task, bytes) if *task == number => Some(bytes),
            _ => None,
        });
        let is_read = options.tids.is_empty() || options.tids.contains(&tid);
        if let Some(bytes) = file.filter(|_| is_read) {
            let mut task = calls.definitions.task(bytes.bytes(), tid);
            let (from, to) = match options.between {
                Some((from, to)) => slices::byte_range(&mut task, from, to),
                None => (0, usize::MAX),
            };
            task.bytes = &task.bytes[..to.min(task.bytes.len())];
            dump.task(&mut task, from, number as u32, tid)?;
        }
    }
    dump.kernel()?;
    if !options.no_events {
        dump.perf()?;
    }
    dump.gather();
    dump.out.write_all(&dump.bytes)?;
    Ok(dump.findings)
}

struct Dump<'a> {
    calls: &'a FolderCalls,
    options: DumpOptions<'a>,
    /// Faults in files of the kernel and of perf: opening has read those of tasks only.
    findings: Findings,
    /// Lines that are complete, and those after them.
    bytes: Vec<u8>,
    text: String,
    /// Bytes of the file that were shown.
    offset: u64,
    begin: Begin,
    /// Address, symbol, and what a line says of them: `main(401000) depth: `. Remembered by the address.
    shown: Vec<(u64, u32, String)>,
    want: &'a mut dyn FnMut(&CallRecord) -> bool,
    out: &'a mut dyn Write,
}

/// The beginning of lines, `12.000000000   1234: `, which changes slowly but for the digits after the point.
struct Begin {
    /// Seconds and task of the last line.
    seconds: u64,
    tid: i64,
    text: Vec<u8>,
    /// Where the digits after the point are in it.
    nanos: usize,
}

impl Begin {
    fn new() -> Begin {
        Begin { seconds: u64::MAX, tid: i64::MIN, text: Vec::new(), nanos: 0 }
    }

    /// Appends time and task.
    #[inline]
    fn write(&mut self, text: &mut Vec<u8>, time: u64, tid: i64) {
        let seconds = (time / 1_000_000_000) & 0xffff_ffff;
        if seconds != self.seconds || tid != self.tid {
            self.change(seconds, tid);
        }
        if let Some(digits) = self.text.get_mut(self.nanos..).and_then(|rest| rest.first_chunk_mut()) {
            *digits = nine_digits((time % 1_000_000_000) as u32);
        }
        text.extend_from_slice(&self.text);
    }

    #[cold]
    fn change(&mut self, seconds: u64, tid: i64) {
        (self.seconds, self.tid) = (seconds, tid);
        self.text = format!("{seconds}.{:09}  {:5}: ", 0, tid.unsigned_abs()).into_bytes();
        self.nanos = self.text.iter().position(|&byte| byte == b'.').map_or(0, |point| point + 1);
    }
}

/// Symbols with their addresses as lines show them: a power of two.
const SHOWN: usize = 1024;

impl Dump<'_> {
    // Writing to a string cannot fail.
    fn header(&mut self) {
        let InfoHeader { bytes, version, size, mut features, groups } = self.calls.info.header.clone();
        if !self.calls.has_perf {
            features &= !feature::PERF_EVENT;
        }
        let magic = hex(&bytes[..bytes.len().min(8)]);
        let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
        let order = if byte(14) == 1 { "little" } else { "big" };
        let bits = if byte(15) == 2 { "64" } else { "32" };
        let _ = writeln!(self.text, "uftrace file header: magic         = {magic}");
        let _ = writeln!(self.text, "uftrace file header: version       = {version}");
        let _ = writeln!(self.text, "uftrace file header: header size   = {size}");
        let _ = writeln!(self.text, "uftrace file header: endian        = {} ({order})", byte(14));
        let _ = writeln!(self.text, "uftrace file header: class         = {} ({bits} bit)", byte(15));
        let of_features = FEATURES[..NAMED_FEATURES].iter().map(|name| name.replace('-', "_").to_uppercase());
        let of_groups = GROUPS[..NAMED_GROUPS].iter().map(|(_, name)| name.to_string());
        let masks =
            [("features", features, of_features.collect::<Vec<_>>()), ("info    ", groups, of_groups.collect())];
        for (name, mask, names) in masks {
            let known = names.into_iter().enumerate().filter(|(bit, _)| mask >> bit & 1 == 1);
            let known: Vec<String> = known.map(|(_, name)| name).collect();
            let hex = if mask == 0 { "0".to_string() } else { format!("{mask:#x}") };
            let _ = writeln!(self.text, "uftrace file header: {name}      = {hex} ({})", known.join(" | "));
        }
        self.hex(&bytes);
        self.text.push('\n');
    }

    fn is_in_time(&self, time: u64) -> bool {
        self.options.between.is_none_or(|(from, to)| (from..=to).contains(&time))
    }

    /// Is a time of a file of all tasks wanted?
    fn is_in_time_of_all(&self, time: u64) -> bool {
        self.options.between_of_all.is_none_or(|(from, to)| (from..=to).contains(&time))
    }

    fn task(&mut self, task: &mut TaskBytes<'_>, from: usize, number: u32, tid: i64) -> io::Result<()> {
        let (mut at, mut time, mut before) = (from, 0, 0);
        self.offset = 0;
        let is_short = !self.options.hex && self.options.between.is_none();
        loop {
            if let Some(record) =
                task.record(at).filter(|record| is_short && record.is_plain_call() && record.time >= before)
            {
                let symbol = task.resolver.id(record.time, record.address());
                if (self.want)(&call(record, symbol, number)) {
                    let is_exit = record.kind() == RecordKind::Exit;
                    let address = record.address();
                    self.call(record.time, tid, is_exit, (symbol, address, address), record.depth());
                }
                (before, time) = (record.time, record.time);
                at += RECORD;
                self.write_full()?;
                continue;
            }
            match task.step(at, time) {
                RecordStep::Record { record, symbol, payload, next } => {
                    let has_values = !matches!(payload, Payload::None);
                    let is_wanted = (self.want)(&CallRecord { has_values, ..call(record, symbol, number) });
                    // A loss has no time: it happened after the record before it.
                    let is_lost = record.kind() == RecordKind::Lost;
                    let is_late = is_lost && !self.is_in_time(time) && time > 0;
                    if !is_lost {
                        time = record.time;
                    }
                    if self.is_in_time(record.time) && !is_late {
                        if before > record.time {
                            self.text += "\n*************************************\n";
                            self.text += "* inverted time - data seems broken *\n";
                            self.text += "*************************************\n\n";
                        }
                        before = record.time;
                        self.offset = at as u64;
                        if is_wanted {
                            self.record(task, at, number, tid, record, symbol, payload);
                        }
                    }
                    at = next;
                }
                RecordStep::Bad { .. } => match task.resume(at + 8, time, usize::MAX) {
                    Some(next) => at = next,
                    None => return Ok(()),
                },
                RecordStep::Torn => return Ok(()),
            }
            self.write_full()?;
        }
    }

    fn line(&mut self, time: u64, tid: i64) {
        self.gather();
        self.begin.write(&mut self.bytes, time, tid);
    }

    /// Puts what stands in `text` after the lines that are complete.
    #[inline]
    fn gather(&mut self) {
        if !self.text.is_empty() {
            self.bytes.extend_from_slice(self.text.as_bytes());
            self.text.clear();
        }
    }

    /// Appends the name of a symbol with the 48 bits of an address, up to the depth.
    #[inline]
    fn name(&mut self, symbol: u32, address: u64, stored: u64) {
        let slot = (stored ^ stored >> 10) as usize % SHOWN;
        match &self.shown[slot] {
            (known, of, text) if (*known, *of) == (stored, symbol) => self.bytes.extend_from_slice(text.as_bytes()),
            _ => self.new_name(slot, symbol, address, stored),
        }
    }

    #[cold]
    fn new_name(&mut self, slot: usize, symbol: u32, address: u64, stored: u64) {
        let text = format!("{}({stored:x}) depth: ", self.calls.symbol(symbol, address).name);
        self.bytes.extend_from_slice(text.as_bytes());
        self.shown[slot] = (stored, symbol, text);
    }

    /// Appends a call.
    #[inline]
    fn call(&mut self, time: u64, tid: i64, is_exit: bool, (symbol, address, stored): (u32, u64, u64), depth: u16) {
        self.line(time, tid);
        self.bytes.extend_from_slice(if is_exit { b"[exit ] " } else { b"[entry] " });
        self.name(symbol, address, stored);
        if depth < 10 {
            self.bytes.extend_from_slice(&[b'0' + depth as u8, b'\n']);
        } else {
            self.bytes.extend_from_slice(format!("{depth}\n").as_bytes());
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
        if kind == RecordKind::Event && self.options.no_events {
            return;
        }
        let address = record.address();
        let (word, name) = match kind {
            RecordKind::Entry | RecordKind::Exit => ("", String::new()),
            RecordKind::Lost => ("lost ", format!("<{address:x}>")),
            RecordKind::Event => ("event", self.calls.definitions.event_names.name(address as u32)),
        };
        if word.is_empty() {
            // A name is made of the stored bits.
            self.call(record.time, tid, kind == RecordKind::Exit, (symbol, address, address), record.depth());
        } else {
            self.line(record.time, tid);
            let _ = writeln!(self.text, "[{word}] {name}({address:x}) depth: {}", record.depth());
        }
        self.hex(task.bytes.get(at..at + 16).unwrap_or(&[]));
        if self.options.no_values {
            return;
        }
        match payload {
            Payload::Values { list, from, len } => {
                let specs = &task.signatures.lists[list as usize];
                let data = &task.bytes[from..from + len];
                self.values(specs, data, task.order, tid, &call(record, symbol, number));
                self.hex(data);
            }
            Payload::Data { from, len } => {
                let data = &task.bytes[from..from + len];
                self.line(record.time, tid);
                let _ = writeln!(self.text, "[data ] length = {len}");
                let mut shown = String::new();
                put_event(address as u32, data, task.order, false, &mut shown);
                let separator = if shown.is_empty() { "" } else { ": " };
                let _ = writeln!(self.text, "  {name}{separator}{shown}");
                self.hex(data);
            }
            _ => {}
        }
    }

    fn values(&mut self, specs: &[ArgumentSpec], data: &[u8], order: ByteOrder, tid: i64, record: &CallRecord) {
        let is_exit = record.kind == CallKind::Exit;
        let mut end = 0;
        for spec in specs {
            end = spec.read_value(data, end, order).map_or(end, |(_, next)| next);
        }
        self.line(record.time, tid);
        let word = if is_exit { "retval" } else { "args " };
        let _ = writeln!(self.text, "[{word}] length = {end}");
        let mut at = 0;
        for (index, spec) in specs.iter().enumerate() {
            let Some((value, next)) = spec.read_value(data, at, order) else { return };
            at = next;
            if is_exit {
                self.text += "  retval ";
            } else {
                let _ = write!(self.text, "  args[{index}] ");
            }
            self.value(spec, value, order, tid, record);
        }
    }

    fn value(&mut self, spec: &ArgumentSpec, value: &[u8], order: ByteOrder, tid: i64, record: &CallRecord) {
        let is_exit = record.kind == CallKind::Exit;
        let number = unsigned(value, order);
        let letter = match &spec.form {
            ArgumentForm::Text | ArgumentForm::StdString => {
                let text = if value.starts_with(&NULL_TEXT) { b"NULL" } else { value };
                let word = if spec.form == ArgumentForm::StdString { "std::string: " } else { "str: " };
                self.text += word;
                self.gather();
                self.bytes.extend_from_slice(text.split(|&byte| byte == 0).next().unwrap_or(&[]));
                self.bytes.push(b'\n');
                return;
            }
            ArgumentForm::Pointer => {
                let id = self.calls.definitions.names.id_at(tid, record.time, number);
                let symbol = self.calls.definitions.names.symbol(id).filter(|_| id > 0);
                let _ = match symbol {
                    Some(symbol) => {
                        writeln!(self.text, "p: {number:x} (&{})", demangled(symbol.name, self.calls.demangle))
                    }
                    None if number == 0 => writeln!(self.text, "p: {}", if is_exit { "(nil)" } else { "0" }),
                    None => writeln!(self.text, "p: {number:#x}"),
                };
                return;
            }
            ArgumentForm::Structure(name) => {
                let _ = write!(self.text, "struct {}:", name.as_deref().unwrap_or(""));
                for (at, byte) in value.iter().enumerate() {
                    self.text += if at % 16 == 0 { "\n\t" } else { "" };
                    let _ = write!(self.text, "{byte:02x} ");
                    self.text += if at % 8 == 7 { " " } else { "" };
                }
                self.text.push('\n');
                return;
            }
            ArgumentForm::Enumeration(name, values) if !is_exit => {
                let shown = enumerator(values.as_ref(), number as u32 as i32);
                let _ = writeln!(self.text, "enum {name}: {shown} ({number})");
                return;
            }
            ArgumentForm::Enumeration(..) => 'e',
            ArgumentForm::Auto => 'd',
            ArgumentForm::Signed => 'i',
            ArgumentForm::Unsigned => 'u',
            ArgumentForm::Hexadecimal => 'x',
            ArgumentForm::Octal => 'o',
            ArgumentForm::Character => 'c',
            ArgumentForm::Float => 'f',
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
    fn kernel(&mut self) -> io::Result<()> {
        let Some(kernel) = self.calls.definitions.kernel.as_deref() else { return Ok(()) };
        self.text.push('\n');
        for (file, path) in self.calls.files.iter().zip(&self.calls.paths) {
            let CallFile::Kernel(cpu, bytes) = file else { continue };
            let _ = writeln!(self.text, "reading kernel-cpu{cpu}.dat");
            let mut records = CpuRecords::new(kernel, bytes.bytes());
            while let Some(record) = records.next(|tid| self.calls.numbers.contains_key(&tid)) {
                if let Some(count) = record.lost {
                    self.line(record.time, record.tid);
                    // The number is not always known.
                    let count = if count > 0 { count as i64 } else { -1 };
                    let _ = writeln!(self.text, "[lost ]: {count} events");
                }
                let (kind, address, symbol, depth) = match record.call {
                    Some((address, depth, is_exit)) => {
                        let kind = if is_exit { CallKind::Exit } else { CallKind::Entry };
                        (kind, address, self.calls.definitions.names.kernel_id(address), depth)
                    }
                    None => (CallKind::Event, record.id.into(), 0, 0),
                };
                // Tasks that were not traced are none that options name.
                let task = self.calls.numbers.get(&record.tid).copied().unwrap_or(u32::MAX);
                let found = CallRecord::new(record.time, task, kind, CallOrigin::Kernel, address);
                let is_wanted = (self.want)(&CallRecord { symbol, depth, ..found });
                if !is_wanted || !self.is_in_time_of_all(record.time) {
                    continue;
                }
                let data = bytes.bytes().get(record.from..record.from + record.len).unwrap_or(&[]);
                match record.call {
                    Some((address, depth, is_exit)) => {
                        let stored = address & 0xffff_ffff_ffff;
                        self.call(record.time, record.tid, is_exit, (symbol, address, stored), depth);
                    }
                    None if self.options.no_events => continue,
                    None => {
                        self.line(record.time, record.tid);
                        let name = self.calls.definitions.event_names.name(record.id.into());
                        let _ = write!(self.text, "[event] {name}({}) ", record.id);
                        let calls = self.calls;
                        self.gather();
                        calls.put_kernel_event(record.id.into(), data, &mut self.bytes);
                        self.bytes.push(b'\n');
                    }
                }
                self.offset = record.from as u64;
                self.hex(data);
                self.write_full()?;
            }
            self.findings.faults.extend(records.faults.drain(..).map(|error| error.in_file(path)));
        }
        Ok(())
    }

    /// Writes what is gathered, when it is enough.
    fn write_full(&mut self) -> io::Result<()> {
        if self.bytes.len() + self.text.len() >= BUFFER {
            self.gather();
            self.out.write_all(&self.bytes)?;
            self.bytes.clear();
        }
        Ok(())
    }

    fn perf(&mut self) -> io::Result<()> {
        for (file, path) in self.calls.files.iter().zip(&self.calls.paths) {
            let CallFile::Perf(_, bytes) = file else { continue };
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name == "perf-cpu0.dat" {
                self.text.push('\n');
            }
            let _ = writeln!(self.text, "reading {name}");
            let mut at = 0;
            while let Some((next, event)) = perf::next(bytes.bytes(), self.calls.definitions.order, at) {
                at = next;
                let event = event.unwrap_or_else(|error| {
                    self.findings.faults.push(error.in_file(path));
                    None
                });
                let Some(event) = event else { continue };
                let Some(&task) = self.calls.numbers.get(&i64::from(event.tid)) else { continue };
                let id = u64::from(event.id);
                let is_sched = matches!(id, event_id::SCHED_IN | event_id::SCHED_OUT | event_id::SCHED_OUT_PREEMPTED);
                let is_left_out =
                    !(self.want)(&CallRecord::new(event.time, task, CallKind::Event, CallOrigin::System, id));
                if self.options.no_sched && is_sched || is_left_out || !self.is_in_time_of_all(event.time) {
                    continue;
                }
                self.line(event.time, event.tid.into());
                let name = self.calls.definitions.event_names.name(event.id);
                let _ = writeln!(self.text, "[event] {name}({})", event.id);
                self.write_full()?;
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
