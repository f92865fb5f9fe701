//! Triggers of a program that records its events, as they are typed: an event, a time between two, a signal, a panic.

use std::time::Duration;

use tracemill_calls::text::parse_time;
use tracemill_engine::filter::Expression;
use tracemill_engine::parsed_query::misuse_of;
use tracemill_model::error::Error;
use tracemill_record::control::{Cause, EventCondition, Trigger};

/// Names of signals without `SIG`, and their numbers on x86-64 and aarch64.
const SIGNALS: [(&str, i32); 29] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("STKFLT", 16),
    ("CHLD", 17),
    ("CONT", 18),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("XCPU", 24),
    ("XFSZ", 25),
    ("VTALRM", 26),
    ("PROF", 27),
    ("WINCH", 28),
    ("IO", 29),
    ("PWR", 30),
    ("SYS", 31),
];

/// A trigger as it is typed.
pub(super) fn parse(text: &str, before: Duration) -> Result<Trigger, Error> {
    Ok(Trigger { cause: cause(text.trim())?, before })
}

fn cause(text: &str) -> Result<Cause, Error> {
    if text == "panic" {
        return Ok(Cause::Panic);
    }
    if let Some(name) = text.strip_prefix("signal:") {
        return Ok(Cause::Signal(signal(name)?));
    }
    let (left, right) = text.split_once(" if ").map_or((text, None), |(left, right)| (left, Some(right)));
    match (left.split_once(".."), right) {
        (Some((begin, rest)), None) => longer(text, begin, rest),
        _ => {
            let source = right.unwrap_or("true").trim();
            let condition = Expression::parse(source).and_then(|expression| expression.condition());
            let condition = condition.map_err(|error| misuse_of("--trigger", error))?;
            let events = globs(text, left)?;
            Ok(Cause::Event(EventCondition { events, source: source.to_string(), condition }))
        }
    }
}

/// `BEGIN..END > TIME by FIELD`
fn longer(text: &str, begin: &str, rest: &str) -> Result<Cause, Error> {
    let Some((end, limit)) = rest.split_once('>') else { return Err(wrong(text, "a time after `>`")) };
    let (limit, by) = limit.split_once(" by ").map_or((limit, None), |(limit, by)| (limit, Some(by)));
    let limit = parse_time(limit.trim()).ok_or_else(|| wrong(text, "a time with ns, us, ms, s or m after `>`"))?;
    let by = by.map(|by| by.trim().to_string());
    Ok(Cause::Longer { begin: globs(text, begin)?, end: globs(text, end)?, by, limit: Duration::from_nanos(limit) })
}

fn globs(text: &str, globs: &str) -> Result<String, Error> {
    match globs.trim() {
        "" => Err(wrong(text, "names of events")),
        globs if globs.contains(char::is_whitespace) => Err(wrong(text, "names of events without blanks")),
        globs => Ok(globs.to_string()),
    }
}

fn signal(name: &str) -> Result<i32, Error> {
    let short = name.strip_prefix("SIG").unwrap_or(name);
    let known = SIGNALS.iter().find(|(known, _)| *known == short).map(|(_, number)| *number);
    let of_real_time = || short.strip_prefix("RTMIN+")?.parse::<i32>().ok().map(|number| 34 + number);
    let number = known.or_else(of_real_time).or_else(|| short.parse().ok());
    number.filter(|number| (1..65).contains(number)).ok_or_else(|| {
        let error = Error::misuse(format!("`{name}` is no signal"));
        error.with_help("USR1, TERM, SEGV and so on, RTMIN+1, or a number")
    })
}

fn wrong(text: &str, expected: &str) -> Error {
    let error = Error::misuse(format!("the trigger `{text}` is not understood: expected {expected}"));
    error.with_help("'app:slow if us > 500', 'app:begin..app:end > 5ms by id', signal:USR1 or panic")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_causes_can_be_typed() {
        let cause = |text: &str| cause(text).map_err(|error| error.to_string());
        assert_eq!(cause("panic"), Ok(Cause::Panic));
        for (name, number) in [("USR1", 10), ("SIGTERM", 15), ("RTMIN+2", 36), ("11", 11)] {
            assert_eq!(cause(&format!("signal:{name}")), Ok(Cause::Signal(number)));
        }
        let longer = |by: Option<&str>| Cause::Longer {
            begin: "app:begin".to_string(),
            end: "app:end,app:gone".to_string(),
            by: by.map(str::to_string),
            limit: Duration::from_micros(1500),
        };
        assert_eq!(cause("app:begin..app:end,app:gone > 1500us by id"), Ok(longer(Some("id"))));
        assert_eq!(cause("app:begin .. app:end,app:gone>1500us"), Ok(longer(None)));
        let Ok(Cause::Event(rule)) = cause("app:*@warning if us > 5 and name != \"app:x\"") else { panic!("an event") };
        assert_eq!((rule.events.as_str(), rule.source.as_str()), ("app:*@warning", "us > 5 and name != \"app:x\""));
        assert!(matches!(cause("app:slow"), Ok(Cause::Event(rule)) if rule.events == "app:slow"));
        for wrong in ["", "signal:NONE", "signal:65", "a..b", "a..b > soon", "a b", " if x", "a if", "a if x >"] {
            assert!(cause(wrong).is_err(), "{wrong}");
        }
    }
}
