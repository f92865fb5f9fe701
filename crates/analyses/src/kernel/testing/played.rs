//! Tests: a stream of events made by hand, and what an analysis says of it.

use std::borrow::Cow;
use std::rc::Rc;

use tracemill_semantics::states::{ConceptValues, Happening, Machines, Ns, Observer};
use tracemill_semantics::{Concept, Field};

use crate::kernel::analysis::{Analysis, Descriptor};
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::reading::analysis_set::AnalysisSet;
use crate::kernel::table::{PeriodOf, Table};
use crate::kernel::value::Cell;

struct Fields<'a>(Vec<(Field, &'a str)>);

impl ConceptValues for Fields<'_> {
    fn integer(&self, field: Field) -> Option<i128> {
        self.0.iter().find(|(own, _)| *own == field)?.1.parse().ok()
    }

    fn text(&self, field: Field) -> Option<Cow<'_, str>> {
        let (_, value) = self.0.iter().find(|(own, _)| *own == field)?;
        value.parse::<i128>().is_err().then_some(Cow::Borrowed(*value))
    }

    fn integers(&self, field: Field) -> Option<Vec<Option<i128>>> {
        let (_, value) = self.0.iter().find(|(own, _)| *own == field)?;
        Some(value.split(',').map(|value| value.parse().ok()).collect())
    }
}

/// Result of an analysis of a stream of events, one a line: `TIME CPU CONCEPT FIELD=VALUE ..`, where the CPU of one of
/// several machines is `MACHINE/CPU`. `-` is an event without a concept, `loss` one for lost events.
pub(crate) fn played(known: &Descriptor, query: &AnalysisQuery, stream: &str) -> Table {
    let mut analysis = (known.make)(query);
    let machines = Rc::new(play(stream, &mut *analysis));
    let range = machines.begin().map(|first| {
        let begin = query.begin.map_or(first, |begin| begin.max(first));
        (begin, query.end.map_or(machines.now(), |end| end.min(machines.now())).max(begin))
    });
    let mut table = analysis.finish(&machines, range);
    table.sort();
    table
}

/// Results of analyses of a stream of events for each of some periods, as [`played`] has them.
pub(crate) fn played_per(
    of_each: &[(&Descriptor, AnalysisQuery)],
    periods: &[Rc<PeriodOf>],
    stream: &str,
) -> Vec<Table> {
    let mut all = AnalysisSet::per(periods, of_each);
    let machines = Rc::new(play_in_turns(stream, &mut all, |all, last, now| all.advance(last, now)));
    let finish = |(at, analysis): (usize, Box<dyn Analysis>)| {
        let period = &periods[at / of_each.len()];
        let mut table = analysis.finish(&machines, Some((period.from, period.to)));
        table.period = Some(period.clone());
        table.sort();
        table
    };
    all.analyses.into_iter().take(periods.len() * of_each.len()).enumerate().map(finish).collect()
}

/// Shows a stream of events to an observer.
pub(crate) fn play(stream: &str, observer: &mut (impl Observer + ?Sized)) -> Machines {
    play_in_turns(stream, observer, |_, _, _| {})
}

/// As [`play`]; before each event `turn` receives the time of the one before, and its own.
fn play_in_turns<O: Observer + ?Sized>(stream: &str, observer: &mut O, turn: impl Fn(&mut O, Ns, Ns)) -> Machines {
    let mut machines = Machines::new(if stream.contains('/') { 2 } else { 1 });
    for line in stream.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut words = line.split_ascii_whitespace();
        let ns: Ns = words.next().and_then(|word| word.parse().ok()).expect("a time");
        let cpu = words.next().expect("a CPU");
        let (machine, cpu) = cpu.split_once('/').unwrap_or(("0", cpu));
        let (machine, cpu): (u32, u64) = (machine.parse().expect("a machine"), cpu.parse().expect("a CPU"));
        let name = words.next().expect("a concept");
        if name != "loss" {
            turn(observer, machines.now(), ns);
        }
        let fields = words.map(|word| {
            let (name, value) = word.split_once('=').expect("a field");
            (Field::from_name(name).expect(name), value)
        });
        let fields = Fields(fields.collect());
        match Concept::from_name(name) {
            Some(concept) => {
                let happening = Happening { concept, is_legacy: false, values: &fields };
                if concept == Concept::Running {
                    let cpu = machines.touch(machine, ns, Some(cpu), observer).expect("a CPU");
                    machines.running(cpu, &happening, observer);
                    continue;
                }
                machines.apply_event(machine, ns, Some(cpu), &happening, observer);
            }
            None if name == "loss" => machines.apply_loss(machine, cpu, ns),
            None => drop(machines.touch(machine, ns, Some(cpu), observer)),
        }
    }
    machines.finish(observer);
    machines
}

/// Some columns of a table, a row a text.
pub(crate) fn rows(table: &Table, columns: &[&str]) -> Vec<String> {
    let shown = |cell: &Cell| match cell {
        Cell::Null => "-".to_string(),
        Cell::Integer(value) => value.to_string(),
        Cell::Real(value) => value.to_string(),
        Cell::Text(text) => text.to_string(),
        Cell::Bool(value) => value.to_string(),
        Cell::Counts(counts) => format!("{counts:?}"),
    };
    let places: Vec<usize> = columns.iter().map(|name| table.column(name).expect(name)).collect();
    let row = |row: &Vec<Cell>| places.iter().map(|&at| shown(&row[at])).collect::<Vec<_>>().join(" ");
    table.rows.cells().iter().map(row).collect()
}
