//! Events of VPP's event logs: they have no index, so they are found from the front, piece by piece.
//!
//! A packet is a stretch of [`SLICE_BYTES`] of the file and holds the events that begin in it. Where its first event
//! begins is known when the events before it were walked over; reading in order finds that on its way. So opening a file
//! reads no event, and memory does not grow with the file but for eight octets a stretch.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tracemill_codec::bits::read_uint;
use tracemill_codec::chunk::{Bytes, PacketData};
use tracemill_codec::spine::Spine;
use tracemill_codec::trace_plans::TracePlans;
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::Packet;
use tracemill_model::schema::{ByteOrder, EventClassId, StreamClassId, TracePart};

use super::header::{Arg, EVENT_BYTES, EventType, LogHeader, length};
use super::{TIME_BYTES, TRACK_BYTES};
use crate::strings::MAX_TEXT;
use tracemill_format::{OpenTrace, OpenedPacket, PacketReader, Storage, Stream, TraceFiles};

/// Name of the part with all that stands before the events.
pub(crate) const HEADER: &str = "header";
/// Octets of a packet.
const SLICE_BYTES: usize = 64 << 10;
/// Events of a packet that room is made for.
const SLICE_EVENTS: usize = SLICE_BYTES / 16;
/// Packets whose times are looked at when a file is opened.
const MAX_LOOK: usize = 16;
/// A longer event is not shown: bits of a packet are counted in 32 bits.
const MAX_EVENT_BYTES: usize = 64 << 20;

/// Opens the packets of a log.
pub(super) struct ElogReader {
    header: Arc<LogHeader>,
    file: Arc<dyn Bytes>,
    start_ns: u64,
    /// The facts that reading needs, by type.
    kinds: Vec<CompiledType>,
    /// For each packet that was reached where its first event begins.
    begins: Mutex<Vec<Begin>>,
    /// A bit for each [`Once`] that was reported.
    reported: AtomicU8,
    /// Was the end of the events that comes early reported?
    has_reported_end: AtomicBool,
}

/// A type as reading needs it.
struct CompiledType {
    /// Octets of its arguments when each event has the same, and no more than [`BLOCK`].
    len: Option<u32>,
    /// Are they decoded by copying them?
    is_plain: bool,
    /// Arguments of four octets that must be below a number, with where they begin; the others are left to the type.
    checks: Box<[(u16, u32)]>,
}

/// Octets of arguments that are copied in one go.
const BLOCK: usize = 16;
/// Octets of a short event.
const SHORT_BYTES: usize = EVENT_BYTES + BLOCK;

impl CompiledType {
    fn new(of: &EventType, strings_len: u64) -> Self {
        let len = of.args_len.filter(|&len| len <= BLOCK);
        let check = |&(from, arg): &(u16, Arg)| {
            let most = match arg {
                Arg::Enum(4) => of.label_count,
                Arg::Text(4) => u32::try_from(strings_len).unwrap_or(u32::MAX),
                _ => return None,
            };
            Some((from, most))
        };
        let checks: Option<Box<[_]>> = of.checks.iter().map(check).collect();
        let is_plain = of.is_plain && checks.is_some();
        CompiledType { len: len.map(|len| len as u32), is_plain, checks: checks.unwrap_or_default() }
    }
}

/// Warnings that are reported once for a file.
#[derive(Clone, Copy)]
enum Once {
    Track,
    Label,
    Text,
    LongEvent,
    HugeEvent,
    FarTime,
    NoNumber,
}

/// Where the first event of a packet begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Begin {
    at: usize,
    /// Events before it.
    index: u32,
    /// The events cannot be followed up to here.
    is_lost: bool,
}

/// The packets of the file.
pub(super) fn packets(header: &LogHeader, len: usize, class: StreamClassId) -> Vec<Packet> {
    if header.count == 0 {
        return Vec::new();
    }
    let octets = len - header.events;
    let packets = (0..octets.div_ceil(SLICE_BYTES)).map(|index| {
        let from = index * SLICE_BYTES;
        let bits = SLICE_BYTES.min(octets - from) as u64 * 8;
        Packet { index: index as u64, ..Packet::new(class, (header.events + from) as u64, bits) }
    });
    packets.collect()
}

/// Takes the events of a packet.
trait Visitor {
    /// An event, cut into its type, its octets, and the arguments in them.
    fn event(&mut self, at: usize, type_index: usize, event: &[u8]);

