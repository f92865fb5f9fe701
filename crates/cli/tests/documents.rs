//! The documents of the repository: links lead somewhere, commands exist, and comments refer to pages that are there.
//! Comments name their subject first.

mod util;

use std::fs;
use std::path::{Path, PathBuf};

use util::{Run, command, stdout};

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the workspace is there")
}

/// The files of the repository whose names end with one of `ends`.
fn files(ends: &[&str]) -> Vec<PathBuf> {
    let (mut folders, mut found) = (vec![root()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the repository") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                // Hidden folders but that of CI, and what is built or fetched.
                let is_left_out = name == "target" || name == "node_modules" || name.starts_with('.') && name != ".ci";
                folders.extend((!is_left_out).then_some(path));
            } else if ends.iter().any(|end| name.ends_with(end)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The lines of a page that are text, not code.
fn text_lines(page: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    page.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence && !line.starts_with("    ")
    })
}

/// The anchors of the headings of a page.
fn anchors(page: &str) -> Vec<String> {
    let headings = text_lines(page).filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

/// The targets of the links of a page.
fn links(page: &str) -> Vec<&str> {
    let targets = text_lines(page).flat_map(|line| line.split("](").skip(1));
    targets.filter_map(|rest| rest.split_once(')').map(|(target, _)| target)).collect()
}

#[test]
fn links_lead_to_files_and_sections() {
    let pages = files(&[".md"]);
    assert!(pages.len() > 20, "{pages:?}");
    let mut broken = Vec::new();
    for page in &pages {
        let text = fs::read_to_string(page).expect("a page");
        for link in links(&text).into_iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.parent().expect("a folder").join(file) };
            let has_anchor =
                || fs::read_to_string(&target).is_ok_and(|text| anchors(&text).iter().any(|known| known == anchor));
            if !target.exists() || !anchor.is_empty() && !has_anchor() {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn commands_of_the_documents_exist() {
    let help = stdout("--help", &[]);
    let mut count = 0;
    for page in files(&[".md"]) {
        let text = fs::read_to_string(&page).expect("a page");
        let code = text.lines().filter_map(|line| line.strip_prefix("    "));
        let commands = code.filter_map(|line| line.trim_start_matches("$ ").strip_prefix("tracemill "));
        for command in commands.filter_map(|line| line.split_whitespace().next()) {
            let is_there = command.starts_with(['<', '-']) || help.contains(&format!("\n  {command} "));
            assert!(is_there, "{}: there is no `tracemill {command}`", page.display());
            count += 1;
        }
    }
    assert!(count > 20, "{count} commands");
}

/// Readers live in all time zones: an example selects the same events for each of them.
#[test]
fn examples_with_times_do_not_depend_on_the_time_zone() {
    let mut count = 0;
    // The commands of the guide are run in another zone anyway (`book.rs`), by a shell, as they have quotes.
    for page in files(&[".md"]).iter().filter(|page| !page.starts_with(root().join("docs/book"))) {
        let text = fs::read_to_string(page).expect("a page");
        let commands = text.lines().map(|line| line.trim_start().trim_start_matches("$ "));
        for command in commands.filter_map(|line| line.strip_prefix("tracemill ")) {
            let words: Vec<&str> =
                command.split_whitespace().take_while(|word| !word.starts_with(['#', '|', '>'])).collect();
            let is_run = matches!(words.first(), Some(&("print" | "analyze" | "report" | "info")));
            let has_time = words.iter().any(|word| matches!(*word, "--begin" | "--end" | "-b" | "-e"));
            if !(is_run && has_time && words.last().is_some_and(|word| word.starts_with("demo"))) {
                continue;
            }
            let run = |zone: &str| {
                let mut program = command_in_root();
                Run::from_output(program.args(&words).env("TZ", zone).output().expect("the program starts"))
            };
            let (here, there) = (run("UTC"), run("Asia/Tokyo"));
            assert_eq!((here.code, there.code), (Some(0), Some(0)), "{command}: {}", there.stderr);
            assert!(here.stdout.lines().count() > 1, "{command}: {}", here.stderr);
            let counts = [&here, &there].map(|run| run.stdout.lines().count());
            assert_eq!(counts[0], counts[1], "{}: {command}: {}", page.display(), there.stderr);
            count += 1;
        }
    }
    assert!(count > 3, "{count} examples");
}

/// The program in the folder that the examples are for.
fn command_in_root() -> std::process::Command {
    let mut command = command();
    command.current_dir(root());
    command
}

#[test]
fn source_files_that_documents_name_exist() {
    let (mut count, mut broken) = (0, Vec::new());
    for page in files(&[".md"]) {
        let text = fs::read_to_string(&page).expect("a page");
        let is_path = |word: &&str| word.contains('/') && (word.ends_with(".rs") || word.ends_with(".py"));
        // Names between backquotes: every other piece.
        for name in text.split('`').skip(1).step_by(2).filter(is_path).filter(|name| !name.contains(['*', ' '])) {
            count += 1;
            let beside = page.parent().expect("a folder");
            let folders = [root(), root().join("crates"), root().join("crates/formats/ctf/src"), beside.join("src")];
            if !folders.iter().any(|folder| folder.join(name).is_file()) && !beside.join(name).is_file() {
                broken.push(format!("{}: {name}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(count > 20, "{count} files");
}

#[test]
fn the_tree_of_the_architecture_is_that_of_the_sources() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the page");
    let (_, rest) = text.split_once("```\ncrates/\n").expect("it has the tree");
    let (tree, _) = rest.split_once("```").expect("the tree ends");
    let (mut folder, mut named, mut missing) = (root(), Vec::new(), Vec::new());
    for line in tree.lines() {
        let names = line.trim_start().split("  ").next().unwrap_or_default();
        match line.len() - line.trim_start().len() {
            0 => folder = root(),
            2 => {
                folder = root().join("crates").join(names.trim_end_matches('/'));
                named.push(folder.clone());
            }
            4 => {}
            // More about the names of the line before.
            _ => continue,
        }
        for name in names.split(", ").map(|name| name.trim_end_matches('/')) {
            let places = [folder.clone(), folder.join(name), folder.join("src").join(name)];
            let is_there = places.iter().any(|place| place.ends_with(name) && place.is_dir())
                || folder.join("src").join(format!("{name}.rs")).is_file()
                || root().join(name).is_dir();
            if !is_there {
                missing.push(line.to_string());
            }
        }
    }
    for entry in fs::read_dir(root().join("crates")).expect("the crates") {
        let path = entry.expect("an entry").path();
        if !named.contains(&path) {
            missing.push(format!("{} is not in the tree", path.display()));
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// The page that a name in the file `from` means: beside it or above it, or below the root of the repository.
fn page_named(name: &str, from: &Path) -> Option<PathBuf> {
    let root = root();
    let folders = from.ancestors().skip(1).take_while(|folder| folder.starts_with(&root));
    folders.map(|folder| folder.join(name)).find(|page| page.is_file())
}

#[test]
fn comments_refer_to_pages_and_decisions_that_are_there() {
    let mut broken = Vec::new();
    let (mut pages, mut decisions) = (0, 0);
    for file in files(&[".rs", ".py"]) {
        // Names of pages here are not references.
        if file.ends_with("cli/tests/documents.rs") || file.ends_with("cli/tests/convert.rs") {
            continue;
        }
        let text = fs::read_to_string(&file).expect("a source file");
        // Comments are wrapped: a decision may stand on the line after the name of its page.
        let comments: Vec<&str> =
            text.lines().map(|line| line.trim_start().trim_start_matches(['/', '!', '#'])).collect();
        let text = comments.join("");
        for (at, _) in text.match_indices(".md") {
            let is_name = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
            let begin = text[..at].rfind(|c| !is_name(c)).map_or(0, |end| end + 1);
            let (name, rest) = (&text[begin..at + 3], &text[at + 3..]);
            if rest.starts_with(is_name) && !rest.starts_with('.') || name.len() <= 3 {
                continue;
            }
            pages += 1;
            let Some(page) = page_named(name, &file) else {
                broken.push(format!("{}: {name}", file.display()));
                continue;
            };
            // `SPEC.md`, D1 to D9, D37
            let rest = rest.trim_start_matches(['`', ',', ' ']);
            let list = rest.split([')', ':', ';', '.']).next().unwrap_or_default();
            let page = fs::read_to_string(page).expect("a page");
            for number in list.split([' ', ',']).filter_map(|word| word.strip_prefix('D')) {
                decisions += 1;
                if number.parse::<u32>().is_err() || !page.contains(&format!("**D{number}")) {
                    broken.push(format!("{}: D{number} of {name}", file.display()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(pages > 50 && decisions > 50, "{pages} pages, {decisions} decisions");
}

/// Words that open a comment without its subject, so that the reader must guess what the sentence is about.
const OPENINGS: [&str; 7] = ["Nobody", "Nothing", "What", "Whoever", "Who", "Those", "So many"];

/// Beginnings of a line of a comment in Rust, TypeScript and Python.
const COMMENTS: [&str; 4] = ["//", "/**", "* ", "# "];

/// Documents with numbered sections that comments cite.
const NUMBERED: [&str; 4] = [".md", "CTF 1.8", "CTF 2", "RFC"];

/// The comments of a source file that have lines of their own: the number of the first line, and the text of all.
fn comments_of(source: &str) -> Vec<(usize, String)> {
    let (mut comments, mut is_comment) = (Vec::<(usize, String)>::new(), false);
    for (line, number) in source.lines().zip(1..) {
        let line = line.trim_start();
        let text = COMMENTS.iter().find_map(|sign| line.strip_prefix(sign));
        let text = text.map(|text| text.trim_start_matches(['/', '!']).trim());
        match (text, comments.last_mut().filter(|_| is_comment)) {
            (Some(text), Some((_, comment))) => *comment = format!("{comment} {text}"),
            (Some(text), None) => comments.push((number, text.to_string())),
            (None, _) => {}
        }
        is_comment = text.is_some();
    }
    comments
}

/// Does a text name the section of a document, and no document? Titles of sections of a file stand between backquotes.
fn lacks_document(comment: &str) -> bool {
    let of_sections = ["section ", "sections "].into_iter().flat_map(|word| comment.match_indices(word));
    let mut numbers = of_sections.filter(|(at, word)| {
        comment[at + word.len()..].starts_with(|c: char| c.is_ascii_digit()) && !comment[..*at].ends_with('`')
    });
    numbers.next().is_some() && !NUMBERED.iter().any(|document| comment.contains(document))
}

#[test]
fn comments_name_their_subject_and_documents_of_sections() {
    let (mut count, mut wrong) = (0, Vec::new());
    let opens = |comment: &str, words: &&str| {
        comment.strip_prefix(words).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    };
    for file in files(&[".rs", ".ts", ".tsx", ".mjs", ".py"]) {
        for (line, comment) in comments_of(&fs::read_to_string(&file).expect("a source file")) {
            count += 1;
            if OPENINGS.iter().any(|words| opens(&comment, words)) || lacks_document(&comment) {
                wrong.push(format!("{}:{line}: {comment}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "see CONTRIBUTING.md, \"Names and comments\": {wrong:#?}");
    assert!(count > 1000, "{count} comments");
}
