//! Tables of states: what CPUs and threads did, and states and counters that the user defines.
//!
//! Their rows are those of the analyses `states` and `custom`, so that a query and a table of `analyze` never differ.

use std::cell::RefCell;
use std::fmt;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::builder::{
    BooleanBuilder, Float64Builder, Int64Builder, StringDictionaryBuilder, TimestampNanosecondBuilder,
};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::streaming::PartitionStream;
use tokio::sync::mpsc::Sender;
use tracemill_analyses::kernel::{
    AnalysisQuery, BoundCustom, CustomDefinitions, Descriptor, FormWord, Input, Reading, View,
};
use tracemill_engine::merge::Note;
use tracemill_engine::timeline::Selection;
use tracemill_model::error::Error;
use tracemill_semantics::Concepts;
use tracemill_table::Value;

use crate::database::Database;
use crate::defined_states::DefinedStates;
use crate::event_columns::{names, times};
use crate::field::path_column;
use crate::provider::{OwnTable, named_columns, streamed};
use crate::table::SCOPES;

/// A table of states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StateTableKind {
    /// States of CPUs.
    Cpus,
    /// States of threads.
    Threads,
    /// States that the user defines.
    Custom,
    /// Counters that the user defines.
    Counters,
}

impl StateTableKind {
    /// The tables that are always there.
    pub(crate) const BUILT_IN: [StateTableKind; 2] = [StateTableKind::Cpus, StateTableKind::Threads];
    /// The tables that need definitions of the user.
    pub(crate) const DEFINED: [StateTableKind; 2] = [StateTableKind::Custom, StateTableKind::Counters];

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            StateTableKind::Cpus => "cpu_states",
            StateTableKind::Threads => "thread_states",
            StateTableKind::Custom => "custom_states",
            StateTableKind::Counters => "custom_counters",
        }
    }

    /// The table of a name.
    pub(crate) fn from_name(name: &str) -> Option<StateTableKind> {
        Self::BUILT_IN.into_iter().chain(Self::DEFINED).find(|kind| kind.name() == name)
    }

    /// The question whose rows it has.
    fn question(self) -> (&'static str, AnalysisQuery) {
        let (analysis, word, view) = match self {
            StateTableKind::Cpus => ("states", Some(FormWord::Cpus), View::Statistics),
            StateTableKind::Threads => ("states", Some(FormWord::Threads), View::Statistics),
            StateTableKind::Custom => ("custom", None, View::Log),
            StateTableKind::Counters => ("custom", Some(FormWord::Counters), View::Log),
        };
        (analysis, AnalysisQuery { view, words: word.into_iter().collect(), has_machines: true, ..Default::default() })
    }
}

impl Database {
    /// Adds the tables `custom_states` and `custom_counters`. With `gmt`, times without a zone are universal time.
    ///
    /// # Errors
    /// When the definitions cannot be followed in these traces: as [`BoundCustom::new`].
    pub fn define_states(&mut self, definitions: Arc<CustomDefinitions>, gmt: bool) -> std::result::Result<(), Error> {
        BoundCustom::new(&definitions, &self.session, gmt)?;
        let integers = definitions.key_paths().into_iter().filter(|(_, paths)| {
            let mut paths = paths.iter();
            paths.all(|path| is_integer(self, path))
        });
        let integers = integers.map(|(name, _)| name).collect();
        self.states = Some(DefinedStates { definitions, gmt, integers });
        Ok(())
    }

    /// Has the user defined states or counters?
    pub(crate) fn has_defined_states(&self) -> bool {
        self.states.is_some()
    }

    /// Are all events selected, so that none is missing that changes states?
    fn has_all_events(&self) -> bool {
        self.filter.is_none() && self.selection.classes.iter().all(Option::is_none)
    }
}

/// Is a path, as filters have it, an integer of 64 bits wherever a class has it?
fn is_integer(database: &Database, path: &str) -> bool {
    if let Some(state) = path.strip_prefix("state.") {
        return matches!(state, "tid" | "pid" | "prio");
    }
    let (only, rest) = match path.split_once('.') {
        Some(("$ctx", rest)) => (Some("context"), rest),
        Some((scope, rest)) if SCOPES.iter().any(|known| known.key() == scope) => (Some(scope), rest),
        _ => (None, path),
    };
    let is_wanted = |scope: &str| only.is_none_or(|only| scope == only || (only == "context" && scope.ends_with(only)));
    let scopes = SCOPES.into_iter().filter(|scope| is_wanted(scope.key()));
    let found: Vec<DataType> =
        scopes.filter_map(|scope| Some(path_column(database, scope.key(), rest).ok()?.data_type)).collect();
    !found.is_empty() && found.iter().all(|of| *of == DataType::Int64)
}

/// A column: its name, the place of its values in a row of the analysis, and their type.
#[derive(Clone, Debug)]
struct StateColumn {
    name: String,
    place: usize,
    data_type: DataType,
}

