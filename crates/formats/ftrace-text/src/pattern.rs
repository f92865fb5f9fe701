//! The texts in which kernels and trace-cmd print the fields of an event, as patterns.
//!
//! A pattern is the text with a `{name:type}` for each field. What fits a pattern as a whole has the fields of it, in its
//! order; an event may have several patterns.

use memchr::memchr;

use super::line::number;

/// Texts that fields may end at are tried this many times for a line; a line that needs more is divided in the general way.
const MAX_TRIES: u32 = 64;

/// Type of a field.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum FieldType {
    /// A signed integer of 32 bits.
    I32,
    /// An unsigned integer of 32 bits.
    U32,
    /// A signed integer of 64 bits.
    I64,
    /// An unsigned integer of 64 bits.
    U64,
    /// An unsigned integer of 64 bits that is shown in base 16.
    Hex,
    /// A text up to what follows it in the pattern.
    Text,
    /// Six arguments of a system call.
    Arguments,
    /// A list of texts.
    Texts,
}

/// How the text of a field is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FieldForm {
    /// Decimal digits, or hexadecimal ones after `0x`.
    Number,
    /// Hexadecimal digits, with or without `0x`.
    Hex,
    /// A result in hexadecimal digits, or a decimal one.
    Result,
    /// Letters of the state of a task, as the kernel prints them.
    State,
    /// The same, as trace-cmd prints them.
    PluginState,
    /// Major and minor number of a device.
    Device,
    /// `handled` or `unhandled`.
    Handled,
    /// `begin` or `end`.
    Begin,
    /// Names of the kinds of a lock for which a thread waits, with `|` between them.
    Contention,
    /// How a lock is taken: `try `, `read `, both, or nothing.
    Taking,
    /// A text.
    Text,
    /// A text without blanks.
    Word,
    /// Six hexadecimal numbers with commas between them.
    Arguments,
    /// A text that is not kept.
    Skipped,
}

