//! The first instructions of functions that the compiler left no room in: which ones can be moved, so that a jump has room.
//!
//! A jump takes five bytes. The instructions that it overwrites are written elsewhere, with distances that fit there, and go on
//! to the rest of the function. Distances are numbers of 32 bits from the end of an instruction; here they are computed as if
//! the moved code stood at the function's entry, and the library in the program adds how far away it is.
//!
//! A call is moved as one that has the return address of the original: exceptions and backtraces find the function they know.
//! It is still a `call` for the processor, so that its stack of return addresses has one entry for each `ret`:
//!
//! ```text
//!     call 1f
//!     int3
//! 1:  mov  dword [rsp], LOW          the address after the original call
//!     mov  dword [rsp + 4], HIGH
//!     jmp  TARGET
//! ```

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, Register};

use crate::table;

/// Bytes of a jump.
const JUMP: usize = 5;
/// The mark of where indirect jumps may go.
const LANDING: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// Why a function stays as it is: one of the `LEFT_...` of the table.
pub(crate) type Left = u64;

/// The moved instructions of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MovedEntry {
    /// Bytes of the function before the jump: a mark of where indirect jumps may go.
    pub(crate) mark: usize,
    /// The bytes that are moved, as they were.
    pub(crate) original: Vec<u8>,
    /// The code that is executed in their place.
    pub(crate) body: Vec<u8>,
    /// Where distances stand in it.
    pub(crate) distances: Vec<u8>,
}

/// The code that a function begins with.
#[derive(Clone, Copy)]
pub(crate) struct EntryCode<'a> {
    /// Its bytes, and what follows up to the next function.
    pub(crate) bytes: &'a [u8],
    /// Bytes of the function itself.
    pub(crate) size: usize,
    /// Its address in the file.
    pub(crate) address: u64,
    /// How far the file's addresses are from those in memory.
    pub(crate) shift: u64,
}

