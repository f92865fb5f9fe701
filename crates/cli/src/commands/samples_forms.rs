//! Samples as tables and trees: `report` and `graph`.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::IsTerminal;

use serde_json::{Map, Value as Json, json};
use tracemill_calls::profile::{CpuTime, Profile, ProfileFunction, WeightUnit};
use tracemill_codec::text::csv::put_line;
use tracemill_codec::text::escaped;
use tracemill_codec::text::out::Out;
use tracemill_model::error::Error;
use tracemill_table::{Column, TableClock, TableStyle, TextTable, Unit, Value};

use super::calls;
use super::samples::{self, OpenSamples};
use crate::args::{CallArgs, CallFormat, GraphArgs, ReportArgs, ReportFormat};
use crate::report::{Outcome, counted, is_dumb_terminal};

/// A row of a table: its values, in the order of the columns.
type SampleRow<'r> = Vec<Value<'r>>;

/// Reports the functions of samples.
pub(super) fn report(args: &ReportArgs, mut open: OpenSamples) -> Result<Outcome, Error> {
    if args.format == ReportFormat::Html {
        return Err(not_html());
    }
    if args.task {
        return Err(Error::misuse("--task is for calls").with_help("for samples, --by thread"));
    }
    let by = args.by.as_deref();
    let Some(profile) = open.profile(&args.calls, &args.samples, by)? else { return Ok(Outcome::Nothing) };
    let Some(path) = &args.diff else {
        let functions = sorted(&profile, args.sort.as_deref())?;
        let text = match args.format {
            ReportFormat::Json => functions_json(&profile, &functions),
            format => {
                let (columns, rows) = functions_table(&profile, &functions);
                table(&headline(&profile), &columns, &rows, format == ReportFormat::Csv, None, &args.calls)
            }
        };
        return calls::sink(&args.calls)?.print(&text, open.finish());
    };
    let other_args = CallArgs { trace: Some(path.clone()), data: None, ..args.calls.clone() };
    let Some(mut other) = samples::open_other(&other_args, &args.samples)? else { return Ok(Outcome::Nothing) };
    let Some(others) = other.profile(&other_args, &args.samples, by)? else { return Ok(Outcome::Nothing) };
    let differences = differences(&profile, &others);
    let text = match args.format {
        ReportFormat::Json => differences_json(&differences),
        format => {
            let headline = format!("{}; the other recording: {}", headline(&profile), headline(&others));
            let (columns, rows) = differences_table(&profile, &differences);
            table(&headline, &columns, &rows, format == ReportFormat::Csv, None, &args.calls)
        }
    };
    calls::sink(&args.calls)?.print(&text, open.finish())
}

fn not_html() -> Error {
    Error::misuse("samples have no HTML here")
        .with_help("`tracemill flame` draws them, and --format json is for programs")
}

/// All samples in a line: their number, their events, their weight.
fn headline(profile: &Profile) -> String {
    let (weight, samples) = profile.total();
    let of = match profile.cpu {
        CpuTime::Off => " off CPU".to_string(),
        CpuTime::Both if profile.events.is_empty() => " off CPU".to_string(),
        CpuTime::Both => format!(" of {} and off CPU", profile.events.join(", ")),
        CpuTime::On if profile.events.is_empty() => String::new(),
        CpuTime::On => format!(" of {}", profile.events.join(", ")),
    };
    let word = if profile.cpu == CpuTime::Off { "time" } else { "sample" };
    let weight = match profile.unit {
        WeightUnit::Samples => String::new(),
        WeightUnit::Ns => format!(", {}.{:06} s", weight / 1_000_000_000, weight % 1_000_000_000 / 1_000),
        // Numbers of different events have no sum.
        WeightUnit::Events if profile.events.len() > 1 => String::new(),
        WeightUnit::Events => format!(", {}", counted(weight, "event")),
    };
    format!("{}{of}{weight}", counted(samples, word))
}

/// The functions in the order of a key.
fn sorted(profile: &Profile, sort: Option<&str>) -> Result<Vec<ProfileFunction>, Error> {
    let mut functions = profile.functions();
    let name = |of: &ProfileFunction| {
        let label = &profile.labels[of.label as usize];
        (label.name.clone(), label.module.clone())
    };
    let groups = |of: &ProfileFunction| -> Vec<_> {
        of.groups.iter().map(|group| profile.labels[*group as usize].name.clone()).collect()
    };
    let share = |own: u64, of: &ProfileFunction| (u128::from(own) << 64) / u128::from(of.whole.max(1));
    // The first of equal ones by name.
    functions.sort_by_cached_key(|of| (groups(of), name(of)));
    for key in sort.unwrap_or("self").split(',').map(str::trim).rev() {
        match key {
            "self" => functions.sort_by_key(|of| Reverse((share(of.own, of), of.own, share(of.total, of)))),
            "total" => functions.sort_by_key(|of| Reverse((share(of.total, of), of.total, share(of.own, of)))),
            "samples" => functions.sort_by_key(|of| Reverse(of.own_samples)),
            "function" => functions.sort_by_cached_key(name),
            "module" => functions.sort_by_cached_key(|of| name(of).1),
            "group" => functions.sort_by_cached_key(groups),
            _ => {
                let error = Error::misuse(format!("there is no key `{key}` to sort samples by"));
                return Err(error.with_help("keys are self, total, samples, function, module, group"));
            }
        }
    }
    Ok(functions)
}

