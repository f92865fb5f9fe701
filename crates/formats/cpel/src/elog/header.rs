//! The parts before the events of a VPP event log: times, types, tracks, strings (`SPEC.md`, section 3).

use std::sync::Arc;

use crate::fast_text::{ShortNames, Strings};
use tracemill_model::error::{Error, ErrorKind, Result};

/// The magic: the length of a text, and the text.
pub(crate) const MAGIC: &[u8] = b"\0\0\0\x07elog v0";
/// Octets of an event before its arguments: type, track, time.
pub(crate) const EVENT_BYTES: usize = 12;
/// Arguments that an event may have; the logger itself has room for 20.
const MAX_ARGS: usize = 255;
/// Types, and tracks, that an event can name.
const INDEXES: usize = 1 << 16;
/// Tracks whose names are at hand.
const KEPT_TRACKS: usize = 1024;
/// Enumeration strings of all types that are kept.
const MAX_LABELS: usize = 1 << 18;
/// Seconds from 1970 to the epoch of newer files, 2017-03-30 14:45:08 UTC (`SPEC.md`, D32).
pub(crate) const EPOCH_SECONDS: u64 = 1_490_885_108;
/// Times from here on count from 1970.
pub(crate) const UNIX_FROM: u64 = 1_000_000_000_000_000_000;

/// An argument of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arg {
    /// An unsigned integer of 1, 2, 4 or 8 octets.
    Integer(u8),
    /// An index into the enumeration strings of the type.
    Enum(u8),
    /// An offset in the string table of the file.
    Text(u8),
    /// A float of 4 or 8 octets.
    Float(u8),
    /// A string in the event.
    String,
}

impl Arg {
    /// Octets that it takes in the file; `None` when each event says.
    pub(crate) fn len(self) -> Option<u8> {
        match self {
            Arg::Integer(len) | Arg::Enum(len) | Arg::Text(len) | Arg::Float(len) => Some(len),
            Arg::String => None,
        }
    }
}

/// A type of event.
#[derive(Clone, Debug)]
pub(crate) struct EventType {
    /// Its format.
    pub(crate) format: Vec<u8>,
    /// Its arguments as they are declared.
    pub(crate) format_args: Vec<u8>,
    /// The arguments, parsed; `None` when they cannot be, and so the length of its events is not known.
    pub(crate) args: Option<Vec<Arg>>,
    /// Octets of all arguments when each event has the same.
    pub(crate) args_len: Option<usize>,
    /// The texts of its enumeration that are kept.
    pub(crate) labels: Arc<[Box<[u8]>]>,
    /// How many it has.
    pub(crate) label_count: u32,
    /// Are its arguments stored as they are decoded: all of fixed size, no words in another order?
    pub(crate) is_plain: bool,
    /// Arguments of such a type that may be out of range, with where they begin.
    pub(crate) checks: Vec<(u16, Arg)>,
    /// Where it stands in the file.
    pub(crate) at: u64,
    /// Its own number in the file, from 1.
    pub(crate) number: u32,
}

/// All that stands before the events.
#[derive(Debug)]
pub(crate) struct LogHeader {
    /// Entries of the ring that was saved.
    pub(crate) ring: u32,
    /// Time of saving: ns of its epoch, CPU clock.
    pub(crate) saved: (u64, u64),
    /// Time of the logger's start: ns of its epoch, CPU clock.
    pub(crate) started: (u64, u64),
    pub(crate) types: Vec<EventType>,
    pub(crate) tracks: Vec<Vec<u8>>,
    /// The first names of tracks, those that are plain.
    pub(crate) quick_tracks: ShortNames,
    /// The string table: first octet and length.
    pub(crate) strings: (usize, usize),
    /// The strings of it that are ready to be copied.
    pub(crate) quick_strings: Strings,
    /// Events as the file says.
    pub(crate) count: u32,
    /// Where the first one begins.
    pub(crate) events: usize,
}

