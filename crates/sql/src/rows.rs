//! Answers for those who ask for rows: planned first, run when somebody wants them, any number of times.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, RecordBatch, StringArray};
use arrow_schema::{Field, FieldRef, Schema, SchemaRef};
use datafusion::common::{DataFusionError, ScalarValue};
use datafusion::dataframe::DataFrame;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Explain, LogicalPlan};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::sql::parser::DFParserBuilder;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use futures::StreamExt;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;
use tracemill_model::error::Error;

use crate::context::QueryContext;
pub use crate::errors::Explained;
use crate::errors::{Wrong, in_parts};
use crate::output::unique;
use crate::query::{BROKE_OFF, Queries, Threads, is_command, is_out_of_order, writes};
use crate::remote::RemotePlanner;
use crate::rewrite::rewritten;

/// The value of a parameter, `$name` in a query.
#[derive(Clone, PartialEq, Debug)]
pub enum Parameter {
    /// NULL.
    Null,
    /// True or false.
    Boolean(bool),
    /// An integer.
    Integer(i64),
    /// An integer that only fits without a sign.
    Unsigned(u64),
    /// A floating point number.
    Real(f64),
    /// A text, also when it looks like a number.
    Text(String),
}

impl From<&Parameter> for ScalarValue {
    fn from(value: &Parameter) -> ScalarValue {
        match value {
            Parameter::Null => ScalarValue::Null,
            Parameter::Boolean(value) => ScalarValue::Boolean(Some(*value)),
            Parameter::Integer(value) => ScalarValue::Int64(Some(*value)),
            Parameter::Unsigned(value) => ScalarValue::UInt64(Some(*value)),
            Parameter::Real(value) => ScalarValue::Float64(Some(*value)),
            Parameter::Text(text) => ScalarValue::Utf8(Some(text.clone())),
        }
    }
}

/// A query that was planned, and not run.
#[derive(Clone)]
pub struct Prepared {
    text: Arc<str>,
    plan: Answer,
    columns: Vec<String>,
}

#[derive(Clone)]
enum Answer {
    /// The text had no statement with rows.
    Nothing,
    Plan(Box<LogicalPlan>),
    /// A statement that writes was run; what it said.
    Done(SchemaRef, Vec<RecordBatch>),
}

impl Prepared {
    /// The names of its columns, each once.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }
}

/// Rows of a query, made when they are asked for. A query whose rows are dropped ends.
pub struct Rows {
    schema: SchemaRef,
    state: RowsState,
}

enum RowsState {
    Waiting(Box<QueryRun>),
    Running(Box<Running>),
    Done(std::vec::IntoIter<RecordBatch>),
}

struct Running {
    rows: Receiver<Result<RecordBatch, Explained>>,
    task: JoinHandle<()>,
    threads: Threads,
    /// Looks at the time while the threads are at work: where all are, none of them does.
    clock: tokio::runtime::Runtime,
}

/// The next piece of an answer.
#[derive(Debug)]
pub enum Next {
    /// Some rows.
    Batch(RecordBatch),
    /// There is none yet.
    Later,
    /// There are no more.
    End,
}

impl Queries {
    /// Plans the one statement of a text that gives rows. Those before it, which give none (`create view`, `set`), are run,
    /// and so is a statement that writes. Of traces only headers are read.
    ///
    /// # Errors
    /// When a statement is wrong, when one of those that are run fails, and when there are two that give rows.
    pub fn prepare(&self, text: &str, parameters: &HashMap<String, Parameter>) -> Result<Prepared, Explained> {
        let wrong = |error| in_parts(self.database(), text, error, Wrong::Text);
        let parser = DFParserBuilder::new(text).with_dialect(&GenericDialect).build();
        let statements = parser.and_then(|mut parser| parser.parse_statements()).map_err(wrong)?;
        let parameters = parameters.iter().map(|(name, value)| (name.clone(), value.into())).collect();
        let mut prepared = Prepared { text: text.into(), plan: Answer::Nothing, columns: Vec::new() };
        self.runtime.block_on(async {
            for statement in statements {
                if !matches!(prepared.plan, Answer::Nothing) {
                    let error = "only the last statement may give rows, as there is one answer";
                    return Err(wrong(DataFusionError::Plan(error.into())));
                }
                let statement =
                    rewritten(&self.context, &self.overlaps, statement, &parameters).await.map_err(wrong)?;
                let plan = self.context.state().statement_to_plan(statement).await.map_err(wrong)?;
                if self.database().reads_only && writes(&plan) {
                    let error = "only queries are answered here: nothing may be written, made or set";
                    return Err(wrong(DataFusionError::Plan(error.into())));
                }
                if is_command(&plan) {
                    self.context.execute_logical_plan(plan).await.map_err(wrong)?;
                    continue;
                }
                prepared.columns = unique(plan.schema().as_arrow());
                prepared.plan = match &plan {
                    LogicalPlan::Copy(_) | LogicalPlan::Dml(_) => {
                        let failed = |error| in_parts(self.database(), text, error, Wrong::Way);
                        let frame = self.context.execute_logical_plan(plan).await.map_err(failed)?;
                        let schema = Arc::new(frame.schema().as_arrow().clone());
                        Answer::Done(schema, frame.collect().await.map_err(failed)?)
                    }
                    _ => Answer::Plan(Box::new(plan)),
                };
            }
            Ok(prepared)
        })
    }

