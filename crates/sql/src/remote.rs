//! Queries whose rows are made by other processes: what a scan says of itself, and a scan that was said.
//!
//! A scan names its table, its parts, its conditions and its columns; the traces stand in a text of the caller's, which each
//! process opens for itself when it reads. Between the process that plans and those that read, a scan is a [`RemoteSource`],
//! which knows enough to be planned with and opens nothing.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{
    FileGroup, FileOpenFuture, FileOpener, FileScanConfig, FileScanConfigBuilder, FileSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::{SendableRecordBatchStream, SessionState};
use datafusion::logical_expr::{AggregateUDF, ScalarUDF, WindowUDF};
use datafusion::object_store::ObjectStore;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, conjunction};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder};
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use futures::StreamExt;
use tracemill_engine::session::Session;
use tracemill_engine::timeline::Selection;
use tracemill_model::error::Error;

use crate::database::Database;
use crate::part::ScanPart;
use crate::scan::TraceSource;

pub use crate::overlap::OverlapExec;
pub use crate::read::OUT_OF_ORDER;

/// Runs plans of queries elsewhere.
#[async_trait]
pub trait RemotePlanner: Send + Sync {
    /// The state with which queries are planned for it.
    fn planning(&self, state: SessionState) -> SessionState;

    /// Runs a plan. What reading met goes to the database: its collector, and its losses.
    ///
    /// # Errors
    /// When the plan cannot be sent, and when it fails before its first rows.
    async fn run(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        state: &SessionState,
        database: &Arc<Database>,
    ) -> Result<SendableRecordBatchStream>;
}

/// Opens the traces that a text names, as the process that planned the query has them open.
pub trait SessionResolver: fmt::Debug + Send + Sync {
    /// A database of its own, so that what reading meets is known by scan.
    ///
    /// # Errors
    /// When a trace cannot be opened, is another one, or must not be opened.
    fn open(&self, traces: &str) -> std::result::Result<Database, Error>;
}

/// A part of a scan: a range of the packets of a stream of the database, or all streams merged.
pub type RemotePart = Option<(usize, Range<usize>)>;

/// The text of a scan, for another process.
#[derive(Clone)]
pub struct RemoteScan {
    /// The name of the table of classes; `None` for the table of all events.
    pub table: Option<String>,
    /// The columns of the table.
    pub schema: SchemaRef,
    /// The columns that are made.
    pub projection: ProjectionExprs,
    /// Conditions that the scan decides.
    pub conditions: Vec<Arc<dyn PhysicalExpr>>,
    /// The parts of each partition.
    pub groups: Vec<Vec<RemotePart>>,
    /// Rows that are enough.
    pub limit: Option<usize>,
    /// The order of the rows of each partition, in columns of the table.
    pub ordering: Vec<LexOrdering>,
    /// Are events numbered?
    pub is_numbered: bool,
    /// Must events come in the order of time?
    pub is_ordered: bool,
}

impl RemoteScan {
    /// A leaf of a plan as it is sent, with the text of its traces when it was sent before; `None` when it does not
    /// scan events.
    pub fn from_plan(plan: &dyn ExecutionPlan) -> Option<(RemoteScan, Option<Arc<str>>)> {
        let config = plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<FileScanConfig>()?;
        let (mut sent, traces) = match config.file_source.downcast_ref::<RemoteSource>() {
            Some(source) => (source.sent.clone(), Some(source.traces.clone())),
            None => (config.file_source.downcast_ref::<TraceSource>()?.sent(), None),
        };
        let part = |file: &PartitionedFile| match file.extension::<ScanPart>() {
            Some(ScanPart::Packets { stream, packets }) => Some((*stream, packets.clone())),
            _ => None,
        };
        sent.groups = config.file_groups.iter().map(|group| group.files().iter().map(part).collect()).collect();
        sent.limit = config.limit;
        sent.ordering = config.output_ordering.clone();
        Some((sent, traces))
    }

    /// The scan as a leaf of a plan, whose traces are opened when it is read.
    pub fn into_plan(self, traces: Arc<str>, opens: Arc<dyn SessionResolver>) -> Arc<dyn ExecutionPlan> {
        let file = |part: &RemotePart| {
            let (name, part) = match part {
                None => ("merged".to_string(), ScanPart::Merged),
                Some((stream, packets)) => {
                    let name = format!("{stream}/{}-{}", packets.start, packets.end);
                    (name, ScanPart::Packets { stream: *stream, packets: packets.clone() })
                }
            };
            PartitionedFile::new(name, 1).with_extension(part)
        };
        let groups = self.groups.iter().map(|parts| FileGroup::new(parts.iter().map(file).collect()));
        let (groups, limit, ordering) = (groups.collect(), self.limit, self.ordering.clone());
        let source = RemoteSource {
            schema: TableSchema::from(self.schema.clone()),
            sent: self,
            traces,
            opens,
            batch_size: 8192,
            metrics: ExecutionPlanMetricsSet::new(),
        };
        let config = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), Arc::new(source))
            .with_file_groups(groups)
            .with_limit(limit)
            .with_output_ordering(ordering);
        DataSourceExec::from_data_source(config.build())
    }
}

