//! Tokens to a tree. Accepts the spellings that the damaged text of the proposal shows (`SPEC.md`, D2).

use tracemill_codec::text::Span;
use tracemill_model::error::{Error, Result};

use super::super::cursor::{Attributes, Cursor, Spanned};
use super::super::types::HeaderForm;
use super::ast::{Body, EventBlock, SectionBlock, TraceBlock, TypeRef, V11Declaration};
use super::resolve::BUILT_IN;

/// The declarations of a text, and warnings.
pub(super) fn parse(source: &str) -> Result<(Vec<V11Declaration>, Vec<Error>)> {
    let mut parser = V11Parser { cursor: Cursor::new(source)? };
    let mut entries = Vec::new();
    while !parser.cursor.is_end() {
        // `;` behind any `}`.
        if parser.cursor.accept(";") {
            continue;
        }
        entries.push(parser.entry()?);
    }
    Ok((entries, parser.cursor.warnings))
}

/// Attributes of a type.
const BODY: &[&str] = &[
    "parent",
    "size",
    "align",
    "unit_size",
    "length",
    "exp_dig",
    "mant_dig",
    "signed",
    "byte_order",
    "encoding",
    "elem_type",
    "length_type",
    "map",
    "fields",
];

struct V11Parser<'s> {
    cursor: Cursor<'s>,
}

impl<'s> Attributes<'s> for V11Parser<'s> {
    const MARK: Option<&'static str> = Some(".");
    const BLOCKS_END: bool = true;

    fn cursor(&mut self) -> &mut Cursor<'s> {
        &mut self.cursor
    }

    /// `;`, which may be missing behind a `}`.
    fn end_of_value(&mut self) -> Result<()> {
        match self.cursor.accept(";") || self.cursor.is_after_brace() {
            true => Ok(()),
            false => Err(self.cursor.unexpected("`;` after the value")),
        }
    }
}