/// The value of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FieldValue<'a> {
    /// A number, in two's complement.
    Number(u64),
    /// A text.
    Text(&'a [u8]),
    /// A text that may be a number: its class decides.
    Either(&'a [u8]),
    /// Six arguments.
    Arguments([u64; 6]),
    /// Lines with a text each.
    Lines(&'a [u8]),
}

#[derive(Clone, Debug)]
enum PatternStep {
    Literal(&'static [u8]),
    Field { form: FieldForm, of: FieldType },
}

/// A pattern, ready to be compared.
#[derive(Clone, Debug)]
pub(super) struct TextPattern {
    steps: Vec<PatternStep>,
    /// Names and types of the fields that are kept.
    pub(super) fields: Vec<(&'static str, FieldType)>,
}

impl TextPattern {
    /// Makes a pattern ready. Texts of the table in `known.rs`: a type that does not exist is a mistake there, which a test
    /// finds.
    pub(super) fn new(text: &'static str) -> Option<TextPattern> {
        let (mut steps, mut fields, mut rest) = (Vec::new(), Vec::new(), text);
        while let Some(open) = rest.find('{') {
            if open > 0 {
                steps.push(PatternStep::Literal(&rest.as_bytes()[..open]));
            }
            let close = open + rest[open..].find('}')?;
            let (name, word) = rest[open + 1..close].split_once(':')?;
            let (form, of) = match word {
                "i32" => (FieldForm::Number, FieldType::I32),
                "u32" => (FieldForm::Number, FieldType::U32),
                "i64" => (FieldForm::Number, FieldType::I64),
                "u64" => (FieldForm::Number, FieldType::U64),
                "hex" => (FieldForm::Hex, FieldType::Hex),
                "ret" => (FieldForm::Result, FieldType::I64),
                "state" => (FieldForm::State, FieldType::I64),
                "plugin-state" => (FieldForm::PluginState, FieldType::I64),
                "dev" => (FieldForm::Device, FieldType::U32),
                "handled" => (FieldForm::Handled, FieldType::I32),
                "begin" => (FieldForm::Begin, FieldType::U32),
                "contention" => (FieldForm::Contention, FieldType::U32),
                "taking" => (FieldForm::Taking, FieldType::U32),
                "text" => (FieldForm::Text, FieldType::Text),
                "word" => (FieldForm::Word, FieldType::Text),
                "args" => (FieldForm::Arguments, FieldType::Arguments),
                "skip" => (FieldForm::Skipped, FieldType::Text),
                _ => return None,
            };
            steps.push(PatternStep::Field { form, of });
            if form != FieldForm::Skipped {
                fields.push((name, of));
            }
            rest = &rest[close + 1..];
        }
        if !rest.is_empty() {
            steps.push(PatternStep::Literal(rest.as_bytes()));
        }
        Some(TextPattern { steps, fields })
    }

    /// The values of a text that fits as a whole.
    #[inline]
    pub(super) fn read<'a>(&self, text: &'a [u8], values: &mut Vec<FieldValue<'a>>) -> bool {
        values.clear();
        read_steps(&self.steps, text, values, &mut MAX_TRIES.clone())
    }
}

fn read_steps<'a>(
    mut steps: &[PatternStep],
    mut text: &'a [u8],
    values: &mut Vec<FieldValue<'a>>,
    tries: &mut u32,
) -> bool {
    while let Some((step, next)) = steps.split_first() {
        steps = next;
        let (form, of) = match step {
            PatternStep::Literal(literal) => {
                let Some(rest) = text.strip_prefix(*literal) else { return false };
                text = rest;
                continue;
            }
            PatternStep::Field { form, of } => (*form, *of),
        };
        if matches!(form, FieldForm::Text | FieldForm::Skipped) {
            let put = |values: &mut Vec<FieldValue<'a>>, value: &'a [u8]| {
                if form == FieldForm::Text {
                    values.push(FieldValue::Text(value));
                }
            };
            let Some((PatternStep::Literal(literal), behind)) = steps.split_first() else {
                put(values, text);
                return steps.is_empty();
            };
            let (count, mut from) = (values.len(), 0);
            while let Some(at) = find(&text[from..], literal).map(|at| from + at) {
                if *tries == 0 {
                    return false;
                }
                *tries -= 1;
                values.truncate(count);
                put(values, &text[..at]);
                if read_steps(behind, &text[at + literal.len()..], values, tries) {
                    return true;
                }
                from = at + 1;
            }
            return false;
        }
        let Some((value, rest)) = read_value(form, of, text) else { return false };
        values.push(value);
        text = rest;
    }
    text.is_empty()
}

/// The first place of a short text in another.
#[inline]
fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    let (first, mut from) = (*wanted.first()?, 0);
    while let Some(step) = memchr(first, &text[from..]) {
        if text[from + step..].starts_with(wanted) {
            return Some(from + step);
        }
        from += step + 1;
    }
    None
}

#[inline]
fn read_value(form: FieldForm, of: FieldType, text: &[u8]) -> Option<(FieldValue<'_>, &[u8])> {
    let (value, rest) = match form {
        FieldForm::Number => {
            // Some texts are columns.
            let text = text.trim_ascii_start();
            let (is_negative, digits) = match text.strip_prefix(b"-") {
                Some(rest) => (true, rest),
                None => (false, text),
            };
            let (size, rest) = match digits.strip_prefix(b"0x") {
                Some(rest) => hex(rest)?,
                None => decimal(digits)?,
            };
            (fitting(of, is_negative, size)?, rest)
        }
        FieldForm::Hex => hex(text.strip_prefix(b"0x").unwrap_or(text))?,
        FieldForm::Result => match text.strip_prefix(b"0x") {
            Some(rest) => hex(rest)?,
            None => return read_value(FieldForm::Number, of, text),
        },
        FieldForm::State => state(text, KERNEL_STATES)?,
        FieldForm::PluginState => state(text, PLUGIN_STATES)?,
        FieldForm::Device => {
            let (major, rest) = number(text)?;
            let (minor, rest) = number(rest.strip_prefix(b",")?)?;
            // As the kernel keeps them: 20 bits of the minor number (`include/linux/kdev_t.h`).
            (major.checked_mul(1 << 20).filter(|_| major < 1 << 12 && minor < 1 << 20)? | minor, rest)
        }
        FieldForm::Handled => match text.strip_prefix(b"handled") {
            Some(rest) => (1, rest),
            None => (0, text.strip_prefix(b"unhandled")?),
        },
        FieldForm::Begin => match text.strip_prefix(b"begin") {
            Some(rest) => (1, rest),
            None => (0, text.strip_prefix(b"end")?),
        },
        FieldForm::Contention => contention(text)?,
        FieldForm::Taking => {
            let (is_try, rest) = text.strip_prefix(b"try ").map_or((0, text), |rest| (1, rest));
            let (is_read, rest) = rest.strip_prefix(b"read ").map_or((0, rest), |rest| (2, rest));
            (is_try | is_read, rest)
        }
        FieldForm::Arguments => {
            let (mut all, mut rest) = ([0; 6], text);
            for (at, one) in all.iter_mut().enumerate() {
                let digits = if at == 0 { rest } else { rest.strip_prefix(b", ")? };
                (*one, rest) = hex(digits.strip_prefix(b"0x").unwrap_or(digits))?;
            }
            return Some((FieldValue::Arguments(all), rest));
        }
        FieldForm::Text | FieldForm::Word | FieldForm::Skipped => {
            let len = memchr(b' ', text).unwrap_or(text.len());
            return (len > 0).then(|| (FieldValue::Text(&text[..len]), &text[len..]));
        }
    };
    Some((FieldValue::Number(value), rest))
}

/// Decimal digits of a number of 64 bits.
#[inline]
fn decimal(text: &[u8]) -> Option<(u64, &[u8])> {
    if let Some(found) = number(text) {
        return Some(found);
    }
    let len = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let value = std::str::from_utf8(&text[..len]).ok()?.parse().ok()?;
    Some((value, &text[len..]))
}

/// Hexadecimal digits of a number of 64 bits.
#[inline]
pub(super) fn hex(text: &[u8]) -> Option<(u64, &[u8])> {
    let (mut value, mut at) = (0u64, 0);
    while let Some(digit) = text.get(at).and_then(|byte| (*byte as char).to_digit(16)) {
        if value >> 60 != 0 {
            return None;
        }
        value = value << 4 | u64::from(digit);
        at += 1;
    }
    (at > 0).then(|| (value, &text[at..]))
}

/// The number in two's complement, when it is one of the type.
#[inline]
fn fitting(of: FieldType, is_negative: bool, size: u64) -> Option<u64> {
    let most = match (of, is_negative) {
        // trace-cmd prints some of them without their sign.
        (FieldType::I32, false) => u32::MAX.into(),
        (FieldType::I32, true) => 1 << 31,
        (FieldType::U32, false) => u32::MAX.into(),
        (FieldType::I64, false) => i64::MAX as u64,
        (FieldType::I64, true) => 1 << 63,
        (FieldType::U64, false) => u64::MAX,
        _ => 0,
    };
    (size <= most).then(|| if is_negative { size.wrapping_neg() } else { size })
}

/// Letters of the states of tasks and their bits (`include/linux/sched.h`). Kernels before 4.14 showed further ones after
/// others.
const KERNEL_STATES: &[(u8, u64)] = &[
    (b'R', 0),
    (b'S', 1),
    (b'D', 2),
    (b'T', 4),
    (b't', 8),
    (b'X', 16),
    (b'Z', 32),
    (b'P', 64),
    (b'x', 64),
    (b'I', 128),
    (b'K', 128),
    (b'W', 256),
    (b'N', 1024),
];
/// The letters of trace-cmd's plugin, which are those of kernels before 3.14.
const PLUGIN_STATES: &[(u8, u64)] =
    &[(b'R', 0), (b'S', 1), (b'D', 2), (b'T', 4), (b't', 8), (b'Z', 16), (b'X', 32), (b'x', 64), (b'W', 128)];

/// The bits of the state of a task, of letters with `|` between them. The `+` of a task that was preempted is the bit after
/// those of states, where kernels since 4.14 have it.
fn state<'a>(text: &'a [u8], letters: &[(u8, u64)]) -> Option<(u64, &'a [u8])> {
    if let Some((value, rest)) = text.strip_prefix(b"0x").and_then(hex).or_else(|| number(text)) {
        return Some((value, rest));
    }
    let (mut bits, mut at) = (0u64, 0);
    loop {
        let letter = text.get(at)?;
        bits |= letters.iter().find(|(of, _)| of == letter)?.1;
        at += 1;
        match text.get(at) {
            Some(b'|') => at += 1,
            Some(b'+') => return Some((bits | 256, &text[at + 1..])),
            _ => return Some((bits, &text[at..])),
        }
    }
}

