//! Output formats of a report: table, JSON, CSV.

use std::fmt::Write as _;

use tracemill_analyses::durations::Moments;
use tracemill_analyses::line::Fit;
use tracemill_analyses::report::{Report, Row};
use tracemill_codec::text::csv::put_line;
use tracemill_codec::text::escaped;
use tracemill_codec::text::out::Out;
use tracemill_engine::filter::KeyValue;
use tracemill_table::{Align, Layout, TableClock, Unit, Value, put_shown};

use crate::args::ReportFormat;

/// Contents and format of a report.
pub(super) struct Form<'a> {
    pub(super) format: ReportFormat,
    /// A word for programs and a sentence for people.
    pub(super) title: (&'static str, String),
    /// Whether lines were fitted.
    pub(super) regress: bool,
    /// Numbers of durations to predict.
    pub(super) model: &'a [u64],
}

/// Percentiles that are shown.
const PERCENTS: [u32; 4] = [50, 90, 95, 99];

/// The text of a report.
pub(super) fn render(report: &mut Report, form: &Form<'_>) -> String {
    let all = report.all();
    let percentiles: Vec<Vec<u64>> =
        report.rows.iter_mut().map(|row| row.durations.percentiles_ns(&PERCENTS)).collect();
    let rows = report.rows.iter().zip(&percentiles);
    let rows: Vec<Shown> = rows
        .map(|(row, percentiles)| Shown {
            row,
            percentiles,
            fit: row.line.as_ref().and_then(|line| line.fit(&row.durations.moments)),
        })
        .collect();
    match form.format {
        ReportFormat::Table | ReportFormat::Html => table(report, &rows, &all, form),
        ReportFormat::Json => json(report, &rows, &all, form),
        ReportFormat::Csv => csv(report, &rows, form),
    }
}

struct Shown<'a> {
    row: &'a Row,
    percentiles: &'a [u64],
    fit: Option<Fit>,
}

impl Shown<'_> {
    /// Offset, slope and correlation of the line.
    fn fitted(&self) -> [Option<f64>; 3] {
        self.fit.map_or([None; 3], |fit| [Some(fit.offset_ns), Some(fit.slope_ns), fit.r])
    }

    fn predictions<'a>(&'a self, form: &'a Form<'_>) -> impl Iterator<Item = Option<f64>> + 'a {
        form.model.iter().map(|&count| self.fit.map(|fit| fit.predict_ns(count)))
    }
}

// ---- Table --------------------------------------------------------------------------------------------------------

fn table(report: &Report, rows: &[Shown], all: &Moments, form: &Form<'_>) -> String {
    let mut head = ["group", "count", "total", "mean", "deviation", "min", "max"].map(String::from).to_vec();
    if form.regress {
        head.extend(["offset", "slope", "r"].map(String::from));
        head.extend(form.model.iter().map(|count| format!("T({count})")));
    }
    head.extend(PERCENTS.iter().map(|percent| format!("p{percent}")));
    let mut layout =
        Layout::with_alignments((0..head.len()).map(|at| if at == 0 { Align::Left } else { Align::Right }));
    let mut lines = vec![head];
    for shown in rows {
        let mut line = vec![group_text(report, shown.row)];
        line.extend(moments_cells(&shown.row.durations.moments));
        if form.regress {
            let [offset, slope, r] = shown.fitted();
            line.extend([offset, slope].map(|ns| cell(real(ns), Unit::Duration)));
            line.push(cell(real(r), Unit::Correlation));
            line.extend(shown.predictions(form).map(|ns| cell(real(ns), Unit::Duration)));
        }
        let mark = if shown.row.durations.is_exact() { "" } else { "~" };
        line.extend(
            shown.percentiles.iter().map(|&ns| format!("{mark}{}", cell(Value::Integer(ns.into()), Unit::Duration))),
        );
        lines.push(line);
    }
    if rows.len() > 1 {
        let mut line = vec!["(all)".to_string()];
        line.extend(moments_cells(all));
        lines.push(line);
    }
    let mut out = Out::default();
    out.put_fmt(format_args!("{}; times in microseconds\n", escaped(&form.title.1)));
    lines.iter().for_each(|line| layout.widen(line));
    lines.iter().for_each(|line| layout.put_line(&mut out, line));
    if rows.iter().any(|shown| !shown.row.durations.is_exact()) {
        out.put(b"~ within 1 %, of a group with more than a million durations\n");
    }
    if rows.is_empty() {
        out.put(b"no durations\n");
    }
    let left_out = [
        (report.left_out.only_ends, "ends without a beginning"),
        (report.left_out.restarted, "beginnings followed by another one"),
        (report.left_out.unfinished, "beginnings without an end"),
    ];
    for (count, what) in left_out.into_iter().filter(|(count, _)| *count > 0) {
        out.put_fmt(format_args!("{count} {what}\n"));
    }
    String::from_utf8_lossy(out.written()).into_owned()
}

