//! `tracemill analyze NAME --help`: groups, options, columns and an example of an analysis, out of its descriptor.

use std::fmt::Write as _;

use tracemill_analyses::kernel::{ALWAYS_TAKEN, AnalysisForm, AnalysisOption, Descriptor, View};
use tracemill_table::{Column, put_wrapped};

/// The trace of the examples that name no other one.
const TRACE: &str = "demo/kernel/bakery";

/// Characters of a line.
const WIDTH: usize = 100;

/// The help of the analyses that the words of a command line name; `None` when they name none.
pub(crate) fn page(words: &[String]) -> Option<String> {
    let names =
        words.iter().skip(1).find_map(|word| word.split(',').map(Descriptor::find).collect::<Option<Vec<_>>>())?;
    let pages: Vec<String> = names.into_iter().map(page_of).collect();
    Some(pages.join("\n"))
}

fn page_of(known: &Descriptor) -> String {
    let name = known.name;
    let mut page = format!("`{name}`: {}\n\nUsage: tracemill analyze {name} [OPTIONS] TRACE...\n", known.about);
    let trace = if known.example.contains("demo/") { "" } else { TRACE };
    let _ = writeln!(page, "{}\n", format!("Example: tracemill analyze {} {trace}", known.example).trim_end());
    put_needs(&mut page, known);
    for form in known.forms {
        put_form(&mut page, known, form);
    }
    if name == "periods" {
        put_paragraph(&mut page, "", "`tracemill analyze --help periods` lists the options that define periods.\n");
    }
    let rest = format!(
        "Headers ending in _us are microseconds, _pct percent. CSV and JSON have the keys in parentheses: durations and times in \
         ns, shares as parts of 1. --sort and --where take both names. `tracemill analyze --help` describes the options, \
         docs/analyze.md shows `{name}` at work, docs/kernel.md defines each figure."
    );
    put_paragraph(&mut page, "", &rest);
    page
}

fn put_needs(page: &mut String, known: &Descriptor) {
    let any = |group: &[tracemill_semantics::Concept]| {
        group.iter().map(|concept| concept.name()).collect::<Vec<_>>().join(" or ")
    };
    let needs: Vec<String> = known.needs.iter().map(|group| any(group)).collect();
    if !needs.is_empty() {
        put_paragraph(page, "Needs events of ", &needs.join(", of "));
    }
    let wants: Vec<String> =
        known.wants.iter().map(|(concept, what)| format!("{} for {what}", concept.name())).collect();
    if !wants.is_empty() {
        put_paragraph(page, "Uses ", &wants.join(", "));
    }
    page.push('\n');
}

/// The groups, options and columns of a form.
fn put_form(page: &mut String, known: &Descriptor, form: &AnalysisForm) {
    let mut shown: Vec<Column> = Vec::new();
    let _ = writeln!(page, "tracemill analyze {}", form.title(known));
    if form.keys.len() > 1 {
        let keys: Vec<&str> = form.keys[1..].to_vec();
        let _ = writeln!(page, "  Groups: --by {} (default), {}", form.keys[0], keys.join(", "));
    }
    let is_own = |option: &&AnalysisOption| **option != AnalysisOption::By || form.keys.len() > 1;
    let options: Vec<&str> = form.takes.iter().filter(is_own).map(|option| option.name()).collect();
    put_paragraph(page, "  Options: ", &[&options[..], ALWAYS_TAKEN].concat().join(" "));
    if let Some(matrix) = known.matrix_of(form, form.keys.first().copied()) {
        let text = format!("{}. --sort, CSV and JSON have a row for each pair instead:", matrix.legend);
        put_paragraph(page, "  Matrix: ", &text);
    }
    let mut columns = Vec::new();
    let keys: Vec<Option<&str>> = form.keys.iter().copied().map(Some).collect();
    for key in if keys.is_empty() { vec![None] } else { keys } {
        columns.extend(known.columns_of(form, key, View::Statistics));
    }
    put_columns(page, "  Columns:\n", known, columns, &mut shown);
    if form.has_spans() {
        let key = form.option.strip_prefix("--by ");
        put_columns(
            page,
            "  Further columns of --log and --top:\n",
            known,
            known.columns_of(form, key, View::Log),
            &mut shown,
        );
    }
    page.push('\n');
}

fn put_columns(page: &mut String, heading: &str, known: &Descriptor, columns: Vec<Column>, shown: &mut Vec<Column>) {
    let mut new: Vec<Column> = Vec::new();
    for column in columns {
        if !shown.contains(&column) && !new.contains(&column) {
            new.push(column);
        }
    }
    let title = |column: &Column| match column.title(false) {
        title if title == column.name => title,
        title => format!("{title} ({})", column.name),
    };
    let width = new.iter().map(|column| title(column).len()).max().unwrap_or(0);
    if !new.is_empty() {
        page.push_str(heading);
    }
    for column in &new {
        put_paragraph(page, &format!("    {:width$}  ", title(column)), known.meaning(column));
    }
    shown.extend(new);
}

/// Appends a paragraph: a first word, and a text whose lines begin after it.
fn put_paragraph(page: &mut String, first: &str, text: &str) {
    put_wrapped(page, first, text, first.len(), WIDTH);
}

#[cfg(test)]
mod tests {
    use tracemill_analyses::kernel::ANALYSES;

    use super::*;

    #[test]
    fn every_analysis_has_a_page() {
        for known in ANALYSES {
            let page = page(&["analyze".to_string(), known.name.to_string(), "--help".to_string()]).expect("a page");
            assert!(page.contains(known.about) && page.contains(known.example), "{page}");
            let is_short = |line: &str| line.len() <= WIDTH || line.starts_with("Example: ");
            assert!(page.lines().all(is_short), "{page}");
            for form in known.forms {
                assert!(page.contains(&form.title(known)), "{page}");
                assert!(form.takes.iter().all(|option| form.keys.len() < 2 || page.contains(option.name())), "{page}");
            }
        }
        assert_eq!(page(&["analyze".to_string(), "--help".to_string()]), None);
    }
}