fn share(own: u64, whole: u64) -> f64 {
    own as f64 / whole.max(1) as f64
}

/// A column of weights.
fn weight_column(name: &'static str, unit: WeightUnit) -> Column {
    match unit {
        WeightUnit::Ns => Column::new(format!("{name}_ns"), Unit::Duration),
        unit => Column::new(format!("{name}_{}", unit.name()), Unit::Count),
    }
}

fn functions_table<'r>(profile: &'r Profile, functions: &[ProfileFunction]) -> (Vec<Column>, Vec<SampleRow<'r>>) {
    let mut columns: Vec<Column> = profile.by.iter().map(|by| Column::new(by.name(), Unit::Name)).collect();
    columns.extend(["self", "total"].map(|name| Column::new(name, Unit::Share)));
    if profile.unit != WeightUnit::Samples {
        columns.extend(["self", "total"].map(|name| weight_column(name, profile.unit).spared(Some(1))));
    }
    columns.extend(["samples", "total_samples"].map(|name| Column::new(name, Unit::Count).spared(Some(0))));
    columns.extend(["module", "function"].map(|name| Column::new(name, Unit::Name)));
    let row = |of: &ProfileFunction| {
        let label = &profile.labels[of.label as usize];
        let groups = of.groups.iter().map(|group| Value::Text(&profile.labels[*group as usize].name));
        let mut row: SampleRow<'r> = groups.collect();
        row.extend([of.own, of.total].map(|weight| Value::Real(share(weight, of.whole))));
        if profile.unit != WeightUnit::Samples {
            row.extend([of.own, of.total].map(Value::from));
        }
        row.extend([of.own_samples, of.samples].map(Value::from));
        row.extend([Value::Text(&label.module), Value::Text(&label.name)]);
        row
    };
    (columns, functions.iter().map(row).collect())
}

