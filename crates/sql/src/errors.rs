//! Errors of a query, in words: the message, the place with a mark, the nearest name.

use std::ops::ControlFlow;

use arrow_schema::ArrowError;
use datafusion::common::{DataFusionError, SchemaError};
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, visit_expressions};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use tracemill_codec::text::{Span, closest, edit_distance};
use tracemill_model::error::{Error, ErrorKind};

use crate::catalog::{is_file, own_names};
use crate::database::Database;
use crate::words;

/// When an error came up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wrong {
    /// Before anything was read.
    Text,
    /// On the way.
    Way,
}

/// An error in words, and its parts for programs.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The error as people read it, with its place and its help.
    pub error: Error,
    /// Line and column in the text of the query, from 1.
    pub place: Option<(u32, u32)>,
    /// A hint at what to try.
    pub help: Option<String>,
}

/// The error in words.
pub(crate) fn explained(database: &Database, text: &str, error: DataFusionError, when: Wrong) -> Error {
    in_parts(database, text, error, when).error
}

/// The error in words, and its parts.
pub(crate) fn in_parts(database: &Database, text: &str, error: DataFusionError, when: Wrong) -> Explained {
    let found = found(database, text, &error);
    let place = found.place.as_ref().map(|span| span.place(text));
    let message = match &place {
        // The place stands at the end, as the mark follows it.
        Some(place) => {
            let mark = "^".repeat(place.len.clamp(1, place.excerpt.chars().count().saturating_sub(place.caret).max(1)));
            let line = format!("\n  | {}\n  | {}{mark}", place.excerpt, " ".repeat(place.caret));
            format!("{} (line {}, column {}){line}", found.message, place.line, place.column)
        }
        None => found.message,
    };
    let message = match &found.help {
        Some(help) => format!("{message}\n  {help}"),
        None => message,
    };
    let error = match when {
        Wrong::Text => Error::misuse(message),
        Wrong::Way => Error::new(ErrorKind::Unsupported, message),
    };
    Explained { error, place: place.map(|place| (place.line, place.column)), help: found.help }
}

struct FoundError {
    message: String,
    place: Option<Span>,
    help: Option<String>,
}

fn found(database: &Database, text: &str, error: &DataFusionError) -> FoundError {
    match error {
        DataFusionError::SQL(error, _) => syntax(text, &error.to_string()),
        DataFusionError::Diagnostic(diagnostic, inner) => {
            let mut found = found(database, text, inner);
            let span = diagnostic.span.or(diagnostic.notes.iter().find_map(|note| note.span));
            if let Some(span) = span {
                let start = byte_offset(text, span.start.line, span.start.column);
                found.place = Some(Span::new(start, byte_offset(text, span.end.line, span.end.column).max(start + 1)));
            }
            found
        }
        DataFusionError::SchemaError(error, _) => schema(text, error),
        DataFusionError::Context(_, inner) => found(database, text, inner),
        DataFusionError::Shared(inner) => found(database, text, inner),
        DataFusionError::Collection(all) if !all.is_empty() => found(database, text, &all[0]),
        DataFusionError::External(inner) => match inner.downcast_ref::<Error>() {
            Some(error) => FoundError { message: error.to_string(), place: None, help: None },
            None => plain(inner.to_string()),
        },
        DataFusionError::Plan(message) => planned(database, text, message),
        DataFusionError::Execution(message) => executed(text, message),
        DataFusionError::NotImplemented(message) => plain(format!("this is not supported: {}", first_line(message))),
        DataFusionError::ArrowError(error, _) => match &**error {
            ArrowError::DivideByZero => plain(in_expression("a division by zero", text, is_division)),
            ArrowError::CastError(message) => plain(in_expression(message, text, is_cast)),
            error => plain(without_kind(&error.to_string())),
        },
        DataFusionError::ResourcesExhausted(message) => plain(format!("not enough memory: {}", first_line(message))),
        other => plain(without_kind(first_line(&other.to_string()))),
    }
}

/// A message of DataFusion, in plain words.
fn plain(message: String) -> FoundError {
    FoundError { message: words::plain(&message), place: None, help: None }
}

fn is_division(of: &Expr) -> bool {
    matches!(of, Expr::BinaryOp { op: BinaryOperator::Divide | BinaryOperator::Modulo, .. })
}

fn is_cast(of: &Expr) -> bool {
    matches!(of, Expr::Cast { .. })
}

