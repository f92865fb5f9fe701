//! The forms of analyses, and which options each of them takes: the one table that checks options, chooses what is made
//! and writes the help.

use crate::kernel::analysis::Descriptor;
use crate::kernel::question::query::{AnalysisQuery, View};

tracemill_semantics::named! {
    /// An option that not every analysis takes.
    pub AnalysisOption {
        /// The groups.
        By = "--by",
        /// The spans themselves.
        Log = "--log",
        /// The longest spans.
        Top = "--top",
        /// A histogram of the durations.
        Hist = "--hist",
        /// Rows for steps of the range.
        Step = "--step",
        /// Only these threads.
        Tid = "--tid",
        /// Only threads of these processes.
        Pid = "--pid",
        /// Only threads of this name.
        Comm = "--comm",
        /// Only these CPUs.
        Cpu = "--cpu",
        /// Only spans at least this long.
        Min = "--min",
        /// Only spans at most this long.
        Max = "--max",
        /// Rows indented below their parents.
        Tree = "--tree",
        /// The beginning of the range.
        Begin = "--begin",
        /// Once for each period.
        Per = "--per",
    }
}

tracemill_semantics::named! {
    /// A word that chooses a form of an analysis, or how its rows stand.
    pub FormWord {
        /// Switches instead of latencies.
        Switches = "switches",
        /// Open files instead of lives.
        Files = "files",
        /// Objects instead of pages.
        Slab = "slab",
        /// States of CPUs.
        Cpus = "cpus",
        /// States of threads.
        Threads = "threads",
        /// States of disks.
        Disks = "disks",
        /// States of interrupts.
        Irqs = "irqs",
        /// Blocks that were never freed.
        Leaks = "leaks",
        /// Times for which locks were held.
        Holds = "holds",
        /// Counters of the user instead of states.
        Counters = "counters",
        /// Chains of messages instead of callbacks.
        Chains = "chains",
        /// Children below their parents.
        Tree = "tree",
    }
}

use AnalysisOption::{Begin, By, Comm, Cpu, Hist, Log, Max, Min, Per, Pid, Step, Tid, Top, Tree};

/// The options that every analysis takes.
pub const ALWAYS_TAKEN: &[&str] = &["--end", "--stream", "--where", "--sort", "--limit"];

/// Options of spans that are grouped, chosen by threads and CPUs, and counted by steps.
pub(crate) const SPANS: &[AnalysisOption] = &[By, Log, Top, Hist, Step, Tid, Pid, Comm, Cpu, Min, Max, Begin, Per];
/// Options of spans that are not made for periods.
pub(crate) const PERIODS: &[AnalysisOption] = &[By, Log, Top, Hist, Step, Tid, Pid, Comm, Cpu, Min, Max, Begin];
/// Visits of states that the user defines, which belong to no thread.
pub(crate) const CUSTOM_STATES: &[AnalysisOption] = &[By, Log, Top, Hist, Min, Max, Begin, Per];
/// Counters that the user defines.
pub(crate) const CUSTOM_COUNTERS: &[AnalysisOption] = &[Log, Begin, Per];
/// Spans of threads, which belong to no CPU.
pub(crate) const THREAD_SPANS: &[AnalysisOption] = &[By, Log, Top, Hist, Step, Tid, Pid, Comm, Min, Max, Begin, Per];
/// Sums by group.
pub(crate) const SUMS: &[AnalysisOption] = &[By, Step, Tid, Pid, Comm, Cpu, Begin, Per];
/// Sums of which a part does not say on which CPU it was.
pub(crate) const SUMS_OF_THREADS: &[AnalysisOption] = &[By, Step, Tid, Pid, Comm, Begin, Per];
/// Lives of threads.
pub(crate) const LIVES: &[AnalysisOption] = &[Step, Tid, Pid, Comm, Cpu, Tree, Begin, Per];
/// Files that are open at the end of the range.
pub(crate) const OPEN_FILES: &[AnalysisOption] = &[Tid, Pid, Comm, Per];
/// Rows of CPUs and interrupts.
pub(crate) const CPU_ROWS: &[AnalysisOption] = &[Tid, Pid, Comm, Cpu, Begin, Per];
/// Spans of CPUs, which belong to no thread.
pub(crate) const CPU_SPANS: &[AnalysisOption] = &[By, Log, Top, Hist, Step, Cpu, Min, Max, Begin, Per];
/// Sums of CPUs that depend on what was before a period, so that they are not made for each.
pub(crate) const CPU_SUMS: &[AnalysisOption] = &[By, Step, Cpu, Begin];
/// Rows of threads.
pub(crate) const THREAD_ROWS: &[AnalysisOption] = &[Tid, Pid, Comm, Begin, Per];
/// Rows of disks, which belong to no thread and no CPU.
pub(crate) const DISK_ROWS: &[AnalysisOption] = &[Begin, Per];
/// The path of one thread.
pub(crate) const PATH: &[AnalysisOption] = &[Tid, Begin, Per];

