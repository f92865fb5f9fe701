//! Reading the events of a scan: from packets to batches of rows.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::{Schema, SchemaRef};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileOpenFuture, FileOpener};
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use futures::StreamExt;
use tracemill_codec::plan::Fault;
use tracemill_engine::cursor::Cursor;
use tracemill_engine::filter::{Filter, Matcher};
use tracemill_engine::item::{Item, ReadyChunk};
use tracemill_engine::selection::{SelectedStream, SpineFilter};
use tracemill_engine::timeline::cycle_range;
use tracemill_model::error::{Error, ErrorKind};

use crate::database::Database;
use crate::event_columns::SelectedEvents;
use crate::filters::{Condition, Decided, StreamScan, matches};
use crate::gather::Gatherer;
use crate::merged::{Merged, in_places};
use crate::part::ScanPart;
use crate::table::{EventTable, TableColumn};

/// Its words: all of it that comes back from other processes.
pub const OUT_OF_ORDER: &str = "the times of events go back where the headers of packets say that they do not";

/// The events of a stream do not come in the order that was promised: the query is planned again without it.
#[derive(Debug)]
pub(crate) struct OutOfOrder;

impl fmt::Display for OutOfOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(OUT_OF_ORDER)
    }
}

impl std::error::Error for OutOfOrder {}

/// Opens the files of a scan.
#[derive(Clone)]
pub(crate) struct Opener {
    pub(crate) database: Arc<Database>,
    pub(crate) streams: Arc<Decided>,
    /// All columns, and their fields.
    pub(crate) columns: Vec<TableColumn>,
    pub(crate) schema: SchemaRef,
    /// Which of them are made.
    pub(crate) wanted: Vec<usize>,
    /// Rows for which it is not true are left out.
    pub(crate) condition: Option<Condition>,
    /// Are events numbered?
    pub(crate) is_numbered: bool,
    /// Must events come in the order of time?
    pub(crate) is_ordered: bool,
    /// The table whose rows are read, when nothing but the selection of the database leaves any out.
    pub(crate) whole: Option<Arc<EventTable>>,
    /// Are their times looked at before the first row is given, so that the query can be planned again?
    pub(crate) verifies: bool,
    pub(crate) batch_size: usize,
    pub(crate) metrics: ExecutionPlanMetricsSet,
    pub(crate) partition: usize,
}

impl FileOpener for Opener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let part = file.extension::<ScanPart>().cloned();
        let part = part.ok_or_else(|| DataFusionError::Internal("a file that is not part of a trace".into()))?;
        let opener = self.clone();
        Ok(Box::pin(async move {
            let mut reader = PartReader::new(opener, &part)?;
            let batches = std::iter::from_fn(move || reader.next_batch().transpose());
            Ok(futures::stream::iter(batches).boxed())
        }))
    }
}

impl Opener {
    /// Is nothing asked of events but how many there are?
    fn only_counts(&self) -> bool {
        let has_conditions = self.condition.is_some() || self.database.filter.is_some();
        self.wanted.is_empty() && !has_conditions && !self.is_numbered && !self.is_ordered
    }
}

/// A cursor over what is wanted of a stream; `None` when that is nothing.
pub(crate) fn cursor(database: &Database, scan: &StreamScan, stream: usize) -> Option<Cursor> {
    let of = &database.streams[stream];
    let classes = scan.classes.clone()?;
    let all = database.session.traces[of.trace].schema.events().len();
    // A scan without a filter of classes is faster.
    let in_stream = |class: usize| {
        let schema = &database.session.traces[of.trace].schema;
        schema.events()[class].stream == of.stream.class
    };
    let has_all = (0..all).all(|class| !in_stream(class) || classes.has(class as u32));
    let cycles = match (&of.clock, scan.times) {
        (Some(clock), Some((begin, end))) => {
            let begin = Some(begin).filter(|&ns| ns > i128::MIN);
            Some(cycle_range(clock, begin, Some(end).filter(|&ns| ns < i128::MAX))?)
        }
        _ => None,
    };
    let filter = SpineFilter { cycles, classes: (!has_all).then_some(classes) };
    Some(Cursor::new(&database.session.traces[of.trace], of.stream.clone(), of.clock, filter, CHUNK_EVENTS))
}

