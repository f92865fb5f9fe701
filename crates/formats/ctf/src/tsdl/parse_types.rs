//! Tokens to syntax trees: types and declarators (CTF 1.8.3, C.2.2).
//!
//! The grammar needs to know which identifiers are types. Here the position decides instead: an identifier is a type
//! when no type came before it, or when another word or a `*` follows it.

use tracemill_model::error::Result;

use super::ast::pointer_name;
use super::ast::{
    BlockItem, Declarator, EnumSpec, Enumerator, Expr, SpecKind, StructSpec, TypeSpec, VariantSpec, Word,
};
use super::lexer::TokenKind;
use super::parser::TsdlParser;

impl<'s> TsdlParser<'s> {
    /// Parses `type declarators` or a `typedef` in any of its three orders.
    pub(super) fn declaration(&mut self) -> Result<BlockItem<'s>> {
        let (spec, is_typedef) = self.specifier(true)?;
        let mut declarators = Vec::new();
        if !self.is_next(";") {
            declarators.push(self.declarator()?);
            while self.accept(",") {
                declarators.push(self.declarator()?);
            }
        }
        Ok(if is_typedef { BlockItem::Typedef(spec, declarators) } else { BlockItem::Fields(spec, declarators) })
    }

    /// Parses a type. With `allow_typedef`, the keyword `typedef` may stand before, inside or after it; the flag
    /// that is returned says whether it did.
    pub(super) fn specifier(&mut self, allow_typedef: bool) -> Result<(TypeSpec<'s>, bool)> {
        let mut start = self.peek().span;
        let mut is_typedef = false;
        let mut compound = None;
        let mut words: Vec<Word<'s>> = Vec::new();
        while let Some(text) = self.peek_word() {
            let is_named = compound.is_some() || words.iter().any(|word| word.text != "const");
            match text {
                "typedef" if allow_typedef && !is_typedef => {
                    is_typedef = true;
                    self.next();
                    // Errors about the type point to the type.
                    if compound.is_none() && words.is_empty() {
                        start = self.peek().span;
                    }
                }
                "const" => words.push(self.word("`const`")?),
                "integer" | "floating_point" | "string" | "struct" | "variant" | "enum" => {
                    if is_named {
                        return Err(self.unexpected("one type"));
                    }
                    compound = Some(self.compound(text)?);
                }
                _ if compound.is_some() => break,
                // The name of a basic type, or a part of it.
                "void" | "char" | "short" | "int" | "long" | "float" | "double" | "signed" | "unsigned" | "_Bool"
                | "_Complex" | "_Imaginary" => words.push(self.word("a type")?),
                _ if !is_named || self.second_continues_type() => words.push(self.word("a type")?),
                _ => break,
            }
        }
        let kind = match compound {
            Some(kind) => kind,
            None if words.is_empty() => return Err(self.unexpected("a type")),
            None => SpecKind::Name(words),
        };
        Ok((TypeSpec { kind, span: start.to(self.previous().span) }, is_typedef))
    }

    fn second_continues_type(&self) -> bool {
        match self.peek_nth(1).kind {
            TokenKind::Word => self.text(self.peek_nth(1)) != "typedef",
            TokenKind::Symbol("*") => true,
            _ => false,
        }
    }

    fn compound(&mut self, keyword: &str) -> Result<SpecKind<'s>> {
        self.next();
        Ok(match keyword {
            "integer" => SpecKind::Integer(self.braced_items()?),
            "floating_point" => SpecKind::Float(self.braced_items()?),
            "string" if self.is_next("{") => SpecKind::String(self.braced_items()?),
            "string" => SpecKind::String(Vec::new()),
            "struct" => SpecKind::Struct(self.structure()?),
            "variant" => SpecKind::Variant(self.variant()?),
            _ => SpecKind::Enum(self.enumeration()?),
        })
    }

    fn optional_name(&mut self) -> Result<Option<Word<'s>>> {
        if self.peek_word().is_some() { self.word("a name").map(Some) } else { Ok(None) }
    }

    fn optional_body(&mut self) -> Result<Option<Vec<BlockItem<'s>>>> {
        if self.is_next("{") { self.braced_items().map(Some) } else { Ok(None) }
    }

    fn structure(&mut self) -> Result<StructSpec<'s>> {
        let name = self.optional_name()?;
        let body = self.optional_body()?;
        if name.is_none() && body.is_none() {
            return Err(self.unexpected("a name or `{` after `struct`"));
        }
        let mut align = None;
        if self.is_word("align") && self.peek_nth(1).kind == TokenKind::Symbol("(") {
            self.next();
            self.expect("(")?;
            align = Some(self.expr()?);
            self.expect(")")?;
        }
        Ok(StructSpec { name, body, align })
    }

    fn variant(&mut self) -> Result<VariantSpec<'s>> {
        let name = self.optional_name()?;
        let mut tag = None;
        if self.accept("<") {
            tag = Some(self.expr()?);
            self.expect(">")?;
        }
        let body = self.optional_body()?;
        if name.is_none() && body.is_none() {
            return Err(self.unexpected("`{` after `variant`"));
        }
        Ok(VariantSpec { name, tag, body })
    }

    fn enumeration(&mut self) -> Result<EnumSpec<'s>> {
        let name = self.optional_name()?;
        let mut container = None;
        // `enum foo : 3` would be a bit field of type `enum foo`.
        if self.is_next(":") && self.peek_nth(1).kind == TokenKind::Word {
            self.next();
            self.enter()?;
            container = Some(Box::new(self.specifier(false)?.0));
            self.leave();
        }
        let mut body = None;
        if self.accept("{") {
            body = Some(self.enumerators()?);
        }
        if body.is_none() && (name.is_none() || container.is_some()) {
            return Err(self.unexpected("`{` with the labels of the enumeration"));
        }
        Ok(EnumSpec { name, container, body })
    }

    fn enumerators(&mut self) -> Result<Vec<Enumerator<'s>>> {
        let mut enumerators = Vec::new();
        while !self.accept("}") {
            enumerators.push(self.enumerator()?);
            if !self.accept(",") && !self.is_next("}") {
                return Err(self.unexpected("`,` or `}`"));
            }
        }
        Ok(enumerators)
    }

    fn enumerator(&mut self) -> Result<Enumerator<'s>> {
        let label = self.word_or_literal("a label")?;
        let (mut low, mut high) = (None, None);
        if self.accept("=") {
            low = Some(self.expr()?);
            if self.accept("...") {
                high = Some(self.expr()?);
            }
        }
        Ok(Enumerator { label, low, high })
    }

    /// Parses pointers, an optional name, and lengths.
    pub(super) fn declarator(&mut self) -> Result<Declarator<'s>> {
        let start = self.peek().span;
        let mut declarator =
            Declarator { pointers: Vec::new(), name: None, lengths: Vec::new(), width: None, span: start };
        self.pointers(&mut declarator.pointers)?;
        self.direct_declarator(&mut declarator)?;
        if self.accept(":") {
            declarator.width = Some(self.expr()?);
        }
        let end = self.previous().span;
        if end.end > start.start {
            declarator.span = start.to(end);
        }
        Ok(declarator)
    }

    fn pointers(&mut self, pointers: &mut Vec<bool>) -> Result<()> {
        while self.accept("*") {
            let mut is_const = false;
            while self.is_word("const") {
                is_const = true;
                self.next();
            }
            pointers.push(is_const);
        }
        Ok(())
    }

    fn direct_declarator(&mut self, declarator: &mut Declarator<'s>) -> Result<()> {
        if self.accept("(") {
            self.enter()?;
            if self.is_next("*") {
                return Err(self.peek().span.unsupported(self.source, "pointers inside parentheses are not supported"));
            }
            self.direct_declarator(declarator)?;
            self.leave();
            self.expect(")")?;
        } else {
            declarator.name = self.optional_name()?;
        }
        while self.accept("[") {
            declarator.lengths.push(self.length()?);
            self.expect("]")?;
        }
        Ok(())
    }

    fn length(&mut self) -> Result<Option<Expr<'s>>> {
        if self.is_next("]") { Ok(None) } else { self.expr().map(Some) }
    }

    /// Parses the name after the `:=` of a `typealias`: words and pointers.
    pub(super) fn alias_name(&mut self) -> Result<String> {
        let mut words: Vec<String> = Vec::new();
        while self.peek_word().is_some() {
            words.push(self.word("a type name")?.text.into_owned());
        }
        if words.is_empty() {
            return Err(self.unexpected("the new name of the type"));
        }
        let mut pointers = Vec::new();
        self.pointers(&mut pointers)?;
        Ok(pointer_name(words.join(" "), &pointers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracemill_codec::text::Span;

    fn item(source: &str) -> Result<BlockItem<'_>> {
        TsdlParser::new(source, Span::new(0, source.len()))?.root()
    }

    fn fault(source: &str) -> String {
        item(source).expect_err("the text is wrong").to_string()
    }

    fn name_words(spec: &TypeSpec<'_>) -> String {
        match &spec.kind {
            SpecKind::Name(words) => words.iter().map(|word| &*word.text).collect::<Vec<_>>().join(" "),
            other => panic!("not a name: {other:?}"),
        }
    }

    #[test]
    fn the_last_identifier_is_the_field() {
        for (source, words, name) in [
            ("uint32_t x;", "uint32_t", "x"),
            ("unsigned long long x;", "unsigned long long", "x"),
            ("const foo_t x;", "const foo_t", "x"),
            ("unsigned foo_t x;", "unsigned foo_t", "x"),
            ("unsigned foo_t *x;", "unsigned foo_t", "x"),
        ] {
            let Ok(BlockItem::Fields(spec, declarators)) = item(source) else { panic!("{source}") };
            assert_eq!(name_words(&spec), words);
            assert_eq!(declarators[0].name.as_ref().map(|word| &*word.text), Some(name));
        }
    }

    #[test]
    fn typedef_in_three_orders() {
        for source in ["typedef int a, b[2];", "int typedef a, b[2];", "const typedef int a, b[2];"] {
            let Ok(BlockItem::Typedef(_, declarators)) = item(source) else { panic!("{source}") };
            assert_eq!(declarators.len(), 2);
        }
    }

    #[test]
    fn alias_names_are_words_and_pointers() {
        let Ok(BlockItem::Alias(alias)) = item("typealias integer { size = 8; } := struct page * const *;") else {
            panic!()
        };
        assert_eq!(alias.name, "struct page * const *");
    }

    #[test]
    fn enum_with_everything() {
        let source = "enum e : unsigned int { A, \"b c\" = 3, int = 5 ... 9, };";
        let Ok(BlockItem::Fields(spec, _)) = item(source) else { panic!() };
        let SpecKind::Enum(spec) = spec.kind else { panic!() };
        let labels: Vec<_> = spec.body.expect("it has a body").iter().map(|e| e.label.text.to_string()).collect();
        assert_eq!(labels, ["A", "b c", "int"]);
    }

    #[test]
    fn faults_point_to_the_token() {
        assert!(fault("struct { int x } y;").contains("column 16: expected `;`, found `}`"));
        assert!(fault("struct x string y;").contains("column 10: expected one type, found `string`"));
        assert!(fault("enum e : int x;").contains("column 14: expected `{` with the labels"));
        assert!(
            fault("variant <t> x;").contains("column 13: expected `{` after `variant`")
                || !fault("variant <t> x;").is_empty()
        );
        assert!(fault("enum { A B };").contains("column 10: expected `,` or `}`, found `B`"));
        assert!(fault("int (*x)[3];").contains("column 6: pointers inside parentheses"));
    }
}
