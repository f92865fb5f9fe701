//! Events to tables.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracemill_codec::chunk::{EventRef, PacketData};
use tracemill_codec::layout;
use tracemill_codec::plan::DecoderState;
use tracemill_columns::{Columns, Dropped, unlabelled};
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::{Source, Target, TraceWriter, WriteOptions};
use tracemill_format::{EntryKind, OutPath, Storage};
use tracemill_model::clock::ClockMap;
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::Gap;
use tracemill_model::schema::{EnvValue, Schema, StreamClassId};
use tracemill_semantics::cpu;

use crate::sink::FileForm;
use crate::tables::{BATCH_ROWS, EventTable, Plain};

const CANNOT_HOLD: &[Lost] = &[Lost::FieldLayouts, Lost::Clocks, Lost::BadTexts];

/// Tables of Parquet.
pub static PARQUET: Target = Target::folder(
    &["parquet"],
    "tables of Apache Parquet: all events, and each event class",
    |path, sources, options| create(FileForm::Parquet, path, sources, options),
)
.with_endings(&["parquet"])
.cannot_hold(CANNOT_HOLD)
.in_order();

/// Tables of Arrow's IPC file format.
pub static ARROW: Target = Target::folder(
    &["arrow"],
    "tables of Apache Arrow (IPC files): all events, and each event class",
    |path, sources, options| create(FileForm::Arrow, path, sources, options),
)
.with_endings(&["arrow"])
.cannot_hold(CANNOT_HOLD)
.in_order();

/// A time in ns as a column of signed numbers keeps it.
fn stored(ns: i128) -> Option<u64> {
    i64::try_from(ns).ok().map(|ns| ns as u64)
}

/// Bytes of rows that wait in all tables of classes together, and the least and most for one of them.
const WAITING_ROWS: usize = 16 << 20;
const TABLE_ROWS: std::ops::RangeInclusive<usize> = (16 << 10)..=(1 << 20);
/// Encoded bytes that wait for the end of their row groups; when there are more, the largest groups end.
const WAITING_GROUPS: usize = 40 << 20;
/// Files that are open at once.
const OPEN_FILES: usize = 64;

struct TableStream {
    trace: usize,
    name: String,
    clock: Option<ClockMap>,
    packet: Option<Arc<PacketData>>,
    packet_number: u64,
    cpu: Option<u32>,
}

struct TraceOf {
    name: String,
    schema: Arc<Schema>,
    /// Number of its first class among those of all traces.
    first_class: usize,
    /// Its tables stand in a folder of this name; empty for the only trace.
    folder: String,
}

/// The parts of a class that are prepared once.
struct ClassOut {
    table: usize,
    trace: usize,
    /// Index of its name among all names.
    name: Option<u64>,
    id: Option<u64>,
    stream: Option<u64>,
    has_cycles: bool,
    is_open: bool,
    has_header: bool,
}

/// An event of the table of all events, before its batch is written.
#[derive(Clone, Copy)]
struct EventRow {
    ns: Option<u64>,
    cycles: u64,
    packet: u64,
    /// Number of its class among those of all traces.
    class: u32,
    cpu: Option<u32>,
    /// Its own id, when its class stands for many.
    own_id: Option<u32>,
}

struct ColumnarWriter {
    form: FileForm,
    path: OutPath,
    traces: Vec<TraceOf>,
    streams: Vec<TableStream>,
    names: HashMap<Arc<str>, u64>,
    has_open_ids: bool,
    lost: Losses,
    /// Names of the files of classes, by their number.
    files: Vec<Option<String>>,
    classes: Vec<Option<ClassOut>>,
    /// Events that wait to become a batch of the table of all events.
    rows: Vec<EventRow>,
    grown: Grown,
}

/// Tables and counts that grow with the events.
#[derive(Default)]
struct Grown {
    is_begun: bool,
    events: Option<EventTable>,
    losses: Option<EventTable>,
    packets: HashMap<(usize, StreamClassId), EventTable>,
    /// Tables of classes.
    tables: Vec<EventTable>,
    /// Paths of their files.
    taken: HashSet<PathBuf>,
    /// Encoded bytes that wait in them.
    waiting: usize,
    /// Tables whose files are open, the oldest first.
    open: VecDeque<usize>,
    count: u64,
    packet_count: u64,
    state: DecoderState,
    dropped: Dropped,
}

