//! From the tree to types: parents are followed, names looked up. Names may be used before they are declared.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tracemill_codec::text::{Span, nearest};
use tracemill_model::error::{Error, ErrorKind, Result};
use tracemill_model::schema::Mapping;

use super::super::cursor::{MAX_DEPTH, Spanned};
use super::super::types::{self, Class, Group, Int, Metadata, Type};
use super::ast::{Body, Entry, Event, Section, TypeRef};

/// The types from which all others come.
const BUILT_IN: [&str; 8] =
    ["integer", "gcc_bitfield", "floating_point", "enum", "struct", "array", "sequence", "string"];

/// Makes types of a tree.
pub(super) fn resolve(source: &str, entries: &[Entry], warnings: Vec<Error>) -> Result<Metadata> {
    let mut resolver = Resolver {
        source,
        types: HashMap::new(),
        done: HashMap::new(),
        open: Vec::new(),
        depth: 0,
        fallbacks: BTreeSet::new(),
        maps: HashMap::new(),
        structures: HashMap::new(),
        metadata: Metadata { warnings, ..Metadata::default() },
    };
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

struct Resolver<'a> {
    source: &'a str,
    types: HashMap<&'a str, Declaration<'a>>,
    /// Concrete types that are finished.
    done: HashMap<&'a str, Type>,
    /// Concrete types that are being made, outermost first.
    open: Vec<&'a str>,
    depth: u32,
    fallbacks: BTreeSet<String>,
    /// Labels and structures by where they stand in the tree.
    maps: HashMap<(usize, u32, bool), Arc<[Mapping]>>,
    structures: HashMap<usize, Type>,
    metadata: Metadata,
}

/// The attributes of a type and of all its parents; what a child says wins.
struct Flat {
    base: &'static str,
    body: Body,
    span: Span,
}

