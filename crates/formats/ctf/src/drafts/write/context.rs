//! The context of a packet that is written: its fields, their meanings and their values.

use std::sync::Arc;

use tracemill_codec::bits::{mask, sign_extend};
use tracemill_codec::value::Value;
use tracemill_model::error::{Error, Result};

use super::super::metadata::Dialect;
use super::super::packet_fields::{self, ContextMeaning, HEADER_11};
use super::super::transform::Schemes;
use super::super::types::{DraftClass, DraftField, DraftTypeKind, Int, WrittenOrder};
use super::bits::TypedWriter;

/// The fields of a packet context with a value each.
pub(super) struct PacketContextValues {
    fields: Vec<ContextField>,
    values: Vec<Value>,
}

impl PacketContextValues {
    /// The context that a stream declares, with the values that the packet of the input has for it.
    pub(super) fn new(dialect: Dialect, declared: Option<&DraftClass>, stored: Option<&Value>) -> Self {
        let fields = context_fields(dialect, declared);
        let values = match stored {
            // CTF 2 puts members of its own before them, and changes names that it has itself.
            Some(Value::Struct(stored)) if stored.len() >= fields.len() => {
                stored.iter().skip(stored.len() - fields.len()).map(|(_, value)| value.clone()).collect()
            }
            _ => vec![Value::Null; fields.len()],
        };
        PacketContextValues { fields, values }
    }

    fn place(&self, meaning: ContextMeaning) -> Option<usize> {
        self.fields.iter().position(|(_, of, _)| *of == Some(meaning))
    }

    /// Is there a field of a meaning?
    pub(super) fn has(&self, meaning: ContextMeaning) -> bool {
        self.place(meaning).is_some()
    }

    /// The number in the field of a meaning.
    pub(super) fn get(&self, meaning: ContextMeaning) -> Option<u64> {
        self.values[self.place(meaning)?].integer().map(|value| value as u64)
    }

    /// Bits of the field of a meaning, 64 without one.
    pub(super) fn width(&self, meaning: ContextMeaning) -> u32 {
        let class = self.place(meaning).and_then(|at| self.fields[at].2.as_integer());
        class.map_or(64, |int| int.size)
    }

    /// Sets the field of a meaning, where there is one, to the low bits of a number.
    pub(super) fn set(&mut self, meaning: ContextMeaning, value: u64) {
        if let Some(at) = self.place(meaning) {
            self.values[at] = Value::Unsigned(value & mask_of(&self.fields[at].2));
        }
    }

    /// Sets the field of a meaning, where there is one.
    ///
    /// # Errors
    /// When the number does not fit.
    pub(super) fn set_whole(&mut self, meaning: ContextMeaning, value: u64) -> Result<()> {
        let Some(at) = self.place(meaning) else { return Ok(()) };
        let (name, _, class) = &self.fields[at];
        if value & mask_of(class) != value {
            let message = format!("{value} does not fit the field `{name}` of the packet context");
            return Err(Error::unsupported(message).with_help("smaller packets may fit: --packet-size"));
        }
        self.values[at] = Value::Unsigned(value);
        Ok(())
    }

    /// Sets the field of a name, where there is one.
    pub(super) fn set_member(&mut self, name: &str, value: Value) {
        if let Some(at) = self.fields.iter().position(|(of, _, _)| **of == *name) {
            self.values[at] = value;
        }
    }

    /// The schemes that the fields say.
    pub(super) fn schemes(&self) -> Schemes {
        Schemes {
            compression: self.get(ContextMeaning::Compression).unwrap_or(0),
            encryption: self.get(ContextMeaning::Encryption).unwrap_or(0),
            checksum: self.get(ContextMeaning::ChecksumScheme).unwrap_or(0),
        }
    }

