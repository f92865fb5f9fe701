//! Questions that programs put into the folder while they run, and their answers.

use std::io;
use std::path::Path;

use tracemill_record::Bell;

use crate::probes::{ProbeAnswers, RecordedProbes};
use crate::rules::{Selection, TableWriter};

/// Answers for programs: what is done at calls, and which probes are recorded.
pub(crate) struct Answers {
    tables: Option<TableWriter>,
    probes: Option<ProbeAnswers>,
    /// Kept open: its file goes with the rings.
    bell: Option<Bell>,
}

impl Answers {
    /// Answers by this selection; `rate` is the number of counts of the clock in 2^20 ns.
    pub(crate) fn new(selection: &Selection, rate: u64, rings: &Path) -> Answers {
        Answers {
            tables: selection.decide.clone().map(|decide| TableWriter::new(decide, selection.size, rate)),
            probes: selection.probes.clone().map(ProbeAnswers::new),
            bell: Bell::open(rings).ok(),
        }
    }

    /// Looks for questions, and answers them.
    pub(crate) fn find_new(&mut self, folder: &Path) -> io::Result<()> {
        if let Some(tables) = &mut self.tables {
            tables.find_new(folder)?;
        }
        if let Some(probes) = &mut self.probes {
            probes.find_new(folder)?;
        }
        Ok(())
    }

    /// The fate of probes.
    pub(crate) fn into_probes(self) -> RecordedProbes {
        self.probes.map_or_else(RecordedProbes::default, |probes| probes.recorded.with_counts(self.bell.as_ref()))
    }
}
