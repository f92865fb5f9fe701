//! Records of the kernel's ring buffers, the other way round (`SPEC.md`, section 8): `kernel-cpuN.dat`.
//!
//! Records are made of what events show, by the formats in `kernel_header`; bytes that no field has are zeros.

use tracemill_codec::value::Value;
use tracemill_format::lost::Lost;

use super::record::{NumberWriter, bits, bytes_of_hex, number};
use crate::kernel::{Kernel, KernelFormat};
use tracemill_ftrace::record_writer::{self, put_at, write_field};

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
        put_at(numbers.0, &mut out, &call.function, number(payload, "addr"));
        put_at(numbers.0, &mut out, &call.depth, number(payload, "depth"));
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
                None => put_at(numbers.0, &mut out, field, bits(value)),
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
            write_field(numbers.0, &mut out, field, value);
        }
    }
    Ok(out)
}

/// A record of zeros with what every record has.
fn begin(numbers: NumberWriter, format: &KernelFormat, tid: u64) -> Vec<u8> {
    let mut out = record_writer::begin(numbers.0, &format.format);
    if let Some(field) = format.format.field("common_pid") {
        put_at(numbers.0, &mut out, field, tid);
    }
    out
}
