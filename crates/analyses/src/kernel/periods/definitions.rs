//! Definitions of periods: on the command line, or in a file with a line for each.
//!
//! ```text
//! # name; then, in any order: begin, end, and maybe match and parent
//! request; begin = name == "syscall_entry_accept"; end = name == "syscall_exit_close"; match = state.tid
//! query; begin = name == "db:query"; end = name == "db:done"; match = payload.id=payload.of; parent = request
//! ```

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use tracemill_codec::text::{Span, suggest};
use tracemill_engine::filter::{Beside, ColumnList, Expression, Filter, Needs, PathColumns};
use tracemill_engine::parsed_query::{misuse_of, times};
use tracemill_engine::session::Session;
use tracemill_model::error::{Error, Result};

/// States that conditions may name.
pub(super) const BESIDE: Beside = Beside {
    word: "state",
    members: &[("tid", false), ("pid", false), ("comm", true), ("status", true), ("prio", false)],
};

/// Columns of lists, which no matched value may be called by.
const OWN_COLUMNS: &[&str] = &["trace", "period", "from", "to", "duration_ns", "completed", "parent"];

/// Periods that can be defined at most, and paths of one match.
const MAX_DEFINITIONS: usize = 256;
const MAX_PATHS: usize = 32;

/// A text of the user, and where it stands.
#[derive(Clone, Debug)]
pub struct Written {
    /// The option or the file.
    source: Arc<str>,
    /// The argument, or everything in the file.
    whole: Arc<str>,
    span: Span,
}

/// A period as it is written.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Its name.
    pub name: Written,
    /// Condition of the events that begin one.
    pub begin: Written,
    /// Condition of the events that end one.
    pub end: Written,
    /// Paths whose values are equal at both ends.
    pub matched: Option<Written>,
    /// Name of the period that ends it at the latest.
    pub parent: Option<Written>,
}

/// Definitions that fit together.
#[derive(Debug)]
pub struct Definitions(Vec<Parsed>);

#[derive(Debug)]
struct Parsed {
    name: Arc<str>,
    begin: (Written, Expression),
    end: (Written, Expression),
    matched: Vec<Pair>,
    parent: Option<usize>,
}

/// A value that both ends have.
#[derive(Debug)]
struct Pair {
    /// Name of its column: the path at the beginning.
    name: Arc<str>,
    /// The paths at the beginning and at the end.
    paths: [(Written, Option<usize>); 2],
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// One of the paths of the event.
    Event(usize),
    /// One of the values beside the event.
    Beside(usize),
}

/// One end of the periods of a definition.
pub(super) struct End {
    pub(super) filter: Filter,
    pub(super) parts: Vec<Part>,
    /// The paths of the event.
    pub(super) columns: Option<PathColumns>,
}

/// A definition that is bound to a session.
pub(super) struct Bound {
    pub(super) name: Arc<str>,
    pub(super) begin: End,
    pub(super) end: End,
    /// For each of its values, the column.
    pub(super) columns: Vec<usize>,
    pub(super) parent: Option<usize>,
    /// For each definition whose parent it is: which of its values are those of the child.
    pub(super) children: Vec<Child>,
}

/// Values of a parent and of a child that have the same name.
pub(super) struct Child {
    pub(super) definition: usize,
    pub(super) of_parent: Vec<usize>,
    pub(super) of_child: Vec<usize>,
}

/// Definitions that are bound to a session.
pub struct Periods {
    pub(super) definitions: Vec<Bound>,
    /// Names of the matched values of all definitions.
    pub(super) columns: Vec<Arc<str>>,
    /// All definitions, parents before their children.
    pub(super) outer_first: Vec<usize>,
}

impl Written {
    /// The argument of an option.
    pub fn from_option(option: &str, text: &str) -> Written {
        Written { source: option.into(), whole: text.into(), span: Span::new(0, text.len()) }
    }

    fn text(&self) -> &str {
        self.span.text(&self.whole)
    }

    /// A part of it.
    fn part(&self, from: usize, to: usize) -> Written {
        let text = &self.text()[from..to];
        let start = self.span.start + from + (text.len() - text.trim_start().len());
        Written { span: Span::new(start, start + text.trim().len()), ..self.clone() }
    }

