//! Values of attributes, and the types that consist of attributes only: `integer`, `floating_point`, `string`
//! (CTF 1.8.3, 4.1.5, 4.1.7, 4.2.5).

use tracemill_codec::text::{Span, suggest};
use tracemill_model::error::Result;
use tracemill_model::schema::{ByteOrder, ClockId, DisplayBase, FloatClass, IntegerClass};

use super::ast::{BlockItem, Expr};
use super::resolve::TsdlResolver;
use super::types::{TsdlType, TypeKind};
use crate::names::FLOATS;

/// Widest integer in bits.
const MAX_INTEGER_BITS: u64 = 4096;

/// Largest alignment in bits.
const MAX_ALIGN_BITS: u64 = 1 << 30;

/// Attributes that were seen, to find those that come twice.
#[derive(Default, Debug)]
pub(super) struct SeenAttributes(Vec<(&'static str, Span)>);

impl SeenAttributes {
    /// The name of an attribute when it is one of `known`, otherwise nothing. Takes note of it, and fails when it was there
    /// before.
    pub(super) fn mark_known(
        &mut self,
        resolver: &TsdlResolver<'_>,
        left: &Expr<'_>,
        known: &[&'static str],
        span: Span,
    ) -> Result<&'static str> {
        let found = left.dotted().and_then(|text| known.iter().copied().find(|name| *name == text));
        let Some(name) = found else { return Ok("") };
        if let Some(first) = self.span(name) {
            return Err(resolver.duplicate(span, &format!("`{name}`"), first));
        }
        self.0.push((name, span));
        Ok(name)
    }

    /// Where an attribute is.
    pub(super) fn span(&self, name: &str) -> Option<Span> {
        self.0.iter().find(|(seen, _)| *seen == name).map(|(_, span)| *span)
    }
}

impl TsdlResolver<'_> {
    /// `integer { ... }`
    pub(super) fn integer(&mut self, items: &[BlockItem<'_>], span: Span) -> Result<TsdlType> {
        let mut seen = SeenAttributes::default();
        let mut class = IntegerClass { byte_order: self.byte_order, ..IntegerClass::unsigned(0) };
        let mut align_bits = None;
        for item in items {
            const NAMES: [&str; 7] = ["size", "align", "signed", "byte_order", "base", "encoding", "map"];
            let (name, value) = self.attribute(item, &NAMES, &mut seen)?;
            match name {
                "size" => class.len_bits = self.integer_size(value)?,
                "align" => align_bits = Some(self.alignment(value)?),
                "signed" => class.signed = self.boolean(value)?,
                "byte_order" => class.byte_order = self.byte_order(value)?,
                "base" => class.base = self.base(value)?,
                "encoding" => class.is_character = self.encoding(value)?,
                "map" => class.clock = Some(self.mapped_clock(value)?),
                _ => {}
            }
        }
        if seen.span("size").is_none() {
            return Err(self.malformed(span, "integer has no `size`"));
        }
        let align_bits = align_bits.unwrap_or(default_align_bits(class.len_bits));
        Ok(TsdlType::integer(class, align_bits))
    }

    /// `floating_point { ... }`
    pub(super) fn float(&mut self, items: &[BlockItem<'_>], span: Span) -> Result<TsdlType> {
        let mut seen = SeenAttributes::default();
        let (mut exponent, mut mantissa) = (0, 0);
        let mut align_bits = None;
        let mut byte_order = self.byte_order;
        for item in items {
            let (name, value) = self.attribute(item, &["exp_dig", "mant_dig", "align", "byte_order"], &mut seen)?;
            match name {
                "exp_dig" => exponent = self.unsigned(value)?,
                "mant_dig" => mantissa = self.unsigned(value)?,
                "align" => align_bits = Some(self.alignment(value)?),
                "byte_order" => byte_order = self.byte_order(value)?,
                _ => {}
            }
        }
        for name in ["exp_dig", "mant_dig"] {
            if seen.span(name).is_none() {
                return Err(self.malformed(span, format!("floating point number has no `{name}`")));
            }
        }
        let digits = (exponent.into(), mantissa.into());
        let Some(&(len_bits, _)) = FLOATS.iter().find(|(_, known)| *known == digits) else {
            let message = format!("floating point number of `exp_dig` {exponent} and `mant_dig` {mantissa}");
            let help = "supported are 5 and 11, 8 and 24, 11 and 53, 15 and 113";
            let span = seen.span("mant_dig").unwrap_or(span);
            return Err(self.unsupported(span, message).with_help(help));
        };
        let class = FloatClass { len_bits, byte_order, reversed_bits: false };
        let align_bits = align_bits.unwrap_or(default_align_bits(len_bits));
        Ok(TsdlType::leaf(TypeKind::Float(class), align_bits))
    }

    /// `string { ... }`
    pub(super) fn string(&mut self, items: &[BlockItem<'_>]) -> Result<TsdlType> {
        let mut seen = SeenAttributes::default();
        for item in items {
            let (name, value) = self.attribute(item, &["encoding"], &mut seen)?;
            if !name.is_empty() {
                self.encoding(value)?;
            }
        }
        Ok(TsdlType::leaf(TypeKind::String, 8))
    }

    fn attribute<'i>(
        &self,
        item: &'i BlockItem<'_>,
        known: &[&'static str],
        seen: &mut SeenAttributes,
    ) -> Result<(&'static str, &'i Expr<'i>)> {
        let BlockItem::Assign(left, value) = item else {
            return Err(self.malformed(item.span(), "expected an attribute such as `size = 8`"));
        };
        Ok((seen.mark_known(self, left, known, item.span())?, value))
    }

    fn integer_size(&self, value: &Expr<'_>) -> Result<u32> {
        match self.unsigned(value)? {
            0 => Err(self.malformed(value.span(), "integer has a size of 0 bits")),
            size if size > MAX_INTEGER_BITS => {
                let message = format!("integer of {size} bits; at most {MAX_INTEGER_BITS} are supported");
                Err(self.unsupported(value.span(), message))
            }
            size => Ok(size as u32),
        }
    }

    /// A power of two.
    pub(super) fn alignment(&self, value: &Expr<'_>) -> Result<u32> {
        match self.unsigned(value)? {
            align if !align.is_power_of_two() => Err(self.expected(value, "an alignment that is a power of two")),
            align if align > MAX_ALIGN_BITS => {
                Err(self.unsupported(value.span(), format!("alignment of more than {MAX_ALIGN_BITS} bits")))
            }
            align => Ok(align as u32),
        }
    }

    /// A constant of 0 to 2^64 - 1.
    pub(super) fn unsigned(&self, value: &Expr<'_>) -> Result<u64> {
        match value {
            Expr::Integer(number, _) => u64::try_from(*number).map_err(|_| self.expected(value, "a positive integer")),
            _ => Err(self.expected(value, "an integer")),
        }
    }

    /// A constant of any sign.
    pub(super) fn signed(&self, value: &Expr<'_>) -> Result<i128> {
        match value {
            Expr::Integer(number, _) => Ok(*number),
            _ => Err(self.expected(value, "an integer")),
        }
    }

    /// A string or a path.
    pub(super) fn text(&self, value: &Expr<'_>) -> Result<String> {
        match value.dotted() {
            Some(text) => Ok(text.into_owned()),
            None => Err(self.expected(value, "a string")),
        }
    }

    /// `true`, `FALSE`, `1`, ...
    pub(super) fn boolean(&self, value: &Expr<'_>) -> Result<bool> {
        match (value, value.dotted().as_deref()) {
            (Expr::Integer(number, _), _) => Ok(*number != 0),
            (_, Some("true" | "TRUE")) => Ok(true),
            (_, Some("false" | "FALSE")) => Ok(false),
            _ => Err(self.expected(value, "`true` or `false`")),
        }
    }

    /// `le`, `be`, `network` or `native`.
    pub(super) fn byte_order(&self, value: &Expr<'_>) -> Result<ByteOrder> {
        match value.dotted().as_deref() {
            Some("le") => Ok(ByteOrder::Little),
            Some("be" | "network") => Ok(ByteOrder::Big),
            Some("native") => Ok(self.byte_order),
            _ => Err(self.expected(value, "a byte order: `le`, `be`, `network` or `native`")),
        }
    }

    fn base(&self, value: &Expr<'_>) -> Result<DisplayBase> {
        let name = match value {
            Expr::Integer(number, _) => number.to_string(),
            _ => value.dotted().unwrap_or_default().into_owned(),
        };
        match name.as_str() {
            "decimal" | "dec" | "d" | "i" | "u" | "10" => Ok(DisplayBase::Decimal),
            "hexadecimal" | "hex" | "x" | "X" | "p" | "16" => Ok(DisplayBase::Hexadecimal),
            "octal" | "oct" | "o" | "8" => Ok(DisplayBase::Octal),
            "binary" | "b" | "2" => Ok(DisplayBase::Binary),
            _ => Err(self.expected(value, "a base: `decimal`, `hexadecimal`, `octal` or `binary`")),
        }
    }

    /// Does the encoding make text?
    fn encoding(&self, value: &Expr<'_>) -> Result<bool> {
        match value.dotted().map(|name| name.to_ascii_lowercase()).as_deref() {
            Some("none") => Ok(false),
            Some("utf8" | "utf-8" | "ascii") => Ok(true),
            _ => Err(self.expected(value, "an encoding: `none`, `UTF8` or `ASCII`")),
        }
    }

    fn mapped_clock(&self, value: &Expr<'_>) -> Result<ClockId> {
        let words = if let Expr::Path(words, _) = value { words.as_slice() } else { &[] };
        let name = match words {
            [clock, name, end] if clock.text == "clock" && end.text == "value" => name,
            _ => return Err(self.expected(value, "`clock.NAME.value`")),
        };
        if let Some((clock, _)) = self.clocks.get(&*name.text) {
            return Ok(*clock);
        }
        let error = self.malformed(name.span, format!("unknown clock `{}`", name.text));
        Err(suggest(error, &name.text, self.clocks.keys().map(String::as_str)))
    }
}

/// Numbers of whole bytes are aligned on bytes unless they say otherwise.
fn default_align_bits(len_bits: u32) -> u32 {
    if len_bits.is_multiple_of(8) { 8 } else { 1 }
}
