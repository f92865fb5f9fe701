//! Concepts: events of kernels, whatever a tracer calls them. The table is `concepts.txt`; users may put lines before it.

use std::path::Path;
use std::sync::Arc;

use tracemill_codec::text::pattern::Pattern;
use tracemill_codec::text::{Span, suggest};
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::{EnvValue, EventClassId, FieldPath, Schema, Scope};

use crate::built_in;
use crate::fields::member;
use crate::recording::Recording;
use crate::vocabulary::{Concept, Field};

/// Lines that tie events to concepts, the first ones before the others.
#[derive(Clone, Debug, Default)]
pub struct Concepts {
    lines: Vec<ConceptLine>,
    /// Do the lines that are built in stand after them?
    has_built_in: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct ConceptLine {
    concept: Concept,
    events: Vec<Name>,
    fields: Vec<RequestedField>,
    is_legacy: bool,
}

/// A name of events, with globs.
#[derive(Clone, Debug)]
struct Name {
    text: String,
    glob: Option<Pattern>,
}

#[derive(Clone, Debug)]
struct RequestedField {
    field: Field,
    is_optional: bool,
    from: From,
}

#[derive(Clone, Debug)]
enum From {
    /// The first path that exists.
    Paths(Vec<NamedPath>),
    /// The text that a glob stands for.
    Glob,
    /// A text.
    Text(Arc<str>),
}

/// A path as it is written: where, and the member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedPath {
    /// Where it is looked for; nowhere in the event, if it is a key of the environment.
    pub scopes: &'static [Scope],
    /// The name of the member, or the key.
    pub name: String,
}

/// A line's statement about an event class; `P` is the place of a field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tie<P = FieldPath> {
    /// The concept.
    pub concept: Concept,
    /// The fields of the concept that the class has.
    pub fields: Vec<(Field, Origin<P>)>,
    /// Do the rules of the kernels apply that LTTng 0.x and the markers of 2.x record?
    pub is_legacy: bool,
}

/// Where the value of a field comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin<P = FieldPath> {
    /// From a field of the event.
    Field(P),
    /// From the name of the event, from the table, or from the environment of the trace.
    Text(Arc<str>),
}

impl<P> Tie<P> {
    /// Origin of a field.
    pub fn origin(&self, field: Field) -> Option<&Origin<P>> {
        self.fields.iter().find(|(own, _)| *own == field).map(|(_, origin)| origin)
    }

    /// Place in the event of a field.
    pub fn field(&self, field: Field) -> Option<&P> {
        match self.origin(field)? {
            Origin::Field(place) => Some(place),
            Origin::Text(_) => None,
        }
    }
}

/// The table that is built in, as text.
pub const TEXT: &str = include_str!("concepts.txt");

const PAYLOAD: &[Scope] = &[Scope::Payload];
const CONTEXTS: &[Scope] = &[Scope::CommonContext, Scope::SpecificContext, Scope::PacketContext];
const HEADER: &[Scope] = &[Scope::EventHeader];
const ENVIRONMENT: &[Scope] = &[];