/// A message with the expressions of the text that may be meant.
fn in_expression(message: &str, text: &str, is_meant: fn(&Expr) -> bool) -> String {
    let statements = DFParserBuilder::new(text).with_dialect(&GenericDialect).build();
    let statements = statements.and_then(|mut parser| parser.parse_statements()).unwrap_or_default();
    let mut meant: Vec<String> = Vec::new();
    for statement in statements {
        let statement = match statement {
            Statement::Explain(explain) => *explain.statement,
            statement => statement,
        };
        if let Statement::Statement(sql) = &statement {
            let _ = visit_expressions(sql.as_ref(), |expression: &Expr| {
                if is_meant(expression) {
                    meant.push(format!("`{expression}`"));
                }
                ControlFlow::<()>::Continue(())
            });
        }
    }
    meant.dedup();
    match meant.as_slice() {
        [] => message.to_string(),
        [one] => format!("{message}, in {one}"),
        more => format!("{message}, in one of {}", more.join(", ")),
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// A message without the kind of error before it.
fn without_kind(text: &str) -> String {
    match text.split_once(": ") {
        Some((kind, rest)) if kind.ends_with("error") || kind.ends_with("Error") => rest.to_string(),
        _ => text.to_string(),
    }
}

/// The byte of a line and a column, both counted from 1.
fn byte_offset(text: &str, line: u64, column: u64) -> usize {
    let mut start = 0;
    for _ in 1..line {
        match text[start..].find('\n') {
            Some(end) => start += end + 1,
            None => return text.len(),
        }
    }
    let rest = &text[start..];
    let end = rest.char_indices().nth(column.saturating_sub(1) as usize).map_or(rest.len(), |(at, _)| at);
    start + end
}

/// An error of the parser, which ends in `at Line: 2, Column: 5`.
fn syntax(text: &str, message: &str) -> FoundError {
    let message = without_kind(&message.replace("sql parser error: ", ""));
    let in_words = |message: &str| {
        let message = message.replace("Expected: ", "expected ").replace(", found: ", ", found ");
        message.replace("found EOF", "found the end")
    };
    let Some((before, place)) = message.rsplit_once(" at Line: ") else {
        let is_end = message.ends_with("found: EOF");
        let end = text.trim_end().len();
        let place = is_end.then(|| Span::new(end, end));
        return FoundError { message: in_words(&message), place, help: None };
    };
    let numbers: Vec<u64> = place.split(", Column: ").filter_map(|number| number.trim().parse().ok()).collect();
    let [line, column] = numbers.as_slice() else { return plain(message.clone()) };
    let start = byte_offset(text, *line, *column);
    let word = text[start..].find(|c: char| c.is_whitespace() || c == ',' || c == ';').unwrap_or(text.len() - start);
    FoundError { message: in_words(before), place: Some(Span::new(start, start + word.max(1))), help: None }
}

/// A column that is not there, or one of two.
fn schema(text: &str, error: &SchemaError) -> FoundError {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let table = field.relation.as_ref().or(valid_fields.iter().find_map(|known| known.relation.as_ref()));
            let of = table.map(|table| quoted(table.table()));
            let message = match &of {
                Some(table) => format!("there is no column `{}` in {table}", field.name),
                None => format!("there is no column `{}`", field.name),
            };
            let names: Vec<&str> = valid_fields.iter().map(|known| known.name.as_str()).collect();
            let near =
                closest_name(&field.name, &names).map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
            let help = of.map(|table| format!("{near}Its columns are in `describe {table}`"));
            FoundError { message, place: word(text, &field.name), help }
        }
        SchemaError::AmbiguousReference { field } => FoundError {
            message: format!("more than one table has a column `{}`: say which, as in `table.{0}`", field.name),
            place: word(text, &field.name),
            help: None,
        },
        other => plain(other.to_string()),
    }
}

/// The name that was meant; a table has few, so that half of the letters may be others.
fn closest_name<'a>(name: &str, names: &[&'a str]) -> Option<&'a str> {
    let half = name.chars().count() / 2;
    let by_distance = names.iter().map(|known| (edit_distance(name, known), *known));
    let nearest = by_distance.filter(|(distance, _)| *distance <= half).min().map(|(_, known)| known);
    closest(name, names).or(nearest)
}

