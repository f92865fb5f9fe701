//! Tables of what surrounds events: traces, streams, packets, classes and so on.

use std::fmt;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::Session as QuerySession;
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::streaming::PartitionStream;
use tracemill_codec::text::fields_json::{JsonPrinter, JsonTable};
use tracemill_codec::text::out::Out;
use tracemill_codec::text::strings::put_json;
use tracemill_codec::text::uuid_text;
use tracemill_columns::integer_of;
use tracemill_engine::cursor::Cursor;
use tracemill_engine::item::Item;
use tracemill_engine::selection::{SpineFilter, streams};
use tracemill_model::clock::ClockMap;
use tracemill_model::error::Error;
use tracemill_model::schema::{ClockOrigin, EnvValue};

use crate::database::Database;
use crate::metadata_rows::Of::{self, Integer, Real, Text, Texts, Unsigned};
use crate::metadata_rows::{MetadataRows, MetadataValue};
use crate::provider::{OwnTable, streamed};
use crate::table::{TableColumn, content};

/// A table: its name, its columns after `trace`, and what makes its rows.
pub(crate) struct MetadataDefinition {
    pub(crate) name: &'static str,
    columns: &'static [(&'static str, Of)],
    /// Columns for which all events must be counted.
    counted: &'static [&'static str],
    rows: fn(&Arc<Database>, bool, &mut MetadataRows),
}

/// All of them.
pub(crate) const KINDS: &[MetadataDefinition] = &[
    MetadataDefinition {
        name: "traces",
        columns: &[
            ("path", Text),
            ("format", Text),
            ("version", Text),
            ("uuid", Text),
            ("begin_ns", Integer),
            ("end_ns", Integer),
            ("events", Integer),
        ],
        counted: &["events", "begin_ns", "end_ns"],
        rows: traces,
    },
    MetadataDefinition {
        name: "environment",
        columns: &[("name", Text), ("value", Text)],
        counted: &[],
        rows: environment,
    },
    MetadataDefinition {
        name: "clocks",
        columns: &[
            ("name", Text),
            ("frequency", Real),
            ("offset_ns", Integer),
            ("origin", Text),
            ("uuid", Text),
            ("description", Text),
        ],
        counted: &[],
        rows: clocks,
    },
    MetadataDefinition {
        name: "streams",
        columns: &[
            ("stream_name", Text),
            ("stream", Unsigned),
            ("id", Unsigned),
            ("packets", Integer),
            ("bytes", Integer),
            ("events", Integer),
            ("begin_ns", Integer),
            ("end_ns", Integer),
            ("discarded_events", Integer),
            ("lost_packets", Integer),
        ],
        counted: &["events", "begin_ns", "end_ns"],
        rows: all_streams,
    },
    MetadataDefinition {
        name: "packets",
        columns: &[
            ("packet", Integer),
            ("stream_name", Text),
            ("file", Text),
            ("index", Integer),
            ("offset", Integer),
            ("packet_size", Integer),
            ("content_size", Integer),
            ("packet_bits", Integer),
            ("content_bits", Integer),
            ("timestamp_begin", Unsigned),
            ("timestamp_end", Unsigned),
            ("begin_ns", Integer),
            ("end_ns", Integer),
            ("sequence", Unsigned),
            ("events", Integer),
            ("discarded_before", Integer),
            ("lost_packets_before", Integer),
            ("packet_context", Text),
        ],
        counted: &["events"],
        rows: packets,
    },
    MetadataDefinition {
        name: "classes",
        columns: &[
            ("class", Integer),
            ("name", Text),
            ("namespace", Text),
            ("id", Unsigned),
            ("stream", Unsigned),
            ("log_level", Integer),
            ("table", Text),
            ("fields", Texts),
            ("events", Integer),
        ],
        counted: &["events"],
        rows: classes,
    },
    MetadataDefinition {
        name: "fields",
        columns: &[
            ("class", Integer),
            ("path", Text),
            ("column", Text),
            ("kind", Text),
            ("type", Text),
            ("labels", Text),
            ("note", Text),
        ],
        counted: &[],
        rows: fields,
    },
    MetadataDefinition {
        name: "losses",
        columns: &[
            ("stream_name", Text),
            ("kind", Text),
            ("count", Integer),
            ("begin_ns", Integer),
            ("end_ns", Integer),
        ],
        counted: &[],
        rows: losses,
    },
    MetadataDefinition {
        name: "faults",
        columns: &[
            ("file", Text),
            ("offset", Integer),
            ("packet", Integer),
            ("event", Text),
            ("field", Text),
            ("reason", Text),
            ("help", Text),
        ],
        counted: &["file", "offset", "packet", "event", "field", "reason", "help"],
        rows: faults,
    },
    MetadataDefinition {
        name: "sections",
        columns: &[("title", Text), ("row", Integer), ("column", Text), ("value", Text)],
        counted: &[],
        rows: sections,
    },
];

