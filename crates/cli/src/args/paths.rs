//! The register of the paths that a command line names: no output may replace what the command reads, or another output.
//!
//! It is made from the definitions of the options. An option that names a file or a folder is one that is read unless it
//! stands in [`WRITTEN`], so a new one is safe before anybody thinks of it.

use std::any::TypeId;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use tracemill_engine::output::{are_one, canonical, is_flow, refuse_input, refuse_side_input};
use tracemill_model::error::Error;

/// Options whose paths are written, and what they are in messages.
const WRITTEN: [(&str, &str); 3] =
    [("output", "output"), ("loss_report", "loss report"), ("logfile", "file of messages")];

/// Options and arguments that name traces: whole folders are read, and no output lies in them.
const TRACES: [&str; 6] = ["traces", "trace", "data", "diff", "snapshot", "recover"];

/// Options with such values that read nothing: names of source files to select by, and folders to which files are added, of the
/// recorder, of caches, of manual pages.
const UNREAD: [&str; 6] = ["loc", "location", "cache_dir", "ring_dir", "allow", "dir"];

/// A path of the command line.
struct TypedPath<'a> {
    /// The option, as it is typed, or the name of the argument.
    option: String,
    id: &'a str,
    path: PathBuf,
}

/// Refuses outputs that would replace what is read, or each other.
///
/// # Errors
/// Wrong usage when one would.
pub(crate) fn check(program: &Command, matches: &ArgMatches) -> Result<(), Error> {
    let mut named = Vec::new();
    let (mut command, mut matches) = (program, matches);
    loop {
        for arg in command.get_arguments().filter(|arg| names_path(arg)) {
            add(arg, matches, &mut named);
        }
        let Some((name, below)) = matches.subcommand() else { break };
        let Some(next) = command.find_subcommand(name) else { break };
        (command, matches) = (next, below);
    }
    let written = |of: &TypedPath| WRITTEN.iter().find(|(id, _)| *id == of.id).map(|(_, what)| *what);
    let outputs: Vec<(&str, &TypedPath)> = named.iter().filter_map(|of| Some((written(of)?, of))).collect();
    for (at, (what, output)) in outputs.iter().enumerate() {
        if is_flow(&output.path) {
            continue;
        }
        for input in named.iter().filter(|of| written(of).is_none()) {
            if TRACES.contains(&input.id) {
                refuse_input(what, &output.path, std::slice::from_ref(&input.path))?;
            } else {
                refuse_side_input(what, &output.path, &input.path, &input.option)?;
            }
        }
        refuse_side_input(what, &output.path, Path::new("-"), "standard input")?;
        for (other, second) in &outputs[at + 1..] {
            if are_one(&output.path, &second.path) || canonical(&output.path) == canonical(&second.path) {
                let error = Error::misuse(format!("the {what} and the {other} would be the same file"));
                return Err(error.in_file(&output.path).with_help(format!("give {} another name", second.option)));
            }
        }
    }
    Ok(())
}

/// Does an option or argument name files or folders?
pub(super) fn names_path(arg: &Arg) -> bool {
    let is_path = arg.get_value_parser().type_id() == TypeId::of::<PathBuf>();
    let names = arg.get_value_names().unwrap_or_default();
    let is_file = names.iter().any(|name| ["FILE", "DIR"].contains(&name.as_str()));
    (is_path || is_file) && !UNREAD.contains(&arg.get_id().as_str())
}

fn add<'a>(arg: &'a Arg, matches: &ArgMatches, named: &mut Vec<TypedPath<'a>>) {
    let id = arg.get_id().as_str();
    if !matches!(matches.try_contains_id(id), Ok(true)) || matches.value_source(id) != Some(ValueSource::CommandLine) {
        return;
    }
    let option = arg.get_long().map_or_else(|| id.to_string(), |long| format!("--{long}"));
    for value in matches.get_raw(id).into_iter().flatten().filter(|value| !value.is_empty()) {
        named.push(TypedPath { option: option.clone(), id, path: PathBuf::from(value) });
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    fn all(command: &Command, with: &mut dyn FnMut(&Command)) {
        with(command);
        command.get_subcommands().for_each(|below| all(below, with));
    }

    /// Every name in the tables is one of an option, and every option that sounds like an output is written.
    #[test]
    fn tables_fit_the_options() {
        let mut program = Cli::command();
        program.build();
        let mut seen = Vec::new();
        all(&program, &mut |command| {
            for arg in command.get_arguments() {
                seen.push(arg.get_id().as_str().to_string());
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default().to_lowercase();
                let is_written = WRITTEN.iter().any(|(id, _)| arg.get_id().as_str() == *id);
                if names_path(arg) && help.starts_with("write") {
                    assert!(is_written, "{} {arg}: is it read or written?", command.get_name());
                }
            }
        });
        for (id, _) in WRITTEN {
            assert!(seen.iter().any(|known| known == id), "there is no option {id}");
        }
    }

    /// The words that lead to each command.
    fn paths_of(command: &Command, before: &[String], with: &mut dyn FnMut(&[String], &Command)) {
        with(before, command);
        for below in command.get_subcommands() {
            let words: Vec<String> = before.iter().cloned().chain([below.get_name().to_string()]).collect();
            paths_of(below, &words, with);
        }
    }

    /// In every command each option that is written is tried on each that is read, by the same name, a link and a hard link.
    #[cfg(unix)]
    #[test]
    fn no_output_replaces_what_another_option_reads() {
        let folder = std::env::temp_dir().join(format!("tracemill-paths-{}", std::process::id()));
        let inner = folder.join("inner");
        std::fs::create_dir_all(&inner).expect("a temporary folder can be made");
        let file = inner.join("file");
        std::fs::write(&file, "text").expect("the folder is there");
        let (link, hard) = (folder.join("link"), folder.join("hard"));
        let _ = (std::os::unix::fs::symlink(&file, &link), std::fs::hard_link(&file, &hard));
        let mut program = Cli::command();
        program.build();
        let (mut pairs, mut seen) = (0, Vec::new());
        let typed = |arg: &Arg, value: &Path| -> Vec<String> {
            let long = arg.get_long().map(|long| format!("--{long}"));
            long.into_iter().chain([value.display().to_string()]).collect()
        };
        paths_of(&program, &["tracemill".to_string()], &mut |words, command| {
            let named: Vec<&Arg> = command.get_arguments().filter(|arg| names_path(arg)).collect();
            let is_written = |arg: &Arg| WRITTEN.iter().any(|(id, _)| arg.get_id().as_str() == *id);
            for output in named.iter().filter(|arg| is_written(arg)) {
                for input in named.iter().filter(|arg| !is_written(arg)) {
                    for (name, read) in
                        [(&file, &file), (&link, &file), (&hard, &file), (&file, &inner), (&hard, &inner)]
                    {
                        let all = words.iter().cloned().chain(typed(output, name)).chain(typed(input, read));
                        let matches = Cli::command().ignore_errors(true).try_get_matches_from(all);
                        let matches = matches.expect("errors are ignored");
                        assert!(check(&program, &matches).is_err(), "{words:?} {output} {input}: {name:?} {read:?}");
                        pairs += 1;
                        seen.push(input.get_id().to_string());
                    }
                }
            }
        });
        for option in
            ["with-syms", "key-file", "passphrase-file", "pointdefs", "opt_file", "concepts", "periods", "states"]
        {
            assert!(seen.iter().any(|id| id == option), "{option} is not tried: {seen:?}");
        }
        assert!(pairs > 100, "{pairs}");
        let _ = std::fs::remove_dir_all(folder);
    }
}
