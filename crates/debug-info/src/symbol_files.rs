//! Names of functions for samples: where files with symbols are looked for, and which of them are right.
//!
//! A file counts when its build id is the recorded one. The places, in this order: perf's cache of files (`~/.debug`), the file itself,
//! a file of its name next to the recording, what was stripped off it. The first that has all symbols is taken, otherwise the first that has those of dynamic linking.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tracemill_engine::samples::{StackCopy, Symbolizer};
use tracemill_engine::session::Session;
use tracemill_format::Demangle;
use tracemill_format::code::{CodeKind, CodeModule, CodePlace};
use tracemill_format::demangle::demangled;

use crate::image::{DEBUG_DIR, build_id_path, join_below, open_elf};
use crate::inlined::InlinedChain;
use crate::program_file::{FilePlaces, ProgramFile, VDSO};
use crate::symbols::SymbolTable;
use crate::unwinding::{CodeInFile, UnwindCache, follow};

/// Bytes of a list of symbols as text, at most.
const MAX_TEXT_BYTES: u64 = 256 << 20;

/// Where symbols are looked for.
#[derive(Clone, Debug, Default)]
pub struct SymbolSearch {
    /// Folder with debugging information of stripped programs, instead of the system's.
    pub dir: Option<PathBuf>,
    /// Folder in which the file system of the recorded machine is.
    pub target_prefix: Option<PathBuf>,
    /// perf's cache of files by their build ids.
    pub cache: Option<PathBuf>,
    /// The list of the kernel's symbols.
    pub kallsyms: Option<PathBuf>,
    /// Folders of the recordings: lists of symbols may be there.
    pub beside: Vec<PathBuf>,
    /// Form of names.
    pub demangle: Demangle,
    /// Are inlined functions left out? Finding them takes the debugging information of files.
    pub skips_inlined: bool,
}

impl SymbolSearch {
    /// Where the symbols of the traces of a session are looked for without further wishes: on this machine, next to the traces,
    /// and in perf's cache of this user.
    pub fn for_session(session: &Session) -> SymbolSearch {
        // A link to a recording has its symbols where the recording is.
        let paths = session.traces.iter().flat_map(|trace| [Some(trace.path.clone()), trace.path.canonicalize().ok()]);
        let folder = |path: PathBuf| path.parent().map(Path::to_path_buf).unwrap_or_default();
        let mut beside: Vec<PathBuf> = paths.flatten().map(folder).collect();
        beside.dedup();
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
        SymbolSearch { cache: home.map(|home| Path::new(&home).join(".debug")), beside, ..SymbolSearch::default() }
    }
}

/// A file of a program or of the kernel: its path and its build id.
type FileKey = (String, Option<Vec<u8>>);

/// Tables that were looked for, and found or not.
type KnownTables<K> = Mutex<HashMap<K, Option<Arc<SymbolTable>>>>;

/// Files with symbols, each read once.
pub struct SymbolFiles {
    search: SymbolSearch,
    files: Mutex<HashMap<FileKey, Arc<ProgramFile>>>,
    /// Of the kernel and its modules.
    kernels: KnownTables<FileKey>,
    /// Lists of the kernel.
    lists: KnownTables<PathBuf>,
    /// By process.
    programs: KnownTables<i64>,
    missing: Mutex<BTreeMap<String, String>>,
    unwinding: Mutex<UnwindCache>,
}

impl SymbolFiles {
    /// Symbols of the files that a search finds.
    pub fn new(search: SymbolSearch) -> SymbolFiles {
        SymbolFiles {
            search,
            files: Mutex::default(),
            kernels: Mutex::default(),
            lists: Mutex::default(),
            programs: Mutex::default(),
            missing: Mutex::default(),
            unwinding: Mutex::default(),
        }
    }

    /// The modules that were asked for and have no symbols, with the reason.
    pub fn missing(&self) -> Vec<(String, String)> {
        let missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        missing.iter().map(|(module, reason)| (module.clone(), reason.clone())).collect()
    }

