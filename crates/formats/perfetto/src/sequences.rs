//! The state of a sequence, as its packets make it: texts by their numbers, defaults, the thread of old traces (`SPEC.md`,
//! section 3).
//!
//! A state begins where a packet says that what was said before holds no longer. Within a state what is said later replaces
//! what was said before, from its packet on.

use std::collections::HashMap;

use tracemill_codec::text::marks::{MarkMap, mix};
use tracemill_format::perfetto::{WireFields, WireValue};

use super::packets::TracePacket;

/// Kinds of texts and tables: fields of `InternedData`.
pub(crate) mod interned {
    pub(crate) const CATEGORIES: u32 = 1;
    pub(crate) const EVENT_NAMES: u32 = 2;
    pub(crate) const ANNOTATION_NAMES: u32 = 3;
    pub(crate) const SOURCE_LOCATIONS: u32 = 4;
    pub(crate) const FUNCTION_NAMES: u32 = 5;
    pub(crate) const FRAMES: u32 = 6;
    pub(crate) const CALLSTACKS: u32 = 7;
    pub(crate) const MAPPING_PATHS: u32 = 17;
    pub(crate) const MAPPINGS: u32 = 19;
    pub(crate) const LOG_BODIES: u32 = 20;
    pub(crate) const TYPE_NAMES: u32 = 27;
    pub(crate) const STRING_VALUES: u32 = 29;
    pub(crate) const CORRELATION_IDS: u32 = 43;
}

/// Defaults of the events of a sequence.
#[derive(Clone, Debug, Default)]
pub(crate) struct SequenceDefaults {
    pub(crate) clock: Option<u32>,
    pub(crate) track: Option<u64>,
    pub(crate) extra_counters: Vec<u64>,
    pub(crate) extra_double_counters: Vec<u64>,
    /// Name of the event whose samples it has.
    pub(crate) sampled: Option<String>,
}

/// An entry of a table: where it is, and the one of the same number before it.
#[derive(Clone, Copy, Debug)]
struct InternedEntry {
    at: usize,
    len: usize,
    before: u32,
}

const NONE: u32 = u32::MAX;
/// Entries of one number in a state that are looked at; no producer replaces one so often.
const MAX_REPLACED: usize = 1000;

/// A state of a sequence.
#[derive(Debug, Default)]
pub(crate) struct SequenceState {
    by_number: MarkMap<u32>,
    entries: Vec<InternedEntry>,
    defaults: Vec<(usize, SequenceDefaults)>,
    /// Process and thread, from a packet on.
    threads: Vec<(usize, (i64, i64))>,
}

/// The value that holds at an offset.
fn last<T>(list: &[(usize, T)], at: usize) -> Option<&T> {
    let known = list.partition_point(|(from, _)| *from <= at);
    Some(&list[known.checked_sub(1)?].1)
}

impl SequenceState {
    /// The message of a number in a table, as it holds for the packet at an offset.
    pub(crate) fn entry<'b>(&self, bytes: &'b [u8], packet: &TracePacket<'_>, kind: u32, iid: u64) -> Option<&'b [u8]> {
        let mut number = *self.by_number.get(&mix(kind.into(), iid))?;
        for _ in 0..MAX_REPLACED {
            let entry = self.entries.get(number as usize)?;
            // A packet can use what it says itself.
            if entry.at < packet.end {
                return bytes.get(entry.at..entry.at + entry.len);
            }
            number = entry.before;
        }
        None
    }

    /// The text of a number in a table.
    pub(crate) fn text<'b>(&self, bytes: &'b [u8], packet: &TracePacket<'_>, kind: u32, iid: u64) -> Option<&'b [u8]> {
        let entry = self.entry(bytes, packet, kind, iid)?;
        // Tables of texts have the text in their second field.
        Some(WireFields::new(entry).find(|(number, _)| *number == 2).map_or(&[], |(_, value)| value.bytes()))
    }

    pub(crate) fn defaults(&self, packet: &TracePacket<'_>) -> Option<&SequenceDefaults> {
        last(&self.defaults, packet.at)
    }

