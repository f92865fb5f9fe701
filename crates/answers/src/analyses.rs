//! `analyze`: the tables of `tracemill analyze` about a range of what is shown, and which of them there are.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::rc::Rc;

use serde_json::{Map, Value as Json, json};
use tracemill_analyses::kernel::{
    ANALYSES, AnalysisForm, AnalysisOption, AnalysisQuery, BoundCustom, Cell, Column, Descriptor, FormWord, Numbers,
    RowForm, RowSink, Rows, StateRow, StateSink, Table, ThreadPaths, Unit, Value, View,
};

use crate::error::{Answer, ApiError};
use crate::kernel::{CUSTOM, KernelQuestion, unanswered};
use crate::period_track::PeriodId;
use crate::periods;
use crate::points::Points;
use crate::query::{Asker, Query, ns, some_ns};
use crate::state::TraceState;
use crate::why;

/// Rows of an answer, unless it is asked for more, and at most.
const ROWS: usize = 1_000;
const MAX_ROWS: usize = 10_000;

/// Rows of `top` at most.
const MAX_TOP: usize = 10_000;

/// Buckets of a histogram at most.
const MAX_BUCKETS: usize = 1_000;

/// Analyses that have a row for each change: of these only the first rows are kept.
const LISTINGS: [&str; 3] = [STATES, "timehist", "map"];

/// Its rows are found when they end, and stand in the order of their beginnings.
const STATES: &str = "states";

/// `analyze`: the list of analyses, or with `name` the table of one.
pub(crate) fn analyze(state: &TraceState, query: &Query) -> Answer<Json> {
    match query.get("name") {
        None => Ok(list(state)),
        Some(name) => AnalyzeQuestion::parse(name, query)?.table(state, query),
    }
}

fn list(state: &TraceState) -> Json {
    let has = state.analyses();
    let known = ANALYSES.iter().filter(|known| has.contains(&known.name));
    let form = |known: &Descriptor, form: &AnalysisForm| {
        let takes: Vec<&str> = form.takes.iter().map(|option| option.name().trim_start_matches("--")).collect();
        let of = form.word.map(FormWord::name);
        json!({ "of": of, "keys": form.keys, "spans": has_spans(known, form), "takes": takes })
    };
    let analysis = |known: &Descriptor| {
        let forms: Vec<Json> = known.forms.iter().map(|own| form(known, own)).collect();
        json!({ "name": known.name, "about": known.about, "forms": forms })
    };
    json!({ "analyses": known.map(analysis).collect::<Vec<_>>() })
}

/// The states and counters of the file that the command line names.
fn custom_of(state: &TraceState) -> Answer<Rc<BoundCustom>> {
    let traces = &state.input.traces;
    let custom = traces.custom.as_ref().ok_or_else(|| unanswered(CUSTOM))?;
    let bound = BoundCustom::new(&custom.definitions, &traces.session, custom.gmt);
    bound.map(Rc::new).map_err(|error| ApiError::request(error.message()))
}

/// Can the spans of a form be listed? Those of some are lists over periods, which are not asked for here.
fn has_spans(known: &Descriptor, form: &AnalysisForm) -> bool {
    form.has_spans() && known.over_periods.is_none()
}

/// A question to an analysis, as its parameters ask it.
struct AnalyzeQuestion {
    known: &'static Descriptor,
    asked: AnalysisQuery,
    /// Are durations wanted as points, too?
    has_points: bool,
    limit: usize,
    sort: Option<String>,
    period: Option<PeriodId>,
}

