//! The list of all analyses.

use super::analysis::Known;
use super::{cpu, io, irq, locks, memory, path, periods, processes, sched, states, stats, syscalls};

/// All analyses.
pub const ANALYSES: &[Known] = &[
    states::KNOWN,
    cpu::KNOWN,
    sched::KNOWN,
    irq::KNOWN,
    syscalls::KNOWN,
    io::KNOWN,
    memory::KNOWN,
    locks::KNOWN,
    processes::KNOWN,
    stats::KNOWN,
    path::KNOWN,
    periods::KNOWN,
];

impl Known {
    /// The analysis of a name.
    pub fn find(name: &str) -> Option<&'static Known> {
        ANALYSES.iter().find(|known| known.name == name)
    }
}
