//! Walks over tokens, as both parsers do.

use tracemill_codec::text::Span;
use tracemill_model::error::{Error, Result};

use super::types::WrittenOrder;
use crate::tsdl::{TokenKind, Tokens, draft_tokens, unquote, walks};

/// Types and blocks deeper than this are refused (`SPEC.md`, D46).
pub(super) const MAX_DEPTH: u32 = 256;

/// A word, name or type with its place in the text. Two are equal when their values are.
#[derive(Clone, Debug)]
pub(super) struct Spanned<T> {
    pub(super) value: T,
    pub(super) span: Span,
}

impl<T: PartialEq> PartialEq for Spanned<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

/// A span that does not count when declarations are compared.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UncomparedSpan {
    pub(super) value: Span,
}

impl PartialEq for UncomparedSpan {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for UncomparedSpan {}

/// Tokens with what both languages have, and warnings.
#[derive(Default)]
pub(super) struct Cursor<'s> {
    tokens: Tokens<'s>,
    /// Warnings of things that were passed over.
    pub(super) warnings: Vec<Error>,
}

walks!(Cursor);

impl<'s> Cursor<'s> {
    /// At the first token of a text.
    pub(super) fn new(source: &'s str) -> Result<Self> {
        let (tokens, end) = draft_tokens(source);
        Ok(Cursor { tokens: Tokens::new(source, tokens, end?, MAX_DEPTH as usize), warnings: Vec::new() })
    }

    pub(super) fn is_end(&self) -> bool {
        self.peek().kind == TokenKind::End
    }

    pub(super) fn expect(&mut self, symbol: &'static str, after: &str) -> Result<Span> {
        if self.is_next(symbol) {
            return Ok(self.next().span);
        }
        Err(self.unexpected(&format!("`{}` {after}", symbol)))
    }

    pub(super) fn identifier(&mut self, what: &str) -> Result<Spanned<String>> {
        if self.peek().kind != TokenKind::Word {
            return Err(self.unexpected(what));
        }
        let token = self.next();
        Ok(Spanned { value: self.text(token).to_string(), span: token.span })
    }

    /// An identifier or a string.
    pub(super) fn word(&mut self, what: &str) -> Result<Spanned<String>> {
        let token = self.peek();
        if token.kind != TokenKind::Quoted {
            return self.identifier(what);
        }
        self.at += 1;
        Ok(Spanned { value: unquote(self.source, token.span)?.into_owned(), span: token.span })
    }

    pub(super) fn integer(&mut self, what: &str) -> Result<Spanned<i128>> {
        match self.peek().kind {
            TokenKind::Integer(value) => Ok(Spanned { value, span: self.next().span }),
            _ => Err(self.unexpected(what)),
        }
    }

    /// An integer in a range.
    pub(super) fn number(&mut self, what: &str, low: i128, high: i128) -> Result<Spanned<i128>> {
        let found = self.integer(what)?;
        if (low..=high).contains(&found.value) {
            return Ok(found);
        }
        let message = format!("{what} is {}, and must be between {low} and {high}", found.value);
        Err(found.span.malformed(self.source, message))
    }

    /// A power of two from 1 on.
    pub(super) fn power_of_two(&mut self, what: &str) -> Result<u32> {
        let found = self.number(what, 1, 1 << 31)?;
        let value = found.value as u32;
        if value.is_power_of_two() {
            return Ok(value);
        }
        Err(found.span.malformed(self.source, format!("{what} is {value}, and must be a power of two")))
    }

    pub(super) fn boolean(&mut self, what: &str) -> Result<bool> {
        let token = self.peek();
        let value = match (token.kind, self.text(token)) {
            (TokenKind::Word, "true" | "TRUE") | (TokenKind::Integer(1), _) => true,
            (TokenKind::Word, "false" | "FALSE") | (TokenKind::Integer(0), _) => false,
            _ => return Err(self.unexpected(&format!("`true` or `false` for {what}"))),
        };
        self.at += 1;
        Ok(value)
    }

    pub(super) fn byte_order(&mut self) -> Result<WrittenOrder> {
        let word = self.identifier("`native`, `network`, `be` or `le`")?;
        let message = || format!("`{}` is not a byte order: `native`, `network`, `be` or `le`", word.value);
        WrittenOrder::parse(&word.value).ok_or_else(|| word.span.malformed(self.source, message()))
    }

    /// The encoding of a string: is it ASCII?
    pub(super) fn is_ascii(&mut self) -> Result<bool> {
        let word = self.identifier("`UTF8` or `ASCII`")?;
        match word.value.as_str() {
            "UTF8" => Ok(false),
            "ASCII" => Ok(true),
            other => Err(word.span.malformed(self.source, format!("`{other}` is not an encoding: `UTF8` or `ASCII`"))),
        }
    }

