//! From facilities to a schema, and to the table by which the events of a file are found.
//!
//! Where the fields of an event lie as a plan expects them they are decoded in place: alignment counts from the event in
//! this format and from the packet in a plan, which is the same when the event header is aligned as much as any field.
//! All other events are rewritten without padding, the members of a union one after the other.

use std::collections::HashMap;
use std::sync::Arc;

use tracemill_model::schema::{
    ArrayClass, ByteOrder, DisplayBase, EventClass, EventClassId, FieldClass, FieldClassId, FieldKind, FloatClass,
    IntegerClass, Length, Member, OpenIds, Render, Schema, StreamClassId, StringClass, StructClass,
};

use super::block::TraceHeader;
use super::definitions::{EventDefinition, FacilityDefinition, FacilityType, FieldDefinition, Integer, TypeKind};
use super::layout::{Layout, Sizes};
use super::loads::{CORE, CoreEvent, DefinitionSource, Facility, core_definition, core_events};

/// Properties of a file on which the layout of its events depends: files of one trace may differ.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Flavor {
    /// Byte order of integers.
    pub(super) order: ByteOrder,
    /// Byte order of floats.
    pub(super) float_order: ByteOrder,
    /// Alignment of event headers and data, in bytes.
    pub(super) align: u8,
    /// Bytes of a pointer.
    pub(super) arch_size: u8,
    /// Minor version.
    pub(super) minor: u8,
    /// Does it have compact event headers?
    pub(super) is_compact: bool,
}

impl Flavor {
    /// The flavor of a file.
    pub(super) fn from_header(header: &TraceHeader, is_compact: bool) -> Self {
        let float_order = match header.float_word_order {
            1234 => ByteOrder::Little,
            4321 => ByteOrder::Big,
            _ => header.order,
        };
        Flavor {
            order: header.order,
            float_order,
            // After a compact header there is no padding, and before it at most to 4 bytes.
            align: if is_compact { header.alignment.clamp(1, 4) } else { header.header_align() },
            arch_size: header.arch_size,
            minor: header.minor,
            is_compact,
        }
    }

    /// The sizes of core events, whose integers have 32 bits whatever an `int` has.
    pub(super) fn core_sizes(&self) -> Sizes {
        Sizes { int: 4, long: 4, pointer: self.arch_size, size: 4, align: self.align }
    }
}

/// How the fields of an event are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    /// Where they lie.
    InPlace,
    /// Rewritten.
    Copied,
    /// Rewritten, the first one from the header of the event.
    Compact {
        /// Its bytes.
        bytes: u8,
        /// Its byte order.
        order: ByteOrder,
    },
}

/// An event that can be met in a file.
#[derive(Clone, Debug)]
pub(super) struct EventInfo {
    /// Its class.
    pub(super) class: EventClassId,
    /// Bytes of its data, when they are always the same.
    pub(super) fixed: Option<u32>,
    /// Where its fields are.
    pub(super) layout: Layout,
    /// How they are read.
    pub(super) mode: Mode,
    /// Its effect, when it is a core event.
    pub(super) core: Option<CoreEvent>,
    /// Is its definition ours, and not the trace's?
    pub(super) is_ours: bool,
    /// Its fields, for messages.
    pub(super) names: Arc<[Arc<str>]>,
}

/// The events of one flavor.
#[derive(Clone, Debug, Default)]
pub(super) struct FlavorEvents {
    /// By facility id, then event id.
    facilities: Vec<Option<Box<[Option<EventInfo>]>>>,
    /// The class of all events that nothing describes.
    pub(super) open: Option<EventClassId>,
    /// The facility of compact event headers, and the bits of its ids there.
    pub(super) compact: Option<(u8, u32)>,
}

impl FlavorEvents {
    /// An event by its ids.
    #[inline]
    pub(super) fn event(&self, facility: u8, event: u8) -> Option<&EventInfo> {
        self.facilities.get(usize::from(facility))?.as_ref()?.get(usize::from(event))?.as_ref()
    }

