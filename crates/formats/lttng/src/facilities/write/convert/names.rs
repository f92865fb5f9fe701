//! Names of facilities, events and files.

use tracemill_format::as_file_name;

/// Facility and event of a name: at its first `:` or `.`, else at its first `_`.
pub(super) fn split(name: &str) -> (String, String) {
    let at = name.find([':', '.']).or_else(|| name.get(1..).and_then(|rest| rest.find('_')).map(|at| at + 1));
    let (facility, event) = match at {
        Some(at) if at > 0 && at + 1 < name.len() => (&name[..at], &name[at + 1..]),
        _ => ("user", name),
    };
    let word = |name: &str| if name.is_empty() { "_".to_string() } else { text(name) };
    (word(facility), word(event))
}

/// A name or a description with characters that may stand in definitions.
pub(super) fn text(text: &str) -> String {
    let allowed = |one: char| if matches!(one, '"' | '<' | '>' | '\\' | '&') || one.is_control() { '_' } else { one };
    text.chars().map(allowed).collect()
}

/// A text with characters that may stand in the name of a file.
pub(super) fn safe_file_name(name: &str) -> String {
    as_file_name(name)
}

/// The name of the definition file of a facility, without `.xml`.
pub(super) fn definition_file(facility: &str) -> String {
    safe_file_name(facility).trim_start_matches('.').chars().take(100).collect()
}
