//! Events gathered into batches of rows.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::builder::{StringBuilder, StringDictionaryBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int32Array, Int64Array, ListArray, RecordBatch, RecordBatchOptions, StringArray,
    TimestampNanosecondArray, UInt32Array, UInt64Array, new_null_array,
};
use arrow_buffer::NullBufferBuilder;
use arrow_schema::{ArrowError, DataType, SchemaRef};
use arrow_select::interleave::interleave;
use arrow_select::take::take;
use tracemill_codec::chunk::{Chunk, PacketData};
use tracemill_codec::plan::{Fault, NodeId, State};
use tracemill_codec::text::fields_json::{Fields, JsonTrace};
use tracemill_codec::text::out::Out;
use tracemill_columns::{ChosenColumns, Dropped, Wish};
use tracemill_engine::selection::StreamOf;
use tracemill_model::schema::{EventClassId, Scope, StreamClassId};
use tracemill_semantics::CpuOf;

use crate::database::Database;
use crate::kinds::convert;
use crate::table::{Column, FieldColumn, Spine, Step, plan_of};

/// Gathers the rows of some columns.
pub(crate) struct Gatherer {
    database: Arc<Database>,
    columns: Vec<Own>,
    schema: SchemaRef,
    rows: usize,
    /// Bytes of texts so far.
    bytes: usize,
    /// Gatherers of fields, and for each row which of them has it and where.
    classes: Vec<ClassRows>,
    /// By trace and class the number of its gatherer, from 1.
    class_at: Vec<Vec<u32>>,
    places: Vec<(usize, usize)>,
    has_fields: bool,
    /// Events of a chunk by their gatherer.
    sorted: Vec<Vec<u32>>,
    json: Vec<Option<JsonTrace>>,
    cpus: CpuOf,
    packets: HashMap<usize, HashMap<(u32, u64), u64>>,
    state: State,
    text: Vec<u8>,
}

/// A column in the making.
enum Own {
    Keys(Vec<i32>, ArrayRef),
    MaybeKeys(Vec<i32>, NullBufferBuilder, ArrayRef),
    /// Names of events whose classes have none of their own.
    Names(StringDictionaryBuilder<Int32Type>),
    Signed(Spine, Vec<i64>, NullBufferBuilder),
    Times(Vec<i64>, NullBufferBuilder),
    Unsigned(Spine, Vec<u64>, NullBufferBuilder),
    Small(Spine, Vec<i32>, NullBufferBuilder),
    Json(Scope, StringBuilder),
    Field(Arc<FieldColumn>),
}

/// The rows of a class.
struct ClassRows {
    stream: StreamClassId,
    event: Option<ChosenColumns>,
    header: Option<ChosenColumns>,
    /// The context of each packet once, and for each row which one it is.
    packet: Option<(ChosenColumns, Option<Arc<PacketData>>, Vec<u32>)>,
    rows: usize,
    /// Values that were dropped, as far as they are counted.
    told: Dropped,
    /// For each column of fields: where its values are, and the way into them.
    columns: Vec<Option<Taken>>,
}

/// How a column is made of what a class gathered.
struct Taken {
    group: Group,
    at: usize,
    steps: Vec<Step>,
    data_type: DataType,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    Event,
    Header,
    Packet,
}

/// The events of a chunk that are gathered.
pub(crate) struct Picked<'a> {
    /// Index of the stream among those of the database.
    pub(crate) stream: usize,
    pub(crate) chunk: &'a Chunk,
    pub(crate) events: &'a [u32],
    /// Their numbers, when they are known.
    pub(crate) numbers: &'a [i64],
}