/// The table of a kind.
pub(crate) struct MetadataTable {
    database: Arc<Database>,
    kind: &'static MetadataDefinition,
    schema: SchemaRef,
}

impl MetadataTable {
    pub(crate) fn new(database: &Arc<Database>, kind: &'static MetadataDefinition) -> Self {
        let data_type = |of: &Of| match of {
            Text => DataType::Utf8,
            Texts => DataType::List(Arc::new(Field::new("item", DataType::Utf8, true))),
            Integer => DataType::Int64,
            Unsigned => DataType::UInt64,
            Real => DataType::Float64,
        };
        let fields = kind.columns.iter().map(|(name, of)| Field::new(*name, data_type(of), true));
        let fields: Vec<Field> = std::iter::once(Field::new("trace", DataType::Utf8, true)).chain(fields).collect();
        MetadataTable { database: database.clone(), kind, schema: Arc::new(Schema::new(fields)) }
    }
}

impl fmt::Debug for MetadataTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MetadataTable({})", self.kind.name)
    }
}

impl OwnTable for MetadataTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn plan(
        &self,
        _: &dyn QuerySession,
        projection: Option<&Vec<usize>>,
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let is_named = |name: &&str| {
            let at = self.schema.index_of(name).ok();
            projection.is_none_or(|named| at.is_some_and(|at| named.contains(&at)))
        };
        let is_counted = self.kind.counted.iter().any(is_named);
        let (database, schema) = (self.database.clone(), self.schema.clone());
        streamed(MetadataPartition { database, kind: self.kind, schema, is_counted }, projection, limit)
    }
}

/// The rows of a kind, which are made when they are asked for.
struct MetadataPartition {
    database: Arc<Database>,
    kind: &'static MetadataDefinition,
    schema: SchemaRef,
    is_counted: bool,
}

impl fmt::Debug for MetadataPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name)
    }
}

impl PartitionStream for MetadataPartition {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut builder = RecordBatchReceiverStreamBuilder::new(self.schema.clone(), 2);
        let mut rows = MetadataRows::new(self.kind.columns, self.schema.clone(), builder.tx());
        let (database, kind, is_counted) = (self.database.clone(), self.kind, self.is_counted);
        builder.spawn_blocking(move || {
            (kind.rows)(&database, is_counted, &mut rows);
            rows.send();
            Ok(())
        });
        builder.build()
    }
}

fn traces(database: &Arc<Database>, counted: bool, rows: &mut MetadataRows) {
    let surveys = database.surveys(counted);
    for (trace, survey) in database.session.traces.iter().zip(surveys) {
        let schema = &trace.schema;
        let events: Option<u64> = survey.streams.iter().map(|stream| stream.events()).sum();
        rows.push(
            &trace.name,
            [
                trace.path.to_string_lossy().into_owned().into(),
                schema.format.into(),
                format!("{}.{}", schema.version.0, schema.version.1).into(),
                schema.uuid.as_ref().map(uuid_text).into(),
                survey.streams.iter().filter_map(|stream| stream.begin_ns).min().into(),
                survey.streams.iter().filter_map(|stream| stream.end_ns).max().into(),
                events.into(),
            ],
        );
    }
}

fn environment(database: &Arc<Database>, _: bool, rows: &mut MetadataRows) {
    for trace in &database.session.traces {
        for (name, value) in &trace.schema.environment {
            rows.push(&trace.name, [(&**name).into(), env_text(value).into()]);
        }
    }
}

fn env_text(value: &EnvValue) -> String {
    match value {
        EnvValue::Integer(value) => value.to_string(),
        EnvValue::String(text) => text.to_string(),
    }
}

