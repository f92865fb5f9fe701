//! Marks: texts that programs write into the kernel's trace (`trace_marker`), in the form of Android's atrace.
//!
//! | text | meaning |
//! |---|---|
//! | `B\|PROCESS\|NAME` | a call begins on the thread that writes |
//! | `E\|PROCESS`, `E` | its innermost one ends |
//! | `S\|PROCESS\|NAME\|COOKIE`, `F\|PROCESS\|NAME\|COOKIE` | something begins and ends, on any threads |
//! | `C\|PROCESS\|NAME\|VALUE` | a counter has this value |

use tracemill_model::schema::{EventClassId, FieldPath, Scope};

use crate::fields::{find, is_text};
use crate::{Semantics, names};

/// A text that means something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark<'t> {
    /// A call begins.
    Begin {
        /// Its name.
        name: &'t [u8],
    },
    /// The innermost call ends.
    End,
    /// Something begins or ends, maybe on different threads.
    Async {
        /// Does it end?
        is_end: bool,
        /// The process.
        process: i64,
        /// Its name.
        name: &'t [u8],
        /// Tells it from others of the same name.
        cookie: &'t [u8],
    },
    /// A counter has a value.
    Count {
        /// Its name.
        name: &'t [u8],
        /// The value.
        value: i64,
    },
}

impl<'t> Mark<'t> {
    /// The meaning of a text, when it has one.
    ///
    /// ```
    /// use tracemill_semantics::Mark;
    ///
    /// assert_eq!(Mark::parse(b"B|641|bake|rye\n"), Some(Mark::Begin { name: b"bake|rye" }));
    /// assert_eq!(Mark::parse(b"C|641|loaves|-3"), Some(Mark::Count { name: b"loaves", value: -3 }));
    /// assert_eq!(Mark::parse(b"Begin|641|bake"), None);
    /// ```
    pub fn parse(text: &'t [u8]) -> Option<Mark<'t>> {
        let len = text.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r' | 0)).map_or(0, |last| last + 1);
        let text = &text[..len];
        if text == b"E" {
            return Some(Mark::End);
        }
        let (kind, rest) = (text.first()?, text.get(1..)?.strip_prefix(b"|")?);
        let (process, rest) = match rest.iter().position(|byte| *byte == b'|') {
            Some(at) => (&rest[..at], Some(&rest[at + 1..])),
            None => (rest, None),
        };
        let process = number(process)?;
        let last = |rest: &'t [u8]| {
            let at = rest.iter().rposition(|byte| *byte == b'|')?;
            Some((&rest[..at], &rest[at + 1..]))
        };
        Some(match (kind, rest) {
            (b'B', Some(name)) => Mark::Begin { name },
            (b'E', _) => Mark::End,
            (b'S' | b'F', Some(rest)) => {
                let (name, cookie) = last(rest)?;
                Mark::Async { is_end: *kind == b'F', process, name, cookie }
            }
            (b'C', Some(rest)) => {
                let (name, value) = last(rest)?;
                Mark::Count { name, value: number(value)? }
            }
            _ => return None,
        })
    }
}

fn number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

impl Semantics {
    /// The field whose text may be a [`Mark`].
    pub fn mark(&self, class: EventClassId) -> Option<FieldPath> {
        let event = self.schema.event(class);
        let short = names::short(event.name.as_deref()?);
        let fields = names::MARKS.iter().filter(|(known, _)| *known == short).map(|(_, field)| field);
        fields.into_iter().find_map(|field| find(&self.schema, Scope::Payload, event.payload, field, is_text))
    }

    /// May any event be a [`Mark`]?
    pub fn has_marks(&self) -> bool {
        (0..self.schema.events().len() as u32).any(|class| self.mark(EventClassId(class)).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::Mark;

    #[test]
    fn texts_of_other_forms_are_no_marks() {
        assert_eq!(Mark::parse(b"E|12"), Some(Mark::End));
        assert_eq!(Mark::parse(b"E\n\0"), Some(Mark::End));
        let with = |is_end| Mark::Async { is_end, process: 7, name: b"a|b", cookie: b"99" };
        assert_eq!(Mark::parse(b"S|7|a|b|99"), Some(with(false)));
        assert_eq!(Mark::parse(b"F|7|a|b|99"), Some(with(true)));
        for text in ["", "B", "B|", "B|12", "B|x|y", "C|1|loaves", "C|1|loaves|many", "S|1|a", "X|1|a", "Else|1"] {
            assert_eq!(Mark::parse(text.as_bytes()), None, "{text}");
        }
    }
}