    /// An event of few octets, `len` for its arguments: what stands before them, and them with what
    /// follows.
    #[inline]
    fn short_event(
        &mut self,
        at: usize,
        type_index: usize,
        _kind: &CompiledType,
        event: &[u8; SHORT_BYTES],
        len: usize,
    ) {
        self.event(at, type_index, &event[..EVENT_BYTES + len]);
    }
}

/// Walks over events only.
struct Skip;

impl Visitor for Skip {
    #[inline]
    fn event(&mut self, _: usize, _: usize, _: &[u8]) {}
}

/// Follows the earliest and the latest time.
struct TimeBounds<'a> {
    reader: &'a ElogReader,
    range: Option<(u64, u64)>,
}

impl Visitor for TimeBounds<'_> {
    fn event(&mut self, _: usize, _: usize, event: &[u8]) {
        let Some(&[_, _, _, _, time @ ..]) = event.first_chunk::<EVENT_BYTES>() else { return };
        let cycles = self.reader.cycles(time);
        let (first, last) = self.range.unwrap_or((cycles, cycles));
        self.range = Some((first.min(cycles), last.max(cycles)));
    }
}

impl ElogReader {
    pub(super) fn new(header: Arc<LogHeader>, file: Arc<dyn Bytes>) -> Self {
        let begin = Begin { at: header.events, index: 0, is_lost: false };
        let start_ns = header.start_ns();
        let kinds = header.types.iter().map(|of| CompiledType::new(of, header.strings.1 as u64)).collect();
        let (reported, has_reported_end) = (AtomicU8::new(0), AtomicBool::new(false));
        ElogReader { header, file, start_ns, kinds, begins: Mutex::new(vec![begin]), reported, has_reported_end }
    }

    /// Where packet `index` begins.
    fn begin(&self, file: &[u8], index: usize) -> Begin {
        let mut begins = self.begins.lock().unwrap_or_else(PoisonError::into_inner);
        while begins.len() <= index {
            let Some(&last) = begins.last() else { break };
            let end = self.header.events + begins.len() * SLICE_BYTES;
            let (next, _) = self.walk(file, last, end, &mut Skip);
            begins.push(next);
        }
        begins[index]
    }

    /// Diagnostics where the packet after `index` begins.
    fn set_begin(&self, index: usize, begin: Begin) {
        let mut begins = self.begins.lock().unwrap_or_else(PoisonError::into_inner);
        if begins.len() == index {
            begins.push(begin);
        }
    }

    /// Gives the events that begin before `end`; the first one after them, and the error that ended the walk.
    #[inline]
    fn walk<V: Visitor>(&self, file: &[u8], begin: Begin, end: usize, visitor: &mut V) -> (Begin, Option<Error>) {
        let Begin { mut at, mut index, is_lost } = begin;
        if is_lost {
            return (begin, None);
        }
        let (types, count) = (&self.header.types, self.header.count);
        while at < end && index < count {
            let rest = &file[at.min(file.len())..];
            // Nearly all events: short, of a known length, and not at the end of the file.
            if let Some(event) = rest.first_chunk::<SHORT_BYTES>() {
                let number = usize::from(u16::from_be_bytes([event[0], event[1]]));
                if let Some(kind) = self.kinds.get(number)
                    && let Some(len) = kind.len
                {
                    visitor.short_event(at, number, kind, event, (len as usize).min(BLOCK));
                    at += EVENT_BYTES + len as usize;
                    index += 1;
                    continue;
                }
            }
            let lost = |error: Error| {
                let left = file.len() - at;
                let error =
                    error.at_offset(at as u64).with_help(format!("the rest of the file, {left} octets, is skipped"));
                (Begin { at, index, is_lost: true }, Some(error))
            };
            let Some(&[a, b, ..]) = rest.first_chunk::<EVENT_BYTES>() else {
                return lost(self.truncated(index, rest.len()));
            };
            let number = usize::from(u16::from_be_bytes([a, b]));
            let Some(of) = types.get(number) else {
                let message = format!("event {index} is of type {number}; the file has {} types", types.len());
                return lost(Error::malformed(message));
            };
            let len = match of.args_len {
                Some(len) => Some(EVENT_BYTES + len).filter(|&len| len <= rest.len()),
                None => match &of.args {
                    None => {
                        let message = format!(
                            "event {index} is of type {number}, whose arguments `{}` cannot be read",
                            String::from_utf8_lossy(&of.format_args)
                        );
                        return lost(Error::malformed(message));
                    }
                    Some(args) => args_len(args, &rest[EVENT_BYTES..]).map(|len| EVENT_BYTES + len),
                },
            };
            let Some(len) = len else { return lost(self.truncated(index, rest.len())) };
            visitor.event(at, number, &rest[..len]);
            at += len;
            index += 1;
        }
        if index == self.header.count {
            // The packet that holds the last event reports what follows.
            return (Begin { at, index, is_lost: at < end }, None);
        }
        let is_short = at == file.len();
        let error = is_short.then(|| self.truncated(index, 0).at_offset(at as u64));
        (Begin { at, index, is_lost: is_short }, error)
    }

