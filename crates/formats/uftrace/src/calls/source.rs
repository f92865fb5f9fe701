//! Calls of a folder for those who follow them.

use std::collections::HashMap;
use std::io::{self, Write};

use super::kernel::KernelCalls;
use super::streams::{MessageCalls, PerfCalls, TaskCalls};
use super::{CallFile, FolderCalls};
use crate::events::OpenCalls;
use crate::info::feature;
use crate::{dump, messages, perf, slices, summary, values};
use tracemill_format::calls::{
    CallKind, CallOrigin, CallProgram, CallRecord, CallSource, CallStream, CallSymbol, CallTask, DumpOptions, Findings,
    Recording, StreamHolds, ValueStyle, event_id,
};
use tracemill_format::demangle::demangled;

/// Calls that may be open when the folder does not say.
const MAX_STACK: usize = 65_535;

impl FolderCalls {
    /// Reads what all files of the kernel have of a stretch of time; only the pages around it, if that is wanted.
    pub(crate) fn kernel_between(&self, between: (u64, u64), is_near: bool) -> Box<dyn CallStream + '_> {
        Box::new(KernelCalls::new(self, self.kernel_files(), between, is_near))
    }

    /// Reads a file; of one of a task or of perf what begins in a part of it, which begins where a record does.
    fn open_at(&self, stream: usize, start: usize, end: usize) -> Box<dyn CallStream + '_> {
        match &self.files[stream] {
            CallFile::Kernel(..) => self.kernel_between((0, u64::MAX), false),
            CallFile::Task(task, bytes) => {
                let tid = self.tasks[*task].tid;
                let bytes = bytes.bytes();
                Box::new(TaskCalls {
                    task: self.definitions.task(&bytes[..end.min(bytes.len())], tid),
                    number: *task as u32,
                    at: start,
                    time: 0,
                    path: &self.paths[stream],
                    open_calls: OpenCalls::new(!self.is_forked[*task] && start == 0),
                    unread: None,
                    findings: Findings::default(),
                })
            }
            CallFile::Perf(cpu, bytes) => {
                let before = self.files[..stream].iter().filter(|file| matches!(file, CallFile::Perf(..))).count();
                Box::new(PerfCalls {
                    bytes: bytes.bytes(),
                    cpu: u16::try_from(*cpu).ok(),
                    order: self.definitions.order,
                    numbers: &self.numbers,
                    at: start,
                    end,
                    file: before as u64,
                    path: &self.paths[stream],
                    findings: Findings::default(),
                })
            }
            CallFile::Messages(bytes) => {
                // Without tasks there is none that they could belong to.
                let has_tasks = !self.tasks.is_empty();
                let messages = if has_tasks { messages::places(bytes.bytes()) } else { Vec::new() };
                Box::new(MessageCalls { messages: messages.into_iter() })
            }
        }
    }
}

impl CallSource for FolderCalls {
    fn tasks(&self) -> &[CallTask] {
        &self.tasks
    }

    fn is_estimated(&self) -> bool {
        self.info.header.features & feature::ESTIMATE_RETURN != 0
    }

    fn has_reference(&self) -> bool {
        true
    }

    fn recording(&self) -> Recording {
        self.recording.clone()
    }

    fn summary(&self) -> Option<Vec<u8>> {
        let notes = self.notes.as_ref().map(|notes| notes.bytes());
        Some(summary::summary(&self.info, &self.tasks, &self.last_names(), notes))
    }

    fn last_names(&self) -> Vec<Vec<u8>> {
        let mut names: Vec<(u64, Vec<u8>)> = self.tasks.iter().map(|task| (0, task.name.clone())).collect();
        let tids = self.tasks.iter().enumerate().map(|(at, task)| (task.tid, at));
        let tids: HashMap<i64, usize> = tids.collect();
        let files = self.files.iter().filter_map(|file| match file {
            CallFile::Perf(_, bytes) => Some(bytes.bytes()),
            _ => None,
        });
        for bytes in files {
            let mut at = 0;
            while let Some((next, event)) = perf::next(bytes, self.definitions.order, at) {
                at = next;
                let Some(event) = event.ok().flatten().filter(|event| event.name.1 > 0) else { continue };
                let Some(&task) = tids.get(&i64::from(event.tid)) else { continue };
                let name = bytes.get(event.name.0..event.name.0 + event.name.1).unwrap_or(&[]);
                if event.time >= names[task].0 {
                    names[task] = (event.time, name.to_vec());
                }
            }
        }
        names.into_iter().map(|(_, name)| name).collect()
    }

    fn programs(&self) -> &[CallProgram] {
        &self.programs
    }

    fn program_at(&self, task: usize, time: u64) -> (Option<usize>, (u64, u64)) {
        let tid = self.tasks.get(task).map_or(0, |task| task.tid);
        (self.definitions.names.tasks.session_at(tid, time), self.definitions.names.tasks.unchanged_around(time))
    }

    fn max_depth(&self) -> usize {
        self.info.max_stack.map_or(MAX_STACK, usize::from)
    }

    fn stream_count(&self) -> usize {
        // The kernel's files are one stream: they share what is known of its functions.
        self.files.len() - self.kernel_files().len().saturating_sub(1)
    }

