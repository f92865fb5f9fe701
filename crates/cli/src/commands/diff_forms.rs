//! `tracemill diff` as tables for people.

use tracemill_analyses::diff::{FieldDifference, FirstDifference, Metric, SpreadRow, Verdict};
use tracemill_analyses::kernel::PathComparison;
use tracemill_codec::text::escaped;
use tracemill_codec::text::out::Out;
use tracemill_table::{Align, Layout, Unit, Value, put_wrapped};

use super::diff::{CountRow, SideFacts, StreamRow, TraceDifference};
use super::report_forms::cell;
use crate::args::DiffOptions;
use crate::report::counted;

/// Streams whose first difference is shown, unless all rows are.
const STREAMS_SHOWN: usize = 3;

/// Characters of a line of a sentence.
const SENTENCE_WIDTH: usize = 100;

/// The tables.
pub(super) fn table(of: &TraceDifference, options: &DiffOptions) -> String {
    let mut page = DiffPage { of, options, out: Out::default() };
    page.put_sides();
    page.put_counts();
    page.put_schema();
    page.put_order();
    page.put_values();
    page.put_paths();
    page.out.put(if of.is_different() { b"\nthe traces differ\n" } else { b"\nno difference\n" });
    String::from_utf8_lossy(page.out.written()).into_owned()
}

struct DiffPage<'d> {
    of: &'d TraceDifference,
    options: &'d DiffOptions,
    out: Out,
}

