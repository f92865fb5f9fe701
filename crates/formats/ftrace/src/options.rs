//! Options: what a file says about the machine, its clock, and its buffers.

use tracemill_codec::text::c_number;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::ByteOrder;

use super::bytes::{ByteReader, text};

/// Numbers of the options.
pub(crate) mod id {
    pub(crate) const DONE: u16 = 0;
    pub(crate) const DATE: u16 = 1;
    pub(crate) const CPUSTAT: u16 = 2;
    pub(crate) const BUFFER: u16 = 3;
    pub(crate) const TRACECLOCK: u16 = 4;
    pub(crate) const UNAME: u16 = 5;
    pub(crate) const HOOK: u16 = 6;
    pub(crate) const OFFSET: u16 = 7;
    pub(crate) const CPUCOUNT: u16 = 8;
    pub(crate) const VERSION: u16 = 9;
    pub(crate) const PROCMAPS: u16 = 10;
    pub(crate) const TRACEID: u16 = 11;
    pub(crate) const TIME_SHIFT: u16 = 12;
    pub(crate) const GUEST: u16 = 13;
    pub(crate) const TSC2NSEC: u16 = 14;
    pub(crate) const HEADER_INFO: u16 = 16;
    pub(crate) const FTRACE_EVENTS: u16 = 17;
    pub(crate) const EVENT_FORMATS: u16 = 18;
    pub(crate) const KALLSYMS: u16 = 19;
    pub(crate) const PRINTK: u16 = 20;
    pub(crate) const CMDLINES: u16 = 21;
    pub(crate) const BUFFER_TEXT: u16 = 22;
}

/// The most bytes of an option that are shown as they are.
const MAX_SHOWN: usize = 4096;
/// Options that are kept to be shown.
const MAX_KEPT: usize = 1000;

/// Options of a trace.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct TraceOptions {
    /// The clock: `mono`, `local`, ...
    pub(crate) clock: Option<String>,
    /// Added to times, in ns.
    pub(crate) offset_ns: i128,
    /// Does that make them times since the Unix epoch?
    pub(crate) is_date: bool,
    /// How cycles become ns.
    pub(crate) tsc: Option<TscToNs>,
    /// Number of CPUs of the machine.
    pub(crate) cpus: Option<u32>,
    /// Number of the session.
    pub(crate) trace_id: Option<u64>,
    /// Times were taken on a guest and could be moved to those of its host.
    pub(crate) has_time_shift: bool,
    /// Options with texts, by name: for people.
    pub(crate) texts: Vec<(&'static str, String)>,
}

/// `ns = (cycles * multiplier >> shift) - offset`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TscToNs {
    pub(crate) multiplier: u32,
    pub(crate) shift: u32,
    pub(crate) offset_ns: u64,
}

impl TscToNs {
    /// The time of a count, without the offset.
    #[inline]
    pub(crate) fn ns(self, cycles: u64) -> u64 {
        ((u128::from(cycles) * u128::from(self.multiplier)) >> self.shift) as u64
    }
}

