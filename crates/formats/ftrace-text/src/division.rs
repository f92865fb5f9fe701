//! Texts of events that are not known, divided into keys and values: `a=1 b=two words`, `a: 1, b: 2`.

use super::line::{EventForm, LineEvent};
use super::pattern::{FieldType, FieldValue, hex};

/// Keys of a text at most; one with more of them is a text.
const MAX_KEYS: usize = 256;

/// The key of a text that is not divided.
pub(super) const TEXT: &[u8] = b"text";

/// Divides the text of an event into keys and values. A text that cannot be divided has the key [`TEXT`]; it stands before
/// the first key, too.
pub(super) fn divide<'a>(event: &LineEvent<'a>, keys: &mut Vec<&'a [u8]>, values: &mut Vec<FieldValue<'a>>) {
    let text = event.fields;
    let is_divided = match event.form {
        EventForm::Named => by_equal_signs(text, keys, values) || by_commas(text, keys, values),
        EventForm::SysEnter => by_commas(text, keys, values),
        _ => false,
    };
    if !is_divided {
        keys.clear();
        values.clear();
        if !text.is_empty() {
            keys.push(TEXT);
            values.push(FieldValue::Text(text));
        }
    }
}

fn is_of_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-')
}

/// Is it the name of a field?
fn is_key(text: &[u8]) -> bool {
    text.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
        && text.iter().all(|byte| is_of_key(*byte))
}

/// `key=value key=value`: a value goes on to the next key; keys inside of brackets are of the value.
fn by_equal_signs<'a>(text: &'a [u8], keys: &mut Vec<&'a [u8]>, values: &mut Vec<FieldValue<'a>>) -> bool {
    keys.clear();
    values.clear();
    // Where the value at hand begins, where the word at hand does, and in how many brackets.
    let (mut begin, mut word, mut depth) = (0, 0, 0u32);
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => {
                depth += 1;
                word = at + 1;
            }
            b')' | b']' | b'}' => {
                depth = depth.saturating_sub(1);
                word = at + 1;
            }
            b' ' | b'\t' | b',' | b';' => word = at + 1,
            b'=' if depth == 0 && is_key(&text[word..at]) => {
                if keys.len() >= MAX_KEYS {
                    return false;
                }
                let before = value(&text[begin..word]);
                if !keys.is_empty() {
                    values.push(FieldValue::Either(before));
                } else if !before.is_empty() {
                    keys.push(TEXT);
                    values.push(FieldValue::Text(before));
                }
                keys.push(&text[word..at]);
                begin = at + 1;
            }
            // `a==b` is not a key.
            b'=' => word = at + 1,
            _ => {}
        }
    }
    if !keys.is_empty() {
        values.push(FieldValue::Either(value(&text[begin..])));
    }
    !keys.is_empty()
}

/// A value without what separates it from the next key.
fn value(text: &[u8]) -> &[u8] {
    let text = text.trim_ascii();
    text.strip_suffix(b",").or_else(|| text.strip_suffix(b";")).unwrap_or(text)
}

/// `key: value, key: value`, and nothing else.
fn by_commas<'a>(text: &'a [u8], keys: &mut Vec<&'a [u8]>, values: &mut Vec<FieldValue<'a>>) -> bool {
    keys.clear();
    values.clear();
    if text.is_empty() {
        return true;
    }
    let (mut begin, mut depth) = (0, 0u32);
    let mut put = |item: &'a [u8]| {
        let item = item.trim_ascii();
        let Some(colon) = memchr::memchr(b':', item).filter(|at| is_key(&item[..*at]) && keys.len() < MAX_KEYS) else {
            return false;
        };
        let Some(value) = item[colon + 1..].strip_prefix(b" ") else { return false };
        keys.push(&item[..colon]);
        values.push(FieldValue::Either(value.trim_ascii()));
        true
    };
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 && text.get(at + 1) == Some(&b' ') => {
                if !put(&text[begin..at]) {
                    return false;
                }
                begin = at + 1;
            }
            _ => {}
        }
    }
    put(&text[begin..])
}

/// Forms of the values of a field in all lines of its class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct ValueForms(u8);

impl ValueForms {
    const TEXT: u8 = 1;
    const NEGATIVE: u8 = 1 << 1;
    /// Above the largest signed number.
    const LARGE: u8 = 1 << 2;
    const DECIMAL: u8 = 1 << 3;
    /// After `0x`, or in an event whose numbers are all hexadecimal.
    const HEX: u8 = 1 << 4;
    /// Sixteen hexadecimal digits, as the kernel prints pointers; with a letter among them.
    const POINTER: u8 = 1 << 5;
    /// Sixteen hexadecimal digits without a letter: a pointer, or a number.
    const MAYBE_POINTER: u8 = 1 << 6;

    /// Takes in a value. `is_hex`: numbers of the event are hexadecimal without `0x`.
    #[inline]
    pub(super) fn add(&mut self, text: &[u8], is_hex: bool) {
        self.0 |= ValueForms::detect(text, is_hex);
    }

    /// Takes in those of other lines.
    pub(super) fn join(&mut self, other: ValueForms) {
        self.0 |= other.0;
    }

