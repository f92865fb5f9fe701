//! Pieces of time that follow each other.
//!
//! A piece takes four to six bytes: its length and name as varints, in blocks of 64 that say where they begin. Of a block
//! whose pieces all lie in one bucket only its sums are looked at, so that a question about the whole costs no more than
//! one about a part.

use std::io;

use tracemill_codec::bits::{put_leb, take_leb};

use crate::calls::TimelineSlice;
use crate::store::bytes::{Reader, Writer};

/// A piece of time in ns since the base.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct StoredPiece {
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) name: u32,
}

/// Pieces of a block at most.
const BLOCK: u32 = 64;

/// Neighbours in a lane, and what they are together.
#[derive(Clone, Copy, Debug)]
pub(super) struct PieceBlock {
    /// First ns of the first and of the last piece, and one past the last ns.
    pub(super) from: i64,
    last: i64,
    pub(super) to: i64,
    /// Where its bytes begin.
    at: u32,
    pieces: u32,
    /// Ns of all pieces, and of the longest.
    busy: i64,
    longest: i64,
    name: u32,
}

/// Pieces of time that follow each other.
#[derive(Debug, Default)]
pub(super) struct StateLane {
    /// Of each piece: its length with a bit for a hole before it, the length of that, its name.
    pub(super) bytes: Vec<u8>,
    pub(super) blocks: Vec<PieceBlock>,
    pub(super) pieces: u64,
    open: Option<StoredPiece>,
}

impl StateLane {
    /// Adds a piece after all others; where it may go on with the last one, equal ones are one. Gives the bytes that it took.
    pub(super) fn push(&mut self, mut piece: StoredPiece, may_go_on: bool) -> usize {
        // Late knowledge does not change a piece that was reported.
        piece.from = self.open.map_or(piece.from, |open| open.to.max(piece.from));
        if piece.from >= piece.to {
            return 0;
        }
        match &mut self.open {
            Some(open) if may_go_on && open.to == piece.from && open.name == piece.name => {
                open.to = piece.to;
                0
            }
            _ => {
                let before = self.open.replace(piece);
                before.map_or(0, |piece| self.store(piece))
            }
        }
    }

    fn store(&mut self, piece: StoredPiece) -> usize {
        let (bytes, blocks) = (self.bytes.len(), self.blocks.len());
        // A block whose bytes cannot be named ends the lane; the bound of all bytes is far below.
        let Ok(at) = u32::try_from(bytes) else { return 0 };
        let length = piece.to - piece.from;
        let is_new = self.blocks.last().is_none_or(|block| block.pieces >= BLOCK);
        if is_new {
            let StoredPiece { from, name, .. } = piece;
            self.blocks.push(PieceBlock { from, last: from, to: from, at, pieces: 0, busy: 0, longest: -1, name });
        }
        let Some(block) = self.blocks.last_mut() else { return 0 };
        let hole = piece.from - block.to;
        put_leb(&mut self.bytes, (length as u64) << 1 | u64::from(hole > 0), false);
        if hole > 0 {
            put_leb(&mut self.bytes, hole as u64, false);
        }
        put_leb(&mut self.bytes, piece.name.into(), false);
        (block.last, block.to) = (piece.from, piece.to);
        block.pieces += 1;
        block.busy += length;
        if length > block.longest {
            (block.longest, block.name) = (length, piece.name);
        }
        self.pieces += 1;
        self.bytes.len() - bytes + (self.blocks.len() - blocks) * size_of::<PieceBlock>()
    }

    pub(super) fn finish(&mut self) {
        if let Some(piece) = self.open.take() {
            self.store(piece);
        }
        self.bytes.shrink_to_fit();
        self.blocks.shrink_to_fit();
    }

    pub(super) fn write(&self, to: &mut Writer<'_>) -> io::Result<()> {
        to.size(self.blocks.len());
        let mut last = 0;
        for block in &self.blocks {
            to.step(block.from - last);
            to.number(block.pieces.into());
            last = block.from;
        }
        to.bytes(&self.bytes)
    }

    /// Reads what was written; names are below `names`.
    pub(super) fn read(from: &mut Reader<'_>, names: usize) -> Option<StateLane> {
        let mut last = 0i64;
        let blocks = from.list(|from| {
            last = last.checked_add(from.step()?).filter(|begin| begin.unsigned_abs() <= 1 << 62)?;
            Some((last, from.small(BLOCK as usize + 1)?))
        })?;
        let mut lane = StateLane { bytes: from.bytes()?, ..StateLane::default() };
        let mut rest = &lane.bytes[..];
        let mut end = i64::MIN;
        for (from, pieces) in blocks {
            let at = u32::try_from(lane.bytes.len() - rest.len()).ok()?;
            let mut block = PieceBlock { from, last: from, to: from, at, pieces, busy: 0, longest: -1, name: 0 };
            if from < end || pieces == 0 {
                return None;
            }
            for _ in 0..pieces {
                let word = take_leb(&mut rest);
                let hole = if word & 1 == 1 { take_leb(&mut rest) } else { 0 };
                let (length, name) = ((word >> 1) as i64, take_leb(&mut rest));
                block.last = block.to.checked_add_unsigned(hole)?;
                block.to = block.last.checked_add(length).filter(|to| *to <= 1 << 62 && length > 0)?;
                block.busy = block.busy.saturating_add(length);
                if name >= names as u64 {
                    return None;
                }
                if length > block.longest {
                    (block.longest, block.name) = (length, name as u32);
                }
            }
            end = block.to;
            lane.pieces += u64::from(pieces);
            lane.blocks.push(block);
        }
        rest.is_empty().then_some(lane)
    }

