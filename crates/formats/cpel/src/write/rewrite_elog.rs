//! A log of VPP rewritten: what stands before its events as it was, its events as they are.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::sync::Arc;

use tracemill_codec::chunk::EventRef;
use tracemill_codec::value::Value;
use tracemill_model::clock::ClockMap;
use tracemill_model::error::Result;
use tracemill_model::packet::Gap;
use tracemill_model::schema::Scope;

use super::elog_values::{put_cstring, put_integer, stored_ns, time_of, words};
use super::output::WRITING;
use crate::elog::TIME_BYTES;
use crate::elog::events::HEADER;
use crate::elog::header::{Arg, LogHeader, MAGIC, UNIX_FROM, unix_ns};
use crate::printf::make_utf8;
use crate::strings::{MAX_TEXT, string_at};
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::{Source, TraceWriter};
use tracemill_format::{OutPath, SinkFile};

/// Texts whose places in the string table are remembered.
const MAX_KNOWN: usize = 1 << 14;

/// Writes a log.
pub(super) struct ElogRewriter {
    path: OutPath,
    /// All that stands before the events.
    head: Arc<[u8]>,
    /// Times of saving and of the start, when they are others.
    moved: Option<(u64, u64)>,
    header: LogHeader,
    out: Option<BufWriter<Box<dyn SinkFile>>>,
    count: u32,
    clock: Option<ClockMap>,
    /// Ns since 1970 from which times count.
    start: i128,
    /// Do events come as the log's reader decodes them?
    is_direct: bool,
    /// Where texts are in the string table.
    known: HashMap<Vec<u8>, Option<u32>>,
    finder: Option<Finder>,
    losses: Losses,
    scratch: Vec<u8>,
}

impl ElogRewriter {
    /// `None` when the part does not make a log.
    pub(super) fn new(path: &OutPath, source: &Source) -> Option<ElogRewriter> {
        let head = source.origin.parts.iter().find(|part| part.name == HEADER)?.bytes.clone();
        let header = LogHeader::read(&head).ok().filter(|header| header.events == head.len())?;
        let clock = source.streams.first().and_then(|stream| source.stream_clock(stream.class));
        let mut losses = Losses::default();
        let (mut start, mut times) = (i128::from(header.start_ns()), None);
        let moved = clock.as_ref().map_or(start, |clock| clock.ns(header.start_ns()));
        if moved != start {
            let is_unix = header.started.0 >= UNIX_FROM;
            let saved = i128::from(unix_ns(header.saved.0)) + moved - start;
            match (stored_ns(moved, is_unix), stored_ns(saved, header.saved.0 >= UNIX_FROM)) {
                (Some(started), Some(saved)) => {
                    times = Some((saved, started));
                    start = moved;
                }
                _ => losses.add(Lost::LogStarts, 1),
            }
        }
        Some(ElogRewriter {
            path: path.clone(),
            head,
            moved: times,
            header,
            out: None,
            count: 0,
            clock,
            start,
            is_direct: source.schema.format == source.origin.format,
            known: HashMap::new(),
            finder: None,
            losses,
            scratch: Vec::new(),
        })
    }

    fn out(&mut self) -> Result<&mut BufWriter<Box<dyn SinkFile>>> {
        let unopened = match &mut self.out {
            Some(out) => return Ok(out),
            unopened => unopened,
        };
        let mut out = BufWriter::with_capacity(256 << 10, self.path.create(WRITING)?);
        let mut head = self.head.to_vec();
        if let Some((saved, started)) = self.moved {
            // After the magic and the size of the ring; the clock of the CPU stands after each of them.
            let at = MAGIC.len() + 4;
            head[at..][..8].copy_from_slice(&words(saved));
            head[at + 16..][..8].copy_from_slice(&words(started));
        }
        out.write_all(&head).map_err(self.path.failed(WRITING))?;
        Ok(unopened.insert(out))
    }

