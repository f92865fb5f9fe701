//! Facts about a recording in the environment of its trace.

use tracemill_model::schema::{EnvValue, Schema};

/// Where and of what a trace was recorded, as far as its environment says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Recording<'a> {
    /// Name of the machine. Numbers of threads, processes and CPUs mean something on one machine only.
    pub host: Option<&'a str>,
    /// `kernel`, `ust` and the like.
    pub domain: Option<&'a str>,
    /// Name of the only process.
    pub process_name: Option<&'a str>,
    /// Number of the only process.
    pub process: Option<i128>,
    /// Number of CPUs of the machine.
    pub cpus: Option<u64>,
}

/// Names that recorders have for the number of CPUs.
const CPU_COUNTS: [&str; 9] =
    ["cpus", "nr_cpus", "nrcpus", "num_cpus", "ncpus", "cpu_count", "nrcpus_online", "nr_cpus_online", "online_cpus"];

impl<'a> Recording<'a> {
    /// The recording of a trace.
    ///
    /// ```
    /// use tracemill_model::schema::{EnvValue, Schema};
    /// use tracemill_semantics::Recording;
    ///
    /// let mut schema = Schema::new("example");
    /// schema.environment.push(("hostname".into(), EnvValue::String("mill".into())));
    /// assert_eq!(Recording::from_schema(&schema).host, Some("mill"));
    /// ```
    pub fn from_schema(schema: &'a Schema) -> Self {
        let text = |key: &str| match schema.env(key) {
            Some(EnvValue::String(text)) => Some(&**text),
            _ => None,
        };
        let process = match schema.env("vpid") {
            Some(EnvValue::Integer(process)) => Some(*process),
            _ => None,
        };
        let cpus = CPU_COUNTS.iter().find_map(|key| match schema.env(key)? {
            EnvValue::Integer(count) => u64::try_from(*count).ok(),
            EnvValue::String(text) => text.parse().ok(),
        });
        Recording { cpus, host: text("hostname"), domain: text("domain"), process_name: text("procname"), process }
    }
}
