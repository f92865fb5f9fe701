//! The forms of analyses, and which options each of them takes: the one table that checks options, chooses what is made
//! and writes the help.

use crate::kernel::analysis::Descriptor;

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
        /// Children below their parents.
        Tree = "tree",
    }
}

use AnalysisOption::{Begin, By, Comm, Cpu, Hist, Log, Max, Min, Per, Pid, Step, Tid, Top, Tree};

/// The options that every analysis takes.
pub const ALWAYS_TAKEN: &[&str] = &["--end", "--stream", "--where", "--sort", "--limit"];

/// Options of spans that are grouped, chosen by threads and CPUs, and counted by steps.
pub(crate) const SPANS: &[AnalysisOption] = &[By, Log, Top, Hist, Step, Tid, Pid, Comm, Cpu, Min, Max, Begin, Per];
/// Periods are not made for periods.
pub(crate) const PERIODS: &[AnalysisOption] = &[By, Log, Top, Hist, Step, Tid, Pid, Comm, Cpu, Min, Max, Begin];
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
/// Rows of threads.
pub(crate) const THREAD_ROWS: &[AnalysisOption] = &[Tid, Pid, Comm, Begin, Per];
/// Rows of disks, which belong to no thread and no CPU.
pub(crate) const DISK_ROWS: &[AnalysisOption] = &[Begin, Per];
/// The path of one thread.
pub(crate) const PATH: &[AnalysisOption] = &[Tid, Begin, Per];

/// A form of an analysis: what it is about, chosen by a word or by the key of its groups.
pub struct Form {
    /// The option that chooses it, with its value; empty for the plain form.
    pub option: &'static str,
    /// The word of that option, as [`AnalysisQuery::words`](super::query::AnalysisQuery::words) has it.
    pub word: Option<FormWord>,
    /// The keys of its groups. The first key of the first form of a word is the default.
    pub keys: &'static [&'static str],
    /// The options that it takes, besides those that all analyses take.
    pub takes: &'static [AnalysisOption],
}

impl Form {
    /// The plain form.
    pub(crate) const fn plain(keys: &'static [&'static str], takes: &'static [AnalysisOption]) -> Form {
        Form { option: "", word: None, keys, takes }
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

    /// The forms that some words and a key choose. Words of other analyses choose nothing here; several words of this one
    /// choose several forms.
    ///
    /// # Errors
    /// When there are no groups of this key: the keys that there are for these words.
    pub fn forms_for(&self, words: &[FormWord], key: Option<&str>) -> Result<Vec<&'static Form>, Vec<&'static str>> {
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
