//! Filters of states: `filter_query_parameters`.

use super::parameters::Parameters;
use super::refusal::{Answered, Refusal};

/// Tags of states that do not match.
const DIMMED: u32 = 1;
const EXCLUDED: u32 = 4;

/// Conditions on states.
#[derive(Default)]
pub(super) struct StateFilter(Vec<(u32, Condition)>);

/// A state, as conditions see it.
pub(super) struct Seen<'s> {
    pub(super) label: &'s str,
    pub(super) duration: i128,
    /// The labels of its row.
    pub(super) row: &'s [String],
}

#[derive(PartialEq, Debug)]
enum Condition {
    /// The label of the state or of its row holds this text, in lower case.
    Text(String),
    Duration(Comparison, i128),
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Comparison {
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    GreaterOrEqual,
    Greater,
}

const COMPARISONS: [(&str, Comparison); 7] = [
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("!=", Comparison::NotEqual),
    ("==", Comparison::Equal),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
    ("=", Comparison::Equal),
];

const UNITS: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];

impl StateFilter {
    /// The filter of a request; an empty one matches all.
    pub(super) fn from_parameters(parameters: &Parameters) -> Answered<StateFilter> {
        let Some(value) = parameters.get("filter_query_parameters") else { return Ok(StateFilter::default()) };
        let wrong = || Refusal::parameters("`filter_expressions_map` is not a map from 1 or 4 to a list of texts");
        let map = value.get("filter_expressions_map").and_then(|map| map.as_object()).ok_or_else(wrong)?;
        let mut list = Vec::new();
        for (key, texts) in map {
            let tag = match &**key {
                "1" => DIMMED,
                "4" => EXCLUDED,
                _ => return Err(wrong()),
            };
            for text in texts.as_array().ok_or_else(wrong)? {
                let text = text.as_str().ok_or_else(wrong)?.trim();
                if !text.is_empty() {
                    list.push((tag, Condition::parse(text)?));
                }
            }
        }
        Ok(StateFilter(list))
    }

    /// The tags of a state; 0 when it matches all.
    pub(super) fn tags(&self, seen: &Seen<'_>) -> u32 {
        let failed = self.0.iter().filter(|(_, condition)| !condition.matches(seen));
        failed.fold(0, |tags, (tag, _)| tags | tag)
    }
}

impl Condition {
    fn parse(text: &str) -> Answered<Condition> {
        let rest = text.strip_prefix("duration").map(str::trim_start);
        let compared = rest.and_then(|rest| {
            COMPARISONS.iter().find_map(|(sign, comparison)| Some((*comparison, rest.strip_prefix(sign)?.trim())))
        });
        let Some((comparison, value)) = compared else { return Ok(Condition::Text(text.to_lowercase())) };
        let digits = value.trim_end_matches(|sign: char| sign.is_ascii_alphabetic());
        let unit = match value[digits.len()..].trim() {
            "" => Some(1.0),
            unit => UNITS.iter().find(|(name, _)| *name == unit).map(|(_, ns)| *ns),
        };
        let number = digits.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        let wrong = || Refusal::parameters(format!("`{value}` is not a duration such as 10ms; units: ns, us, ms, s"));
        let ns = number.zip(unit).map(|(number, unit)| number * unit).ok_or_else(wrong)?;
        Ok(Condition::Duration(comparison, ns as i128))
    }

    fn matches(&self, seen: &Seen<'_>) -> bool {
        match self {
            Condition::Text(text) => {
                let holds = |own: &str| own.to_lowercase().contains(text);
                holds(seen.label) || seen.row.iter().any(|label| holds(label))
            }
            Condition::Duration(comparison, ns) => match comparison {
                Comparison::Less => seen.duration < *ns,
                Comparison::LessOrEqual => seen.duration <= *ns,
                Comparison::Equal => seen.duration == *ns,
                Comparison::NotEqual => seen.duration != *ns,
                Comparison::GreaterOrEqual => seen.duration >= *ns,
                Comparison::Greater => seen.duration > *ns,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filter(map: serde_json::Value) -> Answered<StateFilter> {
        let body = json!({ "parameters": { "filter_query_parameters": { "filter_expressions_map": map } } });
        StateFilter::from_parameters(&Parameters::from_body(body)?)
    }

    #[test]
    fn states_that_do_not_match_are_tagged() {
        let row = ["oven-1".to_string(), "641".to_string()];
        let seen = |label, duration| Seen { label, duration, row: &row };
        let both = filter(json!({ "1": ["block"], "4": ["duration > 10us"] })).unwrap();
        assert_eq!(both.tags(&seen("blocked", 10_001)), 0);
        assert_eq!(both.tags(&seen("user", 10_001)), DIMMED);
        assert_eq!(both.tags(&seen("Blocked", 10_000)), EXCLUDED);
        assert_eq!(both.tags(&seen("user", 1)), DIMMED | EXCLUDED);
        assert_eq!(filter(json!({ "1": ["OVEN"] })).unwrap().tags(&seen("user", 1)), 0);
        assert_eq!(filter(json!({ "1": ["", " "] })).unwrap().tags(&seen("user", 1)), 0);
    }

    #[test]
    fn durations_have_units() {
        for (text, comparison, ns) in [
            ("duration>=1.5ms", Comparison::GreaterOrEqual, 1_500_000),
            ("duration < 2 s", Comparison::Less, 2_000_000_000),
            ("duration=7", Comparison::Equal, 7),
            ("duration!=7ns", Comparison::NotEqual, 7),
        ] {
            assert_eq!(Condition::parse(text).unwrap(), Condition::Duration(comparison, ns), "{text}");
        }
        assert!(Condition::parse("duration > 2 weeks").is_err() && Condition::parse("duration > inf").is_err());
        assert_eq!(Condition::parse("Durations").unwrap(), Condition::Text("durations".to_string()));
        assert!(filter(json!({ "2": ["x"] })).is_err() && filter(json!({ "1": "x" })).is_err());
        assert!(filter(json!({ "1": [1] })).is_err() && filter(json!([])).is_err());
    }
}
