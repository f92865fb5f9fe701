//! Stacks of threads by copies of them: callers are found by the tables that compilers write for exceptions (`.eh_frame`) or for
//! debuggers (`.debug_frame`).
//!
//! The crate `framehop` knows one step, from a function to its caller. Each step is one in the addresses of the file that the
//! function is in, so files are prepared once for all processes, and the maps of processes are asked for the addresses of a stack
//! only.

use std::ops::{Deref, Range};
use std::sync::Arc;

use framehop::aarch64::{CacheAarch64, PtrAuthMask, UnwindRegsAarch64, UnwinderAarch64};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder};
use object::read::{Architecture, File, Object, ObjectSection};
use tracemill_codec::chunk::Bytes;
use tracemill_engine::samples::StackCopy;
use tracemill_format::code::CodeMachine;

use crate::image::content;

/// Functions of a stack.
const MAX_FRAMES: usize = 4096;
/// Bits of addresses of programs on aarch64. Those above may have a signature of the address.
const ADDRESS_BITS_AARCH64: u64 = u64::MAX >> 16;
/// Addresses of a file for which there are tables.
const MAX_ADDRESSES: u64 = 1 << 32;

/// Bytes of a section.
pub(crate) enum SectionBytes {
    /// As they are in a file.
    Stored(Arc<dyn Bytes>, Range<usize>),
    /// Of a section that is packed.
    Unpacked(Vec<u8>),
}

impl Default for SectionBytes {
    fn default() -> Self {
        SectionBytes::Unpacked(Vec::new())
    }
}

impl Deref for SectionBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            SectionBytes::Stored(file, range) => file.bytes().get(range.clone()).unwrap_or(&[]),
            SectionBytes::Unpacked(bytes) => bytes,
        }
    }
}

/// A file, with the steps from its functions to their callers.
pub(crate) struct FileUnwinder {
    file: Arc<dyn Bytes>,
    steps: FileSteps,
}

enum FileSteps {
    X86_64(UnwinderX86_64<SectionBytes>),
    Aarch64(UnwinderAarch64<SectionBytes>),
}

impl FileUnwinder {
    /// The steps of the file that ran; `stripped` finds what was stripped off it. `base` is its lowest address.
    pub(crate) fn new(
        ran: &Arc<dyn Bytes>,
        stripped: impl FnOnce() -> Option<Arc<dyn Bytes>>,
        base: u64,
    ) -> Option<FileUnwinder> {
        let machine = {
            let elf = File::parse(ran.bytes()).ok()?;
            (elf.architecture(), elf.is_little_endian())
        };
        let module = || {
            let addresses = base..base.saturating_add(MAX_ADDRESSES);
            Some(Module::new(String::new(), addresses, base, tables(ran, stripped, base)?))
        };
        let steps = match machine {
            (Architecture::X86_64, true) => {
                let mut unwinder = UnwinderX86_64::new();
                unwinder.add_module(module()?);
                FileSteps::X86_64(unwinder)
            }
            (Architecture::Aarch64, true) => {
                let mut unwinder = UnwinderAarch64::new();
                unwinder.add_module(module()?);
                FileSteps::Aarch64(unwinder)
            }
            _ => return None,
        };
        Some(FileUnwinder { file: ran.clone(), steps })
    }
}

/// Code of a file.
pub(crate) struct CodeInFile {
    pub(crate) file: Arc<FileUnwinder>,
    /// Where it is in the file.
    pub(crate) offset: u64,
    /// The address that the file says.
    pub(crate) address: u64,
}

/// Reads 8 bytes of a copied stack.
type ReadStack<'r> = dyn FnMut(u64) -> Result<u64, ()> + 'r;

/// A machine whose stacks are followed.
trait StackMachine: Unwinder {
    /// The code to which handlers of signals return. What it finds on the stack is not in tables that are read.
    const SIGNAL_RETURN: &'static [u8];

    fn of(file: &FileUnwinder) -> Option<&Self>;

    /// The address and the registers of the code that a signal interrupted, as the kernel wrote them to the stack.
    fn interrupted(handler: &Self::UnwindRegs, read: &mut ReadStack<'_>) -> Option<(u64, Self::UnwindRegs)>;
}

impl StackMachine for UnwinderX86_64<SectionBytes> {
    /// `mov $15, %rax; syscall`.
    const SIGNAL_RETURN: &'static [u8] = &[0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05];