impl EntryCode<'_> {
    /// Moves instructions until a jump has room.
    ///
    /// # Errors
    /// Why that cannot be done.
    pub(crate) fn moved(self) -> Result<MovedEntry, Left> {
        let own = self.bytes.get(..self.size).ok_or(table::LEFT_UNKNOWN)?;
        let mark = if own.starts_with(&LANDING) { LANDING.len() } else { 0 };
        let mut moved = MovedEntry { mark, ..MovedEntry::default() };
        let (mut len, mut is_over) = (0, false);
        while len < JUMP {
            // Bytes after the end are free when nothing but padding stands there.
            let limit = if is_over { self.bytes } else { own };
            let rest = limit.get(mark + len..).filter(|rest| !rest.is_empty()).ok_or(table::LEFT_SHORT)?;
            let at = self.address.wrapping_add((mark + len) as u64);
            let mut decoder = Decoder::with_ip(64, rest, at, DecoderOptions::NONE);
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                return Err(if is_over { table::LEFT_SHORT } else { table::LEFT_UNKNOWN });
            }
            let bytes = &rest[..instruction.len()];
            len += bytes.len();
            if is_over {
                if !matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3) {
                    return Err(table::LEFT_SHORT);
                }
                continue;
            }
            let code = OneInstruction { instruction, bytes, displacement: displacement(&decoder, &instruction) };
            is_over = self.add(&mut moved, &code).ok_or(table::LEFT_FIXED)?;
            // The place that a call returns to must stay.
            let is_call = matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall);
            if is_call && len < JUMP {
                return Err(table::LEFT_FIXED);
            }
        }
        moved.original = self.bytes[mark..mark + len].to_vec();
        if !is_over {
            let rest = self.address.wrapping_add((mark + len) as u64);
            self.add_near(&mut moved, &[0xe9], rest).ok_or(table::LEFT_FIXED)?;
        }
        if moved.body.len() > table::BODY_LEN || moved.original.len() > table::ORIGINAL_LEN {
            return Err(table::LEFT_FIXED);
        }
        Ok(moved)
    }

    /// Adds an instruction. Gives whether what follows is not executed after it; `None` when it cannot be moved.
    fn add(&self, moved: &mut MovedEntry, code: &OneInstruction<'_>) -> Option<bool> {
        let (instruction, bytes) = (&code.instruction, code.bytes);
        // A distance from an address of 32 bits.
        if instruction.memory_base() == Register::EIP {
            return None;
        }
        match (instruction.flow_control(), bytes) {
            (FlowControl::Next, _) => self.add_same(moved, code, bytes).map(|()| false),
            (FlowControl::Return, _) => self.add_same(moved, code, bytes).map(|()| true),
            (FlowControl::IndirectBranch, _) => self.add_same(moved, code, bytes).map(|()| true),
            (FlowControl::UnconditionalBranch, [0xeb | 0xe9, ..]) => {
                self.add_near(moved, &[0xe9], instruction.near_branch_target()).map(|()| true)
            }
            (FlowControl::ConditionalBranch, [short @ 0x70..=0x7f, _]) => {
                self.add_near(moved, &[0x0f, short + 0x10], instruction.near_branch_target()).map(|()| false)
            }
            (FlowControl::ConditionalBranch, [0x0f, near @ 0x80..=0x8f, ..]) => {
                self.add_near(moved, &[0x0f, *near], instruction.near_branch_target()).map(|()| false)
            }
            // The linker fills up with a prefix where a call became shorter.
            (FlowControl::Call, [0xe8, ..] | [0x67, 0xe8, ..]) => {
                self.add_call(moved, instruction.next_ip());
                self.add_near(moved, &[0xe9], instruction.near_branch_target()).map(|()| true)
            }
            (FlowControl::IndirectCall, _) => {
                let at = match bytes {
                    [0xff, ..] => 1,
                    [0x40..=0x4f, 0xff, ..] => 2,
                    _ => return None,
                };
                const OPERATION: u8 = 0x38;
                const CALL: u8 = 2 << 3;
                const JUMP: u8 = 4 << 3;
                // The call has changed the stack by then.
                let is_on_stack = [instruction.memory_base(), instruction.op0_register()].contains(&Register::RSP);
                if bytes[at] & OPERATION != CALL || is_on_stack {
                    return None;
                }
                self.add_call(moved, instruction.next_ip());
                let mut jump = bytes.to_vec();
                jump[at] = jump[at] & !OPERATION | JUMP;
                self.add_same(moved, code, &jump).map(|()| true)
            }
            _ => None,
        }
    }

    /// Adds the bytes of an instruction, which may have a distance to data.
    fn add_same(&self, moved: &mut MovedEntry, code: &OneInstruction<'_>, bytes: &[u8]) -> Option<()> {
        let begin = moved.body.len();
        moved.body.extend_from_slice(bytes);
        if code.instruction.is_ip_rel_memory_operand() {
            let at = begin + code.displacement?;
            let end = moved.body.len();
            let distance = self.distance(moved, code.instruction.ip_rel_memory_address(), end)?;
            moved.body.get_mut(at..at + 4)?.copy_from_slice(&distance);
            // A distance counts from the end of the instruction: a number may follow it.
            moved.distances.push(at as u8);
        }
        Some(())
    }

    /// Adds an instruction with a distance of 32 bits at its end.
    fn add_near(&self, moved: &mut MovedEntry, operation: &[u8], target: u64) -> Option<()> {
        moved.body.extend_from_slice(operation);
        let at = moved.body.len();
        let distance = self.distance(moved, target, at + 4)?;
        moved.body.extend_from_slice(&distance);
        moved.distances.push(at as u8);
        Some(())
    }

    /// The distance from a place in the body, as if it stood at the entry.
    fn distance(&self, moved: &MovedEntry, target: u64, from: usize) -> Option<[u8; 4]> {
        let from = self.address.wrapping_add((moved.mark + from) as u64);
        Some(i32::try_from(target.wrapping_sub(from) as i64).ok()?.to_le_bytes())
    }

    /// Adds a call that has this return address, up to the jump.
    fn add_call(&self, moved: &mut MovedEntry, back: u64) {
        let [a, b, c, d, e, f, g, h] = back.wrapping_add(self.shift).to_le_bytes();
        moved.body.extend_from_slice(&[0xe8, 1, 0, 0, 0, 0xcc]);
        moved.body.extend_from_slice(&[0xc7, 0x04, 0x24, a, b, c, d]);
        moved.body.extend_from_slice(&[0xc7, 0x44, 0x24, 0x04, e, f, g, h]);
    }
}

/// An instruction of a function.
struct OneInstruction<'a> {
    instruction: Instruction,
    bytes: &'a [u8],
    /// Where its distance of 32 bits stands.
    displacement: Option<usize>,
}

fn displacement(decoder: &Decoder<'_>, instruction: &Instruction) -> Option<usize> {
    let places = decoder.get_constant_offsets(instruction);
    (places.has_displacement() && places.displacement_size() == 4).then(|| places.displacement_offset())
}

