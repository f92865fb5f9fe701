//! Specifiers, declarators and typedefs: what makes a type (`SPEC.md`, D5, D17 and D18).

use tracemill_codec::text::Span;
use tracemill_model::error::Result;

use super::super::cursor::{Given, Spanned};
use super::super::types::{DraftClass, DraftType, Int, WrittenOrder};
use super::{Space, V16Parser};
use crate::tsdl::TokenKind;

/// Names of the built-in event headers: a structure of such a name is documentation (`SPEC.md`, D22).
const HEADERS: [&str; 4] = ["event_header_1", "event_header_2", "event_header_1_ext", "event_header_2_ext"];

/// The beginning of a declaration.
pub(super) enum DeclarationStart {
    /// A type with a body: what follows is its name, or the name of a field, or nothing when it has a tag.
    Made { class: DraftType, is_basic: bool, has_tag: bool },
    /// A structure that describes a built-in header: nothing is declared.
    Skipped,
    /// Words: a type that has a name, and in a declaration the name that is declared after it.
    Words,
}

impl<'s> V16Parser<'s> {
    /// A type with a body, when one is next; otherwise nothing is taken.
    pub(super) fn start(&mut self) -> Result<DeclarationStart> {
        while self.cursor.is_word("const") {
            self.cursor.next();
        }
        let token = self.cursor.peek();
        let has_body = self.cursor.peek_nth(1).kind == TokenKind::Symbol("{");
        let basic = |class: DraftType| Ok(DeclarationStart::Made { class, is_basic: true, has_tag: false });
        match self.cursor.text(token) {
            _ if token.kind != TokenKind::Word => Ok(DeclarationStart::Words),
            "integer" if has_body => basic(self.integer()?),
            "floating_point" if has_body => basic(self.floating_point()?),
            "string" if has_body => basic(self.string()?),
            "enum" => self.enumeration(),
            "struct" => {
                let tag = (!has_body).then(|| self.cursor.peek_nth(1));
                let brace = if has_body { 1 } else { 2 };
                let is_body = self.cursor.peek_nth(brace).kind == TokenKind::Symbol("{");
                if !is_body || tag.is_some_and(|tag| tag.kind != TokenKind::Word) {
                    return Ok(DeclarationStart::Words);
                }
                self.structure()
            }
            _ => Ok(DeclarationStart::Words),
        }
    }

    /// `struct [TAG] { ... }`
    fn structure(&mut self) -> Result<DeclarationStart> {
        let word = self.cursor.next();
        let tag = if self.cursor.is_next("{") { None } else { Some(self.cursor.identifier("a tag")?) };
        if tag.as_ref().is_some_and(|tag| HEADERS.contains(&tag.value.as_str())) {
            self.cursor.skip_braces()?;
            if self.cursor.is_next(";") {
                return Ok(DeclarationStart::Skipped);
            }
            return Err(self.cursor.unexpected("`;` after the description of a built-in header"));
        }
        self.cursor.expect("{", "of the struct")?;
        self.cursor.enter()?;
        self.open_structs.extend(tag.as_ref().map(|tag| tag.value.clone()));
        let mut fields = Vec::new();
        while !self.cursor.accept("}") {
            if !self.cursor.accept(";") {
                self.member(&mut fields)?;
            }
        }
        self.cursor.leave();
        let class = DraftClass::structure(fields, true, self.cursor.source)?;
        let has_tag = tag.is_some();
        if let Some(tag) = tag {
            self.open_structs.pop();
            self.declare(Space::Struct, tag.value, class.clone(), word.span.to(tag.span))?;
        }
        Ok(DeclarationStart::Made { class, is_basic: false, has_tag })
    }

    /// A field, or a declaration, of a structure.
    fn member(&mut self, fields: &mut Vec<(Spanned<String>, DraftType)>) -> Result<()> {
        if self.cursor.is_word("typedef") {
            return self.typedef();
        }
        let from = self.cursor.peek().span;
        let (class, first) = match self.start()? {
            DeclarationStart::Skipped => return Ok(()),
            DeclarationStart::Made { has_tag: true, .. } if self.cursor.accept(";") => return Ok(()),
            DeclarationStart::Made { class, .. } => (class, self.cursor.identifier("the name of the field")?),
            DeclarationStart::Words => {
                let mut words = self.words()?;
                let name = self.last_word(&mut words, from, "field")?;
                if words.iter().all(|(word, _)| *word == "const") {
                    let message = format!("the field `{}` has no type, or a type and no name", name.value);
                    return Err(name.span.malformed(self.cursor.source, message));
                }
                (self.type_of(&words, from)?, name)
            }
        };
        let mut name = first;
        loop {
            let field = if self.cursor.accept(":") {
                self.bit_field(&class, &name)?
            } else {
                self.brackets(class.clone(), name.span)?
            };
            fields.push((name, field));
            if !self.cursor.accept(",") {
                break;
            }
            name = self.cursor.identifier("the name of another field")?;
        }
        self.cursor.expect(";", "after the field").map(|_| ())
    }

