//! From a file to an opened trace.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use tracemill_model::error::{Error, Result};
use tracemill_model::schema::{ClockClass, ClockId, ClockOrigin, EnvValue, Schema, StreamClass, StreamClassId};

use super::classes::{Classes, FormatOddities, SharedFields, add_stream};
use super::compression::Algorithm;
use super::container::{Buffer, Container, CpuData, MAGIC};
use super::event_format::EventFormat;
use super::packets::{self, FtraceReader, StreamInfo};
use super::parts::{self, PartsOf};
use super::ring_buffer::PageLayout;
use tracemill_format::{DataFile, EntryKind, FoundTrace, OpenContext, OpenTrace, Section, Storage, Stream};

/// Clocks that do not count ns; all others of the kernel do.
const NO_NS: [&str; 3] = ["counter", "x86-tsc", "ppc-tb"];
/// Clocks of the kernel. Others share one stream class, so that there are not more classes than these.
const CLOCKS: [&str; 12] = [
    "local", "global", "counter", "uptime", "perf", "mono", "mono_raw", "boot", "tai", "x86-tsc", "ppc-tb", "tsc2nsec",
];
/// The clock of a tracer that was not told another.
const DEFAULT_CLOCK: &str = "local";

/// Does the file begin as a trace.dat, or do the parts of one that is still recorded?
pub(crate) fn probe(storage: &dyn Storage, path: &Path) -> bool {
    let is_one = |file: &Path| {
        matches!(storage.kind(file), Some(EntryKind::File(_)))
            && storage.read_start(file, MAGIC.len()).is_ok_and(|start| start == MAGIC)
    };
    is_one(path) || is_in_parts(storage, path) && is_one(&path.join(parts::HEAD))
}

fn is_in_parts(storage: &dyn Storage, path: &Path) -> bool {
    storage.is_unfinished() && matches!(storage.kind(path), Some(EntryKind::Directory))
}

/// Opens all files.
pub(crate) fn open(context: &OpenContext<'_>, found: &[FoundTrace]) -> Vec<Result<OpenTrace>> {
    let open = |found: &FoundTrace| match is_in_parts(context.storage, &found.path) {
        true => open_parts(context.storage, found),
        false => open_file(context.storage, found),
    };
    found.iter().map(|found| open(found).map_err(|error| error.in_file(&found.path))).collect()
}

fn open_file(storage: &dyn Storage, found: &FoundTrace) -> Result<OpenTrace> {
    let bytes = storage.open(&found.path)?;
    let container = Container::read(bytes.bytes())?;
    let file = DataFile { is_indexed: true, ..DataFile::single(found, bytes) };
    Ok(open_container(found, container, &|_| file.clone()))
}

/// Opens what is there of a file that is still recorded: pages are in files of their own.
fn open_parts(storage: &dyn Storage, found: &FoundTrace) -> Result<OpenTrace> {
    let PartsOf { file, cpus, page_bytes } = PartsOf::read(storage, &found.path)?;
    let mut container = Container::read(&file)?;
    let mut files: HashMap<u32, DataFile> = HashMap::new();
    let mut pages = Vec::new();
    for (cpu, name) in cpus {
        let path = found.path.join(&name);
        let bytes = storage.open(&path)?;
        let len = bytes.bytes().len() as u64;
        pages.push(CpuData { cpu, offset: 0, len: len - len % page_bytes });
        files.insert(cpu, DataFile { path, relative: name, bytes, is_indexed: true });
    }
    // The recorder has one buffer.
    if let Some(buffer) = container.buffers.first_mut() {
        buffer.cpus = pages.into_iter().filter(|data| files.contains_key(&data.cpu)).collect();
    }
    Ok(open_container(found, container, &|cpu| files[&cpu].clone()))
}