    /// Ns since 1970 of a time as it is stored: seconds since the start, the low word first.
    #[inline]
    fn cycles(&self, time: [u8; 8]) -> u64 {
        let seconds = f64::from_bits(u64::from_be_bytes(time).rotate_left(32));
        let product = seconds * 1e9;
        let ns = product as i64;
        match self.start_ns.checked_add_signed(ns) {
            Some(cycles) if ns != i64::MIN && ns != i64::MAX => cycles,
            _ => self.far_cycles(product),
        }
    }

    /// A time before 1970, or one that is too large.
    #[cold]
    fn far_cycles(&self, product: f64) -> u64 {
        let ns = product as i128;
        let cycles = i128::from(self.start_ns).saturating_add(ns);
        u64::try_from(cycles).unwrap_or(if ns < 0 { 0 } else { u64::MAX })
    }

    /// Finds the times of packets when there are few, so that `info` knows when a log begins and ends.
    /// An end of the events that comes early is returned then.
    pub(super) fn find_times(&self, file: &[u8], packets: &mut [Packet]) -> Option<Error> {
        if packets.len() > MAX_LOOK {
            return None;
        }
        let mut end = None;
        for packet in packets {
            let index = packet.index as usize;
            let begin = self.begin(file, index);
            let mut times = TimeBounds { reader: self, range: None };
            let (next, fault) = self.walk(file, begin, self.header.events + (index + 1) * SLICE_BYTES, &mut times);
            self.set_begin(index + 1, next);
            packet.begin_cycles = times.range.map(|range| range.0);
            packet.end_cycles = times.range.map(|range| range.1);
            end = end.or(fault);
        }
        self.has_reported_end.store(end.is_some(), Ordering::Relaxed);
        end
    }

    /// Is it the first time that this is reported?
    fn is_first(&self, once: Once) -> bool {
        let bit = 1 << once as u8;
        self.reported.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    fn truncated(&self, index: u32, left: usize) -> Error {
        let message = match left {
            0 => format!("the file says that it has {} events and ends after {index}", self.header.count),
            _ => format!("the file ends in event {index} of {}: {left} octets are left", self.header.count),
        };
        Error::truncated(message)
    }
}

/// Is a stored time no number?
fn is_no_number(time: [u8; 8]) -> bool {
    f64::from_bits(u64::from_be_bytes(time).rotate_left(32)).is_nan()
}

/// Octets of arguments when each event says; `None` when they are truncated.
fn args_len(args: &[Arg], octets: &[u8]) -> Option<usize> {
    let mut at = 0usize;
    for arg in args {
        let len = match arg.len() {
            Some(len) => u64::from(len),
            None => {
                let (skip, len) = length(octets.get(at..)?)?;
                at += skip;
                len
            }
        };
        at = usize::try_from(len).ok().and_then(|len| at.checked_add(len)).filter(|&at| at <= octets.len())?;
    }
    Some(at)
}

impl PacketReader for ElogReader {
    fn parts(&self) -> Result<Vec<TracePart>> {
        let head = self.file.bytes().get(..self.header.events).unwrap_or(&[]);
        Ok(vec![TracePart { name: HEADER.to_string(), bytes: head.into() }])
    }

    fn files(&self, trace: &OpenTrace, _: &dyn Storage) -> Option<TraceFiles> {
        Some(TraceFiles::single(trace))
    }

    fn open_packet(&self, plans: &Arc<TracePlans>, stream: &Stream, index: usize, _clock: u64) -> Result<OpenedPacket> {
        let packet = &stream.packets.at(index);
        let file = &stream.files[packet.file as usize];
        let octets = file.bytes.bytes();
        let begin = self.begin(octets, index);
        let end = self.header.events + (index + 1) * SLICE_BYTES;
        let mut decoder = Decoder {
            reader: self,
            out: Vec::with_capacity(SLICE_BYTES),
            spine: Spine::default(),
            faults: Vec::new(),
            warnings: Vec::new(),
            strings_len: self.header.strings.1 as u64,
        };
        decoder.spine.reserve(SLICE_EVENTS);
        let (next, fault) = self.walk(octets, begin, end, &mut decoder);
        self.set_begin(index + 1, next);
        let Decoder { out, spine, mut faults, mut warnings, .. } = decoder;
        faults.extend(fault.filter(|_| !self.has_reported_end.load(Ordering::Relaxed)));
        if begin.index < self.header.count && next.index == self.header.count && next.at < octets.len() {
            let message = format!("{} octets after the last event are ignored", octets.len() - next.at);
            warnings.push(Error::inconsistent(message).at_offset(next.at as u64));
        }
        let packet = Packet { content_bits: out.len() as u64 * 8, ..packet.clone() };
        let data = PacketData::found(plans, &file.bytes, packet, (Arc::new(out), 0), spine);
        Ok(OpenedPacket { faults, warnings, ..OpenedPacket::new(data) })
    }

