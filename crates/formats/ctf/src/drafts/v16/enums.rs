//! Enumerations (`SPEC.md`, D19).

use std::sync::Arc;

use tracemill_model::error::Result;

use super::super::cursor::Spanned;
use super::super::types::{DraftClass, DraftType, DraftTypeKind, Int};
use super::specs::DeclarationStart;
use super::{Space, V16Parser};
use crate::tsdl::TokenKind;

/// A label with its first and last value.
type Label = (Spanned<String>, i128, i128);

impl V16Parser<'_> {
    /// `enum [<TYPE>] [TAG] { labels }`, or words when there is no body.
    pub(super) fn enumeration(&mut self) -> Result<DeclarationStart> {
        let begin = self.cursor.at;
        let word = self.cursor.next();
        let mut container = self.container()?;
        let tag = match self.cursor.peek().kind {
            TokenKind::Word => Some(self.cursor.identifier("a tag")?),
            _ => None,
        };
        if container.is_none() {
            container = self.container()?;
        }
        if !self.cursor.is_next("{") {
            if container.is_some() {
                return Err(self.cursor.unexpected("`{` of the enumeration"));
            }
            self.cursor.at = begin;
            return Ok(DeclarationStart::Words);
        }
        let (labels, has_ranges) = self.labels()?;
        let (int, align) = match container {
            Some(container) => container,
            None => {
                if has_ranges {
                    self.cursor.warn(word.span, "an enumeration with ranges and without `<type>` stands on `int`");
                }
                self.default_container(&labels)?
            }
        };
        let class = DraftClass::enumeration(int, align, &labels, self.cursor.source)?;
        let has_tag = tag.is_some();
        if let Some(tag) = tag {
            self.declare(Space::Enum, tag.value, class.clone(), word.span.to(tag.span))?;
        }
        Ok(DeclarationStart::Made { class, is_basic: true, has_tag })
    }

    /// `<TYPE>`, when it is next: an integer and its alignment.
    fn container(&mut self) -> Result<Option<(Int, u32)>> {
        if !self.cursor.is_next("<") {
            return Ok(None);
        }
        self.cursor.enter()?;
        let open = self.cursor.next();
        let class = self.plain_type()?;
        self.cursor.expect(">", "after the type of the enumeration")?;
        self.cursor.leave();
        match class.as_integer() {
            Some(int) => Ok(Some((int, class.align))),
            None => Err(open.span.malformed(self.cursor.source, "the type of an enumeration must be an integer")),
        }
    }

    /// The type `int`, or its unsigned twin when no value is negative and one does not fit.
    fn default_container(&mut self, labels: &[Label]) -> Result<(Int, u32)> {
        let class: DraftType = self.named(&["int"], self.cursor.peek().span)?;
        let DraftTypeKind::Integer(int) = Arc::as_ref(&class).kind else {
            let span = self.cursor.peek().span;
            return Err(
                span.malformed(self.cursor.source, "the type `int`, on which enumerations stand, is not an integer")
            );
        };
        let (_, high) = int.bounds();
        let is_large = labels.iter().any(|(_, _, to)| *to > high);
        let is_negative = labels.iter().any(|(_, from, _)| *from < 0);
        let signed = int.signed && (is_negative || !is_large);
        Ok((Int { signed, ..int }, class.align))
    }

    /// `{ NAME [= FIRST [... LAST]], ... }`: at least one. Says whether one is a range.
    fn labels(&mut self) -> Result<(Vec<Label>, bool)> {
        self.cursor.expect("{", "of the enumeration")?;
        let (mut labels, mut next, mut has_ranges) = (Vec::new(), 0i128, false);
        loop {
            if self.cursor.is_next("}") && !labels.is_empty() {
                break;
            }
            let name = self.cursor.word("a label of the enumeration")?;
            let (mut from, mut to) = (next, next);
            if self.cursor.accept("=") {
                from = self.cursor.integer("the value of the label")?.value;
                to = from;
                if self.cursor.peek().kind == TokenKind::Symbol("...") {
                    self.cursor.next();
                    to = self.cursor.integer("the last value of the range")?.value;
                    has_ranges = true;
                }
            }
            next = to + 1;
            labels.push((name, from, to));
            if !self.cursor.accept(",") {
                break;
            }
        }
        self.cursor.expect("}", "of the enumeration")?;
        Ok((labels, has_ranges))
    }
}