/// Opens a file whose contents are known; `file_of` gives the file that has the pages of a CPU.
fn open_container(found: &FoundTrace, mut container: Container, file_of: &dyn Fn(u32) -> DataFile) -> OpenTrace {
    let mut opener = Opener::new(&mut container);
    let mut streams = Vec::new();
    let buffers = std::mem::take(&mut opener.container.buffers);
    for buffer in &buffers {
        opener.open_buffer(buffer, file_of, &mut streams);
    }
    let Opener { schema, streams: infos, classes, .. } = opener;
    let (unusable, ambiguous) = (std::mem::take(&mut container.unusable), std::mem::take(&mut container.ambiguous));
    let oddities = FormatOddities::new(unusable, ambiguous);
    let listed = buffers.first().map_or(0, |top| top.cpus.len() as u64);
    let cpus = container.options.cpus.map_or(listed, u64::from);
    let raw = Arc::new(std::mem::take(&mut container.raw));
    let reader =
        FtraceReader { parts: raw, streams: infos, classes, oddities, cpus: Some(cpus).filter(|cpus| *cpus > 0) };
    let mut trace = OpenTrace::from_file(found, schema, Arc::new(reader));
    trace.own_name = found.name.clone();
    trace.streams = streams;
    trace.sections = sections(&container, &buffers);
    if container.options.has_time_shift {
        let warning = Error::unsupported("times of a guest, which could be moved to those of its host");
        trace.warnings.push(warning.in_file(&found.path).with_help("times are shown as the guest took them"));
    }
    trace.faults =
        container.faults.finish("faults like these").into_iter().map(|fault| fault.in_file(&found.path)).collect();
    trace
}

/// State of opening a file.
struct Opener<'c> {
    container: &'c mut Container,
    schema: Schema,
    formats: Vec<(String, EventFormat)>,
    fields: SharedFields,
    by_clock: HashMap<String, StreamClassId>,
    classes: HashMap<StreamClassId, Classes>,
    streams: HashMap<String, StreamInfo>,
}

impl<'c> Opener<'c> {
    fn new(container: &'c mut Container) -> Self {
        let mut schema = Schema::new("ftrace");
        schema.version = (container.version, 0);
        schema.byte_order = container.byte_order;
        schema.environment = environment(container);
        let formats = container.formats.clone();
        let strings = Arc::new(std::mem::take(&mut container.format_strings));
        let fields = SharedFields::new(container.byte_order).with_format_strings(strings);
        Opener {
            container,
            schema,
            formats,
            fields,
            by_clock: HashMap::new(),
            classes: HashMap::new(),
            streams: HashMap::new(),
        }
    }

    fn open_buffer(&mut self, buffer: &Buffer, file_of: &dyn Fn(u32) -> DataFile, streams: &mut Vec<Stream>) {
        if buffer.is_text {
            let len = buffer.cpus.first().map_or(0, |text| text.len);
            let message = format!("the trace is {len} bytes of text that a latency tracer made, and holds no records");
            let error = Error::unsupported(message).at_offset(buffer.cpus.first().map_or(0, |text| text.offset));
            return self.container.fault(error.with_help("the text is not read"));
        }
        if buffer.cpus.iter().all(|data| data.len == 0) {
            return;
        }
        let clock = buffer.clock.as_ref().or(self.container.options.clock.as_ref());
        let clock = clock.map_or(DEFAULT_CLOCK, String::as_str).to_string();
        let Some(class) = self.class_of(&clock) else { return };
        let mut layout = self.container.layout;
        layout.page_bytes = buffer.page_bytes as usize;
        if layout.data_offset >= layout.page_bytes {
            layout = PageLayout::new(layout.machine, layout.page_bytes);
        }
        for &data in buffer.cpus.iter().filter(|data| data.len > 0) {
            let cpu = format!("cpu{}", data.cpu);
            let name = if buffer.name.is_empty() { cpu } else { format!("{}/{cpu}", buffer.name) };
            if self.streams.contains_key(&name) {
                let error = Error::malformed(format!("the data of `{name}` is there twice")).at_offset(data.offset);
                self.container.fault(error.with_help("the first is taken"));
                continue;
            }
            let mut info = StreamInfo { cpu: data.cpu, layout, tsc: self.container.options.tsc, packed: None };
            let file = file_of(data.cpu);
            let all = file.bytes.bytes();
            let packets = match self.algorithm(buffer) {
                Err(error) => {
                    self.container.fault(error.at_offset(data.offset));
                    continue;
                }
                Ok(None) => packets::in_file(all, data, &info, class),
                Ok(Some(algorithm)) => {
                    let mut faults = Vec::new();
                    let order = self.container.byte_order;
                    let (packets, pieces) = packets::packed(all, data, &layout, order, class, &mut faults);
                    faults.into_iter().for_each(|fault| self.container.fault(fault));
                    info.packed = Some((algorithm, pieces));
                    packets
                }
            };
            let id = Some(u64::from(data.cpu));
            streams.push(Stream { name: name.clone(), class, id, files: vec![file], packets: packets.into() });
            self.streams.insert(name, info);
        }
    }

