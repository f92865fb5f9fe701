//! Integer range sets, and what is made of them: labels, flags and selector values (CTF 2, 5.3.2).

use std::sync::Arc;

use tracemill_codec::text::Span;
use tracemill_model::error::Result;
use tracemill_model::schema::{Mapping, Range};

use super::json::JsonValue;
use super::object::{Object, array, integer};
use crate::metadata_text::MetadataText;

/// An integer range set and where it is written.
#[derive(Debug)]
pub(super) struct RangeSet {
    pub(super) span: Span,
    pub(super) ranges: Vec<Range>,
    /// Has our writer made it for a boolean?
    pub(super) is_own: bool,
}

/// Reads `mappings` or `flags`: names to integer range sets, in their order.
pub(super) fn mappings<'v>(
    source: &'v MetadataText<'v>,
    name: &str,
    value: &'v JsonValue<'v>,
    low: i128,
    high: i128,
) -> Result<Arc<[Mapping]>> {
    let what = if name == "flags" { "the flags of a bit map" } else { "the mappings of an integer" };
    let mut mappings = Vec::new();
    for property in Object::new(source, value, what)?.properties {
        let ranges = range_set(source, name, &property.value, low, high)?;
        mappings.push(Mapping { label: property.key.as_ref().into(), ranges });
    }
    Ok(mappings.into())
}

/// Reads `selector-field-ranges`.
pub(super) fn selector_ranges(source: &str, value: &JsonValue<'_>) -> Result<RangeSet> {
    let ranges = range_set(source, "selector-field-ranges", value, i128::MIN, i128::MAX)?;
    Ok(RangeSet { span: value.span, ranges, is_own: false })
}

/// Reads an integer range set (CTF 2, 5.3.2): one or more pairs of bounds.
fn range_set(source: &str, name: &str, value: &JsonValue<'_>, low: i128, high: i128) -> Result<Vec<Range>> {
    let values = array(source, name, value)?;
    if values.is_empty() {
        return Err(value.span.malformed(source, "an integer range set needs at least one range"));
    }
    let range = |pair: &JsonValue<'_>| match array(source, name, pair)? {
        [first, last] => {
            let first_bound = integer(source, name, first, low, high)?;
            let last_bound = integer(source, name, last, low, high)?;
            if first_bound > last_bound {
                let message = format!("range from `{first_bound}` to `{last_bound}` is upside down");
                return Err(pair.span.malformed(source, message));
            }
            Ok((first_bound, last_bound))
        }
        bounds => {
            let message = format!("an integer range has {} elements, expected 2", bounds.len());
            Err(pair.span.malformed(source, message))
        }
    };
    values.iter().map(range).collect()
}

/// The ranges of a selector that is a boolean, whose values are 0 and 1: what asks for any value but 0 asks for true.
pub(crate) fn boolean_ranges(ranges: &[Range]) -> Vec<Range> {
    let has_false = ranges.iter().any(|&(low, high)| low <= 0 && 0 <= high);
    let has_true = ranges.iter().any(|&range| range != (0, 0));
    if has_false || has_true { vec![((!has_false).into(), has_true.into())] } else { Vec::new() }
}

/// Options of a variant must not share a selector value (CTF 2, 5.3.23). Ranges of one option may.
pub(super) fn refuse_overlap(source: &str, options: &[&RangeSet]) -> Result<()> {
    let mut all: Vec<(Range, usize)> = Vec::new();
    for (index, option) in options.iter().enumerate() {
        let mut ranges = option.ranges.clone();
        ranges.sort_unstable();
        // Joined ranges of one option are disjoint, so that neighbours that overlap are of two options.
        let from = all.len();
        for (low, high) in ranges {
            match all[from..].last_mut() {
                Some(((_, last), _)) if low <= *last => *last = high.max(*last),
                _ => all.push(((low, high), index)),
            }
        }
    }
    all.sort_unstable();
    let Some(pair) = all.windows(2).find(|pair| pair[1].0.0 <= pair[0].0.1) else { return Ok(()) };
    let (first, second) = (pair[0].1.min(pair[1].1), pair[0].1.max(pair[1].1));
    let message = format!("selector value `{}` belongs to two options of a variant", pair[1].0.0);
    let error = options[second].span.malformed(source, message);
    Err(error.with_related("the first one", options[first].span.place(source)))
}

#[cfg(test)]
mod tests {
    use super::super::json;
    use super::*;

    fn ranges(text: &str) -> Result<RangeSet> {
        let source = MetadataText::new(text, true);
        selector_ranges(text, &json::parse(&source, Span::new(0, text.len()), 1).unwrap())
    }

    #[test]
    fn booleans_are_0_and_1() {
        for (ranges, expected) in [
            (vec![(1, 1)], vec![(1, 1)]),
            (vec![(0, 0)], vec![(0, 0)]),
            (vec![(0, 0), (7, 255)], vec![(0, 1)]),
            (vec![(-3, -1)], vec![(1, 1)]),
            (vec![(-3, 3)], vec![(0, 1)]),
            (vec![], vec![]),
        ] {
            assert_eq!(boolean_ranges(&ranges), expected, "{ranges:?}");
        }
    }

    #[test]
    fn ranges_of_one_option_may_overlap_but_not_of_two() {
        let check = |first: &str, second: &str| {
            let (first, second) = (ranges(first).unwrap(), ranges(second).unwrap());
            refuse_overlap("", &[&first, &second])
        };
        assert!(check("[[1, 5], [3, 9]]", "[[10, 10], [-1, 0]]").is_ok());
        for (first, second) in
            [("[[1, 100], [2, 3]]", "[[50, 50]]"), ("[[5, 5]]", "[[6, 9], [-5, 5]]"), ("[[0, 0]]", "[[0, 0]]")]
        {
            let error = check(first, second).unwrap_err();
            assert!(error.message().ends_with("belongs to two options of a variant"), "{error}");
        }
    }
}