impl TraceOptions {
    /// Takes an option that says nothing about places in the file. False when it is none that we know.
    ///
    /// # Errors
    /// When its content makes no sense.
    pub(crate) fn apply_option(&mut self, option: u16, content: &[u8], order: ByteOrder, offset: u64) -> Result<bool> {
        let mut reader = ByteReader::new(content, order, offset);
        match option {
            id::DATE => {
                // Microseconds, as C writes numbers; they may be reported once only.
                let value = self.number(content, offset)?;
                self.offset_ns = self.offset_ns.saturating_add(value.saturating_mul(1000));
                self.is_date = true;
            }
            id::OFFSET => self.offset_ns = self.offset_ns.saturating_add(self.number(content, offset)?),
            id::TRACECLOCK => self.clock = Some(clock_of(&string(content))),
            id::CPUCOUNT => self.cpus = Some(reader.u32("the number of CPUs")?),
            id::TRACEID => self.trace_id = Some(reader.u64("the number of the session")?),
            id::TIME_SHIFT => self.has_time_shift = true,
            id::TSC2NSEC => {
                let tsc = TscToNs {
                    multiplier: reader.u32("the factor of the clock")?,
                    shift: reader.u32("the shift of the clock")?,
                    offset_ns: reader.u64("the offset of the clock")?,
                };
                if tsc.shift > 64 {
                    return Err(Error::malformed(format!("a clock shifted by {} bits", tsc.shift)).at_offset(offset));
                }
                self.tsc = (tsc.multiplier != 0).then_some(tsc);
            }
            id::UNAME => self.text("uname", content),
            id::VERSION => self.text("version", content),
            id::HOOK => self.text("hook", content),
            id::CPUSTAT => self.text("cpu statistics", content),
            id::PROCMAPS => self.text("process maps", content),
            id::GUEST => self.text("guest", content),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn text(&mut self, name: &'static str, content: &[u8]) {
        if self.texts.len() < MAX_KEPT {
            let content = string(content);
            let shown = content.trim().chars().take(MAX_SHOWN).collect();
            self.texts.push((name, shown));
        }
    }

    fn number(&self, content: &[u8], offset: u64) -> Result<i128> {
        let content = string(content);
        parse_number(content.trim()).ok_or_else(|| {
            let shown: String = content.chars().take(40).collect();
            Error::malformed(format!("the offset of times `{shown}` is not a number")).at_offset(offset)
        })
    }
}

fn string(content: &[u8]) -> String {
    text(&content[..memchr::memchr(0, content).unwrap_or(content.len())])
}

/// A number as C reads it: `0x` and `0` in front say the base.
fn parse_number(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let value = i128::from(i64::try_from(c_number(digits)?).ok()?);
    Some(if negative { -value } else { value })
}

/// The clock that is chosen: the one in brackets in `local [mono] boot`.
pub(crate) fn clock_of(text: &str) -> String {
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    chosen.map_or(text, |(name, _)| name).trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let mut options = TraceOptions::default();
        assert!(options.apply_option(id::DATE, b"0x10\0", ByteOrder::Little, 0).unwrap());
        assert!(options.apply_option(id::OFFSET, b"-7\0", ByteOrder::Little, 0).unwrap());
        assert_eq!((options.offset_ns, options.is_date), (15_993, true));
        let error = options.apply_option(id::OFFSET, b"soon\0", ByteOrder::Little, 99).unwrap_err();
        assert_eq!((error.message(), error.place().offset), ("the offset of times `soon` is not a number", Some(99)));
        assert!(options.apply_option(id::TRACECLOCK, b"local global [mono] boot\n\0", ByteOrder::Little, 0).unwrap());
        assert_eq!(options.clock.as_deref(), Some("mono"));
        let tsc = [0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9];
        assert!(options.apply_option(id::TSC2NSEC, &tsc, ByteOrder::Big, 0).unwrap());
        let tsc = options.tsc.unwrap();
        assert_eq!((tsc.ns(1001), tsc.offset_ns), (1501, 9));
        assert_eq!(tsc.ns(u64::MAX), ((u128::from(u64::MAX) * 3) >> 1) as u64);
        assert!(options.apply_option(id::TSC2NSEC, &[0; 15], ByteOrder::Big, 0).is_err());
        assert!(
            options
                .apply_option(id::TSC2NSEC, &[1, 0, 0, 0, 65, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], ByteOrder::Little, 0)
                .is_err()
        );
        assert!(!options.apply_option(99, b"", ByteOrder::Big, 0).unwrap());
    }

    #[test]
    fn numbers_of_c() {
        let cases = [("12", Some(12)), ("0x1F", Some(31)), ("-010", Some(-8)), ("0", Some(0)), ("", None), ("x", None)];
        for (text, value) in cases {
            assert_eq!(parse_number(text), value, "{text}");
        }
    }
}
