//! Reads a slice of a task's file: records become events in the form of [`super::layout`].

use tracemill_codec::bits::{nearest_float, read_uint, u16_at, u64_at};
use tracemill_ftrace::classes::push_locator;
use tracemill_model::error::Error;
use tracemill_model::packet::{Gap, GapKind};
use tracemill_model::schema::{ByteOrder, EventClassId};

use super::arguments::{ArgumentForm, ArgumentSpec, NULL_TEXT};
use super::classes::{Classes, USER_DATA};
use super::layout::{CALL, MAX_ERRORS, NO_TEXT, SliceEvents};
use super::records::{Payload, RECORD, Record, RecordKind, RecordStep, TaskBytes};
use super::slices::FileSlice;
use tracemill_format::Faults;

/// Reads a slice. `clock` is the time before it; `is_start` says that the task's calls begin here.
pub(super) fn read(
    task: &mut TaskBytes<'_>,
    classes: &Classes,
    tid: i32,
    slice: FileSlice,
    clock: u64,
    is_start: bool,
) -> SliceEvents {
    let mut writer = SliceWriter {
        classes,
        tid: tid.to_le_bytes(),
        events: SliceEvents::default(),
        unread: Unread::default(),
        faults: Faults::default(),
        calls: OpenCalls::new(is_start),
    };
    let records = (slice.to - slice.from) / RECORD;
    writer.events.bytes.reserve(records * CALL);
    let (mut at, mut time) = (slice.from, clock);
    while at < slice.to {
        match task.step(at, time) {
            RecordStep::Record { record, symbol, payload, next } => {
                if record.kind() != RecordKind::Lost {
                    time = record.time;
                }
                writer.record(task, at, time, record, symbol, payload);
                at = next;
            }
            RecordStep::Bad { magic } => {
                writer.calls.forget();
                let next = task.resume(at + 8, time, usize::MAX);
                let end = next.unwrap_or(task.bytes.len());
                writer.fault(at, wrong_magic(magic, end - at, next.map(|next| next as u64)));
                at = end;
            }
            RecordStep::Torn => {
                let left = task.bytes.len() - at;
                writer.fault(at, torn_record(left));
                break;
            }
        }
    }
    let mut events = writer.finish();
    events.without_symbols = std::mem::take(&mut task.resolver.unresolved);
    events
}

/// A record that is none, and how much is passed over up to the next one.
pub(super) fn wrong_magic(magic: u64, skipped: usize, next: Option<u64>) -> Error {
    let error = Error::malformed(format!("a record with the magic {magic}, expected 5"));
    error.with_help(match next {
        Some(next) => format!("{skipped} bytes are skipped; reading goes on at offset {next}"),
        None => format!("{skipped} bytes are skipped; no record follows"),
    })
}

/// A file that ends too early.
pub(super) fn torn_record(left: usize) -> Error {
    let error = Error::malformed(format!("the file ends inside a record: {left} of its {RECORD} bytes"));
    error.with_help("the recorder was stopped, or the file was cut")
}

/// An exit of a call without an entry.
pub(super) fn unfounded(depth: u16) -> Error {
    let error = Error::malformed(format!("an exit at depth {depth} without an entry; reported once"));
    error.with_help("the beginning of the calls is missing, or a depth is damaged")
}

struct SliceWriter<'a> {
    classes: &'a Classes,
    tid: [u8; 4],
    events: SliceEvents,
    unread: Unread,
    faults: Faults<MAX_ERRORS>,
    calls: OpenCalls,
}

/// Records whose payload cannot be read.
#[derive(Default)]
struct Unread {
    count: u64,
    first: usize,
    what: String,
}