impl AnalyzeQuestion {
    fn parse(name: &str, query: &Query) -> Answer<AnalyzeQuestion> {
        let known = Descriptor::find(name);
        let known = known.ok_or_else(|| ApiError::new(404, "analysis", format!("unknown analysis `{name}`")))?;
        let word = |text: &str| {
            let word = FormWord::ALL.iter().copied().find(|word| word.name() == text && known.has_word(*word));
            word.ok_or_else(|| ApiError::request(format!("`{name}` has no rows of `{text}`")))
        };
        let words: Vec<FormWord> = query.get("of").map(word).transpose()?.into_iter().collect();
        let by = query.get("by").map(str::to_string);
        let forms = known.forms_for(&words, by.as_deref()).map_err(|keys| {
            let by = by.as_deref().unwrap_or_default();
            ApiError::request(format!("`{name}` has no groups `{by}`; it has {}", keys.join(", ")))
        })?;
        let takes = |option: AnalysisOption| forms.iter().any(|form| form.takes.contains(&option));
        let number =
            |name: &str, most: usize| -> Answer<usize> { Ok(query.number(name)?.unwrap_or(most / 10).clamp(1, most)) };
        let (view, needed) = match query.get("view") {
            None | Some("statistics") => (View::Statistics, None),
            Some("log" | "points") => (View::Log, Some(AnalysisOption::Log)),
            Some("top") => (View::Top(number("top", MAX_TOP)?), Some(AnalysisOption::Top)),
            Some("hist") if query.get("buckets").is_none() => (View::PowersOfTwo, Some(AnalysisOption::Hist)),
            Some("hist") => (View::Histogram(number("buckets", MAX_BUCKETS)?), Some(AnalysisOption::Hist)),
            Some(other) => return Err(ApiError::request(format!("`view` is not `{other}`"))),
        };
        let numbers = |name: &str| {
            let parse = |text: &str| {
                let wrong = || ApiError::request(format!("`{name}` is not a list of numbers such as 1,4-7: `{text}`"));
                Numbers::parse(text).ok_or_else(wrong)
            };
            query.get(name).map(parse).transpose()
        };
        let given = [("tid", AnalysisOption::Tid), ("cpu", AnalysisOption::Cpu)];
        let given = given.into_iter().filter(|(name, _)| query.get(name).is_some()).map(|(_, option)| option);
        let needed = needed.filter(|_| !forms.iter().any(|form| has_spans(known, form)));
        if let Some(refused) = given.filter(|option| !takes(*option)).chain(needed).next() {
            return Err(ApiError::request(format!("`{}` does not take {}", forms[0].title(known), refused.name())));
        }
        let tids = numbers("tid")?;
        if ["path", "why"].contains(&known.name) && tids.as_ref().is_none_or(|tids| tids.single().is_none()) {
            return Err(ApiError::request(format!("`{name}` is about one thread, and `tid` does not name one")));
        }
        let period = periods::from_query(query)?;
        if (known.name == "periods") != period.is_some() {
            return Err(ApiError::request("a period is for `periods`, which needs one"));
        }
        let asked = AnalysisQuery {
            by,
            view,
            words,
            tids,
            cpus: numbers("cpu")?,
            // Open files at the end do not depend on the beginning.
            begin: if takes(AnalysisOption::Begin) { query.number("begin")? } else { None },
            end: query.number("end")?,
            ..AnalysisQuery::default()
        };
        Ok(AnalyzeQuestion {
            known,
            asked,
            has_points: query.get("view") == Some("points"),
            limit: query.number("limit")?.unwrap_or(ROWS).min(MAX_ROWS),
            sort: query.get("sort").map(str::to_string),
            period,
        })
    }

