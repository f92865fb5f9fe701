//! Paths as columns of a table: the same paths as in conditions, looked up in the same way.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tracemill_codec::text::Span;
use tracemill_format::redact::FieldPlace;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::{EventClassId, FieldClassId, FieldKind, Schema, Scope};

use super::lexer::member_text;
use super::resolve::{self, PathPlace, option_name};
use super::syntax::{Path, PathHead, StepKind, SyntaxStep};
use super::{bind, parser};
use crate::selection::{ClassSet, SelectedStream};
use crate::session::Session;

/// Columns that [`PathColumns::of_all_fields`] gives at most: as many as the sheet of a spreadsheet has. Each event has
/// a cell in each of them.
const MAX_COLUMNS: usize = 16_384;

/// Columns that stand before those of fields.
const FIRST: [&str; 7] = ["trace", "ns", "cycles", "name", "id", "stream", "cpu"];

/// A list of paths as it is written, with commas between them; commas in backquotes belong to a name.
#[derive(Clone, Debug)]
pub struct ColumnList {
    source: Arc<str>,
    columns: PathColumns,
}

/// Columns that every trace of a session can be asked for. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PathColumns(Arc<[PathColumn]>);

#[derive(Clone, Debug)]
struct PathColumn {
    /// The path as it was typed, or the name of the column.
    text: String,
    path: Path,
    part: ColumnPart,
}

/// The part of a value that a column shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnPart {
    /// All of it: an enumeration is a number with its labels, a structure has its members.
    Whole,
    /// The value of a field without others below it; an enumeration or a bit map is its number.
    Value,
    /// The labels of an enumeration.
    Labels,
    /// The flags of a bit map.
    Flags,
}

impl ColumnList {
    /// Reads a list.
    ///
    /// # Errors
    /// When the text is no list of paths, with the place in it and what was expected there.
    pub fn parse(text: &str) -> Result<ColumnList> {
        let paths = parser::parse_paths(text)?.into_iter();
        let columns =
            paths.map(|path| PathColumn { text: path.span.text(text).to_string(), path, part: ColumnPart::Whole });
        Ok(ColumnList { source: text.into(), columns: PathColumns(columns.collect()) })
    }

    /// Looks every path up in every event class of the session. Takes time in the product of both.
    ///
    /// # Errors
    /// When no event class has a path, with the place in the list. A session without any event class accepts
    /// every list.
    pub fn bind(&self, session: &Session) -> Result<PathColumns> {
        let paths: Vec<Path> = self.columns.0.iter().map(|column| column.path.clone()).collect();
        bind::check_paths(&self.source, &paths, session)?;
        Ok(self.columns.clone())
    }
}

