//! Which events are recorded, and under which conditions: rules that can change while the program runs.

use tracemill_ring::condition::{Comparison, FieldCondition, Literal, Number, OperandPart};
use tracemill_ring::glob;

use crate::contexts::Contexts;
use crate::field::FieldClass;
use crate::trigger::{MAX_TRIGGERS, Trigger};

/// Most rules of a kind.
const MAX_RULES: usize = 256;

/// How serious an event is, from the most serious level on. They are LTTng's levels, with their numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Level {
    /// The system cannot be used.
    Emergency,
    /// Somebody has to act at once.
    Alert,
    /// A critical condition.
    Critical,
    /// An error.
    Error,
    /// A warning.
    Warning,
    /// Normal, and worth a look.
    Notice,
    /// Information.
    Info,
    /// For whoever looks for a mistake; LTTng's level of a whole system.
    Debug,
    /// For whoever looks for a mistake in a program.
    DebugProgram,
    /// In a process.
    DebugProcess,
    /// In a module.
    DebugModule,
    /// In a unit of a module.
    DebugUnit,
    /// In a function.
    DebugFunction,
    /// In a line.
    DebugLine,
    /// In all detail; LTTng's `DEBUG`, its last one.
    Trace,
}

/// The levels in the order of their numbers, their names in traces, and the names of rules.
const LEVELS: [(Level, &str, &[&str]); 15] = [
    (Level::Emergency, "emergency", &["emergency", "emerg"]),
    (Level::Alert, "alert", &["alert"]),
    (Level::Critical, "critical", &["critical", "crit"]),
    (Level::Error, "error", &["error", "err"]),
    (Level::Warning, "warning", &["warning", "warn"]),
    (Level::Notice, "notice", &["notice"]),
    (Level::Info, "info", &["info"]),
    (Level::Debug, "debug:system", &["debug", "debug:system"]),
    (Level::DebugProgram, "debug:program", &["debug:program"]),
    (Level::DebugProcess, "debug:process", &["debug:process"]),
    (Level::DebugModule, "debug:module", &["debug:module"]),
    (Level::DebugUnit, "debug:unit", &["debug:unit"]),
    (Level::DebugFunction, "debug:function", &["debug:function"]),
    (Level::DebugLine, "debug:line", &["debug:line"]),
    (Level::Trace, "debug", &["trace"]),
];

impl Level {
    /// Its number, as LTTng has it: from 0 for emergencies to 14.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The level of a number.
    pub fn of_number(number: u8) -> Option<Level> {
        LEVELS.get(usize::from(number)).map(|(level, ..)| *level)
    }

    /// Its name, as rules have it.
    pub fn name(self) -> &'static str {
        LEVELS[usize::from(self.number())].2[0]
    }

    /// Its name in traces, as LTTng has it.
    pub(crate) fn name_in_traces(self) -> &'static str {
        LEVELS[usize::from(self.number())].1
    }

    fn of_name(name: &str) -> Option<Level> {
        LEVELS.iter().find(|(.., names)| names.contains(&name)).map(|(level, ..)| *level)
    }
}

/// A condition for the events of some names.
#[derive(Clone, PartialEq, Debug)]
pub struct EventCondition {
    /// Which events: a list as in [`Options::filter`](crate::Options::filter).
    pub events: String,
    /// The condition as the user wrote it.
    pub source: String,
    /// The condition itself.
    pub condition: FieldCondition,
}

/// The condition about events of this name, with fields of these names and classes.
pub(crate) fn bound(
    condition: &FieldCondition,
    name: &str,
    fields: &[&str],
    classes: &[FieldClass],
) -> FieldCondition<usize> {
    without_labels(condition.bind(name, fields), classes)
}