/// A table as text or CSV. With `tree`, the names of a column stand deeper by the number of another one.
fn table(
    headline: &str,
    columns: &[Column],
    rows: &[SampleRow<'_>],
    is_csv: bool,
    tree: Option<(usize, usize)>,
    args: &CallArgs,
) -> Vec<u8> {
    let mut out = Out::default();
    if is_csv {
        put_line(&mut out, &columns.iter().map(|column| column.name.to_string()).collect::<Vec<_>>());
        for row in rows {
            let mut cells = Vec::new();
            for value in row {
                let mut cell = Out::default();
                match value {
                    // Quoted with the line.
                    Value::Text(text) => cell.put(text.as_bytes()),
                    value => tracemill_table::put_csv_value(&mut cell, *value),
                }
                cells.push(cell.written().to_vec());
            }
            put_line(&mut out, &cells);
        }
        return out.written().to_vec();
    }
    let is_terminal = args.output.is_none() && std::io::stdout().is_terminal() && !is_dumb_terminal();
    let width = || terminal_size::terminal_size().map_or(100, |(width, _)| usize::from(width.0));
    let style = TableStyle { is_colored: is_terminal, width: is_terminal.then(width), clock: TableClock::seconds() };
    let shown = columns.iter().enumerate().filter(|(at, _)| tree.is_none_or(|(_, depth)| depth != *at));
    let mut lines =
        TextTable::new(shown.collect(), &style).with_tree(tree.map(|(name, _)| name), tree.map(|(_, at)| at));
    rows.iter().for_each(|row| lines.widen_by(row));
    if let Some(width) = style.width {
        lines.fit(width);
    }
    out.put(escaped(headline).as_bytes());
    out.put_byte(b'\n');
    if !rows.is_empty() {
        lines.put_titles(&mut out);
    }
    rows.iter().for_each(|row| lines.put_row(&mut out, row, None));
    out.written().to_vec()
}

/// The names and values of the groups of a function.
fn put_groups(profile: &Profile, groups: &[u32], object: &mut Map<String, Json>) {
    for (by, group) in profile.by.iter().zip(groups) {
        object.insert(by.name().into(), Json::from(&*profile.labels[*group as usize].name));
    }
}

/// An object with a list in it, one item a line.
fn json_list(head: Json, name: &str, items: impl Iterator<Item = Map<String, Json>>) -> Vec<u8> {
    let mut text = head.to_string();
    text.pop();
    text += &format!(",{}:[", Json::from(name));
    for (at, item) in items.enumerate() {
        text += if at == 0 { "\n" } else { ",\n" };
        text += &Json::Object(item).to_string();
    }
    text += "\n]}\n";
    text.into_bytes()
}

/// The key of a weight.
fn weight_key(name: &str, unit: WeightUnit) -> String {
    if unit == WeightUnit::Ns { format!("{name}_ns") } else { name.to_string() }
}

fn head_json(profile: &Profile) -> Json {
    let (weight, samples) = profile.total();
    let total = weight_key("total", profile.unit);
    json!({ "events": profile.events, "unit": profile.unit.name(), "samples": samples, total: weight })
}

fn functions_json(profile: &Profile, functions: &[ProfileFunction]) -> Vec<u8> {
    let item = |of: &ProfileFunction| {
        let label = &profile.labels[of.label as usize];
        let mut object = Map::new();
        put_groups(profile, &of.groups, &mut object);
        object.insert("name".into(), Json::from(&*label.name));
        object.insert("module".into(), Json::from(&*label.module));
        object.insert("is_kernel".into(), label.is_kernel.into());
        object.insert(weight_key("self", profile.unit), of.own.into());
        object.insert(weight_key("total", profile.unit), of.total.into());
        object.insert("self_samples".into(), of.own_samples.into());
        object.insert("total_samples".into(), of.samples.into());
        object
    };
    json_list(head_json(profile), "functions", functions.iter().map(item))
}

/// A function in two recordings.
struct Difference {
    groups: Vec<String>,
    name: String,
    module: String,
    /// Its own weight, and that of the event's samples, in this recording and in the other one.
    own: [(u64, u64); 2],
}

impl Difference {
    fn shares(&self) -> [f64; 2] {
        self.own.map(|(own, whole)| share(own, whole))
    }

    fn change(&self) -> f64 {
        let [here, there] = self.shares();
        there - here
    }
}

/// The functions of two recordings, those with the largest differences first.
fn differences(here: &Profile, there: &Profile) -> Vec<Difference> {
    let mut found: Vec<Difference> = Vec::new();
    let mut known: HashMap<(Vec<String>, String, String), usize> = HashMap::new();
    // Of a group that only one recording has a function, the samples of the other one are the whole, too.
    let mut wholes: HashMap<(usize, Vec<String>), u64> = HashMap::new();
    for (at, profile) in [here, there].into_iter().enumerate() {
        let text = |label: u32| profile.labels[label as usize].name.to_string();
        for of in profile.functions() {
            let groups: Vec<String> = of.groups.iter().map(|group| text(*group)).collect();
            let module = profile.labels[of.label as usize].module.to_string();
            wholes.insert((at, groups.clone()), of.whole);
            let place = *known.entry((groups.clone(), text(of.label), module.clone())).or_insert_with(|| {
                found.push(Difference { groups, name: text(of.label), module, own: [(0, 0); 2] });
                found.len() - 1
            });
            found[place].own[at] = (of.own, of.whole);
        }
    }
    for one in &mut found {
        for at in 0..2 {
            let whole = wholes.get(&(at, one.groups.clone())).copied();
            one.own[at].1 = whole.unwrap_or(one.own[at].1);
        }
    }
    found.retain(|one| one.own.iter().any(|(own, _)| *own > 0));
    found.sort_by(|a, b| {
        let order = b.change().abs().total_cmp(&a.change().abs());
        order.then_with(|| (&a.groups, &a.name, &a.module).cmp(&(&b.groups, &b.name, &b.module)))
    });
    found
}

fn differences_table<'r>(here: &Profile, differences: &'r [Difference]) -> (Vec<Column>, Vec<SampleRow<'r>>) {
    let mut columns: Vec<Column> = here.by.iter().map(|by| Column::new(by.name(), Unit::Name)).collect();
    columns.extend(["self", "other", "change"].map(|name| Column::new(name, Unit::Share)));
    columns.extend(["module", "function"].map(|name| Column::new(name, Unit::Name)));
    let row = |one: &'r Difference| {
        let [here, there] = one.shares();
        let mut row: SampleRow<'r> = one.groups.iter().map(|group| Value::Text(group)).collect();
        row.extend([here, there, one.change()].map(Value::Real));
        row.extend([Value::Text(&one.module), Value::Text(&one.name)]);
        row
    };
    (columns, differences.iter().map(row).collect())
}

