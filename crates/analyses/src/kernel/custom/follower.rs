//! From events to the state, or the number, that each key of a definition has.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use tracemill_engine::event::Event;
use tracemill_engine::filter::{KeyValue, Matcher};
use tracemill_semantics::states::{CpuIndex, Machines, Ns};

use super::bound::{BoundAction, BoundCustom, BoundRule};
use super::definitions::{CounterStep, CustomKind};
use crate::kernel::question::event_paths::{StateOf, cell_of};
use crate::kernel::value::Cell;

/// Keys of all definitions that are followed at most.
const MAX_KEYS: usize = 1 << 18;

/// States of all definitions that are told apart at most: fields may name any number of them.
const MAX_STATES: usize = 1 << 12;

/// Characters of the name of a state that a field names, at most; the rest is cut off.
const MAX_NAME: usize = 256;

/// The state or the value of a key.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Held {
    /// The number of a [state](CustomFollower::state).
    State(u32),
    /// The value of a counter.
    Number(f64),
}

/// A key holds something else from now on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CustomChange {
    /// The number of the key.
    pub key: u32,
    /// Since when it held something until now, and that.
    pub before: Option<(Ns, Held)>,
    /// The state or value from now on; `None` when it has ended.
    pub now: Option<Held>,
}

/// A key of a definition.
#[derive(Debug)]
pub struct CustomKey {
    /// The number of the definition in the file.
    pub definition: usize,
    /// The machine of its events.
    pub machine: u32,
    values: Rc<[KeyValue]>,
    held: Option<(Ns, Held)>,
}

impl CustomKey {
    /// Since when it holds something, and that.
    pub fn held(&self) -> Option<(Ns, Held)> {
        self.held
    }
}

/// Events that changed nothing though a rule is about them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct PassedEvents {
    /// A value of the key is not known.
    pub without_key: u64,
    /// The field that the action names is not known, or is not a number.
    pub without_value: u64,
    /// There are more keys than are followed.
    pub too_many_keys: u64,
    /// There are more states than are told apart.
    pub too_many_states: u64,
}

impl PassedEvents {
    /// The counts that are not 0, by their names.
    pub(super) fn notes(self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = [
            ("unknown_keys", self.without_key),
            ("unknown_values", self.without_value),
            ("too_many_keys", self.too_many_keys),
            ("too_many_states", self.too_many_states),
        ];
        all.into_iter().filter(|(_, count)| *count > 0)
    }
}

/// An event, as a follower sees it.
pub struct SeenEvent<'a> {
    /// The machines, after the event.
    pub machines: &'a Machines,
    /// The machine of the event.
    pub machine: u32,
    /// Its CPU.
    pub cpu: Option<CpuIndex>,
    /// Its time.
    pub at: Ns,
}

/// Follows the definitions of a kind, or of both.
pub struct CustomFollower {
    bound: Rc<BoundCustom>,
    kind: Option<CustomKind>,
    /// The conditions of the rules.
    matchers: Vec<Option<Matcher>>,
    keys: Vec<CustomKey>,
    numbers: BTreeMap<(u32, u32, Rc<[KeyValue]>), u32>,
    states: Vec<Arc<str>>,
    of_state: HashMap<Arc<str>, u32>,
    passed: PassedEvents,
    /// Storage.
    name: Vec<u8>,
}

impl CustomFollower {
    /// Follows the definitions of one kind, or all.
    pub fn new(bound: &Rc<BoundCustom>, kind: Option<CustomKind>) -> CustomFollower {
        let matcher = |rule: &BoundRule| rule.condition.as_ref().map(|condition| condition.matcher());
        CustomFollower {
            matchers: bound.rules.iter().map(matcher).collect(),
            bound: bound.clone(),
            kind,
            keys: Vec::new(),
            numbers: BTreeMap::new(),
            states: Vec::new(),
            of_state: HashMap::new(),
            passed: PassedEvents::default(),
            name: Vec::new(),
        }
    }

