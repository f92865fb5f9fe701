//! Every case through the engine, and the rules that cases themselves must keep.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tracemill_conformance::case::{Case, files_below, load};
use tracemill_conformance::{coverage, run};

/// Folders of cases that are run; `cases/pending` is not.
const FOLDERS: [&str; 4] = ["ctf18", "ctf2", "drafts", "packets"];

/// There are at least so many of each kind.
const AT_LEAST: usize = 100;

fn cases() -> Vec<(String, Result<Case, String>)> {
    let mut cases = Vec::new();
    for folder in FOLDERS {
        for path in files_below(&Path::new("cases").join(folder)).expect("the folder is there") {
            cases.push((format!("{folder}/{}", path.file_name().unwrap_or_default().to_string_lossy()), load(&path)));
        }
    }
    cases
}

fn parsed() -> Vec<(String, Case)> {
    cases().into_iter().filter_map(|(name, case)| Some((name, case.ok()?))).collect()
}

fn fail_with(wrong: &[String], what: &str) {
    assert!(wrong.is_empty(), "{} {what}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn all_cases_give_what_they_expect() {
    let mut wrong = Vec::new();
    for (name, case) in cases() {
        match case {
            Err(why) => wrong.push(format!("{name}: {why}")),
            Ok(case) => {
                let differences = run::check(&case);
                if !differences.is_empty() {
                    wrong.push(format!("{name}: {}\n  {}", case.rule, differences.join("\n  ")));
                }
            }
        }
    }
    fail_with(&wrong, "cases are not as expected");
}

#[test]
fn rules_are_unique_and_sections_are_named() {
    let mut wrong = Vec::new();
    let mut rules: BTreeMap<String, String> = BTreeMap::new();
    for (name, case) in parsed() {
        if let Some(other) = rules.insert(case.rule.to_lowercase(), name.clone()) {
            wrong.push(format!("{name} and {other} have the same rule"));
        }
        if !case.spec.starts_with("CTF") && !case.spec.starts_with("LTTng") {
            wrong.push(format!("{name}: `spec: {}` names no specification", case.spec));
        }
        let parts = name.split('/').next_back().unwrap_or_default().trim_end_matches(".case").split('-').count();
        if parts < 3 {
            wrong.push(format!("{name}: a name has a kind, a feature and a twist"));
        }
    }
    fail_with(&wrong, "cases break the rules for cases");
}

#[test]
fn there_are_enough_cases() {
    let cases = parsed();
    let pass = cases.iter().filter(|(_, case)| case.is_pass()).count();
    let fail = cases.len() - pass;
    println!("{pass} pass, {fail} fail");
    assert!(pass >= AT_LEAST && fail >= AT_LEAST, "{pass} pass and {fail} fail cases, expected {AT_LEAST} of each");
}

#[test]
fn all_constructs_have_a_passing_case() {
    let mut covered: BTreeMap<String, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (name, case) in parsed() {
        for tag in case.covers.iter().filter(|tag| !coverage::is_known(tag)) {
            wrong.push(format!("{name}: `{tag}` is no construct of src/coverage.rs"));
        }
        for tag in case.covers.iter().filter(|tag| case.is_pass() || coverage::REFUSED.contains(&tag.as_str())) {
            *covered.entry(tag.clone()).or_default() += 1;
        }
    }
    let mut total = (0, 0);
    for group in coverage::GROUPS {
        let tags: BTreeSet<String> = group.members.iter().map(|member| format!("{}/{member}", group.name)).collect();
        let (have, missing): (Vec<_>, Vec<_>) = tags.iter().partition(|tag| covered.contains_key(*tag));
        println!("{:<10} {:>3} of {:>3}  ({})", group.name, have.len(), tags.len(), group.source);
        total = (total.0 + have.len(), total.1 + tags.len());
        wrong.extend(missing.iter().map(|tag| format!("`{tag}` has no passing case")));
    }
    let refused = coverage::REFUSED.iter().filter(|tag| !covered.contains_key(**tag));
    wrong.extend(refused.map(|tag| format!("`{tag}` has no failing case")));
    println!("all        {:>3} of {:>3}", total.0, total.1);
    fail_with(&wrong, "gaps");
}
