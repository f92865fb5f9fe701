//! The process that is asked: plans, sends, waits, and takes rows and findings back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ballista_core::client::BallistaClient;
use ballista_core::extension::SessionConfigExt;
use ballista_core::serde::protobuf::operator_metric::Metric;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::protobuf::{
    CancelJobParams, ExecuteQueryParams, GetJobMetricsParams, GetJobStatusParams, KeyValuePair, PartitionLocation,
    SuccessfulJob, execute_query_params::Query, execute_query_result, job_status,
};
use ballista_core::utils::create_grpc_client_endpoint;
use ballista_core::version::insert_version_header;
use datafusion::arrow::array::RecordBatch;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::sink::DataSinkExec;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::{SendableRecordBatchStream, SessionState, SessionStateBuilder};
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::explain::ExplainExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::StreamingTableExec;
use datafusion::physical_plan::{ExecutionPlan, collect, execute_stream};
use datafusion_proto::physical_plan::AsExecutionPlan;
use datafusion_proto::protobuf::PhysicalPlanNode;
use futures::{StreamExt, TryStreamExt};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tonic::transport::Channel;
use tracemill_engine::output::Pending;
use tracemill_model::error::Error;
use tracemill_sql::database::Database;
use tracemill_sql::remote::{RemotePlanner, SessionResolver, take_back};

use crate::MESSAGE_BYTES;
use crate::codec::Codec;
use crate::serve::{standalone, with_ours};

/// How often the scheduler is asked whether a query is done.
const PAUSE: Duration = Duration::from_millis(15);

/// A job that the scheduler does not know for so long is lost.
const UNKNOWN: Duration = Duration::from_secs(10);

/// How often a query is asked when executors go.
const TRIES: usize = 3;

/// The scheduler's words for a job that was cancelled.
const GIVEN_UP: &str = "Cancelled";

/// An answer of another process that takes longer does not come. Rows lie in files when they are asked for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster that queries are run on.
#[derive(Debug)]
pub struct Cluster {
    remote: Arc<Remote>,
    threads: Threads,
    /// Rows of the executor inside of this process, which go with it.
    _rows: Option<Pending>,
}

#[derive(Debug)]
struct Remote {
    url: String,
    codec: Arc<Codec>,
}

/// The threads that talk to other processes. They are not waited for: some may be busy.
#[derive(Debug)]
struct Threads(Option<Runtime>);

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(threads) = self.0.take() {
            threads.shutdown_background();
        }
    }
}

/// A task that ends when its result is not wanted any more.
struct Aborted<T>(JoinHandle<T>);

impl<T> Drop for Aborted<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Cluster {
    /// The cluster whose scheduler is at `df://HOST:PORT`, or, for `standalone`, one inside of this process. `traces` is the
    /// text by which its executors open the traces.
    ///
    /// # Errors
    /// When the address is not one, or there is no answer.
    pub fn connect(
        address: &str,
        traces: &str,
        opens: Arc<dyn SessionResolver>,
        jobs: usize,
    ) -> std::result::Result<Cluster, Error> {
        let failed = |error: DataFusionError| Error::unsupported(format!("the cluster cannot be used: {error}"));
        let threads = Builder::new_multi_thread().enable_all().build();
        let threads = threads.map_err(|error| Error::unsupported(format!("no threads for a cluster: {error}")))?;
        let codec = Arc::new(Codec::new(opens, Some(traces.into())).map_err(failed)?);
        let (url, rows) = match (address, address.strip_prefix("df://")) {
            ("standalone", _) => {
                let (url, rows) = threads.block_on(standalone(codec.clone(), jobs))?;
                (url, Some(rows))
            }
            (_, Some(host)) if host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) => {
                (format!("http://{host}"), None)
            }
            _ => {
                let error = Error::misuse(format!("`{address}` is not an address of a cluster, in --cluster"));
                return Err(error.with_help("for example df://127.0.0.1:50050, or standalone"));
            }
        };
        let remote = Arc::new(Remote { url, codec });
        threads.block_on(remote.scheduler()).map_err(|_| {
            let error = Error::unsupported(format!("no scheduler answers at {address}"));
            error.with_help("`tracemill cluster scheduler` starts one")
        })?;
        Ok(Cluster { remote, threads: Threads(Some(threads)), _rows: rows })
    }
}

impl Remote {
    async fn scheduler(&self) -> Result<SchedulerGrpcClient<Channel>> {
        let endpoint = create_grpc_client_endpoint(self.url.clone(), None).map_err(outer)?;
        let channel = endpoint.connect_timeout(PATIENCE).timeout(PATIENCE).connect().await.map_err(outer)?;
        let client = SchedulerGrpcClient::new(channel);
        Ok(client.max_encoding_message_size(MESSAGE_BYTES).max_decoding_message_size(MESSAGE_BYTES))
    }
}

