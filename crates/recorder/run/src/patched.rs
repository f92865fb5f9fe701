//! Functions that `-P` names: how the program patches them where the compiler left no room, and what became of all of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use tracemill_record::Bell;

use crate::code::{self, WantedFunction};
use crate::elf::Elf;
use crate::moved::MovedEntry;
use crate::program::{Built, built_as};
use crate::table;

/// The kind of processors whose instructions are known here.
const X86_64: u64 = 62;

/// How the entries of functions of the program are patched, where the compiler left no room: those with these addresses and
/// sizes.
pub(crate) fn entries(path: &Path, wanted: &BTreeSet<(u64, u64)>, shift: u64) -> Vec<table::FunctionEntry> {
    let file = if wanted.is_empty() { None } else { fs::read(path).ok() };
    let Some((bytes, elf)) = file.and_then(|bytes| Elf::read(&bytes).map(|elf| (bytes, elf))) else {
        return Vec::new();
    };
    // The functions of an instrumented program report their calls themselves.
    if elf.machine != X86_64 || built_as(&elf) == Built::ForCalls {
        return Vec::new();
    }
    // Slots of calls to libraries have symbols as well.
    let is_wanted = |begin: u64| {
        let symbol = elf.symbols.get(&begin.wrapping_sub(elf.base));
        symbol.is_some_and(|(letter, _, name)| *letter != 'P' && code::is_own(name))
    };
    let wanted = wanted.iter().filter(|(begin, _)| is_wanted(*begin));
    let wanted: Vec<_> =
        wanted.map(|(begin, size)| WantedFunction { begin: *begin, end: begin.saturating_add(*size) }).collect();
    let entry = |(function, entry): (WantedFunction, Result<MovedEntry, u64>)| {
        let address = function.begin.wrapping_add(shift);
        entry.map_or_else(|why| table::FunctionEntry::left(address, why), |moved| moved.to_table(address))
    };
    code::entries(&bytes, &elf, &wanted, shift).into_iter().map(entry).collect()
}

/// The fate of functions that were to be patched, in all programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PatchedFunctions {
    /// They were patched.
    pub patched: u64,
    /// They are in a library, and the compiler left them not enough room.
    pub without_room: u64,
    /// They are shorter than a jump.
    pub short: u64,
    /// One of their first instructions cannot be moved.
    pub fixed: u64,
    /// Something leads to the middle of their first instructions.
    pub targets: u64,
    /// Their bytes are not all instructions.
    pub unknown: u64,
    /// They use their return address, or change stacks.
    pub special: u64,
    /// The program has an unwinder of its own.
    pub unwinder: u64,
    /// Their code in memory is not that of the file or cannot be changed, or no memory is near.
    pub changed: u64,
}

impl PatchedFunctions {
    /// The numbers that programs count.
    pub(crate) fn counted(bell: &Bell) -> PatchedFunctions {
        let (patched, without_room) = bell.patches();
        let left = bell.left_functions::<{ table::LEFT_REASONS }>();
        let of = |why: u64| left[why as usize];
        PatchedFunctions {
            patched,
            without_room,
            short: of(table::LEFT_SHORT),
            fixed: of(table::LEFT_FIXED),
            targets: of(table::LEFT_TARGET),
            unknown: of(table::LEFT_UNKNOWN),
            special: of(table::LEFT_SPECIAL),
            unwinder: of(table::LEFT_UNWINDER),
            changed: of(table::LEFT_CHANGED),
        }
    }

    /// How many stay as they are.
    pub fn left(&self) -> u64 {
        let all = [self.without_room, self.short, self.fixed, self.targets, self.unknown, self.special];
        all.iter().sum::<u64>() + self.unwinder + self.changed
    }
}