impl DiffPage<'_> {
    /// Puts a table whose first `left` columns stand at the left.
    fn put_table(&mut self, left: usize, lines: &[Vec<String>]) {
        self.put_lines(|at| if at < left { Align::Left } else { Align::Right }, lines);
    }

    /// Puts lines of cells below each other.
    fn put_lines(&mut self, side: impl Fn(usize) -> Align, lines: &[Vec<String>]) {
        let columns = lines.first().map_or(0, Vec::len);
        let mut layout = Layout::with_alignments((0..columns).map(side));
        lines.iter().for_each(|line| layout.widen(line));
        lines.iter().for_each(|line| layout.put_line(&mut self.out, line));
    }

    /// The number of rows that are shown of so many, and how many are left out.
    fn shown(&self, rows: usize) -> (usize, usize) {
        let shown = self.options.rows.0.unwrap_or(rows).min(rows);
        (shown, rows - shown)
    }

    fn put_more(&mut self, more: usize) {
        if more > 0 {
            self.out.put_fmt(format_args!("{} more: --rows all shows them\n", counted(more as u64, "row")));
        }
    }

    fn put_sides(&mut self) {
        self.put_table(3, &side_lines(self.of));
    }

    fn put_counts(&mut self) {
        let of = self.of;
        let different = of.counts.iter().filter(|row| row.difference() != 0).count();
        let names = counted(of.counts.len() as u64, "name");
        self.out.put_fmt(format_args!("\nCounts: {different} of {names} differ\n"));
        let wanted = if self.options.all { of.counts.len() } else { different };
        if wanted == 0 {
            return;
        }
        let (shown, more) = self.shown(wanted);
        let mut lines = vec![count_head()];
        lines.extend(of.counts[..shown].iter().map(|row| count_line(of, row)));
        self.put_table(1, &lines);
        self.put_more(more);
    }

    fn put_schema(&mut self) {
        let schema = &self.of.schema;
        let is_same = schema.only.iter().all(Vec::is_empty) && schema.fields.is_empty();
        self.out.put(if is_same { b"\nEvent classes: the same fields\n" } else { b"\nEvent classes\n" });
        for (events, side) in schema.only.iter().zip(["A", "B"]) {
            let (shown, more) = self.shown(events.len());
            for event in &events[..shown] {
                self.out.put_fmt(format_args!("only {side} has `{}`\n", escaped(event)));
            }
            self.put_more(more);
        }
        if !schema.fields.is_empty() {
            let (shown, more) = self.shown(schema.fields.len());
            let mut lines = vec![strings(["event", "field", "A", "B"])];
            lines.extend(schema.fields[..shown].iter().map(field_line));
            self.put_table(4, &lines);
            self.put_more(more);
        }
        match schema.stored_otherwise.len() {
            0 => {}
            count if self.options.all => {
                let (shown, more) = self.shown(count);
                let mut lines = vec![strings(["event", "field", "A_stores", "B_stores"])];
                lines.extend(schema.stored_otherwise[..shown].iter().map(stored_line));
                self.put_table(4, &lines);
                self.put_more(more);
            }
            count => {
                let fields = counted(count as u64, "field");
                self.out.put_fmt(format_args!("{fields} of equal kind stored in another way: --all shows them\n"));
            }
        }
    }

    fn put_order(&mut self) {
        let of = self.of;
        let different: Vec<&StreamRow> = of.order.iter().filter(|row| row.difference.is_some()).collect();
        match &of.order[..] {
            [StreamRow { names: None, difference }] => {
                let word = if difference.is_some() { "differs" } else { "is the same" };
                self.out.put_fmt(format_args!("\nOrder: no stream is on both sides; that of all events {word}\n"));
            }
            all => {
                let streams = counted(all.len() as u64, "stream");
                self.out.put_fmt(format_args!("\nOrder: {} of {streams} differ\n", different.len()));
            }
        }
        for (streams, side) in of.only_streams.iter().zip(["A", "B"]) {
            if !streams.is_empty() {
                let named: Vec<String> = streams.iter().take(4).map(|name| format!("`{}`", escaped(name))).collect();
                let more = if streams.len() > named.len() { ", ..." } else { "" };
                let count = counted(streams.len() as u64, "stream");
                self.out.put_fmt(format_args!("only {side} has {count}: {}{more}\n", named.join(", ")));
            }
        }
        let shown = if self.options.rows.0.is_none() { different.len() } else { STREAMS_SHOWN.min(different.len()) };
        for row in &different[..shown] {
            self.put_stream(row);
        }
        self.put_more(different.len() - shown);
    }

    fn put_stream(&mut self, row: &StreamRow) {
        let Some(FirstDifference { same, before, after }) = &row.difference else { return };
        let name = match &row.names {
            None => "all streams".to_string(),
            Some([a, b]) if a == b => format!("stream `{}`", escaped(a)),
            Some([a, b]) => format!("stream `{}`, in B `{}`", escaped(a), escaped(b)),
        };
        self.out.put_fmt(format_args!("{name}: the first {} are the same, then\n", counted(*same, "event")));
        let mut lines = Vec::new();
        for (sign, side, places) in [(" ", 0, before), ("A", 0, &after[0]), ("B", 1, &after[1])] {
            let begin = self.of.sides[side].side.range.map_or(0, |(first, _)| first);
            lines.extend(places.iter().map(|place| {
                let time = place.ns.map_or("-".into(), |ns| format!("+{}", microseconds(Value::Integer(ns - begin))));
                vec![format!("  {sign}"), time, escaped(self.of.names.text(place.name))]
            }));
            if places.is_empty() && sign != " " {
                lines.push(vec![format!("  {sign}"), "-".into(), "(end)".into()]);
            }
        }
        self.put_lines(|at| if at == 1 { Align::Right } else { Align::Left }, &lines);
    }

    fn put_values(&mut self) {
        let all = &self.of.values;
        let count = |verdict| all.iter().filter(|row| row.verdict == verdict).count();
        let differing = count(Verdict::Differs);
        self.out.put_fmt(format_args!(
            "\nTimes and values: {differing} of {} differ ({} noise, {} small, {} with too few values)\n",
            all.len(),
            count(Verdict::Noise),
            count(Verdict::Small),
            count(Verdict::TooFew)
        ));
        let wanted: Vec<&SpreadRow> =
            all.iter().filter(|row| self.options.all || row.verdict == Verdict::Differs).collect();
        for (is_time, unit) in [(true, "_us"), (false, "")] {
            let rows: Vec<&&SpreadRow> = wanted.iter().filter(|row| row.metric.kind.is_time() == is_time).collect();
            if rows.is_empty() {
                continue;
            }
            let (shown, more) = self.shown(rows.len());
            let mut lines = vec![value_head(unit, self.options.all)];
            lines.extend(rows[..shown].iter().map(|row| value_line(row, self.options.all)));
            self.put_table(2, &lines);
            self.put_more(more);
        }
    }

    fn put_paths(&mut self) {
        for of in &self.of.paths {
            let [a, b] = of.periods.map(|count| counted(count as u64, "period"));
            self.out.put_fmt(format_args!("\nPaths of `{}`: {a} in A, {b} in B\n", escaped(&of.name)));
            for sentence in path_sentences(of) {
                put_wrapped(&mut self.out, "", &escaped(&sentence), 2, SENTENCE_WIDTH);
            }
            let lines = path_lines(of);
            let (shown, more) = self.shown(lines.len() - 1);
            if shown > 0 {
                self.put_table(1, &lines[..=shown]);
                self.put_more(more);
            }
        }
    }
}

/// Sentences about the paths of periods, besides their causes.
pub(super) fn path_sentences(of: &PathComparison) -> Vec<String> {
    let mut sentences: Vec<String> = of.sentence.iter().cloned().collect();
    for (at, side) in ["A", "B"].into_iter().enumerate() {
        match (of.periods[at], of.unknown[at]) {
            (0, 0) => sentences.push(format!("no path of `{}` is known in {side}", of.name)),
            (_, 0) => {}
            (_, unknown) => {
                let periods = counted(unknown as u64, "period");
                sentences.push(format!("of {periods} in {side} no event says which thread ended them"));
            }
        }
    }
    sentences
}

