//! A file of a program: its symbols, its build id, and where its debugging information is.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimli::Dwarf;
use object::read::{CompressionFormat, File, Object, ObjectSection, ObjectSymbol, SymbolKind};
use tracemill_codec::chunk::Bytes;
use tracemill_engine::source::FileSystem;
use tracemill_format::Storage;

use crate::dwarf::{self, DwarfSlice, SourceLine};

/// Where debugging information of stripped programs is installed.
pub(crate) const DEBUG_DIR: &str = "/usr/lib/debug";

/// A byte of a deflated stream stands for so many at most.
const MOST_INFLATED: u64 = 1032;

/// A trace's statement about a file of a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExpectedImage {
    pub(crate) path: PathBuf,
    pub(crate) build_id: Option<Vec<u8>>,
    /// Name and checksum of the file that has its debugging information.
    pub(crate) link: Option<(String, u32)>,
}

/// A file that was opened; `None` for those that cannot be used.
pub(crate) struct Image {
    /// The program.
    elf: Option<Arc<dyn Bytes>>,
    debug: Option<DebugSections>,
    /// Is it another file than the one that ran?
    is_foreign: bool,
}

/// A file with debugging information.
pub(crate) struct DebugSections {
    file: Arc<dyn Bytes>,
    /// Sections that are stored packed.
    unpacked: HashMap<String, Vec<u8>>,
}

/// Function and line at an address.
#[derive(Debug, PartialEq, Eq, Default)]
pub(crate) struct FoundFunction {
    pub(crate) function: Option<String>,
    pub(crate) line: Option<SourceLine>,
}

impl Image {
    /// Opens what there is of a file.
    pub(crate) fn open(wanted: &ExpectedImage, debug_dir: Option<&Path>) -> Image {
        let elf = open_elf(&wanted.path);
        let is_foreign = wanted.build_id.as_ref().is_some_and(|id| {
            let own = elf.as_ref().and_then(|bytes| Some(File::parse(bytes.bytes()).ok()?.build_id().ok()??.to_vec()));
            id.is_empty() || !own.is_some_and(|own| own.starts_with(id))
        });
        if is_foreign {
            return Image { elf, debug: None, is_foreign };
        }
        let debug_dir = debug_dir.unwrap_or(Path::new(DEBUG_DIR));
        let debug = elf.clone().and_then(DebugSections::from_file).or_else(|| {
            let beside = wanted.build_id.as_ref().map(|id| build_id_path(debug_dir, id));
            beside.and_then(|path| DebugSections::from_file(open_elf(&path)?))
        });
        let debug = debug.or_else(|| {
            let (name, checksum) = wanted.link.as_ref()?;
            DebugSections::from_file(linked(&wanted.path, debug_dir, name, *checksum)?)
        });
        Image { elf, debug, is_foreign }
    }

    /// Is it another file than the one that ran, or gone though the trace says which one it was?
    pub(crate) fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    /// Function and line at an address of the file.
    pub(crate) fn find(&self, address: u64) -> FoundFunction {
        match &self.debug {
            None => FoundFunction { function: self.nearest_symbol(address), line: None },
            Some(_) => self.with_dwarf(|dwarf| dwarf::find(&dwarf, address)).unwrap_or_default(),
        }
    }

    /// Does something with the debugging information, if there is any.
    pub(crate) fn with_dwarf<R>(&self, work: impl FnOnce(Dwarf<DwarfSlice<'_>>) -> R) -> Option<R> {
        self.debug.as_ref()?.with_dwarf(work)
    }

    /// The function symbol before an address, with the distance.
    fn nearest_symbol(&self, address: u64) -> Option<String> {
        let elf = File::parse(self.elf.as_ref()?.bytes()).ok()?;
        let mut nearest: Option<(u64, &str)> = None;
        for symbol in elf.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text) {
            let at = symbol.address();
            if at <= address && nearest.is_none_or(|(best, _)| at > best) {
                nearest = Some((at, symbol.name().ok()?));
            }
        }
        nearest.map(|(at, name)| with_distance(name, address - at))
    }
}

