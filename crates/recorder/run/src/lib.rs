//! Records the function calls of programs that were built for tracing: it runs them with a library that is loaded before
//! theirs, takes records out of the rings of their threads, and writes a data folder as uftrace does.
//!
//! | module | |
//! |---|---|
//! | `answers` | what programs ask while they run |
//! | `command` | the program: how it was built, how it is run, the loop beside it |
//! | `patched` | the functions that `-P` names |
//! | `code`, `moved` | those that are patched without room for that: whether it is safe, and how |
//! | `descendants` | the processes that come from the program |
//! | `left_rings` | rings that are not used any more |
//! | `program` | how a program was built, and why it cannot be recorded |
//! | `prototypes` | the values of well-known functions of libraries |
//! | `rings` | rings, and the files of tasks that their records go to |
//! | `records` | the records of a slot |
//! | `probes` | the events of `sys/sdt.h` that are recorded |
//! | `notes`, `linked` | those that a file has, and those of a program with its libraries |
//! | `rules` | what is done at the calls of which functions |
//! | `times` | clock values to times |
//! | `unrecordable` | programs that were started and that the library could not be loaded into |
//! | `elf` | symbols and build ids |
//! | `folder` | the other files of the folder |
#![forbid(unsafe_code)]

mod answers;
mod code;
mod command;
mod descendants;
mod elf;
mod folder;
mod left_rings;
mod linked;
mod moved;
mod notes;
mod patched;
mod probes;
mod program;
mod prototypes;
mod records;
mod rings;
mod rules;
#[allow(dead_code, reason = "the library that reads the table compiles it, too")]
#[path = "../preload/table.rs"]
mod table;
mod times;
mod unrecordable;

pub use command::{
    Options, Recorded, SendFn, SendRecords, SystemClock, WhenFull, become_program, is_finished, is_left, record,
    record_beside, recover, run_idle,
};
pub use descendants::{RemainingProcess, has_children};
pub use left_rings::{LeftRings, sweep};
pub use linked::{FileProbes, LinkedProbes, probes};
pub use notes::ProbePlace;
pub use patched::PatchedFunctions;
pub use probes::{ChooseProbes, ChooseProbesFn, RecordedProbes};
pub use program::{Built, Obstacle, ProgramFile, inspect};
pub use prototypes::prototypes;
pub use rules::{
    Action, Actions, Decide, DecideFn, Describe, DescribeFn, Description, LibraryCalls, RecordedFunction,
    RecordedValue, Selection, StoredForm, ValueLines, ValuePlace,
};