fn differences_json(differences: &[Difference]) -> Vec<u8> {
    let item = |one: &Difference| {
        let [here, there] = one.shares();
        let mut object = Map::new();
        if !one.groups.is_empty() {
            object.insert("groups".into(), one.groups.clone().into());
        }
        object.insert("name".into(), one.name.clone().into());
        object.insert("module".into(), one.module.clone().into());
        object.insert("self".into(), one.own[0].0.into());
        object.insert("other".into(), one.own[1].0.into());
        object.insert("self_share".into(), here.into());
        object.insert("other_share".into(), there.into());
        object
    };
    json_list(json!({ "is_difference": true }), "functions", differences.iter().map(item))
}

/// Shows samples as trees of callers and callees.
pub(super) fn graph(
    args: &GraphArgs,
    call_args: &CallArgs,
    function: Option<&str>,
    mut open: OpenSamples,
) -> Result<Outcome, Error> {
    if args.format == CallFormat::Html {
        return Err(not_html());
    }
    if args.task {
        return Err(Error::misuse("--task is for calls").with_help("for samples, --by thread"));
    }
    let Some(profile) = open.profile(call_args, &args.samples, args.by.as_deref())? else {
        return Ok(Outcome::Nothing);
    };
    let pattern = function.map(|name| (name, call_args.rules.0.patterns.expression(name)));
    let is_it = |name: &str| match &pattern {
        Some((_, Some(expression))) => expression.is_match(name),
        Some((wanted, None)) => name == *wanted,
        None => false,
    };
    let mut parts = Vec::new();
    match function {
        None => parts.push((None, profile)),
        Some(function) => {
            let callers = profile.callers_of(is_it);
            if callers.total().1 == 0 {
                open.reporter.warning(&format!("no sample is in a function `{}`", escaped(function)));
            }
            parts.push((Some("callers"), callers));
            parts.push((Some("callees"), profile.callees_of(is_it)));
        }
    }
    let mut text = Vec::new();
    if args.format == CallFormat::Json {
        text = trees_json(&parts);
    } else {
        for (title, profile) in &parts {
            let headline = headline(profile);
            let headline = title.map_or(headline.clone(), |title| format!("{title}: {headline}"));
            let (columns, rows, tree) = tree_table(profile);
            text.extend(table(&headline, &columns, &rows, false, Some(tree), call_args));
        }
    }
    calls::sink(call_args)?.print(&text, open.finish())
}

/// The nodes of a tree as rows; those with the largest sums first among their siblings.
fn tree_table(profile: &Profile) -> (Vec<Column>, Vec<SampleRow<'_>>, (usize, usize)) {
    let mut columns: Vec<Column> = ["total", "self"].map(|name| Column::new(name, Unit::Share)).into();
    columns.push(Column::new("samples", Unit::Count));
    columns.extend(["module", "function"].map(|name| Column::new(name, Unit::Name)));
    columns.push(Column::new("depth", Unit::Count));
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); profile.nodes.len()];
    for (at, node) in profile.nodes.iter().enumerate().skip(1) {
        children[node.parent].push(at);
    }
    // The last one of a list is taken first.
    children.iter_mut().for_each(|list| list.sort_by_key(|&at| (profile.nodes[at].total, Reverse(at))));
    let mut open: Vec<usize> = children.first().cloned().unwrap_or_default();
    let whole = profile.total().0;
    let mut rows = Vec::new();
    while let Some(at) = open.pop() {
        let node = &profile.nodes[at];
        let label = &profile.labels[node.label as usize];
        rows.push(vec![
            Value::Real(share(node.total, whole)),
            Value::Real(share(node.own, whole)),
            Value::from(node.samples),
            Value::Text(&label.module),
            Value::Text(&label.name),
            Value::from(node.depth as u64 - 1),
        ]);
        open.extend(&children[at]);
    }
    (columns, rows, (4, 5))
}

fn trees_json(parts: &[(Option<&str>, Profile)]) -> Vec<u8> {
    let mut text = Vec::new();
    text.extend_from_slice(b"{\"trees\":[");
    for (at, (title, profile)) in parts.iter().enumerate() {
        let nodes = profile.nodes.iter().enumerate().map(|(id, node)| {
            let label = &profile.labels[node.label as usize];
            let mut object = Map::new();
            object.insert("id".into(), id.into());
            object.insert("parent".into(), if id == 0 { Json::Null } else { node.parent.into() });
            object.insert("name".into(), Json::from(&*label.name));
            object.insert("module".into(), Json::from(&*label.module));
            object.insert("samples".into(), node.samples.into());
            object.insert(weight_key("total", profile.unit), node.total.into());
            object.insert(weight_key("self", profile.unit), node.own.into());
            object
        });
        let mut head = head_json(profile);
        if let (Some(title), Some(head)) = (title, head.as_object_mut()) {
            head.insert("of".into(), Json::from(*title));
        }
        text.extend_from_slice(if at == 0 { b"\n" } else { b",\n" });
        let mut tree = json_list(head, "nodes", nodes);
        tree.pop();
        text.extend(tree);
    }
    text.extend_from_slice(b"\n]}\n");
    text
}