impl V11Parser<'_> {
    fn entry(&mut self) -> Result<V11Declaration> {
        let cursor = &mut self.cursor;
        let word = cursor.identifier("`trace`, `section`, `event`, `abstract_type` or `type`")?;
        Ok(match word.value.as_str() {
            "trace" => V11Declaration::Trace(self.trace()?),
            "section" => V11Declaration::Section(self.section(&word)?),
            "event" => V11Declaration::Event(self.event(&word)?),
            "abstract_type" | "type" => {
                let name = cursor.identifier("the name of the type")?;
                if word.value == "abstract_type" && BUILT_IN.contains(&name.value.as_str()) && cursor.is_next("{") {
                    // The texts list these with `value`, `OR` and `...` where values would stand (`SPEC.md`, D2).
                    cursor.skip_braces()?;
                    return Ok(V11Declaration::Abstract(name.clone(), Body::new(name.span)));
                }
                let body = self.body(name.span)?;
                match word.value.as_str() {
                    "type" => V11Declaration::Concrete(name, body),
                    _ => V11Declaration::Abstract(name, body),
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

    fn trace(&mut self) -> Result<TraceBlock> {
        let mut session_id = None;
        self.block("trace", (&["major", "minor", "session_id"], &[]), |parser, name| {
            let value = parser.cursor.number(&name.value, 0, u32::MAX.into())?;
            if name.value == "session_id" {
                session_id = Some(value);
            }
            Ok(())
        })?;
        Ok(TraceBlock { session_id })
    }

    fn section(&mut self, word: &Spanned<String>) -> Result<SectionBlock> {
        let (mut name, mut event) = (None, None);
        self.block("section", (&["name"], &["event"]), |parser, attribute| {
            match attribute.value.as_str() {
                "name" => name = Some(parser.cursor.word("the name of the section")?),
                _ => event = Some(parser.section_event(attribute)?),
            }
            Ok(())
        })?;
        let missing = |what: &str| word.span.malformed(self.cursor.source, format!("the section has no `{what}`"));
        let name = name.ok_or_else(|| missing("name"))?;
        let (header, has_event_size, context) = event.ok_or_else(|| missing("event"))?;
        Ok(SectionBlock { name, header, has_event_size, context })
    }

    /// The block `event` of a section: form of the header, and context.
    fn section_event(&mut self, word: &Spanned<String>) -> Result<(HeaderForm, bool, Option<TypeRef>)> {
        let (mut header, mut context) = (None, None);
        self.block("section's `event`", (&["header_type"], &["context"]), |parser, attribute| {
            match attribute.value.as_str() {
                "header_type" => header = Some(parser.form()?),
                _ => context = Some(parser.context()?),
            }
            Ok(())
        })?;
        let missing = || word.span.malformed(self.cursor.source, "the section's `event` has no `header_type`");
        let (has_event_size, fields) = context.unwrap_or((false, None));
        Ok((header.ok_or_else(missing)?, has_event_size, fields))
    }

    fn form(&mut self) -> Result<HeaderForm> {
        let word = self.cursor.identifier("`type1` or `type2`")?;
        match word.value.as_str() {
            "type1" => Ok(HeaderForm::One),
            "type2" => Ok(HeaderForm::Two),
            other => {
                let message = format!("the header type is `{other}`, and must be `type1` or `type2`");
                Err(word.span.malformed(self.cursor.source, message))
            }
        }
    }

    fn context(&mut self) -> Result<(bool, Option<TypeRef>)> {
        let (mut has_event_size, mut fields) = (false, None);
        self.block("context", (&["event_size", "fields"], &[]), |parser, attribute| {
            match attribute.value.as_str() {
                "event_size" => has_event_size = parser.cursor.boolean("event_size")?,
                _ => fields = Some(parser.type_ref()?),
            }
            Ok(())
        })?;
        Ok((has_event_size, fields))
    }

    fn event(&mut self, word: &Spanned<String>) -> Result<EventBlock> {
        let (mut name, mut id, mut section, mut fields) = (None, None, None, None);
        self.block("event", (&["name", "id", "section", "fields"], &[]), |parser, attribute| {
            match attribute.value.as_str() {
                "name" => name = Some(parser.cursor.word("the name of the event")?),
                "id" => id = Some(parser.cursor.number("the id", 0, u32::MAX.into())?),
                "section" => section = Some(parser.cursor.word("the name of a section")?),
                _ => fields = Some(parser.type_ref()?),
            }
            Ok(())
        })?;
        let missing = |what: &str| word.span.malformed(self.cursor.source, format!("the event has no `{what}`"));
        Ok(EventBlock {
            name: name.ok_or_else(|| missing("name"))?,
            id: id.ok_or_else(|| missing("id"))?,
            section: section.ok_or_else(|| missing("section"))?,
            fields: fields.ok_or_else(|| missing("fields"))?,
        })
    }

    fn type_ref(&mut self) -> Result<TypeRef> {
        let word = self.cursor.identifier("the name of a type, or `type {`")?;
        if word.value == "type" && self.cursor.is_next("{") {
            return Ok(TypeRef::Body(Box::new(self.body(word.span)?)));
        }
        Ok(TypeRef::Name(word))
    }

    fn body(&mut self, span: Span) -> Result<Body> {
        let mut body = Body::new(span);
        self.block("type", (BODY, &[]), |parser, name| {
            let cursor = &mut parser.cursor;
            match name.value.as_str() {
                "parent" => body.parent = Some(cursor.identifier("the name of the parent")?),
                "size" => body.size = Some(cursor.number("the size in bits", 1, 64)?),
                "align" => body.align = Some(cursor.power_of_two("the alignment")?),
                "unit_size" => body.unit_size = Some(cursor.power_of_two("the unit size")?),
                "length" => body.length = Some(cursor.number("the length", 0, u64::MAX.into())?),
                "exp_dig" => body.exp_dig = Some(cursor.number("exp_dig", 0, 1 << 16)?),
                "mant_dig" => body.mant_dig = Some(cursor.number("mant_dig", 0, 1 << 16)?),
                "signed" => body.signed = Some(cursor.boolean("signed")?),
                "byte_order" => body.byte_order = Some(cursor.byte_order()?),
                "encoding" => body.is_ascii = Some(cursor.is_ascii()?),
                "elem_type" => body.elem_type = Some(parser.type_ref()?),
                "length_type" => body.length_type = Some(parser.type_ref()?),
                "map" => body.map = Some(parser.elements(Self::pair)?),
                _ => body.fields = Some(parser.elements(Self::field)?),
            }
            Ok(())
        })?;
        Ok(body)
    }

    /// `{ {...}, {...}, }`, with the commas left out where the writer pleases.
    fn elements<T>(&mut self, mut element: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.cursor.expect("{", "of the list")?;
        let mut elements = Vec::new();
        while !self.cursor.accept("}") {
            self.cursor.expect("{", "of an element, or `}`")?;
            elements.push(element(self)?);
            self.cursor.accept(",");
            self.cursor.expect("}", "of the element")?;
            // A `;` behind any `}`, then a comma.
            self.cursor.accept(";");
            self.cursor.accept(",");
        }
        Ok(elements)
    }

    /// `VALUE, LABEL` or `{ FIRST, LAST }, LABEL`.
    fn pair(&mut self) -> Result<(Spanned<String>, i128, i128)> {
        let cursor = &mut self.cursor;
        let (low, high) = if cursor.accept("{") {
            let low = cursor.integer("the first value of a range")?.value;
            cursor.expect(",", "between the ends of a range")?;
            let high = cursor.integer("the last value of a range")?.value;
            cursor.accept(",");
            cursor.expect("}", "after a range")?;
            (low, high)
        } else {
            let value = cursor.integer("a value, or a range in braces")?.value;
            (value, value)
        };
        cursor.expect(",", "after the value")?;
        Ok((cursor.word("a label")?, low, high))
    }

    /// `TYPE, NAME`.
    fn field(&mut self) -> Result<(Spanned<String>, TypeRef)> {
        let class = self.type_ref()?;
        self.cursor.accept(";");
        self.cursor.expect(",", "between the type and the name of a field")?;
        Ok((self.cursor.identifier("the name of the field")?, class))
    }
}
