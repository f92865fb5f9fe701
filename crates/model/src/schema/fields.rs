//! Field classes: kinds, sizes and places of the fields of packets and events.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::{ByteOrder, ClockId, FieldClassId, FieldPath, Roles};

/// Base in which a producer wants an integer shown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum DisplayBase {
    /// Base 2.
    Binary,
    /// Base 8.
    Octal,
    /// Base 10.
    #[default]
    Decimal,
    /// Base 16.
    Hexadecimal,
}

/// Inclusive range of values; wide enough for every signed and unsigned 64-bit integer.
pub type Range = (i128, i128);

/// One label and the values it stands for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Mapping {
    /// The label.
    pub label: Arc<str>,
    /// Values that have the label; inclusive, in the order of the metadata.
    pub ranges: Vec<Range>,
}

impl Mapping {
    /// Does the label stand for `value`?
    pub fn contains(&self, value: i128) -> bool {
        self.ranges.iter().any(|&(low, high)| low <= value && value <= high)
    }
}

/// The labels of an enumeration, prepared for lookups by value.
///
/// ```
/// use std::sync::Arc;
/// use tracemill_model::schema::{LabelList, Mapping};
/// let mapping = |label: &str, ranges| Mapping { label: label.into(), ranges };
/// let labels = LabelList::new(Arc::new([mapping("low", vec![(0, 9)]), mapping("five", vec![(5, 5)])]));
/// assert_eq!(labels.labels_for(5).map(|label| &**label).collect::<Vec<_>>(), ["low", "five"]);
/// assert_eq!(labels.labels_for(10).count(), 0);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LabelList {
    mappings: Arc<[Mapping]>,
    /// Does each label stand for its own index, as those of formats that only number them?
    is_numbered: bool,
}

impl LabelList {
    /// Makes mappings ready.
    pub fn new(mappings: Arc<[Mapping]>) -> Self {
        let is_own = |(at, mapping): (usize, &Mapping)| mapping.ranges == [(at as i128, at as i128)];
        let is_numbered = mappings.iter().enumerate().all(is_own);
        LabelList { mappings, is_numbered }
    }

    /// The labels of `value`, in the order of declaration.
    #[inline]
    pub fn labels_for(&self, value: i128) -> impl Iterator<Item = &Arc<str>> {
        let mappings = match usize::try_from(value).ok().and_then(|at| self.mappings.get(at)) {
            _ if !self.is_numbered => &self.mappings[..],
            Some(one) => std::slice::from_ref(one),
            None => &[],
        };
        mappings.iter().filter(move |mapping| mapping.contains(value)).map(|mapping| &mapping.label)
    }
}

/// An integer of fixed or variable length.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct IntegerClass {
    /// Width in bits; 0 for a variable-length (LEB128) integer.
    pub len_bits: u32,
    /// Byte order of a fixed-length integer.
    pub byte_order: ByteOrder,
    /// CTF 2: the bit order is not the default one of the byte order, so the value's bits are reversed.
    pub reversed_bits: bool,
    /// Two's complement.
    pub signed: bool,
    /// Preferred base for people.
    pub base: DisplayBase,
    /// Labels, when the field is an enumeration (an enumeration may have none in CTF 2).
    pub mappings: Option<Arc<[Mapping]>>,
    /// CTF 1.8 `encoding`: the integer is a character.
    pub is_character: bool,
    /// CTF 1.8 `map = clock.NAME.value`.
    pub clock: Option<ClockId>,
}

impl IntegerClass {
    /// A little-endian decimal unsigned integer.
    pub fn unsigned(len_bits: u32) -> Self {
        IntegerClass { len_bits, ..IntegerClass::default() }
    }

    /// Whether it is a LEB128 integer.
    pub fn is_variable_length(&self) -> bool {
        self.len_bits == 0
    }

    /// Its labels, ready for looking values up; none without an enumeration.
    pub fn label_list(&self) -> LabelList {
        LabelList::new(self.mappings.clone().unwrap_or_default())
    }

