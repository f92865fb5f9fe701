//! The table for people and the raw results as JSON.

use std::path::Path;

use serde_json::{Value, json};
use tracemill_codec::text::out::Out;
use tracemill_table::{Align, Layout};

use crate::Result;
use crate::host::Host;
use crate::measure::{Samples, Spread};
use crate::suite::Setup;

/// The measure by which a row is judged.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Measure {
    /// As much as this, or more.
    AtLeast(f64),
    /// Less than this.
    Under(f64),
    /// No target is set.
    None,
}

/// A line of the table.
pub(crate) struct ReportRow {
    /// Number, and a letter where several lines belong together.
    pub(crate) id: &'static str,
    /// The thing that is measured.
    pub(crate) what: String,
    /// The trace.
    pub(crate) trace: String,
    /// Events that were read or, for a selection by time, printed; `None` when only the first ones were.
    pub(crate) events: Option<u64>,
    /// Bytes of the trace's packets; `None` when most of them are not read.
    pub(crate) bytes: Option<u64>,
    /// Our runs.
    pub(crate) ours: Samples,
    /// Runs of the other reader.
    pub(crate) peer: Option<Samples>,
    /// Time that another program, which is not run, takes for an event, in ns.
    pub(crate) peer_ns: Option<f64>,
    /// The figure that is judged: a ratio, a time, ...; `None` when it could not be measured.
    pub(crate) result: Option<f64>,
    /// Its unit.
    pub(crate) unit: &'static str,
    /// The wanted figure.
    pub(crate) target: Measure,
    /// More than the target.
    pub(crate) aim: Option<f64>,
}

impl ReportRow {
    /// Is the target reached?
    pub(crate) fn is_ok(&self) -> Option<bool> {
        let result = self.result?;
        match self.target {
            Measure::AtLeast(least) => Some(result >= least),
            Measure::Under(limit) => Some(result < limit),
            Measure::None => None,
        }
    }

    fn cells(&self) -> [String; 12] {
        let spent = (!self.ours.0.is_empty()).then(|| self.ours.cpu());
        let seconds = spent.map(|spent| spent.median).filter(|&seconds| seconds > 0.0);
        let events = self.events.map(|events| events as f64);
        let megabytes = self.bytes.map(|bytes| bytes as f64 / 1e6);
        let ratio = |above: Option<f64>, below: Option<f64>| Some(above? / below.filter(|&below| below > 0.0)?);
        let optional = |value: Option<String>| value.unwrap_or_else(|| "-".into());
        let target = match self.target {
            Measure::AtLeast(least) => format!(">= {least}{}", self.unit),
            Measure::Under(limit) => format!("< {limit}{}", self.unit),
            Measure::None => "-".into(),
        };
        let aim = self.aim.map_or_else(String::new, |aim| format!(" ({aim})"));
        let verdict = match self.is_ok() {
            Some(true) => "ok",
            Some(false) => "NOT",
            None => "-",
        };
        [
            self.id.to_string(),
            self.what.clone(),
            optional(events.map(|events| format!("{:.2}", events / 1e6))),
            optional(megabytes.map(|megabytes| format!("{megabytes:.0}"))),
            optional(spent.map(spread)),
            optional(ratio(events, seconds).map(|rate| format!("{:.1}", rate / 1e6))),
            optional(ratio(megabytes, seconds).map(|rate| format!("{rate:.0}"))),
            optional(ratio(seconds, events).map(|cost| format!("{:.1}", cost * 1e9))),
            optional(match (&self.peer, self.peer_ns) {
                (Some(peer), _) => Some(spread(peer.cpu())),
                (None, ns) => ns.map(|ns| format!("{ns} ns/ev, known")),
            }),
            optional(self.result.map(|result| format!("{result:.2}{}", self.unit))),
            target + &aim,
            verdict.to_string(),
        ]
    }
}

fn spread(of: Spread) -> String {
    format!("{:.3} {:.3} {:.3}", of.min, of.median, of.max)
}

const HEADINGS: [&str; 12] = [
    "row",
    "what",
    "M ev",
    "MB",
    "our CPU s: min med max",
    "M ev/s",
    "MB/s",
    "ns/ev",
    "peer CPU s: min med max",
    "result",
    "target (aim)",
    "",
];

/// The table: names to the left, numbers to the right.
pub(crate) fn table(rows: &[ReportRow]) -> String {
    let mut lines = vec![HEADINGS.map(String::from)];
    lines.extend(rows.iter().map(ReportRow::cells));
    let mut layout =
        Layout::with_alignments((0..HEADINGS.len()).map(|at| if at < 2 { Align::Left } else { Align::Right }));
    lines.iter().for_each(|line| layout.widen(line));
    let mut out = Out::default();
    lines.iter().for_each(|line| layout.put_line(&mut out, line));
    String::from_utf8_lossy(out.written()).into_owned()
}

fn samples(of: &Samples) -> Value {
    let numbers = |of: fn(&crate::measure::Run) -> f64, samples: &Samples| -> Vec<f64> {
        samples.0.iter().map(|run| (of(run) * 1e6).round() / 1e6).collect()
    };
    json!({ "cpu_seconds": numbers(|run| run.cpu, of), "wall_seconds": numbers(|run| run.wall, of) })
}

/// Everything that was measured.
pub(crate) fn json(host: &Host, peer: Option<&str>, setup: &Setup, rows: &[ReportRow]) -> Value {
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            let target = match row.target {
                Measure::AtLeast(least) => json!({ "at_least": least, "aim": row.aim }),
                Measure::Under(limit) => json!({ "under": limit, "aim": row.aim }),
                Measure::None => Value::Null,
            };
            json!({
                "row": row.id,
                "what": row.what,
                "trace": row.trace,
                "events": row.events,
                "bytes": row.bytes,
                "ours": samples(&row.ours),
                "peer": row.peer.as_ref().map(samples),
                "peer_ns_per_event": row.peer_ns,
                "result": row.result,
                "unit": row.unit.trim(),
                "target": target,
                "ok": row.is_ok(),
            })
        })
        .collect();
    json!({
        "date": host.date,
        "host": { "kind": host.kind, "cpu": host.cpu, "cpus": host.cpus, "kernel": host.kernel },
        "commit": host.commit,
        "profile": if cfg!(debug_assertions) { "debug" } else { "release" },
        "peer": peer,
        "runs": setup.runs,
        "rows": rows,
    })
}

/// Writes the raw results.
pub(crate) fn write(file: &Path, results: &Value) -> Result<()> {
    let text = serde_json::to_string_pretty(results).map_err(|error| error.to_string())?;
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    std::fs::write(file, text + "\n").map_err(|error| format!("{}: {error}", file.display()))
}