impl Concepts {
    /// The table that is built in.
    pub fn built_in() -> &'static Concepts {
        static TABLE: Concepts = Concepts { lines: Vec::new(), has_built_in: true };
        &TABLE
    }

    /// Reads lines in the form of [`TEXT`].
    ///
    /// ```
    /// use tracemill_semantics::{Concept, Concepts};
    ///
    /// assert!(Concepts::parse("wake my_wakeup tid=who").is_ok());
    /// let error = Concepts::parse("# mine\nwoke my_wakeup tid=who").unwrap_err();
    /// assert_eq!(error.message(), "`woke` is not a concept");
    /// ```
    ///
    /// # Errors
    /// When a line is not in that form, with its place in the text.
    pub fn parse(text: &str) -> Result<Concepts> {
        let mut lines = Vec::new();
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let content = &line[..line.find('#').unwrap_or(line.len())];
            lines.extend(read_line(text, content, start)?);
            start += line.len();
        }
        Ok(Concepts { lines, has_built_in: false })
    }

    /// Reads the lines of a file, and puts those that are built in after them.
    ///
    /// # Errors
    /// As [`Concepts::parse`], with the name of the file.
    pub fn with_built_in(file: &Path, text: &str) -> Result<Concepts> {
        let own = Concepts::parse(text).map_err(|error| error.in_file(file))?;
        Ok(Concepts { has_built_in: true, ..own })
    }

    /// The concept of an event of this name, when `place` finds the fields that it needs. A concept that contexts have beside
    /// another one is no answer.
    pub fn find<P>(&self, event: &str, place: impl Fn(&NamedPath) -> Option<P>) -> Option<Tie<P>> {
        self.first(&[event], false, place, |_| None)
    }

    /// The concept of an event class. Reads the table: ask once for a class.
    pub fn tie(&self, schema: &Schema, class: EventClassId) -> Option<Tie> {
        self.find_in_class(schema, class, false)
    }

    /// The context of an event class that names the thread that runs.
    pub fn running(&self, schema: &Schema, class: EventClassId) -> Option<Tie> {
        self.find_in_class(schema, class, true)
    }

    fn find_in_class(&self, schema: &Schema, class: EventClassId, is_running: bool) -> Option<Tie> {
        let name = schema.event(class).name.as_deref().unwrap_or_default();
        // Programs name their events themselves: what stands before the colon is a part of the name.
        let is_of_kernel = Recording::from_schema(schema).domain != Some("ust");
        let short = name.rsplit(':').next().filter(|_| is_of_kernel).unwrap_or(name);
        let names: &[&str] = if short == name { &[name] } else { &[name, short] };
        let place = |named: &NamedPath| {
            let find = |scope: &Scope| member(schema, *scope, schema.scope_root(*scope, class), &named.name);
            named.scopes.iter().find_map(find)
        };
        self.first(names, is_running, place, |key| match schema.env(key)? {
            EnvValue::Integer(value) => Some(value.to_string().into()),
            EnvValue::String(text) => Some((&**text).into()),
        })
    }

    fn first<P>(
        &self,
        names: &[&str],
        is_running: bool,
        place: impl Fn(&NamedPath) -> Option<P>,
        env: impl Fn(&str) -> Option<Arc<str>>,
    ) -> Option<Tie<P>> {
        let own = self.lines.iter().find_map(|line| line.tie(names, is_running, &place, &env));
        own.or_else(|| {
            let mut built_in = self.has_built_in.then(|| built_in::find_lines(names, is_running))?;
            built_in.find_map(|line| line.tie(names, is_running, &place, &env))
        })
    }

    /// Events of the table that a concept is tied to, as they are written, and without those of legacy tracers.
    pub fn events(&self, concept: Concept) -> impl Iterator<Item = &str> {
        let built_in = self.has_built_in.then(built_in::lines).into_iter().flatten().map(|line: &ConceptLine| line);
        let lines = self.lines.iter().chain(built_in).filter(move |line| line.concept == concept && !line.is_legacy);
        lines.flat_map(|line| line.events.iter().map(|name| &*name.text))
    }
}

impl ConceptLine {
    /// Its meaning for events of these names, of which the first one that fits counts.
    fn tie<P>(
        &self,
        names: &[&str],
        is_running: bool,
        place: impl Fn(&NamedPath) -> Option<P>,
        env: impl Fn(&str) -> Option<Arc<str>>,
    ) -> Option<Tie<P>> {
        if (self.concept == Concept::Running) != is_running {
            return None;
        }
        let fitting = |own| Some((own, *names.iter().find(|name| Name::fits(own, name))?));
        let (own, name) = self.events.iter().find_map(fitting)?;
        let mut fields = Vec::new();
        for wanted in &self.fields {
            let origin = match &wanted.from {
                From::Paths(paths) => paths.iter().find_map(|path| match path.scopes {
                    ENVIRONMENT => env(&path.name).map(Origin::Text),
                    _ => place(path).map(Origin::Field),
                }),
                From::Glob => Some(Origin::Text(own.stands_for(name).into())),
                From::Text(text) => Some(Origin::Text(text.clone())),
            };
            match origin {
                Some(origin) => fields.push((wanted.field, origin)),
                None if wanted.is_optional => {}
                None => return None,
            }
        }
        Some(Tie { concept: self.concept, fields, is_legacy: self.is_legacy })
    }
}

impl Name {
    fn fits(&self, name: &str) -> bool {
        self.text == "*" || self.glob.as_ref().map_or(self.text == name, |glob| glob.matches(name.as_bytes()))
    }

    /// The text that the first `*` stands for, with what stands for all globs after it.
    fn stands_for<'n>(&self, name: &'n str) -> &'n str {
        let (Some(first), Some(last)) = (self.text.find('*'), self.text.rfind('*')) else { return name };
        name.get(first..name.len().saturating_sub(self.text.len() - last - 1)).unwrap_or(name)
    }
}