    fn of(file: &FileUnwinder) -> Option<&Self> {
        match &file.steps {
            FileSteps::X86_64(unwinder) => Some(unwinder),
            FileSteps::Aarch64(_) => None,
        }
    }

    fn interrupted(handler: &UnwindRegsX86_64, read: &mut ReadStack<'_>) -> Option<(u64, UnwindRegsX86_64)> {
        // `struct ucontext` and in it `struct sigcontext_64` of Linux.
        let mut at = |offset: u64| read(handler.sp().checked_add(offset)?).ok();
        let (bp, sp, ip) = (at(120)?, at(160)?, at(168)?);
        Some((ip, UnwindRegsX86_64::new(ip, sp, bp)))
    }
}

impl StackMachine for UnwinderAarch64<SectionBytes> {
    /// `mov x8, #139; svc #0`.
    const SIGNAL_RETURN: &'static [u8] = &[0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4];

    fn of(file: &FileUnwinder) -> Option<&Self> {
        match &file.steps {
            FileSteps::Aarch64(unwinder) => Some(unwinder),
            FileSteps::X86_64(_) => None,
        }
    }

    fn interrupted(handler: &UnwindRegsAarch64, read: &mut ReadStack<'_>) -> Option<(u64, UnwindRegsAarch64)> {
        // `struct rt_sigframe` of Linux: `siginfo`, `ucontext` and in it `sigcontext`.
        let mut at = |offset: u64| read(handler.sp().checked_add(offset)?).ok();
        let (fp, lr, sp, pc) = (at(544)?, at(552)?, at(560)?, at(568)?);
        Some((pc, UnwindRegsAarch64::new_with_ptr_auth_mask(handler.lr_mask(), lr, sp, fp)))
    }
}

/// The tables of a file, and where they are in memory: those for exceptions, or, if these are shorter, those for debuggers.
fn tables(
    ran: &Arc<dyn Bytes>,
    stripped: impl FnOnce() -> Option<Arc<dyn Bytes>>,
    base: u64,
) -> Option<ExplicitModuleSectionInfo<SectionBytes>> {
    let elf = File::parse(ran.bytes()).ok()?;
    let place = |name: &str| {
        let section = elf.section_by_name(name)?;
        Some(section.address()..section.address().checked_add(section.size())?)
    };
    let mut info = ExplicitModuleSectionInfo {
        base_svma: base,
        text_svma: place(".text"),
        got_svma: place(".got"),
        eh_frame_svma: place(".eh_frame"),
        eh_frame: section(ran, ".eh_frame"),
        eh_frame_hdr_svma: place(".eh_frame_hdr"),
        eh_frame_hdr: section(ran, ".eh_frame_hdr"),
        ..ExplicitModuleSectionInfo::default()
    };
    let known = info.eh_frame.as_ref().map_or(0, |bytes| bytes.len());
    let of_debuggers = section(ran, ".debug_frame");
    let of_debuggers = of_debuggers.or_else(|| section(&stripped()?, ".debug_frame"));
    if let Some(longer) = of_debuggers.filter(|bytes| bytes.len() > known) {
        info.debug_frame = Some(longer);
        (info.eh_frame, info.eh_frame_hdr) = (None, None);
    }
    Some(info)
}

/// A section of a file.
fn section(file: &Arc<dyn Bytes>, name: &str) -> Option<SectionBytes> {
    let elf = File::parse(file.bytes()).ok()?;
    let section = elf.section_by_name(name)?;
    match content(&section)? {
        std::borrow::Cow::Owned(bytes) => Some(SectionBytes::Unpacked(bytes)),
        std::borrow::Cow::Borrowed(_) => {
            let (offset, size) = section.file_range()?;
            let begin = usize::try_from(offset).ok()?;
            let end = begin.checked_add(usize::try_from(size).ok()?)?;
            (size > 0).then(|| SectionBytes::Stored(file.clone(), begin..end))
        }
    }
}

/// Steps that were made, by their addresses.
#[derive(Default)]
pub(crate) struct UnwindCache {
    x86_64: CacheX86_64,
    aarch64: CacheAarch64,
}

/// Follows a stack. `find` gives the code at an address.
pub(crate) fn follow(
    stack: &StackCopy<'_>,
    cache: &mut UnwindCache,
    find: impl Fn(u64) -> Option<CodeInFile>,
) -> Vec<u64> {
    match stack.machine {
        CodeMachine::X86_64 => {
            let registers = UnwindRegsX86_64::new(stack.instruction, stack.stack, stack.frame);
            steps::<UnwinderX86_64<SectionBytes>>(stack, registers, &mut cache.x86_64, find)
        }
        CodeMachine::Aarch64 => {
            let mask = PtrAuthMask(ADDRESS_BITS_AARCH64);
            let link = stack.link.unwrap_or(0);
            let registers = UnwindRegsAarch64::new_with_ptr_auth_mask(mask, link, stack.stack, stack.frame);
            steps::<UnwinderAarch64<SectionBytes>>(stack, registers, &mut cache.aarch64, find)
        }
    }
}

fn steps<M: StackMachine>(
    stack: &StackCopy<'_>,
    mut registers: M::UnwindRegs,
    cache: &mut M::Cache,
    find: impl Fn(u64) -> Option<CodeInFile>,
) -> Vec<u64> {
    let mut read = |address: u64| {
        let begin = address.checked_sub(stack.stack).and_then(|begin| usize::try_from(begin).ok()).ok_or(())?;
        let bytes = stack.bytes.get(begin..).and_then(|rest| rest.first_chunk()).ok_or(())?;
        Ok(u64::from_le_bytes(*bytes))
    };
    let mut addresses = vec![stack.instruction];
    // Of a caller the address is the last byte of its call; other code is where it was interrupted.
    let mut is_caller = false;
    while addresses.len() < MAX_FRAMES {
        let last = addresses.len() - 1;
        let Some(code) = find(addresses[last]) else { break };
        let Some(unwinder) = M::of(&code.file) else { break };
        if is_caller && is_signal_return::<M>(&code) {
            addresses[last] += 1;
            let Some((address, interrupted)) = M::interrupted(&registers, &mut read) else { break };
            (registers, is_caller) = (interrupted, false);
            addresses.push(address);
            continue;
        }
        let frame = match is_caller {
            false => Some(FrameAddress::from_instruction_pointer(code.address)),
            true => code.address.checked_add(1).and_then(FrameAddress::from_return_address),
        };
        let Some(frame) = frame else { break };
        match unwinder.unwind_frame(frame, &mut registers, cache, &mut read) {
            Ok(Some(back)) if back > 0 => addresses.push(back - 1),
            _ => break,
        }
        is_caller = true;
    }
    addresses
}

/// Does a caller consist of the return from a signal handler? The kernel makes it look like one.
fn is_signal_return<M: StackMachine>(code: &CodeInFile) -> bool {
    let begin = usize::try_from(code.offset).ok().and_then(|offset| offset.checked_add(1));
    let bytes = begin.and_then(|begin| code.file.file.bytes().get(begin..));
    bytes.is_some_and(|bytes| bytes.starts_with(M::SIGNAL_RETURN))
}

#[cfg(test)]
mod tests {
    use gimli::write::{
        Address, CallFrameInstruction, CommonInformationEntry, EhFrame, EndianVec, FrameDescriptionEntry, FrameTable,
    };
    use gimli::{AArch64, Encoding, Format, LittleEndian, Register, X86_64};
    use tracemill_engine::samples::Symbolizer;
    use tracemill_format::code::{CodeKind, CodeMaps, CodeModule, CodePlace};

