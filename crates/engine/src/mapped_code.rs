//! The code that processes had mapped in traces of formats that do not know of it, by what events say: a recording of perf that
//! became another format keeps its records as events.

use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use tracemill_codec::text::unhex;
use tracemill_format::OpenTrace;
use tracemill_format::code::CodeMaps;
use tracemill_format::mapped::{CodeMapping, EXECUTABLE, KERNEL, MappedCode, UNREGISTERED};
use tracemill_model::error::Error;
use tracemill_model::schema::EventClassId;
use tracemill_semantics::{CodeFields, Semantics};

use crate::event::Event;
use crate::events::Events;
use crate::filter::{ClassFields, KeyBy, KeyReader, KeyValue};
use crate::selection::{ClassSet, streams};
use crate::session::Session;
use crate::timeline::Selection;

/// By trace, once a sample asked for it.
#[derive(Default)]
pub struct MappedByEvents(OnceLock<Vec<Option<MappedCode>>>);

impl Session {
    /// The code that processes had mapped in a trace. Where its format does not know, and events of the session say it, the first
    /// call reads those.
    pub fn code_maps(&self, trace: usize) -> Option<&dyn CodeMaps> {
        if let Some(maps) = self.traces.get(trace)?.reader.code_maps() {
            return Some(maps);
        }
        let mapped = self.mapped_by_events.0.get_or_init(|| of_events(self));
        mapped.get(trace)?.as_ref().map(|code| code as &dyn CodeMaps)
    }

    /// Warnings about events that say which code is mapped and were not kept. There are none before a sample was read.
    pub fn code_warnings(&self) -> Vec<Error> {
        let mapped = self.mapped_by_events.0.get().map_or(&[][..], Vec::as_slice);
        let warning =
            |(trace, code): (&OpenTrace, &Option<MappedCode>)| Some(code.as_ref()?.warning()?.in_file(&trace.path));
        self.traces.iter().zip(mapped).filter_map(warning).collect()
    }
}

/// The classes that say which code is mapped, of the traces whose format does not know.
fn code_classes(session: &Session) -> Vec<Vec<Option<CodeFields>>> {
    let of_trace = |trace: &OpenTrace| {
        if trace.reader.code_maps().is_some() {
            return Vec::new();
        }
        let semantics = Semantics::new(&trace.schema);
        (0..trace.schema.events().len()).map(|at| semantics.code(EventClassId(at as u32))).collect()
    };
    session.traces.iter().map(of_trace).collect()
}

/// Indexes of the values that are read.
const PROCESS: usize = 0;
const BEGIN: usize = 1;
const LEN: usize = 2;
const FILE_OFFSET: usize = 3;
const NAME: usize = 4;
const DATA: usize = 5;
const PROTECTION: usize = 6;
const BUILD_ID: usize = 7;
const FLAGS: usize = 8;
const PARENT: usize = 9;

/// The values of a class that are read.
fn paths(code: &CodeFields) -> ClassFields {
    let all: &[(usize, Option<&_>)] = match code {
        CodeFields::Map { process, begin, len, file_offset, file, data, protection, build_id } => &[
            (PROCESS, Some(process)),
            (BEGIN, Some(begin)),
            (LEN, Some(len)),
            (FILE_OFFSET, Some(file_offset)),
            (NAME, Some(file)),
            (DATA, data.as_ref()),
            (PROTECTION, protection.as_ref()),
            (BUILD_ID, build_id.as_ref()),
        ],
        CodeFields::Function { begin, len, name, flags } => {
            &[(BEGIN, Some(begin)), (LEN, Some(len)), (NAME, Some(name)), (FLAGS, flags.as_ref())]
        }
        CodeFields::Exec { process, exec } => &[(PROCESS, Some(process)), (FLAGS, Some(exec))],
        CodeFields::Fork { process, parent } => &[(PROCESS, Some(process)), (PARENT, Some(parent))],
    };
    all.iter().filter_map(|(index, path)| Some((*index as u8, (*path)?.clone()))).collect()
}

