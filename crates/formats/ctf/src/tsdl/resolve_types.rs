//! Type specifiers and declarators to [`TsdlType`]s: names are looked up here, paths are not.

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use tracemill_codec::text::{Span, suggest};
use tracemill_model::error::Result;
use tracemill_model::schema::{DisplayBase, EnvValue, IntegerClass, Mapping, Range};

use super::ast::pointer_name;
use super::ast::{
    BlockItem, Declarator, EnumSpec, Enumerator, Expr, SpecKind, StructSpec, TypeSpec, VariantSpec, Word,
};
use super::resolve::TsdlResolver;
use super::types::{Definition, MAX_DEPTH, NamedFields, Reference, TsdlField, TsdlType, TypeKind, TypeRef};

impl TsdlResolver<'_> {
    /// The type of a specifier.
    pub(super) fn spec(&mut self, spec: &TypeSpec<'_>) -> Result<TypeRef> {
        let ty = match &spec.kind {
            SpecKind::Integer(items) => Rc::new(self.integer(items, spec.span)?),
            SpecKind::Float(items) => Rc::new(self.float(items, spec.span)?),
            SpecKind::String(items) => Rc::new(self.string(items)?),
            SpecKind::Struct(structure) => self.structure(structure, spec.span)?,
            SpecKind::Variant(variant) => self.variant(variant, spec.span)?,
            SpecKind::Enum(enumeration) => self.enumeration(enumeration, spec.span)?,
            SpecKind::Name(words) => self.named(words, spec.span)?,
        };
        self.check_depth(&ty, spec.span)?;
        Ok(ty)
    }

    fn check_depth(&self, ty: &TsdlType, span: Span) -> Result<()> {
        if ty.depth <= MAX_DEPTH {
            return Ok(());
        }
        Err(self.unsupported(span, format!("type nests more than {MAX_DEPTH} levels")))
    }

    /// Handles a `typedef` or `typealias`; false when the item is something else.
    pub(super) fn definition(&mut self, item: &BlockItem<'_>) -> Result<bool> {
        match item {
            BlockItem::Typedef(spec, declarators) => self.typedef(spec, declarators)?,
            BlockItem::Alias(alias) => {
                let ty = self.declared(&alias.target, None, &alias.target_declarator)?;
                if let Some(name) = &alias.target_declarator.name {
                    return Err(self.malformed(name.span, format!("expected `:=`, found `{}`", name.text)));
                }
                self.define(alias.name.clone(), ty, alias.name_span)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn typedef(&mut self, spec: &TypeSpec<'_>, declarators: &[Declarator<'_>]) -> Result<()> {
        if declarators.is_empty() {
            return Err(self.malformed(spec.span, "`typedef` gives the type no name"));
        }
        let base = self.base_of(spec, declarators)?;
        for declarator in declarators {
            let Some(name) = &declarator.name else {
                return Err(self.malformed(declarator.span, "`typedef` gives the type no name"));
            };
            let ty = self.declared(spec, base.clone(), declarator)?;
            self.define(name.text.to_string(), ty, name.span)?;
        }
        Ok(())
    }

    fn define(&mut self, name: String, ty: TypeRef, span: Span) -> Result<()> {
        let what = format!("type `{name}`");
        match self.scopes.define(name, Definition { ty, span }) {
            None => Ok(()),
            Some(earlier) => Err(self.duplicate(span, &what, earlier.span)),
        }
    }

    /// Resolves a specifier once for several declarators. Pointers have types of their own, so a specifier that is
    /// only used after pointers may name nothing.
    fn base_of(&mut self, spec: &TypeSpec<'_>, declarators: &[Declarator<'_>]) -> Result<Option<TypeRef>> {
        if declarators.iter().any(|declarator| declarator.pointers.is_empty()) {
            return self.spec(spec).map(Some);
        }
        Ok(None)
    }

    /// The type of a specifier with a declarator; `base` is the specifier's type when it is known.
    fn declared(&mut self, spec: &TypeSpec<'_>, base: Option<TypeRef>, declarator: &Declarator<'_>) -> Result<TypeRef> {
        if declarator.width.is_some() {
            return Err(self.malformed(declarator.span, "a bit field must be a field of a structure"));
        }
        let mut ty = match base {
            _ if !declarator.pointers.is_empty() => self.pointer(spec, declarator)?,
            Some(base) => base,
            None => self.spec(spec)?,
        };
        // `x[2][3]` is two arrays of three, as in C.
        for length in declarator.lengths.iter().rev() {
            let Some(length) = length else {
                return Err(self.malformed(declarator.span, "array has no length"));
            };
            ty = Rc::new(self.array(ty, length)?);
            self.check_depth(&ty, length.span())?;
        }
        Ok(ty)
    }

    fn pointer(&mut self, spec: &TypeSpec<'_>, declarator: &Declarator<'_>) -> Result<TypeRef> {
        let Some(base) = type_name(&spec.kind) else {
            return Err(self.malformed(declarator.span, "a pointer must point to a type with a name"));
        };
        let ty = self.lookup(&pointer_name(base, &declarator.pointers), spec.span)?;
        match &ty.kind {
            // Addresses are for programmers, whatever base the alias has.
            TypeKind::Integer(class) if class.base != DisplayBase::Hexadecimal => {
                let class = IntegerClass { base: DisplayBase::Hexadecimal, ..class.clone() };
                Ok(Rc::new(TsdlType::integer(class, ty.align_bits)))
            }
            _ => Ok(ty),
        }
    }

    fn array(&mut self, element: TypeRef, length: &Expr<'_>) -> Result<TsdlType> {
        let Expr::Path(words, _) = length else {
            return Ok(TsdlType::array(element, self.unsigned(length)?));
        };
        match words.split_first() {
            Some((first, rest)) if first.text == "env" && !rest.is_empty() => {
                let name = rest.iter().map(|word| &*word.text).collect::<Vec<_>>().join(".");
                Ok(TsdlType::array(element, self.env_length(&name, length)?))
            }
            _ => Ok(TsdlType::sequence(element, self.reference(words, length.span()))),
        }
    }

    fn env_length(&self, name: &str, length: &Expr<'_>) -> Result<u64> {
        match self.env.get(name) {
            Some(EnvValue::Integer(value)) => u64::try_from(*value).map_err(|_| {
                self.malformed(length.span(), format!("length `env.{name}` is {value}, not a positive integer"))
            }),
            Some(EnvValue::String(_)) => {
                Err(self.malformed(length.span(), format!("length `env.{name}` is a string, not an integer")))
            }
            None => Err(self.malformed(length.span(), format!("environment has no `{name}`"))),
        }
    }

    fn reference(&mut self, words: &[Word<'_>], span: Span) -> Rc<Reference> {
        let words = words.iter().map(|word| self.names.share(&word.text)).collect();
        Rc::new(Reference { words, span })
    }

    fn named(&mut self, words: &[Word<'_>], span: Span) -> Result<TypeRef> {
        match words {
            [word] => self.lookup(&word.text, span),
            words => self.lookup(&join_words(words.iter()), span),
        }
    }

    /// Finds a type by its name. `const` is part of the name only when somebody declared it so.
    fn lookup(&mut self, name: &str, span: Span) -> Result<TypeRef> {
        if let Some(ty) = self.scopes.find(name) {
            return Ok(ty);
        }
        let plain: Vec<&str> = name.split(' ').filter(|word| *word != "const").collect();
        let plain = plain.join(" ");
        if let Some(ty) = self.scopes.find(&plain) {
            return Ok(ty);
        }
        let error = self.malformed(span, format!("unknown type `{name}`"));
        Err(suggest(error, &plain, self.scopes.names()))
    }

    fn structure(&mut self, spec: &StructSpec<'_>, span: Span) -> Result<TypeRef> {
        let align_bits = match &spec.align {
            Some(align) => self.alignment(align)?,
            None => 1,
        };
        let Some(items) = &spec.body else {
            let ty = self.tagged("struct", &spec.name, span)?;
            return match ty.as_struct() {
                Some(structure) if align_bits > ty.align_bits => {
                    self.charge(structure.fields.as_slice().len(), span)?;
                    Ok(Rc::new(TsdlType::structure(structure.id, structure.fields.clone(), align_bits)))
                }
                _ => Ok(ty),
            };
        };
        let id = self.next_struct_id();
        let fields = self.body(items, Some(id), "structure")?;
        let ty = Rc::new(TsdlType::structure(id, fields, align_bits));
        self.define_tagged("struct", &spec.name, &ty)?;
        Ok(ty)
    }

    fn variant(&mut self, spec: &VariantSpec<'_>, span: Span) -> Result<TypeRef> {
        let options = match &spec.body {
            Some(items) => {
                let options = self.body(items, None, "variant")?;
                if options.as_slice().is_empty() {
                    return Err(self.malformed(span, "variant has no options"));
                }
                let untagged = Rc::new(TsdlType::variant(None, options.clone()));
                self.define_tagged("variant", &spec.name, &untagged)?;
                options
            }
            None => {
                let ty = self.tagged("variant", &spec.name, span)?;
                match &ty.plain().kind {
                    TypeKind::Variant(variant) => {
                        self.charge(variant.options.as_slice().len(), span)?;
                        variant.options.clone()
                    }
                    _ => return Err(self.malformed(span, format!("expected a variant, found {}", ty.noun()))),
                }
            }
        };
        let tag = match &spec.tag {
            Some(Expr::Path(words, span)) => Some(self.reference(words, *span)),
            Some(other) => return Err(self.expected(other, "the name of an enumeration")),
            None => None,
        };
        Ok(Rc::new(TsdlType::variant(tag, options)))
    }

    fn tagged(&mut self, keyword: &str, name: &Option<Word<'_>>, span: Span) -> Result<TypeRef> {
        let name = name.as_ref().map_or("", |word| &*word.text);
        self.lookup(&format!("{keyword} {name}"), span)
    }

    fn define_tagged(&mut self, keyword: &str, name: &Option<Word<'_>>, ty: &TypeRef) -> Result<()> {
        match name {
            Some(name) => self.define(format!("{keyword} {}", name.text), ty.clone(), name.span),
            None => Ok(()),
        }
    }

    /// Members or options: the declarations between braces, in a lexical scope of their own.
    fn body(&mut self, items: &[BlockItem<'_>], home: Option<u32>, what: &str) -> Result<Rc<NamedFields>> {
        self.scopes.push(home);
        let mut fields = if home.is_some() { NamedFields::for_struct() } else { NamedFields::default() };
        for item in items {
            match item {
                BlockItem::Fields(spec, declarators) => self.fields(spec, declarators, &mut fields, what)?,
                item => {
                    if !self.definition(item)? {
                        return Err(self.malformed(item.span(), format!("expected a field of the {what}")));
                    }
                }
            }
        }
        self.scopes.pop();
        Ok(Rc::new(fields))
    }

    fn fields(
        &mut self,
        spec: &TypeSpec<'_>,
        declarators: &[Declarator<'_>],
        fields: &mut NamedFields,
        what: &str,
    ) -> Result<()> {
        if declarators.is_empty() {
            // `struct name { ... };` inside a body only names a type.
            let defines = match &spec.kind {
                SpecKind::Struct(spec) => spec.name.is_some() && spec.body.is_some(),
                SpecKind::Variant(spec) => spec.name.is_some() && spec.body.is_some(),
                SpecKind::Enum(spec) => spec.name.is_some() && spec.body.is_some(),
                _ => false,
            };
            self.spec(spec)?;
            return if defines { Ok(()) } else { Err(self.malformed(spec.span, "field has no name")) };
        }
        let base = self.base_of(spec, declarators)?;
        for declarator in declarators {
            let ty = match &declarator.width {
                Some(width) => self.bit_field(spec, base.as_ref(), declarator, width, fields)?,
                None => self.declared(spec, base.clone(), declarator)?,
            };
            let Some(name) = &declarator.name else {
                return Err(self.malformed(declarator.span, "field has no name"));
            };
            if let Some(first) = fields.position(&name.text) {
                let what = format!("field `{}` of the {what}", name.text);
                return Err(self.duplicate(name.span, &what, fields.as_slice()[first].span));
            }
            fields.push(self.field(name, ty));
        }
        Ok(())
    }

    fn field(&mut self, name: &Word<'_>, ty: TypeRef) -> TsdlField {
        let raw_name = self.names.share(&name.text);
        let name_text = match name.text.strip_prefix('_') {
            Some(rest) => self.names.share(rest),
            None => raw_name.clone(),
        };
        TsdlField { name: name_text, raw_name, span: name.span, ty }
    }

    fn enumeration(&mut self, spec: &EnumSpec<'_>, span: Span) -> Result<TypeRef> {
        let Some(enumerators) = &spec.body else {
            return self.tagged("enum", &spec.name, span);
        };
        let container = match &spec.container {
            Some(container) => self.spec(container)?,
            None => match self.scopes.find("int") {
                Some(int) => int,
                None => {
                    let message = "enumeration has no container type, and the type `int` is not declared";
                    let help = "write `enum : uint8_t { ... }` with a declared integer type";
                    return Err(self.malformed(span, message).with_help(help));
                }
            },
        };
        let container_span = spec.container.as_ref().map_or(span, |container| container.span);
        let class = match container.as_integer() {
            Some(class) if class.mappings.is_none() => class,
            _ => {
                let message = format!("container of an enumeration must be an integer, not {}", container.noun());
                return Err(self.malformed(container_span, message));
            }
        };
        if enumerators.is_empty() {
            return Err(self.malformed(span, "enumeration has no labels"));
        }
        let class = IntegerClass { mappings: Some(self.mappings(enumerators, class)?), ..class.clone() };
        let ty = Rc::new(TsdlType::integer(class, container.align_bits));
        self.define_tagged("enum", &spec.name, &ty)?;
        Ok(ty)
    }

    /// Labels with their values. A label that comes again gets more ranges.
    fn mappings(&mut self, enumerators: &[Enumerator<'_>], container: &IntegerClass) -> Result<Arc<[Mapping]>> {
        let mut mappings: Vec<Mapping> = Vec::with_capacity(enumerators.len());
        let mut index: HashMap<Arc<str>, usize> = HashMap::new();
        let mut next = 0;
        for enumerator in enumerators {
            let range = self.enumerator_range(enumerator, next, container)?;
            next = range.1 + 1;
            let label = self.names.share(&enumerator.label.text);
            let at = *index.entry(label.clone()).or_insert(mappings.len());
            match mappings.get_mut(at) {
                Some(mapping) => mapping.ranges.push(range),
                None => mappings.push(Mapping { label, ranges: vec![range] }),
            }
        }
        Ok(mappings.into())
    }

    fn enumerator_range(&self, enumerator: &Enumerator<'_>, next: i128, container: &IntegerClass) -> Result<Range> {
        let Some(low) = &enumerator.low else {
            return Ok((next, next));
        };
        let first = wrap(self.signed(low)?, container);
        let Some(high) = &enumerator.high else {
            return Ok((first, first));
        };
        let last = wrap(self.signed(high)?, container);
        if first > last {
            let message = format!("range of label `{}` starts at {first}, after its end {last}", enumerator.label.text);
            return Err(self.malformed(low.span().to(high.span()), message));
        }
        Ok((first, last))
    }
}

/// Brings a value to the sign of its container: some producers write -1 for the largest value of an unsigned
/// container, or the other way round.
fn wrap(value: i128, container: &IntegerClass) -> i128 {
    if container.len_bits > 64 {
        value
    } else if container.signed && value > i128::from(i64::MAX) {
        value - (1 << 64)
    } else if !container.signed && value < 0 {
        value + (1 << 64)
    } else {
        value
    }
}

fn join_words<'w>(words: impl Iterator<Item = &'w Word<'w>>) -> String {
    words.map(|word| &word.text).map(Cow::as_ref).collect::<Vec<&str>>().join(" ")
}

/// The name that a pointer to this type starts with.
fn type_name(kind: &SpecKind<'_>) -> Option<String> {
    match kind {
        SpecKind::Name(words) => Some(join_words(words.iter())),
        SpecKind::Struct(StructSpec { name: Some(name), body: None, .. }) => Some(format!("struct {}", name.text)),
        SpecKind::Variant(VariantSpec { name: Some(name), body: None, .. }) => Some(format!("variant {}", name.text)),
        SpecKind::Enum(EnumSpec { name: Some(name), body: None, .. }) => Some(format!("enum {}", name.text)),
        _ => None,
    }
}
