//! The scan of a table of events: a source of files for DataFusion, whose files are ranges of packets.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef, SortOptions};
use datafusion::catalog::Session;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue, Statistics};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileOpener, FileScanConfig, FileScanConfigBuilder, FileSource};
use datafusion::datasource::projection::{ProjectionOpener, SplitProjection};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::object_store::ObjectStore;
use datafusion::physical_expr::expressions::{Column as ColumnExpr, Literal};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr, ScalarFunctionExpr, conjunction};
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use tracemill_engine::cursor::packets_stand_alone;
use tracemill_engine::selection::SelectedStream;

use crate::context::QueryContext;
use crate::database::Database;
use crate::event_columns::EventColumn;
use crate::field::{FieldFunction, member_column, path_column, text_of};
use crate::filters::{Condition, Decided, decide, in_words, is_taken};
use crate::part::ScanPart;
use crate::provider::OwnTable;
use crate::read::Opener;
use crate::remote::RemoteScan;
use crate::table::{EventTable, FieldColumn, TableColumn};

/// A table of events for DataFusion.
pub(crate) struct EventProvider {
    pub(crate) database: Arc<Database>,
    pub(crate) table: Arc<EventTable>,
}

impl fmt::Debug for EventProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventProvider({})", self.table.name)
    }
}

impl OwnTable for EventProvider {
    fn schema(&self) -> SchemaRef {
        self.table.schema.clone()
    }

    fn plan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let context = state.config().get_extension::<QueryContext>().unwrap_or_default();
        let is_named = |spine| {
            let at =
                self.table.columns.iter().position(|column| matches!(column, TableColumn::Event(own) if *own == spine));
            projection.is_none_or(|named| at.is_some_and(|at| named.contains(&at)))
        };
        let is_merged = context.is_merged || is_named(EventColumn::Event);
        let source = TraceSource::new(&self.database, &self.table, context.pushes_down, is_named(EventColumn::Event))?;
        let jobs = self.database.jobs;
        let (groups, order) = if is_merged {
            let order = is_named(EventColumn::Event).then_some(EventColumn::Event);
            (vec![vec![ScanPart::Merged]], order)
        } else {
            let is_ordered = context.is_ordered && is_named(EventColumn::Ns) && self.is_ordered();
            let parts = self.parts(4 * jobs);
            match is_ordered {
                true if !parts.is_empty() => {
                    (parts.into_iter().map(|part| vec![part]).collect(), Some(EventColumn::Ns))
                }
                _ => (grouped(parts, jobs), None),
            }
        };
        let file = |part: ScanPart| {
            let (path, size) = self.path(&part);
            PartitionedFile::new(path, size).with_extension(part)
        };
        let groups = groups.into_iter().map(|parts| FileGroup::new(parts.into_iter().map(file).collect()));
        let source = TraceSource { is_ordered: order == Some(EventColumn::Ns), ..source };
        let mut builder = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), Arc::new(source))
            .with_file_groups(groups.collect())
            .with_projection_indices(projection.cloned())?
            .with_limit(limit);
        let mut known = Statistics::new_unknown(&self.table.schema);
        if limit.is_none()
            && let Some(rows) = self.database.known_rows(&self.table)
        {
            known = known.with_num_rows(Precision::Exact(rows));
        }
        if let Some((first, last)) = self.database.packet_times()
            && let Ok(at) = self.table.schema.index_of("ns")
        {
            // Headers may be wrong, and events may be without a time.
            let bound = |ns: i64| Precision::Inexact(ScalarValue::Int64(Some(ns)));
            (known.column_statistics[at].min_value, known.column_statistics[at].max_value) =
                (bound(first), bound(last));
        }
        builder = builder.with_statistics(known);
        let at = order.and_then(|order| {
            self.table.columns.iter().position(|column| matches!(column, TableColumn::Event(own) if *own == order))
        });
        if let Some(at) = at {
            let column = Arc::new(ColumnExpr::new(self.table.schema.field(at).name(), at));
            let options = SortOptions { descending: false, nulls_first: false };
            builder = builder
                .with_output_ordering(LexOrdering::new([PhysicalSortExpr::new(column, options)]).into_iter().collect());
        }
        Ok(DataSourceExec::from_data_source(builder.build()))
    }
}

