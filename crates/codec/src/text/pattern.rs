//! Globs: `*` stands for any text, `?` for one character, `\` takes the meaning of the next one away.

/// A compiled glob.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern {
    parts: Vec<PatternPart>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PatternPart {
    Byte(u8),
    /// One character (of one or more bytes).
    One,
    Any,
}

impl Pattern {
    /// Compiles a glob; every text is one.
    pub fn glob(text: &str) -> Self {
        let mut parts = Vec::with_capacity(text.len());
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            parts.push(match byte {
                b'*' => PatternPart::Any,
                b'?' => PatternPart::One,
                b'\\' => PatternPart::Byte(bytes.next().unwrap_or(b'\\')),
                byte => PatternPart::Byte(byte),
            });
        }
        Pattern { parts }
    }

    /// The glob as text.
    pub fn to_text(&self) -> Vec<u8> {
        let mut text = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            match part {
                PatternPart::Any => text.push(b'*'),
                PatternPart::One => text.push(b'?'),
                PatternPart::Byte(byte @ (b'*' | b'?' | b'\\')) => text.extend([b'\\', *byte]),
                PatternPart::Byte(byte) => text.push(*byte),
            }
        }
        text
    }

    /// Does the whole text match? Takes time in the product of both lengths at worst.
    pub fn matches(&self, text: &[u8]) -> bool {
        let (mut part, mut at) = (0, 0);
        // Where to go on when the last `*` takes one byte more.
        let mut retry: Option<(usize, usize)> = None;
        loop {
            let step = match self.parts.get(part) {
                Some(PatternPart::Any) => {
                    retry = Some((part + 1, at));
                    part += 1;
                    continue;
                }
                Some(PatternPart::One) if at < text.len() => Some(char_len(&text[at..])),
                Some(PatternPart::Byte(byte)) if text.get(at) == Some(byte) => Some(1),
                None if at == text.len() => return true,
                _ => None,
            };
            match (step, &mut retry) {
                (Some(len), _) => {
                    part += 1;
                    at += len;
                }
                (None, Some((after, from))) if *from < text.len() => {
                    *from += 1;
                    (part, at) = (*after, *from);
                }
                (None, _) => return false,
            }
        }
    }
}

/// Bytes of the first character; 1 for what is no UTF-8.
fn char_len(text: &[u8]) -> usize {
    let len = match text[0] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    let is_whole = text.len() >= len && text[1..len].iter().all(|byte| byte & 0xc0 == 0x80);
    if is_whole { len } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn stars_questions_and_escapes() {
        for (glob, text, want) in [
            ("sched_*", "sched_switch", true),
            ("sched_*", "xsched_", false),
            ("*a*b", "xxaxxbxb", true),
            ("*a*b", "xxaxxbxbc", false),
            ("a?c", "aéc", true),
            ("a?c", "ac", false),
            (r"a\*", "a*", true),
            (r"a\*", "ab", false),
            ("", "", true),
            ("*", "", true),
            ("?", "", false),
        ] {
            let pattern = Pattern::glob(glob);
            assert_eq!(pattern.matches(text.as_bytes()), want, "{glob} {text}");
            assert_eq!(pattern.to_text(), glob.as_bytes());
        }
    }

    #[test]
    fn many_stars_end_soon() {
        let glob = "*a".repeat(200) + "b";
        assert!(!Pattern::glob(&glob).matches("a".repeat(5000).as_bytes()));
    }
}
