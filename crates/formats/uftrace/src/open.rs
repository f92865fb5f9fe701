//! From a folder to an opened trace.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use tracemill_codec::chunk::{Bytes, PacketData};
use tracemill_codec::trace_plans::TracePlans;
use tracemill_model::error::{Error, ErrorKind, Result};
use tracemill_model::packet::Packet;
use tracemill_model::schema::{ByteOrder, EnvValue, Part, Schema, StreamClassId};

use super::arguments::Signatures;
use super::calls::{CallFile, Calls};
use super::classes::{self, Classes, EventNames, Streams};
use super::debug::DebugInfo;
use super::dump::Header;
use super::events;
use super::info::{self, Info, feature};
use super::kernel::{self, Kernel};
use super::kernel_events;
use super::layout::Events;
use super::maps::Map;
use super::names::{Module, Names, Resolver, Space};
use super::records::TaskBytes;
use super::slices::{self, Slice};
use super::symbols::{FileHeader, SymbolFile, base_name, choose};
use super::tasks::{Session, Tasks, seconds};
use super::{messages, perf};
use tracemill_format::calls::{CallProgram, CallSource, CallTask, Recording};
use tracemill_format::{
    DataFile, Demangle, EntryKind, Found, OpenContext, OpenTrace, OpenedPacket, PacketReader, Section, Storage, Stream,
    TraceFiles,
};
use tracemill_ftrace::packets::StreamInfo;

/// Is it a folder with the file `info` of uftrace?
pub(crate) fn probe(storage: &dyn Storage, path: &Path) -> bool {
    let info = path.join("info");
    matches!(storage.kind(&info), Some(EntryKind::File(_)))
        && storage.read_start(&info, info::MAGIC.len()).is_ok_and(|start| start == info::MAGIC)
}

/// Opens folders.
pub(crate) fn open(context: &OpenContext<'_>, found: &[Found]) -> Vec<Result<OpenTrace>> {
    found.iter().map(|found| Folder::open(context, found)).collect()
}

/// Byte order, names and specifications of a folder, whatever its records.
pub(super) fn definitions(storage: &dyn Storage) -> Result<(ByteOrder, Arc<Names>, Arc<Signatures>)> {
    let found = Found { path: Path::new("").to_path_buf(), name: String::new(), below: String::new() };
    let opening = Folder::read(storage, &found)?;
    Ok((opening.reader.order, opening.reader.names, opening.reader.signatures))
}

/// A file, or why it cannot be read.
type Opened = Result<Arc<dyn Bytes>>;

/// The comments at the beginning of a file of symbols are looked for in so many bytes.
const MAX_HEADER: usize = 8192;

/// What is read of a folder, while it is opened.
struct Folder<'a> {
    storage: &'a dyn Storage,
    path: &'a Path,
    /// Names and lengths of its files.
    files: Vec<(String, u64)>,
    warnings: Vec<Error>,
    faults: Vec<Error>,
}

/// What opening has found before it looks at records.
struct Opening<'a> {
    reader: Reader,
    folder: Folder<'a>,
    schema: Schema,
    classes: Streams,
    tids: Vec<i64>,
    max_stack: Option<u16>,
    header: Header,
    recording: Recording,
}

impl<'a> Folder<'a> {
    fn open(context: &OpenContext<'a>, found: &'a Found) -> Result<OpenTrace> {
        let storage = context.storage;
        // Following calls reads the files directly, and wants neither tables nor the other files of the folder.
        let is_cut = !context.calls_only;
        let Opening { mut reader, mut folder, schema, classes, tids, max_stack, header, recording } =
            Folder::read(storage, found)?;
        let streams = folder.streams(&mut reader, classes, &tids, is_cut);
        if is_cut {
            reader.files = folder.parts(&streams);
        }
        reader.calls = Some(folder.calls(&reader, &streams, &tids, max_stack, (header, recording), context.demangle));
        if streams.iter().all(|stream| stream.packets.is_empty()) {
            let error = Error::new(ErrorKind::Inconsistent, "no file of records has any record");
            folder.warnings.push(error.in_file(&found.path));
        }
        let schema = Arc::new(schema);
        Ok(OpenTrace {
            name: found.name.clone(),
            path: found.path.clone(),
            own_name: found.below.clone(),
            plans: Arc::new(TracePlans::new(schema.clone())),
            schema,
            has_other_bytes: false,
            sections: if is_cut { sections(&reader.names, &tids) } else { Vec::new() },
            reader: Arc::new(reader),
            streams,
            remarks: Vec::new(),
            faults: folder.faults,
            warnings: folder.warnings,
        })
    }

