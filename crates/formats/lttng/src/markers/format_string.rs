//! The language of marker formats: `pid %d address #p%lu`, names and C conversions with optional tracer types.
//!
//! A name is the first word before its conversion; a conversion says the type that the caller passes, a tracer type
//! (`#` in front of it) the type that was written. Conversions have no width and no precision.

use tracemill_codec::text::printf::Spec;
use tracemill_model::schema::DisplayBase;

use super::header::is_alignment;

/// Sizes of C types on the machine that wrote a marker, in bytes, and its alignment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Sizes {
    pub int: u8,
    pub long: u8,
    pub pointer: u8,
    pub size_t: u8,
    pub alignment: u8,
}

impl Sizes {
    /// Can these be sizes of types?
    pub(crate) fn are_possible(&self) -> bool {
        let sizes = [self.int, self.long, self.pointer, self.size_t];
        sizes.iter().all(|size| matches!(size, 1 | 2 | 4 | 8)) && is_alignment(self.alignment)
    }
}

/// A field of a marker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MarkerField {
    pub name: String,
    pub kind: FieldKind,
}

/// How a field is written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum FieldKind {
    /// Bytes up to a zero.
    Text,
    /// An integer.
    Integer {
        len_bytes: u8,
        is_signed: bool,
        base: DisplayBase,
        /// Most significant byte first, whatever the machine.
        is_network_order: bool,
    },
}

/// More fields than any marker has: each takes memory in a plan.
const MAX_FIELDS: usize = 512;

/// The fields that a format describes.
///
/// # Errors
/// A message with the byte of the mistake.
pub(crate) fn parse(format: &[u8], sizes: &Sizes) -> Result<Vec<MarkerField>, String> {
    FormatStringParser { format, at: 0, sizes, fields: Vec::new() }.run()
}

struct FormatStringParser<'a> {
    format: &'a [u8],
    at: usize,
    sizes: &'a Sizes,
    fields: Vec<MarkerField>,
}

/// A type as a conversion or a tracer type spells it.
#[derive(Clone, Copy)]
enum SpelledType {
    Text,
    Integer { len_bytes: u8, is_signed: bool, base: DisplayBase },
}

impl<'a> FormatStringParser<'a> {
    fn run(mut self) -> Result<Vec<MarkerField>, String> {
        let mut tracer: Option<(SpelledType, bool)> = None;
        let mut begin = None;
        let mut name: Option<&'a [u8]> = None;
        while let Some(byte) = self.peek() {
            match byte {
                b'#' | b'%' if self.format.get(self.at + 1) == Some(&byte) => self.at += 2,
                b'#' => tracer = self.tracer_type().or(tracer),
                b'%' => {
                    let written = self.conversion()?;
                    self.add(name.take(), written, tracer.take())?;
                    begin = None;
                }
                b' ' => {
                    if let (Some(begin), None) = (begin, name) {
                        name = self.format.get(begin..self.at);
                    }
                    self.at += 1;
                }
                _ => {
                    begin.get_or_insert(self.at);
                    self.at += 1;
                }
            }
        }
        Ok(self.fields)
    }

    fn peek(&self) -> Option<u8> {
        self.format.get(self.at).copied()
    }

    fn add(
        &mut self,
        name: Option<&[u8]>,
        stated: SpelledType,
        tracer: Option<(SpelledType, bool)>,
    ) -> Result<(), String> {
        if self.fields.len() == MAX_FIELDS {
            return Err(format!("it has more than {MAX_FIELDS} fields"));
        }
        let number = self.fields.len() + 1;
        let name = match name {
            Some(name) => String::from_utf8_lossy(name).into_owned(),
            None => format!("field {number}"),
        };
        let is_taken = self.fields.iter().any(|field| field.name == name);
        let name = if is_taken { format!("{name}_{number}") } else { name };
        let (written, is_network_order) = tracer.unwrap_or((stated, false));
        let kind = match (stated, written) {
            (SpelledType::Text, _) | (_, SpelledType::Text) => FieldKind::Text,
            (SpelledType::Integer { base: shown, .. }, SpelledType::Integer { len_bytes, is_signed, base }) => {
                let base = if base == DisplayBase::Decimal { shown } else { base };
                FieldKind::Integer { len_bytes, is_signed, base, is_network_order }
            }
        };
        self.fields.push(MarkerField { name, kind });
        Ok(())
    }

    /// `#` and a type: `#1u`, `#p`, `#n4u`. One that names no type has no effect, and hides the byte after it: so did
    /// the tracer, whose own `irqstate #1%d` therefore has no field.
    fn tracer_type(&mut self) -> Option<(SpelledType, bool)> {
        self.at += 1;
        let mut is_network_order = false;
        while self.peek() == Some(b'n') {
            is_network_order = true;
            self.at += 1;
        }
        let fixed = match self.peek() {
            Some(digit @ (b'1' | b'2' | b'4' | b'8')) => Some(digit - b'0'),
            _ => None,
        };
        self.at += usize::from(fixed.is_some());
        let found = self.letter(fixed);
        self.at = (self.at + 1).min(self.format.len());
        Some((found?, is_network_order))
    }

    /// `%` and a type: `%d`, `%#lx`, `%llu`.
    fn conversion(&mut self) -> Result<SpelledType, String> {
        let begin = self.at;
        self.at += 1;
        self.at += Spec::flags(self.format.get(self.at..).unwrap_or_default()).1;
        let found = self.letter(None).ok_or_else(|| {
            let end = (self.at + 1).min(self.format.len());
            let text = String::from_utf8_lossy(self.format.get(begin..end).unwrap_or_default());
            format!("`{text}` at its byte {begin} names no type")
        })?;
        self.at += 1;
        Ok(found)
    }

