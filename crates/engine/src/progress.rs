//! How far the reading of a session has come.

use std::sync::atomic::{AtomicU64, Ordering};

use tracemill_model::packet::Packet;

/// Bytes of packets that were read, of those that are wanted. The reading threads count, the display looks.
///
/// The numbers are for people: they are exact once everything was read, and about right until then.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    total: AtomicU64,
}

impl Progress {
    /// Bytes read so far.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Bytes to read in all; grows when another reader begins.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    pub(crate) fn add_done(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_total(&self, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Bytes of a packet as they are counted.
pub(crate) fn packet_bytes(packet: &Packet) -> u64 {
    packet.total_bits / 8
}