    /// Appends the arguments of an event; false when the values are not those of its type.
    fn put_args(&mut self, args: &[Arg], label_count: u32, payload: &Value) -> bool {
        // Texts show offsets that are none.
        let shown = payload.member("text").and_then(Value::bytes).unwrap_or(&[]);
        let mut bad = memchr::memmem::find_iter(shown, BAD_STRING).filter_map(|at| bad_offset(&shown[at..]));
        let strings_len = self.header.strings.1 as u64;
        for (at, &arg) in args.iter().enumerate() {
            let Some(value) = payload.member(&format!("arg{at}")) else { return false };
            match (arg, value) {
                (Arg::Integer(len) | Arg::Enum(len), value) => {
                    let Some(value) = value.integer() else { return false };
                    if matches!(arg, Arg::Enum(_)) && value >= label_count.into() {
                        bad.next();
                    }
                    put_integer(&mut self.scratch, value as u64, len);
                }
                (Arg::Float(4), Value::Real(value)) => {
                    put_integer(&mut self.scratch, (*value as f32).to_bits().into(), 4);
                }
                (Arg::Float(_), Value::Real(value)) => put_integer(&mut self.scratch, value.to_bits(), 8),
                (Arg::Text(len), Value::Null) => {
                    let offset = bad.next().filter(|&offset| offset >= strings_len);
                    put_integer(&mut self.scratch, offset.unwrap_or(outside(len)), len);
                }
                (Arg::Text(len), value) => {
                    let Some(text) = value.bytes() else { return false };
                    let offset = self.offset_of(text);
                    self.losses.add(Lost::UnknownTexts, offset.is_none().into());
                    put_integer(&mut self.scratch, offset.map_or(outside(len), u64::from), len);
                }
                (Arg::String, value) => {
                    let Some(text) = value.bytes() else { return false };
                    put_cstring(&mut self.scratch, text);
                }
                _ => return false,
            }
        }
        true
    }

    /// Where a text is in the string table.
    fn offset_of(&mut self, text: &[u8]) -> Option<u32> {
        if let Some(known) = self.known.get(text) {
            return *known;
        }
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        let strings = self.header.strings(&self.head);
        let finder = self.finder.get_or_insert_with(|| Finder::new(strings));
        let found = finder.find(strings, text);
        self.known.insert(text.to_vec(), found);
        found
    }
}

/// How texts begin to show an offset that is none.
const BAD_STRING: &[u8] = b"<bad-string:0x";

/// The offset in such a text.
fn bad_offset(text: &[u8]) -> Option<u64> {
    let digits = text.get(BAD_STRING.len()..)?;
    let digits = &digits[..memchr::memchr(b'>', digits)?];
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// An offset after the string table: the largest of so many octets that any table is shorter than.
fn outside(len: u8) -> u64 {
    let most = u64::MAX >> (64 - 8 * u32::from(len.clamp(1, 8)));
    most.min(u32::MAX.into())
}

/// Finds texts in a string table, as they are shown.
struct Finder {
    /// Hash and offset of each string, sorted.
    starts: Vec<(u32, u32)>,
}

impl Finder {
    fn new(strings: &[u8]) -> Self {
        let (mut starts, mut at, mut text) = (Vec::new(), 0, Vec::new());
        while let Some(string) = string_at(strings, at as u64) {
            shown(string, &mut text);
            starts.push((hash(&text), at as u32));
            // Of a long string only its beginning is shown.
            at += memchr::memchr(0, &strings[at..]).unwrap_or(strings.len() - at) + 1;
        }
        starts.sort_unstable();
        Finder { starts }
    }

    /// The first offset that has a text: that of a string, else one inside a string.
    fn find(&self, strings: &[u8], text: &[u8]) -> Option<u32> {
        let wanted = hash(text);
        let mut found = Vec::new();
        let from = self.starts.partition_point(|(hash, _)| *hash < wanted);
        let same = self.starts[from..].iter().take_while(|(hash, _)| *hash == wanted);
        let mut is_it = |at: u32| {
            shown(string_at(strings, at.into()).unwrap_or(&[]), &mut found);
            found == text
        };
        if let Some((_, at)) = same.into_iter().find(|(_, at)| is_it(*at)) {
            return Some(*at);
        }
        let is_end = |at: usize| text.len() >= MAX_TEXT || strings.get(at).is_none_or(|&octet| octet == 0);
        let inside = match text {
            [] => memchr::memchr(0, strings),
            _ => memchr::memmem::find_iter(strings, text).find(|at| is_end(at + text.len())),
        };
        inside.and_then(|at| u32::try_from(at).ok())
    }
}

/// A string as it is shown.
fn shown(string: &[u8], text: &mut Vec<u8>) {
    text.clear();
    text.extend_from_slice(string);
    make_utf8(text, 0);
}

fn hash(text: &[u8]) -> u32 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text);
    hasher.finish() as u32
}

impl TraceWriter for ElogRewriter {
    fn losses(&self) -> Losses {
        self.losses.clone()
    }

