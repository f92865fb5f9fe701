//! Declarations of both metadata languages: types, groups of events (sections, streams), events.
//!
//! A type cannot be wrong: sizes are in range, bounds fit, alignments are powers of two, elements have a size. It knows
//! its own alignment, so that everything that holds it can ask.

use std::collections::BTreeMap;
use std::sync::Arc;

use tracemill_codec::text::Span;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::{ByteOrder, Mapping};

use super::cursor::{MAX_DEPTH, Spanned, UncomparedSpan};
use crate::names::FLOATS;

/// Byte order as the metadata writes it; the native one is known from the packets only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum WrittenOrder {
    #[default]
    Native,
    Little,
    Big,
}

impl WrittenOrder {
    /// The order of a word of the metadata.
    pub(super) fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "native" => WrittenOrder::Native,
            "network" | "be" => WrittenOrder::Big,
            "le" => WrittenOrder::Little,
            _ => return None,
        })
    }

    pub(super) fn resolve(self, native: ByteOrder) -> ByteOrder {
        match self {
            WrittenOrder::Native => native,
            WrittenOrder::Little => ByteOrder::Little,
            WrittenOrder::Big => ByteOrder::Big,
        }
    }
}

/// An integer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Int {
    pub(super) size: u32,
    pub(super) signed: bool,
    pub(super) order: WrittenOrder,
}

impl Int {
    /// Least and largest value.
    pub(super) fn bounds(self) -> (i128, i128) {
        match self.signed {
            true => (-(1i128 << (self.size - 1)), (1i128 << (self.size - 1)) - 1),
            false => (0, (1i128 << self.size) - 1),
        }
    }
}

/// Kind of a type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum DraftTypeKind {
    Integer(Int),
    Enum(Int, Arc<[Mapping]>),
    Float {
        bits: u32,
        order: WrittenOrder,
    },
    Text {
        is_ascii: bool,
    },
    Struct(Vec<DraftField>),
    Array(u64, DraftType),
    /// Type of the length, then of the elements.
    Sequence(DraftType, DraftType),
}

/// A member of a structure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct DraftField {
    pub(super) name: Arc<str>,
    /// Where the name stands.
    pub(super) place: UncomparedSpan,
    pub(super) class: DraftType,
}

/// A type, shared by its users.
pub(super) type DraftType = Arc<DraftClass>;

/// See [`DraftType`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct DraftClass {
    pub(super) kind: DraftTypeKind,
    /// Its own alignment.
    pub(super) align: u32,
    /// Alignment that it asks of the structure around it.
    pub(super) outer_align: u32,
    /// Unit of a bit-field, 0 for any other.
    pub(super) unit: u32,
    /// Can an instance take no bits?
    can_be_empty: bool,
    depth: u32,
    /// Is it a structure with two fields called `checksum`, the second of which is the scheme (`SPEC.md`, D11)?
    pub(super) has_twin: bool,
}

/// Elements without size that an array may have (`SPEC.md`, D46).
const MAX_EMPTY: u64 = 65_536;

impl DraftClass {
    /// A class without parts.
    fn new(kind: DraftTypeKind, align: u32) -> DraftClass {
        DraftClass { kind, align, outer_align: align, unit: 0, can_be_empty: false, depth: 1, has_twin: false }
    }

    /// A leaf with an alignment.
    pub(super) fn leaf(kind: DraftTypeKind, align: u32) -> DraftType {
        Arc::new(DraftClass::new(kind, align))
    }

    /// An unsigned integer of the trace's byte order, byte-packed.
    pub(super) fn unsigned(size: u32) -> DraftType {
        DraftClass::integer(Int { size, signed: false, order: WrittenOrder::Native }, None)
    }

    /// An integer whose alignment is not said (`SPEC.md`, D12).
    pub(super) fn integer(int: Int, align: Option<u32>) -> DraftType {
        DraftClass::leaf(DraftTypeKind::Integer(int), align.unwrap_or(default_align(int.size)))
    }

    /// A bit-field of C in units of `unit` bits, for which the structure is aligned on `outer_align`.
    pub(super) fn bit_field(int: Int, align: u32, unit: u32, outer_align: u32) -> DraftType {
        let outer_align = outer_align.max(align);
        Arc::new(DraftClass { outer_align, unit, ..DraftClass::new(DraftTypeKind::Integer(int), align) })
    }

    pub(super) fn text(is_ascii: bool) -> DraftType {
        DraftClass::leaf(DraftTypeKind::Text { is_ascii }, 8)
    }

