//! A folder of uftrace as itself: its files as they are, its records made of its events.
//!
//! Arguments have the form of their function's specifications, so the files that say those are read as when the folder
//! is opened.

use std::path::Path;
use std::sync::Arc;

use tracemill_codec::chunk::{Bytes, EventRef};
use tracemill_codec::text::seconds;
use tracemill_codec::value::Value;
use tracemill_model::clock::{ClockMap, Drift};
use tracemill_model::error::{Error, ErrorKind, Result};
use tracemill_model::packet::Gap;
use tracemill_model::schema::{ByteOrder, Scope, TracePart};

use super::BUFFER;
use super::WRITING;
use super::kernel;
use super::record::{NumberWriter, bytes_of_hex, number, seconds_of};
use crate::classes::USER_DATA;
use crate::definitions::FolderDefinitions;
use crate::kernel::Kernel;
use crate::open::definitions;
use crate::records::RecordKind;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::{Source, TraceWriter, WriteOptions};
use tracemill_format::{Entry, EntryKind, OutFile, OutPath, Storage};
use tracemill_ftrace::page_writer::PageWriter;

/// Where the formats of the kernel's events stand.
const KERNEL_HEADER: &str = "kernel_header";

/// Writes a folder.
pub(super) struct FolderRewriter {
    folder: OutPath,
    parts: Vec<TracePart>,
    definitions: FolderDefinitions,
    numbers: NumberWriter,
    kernel: Kernel,
    moved: TimeShift,
    streams: Vec<RewrittenStream>,
    losses: Losses,
    scratch: Vec<u8>,
}

struct RewrittenStream {
    file: OutFile,
    kind: StreamKind,
    /// Task whose sessions say where addresses belong.
    tid: i64,
    /// Of the kernel.
    pages: PageWriter,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StreamKind {
    Task,
    Processor,
    Kernel,
    Messages,
}

impl FolderRewriter {
    pub(super) fn new(folder: OutPath, source: &Source, options: &WriteOptions) -> Result<FolderRewriter> {
        let parts = source.origin.parts.clone();
        let definitions = definitions(&PartFiles(&parts)).map_err(|error| error.in_file(Path::new(&source.name)))?;
        let streams = source.streams.iter().map(|stream| {
            let name = &stream.origin_name;
            let tid = name.strip_suffix(".dat").and_then(|tid| tid.parse().ok());
            let kind = match tid {
                Some(_) => StreamKind::Task,
                None if name.starts_with("perf-cpu") => StreamKind::Processor,
                None if name.starts_with("kernel-cpu") => StreamKind::Kernel,
                None => StreamKind::Messages,
            };
            RewrittenStream {
                file: OutFile::with_buffer(folder.join(name), BUFFER),
                kind,
                tid: tid.unwrap_or(0),
                pages: PageWriter::default(),
            }
        });
        let header = parts.iter().find(|part| part.name == KERNEL_HEADER);
        // Its faults were reported when it was read.
        let kernel = Kernel::read(header.map_or(&[], |part| &part.bytes), &mut Vec::new());
        Ok(FolderRewriter {
            kernel,
            streams: streams.collect(),
            folder,
            parts,
            numbers: NumberWriter(options.byte_order.unwrap_or(definitions.order)),
            definitions,
            moved: TimeShift::from_source(source),
            losses: Losses::default(),
            scratch: Vec::new(),
        })
    }

    fn call(&mut self, stream: usize, own_time: u64, time: u64, payload: &Value, is_exit: bool) {
        let address = number(payload, "addr");
        let mut values = None;
        if let Some(member) = payload.member(if is_exit { "retval" } else { "args" }) {
            let symbol = self.definitions.names.id_at(self.streams[stream].tid, own_time, address);
            let list = self.definitions.signatures.list(symbol, is_exit);
            let specs = self.definitions.signatures.lists.get(list as usize).map_or(&[][..], Vec::as_slice);
            let of_member: Vec<&Value> = match member.elements() {
                Some(elements) if !is_exit => elements.iter().collect(),
                _ => vec![member],
            };
            values = self.numbers.values(specs, &of_member).filter(|_| !specs.is_empty());
            if values.is_none() {
                self.losses.add(Lost::UndescribedValues, 1);
            }
        }
        let (kind, depth) =
            (if is_exit { RecordKind::Exit } else { RecordKind::Entry }, number(payload, "depth") as u16);
        self.numbers.record(&mut self.scratch, kind, time, depth, address, values.as_deref());
    }