/// Reads the content of a line that begins at `start`; `None` when it says nothing.
pub(crate) fn read_line(text: &str, content: &str, start: usize) -> Result<Option<ConceptLine>> {
    let mut words = words(content, start);
    words.next().map(|(span, word)| line_of(text, span, word, &mut words)).transpose()
}

/// The words of a line that begins at `start`, with their places.
fn words(line: &str, start: usize) -> impl Iterator<Item = (Span, &str)> {
    line.split_ascii_whitespace().map(move |word| {
        let at = start + (word.as_ptr() as usize - line.as_ptr() as usize);
        (Span::new(at, at + word.len()), word)
    })
}

fn line_of<'t>(
    source: &str,
    span: Span,
    word: &str,
    words: &mut impl Iterator<Item = (Span, &'t str)>,
) -> Result<ConceptLine> {
    let wrong = |span: Span, message: String| {
        let help = "`tracemill analyze --concepts` prints the lines that are built in";
        Error::misuse(message).at_text(span.place(source)).with_help(help)
    };
    let Some(concept) = Concept::from_name(word) else {
        let known = Concept::ALL.iter().map(|known| known.name());
        return Err(suggest(wrong(span, format!("`{word}` is not a concept")), word, known));
    };
    let Some((_, events)) = words.next() else {
        return Err(wrong(span, format!("the concept `{word}` has no event")));
    };
    let mut line = ConceptLine { concept, events: Vec::new(), fields: Vec::new(), is_legacy: false };
    for text in events.split('|').filter(|text| !text.is_empty()) {
        let glob = text.bytes().any(built_in::is_glob).then(|| Pattern::glob(text));
        line.events.push(Name { text: text.to_string(), glob });
    }
    for (span, word) in words {
        if word == "!legacy" {
            line.is_legacy = true;
            continue;
        }
        let (name, paths) = word.split_once('=').map_or((word, None), |(name, paths)| (name, Some(paths)));
        let (name, is_optional) = name.strip_suffix('?').map_or((name, false), |name| (name, true));
        let Some(field) = Field::from_name(name) else {
            let known = Field::ALL.iter().map(|known| known.name());
            return Err(suggest(wrong(span, format!("`{name}` is not a field of a concept")), name, known));
        };
        let from = match paths {
            None => From::Paths(vec![path(name)]),
            Some("*") => From::Glob,
            Some(text) if text.starts_with('=') => From::Text(text[1..].into()),
            Some("") => return Err(wrong(span, format!("`{name}` has no path"))),
            Some(paths) => From::Paths(paths.split('|').filter(|path| !path.is_empty()).map(path).collect()),
        };
        if line.fields.iter().any(|known| known.field == field) {
            return Err(wrong(span, format!("`{name}` stands twice in the line")));
        }
        line.fields.push(RequestedField { field, is_optional, from });
    }
    Ok(line)
}

