//! Definitions of states and counters, bound to the event classes of a session.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use tracemill_codec::text::suggest;
use tracemill_engine::event::Event;
use tracemill_engine::filter::{Expression, Filter, KeyValue, Needs};
use tracemill_engine::parsed_query::times;
use tracemill_engine::session::Session;
use tracemill_model::error::{Error, Result};

use super::definitions::{Action, CounterStep, CustomDefinitions, CustomKind, CustomRule};
use crate::kernel::question::event_paths::{PathReader, StateOf};
use crate::kernel::question::written::Written;
use crate::target::{Target, Verdict};

/// Definitions that are bound to a session.
pub struct BoundCustom {
    pub(super) definitions: Vec<BoundDefinition>,
    pub(super) rules: Vec<BoundRule>,
    /// For each trace and event class, the rules of its events, in the order of the file.
    pub(super) by_class: Vec<Vec<Vec<ClassRule>>>,
    /// The readers of each rule: of its key, and of the field that its action names.
    readers: RefCell<Vec<(PathReader, Option<PathReader>)>>,
    /// Names of the values of keys: of states, and of counters.
    columns: [Vec<Arc<str>>; 2],
    unknown: Vec<Error>,
}

/// A definition.
pub(super) struct BoundDefinition {
    pub(super) kind: CustomKind,
    pub(super) name: Arc<str>,
    /// For each value of its key, the column.
    pub(super) columns: Vec<usize>,
}

/// A rule of a definition.
pub(super) struct BoundRule {
    pub(super) definition: u32,
    pub(super) target: Target,
    pub(super) condition: Option<Filter>,
    pub(super) action: BoundAction,
}

/// The action of a rule, whose field the readers know.
pub(super) enum BoundAction {
    Enter(Arc<str>),
    Count(CounterStep, f64),
    Field(CounterStep),
    End,
}

/// A rule that may be about the events of a class.
#[derive(Clone, Copy)]
pub(super) struct ClassRule {
    pub(super) rule: u32,
    /// Does each event of the class say whether it is meant?
    pub(super) is_asked: bool,
}

impl BoundCustom {
    /// Looks up events and paths in a session. With `gmt`, times without a zone are universal time. Rules of events that the
    /// traces do not have are left out, and [reported](BoundCustom::unknown_events).
    ///
    /// # Errors
    /// When the traces have none of the events, when no event class has a path, when a comparison can never be true, or when a
    /// time cannot be resolved.
    pub fn new(definitions: &CustomDefinitions, session: &Session, gmt: bool) -> Result<BoundCustom> {
        let conditions = definitions.0.iter().flat_map(|of| &of.rules).filter_map(|rule| rule.condition.as_ref());
        let times = times(session, gmt, conditions.fold(Needs::default(), |needs, of| needs.or(of.1.needs())));
        let classes = session.traces.iter().map(|trace| vec![Vec::new(); trace.schema.events().len()]);
        let mut bound = BoundCustom {
            by_class: classes.collect(),
            definitions: Vec::new(),
            rules: Vec::new(),
            readers: RefCell::default(),
            columns: Default::default(),
            unknown: Vec::new(),
        };
        let mut readers = Vec::new();
        for (at, of) in (0..).zip(&definitions.0) {
            for rule in &of.rules {
                let verdicts = match rule.target.bind(session) {
                    Ok(verdicts) => verdicts,
                    Err(error) => {
                        bound.unknown.push(unknown_event(rule, &error, session));
                        continue;
                    }
                };
                let key = match &rule.key {
                    Some(own) => PathReader::bind(own, session)?,
                    None => PathReader::bind(of.key.iter().map(|(_, path)| path), session)?,
                };
                let (action, field) = match &rule.action {
                    Action::Enter(state) => (BoundAction::Enter(state.clone()), None),
                    Action::Count(step, number) => (BoundAction::Count(*step, *number), None),
                    Action::Field(step, path) => (BoundAction::Field(*step), Some(PathReader::bind([path], session)?)),
                    Action::End => (BoundAction::End, None),
                };
                let bind = |(written, expression): &(Written, Expression)| {
                    expression.bind(session, &times).map_err(|error| written.placed(error))
                };
                let condition = rule.condition.as_ref().map(bind).transpose()?;
                bound.add_rule(&verdicts);
                bound.rules.push(BoundRule { definition: at, target: rule.target.clone(), condition, action });
                readers.push((key, field));
            }
            let columns = of.key.iter().map(|(name, _)| bound.column(of.kind, name)).collect();
            bound.definitions.push(BoundDefinition { kind: of.kind, name: of.name.clone(), columns });
        }
        if bound.rules.is_empty()
            && let Some(first) = bound.unknown.first()
        {
            return Err(first.clone());
        }
        Ok(BoundCustom { readers: RefCell::new(readers), ..bound })
    }

    /// Ties the next rule to the classes of its events.
    fn add_rule(&mut self, verdicts: &[Vec<Verdict>]) {
        let rule = self.rules.len() as u32;
        for (classes, verdicts) in self.by_class.iter_mut().zip(verdicts) {
            for (rules, verdict) in classes.iter_mut().zip(verdicts).filter(|(_, verdict)| **verdict != Verdict::No) {
                rules.push(ClassRule { rule, is_asked: *verdict == Verdict::Ask });
            }
        }
    }

    /// The column of a value of a key.
    fn column(&mut self, kind: CustomKind, name: &Arc<str>) -> usize {
        let columns = &mut self.columns[kind as usize];
        columns.iter().position(|known| known == name).unwrap_or_else(|| {
            columns.push(name.clone());
            columns.len() - 1
        })
    }

    /// The names of the values of keys of a kind.
    pub(super) fn columns(&self, kind: CustomKind) -> &[Arc<str>] {
        &self.columns[kind as usize]
    }

    /// For each rule whose events the traces do not have, an error that says so.
    pub fn unknown_events(&self) -> &[Error] {
        &self.unknown
    }

    /// The values of the key of an event; `None` when one is not known.
    pub(super) fn key(&self, rule: u32, event: &Event<'_>, state: &StateOf<'_>) -> Option<Rc<[KeyValue]>> {
        self.readers.borrow_mut()[rule as usize].0.values(event, state)
    }

    /// The value of the field that the action of a rule names.
    pub(super) fn field(&self, rule: u32, event: &Event<'_>, state: &StateOf<'_>) -> Option<KeyValue> {
        let mut readers = self.readers.borrow_mut();
        readers[rule as usize].1.as_mut()?.values(event, state)?.first().cloned()
    }

    /// The word for the value of that field, where it has one: the label of an enumeration, for example.
    pub(super) fn word(&self, rule: u32, event: &Event<'_>) -> Option<String> {
        self.readers.borrow_mut()[rule as usize].1.as_mut()?.word(event)
    }
}

/// Says that the traces do not have the events of a rule, and which ones may be meant.
fn unknown_event(rule: &CustomRule, error: &Error, session: &Session) -> Error {
    let classes = session.traces.iter().flat_map(|trace| trace.schema.events());
    let names: Vec<&str> = classes.filter_map(|class| class.name.as_deref()).collect();
    suggest(rule.event.error(error.message()), rule.target.text(), names)
}
