//! The comparison of a line of JSON with the subset of it that a case expects.

use serde_json::Value;

/// Parses one value that is the whole text. Numbers keep the digits that they are written with.
///
/// # Errors
/// Says what is wrong and where.
pub fn parse(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// Compares only the keys that are present in `want`. `None` when equal, otherwise the path and what differs there.
pub fn difference(want: &Value, have: &Value) -> Option<String> {
    differ(want, have, &mut String::new())
}

fn differ(want: &Value, have: &Value, path: &mut String) -> Option<String> {
    let len = path.len();
    match (want, have) {
        (Value::Object(want), Value::Object(have)) => {
            for (key, wanted) in want {
                path.push_str(&format!(".{key}"));
                match have.get(key) {
                    None => return Some(format!("{path} is missing")),
                    Some(found) => {
                        if let Some(difference) = differ(wanted, found, path) {
                            return Some(difference);
                        }
                    }
                }
                path.truncate(len);
            }
            None
        }
        (Value::Array(want), Value::Array(have)) if want.len() == have.len() => {
            for (at, (wanted, found)) in want.iter().zip(have).enumerate() {
                path.push_str(&format!("[{at}]"));
                if let Some(difference) = differ(wanted, found, path) {
                    return Some(difference);
                }
                path.truncate(len);
            }
            None
        }
        (Value::Number(a), Value::Number(b)) if same_number(a.as_str(), b.as_str()) => None,
        (Value::Number(_), Value::Number(_)) => Some(format!("{path} is {have}, expected {want}")),
        _ if want == have => None,
        _ => Some(format!("{path} is {have}, expected {want}")),
    }
}

/// Integers are compared by their digits, other numbers by the bits of the 64-bit float that they read as.
fn same_number(a: &str, b: &str) -> bool {
    let is_integer = |text: &str| !text.contains(['.', 'e', 'E']);
    if is_integer(a) && is_integer(b) {
        return a == b;
    }
    match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => a.to_bits() == b.to_bits(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(want: &str, have: &str) -> Option<String> {
        difference(&parse(want).expect("valid"), &parse(have).expect("valid"))
    }

    #[test]
    fn only_expected_keys_are_compared() {
        assert_eq!(compare(r#"{"a":{"b":1}}"#, r#"{"x":0,"a":{"b":1,"c":2}}"#), None);
        assert_eq!(compare(r#"{"a":[{"b":1}]}"#, r#"{"a":[{"b":2}]}"#).as_deref(), Some(".a[0].b is 2, expected 1"));
        assert_eq!(compare(r#"{"a":null}"#, "{}").as_deref(), Some(".a is missing"));
        assert!(compare("[1]", "[1,2]").is_some());
    }

    #[test]
    fn numbers_are_exact() {
        assert!(
            compare("340282366920938463463374607431768211455", "340282366920938463463374607431768211454").is_some()
        );
        assert_eq!(compare("1.5", "15e-1"), None);
        assert!(compare("0.0", "-0.0").is_some());
        assert!(compare("1", "\"1\"").is_some());
    }

    #[test]
    fn strings_with_escapes() {
        assert_eq!(compare(r#""\u00e9\ud83d\ude00\n""#, "\"é😀\\n\""), None);
        assert!(parse("\"a").is_err());
        assert!(parse("{\"a\":1,}").is_err());
    }
}