fn moments_cells(moments: &Moments) -> [String; 6] {
    // Sums of more than 2^127 ns are those of no trace.
    let ns = |ns: u128| cell(Value::Integer(i128::try_from(ns).unwrap_or(i128::MAX)), Unit::Duration);
    [
        moments.count.to_string(),
        ns(moments.total_ns),
        cell(real(moments.mean_ns()), Unit::Duration),
        cell(real(moments.deviation_ns()), Unit::Duration),
        ns(moments.min_ns.into()),
        ns(moments.max_ns.into()),
    ]
}

fn real(value: Option<f64>) -> Value<'static> {
    value.map_or(Value::Null, Value::Real)
}

/// A value as tables show it.
pub(super) fn cell(value: Value<'_>, unit: Unit) -> String {
    let mut out = Out::default();
    put_shown(&mut out, value, unit, &TableClock::seconds());
    String::from_utf8_lossy(out.written()).into_owned()
}

fn group_text(report: &Report, row: &Row) -> String {
    let shown = |(name, value): &(usize, KeyValue)| {
        let value = if *value == KeyValue::Absent { "-".to_string() } else { value.to_string() };
        // One value needs no name: it stands alone in its column.
        if row.key.len() == 1 { value } else { format!("{}={value}", report.names[*name]) }
    };
    let key = row.key.iter().map(shown).collect::<Vec<_>>().join(" ");
    escaped(&match &row.label {
        Some(label) if *label != key => format!("{label} ({key})"),
        _ => key,
    })
}

// ---- JSON ---------------------------------------------------------------------------------------------------------

/// Written by hand: sums have more digits than a JSON library takes.
fn json(report: &Report, rows: &[Shown], all: &Moments, form: &Form<'_>) -> String {
    let mut text = format!("{{\"report\":\"{}\",\"unit\":\"ns\",\"groups\":[", form.title.0);
    for (at, shown) in rows.iter().enumerate() {
        text.push_str(if at > 0 { ",{\"group\":{" } else { "{\"group\":{" });
        for (place, (name, value)) in shown.row.key.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            let _ = write!(text, "{comma}{}:{}", quoted(&report.names[*name]), json_value(value));
        }
        let label = shown.row.label.as_deref().map_or("null".into(), quoted);
        let _ = write!(text, "}},\"label\":{label},");
        put_moments(&mut text, &shown.row.durations.moments);
        text.push_str(",\"percentiles\":{");
        for (percent, ns) in PERCENTS.iter().zip(shown.percentiles) {
            let _ = write!(text, "\"{percent}\":{ns},");
        }
        let _ = write!(text, "\"exact\":{}}}", shown.row.durations.is_exact());
        if form.regress {
            let [offset, slope, r] = shown.fitted().map(json_real);
            let _ = write!(text, ",\"offset\":{offset},\"slope\":{slope},\"r\":{r},\"model\":{{");
            for (place, (count, ns)) in form.model.iter().zip(shown.predictions(form)).enumerate() {
                let comma = if place > 0 { "," } else { "" };
                let _ = write!(text, "{comma}\"{count}\":{}", json_real(ns));
            }
            text.push('}');
        }
        text.push('}');
    }
    text.push_str("],\"all\":{");
    put_moments(&mut text, all);
    let left = &report.left_out;
    let _ = writeln!(
        text,
        "}},\"left_out\":{{\"untimed\":{},\"negative\":{},\"too_long\":{},\"only_ends\":{},\"restarted\":{},\"unfinished\":{},\"too_many\":{}}}}}",
        left.untimed, left.negative, left.too_long, left.only_ends, left.restarted, left.unfinished, left.too_many
    );
    text
}