fn clocks(database: &Arc<Database>, _: bool, rows: &mut MetadataRows) {
    for (at, trace) in database.session.traces.iter().enumerate() {
        for clock in trace.schema.clocks() {
            let frequency = match (clock.frequency, clock.seconds) {
                (0, _) => MetadataValue::Null,
                (ticks, seconds) => MetadataValue::Real(ticks as f64 / f64::from(seconds.max(1))),
            };
            let origin = match &clock.origin {
                ClockOrigin::Unix => Some("unix".to_string()),
                ClockOrigin::Unknown => None,
                ClockOrigin::Custom { name, .. } => Some(name.to_string()),
            };
            rows.push(
                &trace.name,
                [
                    clock.name.as_deref().unwrap_or(&clock.id).into(),
                    frequency,
                    ClockMap::new(clock, database.session.corrections[at]).ns(0).into(),
                    origin.into(),
                    clock.uid.as_deref().into(),
                    clock.description.as_deref().into(),
                ],
            );
        }
    }
}

fn all_streams(database: &Arc<Database>, counted: bool, rows: &mut MetadataRows) {
    for (trace, survey) in database.session.traces.iter().zip(database.surveys(counted)) {
        for (stream, found) in trace.streams.iter().zip(&survey.streams) {
            let class = trace.schema.stream(stream.class);
            rows.push(
                &trace.name,
                [
                    stream.name.as_str().into(),
                    (!class.has_no_id).then_some(class.id).into(),
                    stream.id.into(),
                    stream.packets.len().into(),
                    stream.packets.iter().map(|packet| packet.total_bits / 8).sum::<u64>().into(),
                    found.events().into(),
                    found.begin_ns.into(),
                    found.end_ns.into(),
                    found.discarded_events.into(),
                    found.lost_packets.into(),
                ],
            );
        }
    }
}

fn packets(database: &Arc<Database>, counted: bool, rows: &mut MetadataRows) {
    for (at, (trace, survey)) in database.session.traces.iter().zip(database.surveys(counted)).enumerate() {
        for (index, (stream, found)) in trace.streams.iter().zip(&survey.streams).enumerate() {
            let clock = database.session.clock_map(at, stream.class);
            let ns = |cycles: Option<u64>| clock.as_ref().zip(cycles).map(|(clock, cycles)| clock.ns(cycles));
            let first = database.first_packet(at, index);
            let mut state = 0;
            for (number, (packet, events)) in stream.packets.iter().zip(&found.packet_events).enumerate() {
                if rows.is_closed {
                    return;
                }
                let file = &stream.files[packet.file as usize];
                let opened = trace.reader.open_packet(&trace.plans, stream, number, state).ok();
                let context = opened.and_then(|opened| {
                    let plan = trace.plans.packet_context_rows(packet.class);
                    plan.roots.first().copied().flatten()?;
                    let (mut out, mut table) = (Out::default(), JsonTable::new(&trace.schema, plan));
                    opened.data.visit_context(&mut JsonPrinter::new(&mut out, &mut table)).ok()?;
                    Some(String::from_utf8_lossy(out.written()).into_owned())
                });
                state = packet.end_cycles.unwrap_or(state);
                rows.push(
                    &trace.name,
                    [
                        (first + number as u64).into(),
                        stream.name.as_str().into(),
                        file.relative.as_str().into(),
                        packet.index.into(),
                        packet.offset_bytes.into(),
                        packet.total_bits.div_ceil(8).into(),
                        packet.content_bits.div_ceil(8).into(),
                        packet.total_bits.into(),
                        packet.content_bits.into(),
                        packet.begin_cycles.into(),
                        packet.end_cycles.into(),
                        ns(packet.begin_cycles).into(),
                        ns(packet.end_cycles).into(),
                        packet.sequence.into(),
                        (*events).into(),
                        packet.discarded_before.into(),
                        packet.lost_packets_before.into(),
                        context.into(),
                    ],
                );
            }
        }
    }
}

fn classes(database: &Arc<Database>, counted: bool, rows: &mut MetadataRows) {
    let surveys = database.surveys(counted);
    for (table, all) in &database.by_name {
        for &(trace, class) in all {
            let of = &database.session.traces[trace];
            let event = of.schema.event(class);
            let stream = of.schema.stream(event.stream);
            let names = of.schema.members(event.payload).iter().map(|member| member.name.to_string()).collect();
            let events = surveys[trace].class_events.as_ref().map(|events| events[class.0 as usize]);
            rows.push(
                &of.name,
                [
                    database.class_number(trace, class).into(),
                    event.name.as_deref().into(),
                    event.namespace.as_deref().into(),
                    event.open_ids.is_none().then_some(event.id).into(),
                    (!stream.has_no_id).then_some(stream.id).into(),
                    event.log_level.into(),
                    table.as_str().into(),
                    MetadataValue::Texts(names),
                    events.into(),
                ],
            );
        }
    }
}

