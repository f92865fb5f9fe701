//! The database of queries: a session whose events are numbered, and the facts that were found out about it.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow_array::{ArrayRef, StringArray};
use tracemill_columns::Dropped;
use tracemill_engine::check::{Severity, check};
use tracemill_engine::collector::Collector;
use tracemill_engine::filter::Filter;
use tracemill_engine::samples::Symbolizer;
use tracemill_engine::selection::{self, SelectedStream};
use tracemill_engine::session::Session;
use tracemill_engine::survey::{TraceSurvey, survey};
use tracemill_engine::timeline::Selection;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::{ClockOrigin, EventClassId};

use crate::defined_states::DefinedStates;
use crate::part::ScanPart;
use crate::table::EventTable;

/// The name of classes without a name, as a table.
pub(crate) const NO_NAME: &str = "(no name)";

/// The traces that queries are asked of, and the events of them that are wanted.
pub struct Database {
    pub(crate) session: Arc<Session>,
    /// The streams that are read.
    pub(crate) streams: Vec<SelectedStream>,
    pub(crate) selection: Selection,
    /// Conditions that the selection does not hold.
    pub(crate) filter: Option<Filter>,
    /// Threads.
    pub(crate) jobs: usize,
    /// Errors and warnings of reading.
    pub collector: Collector,
    /// Values that columns could not hold.
    pub(crate) lost: Lost,
    /// Number of the first class of each trace.
    first_class: Vec<u32>,
    /// Number of the first packet of each stream, by trace and stream.
    first_packet: Vec<Vec<u64>>,
    /// Names of event classes, each once, and for each trace and class its place among them.
    pub(crate) class_names: ArrayRef,
    pub(crate) class_name_of: Vec<Vec<Option<i32>>>,
    pub(crate) trace_names: ArrayRef,
    /// Names of the streams that are read.
    pub(crate) stream_names: ArrayRef,
    /// Classes by the name of their table, in the order of their numbers.
    pub(crate) by_name: Vec<(String, Vec<(usize, EventClassId)>)>,
    tables: Mutex<HashMap<String, Arc<EventTable>>>,
    /// Finds the functions of samples.
    pub(crate) symbolizer: Option<Arc<dyn Symbolizer>>,
    /// States and counters that the user defines.
    pub(crate) states: Option<DefinedStates>,
    /// Are queries kept from writing, and from files that are no traces?
    pub(crate) reads_only: bool,
    headers: OnceLock<Vec<TraceSurvey>>,
    counted: OnceLock<Vec<TraceSurvey>>,
    checked: OnceLock<Vec<Error>>,
    /// Rows of the parts of tables that were read to their ends without damage.
    rows_of_parts: Mutex<HashMap<TableKey, HashMap<ScanPart, usize>>>,
}

/// A table of events: is it one of classes, and its name?
type TableKey = (bool, String);

/// Values that columns cannot hold, counted.
#[derive(Default)]
pub(crate) struct Lost {
    /// Times outside of 64 bits.
    pub(crate) times: AtomicU64,
    /// Integers of variable length with more than 64 bits.
    pub(crate) wide: AtomicU64,
    /// Texts and blobs after the first 2 GiB of a batch.
    pub(crate) huge: AtomicU64,
}

impl Lost {
    fn all(&self) -> [&AtomicU64; 3] {
        [&self.times, &self.wide, &self.huge]
    }

    /// Takes what was counted: times, integers, values.
    pub(crate) fn take(&self) -> [u64; 3] {
        self.all().map(|count| count.swap(0, Ordering::Relaxed))
    }

    /// Adds to one of what [`Lost::take`] takes.
    pub(crate) fn add_to(&self, at: usize, count: u64) {
        self.all()[at].fetch_add(count, Ordering::Relaxed);
    }

    /// Counts what columns dropped since they were asked before.
    pub(crate) fn add(&self, before: &mut Dropped, now: Dropped) {
        self.wide.fetch_add(now.wide - before.wide, Ordering::Relaxed);
        self.huge.fetch_add(now.huge - before.huge, Ordering::Relaxed);
        *before = now;
    }
}

impl Database {
    /// The events of a session that the selection and the filter leave, of the streams with these names or ids; all when
    /// there are none.
    ///
    /// # Errors
    /// When no stream has one of the names.
    pub fn new(
        session: impl Into<Arc<Session>>,
        streams: &[String],
        selection: Selection,
        filter: Option<Filter>,
        jobs: usize,
    ) -> Result<Database> {
        let session = session.into();
        let streams = selection::streams(&session, streams)?;
        Ok(Database::from_streams(session, streams, selection, filter, jobs))
    }

