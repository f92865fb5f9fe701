//! A file of a program: its symbols, and what its debugging information says, read when it is needed.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use object::read::{File, Object, ObjectSymbolTable as _};
use tracemill_codec::chunk::Bytes;

use crate::image::{DebugSections, build_id_path, linked, open_elf};
use crate::inlined::{InlinedChain, InlinedFunctions};
use crate::symbols::{FileSegments, SymbolTable};
use crate::unwinding::FileUnwinder;

/// The name of code that the kernel maps into programs.
pub(crate) const VDSO: &str = "[vdso]";

/// Where a file is looked for.
pub(crate) struct FilePlaces {
    /// The file itself.
    pub(crate) path: PathBuf,
    /// Its build id, if the recording has one.
    pub(crate) wanted: Option<Vec<u8>>,
    /// Other files that may be the one that ran: before the file itself, and after it.
    pub(crate) before: Option<PathBuf>,
    /// See [`FilePlaces::before`].
    pub(crate) after: Vec<PathBuf>,
    /// Folder with what was stripped off files.
    pub(crate) debug_dir: PathBuf,
}

/// A file of a program.
pub(crate) struct ProgramFile {
    places: FilePlaces,
    /// The file that ran.
    ran: Option<Arc<dyn Bytes>>,
    /// The file with what was stripped off it.
    stripped: OnceLock<Option<Arc<dyn Bytes>>>,
    symbols: Option<SymbolTable>,
    segments: FileSegments,
    inlined: OnceLock<Option<InlinedFunctions>>,
    unwinder: OnceLock<Option<Arc<FileUnwinder>>>,
}

impl ProgramFile {
    /// Reads the symbols of a file, those of dynamic linking if it has no others. If it has none, the reason comes with it.
    pub(crate) fn open(places: FilePlaces) -> (ProgramFile, Option<String>) {
        let is_right = |bytes: &Arc<dyn Bytes>| match (&places.wanted, build_id(bytes.bytes())) {
            (Some(wanted), own) => own.is_some_and(|own| own.starts_with(wanted)),
            (None, _) => true,
        };
        let own = match places.path == Path::new(VDSO) {
            true => own_vdso().filter(|_| places.wanted.is_some()),
            false => open_elf(&places.path),
        };
        let before = places.before.as_ref().and_then(|path| open_elf(path)).filter(is_right);
        let after = || places.after.iter().find_map(|path| open_elf(path).filter(is_right));
        let ran = before.or_else(|| own.clone().filter(is_right)).or_else(after);
        let mut file = ProgramFile {
            places,
            ran,
            stripped: OnceLock::new(),
            symbols: None,
            segments: FileSegments::default(),
            inlined: OnceLock::new(),
            unwinder: OnceLock::new(),
        };
        let of_ran = |file: &ProgramFile| SymbolTable::from_elf(file.ran.as_ref()?.bytes());
        file.symbols = match file.ran.as_ref().is_some_and(|ran| has_all_symbols(ran.bytes())) {
            true => of_ran(&file),
            false => None,
        };
        file.symbols = file.symbols.take().or_else(|| SymbolTable::from_elf(file.stripped()?.bytes()));
        file.symbols = file.symbols.take().or_else(|| of_ran(&file));
        // Files of what was stripped off may not say where parts of the program are in it.
        let mapped = file.ran.as_ref().or_else(|| file.stripped());
        file.segments = mapped.map(|bytes| FileSegments::from_elf(bytes.bytes())).unwrap_or_default();
        let path = file.places.path.display();
        let is_vdso = file.places.path == Path::new(VDSO);
        let reason = match (&file.symbols, &file.ran, own) {
            (Some(_), ..) => None,
            (None, Some(_), _) => Some(format!("`{path}` has no symbols")),
            (None, None, _) if is_vdso => Some("it is not in perf's cache, and this kernel has another one".into()),
            (None, None, Some(_)) => Some(format!("`{path}` has another build id")),
            (None, None, None) => Some(format!("`{path}` cannot be read as an ELF file")),
        };
        (file, reason)
    }

    /// The address of a place in the file.
    pub(crate) fn address_of(&self, offset: u64) -> Option<u64> {
        self.segments.address_of(offset)
    }

    /// The function of an address by the symbols.
    pub(crate) fn symbol(&self, address: u64) -> Option<&str> {
        self.symbols.as_ref()?.find(address)
    }

    /// The functions of an address by the debugging information.
    pub(crate) fn inlined(&self, address: u64) -> InlinedChain {
        let open = || {
            let own = self.ran.clone().and_then(DebugSections::from_file);
            Some(InlinedFunctions::new(own.or_else(|| DebugSections::from_file(self.stripped()?.clone()))?))
        };
        self.inlined.get_or_init(open).as_ref().map(|inlined| inlined.find(address)).unwrap_or_default()
    }

    /// The steps from its functions to their callers.
    pub(crate) fn unwinder(&self) -> Option<Arc<FileUnwinder>> {
        let open = || {
            let ran = self.ran.as_ref().or_else(|| self.stripped())?;
            FileUnwinder::new(ran, || self.stripped().cloned(), self.segments.base()).map(Arc::new)
        };
        self.unwinder.get_or_init(open).clone()
    }

    fn stripped(&self) -> Option<&Arc<dyn Bytes>> {
        let find = || {
            let FilePlaces { path, wanted, debug_dir, .. } = &self.places;
            let id = wanted.clone().or_else(|| build_id(self.ran.as_ref()?.bytes()));
            id.and_then(|id| open_elf(&build_id_path(debug_dir, &id)))
                .or_else(|| by_link(self.ran.as_ref()?, path, debug_dir))
        };
        self.stripped.get_or_init(find).as_ref()
    }
}

/// The code that the kernel of this machine maps into programs, as it is in this one.
fn own_vdso() -> Option<Arc<dyn Bytes>> {
    /// It has a few pages.
    const MAX_BYTES: u64 = 1 << 20;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let (begin, end) = maps.lines().find(|line| line.ends_with(VDSO))?.split_once(' ')?.0.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let (begin, end) = (number(begin)?, number(end)?);
    let mut memory = std::fs::File::open("/proc/self/mem").ok()?;
    memory.seek(SeekFrom::Start(begin)).ok()?;
    let mut bytes = Vec::new();
    memory.take(end.checked_sub(begin)?.min(MAX_BYTES)).read_to_end(&mut bytes).ok()?;
    Some(Arc::new(bytes))
}

fn by_link(ran: &Arc<dyn Bytes>, path: &Path, debug_dir: &Path) -> Option<Arc<dyn Bytes>> {
    let elf = File::parse(ran.bytes()).ok()?;
    let (name, checksum) = elf.gnu_debuglink().ok()??;
    linked(path, debug_dir, &String::from_utf8_lossy(name), checksum)
}

fn build_id(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(File::parse(bytes).ok()?.build_id().ok()??.to_vec())
}

fn has_all_symbols(bytes: &[u8]) -> bool {
    File::parse(bytes).is_ok_and(|elf| elf.symbol_table().is_some_and(|table| table.symbols().next().is_some()))
}
