//! The packets of one stream.

use tracemill_codec::encode::LooseBits;
use tracemill_codec::field_writer::{FieldLayout, FieldWriter};
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::ByteOrder;

use super::super::frame::{put_header, set_numbers};
use super::{EventLayout, StreamLayout};

/// Bytes of the packet header and of the members of the packet context that are ours.
const HEADER_BYTES: usize = 4 + 8 + 8 + 6 * 8;
/// Where the sizes stand, the times after them, then the counter of discarded events.
const SIZES_AT: usize = 4 + 8 + 8;

/// Turns the events of a stream into packets.
///
/// A packet ends before the event that would make it larger than wanted, when somebody says so, and where events were
/// discarded: so the reader sees between which events they are missing.
#[derive(Debug)]
pub struct PacketWriter {
    class_id: u64,
    stream_id: u64,
    packet_bytes: usize,
    /// The packet that is being built; empty where none is.
    packet: Vec<u8>,
    loose: LooseBits,
    /// Times of its first and of its last event.
    times: [u64; 2],
    /// Events in it.
    events: u64,
    /// Whole packets that were not taken yet.
    done: Vec<u8>,
    packet_context: EncodedFields,
    context: EncodedFields,
    discarded: u64,
    /// Were events discarded after the last packet?
    is_owed: bool,
    sequence: u64,
    latest: u64,
}

/// Fields that packets or events share, encoded once.
#[derive(Debug)]
struct EncodedFields {
    bytes: Vec<u8>,
    loose: LooseBits,
    is_set: bool,
}

impl EncodedFields {
    /// An empty part, which is complete where the layout has no fields.
    fn new(layout: &FieldLayout) -> Self {
        EncodedFields { bytes: Vec::new(), loose: LooseBits::default(), is_set: layout.is_empty() }
    }

    fn set(
        &mut self,
        layout: &FieldLayout,
        fields: impl for<'w, 'a> FnOnce(&'w mut FieldWriter<'a>) -> &'w mut FieldWriter<'a>,
    ) -> Result<()> {
        let (mut bytes, mut loose) = (Vec::new(), LooseBits::default());
        layout.write(&mut bytes, &mut loose, fields)?;
        *self = EncodedFields { bytes, loose, is_set: true };
        Ok(())
    }

    /// Appends the fields.
    #[inline]
    fn append_to(&self, out: &mut Vec<u8>) -> LooseBits {
        out.extend_from_slice(&self.bytes);
        LooseBits::new(out.len(), self.loose.before(self.bytes.len()))
    }
}

impl PacketWriter {
    /// Packets of a stream with this id, of about so many bytes each.
    pub fn new(class: &StreamLayout, stream_id: u64, packet_bytes: usize) -> Self {
        PacketWriter {
            class_id: class.id,
            stream_id,
            packet_bytes,
            packet: Vec::new(),
            loose: LooseBits::default(),
            times: [0; 2],
            events: 0,
            done: Vec::new(),
            packet_context: EncodedFields::new(&class.packet_context),
            context: EncodedFields::new(&class.context),
            discarded: 0,
            is_owed: false,
            sequence: 0,
            latest: 0,
        }
    }

    /// Sets the fields that each event from here on has before its own.
    ///
    /// # Errors
    /// See [`FieldLayout::write`].
    pub fn set_context(
        &mut self,
        class: &StreamLayout,
        fields: impl for<'w, 'a> FnOnce(&'w mut FieldWriter<'a>) -> &'w mut FieldWriter<'a>,
    ) -> Result<()> {
        self.context.set(&class.context, fields)
    }

    /// Sets the fields of each packet from here on. The one that is being built ends.
    ///
    /// # Errors
    /// See [`FieldLayout::write`].
    pub fn set_packet_context(
        &mut self,
        class: &StreamLayout,
        fields: impl for<'w, 'a> FnOnce(&'w mut FieldWriter<'a>) -> &'w mut FieldWriter<'a>,
    ) -> Result<()> {
        self.end_packet();
        self.packet_context.set(&class.packet_context, fields)
    }