    /// Begins to answer: plans in full, and reads nothing before the first [`Rows::next`].
    ///
    /// # Errors
    /// When the query cannot be planned.
    pub fn rows(&self, prepared: &Prepared) -> Result<Rows, Explained> {
        let plan = match &prepared.plan {
            Answer::Nothing => {
                return Ok(Rows { schema: Arc::new(Schema::empty()), state: RowsState::Done(Vec::new().into_iter()) });
            }
            Answer::Done(schema, batches) => {
                return Ok(Rows { schema: named(schema), state: RowsState::Done(batches.clone().into_iter()) });
            }
            Answer::Plan(plan) => plan,
        };
        let asked = self.query_context(plan);
        let mut run = QueryRun {
            database: self.database_of_rows(),
            text: prepared.text.clone(),
            state: self.context.state(),
            plan: (**plan).clone(),
            asked,
            physical: None,
            schema: Arc::new(Schema::empty()),
            elsewhere: self.elsewhere.clone(),
        };
        let wrong = |error| in_parts(self.database(), &prepared.text, error, Wrong::Text);
        self.runtime.block_on(run.plan()).map_err(wrong)?;
        Ok(Rows { schema: run.schema.clone(), state: RowsState::Waiting(Box::new(run)) })
    }

    /// The plan of a query as text, with figures of a run when `analyze`.
    ///
    /// # Errors
    /// When the query fails.
    pub fn explain(&self, prepared: &Prepared, analyze: bool) -> Result<Prepared, Explained> {
        let wrong = |error| in_parts(self.database(), &prepared.text, error, Wrong::Text);
        let Answer::Plan(plan) = &prepared.plan else {
            return Err(wrong(DataFusionError::Plan("there is no plan: the statement has been run".into())));
        };
        if matches!(**plan, LogicalPlan::Explain(Explain { .. }) | LogicalPlan::Analyze(_)) {
            return Ok(prepared.clone());
        }
        let frame = DataFrame::new(self.context.state(), (**plan).clone());
        let frame = frame.explain(false, analyze).map_err(wrong)?;
        let plan = frame.logical_plan().clone();
        let columns = unique(plan.schema().as_arrow());
        Ok(Prepared { text: prepared.text.clone(), plan: Answer::Plan(Box::new(plan)), columns })
    }
}

impl Rows {
    /// The schema of all batches; no two columns have one name.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The next rows; waits for them this long.
    ///
    /// # Errors
    /// When the query fails; it has ended then.
    pub fn next(&mut self, patience: Duration) -> Result<Next, Explained> {
        if let RowsState::Waiting(_) = &self.state
            && let RowsState::Waiting(run) = std::mem::replace(&mut self.state, RowsState::Done(Vec::new().into_iter()))
        {
            // Threads of its own: a query that is dropped may hold them for a while, and does not hold up others.
            let threads = Threads::new(run.database.jobs).map_err(without_place)?;
            let clock = tokio::runtime::Builder::new_current_thread().enable_time().build();
            let failed = |error| without_place(Error::unsupported(format!("no clock for a query: {error}")));
            let clock = clock.map_err(failed)?;
            let (sender, rows) = channel(1);
            let task = threads.spawn(run.all(sender));
            self.state = RowsState::Running(Box::new(Running { rows, task, threads, clock }));
        }
        let batch = match &mut self.state {
            RowsState::Waiting(_) => None,
            RowsState::Done(batches) => batches.next(),
            RowsState::Running(running) => {
                let Running { rows, task, threads, clock } = &mut **running;
                let next = clock.block_on(async { tokio::time::timeout(patience, rows.recv()).await });
                match next {
                    Err(_) => return Ok(Next::Later),
                    // A task that breaks off sends no error.
                    Ok(None) if threads.block_on(task).is_err() => {
                        self.state = RowsState::Done(Vec::new().into_iter());
                        return Err(without_place(Error::unsupported(BROKE_OFF)));
                    }
                    Ok(next) => next.transpose()?,
                }
            }
        };
        let Some(batch) = batch else {
            self.state = RowsState::Done(Vec::new().into_iter());
            return Ok(Next::End);
        };
        let planned = |(column, field): (&ArrayRef, &FieldRef)| match column.data_type() == field.data_type() {
            true => Ok(without_twins(column).unwrap_or_else(|| column.clone())),
            // Executors send the texts of a dictionary, not the dictionary.
            false => arrow_cast::cast(column, field.data_type()),
        };
        let columns = batch.columns().iter().zip(self.schema.fields()).map(planned).collect::<Result<_, _>>();
        let batch = columns.and_then(|columns| RecordBatch::try_new(self.schema.clone(), columns));
        let contradicts = |error| Error::unsupported(format!("the rows contradict their plan: {error}"));
        batch.map(Next::Batch).map_err(|error| without_place(contradicts(error)))
    }
}