    /// The same of streams that were looked up.
    pub fn from_streams(
        session: Arc<Session>,
        streams: Vec<SelectedStream>,
        selection: Selection,
        filter: Option<Filter>,
        jobs: usize,
    ) -> Database {
        let (mut first_class, mut next_class) = (Vec::new(), 0);
        let (mut first_packet, mut next_packet) = (Vec::new(), 0);
        let mut names: Vec<&str> = Vec::new();
        let mut by_text: HashMap<&str, i32> = HashMap::new();
        let mut class_name_of = Vec::new();
        let mut by_name: Vec<(String, Vec<(usize, EventClassId)>)> = Vec::new();
        let mut table_of: HashMap<String, usize> = HashMap::new();
        for (at, trace) in session.traces.iter().enumerate() {
            first_class.push(next_class);
            next_class += trace.schema.events().len() as u32;
            let firsts = trace.streams.iter().map(|stream| {
                let first = next_packet;
                next_packet += stream.packets.len() as u64;
                first
            });
            first_packet.push(firsts.collect());
            let place = |class: &'_ tracemill_model::schema::EventClass| class.name.is_some();
            let mut of_trace = Vec::new();
            for (number, class) in trace.schema.events().iter().enumerate() {
                let name = class.name.as_deref().filter(|_| place(class));
                of_trace.push(name.map(|name| {
                    *by_text.entry(name).or_insert_with(|| {
                        names.push(name);
                        names.len() as i32 - 1
                    })
                }));
                let table = name.filter(|name| !name.is_empty()).unwrap_or(NO_NAME);
                let index = *table_of.entry(table.to_string()).or_insert_with(|| {
                    by_name.push((table.to_string(), Vec::new()));
                    by_name.len() - 1
                });
                by_name[index].1.push((at, EventClassId(number as u32)));
            }
            class_name_of.push(of_trace);
        }
        let texts = |names: Vec<&str>| -> ArrayRef { Arc::new(StringArray::from(names)) };
        let class_names = texts(names);
        let trace_names = texts(session.traces.iter().map(|trace| &*trace.name).collect());
        let stream_names = texts(streams.iter().map(|of| &*of.stream.name).collect());
        Database {
            streams,
            selection,
            filter,
            jobs: jobs.max(1),
            collector: Collector::default(),
            lost: Lost::default(),
            first_class,
            first_packet,
            class_names,
            class_name_of,
            trace_names,
            stream_names,
            by_name,
            tables: Mutex::default(),
            symbolizer: None,
            states: None,
            reads_only: false,
            headers: OnceLock::new(),
            counted: OnceLock::new(),
            checked: OnceLock::new(),
            rows_of_parts: Mutex::default(),
            session,
        }
    }

    /// Has the functions of samples named by symbols.
    pub fn name_functions_by(&mut self, symbolizer: Arc<dyn Symbolizer>) {
        self.symbolizer = Some(symbolizer);
    }

    /// Keeps queries from writing anything, and from reading files that are not those of its traces.
    pub fn read_only(&mut self) {
        self.reads_only = true;
    }

    /// The session that it is asked of.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Number of a class among those of all traces.
    pub(crate) fn class_number(&self, trace: usize, class: EventClassId) -> u32 {
        self.first_class[trace] + class.0
    }

    /// Number of the first packet of a stream.
    pub(crate) fn first_packet(&self, trace: usize, stream: usize) -> u64 {
        self.first_packet[trace][stream]
    }

    /// How many classes there are.
    pub(crate) fn class_count(&self) -> usize {
        self.session.traces.iter().map(|trace| trace.schema.events().len()).sum()
    }

    /// How many packets the streams have that are read.
    pub(crate) fn packet_count(&self) -> usize {
        self.streams.iter().map(|of| of.stream.packets.len()).sum()
    }

    /// Has an event its own name and id, not those of its class?
    pub(crate) fn has_open_ids(&self) -> bool {
        let mut classes = self.session.traces.iter().flat_map(|trace| trace.schema.events());
        classes.any(|class| class.open_ids.is_some())
    }

    /// Do the times of a stream count from 1970?
    pub(crate) fn has_dates(&self, of: &SelectedStream) -> bool {
        let schema = &self.session.traces[of.trace].schema;
        let clock = schema.stream(of.stream.class).default_clock;
        clock.is_some_and(|clock| schema.clock(clock).origin == ClockOrigin::Unix)
    }

    /// Facts from headers, and with every event counted when `counted`.
    pub(crate) fn surveys(&self, counted: bool) -> &[TraceSurvey] {
        let known = if counted { &self.counted } else { &self.headers };
        known.get_or_init(|| {
            let surveys = survey(&self.session, counted, self.jobs);
            let faults = surveys.iter().flat_map(|survey| &survey.faults);
            faults.for_each(|fault| self.collector.fault(fault.clone()));
            surveys
        })
    }

    /// The first and the last ns that the headers of packets name; `None` where one of them has no times.
    pub(crate) fn packet_times(&self) -> Option<(i64, i64)> {
        let mut times: Option<(i128, i128)> = None;
        for of in &self.streams {
            let (clock, packets) = (of.clock.as_ref()?, &of.stream.packets);
            for at in 0..packets.len() {
                let (begin, end) = (clock.ns(packets.begin_cycles(at)?), clock.ns(packets.end_cycles(at)?));
                let (first, last) = times.unwrap_or((begin, end));
                times = Some((first.min(begin), last.max(end)));
            }
        }
        let (first, last) = times?;
        Some((i64::try_from(first).ok()?, i64::try_from(last).ok()?))
    }