impl<'a> Resolver<'a> {
    fn declare(&mut self, entry: &'a Entry) -> Result<()> {
        let (is_abstract, name, body) = match entry {
            Entry::Abstract(name, body) => (true, name, body),
            Entry::Concrete(name, body) => (false, name, body),
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

    fn finish(mut self, entries: &'a [Entry]) -> Result<Metadata> {
        // Every type is made, used or not: a cycle or a size of 0 is an error wherever it stands.
        for entry in entries {
            if let Entry::Concrete(name, _) = entry {
                self.named(name)?;
            }
            if let Entry::Abstract(name, body) = entry
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
        let mut sections: Vec<&Section> = Vec::new();
        for entry in entries {
            match entry {
                Entry::Section(section) => {
                    if let Some(known) = sections.iter().find(|known| known.name == section.name) {
                        if *known == section {
                            continue;
                        }
                        let message =
                            format!("the section `{}` is declared a second time, otherwise", section.name.value);
                        return Err(section.name.span.malformed(self.source, message));
                    }
                    let context = section.context.as_ref().map(|class| self.structure(class, "context")).transpose()?;
                    let group = Group {
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
                Entry::Trace(trace) => {
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
        let mut by_id: HashMap<(usize, i128), &Event> = HashMap::new();
        for entry in entries {
            if let Entry::Event(event) = entry {
                self.event(event, &sections, &mut by_id)?;
            }
        }
        for name in std::mem::take(&mut self.fallbacks) {
            let message = format!("the type `{name}` is not declared; its usual meaning is taken, byte-packed");
            self.metadata.warnings.push(Error::new(ErrorKind::Inconsistent, message));
        }
        Ok(self.metadata)
    }

    fn event(
        &mut self,
        event: &'a Event,
        sections: &[&Section],
        by_id: &mut HashMap<(usize, i128), &'a Event>,
    ) -> Result<()> {
        let payload = self.structure(&event.fields, "fields")?;
        let Some(at) = sections.iter().position(|section| section.name == event.section) else {
            let message = format!(
                "the event `{}` belongs to the section `{}`, which is not declared: it cannot occur",
                event.name.value, event.section.value
            );
            let warning = Error::new(ErrorKind::Inconsistent, message);
            self.metadata.warnings.push(warning.at_text(event.section.span.place(self.source)));
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
        let event = types::Event { name: event.name.value.clone(), id: event.id.value as u64, payload };
        self.metadata.groups[at].1.push(event);
        Ok(())
    }

    fn structure(&mut self, class: &'a TypeRef, what: &str) -> Result<Type> {
        let made = self.type_ref(class)?;
        if matches!(made.kind, types::Kind::Struct(_)) {
            return Ok(made);
        }
        Err(class.span().malformed(self.source, format!("`{what}` must be a struct")))
    }

    fn type_ref(&mut self, class: &'a TypeRef) -> Result<Type> {
        match class {
            TypeRef::Name(name) => self.named(name),
            TypeRef::Body(body) => self.body(body),
        }
    }

    /// The type of a name that a field uses.
    fn named(&mut self, name: &'a Spanned<String>) -> Result<Type> {
        let text = name.value.as_str();
        if let Some(class) = self.done.get(text) {
            return Ok(class.clone());
        }
        if text == "string" {
            return Ok(Class::text(false));
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

    fn fallback(&mut self, name: &Spanned<String>) -> Result<Type> {
        if let Some(class) = types::fallback(&name.value) {
            self.fallbacks.insert(name.value.clone());
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
        match nearest(&name.value, known) {
            Some(near) => error.with_help(format!("did you mean `{near}`?")),
            None => error,
        }
    }

    /// Follows the parents of a type.
    fn flatten(&mut self, body: &'a Body) -> Result<Flat> {
        let mut flat = Body::new(body.span.value);
        inherit(&mut flat, body);
        let mut seen: Vec<&str> = Vec::new();
        let mut next = body.parent.as_ref();
        loop {
            let Some(parent) = next else {
                let span = body.span.value;
                if flat.exp_dig.is_some() {
                    let message = "a type without `parent` that has `exp_dig` is taken as a floating_point";
                    let warning = Error::new(ErrorKind::Inconsistent, message);
                    self.metadata.warnings.push(warning.at_text(span.place(self.source)));
                    return Ok(Flat { base: "floating_point", body: flat, span });
                }
                return Err(span.malformed(self.source, "the type has no `parent`"));
            };
            if let Some(base) = BUILT_IN.into_iter().find(|name| *name == parent.value) {
                return Ok(Flat { base, body: flat, span: body.span.value });
            }
            let text = parent.value.as_str();
            if seen.contains(&text) || seen.len() >= MAX_DEPTH as usize * 16 {
                let message = format!("the parents go round in a circle: {} -> {text}", seen.join(" -> "));
                return Err(parent.span.malformed(self.source, message));
            }
            seen.push(text);
            let Some(declaration) = self.types.get(text) else {
                let Some(known) = types::fallback(text) else { return Err(self.unknown(parent)) };
                self.fallbacks.insert(text.to_string());
                let Some(base) = inherit_fallback(&mut flat, &known) else { return Err(self.unknown(parent)) };
                return Ok(Flat { base, body: flat, span: body.span.value });
            };
            inherit(&mut flat, declaration.body);
            next = declaration.body.parent.as_ref();
        }
    }

    fn body(&mut self, body: &'a Body) -> Result<Type> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let message = format!("types are nested deeper than {MAX_DEPTH}");
            return Err(body.span.value.malformed(self.source, message));
        }
        let flat = self.flatten(body)?;
        let class = self.make(body, &flat)?;
        self.depth -= 1;
        Ok(class)
    }

    fn make(&mut self, own: &'a Body, flat: &Flat) -> Result<Type> {
        let (body, span, source) = (&flat.body, flat.span, self.source);
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
            "integer" => Ok(Class::integer(integer()?, body.align)),
            "gcc_bitfield" => {
                let (int, unit) = (integer()?, body.unit_size.ok_or_else(|| missing("unit_size"))?);
                if int.size > unit {
                    let message = format!("a bit-field of {} bits in a unit of {unit}", int.size);
                    return Err(span.malformed(source, message));
                }
                Ok(Class::bit_field(int, body.align.unwrap_or(1), unit, unit))
            }
            "enum" => {
                let int = integer()?;
                let map = self.inherited(own, |body| body.map.as_ref());
                let map = map.filter(|map| !map.is_empty()).ok_or_else(|| missing("map"))?;
                let align = body.align.unwrap_or(types::default_align(int.size));
                // Children with the map of a parent share its labels.
                let key = (std::ptr::from_ref(map) as usize, int.size, int.signed);
                if let Some(labels) = self.maps.get(&key) {
                    return Ok(Class::leaf(types::Kind::Enum(int, labels.clone()), align));
                }
                let class = Class::enumeration(int, align, map, source)?;
                if let types::Kind::Enum(_, labels) = &class.kind {
                    self.maps.insert(key, labels.clone());
                }
                Ok(class)
            }
            "floating_point" => {
                let exponent = body.exp_dig.as_ref().ok_or_else(|| missing("exp_dig"))?;
                let mantissa = body.mant_dig.as_ref().ok_or_else(|| missing("mant_dig"))?;
                let order = body.byte_order.unwrap_or_default();
                let found = Class::float(exponent.value, mantissa.value, order, body.align);
                let Some((class, is_odd)) = found else {
                    let message =
                        format!("no floating point numbers with {} and {} digits", exponent.value, mantissa.value);
                    return Err(exponent.span.unsupported(source, message));
                };
                if is_odd {
                    let warning = Error::new(
                        ErrorKind::Inconsistent,
                        "floating point numbers of this size are shown with the precision of 64 bits",
                    );
                    self.metadata.warnings.push(warning.at_text(span.place(source)));
                }
                Ok(class)
            }
            "string" => Ok(Class::text(body.is_ascii.unwrap_or(false))),
            "struct" => {
                let fields = self.inherited(own, |body| body.fields.as_ref()).map_or(&[][..], Vec::as_slice);
                // Children with the fields of a parent are the same structure.
                let key = fields.as_ptr() as usize;
                if let Some(class) = self.structures.get(&key).filter(|_| !fields.is_empty()) {
                    return Ok(class.clone());
                }
                let mut made = Vec::with_capacity(fields.len());
                for (name, class) in fields {
                    made.push((name.clone(), self.type_ref(class)?));
                }
                let class = Class::structure(made, false, source)?;
                self.structures.insert(key, class.clone());
                Ok(class)
            }
            "array" => {
                let length = body.length.as_ref().ok_or_else(|| missing("length"))?.value as u64;
                let element =
                    self.inherited(own, |body| body.elem_type.as_ref()).ok_or_else(|| missing("elem_type"))?;
                let element = self.type_ref(element)?;
                Class::array(length, element, span, source)
            }
            _ => {
                let length =
                    self.inherited(own, |body| body.length_type.as_ref()).ok_or_else(|| missing("length_type"))?;
                let element =
                    self.inherited(own, |body| body.elem_type.as_ref()).ok_or_else(|| missing("elem_type"))?;
                let (length, element) = (self.type_ref(length)?, self.type_ref(element)?);
                Class::sequence(length, element, span, source)
            }
        }
    }

    /// An attribute that holds types, of the type itself or of the nearest parent that has it.
    fn inherited<T>(&self, own: &'a Body, of: impl Fn(&'a Body) -> Option<&'a T>) -> Option<&'a T> {
        let mut body = own;
        // `flatten` has gone this way, so it ends.
        loop {
            if let Some(found) = of(body) {
                return Some(found);
            }
            body = self.types.get(body.parent.as_ref()?.value.as_str())?.body;
        }
    }
}

fn has_field(class: Option<&Type>, name: &str) -> bool {
    matches!(class.map(|class| &class.kind), Some(types::Kind::Struct(fields)) if fields.iter().any(|field| &*field.name == name))
}

/// Takes over what a child does not say itself. Lists stay where they are, see [`Resolver::inherited`].
fn inherit(child: &mut Body, parent: &Body) {
    fn take<T: Clone>(child: &mut Option<T>, parent: &Option<T>) {
        if child.is_none() {
            *child = parent.clone();
        }
    }
    take(&mut child.size, &parent.size);
    take(&mut child.align, &parent.align);
    take(&mut child.unit_size, &parent.unit_size);
    take(&mut child.length, &parent.length);
    take(&mut child.exp_dig, &parent.exp_dig);
    take(&mut child.mant_dig, &parent.mant_dig);
    take(&mut child.signed, &parent.signed);
    take(&mut child.byte_order, &parent.byte_order);
    take(&mut child.is_ascii, &parent.is_ascii);
}

/// The same of a type that needs no declaration; gives the built-in type that it comes from.
fn inherit_fallback(child: &mut Body, parent: &Class) -> Option<&'static str> {
    let number = |value: i128| Some(Spanned { value, span: Span::default() });
    match parent.kind {
        types::Kind::Integer(int) => {
            child.size = child.size.take().or(number(int.size.into()));
            child.signed = child.signed.or(Some(int.signed));
            child.align = child.align.or(Some(parent.align));
            Some("integer")
        }
        types::Kind::Float { bits, .. } => {
            let (exponent, mantissa) = if bits == 32 { (8, 24) } else { (11, 53) };
            child.exp_dig = child.exp_dig.take().or(number(exponent));
            child.mant_dig = child.mant_dig.take().or(number(mantissa));
            Some("floating_point")
        }
        _ => None,
    }
}
