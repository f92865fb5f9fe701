//! The files of a folder that hold no records, read while it is opened.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use tracemill_codec::chunk::Bytes;
use tracemill_format::{DataFile, Entry, EntryKind, Storage, Stream};
use tracemill_model::error::{Error, Result};

use super::debug::DebugInfo;
use super::info::{Info, feature};
use super::kernel::{self, Kernel};
use super::maps::{self, Map};
use super::names::{Module, Space, SymbolNames};
use super::symbols::{FileHeader, SymbolFile, choose};
use super::tasks::Tasks;

/// A file, or why it cannot be read.
type OpenedFile = Result<Arc<dyn Bytes>>;

/// Name of the option for symbols of another folder.
pub(super) const WITH_SYMS: &str = "with-syms";

/// The comments at the beginning of a file of symbols are looked for in so many bytes.
const MAX_HEADER: usize = 8192;

/// Files of one extension: their names and headers, and the files.
pub(super) type Headed = (Vec<(String, FileHeader)>, Vec<OpenedFile>);

/// The files of symbols of a folder that the user named.
///
/// # Errors
/// Wrong usage: a folder that cannot be listed.
pub(super) fn read_symbol_folder(storage: &dyn Storage, folder: &str) -> Result<Headed> {
    let path = Path::new(folder);
    let refuse = |error: Error| Error::misuse(format!("--{WITH_SYMS} {folder} cannot be listed: {}", error.message()));
    let entries = storage.list(path).map_err(refuse)?;
    let is_file = |entry: &&Entry| matches!(entry.kind, EntryKind::File(_));
    Ok(headed(storage, path, entries.iter().filter(is_file).map(|entry| &entry.name), "sym"))
}

/// The files of a folder with this extension.
fn headed<'a>(
    storage: &dyn Storage,
    folder: &Path,
    names: impl Iterator<Item = &'a String>,
    extension: &str,
) -> Headed {
    let end = format!(".{extension}");
    let (mut headers, mut texts) = (Vec::new(), Vec::new());
    for name in names.filter(|name| name.ends_with(&end)) {
        let text = storage.open(&folder.join(name));
        let start = text.as_ref().map_or(&[][..], |text| text.bytes());
        headers.push((name.clone(), FileHeader::read(&start[..start.len().min(MAX_HEADER)])));
        texts.push(text);
    }
    (headers, texts)
}

/// The contents of a folder, while it is opened.
pub(super) struct DataFolder<'a> {
    pub storage: &'a dyn Storage,
    pub path: &'a Path,
    /// Names and lengths of its files.
    pub files: Vec<(String, u64)>,
    pub warnings: Vec<Error>,
    pub faults: Vec<Error>,
}

