//! Columns of a file that shows itself (`convert --to html`): lines of events as shapes and values, numbers as varints.
//!
//! The texts of an event hardly differ from those of the next one of its class. So a text is divided into what stands
//! between values, and values: events with the same of the former have one *shape*, which is stored once, and each place of
//! a value is a column. A value that stands in several texts of an event is stored once. What is put together again is the
//! same, byte for byte, so the meaning of a line does not matter.

use std::collections::HashMap;

use tracemill_codec::bits::{put_leb, take_leb};

/// Stands for a value in a shape.
const HOLE: char = '\u{1}';

/// Texts of an event: its line as JSON, its payload as `print` shows it, and its cycles, title and fields.
pub(crate) const TEXTS: usize = 3;

/// Values of a text at most: one with more, such as a long array, is a value as a whole.
const MAX_VALUES: usize = 256;

/// Columns that a new shape may take a value from, of those that have the same.
const MAX_CANDIDATES: usize = 8;

/// Ways in which a column is stored.
mod form {
    pub(super) const SAME: u8 = 0;
    pub(super) const NUMBERS: u8 = 1;
    pub(super) const STEPS: u8 = 2;
    /// Numbers less the time of the event, then steps.
    pub(super) const BESIDE_TIME: u8 = 3;
    pub(super) const WORDS: u8 = 4;
    pub(super) const LIST: u8 = 5;
    /// The content of a column of the first text.
    pub(super) const AS: u8 = 6;
    /// The same as a hexadecimal number.
    pub(super) const AS_HEX: u8 = 7;
}

/// Bytes of a file, as the page reads them.
#[derive(Default)]
pub(crate) struct PackedBytes(pub(crate) Vec<u8>);

impl PackedBytes {
    pub(crate) fn number(&mut self, mut number: u128) {
        // Steps between numbers of 64 bits may be longer.
        while number > u64::MAX.into() {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        put_leb(&mut self.0, number as u64, false);
    }

    pub(crate) fn signed(&mut self, number: i128) {
        self.number(zigzag(number));
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.number(text.len() as u128);
        self.0.extend_from_slice(text.as_bytes());
    }

    /// A part that can be passed over.
    pub(crate) fn part(&mut self, write: impl FnOnce(&mut PackedBytes)) {
        let mut part = PackedBytes::default();
        write(&mut part);
        self.number(part.0.len() as u128);
        self.0.append(&mut part.0);
    }
}

/// A number with a sign as one without: small ones stay small.
pub(crate) fn zigzag(number: i128) -> u128 {
    ((number << 1) ^ (number >> 127)) as u128
}

/// Bytes of a number.
fn size(number: u128) -> u64 {
    u64::from((128 - number.leading_zeros()).div_ceil(7).max(1))
}

/// Values of one place, in the order of events: each with its length before it.
#[derive(Default)]
struct PackedValues(PackedBytes);

impl PackedValues {
    fn iter(&self) -> impl Iterator<Item = &str> {
        let mut rest = &*self.0.0;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let length = take_leb(&mut rest) as usize;
            let (value, behind) = rest.split_at_checked(length)?;
            rest = behind;
            // Only texts were put there.
            std::str::from_utf8(value).ok()
        })
    }
}

/// Events whose texts differ in values only.
struct LineShape {
    /// The texts, with holes.
    between: [String; TEXTS],
    /// By text and place.
    values: [Vec<PackedValues>; TEXTS],
    /// By text and place: the columns of the first text, in it the earlier ones, that had the same value so far, perhaps as
    /// hexadecimal numbers.
    same: [Vec<Vec<(usize, bool)>>; TEXTS],
    /// Times of its events since the origin; 0 without one.
    times: Vec<i64>,
}

/// The texts of events, in their order.
#[derive(Default)]
pub(crate) struct PackedLines {
    shapes: Vec<LineShape>,
    known: HashMap<String, usize>,
    /// By event: its shape and its kind.
    of: Vec<(usize, usize)>,
    /// Bytes of memory that all of it takes, about.
    held_bytes: usize,
}

