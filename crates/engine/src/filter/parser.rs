//! From tokens to the tree: `or`, then `and`, then `not`, then comparisons, then `&`.

use regex::bytes::RegexBuilder;
use tracemill_codec::text::{Span, nearest};
use tracemill_model::error::{Error, Result};

use super::lexer::{FilterToken, Lexer, TokenKind};
use super::number::NumberLiteral;
use super::syntax::{Compare, Op, Operand, OperandPart, Path, PathHead, Right, StepKind, SyntaxStep, Test};
use super::text::TextLiteral;
use super::time::Time;

/// Parentheses inside each other; deeper ones are refused.
const MAX_DEPTH: usize = 100;

const KEYWORDS: [&str; 4] = ["and", "or", "not", "in"];

/// Bytes that a compiled regular expression may take.
const MAX_REGEX: usize = 4 << 20;

/// Reads a condition, with the paths that it names by index.
pub(super) fn parse(source: &str) -> Result<(Test, Vec<Path>)> {
    let mut parser = FilterParser::new(source)?;
    let item = parser.any(0)?;
    let test = parser.test(item)?;
    match parser.token.kind {
        TokenKind::End => Ok((test, parser.paths)),
        TokenKind::CloseParen => Err(parser.token.span.malformed(source, "this `)` closes nothing")),
        _ => Err(parser.expected("`and`, `or` or the end of the expression")),
    }
}

/// Paths with commas between them.
pub(super) fn parse_paths(source: &str) -> Result<Vec<Path>> {
    let mut parser = FilterParser::new(source)?;
    let mut columns = Vec::new();
    loop {
        let is_path = matches!(parser.token.kind, TokenKind::Word | TokenKind::Quoted) && !parser.is_keyword();
        if !is_path && parser.token.kind == TokenKind::End {
            let error = parser.token.span.malformed(source, "expected a path, found the end of the list");
            return Err(error.with_help("paths are such as `name`, `payload.size` or `$ctx.vpid`"));
        }
        if !is_path {
            return Err(parser.expected("a path such as `name`, `payload.size` or `$ctx.vpid`"));
        }
        columns.push(parser.path()?);
        match parser.token.kind {
            TokenKind::Comma => parser.advance()?,
            TokenKind::End => return Ok(columns),
            _ => return Err(parser.expected("`,` or the end of the list")),
        }
    }
}

struct FilterParser<'a> {
    source: &'a str,
    lexer: Lexer<'a>,
    token: FilterToken,
    paths: Vec<Path>,
}

/// Text between operators: a whole condition, or something to compare.
enum ParsedItem {
    Test(Test, Span),
    Operand(Operand),
    Literal(Literal, Span),
}

enum Literal {
    Number(NumberLiteral),
    Bool(bool),
    /// The text between the quotes.
    Text(Span),
}

impl ParsedItem {
    fn span(&self) -> Span {
        match self {
            ParsedItem::Test(_, span) | ParsedItem::Literal(_, span) => *span,
            ParsedItem::Operand(operand) => operand.span,
        }
    }
}

impl<'a> FilterParser<'a> {
    fn new(source: &'a str) -> Result<Self> {
        let mut lexer = Lexer::new(source);
        let token = lexer.next_token()?;
        Ok(FilterParser { source, lexer, token, paths: Vec::new() })
    }

    fn any(&mut self, depth: usize) -> Result<ParsedItem> {
        self.list(depth, TokenKind::Or, "or", FilterParser::all, Test::Any)
    }

    fn all(&mut self, depth: usize) -> Result<ParsedItem> {
        self.list(depth, TokenKind::And, "and", FilterParser::negation, Test::All)
    }

    fn list(
        &mut self,
        depth: usize,
        symbol: TokenKind,
        word: &str,
        item: fn(&mut Self, usize) -> Result<ParsedItem>,
        join: fn(Vec<Test>) -> Test,
    ) -> Result<ParsedItem> {
        let first = item(self, depth)?;
        if !self.is_next(symbol, word) {
            return Ok(first);
        }
        let mut span = first.span();
        let mut tests = vec![self.test(first)?];
        while self.is_next(symbol, word) {
            self.advance()?;
            let next = item(self, depth)?;
            span = span.to(next.span());
            tests.push(self.test(next)?);
        }
        Ok(ParsedItem::Test(join(tests), span))
    }