    /// Length modifiers, unless the size is known, and the letter of the type, which is not passed.
    fn letter(&mut self, fixed: Option<u8>) -> Option<SpelledType> {
        let len_bytes = fixed.unwrap_or_else(|| self.modifier());
        let integer = |is_signed, base| SpelledType::Integer { len_bytes, is_signed, base };
        Some(match self.peek()? {
            b'c' => SpelledType::Integer { len_bytes: 1, is_signed: false, base: DisplayBase::Decimal },
            b's' => SpelledType::Text,
            b'p' => {
                SpelledType::Integer { len_bytes: self.sizes.pointer, is_signed: false, base: DisplayBase::Hexadecimal }
            }
            b'd' | b'i' => integer(true, DisplayBase::Decimal),
            b'u' => integer(false, DisplayBase::Decimal),
            b'o' => integer(false, DisplayBase::Octal),
            b'x' | b'X' => integer(false, DisplayBase::Hexadecimal),
            _ => return None,
        })
    }

    fn modifier(&mut self) -> u8 {
        let rest = self.format.get(self.at..).unwrap_or_default();
        let (skipped, len_bytes) = match rest {
            [b'l', b'l', ..] => (2, 8),
            [b'L', ..] => (1, 8),
            [b'l', ..] => (1, self.sizes.long),
            [b'Z' | b'z', ..] => (1, self.sizes.size_t),
            [b't', ..] => (1, self.sizes.pointer),
            [b'h', ..] => (1, 2),
            [b'S', ..] => (1, self.sizes.int),
            _ => (0, self.sizes.int),
        };
        self.at += skipped;
        len_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const I386: Sizes = Sizes { int: 4, long: 4, pointer: 4, size_t: 4, alignment: 0 };
    const X86_64: Sizes = Sizes { int: 4, long: 8, pointer: 8, size_t: 8, alignment: 0 };

    /// `name:u4`, `name:s`, with `n` for network order and `x`, `o` for the base.
    fn shown(format: &str, sizes: &Sizes) -> String {
        let fields = parse(format.as_bytes(), sizes).expect("the format is right");
        let one = |field: &MarkerField| match field.kind {
            FieldKind::Text => format!("{}:text", field.name),
            FieldKind::Integer { len_bytes, is_signed, base, is_network_order } => {
                let sign = if is_signed { 'i' } else { 'u' };
                let base = match base {
                    DisplayBase::Hexadecimal => "x",
                    DisplayBase::Octal => "o",
                    _ => "",
                };
                let order = if is_network_order { "n" } else { "" };
                format!("{}:{sign}{len_bytes}{base}{order}", field.name)
            }
        };
        fields.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn sizes_of_conversions_are_those_of_the_machine() {
        let format = "a %d b %ld c %lld d %p e %zu f %hd g %c h %s i %Lu j %tu";
        assert_eq!(shown(format, &I386), "a:i4 b:i4 c:i8 d:u4x e:u4 f:i2 g:u1 h:text i:u8 j:u4");
        assert_eq!(shown(format, &X86_64), "a:i4 b:i8 c:i8 d:u8x e:u8 f:i2 g:u1 h:text i:u8 j:u8");
    }

    #[test]
    fn tracer_types_win_but_for_strings() {
        assert_eq!(shown("a #1u%d b #p%lu c #n2u%hu d #8d%u e #4u%s", &I386), "a:u1 b:u4x c:u2n d:i8 e:text");
        assert_eq!(shown("a #1x%u b #lu%d", &X86_64), "a:u1x b:u8");
    }

    #[test]
    fn a_name_is_the_first_word_before_its_conversion() {
        assert_eq!(shown("func %p ip 0x%lX", &I386), "func:u4x ip:u4x");
        assert_eq!(shown("rw(READ,WRITE) %lX not here yet %u", &I386), "rw(READ,WRITE):u4x not:u4");
        assert_eq!(shown("a%d %s", &I386), "field 1:i4 field 2:text");
        assert_eq!(shown("%%a ##b %d", &I386), "a:i4");
        assert_eq!(shown("a %d a %d", &I386), "a:i4 a_2:i4");
        assert_eq!(shown(" ", &I386), "");
        assert_eq!(shown("no fields at all", &I386), "");
    }

    #[test]
    fn flags_and_base_are_for_people() {
        assert_eq!(shown("a %#lx b %o c %+d", &I386), "a:u4x b:u4o c:i4");
    }

    #[test]
    fn nonsense_is_refused_with_its_place() {
        for (format, place) in [("a %q", 2), ("a %", 2), ("ab %08lx", 3), ("%l", 0), ("a %f", 2), ("a %d b %*d", 7)] {
            let error = parse(format.as_bytes(), &I386).expect_err(format);
            assert!(error.contains(&format!("byte {place} ")), "{format}: {error}");
        }
        assert!(parse("%d".repeat(5000).as_bytes(), &I386).is_err());
    }

    #[test]
    fn a_tracer_type_without_a_type_hides_what_is_behind_it() {
        assert_eq!(shown("irqstate #1%d", &I386), "");
        assert_eq!(shown("a #9u%u", &I386), "a:u4");
        assert_eq!(shown("a #1", &I386), "");
        assert_eq!(shown("a #", &I386), "");
    }

    #[test]
    fn sizes_that_no_machine_has_are_seen() {
        assert!(X86_64.are_possible());
        assert!(!Sizes { int: 3, ..I386 }.are_possible());
        assert!(!Sizes { alignment: 5, ..I386 }.are_possible());
    }
}
