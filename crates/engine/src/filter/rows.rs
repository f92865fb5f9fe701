//! Conditions over what is no event: rows of tables, and values that are known beside an event.

use std::borrow::Cow;

use tracemill_codec::text::suggest;
use tracemill_model::error::{Error, Result};

use super::Expression;
use super::bind::{can_be_true, never_true};
use super::eval::{self, FilterValue, PathSource, PathValue};
use super::fields::CapturedValue;
use super::number::EventNumber;
use super::parser;
use super::resolve::ComparableKind;
use super::syntax::{Compare, Operand, Path, PathHead, StepKind, Test};

/// Values that have numbers: cells of a row, states of a machine.
pub trait Lookup {
    /// The value of a number; `None` when it is not known.
    fn value(&self, index: usize) -> Option<CapturedValue<'_>>;
}

/// Values that are known beside an event: paths name them as `WORD.MEMBER`.
#[derive(Clone, Copy, Debug)]
pub struct Beside {
    /// The word that such paths begin with.
    pub word: &'static str,
    /// Names of the values, and whether they are texts or else integers. [`Lookup`] counts them from 0.
    pub members: &'static [(&'static str, bool)],
}

/// Kinds of the values of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnKind {
    /// Numbers only.
    Numbers,
    /// Whatever the rows have.
    Any,
}

/// A condition on the rows of a table.
#[derive(Clone, Debug)]
pub struct RowFilter {
    test: Test,
    /// The column of each path.
    columns: Vec<usize>,
}

struct LookupRow<'a> {
    columns: &'a [usize],
    row: &'a dyn Lookup,
}

impl Beside {
    /// The name of a path, and the number of its value when it is known beside the event.
    ///
    /// # Errors
    /// When the text is no path, or one that begins with the word and goes on with something else.
    pub fn find(&self, text: &str) -> Result<(String, Option<usize>)> {
        let paths = parser::parse_paths(text)?;
        let [path] = paths.as_slice() else {
            return Err(Error::misuse(format!("`{text}` is not a path of one field")));
        };
        let member = self.head(text, path)?.and_then(|head| match head {
            PathHead::Beside { member, .. } => Some(usize::from(member)),
            _ => None,
        });
        Ok((path.name(), member))
    }

    fn head(&self, source: &str, path: &Path) -> Result<Option<PathHead>> {
        let member = |at: usize| match path.steps.get(at).map(|step| &step.kind) {
            Some(StepKind::Member(name)) => Some(&**name),
            _ => None,
        };
        if path.head != PathHead::Bare || member(0) != Some(self.word) || path.steps.len() < 2 {
            return Ok(None);
        }
        let names = || self.members.iter().map(|(name, _)| *name);
        let found = member(1).and_then(|name| names().position(|own| own == name)).filter(|_| path.steps.len() == 2);
        if let Some(at) = found {
            return Ok(Some(PathHead::Beside { member: at as u8, is_text: self.members[at].1 }));
        }
        let error = path.span.malformed(source, format!("there is no `{}`", path.name()));
        let known: Vec<String> = names().map(|name| format!("`{}.{name}`", self.word)).collect();
        Err(error.with_help(format!("there are {}; a field is `payload.{}`", known.join(", "), path.name())))
    }
}

impl Expression {
    /// Lets paths name values that are known beside an event; see [`Matcher::matches_beside`](super::Matcher).
    ///
    /// # Errors
    /// When a path begins with the word and goes on with something else, with its place.
    pub fn with_columns(mut self, beside: &Beside) -> Result<Expression> {
        for path in &mut self.paths {
            if let Some(head) = beside.head(&self.source, path)? {
                (path.head, path.steps) = (head, Vec::new());
            }
        }
        Ok(self)
    }

    /// Binds it to the columns of a table: their names, and what they hold.
    ///
    /// # Errors
    /// When a path is no column, or when a comparison can never be true, with the place in the expression.
    pub fn bind_row(&self, columns: &[(&str, ColumnKind)]) -> Result<RowFilter> {
        let source = &*self.source;
        let column = |path: &Path| {
            let name = path.name();
            columns.iter().position(|(own, _)| *own == name).ok_or_else(|| no_column(source, path, &name, columns))
        };
        let places = self.paths.iter().map(column).collect::<Result<Vec<usize>>>()?;
        let kind = |path: usize| (columns[places[path]].1 == ColumnKind::Numbers).then_some(ComparableKind::Integer);
        let mut clash = None;
        self.test.each_leaf(&mut |leaf| {
            let (left, compare): (&Operand, Option<&Compare>) = match leaf {
                Test::Truth(operand) => (operand, None),
                Test::Compare(compare) => (&compare.left, Some(compare)),
                _ => return,
            };
            if let Err(found) = can_be_true(left, compare, kind) {
                clash.get_or_insert_with(|| never_true(source, &self.paths, left, compare, &found));
            }
        });
        clash.map_or(Ok(RowFilter { test: self.test.clone(), columns: places }), Err)
    }
}