/// Most levels of fields inside one another: the libraries of these formats, writers and readers, call themselves for each.
const MAX_LEVELS: u32 = 64;

fn create(form: FileForm, path: &OutPath, sources: &[Source], _options: &WriteOptions) -> Result<Box<dyn TraceWriter>> {
    let (mut traces, mut streams, mut classes) = (Vec::new(), Vec::new(), 0);
    let (mut names, mut has_open_ids): (HashMap<Arc<str>, u64>, bool) = (HashMap::new(), false);
    let mut lost = Losses::default();
    for (trace, source) in sources.iter().enumerate() {
        let levels = layout::deepest(&source.schema);
        if levels > MAX_LEVELS {
            let message =
                format!("fields of `{}` are nested {levels} levels deep, tables hold up to {MAX_LEVELS}", source.name);
            return Err(Error::unsupported(message));
        }
        let folder = if sources.len() > 1 { format!("{trace}-{}", file_name(&source.name)) } else { String::new() };
        traces.push(TraceOf { name: source.name.clone(), schema: source.schema.clone(), first_class: classes, folder });
        classes += source.schema.events().len();
        lost.add(Lost::WideLabelsAndFlags, unlabelled(&source.schema));
        for class in source.schema.events() {
            has_open_ids |= class.open_ids.is_some();
            if let Some(name) = &class.name {
                let next = names.len() as u64;
                names.entry(name.clone()).or_insert(next);
            }
        }
        for stream in &source.streams {
            let clock = source.stream_clock(stream.class);
            let name = stream.name.clone();
            streams.push(TableStream { trace, name, clock, packet: None, packet_number: 0, cpu: None });
        }
    }
    Ok(Box::new(ColumnarWriter {
        form,
        path: path.clone(),
        traces,
        streams,
        names,
        has_open_ids,
        lost,
        files: vec![None; classes],
        classes: (0..classes).map(|_| None).collect(),
        rows: Vec::with_capacity(BATCH_ROWS),
        grown: Grown::default(),
    }))
}

/// Is the folder one of tables: those of events and classes, the folders of tables, and nothing else?
pub fn is_output(storage: &dyn Storage, path: &Path) -> bool {
    let Ok(names) = storage.names(path) else { return false };
    let is_file = |path: &Path| matches!(storage.kind(path), Some(EntryKind::File(_)));
    [FileForm::Parquet, FileForm::Arrow].iter().any(|form| is_file(&path.join(format!("classes.{}", form.extension()))))
        && names.iter().all(|name| {
            let name = name.to_string_lossy();
            let stem = name.split('.').next().unwrap_or_default();
            matches!(stem, "events" | "classes" | "losses" | "event" | "packet")
        })
}

/// A name that every file system takes: other characters become `%` and two digits.
fn file_name(name: &str) -> String {
    let mut text = String::new();
    for (at, byte) in name.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => text.push(byte.into()),
            b'.' if at > 0 => text.push('.'),
            _ => text += &format!("%{byte:02x}"),
        }
        if text.len() >= 180 {
            break;
        }
    }
    if text.is_empty() { "%".into() } else { text }
}

impl ColumnarWriter {
    /// Makes the folder and the tables of all events.
    fn begin(&mut self) -> Result<()> {
        if self.grown.is_begun {
            return Ok(());
        }
        self.grown.is_begun = true;
        for folder in [&self.path, &self.path.join("event"), &self.path.join("packet")] {
            folder.make_folder()?;
        }
        let mut columns = vec![("event", Plain::u64())];
        columns.extend(self.trace_column());
        columns.extend([("ns", Plain::i64()), ("cycles", Plain::u64())]);
        let mut names: Vec<(&Arc<str>, &u64)> = self.names.iter().collect();
        names.sort_by_key(|(_, at)| **at);
        let name = match self.has_open_ids {
            true => Plain::Text(Vec::new()),
            false => Plain::name(names.into_iter().map(|(name, _)| name.to_string()).collect()),
        };
        columns.extend([("name", name), ("id", Plain::u64()), ("stream", Plain::u64()), ("cpu", Plain::u32())]);
        columns.extend([("class", Plain::u32()), ("packet", Plain::u64())]);
        let metadata = self.metadata();
        self.grown.events = Some(EventTable::new(self.form, self.file("events"), columns, Vec::new(), &metadata)?);
        Ok(())
    }

