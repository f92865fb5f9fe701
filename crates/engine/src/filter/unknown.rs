//! Names in an expression that nothing in a session has: probably typed wrong.

use regex::bytes::Regex;
use tracemill_codec::text::closest;

use super::Expression;
use super::syntax::{Compare, Op, PathHead, Right, Test};
use super::text::TextLiteral;
use crate::session::Session;

/// The kind of thing that a name is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameKind {
    /// An event class.
    EventClass,
    /// A stream.
    Stream,
    /// A trace.
    Trace,
}

/// A name, glob or regular expression that nothing in the session matches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownName {
    /// The kind of thing that was looked for.
    pub kind: NameKind,
    /// The name as it is in the expression.
    pub text: String,
    /// Is it a glob or a regular expression?
    pub is_pattern: bool,
    /// The name that was probably meant.
    pub meant: Option<String>,
}

/// A name to look for.
enum SoughtName<'a> {
    Text(&'a TextLiteral),
    Regex(&'a Regex),
}

impl SoughtName<'_> {
    fn matches(&self, name: &str) -> bool {
        match self {
            SoughtName::Text(text) => text.equals(name.as_bytes()),
            SoughtName::Regex(regex) => regex.is_match(name.as_bytes()),
        }
    }

    fn is_pattern(&self) -> bool {
        match self {
            SoughtName::Text(text) => text.is_glob(),
            SoughtName::Regex(_) => true,
        }
    }

    fn text(&self) -> String {
        match self {
            SoughtName::Text(text) => String::from_utf8_lossy(text.plain()).into_owned(),
            SoughtName::Regex(regex) => regex.as_str().to_string(),
        }
    }
}

impl Expression {
    /// The names of event classes, streams and traces that the expression wants and the session does not have, in the order
    /// in which they are written, each once. Names that an expression wants *not* to see are not among them.
    pub fn unknown_names(&self, session: &Session) -> Vec<UnknownName> {
        let mut unknown = Vec::new();
        self.each_wanted_name(&self.test, &mut |kind, wanted| {
            let Some(names) = names_of(session, kind) else { return };
            if names.iter().any(|name| wanted.matches(name)) {
                return;
            }
            let text = wanted.text();
            let meant = closest(&text, &names).map(str::to_string);
            let name = UnknownName { kind, text, is_pattern: wanted.is_pattern(), meant };
            if !unknown.contains(&name) {
                unknown.push(name);
            }
        });
        unknown
    }

    fn each_wanted_name(&self, test: &Test, see: &mut impl FnMut(NameKind, SoughtName<'_>)) {
        match test {
            Test::All(tests) | Test::Any(tests) => tests.iter().for_each(|test| self.each_wanted_name(test, see)),
            Test::Compare(compare) => {
                if let Some((kind, wanted)) = self.wanted_name(compare) {
                    see(kind, wanted);
                }
            }
            Test::Const(_) | Test::Not(_) | Test::Truth(_) => {}
        }
    }

    fn wanted_name<'a>(&self, compare: &'a Compare) -> Option<(NameKind, SoughtName<'a>)> {
        let path = &self.paths[compare.left.path()?];
        let kind = match path.head {
            PathHead::Name => NameKind::EventClass,
            PathHead::StreamName => NameKind::Stream,
            PathHead::Trace => NameKind::Trace,
            _ => return None,
        };
        match (&compare.right, compare.op) {
            (Right::Text(text), Op::Equal) => Some((kind, SoughtName::Text(text))),
            (Right::Regex(regex), Op::Match) => Some((kind, SoughtName::Regex(regex))),
            _ => None,
        }
    }
}

/// All names of a kind; `None` where events may have names that no class has.
fn names_of(session: &Session, kind: NameKind) -> Option<Vec<&str>> {
    let mut names: Vec<&str> = Vec::new();
    for trace in &session.traces {
        match kind {
            NameKind::EventClass => {
                let classes = trace.schema.events();
                if classes.iter().any(|class| class.open_ids.is_some()) {
                    return None;
                }
                names.extend(classes.iter().filter_map(|class| class.name.as_deref()));
            }
            NameKind::Stream => names.extend(trace.streams.iter().map(|stream| stream.name.as_str())),
            NameKind::Trace => names.push(&trace.name),
        }
    }
    names.sort_unstable();
    names.dedup();
    Some(names)
}
