//! How much of metadata that still come is whole: a declaration may be cut anywhere.

use tracemill_ctf::tsdl;

/// Bytes of a header of a packet of metadata, as far as its sizes go.
const SIZES_END: usize = 32;
/// Record separator: it begins each fragment of CTF 2.
const SEPARATOR: u8 = 0x1e;

/// The number of bytes from the beginning that hold whole declarations.
pub fn whole_len(bytes: &[u8]) -> usize {
    match tsdl::probe(bytes) {
        Some(tsdl::Flavour::Packetized(order)) => whole_packets(bytes, order),
        Some(tsdl::Flavour::Text) => whole_declarations(bytes),
        None if bytes.first() == Some(&SEPARATOR) => whole_fragments(bytes),
        None => 0,
    }
}

/// Packets count up to the last one with which a declaration ends.
fn whole_packets(bytes: &[u8], order: tracemill_model::schema::ByteOrder) -> usize {
    let (mut text, mut at, mut whole) = (TextState::default(), 0, 0);
    while let Some(header) = bytes.get(at..at + SIZES_END) {
        let number = |from: usize| {
            let field = [header[from], header[from + 1], header[from + 2], header[from + 3]];
            let value = match order {
                tracemill_model::schema::ByteOrder::Little => u32::from_le_bytes(field),
                tracemill_model::schema::ByteOrder::Big => u32::from_be_bytes(field),
            };
            (value / 8) as usize
        };
        // After magic, UUID and checksum.
        let (content, total) = (number(24), number(28));
        let Some(packet) = at.checked_add(total).and_then(|end| bytes.get(at..end)) else { break };
        if total < SIZES_END || content > total {
            // It is broken, and reading says so.
            return bytes.len();
        }
        // The rest of the header is no text, and opens or closes nothing.
        text.take(packet.get(37..content).unwrap_or(&[]));
        at += total;
        if text.is_whole() {
            whole = at;
        }
    }
    whole
}

fn whole_declarations(bytes: &[u8]) -> usize {
    let mut text = TextState::default();
    let mut whole = 0;
    for (at, byte) in bytes.iter().enumerate() {
        text.take(std::slice::from_ref(byte));
        if *byte == b';' && text.is_whole() {
            whole = at + 1;
        }
    }
    // Blanks and comments after the last declaration are whole, too.
    if text.is_whole() && whole > 0 { bytes.len() } else { whole }
}

/// Fragments count when an object is closed; after it only blanks and the next fragment can come.
fn whole_fragments(bytes: &[u8]) -> usize {
    let mut whole = 0;
    let (mut depth, mut in_string, mut is_escaped) = (0usize, false, false);
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            _ if in_string => {
                in_string = is_escaped || *byte != b'"';
                is_escaped = !is_escaped && *byte == b'\\';
            }
            b'"' => in_string = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    whole = at + 1;
                }
            }
            _ => {}
        }
    }
    let rest = bytes.get(whole..).unwrap_or(&[]);
    if rest.iter().all(u8::is_ascii_whitespace) { bytes.len() } else { whole }
}

/// Where a text of declarations is: in a block, a comment, a string.
#[derive(Default)]
struct TextState {
    depth: usize,
    place: TextPart,
    /// Has a declaration begun that no `;` has ended?
    is_open: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum TextPart {
    #[default]
    Code,
    Slash,
    LineComment,
    Comment,
    CommentStar,
    /// A string or a character, by its delimiter.
    Text(u8),
    Escape(u8),
}

impl TextState {
    fn take(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.place = self.after(byte);
        }
    }

    fn after(&mut self, byte: u8) -> TextPart {
        match (self.place, byte) {
            (TextPart::Slash, b'/') => TextPart::LineComment,
            (TextPart::Slash, b'*') => TextPart::Comment,
            (TextPart::Code, b'/') => TextPart::Slash,
            (TextPart::Code | TextPart::Slash, b'"' | b'\'') => {
                self.is_open = true;
                TextPart::Text(byte)
            }
            (TextPart::Code | TextPart::Slash, byte) => {
                match byte {
                    b'{' | b'(' | b'[' => self.depth += 1,
                    b'}' | b')' | b']' => self.depth = self.depth.saturating_sub(1),
                    b';' if self.depth == 0 => self.is_open = false,
                    byte if !byte.is_ascii_whitespace() && byte != 0 => self.is_open = true,
                    _ => {}
                }
                TextPart::Code
            }
            (TextPart::LineComment, b'\n') => TextPart::Code,
            (TextPart::Comment | TextPart::CommentStar, b'*') => TextPart::CommentStar,
            (TextPart::CommentStar, b'/') => TextPart::Code,
            (TextPart::CommentStar, _) => TextPart::Comment,
            (TextPart::Text(end), b'\\') => TextPart::Escape(end),
            (TextPart::Text(end), byte) if byte == end => TextPart::Code,
            (TextPart::Escape(end), _) => TextPart::Text(end),
            (place, _) => place,
        }
    }

    fn is_whole(&self) -> bool {
        self.depth == 0 && !self.is_open && matches!(self.place, TextPart::Code | TextPart::LineComment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "/* CTF 1.8 */\ntrace { major = 1; minor = 8; };\n/* { */ env { a = \"};\\\"\"; };\n";

    #[test]
    fn text_is_whole_after_declarations_only() {
        let ends: Vec<usize> = TEXT.match_indices("};\n").map(|(at, _)| at + 2).collect();
        for len in 14..=TEXT.len() {
            let whole = whole_len(&TEXT.as_bytes()[..len]);
            let last = ends.iter().filter(|&&end| end <= len).max().copied().unwrap_or(0);
            assert!(whole >= last && whole <= len, "{len}: {whole}");
            // The rest after the declarations is blank or a comment.
            let more = &TEXT[last..whole];
            assert!(!more.contains("env"), "{more:?}");
        }
        assert_eq!(whole_len(TEXT.as_bytes()), TEXT.len());
    }

    #[test]
    fn fragments_count_when_they_are_closed() {
        let text = "\x1e{\"type\":\"preamble\",\"version\":2}\n\x1e{\"a\":\"}\\\"{\",\"b\":[1]}\n";
        let second = text.rfind('\x1e').unwrap();
        assert_eq!(whole_len(text.as_bytes()), text.len());
        for len in second + 1..text.len() - 2 {
            assert_eq!(whole_len(&text.as_bytes()[..len]), second - 1, "{len}");
        }
    }

    #[test]
    fn packets_count_up_to_the_end_of_a_declaration() {
        let packet = |text: &str| {
            let mut packet = vec![0; 37];
            packet[..4].copy_from_slice(&0x75d1_1d57u32.to_le_bytes());
            packet[24..28].copy_from_slice(&((37 + text.len()) as u32 * 8).to_le_bytes());
            packet[28..32].copy_from_slice(&(128u32 * 8).to_le_bytes());
            packet.extend_from_slice(text.as_bytes());
            packet.resize(128, 0);
            packet
        };
        let all = [packet("trace { a = 1; };"), packet("event { name = \"a"), packet("b\"; };")].concat();
        assert_eq!(whole_len(&all[..127]), 0);
        assert_eq!(whole_len(&all[..130]), 128);
        assert_eq!(whole_len(&all[..383]), 128);
        assert_eq!(whole_len(&all), 384);
        let mut broken = packet("trace { };");
        broken[28..32].copy_from_slice(&8u32.to_le_bytes());
        assert_eq!(whole_len(&broken), broken.len());
    }
}
