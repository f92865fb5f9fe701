//! Field locations: how a field class says which field holds its length or its selector (CTF 2, 5.3.1 and 6.4.2).
//!
//! The reader of CTF 2 may look for the field while it decodes. Here it is found once, when the schema is made, in the
//! same way: the classes that are being made stand for the fields that are being decoded, and those that are done for
//! the fields that are decoded already. What is found is an absolute [`FieldPath`].

use std::collections::HashMap;
use std::sync::Arc;

use tracemill_codec::text::Span;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::{FieldClassId, FieldKind, FieldPath, Member, PathStep, Schema, Scope};

use super::json::{JsonKind, JsonValue};
use super::object::{Object, array, mismatch};
use super::words::{quoted, suggest};
use crate::metadata_text::MetadataText;

/// A location as written.
#[derive(Debug)]
pub(super) struct Location {
    /// The JSON object.
    pub(super) span: Span,
    origin: Option<(Scope, Span)>,
    path: Vec<LocationElement>,
}

#[derive(Clone, Debug)]
struct LocationElement {
    span: Span,
    /// Name of a member; `None` is the parent structure.
    name: Option<Arc<str>>,
}

/// The scopes as the metadata writes them, in their order.
const ORIGINS: [(&str, Scope); 6] = [
    ("packet-header", Scope::PacketHeader),
    ("packet-context", Scope::PacketContext),
    ("event-record-header", Scope::EventHeader),
    ("event-record-common-context", Scope::CommonContext),
    ("event-record-specific-context", Scope::SpecificContext),
    ("event-record-payload", Scope::Payload),
];

/// The scope as the metadata writes it.
pub(crate) fn origin_text(scope: Scope) -> &'static str {
    ORIGINS[scope as usize].0
}

impl Location {
    /// Reads a location.
    pub(super) fn read<'v>(source: &'v MetadataText<'v>, value: &'v JsonValue<'v>) -> Result<Location> {
        if let JsonKind::Array(elements) = &value.kind {
            return Location::read_candidate(source, value.span, elements);
        }
        let object = Object::new(source, value, "a field location")?;
        object.check_properties(&["origin", "path"])?;
        let origin = match object.word("origin", &ORIGINS)? {
            Some(scope) => Some((scope, object.required("origin")?.span)),
            None => None,
        };
        let path_value = object.required("path")?;
        let path = array(source, "path", path_value)?
            .iter()
            .map(|element| match &element.kind {
                JsonKind::Null => Ok(LocationElement { span: element.span, name: None }),
                JsonKind::String(name) => Ok(LocationElement { span: element.span, name: Some(name.as_ref().into()) }),
                _ => Err(mismatch(source, "path", element, "a string or `null`")),
            })
            .collect::<Result<Vec<_>>>()?;
        match path.last() {
            None => Err(path_value.span.malformed(source, "the path of a field location is empty")),
            Some(LocationElement { name: None, span }) => {
                Err(span.malformed(source, "the path of a field location ends with `null`, expected a member name"))
            }
            Some(_) => Ok(Location { span: value.span, origin, path }),
        }
    }

    /// Reads a location of the release candidates: the origin and the names of members in one array.
    fn read_candidate<'v>(source: &'v MetadataText<'v>, span: Span, elements: &'v [JsonValue<'v>]) -> Result<Location> {
        source.candidate(span, "a field location that is an array")?;
        let [first, path @ ..] = elements else {
            return Err(span.malformed(source, "a field location is empty"));
        };
        let name_of = |element: &'v JsonValue<'v>| match &element.kind {
            JsonKind::String(name) => Ok(&**name),
            _ => Err(mismatch(source, "field location", element, "a string")),
        };
        let origin = name_of(first)?;
        let Some(&(_, scope)) = ORIGINS.iter().find(|(name, _)| *name == origin) else {
            let error = first.span.malformed(source, format!("unknown origin {} of a field location", quoted(origin)));
            return Err(suggest(error, origin, ORIGINS.iter().map(|&(name, _)| name)));
        };
        if path.is_empty() {
            return Err(span.malformed(source, "a field location names no member"));
        }
        let path = path
            .iter()
            .map(|element| Ok(LocationElement { span: element.span, name: Some(name_of(element)?.into()) }))
            .collect::<Result<Vec<_>>>()?;
        Ok(Location { span, origin: Some((scope, first.span)), path })
    }

    /// Removes the members of the location that `null` leaves again.
    fn without_detours(&self) -> Location {
        let mut path: Vec<LocationElement> = Vec::with_capacity(self.path.len());
        for element in &self.path {
            match (&element.name, path.last()) {
                (None, Some(LocationElement { name: Some(_), .. })) => drop(path.pop()),
                _ => path.push(element.clone()),
            }
        }
        Location { span: self.span, origin: self.origin, path }
    }
}

