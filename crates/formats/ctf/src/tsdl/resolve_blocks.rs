//! The blocks `trace`, `env` and `clock` (CTF 1.8.3, 7.4 and 8).

use std::sync::Arc;

use tracemill_codec::text::Span;
use tracemill_model::error::Result;
use tracemill_model::schema::{ClockClass, ClockOrigin, EnvValue, Scope};

use super::ast::{Expr, Item};
use super::attributes::Seen;
use super::resolve::Resolver;

impl<'s> Resolver<'s> {
    /// The attributes of the trace, which everything else depends on.
    pub(super) fn trace_basics(&mut self, items: &[Item<'_>], span: Span) -> Result<()> {
        let mut seen = Seen::default();
        for item in items {
            let Item::Assign(left, value) = item else { continue };
            match left.dotted().as_deref() {
                Some("major") => {
                    seen.note(self, "major", item.span())?;
                    self.schema.version.0 = self.version_part(value)?;
                }
                Some("minor") => {
                    seen.note(self, "minor", item.span())?;
                    self.schema.version.1 = self.version_part(value)?;
                }
                Some("byte_order") => {
                    seen.note(self, "byte_order", item.span())?;
                    // Only types may be `native` or `network` (4.1.3).
                    if matches!(value.dotted().as_deref(), Some("native" | "network")) {
                        return Err(self.expected(value, "`le` or `be`"));
                    }
                    self.byte_order = self.byte_order(value)?;
                    self.schema.byte_order = self.byte_order;
                }
                Some("uuid") => {
                    seen.note(self, "uuid", item.span())?;
                    self.schema.uuid = Some(self.uuid(value)?);
                }
                _ => {}
            }
        }
        for name in ["major", "minor", "byte_order"] {
            if seen.span(name).is_none() {
                return Err(self.malformed(self.keyword(span), format!("`trace` block has no `{name}`")));
            }
        }
        let (major, minor) = self.schema.version;
        if (major, minor) != (1, 8) {
            let at = if major == 1 { "minor" } else { "major" };
            let span = seen.span(at).unwrap_or(span);
            return Err(self.unsupported(span, format!("CTF version {major}.{minor}, not 1.8")));
        }
        Ok(())
    }

    fn version_part(&self, value: &Expr<'_>) -> Result<u32> {
        u32::try_from(self.unsigned(value)?).map_err(|_| self.expected(value, "a version number"))
    }

    fn uuid(&self, value: &Expr<'_>) -> Result<[u8; 16]> {
        let text = self.text(value)?;
        parse_uuid(&text).ok_or_else(|| self.expected(value, "a UUID such as `2a6422d0-6cee-11e0-8c08-cb07d7b3a564`"))
    }

    /// The types and the packet header inside the trace block.
    pub(super) fn trace_scopes(&mut self, items: &[Item<'_>]) -> Result<()> {
        self.scopes.push(None);
        let mut seen = Seen::default();
        for item in items {
            if let Item::Define(left, spec) = item {
                if left.dotted().as_deref() == Some("packet.header") {
                    seen.note(self, "packet.header", left.span())?;
                    let ty = self.scope_type(spec)?;
                    self.packet_header = Some(self.packet_header_roles(&ty, spec.span)?);
                } else {
                    self.spec(spec)?;
                }
            } else {
                self.block_item(item)?;
            }
        }
        self.scopes.pop();
        let roots = [self.packet_header.clone(), None, None, None, None, None];
        let span = seen.span("packet.header").unwrap_or_default();
        self.schema.packet_header = self.instantiate_root(Scope::PacketHeader, roots, span)?;
        Ok(())
    }

    /// An item of a block that is no attribute with a meaning: a definition or an unknown assignment.
    pub(super) fn block_item(&mut self, item: &Item<'_>) -> Result<()> {
        match item {
            Item::Fields(spec, declarators) => {
                let span = declarators.first().map_or(spec.span, |declarator| declarator.span);
                Err(self.malformed(span, "expected an attribute or a type definition, found a field"))
            }
            item => self.definition(item).map(drop),
        }
    }

    /// `env { ... };`
    pub(super) fn environment(&mut self, items: &[Item<'_>]) -> Result<()> {
        self.scopes.push(None);
        for item in items {
            let Item::Assign(left, value) = item else {
                self.block_item(item)?;
                continue;
            };
            let name = self.text(left)?;
            let value = match (value, value.dotted()) {
                (Expr::Integer(number, _), _) => EnvValue::Integer(*number),
                (_, Some(text)) => EnvValue::String(text.as_ref().into()),
                _ => continue,
            };
            self.schema.environment.push((self.names.share(&name), value.clone()));
            // Like the reference reader, the first value of a name counts.
            self.env.entry(name).or_insert(value);
        }
        self.scopes.pop();
        Ok(())
    }

    /// `clock { ... };`
    pub(super) fn clock(&mut self, items: &[Item<'_>], span: Span) -> Result<()> {
        let mut seen = Seen::default();
        let mut clock = ClockClass::nanoseconds("");
        let mut is_absolute = false;
        self.scopes.push(None);
        for item in items {
            let Item::Assign(left, value) = item else {
                self.block_item(item)?;
                continue;
            };
            self.clock_attribute(item, left, value, &mut seen, &mut clock, &mut is_absolute)?;
        }
        self.scopes.pop();
        let Some(name_span) = seen.span("name") else {
            return Err(self.malformed(self.keyword(span), "`clock` block has no `name`"));
        };
        let has_offset = clock.offset_seconds != 0 || clock.offset_cycles != 0;
        if is_absolute || has_offset || self.is_lttng() {
            clock.origin = ClockOrigin::Unix;
        }
        let name = clock.id.to_string();
        if let Some((_, first)) = self.clocks.get(&name) {
            return Err(self.duplicate(name_span, &format!("clock `{name}`"), *first));
        }
        let id = self.schema.add_clock(clock);
        self.clocks.insert(name, (id, name_span));
        Ok(())
    }

    fn clock_attribute(
        &self,
        item: &Item<'_>,
        left: &Expr<'_>,
        value: &Expr<'_>,
        seen: &mut Seen,
        clock: &mut ClockClass,
        is_absolute: &mut bool,
    ) -> Result<()> {
        match left.dotted().as_deref() {
            Some("name") => {
                seen.note(self, "name", item.span())?;
                clock.id = self.text(value)?.into();
                clock.name = Some(clock.id.clone());
            }
            Some("uuid") => {
                seen.note(self, "uuid", item.span())?;
                self.uuid(value)?;
                clock.uid = Some(self.shared_text(value)?);
            }
            Some("description") => {
                seen.note(self, "description", item.span())?;
                clock.description = Some(self.shared_text(value)?);
            }
            Some("freq") => {
                seen.note(self, "freq", item.span())?;
                clock.frequency = self.unsigned(value)?;
                if clock.frequency == 0 {
                    return Err(self.malformed(value.span(), "clock has a frequency of 0"));
                }
            }
            Some("precision") => {
                seen.note(self, "precision", item.span())?;
                clock.precision = Some(self.unsigned(value)?);
            }
            Some("offset_s") => {
                seen.note(self, "offset_s", item.span())?;
                clock.offset_seconds = self.seconds(value)?;
            }
            Some("offset") => {
                seen.note(self, "offset", item.span())?;
                clock.offset_cycles = self.signed(value)?;
            }
            Some("absolute") => {
                seen.note(self, "absolute", item.span())?;
                *is_absolute = self.boolean(value)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn shared_text(&self, value: &Expr<'_>) -> Result<Arc<str>> {
        self.text(value).map(Into::into)
    }

    /// Seconds as a signed number; producers that print it unsigned wrote two's complement.
    fn seconds(&self, value: &Expr<'_>) -> Result<i64> {
        let number = self.signed(value)?;
        match (i64::try_from(number), u64::try_from(number)) {
            (Ok(seconds), _) => Ok(seconds),
            (_, Ok(unsigned)) => Ok(unsigned as i64),
            _ => Err(self.expected(value, "seconds of 64 bits")),
        }
    }

    fn is_lttng(&self) -> bool {
        matches!(self.env.get("tracer_name"), Some(EnvValue::String(name)) if name.starts_with("lttng"))
    }
}

/// Reads `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let bytes = text.as_bytes();
    let has_dashes = bytes.len() == 36 && [8, 13, 18, 23].iter().all(|&at| bytes[at] == b'-');
    let digits: Vec<u8> = bytes.iter().copied().filter(|byte| *byte != b'-').collect();
    if !has_dashes || digits.len() != 32 {
        return None;
    }
    let mut uuid = [0; 16];
    for (byte, pair) in uuid.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = [pair[0], pair[1]].map(|digit| char::from(digit).to_digit(16));
        *byte = (high? * 16 + low?) as u8;
    }
    Some(uuid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_36_characters() {
        let uuid = parse_uuid("2a6422d0-6cee-11e0-8c08-cb07d7b3a564").expect("valid");
        assert_eq!((uuid[0], uuid[15]), (0x2a, 0x64));
        for wrong in ["", "2a6422d06cee11e08c08cb07d7b3a564", "2a6422d0-6cee-11e0-8c08-cb07d7b3a56g", "é"] {
            assert_eq!(parse_uuid(wrong), None, "{wrong}");
        }
    }
}
