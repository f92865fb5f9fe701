//! The functions whose calls `tracemill record` selects, in the language of the commands that read calls.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracemill_calls::rules::{Filter, Functions, Rule, RuleTexts, Rules};
use tracemill_format::calls::CallSymbol;
use tracemill_model::error::Error;
use tracemill_run::{Action, Actions, Decide, Function};
use tracemill_uftrace::simple_name;

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
        (!texts.locations.is_empty(), "--loc-filter cannot be had: recording knows no source files; `replay -L` does"),
        (acts("read="), "the trigger `read=` cannot be had: no counters are read while recording"),
    ];
    match refused.into_iter().find(|(is, _)| *is) {
        Some((_, sentence)) => Err(Error::unsupported(sentence)),
        None => Ok(()),
    }
}

/// What decides about functions; `None` when the texts name none.
pub(crate) fn decide(texts: &RuleTexts) -> Option<Decide> {
    // A size alone needs the sizes of functions.
    let is_empty = texts.is_empty();
    let texts = texts.clone();
    let has_warned = AtomicBool::new(false);
    let decide = move |functions: &[Function]| {
        let mut warnings = Vec::new();
        let actions = actions(functions, &texts, &mut warnings);
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

fn actions(functions: &[Function], texts: &RuleTexts, warnings: &mut Vec<String>) -> Actions {
    let symbol = |function: &Function| CallSymbol {
        name: simple_name(&function.name),
        module: Some(function.module.clone()),
        is_library_call: false,
        size: function.size,
    };
    let known = Functions {
        symbols: (0..).zip(functions.iter().map(symbol)).collect(),
        programs: functions.iter().take(1).map(|function| function.module.as_str()).collect(),
        shown_name: &|name| simple_name(name),
        source_file: &|_| None,
    };
    let rules = Rules::of_functions(&known, texts, warnings);
    let of = (0..functions.len() as u32).map(|id| rules.of(id).map_or_else(Action::default, action)).collect();
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
    }
}
