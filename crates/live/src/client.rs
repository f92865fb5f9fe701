//! A connection to a relay daemon: one request, one reply.

use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use tracemill_model::error::{Error, ErrorKind, Result};

use crate::protocol::{
    LiveCommand, LiveIndex, LiveRequest, LiveSession, LiveStream, PacketReply, ReplyError, ReplyFault, ReplyReader,
    ReplyResult, VERSION,
};
use crate::url::LiveUrl;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);

/// The largest piece of a packet that is asked for.
pub const PIECE_BYTES: u32 = 1 << 20;

/// A viewer's connection to a relay daemon.
pub struct LiveClient {
    reader: ReplyReader<TcpStream>,
}

impl LiveClient {
    /// Connects, and agrees about versions. A reply may take as long as `timeout`.
    ///
    /// # Errors
    /// When nobody answers, or something else than a relay daemon does.
    pub fn connect(url: &LiveUrl, timeout: Duration) -> Result<LiveClient> {
        let mut failure = None;
        for address in url.addresses()? {
            match TcpStream::connect_timeout(&address, CONNECT) {
                Ok(stream) => {
                    let set =
                        stream.set_read_timeout(Some(timeout)).and_then(|()| stream.set_write_timeout(Some(timeout)));
                    // Requests are small and are waited for.
                    set.and_then(|()| stream.set_nodelay(true)).map_err(|error| io_error(url, &error))?;
                    let mut client = LiveClient { reader: ReplyReader::new(stream) };
                    client.say_version().map_err(|error| error_of(url, &error))?;
                    return Ok(client);
                }
                Err(error) => failure = Some(error),
            }
        }
        let failure = failure.unwrap_or_else(|| std::io::Error::other("it has no address"));
        let help = "a relay daemon (lttng-relayd) listens to viewers on port 5344 unless it is told otherwise";
        Err(io_error(url, &failure).with_help(help))
    }

    fn say_version(&mut self) -> ReplyResult<()> {
        let (major, minor) = VERSION;
        self.send(LiveCommand::Connect, &LiveRequest::new(LiveCommand::Connect).u64(0).u32(major).u32(minor).u32(1))?;
        self.reader.connect()
    }

    fn send(&mut self, command: LiveCommand, request: &LiveRequest) -> ReplyResult<()> {
        // In one write: two of them meet a delayed acknowledgement.
        let written = self.reader.input().write_all(request.bytes());
        written.map_err(|error| {
            let fault = match error.kind() {
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => ReplyFault::Silent,
                std::io::ErrorKind::BrokenPipe | std::io::ErrorKind::ConnectionReset => ReplyFault::Closed(0),
                _ => ReplyFault::Io(error),
            };
            ReplyError { command, offset: self.reader.offset(), fault }
        })
    }

    /// The minor version that was agreed.
    pub fn minor(&self) -> u32 {
        self.reader.minor()
    }

    /// The sessions of the relay daemon.
    ///
    /// # Errors
    /// As [`ReplyReader`] reports them; so do all that follow.
    pub fn sessions(&mut self) -> ReplyResult<Vec<LiveSession>> {
        self.send(LiveCommand::ListSessions, &LiveRequest::new(LiveCommand::ListSessions))?;
        self.reader.sessions()
    }

    /// Makes a session of the viewer, to which others are attached. Gives the status.
    ///
    /// # Errors
    /// As for [`LiveClient::sessions`].
    pub fn create_session(&mut self) -> ReplyResult<u32> {
        self.send(LiveCommand::CreateSession, &LiveRequest::new(LiveCommand::CreateSession))?;
        self.reader.status(LiveCommand::CreateSession)
    }

    /// Attaches to a session, from its beginning or from now on. Gives a status and the streams.
    ///
    /// # Errors
    /// As for [`LiveClient::sessions`].
    pub fn attach(&mut self, session: u64, from_beginning: bool) -> ReplyResult<(u32, Vec<LiveStream>)> {
        let seek = if from_beginning { 1 } else { 2 };
        let request = LiveRequest::new(LiveCommand::Attach).u64(session).u64(0).u32(seek);
        self.send(LiveCommand::Attach, &request)?;
        self.reader.attached()
    }

    /// The place of the next packet of a stream.
    ///
    /// # Errors
    /// As for [`LiveClient::sessions`].
    pub fn next_index(&mut self, stream: u64) -> ReplyResult<LiveIndex> {
        self.send(LiveCommand::NextIndex, &LiveRequest::new(LiveCommand::NextIndex).u64(stream))?;
        self.reader.index()
    }

    /// Bytes of a packet, at most [`PIECE_BYTES`].
    ///
    /// # Errors
    /// As for [`LiveClient::sessions`].
    pub fn packet(&mut self, stream: u64, offset: u64, len: u32) -> ReplyResult<PacketReply> {
        let request = LiveRequest::new(LiveCommand::GetPacket).u64(stream).u64(offset).u32(len);
        self.send(LiveCommand::GetPacket, &request)?;
        self.reader.packet(len)
    }

    /// More metadata, at most `room` bytes: a status and the bytes.
    ///
    /// # Errors
    /// As for [`LiveClient::sessions`].
    pub fn metadata(&mut self, stream: u64, room: u64) -> ReplyResult<(u32, Vec<u8>)> {
        self.send(LiveCommand::GetMetadata, &LiveRequest::new(LiveCommand::GetMetadata).u64(stream))?;
        self.reader.metadata(room)
    }

    /// The streams that a session got since the last time: a status and the streams.
    ///
    /// # Errors
    /// As for [`LiveClient::sessions`].
    pub fn new_streams(&mut self, session: u64) -> ReplyResult<(u32, Vec<LiveStream>)> {
        self.send(LiveCommand::NewStreams, &LiveRequest::new(LiveCommand::NewStreams).u64(session))?;
        self.reader.new_streams()
    }

    /// Leaves a session. Gives the status.
    ///
    /// # Errors
    /// As for [`LiveClient::sessions`].
    pub fn detach(&mut self, session: u64) -> ReplyResult<u32> {
        self.send(LiveCommand::Detach, &LiveRequest::new(LiveCommand::Detach).u64(session))?;
        self.reader.status(LiveCommand::Detach)
    }
}

fn io_error(url: &LiveUrl, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("cannot connect: {error}")).in_file(Path::new(&url.to_string()))
}

/// An error of the exchange with this server.
pub(crate) fn error_of(url: &LiveUrl, error: &ReplyError) -> Error {
    let kind = match &error.fault {
        ReplyFault::Unexpected(_) => ErrorKind::Malformed,
        _ => ErrorKind::Io,
    };
    Error::new(kind, error.to_string()).in_file(Path::new(&url.to_string())).at_offset(error.offset)
}
