//! The shell of `tracemill sql`: lines are edited, completed and remembered; commands begin with a backslash.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustyline::completion::Completer;
use rustyline::config::Configurer;
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{ColorMode, CompletionType, Config, Context, Editor, Helper};
use tracemill_model::error::Error;
use tracemill_sql::complete::{TypedSql, is_complete, pieces};
use tracemill_sql::output::{Form, TableFormat};
use tracemill_sql::query::{Failure, Queries};

use super::sql::{Output, read, report_findings};
use crate::args::SqlOptions;
use crate::interrupt;
use crate::report::{self, Outcome, Reporter};

/// The commands: how they are written, other names that people know, and what they do.
const COMMANDS: &[(&str, &[&str], &str)] = &[
    ("\\d", &["\\dt", ".tables"], "tables"),
    ("\\d NAME", &[".schema", ".columns"], "columns of a table"),
    ("\\df", &[".functions"], "functions"),
    ("\\f FORM", &[".mode"], "form of the answers: table, records, csv, jsonl, json, markdown"),
    (
        "\\o FILE",
        &[".output"],
        "answers go into this file, in the form of its ending; without FILE to the terminal again",
    ),
    ("\\i FILE", &[".read"], "run the SQL in this file"),
    ("\\timing", &[".timer"], "say how long each query took, or no more"),
    ("\\x", &[], "a line for each value, or a table again"),
    ("\\?", &["help", "\\h", ".help"], "this"),
    ("\\q", &["quit", "exit", ".quit", ".exit"], "end; Ctrl-D does the same"),
];

/// Runs the shell until the user ends it.
pub(crate) fn run(
    options: &SqlOptions,
    queries: Queries,
    mut reporter: Reporter,
    form: Form,
) -> Result<Outcome, Error> {
    let failed = |error: ReadlineError| Error::unsupported(format!("the terminal cannot be used: {error}"));
    let config = Config::builder().history_ignore_space(true).completion_type(CompletionType::List);
    let config = config.auto_add_history(true).build();
    let mut editor: Editor<Typing, FileHistory> = Editor::with_config(config).map_err(failed)?;
    if report::has_no_color() {
        editor.set_color_mode(ColorMode::Disabled);
    }
    editor.set_helper(Some(Typing { queries }));
    let history = history_file();
    if let Some(path) = &history {
        // The first shell of a user finds none.
        let _ = editor.load_history(path);
    }
    let mut shell = Shell {
        form,
        rows: options.rows.0,
        output: None,
        has_timing: false,
        inputs: options.input.traces.clone(),
        form_before: form,
    };
    if let Some(path) = &options.output {
        shell.output = Some(path.clone());
    }
    loop {
        interrupt::ends_one_line();
        let line = match editor.readline("tracemill> ") {
            Ok(line) => line,
            // Ctrl-C leaves what was typed.
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(failed(error)),
        };
        let Some(typing) = editor.helper_mut() else { break };
        if !shell.line(&line, &mut typing.queries, &mut reporter) {
            break;
        }
    }
    if let Some(path) = &history {
        let kept = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        if kept.is_err() || editor.save_history(path).is_err() {
            reporter.warning(&format!("the history cannot be kept in {}", path.display()));
        }
    }
    Ok(reporter.outcome())
}

/// Where lines are remembered.
fn history_file() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let base = named("XDG_STATE_HOME").or_else(|| Some(named("HOME")?.join(".local/state")))?;
    Some(base.join("tracemill/sql_history"))
}

/// Memory of a shell between lines.
struct Shell {
    form: Form,
    /// The form before `\x`.
    form_before: Form,
    rows: Option<usize>,
    output: Option<PathBuf>,
    has_timing: bool,
    inputs: Vec<PathBuf>,
}