    fn negation(&mut self, depth: usize) -> Result<ParsedItem> {
        let start = self.token.span;
        let mut count = 0;
        while self.is_next(TokenKind::Not, "not") {
            self.advance()?;
            count += 1;
        }
        let item = self.comparison(depth)?;
        if count == 0 {
            return Ok(item);
        }
        let span = start.to(item.span());
        let test = self.test(item)?;
        // Every condition is true or false, so two negations are none.
        Ok(ParsedItem::Test(if count % 2 == 1 { Test::Not(Box::new(test)) } else { test }, span))
    }

    fn comparison(&mut self, depth: usize) -> Result<ParsedItem> {
        let left = self.masked(depth)?;
        if self.is_word("in") {
            return self.membership(left, depth);
        }
        let TokenKind::Compare(op) = self.token.kind else { return Ok(left) };
        let place = self.token.span;
        self.advance()?;
        let right = self.masked(depth)?;
        let item = self.compare(left, op, right, place)?;
        if matches!(self.token.kind, TokenKind::Compare(_)) || self.is_word("in") {
            let error = self.token.span.malformed(self.source, "comparisons do not chain");
            return Err(error.with_help("write `a < b and b < c`"));
        }
        Ok(item)
    }

    /// `a in (1, 2)` is `a == 1 or a == 2`.
    fn membership(&mut self, left: ParsedItem, depth: usize) -> Result<ParsedItem> {
        let ParsedItem::Operand(operand) = left else {
            return Err(left.span().malformed(self.source, "expected a path before `in`"));
        };
        let place = self.token.span;
        self.advance()?;
        if self.token.kind != TokenKind::OpenParen {
            return Err(self.expected("`(` and a list of values"));
        }
        let mut tests = Vec::new();
        loop {
            self.advance()?;
            let value = self.masked(depth)?;
            let item = self.compare(ParsedItem::Operand(operand.clone()), Op::Equal, value, place)?;
            tests.push(self.test(item)?);
            match self.token.kind {
                TokenKind::Comma => {}
                TokenKind::CloseParen => break,
                _ => return Err(self.expected("`,` or `)`")),
            }
        }
        let span = operand.span.to(self.token.span);
        self.advance()?;
        Ok(ParsedItem::Test(Test::Any(tests), span))
    }

    /// Operands joined by `&`.
    fn masked(&mut self, depth: usize) -> Result<ParsedItem> {
        let first = self.primary(depth)?;
        if self.token.kind != TokenKind::Ampersand {
            return Ok(first);
        }
        let mut span = first.span();
        let mut parts = self.mask_parts(first)?;
        while self.token.kind == TokenKind::Ampersand {
            self.advance()?;
            let next = self.primary(depth)?;
            span = span.to(next.span());
            parts.append(&mut self.mask_parts(next)?);
        }
        if !parts.iter().any(|part| matches!(part, OperandPart::Path(_))) {
            return Err(span.malformed(self.source, "expected a path on one side of `&`"));
        }
        Ok(ParsedItem::Operand(Operand { parts, span }))
    }

    fn mask_parts(&self, item: ParsedItem) -> Result<Vec<OperandPart>> {
        match item {
            ParsedItem::Operand(operand) => Ok(operand.parts),
            ParsedItem::Literal(Literal::Number(number), _) if number.is_integer() => {
                Ok(vec![OperandPart::Number(number)])
            }
            item => {
                let error = item.span().malformed(self.source, "`&` masks integers; expected a path or an integer");
                Err(match item {
                    ParsedItem::Test(..) => error.with_help("`&&` or `and` joins conditions"),
                    _ => error,
                })
            }
        }
    }

    fn primary(&mut self, depth: usize) -> Result<ParsedItem> {
        let token = self.token;
        let text = token.span.text(self.source);
        let literal = match token.kind {
            TokenKind::OpenParen => {
                if depth == MAX_DEPTH {
                    let message = format!("more than {MAX_DEPTH} parentheses inside each other");
                    return Err(token.span.malformed(self.source, message));
                }
                self.advance()?;
                let inner = self.any(depth + 1)?;
                if self.token.kind != TokenKind::CloseParen {
                    return Err(self.expected("`)`").with_related("to close this `(`", token.span.place(self.source)));
                }
                let span = token.span.to(self.token.span);
                self.advance()?;
                return Ok(match inner {
                    ParsedItem::Test(test, _) => ParsedItem::Test(test, span),
                    ParsedItem::Operand(operand) => ParsedItem::Operand(Operand { span, ..operand }),
                    ParsedItem::Literal(literal, _) => ParsedItem::Literal(literal, span),
                });
            }
            TokenKind::Number => {
                let number = NumberLiteral::parse(text);
                Literal::Number(number.map_err(|message| token.span.malformed(self.source, message))?)
            }
            TokenKind::Text => Literal::Text(token.inner()),
            TokenKind::Word if matches!(text, "true" | "false") => Literal::Bool(text == "true"),
            TokenKind::Word | TokenKind::Quoted if !self.is_keyword() => {
                let path = self.path()?;
                let (span, index) = (path.span, self.index_of(path));
                return Ok(ParsedItem::Operand(Operand { parts: vec![OperandPart::Path(index)], span }));
            }
            _ => return Err(self.expected("a path or a value")),
        };
        self.advance()?;
        Ok(ParsedItem::Literal(literal, token.span))
    }

