//! LTTng's live protocol: requests as bytes, replies from bytes.
//!
//! A viewer asks, a relay daemon answers, in turn. Numbers are big endian. A reply has neither a header nor a length: its size
//! follows from the request, the agreed version and its own counts, so after a reply that does not fit the connection is
//! worthless.

use std::fmt;
use std::io::{ErrorKind as Io, Read};

/// The version of the protocol: the major one, and the minor one that we say.
pub const VERSION: (u32, u32) = (2, 15);
/// The smallest minor version with which sessions can be read.
pub const LEAST_MINOR: u32 = 4;
/// The minor version from which on entries of sessions say how long their names are.
const MINOR_OF_LENGTHS: u32 = 15;

/// Sessions that a list may have.
const MAX_SESSIONS: u32 = 100_000;
/// Streams that one reply may have.
const MAX_STREAMS: u32 = 65_536;
/// Bytes of a name.
const MAX_NAME: u32 = 4096;
/// Bytes of a reply that are made room for before they are there.
const STEP_BYTES: u64 = 1 << 20;
/// Bytes of metadata that a trace may have.
pub const MAX_METADATA: u64 = 256 << 20;
/// The largest packet.
const MAX_PACKET_BYTES: u64 = 1 << 30;

/// The requests of a viewer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum LiveCommand {
    /// Say versions.
    Connect = 1,
    /// List the sessions.
    ListSessions = 2,
    /// View a session.
    Attach = 3,
    /// The place of the next packet of a stream.
    NextIndex = 4,
    /// The bytes of a packet.
    GetPacket = 5,
    /// More metadata.
    GetMetadata = 6,
    /// The streams that were added.
    NewStreams = 7,
    /// Make a session of the viewer.
    CreateSession = 8,
    /// View a session no more.
    Detach = 9,
}

impl fmt::Display for LiveCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LiveCommand::Connect => "connect",
            LiveCommand::ListSessions => "list sessions",
            LiveCommand::Attach => "attach",
            LiveCommand::NextIndex => "next index",
            LiveCommand::GetPacket => "get packet",
            LiveCommand::GetMetadata => "get metadata",
            LiveCommand::NewStreams => "new streams",
            LiveCommand::CreateSession => "create session",
            LiveCommand::Detach => "detach",
        })
    }
}

/// A request: a header of 16 bytes and its payload, to be sent in one piece.
pub struct LiveRequest(Vec<u8>);

impl LiveRequest {
    /// A request without a payload.
    pub fn new(command: LiveCommand) -> LiveRequest {
        let mut bytes = vec![0; 16];
        bytes[8..12].copy_from_slice(&(command as u32).to_be_bytes());
        LiveRequest(bytes)
    }

    /// Adds a number of 64 bits.
    #[must_use]
    pub fn u64(self, value: u64) -> LiveRequest {
        self.with(&value.to_be_bytes())
    }

    /// Adds a number of 32 bits.
    #[must_use]
    pub fn u32(self, value: u32) -> LiveRequest {
        self.with(&value.to_be_bytes())
    }

    fn with(mut self, bytes: &[u8]) -> LiveRequest {
        self.0.extend_from_slice(bytes);
        let len = self.0.len() as u64 - 16;
        self.0[..8].copy_from_slice(&len.to_be_bytes());
        self
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A reply that could not be read.
#[derive(Debug)]
pub struct ReplyError {
    /// The request that it answers.
    pub command: LiveCommand,
    /// The byte of everything that the server sent at which it stopped.
    pub offset: u64,
    /// The reason.
    pub fault: ReplyFault,
}

/// Why a reply could not be read.
#[derive(Debug)]
pub enum ReplyFault {
    /// The server closed the connection, after so many bytes of the reply.
    Closed(u64),
    /// It said nothing for too long.
    Silent,
    /// Reading failed.
    Io(std::io::Error),
    /// A value that cannot be: found and expected.
    Unexpected(String),
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the reply to `{}` ", self.command)?;
        match &self.fault {
            ReplyFault::Closed(0) => f.write_str("does not come: the server closed the connection"),
            ReplyFault::Closed(len) => {
                write!(f, "ends after {len} bytes, in the middle: the server closed the connection")
            }
            ReplyFault::Silent => f.write_str("does not come: the server is silent"),
            ReplyFault::Io(error) => write!(f, "cannot be read: {error}"),
            ReplyFault::Unexpected(what) => f.write_str(what),
        }
    }
}

/// The result of reading a reply.
pub type ReplyResult<T> = Result<T, ReplyError>;

/// A session of a relay daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LiveSession {
    /// Its number.
    pub id: u64,
    /// How often the tracer sends what it has, in us; 0 when the session is not live.
    pub timer_us: u32,
    /// Viewers that are attached.
    pub clients: u32,
    /// Its streams.
    pub streams: u32,
    /// The machine that is traced.
    pub host: String,
    /// Its name.
    pub name: String,
    /// Are its traces CTF 2? `None` when the server is too old to say.
    pub is_ctf2: Option<bool>,
}

