//! Texts of the user, with the place where each stands: files of definitions and the options that take the same.

use std::path::Path;
use std::sync::Arc;

use tracemill_codec::text::Span;
use tracemill_engine::filter::Expression;
use tracemill_engine::parsed_query::misuse_of;
use tracemill_model::error::{Error, Result};

use crate::kernel::question::event_paths::BESIDE;

/// A text of the user, and where it stands.
#[derive(Clone, Debug)]
pub struct Written {
    /// The option or the file.
    source: Arc<str>,
    /// The argument, or everything in the file.
    whole: Arc<str>,
    span: Span,
}

impl Written {
    /// The argument of an option.
    pub fn from_option(option: &str, text: &str) -> Written {
        Written { source: option.into(), whole: text.into(), span: Span::new(0, text.len()) }
    }

    /// Everything in a file.
    pub(crate) fn from_file(file: &Path, text: &str) -> Written {
        Written::from_option(&file.display().to_string(), text)
    }

    pub(crate) fn text(&self) -> &str {
        self.span.text(&self.whole)
    }

    /// A part of it.
    pub(crate) fn part(&self, from: usize, to: usize) -> Written {
        let text = &self.text()[from..to];
        let start = self.span.start + from + (text.len() - text.trim_start().len());
        Written { span: Span::new(start, start + text.trim().len()), ..self.clone() }
    }

    /// The lines that are neither empty nor comments.
    pub(crate) fn lines(&self) -> impl Iterator<Item = Written> {
        let mut start = 0;
        let lines = self.text().split_inclusive('\n').map(move |line| {
            start += line.len();
            self.part(start - line.len(), start)
        });
        lines.filter(|line| !line.text().is_empty() && !line.text().starts_with('#'))
    }

    /// The pieces between separators, without those in quotes.
    pub(crate) fn pieces(&self, separator: u8) -> Vec<Written> {
        let (mut pieces, mut start) = (Vec::new(), 0);
        for (at, _) in outside_quotes(self.text()).filter(|(_, byte)| *byte == separator) {
            pieces.push(self.part(start, at));
            start = at + 1;
        }
        pieces.push(self.part(start, self.text().len()));
        pieces
    }

    /// A condition on an event and on the [state of its CPU](BESIDE).
    pub(crate) fn expression(&self) -> Result<(Written, Expression)> {
        let parsed = Expression::parse(self.text()).and_then(|parsed| parsed.with_columns(&BESIDE));
        parsed.map_err(|error| self.placed(error)).map(|parsed| (self.clone(), parsed))
    }

    pub(crate) fn error(&self, message: impl Into<String>) -> Error {
        misuse_of(&self.source, self.span.malformed(&self.whole, message))
    }

    /// An error in the text alone, as one of the whole text.
    pub(crate) fn placed(&self, error: Error) -> Error {
        let span = error.place().text.as_ref().map_or(self.span, |place| {
            let start = self.span.start + place.offset;
            Span::new(start, start + place.len)
        });
        let own = Error::misuse(error.message()).in_file(Path::new(&*self.source)).at_text(span.place(&self.whole));
        match error.help() {
            Some(help) => own.with_help(help),
            None => own,
        }
    }
}

/// The bytes of a text that are not in quotes, nor quotes, with their places.
pub(crate) fn outside_quotes(text: &str) -> impl Iterator<Item = (usize, u8)> {
    let (mut quote, mut is_escaped) = (None, false);
    text.bytes().enumerate().filter(move |(_, byte)| {
        match quote {
            _ if std::mem::take(&mut is_escaped) => {}
            Some(own) if *byte == own => quote = None,
            Some(b'`') => {}
            Some(_) => is_escaped = *byte == b'\\',
            None if matches!(*byte, b'"' | b'\'' | b'`') => quote = Some(*byte),
            None => return true,
        }
        false
    })
}