    /// The labels that match `value`, in the order of their declaration. For many values: [`IntegerClass::label_list`].
    pub fn labels(&self, value: i128) -> impl Iterator<Item = &Arc<str>> {
        self.mappings
            .iter()
            .flat_map(|mappings| mappings.iter())
            .filter(move |mapping| mapping.contains(value))
            .map(|mapping| &mapping.label)
    }
}

/// Bits that are not a number: a bit array, a bit map with flags, or a boolean.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BitsClass {
    /// Width in bits.
    pub len_bits: u32,
    /// Byte order.
    pub byte_order: ByteOrder,
    /// See [`IntegerClass::reversed_bits`].
    pub reversed_bits: bool,
    /// Bit map: names of ranges of bit positions (0 is the least significant bit), in the order of declaration.
    pub flags: Arc<[Mapping]>,
}

impl BitsClass {
    /// Bits without flags.
    pub fn new(len_bits: u32, byte_order: ByteOrder) -> Self {
        BitsClass { len_bits, byte_order, reversed_bits: false, flags: Arc::new([]) }
    }
}

/// A binary floating point number (IEEE 754 interchange formats).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FloatClass {
    /// 16, 32, 64, 128 or another multiple of 32.
    pub len_bits: u32,
    /// Byte order.
    pub byte_order: ByteOrder,
    /// See [`IntegerClass::reversed_bits`].
    pub reversed_bits: bool,
}

impl FloatClass {
    /// A number of some bits.
    pub fn new(len_bits: u32, byte_order: ByteOrder) -> Self {
        FloatClass { len_bits, byte_order, reversed_bits: false }
    }
}

/// How the code units of a string are stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Encoding {
    /// UTF-8, and ASCII inside it.
    #[default]
    Utf8,
    /// ASCII: each byte from 0x80 on is a bad code unit of its own.
    Ascii,
    /// UTF-16, big-endian.
    Utf16Be,
    /// UTF-16, little-endian.
    Utf16Le,
    /// UTF-32, big-endian.
    Utf32Be,
    /// UTF-32, little-endian.
    Utf32Le,
}

impl Encoding {
    /// Bytes of one code unit: 1, 2 or 4.
    pub fn unit_bytes(self) -> usize {
        match self {
            Encoding::Utf8 | Encoding::Ascii => 1,
            Encoding::Utf16Be | Encoding::Utf16Le => 2,
            Encoding::Utf32Be | Encoding::Utf32Le => 4,
        }
    }

    /// Is a string UTF-8 as it stands?
    #[inline]
    pub fn is_utf8(self, bytes: &[u8]) -> bool {
        match self {
            Encoding::Utf8 => std::str::from_utf8(bytes).is_ok(),
            Encoding::Ascii => bytes.is_ascii(),
            _ => false,
        }
    }

    /// The text of a string; bad code units become U+FFFD.
    ///
    /// ```
    /// use tracemill_model::schema::Encoding;
    /// assert_eq!(Encoding::Utf16Le.to_utf8(b"h\0i\0"), "hi");
    /// assert_eq!(Encoding::Ascii.to_utf8(b"h\xff"), "h\u{fffd}");
    /// ```
    pub fn to_utf8(self, bytes: &[u8]) -> String {
        // A piece of a unit at the end is a bad one.
        let piece = (!bytes.len().is_multiple_of(self.unit_bytes())).then_some(None);
        let text = |chars: &mut dyn Iterator<Item = Option<char>>| -> String {
            chars.chain(piece).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
        };
        let units16 = |read: fn([u8; 2]) -> u16| {
            let units = bytes.as_chunks().0.iter().map(|unit| read(*unit));
            text(&mut char::decode_utf16(units).map(Result::ok))
        };
        let units32 =
            |read: fn([u8; 4]) -> u32| text(&mut bytes.as_chunks().0.iter().map(|unit| char::from_u32(read(*unit))));
        match self {
            Encoding::Utf8 => String::from_utf8_lossy(bytes).into_owned(),
            Encoding::Ascii => text(&mut bytes.iter().map(|&byte| byte.is_ascii().then_some(byte.into()))),
            Encoding::Utf16Be => units16(u16::from_be_bytes),
            Encoding::Utf16Le => units16(u16::from_le_bytes),
            Encoding::Utf32Be => units32(u32::from_be_bytes),
            Encoding::Utf32Le => units32(u32::from_le_bytes),
        }
    }
}