    fn path(&mut self) -> Result<Path> {
        let first = self.token;
        let word = first.inner().text(self.source);
        self.advance()?;
        let mut path = Path { head: PathHead::Bare, steps: Vec::new(), span: first.span };
        // Backquotes say that it is the name of a field.
        match PathHead::parse(word).filter(|_| first.kind != TokenKind::Quoted) {
            Some(PathHead::Context) if self.token.kind != TokenKind::Dot => {
                return Err(self.expected("`.` and a name after `$ctx`"));
            }
            Some(head) => path.head = head,
            None if word.starts_with('$') && first.kind != TokenKind::Quoted => {
                let error = first.span.malformed(self.source, format!("unknown word `{word}`"));
                return Err(error.with_help("`$ctx.NAME` looks in the contexts"));
            }
            None => path.steps.push(SyntaxStep { kind: StepKind::Member(word.into()), span: first.span }),
        }
        while let Some(step) = self.step()? {
            if !matches!(path.head, PathHead::Scope(_) | PathHead::Context | PathHead::Bare) {
                let error = step.span.malformed(self.source, format!("`{word}` has no members"));
                return Err(error.with_help(format!("a field of this name is `payload.{word}` or `$ctx.{word}`")));
            }
            path.span = path.span.to(step.span);
            path.steps.push(step);
        }
        Ok(path)
    }

    /// `.member` or `[index]`, when one follows.
    fn step(&mut self) -> Result<Option<SyntaxStep>> {
        let start = self.token.span;
        match self.token.kind {
            TokenKind::Dot => {
                self.advance()?;
                let token = self.token;
                let name = token.inner().text(self.source);
                if !matches!(token.kind, TokenKind::Word | TokenKind::Quoted) || name.starts_with('$') {
                    return Err(self.expected("the name of a member after `.`"));
                }
                self.advance()?;
                Ok(Some(SyntaxStep { kind: StepKind::Member(name.into()), span: token.span }))
            }
            TokenKind::OpenBracket => {
                self.advance()?;
                let token = self.token;
                let digits = token.span.text(self.source);
                let index = digits.parse().ok().filter(|_| token.kind == TokenKind::Number && !digits.starts_with('-'));
                let Some(index) = index else { return Err(self.expected("the index of an element, from 0")) };
                self.advance()?;
                if self.token.kind != TokenKind::CloseBracket {
                    return Err(self.expected("`]`"));
                }
                let span = start.to(self.token.span);
                self.advance()?;
                Ok(Some(SyntaxStep { kind: StepKind::Index(index), span }))
            }
            _ => Ok(None),
        }
    }

    fn index_of(&mut self, path: Path) -> usize {
        let known = self.paths.iter().position(|known| known.is_same(&path));
        known.unwrap_or_else(|| {
            self.paths.push(path);
            self.paths.len() - 1
        })
    }

    /// An item as a condition.
    fn test(&self, item: ParsedItem) -> Result<Test> {
        match item {
            ParsedItem::Test(test, _) => Ok(test),
            ParsedItem::Operand(operand) => Ok(Test::Truth(operand)),
            ParsedItem::Literal(Literal::Bool(value), _) => Ok(Test::Const(value)),
            ParsedItem::Literal(_, span) => {
                let error = span.malformed(self.source, "a value alone is not a condition");
                Err(error.with_help("compare it with a path: `payload.x == 1`, `name == \"sched_*\"`"))
            }
        }
    }

