//! Walks over tokens, as all parsers of metadata do.

use tracemill_model::error::{Error, Result};

use super::lexer::{Token, TokenKind};

/// A place between two tokens of a text.
#[derive(Default)]
pub(crate) struct Tokens<'s> {
    pub(crate) source: &'s str,
    all: Vec<Token>,
    /// After how many of them.
    pub(crate) at: usize,
    depth: usize,
    /// Levels that a parser, which calls itself, goes down at most.
    most: usize,
}

impl<'s> Tokens<'s> {
    /// At the first token of a text; `end` is its end.
    pub(crate) fn new(source: &'s str, mut all: Vec<Token>, end: Token, most: usize) -> Self {
        all.push(end);
        Tokens { source, all, at: 0, depth: 0, most }
    }

    /// The next token.
    pub(crate) fn peek(&self) -> Token {
        self.peek_nth(0)
    }

    /// The token `ahead` after the next one; at the end that.
    pub(crate) fn peek_nth(&self, ahead: usize) -> Token {
        self.all[(self.at + ahead).min(self.all.len() - 1)]
    }

    /// The last token that was taken.
    pub(crate) fn previous(&self) -> Token {
        self.all[self.at.saturating_sub(1)]
    }

    /// Takes the next token; the end stays.
    pub(crate) fn next(&mut self) -> Token {
        let token = self.peek();
        self.at = (self.at + 1).min(self.all.len() - 1);
        token
    }

    pub(crate) fn text(&self, token: Token) -> &'s str {
        token.span.text(self.source)
    }

    /// Is the next token this punctuator?
    pub(crate) fn is_next(&self, symbol: &str) -> bool {
        matches!(self.peek().kind, TokenKind::Symbol(own) if own == symbol)
    }

    /// Is the next token this word?
    pub(crate) fn is_word(&self, word: &str) -> bool {
        let token = self.peek();
        token.kind == TokenKind::Word && self.text(token) == word
    }

    /// Takes a punctuator when it is next.
    pub(crate) fn accept(&mut self, symbol: &str) -> bool {
        let is_next = self.is_next(symbol);
        self.at += usize::from(is_next);
        is_next
    }

    /// The error that something else should be next.
    pub(crate) fn unexpected(&self, wanted: &str) -> Error {
        let token = self.peek();
        let found = match token.kind {
            TokenKind::End if token.span.start < self.source.len() => "the end of the declaration".to_string(),
            TokenKind::End => "the end of the metadata".to_string(),
            _ => format!("`{}`", self.text(token).chars().take(60).collect::<String>().escape_debug()),
        };
        token.span.malformed(self.source, format!("expected {wanted}, found {found}"))
    }

    /// Goes one level deeper.
    pub(crate) fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > self.most {
            let message = format!("types and blocks are nested deeper than {} levels", self.most);
            return Err(self.peek().span.unsupported(self.source, message));
        }
        Ok(())
    }

    /// Comes back from [`Tokens::enter`].
    pub(crate) fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }
}

/// Derefs a parser to its tokens.
macro_rules! walks {
    ($parser:ident) => {
        impl<'s> std::ops::Deref for $parser<'s> {
            type Target = $crate::tsdl::Tokens<'s>;

            fn deref(&self) -> &Self::Target {
                &self.tokens
            }
        }

        impl std::ops::DerefMut for $parser<'_> {
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.tokens
            }
        }
    };
}

pub(crate) use walks;
