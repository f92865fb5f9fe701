//! Pages of the kernel's ring buffers, the other way round (`SPEC.md`, section 8): `kernel-cpuN.dat`.
//!
//! Records are made of what events show, by the formats in `kernel_header`; bytes that no field has are zeros. A page
//! ends when the next record does not fit, when time goes back, and where events are missing.

use tracemill_codec::value::Value;
use tracemill_format::lost::Lost;
use tracemill_model::schema::ByteOrder;

use super::record::{NumberWriter, bits, bytes_of_hex, number};
use crate::kernel::{Kernel, KernelFormat};
use tracemill_ftrace::event_format::{Content, ContentPlace, FormatField};
use tracemill_ftrace::ring_buffer::{DELTA_BITS, EVENTS_MISSED, MISSED_STORED, TIME_EXTEND};

/// Data up to this length says it in the head of its record.
const SHORT_BYTES: usize = 28 * 4;
/// Bits of the time that head and word of a [`TIME_EXTEND`] hold.
const EXTENDED_BITS: u32 = DELTA_BITS + 32;

/// Writes the pages of one processor.
#[derive(Default)]
pub(super) struct Pages {
    /// Header and records of the page that is open.
    page: Vec<u8>,
    /// Time of its last record.
    time: u64,
    /// The events lost before the next page: their number, 0 when it is unknown.
    missed: Option<u64>,
}

/// The record of an event; the error says what it is when that cannot be told. `is_task`: was the task traced?
pub(super) fn record<'a>(
    kernel: &'a Kernel,
    is_exit: Option<bool>,
    payload: &Value,
    is_task: impl Fn(i64) -> bool,
) -> Result<Vec<u8>, Lost> {
    let numbers = NumberWriter(kernel.layout.machine.byte_order);
    let data = payload.member("data").unwrap_or(&Value::Null);
    let tid = number(payload, "tid");
    if let Some(is_exit) = is_exit {
        let call_of =
            |known: &'a KernelFormat| Some((known, known.call.as_ref().filter(|call| call.is_exit == is_exit)?));
        let (format, call) = kernel.formats().find_map(call_of).ok_or(Lost::KernelCalls)?;
        let mut out = begin(numbers, format, tid);
        put_at(numbers, &mut out, &call.function, number(payload, "addr"));
        put_at(numbers, &mut out, &call.depth, number(payload, "depth"));
        let name = if is_exit { "retval" } else { "args" };
        let more = call.value.as_ref().zip(payload.member(name));
        if let Some((field, value)) = more {
            let word = usize::from(kernel.layout.machine.long_bytes);
            match value.elements() {
                Some(elements) => {
                    out.truncate(field.offset as usize);
                    out.resize(field.offset as usize, 0);
                    elements.iter().for_each(|value| numbers.write(&mut out, bits(value), word));
                }
                None => put_at(numbers, &mut out, field, bits(value)),
            }
        }
        return Ok(out);
    }
    let id = number(payload, "id");
    let Some(format) = kernel.format(id) else {
        // Digits of the bytes of the record.
        let text = data.member("text").and_then(Value::bytes).ok_or(Lost::KernelEvents)?;
        return Ok(bytes_of_hex(text));
    };
    // A switch from a task that was not traced is shown as an event of the next one.
    let previous = data.member("prev_pid").map(bits).filter(|_| number(data, "next_pid") == tid);
    let previous = previous.filter(|&previous| !is_task(previous as i64));
    let mut out = begin(numbers, format, previous.unwrap_or(tid));
    for field in &format.format.fields {
        if let Some(value) = data.member(&field.name) {
            write_field(numbers, &mut out, field, value);
        }
    }
    Ok(out)
}

/// A record of zeros with what every record has.
fn begin(numbers: NumberWriter, format: &KernelFormat, tid: u64) -> Vec<u8> {
    let mut out = vec![0; format.format.min_bytes() as usize];
    // Where every kernel has it, whatever is left of a format.
    if let Some(place) = out.get_mut(..2) {
        place.copy_from_slice(&number_bytes(numbers, format.format.id.into(), 2));
    }
    if let Some(field) = format.format.field("common_pid") {
        put_at(numbers, &mut out, field, tid);
    }
    out
}