    /// Reads everything but records.
    fn read(storage: &'a dyn Storage, found: &'a Found) -> Result<Opening<'a>> {
        let entries = storage.list(&found.path)?;
        let files = entries.into_iter().filter_map(|entry| match entry.kind {
            EntryKind::File(len) => Some((entry.name, len)),
            _ => None,
        });
        let mut folder =
            Folder { storage, path: &found.path, files: files.collect(), warnings: Vec::new(), faults: Vec::new() };
        let path = found.path.join("info");
        let bytes = storage.open(&path)?;
        let mut info = Info::read(bytes.bytes()).map_err(|error| error.in_file(&path))?;
        let odd = std::mem::take(&mut info.warnings);
        folder.warn(odd, "info");
        let tasks = folder.tasks(&info);
        let names = Arc::new(folder.names(&info, tasks));
        let signatures = Arc::new(Signatures::new(&info.specs, &names));
        let kernel = folder.kernel().map(Arc::new);
        let events = folder.text("events.txt");
        let events = events.as_ref().map_or(&[][..], |events| events.bytes());
        let event_names = Arc::new(EventNames::new(events, kernel.as_deref()));
        let mut schema = Schema::new("uftrace");
        schema.version = (info.version, 0);
        schema.byte_order = info.byte_order;
        schema.environment = environment(&info);
        let (streams_of, classes) = classes::build(&mut schema, &names, &event_names, &signatures, kernel.as_deref());
        let tids = folder.tids(&info);
        let reader = Reader {
            order: info.byte_order,
            traced: tids.iter().copied().collect(),
            names,
            signatures,
            event_names,
            kernel,
            classes,
            calls: None,
            sources: Vec::new(),
            files: Vec::new(),
        };
        let entry = |name: &str| {
            let found = info.entries.iter().find(|(key, _)| key == name);
            found.map(|(_, value)| value.clone())
        };
        let recording = Recording {
            version: entry("uftrace_version").map(|version| format!("uftrace {version}")),
            date: entry("record_date"),
            command: entry("cmdline").map(|command| unquote(&command)),
            program: entry("exename").map(|path| base_name(&path).to_string()),
            elapsed_ns: entry("elapsed_time").and_then(|time| seconds(time.trim_end_matches(" sec"))),
        };
        let header = Header {
            bytes: bytes.bytes().iter().take(40).copied().collect(),
            version: info.version,
            header_size: info.header_size,
            features: info.features,
            groups: info.groups,
        };
        Ok(Opening { reader, folder, schema, classes: streams_of, tids, max_stack: info.max_stack, header, recording })
    }

    /// The same as calls.
    fn calls(
        &mut self,
        reader: &Reader,
        streams: &[Stream],
        tids: &[i64],
        max_stack: Option<u16>,
        (header, recording): (Header, Recording),
        demangle: Demangle,
    ) -> Calls {
        let names = &reader.names;
        let named = names_of_tasks(streams, reader.order);
        let task = |&tid: &i64| {
            let task = names.tasks.tasks.get(&tid);
            // As the peer names a task from its beginning: by the program that it became last.
            let session = names.tasks.session_at(tid, u64::MAX - 1);
            let name = session.map_or("", |at| base_name(&names.tasks.sessions[at].exename));
            // The system keeps 15 bytes of a name.
            let first_name = name.as_bytes()[..name.len().min(15)].to_vec();
            CallTask {
                tid,
                pid: task.map_or(tid, |task| task.pid),
                parent: task.map_or(0, |task| task.parent),
                start: task.map_or(0, |task| task.start),
                order: task.map_or(u32::MAX, |task| task.order),
                name: named.get(&tid).unwrap_or(&first_name).clone(),
                first_name,
            }
        };
        let program = |session: &Session| CallProgram {
            id: session.sid.clone(),
            name: base_name(&session.exename).to_string(),
            pid: session.pid,
            start: session.start,
        };
        let files = streams.iter().zip(&reader.sources).map(|(stream, source)| {
            let bytes = stream.files[0].bytes.clone();
            match source {
                Source::Task { tid, .. } => {
                    let number = tids.iter().position(|&known| known == i64::from(*tid)).unwrap_or(0);
                    CallFile::Task(number, bytes)
                }
                Source::Kernel(info) => CallFile::Kernel(info.cpu, bytes),
                Source::Perf { .. } => CallFile::Perf(bytes),
                Source::Messages => CallFile::Messages(bytes),
            }
        });
        let files = files.collect();
        let paths = streams.iter().map(|stream| stream.files[0].path.clone()).collect();
        let is_forked = |tid: &i64| names.tasks.tasks.get(tid).is_none_or(|task| task.parent != 0);
        let options = self.text("default.opts");
        let options = options.as_ref().map_or(&[][..], |options| options.bytes());
        Calls {
            order: reader.order,
            names: names.clone(),
            event_names: reader.event_names.clone(),
            signatures: reader.signatures.clone(),
            kernel: reader.kernel.clone(),
            tasks: tids.iter().map(task).collect(),
            programs: names.tasks.sessions.iter().map(program).collect(),
            files,
            paths,
            is_forked: tids.iter().map(is_forked).collect(),
            max_stack,
            header,
            numbers: self.numbers(tids),
            has_perf: self.files.iter().any(|(name, _)| name.starts_with("perf-cpu") && name.ends_with(".dat")),
            recording,
            demangle,
            default_options: String::from_utf8_lossy(options).split_whitespace().map(str::to_string).collect(),
        }
    }

    /// All files but those of records. What cannot be read was told where it was needed.
    fn parts(&self, streams: &[Stream]) -> Vec<(String, Arc<dyn Bytes>)> {
        let is_part = |name: &str| {
            let is_stream = streams.iter().any(|stream| stream.name == name);
            let is_kernel = name.starts_with("kernel-cpu") && name.ends_with(".dat");
            !is_stream && !is_kernel
        };
        let names = self.files.iter().map(|(name, _)| name).filter(|name| is_part(name));
        names.filter_map(|name| Some((name.clone(), self.storage.open(&self.path.join(name)).ok()?))).collect()
    }

    fn warn(&mut self, errors: Vec<Error>, name: &str) {
        let path = self.path.join(name);
        self.warnings.extend(errors.into_iter().map(|error| error.in_file(&path)));
    }

    /// The content of a file, `None` when it is not there or cannot be read (told).
    fn text(&mut self, name: &str) -> Option<Arc<dyn Bytes>> {
        if !self.files.iter().any(|(file, _)| file == name) {
            return None;
        }
        match self.storage.open(&self.path.join(name)) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                self.faults.push(error);
                None
            }
        }
    }

    fn tasks(&mut self, info: &Info) -> Tasks {
        let (mut tasks, name) = if let Some(text) = self.text("task.txt") {
            (Tasks::read(text.bytes()), "task.txt")
        } else if let Some(bytes) = self.text("task") {
            (Tasks::read_binary(bytes.bytes(), info.byte_order), "task")
        } else {
            let error = Error::new(ErrorKind::Inconsistent, "there is no file `task.txt`: no address has a symbol");
            self.warnings.push(error.in_file(&self.path.join("task.txt")));
            return Tasks::default();
        };
        let odd = std::mem::take(&mut tasks.warnings);
        self.warn(odd, name);
        tasks
    }

    /// Reads maps and the symbols of everything in them.
    fn names(&mut self, info: &Info, tasks: Tasks) -> Names {
        let mut modules: Vec<Module> = Vec::new();
        let mut known: HashMap<(String, Option<String>), usize> = HashMap::new();
        let mut module = |path: &str, build_id: Option<&str>| {
            let key = (path.to_string(), build_id.map(str::to_string));
            *known.entry(key).or_insert_with_key(|(path, build_id)| {
                modules.push(Module::new(path.clone(), build_id.clone()));
                modules.len() - 1
            })
        };
        let mut spaces = Vec::new();
        let mut told: HashSet<String> = HashSet::new();
        for session in &tasks.sessions {
            let name = format!("sid-{}.map", session.sid);
            let map = match self.text(&name) {
                Some(text) => {
                    let (map, odd) = Map::read(text.bytes());
                    self.warn(odd, &name);
                    map
                }
                None => {
                    if told.insert(name.clone()) {
                        let message = "the map of a session is missing: its addresses have no symbols";
                        let error = Error::new(ErrorKind::Inconsistent, message);
                        self.warnings.push(error.in_file(&self.path.join(&name)));
                    }
                    Map::default()
                }
            };
            let of_map =
                map.mappings.iter().map(|mapping| module(&mapping.path, mapping.build_id.as_deref())).collect();
            let mut loaded: Vec<(u64, u64, usize)> =
                session.loaded.iter().map(|loaded| (loaded.time, loaded.base, module(&loaded.path, None))).collect();
            loaded.sort_by_key(|&(time, ..)| time);
            spaces.push(Space { map, modules: of_map, loaded });
        }
        for (extension, is_symbols) in [("sym", true), ("dbg", false)] {
            let (headers, texts) = self.headers(extension);
            for module in &mut modules {
                let Some(at) = choose(&module.path, module.build_id.as_deref(), extension, &headers) else { continue };
                let file = &headers[at].0;
                let text = match &texts[at] {
                    Ok(text) => text,
                    Err(error) => {
                        self.faults.push(error.clone());
                        continue;
                    }
                };
                if is_symbols {
                    module.symbols = SymbolFile::new(text.clone());
                    module.symbol_file = Some(file.clone());
                } else {
                    let (debug, odd) = DebugInfo::read(text.bytes());
                    module.debug = debug;
                    self.warn(odd, file);
                }
            }
        }
        let kernel = self.text("kallsyms").map(|text| {
            let mut module = Module::new(kernel::MODULE.to_string(), None);
            module.symbols = SymbolFile::new(text);
            module.symbol_file = Some("kallsyms".to_string());
            modules.push(module);
            modules.len() - 1
        });
        let is_relative = info.features & feature::SYM_REL_ADDR != 0;
        let mut names = Names { modules, tasks, spaces, kernel, is_relative, is_64_bit: info.is_64_bit };
        names.number();
        names
    }

    /// The headers of all files of an extension, and the files.
    fn headers(&self, extension: &str) -> (Vec<(String, FileHeader)>, Vec<Opened>) {
        let end = format!(".{extension}");
        let files = self.files.iter().filter(|(name, _)| name.ends_with(&end));
        let (mut headers, mut texts) = (Vec::new(), Vec::new());
        for (name, _) in files {
            let text = self.storage.open(&self.path.join(name));
            let start = text.as_ref().map_or(&[][..], |text| text.bytes());
            headers.push((name.clone(), FileHeader::read(&start[..start.len().min(MAX_HEADER)])));
            texts.push(text);
        }
        (headers, texts)
    }

    /// The traced tasks: as listed, or else those that have a file.
    fn tids(&self, info: &Info) -> Vec<i64> {
        let of_files = || self.files.iter().filter_map(|(name, _)| name.strip_suffix(".dat")?.parse().ok());
        match &info.tids {
            Some(tids) => tids.clone(),
            None => {
                let mut tids: Vec<i64> = of_files().collect();
                tids.sort_unstable();
                tids
            }
        }
    }

    fn file(&mut self, name: &str) -> Option<DataFile> {
        self.files.iter().find(|(file, len)| file == name && *len > 0)?;
        let path = self.path.join(name);
        match self.storage.open(&path) {
            Ok(bytes) => Some(DataFile { path, relative: name.to_string(), bytes, is_indexed: false }),
            Err(error) => {
                self.faults.push(error.in_file(&path));
                None
            }
        }
    }

    fn streams(&mut self, reader: &mut Reader, classes: Streams, tids: &[i64], is_cut: bool) -> Vec<Stream> {
        let mut streams = Vec::new();
        // Ids put streams in order where times are equal, and that is the order of the list.
        let is_ascending = tids.is_sorted();
        for &tid in tids {
            let name = format!("{tid}.dat");
            let (Some(file), Ok(id)) = (self.file(&name), i32::try_from(tid)) else { continue };
            let len = file.bytes.bytes().len();
            let size = if is_cut { slices::size(len, tids.len()) } else { len.max(1) };
            let found = slices::cut(&mut reader.task(file.bytes.bytes(), tid), size);
            let packets = found.iter().map(|slice| (slice.from, slice.to, slice.begin, slice.end));
            let packets = packets_of(packets, classes.tasks);
            let is_forked = reader.names.tasks.tasks.get(&tid).is_none_or(|task| task.parent != 0);
            reader.sources.push(Source::Task { tid: id, slices: found, is_forked });
            let id = u64::try_from(tid).ok().filter(|_| is_ascending);
            streams.push(Stream { name, class: classes.tasks, id, files: vec![file], packets });
        }
        if let (Some(kernel), Some(class)) = (reader.kernel.clone(), classes.kernel) {
            for cpu in self.cpus("kernel-cpu") {
                let name = format!("kernel-cpu{cpu}.dat");
                let Some(file) = self.file(&name) else { continue };
                let (packets, info) = kernel.packets(file.bytes.bytes(), cpu, class, is_cut);
                reader.sources.push(Source::Kernel(info));
                streams.push(Stream { name, class, id: Some(u64::from(cpu)), files: vec![file], packets });
            }
        }
        for cpu in self.cpus("perf-cpu") {
            let name = format!("perf-cpu{cpu}.dat");
            let Some(file) = self.file(&name) else { continue };
            let parts = match is_cut {
                true => perf::cut(file.bytes.bytes(), reader.order),
                false => vec![perf::Part { from: 0, to: file.bytes.bytes().len(), begin: 0, end: u64::MAX }],
            };
            let packets = parts.iter().map(|part| (part.from, part.to, Some(part.begin), Some(part.end)));
            let packets = packets_of(packets, classes.perf);
            reader.sources.push(Source::Perf { cpu, parts });
            streams.push(Stream { name, class: classes.perf, id: Some(u64::from(cpu)), files: vec![file], packets });
        }
        if let Some(file) = self.file("extern.dat") {
            let times = messages::times(file.bytes.bytes());
            let whole = (0, file.bytes.bytes().len(), times.map(|times| times.0), times.map(|times| times.1));
            let packets = packets_of([whole].into_iter(), classes.messages);
            reader.sources.push(Source::Messages);
            let name = "extern.dat".to_string();
            streams.push(Stream { name, class: classes.messages, id: None, files: vec![file], packets });
        }
        streams
    }

    /// The index of each task whose file is there, be it empty: what the system tells of others is shown by no command.
    fn numbers(&self, tids: &[i64]) -> HashMap<i64, u32> {
        let names: HashSet<&str> = self.files.iter().map(|(name, _)| name.as_str()).collect();
        let has_file = |tid: i64| names.contains(format!("{tid}.dat").as_str());
        tids.iter().enumerate().filter(|(_, tid)| has_file(**tid)).map(|(at, &tid)| (tid, at as u32)).collect()
    }

    /// The numbers of the processors that have files with this beginning of their names, ascending.
    fn cpus(&self, prefix: &str) -> Vec<u32> {
        let files = self.files.iter().filter(|(_, len)| *len > 0);
        let number = |name: &str| {
            let digits = name.strip_prefix(prefix)?.strip_suffix(".dat")?;
            // Another spelling of a number is another file.
            digits.parse().ok().filter(|number: &u32| number.to_string() == digits)
        };
        let mut cpus: Vec<u32> = files.filter_map(|(name, _)| number(name)).collect();
        cpus.sort_unstable();
        cpus
    }

    /// What `kernel_header` says of the pages in `kernel-cpuN.dat`, where there are any.
    fn kernel(&mut self) -> Option<Kernel> {
        let cpus = self.cpus("kernel-cpu");
        if cpus.is_empty() {
            return None;
        }
        let Some(text) = self.text("kernel_header") else {
            for cpu in cpus {
                let error =
                    Error::new(ErrorKind::Inconsistent, "there is no file `kernel_header`: no event has a format");
                let error = error.at_offset(0).with_help("the file is skipped");
                self.faults.push(error.in_file(&self.path.join(format!("kernel-cpu{cpu}.dat"))));
            }
            return None;
        };
        let mut odd = Vec::new();
        let kernel = Kernel::read(text.bytes(), &mut odd);
        let path = self.path.join("kernel_header");
        self.faults.extend(odd.into_iter().map(|error| error.in_file(&path)));
        Some(kernel)
    }
}