impl Gatherer {
    /// An empty gatherer of these columns, whose fields the schema has.
    pub(crate) fn new(database: &Arc<Database>, columns: &[Column], schema: &SchemaRef) -> Gatherer {
        let nulls = || NullBufferBuilder::new(0);
        let has_open = database
            .session
            .traces
            .iter()
            .any(|trace| trace.schema.events().iter().any(|class| class.open_ids.is_some()));
        let own = |column: &Column| match column {
            Column::Json(scope) => Own::Json(*scope, StringBuilder::new()),
            Column::Field(field) => Own::Field(field.clone()),
            Column::Spine(spine) => match spine {
                Spine::Trace => Own::Keys(Vec::new(), database.trace_names.clone()),
                Spine::StreamName => Own::Keys(Vec::new(), database.stream_names.clone()),
                Spine::Name if has_open => Own::Names(StringDictionaryBuilder::new()),
                Spine::Name => Own::MaybeKeys(Vec::new(), nulls(), database.class_names.clone()),
                Spine::Event | Spine::Ns | Spine::Packet => Own::Signed(*spine, Vec::new(), nulls()),
                Spine::Time => Own::Times(Vec::new(), nulls()),
                Spine::Cycles | Spine::Id | Spine::Stream => Own::Unsigned(*spine, Vec::new(), nulls()),
                Spine::Cpu | Spine::Class => Own::Small(*spine, Vec::new(), nulls()),
            },
        };
        Gatherer {
            database: database.clone(),
            has_fields: columns.iter().any(|column| matches!(column, Column::Field(_))),
            columns: columns.iter().map(own).collect(),
            schema: schema.clone(),
            rows: 0,
            bytes: 0,
            classes: Vec::new(),
            class_at: vec![Vec::new(); database.session.traces.len()],
            places: Vec::new(),
            sorted: Vec::new(),
            json: database.session.traces.iter().map(|_| None).collect(),
            cpus: CpuOf::default(),
            packets: HashMap::new(),
            state: State::default(),
            text: Vec::new(),
        }
    }

    /// Rows that wait.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Appends rows, where there are no columns.
    pub(crate) fn add_rows(&mut self, rows: usize) {
        self.rows += rows;
    }

    /// Is it time to take the rows out, before they take too much memory?
    pub(crate) fn is_full(&self, rows: usize) -> bool {
        let of_fields = || self.classes.iter().map(ClassRows::bytes).sum::<usize>();
        self.rows >= rows || self.bytes >= MOST_BYTES || (self.has_fields && of_fields() >= MOST_BYTES)
    }

    /// Appends rows.
    ///
    /// # Errors
    /// The first error of an event that cannot be read again, with its place in the packet. All events have a row.
    pub(crate) fn push(&mut self, picked: &Picked<'_>) -> Result<(), Fault> {
        self.rows += picked.events.len();
        let of = self.database.streams[picked.stream].clone();
        let mut result = Ok(());
        for at in 0..self.columns.len() {
            let pushed = self.push_column(at, picked, &of);
            result = result.and(pushed);
        }
        if self.has_fields {
            let pushed = self.push_fields(picked, of.trace);
            result = result.and(pushed);
        }
        result
    }

