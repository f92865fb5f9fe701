//! Facts and tables of a folder for people.

use std::sync::Arc;

use tracemill_format::Section;
use tracemill_model::schema::EnvValue;

use super::info::Info;
use super::names::SymbolNames;

/// Facts about the run.
pub(super) fn environment(info: &Info) -> Vec<(Arc<str>, EnvValue)> {
    // Specifications are long and no facts about the run.
    let hidden = ["argspec", "retspec", "argauto", "retauto", "enumauto"];
    let entries = info.entries.iter().filter(|(key, _)| !hidden.contains(&key.as_str()));
    let mut values: Vec<(Arc<str>, EnvValue)> =
        entries.map(|(key, value)| (key.as_str().into(), EnvValue::String(value.trim_end().into()))).collect();
    values.push(("word_bits".into(), EnvValue::Integer(if info.is_64_bit { 64 } else { 32 })));
    values.extend(info.max_stack.map(|depth| ("max_stack".into(), EnvValue::Integer(depth.into()))));
    values
}

/// Tables for `info`: tasks, sessions, modules.
pub(super) fn sections(names: &SymbolNames, tids: &[i64]) -> Vec<Section> {
    let (text, number) = (Section::text, |value: i64| Section::number(value));
    let task = |tid: &i64| names.tasks.tasks.get(tid);
    vec![
        Section::from_items(
            "tasks",
            tids.iter().copied(),
            &[
                ("tid", &|tid| number(*tid)),
                ("pid", &|tid| number(task(tid)?.pid)),
                ("parent", &|tid| number(task(tid).filter(|task| task.parent != 0)?.parent)),
            ],
        ),
        Section::from_items(
            "sessions",
            &names.tasks.sessions,
            &[
                ("sid", &|session| text(&session.sid)),
                ("pid", &|session| number(session.pid)),
                ("start_ns", &|session| Section::number(session.start)),
                ("exename", &|session| text(&session.exename)),
                ("loaded_libraries", &|session| number(session.loaded.len() as i64)),
            ],
        ),
        Section::from_items(
            "modules",
            &names.modules,
            &[
                ("path", &|module| text(&module.path)),
                ("build_id", &|module| text(module.build_id.as_deref()?)),
                ("symbols", &|module| number(module.symbols.get().len() as i64)),
                ("file", &|module| text(module.symbol_file.as_deref()?)),
            ],
        ),
    ]
}
