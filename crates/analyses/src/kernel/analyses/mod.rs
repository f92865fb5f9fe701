//! All analyses.

mod cgroup;
mod contention;
pub(crate) mod cpu;
mod delays;
mod files;
mod heap;
mod idle;
mod io;
mod irq;
mod lives;
mod locks;
mod map;
mod memory;
mod occupancy;
mod offcpu;
mod path;
mod processes;
mod ros2;
mod sched;
pub(crate) mod states;
mod stats;
mod syscalls;
mod timehist;
mod vm;
mod vm_reasons;
mod wait_facts;
mod why;
mod work;

pub use why::{CauseTotal, PartCause, PathCause, PathComparison, ThreadPath, ThreadPathPart, ThreadPaths};

use super::{custom, periods};
use crate::kernel::analysis::Descriptor;

/// All analyses.
pub const ANALYSES: &[Descriptor] = &[
    states::DESCRIPTOR,
    cpu::DESCRIPTOR,
    sched::DESCRIPTOR,
    timehist::DESCRIPTOR,
    map::DESCRIPTOR,
    irq::DESCRIPTOR,
    work::DESCRIPTOR,
    idle::DESCRIPTOR,
    syscalls::DESCRIPTOR,
    io::DESCRIPTOR,
    memory::DESCRIPTOR,
    heap::DESCRIPTOR,
    locks::DESCRIPTOR,
    contention::DESCRIPTOR,
    offcpu::DESCRIPTOR,
    vm::DESCRIPTOR,
    cgroup::DESCRIPTOR,
    ros2::DESCRIPTOR,
    processes::DESCRIPTOR,
    stats::DESCRIPTOR,
    path::DESCRIPTOR,
    why::DESCRIPTOR,
    periods::DESCRIPTOR,
    custom::DESCRIPTOR,
];

impl Descriptor {
    /// The analysis of a name.
    pub fn find(name: &str) -> Option<&'static Descriptor> {
        ANALYSES.iter().find(|known| known.name == name)
    }
}
