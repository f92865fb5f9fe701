//! The columns that every event has: their names, their types, and how they are gathered.

use std::collections::HashMap;
use std::iter::repeat_n;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::builder::StringDictionaryBuilder;
use arrow_array::types::{ArrowPrimitiveType, Int32Type, Int64Type, TimestampNanosecondType, UInt64Type};
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, PrimitiveArray};
use arrow_buffer::{NullBufferBuilder, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use tracemill_codec::chunk::Chunk;
use tracemill_engine::selection::SelectedStream;
use tracemill_semantics::CpuOf;

use crate::database::Database;

/// A column that every event has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum EventColumn {
    Trace,
    Event,
    Ns,
    Time,
    Cycles,
    Cpu,
    StreamName,
    Packet,
    Class,
    Name,
    Id,
    Stream,
}

/// All that is said of a column.
struct Description {
    name: &'static str,
    data_type: DataType,
    builder: fn(&Database) -> Box<dyn ColumnBuilder>,
}

/// The columns that all tables of events begin with.
pub(crate) const COMMON: [EventColumn; 9] = [
    EventColumn::Trace,
    EventColumn::Event,
    EventColumn::Ns,
    EventColumn::Time,
    EventColumn::Cycles,
    EventColumn::Cpu,
    EventColumn::StreamName,
    EventColumn::Packet,
    EventColumn::Class,
];

/// Further columns, of the table of all events alone.
pub(crate) const OF_ALL: [EventColumn; 3] = [EventColumn::Name, EventColumn::Id, EventColumn::Stream];

impl EventColumn {
    fn describe(self) -> Description {
        let of = |name, data_type, builder| Description { name, data_type, builder };
        match self {
            EventColumn::Trace => {
                of("trace", names(), |database| Box::new(TraceNames(Keys::new(&database.trace_names))))
            }
            EventColumn::Event => of("event", DataType::Int64, |_| Box::<EventNumbers>::default()),
            EventColumn::Ns => of("ns", DataType::Int64, |_| Box::<Nanoseconds>::default()),
            EventColumn::Time => of("time", times(), |_| Box::<TimestampBuilder>::default()),
            EventColumn::Cycles => of("cycles", DataType::UInt64, |_| Box::<Cycles>::default()),
            EventColumn::Cpu => of("cpu", DataType::Int32, |_| Box::<Cpus>::default()),
            EventColumn::StreamName => {
                of("stream_name", names(), |database| Box::new(StreamNames(Keys::new(&database.stream_names))))
            }
            EventColumn::Packet => of("packet", DataType::Int64, |_| Box::<PacketNumbers>::default()),
            EventColumn::Class => of("class", DataType::Int32, |_| Box::<ClassNumbers>::default()),
            EventColumn::Name => of("name", names(), |database| match database.has_open_ids() {
                true => Box::<OwnNames>::default(),
                false => Box::new(ClassNames(Keys::new(&database.class_names))),
            }),
            EventColumn::Id => of("id", DataType::UInt64, |_| Box::<Ids>::default()),
            EventColumn::Stream => of("stream", DataType::UInt64, |_| Box::<StreamIds>::default()),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        self.describe().name
    }

    pub(crate) fn data_type(self) -> DataType {
        self.describe().data_type
    }

    /// Its builder, for a part of a scan.
    pub(crate) fn builder(self, database: &Database) -> Box<dyn ColumnBuilder> {
        (self.describe().builder)(database)
    }
}

/// The type of names and other texts of which there are few.
pub(crate) fn names() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// The type of times.
pub(crate) fn times() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, Some(UTC.into()))
}

const UTC: &str = "UTC";

/// The events of a chunk that are gathered.
pub(crate) struct SelectedEvents<'a> {
    /// Index of the stream among those of the database.
    pub(crate) stream: usize,
    pub(crate) chunk: &'a Chunk,
    pub(crate) events: &'a [u32],
    /// Their numbers, when they are known.
    pub(crate) numbers: &'a [i64],
}

impl SelectedEvents<'_> {
    /// Their stream.
    pub(crate) fn selected_stream<'d>(&self, database: &'d Database) -> &'d SelectedStream {
        &database.streams[self.stream]
    }
}

