//! A trace of CTF 1.8 whose packets hold one event each, as producers on small targets write them.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;

const METADATA: &str = "/* CTF 1.8 */
typealias integer { size = 8; align = 8; } := u8;
typealias integer { size = 16; align = 8; } := u16;
typealias integer { size = 32; align = 8; } := u32;
typealias integer { size = 64; align = 8; } := u64;
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u32 magic; u8 stream_id; }; };
clock { name = c; freq = 1000000; offset_s = 1600000000; };
typealias integer { size = 32; align = 8; map = clock.c.value; } := stamp;
typealias integer { size = 64; align = 8; map = clock.c.value; } := time;
stream {
    id = 0;
    packet.context := struct { u32 packet_size; u32 content_size; time timestamp_begin; time timestamp_end;
        u16 events_discarded; u32 packet_seq_num; };
    event.header := struct { u8 id; stamp timestamp; };
};
event { name = tick; id = 0; stream_id = 0; fields := struct { u32 n; }; };
";

/// Bytes of a packet, the last ones padding.
const PACKET_BYTES: usize = 68;

/// Writes the trace; its metadata last, so that a trace that has them is whole.
pub(crate) fn write_trace(path: &Path, packets: u32) -> std::io::Result<()> {
    fs::create_dir_all(path)?;
    let mut out = BufWriter::new(fs::File::create(path.join("stream"))?);
    let mut packet = Vec::with_capacity(PACKET_BYTES);
    for n in 0..packets {
        let begin = 1000 + u64::from(n) * 10;
        packet.clear();
        packet.extend(0xc1fc_1fc1_u32.to_le_bytes());
        packet.push(0);
        packet.extend((PACKET_BYTES as u32 * 8).to_le_bytes());
        let content_at = packet.len();
        packet.extend([0; 4]);
        packet.extend(begin.to_le_bytes());
        packet.extend((begin + 5).to_le_bytes());
        packet.extend([0; 2]);
        packet.extend(n.to_le_bytes());
        packet.push(0);
        packet.extend((begin as u32 + 2).to_le_bytes());
        packet.extend(n.to_le_bytes());
        let content = packet.len() as u32 * 8;
        packet[content_at..content_at + 4].copy_from_slice(&content.to_le_bytes());
        packet.resize(PACKET_BYTES, 0);
        out.write_all(&packet)?;
    }
    out.flush()?;
    fs::write(path.join("metadata"), METADATA)
}
