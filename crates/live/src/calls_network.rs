//! Recordings of calls over the network, as uftrace sends them with `record --host` and takes them with `recv`: a board that has no
//! disk sends its records while it runs, and the files beside them at the end.
//!
//! A message has a magic number, a kind and a length, in network byte order, then its content. What a peer says is never a
//! path: folders and files get names of one part.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver as Inbox, RecvTimeoutError, Sender as Outbox, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tracemill_model::error::{Error, ErrorKind, Result};

/// The port that uftrace uses.
pub const CALLS_PORT: u16 = 8090;

const MAGIC: u16 = 0xface;
const DIR_NAME: u16 = 101;
const DATA: u16 = 102;
const KERNEL_DATA: u16 = 103;
const PERF_DATA: u16 = 104;
const INFO: u16 = 105;
const META_DATA: u16 = 106;
const END: u16 = 107;

/// Bytes of the head of a message.
const HEAD: usize = 8;
/// Bytes of the header of `info`, and where its numbers are and how long: they are sent in network byte order.
const INFO_HEADER: usize = 40;
const INFO_NUMBERS: [(usize, usize); 5] = [(8, 4), (12, 2), (16, 8), (24, 8), (32, 2)];
/// Bytes of the longest name.
const LONGEST_NAME: u32 = 4096;
/// Recordings that are received at a time.
const MAX_CONNECTIONS: usize = 64;
/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How often the end is looked for while no connection comes.
const ACCEPT: Duration = Duration::from_millis(50);

/// Sends a recording.
pub struct CallSender {
    stream: Mutex<TcpStream>,
}

fn head(kind: u16, len: usize) -> io::Result<[u8; HEAD]> {
    let len = u32::try_from(len).map_err(|_| io::Error::other("a message has more than 4 GiB"))?;
    let mut head = [0; HEAD];
    head[..2].copy_from_slice(&MAGIC.to_be_bytes());
    head[2..4].copy_from_slice(&kind.to_be_bytes());
    head[4..].copy_from_slice(&len.to_be_bytes());
    Ok(head)
}

impl CallSender {
    /// Connects to a receiver, and tells it the name of the recording.
    ///
    /// # Errors
    /// When nobody answers there.
    pub fn connect(host: &str, port: u16, name: &str) -> Result<CallSender> {
        let of = PathBuf::from(format!("{host}:{port}"));
        let failed = |error: &io::Error| {
            let error = Error::new(ErrorKind::Io, format!("cannot connect: {error}")).in_file(&of);
            error.with_help("`tracemill recv --listen ADDRESS` or `uftrace recv` on that machine takes recordings")
        };
        let mut last = io::Error::other("it has no address");
        for address in (host, port).to_socket_addrs().map_err(|error| failed(&error))? {
            match TcpStream::connect_timeout(&address, CONNECT) {
                Ok(stream) => {
                    let sender = CallSender { stream: Mutex::new(stream) };
                    sender.send(DIR_NAME, &[name.as_bytes()]).map_err(|error| failed(&error))?;
                    return Ok(sender);
                }
                Err(error) => last = error,
            }
        }
        Err(failed(&last))
    }

    fn send(&self, kind: u16, parts: &[&[u8]]) -> io::Result<()> {
        let mut message = head(kind, parts.iter().map(|part| part.len()).sum())?.to_vec();
        parts.iter().for_each(|part| message.extend_from_slice(part));
        self.stream.lock().unwrap_or_else(PoisonError::into_inner).write_all(&message)
    }

    /// Sends records of a task.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn data(&self, task: u32, records: &[u8]) -> io::Result<()> {
        self.send(DATA, &[&task.to_be_bytes(), records])
    }

    /// Sends the files of a folder beside those of tasks, and the end.
    ///
    /// # Errors
    /// When a file cannot be read, or the connection is broken.
    pub fn finish(&self, folder: &Path) -> io::Result<()> {
        let mut names: Vec<_> = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?;
        names.sort();
        for name in names {
            let text = name.to_string_lossy();
            let is_sent = !text.starts_with('.') && !text.ends_with(".dat") && text != "info";
            if !is_sent || !fs::metadata(folder.join(&name))?.is_file() {
                continue;
            }
            let len = u32::try_from(text.len()).unwrap_or(0).to_be_bytes();
            self.send(META_DATA, &[&len, text.as_bytes(), &fs::read(folder.join(&name))?])?;
        }
        let mut info = fs::read(folder.join("info"))?;
        swap_numbers(&mut info);
        self.send(INFO, &[&info])?;
        self.send(END, &[])
    }
}