/// The head of the causes of paths, and a line for each.
pub(super) fn path_lines(of: &PathComparison) -> Vec<Vec<String>> {
    let mut lines = vec![strings(["why", "A_us", "B_us", "change_us", "change"])];
    lines.extend(of.causes.iter().map(|cause| {
        let [a, b] = cause.mean_ns;
        let us = |ns: f64| microseconds(Value::Real(ns));
        let sign = if cause.change() >= 0.0 { "+" } else { "" };
        vec![escaped(&cause.why), us(a), us(b), format!("{sign}{}", us(cause.change())), change(a, b)]
    }));
    lines
}

/// A line for each fact about both sides, after one with their letters.
pub(super) fn side_lines(of: &TraceDifference) -> Vec<Vec<String>> {
    let [a, b] = &of.sides;
    let line = |title: &str, value: &dyn Fn(&SideFacts) -> String| vec![title.to_string(), value(a), value(b)];
    let duration = |of: &SideFacts| of.side.duration_ns().map_or("-".into(), |ns| microseconds(Value::Integer(ns)));
    vec![
        strings(["", "A", "B"]),
        line("path", &|of| escaped(&of.path)),
        line("format", &|of| of.formats.join(", ")),
        line("streams", &|of| of.streams.to_string()),
        line("events", &|of| of.side.events.to_string()),
        line("duration_us", &duration),
    ]
}

pub(super) fn count_head() -> Vec<String> {
    strings(["event", "A", "B", "difference", "change", "A_per_s", "B_per_s"])
}

pub(super) fn value_head(unit: &str, has_verdict: bool) -> Vec<String> {
    let mut head = strings(["kind", "of", "A", "B"]);
    head.extend(["A_p50", "B_p50", "A_p99", "B_p99"].map(|title| format!("{title}{unit}")));
    head.extend(strings(["mean_change", "distance", "p"]));
    head.extend(has_verdict.then(|| "verdict".to_string()));
    head
}

fn strings<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(String::from).to_vec()
}

pub(super) fn count_line(of: &TraceDifference, row: &CountRow) -> Vec<String> {
    let rate = |at: usize| of.sides[at].per_second(row.counts[at]).map_or("-".into(), |rate| format!("{rate:.1}"));
    let [a, b] = row.counts;
    vec![
        escaped(of.names.text(row.name)),
        a.to_string(),
        b.to_string(),
        format!("{:+}", row.difference()),
        change(a as f64, b as f64),
        rate(0),
        rate(1),
    ]
}

/// The second number against the first one, in percent.
fn change(a: f64, b: f64) -> String {
    match (a, b) {
        _ if a == b => "0.0%".into(),
        (0.0, _) => "-".into(),
        _ => format!("{:+.1}%", (b - a) / a.abs() * 100.0),
    }
}

pub(super) fn field_line(of: &FieldDifference) -> Vec<String> {
    let kind = |at: usize| of.sides[at].as_ref().map_or("-".to_string(), |shape| shape.kind.clone());
    vec![escaped(&of.event), escaped(&of.field), kind(0), kind(1)]
}

pub(super) fn stored_line(of: &FieldDifference) -> Vec<String> {
    let encoding = |at: usize| of.sides[at].as_ref().map_or("-".to_string(), |shape| shape.encoding.clone());
    vec![escaped(&of.event), escaped(&of.field), encoding(0), encoding(1)]
}

pub(super) fn value_line(row: &SpreadRow, has_verdict: bool) -> Vec<String> {
    let [a, b] = &row.sides;
    let shown = |value: Option<f64>| match value {
        None => "-".to_string(),
        Some(ns) if row.metric.kind.is_time() => microseconds(Value::Real(ns)),
        Some(value) => plain(value),
    };
    let mut line = vec![row.metric.kind.name().to_string(), subject(&row.metric)];
    line.extend([a.count().to_string(), b.count().to_string()]);
    line.extend([50, 99].into_iter().flat_map(|at| [a, b].map(|side| shown(side.percentile(at)))));
    line.push(change(a.mean().unwrap_or(0.0), b.mean().unwrap_or(0.0)));
    line.push(format!("{:.3}", row.distance));
    line.push(row.p.map_or("-".into(), |p| if p > 0.0 && p < 1e-4 { format!("{p:.0e}") } else { format!("{p:.4}") }));
    line.extend(has_verdict.then(|| row.verdict.name().to_string()));
    line
}

fn subject(metric: &Metric) -> String {
    match metric.part.as_str() {
        "" => escaped(&metric.of),
        part => escaped(&format!("{} {part}", metric.of)),
    }
}

fn microseconds(ns: Value<'_>) -> String {
    cell(ns, Unit::Duration)
}

/// A number with as many digits as say something.
fn plain(value: f64) -> String {
    match value.abs() {
        size if size >= 1e15 => format!("{value:.4e}"),
        _ if value.fract() == 0.0 => format!("{value}"),
        size if size >= 0.001 => format!("{value:.4}"),
        _ => format!("{value:.4e}"),
    }
}
