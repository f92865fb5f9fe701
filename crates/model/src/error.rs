//! The one error type, and the places it can point to.
//!
//! An error states what was being read, what was found and expected, where exactly, and what to try.
//! *Where* is never missing in an error about data: a [`Place`] names the file with a byte offset, or with a line,
//! a column and the source line for metadata.

use std::fmt;
use std::path::{Path, PathBuf};

/// Kind of an error, by what a program can do about it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The input is not of this format.
    NotThisFormat,
    /// The input breaks a rule of its format.
    Malformed,
    /// The input asks for something that tracemill does not do.
    Unsupported,
    /// The input ends too early.
    Truncated,
    /// Two parts of the input contradict each other.
    Inconsistent,
    /// The operating system refused.
    Io,
    /// The caller or the user asked for something that makes no sense.
    Misuse,
}

/// A place in a text: metadata, an expression.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TextPlace {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// Byte offset in the whole text.
    pub offset: usize,
    /// Length in bytes of what is meant; 0 at the end of the text.
    pub len: usize,
    /// The line itself, truncated to a readable piece around the column.
    pub excerpt: String,
    /// Place of the caret below the excerpt, in characters from 0.
    pub caret: usize,
}

/// Place of an error: in a file, in a packet, in a text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// The file.
    pub file: Option<PathBuf>,
    /// Byte offset in the file.
    pub offset: Option<u64>,
    /// Bit inside the byte at `offset`, 0 to 7, when the error is not on a byte boundary.
    pub bit: u8,
    /// Index of the packet in its file, from 0.
    pub packet: Option<u64>,
    /// Name of the event class.
    pub event: Option<String>,
    /// Path of the field, such as `payload.args[1]`.
    pub field: Option<String>,
    /// Place in a text.
    pub text: Option<TextPlace>,
}

/// Result with the crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error with its place. Small to move: the content is boxed.
///
/// ```
/// use std::path::Path;
/// use tracemill_model::error::{Error, ErrorKind};
///
/// let error = Error::malformed("the field needs 32 bits").at_bit(83).in_file(Path::new("kernel/channel0"));
/// let error = error.in_packet(2).with_help("the packet may be truncated");
/// assert_eq!(error.kind(), ErrorKind::Malformed);
/// assert_eq!(error.place().offset, Some(10));
/// assert_eq!(
///     error.to_string(),
///     "kernel/channel0: byte 10 bit 3, packet 2: the field needs 32 bits\n  help: the packet may be truncated"
/// );
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Inner>);

#[derive(Clone, PartialEq, Eq)]
struct Inner {
    kind: ErrorKind,
    message: String,
    help: Option<String>,
    place: Place,
    related: Vec<(String, TextPlace)>,
    loses_nothing: bool,
}

