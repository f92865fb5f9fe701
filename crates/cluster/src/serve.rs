//! Schedulers and executors.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arrow_flight::flight_service_server::FlightServiceServer;
use ballista_core::extension::SessionConfigExt;
use ballista_core::ids::new_instance_id;
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_core::serde::protobuf::ExecutorRegistration;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::scheduler::{ExecutorOperatingSystemSpecification, ExecutorSpecification};
use ballista_core::serde::{BallistaCodec, BallistaLogicalExtensionCodec};
use ballista_core::utils::{GrpcServerConfig, create_grpc_client_endpoint, create_grpc_server};
use ballista_core::{BALLISTA_PROTOCOL_VERSION, ConfigProducer, JobId, RuntimeProducer};
use ballista_executor::execution_engine::{DefaultExecutionEngine, ExecutionEngine, QueryStageExecutor};
use ballista_executor::execution_loop::poll_loop;
use ballista_executor::executor::Executor as Worker;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_executor::flight_service::BallistaFlightService;
use ballista_executor::health::ExecutorHealth;
use ballista_executor::metrics::LoggingMetricsCollector;
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::{create_scheduler, start_grpc_service};
use ballista_scheduler::standalone::new_standalone_scheduler_with_builder;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::sink::DataSinkExec;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use tokio_stream::wrappers::TcpListenerStream;
use tracemill_engine::output::Pending;
use tracemill_model::error::Error;
use tracemill_sql::remote::{RemoteFunctions, RemoteSource, SessionResolver, functions};

use crate::MESSAGE_BYTES;
use crate::allow::Allow;
use crate::codec::Codec;
use crate::watch::Watch;

/// The settings that all parts of a cluster share.
pub(crate) fn with_ours(mut config: SessionConfig) -> SessionConfig {
    config = config.with_ballista_grpc_client_max_message_size(MESSAGE_BYTES);
    let options = config.options_mut();
    // Each of the tasks of a scan would read the parts of all.
    options.execution.enable_file_stream_work_stealing = false;
    options.optimizer.enable_dynamic_filter_pushdown = false;
    config
}

fn config() -> ConfigProducer {
    Arc::new(|| with_ours(SessionConfig::new_with_ballista()))
}

fn state(config: SessionConfig) -> Result<SessionState> {
    let RemoteFunctions { scalar, aggregates, windows } = functions()?;
    let mut state = SessionStateBuilder::new().with_config(config).with_default_features();
    state.scalar_functions().get_or_insert_default().extend(scalar);
    state.aggregate_functions().get_or_insert_default().extend(aggregates);
    state.window_functions().get_or_insert_default().extend(windows);
    Ok(state.build())
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::unsupported(format!("the cluster cannot be set up: {error}"))
}

/// A folder for the rows that tasks give to others, until it is dropped. Executors of Ballista do not remove the one that they
/// make themselves.
///
/// # Errors
/// When the folder for temporary files cannot be written.
fn exchange() -> std::result::Result<Pending, Error> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("tracemill-rows-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let folder = Pending::new(&std::env::temp_dir().join(name))?;
    folder.make_private_folder()?;
    Ok(folder)
}