    fn error(&self, message: impl Into<String>) -> Error {
        misuse_of(&self.source, self.span.malformed(&self.whole, message))
    }

    /// An error in the text alone, as one of the whole text.
    fn placed(&self, error: Error) -> Error {
        let mut own = Error::misuse(error.message()).in_file(Path::new(&*self.source));
        if let Some(place) = &error.place().text {
            let start = self.span.start + place.offset;
            own = own.at_text(Span::new(start, start + place.len).place(&self.whole));
        }
        match error.help() {
            Some(help) => own.with_help(help),
            None => own,
        }
    }
}

impl Definition {
    /// Reads the lines of a file.
    ///
    /// # Errors
    /// When a line is no definition, with its place in the file.
    pub fn read(file: &Path, text: &str) -> Result<Vec<Definition>> {
        let whole = Written::from_option(&file.display().to_string(), text);
        let mut definitions = Vec::new();
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let of_line = whole.part(start, start + line.len());
            start += line.len();
            if !of_line.text().is_empty() && !of_line.text().starts_with('#') {
                definitions.push(Definition::from_line(&of_line)?);
            }
        }
        Ok(definitions)
    }

    fn from_line(line: &Written) -> Result<Definition> {
        let mut parts = pieces(line, b';').into_iter();
        let name = parts.next().filter(|name| !name.text().is_empty());
        let name = name.ok_or_else(|| line.error("expected the name of a period"))?;
        let mut values: HashMap<&str, Written> = HashMap::new();
        const KEYS: [&str; 4] = ["begin", "end", "match", "parent"];
        for part in parts.filter(|part| !part.text().is_empty()) {
            let form = "a line is NAME; begin = EXPR; end = EXPR; match = PATH[=PATH], ..; parent = NAME";
            let Some(equal) = part.text().find('=') else {
                return Err(part.error("expected KEY = VALUE").with_help(form));
            };
            let (key, value) = (part.part(0, equal), part.part(equal + 1, part.text().len()));
            let Some(known) = KEYS.into_iter().find(|known| *known == key.text()) else {
                let error = key.error(format!("a period has no `{}`", key.text())).with_help(form);
                return Err(suggest(error, key.text(), KEYS));
            };
            if values.insert(known, value).is_some() {
                return Err(key.error(format!("`{known}` is given twice")));
            }
        }
        let mut needed = |key: &str| {
            let lacks = || name.error(format!("the period `{}` has no `{key} = EXPR`", name.text()));
            values.remove(key).ok_or_else(lacks)
        };
        let (begin, end) = (needed("begin")?, needed("end")?);
        Ok(Definition { begin, end, matched: values.remove("match"), parent: values.remove("parent"), name })
    }
}

/// The pieces between separators, without those in quotes.
fn pieces(written: &Written, separator: u8) -> Vec<Written> {
    let text = written.text();
    let (mut pieces, mut start, mut quote) = (Vec::new(), 0, None);
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match quote {
            Some(own) if byte == own => quote = None,
            Some(b'`') => {}
            Some(_) if byte == b'\\' => {
                bytes.next();
            }
            Some(_) => {}
            None if matches!(byte, b'"' | b'\'' | b'`') => quote = Some(byte),
            None if byte == separator => {
                pieces.push(written.part(start, at));
                start = at + 1;
            }
            None => {}
        }
    }
    pieces.push(written.part(start, text.len()));
    pieces
}

