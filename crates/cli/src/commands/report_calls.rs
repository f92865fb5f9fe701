//! `tracemill report`: statistics of calls.

use tracemill_calls::report::{self, Column, ReportOptions};
use tracemill_model::error::Error;

use super::calls;
use crate::args::ReportArgs;
use crate::report::{Outcome, Sink};

/// Reports the functions of a trace.
pub(crate) fn run(args: &ReportArgs) -> Result<Outcome, Error> {
    let Some(open) = calls::open(&args.calls)? else { return Ok(Outcome::Nothing) };
    let Some(source) = open.source() else { return Ok(Outcome::Nothing) };
    let options = options(args)?;
    let call_options = calls::options(&args.calls, source)?;
    let (functions, findings) = report::functions(source, call_options);
    let mut sink = Sink::open(args.calls.output.as_deref())?;
    let written = report::write(functions, &options, &mut sink.as_writer());
    if sink.finish(written)?.is_none() {
        return Ok(Outcome::Done);
    }
    Ok(open.finish(&findings))
}

fn options(args: &ReportArgs) -> Result<ReportOptions, Error> {
    let (columns, key) = if args.avg_total {
        (vec![Column::TotalMean, Column::TotalMin, Column::TotalMax], Column::TotalMean)
    } else if args.avg_self {
        (vec![Column::OwnMean, Column::OwnMin, Column::OwnMax], Column::OwnMean)
    } else {
        let defaults = ReportOptions::default();
        (defaults.columns, Column::Total)
    };
    let names = || Column::ALL.iter().map(|(name, _)| *name);
    // A name is a key only.
    let by_name = |name: &str| Column::by_name(name).filter(|&column| column != Column::Name);
    let columns = calls::fields(args.fields.as_deref(), columns, by_name, names())?;
    let mut keys = Vec::new();
    for name in args.sort.iter().flat_map(|keys| keys.split(',')) {
        let of_mean = match (name, args.avg_total, args.avg_self) {
            ("avg" | "min" | "max", true, _) => format!("total-{name}"),
            ("avg" | "min" | "max", _, true) => format!("self-{name}"),
            _ => name.to_string(),
        };
        let error = || {
            let known: Vec<&str> = names().collect();
            let error = Error::misuse(format!("there is no key `{name}` to sort by"));
            error.with_help(format!("keys are {}", known.join(", ")))
        };
        keys.push(Column::by_name(&of_mean).ok_or_else(error)?);
    }
    if keys.is_empty() {
        keys.push(key);
    }
    Ok(ReportOptions { columns, keys })
}