/// Names of the kinds of locks and their bits (`include/trace/events/lock.h`).
const CONTENTION_FLAGS: &[(&[u8], u64)] =
    &[(b"SPIN", 1), (b"READ", 2), (b"WRITE", 4), (b"RT", 8), (b"PERCPU", 16), (b"MUTEX", 32)];

/// The bits of the kind of a lock: names, and a number for bits that have none, with `|` between them. A semaphore has none.
fn contention(mut text: &[u8]) -> Option<(u64, &[u8])> {
    let mut bits = 0;
    while let Some(first) = text.first().filter(|first| **first != b')') {
        let (of, rest) = if first.is_ascii_digit() {
            let digits = text.strip_prefix(b"0x");
            digits.map_or_else(|| decimal(text), hex).filter(|(of, _)| u32::try_from(*of).is_ok())?
        } else {
            let len = text.iter().position(|byte| !byte.is_ascii_uppercase()).unwrap_or(text.len());
            let (_, of) = CONTENTION_FLAGS.iter().find(|(name, _)| *name == &text[..len])?;
            (*of, &text[len..])
        };
        bits |= of;
        text = match rest.strip_prefix(b"|") {
            Some(rest) if rest.first().is_some_and(|next| *next != b')') => rest,
            Some(_) => return None,
            None => return Some((bits, rest)),
        };
    }
    Some((bits, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<'a>(pattern: &'static str, text: &'a str) -> Option<Vec<FieldValue<'a>>> {
        let mut values = Vec::new();
        TextPattern::new(pattern).expect("a pattern").read(text.as_bytes(), &mut values).then_some(values)
    }

    #[test]
    fn a_text_ends_where_the_rest_fits() {
        let pattern = "{comm:text}:{pid:i32} [{prio:i32}]";
        let want = |comm, pid| Some(vec![FieldValue::Text(comm), FieldValue::Number(pid), FieldValue::Number(120)]);
        assert_eq!(read(pattern, "bash:7 [120]"), want(b"bash", 7));
        assert_eq!(read(pattern, "kworker/u8:1:7 [120]"), want(b"kworker/u8:1", 7));
        assert_eq!(read(pattern, "a:1 [2:8 [120]"), want(b"a:1 [2", 8));
        assert_eq!(read(pattern, "bash:7 [120] x"), None);
        assert_eq!(read(pattern, &":".repeat(100_000)), None);
    }

    #[test]
    fn numbers_fit_their_types() {
        assert_eq!(read("{a:i32}", "-2147483648"), Some(vec![FieldValue::Number(-2147483648i64 as u64)]));
        assert_eq!(read("{a:i32}", "4294967295"), Some(vec![FieldValue::Number(u32::MAX.into())]));
        assert_eq!(read("{a:i32}", "4294967296"), None);
        assert_eq!(read("{a:u64}", "18446744073709551615"), Some(vec![FieldValue::Number(u64::MAX)]));
        assert_eq!(read("{a:u64}", "18446744073709551616"), None);
        assert_eq!(read("{a:ret}", "0xfffffffffffffffe"), Some(vec![FieldValue::Number(-2i64 as u64)]));
        assert_eq!(read("{a:hex}", "ffffffffffffffff0"), None);
        assert_eq!(read("{a:dev}", "8,16"), Some(vec![FieldValue::Number(8 << 20 | 16)]));
    }

    #[test]
    fn numbers_may_be_in_columns() {
        let values = read("{a:u32}:{b:u32}:{c:state} ==> [{d:u32}]{e:u32}:{f:u32}", "0:120:R ==> [003]  2448: 94");
        let numbers: Vec<_> = [0, 120, 0, 3, 2448, 94].map(FieldValue::Number).to_vec();
        assert_eq!(values, Some(numbers));
    }

    #[test]
    fn states_are_those_of_the_kernel() {
        let of = |text| match read("{s:state}", text)?[0] {
            FieldValue::Number(bits) => Some(bits),
            _ => None,
        };
        let cases = [("R", 0), ("R+", 256), ("S", 1), ("D|K", 130), ("t", 8), ("I", 128), ("Z", 32), ("0x402", 1026)];
        for (text, bits) in cases {
            assert_eq!(of(text), Some(bits), "{text}");
        }
        assert_eq!(of("Q"), None);
        assert_eq!(read("{s:plugin-state}", "Z"), Some(vec![FieldValue::Number(16)]));
    }

    #[test]
    fn kinds_of_locks_are_those_of_the_kernel() {
        let of = |text| match read("({f:contention})", text)?[0] {
            FieldValue::Number(bits) => Some(bits),
            _ => None,
        };
        let cases =
            [("()", 0), ("(SPIN)", 1), ("(READ|RT)", 10), ("(PERCPU|WRITE)", 20), ("(MUTEX|0x40)", 96), ("(33)", 33)];
        for (text, bits) in cases {
            assert_eq!(of(text), Some(bits), "{text}");
        }
        for text in ["(LOCK)", "(SPIN|)", "(|SPIN)", "(SPIN", "(0x)", "(0x100000000)"] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn locks_are_taken_as_the_text_says() {
        let pattern = "{a:hex} {flags:taking}{name:text}";
        let want =
            |flags, name| Some(vec![FieldValue::Number(0xff01), FieldValue::Number(flags), FieldValue::Text(name)]);
        assert_eq!(read(pattern, "0xff01 &rq->__lock"), want(0, b"&rq->__lock"));
        assert_eq!(read(pattern, "ff01 try &p->pi_lock"), want(1, b"&p->pi_lock"));
        assert_eq!(read(pattern, "ff01 read rcu_read_lock"), want(2, b"rcu_read_lock"));
        assert_eq!(read(pattern, "ff01 try read &mm->mmap_lock"), want(3, b"&mm->mmap_lock"));
        assert_eq!(read(pattern, "ff01"), None);
    }
}
