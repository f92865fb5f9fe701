//! Why a request has no answer, as the protocol says it.

use serde_json::{Value, json};
use tracemill_answers::ApiError;

/// Why a request has no answer.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: u16,
    /// As the client receives it.
    pub(super) body: Box<Value>,
}

/// The answer to a request, or why it has none.
pub(super) type Answered<T = Value> = Result<T, Refusal>;

impl Refusal {
    pub(super) fn new(status: u16, title: &str, detail: impl Into<String>) -> Refusal {
        let detail: String = detail.into();
        Refusal { status, body: Box::new(json!({ "title": title, "detail": detail })) }
    }

    /// Parameters without a meaning.
    pub(super) fn parameters(detail: impl Into<String>) -> Refusal {
        Refusal::new(400, "Invalid query parameters", detail)
    }

    /// A trace or an experiment is in the way.
    pub(super) fn conflict(title: &str, name: &'static str, other: Value) -> Refusal {
        Refusal { status: 409, body: Box::new(json!({ "title": title, name: other })) }
    }
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Refusal {
        let mut body = json!({ "title": error.message() });
        if let Some(help) = error.help() {
            body["detail"] = help.into();
        }
        Refusal { status: error.status, body: Box::new(body) }
    }
}