    /// Opens the block of attributes that is next.
    pub(super) fn begin_block(&mut self, what: &str) -> Result<()> {
        self.expect("{", &format!("of the {what}"))?;
        self.enter()
    }

    /// The name of the next attribute of a block, or nothing after its end. `mark` may stand before a name.
    pub(super) fn attribute(&mut self, what: &str, mark: Option<&'static str>) -> Result<Option<Spanned<String>>> {
        while self.accept(";") {}
        if self.accept("}") {
            self.leave();
            return Ok(None);
        }
        mark.map(|mark| self.accept(mark));
        self.identifier(&format!("an attribute of the {what}, or `}}`")).map(Some)
    }

    /// The `=` after the name of an attribute.
    pub(super) fn equals(&mut self, name: &Spanned<String>) -> Result<()> {
        self.expect("=", &format!("after `{}`", name.value)).map(|_| ())
    }

    /// Is the last token that was taken a `}`?
    pub(super) fn is_after_brace(&self) -> bool {
        self.at > 0 && self.previous().kind == TokenKind::Symbol("}")
    }

    /// Passes over an unknown attribute, up to its `;`, with a warning.
    pub(super) fn skip_unknown(&mut self, name: &Spanned<String>, block: &str) -> Result<()> {
        self.warn(name.span, format!("the {block} has no attribute `{}`; it is passed over", name.value));
        let mut open = 0u32;
        loop {
            match self.peek().kind {
                TokenKind::End => return Err(self.unexpected(&format!("`;` after `{}`", name.value))),
                TokenKind::Symbol(";") if open == 0 => {
                    self.at += 1;
                    return Ok(());
                }
                TokenKind::Symbol("{") => open += 1,
                TokenKind::Symbol("}") if open == 0 => return Ok(()),
                TokenKind::Symbol("}") => open -= 1,
                _ => {}
            }
            self.at += 1;
        }
    }

    /// Passes over a block whose `{` is next, with all braces in it.
    pub(super) fn skip_braces(&mut self) -> Result<()> {
        let mut open = 0u32;
        loop {
            match self.peek().kind {
                TokenKind::End => return Err(self.unexpected("`}`")),
                TokenKind::Symbol("{") => open += 1,
                TokenKind::Symbol("}") => open = open.saturating_sub(1),
                _ => {}
            }
            self.at += 1;
            if open == 0 {
                return Ok(());
            }
        }
    }

    pub(super) fn warn(&mut self, span: Span, message: impl Into<String>) {
        let warning = Error::inconsistent(message).at_text(span.place(self.source));
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(warning);
        }
    }
}

/// Warnings that anybody reads.
const MAX_WARNINGS: usize = 1000;

/// A parser of blocks of attributes.
pub(super) trait Attributes<'s> {
    /// The punctuator that may stand before a name.
    const MARK: Option<&'static str>;
    /// Does a block inside another one end as a value does?
    const BLOCKS_END: bool;

    fn cursor(&mut self) -> &mut Cursor<'s>;

    /// Takes what ends a value.
    fn end_of_value(&mut self) -> Result<()>;

    /// Reads a block: `take` reads what stands behind the `=` of the names in `values`, and behind those in `blocks`.
    fn block(
        &mut self,
        what: &str,
        (values, blocks): (&[&str], &[&str]),
        mut take: impl FnMut(&mut Self, &Spanned<String>) -> Result<()>,
    ) -> Result<()> {
        self.cursor().begin_block(what)?;
        let mut given = Given::default();
        while let Some(name) = self.cursor().attribute(what, Self::MARK)? {
            let is_value = values.contains(&name.value.as_str());
            if is_value {
                self.cursor().equals(&name)?;
            } else if !blocks.contains(&name.value.as_str()) {
                self.cursor().skip_unknown(&name, what)?;
                continue;
            }
            take(self, &name)?;
            given.add(name, self.cursor().source)?;
            if is_value || Self::BLOCKS_END {
                self.end_of_value()?;
            }
        }
        Ok(())
    }
}

/// The attributes that a block has given.
#[derive(Default)]
pub(super) struct Given(Vec<String>);

impl Given {
    /// Notes an attribute, which may be given once.
    pub(super) fn add(&mut self, name: Spanned<String>, source: &str) -> Result<()> {
        if self.0.contains(&name.value) {
            return Err(name.span.malformed(source, format!("`{}` is given twice in one block", name.value)));
        }
        self.0.push(name.value);
        Ok(())
    }
}
