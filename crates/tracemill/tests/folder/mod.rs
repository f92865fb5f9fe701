//! Temporary folders, and a trace to put there.
#![allow(dead_code, reason = "every test file compiles this module and uses a part of it")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A folder that is removed with its content.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// A new, empty folder; another one each time, as tests run beside each other.
    pub(crate) fn new(test: &str) -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tracemill-engine-{test}-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("the temporary folder can be written");
        Folder(path)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> PathBuf {
        self.0.clone()
    }

    /// Writes a file, and the folders above it.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().expect("it has a parent")).expect("the folder can be made");
        std::fs::write(path, bytes).expect("the file can be written");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Metadata of the trace: packets with sizes and a beginning, events with a time and a number.
pub(crate) const METADATA: &str = "/* CTF 1.8 */
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { integer { size = 32; } magic; }; };
clock { name = c; freq = 1000; };
typealias integer { size = 64; map = clock.c.value; } := time_t;
stream {
  packet.context := struct { time_t timestamp_begin; integer { size = 32; } content_size; integer { size = 32; } packet_size; };
  event.header := struct { time_t timestamp; };
};
event { name = e; fields := struct { integer { size = 64; } number; }; };
";

/// Bytes of a packet, its header, an event; packets of a file.
pub(crate) const PACKET_BYTES: u64 = 16_404;
pub(crate) const HEADER_BYTES: u64 = 20;
pub(crate) const EVENT_BYTES: u64 = 16;
pub(crate) const PACKETS: u64 = 12;

/// Number, and time in cycles, of the first event of a packet.
pub(crate) fn first_event_of(packet: u64) -> u64 {
    packet * (PACKET_BYTES - HEADER_BYTES) / EVENT_BYTES
}

/// A packet of numbered events.
pub(crate) fn packet(from: u64, to: u64) -> Vec<u8> {
    let bits = ((HEADER_BYTES + (to - from) * EVENT_BYTES) * 8) as u32;
    let mut bytes = 0xc1fc_1fc1u32.to_le_bytes().to_vec();
    bytes.extend(from.to_le_bytes());
    bytes.extend(bits.to_le_bytes());
    bytes.extend(bits.to_le_bytes());
    bytes.extend((from..to).flat_map(|at| [at, at]).flat_map(u64::to_le_bytes));
    bytes
}

/// Writes a trace with these streams.
pub(crate) fn trace(folder: &Folder, streams: &[&str]) {
    let bytes: Vec<u8> = (0..PACKETS).flat_map(|at| packet(first_event_of(at), first_event_of(at + 1))).collect();
    folder.write("metadata", METADATA.as_bytes());
    for stream in streams {
        folder.write(stream, &bytes);
    }
}