/// Puts the values that have a label in the place of comparisons with it: an event has the values only.
fn without_labels(condition: FieldCondition<usize>, classes: &[FieldClass]) -> FieldCondition<usize> {
    let all_of = |all: Vec<_>| all.into_iter().map(|one| without_labels(one, classes)).collect();
    let (left, comparison, right) = match condition {
        FieldCondition::Not(inner) => return FieldCondition::Not(Box::new(without_labels(*inner, classes))),
        FieldCondition::All(all) => return FieldCondition::All(all_of(all)),
        FieldCondition::Any(all) => return FieldCondition::Any(all_of(all)),
        FieldCondition::Const(_) | FieldCondition::Truth(_) => return condition,
        FieldCondition::Compare(left, comparison, right) => (left, comparison, right),
    };
    let integer = match left.parts[..] {
        [OperandPart::Field(at)] => classes.get(at),
        _ => None,
    };
    let (Some(FieldClass::Integer(integer)), Comparison::Equal | Comparison::NotEqual) = (integer, comparison) else {
        return FieldCondition::Compare(left, comparison, right);
    };
    let is_meant = |label: &str| match &right {
        Literal::Text(text) => text == label.as_bytes(),
        Literal::Glob(pattern) => glob::matches(pattern, label.as_bytes()),
        _ => false,
    };
    // Without labels, a number is no text.
    if integer.labels.is_empty() || !matches!(right, Literal::Text(_) | Literal::Glob(_)) {
        return FieldCondition::Compare(left, comparison, right);
    }
    let within = |(_, first, last): (&str, i128, i128)| {
        let end = |comparison, floor| {
            let number = Number { floor, has_fraction: false, real: None };
            FieldCondition::Compare(left.clone(), comparison, Literal::Number(number))
        };
        FieldCondition::All(vec![end(Comparison::GreaterOrEqual, first), end(Comparison::LessOrEqual, last)])
    };
    let any = FieldCondition::Any(integer.ranges().filter(|(label, ..)| is_meant(label)).map(within).collect());
    if comparison == Comparison::Equal { any } else { FieldCondition::Not(Box::new(any)) }
}

/// Everything but the names of events that are on.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct EventRules {
    conditions: Vec<EventCondition>,
    contexts: Vec<(String, Contexts)>,
    triggers: Vec<Trigger>,
}

impl EventRules {
    /// Sets a condition, in place of the one before for the same events. `false` when there are too many.
    pub(crate) fn set_condition(&mut self, condition: EventCondition) -> bool {
        self.conditions.retain(|known| known.events != condition.events);
        if self.conditions.len() >= MAX_RULES {
            return false;
        }
        // One that is always true is in the way of those before it only.
        if condition.condition != FieldCondition::Const(true) || !self.conditions.is_empty() {
            self.conditions.push(condition);
        }
        true
    }

    /// Sets the contexts of the events of a list, in place of those before for the same list. `false` when there are too many.
    pub(crate) fn set_contexts(&mut self, events: String, contexts: Contexts) -> bool {
        self.contexts.retain(|(known, _)| *known != events);
        let has_room = self.contexts.len() < MAX_RULES;
        if has_room {
            self.contexts.push((events, contexts));
        }
        has_room
    }

    /// The contexts of an event: the last list that names it decides.
    pub(crate) fn contexts(&self, name: &str, level: Option<Level>) -> Contexts {
        let rule = self.contexts.iter().rev().find(|(events, _)| is_allowed(events, name, level));
        rule.map_or(Contexts::default(), |(_, contexts)| *contexts)
    }

    /// Adds a trigger. `false` when there are too many.
    pub(crate) fn add_trigger(&mut self, trigger: Trigger) -> bool {
        let has_room = self.triggers.len() < MAX_TRIGGERS;
        if has_room {
            self.triggers.push(trigger);
        }
        has_room
    }

    /// The triggers, in the order of their numbers.
    pub(crate) fn triggers(&self) -> &[Trigger] {
        &self.triggers
    }

    /// Takes all triggers away.
    pub(crate) fn clear_triggers(&mut self) {
        self.triggers.clear();
    }

