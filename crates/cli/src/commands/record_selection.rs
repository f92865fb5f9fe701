//! The functions whose calls `tracemill record` selects, in the language of the commands that read calls.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracemill_calls::rules::{Filter, KnownFunctions, PatternKind, Rule, RuleTexts, Rules};
use tracemill_format::calls::CallSymbol;
use tracemill_format::demangle::simple_name;
use tracemill_model::error::Error;
use tracemill_run::{Action, Actions, Decide, RecordedFunction, RecordedValue, StoredForm, ValueLines, ValuePlace};
use tracemill_uftrace::{RequestedValue, WantedForm, WantedPlace, wanted_values};

use crate::commands::record_debug as debug;

/// Refuses what only reading knows.
pub(crate) fn check(texts: &RuleTexts) -> Result<(), Error> {
    let acts = |word: &str| {
        let items = texts.triggers.iter().chain(&texts.filters).flat_map(|text| text.split(';'));
        let mut actions = items.filter_map(|item| item.split_once('@')).flat_map(|(_, actions)| actions.split(','));
        actions.any(|action| action.trim().to_ascii_lowercase().starts_with(word))
    };
    let refused = [
        (
            !texts.hides.is_empty(),
            "--hide cannot be had: functions are not hidden while recording; `replay -H` hides them",
        ),
        (acts("read="), "the trigger `read=` cannot be had: no counters are read while recording"),
    ];
    match refused.into_iter().find(|(is, _)| *is) {
        Some((_, sentence)) => Err(Error::unsupported(sentence)),
        None => Ok(()),
    }
}

/// The decision about functions; `None` when the texts name none. With `is_auto` values are those of which debugging
/// information or a prototype tells, where the texts name none.
pub(crate) fn decide(texts: &RuleTexts, values: &ValueLines, patches: &RuleTexts, is_auto: bool) -> Option<Decide> {
    // A size alone needs the sizes of functions.
    let has_values = is_auto || !values.arguments.is_empty() || !values.results.is_empty();
    let is_empty = texts.is_empty() && !has_values && patches.is_empty();
    let (texts, values, patches) = (texts.clone(), values.clone(), patches.clone());
    let has_warned = AtomicBool::new(false);
    let decide = move |functions: &[RecordedFunction]| {
        let mut warnings = Vec::new();
        let mut actions = actions(functions, &texts, &mut warnings);
        // Of patterns for patches the last one that matches counts, too.
        let patched = self::actions(functions, &patches, &mut warnings);
        for (action, patch) in actions.of.iter_mut().zip(patched.of) {
            action.is_patched = patch.filter == Some(true);
        }
        let has_globs = texts.patterns == PatternKind::Glob;
        add_values(&mut actions, functions, &values, has_globs);
        add_named_types(&mut actions, functions, &values, has_globs);
        if is_auto {
            add_auto_values(&mut actions, functions);
        }
        // Programs that the program executes have other functions.
        if !has_warned.swap(true, Ordering::Relaxed) {
            for warning in warnings {
                let _ = writeln!(std::io::stderr(), "warning: {warning}");
            }
        }
        actions
    };
    (!is_empty).then(|| Decide(Arc::new(decide)))
}

fn actions(functions: &[RecordedFunction], texts: &RuleTexts, warnings: &mut Vec<String>) -> Actions {
    let symbol = |function: &RecordedFunction| CallSymbol {
        name: simple_name(&function.name),
        module: Some(function.module.clone()),
        is_library_call: false,
        size: function.size,
    };
    let known = KnownFunctions {
        symbols: (0..).zip(functions.iter().map(symbol)).collect(),
        programs: functions.iter().take(1).map(|function| function.module.as_str()).collect(),
        shown_name: &|name| simple_name(name),
        source_file: &|id| {
            let function = functions.get(id as usize).filter(|_| !texts.locations.is_empty())?;
            debug::source_file(&function.path, function.address)
        },
    };
    let rules = Rules::for_functions(&known, texts, warnings);
    let action = |id| {
        let rule = rules.for_symbol(id).copied().unwrap_or_default();
        Action { is_alone: rules.hides_location(rule.location), ..action(&rule) }
    };
    let of = (0..functions.len() as u32).map(action).collect();
    Actions { of, is_opt_in: rules.is_opt_in() }
}

