//! Queries: from text to answers.

use std::collections::HashMap;
use std::ops::{ControlFlow, Deref};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use arrow_array::RecordBatch;
pub use arrow_schema::SchemaRef;
use datafusion::common::config::ConfigExtension;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, ScalarValue, extensions_options};
use datafusion::dataframe::DataFrame;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::logical_expr::{Expr, LogicalPlan, Statement as PlanStatement};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use futures::StreamExt;
use tokio::sync::Notify;
use tracemill_model::error::Error;

use crate::by_name::GroupByName;
use crate::catalog::{CATALOG, Catalog, MAIN};
use crate::context::QueryContext;
use crate::database::Database;
use crate::errors::{Wrong, explained};
use crate::functions;
use crate::overlap::{KnownOverlaps, is_overlap};
use crate::read::{OUT_OF_ORDER, OutOfOrder};
use crate::remote::RemotePlanner;
use crate::rewrite::rewritten;

extensions_options! {
    /// Settings of queries over traces: `set tracemill.NAME = VALUE`.
    pub struct QuerySettings {
        /// Do scans decide conditions, where they can? The rows are the same: for tests, and for who doubts it.
        pub pushdown: bool, default = true
    }
}

impl ConfigExtension for QuerySettings {
    const PREFIX: &'static str = "tracemill";
}

/// Takes the rows of answers.
pub trait Answers {
    /// An answer begins.
    ///
    /// # Errors
    /// Errors of writing, and when there may be no further answer.
    fn begin(&mut self, schema: &SchemaRef) -> std::result::Result<(), Error>;

    /// Rows of the answer. `Break` when no more are wanted.
    ///
    /// # Errors
    /// Errors of writing.
    fn rows(&mut self, batch: &RecordBatch) -> std::result::Result<ControlFlow<()>, Error>;

    /// The answer is complete.
    ///
    /// # Errors
    /// Errors of writing.
    fn end(&mut self) -> std::result::Result<(), Error>;
}

/// How a query failed.
#[derive(Debug)]
pub enum Failure {
    /// Somebody asked it to stop.
    Stopped,
    /// The text is wrong: nothing was read.
    Wrong(Error),
    /// It failed on the way.
    Failed(Error),
}

/// Knows where things lie that memory has no room for. They go with the last thread of their query; a program that ends sooner
/// removes them.
pub struct Spilled(Arc<RuntimeEnv>);

impl Spilled {
    /// The folders, so far.
    pub fn folders(&self) -> Vec<std::path::PathBuf> {
        self.0.disk_manager.temp_dir_paths()
    }
}

/// Asks a database.
pub struct Queries {
    database: Arc<Database>,
    pub(crate) context: SessionContext,
    pub(crate) runtime: Threads,
    pub(crate) overlaps: KnownOverlaps,
    parameters: HashMap<String, ScalarValue>,
    /// When it becomes true, the query that runs ends.
    pub stop: &'static AtomicBool,
    /// Where plans are run, when that is not here.
    pub(crate) elsewhere: Option<Arc<dyn RemotePlanner>>,
}

/// How much memory groups, joins and sorts have together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryLimits {
    /// In bytes; what does not fit is written into temporary files.
    pub memory_bytes: usize,
    /// May anything be written?
    pub spills: bool,
}

/// The threads of queries. A query that was stopped may hold one for a while, as it only looks up between its steps: the end
/// of a program does not wait for that.
pub(crate) struct Threads(Option<tokio::runtime::Runtime>);

impl Threads {
    pub(crate) fn new(count: usize) -> std::result::Result<Threads, Error> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(count).enable_time().build();
        let failed = |error| Error::unsupported(format!("no threads for queries: {error}"));
        runtime.map(|runtime| Threads(Some(runtime))).map_err(failed)
    }
}

impl Deref for Threads {
    type Target = tokio::runtime::Runtime;