    /// A bit-field of `class`, whose width is next.
    fn bit_field(&mut self, class: &DraftType, name: &Spanned<String>) -> Result<DraftType> {
        let source = self.cursor.source;
        let super::super::types::DraftTypeKind::Integer(unit) = class.kind else {
            return Err(name.span.malformed(source, "the unit of a bit-field must be an integer"));
        };
        let width = self.cursor.number("the width of a bit-field", 1, unit.size.into())?.value as u32;
        Ok(DraftClass::bit_field(Int { size: width, ..unit }, 1, unit.size, class.align))
    }

    /// `typedef SPEC NAME [..];`
    pub(super) fn typedef(&mut self) -> Result<()> {
        let word = self.cursor.next();
        let from = self.cursor.peek().span;
        let is_string = self.cursor.is_word("string");
        let start = self.start()?;
        let (class, name) = match start {
            DeclarationStart::Skipped => return Err(self.cursor.unexpected("a type that is no built-in header")),
            DeclarationStart::Made { class, is_basic: true, .. } => (class, self.new_name()?),
            DeclarationStart::Made { class, .. } => {
                let name = self.cursor.identifier("the name of the type")?;
                (class, name)
            }
            // `string` without a body is a basic class too.
            DeclarationStart::Words if is_string && !self.typedefs.contains_key("string") => {
                self.cursor.next();
                (DraftClass::text(false), self.new_name()?)
            }
            DeclarationStart::Words => {
                let mut words = self.words()?;
                let name = self.last_word(&mut words, from, "type")?;
                (self.type_of(&words, from)?, name)
            }
        };
        let class = self.brackets(class, name.span)?;
        self.cursor.expect(";", "after the name of the type")?;
        self.declare(Space::Typedef, name.value, class, word.span.to(name.span))
    }

    /// All words up to `;` or `[`: a name of several words.
    fn new_name(&mut self) -> Result<Spanned<String>> {
        let words = self.words()?;
        let texts: Vec<&str> = words.iter().map(|&(word, _)| word).filter(|word| *word != "const").collect();
        match (words.first(), words.last()) {
            (Some((_, first)), Some((_, last))) if !texts.is_empty() => {
                Ok(Spanned { value: texts.join(" "), span: first.to(*last) })
            }
            _ => Err(self.cursor.unexpected("the name of the type")),
        }
    }

    /// Words and `*`, as many as there are.
    fn words(&mut self) -> Result<Vec<(&'s str, Span)>> {
        let mut words = Vec::new();
        while matches!(self.cursor.peek().kind, TokenKind::Word | TokenKind::Symbol("*")) {
            let token = self.cursor.next();
            words.push((self.cursor.text(token), token.span));
            if words.len() > MAX_WORDS {
                return Err(token.span.malformed(self.cursor.source, "a name of more than 64 words"));
            }
        }
        Ok(words)
    }

