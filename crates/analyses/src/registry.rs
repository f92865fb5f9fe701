//! All analyses: one line each.

/// What an analysis needs of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Needs {
    /// Events with a name (or number) and a time.
    NamesAndTimes,
    /// Beginnings and ends of function calls.
    Calls,
}

/// An analysis, for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Analysis {
    /// The options that ask for it.
    pub options: &'static str,
    /// What it needs of a trace.
    pub needs: Needs,
    /// What it tells.
    pub tells: &'static str,
}

/// Every analysis.
pub static ANALYSES: &[Analysis] = &[crate::state::ANALYSIS, crate::pairs::ANALYSIS, crate::nested::ANALYSIS];

/// The options of the analyses that any trace with names and times can feed.
pub fn generic() -> impl Iterator<Item = &'static str> {
    ANALYSES.iter().filter(|analysis| analysis.needs == Needs::NamesAndTimes).map(|analysis| analysis.options)
}