fn outer(error: impl std::fmt::Display) -> DataFusionError {
    DataFusionError::Execution(format!("the cluster: {error}"))
}

/// Cancels a job whose rows are not wanted any more.
struct Job {
    id: String,
    scheduler: SchedulerGrpcClient<Channel>,
    is_done: bool,
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let (mut scheduler, job_id) = (self.scheduler.clone(), self.id.clone());
        if let Ok(threads) = tokio::runtime::Handle::try_current() {
            // The scheduler may be gone: then there is nothing to cancel.
            threads.spawn(async move { scheduler.cancel_job(CancelJobParams { job_id }).await.is_ok() });
        }
    }
}

/// Is a leaf one that executors read?
fn is_read_there(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.downcast_ref::<DataSourceExec>().is_some_and(|leaf| leaf.data_source().is::<FileScanConfig>())
}

#[async_trait]
impl RemotePlanner for Cluster {
    fn planning(&self, state: SessionState) -> SessionState {
        let config = state.config().clone().upgrade_for_ballista();
        let rules = ballista_core::optimizer::with_ballista_optimizer_rules(state.optimizers());
        SessionStateBuilder::new_from_existing(state).with_config(with_ours(config)).with_optimizer_rules(rules).build()
    }

    async fn run(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        state: &SessionState,
        database: &Arc<Database>,
    ) -> Result<SendableRecordBatchStream> {
        if plan.is::<ExplainExec>() || !plan.exists(|part| Ok(is_read_there(part)))? {
            return execute_stream(plan, state.task_ctx());
        }
        if plan.exists(|part| Ok(part.is::<DataSinkExec>()))? {
            return Err(DataFusionError::Plan(
                "a cluster writes no files: give the rows to -o, or leave --cluster out".into(),
            ));
        }
        if plan.exists(|part| Ok(part.is::<AnalyzeExec>()))? {
            return Err(DataFusionError::Plan("a cluster has no `explain analyze`: leave --cluster out".into()));
        }
        let Some(threads) = &self.threads.0 else { return Err(outer("it has ended")) };
        let (remote, state, database) = (self.remote.clone(), state.clone(), database.clone());
        let schema = plan.schema();
        let mut begun = Aborted(threads.spawn(async move { remote.rows(plan, &state, &database).await }));
        let mut rows = (&mut begun.0).await.map_err(outer)??;
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        let passed = Aborted(threads.spawn(async move {
            while let Some(next) = rows.next().await {
                if sender.send(Some(next)).await.is_err() {
                    return;
                }
            }
            // A receiver that has gone wants no end.
            let _ = sender.send(None).await;
        }));
        let rows = futures::stream::unfold(Some((receiver, passed)), |state| async {
            let (mut receiver, passed) = state?;
            match receiver.recv().await {
                Some(Some(next)) => {
                    let goes_on = next.is_ok();
                    Some((next, goes_on.then_some((receiver, passed))))
                }
                Some(None) => None,
                // Without a word of the end, rows may be missing.
                None => Some((Err(outer("the rows broke off")), None)),
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

impl Remote {
    /// Sends a plan, waits until its rows are there, and begins to fetch them.
    async fn rows(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        state: &SessionState,
        database: &Arc<Database>,
    ) -> Result<SendableRecordBatchStream> {
        let plan = with_rows(plan, state).await?;
        let schema = plan.schema();
        let message = PhysicalPlanNode::try_from_physical_plan(plan, self.codec.as_ref())?;
        let mut bytes = Vec::new();
        message.try_encode(&mut bytes)?;
        if bytes.len() > MESSAGE_BYTES {
            let error = format!("the tables of the query that are no events have {} bytes: too much", bytes.len());
            return Err(DataFusionError::Execution(error));
        }
        let entries = state.config_options().entries();
        let settings = entries.into_iter().map(|entry| KeyValuePair { key: entry.key, value: entry.value }).collect();
        let query = ExecuteQueryParams {
            query: Some(Query::PhysicalPlan(bytes)),
            settings,
            session_id: state.session_id().to_string(),
            operation_id: String::new(),
        };
        let mut scheduler = self.scheduler().await?;
        let mut tries = 0;
        let (id, done) = loop {
            if let Some(done) = run_query(&mut scheduler, query.clone()).await? {
                break done;
            }
            tries += 1;
            if tries == TRIES {
                let error =
                    format!("it gave the query up {TRIES} times: an executor ended while it ran, or there is none");
                return Err(outer(error));
            }
        };
        // Before any row: a part of the rows is not taken for all.
        let params = GetJobMetricsParams { job_id: id };
        let metrics = scheduler.get_job_metrics(params).await.map_err(|status| outer(status.message()))?;
        let operators = metrics.into_inner().stages.into_iter().flat_map(|stage| stage.operators);
        for metric in operators.flat_map(|operator| operator.metrics) {
            if let Some(Metric::Count(count)) = metric.metric {
                take_back(database, &count.name, count.value);
            }
        }
        let parts = done.partition_location.into_iter().map(|part| futures::stream::once(fetched(part)).try_flatten());
        let rows = futures::stream::iter(parts).flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// Has a query run to its end; the name of the job, and where its rows are. `None` when the scheduler gave it up, as it does
/// when an executor has gone.
async fn run_query(
    scheduler: &mut SchedulerGrpcClient<Channel>,
    query: ExecuteQueryParams,
) -> Result<Option<(String, SuccessfulJob)>> {
    let mut request = tonic::Request::new(query);
    insert_version_header(request.metadata_mut());
    let answer = scheduler.execute_query(request).await.map_err(|status| outer(status.message()))?;
    let id = match answer.into_inner().result {
        Some(execute_query_result::Result::Success(success)) => success.job_id,
        Some(execute_query_result::Result::Failure(failure)) => return Err(outer(format!("{failure:?}"))),
        None => return Err(outer("no answer")),
    };
    let mut job = Job { id: id.clone(), scheduler: scheduler.clone(), is_done: false };
    let mut unknown: Option<Instant> = None;
    loop {
        let params = GetJobStatusParams { job_id: id.clone() };
        let answer = scheduler.get_job_status(params).await.map_err(|status| outer(status.message()))?;
        let status = answer.into_inner().status.and_then(|status| status.status);
        // It knows nothing of a job that it has just been given; and never of one from before it was restarted.
        match status {
            Some(_) => unknown = None,
            None if unknown.get_or_insert_with(Instant::now).elapsed() > UNKNOWN => return Ok(None),
            None => (),
        }
        match status {
            Some(job_status::Status::Successful(done)) => {
                job.is_done = true;
                return Ok(Some((id, done)));
            }
            Some(job_status::Status::Failed(failed)) => {
                job.is_done = true;
                return match failed.error == GIVEN_UP {
                    true => Ok(None),
                    false => Err(DataFusionError::Execution(failed.error)),
                };
            }
            _ => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// The rows of a partition of the result.
async fn fetched(part: PartitionLocation) -> Result<SendableRecordBatchStream> {
    let layout = part.layout();
    let (Some(host), Some(id)) = (part.executor_meta, part.partition_id) else {
        return Err(outer("a part of the result is nowhere"));
    };
    let port = host.port as u16;
    let address = format!("{}:{port}", host.host);
    let gone = move |_| outer(format!("the executor at {address} gives no rows any more"));
    let id = id.into();
    let begun = async {
        let client = BallistaClient::try_new(&host.host, port, MESSAGE_BYTES, false, None, 3, 200, 0, 0).await;
        let mut client = client.map_err(outer)?;
        let rows = client.fetch_partition_proxied(&host.id, &id, part.file_id, layout, &host.host, port, true);
        rows.await.map_err(outer)
    };
    let rows = tokio::time::timeout(PATIENCE, begun).await.map_err(&gone)??;
    let schema = rows.schema();
    let rows = futures::stream::try_unfold(rows, move |mut rows| {
        let gone = gone.clone();
        async move {
            let next = tokio::time::timeout(PATIENCE, rows.next()).await.map_err(gone)?;
            Ok(next.transpose()?.map(|next| (next, rows)))
        }
    });
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
}

/// The plan with the rows of leaves that other processes cannot make.
async fn with_rows(plan: Arc<dyn ExecutionPlan>, state: &SessionState) -> Result<Arc<dyn ExecutionPlan>> {
    let mut leaves = Vec::new();
    plan.apply(|part| {
        if part.is::<StreamingTableExec>() {
            leaves.push(part.clone());
        }
        Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
    })?;
    let mut made: Vec<Option<Arc<dyn ExecutionPlan>>> = Vec::new();
    for leaf in leaves {
        let rows: Vec<RecordBatch> = collect(leaf.clone(), state.task_ctx()).await?;
        made.push(Some(MemorySourceConfig::try_new_exec(&[rows], leaf.schema(), None)?));
    }
    let mut made = made.into_iter();
    let changed = plan.transform_down(|part| {
        if !part.is::<StreamingTableExec>() {
            return Ok(Transformed::no(part));
        }
        Ok(match made.next().flatten() {
            Some(rows) => Transformed::yes(rows),
            None => Transformed::no(part),
        })
    })?;
    Ok(changed.data)
}