fn packets_of(
    slices: impl Iterator<Item = (usize, usize, Option<u64>, Option<u64>)>,
    class: StreamClassId,
) -> Vec<Packet> {
    let packet = |(index, (from, to, begin_cycles, end_cycles)): (usize, (usize, usize, _, _))| Packet {
        index: index as u64,
        begin_cycles,
        end_cycles,
        ..Packet::new(class, from as u64, (to - from) as u64 * 8)
    };
    slices.enumerate().map(packet).collect()
}

/// Where the packets of a stream come from.
enum Source {
    Task { tid: i32, slices: Vec<Slice>, is_forked: bool },
    Kernel(StreamInfo),
    Perf { cpu: u32, parts: Vec<perf::Part> },
    Messages,
}

/// Opens slices of the files of a trace.
struct Reader {
    order: ByteOrder,
    traced: HashSet<i64>,
    names: Arc<Names>,
    signatures: Arc<Signatures>,
    event_names: Arc<EventNames>,
    kernel: Option<Arc<Kernel>>,
    classes: Classes,
    calls: Option<Calls>,
    /// By the number of the stream.
    sources: Vec<Source>,
    /// The files that hold no records.
    files: Vec<(String, Arc<dyn Bytes>)>,
}

impl Reader {
    fn task<'a>(&'a self, bytes: &'a [u8], tid: i64) -> TaskBytes<'a> {
        TaskBytes {
            bytes,
            order: self.order,
            signatures: &self.signatures,
            resolver: Resolver::new(&self.names, tid),
            is_64_bit: self.names.is_64_bit,
        }
    }

