//! Files of a crate that use each other in a circle must be read together, so circles are small. The graph is that of the
//! paths that begin with `crate`, `super`, `self` or the name of a module; it leads through re-exports to the file that has
//! the item.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Files of a circle at most.
const MOST: usize = 4;

/// Crates whose circles are small, below `crates/`.
const CRATES: &[&str] = &[
    "answers",
    "server",
    "tui",
    "lod",
    "sql",
    "calls",
    "cli",
    "analyses",
    "table",
    "render",
    "export",
    "recorder/ring",
    "recorder/record",
    "recorder/preload",
    "recorder/run",
    "recorder/kernel",
    "recorder/sample",
];

type Module = Vec<String>;

/// A path that a file names.
#[derive(Clone, Debug)]
struct Use {
    path: Vec<String>,
    /// The name that it has in the file; none for a path inside of code.
    name: Option<String>,
    is_exported: bool,
}

/// The tokens of a source; comments, texts and signs without a meaning here are left out.
fn tokens(text: &str) -> Vec<String> {
    let signs: Vec<char> = text.chars().collect();
    let (mut tokens, mut at) = (Vec::new(), 0);
    let starts = |at: usize, with: &str| with.chars().enumerate().all(|(i, sign)| signs.get(at + i) == Some(&sign));
    while at < signs.len() {
        let sign = signs[at];
        if starts(at, "//") {
            while at < signs.len() && signs[at] != '\n' {
                at += 1;
            }
        } else if starts(at, "/*") {
            while at < signs.len() && !starts(at, "*/") {
                at += 1;
            }
            at += 2;
        } else if sign == 'r' && (starts(at, "r\"") || starts(at, "r#\"") || starts(at, "r##\"")) {
            let hashes = signs[at + 1..].iter().take_while(|sign| **sign == '#').count();
            let end = format!("\"{}", "#".repeat(hashes));
            at += 2 + hashes;
            while at < signs.len() && !starts(at, &end) {
                at += 1;
            }
            at += end.len();
        } else if sign == '"' {
            at += 1;
            while at < signs.len() && signs[at] != '"' {
                at += if signs[at] == '\\' { 2 } else { 1 };
            }
            at += 1;
        } else if sign == '\'' && (signs.get(at + 1) == Some(&'\\') || signs.get(at + 2) == Some(&'\'')) {
            at += 2;
            while at < signs.len() && signs[at] != '\'' {
                at += 1;
            }
            at += 1;
        } else if sign.is_alphabetic() || sign == '_' {
            let begin = at;
            while at < signs.len() && (signs[at].is_alphanumeric() || signs[at] == '_') {
                at += 1;
            }
            tokens.push(signs[begin..at].iter().collect());
        } else {
            if starts(at, "::") {
                tokens.push("::".to_string());
                at += 1;
            } else if !sign.is_whitespace() {
                tokens.push(sign.to_string());
            }
            at += 1;
        }
    }
    tokens
}

/// The paths of a tree of imports, from its first token to the one after it.
fn tree(tokens: &[String], mut at: usize, before: &[String], is_exported: bool, uses: &mut Vec<Use>) -> usize {
    let mut path = before.to_vec();
    loop {
        match tokens[at].as_str() {
            "::" => at += 1,
            "{" => {
                at += 1;
                while tokens[at] != "}" {
                    at = tree(tokens, at, &path, is_exported, uses);
                    at += usize::from(tokens[at] == ",");
                }
                return at + 1;
            }
            "*" => {
                uses.push(Use { path, name: None, is_exported });
                return at + 1;
            }
            "as" => {
                let name = Some(tokens[at + 1].clone());
                uses.push(Use { path, name, is_exported });
                return at + 2;
            }
            "," | "}" | ";" => {
                let name = path.last().filter(|name| *name != "self").or(path.iter().rev().nth(1)).cloned();
                uses.push(Use { path, name, is_exported });
                return at;
            }
            word => {
                path.push(word.to_string());
                at += 1;
            }
        }
    }
}

