//! `tracemill diff --format html`: all facts as one page, which needs nothing else.

use std::fmt::Write as _;

use tracemill_analyses::diff::{FirstDifference, SpreadRow, Verdict};
use tracemill_table::{Unit, Value};

use super::diff::{StreamRow, TraceDifference};
use super::diff_forms as forms;
use super::report_forms::cell;
use crate::report::counted;

/// The style: colours of the system's choice of light or dark. Text is at least 4.5:1 on its ground, areas 3:1.
const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#57606a;--ground:#fff;--sunken:#f3f5f7;--line:#d0d7de;\
--a:#0b63b8;--b:#a8480b}\
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ed;--soft:#a3abb5;--ground:#15181c;--sunken:#1e2227;--line:#3a4149;\
--a:#6cb0f5;--b:#f0a05f}}\
body{font:14px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--ground);margin:0 auto;max-width:1200px;\
padding:20px 24px}\
h1{font-size:20px;margin:0 0 4px}h2{font-size:16px;margin:28px 0 6px}h3{font-size:14px;margin:16px 0 4px}\
p{margin:6px 0;max-width:85ch}.soft{color:var(--soft)}.scroll{overflow-x:auto}\
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums;margin:6px 0}\
th,td{padding:3px 12px 3px 0;text-align:right;vertical-align:top;border-bottom:1px solid var(--line);\
white-space:nowrap}\
th{color:var(--soft);font-weight:600}.l{text-align:left;white-space:normal;overflow-wrap:anywhere}\
.a{color:var(--a)}.b{color:var(--b)}svg{display:block}svg .ra{fill:var(--a)}svg .rb{fill:var(--b)}\
svg .rest{fill:var(--line)}svg text{fill:var(--soft);font-size:11px}\
details>summary{cursor:pointer;color:var(--soft);padding:4px 0}";

/// The page.
pub(super) fn page(of: &TraceDifference) -> String {
    let mut page = HtmlDiff { of, out: String::new() };
    page.put_head();
    page.put_paths();
    page.put_values();
    page.put_counts();
    page.put_schema();
    page.put_order();
    page.out.push_str("</main></body></html>\n");
    page.out
}

struct HtmlDiff<'d> {
    of: &'d TraceDifference,
    out: String,
}

/// Text of a trace, as text of a page.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            sign => out.push(sign),
        }
    }
    out
}

/// The last part of a path.
fn short(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path)
}

