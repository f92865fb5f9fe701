//! One line: an event as `print --format jsonl` writes it.

use tracemill_codec::text::marks::{mix, mix_bytes};
use tracemill_format::json::{Fault, LineParser, TapeToken, TokenKind, i128_of};

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
    /// By clock values that cannot be turned into ns.
    Cycles,
    /// Not at all.
    None,
}

/// An event, not looked into.
#[derive(Clone, Debug, Default)]
pub(super) struct EventLine {
    pub(super) trace: Option<TapeToken>,
    pub(super) ns: Option<i128>,
    pub(super) cycles: Option<u64>,
    pub(super) name: Option<TapeToken>,
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
    /// Like `context_mark`, whether it has a time or not.
    pub(super) any_time_mark: u64,
    /// The first key that the format does not know.
    pub(super) unknown: Option<TapeToken>,
}

/// The marks of the members of a line that its own marks are made of.
#[derive(Default)]
struct Marks {
    /// Of the shapes of scopes.
    scopes: [u64; 5],
    /// Of the text of the packet context.
    context: u64,
    trace: u64,
    name: u64,
}

impl EventLine {
    /// Reads a line; the tokens of its scopes are left in `tokens`.
    pub(super) fn read(line: &[u8], tokens: &mut Vec<TapeToken>) -> Result<EventLine, Fault> {
        if let Err(error) = std::str::from_utf8(line) {
            return Err(Fault { at: error.valid_up_to(), reason: "this is not UTF-8" });
        }
        tokens.clear();
        let mut parser = LineParser::new(line, tokens);
        let (mut own, mut marks) = (EventLine::default(), Marks::default());
        let (mut has_ns, mut is_behind_one) = (false, false);
        parser.expect(b'{', "a line is an object and begins with `{`")?;
        while parser.next_item(is_behind_one, b'}')? {
            is_behind_one = true;
            parser.skip_blanks();
            let key = parser.string()?;
            parser.tokens.pop();
            parser.expect(b':', "`:` is expected after a key")?;
            parser.skip_blanks();
            let (from, first) = (parser.at, parser.tokens.len());
            let mark = parser.value(0)?;
            let bad = |reason| Fault { at: from, reason };
            let &token = parser.tokens.get(first).ok_or_else(|| bad("a value is expected"))?;
            let name = key.bytes(line);
            let Some(scope) = SCOPES.iter().position(|&scope| scope == name) else {
                parser.tokens.truncate(first);
                has_ns |= name == b"ns";
                own.set(key, token, line, &mut marks).map_err(bad)?;
                continue;
            };
            if token.kind != TokenKind::Object {
                return Err(bad("the fields of an event are an object"));
            }
            own.scopes[scope] = Some(first);
            marks.scopes[scope] = mix(mark, 1);
            if scope == PACKET_CONTEXT {
                marks.context = mix_bytes(1, line.get(from..parser.at).unwrap_or(&[]));
            }
        }
        if parser.peek().is_some() {
            return Err(parser.fault("something stands after the object of the line"));
        }
        if !has_ns {
            return Err(Fault { at: 0, reason: "there is no key `ns`" });
        }
        own.set_marks(&marks);
        Ok(own)
    }

    /// Takes in a member that is no scope.
    fn set(&mut self, key: TapeToken, value: TapeToken, line: &[u8], marks: &mut Marks) -> Result<(), &'static str> {
        const IDS: &str = "`id` and `stream` are integers from 0 to 2^64 - 1";
        match key.bytes(line) {
            b"ns" => self.ns = number(value, line, "`ns` is an integer of at most 127 bits, or null")?,
            b"cycles" => {
                self.cycles = number(value, line, "`cycles` is an integer from 0 to 2^64 - 1, or null")?;
            }
            b"id" => self.id = number(value, line, IDS)?,
            b"stream" => self.stream = number(value, line, IDS)?,
            b"cpu" => self.cpu = number(value, line, "`cpu` is an integer from 0 to 2^32 - 1")?,
            name @ (b"name" | b"trace") => {
                if !matches!(value.kind, TokenKind::Text | TokenKind::Escaped | TokenKind::Special) {
                    return Err("`name` and `trace` are strings");
                }
                let of = if name == b"name" {
                    (&mut self.name, &mut marks.name)
                } else {
                    (&mut self.trace, &mut marks.trace)
                };
                (*of.0, *of.1) = (Some(value), mix_bytes(1, value.bytes(line)));
            }
            name if SILENT.contains(&name) => {}
            _ => {
                self.unknown.get_or_insert(TapeToken { kind: TokenKind::Key, ..key });
            }
        }
        Ok(())
    }

    fn set_marks(&mut self, marks: &Marks) {
        let id = |id: Option<u64>| mix(id.unwrap_or(0), u64::from(id.is_some()));
        let cpu = id(self.cpu.map(u64::from));
        let (of_stream, of_event) = marks.scopes.split_at(STREAM_SCOPES);
        let of_shapes = |mark, shapes: &[u64]| shapes.iter().fold(mark, |mark, &shape| mix(mark, shape));
        let stream = mix(marks.trace, id(self.stream));
        self.stream_mark = of_shapes(mix(stream, self.time_kind() as u64), of_stream);
        self.any_time_mark = mix(mix(marks.context, of_shapes(stream, of_stream)), cpu);
        self.event_mark = of_shapes(mix(mix(self.stream_mark, marks.name), id(self.id)), of_event);
        self.context_mark = mix(mix(marks.context, self.stream_mark), cpu);
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

/// The number that a member has, when it is not null.
fn number<T: TryFrom<i128>>(value: TapeToken, line: &[u8], reason: &'static str) -> Result<Option<T>, &'static str> {
    match value.kind {
        TokenKind::Null => Ok(None),
        TokenKind::Int => i128_of(value.bytes(line)).and_then(|number| number.try_into().ok()).map(Some).ok_or(reason),
        _ => Err(reason),
    }
}

/// Is the beginning of a file one of lines? One of the first lines must begin as a line does up to its `ns`.
pub(super) fn is_start(start: &[u8]) -> bool {
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    start.split(|&byte| byte == b'\n').take(16).any(|line| is_start_of_line(line) == Ok(true))
}

fn is_start_of_line(line: &[u8]) -> Result<bool, Fault> {
    let mut tokens = Vec::new();
    let mut parser = LineParser::new(line, &mut tokens);
    let mut is_behind_one = false;
    parser.expect(b'{', "")?;
    while parser.next_item(is_behind_one, b'}')? {
        is_behind_one = true;
        parser.skip_blanks();
        let key = parser.string()?;
        parser.expect(b':', "")?;
        parser.value(0)?;
        match key.bytes(line) {
            b"ns" => {
                return Ok(parser.tokens.last().is_some_and(|of| matches!(of.kind, TokenKind::Int | TokenKind::Null)));
            }
            b"trace" | b"cycles" | b"name" | b"id" | b"stream" | b"cpu" => {}
            _ => break,
        }
    }
    Ok(false)
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
