//! Debugging information of the functions that `tracemill record` records: `-a`, `-A NAME`, `--srcline`, `-L`.

use std::path::Path;

use tracemill_model::error::Error;
use tracemill_run::{Describe, Selection};

/// Refuses what this program was built without.
pub(crate) fn check(is_wanted: bool) -> Result<(), Error> {
    match cfg!(not(feature = "debug-info")) && is_wanted {
        true => Err(Error::unsupported("types and lines of functions cannot be had: this program does not read DWARF")
            .with_help("build it with the feature debug-info")),
        false => Ok(()),
    }
}

/// Describes files as a selection wants it.
pub(crate) fn describer(selection: &Selection) -> Option<Describe> {
    let (has_types, has_lines) = (selection.has_auto_values || selection.has_named_types, selection.has_lines);
    (has_types || has_lines).then(|| read::describe(has_types, has_lines))
}

/// The specifications of a function's arguments and of its return value, at this address of a file.
pub(crate) fn specs(path: &Path, address: u64) -> [String; 2] {
    read::specs(path, address)
}

/// The source file of a function.
pub(crate) fn source_file(path: &Path, address: u64) -> Option<String> {
    read::source_file(path, address)
}

#[cfg(feature = "debug-info")]
mod read {
    use std::collections::HashMap;
    use std::path::{Path, PathBuf};
    use std::sync::{Arc, Mutex, PoisonError};

    use tracemill_debug_info::Signatures;
    use tracemill_format::demangle::simple_name;
    use tracemill_run::{Describe, Description};

    /// The signatures of files that were read: their debugging information may be large.
    static KNOWN: Mutex<Option<HashMap<PathBuf, Arc<Signatures>>>> = Mutex::new(None);

    fn signatures(path: &Path) -> Arc<Signatures> {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get_or_insert_default();
        match known.get(path) {
            Some(signatures) => signatures.clone(),
            None => known.entry(path.to_path_buf()).or_insert(Arc::new(Signatures::from_file(path))).clone(),
        }
    }

    pub(super) fn specs(path: &Path, address: u64) -> [String; 2] {
        let signatures = signatures(path);
        let function = signatures.functions.get(&address);
        function.map_or_else(Default::default, |function| [function.arguments.clone(), function.result.clone()])
    }

    pub(super) fn source_file(path: &Path, address: u64) -> Option<String> {
        Some(signatures(path).functions.get(&address)?.line.as_ref()?.1.clone())
    }

    pub(super) fn describe(has_types: bool, has_lines: bool) -> Describe {
        Describe(Arc::new(move |path| {
            let signatures = signatures(path);
            let mut description = Description::default();
            for (name, labels) in signatures.enumerations.iter().filter(|_| has_types) {
                let labels: Vec<_> = labels.iter().map(|(label, value)| format!("{label}={value}")).collect();
                description.enumerations.push(format!("enum {name} {{{}}}", labels.join(",")));
            }
            for (address, function) in &signatures.functions {
                let mut lines = Vec::new();
                if let Some((number, path)) = function.line.as_ref().filter(|_| has_lines) {
                    lines.push(format!("L: {number} {path}"));
                }
                let specs = [("A", &function.arguments), ("R", &function.result)];
                for (letter, specs) in specs.into_iter().filter(|(_, specs)| has_types && !specs.is_empty()) {
                    lines.push(format!("{letter}: @{specs}"));
                }
                description.functions.insert(*address, (simple_name(&function.name), lines));
            }
            description
        }))
    }
}

#[cfg(not(feature = "debug-info"))]
mod read {
    use std::path::Path;
    use std::sync::Arc;

    use tracemill_run::{Describe, Description};

    pub(super) fn specs(_: &Path, _: u64) -> [String; 2] {
        Default::default()
    }

    pub(super) fn source_file(_: &Path, _: u64) -> Option<String> {
        None
    }

    pub(super) fn describe(_: bool, _: bool) -> Describe {
        Describe(Arc::new(|_| Description::default()))
    }
}