    /// Takes the next event; `changes` receives the keys that hold something else from it on. For each key of a definition, the
    /// first rule that fits counts.
    pub fn apply<'e>(&mut self, seen: &SeenEvent<'_>, event: &dyn Fn() -> Event<'e>, changes: &mut Vec<CustomChange>) {
        changes.clear();
        let event = &event();
        let bound = self.bound.clone();
        let class = event.raw.class().0 as usize;
        let Some(rules) = bound.by_class.get(event.trace).and_then(|classes| classes.get(class)) else { return };
        let state = &StateOf { machines: seen.machines, cpu: seen.cpu };
        let mut done: Vec<(u32, Rc<[KeyValue]>)> = Vec::new();
        for of_class in rules {
            let rule = &bound.rules[of_class.rule as usize];
            let definition = &bound.definitions[rule.definition as usize];
            if self.kind.is_some_and(|kind| kind != definition.kind) {
                continue;
            }
            let is_it = !of_class.is_asked || rule.target.asks(event, &mut self.name);
            let matcher = self.matchers[of_class.rule as usize].as_mut();
            if !is_it || matcher.is_some_and(|matcher| !matcher.matches_with(event, state)) {
                continue;
            }
            let Some(values) = bound.key(of_class.rule, event, state) else {
                self.passed.without_key += 1;
                continue;
            };
            let of = (rule.definition, values);
            if !done.contains(&of) {
                changes.extend(self.follow(&bound, of_class.rule, &of.1, seen, event, state));
                done.push(of);
            }
        }
    }

    /// Does what a rule says.
    fn follow(
        &mut self,
        bound: &BoundCustom,
        number: u32,
        values: &Rc<[KeyValue]>,
        seen: &SeenEvent<'_>,
        event: &Event<'_>,
        state: &StateOf<'_>,
    ) -> Option<CustomChange> {
        let rule = &bound.rules[number as usize];
        let key = self.key(rule.definition, seen.machine, values.clone(), !matches!(rule.action, BoundAction::End))?;
        let before = self.keys[key as usize].held;
        let now = match &rule.action {
            BoundAction::Enter(name) => Some(Held::State(self.enter(name)?)),
            BoundAction::Count(step, by) => Some(counted(before, *step, *by)),
            BoundAction::Field(step) => Some(self.of_field(bound, number, *step, before, event, state)?),
            BoundAction::End => None,
        };
        // A state goes on when an event leads to it once more; a counter that is set to its value is set all the same.
        if now == before.map(|(_, held)| held) && !matches!(now, Some(Held::Number(_))) {
            return None;
        }
        let at = before.map_or(seen.at, |(since, _)| since.max(seen.at));
        self.keys[key as usize].held = now.map(|held| (at, held));
        Some(CustomChange { key, before, now })
    }

    /// The state or the value that a field names.
    fn of_field(
        &mut self,
        bound: &BoundCustom,
        rule: u32,
        step: CounterStep,
        before: Option<(Ns, Held)>,
        event: &Event<'_>,
        state: &StateOf<'_>,
    ) -> Option<Held> {
        let value = bound.field(rule, event, state);
        let definition = bound.rules[rule as usize].definition as usize;
        let held = value.and_then(|value| match bound.definitions[definition].kind {
            CustomKind::States => {
                let name = bound.word(rule, event).unwrap_or_else(|| value.to_string());
                Some(name).filter(|name| !name.is_empty()).map(Ok)
            }
            CustomKind::Counter => number_of(&value).map(Err),
        });
        match held {
            Some(Ok(mut name)) => {
                if name.len() > MAX_NAME {
                    name = name.chars().take(MAX_NAME).collect();
                }
                self.enter(&name.into()).map(Held::State)
            }
            Some(Err(number)) => Some(counted(before, step, number)),
            None => {
                self.passed.without_value += 1;
                None
            }
        }
    }

    /// The number of a key; `None` where it is new and none is wanted, or when there are too many.
    fn key(&mut self, definition: u32, machine: u32, values: Rc<[KeyValue]>, is_wanted: bool) -> Option<u32> {
        let of = (definition, machine, values);
        if let Some(known) = self.numbers.get(&of) {
            return Some(*known);
        }
        if !is_wanted {
            return None;
        }
        if self.keys.len() == MAX_KEYS {
            self.passed.too_many_keys += 1;
            return None;
        }
        let number = self.keys.len() as u32;
        self.keys.push(CustomKey { definition: definition as usize, machine, values: of.2.clone(), held: None });
        self.numbers.insert(of, number);
        Some(number)
    }

    /// The number of a state.
    fn enter(&mut self, name: &Arc<str>) -> Option<u32> {
        if let Some(known) = self.of_state.get(name) {
            return Some(*known);
        }
        if self.states.len() == MAX_STATES {
            self.passed.too_many_states += 1;
            return None;
        }
        let number = self.states.len() as u32;
        self.states.push(name.clone());
        self.of_state.insert(name.clone(), number);
        Some(number)
    }

    /// The keys that were met.
    pub fn keys(&self) -> &[CustomKey] {
        &self.keys
    }

    /// The name of a state.
    pub fn state(&self, number: u32) -> &str {
        self.states.get(number as usize).map_or("", |name| &**name)
    }

    /// The name of the definition of a key.
    pub fn name(&self, key: &CustomKey) -> &str {
        self.definition_name(key.definition)
    }

    /// The name of a definition, by its number.
    pub(super) fn definition_name(&self, definition: usize) -> &str {
        self.bound.definitions.get(definition).map_or("", |of| &*of.name)
    }

    /// A key in words: the name of its definition, and its values.
    pub fn title(&self, key: &CustomKey) -> String {
        let values = key.values.iter().map(KeyValue::to_string).collect::<Vec<_>>().join(", ");
        format!("{} {values}", self.name(key)).trim_end().to_string()
    }

    /// The cells of the columns of keys.
    pub(super) fn cells(&self, key: &CustomKey) -> impl Iterator<Item = Cell> {
        let of = &self.bound.definitions[key.definition];
        let mut cells = vec![Cell::Null; self.bound.columns(of.kind).len()];
        for (column, value) in of.columns.iter().zip(&*key.values) {
            cells[*column] = cell_of(value);
        }
        cells.into_iter()
    }

    /// Events that changed nothing.
    pub fn passed(&self) -> PassedEvents {
        self.passed
    }
}

/// The value of a counter after a step. One without a value begins at 0.
fn counted(before: Option<(Ns, Held)>, step: CounterStep, by: f64) -> Held {
    let value = match before {
        Some((_, Held::Number(value))) => value,
        _ => 0.0,
    };
    let sum = match step {
        CounterStep::Add => value + by,
        CounterStep::Subtract => value - by,
        CounterStep::Set => by,
    };
    Held::Number(sum.clamp(f64::MIN, f64::MAX))
}

fn number_of(value: &KeyValue) -> Option<f64> {
    let number = match value {
        KeyValue::Integer(value) => Some(*value as f64),
        KeyValue::Bool(value) => Some(f64::from(*value)),
        KeyValue::Number(text) => text.parse().ok(),
        KeyValue::Absent | KeyValue::Text(_) => None,
    };
    number.filter(|number| number.is_finite())
}