/// A scan that was sent.
#[derive(Clone)]
pub struct RemoteSource {
    sent: RemoteScan,
    traces: Arc<str>,
    opens: Arc<dyn SessionResolver>,
    schema: TableSchema,
    batch_size: usize,
    metrics: ExecutionPlanMetricsSet,
}

impl fmt::Debug for RemoteSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SentSource({})", self.sent.table.as_deref().unwrap_or("events"))
    }
}

impl FileSource for RemoteSource {
    fn create_file_opener(
        &self,
        store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        let database = self.opens.open(&self.traces).map_err(|error| DataFusionError::External(Box::new(error)))?;
        let database = Arc::new(database);
        let table = match &self.sent.table {
            None => Some(database.events()),
            Some(name) => database.class_table(name),
        };
        let table = table.filter(|table| table.schema == self.sent.schema).ok_or_else(|| {
            let name = self.sent.table.as_deref().unwrap_or("events");
            DataFusionError::Execution(format!("the table `{name}` has other columns here: the traces differ"))
        })?;
        let source = TraceSource::from_sent(&database, &table, &self.sent, &self.metrics)?;
        let inner = source.with_batch_size(self.batch_size).create_file_opener(store, config, partition)?;
        let told = Arc::new(ScanReport { database, metrics: self.metrics.clone(), partition });
        Ok(Arc::new(SentOpener { inner, told }))
    }

    fn table_schema(&self) -> &TableSchema {
        &self.schema
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        Arc::new(RemoteSource { batch_size, ..self.clone() })
    }

    fn filter(&self) -> Option<Arc<dyn PhysicalExpr>> {
        (!self.sent.conditions.is_empty()).then(|| conjunction(self.sent.conditions.clone()))
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        Some(&self.sent.projection)
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    fn file_type(&self) -> &str {
        "trace"
    }

    fn fmt_extra(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ", table={}", self.sent.table.as_deref().unwrap_or("events"))
    }

    fn supports_repartitioning(&self) -> bool {
        false
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let made = self.sent.projection.as_ref().iter().map(|of| &of.expr);
        for expression in self.sent.conditions.iter().chain(made) {
            if f(expression)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }
}

struct SentOpener {
    inner: Arc<dyn FileOpener>,
    told: Arc<ScanReport>,
}

impl FileOpener for SentOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let (opening, told) = (self.inner.open(file)?, self.told.clone());
        Ok(Box::pin(async move {
            let batches = opening.await?;
            let last = told.clone();
            // Damage after the last rows is reported when there are no more.
            let end = futures::stream::poll_fn(move |_| {
                last.publish();
                std::task::Poll::Ready(None)
            });
            Ok(batches.inspect(move |_| told.publish()).chain(end).boxed())
        }))
    }
}

/// Damage and losses as metrics of the scan, which alone come back beside rows: a counter whose name is the text.
struct ScanReport {
    database: Arc<Database>,
    metrics: ExecutionPlanMetricsSet,
    partition: usize,
}

/// How the names of these counters begin.
const FAULT: &str = "fault: ";
const WARNING: &str = "warning: ";
const LOST: [&str; 3] = ["lost times", "lost integers", "lost values"];

impl ScanReport {
    fn publish(&self) {
        let count = |name: String| MetricBuilder::new(&self.metrics).counter(name, self.partition);
        let (faults, warnings) = self.database.collector.take();
        faults.iter().for_each(|fault| count(format!("{FAULT}{fault}")).add(1));
        warnings.iter().for_each(|warning| count(format!("{WARNING}{warning}")).add(1));
        for (name, lost) in LOST.iter().zip(self.database.lost.take()) {
            if lost > 0 {
                count((*name).to_string()).add(lost as usize);
            }
        }
    }
}

impl Drop for ScanReport {
    fn drop(&mut self) {
        self.publish();
    }
}

/// Gives a counter of a scan that ran elsewhere to the database, when it is one of what reading met.
pub fn take_back(database: &Database, name: &str, value: u64) {
    if let Some(text) = name.strip_prefix(FAULT) {
        database.collector.fault(Error::malformed(text));
    } else if let Some(text) = name.strip_prefix(WARNING) {
        database.collector.warning(Error::malformed(text));
    } else if let Some(at) = LOST.iter().position(|own| *own == name) {
        database.lost.add_to(at, value);
    }
}

/// Our functions.
pub struct RemoteFunctions {
    /// Of one row.
    pub scalar: Vec<Arc<ScalarUDF>>,
    /// Of many rows.
    pub aggregates: Vec<Arc<AggregateUDF>>,
    /// Of rows around a row.
    pub windows: Vec<Arc<WindowUDF>>,
}

/// Our functions, for processes that run plans and have no traces open.
///
/// # Errors
/// When they cannot be made known to DataFusion.
pub fn functions() -> Result<RemoteFunctions> {
    let none = Database::new(Session::default(), &[], Selection::default(), None, 1);
    let none = Arc::new(none.map_err(|error| DataFusionError::External(Box::new(error)))?);
    let scalar = crate::functions::all(&none).into_iter().map(Arc::new).collect();
    Ok(RemoteFunctions { scalar, aggregates: crate::exact::all(), windows: vec![Arc::new(crate::since::since_last())] })
}