    fn file(&self, name: &str) -> OutPath {
        self.path.join(format!("{name}.{}", self.form.extension()))
    }

    /// A column for the trace, when there are several.
    fn trace_column(&self) -> Option<(&'static str, Plain)> {
        (self.traces.len() > 1).then(|| ("trace", Plain::name(self.traces.iter().map(|of| of.name.clone()).collect())))
    }

    /// Environments, as the metadata of the table of events.
    fn metadata(&self) -> Vec<(String, String)> {
        let mut metadata = Vec::new();
        for (at, trace) in self.traces.iter().enumerate() {
            let place = if self.traces.len() > 1 { format!("tracemill.{at}") } else { "tracemill".into() };
            metadata.push((format!("{place}.trace"), trace.name.clone()));
            metadata.push((format!("{place}.format"), trace.schema.format.to_string()));
            for (name, value) in &trace.schema.environment {
                let text = match value {
                    EnvValue::Integer(value) => value.to_string(),
                    EnvValue::String(text) => text.to_string(),
                };
                metadata.push((format!("{place}.environment.{name}"), text));
            }
        }
        metadata
    }

    /// Makes the table of a class when its first event comes.
    #[cold]
    fn prepare(&mut self, trace: usize, event: EventRef<'_>) -> Result<ClassOut> {
        let (schema, id) = (self.traces[trace].schema.clone(), event.class());
        let (class, plans) = (schema.event(id), &event.chunk.packet.plans);
        let stream = schema.stream(class.stream);
        let folder = self.path.join("event").join(&self.traces[trace].folder);
        folder.make_folder()?;
        let base = file_name(class.name.as_deref().unwrap_or("(no name)"));
        let mut path = folder.join(format!("{base}.{}", self.form.extension()));
        let mut copy = 1;
        while !self.grown.taken.insert(path.path().to_path_buf()) {
            copy += 1;
            path = folder.join(format!("{base}~{copy}.{}", self.form.extension()));
        }
        let relative = path.path().strip_prefix(self.path.path()).unwrap_or(path.path()).to_string_lossy().into_owned();
        self.files[self.traces[trace].first_class + id.0 as usize] = Some(relative);
        let has_header = stream.event_header.is_some_and(|root| schema.says_more(root));
        let mut fields: Vec<(Columns, &[&str])> = Vec::new();
        if has_header {
            fields.push((Columns::new(&schema, plans.header_rows(class.stream)), &["header"]));
        }
        let scopes: &[&str] = &["stream_context", "event_context", "payload"];
        fields.push((Columns::new(&schema, plans.event_rows(id)), scopes));
        let plain = vec![("event", Plain::u64()), ("ns", Plain::i64()), ("cpu", Plain::u32())];
        let mut metadata = vec![("tracemill.id".to_string(), class.id.to_string())];
        metadata.extend(class.name.iter().map(|name| ("tracemill.name".to_string(), name.to_string())));
        let table = EventTable::new(self.form, path, plain, fields, &metadata)?;
        self.grown.tables.push(table);
        Ok(ClassOut {
            table: self.grown.tables.len() - 1,
            trace,
            name: class.name.as_ref().and_then(|name| self.names.get(name).copied()),
            id: Some(class.id),
            stream: Some(stream.id).filter(|_| !stream.has_no_id),
            has_cycles: schema.has_cycles(id),
            is_open: class.open_ids.is_some(),
            has_header,
        })
    }

