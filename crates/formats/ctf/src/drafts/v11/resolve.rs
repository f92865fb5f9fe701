//! From the tree to types: parents are followed, names looked up. Names may be used before they are declared.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use tracemill_codec::text::{Span, suggest};
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::Mapping;

use super::super::cursor::{MAX_DEPTH, Spanned};
use super::super::types::{self, DraftClass, DraftType, Int, Metadata, SectionClass};
use super::ast::{Body, EventBlock, SectionBlock, TypeRef, V11Declaration};

/// The types from which all others come.
pub(super) const BUILT_IN: [&str; 8] =
    ["integer", "gcc_bitfield", "floating_point", "enum", "struct", "array", "sequence", "string"];

/// Makes types of a tree.
pub(super) fn resolve(source: &str, entries: &[V11Declaration], warnings: Vec<Error>) -> Result<Metadata> {
    let metadata = Metadata { warnings, ..Metadata::default() };
    let mut resolver = V11Resolver { source, metadata, ..V11Resolver::default() };
    for entry in entries {
        resolver.declare(entry)?;
    }
    resolver.finish(entries)
}

struct Declaration<'a> {
    is_abstract: bool,
    name: &'a Spanned<String>,
    body: &'a Body,
}

#[derive(Default)]
struct V11Resolver<'a> {
    source: &'a str,
    types: HashMap<&'a str, Declaration<'a>>,
    /// Concrete types that are finished.
    done: HashMap<&'a str, DraftType>,
    /// Named types with what they have of their parents.
    flats: HashMap<&'a str, Rc<Flat<'a>>>,
    /// Concrete types that are being made, outermost first.
    open: Vec<&'a str>,
    depth: u32,
    /// Types that are used and not declared, where they stand first.
    fallbacks: BTreeMap<String, Span>,
    /// Labels and structures by where they stand in the tree.
    maps: HashMap<(usize, u32, bool), Arc<[Mapping]>>,
    structures: HashMap<usize, DraftType>,
    metadata: Metadata,
}

/// The attributes of a type and of all its parents; what a child says wins.
#[derive(Clone)]
struct Flat<'a> {
    /// The built-in type at the top.
    base: &'static str,
    /// Attributes that are small; lists stay where they are.
    body: Body,
    map: Option<&'a Vec<(Spanned<String>, i128, i128)>>,
    fields: Option<&'a Vec<(Spanned<String>, TypeRef)>>,
    elem_type: Option<&'a TypeRef>,
    length_type: Option<&'a TypeRef>,
}

/// The base of types whose topmost parent has none.
const NO_BASE: &str = "";

/// Names of a circle that an error shows.
const MAX_NAMES: usize = 16;

impl<'a> V11Resolver<'a> {
    fn declare(&mut self, entry: &'a V11Declaration) -> Result<()> {
        let (is_abstract, name, body) = match entry {
            V11Declaration::Abstract(name, body) => (true, name, body),
            V11Declaration::Concrete(name, body) => (false, name, body),
            _ => return Ok(()),
        };
        if BUILT_IN.contains(&name.value.as_str()) {
            if is_abstract {
                return Ok(());
            }
            let message = format!("`{}` is a built-in abstract type and cannot be declared again", name.value);
            return Err(name.span.malformed(self.source, message));
        }
        if let Some(known) = self.types.get(name.value.as_str()) {
            if known.is_abstract == is_abstract && known.body == body {
                return Ok(());
            }
            let message = format!("the type `{}` is declared a second time, otherwise", name.value);
            let error = name.span.malformed(self.source, message);
            return Err(error.with_related("the first declaration", known.name.span.place(self.source)));
        }
        self.types.insert(&name.value, Declaration { is_abstract, name, body });
        Ok(())
    }