fn fields(database: &Arc<Database>, _: bool, rows: &mut MetadataRows) {
    for (name, all) in &database.by_name {
        let Some(table) = database.class_table(name) else { continue };
        for &(trace, class) in all {
            let of = &database.session.traces[trace];
            for (field, column) in table.schema.fields().iter().zip(&table.columns) {
                let TableColumn::Field(column) = column else { continue };
                let Some(place) = column.places.get(&(trace, class)) else { continue };
                let own = content(&of.schema, place.class);
                let labels = integer_of(&of.schema, place.class).map(|(mappings, _)| {
                    let mut out = Out::default();
                    for (at, mapping) in mappings.iter().enumerate() {
                        out.put(if at == 0 { b"{" } else { b", " });
                        put_json(&mut out, mapping.label.as_bytes());
                        let ranges: Vec<String> =
                            mapping.ranges.iter().map(|(low, high)| format!("[{low}, {high}]")).collect();
                        out.put_fmt(format_args!(": [{}]", ranges.join(", ")));
                    }
                    out.put(if mappings.is_empty() { b"{}" } else { b"}" });
                    String::from_utf8_lossy(out.written()).into_owned()
                });
                rows.push(
                    &of.name,
                    [
                        database.class_number(trace, class).into(),
                        column.path.as_str().into(),
                        field.name().as_str().into(),
                        own.kind.name().into(),
                        field.data_type().to_string().into(),
                        labels.into(),
                        column.note.as_deref().into(),
                    ],
                );
            }
        }
    }
}

fn losses(database: &Arc<Database>, _: bool, rows: &mut MetadataRows) {
    let all = streams(&database.session, &[]).unwrap_or_default();
    for of in all {
        let trace = &database.session.traces[of.trace];
        let mut cursor = Cursor::new(trace, of.stream.clone(), of.clock, SpineFilter::default(), 8192);
        cursor.give_packets();
        while let Some(item) = cursor.next().filter(|_| !rows.is_closed) {
            match item {
                Item::Gap(gap) => {
                    let ns = |cycles: Option<u64>| of.clock.as_ref().zip(cycles).map(|(clock, at)| clock.ns(at));
                    let (begin, end) = (ns(gap.begin_cycles), ns(gap.end_cycles));
                    let name = of.stream.name.as_str().into();
                    rows.push(&trace.name, [name, gap.kind.name().into(), gap.count.into(), begin.into(), end.into()]);
                }
                Item::Fault(fault) => database.collector.fault(fault),
                _ => {}
            }
        }
    }
}

fn faults(database: &Arc<Database>, _: bool, rows: &mut MetadataRows) {
    let mut put = |trace: Option<&str>, fault: &Error| {
        let place = fault.place();
        let file = place.file.as_ref().map(|file| file.to_string_lossy().into_owned());
        let offset = place.offset.or(place.text.as_ref().map(|text| text.offset as u64));
        rows.push(
            trace.unwrap_or_default(),
            [
                file.into(),
                offset.into(),
                place.packet.into(),
                place.event.as_deref().into(),
                place.field.as_deref().into(),
                fault.message().into(),
                fault.help().into(),
            ],
        );
    };
    for failure in &database.session.failures {
        put(None, failure);
    }
    let traces = &database.session.traces;
    let trace_of = |fault: &Error| {
        let file = fault.place().file.as_ref()?;
        // The innermost one, as traces may lie in the folders of others.
        let around = traces.iter().filter(|trace| file.starts_with(&trace.path));
        around.max_by_key(|trace| trace.path.as_os_str().len())
    };
    let only = traces.first().filter(|_| traces.len() == 1);
    for fault in database.faults() {
        put(trace_of(fault).or(only).map(|trace| trace.name.as_str()), fault);
    }
}

fn sections(database: &Arc<Database>, _: bool, rows: &mut MetadataRows) {
    for trace in &database.session.traces {
        for section in &trace.sections {
            for (number, row) in section.rows.iter().enumerate() {
                for (column, value) in section.columns.iter().zip(row) {
                    let value = value.as_ref().map(env_text);
                    rows.push(
                        &trace.name,
                        [section.title.as_str().into(), number.into(), (*column).into(), value.into()],
                    );
                }
            }
        }
    }
}