    fn user_event(&mut self, time: u64, payload: &Value) {
        let id = number(payload, "id");
        let data = payload.member("data").map(|data| self.data(id as u32, data));
        let data = data.map(|data| self.numbers.data(&data));
        self.numbers.record(&mut self.scratch, RecordKind::Event, time, 0, id, data.as_deref());
    }

    fn data(&self, id: u32, data: &Value) -> Vec<u8> {
        let mut out = Vec::new();
        let word = if self.definitions.names.is_64_bit { 8 } else { 4 };
        let known = USER_DATA.iter().find(|(ids, _)| ids.contains(&id));
        if let Some(text) = data.member("text").and_then(Value::bytes) {
            out = bytes_of_hex(text);
        } else if let Some((_, names)) = known {
            names.iter().for_each(|name| self.numbers.write(&mut out, number(data, name), 8));
        } else if data.member("cpu").is_some() {
            self.numbers.write(&mut out, number(data, "cpu"), 4);
        } else if data.member("callsite").is_some() {
            self.numbers.write(&mut out, number(data, "callsite"), word);
        } else {
            self.numbers.write(&mut out, number(data, "addr"), word);
            self.numbers.write(&mut out, number(data, "value"), 8);
        }
        out
    }

    /// A record of the kernel's perf ring (`SPEC.md`, section 7).
    fn processor(&mut self, time: u64, payload: &Value) {
        let (tid, data) = (number(payload, "tid"), payload.member("data"));
        let of = |name: &str| data.map_or(0, |data| number(data, name));
        let pid = self.definitions.names.tasks.tasks.get(&i64::from(tid as i32)).map_or(tid, |task| task.pid as u64);
        let mut body = Vec::new();
        let numbers = self.numbers;
        let (kind, flags) = match number(payload, "id") {
            200_001 => (14, 0),
            200_002 => (14, 0x2000),
            200_007 => (14, 0x6000),
            id @ (200_004 | 200_005) => {
                for value in [of("pid"), of("ppid"), tid, tid] {
                    numbers.write(&mut body, value, 4);
                }
                numbers.write(&mut body, time, 8);
                (if id == 200_004 { 7 } else { 4 }, 0)
            }
            200_006 => {
                numbers.write(&mut body, pid, 4);
                numbers.write(&mut body, tid, 4);
                let name = data.and_then(|data| data.member("comm")).and_then(Value::bytes).unwrap_or(&[]);
                body.extend_from_slice(name);
                body.push(0);
                body.resize(body.len().next_multiple_of(8), 0);
                (3, if of("exec") != 0 { 0x2000 } else { 0 })
            }
            _ => return self.losses.add(Lost::OtherCpuEvents, 1),
        };
        numbers.write(&mut body, pid, 4);
        numbers.write(&mut body, tid, 4);
        numbers.write(&mut body, time, 8);
        numbers.write(&mut self.scratch, kind, 4);
        numbers.write(&mut self.scratch, flags, 2);
        numbers.write(&mut self.scratch, body.len() as u64 + 8, 2);
        self.scratch.extend_from_slice(&body);
    }

    /// A record in a page of the kernel (`SPEC.md`, section 8).
    fn kernel_event(&mut self, stream: usize, name: Option<&str>, time: u64, payload: &Value) {
        let is_exit = name.filter(|name| matches!(*name, "entry" | "exit")).map(|name| name == "exit");
        let is_task = |tid| self.definitions.names.tasks.tasks.contains_key(&tid);
        match kernel::record(&self.kernel, is_exit, payload, is_task) {
            Ok(record) if self.streams[stream].pages.push(&self.kernel.layout, time, &record, &mut self.scratch) => {}
            Ok(_) => self.losses.add(Lost::LargeKernelEvents, 1),
            Err(what) => self.losses.add(what, 1),
        }
    }

