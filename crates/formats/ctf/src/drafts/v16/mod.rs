//! The metadata language of RFC v1.6: declarations like those of C.
//!
//! A name must be declared before it is used, so there is no tree: types are made while the text is read.
//! [`blocks`] reads `trace`, `stream` and `event`, [`specs`] everything that makes a type, [`enums`] enumerations.

mod blocks;
mod enums;
mod specs;

use std::collections::{BTreeMap, HashMap};

use tracemill_codec::text::{Span, suggest};
use tracemill_model::error::{Error, Result};

use super::cursor::Cursor;
use super::types::{self, DraftClass, DraftEvent, DraftType, Int, Metadata, SectionClass, WrittenOrder};

/// Reads a text.
///
/// # Errors
/// With line and column of what is wrong.
pub(super) fn read(source: &str) -> Result<Metadata> {
    let mut parser = V16Parser { cursor: Cursor::new(source)?, word_size: 64, ..V16Parser::default() };
    parser.find_trace()?;
    while !parser.cursor.is_end() {
        if !parser.cursor.accept(";") {
            parser.entry()?;
        }
    }
    parser.finish()
}

#[derive(Default)]
struct V16Parser<'s> {
    cursor: Cursor<'s>,
    /// Types by the words of their names, one space between two words.
    typedefs: HashMap<String, DraftType>,
    structs: HashMap<String, DraftType>,
    enums: HashMap<String, DraftType>,
    /// Tags of the structures that are being read.
    open_structs: Vec<String>,
    /// Types that are used and not declared, where they stand first.
    fallbacks: BTreeMap<String, Span>,
    word_size: u32,
    uuid: Option<[u8; 16]>,
    streams: Vec<(SectionClass, Span)>,
    /// Events with the stream that they name.
    events: Vec<(DraftEvent, u64, Span)>,
}

impl V16Parser<'_> {
    fn finish(mut self) -> Result<Metadata> {
        let align = |name: &str| self.typedefs.get(name).map(|class| class.align);
        let (preferred, odd) = types::preferred(align("uint32_t"), align("uint64_t"));
        let mut metadata = Metadata { preferred, uuid: self.uuid, ..Metadata::default() };
        let source = self.cursor.source;
        metadata.groups = std::mem::take(&mut self.streams).into_iter().map(|(group, _)| (group, Vec::new())).collect();
        let places: HashMap<u64, usize> =
            metadata.groups.iter().enumerate().map(|(at, (group, _))| (group.id, at)).collect();
        let mut known: HashMap<(u64, u64), usize> = HashMap::new();
        for (event, stream, span) in std::mem::take(&mut self.events) {
            let Some(&at) = places.get(&stream) else {
                let message = format!(
                    "the event `{}` belongs to the stream {stream}, which is not declared: it cannot occur",
                    event.name
                );
                self.cursor.warn(span, message);
                continue;
            };
            let events = &mut metadata.groups[at].1;
            match known.get(&(stream, event.id)) {
                None => {
                    known.insert((stream, event.id), events.len());
                    events.push(event);
                }
                Some(&at) if events[at] == event => {}
                Some(&at) => {
                    let message =
                        format!("the id {} is that of the event `{}` of the same stream", event.id, events[at].name);
                    return Err(span.malformed(source, message));
                }
            }
        }
        metadata.warnings = std::mem::take(&mut self.cursor.warnings);
        metadata.fallbacks = types::fallback_warnings(&self.fallbacks, source);
        metadata.warnings.extend(odd.map(Error::inconsistent));
        Ok(metadata)
    }

    /// The type of a name of one or more words, `const` left out.
    fn named(&mut self, words: &[&str], span: Span) -> Result<DraftType> {
        let words: Vec<&str> = words.iter().copied().filter(|word| *word != "const").collect();
        let name = words.join(" ");
        let known = match words.as_slice() {
            [] => return Err(span.malformed(self.cursor.source, "there is no type before the name")),
            ["struct", tag] => self.structs.get(*tag),
            ["enum", tag] => self.enums.get(*tag),
            _ => self.typedefs.get(&name),
        };
        if let Some(class) = known {
            return Ok(class.clone());
        }
        if name == "string" {
            return Ok(DraftClass::text(false));
        }
        if let ["struct", tag] = words.as_slice()
            && self.open_structs.iter().any(|open| open == tag)
        {
            return Err(span.malformed(self.cursor.source, format!("the struct `{tag}` contains itself")));
        }
        if let Some(class) = self.fallback(&words, &name) {
            self.fallbacks.entry(name).or_insert(span);
            return Ok(class);
        }
        Err(self.unknown(&words, &name, span))
    }

    /// The meaning of a name that needs no declaration (`SPEC.md`, D6).
    fn fallback(&self, words: &[&str], name: &str) -> Option<DraftType> {
        let int = |size: u32, signed: bool| {
            Some(DraftClass::integer(Int { size, signed, order: WrittenOrder::Native }, None))
        };
        if words.last() == Some(&"*") {
            return int(self.word_size, false);
        }
        let signed = match words.iter().filter(|word| matches!(**word, "signed" | "unsigned")).count() {
            0 => true,
            1 => words.contains(&"signed"),
            _ => return None,
        };
        let mut rest: Vec<&str> =
            words.iter().copied().filter(|word| !matches!(*word, "signed" | "unsigned")).collect();
        rest.sort_unstable();
        let size = match rest.as_slice() {
            ["char"] => 8,
            ["short"] | ["int", "short"] => 16,
            ["int"] => 32,
            [] if words.len() == 1 => 32,
            ["long"] | ["int", "long"] => self.word_size,
            ["long", "long"] | ["int", "long", "long"] => 64,
            _ => return types::fallback(name),
        };
        int(size, signed)
    }

    fn unknown(&self, words: &[&str], name: &str, span: Span) -> Error {
        let (what, mut known): (&str, Vec<String>) = match words {
            ["struct", _] => ("struct", self.structs.keys().map(|tag| format!("struct {tag}")).collect()),
            ["enum", _] => ("enum", self.enums.keys().map(|tag| format!("enum {tag}")).collect()),
            _ => ("type", self.typedefs.keys().cloned().collect()),
        };
        known.sort_unstable();
        let shown = if what == "type" { name } else { words.last().copied().unwrap_or("") };
        let error = span.malformed(self.cursor.source, format!("the {what} `{shown}` is not declared"));
        suggest(error, name, known.iter().map(String::as_str))
    }
}

/// Which of the three name spaces.
#[derive(Clone, Copy)]
enum Space {
    Typedef,
    Struct,
    Enum,
}

impl V16Parser<'_> {
    /// Gives a type a name; a second declaration must be the same.
    fn declare(&mut self, space: Space, name: String, class: DraftType, span: Span) -> Result<()> {
        let (names, what) = match space {
            Space::Typedef => (&mut self.typedefs, "type"),
            Space::Struct => (&mut self.structs, "struct"),
            Space::Enum => (&mut self.enums, "enum"),
        };
        match names.get(&name) {
            None => {
                names.insert(name, class);
                Ok(())
            }
            Some(known) if *known == class => Ok(()),
            Some(_) => {
                let message = format!("the {what} `{name}` is declared a second time, otherwise");
                Err(span.malformed(self.cursor.source, message))
            }
        }
    }
}