    fn event(&mut self, _stream: usize, event: EventRef<'_>) -> Result<()> {
        let number = event.chunk.packet.plans.schema().event(event.class()).id;
        let of = usize::try_from(number).ok().and_then(|number| self.header.types.get(number));
        let ns = self.clock.as_ref().map_or(i128::from(event.cycles()), |clock| clock.ns(event.cycles()));
        // Times far after the ends are held there when they are read.
        let is_far = matches!(event.cycles(), 0 | u64::MAX) && ns == i128::from(event.cycles());
        let is_it = |time: &f64| is_far || (time * 1e9) as i128 == ns - self.start;
        let stored = stored_time(event).filter(|time| self.is_direct && is_it(time));
        let time = match stored {
            Some(time) => time,
            None => time_of(ns - self.start, event.cycles(), &mut self.losses),
        };
        self.scratch.clear();
        self.scratch.extend_from_slice(&(number as u16).to_be_bytes());
        let is_put = match of.and_then(|of| Some((of.args.as_ref()?, of.label_count))) {
            None => false,
            Some((args, _)) if self.is_direct => put_decoded(&mut self.scratch, args, time, event.body()).is_some(),
            Some((args, label_count)) => {
                let args = args.clone();
                let payload = event.values(Scope::Payload)?.unwrap_or(Value::Null);
                match payload.member("track").and_then(Value::integer) {
                    None => false,
                    Some(track) => {
                        self.scratch.extend_from_slice(&(track as u16).to_be_bytes());
                        self.scratch.extend_from_slice(&words(time.to_bits()));
                        self.put_args(&args, label_count, &payload)
                    }
                }
            }
        };
        if !is_put {
            self.losses.add(Lost::OtherEvents, 1);
            return Ok(());
        }
        let Some(count) = self.count.checked_add(1) else {
            self.losses.add(Lost::UncountedEvents, 1);
            return Ok(());
        };
        self.count = count;
        let scratch = std::mem::take(&mut self.scratch);
        self.out()?.write_all(&scratch).map_err(self.path.failed(WRITING))?;
        self.scratch = scratch;
        Ok(())
    }

    fn gap(&mut self, _stream: usize, gap: &Gap) -> Result<()> {
        self.losses.add_gap(gap);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Losses> {
        let (count, at) = (self.count, self.head.len() as u64 - 4);
        let path = self.path.clone();
        let failed = path.failed(WRITING);
        let out = self.out()?;
        out.seek(SeekFrom::Start(at)).and_then(|_| out.write_all(&count.to_be_bytes())).map_err(failed)?;
        out.flush().map_err(failed)?;
        Ok(self.losses)
    }
}

/// The time of an event as its log has it.
fn stored_time(event: EventRef<'_>) -> Option<f64> {
    let at = usize::try_from(event.chunk.start_bits(event.at) / 8).ok()?;
    let octets = event.chunk.packet.content().get(at..)?.first_chunk::<TIME_BYTES>()?;
    Some(f64::from_bits(u64::from_be_bytes(*octets).rotate_left(32)))
}

/// Appends track, time and arguments of an event as the log's reader decodes it: other words of long numbers, and
/// strings with a NUL. `None` when it is truncated.
fn put_decoded(out: &mut Vec<u8>, args: &[Arg], time: f64, body: &[u8]) -> Option<()> {
    let (track, mut rest) = body.split_at_checked(2)?;
    out.extend_from_slice(track);
    out.extend_from_slice(&words(time.to_bits()));
    for arg in args {
        let octets;
        match arg.len() {
            Some(8) => {
                (octets, rest) = rest.split_at_checked(8)?;
                out.extend_from_slice(&octets[4..]);
                out.extend_from_slice(&octets[..4]);
            }
            Some(len) => {
                (octets, rest) = rest.split_at_checked(len.into())?;
                out.extend_from_slice(octets);
            }
            None => {
                let end = memchr::memchr(0, rest)?;
                put_cstring(out, &rest[..end]);
                rest = &rest[end + 1..];
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_where_they_stand() {
        let strings = b"one\0two one\0\xff\0\0last";
        let finder = Finder::new(strings);
        let find = |text: &[u8]| finder.find(strings, text);
        assert_eq!(find(b"one"), Some(0));
        assert_eq!(find(b"two one"), Some(4));
        assert_eq!(find(b"wo one"), Some(5));
        assert_eq!(find(b""), Some(14));
        assert_eq!(find(b"last"), Some(15));
        assert_eq!(find("\u{fffd}".as_bytes()), Some(12));
        assert_eq!(find(b"on"), None);
        assert_eq!(Finder::new(b"").find(b"", b""), None);
    }
}