    fn compare(&mut self, left: ParsedItem, op: Op, right: ParsedItem, place: Span) -> Result<ParsedItem> {
        let span = left.span().to(right.span());
        let no_condition = |item: &ParsedItem| {
            let error = item.span().malformed(self.source, "expected a path or a value to compare, found a condition");
            Err(error.with_help("`and`, `or` and `not` join conditions; they have no value of their own"))
        };
        let (operand, op, right) = match (left, right) {
            (item @ ParsedItem::Test(..), _) | (_, item @ ParsedItem::Test(..)) => return no_condition(&item),
            (ParsedItem::Literal(..), ParsedItem::Literal(..)) => {
                return Err(span.malformed(self.source, "both sides are values; expected a path on one of them"));
            }
            (ParsedItem::Operand(left), right) => (left, op, right),
            (ParsedItem::Literal(literal, at), ParsedItem::Operand(right)) => {
                if op == Op::Match {
                    return Err(place.malformed(self.source, "the regular expression stands on the right of `=~`"));
                }
                (right, op.flipped(), ParsedItem::Literal(literal, at))
            }
        };
        let (left, right) = match right {
            ParsedItem::Operand(right) if op != Op::Match => (operand, Right::Operand(right)),
            ParsedItem::Literal(Literal::Text(text), at) => self.compare_text(operand, op, text, at)?,
            ParsedItem::Literal(Literal::Number(number), _) if op != Op::Match => (operand, Right::Number(number)),
            ParsedItem::Literal(Literal::Bool(value), _) if op.is_equality() => (operand, Right::Bool(value)),
            ParsedItem::Literal(Literal::Bool(_), at) => {
                return Err(at.malformed(self.source, "true and false can only be compared with `==` and `!=`"));
            }
            item => {
                let message = "expected a regular expression in quotes on the right of `=~`";
                return Err(item.span().malformed(self.source, message));
            }
        };
        Ok(ParsedItem::Test(Test::Compare(Box::new(Compare { left, op, right, span })), span))
    }

    /// A comparison with a string, whose meaning depends on the other side.
    fn compare_text(&mut self, mut left: Operand, op: Op, text: Span, at: Span) -> Result<(Operand, Right)> {
        let head = left.path().map(|path| self.paths[path].head);
        if head == Some(PathHead::Time) {
            if op == Op::Match {
                return Err(at.malformed(self.source, "`time` is not a string; compare it with `==`, `<` and so on"));
            }
            return Ok((left, Right::Time(Time::parse_in(self.source, text)?)));
        }
        if head == Some(PathHead::Stream) {
            let index = self.index_of(Path { head: PathHead::StreamName, steps: Vec::new(), span: left.span });
            left.parts = vec![OperandPart::Path(index)];
        }
        if op != Op::Match {
            return Ok((left, Right::Text(TextLiteral::parse(self.source, text)?)));
        }
        let regex = RegexBuilder::new(text.text(self.source)).size_limit(MAX_REGEX).build().map_err(|error| {
            let message = error.to_string();
            // The last line says what is wrong, the others draw a picture of the expression.
            let reason = message.lines().last().unwrap_or_default().trim_start_matches("error: ").to_string();
            let error = at.malformed(self.source, format!("bad regular expression: {reason}"));
            error.with_help("a plain text with `*` and `?` is compared with `==`")
        })?;
        Ok((left, Right::Regex(regex)))
    }

    fn advance(&mut self) -> Result<()> {
        self.token = self.lexer.next_token()?;
        Ok(())
    }

    fn is_next(&self, symbol: TokenKind, word: &str) -> bool {
        self.token.kind == symbol || self.is_word(word)
    }

    fn is_word(&self, word: &str) -> bool {
        self.token.kind == TokenKind::Word && self.token.span.text(self.source) == word
    }

    fn is_keyword(&self) -> bool {
        KEYWORDS.iter().any(|word| self.is_word(word))
    }

    fn expected(&self, what: &str) -> Error {
        let found = self.token.describe(self.source);
        let error = self.token.span.malformed(self.source, format!("expected {what}, found {found}"));
        let word = self.token.span.text(self.source);
        if self.is_keyword() {
            return error.with_help(format!("a field of this name stands in backquotes: `{word}`"));
        }
        let meant = KEYWORDS.into_iter().find(|key| key.eq_ignore_ascii_case(word)).or_else(|| nearest(word, KEYWORDS));
        match meant {
            Some(meant) if self.token.kind == TokenKind::Word => error.with_help(format!("did you mean `{meant}`?")),
            _ => error,
        }
    }
}