    /// The table as JSON.
    fn table(self, state: &TraceState, query: &Query) -> Answer<Json> {
        let AnalyzeQuestion { known, mut asked, has_points, limit, sort, period } = self;
        asked.periods = period.as_ref().map(|period| periods::bind(state, period)).transpose()?;
        if known.name == CUSTOM {
            asked.custom = Some(custom_of(state)?);
        }
        let noun = known.row_noun(&asked);
        let question = KernelQuestion::new(&state.input.traces, known.name, asked, &query.asker.flag());
        let mut question = question.ok_or_else(|| unanswered(known.name))?;
        let columns = known.columns_for(&question.query);
        let (index, range) = (state.index(), (question.query.begin, question.query.end));
        let range = index.map(|index| (range.0.unwrap_or(index.begin), range.1.unwrap_or(index.end)));
        let is_listed = question.query.view == View::Log || LISTINGS.contains(&known.name);
        let listed = is_listed.then(|| {
            let points = index.filter(|_| has_points).map(|index| Points::new(index, range));
            Rc::new(RefCell::new(ListedRows::new(&columns, points, limit)))
        });
        question.query.sink = listed
            .clone()
            .map(|listed| -> RowSink { Rc::new(RefCell::new(move |row: &[Value<'_>]| listed.borrow_mut().add(row))) });
        let states = (known.name == STATES).then(|| Rc::new(RefCell::new(FirstStates::new(limit))));
        question.query.states = states
            .clone()
            .map(|states| -> StateSink { Rc::new(RefCell::new(move |row: &StateRow| states.borrow_mut().add(row))) });
        question.query.keeps_states = states.is_some();
        let form = RowForm::new(&columns, question.query.machine_names.clone());
        let machines: Vec<usize> = question.traces.clone();
        let has_machines = question.query.has_machines;
        let mut table = question.table(state, &query.asker)?;
        let (rows, total, points) = match (states, listed) {
            (Some(states), _) => {
                let states = states.borrow();
                (states.cells(&form), states.count, None)
            }
            (None, Some(listed)) => {
                let ListedRows { rows, count, points, .. } = &mut *listed.borrow_mut();
                (std::mem::take(rows), *count, points.take())
            }
            (None, None) => {
                if let Some(column) = &sort
                    && !table.sort_by(column)
                {
                    return Err(ApiError::request(format!("`{}` has no column `{column}`", known.name)));
                }
                let count = table.found.unwrap_or(table.rows.len() as u64);
                (cells_of(&table.rows, limit), count, None)
            }
        };
        let shape = TableShape { known, noun, has_machines, machines };
        let mut answer = shape.answer(state, &table, rows, total);
        if let Some((period, range)) = period.zip(table.range)
            && let Some(missed) = periods::missed(state, &period, range, &query.asker)?
        {
            answer["missed"] = missed;
        }
        if let Some(points) = points {
            answer["points"] = points.json_with(|of, at| match of.and_then(|of| track_of(state, of, at)) {
                Some(id) => json!({ "track": id }),
                None => json!({}),
            });
        }
        Ok(answer)
    }
}

/// The track of a thread at a time.
fn track_of(state: &TraceState, (machine, tid): PointOf, at: i128) -> Option<String> {
    let kept = state.states()?;
    Some(kept.id(kept.thread_at(machine, tid, at)?))
}

/// How the table of an analysis becomes an answer.
struct TableShape {
    known: &'static Descriptor,
    noun: &'static str,
    has_machines: bool,
    /// The first trace of each machine.
    machines: Vec<usize>,
}

impl TableShape {
    fn answer(&self, state: &TraceState, table: &Table, rows: Vec<Vec<Cell>>, total: u64) -> Json {
        let known = self.known;
        let machine_name = |machine: usize| {
            let trace = self.machines.get(machine).and_then(|trace| state.input.traces.session.traces.get(*trace));
            trace.map_or_else(String::new, |trace| trace.name.to_string())
        };
        let places = ThreadColumns::new(&table.columns);
        let last = table.range.map_or(0, |(_, end)| end);
        let track = |cells: &Vec<Cell>| {
            let values: Vec<Value<'_>> = cells.iter().map(Value::from).collect();
            track_of(state, places.thread(&values)?, places.time(&values).unwrap_or(last))
        };
        let tracks: Option<Vec<Option<String>>> = places.tid.map(|_| rows.iter().map(track).collect());
        // Rows name machines by their numbers.
        let named = |mut cells: Vec<Cell>| {
            if self.has_machines
                && let Some(Cell::Text(number)) = cells.first()
            {
                cells[0] = Cell::text(Some(&machine_name(number.parse().unwrap_or(usize::MAX))));
            }
            cells
        };
        let values = |columns: &[Column], rows: Vec<Vec<Cell>>| -> Vec<Json> {
            let row = |cells: Vec<Cell>| {
                let cells = named(cells);
                columns.iter().zip(&cells).map(|(column, cell)| value_json(cell, column.unit)).collect()
            };
            rows.into_iter().map(row).collect()
        };
        let columns_json = |columns: &[Column]| -> Vec<Json> {
            let column = |column: &Column| {
                json!({
                    "name": column.name, "unit": unit_name(column.unit), "meaning": known.meaning(column),
                    "hidden": table.for_programs.contains(&&*column.name),
                })
            };
            columns.iter().map(column).collect()
        };
        let mut answer = json!({
            "analysis": known.name,
            "begin": some_ns(table.range.map(|range| range.0)),
            "end": some_ns(table.range.map(|range| range.1)),
            "columns": columns_json(&table.columns),
            "rows": values(&table.columns, rows),
            "total": total,
            "noun": self.noun,
            "all": table.all.iter().map(|(column, cell)| (column.name.to_string(), value_json(cell, column.unit)))
                .collect::<Map<String, Json>>(),
            "sentences": table.sentences,
            "remarks": table.remarks().into_iter().map(|remark| remark.text).collect::<Vec<_>>(),
        });
        if let Some((columns, rows)) = &table.totals {
            answer["totals"] = json!({ "columns": columns_json(columns), "rows": values(columns, rows.clone()) });
        }
        if let Some(tracks) = tracks {
            answer["tracks"] = json!(tracks);
        }
        answer
    }
}

/// Rows of a table that a page in one file has.
const FILE_ROWS: usize = 200;

/// Analyses whose tables are not in a page in one file: they are about one thread, or about what users define.
const NOT_IN_FILES: [&str; 4] = ["path", "why", "periods", CUSTOM];

/// The analyses of a page in one file: one reading finds it all.
#[derive(Default)]
pub(crate) struct PageAnalyses {
    /// The analyses, and their statistics of all that is shown, by the texts of the questions. `None` when the traces feed none.
    pub(crate) tables: Option<Json>,
    /// Why threads waited, where the traces say it.
    pub(crate) paths: Option<ThreadPaths>,
}

/// Finds it; of critical paths `most_parts` parts at most.
pub(crate) fn page_analyses(state: &TraceState, most_parts: usize) -> PageAnalyses {
    let has = state.analyses();
    let is_in_files = |known: &&Descriptor| {
        has.contains(&known.name) && !NOT_IN_FILES.contains(&known.name) && !LISTINGS.contains(&known.name)
    };
    let mut list = list(state);
    if let Some(analyses) = list["analyses"].as_array_mut() {
        analyses.retain(|own| ANALYSES.iter().filter(is_in_files).any(|known| own["name"] == known.name));
    }
    let asker = Asker::default();
    let (mut keys, mut shapes, mut analyses, mut reading) = (Vec::new(), Vec::new(), Vec::new(), None);
    for known in ANALYSES.iter().filter(is_in_files) {
        for form in known.forms {
            let word = form.word.map_or("", FormWord::name);
            let groups = if form.keys.is_empty() { &[""][..] } else { form.keys };
            for by in groups {
                let asked = AnalysisQuery {
                    by: Some(by.to_string()).filter(|by| !by.is_empty()),
                    words: form.word.into_iter().collect(),
                    ..AnalysisQuery::default()
                };
                let noun = known.row_noun(&asked);
                let question = KernelQuestion::new(&state.input.traces, known.name, asked, &asker.flag());
                let Some(KernelQuestion { reading: own, query, traces: machines, .. }) = question else { continue };
                reading.get_or_insert(own);
                keys.push(format!("{}/{word}/{by}", known.name));
                shapes.push(TableShape { known, noun, has_machines: query.has_machines, machines });
                analyses.push((known.make)(&query));
            }
        }
    }
    let why = KernelQuestion::new(&state.input.traces, why::ANALYSIS, AnalysisQuery::default(), &asker.flag());
    let paths = why.map(|KernelQuestion { reading: own, query, .. }| {
        reading.get_or_insert(own);
        let (analysis, paths) = ThreadPaths::analysis(&query, most_parts);
        // It has no table, and stands behind those that have one.
        analyses.push(analysis);
        paths
    });
    let found = reading.and_then(|reading| reading.run(analyses, &mut |_| ControlFlow::Continue(())).ok());
    let Some(found) = found else { return PageAnalyses::default() };
    let has_tables = !keys.is_empty();
    let tables = keys.into_iter().zip(shapes).zip(found).map(|((key, shape), table)| {
        let count = table.found.unwrap_or(table.rows.len() as u64);
        let rows = cells_of(&table.rows, FILE_ROWS);
        (key, shape.answer(state, &table, rows, count))
    });
    let tables = json!({ "list": list, "tables": tables.collect::<Map<String, Json>>() });
    PageAnalyses { tables: has_tables.then_some(tables), paths: paths.map(|paths| paths.take()) }
}

/// The machine and the number of the thread of a duration.
type PointOf = (u32, i64);

/// Rows as they are found: the first of them, and their durations.
struct ListedRows {
    rows: Vec<Vec<Cell>>,
    count: u64,
    limit: usize,
    points: Option<Points<Option<PointOf>>>,
    places: ThreadColumns,
    duration: Option<usize>,
}

/// Where rows say when something was, and of which thread.
struct ThreadColumns {
    time: Option<usize>,
    tid: Option<usize>,
    has_machines: bool,
}

impl ThreadColumns {
    fn new(columns: &[Column]) -> ThreadColumns {
        let named = |name: &str| columns.iter().position(|column| column.name == name);
        ThreadColumns {
            time: columns.iter().position(|column| column.unit == Unit::Time),
            tid: named("tid"),
            has_machines: named("trace") == Some(0),
        }
    }

    fn time(&self, row: &[Value<'_>]) -> Option<i128> {
        integer_at(row, self.time)
    }

    fn thread(&self, row: &[Value<'_>]) -> Option<PointOf> {
        let tid = i64::try_from(integer_at(row, self.tid)?).ok()?;
        match row.first() {
            Some(Value::Text(number)) if self.has_machines => Some((number.parse().ok()?, tid)),
            _ => Some((0, tid)),
        }
    }
}

fn integer_at(row: &[Value<'_>], at: Option<usize>) -> Option<i128> {
    match row.get(at?) {
        Some(Value::Integer(number)) => Some(*number),
        _ => None,
    }
}

impl ListedRows {
    fn new(columns: &[Column], points: Option<Points<Option<PointOf>>>, limit: usize) -> ListedRows {
        let named = columns.iter().position(|column| column.name == "duration_ns");
        let duration = named.or_else(|| columns.iter().position(|column| column.unit == Unit::Duration));
        ListedRows { rows: Vec::new(), count: 0, limit, points, places: ThreadColumns::new(columns), duration }
    }

    fn add(&mut self, row: &[Value<'_>]) {
        self.count += 1;
        if self.rows.len() < self.limit {
            self.rows.push(row.iter().map(|value| Cell::from(*value)).collect());
        }
        let (Some(points), Some(begin)) = (&mut self.points, self.places.time(row)) else { return };
        if let Some(duration) = integer_at(row, self.duration) {
            points.add_of(begin, duration, self.places.thread(row));
        }
    }
}

/// The first rows of `states`, in their order: by their beginnings, then by kinds and numbers.
struct FirstStates {
    rows: BTreeMap<(i128, usize, i64, u64), StateRow>,
    count: u64,
    limit: usize,
}

impl FirstStates {
    fn new(limit: usize) -> FirstStates {
        FirstStates { rows: BTreeMap::new(), count: 0, limit }
    }

    fn add(&mut self, row: &StateRow) {
        let key = (row.from, row.kind(), row.number, self.count);
        self.count += 1;
        let is_full = self.rows.len() >= self.limit;
        if is_full && self.rows.last_key_value().is_none_or(|(last, _)| *last < key) {
            return;
        }
        self.rows.insert(key, row.clone());
        if is_full {
            self.rows.pop_last();
        }
    }

    fn cells(&self, form: &RowForm) -> Vec<Vec<Cell>> {
        let cells = |row: &StateRow| {
            let mut cells = Vec::new();
            form.append_cells(row, &mut cells);
            cells
        };
        self.rows.values().map(cells).collect()
    }
}

/// The first rows of a table.
fn cells_of(rows: &Rows, limit: usize) -> Vec<Vec<Cell>> {
    let mut cells = Vec::new();
    rows.for_each(&mut |row| {
        if cells.len() < limit {
            cells.push(row.iter().map(|value| Cell::from(*value)).collect());
        }
    });
    cells
}

/// Integers that numbers of JSON hold exactly.
const EXACT: i128 = 1 << 53;

/// A value; times and durations are texts, as everywhere in answers, and so are integers that numbers do not hold.
fn value_json(cell: &Cell, unit: Unit) -> Json {
    match cell {
        Cell::Null => Json::Null,
        Cell::Integer(number) if matches!(unit, Unit::Time | Unit::Duration) => ns(number),
        Cell::Integer(number) if number.abs() < EXACT => json!(*number as i64),
        Cell::Integer(number) => ns(number),
        Cell::Real(number) => json!(number),
        Cell::Text(text) => json!(text),
        Cell::Bool(is_so) => json!(is_so),
        Cell::Counts(counts) => counts.iter().map(|(name, count)| (name.clone(), json!(count))).collect(),
    }
}

fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Name => "name",
        Unit::Count => "count",
        Unit::Time => "time",
        Unit::Duration => "duration",
        Unit::Share => "share",
        Unit::Correlation => "correlation",
        Unit::Bytes => "bytes",
        Unit::Address => "address",
        Unit::Device => "device",
    }
}
