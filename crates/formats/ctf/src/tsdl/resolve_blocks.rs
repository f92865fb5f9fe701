//! The blocks `trace`, `env` and `clock` (CTF 1.8.3, 7.4 and 8).

use tracemill_codec::text::{Span, uuid_of};
use tracemill_model::error::Result;
use tracemill_model::schema::{ClockClass, ClockOrigin, EnvValue, Scope};

use super::ast::{BlockItem, Expr};
use super::attributes::SeenAttributes;
use super::resolve::TsdlResolver;

impl<'s> TsdlResolver<'s> {
    /// The attributes of the trace, which everything else depends on.
    pub(super) fn trace_basics(&mut self, items: &[BlockItem<'_>], span: Span) -> Result<()> {
        let mut seen = SeenAttributes::default();
        for item in items {
            let BlockItem::Assign(left, value) = item else { continue };
            match seen.mark_known(self, left, &["major", "minor", "byte_order", "uuid"], item.span())? {
                "major" => self.schema.version.0 = self.version_part(value)?,
                "minor" => self.schema.version.1 = self.version_part(value)?,
                "byte_order" => {
                    // Only types may be `native` or `network` (4.1.3).
                    if matches!(value.dotted().as_deref(), Some("native" | "network")) {
                        return Err(self.expected(value, "`le` or `be`"));
                    }
                    self.byte_order = self.byte_order(value)?;
                    self.schema.byte_order = self.byte_order;
                }
                "uuid" => self.schema.uuid = Some(self.uuid(value)?),
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
        uuid_of(&text).ok_or_else(|| self.expected(value, "a UUID such as `2a6422d0-6cee-11e0-8c08-cb07d7b3a564`"))
    }

    /// The types and the packet header inside the trace block.
    pub(super) fn trace_scopes(&mut self, items: &[BlockItem<'_>]) -> Result<()> {
        self.scopes.push(None);
        let mut seen = SeenAttributes::default();
        for item in items {
            if let BlockItem::Define(left, spec) = item {
                if !seen.mark_known(self, left, &["packet.header"], left.span())?.is_empty() {
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
    pub(super) fn block_item(&mut self, item: &BlockItem<'_>) -> Result<()> {
        match item {
            BlockItem::Fields(spec, declarators) => {
                let span = declarators.first().map_or(spec.span, |declarator| declarator.span);
                Err(self.malformed(span, "expected an attribute or a type definition, found a field"))
            }
            item => self.definition(item).map(drop),
        }
    }

    /// `env { ... };`
    pub(super) fn environment(&mut self, items: &[BlockItem<'_>]) -> Result<()> {
        self.scopes.push(None);
        for item in items {
            let BlockItem::Assign(left, value) = item else {
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
    pub(super) fn clock(&mut self, items: &[BlockItem<'_>], span: Span) -> Result<()> {
        let mut seen = SeenAttributes::default();
        let mut clock = ClockClass::nanoseconds("");
        let mut is_absolute = false;
        self.scopes.push(None);
        for item in items {
            let BlockItem::Assign(left, value) = item else {
                self.block_item(item)?;
                continue;
            };
            const NAMES: [&str; 8] =
                ["name", "uuid", "description", "freq", "precision", "offset_s", "offset", "absolute"];
            match seen.mark_known(self, left, &NAMES, item.span())? {
                "name" => {
                    clock.id = self.text(value)?.into();
                    clock.name = Some(clock.id.clone());
                }
                "uuid" => {
                    self.uuid(value)?;
                    clock.uid = Some(self.text(value)?.into());
                }
                "description" => clock.description = Some(self.text(value)?.into()),
                "freq" => {
                    clock.frequency = self.unsigned(value)?;
                    if clock.frequency == 0 {
                        return Err(self.malformed(value.span(), "clock has a frequency of 0"));
                    }
                }
                "precision" => clock.precision = Some(self.unsigned(value)?),
                "offset_s" => clock.offset_seconds = self.seconds(value)?,
                "offset" => clock.offset_cycles = self.signed(value)?,
                "absolute" => is_absolute = self.boolean(value)?,
                _ => {}
            }
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
