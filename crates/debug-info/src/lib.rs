//! Functions and source lines of the addresses that events hold, as `babeltrace2`'s filter `debug-info` finds them.
//!
//! Traces of LTTng-UST say which files a process had mapped, and where ([`DebugInfo::read`] reads those events beforehand).
//! Samples name the functions of their stacks by the symbols of files ([`SymbolFiles`]).
//!
//! The files themselves, or files beside them with what was stripped, say what stands at an address (`image`). Where
//! that filter has a peculiar answer, the answer here is the same; comments say so.
#![forbid(unsafe_code)]

mod calling_convention;
mod dwarf;
mod image;
mod inlined;
mod processes;
mod program_file;
mod signatures;
mod symbol_files;
mod symbols;
#[cfg(test)]
mod tests;
mod unwinding;

pub use processes::{DebugInfo, SearchOptions};
pub use signatures::{DebugSignature, Signatures};
pub use symbol_files::{SymbolFiles, SymbolSearch};