/// The columns of a table, for the columns of an analysis.
fn columns(
    kind: StateTableKind,
    database: &Database,
    query: &AnalysisQuery,
    analysis: &Descriptor,
) -> Vec<StateColumn> {
    let mut all: Vec<StateColumn> = Vec::new();
    let integers = database.states.as_ref().map_or(&[][..], |of| &of.integers);
    let own = analysis.columns_for(query);
    // The times, which all tables of events have, and the columns of tables of states, before keys of the same name.
    let is_own = |name: &str| {
        matches!(name, "trace" | "name" | "state" | "from" | "to" | "time" | "duration_ns" | "cut" | "value")
    };
    let is_key = |name: &str| matches!(kind, StateTableKind::Custom | StateTableKind::Counters) && !is_own(name);
    let taken = ["trace", "name", "state", "ns", "time", "dur", "cut", "value"];
    for (place, column) in own.iter().enumerate() {
        let mut add = |name: &str, data_type: DataType| {
            let mut name = name.to_string();
            while all.iter().any(|own| own.name == name) {
                name.push('_');
            }
            all.push(StateColumn { name, place, data_type });
        };
        match &*column.name {
            key if is_key(key) => {
                // Without its scope, as the tables of event classes name their columns.
                let plain = ["payload.", "$ctx.", "state."].iter().find_map(|scope| key.strip_prefix(scope));
                let plain = plain.unwrap_or(key);
                let name = if taken.contains(&plain) { format!("{plain}_") } else { plain.to_string() };
                add(&name, if integers.iter().any(|own| **own == *key) { DataType::Int64 } else { names() });
            }
            // When it ends is when it began, and for how long it was.
            "to" => {}
            "from" | "time" => {
                add("ns", DataType::Int64);
                add("time", times());
            }
            "duration_ns" => add("dur", DataType::Int64),
            "cut" => add("cut", DataType::Boolean),
            "value" => add("value", DataType::Float64),
            name @ ("cpu" | "tid") => add(name, DataType::Int64),
            name => add(name, names()),
        }
    }
    all
}

/// The table.
pub(crate) struct StateTable {
    database: Arc<Database>,
    kind: StateTableKind,
    columns: Vec<StateColumn>,
    schema: SchemaRef,
}

impl StateTable {
    /// # Errors
    /// When it needs definitions, and there are none.
    pub(crate) fn new(database: &Arc<Database>, kind: StateTableKind) -> Result<StateTable> {
        if StateTableKind::DEFINED.contains(&kind) && database.states.is_none() {
            return plan_err!("`{}` needs definitions: `tracemill sql --states FILE`", kind.name());
        }
        let (name, query) = kind.question();
        let query = AnalysisQuery { custom: bound(database)?, ..query };
        let Some(analysis) = Descriptor::find(name) else { return plan_err!("there is no analysis `{name}`") };
        let columns = columns(kind, database, &query, analysis);
        let fields = columns.iter().map(|column| Field::new(&column.name, column.data_type.clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Ok(StateTable { database: database.clone(), kind, columns, schema })
    }
}

/// The definitions of the user, for these traces.
fn bound(database: &Database) -> Result<Option<Rc<BoundCustom>>> {
    let Some(DefinedStates { definitions, gmt, .. }) = &database.states else { return Ok(None) };
    let bound = BoundCustom::new(definitions, &database.session, *gmt);
    Ok(Some(Rc::new(bound.map_err(|error| DataFusionError::Execution(error.message().to_string()))?)))
}

impl fmt::Debug for StateTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StateTable({})", self.kind.name())
    }
}

impl OwnTable for StateTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn plan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !self.database.has_all_events() {
            let name = self.kind.name();
            return plan_err!("`{name}` cannot be asked with --filter: it leaves out events that change states");
        }
        // Only the columns that are named are made.
        let (named, schema) = named_columns(&self.schema, projection)?;
        let columns = named.iter().map(|&at| self.columns[at].clone()).collect();
        streamed(StateRows { database: self.database.clone(), kind: self.kind, schema, columns }, None, limit)
    }
}

/// Its rows.
struct StateRows {
    database: Arc<Database>,
    kind: StateTableKind,
    schema: SchemaRef,
    columns: Vec<StateColumn>,
}

impl fmt::Debug for StateRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())
    }
}

impl PartitionStream for StateRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut stream = RecordBatchReceiverStreamBuilder::new(self.schema.clone(), 2);
        let (database, kind) = (self.database.clone(), self.kind);
        let (schema, columns, sender) = (self.schema.clone(), self.columns.clone(), stream.tx());
        stream.spawn_blocking(move || read(&database, kind, schema, columns, sender));
        stream.build()
    }
}