    fn call_events(&self) -> &'static [tracemill_format::calls::CallEvents] {
        super::CALLS
    }
}

/// Rewrites events: the time as it is stored, in the place of a header; the track; then the arguments, big endian; strings end with a NUL.
struct Decoder<'a> {
    reader: &'a ElogReader,
    out: Vec<u8>,
    spine: Spine,
    faults: Vec<Error>,
    warnings: Vec<Error>,
    strings_len: u64,
}

impl Visitor for Decoder<'_> {
    #[inline]
    fn short_event(
        &mut self,
        at: usize,
        type_index: usize,
        kind: &CompiledType,
        event: &[u8; SHORT_BYTES],
        len: usize,
    ) {
        if !kind.is_plain {
            return self.event(at, type_index, &event[..EVENT_BYTES + len]);
        }
        let &[_, _, t0, t1, a, b, c, d, e, f, g, h, ref args @ ..] = event;
        let bits = self.out.len() as u32 * 8;
        let cycles = self.check_head(at, [t0, t1], [a, b, c, d, e, f, g, h]);
        // A block of fixed size, of which the end is forgotten.
        let mut block = [0; TIME_BYTES + TRACK_BYTES + BLOCK];
        block[..TIME_BYTES].copy_from_slice(&[a, b, c, d, e, f, g, h]);
        block[TIME_BYTES..TIME_BYTES + TRACK_BYTES].copy_from_slice(&[t0, t1]);
        block[TIME_BYTES + TRACK_BYTES..].copy_from_slice(args);
        let end = self.out.len() + TIME_BYTES + TRACK_BYTES + len;
        self.out.extend_from_slice(&block);
        self.out.truncate(end);
        for &(from, most) in &kind.checks {
            let value = args.get(usize::from(from)..).and_then(|rest| rest.first_chunk::<4>());
            if value.is_some_and(|value| u32::from_be_bytes(*value) >= most) {
                self.check_all(at, type_index, &args[..len]);
                break;
            }
        }
        self.spine.push(EventClassId(type_index as u32), cycles, bits, bits + TIME_BYTES as u32 * 8);
    }

    #[inline]
    fn event(&mut self, at: usize, type_index: usize, event: &[u8]) {
        let Some(&[_, _, t0, t1, a, b, c, d, e, f, g, h]) = event.first_chunk::<EVENT_BYTES>() else { return };
        let of = &self.reader.header.types[type_index];
        if event.len() > MAX_EVENT_BYTES {
            return self.huge_event(at, event.len());
        }
        if event.len() > MAX_TEXT {
            self.long_event(at, event.len());
        }
        let bits = self.out.len() as u32 * 8;
        let cycles = self.check_head(at, [t0, t1], [a, b, c, d, e, f, g, h]);
        self.out.extend_from_slice(&[a, b, c, d, e, f, g, h, t0, t1]);
        let octets = &event[EVENT_BYTES..];
        match of.args_len {
            Some(_) if of.is_plain => {
                match *octets {
                    [a, b, c, d] => self.out.extend_from_slice(&[a, b, c, d]),
                    [a, b, c, d, e, f, g, h] => self.out.extend_from_slice(&[a, b, c, d, e, f, g, h]),
                    _ => self.out.extend_from_slice(octets),
                }
                self.check_all(at, type_index, octets);
            }
            _ => self.put_args(at + EVENT_BYTES, of, octets),
        }
        self.spine.push(EventClassId(type_index as u32), cycles, bits, bits + TIME_BYTES as u32 * 8);
    }
}

