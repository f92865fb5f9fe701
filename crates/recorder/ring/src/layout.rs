//! Places of numbers in the header of a ring. Only constants: the library that is preloaded includes this file as it is.

/// The first bytes of a ring.
pub const MAGIC: [u8; 8] = *b"TMRING1\0";
/// Length of the header in bytes; slots follow.
pub const LEN: usize = 4096;

/// Offset of the kind, u32.
pub const KIND: usize = 8;
/// Offset of the state, u32.
pub const STATE: usize = 12;
/// Offset of the size of a slot in bytes, u64.
pub const SLOT_SIZE: usize = 16;
/// Offset of the number of slots, u64.
pub const SLOTS: usize = 24;
/// Offset of the number of slots that were begun and ended, u64.
pub const DONE: usize = 32;
/// Offset of the number of slots that were moved out, u64.
pub const TAKEN: usize = 40;
/// Offset of the number of discarded events, u64.
pub const DISCARDED: usize = 48;
/// Offset of the process id, u32.
pub const PID: usize = 56;
/// Offset of the thread id, u32.
pub const TID: usize = 60;
/// Offset of the clock value before which nothing comes any more, u64.
pub const BEACON: usize = 64;
/// Offset of the UUID of the trace, 16 bytes.
pub const UUID: usize = 72;
/// Offset of the mode, u64.
pub const MODE: usize = 88;
/// Offset of the frequency of the clock in Hz, u64.
pub const FREQUENCY: usize = 192;
/// Offset of the number of clock pairs so far, u64.
pub const PAIR_COUNT: usize = 200;
/// Offset of the last clock pairs.
pub const PAIRS: usize = 208;
/// Number of clock pairs that are kept.
pub const PAIRS_KEPT: u64 = 32;
/// Length of a clock pair in bytes.
pub const PAIR_LEN: usize = 24;

/// Smallest and largest size of a slot in bytes.
pub const SLOT_SIZES: std::ops::RangeInclusive<u64> = 4096..=16 << 20;

/// State: no thread writes.
pub const FREE: u32 = 0;
/// State: a thread writes.
pub const WRITING: u32 = 1;
/// State: its thread ended; another one may get it once everything is taken.
pub const ENDED: u32 = 2;
/// State: closed in order.
pub const CLOSED: u32 = 3;

/// Name of the file beside rings of calls by which threads and the recorder wake each other: words of four bytes.
pub const BELL: &str = "bell";
/// Length of this file in bytes.
pub const BELL_LEN: usize = 4096;
/// Offset of the number of times that a thread wanted the recorder to look.
pub const RUNG: usize = 0;
/// Offset of whether the recorder sleeps.
pub const SLEEPS: usize = 4;
/// Offset of the number of slots that the recorder moved.
pub const MOVED: usize = 8;
/// Offset of the number of threads that wait for that.
pub const WAITING: usize = 12;
/// Offset of the number of threads that have no ring.
pub const RINGLESS: usize = 16;
/// Offset of whether calls were too deep to be recorded.
pub const TOO_DEEP: usize = 20;
/// Offset of the number of calls of threads that have no ring, u64.
pub const UNRECORDED: usize = 24;
/// Offset of the number of calls of threads in seccomp's strict mode, where no clock can be read, u64.
pub const STRICT_CALLS: usize = 32;
/// Offset of the number of functions whose entries were patched, u64.
pub const PATCHED: usize = 40;
/// Offset of the number of functions that were to be patched and have not enough room for that, u64.
pub const UNPATCHABLE: usize = 48;
/// Offset of the number of places of probes that became a jump, u64.
pub const PROBE_JUMPS: usize = 56;
/// Offset of the number of places of probes that became a trap, u64.
pub const PROBE_TRAPS: usize = 64;
/// Offset of the number of places of probes that stay as they are, u64.
pub const PROBES_LEFT: usize = 72;
/// Offset of the number of events of probes that came while their thread was in the recorder, u64.
pub const EVENTS_MISSED: usize = 80;
/// Offset of the numbers of functions that were to be patched and stay as they are, u64 each: by the reasons that the table of
/// rules has numbers for.
pub const LEFT_FUNCTIONS: usize = 88;