impl Definitions {
    /// Reads the expressions and the paths, and finds the parents.
    ///
    /// # Errors
    /// When one is none, or when the definitions do not fit together.
    pub fn parse(written: &[Definition]) -> Result<Definitions> {
        if let Some(first) = written.get(MAX_DEFINITIONS) {
            return Err(first.name.error(format!("more than {MAX_DEFINITIONS} periods")));
        }
        let mut parsed: Vec<Parsed> = Vec::new();
        for definition in written {
            let name = definition.name.text();
            if name.is_empty() {
                return Err(definition.name.error("a period needs a name"));
            }
            if parsed.iter().any(|other| *other.name == *name) {
                return Err(definition.name.error(format!("the period `{name}` is defined twice")));
            }
            let expression = |written: &Written| {
                let parsed = Expression::parse(written.text()).and_then(|parsed| parsed.with_columns(&BESIDE));
                parsed.map_err(|error| written.placed(error)).map(|parsed| (written.clone(), parsed))
            };
            parsed.push(Parsed {
                name: name.into(),
                begin: expression(&definition.begin)?,
                end: expression(&definition.end)?,
                matched: definition.matched.as_ref().map_or(Ok(Vec::new()), pairs)?,
                parent: None,
            });
        }
        for (at, definition) in written.iter().enumerate() {
            let Some(parent) = &definition.parent else { continue };
            let found = parsed.iter().position(|other| *other.name == *parent.text());
            let Some(found) = found else {
                let error = parent.error(format!("there is no period `{}`", parent.text()));
                return Err(suggest(error, parent.text(), parsed.iter().map(|other| &*other.name)));
            };
            parsed[at].parent = Some(found);
            let above = std::iter::successors(Some(found), |of| parsed[*of].parent);
            if above.take(MAX_DEFINITIONS).any(|of| of == at) {
                return Err(parent.error(format!("the period `{}` is its own parent", parsed[at].name)));
            }
        }
        Ok(Definitions(parsed))
    }

    /// Is a period of this name among them?
    pub fn has(&self, name: &str) -> bool {
        self.names().any(|own| own == name)
    }

    /// Names of the periods.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|definition| &*definition.name)
    }

    /// Looks up the paths in the event classes of a session. With `gmt`, times without a zone are universal time.
    ///
    /// # Errors
    /// When no event class has a path, when a comparison can never be true, or when a time cannot be resolved.
    pub fn bind(&self, session: &Session, gmt: bool) -> Result<Periods> {
        let needs = self.0.iter().flat_map(|definition| [definition.begin.1.needs(), definition.end.1.needs()]);
        let times = times(session, gmt, needs.fold(Needs::default(), Needs::or));
        let mut columns: Vec<Arc<str>> = Vec::new();
        let mut bound: Vec<Bound> = Vec::new();
        for definition in &self.0 {
            let end = |(written, expression): &(Written, Expression), side: usize| {
                let filter = expression.bind(session, &times).map_err(|error| written.placed(error))?;
                let (mut parts, mut paths) = (Vec::new(), Vec::new());
                for (written, beside) in definition.matched.iter().map(|pair| &pair.paths[side]) {
                    parts.push(match beside {
                        Some(member) => Part::Beside(*member),
                        None => {
                            let list = ColumnList::parse(written.text()).and_then(|list| list.bind(session));
                            list.map_err(|error| written.placed(error))?;
                            paths.push(written.text());
                            Part::Event(paths.len() - 1)
                        }
                    });
                }
                let is_empty = paths.is_empty();
                let columns = if is_empty { None } else { Some(ColumnList::parse(&paths.join(","))?.bind(session)?) };
                Ok::<End, Error>(End { filter, parts, columns })
            };
            let mut of_values = Vec::new();
            for pair in &definition.matched {
                let at = columns.iter().position(|name| *name == pair.name).unwrap_or(columns.len());
                if at == columns.len() {
                    columns.push(pair.name.clone());
                }
                of_values.push(at);
            }
            bound.push(Bound {
                name: definition.name.clone(),
                begin: end(&definition.begin, 0)?,
                end: end(&definition.end, 1)?,
                columns: of_values,
                parent: definition.parent,
                children: Vec::new(),
            });
        }
        for child in 0..bound.len() {
            let Some(parent) = bound[child].parent else { continue };
            let place = |column: &usize, of: &Bound| of.columns.iter().position(|own| own == column);
            let both = bound[child].columns.iter().enumerate();
            let both = both.filter_map(|(at, column)| Some((place(column, &bound[parent])?, at)));
            let (of_parent, of_child) = both.unzip();
            bound[parent].children.push(Child { definition: child, of_parent, of_child });
        }
        let depth = |at: usize| std::iter::successors(bound[at].parent, |of| bound[*of].parent).count();
        let mut outer_first: Vec<usize> = (0..bound.len()).collect();
        outer_first.sort_by_key(|at| depth(*at));
        Ok(Periods { definitions: bound, columns, outer_first })
    }
}

