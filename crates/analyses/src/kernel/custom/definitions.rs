//! Definitions of state machines and counters, as a file has them (`docs/states.md`).
//!
//! ```text
//! # a connection
//! states connection by conn_id
//! on net:open -> opening
//! on net:up -> up
//! on net:error if code != 0 -> "has failed"
//! on net:phase -> = phase
//! on net:close by conn -> end
//!
//! counter queue by conn_id
//! on net:enqueue -> +1
//! on net:dequeue -> -1
//! on net:depth -> = depth
//! ```

use std::path::Path;
use std::sync::Arc;

use tracemill_codec::text::suggest;
use tracemill_engine::filter::Expression;
use tracemill_model::error::{Error, Result};

use crate::kernel::question::event_paths::{WrittenPath, check_column};
use crate::kernel::question::written::{Written, outside_quotes};
use crate::target::Target;

/// Columns of tables, which no value of a key may be called by.
const OWN_COLUMNS: &[&str] =
    &["trace", "name", "state", "from", "to", "duration_ns", "cut", "time", "value", "changes", "last"];

/// Definitions, rules of all of them, and paths of one key, at most.
const MAX_DEFINITIONS: usize = 256;
const MAX_RULES: usize = 4096;
const MAX_PATHS: usize = 32;

/// The forms of lines, for help.
const HEAD_FORM: &str = "a definition begins with `states NAME [by PATH, ..]` or `counter NAME [by PATH, ..]`";
const RULE_FORM: &str = "a rule is `on EVENT [by PATH, ..] [if CONDITION] -> ACTION`";
const STATE_FORM: &str = "the action of states is a state, `= PATH` for one that a field names, or `end`";
const COUNTER_FORM: &str = "the action of a counter is `+ N`, `- N`, `= N`, with a path in place of N, or `end`";

/// State machines and counters that a file defines.
#[derive(Debug)]
pub struct CustomDefinitions(pub(super) Vec<CustomDefinition>);

/// A state machine or a counter for each key.
#[derive(Debug)]
pub(super) struct CustomDefinition {
    pub(super) kind: CustomKind,
    pub(super) name: Arc<str>,
    written: Written,
    /// Names of the paths of its key, and the paths.
    pub(super) key: Vec<(Arc<str>, WrittenPath)>,
    pub(super) rules: Vec<CustomRule>,
}

/// The kind of a definition: it follows states, or a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CustomKind {
    /// States.
    States,
    /// A number.
    Counter,
}

/// A rule: the effect of an event.
#[derive(Debug)]
pub(super) struct CustomRule {
    pub(super) event: Written,
    pub(super) target: Target,
    /// The paths of the key in this event, where they are others.
    pub(super) key: Option<Vec<WrittenPath>>,
    pub(super) condition: Option<(Written, Expression)>,
    pub(super) action: Action,
}

/// The action of a rule.
#[derive(Debug)]
pub(super) enum Action {
    /// The key is in this state.
    Enter(Arc<str>),
    /// The counter changes by a number, or is one.
    Count(CounterStep, f64),
    /// A field names the state, or the number.
    Field(CounterStep, WrittenPath),
    /// The key is in no state, the counter has no value.
    End,
}

/// How a value changes a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CounterStep {
    Add,
    Subtract,
    Set,
}

