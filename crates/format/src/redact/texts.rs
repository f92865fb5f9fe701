//! Texts after the fields of redacted events.

use tracemill_model::schema::Render;

/// The offset of a text that is absent.
pub(super) const NO_TEXT: u32 = u32::MAX;

/// A text after the fields of an event: the one that programs get, and the one for people where that is another.
#[derive(Default)]
pub(super) struct KeptText {
    /// Place of its offset.
    pub(super) place: usize,
    pub(super) text: Option<Vec<u8>>,
    pub(super) for_people: Option<Vec<u8>>,
}

/// Shows a text that stands after the fields.
#[derive(Debug)]
pub(super) struct TrailingText;

impl TrailingText {
    /// The text at an offset, and where what follows it is.
    fn read_at(event: &[u8], offset: usize) -> Option<(&[u8], usize)> {
        let len = u32::from_le_bytes(*event.get(offset..)?.first_chunk()?) as usize;
        let from = offset.checked_add(4)?;
        Some((event.get(from..from.checked_add(len)?)?, from + len))
    }

    fn offset(own: &[u8]) -> Option<usize> {
        let offset = u32::from_le_bytes(*own.first_chunk()?);
        (offset != NO_TEXT).then_some(offset as usize)
    }
}

impl Render for TrailingText {
    fn render(&self, event: &[u8], own: &[u8], out: &mut Vec<u8>) -> bool {
        let text = TrailingText::offset(own).and_then(|offset| TrailingText::read_at(event, offset));
        out.extend_from_slice(text.map_or(&[], |(text, _)| text));
        text.is_some()
    }

    fn text<'a>(&'a self, event: &'a [u8], own: &'a [u8], _scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        TrailingText::offset(own).and_then(|offset| TrailingText::read_at(event, offset)).map(|(text, _)| text)
    }

    fn render_for_people(&self, event: &[u8], own: &[u8], out: &mut Vec<u8>) -> bool {
        let Some((text, next)) = TrailingText::offset(own).and_then(|offset| TrailingText::read_at(event, offset))
        else {
            return false;
        };
        let text = match event.get(next) {
            Some(1) => TrailingText::read_at(event, next + 1).map_or(text, |(text, _)| text),
            _ => text,
        };
        out.extend_from_slice(text);
        true
    }
}

/// Shows the name that an event of a class of many ids has.
#[derive(Debug)]
pub(super) struct OwnName;

impl Render for OwnName {
    fn render(&self, event: &[u8], _own: &[u8], out: &mut Vec<u8>) -> bool {
        event.get(4..8).is_some_and(|offset| TrailingText.render(event, offset, out))
    }
}

/// Appends a text with its length before it.
pub(super) fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text);
}
