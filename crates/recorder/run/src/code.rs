//! The code of a whole file, looked through once: which functions could be given a jump at their entry.
//!
//! The bytes of a jump stand where other instructions stood. So nothing may lead to the middle of them: no branch of any
//! function, no address that an instruction computes, no word of the data, and no entry of a table of distances, by which
//! compilers write a `switch`. Where something only looks like one of these, the function is left alone as well.

use std::collections::BTreeMap;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

use crate::elf::{Elf, LoadedSection};
use crate::moved::{EntryCode, KnownStack, Left, MovedEntry};
use crate::table;

/// The function that shows an unwinder in the program itself: that finds no callers where return addresses are replaced.
const UNWINDER: &str = "_Unwind_RaiseException";
/// Functions that the linker adds to a program: they begin it, or do nothing.
const LINKED: [&str; 5] = ["_start", "_dl_start", "_dl_relocate_static_pie", "_init", "_fini"];
/// Entries of a table of distances that are looked at.
const MOST_DISTANCES: usize = 1 << 16;

/// A function that is to be patched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WantedFunction {
    /// Its address in the file.
    pub(crate) begin: u64,
    /// Its end.
    pub(crate) end: u64,
}

/// Finds out which functions can be given a jump; they are in the order of their addresses. `shift` is how far the file's
/// addresses are from those in memory.
pub(crate) fn entries(
    bytes: &[u8],
    elf: &Elf,
    wanted: &[WantedFunction],
    shift: u64,
) -> Vec<(WantedFunction, Result<MovedEntry, Left>)> {
    let names: BTreeMap<u64, &str> = elf
        .symbols
        .iter()
        .filter(|(_, (letter, ..))| "tTw".contains(*letter))
        .map(|(at, (_, _, name))| (at.wrapping_add(elf.base), name.as_str()))
        .collect();
    let Some(marked) = Marked::new(&elf.loaded) else {
        return wanted.iter().map(|function| (*function, Err(table::LEFT_UNKNOWN))).collect();
    };
    let is_fixed = elf.base != 0;
    let mut code = Code { bytes, sections: &elf.loaded, names, is_fixed, found: Vec::new(), marked };
    let has_unwinder = code.names.values().any(|name| *name == UNWINDER);
    for function in wanted {
        let entry = if has_unwinder { Err(table::LEFT_UNWINDER) } else { code.entry(function, shift) };
        code.add(*function, entry);
    }
    if code.found.iter().any(|(_, entry)| entry.is_ok()) {
        code.sweep();
        code.look_at_words();
    }
    code.found
}

struct Code<'a> {
    bytes: &'a [u8],
    sections: &'a [LoadedSection],
    /// Names of functions, by where they begin.
    names: BTreeMap<u64, &'a str>,
    /// Are its addresses in memory those in the file? Otherwise no number of an instruction is an address.
    is_fixed: bool,
    found: Vec<(WantedFunction, Result<MovedEntry, Left>)>,
    marked: Marked,
}

/// The way in which something leads to an address.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lead {
    /// A call, or an address that is used somehow.
    Uses,
    /// A jump, always taken.
    Jumps,
    /// A jump that depends on something.
    Branches,
}