    fn events(&self, source: &Source, stream: &Stream, bytes: &[u8], index: usize, clock: u64) -> Option<Events> {
        match source {
            Source::Kernel(info) => {
                let (kernel, classes) = self.kernel.as_deref().zip(self.classes.kernel.as_ref())?;
                let offset = stream.packets[index].offset_bytes;
                let len = (stream.packets[index].total_bits / 8) as usize;
                let pages = bytes.get(offset as usize..)?;
                let pages = &pages[..pages.len().min(len)];
                let before = index.checked_sub(1).and_then(|before| stream.packets[before].end_cycles);
                Some(kernel_events::read(kernel, classes, &self.names, info, (pages, offset), before, &self.traced))
            }
            Source::Task { tid, slices, is_forked } => {
                let slice = *slices.get(index)?;
                // Calls of a forked process began in its parent.
                let is_start = index == 0 && !is_forked;
                let clock = slice.begin.unwrap_or(clock);
                let mut task = self.task(bytes, i64::from(*tid));
                Some(events::read(&mut task, &self.classes, *tid, slice, clock, is_start))
            }
            Source::Perf { cpu, parts } => {
                Some(perf::read(bytes, self.order, *parts.get(index)?, *cpu, &self.traced, &self.classes))
            }
            Source::Messages => Some(messages::read(bytes, &self.classes)),
        }
    }