/// Reads `PATH[=PATH],..`.
fn pairs(written: &Written) -> Result<Vec<Pair>> {
    let mut pairs: Vec<Pair> = Vec::new();
    let mut names = BTreeSet::new();
    for piece in pieces(written, b',') {
        let path = |text: Written| {
            let found = BESIDE.find(text.text()).map_err(|error| text.placed(error))?;
            Ok::<_, Error>((found.0, (text, found.1)))
        };
        let sides = pieces(&piece, b'=');
        let [begin, rest @ ..] = sides.as_slice() else { continue };
        let end = match rest {
            [] => begin,
            [end] => end,
            _ => return Err(piece.error("expected PATH or PATH=PATH")),
        };
        let (name, begin) = path(begin.clone())?;
        let (_, end) = path(end.clone())?;
        if OWN_COLUMNS.contains(&&*name) {
            let error = piece.error(format!("`{name}` is a column of its own"));
            return Err(error.with_help(format!("a field of this name is `payload.{name}` or `$ctx.{name}`")));
        }
        if !names.insert(name.clone()) {
            return Err(piece.error(format!("`{name}` is given twice")));
        }
        if pairs.len() == MAX_PATHS {
            return Err(piece.error(format!("more than {MAX_PATHS} paths")));
        }
        pairs.push(Pair { name: name.into(), paths: [begin, end] });
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Definitions> {
        Definitions::parse(&Definition::read(Path::new("my.periods"), text)?)
    }

    #[test]
    fn lines_are_definitions() {
        let text = "# mine\n\n  a; begin = name == \"x;y\" ; end=name == 'z' and `a;b`;match = state.tid, payload.a = b;\n\
                    b; parent=a; end = id == 2; begin = id == 1";
        let definitions = read(text).unwrap().0;
        assert_eq!(definitions.iter().map(|definition| &*definition.name).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(definitions[0].begin.0.text(), "name == \"x;y\"");
        assert_eq!(definitions[0].end.0.text(), "name == 'z' and `a;b`");
        let names = definitions[0].matched.iter().map(|pair| (&*pair.name, pair.paths[1].0.text(), pair.paths[1].1));
        assert_eq!(names.collect::<Vec<_>>(), [("state.tid", "state.tid", Some(0)), ("payload.a", "b", None)]);
        assert_eq!((definitions[0].parent, definitions[1].parent), (None, Some(0)));
    }

    #[test]
    fn mistakes_have_their_line_and_column() {
        for (text, message, place) in [
            ("; begin = id == 1", "expected the name of a period", (1, 1)),
            ("a; begin", "expected KEY = VALUE", (1, 4)),
            ("a; beginn = id == 1", "a period has no `beginn`", (1, 4)),
            ("a; begin = id == 1; begin = id == 1", "`begin` is given twice", (1, 21)),
            ("# x\n a; begin = id == 1", "the period `a` has no `end = EXPR`", (2, 2)),
            ("a; begin = id = 1; end = id", "unexpected character `=`", (1, 15)),
            ("a; begin = id; end =", "expected a path or a value, found the end of the expression", (1, 21)),
            ("a; begin = state.x; end = id", "there is no `state.x`", (1, 12)),
            ("a; begin = id; end = id; match = a=b=c", "expected PATH or PATH=PATH", (1, 34)),
            ("a; begin = id; end = id; match = x, a+b", "unexpected character `+`", (1, 38)),
            ("a; begin = id; end = id; match = x, x", "`x` is given twice", (1, 37)),
            ("a; begin = id; end = id; match = to", "`to` is a column of its own", (1, 34)),
            ("a; begin = id; end = id; parent = b", "there is no period `b`", (1, 35)),
            ("a; begin = id; end = id; parent = a", "the period `a` is its own parent", (1, 35)),
            ("a; begin = id; end = id\na; begin = id; end = id", "the period `a` is defined twice", (2, 1)),
        ] {
            let error = read(text).unwrap_err();
            let found = error.place().text.clone().unwrap();
            assert_eq!((error.message(), (found.line, found.column)), (message, place), "{text}");
            assert_eq!(error.place().file.as_deref(), Some(Path::new("my.periods")), "{text}");
        }
    }

    #[test]
    fn parents_make_no_ring() {
        let line = |name: &str, parent: &str| format!("{name}; begin = id; end = id; parent = {parent}\n");
        let error = read(&(line("a", "b") + &line("b", "c") + &line("c", "a"))).unwrap_err();
        assert_eq!(error.message(), "the period `c` is its own parent");
    }
}
