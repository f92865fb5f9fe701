//! A relay daemon for tests: it answers from a script, and as badly as a test wants.
#![allow(dead_code, unreachable_pub, reason = "several test files compile this module, and each uses a part of it")]

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Metadata with one event class; [`MORE`] declares another one.
pub const METADATA: &str = r#"/* CTF 1.8 */
typealias integer { size = 32; align = 8; } := u32;
typealias integer { size = 64; align = 8; } := u64;
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u32 magic; u32 stream_id; }; };
env { hostname = "mill"; };
clock { name = stone; freq = 1000000000; };
typealias integer { size = 64; align = 8; map = clock.stone.value; } := time;
stream {
    id = 0;
    packet.context := struct {
        time timestamp_begin; time timestamp_end; u64 content_size; u64 packet_size;
        u64 events_discarded; u64 packet_seq_num;
    };
    event.header := struct { u32 id; time timestamp; };
};
event { name = "grind"; id = 0; stream_id = 0; fields := struct { u32 value; }; };
"#;
pub const MORE: &str = "event { name = \"sift\"; id = 1; stream_id = 0; fields := struct { u32 value; }; };\n";

/// A packet with these events: class, time, value. It is padded to 256 bytes.
#[derive(Clone, Default)]
pub struct Packet {
    pub begin: u64,
    pub end: u64,
    pub events: Vec<(u32, u64, u32)>,
    pub sequence: u64,
    pub discarded: u64,
    /// Its bytes, once they were asked for.
    pub encoded: OnceLock<Arc<Vec<u8>>>,
}

impl Packet {
    pub fn new(begin: u64, end: u64, sequence: u64, times: &[u64]) -> Packet {
        let events = times.iter().map(|&time| (0, time, time as u32)).collect();
        Packet { begin, end, events, sequence, ..Packet::default() }
    }

    pub fn content_bytes(&self) -> usize {
        56 + self.events.len() * 16
    }

    /// As [`Packet::bytes`], made once.
    pub fn encoded(&self) -> Arc<Vec<u8>> {
        self.encoded.get_or_init(|| Arc::new(self.bytes())).clone()
    }

    pub fn bytes(&self) -> Vec<u8> {
        let (content, total) = (self.content_bytes(), self.content_bytes().next_multiple_of(256));
        let mut bytes = [0xC1FC_1FC1u32, 0].map(u32::to_le_bytes).concat();
        let numbers = [self.begin, self.end, content as u64 * 8, total as u64 * 8, self.discarded, self.sequence];
        bytes.extend(numbers.into_iter().flat_map(u64::to_le_bytes));
        for &(class, time, value) in &self.events {
            bytes.extend(class.to_le_bytes());
            bytes.extend(time.to_le_bytes());
            bytes.extend(value.to_le_bytes());
        }
        bytes.resize(total, 0);
        bytes
    }
}

/// An answer to `next index`.
#[derive(Clone)]
pub enum ScriptStep {
    Packet(Packet),
    /// A packet with flags.
    Flagged(Packet, u32),
    Retry,
    Quiet(u64),
    /// This status.
    Status(u32),
}

#[derive(Clone)]
pub struct StreamScript {
    pub id: u64,
    pub trace: u64,
    pub channel: String,
    pub steps: VecDeque<ScriptStep>,
}

/// Changes an answer: gets the command, the request and the answer; no answer closes the connection.
pub type Spoil = Box<dyn FnMut(u32, &[u8], Vec<u8>) -> Option<Vec<u8>> + Send>;

/// The sessions of a relay daemon, and how it answers.
pub struct Script {
    pub minor: u32,
    pub timer_us: u32,
    pub sessions: Vec<(u64, &'static str, &'static str)>,
    pub path: &'static str,
    /// Pieces of metadata by trace; one is given for each request.
    pub metadata: BTreeMap<u64, VecDeque<Vec<u8>>>,
    pub streams: Vec<StreamScript>,
    /// Streams that appear when they are asked for the first time after the attachment.
    pub later: Vec<StreamScript>,
    pub spoil: Option<Spoil>,
    /// Bytes of an answer that are sent at a time; 0 for all.
    pub piece: usize,
    pub delay: Duration,
    /// Connections that are served, one after the other.
    pub connections: usize,
}

impl Script {
    pub fn new(streams: &[&[ScriptStep]]) -> Script {
        let stream = |(at, steps): (usize, &&[ScriptStep])| StreamScript {
            id: 10 + at as u64,
            trace: 1,
            channel: format!("c_{at}"),
            steps: steps.iter().cloned().collect(),
        };
        Script {
            minor: 13,
            timer_us: 40_000,
            sessions: vec![(7, "mill", "flour")],
            path: "ust/uid/1000/64-bit",
            metadata: BTreeMap::from([(1, VecDeque::from([METADATA.as_bytes().to_vec()]))]),
            streams: streams.iter().enumerate().map(stream).collect(),
            later: Vec::new(),
            spoil: None,
            piece: 0,
            delay: Duration::ZERO,
            connections: 1,
        }
    }

    pub fn spoiled(mut self, spoil: impl FnMut(u32, &[u8], Vec<u8>) -> Option<Vec<u8>> + Send + 'static) -> Script {
        self.spoil = Some(Box::new(spoil));
        self
    }