impl Error {
    /// An error of a kind: lower case, no final dot, values quoted as the user wrote them.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner {
            kind,
            message: message.into(),
            help: None,
            place: Place::default(),
            related: Vec::new(),
            loses_nothing: false,
        }))
    }

    /// The input breaks a rule of its format.
    pub fn malformed(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Malformed, message)
    }

    /// The input ends inside of something.
    pub fn truncated(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Truncated, message)
    }

    /// Parts of the input contradict each other, or one is improbable.
    pub fn inconsistent(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Inconsistent, message)
    }

    /// The input asks for something that tracemill does not do.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Unsupported, message)
    }

    /// The user asked for something that makes no sense.
    pub fn misuse(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Misuse, message)
    }

    /// An error of the operating system while doing `what` on `path`.
    pub fn io(what: &str, path: &Path, error: &std::io::Error) -> Self {
        Error::new(ErrorKind::Io, format!("cannot {what}: {error}")).in_file(path).advised(error)
    }

    /// Says what helps against an error of the operating system, where something does.
    pub fn advised(self, error: &std::io::Error) -> Self {
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        match error.kind() {
            StorageFull | QuotaExceeded => self.with_help("make room there, or write to another disk"),
            FileTooLarge => {
                self.with_help("raise the limit of the size of files (`ulimit -f`), or write smaller parts")
            }
            _ => self,
        }
    }

    /// Its kind, by what the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The message without its place.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Advice for the user.
    pub fn help(&self) -> Option<&str> {
        self.0.help.as_deref()
    }

    /// Its place.
    pub fn place(&self) -> &Place {
        &self.0.place
    }

    /// Whether nothing is lost: every event could be read, or missing events are reported otherwise.
    pub fn loses_nothing(&self) -> bool {
        self.0.loses_nothing
    }

    /// Other places that belong to it ("first declared here").
    pub fn related(&self) -> &[(String, TextPlace)] {
        &self.0.related
    }

    /// Adds advice for the user.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.0.help = Some(help.into());
        self
    }

    /// Marks that nothing is lost: every event can be read, or missing events are reported otherwise.
    #[must_use]
    pub fn losing_nothing(mut self) -> Self {
        self.0.loses_nothing = true;
        self
    }

    /// Sets the file, unless it is known.
    #[must_use]
    pub fn in_file(mut self, file: &Path) -> Self {
        self.0.place.file.get_or_insert_with(|| file.to_path_buf());
        self
    }

    /// Names a file at or below `from` as it is called at or below `to`.
    #[must_use]
    pub fn with_file_moved(mut self, from: &Path, to: &Path) -> Self {
        let file = &mut self.0.place.file;
        if let Some(below) = file.as_deref().and_then(|file| file.strip_prefix(from).ok()) {
            // A join with nothing would put a slash after the name.
            *file = Some(if below.as_os_str().is_empty() { to.to_path_buf() } else { to.join(below) });
        }
        self
    }

    /// Counts the offset and the packet, where they are known, from so much earlier in the file.
    #[must_use]
    pub fn with_place_moved(mut self, bytes: u64, packets: u64) -> Self {
        let place = &mut self.0.place;
        place.offset = place.offset.map(|offset| offset.saturating_add(bytes));
        place.packet = place.packet.map(|packet| packet.saturating_add(packets));
        self
    }

    /// Sets the byte offset in the file, unless it is known.
    #[must_use]
    pub fn at_offset(mut self, offset: u64) -> Self {
        self.0.place.offset.get_or_insert(offset);
        self
    }

    /// Sets the place as a bit offset in the file, unless an offset is known.
    #[must_use]
    pub fn at_bit(mut self, offset_bits: u64) -> Self {
        if self.0.place.offset.is_none() {
            self.0.place.offset = Some(offset_bits / 8);
            self.0.place.bit = (offset_bits % 8) as u8;
        }
        self
    }

    /// Sets the packet, unless it is known.
    #[must_use]
    pub fn in_packet(mut self, index: u64) -> Self {
        self.0.place.packet.get_or_insert(index);
        self
    }

    /// Sets the event class, unless it is known.
    #[must_use]
    pub fn in_event(mut self, name: impl Into<String>) -> Self {
        self.0.place.event.get_or_insert_with(|| name.into());
        self
    }

    /// Sets the field path, unless it is known.
    #[must_use]
    pub fn in_field(mut self, path: impl Into<String>) -> Self {
        self.0.place.field.get_or_insert_with(|| path.into());
        self
    }

    /// Sets the place in a text, unless it is known.
    #[must_use]
    pub fn at_text(mut self, place: TextPlace) -> Self {
        self.0.place.text.get_or_insert(place);
        self
    }

    /// Adds another place that belongs to it.
    #[must_use]
    pub fn with_related(mut self, message: impl Into<String>, place: TextPlace) -> Self {
        self.0.related.push((message.into(), place));
        self
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}", file.display())?;
            if self.text.is_some() || self.offset.is_some() {
                f.write_str(": ")?;
            }
        }
        if let Some(text) = &self.text {
            write!(f, "line {}, column {}", text.line, text.column)?;
        } else if let Some(offset) = self.offset {
            write!(f, "byte {offset}")?;
            if self.bit != 0 {
                write!(f, " bit {}", self.bit)?;
            }
        }
        if let Some(packet) = self.packet {
            write!(f, ", packet {packet}")?;
        }
        if let Some(event) = &self.event {
            write!(f, ", event `{event}`")?;
        }
        if let Some(field) = &self.field {
            write!(f, ", field `{field}`")?;
        }
        Ok(())
    }
}

/// One paragraph for a person: place, message, source line with a caret, related places, help.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { message, help, place, related, .. } = &*self.0;
        if *place != Place::default() {
            write!(f, "{place}: ")?;
        }
        f.write_str(message)?;
        if let Some(text) = &place.text {
            write_excerpt(f, text)?;
        }
        for (message, text) in related {
            write!(f, "\n  line {}, column {}: {message}", text.line, text.column)?;
            write_excerpt(f, text)?;
        }
        if let Some(help) = help {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}

fn write_excerpt(f: &mut fmt::Formatter<'_>, text: &TextPlace) -> fmt::Result {
    if text.excerpt.is_empty() {
        return Ok(());
    }
    let rest = text.excerpt.chars().count().saturating_sub(text.caret).max(1);
    let carets = "^".repeat(text.len.clamp(1, rest));
    write!(f, "\n  | {}\n  | {}{carets}", text.excerpt, " ".repeat(text.caret))
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_is_said_once_and_first_wins() {
        let error = Error::malformed("content ends inside a field")
            .in_file(Path::new("a/ch0"))
            .at_bit(83)
            .at_bit(0)
            .in_packet(2)
            .in_event("tick")
            .with_help("the packet may have been cut");
        assert_eq!(
            error.to_string(),
            "a/ch0: byte 10 bit 3, packet 2, event `tick`: content ends inside a field\n  help: the packet may have been cut"
        );
    }

    #[test]
    fn files_are_named_as_they_are_called_elsewhere() {
        let moved = |file: &str| {
            let error = Error::malformed("bad").in_file(Path::new(file));
            error.with_file_moved(Path::new("a/.out.1.part"), Path::new("a/out")).to_string()
        };
        assert_eq!(moved("a/.out.1.part"), "a/out: bad");
        assert_eq!(moved("a/.out.1.part/x/y"), "a/out/x/y: bad");
        assert_eq!(moved("a/.out.1.parts"), "a/.out.1.parts: bad");
    }

    #[test]
    fn text_errors_show_the_line_with_a_caret() {
        let place = TextPlace { line: 3, column: 5, offset: 20, len: 3, excerpt: "int foo;".into(), caret: 4 };
        let error = Error::malformed("unknown type `foo`").at_text(place);
        assert_eq!(error.to_string(), "line 3, column 5: unknown type `foo`\n  | int foo;\n  |     ^^^");
    }
}
