//! Functions and lines of addresses by DWARF.

use gimli::{
    AttributeValue, DebugInfoOffset, DebuggingInformationEntry, Dwarf, EndianSlice, Error, LineProgramHeader, Reader,
    RunTimeEndian, Unit, UnitHeader, UnitOffset, UnitRef,
};

use crate::image::{FoundFunction, with_distance};

/// Sections that are read.
pub(crate) const SECTIONS: [&str; 10] = [
    ".debug_abbrev",
    ".debug_addr",
    ".debug_info",
    ".debug_line",
    ".debug_line_str",
    ".debug_ranges",
    ".debug_rnglists",
    ".debug_str",
    ".debug_str_offsets",
    ".debug_types",
];

/// Entries that an entry takes its name from, one from the other.
const MOST_ORIGINS: usize = 16;

/// A place in the sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceLine {
    pub(crate) path: String,
    pub(crate) number: u64,
}

pub(crate) type DwarfSlice<'a> = EndianSlice<'a, RunTimeEndian>;
pub(crate) type DebugEntry<'a> = DebuggingInformationEntry<DwarfSlice<'a>>;

fn endian(big: bool) -> RunTimeEndian {
    if big { RunTimeEndian::Big } else { RunTimeEndian::Little }
}

/// Does a section `.debug_info` describe anything?
pub(crate) fn has_unit(info: &[u8], big: bool) -> bool {
    gimli::DebugInfo::new(info, endian(big)).units().next().is_ok_and(|unit| unit.is_some())
}

/// The debugging information in some sections.
pub(crate) fn load<'a>(section: impl Fn(&str) -> &'a [u8], big: bool) -> Option<Dwarf<DwarfSlice<'a>>> {
    let load = |id: gimli::SectionId| Ok::<_, Error>(EndianSlice::new(section(id.name()), endian(big)));
    Dwarf::load(load).ok()
}

/// Functions and lines at an address. An error in what is read for one answer leaves that answer out.
pub(crate) fn find(dwarf: &Dwarf<DwarfSlice<'_>>, address: u64) -> FoundFunction {
    FoundFunction {
        function: find_in_units(dwarf, address, function).ok().flatten(),
        line: find_in_units(dwarf, address, line).ok().flatten(),
    }
}