    fn set(&mut self, facility: u8, events: Vec<Option<EventInfo>>) {
        let at = usize::from(facility);
        self.facilities.resize(self.facilities.len().max(at + 1), None);
        self.facilities[at] = Some(events.into());
    }

    /// The core events alone, whose classes are their ids: to read facility loads before there is a schema.
    pub(super) fn core_only(flavor: Flavor) -> Self {
        let mut schema = Schema::new("lttng-legacy");
        let stream = schema.add_stream(Default::default()).unwrap_or(StreamClassId(0));
        let mut builder = FlavorBuilder { schema: &mut schema, stream, flavor, number: 0 };
        let mut table = FlavorEvents::default();
        table.set(CORE, builder.core());
        table.open = Some(EventClassId(u32::MAX));
        table
    }
}

/// Names of the facility and of the files with compact event headers.
pub(super) const COMPACT: [&str; 2] = ["compact", "flight-compact"];
/// Bits of the numeric id of an event class that number the flavor.
const FLAVOR_SHIFT: u32 = 16;

/// Makes the classes and tables of all flavors.
pub(super) fn tables(
    schema: &mut Schema,
    stream: StreamClassId,
    facilities: &[Facility],
    flavors: &[Flavor],
) -> HashMap<Flavor, Arc<FlavorEvents>> {
    let open = open_class(schema, stream, facilities);
    let mut tables = HashMap::new();
    for (number, &flavor) in flavors.iter().enumerate() {
        let mut table = FlavorEvents { open, ..FlavorEvents::default() };
        let compact = COMPACT
            .into_iter()
            .find_map(|name| facilities.iter().find(|facility| facility.load.name == name))
            .filter(|_| flavor.is_compact);
        let mut builder = FlavorBuilder { schema, stream, flavor, number: number as u64 };
        if !flavor.is_compact {
            table.set(CORE, builder.core());
        }
        for facility in facilities {
            let is_wanted = !flavor.is_compact || compact.is_some_and(|compact| compact.id == facility.id);
            if let (Some(definition), Some(sizes), true) = (&facility.definition, facility.sizes, is_wanted) {
                let is_ours = facility.source == DefinitionSource::BuiltIn;
                table.set(facility.id, builder.facility(facility.id, definition, sizes, is_ours));
            }
        }
        table.compact =
            compact.and_then(|compact| Some((compact.id, id_bits(compact.definition.as_ref()?.events.len()))));
        tables.insert(flavor, Arc::new(table));
    }
    tables
}

/// Bits of the ids of events in compact headers, for a number of events.
pub(super) fn id_bits(events: usize) -> u32 {
    usize::BITS - events.leading_zeros()
}

/// Names of events without definition.
#[derive(Debug)]
struct OpenNames(Vec<Option<String>>);

impl Render for OpenNames {
    fn render(&self, _: &[u8], own: &[u8], out: &mut Vec<u8>) -> bool {
        let [event, facility, ..] = own else { return false };
        let name = match self.0.get(usize::from(*facility)) {
            Some(Some(name)) => format!("{name}.event_{event}"),
            _ => format!("facility_{facility}.event_{event}"),
        };
        out.extend_from_slice(name.as_bytes());
        true
    }
}

fn open_class(schema: &mut Schema, stream: StreamClassId, facilities: &[Facility]) -> Option<EventClassId> {
    let mut names = vec![None; 256];
    names[usize::from(CORE)] = Some("core".to_string());
    for facility in facilities {
        names[usize::from(facility.id)] = Some(facility.load.name.clone());
    }
    let mut class = EventClass::new(u64::from(u32::MAX), stream);
    class.open_ids = Some(OpenIds { offset_bytes: 0, name: Arc::new(OpenNames(names)) });
    schema.add_event(class)
}

struct FlavorBuilder<'s> {
    schema: &'s mut Schema,
    stream: StreamClassId,
    flavor: Flavor,
    number: u64,
}