impl LogHeader {
    /// Reads it.
    ///
    /// # Errors
    /// When it is cut: without all of it no event can be found.
    pub(crate) fn read(file: &[u8]) -> Result<Self> {
        if !file.starts_with(MAGIC) {
            let message = "a VPP event log begins with `elog v0` after its length";
            return Err(Error::new(ErrorKind::NotThisFormat, message).at_offset(0));
        }
        let mut reader = Octets { octets: file, at: MAGIC.len() };
        let ring = reader.u32("the size of the ring")?;
        let saved = (reader.u64("the time of saving")?, reader.u64("the time of saving")?);
        let started = (reader.u64("the time of the start")?, reader.u64("the time of the start")?);
        // Types beyond the reach of indexes of 16 bits are not kept: no event can name them.
        let (mut types, mut labels) = (Vec::new(), 0);
        for _ in 0..reader.u32("the number of event types")? {
            let of = EventType::read(&mut reader, &mut labels)?;
            if types.len() < INDEXES {
                types.push(of);
            }
        }
        let mut tracks = Vec::new();
        for _ in 0..reader.u32("the number of tracks")? {
            let track = reader.cstring("a track")?;
            if tracks.len() < INDEXES {
                tracks.push(track.to_vec());
            }
        }
        let strings_len = reader.u32("the length of the string table")? as usize;
        let strings = (reader.at, strings_len);
        let quick_strings = Strings::new(reader.take(strings_len, "the string table")?);
        let count = reader.u32("the number of events")?;
        let quick_tracks = ShortNames::new(tracks.iter().take(KEPT_TRACKS).map(|name: &Vec<u8>| &name[..]));
        let events = reader.at;
        Ok(LogHeader { ring, saved, started, types, tracks, quick_tracks, strings, quick_strings, count, events })
    }

    /// Ns since 1970 when the logger started.
    pub(crate) fn start_ns(&self) -> u64 {
        unix_ns(self.started.0)
    }

    /// The octets of its string table.
    pub(crate) fn strings<'a>(&self, file: &'a [u8]) -> &'a [u8] {
        file.get(self.strings.0..self.strings.0 + self.strings.1).unwrap_or(&[])
    }
}

/// A time of the logger as ns since 1970.
pub(crate) fn unix_ns(os_nsec: u64) -> u64 {
    if os_nsec >= UNIX_FROM { os_nsec } else { os_nsec + EPOCH_SECONDS * 1_000_000_000 }
}

impl EventType {
    /// Reads a type; `kept` counts the enumeration strings of all types.
    fn read(reader: &mut Octets<'_>, kept: &mut usize) -> Result<Self> {
        let at = reader.at as u64;
        let format = reader.cstring("the format of an event type")?.to_vec();
        let format_args = reader.cstring("the arguments of an event type")?.to_vec();
        let number = reader.u32("the number of an event type")?;
        let mut labels: Vec<Box<[u8]>> = Vec::new();
        let label_count = reader.u32("the number of enumeration strings")?;
        for _ in 0..label_count {
            let label = reader.cstring("an enumeration string")?;
            if *kept < MAX_LABELS {
                *kept += 1;
                labels.push(label.into());
            }
        }
        let args = parse_args(&format_args);
        let len = |args: &Vec<Arg>| args.iter().map(|arg| arg.len().map(usize::from)).sum();
        let args_len = args.as_ref().and_then(len);
        let is_plain = args.iter().flatten().all(|arg| arg.len().is_some_and(|len| len < 8));
        let (mut checks, mut from) = (Vec::new(), 0);
        for &arg in args.iter().flatten().filter(|_| is_plain) {
            if let Arg::Enum(_) | Arg::Text(_) = arg {
                checks.push((from, arg));
            }
            from += u16::from(arg.len().unwrap_or(0));
        }
        Ok(EventType {
            format,
            format_args,
            args,
            args_len,
            labels: labels.into(),
            label_count,
            is_plain,
            checks,
            at,
            number,
        })
    }
}

/// `i4t1T4s0`: a letter and one or two digits for each argument.
fn parse_args(text: &[u8]) -> Option<Vec<Arg>> {
    let mut args = Vec::new();
    let mut rest = text;
    while let Some((&letter, behind)) = rest.split_first() {
        let digits = behind.iter().take(2).take_while(|octet| octet.is_ascii_digit()).count();
        let size = behind[..digits].iter().try_fold(0u8, |size, digit| size.checked_mul(10)?.checked_add(digit - b'0'));
        let size = size.filter(|_| digits > 0)?;
        args.push(match (letter, size) {
            (b'i', 1 | 2 | 4 | 8) => Arg::Integer(size),
            (b't', 1 | 2 | 4 | 8) => Arg::Enum(size),
            (b'T', 1 | 2 | 4 | 8) => Arg::Text(size),
            (b'f', 4 | 8) => Arg::Float(size),
            (b's', _) => Arg::String,
            _ => return None,
        });
        rest = &behind[digits..];
    }
    (args.len() <= MAX_ARGS).then_some(args)
}