    fn finish(mut self, entries: &'a [V11Declaration]) -> Result<Metadata> {
        // Every type is made, used or not: a cycle or a size of 0 is an error wherever it stands.
        for entry in entries {
            if let V11Declaration::Concrete(name, _) = entry {
                self.named(name)?;
            }
            if let V11Declaration::Abstract(name, body) = entry
                && !BUILT_IN.contains(&name.value.as_str())
                && body.parent.is_some()
            {
                self.flatten(body)?;
            }
        }
        let align = |resolver: &Self, name: &str| resolver.done.get(name).map(|class| class.align);
        let (preferred, warning) = types::preferred(align(&self, "uint32_t"), align(&self, "uint64_t"));
        self.metadata.preferred = preferred;
        self.metadata.warnings.extend(warning.map(Error::malformed));
        let mut sections: Vec<&SectionBlock> = Vec::new();
        for entry in entries {
            match entry {
                V11Declaration::Section(section) => {
                    if let Some(known) = sections.iter().find(|known| known.name == section.name) {
                        if *known == section {
                            continue;
                        }
                        let message =
                            format!("the section `{}` is declared a second time, otherwise", section.name.value);
                        return Err(section.name.span.malformed(self.source, message));
                    }
                    let context = section.context.as_ref().map(|class| self.structure(class, "context")).transpose()?;
                    let group = SectionClass {
                        name: Some(section.name.value.clone()),
                        id: sections.len() as u64,
                        header: section.header,
                        extension: section.header,
                        has_event_size: section.has_event_size,
                        context,
                        packet_context: None,
                    };
                    if section.has_event_size && has_field(group.context.as_ref(), "event_size") {
                        let message = "the context has a field `event_size` beside the one that it begins with";
                        return Err(section.name.span.malformed(self.source, message));
                    }
                    self.metadata.groups.push((group, Vec::new()));
                    sections.push(section);
                }
                V11Declaration::Trace(trace) => {
                    if let Some(id) = &trace.session_id {
                        let value = id.value as u32;
                        if self.metadata.session_id.replace(value).is_some_and(|known| known != value) {
                            return Err(id.span.malformed(self.source, "another `session_id` was given before"));
                        }
                    }
                }
                _ => {}
            }
        }
        let mut by_id: HashMap<(usize, i128), &EventBlock> = HashMap::new();
        for entry in entries {
            if let V11Declaration::Event(event) = entry {
                self.event(event, &sections, &mut by_id)?;
            }
        }
        self.metadata.fallbacks = types::fallback_warnings(&self.fallbacks, self.source);
        Ok(self.metadata)
    }

    fn event(
        &mut self,
        event: &'a EventBlock,
        sections: &[&SectionBlock],
        by_id: &mut HashMap<(usize, i128), &'a EventBlock>,
    ) -> Result<()> {
        let payload = self.structure(&event.fields, "fields")?;
        let Some(at) = sections.iter().position(|section| section.name == event.section) else {
            let message = format!(
                "the event `{}` belongs to the section `{}`, which is not declared: it cannot occur",
                event.name.value, event.section.value
            );
            self.warn(event.section.span, message);
            return Ok(());
        };
        if let Some(known) = by_id.insert((at, event.id.value), event) {
            if known == event {
                return Ok(());
            }
            let message =
                format!("the id {} is that of the event `{}` of the same section", event.id.value, known.name.value);
            return Err(event.id.span.malformed(self.source, message));
        }
        let event = types::DraftEvent { name: event.name.value.clone(), id: event.id.value as u64, payload };
        self.metadata.groups[at].1.push(event);
        Ok(())
    }

    fn warn(&mut self, span: Span, message: impl Into<String>) {
        self.metadata.warnings.push(Error::inconsistent(message).at_text(span.place(self.source)));
    }

    fn structure(&mut self, class: &'a TypeRef, what: &str) -> Result<DraftType> {
        let made = self.type_ref(class)?;
        if matches!(made.kind, types::DraftTypeKind::Struct(_)) {
            return Ok(made);
        }
        Err(class.span().malformed(self.source, format!("`{what}` must be a struct")))
    }

    fn type_ref(&mut self, class: &'a TypeRef) -> Result<DraftType> {
        match class {
            TypeRef::Name(name) => self.named(name),
            TypeRef::Body(body) => self.body(body),
        }
    }

    /// The type of a name that a field uses.
    fn named(&mut self, name: &'a Spanned<String>) -> Result<DraftType> {
        let text = name.value.as_str();
        if let Some(class) = self.done.get(text) {
            return Ok(class.clone());
        }
        if text == "string" {
            return Ok(DraftClass::text(false));
        }
        if self.open.contains(&text) {
            let message = format!("the type `{text}` contains itself: {} -> {text}", self.open.join(" -> "));
            return Err(name.span.malformed(self.source, message));
        }
        let Some(declaration) = self.types.get(text) else { return self.fallback(name) };
        if declaration.is_abstract {
            let message = format!("`{text}` is an abstract type, which no field can have");
            return Err(name.span.malformed(self.source, message));
        }
        let body = declaration.body;
        self.open.push(text);
        let class = self.body(body)?;
        self.open.pop();
        self.done.insert(text, class.clone());
        Ok(class)
    }

    fn fallback(&mut self, name: &Spanned<String>) -> Result<DraftType> {
        if let Some(class) = types::fallback(&name.value) {
            self.fallbacks.entry(name.value.clone()).or_insert(name.span);
            return Ok(class);
        }
        if BUILT_IN.contains(&name.value.as_str()) {
            let message = format!("`{}` is an abstract type, which no field can have", name.value);
            return Err(name.span.malformed(self.source, message));
        }
        Err(self.unknown(name))
    }

