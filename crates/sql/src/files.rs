//! Files beside traces whose endings DataFusion does not know.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::{GetExt, Result};
use datafusion::datasource::file_format::json::JsonFormatFactory;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::prelude::SessionContext;

/// Makes them known.
pub(crate) fn register(context: &SessionContext) -> Result<()> {
    for ending in ["jsonl", "ndjson"] {
        let lines = JsonLines { ending, inner: JsonFormatFactory::new() };
        context.state_ref().write().register_file_format(Arc::new(lines), true)?;
    }
    Ok(())
}

/// JSON lines by a further ending.
#[derive(Debug)]
struct JsonLines {
    ending: &'static str,
    inner: JsonFormatFactory,
}

impl FileFormatFactory for JsonLines {
    fn create(&self, state: &dyn Session, options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        self.inner.create(state, options)
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        self.inner.default()
    }
}

impl GetExt for JsonLines {
    fn get_ext(&self) -> String {
        self.ending.to_string()
    }
}
