//! Queries, where the program can answer them.

use serde_json::{Value, json};

use crate::error::{Answer, ApiError};
use crate::input::{QueryRows, Refused};
use crate::query::Asker;
use crate::state::TraceState;

/// Rows of an answer at most, and bytes of their texts.
pub const MOST: (usize, usize) = (1000, 1 << 20);
/// `sql`: the first rows of the answer to a query.
///
/// # Errors
/// When the query is wrong, or this program has no SQL.
pub fn answer(state: &TraceState, body: &Value, asker: &Asker) -> Answer {
    let Some(querier) = &state.input.query else {
        return Err(ApiError::new(404, "path", "this program was built without SQL"));
    };
    let text = body["query"].as_str().filter(|text| !text.trim().is_empty());
    let text = text.ok_or_else(|| ApiError::request("`query` is missing"))?;
    let found = querier(text, &|| asker.is_over(&state.progress)).map_err(|refused| {
        let Refused { message, help, span } = refused;
        ApiError::sql(message, help, span)
    })?;
    let QueryRows { columns, rows, is_cut } = found.ok_or_else(Asker::cancelled)?;
    let columns: Vec<Value> =
        columns.iter().map(|column| json!({ "name": column.name, "type": column.kind })).collect();
    Ok(json!({
        "columns": columns, "total": rows.len(), "rows": rows, "truncated": is_cut, "generation": state.generation(),
    }))
}