/// A text with holes, and what stands in them: strings between quotes that are no keys, and what begins as a number. A
/// text with too many is one hole.
fn divided(text: &str) -> (String, Vec<&str>) {
    let whole = || (HOLE.to_string(), vec![text]);
    if text.contains(HOLE) {
        return whole();
    }
    let (mut between, mut values) = (String::new(), Vec::new());
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if values.len() > MAX_VALUES {
            return whole();
        }
        match bytes[at] {
            b'"' => {
                let from = at + 1;
                let mut end = from;
                while end < bytes.len() && bytes[end] != b'"' {
                    end += if bytes[end] == b'\\' { 2 } else { 1 };
                }
                let mut end = end.min(bytes.len());
                while !text.is_char_boundary(end) {
                    end += 1;
                }
                let is_key = bytes.get(end + 1) == Some(&b':');
                between.push('"');
                if is_key || end == from {
                    between.push_str(&text[from..end]);
                } else {
                    between.push(HOLE);
                    values.push(&text[from..end]);
                }
                if end < bytes.len() {
                    between.push('"');
                }
                at = end + 1;
            }
            // The sign belongs to the number after it.
            sign if sign.is_ascii_digit() || sign == b'-' && bytes.get(at + 1).is_some_and(u8::is_ascii_digit) => {
                let from = at;
                at += 1;
                while bytes.get(at).is_some_and(|sign| sign.is_ascii_alphanumeric() || b"._+-".contains(sign)) {
                    at += 1;
                }
                between.push(HOLE);
                values.push(&text[from..at]);
            }
            sign if sign.is_ascii_alphabetic() || sign == b'_' => {
                // Digits of a name are no number.
                let from = at;
                while bytes.get(at).is_some_and(|sign| sign.is_ascii_alphanumeric() || *sign == b'_') {
                    at += 1;
                }
                between.push_str(&text[from..at]);
            }
            _ => {
                let from = at;
                at += 1;
                while !text.is_char_boundary(at) {
                    at += 1;
                }
                between.push_str(&text[from..at]);
            }
        }
    }
    (between, values)
}

