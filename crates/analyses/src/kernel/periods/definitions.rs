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

use tracemill_codec::text::suggest;
use tracemill_engine::filter::{Expression, Filter, Needs};
use tracemill_engine::parsed_query::times;
use tracemill_engine::session::Session;
use tracemill_model::error::Result;

use crate::kernel::question::event_paths::{PathReader, WrittenPath, check_column};
use crate::kernel::question::written::Written;

/// Columns of lists, which no matched value may be called by.
const OWN_COLUMNS: &[&str] = &["trace", "period", "from", "to", "duration_ns", "completed", "parent"];

/// Periods that can be defined at most, and paths of one match.
const MAX_DEFINITIONS: usize = 256;
const MAX_PATHS: usize = 32;

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
    paths: [WrittenPath; 2],
}

/// A definition that is bound to a session.
pub(super) struct Bound {
    pub(super) name: Arc<str>,
    pub(super) begin: Filter,
    pub(super) end: Filter,
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
pub(super) struct Periods {
    pub(super) definitions: Vec<Bound>,
    /// Names of the matched values of all definitions.
    pub(super) columns: Vec<Arc<str>>,
    /// All definitions, parents before their children.
    pub(super) outer_first: Vec<usize>,
}

impl Definition {
    /// Reads the lines of a file.
    ///
    /// # Errors
    /// When a line is no definition, with its place in the file.
    pub fn read(file: &Path, text: &str) -> Result<Vec<Definition>> {
        Written::from_file(file, text).lines().map(|line| Definition::from_line(&line)).collect()
    }

    fn from_line(line: &Written) -> Result<Definition> {
        let mut parts = line.pieces(b';').into_iter();
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
            parsed.push(Parsed {
                name: name.into(),
                begin: definition.begin.expression()?,
                end: definition.end.expression()?,
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

    /// Looks up the paths in the event classes of a session. With `gmt`, times without a zone are universal time. Gives the
    /// readers of the begin and of the end of each definition, too.
    ///
    /// # Errors
    /// When no event class has a path, when a comparison can never be true, or when a time cannot be resolved.
    pub(super) fn bind(&self, session: &Session, gmt: bool) -> Result<(Periods, Vec<[PathReader; 2]>)> {
        let needs = self.0.iter().flat_map(|definition| [definition.begin.1.needs(), definition.end.1.needs()]);
        let times = times(session, gmt, needs.fold(Needs::default(), Needs::or));
        let mut columns: Vec<Arc<str>> = Vec::new();
        let (mut bound, mut readers): (Vec<Bound>, Vec<[PathReader; 2]>) = (Vec::new(), Vec::new());
        for definition in &self.0 {
            let filter = |(written, expression): &(Written, Expression)| {
                expression.bind(session, &times).map_err(|error| written.placed(error))
            };
            let reader =
                |side: usize| PathReader::bind(definition.matched.iter().map(|pair| &pair.paths[side]), session);
            let begin = (filter(&definition.begin)?, reader(0)?);
            let end = (filter(&definition.end)?, reader(1)?);
            readers.push([begin.1, end.1]);
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
                begin: begin.0,
                end: end.0,
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
        Ok((Periods { definitions: bound, columns, outer_first }, readers))
    }
}

/// Reads `PATH[=PATH],..`.
fn pairs(written: &Written) -> Result<Vec<Pair>> {
    let mut pairs: Vec<Pair> = Vec::new();
    let mut names = BTreeSet::new();
    for piece in written.pieces(b',') {
        let sides = piece.pieces(b'=');
        let [begin, rest @ ..] = sides.as_slice() else { continue };
        let end = match rest {
            [] => begin,
            [end] => end,
            _ => return Err(piece.error("expected PATH or PATH=PATH")),
        };
        let (name, begin) = WrittenPath::parse(begin.clone())?;
        let (_, end) = WrittenPath::parse(end.clone())?;
        check_column(&piece, &name, OWN_COLUMNS, !names.insert(name.clone()))?;
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
        let names =
            definitions[0].matched.iter().map(|pair| (&*pair.name, pair.paths[1].written.text(), pair.paths[1].beside));
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
