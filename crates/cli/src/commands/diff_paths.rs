//! Critical paths of `tracemill diff`: the periods of both sides, and what they were spent on.

use std::ops::ControlFlow;
use std::rc::Rc;

use tracemill_analyses::diff::{Metric, MetricKind, Side};
use tracemill_analyses::kernel::{
    AnalysisQuery, BoundPeriods, Definitions, Descriptor, Input, PathComparison, PeriodOf, Reading, Table, View,
};
use tracemill_model::error::Error;

use super::analyze_periods as periods;
use crate::args::PeriodOptions;

/// The definitions of the periods whose paths are compared; `None` without any.
pub(super) fn definitions(options: &PeriodOptions) -> Result<Option<Definitions>, Error> {
    let written = periods::written(options)?;
    Ok(if written.is_empty() { None } else { Some(Definitions::parse(&written)?) })
}

/// The paths of the periods of a side: for each definition the tables of `analyze why`. How long periods took is added to the
/// durations of the side.
pub(super) fn paths(
    definitions: &Definitions,
    input: &Input<'_>,
    gmt: bool,
    side: &mut Side,
) -> Result<Vec<Vec<Table>>, Error> {
    let bound = Rc::new(BoundPeriods::new(definitions, input.session, gmt)?);
    let mut all = Vec::new();
    for name in definitions.names() {
        let reading = Reading::new(input.clone());
        let machine_names = reading.machine_names();
        let asked = AnalysisQuery {
            begin: input.selection.begin_ns,
            end: input.selection.end_ns,
            view: View::Log,
            has_periods: true,
            has_machines: machine_names.len() > 1,
            machine_names,
            periods: Some(bound.clone()),
            ..AnalysisQuery::default()
        };
        let found = periods::find(name, input.clone(), &asked)?;
        let metric = Metric { kind: MetricKind::Duration, of: name.to_string(), part: "period".to_string() };
        let length = |period: &Rc<PeriodOf>| (period.to - period.from) as f64;
        found.iter().for_each(|period| side.spreads.entry(metric.clone()).or_default().add(length(period)));
        // Without switches nothing is known of what threads waited for.
        let known = Descriptor::find("why").filter(|known| known.is_fed(&asked, &reading.concepts()));
        let tables = match known {
            Some(known) => reading.run_per(&found, &[(known, asked)], &mut |_| ControlFlow::Continue(()))?,
            None => Vec::new(),
        };
        all.push(tables);
    }
    Ok(all)
}

/// Compares the paths of both sides, period by period as they were defined.
pub(super) fn compare(definitions: &Definitions, [a, b]: [&[Vec<Table>]; 2]) -> Vec<PathComparison> {
    let sides = a.iter().zip(b);
    definitions.names().zip(sides).map(|(name, (a, b))| PathComparison::new(name, [a, b])).collect()
}