    fn push_column(&mut self, at: usize, picked: &Picked<'_>, of: &StreamOf) -> Result<(), Fault> {
        let Picked { chunk, events, .. } = *picked;
        let (database, trace) = (&self.database, of.trace);
        let schema = &database.session.traces[trace].schema;
        let len = events.len();
        let event = |at: &u32| chunk.event(*at as usize);
        match &mut self.columns[at] {
            Own::Field(_) => {}
            Own::Keys(keys, names) => {
                let key = if Arc::ptr_eq(names, &database.trace_names) { trace } else { picked.stream };
                keys.extend(std::iter::repeat_n(key as i32, len));
            }
            Own::MaybeKeys(keys, nulls, _) => {
                let names = &database.class_name_of[trace];
                keys.extend(events.iter().map(|&at| {
                    let name = names[chunk.classes[at as usize] as usize];
                    nulls.append(name.is_some());
                    name.unwrap_or(0)
                }));
            }
            Own::Names(names) => {
                for at in events {
                    match event(at).name(&mut self.text) {
                        Some(name) => names.append_value(String::from_utf8_lossy(name)),
                        None => names.append_null(),
                    }
                }
            }
            Own::Signed(Spine::Event, values, nulls) => {
                values.extend_from_slice(picked.numbers);
                nulls.append_n_non_nulls(len);
            }
            Own::Signed(Spine::Packet, values, nulls) => {
                let known = self.packets.entry(picked.stream).or_insert_with(|| {
                    let packets = of.stream.packets.iter().enumerate();
                    packets.map(|(at, packet)| ((packet.file, packet.offset_bytes), at as u64)).collect()
                });
                let packet = &chunk.packet.packet;
                let number = known.get(&(packet.file, packet.offset_bytes));
                let number = number.map(|number| (database.first_packet(trace, of.index) + number) as i64);
                values.extend(std::iter::repeat_n(number.unwrap_or(0), len));
                match number {
                    Some(_) => nulls.append_n_non_nulls(len),
                    None => nulls.append_n_nulls(len),
                }
            }
            Own::Signed(_, values, nulls) => put_times(database, of, picked, values, nulls),
            Own::Times(values, nulls) if database.has_dates(of) => put_times(database, of, picked, values, nulls),
            Own::Times(values, nulls) => {
                values.extend(std::iter::repeat_n(0, len));
                nulls.append_n_nulls(len);
            }
            Own::Unsigned(Spine::Cycles, values, nulls) => values.extend(events.iter().map(|&at| {
                nulls.append(schema.has_cycles(chunk.class(at as usize)));
                chunk.cycles[at as usize]
            })),
            Own::Unsigned(Spine::Id, values, nulls) => values.extend(events.iter().map(|at| {
                nulls.append_non_null();
                event(at).id()
            })),
            Own::Unsigned(_, values, nulls) => values.extend(events.iter().map(|&at| {
                let stream = schema.stream(schema.event(chunk.class(at as usize)).stream);
                nulls.append(!stream.has_no_id);
                stream.id
            })),
            Own::Small(Spine::Cpu, values, nulls) => {
                let cpu = self.cpus.of(picked.stream, &chunk.packet).and_then(|cpu| i32::try_from(cpu).ok());
                values.extend(std::iter::repeat_n(cpu.unwrap_or(0), len));
                match cpu {
                    Some(_) => nulls.append_n_non_nulls(len),
                    None => nulls.append_n_nulls(len),
                }
            }
            Own::Small(_, values, nulls) => {
                let class = |&at: &u32| database.class_number(trace, chunk.class(at as usize)) as i32;
                values.extend(events.iter().map(class));
                nulls.append_n_non_nulls(len);
            }
            Own::Json(scope, texts) => {
                let json = self.json[trace].get_or_insert_with(|| JsonTrace::new(schema.clone()));
                let (mut out, mut result) = (Out::default(), Ok(()));
                for at in events {
                    out.clear();
                    match json.scope(&mut out, picked.stream, event(at), &mut Fields::default(), *scope, b"") {
                        Ok(true) => texts.append_value(String::from_utf8_lossy(out.written())),
                        Ok(false) => texts.append_null(),
                        Err(fault) => {
                            texts.append_null();
                            result = Err(fault);
                        }
                    }
                    self.bytes += out.len();
                }
                return result;
            }
        }
        Ok(())
    }

    fn push_fields(&mut self, picked: &Picked<'_>, trace: usize) -> Result<(), Fault> {
        let chunk = picked.chunk;
        self.sorted.iter_mut().for_each(Vec::clear);
        for &at in picked.events {
            let class = chunk.class(at as usize);
            let index = match self.class_at[trace].get(class.0 as usize) {
                Some(&number) if number > 0 => number as usize - 1,
                _ => self.enter((trace, class)),
            };
            if self.sorted.len() <= index {
                self.sorted.resize_with(index + 1, Vec::new);
            }
            let rows = &mut self.sorted[index];
            self.places.push((index, self.classes[index].rows + rows.len()));
            rows.push(at);
        }
        let mut result = Ok(());
        for (class, events) in self.classes.iter_mut().zip(&self.sorted) {
            if !events.is_empty() {
                let pushed = class.push(chunk, events, &mut self.state);
                result = result.and(pushed);
            }
        }
        result
    }