    fn deref(&self) -> &tokio::runtime::Runtime {
        match &self.0 {
            Some(runtime) => runtime,
            None => unreachable!("they are there until they are dropped"),
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A task that ends at its next step when its results are not wanted any more.
struct Aborted(tokio::task::JoinHandle<()>);

impl Drop for Aborted {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An error that no query must ever have.
pub(crate) const BROKE_OFF: &str = "the query broke off: this is a mistake of tracemill";

/// Never set: for queries that are not stopped.
static NEVER: AtomicBool = AtomicBool::new(false);

/// How long a query goes on after it was asked to stop, about.
const PATIENCE: Duration = Duration::from_millis(10);

/// Wakes who waits for rows when the query shall end. A timer of the runtime does not do: where all of its threads are at work,
/// none looks at the time.
struct QueryWatch {
    stopped: Arc<Notify>,
    is_over: Arc<AtomicBool>,
    thread: Option<std::thread::Thread>,
}

impl QueryWatch {
    fn new(stop: &'static AtomicBool) -> std::result::Result<QueryWatch, Error> {
        let mut watch = QueryWatch { stopped: Arc::default(), is_over: Arc::default(), thread: None };
        if std::ptr::eq(stop, &NEVER) {
            return Ok(watch);
        }
        let (stopped, is_over) = (watch.stopped.clone(), watch.is_over.clone());
        let looks = move || {
            while !is_over.load(Ordering::Relaxed) {
                if stop.load(Ordering::Relaxed) {
                    return stopped.notify_one();
                }
                std::thread::park_timeout(PATIENCE);
            }
        };
        let thread = std::thread::Builder::new().spawn(looks);
        let thread = thread.map_err(|error| Error::unsupported(format!("no threads for queries: {error}")))?;
        watch.thread = Some(thread.thread().clone());
        Ok(watch)
    }
}

impl Drop for QueryWatch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.iter().for_each(std::thread::Thread::unpark);
    }
}

impl Queries {
    /// Queries of a database.
    ///
    /// # Errors
    /// When the system has no threads for them.
    pub fn new(database: Database, limits: MemoryLimits) -> std::result::Result<Queries, Error> {
        let database = Arc::new(database);
        let runtime = Threads::new(database.jobs)?;
        let mut config = SessionConfig::new()
            .with_default_catalog_and_schema(CATALOG, MAIN)
            .with_create_default_catalog_and_schema(false)
            .with_information_schema(true)
            .with_target_partitions(database.jobs);
        let options = config.options_mut();
        options.sql_parser.enable_ident_normalization = false;
        options.sql_parser.collect_spans = true;
        options.sql_parser.map_string_types_to_utf8view = false;
        options.optimizer.enable_dynamic_filter_pushdown = false;
        // Each sort keeps as much for merging what it wrote: with little memory the usual 10 MB would be all there is.
        let of_each = limits.memory_bytes / (8 * database.jobs.max(1));
        options.execution.sort_spill_reservation_bytes = options.execution.sort_spill_reservation_bytes.min(of_each);
        options.extensions.insert(QuerySettings::default());
        let unready = |error| Error::unsupported(format!("memory for queries cannot be set up: {error}"));
        let mode = if limits.spills { DiskManagerMode::OsTmpDirectory } else { DiskManagerMode::Disabled };
        let memory = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(FairSpillPool::new(limits.memory_bytes)))
            .with_disk_manager_builder(DiskManagerBuilder::default().with_mode(mode));
        let memory = memory.build_arc().map_err(unready)?;
        let state = SessionStateBuilder::new().with_config(config).with_runtime_env(memory);
        let state = state.with_physical_optimizer_rule(Arc::new(GroupByName)).with_default_features().build();
        let context = SessionContext::new_with_state(state);
        context.register_catalog(CATALOG, Arc::new(Catalog::new(&database, &context)));
        functions::all(&database).into_iter().for_each(|function| context.register_udf(function));
        context.register_udwf(crate::since::since_last());
        crate::pairs::register(&database, &context);
        let overlaps = KnownOverlaps::default();
        crate::overlap::register(&context, &overlaps);
        crate::files::register(&context)
            .map_err(|error| Error::unsupported(format!("files cannot be made known: {error}")))?;
        let registered = crate::exact::register(&context);
        registered.map_err(|error| Error::unsupported(format!("functions cannot be made known: {error}")))?;
        let parameters = HashMap::new();
        Ok(Queries { database, context, runtime, overlaps, parameters, stop: &NEVER, elsewhere: None })
    }

    /// Has the rows of queries made elsewhere from now on.
    pub fn set_remote(&mut self, elsewhere: Arc<dyn RemotePlanner>) {
        let shared = self.context.state_ref();
        let mut state = shared.write();
        // Other processes do not know our way to group.
        let is_common = |rule: &&Arc<dyn PhysicalOptimizerRule + Send + Sync>| rule.name() != GroupByName.name();
        let rules = state.physical_optimizers().iter().filter(is_common).cloned().collect();
        let common = SessionStateBuilder::new_from_existing(state.clone()).with_physical_optimizer_rules(rules).build();
        *state = elsewhere.planning(common);
        drop(state);
        self.elsewhere = Some(elsewhere);
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// The database, for those who read it longer than they ask.
    pub(crate) fn database_of_rows(&self) -> Arc<Database> {
        self.database.clone()
    }

    /// A handle that knows where things lie that memory has no room for.
    pub fn spilled(&self) -> Spilled {
        Spilled(self.context.runtime_env())
    }

    /// Gives the value of `$name`: a number, `true`, `false`, `null`, otherwise a text.
    pub fn set_parameter(&mut self, name: &str, text: &str) {
        let value = match text {
            "true" => ScalarValue::Boolean(Some(true)),
            "false" => ScalarValue::Boolean(Some(false)),
            "null" => ScalarValue::Null,
            _ => match (text.parse::<i64>(), text.parse::<u64>(), text.parse::<f64>()) {
                (Ok(number), ..) => ScalarValue::Int64(Some(number)),
                (_, Ok(number), _) => ScalarValue::UInt64(Some(number)),
                (.., Ok(number)) if text.contains(|c: char| c.is_ascii_digit()) => ScalarValue::Float64(Some(number)),
                _ => ScalarValue::Utf8(Some(text.to_string())),
            },
        };
        self.parameters.insert(name.to_string(), value);
    }

    /// Runs all statements of a text in their order, and gives the rows of each to `answers`.
    ///
    /// # Errors
    /// When a statement is wrong or fails; those before it have been run.
    pub fn run(&mut self, text: &str, answers: &mut dyn Answers) -> std::result::Result<(), Failure> {
        let wrong = |error| Failure::Wrong(explained(&self.database, text, error, Wrong::Text));
        let parser = DFParserBuilder::new(text).with_dialect(&GenericDialect).build();
        let statements = parser.and_then(|mut parser| parser.parse_statements()).map_err(wrong)?;
        for statement in statements {
            // No watch runs between statements.
            if self.stop.load(Ordering::Relaxed) {
                return Err(Failure::Stopped);
            }
            let result = self.runtime.block_on(self.statement(text, statement, answers));
            if let Err(Failure::Stopped) = result {
                // The threads of a query that was stopped may be busy for a while: the next one has its own.
                self.runtime = Threads::new(self.database.jobs).map_err(Failure::Failed)?;
            }
            result?;
        }
        Ok(())
    }

    async fn statement(
        &self,
        text: &str,
        statement: Statement,
        answers: &mut dyn Answers,
    ) -> std::result::Result<(), Failure> {
        let wrong = |error| Failure::Wrong(explained(&self.database, text, error, Wrong::Text));
        let failed = |error| Failure::Failed(explained(&self.database, text, error, Wrong::Way));
        let statement = rewritten(&self.context, &self.overlaps, statement, &self.parameters).await.map_err(wrong)?;
        let plan = self.context.state().statement_to_plan(statement).await.map_err(wrong)?;
        if is_command(&plan) {
            self.context.execute_logical_plan(plan).await.map_err(wrong)?;
            return Ok(());
        }
        let mut asked = self.query_context(&plan);
        let mut has_rows = false;
        let watch = QueryWatch::new(self.stop).map_err(Failure::Failed)?;
        loop {
            let mut state = self.context.state();
            asked.configure(&mut state, self.elsewhere.is_some());
            let frame = DataFrame::new(state.clone(), plan.clone());
            let physical = frame.create_physical_plan().await.map_err(wrong)?;
            let schema = physical.schema();
            let stream = match &self.elsewhere {
                None => execute_stream(physical, state.task_ctx()),
                Some(elsewhere) => tokio::select! {
                    stream = elsewhere.run(physical, &state, &self.database) => stream,
                    () = watch.stopped.notified() => return Err(Failure::Stopped),
                },
            };
            let mut stream = match stream {
                Err(error) if is_out_of_order(&error) && asked.is_ordered => {
                    asked.is_ordered = false;
                    continue;
                }
                stream => stream.map_err(failed)?,
            };
            // One step of a stream may take long, so it is not made by the thread that looks at `stop`.
            let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
            let mut steps = Aborted(tokio::spawn(async move {
                while let Some(next) = stream.next().await {
                    if sender.send(next).await.is_err() {
                        break;
                    }
                }
            }));
            let result = loop {
                let next = tokio::select! {
                    biased;
                    () = watch.stopped.notified() => return Err(Failure::Stopped),
                    next = receiver.recv() => next,
                };
                match next {
                    // Steps that broke off sent no error: rows may be missing.
                    None => break (&mut steps.0).await.map_err(|_| DataFusionError::Internal(BROKE_OFF.into())),
                    Some(Err(error)) => break Err(error),
                    Some(Ok(batch)) => {
                        if !std::mem::replace(&mut has_rows, true) {
                            answers.begin(&schema).map_err(Failure::Failed)?;
                        }
                        if answers.rows(&batch).map_err(Failure::Failed)?.is_break() {
                            break Ok(());
                        }
                    }
                }
            };
            match result {
                Err(error) if is_out_of_order(&error) && !has_rows && asked.is_ordered => asked.is_ordered = false,
                Err(error) => return Err(failed(error)),
                Ok(()) => {
                    if !has_rows {
                        answers.begin(&schema).map_err(Failure::Failed)?;
                    }
                    return answers.end().map_err(Failure::Failed);
                }
            }
        }
    }

    /// The facts that the scans of a query must know.
    pub(crate) fn query_context(&self, plan: &LogicalPlan) -> QueryContext {
        let plan = match plan {
            LogicalPlan::Explain(explain) => &explain.plan,
            LogicalPlan::Analyze(analyze) => &analyze.input,
            plan => plan,
        };
        let mut is_ordered = false;
        // A plan without a walk is one without an order.
        let _ = plan.apply_with_subqueries(|part| {
            is_ordered |= matches!(part, LogicalPlan::Sort(_) | LogicalPlan::Window(_)) || is_overlap(part);
            Ok(TreeNodeRecursion::Continue)
        });
        let state = self.context.state_ref();
        let settings = state.read().config_options().extensions.get::<QuerySettings>().cloned().unwrap_or_default();
        QueryContext { is_merged: is_plain(plan), is_ordered, pushes_down: settings.pushdown }
    }
}

/// Is it a query of one table with only conditions, expressions and a limit?
fn is_plain(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(_) => !is_overlap(plan),
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::Limit(_) | LogicalPlan::SubqueryAlias(_) => {
            let has_subquery = plan.expressions().iter().any(|expression| {
                let is_query =
                    |part: &Expr| matches!(part, Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_));
                expression.exists(|part| Ok(is_query(part))).unwrap_or(true)
            });
            let inputs = plan.inputs();
            !has_subquery && inputs.len() == 1 && is_plain(inputs[0])
        }
        _ => false,
    }
}