fn put_moments(text: &mut String, moments: &Moments) {
    let extreme = |ns: u64| if moments.count > 0 { ns.to_string() } else { "null".to_string() };
    let _ = write!(
        text,
        "\"count\":{},\"total\":{},\"mean\":{},\"deviation\":{},\"min\":{},\"max\":{}",
        moments.count,
        moments.total_ns,
        json_real(moments.mean_ns()),
        json_real(moments.deviation_ns()),
        extreme(moments.min_ns),
        extreme(moments.max_ns)
    );
}

fn json_real(value: Option<f64>) -> String {
    value.map_or("null".to_string(), |value| value.to_string())
}

fn json_value(value: &KeyValue) -> String {
    match value {
        KeyValue::Absent => "null".into(),
        KeyValue::Number(text) if text.bytes().any(|byte| byte.is_ascii_digit()) => text.clone(),
        KeyValue::Integer(_) | KeyValue::Bool(_) => value.to_string(),
        KeyValue::Number(_) | KeyValue::Text(_) => quoted(&value.to_string()),
    }
}

pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

// ---- CSV ----------------------------------------------------------------------------------------------------------

fn csv(report: &Report, rows: &[Shown], form: &Form<'_>) -> String {
    // Names that no group has take no column.
    let is_used = |name: &usize| rows.iter().any(|shown| shown.row.key.iter().any(|(of, _)| of == name));
    let names: Vec<usize> = (0..report.names.len()).filter(is_used).collect();
    let mut head: Vec<String> = names.iter().map(|&name| report.names[name].clone()).collect();
    let fixed = ["label", "count", "total_ns", "mean_ns", "deviation_ns", "min_ns", "max_ns"];
    head.extend(fixed.map(String::from));
    head.extend(PERCENTS.iter().map(|percent| format!("p{percent}_ns")));
    head.push("percentiles".into());
    if form.regress {
        head.extend(["offset_ns", "slope_ns", "r"].map(String::from));
        head.extend(form.model.iter().map(|count| format!("model_{count}_ns")));
    }
    let mut out = Out::default();
    put_line(&mut out, &head);
    for shown in rows {
        let (row, moments) = (shown.row, &shown.row.durations.moments);
        let value = |name: &usize| row.key.iter().find(|(of, _)| of == name).map(|(_, value)| value.to_string());
        let real = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
        let mut line: Vec<String> = names.iter().map(|name| value(name).unwrap_or_default()).collect();
        line.push(row.label.clone().unwrap_or_default());
        line.extend([moments.count.to_string(), moments.total_ns.to_string()]);
        line.extend([real(moments.mean_ns()), real(moments.deviation_ns())]);
        line.extend([moments.min_ns.to_string(), moments.max_ns.to_string()]);
        line.extend(shown.percentiles.iter().map(u64::to_string));
        line.push(if row.durations.is_exact() { "exact" } else { "within 1 %" }.into());
        if form.regress {
            line.extend(shown.fitted().map(real));
            line.extend(shown.predictions(form).map(real));
        }
        put_line(&mut out, &line);
    }
    String::from_utf8_lossy(out.written()).into_owned()
}