    #[cold]
    fn enter(&mut self, class: (usize, EventClassId)) -> usize {
        let fields = self.columns.iter().filter_map(|column| match column {
            Own::Field(field) => Some(&**field),
            _ => None,
        });
        let rows = ClassRows::new(&self.database, class, fields);
        self.classes.push(rows);
        let (trace, at) = (class.0, class.1.0 as usize);
        let of_trace = &mut self.class_at[trace];
        if of_trace.len() <= at {
            of_trace.resize(at + 1, 0);
        }
        of_trace[at] = self.classes.len() as u32;
        self.classes.len() - 1
    }

    /// Takes all rows out.
    ///
    /// # Errors
    /// When Arrow refuses an array, which is an error of this crate.
    pub(crate) fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        let arrays = self.classes.iter_mut().map(|class| class.take(&self.database)).collect::<Result<Vec<_>, _>>()?;
        let places = std::mem::take(&mut self.places);
        let mut field = 0;
        let mut columns = Vec::with_capacity(self.columns.len());
        for own in &mut self.columns {
            columns.push(match own {
                Own::Field(column) => {
                    field += 1;
                    field_column(column, &arrays, field - 1, &places)?
                }
                own => own.take()?,
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
    }
}

/// Bytes of texts and fields of a batch.
const MOST_BYTES: usize = 8 << 20;

/// A column of fields from the arrays of the classes.
fn field_column(
    column: &FieldColumn,
    arrays: &[Vec<Option<ArrayRef>>],
    field: usize,
    places: &[(usize, usize)],
) -> Result<ArrayRef, ArrowError> {
    if places.is_empty() {
        return Ok(new_null_array(&column.data_type, 0));
    }
    if let [only] = arrays {
        return Ok(match &only[field] {
            Some(array) => array.clone(),
            None => new_null_array(&column.data_type, places.len()),
        });
    }
    // A class without the field has a NULL for all of its rows.
    let null = new_null_array(&column.data_type, 1);
    let sources: Vec<&dyn Array> = arrays.iter().map(|of| of[field].as_ref().unwrap_or(&null).as_ref()).collect();
    let of = |&(class, row): &(usize, usize)| (class, if arrays[class][field].is_some() { row } else { 0 });
    let indices: Vec<(usize, usize)> = places.iter().map(of).collect();
    interleave(&sources, &indices)
}

/// Times in ns, NULL for those outside of 64 bits.
fn put_times(
    database: &Database,
    of: &StreamOf,
    picked: &Picked<'_>,
    values: &mut Vec<i64>,
    nulls: &mut NullBufferBuilder,
) {
    let Some(clock) = of.clock.as_ref() else {
        values.extend(std::iter::repeat_n(0, picked.events.len()));
        return nulls.append_n_nulls(picked.events.len());
    };
    let mut outside = 0;
    values.extend(picked.events.iter().map(|&at| {
        let exact = picked.chunk.event(at as usize).ns(Some(clock));
        let ns = exact.and_then(|ns| i64::try_from(ns).ok());
        outside += u64::from(exact.is_some() && ns.is_none());
        nulls.append(ns.is_some());
        ns.unwrap_or(0)
    }));
    if outside > 0 {
        database.lost.times.fetch_add(outside, Ordering::Relaxed);
    }
}

impl Own {
    fn take(&mut self) -> Result<ArrayRef, ArrowError> {
        let keys = |keys: Int32Array, names: &ArrayRef| -> Result<ArrayRef, ArrowError> {
            Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, names.clone())?))
        };
        Ok(match self {
            Own::Keys(values, names) => keys(std::mem::take(values).into(), names)?,
            Own::MaybeKeys(values, nulls, names) => {
                keys(Int32Array::try_new(std::mem::take(values).into(), nulls.finish())?, names)?
            }
            Own::Names(names) => Arc::new(names.finish()),
            Own::Signed(_, values, nulls) => {
                Arc::new(Int64Array::try_new(std::mem::take(values).into(), nulls.finish())?)
            }
            Own::Times(values, nulls) => {
                let array = TimestampNanosecondArray::try_new(std::mem::take(values).into(), nulls.finish())?;
                Arc::new(array.with_timezone("UTC"))
            }
            Own::Unsigned(_, values, nulls) => {
                Arc::new(UInt64Array::try_new(std::mem::take(values).into(), nulls.finish())?)
            }
            Own::Small(_, values, nulls) => {
                Arc::new(Int32Array::try_new(std::mem::take(values).into(), nulls.finish())?)
            }
            Own::Json(_, texts) => Arc::new(texts.finish()),
            Own::Field(_) => Arc::new(StringArray::new_null(0)),
        })
    }
}

