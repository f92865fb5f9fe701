//! From the field classes of any schema to those that a dialect of CTF can write.
//!
//! Every class keeps its kind, its value and its name where the dialect has them; the layout is ours (each field at a
//! whole byte, see [`tracemill_codec::encode`]). Trees keep their shape, so that the paths of lengths and selectors stay
//! true; where the dialect lacks a class, it becomes another one and is counted as a loss.

use std::collections::HashSet;
use std::sync::Arc;

use tracemill_codec::encode::Encode;
use tracemill_codec::layout;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::{
    ArrayClass, BitsClass, BlobClass, ByteOrder, DisplayBase, Encoding, FieldClassId, FieldKind, FieldPath,
    IntegerClass, Length, Mapping, Member, OptionalClass, PathStep, Presence, Range, Schema, Scope, StringClass,
    StringLength, StructClass, VariantClass, VariantOption,
};

use super::Dialect;
use super::encodes::Special;
use super::marks::{Mark, Marks, before, is_one_each, joined};
use crate::names::{self, is_identifier, is_word};
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::remap::{self, owner_of};
use tracemill_semantics::names::{ELEMENTS, LENGTH};

/// Where the roots of the first three scopes went.
#[derive(Clone, Debug, Default)]
pub(super) struct MovedRoots {
    /// New place of each member of the packet header that is kept.
    pub header: Vec<Option<u32>>,
    /// New place of each member of the packet context that is kept.
    pub context: Vec<Option<u32>>,
    /// Member that holds the old event header, when it is kept: of the new one, of the common context in CTF 1.8.
    pub event_header: Option<u32>,
}

/// Maps classes of one schema.
pub(super) struct Mapper<'a> {
    pub(super) dialect: Dialect,
    pub(super) order: ByteOrder,
    pub(super) from: &'a Schema,
    pub(super) to: &'a mut Schema,
    pub(super) losses: &'a mut Losses,
    pub(super) moved: MovedRoots,
    /// Selectors that the input stores in no field of its own; `None` where there can be none.
    pub(super) selectors: Option<Selectors>,
    /// How fields are written whose classes do not say it all.
    pub(super) special: Special,
    /// Stream class that is mapped, and event class, when one is.
    pub(super) owner: (u32, u32),
    /// Meanings of classes of the output that CTF 2 has no word for.
    pub(super) marks: Marks,
    /// Member of the specific context that holds them.
    pub(super) selectors_at: u32,
    /// Roots of the event that is mapped, where all its events share them.
    pub(super) roots: [Option<FieldClassId>; 6],
    in_array: u32,
    names: Vec<Arc<str>>,
    /// The field of the input that is mapped.
    pub(super) scope: Scope,
    steps: Vec<PathStep>,
}

