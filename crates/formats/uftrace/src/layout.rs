//! The bytes of events: readers of files write them, and [`super::classes`] describes them.

use tracemill_codec::spine::Spine;
use tracemill_codec::text::hex;
use tracemill_ftrace::classes::push_locator;
use tracemill_model::error::Error;
use tracemill_model::packet::Gap;
use tracemill_model::schema::EventClassId;

/// Bytes of an entry or exit before its arguments: task, depth, address, symbol id.
pub(super) const CALL: usize = 18;
/// Where the symbol id stands in those.
pub(super) const SYMBOL_AT: usize = 14;
/// Bytes of an entry or exit of the kernel before its values: those, and the processor.
pub(super) const KERNEL_CALL: usize = CALL + 4;
/// Bytes of an event of the kernel before its record: task, processor, id.
pub(super) const KERNEL_EVENT: usize = 12;
/// The length of a text that is absent.
pub(super) const NO_TEXT: u32 = u32::MAX;

/// Errors of one slice or file that are reported one by one.
pub(super) const MAX_ERRORS: usize = 20;

/// Events of a slice, and what was odd about it.
#[derive(Default)]
pub(super) struct SliceEvents {
    pub bytes: Vec<u8>,
    pub spine: Spine,
    pub faults: Vec<Error>,
    pub warnings: Vec<Error>,
    pub gaps: Vec<Gap>,
    /// Symbol ids of modules whose symbols are missing.
    pub without_symbols: Vec<u32>,
}

impl SliceEvents {
    /// Ends the event whose bytes begin at `start`.
    #[inline]
    pub(super) fn push(&mut self, class: EventClassId, time: u64, start: usize) {
        let bits = (start * 8) as u32;
        self.spine.push(class, time, bits, bits);
    }

    /// Appends bytes as a text of hexadecimal digits to the event that begins at `start`.
    pub(super) fn put_hex(&mut self, start: usize, bytes: &[u8]) {
        let text = hex(bytes);
        let offset = self.bytes.len() - start + 8;
        push_locator(&mut self.bytes, offset, text.len());
        self.bytes.extend_from_slice(text.as_bytes());
    }
}