fn action(rule: &Rule) -> Action {
    Action {
        filter: rule.filter.map(|filter| filter == Filter::In),
        depth: rule.depth.and_then(|depth| u32::try_from(depth).ok()),
        time_ns: rule.time,
        size: rule.size,
        tracing: rule.tracing,
        is_traced: rule.is_traced,
        is_caller: rule.is_caller,
        is_last: rule.is_last,
        ..Action::default()
    }
}

/// Refuses options for values that name none, or such as are nowhere in one piece.
pub(crate) fn check_values(arguments: &[String], results: &[String]) -> Result<(), Error> {
    for (texts, at) in [(arguments, 0), (results, 1)] {
        for text in texts.iter().flat_map(|text| text.split(';')) {
            // Without values: those that debugging information describes.
            let Some((_, specs)) = text.split_once('@') else { continue };
            let joined = format!("f@{specs}");
            let lists = wanted_values([&joined, &joined], false, &mut [("", "f")].into_iter());
            // uftrace 0.13 would not read the folder.
            let is_octal = specs.contains("/o");
            let count = specs.split(',').filter(|spec| spec.contains("arg") || spec.contains("retval")).count();
            let found =
                lists.first().map(|lists| &lists[at]).filter(|list| list.len() == count && count > 0 && !is_octal);
            if found.is_none_or(|list| list.iter().any(|wanted| to_recorded(wanted).is_none())) {
                let error = Error::misuse(format!("`{text}` names no value that can be recorded"));
                return Err(
                    error.with_help("values are argN, fpargN and retval, with a format: `copy@arg1/s,arg2/i32`")
                );
            }
        }
    }
    Ok(())
}

fn add_values(actions: &mut Actions, functions: &[RecordedFunction], values: &ValueLines, has_globs: bool) {
    if values.arguments.is_empty() && values.results.is_empty() {
        return;
    }
    let names: Vec<_> =
        functions.iter().map(|function| (function.module.clone(), simple_name(&function.name))).collect();
    let mut known = names.iter().map(|(module, name)| (module.as_str(), name.as_str()));
    let wanted = wanted_values([&values.arguments, &values.results], has_globs, &mut known);
    for (action, [arguments, results]) in actions.of.iter_mut().zip(wanted) {
        action.arguments = all(&arguments);
        action.results = all(&results);
    }
}

/// Functions that a text of options names without values.
fn named(text: &str) -> impl Iterator<Item = &str> {
    text.split(';').map(str::trim).filter(|item| !item.is_empty() && !item.contains('@'))
}

/// Are there functions that are named without values?
pub(crate) fn names_types(values: &ValueLines) -> bool {
    [&values.arguments, &values.results].into_iter().any(|text| named(text).next().is_some())
}