impl DataFolder<'_> {
    /// All files but those of records. What cannot be read was reported where it was needed.
    pub(super) fn parts(&self, streams: &[Stream]) -> Vec<(String, Arc<dyn Bytes>)> {
        let is_part = |name: &str| {
            let is_stream = streams.iter().any(|stream| stream.name == name);
            let is_kernel = name.starts_with("kernel-cpu") && name.ends_with(".dat");
            !is_stream && !is_kernel
        };
        let names = self.files.iter().map(|(name, _)| name).filter(|name| is_part(name));
        names.filter_map(|name| Some((name.clone(), self.storage.open(&self.path.join(name)).ok()?))).collect()
    }

    pub(super) fn warn(&mut self, errors: Vec<Error>, name: &str) {
        let path = self.path.join(name);
        self.warnings.extend(errors.into_iter().map(|error| error.in_file(&path)));
    }

    /// The content of a file, `None` when it is not there or cannot be read, which is reported.
    pub(super) fn text(&mut self, name: &str) -> Option<Arc<dyn Bytes>> {
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

    pub(super) fn tasks(&mut self, info: &Info) -> Tasks {
        let (mut tasks, name) = if let Some(text) = self.text("task.txt") {
            (Tasks::read(text.bytes()), "task.txt")
        } else if let Some(bytes) = self.text("task") {
            (Tasks::read_binary(bytes.bytes(), info.byte_order), "task")
        } else {
            let error = Error::inconsistent("there is no file `task.txt`: no address has a symbol");
            self.warnings.push(error.in_file(&self.path.join("task.txt")));
            return Tasks::default();
        };
        let odd = std::mem::take(&mut tasks.warnings);
        self.warn(odd, name);
        tasks
    }

    /// Reads maps and the symbols of everything in them, those `elsewhere` first.
    pub(super) fn names(&mut self, info: &Info, tasks: Tasks, elsewhere: Headed) -> SymbolNames {
        let mut modules: Vec<Module> = Vec::new();
        let mut known: HashMap<(String, Option<String>), usize> = HashMap::new();
        let mut module = |path: &str, build_id: Option<&str>| {
            let key = (path.to_string(), build_id.map(str::to_string));
            *known.entry(key).or_insert_with_key(|(path, build_id)| {
                modules.push(Module::new(path.clone(), build_id.clone()));
                modules.len() - 1
            })
        };
        let has_python = self.files.iter().any(|(name, _)| name.strip_suffix(".sym") == Some(maps::PYTHON));
        let mut spaces = Vec::new();
        let mut reported: HashSet<String> = HashSet::new();
        for session in &tasks.sessions {
            let name = format!("sid-{}.map", session.sid);
            let mut map = match self.text(&name) {
                Some(text) => {
                    let (mut map, odd) = Map::read(text.bytes());
                    map.complete_path(&session.exename);
                    self.warn(odd, &name);
                    map
                }
                None => {
                    if reported.insert(name.clone()) {
                        let message = "the map of a session is missing: its addresses have no symbols";
                        self.warnings.push(Error::inconsistent(message).in_file(&self.path.join(&name)));
                    }
                    Map::default()
                }
            };
            if has_python {
                map.add_python();
            }
            let of_map =
                map.mappings.iter().map(|mapping| module(&mapping.path, mapping.build_id.as_deref())).collect();
            let mut loaded: Vec<(u64, u64, usize)> =
                session.loaded.iter().map(|loaded| (loaded.time, loaded.base, module(&loaded.path, None))).collect();
            loaded.sort_by_key(|&(time, ..)| time);
            spaces.push(Space { map, modules: of_map, loaded });
        }
        let list = |extension| headed(self.storage, self.path, self.files.iter().map(|(name, _)| name), extension);
        let lists = [(elsewhere, "sym"), (list("sym"), "sym"), (list("dbg"), "dbg")];
        for ((headers, texts), extension) in lists {
            let is_symbols = extension == "sym";
            for module in &mut modules {
                if is_symbols && module.symbol_file.is_some() {
                    continue;
                }
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
        let is_relative = info.header.features & feature::SYM_REL_ADDR != 0;
        let mut names = SymbolNames { modules, tasks, spaces, kernel, is_relative, is_64_bit: info.is_64_bit };
        names.number();
        names
    }

    /// The traced tasks: as listed, or else those that have a file.
    pub(super) fn tids(&self, info: &Info) -> Vec<i64> {
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

    pub(super) fn file(&mut self, name: &str) -> Option<DataFile> {
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

    /// The index of each task whose file is there, be it empty: what the system reports of others is shown by no command.
    pub(super) fn numbers(&self, tids: &[i64]) -> HashMap<i64, u32> {
        let names: HashSet<&str> = self.files.iter().map(|(name, _)| name.as_str()).collect();
        let has_file = |tid: i64| names.contains(format!("{tid}.dat").as_str());
        tids.iter().enumerate().filter(|(_, tid)| has_file(**tid)).map(|(at, &tid)| (tid, at as u32)).collect()
    }

    /// The numbers of the processors that have files with this beginning of their names, ascending.
    pub(super) fn cpus(&self, prefix: &str) -> Vec<u32> {
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

    /// The layout of the pages in `kernel-cpuN.dat` that `kernel_header` gives, where there are any.
    pub(super) fn kernel(&mut self) -> Option<Kernel> {
        let cpus = self.cpus("kernel-cpu");
        if cpus.is_empty() {
            return None;
        }
        let Some(text) = self.text("kernel_header") else {
            for cpu in cpus {
                let error = Error::inconsistent("there is no file `kernel_header`: no event has a format");
                let error = error.at_offset(0).with_help("the file is skipped");
                self.faults.push(error.in_file(&self.path.join(format!("kernel-cpu{cpu}.dat"))));
            }
            return None;
        };
        let mut faults = Vec::new();
        let kernel = Kernel::read(text.bytes(), &mut faults);
        let path = self.path.join("kernel_header");
        self.faults.extend(faults.into_iter().map(|error| error.in_file(&path)));
        Some(kernel)
    }
}
