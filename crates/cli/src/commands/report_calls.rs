//! `tracemill report`: statistics of calls.

use std::path::Path;

use tracemill_calls::report::{self, DiffPolicy, ReportColumn, ReportOptions, Statistic};
use tracemill_calls::tasks::{self, TaskColumn};
use tracemill_calls::text::by_name;
use tracemill_calls::{CallOptions, json};
use tracemill_format::calls::{CallSource, Findings};
use tracemill_model::error::Error;

use super::samples::{self, OpenRecording};
use super::{calls, samples_forms};
use crate::args::{CallArgs, ReportArgs, ReportFormat};
use crate::report::Outcome;

/// Reports the functions of a trace.
pub(crate) fn run(args: &ReportArgs) -> Result<Outcome, Error> {
    let open = match samples::open(&args.calls, &args.samples, args.by.as_deref())? {
        None => return Ok(Outcome::Nothing),
        Some(OpenRecording::Samples(open)) => return samples_forms::report(args, open),
        Some(OpenRecording::Calls(open)) => open,
    };
    if args.format == ReportFormat::Csv {
        let error = Error::misuse("functions have no CSV");
        return Err(error.with_help("--format json, or --state, --from and --to for the time between events"));
    }
    let (source, call_options) = calls::options(&args.calls, &open)?;
    if args.task {
        let findings = report_tasks(args, source, call_options)?;
        return Ok(open.finish(findings));
    }
    let options = ReportOptions { spans: calls::spans(&args.calls, &open), ..options(args)? };
    let policy = policy(args)?;
    let (is_json, is_html) = (args.format == ReportFormat::Json, args.format == ReportFormat::Html);
    let (functions, mut findings) = report::functions(source, call_options, options.needs_spread());
    let mut sink = calls::sink(&args.calls)?;
    let written = match &args.diff {
        None if is_json => json::write_report(source, functions, &options, &mut sink.as_writer()),
        None => calls::write_text(&args.calls, is_html, &mut sink, |colors, out| {
            report::write(source, functions, &ReportOptions { colors, ..options }, out)
        }),
        Some(path) => {
            let other_args = CallArgs { trace: Some(path.clone()), data: None, ..args.calls.clone() };
            let Some(other) = calls::open(&other_args)? else { return Ok(Outcome::Nothing) };
            let (other_source, call_options) = calls::options(&other_args, &other)?;
            let (others, more) = report::functions(other_source, call_options, options.needs_spread());
            findings.append(more);
            let base_title = title(&calls::path(&args.calls), source);
            let other_title = title(path, other_source);
            let (base, other) = ((functions, base_title.as_str()), (others, other_title.as_str()));
            match is_json {
                true => {
                    let (base, other) = ((&*base.0, source), (&*other.0, other_source));
                    json::write_difference(base, other, &options, &mut sink.as_writer())
                }
                false => calls::write_text(&args.calls, is_html, &mut sink, |colors, out| {
                    report::write_difference(base, other, &ReportOptions { colors, ..options }, &policy, source, out)
                }),
            }
        }
    };
    Ok(open.finish(sink.finish(written)?.map(|()| findings)))
}

/// How a recording is called in the title of differences.
fn title(path: &Path, source: &dyn CallSource) -> String {
    let path = path.display().to_string();
    let path = if path.len() > 1 { path.trim_end_matches('/') } else { &path };
    format!("{path}\t(from {})", source.recording().command.unwrap_or_default())
}

fn policy(args: &ReportArgs) -> Result<DiffPolicy, Error> {
    let mut policy = DiffPolicy { sort_column: args.sort_column, ..DiffPolicy::default() };
    policy.apply_words(args.diff_policy.as_deref().unwrap_or("")).map_err(|word| {
        let error = Error::misuse(format!("there is no policy `{word}`, in --diff-policy"));
        error.with_help("policies are abs, percent, full, compact, and no-abs, no-percent")
    })?;
    Ok(policy)
}

