//! The file system as the place of outputs.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracemill_format::{Extent, OutPath, Sink, SinkFile};

use super::FileSystem;

impl FileSystem {
    /// A path for a writer.
    pub fn path(self, path: impl Into<PathBuf>) -> OutPath {
        OutPath::new(Arc::new(self), path)
    }
}

impl Sink for FileSystem {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn SinkFile>> {
        File::create(path).map(opened)
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn SinkFile>> {
        File::create_new(path).map(opened)
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn SinkFile>> {
        File::options().append(true).open(path).map(opened)
    }

    fn temporary(&self, path: &Path) -> io::Result<Box<dyn SinkFile>> {
        let file = File::options().read(true).write(true).create_new(true).open(path)?;
        // The name is not needed any more, and a program that is killed then leaves no file. Where a file that is open
        // cannot be removed, that is done when it is closed.
        let name = fs::remove_file(path).is_err().then(|| Name(path.to_path_buf()));
        Ok(Box::new(OutputFile { file, _name: name }))
    }

    fn extent(&self, path: &Path) -> Option<Extent> {
        let of = fs::symlink_metadata(path).ok()?;
        if !of.is_dir() {
            return Some(Extent { files: 1, bytes: of.len() });
        }
        let mut all = Extent::default();
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            let below = self.extent(&entry.path()).unwrap_or_default();
            all.files += below.files;
            all.bytes += below.bytes;
        }
        Some(all)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }
}

/// A file of an output, open.
struct OutputFile {
    file: File,
    /// The name that is removed after it. Dropped after the file.
    _name: Option<Name>,
}

struct Name(PathBuf);

impl Drop for Name {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn opened(file: File) -> Box<dyn SinkFile> {
    Box::new(OutputFile { file, _name: None })
}

impl Read for OutputFile {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.file.read(bytes)
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for OutputFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl SinkFile for OutputFile {
    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
}

#[cfg(test)]
mod tests {
    use tracemill_format::Spill;

    use super::FileSystem;

    #[test]
    fn texts_come_back_in_their_order() {
        let path = std::env::temp_dir().join(format!("tracemill-spill-{}", std::process::id()));
        let mut spill = Spill::new(&FileSystem.path(path), "parts");
        let mut want = vec![Vec::new(); 3];
        for at in 0..60_000u32 {
            let (text, bytes) = ((at * 7 % 3) as usize, format!("{at},"));
            spill.append(text, bytes.as_bytes()).expect("there is room");
            want[text].extend_from_slice(bytes.as_bytes());
        }
        for (text, want) in want.into_iter().enumerate() {
            let mut got = Vec::new();
            spill.copy(text, &mut got).expect("it is there");
            assert_eq!(got, want);
        }
    }
}