/// The number that a text is, written as numbers are.
fn number(text: &str) -> Option<i128> {
    let first = text.strip_prefix('-').unwrap_or(text).bytes().next()?;
    if text.len() > 20 || !first.is_ascii_digit() {
        return None;
    }
    let number: i128 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

fn is_hex(text: &str, of: &str) -> bool {
    text.starts_with("0x") && number(of).is_some_and(|number| number >= 0 && format!("{number:#X}")[2..] == text[2..])
}

impl PackedLines {
    pub(crate) fn len(&self) -> usize {
        self.of.len()
    }

    /// Bytes of memory that all of it takes, about.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// The texts of the next event, whose time since the origin is `time`. Events of a kind mostly have one shape.
    pub(crate) fn push(&mut self, texts: [&str; TEXTS], time: i64, kind: usize) {
        let [first, second, third] = texts.map(divided);
        let key = format!("{}\n{}\n{}", first.0, second.0, third.0);
        let divided = [first, second, third];
        let next = self.shapes.len();
        let number = *self.known.entry(key).or_insert(next);
        if number == next {
            let candidates = |text: usize, place: usize, value: &str| {
                let count = if text == 0 { place } else { divided[0].1.len() };
                let all = divided[0].1[..count].iter().enumerate();
                let same = all.clone().filter(|(_, of)| **of == value).map(|(at, _)| (at, false));
                let hex = all.filter(|(_, of)| is_hex(value, of)).map(|(at, _)| (at, true));
                same.take(MAX_CANDIDATES).chain(hex.take(MAX_CANDIDATES)).collect()
            };
            let of_text = |text: usize| {
                let values = divided[text].1.iter().enumerate();
                values.map(|(place, value)| candidates(text, place, value)).collect()
            };
            self.shapes.push(LineShape {
                between: [0, 1, 2].map(|text| divided[text].0.clone()),
                values: [0, 1, 2].map(|text| divided[text].1.iter().map(|_| PackedValues::default()).collect()),
                same: [0, 1, 2].map(of_text),
                times: Vec::new(),
            });
        }
        if number == next {
            let shape = &self.shapes[number];
            let columns = shape.same.iter().flatten();
            self.held_bytes += columns.map(|same| 64 + 16 * same.capacity()).sum::<usize>();
            self.held_bytes += 256 + 2 * shape.between.iter().map(String::len).sum::<usize>();
        }
        self.held_bytes +=
            24 + divided.iter().flat_map(|(_, values)| values).map(|value| value.len() + 1).sum::<usize>();
        self.of.push((number, kind));
        let shape = &mut self.shapes[number];
        shape.times.push(time);
        let firsts = &divided[0].1;
        for (text, (_, values)) in divided.iter().enumerate() {
            let columns = shape.values[text].iter_mut().zip(&mut shape.same[text]);
            for ((column, same), value) in columns.zip(values) {
                same.retain(|(at, hex)| if *hex { is_hex(value, firsts[*at]) } else { firsts[*at] == *value });
                // It may be needed when a later value differs.
                column.0.text(value);
            }
        }
    }

    /// All of them: shapes, columns, and the shape of each event.
    pub(crate) fn write(&self, out: &mut PackedBytes) {
        out.number(self.shapes.len() as u128);
        self.shapes.iter().for_each(|shape| shape.write(out));
        self.write_shapes(out);
    }

    /// The same, which frees what is written.
    pub(crate) fn write_out(mut self, out: &mut PackedBytes) {
        out.number(self.shapes.len() as u128);
        std::mem::take(&mut self.shapes).into_iter().for_each(|shape| shape.write(out));
        self.write_shapes(out);
    }

    fn write_shapes(&self, out: &mut PackedBytes) {
        // 0: as the one before of its kind.
        let mut last: HashMap<usize, usize> = HashMap::new();
        for (shape, kind) in &self.of {
            let is_same = last.insert(*kind, *shape) == Some(*shape);
            out.number(if is_same { 0 } else { *shape as u128 + 1 });
        }
    }
}

impl LineShape {
    fn write(&self, out: &mut PackedBytes) {
        self.between.iter().for_each(|text| out.text(text));
        out.number(self.times.len() as u128);
        for text in 0..TEXTS {
            for (place, column) in self.values[text].iter().enumerate() {
                let same = self.same[text].get(place).and_then(|same| same.first());
                out.part(|out| self.column(column, same, out));
            }
        }
    }

    fn column(&self, values: &PackedValues, same: Option<&(usize, bool)>, out: &mut PackedBytes) {
        let first = values.iter().next().unwrap_or_default();
        if values.iter().all(|value| value == first) {
            out.0.push(form::SAME);
            return out.text(first);
        }
        if let Some((at, hex)) = same {
            out.0.push(if *hex { form::AS_HEX } else { form::AS });
            return out.number(*at as u128);
        }
        let numbers: Option<Vec<i128>> = values.iter().map(number).collect();
        if let Some(numbers) = numbers {
            let times: Vec<i128> = self.times.iter().map(|time| i128::from(*time)).collect();
            let beside: Vec<i128> = numbers.iter().zip(&times).map(|(number, time)| number - time).collect();
            let steps = |numbers: &[i128]| -> Vec<i128> {
                let before = std::iter::once(0).chain(numbers.iter().copied());
                numbers.iter().zip(before).map(|(number, before)| number - before).collect()
            };
            let forms =
                [(form::NUMBERS, numbers.clone()), (form::STEPS, steps(&numbers)), (form::BESIDE_TIME, steps(&beside))];
            let cost = |numbers: &[i128]| {
                // A value equal to the one before it hardly costs anything.
                let before = std::iter::once(None).chain(numbers.iter().map(Some));
                numbers.iter().zip(before).map(|(n, b)| if Some(n) == b { 0 } else { size(zigzag(*n)) }).sum::<u64>()
            };
            if let Some((form, numbers)) = forms.iter().min_by_key(|(_, numbers)| cost(numbers)) {
                out.0.push(*form);
                numbers.iter().for_each(|number| out.signed(*number));
            }
            return;
        }
        let mut words: HashMap<&str, usize> = HashMap::new();
        let (mut list, mut places) = (Vec::new(), Vec::with_capacity(self.times.len()));
        for value in values.iter() {
            let next = words.len();
            places.push(*words.entry(value).or_insert_with(|| {
                list.push(value);
                next
            }));
        }
        if list.len() * 2 > places.len() {
            out.0.push(form::LIST);
            return values.iter().for_each(|value| out.text(value));
        }
        out.0.push(form::WORDS);
        out.number(list.len() as u128);
        list.iter().for_each(|word| out.text(word));
        places.iter().for_each(|place| out.number(*place as u128));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_strings_and_numbers() {
        let (between, values) = divided(r#"{"n":-12,"a1":"x\"y","e":"","f":[1e-5,0x1F], rx-0 é"#);
        assert_eq!(between, "{\"n\":\u{1},\"a1\":\"\u{1}\",\"e\":\"\",\"f\":[\u{1},\u{1}], rx\u{1} é");
        assert_eq!(values, ["-12", r#"x\"y"#, "1e-5", "0x1F", "-0"]);
        for text in ["\"", "\"\\", "-", "é", "a\u{1}b", "\"é", "\"\\é\"1"] {
            let (between, values) = divided(text);
            let mut values = values.into_iter();
            let whole: String = between
                .chars()
                .map(|sign| if sign == HOLE { values.next().unwrap_or("?").to_string() } else { sign.to_string() })
                .collect();
            assert_eq!(whole, text);
        }
    }

    #[test]
    fn numbers_are_those_that_are_written_alike() {
        assert_eq!(["0", "-5", "18446744073709551615"].map(number), [Some(0), Some(-5), Some(u64::MAX.into())]);
        assert_eq!(["", "-", "-0", "007", "+1", "1.5", "0x1"].map(number), [None; 7]);
        assert!(is_hex("0x1F", "31") && !is_hex("0x1f", "31") && !is_hex("0x1F", "-31"));
    }
}
