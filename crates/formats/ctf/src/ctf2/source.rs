//! The text of the metadata, and what in it was read although the specification forbids it.

use std::cell::RefCell;
use std::ops::Deref;

use tracemill_model::error::{Error, Result};

/// Oddities that are kept with their places: to find a line, the text before it is counted.
const MAX_SHOWN: u64 = 100;

/// The text, which a [`MetadataText`] stands for wherever text is wanted.
#[derive(Debug)]
pub(super) struct MetadataText<'a> {
    text: &'a str,
    is_strict: bool,
    oddities: RefCell<Oddities>,
}

#[derive(Debug, Default)]
struct Oddities {
    shown: Vec<Error>,
    count: u64,
}

impl<'a> MetadataText<'a> {
    /// A text of which nothing was read yet. Where it `is_strict`, every oddity is an error.
    pub(super) fn new(text: &'a str, is_strict: bool) -> Self {
        MetadataText { text, is_strict, oddities: RefCell::default() }
    }

    /// Notes something that is forbidden and has a clear meaning: `reading`, which is the help of the warning where the
    /// error has none.
    ///
    /// # Errors
    ///
    /// The error, when the source is strict.
    pub(super) fn tolerate(&self, error: impl FnOnce() -> Error, reading: impl FnOnce() -> String) -> Result<()> {
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
    pub(super) fn into_warnings(self) -> Vec<Error> {
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
