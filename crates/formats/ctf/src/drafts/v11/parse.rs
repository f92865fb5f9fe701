//! Tokens to a tree. Accepts the spellings that the damaged text of the proposal shows (`SPEC.md`, D2).

use tracemill_codec::text::Span;
use tracemill_model::error::{Error, Result};

use super::super::cursor::{Cursor, Spanned, set_once};
use super::super::types::Form;
use super::ast::{Body, Entry, Event, Section, Trace, TypeRef};
use super::resolve::BUILT_IN;

/// The declarations of a text, and warnings.
pub(super) fn parse(source: &str) -> Result<(Vec<Entry>, Vec<Error>)> {
    let mut parser = Parser { cursor: Cursor::new(source)? };
    let mut entries = Vec::new();
    while !parser.cursor.is_end() {
        // `;` behind any `}`.
        if parser.cursor.accept(b';') {
            continue;
        }
        entries.push(parser.entry()?);
    }
    Ok((entries, parser.cursor.warnings))
}

struct Parser<'s> {
    cursor: Cursor<'s>,
}

impl Parser<'_> {
    fn entry(&mut self) -> Result<Entry> {
        let cursor = &mut self.cursor;
        let word = cursor.identifier("`trace`, `section`, `event`, `abstract_type` or `type`")?;
        Ok(match word.value.as_str() {
            "trace" => Entry::Trace(self.trace()?),
            "section" => Entry::Section(self.section(&word)?),
            "event" => Entry::Event(self.event(&word)?),
            "abstract_type" | "type" => {
                let name = cursor.identifier("the name of the type")?;
                if word.value == "abstract_type" && BUILT_IN.contains(&name.value.as_str()) && cursor.is(b'{') {
                    // The texts list these with `value`, `OR` and `...` where values would stand (`SPEC.md`, D2).
                    cursor.skip_braces()?;
                    return Ok(Entry::Abstract(name.clone(), Body::new(name.span)));
                }
                let body = self.body(name.span)?;
                match word.value.as_str() {
                    "type" => Entry::Concrete(name, body),
                    _ => Entry::Abstract(name, body),
                }
            }
            other => {
                let message = format!(
                    "unknown declaration `{other}`: expected `trace`, `section`, `event`, `abstract_type` or `type`"
                );
                return Err(word.span.malformed(cursor.source, message));
            }
        })
    }

    /// A block of attributes: `take` reads the value of one, and says false when it does not know the name.
    fn block(&mut self, what: &str, mut take: impl FnMut(&mut Self, &Spanned<String>) -> Result<bool>) -> Result<()> {
        self.cursor.begin_block(what)?;
        while let Some(name) = self.cursor.attribute(what, Some(b'.'))? {
            if !take(self, &name)? {
                self.cursor.skip_unknown(&name, what)?;
            } else {
                self.end_of_attribute()?;
            }
        }
        Ok(())
    }

    /// `;`, which may be missing behind a `}`.
    fn end_of_attribute(&mut self) -> Result<()> {
        match self.cursor.accept(b';') || self.cursor.is_behind_brace() {
            true => Ok(()),
            false => Err(self.cursor.unexpected("`;` behind the value")),
        }
    }

    fn trace(&mut self) -> Result<Trace> {
        let (mut major, mut minor, mut session_id) = (None, None, None);
        self.block("trace", |parser, name| {
            let place = match name.value.as_str() {
                "major" => &mut major,
                "minor" => &mut minor,
                "session_id" => &mut session_id,
                _ => return Ok(false),
            };
            parser.cursor.equals(name)?;
            let value = parser.cursor.number(&name.value, 0, u32::MAX.into())?;
            set_once(place, value, name, parser.cursor.source)?;
            Ok(true)
        })?;
        Ok(Trace { session_id })
    }

    fn section(&mut self, word: &Spanned<String>) -> Result<Section> {
        let (mut name, mut event) = (None, None);
        self.block("section", |parser, attribute| {
            let source = parser.cursor.source;
            match attribute.value.as_str() {
                "name" => {
                    parser.cursor.equals(attribute)?;
                    set_once(&mut name, parser.cursor.word("the name of the section")?, attribute, source)?;
                }
                "event" => set_once(&mut event, parser.section_event(attribute)?, attribute, source)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let missing = |what: &str| word.span.malformed(self.cursor.source, format!("the section has no `{what}`"));
        let name = name.ok_or_else(|| missing("name"))?;
        let (header, has_event_size, context) = event.ok_or_else(|| missing("event"))?;
        Ok(Section { name, header, has_event_size, context })
    }

    /// The block `event` of a section: form of the header, and context.
    fn section_event(&mut self, word: &Spanned<String>) -> Result<(Form, bool, Option<TypeRef>)> {
        let (mut header, mut context) = (None, None);
        self.block("section's `event`", |parser, attribute| {
            let source = parser.cursor.source;
            match attribute.value.as_str() {
                "header_type" => {
                    parser.cursor.equals(attribute)?;
                    let word = parser.cursor.identifier("`type1` or `type2`")?;
                    let form = match word.value.as_str() {
                        "type1" => Form::One,
                        "type2" => Form::Two,
                        other => {
                            let message = format!("the header type is `{other}`, and must be `type1` or `type2`");
                            return Err(word.span.malformed(source, message));
                        }
                    };
                    set_once(&mut header, form, attribute, source)?;
                }
                "context" => set_once(&mut context, parser.context()?, attribute, source)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let missing = || word.span.malformed(self.cursor.source, "the section's `event` has no `header_type`");
        let (has_event_size, fields) = context.unwrap_or((false, None));
        Ok((header.ok_or_else(missing)?, has_event_size, fields))
    }

    fn context(&mut self) -> Result<(bool, Option<TypeRef>)> {
        let (mut event_size, mut fields) = (None, None);
        self.block("context", |parser, attribute| {
            let source = parser.cursor.source;
            match attribute.value.as_str() {
                "event_size" => {
                    parser.cursor.equals(attribute)?;
                    set_once(&mut event_size, parser.cursor.boolean("event_size")?, attribute, source)?;
                }
                "fields" => {
                    parser.cursor.equals(attribute)?;
                    set_once(&mut fields, parser.type_ref()?, attribute, source)?;
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok((event_size.unwrap_or(false), fields))
    }

    fn event(&mut self, word: &Spanned<String>) -> Result<Event> {
        let (mut name, mut id, mut section, mut fields) = (None, None, None, None);
        self.block("event", |parser, attribute| {
            let source = parser.cursor.source;
            if !matches!(attribute.value.as_str(), "name" | "id" | "section" | "fields") {
                return Ok(false);
            }
            parser.cursor.equals(attribute)?;
            match attribute.value.as_str() {
                "name" => set_once(&mut name, parser.cursor.word("the name of the event")?, attribute, source)?,
                "id" => set_once(&mut id, parser.cursor.number("the id", 0, u32::MAX.into())?, attribute, source)?,
                "section" => set_once(&mut section, parser.cursor.word("the name of a section")?, attribute, source)?,
                _ => set_once(&mut fields, parser.type_ref()?, attribute, source)?,
            }
            Ok(true)
        })?;
        let missing = |what: &str| word.span.malformed(self.cursor.source, format!("the event has no `{what}`"));
        Ok(Event {
            name: name.ok_or_else(|| missing("name"))?,
            id: id.ok_or_else(|| missing("id"))?,
            section: section.ok_or_else(|| missing("section"))?,
            fields: fields.ok_or_else(|| missing("fields"))?,
        })
    }

    fn type_ref(&mut self) -> Result<TypeRef> {
        let word = self.cursor.identifier("the name of a type, or `type {`")?;
        if word.value == "type" && self.cursor.is(b'{') {
            return Ok(TypeRef::Body(Box::new(self.body(word.span)?)));
        }
        Ok(TypeRef::Name(word))
    }

    fn body(&mut self, span: Span) -> Result<Body> {
        let mut body = Body::new(span);
        self.block("type", |parser, attribute| match attribute.value.as_str() {
            "parent" | "size" | "align" | "unit_size" | "length" | "exp_dig" | "mant_dig" | "signed" | "byte_order"
            | "encoding" | "elem_type" | "length_type" | "map" | "fields" => {
                parser.cursor.equals(attribute)?;
                parser.attribute(&mut body, attribute)?;
                Ok(true)
            }
            _ => Ok(false),
        })?;
        Ok(body)
    }

    /// The value of an attribute of a type.
    fn attribute(&mut self, body: &mut Body, name: &Spanned<String>) -> Result<()> {
        let source = self.cursor.source;
        let cursor = &mut self.cursor;
        match name.value.as_str() {
            "parent" => set_once(&mut body.parent, cursor.identifier("the name of the parent")?, name, source),
            "size" => set_once(&mut body.size, cursor.number("the size in bits", 1, 64)?, name, source),
            "align" => set_once(&mut body.align, cursor.power_of_two("the alignment")?, name, source),
            "unit_size" => set_once(&mut body.unit_size, cursor.power_of_two("the unit size")?, name, source),
            "length" => set_once(&mut body.length, cursor.number("the length", 0, u64::MAX.into())?, name, source),
            "exp_dig" => set_once(&mut body.exp_dig, cursor.number("exp_dig", 0, 1 << 16)?, name, source),
            "mant_dig" => set_once(&mut body.mant_dig, cursor.number("mant_dig", 0, 1 << 16)?, name, source),
            "signed" => set_once(&mut body.signed, cursor.boolean("signed")?, name, source),
            "byte_order" => set_once(&mut body.byte_order, cursor.byte_order()?, name, source),
            "encoding" => set_once(&mut body.is_ascii, cursor.is_ascii()?, name, source),
            "elem_type" => set_once(&mut body.elem_type, self.type_ref()?, name, source),
            "length_type" => set_once(&mut body.length_type, self.type_ref()?, name, source),
            "map" => set_once(&mut body.map, self.elements(Self::pair)?, name, source),
            _ => set_once(&mut body.fields, self.elements(Self::field)?, name, source),
        }
    }

    /// `{ {...}, {...}, }`, with the commas left out where the writer pleases.
    fn elements<T>(&mut self, mut element: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.cursor.expect(b'{', "of the list")?;
        let mut elements = Vec::new();
        while !self.cursor.accept(b'}') {
            self.cursor.expect(b'{', "of an element, or `}`")?;
            elements.push(element(self)?);
            self.cursor.accept(b',');
            self.cursor.expect(b'}', "of the element")?;
            // A `;` behind any `}`, then a comma.
            self.cursor.accept(b';');
            self.cursor.accept(b',');
        }
        Ok(elements)
    }

    /// `VALUE, LABEL` or `{ FIRST, LAST }, LABEL`.
    fn pair(&mut self) -> Result<(Spanned<String>, i128, i128)> {
        let cursor = &mut self.cursor;
        let (low, high) = if cursor.accept(b'{') {
            let low = cursor.integer("the first value of a range")?.value;
            cursor.expect(b',', "between the ends of a range")?;
            let high = cursor.integer("the last value of a range")?.value;
            cursor.accept(b',');
            cursor.expect(b'}', "behind a range")?;
            (low, high)
        } else {
            let value = cursor.integer("a value, or a range in braces")?.value;
            (value, value)
        };
        cursor.expect(b',', "behind the value")?;
        Ok((cursor.word("a label")?, low, high))
    }

    /// `TYPE, NAME`.
    fn field(&mut self) -> Result<(Spanned<String>, TypeRef)> {
        let class = self.type_ref()?;
        self.cursor.accept(b';');
        self.cursor.expect(b',', "between the type and the name of a field")?;
        Ok((self.cursor.identifier("the name of the field")?, class))
    }
}