impl Shell {
    /// Does what a line says; false when it ends the shell.
    fn line(&mut self, line: &str, queries: &mut Queries, reporter: &mut Reporter) -> bool {
        let line = line.trim();
        let done = match command(line) {
            Some((name, argument)) => match self.command(name, argument, queries, reporter) {
                Ok(goes_on) if !goes_on => return false,
                done => done.map(|_| ()),
            },
            None if is_complete(line) && !pieces(line).iter().any(|(piece, _)| *piece != TypedSql::Comment) => Ok(()),
            None => self.run_sql(line, queries, reporter),
        };
        if let Err(error) = done {
            report::error(&error);
        }
        true
    }

    fn command(
        &mut self,
        name: &str,
        argument: &str,
        queries: &mut Queries,
        reporter: &mut Reporter,
    ) -> Result<bool, Error> {
        let argument = argument.trim().trim_end_matches(';').trim_end();
        match name {
            "\\q" => return Ok(false),
            "\\?" => {
                println!("SQL ends with `;` and may take several lines. Commands:");
                for (written, _, what) in COMMANDS {
                    println!("  {written:<9} {what}");
                }
            }
            "\\d" if argument.is_empty() => {
                let sql = "select table_schema as schema, table_name as name from information_schema.tables \
                           where table_schema <> 'information_schema' order by table_schema desc, table_name";
                self.listed(sql, queries, reporter)?;
            }
            "\\d" => self.listed(&format!("describe {}", as_name(argument)), queries, reporter)?,
            "\\df" => {
                for name in queries.function_names() {
                    println!("{name}");
                }
            }
            "\\f" => match FORMS.iter().find(|(known, _)| *known == argument) {
                Some((_, form)) => self.form = *form,
                None => {
                    let names: Vec<&str> = FORMS.iter().map(|(name, _)| *name).collect();
                    let error = Error::misuse(format!("`{argument}` is not a form of answers"));
                    return Err(error.with_help(format!("there are {}", names.join(", "))));
                }
            },
            "\\o" => self.output = Some(PathBuf::from(argument)).filter(|path| !path.as_os_str().is_empty()),
            "\\i" => {
                let text = read(Path::new(argument))?;
                self.run_sql(&text, queries, reporter)?;
            }
            "\\timing" => {
                self.has_timing = !self.has_timing;
                println!("timing is {}", if self.has_timing { "on" } else { "off" });
            }
            "\\x" if self.form == Form::Text(TableFormat::Records) => self.form = self.form_before,
            "\\x" => self.form_before = std::mem::replace(&mut self.form, Form::Text(TableFormat::Records)),
            _ => {
                return Err(Error::misuse(format!("there is no command `{name}`")).with_help("`\\?` lists them"));
            }
        }
        Ok(true)
    }

    /// Runs SQL of our own, whose answer is a table on the terminal.
    fn listed(&self, sql: &str, queries: &mut Queries, reporter: &mut Reporter) -> Result<(), Error> {
        let output = Output::open(Form::Text(TableFormat::Text), None, None, &self.inputs)?;
        run_into(output, sql, queries, reporter)
    }

    /// Runs SQL.
    fn run_sql(&self, sql: &str, queries: &mut Queries, reporter: &mut Reporter) -> Result<(), Error> {
        let of_file = self.output.as_deref().and_then(|path| Form::from_file_name(&path.to_string_lossy()));
        let form = of_file.unwrap_or(self.form);
        let output = Output::open(form, self.rows, self.output.as_deref(), &self.inputs)?;
        let begin = Instant::now();
        let done = run_into(output, sql, queries, reporter);
        if self.has_timing {
            println!("time: {:.3} ms", begin.elapsed().as_secs_f64() * 1e3);
        }
        done
    }
}

/// Forms that suit a terminal.
const FORMS: &[(&str, Form)] = &[
    ("table", Form::Text(TableFormat::Text)),
    ("records", Form::Text(TableFormat::Records)),
    ("csv", Form::Text(TableFormat::Csv)),
    ("jsonl", Form::Text(TableFormat::JsonLines)),
    ("json", Form::Text(TableFormat::Json)),
    ("markdown", Form::Text(TableFormat::Markdown)),
];

