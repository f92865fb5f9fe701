//! Lines of trees: what graphs of calls and of tasks print before names.

use crate::text::put_blanks;

/// The levels of a tree at which a line goes down to a later sibling.
#[derive(Debug, Default)]
pub(crate) struct Branches(Vec<bool>);

impl Branches {
    /// Begins or ends the line of a level.
    pub(crate) fn set(&mut self, level: usize, is_there: bool) {
        if self.0.len() <= level {
            self.0.resize(level + 1, false);
        }
        self.0[level] = is_there;
    }

    /// Appends what stands before a name: lines that go down, and one to the name.
    pub(crate) fn write_prefix(&self, text: &mut Vec<u8>, level: usize, has_line: bool) {
        let is_line = |at: usize| self.0.get(at).copied().unwrap_or(false);
        let last = if has_line { (0..level).rev().find(|&at| is_line(at)) } else { None };
        for at in 0..level {
            let piece = match last {
                Some(last) if at == last => b" +-",
                Some(last) if at > last => b"---",
                None if has_line => b"---",
                _ => [b"   ", b" | "][usize::from(is_line(at))],
            };
            text.extend_from_slice(piece);
        }
    }
}

/// Appends the headers of columns, and the title of names; false when there are no columns, and no line.
pub(crate) fn put_headers(text: &mut Vec<u8>, headers: &[&str], title: &str) -> bool {
    for (at, header) in headers.iter().enumerate() {
        text.extend_from_slice(if at == 0 { b"# " } else { b"  " });
        text.extend_from_slice(header.as_bytes());
    }
    if !headers.is_empty() {
        text.extend_from_slice(title.as_bytes());
    }
    !headers.is_empty()
}

/// Appends columns without values, as wide as their headers.
pub(crate) fn put_empty_columns(text: &mut Vec<u8>, headers: &[&str]) {
    for header in headers {
        put_blanks(text, header.len() + 2);
    }
    if !headers.is_empty() {
        text.extend_from_slice(b" : ");
    }
}
