//! Messages of DataFusion in the words of people who write SQL: its own names of types are not in them.

/// The plain name of a type; `None` when the text is no name of a type.
fn name_of(word: &str) -> Option<&'static str> {
    Some(match word {
        "Utf8" | "LargeUtf8" | "Utf8View" => "text",
        "Int8" | "Int16" | "Int32" | "Int64" => "integer",
        "UInt8" | "UInt16" | "UInt32" | "UInt64" => "unsigned integer",
        "Float16" | "Float32" | "Float64" => "float",
        "Decimal32" | "Decimal64" | "Decimal128" | "Decimal256" => "decimal",
        "Boolean" => "boolean",
        "Binary" | "LargeBinary" | "BinaryView" | "FixedSizeBinary" => "blob",
        "Timestamp" | "TimestampNanosecond" | "TimestampMicrosecond" | "TimestampMillisecond" | "TimestampSecond" => {
            "time"
        }
        "Time32" | "Time64" => "time of day",
        "Date32" | "Date64" => "date",
        "Duration" => "duration",
        "Interval" | "IntervalMonthDayNano" | "IntervalDayTime" | "IntervalYearMonth" => "interval",
        "List" | "LargeList" | "FixedSizeList" | "ListView" | "LargeListView" => "list",
        "Struct" => "structure",
        "Map" => "map",
        "Null" => "NULL",
        "Dictionary" => "text",
        _ => return None,
    })
}

/// The message without names of types, and in other words where it is known.
pub(crate) fn plain(message: &str) -> String {
    let message = reworded(message).unwrap_or_else(|| message.to_string());
    let mut out = String::new();
    let mut rest = message.as_str();
    while let Some(at) = rest.find(|c: char| c.is_ascii_alphabetic()) {
        let (before, from) = rest.split_at(at);
        out += before;
        let end = from.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(from.len());
        let (word, behind) = from.split_at(end);
        // In quotes stands what the user wrote.
        let is_quoted = before.ends_with(['`', '"']);
        let Some(name) = name_of(word).filter(|_| !is_quoted) else {
            out += word;
            rest = behind;
            continue;
        };
        let inside = behind.strip_prefix('(').and_then(|inside| Some(&inside[..closing(inside)?]));
        rest = inside.map_or(behind, |inside| &behind[inside.len() + 2..]);
        match inside {
            // A literal: `Int64(7)`.
            Some(value) if !is_parameter(word, value) => out += value.trim_matches('"'),
            Some(value) if matches!(word, "List" | "LargeList" | "FixedSizeList") => {
                let of = value.trim_start_matches("non-null ").split([',', ' ']).next().unwrap_or_default();
                out += &format!("list of {}", plain(of));
            }
            _ => out += name,
        }
    }
    out += rest;
    // Messages begin as sentences do not; what is written in capitals is SQL.
    let mut letters = out.chars();
    match (letters.next(), letters.next()) {
        (Some(first), Some(second)) if first.is_ascii_uppercase() && second.is_ascii_lowercase() => {
            format!("{}{second}{}", first.to_ascii_lowercase(), letters.as_str())
        }
        _ => out,
    }
}

/// Is what stands in brackets after a name of a type a part of the type?
fn is_parameter(word: &str, value: &str) -> bool {
    let is_plain = matches!(name_of(word), Some("text" | "integer" | "unsigned integer" | "float" | "boolean"));
    let is_time = word == "Timestamp" && ["s", "ms", "us", "µs", "ns"].iter().any(|unit| value.starts_with(unit));
    word == "Dictionary" || is_time || (!is_plain && word != "Timestamp" && !word.starts_with("TimestampN"))
}

/// The place of the bracket that closes what stands before it.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return Some(at),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// A message that says too much, in fewer words.
fn reworded(message: &str) -> Option<String> {
    if let Some(rest) = message.strip_prefix("Cannot create filter with non-boolean predicate '") {
        let (condition, of) = rest.rsplit_once("' returning ")?;
        return Some(format!("`{}` is not a condition: it is of type {}", plain(condition), of.trim_end_matches('.')));
    }
    if let Some(at) = message.find("No function matches the given name and argument types '") {
        let call = message[at..].split('\'').nth(1)?;
        let (name, arguments) = call.split_once('(')?;
        let arguments = arguments.strip_suffix(')')?;
        let given = if arguments.is_empty() { "none".to_string() } else { format!("({})", plain(arguments)) };
        return Some(format!("the function `{name}` does not take these arguments: {given}"));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_words() {
        for (message, wanted) in [
            (
                "Unary operator 'NOT' requires a boolean expression, got Utf8",
                "unary operator 'NOT' requires a boolean expression, got text",
            ),
            ("cannot cast Dictionary(Int32, Utf8) to Timestamp(ns, \"UTC\")", "cannot cast text to time"),
            ("List(Int64) and Struct(\"a\": Int64)", "list of integer and structure"),
            (
                "Cannot create filter with non-boolean predicate 'b.ns' returning Int64",
                "`b.ns` is not a condition: it is of type integer",
            ),
            (
                "Cannot create filter with non-boolean predicate 'CAST(Int64(7) AS Utf8)' returning Utf8",
                "`CAST(7 AS text)` is not a condition: it is of type text",
            ),
            (
                "Failed to coerce: coercion to OneOf(Exact(Utf8View)) failed. No function matches the given name and argument \
                 types 'regexp_match(Int64, Decimal128(38, 0))'. You might need to add explicit type casts.",
                "the function `regexp_match` does not take these arguments: (integer, decimal)",
            ),
            ("there is no column `Int64` in \"Utf8\"", "there is no column `Int64` in \"Utf8\""),
            ("Int64(", "integer("),
        ] {
            assert_eq!(plain(message), wanted);
        }
    }
}