impl Location {
    /// Is it the member of this name of the structure around the field?
    pub(super) fn is_sibling(&self, name: &str) -> bool {
        self.origin.is_none()
            && matches!(self.path.as_slice(), [LocationElement { name: Some(of), .. }] if **of == *name)
    }
}

/// A class that is being made, and so a field that is being decoded.
#[derive(Debug)]
pub(super) enum OpenClass<'n> {
    Struct {
        /// Names of all members and their indexes.
        names: &'n HashMap<Arc<str>, u32>,
        /// Members that are done. The next one is being made.
        done: Vec<Member>,
    },
    /// The element of an array.
    Element,
    /// An option of a variant.
    Option(u32),
    /// The content of an optional.
    Content,
}

impl OpenClass<'_> {
    fn step(&self) -> PathStep {
        match self {
            OpenClass::Struct { done, .. } => PathStep::Member(done.len() as u32),
            OpenClass::Element => PathStep::Element,
            OpenClass::Option(index) => PathStep::Option(*index),
            OpenClass::Content => PathStep::Content,
        }
    }
}

/// Member names of large structures that locations went through, so that many locations into one take linear time.
#[derive(Debug, Default)]
pub(super) struct NameIndex(HashMap<FieldClassId, HashMap<Arc<str>, u32>>);

/// Structures with fewer members are searched one by one.
const LARGE_STRUCT: usize = 24;

impl NameIndex {
    fn find(&mut self, id: FieldClassId, members: &[Member], name: &str) -> Option<u32> {
        if members.len() < LARGE_STRUCT {
            return members.iter().position(|member| &*member.raw_name == name).map(|index| index as u32);
        }
        let names = self.0.entry(id).or_insert_with(|| {
            members.iter().enumerate().map(|(index, member)| (Arc::clone(&member.raw_name), index as u32)).collect()
        });
        names.get(name).copied()
    }
}

/// Surroundings in which a location is resolved.
pub(super) struct LocationResolver<'r, 'n> {
    pub(super) source: &'r MetadataText<'r>,
    pub(super) schema: &'r Schema,
    pub(super) index: &'r mut NameIndex,
    /// Root classes of the scopes that are decoded before.
    pub(super) roots: &'r [Option<FieldClassId>; 6],
    /// The scope that is being made.
    pub(super) scope: Scope,
    /// From the scope's root down to the user of the location.
    pub(super) frames: &'r [OpenClass<'n>],
}

/// A field on the way.
#[derive(Clone, Copy)]
enum At {
    /// A structure that is being decoded: its frame.
    Open(usize),
    /// A field that is decoded.
    Done(FieldClassId),
    /// A variant that is decoded: the option that was selected is not known here.
    Variant(FieldClassId),
}

/// A field on the way, and how many steps of the path lead to it.
#[derive(Clone, Copy)]
struct Stop {
    at: At,
    len: usize,
}

impl LocationResolver<'_, '_> {
    /// Finds the field: its absolute path and its class, or its classes when the path goes through the selected option of
    /// a variant.
    ///
    /// A member that `null` leaves again need not exist: that is read with a warning.
    pub(super) fn resolve(&mut self, location: &Location) -> Result<(FieldPath, Vec<FieldClassId>)> {
        let error = match self.follow(location) {
            Err(error) if location.path.iter().any(|element| element.name.is_none()) => error,
            result => return result,
        };
        match self.follow(&location.without_detours()) {
            Ok(found) => {
                self.source.tolerate(|| error, || "`null` leaves it again, so the path is read without both".into())?;
                Ok(found)
            }
            Err(_) => Err(error),
        }
    }

    fn follow(&mut self, location: &Location) -> Result<(FieldPath, Vec<FieldClassId>)> {
        let (scope, first) = self.start(location)?;
        let mut steps: Vec<PathStep> = match first {
            At::Open(frame) => self.frames[..frame].iter().map(OpenClass::step).collect(),
            At::Done(_) | At::Variant(_) => Vec::new(),
        };
        // The structures on the way down, for `null`.
        let mut trail = vec![Stop { at: first, len: steps.len() }];
        let mut found = None;
        for (position, element) in location.path.iter().enumerate() {
            let is_last = position + 1 == location.path.len();
            let Some(name) = &element.name else {
                let here = trail.pop().expect("the trail is never empty here");
                if trail.is_empty() {
                    trail.push(self.parent(here, element.span)?);
                }
                steps.truncate(trail[trail.len() - 1].len);
                continue;
            };
            let here = trail[trail.len() - 1];
            let at = match here.at {
                At::Open(frame) => self.down_open(frame, name, element.span, &mut steps)?,
                At::Done(id) => self.down_done(id, name, element.span, &mut steps)?,
                At::Variant(_) => unreachable!("a path ends with what is in a variant"),
            };
            if let At::Variant(id) = at {
                let found = self.selected(id, &location.path[position..], &mut steps)?;
                return Ok((FieldPath { scope, steps }, found));
            }
            let is_struct = match at {
                At::Open(_) => true,
                At::Done(id) => matches!(self.schema.field_class(id).kind, FieldKind::Struct(_)),
                At::Variant(_) => false,
            };
            match at {
                At::Done(id) if is_last => found = Some(id),
                _ if is_last => return Err(self.error(element.span, "the field location leads to a structure")),
                _ if is_struct => trail.push(Stop { at, len: steps.len() }),
                _ => {
                    let message = format!("{} is not a structure, but the path goes on", quoted(name));
                    return Err(self.error(element.span, message));
                }
            }
        }
        let found = found.expect("the last element of a path is a name");
        Ok((FieldPath { scope, steps }, vec![found]))
    }

