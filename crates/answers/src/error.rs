//! Errors of requests.

use serde_json::{Value, json};
use tracemill_model::error::Error;

/// Why a question has no answer.
#[derive(Debug)]
pub struct ApiError {
    /// The status of HTTP that a server answers with.
    pub status: u16,
    code: &'static str,
    pub(crate) message: String,
    help: Option<String>,
    /// The part of an expression that is meant, in characters.
    span: Option<(usize, usize)>,
}

/// The answer to a request, or why it has none.
pub type Answer<T = Value> = Result<T, ApiError>;

impl ApiError {
    /// An error with the status that a server gives it and its code.
    pub fn new(status: u16, code: &'static str, message: impl Into<String>) -> ApiError {
        ApiError { status, code, message: message.into(), help: None, span: None }
    }

    /// A request without a meaning.
    pub fn request(message: impl Into<String>) -> ApiError {
        ApiError::new(400, "request", message)
    }

    /// A mistake in a query, with its place in characters.
    pub fn sql(message: String, help: Option<String>, span: Option<(usize, usize)>) -> ApiError {
        ApiError { help, span, ..ApiError::new(400, "sql", message) }
    }

    /// A mistake in an expression.
    pub fn filter(text: &str, error: &Error) -> ApiError {
        let chars = |bytes: usize| text.get(..bytes).map_or(text.chars().count(), |text| text.chars().count());
        let place = error.place().text.as_ref();
        let span = place.map_or((0, text.chars().count()), |place| {
            (chars(place.offset), chars((place.offset + place.len).min(text.len())))
        });
        let help = error.help().map(str::to_string);
        ApiError { help, span: Some(span), ..ApiError::new(400, "filter", error.message()) }
    }

    /// The mistake, for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// A way out of it.
    pub fn help(&self) -> Option<&str> {
        self.help.as_deref()
    }

    /// As JSON, for a page.
    pub fn body(&self) -> Value {
        let ApiError { code, message, help, span, .. } = self;
        json!({ "error": { "code": code, "message": message, "help": help, "span": span.map(|(from, to)| [from, to]) } })
    }
}
