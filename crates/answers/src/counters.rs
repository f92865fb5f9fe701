//! Counters that the classes of events tell: each has a track from the beginning; those of CPUs have one for each CPU.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracemill_engine::events::Events;
use tracemill_engine::filter::{ColumnList, KeyBy, KeyReader, KeyValue};
use tracemill_engine::selection::ClassSet;
use tracemill_engine::timeline::Selection;
use tracemill_model::schema::{EventClassId, FieldPath, PathStep, Schema};
use tracemill_semantics::Semantics;

use crate::ids::{FieldId, FieldValue};
use crate::traces::ShownTraces;

/// Tracks of counters at most, of each trace.
const MOST: usize = 256;

/// A counter that has a track.
#[derive(Clone, Debug)]
pub(crate) struct CounterTrack {
    pub(crate) field: FieldId,
    pub(crate) name: String,
    pub(crate) unit: Option<&'static str>,
}

/// A path as filters take it; `None` for one through arrays.
fn path_text(schema: &Schema, class: EventClassId, path: &FieldPath) -> Option<String> {
    let mut text = path.scope.key().to_string();
    let mut root = schema.scope_root(path.scope, class);
    for step in &path.steps {
        let PathStep::Member(at) = step else { return None };
        let member = schema.members(root).get(*at as usize)?;
        let is_plain = member.name.bytes().all(|sign| sign.is_ascii_alphanumeric() || sign == b'_');
        text += &if is_plain { format!(".{}", member.name) } else { format!(".`{}`", member.name) };
        root = Some(member.class);
    }
    Some(text)
}

/// Finds the counters of all traces: those of CPUs are looked for in the events. `None` when `stop` was set.
pub(crate) fn find(traces: &ShownTraces, stop: &Arc<AtomicBool>) -> Option<Vec<CounterTrack>> {
    let mut all = Vec::new();
    for (trace, of) in traces.session.traces.iter().enumerate() {
        let semantics = Semantics::new(&of.schema);
        let mut own: Vec<CounterTrack> = Vec::new();
        // By the path that says the CPU: classes, and what they count.
        let mut of_cpus: BTreeMap<String, (BTreeSet<u32>, Vec<CounterTrack>)> = BTreeMap::new();
        for class in (0..of.schema.events().len() as u32).map(EventClassId) {
            let Some(name) = of.schema.event(class).name.as_deref() else { continue };
            for counter in semantics.counters(class) {
                let Some(path) = path_text(&of.schema, class, &counter.field) else { continue };
                let field = FieldId { trace, name: name.to_string(), path, of: None };
                let known = CounterTrack { field, name: counter.name.to_string(), unit: counter.unit };
                if !counter.is_of_cpu {
                    own.push(known);
                    continue;
                }
                let counted = semantics.counted_cpu(class).and_then(|path| path_text(&of.schema, class, &path));
                let (classes, list) = of_cpus.entry(counted.unwrap_or_else(|| "cpu".to_string())).or_default();
                classes.insert(class.0);
                list.push(known);
            }
        }
        for (path, (classes, list)) in of_cpus {
            for cpu in cpus(traces, trace, &path, &classes, stop)? {
                own.extend(list.iter().map(|known| {
                    let of = Some(FieldValue { path: path.clone(), value: cpu.to_string() });
                    let name = format!("{}, CPU {cpu}", known.name);
                    CounterTrack { field: FieldId { of, ..known.field.clone() }, name, unit: known.unit }
                }));
            }
        }
        // Several classes may have one name.
        let mut seen = BTreeSet::new();
        own.retain(|known| seen.insert(known.field.id()));
        own.truncate(MOST);
        all.extend(own);
    }
    Some(all)
}

/// The CPUs that events of some classes name.
fn cpus(
    traces: &ShownTraces,
    trace: usize,
    path: &str,
    wanted: &BTreeSet<u32>,
    stop: &Arc<AtomicBool>,
) -> Option<BTreeSet<i128>> {
    let ShownTraces { session, streams, selection, filter, .. } = traces;
    let Ok(columns) = ColumnList::parse(path).and_then(|list| list.bind(session)) else { return Some(BTreeSet::new()) };
    let mut keys = KeyReader::new(session, &KeyBy::Paths(columns));
    let own = selection.classes.get(trace).cloned().flatten();
    let count = session.traces[trace].schema.events().len();
    let is_it = |class: usize| wanted.contains(&(class as u32)) && own.as_ref().is_none_or(|own| own.has(class as u32));
    let mut classes = selection.classes.clone();
    classes.resize(session.traces.len(), None);
    classes[trace] = Some(Arc::new(ClassSet::new(count, is_it)));
    let streams: Vec<_> = streams.iter().filter(|of| of.trace == trace).cloned().collect();
    let selection = Selection { classes, jobs: 1, stop: Some(stop.clone()), ..selection.clone() };
    let (mut found, mut key) = (BTreeSet::new(), Vec::new());
    let events = Events::new(session, &streams, &selection, filter.as_ref());
    events.for_each(
        |event| {
            if found.len() < MOST
                && let Some((_, KeyValue::Integer(cpu))) = keys.values(event, &mut key).first()
            {
                found.insert(*cpu);
            }
        },
        |_| ControlFlow::Continue(()),
    );
    (!stop.load(Ordering::Relaxed)).then_some(found)
}