/// Adds the values that debugging information describes to functions that are named without values, in the order in which
/// what reads the recording finds them.
fn add_named_types(actions: &mut Actions, functions: &[RecordedFunction], values: &ValueLines, has_globs: bool) {
    let names: Vec<_> = functions.iter().map(|function| simple_name(&function.name)).collect();
    let prototypes = prototype_lists();
    for (at, text) in [&values.arguments, &values.results].into_iter().enumerate() {
        let wanted = |text: &str, of: &mut dyn Iterator<Item = usize>| {
            let mut of = of.map(|number| (functions[number].module.as_str(), names[number].as_str()));
            wanted_values([text, text], has_globs, &mut of)
        };
        let any: Vec<_> = named(text).map(|item| format!("{item}@{}", ["arg1", "retval"][at])).collect();
        if any.is_empty() {
            continue;
        }
        let is_named = wanted(&any.join(";"), &mut (0..functions.len()));
        for (number, _) in is_named.iter().enumerate().filter(|(_, lists)| !lists[at].is_empty()) {
            let (function, action) = (&functions[number], &mut actions.of[number]);
            let specs = &known_specs(&prototypes, function)[at];
            let items = text.split(';').map(|item| match item.contains('@') {
                true => item.to_string(),
                false if specs.is_empty() => String::new(),
                false => format!("{}@{specs}", item.trim()),
            });
            let items: Vec<_> = items.collect();
            let lists = wanted(&items.join(";"), &mut std::iter::once(number));
            let list = all(lists.iter().flat_map(|lists| &lists[at]));
            *if at == 0 { &mut action.arguments } else { &mut action.results } = list;
        }
    }
}

/// Adds the values that are known of functions, where none are named.
fn add_auto_values(actions: &mut Actions, functions: &[RecordedFunction]) {
    // Specifications come again and again.
    let mut known: HashMap<String, Vec<RecordedValue>> = HashMap::new();
    let mut read = |specs: &str, at: usize| {
        let values = known.entry(specs.to_string()).or_insert_with(|| {
            let item = format!("f@{specs}");
            let lists = wanted_values([&item, &item], false, &mut [("", "f")].into_iter());
            lists.first().map_or(Vec::new(), |lists| all(&lists[at]))
        });
        values.clone()
    };
    let prototypes = prototype_lists();
    for (function, action) in functions.iter().zip(&mut actions.of) {
        let [arguments, results] = known_specs(&prototypes, function);
        if action.arguments.is_empty() {
            action.arguments = read(&arguments, 0);
        }
        if action.results.is_empty() {
            action.results = read(&results, 1);
        }
    }
}

/// The specifications of well-known functions, by their simple names: of arguments, and of return values.
type Prototypes = HashMap<String, [String; 2]>;

fn prototype_lists() -> Prototypes {
    let mut lists = Prototypes::new();
    let ValueLines { arguments, results } = tracemill_run::prototypes();
    for (at, line) in [arguments, results].into_iter().enumerate() {
        for (name, specs) in line.split(';').filter_map(|item| item.split_once('@')) {
            lists.entry(simple_name(name)).or_default()[at] = specs.to_string();
        }
    }
    lists
}

/// The values of a function that debugging information describes, or otherwise its prototype, as what reads the recording
/// finds them.
fn known_specs(prototypes: &Prototypes, function: &RecordedFunction) -> [String; 2] {
    let mut specs = debug::specs(&function.path, function.address);
    if let Some(prototype) = prototypes.get(&simple_name(&function.name)) {
        for (own, known) in specs.iter_mut().zip(prototype) {
            if own.is_empty() {
                own.clone_from(known);
            }
        }
    }
    specs
}

/// The values of a list, of those that the recorder can take.
fn all<'w>(list: impl IntoIterator<Item = &'w RequestedValue>) -> Vec<RecordedValue> {
    list.into_iter().filter_map(to_recorded).flatten().collect()
}

/// A value as the recorder takes it: its parts, one after the other. `None` when it cannot.
fn to_recorded(wanted: &RequestedValue) -> Option<Vec<RecordedValue>> {
    let form = match wanted.form {
        WantedForm::Plain => StoredForm::Plain,
        WantedForm::Text => StoredForm::Text,
        WantedForm::StdString => StoredForm::StdString,
        WantedForm::Structure => return structure(wanted),
    };
    let place = match &wanted.place {
        WantedPlace::Argument(index) => ValuePlace::Integer(index.checked_sub(1)?),
        WantedPlace::Float(index) => ValuePlace::Float(index.checked_sub(1)?),
        WantedPlace::Stack(offset) => stack(offset)?,
        WantedPlace::Register(name) => register(&name.to_ascii_lowercase())?,
        WantedPlace::Registers(..) => return None,
        WantedPlace::Result(true) if wanted.size > 8 => ValuePlace::LongResult,
        WantedPlace::Result(true) => ValuePlace::FloatResult(0),
        WantedPlace::Result(false) => ValuePlace::Result(0),
    };
    let is_near = match place {
        ValuePlace::Integer(index) | ValuePlace::Float(index) => index < MOST_NEAR,
        _ => true,
    };
    is_near.then(|| vec![RecordedValue { form, size: wanted.size, place }])
}