    /// The modules of events whose symbols are missing, each told once.
    fn missing_symbols(&self, events: &mut Events, folder: &Path) {
        let ids = std::mem::take(&mut events.without_symbols);
        for id in ids {
            let Some(module) = self.names.module(id).filter(|module| module.is_untold()) else { continue };
            let message = format!("the symbols of `{}` are missing: its addresses have no names", module.path);
            let error = Error::new(ErrorKind::Inconsistent, message);
            events.warnings.push(error.in_file(&folder.join(format!("{}.sym", module.name()))));
        }
    }
}

impl PacketReader for Reader {
    fn parts(&self) -> Result<Vec<Part>> {
        let part = |(name, bytes): &(String, Arc<dyn Bytes>)| Part { name: name.clone(), bytes: bytes.bytes().into() };
        Ok(self.files.iter().map(part).collect())
    }

    fn calls(&self) -> Option<&dyn CallSource> {
        self.calls.as_ref().map(|calls| calls as &dyn CallSource)
    }

    fn files(&self, trace: &OpenTrace, storage: &dyn Storage) -> Option<TraceFiles> {
        let mut all = TraceFiles::default();
        all.add_folder(storage, trace, "");
        // It makes the folder a trace.
        let (info, mut others): (Vec<_>, Vec<_>) =
            all.files.into_iter().partition(|file| file.relative == Path::new("info"));
        others.extend(info);
        Some(TraceFiles { folders: Vec::new(), files: others })
    }

