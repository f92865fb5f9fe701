//! The outer form of a file: where its events are. `[ event, .. ]`, or `{ .., "traceEvents": [ event, .. ], .. }`; either may
//! end anywhere.

use std::ops::Range;

use memchr::memmem;
use tracemill_format::json::{Fault, LineParser, TapeToken, TokenKind, end_of_string, end_of_value};

/// Bytes of an event at most.
pub(super) const MAX_EVENT_BYTES: usize = 64 << 20;
/// Bytes of another member of the document whose values are kept.
const MAX_MEMBER_BYTES: usize = 1 << 16;

/// The member with the stacks of samples.
const STACK_FRAMES: &str = "\"stackFrames\"";

/// The first `{` or `[` of a file, after a byte order mark and blanks.
fn begin(file: &[u8]) -> usize {
    let mark = if file.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    mark + file[mark..].iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// Does a file begin as a trace? Its first bytes decide.
pub(super) fn is_document(start: &[u8]) -> bool {
    let content = &start[begin(start)..];
    let has = |text: &[u8]| memmem::find(content, text).is_some();
    match content.first() {
        Some(b'{') => has(b"\"traceEvents\""),
        Some(b'[') => {
            let first = content[1..].trim_ascii_start();
            first.starts_with(b"{") && has(b"\"ph\"")
        }
        _ => false,
    }
}

/// Where the list of events is, and the other members of the document.
#[derive(Debug, Default)]
pub(super) struct Document {
    /// The byte after the `[` of the events.
    pub(super) events: usize,
    /// Is there an object around the list?
    pub(super) is_object: bool,
    /// Members before the events: names and values that are texts or numbers, also those inside of an object.
    pub(super) members: Vec<(String, String)>,
    /// Names of members with lists, texts or objects of their own that are not kept.
    pub(super) unread: Vec<String>,
    /// The bytes of the dictionary of stacks.
    pub(super) stack_frames: Option<Range<usize>>,
    /// The byte after the `[` of the list of samples.
    pub(super) samples: Option<usize>,
    /// Were the members after the events read?
    is_complete: bool,
}

impl Document {
    /// Reads a file up to its events.
    ///
    /// # Errors
    /// There are no events.
    pub(super) fn read(file: &[u8]) -> Result<Document, Fault> {
        let mut document = Document::default();
        let mut at = begin(file);
        if file.get(at) == Some(&b'[') {
            document.events = at + 1;
            return Ok(document);
        }
        document.is_object = true;
        let fault = |at, reason| Fault { at, reason };
        if file.get(at) != Some(&b'{') {
            return Err(fault(at, "a trace begins with `{` or `[`"));
        }
        at += 1;
        loop {
            at += file[at..].iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == b',').count();
            if matches!(file.get(at), None | Some(b'}')) {
                return Err(fault(at, "the object has no list `traceEvents`"));
            }
            let (from, to) = (at + 1, end_of_string(file, at).ok_or(fault(at, "a key is expected"))?);
            at = to;
            at += file[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            if file.get(at) != Some(&b':') {
                return Err(fault(at, "`:` is expected after a key"));
            }
            at += 1;
            at += file[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            let key = &file[from..to - 1];
            if key == b"traceEvents" && file.get(at) == Some(&b'[') {
                document.events = at + 1;
                return Ok(document);
            }
            let end = end_of_value(file, at).ok_or(fault(at, "the file ends before its events"))?;
            document.keep(key, file, at..end);
            at = end;
        }
    }

    /// Reads the members after the events where the dictionary of stacks may be one: events refer to it.
    pub(super) fn read_stacks(&mut self, file: &[u8]) {
        if self.is_object
            && self.stack_frames.is_none()
            && memmem::rfind(&file[self.events..], STACK_FRAMES.as_bytes()).is_some()
            && let Some(end) = end_of_value(file, self.events - 1)
        {
            self.read_rest(file, end);
        }
    }

    /// Reads the members that come after the events, as far as they can be read, once.
    pub(super) fn read_rest(&mut self, file: &[u8], mut at: usize) {
        let is_read = std::mem::replace(&mut self.is_complete, true);
        while self.is_object && !is_read {
            at += file[at..].iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == b',').count();
            let (from, Some(to)) = (at + 1, end_of_string(file, at)) else { return };
            at = to;
            at += file[at..].iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == b':').count();
            let Some(end) = end_of_value(file, at) else { return };
            self.keep(&file[from..to - 1], file, at..end);
            at = end;
        }
    }

    fn keep(&mut self, key: &[u8], file: &[u8], place: Range<usize>) {
        let value = &file[place.clone()];
        match (key, value.first()) {
            (b"stackFrames", Some(b'{')) => return self.stack_frames = Some(place),
            (b"samples", Some(b'[')) => return self.samples = Some(place.start + 1),
            _ => {}
        }
        let key = String::from_utf8_lossy(key).into_owned();
        let mut tokens = Vec::new();
        let is_kept = value.len() <= MAX_MEMBER_BYTES && LineParser::new(value, &mut tokens).value(0).is_ok();
        // Text of ftrace next to the events is a trace of its own.
        if !is_kept
            || key == "systemTraceEvents"
            || matches!(tokens.first(), Some(TapeToken { kind: TokenKind::Array | TokenKind::Tuple, to: 1.., .. }))
        {
            self.unread.push(key);
            return;
        }
        let text = |token: &TapeToken| match token.kind {
            TokenKind::Null | TokenKind::Array | TokenKind::Tuple | TokenKind::Object | TokenKind::Key => None,
            TokenKind::Bool => Some((token.to == 1).to_string()),
            _ => Some(String::from_utf8_lossy(&token.text(value)).into_owned()),
        };
        let Some(first) = tokens.first() else { return };
        if let Some(text) = text(first) {
            self.members.push((key, text));
        } else if first.kind == TokenKind::Object {
            for pair in tokens.windows(2).filter(|pair| pair[0].kind == TokenKind::Key) {
                let name = String::from_utf8_lossy(pair[0].bytes(value)).into_owned();
                self.members.extend(text(&pair[1]).map(|text| (name, text)));
            }
        }
    }

    /// A member by its name.
    pub(super) fn member(&self, name: &str) -> Option<&str> {
        self.members.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

/// The next event of a list.
pub(super) enum NextEvent {
    /// It begins here.
    At(usize),
    /// The list ends before this byte.
    End(usize),
    /// The file ends in the list.
    Cut,
    /// Something else stands here.
    Wrong(usize),
}

/// The event of the list at or after a byte.
pub(super) fn next_event(file: &[u8], mut at: usize) -> NextEvent {
    loop {
        match file.get(at) {
            None => return NextEvent::Cut,
            Some(b'{') => return NextEvent::At(at),
            Some(b']') => return NextEvent::End(at + 1),
            Some(b',') => at += 1,
            Some(byte) if byte.is_ascii_whitespace() => at += 1,
            // A file may end with a zero that its writer put there.
            Some(0) if file[at..].iter().all(|byte| *byte == 0) => return NextEvent::Cut,
            Some(_) => return NextEvent::Wrong(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_found_in_any_document() {
        let cases = [
            ("[{\"ph\":1}", Some(1)),
            (" [ {\"ph\":1}", Some(2)),
            ("{\"a\": {\"b\": [\"]}\\\"\"]}, \"n\" : 1.5, \"traceEvents\" :[", Some(50)),
            ("{\"traceEvents\":{}}", None),
            ("{\"a\":[", None),
            ("", None),
        ];
        for (text, want) in cases {
            assert_eq!(Document::read(text.as_bytes()).ok().map(|of| of.events), want, "{text}");
        }
        let mut document = Document::read(b"{\"otherData\":{\"a\":\"b\",\"c\":1},\"traceEvents\":[]").expect("a trace");
        document.read_rest(b",\"displayTimeUnit\":\"ns\"}", 0);
        assert_eq!(
            (document.member("a"), document.member("c"), document.member("displayTimeUnit")),
            (Some("b"), Some("1"), Some("ns"))
        );
    }
}