impl EventProvider {
    /// Ranges of packets of all streams, about as many as are wanted.
    fn parts(&self, wanted: usize) -> Vec<ScanPart> {
        let bits = |of: &SelectedStream| of.stream.packets.total_bits(0..of.stream.packets.len()).sum::<u64>();
        let all: u64 = self.database.streams.iter().map(bits).sum();
        let step = (all / wanted.max(1) as u64).max(1);
        let mut parts = Vec::new();
        for (stream, of) in self.database.streams.iter().enumerate() {
            let count = of.stream.packets.len();
            let reader = &self.database.session.traces[of.trace].reader;
            if !packets_stand_alone(&of.stream) || !reader.reads_packets_alone() {
                parts.push(ScanPart::Packets { stream, packets: 0..count });
                continue;
            }
            let (mut from, mut size) = (0, 0);
            for (at, bits) in of.stream.packets.total_bits(0..count).enumerate() {
                size += bits;
                if size >= step || at + 1 == count {
                    parts.push(ScanPart::Packets { stream, packets: from..at + 1 });
                    (from, size) = (at + 1, 0);
                }
            }
        }
        parts
    }

    /// Do the headers of packets say that the events of each stream come in the order of time, and does each have one?
    fn is_ordered(&self) -> bool {
        self.database.streams.iter().all(|of| {
            let trace = &self.database.session.traces[of.trace];
            let packets = &of.stream.packets;
            let is_timed = of.clock.is_some() && !trace.schema.events().iter().any(|class| class.is_untimed);
            let follows = |at: usize| match (packets.end_cycles(at - 1), packets.begin_cycles(at)) {
                (Some(end), Some(begin)) => end <= begin,
                _ => true,
            };
            is_timed && (1..packets.len()).all(follows)
        })
    }

    /// A name for a part in plans, and its size.
    fn path(&self, part: &ScanPart) -> (String, u64) {
        match part {
            ScanPart::Merged => ("merged".into(), 1),
            ScanPart::Packets { stream, packets } => {
                let of = &self.database.streams[*stream];
                let bits: u64 = of.stream.packets.total_bits(packets.clone()).sum();
                let trace = &self.database.session.traces[of.trace].name;
                (format!("{trace}/{}/{}-{}", of.stream.name, packets.start, packets.end), (bits / 8).max(1))
            }
        }
    }
}

/// Parts in groups of neighbours, as many groups as there are threads.
fn grouped(parts: Vec<ScanPart>, groups: usize) -> Vec<Vec<ScanPart>> {
    let size = parts.len().div_ceil(groups.max(1)).max(1);
    let dealt: Vec<Vec<ScanPart>> = parts.chunks(size).map(<[ScanPart]>::to_vec).collect();
    if dealt.is_empty() { vec![Vec::new()] } else { dealt }
}

/// The source: what is read of a table of events.
#[derive(Clone)]
pub(crate) struct TraceSource {
    database: Arc<Database>,
    table: Arc<EventTable>,
    schema: TableSchema,
    /// The projection as DataFusion asks for it.
    projection: ProjectionExprs,
    /// Conditions as DataFusion gave them.
    conditions: Vec<Condition>,
    decided: Arc<Decided>,
    /// Columns of the table, then those of paths that the projection and the conditions name.
    columns: Vec<TableColumn>,
    extended: SchemaRef,
    pushes_down: bool,
    is_numbered: bool,
    is_ordered: bool,
    batch_size: usize,
    metrics: ExecutionPlanMetricsSet,
}