    /// Serves it; gives the port.
    pub fn serve(mut self) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        std::thread::spawn(move || {
            for _ in 0..self.connections {
                let Ok((stream, _)) = listener.accept() else { return };
                let _ = self.answer_all(stream);
            }
        });
        port
    }

    fn answer_all(&mut self, mut stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut held = BTreeMap::new();
        loop {
            let mut header = [0; 16];
            stream.read_exact(&mut header)?;
            let size = u64::from_be_bytes(header[..8].try_into().expect("8 bytes"));
            let command = u32::from_be_bytes(header[8..12].try_into().expect("4 bytes"));
            let mut body = vec![0; size as usize];
            stream.read_exact(&mut body)?;
            let mut answer = self.answer(command, &body, &mut held);
            if let Some(spoil) = &mut self.spoil {
                let Some(spoiled) = spoil(command, &body, answer) else { return Ok(()) };
                answer = spoiled;
            }
            std::thread::sleep(self.delay);
            match self.piece {
                0 => stream.write_all(&answer)?,
                piece => answer.chunks(piece).try_for_each(|part| stream.write_all(part))?,
            }
        }
    }

    fn answer(&mut self, command: u32, body: &[u8], held: &mut BTreeMap<u64, (u64, Arc<Vec<u8>>)>) -> Vec<u8> {
        let number =
            |at: usize| body.get(at..at + 8).map_or(0, |it| u64::from_be_bytes(it.try_into().expect("8 bytes")));
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
        match command {
            1 => [0u64.to_be_bytes().to_vec(), words(&[2, self.minor, 0])].concat(),
            2 => {
                let mut answer = words(&[self.sessions.len() as u32]);
                for (id, host, name) in &self.sessions {
                    answer.extend(id.to_be_bytes());
                    answer.extend(words(&[self.timer_us, 0, self.streams.len() as u32 + 1]));
                    if self.minor >= 15 {
                        answer.extend(words(&[host.len() as u32, name.len() as u32, 0]));
                        answer.extend(host.bytes().chain(name.bytes()));
                    } else {
                        answer.extend(padded(host, 64));
                        answer.extend(padded(name, 255));
                    }
                }
                answer
            }
            3 => {
                let mut answer = words(&[1, self.streams.len() as u32 + self.metadata.len() as u32]);
                for stream in self.streams.clone() {
                    answer.extend(self.entry(stream.id, stream.trace, false, &stream.channel));
                }
                for &trace in self.metadata.keys() {
                    answer.extend(self.entry(100 + trace, trace, true, "metadata"));
                }
                answer
            }
            4 => {
                let id = number(0);
                let Some(stream) = self.streams.iter_mut().find(|stream| stream.id == id) else {
                    return index(0, None, 0, 4, 0);
                };
                match stream.steps.pop_front() {
                    None => index(0, None, 0, 3, 0),
                    Some(ScriptStep::Retry) => index(0, None, 0, 2, 0),
                    Some(ScriptStep::Status(status)) => index(0, None, 0, status, 0),
                    Some(ScriptStep::Quiet(end)) => index(0, None, end, 5, 0),
                    Some(ScriptStep::Packet(packet)) => {
                        let offset = held.get(&id).map_or(0, |(offset, bytes)| offset + bytes.len() as u64);
                        held.insert(id, (offset, packet.encoded()));
                        index(offset, Some(&packet), packet.end, 1, 0)
                    }
                    Some(ScriptStep::Flagged(packet, flags)) => {
                        let offset = held.get(&id).map_or(0, |(offset, bytes)| offset + bytes.len() as u64);
                        held.insert(id, (offset, packet.encoded()));
                        index(offset, Some(&packet), packet.end, 1, flags)
                    }
                }
            }
            5 => {
                let (id, offset) = (number(0), number(8));
                let asked = u32::from_be_bytes(body[16..20].try_into().expect("4 bytes"));
                let Some((begin, bytes)) = held.get(&id) else { return words(&[3, 0, 0]) };
                let from = (offset - begin) as usize;
                match bytes.get(from..from + asked as usize) {
                    Some(piece) => [words(&[1, asked, 0]), piece.to_vec()].concat(),
                    None => words(&[3, 0, 0]),
                }
            }
            6 => {
                let pieces = self.metadata.get_mut(&(number(0) - 100));
                match pieces.and_then(VecDeque::pop_front) {
                    Some(piece) => [(piece.len() as u64).to_be_bytes().to_vec(), words(&[1]), piece].concat(),
                    None => [0u64.to_be_bytes().to_vec(), words(&[2])].concat(),
                }
            }
            7 => {
                let later = std::mem::take(&mut self.later);
                if later.is_empty() {
                    let is_over = self.streams.iter().all(|stream| stream.steps.is_empty());
                    return words(&[if is_over { 4 } else { 2 }, 0]);
                }
                let mut answer = words(&[1, later.len() as u32]);
                for stream in &later {
                    answer.extend(self.entry(stream.id, stream.trace, false, &stream.channel));
                }
                self.streams.extend(later);
                answer
            }
            8 | 9 => words(&[1]),
            _ => words(&[11]),
        }
    }

    fn entry(&self, id: u64, trace: u64, is_metadata: bool, channel: &str) -> Vec<u8> {
        let ids = [id.to_be_bytes(), trace.to_be_bytes()].concat();
        [ids, u32::from(is_metadata).to_be_bytes().to_vec(), padded(self.path, 4096), padded(channel, 255)].concat()
    }
}

fn padded(text: &str, len: usize) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(len, 0);
    bytes
}

fn index(offset: u64, packet: Option<&Packet>, end: u64, status: u32, flags: u32) -> Vec<u8> {
    let bits = packet.map_or([0; 2], |packet| [packet.encoded().len() as u64 * 8, packet.content_bytes() as u64 * 8]);
    let (begin, discarded) = packet.map_or((0, 0), |packet| (packet.begin, packet.discarded));
    let numbers = [offset, bits[0], bits[1], begin, end, discarded, 0];
    numbers
        .into_iter()
        .flat_map(u64::to_be_bytes)
        .chain([status, flags].into_iter().flat_map(u32::to_be_bytes))
        .collect()
}
