//! Requests and replies as bytes. What comes in is somebody else's: it is checked, and nothing is done before all of it is
//! read.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracemill_ring::bytes::{ByteReader, put_bytes};
use tracemill_ring::condition::FieldCondition;

use crate::contexts::Contexts;
use crate::field::FieldClass;
use crate::rules::EventCondition;
use crate::trigger::{Cause, Trigger};

/// Longest request in bytes.
pub(super) const LONGEST: usize = 1 << 20;
/// The first bytes of a request.
const MAGIC: &[u8; 8] = b"TMCTRL1\0";

/// A command for a recorder.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Command {
    /// Gives the events that the program has met so far.
    List,
    /// Changes which events are on: globs of their names, with a dash before those to switch off, and after them `@LEVEL`
    /// for those that are at least as serious.
    Enable(String),
    /// Records only those of some events of which a condition is true.
    Filter(EventCondition),
    /// Records these contexts with the events of a list, in place of those before.
    Contexts {
        /// Which events, as in [`Enable`](Command::Enable).
        events: String,
        /// The contexts.
        contexts: Contexts,
    },
    /// Adds a trigger.
    Trigger(Trigger),
    /// Takes all triggers away.
    NoTriggers,
    /// Finishes the trace, and goes on in this folder, which must not exist. An absolute path.
    Rotate(PathBuf),
    /// Finishes the trace, and ends recording.
    Stop,
}

/// The answer of a recorder.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Reply {
    /// The process that records.
    pub pid: u32,
    /// The folder of its trace, before the commands.
    pub folder: PathBuf,
    /// Events that were discarded in it.
    pub discarded: u64,
    /// Events that were discarded in the trace that was finished, if one was.
    pub finished: Option<u64>,
    /// The events, if they were asked for.
    pub events: Vec<ListedEvent>,
    /// Remarks about the commands.
    pub notes: Vec<String>,
}

/// An event that a program has met.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ListedEvent {
    /// Its full name.
    pub name: String,
    /// The name of its level, or nothing.
    pub level: String,
    /// Names and classes of its fields.
    pub fields: Vec<(String, String)>,
    /// Is it on?
    pub is_on: bool,
    /// Its condition, or nothing.
    pub condition: String,
}

impl ListedEvent {
    pub(crate) fn new(name: String, level: &str, fields: &[&str], classes: &[FieldClass]) -> ListedEvent {
        let fields = fields.iter().zip(classes).map(|(name, class)| (name.to_string(), class_name(*class)));
        ListedEvent { name, level: level.to_string(), fields: fields.collect(), is_on: false, condition: String::new() }
    }
}

fn class_name(class: FieldClass) -> String {
    match class {
        FieldClass::Unsigned(bits) => format!("u{bits}"),
        FieldClass::Signed(bits) => format!("i{bits}"),
        FieldClass::Float(bits) => format!("f{bits}"),
        FieldClass::Bool => "bool".to_string(),
        FieldClass::Text | FieldClass::SequenceText | FieldClass::String | FieldClass::FixedText(_) => {
            "text".to_string()
        }
        FieldClass::Slice(element) => format!("[{}]", class_name(*element)),
        FieldClass::Integer(integer) => class_name(integer.number()),
        FieldClass::Array(count, element) => format!("[{}; {count}]", class_name(element.number())),
        FieldClass::Sequence(element) => format!("[{}]", class_name(element.number())),
    }
}

/// A message with its length before it.
pub(super) fn framed(message: &[u8]) -> Vec<u8> {
    let mut framed = Vec::with_capacity(message.len() + 4);
    put_bytes(&mut framed, message);
    framed
}

/// The bytes of a request.
pub(super) fn request(commands: &[Command]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    for command in commands {
        match command {
            Command::List => bytes.push(1),
            Command::Enable(globs) => {
                bytes.push(2);
                put_bytes(&mut bytes, globs.as_bytes());
            }
            Command::Filter(condition) => {
                bytes.push(3);
                put_condition(&mut bytes, condition);
            }
            Command::Contexts { events, contexts } => {
                bytes.push(6);
                put_bytes(&mut bytes, events.as_bytes());
                bytes.extend(contexts.bits().to_le_bytes());
            }
            Command::Trigger(trigger) => {
                bytes.push(7);
                put_trigger(&mut bytes, trigger);
            }
            Command::NoTriggers => bytes.push(8),
            Command::Rotate(path) => {
                bytes.push(4);
                put_bytes(&mut bytes, path.as_os_str().as_bytes());
            }
            Command::Stop => bytes.push(5),
        }
    }
    bytes
}