impl HtmlDiff<'_> {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn put_text(&mut self, tag: &str, text: &str) {
        let _ = writeln!(self.out, "<{tag}>{}</{tag}>", plain(text));
    }

    /// Puts a table whose first line is its head; the first `left` columns are texts. `more` gives the last cell of a row.
    fn put_table(&mut self, left: usize, lines: &[Vec<String>], more: Option<(&str, &dyn Fn(usize) -> String)>) {
        let Some((head, rows)) = lines.split_first() else { return };
        self.put("<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>");
        let class = |at: usize| if at < left { " class=\"l\"" } else { "" };
        for (at, title) in head.iter().enumerate() {
            // A head without words is none.
            let _ = match title.as_str() {
                "" => write!(self.out, "<td></td>"),
                title => write!(self.out, "<th scope=\"col\"{}>{}</th>", class(at), plain(&title.replace('_', " "))),
            };
        }
        if let Some((title, _)) = more {
            let _ = write!(self.out, "<th scope=\"col\" class=\"l\">{}</th>", plain(title));
        }
        self.put("</tr></thead><tbody>\n");
        for (number, row) in rows.iter().enumerate() {
            self.put("<tr>");
            for (at, text) in row.iter().enumerate() {
                let _ = write!(self.out, "<td{}>{}</td>", class(at), plain(text));
            }
            if let Some((_, more)) = more {
                let _ = write!(self.out, "<td class=\"l\">{}</td>", more(number));
            }
            self.put("</tr>\n");
        }
        self.put("</tbody></table></div>\n");
    }

    fn put_head(&mut self) {
        let of = self.of;
        let [a, b] = of.sides.each_ref().map(|side| plain(short(&side.path)));
        let _ = write!(
            self.out,
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
             <meta name=\"viewport\" content=\"width=device-width\"><title>{a} and {b} - tracemill diff</title>\
             <style>{STYLE}</style></head><body><main>\n\
             <h1><span class=\"a\">A: {a}</span> and <span class=\"b\">B: {b}</span></h1>\n"
        );
        self.put_text("p", if of.is_different() { "The traces differ." } else { "No difference counts." });
        let differing = of.counts.iter().filter(|row| row.difference() != 0).count();
        let values = of.values.iter().filter(|row| row.verdict == Verdict::Differs).count();
        let order = of.order.iter().filter(|row| row.difference.is_some()).count();
        let text = format!(
            "{values} of {} times and values, {differing} of {} counts, and the order in {order} of {} streams differ.",
            of.values.len(),
            of.counts.len(),
            of.order.len()
        );
        self.put_text("p", &text);
        self.put_table(3, &forms::side_lines(of), None);
    }

    fn put_paths(&mut self) {
        for of in &self.of.paths {
            let [a, b] = of.periods.map(|count| counted(count as u64, "period"));
            self.put_text("h2", &format!("Critical paths of {}", of.name));
            self.put_text("p", &format!("{a} in A, {b} in B. Times are means of a period."));
            forms::path_sentences(of).iter().for_each(|sentence| self.put_text("p", sentence));
            if of.causes.is_empty() {
                continue;
            }
            let longest = of.causes.iter().flat_map(|cause| cause.mean_ns).fold(0.0, f64::max);
            let bars = |at: usize| {
                let [a, b] = of.causes[at].mean_ns;
                two_bars(a, b, longest)
            };
            self.put_table(1, &forms::path_lines(of), Some(("A above B", &bars)));
        }
    }

    fn put_values(&mut self) {
        let of = self.of;
        self.put_text("h2", "Times and values");
        let note = "A row differs if chance hardly explains it and it is large enough. In the last column, a bar goes from \
                    the median to the 99th percentile, A above B.";
        self.put_text("p", note);
        let (differing, others): (Vec<&SpreadRow>, Vec<&SpreadRow>) =
            of.values.iter().partition(|row| row.verdict == Verdict::Differs);
        if differing.is_empty() {
            self.put_text("p", "None differs.");
        }
        self.put_spreads(&differing, false);
        if !others.is_empty() {
            let count = counted(others.len() as u64, "other row");
            let _ = writeln!(self.out, "<details><summary>{count}: noise, small, or too few values</summary>");
            self.put_spreads(&others, true);
            self.put("</details>\n");
        }
    }

    fn put_spreads(&mut self, rows: &[&SpreadRow], has_verdict: bool) {
        for (is_time, unit) in [(true, "_us"), (false, "")] {
            let rows: Vec<&&SpreadRow> = rows.iter().filter(|row| row.metric.kind.is_time() == is_time).collect();
            if rows.is_empty() {
                continue;
            }
            let mut lines = vec![forms::value_head(unit, has_verdict)];
            lines.extend(rows.iter().map(|row| forms::value_line(row, has_verdict)));
            let picture = |at: usize| ranges(rows[at]);
            self.put_table(2, &lines, Some(("p50 to p99", &picture)));
        }
    }

    fn put_counts(&mut self) {
        let of = self.of;
        self.put_text("h2", "Counts of events");
        let (differing, equal): (Vec<_>, Vec<_>) = of.counts.iter().partition(|row| row.difference() != 0);
        let lines = |rows: &[&super::diff::CountRow]| {
            let mut lines = vec![forms::count_head()];
            lines.extend(rows.iter().map(|row| forms::count_line(of, row)));
            lines
        };
        let text = format!("{} of {} differ.", differing.len(), counted(of.counts.len() as u64, "name"));
        self.put_text("p", &text);
        if !differing.is_empty() {
            let most = differing.iter().flat_map(|row| row.counts).max().unwrap_or(0) as f64;
            let bars = |at: usize| {
                let [a, b] = differing[at].counts.map(|count| count as f64);
                two_bars(a, b, most)
            };
            self.put_table(1, &lines(&differing), Some(("A above B", &bars)));
        }
        if !equal.is_empty() {
            let _ = writeln!(self.out, "<details><summary>{} equal</summary>", counted(equal.len() as u64, "count"));
            self.put_table(1, &lines(&equal), None);
            self.put("</details>\n");
        }
    }

    fn put_schema(&mut self) {
        let schema = &self.of.schema;
        self.put_text("h2", "Event classes");
        if schema.only.iter().all(Vec::is_empty) && schema.fields.is_empty() {
            self.put_text("p", "The same fields.");
        }
        for (events, side) in schema.only.iter().zip(["A", "B"]).filter(|(events, _)| !events.is_empty()) {
            self.put_text("p", &format!("Only {side} has {}.", events.join(", ")));
        }
        for (fields, heads, line) in [
            (&schema.fields, ["event", "field", "A", "B"], forms::field_line as fn(&_) -> _),
            (&schema.stored_otherwise, ["event", "field", "A_stores", "B_stores"], forms::stored_line),
        ] {
            if !fields.is_empty() {
                let mut lines = vec![heads.map(String::from).to_vec()];
                lines.extend(fields.iter().map(line));
                self.put_table(4, &lines, None);
            }
        }
    }

    fn put_order(&mut self) {
        let of = self.of;
        self.put_text("h2", "Order of events");
        for (streams, side) in of.only_streams.iter().zip(["A", "B"]).filter(|(streams, _)| !streams.is_empty()) {
            self.put_text("p", &format!("Only {side} has the streams {}.", streams.join(", ")));
        }
        let different: Vec<&StreamRow> = of.order.iter().filter(|row| row.difference.is_some()).collect();
        if different.is_empty() {
            self.put_text("p", "The same in all streams that both have.");
        }
        for row in different {
            let Some(FirstDifference { same, before, after }) = &row.difference else { continue };
            let name = match &row.names {
                None => "all streams, in the order of time".to_string(),
                Some([a, b]) if a == b => a.clone(),
                Some([a, b]) => format!("{a}, in B {b}"),
            };
            self.put_text("h3", &name);
            self.put_text("p", &format!("The first {} are the same, then:", counted(*same, "event")));
            let mut lines = vec![["", "event", "after_begin_us"].map(String::from).to_vec()];
            for (sign, side, places) in [("both", 0, before), ("A", 0, &after[0]), ("B", 1, &after[1])] {
                let begin = of.sides[side].side.range.map_or(0, |(first, _)| first);
                lines.extend(places.iter().map(|place| {
                    let time = place.ns.map_or("-".into(), |ns| cell(Value::Integer(ns - begin), Unit::Duration));
                    vec![sign.to_string(), of.names.text(place.name).to_string(), time]
                }));
                if places.is_empty() && sign != "both" {
                    lines.push(vec![sign.to_string(), "(end)".to_string(), "-".to_string()]);
                }
            }
            self.put_table(2, &lines, None);
        }
    }
}

