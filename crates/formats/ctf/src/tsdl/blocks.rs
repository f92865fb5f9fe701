//! Cuts a metadata text into its top-level declarations.
//!
//! The reference reader looks at the blocks in a fixed order, whatever their order in the text: `trace` for the byte
//! order, `env`, `clock`, types, `trace`, `stream`, `event`. Finding the blocks first lets the resolver parse and
//! forget one block at a time, so that a million event classes need no million syntax trees.

use tracemill_codec::text::Span;
use tracemill_model::error::Result;

use super::lexer::{Lexer, Token, TokenKind};
use crate::deep::MAX_LEVELS;

/// Deepest nesting of brackets in a metadata text: those of the deepest type, and some around it and in it.
pub(super) const MAX_NESTING: usize = MAX_LEVELS as usize + 10;

/// The spans of the top-level declarations, each from its first token to its `;`.
#[derive(Default, Debug)]
pub(super) struct Blocks {
    /// `trace { ... };`
    pub(super) traces: Vec<Span>,
    /// `env { ... };`
    pub(super) envs: Vec<Span>,
    /// `clock { ... };`
    pub(super) clocks: Vec<Span>,
    /// `stream { ... };`
    pub(super) streams: Vec<Span>,
    /// `event { ... };`
    pub(super) events: Vec<Span>,
    /// `callsite { ... };`
    pub(super) callsites: Vec<Span>,
    /// Type definitions.
    pub(super) types: Vec<Span>,
}

impl Blocks {
    /// Finds the declarations of a text and checks that its brackets match.
    pub(super) fn find(source: &str) -> Result<Blocks> {
        let mut blocks = Blocks::default();
        let mut lexer = Lexer::new(source, Span::new(0, source.len()));
        loop {
            let first = lexer.next()?;
            match first.kind {
                TokenKind::End => return Ok(blocks),
                // An empty declaration is harmless.
                TokenKind::Symbol(";") => continue,
                _ => {}
            }
            let second = lexer.clone().next()?;
            let span = skip_declaration(source, &mut lexer, first)?;
            blocks.list(first.span.text(source), second.kind).push(span);
        }
    }

    fn list(&mut self, first: &str, second: TokenKind) -> &mut Vec<Span> {
        let is_block = second == TokenKind::Symbol("{");
        match first {
            "trace" if is_block => &mut self.traces,
            "env" if is_block => &mut self.envs,
            "clock" if is_block => &mut self.clocks,
            "stream" if is_block => &mut self.streams,
            "event" if is_block => &mut self.events,
            "callsite" if is_block => &mut self.callsites,
            _ => &mut self.types,
        }
    }
}

/// Reads up to the `;` that ends the declaration which starts with `first`.
fn skip_declaration(source: &str, lexer: &mut Lexer<'_>, first: Token) -> Result<Span> {
    let mut open: Vec<(&str, Span)> = Vec::new();
    let mut token = first;
    loop {
        if let TokenKind::Symbol(symbol) = token.kind {
            match symbol {
                ";" if open.is_empty() => return Ok(first.span.to(token.span)),
                "{" | "[" | "(" => open.push((symbol, token.span)),
                "}" | "]" | ")" => close(source, &mut open, token)?,
                _ => {}
            }
        }
        if open.len() > MAX_NESTING {
            let message = format!("metadata nests more than {MAX_NESTING} levels of brackets");
            return Err(token.span.unsupported(source, message));
        }
        token = lexer.next()?;
        if token.kind == TokenKind::End {
            return Err(ends_early(source, &open, token.span));
        }
    }
}

fn close(source: &str, open: &mut Vec<(&str, Span)>, token: Token) -> Result<()> {
    let found = token.span.text(source);
    let Some((opener, opener_span)) = open.pop() else {
        return Err(token.span.malformed(source, format!("`{found}` closes nothing")));
    };
    let expected = match opener {
        "{" => "}",
        "[" => "]",
        _ => ")",
    };
    if found == expected {
        return Ok(());
    }
    Err(token
        .span
        .malformed(source, format!("expected `{expected}`, found `{found}`"))
        .with_related(format!("`{}` opened here", opener), opener_span.place(source)))
}

fn ends_early(source: &str, open: &[(&str, Span)], end: Span) -> tracemill_model::error::Error {
    match open.last() {
        Some((symbol, span)) => end
            .malformed(source, format!("metadata ends before the `{}` is closed", symbol))
            .with_related("opened here", span.place(source)),
        None => end.malformed(source, "metadata ends before the `;` of the last declaration"),
    }
    .with_help("the metadata may have been cut")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_sorted_by_kind() {
        let source = "typealias integer { size = 8; } := event; event { a = 1; };; trace { b := struct { x y; }; };";
        let blocks = Blocks::find(source).expect("well formed");
        assert_eq!((blocks.types.len(), blocks.events.len(), blocks.traces.len()), (1, 1, 1));
        assert_eq!(blocks.events[0].text(source), "event { a = 1; };");
    }

    #[test]
    fn unmatched_brackets_have_two_places() {
        let error = Blocks::find("trace {\n a = [1;\n};").expect_err("wrong");
        let text = error.to_string();
        assert!(text.starts_with("line 3, column 1: expected `]`, found `}`"), "{text}");
        assert!(text.contains("line 2, column 6: `[` opened here"), "{text}");
        assert!(Blocks::find("};").expect_err("wrong").to_string().contains("`}` closes nothing"));
        assert!(Blocks::find("trace {").expect_err("cut").to_string().contains("ends before the `{` is closed"));
        assert!(Blocks::find("trace {}").expect_err("cut").to_string().contains("before the `;`"));
    }

    #[test]
    fn deep_nesting_is_refused_with_its_place() {
        let source = "struct {\n".repeat(10_000);
        let error = Blocks::find(&source).expect_err("too deep");
        assert_eq!(error.place().text.as_ref().map(|place| place.line), Some(1011));
    }
}
