//! A type is found by its name alone: a name stands for three types of the workspace at most.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Types of one name at most.
const MOST: usize = 3;

/// Names that are said with their crate in front, as Rust's own libraries have them.
const IDIOMS: &[&str] = &["Error", "Options", "Result"];

/// Folders with sources, below the root of the workspace.
const SOURCES: &[&str] = &["crates", "python", "bench", "conformance"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files of products in a folder: links, tests and examples are left out.
fn add_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the folder is there").map(|entry| entry.expect("it can be listed")) {
        let (path, kind) = (entry.path(), entry.file_type().expect("it has a type"));
        let name = entry.file_name().to_string_lossy().into_owned();
        if kind.is_dir()
            && !["tests", "testing", "examples", "benches", "target", "node_modules"].contains(&name.as_str())
        {
            add_files(&path, files);
        } else if kind.is_file() && name.ends_with(".rs") && name != "tests.rs" {
            files.push(path);
        }
    }
}

/// The names of the types that a source defines. A module of tests ends it.
fn types(text: &str) -> Vec<&str> {
    let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let words_of = |line: &'_ str| line.split(|sign: char| !sign.is_alphanumeric() && sign != '_').map(str::len).next();
    let mut names = Vec::new();
    for line in product.lines() {
        let trimmed = line.trim_start();
        let public = trimmed.strip_prefix("pub").map_or(trimmed, |rest| match rest.strip_prefix('(') {
            Some(limited) => limited.split_once(") ").map_or("", |(_, rest)| rest),
            None => rest.trim_start(),
        });
        let public = public.strip_prefix("unsafe ").unwrap_or(public);
        let Some((keyword, rest)) = public.split_once(' ') else { continue };
        // A `type` inside of an implementation is that of its trait.
        let defines = ["struct", "enum", "trait", "union"].contains(&keyword) || (keyword == "type" && trimmed == line);
        if let Some(len) = words_of(rest).filter(|&len| defines && len > 0) {
            names.push(&rest[..len]);
        }
    }
    names
}

#[test]
fn a_name_stands_for_three_types_at_most() {
    let mut files = Vec::new();
    for folder in SOURCES {
        add_files(&root().join(folder), &mut files);
    }
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in &files {
        let text = std::fs::read_to_string(file).expect("a source is text");
        let path = file.strip_prefix(root()).expect("it is below the root").display().to_string();
        for name in types(&text) {
            places.entry(name.to_string()).or_default().push(path.clone());
        }
    }
    assert!(places.len() > 1500, "{} names: the sources are found", places.len());
    let is_shared = |(name, places): &(&String, &Vec<String>)| places.len() > MOST && !IDIOMS.contains(&name.as_str());
    let shared: Vec<String> =
        places.iter().filter(is_shared).map(|(name, places)| format!("{name}: {}", places.join(", "))).collect();
    assert!(shared.is_empty(), "names of more than {MOST} types; say what each is of:\n{}", shared.join("\n"));
}

#[test]
fn types_of_a_source_are_found() {
    let text = "pub struct A<'a> {\n}\n    pub(super) enum B {\nunsafe trait C: D {}\ntype E = u8;\nimpl F for G {\n    type H = u8;\n}\n\
                // struct I\nlet struct_j = 1;\n#[cfg(test)]\nmod tests {\n    struct K;\n}\n";
    assert_eq!(types(text), ["A", "B", "C", "E"]);
}