    fn holds(&self, stream: usize) -> StreamHolds {
        match &self.files[self.file_of(stream)] {
            CallFile::Task(task, bytes) => StreamHolds::Task { task: *task, bytes: bytes.bytes().len() as u64 },
            CallFile::Perf(_, bytes) => StreamHolds::System { bytes: bytes.bytes().len() as u64 },
            CallFile::Kernel(..) | CallFile::Messages(_) => StreamHolds::Mixed,
        }
    }

    fn stream_of_trace(&self, stream: usize) -> Option<usize> {
        let file = self.file_of(stream);
        (!matches!(self.files[file], CallFile::Kernel(..))).then_some(file)
    }

    fn open(&self, stream: usize) -> Box<dyn CallStream + '_> {
        self.open_at(self.file_of(stream), 0, usize::MAX)
    }

    fn open_between(&self, stream: usize, from: u64, to: u64) -> Box<dyn CallStream + '_> {
        let stream = self.file_of(stream);
        if matches!(self.files[stream], CallFile::Kernel(..)) {
            return self.kernel_between((from, to), true);
        }
        let (mut start, mut end) = (0, usize::MAX);
        if let CallFile::Task(task, bytes) = &self.files[stream] {
            let mut task = self.definitions.task(bytes.bytes(), self.tasks[*task].tid);
            (start, end) = slices::byte_range(&mut task, from, to);
        } else if let CallFile::Perf(_, bytes) = &self.files[stream] {
            (start, end) = perf::byte_range(bytes.bytes(), self.definitions.order, from, to);
        }
        self.open_at(stream, start, end)
    }

    fn symbol(&self, id: u32, address: u64) -> CallSymbol {
        let module = self.definitions.names.module(id).filter(|_| id > 0).map(|module| module.name().to_string());
        match self.definitions.names.symbol(id).filter(|_| id > 0) {
            Some(symbol) => CallSymbol {
                name: demangled(symbol.name, self.demangle),
                module,
                is_library_call: symbol.kind == b'P',
                size: symbol.size,
            },
            None => CallSymbol { name: format!("<{address:x}>"), module, is_library_call: false, size: 0 },
        }
    }

    fn each_symbol(&self, see: &mut dyn FnMut(u32, &CallSymbol)) {
        for (at, module) in self.definitions.names.modules.iter().enumerate() {
            for symbol_at in 0..module.symbols.get().len() {
                let id = self.definitions.names.id(at, Some(symbol_at));
                see(id, &self.symbol(id, 0));
            }
        }
    }

    fn source_file(&self, id: u32) -> Option<String> {
        let (module, symbol) = (self.definitions.names.module(id)?, self.definitions.names.symbol(id)?);
        let (_, file) = module.debug.functions.get(&symbol.address)?.source.as_ref()?;
        Some(file.to_string())
    }

    fn source_line(&self, id: u32) -> Option<(String, u32)> {
        let (module, symbol) = (self.definitions.names.module(id)?, self.definitions.names.symbol(id)?);
        // As the peer, which shows none for functions that several modules may have.
        if !matches!(symbol.kind, b'T' | b't') {
            return None;
        }
        let (line, file) = module.debug.functions.get(&symbol.address)?.source.as_ref()?;
        Some((file.to_string(), *line))
    }

    fn shown_name(&self, stored: &str) -> String {
        demangled(stored, self.demangle)
    }

    fn library_of(&self, name: &str) -> Option<String> {
        let at = *self.library_by_name.get_or_init(|| self.libraries()).get(name)?;
        Some(self.definitions.names.modules[at].name().to_string())
    }

    fn put_values(&self, record: &CallRecord, style: ValueStyle, out: &mut Vec<u8>) {
        let list = self.definitions.signatures.list(record.symbol, record.kind == CallKind::Exit);
        let (Some(specs), Some(payload)) = (self.definitions.signatures.lists.get(list as usize), self.values(record))
        else {
            return;
        };
        let tid = self.tasks.get(record.task as usize).map_or(0, |task| task.tid);
        let name_of = |address: u64| {
            let id = self.definitions.names.id_at(tid, record.time, address);
            self.definitions.names.symbol(id).filter(|_| id > 0).map(|symbol| demangled(symbol.name, self.demangle))
        };
        values::write_values(
            specs,
            payload,
            self.definitions.order,
            self.definitions.names.is_64_bit,
            style,
            &name_of,
            out,
        );
    }

    fn event_name(&self, record: &CallRecord) -> String {
        self.definitions.event_names.name(record.address as u32)
    }

    fn put_event_data(&self, record: &CallRecord, out: &mut Vec<u8>) {
        let Some(data) = self.values(record).filter(|_| record.has_values) else { return };
        match record.address {
            id if record.origin == CallOrigin::Kernel => self.put_kernel_event(id, data, out),
            event_id::TASK_NAME => {
                out.extend_from_slice(b"comm=\"");
                out.extend_from_slice(data);
                out.push(b'"');
            }
            event_id::EXTERNAL => out.extend_from_slice(data),
            id => {
                let mut text = String::new();
                values::put_event(id as u32, data, self.definitions.order, true, &mut text);
                out.extend_from_slice(text.as_bytes());
            }
        }
    }

    fn dump(
        &self,
        options: DumpOptions<'_>,
        want: &mut dyn FnMut(&CallRecord) -> bool,
        out: &mut dyn Write,
    ) -> io::Result<Findings> {
        dump::write(self, options, want, out)
    }

    fn default_options(&self) -> &[String] {
        &self.default_options
    }
}