/// A column in the making. Each kind of column has its own.
pub(crate) trait ColumnBuilder: Send {
    /// Appends a row for each event.
    fn push(&mut self, events: &SelectedEvents<'_>, database: &Database);

    /// Takes the rows out.
    ///
    /// # Errors
    /// When Arrow refuses the array, which is an error of this crate.
    fn finish(&mut self) -> Result<ArrayRef, ArrowError>;
}

/// Numbers, and which of them are NULL.
struct Numbers<T: ArrowPrimitiveType> {
    values: Vec<T::Native>,
    nulls: NullBufferBuilder,
}

impl<T: ArrowPrimitiveType> Default for Numbers<T> {
    fn default() -> Self {
        Numbers { values: Vec::new(), nulls: NullBufferBuilder::new(0) }
    }
}

impl<T: ArrowPrimitiveType> Numbers<T> {
    /// Appends numbers that are all there.
    fn extend(&mut self, values: impl ExactSizeIterator<Item = T::Native>) {
        self.nulls.append_n_non_nulls(values.len());
        self.values.extend(values);
    }

    /// Appends numbers, of which some are NULL.
    fn extend_some(&mut self, values: impl Iterator<Item = Option<T::Native>>) {
        self.values.extend(values.map(|value| {
            self.nulls.append(value.is_some());
            value.unwrap_or_default()
        }));
    }

    /// Appends one number for all rows.
    fn repeat(&mut self, value: Option<T::Native>, rows: usize) {
        self.values.extend(repeat_n(value.unwrap_or_default(), rows));
        match value {
            Some(_) => self.nulls.append_n_non_nulls(rows),
            None => self.nulls.append_n_nulls(rows),
        }
    }

    fn finish(&mut self) -> Result<PrimitiveArray<T>, ArrowError> {
        PrimitiveArray::try_new(ScalarBuffer::from(std::mem::take(&mut self.values)), self.nulls.finish())
    }
}

/// Texts as places in a list of them.
struct Keys {
    keys: Numbers<Int32Type>,
    texts: ArrayRef,
}

impl Keys {
    fn new(texts: &ArrayRef) -> Keys {
        Keys { keys: Numbers::default(), texts: texts.clone() }
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let keys: Int32Array = self.keys.finish()?;
        Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, self.texts.clone())?))
    }
}

struct TraceNames(Keys);

impl ColumnBuilder for TraceNames {
    fn push(&mut self, events: &SelectedEvents<'_>, database: &Database) {
        self.0.keys.repeat(Some(events.selected_stream(database).trace as i32), events.events.len());
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        self.0.finish()
    }
}

struct StreamNames(Keys);

impl ColumnBuilder for StreamNames {
    fn push(&mut self, events: &SelectedEvents<'_>, _: &Database) {
        self.0.keys.repeat(Some(events.stream as i32), events.events.len());
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        self.0.finish()
    }
}

/// Names of events, where all classes have names of their own or none.
struct ClassNames(Keys);

impl ColumnBuilder for ClassNames {
    fn push(&mut self, events: &SelectedEvents<'_>, database: &Database) {
        let names = &database.class_name_of[events.selected_stream(database).trace];
        let name = |&at: &u32| names[events.chunk.classes[at as usize] as usize];
        self.0.keys.extend_some(events.events.iter().map(name));
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        self.0.finish()
    }
}

/// Names of events, where some classes let each event have its own.
#[derive(Default)]
struct OwnNames {
    names: StringDictionaryBuilder<Int32Type>,
    text: Vec<u8>,
}

impl ColumnBuilder for OwnNames {
    fn push(&mut self, events: &SelectedEvents<'_>, _: &Database) {
        for &at in events.events {
            match events.chunk.event(at as usize).name(&mut self.text) {
                Some(name) => self.names.append_value(String::from_utf8_lossy(name)),
                None => self.names.append_null(),
            }
        }
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(self.names.finish()))
    }
}

#[derive(Default)]
struct EventNumbers(Numbers<Int64Type>);

impl ColumnBuilder for EventNumbers {
    fn push(&mut self, events: &SelectedEvents<'_>, _: &Database) {
        self.0.extend(events.numbers.iter().copied());
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(self.0.finish()?))
    }
}

