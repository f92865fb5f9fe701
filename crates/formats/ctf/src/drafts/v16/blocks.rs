//! `trace`, `stream` and `event` blocks.

use tracemill_codec::text::{Span, uuid_of};
use tracemill_model::error::Result;

use super::super::cursor::{Attributes, Cursor, Spanned};
use super::super::packet_fields;
use super::super::types::{DraftEvent, DraftType, DraftTypeKind, HeaderForm, SectionClass};
use super::V16Parser;
use super::specs::DeclarationStart;
use crate::tsdl::TokenKind;

impl<'s> Attributes<'s> for V16Parser<'s> {
    const MARK: Option<&'static str> = None;
    const BLOCKS_END: bool = false;

    fn cursor(&mut self) -> &mut Cursor<'s> {
        &mut self.cursor
    }

    fn end_of_value(&mut self) -> Result<()> {
        self.cursor.expect(";", "after the value").map(|_| ())
    }
}

impl V16Parser<'_> {
    /// Reads the trace block before all others: what it says of words and pointers holds everywhere.
    pub(super) fn find_trace(&mut self) -> Result<()> {
        let mut open = 0u32;
        while !self.cursor.is_end() {
            if open == 0 && self.cursor.is_word("trace") && self.cursor.peek_nth(1).kind == BRACE {
                self.cursor.next();
                self.trace()?;
                continue;
            }
            if self.cursor.is_next("{") {
                open += 1;
            } else if self.cursor.is_next("}") {
                open = open.saturating_sub(1);
            }
            self.cursor.next();
        }
        self.cursor.at = 0;
        Ok(())
    }

    /// A top-level declaration.
    pub(super) fn entry(&mut self) -> Result<()> {
        let token = self.cursor.peek();
        match self.cursor.text(token) {
            "trace" => {
                // It has been read.
                self.cursor.next();
                if self.cursor.peek().kind != BRACE {
                    return Err(self.cursor.unexpected("`{` of the trace"));
                }
                self.cursor.skip_braces()
            }
            "stream" => self.stream(),
            "event" => self.event(),
            "typedef" => self.typedef(),
            "struct" | "enum" => match self.start()? {
                DeclarationStart::Skipped => Ok(()),
                DeclarationStart::Made { has_tag: true, .. } => {
                    self.cursor.expect(";", "after the declaration").map(|_| ())
                }
                DeclarationStart::Made { .. } => {
                    Err(token.span.malformed(self.cursor.source, "a type without a tag declares nothing"))
                }
                DeclarationStart::Words => Err(self.cursor.unexpected("a declaration with a body")),
            },
            _ => Err(self.cursor.unexpected("`trace`, `stream`, `event`, `typedef`, `struct` or `enum`")),
        }
    }

    fn trace(&mut self) -> Result<()> {
        let (mut uuid, mut word_size) = (None, None);
        self.block("trace", (&["major", "minor", "uuid", "word_size"], &[]), |parser, name| {
            match name.value.as_str() {
                "uuid" => {
                    let word = parser.cursor.word("the uuid")?;
                    let message = || format!("`{}` is not a uuid of 36 characters", word.value);
                    let bad = || word.span.malformed(parser.cursor.source, message());
                    uuid = Some(uuid_of(&word.value).ok_or_else(bad)?);
                }
                "word_size" => word_size = Some(parser.cursor.number("word_size", 1, 64)?.value as u32),
                version => {
                    parser.cursor.number(version, 0, u32::MAX.into())?;
                }
            }
            Ok(())
        })?;
        self.word_size = word_size.unwrap_or(self.word_size);
        if let Some(uuid) = uuid
            && self.uuid.replace(uuid).is_some_and(|known| known != uuid)
        {
            let span = self.cursor.peek().span;
            return Err(span.malformed(self.cursor.source, "the trace block before gave another uuid"));
        }
        Ok(())
    }

    /// A form of the header, or of its extension.
    fn form(&mut self, is_extension: bool) -> Result<HeaderForm> {
        if self.cursor.is_word("struct") {
            self.cursor.next();
        }
        let word = self.cursor.identifier("a built-in event header")?;
        let name = match word.value.strip_suffix("_ext") {
            Some(name) if is_extension => name,
            None if !is_extension => word.value.as_str(),
            _ => "",
        };
        let wanted = if is_extension {
            "event_header_1_ext` or `event_header_2_ext"
        } else {
            "event_header_1` or `event_header_2"
        };
        match name {
            "event_header_1" => Ok(HeaderForm::One),
            "event_header_2" => Ok(HeaderForm::Two),
            _ => {
                let message = format!("`{}` is not a built-in event header: `{wanted}`", word.value);
                Err(word.span.malformed(self.cursor.source, message))
            }
        }
    }

    /// A structure as the value of an attribute, anywhere but in a packet context.
    fn structure_value(&mut self, name: &Spanned<String>) -> Result<DraftType> {
        let class = self.any_structure_value(name)?;
        if class.has_twin {
            let message = "two fields of one structure have the name `checksum`, which only a packet context may have";
            return Err(name.span.malformed(self.cursor.source, message));
        }
        Ok(class)
    }

    fn any_structure_value(&mut self, name: &Spanned<String>) -> Result<DraftType> {
        self.cursor.equals(name)?;
        let span = self.cursor.peek().span;
        let class = self.plain_type()?;
        if !matches!(class.kind, DraftTypeKind::Struct(_)) {
            return Err(span.malformed(self.cursor.source, format!("`{}` must be a struct", name.value)));
        }
        // `;` after a body is optional.
        if !self.cursor.accept(";") && !self.cursor.is_after_brace() {
            return Err(self.cursor.unexpected("`;` after the type"));
        }
        Ok(class)
    }

    fn stream(&mut self) -> Result<()> {
        let word = self.cursor.next();
        let (mut id, mut event, mut packet_context) = (None, None, None);
        self.block("stream", (&["id"], &["event", "packet"]), |parser, name| {
            match name.value.as_str() {
                "id" => id = Some(parser.cursor.number("the id of the stream", 0, u32::MAX.into())?.value as u64),
                "event" => event = Some(parser.stream_event(name)?),
                _ => packet_context = Some(parser.stream_packet(name)?),
            }
            Ok(())
        })?;
        let source = self.cursor.source;
        let missing = |what: &str| word.span.malformed(source, format!("the stream has no `{what}`"));
        let id = id.ok_or_else(|| missing("id"))?;
        let (header, extension, context) = event.ok_or_else(|| missing("event"))?;
        let packet_context = Some(packet_context.ok_or_else(|| missing("packet"))?);
        let group = SectionClass { name: None, id, header, extension, has_event_size: false, context, packet_context };
        match self.streams.iter().find(|(known, _)| known.id == id) {
            None => self.streams.push((group, word.span)),
            Some((known, _)) if *known == group => {}
            Some((_, span)) => {
                let message = format!("the stream {id} is declared a second time, otherwise");
                let error = word.span.malformed(source, message);
                return Err(error.with_related("the first declaration", span.place(source)));
            }
        }
        Ok(())
    }

    /// The block `event` of a stream: header, extension, context.
    fn stream_event(&mut self, word: &Spanned<String>) -> Result<(HeaderForm, HeaderForm, Option<DraftType>)> {
        let (mut header, mut extension, mut context) = (None, None, None);
        let names: (&[_], &[_]) = (&["header_type", "header_type_ext"], &["context_type"]);
        self.block("stream's `event`", names, |parser, name| {
            match name.value.as_str() {
                "header_type" => header = Some(parser.form(false)?),
                "header_type_ext" => extension = Some(parser.form(true)?),
                _ => context = Some(parser.structure_value(name)?),
            }
            Ok(())
        })?;
        let missing = || word.span.malformed(self.cursor.source, "the stream's `event` has no `header_type`");
        let header = header.ok_or_else(missing)?;
        Ok((header, extension.unwrap_or(header), context))
    }

    /// The block `packet` of a stream: its context, with both sizes in it (`SPEC.md`, D34).
    fn stream_packet(&mut self, word: &Spanned<String>) -> Result<DraftType> {
        let mut context = None;
        self.block("stream's `packet`", (&[], &["context_type"]), |parser, name| {
            context = Some(parser.any_structure_value(name)?);
            Ok(())
        })?;
        let source = self.cursor.source;
        let missing = |what: &str| word.span.malformed(source, format!("the stream's `packet` has no `{what}`"));
        let context = context.ok_or_else(|| missing("context_type"))?;
        self.check_packet_context(&context, word.span)?;
        Ok(context)
    }

    fn check_packet_context(&mut self, context: &DraftType, span: Span) -> Result<()> {
        let DraftTypeKind::Struct(fields) = &context.kind else { return Ok(()) };
        for name in ["content_size", "packet_size"] {
            let field = fields.iter().find(|field| &*field.name == name);
            let message = match field.map(|field| field.class.as_integer()) {
                None => format!("the packet context has no `{name}`"),
                Some(Some(int)) if !int.signed => continue,
                Some(_) => format!("`{name}` of the packet context must be an unsigned integer"),
            };
            return Err(span.malformed(self.cursor.source, message));
        }
        for field in fields {
            let is_known = packet_fields::is_known(&field.name);
            if is_known && &*field.name != "checksum" && field.class.as_integer().is_none() {
                let message = format!("`{}` of the packet context is not an integer, and so means nothing", field.name);
                self.cursor.warn(span, message);
            }
        }
        Ok(())
    }

    fn event(&mut self) -> Result<()> {
        let word = self.cursor.next();
        let (mut name, mut id, mut stream, mut fields) = (None, None, None, None);
        self.block("event", (&["name", "id", "stream"], &["fields"]), |parser, attribute| {
            let id_of = |parser: &mut Self, what: &str| parser.cursor.number(what, 0, u32::MAX.into());
            match attribute.value.as_str() {
                "name" => name = Some(parser.cursor.word("the name of the event")?),
                "id" => id = Some(id_of(parser, "the id of the event")?),
                "stream" => stream = Some(id_of(parser, "the id of the stream")?.value as u64),
                _ => fields = Some(parser.structure_value(attribute)?),
            }
            Ok(())
        })?;
        let missing = |what: &str| word.span.malformed(self.cursor.source, format!("the event has no `{what}`"));
        let id = id.ok_or_else(|| missing("id"))?;
        let event = DraftEvent {
            name: name.ok_or_else(|| missing("name"))?.value,
            id: id.value as u64,
            payload: fields.ok_or_else(|| missing("fields"))?,
        };
        let stream = stream.ok_or_else(|| missing("stream"))?;
        self.events.push((event, stream, id.span));
        Ok(())
    }
}

const BRACE: TokenKind = TokenKind::Symbol("{");
