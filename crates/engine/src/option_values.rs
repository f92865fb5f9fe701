//! Values of options as users type them, and what some of them are otherwise.

use tracemill_model::error::{Error, Result};

/// The unit of a correction of clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Seconds, with at most nine digits of fraction.
    Seconds,
    /// Nanoseconds.
    Ns,
}

/// A correction of clocks, in ns, of one trace or of all: `[TRACE=]NUMBER`. `option` is how the user calls it.
///
/// # Errors
/// When there is no number.
pub fn clock_offset(text: &str, option: &str, unit: Unit) -> Result<(Option<String>, i64)> {
    let (name, number) = match text.rsplit_once('=') {
        Some((name, number)) => (Some(name.to_string()), number),
        None => (None, text),
    };
    let offset = match unit {
        Unit::Seconds => seconds(number),
        Unit::Ns => number.parse().ok(),
    };
    let offset = offset.ok_or_else(|| {
        let what = match unit {
            Unit::Seconds => "seconds with at most nine digits of fraction",
            Unit::Ns => "nanoseconds",
        };
        Error::misuse(format!("`{number}` is not a number of {what}, in {option} `{text}`"))
            .with_help(format!("for example {option} -5 or {option} TRACE=12"))
    })?;
    Ok((name, offset))
}

/// Seconds with a decimal fraction, as ns.
fn seconds(text: &str) -> Option<i64> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let only_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() && fraction.is_empty() || !only_digits(whole) || !only_digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let seconds: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let ns: i64 = format!("{fraction:0<9}").parse().ok()?;
    let total = seconds.checked_mul(1_000_000_000)?.checked_add(ns)?;
    Some(if is_negative { -total } else { total })
}

/// A number of bytes, such as `64M`.
///
/// # Errors
/// When it is none: the form that was expected.
pub fn size(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().trim_end_matches("ib").trim_end_matches('b') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => return Err("expected a number of bytes with K, M or G".into()),
    };
    let number: usize = digits.parse().map_err(|_| "expected a number of bytes with K, M or G".to_string())?;
    number.checked_mul(1 << shift).filter(|&size| size > 0).ok_or_else(|| "out of range".to_string())
}

/// Threads that are used unless the user says otherwise: all processors, at most 16.
pub fn default_jobs() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get()).min(16)
}

/// Memory that queries have unless the user says otherwise, in bytes: half of what is free, at most 4 GiB.
pub fn default_query_memory() -> usize {
    const MOST: usize = 4 << 30;
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<usize>().ok());
    kib.map_or(MOST, |kib| (kib << 10) / 2).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::{Unit, clock_offset, seconds, size};

    #[test]
    fn seconds_are_exact() {
        assert_eq!(seconds("1.5"), Some(1_500_000_000));
        assert_eq!(seconds("-0.000000001"), Some(-1));
        assert_eq!(seconds(".25"), Some(250_000_000));
        assert_eq!(seconds("1.0000000001"), None);
        assert_eq!(seconds("."), None);
        assert_eq!(seconds("1e3"), None);
        assert_eq!(seconds("99999999999999"), None);
    }

    #[test]
    fn corrections_name_their_trace() {
        assert_eq!(clock_offset("a=b=-1.5", "-o", Unit::Seconds), Ok((Some("a=b".into()), -1_500_000_000)));
        assert_eq!(clock_offset("7", "-o", Unit::Ns), Ok((None, 7)));
        let error = clock_offset("7.5", "-o", Unit::Ns).expect_err("a fraction").to_string();
        assert!(error.starts_with("`7.5` is not a number of nanoseconds, in -o `7.5`"), "{error}");
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!((size("64M"), size("1kib"), size("12")), (Ok(64 << 20), Ok(1024), Ok(12)));
        assert!(["0", "1T", "M", "-1", "99999999999999999G"].iter().all(|text| size(text).is_err()));
    }
}
