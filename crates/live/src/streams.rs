//! Streams of bytes without a trace around them: from stdin, a FIFO, a serial device or a TCP connection.
//!
//! A thread for each copies what comes to a file of a folder, beside a copy of the metadata. That makes a trace that grows,
//! which is followed as any other ([`FollowSource`]). Nothing has to be held in memory, however slowly it is read.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracemill_engine::growth::{GrowingSource, GrowthPlaces, Round, StreamEnd};
use tracemill_engine::session::Session;
use tracemill_format::Stream;
use tracemill_model::error::{Error, Result};

use crate::follow::{FollowOptions, FollowSource};

/// Begins the addresses of TCP ports.
const TCP: &str = "tcp://";
/// Means stdin.
const STDIN: &str = "-";
/// Bytes that are copied at a time.
const PIECE: usize = 64 << 10;
/// Connections that are read at a time.
const MAX_CONNECTIONS: usize = 256;
/// How often the end is looked for while no connection comes.
const ACCEPT: Duration = Duration::from_millis(50);

/// Streams, and how they are read.
#[derive(Clone, Debug)]
pub struct StreamOptions {
    /// The file of the metadata.
    pub metadata: PathBuf,
    /// Files, FIFOs and devices; `-` is stdin, `tcp://PORT` a port at which each connection is a stream.
    pub inputs: Vec<PathBuf>,
    /// The address at which ports listen.
    pub listen: IpAddr,
    /// The folder that is filled; it must not be there.
    pub folder: PathBuf,
    /// How long a stream from which nothing comes holds the others up; for ever when it is zero.
    pub patience: Duration,
    /// End when nothing has come for so long.
    pub until_idle: Option<Duration>,
    /// Do regular files grow?
    pub files_grow: bool,
}

/// Streams of bytes as a trace that grows.
pub struct StreamSource {
    copies: Arc<Copies>,
    follow: FollowSource,
    ports: Vec<SocketAddr>,
    files_grow: bool,
}

/// State that the threads share.
#[derive(Default)]
struct Copies {
    is_stopped: AtomicBool,
    state: Mutex<CopyState>,
}

#[derive(Default)]
struct CopyState {
    /// Threads that still read or listen.
    running: usize,
    connections: usize,
    names: HashSet<String>,
    faults: Vec<Error>,
    warnings: Vec<Error>,
}

impl Copies {
    fn lock(&self) -> MutexGuard<'_, CopyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A name for the file of a stream.
    fn name(&self, wanted: &str) -> String {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
        let plain: String = wanted.chars().take(100).map(|c| if is_plain(c) { c } else { '_' }).collect();
        let plain = if plain.is_empty() || plain.starts_with('.') || plain == "metadata" || plain == "index" {
            format!("stream-{plain}")
        } else {
            plain
        };
        let mut state = self.lock();
        let numbered = (2..).map(|number| format!("{plain}-{number}"));
        let names = std::iter::once(plain.clone()).chain(numbered);
        let name = { names }.find(|name| !state.names.contains(name)).unwrap_or_default();
        state.names.insert(name.clone());
        name
    }

    /// Copies all of an input to a file.
    fn copy(&self, of: &Path, mut from: impl Read, mut to: File) {
        let mut piece = vec![0; PIECE];
        while !self.is_stopped.load(Ordering::Relaxed) {
            let len = match from.read(&mut piece) {
                Ok(0) => break,
                Ok(len) => len,
                Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted) => continue,
                // A connection, or a terminal whose other end has gone.
                Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionReset) || is_hung_up(&error) => {
                    let warning = Error::io("read", of, &error);
                    self.lock().warnings.push(warning.with_help("what came before is read"));
                    break;
                }
                Err(error) => {
                    self.lock().faults.push(Error::io("read", of, &error));
                    break;
                }
            };
            if let Err(error) = to.write_all(&piece[..len]) {
                self.lock().faults.push(Error::io("keep what comes from", of, &error));
                break;
            }
        }
    }
}

