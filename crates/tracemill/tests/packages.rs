//! Packages stand alone: each has facts about itself and its licences, and uses no file from outside of its folder.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace is there")
}

/// The packages of the workspace that may be published, with their folders.
fn published() -> Vec<(Value, PathBuf)> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--offline", "--no-deps", "--format-version", "1"]).current_dir(root());
    let output = cargo.output().expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let packages = metadata["packages"].as_array().expect("a list of packages").iter();
    let published = packages.filter(|package| package["publish"].is_null());
    let with_folder = published.map(|package| {
        let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
        (package.clone(), manifest.parent().expect("a folder").to_path_buf())
    });
    with_folder.collect()
}

#[test]
fn packages_say_what_they_are() {
    let published = published();
    assert!(published.len() > 30, "{} packages", published.len());
    for (package, folder) in &published {
        let name = &package["name"];
        for key in ["description", "license", "rust_version", "readme"] {
            assert!(package[key].as_str().is_some_and(|text| !text.is_empty()), "{name} has no {key}");
        }
        for key in ["keywords", "categories"] {
            let count = package[key].as_array().map_or(0, Vec::len);
            assert!((1..=5).contains(&count), "{name} has {count} {key}");
        }
        // Addresses that are not ours would lead readers to somebody else's project.
        for key in ["repository", "homepage", "documentation"] {
            assert!(package[key].is_null(), "{name} has the {key} {}: see CONTRIBUTING.md", package[key]);
        }
        let readme = folder.join(package["readme"].as_str().expect("a path"));
        assert!(readme.exists(), "{name}: {} is not there", readme.display());
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            let text = std::fs::read_to_string(folder.join(licence)).unwrap_or_default();
            let whole = std::fs::read_to_string(root().join(licence)).expect("the licence is there");
            assert!(text == whole, "{name} has not the text of {licence}");
        }
    }
}

#[test]
fn packages_depend_on_packages() {
    let published = published();
    let names: Vec<&str> = published.iter().filter_map(|(package, _)| package["name"].as_str()).collect();
    for (package, _) in &published {
        let all = package["dependencies"].as_array().expect("a list of dependencies").iter();
        for dependency in all.filter(|dependency| dependency["path"].is_string()) {
            let (name, to) = (&package["name"], dependency["name"].as_str().unwrap_or_default());
            let has_version = dependency["req"] != "*";
            match dependency["kind"].as_str() {
                // Cargo leaves out those that have no version: so there are no circles, and no packages that are not needed.
                Some("dev") => assert!(!has_version, "{name} has the version of {to}, which only its tests use"),
                _ => assert!(has_version && names.contains(&to), "{name} depends on {to}, which is no package"),
            }
        }
    }
}

/// Rust sources below a folder, without tests and other packages. Links are followed, as cargo does.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let is_outside =
            ["tests", "target", "examples", "node_modules", "miri"].iter().any(|name| path.ends_with(name));
        if path.is_dir() && !is_outside && !path.join("Cargo.toml").exists() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn packages_read_no_file_from_outside() {
    let mut count = 0;
    for (package, folder) in published() {
        let mut files = Vec::new();
        sources(&folder, &mut files);
        for file in files {
            let text = std::fs::read_to_string(&file).expect("a source");
            for line in
                text.lines().filter(|line| ["include_", "#[path", "include!"].iter().any(|word| line.contains(word)))
            {
                let Some(quoted) = line.split('"').nth(1) else { continue };
                let of = file.parent().expect("a folder").join(quoted);
                let mut depth = 0i32;
                for part in of.strip_prefix(&folder).expect("below the package").components() {
                    depth += if part.as_os_str() == ".." { -1 } else { 1 };
                    assert!(depth >= 0, "{}: {line} leaves the package {}", file.display(), package["name"]);
                }
                count += 1;
            }
        }
    }
    assert!(count > 10, "{count} files are included");
}