    /// Refuses schemes without a field that says them.
    pub(super) fn check(&self, schemes: Schemes) -> Result<()> {
        let wanted = [
            (ContextMeaning::Compression, schemes.compression, "compression_scheme"),
            (ContextMeaning::Encryption, schemes.encryption, "encryption_scheme"),
            (ContextMeaning::ChecksumScheme, schemes.checksum, "checksum_scheme"),
        ];
        match wanted.into_iter().find(|&(meaning, scheme, _)| scheme != 0 && !self.has(meaning)) {
            None => Ok(()),
            Some((.., name)) => {
                let message = format!("packets of this trace have no field `{name}`, so nothing can be said of it");
                Err(Error::misuse(message))
            }
        }
    }

    /// Sets the checksum, where there is a field for it.
    pub(super) fn set_checksum(&mut self, scheme: u64, digest: &[u8]) {
        if let Some(at) = self.place(ContextMeaning::Checksum) {
            let had = std::mem::take(&mut self.values[at]);
            self.values[at] = checksum(&self.fields[at].2, scheme, digest, had);
        }
    }

    /// Writes the fields.
    pub(super) fn write(&self, out: &mut TypedWriter<'_>) {
        let base = out.out.pos();
        for ((_, _, class), value) in self.fields.iter().zip(&self.values) {
            out.field(class, value, base);
        }
    }
}

/// Name, meaning and class of a field of a packet context.
type ContextField = (Arc<str>, Option<ContextMeaning>, Arc<DraftClass>);

/// The fields of the packet context: declared in v1.6, a part of the fixed header in v1.1.
pub(super) fn context_fields(dialect: Dialect, context: Option<&DraftClass>) -> Vec<ContextField> {
    match dialect {
        Dialect::V11 => HEADER_11
            .iter()
            .map(|&(name, size)| {
                let meaning = packet_fields::meaning(&name.replace("section_packet_count", "stream_packet_count"));
                let int = Int { size, signed: false, order: WrittenOrder::Native };
                (name.into(), meaning, DraftClass::integer(int, Some(8)))
            })
            .collect(),
        Dialect::V16 => {
            let Some(DraftTypeKind::Struct(fields)) = context.map(|context| &context.kind) else { return Vec::new() };
            let of = |field: &DraftField| {
                let meaning = packet_fields::meaning(&field.name);
                // Of another kind it is plain data.
                let meaning =
                    meaning.filter(|&of| of == ContextMeaning::Checksum || field.class.as_integer().is_some());
                (field.name.clone(), meaning, field.class.clone())
            };
            fields.iter().map(of).collect()
        }
    }
}

/// All bits of an integer.
fn mask_of(class: &DraftClass) -> u64 {
    class.as_integer().map_or(u64::MAX, |int| mask(int.size))
}

/// The value of a checksum field (`SPEC.md`, D33).
fn checksum(class: &DraftClass, scheme: u64, digest: &[u8], had: Value) -> Value {
    if scheme == 0 {
        return had;
    }
    match &class.kind {
        DraftTypeKind::Integer(int) | DraftTypeKind::Enum(int, _) if int.size.is_multiple_of(8) => {
            let bytes = digest.iter().take((int.size / 8) as usize);
            let number = bytes.fold(0u64, |sum, &byte| sum << 8 | u64::from(byte));
            if int.signed { Value::Signed(sign_extend(number, int.size)) } else { Value::Unsigned(number) }
        }
        DraftTypeKind::Array(len, element) => {
            let byte = |at: u64| digest.get(at as usize).copied().unwrap_or(0);
            let value = |at: u64| match element.as_integer() {
                Some(int) if int.signed => Value::Signed((byte(at) as i8).into()),
                _ => Value::Unsigned(byte(at).into()),
            };
            Value::List((0..*len).map(value).collect())
        }
        DraftTypeKind::Sequence(..) => {
            let len = had.elements().map_or(0, <[Value]>::len);
            let byte = |at: usize| digest.get(at).copied().unwrap_or(0);
            Value::List((0..len).map(|at| Value::Unsigned(byte(at).into())).collect())
        }
        _ => had,
    }
}