/// The path of one thread, of the longest periods or of all.
pub(crate) const WHY: &[AnalysisOption] = &[Log, Top, Tid, Begin, Per];

/// A form of an analysis: what it is about, chosen by a word or by the key of its groups.
pub struct AnalysisForm {
    /// The option that chooses it, with its value; empty for the plain form.
    pub option: &'static str,
    /// The word of that option, as [`AnalysisQuery::words`](super::query::AnalysisQuery::words) has it.
    pub word: Option<FormWord>,
    /// The keys of its groups. The first key of the first form of a word is the default.
    pub keys: &'static [&'static str],
    /// The options that it takes, besides those that all analyses take.
    pub takes: &'static [AnalysisOption],
    /// The words for its rows.
    pub nouns: RowNouns,
}

/// The words for the rows of a form, as in "5 of 12 threads".
pub struct RowNouns {
    /// Groups, by their keys; empty where all are just rows.
    groups: &'static [&'static str],
    /// Spans in a list.
    spans: &'static str,
    /// Spans in the buckets of a histogram.
    buckets: &'static str,
}

/// The word for rows that nothing else can be said of.
const ROWS: &str = "rows";

impl RowNouns {
    /// Rows that have no other word: several columns say what they are.
    pub(crate) const ROWS: RowNouns = RowNouns::for_groups(&[]);

    /// Words for groups, in the order of their keys, or for the rows of a form without keys.
    pub(crate) const fn for_groups(groups: &'static [&'static str]) -> RowNouns {
        RowNouns { groups, spans: ROWS, buckets: ROWS }
    }

    /// The words, and one for spans.
    pub(crate) const fn with_spans(self, spans: &'static str) -> RowNouns {
        RowNouns { spans, ..self }
    }

    /// The words, and one for buckets.
    pub(crate) const fn with_buckets(self, buckets: &'static str) -> RowNouns {
        RowNouns { buckets, ..self }
    }
}

impl AnalysisForm {
    /// The plain form.
    pub(crate) const fn plain(
        keys: &'static [&'static str],
        takes: &'static [AnalysisOption],
        nouns: RowNouns,
    ) -> AnalysisForm {
        AnalysisForm { option: "", word: None, keys, takes, nouns }
    }

    /// Has it spans, which can be listed?
    pub fn has_spans(&self) -> bool {
        self.takes.contains(&Log)
    }

    /// The analysis and the option that chooses the form.
    pub fn title(&self, known: &Descriptor) -> String {
        [known.name, self.option].join(" ").trim_end().to_string()
    }
}

