//! Lookup of the paths that name lengths and tags (CTF 1.8.3, 7.3.2).
//!
//! A path that starts with a dynamic scope is absolute. Any other path is relative: its first word is looked for in
//! the structures around the user, from the inside, among the members that come before the user. Like the reference
//! reader, a relative path never leaves the scope of its user.

use std::cell::Cell;

use tracemill_codec::text::{Span, suggest};
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::{FieldPath, PathStep, Scope};

use super::instance::{LookupLevel, Site};
use super::resolve::TsdlResolver;
use super::types::{NamedFields, Reference, TsdlType, TypeKind, TypeRef};

/// The target of a path.
pub(super) struct PathTarget {
    /// The absolute path.
    pub(super) path: FieldPath,
    /// The type there.
    pub(super) ty: TypeRef,
    /// The types there in the other options, where the path goes through the option of a variant that was selected.
    pub(super) others: Vec<TypeRef>,
    /// Where the field is declared.
    pub(super) span: Span,
}

impl PathTarget {
    /// The types of the field, in every option that can have it.
    pub(super) fn types(&self) -> impl Iterator<Item = &TypeRef> {
        std::iter::once(&self.ty).chain(&self.others)
    }
}

/// The words of the dynamic scopes, in the order of [`Scope::ALL`].
pub(crate) const PREFIXES: [(&[&str], Scope); 6] = [
    (&["trace", "packet", "header"], Scope::PacketHeader),
    (&["stream", "packet", "context"], Scope::PacketContext),
    (&["stream", "event", "header"], Scope::EventHeader),
    (&["stream", "event", "context"], Scope::CommonContext),
    (&["event", "context"], Scope::SpecificContext),
    (&["event", "fields"], Scope::Payload),
];

impl TsdlResolver<'_> {
    /// Finds the field that a length or a tag names.
    pub(super) fn find_target(&self, reference: &Reference, site: &Site) -> Result<PathTarget> {
        for (prefix, scope) in PREFIXES {
            let is_prefix = reference.words.len() > prefix.len()
                && prefix.iter().zip(&reference.words).all(|(expected, word)| *expected == &**word);
            if is_prefix {
                return self.absolute_target(reference, prefix.len(), scope, site);
            }
        }
        self.relative_target(reference, site)
    }

    fn absolute_target(&self, reference: &Reference, skip: usize, scope: Scope, site: &Site) -> Result<PathTarget> {
        let text = reference.text();
        if scope > site.scope {
            return Err(self.malformed(reference.span, format!("`{text}` is decoded after its user")));
        }
        let Some(root) = &site.roots[scope as usize] else {
            let scope_text = reference.words[..skip].join(".");
            return Err(self.malformed(reference.span, format!("`{text}`: `{scope_text}` is not declared")));
        };
        let words = &reference.words[skip..];
        let walk = PathWalk { resolver: self, reference, site, scope, left: Cell::new(MAX_WAYS) };
        let Some(target) = walk.down(root, words, Vec::new())? else {
            return Err(self.malformed(reference.span, format!("field `{text}` does not exist")));
        };
        if scope == site.scope && !is_before(&target.path.steps, &site.steps) {
            let message = format!("`{text}` does not come before its user");
            return Err(self.contradiction(reference.span, message, target.span));
        }
        Ok(target)
    }

    fn relative_target(&self, reference: &Reference, site: &Site) -> Result<PathTarget> {
        let walk = PathWalk { resolver: self, reference, site, scope: site.scope, left: Cell::new(MAX_WAYS) };
        for (structure, current, depth) in visible_structs(site) {
            let is_earlier = structure.fields.position(&reference.words[0]).is_some_and(|at| at < current);
            if is_earlier {
                let steps = site.steps[..depth].to_vec();
                if let Some(target) = walk.down_struct(structure, &reference.words, steps)? {
                    return Ok(target);
                }
            }
        }
        Err(self.not_found(reference, site))
    }

    fn not_found(&self, reference: &Reference, site: &Site) -> Error {
        let text = reference.text();
        let first = &*reference.words[0];
        for (structure, ..) in visible_structs(site) {
            let declared = structure.fields.position(first).filter(|_| reference.words.len() == 1);
            if let Some(at) = declared {
                let declared = structure.fields.as_slice()[at].span;
                return self.contradiction(reference.span, format!("`{text}` does not come before its user"), declared);
            }
        }
        let error = self.malformed(reference.span, format!("no field `{text}` before its user"));
        for (prefix, scope) in PREFIXES {
            let root = site.roots[scope as usize].as_ref().filter(|_| scope < site.scope);
            if root.and_then(|ty| ty.as_struct()).is_some_and(|root| root.fields.position(first).is_some()) {
                return error
                    .with_help(format!("a field of another scope needs its full path: `{}.{text}`", prefix.join(".")));
            }
        }
        let names: Vec<&str> = visible_structs(site)
            .flat_map(|(structure, current, _)| structure.fields.as_slice().iter().take(current))
            .map(|field| &*field.raw_name)
            .collect();
        suggest(error, first, names)
    }
}