    fn unknown(&self, name: &Spanned<String>) -> Error {
        let error = name.span.malformed(self.source, format!("the type `{}` is not declared", name.value));
        let mut known: Vec<&str> = self.types.keys().copied().chain(BUILT_IN).collect();
        known.sort_unstable();
        suggest(error, &name.value, known)
    }

    /// A type with what it has of its parents.
    fn flatten(&mut self, body: &'a Body) -> Result<Flat<'a>> {
        let flat = match &body.parent {
            Some(parent) => self.flat_of(parent)?.child(body),
            None => Flat::new(NO_BASE).child(body),
        };
        if flat.base != NO_BASE {
            return Ok(flat);
        }
        let span = body.span.value;
        if flat.body.exp_dig.is_none() {
            return Err(span.malformed(self.source, "the type has no `parent`"));
        }
        self.warn(span, "a type without `parent` that has `exp_dig` is taken as a floating_point");
        Ok(Flat { base: "floating_point", ..flat })
    }

    /// A parent with what it has of its own parents. Walks up to one that is known, then down again: chains may be long.
    fn flat_of(&mut self, name: &'a Spanned<String>) -> Result<Rc<Flat<'a>>> {
        let (mut chain, mut seen) = (Vec::new(), HashSet::new());
        let mut next = Some(name);
        let mut flat = loop {
            let Some(parent) = next else { break Rc::new(Flat::new(NO_BASE)) };
            let text = parent.value.as_str();
            if let Some(base) = BUILT_IN.into_iter().find(|name| *name == text) {
                break Rc::new(Flat::new(base));
            }
            if let Some(known) = self.flats.get(text) {
                break known.clone();
            }
            if !seen.insert(text) {
                return Err(self.circle(&chain, parent));
            }
            let Some(declaration) = self.types.get(text) else {
                let known = types::fallback(text).and_then(|class| flat_of_fallback(&class));
                let Some(known) = known else { return Err(self.unknown(parent)) };
                self.fallbacks.entry(text.to_string()).or_insert(parent.span);
                break Rc::new(known);
            };
            chain.push((text, declaration.body));
            next = declaration.body.parent.as_ref();
        };
        for (name, body) in chain.into_iter().rev() {
            flat = Rc::new(flat.child(body));
            self.flats.insert(name, flat.clone());
        }
        Ok(flat)
    }

    /// The error of a parent that stands in the chain already.
    fn circle(&self, chain: &[(&str, &Body)], parent: &Spanned<String>) -> Error {
        let text = parent.value.as_str();
        let round = chain.iter().map(|(name, _)| *name).skip_while(|name| *name != text);
        let mut names: Vec<&str> = round.clone().take(MAX_NAMES).collect();
        if round.count() > MAX_NAMES {
            names.push("...");
        }
        let message = format!("the parents go round in a circle: {} -> {text}", names.join(" -> "));
        parent.span.malformed(self.source, message)
    }

    fn body(&mut self, body: &'a Body) -> Result<DraftType> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(body.span.value.malformed(self.source, format!("types are nested deeper than {MAX_DEPTH}")));
        }
        let flat = self.flatten(body)?;
        let class = self.make(&flat)?;
        self.depth -= 1;
        Ok(class)
    }

    fn make(&mut self, flat: &Flat<'a>) -> Result<DraftType> {
        let (body, span, source) = (&flat.body, flat.body.span.value, self.source);
        let missing = |what: &str| span.malformed(source, format!("the {} has no `{what}`", flat.base));
        let integer = || {
            let size = body.size.as_ref().ok_or_else(|| missing("size"))?.value as u32;
            Ok::<Int, Error>(Int {
                size,
                signed: body.signed.unwrap_or(false),
                order: body.byte_order.unwrap_or_default(),
            })
        };
        match flat.base {
            "integer" => Ok(DraftClass::integer(integer()?, body.align)),
            "gcc_bitfield" => {
                let (int, unit) = (integer()?, body.unit_size.ok_or_else(|| missing("unit_size"))?);
                if int.size > unit {
                    return Err(span.malformed(source, format!("a bit-field of {} bits in a unit of {unit}", int.size)));
                }
                Ok(DraftClass::bit_field(int, body.align.unwrap_or(1), unit, unit))
            }
            "enum" => {
                let int = integer()?;
                let map = flat.map.filter(|map| !map.is_empty()).ok_or_else(|| missing("map"))?;
                let align = body.align.unwrap_or(types::default_align(int.size));
                // Children with the map of a parent share its labels.
                let key = (std::ptr::from_ref(map) as usize, int.size, int.signed);
                if let Some(labels) = self.maps.get(&key) {
                    return Ok(DraftClass::leaf(types::DraftTypeKind::Enum(int, labels.clone()), align));
                }
                let class = DraftClass::enumeration(int, align, map, source)?;
                if let types::DraftTypeKind::Enum(_, labels) = &class.kind {
                    self.maps.insert(key, labels.clone());
                }
                Ok(class)
            }
            "floating_point" => {
                let exponent = body.exp_dig.as_ref().ok_or_else(|| missing("exp_dig"))?;
                let mantissa = body.mant_dig.as_ref().ok_or_else(|| missing("mant_dig"))?;
                let order = body.byte_order.unwrap_or_default();
                let (digits, align) = ((exponent.value, mantissa.value), body.align);
                let (class, odd) = DraftClass::float(digits, order, align, exponent.span, source)?;
                odd.into_iter().for_each(|message| self.warn(span, message));
                Ok(class)
            }
            "string" => Ok(DraftClass::text(body.is_ascii.unwrap_or(false))),
            "struct" => {
                let fields = flat.fields.map_or(&[][..], Vec::as_slice);
                // Children with the fields of a parent are the same structure.
                let key = fields.as_ptr() as usize;
                if let Some(class) = self.structures.get(&key).filter(|_| !fields.is_empty()) {
                    return Ok(class.clone());
                }
                let mut made = Vec::with_capacity(fields.len());
                for (name, class) in fields {
                    made.push((name.clone(), self.type_ref(class)?));
                }
                let class = DraftClass::structure(made, false, source)?;
                self.structures.insert(key, class.clone());
                Ok(class)
            }
            "array" => {
                let length = body.length.as_ref().ok_or_else(|| missing("length"))?.value as u64;
                let element = flat.elem_type.ok_or_else(|| missing("elem_type"))?;
                let element = self.type_ref(element)?;
                DraftClass::array(length, element, span, source)
            }
            _ => {
                let length = flat.length_type.ok_or_else(|| missing("length_type"))?;
                let element = flat.elem_type.ok_or_else(|| missing("elem_type"))?;
                let (length, element) = (self.type_ref(length)?, self.type_ref(element)?);
                DraftClass::sequence(length, element, span, source)
            }
        }
    }
}

fn has_field(class: Option<&DraftType>, name: &str) -> bool {
    matches!(class.map(|class| &class.kind), Some(types::DraftTypeKind::Struct(fields)) if fields.iter().any(|field| &*field.name == name))
}

impl<'a> Flat<'a> {
    /// Without any attribute.
    fn new(base: &'static str) -> Self {
        Flat { base, body: Body::new(Span::default()), map: None, fields: None, elem_type: None, length_type: None }
    }