    #[inline]
    fn detect(text: &[u8], is_hex: bool) -> u8 {
        if let Some(rest) = text.strip_prefix(b"0x") {
            return if matches!(hex(rest), Some((_, b""))) { ValueForms::HEX } else { ValueForms::TEXT };
        }
        if is_hex {
            return if matches!(hex(text), Some((_, b""))) { ValueForms::HEX } else { ValueForms::TEXT };
        }
        let (is_negative, digits) = match text.strip_prefix(b"-") {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        if digits.is_empty() {
            return ValueForms::TEXT;
        }
        if digits.iter().all(u8::is_ascii_digit) {
            let Some(size) = decimal(digits) else { return ValueForms::TEXT };
            return match (is_negative, size > i64::MAX as u64) {
                // A zero with a sign or before other digits is not written by `%d`; the text is kept as it is.
                _ if digits.len() > 1 && digits[0] == b'0' && digits.len() != 16 && digits.len() > 3 => {
                    ValueForms::TEXT
                }
                (true, true) => ValueForms::TEXT,
                (true, false) => ValueForms::DECIMAL | ValueForms::NEGATIVE,
                (false, true) => ValueForms::DECIMAL | ValueForms::LARGE,
                (false, false) if digits.len() == 16 => ValueForms::MAYBE_POINTER,
                (false, false) => ValueForms::DECIMAL,
            };
        }
        if text.len() == 16 && text.iter().all(u8::is_ascii_hexdigit) {
            return ValueForms::POINTER;
        }
        ValueForms::TEXT
    }

    /// The type of the field.
    pub(super) fn finish(self) -> FieldType {
        let has = |form: u8| self.0 & form != 0;
        let is_pointer = has(ValueForms::POINTER);
        match () {
            () if has(ValueForms::TEXT) || self.0 == 0 => FieldType::Text,
            () if is_pointer && has(ValueForms::DECIMAL) => FieldType::Text,
            () if is_pointer => FieldType::Hex,
            () if has(ValueForms::HEX) && !has(ValueForms::DECIMAL | ValueForms::MAYBE_POINTER) => FieldType::Hex,
            // Hexadecimal values may be larger than a signed number.
            () if has(ValueForms::NEGATIVE) && has(ValueForms::LARGE | ValueForms::HEX) => FieldType::Text,
            () if has(ValueForms::LARGE | ValueForms::HEX) => FieldType::U64,
            () => FieldType::I64,
        }
    }
}

fn decimal(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The number of a value whose field is of this type.
#[inline]
pub(super) fn number_of(text: &[u8], of: FieldType) -> Option<u64> {
    if let Some(digits) = text.strip_prefix(b"0x") {
        return hex(digits).map(|(value, _)| value);
    }
    if of == FieldType::Hex {
        return hex(text).map(|(value, _)| value);
    }
    match text.strip_prefix(b"-") {
        Some(digits) => decimal(digits).map(u64::wrapping_neg),
        None => match super::line::number(text) {
            Some((value, b"")) => Some(value),
            _ => decimal(text),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(form: EventForm, text: &str) -> String {
        let event = LineEvent { form, name: b"e", fields: text.as_bytes() };
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        divide(&event, &mut keys, &mut values);
        assert_eq!(keys.len(), values.len());
        let value = |value: &FieldValue<'_>| match value {
            FieldValue::Either(text) => String::from_utf8_lossy(text).into_owned(),
            FieldValue::Text(text) => format!("'{}'", String::from_utf8_lossy(text)),
            _ => String::new(),
        };
        let pair = |(key, of): (&&[u8], _)| format!("{}:{}", String::from_utf8_lossy(key), value(of));
        keys.iter().zip(&values).map(pair).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn texts_are_divided_at_their_keys() {
        let named = |text| shown(EventForm::Named, text);
        assert_eq!(named("a=1 b=two words c=3"), "a:1|b:two words|c:3");
        assert_eq!(named("dev 8,0 ino=1, dir=0x2"), "text:'dev 8,0'|ino:1|dir:0x2");
        assert_eq!(named("flags={A|x=1} r=(y=2) s=[]"), "flags:{A|x=1}|r:(y=2)|s:[]");
        assert_eq!(named("dfd: 0xff, filename: 0x7f, flags: 0x1"), "dfd:0xff|filename:0x7f|flags:0x1");
        assert_eq!(named("a: 1, b"), "text:'a: 1, b'");
        assert_eq!(named("x == y"), "text:'x == y'");
        assert_eq!(named("1=2"), "text:'1=2'");
        assert_eq!(named(""), "");
        assert_eq!(shown(EventForm::SysEnter, "fd: 3, buf: 7ffd, count: 10"), "fd:3|buf:7ffd|count:10");
        assert_eq!(shown(EventForm::Other, "a=1"), "text:'a=1'");
    }

    #[test]
    fn a_field_is_a_number_when_all_its_values_are() {
        let of = |texts: &[&str]| {
            let mut forms = ValueForms::default();
            texts.iter().for_each(|text| forms.add(text.as_bytes(), false));
            forms.finish()
        };
        assert_eq!(of(&["1", "-2"]), FieldType::I64);
        assert_eq!(of(&["1", "18446744073709551615"]), FieldType::U64);
        assert_eq!(of(&["-1", "18446744073709551615"]), FieldType::Text);
        assert_eq!(of(&["0x1", "0xff"]), FieldType::Hex);
        assert_eq!(of(&["1", "0xff"]), FieldType::U64);
        assert_eq!(of(&["00000000deadbeef", "0000000012345678"]), FieldType::Hex);
        assert_eq!(of(&["00000000deadbeef", "1"]), FieldType::Text);
        assert_eq!(of(&["1", "x"]), FieldType::Text);
        assert_eq!(of(&["007"]), FieldType::I64);
        assert_eq!(of(&["0x"]), FieldType::Text);
        for (text, number) in [("-2", -2i64 as u64), ("0x10", 16), ("18446744073709551615", u64::MAX)] {
            assert_eq!(number_of(text.as_bytes(), FieldType::I64), Some(number), "{text}");
        }
    }
}