    /// A row for a packet when its first event comes.
    #[cold]
    fn packet(&mut self, stream: usize, packet: &Arc<PacketData>) -> Result<()> {
        let trace = self.streams[stream].trace;
        let (schema, of) = (self.traces[trace].schema.clone(), &packet.packet);
        let plan = packet.plans.packet_context_rows(of.class);
        let key = (trace, of.class);
        if !self.grown.packets.contains_key(&key) {
            let folder = self.path.join("packet").join(&self.traces[trace].folder);
            folder.make_folder()?;
            let id =
                schema.distinct_stream_ids().get(of.class.0 as usize).copied().unwrap_or(schema.stream(of.class).id);
            let path = folder.join(format!("{id}.{}", self.form.extension()));
            let plain = vec![
                ("packet", Plain::u64()),
                ("stream_name", Plain::Text(Vec::new())),
                ("stream_id", Plain::u64()),
                ("sequence", Plain::u64()),
                ("begin_ns", Plain::i64()),
                ("end_ns", Plain::i64()),
            ];
            let fields: Vec<(Columns, &[&str])> = vec![(Columns::new(&schema, plan), &["packet_context"])];
            self.grown.packets.insert(key, EventTable::new(self.form, path, plain, fields, &[])?);
        }
        let number = self.grown.packet_count;
        self.grown.packet_count += 1;
        let cpu = cpu(packet).and_then(|cpu| u32::try_from(cpu).ok());
        let clock = self.streams[stream].clock;
        let ns = |cycles: Option<u64>| clock.and_then(|clock| stored(clock.ns(cycles?)));
        let Some(table) = self.grown.packets.get_mut(&key) else { return Ok(()) };
        let EventTable { plain, trees, rows, .. } = &mut *table;
        if let [packet_number, name, id, sequence, begin, end] = plain.as_mut_slice() {
            packet_number.push(Some(number));
            name.push_text(Some(&self.streams[stream].name));
            id.push(of.stream_id);
            sequence.push(of.sequence);
            begin.push(ns(of.begin_cycles));
            end.push(ns(of.end_cycles));
        }
        *rows += 1;
        for tree in trees {
            // The packet was opened, so its context has been read.
            let _ = tree.push(|visitor| packet.visit_context(visitor));
        }
        if table.rows >= BATCH_ROWS {
            table.flush()?;
        }
        let of = &mut self.streams[stream];
        (of.packet, of.packet_number, of.cpu) = (Some(packet.clone()), number, cpu);
        Ok(())
    }

    /// Makes a batch of the events that wait.
    #[inline(never)]
    fn flush_events(&mut self) -> Result<()> {
        let rows = std::mem::take(&mut self.rows);
        let first = self.grown.count - rows.len() as u64;
        let class = |row: &EventRow| self.classes[row.class as usize].as_ref();
        let Some(events) = &mut self.grown.events else { return Ok(()) };
        let mut columns = events.plain.iter_mut();
        macro_rules! column {
            ($value:expr) => {
                if let Some(column) = columns.next() {
                    column.extend(rows.iter().map($value));
                }
            };
        }
        if let Some(column) = columns.next() {
            column.extend((first..self.grown.count).map(Some));
        }
        if self.traces.len() > 1 {
            column!(|row| class(row).map(|class| class.trace as u64));
        }
        column!(|row| row.ns);
        column!(|row| Some(row.cycles).filter(|_| class(row).is_some_and(|class| class.has_cycles)));
        if self.has_open_ids {
            columns.next();
        } else {
            column!(|row| class(row)?.name);
        }
        column!(|row| match class(row) {
            Some(class) if class.is_open => row.own_id.map(u64::from),
            class => class?.id,
        });
        column!(|row| class(row)?.stream);
        column!(|row| row.cpu.map(u64::from));
        column!(|row| Some(row.class.into()));
        column!(|row| Some(row.packet));
        events.rows += rows.len();
        self.rows = rows;
        self.rows.clear();
        events.flush()
    }

