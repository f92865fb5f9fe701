//! Wording of damage that several parts of the engine meet.

use tracemill_codec::chunk::PacketData;
use tracemill_codec::layout;
use tracemill_codec::text::closest;
use tracemill_format::Stream;
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::Packet;
use tracemill_model::schema::{FieldClassId, Role, Schema};

use crate::progress::packet_bytes;

/// An error about a name that no format has.
pub fn unknown_format(of: &str, done: &str, name: &str, names: &[&str]) -> Error {
    let meant = closest(name, names).map(|meant| format!("did you mean `{meant}`? ")).unwrap_or_default();
    let error = Error::misuse(format!("unknown {of} format `{name}`"));
    error.with_help(format!("{meant}formats that can be {done}: {}", names.join(", ")))
}

/// An error that costs a whole packet; says so unless it has something better to say.
pub(crate) fn with_loss(error: Error, schema: &Schema, packet: &Packet) -> Error {
    let skipped = || format!("the packet, {} bytes, is skipped", packet.total_bits / 8);
    let help = error.help().map_or_else(skipped, str::to_string);
    error.with_help(help + note_of_times(schema, packet))
}

/// The error of a file that was cut while it was read.
pub(crate) fn cut_while_read(len_now: u64) -> Error {
    let message = format!("the file was cut to {len_now} bytes while it was read");
    Error::truncated(message).at_offset(len_now)
}

/// Looks whether a packet of a stream that was read as a whole is still in its file: if not, what was made of it is wrong.
///
/// # Errors
/// When the file was cut.
pub(crate) fn check_present(stream: &Stream, packet: &PacketData) -> Result<()> {
    let of = &packet.packet;
    let len_now = packet.file.len_now();
    if len_now >= of.offset_bytes.saturating_add(packet_bytes(of)) {
        return Ok(());
    }
    let error = cut_while_read(len_now).in_packet(of.index).with_help("nothing was written; run the command again");
    Err(stream.files.get(of.file as usize).map_or(error.clone(), |file| error.in_file(&file.path)))
}

/// Note on the bytes that are lost with an error at a bit of a packet.
pub(crate) fn skipped(schema: &Schema, packet: &Packet, pos_bits: u64) -> String {
    let left = packet.content_bits.saturating_sub(pos_bits).div_ceil(8);
    format!("the rest of the packet, {left} bytes, is skipped{}", note_of_times(schema, packet))
}

/// Note on the effect of skipped bytes on later times, when packets do not say when they begin and events have the low bits of their clock
/// only: a clock that has wrapped inside them is not seen.
fn note_of_times(schema: &Schema, packet: &Packet) -> &'static str {
    let header = schema.stream(packet.class).event_header;
    if packet.begin_cycles.is_none() && header.is_some_and(|root| has_short_time(schema, root)) {
        "; packets here do not say when they begin, so later times may be too small by multiples of the time field"
    } else {
        ""
    }
}

fn has_short_time(schema: &Schema, root: FieldClassId) -> bool {
    let mut stack = vec![root];
    while let Some(id) = stack.pop() {
        let class = schema.field_class(id);
        let bits = layout::leaf_bits(class).unwrap_or(64);
        if class.roles.has(Role::Timestamp) && bits < 64 {
            return true;
        }
        stack.extend(layout::children(class));
    }
    false
}