/// Events of a chunk.
const CHUNK_EVENTS: usize = 8192;
/// Rows without columns that one batch has at most: a constant beside them is repeated for each.
const COUNTED_ROWS: u64 = 1 << 16;
/// Chunks that wait for a condition to be decided: each keeps a packet open.
const WAITING_CHUNKS: usize = 256;

/// Reads a part.
struct PartReader {
    opener: Opener,
    part: ScanPart,
    /// Rows so far.
    rows: usize,
    has_faults: bool,
    source: EventSource,
    matcher: Option<Matcher>,
    gatherer: Gatherer,
    /// Events that were only counted, and whose rows were not given yet.
    counted: u64,
    condition: Option<(Condition, Gatherer)>,
    /// Events whose condition is not decided yet.
    waiting: Vec<Waiting>,
    waiting_rows: usize,
    /// The places of the rows that are made, where streams are merged.
    places: Vec<u64>,
    /// The clock value of the last event.
    last: u64,
    is_over: bool,
    scanned: Count,
    matched: Count,
    packets: Count,
    bytes: Count,
    decoded: Count,
    /// Stream, file and place of the packet that was read last.
    packet: Option<(usize, u32, u64)>,
    turned: Turned,
    /// Which columns are fields.
    fields: Vec<bool>,
}

/// A step of reading.
enum ReadStep {
    Events(Waiting),
    /// Events of which nothing but their number is wanted.
    Counted,
    End,
}

enum EventSource {
    Nothing,
    Stream(usize, Box<Cursor>),
    Merged(Box<Merged>),
}

/// Events of a chunk.
pub(crate) struct Waiting {
    pub(crate) stream: usize,
    pub(crate) ready: Arc<ReadyChunk>,
    pub(crate) events: Vec<u32>,
    pub(crate) numbers: Vec<i64>,
    /// Their places in the order of all events, where streams are merged.
    pub(crate) places: Vec<u64>,
}

impl PartReader {
    fn new(opener: Opener, part: &ScanPart) -> Result<PartReader> {
        let database = opener.database.clone();
        let mut turned = Turned::default();
        let source = match part {
            ScanPart::Merged => EventSource::Merged(Box::new(Merged::new(&opener)?)),
            ScanPart::Packets { stream, packets } => {
                let part = || {
                    let cursor = cursor(&database, &opener.streams.streams[*stream], *stream);
                    // A range from the first packet on is always one.
                    cursor.and_then(|cursor| cursor.with_packets(packets.clone()))
                };
                if opener.verifies
                    && let Some(cursor) = part()
                {
                    turned.packets = verify(&database.streams[*stream], cursor)?;
                }
                match part() {
                    Some(mut cursor) => {
                        if opener.only_counts() {
                            cursor.count_packets();
                        }
                        EventSource::Stream(*stream, Box::new(cursor))
                    }
                    None => EventSource::Nothing,
                }
            }
        };
        let gatherer = |wanted: &[usize]| {
            let columns: Vec<TableColumn> = wanted.iter().map(|&at| opener.columns[at].clone()).collect();
            let fields: Vec<_> = wanted.iter().map(|&at| opener.schema.fields()[at].clone()).collect();
            let schema: SchemaRef = Arc::new(Schema::new(fields));
            (Gatherer::new(&database, &columns, &schema), schema)
        };
        let condition = match &opener.condition {
            None => None,
            Some(condition) => {
                let mut used: Vec<usize> = collect_columns(condition).iter().map(|column| column.index()).collect();
                used.sort_unstable();
                let (gatherer, schema) = gatherer(&used);
                Some((reassign_expr_columns(condition.clone(), &schema)?, gatherer))
            }
        };
        let count = |name| MetricBuilder::new(&opener.metrics).counter(name, opener.partition);
        Ok(PartReader {
            source,
            matcher: database.filter.as_ref().map(Filter::matcher),
            gatherer: gatherer(&opener.wanted).0,
            counted: 0,
            condition,
            waiting: Vec::new(),
            waiting_rows: 0,
            places: Vec::new(),
            last: 0,
            part: part.clone(),
            rows: 0,
            has_faults: false,
            is_over: false,
            scanned: count("events_scanned"),
            matched: count("events_matched"),
            packets: count("packets_read"),
            bytes: count("bytes_read"),
            decoded: count("fields_decoded"),
            packet: None,
            turned,
            fields: opener.columns.iter().map(|column| matches!(column, TableColumn::Field(_))).collect(),
            opener,
        })
    }