    /// Leaves out what is after a time.
    pub(super) fn end_at(&mut self, end: i64) {
        if self.blocks.last().is_none_or(|block| block.to <= end) {
            return;
        }
        let whole = std::mem::take(self);
        let pieces = (0..whole.blocks.len()).flat_map(|block| whole.decoded(block));
        for piece in pieces.take_while(|piece| piece.from < end) {
            self.push(StoredPiece { to: piece.to.min(end), ..piece }, false);
        }
        self.finish();
    }

    /// The first ns, and one past the last.
    pub(super) fn range(&self) -> Option<(i64, i64)> {
        Some((self.blocks.first()?.from, self.blocks.last()?.to))
    }

    /// The pieces that overlap a range with both ends included.
    pub(super) fn pieces_in(&self, begin: i64, last: i64) -> impl Iterator<Item = StoredPiece> {
        let first = self.blocks.partition_point(|block| block.to <= begin);
        let end = self.blocks.partition_point(|block| block.from <= last).max(first);
        let pieces = (first..end).flat_map(|block| self.decoded(block));
        pieces.filter(move |piece| piece.to > begin && piece.from <= last)
    }

    /// The last piece that begins before a time and has a name that is meant.
    pub(super) fn last_before(&self, time: i64, is_meant: &dyn Fn(u32) -> bool) -> Option<StoredPiece> {
        let end = self.blocks.partition_point(|block| block.from < time);
        let is_it = |piece: &StoredPiece| piece.from < time && is_meant(piece.name);
        (0..end).rev().find_map(|block| self.decoded(block).filter(is_it).last())
    }

    /// The pieces of a block.
    pub(super) fn decoded(&self, block: usize) -> impl Iterator<Item = StoredPiece> {
        let PieceBlock { from, at, pieces, .. } = self.blocks[block];
        let mut bytes = &self.bytes[at as usize..];
        let mut time = from;
        (0..pieces).map(move |_| {
            let word = take_leb(&mut bytes);
            if word & 1 == 1 {
                time += take_leb(&mut bytes) as i64;
            }
            let from = time;
            time += (word >> 1) as i64;
            StoredPiece { from, to: time, name: take_leb(&mut bytes) as u32 }
        })
    }

    pub(super) fn gather(&self, into: &mut Gathered<'_>) {
        let first = self.blocks.partition_point(|block| block.to <= into.begin);
        let end = into.end;
        for (at, block) in self.blocks.iter().enumerate().skip(first).take_while(|(_, block)| block.from <= end) {
            let is_one =
                into.bucket(block.from) == into.bucket(block.last) && block.from >= into.begin && block.last <= end;
            if is_one && block.longest >> into.level == 0 {
                into.short(into.bucket(block.from), block.pieces.into(), block.busy, block.longest, block.name);
                continue;
            }
            for piece in self.decoded(at) {
                if piece.to > into.begin && piece.from <= end {
                    into.add_piece(piece);
                }
            }
        }
    }

    /// Pieces near an instant: the last one before it, those at it, and the first one after it.
    pub(super) fn pieces_near(&self, time: i64) -> Vec<StoredPiece> {
        let behind = self.blocks.partition_point(|block| block.from <= time);
        let blocks = behind.saturating_sub(2)..(behind + 1).min(self.blocks.len());
        let all: Vec<StoredPiece> = blocks.flat_map(|block| self.decoded(block)).collect();
        let at = all.partition_point(|piece| piece.from < time);
        all[at.saturating_sub(1)..(at + 2).min(all.len())].to_vec()
    }
}

/// Slices of a lane in some buckets.
pub(super) struct Gathered<'s> {
    pub(super) begin: i64,
    pub(super) end: i64,
    pub(super) level: u32,
    pub(super) depth: u32,
    pub(super) slices: &'s mut Vec<TimelineSlice>,
    /// Short ones of a bucket: the slice, its ns and those of its longest.
    pub(super) open: Option<(TimelineSlice, i64, i64)>,
}

impl Gathered<'_> {
    fn bucket(&self, time: i64) -> i64 {
        (time - self.begin) >> self.level
    }

    fn add_piece(&mut self, piece: StoredPiece) {
        let (at, length) = (self.bucket(piece.from), piece.to - piece.from);
        if length >> self.level == 0 {
            return self.short(at, 1, length, length, piece.name);
        }
        self.close();
        let end = self.bucket(piece.to).min(self.bucket(self.end) + 1);
        let len = Some((end - at).max(1));
        self.slices.push(TimelineSlice { at, len, depth: self.depth, name: piece.name, n: 1, busy: 255 });
    }

    fn short(&mut self, at: i64, n: u64, busy: i64, longest: i64, name: u32) {
        if self.open.is_some_and(|(slice, ..)| slice.at != at) {
            self.close();
        }
        let new = TimelineSlice { at, len: Some(1), depth: self.depth, name, n: 0, busy: 0 };
        let (slice, sum, most) = self.open.get_or_insert((new, 0, -1));
        slice.n += n;
        *sum += busy;
        if longest > *most {
            (*most, slice.name) = (longest, name);
        }
    }

    pub(super) fn close(&mut self) {
        if let Some((slice, busy, _)) = self.open.take() {
            let busy = ((i128::from(busy) * 255) >> self.level).clamp(1, 255) as u8;
            self.slices.push(TimelineSlice { busy, ..slice });
        }
    }
}
