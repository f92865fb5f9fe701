//! Differences between the functions of two recordings, and their table.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::io::{self, Write};

use tracemill_format::calls::{CallSource, Color, ColorStyle};

use super::{FunctionStats, ReportColumn, ReportOptions, put_headers, put_name};
use crate::text::{put_blanks, put_painted_time};
use crate::tree::order_by_tree;

/// Policy by which differences between two recordings are shown and sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiffPolicy {
    /// Sort by how large differences are, whatever their sign.
    pub is_absolute: bool,
    /// Show them in hundredths of the first value.
    pub is_percent: bool,
    /// Show both values too.
    pub is_full: bool,
    /// Value of a column to sort by: 2 for the difference, others for the first value.
    pub sort_column: i32,
}

impl Default for DiffPolicy {
    fn default() -> Self {
        DiffPolicy { is_absolute: true, is_percent: false, is_full: false, sort_column: 2 }
    }
}

impl DiffPolicy {
    /// Takes the words of a policy: `abs`, `percent`, `full`, `compact`; after `no-` the contrary. The first word that is
    /// none is given back.
    ///
    /// # Errors
    /// A word that is none.
    pub fn apply_words(&mut self, text: &str) -> Result<(), String> {
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (name, is_on) = word.strip_prefix("no-").map_or((word, true), |name| (name, false));
            match name {
                _ if name.starts_with("abs") => self.is_absolute = is_on,
                _ if name.starts_with("percent") => self.is_percent = is_on,
                // As in uftrace these two have no contrary but each other.
                _ if name.starts_with("full") => self.is_full = true,
                _ if name.starts_with("compact") => self.is_full = false,
                _ => return Err(word.to_string()),
            }
        }
        Ok(())
    }
}

/// A function of two recordings; where one does not have it all is 0.
struct Pair {
    base: FunctionStats,
    other: FunctionStats,
    name: String,
}

impl Pair {
    fn difference(&self, column: ReportColumn) -> i64 {
        column.value(&self.other).wrapping_sub(column.value(&self.base)) as i64
    }

    fn percent_of(&self, column: ReportColumn, difference: i64) -> f64 {
        match column.value(&self.base) {
            0 => 0.0,
            base => 100.0 * difference as f64 / base as f64,
        }
    }

    /// The difference that the order is made of: uftrace subtracts sizes as numbers of 32 bits without a sign.
    fn key(&self, column: ReportColumn) -> i64 {
        match column {
            ReportColumn::Size => i64::from(self.difference(column) as u32),
            column => self.difference(column),
        }
    }

    /// As uftrace compares, which does not give the contrary when both are changed for each other: of two values that
    /// differ in their sign only, none is the larger one.
    fn is_less(&self, other: &Pair, options: &ReportOptions, policy: &DiffPolicy) -> bool {
        for &key in &options.keys {
            if key == ReportColumn::Name {
                match other.name.cmp(&self.name) {
                    Ordering::Equal => continue,
                    order => return order.is_lt(),
                }
            }
            if policy.sort_column != 2 {
                match key.value(&self.base).cmp(&key.value(&other.base)) {
                    Ordering::Equal => continue,
                    order => return order.is_lt(),
                }
            }
            let (a, b) = (self.key(key), other.key(key));
            if !policy.is_percent {
                if a == b {
                    continue;
                }
                return if policy.is_absolute { a.unsigned_abs() <= b.unsigned_abs() } else { a < b };
            }
            let (a, b) = (self.percent_of(key, a), other.percent_of(key, b));
            if a == b {
                continue;
            }
            let (a, b) = if policy.is_absolute { (a.abs(), b.abs()) } else { (a, b) };
            return a.partial_cmp(&b) != Some(Ordering::Greater);
        }
        false
    }
}

/// Writes how the second recording differs from the first one. Each is given with what stands for it in the title.
///
/// # Errors
/// Errors of the writer.
pub fn write_difference(
    (base, base_title): (Vec<FunctionStats>, &str),
    (other, other_title): (Vec<FunctionStats>, &str),
    options: &ReportOptions,
    policy: &DiffPolicy,
    source: &dyn CallSource,
    out: &mut dyn Write,
) -> io::Result<()> {
    let pairs = pairs(base, other, options, policy);
    let mut text = Vec::new();
    let title = "#\n# uftrace diff\n#  [0] base: ";
    text.extend_from_slice(format!("{title}{base_title}\n#  [1] diff: {other_title}\n#\n").as_bytes());
    let full = |column: ReportColumn| format!("{} (diff)", column.header());
    let header = |&column: &ReportColumn| match (policy.is_full, policy.is_percent || column.is_count()) {
        (false, _) => (column.header(), 11),
        (true, true) => (full(column), 32),
        (true, false) => (full(column), 35),
    };
    let headers: Vec<(String, usize)> = options.columns.iter().map(header).collect();
    put_headers(&mut text, &headers, 3, options.source_lines, options.colors);
    for pair in &pairs {
        for &column in &options.columns {
            put_blanks(&mut text, 3);
            put_pair(&mut text, pair, column, policy, options.colors);
        }
        put_blanks(&mut text, 3);
        put_name(&mut text, source, (&pair.name, pair.base.symbol), options);
    }
    out.write_all(&text)
}