/// A statement without rows.
pub(crate) fn is_command(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Ddl(_) => true,
        LogicalPlan::Statement(statement) => {
            matches!(statement, PlanStatement::SetVariable(_) | PlanStatement::ResetVariable(_))
        }
        _ => false,
    }
}

/// Does a plan, or a part of it, change anything?
pub(crate) fn writes(plan: &LogicalPlan) -> bool {
    let mut writes = false;
    let walked = plan.apply_with_subqueries(|part| {
        let is_change = matches!(
            part,
            LogicalPlan::Ddl(_) | LogicalPlan::Dml(_) | LogicalPlan::Copy(_) | LogicalPlan::Statement(_)
        );
        writes |= is_change;
        Ok(TreeNodeRecursion::Continue)
    });
    // A plan that cannot be walked through may be anything.
    writes || walked.is_err()
}

pub(crate) fn is_out_of_order(error: &DataFusionError) -> bool {
    match error {
        // From elsewhere come words.
        DataFusionError::Execution(text) => text.contains(OUT_OF_ORDER),
        DataFusionError::External(inner) => inner.is::<OutOfOrder>(),
        DataFusionError::Context(_, inner) => is_out_of_order(inner),
        DataFusionError::Shared(inner) => is_out_of_order(inner),
        DataFusionError::ArrowError(inner, _) => match &**inner {
            arrow_schema::ArrowError::ExternalError(inner) => {
                inner.is::<OutOfOrder>() || inner.downcast_ref::<DataFusionError>().is_some_and(is_out_of_order)
            }
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use arrow_schema::DataType;
    use datafusion::logical_expr::{Volatility, create_udf};
    use tracemill_engine::session::{OpenOptions, Session};
    use tracemill_engine::source::FileSystem;
    use tracemill_engine::timeline::Selection;
    use tracemill_formats::FORMATS;

    use super::*;

    /// Counts rows, and answers that were complete.
    #[derive(Default)]
    struct Counted(usize, usize);

    impl Answers for Counted {
        fn begin(&mut self, _: &SchemaRef) -> std::result::Result<(), Error> {
            Ok(())
        }

        fn rows(&mut self, batch: &RecordBatch) -> std::result::Result<ControlFlow<()>, Error> {
            self.0 += batch.num_rows();
            Ok(ControlFlow::Continue(()))
        }

        fn end(&mut self) -> std::result::Result<(), Error> {
            self.1 += 1;
            Ok(())
        }
    }

    #[test]
    fn a_query_that_breaks_off_is_not_complete() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/traces/mill");
        let session = Session::open(&FileSystem, &[path], &OpenOptions::new(FORMATS)).expect("it opens");
        let database = Database::new(session, &[], Selection::default(), None, 2).expect("all streams");
        let limits = MemoryLimits { memory_bytes: 1 << 30, spills: false };
        let mut queries = Queries::new(database, limits).expect("threads");
        let breaks = Arc::new(|_: &[_]| -> datafusion::common::Result<_> { panic!("a test breaks it off") });
        let function = create_udf("breaks", vec![DataType::Int64], DataType::Int64, Volatility::Volatile, breaks);
        queries.context.register_udf(function);
        let mut counted = Counted::default();
        assert!(queries.run("select breaks(ns) from events", &mut counted).is_err());
        assert_eq!((counted.0, counted.1), (0, 0));
        assert!(queries.run("select ns from events", &mut counted).is_ok());
        assert_eq!((counted.0, counted.1), (2000, 1));
    }
}
