//! Outputs that go to memory are those that go to the file system: no target writes past its sink.

mod folder;

use std::collections::BTreeMap;
use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use folder::Folder;
use tracemill_engine::convert::{Conversion, ConvertOptions, sources};
use tracemill_engine::copy::copy;
use tracemill_engine::selection::streams;
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_engine::timeline::Selection;
use tracemill_format::target::{Target, WriteOptions};
use tracemill_format::{Extent, OutPath, Sink, SinkFile};

type Content = Arc<Mutex<Vec<u8>>>;

/// Files in memory.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<BTreeMap<PathBuf, Content>>>);

/// A file in memory, open.
struct MemoryFile {
    content: Content,
    at: u64,
}

impl MemoryFile {
    fn with<T>(&mut self, act: impl FnOnce(&mut Cursor<&mut Vec<u8>>) -> io::Result<T>) -> io::Result<T> {
        let mut content = self.content.lock().expect("no test panics with it");
        let mut cursor = Cursor::new(&mut *content);
        cursor.set_position(self.at);
        let done = act(&mut cursor);
        self.at = cursor.position();
        done
    }
}

impl Read for MemoryFile {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.with(|cursor| cursor.read(bytes))
    }
}

impl Write for MemoryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.with(|cursor| cursor.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for MemoryFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.with(|cursor| cursor.seek(to))
    }
}

impl SinkFile for MemoryFile {
    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.content.lock().expect("no test panics with it").resize(len as usize, 0);
        Ok(())
    }
}

impl Memory {
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let files = self.0.lock().expect("no test panics with it");
        files.iter().map(|(path, content)| (path.clone(), content.lock().expect("nor with this").clone())).collect()
    }
}

impl Sink for Memory {
    fn make_folder(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn SinkFile>> {
        let content = Content::default();
        self.0.lock().expect("no test panics with it").insert(path.to_path_buf(), content.clone());
        Ok(Box::new(MemoryFile { content, at: 0 }))
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn SinkFile>> {
        match self.extent(path) {
            None => self.create(path),
            Some(_) => Err(io::ErrorKind::AlreadyExists.into()),
        }
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn SinkFile>> {
        let content = self.0.lock().expect("no test panics with it").get(path).cloned();
        let content = content.ok_or(io::ErrorKind::NotFound)?;
        let at = content.lock().expect("no test panics with it").len() as u64;
        Ok(Box::new(MemoryFile { content, at }))
    }

    fn temporary(&self, _: &Path) -> io::Result<Box<dyn SinkFile>> {
        Ok(Box::new(MemoryFile { content: Content::default(), at: 0 }))
    }

    fn extent(&self, path: &Path) -> Option<Extent> {
        let all = self.files();
        let below = all.iter().filter(|(file, _)| file.starts_with(path)).map(|(_, bytes)| bytes.len() as u64);
        let extent = below.fold(Extent::default(), |sum, len| Extent { files: sum.files + 1, bytes: sum.bytes + len });
        (extent.files > 0).then_some(extent)
    }

    fn read(&self, _: &Path) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// Files of the file system, at or below a path.
fn files_at(path: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    if path.is_dir() {
        std::fs::read_dir(path).expect("a folder").flatten().for_each(|entry| files_at(&entry.path(), files));
    } else if path.exists() {
        files.insert(path.to_path_buf(), std::fs::read(path).expect("a file"));
    }
}

fn open(path: &Path) -> Session {
    let options = OpenOptions::new(tracemill_formats::FORMATS);
    Session::open(&FileSystem, &[path.to_path_buf()], &options).expect("the options are right")
}

/// The traces and logs of the demo.
fn demo() -> Vec<PathBuf> {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo");
    let below = |name| std::fs::read_dir(demo.join(name)).expect("the demo is there").flatten();
    ["traces", "logs"].into_iter().flat_map(below).map(|entry| entry.path()).collect()
}

/// Converts a trace; false when the target refuses it.
fn convert(session: &Session, target: &Target, to: &OutPath) -> bool {
    let streams = streams(session, &[]).expect("all streams");
    let sources = sources(session, &streams).expect("the parts can be read");
    let Ok(writer) = (target.create)(to, &sources, &WriteOptions::default()) else { return false };
    let conversion = Conversion {
        session,
        streams: &streams,
        selection: &Selection::default(),
        options: &ConvertOptions::default(),
        in_order: target.wants_order,
    };
    conversion.run(writer, &mut |_| ControlFlow::Continue(())).expect("it can be written");
    true
}

#[test]
fn every_target_writes_to_its_sink_alone() {
    let folder = Folder::new("sinks");
    let mut written = 0;
    for trace in demo() {
        let session = open(&trace);
        if session.traces.is_empty() {
            continue;
        }
        for target in tracemill::targets() {
            let out = folder.path().join(format!(
                "{}.{}",
                trace.file_name().unwrap_or_default().to_string_lossy(),
                target.names[0]
            ));
            let memory = Memory::default();
            if !convert(&session, target, &OutPath::new(Arc::new(memory.clone()), &out)) {
                continue;
            }
            assert!(!out.exists(), "{} writes past its sink", target.names[0]);
            convert(&session, target, &FileSystem.path(&out));
            let mut files = BTreeMap::new();
            files_at(&out, &mut files);
            assert!(!files.is_empty() && files == memory.files(), "{}: other files", out.display());
            written += 1;
        }
    }
    assert!(written > 20, "{written} outputs");
}

#[test]
fn a_trace_is_copied_file_by_file() {
    let mut copied = 0;
    for trace in demo() {
        let (session, memory) = (open(&trace), Memory::default());
        let [of] = session.traces.as_slice() else { continue };
        let to = OutPath::new(Arc::new(memory.clone()), of.path.clone());
        if copy(of, &FileSystem, &to).expect("it can be read") {
            for (path, bytes) in memory.files() {
                assert!(std::fs::read(&path).is_ok_and(|own| own == bytes), "{}", path.display());
            }
            copied += 1;
        }
    }
    assert!(copied > 1, "{copied} copies");
}