impl CustomDefinitions {
    /// Opens a file and reads it.
    ///
    /// # Errors
    /// When it cannot be opened; else as [`CustomDefinitions::read`].
    pub fn open(file: &Path) -> Result<CustomDefinitions> {
        let text = std::fs::read_to_string(file).map_err(|error| Error::io("read the file", file, &error))?;
        CustomDefinitions::read(file, &text)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// When a line is neither a definition nor a rule of one, with its place in the file.
    pub fn read(file: &Path, text: &str) -> Result<CustomDefinitions> {
        let whole = Written::from_file(file, text);
        let (mut definitions, mut rules): (Vec<CustomDefinition>, usize) = (Vec::new(), 0);
        for line in whole.lines() {
            let (word, rest) = split_word(&line);
            let kind = match word.text() {
                "states" => CustomKind::States,
                "counter" => CustomKind::Counter,
                "on" => {
                    let Some(of) = definitions.last_mut() else {
                        return Err(word.error("a rule stands before its definition").with_help(HEAD_FORM));
                    };
                    if rules == MAX_RULES {
                        return Err(word.error(format!("more than {MAX_RULES} rules")));
                    }
                    rules += 1;
                    of.rules.push(CustomRule::parse(&rest, of.kind, of.key.len())?);
                    continue;
                }
                other => {
                    let error = word.error(format!("expected `states`, `counter` or `on`, found `{other}`"));
                    return Err(suggest(error, other, ["states", "counter", "on"]));
                }
            };
            check_rules(definitions.last())?;
            if definitions.len() == MAX_DEFINITIONS {
                return Err(word.error(format!("more than {MAX_DEFINITIONS} definitions")));
            }
            let new = CustomDefinition::parse(kind, &line, &rest)?;
            if definitions.iter().any(|other| other.name == new.name) {
                return Err(new.written.error(format!("`{}` is defined twice", new.name)));
            }
            definitions.push(new);
        }
        check_rules(definitions.last())?;
        if definitions.is_empty() {
            return Err(whole.part(0, 0).error("the file defines neither states nor counters").with_help(HEAD_FORM));
        }
        Ok(CustomDefinitions(definitions))
    }

    /// The names of the values of all keys, each once, with the paths that they are read from.
    pub fn key_paths(&self) -> Vec<(Arc<str>, Vec<&str>)> {
        let mut all: Vec<(Arc<str>, Vec<&str>)> = Vec::new();
        for of in &self.0 {
            for (at, (name, path)) in of.key.iter().enumerate() {
                let own = of.rules.iter().filter_map(|rule| rule.key.as_ref()?.get(at));
                let paths = [path].into_iter().chain(own).map(|path| path.written.text());
                match all.iter_mut().find(|(known, _)| known == name) {
                    Some((_, known)) => known.extend(paths),
                    None => all.push((name.clone(), paths.collect())),
                }
            }
        }
        all
    }

    /// Checks that it defines something of a kind.
    ///
    /// # Errors
    /// When it does not.
    pub fn check_has(&self, file: &Path, kind: CustomKind) -> Result<()> {
        if self.0.iter().any(|of| of.kind == kind) {
            return Ok(());
        }
        let (what, help) = match kind {
            CustomKind::States => ("states", "--of counters shows its counters"),
            CustomKind::Counter => ("counters", "without --of counters, its states are shown"),
        };
        Err(Error::misuse(format!("the file defines no {what}")).in_file(file).with_help(help))
    }
}

fn check_rules(last: Option<&CustomDefinition>) -> Result<()> {
    match last.filter(|last| last.rules.is_empty()) {
        Some(last) => Err(last.written.error(format!("`{}` has no rules", last.name)).with_help(RULE_FORM)),
        None => Ok(()),
    }
}

impl CustomDefinition {
    fn parse(kind: CustomKind, line: &Written, rest: &Written) -> Result<CustomDefinition> {
        let (written, rest) = split_word(rest);
        if written.text().is_empty() {
            return Err(line.error("expected a name").with_help(HEAD_FORM));
        }
        let name = unquoted(&written)?;
        let mut key: Vec<(Arc<str>, WrittenPath)> = Vec::new();
        if !rest.text().is_empty() {
            let (word, paths) = split_word(&rest);
            if word.text() != "by" {
                return Err(rest.error(format!("expected `by`, found `{}`", word.text())).with_help(HEAD_FORM));
            }
            for piece in paths_of(&paths)? {
                let (name, path) = WrittenPath::parse(piece.clone())?;
                check_column(&piece, &name, OWN_COLUMNS, key.iter().any(|(known, _)| **known == *name))?;
                key.push((name.into(), path));
            }
        }
        Ok(CustomDefinition { kind, name: name.into(), written, key, rules: Vec::new() })
    }
}

impl CustomRule {
    fn parse(rest: &Written, kind: CustomKind, key_len: usize) -> Result<CustomRule> {
        let text = rest.text();
        // Conditions have no arrows, so that the last one is that of the rule.
        let arrows = outside_quotes(text).filter(|(at, _)| text.as_bytes()[*at..].starts_with(b"->"));
        let Some((arrow, _)) = arrows.last() else {
            return Err(rest.error("expected `->` and an action").with_help(RULE_FORM));
        };
        let (event, mut left) = split_word(&rest.part(0, arrow));
        if event.text().is_empty() {
            return Err(rest.error("expected the name of an event").with_help(RULE_FORM));
        }
        let (mut key, mut condition) = (None, None);
        if let ("by", paths) = split(&left) {
            let end = words(paths.text()).find(|(_, word)| *word == "if").map_or(paths.text().len(), |(at, _)| at);
            let own = paths.part(0, end);
            let read = paths_of(&own)?.into_iter().map(|piece| Ok(WrittenPath::parse(piece)?.1));
            let read = read.collect::<Result<Vec<WrittenPath>>>()?;
            if read.len() != key_len {
                let message = format!("the key has {key_len} values, and {} are named here", read.len());
                return Err(own.error(message).with_help("a rule has the values of its definition in their order"));
            }
            (key, left) = (Some(read), paths.part(end, paths.text().len()));
        }
        if let ("if", text) = split(&left) {
            (condition, left) = (Some(text.expression()?), left.part(0, 0));
        }
        if !left.text().is_empty() {
            let error = left.error(format!("expected `by`, `if` or `->`, found `{}`", split_word(&left).0.text()));
            return Err(error.with_help(RULE_FORM));
        }
        let action = Action::parse(&rest.part(arrow + 2, text.len()), kind, &rest.part(arrow, arrow + 2))?;
        let target = Target::parse(&unquoted(&event)?);
        Ok(CustomRule { target, event, key, condition, action })
    }
}

impl Action {
    fn parse(written: &Written, kind: CustomKind, arrow: &Written) -> Result<Action> {
        let text = written.text();
        let form = if kind == CustomKind::States { STATE_FORM } else { COUNTER_FORM };
        let step = match text.as_bytes().first() {
            None => return Err(arrow.error("expected an action after `->`").with_help(form)),
            Some(b'=') => CounterStep::Set,
            Some(b'+') if kind == CustomKind::Counter => CounterStep::Add,
            Some(b'-') if kind == CustomKind::Counter => CounterStep::Subtract,
            Some(_) if text == "end" => return Ok(Action::End),
            Some(first) if kind == CustomKind::States && !b"+-".contains(first) => {
                let (state, rest) = split_word(written);
                if !rest.text().is_empty() {
                    let error = rest.error(format!("unexpected `{}` after the state", rest.text()));
                    return Err(
                        error.with_help("a state of several words stands in quotes; a comment has its own line")
                    );
                }
                return Ok(Action::Enter(unquoted(&state)?.into()));
            }
            Some(_) => return Err(written.error(format!("`{text}` is not an action")).with_help(form)),
        };
        let operand = written.part(1, text.len());
        if operand.text().is_empty() {
            return Err(written.error(format!("expected a value after `{text}`")).with_help(form));
        }
        let is_number = operand.text().starts_with(|sign: char| sign.is_ascii_digit() || "+-.".contains(sign));
        if !is_number || kind == CustomKind::States {
            return Ok(Action::Field(step, WrittenPath::parse(operand)?.1));
        }
        let number = operand.text().parse().ok().filter(|number: &f64| number.is_finite());
        let number = number.ok_or_else(|| operand.error(format!("`{}` is not a number", operand.text())))?;
        Ok(Action::Count(step, number))
    }
}

/// The words of a text outside of quotes, with their places; a word may have quotes inside.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut ends = outside_quotes(text).filter(|(_, byte)| byte.is_ascii_whitespace()).map(|(at, _)| at);
    let mut start = Some(0);
    let all = std::iter::from_fn(move || {
        let from = start?;
        let end = ends.next();
        start = end.map(|end| end + 1);
        Some((from, &text[from..end.unwrap_or(text.len())]))
    });
    all.filter(|(_, word)| !word.is_empty())
}