    /// Writes an event. `cycles` is the value of the stream's clock.
    ///
    /// # Errors
    /// When the time is before that of the last event, a context has no values yet, or the values are not those of the
    /// event class. The stream is then what it was.
    #[inline]
    pub fn event(
        &mut self,
        class: &EventLayout,
        cycles: u64,
        fields: impl for<'w, 'a> FnOnce(&'w mut FieldWriter<'a>) -> &'w mut FieldWriter<'a>,
    ) -> Result<()> {
        if cycles < self.latest || !self.context.is_set || !self.packet_context.is_set {
            return Err(self.refusal(cycles));
        }
        if self.packet.is_empty() {
            self.begin(cycles);
        }
        let (start, before) = (self.packet.len(), self.loose);
        let mut header = [0; 10];
        header[..2].copy_from_slice(&class.id.to_le_bytes());
        header[2..].copy_from_slice(&cycles.to_le_bytes());
        self.packet.extend_from_slice(&header);
        self.loose = self.context.append_to(&mut self.packet);
        if let Err(error) = class.fields.write(&mut self.packet, &mut self.loose, fields) {
            self.packet.truncate(start);
            self.loose = before;
            if self.events == 0 {
                self.packet.clear();
            }
            return Err(error);
        }
        if self.packet.len() > self.packet_bytes && self.events > 0 {
            self.move_on(start, before, cycles);
        }
        self.events += 1;
        self.times[1] = cycles;
        self.latest = cycles;
        Ok(())
    }

    /// Counts events that were discarded after the last one.
    pub fn add_discarded(&mut self, count: u64) {
        if count > 0 {
            self.end_packet();
            self.discarded = self.discarded.wrapping_add(count);
            self.is_owed = true;
        }
    }

    /// Ends the packet that is being built; nothing without events.
    pub fn end_packet(&mut self) {
        if self.events > 0 {
            self.flush();
        }
    }

    /// Ends the stream. Where events were discarded after the last one, a packet of none says so.
    ///
    /// # Errors
    /// When that packet has a context without values.
    pub fn end(&mut self) -> Result<()> {
        self.end_packet();
        if self.is_owed {
            if !self.packet_context.is_set {
                return Err(self.refusal(self.latest));
            }
            self.begin(self.latest);
            self.flush();
        }
        Ok(())
    }

    /// Whole packets, which the caller writes and then clears.
    #[inline]
    pub fn done(&mut self) -> &mut Vec<u8> {
        &mut self.done
    }

    /// Moves the last event, which makes the packet too large, to one of its own.
    #[cold]
    fn move_on(&mut self, start: usize, before: LooseBits, cycles: u64) {
        let event = self.packet.split_off(start);
        let loose = self.loose.before(start + event.len());
        self.loose = before;
        self.flush();
        self.begin(cycles);
        self.packet.extend_from_slice(&event);
        self.loose = LooseBits::new(self.packet.len(), loose);
    }

    fn begin(&mut self, cycles: u64) {
        let out = &mut self.packet;
        put_header(out, ByteOrder::Little, None, self.class_id, Some(self.stream_id));
        // The sizes, the end and the counter are known when the packet ends.
        out.extend([0, 0, cycles, cycles, 0, self.sequence].into_iter().flat_map(u64::to_le_bytes));
        debug_assert_eq!(out.len(), HEADER_BYTES);
        self.loose = self.packet_context.append_to(out);
        self.times = [cycles; 2];
        self.events = 0;
    }

    fn flush(&mut self) {
        let bits = self.packet.len() as u64 * 8;
        // Bits that no field has are not content.
        let content_bits = bits - u64::from(self.loose.before(self.packet.len()));
        let [begin, end] = self.times;
        let values = [bits, content_bits, begin, end, self.discarded];
        set_numbers(&mut self.packet, SIZES_AT, &values, ByteOrder::Little);
        self.sequence += 1;
        self.events = 0;
        self.is_owed = false;
        if self.done.is_empty() {
            std::mem::swap(&mut self.packet, &mut self.done);
        } else {
            self.done.extend_from_slice(&self.packet);
        }
        self.packet.clear();
    }

    #[cold]
    fn refusal(&self, cycles: u64) -> Error {
        if cycles < self.latest {
            let latest = self.latest;
            return Error::misuse(format!("the time {cycles} is before {latest}, that of the event before it"));
        }
        let what = if self.context.is_set { "packets" } else { "events" };
        let error = Error::misuse(format!("the context of the stream's {what} has no values yet"));
        error.with_help("give them before the first event")
    }
}