/// The first answer of the units that may know of an address.
fn find_in_units<'a, T>(
    dwarf: &Dwarf<DwarfSlice<'a>>,
    address: u64,
    ask: impl Fn(UnitRef<'_, DwarfSlice<'a>>, u64) -> Result<Option<T>, Error>,
) -> Result<Option<T>, Error> {
    let mut headers = dwarf.units();
    while let Some(header) = headers.next()? {
        let unit = dwarf.unit(header)?;
        if may_hold(dwarf, &unit, address)
            && let Some(found) = ask(unit.unit_ref(dwarf), address)?
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Is an address in the ranges of a unit, or does it say none?
fn may_hold(dwarf: &Dwarf<DwarfSlice<'_>>, unit: &Unit<DwarfSlice<'_>>, address: u64) -> bool {
    let Ok(mut ranges) = dwarf.unit_ranges(unit) else { return true };
    let mut is_empty = true;
    while let Ok(Some(range)) = ranges.next() {
        if (range.begin..range.end).contains(&address) {
            return true;
        }
        is_empty = false;
    }
    is_empty
}

/// The function that an address is in, outside of all others, with the distance from its beginning.
fn function(unit: UnitRef<'_, DwarfSlice<'_>>, address: u64) -> Result<Option<String>, Error> {
    let Some(offset) = outer_function(unit, address)? else { return Ok(None) };
    let entry = unit.entry(offset)?;
    let begin = entry.attr_value(gimli::DW_AT_low_pc).map(|value| unit.attr_address(value)).transpose()?.flatten();
    let begin = begin.ok_or(Error::MissingUnitDie)?;
    let name = name(unit, &entry, MOST_ORIGINS)?.ok_or(Error::MissingUnitDie)?;
    Ok(Some(with_distance(&name, address.wrapping_sub(begin))))
}

/// The function of the unit, not below anything, that holds an address.
fn outer_function(unit: UnitRef<'_, DwarfSlice<'_>>, address: u64) -> Result<Option<UnitOffset>, Error> {
    let mut tree = unit.entries_tree(None)?;
    let mut children = tree.root()?.children();
    while let Some(child) = children.next()? {
        let entry = child.entry();
        if entry.tag() == gimli::DW_TAG_subprogram && holds(unit, entry, address)? {
            return Ok(Some(entry.offset()));
        }
    }
    Ok(None)
}

fn holds<'a>(unit: UnitRef<'_, DwarfSlice<'a>>, entry: &DebugEntry<'a>, address: u64) -> Result<bool, Error> {
    let mut ranges = unit.die_ranges(entry)?;
    while let Some(range) = ranges.next()? {
        if (range.begin..range.end).contains(&address) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The name of an entry, or of those that it completes.
pub(crate) fn name<'a>(
    unit: UnitRef<'_, DwarfSlice<'a>>,
    entry: &DebugEntry<'a>,
    origins: usize,
) -> Result<Option<String>, Error> {
    text(unit, entry, &[gimli::DW_AT_name], origins, None)
}

/// The name of a function by which it is linked, otherwise that of the source. `units` are the places of all units, in their
/// order.
pub(crate) fn linkage_name<'a>(
    unit: UnitRef<'_, DwarfSlice<'a>>,
    entry: &DebugEntry<'a>,
    units: &[DebugInfoOffset],
) -> Result<Option<String>, Error> {
    let text = |wanted: &[gimli::DwAt]| text(unit, entry, wanted, MOST_ORIGINS, Some(units));
    match text(&[gimli::DW_AT_linkage_name, gimli::DW_AT_MIPS_linkage_name])? {
        Some(name) => Ok(Some(name)),
        None => text(&[gimli::DW_AT_name]),
    }
}

/// The first of some attributes that an entry has, or those that it completes.
fn text<'a>(
    unit: UnitRef<'_, DwarfSlice<'a>>,
    entry: &DebugEntry<'a>,
    wanted: &[gimli::DwAt],
    origins: usize,
    units: Option<&[DebugInfoOffset]>,
) -> Result<Option<String>, Error> {
    if let Some(value) = wanted.iter().find_map(|wanted| entry.attr_value(*wanted)) {
        return Ok(Some(unit.attr_string(value)?.to_string_lossy().into_owned()));
    }
    let origin = entry.attr_value(gimli::DW_AT_abstract_origin).or(entry.attr_value(gimli::DW_AT_specification));
    match origin {
        _ if origins == 0 => Ok(None),
        Some(AttributeValue::UnitRef(offset)) => text(unit, &unit.entry(offset)?, wanted, origins - 1, units),
        Some(AttributeValue::DebugInfoRef(offset)) => {
            let Some(header) = unit_of(unit.dwarf, offset, units)? else { return Ok(None) };
            let Some(offset) = offset.to_unit_offset(&header) else { return Ok(None) };
            let other = unit.dwarf.unit(header)?;
            let other = other.unit_ref(unit.dwarf);
            text(other, &other.entry(offset)?, wanted, origins - 1, units)
        }
        _ => Ok(None),
    }
}

/// The header of the unit that an entry is in; `units` are the places of all units, if they are known.
fn unit_of<'a>(
    dwarf: &Dwarf<DwarfSlice<'a>>,
    entry: DebugInfoOffset,
    units: Option<&[DebugInfoOffset]>,
) -> Result<Option<UnitHeader<DwarfSlice<'a>>>, Error> {
    if let Some(units) = units {
        let before = units.partition_point(|unit| *unit <= entry).checked_sub(1);
        return before.map(|at| dwarf.debug_info.header_from_offset(units[at])).transpose();
    }
    let mut headers = dwarf.units();
    while let Some(header) = headers.next()? {
        if entry.to_unit_offset(&header).is_some() {
            return Ok(Some(header));
        }
    }
    Ok(None)
}