    fn kernel(&self, module: &CodeModule) -> Option<Arc<SymbolTable>> {
        let key = (module.path.clone(), module.build_id.clone());
        let mut known = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let find = || self.kernel_table(module).map_err(|reason| self.miss(&module.path, reason)).ok();
        known.entry(key).or_insert_with(find).clone()
    }

    /// A file that processes mapped.
    fn file(&self, module: &CodeModule) -> Arc<ProgramFile> {
        let key = (module.path.clone(), module.build_id.clone());
        let mut known = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let open = || {
            let (file, reason) = ProgramFile::open(self.places(module));
            if let Some(reason) = reason {
                self.miss(&module.path, reason);
            }
            Arc::new(file)
        };
        known.entry(key).or_insert_with(open).clone()
    }

    fn miss(&self, module: &str, reason: String) {
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        missing.entry(module.to_string()).or_insert(reason);
    }

    /// A path on the recorded machine as it is here.
    fn here(&self, path: &str) -> PathBuf {
        let path = Path::new(path);
        self.search.target_prefix.as_ref().map_or_else(|| path.to_path_buf(), |prefix| join_below(prefix, path))
    }

    /// The folder of perf's cache for a build id.
    fn cached(&self, id: &[u8]) -> Option<PathBuf> {
        let path = build_id_path(self.search.cache.as_deref()?, id);
        Some(path.with_extension(""))
    }

    /// Where the file of a module is looked for.
    fn places(&self, module: &CodeModule) -> FilePlaces {
        let is_vdso = module.path == VDSO;
        let path = if is_vdso { VDSO.into() } else { self.here(&module.path) };
        let wanted = module.build_id.clone().filter(|id| !id.is_empty());
        let name = path.file_name().filter(|_| wanted.is_some());
        FilePlaces {
            before: wanted.as_ref().and_then(|id| Some(self.cached(id)?.join(if is_vdso { "vdso" } else { "elf" }))),
            after: name
                .map(|name| self.search.beside.iter().map(|folder| folder.join(name)).collect())
                .unwrap_or_default(),
            debug_dir: self.search.dir.clone().unwrap_or_else(|| DEBUG_DIR.into()),
            path,
            wanted,
        }
    }

    /// The kernel's list of symbols: the one that was named, one beside the recording, that of perf's cache, that of the running
    /// kernel when it is the recorded one, or the file of the kernel with debugging information.
    fn kernel_table(&self, module: &CodeModule) -> Result<Arc<SymbolTable>, String> {
        if let Some(path) = &self.search.kallsyms {
            return self
                .list(path)
                .ok_or_else(|| format!("`{}` cannot be read, or its addresses are hidden", path.display()));
        }
        let id = module.build_id.as_deref().filter(|id| !id.is_empty());
        let beside = self.search.beside.iter().map(|folder| folder.join("kallsyms"));
        let cached = id.and_then(|id| Some(self.cached(id)?.join("kallsyms")));
        let notes = match &module.kind {
            CodeKind::KernelModule => {
                let name = module.short_name().trim_matches(['[', ']']);
                let name = name.split(".ko").next().unwrap_or(name).replace('-', "_");
                Path::new("/sys/module").join(name).join("notes/.note.gnu.build-id")
            }
            _ => PathBuf::from("/sys/kernel/notes"),
        };
        let is_running = id.is_some_and(|id| id_of_notes(&notes).is_some_and(|own| own.starts_with(id)));
        let own = is_running.then(|| PathBuf::from("/proc/kallsyms"));
        let lists = beside.chain(cached).chain(own);
        if let Some(table) = lists.filter_map(|path| self.list(&path)).next() {
            return Ok(table);
        }
        let dir = self.search.dir.as_deref().unwrap_or(Path::new(DEBUG_DIR));
        // Files of modules do not say where these are in memory.
        let id = id.filter(|_| module.kind != CodeKind::KernelModule);
        let image = id.and_then(|id| open_elf(&build_id_path(dir, id)));
        image.and_then(|image| SymbolTable::from_elf(image.bytes())).map(Arc::new).ok_or_else(|| match is_running {
            true => "addresses in /proc/kallsyms are hidden from this user".into(),
            false => "it is not the running kernel, and no list of its symbols was found".into(),
        })
    }