    fn algorithm(&self, buffer: &Buffer) -> Result<Option<Algorithm>> {
        if !buffer.is_packed {
            return Ok(None);
        }
        let name = self.container.compression.as_ref().map_or("none", |(name, _)| name.as_str());
        match Algorithm::parse(name)? {
            Some(algorithm) => Ok(Some(algorithm)),
            None => Err(Error::malformed("the data is packed, and the file does not say how")),
        }
    }

    /// The stream class of a clock.
    fn class_of(&mut self, clock: &str) -> Option<StreamClassId> {
        let key = CLOCKS.iter().find(|known| **known == clock).copied().unwrap_or("");
        if let Some(&class) = self.by_clock.get(key) {
            return Some(class);
        }
        let id = self.by_clock.len() as u64;
        let clock = self.add_clock(clock);
        let stream = StreamClass { id, default_clock: Some(clock), ..StreamClass::default() };
        let (class, classes) = add_stream(&mut self.schema, stream, &self.formats, &mut self.fields)?;
        self.by_clock.insert(key.to_string(), class);
        self.classes.insert(class, classes);
        Some(class)
    }

    fn add_clock(&mut self, name: &str) -> ClockId {
        let options = &self.container.options;
        let mut clock = ClockClass::nanoseconds(name);
        clock.offset_cycles = options.offset_ns;
        if let Some(tsc) = options.tsc {
            clock.has_made_cycles = true;
            clock.offset_cycles -= i128::from(tsc.offset_ns);
        } else if NO_NS.contains(&name) {
            clock.frequency = 0;
            clock.offset_cycles = 0;
        }
        if options.is_date {
            clock.origin = ClockOrigin::Unix;
        }
        self.schema.add_clock(clock)
    }
}

fn environment(container: &Container) -> Vec<(Arc<str>, EnvValue)> {
    let options = &container.options;
    let mut environment: Vec<(Arc<str>, EnvValue)> = Vec::new();
    let mut add = |name: &str, value: EnvValue| environment.push((name.into(), value));
    add("long_size", EnvValue::Integer(container.long_bytes.into()));
    add("page_size", EnvValue::Integer(container.page_bytes.into()));
    if let Some(cpus) = options.cpus {
        add("cpus", EnvValue::Integer(cpus.into()));
    }
    if let Some(id) = options.trace_id {
        add("trace_id", EnvValue::Integer(id.into()));
    }
    if let Some((name, version)) = &container.compression {
        add("compression", EnvValue::String(format!("{name} {version}").trim().into()));
    }
    for (name, text) in options.texts.iter().filter(|(name, _)| matches!(*name, "uname" | "version")) {
        add(name, EnvValue::String(text.as_str().into()));
    }
    environment
}

/// Sections for `info`.
fn sections(container: &Container, buffers: &[Buffer]) -> Vec<Section> {
    let (text, number) = (Section::text, |value: usize| Section::number(value as u64));
    let mut systems: Vec<(&str, usize)> = Vec::new();
    for (system, _) in &container.formats {
        match systems.last_mut() {
            Some((last, count)) if last == system => *count += 1,
            _ => systems.push((system, 1)),
        }
    }
    let texts = container.options.texts.iter().filter(|(name, _)| !matches!(*name, "uname" | "version"));
    let clock = |buffer: &Buffer| text(buffer.clock.as_ref().or(container.options.clock.as_ref())?);
    let mut sections = vec![
        Section::from_items(
            "buffers",
            buffers,
            &[
                ("instance", &|buffer| text(if buffer.name.is_empty() { "(top)" } else { &buffer.name })),
                ("clock", &|buffer| clock(buffer)),
                ("page_size", &|buffer| Section::number(buffer.page_bytes)),
                ("cpus", &|buffer| number(buffer.cpus.len())),
                ("packed", &|buffer| text(if buffer.is_packed { "yes" } else { "no" })),
            ],
        ),
        Section::from_items("event systems", systems, &[("system", &|of| text(of.0)), ("events", &|of| number(of.1))]),
        Section::from_items(
            "processes",
            &container.comms,
            &[("pid", &|(pid, _)| Section::number(*pid)), ("name", &|(_, name)| text(name))],
        ),
        Section::from_items(
            "options",
            texts,
            &[("option", &|(name, _)| text(name)), ("value", &|(_, value)| text(value))],
        ),
    ];
    sections.retain(|section| !section.rows.is_empty());
    sections
}
