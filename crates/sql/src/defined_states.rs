//! States that the user defines, for the tables of them.

use std::sync::Arc;

use tracemill_analyses::kernel::CustomDefinitions;

/// Definitions of the user, and whether times in them are universal time unless they have a zone.
#[derive(Clone, Debug)]
pub(crate) struct DefinedStates {
    pub(crate) definitions: Arc<CustomDefinitions>,
    pub(crate) gmt: bool,
    /// The columns of keys that are integers in all events.
    pub(crate) integers: Vec<Arc<str>>,
}