    /// A floating point number of so many digits (exponent, mantissa), and a warning.
    pub(super) fn float(
        digits: (i128, i128),
        order: WrittenOrder,
        align: Option<u32>,
        span: Span,
        source: &str,
    ) -> Result<(DraftType, Option<&'static str>)> {
        let Some(&(bits, _)) = FLOATS.iter().find(|(_, known)| *known == digits) else {
            let message = format!("no floating point numbers with {} and {} digits", digits.0, digits.1);
            return Err(span.unsupported(source, message));
        };
        let odd = "floating point numbers of this size are shown with the precision of 64 bits";
        let class = DraftClass::leaf(DraftTypeKind::Float { bits, order }, align.unwrap_or(8));
        Ok((class, matches!(bits, 16 | 128).then_some(odd)))
    }

    /// An enumeration. `labels` have inclusive ranges.
    pub(super) fn enumeration(
        int: Int,
        align: u32,
        labels: &[(Spanned<String>, i128, i128)],
        source: &str,
    ) -> Result<DraftType> {
        let (low, high) = int.bounds();
        for (label, from, to) in labels {
            if to < from {
                let message = format!("the range of `{}` ends before it begins", label.value);
                return Err(label.span.malformed(source, message));
            }
            if *from < low || *to > high {
                let message =
                    format!("`{}` has a bound outside of {low} to {high}, which its integer holds", label.value);
                return Err(label.span.malformed(source, message));
            }
        }
        let mappings = labels
            .iter()
            .map(|(label, from, to)| Mapping { label: label.value.as_str().into(), ranges: vec![(*from, *to)] });
        Ok(DraftClass::leaf(DraftTypeKind::Enum(int, mappings.collect()), align))
    }

    /// A structure of fields with different names. With `twin` a second `checksum` is the scheme of the first.
    pub(super) fn structure(
        mut fields: Vec<(Spanned<String>, DraftType)>,
        twin: bool,
        source: &str,
    ) -> Result<DraftType> {
        let mut names = std::collections::HashSet::new();
        let mut has_twin = false;
        for (name, class) in &mut fields {
            if twin && name.value == "checksum" && names.contains("checksum") {
                name.value = "checksum_scheme".to_string();
                has_twin = true;
            }
            if !names.insert(name.value.clone()) {
                let message = format!("two fields of one structure have the name `{}`", name.value);
                return Err(name.span.malformed(source, message));
            }
            check_part(class, name.span, source)?;
        }
        let align = fields.iter().map(|(_, class)| class.outer_align).max().unwrap_or(1);
        let depth = fields.iter().map(|(_, class)| class.depth).max().unwrap_or(0) + 1;
        let can_be_empty = fields.iter().all(|(_, class)| class.can_be_empty);
        let fields = fields.into_iter().map(|(name, class)| DraftField {
            name: name.value.into(),
            place: UncomparedSpan { value: name.span },
            class,
        });
        Ok(Arc::new(DraftClass {
            can_be_empty,
            depth,
            has_twin,
            ..DraftClass::new(DraftTypeKind::Struct(fields.collect()), align)
        }))
    }

    pub(super) fn array(length: u64, element: DraftType, span: Span, source: &str) -> Result<DraftType> {
        check_element(&element, span, source)?;
        if element.can_be_empty && length > MAX_EMPTY {
            let message = format!("an array of {length} elements that take no bits; at most {MAX_EMPTY} are read");
            return Err(span.malformed(source, message));
        }
        let can_be_empty = length == 0 || element.can_be_empty;
        let (align, depth) = (element.align, element.depth + 1);
        Ok(Arc::new(DraftClass {
            can_be_empty,
            depth,
            ..DraftClass::new(DraftTypeKind::Array(length, element), align)
        }))
    }

    pub(super) fn sequence(length: DraftType, element: DraftType, span: Span, source: &str) -> Result<DraftType> {
        check_element(&element, span, source)?;
        if length.as_integer().is_none() || length.unit > 0 {
            let what = "the length of a sequence must be an integer that is not a bit-field";
            return Err(span.malformed(source, what));
        }
        let (align, depth) = (length.align.max(element.align), element.depth + 1);
        Ok(Arc::new(DraftClass { depth, ..DraftClass::new(DraftTypeKind::Sequence(length, element), align) }))
    }

    /// The integer that it is or, as an enumeration, stands on.
    pub(super) fn as_integer(&self) -> Option<Int> {
        match self.kind {
            DraftTypeKind::Integer(int) | DraftTypeKind::Enum(int, _) => Some(int),
            _ => None,
        }
    }
}

fn check_element(element: &DraftType, span: Span, source: &str) -> Result<()> {
    if element.unit > 0 {
        return Err(span.malformed(source, "a bit-field cannot be an element of an array or sequence"));
    }
    check_part(element, span, source)
}

