//! Stacks of samples: the dictionary `stackFrames`, and events with the number of a frame in it.
//!
//! Before it is read, such an event gets the names of its stack in the place of that number: what comes after this knows events with
//! lists of names only.

use std::collections::HashMap;

use tracemill_format::json::{Fault, LineParser, TapeToken, TokenKind, end_of_string, end_of_value};
use tracemill_format::samples::Frame;
use tracemill_format::slices::SliceEvent;
use tracemill_semantics::names::FRAMES;

use super::document::Document;
use super::event::EventObject;

/// Frames that are kept.
const MAX_FRAMES: usize = 1 << 22;
/// Functions of a stack; the outermost of deeper ones are left out.
const MAX_DEPTH: usize = 1 << 12;
/// Bytes of the names of a stack; the same.
const MAX_STACK_BYTES: usize = 1 << 16;

/// The dictionary of a file.
#[derive(Debug, Default)]
pub(super) struct StackFrames {
    is_own: bool,
    numbers: HashMap<Box<[u8]>, u32>,
    frames: Vec<StackFrame>,
}

#[derive(Debug, Default)]
struct StackFrame {
    /// Its function and the file of that as one text, as they stand inside of a string of JSON.
    text: Box<[u8]>,
    caller: Option<u32>,
}

/// An event that was read.
pub(super) struct ReadEvent<'t> {
    pub(super) object: EventObject,
    /// The text that its tokens are of.
    pub(super) text: &'t [u8],
    /// Its bytes in the file.
    pub(super) len: usize,
    /// Bytes of its stack.
    pub(super) stack_len: usize,
}

impl StackFrames {
    /// Reads the dictionary of a document: an object whose members are frames by their numbers. Members that are not are left out.
    ///
    /// `is_own` is of a file that tracemill wrote: only its samples have stacks.
    pub(super) fn read(document: &Document, file: &[u8], is_own: bool) -> StackFrames {
        let mut read = StackFrames { is_own, ..StackFrames::default() };
        let Some(object) = document.stack_frames.clone().and_then(|place| file.get(place)) else { return read };
        let (mut callers, mut tokens) = (Vec::new(), Vec::new());
        let mut at = 1;
        while read.frames.len() < MAX_FRAMES {
            at += object[at..].iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == b',').count();
            let (from, Some(to)) = (at + 1, end_of_string(object, at)) else { break };
            at = to;
            at += object[at..].iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == b':').count();
            let Some(end) = end_of_value(object, at) else { break };
            if let Some((text, caller)) = frame(&object[at..end], &mut tokens) {
                read.numbers.insert(object[from..to - 1].into(), read.frames.len() as u32);
                read.frames.push(StackFrame { text, caller: None });
                callers.push(caller);
            }
            at = end;
        }
        for (frame, caller) in read.frames.iter_mut().zip(callers) {
            frame.caller = caller.and_then(|caller| read.numbers.get(&caller).copied());
        }
        read
    }

    /// Reads the event at the beginning of a text, with the names of its stack where it has one; see [`EventObject::read`].
    pub(super) fn read_event<'t>(
        &self,
        text: &'t [u8],
        phase: Option<u8>,
        event: &mut SliceEvent,
        buffer: &'t mut Vec<u8>,
    ) -> Result<ReadEvent<'t>, Fault> {
        fn read(text: &[u8], phase: Option<u8>, event: &mut SliceEvent) -> Result<EventObject, Fault> {
            let object = EventObject::read(text, phase, &mut event.tokens, &mut event.rest)?;
            event.members = object.members;
            Ok(object)
        }
        let object = read(text, phase, event)?;
        let len = object.members.len;
        if !self.expand(&object, &event.tokens, &event.rest, text, buffer) {
            return Ok(ReadEvent { object, text, len, stack_len: 0 });
        }
        Ok(match read(buffer, phase, event) {
            Ok(object) => ReadEvent { object, text: buffer, len, stack_len: buffer.len() },
            Err(_) => ReadEvent { object: read(text, phase, event)?, text, len, stack_len: 0 },
        })
    }

    /// Puts an event whose stack is in the dictionary together again in `out`, with the names of its functions: a list of texts,
    /// the innermost first. `false` for all other events, and for slices: they say with a stack where they were marked.
    fn expand(
        &self,
        event: &EventObject,
        tokens: &[TapeToken],
        rest: &[(usize, usize)],
        text: &[u8],
        out: &mut Vec<u8>,
    ) -> bool {
        let is_sample = self.is_own || matches!(event.members.phase, b'P' | b'i' | b'I');
        if self.frames.is_empty() || !is_sample {
            return false;
        }
        let mut members = rest.iter().map(|&(key, value)| (&tokens[key], &tokens[value]));
        let Some((key, value)) = members.find(|(key, _)| key.bytes(text) == b"sf") else { return false };
        let Some(&first) = self.numbers.get(value.bytes(text)) else { return false };
        let is_text = matches!(value.kind, TokenKind::Text | TokenKind::Escaped | TokenKind::Special);
        let (begin, end) = (key.from as usize, value.to as usize + usize::from(is_text));
        out.clear();
        out.extend_from_slice(&text[..begin]);
        out.extend_from_slice(FRAMES[0].as_bytes());
        out.extend_from_slice(b"\":[");
        self.put_stack(first, out);
        out.push(b']');
        out.extend_from_slice(&text[end..event.members.len]);
        true
    }

    fn put_stack(&self, first: u32, out: &mut Vec<u8>) {
        let begin = out.len();
        let mut next = Some(first);
        // Callers may be their own in a file that is wrong.
        for at in 0..MAX_DEPTH {
            let Some(frame) = next.and_then(|next| self.frames.get(next as usize)) else { return };
            if at > 0 {
                if out.len() - begin + frame.text.len() > MAX_STACK_BYTES {
                    return;
                }
                out.push(b',');
            }
            out.push(b'"');
            out.extend_from_slice(&frame.text);
            out.push(b'"');
            next = frame.caller;
        }
    }
}

/// The text of a frame, and the number of its caller.
type FrameParts = (Box<[u8]>, Option<Box<[u8]>>);

fn frame(object: &[u8], tokens: &mut Vec<TapeToken>) -> Option<FrameParts> {
    tokens.clear();
    let is_read = object.starts_with(b"{") && LineParser::new(object, tokens).value(0).is_ok();
    if !is_read {
        return None;
    }
    let member = |name: &[u8]| {
        let pair = tokens.windows(2).find(|of| of[0].kind == TokenKind::Key && of[0].bytes(object) == name)?;
        let is_value = !matches!(
            pair[1].kind,
            TokenKind::Null
                | TokenKind::Bool
                | TokenKind::Array
                | TokenKind::Tuple
                | TokenKind::Object
                | TokenKind::Key
        );
        is_value.then(|| pair[1].bytes(object))
    };
    let mut text = Vec::new();
    Frame::put_text(member(b"name")?, Some(member(b"category").unwrap_or_default()), &mut text);
    Some((text.into(), member(b"parent").map(Box::from)))
}
