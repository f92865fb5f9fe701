//! Statistics about the functions that traces call.

use std::sync::Arc;

use crate::error::{Answer, ApiError};
use crate::latencies::FunctionStatistics;
use crate::query::Asker;
use crate::state::TraceState;

impl TraceState {
    /// Statistics about the functions of a trace, the largest total first: about all calls, or those of a range of ns with both
    /// ends included.
    ///
    /// # Errors
    /// When the asker is gone.
    pub fn function_statistics(
        &self,
        trace: usize,
        range: Option<(i64, i64)>,
        asker: &Asker,
    ) -> Answer<Arc<Vec<FunctionStatistics>>> {
        let is_over = || asker.is_over(&self.progress);
        self.caches.functions.get_or_make((trace, range), &is_over, || {
            let calls = self.calls().ok_or_else(|| ApiError::new(404, "call", "the traces have no calls"))?;
            let tasks: Vec<usize> = (0..calls.tasks.len()).filter(|task| calls.tasks[*task].trace == trace).collect();
            let range = range.unwrap_or((calls.begin, calls.end));
            let all = calls.statistics(range, Some(&tasks), &is_over).ok_or_else(Asker::cancelled)?;
            Ok(Arc::new(all.iter().map(FunctionStatistics::new).collect()))
        })
    }
}
