//! The first bytes of a packet of events: packet header and packet context.

/// The magic number of CTF packets.
pub const MAGIC: u32 = 0xC1FC_1FC1;
/// Length of both in bytes; events follow.
pub const LEN: usize = 96;

/// Offset of the UUID of the trace, 16 bytes.
pub const UUID: usize = 4;
/// Offset of the number of the ring, u64.
pub const RING: usize = 24;
/// Offset of the clock at the first event, u64.
pub const BEGIN: usize = 32;
/// Offset of the clock at the last event, u64.
pub const END: usize = 40;
/// Offset of the content size in bits, u64.
pub const CONTENT: usize = 48;
/// Offset of the packet size in bits, u64.
pub const TOTAL: usize = 56;
/// Offset of the sequence number, u64.
pub const SEQUENCE: usize = 64;
/// Offset of the number of discarded events so far, u64.
pub const DISCARDED: usize = 72;
/// Offset of `CLOCK_MONOTONIC` in ns at the first event, u64.
pub const MONOTONIC: usize = 80;
/// Offset of the thread id, u32.
pub const TID: usize = 88;
/// Offset of the process id, u32.
pub const PID: usize = 92;

/// Sequence number of a slot that is being begun.
pub const NO_SEQUENCE: u64 = u64::MAX;
/// Length of the word before the fields of an event: 48 bits of the clock, 16 of the class.
pub const EVENT_LEN: u64 = 8;
/// Bits of the clock in an event.
pub const CLOCK_BITS: u32 = 48;