    use super::*;
    use crate::symbol_files::{SymbolFiles, SymbolSearch};

    /// Where the program is in memory.
    const BASE: u64 = 0x5555_0000_0000;
    /// Where its stack is.
    const STACK: u64 = 0x7fff_0000_0000;
    const TABLES: usize = 0x2000;

    /// A program: its machine in ELF, the code to which signal handlers return at 0x1080, and functions of 0x20 bytes from 0x1000
    /// on, each by the instructions of its table.
    fn program(
        machine: u16,
        registers: (Register, Register),
        code: &[u8],
        functions: &[Vec<CallFrameInstruction>],
    ) -> Vec<u8> {
        let (stack, back) = registers;
        let encoding = Encoding { format: Format::Dwarf32, version: 1, address_size: 8 };
        let mut common = CommonInformationEntry::new(encoding, 1, -8, back);
        common.add_instruction(CallFrameInstruction::Cfa(stack, if machine == object::elf::EM_X86_64 { 8 } else { 0 }));
        if machine == object::elf::EM_X86_64 {
            common.add_instruction(CallFrameInstruction::Offset(back, -8));
        }
        let mut table = FrameTable::default();
        let common = table.add_cie(common);
        for (at, instructions) in functions.iter().enumerate() {
            let mut function = FrameDescriptionEntry::new(Address::Constant(0x1000 + 0x20 * at as u64), 0x20);
            for instruction in instructions {
                function.add_instruction(0, instruction.clone());
            }
            table.add_fde(common, function);
        }
        let mut tables = EhFrame::from(EndianVec::new(LittleEndian));
        table.write_eh_frame(&mut tables).expect("it is consistent");
        let tables = tables.slice();
        let names = b"\0.eh_frame\0.shstrtab\0";
        let (names_at, sections_at) = (0x3000, 0x3100);
        let mut bytes = vec![0; sections_at + 3 * 64];
        let put = |bytes: &mut Vec<u8>, at: usize, value: u64, len: usize| {
            bytes[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
        };
        bytes[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\0");
        // The head: a shared library with one part that is loaded, and three sections.
        for (at, value, len) in
            [(16, 3, 2), (18, machine.into(), 2), (20, 1, 4), (32, 64, 8), (40, sections_at as u64, 8)]
        {
            put(&mut bytes, at, value, len);
        }
        for (at, value) in [(52, 64), (54, 56), (56, 1), (58, 64), (60, 3), (62, 2)] {
            put(&mut bytes, at, value, 2);
        }
        for (at, value, len) in [(64, 1, 4), (68, 5, 4), (96, 0x4000, 8), (104, 0x4000, 8), (112, 0x1000, 8)] {
            put(&mut bytes, at, value, len);
        }
        let sections = [(1, 1, 2, TABLES, tables.len()), (11, 3, 0, names_at, names.len())];
        for (at, (name, kind, flags, place, len)) in sections.into_iter().enumerate() {
            let at = sections_at + 64 * (at + 1);
            put(&mut bytes, at, name, 4);
            put(&mut bytes, at + 4, kind, 4);
            for (word, value) in [(8, flags), (16, place as u64), (24, place as u64), (32, len as u64), (48, 1)] {
                put(&mut bytes, at + word, value, 8);
            }
        }
        bytes[0x1080..0x1080 + code.len()].copy_from_slice(code);
        bytes[TABLES..TABLES + tables.len()].copy_from_slice(tables);
        bytes[names_at..names_at + names.len()].copy_from_slice(names);
        bytes
    }

    /// Maps of one file.
    struct OneMap([CodeModule; 1]);

    impl CodeMaps for OneMap {
        fn modules(&self) -> &[CodeModule] {
            &self.0
        }

        fn place(&self, _process: i64, _cycles: u64, address: u64) -> Option<CodePlace> {
            let offset = address.checked_sub(BASE).filter(|offset| *offset < 0x4000)?;
            Some(CodePlace { module: 0, offset, address })
        }
    }

    /// A program in a file that goes away with it.
    struct Program {
        path: std::path::PathBuf,
        maps: OneMap,
    }

    impl Program {
        fn new(name: &str, bytes: &[u8]) -> Program {
            let path = std::env::temp_dir().join(format!("tracemill-unwinding-{}-{name}", std::process::id()));
            std::fs::write(&path, bytes).expect("a file");
            let module = CodeModule { path: path.display().to_string(), build_id: None, kind: CodeKind::File };
            Program { path, maps: OneMap([module]) }
        }

        /// The stack of some words, in the addresses of the file.
        fn stack(&self, machine: CodeMachine, registers: (u64, u64, Option<u64>), words: &[u64]) -> Vec<u64> {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let (instruction, frame, link) = registers;
            let copy = StackCopy {
                machine,
                instruction: BASE + instruction,
                stack: STACK,
                frame,
                link: link.map(|link| BASE + link),
                bytes: &bytes,
                maps: &self.maps,
                process: 1,
                cycles: 0,
            };
            let files = SymbolFiles::new(SymbolSearch::default());
            files.unwind(&copy).into_iter().map(|address| address.wrapping_sub(BASE)).collect()
        }
    }

    impl Drop for Program {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// A leaf; a function with 24 bytes on the stack; one with a frame pointer; the last one, which has no caller.
    fn x86_64() -> Vec<u8> {
        let functions = [
            vec![],
            vec![CallFrameInstruction::CfaOffset(32)],
            vec![CallFrameInstruction::Cfa(X86_64::RBP, 16), CallFrameInstruction::Offset(X86_64::RBP, -16)],
            vec![CallFrameInstruction::Undefined(X86_64::RA)],
        ];
        let code = UnwinderX86_64::<SectionBytes>::SIGNAL_RETURN;
        program(object::elf::EM_X86_64, (X86_64::RSP, X86_64::RA), code, &functions)
    }

    #[test]
    fn callers_are_found_on_x86_64() {
        let program = Program::new("x86-64", &x86_64());
        let of =
            |instruction, frame, words: &[u64]| program.stack(CodeMachine::X86_64, (instruction, frame, None), words);
        let at = |address: u64| BASE + address;
        let words = [at(0x1030), 1, 2, 3, at(0x1050), 5, 6, 0xdead, at(0x1070)];
        assert_eq!(of(0x1004, STACK + 0x38, &words), [0x1004, 0x102f, 0x104f, 0x106f]);
        // The copy ends before the stack does.
        assert_eq!(of(0x1004, STACK + 0x38, &words[..5]), [0x1004, 0x102f, 0x104f]);
        assert_eq!(of(0x1004, 0, &[]), [0x1004]);
        // The caller is nowhere in the program.
        assert_eq!(of(0x1004, 0, &[BASE - 0x1000, 1]), [0x1004, 0u64.wrapping_sub(0x1001)]);
        assert_eq!(of(0x1004, 0, &[0]), [0x1004]);
        assert_eq!(of(0x9000, 0, &words), [0x9000]);
    }

    #[test]
    fn handlers_are_called_by_what_they_interrupted() {
        let program = Program::new("signal", &x86_64());
        let mut words = vec![0; 40];
        words[0] = BASE + 0x1080;
        // Registers at 120, 160 and 168 after the return address: the frame and stack pointers, and the instruction.
        (words[16], words[21], words[22]) = (0, STACK + 8 * 30, BASE + 0x1010);
        words[30] = BASE + 0x1070;
        let found = program.stack(CodeMachine::X86_64, (0x1004, 0, None), &words);
        assert_eq!(found, [0x1004, 0x1080, 0x1010, 0x106f]);
        let found = program.stack(CodeMachine::X86_64, (0x1004, 0, None), &words[..10]);
        assert_eq!(found, [0x1004, 0x1080]);
    }

    #[test]
    fn callers_are_found_on_aarch64() {
        let saved = |size: i32| {
            vec![
                CallFrameInstruction::CfaOffset(size),
                CallFrameInstruction::Offset(AArch64::X29, -size),
                CallFrameInstruction::Offset(AArch64::X30, 8 - size),
            ]
        };
        let functions = [vec![], saved(32), saved(16), vec![CallFrameInstruction::Undefined(AArch64::X30)]];
        let code = UnwinderAarch64::<SectionBytes>::SIGNAL_RETURN;
        let bytes = program_of_arm(code, &functions);
        let program = Program::new("aarch64", &bytes);
        let of = |link, words: &[u64]| program.stack(CodeMachine::Aarch64, (0x1004, STACK, Some(link)), words);
        // Signatures of return addresses are above their 48 bits.
        let words = [STACK + 32, 0x00ab << 48 | (BASE + 0x1050), 1, 2, 0, BASE + 0x1070, 3, 4];
        assert_eq!(of(0x1030, &words), [0x1004, 0x102f, 0x104f, 0x106f]);
        assert_eq!(of(0x1030, &words[..2]), [0x1004, 0x102f, 0x104f]);
        // Registers of another machine.
        assert_eq!(program.stack(CodeMachine::X86_64, (0x1004, STACK, None), &words), [0x1004]);
    }

    fn program_of_arm(code: &[u8], functions: &[Vec<CallFrameInstruction>]) -> Vec<u8> {
        program(object::elf::EM_AARCH64, (AArch64::SP, AArch64::X30), code, functions)
    }

    #[test]
    fn damaged_tables_and_registers_end_a_stack() {
        let whole = x86_64();
        let mut next = crate::tests::numbers(0x9e37_79b9_7f4a_7c15);
        for round in 0..3000 {
            let mut bytes = whole.clone();
            for _ in 0..=round % 8 {
                let places = [(0, 200), (TABLES, 200), (0x3100, 192)][next(3)];
                bytes[places.0 + next(places.1)] = [0, 0xff, 0x80, next(256) as u8][next(4)];
            }
            let program = Program::new("damage", &bytes);
            let odd = [0, 1, 7, STACK, STACK + 8, STACK + 0x38, u64::MAX, u64::MAX - 8, BASE + 0x1030];
            let words: Vec<u64> =
                (0..12).map(|_| [BASE + 0x1000 + next(0x100) as u64, odd[next(odd.len())]][next(2)]).collect();
            program.stack(CodeMachine::X86_64, (0x1000 + next(0x80) as u64, odd[next(odd.len())], None), &words);
        }
    }
}