/// Pixels of the pictures in tables.
const WIDTH: f64 = 200.0;

/// Two bars below each other, as parts of the largest value.
fn two_bars(a: f64, b: f64, largest: f64) -> String {
    let length = |value: f64| if largest > 0.0 { (value / largest * WIDTH).max(0.0) } else { 0.0 };
    picture([(0.0, length(a)), (0.0, length(b))])
}

/// From the median to the 99th percentile of both sides.
fn ranges(row: &SpreadRow) -> String {
    let ends = row.sides.each_ref().map(|side| side.percentile(50).zip(side.percentile(99)));
    let all = || ends.iter().flatten().flat_map(|(low, high)| [*low, *high]).filter(|value| value.is_finite());
    // Zero stands at the left where no value is below it.
    let low = all().fold(0.0, f64::min);
    let high = all().fold(low, f64::max);
    let at = |value: f64| if high > low { (value.clamp(low, high) - low) / (high - low) * WIDTH } else { 0.0 };
    picture(ends.map(|ends| ends.map_or((0.0, 0.0), |(low, high)| (at(low), at(high)))))
}

/// A picture of two ranges in pixels. The numbers stand next to it, so it is hidden from readers of the text.
fn picture(ranges: [(f64, f64); 2]) -> String {
    let mut text = format!("<svg width=\"{WIDTH}\" height=\"16\" aria-hidden=\"true\">");
    for ((from, to), (class, y)) in ranges.into_iter().zip([("ra", 1), ("rb", 9)]) {
        let width = (to - from).max(1.5);
        let x = from.min(WIDTH - width);
        let _ = write!(text, "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"6\"/>");
    }
    text.push_str("</svg>");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_no_markup() {
        assert_eq!(plain("<b a=\"1\">&"), "&lt;b a=&quot;1&quot;&gt;&amp;");
        assert_eq!((short("a/b/"), short("/"), short("x")), ("b", "/", "x"));
    }

    #[test]
    fn bars_stay_in_their_picture() {
        assert!(two_bars(0.0, 0.0, 0.0).contains("width=\"1.5\""));
        let full = two_bars(4.0, 2.0, 4.0);
        assert!(
            full.contains("x=\"0.0\" y=\"1\" width=\"200.0\"") && full.contains("y=\"9\" width=\"100.0\""),
            "{full}"
        );
        assert!(picture([(199.9, 200.0), (0.0, 1.0)]).contains("x=\"198.5\""));
    }
}
