//! Lines of text files, and what is said of those that cannot be read.

use tracemill_model::error::{Error, TextPlace};

/// Calls `read` for each line, without its end. Those that it does not understand are warnings: each is `expected` to be
/// something that it is not.
pub(super) fn read_lines(bytes: &[u8], expected: &str, mut read: impl FnMut(&str) -> Option<()>) -> Vec<Error> {
    let mut warnings = Vec::new();
    let mut offset = 0;
    for (at, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end_matches(['\n', '\r']);
        if read(text).is_none() {
            let error = Error::malformed(expected).at_text(line_place(at + 1, offset, text.trim_end()));
            warnings.push(error.with_help("the line is skipped"));
        }
        offset += line.len();
    }
    warnings
}

/// A text as it can stand in a message.
pub(super) fn shorten(text: &str) -> String {
    let short: String = text.chars().map(|letter| if letter.is_control() { '.' } else { letter }).take(60).collect();
    if text.chars().count() > 60 { short + "..." } else { short }
}

/// The place of a whole line in a text file.
pub(super) fn line_place(line: usize, offset: usize, text: &str) -> TextPlace {
    let excerpt = shorten(text);
    TextPlace { line: line as u32, column: 1, offset, len: excerpt.chars().count(), excerpt, caret: 0 }
}