/// Source of a length.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Length {
    /// Written in the metadata.
    Static(u64),
    /// The value of an unsigned integer field that was decoded before.
    Field(FieldPath),
    /// The value of an integer (of at most 64 bits) of this class that stands right before the elements and is no
    /// field of its own. After it the position is aligned for an element, even when there is none.
    Inline(FieldClassId),
    /// The number that belongs to the value of an integer field that was decoded before; 0 when none does.
    Table {
        /// The field.
        selector: FieldPath,
        /// Lengths by its value.
        lengths: Arc<BTreeMap<u64, u64>>,
    },
    /// The bytes at the stated place of the field: only with [`FieldOffset::Located`].
    Located,
}

/// Place of a field, for formats whose definitions state it and leave holes between fields. Counted from the first byte
/// of the event's header for fields of the header, and from the first byte after it for all others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FieldOffset {
    /// At a fixed offset.
    At {
        /// Offset in bytes.
        offset_bytes: u32,
    },
    /// At an offset that the event states: two little-endian integers of 32 bits, the field's own offset in bytes and its
    /// length ([`Length::Located`]) in elements or, for texts and blobs, bytes.
    Located {
        /// Offset of the two integers.
        offset_bytes: u32,
    },
}

/// How long a string is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StringLength {
    /// Ends at the first code unit that is zero.
    NullTerminated,
    /// A number of bytes; the text stops at the first code unit that is zero.
    Bytes(Length),
}

/// A string.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StringClass {
    /// Encoding of the code units.
    pub encoding: Encoding,
    /// Its end.
    pub length: StringLength,
}

impl StringClass {
    /// UTF-8 that ends at a zero.
    pub fn utf8() -> Self {
        StringClass { encoding: Encoding::Utf8, length: StringLength::NullTerminated }
    }
}

/// Raw bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlobClass {
    /// Number of bytes.
    pub length: Length,
    /// IANA media type.
    pub media_type: Arc<str>,
}

impl BlobClass {
    /// Bytes of no known type.
    pub fn new(length: Length) -> Self {
        BlobClass { length, media_type: "application/octet-stream".into() }
    }
}

/// A member of a structure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Name for people and programs (CTF 1.8: without one leading underscore).
    pub name: Arc<str>,
    /// Name as the metadata writes it.
    pub raw_name: Arc<str>,
    /// Its class.
    pub class: FieldClassId,
}

/// A structure.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StructClass {
    /// Members, in the order of the bytes.
    pub members: Vec<Member>,
}

impl Member {
    /// A member that has the same name for people and programs and in the metadata.
    pub fn new(name: impl Into<Arc<str>>, class: FieldClassId) -> Self {
        let name = name.into();
        Member { raw_name: name.clone(), name, class }
    }

    /// The member `index` of a tuple: a structure whose members have no names and are identified by their place, such as the
    /// arguments of a call. Programs see a list, and reach a member by its index.
    pub fn for_tuple(index: usize, class: FieldClassId) -> Self {
        Member { name: format!("[{index}]").into(), raw_name: "".into(), class }
    }

    fn is_of_tuple(&self) -> bool {
        self.raw_name.is_empty() && self.name.starts_with('[')
    }
}

impl StructClass {
    /// Whether it is a tuple; see [`Member::for_tuple`].
    pub fn is_tuple(&self) -> bool {
        !self.members.is_empty() && self.members.iter().all(Member::is_of_tuple)
    }
}

/// A static or dynamic array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArrayClass {
    /// Class of each element.
    pub element: FieldClassId,
    /// Number of elements.
    pub length: Length,
}

/// Condition under which an optional field is present.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Presence {
    /// There when the selecting boolean is true.
    Boolean,
    /// There when the selecting integer is in one of the ranges.
    Ranges(Vec<Range>),
    /// The selecting field is an array of integers of one bit: there unless the element of this index is set. There,
    /// too, when the array is absent.
    Unmarked(u32),
}

/// An optional field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionalClass {
    /// The selecting field.
    pub selector: FieldPath,
    /// Values of the selector for which the field is there.
    pub presence: Presence,
    /// The field itself.
    pub content: FieldClassId,
}

