//! Which analyses the command line names, and whether they take its options.

use tracemill_analyses::kernel::{ANALYSES, AnalysisForm, AnalysisOption, Descriptor, FormWord, Numbers, View};
use tracemill_codec::text::suggest;
use tracemill_model::error::Error;

use crate::args::{AnalyzeOptions, Buckets, InputOptions};

/// The name that stands for all analyses of sums.
const ALL: &str = "all";

/// The analyses that `all` leaves out: they have a row for each change, and may have more of them than the trace has events.
const LISTINGS: [&str; 3] = ["states", "timehist", "map"];

/// The analyses that were named.
pub(super) struct NamedAnalyses {
    pub(super) analyses: Vec<&'static Descriptor>,
    /// Was one analysis named, not several or `all`? Then the output is that of one, whatever the traces have.
    pub(super) is_single: bool,
    /// The traces, without the names before them.
    pub(super) input: InputOptions,
    /// Analyses that are left out, and why.
    pub(super) left_out: Vec<String>,
}

/// Reads the names before the traces. Without any, there are no analyses.
///
/// # Errors
/// When there is no trace, or the first word is neither a name nor a file.
pub(super) fn named(options: &AnalyzeOptions) -> Result<NamedAnalyses, Error> {
    let mut input = options.input.clone();
    let first = input.traces.first().and_then(|first| first.to_str()).unwrap_or_default().to_string();
    let parts: Vec<&str> = first.split(',').collect();
    let mut analyses: Vec<&'static Descriptor> = Vec::new();
    let mut left_out: Vec<(&str, String)> = Vec::new();
    if parts.iter().all(|part| *part == ALL || Descriptor::find(part).is_some()) {
        input.traces.remove(0);
        for part in &parts {
            if *part == ALL {
                analyses.extend(ANALYSES.iter().filter(|known| is_of_all(known, options)));
                let note = |name| (name, format!("`{name}` is not part of `{ALL}`: it has a row for each change"));
                left_out.extend(LISTINGS.map(note));
            }
            analyses.extend(Descriptor::find(part));
        }
        let mut seen: Vec<&str> = Vec::new();
        analyses.retain(|known| {
            let is_new = !seen.contains(&known.name);
            seen.push(known.name);
            is_new
        });
        left_out.retain(|(name, _)| !analyses.iter().any(|known| known.name == *name));
    } else if !first.is_empty() && !input.traces[0].exists() {
        let is_unknown = |part: &&&str| **part != ALL && Descriptor::find(part).is_none();
        let unknown = parts.iter().find(is_unknown).copied().unwrap_or_default();
        let error = Error::misuse(format!("unknown analysis `{unknown}`, and there is no such file"));
        let all: Vec<&str> = ANALYSES.iter().map(|known| known.name).chain([ALL]).collect();
        return Err(suggest(error.with_help(format!("the analyses are {}", all.join(", "))), unknown, all));
    }
    if input.traces.is_empty() {
        return Err(Error::misuse("an analysis needs a TRACE").with_help("tracemill analyze cpu TRACE"));
    }
    let is_single = parts.len() == 1 && parts[0] != ALL && analyses.len() == 1;
    let left_out = left_out.into_iter().map(|(_, text)| text).collect();
    Ok(NamedAnalyses { analyses, is_single, input, left_out })
}

/// Is an analysis one of `all`? Those that are about something that the options do not name are not.
fn is_of_all(known: &Descriptor, options: &AnalyzeOptions) -> bool {
    match known.name {
        name if LISTINGS.contains(&name) => false,
        "path" | "why" => thread_of_path(options).is_some(),
        "custom" => options.states.is_some(),
        "periods" => options.per.is_none() && (options.periods.file.is_some() || !options.periods.given.is_empty()),
        _ => true,
    }
}

/// The only thread that `--tid` names.
fn thread_of_path(options: &AnalyzeOptions) -> Option<i64> {
    options.choice.tid.as_deref().and_then(Numbers::parse).and_then(|tids| tids.single())
}