    fn message(&mut self, time: u64, payload: &Value) {
        let text = payload.member("data").and_then(|data| data.member("msg")).and_then(Value::bytes).unwrap_or(&[]);
        self.scratch.extend_from_slice(seconds_of(time).as_bytes());
        self.scratch.push(b' ');
        self.scratch.extend_from_slice(text);
        self.scratch.push(b'\n');
    }

    /// The file `info` in the order of bytes that is written.
    fn info(&self, bytes: &[u8]) -> Vec<u8> {
        let mut info = bytes.to_vec();
        if self.numbers.0 != self.definitions.order {
            for field in [8..12, 12..14, 16..24, 24..32, 32..34] {
                info.get_mut(field).into_iter().for_each(<[u8]>::reverse);
            }
            if let Some(order) = info.get_mut(14) {
                *order = if self.numbers.0 == ByteOrder::Big { 2 } else { 1 };
            }
        }
        info
    }
}

impl TraceWriter for FolderRewriter {
    fn losses(&self) -> Losses {
        self.losses.clone()
    }

    fn event(&mut self, stream: usize, event: EventRef<'_>) -> Result<()> {
        let schema = event.chunk.packet.plans.schema().clone();
        let class = schema.event(event.class());
        let payload = event.values(Scope::Payload).ok().flatten().unwrap_or(Value::Null);
        let own_time = event.cycles();
        let (time, is_early) = self.moved.time(own_time);
        self.losses.add(Lost::ZeroTimes, is_early.into());
        self.scratch.clear();
        match (self.streams[stream].kind, class.name.as_deref()) {
            (StreamKind::Task, Some("entry")) => self.call(stream, own_time, time, &payload, false),
            (StreamKind::Task, Some("exit")) => self.call(stream, own_time, time, &payload, true),
            (StreamKind::Task, Some("lost")) => {
                let lost = number(&payload, "lost");
                self.numbers.record(&mut self.scratch, RecordKind::Lost, 0, 0, lost, None);
            }
            (StreamKind::Task, Some("event")) => self.user_event(time, &payload),
            (StreamKind::Kernel, name) => self.kernel_event(stream, name, time, &payload),
            (StreamKind::Processor, _) => self.processor(time, &payload),
            (StreamKind::Messages, _) => self.message(time, &payload),
            _ => self.losses.add(Lost::OtherEvents, 1),
        }
        self.streams[stream].file.write(&self.scratch)
    }

    /// Events are missing here. Records of tasks say so themselves.
    fn gap(&mut self, stream: usize, gap: &Gap) -> Result<()> {
        let of = &mut self.streams[stream];
        if of.kind != StreamKind::Kernel {
            return Ok(());
        }
        self.scratch.clear();
        of.pages.gap(&self.kernel.layout, gap.count, &mut self.scratch);
        if self.scratch.is_empty() { Ok(()) } else { of.file.write(&self.scratch) }
    }

    fn end_stream(&mut self, stream: usize) -> Result<()> {
        self.scratch.clear();
        let of = &mut self.streams[stream];
        of.pages.end_page(&self.kernel.layout, &mut self.scratch);
        if !self.scratch.is_empty() {
            of.file.write(&self.scratch)?;
        }
        of.file.end()
    }

    fn finish(mut self: Box<Self>) -> Result<Losses> {
        self.folder.make_folder()?;
        for stream in 0..self.streams.len() {
            self.end_stream(stream)?;
        }
        // `info` makes it a trace: it comes last.
        let (info, others): (Vec<&TracePart>, Vec<&TracePart>) =
            self.parts.iter().partition(|part| part.name == "info");
        for part in others.iter().filter(|part| is_plain(&part.name)) {
            let bytes = match part.name.as_str() {
                TASKS => self.moved.lines(&part.bytes),
                _ => part.bytes.to_vec(),
            };
            self.folder.join(&part.name).write(WRITING, &bytes)?;
        }
        for part in info {
            self.folder.join("info").write(WRITING, self.info(&part.bytes))?;
        }
        self.streams.iter().try_for_each(|stream| stream.file.check())?;
        Ok(self.losses)
    }
}

/// The file with tasks, sessions and libraries, and what stands before their times in it.
const TASKS: &str = "task.txt";
const STAMP: &[u8] = b"timestamp=";

/// The shift of the times of a trace.
#[derive(Clone, Copy, Default)]
struct TimeShift {
    ns: i64,
    drift: Option<(Drift, ClockMap)>,
}

impl TimeShift {
    fn from_source(source: &Source) -> TimeShift {
        let clock = source.schema.clocks().first();
        let drift = source.drift.zip(clock.map(|clock| ClockMap::new(clock, source.correction_ns)));
        TimeShift { ns: source.moved_ns(), drift }
    }

