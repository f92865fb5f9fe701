//! Periods of `analyze`: their definitions, and the analyses once for each of them.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;

use tracemill_analyses::kernel::{
    AnalysisQuery, BoundPeriods, Cell, Column, Definition, Definitions, Descriptor, Input, PeriodOf, Reading, Value,
    View, Written,
};
use tracemill_codec::text::suggest;
use tracemill_model::error::Error;

use crate::args::{AnalyzeOptions, PeriodOption, PeriodOptions};

/// Periods that analyses are made for, at most.
const MAX_PERIODS: usize = 10_000;

/// Definitions as they are written, those of the file first.
pub(super) fn written(options: &PeriodOptions) -> Result<Vec<Definition>, Error> {
    let mut written = Vec::new();
    if let Some(file) = &options.file {
        let text = std::fs::read_to_string(file).map_err(|error| Error::io("read the file", file, &error))?;
        written = Definition::read(file, &text)?;
    }
    written.extend(from_options(options)?);
    Ok(written)
}

/// Reads the definitions, and checks that something asks for them.
pub(super) fn definitions(options: &AnalyzeOptions, names: &[&Descriptor]) -> Result<Option<Definitions>, Error> {
    let written = written(&options.periods)?;
    let is_named = names.iter().any(|known| known.name == "periods");
    if written.is_empty() && (is_named || options.per.is_some()) {
        let error = Error::misuse("no period is defined");
        return Err(error.with_help("--period NAME --period-begin EXPR --period-end EXPR, or --periods FILE"));
    }
    if !written.is_empty() && !is_named && options.per.is_none() && !names.is_empty() {
        let error = Error::misuse(format!("`{}` does not take --period", names[0].name));
        return Err(error.with_help("they are for `periods`, and for --per PERIOD with any other analysis"));
    }
    let definitions = Definitions::parse(&written)?;
    if let Some(per) = options.per.as_ref().filter(|per| !definitions.has(per)) {
        return Err(suggest(Error::misuse(format!("--per: there is no period `{per}`")), per, definitions.names()));
    }
    Ok((!written.is_empty()).then_some(definitions))
}

/// The definitions of the command line: begins and ends belong to the periods in their order, the others to the period before.
fn from_options(options: &PeriodOptions) -> Result<Vec<Definition>, Error> {
    let of = |wanted: PeriodOption| {
        let texts = options.given.iter().filter(move |(option, _)| *option == wanted);
        texts.map(|(option, text)| Written::from_option(&option.name(), text)).collect::<Vec<_>>()
    };
    let names = of(PeriodOption::Name);
    let ends = [PeriodOption::Begin, PeriodOption::End].map(|option| (option, of(option)));
    for (option, texts) in &ends {
        if texts.len() != names.len() {
            let count = |count: usize| if count == 1 { "once".to_string() } else { format!("{count} times") };
            let message = format!("--period is given {}, {} {}", count(names.len()), option.name(), count(texts.len()));
            return Err(Error::misuse(message).with_help("each period has a name, a begin and an end"));
        }
    }
    let [(_, begins), (_, ends)] = ends;
    let definition = |(name, (begin, end))| Definition { name, begin, end, matched: None, parent: None };
    let mut definitions: Vec<Definition> =
        names.into_iter().zip(begins.into_iter().zip(ends)).map(definition).collect();
    let mut names = 0;
    for (option, text) in &options.given {
        names += usize::from(*option == PeriodOption::Name);
        let written = Written::from_option(&option.name(), text);
        let of_last = definitions.get_mut(names.wrapping_sub(1));
        let place = match (option, of_last) {
            (PeriodOption::Match, Some(last)) => &mut last.matched,
            (PeriodOption::Parent, Some(last)) => &mut last.parent,
            (PeriodOption::Match | PeriodOption::Parent, None) => {
                return Err(Error::misuse(format!("{} stands before its --period", option.name())));
            }
            _ => continue,
        };
        if place.replace(written).is_some() {
            return Err(Error::misuse(format!("{} is given twice for one --period", option.name())));
        }
    }
    Ok(definitions)
}

/// Binds the definitions to the traces.
pub(super) fn bind(
    definitions: Option<&Definitions>,
    input: &Input<'_>,
    options: &AnalyzeOptions,
) -> Result<Option<Rc<BoundPeriods>>, Error> {
    let bind = |definitions| BoundPeriods::new(definitions, input.session, options.clock_gmt);
    Ok(definitions.map(bind).transpose()?.map(Rc::new))
}

/// The periods of a name, found by a reading of their own.
pub(super) fn find(name: &str, input: Input<'_>, asked: &AnalysisQuery) -> Result<Vec<Rc<PeriodOf>>, Error> {
    let found: Rc<RefCell<Vec<PeriodOf>>> = Rc::default();
    let columns: Rc<RefCell<Vec<Column>>> = Rc::default();
    let sink = {
        let (found, columns, name) = (found.clone(), columns.clone(), name.to_string());
        move |row: &[Value<'_>]| {
            let mut found = found.borrow_mut();
            // One more than are taken says that there are too many.
            if found.len() <= MAX_PERIODS {
                found.extend(
                    PeriodOf::from_row(
                        &columns.borrow(),
                        &row.iter().map(|value| Cell::from(*value)).collect::<Vec<_>>(),
                    )
                    .filter(|period| period.name == name),
                );
            }
        }
    };
    let own = AnalysisQuery {
        view: View::Log,
        begin: asked.begin,
        end: asked.end,
        periods: asked.periods.clone(),
        has_machines: asked.has_machines,
        machine_names: asked.machine_names.clone(),
        sink: Some(Rc::new(RefCell::new(sink))),
        ..AnalysisQuery::default()
    };
    let known = Descriptor::find("periods");
    *columns.borrow_mut() = known.map(|known| known.columns_for(&own)).unwrap_or_default();
    let analyses = known.map(|known| (known.make)(&own)).into_iter().collect();
    // The reading for the analyses reports what is wrong with the traces.
    Reading::new(input).run(analyses, &mut |_| ControlFlow::Continue(()))?;
    let mut found = std::mem::take(&mut *found.borrow_mut());
    if found.len() > MAX_PERIODS {
        let error = Error::misuse(format!("--per: there are more than {MAX_PERIODS} periods `{name}`"));
        return Err(error.with_help("--begin and --end take those that end in between"));
    }
    found.sort_by_key(|period| (period.from, period.to));
    Ok(found.into_iter().map(Rc::new).collect())
}
