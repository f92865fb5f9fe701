//! Code that processes had mapped, as formats with samples offer it: from an address to a file and a place in it.

/// Where the code of a module comes from.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum CodeKind {
    /// A file that a process mapped.
    File,
    /// Memory without a file, where programs put code that they make themselves.
    Memory,
    /// The kernel without its modules. A symbol of it, and its address when it was recorded: it may be elsewhere after each boot.
    Kernel {
        /// Name of the symbol, such as `_text`.
        symbol: String,
        /// Its address.
        address: u64,
    },
    /// A module of the kernel.
    KernelModule,
    /// A single function, whose name is the path: programs that were loaded into the kernel.
    Function,
}

/// A file of code, or code without a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodeModule {
    /// Its path on the machine that was recorded, or a name in brackets.
    pub path: String,
    /// Its build id, where the recording has it.
    pub build_id: Option<Vec<u8>>,
    /// Where the code comes from.
    pub kind: CodeKind,
}

impl CodeModule {
    /// The name without folders.
    pub fn short_name(&self) -> &str {
        match self.kind {
            CodeKind::File | CodeKind::KernelModule => self.path.rsplit('/').next().unwrap_or(&self.path),
            _ => &self.path,
        }
    }
}

/// The place of an address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CodePlace {
    /// Index of its module in [`CodeMaps::modules`].
    pub module: u32,
    /// Offset in the file; from the beginning of the map where there is no file.
    pub offset: u64,
    /// The address.
    pub address: u64,
}

/// A machine whose stacks can be followed by copies of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CodeMachine {
    /// x86-64.
    X86_64,
    /// 64-bit Arm, little-endian.
    Aarch64,
}

/// Where the registers by which a stack is followed are among those of a sample: indexes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SampleRegisters {
    /// The machine.
    pub machine: CodeMachine,
    /// The value by which samples say that their registers are of this machine's own code, not of an older one's.
    pub abi: u64,
    /// The address of the code.
    pub instruction: usize,
    /// The stack pointer.
    pub stack: usize,
    /// The frame pointer.
    pub frame: usize,
    /// The return address, where the machine has it in a register.
    pub link: Option<usize>,
}

/// The code that processes had mapped, at all times of a trace.
pub trait CodeMaps: Send + Sync {
    /// All files and other sources of code.
    fn modules(&self) -> &[CodeModule];

    /// The place of an address in a process at a clock value; `None` when nothing is known to be there.
    fn place(&self, process: i64, cycles: u64, address: u64) -> Option<CodePlace>;

    /// How many build ids of modules are in no event of the trace.
    fn build_ids_beside_events(&self) -> u64 {
        0
    }
}
