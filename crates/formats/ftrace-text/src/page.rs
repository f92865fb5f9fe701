//! Pages of systrace: HTML with texts in `<script class="trace-data" type="application/text">`, one of each source.

use std::ops::Range;

use memchr::memmem;

/// Does a file begin as a page?
pub(super) fn is_page(start: &[u8]) -> bool {
    let begin: Vec<u8> = start.trim_ascii_start().iter().take(15).map(u8::to_ascii_lowercase).collect();
    begin.starts_with(b"<!doctype html") || begin.starts_with(b"<html")
}

/// The texts in a page for which `is_wanted` is true.
pub(super) fn texts(page: &[u8], is_wanted: impl Fn(&[u8]) -> bool) -> Vec<Range<usize>> {
    let (class, end) = (memmem::Finder::new(b"class=\"trace-data\""), memmem::Finder::new(b"</script>"));
    let (mut texts, mut at) = (Vec::new(), 0);
    while let Some(step) = class.find(&page[at..]) {
        at += step;
        let Some(close) = memchr::memchr(b'>', &page[at..]) else { break };
        let begin = at + close + 1;
        let begin = begin + page[begin..].iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let len = end.find(&page[begin..]).unwrap_or(page.len() - begin);
        // The last line holds the blanks before the end.
        let len = page[begin..begin + len].trim_ascii_end().len();
        if is_wanted(&page[begin..begin + len]) {
            texts.push(begin..begin + len);
        }
        at = begin + len;
    }
    texts
}
