//! Events that a user names: by name (with globs) or by number.

use tracemill_engine::event::Event;
use tracemill_engine::pattern::Pattern;
use tracemill_engine::session::Session;
use tracemill_model::error::{Error, Result};

/// Events of a name or of a number.
#[derive(Clone, Debug)]
pub struct Target {
    text: String,
    id: Option<u64>,
    name: Pattern,
}

/// Whether the events of a class are meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is not meant.
    No,
    /// It is meant.
    Yes,
    /// The class stands for many numbers: each event must be asked.
    Ask,
}

impl Target {
    /// Reads what was typed: a number in base 10 or, with `0x`, 16 is the number of an event; anything else is a name in
    /// which `*` and `?` stand for any text and any character, and `\` takes a meaning away: `\7` is the name `7`.
    pub fn parse(text: &str) -> Self {
        let id = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        };
        Target { text: text.to_string(), id, name: Pattern::glob(text) }
    }

    /// The text as typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// For each trace and each of its event classes, whether its events are meant.
    ///
    /// # Errors
    /// When no event can be meant, or none that has a time.
    pub fn bind(&self, session: &Session) -> Result<Vec<Vec<Verdict>>> {
        let mut has_any = false;
        let mut has_time = false;
        let traces = session.traces.iter().enumerate().map(|(at, trace)| {
            let classes = trace.schema.events().iter().map(|class| {
                let verdict = match class.open_ids {
                    Some(_) => Verdict::Ask,
                    None if self.matches(class.id, class.name.as_deref().unwrap_or_default().as_bytes()) => {
                        Verdict::Yes
                    }
                    None => Verdict::No,
                };
                if verdict != Verdict::No {
                    has_any = true;
                    has_time |= !class.is_untimed && session.clock_map(at, class.stream).is_some();
                }
                verdict
            });
            classes.collect()
        });
        let verdicts: Vec<Vec<Verdict>> = traces.collect();
        if !has_any {
            return Err(self.unknown(session));
        }
        if !has_time {
            let message = format!("the events `{}` have no time, so nothing can be said of durations", self.text);
            return Err(Error::unsupported(message));
        }
        Ok(verdicts)
    }

    /// Is an event meant that its class does not decide? `name` is storage.
    pub fn asks(&self, event: &Event, name: &mut Vec<u8>) -> bool {
        name.clear();
        event.raw.own_id(name).is_some_and(|id| self.matches(id.into(), name))
    }

    fn matches(&self, id: u64, name: &[u8]) -> bool {
        self.id.map_or_else(|| self.name.matches(name), |own| own == id)
    }

    fn unknown(&self, session: &Session) -> Error {
        let classes = session.traces.iter().flat_map(|trace| trace.schema.events());
        let mut names: Vec<String> =
            classes.map(|class| format!("`{}` ({})", class.name.as_deref().unwrap_or_default(), class.id)).collect();
        names.sort();
        names.dedup();
        let count = names.len();
        names.truncate(MAX_NAMED);
        let more = if count > MAX_NAMED { format!(" and {} more", count - MAX_NAMED) } else { String::new() };
        let error = Error::misuse(format!("no event has the name or number `{}`", self.text));
        match count {
            0 => error.with_help("the traces describe no events"),
            _ => error.with_help(format!("the events are {}{more}", names.join(", "))),
        }
    }
}

/// Names in an error.
const MAX_NAMED: usize = 20;

#[cfg(test)]
mod tests {
    use super::Target;

    #[test]
    fn numbers_and_names() {
        let means = |text: &str, id, name: &str| Target::parse(text).matches(id, name.as_bytes());
        assert!(means("7", 7, "tx") && means("0x10", 16, "") && means("tx", 7, "tx") && means("t*", 7, "tx"));
        assert!(!means("7", 9, "7") && means("\\7", 9, "7") && means("\\0x7", 9, "0x7"), "names like numbers");
        assert!(!means("7", 9, "tx") && !means("tx", 7, "txx") && !means("-1", 1, ""));
    }
}