/// The first word, and the rest.
fn split_word(written: &Written) -> (Written, Written) {
    let text = written.text();
    let end = words(text).next().map_or(0, |(_, word)| word.len());
    (written.part(0, end), written.part(end, text.len()))
}

/// As [`split_word`], for a word that is compared.
fn split(written: &Written) -> (&str, Written) {
    let end = split_word(written).0.text().len();
    (&written.text()[..end], written.part(end, written.text().len()))
}

/// The pieces of a list of paths.
fn paths_of(written: &Written) -> Result<Vec<Written>> {
    if written.text().is_empty() {
        return Err(written.error("expected a path after `by`"));
    }
    let pieces = written.pieces(b',');
    match pieces.get(MAX_PATHS) {
        Some(piece) => Err(piece.error(format!("more than {MAX_PATHS} paths"))),
        None => Ok(pieces),
    }
}

/// A word without its quotes, in which `\` stands before a quote or another `\`.
fn unquoted(written: &Written) -> Result<String> {
    let text = written.text();
    let Some(quote) = text.chars().next().filter(|first| matches!(first, '"' | '\'')) else {
        return Ok(text.to_string());
    };
    let lacks_end = || written.error("a text without its closing quote");
    let (mut plain, mut rest) = (String::new(), text[1..].chars());
    loop {
        match rest.next().ok_or_else(lacks_end)? {
            end if end == quote => break,
            '\\' if rest.as_str().starts_with([quote, '\\']) => plain.extend(rest.next()),
            sign => plain.push(sign),
        }
    }
    match rest.as_str() {
        "" if plain.is_empty() => Err(written.error("a name in quotes is empty")),
        "" => Ok(plain),
        more => Err(written.error(format!("unexpected `{more}` after the closing quote"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<CustomDefinitions> {
        CustomDefinitions::read(Path::new("my.states"), text)
    }

    const WHOLE: &str = "# a connection\n\nstates connection by conn_id, state.tid\n\
        \ton net:open  -> opening\n\
        on 'net:up \\'now\\'' if a == \"if -> x\" and b < -1 -> \"is up\"\n\
        on net:* by `if`, $ctx.tid if code != 0 -> end\n\
        on 7 -> = phase\n\
        counter \"my queue\"\non net:enqueue -> +1\non net:dequeue->-1.5\non net:depth -> = depth\n\
        on net:set -> = -3\non net:more if x -> - payload.count\non net:gone -> end\n";

    #[test]
    fn lines_are_definitions_and_their_rules() {
        let CustomDefinitions(all) = read(WHOLE).unwrap();
        let [states, counter] = &all[..] else { panic!("{all:?}") };
        assert_eq!((states.kind, &*states.name), (CustomKind::States, "connection"));
        assert_eq!(states.key.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["conn_id", "state.tid"]);
        assert_eq!((counter.kind, &*counter.name, counter.key.len()), (CustomKind::Counter, "my queue", 0));
        let rule = |rule: &CustomRule| {
            let action = match &rule.action {
                Action::Enter(state) => format!("enter {state}"),
                Action::Count(step, by) => format!("{step:?} {by}"),
                Action::Field(step, path) => format!("{step:?} {}", path.written.text()),
                Action::End => "end".to_string(),
            };
            let condition = rule.condition.as_ref().map_or("", |(written, _)| written.text());
            (rule.target.text().to_string(), rule.key.as_ref().map(Vec::len), condition.to_string(), action)
        };
        let of = |name: &str, key, condition: &str, action: &str| (name.into(), key, condition.into(), action.into());
        assert_eq!(
            states.rules.iter().map(rule).collect::<Vec<_>>(),
            [
                of("net:open", None, "", "enter opening"),
                of("net:up 'now'", None, "a == \"if -> x\" and b < -1", "enter is up"),
                of("net:*", Some(2), "code != 0", "end"),
                of("7", None, "", "Set phase"),
            ]
        );
        assert_eq!(
            counter.rules.iter().map(rule).collect::<Vec<_>>(),
            [
                of("net:enqueue", None, "", "Add 1"),
                of("net:dequeue", None, "", "Subtract 1.5"),
                of("net:depth", None, "", "Set depth"),
                of("net:set", None, "", "Set -3"),
                of("net:more", None, "x", "Subtract payload.count"),
                of("net:gone", None, "", "end"),
            ]
        );
    }

    #[test]
    fn mistakes_have_their_line_and_column() {
        for (text, message, place) in [
            ("", "the file defines neither states nor counters", (1, 1)),
            ("state a", "expected `states`, `counter` or `on`, found `state`", (1, 1)),
            ("on a -> b", "a rule stands before its definition", (1, 1)),
            ("states", "expected a name", (1, 1)),
            ("states a per b", "expected `by`, found `per`", (1, 10)),
            ("states a by", "expected a path after `by`", (1, 12)),
            ("states a by x, x", "`x` is given twice", (1, 16)),
            ("states a by state", "`state` is a column of its own", (1, 13)),
            ("states a by a+b", "unexpected character `+`", (1, 14)),
            ("states a by state.x", "there is no `state.x`", (1, 13)),
            ("states a\ncounter b\non x -> +1", "`a` has no rules", (1, 8)),
            ("states a\non x -> b\ncounter a\non x -> +1", "`a` is defined twice", (3, 9)),
            ("states \"a", "a text without its closing quote", (1, 8)),
            ("states ''\non x -> b", "a name in quotes is empty", (1, 8)),
            ("states 'a'b\non x -> b", "unexpected `b` after the closing quote", (1, 8)),
            ("states a\non x = b", "expected `->` and an action", (2, 4)),
            ("states a\non -> b", "expected the name of an event", (2, 4)),
            ("states a\non x ->", "expected an action after `->`", (2, 6)),
            ("states a\non x -> b c", "unexpected `c` after the state", (2, 11)),
            ("states a\non x when y -> b", "expected `by`, `if` or `->`, found `when`", (2, 6)),
            ("states a\non x if y = 1 -> b", "unexpected character `=`", (2, 11)),
            ("states a\non x if -> b", "expected a path or a value, found the end of the expression", (2, 8)),
            ("states a by k\non x by k, l -> b", "the key has 1 values, and 2 are named here", (2, 9)),
            ("states a\non x -> =", "expected a value after `=`", (2, 9)),
            ("states a\non x -> = 1", "", (2, 11)),
            ("states a\non x -> +1", "`+1` is not an action", (2, 9)),
            ("counter a\non x -> up", "`up` is not an action", (2, 9)),
            ("counter a\non x -> + 1e", "`1e` is not a number", (2, 11)),
            ("counter a\non x -> + 1e999", "`1e999` is not a number", (2, 11)),
        ] {
            let error = read(text).unwrap_err();
            let found = error.place().text.clone().unwrap();
            assert_eq!((found.line, found.column), place, "{text}: {error}");
            assert!(message.is_empty() || error.message() == message, "{text}: {error}");
            assert_eq!(error.place().file.as_deref(), Some(Path::new("my.states")), "{text}");
        }
    }

    #[test]
    fn no_text_makes_it_panic_and_every_error_has_a_place() {
        let signs: Vec<char> = "\n \t\"'`\\,;:=+->#*.$()0aé\u{0}".chars().collect();
        let all: Vec<char> = WHOLE.chars().collect();
        let try_text = |text: String| {
            if let Err(error) = read(&text) {
                assert!(error.place().text.is_some(), "{text}: {error}");
            }
        };
        for at in 0..=all.len() {
            let (before, after) = (String::from_iter(&all[..at]), String::from_iter(&all[at..]));
            try_text(before.clone());
            try_text(after.clone());
            for sign in &signs {
                try_text(format!("{before}{sign}{after}"));
                try_text(format!("{before}{sign}{}", after.chars().skip(1).collect::<String>()));
            }
        }
    }

    #[test]
    fn a_file_has_limits() {
        let definition = |at: usize| format!("states s{at}\non x -> y\n");
        let many: String = (0..=MAX_DEFINITIONS).map(definition).collect();
        assert_eq!(read(&many).unwrap_err().message(), "more than 256 definitions");
        let rules = format!("states a\n{}", "on x -> y\n".repeat(MAX_RULES + 1));
        assert_eq!(read(&rules).unwrap_err().message(), "more than 4096 rules");
        let paths: Vec<String> = (0..=MAX_PATHS).map(|at| format!("k{at}")).collect();
        let error = read(&format!("states a by {}\non x -> y", paths.join(", "))).unwrap_err();
        assert_eq!(error.message(), "more than 32 paths");
    }

    #[test]
    fn a_question_needs_definitions_of_its_kind() {
        let (file, states) = (Path::new("f"), read("states a\non x -> y").unwrap());
        assert!(states.check_has(file, CustomKind::States).is_ok());
        assert_eq!(states.check_has(file, CustomKind::Counter).unwrap_err().message(), "the file defines no counters");
        let counter = read("counter a\non x -> +1").unwrap();
        assert_eq!(counter.check_has(file, CustomKind::States).unwrap_err().message(), "the file defines no states");
    }
}