    /// Finds the field at the end of a path in each option of a variant, whose name is the first of `elements`. The steps
    /// go down the first option that has it.
    fn selected(
        &self,
        variant: FieldClassId,
        elements: &[LocationElement],
        steps: &mut Vec<PathStep>,
    ) -> Result<Vec<FieldClassId>> {
        let mut names: Vec<&str> = Vec::new();
        for element in &elements[1..] {
            match &element.name {
                Some(name) => names.push(name),
                None if names.pop().is_some() => {}
                None => {
                    return Err(self.error(element.span, "`null` leads out of a variant that the path has gone into"));
                }
            }
        }
        let mut search =
            Selected { schema: self.schema, way: Vec::new(), first: None, found: Vec::new(), left: MAX_WAYS };
        let last = elements.last().map_or(elements[0].span, |element| element.span);
        if !search.down(variant, &names) {
            return Err(
                last.unsupported(self.source, format!("more than {MAX_WAYS} ways through the options of variants"))
            );
        }
        let Some(first) = search.first else {
            return Err(self.error(last, "no option of the variant has a field at the end of this path"));
        };
        steps.extend(first);
        Ok(search.found)
    }

    fn start(&self, location: &Location) -> Result<(Scope, At)> {
        let Some((scope, span)) = location.origin else {
            let frame = self.frames.iter().rposition(|frame| matches!(frame, OpenClass::Struct { .. }));
            return Ok((self.scope, At::Open(frame.expect("the root of every scope is a structure"))));
        };
        if scope == self.scope {
            return Ok((scope, At::Open(0)));
        }
        let name = origin_text(scope);
        if scope > self.scope {
            return Err(self.error(span, format!("origin `{name}` is decoded after the `{}`", origin_text(self.scope))));
        }
        match self.roots[scope as usize] {
            Some(root) => Ok((scope, At::Done(root))),
            None => Err(self.error(span, format!("origin `{name}` has no field class here"))),
        }
    }

    /// The structure around an open structure at the beginning of a path.
    fn parent(&self, here: Stop, span: Span) -> Result<Stop> {
        let frame = match here.at {
            At::Open(frame) => self.frames[..frame].iter().rposition(|frame| matches!(frame, OpenClass::Struct { .. })),
            At::Done(_) | At::Variant(_) => None,
        };
        // A frame has one step, so the number of frames above is the length of the path.
        frame
            .map(|frame| Stop { at: At::Open(frame), len: frame })
            .ok_or_else(|| self.error(span, "`null` asks for the parent of a root structure"))
    }

    /// Goes to a member of a structure that is being decoded.
    fn down_open(&self, frame: usize, name: &str, span: Span, steps: &mut Vec<PathStep>) -> Result<At> {
        let OpenClass::Struct { names, done } = &self.frames[frame] else {
            unreachable!("only structures are kept as open stops");
        };
        let Some(&index) = names.get(name) else {
            return Err(self.unknown_member(name, span, names.keys().map(|name| &**name)));
        };
        steps.push(PathStep::Member(index));
        if let Some(member) = done.get(index as usize) {
            return self.through(member.class, name, span, steps);
        }
        if index as usize > done.len() {
            return Err(self.error(span, format!("{} is decoded after the field that needs it", quoted(name))));
        }
        // The member holds the user of the location: go down to the next structure that does.
        for (below, inner) in self.frames.iter().enumerate().skip(frame + 1) {
            if matches!(inner, OpenClass::Struct { .. }) {
                return Ok(At::Open(below));
            }
            steps.push(inner.step());
        }
        Err(self.error(span, format!("{} is the field that needs the location", quoted(name))))
    }

    /// Goes to a member of a structure that is decoded.
    fn down_done(&mut self, id: FieldClassId, name: &str, span: Span, steps: &mut Vec<PathStep>) -> Result<At> {
        let FieldKind::Struct(class) = &self.schema.field_class(id).kind else {
            unreachable!("only structures are kept as stops");
        };
        let Some(index) = self.index.find(id, &class.members, name) else {
            return Err(self.unknown_member(name, span, class.members.iter().map(|member| &*member.name)));
        };
        steps.push(PathStep::Member(index));
        self.through(class.members[index as usize].class, name, span, steps)
    }