impl<'a> Code<'a> {
    /// The bytes of a section.
    fn section(&self, section: &LoadedSection) -> &'a [u8] {
        let bytes = usize::try_from(section.offset).ok().and_then(|at| self.bytes.get(at..)).unwrap_or_default();
        &bytes[..usize::try_from(section.size).unwrap_or(usize::MAX).min(bytes.len())]
    }

    /// The bytes from an address to the end of its section, if it is one of this kind.
    fn from(&self, address: u64, is_code: bool) -> Option<&'a [u8]> {
        let has = |section: &&LoadedSection| {
            section.is_code == is_code && address.checked_sub(section.address).is_some_and(|at| at < section.size)
        };
        let section = self.sections.iter().find(has)?;
        self.section(section).get(usize::try_from(address - section.address).ok()?..)
    }

    fn is_code(&self, address: u64) -> bool {
        self.from(address, true).is_some()
    }

    /// The instructions that would be moved of a function.
    fn entry(&self, function: &WantedFunction, shift: u64) -> Result<MovedEntry, Left> {
        let name = self.names.get(&function.begin).copied().unwrap_or_default();
        if table::is_odd_return(name.as_bytes()) {
            return Err(table::LEFT_SPECIAL);
        }
        let code = self.from(function.begin, true).ok_or(table::LEFT_UNKNOWN)?;
        let next = self.names.range(function.begin + 1..).next().map(|(at, _)| *at);
        if next.is_some_and(|next| next < function.end) {
            return Err(table::LEFT_UNKNOWN);
        }
        let free = next.map_or(code.len(), |next| usize::try_from(next - function.begin).unwrap_or(usize::MAX));
        let bytes = &code[..free.min(code.len())];
        let size = usize::try_from(function.end - function.begin).map_err(|_| table::LEFT_UNKNOWN)?;
        EntryCode { bytes, size, address: function.begin, shift }.moved()
    }

    fn add(&mut self, function: WantedFunction, entry: Result<MovedEntry, Left>) {
        if let Ok(moved) = &entry {
            self.marked.add(function.begin, function.begin + moved.end() as u64);
        }
        self.found.push((function, entry));
    }

    /// Looks at all instructions of the file.
    fn sweep(&mut self) {
        for section in self.sections.iter().filter(|section| section.is_code) {
            let (code, end) = (self.section(section), section.address.saturating_add(section.size));
            let mut cuts: Vec<_> = self.names.range(section.address..end).map(|(at, _)| *at).collect();
            cuts.insert(0, section.address);
            cuts.push(end);
            for ends in cuts.windows(2) {
                let offset = |at: u64| usize::try_from(at - section.address).unwrap_or(usize::MAX).min(code.len());
                self.look_at_function(ends[0], &code[offset(ends[0])..offset(ends[1])]);
            }
        }
    }

    /// Looks at the instructions from the beginning of a function to that of the next one.
    fn look_at_function(&mut self, begin: u64, code: &[u8]) {
        let number = self.found.binary_search_by_key(&begin, |(function, _)| function.begin).ok();
        let size = number.map_or(0, |number| self.found[number].0.end - begin);
        let is_part = self.names.get(&begin).is_some_and(|name| is_part(name));
        let mut stack = KnownStack::new();
        let mut decoder = Decoder::with_ip(64, code, begin, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            let is_own = instruction.ip() - begin < size;
            if instruction.is_invalid() {
                if is_own {
                    self.leave(number, table::LEFT_UNKNOWN);
                }
                // Data between functions: instructions begin again somewhere.
                let next = (instruction.ip() - begin) as usize + 1;
                if decoder.set_position(next).is_err() {
                    return;
                }
                decoder.set_ip(begin + next as u64);
                continue;
            }
            if is_own && instruction.next_ip() - begin > size {
                self.leave(number, table::LEFT_UNKNOWN);
            }
            if is_own && !stack.next(&instruction) {
                self.leave(number, table::LEFT_SPECIAL);
            }
            self.look_at_instruction(&instruction, is_part);
        }
    }

    fn look_at_instruction(&mut self, instruction: &Instruction, is_part: bool) {
        let from = instruction.ip();
        if instruction.op0_kind() == OpKind::NearBranch64 {
            let lead = match instruction.flow_control() {
                FlowControl::Call => Lead::Uses,
                // From a part that stands elsewhere back to the beginning.
                FlowControl::UnconditionalBranch if !is_part => Lead::Jumps,
                _ => Lead::Branches,
            };
            self.lead(from, instruction.near_branch_target(), lead);
        } else if instruction.is_ip_rel_memory_operand() {
            let address = instruction.ip_rel_memory_address();
            self.lead(from, address, Lead::Uses);
            if instruction.mnemonic() == Mnemonic::Lea {
                self.look_at_distances(from, address);
            }
        } else if self.is_fixed {
            for operand in 0..instruction.op_count() {
                if let Ok(number) = instruction.try_immediate(operand) {
                    self.lead(from, number, Lead::Uses);
                }
            }
            let has_index = instruction.memory_index() != Register::None;
            if has_index && instruction.memory_base() == Register::None {
                self.look_at_addresses(from, instruction.memory_displacement64());
            }
        }
    }

    /// Looks at what may be a table of distances from its own beginning.
    fn look_at_distances(&mut self, from: u64, table: u64) {
        let Some(bytes) = self.from(table, false) else { return };
        for word in bytes.chunks_exact(4).take(MOST_DISTANCES) {
            let distance = word.first_chunk().map_or(0, |word| i32::from_le_bytes(*word));
            let target = table.wrapping_add_signed(distance.into());
            if distance == 0 || !self.is_code(target) {
                return;
            }
            self.lead(from, target, Lead::Jumps);
        }
    }

    /// Looks at what may be a table of addresses.
    fn look_at_addresses(&mut self, from: u64, table: u64) {
        let Some(bytes) = self.from(table, false) else { return };
        for word in bytes.chunks_exact(8).take(MOST_DISTANCES) {
            let target = word.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
            if !self.is_code(target) {
                return;
            }
            self.lead(from, target, Lead::Jumps);
        }
    }

    /// Looks at all words of the data: addresses that the program jumps to may be among them. So are those that the loader
    /// adds to, as its table is data, too.
    fn look_at_words(&mut self) {
        for section in self.sections.iter().filter(|section| !section.is_code) {
            for word in self.section(section).chunks_exact(8) {
                let target = word.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
                self.lead(0, target, Lead::Uses);
            }
        }
    }

    /// Something leads to an address: a function that has it at its beginning may have to stay.
    fn lead(&mut self, from: u64, to: u64, lead: Lead) {
        if !self.marked.has(to) {
            return;
        }
        let number = self.found.partition_point(|(function, _)| function.begin <= to);
        let Some((function, Ok(moved))) = number.checked_sub(1).and_then(|at| self.found.get(at)) else { return };
        let (at, is_inside) = (to - function.begin, (function.begin..function.end).contains(&from));
        let is_harmless = match lead {
            _ if at >= moved.end() as u64 => true,
            // The jump is after a mark of where indirect jumps may go. A list of rooms has this address.
            _ if at > 0 && at != moved.mark as u64 => false,
            Lead::Uses => true,
            // The last call of a function may become a jump.
            Lead::Jumps => !is_inside,
            Lead::Branches => false,
        };
        if !is_harmless {
            self.leave(Some(number - 1), table::LEFT_TARGET);
        }
    }

    /// Leaves a function as it is. The first reason counts.
    fn leave(&mut self, number: Option<usize>, why: Left) {
        if let Some((_, entry)) =
            number.and_then(|number| self.found.get_mut(number)).filter(|(_, entry)| entry.is_ok())
        {
            *entry = Err(why);
        }
    }
}

