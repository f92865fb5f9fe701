//! Values of a field as numbers of tracks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tracemill_engine::event::Event;
use tracemill_engine::filter::{ClassFields, ColumnList, Filter, KeyBy, KeyReader, KeyValue};
use tracemill_engine::session::Session;
use tracemill_model::error::Result;
use tracemill_model::schema::EventClassId;
use tracemill_semantics::{Semantics, Who};

/// Values that have tracks of their own.
pub const MOST_VALUES: usize = 256;

/// Words that stand for what the classes of events say in different fields.
pub const THREAD: &str = "thread";
/// See [`THREAD`].
pub const PROCESS: &str = "process";

/// The field that events are grouped by, and the values that were met.
pub(crate) struct Grouping {
    path: String,
    by: KeyBy,
    /// The field that names the values, where they are numbers without one of their own.
    named_by: Option<KeyBy>,
    pub(crate) filter: Option<Filter>,
    pub(crate) values: Mutex<ValueList>,
}

#[derive(Default)]
pub(crate) struct ValueList {
    pub(crate) list: Vec<(KeyValue, String)>,
    of_key: HashMap<Box<[u8]>, usize>,
}

/// Fields of event classes by what semantics knows of them.
fn fields(session: &Session, fields: impl Fn(Who) -> ClassFields) -> KeyBy {
    let of_trace = session.traces.iter().map(|trace| {
        let semantics = Semantics::new(&trace.schema);
        (0..trace.schema.events().len()).map(|class| fields(semantics.who(EventClassId(class as u32)))).collect()
    });
    KeyBy::Fields(Arc::new(of_trace.collect()))
}

impl Grouping {
    pub(crate) fn new(session: &Session, path: &str, filter: Option<Filter>) -> Result<Grouping> {
        let (by, named_by) = match path {
            THREAD => {
                let by = fields(session, |who| who.id.into_iter().map(|path| (0, path)).collect());
                let names = fields(session, |who| who.name.into_iter().map(|path| (0, path)).collect());
                (by, Some(names))
            }
            PROCESS => (fields(session, |who| who.process.into_iter().map(|path| (0, path)).collect()), None),
            path => (KeyBy::Paths(ColumnList::parse(path)?.bind(session)?), None),
        };
        Ok(Grouping { path: path.to_string(), by, named_by, filter, values: Mutex::default() })
    }

    /// The number of a value, by its key: [`MOST_VALUES`] for all those after the first ones.
    fn number(&self, key: &[u8], labels: &mut LabelReaders, event: &Event<'_>) -> usize {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = values.of_key.get(key) {
            return *number;
        }
        let number = values.list.len();
        if number >= MOST_VALUES {
            return number;
        }
        let value = KeyReader::decode(key).pop().map_or(KeyValue::Absent, |(_, value)| value);
        let name = self.name(&value, labels, event);
        values.list.push((value, name));
        values.of_key.insert(key.into(), number);
        number
    }

    /// How a value is called, which an event has.
    fn name(&self, value: &KeyValue, labels: &mut LabelReaders, event: &Event<'_>) -> String {
        let words = match &mut labels.beside {
            Some(beside) => match beside.values(event, &mut labels.key).pop() {
                Some((_, KeyValue::Text(text))) => Some(String::from_utf8_lossy(&text).into_owned()),
                _ => None,
            },
            None => labels.keys.label(event),
        };
        match (value, words.filter(|words| !words.is_empty())) {
            (KeyValue::Absent, _) => format!("no {}", self.path),
            (KeyValue::Text(_), _) => value.to_string(),
            (_, Some(words)) if self.named_by.is_some() => format!("{words} {value}"),
            (_, Some(words)) => format!("{words} ({value})"),
            (_, None) => format!("{} {value}", self.path),
        }
    }
}

/// Readers of what values are called.
struct LabelReaders {
    keys: KeyReader,
    beside: Option<KeyReader>,
    key: Vec<u8>,
}

/// Numbers of tracks that are known by a cheap name of their key.
const QUICK: usize = 4096;

/// Reads which value an event has.
pub(crate) struct ValueReader {
    grouping: Arc<Grouping>,
    keys: KeyReader,
    labels: LabelReaders,
    key: Vec<u8>,
    quick: HashMap<(u64, u64), usize>,
    matcher: Option<tracemill_engine::filter::Matcher>,
}

impl ValueReader {
    pub(crate) fn new(session: &Session, grouping: &Arc<Grouping>) -> ValueReader {
        ValueReader {
            keys: KeyReader::new(session, &grouping.by),
            labels: LabelReaders {
                keys: KeyReader::new(session, &grouping.by),
                beside: grouping.named_by.as_ref().map(|by| KeyReader::new(session, by)),
                key: Vec::new(),
            },
            key: Vec::new(),
            quick: HashMap::new(),
            matcher: grouping.filter.as_ref().map(Filter::matcher),
            grouping: grouping.clone(),
        }
    }

    /// The number of the value; `None` when the filter leaves the event out.
    pub(crate) fn number(&mut self, event: &Event<'_>) -> Option<usize> {
        if self.matcher.as_mut().is_some_and(|matcher| !matcher.matches(event)) {
            return None;
        }
        let quick = self.keys.quick(event);
        if let Some(number) = quick.and_then(|quick| self.quick.get(&quick)) {
            return Some(*number);
        }
        self.key.clear();
        self.keys.encode(event, &mut self.key);
        let number = self.grouping.number(&self.key, &mut self.labels, event);
        if let Some(quick) = quick.filter(|_| self.quick.len() < QUICK) {
            self.quick.insert(quick, number);
        }
        Some(number)
    }

    /// How the value of a number is called.
    pub(crate) fn name(&self, number: usize) -> String {
        let values = self.grouping.values.lock().unwrap_or_else(PoisonError::into_inner);
        values.list.get(number).map_or_else(|| "other values".to_string(), |(_, name)| name.clone())
    }
}