/// The paths that a source names.
fn uses_of(text: &str) -> Vec<Use> {
    let tokens = tokens(text);
    let (mut uses, mut at) = (Vec::new(), 0);
    let is = |at: usize, token: &str| tokens.get(at).is_some_and(|own| own == token);
    while at < tokens.len() {
        let before = at.checked_sub(1).map_or("", |before| tokens[before].as_str());
        if tokens[at] == "use" && before != "+" && !is(at + 1, "<") {
            // `pub use`, `pub(crate) use`.
            at = tree(&tokens, at + 1, &[], before == "pub" || before == ")", &mut uses);
        } else if is(at + 1, "::")
            && before != "::"
            && tokens[at].chars().all(|sign| sign.is_alphanumeric() || sign == '_')
        {
            let mut path = vec![tokens[at].clone()];
            while is(at + 1, "::") && tokens.get(at + 2).is_some_and(|token| token.chars().all(char_of_name)) {
                path.push(tokens[at + 2].clone());
                at += 2;
            }
            uses.push(Use { path, name: None, is_exported: false });
            at += 1;
        } else {
            at += 1;
        }
    }
    uses
}

fn char_of_name(sign: char) -> bool {
    sign.is_alphanumeric() || sign == '_'
}

/// The product's files of a crate by the modules that they are.
struct Files(BTreeMap<Module, (PathBuf, Vec<Use>)>);

impl Files {
    fn read(root: &Path) -> Files {
        let (mut files, mut tests) = (Files(BTreeMap::new()), BTreeSet::new());
        files.add(root, &[], &mut tests);
        files.0.retain(|module, _| !tests.contains(module));
        files
    }

    /// Adds the files below a folder; `tests` are the modules that are only for tests.
    fn add(&mut self, folder: &Path, module: &[String], tests: &mut BTreeSet<Module>) {
        for entry in std::fs::read_dir(folder).expect("a folder of sources").flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            let within = |name: &str| module.iter().cloned().chain([name.to_string()]).collect::<Module>();
            if path.is_dir() {
                self.add(&path, &within(&name), tests);
            } else if let Some(stem) = name.strip_suffix(".rs") {
                let text = std::fs::read_to_string(&path).expect("sources are text");
                let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
                let own = if ["lib", "main", "mod"].contains(&stem) { module.to_vec() } else { within(stem) };
                let of_tests = product.split("#[cfg(test)]\nmod ").skip(1).filter_map(|rest| rest.split_once(';'));
                tests.extend(of_tests.map(|(name, _)| own.iter().cloned().chain([name.to_string()]).collect()));
                self.0.insert(own, (path, uses_of(product)));
            }
        }
    }

    /// The file that has the item of a path, which a module names.
    fn find(&self, module: &[String], path: &[String], depth: usize) -> Option<&Module> {
        let mut at: Module = match path.first()?.as_str() {
            "crate" => Vec::new(),
            "super" => module[..module.len().checked_sub(1)?].to_vec(),
            "self" => module.to_vec(),
            child => {
                let own: Module = module.iter().cloned().chain([child.to_string()]).collect();
                self.0.contains_key(&own).then_some(own)?
            }
        };
        for (done, step) in path.iter().enumerate().skip(1) {
            if step == "super" {
                at.pop();
                continue;
            }
            at.push(step.clone());
            if self.0.contains_key(&at) {
                continue;
            }
            at.pop();
            let (_, uses) = self.0.get(&at)?;
            // It may come from elsewhere, and be passed on.
            let from = uses.iter().find(|other| other.name.as_ref() == Some(step));
            if let Some(from) = from.filter(|_| depth < 8) {
                let rest: Vec<String> = from.path.iter().chain(&path[done + 1..]).cloned().collect();
                return self.find(&at, &rest, depth + 1);
            }
            break;
        }
        self.0.get_key_value(&at).map(|(own, _)| own)
    }

    /// The circles of more files than there should be, the largest first: each file with those of the circle that it uses.
    fn circles(&self) -> Vec<Vec<String>> {
        let modules: Vec<&Module> = self.0.keys().collect();
        let number = |module: &Module| modules.binary_search(&module).expect("it is a file");
        let used = |(module, (_, uses)): (&Module, &(PathBuf, Vec<Use>))| -> BTreeSet<usize> {
            let own = uses.iter().filter(|own| !own.is_exported);
            own.filter_map(|own| self.find(module, &own.path, 0)).filter(|other| *other != module).map(number).collect()
        };
        let direct: Vec<BTreeSet<usize>> = self.0.iter().map(used).collect();
        let mut reached = direct.clone();
        loop {
            let further =
                |own: &BTreeSet<usize>| own.iter().flat_map(|other| &reached[*other]).chain(own).copied().collect();
            let next: Vec<BTreeSet<usize>> = reached.iter().map(further).collect();
            if next == reached {
                break;
            }
            reached = next;
        }
        let with = |at: usize| reached[at].iter().copied().filter(|other| reached[*other].contains(&at)).collect();
        let circles: BTreeSet<BTreeSet<usize>> = (0..modules.len()).map(with).collect();
        let name = |at: usize| if modules[at].is_empty() { "lib".to_string() } else { modules[at].join("::") };
        let told = |at: usize, circle: &BTreeSet<usize>| {
            let used: Vec<String> = direct[at].intersection(circle).map(|other| name(*other)).collect();
            format!("{} -> {}", name(at), used.join(", "))
        };
        let large = circles.iter().filter(|circle| circle.len() > MOST);
        let mut large: Vec<Vec<String>> =
            large.map(|circle| circle.iter().map(|at| told(*at, circle)).collect()).collect();
        large.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        large
    }
}