/// Has the other end of a serial line gone?
fn is_hung_up(error: &io::Error) -> bool {
    const EIO: i32 = 5;
    cfg!(unix) && error.raw_os_error() == Some(EIO)
}

/// The port of an address `tcp://PORT`; `Some(None)` when it is none.
fn port(path: &Path) -> Option<Option<u16>> {
    let text = path.to_str()?.strip_prefix(TCP)?;
    Some(text.trim_start_matches(':').parse().ok())
}

impl StreamSource {
    /// Begins to read all inputs.
    ///
    /// # Errors
    /// When one of them or the metadata cannot be opened, or the folder not be made.
    pub fn open(options: StreamOptions) -> Result<StreamSource> {
        let folder = &options.folder;
        fs::create_dir_all(folder).map_err(|error| Error::io("make the folder", folder, &error))?;
        let metadata = folder.join("metadata");
        fs::copy(&options.metadata, &metadata).map_err(|error| Error::io("read", &options.metadata, &error))?;
        let copies = Arc::new(Copies::default());
        let mut ports = Vec::new();
        for input in &options.inputs {
            ports.extend(begin(&copies, input, &options)?);
        }
        let follow = FollowSource::open(FollowOptions {
            inputs: vec![folder.clone()],
            patience: options.patience,
            until_idle: options.until_idle,
            pid: None,
        })?;
        Ok(StreamSource { copies, follow, ports, files_grow: options.files_grow })
    }

    /// The addresses that are listened on.
    pub fn ports(&self) -> &[SocketAddr] {
        &self.ports
    }

    /// Has everything come?
    pub fn is_over(&self) -> bool {
        !self.files_grow && self.copies.lock().running == 0
    }
}

/// Begins to read one input; gives the address of a port.
fn begin(copies: &Arc<Copies>, input: &Path, options: &StreamOptions) -> Result<Option<SocketAddr>> {
    let folder = &options.folder;
    let open_error = |error: &io::Error| Error::io("open", input, error);
    if let Some(port) = port(input) {
        let Some(port) = port else {
            let error = Error::misuse(format!("`{}` names no port", input.display()));
            return Err(
                error.with_help("a port is `tcp://4711`; --listen names another address than this machine alone")
            );
        };
        let listener =
            TcpListener::bind((options.listen, port)).map_err(|error| Error::io("listen on", input, &error))?;
        listener.set_nonblocking(true).map_err(|error| open_error(&error))?;
        let address = listener.local_addr().map_err(|error| open_error(&error))?;
        let (all, folder) = (copies.clone(), folder.clone());
        spawn(copies, input, move || accept(&all, &listener, &folder))?;
        return Ok(Some(address));
    }
    let is_stdin = input == Path::new(STDIN);
    let wanted = input.file_name().filter(|_| !is_stdin).map_or("stdin".into(), |name| name.to_string_lossy());
    let path = folder.join(copies.name(&wanted));
    #[cfg_attr(
        not(unix),
        expect(unused_variables, reason = "files are copied as other streams are where there are no links")
    )]
    let is_file = !is_stdin && fs::metadata(input).map_err(|error| open_error(&error))?.is_file();
    #[cfg(unix)]
    if is_file {
        // It is there as a whole, or grows as files do.
        let whole = fs::canonicalize(input).map_err(|error| open_error(&error))?;
        std::os::unix::fs::symlink(whole, &path).map_err(|error| Error::io("make", &path, &error))?;
        return Ok(None);
    }
    let to = File::create(&path).map_err(|error| Error::io("make", &path, &error))?;
    let (all, of) = (copies.clone(), input.to_path_buf());
    spawn(copies, input, move || {
        if is_stdin {
            return all.copy(&of, io::stdin().lock(), to);
        }
        // A FIFO is open when somebody writes to it.
        match File::open(&of) {
            Ok(from) => {
                #[cfg(unix)]
                if !is_file {
                    make_raw(&from);
                }
                all.copy(&of, from, to);
            }
            Err(error) => all.lock().faults.push(Error::io("open", &of, &error)),
        }
    })?;
    Ok(None)
}