impl MovedEntry {
    /// The end of the bytes that are overwritten or moved, from the function's address.
    pub(crate) fn end(&self) -> usize {
        self.mark + self.original.len()
    }

    /// As the table has it, for the function at this address in memory.
    pub(crate) fn to_table(&self, address: u64) -> table::FunctionEntry {
        let mut entry = table::FunctionEntry::left(address, self.mark as u64);
        (entry.original_len, entry.body_len) = (self.original.len() as u64, self.body.len() as u64);
        // `moved` has seen that there is room.
        entry.original.iter_mut().zip(&self.original).for_each(|(to, byte)| *to = *byte);
        entry.body.iter_mut().zip(&self.body).for_each(|(to, byte)| *to = *byte);
        entry.distances.iter_mut().zip(&self.distances).for_each(|(to, at)| *to = *at);
        entry
    }
}

/// The stack of a function, as far as it is known while its instructions follow each other.
pub(crate) struct KnownStack {
    /// Bytes below the return address; `None` once that is not known.
    depth: Option<i64>,
    /// `depth` where the frame pointer points to.
    frame: Option<i64>,
}

impl KnownStack {
    /// That of a function that begins.
    pub(crate) fn new() -> KnownStack {
        KnownStack { depth: Some(0), frame: None }
    }

    /// Looks at the next instruction. `false` when it reads or changes the return address, or changes to another stack: a
    /// function that does so may not be given another return address.
    pub(crate) fn next(&mut self, instruction: &Instruction) -> bool {
        let (mnemonic, first) = (instruction.mnemonic(), instruction.op0_register());
        let is_to_stack = first == Register::RSP;
        let switches = match mnemonic {
            Mnemonic::Mov => is_to_stack && instruction.op1_register() != Register::RBP,
            Mnemonic::Xchg => is_to_stack || instruction.op1_register() == Register::RSP,
            Mnemonic::Pop => is_to_stack,
            _ => false,
        };
        let known = match instruction.memory_base() {
            Register::RSP => self.depth,
            Register::RBP => self.frame,
            _ => None,
        };
        let at = instruction.memory_displacement64() as i64;
        let is_return = known == Some(at) && instruction.memory_index() == Register::None;
        let is_odd_end =
            instruction.flow_control() == FlowControl::Return && self.depth.is_some_and(|depth| depth != 0);
        self.advance(instruction);
        !switches && !is_return && !is_odd_end && self.depth.is_none_or(|depth| depth >= 0)
    }