/// How the fields of an event class are laid out in the bytes that plans decode.
#[derive(Clone, Copy)]
struct Style {
    sizes: Sizes,
    is_packed: bool,
}

impl FlavorBuilder<'_> {
    fn core(&mut self) -> Vec<Option<EventInfo>> {
        let minor = self.flavor.minor;
        let mut events = self.facility(CORE, &core_definition(minor), self.flavor.core_sizes(), false);
        for (info, core) in events.iter_mut().zip(core_events(minor)) {
            if let Some(info) = info {
                info.core = Some(*core);
            }
        }
        events
    }

    fn facility(
        &mut self,
        id: u8,
        definition: &FacilityDefinition,
        sizes: Sizes,
        is_ours: bool,
    ) -> Vec<Option<EventInfo>> {
        let events = definition.events.iter().take(256).enumerate();
        events.map(|(at, event)| self.event(id, at as u8, definition, event, sizes, is_ours)).collect()
    }

    fn event(
        &mut self,
        facility: u8,
        id: u8,
        definition: &FacilityDefinition,
        event: &EventDefinition,
        sizes: Sizes,
        is_ours: bool,
    ) -> Option<EventInfo> {
        let is_compact = self.flavor.is_compact && event.has_compact_data && !event.fields.is_empty();
        let stored = if is_compact { &event.fields[1..] } else { &event.fields[..] };
        let layout = Layout::structure(stored, &sizes, self.flavor.order);
        let mode = if is_compact {
            let first = &event.fields[0].class;
            Mode::Compact { bytes: sizes.scalar_bytes(first)?, order: self.order(first) }
        } else if self.is_in_place(&layout, sizes) {
            Mode::InPlace
        } else {
            Mode::Copied
        };
        let style = Style { sizes, is_packed: mode != Mode::InPlace };
        let number = self.number << FLAVOR_SHIFT | u64::from(facility) << 8 | u64::from(id);
        let mut class = EventClass::new(number, self.stream);
        class.name = Some(format!("{}.{}", definition.name, event.name).into());
        if !event.fields.is_empty() {
            class.payload = Some(self.structure(&event.fields, style));
        }
        let class = self.schema.add_event(class)?;
        let names = stored.iter().map(|field| field.name.clone()).collect();
        let fixed = layout.fixed.and_then(|bytes| u32::try_from(bytes).ok());
        Some(EventInfo { class, fixed, layout, mode, core: None, is_ours, names })
    }

    /// Can a plan decode the fields where they lie?
    fn is_in_place(&self, layout: &Layout, sizes: Sizes) -> bool {
        // Strings and sequences have padding after them, which becomes the alignment of the next field; inside of
        // other types that cannot be said.
        let tails_are_outside = layout.fields().iter().all(|field| {
            let inside = field.element().is_some_and(|element| element.has_tail);
            let is_leaf = field.fields().is_empty() && field.fixed.is_none();
            !inside && (!field.has_tail || is_leaf)
        });
        let has_tail = layout.fields().iter().any(|field| field.has_tail);
        let tail = if has_tail { sizes.tail() } else { 1 };
        !layout.has_union && tails_are_outside && layout.align.max(tail) <= self.flavor.align
    }

    fn structure(&mut self, fields: &[FieldDefinition], style: Style) -> FieldClassId {
        let mut members = Vec::with_capacity(fields.len());
        let mut least = 1;
        for field in fields {
            let class = self.field(&field.class, style, least);
            members.push(Member::new(field.name.clone(), class));
            let has_tail = matches!(field.class.kind, TypeKind::String | TypeKind::Sequence(..));
            least = if has_tail { style.sizes.tail() } else { 1 };
        }
        let align = self.schema.struct_align_bits(&members, 8);
        self.schema.add_field_class(FieldClass::new(FieldKind::Struct(StructClass { members }), align))
    }

    fn order(&self, class: &FacilityType) -> ByteOrder {
        let is_float = matches!(class.kind, TypeKind::Float(_));
        class.order(if is_float { self.flavor.float_order } else { self.flavor.order })
    }

    /// The class of a field that is aligned to `least` bytes at least.
    fn field(&mut self, class: &FacilityType, style: Style, least: u8) -> FieldClassId {
        let byte_order = self.order(class);
        let mut align = 1;
        let kind = match &class.kind {
            TypeKind::Integer(integer) => {
                let bytes = style.sizes.integer_bytes(*integer);
                align = bytes;
                FieldKind::Integer(IntegerClass {
                    byte_order,
                    signed: integer.is_signed(),
                    base: base(*integer, class.format.as_deref()),
                    is_character: matches!(integer, Integer::Char | Integer::UChar),
                    ..IntegerClass::unsigned(u32::from(bytes) * 8)
                })
            }
            TypeKind::Enumeration(labels) => {
                align = style.sizes.int;
                FieldKind::Integer(IntegerClass {
                    byte_order,
                    signed: true,
                    mappings: Some(labels.clone()),
                    ..IntegerClass::unsigned(u32::from(style.sizes.int) * 8)
                })
            }
            TypeKind::Float(bytes) => {
                align = *bytes;
                FieldKind::Float(FloatClass::new(u32::from(*bytes) * 8, byte_order))
            }
            TypeKind::String => FieldKind::String(StringClass::utf8()),
            TypeKind::Array(len, element) => {
                let element = self.field(element, style, 1);
                return self.array(element, Length::Static(*len), 1, style, least);
            }
            TypeKind::Sequence(length, element) => {
                let (bytes, byte_order) = (style.sizes.length_bytes(length), self.order(length));
                let element = self.field(element, style, 1);
                let count = IntegerClass { byte_order, ..IntegerClass::unsigned(u32::from(bytes) * 8) };
                let count = FieldClass::new(FieldKind::Integer(count), align_bits(bytes, style, 1));
                let length = Length::Inline(self.schema.add_field_class(count));
                return self.array(element, length, bytes, style, least);
            }
            TypeKind::Struct(fields) | TypeKind::Union(fields) => {
                let id = self.structure(fields, style);
                let class = self.schema.field_class(id);
                if class.align_bits >= u32::from(least) * 8 || style.is_packed {
                    return id;
                }
                let class = FieldClass { align_bits: u32::from(least) * 8, ..class.clone() };
                return self.schema.add_field_class(class);
            }
        };
        let align = align_bits(align, style, least);
        self.schema.add_field_class(FieldClass::new(kind, align))
    }

    fn array(&mut self, element: FieldClassId, length: Length, prefix: u8, style: Style, least: u8) -> FieldClassId {
        let align = align_bits(prefix, style, least).max(self.schema.field_class(element).align_bits);
        self.schema.add_field_class(FieldClass::new(FieldKind::Array(ArrayClass { element, length }), align))
    }
}

/// Alignment in bits of what wants `bytes`, and at least `least`.
fn align_bits(bytes: u8, style: Style, least: u8) -> u32 {
    if style.is_packed { 8 } else { u32::from(bytes.min(style.sizes.align).max(least)) * 8 }
}

/// How a producer wants an integer shown.
fn base(integer: Integer, format: Option<&str>) -> DisplayBase {
    let conversion = format.and_then(|format| {
        let (_, behind) = format.split_once('%')?;
        behind.chars().find(|one| one.is_ascii_alphabetic() && !matches!(one, 'l' | 'h' | 'z' | 'L'))
    });
    match conversion {
        Some('x' | 'X' | 'p') => DisplayBase::Hexadecimal,
        Some('o') => DisplayBase::Octal,
        Some(_) => DisplayBase::Decimal,
        None if integer == Integer::Pointer => DisplayBase::Hexadecimal,
        None => DisplayBase::Decimal,
    }
}