impl LiveSession {
    /// The format of its traces, when the server says it.
    pub fn format(&self) -> Option<&'static str> {
        self.is_ctf2.map(|is_ctf2| tracemill_ctf::FORMAT.names[usize::from(is_ctf2)])
    }
}

/// A stream of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LiveStream {
    /// Its number.
    pub id: u64,
    /// The number of its trace.
    pub trace: u64,
    /// Is it the metadata of the trace?
    pub is_metadata: bool,
    /// The path of the trace, as the server says it: a text, never a name of a file here.
    pub path: String,
    /// Name of the channel.
    pub channel: String,
}

/// The answer to [`LiveCommand::NextIndex`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LiveIndex {
    /// Where the packet begins in its file, in bytes.
    pub offset: u64,
    /// Size of the packet in bits.
    pub packet_bits: u64,
    /// Size of its content in bits.
    pub content_bits: u64,
    /// When it begins, in cycles.
    pub begin: u64,
    /// When it ends, in cycles.
    pub end: u64,
    /// Events that were discarded so far.
    pub discarded: u64,
    /// The id of its stream class.
    pub class: u64,
    /// See [`index`].
    pub status: u32,
    /// See [`NEW_METADATA`] and [`NEW_STREAMS`].
    pub flags: u32,
}

/// Flag: metadata must be fetched first.
pub const NEW_METADATA: u32 = 1;
/// Flag: new streams must be asked for first.
pub const NEW_STREAMS: u32 = 2;

/// Statuses of [`LiveCommand::NextIndex`].
pub mod index {
    /// There is a packet.
    pub const OK: u32 = 1;
    /// Ask again later.
    pub const RETRY: u32 = 2;
    /// The stream has ended.
    pub const ENDED: u32 = 3;
    /// There is no such stream, or its index cannot be read.
    pub const ERROR: u32 = 4;
    /// No event was recorded until `end`.
    pub const INACTIVE: u32 = 5;
    /// The last file was read.
    pub const END_OF_FILE: u32 = 6;
}

/// Statuses of the other commands, as far as they are the same: a packet, metadata, streams.
pub mod status {
    /// It is here.
    pub const OK: u32 = 1;
    /// Ask again later; nothing new.
    pub const RETRY: u32 = 2;
    /// It cannot be given.
    pub const ERROR: u32 = 3;
    /// The end.
    pub const ENDED: u32 = 4;
}

/// The answer to [`LiveCommand::GetPacket`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacketReply {
    /// See [`status`].
    pub status: u32,
    /// See [`NEW_METADATA`] and [`NEW_STREAMS`].
    pub flags: u32,
    /// Its bytes; `None` when there are none, or of another length than was asked for.
    pub bytes: Option<Vec<u8>>,
    /// The length that the server said.
    pub length: u32,
}

impl LiveIndex {
    /// Why there can be no such packet.
    pub fn fault(&self) -> Option<String> {
        let LiveIndex { packet_bits, content_bits, .. } = *self;
        let fault = match packet_bits {
            0 => "a packet of 0 bits".to_string(),
            bits if bits % 8 != 0 => format!("a packet of {bits} bits, expected whole bytes"),
            bits if bits / 8 > MAX_PACKET_BYTES => {
                format!("a packet of {} bytes, expected at most {MAX_PACKET_BYTES}", bits / 8)
            }
            bits if content_bits > bits => format!("{content_bits} bits of content in a packet of {bits} bits"),
            _ => return None,
        };
        Some(fault)
    }
}

/// Reads replies, and counts their bytes.
pub struct ReplyReader<R> {
    input: R,
    /// Bytes that were read since the connection began.
    offset: u64,
    /// The first byte of the reply that is read.
    begin: u64,
    command: LiveCommand,
    /// The agreed minor version.
    minor: u32,
}

impl<R: Read> ReplyReader<R> {
    /// Reads from a connection.
    pub fn new(input: R) -> ReplyReader<R> {
        ReplyReader { input, offset: 0, begin: 0, command: LiveCommand::Connect, minor: LEAST_MINOR }
    }