/// Octets that are read from the front.
pub(crate) struct Octets<'a> {
    pub(crate) octets: &'a [u8],
    pub(crate) at: usize,
}

impl<'a> Octets<'a> {
    fn take(&mut self, len: usize, what: &str) -> Result<&'a [u8]> {
        let rest = self.octets.get(self.at..).unwrap_or(&[]);
        let Some(taken) = rest.get(..len) else {
            let message = format!("the file ends in {what}: it has {len} octets, {} are left", rest.len());
            return Err(Error::truncated(message).at_offset(self.at as u64));
        };
        self.at += len;
        Ok(taken)
    }

    fn u32(&mut self, what: &str) -> Result<u32> {
        Ok(self.take(4, what)?.iter().fold(0, |value, &octet| value << 8 | u32::from(octet)))
    }

    /// The low word stands first.
    fn u64(&mut self, what: &str) -> Result<u64> {
        let low = self.u32(what)?;
        Ok(u64::from(self.u32(what)?) << 32 | u64::from(low))
    }

    fn cstring(&mut self, what: &str) -> Result<&'a [u8]> {
        let at = self.at;
        let rest = self.octets.get(at..).unwrap_or(&[]);
        let Some((skip, len)) = length(rest) else {
            return Err(Error::truncated(format!("the file ends in the length of {what}")).at_offset(at as u64));
        };
        self.at += skip;
        let left = rest.len() - skip;
        if len > left as u64 {
            let message = format!("{what} has {len} octets, {left} are left in the file");
            return Err(Error::truncated(message).at_offset(at as u64));
        }
        self.take(len as usize, what)
    }
}

/// The length before a string: how many octets it takes itself, and the length. `None` when it is cut.
#[inline]
pub(crate) fn length(octets: &[u8]) -> Option<(usize, u64)> {
    let first = *octets.first()?;
    if first & 1 != 0 {
        return Some((1, u64::from(first >> 1)));
    }
    let first = u64::from(first);
    if first & 2 != 0 {
        return Some((2, 128 + (first >> 2) + (u64::from(*octets.get(1)?) << 6)));
    }
    if first & 4 != 0 {
        let [_, b, c, d] = *octets.first_chunk::<4>()?;
        return Some((4, 16_512 + (first >> 3) + (u64::from(u32::from_le_bytes([b, c, d, 0])) << 5)));
    }
    let wide = octets.get(1..)?.first_chunk::<8>()?;
    Some((9, u64::from_le_bytes(*wide)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_four_forms() {
        assert_eq!(length(&[0x01]), Some((1, 0)));
        assert_eq!(length(&[0xff]), Some((1, 127)));
        assert_eq!(length(&[0x02, 0]), Some((2, 128)));
        assert_eq!(length(&[0xfe, 0xff]), Some((2, 128 + 63 + 255 * 64)));
        assert_eq!(length(&[0x04, 0, 0, 0]), Some((4, 16_512)));
        assert_eq!(length(&[0xfc, 1, 0, 2]), Some((4, 16_512 + 31 + (0x02_0001 << 5))));
        assert_eq!(length(&[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), Some((9, u64::MAX)));
        for cut in [&[][..], &[2], &[4, 0, 0], &[0, 1, 2, 3, 4, 5, 6, 7]] {
            assert_eq!(length(cut), None);
        }
    }

    #[test]
    fn arguments_are_letters_with_sizes() {
        let want = vec![Arg::Integer(4), Arg::Enum(1), Arg::Text(4), Arg::Float(8), Arg::String, Arg::String];
        assert_eq!(parse_args(b"i4t1T4f8s12s0"), Some(want));
        assert_eq!(parse_args(b""), Some(Vec::new()));
        for bad in ["i3", "q4", "i", "f2", "i4t", "i16", "4i", "s999", "\u{ff}1"] {
            assert_eq!(parse_args(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(parse_args("i1".repeat(256).as_bytes()), None);
    }

    #[test]
    fn both_epochs() {
        assert_eq!(unix_ns(1_454_621_020_776_000_000), 1_454_621_020_776_000_000);
        assert_eq!(unix_ns(0), 1_490_885_108_000_000_000);
        assert_eq!(unix_ns(UNIX_FROM - 1), 2_490_885_107_999_999_999);
    }
}
