//! Globs: `*` stands for any text, `?` for one character, `\` takes the meaning of the next one away.

/// Does the whole text match a glob? Takes time in the product of both lengths at most, and no memory.
pub fn matches(glob: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // Where to go on when the last `*` takes one byte more.
    let mut retry = None;
    loop {
        let (mut part, mut len) = (glob.get(at).copied(), 1);
        let is_escaped = part == Some(b'\\') && at + 1 < glob.len();
        if is_escaped {
            (part, len) = (Some(glob[at + 1]), 2);
        }
        let step = match part {
            Some(b'*') if !is_escaped => {
                retry = Some((at + 1, from));
                at += 1;
                continue;
            }
            Some(b'?') if !is_escaped && from < text.len() => Some(char_len(&text[from..])),
            Some(byte) if text.get(from) == Some(&byte) => Some(1),
            None if from == text.len() => return true,
            _ => None,
        };
        match (step, &mut retry) {
            (Some(step), _) => (at, from) = (at + len, from + step),
            (None, Some((after, begin))) if *begin < text.len() => {
                *begin += 1;
                (at, from) = (*after, *begin);
            }
            (None, _) => return false,
        }
    }
}

/// Bytes of the first character; 1 if it is not UTF-8.
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
    use super::*;

    #[test]
    fn stars_questions_and_escapes() {
        for (glob, text, want) in [
            ("app:*", "app:read", true),
            ("app:*", "xapp:", false),
            ("*a*b", "xxaxxbxb", true),
            ("*a*b", "xxaxxbxbc", false),
            ("a?c", "aéc", true),
            ("a?c", "ac", false),
            (r"a\*", "a*", true),
            (r"a\*", "ab", false),
            (r"a\", r"a\", true),
            (r"\\", r"\", true),
            ("", "", true),
            ("*", "", true),
            ("?", "", false),
        ] {
            assert_eq!(matches(glob.as_bytes(), text.as_bytes()), want, "{glob} {text}");
        }
        assert!(matches(b"a?b", b"a\xffb") && !matches(b"a?b", b"a\xff\xffb"));
        assert!(!matches(("*a".repeat(200) + "b").as_bytes(), "a".repeat(5000).as_bytes()), "it ends soon");
    }
}
