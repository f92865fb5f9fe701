//! The parameters of a question, and its asker.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use tracemill_lod::Progress;

use crate::error::{Answer, ApiError};

/// The asker of a question, who may have gone away since.
#[derive(Clone, Default)]
pub struct Asker(Arc<AtomicBool>);

impl Asker {
    /// Says that it went away.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Set once it is gone.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }

    /// Is the answer not waited for any more?
    pub fn is_over(&self, progress: &Progress) -> bool {
        self.0.load(Ordering::Relaxed) || progress.stop.load(Ordering::Relaxed)
    }

    /// The error for a question whose answer is not waited for any more.
    pub fn cancelled() -> ApiError {
        ApiError::new(503, "busy", "the question was given up")
    }
}

/// The parameters of a question.
#[derive(Clone)]
pub struct Query {
    /// The parameters, in their order.
    pub list: Vec<(String, String)>,
    /// The asker.
    pub asker: Asker,
}

impl Query {
    /// Parameters as an address has them.
    pub fn parse(text: &str) -> Query {
        Query { list: form_urlencoded::parse(text.as_bytes()).into_owned().collect(), asker: Asker::default() }
    }

    /// The value of a parameter; an empty one is none.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.list.iter().find(|(own, _)| own == name).map(|(_, value)| &**value).filter(|value| !value.is_empty())
    }

    /// The number of a parameter.
    ///
    /// # Errors
    /// When it is none.
    pub fn number<T: FromStr>(&self, name: &str) -> Answer<Option<T>> {
        let parse =
            |text: &str| text.parse().map_err(|_| ApiError::request(format!("`{name}` is not a number: `{text}`")));
        self.get(name).map(parse).transpose()
    }

    /// The number of a parameter that must be there.
    ///
    /// # Errors
    /// When it is not there, or is none.
    pub fn needed<T: FromStr>(&self, name: &str) -> Answer<T> {
        self.number(name)?.ok_or_else(|| ApiError::request(format!("`{name}` is missing")))
    }

    /// Is a parameter set, and not to 0?
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value != "0")
    }
}

/// A time in ns, as answers have it: a text, as numbers of JSON do not hold it exactly.
pub fn ns(ns: impl ToString) -> Value {
    Value::String(ns.to_string())
}

/// A time that may not be known.
pub(crate) fn some_ns(time: Option<impl ToString>) -> Value {
    time.map_or(Value::Null, ns)
}