impl SliceWriter<'_> {
    fn fault(&mut self, at: usize, error: Error) {
        self.faults.report(|| error.at_offset(at as u64));
    }

    #[inline]
    fn record(
        &mut self,
        task: &mut TaskBytes<'_>,
        at: usize,
        time: u64,
        record: Record,
        symbol: u32,
        payload: Payload,
    ) {
        let start = self.events.bytes.len();
        match record.kind() {
            RecordKind::Entry | RecordKind::Exit => {
                let address = record.address();
                let mut call = [0; CALL];
                call[..4].copy_from_slice(&self.tid);
                call[4..6].copy_from_slice(&record.depth().to_le_bytes());
                call[6..14].copy_from_slice(&address.to_le_bytes());
                call[14..].copy_from_slice(&symbol.to_le_bytes());
                self.events.bytes.extend_from_slice(&call);
                let is_exit = record.kind() == RecordKind::Exit;
                let class = match payload {
                    Payload::None if is_exit => self.classes.exit,
                    Payload::None => self.classes.entry,
                    _ => self.values(task, at, symbol, is_exit, payload, start),
                };
                if self.calls.is_unfounded(record.depth(), is_exit) {
                    self.report_unfounded(at, record.depth());
                }
                self.events.push(class, record.time, start);
            }
            RecordKind::Lost => {
                self.events.bytes.extend_from_slice(&self.tid);
                self.events.bytes.extend_from_slice(&record.address().to_le_bytes());
                self.calls.forget();
                self.events.gaps.push(Gap {
                    kind: GapKind::DiscardedEvents,
                    count: Some(record.address()),
                    begin_cycles: Some(time),
                    end_cycles: task.next_time(at + RECORD),
                });
                self.events.push(self.classes.lost, time, start);
            }
            RecordKind::Event => {
                self.events.bytes.extend_from_slice(&self.tid);
                self.events.bytes.extend_from_slice(&(record.address() as u32).to_le_bytes());
                let class = self.event(task, at, record, payload, start);
                self.events.push(class, record.time, start);
            }
        }
    }

    /// The class of a call with values, which are written.
    fn values(
        &mut self,
        task: &TaskBytes<'_>,
        at: usize,
        symbol: u32,
        is_exit: bool,
        payload: Payload,
        start: usize,
    ) -> EventClassId {
        let (of_list, unread) = match is_exit {
            false => (&self.classes.entries, self.classes.entry_unread),
            true => (&self.classes.exits, self.classes.exit_unread),
        };
        match payload {
            Payload::Values { list, from, len } => {
                let specs = &task.signatures.lists[list as usize];
                if put_values(specs, &task.bytes[from..from + len], task.order, start, &mut self.events.bytes) {
                    return of_list[list as usize];
                }
            }
            Payload::Torn => {
                self.torn_payload(task, at, "the values of a call");
                return unread;
            }
            _ => {}
        }
        self.events.bytes.truncate(start + CALL);
        let what = || {
            let name = task.resolver.symbol_name(symbol);
            name.map_or_else(|| "an address without symbol".to_string(), |name| format!("`{name}`"))
        };
        self.report_unread(at, what);
        unread
    }

    fn event(
        &mut self,
        task: &mut TaskBytes<'_>,
        at: usize,
        record: Record,
        payload: Payload,
        start: usize,
    ) -> EventClassId {
        let id = record.address() as u32;
        let data = match payload {
            Payload::Data { from, len } => &task.bytes[from..from + len],
            Payload::None => return self.classes.event,
            Payload::Torn => {
                self.torn_payload(task, at, "the data of an event");
                return self.classes.event;
            }
            _ => {
                self.report_unread(at, || format!("event {id}"));
                return self.classes.event;
            }
        };
        let number = |bytes: &[u8]| read_uint(bytes, task.order);
        let out = &mut self.events.bytes;
        let known = USER_DATA.iter().position(|(ids, names)| ids.contains(&id) && data.len() == names.len() * 8);
        if let Some(known) = known {
            for word in data.chunks_exact(8) {
                out.extend_from_slice(&number(word).to_le_bytes());
            }
            return self.classes.events[known];
        }
        let word = if task.is_64_bit { 8 } else { 4 };
        match id {
            100_011 if data.len() == 4 => {
                out.extend_from_slice(&(number(data) as u32).to_le_bytes());
                self.classes.event_cpu
            }
            100_012 if (word + 1..=word + 8).contains(&data.len()) => {
                let address = number(&data[..word]);
                let value = number(&data[word..]);
                let symbol = task.resolver.id(record.time, address);
                out.extend_from_slice(&address.to_le_bytes());
                out.extend_from_slice(&symbol.to_le_bytes());
                out.extend_from_slice(&value.to_le_bytes());
                self.classes.event_variable
            }
            100_013 if matches!(data.len(), 4 | 8) => {
                out.extend_from_slice(&number(data).to_le_bytes());
                self.classes.event_call_site
            }
            _ => {
                // Data of unknown events is shown as hexadecimal digits.
                self.events.put_hex(start, data);
                self.classes.event_unknown
            }
        }
    }

    #[cold]
    fn torn_payload(&mut self, task: &TaskBytes<'_>, at: usize, what: &str) {
        let left = task.bytes.len() - at - RECORD;
        let error = Error::malformed(format!("the file ends inside {what}"));
        self.fault(at, error.with_help(format!("they are left out; {left} bytes of them are there")));
    }

    #[cold]
    fn report_unread(&mut self, at: usize, what: impl FnOnce() -> String) {
        if self.unread.count == 0 {
            (self.unread.first, self.unread.what) = (at, what());
        }
        self.unread.count += 1;
    }

    #[cold]
    fn report_unfounded(&mut self, at: usize, depth: u16) {
        self.events.warnings.push(unfounded(depth).at_offset(at as u64));
    }

    fn finish(mut self) -> SliceEvents {
        self.events.faults = self.faults.finish("places of this slice have faults like these");
        let Unread { count, first, what } = &self.unread;
        if *count > 0 {
            let others = match count {
                1 => String::new(),
                2 => ", and of one other call or event of this slice".to_string(),
                count => format!(", and of {} other calls and events of this slice", count - 1),
            };
            let message = format!("the values of {what}{others} cannot be read: no specification fits them");
            let error = Error::malformed(message).at_offset(*first as u64);
            let help = "they are left out; specifications come from `info` and from .dbg files";
            self.events.faults.push(error.with_help(help));
        }
        self.events
    }
}