impl DebugSections {
    /// The debugging information of a file, when it has any.
    pub(crate) fn from_file(file: Arc<dyn Bytes>) -> Option<DebugSections> {
        let mut unpacked = HashMap::new();
        {
            let elf = File::parse(file.bytes()).ok()?;
            for name in dwarf::SECTIONS {
                let Some(section) = elf.section_by_name(name) else { continue };
                if let Cow::Owned(bytes) = content(&section)? {
                    unpacked.insert(name.to_string(), bytes);
                }
            }
            let info = unpacked.get(".debug_info").map(Vec::as_slice);
            let info = info.or_else(|| elf.section_by_name(".debug_info")?.data().ok())?;
            if !dwarf::has_unit(info, !elf.is_little_endian()) {
                return None;
            }
        }
        Some(DebugSections { file, unpacked })
    }

    /// Does something with the debugging information.
    pub(crate) fn with_dwarf<R>(&self, work: impl FnOnce(Dwarf<DwarfSlice<'_>>) -> R) -> Option<R> {
        let elf = File::parse(self.file.bytes()).ok()?;
        let section = |name: &str| match self.unpacked.get(name) {
            Some(bytes) => bytes.as_slice(),
            None => elf.section_by_name(name).and_then(|section| section.data().ok()).unwrap_or(&[]),
        };
        dwarf::load(section, !elf.is_little_endian()).map(work)
    }
}

/// The content of a section, unpacked when it is packed by zlib; `None` when it cannot be unpacked.
pub(crate) fn content<'a>(section: &object::read::Section<'a, '_>) -> Option<Cow<'a, [u8]>> {
    let stored = section.compressed_data().ok()?;
    match stored.format {
        CompressionFormat::None => Some(Cow::Borrowed(stored.data)),
        CompressionFormat::Zlib => {
            let most = (stored.data.len() as u64).saturating_mul(MOST_INFLATED).min(stored.uncompressed_size);
            let mut bytes = Vec::new();
            flate2::read::ZlibDecoder::new(stored.data).take(most).read_to_end(&mut bytes).ok()?;
            Some(Cow::Owned(bytes))
        }
        _ => None,
    }
}

pub(crate) fn open_elf(path: &Path) -> Option<Arc<dyn Bytes>> {
    let bytes = FileSystem.open(path).ok()?;
    File::parse(bytes.bytes()).is_ok_and(|file| file.format() == object::BinaryFormat::Elf).then_some(bytes)
}

/// `DIR/.build-id/ab/cdef.debug`.
pub(crate) fn build_id_path(dir: &Path, id: &[u8]) -> PathBuf {
    let digits: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let (first, rest) = digits.split_at(digits.len().min(2));
    dir.join(".build-id").join(first).join(format!("{rest}.debug"))
}

/// The file that a link names, when its checksum is that of the link: beside the program, below `.debug`, or in the
/// folder of all.
pub(crate) fn linked(program: &Path, debug_dir: &Path, name: &str, checksum: u32) -> Option<Arc<dyn Bytes>> {
    let folder = program.parent().unwrap_or(Path::new("."));
    let places = [folder.to_path_buf(), folder.join(".debug"), join_below(debug_dir, folder)];
    places.iter().find_map(|place| {
        let bytes = FileSystem.open(&join_below(place, Path::new(name))).ok()?;
        (crc32fast::hash(bytes.bytes()) == checksum).then_some(bytes)
    })
}

/// A path below a folder, even where the path is absolute.
pub(crate) fn join_below(folder: &Path, path: &Path) -> PathBuf {
    folder.join(path.strip_prefix("/").unwrap_or(path))
}

/// `name+0x12`, as the `#` form of C's `printf` shows it: nothing before a zero.
pub(crate) fn with_distance(name: &str, distance: u64) -> String {
    format!("{name}+{}", hexadecimal(distance))
}

pub(crate) fn hexadecimal(value: u64) -> String {
    if value == 0 { "0".into() } else { format!("{value:#x}") }
}