impl PathColumns {
    /// The paths as they were typed.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|column| &*column.text)
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(|column| &column.path)
    }

    /// The fields of a trace that the paths name, to be `anonymised` or `dropped`. Only contexts and payloads have such.
    ///
    /// # Errors
    /// When a path names something else.
    pub fn fields(&self, schema: &Schema, action: &str) -> Result<Vec<FieldPlace>> {
        let mut fields = Vec::new();
        for class in (0..schema.events().len()).map(|at| EventClassId(at as u32)) {
            for (place, name) in self.places(schema, class).iter().zip(self.names()) {
                let wrong = |what: &str| {
                    let error = Error::misuse(format!("`{name}` is {what}, and cannot be {action}"));
                    error.with_help("fields of contexts and payloads can")
                };
                match place {
                    PathPlace::Absent => {}
                    PathPlace::Spine(_) => return Err(wrong("not a field")),
                    PathPlace::Field(field) if field.scope < Scope::CommonContext => {
                        return Err(wrong("in a header or in the context of packets"));
                    }
                    PathPlace::Field(field) => {
                        let Some(children) = field.children() else { return Err(wrong("an element of an array")) };
                        fields.push(FieldPlace { class, scope: field.scope, children });
                    }
                }
            }
        }
        Ok(fields)
    }

    /// The columns of all fields of the events that may come from `streams` and are of the wanted `classes` of each trace
    /// (all classes of a trace without an entry): first time, name and numbers of the event, then each field without
    /// others below it, by its path. Arrays are one field. An enumeration has a second column for its labels
    /// (`PATH_label`), a bit map one for its flags (`PATH_flags`), with underscores after them if the name is taken. They
    /// are in the order in which the event classes declare them.
    ///
    /// # Errors
    /// When there are more than 16,384 columns.
    pub fn of_all_fields(
        session: &Session,
        streams: &[SelectedStream],
        classes: &[Option<Arc<ClassSet>>],
    ) -> Result<PathColumns> {
        let mut scopes = PathHead::SCOPES.map(|scope| (scope, FoundFields::default()));
        for (at, trace) in session.traces.iter().enumerate() {
            let schema = &*trace.schema;
            let read: HashSet<_> = streams.iter().filter(|of| of.trace == at).map(|of| of.stream.class).collect();
            let wanted = classes.get(at).and_then(Option::as_ref);
            for (scope, found) in &mut scopes {
                // Classes share the contexts of their stream.
                let mut seen = HashSet::new();
                for (number, class) in schema.events().iter().enumerate() {
                    let is_wanted = wanted.is_none_or(|classes| classes.has(number as u32));
                    if !is_wanted || !read.contains(&class.stream) {
                        continue;
                    }
                    let root = schema.scope_root(*scope, EventClassId(number as u32));
                    if let Some(root) = root.filter(|root| seen.insert(*root)) {
                        let mut left = MAX_COLUMNS;
                        found.add(schema, root, &mut Vec::new(), &mut left)?;
                    }
                }
            }
        }
        let mut columns: Vec<PathColumn> = FIRST
            .iter()
            .filter_map(|word| {
                let path = Path { head: PathHead::parse(word)?, steps: Vec::new(), span: Span::default() };
                Some(PathColumn { text: word.to_string(), path, part: ColumnPart::Whole })
            })
            .collect();
        let fields = || scopes.iter().flat_map(|(scope, found)| found.fields.iter().map(|field| (*scope, field)));
        let mut taken: HashSet<String> = fields().map(|(scope, field)| field.text(scope, "")).collect();
        for (scope, field) in fields() {
            let parts = [
                (ColumnPart::Value, "", true),
                (ColumnPart::Labels, "_label", field.has_labels),
                (ColumnPart::Flags, "_flags", field.has_flags),
            ];
            for (part, ending, _) in parts.into_iter().filter(|(.., is_there)| *is_there) {
                let mut text = field.text(scope, ending);
                let mut longer = ending.to_string();
                while part != ColumnPart::Value && !taken.insert(text.clone()) {
                    longer.push('_');
                    text = field.text(scope, &longer);
                }
                columns.push(PathColumn { text, path: field.path(scope), part });
            }
        }
        if columns.len() > MAX_COLUMNS { Err(too_many()) } else { Ok(PathColumns(columns.into())) }
    }

    /// The part of its value that a column shows.
    #[inline]
    pub fn part(&self, column: usize) -> ColumnPart {
        self.0[column].part
    }

    /// Where the values are in the events of a class.
    pub fn places(&self, schema: &Schema, class: EventClassId) -> Vec<PathPlace> {
        self.0.iter().map(|column| column.place(schema, class)).collect()
    }

    /// The columns whose values are in the packet context of the events of a class, with their places.
    pub fn places_in_packet(
        &self,
        schema: &Schema,
        class: EventClassId,
    ) -> impl Iterator<Item = (usize, super::resolve::FieldPlace)> {
        // Most columns name their scope: they need not be looked up.
        let may_be = |head| !matches!(head, PathHead::Scope(scope) if scope != Scope::PacketContext);
        let columns = self.0.iter().enumerate().filter(move |(_, column)| may_be(column.path.head));
        columns.filter_map(move |(at, column)| match column.place(schema, class) {
            PathPlace::Field(place) if place.scope == Scope::PacketContext => Some((at, place)),
            _ => None,
        })
    }
}

