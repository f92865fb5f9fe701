//! GNU/C bit fields, `unit_type name:size` (CTF 1.8.3, 4.1.6).

use std::rc::Rc;

use tracemill_model::error::Result;
use tracemill_model::schema::IntegerClass;

use super::ast::{Declarator, Expr, TypeSpec};
use super::resolve::TsdlResolver;
use super::types::{NamedFields, TsdlType, TypeRef};

impl TsdlResolver<'_> {
    /// The type of a bit field after the members `fields` of a structure, whose alignment is raised to the unit's.
    ///
    /// A bit field follows on the next bit, unless it would cross a boundary between units: then it starts at that
    /// boundary. Boundaries are counted from the start of the structure, so the place of the field must be known.
    pub(super) fn bit_field(
        &self,
        spec: &TypeSpec<'_>,
        unit: Option<&TypeRef>,
        declarator: &Declarator<'_>,
        width: &Expr<'_>,
        fields: &mut NamedFields,
    ) -> Result<TypeRef> {
        let span = declarator.span;
        let unit = match unit {
            Some(unit) if declarator.pointers.is_empty() && declarator.lengths.is_empty() => unit,
            _ => return Err(self.malformed(span, "pointers and arrays cannot be bit fields")),
        };
        let Some(class) = unit.as_integer() else {
            let message = format!("type of a bit field must be an integer or an enumeration, not {}", unit.noun());
            return Err(self.malformed(spec.span, message));
        };
        let unit_bits = class.len_bits;
        let len_bits = match self.unsigned(width)? {
            0 => return Err(self.malformed(width.span(), "bit field has a size of 0 bits")),
            bits if bits > u64::from(unit_bits) => {
                let message = format!("bit field is wider than its type of {unit_bits} bits");
                return Err(self.malformed(width.span(), message));
            }
            bits => bits as u32,
        };
        if !matches!(unit_bits, 8 | 16 | 32 | 64) {
            let message = format!("bit field in a type of {unit_bits} bits");
            return Err(self.unsupported(spec.span, message).with_help("supported are 8, 16, 32 and 64 bits"));
        }
        let Some(end_bits) = fields.end_bits() else {
            let help = "only members of fixed size may come before it, in the same structure";
            return Err(self.unsupported(span, "the offset of the bit field is not known").with_help(help));
        };
        let crosses = end_bits % u64::from(unit_bits) + u64::from(len_bits) > u64::from(unit_bits);
        fields.raise_alignment(unit.align_bits);
        let class = IntegerClass { len_bits, is_character: false, ..class.clone() };
        Ok(Rc::new(TsdlType::integer(class, if crosses { unit_bits } else { 1 })))
    }
}
