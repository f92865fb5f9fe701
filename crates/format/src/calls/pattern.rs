//! Patterns of the names of functions, as uftrace takes them.

use regex::Regex;

/// How names are matched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PatternKind {
    /// Whole names.
    Simple,
    /// Extended regular expressions that may match anywhere in a name.
    #[default]
    Regex,
    /// `*`, `?` and `[...]`, for whole names.
    Glob,
}

/// Letters that make a name a pattern.
const PATTERN_LETTERS: &str = ".?*+-^$|()[]{}";

impl PatternKind {
    /// Does a text have letters that make it a pattern?
    pub fn has_pattern(text: &str) -> bool {
        text.contains(|letter| PATTERN_LETTERS.contains(letter))
    }

    /// A pattern as an expression; `None` when the text is a name as it stands.
    pub fn expression(self, text: &str) -> Option<Regex> {
        if !Self::has_pattern(text) {
            return None;
        }
        match self {
            PatternKind::Simple => None,
            PatternKind::Regex if text.starts_with("operator ") => None,
            PatternKind::Regex => Regex::new(text).ok(),
            PatternKind::Glob => Regex::new(&glob(text)).ok(),
        }
    }
}

/// A glob as a regular expression for whole names.
fn glob(text: &str) -> String {
    let mut out = String::from("^(?s:");
    let mut rest = text.chars();
    while let Some(letter) = rest.next() {
        match letter {
            '*' => out += ".*",
            '?' => out.push('.'),
            '[' => {
                // Without its end it is a letter as others.
                let Some((set, behind)) = rest.as_str().split_once(']').filter(|(set, _)| !set.is_empty()) else {
                    out += "\\[";
                    continue;
                };
                rest = behind.chars();
                let (negation, set) = match set.strip_prefix(['!', '^']) {
                    Some(set) => ("^", set),
                    None => ("", set),
                };
                let escaped = set.replace('\\', "\\\\").replace('[', "\\[").replace('&', "\\&").replace('~', "\\~");
                out += &format!("[{negation}{escaped}]");
            }
            '\\' => out += &regex::escape(rest.next().unwrap_or('\\').encode_utf8(&mut [0; 4])),
            letter => out += &regex::escape(letter.encode_utf8(&mut [0; 4])),
        }
    }
    out + ")$"
}