    /// Writes the rows of a class that wait, and keeps what waits in all of them below the bound.
    #[cold]
    fn flush(&mut self, at: usize) -> Result<()> {
        let table = &mut self.grown.tables[at];
        self.grown.waiting -= table.sink.waiting;
        table.flush()?;
        self.grown.waiting += table.sink.waiting;
        while self.grown.waiting > WAITING_GROUPS {
            let Some(largest) = (0..self.grown.tables.len()).max_by_key(|&at| self.grown.tables[at].sink.waiting)
            else {
                break;
            };
            let size = self.grown.tables[largest].sink.waiting;
            if size == 0 {
                break;
            }
            self.grown.tables[largest].flush_file()?;
            self.grown.waiting -= size;
            self.opened(largest);
        }
        self.opened(at);
        Ok(())
    }

    /// Closes the file that is open longest when there are too many.
    fn opened(&mut self, at: usize) {
        if self.grown.tables[at].sink.is_open() && !self.grown.open.contains(&at) {
            self.grown.open.push_back(at);
        }
        if self.grown.open.len() > OPEN_FILES
            && let Some(oldest) = self.grown.open.pop_front()
        {
            self.grown.tables[oldest].sink.release();
        }
    }

    /// Writes the table of classes.
    fn put_classes(&mut self) -> Result<()> {
        let mut columns = vec![("class", Plain::u32())];
        columns.extend(self.trace_column());
        for name in ["name", "table", "namespace"] {
            columns.push((name, Plain::Text(Vec::new())));
        }
        columns.extend([("id", Plain::u64()), ("stream", Plain::u64()), ("log_level", Plain::i64())]);
        let mut table = EventTable::new(self.form, self.file("classes"), columns, Vec::new(), &[])?;
        for (trace, of) in self.traces.iter().enumerate() {
            for (at, class) in of.schema.events().iter().enumerate() {
                let number = of.first_class + at;
                let stream = of.schema.stream(class.stream);
                let mut columns = table.plain.iter_mut();
                let mut next = |put: &dyn Fn(&mut Plain)| columns.next().map(put);
                next(&|column| column.push(Some(number as u64)));
                if self.traces.len() > 1 {
                    next(&|column| column.push(Some(trace as u64)));
                }
                next(&|column| column.push_text(class.name.as_deref()));
                next(&|column| column.push_text(self.files[number].as_deref()));
                next(&|column| column.push_text(class.namespace.as_deref()));
                next(&|column| column.push(Some(class.id)));
                next(&|column| column.push(Some(stream.id).filter(|_| !stream.has_no_id)));
                next(&|column| column.push(class.log_level.map(|level| level as u64)));
                table.rows += 1;
            }
            table.flush()?;
        }
        table.close()?;
        Ok(())
    }
}

impl TraceWriter for ColumnarWriter {
    fn losses(&self) -> Losses {
        self.lost.clone()
    }