    /// Process and thread of old traces.
    pub(crate) fn thread(&self, packet: &TracePacket<'_>) -> Option<(i64, i64)> {
        last(&self.threads, packet.at).copied()
    }

    fn intern(&mut self, bytes: &[u8], at: usize, content: &[u8]) {
        let mut fields = WireFields::new(content);
        while let Some((kind, value)) = fields.next() {
            let WireValue::Bytes(entry) = value else { continue };
            let iid = WireFields::new(entry).find(|(number, _)| *number == 1).map_or(0, |(_, value)| value.number());
            let own = InternedEntry { at: at + fields.at() - entry.len(), len: entry.len(), before: NONE };
            let key = mix(kind.into(), iid);
            let before = self.by_number.get(&key).copied();
            if before.is_some_and(|before| {
                let before = self.entries[before as usize];
                bytes.get(before.at..before.at + before.len) == Some(entry)
            }) {
                continue;
            }
            self.by_number.insert(key, self.entries.len() as u32);
            self.entries.push(InternedEntry { before: before.unwrap_or(NONE), ..own });
        }
    }
}

/// The text of a field of a message in a message, by their numbers.
fn text_at(content: &[u8], path: &[u32]) -> Option<String> {
    let (first, rest) = path.split_first()?;
    let bytes = WireFields::new(content).find(|(number, _)| number == first)?.1.bytes();
    if rest.is_empty() { Some(String::from_utf8_lossy(bytes).into_owned()) } else { text_at(bytes, rest) }
}

fn read_defaults(content: &[u8]) -> SequenceDefaults {
    let mut own = SequenceDefaults::default();
    for (number, value) in WireFields::new(content) {
        match number {
            58 => own.clock = Some(value.number() as u32),
            12 => own.sampled = text_at(value.bytes(), &[1, 10]),
            11 => {
                for (number, value) in WireFields::new(value.bytes()) {
                    match number {
                        11 => own.track = Some(value.number()),
                        31 => value.each_varint(|uuid| own.extra_counters.push(uuid)),
                        45 => value.each_varint(|uuid| own.extra_double_counters.push(uuid)),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    own
}

/// The sequences of a trace.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    /// The state of each sequence at hand.
    current: HashMap<(u32, u32), u32>,
    pub(crate) states: Vec<SequenceState>,
}

/// The content with the thread of a sequence, in old traces.
pub(crate) const THREAD_DESCRIPTOR: u32 = 44;

impl Sequences {
    /// Takes in what a packet says for its sequence, in the order of the file; the number of its state.
    pub(crate) fn take_in(&mut self, bytes: &[u8], packet: &TracePacket<'_>) -> u32 {
        let key = (packet.machine, packet.sequence);
        let known = self.current.get(&key).copied().filter(|known| {
            // A state without anything in it need not be left.
            let state = &self.states[*known as usize];
            !packet.is_cleared || state.entries.is_empty() && state.defaults.is_empty()
        });
        let number = known.unwrap_or_else(|| {
            let thread = self.current.get(&key).and_then(|known| self.states[*known as usize].threads.last().copied());
            let state = SequenceState { threads: thread.into_iter().collect(), ..SequenceState::default() };
            self.states.push(state);
            self.current.insert(key, self.states.len() as u32 - 1);
            self.states.len() as u32 - 1
        });
        let state = &mut self.states[number as usize];
        if !packet.interned.is_empty() {
            let at = packet.interned.as_ptr() as usize - bytes.as_ptr() as usize;
            state.intern(bytes, at, packet.interned);
        }
        if !packet.defaults.is_empty() {
            state.defaults.push((packet.at, read_defaults(packet.defaults)));
        }
        if let Some((THREAD_DESCRIPTOR, content)) = packet.content {
            let (mut pid, mut tid) = (0, 0);
            for (number, value) in WireFields::new(content) {
                match number {
                    1 => pid = i64::from(value.number() as i32),
                    2 => tid = value.number() as i64,
                    _ => {}
                }
            }
            state.threads.push((packet.at, (pid, tid)));
        }
        number
    }
}