    /// The connection.
    pub fn input(&mut self) -> &mut R {
        &mut self.input
    }

    /// Bytes that were read.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The agreed minor version.
    pub fn minor(&self) -> u32 {
        self.minor
    }

    fn begin(&mut self, command: LiveCommand) {
        (self.command, self.begin) = (command, self.offset);
    }

    fn error(&self, fault: ReplyFault) -> ReplyError {
        ReplyError { command: self.command, offset: self.offset, fault }
    }

    fn unexpected(&self, offset: u64, what: String) -> ReplyError {
        ReplyError { command: self.command, offset, fault: ReplyFault::Unexpected(what) }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> ReplyResult<()> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.input.read(&mut bytes[filled..]) {
                Ok(0) => return Err(self.error(ReplyFault::Closed(self.offset - self.begin))),
                Ok(count) => {
                    filled += count;
                    self.offset += count as u64;
                }
                Err(error) => match error.kind() {
                    Io::Interrupted => {}
                    Io::WouldBlock | Io::TimedOut => return Err(self.error(ReplyFault::Silent)),
                    Io::ConnectionReset | Io::ConnectionAborted | Io::BrokenPipe | Io::UnexpectedEof => {
                        return Err(self.error(ReplyFault::Closed(self.offset - self.begin)));
                    }
                    _ => return Err(self.error(ReplyFault::Io(error))),
                },
            }
        }
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> ReplyResult<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn u32(&mut self) -> ReplyResult<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> ReplyResult<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Bytes of a length that the server said: room is made as they come.
    fn bytes(&mut self, len: u64) -> ReplyResult<Vec<u8>> {
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < len {
            let from = bytes.len();
            let step = (len - from as u64).min(STEP_BYTES) as usize;
            bytes.resize(from + step, 0);
            self.fill(&mut bytes[from..])?;
        }
        Ok(bytes)
    }