fn no_column(source: &str, path: &Path, name: &str, columns: &[(&str, ColumnKind)]) -> Error {
    let names = || columns.iter().map(|(name, _)| *name);
    let error = path.span.malformed(source, format!("the table has no column `{name}`"));
    let error = error.with_help(format!("its columns are {}", names().collect::<Vec<_>>().join(", ")));
    suggest(error, name, names())
}

impl RowFilter {
    /// Is it true for a row? A value that is not known is compared with nothing.
    pub fn matches(&self, row: &dyn Lookup) -> bool {
        eval::evaluate(&self.test, &LookupRow { columns: &self.columns, row }).unwrap_or(false)
    }
}

impl PathSource for LookupRow<'_> {
    fn find(&self, path: usize) -> PathValue<'_> {
        self.row.value(self.columns[path]).map_or(PathValue::Absent, PathValue::from)
    }
}

impl<'a> From<CapturedValue<'a>> for PathValue<'a> {
    fn from(value: CapturedValue<'a>) -> PathValue<'a> {
        PathValue::Value(match value {
            CapturedValue::Integer(value) => FilterValue::Number(EventNumber::Int(value)),
            CapturedValue::Wide(wide) => FilterValue::Number(EventNumber::Wide(Cow::Borrowed(wide))),
            CapturedValue::Real(value) => FilterValue::Number(EventNumber::Real(value)),
            CapturedValue::Boolean(value) => FilterValue::Bool(value),
            CapturedValue::Text(text) => FilterValue::Text(text),
            CapturedValue::Tree => FilterValue::Other(true),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row of `name`, `ret` and `share`.
    struct Call(Option<&'static str>, i128, f64);

    impl Lookup for Call {
        fn value(&self, index: usize) -> Option<CapturedValue<'_>> {
            match index {
                0 => self.0.map(|name| CapturedValue::Text(name.as_bytes())),
                1 => Some(CapturedValue::Integer(self.1)),
                _ => Some(CapturedValue::Real(self.2)),
            }
        }
    }

    const COLUMNS: [(&str, ColumnKind); 3] =
        [("name", ColumnKind::Any), ("ret", ColumnKind::Numbers), ("share", ColumnKind::Numbers)];

    fn filter(text: &str) -> Result<RowFilter> {
        Expression::parse(text)?.bind_row(&COLUMNS)
    }

    #[test]
    fn rows_are_chosen_by_their_columns() {
        let rows = [Call(Some("read"), 512, 0.5), Call(Some("openat"), -2, 0.25), Call(None, 0, 0.0)];
        for (text, want) in [
            ("ret < 0", [false, true, false]),
            ("name == \"open*\" or ret == 512", [true, true, false]),
            ("name != \"read\"", [false, true, false]),
            ("not (name == \"read\")", [false, true, true]),
            ("share >= 0.25 and name =~ \"^r\"", [true, false, false]),
            ("ret & 1 == 0", [true, true, true]),
            ("name", [true, true, false]),
            ("share", [true, true, false]),
        ] {
            let filter = filter(text).unwrap();
            assert_eq!(rows.each_ref().map(|row| filter.matches(row)), want, "{text}");
        }
    }

    #[test]
    fn mistakes_have_their_place() {
        let column = |text: &str| {
            let error = filter(text).unwrap_err();
            (error.message().to_string(), error.place().text.as_ref().unwrap().column)
        };
        assert_eq!(column("ret < 0 and nam == 1"), ("the table has no column `nam`".into(), 13));
        assert_eq!(column("payload.ret < 0"), ("the table has no column `payload.ret`".into(), 1));
        let message = "`ret` is an integer and cannot be compared with a string".to_string();
        assert_eq!(column("name or ret == \"x\""), (message, 9));
    }

    #[test]
    fn values_beside_an_event_have_names() {
        const BESIDE: Beside = Beside { word: "state", members: &[("tid", false), ("comm", true)] };
        let with = |text: &str| Expression::parse(text).unwrap().with_columns(&BESIDE);
        let heads = with("state.comm == \"x\" and state.tid and state and payload.state.tid").unwrap().paths;
        let members: Vec<_> = heads.iter().map(|path| path.head).collect();
        assert_eq!(
            members[..2],
            [PathHead::Beside { member: 1, is_text: true }, PathHead::Beside { member: 0, is_text: false }]
        );
        assert!(!members[2..].iter().any(|head| matches!(head, PathHead::Beside { .. })));
        assert_eq!(BESIDE.find("state.comm").unwrap(), ("state.comm".into(), Some(1)));
        assert_eq!(BESIDE.find("payload . `fd`").unwrap(), ("payload.fd".into(), None));
        assert!(BESIDE.find("state.x").is_err() && BESIDE.find("a,b").is_err());
        let error = with("name and state.tip == 1").unwrap_err();
        assert_eq!((error.message(), error.place().text.as_ref().unwrap().column), ("there is no `state.tip`", 10));
    }
}