impl TraceSource {
    fn new(database: &Arc<Database>, table: &Arc<EventTable>, pushes_down: bool, is_numbered: bool) -> Result<Self> {
        let all: Vec<usize> = (0..table.columns.len()).collect();
        Ok(TraceSource {
            database: database.clone(),
            table: table.clone(),
            schema: TableSchema::from(table.schema.clone()),
            projection: ProjectionExprs::from_indices(&all, &table.schema),
            conditions: Vec::new(),
            decided: Arc::new(decide(database, table, &[])?),
            columns: table.columns.clone(),
            extended: table.schema.clone(),
            pushes_down,
            is_numbered,
            is_ordered: false,
            batch_size: 8192,
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The text of the scan, but for its parts and its order.
    pub(crate) fn sent(&self) -> RemoteScan {
        RemoteScan {
            table: self.table.classes.is_some().then(|| self.table.name.clone()),
            schema: self.table.schema.clone(),
            projection: self.projection.clone(),
            conditions: self.conditions.clone(),
            groups: Vec::new(),
            limit: None,
            ordering: Vec::new(),
            is_numbered: self.is_numbered,
            is_ordered: self.is_ordered,
        }
    }

    /// A scan that was sent; it counts what it does in `metrics`.
    pub(crate) fn from_sent(
        database: &Arc<Database>,
        table: &Arc<EventTable>,
        sent: &RemoteScan,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Self> {
        Ok(TraceSource {
            projection: sent.projection.clone(),
            conditions: sent.conditions.clone(),
            decided: Arc::new(decide(database, table, &sent.conditions)?),
            is_ordered: sent.is_ordered,
            metrics: metrics.clone(),
            ..TraceSource::new(database, table, true, sent.is_numbered)?
        })
    }

    /// An expression with columns in the place of `field(..)`.
    fn with_paths(&mut self, expression: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let changed = expression.clone().transform_down(|part| {
            let Some(call) = part.downcast_ref::<ScalarFunctionExpr>() else { return Ok(Transformed::no(part)) };
            let (name, column) = match FieldFunction::arguments(call) {
                Some((scope, path)) => (format!("field({scope}, {path})"), path_column(&self.database, &scope, &path)?),
                None => match self.member(call) {
                    Some(found) => found,
                    None => return Ok(Transformed::no(part)),
                },
            };
            let at = self.extended.index_of(&name).unwrap_or_else(|_| {
                let mut fields: Vec<_> = self.extended.fields().iter().cloned().collect();
                fields.push(Arc::new(Field::new(&name, column.data_type.clone(), true)));
                self.extended = Arc::new(Schema::new(fields));
                self.columns.push(TableColumn::Field(Arc::new(column)));
                self.columns.len() - 1
            });
            Ok(Transformed::yes(Arc::new(ColumnExpr::new(&name, at)) as Arc<dyn PhysicalExpr>))
        })?;
        Ok(changed.data)
    }

    /// The member of a column that is a structure in all classes, when a call takes one.
    fn member(&self, call: &ScalarFunctionExpr) -> Option<(String, FieldColumn)> {
        let [of, names @ ..] = call.args() else { return None };
        if call.fun().name() != "get_field" || names.is_empty() {
            return None;
        }
        let of = of.downcast_ref::<ColumnExpr>()?;
        let Some(TableColumn::Field(field)) = self.table.columns.get(of.index()) else { return None };
        let name = |name: &Arc<dyn PhysicalExpr>| text_of(name.downcast_ref::<Literal>()?.value());
        let names = names.iter().map(name).collect::<Option<Vec<String>>>()?;
        let column = member_column(&self.database, field, &names, call.return_type())?;
        Some((format!("{}.{}", of.name(), names.join(".")), column))
    }

    /// The projection over all columns, those of paths too.
    fn split(&mut self) -> Result<SplitProjection> {
        let mut expressions = Vec::new();
        for of in self.projection.clone().as_ref() {
            let mut own = of.clone();
            own.expr = self.with_paths(&of.expr)?;
            expressions.push(own);
        }
        Ok(SplitProjection::new(&self.extended, &ProjectionExprs::new(expressions)))
    }

    /// The packets of a stream that are read.
    fn packets(&self, stream: usize) -> Range<usize> {
        crate::read::cursor(&self.database, &self.decided.streams[stream], stream)
            .map_or(0..0, |cursor| cursor.packets())
    }
}

impl fmt::Debug for TraceSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceSource({})", self.table.name)
    }
}

impl FileSource for TraceSource {
    fn create_file_opener(
        &self,
        _object_store: Arc<dyn ObjectStore>,
        base_config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        let mut own = self.clone();
        let split = own.split()?;
        let conditions: Vec<Condition> = self.decided.left.clone();
        let mut left = Vec::new();
        for condition in &conditions {
            left.push(own.with_paths(condition)?);
        }
        let opener = Opener {
            database: own.database.clone(),
            streams: own.decided.clone(),
            columns: own.columns.clone(),
            schema: own.extended.clone(),
            wanted: split.file_indices.clone(),
            condition: (!left.is_empty()).then(|| conjunction(left)),
            is_numbered: own.is_numbered,
            is_ordered: own.is_ordered,
            whole: own.conditions.is_empty().then(|| own.table.clone()),
            // An answer of one batch is planned again before it leaves.
            verifies: own.is_ordered && base_config.limit.is_none_or(|limit| limit > own.batch_size),
            batch_size: base_config.limit.unwrap_or(usize::MAX).clamp(1, own.batch_size),
            metrics: own.metrics.clone(),
            partition,
        };
        ProjectionOpener::try_new(split, Arc::new(opener), &own.extended)
    }

    fn table_schema(&self) -> &TableSchema {
        &self.schema
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        Arc::new(TraceSource { batch_size, ..self.clone() })
    }

    fn filter(&self) -> Option<Arc<dyn PhysicalExpr>> {
        (!self.conditions.is_empty()).then(|| conjunction(self.conditions.clone()))
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        Some(&self.projection)
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    fn file_type(&self) -> &str {
        "trace"
    }

    fn fmt_extra(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let database = &self.database;
        let (mut traces, mut streams, mut packets) = (BTreeSet::new(), 0, 0);
        let mut classes = BTreeSet::new();
        for (at, of) in database.streams.iter().enumerate() {
            let own = &self.decided.streams[at];
            let left = self.packets(at).len();
            packets += left;
            if let Some(wanted) = own.classes.as_ref().filter(|_| left > 0 || own.times.is_none()) {
                traces.insert(of.trace);
                streams += 1;
                let count = database.session.traces[of.trace].schema.events().len() as u32;
                classes.extend((0..count).filter(|&class| wanted.has(class)).map(|class| (of.trace, class)));
            }
        }
        write!(f, ", table={}", self.table.name)?;
        write!(f, ", traces={}/{}", traces.len(), database.session.traces.len())?;
        write!(f, ", streams={streams}/{}", database.streams.len())?;
        write!(f, ", packets={packets}/{}", database.packet_count())?;
        write!(f, ", classes={}/{}", classes.len(), database.class_count())?;
        let mut own = self.clone();
        let named = own.split().map_err(|_| fmt::Error)?.file_indices;
        let mut fields: Vec<String> = Vec::new();
        for at in named {
            let path = match &own.columns[at] {
                TableColumn::Field(field) => field.path.clone(),
                TableColumn::Json(scope) => scope.key().to_string(),
                TableColumn::Event(_) => continue,
            };
            if !fields.contains(&path) {
                fields.push(path);
            }
        }
        write!(f, ", fields=[{}]", fields.join(", "))?;
        let mut words = Vec::new();
        for condition in &self.decided.left {
            let condition = own.with_paths(condition).map_err(|_| fmt::Error)?;
            let name = |at: usize| match &own.columns[at] {
                TableColumn::Field(field) => field.path.clone(),
                _ => own.extended.field(at).name().clone(),
            };
            words.push(in_words(&condition, &name));
        }
        write!(f, ", filter={}", words.join(" and "))
    }

    fn supports_repartitioning(&self) -> bool {
        // The ranges of packets are cut already.
        false
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn FileSource>>> {
        let mut own = self.clone();
        let mut answers = Vec::new();
        for filter in filters {
            // Paths become columns first: `field(..)` is compared as they are.
            let mut with_paths = own.clone();
            let seen = with_paths.with_paths(&filter)?;
            let is_taken = self.pushes_down && is_taken(&seen, &with_paths.extended);
            answers.push(if is_taken { PushedDown::Yes } else { PushedDown::No });
            if is_taken {
                own.conditions.push(filter);
            }
        }
        own.decided = Arc::new(decide(&own.database, &own.table, &own.conditions)?);
        Ok(FilterPushdownPropagation::with_parent_pushdown_result(answers).with_updated_node(Arc::new(own)))
    }

    fn try_pushdown_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn FileSource>>> {
        let mut own = self.clone();
        own.projection = own.projection.try_merge(projection)?;
        Ok(Some(Arc::new(own)))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let all = self.conditions.iter().chain(self.projection.as_ref().iter().map(|of| &of.expr));
        for expression in all {
            if f(expression)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }
}