fn number_bytes(numbers: NumberWriter, value: u64, len: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(len);
    numbers.write(&mut out, value, len);
    out
}

fn put_at(numbers: NumberWriter, out: &mut Vec<u8>, field: &FormatField, value: u64) {
    put_bytes(out, field.offset as usize, &number_bytes(numbers, value, field.size as usize));
}

fn put_bytes(out: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if out.len() < at + bytes.len() {
        out.resize(at + bytes.len(), 0);
    }
    out[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Puts a field into a record that has all fields of fixed places already.
fn write_field(numbers: NumberWriter, out: &mut Vec<u8>, field: &FormatField, value: &Value) {
    let mut bytes = match (field.content, value.elements()) {
        (Content::Integer(_), _) => return put_at(numbers, out, field, bits(value)),
        (Content::Array(element), Some(elements)) => {
            elements.iter().flat_map(|value| number_bytes(numbers, bits(value), element.bytes.into())).collect()
        }
        _ => value.bytes().unwrap_or(&[]).to_vec(),
    };
    let is_text = field.content == Content::Text;
    match field.place {
        ContentPlace::Fixed => {
            bytes.resize(field.size as usize, 0);
            put_bytes(out, field.offset as usize, &bytes);
        }
        ContentPlace::Rest => {
            bytes.extend(is_text.then_some(0));
            out.truncate(field.offset as usize);
            put_bytes(out, field.offset as usize, &bytes);
        }
        ContentPlace::Located { relative } => {
            bytes.extend(is_text.then_some(0));
            let end = (field.offset + field.size) as usize;
            let at = out.len().max(end);
            let from = at - if relative { end } else { 0 };
            let place = (bytes.len() as u64 & 0xffff) << 16 | from as u64 & 0xffff;
            put_at(numbers, out, field, place);
            put_bytes(out, at, &bytes);
        }
    }
}

impl Pages {
    /// Appends a record; pages that are full go to `out`. `false` when it is too large for any page.
    pub(super) fn push(&mut self, kernel: &Kernel, time: u64, record: &[u8], out: &mut Vec<u8>) -> bool {
        let (layout, numbers) = (&kernel.layout, NumberWriter(kernel.layout.machine.byte_order));
        let len = record.len().next_multiple_of(4);
        let head = if len == 0 || len > SHORT_BYTES { 8 } else { 4 };
        // A time of its own may stand before it, and after the last one how many events are missing before the page.
        let room = head + len + 8 + usize::from(layout.machine.long_bytes);
        if layout.data_offset + room > layout.page_bytes {
            return false;
        }
        let is_later = time.checked_sub(self.time).is_some_and(|delta| delta >> EXTENDED_BITS == 0);
        if !self.page.is_empty() && (!is_later || self.page.len() + room > layout.page_bytes) {
            self.end_page(kernel, out);
        }
        if self.page.is_empty() {
            self.page.resize(layout.data_offset, 0);
            put_bytes(&mut self.page, layout.time_offset, &number_bytes(numbers, time, 8));
            self.time = time;
        }
        let mut delta = time - self.time;
        self.time = time;
        if delta >> DELTA_BITS != 0 {
            self.put_head(numbers, TIME_EXTEND.into(), delta & ((1 << DELTA_BITS) - 1));
            numbers.write(&mut self.page, delta >> DELTA_BITS, 4);
            delta = 0;
        }
        if head == 4 {
            self.put_head(numbers, len as u64 / 4, delta);
        } else {
            self.put_head(numbers, 0, delta);
            numbers.write(&mut self.page, len as u64 + 4, 4);
        }
        self.page.extend_from_slice(record);
        self.page.resize(self.page.len() + len - record.len(), 0);
        true
    }

    fn put_head(&mut self, numbers: NumberWriter, kind: u64, delta: u64) {
        let word = match numbers.0 {
            ByteOrder::Little => kind | delta << 5,
            ByteOrder::Big => kind << DELTA_BITS | delta,
        };
        numbers.write(&mut self.page, word, 4);
    }

    /// Events are missing here: so many, when somebody knows.
    pub(super) fn gap(&mut self, kernel: &Kernel, count: Option<u64>, out: &mut Vec<u8>) {
        self.end_page(kernel, out);
        let count = count.unwrap_or(0);
        self.missed =
            Some(self.missed.map_or(count, |missed| if count == 0 { 0 } else { missed.saturating_add(count) }));
    }

    /// Ends the page that is open.
    pub(super) fn end_page(&mut self, kernel: &Kernel, out: &mut Vec<u8>) {
        if self.page.is_empty() {
            return;
        }
        let (layout, numbers) = (&kernel.layout, NumberWriter(kernel.layout.machine.byte_order));
        let long = usize::from(layout.machine.long_bytes);
        let mut commit = (self.page.len() - layout.data_offset) as u64;
        match self.missed.take() {
            Some(0) => commit |= EVENTS_MISSED,
            Some(count) => {
                commit |= EVENTS_MISSED | MISSED_STORED;
                numbers.write(&mut self.page, count, long);
            }
            None => {}
        }
        put_bytes(&mut self.page, layout.commit_offset, &number_bytes(numbers, commit, long));
        self.page.resize(layout.page_bytes, 0);
        out.append(&mut self.page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracemill_ftrace::ring_buffer::Missed;

    const HEADER: &str = "PAGE_SIZE: 256\nLONG_SIZE: 8\nENDIAN: ";

    #[test]
    fn pages_are_read_as_they_were_written() {
        for order in ["LE", "BE"] {
            let kernel = Kernel::read(format!("{HEADER}{order}\n").as_bytes(), &mut Vec::new());
            let (mut pages, mut out) = (Pages::default(), Vec::new());
            let far = 1u64 << EXTENDED_BITS;
            let records =
                [(1000, 8), (1005, 0), (1 << 28, 120), ((1 << 28) + 9, 112), (500, 4), (500 + far, 3), (far + 600, 6)];
            for (at, &(time, len)) in records.iter().enumerate() {
                assert!(pages.push(&kernel, time, &vec![at as u8; len], &mut out));
            }
            assert!(!pages.push(&kernel, 0, &[0; 240], &mut out));
            pages.gap(&kernel, Some(5), &mut out);
            pages.gap(&kernel, Some(2), &mut out);
            assert!(pages.push(&kernel, far + 700, &[7; 4], &mut out));
            pages.gap(&kernel, None, &mut out);
            assert!(pages.push(&kernel, far + 800, &[8; 4], &mut out));
            pages.end_page(&kernel, &mut out);
            pages.end_page(&kernel, &mut out);
            let (mut found, mut missed) = (Vec::new(), Vec::new());
            assert!(out.len().is_multiple_of(256));
            for bytes in out.chunks(256) {
                let page = kernel.layout.page(bytes).expect("a header");
                assert_eq!(page.bad_commit, None);
                missed.extend(page.missed);
                for record in kernel.layout.records(&page) {
                    let record = record.expect("a record");
                    found.push((record.time, bytes[record.offset..record.offset + record.len].to_vec()));
                }
            }
            // Lengths are rounded up to whole words.
            let want = |at: usize, &(time, len): &(u64, usize)| {
                let mut bytes = vec![at as u8; len];
                bytes.resize(len.next_multiple_of(4), 0);
                (time, bytes)
            };
            let mut want: Vec<_> = records.iter().enumerate().map(|(at, record)| want(at, record)).collect();
            want.extend([(far + 700, vec![7; 4]), (far + 800, vec![8; 4])]);
            assert_eq!(found, want);
            assert_eq!(missed, [Missed::Count(7), Missed::Some]);
        }
    }
}
