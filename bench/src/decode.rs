//! Decoding in this process: every field of every event, one stream after the other, without merge and text.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracemill_codec::bits::Wide;
use tracemill_codec::chunk::Chunk;
use tracemill_codec::plan::{DecoderState, NodeId, Visitor};
use tracemill_engine::cursor::Cursor;
use tracemill_engine::item::Item;
use tracemill_engine::selection::SpineFilter;
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::source::FileSystem;

use crate::Result;

/// Events of a chunk: as many as a chunk can hold, so that classes of which there are thousands have some in each.
const CHUNK_EVENTS: usize = 1 << 16;

/// Counts of decoded fields.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Decoded {
    /// Events.
    pub(crate) events: u64,
    /// Bytes of the packets.
    pub(crate) bytes: u64,
    /// Values of fields, elements of arrays among them.
    pub(crate) values: u64,
    /// Made of all values, so that none is left out by the compiler.
    pub(crate) checksum: u64,
}

/// Opens a trace as the program does.
pub(crate) fn open(path: &Path) -> Result<Session> {
    let session = Session::open(&FileSystem, &[PathBuf::from(path)], &OpenOptions::new(tracemill_formats::FORMATS))
        .map_err(|error| error.to_string())?;
    match session.failures.first() {
        Some(failure) => Err(failure.to_string()),
        None => Ok(session),
    }
}

/// Shows every field of every event to a visitor, chunk by chunk, one stream after the other.
pub(crate) fn rows(path: &Path) -> Result<Decoded> {
    let session = open(path)?;
    let (mut sum, mut state) = (Checksum::default(), DecoderState::default());
    let (events, bytes) = chunks(&session, |_, chunk| {
        for at in 0..chunk.len() {
            let event = chunk.event(at);
            sum.fold(event.cycles());
            event.visit_flat(&mut state, &mut sum).map_err(|fault| fault.kind.to_string())?;
        }
        Ok(())
    })?;
    Ok(Decoded { events, bytes, values: sum.values, checksum: black_box(sum.sum) })
}

/// Times of the first and the last event in ns. Those of the packets may be wider: a tracer may close its last packet
/// long after the last event.
pub(crate) fn times(path: &Path) -> Result<(i128, i128)> {
    let session = open(path)?;
    let mut times: Option<(i128, i128)> = None;
    chunks(&session, |trace, chunk| {
        let Some(clock) = session.clock_map(trace, chunk.packet.packet.class) else { return Ok(()) };
        for ns in chunk.cycles.iter().map(|&cycles| clock.ns(cycles)) {
            let (first, last) = times.get_or_insert((ns, ns));
            (*first, *last) = ((*first).min(ns), (*last).max(ns));
        }
        Ok(())
    })?;
    times.ok_or_else(|| format!("{}: no events with a time", path.display()))
}

/// All chunks of all streams, with the index of their trace; gives the number of events and of bytes.
fn chunks(session: &Session, mut take: impl FnMut(usize, Chunk) -> Result<()>) -> Result<(u64, u64)> {
    let (mut events, mut bytes) = (0, 0);
    for (trace, of) in session.traces.iter().enumerate() {
        for stream in &of.streams {
            bytes += stream.packets.iter().map(|packet| packet.total_bits / 8).sum::<u64>();
            let clock = session.clock_map(trace, stream.class);
            let stream = Arc::new(stream.clone());
            let mut cursor = Cursor::new(of, stream, clock, SpineFilter::default(), CHUNK_EVENTS);
            while let Some(item) = cursor.next() {
                match item {
                    Item::Chunk(ready) => {
                        events += ready.chunk.len() as u64;
                        take(trace, ready.chunk)?;
                    }
                    // A trace that is damaged is no measure.
                    Item::Fault(error) => return Err(error.to_string()),
                    Item::Gap(_) | Item::Packet(..) | Item::Warning(_) => {}
                }
            }
        }
    }
    Ok((events, bytes))
}

/// Folds values into one number: an addition each, so that the decoder is measured and not the visitor.
#[derive(Default)]
struct Checksum {
    sum: u64,
    values: u64,
}

impl Checksum {
    #[inline]
    fn fold(&mut self, value: u64) {
        self.sum = self.sum.wrapping_add(value);
    }

    #[inline]
    fn value(&mut self, value: u64) {
        self.values += 1;
        self.fold(value);
    }

    /// The length and the ends of a string.
    #[inline]
    fn ends(&mut self, bytes: &[u8]) {
        let ends = bytes.first().zip(bytes.last()).map_or(0, |(first, last)| u64::from(*first) + u64::from(*last));
        self.value(ends + bytes.len() as u64);
    }
}

impl Visitor for Checksum {
    #[inline]
    fn unsigned(&mut self, _node: NodeId, value: u64) {
        self.value(value);
    }
    #[inline]
    fn signed(&mut self, _node: NodeId, value: i64) {
        self.value(value as u64);
    }
    #[inline]
    fn wide(&mut self, _node: NodeId, value: &Wide) {
        self.value(value.limbs.iter().fold(0, |sum, &limb| sum ^ limb));
    }
    #[inline]
    fn boolean(&mut self, _node: NodeId, value: bool) {
        self.value(u64::from(value));
    }
    #[inline]
    fn real(&mut self, _node: NodeId, value: f64) {
        self.value(value.to_bits());
    }
    #[inline]
    fn string(&mut self, _node: NodeId, bytes: &[u8]) {
        self.ends(bytes);
    }
    #[inline]
    fn blob(&mut self, _node: NodeId, bytes: &[u8]) {
        self.ends(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_seen() {
        let demo = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../demo/traces/mill"));
        let rows = rows(demo).unwrap();
        assert!(rows.events > 0 && rows.values > rows.events);
    }
}
