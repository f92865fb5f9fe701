//! Protocol buffers of Perfetto: how they are read and written, and what its messages are called. For the format that reads
//! its traces and the target that writes them.

pub mod messages;
mod proto;
mod wire;

pub use self::messages::{FieldType, MessageField, MessageType, message};
pub use self::proto::ProtoWriter;
pub use self::wire::{WireFields, WireValue, is_trace_start, varint};

/// The clocks that have the same number in every trace (`builtin_clock.proto`).
pub mod clock {
    /// Time of day.
    pub const REALTIME: u32 = 1;
    /// Since the machine began, without the time in which it was suspended.
    pub const MONOTONIC: u32 = 3;
    /// The same, which nothing adjusts.
    pub const MONOTONIC_RAW: u32 = 5;
    /// Since the machine began: the clock of a trace that names no other.
    pub const BOOTTIME: u32 = 6;
    /// Clocks of one sequence of packets, from the first to the last.
    pub const OF_SEQUENCE: std::ops::RangeInclusive<u32> = 64..=127;
}

/// Flags of a packet (`TracePacket.sequence_flags`).
pub mod sequence_flag {
    /// The packet begins a new state of its sequence.
    pub const STATE_CLEARED: u64 = 1;
    /// The packet needs the state of its sequence.
    pub const NEEDS_STATE: u64 = 2;
}

/// Types of track events (`TrackEvent.Type`).
pub mod event_type {
    /// A slice begins.
    pub const SLICE_BEGIN: u64 = 1;
    /// The innermost slice of the track ends.
    pub const SLICE_END: u64 = 2;
    /// It just happens.
    pub const INSTANT: u64 = 3;
    /// A counter has a value.
    pub const COUNTER: u64 = 4;
}
