//! Metadata that ends inside a declaration: it may have been read while it was written (`SPEC.md`, D37).

use tracemill_codec::text::Span;
use tracemill_model::error::Error;

use crate::tsdl::{Token, TokenKind, draft_tokens};

/// A declaration at the end that is not complete.
pub(super) struct Tail {
    /// Its first byte.
    pub(super) start: usize,
    word: Span,
}

impl Tail {
    /// The error about it; `error` is that of the parser.
    pub(super) fn fault(&self, text: &str, error: &Error) -> Error {
        let message = format!("the metadata ends inside a declaration: {}", error.message());
        let error = Error::truncated(message).at_text(self.word.place(text));
        error.with_help("what stands before it is used; when the trace is still written, read it again later")
    }
}

/// Words that begin a declaration.
const WORDS: [&str; 9] = ["trace", "section", "stream", "event", "abstract_type", "type", "typedef", "struct", "enum"];

/// White space of these languages.
const BLANK: [char; 7] = [' ', '\t', '\r', '\n', '\x0B', '\x0C', '\0'];

/// The unfinished declaration at the end of a text, when it can be what `error` is about. A brace that is missing
/// further up makes an unfinished end too: then other declarations stand in it, and the error is the user's to mend.
pub(super) fn find(text: &str, error: &Error) -> Option<Tail> {
    let (tokens, end) = draft_tokens(text);
    let is_whole = match end {
        Ok(_) => true,
        Err(error) if is_cut_off(text, &error) => false,
        Err(_) => return None,
    };
    let first = first_open(text, &tokens, is_whole)?;
    let word = match tokens.get(first) {
        Some(token) => token.span,
        // A comment or a string without end, and nothing before it.
        None => {
            let end = tokens.last().map_or(0, |token| token.span.end);
            let blank = text.get(end..).map_or(0, |rest| rest.len() - rest.trim_start_matches(BLANK).len());
            Span::new(end + blank, text.len())
        }
    };
    let start = word.start;
    let error_at = error.place().text.as_ref()?.offset;
    let tail = tokens.get(first..).unwrap_or(&[]);
    (error_at >= start && is_beginning(text, tail) && !holds_others(text, tail)).then_some(Tail { start, word })
}

/// Can a token that cannot be read be the beginning of one?
fn is_cut_off(text: &str, error: &Error) -> bool {
    let Some(place) = error.place().text.as_ref() else { return false };
    let rest = text.get(place.offset..).unwrap_or("");
    let is_last = place.offset + place.len >= text.trim_end_matches(['\0', '\n']).len();
    rest.starts_with("/*") || is_last || rest.starts_with('"') && !rest.contains('\n')
}

/// Index of the first token that belongs to no complete declaration.
fn first_open(text: &str, tokens: &[Token], is_whole: bool) -> Option<usize> {
    let (mut depth, mut first) = (0u32, 0);
    for (at, token) in tokens.iter().enumerate() {
        match token.kind {
            TokenKind::Symbol("{") => depth += 1,
            TokenKind::Symbol("}") => {
                depth = depth.saturating_sub(1);
                let word = tokens.get(first).map_or("", |token| token.span.text(text));
                if depth == 0 && !matches!(word, "typedef" | "struct" | "enum") {
                    first = at + 1;
                }
            }
            TokenKind::Symbol(";") if depth == 0 => first = at + 1,
            _ => {}
        }
    }
    (first < tokens.len() || !is_whole).then_some(first)
}

/// Does it begin as a declaration does, or with the beginning of such a word?
fn is_beginning(text: &str, tail: &[Token]) -> bool {
    match tail {
        [] => true,
        [only] => WORDS.iter().any(|word| word.starts_with(only.span.text(text))),
        [first, ..] => WORDS.contains(&first.span.text(text)),
    }
}

/// Does another declaration begin inside?
fn holds_others(text: &str, tail: &[Token]) -> bool {
    let word = |at: usize| tail.get(at).filter(|token| token.kind == TokenKind::Word).map_or("", |t| t.span.text(text));
    let is_open = |at: usize| tail.get(at).is_some_and(|token| token.kind == TokenKind::Symbol("{"));
    let has_events = matches!(word(0), "section" | "stream");
    (1..tail.len()).any(|at| match word(at) {
        "trace" | "section" | "stream" => is_open(at + 1),
        "event" => is_open(at + 1) && !has_events,
        "type" | "abstract_type" => !word(at + 1).is_empty() && is_open(at + 2),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(text: &str, error_at: usize) -> Option<usize> {
        let error = Span::new(error_at, error_at).malformed(text, "test");
        find(text, &error).map(|tail| tail.start)
    }

    #[test]
    fn the_last_declaration_is_the_tail_when_it_is_open() {
        for tail in ["t", "type", "type a", "type a {", "type a { parent", "event { name = \"x", "event { /* ", "/* x"]
        {
            let text = format!("trace {{ major = 1; }}; type b {{ }} {tail}");
            assert_eq!(start(&text, text.len()), Some(text.len() - tail.len()), "{tail}");
            assert_eq!(start(&text, 0), None, "{tail}: the error stands elsewhere");
        }
        let text = "typedef integer { size = 8; } a; typedef integer { size = 8; } b";
        assert_eq!(start(text, text.len()), Some(33));
    }

    #[test]
    fn a_missing_brace_is_no_tail() {
        let text = "trace { major = 1; } type a { parent = b; type c { } event { }";
        assert_eq!(start(text, text.len()), None);
        assert_eq!(start("trace { major = 1; } hello { ", 29), None);
        assert_eq!(start("trace { major = 1; }", 20), None);
    }
}