/// The line of an address: where the function that is inlined there was called, otherwise the line whose code begins
/// exactly there.
fn line(unit: UnitRef<'_, DwarfSlice<'_>>, address: u64) -> Result<Option<SourceLine>, Error> {
    if let Some(function) = outer_function(unit, address)?
        && let Some(inlined) = inlined_function(unit, function, address)?
    {
        let entry = unit.entry(inlined)?;
        let number = entry.attr_value(gimli::DW_AT_call_line).and_then(|value| value.udata_value());
        let file = entry.attr_value(gimli::DW_AT_call_file).and_then(|value| match value {
            AttributeValue::FileIndex(file) => Some(file),
            value => value.udata_value(),
        });
        let (Some(number), Some(file)) = (number, file) else { return Err(Error::MissingUnitDie) };
        let program = unit.line_program.as_ref().ok_or(Error::MissingUnitDie)?;
        let path = path(unit, program.header(), file)?.ok_or(Error::MissingUnitDie)?;
        return Ok(Some(SourceLine { path, number }));
    }
    let Some(program) = unit.line_program.clone() else { return Ok(None) };
    let (mut rows, mut found) = (program.rows(), None);
    while let Some((_, row)) = rows.next_row()? {
        if row.address() == address && !row.end_sequence() {
            found = Some((row.file_index(), row.line().map_or(0, |line| line.get())));
        }
    }
    let Some((file, number)) = found else { return Ok(None) };
    Ok(path(unit, rows.header(), file)?.map(|path| SourceLine { path, number }))
}

/// The function that is inlined into a function where the address is.
///
/// `babeltrace2` passes over the first entry of a block that holds the address, and does not return from a block; when
/// the last entry that it looks at is a block with the address, it takes the first one in there. So does this.
fn inlined_function(
    unit: UnitRef<'_, DwarfSlice<'_>>,
    function: UnitOffset,
    address: u64,
) -> Result<Option<UnitOffset>, Error> {
    let children = |of: UnitOffset| {
        let (mut tree, mut all) = (unit.entries_tree(Some(of))?, Vec::new());
        let mut children = tree.root()?.children();
        while let Some(child) = children.next()? {
            all.push(child.entry().offset());
        }
        if all.is_empty() { Err(Error::MissingUnitDie) } else { Ok(all) }
    };
    let (mut level, mut at) = (children(function)?, 0);
    loop {
        let entry = unit.entry(level[at])?;
        let is_there = holds(unit, &entry, address)?;
        if is_there {
            if entry.tag() == gimli::DW_TAG_inlined_subroutine {
                return Ok(Some(entry.offset()));
            }
            if entry.has_children() {
                (level, at) = (children(entry.offset())?, 0);
            }
        }
        at += 1;
        if at == level.len() {
            return Ok(is_there.then(|| level[at - 1]));
        }
    }
}

/// The path of a source file.
pub(crate) fn path<R: Reader>(
    unit: UnitRef<'_, R>,
    header: &LineProgramHeader<R>,
    file: u64,
) -> Result<Option<String>, Error> {
    let Some(file) = header.file(file) else { return Ok(None) };
    let text = |value| Ok::<_, Error>(unit.attr_string(value)?.to_string_lossy()?.into_owned());
    let mut path = text(file.path_name())?;
    if let Some(folder) = file.directory(header).filter(|_| !path.starts_with('/')) {
        path = format!("{}/{path}", text(folder)?);
    }
    if let Some(folder) = unit.comp_dir.as_ref().filter(|_| !path.starts_with('/')) {
        path = format!("{}/{path}", folder.to_string_lossy()?);
    }
    Ok(Some(path))
}
