//! Errors, warnings and remarks about a file: the first few of each kind, then how many more there are.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use tracemill_model::error::Error;

/// Messages of one kind that are reported one by one.
const MAX_OF_KIND: u64 = 8;

/// How bad something is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Severity {
    /// Something cannot be read: exit status 3.
    Error,
    /// The user should know.
    Warning,
    /// Only `check` reports it.
    Remark,
}

/// Errors, warnings and remarks about one file.
#[derive(Debug)]
pub(super) struct Diagnostics {
    path: PathBuf,
    is_strict: bool,
    reported: Vec<(Severity, Error)>,
    /// For each kind how many there were, and where the first one was that is not reported.
    kinds: HashMap<&'static str, (Severity, u64, u64)>,
}

impl Diagnostics {
    /// About a file; `is_strict` when the user asked for `--strict`.
    pub(super) fn new(path: &Path, is_strict: bool) -> Self {
        Diagnostics { path: path.to_path_buf(), is_strict, reported: Vec::new(), kinds: HashMap::new() }
    }

    /// An error; `kind` names it in the plural: `sections are cut`.
    pub(super) fn error(&mut self, kind: &'static str, error: Error) {
        self.add(Severity::Error, kind, error);
    }

    /// A warning.
    pub(super) fn warn(&mut self, kind: &'static str, offset: u64, message: impl Into<String>) {
        self.add(Severity::Warning, kind, inconsistent(offset, message));
    }

    /// A name that no NUL ends: a warning, an error for those who want it strict (`SPEC.md`, D11).
    pub(super) fn unterminated_name(&mut self, offset: u64, message: impl Into<String>) {
        let level = if self.is_strict { Severity::Error } else { Severity::Warning };
        self.add(level, "names are not terminated", inconsistent(offset, message));
    }

    /// Something that only `check` reports.
    pub(super) fn remark(&mut self, kind: &'static str, offset: u64, message: impl Into<String>) {
        self.add(Severity::Remark, kind, inconsistent(offset, message));
    }

    /// Adds something of a kind.
    pub(super) fn add(&mut self, level: Severity, kind: &'static str, error: Error) {
        let offset = error.place().offset.unwrap_or(0);
        let (_, count, first_more) = self.kinds.entry(kind).or_insert((level, 0, 0));
        *count += 1;
        if *count <= MAX_OF_KIND {
            self.reported.push((level, error.in_file(&self.path)));
        } else if *count == MAX_OF_KIND + 1 {
            *first_more = offset;
        }
    }

    /// Errors, warnings and remarks.
    pub(super) fn finish(mut self) -> [Vec<Error>; 3] {
        let mut more: Vec<_> = self.kinds.iter().filter(|(_, (_, count, _))| *count > MAX_OF_KIND).collect();
        more.sort_by_key(|(kind, (_, _, first))| (*first, **kind));
        for (kind, (level, count, first)) in more {
            let message = format!("{} more like these: {kind}", count - MAX_OF_KIND);
            self.reported.push((*level, inconsistent(*first, message).in_file(&self.path)));
        }
        [Severity::Error, Severity::Warning, Severity::Remark].map(|level| {
            let of_level = self.reported.iter().filter(|(of, _)| *of == level);
            of_level.map(|(_, error)| error.clone()).collect()
        })
    }
}

fn inconsistent(offset: u64, message: impl Into<String>) -> Error {
    Error::inconsistent(message).at_offset(offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_of_a_kind_are_counted() {
        let mut diagnostics = Diagnostics::new(Path::new("f"), false);
        for at in 0..20 {
            diagnostics.warn("definitions stand twice", at, format!("code {at}"));
        }
        diagnostics.remark("tables are not padded", 3, "table");
        let [faults, warnings, remarks] = diagnostics.finish();
        assert!(faults.is_empty());
        assert_eq!(warnings.len(), 9);
        assert_eq!(warnings[8].message(), "12 more like these: definitions stand twice");
        assert_eq!(warnings[8].place().offset, Some(8));
        assert_eq!(remarks.len(), 1);
    }
}