/// An error without a place in the text.
pub(crate) fn without_place(error: Error) -> Explained {
    Explained { error, place: None, help: None }
}

/// A dictionary with each of its texts once, when it is none: merging batches puts dictionaries after each other, which
/// Arrow allows, and pandas refuses.
fn without_twins(array: &ArrayRef) -> Option<ArrayRef> {
    let dictionary = array.as_dictionary_opt::<Int32Type>()?;
    let values = dictionary.values().as_string_opt::<i32>()?;
    let mut numbers: HashMap<&str, i32> = HashMap::with_capacity(values.len());
    let number_of: Vec<Option<i32>> = values
        .iter()
        .map(|value| {
            let next = numbers.len() as i32;
            value.map(|value| *numbers.entry(value).or_insert(next))
        })
        .collect();
    if numbers.len() == values.len() {
        return None;
    }
    let mut texts = vec![""; numbers.len()];
    numbers.into_iter().for_each(|(text, number)| texts[number as usize] = text);
    let keys = dictionary.keys().iter().map(|key| number_of[key? as usize]).collect();
    let single = DictionaryArray::<Int32Type>::try_new(keys, Arc::new(StringArray::from(texts)));
    single.ok().map(|single| Arc::new(single) as ArrayRef)
}

/// A schema whose columns have different names.
fn named(schema: &SchemaRef) -> SchemaRef {
    let names = unique(schema);
    let fields = schema.fields().iter().zip(names);
    let fields: Vec<Field> = fields.map(|(field, name)| field.as_ref().clone().with_name(name)).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// A query that runs.
struct QueryRun {
    database: Arc<crate::database::Database>,
    text: Arc<str>,
    state: SessionState,
    plan: LogicalPlan,
    asked: QueryContext,
    physical: Option<Arc<dyn ExecutionPlan>>,
    schema: SchemaRef,
    elsewhere: Option<Arc<dyn RemotePlanner>>,
}

impl QueryRun {
    async fn plan(&mut self) -> Result<(), DataFusionError> {
        self.asked.configure(&mut self.state, self.elsewhere.is_some());
        let physical = DataFrame::new(self.state.clone(), self.plan.clone()).create_physical_plan().await?;
        self.schema = named(&physical.schema());
        self.physical = Some(physical);
        Ok(())
    }

    /// Sends all rows, or the error that ended them.
    async fn all(mut self: Box<Self>, sender: Sender<Result<RecordBatch, Explained>>) {
        if let Err(error) = self.send(&sender).await {
            let error = in_parts(&self.database, &self.text, error, Wrong::Way);
            // The reader may be gone.
            let _ = sender.send(Err(error)).await;
        }
    }

    async fn send(&mut self, sender: &Sender<Result<RecordBatch, Explained>>) -> Result<(), DataFusionError> {
        let mut has_rows = false;
        loop {
            if self.physical.is_none() {
                self.plan().await?;
            }
            let Some(physical) = self.physical.take() else { return Ok(()) };
            let stream = match &self.elsewhere {
                None => execute_stream(physical, self.state.task_ctx()),
                Some(elsewhere) => elsewhere.run(physical, &self.state, &self.database).await,
            };
            let mut stream = match stream {
                Err(error) if is_out_of_order(&error) && self.asked.is_ordered => {
                    self.asked.is_ordered = false;
                    continue;
                }
                stream => stream?,
            };
            let error = loop {
                match stream.next().await {
                    None => return Ok(()),
                    Some(Err(error)) => break error,
                    Some(Ok(batch)) => {
                        has_rows = true;
                        if sender.send(Ok(batch)).await.is_err() {
                            return Ok(());
                        }
                    }
                }
            };
            // An event contradicts its packet: once more, with a sort.
            if !is_out_of_order(&error) || has_rows || !self.asked.is_ordered {
                return Err(error);
            }
            self.asked.is_ordered = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dictionary_has_each_text_once() {
        let dictionary = |keys: Vec<Option<i32>>, texts: Vec<Option<&str>>| -> ArrayRef {
            let of = DictionaryArray::<Int32Type>::try_new(keys.into(), Arc::new(StringArray::from(texts)));
            Arc::new(of.expect("keys are places"))
        };
        let twice =
            dictionary(vec![Some(0), Some(2), None, Some(1), Some(3)], vec![Some("a"), Some("b"), Some("a"), None]);
        let once = without_twins(&twice).expect("`a` stands there twice");
        let once = once.as_dictionary::<Int32Type>();
        assert_eq!(once.values().as_string::<i32>().iter().collect::<Vec<_>>(), [Some("a"), Some("b")]);
        assert_eq!(once.keys().iter().collect::<Vec<_>>(), [Some(0), Some(0), None, Some(1), None]);
        assert!(without_twins(&dictionary(vec![Some(1), None], vec![Some("a"), Some("b")])).is_none());
    }
}
