//! The records of a folder as calls.

mod kernel;
mod source;
mod streams;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use tracemill_codec::chunk::Bytes;
use tracemill_codec::text::hex;

use super::definitions::FolderDefinitions;
use super::info::Info;
use super::names::Module;
use super::records::{Record, RecordKind};
use tracemill_format::Demangle;
use tracemill_format::calls::{CallKind, CallOrigin, CallProgram, CallRecord, CallTask, Recording};
use tracemill_format::demangle::demangled;

/// A file of records.
pub(super) enum CallFile {
    /// Of the task of this number.
    Task(usize, Arc<dyn Bytes>),
    /// Of the kernel on the processor of this number.
    Kernel(u32, Arc<dyn Bytes>),
    /// Of the system, about what that processor runs.
    Perf(u32, Arc<dyn Bytes>),
    Messages(Arc<dyn Bytes>),
}

/// The calls of a folder.
pub(super) struct FolderCalls {
    pub definitions: FolderDefinitions,
    pub tasks: Vec<CallTask>,
    /// The index of each task that has a file, by its id.
    pub numbers: HashMap<i64, u32>,
    pub programs: Vec<CallProgram>,
    /// In the order in which records of equal time are taken.
    pub files: Vec<CallFile>,
    /// The path of each.
    pub paths: Vec<PathBuf>,
    /// Was the task forked, so that its calls began in another one?
    pub is_forked: Vec<bool>,
    pub default_options: Vec<String>,
    pub info: Info,
    /// The file of the user's notes.
    pub notes: Option<Arc<dyn Bytes>>,
    /// Are there files of the perf rings? uftrace does not show the feature without them.
    pub has_perf: bool,
    pub recording: Recording,
    pub demangle: Demangle,
    /// By shown name of a function: the module of the library that has it. All symbols are looked at when the first call
    /// asks, and none again.
    pub library_by_name: OnceLock<HashMap<String, usize>>,
}

impl FolderCalls {
    /// The bytes of the values of a record, and their list for calls.
    fn values(&self, record: &CallRecord) -> Option<&[u8]> {
        // Files of processors say their number.
        let number = (record.values >> 48) as usize;
        let mut files = self.files.iter().filter_map(|file| match (file, record.origin) {
            (CallFile::Task(task, bytes), CallOrigin::Task) if *task == record.task as usize => Some(bytes),
            (CallFile::Messages(bytes), CallOrigin::Outside) => Some(bytes),
            (CallFile::Kernel(_, bytes), CallOrigin::Kernel) => Some(bytes),
            (CallFile::Perf(_, bytes), CallOrigin::System) => Some(bytes),
            _ => None,
        });
        let bytes =
            files.nth(if matches!(record.origin, CallOrigin::Kernel | CallOrigin::System) { number } else { 0 })?;
        let from = (record.values & ((1 << 48) - 1)) as usize;
        bytes.bytes().get(from..from.checked_add(record.values_len as usize)?)
    }

    /// The first library that has a function of each name. Programs may have a copy of what they call in a library.
    fn libraries(&self) -> HashMap<String, usize> {
        let names = &self.definitions.names;
        let is_program = |module: &Module| names.tasks.sessions.iter().any(|session| session.exename == module.path);
        let mut libraries = HashMap::new();
        for (at, module) in names.modules.iter().enumerate().filter(|(_, module)| !is_program(module)) {
            for symbol in module.symbols.get().iter().filter(|symbol| symbol.kind != b'P') {
                libraries.entry(demangled(symbol.name, self.demangle)).or_insert(at);
            }
        }
        libraries
    }

    /// Which of the files are the kernel's; they stand side by side.
    fn kernel_files(&self) -> std::ops::Range<usize> {
        let is_kernel = |file: &CallFile| matches!(file, CallFile::Kernel(..));
        let start = self.files.iter().position(is_kernel).unwrap_or(self.files.len());
        start..start + self.files[start..].iter().take_while(|file| is_kernel(file)).count()
    }

    /// Appends an event of the kernel as the kernel would have printed it.
    pub(super) fn put_kernel_event(&self, id: u64, record: &[u8], out: &mut Vec<u8>) {
        let Some(format) = self.definitions.kernel.as_ref().and_then(|kernel| kernel.format(id)) else {
            out.extend_from_slice(hex(record).as_bytes());
            return;
        };
        let name = |address: u64, with_offset: bool| {
            let symbol = self.definitions.names.symbol(self.definitions.names.kernel_id(address))?;
            let name = demangled(symbol.name, self.demangle);
            match with_offset {
                true => Some(format!("{name}+{:#x}/{:#x}", address - symbol.address, symbol.size)),
                false => Some(name),
            }
        };
        format.print.write(record, &name, out);
    }

    /// The first file of a stream: the kernel's are one.
    fn file_of(&self, stream: usize) -> usize {
        let kernel = self.kernel_files();
        if stream > kernel.start { stream + kernel.len().saturating_sub(1) } else { stream }
    }
}

/// A record of a task, with the address that is stored.
#[inline]
pub(super) fn call(record: Record, symbol: u32, task: u32) -> CallRecord {
    let kind = match record.kind() {
        RecordKind::Entry => CallKind::Entry,
        RecordKind::Exit => CallKind::Exit,
        RecordKind::Lost => CallKind::Lost,
        RecordKind::Event => CallKind::Event,
    };
    let found = CallRecord::new(record.time, task, kind, CallOrigin::Task, record.address());
    CallRecord { symbol, depth: record.depth(), ..found }
}