impl Decoder<'_> {
    /// Checks track and time of an event; the time.
    #[inline]
    fn check_head(&mut self, at: usize, track: [u8; 2], time: [u8; 8]) -> u64 {
        let cycles = self.reader.cycles(time);
        if cycles == 0 || cycles == u64::MAX {
            self.far_time(at);
        } else if cycles == self.reader.start_ns && is_no_number(time) {
            self.no_number(at);
        }
        let track = u16::from_be_bytes(track);
        if usize::from(track) >= self.reader.header.tracks.len() {
            self.bad_track(at, track);
        }
        cycles
    }

    fn put_args(&mut self, at: usize, of: &EventType, octets: &[u8]) {
        let mut from = 0;
        for &arg in of.args.iter().flatten() {
            let Some(len) = arg.len() else {
                let Some((skip, len)) = length(&octets[from..]) else { return };
                from += skip;
                let text = &octets[from..from + len as usize];
                from += text.len();
                // A string of C: it ends at its first NUL.
                let text = text.split(|&octet| octet == 0).next().unwrap_or(&[]);
                self.out.extend_from_slice(text);
                self.out.push(0);
                continue;
            };
            let len = usize::from(len);
            let value = &octets[from..from + len];
            match *value {
                [a, b, c, d] => self.out.extend_from_slice(&[a, b, c, d]),
                [a, b, c, d, e, f, g, h] => self.out.extend_from_slice(&[e, f, g, h, a, b, c, d]),
                _ => self.out.extend_from_slice(value),
            }
            if let Arg::Enum(_) | Arg::Text(_) = arg {
                let written = self.out[self.out.len() - len..].first_chunk::<8>().copied();
                match written {
                    Some(written) => self.check(at + from, arg, of, &written),
                    None => self.check(at + from, arg, of, value),
                }
            }
            from += len;
        }
    }

    /// Checks the arguments of a type that is decoded by copying.
    fn check_all(&mut self, at: usize, type_index: usize, args: &[u8]) {
        let of = &self.reader.header.types[type_index];
        for &(from, arg) in &of.checks {
            let from = usize::from(from);
            let value = &args[from..from + usize::from(arg.len().unwrap_or(0))];
            self.check(at + EVENT_BYTES + from, arg, of, value);
        }
    }

    /// Is an index or an offset, big endian, one that there is?
    #[inline]
    fn check(&mut self, at: usize, arg: Arg, of: &EventType, value: &[u8]) {
        let number = read_uint(value, ByteOrder::Big);
        let most = if let Arg::Enum(_) = arg { of.label_count.into() } else { self.strings_len };
        if number >= most {
            self.bad_index(at, arg, number, most);
        }
    }

    #[cold]
    fn bad_track(&mut self, at: usize, track: u16) {
        let tracks = self.reader.header.tracks.len();
        let message = format!("an event of track {track}; the file has {tracks} tracks; reported once for the file");
        self.error(Once::Track, Error::malformed(message).at_offset(at as u64 + 2), "the event has no track name");
    }

    #[cold]
    fn bad_index(&mut self, at: usize, arg: Arg, number: u64, most: u64) {
        let (once, message) = match arg {
            Arg::Enum(_) => (Once::Label, format!("the enumeration index {number}; the type has {most} strings")),
            _ => (Once::Text, format!("the string offset {number}; the string table has {most} octets")),
        };
        let error = Error::malformed(format!("{message}; reported once for the file")).at_offset(at as u64);
        self.error(once, error, "the value has no text");
    }

    /// A time at one of the ends of what is kept.
    #[cold]
    fn far_time(&mut self, at: usize) {
        let message = "the time of an event is not between 1970 and 2554: it is held there; reported once";
        self.warn(Once::FarTime, at + 4, message);
    }

    /// A time that is no number.
    #[cold]
    fn no_number(&mut self, at: usize) {
        let message = "the time of an event is not a number: it is shown at the start of the log; reported once";
        self.warn(Once::NoNumber, at + 4, message);
    }

    #[cold]
    fn long_event(&mut self, at: usize, len: usize) {
        let message = format!(
            "an event of {len} octets: its text may end after {MAX_TEXT}, its arguments are whole; reported once"
        );
        self.warn(Once::LongEvent, at, &message);
    }

    #[cold]
    fn huge_event(&mut self, at: usize, len: usize) {
        let message = format!("an event of {len} octets, more than the limit of {MAX_EVENT_BYTES}; reported once");
        self.error(Once::HugeEvent, Error::unsupported(message).at_offset(at as u64), "the event is skipped");
    }

    fn error(&mut self, once: Once, error: Error, help: &str) {
        if self.reader.is_first(once) {
            self.faults.push(error.with_help(help));
        }
    }

    fn warn(&mut self, once: Once, at: usize, message: &str) {
        if self.reader.is_first(once) {
            self.warnings.push(Error::inconsistent(message).at_offset(at as u64));
        }
    }
}
