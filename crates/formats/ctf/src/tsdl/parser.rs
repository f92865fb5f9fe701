//! Tokens to syntax trees: declarations, assignments and expressions (CTF 1.8.3, C.2).

use tracemill_codec::text::Span;
use tracemill_model::error::{Error, Result};

use super::ast::{Alias, Expr, Item, Word};
use super::blocks::MAX_NESTING;
use super::lexer::{Lexer, Token, TokenKind, unescape, unquote};

/// Parses one top-level declaration.
pub(super) struct Parser<'s> {
    pub(super) source: &'s str,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl<'s> Parser<'s> {
    /// A parser of `part` of the source text.
    pub(super) fn new(source: &'s str, part: Span) -> Result<Self> {
        let mut lexer = Lexer::new(source, part);
        // Four bytes of text make a token, roughly.
        let mut tokens = Vec::with_capacity((part.end - part.start) / 4 + 1);
        loop {
            let token = lexer.next()?;
            tokens.push(token);
            if token.kind == TokenKind::End {
                return Ok(Parser { source, tokens, at: 0, depth: 0 });
            }
        }
    }

    /// Parses `keyword { ... };` up to the end of the text.
    pub(super) fn block(mut self) -> Result<Vec<Item<'s>>> {
        self.advance();
        let items = self.braced_items()?;
        self.expect(";")?;
        self.expect_end()?;
        Ok(items)
    }

    /// Parses a declaration outside of any block up to the end of the text.
    pub(super) fn root(mut self) -> Result<Item<'s>> {
        let item = self.item()?;
        self.expect_end()?;
        Ok(item)
    }

    /// Parses `{ item; ... }`.
    pub(super) fn braced_items(&mut self) -> Result<Vec<Item<'s>>> {
        self.expect("{")?;
        self.enter()?;
        let mut items = Vec::new();
        while !self.accept("}") {
            if !self.accept(";") {
                items.push(self.item()?);
            }
        }
        self.depth -= 1;
        Ok(items)
    }

    fn item(&mut self) -> Result<Item<'s>> {
        let item = if self.at_word("typealias") {
            self.advance();
            Item::Alias(Box::new(self.alias()?))
        } else if self.starts_assignment() {
            self.assignment()?
        } else {
            self.declaration()?
        };
        self.expect(";")?;
        Ok(item)
    }

    fn alias(&mut self) -> Result<Alias<'s>> {
        let (target, _) = self.specifier(false)?;
        let target_declarator = self.declarator()?;
        self.expect(":=")?;
        let start = self.peek().span;
        let name = self.alias_name()?;
        let name_span = start.to(self.previous_span());
        Ok(Alias { target, target_declarator, name, name_span })
    }

    /// Is this `path = ...` or `path := ...` and not a declaration? The left side never has two words in a row.
    fn starts_assignment(&self) -> bool {
        let mut at = self.at;
        loop {
            match self.kind_at(at) {
                TokenKind::Word | TokenKind::Quoted | TokenKind::Integer(_) => at += 1,
                // A sign or a parenthesis cannot start a declaration.
                TokenKind::Symbol("(" | "+" | "-") if at == self.at => return true,
                _ => return false,
            }
            match self.kind_at(at) {
                TokenKind::Symbol("=" | ":=") => return true,
                TokenKind::Symbol("." | "->") => at += 1,
                TokenKind::Symbol("[") => return true,
                _ => return false,
            }
        }
    }

    fn assignment(&mut self) -> Result<Item<'s>> {
        let left = self.expr()?;
        if self.accept("=") {
            return Ok(Item::Assign(left, self.expr()?));
        }
        if self.accept(":=") {
            return Ok(Item::Define(left, self.specifier(false)?.0));
        }
        Err(self.unexpected("`=` or `:=`"))
    }

    /// Parses a constant or a path.
    pub(super) fn expr(&mut self) -> Result<Expr<'s>> {
        let token = self.peek();
        match token.kind {
            TokenKind::Symbol("+") => {
                self.advance();
                self.signed(token.span, 1)
            }
            TokenKind::Symbol("-") => {
                self.advance();
                self.signed(token.span, -1)
            }
            _ => self.postfix(),
        }
    }

    fn signed(&mut self, sign_span: Span, sign: i128) -> Result<Expr<'s>> {
        let operand = self.postfix()?;
        match operand {
            Expr::Integer(value, span) => Ok(Expr::Integer(sign * value, sign_span.to(span))),
            other => Err(other.span().malformed(self.source, "a sign needs an integer after it")),
        }
    }

    fn postfix(&mut self) -> Result<Expr<'s>> {
        let mut expr = self.primary()?;
        loop {
            if self.accept(".") || self.accept("->") {
                let word = self.word_or_literal("a name")?;
                expr = join(expr, word);
            } else if self.peek_symbol() == Some("[") {
                self.advance();
                self.enter()?;
                self.expr()?;
                self.depth -= 1;
                self.expect("]")?;
                expr = Expr::Other(expr.span().to(self.previous_span()));
            } else {
                return Ok(expr);
            }
        }
    }

    fn primary(&mut self) -> Result<Expr<'s>> {
        let token = self.peek();
        match token.kind {
            TokenKind::Integer(value) => {
                self.advance();
                Ok(Expr::Integer(i128::from(value), token.span))
            }
            TokenKind::Symbol("(") => {
                self.advance();
                self.enter()?;
                let expr = self.expr()?;
                self.depth -= 1;
                self.expect(")")?;
                Ok(expr)
            }
            _ => {
                let word = self.word_or_literal("a value")?;
                Ok(Expr::Path(vec![word], token.span))
            }
        }
    }

    /// Takes an identifier, keyword, string or character.
    pub(super) fn word_or_literal(&mut self, expected: &str) -> Result<Word<'s>> {
        let token = self.peek();
        let text = match token.kind {
            TokenKind::Word => unescape(self.source, token.span)?,
            TokenKind::Quoted => unquote(self.source, token.span)?,
            _ => return Err(self.unexpected(expected)),
        };
        self.advance();
        Ok(Word { text, span: token.span })
    }

    /// Takes an identifier or keyword.
    pub(super) fn word(&mut self, expected: &str) -> Result<Word<'s>> {
        match self.peek().kind {
            TokenKind::Word => self.word_or_literal(expected),
            _ => Err(self.unexpected(expected)),
        }
    }

    /// Goes one level deeper. The levels are bounded because the parser calls itself.
    pub(super) fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            let message = format!("metadata nests more than {MAX_NESTING} levels");
            return Err(self.previous_span().unsupported(self.source, message));
        }
        Ok(())
    }

    /// Comes back from [`Parser::enter`].
    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// The next token.
    pub(super) fn peek(&self) -> Token {
        // The last token is `End`, and `advance` never goes past it.
        self.tokens[self.at]
    }

    /// The kind of the token after the next one.
    pub(super) fn second_kind(&self) -> TokenKind {
        self.kind_at(self.at + 1)
    }

    /// The text of the token after the next one.
    pub(super) fn second_text(&self) -> &'s str {
        self.tokens.get(self.at + 1).map_or("", |token| token.span.text(self.source))
    }

    fn kind_at(&self, at: usize) -> TokenKind {
        self.tokens.get(at).map_or(TokenKind::End, |token| token.kind)
    }

    /// The next token, if it is a symbol.
    pub(super) fn peek_symbol(&self) -> Option<&'static str> {
        match self.peek().kind {
            TokenKind::Symbol(symbol) => Some(symbol),
            _ => None,
        }
    }

    /// The text of the next token, if it is a word.
    pub(super) fn peek_word(&self) -> Option<&'s str> {
        let token = self.peek();
        (token.kind == TokenKind::Word).then(|| token.span.text(self.source))
    }

    /// Is the next token this keyword?
    pub(super) fn at_word(&self, word: &str) -> bool {
        self.peek_word() == Some(word)
    }

    /// Goes past the next token.
    pub(super) fn advance(&mut self) {
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
    }

    /// Where the last token was.
    pub(super) fn previous_span(&self) -> Span {
        self.tokens[self.at.saturating_sub(1)].span
    }

    /// Takes a symbol when it is next.
    pub(super) fn accept(&mut self, symbol: &str) -> bool {
        let is_next = self.peek_symbol() == Some(symbol);
        if is_next {
            self.advance();
        }
        is_next
    }

    /// Takes a symbol or fails.
    pub(super) fn expect(&mut self, symbol: &str) -> Result<()> {
        if self.accept(symbol) { Ok(()) } else { Err(self.unexpected(&format!("`{}`", symbol))) }
    }

    fn expect_end(&self) -> Result<()> {
        match self.peek().kind {
            TokenKind::End => Ok(()),
            _ => Err(self.unexpected("the end of the declaration")),
        }
    }

    /// The error about the next token when something else is needed.
    pub(super) fn unexpected(&self, expected: &str) -> Error {
        let token = self.peek();
        let found = match token.kind {
            TokenKind::End => "the end of the declaration".to_owned(),
            _ => format!("`{}`", token.span.text(self.source)),
        };
        token.span.malformed(self.source, format!("expected {expected}, found {found}"))
    }
}