fn check_part(class: &DraftType, span: Span, source: &str) -> Result<()> {
    if class.depth >= MAX_DEPTH {
        return Err(span.malformed(source, format!("types are nested deeper than {MAX_DEPTH}")));
    }
    if class.has_twin {
        return Err(span.malformed(source, "two fields of the structure have the name `checksum`"));
    }
    Ok(())
}

/// Alignment of an integer that has none in the metadata: byte-packed.
pub(super) fn default_align(size: u32) -> u32 {
    if size.is_multiple_of(8) { 8 } else { 1 }
}

/// `uintN_t`, `intN_t`, `uint`, `float`, `double`, `string`: names that need no declaration (`SPEC.md`, D6).
pub(super) fn fallback(name: &str) -> Option<DraftType> {
    let int = |size: u32, signed: bool| DraftClass::integer(Int { size, signed, order: WrittenOrder::Native }, None);
    match name {
        "uint" => return Some(int(32, false)),
        "float" => return Some(DraftClass::leaf(DraftTypeKind::Float { bits: 32, order: WrittenOrder::Native }, 8)),
        "double" => return Some(DraftClass::leaf(DraftTypeKind::Float { bits: 64, order: WrittenOrder::Native }, 8)),
        "string" => return Some(DraftClass::text(false)),
        _ => {}
    }
    let (rest, signed) = match name.strip_prefix('u') {
        Some(rest) => (rest, false),
        None => (name, true),
    };
    let digits = rest.strip_prefix("int")?.strip_suffix("_t")?;
    let is_plain = !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
    let size: u32 = digits.parse().ok().filter(|size| is_plain && (1..=64).contains(size))?;
    Some(int(size, signed))
}

/// A form of the event header, plain or extended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HeaderForm {
    /// 5 bits of id, 27 of time.
    One,
    /// 32 bits of time, 16 of id.
    Two,
}

/// A section (v1.1) or a `stream` block (v1.6).
#[derive(Clone, PartialEq, Debug)]
pub(super) struct SectionClass {
    /// Name of the section.
    pub(super) name: Option<String>,
    /// Id of the stream; sections are counted.
    pub(super) id: u64,
    pub(super) header: HeaderForm,
    pub(super) extension: HeaderForm,
    /// Does the context of each event begin with its size?
    pub(super) has_event_size: bool,
    /// Context of each event.
    pub(super) context: Option<DraftType>,
    /// Context of the packets, v1.6 only.
    pub(super) packet_context: Option<DraftType>,
}

/// An event.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct DraftEvent {
    pub(super) name: String,
    pub(super) id: u64,
    pub(super) payload: DraftType,
}

/// All that a metadata text says.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Metadata {
    /// Groups with their events.
    pub(super) groups: Vec<(SectionClass, Vec<DraftEvent>)>,
    /// Alignments that the built-in layouts prefer for integers of 32 and 64 bits (`SPEC.md`, D13).
    pub(super) preferred: (u32, u32),
    pub(super) session_id: Option<u32>,
    pub(super) uuid: Option<[u8; 16]>,
    /// Warnings for the user.
    pub(super) warnings: Vec<Error>,
    /// Types that are used and not declared, and have a meaning all the same (`SPEC.md`, D6): warnings, but for who is
    /// strict.
    pub(super) fallbacks: Vec<Error>,
}

/// Warnings about types that are not declared, in the order in which they stand.
pub(super) fn fallback_warnings(names: &BTreeMap<String, Span>, source: &str) -> Vec<Error> {
    let mut names: Vec<(&String, Span)> = names.iter().map(|(name, span)| (name, *span)).collect();
    names.sort_by_key(|(_, span)| span.start);
    let warning = |(name, span): (&String, Span)| {
        let message = format!("the type `{name}` is not declared; its usual meaning is taken, byte-packed");
        Error::inconsistent(message).at_text(span.place(source))
    };
    names.into_iter().map(warning).collect()
}

/// P(32) and P(64) of the alignments of `uint32_t` and `uint64_t`, and what is odd about them.
pub(super) fn preferred(u32_align: Option<u32>, u64_align: Option<u32>) -> ((u32, u32), Option<String>) {
    let warning = match (u32_align, u64_align) {
        (None, Some(align)) if align > 8 => Some(("uint32_t", "uint64_t", align)),
        (Some(align), None) if align > 8 => Some(("uint64_t", "uint32_t", align)),
        _ => None,
    };
    let warning = warning.map(|(missing, other, align)| {
        format!(
            "`{missing}` is not declared, and `{other}` is aligned to {align} bits: headers take 8 bits for `{missing}`"
        )
    });
    ((u32_align.unwrap_or(8).max(8), u64_align.unwrap_or(8).max(8)), warning)
}