impl ClassRows {
    fn new<'a>(
        database: &Database,
        class: (usize, EventClassId),
        fields: impl Iterator<Item = &'a FieldColumn>,
    ) -> ClassRows {
        let schema = &database.session.traces[class.0].schema;
        let (mut event, mut header, mut packet) = (Vec::new(), Vec::new(), Vec::new());
        let columns = fields.map(|field| {
            let place = field.places.get(&class)?;
            let (group, wishes): (Group, &mut Vec<(NodeId, Wish)>) = match place.scope {
                Scope::EventHeader => (Group::Header, &mut header),
                Scope::PacketContext | Scope::PacketHeader => (Group::Packet, &mut packet),
                _ => (Group::Event, &mut event),
            };
            let wish = (place.node, place.wish);
            let at = wishes.iter().position(|known| *known == wish).unwrap_or_else(|| {
                wishes.push(wish);
                wishes.len() - 1
            });
            Some(Taken { group, at, steps: place.steps.clone(), data_type: field.data_type.clone() })
        });
        let columns = columns.collect();
        let plan = |scope| plan_of(database, class.0, class.1, scope).0;
        let visited = |scope, wishes: &[(NodeId, Wish)]| {
            (!wishes.is_empty()).then(|| ChosenColumns::of_visit(schema, plan(scope), wishes))
        };
        ClassRows {
            stream: schema.event(class.1).stream,
            event: (!event.is_empty()).then(|| ChosenColumns::new(schema, plan(Scope::Payload), &event)),
            header: visited(Scope::EventHeader, &header),
            packet: visited(Scope::PacketContext, &packet).map(|columns| (columns, None, Vec::new())),
            rows: 0,
            told: Dropped::default(),
            columns,
        }
    }

    fn bytes(&self) -> usize {
        self.event.as_ref().map_or(0, ChosenColumns::bytes) + self.header.as_ref().map_or(0, ChosenColumns::bytes)
    }

    fn push(&mut self, chunk: &Chunk, events: &[u32], state: &mut State) -> Result<(), Fault> {
        self.rows += events.len();
        let mut result = Ok(());
        if let Some(columns) = &mut self.event {
            result = columns.push_events(chunk, events, state);
        }
        if let Some(columns) = &mut self.header {
            for &at in events {
                let pushed = columns.push(|filler| chunk.event(at as usize).visit_header(state, filler));
                result = result.and(pushed);
            }
        }
        if let Some((columns, known, places)) = &mut self.packet {
            if !known.as_ref().is_some_and(|known| PacketData::is_same(known, &chunk.packet)) {
                // Its class is that of the stream, unless a file has packets of several.
                if chunk.packet.packet.class == self.stream {
                    let pushed = columns.push(|filler| chunk.packet.visit_context(filler));
                    result = result.and(pushed);
                } else {
                    // All fields are null where nothing is visited to the end.
                    let unread = Fault { kind: tracemill_codec::plan::FaultKind::Unterminated, at_bits: 0, node: 0 };
                    let _ = columns.push(|_| Err(unread));
                }
                *known = Some(chunk.packet.clone());
            }
            places.extend(std::iter::repeat_n(columns.rows() as u32 - 1, events.len()));
        }
        result
    }

    /// An array for each column of fields that the class has.
    fn take(&mut self, database: &Database) -> Result<Vec<Option<ArrayRef>>, ArrowError> {
        self.rows = 0;
        let take_all =
            |columns: &mut Option<ChosenColumns>| columns.as_mut().map_or(Ok(Vec::new()), ChosenColumns::take);
        let (event, header) = (take_all(&mut self.event)?, take_all(&mut self.header)?);
        let packet = match &mut self.packet {
            None => Vec::new(),
            Some((columns, known, places)) => {
                *known = None;
                let indices = UInt32Array::from(std::mem::take(places));
                let arrays = columns.take()?;
                arrays.iter().map(|array| take(array, &indices, None)).collect::<Result<Vec<_>, _>>()?
            }
        };
        let dropped = self.dropped();
        database.lost.add(&mut self.told, dropped);
        let column = |of: &Option<Taken>| {
            let Some(Taken { group, at, steps, data_type }) = of else { return Ok(None) };
            let group = match group {
                Group::Event => &event,
                Group::Header => &header,
                Group::Packet => &packet,
            };
            let mut array = group[*at].clone();
            for step in steps {
                array = go_in(&array, step)?;
            }
            if !steps.is_empty() {
                array = plain_value(array, data_type);
            }
            convert(&array, data_type).map(Some)
        };
        self.columns.iter().map(column).collect()
    }

    /// Values that were dropped so far.
    fn dropped(&self) -> Dropped {
        let mut all = Dropped::default();
        let columns = self.event.iter().chain(&self.header).chain(self.packet.iter().map(|(columns, ..)| columns));
        columns.for_each(|columns| all += columns.dropped());
        all
    }
}

