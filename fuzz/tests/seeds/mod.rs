//! Where inputs begin: the corpus of a target, and what the repository has of its kind.

use std::path::Path;

/// The seeds of a target, in a fixed order.
pub(crate) fn load(target: &str) -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // The seeds for reading traces serve for writing them, too.
    let target = if target == "writing" { "trace" } else { target };
    let mut seeds: Vec<Vec<u8>> =
        files(&root.join("corpus").join(target)).into_iter().map(|(_, bytes)| bytes).collect();
    let cases = match target {
        "tsdl" => "../conformance/cases/ctf18",
        "ctf2_json" => "../conformance/cases/ctf2",
        "lttng_blocks" => {
            seeds.extend(tracemill_fuzz::block_seeds());
            return seeds;
        }
        "rfc11" | "rfc16" => "../conformance/cases/drafts",
        _ => return seeds,
    };
    seeds.extend(files(&root.join(cases)).iter().filter_map(|(_, case)| metadata(case)));
    seeds
}

/// Names and contents of the files in a folder.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<_> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            Some((entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).ok()?))
        })
        .collect();
    files.sort();
    files
}

/// The section `== metadata` of a case.
fn metadata(case: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(case).ok()?;
    let (_, rest) = text.split_once("== metadata\n")?;
    let end = rest.find("\n== ").map_or(rest.len(), |at| at + 1);
    Some(rest.as_bytes()[..end].to_vec())
}
