//! Small help with words in messages.

use tracemill_codec::text;
use tracemill_model::error::Error;

/// Longest piece of the user's text that a message repeats, in characters.
const MAX_QUOTED: usize = 60;

/// Longest name for which a suggestion is sought: the distance takes time in the product of both lengths.
const MAX_COMPARED: usize = 80;

/// The user's text in backquotes, shortened and without control characters.
pub(super) fn quoted(text: &str) -> String {
    let mut shown: String =
        text.chars().take(MAX_QUOTED).map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect();
    if text.chars().nth(MAX_QUOTED).is_some() {
        shown.push_str("...");
    }
    format!("`{shown}`")
}

/// Names of a closed set, for "expected one of".
pub(super) fn listed(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

/// Adds the candidate that was probably meant, if there is one.
pub(super) fn suggest<'c>(error: Error, name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Error {
    if name.len() > MAX_COMPARED {
        return error;
    }
    text::suggest(error, name, candidates.into_iter().filter(|candidate| candidate.len() <= MAX_COMPARED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_is_short_and_printable() {
        assert_eq!(quoted("a\nb"), "`a\u{fffd}b`");
        assert_eq!(quoted(&"x".repeat(100)).len(), 65);
    }

    #[test]
    fn lists_read_as_english() {
        assert_eq!(listed(&["a"]), "`a`");
        assert_eq!(listed(&["a", "b", "c"]), "`a`, `b` or `c`");
    }

    #[test]
    fn suggestions_skip_monsters() {
        let long = "x".repeat(1_000_000);
        let error = suggest(Error::malformed("no"), &long, [long.as_str()]);
        assert_eq!(error.help(), None);
        let error = suggest(Error::malformed("no"), "strutcure", ["structure", long.as_str()]);
        assert_eq!(error.help(), Some("did you mean `structure`?"));
    }
}