    /// The next rows; `None` at the end.
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        while !self.is_over && self.counted < COUNTED_ROWS && !self.is_full() {
            match self.next()? {
                ReadStep::Events(waiting) => self.gather_events(waiting)?,
                ReadStep::Counted => {}
                ReadStep::End => {
                    self.is_over = true;
                    self.decide()?;
                    if let Some(table) = self.opener.whole.as_ref().filter(|_| !self.has_faults) {
                        let rows = self.rows + self.gatherer.rows() + self.counted as usize;
                        self.opener.database.note_rows(table, self.part.clone(), rows);
                    }
                }
            }
        }
        if matches!(self.source, EventSource::Merged(_)) {
            // Rows that wait for the condition may come before others.
            self.decide()?;
        }
        let counted = self.counted.min(COUNTED_ROWS);
        self.counted -= counted;
        self.gatherer.add_rows(counted as usize);
        if self.gatherer.rows() == 0 {
            return Ok(None);
        }
        self.matched.add(self.gatherer.rows());
        self.rows += self.gatherer.rows();
        let batch = self.gatherer.take()?;
        Ok(Some(in_places(batch, std::mem::take(&mut self.places))?))
    }

    /// Are there rows enough, and all that belong before the last of them?
    fn is_full(&self) -> bool {
        let is_complete = match &self.source {
            EventSource::Merged(merged) => merged.is_complete(),
            _ => true,
        };
        is_complete && self.gatherer.is_full(self.opener.batch_size)
    }

    /// Appends rows.
    fn push(&mut self, waiting: &Waiting) {
        self.places.extend_from_slice(&waiting.places);
        let pushed = self.gatherer.push(&waiting.selected());
        self.reported(waiting, pushed);
    }

    /// The next events.
    fn next(&mut self) -> Result<ReadStep> {
        loop {
            if let Some(sorted) = self.turned.sorted.pop_front() {
                return Ok(ReadStep::Events(sorted));
            }
            let (stream, item) = match &mut self.source {
                EventSource::Nothing => return Ok(ReadStep::End),
                EventSource::Stream(stream, cursor) => match cursor.next() {
                    Some(item) => (*stream, item),
                    None if self.turned.held.is_empty() => return Ok(ReadStep::End),
                    None => {
                        self.turned.sort();
                        continue;
                    }
                },
                EventSource::Merged(merged) => {
                    let next = merged.next(&self.opener);
                    self.has_faults |= merged.has_faults;
                    return Ok(next.map_or(ReadStep::End, ReadStep::Events));
                }
            };
            match item {
                Item::Chunk(ready) => {
                    let events = (0..ready.chunk.len() as u32).collect();
                    let ready = Arc::new(ready);
                    let waiting = Waiting { stream, ready, events, numbers: Vec::new(), places: Vec::new() };
                    match self.turned.hold(waiting) {
                        Some(waiting) if self.turned.sorted.is_empty() => return Ok(ReadStep::Events(waiting)),
                        // After the packet before.
                        waiting => self.turned.sorted.extend(waiting),
                    }
                }
                Item::Fault(fault) => {
                    self.has_faults = true;
                    self.opener.database.collector.fault(fault);
                }
                Item::Warning(warning) => self.opener.database.collector.warning(warning),
                Item::Packet(packet, events) => {
                    let packet = &packet.packet;
                    self.note_packet((stream, packet.file, packet.offset_bytes), packet.total_bits);
                    self.scanned.add(events as usize);
                    self.counted += events;
                    return Ok(ReadStep::Counted);
                }
                Item::Gap(_) => {}
            }
        }
    }

    /// Counts a packet when it is another one than the last.
    fn note_packet(&mut self, place: (usize, u32, u64), total_bits: u64) {
        if self.packet.replace(place) != Some(place) {
            self.packets.add(1);
            self.bytes.add((total_bits / 8) as usize);
        }
    }

    /// Takes the events that are wanted, as far as no column decides.
    fn gather_events(&mut self, mut waiting: Waiting) -> Result<()> {
        self.scanned.add(waiting.events.len());
        let (file, offset) = waiting.place();
        self.note_packet((waiting.stream, file, offset), waiting.ready.chunk.packet.packet.total_bits);
        self.check_order(&waiting)?;
        if let Some(matcher) = &mut self.matcher {
            let of = &self.opener.database.streams[waiting.stream];
            let ready = waiting.ready.clone();
            waiting.retain(|at| matcher.matches(&of.event(ready.chunk.event(at as usize))));
        }
        if waiting.events.is_empty() {
            return Ok(());
        }
        if self.condition.is_none() {
            let fields = self.field_count(self.opener.wanted.iter().copied());
            self.decoded.add(fields * waiting.events.len());
            self.push(&waiting);
            return Ok(());
        }
        self.waiting_rows += waiting.events.len();
        self.waiting.push(waiting);
        if self.waiting_rows >= CHUNK_EVENTS.min(4 * self.opener.batch_size) || self.waiting.len() >= WAITING_CHUNKS {
            self.decide()?;
        }
        Ok(())
    }

    fn check_order(&mut self, waiting: &Waiting) -> Result<()> {
        if !self.opener.is_ordered {
            return Ok(());
        }
        let of = &self.opener.database.streams[waiting.stream];
        // Events of a packet that was sorted were looked at before.
        if !self.turned.packets.contains(&waiting.place()) {
            follows(of, &waiting.ready, self.last)?;
        }
        // All events of the chunk: only where streams are merged does one come in pieces, and then no order is promised.
        let last = waiting.ready.chunk.cycles.iter().max();
        self.last = last.map_or(self.last, |&last| last.max(self.last));
        Ok(())
    }

    /// How many of some columns are fields.
    fn field_count(&self, wanted: impl Iterator<Item = usize>) -> usize {
        wanted.filter(|&at| self.fields[at]).count()
    }

    /// Decides the condition for all events that wait.
    fn decide(&mut self) -> Result<()> {
        let all = std::mem::take(&mut self.waiting);
        self.waiting_rows = 0;
        let of_rows = self.field_count(self.opener.wanted.iter().copied());
        let of_condition = match &self.opener.condition {
            Some(condition) => self.field_count(collect_columns(condition).iter().map(|column| column.index())),
            None => 0,
        };
        let Some((condition, gatherer)) = &mut self.condition else { return Ok(()) };
        let mut faults = Vec::new();
        self.decoded.add(of_condition * all.iter().map(|waiting| waiting.events.len()).sum::<usize>());
        for waiting in &all {
            faults.push(gatherer.push(&waiting.selected()));
        }
        if gatherer.rows() == 0 {
            return Ok(());
        }
        let is_true: BooleanArray = matches(condition, &gatherer.take()?)?;
        let mut row = 0;
        for (mut waiting, fault) in all.into_iter().zip(faults) {
            self.reported(&waiting, fault);
            waiting.retain(|_| {
                row += 1;
                is_true.value(row - 1)
            });
            if !waiting.events.is_empty() {
                self.decoded.add(of_rows * waiting.events.len());
                self.push(&waiting);
            }
        }
        Ok(())
    }

    /// Tells of an event that cannot be read again.
    fn reported(&self, waiting: &Waiting, result: std::result::Result<(), Fault>) {
        let Err(fault) = result else { return };
        let packet = &waiting.ready.chunk.packet.packet;
        let of = &self.opener.database.streams[waiting.stream];
        let error = Error::new(ErrorKind::Io, format!("an event changed while it was read: {}", fault.kind));
        let error = error.in_file(&of.stream.files[packet.file as usize].path).in_packet(packet.index);
        self.opener.database.collector.fault(error);
    }
}

