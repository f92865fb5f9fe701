//! `tracemill tui`: traces in the terminal.

use tracemill_model::error::Error;

use crate::args::TuiOptions;
use crate::report::Outcome;

/// Says how to get a program that can do this.
#[cfg(not(feature = "viewer"))]
pub(crate) fn run(_: &TuiOptions) -> Result<Outcome, Error> {
    Err(super::built_without("the viewer", "viewer"))
}

/// Shows traces until the user ends it.
#[cfg(feature = "viewer")]
pub(crate) fn run(options: &TuiOptions) -> Result<Outcome, Error> {
    use crate::args::When;

    use super::request::RedactionOptions;

    let TuiOptions { input: of_input, events, symbols, clock_gmt, .. } = options;
    let states = options.states.as_deref();
    let shown = super::view::ShownOptions { input: of_input, events, symbols, gmt: *clock_gmt, states };
    let (input, reporter) = if options.follow {
        super::view::growing_input(shown)?
    } else {
        let opened = super::view::input(shown, RedactionOptions::default())?;
        let Some((mut input, reporter)) = opened else {
            return Ok(Outcome::Nothing);
        };
        input.cache = super::view::index_cache(&options.input, &options.events, &options.cache, input.opened);
        (input, reporter)
    };
    super::view::check_states(&input, states)?;
    let is_colored = match options.color {
        When::Auto => !crate::report::has_no_color(),
        when => when == When::Always,
    };
    tracemill_tui::run(
        input,
        tracemill_tui::TuiSettings { is_plain: options.plain, is_colored, gmt: options.clock_gmt },
    )?;
    Ok(reporter.outcome())
}