/// Turns the numbers of the header of `info` around.
fn swap_numbers(info: &mut [u8]) {
    for (at, len) in INFO_NUMBERS {
        if let Some(number) = info.get_mut(at..at + len) {
            number.reverse();
        }
    }
}

/// Something that happened to a recording that is received.
#[derive(Debug)]
pub enum ReceivedRecording {
    /// It began: who sends it, and its folder.
    Begun(SocketAddr, PathBuf),
    /// It is whole: its folder, and the bytes of its records.
    Whole(PathBuf, u64),
    /// It ended early, or something of it could not be kept.
    Broken(Error),
}

/// Receives recordings.
pub struct CallReceiver {
    listener: TcpListener,
    folder: PathBuf,
}

impl CallReceiver {
    /// Listens at a port; recordings become folders in `folder`.
    ///
    /// # Errors
    /// When the port cannot be had.
    pub fn listen(address: IpAddr, port: u16, folder: &Path) -> Result<CallReceiver> {
        let of = PathBuf::from(SocketAddr::new(address, port).to_string());
        let failed = |error: &io::Error| Error::io("listen on", &of, error);
        let listener = TcpListener::bind((address, port)).map_err(|error| failed(&error))?;
        listener.set_nonblocking(true).map_err(|error| failed(&error))?;
        fs::create_dir_all(folder).map_err(|error| Error::io("make the folder", folder, &error))?;
        Ok(CallReceiver { listener, folder: folder.to_path_buf() })
    }

    /// The address that it listens on.
    ///
    /// # Errors
    /// When the system does not say it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Receives recordings until `goes_on` says no, which is asked all the time; it gets what has happened.
    pub fn run(&self, mut goes_on: impl FnMut(Vec<ReceivedRecording>) -> bool) {
        let (outbox, inbox): (Outbox<ReceivedRecording>, Inbox<ReceivedRecording>) = channel();
        let (open, is_stopped) = (Arc::new(Mutex::new(0)), Arc::new(AtomicBool::new(false)));
        loop {
            let connection = self.listener.accept();
            let mut happened: Vec<ReceivedRecording> = inbox.try_iter().collect();
            if let Ok((stream, peer)) = connection {
                let count = *open.lock().unwrap_or_else(PoisonError::into_inner);
                if count >= MAX_CONNECTIONS {
                    let message = format!("{MAX_CONNECTIONS} recordings are being received: others are refused");
                    happened.push(ReceivedRecording::Broken(Error::unsupported(message)));
                } else {
                    *open.lock().unwrap_or_else(PoisonError::into_inner) += 1;
                    let (outbox, open, folder) = (outbox.clone(), open.clone(), self.folder.clone());
                    let is_stopped = is_stopped.clone();
                    let work = move || {
                        if let Err(error) = receive(&stream, peer, &folder, &outbox, &is_stopped) {
                            let _ = outbox.send(ReceivedRecording::Broken(error));
                        }
                        *open.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
                    };
                    if let Err(error) = std::thread::Builder::new().name("recording".into()).spawn(work) {
                        happened.push(ReceivedRecording::Broken(Error::io("start a thread", &self.folder, &error)));
                    }
                }
            } else if happened.is_empty() {
                match inbox.recv_timeout(ACCEPT) {
                    Ok(one) => happened.push(one),
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
                }
            }
            if !goes_on(happened) {
                is_stopped.store(true, Ordering::Relaxed);
                return;
            }
        }
    }
}

/// A recording that comes.
struct Incoming<'a> {
    stream: &'a TcpStream,
    peer: SocketAddr,
    folder: Option<PathBuf>,
    bytes: u64,
}