    /// A child with these attributes of its own.
    fn child(&self, own: &'a Body) -> Flat<'a> {
        fn inherit<T: Clone>(own: &Option<T>, parent: &Option<T>) -> Option<T> {
            own.clone().or_else(|| parent.clone())
        }
        let parent = &self.body;
        Flat {
            base: self.base,
            body: Body {
                size: inherit(&own.size, &parent.size),
                align: inherit(&own.align, &parent.align),
                unit_size: inherit(&own.unit_size, &parent.unit_size),
                length: inherit(&own.length, &parent.length),
                exp_dig: inherit(&own.exp_dig, &parent.exp_dig),
                mant_dig: inherit(&own.mant_dig, &parent.mant_dig),
                signed: inherit(&own.signed, &parent.signed),
                byte_order: inherit(&own.byte_order, &parent.byte_order),
                is_ascii: inherit(&own.is_ascii, &parent.is_ascii),
                ..Body::new(own.span.value)
            },
            map: own.map.as_ref().or(self.map),
            fields: own.fields.as_ref().or(self.fields),
            elem_type: own.elem_type.as_ref().or(self.elem_type),
            length_type: own.length_type.as_ref().or(self.length_type),
        }
    }
}

/// Attributes that a child has of a type that needs no declaration.
fn flat_of_fallback(class: &DraftClass) -> Option<Flat<'static>> {
    let number = |value: i128| Some(Spanned { value, span: Span::default() });
    let none = Body::new(Span::default());
    let (base, body) = match class.kind {
        types::DraftTypeKind::Integer(int) => (
            "integer",
            Body { size: number(int.size.into()), signed: Some(int.signed), align: Some(class.align), ..none },
        ),
        types::DraftTypeKind::Float { bits, .. } => {
            let (exponent, mantissa) = if bits == 32 { (8, 24) } else { (11, 53) };
            ("floating_point", Body { exp_dig: number(exponent), mant_dig: number(mantissa), ..none })
        }
        _ => return None,
    };
    Some(Flat { body, ..Flat::new(base) })
}