impl<'a> Mapper<'a> {
    pub(super) fn new(
        dialect: Dialect,
        order: ByteOrder,
        from: &'a Schema,
        to: &'a mut Schema,
        losses: &'a mut Losses,
    ) -> Self {
        Mapper {
            dialect,
            order,
            from,
            to,
            losses,
            moved: MovedRoots::default(),
            selectors: None,
            special: Special::new(),
            marks: Marks::new(),
            owner: (0, 0),
            selectors_at: 0,
            roots: [None; 6],
            in_array: 0,
            names: Vec::new(),
            scope: Scope::PacketHeader,
            steps: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, kind: FieldKind) -> FieldClassId {
        remap::add(self.to, kind)
    }

    /// An unsigned integer of ours.
    pub(super) fn unsigned(&mut self, len_bits: u32) -> FieldClassId {
        self.add(FieldKind::Integer(self.number(len_bits)))
    }

    fn number(&self, len_bits: u32) -> IntegerClass {
        IntegerClass { byte_order: self.order, ..IntegerClass::unsigned(len_bits) }
    }

    /// A boolean of ours.
    pub(super) fn boolean(&mut self) -> FieldClassId {
        self.add(FieldKind::Boolean(BitsClass::new(8, self.order)))
    }

    /// A structure of ours.
    pub(super) fn structure(&mut self, members: Vec<Member>) -> FieldClassId {
        self.add(FieldKind::Struct(StructClass { members }))
    }

    /// The root of a scope.
    pub(super) fn root(&mut self, scope: Scope, id: FieldClassId) -> Result<FieldClassId> {
        self.scope = scope;
        self.class(id)
    }

    /// Remembers how the field that is mapped is written.
    fn push_encode(&mut self, encode: Encode) {
        let owner = owner_of(self.scope, self.owner);
        self.special.insert((owner, self.scope, self.steps.clone()), encode);
    }

    fn special_at(&self, scope: Scope, steps: &[PathStep]) -> Option<&Encode> {
        self.special.get(&(owner_of(scope, self.owner), scope, steps.to_vec()))
    }

    fn inside(&mut self, step: PathStep, id: FieldClassId) -> Result<FieldClassId> {
        self.steps.push(step);
        let class = self.class(id);
        self.steps.pop();
        class
    }

    /// Can the output refer to the field from here? Not to one in an option of a variant that does not hold the user.
    fn is_in_reach(&self, path: &FieldPath) -> bool {
        let shared = match path.scope == self.scope {
            true => path.steps.iter().zip(&self.steps).take_while(|(a, b)| a == b).count(),
            false => 0,
        };
        for (depth, step) in path.steps.iter().enumerate() {
            let is_sequence = self.special_at(path.scope, &path.steps[..depth]) == Some(&Encode::Present);
            let is_closed = match step {
                PathStep::Option(_) | PathStep::Selected(_) => true,
                PathStep::Content => is_sequence,
                _ => false,
            };
            if is_closed && depth >= shared {
                return false;
            }
        }
        true
    }

    /// The class that stands for one of the input.
    ///
    /// # Errors
    /// When a length or selector stands where the output has no place for it.
    pub(super) fn class(&mut self, id: FieldClassId) -> Result<FieldClassId> {
        let from = self.from;
        let kind = match &from.field_class(id).kind {
            FieldKind::Integer(class) => {
                let kind = self.integer(class);
                let mark = class.mappings.clone().filter(|own| self.dialect == Dialect::Ctf2 && !is_one_each(own));
                let id = self.add(kind);
                self.marks.extend(mark.map(|mappings| (id, Mark::Mappings(mappings))));
                return Ok(id);
            }
            FieldKind::BitArray(class) => match self.dialect {
                Dialect::Ctf2 => FieldKind::BitArray(self.bits(class)),
                Dialect::Ctf18 => self.bits_as_integer(class),
            },
            FieldKind::BitMap(class) => match self.dialect {
                Dialect::Ctf2 if !class.flags.is_empty() => {
                    let flags = self.mappings(&class.flags);
                    FieldKind::BitMap(BitsClass { flags, ..self.bits(class) })
                }
                Dialect::Ctf2 => {
                    let id = self.add(FieldKind::BitArray(self.bits(class)));
                    self.marks.insert(id, Mark::BitMap);
                    return Ok(id);
                }
                Dialect::Ctf18 => {
                    self.losses.add(Lost::BitFlags, 1);
                    self.bits_as_integer(class)
                }
            },
            FieldKind::Boolean(_) => match self.dialect {
                Dialect::Ctf2 => return Ok(self.boolean()),
                Dialect::Ctf18 => {
                    self.losses.add(Lost::Booleans, 1);
                    FieldKind::Integer(self.number(8))
                }
            },
            FieldKind::Float(class) => {
                if class.len_bits > 64 {
                    self.losses.add(Lost::WideFloats, 1);
                }
                FieldKind::Float(remap::float(class, self.order))
            }
            FieldKind::String(class) => {
                let encoding = match (self.dialect, class.encoding) {
                    (Dialect::Ctf18, encoding) if encoding.unit_bytes() > 1 => {
                        self.losses.add(Lost::Encodings, 1);
                        Encoding::Utf8
                    }
                    (_, Encoding::Ascii) => Encoding::Utf8,
                    (_, encoding) => encoding,
                };
                string(encoding)
            }
            FieldKind::Blob(class) => return self.blob(class),
            FieldKind::Rendered(_) => return Ok(self.rendered()),
            FieldKind::Struct(class) => {
                if class.is_tuple() && self.dialect == Dialect::Ctf18 {
                    self.losses.add(Lost::Tuples, 1);
                }
                let mut members = self.members(&class.members, |_| true)?;
                if class.is_tuple() && self.dialect == Dialect::Ctf2 {
                    members.iter_mut().for_each(|member| member.raw_name = "".into());
                }
                return Ok(self.structure(members));
            }
            FieldKind::Array(class) => {
                let count = self.count(&class.length)?;
                self.in_array += 1;
                let element = self.inside(PathStep::Element, class.element)?;
                self.in_array -= 1;
                let array = |length| FieldKind::Array(ArrayClass { element, length });
                return Ok(self.counted(count, array));
            }
            FieldKind::Optional(class) => return self.optional(class),
            FieldKind::Variant(class) => {
                let labels = if self.dialect == Dialect::Ctf18 { self.labels_of(class) } else { None };
                if self.dialect == Dialect::Ctf18 && labels.is_none() {
                    self.push_encode(Encode::Tag { bytes: tag_bytes(class), order: self.order });
                    return self.variant_with_tag(class);
                }
                self.variant(class, labels.as_deref())?
            }
        };
        Ok(self.add(kind))
    }

    fn integer(&mut self, class: &IntegerClass) -> FieldKind {
        let mut class = IntegerClass {
            is_character: false,
            clock: None,
            mappings: class.mappings.as_ref().map(|mappings| self.mappings(mappings)),
            ..remap::integer(class, self.order)
        };
        if self.dialect == Dialect::Ctf18 {
            if class.is_variable_length() {
                self.losses.add(Lost::VariableIntegers, 1);
                class.len_bits = 64;
            }
            class.mappings = class.mappings.filter(|mappings| !mappings.is_empty());
        }
        FieldKind::Integer(class)
    }

    fn bits(&self, class: &BitsClass) -> BitsClass {
        BitsClass { flags: Arc::new([]), ..remap::bits(class, self.order) }
    }

    fn bits_as_integer(&mut self, class: &BitsClass) -> FieldKind {
        FieldKind::Integer(IntegerClass { base: DisplayBase::Hexadecimal, ..self.number(class.len_bits) })
    }

    /// The labels of numbers of up to 64 bits: no other has a label in TSDL.
    fn narrow_mappings(&mut self, mappings: &[Mapping]) -> Arc<[Mapping]> {
        const LEAST: i128 = i64::MIN as i128;
        const MOST: i128 = u64::MAX as i128;
        let mut lost = 0;
        let mut narrow = |mapping: &Mapping| {
            let is_narrow = |&(low, high): &Range| low >= LEAST && high <= MOST;
            lost += mapping.ranges.iter().filter(|range| !is_narrow(range)).count() as u64;
            let held = mapping.ranges.iter().map(|&(low, high)| (low.max(LEAST), high.min(MOST)));
            Mapping { ranges: held.filter(|(low, high)| low <= high).collect(), ..mapping.clone() }
        };
        let narrowed: Vec<Mapping> = mappings.iter().map(&mut narrow).collect();
        self.losses.add(Lost::WideLabels, lost);
        narrowed.into_iter().filter(|mapping| !mapping.ranges.is_empty()).collect()
    }

    /// The labels as the output can hold them.
    fn mappings(&mut self, mappings: &Arc<[Mapping]>) -> Arc<[Mapping]> {
        if self.dialect == Dialect::Ctf18 {
            return self.narrow_mappings(mappings);
        }
        joined(mappings)
    }

    fn blob(&mut self, class: &BlobClass) -> Result<FieldClassId> {
        let count = self.count(&class.length)?;
        if self.dialect == Dialect::Ctf2 {
            let media_type = class.media_type.clone();
            return Ok(self.counted(count, |length| FieldKind::Blob(BlobClass { length, media_type })));
        }
        self.losses.add(Lost::Blobs, 1);
        let element = self.unsigned(8);
        Ok(self.counted(count, |length| FieldKind::Array(ArrayClass { element, length })))
    }

    /// Where the length of a class stands in the output; `None` is right before its elements, in a member of its own.
    fn count(&mut self, length: &Length) -> Result<Option<Length>> {
        Ok(match length {
            Length::Static(len) => Some(Length::Static(*len)),
            Length::Field(path) if self.is_in_reach(path) => Some(Length::Field(self.path(path)?)),
            Length::Field(_) | Length::Inline(_) | Length::Table { .. } | Length::Located => {
                let order = self.order;
                let own = self.selector(8, |at| Encode::CountedAt(at, order));
                if own.is_none() && self.dialect == Dialect::Ctf18 {
                    self.losses.add(Lost::ComputedLengths, 1);
                }
                if own.is_none() {
                    self.push_encode(Encode::Counted(order));
                }
                own.map(Length::Field)
            }
        })
    }

    fn counted(&mut self, count: Option<Length>, make: impl FnOnce(Length) -> FieldKind) -> FieldClassId {
        match count {
            Some(length) => self.add(make(length)),
            None => {
                let counted = self.add(make(Length::Field(before())));
                let length = self.unsigned(64);
                let pair = self.pair([(LENGTH, length), (ELEMENTS, counted)]);
                self.marks.insert(pair, Mark::WithLength);
                pair
            }
        }
    }

    /// A selector of our own for a class, of this many bytes; `None` where no place for it is.
    fn selector(&mut self, bytes: u16, encode: impl FnOnce(u16) -> Encode) -> Option<FieldPath> {
        if self.in_array > 0 || self.dialect != Dialect::Ctf2 {
            return None;
        }
        let name = self.names.last().map_or("payload", |name| name);
        let selectors = self.selectors.as_mut()?;
        let place = selectors.bytes;
        selectors.bytes = place.checked_add(bytes)?;
        let at = selectors.members.len() as u32;
        selectors.members.push((format!("{name} {at}").into(), bytes));
        self.push_encode(encode(place));
        let steps = vec![PathStep::Member(self.selectors_at), PathStep::Member(at)];
        Some(FieldPath { scope: Scope::SpecificContext, steps })
    }

    fn rendered(&mut self) -> FieldClassId {
        let content = self.add(string(Encoding::Utf8));
        let Some(selector) = self.selector(1, Encode::Rendered) else {
            self.losses.add(Lost::AbsenceOfTexts, 1);
            self.push_encode(Encode::Plain);
            return content;
        };
        self.add(FieldKind::Optional(OptionalClass { selector, presence: Presence::Boolean, content }))
    }

    fn pair(&mut self, members: [(&str, FieldClassId); 2]) -> FieldClassId {
        self.structure(members.into_iter().map(|(name, class)| Member::new(name, class)).collect())
    }

    /// The members of a structure that are kept.
    pub(super) fn members(&mut self, members: &[Member], keep: impl Fn(usize) -> bool) -> Result<Vec<Member>> {
        let mut taken: HashSet<Arc<str>> = HashSet::new();
        let mut mapped = Vec::with_capacity(members.len());
        for (at, from) in members.iter().enumerate() {
            if !keep(at) {
                continue;
            }
            self.names.push(from.name.clone());
            let class = self.inside(PathStep::Member(at as u32), from.class)?;
            self.names.pop();
            if self.dialect == Dialect::Ctf2 {
                let raw_name = free_name(&from.name, &from.raw_name, &mut taken);
                mapped.push(Member { raw_name, name: from.name.clone(), class });
                continue;
            }
            let name = self.free_name(&from.name, &from.raw_name, &mut taken);
            mapped.push(Member::new(name, class));
        }
        Ok(mapped)
    }

    /// The name itself unless another one has it.
    fn free_name(&mut self, name: &Arc<str>, raw: &Arc<str>, taken: &mut HashSet<Arc<str>>) -> Arc<str> {
        let free = free_name(name, raw, taken);
        if free != *name {
            self.losses.add(Lost::SharedNames, 1);
        }
        free
    }

    /// A variant whose selector is a field of the input. `labels` are those that select its options, where the dialect wants
    /// them; without, no value selects two.
    fn variant(&mut self, class: &VariantClass, labels: Option<&[Arc<str>]>) -> Result<FieldKind> {
        let mut options = Vec::with_capacity(class.options.len());
        let mut taken: Vec<Range> = Vec::new();
        let mut names = HashSet::new();
        for (at, option) in class.options.iter().enumerate() {
            let (mut name, mut ranges) = (option.name.clone(), option.ranges.clone());
            let content = self.inside(PathStep::Option(at as u32), option.class)?;
            if labels.is_none() {
                let raw = option.raw_name.as_ref().or(option.name.as_ref());
                name = name.zip(raw).map(|(name, raw)| self.free_name(&name, raw, &mut names));
                ranges = without(&ranges, &taken);
                taken.extend_from_slice(&option.ranges);
            }
            if ranges.is_empty() {
                self.losses.add(Lost::UnselectedOptions, 1);
                continue;
            }
            let raw_name = labels.map_or(name.clone(), |labels| labels.get(at).cloned());
            options.push(VariantOption { raw_name, name, ranges, class: content });
        }
        Ok(FieldKind::Variant(VariantClass { selector: self.path(&class.selector)?, options }))
    }

    /// The label of each option, when the selector is an enumeration whose labels are the options, as CTF 1.8 wants it.
    fn labels_of(&self, class: &VariantClass) -> Option<Vec<Arc<str>>> {
        if !self.is_in_reach(&class.selector) {
            return None;
        }
        let Some(FieldKind::Integer(selector)) = self.kind_at(&class.selector) else { return None };
        let mappings = selector.mappings.as_ref()?;
        if self.is_tagged(&class.selector) && names::is_tag(mappings, &class.options) {
            // Labels that are not identifiers are written in code.
            return Some(mappings.iter().map(|mapping| mapping.label.clone()).collect());
        }
        let label = |option: &VariantOption| {
            if option.ranges.is_empty() {
                // It is never there, and left out.
                return Some(Arc::from(""));
            }
            let names = [option.raw_name.as_ref(), option.name.as_ref()];
            let mapping = names.into_iter().flatten().find_map(|name| {
                let strip = |text: &str| text.strip_prefix('_').unwrap_or(text).to_string();
                mappings.iter().find(|mapping| strip(&mapping.label) == strip(name))
            })?;
            let same = mappings.iter().filter(|other| other.label == mapping.label);
            let ranges: Vec<Range> = same.flat_map(|other| other.ranges.clone()).collect();
            // A label that looks like code would be read as code, and words of the language cannot be names.
            let is_plain = is_identifier(&mapping.label)
                && names::coded(&mapping.label) == *mapping.label
                && !is_word(&mapping.label)
                // Readers take one underscore away.
                && option.name.as_deref() == Some(mapping.label.strip_prefix('_').unwrap_or(&mapping.label));
            (ranges == option.ranges && is_plain).then(|| mapping.label.clone())
        };
        let is_any = class.options.iter().any(|option| !option.ranges.is_empty());
        class.options.iter().map(label).collect::<Option<_>>().filter(|_| is_any)
    }

    /// Is the variant that is mapped the second member of a structure of a tag and its value?
    fn is_tagged(&self, selector: &FieldPath) -> bool {
        let (Some((PathStep::Member(1), around)), Some((PathStep::Member(0), of))) =
            (self.steps.split_last(), selector.steps.split_last())
        else {
            return false;
        };
        let parent = self.kind_at(&FieldPath { scope: self.scope, steps: around.to_vec() });
        let Some(FieldKind::Struct(parent)) = parent else { return false };
        let is_named = parent.members.iter().map(|member| &*member.name).eq(names::TAGGED);
        is_named && selector.scope == self.scope && of == around
    }

    /// A structure of the number of the option and a variant that it selects.
    fn variant_with_tag(&mut self, class: &VariantClass) -> Result<FieldClassId> {
        self.losses.add(Lost::VariantTags, 1);
        let mut options = Vec::with_capacity(class.options.len());
        let mut mappings = Vec::new();
        let mut taken = HashSet::new();
        for (at, option) in class.options.iter().enumerate() {
            let content = self.inside(PathStep::Option(at as u32), option.class)?;
            // Lines show the place of an option without a name.
            let own: Arc<str> = option.name.clone().unwrap_or_else(|| at.to_string().into());
            let name = free_name(&own, &own, &mut taken);
            let ranges = vec![(at as i128, at as i128)];
            mappings.push(Mapping { label: name.clone(), ranges: ranges.clone() });
            options.push(VariantOption { raw_name: Some(name.clone()), name: Some(name), ranges, class: content });
        }
        let tag = IntegerClass { mappings: Some(mappings.into()), ..self.number(u32::from(tag_bytes(class)) * 8) };
        let tag = self.add(FieldKind::Integer(tag));
        let value = self.add(FieldKind::Variant(VariantClass { selector: before(), options }));
        let [of_tag, of_value] = names::TAGGED;
        Ok(self.pair([(of_tag, tag), (of_value, value)]))
    }

    /// An optional field, whose selector is that of the input where it can be kept, or one of its own.
    fn optional(&mut self, class: &OptionalClass) -> Result<FieldClassId> {
        let is_kept = !matches!(class.presence, Presence::Unmarked(_)) && self.is_in_reach(&class.selector);
        let own = if is_kept { None } else { self.selector(1, Encode::PresentAt) };
        if self.dialect == Dialect::Ctf18 || !is_kept && own.is_none() {
            return self.optional_as_sequence(class);
        }
        let content = self.inside(PathStep::Content, class.content)?;
        let presence = match &class.presence {
            Presence::Ranges(ranges) if is_kept && !ranges.is_empty() => Presence::Ranges(ranges.clone()),
            _ => Presence::Boolean,
        };
        let selector = own.map_or_else(|| self.path(&class.selector), Ok)?;
        Ok(self.add(FieldKind::Optional(OptionalClass { selector, presence, content })))
    }

    /// A structure of a number, 0 or 1, and a sequence of as many elements.
    fn optional_as_sequence(&mut self, class: &OptionalClass) -> Result<FieldClassId> {
        self.losses.add(Lost::Optionals, 1);
        self.push_encode(Encode::Present);
        self.in_array += 1;
        let element = self.inside(PathStep::Content, class.content)?;
        self.in_array -= 1;
        let present = self.unsigned(8);
        let content = self.add(FieldKind::Array(ArrayClass { element, length: Length::Field(before()) }));
        Ok(self.pair([("present", present), ("content", content)]))
    }

    /// Kind of the field at a path of the input that leads after the headers.
    fn kind_at(&self, path: &FieldPath) -> Option<&FieldKind> {
        let mut id = *self.roots.get(path.scope as usize)?.as_ref()?;
        for step in &path.steps {
            id = self.child(id, step)?;
        }
        Some(&self.from.field_class(id).kind)
    }

    /// A path of the input in the output.
    fn path(&self, path: &FieldPath) -> Result<FieldPath> {
        if !self.is_in_reach(path) {
            return Err(self.unreachable(path));
        }
        let mut path = FieldPath { scope: path.scope, steps: self.steps(path) };
        let places = match path.scope {
            Scope::PacketHeader => &self.moved.header,
            Scope::PacketContext => &self.moved.context,
            Scope::EventHeader => {
                let Some(at) = self.moved.event_header else { return Err(self.unreachable(&path)) };
                path.steps.insert(0, PathStep::Member(at));
                if self.dialect == Dialect::Ctf18 {
                    path.scope = Scope::CommonContext;
                }
                return Ok(path);
            }
            Scope::CommonContext if self.dialect == Dialect::Ctf18 && self.moved.event_header.is_some() => {
                // The kept part of the header stands before the context.
                if let Some(PathStep::Member(first)) = path.steps.first_mut() {
                    *first += 1;
                }
                return Ok(path);
            }
            _ => return Ok(path),
        };
        let Some(PathStep::Member(first)) = path.steps.first_mut() else { return Err(self.unreachable(&path)) };
        match places.get(*first as usize).copied().flatten() {
            Some(at) => *first = at,
            None => return Err(self.unreachable(&path)),
        }
        Ok(path)
    }

    /// The steps of a path, with one more where a class has become a structure of a number and itself.
    fn steps(&self, path: &FieldPath) -> Vec<PathStep> {
        let mut steps = Vec::with_capacity(path.steps.len());
        for (depth, step) in path.steps.iter().enumerate() {
            let special = self.special_at(path.scope, &path.steps[..depth]);
            let step = match (special, *step) {
                (Some(Encode::Present), PathStep::Content) => PathStep::Element,
                (_, step) => step,
            };
            if let Some(Encode::Present | Encode::Counted(_) | Encode::Tag { .. }) = special {
                steps.push(PathStep::Member(1));
            }
            steps.push(step);
        }
        steps
    }

    fn child(&self, id: FieldClassId, step: &PathStep) -> Option<FieldClassId> {
        match (&self.from.field_class(id).kind, step) {
            // Where the output holds a sequence of none or one.
            (FieldKind::Optional(class), PathStep::Element) => Some(class.content),
            _ => layout::child(self.from.field_class(id), *step),
        }
    }

    fn unreachable(&self, path: &FieldPath) -> Error {
        let names: Vec<&str> = self.names.iter().map(|name| &**name).collect();
        let message = format!(
            "the length or selector of the field `{}` stands in the {} and cannot be kept",
            names.join("."),
            path.scope.key()
        );
        Error::unsupported(message)
    }
}

/// Selectors of an event class, in its specific context.
#[derive(Clone, Debug, Default)]
pub(super) struct Selectors {
    /// Name and bytes of each.
    pub members: Vec<(Arc<str>, u16)>,
    /// Bytes of all.
    pub bytes: u16,
}

/// The name itself unless another one has it.
pub(super) fn free_name(name: &Arc<str>, raw: &Arc<str>, taken: &mut HashSet<Arc<str>>) -> Arc<str> {
    let mut free = if taken.contains(name) && !raw.is_empty() { raw.clone() } else { name.clone() };
    while taken.contains(&free) {
        free = format!("{free}_").into();
    }
    taken.insert(free.clone());
    free
}

fn string(encoding: Encoding) -> FieldKind {
    FieldKind::String(StringClass { encoding, length: StringLength::NullTerminated })
}

/// Bytes of the tag of a variant.
fn tag_bytes(class: &VariantClass) -> u8 {
    if class.options.len() <= 256 { 1 } else { 2 }
}

/// The values of some ranges that are in none of others.
pub(super) fn without(ranges: &[Range], others: &[Range]) -> Vec<Range> {
    let mut left = ranges.to_vec();
    for &(low, high) in others {
        let pieces = left.into_iter().flat_map(|(from, to)| {
            if to < low || from > high {
                return [Some((from, to)), None];
            }
            [(from < low).then(|| (from, low - 1)), (to > high).then(|| (high + 1, to))]
        });
        left = pieces.flatten().collect();
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_lose_what_others_have() {
        assert_eq!(without(&[(0, 9)], &[(3, 4)]), [(0, 2), (5, 9)]);
        assert_eq!(without(&[(0, 9)], &[(0, 4), (8, 20)]), [(5, 7)]);
        assert_eq!(without(&[(5, 5)], &[(5, 5)]), []);
        assert_eq!(without(&[(5, 5)], &[(7, 9)]), [(5, 5)]);
    }
}