/// Starts a scheduler and an executor inside of this process; the address of the scheduler, and the folder that the executor
/// needs for as long as it is asked.
pub(crate) async fn standalone(codec: Arc<Codec>, jobs: usize) -> std::result::Result<(String, Pending), Error> {
    let codec = || BallistaCodec::new(Arc::new(BallistaLogicalExtensionCodec::default()), codec.clone());
    let address = new_standalone_scheduler_with_builder(Arc::new(state), config(), codec()).await.map_err(failed)?;
    let url = format!("http://localhost:{}", address.port());
    let endpoint = create_grpc_client_endpoint(url.clone(), None).map_err(failed)?;
    let scheduler = SchedulerGrpcClient::new(endpoint.connect().await.map_err(failed)?);
    let scheduler = scheduler.max_encoding_message_size(MESSAGE_BYTES).max_decoding_message_size(MESSAGE_BYTES);

    let folder = exchange()?;
    let rows = folder.path().to_string_lossy().into_owned();
    let listener = tokio::net::TcpListener::bind("localhost:0").await.map_err(failed)?;
    let own = ExecutorRegistration {
        id: new_instance_id(),
        host: Some("localhost".into()),
        port: listener.local_addr().map_err(failed)?.port().into(),
        // It asks for its tasks.
        grpc_port: 0,
        specification: Some(ExecutorSpecification::default().with_vcores(jobs as u32).into()),
        os_info: Some(ExecutorOperatingSystemSpecification::default().into()),
        ballista_protocol_version: BALLISTA_PROTOCOL_VERSION,
    };
    let runtime = Arc::new(RuntimeEnv::default());
    let runtimes: RuntimeProducer = Arc::new(move |_| Ok(runtime.clone()));
    let registry = BallistaFunctionRegistry::from(&state(config()()).map_err(failed)?);
    let metrics = Arc::new(LoggingMetricsCollector::default());
    let executor =
        Worker::with_default_execution_engine(own, &rows, runtimes, config(), Arc::new(registry), metrics, jobs);
    let server = FlightServiceServer::new(BallistaFlightService::new(rows));
    let server = server.max_decoding_message_size(MESSAGE_BYTES).max_encoding_message_size(MESSAGE_BYTES);
    let server = create_grpc_server(&GrpcServerConfig::default()).add_service(server);
    // Both end with the threads of the cluster.
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    tokio::spawn(poll_loop(scheduler, Arc::new(executor), codec(), None, None, ExecutorHealth::new()));
    Ok((url, folder))
}

/// Runs a scheduler until the process ends. It opens nothing: `opens` is for plans that it passes on.
///
/// # Errors
/// When the address cannot be bound.
pub async fn scheduler(bind: SocketAddr, opens: Arc<dyn SessionResolver>) -> std::result::Result<(), Error> {
    let codec = Codec::new(opens, None).map_err(failed)?;
    let config = SchedulerConfig {
        external_host: bind.ip().to_string(),
        bind_host: bind.ip().to_string(),
        bind_port: bind.port(),
        override_config_producer: Some(config()),
        override_session_builder: Some(Arc::new(state)),
        override_physical_codec: Some(Arc::new(codec)),
        grpc_server_max_decoding_message_size: MESSAGE_BYTES as u32,
        grpc_server_max_encoding_message_size: MESSAGE_BYTES as u32,
        grpc_client_max_message_size: MESSAGE_BYTES as u32,
        executor_timeout_seconds: 15,
        expire_dead_executor_interval_seconds: 5,
        no_executors_grace_period_seconds: 15,
        ..SchedulerConfig::default()
    };
    config.validate().map_err(failed)?;
    let cluster = BallistaCluster::new_from_config(&config).await.map_err(failed)?;
    let server = create_scheduler(cluster.clone(), Arc::new(config)).await.map_err(failed)?;
    tokio::spawn(Watch::new(&cluster, server.clone()).run());
    start_grpc_service(bind, server).await.map_err(failed)
}

/// How an executor is set up.
#[derive(Debug)]
pub struct Executor {
    /// Host and port of the scheduler.
    pub scheduler: String,
    /// Where it gives rows to others.
    pub bind: SocketAddr,
    /// Tasks at a time.
    pub jobs: usize,
    /// Bytes for groups, joins and sorts.
    pub memory_bytes: usize,
    /// Folders below which it opens files.
    pub allow: Vec<PathBuf>,
}

impl Executor {
    /// The folders and files that it may open.
    ///
    /// # Errors
    /// When nothing was said, and somebody on another machine may ask.
    pub fn allowed(&self) -> std::result::Result<Allow, Error> {
        let is_local = |address: &SocketAddr| address.ip().is_loopback();
        let scheduler = self.scheduler.to_socket_addrs();
        let is_near = scheduler.is_ok_and(|mut all| all.all(|address| is_local(&address))) && is_local(&self.bind);
        if self.allow.is_empty() && !is_near {
            let error =
                Error::misuse("other machines may ask this executor for files, and --allow does not say for which");
            return Err(error.with_help("give the folders of the traces: --allow DIR"));
        }
        Allow::new(&self.allow)
    }
}

