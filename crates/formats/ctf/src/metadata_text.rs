//! The text of the metadata, and the oddities in it that are tolerated.

use std::cell::{Cell, RefCell};
use std::ops::Deref;

use tracemill_codec::text::Span;
use tracemill_model::error::{Error, Result};

/// Oddities that are kept with their places: to find a line, the text before it is counted.
const MAX_SHOWN: u64 = 100;

/// The text, which a [`MetadataText`] stands for wherever text is wanted.
#[derive(Debug, Default)]
pub(crate) struct MetadataText<'a> {
    text: &'a str,
    is_strict: bool,
    oddities: RefCell<Oddities>,
    is_candidate: Cell<bool>,
}

#[derive(Debug, Default)]
struct Oddities {
    shown: Vec<Error>,
    count: u64,
}

impl<'a> MetadataText<'a> {
    /// A text of which nothing was read yet. Where it `is_strict`, every oddity is an error.
    pub(crate) fn new(text: &'a str, is_strict: bool) -> Self {
        MetadataText { text, is_strict, ..MetadataText::default() }
    }

    /// Notes that something is written as in a release candidate of CTF 2. Such metadata has many of them, so only the
    /// first one is a warning.
    ///
    /// # Errors
    ///
    /// The error, when the source is strict.
    pub(crate) fn candidate(&self, span: Span, what: &str) -> Result<()> {
        if self.is_candidate.replace(true) {
            return Ok(());
        }
        let error = || span.malformed(self, format!("{what}: metadata of a release candidate of CTF 2"));
        self.tolerate(error, || "it is read by the rules of release candidate 7".into())
    }

    /// Notes something that is forbidden and has a clear meaning: `reading`, which is the help of the warning where the
    /// error has none.
    ///
    /// # Errors
    ///
    /// The error, when the source is strict.
    pub(crate) fn tolerate(&self, error: impl FnOnce() -> Error, reading: impl FnOnce() -> String) -> Result<()> {
        if self.is_strict {
            return Err(error());
        }
        let mut oddities = self.oddities.borrow_mut();
        oddities.count += 1;
        if oddities.count <= MAX_SHOWN {
            let error = error();
            let has_help = error.help().is_some();
            oddities.shown.push(if has_help { error } else { error.with_help(reading()) });
        }
        Ok(())
    }

    /// Notes in the order of reading.
    pub(crate) fn into_warnings(self) -> Vec<Error> {
        let Oddities { mut shown, count } = self.oddities.into_inner();
        if count > MAX_SHOWN {
            shown.push(Error::malformed(format!("{} more oddities of the metadata", count - MAX_SHOWN)));
        }
        shown
    }
}

impl Deref for MetadataText<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        self.text
    }
}