/// The parts of a structure: those in registers; or one, on the stack or after an address.
fn structure(wanted: &RequestedValue) -> Option<Vec<RecordedValue>> {
    let size = wanted.size;
    let bytes = |form, place| Some(vec![RecordedValue { form, size, place }]);
    let places: Vec<_> = match &wanted.place {
        _ if size == 0 => return Some(Vec::new()),
        WantedPlace::Stack(offset) => return bytes(StoredForm::Bytes, stack(offset)?),
        WantedPlace::Registers(names, is_result) => {
            let names = names.to_ascii_lowercase();
            match (names.strip_prefix("memory"), is_result) {
                (Some(""), true) => return bytes(StoredForm::Behind, ValuePlace::Result(0)),
                (Some(at), false) => return bytes(StoredForm::Behind, register(at.strip_prefix('+')?)?),
                _ => {}
            }
            match is_result {
                true => results(&names)?,
                false => names.split('+').map(register).collect::<Option<_>>()?,
            }
        }
        // Integers, if nothing else is said.
        WantedPlace::Result(_) if size > 16 => return bytes(StoredForm::Behind, ValuePlace::Result(0)),
        WantedPlace::Result(_) => (0..2).map(ValuePlace::Result).take(size.div_ceil(8)).collect(),
        WantedPlace::Argument(index) => {
            let first = index.checked_sub(1)?;
            match first {
                6.. if first < MOST_NEAR => return bytes(StoredForm::Bytes, ValuePlace::Stack(first - 5)),
                _ if size > 8 * (6_usize.saturating_sub(first as usize)).min(2) => return None,
                _ => (first..6).map(ValuePlace::Integer).take(size.div_ceil(8)).collect(),
            }
        }
        _ => return None,
    };
    // After one alone is nothing, or the rest of a vector.
    let last = places.len().checked_sub(1)?;
    let is_whole = size > last * 8 && size <= (last + if last == 0 { 2 } else { 1 }) * 8;
    let part = |(at, place)| RecordedValue {
        form: StoredForm::Plain,
        size: if at < last { 8 } else { size - last * 8 },
        place,
    };
    is_whole.then(|| places.into_iter().enumerate().map(part).collect())
}

/// Words of the stack, and arguments, that can be named.
const MOST_NEAR: u32 = 100;

fn stack(offset: &str) -> Option<ValuePlace> {
    offset.trim_start_matches('+').parse().ok().filter(|word| *word < MOST_NEAR).map(ValuePlace::Stack)
}

fn register(name: &str) -> Option<ValuePlace> {
    let integers = ["rdi", "rsi", "rdx", "rcx", "r8", "r9"];
    match name.strip_prefix("xmm") {
        Some(number) => number.parse().ok().filter(|number| *number < 8).map(ValuePlace::Float),
        None => integers.iter().position(|known| *known == name).map(|at| ValuePlace::Integer(at as u32)),
    }
}

/// The places of the parts of a result, by their kinds: the next register of each.
fn results(names: &str) -> Option<Vec<ValuePlace>> {
    let (mut integers, mut floats) = (0..2, 0..2);
    let place = |name| match name {
        "int" => integers.next().map(ValuePlace::Result),
        "float" => floats.next().map(ValuePlace::FloatResult),
        "long" => Some(ValuePlace::LongResult),
        _ => None,
    };
    names.split('+').map(place).collect()
}
