//! The list of all analyses.

use super::analysis::Descriptor;
use super::{cpu, io, irq, locks, memory, path, periods, processes, sched, states, stats, syscalls};

/// All analyses.
pub const ANALYSES: &[Descriptor] = &[
    states::DESCRIPTOR,
    cpu::DESCRIPTOR,
    sched::DESCRIPTOR,
    irq::DESCRIPTOR,
    syscalls::DESCRIPTOR,
    io::DESCRIPTOR,
    memory::DESCRIPTOR,
    locks::DESCRIPTOR,
    processes::DESCRIPTOR,
    stats::DESCRIPTOR,
    path::DESCRIPTOR,
    periods::DESCRIPTOR,
];

impl Descriptor {
    /// The analysis of a name.
    pub fn find(name: &str) -> Option<&'static Descriptor> {
        ANALYSES.iter().find(|known| known.name == name)
    }
}