/// Writes the values of a payload: numbers in little-endian order, texts after all of them. False when it is shorter
/// than its list.
fn put_values(specs: &[ArgumentSpec], payload: &[u8], order: ByteOrder, start: usize, out: &mut Vec<u8>) -> bool {
    let fixed: usize = specs.iter().map(stored_len).sum();
    let texts_from = out.len() - start + fixed;
    let (mut at, mut texts) = (0, Vec::new());
    for spec in specs {
        let Some((value, next)) = spec.read_value(payload, at, order) else { return false };
        at = next;
        match spec.form {
            ArgumentForm::Text | ArgumentForm::StdString => {
                let len = if value == NULL_TEXT { NO_TEXT as usize } else { value.len() };
                push_locator(out, texts_from + texts.len(), len);
                texts.extend_from_slice(value);
            }
            ArgumentForm::Structure(_) => out.extend_from_slice(value),
            ArgumentForm::Float if spec.size == 10 => out.extend_from_slice(&extended(value, order).to_le_bytes()),
            ArgumentForm::Enumeration(..) => out.extend_from_slice(&(read_uint(value, order) as u32).to_le_bytes()),
            _ if order == ByteOrder::Big => out.extend(value.iter().rev()),
            _ => out.extend_from_slice(value),
        }
    }
    out.extend_from_slice(&texts);
    true
}

/// Bytes of a value as it is written.
fn stored_len(spec: &ArgumentSpec) -> usize {
    match spec.form {
        ArgumentForm::Text | ArgumentForm::StdString => 8,
        ArgumentForm::Float if spec.size == 10 => 8,
        ArgumentForm::Enumeration(..) => 4,
        _ => spec.size,
    }
}