fn report_tasks(
    args: &ReportArgs,
    source: &dyn CallSource,
    call_options: CallOptions,
) -> Result<Option<Findings>, Error> {
    let names = || TaskColumn::ALL.iter().map(|(name, _)| *name);
    let column = |name: &str| by_name(&TaskColumn::ALL, name).filter(|&column| column != TaskColumn::Name);
    let defaults = vec![TaskColumn::Total, TaskColumn::Own, TaskColumn::Tid, TaskColumn::Calls];
    let columns = calls::fields(args.fields.as_deref(), defaults, column, names())?;
    let typed = args.sort.iter().flat_map(|keys| keys.split(','));
    let key = |name| by_name(&TaskColumn::ALL, name).ok_or_else(|| no_key(name, names()));
    let mut keys: Vec<TaskColumn> = typed.map(key).collect::<Result<_, _>>()?;
    if keys.is_empty() {
        keys.push(TaskColumn::Total);
    }
    let (stats, findings) = tasks::tasks(source, call_options);
    let mut sink = calls::sink(&args.calls)?;
    let written = match args.format {
        ReportFormat::Json => json::write_tasks(source, &stats, &mut sink.as_writer()),
        format => calls::write_text(&args.calls, format == ReportFormat::Html, &mut sink, |colors, out| {
            tasks::write(source, stats, &columns, &keys, colors, out)
        }),
    };
    Ok(sink.finish(written)?.map(|()| findings))
}

fn no_key(name: &str, known: impl Iterator<Item = &'static str>) -> Error {
    let known: Vec<&str> = known.collect();
    let error = Error::misuse(format!("there is no key `{name}` to sort by"));
    error.with_help(format!("keys are {}", known.join(", ")))
}

fn options(args: &ReportArgs) -> Result<ReportOptions, Error> {
    // As in uftrace, columns that are named are shown in the usual order.
    let is_of_total = args.avg_total && args.fields.is_none();
    let is_of_own = args.avg_self && args.fields.is_none();
    let means = |of: fn(Statistic) -> ReportColumn| {
        let columns = [Statistic::Mean, Statistic::Min, Statistic::Max].map(of);
        (columns.to_vec(), columns[0])
    };
    let (columns, key) = if is_of_total {
        means(ReportColumn::Total)
    } else if is_of_own {
        means(ReportColumn::Own)
    } else {
        (ReportOptions::default().columns, ReportColumn::Total(Statistic::Sum))
    };
    let names = || ReportColumn::ALL.iter().chain(&ReportColumn::PERCENTILES).map(|(name, _)| *name);
    // A name is a key only.
    let by_name = |name: &str| ReportColumn::by_name(name).filter(|&column| column != ReportColumn::Name);
    let mut columns = match args.fields.as_deref() {
        // All that uftrace has.
        Some(text @ ("all" | "+all")) => {
            calls::fields(Some(text), columns, by_name, ReportColumn::ALL.iter().map(|(name, _)| *name))?
        }
        text => calls::fields(text, columns, by_name, names())?,
    };
    if args.percentiles {
        columns.extend(ReportColumn::PERCENTILES.iter().map(|&(_, column)| column).take(3));
    }
    let mut keys = Vec::new();
    for name in args.sort.iter().flat_map(|keys| keys.split(',')) {
        let of_mean = match (name, is_of_total, is_of_own) {
            ("avg" | "min" | "max", true, _) => format!("total-{name}"),
            ("avg" | "min" | "max", _, true) => format!("self-{name}"),
            _ => name.to_string(),
        };
        keys.push(ReportColumn::by_name(&of_mean).ok_or_else(|| no_key(name, names()))?);
    }
    if keys.is_empty() {
        keys.push(key);
    }
    Ok(ReportOptions {
        columns,
        keys,
        source_lines: args.srcline,
        histogram: args.histogram,
        ..ReportOptions::default()
    })
}