/// One option of a variant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VariantOption {
    /// Name for people and programs; `None` when the option has no name.
    pub name: Option<Arc<str>>,
    /// Name as the metadata writes it.
    pub raw_name: Option<Arc<str>>,
    /// Values of the selector that choose this option. The first option that matches is taken.
    pub ranges: Vec<Range>,
    /// Its class.
    pub class: FieldClassId,
}

/// A variant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VariantClass {
    /// The selecting integer.
    pub selector: FieldPath,
    /// Options, in the order of declaration.
    pub options: Vec<VariantOption>,
}

/// Bytes that [`Render::quick`] has room for.
pub const QUICK_BYTES: usize = 192;

/// Makes texts that a format does not store but defines: the name of an address, a datum in its own format.
pub trait Render: Send + Sync + fmt::Debug {
    /// Appends the text to `out`; false, and nothing appended, when there is none (the field is then absent).
    ///
    /// `event` is what is there of the event from the first byte after its header on, and of what follows it; `own`
    /// are the bytes of the field itself.
    fn render(&self, event: &[u8], own: &[u8], out: &mut Vec<u8>) -> bool;

    /// The text that [`render`](Render::render) appends, in `scratch` or where it is kept ready (a name, a string of the
    /// file). The former content of `scratch` is dropped.
    fn text<'a>(&'a self, event: &'a [u8], own: &'a [u8], scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        scratch.clear();
        self.render(event, own, scratch).then_some(scratch)
    }

    /// Writes the text to the beginning of `room`: its length. Only where that is fast and the text is printable
    /// ASCII; `None` says nothing about the text. What `room` held is overwritten.
    fn quick(&self, _event: &[u8], _own: &[u8], _room: &mut [u8; QUICK_BYTES]) -> Option<usize> {
        None
    }

    /// Appends the text in the form for people, where it differs from that of the format: a demangled name.
    fn render_for_people(&self, event: &[u8], own: &[u8], out: &mut Vec<u8>) -> bool {
        self.render(event, own, out)
    }
}

/// One text for all events; `None` is a field that is always absent.
impl Render for Option<Arc<str>> {
    fn render(&self, _event: &[u8], _own: &[u8], out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(self.as_deref().unwrap_or_default().as_bytes());
        self.is_some()
    }
}

/// A string that is not stored as one: code of the format synthesizes it when it is wanted.
#[derive(Clone, Debug)]
pub struct RenderedClass {
    /// Bytes that the field takes itself; 0 when it is made from its neighbours alone.
    pub len_bytes: u32,
    /// Makes the text, in UTF-8.
    pub render: Arc<dyn Render>,
}

impl PartialEq for RenderedClass {
    fn eq(&self, other: &Self) -> bool {
        self.len_bytes == other.len_bytes && Arc::ptr_eq(&self.render, &other.render)
    }
}

impl Eq for RenderedClass {}

/// Kind of a field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FieldKind {
    /// Integer or enumeration, of fixed or variable length.
    Integer(IntegerClass),
    /// Bits as an unsigned number.
    BitArray(BitsClass),
    /// Bits with named flags.
    BitMap(BitsClass),
    /// True for any bit set.
    Boolean(BitsClass),
    /// Floating point number.
    Float(FloatClass),
    /// String.
    String(StringClass),
    /// Bytes.
    Blob(BlobClass),
    /// Text that is synthesized when it is shown. Aligned to bytes; nothing can refer to it.
    Rendered(RenderedClass),
    /// Structure.
    Struct(StructClass),
    /// Static or dynamic array.
    Array(ArrayClass),
    /// Optional field.
    Optional(OptionalClass),
    /// Variant.
    Variant(VariantClass),
}

impl FieldKind {
    /// Its name in tables for people and programs.
    pub fn name(&self) -> &'static str {
        match self {
            FieldKind::Integer(class) if class.mappings.is_some() => "enumeration",
            FieldKind::Integer(_) => "integer",
            FieldKind::BitArray(_) => "bit array",
            FieldKind::BitMap(_) => "bit map",
            FieldKind::Boolean(_) => "boolean",
            FieldKind::Float(_) => "float",
            FieldKind::String(_) => "string",
            FieldKind::Rendered(_) => "text",
            FieldKind::Blob(_) => "blob",
            FieldKind::Struct(_) => "structure",
            FieldKind::Array(_) => "array",
            FieldKind::Optional(_) => "optional",
            FieldKind::Variant(_) => "variant",
        }
    }
}