/// Appends times in ns, NULL for those outside of 64 bits.
fn push_times<T>(times: &mut Numbers<T>, events: &SelectedEvents<'_>, database: &Database)
where
    T: ArrowPrimitiveType<Native = i64>,
{
    let Some(clock) = events.selected_stream(database).clock.as_ref() else {
        return times.repeat(None, events.events.len());
    };
    let mut outside = 0;
    times.extend_some(events.events.iter().map(|&at| {
        let exact = events.chunk.event(at as usize).ns(Some(clock));
        let ns = exact.and_then(|ns| i64::try_from(ns).ok());
        outside += u64::from(exact.is_some() && ns.is_none());
        ns
    }));
    if outside > 0 {
        database.lost.times.fetch_add(outside, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Nanoseconds(Numbers<Int64Type>);

impl ColumnBuilder for Nanoseconds {
    fn push(&mut self, events: &SelectedEvents<'_>, database: &Database) {
        push_times(&mut self.0, events, database);
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(self.0.finish()?))
    }
}

/// Times where the clock counts from 1970.
#[derive(Default)]
struct TimestampBuilder(Numbers<TimestampNanosecondType>);

impl ColumnBuilder for TimestampBuilder {
    fn push(&mut self, events: &SelectedEvents<'_>, database: &Database) {
        match database.has_dates(events.selected_stream(database)) {
            true => push_times(&mut self.0, events, database),
            false => self.0.repeat(None, events.events.len()),
        }
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(self.0.finish()?.with_timezone(UTC)))
    }
}

#[derive(Default)]
struct Cycles(Numbers<UInt64Type>);

impl ColumnBuilder for Cycles {
    fn push(&mut self, events: &SelectedEvents<'_>, database: &Database) {
        let schema = &database.session.traces[events.selected_stream(database).trace].schema;
        let chunk = events.chunk;
        self.0.extend_some(
            events
                .events
                .iter()
                .map(|&at| schema.has_cycles(chunk.class(at as usize)).then(|| chunk.cycles[at as usize])),
        );
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(self.0.finish()?))
    }
}

#[derive(Default)]
struct Cpus {
    numbers: Numbers<Int32Type>,
    cpus: CpuOf,
}

impl ColumnBuilder for Cpus {
    fn push(&mut self, events: &SelectedEvents<'_>, _: &Database) {
        let cpu = self.cpus.cpu(events.stream, &events.chunk.packet).and_then(|cpu| i32::try_from(cpu).ok());
        self.numbers.repeat(cpu, events.events.len());
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(self.numbers.finish()?))
    }
}

/// Numbers of packets among those of all streams.
#[derive(Default)]
struct PacketNumbers {
    numbers: Numbers<Int64Type>,
    /// By stream and place in a file the number among those of the stream.
    known: HashMap<usize, HashMap<(u32, u64), u64>>,
}

impl ColumnBuilder for PacketNumbers {
    fn push(&mut self, events: &SelectedEvents<'_>, database: &Database) {
        let of = events.selected_stream(database);
        let known = self.known.entry(events.stream).or_insert_with(|| {
            let packets = of.stream.packets.iter().enumerate();
            packets.map(|(at, packet)| ((packet.file, packet.offset_bytes), at as u64)).collect()
        });
        let packet = &events.chunk.packet.packet;
        let number = known.get(&(packet.file, packet.offset_bytes));
        let number = number.map(|number| (database.first_packet(of.trace, of.index) + number) as i64);
        self.numbers.repeat(number, events.events.len());
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(self.numbers.finish()?))
    }
}

#[derive(Default)]
struct ClassNumbers(Numbers<Int32Type>);

impl ColumnBuilder for ClassNumbers {
    fn push(&mut self, events: &SelectedEvents<'_>, database: &Database) {
        let trace = events.selected_stream(database).trace;
        let class = |&at: &u32| database.class_number(trace, events.chunk.class(at as usize)) as i32;
        self.0.extend(events.events.iter().map(class));
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(self.0.finish()?))
    }
}

#[derive(Default)]
struct Ids(Numbers<UInt64Type>);

impl ColumnBuilder for Ids {
    fn push(&mut self, events: &SelectedEvents<'_>, _: &Database) {
        self.0.extend(events.events.iter().map(|&at| events.chunk.event(at as usize).id()));
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(self.0.finish()?))
    }
}

#[derive(Default)]
struct StreamIds(Numbers<UInt64Type>);

impl ColumnBuilder for StreamIds {
    fn push(&mut self, events: &SelectedEvents<'_>, database: &Database) {
        let schema = &database.session.traces[events.selected_stream(database).trace].schema;
        self.0.extend_some(events.events.iter().map(|&at| {
            let stream = schema.stream(schema.event(events.chunk.class(at as usize)).stream);
            (!stream.has_no_id).then_some(stream.id)
        }));
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(self.0.finish()?))
    }
}