impl PathColumn {
    fn place(&self, schema: &Schema, class: EventClassId) -> PathPlace {
        let place = resolve::resolve(schema, class, &self.path).unwrap_or(PathPlace::Absent);
        let PathPlace::Field(field) = &place else { return place };
        // A path may name another kind of field in another class.
        let kind = &schema.field_class(field.class).kind;
        let is_shown = match self.part {
            ColumnPart::Whole => true,
            ColumnPart::Value => is_leaf(kind),
            ColumnPart::Labels => has_labels(kind),
            ColumnPart::Flags => matches!(kind, FieldKind::BitMap(_)),
        };
        if is_shown { place } else { PathPlace::Absent }
    }
}

/// The fields of a scope, in the order in which they were found.
#[derive(Default)]
struct FoundFields {
    fields: Vec<FoundField>,
    /// By the names on the way to them.
    known: HashMap<Vec<Arc<str>>, usize>,
}

/// A field, with the kinds of names that its numbers have in any class.
struct FoundField {
    names: Vec<Arc<str>>,
    has_labels: bool,
    has_flags: bool,
}

impl FoundFields {
    /// Adds the fields below a class, of which at most `left` are visited.
    fn add(
        &mut self,
        schema: &Schema,
        mut class: FieldClassId,
        names: &mut Vec<Arc<str>>,
        left: &mut usize,
    ) -> Result<()> {
        while let FieldKind::Optional(optional) = &schema.field_class(class).kind {
            class = optional.content;
        }
        let kind = &schema.field_class(class).kind;
        let below: Vec<(Arc<str>, FieldClassId)> = match kind {
            // The key of an empty scope says nothing that its events could differ in.
            FieldKind::Struct(structure) if structure.members.is_empty() && names.is_empty() => return Ok(()),
            _ if is_leaf(kind) => {
                *left = left.checked_sub(1).ok_or_else(too_many)?;
                return self.add_leaf(kind, names);
            }
            FieldKind::Struct(structure) => {
                structure.members.iter().map(|member| (member.name.clone(), member.class)).collect()
            }
            FieldKind::Variant(variant) => {
                let options = variant.options.iter().enumerate();
                options.map(|(at, option)| (option_name(at, option), option.class)).collect()
            }
            _ => return Ok(()),
        };
        for (name, class) in below {
            names.push(name);
            self.add(schema, class, names, left)?;
            names.pop();
        }
        Ok(())
    }

    fn add_leaf(&mut self, kind: &FieldKind, names: &[Arc<str>]) -> Result<()> {
        let at = match self.known.get(names) {
            Some(&at) => at,
            None if self.fields.len() >= MAX_COLUMNS => return Err(too_many()),
            None => {
                self.known.insert(names.to_vec(), self.fields.len());
                self.fields.push(FoundField { names: names.to_vec(), has_labels: false, has_flags: false });
                self.fields.len() - 1
            }
        };
        self.fields[at].has_labels |= has_labels(kind);
        self.fields[at].has_flags |= matches!(kind, FieldKind::BitMap(_));
        Ok(())
    }
}

impl FoundField {
    /// The path as it is typed, with an ending of the last name.
    fn text(&self, scope: Scope, ending: &str) -> String {
        let Some((last, names)) = self.names.split_last() else { return format!("{}{ending}", scope.key()) };
        let mut text = scope.key().to_string();
        for name in names {
            text += &format!(".{}", member_text(name));
        }
        text + &format!(".{}", member_text(&format!("{last}{ending}")))
    }

    fn path(&self, scope: Scope) -> Path {
        let step = |name: &Arc<str>| SyntaxStep { kind: StepKind::Member(name.clone()), span: Span::default() };
        Path { head: PathHead::Scope(scope), steps: self.names.iter().map(step).collect(), span: Span::default() }
    }
}

/// Is it a field that a column shows as one value?
fn is_leaf(kind: &FieldKind) -> bool {
    match kind {
        FieldKind::Struct(structure) => structure.members.is_empty() || structure.is_tuple(),
        FieldKind::Variant(variant) => variant.options.is_empty(),
        _ => true,
    }
}

fn has_labels(kind: &FieldKind) -> bool {
    matches!(kind, FieldKind::Integer(integer) if integer.mappings.is_some())
}

fn too_many() -> Error {
    let error = Error::misuse("the selected events have too many fields: `all` gives at most 16384 columns");
    error.with_help("choose columns with --columns PATH,... or fewer events with --filter")
}
