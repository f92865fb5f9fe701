//! Names that were probably meant by others: suggestions in errors.

use tracemill_model::error::Error;

/// An error with the candidate that was probably meant as its help, when there is one.
pub fn suggest<'a>(error: Error, name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Error {
    match nearest(name, candidates) {
        Some(near) => error.with_help(format!("did you mean `{near}`?")),
        None => error,
    }
}

/// The candidate nearest to `name` by edit distance, when it is near enough to be meant.
///
/// ```
/// use tracemill_codec::text::nearest;
/// assert_eq!(nearest("uint23_t", ["uint32_t", "string"]), Some("uint32_t"));
/// assert_eq!(nearest("foo", ["uint32_t", "string"]), None);
/// ```
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(name, candidate), candidate))
        .filter(|&(distance, candidate)| distance <= limit && candidate != name)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Which of several names is meant by one that is none of them: the same in other letters, or the nearest.
pub fn closest<'a>(name: &str, names: &[&'a str]) -> Option<&'a str> {
    let same = names.iter().find(|known| known.eq_ignore_ascii_case(name)).copied();
    same.or_else(|| nearest(name, names.iter().copied()))
}

/// The number of characters to insert, delete or replace to make one text of the other.
pub fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &cb) in b.iter().enumerate() {
            let cost = diagonal + usize::from(ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_letters_are_meant_before_other_names() {
        assert_eq!(closest("CTF2", &["ctf1", "ctf2"]), Some("ctf2"));
        assert_eq!(closest("ctf3", &["cpel", "ctf2"]), Some("ctf2"));
        assert_eq!(closest("xml", &["cpel", "ctf2"]), None);
    }

    #[test]
    fn nearest_offers_only_what_may_be_meant() {
        assert_eq!(nearest("uint23_t", ["uint32_t", "string"]), Some("uint32_t"));
        assert_eq!(nearest("uint32", ["uint32_t", "uint8_t"]), Some("uint32_t"));
        assert_eq!(nearest("foo", ["uint32_t"]), None);
    }
}
