//! The meanings of table columns, by key, and the help of an analysis, which is built from its forms.

use std::rc::Rc;

use tracemill_semantics::states::Machines;

use crate::kernel::analysis::Descriptor;
use crate::kernel::question::forms::{AnalysisForm, AnalysisOption, FormWord};
use crate::kernel::question::query::{AnalysisQuery, View};
use crate::kernel::table::{Column, MatrixForm, Table};

/// Meanings of columns that several tables have, by their keys. Others are declared with their meaning.
const MEANINGS: &[(&str, &str)] = &[
    ("tid", "number of the thread; 0 is the idle one"),
    ("pid", "number of the process"),
    ("comm", "name of the thread"),
    ("cpu", "number of the CPU"),
    ("from", "its beginning"),
    ("to", "its end"),
    ("duration_ns", "time from its beginning to its end"),
    ("share", "part of the range"),
    ("status", "idle, user, syscall, trap, kernel, irq, softirq, suspended or unknown"),
    ("state", "WAIT_FORK, WAIT_CPU, WAIT, RUN/.., INTERRUPTED, EXIT, ZOMBIE or SUSPENDED"),
    ("dev", "number of the disk"),
    ("disk", "name of the disk"),
    ("waiting", "requests that wait to be issued"),
    ("driver", "requests that the driver has"),
    ("kind", "irq or softirq"),
    ("nr", "number of the interrupt"),
    ("user_ns", "time in the program"),
    ("system_ns", "time in the kernel"),
    ("irq_ns", "time in interrupts"),
    ("unknown_ns", "time in an unknown state"),
    ("suspended_ns", "time for which the machine was suspended"),
    ("wait_cpu_ns", "time in which it could run and did not"),
    ("switches", "how often it began to run"),
    ("migrations", "runs that began on another CPU than the one before"),
    ("preempted", "how often it lost its CPU though it could run on"),
    ("prio", "priority"),
    ("errors", "calls that returned -4095 to -1"),
    ("ret", "the result"),
    ("file", "name of the file, address of the socket"),
];

impl Descriptor {
    /// The meaning of a column of its tables; empty when there is none.
    pub fn meaning(&self, column: &Column) -> &'static str {
        if !column.meaning.is_empty() {
            return column.meaning;
        }
        let known = MEANINGS.iter().find(|(known, _)| *known == column.name);
        known.map(|(_, meaning)| *meaning).unwrap_or_default()
    }

    /// The columns of a form, with all that options add: of its table grouped by a key, or of the list of its spans. They do
    /// not depend on events.
    pub fn columns_of(&self, form: &AnalysisForm, key: Option<&str>, view: View) -> Vec<Column> {
        self.empty_table(&query_of(form, key, view)).columns
    }

    /// The columns of the table of a question.
    pub fn columns_for(&self, query: &AnalysisQuery) -> Vec<Column> {
        self.empty_table(query).columns
    }

    /// How people see the rows of a form by a key as a matrix, when they are about pairs.
    pub fn matrix_of(&self, form: &AnalysisForm, key: Option<&str>) -> Option<MatrixForm> {
        self.empty_table(&query_of(form, key, View::Statistics)).matrix
    }

    /// The table of a question, without rows.
    fn empty_table(&self, query: &AnalysisQuery) -> Table {
        let nothing = AnalysisQuery { test: None, sink: None, states: None, ..query.clone() };
        let machines = Rc::new(Machines::new(query.machine_names.len() as u32));
        (self.make)(&nothing).finish(&machines, Some((0, 0)))
    }
}

/// The question that a form by a key answers.
fn query_of(form: &AnalysisForm, key: Option<&str>, view: View) -> AnalysisQuery {
    let tree = form.takes.contains(&AnalysisOption::Tree).then_some(FormWord::Tree);
    let words = form.word.into_iter().chain(tree).collect();
    AnalysisQuery { words, by: key.map(str::to_string), view, ..AnalysisQuery::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::ANALYSES;

    #[test]
    fn every_column_has_a_meaning_and_every_meaning_a_column() {
        let mut used: Vec<&str> = Vec::new();
        for known in ANALYSES {
            for form in known.forms {
                let mut columns = Vec::new();
                let keys: Vec<Option<&str>> = form.keys.iter().copied().map(Some).collect();
                for key in if keys.is_empty() { vec![None] } else { keys } {
                    columns.extend(known.columns_of(form, key, View::Statistics));
                    if form.has_spans() {
                        columns.extend(known.columns_of(form, key, View::Log));
                        columns.extend(known.columns_of(form, key, View::Histogram(1)));
                    }
                }
                for column in columns {
                    assert!(!known.meaning(&column).is_empty(), "{} {}: {}", known.name, form.option, column.name);
                    used.push(known.meaning(&column));
                }
            }
        }
        for (key, meaning) in MEANINGS {
            assert!(used.contains(meaning), "no table has `{key}`");
        }
    }
}
