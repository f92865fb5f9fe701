//! Facts of a query that its scans know.

use std::sync::Arc;

use datafusion::execution::session_state::SessionState;

/// Facts of a query that its scans know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueryContext {
    /// Do rows come in the order of events, without being asked for?
    pub(crate) is_merged: bool,
    /// Does the query need an order of times?
    pub(crate) is_ordered: bool,
    /// Are conditions left to scans?
    pub(crate) pushes_down: bool,
}

impl Default for QueryContext {
    fn default() -> Self {
        QueryContext { is_merged: false, is_ordered: false, pushes_down: true }
    }
}

impl QueryContext {
    /// Tells the scans of a plan that this state makes.
    pub(crate) fn configure(self, state: &mut SessionState, is_elsewhere: bool) {
        let config = state.config_mut();
        // A limit lets a scan forget that its parts are in order; then a part may go to another stream than its own, whose
        // rows are not in order any more. And elsewhere, each of the tasks of a scan would read the parts of all.
        config.options_mut().execution.enable_file_stream_work_stealing = !self.is_ordered && !is_elsewhere;
        // Several threads that decide a condition would give the rows that they have when they have them.
        config.options_mut().optimizer.enable_round_robin_repartition &= !self.is_merged;
        config.set_extension(Arc::new(self));
    }
}