    fn open_packet(&self, plans: &Arc<TracePlans>, stream: &Stream, index: usize, clock: u64) -> Result<OpenedPacket> {
        let packet = &stream.packets[index];
        let file = &stream.files[packet.file as usize];
        let source = self.sources.get(self.number_of(stream)).ok_or_else(no_source)?;
        file.bytes.will_read(packet.offset_bytes as usize, (packet.total_bits / 8) as usize);
        let mut events = self.events(source, stream, file.bytes.bytes(), index, clock).ok_or_else(no_source)?;
        self.missing_symbols(&mut events, file.path.parent().unwrap_or(Path::new("")));
        let mut packet = packet.clone();
        packet.content_bits = events.bytes.len() as u64 * 8;
        let cpu = match source {
            Source::Perf { cpu, .. } => Some(*cpu),
            _ => None,
        };
        let made = (Arc::new(events.bytes) as Arc<dyn Bytes>, 0);
        let data = PacketData::found(plans, &file.bytes, packet, made, events.spine);
        let mut opened = OpenedPacket::new(PacketData { cpu, ..data });
        opened.faults = events.faults;
        opened.warnings = events.warnings;
        opened.gaps = events.gaps;
        Ok(opened)
    }
}

impl Reader {
    /// The number of a stream: its name tells it from the others.
    fn number_of(&self, stream: &Stream) -> usize {
        let number = |text: &str| text.strip_suffix(".dat")?.parse::<u64>().ok();
        let position = |is_it: &dyn Fn(&Source) -> bool| self.sources.iter().position(is_it).unwrap_or(usize::MAX);
        let name = &stream.name;
        match name.strip_prefix("perf-cpu").or_else(|| name.strip_prefix("kernel-cpu")) {
            Some(rest) => {
                let (wanted, is_perf) = (number(rest), name.starts_with("perf"));
                position(&|source| match source {
                    Source::Perf { cpu, .. } => is_perf && Some(u64::from(*cpu)) == wanted,
                    Source::Kernel(info) => !is_perf && Some(u64::from(info.cpu)) == wanted,
                    _ => false,
                })
            }
            None if stream.name == "extern.dat" => position(&|source| matches!(source, Source::Messages)),
            None => {
                let wanted = number(&stream.name);
                position(&|source| matches!(source, Source::Task { tid, .. } if u64::try_from(*tid).ok() == wanted))
            }
        }
    }
}

