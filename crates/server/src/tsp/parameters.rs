//! The `parameters` of a request.

use serde_json::{Map, Value};

use super::refusal::{Answered, Refusal};

/// Samples of a range at most, as the API file says.
const MOST_SAMPLES: i64 = 65_536;

/// The parameters of a request.
pub(super) struct Parameters(Value);

/// A range of time, both ends included, and how many of its times are looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Samples {
    pub(super) begin: i64,
    pub(super) end: i64,
    pub(super) count: i64,
}

impl Parameters {
    /// The parameters in a body. The Python client of the protocol leaves them out where it has none.
    pub(super) fn from_body(mut body: Value) -> Answered<Parameters> {
        match body.get_mut("parameters").map(Value::take) {
            Some(parameters @ Value::Object(_)) => Ok(Parameters(parameters)),
            None if body.is_object() => Ok(Parameters(Value::Object(Map::new()))),
            _ => Err(Refusal::new(400, "Missing query parameters", "the body has no object `parameters`")),
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// A text that may be absent.
    pub(super) fn text(&self, name: &str) -> Answered<Option<&str>> {
        let wrong = || Refusal::parameters(format!("`{name}` is not a text"));
        self.get(name).map(|value| value.as_str().ok_or_else(wrong)).transpose()
    }

    /// A text that must be there.
    pub(super) fn needed_text(&self, name: &str) -> Answered<&str> {
        let text = self.text(name)?.filter(|text| !text.is_empty());
        text.ok_or_else(|| Refusal::new(400, "Missing query parameters", format!("`{name}` is missing")))
    }

    /// A whole number that may be absent.
    pub(super) fn number(&self, name: &str) -> Answered<Option<i64>> {
        let wrong = || Refusal::parameters(format!("`{name}` is not a whole number of 64 bits"));
        self.get(name).map(|value| value.as_i64().ok_or_else(wrong)).transpose()
    }

    /// A whole number that must be there.
    pub(super) fn needed_number(&self, name: &str) -> Answered<i64> {
        let missing = || Refusal::new(400, "Missing query parameters", format!("`{name}` is missing"));
        self.number(name)?.ok_or_else(missing)
    }

    /// Whole numbers; `None` when they are absent.
    pub(super) fn numbers(&self, name: &str) -> Answered<Option<Vec<i64>>> {
        let wrong = || Refusal::parameters(format!("`{name}` is not a list of whole numbers"));
        let numbers = |value: &Value| value.as_array()?.iter().map(Value::as_i64).collect::<Option<Vec<i64>>>();
        self.get(name).map(|value| numbers(value).ok_or_else(wrong)).transpose()
    }

    /// Texts; `None` when they are absent.
    pub(super) fn texts(&self, name: &str) -> Answered<Option<Vec<&str>>> {
        let wrong = || Refusal::parameters(format!("`{name}` is not a list of texts"));
        let texts = |value: &'_ Value| value.as_array().is_some_and(|list| list.iter().all(Value::is_string));
        let Some(value) = self.get(name) else { return Ok(None) };
        if !texts(value) {
            return Err(wrong());
        }
        Ok(Some(value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()))
    }

    /// The entries that are asked for.
    pub(super) fn items(&self) -> Answered<Vec<i64>> {
        let missing = || Refusal::new(400, "Missing query parameters", "`requested_items` is missing");
        self.numbers("requested_items")?.ok_or_else(missing)
    }

    /// The range that is asked for; `None` when none is.
    pub(super) fn range(&self) -> Answered<Option<Samples>> {
        let Some(range) = self.get("requested_timerange") else { return Ok(None) };
        let number = |name: &str| match range.get(name).filter(|value| !value.is_null()) {
            None => Ok(None),
            Some(value) => value.as_i64().map(Some).ok_or_else(|| {
                Refusal::parameters(format!("`{name}` of `requested_timerange` is not a whole number of 64 bits"))
            }),
        };
        let (Some(begin), Some(end)) = (number("start")?, number("end")?) else {
            return Err(Refusal::parameters("`requested_timerange` needs `start` and `end`"));
        };
        let count = number("nbTimes")?.unwrap_or(MOST_SAMPLES);
        if begin > end || !(1..=MOST_SAMPLES).contains(&count) {
            let text = format!("`requested_timerange` begins before it ends, and has 1 to {MOST_SAMPLES} samples");
            return Err(Refusal::parameters(text));
        }
        Ok(Some(Samples { begin, end, count }))
    }

    /// The range that must be asked for.
    pub(super) fn needed_range(&self) -> Answered<Samples> {
        let missing = || Refusal::new(400, "Missing query parameters", "`requested_timerange` is missing");
        self.range()?.ok_or_else(missing)
    }
}

impl Samples {
    /// Its ends.
    pub(super) fn ends(&self) -> (i128, i128) {
        (self.begin.into(), self.end.into())
    }

    /// The time of a sample: the first is at the beginning, the last at the end.
    pub(super) fn time(&self, at: i64) -> i64 {
        let length = i128::from(self.end) - i128::from(self.begin);
        let since = length * i128::from(at) / i128::from((self.count - 1).max(1));
        (i128::from(self.begin) + since) as i64
    }

    /// The first sample that is not before a time; `count` when there is none.
    pub(super) fn first_from(&self, time: i128) -> i64 {
        let length = i128::from(self.end) - i128::from(self.begin);
        let since = time - i128::from(self.begin);
        if since <= 0 {
            return 0;
        }
        if since > length {
            return self.count;
        }
        // The smallest `at` with length * at / last >= since, rounded down: so length * at >= since * last.
        let last = i128::from((self.count - 1).max(1));
        let at = (since * last + length - 1) / length.max(1);
        at.min(i128::from(self.count)) as i64
    }

    /// Is a sample in a piece of time? The end does not belong to it.
    pub(super) fn meets(&self, from: i128, to: i128) -> bool {
        let first = self.first_from(from);
        first < self.count && i128::from(self.time(first)) < to
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn samples_are_found_by_their_times() {
        for (begin, end, count) in
            [(10, 110, 11), (-7, 90, 13), (5, 5, 3), (0, 3, 65_536), (0, i64::MAX, 1920), (1, 9, 1)]
        {
            let samples = Samples { begin, end, count };
            let times: Vec<i64> = (0..count).map(|at| samples.time(at)).collect();
            assert_eq!((times[0], *times.last().unwrap()), (begin, if count > 1 { end } else { begin }));
            for time in (-20..130).chain([i64::MAX / 3, i64::MAX]) {
                let wanted = times.iter().position(|own| *own >= time).map_or(count, |at| at as i64);
                assert_eq!(samples.first_from(time.into()), wanted, "{samples:?} {time}");
                let meets = times.iter().any(|own| (time..time.saturating_add(4)).contains(own));
                assert_eq!(samples.meets(time.into(), i128::from(time.saturating_add(4))), meets);
            }
        }
    }

    #[test]
    fn ranges_have_a_meaning() {
        let range = |value: Value| Parameters(json!({ "requested_timerange": value })).range();
        let whole = range(json!({ "start": 1, "end": 2 })).unwrap().unwrap();
        assert_eq!((whole.begin, whole.end, whole.count), (1, 2, MOST_SAMPLES));
        for wrong in [
            json!({ "start": 2, "end": 1 }),
            json!({ "start": 1, "end": 2, "nbTimes": 0 }),
            json!({ "start": 1, "end": 2, "nbTimes": 65_537 }),
            json!({ "start": 1 }),
            json!({ "start": 1.5, "end": 2 }),
            json!({ "start": 1, "end": 1e40 }),
            json!([]),
            json!("x"),
        ] {
            assert_eq!(range(wrong.clone()).unwrap_err().status, 400, "{wrong}");
        }
        assert!(Parameters(json!({})).range().unwrap().is_none());
        assert!(Parameters::from_body(json!({ "parameters": [] })).is_err());
        assert!(Parameters::from_body(json!({})).unwrap().items().is_err());
        assert!(Parameters::from_body(json!({ "requested_items": [1] })).unwrap().items().is_err());
        assert!(Parameters::from_body(json!([1])).is_err());
    }
}