    /// A list of the kernel's symbols.
    fn list(&self, path: &Path) -> Option<Arc<SymbolTable>> {
        let mut known = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        let read = || SymbolTable::from_kallsyms(&read_text(path)?).map(Arc::new);
        known.entry(path.to_path_buf()).or_insert_with(read).clone()
    }

    /// The list that a process wrote of code that it made itself.
    fn program_map(&self, process: i64) -> Option<Arc<SymbolTable>> {
        let mut known = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .entry(process)
            .or_insert_with(|| {
                let name = format!("perf-{process}.map");
                let beside = self.search.beside.iter().map(|folder| folder.join(&name));
                let mut places = beside.chain([self.here(&format!("/tmp/{name}"))]);
                places.find_map(|path| read_text(&path)).map(|text| Arc::new(SymbolTable::from_perf_map(&text)))
            })
            .clone()
    }

    /// The function of code that is not in a file of a program.
    fn function(&self, module: &CodeModule, process: i64, place: CodePlace) -> Option<String> {
        match &module.kind {
            CodeKind::Function => Some(module.path.clone()),
            CodeKind::Memory => match self.program_map(process) {
                Some(map) => map.find(place.address).map(str::to_string),
                None => {
                    self.miss(&module.path, format!("there is no list of its functions, perf-{process}.map"));
                    None
                }
            },
            CodeKind::Kernel { symbol, address } => {
                let table = self.kernel(module)?;
                let moved = table.anchor(symbol).map_or(0, |here| here.wrapping_sub(*address));
                table.find(place.address.wrapping_add(moved)).map(str::to_string)
            }
            CodeKind::KernelModule => self.kernel(module)?.find(place.address).map(str::to_string),
            CodeKind::File => None,
        }
    }

    /// The functions at a place in a file. The outermost one has the name of its symbol, which also tells parts and copies of a
    /// function apart.
    fn functions_of_file(&self, module: &CodeModule, place: CodePlace) -> Vec<String> {
        if !is_file(module) {
            self.miss(&module.path, "it is not a file".into());
            return Vec::new();
        }
        let file = self.file(module);
        let Some(address) = file.address_of(place.offset) else { return Vec::new() };
        let chain = if self.search.skips_inlined { InlinedChain::default() } else { file.inlined(address) };
        let mut names = chain.inlined;
        names.extend(file.symbol(address).map(str::to_string).or(chain.outer));
        names
    }
}

impl Symbolizer for SymbolFiles {
    fn functions(&self, module: &CodeModule, process: i64, place: CodePlace) -> Vec<String> {
        let names = match module.kind {
            CodeKind::File => self.functions_of_file(module, place),
            _ => self.function(module, process, place).into_iter().collect(),
        };
        names.into_iter().map(|name| demangled(&name, self.search.demangle)).collect()
    }

    fn unwind(&self, stack: &StackCopy<'_>) -> Vec<u64> {
        let find = |address: u64| {
            let place = stack.maps.place(stack.process, stack.cycles, address)?;
            let module = stack.maps.modules().get(place.module as usize)?;
            let file = is_file(module).then(|| self.file(module))?;
            let address = file.address_of(place.offset)?;
            Some(CodeInFile { file: file.unwinder()?, offset: place.offset, address })
        };
        follow(stack, &mut self.unwinding.lock().unwrap_or_else(PoisonError::into_inner), find)
    }
}

/// Is a module a file, or like one? Names in brackets are of memory.
fn is_file(module: &CodeModule) -> bool {
    module.kind == CodeKind::File && (!module.path.starts_with('[') || module.path == VDSO)
}

/// A list of symbols; none when it is too long to be one.
fn read_text(path: &Path) -> Option<String> {
    use std::io::Read;
    let file = std::fs::File::open(path).ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_TEXT_BYTES + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= MAX_TEXT_BYTES).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// The build id in notes of the running kernel.
