//! Queries, where the program can answer them.

use serde_json::{Value, json};

use crate::answers::Asker;
use crate::error::{Answer, ApiError};
use crate::shared::Shared;

/// Rows of an answer at most, and bytes of their texts.
pub const MOST: (usize, usize) = (1000, 1 << 20);
/// Queries that are answered at once.
pub(crate) const AT_ONCE: usize = 4;

/// A column of an answer.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The kind of its values: `integer`, `real`, `text`, `boolean` or `other`.
    pub kind: &'static str,
}

/// The first rows of an answer.
#[derive(Clone, Default, Debug)]
pub struct Rows {
    /// Its columns.
    pub columns: Vec<Column>,
    /// Values as texts; `None` for NULL.
    pub rows: Vec<Vec<Option<String>>>,
    /// Are there more?
    pub is_cut: bool,
}

/// Why a query has no answer.
#[derive(Clone, Default, Debug)]
pub struct Refused {
    /// The mistake.
    pub message: String,
    /// A way out of it.
    pub help: Option<String>,
    /// The part of the text that is meant, in characters.
    pub span: Option<(usize, usize)>,
}

/// Answers queries about the traces: a text, and whether nobody waits for the answer any more, which is asked on the way;
/// `None` then.
pub type Querier = Box<dyn Fn(&str, &dyn Fn() -> bool) -> Result<Option<Rows>, Refused> + Send + Sync>;

/// `sql`: the first rows of the answer to a query.
pub(crate) fn answer(shared: &Shared, body: &Value, asker: &Asker) -> Answer {
    let Some(querier) = &shared.input.query else {
        return Err(ApiError::new(404, "path", "this program was built without SQL"));
    };
    let text = body["query"].as_str().filter(|text| !text.trim().is_empty());
    let text = text.ok_or_else(|| ApiError::request("`query` is missing"))?;
    let found = querier(text, &|| asker.is_over(shared)).map_err(|refused| {
        let Refused { message, help, span } = refused;
        ApiError::sql(message, help, span)
    })?;
    let Rows { columns, rows, is_cut } = found.ok_or_else(Asker::over)?;
    let columns: Vec<Value> =
        columns.iter().map(|column| json!({ "name": column.name, "type": column.kind })).collect();
    Ok(json!({
        "columns": columns, "total": rows.len(), "rows": rows, "truncated": is_cut, "generation": shared.generation(),
    }))
}
