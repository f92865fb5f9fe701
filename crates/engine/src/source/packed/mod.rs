//! Traces inside compressed files and archives.
//!
//! [`Packed`] lies over another [`Storage`]: a path of that which is packed becomes what is in it. An archive becomes a
//! folder, a compressed file becomes its content, and both may hold each other. Nothing is written under a name: what
//! must be unpacked goes to temporary files that have none, so nothing can leave an archive and nothing stays behind.
//! Members that are stored as they are stay where they are.

mod compression;
mod slice;
pub(super) mod spool;
mod tar;
mod zip;

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracemill_codec::chunk::Bytes;
use tracemill_format::{Entry, EntryKind, Storage, UnpackedSink};
use tracemill_model::error::{Error, ErrorKind, Result};

use self::compression::Compression;
use self::spool::Spool;

/// Bytes of a file that show how it is packed.
const START_BYTES: usize = 512;
/// Compressed files inside each other, around one content.
const MAX_LAYERS: usize = 4;
/// Archives inside each other.
const MAX_ARCHIVES: usize = 8;
/// Members of one archive.
const MAX_MEMBERS: usize = 1 << 18;
/// Bytes that may be unpacked of any file, however small it is.
const MIN_LIMIT: u64 = 1 << 30;
/// Bytes that may be unpacked of a file: so many times its size. Traces shrink to a tenth, rarely to a hundredth.
const MAX_RATIO: u64 = 200;

/// A storage in which packed files are what they hold, once they were unpacked.
pub struct Packed<'a> {
    outer: &'a dyn Storage,
    limit: Option<u64>,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    nodes: HashMap<PathBuf, PackedNode>,
    /// Archives that were unpacked.
    archives: Vec<PathBuf>,
    faults: Vec<Error>,
}

enum PackedNode {
    Folder(BTreeSet<OsString>),
    File(Arc<dyn Bytes>),
}

/// How a file is packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Packing {
    Compressed(Compression),
    Tar,
    Zip,
}

/// A member of an archive: its path there, its content, `None` for a folder.
struct Member {
    name: PathBuf,
    content: Option<Arc<dyn Bytes>>,
}

/// Members of an archive, as far as it can be read.
#[derive(Default)]
struct Members {
    list: Vec<Member>,
    faults: Vec<Error>,
}

impl Members {
    /// Adds a member unless its name leads out of the archive.
    fn add(&mut self, name: &[u8], content: Option<Arc<dyn Bytes>>, offset: u64) -> Result<()> {
        if self.list.len() >= MAX_MEMBERS {
            let message = format!("the archive has more than {MAX_MEMBERS} members");
            return Err(Error::unsupported(message).at_offset(offset).with_help("unpack it, and name the folder"));
        }
        match plain_name(name) {
            Some(name) => self.list.push(Member { name, content }),
            None => {
                let name = String::from_utf8_lossy(name);
                let message = format!("the name of the member `{name}` leads out of the archive");
                self.faults.push(Error::malformed(message).at_offset(offset).with_help("the member is left out"));
            }
        }
        Ok(())
    }
}

/// The name of a member without what means nothing inside an archive; `None` when it leads out of it.
fn plain_name(name: &[u8]) -> Option<PathBuf> {
    let text = String::from_utf8_lossy(name);
    let mut plain = PathBuf::new();
    for part in Path::new(&*text).components() {
        match part {
            Component::Normal(part) => plain.push(part),
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    Some(plain)
}

/// How a file that begins so is packed.
fn packing(start: &[u8]) -> Option<Packing> {
    if let Some(compression) = Compression::detect(start) {
        return Some(Packing::Compressed(compression));
    }
    let is_zip = start.starts_with(b"PK\x03\x04") || start.starts_with(b"PK\x05\x06");
    if is_zip {
        return Some(Packing::Zip);
    }
    tar::is_header(start).then_some(Packing::Tar)
}

/// How much may still be unpacked.
struct Budget {
    left: u64,
    limit: u64,
}

impl Budget {
    fn spend(&mut self, bytes: u64) -> Result<()> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| {
            let message = format!("it holds more than {} bytes unpacked", self.limit);
            let help = "a higher limit is --max-unpacked SIZE; or unpack it, and name what comes out";
            Error::unsupported(message).with_help(help)
        })?;
        Ok(())
    }
}