fn id_of_notes(path: &Path) -> Option<Vec<u8>> {
    const BUILD_ID: u32 = 3;
    let notes = std::fs::read(path).ok()?;
    let mut rest = notes.as_slice();
    let word = |bytes: &[u8], at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    loop {
        let (name, size, kind) = (word(rest, 0)? as usize, word(rest, 4)? as usize, word(rest, 8)?);
        let content = 12 + name.next_multiple_of(4);
        if kind == BUILD_ID && rest.get(12..16) == Some(b"GNU\0") {
            return Some(rest.get(content..content + size)?.to_vec());
        }
        rest = rest.get(content + size.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use object::write::{Object as WrittenObject, Symbol, SymbolSection};
    use object::{Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope};

    use super::*;

    fn module(path: &str, build_id: Option<&[u8]>, kind: CodeKind) -> CodeModule {
        CodeModule { path: path.into(), build_id: build_id.map(<[u8]>::to_vec), kind }
    }

    fn at(offset: u64, address: u64) -> CodePlace {
        CodePlace { module: 0, offset, address }
    }

    /// A folder that goes away with it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("tracemill-symbols-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&path).expect("a folder");
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn lists_next_to_a_recording_name_code_without_a_file() {
        let folder = Folder::new("lists");
        std::fs::write(folder.0.join("perf-7.map"), "7f00 20 _ZN3jit3oneEv\n").expect("a list");
        std::fs::write(folder.0.join("kallsyms"), "ffffffff82000000 T _text\nffffffff82000100 T idle\n")
            .expect("a list");
        let search = SymbolSearch { beside: vec![folder.0.clone()], ..SymbolSearch::default() };
        let files = SymbolFiles::new(search);
        let memory = module("//anon", None, CodeKind::Memory);
        assert_eq!(files.functions(&memory, 7, at(0, 0x7f1f)), ["jit::one"]);
        assert!(files.functions(&memory, 7, at(0, 0x7f20)).is_empty());
        assert!(files.functions(&memory, i64::from(i32::MAX), at(0, 0x7f1f)).is_empty());
        assert!(files.missing()[0].1.contains("perf-2147483647.map"));
        // The kernel was elsewhere when it was recorded.
        let kind = CodeKind::Kernel { symbol: "_text".into(), address: 0xffff_ffff_8100_0000 };
        let kernel = module("[kernel.kallsyms]", Some(&[1, 2]), kind);
        assert_eq!(files.functions(&kernel, 7, at(0x108, 0xffff_ffff_8100_0108)), ["idle"]);
    }

    #[test]
    fn a_file_counts_without_a_recorded_build_id_only_where_none_is_known() {
        let folder = Folder::new("files");
        let mut object = WrittenObject::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
        let text = object.add_section(Vec::new(), b".text".to_vec(), SectionKind::Text);
        object.append_section_data(text, &[0x90; 0x100], 16);
        object.add_symbol(Symbol {
            name: b"main".to_vec(),
            value: 0x10,
            size: 8,
            kind: SymbolKind::Text,
            scope: SymbolScope::Dynamic,
            weak: false,
            section: SymbolSection::Section(text),
            flags: SymbolFlags::None,
        });
        std::fs::write(folder.0.join("app"), object.write().expect("it is consistent")).expect("a file");
        let search = SymbolSearch { target_prefix: Some(folder.0.clone()), ..SymbolSearch::default() };
        let files = SymbolFiles::new(search);
        let known = module("/app", Some(&[1, 2, 3]), CodeKind::File);
        assert!(files.functions(&known, 1, at(0x14, 0)).is_empty());
        assert!(files.missing()[0].1.contains("another build id"), "{:?}", files.missing());
        // It has no parts that are loaded, so places in it have no address; its table is there.
        let file = files.file(&module("/app", None, CodeKind::File));
        assert_eq!((file.symbol(0x17), file.symbol(0x18)), (Some("main"), None));
    }
}
