//! Names of legacy Rust.

/// Escapes in names that legacy Rust makes of punctuation.
const RUST_ESCAPES: &[(&str, char)] =
    &[("SP", '@'), ("BP", '*'), ("RF", '&'), ("LT", '<'), ("GT", '>'), ("LP", '('), ("RP", ')'), ("C", ',')];

/// A name of legacy Rust with its escapes undone: `$LT$`, `$u20$`. What is no escape stays.
pub(super) fn rust_name(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let escape = rest[1..].find('$').and_then(|end| Some((end, unescape(&rest[1..1 + end])?)));
        let Some((end, letter)) = escape else { break };
        out.push(letter);
        rest = &rest[end + 2..];
    }
    out + rest
}

fn unescape(code: &str) -> Option<char> {
    if let Some((_, letter)) = RUST_ESCAPES.iter().find(|(known, _)| *known == code) {
        return Some(*letter);
    }
    let hex = code.strip_prefix('u')?;
    char::from_u32(u32::from_str_radix(hex, 16).ok()?).filter(|letter| !letter.is_control())
}
