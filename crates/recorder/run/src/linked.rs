//! The probes that a program has, and the libraries that the loader would give it: their files are read, nothing is run.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::elf::{Elf, text_at, u32_at};
use crate::notes::ProbePlace;

/// The probes of a program or of a library, as its file has them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FileProbes {
    /// The file.
    pub path: PathBuf,
    /// The places, in the order of their names.
    pub places: Vec<ProbePlace>,
    /// Where the first note is that could not be read, in bytes from the beginning of the file, and why.
    pub damage: Option<(u64, &'static str)>,
}

/// The probes of a program and of the libraries that it is linked with.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LinkedProbes {
    /// First the program, then its libraries as the loader meets them.
    pub files: Vec<FileProbes>,
    /// Libraries whose files were not found, or cannot be read.
    pub missing: Vec<String>,
}

/// Files that are read for one program, at most.
const MOST_FILES: usize = 1000;

/// Lists the probes of a program and of its libraries.
///
/// # Errors
/// When the file of the program cannot be read, or is not an ELF file of 64 bits, little endian ([`io::ErrorKind::InvalidData`]).
pub fn probes(program: &Path) -> io::Result<LinkedProbes> {
    let read = |path: &Path| fs::read(path).map(|bytes| Elf::read(&bytes));
    let Some(elf) = read(program)? else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not an ELF file of 64 bits, little endian"));
    };
    let (machine, own_folders) = (elf.machine, expanded(&elf, program));
    let cache = LoaderCache::read();
    let mut linked = LinkedProbes::default();
    let mut known: BTreeSet<String> = BTreeSet::new();
    let mut left = VecDeque::from([(program.to_path_buf(), elf)]);
    while let Some((path, mut elf)) = left.pop_front() {
        let folders: Vec<_> = expanded(&elf, &path).into_iter().chain(own_folders.clone()).collect();
        for name in std::mem::take(&mut elf.libraries) {
            if known.len() == MOST_FILES || !known.insert(name.clone()) {
                continue;
            }
            let candidates = candidates(&name, &folders, &cache);
            // One for other processors is passed over, as by the loader.
            let found = candidates.into_iter().find_map(|path| {
                let elf = read(&path).ok().flatten().filter(|elf| elf.machine == machine)?;
                Some((path, elf))
            });
            match found {
                Some(found) => left.push_back(found),
                None => linked.missing.push(name),
            }
        }
        elf.probes.places.sort();
        linked.files.push(FileProbes { path, places: elf.probes.places, damage: elf.probes.damage });
    }
    Ok(linked)
}

/// The folders that a file names for its libraries.
fn expanded(elf: &Elf, path: &Path) -> Vec<PathBuf> {
    let origin = path.canonicalize().ok().and_then(|path| Some(path.parent()?.to_string_lossy().into_owned()));
    let origin = origin.unwrap_or_default();
    let folders = elf.folders.iter().flat_map(|list| list.split(':')).filter(|folder| !folder.is_empty());
    folders.map(|folder| folder.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin).into()).collect()
}

/// Where the loader may find a library.
fn candidates(name: &str, folders: &[PathBuf], cache: &LoaderCache) -> Vec<PathBuf> {
    if name.contains('/') {
        return vec![name.into()];
    }
    let named = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let named: Vec<_> = std::env::split_paths(&named).filter(|folder| !folder.as_os_str().is_empty()).collect();
    let usual = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(PathBuf::from);
    let first = folders.iter().chain(&named).map(|folder| folder.join(name));
    first.chain(cache.paths(name)).chain(usual.iter().map(|folder| folder.join(name))).collect()
}

/// The loader's list of libraries: `/etc/ld.so.cache`.
struct LoaderCache {
    bytes: Vec<u8>,
    /// Where the list of the present form begins: older forms may stand before it.
    at: usize,
}

/// The first bytes of a list.
const LIST: &[u8] = b"glibc-ld.so.cache1.1";
/// Bytes before its entries.
const HEAD: u64 = 48;
/// Bytes of an entry: flags, where the name and the path stand, and what the library needs.
const ENTRY: u64 = 24;

impl LoaderCache {
    fn read() -> LoaderCache {
        LoaderCache::new(fs::read("/etc/ld.so.cache").unwrap_or_default())
    }

    fn new(bytes: Vec<u8>) -> LoaderCache {
        let at = bytes.windows(LIST.len()).position(|window| window == LIST).unwrap_or(bytes.len());
        LoaderCache { bytes, at }
    }

    /// The paths that it has for a library.
    fn paths(&self, name: &str) -> Vec<PathBuf> {
        let list = self.bytes.get(self.at..).unwrap_or_default();
        let count = u32_at(list, 20).unwrap_or(0).min(list.len() as u64 / ENTRY);
        // Compared where they stand: a list has thousands.
        let is_name = |at: u64| {
            let rest = usize::try_from(at).ok().and_then(|at| list.get(at..)).unwrap_or_default();
            rest.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
        };
        let path = |number: u64| {
            let at = HEAD + number * ENTRY;
            is_name(u32_at(list, at + 4)?).then(|| text_at(list, u32_at(list, at + 8)?).map(PathBuf::from)).flatten()
        };
        (0..count).filter_map(path).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_found_where_the_loader_finds_them() {
        let own = std::env::current_exe().expect("a path");
        let linked = probes(&own).expect("it can be read");
        assert_eq!((linked.files[0].path.as_path(), &linked.missing), (own.as_path(), &Vec::new()));
        // The loader has mapped the same ones.
        let maps = fs::read_to_string("/proc/self/maps").expect("it is there");
        for file in &linked.files {
            let path = file.path.canonicalize().expect("it is there");
            assert!(maps.contains(&*path.to_string_lossy()), "{}", path.display());
        }
        assert!(probes(Path::new("/etc/passwd")).is_err_and(|error| error.kind() == io::ErrorKind::InvalidData));
        assert!(probes(Path::new("/nowhere")).is_err_and(|error| error.kind() == io::ErrorKind::NotFound));
    }

    #[test]
    fn lists_that_are_cut_have_fewer_libraries() {
        let mut list = LIST.to_vec();
        list.extend([2_u32, 0, 0, 0, 0, 0, 0].into_iter().flat_map(u32::to_le_bytes));
        let texts = 48 + 2 * 24;
        for name in [texts, texts + 5] {
            let entry = [0x303, name, texts + 10, 0, 0, 0];
            list.extend(entry.into_iter().flat_map(u32::to_le_bytes));
        }
        list.extend(b"a.so\0b.so\0/lib/b.so\0");
        let found = |bytes: &[u8], name| LoaderCache::new(bytes.to_vec()).paths(name);
        let with_old = [b"ld.so-1.7.0".as_slice(), &list].concat();
        for list in [&list, &with_old] {
            assert_eq!(found(list, "b.so"), [PathBuf::from("/lib/b.so")]);
            assert!(found(list, "c.so").is_empty() && found(list, "b.s").is_empty());
        }
        for len in 0..list.len() {
            assert!(found(&list[..len], "b.so").is_empty(), "{len}");
        }
        let mut many = list.clone();
        many[20..24].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(found(&many, "b.so").len(), 1);
    }
}