    /// Goes through the optionals around a field that is decoded.
    fn through(&self, mut id: FieldClassId, name: &str, span: Span, steps: &mut Vec<PathStep>) -> Result<At> {
        loop {
            match &self.schema.field_class(id).kind {
                FieldKind::Optional(class) => {
                    steps.push(PathStep::Content);
                    id = class.content;
                }
                FieldKind::Array(_) => {
                    let message = format!(
                        "{} is an array that is no longer being decoded, so it has no current element",
                        quoted(name)
                    );
                    return Err(self.error(span, message));
                }
                FieldKind::Variant(_) => return Ok(At::Variant(id)),
                _ => return Ok(At::Done(id)),
            }
        }
    }

    fn unknown_member<'c>(&self, name: &str, span: Span, names: impl Iterator<Item = &'c str>) -> Error {
        suggest(self.error(span, format!("no member named {} in the structure", quoted(name))), name, names)
    }

    fn error(&self, span: Span, message: impl Into<String>) -> Error {
        span.malformed(self.source, message)
    }
}

/// Most ways through the options of variants which are looked at for one location.
const MAX_WAYS: usize = 10_000;

/// The search for a field in all options of a variant.
struct Selected<'s> {
    schema: &'s Schema,
    way: Vec<PathStep>,
    first: Option<Vec<PathStep>>,
    found: Vec<FieldClassId>,
    /// Classes that may still be looked at.
    left: usize,
}

impl Selected<'_> {
    /// Looks for the field that is reached by names from a class on; false when that is too much.
    fn down(&mut self, id: FieldClassId, names: &[&str]) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        let schema = self.schema;
        match (&schema.field_class(id).kind, names) {
            (FieldKind::Variant(class), _) => class
                .options
                .iter()
                .enumerate()
                .all(|(at, option)| self.inside(PathStep::Selected(at as u32), option.class, names)),
            (FieldKind::Optional(class), _) => self.inside(PathStep::Content, class.content, names),
            (FieldKind::Struct(class), [name, rest @ ..]) => {
                let found = class.members.iter().position(|member| &*member.name == *name);
                found.is_none_or(|at| self.inside(PathStep::Member(at as u32), class.members[at].class, rest))
            }
            // The end of the path, or a dead end: who selects this option does not have the field.
            (FieldKind::Array(_), _) => true,
            (_, []) => {
                self.first.get_or_insert_with(|| self.way.clone());
                self.found.push(id);
                true
            }
            _ => true,
        }
    }

    fn inside(&mut self, step: PathStep, id: FieldClassId, names: &[&str]) -> bool {
        self.way.push(step);
        let is_done = self.down(id, names);
        self.way.pop();
        is_done
    }
}

#[cfg(test)]
mod tests {
    use super::super::json;
    use super::*;

    fn read(text: &str) -> Result<Location> {
        let source = MetadataText::new(text, true);
        let value = json::parse(&source, Span::new(0, text.len()), 1).unwrap();
        Location::read(&source, &value)
    }

    #[test]
    fn locations_have_an_origin_and_a_path() {
        let location = read(r#"{"origin": "packet-context", "path": [null, "a"]}"#).unwrap();
        assert_eq!(location.origin.map(|(scope, _)| scope), Some(Scope::PacketContext));
        assert_eq!(location.path[0].name, None);
        assert_eq!(location.path[1].name.as_deref(), Some("a"));
        for scope in Scope::ALL {
            assert!(ORIGINS.iter().any(|&(name, origin)| origin == scope && name == origin_text(scope)));
        }
    }

    #[test]
    fn broken_locations_are_refused_where_they_break() {
        for (text, column, message) in [
            (r#"{"path": []}"#, 10, "the path of a field location is empty"),
            (r#"{"path": ["a", null]}"#, 16, "the path of a field location ends with `null`, expected a member name"),
            (r#"{"path": [3]}"#, 11, "property `path` is the integer `3`, expected a string or `null`"),
            (r#"{"origin": "packet-header"}"#, 1, "a field location has no property `path`, which is required"),
            (r#"["a"]"#, 1, "a field location that is an array: metadata of a release candidate of CTF 2"),
            (r#"7"#, 1, "expected a field location (an object), found the integer `7`"),
        ] {
            let error = read(text).unwrap_err();
            assert_eq!((error.place().text.as_ref().unwrap().column, error.message()), (column, message));
        }
        let error = read(r#"{"origin": "packet-contex", "path": ["a"]}"#).unwrap_err();
        assert_eq!(error.help(), Some("did you mean `packet-context`?"));
    }
}
