//! From addresses to symbols: the modules of a trace, and what stood where for a task at a time.
//!
//! Every symbol of every module has one number, its *symbol id*, and so has "no symbol of this module"; id 0 is an
//! address of no module. Events carry the id; names are made when somebody wants to see them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracemill_codec::bits::u32_at;
use tracemill_model::schema::{ByteOrder, Render};

use super::debug::DebugInfo;
use super::maps::Map;
use super::symbols::{Symbol, SymbolFile, base_name};
use super::tasks::Tasks;
use tracemill_format::demangle::simple_name;

/// A file of code: the program or a library.
#[derive(Debug, Default)]
pub(super) struct Module {
    /// Path as the map has it.
    pub path: String,
    pub build_id: Option<String>,
    pub symbols: SymbolFile,
    /// Name of the file of its symbols, `None` when there is none.
    pub symbol_file: Option<String>,
    pub debug: DebugInfo,
    /// Id of "no symbol of this module"; its symbols follow.
    first_id: u32,
    /// Has somebody been told that the file of symbols is missing?
    is_told: AtomicBool,
}

impl Module {
    pub(super) fn new(path: String, build_id: Option<String>) -> Module {
        Module { path, build_id, ..Module::default() }
    }

    /// Its name for people.
    pub(super) fn name(&self) -> &str {
        base_name(&self.path)
    }

    /// True the first time it is asked of a module without symbols.
    pub(super) fn is_untold(&self) -> bool {
        self.symbol_file.is_none() && !self.is_told.swap(true, Ordering::Relaxed)
    }
}

/// The address space of a session.
#[derive(Debug, Default)]
pub(super) struct Space {
    pub map: Map,
    /// The module of each mapping.
    pub modules: Vec<usize>,
    /// Libraries that were loaded later: time, base, module; sorted by time.
    pub loaded: Vec<(u64, u64, usize)>,
}

/// All names of a trace.
#[derive(Debug)]
pub(super) struct SymbolNames {
    pub modules: Vec<Module>,
    pub tasks: Tasks,
    /// By session.
    pub spaces: Vec<Space>,
    /// The module of the kernel's symbols.
    pub kernel: Option<usize>,
    /// Are addresses in symbol files relative to their module?
    pub is_relative: bool,
    /// Are addresses of 64 bits, so that bit 47 goes on to the left?
    pub is_64_bit: bool,
}

impl SymbolNames {
    /// Gives each module as many numbers as it may have symbols.
    pub(super) fn number(&mut self) {
        let mut next = 1u32;
        for module in &mut self.modules {
            module.first_id = next;
            next = next.saturating_add(1).saturating_add(module.symbols.max_len() as u32);
        }
    }

    /// How many ids there are.
    pub(super) fn id_count(&self) -> usize {
        self.modules.iter().map(|module| module.symbols.max_len() + 1).sum::<usize>() + 1
    }

    /// The module of an id.
    pub(super) fn module(&self, id: u32) -> Option<&Module> {
        let at = self.modules.partition_point(|module| module.first_id <= id).checked_sub(1)?;
        self.modules.get(at)
    }

    /// The symbol of an id.
    pub(super) fn symbol(&self, id: u32) -> Option<Symbol<'_>> {
        let module = self.module(id)?;
        module.symbols.get().get((id - module.first_id).checked_sub(1)? as usize)
    }

    /// The id of a symbol of a module.
    pub(super) fn id(&self, module: usize, symbol: Option<usize>) -> u32 {
        self.modules[module].first_id + symbol.map_or(0, |at| at as u32 + 1)
    }

    /// The id of an address for a task at a time.
    pub(super) fn id_at(&self, tid: i64, time: u64, address: u64) -> u32 {
        self.find(self.tasks.session_at(tid, time), time, address)
    }

    /// The id of an address of the kernel.
    pub(super) fn kernel_id(&self, address: u64) -> u32 {
        let Some(kernel) = self.kernel else { return 0 };
        self.id(kernel, self.modules[kernel].symbols.get().find(address))
    }

    /// The id of an address in a session at a time.
    fn find(&self, session: Option<usize>, time: u64, address: u64) -> u32 {
        let Some(space) = session.and_then(|session| self.spaces.get(session)) else { return 0 };
        if address >= space.map.kernel_base {
            return self.kernel_id(address);
        }
        let relative = |base: u64| if self.is_relative { address.wrapping_sub(base) } else { address };
        if let Some(at) = space.map.find(address) {
            let module = space.modules[at];
            let symbol = self.modules[module].symbols.get().find(relative(space.map.mappings[at].start));
            return self.id(module, symbol);
        }
        let loaded = space.loaded.iter().rev().filter(|&&(from, base, _)| from <= time && base <= address);
        for &(_, base, module) in loaded {
            if let Some(symbol) = self.modules[module].symbols.get().find(relative(base)) {
                return self.id(module, Some(symbol));
            }
        }
        0
    }
}

