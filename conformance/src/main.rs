//! Runs single cases and shows what they give: `cargo run -p tracemill-conformance -- FILE...`.
//!
//! With `--write FOLDER` in front it also writes the files of each case below `FOLDER/CASE`, for other readers.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tracemill_conformance::case::{Case, load};
use tracemill_conformance::run::{check, run};

fn main() -> ExitCode {
    let mut files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let mut folder = None;
    if files.len() > 1 && files[0].as_os_str() == "--write" {
        folder = Some(files.remove(1));
        files.remove(0);
    }
    if files.is_empty() {
        eprintln!("usage: tracemill-conformance [--write FOLDER] FILE.case...");
        return ExitCode::from(2);
    }
    let mut failed = 0;
    for file in &files {
        println!("{}", file.display());
        let case = match load(file) {
            Ok(case) => case,
            Err(why) => {
                println!("  cannot be read: {why}");
                failed += 1;
                continue;
            }
        };
        if let Some(folder) = &folder
            && let Err(error) = write(&case, folder)
        {
            println!("  cannot be written: {error}");
            failed += 1;
        }
        let outcome = run(&case, 1);
        for line in &outcome.lines {
            println!("  {line}");
        }
        for said in &outcome.said {
            println!("  {said}");
        }
        let wrong = check(&case);
        for why in &wrong {
            println!("  WRONG: {why}");
        }
        println!("  {}", if wrong.is_empty() { "as expected" } else { "not as expected" });
        failed += usize::from(!wrong.is_empty());
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Writes the files of a case.
fn write(case: &Case, folder: &Path) -> std::io::Result<()> {
    let base = folder.join(&case.name).join(&case.folder);
    for (name, content) in &case.files {
        let path = base.join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(&base))?;
        std::fs::write(path, content)?;
    }
    Ok(())
}