    fn text(&mut self, len: u32) -> ReplyResult<String> {
        let mut bytes = self.bytes(len.into())?;
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        bytes.truncate(end);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn limited(&mut self, what: &str, limit: u32) -> ReplyResult<u32> {
        let at = self.offset;
        let count = self.u32()?;
        if count > limit {
            return Err(self.unexpected(at, format!("says {count} {what}, expected at most {limit}")));
        }
        Ok(count)
    }

    /// Reads the answer to [`LiveCommand::Connect`], and remembers the agreed version.
    ///
    /// # Errors
    /// When the other side is no relay daemon, or one that is too old.
    pub fn connect(&mut self) -> ReplyResult<()> {
        self.begin(LiveCommand::Connect);
        let mut bytes = [0; 20];
        let mut filled = 0;
        while filled < bytes.len() {
            // The first bytes show who answers, also when it is less than a reply.
            let one = &mut bytes[filled..filled + 1];
            if let Err(error) = self.fill(one) {
                return Err(match (&error.fault, filled) {
                    (ReplyFault::Closed(_) | ReplyFault::Silent, 1..) => self.unexpected(
                        error.offset,
                        format!("is not that of a relay daemon: {}", shown(&bytes[..filled])),
                    ),
                    _ => error,
                });
            }
            filled += 1;
        }
        let number = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (major, minor) = (number(8), number(12));
        let (own, our_minor) = VERSION;
        if major != own {
            let what = format!(
                "is not that of a relay daemon: version {major}, expected {own}; it begins with {}",
                shown(&bytes)
            );
            return Err(self.unexpected(8, what));
        }
        if minor < LEAST_MINOR {
            let what = format!(
                "says version {major}.{minor}, expected at least {own}.{LEAST_MINOR} (we speak {own}.{our_minor})"
            );
            return Err(self.unexpected(12, what));
        }
        self.minor = minor.min(our_minor);
        Ok(())
    }

    /// Reads the answer to [`LiveCommand::ListSessions`].
    ///
    /// # Errors
    /// When it cannot be one.
    pub fn sessions(&mut self) -> ReplyResult<Vec<LiveSession>> {
        self.begin(LiveCommand::ListSessions);
        let count = self.limited("sessions", MAX_SESSIONS)?;
        let mut sessions = Vec::new();
        for _ in 0..count {
            let (id, timer_us, clients, streams) = (self.u64()?, self.u32()?, self.u32()?, self.u32()?);
            let (host_len, name_len, format) = if self.minor >= MINOR_OF_LENGTHS {
                let (host, name) =
                    (self.limited("bytes of a name", MAX_NAME)?, self.limited("bytes of a name", MAX_NAME)?);
                (host, name, Some(self.u32()?))
            } else {
                (64, 255, None)
            };
            let (host, name) = (self.text(host_len)?, self.text(name_len)?);
            let is_ctf2 = format.map(|format| format == 1);
            sessions.push(LiveSession { id, timer_us, clients, streams, host, name, is_ctf2 });
        }
        Ok(sessions)
    }

    fn streams(&mut self, count: u32) -> ReplyResult<Vec<LiveStream>> {
        let mut streams = Vec::new();
        for _ in 0..count {
            let (id, trace, is_metadata) = (self.u64()?, self.u64()?, self.u32()? != 0);
            let (path, channel) = (self.text(4096)?, self.text(255)?);
            streams.push(LiveStream { id, trace, is_metadata, path, channel });
        }
        Ok(streams)
    }

    /// Reads the answer to [`LiveCommand::Attach`]: a status and the streams.
    ///
    /// # Errors
    /// When it cannot be one.
    pub fn attached(&mut self) -> ReplyResult<(u32, Vec<LiveStream>)> {
        self.begin(LiveCommand::Attach);
        let status = self.u32()?;
        let count = self.limited("streams", MAX_STREAMS)?;
        Ok((status, self.streams(count)?))
    }

    /// Reads the answer to [`LiveCommand::NewStreams`]: a status and the streams.
    ///
    /// # Errors
    /// When it cannot be one.
    pub fn new_streams(&mut self) -> ReplyResult<(u32, Vec<LiveStream>)> {
        self.begin(LiveCommand::NewStreams);
        let status = self.u32()?;
        let count = self.limited("streams", MAX_STREAMS)?;
        let streams = if status == status::OK { self.streams(count)? } else { Vec::new() };
        Ok((status, streams))
    }

    /// Reads the answer to [`LiveCommand::NextIndex`].
    ///
    /// # Errors
    /// When the connection ends.
    pub fn index(&mut self) -> ReplyResult<LiveIndex> {
        self.begin(LiveCommand::NextIndex);
        Ok(LiveIndex {
            offset: self.u64()?,
            packet_bits: self.u64()?,
            content_bits: self.u64()?,
            begin: self.u64()?,
            end: self.u64()?,
            discarded: self.u64()?,
            class: self.u64()?,
            status: self.u32()?,
            flags: self.u32()?,
        })
    }

    /// Reads the answer to [`LiveCommand::GetPacket`] for so many bytes.
    ///
    /// # Errors
    /// When the connection ends, or the server sends far more than was asked for.
    pub fn packet(&mut self, asked: u32) -> ReplyResult<PacketReply> {
        self.begin(LiveCommand::GetPacket);
        let status = self.u32()?;
        let at = self.offset;
        let (length, flags) = (self.u32()?, self.u32()?);
        if status != status::OK {
            return Ok(PacketReply { status, flags, bytes: None, length });
        }
        if u64::from(length) > STEP_BYTES {
            return Err(self.unexpected(at, format!("says {length} bytes, expected the {asked} that were asked for")));
        }
        // Another length is read, so that the next reply is found.
        let bytes = self.bytes(length.into())?;
        let bytes = Some(bytes).filter(|_| length == asked && length > 0);
        Ok(PacketReply { status, flags, bytes, length })
    }

    /// Reads the answer to [`LiveCommand::GetMetadata`]: a status and at most `room` bytes.
    ///
    /// # Errors
    /// When the connection ends, or there is too much.
    pub fn metadata(&mut self, room: u64) -> ReplyResult<(u32, Vec<u8>)> {
        self.begin(LiveCommand::GetMetadata);
        let at = self.offset;
        let (length, status) = (self.u64()?, self.u32()?);
        if status != status::OK {
            return Ok((status, Vec::new()));
        }
        if length > room {
            let what = format!(
                "says {length} bytes, expected at most {room}: a trace has at most {MAX_METADATA} bytes of metadata"
            );
            return Err(self.unexpected(at, what));
        }
        Ok((status, self.bytes(length)?))
    }

    /// Reads the answer to [`LiveCommand::CreateSession`] or [`LiveCommand::Detach`].
    ///
    /// # Errors
    /// When the connection ends.
    pub fn status(&mut self, command: LiveCommand) -> ReplyResult<u32> {
        self.begin(command);
        self.u32()
    }
}

/// The first bytes of an answer, for people.
fn shown(bytes: &[u8]) -> String {
    let first = &bytes[..bytes.len().min(16)];
    format!("`{}`", first.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message<T: fmt::Debug>(result: ReplyResult<T>) -> String {
        let error = result.unwrap_err();
        format!("{} @{}", error, error.offset)
    }

    #[test]
    fn requests_have_their_size_in_front() {
        let request = LiveRequest::new(LiveCommand::GetPacket).u64(7).u64(4096).u32(12);
        assert_eq!(request.bytes()[..16], [0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0, 5, 0, 0, 0, 0]);
        assert_eq!(request.bytes().len(), 36);
    }

    #[test]
    fn other_servers_are_named_by_what_they_say() {
        let http = b"HTTP/1.1 400 Bad Request\r\n";
        let text = message(ReplyReader::new(&http[..]).connect());
        assert!(text.contains("`HTTP/1.1 400 Bad`"), "{text}");
        let ssh = message(ReplyReader::new(&b"SSH-2.0\r\n"[..]).connect());
        assert!(ssh.contains(r"is not that of a relay daemon: `SSH-2.0\r\n`"), "{ssh}");
        let silent = message(ReplyReader::new(&b""[..]).connect());
        assert_eq!(silent, "the reply to `connect` does not come: the server closed the connection @0");
        let old = [[0; 8].as_slice(), &[0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0]].concat();
        assert!(message(ReplyReader::new(&old[..]).connect()).contains("2.3, expected at least 2.4"));
    }

    #[test]
    fn counts_have_limits() {
        for (count, is_fine) in [(0, true), (100_001, false), (u32::MAX, false)] {
            let bytes = count.to_be_bytes();
            assert_eq!(ReplyReader::new(&bytes[..]).sessions().is_ok(), is_fine, "{count}");
        }
        let attached = [1u32.to_be_bytes(), 65_537u32.to_be_bytes()].concat();
        assert!(message(ReplyReader::new(&attached[..]).attached()).contains("65537 streams, expected at most 65536"));
        assert!(message(ReplyReader::new(&attached[..]).new_streams()).ends_with("@4"));
        let metadata = [u64::MAX.to_be_bytes().as_slice(), &1u32.to_be_bytes()].concat();
        assert!(message(ReplyReader::new(&metadata[..]).metadata(MAX_METADATA)).contains("at most 268435456"));
        let packet = [1u32, u32::MAX, 0].map(u32::to_be_bytes).concat();
        assert!(message(ReplyReader::new(&packet[..]).packet(4096)).contains("expected the 4096"));
        // A length that is said and not sent takes no memory.
        let claimed = [(64u64 << 20).to_be_bytes().as_slice(), &1u32.to_be_bytes()].concat();
        assert!(message(ReplyReader::new(&claimed[..]).metadata(MAX_METADATA)).contains("ends after 12 bytes"));
    }

    #[test]
    fn long_names_are_refused_and_short_ones_read() {
        let mut entry = [1u32.to_be_bytes().as_slice(), &9u64.to_be_bytes()].concat();
        for number in [200_000, 1, 3, 4, 5, 1] {
            entry.extend_from_slice(&u32::to_be_bytes(number));
        }
        let names = [entry.as_slice(), b"millgrind"].concat();
        let mut reader = ReplyReader { minor: 15, ..ReplyReader::new(&names[..]) };
        let sessions = reader.sessions().unwrap();
        assert_eq!((sessions[0].host.as_str(), sessions[0].name.as_str()), ("mill", "grind"));
        assert_eq!(sessions[0].is_ctf2, Some(true));
        entry[24..28].copy_from_slice(&4097u32.to_be_bytes());
        let mut reader = ReplyReader { minor: 15, ..ReplyReader::new(&entry[..]) };
        assert!(message(reader.sessions()).contains("4097 bytes of a name"));
    }

    #[test]
    fn a_packet_of_another_length_leaves_the_connection_usable() {
        let bytes = [[1u32, 3, 0].map(u32::to_be_bytes).concat(), vec![7; 3], 2u32.to_be_bytes().to_vec()].concat();
        let mut reader = ReplyReader::new(&bytes[..]);
        let reply = reader.packet(4096).unwrap();
        assert_eq!((reply.length, reply.bytes), (3, None));
        assert_eq!(reader.status(LiveCommand::Detach).unwrap(), 2);
    }

    #[test]
    fn packets_that_cannot_be_are_refused() {
        let of = |packet_bits, content_bits| LiveIndex { packet_bits, content_bits, ..LiveIndex::default() }.fault();
        assert_eq!(of(32768, 32768), None);
        assert!(of(0, 0).is_some() && of(12, 4).is_some() && of(64, 65).is_some() && of(u64::MAX - 7, 0).is_some());
    }
}
