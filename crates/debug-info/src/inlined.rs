//! Functions that compilers inlined into others, by DWARF.
//!
//! A file is indexed in two steps, each when it is first needed: the ranges of its units, and the functions of a unit. Both
//! indexes hold numbers only, so the sections stay where they are mapped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use gimli::{DebugInfoOffset, Dwarf, Error, UnitOffset, UnitRef};

use crate::dwarf::{DebugEntry, DwarfSlice, linkage_name};
use crate::image::DebugSections;

/// Ranges that are read for an index or for an address: in damaged files many entries may share a long list of them.
const MAX_RANGES: usize = 1 << 22;
/// Ranges that are looked at for an address: those that begin before it, the nearest first.
const MAX_OUTER: usize = 32;
/// Entries of one function.
const MAX_ENTRIES: usize = 1 << 20;
/// Functions that are inlined into each other.
const MAX_DEPTH: usize = 256;

/// The functions at an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct InlinedChain {
    /// The functions that were inlined there, the innermost first.
    pub(crate) inlined: Vec<String>,
    /// The function that they were inlined into.
    pub(crate) outer: Option<String>,
}

/// Finds the inlined functions of a file.
pub(crate) struct InlinedFunctions {
    debug: DebugSections,
    units: RangeMap<DebugInfoOffset>,
    /// The places of all units.
    places: Vec<DebugInfoOffset>,
    /// The functions of units that were needed.
    functions: Mutex<HashMap<DebugInfoOffset, Arc<RangeMap<UnitOffset>>>>,
    /// Addresses that were asked for: processes share files.
    known: Mutex<HashMap<u64, InlinedChain>>,
}

impl InlinedFunctions {
    /// The inlined functions that the debugging information of a file describes.
    pub(crate) fn new(debug: DebugSections) -> InlinedFunctions {
        let (units, places) = debug.with_dwarf(|dwarf| unit_ranges(&dwarf)).unwrap_or_default();
        InlinedFunctions { debug, units, places, functions: Mutex::default(), known: Mutex::default() }
    }

    /// The functions at an address of the file. Damaged parts of the debugging information have none.
    pub(crate) fn find(&self, address: u64) -> InlinedChain {
        if let Some(known) = lock(&self.known).get(&address) {
            return known.clone();
        }
        let mut units = self.units.at(address).peekable();
        let found = units.peek().is_some().then(|| {
            let find = |dwarf: Dwarf<DwarfSlice<'_>>| units.find_map(|unit| self.find_in_unit(&dwarf, unit, address));
            self.debug.with_dwarf(find)
        });
        let found = found.flatten().flatten().unwrap_or_default();
        lock(&self.known).insert(address, found.clone());
        found
    }

    fn find_in_unit(
        &self,
        dwarf: &Dwarf<DwarfSlice<'_>>,
        offset: DebugInfoOffset,
        address: u64,
    ) -> Option<InlinedChain> {
        let unit = dwarf.unit(dwarf.debug_info.header_from_offset(offset).ok()?).ok()?;
        let unit = unit.unit_ref(dwarf);
        let known = lock(&self.functions).get(&offset).cloned();
        let functions = known.unwrap_or_else(|| {
            let functions = Arc::new(function_ranges(unit));
            lock(&self.functions).insert(offset, functions.clone());
            functions
        });
        functions.at(address).find_map(|function| self.chain(unit, function, address).ok())
    }

