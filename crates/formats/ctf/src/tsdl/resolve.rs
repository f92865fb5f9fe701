//! Syntax trees to a [`Schema`]: the state that the parts of the resolver share, and the order of the work.

use std::collections::HashMap;

use tracemill_codec::text::Span;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::{ByteOrder, ClockId, EnvValue, EventClassId, Schema};

use super::ast::{BlockItem, Expr};
use super::blocks::Blocks;
use super::instance::{Leaves, TagLabels};
use super::parser::TsdlParser;
use super::types::{SharedNames, TypeRef, TypeScopes};
use crate::metadata_text::MetadataText;

/// Most field classes, members and ranges of a schema, on top of one for each byte of metadata. Paths make the
/// classes of a typedef again for each use, so a short text can ask for very many.
const MAX_FIELD_CLASSES: usize = 1_000_000;

/// Turns the declarations of a metadata text into a schema.
#[derive(Default)]
pub(super) struct TsdlResolver<'s> {
    pub(super) source: &'s str,
    /// Oddities that were read although the specification forbids them.
    pub(super) oddities: MetadataText<'s>,
    pub(super) schema: Schema,
    pub(super) byte_order: ByteOrder,
    pub(super) scopes: TypeScopes,
    pub(super) names: SharedNames,
    pub(super) env: HashMap<String, EnvValue>,
    pub(super) clocks: HashMap<String, (ClockId, Span)>,
    pub(super) packet_header: Option<TypeRef>,
    /// Does the packet header name the stream class?
    pub(super) has_stream_id: bool,
    pub(super) streams: Vec<ResolvedStream>,
    pub(super) event_spans: HashMap<EventClassId, Span>,
    pub(super) leaves: Leaves,
    pub(super) labels: TagLabels,
    struct_count: u32,
    charged: usize,
}

/// A stream class, as the resolver remembers it.
#[derive(Debug)]
pub(super) struct ResolvedStream {
    /// Its block, or the event block that implied it.
    pub(super) span: Span,
    /// Type of the packet context.
    pub(super) packet_context: Option<TypeRef>,
    /// Type of the event header.
    pub(super) event_header: Option<TypeRef>,
    /// Type of the common context.
    pub(super) common_context: Option<TypeRef>,
}

/// Resolves a metadata text.
pub(super) fn resolve(source: &str, is_strict: bool) -> Result<(Schema, Vec<Error>)> {
    let blocks = Blocks::find(source)?;
    let mut resolver = TsdlResolver::new(source, is_strict);
    resolver.run(&blocks)?;
    Ok((resolver.schema, resolver.oddities.into_warnings()))
}

impl<'s> TsdlResolver<'s> {
    fn new(source: &'s str, is_strict: bool) -> Self {
        let mut scopes = TypeScopes::default();
        scopes.push(None);
        TsdlResolver {
            source,
            oddities: MetadataText::new(source, is_strict),
            schema: Schema::new("ctf1.8").with_peer_text(),
            scopes,
            ..TsdlResolver::default()
        }
    }

    /// The order is that of the reference reader, so that blocks may stand in any order in the text.
    fn run(&mut self, blocks: &Blocks) -> Result<()> {
        let trace = self.trace_items(&blocks.traces)?;
        self.trace_basics(&trace, blocks.traces[0])?;
        for &span in &blocks.envs {
            self.environment(&self.parse_block(span)?)?;
        }
        for &span in &blocks.clocks {
            self.clock(&self.parse_block(span)?, span)?;
        }
        for &span in &blocks.callsites {
            self.parse_block(span)?;
        }
        for &span in &blocks.types {
            self.root_item(&TsdlParser::new(self.source, span)?.root()?)?;
        }
        self.trace_scopes(&trace)?;
        for &span in &blocks.streams {
            self.stream(&self.parse_block(span)?, span)?;
        }
        for &span in &blocks.events {
            self.event(&self.parse_block(span)?, span)?;
        }
        self.check_streams()
    }

    pub(super) fn parse_block(&self, span: Span) -> Result<Vec<BlockItem<'s>>> {
        TsdlParser::new(self.source, span)?.block()
    }

    fn trace_items(&self, spans: &[Span]) -> Result<Vec<BlockItem<'s>>> {
        match spans {
            [span] => self.parse_block(*span),
            [first, second, ..] => Err(self.duplicate(self.keyword(*second), "`trace` block", self.keyword(*first))),
            [] => {
                let end = Span::new(self.source.len(), self.source.len());
                let help = "a `trace` block with `major`, `minor` and `byte_order` is required";
                Err(end.malformed(self.source, "metadata has no `trace` block").with_help(help))
            }
        }
    }

    fn root_item(&mut self, item: &BlockItem<'_>) -> Result<()> {
        match item {
            BlockItem::Fields(spec, declarators) => match declarators.first() {
                None => self.spec(spec).map(drop),
                Some(declarator) => Err(self.malformed(declarator.span, "a field must be inside a structure")),
            },
            item => {
                if !self.definition(item)? {
                    return Err(self.malformed(item.span(), "an assignment must be inside a block"));
                }
                Ok(())
            }
        }
    }

    /// The keyword that a block starts with, which is enough to point at the block.
    pub(super) fn keyword(&self, block: Span) -> Span {
        let len = block.text(self.source).bytes().take_while(u8::is_ascii_lowercase).count();
        Span::new(block.start, block.start + len)
    }

    /// A number for a new structure body.
    pub(super) fn next_struct_id(&mut self) -> u32 {
        self.struct_count += 1;
        self.struct_count
    }

    /// Counts the parts of a schema, and refuses metadata that asks for too many.
    pub(super) fn charge(&mut self, parts: usize, span: Span) -> Result<()> {
        let limit = MAX_FIELD_CLASSES + self.source.len();
        self.charged = self.charged.saturating_add(parts);
        if self.charged <= limit {
            return Ok(());
        }
        Err(self.unsupported(span, format!("metadata needs more than {limit} field classes and members")))
    }

    /// An error about broken metadata.
    pub(super) fn malformed(&self, span: Span, message: impl Into<String>) -> Error {
        span.malformed(self.source, message)
    }

    /// An error about metadata that is not supported.
    pub(super) fn unsupported(&self, span: Span, message: impl Into<String>) -> Error {
        span.unsupported(self.source, message)
    }

    /// An error about a use of something that is declared otherwise.
    pub(super) fn contradiction(&self, span: Span, message: impl Into<String>, declared: Span) -> Error {
        self.malformed(span, message).with_related("declared here", declared.place(self.source))
    }

    /// An error about something that is there twice.
    pub(super) fn duplicate(&self, span: Span, what: &str, first: Span) -> Error {
        self.malformed(span, format!("{what} is declared twice"))
            .with_related("first declared here", first.place(self.source))
    }

    /// An error about an expression that is not what it must be.
    pub(super) fn expected(&self, expr: &Expr<'_>, expected: &str) -> Error {
        let span = expr.span();
        self.malformed(span, format!("expected {expected}, found `{}`", span.text(self.source)))
    }
}