/// Receives one recording.
fn receive(
    stream: &TcpStream,
    peer: SocketAddr,
    parent: &Path,
    outbox: &Outbox<ReceivedRecording>,
    is_stopped: &AtomicBool,
) -> Result<()> {
    let mut incoming = Incoming { stream, peer, folder: None, bytes: 0 };
    let set = stream.set_nonblocking(false);
    set.map_err(|error| incoming.failed(&error))?;
    while !is_stopped.load(Ordering::Relaxed) {
        let mut head = [0; HEAD];
        incoming.fill(&mut head)?;
        let magic = u16::from_be_bytes([head[0], head[1]]);
        let kind = u16::from_be_bytes([head[2], head[3]]);
        let len = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
        if magic != MAGIC {
            return Err(incoming.wrong(format!("wrong magic number {magic:#x} of a message, expected {MAGIC:#x}")));
        }
        match kind {
            DIR_NAME if incoming.folder.is_none() => {
                let name = incoming.text(len)?;
                let folder = new_folder(parent, &name).map_err(|error| incoming.failed(&error))?;
                incoming.folder = Some(folder.clone());
                let _ = outbox.send(ReceivedRecording::Begun(peer, folder));
            }
            DATA | KERNEL_DATA | PERF_DATA if len >= 4 => {
                let mut number = [0; 4];
                incoming.fill(&mut number)?;
                let number = u32::from_be_bytes(number);
                let name = match kind {
                    DATA => format!("{number}.dat"),
                    KERNEL_DATA => format!("kernel-cpu{number}.dat"),
                    _ => format!("perf-cpu{number}.dat"),
                };
                incoming.keep(&name, u64::from(len - 4))?;
                incoming.bytes += u64::from(len - 4);
            }
            META_DATA if len >= 4 => {
                let mut number = [0; 4];
                incoming.fill(&mut number)?;
                let name_len = u32::from_be_bytes(number);
                let left = (len - 4).checked_sub(name_len);
                let left = left.ok_or_else(|| incoming.wrong("a name is longer than its message".to_string()))?;
                let name = incoming.text(name_len)?;
                let is_plain = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0']);
                if !is_plain || name.ends_with(".dat") || name == "info" {
                    return Err(incoming.wrong(format!("`{name}` is no name of a file of a recording")));
                }
                incoming.keep(&name, left.into())?;
            }
            INFO if len as usize >= INFO_HEADER => {
                let mut header = [0; INFO_HEADER];
                incoming.fill(&mut header)?;
                swap_numbers(&mut header);
                let mut file = incoming.file("info")?;
                file.write_all(&header).map_err(|error| incoming.failed(&error))?;
                incoming.copy(&mut file, u64::from(len) - INFO_HEADER as u64)?;
            }
            END => {
                let bytes = incoming.bytes;
                let folder = incoming.folder.take().ok_or_else(|| incoming.wrong("it has no name".to_string()))?;
                let _ = outbox.send(ReceivedRecording::Whole(folder, bytes));
                return Ok(());
            }
            _ => return Err(incoming.wrong(format!("a message of kind {kind} with {len} bytes is not known here"))),
        }
    }
    Ok(())
}

/// Makes a folder of a name that a peer gave, by its last part; with a number when there is one.
fn new_folder(parent: &Path, name: &str) -> io::Result<PathBuf> {
    let last = name.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let plain: String = last.chars().take(100).map(|c| if is_plain(c) { c } else { '_' }).collect();
    let plain = if plain.is_empty() || plain.starts_with('.') { format!("recording{plain}") } else { plain };
    let mut path = parent.join(&plain);
    for number in 2.. {
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                path = parent.join(format!("{plain}-{number}"))
            }
            made => return made.map(|()| path),
        }
    }
    Err(io::Error::other("all names are taken"))
}

impl Incoming<'_> {
    fn of(&self) -> PathBuf {
        self.folder.clone().unwrap_or_else(|| PathBuf::from(self.peer.to_string()))
    }

    fn failed(&self, error: &io::Error) -> Error {
        let what = match error.kind() {
            io::ErrorKind::UnexpectedEof => "the connection ended before the recording did".to_string(),
            _ => format!("it cannot be received: {error}"),
        };
        let error = Error::new(ErrorKind::Io, what).in_file(&self.of());
        if self.folder.is_some() { error.with_help("what came before stays in the folder") } else { error }
    }

    fn wrong(&self, message: String) -> Error {
        let error = Error::malformed(message).in_file(&self.of());
        error.with_help("the sender is not `record --host`, or of another version; the connection is closed")
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.stream.read_exact(bytes).map_err(|error| self.failed(&error))
    }

    fn text(&mut self, len: u32) -> Result<String> {
        if len > LONGEST_NAME {
            return Err(self.wrong(format!("a name has {len} bytes, at most {LONGEST_NAME} are taken")));
        }
        let mut bytes = vec![0; len as usize];
        self.fill(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_string())
    }

    fn file(&self, name: &str) -> Result<File> {
        let folder = self.folder.as_ref().ok_or_else(|| self.wrong("it has no name".to_string()))?;
        let file = OpenOptions::new().append(true).create(true).open(folder.join(name));
        file.map_err(|error| self.failed(&error))
    }

    /// Appends the rest of a message to a file.
    fn keep(&mut self, name: &str, len: u64) -> Result<()> {
        let mut file = self.file(name)?;
        self.copy(&mut file, len)
    }

    fn copy(&mut self, file: &mut File, len: u64) -> Result<()> {
        let copied = io::copy(&mut self.stream.take(len), file).map_err(|error| self.failed(&error))?;
        match copied == len {
            true => Ok(()),
            false => Err(self.failed(&io::ErrorKind::UnexpectedEof.into())),
        }
    }
}
