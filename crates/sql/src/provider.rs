//! Tables whose plans are made at once, as DataFusion asks for them.

use std::fmt;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};

/// A table of traces: it plans the reading of its rows without waiting for anything.
pub(crate) trait OwnTable: fmt::Debug + Send + Sync + 'static {
    fn schema(&self) -> SchemaRef;

    /// A plan that gives the columns at these places, or all; of at most so many rows.
    fn plan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>>;
}

/// A table for DataFusion.
#[derive(Debug)]
pub(crate) struct Provided<T>(pub T);

impl<T: OwnTable> TableProvider for Provided<T> {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    // An `async` function keeps the conditions, and the compiler spends seconds on each to prove that they may go to another
    // thread.
    fn scan<'s, 'state, 'columns, 'conditions, 'all>(
        &'s self,
        state: &'state dyn Session,
        projection: Option<&'columns Vec<usize>>,
        _filters: &'conditions [Expr],
        limit: Option<usize>,
    ) -> Pin<Box<dyn Future<Output = Result<Arc<dyn ExecutionPlan>>> + Send + 'all>>
    where
        's: 'all,
        'state: 'all,
        'columns: 'all,
        'conditions: 'all,
        Self: 'all,
    {
        Box::pin(ready(self.0.plan(state, projection, limit)))
    }
}

/// The places of the columns that a query names, and their schema.
pub(crate) fn named_columns(schema: &SchemaRef, projection: Option<&Vec<usize>>) -> Result<(Vec<usize>, SchemaRef)> {
    let named = projection.cloned().unwrap_or_else(|| (0..schema.fields().len()).collect());
    let schema = Arc::new(schema.project(&named)?);
    Ok((named, schema))
}

/// A plan of rows that a partition makes one after the other: of its columns at these places, or of all.
pub(crate) fn streamed(
    rows: impl PartitionStream + 'static,
    projection: Option<&Vec<usize>>,
    limit: Option<usize>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = rows.schema().clone();
    Ok(Arc::new(StreamingTableExec::try_new(schema, vec![Arc::new(rows)], projection, None, false, limit)?))
}
