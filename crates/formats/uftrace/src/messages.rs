//! `extern.dat`: lines of text with a time that other programs left (`SPEC.md`, section 9).

use tracemill_codec::text::seconds;
use tracemill_ftrace::classes::push_locator;
use tracemill_model::error::Error;

use super::classes::{Classes, EXTERNAL};
use super::layout::SliceEvents;
use super::lines::line_place;

/// A message: its time and where its text stands.
pub(super) struct Message {
    pub time: u64,
    pub from: usize,
    pub to: usize,
}

/// All messages.
pub(super) fn places(bytes: &[u8]) -> Vec<Message> {
    messages(bytes, |_| {})
}

/// All messages; lines that are none are reported.
fn messages(bytes: &[u8], mut odd: impl FnMut(Error)) -> Vec<Message> {
    let mut found = Vec::new();
    let mut offset = 0;
    for (at, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let start = offset;
        offset += line.len();
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let blanks = |bytes: &[u8]| bytes.iter().take_while(|&&byte| byte == b' ' || byte == b'\t').count();
        let lead = blanks(line);
        let text = &line[lead..];
        if text.is_empty() || text[0] == b'#' {
            continue;
        }
        let digits = text.iter().take_while(|&&byte| byte != b' ' && byte != b'\t').count();
        let gap = blanks(&text[digits..]);
        let time = std::str::from_utf8(&text[..digits]).ok().and_then(seconds);
        match time {
            Some(_) if digits + gap == text.len() => {}
            Some(time) if gap > 0 => {
                found.push(Message { time, from: start + lead + digits + gap, to: start + line.len() });
            }
            _ => {
                let error = Error::malformed("a line that is not a time with a message");
                let place = line_place(at + 1, start, &String::from_utf8_lossy(line));
                odd(error.at_text(place).with_help("the line is skipped"));
            }
        }
    }
    found
}

/// The times of the first and the last message, as they stand in the file, when there is one.
pub(super) fn times(bytes: &[u8]) -> Option<(u64, u64)> {
    let found = messages(bytes, |_| {});
    let times = found.iter().map(|message| message.time);
    Some((times.clone().min()?, times.max()?))
}

/// Reads all messages.
pub(super) fn read(bytes: &[u8], classes: &Classes) -> SliceEvents {
    let mut events = SliceEvents::default();
    let mut odd = Vec::new();
    for message in messages(bytes, |error| odd.push(error)) {
        let start = events.bytes.len();
        let text = &bytes[message.from..message.to];
        events.bytes.extend_from_slice(&EXTERNAL.to_le_bytes());
        push_locator(&mut events.bytes, 12, text.len());
        events.bytes.extend_from_slice(text);
        events.push(classes.message, message.time, start);
    }
    events.warnings = odd;
    events
}