    /// The type that words name.
    fn type_of(&mut self, words: &[(&'s str, Span)], from: Span) -> Result<DraftType> {
        let texts: Vec<&str> = words.iter().map(|&(word, _)| word).collect();
        self.named(&texts, words.iter().fold(from, |span, (_, word)| span.to(*word)))
    }

    /// Takes the last word, which is the name that is declared.
    fn last_word(&self, words: &mut Vec<(&'s str, Span)>, from: Span, what: &str) -> Result<Spanned<String>> {
        match words.pop() {
            Some((word, span)) if word != "*" => Ok(Spanned { value: word.to_string(), span }),
            Some((_, span)) => {
                let message = format!("there is no name of the {what} after `*`");
                Err(span.malformed(self.cursor.source, message))
            }
            None if self.cursor.is_end() => Err(self.cursor.unexpected(&format!("a {what}, or `}}`"))),
            None => Err(from.malformed(self.cursor.source, format!("expected a {what}"))),
        }
    }

    /// `[N]` and `[TYPE]` after a name; the leftmost is the outermost.
    fn brackets(&mut self, class: DraftType, name: Span) -> Result<DraftType> {
        enum Bracket {
            Fixed(u64),
            Counted(DraftType),
        }
        let mut brackets = Vec::new();
        while self.cursor.accept("[") {
            self.cursor.enter()?;
            let bracket = match self.cursor.peek().kind {
                TokenKind::Integer(_) => {
                    Bracket::Fixed(self.cursor.number("the length of the array", 0, u64::MAX.into())?.value as u64)
                }
                TokenKind::Symbol("]") => {
                    return Err(self.cursor.unexpected("a length, or the type of one"));
                }
                _ => Bracket::Counted(self.plain_type()?),
            };
            self.cursor.expect("]", "after the length")?;
            brackets.push(bracket);
        }
        let mut class = class;
        for bracket in brackets.into_iter().rev() {
            self.cursor.leave();
            class = match bracket {
                Bracket::Fixed(length) => DraftClass::array(length, class, name, self.cursor.source)?,
                Bracket::Counted(length) => DraftClass::sequence(length, class, name, self.cursor.source)?,
            };
        }
        Ok(class)
    }

    /// A type that nothing is declared after.
    pub(super) fn plain_type(&mut self) -> Result<DraftType> {
        let from = self.cursor.peek().span;
        match self.start()? {
            DeclarationStart::Made { class, .. } => Ok(class),
            DeclarationStart::Skipped => Err(self.cursor.unexpected("a type that is no built-in header")),
            DeclarationStart::Words => {
                let words = self.words()?;
                if words.is_empty() {
                    return Err(self.cursor.unexpected("a type"));
                }
                self.type_of(&words, from)
            }
        }
    }

    /// `{ NAME = VALUE; ... }`: `take` reads the value of an attribute whose name is among `names`.
    fn attributes(
        &mut self,
        what: &str,
        names: &[&str],
        mut take: impl FnMut(&mut Self, &str) -> Result<()>,
    ) -> Result<Span> {
        let word = self.cursor.next();
        self.cursor.expect("{", &format!("of the {what}"))?;
        let mut given = Given::default();
        while !self.cursor.accept("}") {
            if self.cursor.accept(";") {
                continue;
            }
            let name = self.cursor.identifier(&format!("an attribute of the {what}, or `}}`"))?;
            self.cursor.equals(&name)?;
            if !names.contains(&name.value.as_str()) {
                self.cursor.skip_unknown(&name, what)?;
                continue;
            }
            take(self, &name.value)?;
            given.add(name, self.cursor.source)?;
            self.cursor.expect(";", "after the value")?;
        }
        Ok(word.span)
    }

    fn integer(&mut self) -> Result<DraftType> {
        let (mut size, mut signed, mut align, mut order) = (None, false, None, WrittenOrder::default());
        let span = self.attributes("integer", &["size", "signed", "align", "byte_order"], |parser, name| {
            match name {
                "size" => size = Some(parser.cursor.number("the size in bits", 1, 64)?.value as u32),
                "signed" => signed = parser.cursor.boolean("signed")?,
                "align" => align = Some(parser.cursor.power_of_two("the alignment")?),
                _ => order = parser.cursor.byte_order()?,
            }
            Ok(())
        })?;
        let Some(size) = size else { return Err(span.malformed(self.cursor.source, "the integer has no `size`")) };
        Ok(DraftClass::integer(Int { size, signed, order }, align))
    }

    fn floating_point(&mut self) -> Result<DraftType> {
        let (mut exponent, mut mantissa, mut align, mut order) = (None, None, None, WrittenOrder::default());
        let names = &["exp_dig", "mant_dig", "align", "byte_order"];
        let span = self.attributes("floating_point", names, |parser, name| {
            match name {
                "exp_dig" => exponent = Some(parser.cursor.number(name, 0, 1 << 16)?.value),
                "mant_dig" => mantissa = Some(parser.cursor.number(name, 0, 1 << 16)?.value),
                "align" => align = Some(parser.cursor.power_of_two("the alignment")?),
                _ => order = parser.cursor.byte_order()?,
            }
            Ok(())
        })?;
        let source = self.cursor.source;
        let missing = |what: &str| span.malformed(source, format!("the floating_point has no `{what}`"));
        let exponent = exponent.ok_or_else(|| missing("exp_dig"))?;
        let mantissa = mantissa.ok_or_else(|| missing("mant_dig"))?;
        let (class, odd) = DraftClass::float((exponent, mantissa), order, align, span, source)?;
        odd.into_iter().for_each(|message| self.cursor.warn(span, message));
        Ok(class)
    }

    fn string(&mut self) -> Result<DraftType> {
        let mut is_ascii = false;
        self.attributes("string", &["encoding"], |parser, _| {
            is_ascii = parser.cursor.is_ascii()?;
            Ok(())
        })?;
        Ok(DraftClass::text(is_ascii))
    }
}

/// Words of a name that anybody writes.
const MAX_WORDS: usize = 64;