fn no_source() -> Error {
    Error::new(ErrorKind::Misuse, "the stream is none of this trace")
}

/// A command line without the escapes of JSON that the recorder puts into it.
fn unquote(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => out.extend(letters.next()),
            letter => out.push(letter),
        }
    }
    out
}

/// Names that tasks got last, by task.
fn names_of_tasks(streams: &[Stream], order: ByteOrder) -> HashMap<i64, Vec<u8>> {
    let mut names: HashMap<i64, (u64, Vec<u8>)> = HashMap::new();
    for stream in streams.iter().filter(|stream| stream.name.starts_with("perf-cpu")) {
        let bytes = stream.files[0].bytes.bytes();
        let mut at = 0;
        while let Some(Ok((next, event))) = perf::next(bytes, order, at) {
            at = next;
            let Some(event) = event.filter(|event| event.name.1 > 0) else { continue };
            let name = bytes.get(event.name.0..event.name.0 + event.name.1).unwrap_or(&[]);
            let entry = names.entry(event.tid.into()).or_default();
            if event.time >= entry.0 {
                *entry = (event.time, name.to_vec());
            }
        }
    }
    names.into_iter().map(|(tid, (_, name))| (tid, name)).collect()
}

fn environment(info: &Info) -> Vec<(Arc<str>, EnvValue)> {
    // Specifications are long and no facts about the run.
    let hidden = ["argspec", "retspec", "argauto", "retauto", "enumauto"];
    let entries = info.entries.iter().filter(|(key, _)| !hidden.contains(&key.as_str()));
    let mut values: Vec<(Arc<str>, EnvValue)> =
        entries.map(|(key, value)| (key.as_str().into(), EnvValue::String(value.as_str().into()))).collect();
    values.push(("word_bits".into(), EnvValue::Integer(if info.is_64_bit { 64 } else { 32 })));
    values.extend(info.max_stack.map(|depth| ("max_stack".into(), EnvValue::Integer(depth.into()))));
    values
}