    fn advance(&mut self, instruction: &Instruction) {
        const WORD: i64 = 8;
        let (mnemonic, first) = (instruction.mnemonic(), instruction.op0_register());
        let number = instruction.try_immediate(1).map(|number| number as i64);
        let change = match mnemonic {
            Mnemonic::Push => Some(WORD),
            Mnemonic::Pop => Some(-WORD),
            Mnemonic::Sub if first == Register::RSP => number.ok(),
            Mnemonic::Add if first == Register::RSP => number.ok().map(|number| -number),
            Mnemonic::Mov if first == Register::RBP && instruction.op1_register() == Register::RSP => {
                self.frame = self.depth;
                Some(0)
            }
            _ if matches!(
                instruction.flow_control(),
                FlowControl::Return | FlowControl::UnconditionalBranch | FlowControl::IndirectBranch
            ) =>
            {
                None
            }
            _ if first == Register::RSP => None,
            Mnemonic::Leave | Mnemonic::Enter => None,
            _ => Some(0),
        };
        // Not where the frame pointer is any other register.
        if first == Register::RBP && matches!(mnemonic, Mnemonic::Lea | Mnemonic::Xor | Mnemonic::Movzx) {
            self.frame = None;
        }
        self.depth = self.depth.zip(change).map(|(depth, change)| depth + change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function that begins at 0x1000, and is as long as its bytes without the padding.
    fn moved(own: &[u8], padding: &[u8]) -> Result<MovedEntry, Left> {
        let bytes = [own, padding].concat();
        EntryCode { bytes: &bytes, size: own.len(), address: 0x1000, shift: 0x5555_0000_0000 }.moved()
    }

    /// The bytes that are moved, what is executed, and where each distance leads if the body stood at the entry.
    fn parts(entry: &MovedEntry) -> (usize, &[u8], Vec<u64>) {
        let target = |at: &u8| {
            let at = usize::from(*at);
            let distance = entry.body[at..].first_chunk().map_or(0, |bytes| i32::from_le_bytes(*bytes));
            (0x1000 + entry.mark as u64 + at as u64 + 4).wrapping_add_signed(distance.into())
        };
        (entry.original.len(), &entry.body, entry.distances.iter().map(target).collect())
    }

    #[test]
    fn whole_instructions_are_moved_and_go_on_where_the_rest_is() {
        // push rbp; mov rbp, rsp; sub rsp, 16; leave; ret
        let entry = moved(&[0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0xc9, 0xc3], &[]).expect("it can be moved");
        let (len, body, targets) = parts(&entry);
        assert_eq!(
            (len, &body[..9], targets),
            (8, &[0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0xe9][..], vec![0x1008])
        );
        // endbr64 stays: xor eax, eax; mov edi, 1; ret
        let entry = moved(&[0xf3, 0x0f, 0x1e, 0xfa, 0x31, 0xc0, 0xbf, 1, 0, 0, 0, 0xc3], &[]).expect("it can be moved");
        let (len, _, targets) = parts(&entry);
        assert_eq!((entry.mark, len, targets, entry.end()), (4, 7, vec![0x100b], 11));
    }

    #[test]
    fn distances_are_changed() {
        // mov eax, [rip + 0x100]; ret
        let entry = moved(&[0x8b, 0x05, 0, 1, 0, 0, 0xc3], &[]).expect("it can be moved");
        assert_eq!(parts(&entry).2, [0x1106, 0x1006]);
        // cmp dword [rip + 0x100], 7: a number stands after the distance, which counts from the end.
        let entry = moved(&[0x83, 0x3d, 0, 1, 0, 0, 7, 0xc3], &[]).expect("it can be moved");
        assert_eq!((entry.distances[0], &entry.body[2..7]), (2, &[0, 1, 0, 0, 7][..]));
        // test edi, edi; je +0x10; ret
        let entry = moved(&[0x85, 0xff, 0x74, 0x10, 0x90, 0xc3], &[]).expect("it can be moved");
        let (len, body, targets) = parts(&entry);
        assert_eq!((len, &body[..4], targets), (5, &[0x85, 0xff, 0x0f, 0x84][..], vec![0x1014, 0x1005]));
        // jmp +0x100
        let entry = moved(&[0xe9, 0, 1, 0, 0], &[]).expect("it can be moved");
        assert_eq!(parts(&entry), (5, &[0xe9, 0, 1, 0, 0][..], vec![0x1105]));
    }

    #[test]
    fn calls_have_the_return_address_of_the_original() {
        // sub rsp, 8; call +0x100; add rsp, 8; ret
        let entry =
            moved(&[0x48, 0x83, 0xec, 8, 0xe8, 0, 1, 0, 0, 0x48, 0x83, 0xc4, 8, 0xc3], &[]).expect("it can be moved");
        let (len, body, targets) = parts(&entry);
        assert_eq!((len, targets), (9, vec![0x1109]));
        let back = [&body[13..17], &body[21..25]].concat();
        assert_eq!(back, 0x5555_0000_1009_u64.to_le_bytes());
        // sub rsp, 8; call [rip + 0x100]
        let entry = moved(&[0x48, 0x83, 0xec, 8, 0xff, 0x15, 0, 1, 0, 0, 0xc3], &[]).expect("it can be moved");
        let (len, body, targets) = parts(&entry);
        assert_eq!((len, &body[25..27], targets), (10, &[0xff, 0x25][..], vec![0x110a]));
        // push rbx; mov rbx, rdi; call rax would return into the jump
        assert_eq!(moved(&[0x53, 0x90, 0xff, 0xd0, 0x5b, 0xc3], &[]), Err(table::LEFT_FIXED));
        // sub rsp, 24; call [rsp + 8]: the stack is another one by then
        assert_eq!(moved(&[0x48, 0x83, 0xec, 24, 0xff, 0x54, 0x24, 8, 0xc3], &[]), Err(table::LEFT_FIXED));
    }

    #[test]
    fn short_functions_need_padding() {
        let getter = [0x8b, 0x47, 8, 0xc3];
        assert_eq!(moved(&getter, &[]), Err(table::LEFT_SHORT));
        assert_eq!(moved(&getter, &[0x55, 0x48, 0x89, 0xe5]), Err(table::LEFT_SHORT));
        for padding in [&[0x90][..], &[0xcc, 0xcc], &[0x0f, 0x1f, 0x40, 0]] {
            let entry = moved(&getter, padding).expect("it can be moved");
            assert_eq!(entry.body, getter, "{padding:x?}");
        }
        // Instructions after a return inside of the function are no padding.
        assert_eq!(moved(&[0x31, 0xc0, 0xc3, 0xb0, 1, 0xc3], &[]), Err(table::LEFT_SHORT));
        // Without an end nothing after the function is free.
        assert_eq!(moved(&[0x31, 0xc0], &[0x90; 8]), Err(table::LEFT_SHORT));
    }

    #[test]
    fn what_cannot_be_moved_stays() {
        let refused: [(&[u8], Left); 7] = [
            // jrcxz, loop, int3, syscall, ud2
            (&[0xe3, 0x10, 0x90, 0x90, 0x90, 0xc3], table::LEFT_FIXED),
            (&[0xe2, 0x10, 0x90, 0x90, 0x90, 0xc3], table::LEFT_FIXED),
            (&[0xcc, 0x90, 0x90, 0x90, 0x90, 0xc3], table::LEFT_FIXED),
            (&[0x0f, 0x05, 0x90, 0x90, 0x90, 0xc3], table::LEFT_FIXED),
            (&[0x0f, 0x0b, 0x90, 0x90, 0x90, 0xc3], table::LEFT_FIXED),
            // mov eax, [eip + 0x100]
            (&[0x67, 0x8b, 0x05, 0, 1, 0, 0, 0xc3], table::LEFT_FIXED),
            // No instruction of 64-bit code.
            (&[0x06, 0x90, 0x90, 0x90, 0x90, 0xc3], table::LEFT_UNKNOWN),
        ];
        for (bytes, why) in refused {
            assert_eq!(moved(bytes, &[]), Err(why), "{bytes:x?}");
        }
    }

    #[test]
    fn bytes_of_any_kind_are_moved_or_refused() {
        let mut state = 7_u64;
        for _ in 0..20_000 {
            let mut bytes = [0; 24];
            for byte in &mut bytes {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                *byte = (state >> 56) as u8;
            }
            if let Ok(entry) = moved(&bytes, &[0x90; 4]) {
                assert!(entry.original.len() >= JUMP && entry.body.len() <= table::BODY_LEN, "{bytes:x?}");
                let words = entry.to_table(1).words();
                assert_eq!(table::FunctionEntry::from_words(words).map(|entry| entry.words()), Some(words));
            }
        }
    }

    fn is_usual(code: &[u8]) -> bool {
        let mut stack = KnownStack::new();
        Decoder::with_ip(64, code, 0x1000, DecoderOptions::NONE).iter().all(|instruction| stack.next(&instruction))
    }

    #[test]
    fn functions_that_use_their_return_address_are_seen() {
        // mov rax, [rsp]; ret
        assert!(!is_usual(&[0x48, 0x8b, 0x04, 0x24, 0xc3]));
        // push rbx; sub rsp, 16; mov rax, [rsp + 24], or + 16, which is the saved register
        assert!(!is_usual(&[0x53, 0x48, 0x83, 0xec, 16, 0x48, 0x8b, 0x44, 0x24, 24]));
        assert!(is_usual(&[0x53, 0x48, 0x83, 0xec, 16, 0x48, 0x8b, 0x44, 0x24, 16]));
        // push rbp; mov rbp, rsp; mov rax, [rbp + 8], or + 16, which is an argument
        assert!(!is_usual(&[0x55, 0x48, 0x89, 0xe5, 0x48, 0x8b, 0x45, 8]));
        assert!(is_usual(&[0x55, 0x48, 0x89, 0xe5, 0x48, 0x8b, 0x45, 16]));
        // pop rsi: the first words on the stack, as `_start` takes them
        assert!(!is_usual(&[0x5e, 0x48, 0x89, 0xe2]));
        // mov rsp, rdi; xchg rax, rsp; pop rsp; push rax; ret
        assert!(!is_usual(&[0x48, 0x89, 0xfc]) && !is_usual(&[0x48, 0x94]) && !is_usual(&[0x50, 0x5c]));
        assert!(!is_usual(&[0x50, 0xc3]));
        // push rbp; mov rbp, rsp; sub rsp, rax; mov rsp, rbp; pop rbp; ret
        assert!(is_usual(&[0x55, 0x48, 0x89, 0xe5, 0x48, 0x29, 0xc4, 0x48, 0x89, 0xec, 0x5d, 0xc3]));
    }
}