/// Is it the name of a function of the program? Not a part of another one, and not what the linker adds.
pub(crate) fn is_own(name: &str) -> bool {
    !is_part(name) && !LINKED.contains(&name)
}

/// Is it the name of a part of a function, which stands elsewhere?
fn is_part(name: &str) -> bool {
    name.split('.').skip(1).any(|word| word == "cold")
}

/// Addresses of code that would be overwritten: a bit for each.
struct Marked {
    first: u64,
    bits: Vec<u64>,
}

/// Bytes of code that are looked at, at most: a jump must reach all of it.
const MOST_CODE: u64 = 1 << 30;

impl Marked {
    fn new(sections: &[LoadedSection]) -> Option<Marked> {
        let code = || sections.iter().filter(|section| section.is_code);
        let first = code().map(|section| section.address).min()?;
        // Addresses of a damaged file that begin again at 0 are not known.
        let ends: Option<Vec<_>> = code().map(|section| section.address.checked_add(section.size)).collect();
        let end = ends?.into_iter().max()?;
        let len = Some(end - first).filter(|len| *len <= MOST_CODE)?;
        Some(Marked { first, bits: vec![0; usize::try_from(len / 64 + 1).ok()?] })
    }

    fn add(&mut self, begin: u64, end: u64) {
        for at in begin..end {
            let at = at.wrapping_sub(self.first);
            if let Some(word) = usize::try_from(at / 64).ok().and_then(|word| self.bits.get_mut(word)) {
                *word |= 1 << (at % 64);
            }
        }
    }