/// The commands of a request. `None` when it is none.
pub(super) fn read_request(bytes: &[u8]) -> Option<Vec<Command>> {
    let mut reader = ByteReader(bytes.strip_prefix(MAGIC)?);
    let mut commands = Vec::new();
    while let Some(kind) = reader.u8() {
        commands.push(match kind {
            1 => Command::List,
            2 => Command::Enable(reader.text()?.to_string()),
            3 => Command::Filter(condition(&mut reader)?),
            6 => {
                let events = reader.text()?.to_string();
                Command::Contexts { events, contexts: Contexts::from_bits(reader.u32()?)? }
            }
            7 => Command::Trigger(trigger(&mut reader)?),
            8 => Command::NoTriggers,
            4 => Command::Rotate(path(reader.bytes()?)),
            5 => Command::Stop,
            _ => return None,
        });
    }
    Some(commands)
}

fn put_condition(bytes: &mut Vec<u8>, EventCondition { events, source, condition }: &EventCondition) {
    put_bytes(bytes, events.as_bytes());
    put_bytes(bytes, source.as_bytes());
    put_bytes(bytes, &condition.encode());
}

fn condition(reader: &mut ByteReader<'_>) -> Option<EventCondition> {
    let (events, source) = (reader.text()?.to_string(), reader.text()?.to_string());
    let condition = FieldCondition::decode(reader.bytes()?).ok()?;
    Some(EventCondition { events, source, condition })
}

fn put_trigger(bytes: &mut Vec<u8>, Trigger { cause, before }: &Trigger) {
    let ns = |time: &Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).to_le_bytes();
    bytes.extend(ns(before));
    match cause {
        Cause::Event(rule) => {
            bytes.push(1);
            put_condition(bytes, rule);
        }
        Cause::Longer { begin, end, by, limit } => {
            bytes.extend([2, u8::from(by.is_some())]);
            [begin, end, by.as_ref().unwrap_or(&String::new())]
                .iter()
                .for_each(|text| put_bytes(bytes, text.as_bytes()));
            bytes.extend(ns(limit));
        }
        Cause::Signal(signal) => {
            bytes.push(3);
            bytes.extend(signal.to_le_bytes());
        }
        Cause::Panic => bytes.push(4),
    }
}

fn trigger(reader: &mut ByteReader<'_>) -> Option<Trigger> {
    let before = Duration::from_nanos(reader.u64()?);
    let cause = match reader.u8()? {
        1 => Cause::Event(condition(reader)?),
        2 => {
            let has_field = reader.u8()? == 1;
            let mut text = || Some(reader.text()?.to_string());
            let (begin, end, by) = (text()?, text()?, text()?);
            let limit = Duration::from_nanos(reader.u64()?);
            Cause::Longer { begin, end, by: has_field.then_some(by), limit }
        }
        3 => Cause::Signal(reader.u32()?.cast_signed()),
        4 => Cause::Panic,
        _ => return None,
    };
    Some(Trigger { cause, before })
}

fn path(bytes: &[u8]) -> PathBuf {
    Path::new(OsStr::from_bytes(bytes)).to_path_buf()
}

/// The bytes of a reply, or of the reason why there is none.
pub(super) fn reply(reply: &Result<Reply, String>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let reply = match reply {
        Ok(reply) => reply,
        Err(why) => {
            bytes.push(1);
            put_bytes(&mut bytes, why.as_bytes());
            return bytes;
        }
    };
    bytes.push(0);
    bytes.extend(reply.pid.to_le_bytes());
    put_bytes(&mut bytes, reply.folder.as_os_str().as_bytes());
    bytes.extend(reply.discarded.to_le_bytes());
    bytes.push(u8::from(reply.finished.is_some()));
    bytes.extend(reply.finished.unwrap_or(0).to_le_bytes());
    bytes.extend((reply.events.len() as u32).to_le_bytes());
    for event in &reply.events {
        put_bytes(&mut bytes, event.name.as_bytes());
        put_bytes(&mut bytes, event.level.as_bytes());
        bytes.push(u8::from(event.is_on));
        put_bytes(&mut bytes, event.condition.as_bytes());
        bytes.extend((event.fields.len() as u32).to_le_bytes());
        for text in event.fields.iter().flat_map(|(name, class)| [name, class]) {
            put_bytes(&mut bytes, text.as_bytes());
        }
    }
    bytes.extend((reply.notes.len() as u32).to_le_bytes());
    reply.notes.iter().for_each(|note| put_bytes(&mut bytes, note.as_bytes()));
    bytes
}