/// The functions of both recordings in their order.
fn pairs(
    base: Vec<FunctionStats>,
    other: Vec<FunctionStats>,
    options: &ReportOptions,
    policy: &DiffPolicy,
) -> Vec<Pair> {
    let none = || {
        let mut none = FunctionStats::default();
        (none.total.min, none.own.min) = (0, 0);
        none
    };
    let mut others: HashMap<String, FunctionStats> =
        other.into_iter().map(|stats| (stats.name.clone(), stats)).collect();
    let mut found: Vec<Pair> = Vec::new();
    for stats in base {
        let other = others.remove(&stats.name).unwrap_or_else(none);
        found.push(Pair { name: stats.name.clone(), base: stats, other });
    }
    let mut rest: Vec<FunctionStats> = others.into_values().collect();
    rest.sort_by(|a, b| a.name.cmp(&b.name));
    found.extend(rest.into_iter().map(|stats| Pair { name: stats.name.clone(), base: none(), other: stats }));
    // Not a sort: the comparison is none.
    let order = order_by_tree(found.len(), |known, new| found[known].is_less(&found[new], options, policy));
    let mut found: Vec<Option<Pair>> = found.into_iter().map(Some).collect();
    order.into_iter().filter_map(|at| found[at].take()).collect()
}

fn put_pair(text: &mut Vec<u8>, pair: &Pair, column: ReportColumn, policy: &DiffPolicy, colors: ColorStyle) {
    let (base, other) = (column.value(&pair.base), column.value(&pair.other));
    let time_or_dash = |text: &mut Vec<u8>, time| match time {
        0 => text.extend_from_slice(b"         -"),
        time => put_painted_time(text, time, colors),
    };
    if column.is_count() {
        match policy.is_full {
            true => text.extend_from_slice(format!(" {base:9}  {other:9}  ").as_bytes()),
            false => put_blanks(text, 2),
        }
        let count = format!("{:+9}", pair.difference(column));
        match pair.difference(column) {
            0 => text.extend_from_slice(count.as_bytes()),
            more => colors.write(text, if more > 0 { Color::Red } else { Color::Blue }, &count),
        }
        return;
    }
    match (policy.is_full, policy.is_percent) {
        (true, _) => {
            time_or_dash(text, base);
            put_blanks(text, 2);
            time_or_dash(text, other);
            put_blanks(text, 2);
        }
        (false, true) => put_blanks(text, 3),
        (false, false) => {}
    }
    if policy.is_percent {
        match (base, other) {
            (0, _) | (_, 0) => {
                colors.write(text, if base == 0 { Color::Red } else { Color::Blue }, "    N/A");
                text.push(b' ');
            }
            _ => {
                let percent = pair.percent_of(column, pair.difference(column)).clamp(-999.99, 999.99);
                let color = match percent {
                    30.0.. if percent > 30.0 => Color::Red,
                    3.0.. if percent > 3.0 => Color::Magenta,
                    _ if percent < -30.0 => Color::Blue,
                    _ if percent < -3.0 => Color::Cyan,
                    _ => Color::Normal,
                };
                colors.write(text, color, format!("{percent:+7.2}"));
                text.push(b'%');
            }
        }
    } else {
        put_difference(text, pair.difference(column), colors);
    }
}

/// A difference of times in eleven columns: `   +1.234 us`.
fn put_difference(text: &mut Vec<u8>, ns: i64, colors: ColorStyle) {
    if ns == 0 {
        text.extend_from_slice(b"       0 us");
        return;
    }
    let mut time = Vec::new();
    put_painted_time(&mut time, ns.unsigned_abs(), colors);
    // The sign stands before the first digit.
    let blanks = time.iter().take_while(|&&byte| byte == b' ').count();
    put_blanks(text, blanks);
    let color = match ns {
        100_000.. => Color::Red,
        5_000.. => Color::Magenta,
        ..=-100_000 => Color::Blue,
        -99_999..=-5_000 => Color::Cyan,
        _ => Color::Normal,
    };
    // The number ends where its unit begins.
    let (number, unit) = time.split_at(7);
    text.extend_from_slice(colors.begin(color).as_bytes());
    text.push(if ns > 0 { b'+' } else { b'-' });
    text.extend_from_slice(&number[blanks..]);
    text.extend_from_slice(colors.end().as_bytes());
    text.extend_from_slice(unit);
}
