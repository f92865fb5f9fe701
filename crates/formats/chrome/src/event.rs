//! An event of the list: its members, and how times and ids are read.

use tracemill_codec::text::marks::{mix, mix_bytes};
use tracemill_format::json::{Fault, LineParser, TapeToken, TokenKind, scaled};
use tracemill_format::slices::SliceMembers;

/// Ids that are texts get numbers from here on: no system gives them to processes and threads.
const FIRST_TEXT_ID: i64 = 1 << 40;

/// An event of the list.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EventObject {
    pub(super) members: SliceMembers,
    /// In ns.
    pub(super) ts: Option<i64>,
    /// In ns.
    pub(super) dur: Option<i64>,
}

impl EventObject {
    /// Reads the event at the beginning of some bytes; `phase` is that of one that does not say it.
    ///
    /// `rest` are the tokens of key and value of the members that are not among its own.
    pub(super) fn read(
        bytes: &[u8],
        phase: Option<u8>,
        tokens: &mut Vec<TapeToken>,
        rest: &mut Vec<(usize, usize)>,
    ) -> Result<EventObject, Fault> {
        tokens.clear();
        rest.clear();
        let (mut object, mut own) = (EventObject::default(), SliceMembers { rest_mark: 1, ..SliceMembers::default() });
        let mut parser = LineParser::new(bytes, tokens);
        parser.expect(b'{', "an event is an object")?;
        let (mut is_behind_one, mut has_phase) = (false, false);
        while parser.next_item(is_behind_one, b'}')? {
            is_behind_one = true;
            parser.skip_blanks();
            let key = parser.string()?;
            if let Some(token) = parser.tokens.last_mut() {
                token.kind = TokenKind::Key;
            }
            parser.expect(b':', "`:` is expected after a key")?;
            let (at, begin) = (parser.tokens.len(), parser.at);
            let mark = parser.value(0)?;
            let Some(&value) = parser.tokens.get(at) else { continue };
            let fault = |reason| Fault { at: begin, reason };
            let is_text = matches!(value.kind, TokenKind::Text | TokenKind::Escaped | TokenKind::Special);
            let key = key.bytes(bytes);
            match key {
                b"ph" if is_text && value.bytes(bytes).len() == 1 => {
                    own.phase = value.bytes(bytes)[0];
                    has_phase = true;
                }
                b"ph" => return Err(fault("`ph` is not one letter")),
                b"name" if is_text => own.name = Some(value),
                b"ts" => object.ts = time_of(&value, bytes).ok_or(fault("`ts` is not a time in µs"))?,
                b"dur" => object.dur = time_of(&value, bytes).ok_or(fault("`dur` is not a time in µs"))?,
                b"pid" => own.pid = id_of(&value, bytes),
                b"tid" => own.tid = id_of(&value, bytes),
                b"args" => (own.args, own.args_mark) = (Some(at), mark),
                _ => {
                    own.rest_mark = mix(mix_bytes(own.rest_mark, key), mark);
                    if matches!(key, b"id" | b"id2" | b"scope" | b"cat") {
                        own.has_id |= key.starts_with(b"id");
                        let is_local =
                            |token: &TapeToken| token.kind == TokenKind::Key && token.bytes(bytes) == b"local";
                        own.is_local |= key == b"id2" && parser.tokens[at..].iter().any(is_local);
                        // In any order of the members.
                        let mark = parser.tokens[at..]
                            .iter()
                            .fold(mix_bytes(1, key), |mark, token| mix_bytes(mark, token.bytes(bytes)));
                        own.id_mark = own.id_mark.wrapping_add(mark);
                    }
                    own.bind_mark = if key == b"bind_id" { mix_bytes(2, value.bytes(bytes)) } else { own.bind_mark };
                    rest.push((at - 1, at));
                }
            }
        }
        own.len = parser.at;
        if !has_phase {
            own.phase = phase.ok_or(Fault { at: 0, reason: "the event has no `ph`" })?;
        }
        Ok(EventObject { members: own, ..object })
    }
}

/// A time in µs as ns: a number, or a text that is one. `null` is no time; the outer `None` is something else.
fn time_of(value: &TapeToken, bytes: &[u8]) -> Option<Option<i64>> {
    match value.kind {
        TokenKind::Null => Some(None),
        TokenKind::Int | TokenKind::Float | TokenKind::Text => ns_of(value.bytes(bytes)).map(Some),
        _ => None,
    }
}

/// The ns of a decimal number of µs, rounded to the nearest where it has more than three decimals.
pub(super) fn ns_of(text: &[u8]) -> Option<i64> {
    scaled(text, 3)
}

/// The number of a process or thread. A text that is no number gets one that is made of it.
fn id_of(value: &TapeToken, bytes: &[u8]) -> i64 {
    let text = value.bytes(bytes);
    let number = || std::str::from_utf8(text).ok()?.parse::<i64>().ok();
    match value.kind {
        TokenKind::Int => number().unwrap_or_else(|| made_id(text)),
        // Some writers have `1.0`.
        TokenKind::Float => ns_of(text).filter(|ns| ns % 1000 == 0).map_or_else(|| made_id(text), |ns| ns / 1000),
        TokenKind::Text | TokenKind::Escaped => number().unwrap_or_else(|| made_id(text)),
        _ => 0,
    }
}

fn made_id(text: &[u8]) -> i64 {
    FIRST_TEXT_ID + (mix_bytes(0, text) >> 25) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_to_the_ns() {
        let cases = [
            ("0", Some(0)),
            ("12", Some(12_000)),
            ("12.5", Some(12_500)),
            ("-1.001", Some(-1001)),
            ("1700000000000000.123", Some(1_700_000_000_000_000_123)),
            ("1234.5669999999999", Some(1_234_567)),
            ("1234.5670000000001", Some(1_234_567)),
            ("1.5e3", Some(1_500_000)),
            ("15E-1", Some(1500)),
            ("1e-9", Some(0)),
            ("1e99", None),
            ("99999999999999999999", None),
            ("", None),
            ("x", None),
            ("1.2.3", None),
        ];
        for (text, want) in cases {
            assert_eq!(ns_of(text.as_bytes()), want, "{text}");
        }
    }

    #[test]
    fn members_in_any_order_are_read() {
        let text = br#"{"args":{"a":1},"ph":"X","cat":"c","tid":"7","pid":"render","dur":"2.5","ts":1,"name":"f"} , x"#;
        let mut tokens = Vec::new();
        let event = EventObject::read(text, None, &mut tokens, &mut Vec::new()).expect("an event");
        let members = &event.members;
        assert_eq!(
            (members.phase, event.ts, event.dur, members.tid, members.len),
            (b'X', Some(1000), Some(2500), 7, 90)
        );
        assert!((FIRST_TEXT_ID..2 * FIRST_TEXT_ID).contains(&members.pid));
        assert_eq!(&*members.name(text), b"f");
        for (text, reason) in [
            ("{\"name\":\"f\"}", "the event has no `ph`"),
            ("{\"ph\":\"XY\"}", "`ph` is not one letter"),
            ("{\"ph\":\"X\",\"ts\":{}}", "`ts` is not a time in µs"),
            ("{\"ph\":\"X\"", "the line ends in the middle of its object"),
        ] {
            assert_eq!(
                EventObject::read(text.as_bytes(), None, &mut tokens, &mut Vec::new())
                    .map(|_| ())
                    .map_err(|fault| fault.reason),
                Err(reason)
            );
        }
    }
}
