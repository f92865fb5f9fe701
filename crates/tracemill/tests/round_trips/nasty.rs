//! Names, numbers and texts that writers get wrong.

use crate::schemas::Rng;

/// Names of members, classes, clocks: empty, forbidden, coded already, words of languages.
const NAMES: &[&str] = &[
    "",
    "a",
    "b",
    "value",
    "_",
    "__",
    "_a",
    "__a",
    "a b",
    " a",
    "a.b",
    "a:b",
    "a-b",
    "a%d",
    "%s",
    "a\"b",
    "a\\b",
    "a'b",
    "struct",
    "integer",
    "event",
    "variant",
    "int",
    "_struct",
    "_x20_",
    "_x5f_",
    "x",
    "_xa",
    "_x_",
    "_x41_",
    "a_x20_b",
    "\u{e4}",
    "\u{20ac}uro",
    "\u{1f600}",
    "0",
    "1a",
    "A",
    "a[0]",
    "a]",
    "[",
    "a,b",
    "a;b",
    "a{b}",
    "a<b>",
    "&amp;",
    "a&b",
    "a\nb",
    "a\tb",
    "\u{1}",
    "\u{7f}",
    "a/b",
    "..",
    ".",
    "$ctx",
    "len",
    "tag",
    "content",
    "present",
    "elements",
    "length",
    "selectors",
    "stored",
    "id",
    "timestamp",
    "cpu",
    "time",
    "name",
    "depth",
    "tid",
    "a__b",
    "ab___c",
    "a very long name that goes on and on and on and on and on and on and on and on and on, farther than tables have room",
];

/// Texts of fields.
const TEXTS: &[&str] = &[
    "",
    "x",
    "two words",
    "a\"b%s\\",
    "\u{e4}\u{20ac}\u{1f600}",
    "line\nfeed\r\n",
    "\u{1}\u{7f}\u{1b}[0m",
    "%d%n",
    "null",
    "a long text, longer than what is kept in a register or two, so that it is copied in pieces of some size or other",
];

/// A name; most of them are plain.
pub(crate) fn name(rng: &mut Rng) -> String {
    match rng.below(10) {
        0..=3 => rng.pick(NAMES).to_string(),
        4 => format!("{}{}", rng.pick(NAMES), rng.pick(NAMES)),
        _ => format!("n{}", rng.below(50)),
    }
}

/// A text without zeros.
pub(crate) fn text(rng: &mut Rng) -> String {
    match rng.below(4) {
        0 => (0..rng.below(30)).map(|_| rng.pick(&['a', '\u{e4}', '%', '\\', '"', ' ', '\u{10ffff}', '\n'])).collect(),
        _ => rng.pick(TEXTS).to_string(),
    }
}

/// A number of so many bits: at the bounds more often than not.
pub(crate) fn number(rng: &mut Rng, len_bits: u32, signed: bool) -> i128 {
    let wide = i128::from(rng.next()) << 64 | i128::from(rng.next());
    let (low, high) = bounds(len_bits, signed);
    let any = |wide: i128| -> i128 {
        let part = if len_bits >= 127 { wide } else { wide & ((1i128 << len_bits) - 1) };
        if signed && len_bits < 128 && part > high { part - (1i128 << len_bits) } else { part }
    };
    match rng.below(8) {
        0 => low,
        1 => high,
        2 => 0,
        3 => (if signed { -1i128 } else { 1 }).clamp(low, high),
        4 => any(wide) >> rng.below(u64::from(len_bits)),
        _ => any(wide),
    }
}

/// The smallest and the largest number of so many bits, up to 120.
pub(crate) fn bounds(len_bits: u32, signed: bool) -> (i128, i128) {
    if signed { (-(1 << (len_bits - 1)), (1 << (len_bits - 1)) - 1) } else { (0, (1 << len_bits) - 1) }
}

/// The bits of a floating point number of 64 or 32 bits: no numbers, subnormal ones, both zeros.
pub(crate) fn real_bits(rng: &mut Rng, len_bits: u32) -> u64 {
    let special: &[u64] = &[0, 1 << 63, 0x7ff0_0000_0000_0000, 0xfff0_0000_0000_0000, 1, 0x7ff8_0000_0000_0000];
    let special32: &[u64] = &[0, 1 << 31, 0x7f80_0000, 0xff80_0000, 1, 0x7fc0_0000, 0x3dcc_cccd];
    // Payloads of no numbers too.
    let odd: &[u64] = &[0x7ff8_0000_0000_1234, 0xfff8_0000_0000_0000, 0x7ff0_0000_0000_0001];
    match (rng.below(6), len_bits) {
        (0..=1, 64) => rng.pick(special),
        (2, 64) => rng.pick(odd),
        (0..=1, 32) => rng.pick(special32),
        (3, 64) => (rng.below(1000) as f64 / 8.0).to_bits(),
        (3, 32) => u64::from((rng.below(1000) as f32 / 8.0).to_bits()),
        (_, 32) => rng.next() & 0xffff_ffff,
        _ => rng.next(),
    }
}
