//! Queries whose rows executors of a cluster make.

use std::sync::Arc;

use tracemill_cluster::{Cluster, NamedTraces};
use tracemill_model::error::Error;
use tracemill_sql::database::Database;
use tracemill_sql::remote::{RemotePlanner, SessionResolver};

/// Opens nothing: executors are programs.
#[derive(Debug)]
struct Nothing;

impl SessionResolver for Nothing {
    fn open(&self, _: &str) -> Result<Database, Error> {
        Err(Error::unsupported("traces are read by executors, not by Python"))
    }
}

/// The cluster at an address, for traces.
pub(crate) fn connect(address: &str, traces: &NamedTraces, jobs: usize) -> Result<Arc<dyn RemotePlanner>, Error> {
    if address == "standalone" {
        let error = Error::misuse("a cluster inside of Python is none");
        return Err(error.with_help("leave `cluster` out, or give the address of a scheduler: df://127.0.0.1:50050"));
    }
    Ok(Arc::new(Cluster::connect(address, &traces.text(), Arc::new(Nothing), jobs)?))
}
