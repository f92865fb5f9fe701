//! Help for a shell while a statement is typed: its pieces, whether it is complete, and what a word may become.

use std::collections::BTreeSet;
use std::ops::Range;

use datafusion::common::TableReference;
use tracemill_model::schema::{Schema, Scope};

use crate::catalog::own_names;
use crate::errors::quoted;
use crate::query::Queries;

/// A piece of SQL as it is typed, complete or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TypedSql {
    /// A keyword.
    Keyword,
    /// Another word.
    Word,
    /// A name in quotes or backquotes.
    Quoted,
    /// A text.
    Text,
    /// A number.
    Number,
    /// A comment.
    Comment,
    /// The end of a statement.
    End,
    /// Anything else that is no space.
    Sign,
}

/// Keywords that are known to completion and to colours.
const KEYWORDS: &[&str] = &[
    "all",
    "analyze",
    "and",
    "as",
    "asc",
    "between",
    "by",
    "case",
    "cast",
    "copy",
    "create",
    "cross",
    "current",
    "delete",
    "desc",
    "describe",
    "distinct",
    "drop",
    "else",
    "end",
    "except",
    "exists",
    "explain",
    "external",
    "false",
    "filter",
    "first",
    "following",
    "from",
    "full",
    "group",
    "having",
    "in",
    "inner",
    "insert",
    "intersect",
    "into",
    "is",
    "join",
    "last",
    "left",
    "like",
    "limit",
    "natural",
    "not",
    "null",
    "nulls",
    "offset",
    "on",
    "or",
    "order",
    "outer",
    "over",
    "partition",
    "preceding",
    "range",
    "replace",
    "right",
    "row",
    "rows",
    "select",
    "set",
    "show",
    "table",
    "tables",
    "then",
    "to",
    "true",
    "unbounded",
    "union",
    "using",
    "values",
    "view",
    "when",
    "where",
    "window",
    "with",
];

/// Words after which the name of a table stands.
const BEFORE_TABLES: &[&str] = &["from", "join", "describe", "table", "view"];

/// The pieces of a text, in their order; a text or a name in quotes may lack its end.
pub fn pieces(text: &str) -> Vec<(TypedSql, Range<usize>)> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let until = |end: &str| rest[end.len()..].find(end).map_or(rest.len(), |to| to + 2 * end.len());
        let (piece, len) = match first {
            c if c.is_whitespace() => {
                at += c.len_utf8();
                continue;
            }
            '-' if rest.starts_with("--") => (TypedSql::Comment, rest.find('\n').unwrap_or(rest.len())),
            '/' if rest.starts_with("/*") => (TypedSql::Comment, rest.find("*/").map_or(rest.len(), |to| to + 2)),
            '\'' => (TypedSql::Text, until("'")),
            '"' => (TypedSql::Quoted, until("\"")),
            '`' => (TypedSql::Quoted, until("`")),
            ';' => (TypedSql::End, 1),
            c if c.is_ascii_digit() => {
                (TypedSql::Number, rest.find(|c: char| !is_word(c) && c != '.').unwrap_or(rest.len()))
            }
            c if is_word(c) => {
                let len = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
                let word = rest[..len].to_ascii_lowercase();
                (if KEYWORDS.contains(&&*word) { TypedSql::Keyword } else { TypedSql::Word }, len)
            }
            c => (TypedSql::Sign, c.len_utf8()),
        };
        pieces.push((piece, at..at + len));
        at += len;
    }
    pieces
}

/// Is a text nothing, or does it end with `;`?
pub fn is_complete(text: &str) -> bool {
    let last = pieces(text).into_iter().rfind(|(piece, _)| *piece != TypedSql::Comment);
    match last {
        Some((piece, _)) => piece == TypedSql::End,
        // A comment for the next statement is not over.
        None => true,
    }
}

impl Queries {
    /// Completions of the word before a place in a text, and where this word begins.
    pub fn completions(&self, text: &str, at: usize) -> (usize, Vec<String>) {
        let before = &text[..at];
        let all = pieces(before);
        let is_open = |quote: char, range: &Range<usize>| {
            range.end == at && (range.len() == 1 || !before[range.clone()].ends_with(quote))
        };
        if let Some((TypedSql::Text, range)) = all.last()
            && is_open('\'', range)
        {
            return (range.start + 1, self.paths(before, &all, range.start + 1));
        }
        let start = match all.last() {
            Some((TypedSql::Quoted, range)) if is_open(before[range.start..].chars().next().unwrap_or('"'), range) => {
                range.start
            }
            // Names of event classes have colons, which a user may type before there are quotes.
            _ => {
                let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
                before.char_indices().rev().take_while(|(_, c)| is_part(*c)).last().map_or(at, |(at, _)| at)
            }
        };
        let word = before[start..].trim_start_matches(['"', '`']).to_lowercase();
        let is_quoted = before[start..].starts_with(['"', '`']);
        let previous = all.iter().rev().find(|(_, range)| range.end <= start).map(|(_, range)| &before[range.clone()]);
        let mut found = BTreeSet::new();
        let mut add = |name: &str, typed: String| {
            if name.to_lowercase().starts_with(&word) {
                found.insert(typed);
            }
        };
        let tables = self.table_names();
        let wants_table = previous.is_some_and(|previous| BEFORE_TABLES.contains(&&*previous.to_ascii_lowercase()));
        if wants_table || previous != Some(".") {
            tables.iter().for_each(|name| add(name, quoted(name)));
        }
        if wants_table {
            return (start, found.into_iter().collect());
        }
        for name in self.named_tables(text, &tables) {
            let provider = self.runtime.block_on(self.context.table_provider(TableReference::bare(name)));
            let Ok(provider) = provider else { continue };
            provider.schema().fields().iter().for_each(|field| add(field.name(), quoted(field.name())));
        }
        if !is_quoted && previous != Some(".") && !word.is_empty() {
            self.function_names().iter().for_each(|name| add(name, format!("{name}(")));
            KEYWORDS.iter().for_each(|name| add(name, name.to_string()));
        }
        (start, found.into_iter().collect())
    }