/// Runs an executor until the process ends.
///
/// # Errors
/// When no scheduler answers, and when it cannot listen.
pub async fn executor(own: Executor, opens: Arc<dyn SessionResolver>) -> std::result::Result<(), Error> {
    let Some((host, port)) = own.scheduler.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)))
    else {
        return Err(Error::misuse(format!("`{}` is not HOST:PORT, in --scheduler", own.scheduler)));
    };
    let allow = own.allowed()?;
    let codec = Codec::new(opens, None).map_err(failed)?;
    // Tasks are given to a second port.
    let free = TcpListener::bind((own.bind.ip(), 0)).and_then(|listener| listener.local_addr()).map_err(failed)?;
    let registry = BallistaFunctionRegistry::from(&state(config()()).map_err(failed)?);
    let folder = exchange()?;
    let process = ExecutorProcessConfig {
        work_dir: Some(folder.path().to_string_lossy().into_owned()),
        bind_host: own.bind.ip().to_string(),
        external_host: Some(own.bind.ip().to_string()),
        port: own.bind.port(),
        grpc_port: free.port(),
        scheduler_host: host.into(),
        scheduler_port: port,
        scheduler_connect_timeout_seconds: 10,
        vcores: own.jobs,
        memory_pool_size: Some(own.memory_bytes as u64),
        // It is counted again with the next one when another executor has gone.
        executor_heartbeat_interval_seconds: 2,
        job_data_ttl_seconds: 3600,
        job_data_clean_up_interval_seconds: 600,
        grpc_max_decoding_message_size: MESSAGE_BYTES as u32,
        grpc_max_encoding_message_size: MESSAGE_BYTES as u32,
        override_config_producer: Some(config()),
        override_physical_codec: Some(Arc::new(codec)),
        override_function_registry: Some(Arc::new(registry)),
        override_execution_engine: Some(Arc::new(Guarded { inner: DefaultExecutionEngine::new(), allow })),
        ..ExecutorProcessConfig::default()
    };
    start_executor_process(Arc::new(process)).await.map_err(failed)
}

/// Runs tasks that open nothing but what is allowed, and write nothing but their rows.
struct Guarded {
    inner: DefaultExecutionEngine,
    allow: Allow,
}

impl ExecutionEngine for Guarded {
    fn create_query_stage_exec(
        &self,
        job_id: JobId,
        stage_id: usize,
        task_id: usize,
        partitions: Vec<usize>,
        plan: Arc<dyn ExecutionPlan>,
        work_dir: &str,
        config: &SessionConfig,
    ) -> Result<Arc<dyn QueryStageExecutor>> {
        plan.apply(|part| {
            self.check(part.as_ref())?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        self.inner.create_query_stage_exec(job_id, stage_id, task_id, partitions, plan, work_dir, config)
    }
}

impl Guarded {
    fn check(&self, part: &dyn ExecutionPlan) -> Result<()> {
        if part.is::<DataSinkExec>() {
            return Err(DataFusionError::Execution("executors write no files".into()));
        }
        let leaf = part.downcast_ref::<DataSourceExec>();
        let Some(files) = leaf.and_then(|leaf| leaf.data_source().downcast_ref::<FileScanConfig>()) else {
            return Ok(());
        };
        // Scans of traces ask before they open.
        if files.file_source.is::<RemoteSource>() {
            return Ok(());
        }
        if files.object_store_url.as_str() != "file:///" {
            return Err(DataFusionError::Execution("executors read local files only".into()));
        }
        for file in files.file_groups.iter().flat_map(|group| group.files()) {
            let path = Path::new("/").join(file.object_meta.location.as_ref());
            self.allow.check(&path).map_err(|error| DataFusionError::Execution(error.to_string()))?;
        }
        Ok(())
    }
}