fn path(text: &str) -> NamedPath {
    let known = [("payload.", PAYLOAD), ("$ctx.", CONTEXTS), ("header.", HEADER), ("$env.", ENVIRONMENT)];
    let found = known.into_iter().find_map(|(start, scopes)| Some((scopes, text.strip_prefix(start)?)));
    let (scopes, name) = found.unwrap_or((PAYLOAD, text));
    NamedPath { scopes, name: name.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn concept_of(concepts: &Concepts, event: &str, fields: &[&str]) -> Option<Tie<String>> {
        concepts.find(event, |named| fields.contains(&&*named.name).then(|| named.name.clone()))
    }

    #[test]
    fn the_built_in_table_is_sound() {
        let concepts = Concepts::parse(TEXT).expect("it can be read");
        assert!(concepts.lines.len() > 80);
        for concept in Concept::ALL {
            assert!(concepts.lines.iter().any(|line| line.concept == *concept), "{concept:?} has no line");
        }
        for field in Field::ALL {
            let has = |line: &ConceptLine| line.fields.iter().any(|wanted| wanted.field == *field);
            assert!(concepts.lines.iter().any(has), "{field:?} is in no line");
        }
    }

    #[test]
    fn lines_that_are_read_when_they_are_used_say_what_all_of_them_say() {
        let (all, lazy) = (Concepts::parse(TEXT).expect("it can be read"), Concepts::built_in());
        let names = all.lines.iter().flat_map(|line| &line.events).map(|name| name.text.replace(['*', '?'], "x"));
        let others = ["", "sys_", "sys_exit", "syscall_entry_", "funcgraph_entry", "x", "kernel.sched_schedul"];
        let mut found = 0;
        for name in names.chain(others.map(String::from)) {
            for is_running in [false, true] {
                let place = |named: &NamedPath| (!named.name.len().is_multiple_of(3)).then(|| named.name.clone());
                for names in [&[&*name][..], &["sched_switch", &*name], &[&*name, "x"]] {
                    let of = |concepts: &Concepts| concepts.first(names, is_running, place, |_| None);
                    assert_eq!(of(&all), of(lazy), "{names:?}");
                    found += usize::from(of(lazy).is_some());
                }
            }
        }
        assert!(found > 200, "{found}");
        for concept in Concept::ALL {
            assert!(all.events(*concept).eq(lazy.events(*concept)), "{concept:?}");
        }
    }

    #[test]
    fn what_the_environment_says_comes_after_the_contexts() {
        let place = |named: &NamedPath| (named.name != "vpid").then(|| named.name.clone());
        let env = |key: &str| (key == "vpid").then(|| "17".into());
        let found = Concepts::built_in().first(&["lttng_ust_libc:free"], false, place, env).expect("a concept");
        assert_eq!(found.origin(Field::Vpid), Some(&Origin::Field("pid".to_string())));
        let none = |named: &NamedPath| (named.name == "ptr").then(|| named.name.clone());
        let found = Concepts::built_in().first(&["lttng_ust_libc:free"], false, none, env).expect("a concept");
        assert_eq!(found.origin(Field::Vpid), Some(&Origin::Text("17".into())));
        assert_eq!((found.concept, found.origin(Field::Vtid)), (Concept::HeapFree, None));
    }

    #[test]
    fn the_first_line_whose_fields_exist_wins() {
        let concepts = Concepts::built_in();
        let fork = concept_of(concepts, "sched_process_fork", &["parent_pid", "child_pid"]).expect("of ftrace");
        assert_eq!((fork.field(Field::Child), fork.field(Field::Pid)), (Some(&"child_pid".to_string()), None));
        let fork = concept_of(concepts, "sched_process_fork", &["parent_pid", "child_pid", "parent_tid", "child_tid"]);
        assert_eq!(fork.expect("of LTTng").field(Field::Pid), Some(&"child_pid".to_string()));
        assert_eq!(concept_of(concepts, "sched_switch", &["prev_tid"]), None);
        assert_eq!(concept_of(concepts, "my_switch", &["prev_tid", "next_tid"]), None);
    }

    #[test]
    fn globs_name_system_calls() {
        let concepts = Concepts::built_in();
        let name = |event: &str, fields: &[&str]| {
            let tie = concept_of(concepts, event, fields)?;
            match tie.origin(Field::Name) {
                Some(Origin::Text(text)) => Some((tie.concept, text.to_string())),
                _ => None,
            }
        };
        let entry = |name: &str| Some((Concept::SysEntry, name.to_string()));
        let exit = |name: &str| Some((Concept::SysExit, name.to_string()));
        assert_eq!(name("syscall_entry_openat", &["filename"]), entry("openat"));
        assert_eq!(name("compat_syscall_entry_futex", &[]), entry("futex"));
        assert_eq!(name("sys_open", &[]), entry("open"));
        assert_eq!(name("sys_enter_open", &[]), entry("open"));
        assert_eq!(name("sys_exit_open", &["ret"]), exit("open"));
        assert_eq!(name("syscall_exit_accept", &["ret"]), exit("accept"));
        assert_eq!(concept_of(concepts, "exit_syscall", &["ret"]).map(|tie| tie.concept), Some(Concept::SysExit));
    }

    #[test]
    fn errors_have_places() {
        for (text, message, line, column) in [
            ("switch", "the concept `switch` has no event", 1, 1),
            ("\nwake x tid tid=y", "`tid` stands twice in the line", 2, 12),
            ("wake x who=tid", "`who` is not a field of a concept", 1, 8),
            ("# ok\n  wakes x", "`wakes` is not a concept", 2, 3),
            ("wake x tid=", "`tid` has no path", 1, 8),
        ] {
            let error = Concepts::parse(text).expect_err(text);
            let place = error.place().text.clone().expect("there is a place");
            assert_eq!((error.message(), place.line, place.column), (message, line, column), "{text}");
        }
    }
}