/// Finds the symbols of the records of one task; remembers what it found.
pub(super) struct SymbolResolver<'a> {
    names: &'a SymbolNames,
    tid: i64,
    session: Option<usize>,
    /// Libraries of the session that were loaded by then.
    loaded: usize,
    /// The name holds from the first of these times, before the second.
    valid: (u64, u64),
    cache: Box<[(u64, u32); CACHE]>,
    /// Ids of "no symbol" in modules that have no file of symbols.
    pub(super) unresolved: Vec<u32>,
}

/// Entries of the cache: a power of two.
const CACHE: usize = 1024;
/// No address: records have 48 bits of one.
const EMPTY: u64 = 0x0001_0000_0000_0000;

impl<'a> SymbolResolver<'a> {
    pub(super) fn new(names: &'a SymbolNames, tid: i64) -> Self {
        SymbolResolver {
            names,
            tid,
            session: None,
            loaded: 0,
            valid: (1, 0),
            cache: Box::new([(EMPTY, 0); CACHE]),
            unresolved: Vec::new(),
        }
    }

    /// The id of an address at a time.
    #[inline]
    pub(super) fn id(&mut self, time: u64, address: u64) -> u32 {
        if time < self.valid.0 || time >= self.valid.1 {
            self.move_to(time);
        }
        let slot = ((address ^ address >> 10) as usize) % CACHE;
        let (known, id) = self.cache[slot];
        if known == address {
            return id;
        }
        self.resolve(slot, time, address)
    }

    #[cold]
    fn resolve(&mut self, slot: usize, time: u64, address: u64) -> u32 {
        let id = self.names.find(self.session, time, address);
        let is_bare = |module: &Module| module.symbol_file.is_none() && module.first_id == id;
        if self.names.module(id).is_some_and(is_bare) && !self.unresolved.contains(&id) {
            self.unresolved.push(id);
        }
        self.cache[slot] = (address, id);
        id
    }

    /// The name of a symbol for people.
    pub(super) fn symbol_name(&self, id: u32) -> Option<String> {
        self.names.symbol(id).map(|symbol| simple_name(symbol.name))
    }

    #[cold]
    fn move_to(&mut self, time: u64) {
        self.valid = self.names.tasks.unchanged_around(time);
        let session = self.names.tasks.session_at(self.tid, time);
        let space = session.and_then(|session| self.names.spaces.get(session));
        let loaded = space.map_or(0, |space| space.loaded.partition_point(|&(from, ..)| from <= time));
        if (session, loaded) != (self.session, self.loaded) {
            (self.session, self.loaded) = (session, loaded);
            self.cache.fill((EMPTY, 0));
        }
    }
}

/// Shows the symbol whose id the field holds.
#[derive(Debug)]
pub(super) struct SymbolText(pub Arc<SymbolNames>);

impl Render for SymbolText {
    fn render(&self, _event: &[u8], own: &[u8], out: &mut Vec<u8>) -> bool {
        let symbol = symbol_of(&self.0, own);
        symbol.inspect(|symbol| out.extend_from_slice(symbol.name.as_bytes())).is_some()
    }

    fn render_for_people(&self, _event: &[u8], own: &[u8], out: &mut Vec<u8>) -> bool {
        let symbol = symbol_of(&self.0, own);
        symbol.inspect(|symbol| out.extend_from_slice(simple_name(symbol.name).as_bytes())).is_some()
    }
}

/// Shows the module of the symbol whose id stands at a place of the event.
#[derive(Debug)]
pub(super) struct ModuleText(pub Arc<SymbolNames>, pub usize);

impl Render for ModuleText {
    fn render(&self, event: &[u8], _own: &[u8], out: &mut Vec<u8>) -> bool {
        let module = id_at(event, self.1).and_then(|id| self.0.module(id));
        module.inspect(|module| out.extend_from_slice(module.name().as_bytes())).is_some()
    }
}

fn id_at(bytes: &[u8], at: usize) -> Option<u32> {
    u32_at(bytes, at, ByteOrder::Little).filter(|&id| id > 0)
}

fn symbol_of<'a>(names: &'a SymbolNames, own: &[u8]) -> Option<Symbol<'a>> {
    names.symbol(id_at(own, 0)?)
}
