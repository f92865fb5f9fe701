//! Tokens to syntax trees: declarations, assignments and expressions (CTF 1.8.3, C.2).

use tracemill_codec::text::Span;
use tracemill_model::error::Result;

use super::ast::{Alias, BlockItem, Expr, Word};
use super::blocks::MAX_NESTING;
use super::lexer::{Lexer, Token, TokenKind, unescape, unquote};
use super::tokens::{Tokens, walks};

/// Parses one top-level declaration.
pub(super) struct TsdlParser<'s> {
    tokens: Tokens<'s>,
}

walks!(TsdlParser);

impl<'s> TsdlParser<'s> {
    /// A parser of `part` of the source text.
    pub(super) fn new(source: &'s str, part: Span) -> Result<Self> {
        let mut lexer = Lexer::new(source, part);
        // Four bytes of text make a token, roughly.
        let mut tokens = Vec::with_capacity((part.end - part.start) / 4 + 1);
        loop {
            match lexer.next()? {
                end @ Token { kind: TokenKind::End, .. } => {
                    return Ok(TsdlParser { tokens: Tokens::new(source, tokens, end, MAX_NESTING) });
                }
                token => tokens.push(token),
            }
        }
    }

    /// Parses `keyword { ... };` up to the end of the text.
    pub(super) fn block(mut self) -> Result<Vec<BlockItem<'s>>> {
        self.next();
        let items = self.braced_items()?;
        self.expect(";")?;
        self.expect_end()?;
        Ok(items)
    }

    /// Parses a declaration outside of any block up to the end of the text.
    pub(super) fn root(mut self) -> Result<BlockItem<'s>> {
        let item = self.item()?;
        self.expect_end()?;
        Ok(item)
    }

    /// Parses `{ item; ... }`.
    pub(super) fn braced_items(&mut self) -> Result<Vec<BlockItem<'s>>> {
        self.expect("{")?;
        self.enter()?;
        let mut items = Vec::new();
        while !self.accept("}") {
            if !self.accept(";") {
                items.push(self.item()?);
            }
        }
        self.leave();
        Ok(items)
    }

    fn item(&mut self) -> Result<BlockItem<'s>> {
        let item = if self.is_word("typealias") {
            self.next();
            BlockItem::Alias(Box::new(self.alias()?))
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
        let name_span = start.to(self.previous().span);
        Ok(Alias { target, target_declarator, name, name_span })
    }

    /// Is this `path = ...` or `path := ...` and not a declaration? The left side never has two words in a row.
    fn starts_assignment(&self) -> bool {
        let mut ahead = 0;
        loop {
            match self.peek_nth(ahead).kind {
                TokenKind::Word | TokenKind::Quoted | TokenKind::Integer(_) => ahead += 1,
                // A sign or a parenthesis cannot start a declaration.
                TokenKind::Symbol("(" | "+" | "-") if ahead == 0 => return true,
                _ => return false,
            }
            match self.peek_nth(ahead).kind {
                TokenKind::Symbol("=" | ":=") => return true,
                TokenKind::Symbol("." | "->") => ahead += 1,
                TokenKind::Symbol("[") => return true,
                _ => return false,
            }
        }
    }

    fn assignment(&mut self) -> Result<BlockItem<'s>> {
        let left = self.expr()?;
        if self.accept("=") {
            return Ok(BlockItem::Assign(left, self.expr()?));
        }
        if self.accept(":=") {
            return Ok(BlockItem::Define(left, self.specifier(false)?.0));
        }
        Err(self.unexpected("`=` or `:=`"))
    }

    /// Parses a constant or a path.
    pub(super) fn expr(&mut self) -> Result<Expr<'s>> {
        let token = self.peek();
        match token.kind {
            TokenKind::Symbol("+") => {
                self.next();
                self.signed(token.span, 1)
            }
            TokenKind::Symbol("-") => {
                self.next();
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
            } else if self.is_next("[") {
                self.next();
                self.enter()?;
                self.expr()?;
                self.leave();
                self.expect("]")?;
                expr = Expr::Other(expr.span().to(self.previous().span));
            } else {
                return Ok(expr);
            }
        }
    }

    fn primary(&mut self) -> Result<Expr<'s>> {
        let token = self.peek();
        match token.kind {
            TokenKind::Integer(value) => {
                self.next();
                Ok(Expr::Integer(value, token.span))
            }
            TokenKind::Symbol("(") => {
                self.next();
                self.enter()?;
                let expr = self.expr()?;
                self.leave();
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
        self.next();
        Ok(Word { text, span: token.span })
    }

    /// Takes an identifier or keyword.
    pub(super) fn word(&mut self, expected: &str) -> Result<Word<'s>> {
        match self.peek().kind {
            TokenKind::Word => self.word_or_literal(expected),
            _ => Err(self.unexpected(expected)),
        }
    }

    /// The text of the next token, if it is a word.
    pub(super) fn peek_word(&self) -> Option<&'s str> {
        let token = self.peek();
        (token.kind == TokenKind::Word).then(|| token.span.text(self.source))
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

    fn parse(source: &str) -> Result<Vec<BlockItem<'_>>> {
        TsdlParser::new(source, Span::new(0, source.len()))?.block()
    }

    #[test]
    fn assignments_of_any_form() {
        let items = parse("trace { a = 1; b.c = -0x2; \"d\" = (e->f); g[1] = h; i := string; };").expect("valid");
        assert_eq!(items.len(), 5);
        assert!(
            matches!(&items[1], BlockItem::Assign(left, Expr::Integer(-2, _)) if left.dotted().as_deref() == Some("b.c"))
        );
        assert!(matches!(&items[2], BlockItem::Assign(_, right) if right.dotted().as_deref() == Some("e.f")));
        assert!(matches!(&items[3], BlockItem::Assign(Expr::Other(_), _)));
        assert!(matches!(&items[4], BlockItem::Define(..)));
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
