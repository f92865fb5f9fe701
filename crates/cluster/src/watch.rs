//! Looks after the executors of a scheduler.
//!
//! Ballista notices after a while that an executor has gone, and then mends the plans of its queries in part; but the room that
//! others kept for tasks of such a plan is not always given back, so that a query waits for ever. Here nothing is mended: when
//! an executor has gone, the queries that run are given up, and asked again by those who asked them; and the executors that are
//! left are counted again when they next say that they are there.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ballista_core::JobId;
use ballista_core::serde::protobuf::scheduler_grpc_server::SchedulerGrpc;
use ballista_core::serde::protobuf::{CancelJobParams, ExecutorStoppedParams, job_status};
use ballista_core::serde::scheduler::ExecutorMetadata;
use ballista_scheduler::cluster::{
    BallistaCluster, ClusterState, ClusterStateEvent, ClusterStateEventStream, JobState,
};
use ballista_scheduler::scheduler_server::SchedulerServer;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use futures::{FutureExt, StreamExt};
use tokio::net::TcpStream;
use tonic::Request;

/// How often executors are looked at.
const PAUSE: Duration = Duration::from_millis(500);

/// An executor that takes longer to be reached has gone.
const REACH: Duration = Duration::from_secs(5);

/// Queries wait this long for the first executor.
const WITHOUT: Duration = Duration::from_secs(15);

pub(crate) type Server = SchedulerServer<LogicalPlanNode, PhysicalPlanNode>;

/// The scheduler and executors that are looked after.
pub(crate) struct Watch {
    executors: Arc<dyn ClusterState>,
    jobs: Arc<dyn JobState>,
    server: Server,
    /// Executors that were there when it was last looked.
    known: HashMap<String, ExecutorMetadata>,
    /// Changes of the executors: some come and go between two looks. The lock is never contended; it makes the stream
    /// shareable between tasks.
    events: Option<Mutex<ClusterStateEventStream>>,
    /// Executors that were taken out here, and did not come again.
    stopped: HashSet<String>,
    /// Executors that could not be reached then.
    missed: HashSet<String>,
    /// Queries that were being planned when an executor had gone: they are given up as soon as they run.
    doomed: HashSet<JobId>,
    /// Since when there is none.
    alone: Option<Instant>,
}

impl Watch {
    pub(crate) fn new(cluster: &BallistaCluster, server: Server) -> Watch {
        Watch {
            executors: cluster.cluster_state(),
            jobs: cluster.job_state(),
            server,
            known: HashMap::new(),
            events: None,
            stopped: HashSet::new(),
            missed: HashSet::new(),
            doomed: HashSet::new(),
            alone: None,
        }
    }

    /// Goes on until the process ends.
    pub(crate) async fn run(mut self) {
        self.events = self.executors.cluster_state_events().await.ok().map(Mutex::new);
        loop {
            tokio::time::sleep(PAUSE).await;
            self.poll().await;
        }
    }

    async fn poll(&mut self) {
        self.cancel_doomed().await;
        let there = self.executors.registered_executor_metadata().await;
        let there: HashMap<String, ExecutorMetadata> = there.into_iter().map(|one| (one.id.clone(), one)).collect();
        // One that says itself that it ends is no longer in the list.
        let mut lost = self.removed().or(self.known.keys().find(|id| !there.contains_key(*id)).cloned());
        if lost.is_none() {
            let reached = there.values().map(|one| async move { (one, is_reached(one).await) });
            let reached = futures::future::join_all(reached).await;
            let missed: HashSet<String> =
                reached.into_iter().filter(|(_, is_there)| !is_there).map(|(one, _)| one.id.clone()).collect();
            // One connection that fails may be chance.
            lost = missed.iter().find(|id| self.missed.contains(*id)).cloned();
            self.missed = missed;
        }
        if let Some(lost) = lost {
            self.fail_jobs(&there, &lost).await;
            return;
        }
        self.known = there;
        if !self.known.is_empty() {
            self.alone = None;
        } else if self.alone.get_or_insert_with(Instant::now).elapsed() > WITHOUT {
            self.cancel_all().await;
            self.alone = None;
        }
    }

    /// An executor that somebody else has taken out: tasks could not be sent to it, or it said itself that it ends.
    fn removed(&mut self) -> Option<String> {
        let mut removed = None;
        while let Some(Some(event)) =
            self.events.as_mut().and_then(|events| events.get_mut().ok()?.next().now_or_never())
        {
            match event {
                ClusterStateEvent::RegisteredExecutor { executor_id } => drop(self.stopped.remove(&executor_id)),
                ClusterStateEvent::RemovedExecutor { executor_id } if !self.stopped.contains(&executor_id) => {
                    removed = Some(executor_id);
                }
                ClusterStateEvent::RemovedExecutor { .. } => {}
            }
        }
        removed
    }

    async fn fail_jobs(&mut self, there: &HashMap<String, ExecutorMetadata>, lost: &str) {
        // Before any executor is taken out, which would have their plans mended.
        self.cancel_all().await;
        for id in there.keys() {
            let reason = format!("the executor {lost} has gone");
            let params = ExecutorStoppedParams { executor_id: id.clone(), reason };
            self.stopped.insert(id.clone());
            // It fails only when the scheduler itself ends.
            let _ = self.server.executor_stopped(Request::new(params)).await;
        }
        // Some were being planned, and have had tasks since, or will have some that were bound to an executor before.
        self.cancel_all().await;
        self.doomed.extend(self.jobs.get_all_jobs().await.unwrap_or_default());
        self.cancel_doomed().await;
        self.known.clear();
        self.missed.clear();
    }

    /// Gives up all queries that run. Those that are being planned have no tasks yet.
    async fn cancel_all(&self) {
        for job in self.jobs.get_all_jobs().await.unwrap_or_default() {
            self.cancel(&job).await;
        }
    }

    /// Gives up those that had been planned too late, and forgets those that have ended.
    async fn cancel_doomed(&mut self) {
        for job in std::mem::take(&mut self.doomed) {
            if self.cancel(&job).await {
                self.doomed.insert(job);
            }
        }
    }

    /// Gives up a query if it runs. Is it still being planned?
    async fn cancel(&self, job: &JobId) -> bool {
        let status = self.jobs.get_job_status(job).await.ok().flatten().and_then(|status| status.status);
        if matches!(status, Some(job_status::Status::Running(_))) {
            let params = CancelJobParams { job_id: job.to_string() };
            // It fails only when the scheduler itself ends.
            let _ = SchedulerGrpc::cancel_job(&self.server, Request::new(params)).await;
        }
        matches!(status, Some(job_status::Status::Queued(_)))
    }
}

/// Does an executor listen?
async fn is_reached(one: &ExecutorMetadata) -> bool {
    let connected = TcpStream::connect((one.host.as_str(), one.grpc_port));
    matches!(tokio::time::timeout(REACH, connected).await, Ok(Ok(_)))
}
