//! Events of a packet as they are found: their times, where these go back, and which events are wanted.

use tracemill_codec::chunk::{ChunkSink, PacketData};
use tracemill_codec::spine::{ScanEnd, SpineSink};
use tracemill_model::schema::EventClassId;

use crate::progress::packet_bytes;
use crate::selection::ClassSet;

/// Where a clock value is below one before, that one, and the value.
pub(super) type StepBack = (u64, u64, u64);

/// Clock values that should not go back.
pub(super) struct Ascent {
    /// The largest so far.
    pub(super) largest: u64,
    /// The first step back.
    pub(super) back: Option<StepBack>,
}

impl Ascent {
    pub(super) fn from(largest: u64) -> Self {
        Ascent { largest, back: None }
    }

    /// Looks at the next value; `place` says where it is.
    #[inline]
    pub(super) fn pass(&mut self, cycles: u64, place: u64) {
        if cycles < self.largest {
            self.back.get_or_insert((place, self.largest, cycles));
        }
        self.largest = self.largest.max(cycles);
    }
}

/// The events of a packet that are wanted.
#[derive(Clone, Copy)]
pub(super) struct SelectedRange {
    /// The first and the last clock value.
    pub(super) range: Option<(u64, u64)>,
    /// Are those outside of it left out? Otherwise there must be none.
    pub(super) is_counted: bool,
}

/// The times of a packet's events.
pub(super) struct EventTimes {
    wanted: SelectedRange,
    pub(super) order: Ascent,
    /// The clock value from which the next packet goes on.
    pub(super) clock: u64,
    /// How many are wanted.
    pub(super) events: u64,
}

impl SpineSink for EventTimes {
    #[inline]
    fn event(&mut self, _class: EventClassId, cycles: u64, start_bits: u64, _body_bits: u64) -> bool {
        let is_wanted = self.wanted.range.is_none_or(|(first, last)| first <= cycles && cycles <= last);
        self.events += u64::from(is_wanted);
        self.order.pass(cycles, start_bits);
        is_wanted || self.wanted.is_counted
    }
}

/// The times of the events of a packet after `largest`, when all of them can be read and are wanted, or only counted;
/// `is_ahead` when the caller finds out later whether their bytes are there.
pub(super) fn sound_times(
    data: &PacketData,
    wanted: SelectedRange,
    largest: u64,
    is_ahead: bool,
) -> Option<EventTimes> {
    let mut times = EventTimes { wanted, order: Ascent::from(largest), clock: 0, events: 0 };
    let mut state = data.state.clone();
    let end = data.scan(&mut data.first_event(), &mut state, &mut times);
    times.clock = state.clock;
    let is_there = || is_ahead || data.file.len_now() >= data.packet.offset_bytes + packet_bytes(&data.packet);
    let is_sound = end == ScanEnd::Complete && is_there();
    is_sound.then_some(times)
}

/// Events that a scan with a class filter walks over before it gives what it has.
pub(super) const SELECT_SPAN: usize = 1 << 20;

/// Takes only events of wanted classes, and follows the largest time over all of them.
pub(super) struct Selecting<'a, 'b> {
    pub(super) inner: ChunkSink<'a>,
    pub(super) classes: &'b ClassSet,
    pub(super) left: usize,
    pub(super) order: Ascent,
    pub(super) floors: Vec<u64>,
}

impl SpineSink for Selecting<'_, '_> {
    #[inline]
    fn event(&mut self, class: EventClassId, cycles: u64, start_bits: u64, body_bits: u64) -> bool {
        self.order.pass(cycles, start_bits);
        self.left -= 1;
        if self.classes.has(class.0) {
            self.floors.push(self.order.largest);
            return self.inner.event(class, cycles, start_bits, body_bits) && self.left > 0;
        }
        self.left > 0 && self.inner.has_room_at(body_bits)
    }
}