fn join<'s>(left: Expr<'s>, word: Word<'s>) -> Expr<'s> {
    match left {
        Expr::Path(mut words, span) => {
            let span = span.to(word.span);
            words.push(word);
            Expr::Path(words, span)
        }
        other => Expr::Other(other.span().to(word.span)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(source: &str) -> Result<Vec<Item<'_>>> {
        Parser::new(source, Span::new(0, source.len()))?.block()
    }

    #[test]
    fn assignments_of_any_form() {
        let items = parse("trace { a = 1; b.c = -0x2; \"d\" = (e->f); g[1] = h; i := string; };").expect("valid");
        assert_eq!(items.len(), 5);
        assert!(
            matches!(&items[1], Item::Assign(left, Expr::Integer(-2, _)) if left.dotted().as_deref() == Some("b.c"))
        );
        assert!(matches!(&items[2], Item::Assign(_, right) if right.dotted().as_deref() == Some("e.f")));
        assert!(matches!(&items[3], Item::Assign(Expr::Other(_), _)));
        assert!(matches!(&items[4], Item::Define(..)));
    }

    #[test]
    fn errors_tell_found_and_expected() {
        let error = parse("trace { a = ; };").expect_err("wrong").to_string();
        assert!(error.starts_with("line 1, column 13: expected a value, found `;`"), "{error}");
        let error = parse("trace { a = -b; };").expect_err("wrong").to_string();
        assert!(error.contains("a sign needs an integer"), "{error}");
        let error = parse("trace { } event { };").expect_err("wrong").to_string();
        assert!(error.contains("expected `;`, found `event`"), "{error}");
    }
}