fn run_into(mut output: Output, sql: &str, queries: &mut Queries, reporter: &mut Reporter) -> Result<(), Error> {
    let done = output.run_sql(queries, sql);
    report_findings(queries, reporter);
    match done {
        Ok(()) => output.end().map(|_| ()),
        Err(Failure::Stopped) => Err(Error::unsupported("the query was interrupted")),
        Err(Failure::Wrong(error) | Failure::Failed(error)) => Err(error),
    }
}

/// A name for SQL: in quotes unless the user has put it there.
fn as_name(name: &str) -> String {
    let is_quoted = name.starts_with(['"', '`']) || name.contains('.');
    if is_quoted { name.to_string() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// The name of the command in a line, and what follows it; `None` when the line is SQL.
fn command(line: &str) -> Option<(&str, &str)> {
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let plain = word.trim_end_matches(';');
    let own = |written: &'static str| written.split(' ').next().unwrap_or(written);
    let known = COMMANDS.iter().find(|(written, others, _)| own(written) == plain || others.contains(&plain));
    match known {
        // A word that is no command by its first letter must stand alone.
        Some(_) if !plain.starts_with(['\\', '.']) && !rest.trim().is_empty() => None,
        Some((written, ..)) => Some((own(written), rest)),
        None => plain.starts_with(['\\', '.']).then_some((plain, rest)),
    }
}

/// Helps while a line is typed.
struct Typing {
    queries: Queries,
}

impl Helper for Typing {}

impl Hinter for Typing {
    type Hint = String;
}

impl Validator for Typing {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let text = context.input();
        let is_over = command(text.trim()).is_some() || is_complete(text);
        Ok(if is_over { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

impl Completer for Typing {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let before = &line[..at];
        if before.starts_with(['\\', '.']) {
            let Some((_, typed)) = before.split_once(' ') else {
                let names = COMMANDS.iter().map(|(written, ..)| written.split(' ').next().unwrap_or(written));
                let mut names: Vec<String> =
                    names.filter(|name| name.starts_with(before)).map(str::to_string).collect();
                names.dedup();
                return Ok((0, names));
            };
            let tables = self.queries.table_names().into_iter();
            return Ok((at - typed.len(), tables.filter(|name| name.starts_with(typed)).collect()));
        }
        Ok(self.queries.completions(line, at))
    }
}

impl Highlighter for Typing {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        if line.starts_with(['\\', '.']) {
            return Cow::Borrowed(line);
        }
        let (mut out, mut end) = (String::with_capacity(line.len() + 32), 0);
        for (piece, range) in pieces(line) {
            out += &line[end..range.start];
            let color = match piece {
                TypedSql::Keyword => "1",
                TypedSql::Text => "32",
                TypedSql::Number => "36",
                TypedSql::Quoted => "33",
                TypedSql::Comment => "2",
                TypedSql::Word | TypedSql::Sign | TypedSql::End => "",
            };
            let text = &line[range.clone()];
            match color {
                "" => out += text,
                color => out += &format!("\x1b[{color}m{text}\x1b[0m"),
            }
            end = range.end;
        }
        out += &line[end..];
        Cow::Owned(out)
    }

    fn highlight_char(&self, _: &str, _: usize, _: CmdKind) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_names_that_people_know_and_sql_is_none() {
        assert_eq!(command("\\d mill:tick"), Some(("\\d", "mill:tick")));
        assert_eq!(command(".tables"), Some(("\\d", "")));
        assert_eq!((command("quit;"), command("exit")), (Some(("\\q", "")), Some(("\\q", ""))));
        assert_eq!(command("\\none x"), Some(("\\none", "x")));
        assert_eq!((command("select 1;"), command("help me;")), (None, None));
        assert_eq!(as_name("mill:tick"), "\"mill:tick\"");
        assert_eq!(as_name("event.events"), "event.events");
    }
}