    /// Another time, and is it before zero?
    fn time(&self, own_time: u64) -> (u64, bool) {
        let drifted = self.drift.map_or(0, |(drift, clock)| {
            let ns = clock.ns(own_time);
            drift.ns(ns) - ns
        });
        let time = i128::from(own_time) + i128::from(self.ns) + drifted;
        (time.clamp(0, u64::MAX.into()) as u64, time < 0)
    }

    /// The lines of tasks with other times: what they tell belongs to the records from then on.
    fn lines(&self, lines: &[u8]) -> Vec<u8> {
        if self.ns == 0 && self.drift.is_none() {
            return lines.to_vec();
        }
        moved(lines, |ns| self.time(ns).0)
    }
}

/// Lines with other times in their stamps.
fn moved(lines: &[u8], time: impl Fn(u64) -> u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(lines.len());
    for line in lines.split_inclusive(|&byte| byte == b'\n') {
        let at = line.windows(STAMP.len()).position(|part| part == STAMP).map(|at| at + STAMP.len());
        let (before, rest) = line.split_at(at.unwrap_or(line.len()));
        let end = rest.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.').unwrap_or(rest.len());
        let (stamp, behind) = rest.split_at(end);
        out.extend_from_slice(before);
        match ns_of(stamp).map(&time) {
            Some(ns) => out.extend_from_slice(seconds_of(ns).as_bytes()),
            None => out.extend_from_slice(stamp),
        }
        out.extend_from_slice(behind);
    }
    out
}

/// A time in seconds with nine digits after the point.
fn ns_of(stamp: &[u8]) -> Option<u64> {
    let stamp = std::str::from_utf8(stamp).ok()?;
    let (_, fraction) = stamp.split_once('.')?;
    if fraction.len() == 9 { seconds(stamp) } else { None }
}

/// Is it the name of a file in the folder itself?
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', '\0'])
}

/// Parts as the files that they were.
struct PartFiles<'a>(&'a [TracePart]);

impl PartFiles<'_> {
    fn find(&self, path: &Path) -> Option<&TracePart> {
        let name = path.file_name()?.to_str()?;
        self.0.iter().find(|part| part.name == name)
    }
}

impl Storage for PartFiles<'_> {
    fn list(&self, directory: &Path) -> Result<Vec<Entry>> {
        let entry = |part: &TracePart| Entry {
            path: directory.join(&part.name),
            name: part.name.clone(),
            kind: EntryKind::File(part.bytes.len() as u64),
        };
        let mut entries: Vec<Entry> = self.0.iter().map(entry).collect();
        entries.sort_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
        Ok(entries)
    }

    fn kind(&self, path: &Path) -> Option<EntryKind> {
        self.find(path).map(|part| EntryKind::File(part.bytes.len() as u64))
    }

    fn open(&self, file: &Path) -> Result<Arc<dyn Bytes>> {
        let missing = || Error::new(ErrorKind::Io, format!("the trace does not say what its file {file:?} was"));
        Ok(Arc::new(self.find(file).ok_or_else(missing)?.bytes.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::TimeShift;

    #[test]
    fn lines_of_tasks_move_with_their_records() {
        let lines =
            b"SESS timestamp=12.999999999 pid=7 sid=ab exename=\"/x\"\nTASK timestamp=0.000000005 tid=7 pid=7\nodd\n";
        let text = |ns| String::from_utf8(TimeShift { ns, drift: None }.lines(lines)).unwrap_or_default();
        assert!(text(0).as_bytes() == lines);
        assert!(text(1).starts_with("SESS timestamp=13.000000000 pid=7 sid=ab"));
        assert!(text(-6).ends_with("\nTASK timestamp=0.000000000 tid=7 pid=7\nodd\n"));
    }
}
