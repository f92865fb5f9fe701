//! From a folder to an opened trace.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use tracemill_format::calls::{CallProgram, CallTask, Recording};
use tracemill_format::{Demangle, EntryKind, FoundTrace, OpenContext, OpenTrace, Settings, Storage, Stream};
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::Schema;

use super::arguments::Signatures;
use super::calls::{CallFile, FolderCalls};
use super::classes::{self, EventNames, Streams};
use super::definitions::FolderDefinitions;
use super::folder::{self, DataFolder, WITH_SYMS};
use super::info::{self, Info};
use super::reader::{PacketSource, SliceReader};
use super::summary;
use super::symbols::base_name;
use super::tables::{environment, sections};
use super::tasks::Session;
use tracemill_codec::text::seconds;

/// Is it a folder with the file `info` of uftrace?
pub(crate) fn probe(storage: &dyn Storage, path: &Path) -> bool {
    let info = path.join("info");
    matches!(storage.kind(&info), Some(EntryKind::File(_)))
        && storage.read_start(&info, info::MAGIC.len()).is_ok_and(|start| start == info::MAGIC)
}

/// Opens folders.
pub(crate) fn open(context: &OpenContext<'_>, found: &[FoundTrace]) -> Vec<Result<OpenTrace>> {
    found.iter().map(|found| Opening::open(context, found)).collect()
}

/// Byte order, names and specifications of a folder, whatever its records.
pub(super) fn definitions(storage: &dyn Storage) -> Result<FolderDefinitions> {
    let found = FoundTrace { path: Path::new("").to_path_buf(), name: String::new(), below: String::new() };
    Ok(Opening::read(storage, &found, &Settings::new())?.reader.definitions)
}

/// The state of opening before records are looked at.
struct Opening<'a> {
    reader: SliceReader,
    folder: DataFolder<'a>,
    schema: Schema,
    classes: Streams,
    tids: Vec<i64>,
    info: Info,
}

impl<'a> Opening<'a> {
    fn open(context: &OpenContext<'a>, found: &'a FoundTrace) -> Result<OpenTrace> {
        let storage = context.storage;
        // Following calls reads the files directly, and wants neither tables nor the other files of the folder.
        let has_packets = !context.calls_only;
        let Opening { mut reader, mut folder, schema, classes, tids, info } =
            Opening::read(storage, found, context.settings)?;
        let streams = folder.streams(&mut reader, classes, &tids, has_packets);
        if has_packets {
            reader.files = folder.parts(&streams);
        }
        reader.calls = Some(folder.calls(&reader, &streams, &tids, info, context.demangle));
        if streams.iter().all(|stream| stream.packets.is_empty()) {
            folder.warnings.push(Error::inconsistent("no file of records has any record").in_file(&found.path));
        }
        let sections = if has_packets { sections(&reader.definitions.names, &tids) } else { Vec::new() };
        let mut trace = OpenTrace::from_folder(found, schema, Arc::new(reader));
        (trace.streams, trace.sections) = (streams, sections);
        (trace.faults, trace.warnings) = (folder.faults, folder.warnings);
        Ok(trace)
    }

    /// Reads everything but records.
    fn read(storage: &'a dyn Storage, found: &'a FoundTrace, settings: &Settings) -> Result<Opening<'a>> {
        let entries = storage.list(&found.path)?;
        let files = entries.into_iter().filter_map(|entry| match entry.kind {
            EntryKind::File(len) => Some((entry.name, len)),
            _ => None,
        });
        let mut folder =
            DataFolder { storage, path: &found.path, files: files.collect(), warnings: Vec::new(), faults: Vec::new() };
        let symbols = settings.get(WITH_SYMS).map(|folder| folder::read_symbol_folder(storage, folder)).transpose()?;
        let path = found.path.join("info");
        let bytes = storage.open(&path)?;
        let mut info = Info::read(bytes.bytes()).map_err(|error| error.in_file(&path))?;
        let odd = std::mem::take(&mut info.warnings);
        folder.warn(odd, "info");
        let tasks = folder.tasks(&info);
        let names = Arc::new(folder.names(&info, tasks, symbols.unwrap_or_default()));
        let signatures = Arc::new(Signatures::new(&info.specs, &names));
        let kernel = folder.kernel().map(Arc::new);
        let events = folder.text("events.txt");
        let events = events.as_ref().map_or(&[][..], |events| events.bytes());
        let event_names = Arc::new(EventNames::new(events, kernel.as_deref()));
        let mut schema = Schema::new("uftrace");
        schema.version = (info.header.version, 0);
        schema.byte_order = info.byte_order;
        schema.environment = environment(&info);
        let (streams_of, classes) = classes::build(&mut schema, &names, &event_names, &signatures, kernel.as_deref());
        let tids = folder.tids(&info);
        let reader = SliceReader {
            definitions: FolderDefinitions { order: info.byte_order, names, signatures, event_names, kernel },
            traced: tids.iter().copied().collect(),
            classes,
            calls: None,
            is_unfinished: storage.is_unfinished(),
            sources: HashMap::new(),
            files: Vec::new(),
        };
        Ok(Opening { reader, folder, schema, classes: streams_of, tids, info })
    }
}

