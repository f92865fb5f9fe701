//! The socket of a recorder. Its thread looks at it between two packets, and never waits for a peer.

use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use tracemill_ring as ring_file;

use super::message::{self, LONGEST};
use super::{Command, FOLDER, Reply, SOCKET, short_path};
use crate::local::system;

/// Peers at a time; others wait in the queue of the socket.
const MAX_PEERS: usize = 8;
/// Time for a request, and for taking the reply.
const PATIENCE: Duration = Duration::from_secs(5);

/// The socket, and those who are connected.
pub(crate) struct Server {
    listener: UnixListener,
    peers: Vec<Peer>,
}

struct Peer {
    stream: UnixStream,
    since: Instant,
    request: Vec<u8>,
    /// Empty until the request is there.
    reply: Vec<u8>,
    sent: usize,
}

/// How far a peer is.
#[derive(PartialEq, Eq)]
enum Progress {
    Waits,
    Goes,
    IsOver,
}

impl Server {
    /// Begins to listen in the folder of a trace, which has one for its rings.
    pub(crate) fn new(folder: &Path) -> io::Result<Server> {
        let folder = folder.join(ring_file::FOLDER).join(FOLDER);
        // Closed to others before the socket is there.
        DirBuilder::new().mode(0o700).create(&folder)?;
        let listener = UnixListener::bind(short_path(&File::open(&folder)?).join(SOCKET))?;
        listener.set_nonblocking(true)?;
        Ok(Server { listener, peers: Vec::new() })
    }

    /// The descriptor of the socket, for children to close.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.listener.as_raw_fd()
    }

    /// Does what can be done without waiting. `true` when somebody is connected.
    pub(crate) fn serve(&mut self, mut execute: impl FnMut(Vec<Command>) -> Result<Reply, String>) -> bool {
        while self.peers.len() < MAX_PEERS {
            let Ok((stream, _)) = self.listener.accept() else { break };
            let is_of_user = system::peer_user(&stream).is_ok_and(|user| user == system::user());
            if is_of_user && stream.set_nonblocking(true).is_ok() {
                let since = Instant::now();
                self.peers.push(Peer { stream, since, request: Vec::new(), reply: Vec::new(), sent: 0 });
            }
        }
        self.peers.retain_mut(|peer| {
            loop {
                match peer.go_on(&mut execute) {
                    Progress::Goes => {}
                    Progress::Waits => break peer.since.elapsed() < PATIENCE,
                    Progress::IsOver => break false,
                }
            }
        });
        !self.peers.is_empty()
    }

    /// Sends the replies that are not sent, when the recording is over.
    pub(crate) fn finish(self) {
        for mut peer in self.peers {
            let rest = peer.reply.get(peer.sent..).unwrap_or_default();
            if !rest.is_empty() && peer.stream.set_nonblocking(false).is_ok() {
                // A peer that does not take it has left.
                let _ = peer.stream.set_write_timeout(Some(PATIENCE)).and_then(|()| peer.stream.write_all(rest));
            }
        }
    }
}

impl Peer {
    fn go_on(&mut self, execute: &mut impl FnMut(Vec<Command>) -> Result<Reply, String>) -> Progress {
        if !self.reply.is_empty() {
            return match self.stream.write(&self.reply[self.sent..]) {
                Ok(0) => Progress::IsOver,
                Ok(sent) => {
                    self.sent += sent;
                    if self.sent == self.reply.len() { Progress::IsOver } else { Progress::Goes }
                }
                Err(error) => progress_of(&error),
            };
        }
        let mut piece = [0; 4096];
        match self.stream.read(&mut piece) {
            Ok(0) => return Progress::IsOver,
            Ok(read) => self.request.extend(&piece[..read]),
            Err(error) => return progress_of(&error),
        }
        let Some((len, request)) = self.request.split_first_chunk::<4>() else { return Progress::Goes };
        let len = u32::from_le_bytes(*len) as usize;
        if len > LONGEST || request.len() > len {
            return Progress::IsOver;
        }
        if request.len() < len {
            return Progress::Goes;
        }
        let answer = match message::read_request(request) {
            Some(commands) => execute(commands),
            None => Err("the request makes no sense to this version of the recorder".to_string()),
        };
        self.reply = message::framed(&message::reply(&answer));
        self.since = Instant::now();
        Progress::Goes
    }
}

fn progress_of(error: &io::Error) -> Progress {
    match error.kind() {
        io::ErrorKind::WouldBlock => Progress::Waits,
        io::ErrorKind::Interrupted => Progress::Goes,
        _ => Progress::IsOver,
    }
}
