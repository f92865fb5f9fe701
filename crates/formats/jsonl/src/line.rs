//! One line: an event as `print --format jsonl` writes it.

use super::shape::i128_of;
use super::tape::{Fault, Kind, Parser, Token, mix, mix_bytes};

/// Keys of the objects of a line, in the order of the model's scopes; the packet context is the second.
pub(super) const SCOPES: [&[u8]; 5] = [b"header", b"packet_context", b"stream_context", b"event_context", b"payload"];
/// Of these, the ones that belong to the stream; the others belong to the event.
pub(super) const STREAM_SCOPES: usize = 3;
/// The packet context.
pub(super) const PACKET_CONTEXT: usize = 1;
/// Longer lines are not read.
pub(super) const MAX_LINE_BYTES: usize = 64 << 20;
/// Keys that other lines of the format have, and that say nothing of their own.
const SILENT: [&[u8]; 3] = [b"channel", b"facility_id", b"event_id"];

/// How the events of a stream say their time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) enum TimeKind {
    /// By clock values and ns.
    Both,
    /// By ns only.
    Ns,
    /// By clock values that nobody can turn into ns.
    Cycles,
    /// Not at all.
    None,
}

/// An event, not looked into.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    pub(super) trace: Option<Token>,
    pub(super) ns: Option<i128>,
    pub(super) cycles: Option<u64>,
    pub(super) name: Option<Token>,
    pub(super) id: Option<u64>,
    pub(super) stream: Option<u64>,
    pub(super) cpu: Option<u32>,
    /// For each scope the number of the token where it begins.
    pub(super) scopes: [Option<usize>; 5],
    /// Of everything that its stream class has.
    pub(super) stream_mark: u64,
    /// Of everything that its class has, and of its stream class.
    pub(super) event_mark: u64,
    /// Of the text of its packet context and its CPU.
    pub(super) context_mark: u64,
    /// The same, whether it has a time or not.
    pub(super) any_time_mark: u64,
    /// The first key that the format does not know.
    pub(super) unknown: Option<Token>,
}

impl Line {
    /// Reads a line; the tokens of its scopes are left in `tokens`.
    pub(super) fn read(line: &[u8], tokens: &mut Vec<Token>) -> Result<Line, Fault> {
        if let Err(error) = std::str::from_utf8(line) {
            return Err(Fault { at: error.valid_up_to(), reason: "this is no UTF-8" });
        }
        tokens.clear();
        let mut parser = Parser::new(line, tokens);
        let (mut own, mut has_ns, mut count) = (Line::default(), false, 0);
        let mut marks = [0u64; 5];
        let (mut context, mut trace_mark, mut name_mark) = (0, 0, 0);
        parser.expect(b'{', "a line is an object and begins with `{`")?;
        while parser.next_item(count > 0, b'}')? {
            count += 1;
            parser.skip_blanks();
            let key = parser.string()?;
            parser.tokens.pop();
            parser.expect(b':', "`:` is expected behind a key")?;
            parser.skip_blanks();
            let (from, first) = (parser.at, parser.tokens.len());
            let mark = parser.value(0)?;
            let bad = |reason| Err(Fault { at: from, reason });
            let Some(&token) = parser.tokens.get(first) else { return bad("a value is expected") };
            let key = key.bytes(line);
            if let Some(scope) = SCOPES.iter().position(|&scope| scope == key) {
                if token.kind != Kind::Object {
                    return bad("the fields of an event are an object");
                }
                own.scopes[scope] = Some(first);
                marks[scope] = mix(mark, 1);
                if scope == PACKET_CONTEXT {
                    context = mix_bytes(1, line.get(from..parser.at).unwrap_or(&[]));
                }
                continue;
            }
            parser.tokens.truncate(first);
            let is_null = token.kind == Kind::Null;
            let number = if token.kind == Kind::Int { i128_of(token.bytes(line)) } else { None };
            match key {
                b"ns" => {
                    has_ns = true;
                    own.ns = number;
                    if number.is_none() && !is_null {
                        return bad("`ns` is an integer of at most 127 bits, or null");
                    }
                }
                b"cycles" => {
                    own.cycles = number.and_then(|number| number.try_into().ok());
                    if own.cycles.is_none() && !is_null {
                        return bad("`cycles` is an integer from 0 to 2^64 - 1, or null");
                    }
                }
                b"id" | b"stream" => {
                    let number: Option<u64> = number.and_then(|number| number.try_into().ok());
                    if number.is_none() && !is_null {
                        return bad("`id` and `stream` are integers from 0 to 2^64 - 1");
                    }
                    *(if key == b"id" { &mut own.id } else { &mut own.stream }) = number;
                }
                b"cpu" => {
                    own.cpu = number.and_then(|number| number.try_into().ok());
                    if own.cpu.is_none() && !is_null {
                        return bad("`cpu` is an integer from 0 to 2^32 - 1");
                    }
                }
                b"name" | b"trace" => {
                    if !matches!(token.kind, Kind::Text | Kind::Escaped | Kind::Special) {
                        return bad("`name` and `trace` are strings");
                    }
                    let mark = mix_bytes(1, token.bytes(line));
                    if key == b"name" {
                        (own.name, name_mark) = (Some(token), mark);
                    } else {
                        (own.trace, trace_mark) = (Some(token), mark);
                    }
                }
                _ if SILENT.contains(&key) => {}
                _ => {
                    let from = key.as_ptr().addr() - line.as_ptr().addr();
                    let key = Token { kind: Kind::Key, from: from as u32, to: (from + key.len()) as u32 };
                    own.unknown.get_or_insert(key);
                }
            }
        }
        if parser.peek().is_some() {
            return Err(parser.fault("something stands behind the object of the line"));
        }
        if !has_ns {
            return Err(Fault { at: 0, reason: "there is no key `ns`" });
        }
        let id = |id: Option<u64>| mix(id.unwrap_or(0), u64::from(id.is_some()));
        let time = own.time_kind() as u64;
        let of_shapes = |stream| marks[..STREAM_SCOPES].iter().fold(stream, |mark, &scope| mix(mark, scope));
        let stream = mix(trace_mark, id(own.stream));
        own.stream_mark = of_shapes(mix(stream, time));
        own.any_time_mark = mix(mix(context, of_shapes(stream)), id(own.cpu.map(u64::from)));
        own.event_mark = marks[STREAM_SCOPES..]
            .iter()
            .fold(mix(mix(own.stream_mark, name_mark), id(own.id)), |mark, &scope| mix(mark, scope));
        own.context_mark = mix(mix(context, own.stream_mark), id(own.cpu.map(u64::from)));
        Ok(own)
    }