/// The integer of a nested enumeration or bit map, where the integer is wanted.
fn plain_value(array: ArrayRef, wanted: &DataType) -> ArrayRef {
    match (array.data_type(), wanted) {
        (DataType::Struct(_), DataType::Struct(_)) => array,
        (DataType::Struct(_), _) => {
            let value = array.as_struct().column_by_name("value").cloned();
            value.map_or(array.clone(), |value| with_nulls_of(&value, &array))
        }
        _ => array,
    }
}

/// A part of a value that is absent is absent.
fn with_nulls_of(array: &ArrayRef, around: &ArrayRef) -> ArrayRef {
    let nulls = arrow_buffer::NullBuffer::union(array.nulls(), around.nulls());
    let data = array.to_data().into_builder().nulls(nulls).build();
    data.map_or_else(|_| array.clone(), arrow_array::make_array)
}

/// A member of structures, or an element of lists.
fn go_in(array: &ArrayRef, step: &Step) -> Result<ArrayRef, ArrowError> {
    match (step, array.data_type()) {
        (Step::Member(at), DataType::Struct(_)) => {
            let of = array.as_struct();
            match of.columns().get(*at) {
                Some(member) => Ok(with_nulls_of(member, array)),
                None => Ok(new_null_array(&DataType::Null, array.len())),
            }
        }
        (Step::Element(index), DataType::List(_)) => {
            let of: &ListArray = array.as_list();
            let offsets = of.value_offsets();
            let at = |row: usize| {
                let (from, to) = (offsets[row] as u64, offsets[row + 1] as u64);
                (!of.is_null(row) && *index < to - from).then_some((from + index) as u32)
            };
            take(of.values(), &UInt32Array::from_iter((0..of.len()).map(at)), None)
        }
        _ => Err(ArrowError::InvalidArgumentError("a path leads into a value without parts".into())),
    }
}