/// The words that choose forms of analyses.
///
/// # Errors
/// When none of the analyses has a word.
pub(super) fn words(options: &AnalyzeOptions, names: &[&'static Descriptor]) -> Result<Vec<FormWord>, Error> {
    let flags = [("switches", options.switches), ("slab", options.slab)];
    let flags = flags.into_iter().filter(|(_, is_given)| *is_given).map(|(word, _)| (format!("--{word}"), word));
    let kinds = options.of.iter().map(|kind| (format!("--of {kind}"), &**kind));
    let mut words = Vec::new();
    for (option, word) in flags.chain(kinds) {
        let has = |known: &Descriptor| known.forms.iter().any(|form| form.option == option);
        let form = names.iter().flat_map(|known| known.forms).find(|form| form.option == option);
        let Some(form) = form else {
            let all: Vec<&Descriptor> = ANALYSES.iter().filter(|known| has(known)).collect();
            let Some(name) = names.first().map(|known| known.name).filter(|_| !all.is_empty()) else {
                return Err(unknown_kind(word));
            };
            let error = Error::misuse(format!("`{name}` does not take {option}"));
            return Err(error.with_help(format!("{option} is for {}", listed(all.iter().map(|known| known.name)))));
        };
        words.extend(form.word);
    }
    Ok(words)
}

fn unknown_kind(word: &str) -> Error {
    let forms = ANALYSES.iter().flat_map(|known| known.forms);
    let kinds: Vec<&str> = forms.filter_map(|form| form.option.strip_prefix("--of ")).collect();
    let error = Error::misuse(format!("--of: unknown kind of rows `{word}`"));
    suggest(error.with_help(format!("the kinds are {}", kinds.join(", "))), word, kinds)
}

/// Leaves out the analyses that do not take all options.
///
/// # Errors
/// When none is left: why the first one was left out.
pub(super) fn retain_supporting(
    options: &AnalyzeOptions,
    words: &[FormWord],
    named: &mut NamedAnalyses,
) -> Result<(), Error> {
    let mut refused = Vec::new();
    named.analyses.retain(|known| check(options, words, known).map_err(|error| refused.push(error)).is_ok());
    for known in &named.analyses {
        named.left_out.extend(kinds_left_out(options, words, known));
    }
    if named.analyses.is_empty() && !refused.is_empty() {
        return Err(refused.swap_remove(0));
    }
    named.left_out.extend(refused.iter().map(left_out));
    Ok(())
}

/// Kinds of rows that do not take an option which others of them do: they have no rows.
fn kinds_left_out(options: &AnalyzeOptions, words: &[FormWord], known: &'static Descriptor) -> Vec<String> {
    let forms = known.forms_for(words, options.rows.by.as_deref()).unwrap_or_default();
    let given = given_options(options);
    let refused = |form: &&AnalysisForm| {
        let option = given.iter().find(|option| **option != AnalysisOption::By && !form.takes.contains(option))?;
        Some(left_out(&refusal(known, form, *option)))
    };
    forms.iter().filter_map(refused).collect()
}

/// Says that an analysis is left out, and why.
pub(super) fn left_out(why: &Error) -> String {
    format!("{}: it is left out", why.message())
}

/// Checks that an analysis takes all options.
fn check(options: &AnalyzeOptions, words: &[FormWord], known: &'static Descriptor) -> Result<(), Error> {
    let by = options.rows.by.as_deref();
    let forms = known.forms_for(words, by).map_err(|keys| no_groups(words, known, by.unwrap_or_default(), &keys))?;
    for option in given_options(options) {
        if option != AnalysisOption::By && !forms.iter().any(|form| form.takes.contains(&option)) {
            return Err(refusal(known, forms[0], option));
        }
    }
    check_views(options, &forms)?;
    if known.name == "path" && thread_of_path(options).is_none() {
        let error = Error::misuse("`path` is about one thread, and --tid does not name one");
        return Err(error.with_help("tracemill analyze path --tid 42 TRACE"));
    }
    if known.name == "why" {
        check_why(options)?;
    }
    Ok(())
}

/// Checks that `why` is about one thread, or about periods.
fn check_why(options: &AnalyzeOptions) -> Result<(), Error> {
    let help = "tracemill analyze why --tid 42 TRACE, or --per PERIOD";
    if options.choice.tid.is_some() && thread_of_path(options).is_none() {
        return Err(Error::misuse("`why` is about one thread, and --tid names several").with_help(help));
    }
    if options.per.is_none() {
        if options.choice.tid.is_none() {
            return Err(Error::misuse("`why` is about a thread or about periods, and none is named").with_help(help));
        }
        if view_of(options) != View::Statistics {
            return Err(
                Error::misuse("--log and --top of `why` are about periods, and --per names none").with_help(help)
            );
        }
    }
    Ok(())
}

/// The options of single analyses that were given.
fn given_options(options: &AnalyzeOptions) -> Vec<AnalysisOption> {
    let AnalyzeOptions { rows, choice, .. } = options;
    let is_given = |option: &AnalysisOption| match option {
        AnalysisOption::By => rows.by.is_some(),
        AnalysisOption::Log => rows.log,
        AnalysisOption::Top => rows.top.is_some(),
        AnalysisOption::Hist => rows.hist.is_some(),
        AnalysisOption::Step => rows.step.is_some(),
        AnalysisOption::Tid => choice.tid.is_some(),
        AnalysisOption::Pid => choice.pid.is_some(),
        AnalysisOption::Comm => choice.comm.is_some(),
        AnalysisOption::Cpu => choice.cpu.is_some(),
        AnalysisOption::Min => choice.min.is_some(),
        AnalysisOption::Max => choice.max.is_some(),
        AnalysisOption::Tree => options.tree,
        AnalysisOption::Begin => options.begin.is_some(),
        AnalysisOption::Per => options.per.is_some(),
    };
    AnalysisOption::ALL.iter().copied().filter(is_given).collect()
}

/// Checks options that exclude each other: lists of spans have neither groups nor steps.
fn check_views(options: &AnalyzeOptions, forms: &[&AnalysisForm]) -> Result<(), Error> {
    if view_of(options) == View::Statistics {
        return Ok(());
    }
    if options.rows.step.is_some() {
        return Err(Error::misuse("--step divides statistics, and --log, --top and --hist show none"));
    }
    // The key may choose other spans.
    let is_of_form = forms.iter().any(|form| form.option.starts_with("--by"));
    if options.rows.by.is_some() && !is_of_form {
        let error = Error::misuse("--by groups statistics, and --log, --top and --hist show none");
        return Err(error.with_help("--where chooses rows of --log and --top"));
    }
    Ok(())
}

/// How spans are shown.
pub(super) fn view_of(options: &AnalyzeOptions) -> View {
    match (options.rows.log, options.rows.top, options.rows.hist) {
        (true, _, _) => View::Log,
        (_, Some(most), _) => View::Top(most),
        (_, _, Some(Buckets::Equal(count))) => View::Histogram(count),
        (_, _, Some(Buckets::PowersOfTwo)) => View::PowersOfTwo,
        _ => View::Statistics,
    }
}

/// The error of a key that an analysis has no groups of.
fn no_groups(words: &[FormWord], known: &'static Descriptor, by: &str, keys: &[&str]) -> Error {
    let form = known.forms_for(words, None).ok().and_then(|forms| forms.first().copied());
    let title = form.map_or(known.name.to_string(), |form| form.title(known));
    match keys {
        [] => refusal_of(title, AnalysisOption::By),
        keys => {
            let error = Error::misuse(format!("`{title}` has no groups `{by}`"));
            suggest(error.with_help(format!("its groups are {}", keys.join(", "))), by, keys.iter().copied())
        }
    }
}

fn refusal(known: &Descriptor, form: &AnalysisForm, option: AnalysisOption) -> Error {
    refusal_of(form.title(known), option)
}

/// The error of an option that a form does not take: it names those which do.
fn refusal_of(title: String, option: AnalysisOption) -> Error {
    let takes =
        |form: &&AnalysisForm| form.takes.contains(&option) && (option != AnalysisOption::By || !form.keys.is_empty());
    let of = ANALYSES.iter().filter_map(|known| Some(known.forms.iter().find(takes)?.title(known)));
    let error = Error::misuse(format!("`{title}` does not take {}", option.name()));
    error.with_help(format!("{} is for {}", option.name(), listed(of.collect::<Vec<_>>())))
}

/// Names in backquotes, with commas between.
fn listed(names: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    names.into_iter().map(|name| format!("`{}`", name.as_ref())).collect::<Vec<_>>().join(", ")
}