    fn has(&self, address: u64) -> bool {
        let at = address.wrapping_sub(self.first);
        let word = usize::try_from(at / 64).ok().and_then(|word| self.bits.get(word));
        word.is_some_and(|word| word >> (at % 64) & 1 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// push rbp; mov rbp, rsp; sub rsp, 16; leave; ret
    const PLAIN: [u8; 10] = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0xc9, 0xc3];
    const CODE: u64 = 0x40_1000;
    const DATA: u64 = 0x40_3000;

    /// The fate of the first function, which is at 0x401000, with others from 0x401010 on, 16 bytes each.
    fn fate(functions: &[(&str, &[u8])], data: &[u8]) -> Result<MovedEntry, Left> {
        let mut bytes = Vec::new();
        let mut elf = Elf { base: 0x40_0000, ..Elf::default() };
        let mut wanted = Vec::new();
        for (name, code) in functions {
            let begin = 0x1000 + bytes.len() as u64;
            elf.symbols.insert(begin, ('T', begin + code.len() as u64, (*name).into()));
            wanted.push(WantedFunction { begin: elf.base + begin, end: elf.base + begin + code.len() as u64 });
            bytes.extend_from_slice(code);
            bytes.resize(bytes.len().next_multiple_of(16), 0x90);
        }
        let size = bytes.len() as u64;
        elf.loaded.push(LoadedSection { address: CODE, offset: 0, size, is_code: true });
        elf.loaded.push(LoadedSection { address: DATA, offset: size, size: data.len() as u64, is_code: false });
        bytes.extend_from_slice(data);
        let mut found = entries(&bytes, &elf, &wanted, 0);
        assert_eq!(found.len(), functions.len());
        found.swap_remove(0).1
    }

    /// Another function with these bytes before its end.
    fn with(code: &[u8]) -> Result<MovedEntry, Left> {
        fate(&[("f", &PLAIN), ("g", &[code, &[0xc3]].concat())], &[])
    }

    /// A branch from 0x401010, of five bytes or six, to an address.
    fn branch(operation: &[u8], target: u64) -> Vec<u8> {
        let from = CODE + 0x10 + operation.len() as u64 + 4;
        [operation, &((target.wrapping_sub(from)) as u32).to_le_bytes()].concat()
    }

    #[test]
    fn branches_into_the_first_bytes_are_found() {
        assert!(with(&[]).is_ok());
        for target in 1..8 {
            assert_eq!(with(&branch(&[0xe9], CODE + target)), Err(table::LEFT_TARGET), "{target}");
        }
        assert!(with(&branch(&[0xe9], CODE + 8)).is_ok());
        // Calls, and the last call as a jump; but no branch.
        assert!(with(&branch(&[0xe8], CODE)).is_ok() && with(&branch(&[0xe9], CODE)).is_ok());
        assert_eq!(with(&branch(&[0x0f, 0x84], CODE)), Err(table::LEFT_TARGET));
        // From a part of the function that stands elsewhere.
        let part = branch(&[0xe9], CODE);
        assert_eq!(fate(&[("f", &PLAIN), ("f.cold", &part)], &[]), Err(table::LEFT_TARGET));
        // A loop: dec edi; mov eax, 1; jne to the beginning
        let own = [0xff, 0xcf, 0xb8, 1, 0, 0, 0, 0x75, 0xf7, 0xc3];
        assert_eq!(fate(&[("f", &own)], &[]), Err(table::LEFT_TARGET));
        // After the mark that indirect jumps need: the jump itself is there.
        let marked = [&[0xf3, 0x0f, 0x1e, 0xfa][..], &PLAIN].concat();
        let word = |to: u64| fate(&[("f", &marked)], &(CODE + to).to_le_bytes());
        assert!(word(4).is_ok() && word(2) == Err(table::LEFT_TARGET) && word(5) == Err(table::LEFT_TARGET));
        // After data between functions.
        let data = [&[0x06, 0xff][..], &branch(&[0x90, 0x90, 0xe9], CODE + 1)].concat();
        assert!(with(&data[..2]).is_ok());
    }

    #[test]
    fn addresses_of_the_first_bytes_are_found() {
        // lea rax, [rip + ...]
        assert_eq!(with(&branch(&[0x48, 0x8d, 0x05], CODE + 4)), Err(table::LEFT_TARGET));
        assert!(with(&branch(&[0x48, 0x8d, 0x05], CODE)).is_ok());
        // mov eax, number
        assert_eq!(with(&[0xb8, 4, 0x10, 0x40, 0]), Err(table::LEFT_TARGET));
        assert!(with(&[0xb8, 0, 0x10, 0x40, 0]).is_ok());
        let word = |address: u64| fate(&[("f", &PLAIN)], &[&[0; 8][..], &address.to_le_bytes()].concat());
        assert!(word(CODE).is_ok() && word(CODE + 8).is_ok());
        assert_eq!(word(CODE + 1), Err(table::LEFT_TARGET));
    }

    #[test]
    fn tables_of_a_switch_are_found() {
        let lea = branch(&[0x48, 0x8d, 0x05], DATA);
        let table = |targets: &[u64]| {
            targets.iter().flat_map(|target| (target.wrapping_sub(DATA) as u32).to_le_bytes()).collect::<Vec<_>>()
        };
        let other = [&lea[..], &[0xc3]].concat();
        let fate = |targets: &[u64]| fate(&[("f", &PLAIN), ("g", &other)], &table(targets));
        assert!(fate(&[CODE + 0x10, CODE + 8]).is_ok());
        assert_eq!(fate(&[CODE + 0x10, CODE + 4]), Err(table::LEFT_TARGET));
        // It ends where an entry leads to no code.
        assert!(fate(&[CODE + 0x10, DATA + 4, CODE + 4]).is_ok());
    }

    #[test]
    fn special_functions_stay() {
        for name in ["setjmp", "swapcontext"] {
            assert_eq!(fate(&[(name, &PLAIN)], &[]), Err(table::LEFT_SPECIAL), "{name}");
        }
        assert!(!["_start", "f.cold", "f.part.0.cold"].into_iter().any(is_own) && is_own("f.part.0") && is_own("cold"));
        assert!(fate(&[("f.part.0", &PLAIN)], &[]).is_ok());
        assert_eq!(fate(&[("f", &PLAIN), (UNWINDER, &PLAIN)], &[]), Err(table::LEFT_UNWINDER));
        // mov rax, [rbp + 8] after the beginning
        let reads = [&PLAIN[..8], &[0x48, 0x8b, 0x45, 8, 0xc9, 0xc3]].concat();
        assert_eq!(fate(&[("f", &reads)], &[]), Err(table::LEFT_SPECIAL));
        // No instruction, and one that goes on after the end.
        for rest in [&[0x06, 0xc3][..], &[0x48]] {
            assert_eq!(fate(&[("f", &[&PLAIN[..8], rest].concat())], &[]), Err(table::LEFT_UNKNOWN));
        }
    }

    #[test]
    fn files_of_any_kind_do_no_harm() {
        let wanted = [WantedFunction { begin: CODE, end: CODE + 10 }];
        let section = |address, offset, size| LoadedSection { address, offset, size, is_code: true };
        for section in
            [section(0, 0, u64::MAX), section(CODE, u64::MAX, 10), section(CODE, 0, u64::MAX), section(CODE, 5, 3)]
        {
            let elf = Elf { loaded: vec![section], ..Elf::default() };
            assert!(entries(&PLAIN, &elf, &wanted, 0)[0].1.is_err(), "{section:?}");
        }
        let last = WantedFunction { begin: u64::MAX, end: u64::MAX };
        for far in [vec![section(0, 0, 10), section(u64::MAX - 10, 0, 10)], vec![section(u64::MAX - 5, 0, 10)]] {
            let elf = Elf { loaded: far, ..Elf::default() };
            assert!(entries(&PLAIN, &elf, &[wanted[0], last], 0).iter().all(|(_, entry)| entry.is_err()));
        }
    }
}