    fn event(&mut self, stream: usize, event: EventRef<'_>) -> Result<()> {
        self.begin()?;
        let packet = &event.chunk.packet;
        if !self.streams[stream].packet.as_ref().is_some_and(|known| PacketData::is_same(known, packet)) {
            self.packet(stream, packet)?;
        }
        let trace = self.streams[stream].trace;
        let number = self.traces[trace].first_class + event.class().0 as usize;
        if self.classes[number].is_none() {
            self.classes[number] = Some(self.prepare(trace, event)?);
        }
        let (Some(class), Some(events)) = (&self.classes[number], &mut self.grown.events) else { return Ok(()) };
        let of = &self.streams[stream];
        let exact = event.ns(of.clock.as_ref());
        let ns = exact.and_then(stored);
        self.lost.add(Lost::NullTimes, (exact.is_some() && ns.is_none()).into());
        let cpu = of.cpu;
        let mut own = Vec::new();
        let own_id = if class.is_open { event.own_id(&mut own) } else { None };
        if self.has_open_ids {
            // Names are texts then; all other columns are made of the rows that wait.
            let name = self.traces[trace].schema.event(event.class()).name.as_deref();
            let at = if self.traces.len() > 1 { 4 } else { 3 };
            if let Some(column) = events.plain.get_mut(at) {
                match class.is_open {
                    true => column.push_text(Some(&String::from_utf8_lossy(&own))),
                    false => column.push_text(name),
                }
            }
        }
        let (cycles, packet) = (event.cycles(), of.packet_number);
        self.rows.push(EventRow { ns, cycles, packet, class: number as u32, cpu, own_id });
        let table = &mut self.grown.tables[class.table];
        if let [event_column, ns_column, cpu_column] = table.plain.as_mut_slice() {
            event_column.push(Some(self.grown.count));
            ns_column.push(ns);
            cpu_column.push(cpu.map(u64::from));
        }
        self.grown.count += 1;
        table.rows += 1;
        let (mut trees, state) = (table.trees.iter_mut(), &mut self.grown.state);
        // An event was whole when it was found; if it is not now, the file has changed.
        let mut is_whole = true;
        if class.has_header
            && let Some(tree) = trees.next()
        {
            is_whole &= tree.push(|visitor| event.visit_header(state, visitor)).is_ok();
        }
        if let Some(tree) = trees.next() {
            is_whole &= tree.push_event(event, state).is_ok();
        }
        self.lost.add(Lost::ChangedEvents, (!is_whole).into());
        if self.rows.len() >= BATCH_ROWS {
            self.flush_events()?;
        }
        let (Some(class), number) = (&self.classes[number], self.grown.tables.len()) else { return Ok(()) };
        let limit = (WAITING_ROWS / number).clamp(*TABLE_ROWS.start(), *TABLE_ROWS.end());
        let (at, table) = (class.table, &self.grown.tables[class.table]);
        if table.rows >= BATCH_ROWS || table.bytes() >= limit { self.flush(at) } else { Ok(()) }
    }

    fn gap(&mut self, stream: usize, gap: &Gap) -> Result<()> {
        self.begin()?;
        if self.grown.losses.is_none() {
            let mut columns = Vec::from_iter(self.trace_column());
            columns.extend([("stream_name", Plain::Text(Vec::new())), ("kind", Plain::Text(Vec::new()))]);
            columns.extend([("count", Plain::u64()), ("begin_ns", Plain::i64()), ("end_ns", Plain::i64())]);
            self.grown.losses = Some(EventTable::new(self.form, self.file("losses"), columns, Vec::new(), &[])?);
        }
        let Some(table) = &mut self.grown.losses else { return Ok(()) };
        let of = &self.streams[stream];
        let ns = |cycles: Option<u64>| of.clock.and_then(|clock| stored(clock.ns(cycles?)));
        if let [trace @ .., name, kind, count, begin, end] = table.plain.as_mut_slice() {
            trace.iter_mut().for_each(|column| column.push(Some(of.trace as u64)));
            name.push_text(Some(&of.name));
            kind.push_text(Some(gap.kind.name()));
            count.push(gap.count);
            begin.push(ns(gap.begin_cycles));
            end.push(ns(gap.end_cycles));
        }
        table.rows += 1;
        if table.rows >= BATCH_ROWS { table.flush() } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> Result<Losses> {
        self.begin()?;
        self.flush_events()?;
        let tables = std::mem::take(&mut self.grown.tables)
            .into_iter()
            .chain(self.grown.events.take())
            .chain(self.grown.losses.take());
        for table in tables.chain(std::mem::take(&mut self.grown.packets).into_values()) {
            self.grown.dropped += table.close()?;
        }
        self.put_classes()?;
        let mut losses = self.lost;
        losses.add(Lost::BadTexts, self.grown.dropped.bad_texts);
        losses.add(Lost::WideVariableIntegers, self.grown.dropped.wide);
        losses.add(Lost::HugeTexts, self.grown.dropped.huge);
        Ok(losses)
    }
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn names_of_files_are_plain() {
        assert_eq!(file_name("lttng_ust_x:y"), "lttng_ust_x%3ay");
        assert_eq!(file_name("../etc"), "%2e.%2fetc");
        assert_eq!(file_name(""), "%");
        assert!(file_name(&"é".repeat(1000)).len() < 190);
    }
}
