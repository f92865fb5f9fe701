//! Events of all streams in their order, as pieces of chunks.
//!
//! Where several streams are recorded at once, runs of one stream are an event or two long. Each batch of the merged order is
//! cut by chunk instead, so that columns are gathered from many events at once, and its rows are put in order after the last
//! piece.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_select::take::take_record_batch;
use datafusion::common::{DataFusionError, Result};
use tracemill_codec::chunk::Chunk;
use tracemill_engine::merge::{Batch, Merger, Note};
use tracemill_engine::selection::{self, ClassSet, SelectedStream};
use tracemill_engine::timeline::{Selection, merger};

use crate::read::{Opener, Waiting};

/// Reads all streams.
pub(crate) struct Merged {
    merger: Merger,
    /// For each stream of the merger its index in the database, `None` for one that is only counted.
    streams: Vec<Option<usize>>,
    all: Vec<SelectedStream>,
    next: i64,
    pub(crate) has_faults: bool,
    /// Events of a batch that were not given yet. Those of a chunk come together, and their rows are put in order after the
    /// last of them.
    ready: VecDeque<Waiting>,
    /// Events are large: those that wait are runs in their order, and rows may be given between any two of them.
    is_by_runs: bool,
}

impl Merged {
    /// All streams that the scan wants.
    pub(crate) fn new(opener: &Opener) -> Result<Merged> {
        let database = &opener.database;
        let scans = &opener.streams.streams;
        let mut selection = Selection { memory_bytes: database.selection.memory_bytes, ..Selection::default() };
        let (all, streams): (Vec<SelectedStream>, Vec<Option<usize>>) = if opener.is_numbered {
            let all = selection::streams(&database.session, &[])
                .map_err(|error| DataFusionError::External(Box::new(error)))?;
            let own = |of: &SelectedStream| {
                database.streams.iter().position(|known| (known.trace, known.index) == (of.trace, of.index))
            };
            let streams = all.iter().map(own).collect();
            (all, streams)
        } else {
            let traces = database.session.traces.len();
            selection.of_traces_ns = vec![None; traces];
            let mut classes: Vec<Vec<bool>> =
                database.session.traces.iter().map(|trace| vec![false; trace.schema.events().len()]).collect();
            for (of, scan) in database.streams.iter().zip(scans) {
                selection.of_traces_ns[of.trace] = scan.times;
                if let Some(wanted) = &scan.classes {
                    let all = classes[of.trace].iter_mut().enumerate();
                    all.for_each(|(class, is_wanted)| *is_wanted |= wanted.has(class as u32));
                }
            }
            let set = |wanted: &Vec<bool>| {
                let has_all = wanted.iter().all(|&is_wanted| is_wanted);
                (!has_all).then(|| Arc::new(ClassSet::new(wanted.len(), |class| wanted[class])))
            };
            selection.classes = classes.iter().map(set).collect();
            let wanted = (0..scans.len()).filter(|&at| scans[at].classes.is_some());
            wanted.map(|at| (database.streams[at].clone(), Some(at))).unzip()
        };
        let merger = merger(&database.session, &all, &selection);
        Ok(Merged { merger, streams, all, next: 0, has_faults: false, ready: VecDeque::new(), is_by_runs: false })
    }

    /// May rows be given now, without any of those before them missing?
    pub(crate) fn is_complete(&self) -> bool {
        self.ready.is_empty() || self.is_by_runs
    }

    /// The next events that are wanted.
    pub(crate) fn next(&mut self, opener: &Opener) -> Option<Waiting> {
        loop {
            if let Some(waiting) = self.ready.pop_front() {
                return Some(waiting);
            }
            let batch = self.merger.next_batch(opener.batch_size.min(4096))?;
            self.is_by_runs = are_large(&batch);
            for note in batch.notes {
                match note {
                    Note::Fault(fault) => {
                        self.has_faults = true;
                        opener.database.collector.fault(fault);
                    }
                    Note::Warning(warning) => opener.database.collector.warning(warning),
                    Note::Gap(..) => {}
                }
            }
            // The piece of each chunk of the batch.
            let mut pieces: Vec<Option<usize>> = vec![None; batch.chunks.len()];
            for run in &batch.runs {
                let (stream, ready) = &batch.chunks[run.chunk as usize];
                let first = self.next;
                self.next += i64::from(run.to - run.from);
                let Some(own) = self.streams[stream.0 as usize] else { continue };
                let (scan, of) = (&opener.streams.streams[own], &self.all[stream.0 as usize]);
                let Some(classes) = &scan.classes else { continue };
                let is_wanted = |&at: &u32| {
                    let chunk = &ready.chunk;
                    let is_in_time = match (&of.clock, scan.times) {
                        (Some(clock), Some((begin, end))) => {
                            (begin..=end).contains(&clock.ns(chunk.cycles[at as usize]))
                        }
                        _ => true,
                    };
                    is_in_time && classes.has(chunk.classes[at as usize])
                };
                if self.is_by_runs {
                    pieces[run.chunk as usize] = None;
                }
                for at in (run.from..run.to).filter(is_wanted) {
                    let piece = *pieces[run.chunk as usize].get_or_insert_with(|| {
                        let (ready, events, numbers, places) = (ready.clone(), Vec::new(), Vec::new(), Vec::new());
                        self.ready.push_back(Waiting { stream: own, ready, events, numbers, places });
                        self.ready.len() - 1
                    });
                    let piece = &mut self.ready[piece];
                    let number = first + i64::from(at - run.from);
                    piece.events.push(at);
                    if opener.is_numbered {
                        piece.numbers.push(number);
                    }
                    piece.places.push(number as u64);
                }
            }
        }
    }
}

/// Bytes of events that may be kept until the rows of a batch are in their order.
const MOST_MERGED_BYTES: u64 = 4 << 20;

/// Are the events of a batch large, as far as the mean of those of each chunk shows?
fn are_large(batch: &Batch) -> bool {
    let mean_bits = |chunk: &Chunk| match chunk.len() {
        0 => 0,
        1 => chunk.packet.packet.content_bits,
        len => chunk.start_bits(len - 1).saturating_sub(chunk.start_bits(0)) / (len as u64 - 1),
    };
    let of_chunks: Vec<u64> = batch.chunks.iter().map(|(_, ready)| mean_bits(&ready.chunk)).collect();
    let bits = batch.runs.iter().map(|run| u64::from(run.to - run.from).saturating_mul(of_chunks[run.chunk as usize]));
    bits.fold(0, u64::saturating_add) / 8 > MOST_MERGED_BYTES
}

/// The rows of a batch in the order of their places; without places they are in order.
pub(crate) fn in_places(batch: RecordBatch, places: Vec<u64>) -> Result<RecordBatch> {
    if batch.num_columns() == 0 || places.is_sorted() {
        return Ok(batch);
    }
    let (first, last) = places.iter().fold((u64::MAX, 0), |(first, last), &at| (first.min(at), last.max(at)));
    let span = (last - first) as usize + 1;
    let order: UInt32Array = if span <= 4 * places.len() {
        let mut rows = vec![u32::MAX; span];
        (0..).zip(&places).for_each(|(row, at)| rows[(at - first) as usize] = row);
        rows.into_iter().filter(|&row| row != u32::MAX).collect()
    } else {
        let mut rows: Vec<u32> = (0..places.len() as u32).collect();
        rows.sort_unstable_by_key(|&row| places[row as usize]);
        rows.into()
    };
    Ok(take_record_batch(&batch, &order)?)
}