/// The structures whose members a relative path may start with, from the inside: structure, index of the member that
/// holds the user, steps from the root.
fn visible_structs(site: &Site) -> impl Iterator<Item = (&super::types::StructType, usize, usize)> {
    let mut at = site.frames.len();
    std::iter::from_fn(move || {
        while at > 0 {
            at -= 1;
            match &site.frames[at] {
                LookupLevel::Struct { structure, current, depth } => return Some((&**structure, *current, *depth)),
                // A jump goes outwards: its target is a frame that was there before it.
                LookupLevel::Jump(target) => at = at.min(target + 1),
            }
        }
        None
    })
}

/// Does a field end before the user of the path begins? True when the paths part in a structure, earlier member first.
fn is_before(target: &[PathStep], user: &[PathStep]) -> bool {
    match target.iter().zip(user).find(|(a, b)| a != b) {
        Some((PathStep::Member(a), PathStep::Member(b))) => a < b,
        _ => false,
    }
}

/// Most options of variants that are looked into for one path.
const MAX_WAYS: usize = 10_000;

struct PathWalk<'a> {
    resolver: &'a TsdlResolver<'a>,
    reference: &'a Reference,
    site: &'a Site,
    scope: Scope,
    /// Options of variants that may still be looked into.
    left: Cell<usize>,
}

impl PathWalk<'_> {
    fn down_struct(
        &self,
        structure: &super::types::StructType,
        words: &[std::sync::Arc<str>],
        mut steps: Vec<PathStep>,
    ) -> Result<Option<PathTarget>> {
        let Some(at) = structure.fields.position(&words[0]) else {
            return Ok(None);
        };
        steps.push(PathStep::Member(at as u32));
        let field = &structure.fields.as_slice()[at];
        self.down(&field.ty, &words[1..], steps).map(|found| {
            found.map(|target| if words.len() == 1 { PathTarget { span: field.span, ..target } } else { target })
        })
    }

    /// Follows `words` from a type.
    fn down(
        &self,
        ty: &TypeRef,
        words: &[std::sync::Arc<str>],
        mut steps: Vec<PathStep>,
    ) -> Result<Option<PathTarget>> {
        let mut ty = ty.clone();
        let mut span = self.reference.span;
        let mut words = words;
        let is_selected = steps.iter().any(|step| matches!(step, PathStep::Selected(_)));
        while let [name, rest @ ..] = words {
            let plain: &TsdlType = ty.plain();
            let (fields, step): (_, fn(u32) -> PathStep) = match &plain.kind {
                TypeKind::Struct(structure) => (&structure.fields, PathStep::Member),
                TypeKind::Variant(variant) if is_selected || variant.options.position(name).is_none() => {
                    return self.selected(&variant.options, words, &steps);
                }
                TypeKind::Variant(variant) => (&variant.options, PathStep::Option),
                // Another option may have the field.
                TypeKind::Array(..) | TypeKind::Sequence(..) if is_selected => return Ok(None),
                TypeKind::Array(element, _) | TypeKind::Sequence(element, _) => {
                    self.check_own_array(&steps)?;
                    steps.push(PathStep::Element);
                    ty = element.clone();
                    continue;
                }
                _ => return Ok(None),
            };
            let Some(at) = fields.position(name) else { return Ok(None) };
            steps.push(step(at as u32));
            let field = fields.as_slice()[at].clone();
            (ty, span) = (field.ty, field.span);
            words = rest;
        }
        Ok(Some(PathTarget { path: FieldPath { scope: self.scope, steps }, ty, others: Vec::new(), span }))
    }

    /// Follows `words` into every option of a variant, of which the one that was selected has the field. The path goes
    /// down the first option that can have it.
    fn selected(
        &self,
        options: &NamedFields,
        words: &[std::sync::Arc<str>],
        steps: &[PathStep],
    ) -> Result<Option<PathTarget>> {
        let mut found: Option<PathTarget> = None;
        for (at, option) in options.as_slice().iter().enumerate() {
            let Some(left) = self.left.get().checked_sub(1) else {
                let message = format!("more than {MAX_WAYS} ways through the options of variants");
                return Err(self.resolver.unsupported(self.reference.span, message));
            };
            self.left.set(left);
            let steps = [steps, &[PathStep::Selected(at as u32)]].concat();
            match (self.down(&option.ty, words, steps)?, &mut found) {
                (None, _) => {}
                (Some(target), None) => found = Some(target),
                (Some(target), Some(first)) => {
                    first.others.push(target.ty);
                    first.others.extend(target.others);
                }
            }
        }
        Ok(found)
    }

    /// A path may go through an array only when its user is in the same element.
    fn check_own_array(&self, steps: &[PathStep]) -> Result<()> {
        let own = &self.site.steps;
        let is_own =
            self.scope == self.site.scope && own.starts_with(steps) && own.get(steps.len()) == Some(&PathStep::Element);
        if is_own {
            return Ok(());
        }
        let message = format!("`{}` goes into an array that does not hold its user", self.reference.text());
        Err(self.resolver.unsupported(self.reference.span, message))
    }
}
