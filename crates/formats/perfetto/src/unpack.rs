//! Packets inside packets, packed by zlib or zstd (`SPEC.md`, section 2).
//!
//! A trace with such packets is unpacked as a whole, to packets one after the other, which may then be read from any place.

use std::io::Read;
use std::sync::Arc;

use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use tracemill_codec::chunk::Bytes;
use tracemill_format::{Storage, UnpackedSink, zstd_window};
use tracemill_model::error::{Error, Result};

use super::packets::{PacketItem, PacketWalk};

/// Contents of packets that hold packets.
pub(crate) const ZLIB: u32 = 50;
pub(crate) const ZSTD: u32 = 133;

/// The largest window of zstd.
const MAX_WINDOW_BYTES: u64 = 128 << 20;
/// Bytes that may be unpacked of any file, however small it is.
const MIN_LIMIT: u64 = 1 << 30;
/// Bytes that may be unpacked of a file: so many times its size.
const MAX_RATIO: u64 = 200;
/// Bytes that a packet may hold unpacked: recorders pack some hundred kB at a time.
const MAX_PACKET_BYTES: usize = 64 << 20;
/// Bytes that are unpacked at once.
const PIECE: usize = 64 << 10;

/// The packets of a file, and where those come from that were packed.
pub(crate) struct Unpacked {
    pub(crate) bytes: Arc<dyn Bytes>,
    /// Offsets after unpacking, and the offset in the file of what begins there.
    places: Vec<(usize, usize)>,
}

impl Unpacked {
    /// A file without packed packets.
    pub(crate) fn plain(bytes: Arc<dyn Bytes>) -> Self {
        Unpacked { bytes, places: Vec::new() }
    }

    /// The place in the file of an offset: of packed packets that of what they are packed in.
    pub(crate) fn place(&self, at: usize) -> u64 {
        let known = self.places.partition_point(|(own, _)| *own <= at);
        known.checked_sub(1).map_or(at, |known| self.places[known].1) as u64
    }
}

/// Are there packed packets? Looks at the contents of packets only.
pub(crate) fn has_packed(bytes: &[u8]) -> bool {
    PacketWalk::new(bytes).any(|item| matches!(item, PacketItem::Packet(packet) if is_packed(packet.content)))
}

fn is_packed(content: Option<(u32, &[u8])>) -> bool {
    matches!(content, Some((ZLIB | ZSTD, _)))
}

/// The place for all packets.
struct UnpackedPackets {
    sink: Box<dyn UnpackedSink>,
    written: usize,
    /// Bytes that there may be still.
    left: u64,
}

impl UnpackedPackets {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.left = self.left.checked_sub(bytes.len() as u64).ok_or_else(|| {
            let help = "it is more than 200 times as large unpacked, and more than 1 GiB";
            Error::unsupported("the packed packets are too many").with_help(help)
        })?;
        self.written += bytes.len();
        self.sink.write(bytes)
    }
}

/// Unpacks all packets. Gives what cannot be unpacked, too.
///
/// # Errors
/// When there is no room for them.
pub(crate) fn unpack(storage: &dyn Storage, file: &[u8]) -> Result<(Unpacked, Vec<Error>)> {
    let left = MIN_LIMIT.max((file.len() as u64).saturating_mul(MAX_RATIO));
    let mut out = UnpackedPackets { sink: storage.unpacked(), written: 0, left };
    let (mut places, mut faults) = (Vec::new(), Vec::new());
    for item in PacketWalk::new(file) {
        let packet = match item {
            PacketItem::Packet(packet) => packet,
            PacketItem::Fault(error) => {
                faults.push(error);
                continue;
            }
        };
        places.push((out.written, packet.at));
        let Some((kind, packed)) = packet.content.filter(|_| is_packed(packet.content)) else {
            out.write(&file[packet.at..packet.end])?;
            continue;
        };
        // A part of a packet would hide those after it.
        let mut whole = Vec::new();
        let unpacked = match kind {
            ZLIB => read_all(flate2::read::ZlibDecoder::new(packed), &mut whole, "zlib"),
            _ => unzstd(packed, &mut whole),
        };
        let mut sound = 0;
        let mut walk = PacketWalk::new(&whole);
        while let Some(PacketItem::Packet(inner)) = walk.next() {
            sound = inner.end;
        }
        out.write(&whole[..sound])?;
        let error = match unpacked {
            Err(error) => error,
            Ok(()) if sound < whole.len() => Error::malformed("packed packets hold bytes that are no packets"),
            Ok(()) => continue,
        };
        faults.push(error.at_offset(packet.at as u64).with_help(format!("{sound} bytes of packets are read of it")));
    }
    Ok((Unpacked { bytes: out.sink.finish()?, places }, faults))
}

fn unzstd(packed: &[u8], out: &mut Vec<u8>) -> Result<()> {
    // The window is taken before anything is unpacked: it must not be what the input claims.
    if let Some(window) = zstd_window(packed).filter(|&window| window > MAX_WINDOW_BYTES) {
        return Err(Error::unsupported(format!("a zstd window of {window} bytes")));
    }
    let decoder = StreamingDecoder::new_with_decoder(packed, FrameDecoder::new())
        .map_err(|error| Error::malformed(format!("cannot unpack as zstd: {error}")))?;
    read_all(decoder, out, "zstd")
}

/// Reads as much as can be unpacked.
fn read_all(mut from: impl Read, out: &mut Vec<u8>, name: &str) -> Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        match from.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(len) => out.extend_from_slice(&piece[..len]),
            Err(error) => return Err(Error::malformed(format!("cannot unpack as {name}: {error}"))),
        }
        if out.len() > MAX_PACKET_BYTES {
            return Err(Error::unsupported(format!("more than {MAX_PACKET_BYTES} bytes packed in one packet")));
        }
    }
}