    /// The condition of an event: the last one that names it decides.
    pub(crate) fn condition(&self, name: &str, level: Option<Level>) -> Option<&EventCondition> {
        self.conditions.iter().rev().find(|rule| is_allowed(&rule.events, name, level))
    }
}

/// Does a list of globs let an event through?
pub(crate) fn is_allowed(globs: &str, name: &str, level: Option<Level>) -> bool {
    let mut globs = globs.split(',').filter(|glob| !glob.is_empty()).peekable();
    // A list that only leaves out begins with everything.
    let mut is_on = globs.peek().is_none_or(|first| first.starts_with('-'));
    for glob in globs {
        let (glob, lets) = glob.strip_prefix('-').map_or((glob, true), |rest| (rest, false));
        let (glob, least) = with_level(glob);
        let is_serious = least.is_none_or(|least| level.is_some_and(|level| level <= least));
        if is_serious && glob::matches(glob.as_bytes(), name.as_bytes()) {
            is_on = lets;
        }
    }
    is_on
}

/// A glob, and the least serious level that it means: `app:*@warning`.
fn with_level(glob: &str) -> (&str, Option<Level>) {
    match glob.rsplit_once('@') {
        Some((name, level)) => Level::of_name(level).map_or((glob, None), |level| (name, Some(level))),
        None => (glob, None),
    }
}