/// A packet: its file, and where it stands there.
type PacketPlace = (u32, u64);

/// Packets inside of which time goes back. The next one begins after all of their events, so sorting each is enough.
#[derive(Default)]
struct Turned {
    packets: HashSet<PacketPlace>,
    /// Events of the packet that is read.
    held: Vec<Waiting>,
    /// Events of a packet that was read.
    sorted: VecDeque<Waiting>,
}

/// Events of packets that are sorted at once; more are left to the sort of a plan, which may write them to a disk.
const SORTED_EVENTS: usize = 1 << 18;

impl Turned {
    /// Keeps events of packets that are to be sorted, and gives others back.
    fn hold(&mut self, waiting: Waiting) -> Option<Waiting> {
        if self.held.first().is_some_and(|first| first.place() != waiting.place()) {
            self.sort();
        }
        if !self.packets.contains(&waiting.place()) {
            return Some(waiting);
        }
        self.held.push(waiting);
        None
    }

    fn sort(&mut self) {
        let held = std::mem::take(&mut self.held);
        let mut order: Vec<(usize, u32)> = Vec::new();
        for (chunk, waiting) in held.iter().enumerate() {
            order.extend(waiting.events.iter().map(|&event| (chunk, event)));
        }
        // Events of one time stay as they are written.
        order.sort_by_key(|&(chunk, event)| held[chunk].ready.chunk.cycles[event as usize]);
        for of_chunk in order.chunk_by(|a, b| a.0 == b.0) {
            let Waiting { stream, ready, .. } = &held[of_chunk[0].0];
            let events = of_chunk.iter().map(|&(_, event)| event).collect();
            let (numbers, places) = (Vec::new(), Vec::new());
            self.sorted.push_back(Waiting { stream: *stream, ready: ready.clone(), events, numbers, places });
        }
    }
}