/// A field class: a node of the tree that describes a scope.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldClass {
    /// Its kind.
    pub kind: FieldKind,
    /// *Effective* alignment in bits, relative to the start of the packet: a power of two. A structure's is the
    /// largest of its own minimum and of its members', an array's that of its element (or its own minimum),
    /// optional and variant have 1.
    pub align_bits: u32,
    /// Its meaning to the reader.
    pub roles: Roles,
    /// Its place, when not after the field before it; then aligned to bytes whatever `align_bits` says, and not
    /// inside of an array, a variant or an optional field.
    pub place: Option<FieldOffset>,
    /// Rules of place beside the alignment.
    pub placement: Placement,
}

/// Rules for where a field may stand and end, beside its alignment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Placement {
    /// Bits of the unit that an integer must not leave, 0 for none: a bit-field of C. Units are counted from the first
    /// bit of the structure around it; an integer that does not fit in what is left of a unit moves to the next.
    pub unit_bits: u32,
    /// The field after a structure begins at a multiple of this many bits from the start of the packet: a power of two.
    pub end_align_bits: u32,
}

impl Default for Placement {
    fn default() -> Self {
        Placement { unit_bits: 0, end_align_bits: 1 }
    }
}

impl FieldClass {
    /// A class without roles.
    pub fn new(kind: FieldKind, align_bits: u32) -> Self {
        FieldClass { kind, align_bits, roles: Roles::NONE, placement: Placement::default(), place: None }
    }

    /// This class at the given place.
    #[must_use]
    pub fn with_offset(mut self, place: FieldOffset) -> Self {
        self.place = Some(place);
        self
    }

    /// This class with the given placement.
    #[must_use]
    pub fn with_placement(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }

    /// This class with the given roles.
    #[must_use]
    pub fn with_roles(mut self, roles: Roles) -> Self {
        self.roles = roles;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_found_however_they_are_numbered() {
        let list = |ranges: &[&[Range]]| {
            let mapping =
                |(at, ranges): (usize, &&[Range])| Mapping { label: format!("l{at}").into(), ranges: ranges.to_vec() };
            LabelList::new(ranges.iter().enumerate().map(mapping).collect())
        };
        let of = |list: &LabelList, value| list.labels_for(value).map(|label| label.to_string()).collect::<Vec<_>>();
        let numbered = list(&[&[(0, 0)], &[(1, 1)], &[(2, 2)]]);
        assert!(numbered.is_numbered);
        assert_eq!([0, 2].map(|value| of(&numbered, value)), [["l0"], ["l2"]]);
        assert!([-1, 3, i128::MAX].iter().all(|&value| of(&numbered, value).is_empty()));
        let ranges = list(&[&[(0, 0)], &[(0, 5), (-3, -2)], &[(2, 2)]]);
        assert!(!ranges.is_numbered);
        assert_eq!([0, 2].map(|value| of(&ranges, value)), [["l0", "l1"], ["l1", "l2"]]);
        assert_eq!((of(&ranges, -2), of(&ranges, 6).len()), (vec!["l1".to_string()], 0));
    }

    #[test]
    fn utf16_and_utf32_in_both_orders() {
        assert_eq!(Encoding::Utf16Be.to_utf8(&[0xd8, 0x3d, 0xde, 0x00, 0, b'x']), "😀x");
        assert_eq!(Encoding::Utf16Le.to_utf8(&[0x3d, 0xd8, b'x', 0]), "\u{fffd}x");
        assert_eq!(Encoding::Utf32Be.to_utf8(&[0, 1, 0xf6, 0]), "😀");
        assert_eq!(Encoding::Ascii.to_utf8(b"a\xc3\xa9b"), "a\u{fffd}\u{fffd}b");
        assert_eq!(Encoding::Utf32Le.to_utf8(&[0, 0xf6, 1, 0, 9]), "😀\u{fffd}");
    }
}