    pub(super) fn time_kind(&self) -> TimeKind {
        match (self.ns, self.cycles) {
            (Some(_), Some(_)) => TimeKind::Both,
            (Some(_), None) => TimeKind::Ns,
            (None, Some(_)) => TimeKind::Cycles,
            (None, None) => TimeKind::None,
        }
    }
}

/// Is the beginning of a file one of lines? One of the first lines must begin as a line does up to its `ns`.
pub(super) fn is_start(start: &[u8]) -> bool {
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    start.split(|&byte| byte == b'\n').take(16).any(is_start_of_line)
}

fn is_start_of_line(line: &[u8]) -> bool {
    let mut tokens = Vec::new();
    let mut parser = Parser::new(line, &mut tokens);
    let mut is_behind_one = false;
    if parser.expect(b'{', "").is_err() {
        return false;
    }
    while parser.next_item(is_behind_one, b'}') == Ok(true) {
        is_behind_one = true;
        parser.skip_blanks();
        let Ok(key) = parser.string() else { return false };
        if parser.expect(b':', "").is_err() || parser.value(0).is_err() {
            return false;
        }
        match key.bytes(line) {
            b"ns" => return parser.tokens.last().is_some_and(|token| matches!(token.kind, Kind::Int | Kind::Null)),
            b"trace" | b"cycles" | b"name" | b"id" | b"stream" | b"cpu" => {}
            _ => return false,
        }
    }
    false
}

/// The lines that begin in a stretch of a file, each with its offset, without their ends.
pub(super) fn lines(file: &[u8], from: usize, to: usize) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = match from {
        0 if file.starts_with(b"\xef\xbb\xbf") => 3,
        0 => 0,
        _ => file.get(from - 1..).and_then(|rest| memchr::memchr(b'\n', rest)).map_or(file.len(), |step| from + step),
    };
    std::iter::from_fn(move || {
        if at >= to.min(file.len()) {
            return None;
        }
        let rest = &file[at..];
        let len = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let line = (at, &rest[..len]);
        at += len + 1;
        Some(line)
    })
}
