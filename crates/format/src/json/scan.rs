//! Places of values in a text of JSON without reading them, and decimal numbers in a smaller unit.

use memchr::memchr2;

/// The byte after a string that begins at `at`; `None` when the text ends before.
pub fn end_of_string(text: &[u8], at: usize) -> Option<usize> {
    if text.get(at) != Some(&b'"') {
        return None;
    }
    let mut at = at + 1;
    loop {
        at += memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// The byte after a value that begins at `at`; `None` when the text ends before. Brackets are counted, nothing else is looked at.
pub fn end_of_value(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at)? {
        b'"' => end_of_string(text, at),
        b'{' | b'[' => {
            let (mut at, mut depth) = (at, 0usize);
            loop {
                match text.get(at)? {
                    b'"' => {
                        at = end_of_string(text, at)?;
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
                at += 1;
                if depth == 0 {
                    return Some(at);
                }
            }
        }
        _ => {
            let is_end = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b',' | b'}' | b']');
            let len = text[at..].iter().position(is_end)?;
            (len > 0).then_some(at + len)
        }
    }
}

/// A decimal number of JSON times a power of ten, rounded to the nearest: with 3, the ns of a number of µs. `None` for other texts,
/// and beyond 64 bits.
pub fn scaled(text: &[u8], power: i32) -> Option<i64> {
    let (is_negative, digits) = match text.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (mantissa, exponent) = match digits.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(at) => {
            let exponent = std::str::from_utf8(&digits[at + 1..]).ok()?;
            (&digits[..at], exponent.parse::<i32>().ok()?)
        }
        None => (digits, 0),
    };
    if mantissa.is_empty() {
        return None;
    }
    // Digits without the dot, and the power of ten of the last one.
    let (mut value, mut power, mut is_after_dot, mut rounding) = (0i128, exponent.checked_add(power)?, false, None);
    for byte in mantissa {
        match byte {
            b'.' if !is_after_dot => is_after_dot = true,
            b'0'..=b'9' => {
                let digit = i128::from(byte & 15);
                if is_after_dot && power <= 0 {
                    rounding.get_or_insert(digit);
                    continue;
                }
                value = value.checked_mul(10)?.checked_add(digit)?;
                power -= i32::from(is_after_dot);
            }
            _ => return None,
        }
    }
    match power {
        0 => {}
        1..=30 => value = value.checked_mul(10i128.pow(power as u32))?,
        -30..=-1 => {
            let unit = 10i128.pow(power.unsigned_abs());
            value = (value + unit / 2) / unit;
            rounding = None;
        }
        _ if value == 0 => {}
        ..-30 => value = 0,
        _ => return None,
    }
    value += i128::from(rounding.is_some_and(|digit| digit >= 5));
    i64::try_from(if is_negative { -value } else { value }).ok()
}
