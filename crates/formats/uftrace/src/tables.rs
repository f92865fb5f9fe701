//! Facts and tables of a folder for people.

use std::sync::Arc;

use tracemill_format::Section;
use tracemill_model::schema::EnvValue;

use super::info::Info;
use super::names::Names;

/// Facts about the run.
pub(super) fn environment(info: &Info) -> Vec<(Arc<str>, EnvValue)> {
    // Specifications are long and no facts about the run.
    let hidden = ["argspec", "retspec", "argauto", "retauto", "enumauto"];
    let entries = info.entries.iter().filter(|(key, _)| !hidden.contains(&key.as_str()));
    let mut values: Vec<(Arc<str>, EnvValue)> =
        entries.map(|(key, value)| (key.as_str().into(), EnvValue::String(value.as_str().into()))).collect();
    values.push(("word_bits".into(), EnvValue::Integer(if info.is_64_bit { 64 } else { 32 })));
    values.extend(info.max_stack.map(|depth| ("max_stack".into(), EnvValue::Integer(depth.into()))));
    values
}

/// Tables for `info`: tasks, sessions, modules.
pub(super) fn sections(names: &Names, tids: &[i64]) -> Vec<Section> {
    let text = |text: &str| Some(EnvValue::String(text.into()));
    let number = |number: i128| Some(EnvValue::Integer(number));
    let task_rows = tids.iter().map(|&tid| {
        let task = names.tasks.tasks.get(&tid);
        vec![
            number(tid.into()),
            task.map(|task| EnvValue::Integer(task.pid.into())),
            task.filter(|task| task.parent != 0).map(|task| EnvValue::Integer(task.parent.into())),
        ]
    });
    let session_rows = names.tasks.sessions.iter().map(|session| {
        vec![
            text(&session.sid),
            number(session.pid.into()),
            number(session.start.into()),
            text(&session.exename),
            number(session.loaded.len() as i128),
        ]
    });
    let module_rows = names.modules.iter().map(|module| {
        vec![
            text(&module.path),
            module.build_id.as_deref().and_then(text),
            number(module.symbols.get().len() as i128),
            module.symbol_file.as_deref().and_then(text),
        ]
    });
    vec![
        Section { title: "tasks".into(), columns: vec!["tid", "pid", "parent"], rows: task_rows.collect() },
        Section {
            title: "sessions".into(),
            columns: vec!["sid", "pid", "start_ns", "exename", "loaded_libraries"],
            rows: session_rows.collect(),
        },
        Section {
            title: "modules".into(),
            columns: vec!["path", "build_id", "symbols", "file"],
            rows: module_rows.collect(),
        },
    ]
}