/// The nearest 64-bit float to an extended one of 80 bits.
pub(super) fn extended(bytes: &[u8], order: ByteOrder) -> f64 {
    let mut own = [0u8; 10];
    let len = bytes.len().min(own.len());
    own[..len].copy_from_slice(&bytes[..len]);
    if order == ByteOrder::Big {
        own.reverse();
    }
    let mantissa = u64_at(&own, 0, ByteOrder::Little).unwrap_or(0);
    let high = u16_at(&own, 8, ByteOrder::Little).unwrap_or(0);
    let sign = if high & 0x8000 != 0 { -1.0 } else { 1.0 };
    let exponent = high & 0x7fff;
    if exponent == 0x7fff {
        return if mantissa << 1 == 0 { sign * f64::INFINITY } else { f64::NAN };
    }
    sign * if mantissa == 0 { 0.0 } else { nearest_float(mantissa, i64::from(exponent.max(1)) - 16446) }
}

/// Which depths have an open call, to find exits without an entry.
pub(super) struct OpenCalls {
    depths: [u64; 16],
    /// The last word that may have a call.
    last: usize,
    is_told: bool,
}

impl OpenCalls {
    /// Without the beginning of the calls every depth may be open.
    pub(super) fn new(is_start: bool) -> OpenCalls {
        match is_start {
            true => OpenCalls { depths: [0; 16], last: 0, is_told: false },
            false => OpenCalls { depths: [u64::MAX; 16], last: 15, is_told: false },
        }
    }

    pub(super) fn forget(&mut self) {
        (self.depths, self.last) = ([u64::MAX; 16], 15);
    }

    /// Follows a call; true for the first exit without an entry.
    #[inline]
    pub(super) fn is_unfounded(&mut self, depth: u16, is_exit: bool) -> bool {
        let (word, bit) = (usize::from(depth >> 6) & 15, 1u64 << (depth & 63));
        if !is_exit {
            self.depths[word] |= bit;
            self.last = self.last.max(word);
            return false;
        }
        let is_open = self.depths[word] & bit != 0;
        // Deeper calls were left without an exit.
        self.depths[word] &= bit - 1;
        while self.last > word {
            self.depths[self.last & 15] = 0;
            self.last -= 1;
        }
        !is_open && !std::mem::replace(&mut self.is_told, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extended_floats_are_rounded_once() {
        let value = |mantissa: u64, high: u16| {
            let mut bytes = mantissa.to_le_bytes().to_vec();
            bytes.extend(high.to_le_bytes());
            let little = extended(&bytes, ByteOrder::Little);
            bytes.reverse();
            assert_eq!(extended(&bytes, ByteOrder::Big).to_bits(), little.to_bits());
            little
        };
        assert_eq!(value(1 << 63, 0x3fff), 1.0);
        assert_eq!(value(0xd000_0000_0000_0000, 0x4000), 3.25);
        assert_eq!(value(0xc90f_daa2_2168_c235, 0xc000), -std::f64::consts::PI);
        assert_eq!(value(1 << 63, 0x7fff), f64::INFINITY);
        assert!(value(3 << 62, 0x7fff).is_nan());
        assert_eq!(value(1 << 63, 0x7ffe), f64::INFINITY);
        assert_eq!(value(u64::MAX, 0x3fff + 1023), f64::INFINITY, "rounding carries");
        assert_eq!(value(1 << 63, 0x3fff - 1074), f64::from_bits(1));
        assert_eq!(value(1 << 63, 0x3fff - 1075), 0.0, "half of the smallest, to even");
        assert_eq!(value((1 << 63) + 1, 0x3fff - 1075), f64::from_bits(1));
        assert_eq!(value(1 << 63, 0x3fff - 1022), f64::MIN_POSITIVE);
        assert_eq!(value(0, 0x8000).to_bits(), (-0.0f64).to_bits());
        assert_eq!(value((1 << 63) + (1 << 10), 0x3fff), 1.0, "a tie goes to even");
        assert_eq!(value((1 << 63) + (3 << 10), 0x3fff), 1.0 + 2.0 * f64::EPSILON);
    }
}