impl DataFolder<'_> {
    /// The calls of the folder.
    fn calls(
        &mut self,
        reader: &SliceReader,
        streams: &[Stream],
        tids: &[i64],
        info: Info,
        demangle: Demangle,
    ) -> FolderCalls {
        let names = &reader.definitions.names;
        let task = |&tid: &i64| {
            let task = names.tasks.tasks.get(&tid);
            // As uftrace names a task from its beginning: by the program that it became last.
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
                name: first_name.clone(),
                first_name,
            }
        };
        let program = |session: &Session| CallProgram {
            id: session.sid.clone(),
            name: base_name(&session.exename).to_string(),
            pid: session.pid,
            start: session.start,
        };
        let file = |stream: &Stream| {
            let bytes = stream.files[0].bytes.clone();
            match &reader.sources[&stream.name] {
                PacketSource::Task { tid, .. } => {
                    let number = tids.iter().position(|&known| known == i64::from(*tid)).unwrap_or(0);
                    CallFile::Task(number, bytes)
                }
                PacketSource::Kernel(info) => CallFile::Kernel(info.cpu, bytes),
                PacketSource::Perf { cpu, .. } => CallFile::Perf(*cpu, bytes),
                PacketSource::Messages => CallFile::Messages(bytes),
            }
        };
        let paths = streams.iter().map(|stream| stream.files[0].path.clone()).collect();
        let is_forked = |tid: &i64| names.tasks.tasks.get(tid).is_none_or(|task| task.parent != 0);
        let options = self.text("default.opts");
        let options = options.as_ref().map_or(&[][..], |options| options.bytes());
        FolderCalls {
            definitions: reader.definitions.clone(),
            tasks: tids.iter().map(task).collect(),
            programs: names.tasks.sessions.iter().map(program).collect(),
            files: streams.iter().map(file).collect(),
            paths,
            is_forked: tids.iter().map(is_forked).collect(),
            numbers: self.numbers(tids),
            has_perf: self.files.iter().any(|(name, _)| name.starts_with("perf-cpu") && name.ends_with(".dat")),
            recording: recording(&info),
            info,
            notes: self.text(summary::NOTES),
            demangle,
            library_by_name: OnceLock::new(),
            default_options: String::from_utf8_lossy(options).split_whitespace().map(str::to_string).collect(),
        }
    }
}

/// The facts about the run that commands show.
fn recording(info: &Info) -> Recording {
    let entry = |name: &str| {
        let found = info.entries.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.clone())
    };
    Recording {
        version: entry("uftrace_version").map(|version| format!("uftrace {version}")),
        date: entry("record_date"),
        command: entry("cmdline").map(|command| unquote(&command)),
        program: entry("exename").map(|path| base_name(&path).to_string()),
        elapsed_ns: entry("elapsed_time").and_then(|time| seconds(time.trim_end().trim_end_matches(" sec"))),
    }
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

#[cfg(test)]
pub(super) mod tests_support {
    use super::super::records::{RecordKind, RecordStep};
    use super::super::slices::{self, FileSlice};
    use super::*;

    /// Cuts the file of a task of a folder into slices of a size.
    pub(crate) fn cut(storage: &dyn Storage, path: &str, bytes: &[u8], tid: i64, size: usize) -> Vec<FileSlice> {
        let found = FoundTrace { path: path.into(), name: String::new(), below: String::new() };
        let reader = Opening::read(storage, &found, &Settings::new()).unwrap().reader;
        slices::cut(&mut reader.definitions.task(bytes, tid), size)
    }

    /// The calls of a folder.
    pub(crate) fn calls(storage: &dyn Storage, path: &str) -> FolderCalls {
        let found = FoundTrace { path: path.into(), name: String::new(), below: String::new() };
        let Opening { mut reader, mut folder, classes, tids, info, .. } =
            Opening::read(storage, &found, &Settings::new()).unwrap();
        let streams = folder.streams(&mut reader, classes, &tids, false);
        folder.calls(&reader, &streams, &tids, info, Demangle::default())
    }

    /// Where reading the file of a task from its beginning finds records.
    pub(crate) fn places(storage: &dyn Storage, path: &str, bytes: &[u8], tid: i64) -> Vec<usize> {
        let found = FoundTrace { path: path.into(), name: String::new(), below: String::new() };
        let reader = Opening::read(storage, &found, &Settings::new()).unwrap().reader;
        let mut task = reader.definitions.task(bytes, tid);
        let (mut at, mut time, mut places) = (0, 0, Vec::new());
        loop {
            at = match task.step(at, time) {
                RecordStep::Record { record, next, .. } => {
                    places.push(at);
                    time = if record.kind() == RecordKind::Lost { time } else { record.time };
                    next
                }
                RecordStep::Bad { .. } => task.resume(at + 8, time, usize::MAX).unwrap_or(bytes.len()),
                RecordStep::Torn => return places,
            }
        }
    }
}