/// Lets a serial line give bytes as they come, where it would translate ends of lines. Its speed is left as it is.
#[cfg(unix)]
fn make_raw(line: &File) {
    if let Ok(mut settings) = rustix::termios::tcgetattr(line) {
        settings.make_raw();
        let _ = rustix::termios::tcsetattr(line, rustix::termios::OptionalActions::Now, &settings);
    }
}

/// Starts a thread that reads.
fn spawn(copies: &Arc<Copies>, of: &Path, work: impl FnOnce() + Send + 'static) -> Result<()> {
    copies.lock().running += 1;
    let ended = copies.clone();
    // It is not waited for: nothing ends a read of stdin.
    let thread = std::thread::Builder::new().name("stream".into()).spawn(move || {
        work();
        ended.lock().running -= 1;
    });
    thread.map(drop).map_err(|error| {
        copies.lock().running -= 1;
        Error::io("start a thread", of, &error)
    })
}

/// Reads all connections that come, until it is stopped.
fn accept(copies: &Arc<Copies>, listener: &TcpListener, folder: &Path) {
    let mut was_full = false;
    while !copies.is_stopped.load(Ordering::Relaxed) {
        let Ok((connection, peer)) = listener.accept() else {
            std::thread::sleep(ACCEPT);
            continue;
        };
        let of = PathBuf::from(format!("{TCP}{peer}"));
        if copies.lock().connections >= MAX_CONNECTIONS {
            if !std::mem::replace(&mut was_full, true) {
                let message = format!("{MAX_CONNECTIONS} connections are open: others are refused");
                copies.lock().warnings.push(Error::unsupported(message).in_file(&of));
            }
            continue;
        }
        let path = folder.join(copies.name(&peer.to_string()));
        let begun = connection
            .set_nonblocking(false)
            .and_then(|()| File::create(&path))
            .map_err(|error| Error::io("keep what comes from", &of, &error));
        let begun = begun.and_then(|to| {
            copies.lock().connections += 1;
            let (all, name) = (copies.clone(), of.clone());
            let copy = move || {
                all.copy(&name, connection, to);
                all.lock().connections -= 1;
            };
            spawn(copies, &of, copy).inspect_err(|_| copies.lock().connections -= 1)
        });
        if let Err(error) = begun {
            copies.lock().faults.push(error);
        }
    }
}

impl GrowingSource for StreamSource {
    fn next_round(&mut self, wait: Duration) -> Result<Option<Round>> {
        if self.is_over() {
            self.follow.leave();
        }
        self.follow.next_round(wait)
    }

    fn end_of(&self, session: &Session, trace: usize, stream: &Stream) -> StreamEnd {
        self.follow.end_of(session, trace, stream)
    }

    fn look_at(&mut self, session: &mut Session, places: &mut GrowthPlaces) -> Vec<Error> {
        self.follow.look_at(session, places)
    }

    fn take_faults(&mut self) -> (Vec<Error>, Vec<Error>) {
        let (mut faults, mut warnings) = self.follow.take_faults();
        let mut state = self.copies.lock();
        faults.append(&mut state.faults);
        warnings.append(&mut state.warnings);
        (faults, warnings)
    }

    fn may_be_cut(&self) -> bool {
        self.follow.may_be_cut()
    }

    fn release(&mut self, places: &mut GrowthPlaces) {
        self.follow.release(places);
    }

    fn leave(&mut self) {
        self.copies.is_stopped.store(true, Ordering::Relaxed);
        self.follow.leave();
    }
}

impl Drop for StreamSource {
    fn drop(&mut self) {
        self.copies.is_stopped.store(true, Ordering::Relaxed);
    }
}