/// Looks at the times of all events of a part; the packets inside of which they go back.
///
/// # Errors
/// [`OutOfOrder`] when they go back from one packet to another.
fn verify(of: &SelectedStream, mut cursor: Cursor) -> Result<HashSet<PacketPlace>> {
    let (mut turned, mut turned_events) = (HashSet::new(), 0);
    // Of all packets that were left, and of the one that is looked at.
    let (mut before, mut last) = (0, 0);
    let (mut place, mut events) = (None, 0);
    while let Some(item) = cursor.next() {
        // Damage is reported when it is read for its rows.
        let Item::Chunk(ready) = item else { continue };
        let packet = &ready.chunk.packet.packet;
        let own = (packet.file, packet.offset_bytes);
        if place.replace(own) != Some(own) {
            before = last;
            events = 0;
        }
        let (Some(&least), Some(&most)) = (ready.chunk.cycles.iter().min(), ready.chunk.cycles.iter().max()) else {
            continue;
        };
        if least < before || is_before_all(of, least) {
            return Err(DataFusionError::External(Box::new(OutOfOrder)));
        }
        events += ready.chunk.len();
        if turned.contains(&own) {
            turned_events += ready.chunk.len();
        } else if ready.floors.is_some() || least < last {
            turned.insert(own);
            turned_events += events;
        }
        if turned_events > SORTED_EVENTS {
            return Err(DataFusionError::External(Box::new(OutOfOrder)));
        }
        last = last.max(most);
    }
    Ok(turned)
}

/// Would a time be NULL?
fn is_before_all(of: &SelectedStream, cycles: u64) -> bool {
    of.clock.is_some_and(|clock| clock.ns(cycles) < i64::MIN.into())
}

/// Does a chunk follow an event in time?
fn follows(of: &SelectedStream, ready: &ReadyChunk, before: u64) -> Result<()> {
    let first = ready.chunk.cycles.first();
    if ready.floors.is_some() || first.is_some_and(|&first| first < before || is_before_all(of, first)) {
        return Err(DataFusionError::External(Box::new(OutOfOrder)));
    }
    Ok(())
}

impl Waiting {
    fn place(&self) -> PacketPlace {
        let packet = &self.ready.chunk.packet.packet;
        (packet.file, packet.offset_bytes)
    }

    fn selected(&self) -> SelectedEvents<'_> {
        SelectedEvents { stream: self.stream, chunk: &self.ready.chunk, events: &self.events, numbers: &self.numbers }
    }

    /// Keeps some of the events, which are asked for in their order.
    fn retain(&mut self, mut is_wanted: impl FnMut(u32) -> bool) {
        let kept: Vec<bool> = self.events.iter().map(|&at| is_wanted(at)).collect();
        let mut at = kept.iter();
        self.events.retain(|_| at.next().copied().unwrap_or(false));
        let mut at = kept.iter();
        self.numbers.retain(|_| at.next().copied().unwrap_or(false));
        let mut at = kept.iter();
        self.places.retain(|_| at.next().copied().unwrap_or(false));
    }
}

/// The rows of all streams, batch by batch.
pub(crate) struct Batches(PartReader);

impl Batches {
    /// Batches in the order of time.
    pub(crate) fn merged(opener: Opener) -> Result<Batches> {
        Ok(Batches(PartReader::new(opener, &ScanPart::Merged)?))
    }

    /// The next rows; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<RecordBatch>> {
        self.0.next_batch()
    }
}
