//! Answers that are kept for whoever asks again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Answer;

/// Answers that took long and may be asked for again.
#[derive(Default)]
pub(crate) struct Kept(Mutex<VecDeque<(String, Arc<str>)>>);

/// Answers that are kept, and bytes of each at most.
const KEPT: usize = 16;
const KEPT_BYTES: usize = 256 << 10;

impl Kept {
    /// The answer to a question: the one that is kept, or a new one.
    pub(crate) fn answer(&self, question: String, answer: impl FnOnce() -> Answer<String>) -> Answer<Arc<str>> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, text)) = lock().iter().find(|(own, _)| *own == question) {
            return Ok(text.clone());
        }
        let text: Arc<str> = answer()?.into();
        if text.len() <= KEPT_BYTES {
            let mut kept = lock();
            kept.push_back((question, text.clone()));
            if kept.len() > KEPT {
                kept.pop_front();
            }
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ApiError;

    #[test]
    fn answers_are_kept_and_not_too_many() {
        let kept = Kept::default();
        let ask = |question: usize, text: &str| {
            let answer = kept.answer(question.to_string(), || Ok(text.to_string()));
            answer.expect("it has one").to_string()
        };
        assert_eq!((ask(0, "a"), ask(0, "b")), ("a".to_string(), "a".to_string()));
        (1..=KEPT).for_each(|question| assert_eq!(ask(question, "c"), "c"));
        assert_eq!(ask(0, "d"), "d", "the oldest one goes");
        let long = "x".repeat(KEPT_BYTES + 1);
        assert_eq!((ask(99, &long).len(), ask(99, "e")), (long.len(), "e".to_string()));
        assert!(kept.answer("wrong".to_string(), || Err(ApiError::request("no"))).is_err());
        assert_eq!(&*kept.answer("wrong".to_string(), || Ok("f".to_string())).expect("now it has one"), "f");
    }
}