/// Errors that are known by their words.
fn planned(database: &Database, text: &str, message: &str) -> FoundError {
    let message = first_line(message);
    let table = message.strip_prefix("table '").and_then(|rest| rest.strip_suffix("' not found"));
    let table = table.or_else(|| message.strip_prefix("No table named '")?.strip_suffix('\''));
    if let Some(full) = table {
        let (schema, name) = match full.splitn(3, '.').collect::<Vec<_>>().as_slice() {
            [_, schema, name] => {
                (Some(*schema).filter(|schema| *schema != "main").map(str::to_string), name.to_string())
            }
            _ => (None, full.to_string()),
        };
        if is_file(&name) || name.contains('/') {
            let is_there = std::path::Path::new(&name).exists();
            let help = is_there.then(|| "traces stand before the SQL: `tracemill sql TRACE -c SQL`".to_string());
            let what = if is_there { "is not a file with a table" } else { "is not a file" };
            return FoundError { message: format!("`{name}` {what}"), place: word(text, &name), help };
        }
        let classes = database.by_name.iter().map(|(name, _)| name.as_str());
        let names: Vec<&str> = own_names().map(|name| -> &str { name }).chain(classes).collect();
        let near = closest(&name, &names).map(|near| format!("did you mean {}? ", quoted(near))).unwrap_or_default();
        let full = schema.map_or_else(|| quoted(&name), |schema| format!("{schema}.{}", quoted(&name)));
        return FoundError {
            message: format!("there is no table {full}"),
            place: word(text, &name),
            help: Some(format!("{near}`select * from classes` lists the tables of events, `show tables` all")),
        };
    }
    if message.starts_with("Plan: [") {
        // The planner doubts an order of its own.
        return FoundError {
            message: "the planner does not find its way through this query".into(),
            place: None,
            help: Some("try it with a view or a subquery in place of a condition".into()),
        };
    }
    if let Some(rest) = message.strip_prefix("Invalid function '") {
        let name = rest.split('\'').next().unwrap_or_default();
        let near = rest.split("Did you mean '").nth(1).and_then(|near| near.split('\'').next());
        return FoundError {
            message: format!("there is no function `{name}`"),
            place: word(text, name),
            help: near.map(|near| format!("did you mean `{near}`?")),
        };
    }
    plain(message.to_string())
}

/// The error of running a query, or of a command.
fn executed(text: &str, message: &str) -> FoundError {
    let taken = message.strip_prefix("Table '").and_then(|rest| rest.strip_suffix("' already exists"));
    let Some(name) = taken.map(|full| full.rsplit('.').next().unwrap_or(full)) else { return plain(message.into()) };
    let message = format!("there is a table {} already: give yours another name", quoted(name));
    FoundError { message, place: word(text, name), help: None }
}

/// A name as it is typed: in quotes unless it is a plain word.
pub(crate) fn quoted(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_plain { name.to_string() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// Where a name stands in a text, as a word.
fn word(text: &str, name: &str) -> Option<Span> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let whole = text
        .match_indices(name)
        .find(|(at, _)| !text[..*at].ends_with(is_part) && !text[at + name.len()..].starts_with(is_part));
    whole.filter(|_| !name.is_empty()).map(|(at, _)| {
        let is_quoted = text[..at].ends_with(['"', '`']) && text[at + name.len()..].starts_with(['"', '`']);
        let around = usize::from(is_quoted);
        Span::new(at - around, at + name.len() + around)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_by_line_and_by_word() {
        let text = "select é,\n  \"a b\" from t";
        assert_eq!(&text[byte_offset(text, 2, 3)..][..5], "\"a b\"");
        assert_eq!(byte_offset(text, 9, 1), text.len());
        let span = word(text, "a b").expect("it is there");
        assert_eq!(span.text(text), "\"a b\"");
        assert!(word("selected", "select").is_none());
        let found =
            syntax("select\nfrm x", "sql parser error: Expected: end of statement, found: x at Line: 2, Column: 5");
        assert_eq!(found.message, "expected end of statement, found x");
        assert_eq!(found.place.map(|span| span.place("select\nfrm x").column), Some(5));
    }

    #[test]
    fn names_are_quoted_where_they_must_be_and_the_nearest_is_found() {
        assert_eq!((quoted("load"), quoted("mill:tick")), ("load".into(), "\"mill:tick\"".into()));
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
        assert_eq!(closest_name("lode", &["ns", "load", "worker"]), Some("load"));
        assert_eq!(closest_name("LOAD", &["ns", "load"]), Some("load"));
        assert_eq!(closest_name("x", &["ns", "load"]), None);
    }
}