/// Has the analysis made its rows, and sends them.
fn read(
    database: &Arc<Database>,
    kind: StateTableKind,
    schema: SchemaRef,
    columns: Vec<StateColumn>,
    sender: Sender<Result<RecordBatch>>,
) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    let has_dates = database.streams.iter().all(|of| database.has_dates(of));
    let cells = columns.iter().map(|column| StateCells::new(column, has_dates)).collect();
    let batch = StateBatch { schema, columns, cells, len: 0, sender, stop: stop.clone() };
    let batch = Rc::new(RefCell::new(batch));
    let selection = Selection { stop: Some(stop), ..database.selection.clone() };
    let (begin, end) = (selection.begin_ns, selection.end_ns);
    let reading = Reading::new(Input {
        session: &database.session,
        streams: &database.streams,
        selection,
        concepts: Concepts::built_in(),
        same_host: false,
    });
    let (name, query) = kind.question();
    let (into, of) = (batch.clone(), database.clone());
    let query = AnalysisQuery {
        begin,
        end,
        machine_names: reading.machine_names(),
        custom: bound(database)?,
        sink: Some(Rc::new(RefCell::new(move |row: &[Value<'_>]| into.borrow_mut().push(&of, row)))),
        ..query
    };
    let analysis = Descriptor::find(name).map(|known| (known.make)(&query));
    drop(query);
    let ran = reading.run(analysis.into_iter().collect(), &mut |note| {
        match note {
            Note::Fault(error) => database.collector.fault(error),
            Note::Warning(error) => database.collector.warning(error),
            Note::Gap(..) => {}
        }
        ControlFlow::Continue(())
    });
    batch.borrow_mut().send();
    ran.map(drop).map_err(|error| DataFusionError::Execution(error.message().to_string()))
}

/// Rows of a batch.
const BATCH_ROWS: usize = 8192;

/// Rows in the making.
struct StateBatch {
    schema: SchemaRef,
    columns: Vec<StateColumn>,
    cells: Vec<StateCells>,
    len: usize,
    sender: Sender<Result<RecordBatch>>,
    /// Set when nothing more is wanted.
    stop: Arc<AtomicBool>,
}

enum StateCells {
    Signed(Int64Builder),
    /// Times, and whether they count from 1970.
    Times(TimestampNanosecondBuilder, bool),
    Reals(Float64Builder),
    Flags(BooleanBuilder),
    Names(StringDictionaryBuilder<Int32Type>),
}

impl StateCells {
    fn new(column: &StateColumn, has_dates: bool) -> StateCells {
        match column.data_type {
            DataType::Int64 => StateCells::Signed(Int64Builder::new()),
            DataType::Float64 => StateCells::Reals(Float64Builder::new()),
            DataType::Boolean => StateCells::Flags(BooleanBuilder::new()),
            DataType::Timestamp(..) => {
                StateCells::Times(TimestampNanosecondBuilder::new().with_timezone("UTC"), has_dates)
            }
            _ => StateCells::Names(StringDictionaryBuilder::new()),
        }
    }

    fn take(&mut self) -> ArrayRef {
        match self {
            StateCells::Signed(cells) => Arc::new(cells.finish()),
            StateCells::Times(cells, _) => Arc::new(cells.finish()),
            StateCells::Reals(cells) => Arc::new(cells.finish()),
            StateCells::Flags(cells) => Arc::new(cells.finish()),
            StateCells::Names(cells) => Arc::new(cells.finish()),
        }
    }

    fn push(&mut self, database: &Database, value: Value<'_>) {
        let integer = || match value {
            Value::Integer(value) => {
                let fits = i64::try_from(value).ok();
                if fits.is_none() {
                    database.lost.wide.fetch_add(1, Ordering::Relaxed);
                }
                fits
            }
            _ => None,
        };
        match self {
            StateCells::Signed(cells) => cells.append_option(integer()),
            StateCells::Times(cells, has_dates) => cells.append_option(integer().filter(|_| *has_dates)),
            StateCells::Reals(cells) => cells.append_option(match value {
                Value::Real(value) => Some(value),
                Value::Integer(value) => Some(value as f64),
                _ => None,
            }),
            StateCells::Flags(cells) => cells.append_option(match value {
                Value::Bool(value) => Some(value),
                _ => None,
            }),
            StateCells::Names(cells) => match value {
                Value::Text(text) => cells.append_value(text),
                Value::Word(word) => cells.append_value(word),
                Value::Integer(value) => cells.append_value(value.to_string()),
                Value::Real(value) => cells.append_value(value.to_string()),
                Value::Bool(value) => cells.append_value(value.to_string()),
                Value::Null | Value::Counts(_) => cells.append_null(),
            },
        }
    }
}

impl StateBatch {
    fn push(&mut self, database: &Database, row: &[Value<'_>]) {
        for (column, cells) in self.columns.iter().zip(&mut self.cells) {
            cells.push(database, row.get(column.place).copied().unwrap_or(Value::Null));
        }
        self.len += 1;
        if self.len >= BATCH_ROWS {
            self.send();
        }
    }

    /// Sends the rows that are made.
    fn send(&mut self) {
        if self.len == 0 || self.stop.load(Ordering::Relaxed) {
            return;
        }
        let options = RecordBatchOptions::new().with_row_count(Some(std::mem::take(&mut self.len)));
        let columns = self.cells.iter_mut().map(StateCells::take).collect();
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options);
        // The receiver that has gone wants no more.
        if self.sender.blocking_send(batch.map_err(Into::into)).is_err() {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}
