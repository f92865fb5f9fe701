//! Mutations of seeds, the same ones for the same number.

/// Makes inputs out of seeds.
pub(crate) struct Mutator {
    state: u64,
    words: &'static [&'static str],
}

/// Numbers at which something happens.
const NUMBERS: [u64; 18] =
    [0, 1, 7, 8, 31, 63, 64, 65, 127, 128, 255, 65_535, 0x7fff_ffff, 0xffff_ffff, 1 << 60, 1 << 61, 1 << 63, u64::MAX];

const TSDL: &[&str] = &[
    "{",
    "}",
    ";",
    "struct ",
    "variant ",
    "enum ",
    "<",
    ">",
    "[",
    "]",
    "...",
    ":=",
    "typedef ",
    "typealias ",
    "integer ",
    "floating_point ",
    "string",
    "event ",
    "stream ",
    "trace ",
    "clock ",
    "env ",
    "align(",
    ")",
    "size = ",
    "id = ",
    "map = clock.c.value;",
    "packet.context := ",
    "event.header := ",
    "fields := ",
    "stream_id",
    "timestamp",
    "uuid",
    "packet_size",
    "content_size",
    "/*",
    "*/",
    "//",
    "\"",
    "'",
    "\\",
    "byte_order = be;",
    "18446744073709551616",
    "-9223372036854775808",
    "0x",
    "_",
    "struct { } e;",
    "[18446744073709551615]",
    "align = 4294967296;",
];
const JSON: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\u",
    "\\ud800",
    "\u{1e}",
    "null",
    "true",
    "-1",
    "1e400",
    "18446744073709551616",
    "\"type\":",
    "\"structure\"",
    "\"length\":",
    "\"static-length-array\"",
    "\"dynamic-length-array\"",
    "\"variant\"",
    "\"optional\"",
    "\"path\":[null,",
    "\"minimum-alignment\":",
    "\"roles\":[",
    "\"field-class\":",
    "\"member-classes\":[",
    "\"selector-field-ranges\":[[",
    "\"mappings\":{",
    "\"variable-length-signed-integer\"",
    "\"bit-order\":\"last-to-first\"",
];
const FILTER: &[&str] = &[
    "and ",
    "or ",
    "not ",
    "(",
    ")",
    "==",
    "!=",
    "<=",
    ">=",
    "=~",
    "!~",
    " in ",
    "{",
    "}",
    "..",
    "payload.",
    "name",
    "time",
    "\"",
    "/",
    "[",
    "]",
    "*",
    "?",
    "\\",
    "1.5",
    "-1",
    "0x",
    "18446744073709551616",
    "ns",
    "+",
    "-",
    "true",
    "&",
    "now",
    "2026-01-01",
    "T",
    "Z",
    ":",
    "cycles",
    "stream",
    "trace",
    "(((((((((((((((((",
];

impl Mutator {
    /// The mutations of a number for a target.
    pub(crate) fn new(seed: u64, target: &str) -> Self {
        let words = match target {
            "tsdl" => TSDL,
            "ctf2_json" => JSON,
            "filter" => FILTER,
            _ => &[],
        };
        Mutator { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), words }
    }

    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.random() % end.max(1) as u64) as usize
    }

    /// A place in the input, and a short stretch from there.
    fn stretch(&mut self, len: usize) -> std::ops::Range<usize> {
        let from = self.below(len + 1);
        let longest = if self.below(4) == 0 { len } else { 16 };
        from..(from + self.below(longest + 1)).min(len)
    }

    /// The next input.
    pub(crate) fn next(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut input = seeds[self.below(seeds.len())].clone();
        for _ in 0..1 + self.below(4) {
            self.mutate(&mut input, seeds);
        }
        input.truncate(1 << 16);
        input
    }

    fn mutate(&mut self, input: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        let at = self.below(input.len() + 1);
        match self.below(10) {
            0 => input.truncate(at),
            1 | 2 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << self.below(8);
                }
            }
            3 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte = self.random() as u8;
                }
            }
            4 => {
                let stretch = self.stretch(input.len());
                input.drain(stretch);
            }
            5 => {
                let stretch = self.stretch(input.len());
                let copy = input[stretch].to_vec();
                input.splice(at..at, copy);
            }
            6 => {
                let other = &seeds[self.below(seeds.len())];
                let stretch = self.stretch(other.len());
                input.splice(at..at, other[stretch].iter().copied());
            }
            7 if !self.words.is_empty() => {
                let word = self.words[self.below(self.words.len())];
                input.splice(at..at, word.bytes());
            }
            8 if !self.words.is_empty() => self.replace_number(input, at),
            _ => self.overwrite_number(input, at),
        }
    }

    /// Puts another number in the place of the next one in a text.
    fn replace_number(&mut self, input: &mut Vec<u8>, at: usize) {
        let Some(from) = input[at..].iter().position(u8::is_ascii_digit).map(|found| at + found) else { return };
        let end =
            input[from..].iter().position(|byte| !byte.is_ascii_digit()).map_or(input.len(), |found| from + found);
        let number = NUMBERS[self.below(NUMBERS.len())].to_string();
        input.splice(from..end, number.bytes());
    }

    /// Writes a number of one to eight bytes over the input.
    fn overwrite_number(&mut self, input: &mut [u8], at: usize) {
        let number = NUMBERS[self.below(NUMBERS.len())];
        let len = [1, 2, 4, 8][self.below(4)];
        let bytes = if self.below(2) == 0 {
            number.to_le_bytes()[..len].to_vec()
        } else {
            number.to_be_bytes()[8 - len..].to_vec()
        };
        for (into, byte) in input[at..].iter_mut().zip(bytes) {
            *into = byte;
        }
    }
}