impl Descriptor {
    /// Keys of groups of all its forms, the default first.
    pub fn keys(&self) -> Vec<&'static str> {
        let mut keys: Vec<&str> = Vec::new();
        for key in self.forms.iter().flat_map(|form| form.keys) {
            if !keys.contains(key) {
                keys.push(key);
            }
        }
        keys
    }

    /// Has it this word, which chooses a form?
    pub fn has_word(&self, word: FormWord) -> bool {
        self.forms.iter().any(|form| form.word == Some(word))
    }

    /// The word for the rows of the table of a question.
    pub fn row_noun(&self, query: &AnalysisQuery) -> &'static str {
        let forms = self.forms_for(&query.words, query.by.as_deref()).unwrap_or_default();
        let Some(form) = forms.first() else { return ROWS };
        match query.view {
            View::Log | View::Top(_) => form.nouns.spans,
            View::Histogram(_) | View::PowersOfTwo => form.nouns.buckets,
            // Each group has several rows.
            View::Statistics if query.step.is_some() => ROWS,
            View::Statistics => {
                let at = form.keys.iter().position(|key| Some(*key) == query.by.as_deref());
                form.nouns.groups.get(at.unwrap_or(0)).copied().unwrap_or(ROWS)
            }
        }
    }

    /// The forms that some words and a key choose. Words of other analyses choose nothing here; several words of this one
    /// choose several forms.
    ///
    /// # Errors
    /// When there are no groups of this key: the keys that there are for these words.
    pub fn forms_for(
        &self,
        words: &[FormWord],
        key: Option<&str>,
    ) -> Result<Vec<&'static AnalysisForm>, Vec<&'static str>> {
        let own: Vec<_> = words.iter().copied().filter(|word| self.has_word(*word)).map(Some).collect();
        let (mut found, mut keys) = (Vec::new(), Vec::new());
        for word in if own.is_empty() { vec![None] } else { own } {
            let mut forms = self.forms.iter().filter(|form| form.word == word);
            keys.extend(forms.clone().flat_map(|form| form.keys));
            found.extend(match key {
                None => forms.next(),
                Some(key) => forms.find(|form| form.keys.contains(&key)),
            });
        }
        if found.is_empty() { Err(keys) } else { Ok(found) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::ANALYSES;

    #[test]
    fn every_key_has_a_word_for_its_rows() {
        for known in ANALYSES {
            for form in known.forms {
                let (words, keys) = (form.nouns.groups, form.keys);
                assert!(words.is_empty() || words.len() == keys.len().max(1), "{}", form.title(known));
                assert_eq!(form.nouns.spans != ROWS, form.has_spans(), "{}", form.title(known));
            }
        }
    }

    #[test]
    fn rows_have_the_name_of_what_they_are() {
        let of = |name: &str, by: Option<&str>, view: View, words: &[FormWord]| {
            let by = by.map(str::to_string);
            let query = AnalysisQuery { words: words.to_vec(), by, view, ..AnalysisQuery::default() };
            let known = Descriptor::find(name).expect("an analysis");
            let stepped = AnalysisQuery { step: Some(1), ..query.clone() };
            [known.row_noun(&query), known.row_noun(&stepped)]
        };
        use View::{Histogram, Log, PowersOfTwo, Statistics, Top};
        assert_eq!(of("sched", None, Log, &[]), ["waits", "waits"]);
        assert_eq!(of("sched", None, Statistics, &[]), ["threads", "rows"]);
        assert_eq!(of("sched", Some("prio"), Statistics, &[]), ["priorities", "rows"]);
        assert_eq!(of("sched", None, Statistics, &[FormWord::Switches]), ["cpus", "rows"]);
        assert_eq!(of("sched", Some("thread"), Statistics, &[FormWord::Switches]), ["threads", "rows"]);
        assert_eq!(of("sched", None, PowersOfTwo, &[]), ["rows", "rows"]);
        assert_eq!(of("syscalls", Some("thread"), Statistics, &[]), ["rows", "rows"]);
        assert_eq!(of("syscalls", Some("thread"), Top(3), &[]), ["system calls", "system calls"]);
        assert_eq!(of("states", None, Statistics, &[FormWord::Cpus]), ["rows", "rows"]);
        assert_eq!(of("irq", None, Statistics, &[]), ["interrupts", "rows"]);
        assert_eq!(of("irq", Some("cpu"), Statistics, &[]), ["rows", "rows"]);
        assert_eq!(of("irq", Some("cpu"), Histogram(3), &[]), ["interrupts", "interrupts"]);
        assert_eq!(of("timehist", None, Statistics, &[]), ["runs", "rows"]);
        assert_eq!(of("map", None, Statistics, &[]), ["switches", "rows"]);
        assert_eq!(of("work", Some("kind"), Statistics, &[]), ["kinds", "rows"]);
        assert_eq!(of("idle", None, Top(1), &[]), ["idle times", "idle times"]);
        assert_eq!(of("locks", None, Statistics, &[]), ["locks", "rows"]);
        assert_eq!(of("offcpu", Some("reason"), Statistics, &[]), ["reasons", "rows"]);
        assert_eq!(of("io", Some("disk"), Log, &[]), ["requests", "requests"]);
        assert_eq!(of("io", Some("net"), Statistics, &[]), ["interfaces", "rows"]);
        assert_eq!(of("processes", None, Statistics, &[FormWord::Files]), ["open files", "rows"]);
        assert_eq!(of("periods", Some("match"), Statistics, &[]), ["periods", "rows"]);
    }
}