/// The reply, or the reason why there is none. `None` when the bytes are neither.
pub(super) fn read_reply(bytes: &[u8]) -> Option<io::Result<Reply>> {
    let mut reader = ByteReader(bytes);
    if reader.u8()? == 1 {
        return Some(Err(io::Error::other(reader.text()?.to_string())));
    }
    let mut reply = Reply { pid: reader.u32()?, folder: path(reader.bytes()?), ..Reply::default() };
    reply.discarded = reader.u64()?;
    let (has_finished, finished) = (reader.u8()? != 0, reader.u64()?);
    reply.finished = has_finished.then_some(finished);
    for _ in 0..reader.u32()? {
        let (name, level) = (reader.text()?.to_string(), reader.text()?.to_string());
        let (is_on, condition) = (reader.u8()? != 0, reader.text()?.to_string());
        let mut fields = Vec::new();
        for _ in 0..reader.u32()? {
            fields.push((reader.text()?.to_string(), reader.text()?.to_string()));
        }
        reply.events.push(ListedEvent { name, level, fields, is_on, condition });
    }
    for _ in 0..reader.u32()? {
        reply.notes.push(reader.text()?.to_string());
    }
    Some(Ok(reply))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands() -> Vec<Command> {
        let condition = EventCondition {
            events: "app:*".to_string(),
            source: "true".to_string(),
            condition: FieldCondition::Const(true),
        };
        let longer = Cause::Longer {
            begin: "a".to_string(),
            end: "b".to_string(),
            by: Some("id".to_string()),
            limit: Duration::from_millis(5),
        };
        let causes = [Cause::Event(condition.clone()), longer, Cause::Signal(10), Cause::Panic];
        let triggers = causes.map(|cause| Command::Trigger(Trigger { cause, before: Duration::from_secs(1) }));
        let mut commands = vec![
            Command::List,
            Command::NoTriggers,
            Command::Contexts { events: "*".to_string(), contexts: Contexts::parse("cpu,tid").unwrap_or_default() },
            Command::Enable("-*,app:*@info".to_string()),
            Command::Filter(condition),
            Command::Rotate(path(b"/tmp/a\xff")),
            Command::Stop,
        ];
        commands.extend(triggers);
        commands
    }

    #[test]
    fn messages_are_read_back() {
        assert_eq!(read_request(&request(&commands())), Some(commands()));
        let mut event = ListedEvent::new("a:b".to_string(), "info", &["x", "y"], &[FieldClass::Text, FieldClass::Bool]);
        event.is_on = true;
        let answer = Reply {
            pid: 7,
            folder: PathBuf::from("/a"),
            discarded: 8,
            finished: Some(9),
            events: vec![event],
            notes: vec!["note".to_string()],
        };
        let bytes = reply(&Ok(answer.clone()));
        assert_eq!(read_reply(&bytes).and_then(Result::ok), Some(answer));
        assert!((0..bytes.len()).all(|len| read_reply(&bytes[..len]).is_none()));
        let refused = read_reply(&reply(&Err("why".to_string()))).and_then(Result::err);
        assert_eq!(refused.map(|error| error.to_string()), Some("why".to_string()));
    }

    /// Requests that are cut or changed anywhere are refused, or are others; none does harm.
    #[test]
    fn other_requests_are_refused() {
        let bytes = request(&commands());
        let whole = (0..bytes.len()).filter(|len| read_request(&bytes[..*len]).is_some()).count();
        assert_eq!(whole, commands().len(), "those that end after a command, and the one without any");
        for at in 0..bytes.len() {
            for change in [1, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= change;
                if let Some(other) = read_request(&changed) {
                    assert_eq!(read_request(&request(&other)), Some(other));
                }
            }
        }
    }
}