    /// The functions at an address of a function.
    fn chain(
        &self,
        unit: UnitRef<'_, DwarfSlice<'_>>,
        function: UnitOffset,
        address: u64,
    ) -> Result<InlinedChain, Error> {
        let mut entries = unit.entries_at_offset(function)?;
        let outer = entries.next_dfs()?.and_then(|entry| name(unit, entry, &self.places));
        let mut found = InlinedChain { outer, inlined: Vec::new() };
        // Depths of the innermost inlined function so far, and of one that is somewhere else.
        let (mut here, mut elsewhere, mut left) = (0, isize::MAX, MAX_RANGES);
        for _ in 0..MAX_ENTRIES {
            let Ok(Some(entry)) = entries.next_dfs() else { break };
            let depth = entry.depth();
            if depth <= here {
                break;
            }
            if depth > elsewhere {
                continue;
            }
            elsewhere = isize::MAX;
            if entry.tag() != gimli::DW_TAG_inlined_subroutine {
                continue;
            }
            let mut is_here = false;
            let ranges = each_range(unit, entry, &mut left, |range| {
                is_here |= (range.begin..range.end).contains(&address);
            });
            if is_here && ranges.is_ok() && found.inlined.len() < MAX_DEPTH {
                here = depth;
                found.inlined.extend(name(unit, entry, &self.places));
            } else {
                elsewhere = depth;
            }
        }
        found.inlined.reverse();
        Ok(found)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Values by ranges of addresses.
struct RangeMap<T> {
    /// Begin, end and value, in the order of the beginnings.
    ranges: Vec<(u64, u64, T)>,
}

impl<T> Default for RangeMap<T> {
    fn default() -> Self {
        RangeMap { ranges: Vec::new() }
    }
}

impl<T: Copy> RangeMap<T> {
    /// Adds a range. Linkers leave ranges at 0 of functions that they dropped.
    fn add(&mut self, range: gimli::Range, value: T) {
        if range.begin > 0 && range.begin < range.end {
            self.ranges.push((range.begin, range.end, value));
        }
    }

    fn sorted(mut self) -> Self {
        // Of ranges that begin together the inner one comes last.
        self.ranges.sort_by_key(|(begin, end, _)| (*begin, std::cmp::Reverse(*end)));
        self.ranges.shrink_to_fit();
        self
    }

    /// The values of the ranges that hold an address, the innermost first.
    fn at(&self, address: u64) -> impl Iterator<Item = T> + '_ {
        let before = &self.ranges[..self.ranges.partition_point(|(begin, ..)| *begin <= address)];
        let holding = before.iter().rev().take(MAX_OUTER).filter(move |(_, end, _)| address < *end);
        holding.map(|(_, _, value)| *value)
    }
}

/// Gives the ranges of an entry to `take`. `left` counts down what may still be read.
fn each_range<'a>(
    unit: UnitRef<'_, DwarfSlice<'a>>,
    entry: &DebugEntry<'a>,
    left: &mut usize,
    mut take: impl FnMut(gimli::Range),
) -> Result<(), Error> {
    let list = entry.attr_value(gimli::DW_AT_ranges).map(|list| unit.attr_ranges(list)).transpose()?.flatten();
    let Some(mut list) = list else {
        let mut ranges = unit.die_ranges(entry)?;
        while let (Some(range), 1..) = (ranges.next()?, *left) {
            *left -= 1;
            take(range);
        }
        return Ok(());
    };
    // Of lists, empty ranges count as well.
    while let (Some(raw), 1..) = (list.next_raw()?, *left) {
        *left -= 1;
        list.convert_raw(raw)?.into_iter().for_each(&mut take);
    }
    Ok(())
}

/// The units that say where their code is, and the places of all.
fn unit_ranges(dwarf: &Dwarf<DwarfSlice<'_>>) -> (RangeMap<DebugInfoOffset>, Vec<DebugInfoOffset>) {
    let (mut found, mut places, mut left) = (RangeMap::default(), Vec::new(), MAX_RANGES);
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        let Some(offset) = header.debug_info_offset() else { continue };
        places.push(offset);
        let Ok(unit) = dwarf.unit(header) else { continue };
        let unit = unit.unit_ref(dwarf);
        if let Ok(Some(root)) = unit.entries().next_dfs() {
            // Ranges before a damaged one count.
            let _ = each_range(unit, root, &mut left, |range| found.add(range, offset));
        }
    }
    (found.sorted(), places)
}

/// The functions of a unit that have code, also those in namespaces and in other functions.
fn function_ranges(unit: UnitRef<'_, DwarfSlice<'_>>) -> RangeMap<UnitOffset> {
    let (mut found, mut left) = (RangeMap::default(), MAX_RANGES);
    let mut entries = unit.entries();
    while let Ok(Some(entry)) = entries.next_dfs() {
        if entry.tag() == gimli::DW_TAG_subprogram {
            let _ = each_range(unit, entry, &mut left, |range| found.add(range, entry.offset()));
        }
    }
    found.sorted()
}

/// The name of a function. Entries of a file that is shared by several programs (`dwz`) are not read, and have none.
fn name<'a>(unit: UnitRef<'_, DwarfSlice<'a>>, entry: &DebugEntry<'a>, units: &[DebugInfoOffset]) -> Option<String> {
    linkage_name(unit, entry, units).ok().flatten().filter(|name| !name.is_empty())
}
