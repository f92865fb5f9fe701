//! Commands for a recorder that runs, in this process or another one of the same user.
//!
//! The thread that moves packets also looks at a Unix socket in the folder of the rings. Only the owner may enter the folder of
//! the socket, and a peer of another user is not answered. A message is a length (`u32`) and so many bytes; there is one
//! request and one reply for each connection.
//!
//! ```no_run
//! use tracemill_record::control::{Command, ask};
//!
//! let reply = ask("run.ctf".as_ref(), &[Command::Enable("app:*".into()), Command::List])?;
//! for event in reply.events {
//!     println!("{} {}", event.name, event.is_on);
//! }
//! # Ok::<(), std::io::Error>(())
//! ```

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracemill_ring as ring_file;

use crate::local::system;

pub use self::message::{Command, ListedEvent, Reply};
pub use crate::contexts::Contexts;
pub use crate::rules::{EventCondition, Level};
pub use crate::trigger::{Cause, Trigger};

mod message;
pub(crate) mod server;

/// The folder of the socket, in that of the rings.
const FOLDER: &str = "control";
/// The name of the socket there.
const SOCKET: &str = "socket";
/// Longest wait for a reply: finishing a trace may take its time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Has a recorder execute commands, one after the other, and gives its reply. The folder is that of its trace.
///
/// # Errors
/// When no recorder of the same user listens there, or one of the commands cannot be executed: those before it were.
pub fn ask(folder: &Path, commands: &[Command]) -> io::Result<Reply> {
    let mut stream = connect(&folder.join(ring_file::FOLDER).join(FOLDER))?;
    if system::peer_user(&stream)? != system::user() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the recorder belongs to another user"));
    }
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&message::framed(&message::request(commands)))?;
    let mut len = [0; 4];
    stream.read_exact(&mut len)?;
    let mut reply = Vec::new();
    stream.take(u32::from_le_bytes(len).into()).read_to_end(&mut reply)?;
    message::read_reply(&reply).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the reply makes no sense"))?
}

/// The value of the variable `TRACEMILL_RECORD_RULES` that has a recorder execute commands before the first event.
pub fn rules(commands: &[Command]) -> String {
    message::request(commands).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The commands of that variable.
pub(crate) fn rules_of(text: &str) -> Option<Vec<Command>> {
    let digits = text.as_bytes().chunks(2).map(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok());
    message::read_request(&digits.collect::<Option<Vec<u8>>>()?)
}

/// Connects to the socket of a folder, whose path may be longer than the address of a socket.
fn connect(folder: &Path) -> io::Result<UnixStream> {
    let open = fs::File::open(folder)?;
    UnixStream::connect(short_path(&open).join(SOCKET))
}

/// A path to an open folder that fits into the address of a socket.
fn short_path(folder: &fs::File) -> PathBuf {
    use std::os::fd::AsRawFd as _;

    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}

/// The folders into which a process records: it holds their metadata open.
///
/// # Errors
/// When there is no such process, or it belongs to another user.
pub fn folders_of(pid: u32) -> io::Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))?.flatten() {
        let Ok(target) = fs::read_link(entry.path()) else { continue };
        let Some(folder) = target.parent().filter(|_| target.ends_with("metadata")) else { continue };
        // In a container, its paths are others than ours.
        let inside = Path::new(&format!("/proc/{pid}/root")).join(folder.strip_prefix("/").unwrap_or(folder));
        let found = [folder.to_path_buf(), inside].into_iter().find(|folder| has_socket(folder));
        folders.extend(found);
    }
    folders.sort();
    folders.dedup();
    Ok(folders)
}

fn has_socket(folder: &Path) -> bool {
    folder.join(ring_file::FOLDER).join(FOLDER).is_dir()
}