/// Reads the events that say which code is mapped.
fn of_events(session: &Session) -> Vec<Option<MappedCode>> {
    let classes = code_classes(session);
    let has_any = |trace: usize| classes[trace].iter().any(Option::is_some);
    // Options that select streams do not say which code there was.
    let mut wanted = streams(session, &[]).unwrap_or_default();
    wanted.retain(|stream| has_any(stream.trace));
    if wanted.is_empty() {
        return Vec::new();
    }
    let set = |of: &Vec<Option<CodeFields>>| {
        Some(Arc::new(ClassSet::new(of.len(), |class| of.get(class).is_some_and(Option::is_some))))
    };
    let selection = Selection { classes: classes.iter().map(set).collect(), ..Selection::default() };
    let fields =
        |of: &Vec<Option<CodeFields>>| of.iter().map(|of| of.as_ref().map(paths).unwrap_or_default()).collect();
    let mut keys = KeyReader::new(session, &KeyBy::Fields(Arc::new(classes.iter().map(fields).collect())));
    let mut key = Vec::new();
    let mut mapped: Vec<MappedCode> = session.traces.iter().map(|_| MappedCode::default()).collect();
    let take = |event: &Event<'_>| {
        let class = event.raw.class().0 as usize;
        let Some(code) = classes[event.trace].get(class).and_then(Option::as_ref) else { return };
        let values = keys.values(event, &mut key);
        let value = |at: usize| values.iter().find(|(index, _)| *index == at).map(|(_, value)| value);
        let integer = |at: usize| match value(at) {
            Some(KeyValue::Integer(number)) => Some(*number),
            Some(KeyValue::Bool(flag)) => Some(i128::from(*flag)),
            _ => None,
        };
        let process = |at: usize| integer(at).and_then(|number| i32::try_from(number).ok());
        // Formats without 64-bit integers that have no sign show addresses of the kernel as negative ones.
        let address = |at: usize| integer(at).map(|number| number as u64);
        let text = |at: usize| match value(at) {
            Some(KeyValue::Text(text)) => text.as_slice(),
            _ => &[],
        };
        // Records before all others have no time.
        let time = event.ns.map_or(0, |_| event.raw.cycles());
        let of_trace = &mut mapped[event.trace];
        let place = address(BEGIN).zip(address(LEN));
        match code {
            CodeFields::Map { .. } => {
                let is_code = integer(DATA).unwrap_or(0) == 0
                    && integer(PROTECTION).is_none_or(|bits| bits & i128::from(EXECUTABLE) != 0);
                let Some(((begin, len), process)) = place.zip(process(PROCESS)).filter(|_| is_code) else { return };
                let build_id = unhex(text(BUILD_ID)).unwrap_or_default();
                let file_offset = address(FILE_OFFSET).unwrap_or(0);
                let name = text(NAME);
                let map = CodeMapping { begin, len, file_offset, name, build_id: &build_id, is_function: false };
                of_trace.map(process, time, &map);
            }
            CodeFields::Function { .. } => {
                let Some((begin, len)) =
                    place.filter(|_| integer(FLAGS).is_none_or(|bits| bits & i128::from(UNREGISTERED) == 0))
                else {
                    return;
                };
                let name = text(NAME);
                let map = CodeMapping { begin, len, file_offset: 0, name, build_id: &[], is_function: true };
                of_trace.map(KERNEL, time, &map);
            }
            CodeFields::Exec { .. } => {
                if let Some(process) = process(PROCESS).filter(|_| integer(FLAGS).is_some_and(|flag| flag != 0)) {
                    of_trace.exec(process, time);
                }
            }
            CodeFields::Fork { .. } => {
                if let Some((process, parent)) = process(PROCESS).zip(process(PARENT)) {
                    of_trace.fork(process, time, parent);
                }
            }
        }
    };
    // Damage and losses are reported by those who read all events.
    Events::new(session, &wanted, &selection, None).for_each(take, |_| ControlFlow::Continue(()));
    let finished = |mut code: MappedCode| {
        code.finish(|_| None);
        (!code.is_empty()).then_some(code)
    };
    mapped.into_iter().map(finished).collect()
}