/// The list with more globs at its end; those before that say something about the same names are gone.
pub(crate) fn extended(globs: &str, more: &str) -> String {
    let name = |glob: &str| glob.trim_start_matches('-').to_string();
    let mut list: Vec<&str> = globs.split(',').filter(|glob| !glob.is_empty()).collect();
    // It says what it begins with, whatever comes after that.
    match list.first() {
        Some(first) if name(first) == "*" => {}
        None => list.insert(0, "*"),
        Some(first) if first.starts_with('-') => list.insert(0, "*"),
        Some(_) => list.insert(0, "-*"),
    }
    for glob in more.split(',').filter(|glob| !glob.is_empty()) {
        if name(glob) == "*" {
            list.clear();
        } else if let Some(at) = list.iter().position(|known| name(known) == name(glob)) {
            list.remove(at);
        }
        list.push(glob);
    }
    list.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_glob_that_matches_decides() {
        for (globs, name, lets) in [
            ("", "a:b", true),
            ("app:*,-app:poll", "app:read", true),
            ("app:*,-app:poll", "app:poll", false),
            ("app:*,-app:poll", "other", false),
            ("-*:poll", "a:read", true),
            ("-*,a:*d", "a:read", true),
            ("-*,a:*d?", "a:read", false),
            ("a:*@home", "a:x@home", true),
        ] {
            assert_eq!(is_allowed(globs, name, None), lets, "{globs} {name}");
        }
    }

    #[test]
    fn levels_are_at_least_as_serious() {
        let lets = |globs: &str, level: Option<Level>| is_allowed(globs, "app:x", level);
        assert!(lets("app:*@warning", Some(Level::Error)) && lets("app:*@warn", Some(Level::Warning)));
        assert!(!lets("app:*@warning", Some(Level::Info)) && !lets("app:*@warning", None));
        assert!(lets("app:*@trace", Some(Level::Debug)) && !lets("app:*@debug", Some(Level::Trace)));
        assert!(lets("-*,*@info", Some(Level::Info)) && !lets("*,-*@info", Some(Level::Critical)));
        assert!(lets("*@debug:line", Some(Level::DebugUnit)) && !lets("*@debug:unit", Some(Level::DebugLine)));
        for (number, (level, in_traces, names)) in (0..).zip(LEVELS) {
            assert_eq!((level.number(), Level::of_number(number)), (number, Some(level)));
            assert_eq!((level.name(), level.name_in_traces()), (names[0], in_traces));
            assert!(names.iter().all(|name| Level::of_name(name) == Some(level)));
        }
        assert_eq!(Level::of_number(15), None);
    }

    #[test]
    fn lists_grow_only_by_what_is_new() {
        for (globs, more, expected) in [
            ("", "app:*", "*,app:*"),
            ("", "-app:*", "*,-app:*"),
            ("-*", "app:*", "-*,app:*"),
            ("-*,app:*", "-app:*", "-*,-app:*"),
            ("-a", "a", "*,a"),
            ("-a,-b", "a", "*,-b,a"),
            ("a,b", "-a,c", "-*,b,-a,c"),
            ("a", "-a", "-*,-a"),
            ("a,b@info", "*", "*"),
            ("a", "-*", "-*"),
            ("*", "b@info", "*,b@info"),
        ] {
            assert_eq!(extended(globs, more), expected, "{globs} {more}");
        }
    }

    #[test]
    fn the_last_condition_for_an_event_decides() {
        let rule = |events: &str, value| EventCondition {
            events: events.to_string(),
            source: String::new(),
            condition: FieldCondition::Const(value),
        };
        let mut rules = EventRules::default();
        assert!(rules.set_condition(rule("*", true)) && rules == EventRules::default());
        assert!(rules.set_condition(rule("app:*", false)) && rules.set_condition(rule("app:x", true)));
        let condition = |rules: &EventRules, name: &str| rules.condition(name, None).map(|rule| rule.condition.clone());
        assert_eq!(condition(&rules, "app:x"), Some(FieldCondition::Const(true)));
        assert_eq!(condition(&rules, "app:y"), Some(FieldCondition::Const(false)));
        assert_eq!(condition(&rules, "lib:x"), None);
        assert!(rules.set_condition(rule("app:*", true)));
        assert_eq!(condition(&rules, "app:y"), Some(FieldCondition::Const(true)));
        assert!((0..MAX_RULES - 2).all(|n| rules.set_condition(rule(&n.to_string(), false))));
        assert!(!rules.set_condition(rule("one too many", false)));
    }
    #[test]
    fn labels_are_compared_by_their_values() {
        use crate::field::{IntegerClass, ValueLabel};
        use tracemill_ring::condition::{Operand, PlainValue};

        let label = |name, first: i64, last: i64| ValueLabel { name, first: first as u64, last: last as u64 };
        let labels = vec![label("rye", -1, -1), label("oats", 0, 5), label("old oats", 9, 9), label("none", 1, 0)];
        let integer = IntegerClass {
            bits: 32,
            is_signed: true,
            is_big_endian: true,
            is_hexadecimal: false,
            labels: labels.leak(),
        };
        let is_true = |comparison, literal: Literal, class, value| {
            let left = Operand { parts: vec![OperandPart::Field("grain".to_string())] };
            let condition = FieldCondition::Compare(left, comparison, literal);
            bound(&condition, "mill:grains", &["sack", "grain"], &[FieldClass::Bool, class])
                .is_true("mill:grains", |_| PlainValue::Integer(value))
        };
        for (comparison, literal, holds) in [
            (Comparison::Equal, Literal::Text(b"oats".into()), [false, true, true, false]),
            (Comparison::NotEqual, Literal::Text(b"oats".into()), [true, false, false, true]),
            (Comparison::Equal, Literal::Glob(b"*oats".into()), [false, true, true, true]),
            (Comparison::Equal, Literal::Text(b"none".into()), [false; 4]),
            (Comparison::Less, Literal::Text(b"oats".into()), [false; 4]),
        ] {
            let found =
                [-1, 0, 5, 9].map(|value| is_true(comparison, literal.clone(), FieldClass::Integer(integer), value));
            assert_eq!(found, holds, "{comparison:?} {literal:?}");
        }
        let other = is_true(Comparison::NotEqual, Literal::Text(b"oats".into()), FieldClass::Signed(32), 7);
        assert!(!other, "a number is no text");
    }
}