#[test]
fn files_use_each_other_in_small_circles_only() {
    for name in CRATES {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates").join(name).join("src");
        let files = Files::read(&root);
        assert!(!files.0.is_empty(), "{name} has no sources");
        let circles = files.circles();
        assert!(circles.is_empty(), "files of `{name}` use each other in a circle of more than {MOST}: {circles:#?}");
    }
}

#[test]
fn imports_are_found_where_they_come_from() {
    let own = uses_of(
        r#"//! use crate::none;
           pub use a::{self, b::C as D};
           use crate::x::{Y, z::*};
           fn f<'a>(t: &'a str) -> char { super::g("use crate::q;"); e::h(); std::mem::take(t); '"' }"#,
    );
    let told =
        |own: &Use| format!("{} {} {}", own.path.join("::"), own.name.as_deref().unwrap_or("-"), own.is_exported);
    let told: Vec<String> = own.iter().map(told).collect();
    let wanted = [
        "a::self a true",
        "a::b::C D true",
        "crate::x::Y Y false",
        "crate::x::z - false",
        "super::g - false",
        "e::h - false",
        "std::mem::take - false",
    ];
    assert_eq!(told, wanted);
    let source = |text: &str| (PathBuf::new(), uses_of(text));
    let module = |path: &str| path.split("::").filter(|step| !step.is_empty()).map(str::to_string).collect::<Module>();
    let files = Files(BTreeMap::from([
        (module(""), source("pub use a::b::C;")),
        (module("a"), source("use crate::C; use std::fmt;")),
        (module("a::b"), source("use super::fmt; use crate::d::E;")),
        (module("d"), source("use super::{C, a::b as e}; fn f() { e::C::new() }")),
    ]));
    let find = |from: &str, path: &str| files.find(&module(from), &module(path), 0).map(|found| found.join("::"));
    assert_eq!(find("a", "crate::C").as_deref(), Some("a::b"), "through a re-export");
    assert_eq!(find("a::b", "super::fmt"), None, "of another crate");
    assert_eq!(find("d", "super::a::b::C").as_deref(), Some("a::b"));
    assert_eq!(find("", "a::b::C").as_deref(), Some("a::b"));
}