    /// How many rows a table has, when all of its events were counted before and none was unreadable.
    pub(crate) fn known_rows(&self, table: &EventTable) -> Option<usize> {
        self.rows_that_were_read(table).or_else(|| self.rows_that_were_counted(table))
    }

    /// Notes how many rows a part of a table has.
    pub(crate) fn note_rows(&self, table: &EventTable, part: ScanPart, rows: usize) {
        let mut all = self.rows_of_parts.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry((table.classes.is_some(), table.name.clone())).or_default().insert(part, rows);
    }

    /// The rows of a table all of whose parts were read before.
    fn rows_that_were_read(&self, table: &EventTable) -> Option<usize> {
        let all = self.rows_of_parts.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = all.get(&(table.classes.is_some(), table.name.clone()))?;
        if let Some(&rows) = parts.get(&ScanPart::Merged) {
            return Some(rows);
        }
        let mut ranges: Vec<(usize, std::ops::Range<usize>, usize)> = Vec::new();
        for (part, &rows) in parts {
            if let ScanPart::Packets { stream, packets } = part {
                ranges.push((*stream, packets.clone(), rows));
            }
        }
        ranges.sort_unstable_by_key(|(stream, packets, _)| (*stream, packets.start, packets.end));
        let mut rows = 0;
        for (at, of) in self.streams.iter().enumerate() {
            let mut next = 0;
            // Another number of threads cuts other ranges: those that fit together count.
            for (_, packets, own) in ranges.iter().filter(|(stream, ..)| *stream == at) {
                if packets.start == next && packets.end > next {
                    next = packets.end;
                    rows += own;
                }
            }
            if next < of.stream.packets.len() {
                return None;
            }
        }
        Some(rows)
    }

    fn rows_that_were_counted(&self, table: &EventTable) -> Option<usize> {
        let surveys = self.counted.get()?;
        let all: usize = self.session.traces.iter().map(|trace| trace.streams.len()).sum();
        let selection = &self.selection;
        let is_whole = self.filter.is_none()
            && self.streams.len() == all
            && selection.begin_ns.is_none()
            && selection.end_ns.is_none()
            && selection.of_traces_ns.iter().all(Option::is_none)
            && selection.classes.iter().all(Option::is_none);
        if !is_whole || surveys.iter().any(|survey| !survey.faults.is_empty()) {
            return None;
        }
        let mut rows = 0;
        for (trace, survey) in surveys.iter().enumerate() {
            let classes = survey.class_events.as_ref()?.iter().enumerate();
            rows += classes
                .filter(|(class, _)| table.has(trace, EventClassId(*class as u32)))
                .map(|(_, events)| events)
                .sum::<u64>();
        }
        usize::try_from(rows).ok()
    }

    /// The parts of the traces that cannot be read, as `check` finds them: everything is read once.
    pub(crate) fn faults(&self) -> &[Error] {
        self.checked.get_or_init(|| {
            let mut faults = Vec::new();
            check(&self.session, self.jobs, |finding| {
                if finding.severity == Severity::Fault {
                    faults.push(finding.error);
                }
                true
            });
            // Errors of opening come first, and were reported then.
            let of_opening = self.session.failures.len();
            let known: HashSet<String> =
                self.session.traces.iter().flat_map(|trace| &trace.faults).map(ToString::to_string).collect();
            faults.drain(..of_opening.min(faults.len()));
            let new = faults.iter().filter(|fault| !known.contains(&fault.to_string()));
            new.for_each(|fault| self.collector.fault(fault.clone()));
            faults
        })
    }

    /// The table of all events.
    pub(crate) fn events(self: &Arc<Self>) -> Arc<EventTable> {
        // No class is called so: the name is no text of a trace.
        self.table("\0events", EventTable::events)
    }

    /// The table of the classes of this name; `None` when there are none.
    pub(crate) fn class_table(self: &Arc<Self>, name: &str) -> Option<Arc<EventTable>> {
        let (_, classes) = self.by_name.iter().find(|(own, _)| own == name)?;
        Some(self.table(name, || EventTable::from_classes(&self.session, name, classes)))
    }

    fn table(self: &Arc<Self>, name: &str, make: impl FnOnce() -> EventTable) -> Arc<EventTable> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.entry(name.to_string()).or_insert_with(|| Arc::new(make())).clone()
    }

    /// Losses of results so far, in words; none when they are whole.
    pub fn losses(&self) -> Vec<String> {
        let said = |count: &AtomicU64, one: &str, many: &str| {
            let count = count.load(Ordering::Relaxed);
            (count > 0).then(|| format!("{count} {}", if count == 1 { one } else { many }))
        };
        let lost = [
            said(&self.lost.times, "time is outside of 64 bits and NULL", "times are outside of 64 bits and NULL"),
            said(
                &self.lost.wide,
                "integer does not fit 64 bits and is NULL",
                "integers do not fit 64 bits and are NULL",
            ),
            said(&self.lost.huge, "value was too large for a batch", "values were too large for a batch"),
        ];
        lost.into_iter().flatten().collect()
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Database({} traces)", self.session.traces.len())
    }
}