impl<'a> Packed<'a> {
    /// Looks into packed files of another storage. `limit` is how many bytes each may hold unpacked.
    pub fn new(outer: &'a dyn Storage, limit: Option<u64>) -> Self {
        Packed { outer, limit, inside: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        // Nodes are added one by one, each whole.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Errors of packed files so far: parts of them are missing. Each is given once.
    pub fn faults(&self) -> Vec<Error> {
        std::mem::take(&mut self.lock().faults)
    }

    /// Takes all that a stream has for a file of this path. Much goes to a temporary file.
    ///
    /// # Errors
    /// When the path was taken before, when the stream cannot be read, and when the disk does not take it.
    pub fn add_stream(&self, path: &Path, from: &mut impl Read) -> Result<()> {
        if self.lock().nodes.contains_key(path) {
            return Err(Error::misuse("standard input is there once, and named twice"));
        }
        let failed = |error: std::io::Error| Error::io("read", path, &error);
        let (mut spool, mut buffer) = (Spool::default(), vec![0; 64 << 10]);
        loop {
            match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(len) => spool.write(&buffer[..len])?,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
        self.lock().nodes.insert(path.to_path_buf(), PackedNode::File(spool.finish()?));
        Ok(())
    }

    /// Unpacks a file, when it is packed: from now on its path is what it holds.
    ///
    /// # Errors
    /// When nothing of it can be used.
    pub fn unpack(&self, path: &Path) -> Result<()> {
        if !matches!(self.kind(path), Some(EntryKind::File(_))) {
            return Ok(());
        }
        let Ok(start) = self.read_start(path, START_BYTES) else { return Ok(()) };
        if packing(&start).is_none() {
            return Ok(());
        }
        self.unpack_all(path).map_err(|error| error.in_file(path))
    }

    fn unpack_all(&self, path: &Path) -> Result<()> {
        let depth = self.lock().archives.iter().filter(|archive| path.starts_with(archive)).count();
        if depth >= MAX_ARCHIVES {
            return Err(Error::unsupported(format!("archives inside each other, more than {MAX_ARCHIVES} deep")));
        }
        let mut bytes = self.open(path)?;
        let size = bytes.bytes().len() as u64;
        let limit = self.limit.unwrap_or_else(|| MIN_LIMIT.max(size.saturating_mul(MAX_RATIO)));
        let mut budget = Budget { left: limit, limit };
        for _ in 0..MAX_LAYERS {
            let start = bytes.bytes().get(..START_BYTES).unwrap_or(bytes.bytes());
            let members = match packing(start) {
                None => break,
                Some(Packing::Compressed(compression)) => {
                    let mut spool = Spool::default();
                    let end = compression.unpack(bytes.bytes(), &mut spool, &mut budget)?;
                    bytes = spool.finish()?;
                    self.add_faults(end.err().into_iter().collect(), path);
                    continue;
                }
                Some(Packing::Tar) => tar::members(&bytes)?,
                Some(Packing::Zip) => zip::members(&bytes, &mut budget)?,
            };
            self.add_faults(members.faults, path);
            return self.add_archive(path, members.list);
        }
        self.lock().nodes.insert(path.to_path_buf(), PackedNode::File(bytes));
        Ok(())
    }

    fn add_faults(&self, faults: Vec<Error>, path: &Path) {
        self.lock().faults.extend(faults.into_iter().map(|fault| fault.in_file(path)));
    }

    fn add_archive(&self, path: &Path, members: Vec<Member>) -> Result<()> {
        let mut inside = self.lock();
        inside.archives.push(path.to_path_buf());
        inside.nodes.insert(path.to_path_buf(), PackedNode::Folder(BTreeSet::new()));
        for member in members {
            let mut at = path.to_path_buf();
            let parts: Vec<_> = member.name.components().collect();
            for (place, part) in parts.iter().enumerate() {
                let is_last = place + 1 == parts.len();
                let folder = at.clone();
                at.push(part);
                let node = match (&member.content, is_last) {
                    (Some(content), true) => PackedNode::File(content.clone()),
                    // A folder that is there keeps what it has.
                    _ if matches!(inside.nodes.get(&at), Some(PackedNode::Folder(_))) => continue,
                    _ => PackedNode::Folder(BTreeSet::new()),
                };
                inside.nodes.insert(at.clone(), node);
                if let Some(PackedNode::Folder(names)) = inside.nodes.get_mut(&folder) {
                    names.insert(part.as_os_str().to_os_string());
                }
            }
        }
        Ok(())
    }

    fn content(&self, path: &Path) -> Option<Result<Arc<dyn Bytes>>> {
        Some(match self.lock().nodes.get(path)? {
            PackedNode::File(bytes) => Ok(bytes.clone()),
            PackedNode::Folder(_) => Err(Error::new(ErrorKind::Io, "it is a folder of an archive").in_file(path)),
        })
    }
}

impl Storage for Packed<'_> {
    fn list(&self, directory: &Path) -> Result<Vec<Entry>> {
        let names: Vec<OsString> = match self.lock().nodes.get(directory) {
            Some(PackedNode::Folder(names)) => names.iter().cloned().collect(),
            _ => return self.outer.list(directory),
        };
        let entry = |name: OsString| {
            let path = directory.join(&name);
            let kind = self.kind(&path).unwrap_or(EntryKind::Other);
            Entry { path, name: name.to_string_lossy().into_owned(), kind }
        };
        Ok(names.into_iter().map(entry).collect())
    }

    fn names(&self, directory: &Path) -> Result<Vec<OsString>> {
        match self.lock().nodes.get(directory) {
            Some(PackedNode::Folder(names)) => Ok(names.iter().cloned().collect()),
            _ => self.outer.names(directory),
        }
    }

    fn kind(&self, path: &Path) -> Option<EntryKind> {
        match self.lock().nodes.get(path) {
            Some(PackedNode::Folder(_)) => Some(EntryKind::Directory),
            Some(PackedNode::File(bytes)) => Some(EntryKind::File(bytes.bytes().len() as u64)),
            None => self.outer.kind(path),
        }
    }

    fn open(&self, file: &Path) -> Result<Arc<dyn Bytes>> {
        self.content(file).unwrap_or_else(|| self.outer.open(file))
    }

    fn read_start(&self, file: &Path, len: usize) -> Result<Vec<u8>> {
        match self.content(file) {
            None => self.outer.read_start(file, len),
            Some(bytes) => bytes.map(|bytes| bytes.bytes().iter().take(len).copied().collect()),
        }
    }

    fn is_unfinished(&self) -> bool {
        self.outer.is_unfinished()
    }

    fn unpacked(&self) -> Box<dyn UnpackedSink> {
        self.outer.unpacked()
    }

    fn canonical(&self, path: &Path) -> PathBuf {
        let outside = path.ancestors().find(|ancestor| self.outer.kind(ancestor).is_some());
        match outside.and_then(|outside| Some((outside, path.strip_prefix(outside).ok()?))) {
            Some((outside, rest)) if !rest.as_os_str().is_empty() => self.outer.canonical(outside).join(rest),
            _ => self.outer.canonical(path),
        }
    }
}