/// Tables for `info`: tasks, sessions, modules.
fn sections(names: &Names, tids: &[i64]) -> Vec<Section> {
    let text = |text: &str| Some(EnvValue::String(text.into()));
    let number = |number: i128| Some(EnvValue::Integer(number));
    let task_rows = tids.iter().map(|&tid| {
        let task = names.tasks.tasks.get(&tid);
        vec![
            number(tid.into()),
            task.map(|task| EnvValue::Integer(task.pid.into())),
            task.filter(|task| task.parent != 0).map(|task| EnvValue::Integer(task.parent.into())),
        ]
    });
    let session_rows = names.tasks.sessions.iter().map(|session| {
        vec![
            text(&session.sid),
            number(session.pid.into()),
            number(session.start.into()),
            text(&session.exename),
            number(session.loaded.len() as i128),
        ]
    });
    let module_rows = names.modules.iter().map(|module| {
        vec![
            text(&module.path),
            module.build_id.as_deref().and_then(text),
            number(module.symbols.get().len() as i128),
            module.symbol_file.as_deref().and_then(text),
        ]
    });
    vec![
        Section { title: "tasks".into(), columns: vec!["tid", "pid", "parent"], rows: task_rows.collect() },
        Section {
            title: "sessions".into(),
            columns: vec!["sid", "pid", "start_ns", "exename", "loaded_libraries"],
            rows: session_rows.collect(),
        },
        Section {
            title: "modules".into(),
            columns: vec!["path", "build_id", "symbols", "file"],
            rows: module_rows.collect(),
        },
    ]
}

#[cfg(test)]
pub(super) mod tests_support {
    use super::super::records::{Kind, Step};
    use super::*;

    /// Cuts the file of a task of a folder into slices of a size.
    pub(crate) fn cut(storage: &dyn Storage, path: &str, bytes: &[u8], tid: i64, size: usize) -> Vec<Slice> {
        let found = Found { path: path.into(), name: String::new(), below: String::new() };
        let reader = Folder::read(storage, &found).unwrap().reader;
        slices::cut(&mut reader.task(bytes, tid), size)
    }

    /// The calls of a folder.
    pub(crate) fn calls(storage: &dyn Storage, path: &str) -> Calls {
        let found = Found { path: path.into(), name: String::new(), below: String::new() };
        let Opening { mut reader, mut folder, classes, tids, max_stack, header, recording, .. } =
            Folder::read(storage, &found).unwrap();
        let streams = folder.streams(&mut reader, classes, &tids, false);
        folder.calls(&reader, &streams, &tids, max_stack, (header, recording), Demangle::default())
    }

    /// Where reading the file of a task from its beginning finds records.
    pub(crate) fn places(storage: &dyn Storage, path: &str, bytes: &[u8], tid: i64) -> Vec<usize> {
        let found = Found { path: path.into(), name: String::new(), below: String::new() };
        let reader = Folder::read(storage, &found).unwrap().reader;
        let mut task = reader.task(bytes, tid);
        let (mut at, mut time, mut places) = (0, 0, Vec::new());
        loop {
            at = match task.step(at, time) {
                Step::Record { record, next, .. } => {
                    places.push(at);
                    time = if record.kind() == Kind::Lost { time } else { record.time };
                    next
                }
                Step::Bad { .. } => task.resume(at + 8, time, usize::MAX).unwrap_or(bytes.len()),
                Step::Torn => return places,
            }
        }
    }
}