    /// The tables there are, without those of the information schema.
    pub fn table_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.database().by_name.iter().map(|(name, _)| name.clone()).collect();
        let main = self.context.catalog(crate::catalog::CATALOG).and_then(|all| all.schema(crate::catalog::MAIN));
        names.extend(main.map(|main| main.table_names()).unwrap_or_default());
        names.extend(own_names().map(str::to_string));
        names.sort();
        names.dedup();
        names
    }

    /// The functions there are.
    pub fn function_names(&self) -> Vec<String> {
        let state = self.context.state();
        let mut names: BTreeSet<String> = ["match_pairs", "nested_pairs", "overlap"].map(str::to_string).into();
        names.extend(state.scalar_functions().keys().cloned());
        names.extend(state.aggregate_functions().keys().cloned());
        names.extend(state.window_functions().keys().cloned());
        names.into_iter().collect()
    }

    /// The tables that a statement names.
    fn named_tables<'a>(&self, text: &str, tables: &'a [String]) -> Vec<&'a str> {
        let typed = pieces(text).into_iter().filter_map(|(piece, range)| match piece {
            TypedSql::Word => Some(&text[range]),
            TypedSql::Quoted => Some(text[range].trim_matches(['"', '`'])),
            _ => None,
        });
        let typed: BTreeSet<&str> = typed.collect();
        tables.iter().map(String::as_str).filter(|name| typed.contains(name)).collect()
    }

    /// Paths of fields for the second argument of `field(SCOPE, '..')`.
    fn paths(&self, before: &str, all: &[(TypedSql, Range<usize>)], start: usize) -> Vec<String> {
        let words: Vec<&str> = all.iter().rev().skip(1).take(4).map(|(_, range)| &before[range.clone()]).collect();
        let [",", scope, "(", function] = words.as_slice() else { return Vec::new() };
        let scopes =
            [Scope::Payload, Scope::SpecificContext, Scope::CommonContext, Scope::PacketContext, Scope::EventHeader];
        let Some(scope) = scopes.into_iter().find(|known| known.key() == *scope) else { return Vec::new() };
        if !function.eq_ignore_ascii_case("field") {
            return Vec::new();
        }
        let (typed, mut found) = (&before[start..], BTreeSet::new());
        let database = self.database();
        for (_, classes) in &database.by_name {
            for &(trace, class) in classes {
                let schema = &*database.session.traces[trace].schema;
                add_paths(schema, schema.scope_root(scope, class), "", typed, &mut found);
            }
        }
        found.into_iter().collect()
    }
}

/// Adds the paths of members that begin as typed; those inside of a member once it is typed.
fn add_paths(
    schema: &Schema,
    root: Option<tracemill_model::schema::FieldClassId>,
    above: &str,
    typed: &str,
    found: &mut BTreeSet<String>,
) {
    for member in schema.members(root) {
        let path = format!("{above}{}", member.name);
        if path.starts_with(typed) {
            found.insert(path);
        } else if typed.strip_prefix(&path).is_some_and(|rest| rest.starts_with('.')) {
            add_paths(schema, Some(member.class), &format!("{path}."), typed, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_ends_with_a_semicolon_that_is_no_part_of_a_text() {
        for text in ["", " ", "select 1;", "select 1; -- done", "select ';';", "select `a;b`;", "/* ; */ select 1 ;\n"]
        {
            assert!(is_complete(text), "{text}");
        }
        for text in ["select 1", "select ';", "select 'it''s;", "select \"a;", "select 1 -- ;", "select 1; select 2"] {
            assert!(!is_complete(text), "{text}");
        }
    }

    #[test]
    fn pieces_cover_all_that_is_no_space() {
        let text = "select é, \"a b\", 'x''y', 1.5e3 from t -- all\n/* open";
        let found = pieces(text);
        let covered: String = found.iter().map(|(_, range)| &text[range.clone()]).collect();
        let is_space = |c: &char| c.is_whitespace();
        let without = |text: &str| text.chars().filter(|c| !is_space(c)).collect::<String>();
        assert_eq!(without(&covered), without(text));
        let kinds: Vec<TypedSql> = found.iter().map(|(piece, _)| *piece).collect();
        assert_eq!(kinds[..3], [TypedSql::Keyword, TypedSql::Word, TypedSql::Sign]);
        assert_eq!(kinds[kinds.len() - 2..], [TypedSql::Comment, TypedSql::Comment]);
    }
}
