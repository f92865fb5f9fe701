//! `tracemill convert --to html`: one page that holds what it shows.

use tracemill_model::error::Error;

use crate::args::ConvertOptions;
use crate::report::Outcome;

/// Its name and what it is, for the list of formats.
pub(super) const HTML: (&str, &str) =
    ("html", "one page for the browser that holds the events, for a report of a fault");

/// Says how to get a program that can do this.
#[cfg(not(feature = "viewer"))]
pub(super) fn run(_: &ConvertOptions) -> Result<Outcome, Error> {
    Err(super::built_without("the viewer", "viewer"))
}

/// Writes the page.
#[cfg(feature = "viewer")]
pub(super) fn run(options: &ConvertOptions) -> Result<Outcome, Error> {
    use tracemill_format::lost::Losses;

    use super::output::refuse;
    use crate::report::OutputSink;

    let others = [
        (options.split.is_some(), "split"),
        (options.packet_size.is_some(), "packet-size"),
        (options.byte_order.is_some(), "byte-order"),
        (options.index, "index"),
        (options.merge, "merge"),
    ];
    let of_targets = options.target.0.0.keys().copied();
    let mut wrong = others.iter().filter(|(is_given, _)| *is_given).map(|(_, name)| *name).chain(of_targets);
    if let Some(name) = wrong.next() {
        return Err(Error::misuse(format!("--{name} is not an option of html")));
    }
    refuse(options, false)?;
    let shown = super::view::ShownOptions {
        input: &options.input,
        events: &options.select.events,
        symbols: &options.symbols,
        gmt: options.clock_gmt,
        states: options.states.as_deref(),
    };
    let opened = super::view::input(shown, super::convert::redaction(options))?;
    let Some((input, mut reporter)) = opened else { return Ok(Outcome::Nothing) };
    super::view::check_states(&input, options.states.as_deref())?;
    let page = tracemill_answers::page(input, options.select.skip, options.select.limit)?;
    for fault in &page.faults {
        if reporter.fault(fault) {
            return Ok(Outcome::Nothing);
        }
    }
    let mut sink = OutputSink::open(Some(options.output()), &options.input.traces)?;
    sink.write(&page.bytes)?;
    sink.flush()?;
    sink.end()?;
    if page.events == 0 && options.select.limit != Some(0) {
        reporter.warning(&"the page holds no event: none is selected");
    }
    super::convert::write_report(options, &Losses::default(), page.events)?;
    Ok(reporter.outcome())
}
