//! `.sym` files: the symbols of a module, and which file belongs to which module (`SPEC.md`, section 4).

use std::sync::{Arc, OnceLock};

use tracemill_codec::chunk::Bytes;

/// A symbol of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Symbol<'a> {
    pub address: u64,
    pub size: u64,
    /// Letter of its type: `T`, `t`, `w` functions; `P` an entry of the procedure linkage table; `D`, `d`, `v`, `u`
    /// data; `K` the kernel's.
    pub kind: u8,
    /// Name as it is stored.
    pub name: &'a str,
}

/// The symbols of a module, sorted by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Symbols {
    /// All names, one after the other: an allocation for each would be most of the cost of reading them.
    names: String,
    all: Vec<StoredSymbol>,
}

/// A symbol, its name being a part of the text of all names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StoredSymbol {
    address: u64,
    size: u64,
    name_at: usize,
    name_len: u32,
    kind: u8,
    has_size: bool,
    /// Does it end a part of the list? It is none then.
    is_end: bool,
}

/// Names that end a part of the list, whatever their type.
const END_MARKERS: [&str; 3] = ["__sym_end", "__dynsym_end", "__func_end"];

impl Symbols {
    /// Reads a `.sym` file. Lines that are none are passed over: it is the output of other tools.
    pub(super) fn read(bytes: &[u8]) -> Symbols {
        // As many as lines of the usual length.
        let mut symbols = Symbols { names: String::new(), all: Vec::with_capacity(bytes.len() / 32) };
        symbols.names.reserve(bytes.len() / 2);
        // One look at the whole text costs less than one at each line.
        let text = std::str::from_utf8(bytes);
        let mut from = 0;
        for to in memchr::memchr_iter(b'\n', bytes).chain([bytes.len()]) {
            let line = match text {
                Ok(text) => text.get(from..to),
                Err(_) => std::str::from_utf8(&bytes[from..to]).ok(),
            };
            line.and_then(|line| symbols.line(line));
            from = to + 1;
        }
        let all = &mut symbols.all;
        if !all.is_sorted_by_key(|symbol| symbol.address) {
            all.sort_by_key(|symbol| symbol.address);
        }
        // Up to the next address; what stands after the last one is unknown.
        let (mut next, mut behind) = (None, None);
        for symbol in all.iter_mut().rev() {
            if behind != Some(symbol.address) {
                (next, behind) = (behind, Some(symbol.address));
            }
            if !symbol.has_size {
                symbol.size = next.map_or(0, |next: u64| next - symbol.address);
            }
        }
        all.retain(|symbol| !symbol.is_end);
        symbols
    }

    /// Takes a line `ADDRESS [SIZE] TYPE NAME`.
    fn line(&mut self, line: &str) -> Option<()> {
        let (address, mut at) = hexadecimal(line.as_bytes())?;
        let mut size = None;
        if line.as_bytes().get(at)?.is_ascii_digit() {
            let (number, len) = hexadecimal(line.as_bytes().get(at..)?)?;
            (size, at) = (Some(number), at + len);
        }
        let &[kind, b' ', ..] = line.as_bytes().get(at..)? else { return None };
        if !b"TtwPKDdvu?".contains(&kind) {
            return None;
        }
        let name = line.get(at + 2..)?;
        let name = name.bytes().position(|byte| byte == b'\t').map_or(name, |end| &name[..end]);
        let name_len = u32::try_from(name.len()).ok()?;
        let is_end = kind == b'?' || (name.starts_with("__") && END_MARKERS.contains(&name));
        // Of several names at one place the first wins.
        let is_same = |last: &StoredSymbol| !last.is_end && !is_end && last.address == address && last.kind == kind;
        let same = self.all.last().copied().filter(is_same);
        if same.is_some_and(|last| !is_better(name, self.name(&last))) {
            return None;
        }
        let name_at = self.names.len();
        self.names.push_str(name);
        match self.all.last_mut().filter(|_| same.is_some()) {
            Some(last) => (last.name_at, last.name_len) = (name_at, name_len),
            None => {
                let (size, has_size) = (size.unwrap_or(0), size.is_some());
                self.all.push(StoredSymbol { address, size, name_at, name_len, kind, has_size, is_end });
            }
        }
        Some(())
    }

    fn name(&self, symbol: &StoredSymbol) -> &str {
        self.names.get(symbol.name_at..symbol.name_at + symbol.name_len as usize).unwrap_or("")
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// A symbol by its index.
    pub(super) fn get(&self, at: usize) -> Option<Symbol<'_>> {
        self.all.get(at).map(|symbol| self.to_symbol(symbol))
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = Symbol<'_>> {
        self.all.iter().map(|symbol| self.to_symbol(symbol))
    }

    fn to_symbol(&self, symbol: &StoredSymbol) -> Symbol<'_> {
        Symbol { address: symbol.address, size: symbol.size, kind: symbol.kind, name: self.name(symbol) }
    }

    /// The symbol that covers an address, by its index.
    pub(super) fn find(&self, address: u64) -> Option<usize> {
        let covers = |at: usize| self.all.get(at).is_some_and(|symbol| address - symbol.address < symbol.size);
        let at = self.all.partition_point(|symbol| symbol.address <= address).checked_sub(1)?;
        if covers(at) {
            // Of several symbols at one address the first in the file.
            let address = self.all[at].address;
            let first = self.all[..at].iter().rposition(|symbol| symbol.address != address).map_or(0, |at| at + 1);
            return (first..=at).find(|&at| covers(at));
        }
        // Symbols overlap where sizes are stored: a small one may stand inside of a large one.
        (at.saturating_sub(MAX_NESTED)..at).rev().find(|&at| covers(at))
    }
}

/// The symbols of a file that is read when one of them is asked for: most libraries of a program are never called.
#[derive(Default)]
pub(super) struct SymbolFile {
    text: Option<Arc<dyn Bytes>>,
    /// Its lines: no less than symbols.
    lines: usize,
    symbols: OnceLock<Symbols>,
}

impl SymbolFile {
    pub(super) fn new(text: Arc<dyn Bytes>) -> Self {
        let lines = memchr::memchr_iter(b'\n', text.bytes()).count() + 1;
        SymbolFile { text: Some(text), lines, symbols: OnceLock::new() }
    }

    /// There are at most so many symbols.
    pub(super) fn max_len(&self) -> usize {
        self.lines
    }

    /// The symbols.
    pub(super) fn get(&self) -> &Symbols {
        self.symbols.get_or_init(|| {
            let mut symbols = self.text.as_ref().map(|text| Symbols::read(text.bytes())).unwrap_or_default();
            // The file may have been rewritten meanwhile.
            symbols.all.truncate(self.lines);
            symbols
        })
    }
}

impl std::fmt::Debug for SymbolFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SymbolFile").field("lines", &self.lines).finish_non_exhaustive()
    }
}

/// A hexadecimal number of at most 64 bits at the beginning of a text, and where it goes on after the blank that
/// follows.
fn hexadecimal(text: &[u8]) -> Option<(u64, usize)> {
    let mut number = 0u64;
    for (at, &byte) in text.iter().enumerate() {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            b' ' if at > 0 => return Some((number, at + 1)),
            _ => return None,
        };
        if number >> 60 != 0 {
            return None;
        }
        number = number << 4 | u64::from(digit);
    }
    None
}

/// System calls of the kernel have several names; this says which second one is taken.
fn is_better(name: &str, first: &str) -> bool {
    let is_pair = |own: &str, other: &str| matches!((name.strip_prefix(own), first.strip_prefix(other)), (Some(a), Some(b)) if a == b);
    is_pair("sys_", "SyS_") || is_pair("__x64", "__ia32")
}

/// Symbols before an address that are looked at for one that covers it.
const MAX_NESTED: usize = 8;

/// The comments at the beginning of a `.sym` or `.dbg` file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FileHeader {
    pub path: Option<String>,
    pub build_id: Option<String>,
}

impl FileHeader {
    /// Reads the comments.
    pub(super) fn read(bytes: &[u8]) -> FileHeader {
        let mut header = FileHeader::default();
        for line in bytes.split(|&byte| byte == b'\n').take_while(|line| line.first() == Some(&b'#')) {
            let line = String::from_utf8_lossy(line);
            if let Some(path) = line.strip_prefix("# path name: ") {
                header.path = Some(path.trim_end().to_string());
            } else if let Some(id) = line.strip_prefix("# build-id: ") {
                header.build_id = Some(id.trim().to_string());
            }
        }
        header
    }

    fn contradicts(&self, build_id: Option<&str>) -> bool {
        matches!((&self.build_id, build_id), (Some(own), Some(other)) if own != other)
    }

    fn has_path(&self, path: &str) -> bool {
        self.path.as_deref().is_some_and(|own| tidy(own) == tidy(path))
    }
}

/// A path without `./`.
fn tidy(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|&part| part != ".").collect();
    parts.join("/")
}

/// The last component of a path.
pub(super) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The file for the module `path`, by its index, among those of its base name: their names and headers. The program
/// computes a suffix from the module itself, which is elsewhere now, so the headers decide.
pub(super) fn choose(
    path: &str,
    build_id: Option<&str>,
    extension: &str,
    files: &[(String, FileHeader)],
) -> Option<usize> {
    let base = base_name(path);
    let plain = format!("{base}.{extension}");
    let is_suffixed = |name: &str| {
        let rest = name.strip_prefix(base).and_then(|rest| rest.strip_prefix('-'));
        let suffix = rest.and_then(|rest| rest.strip_suffix(extension)).and_then(|rest| rest.strip_suffix('.'));
        suffix.is_some_and(|suffix| suffix.len() == 4 && suffix.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    let candidates = || files.iter().enumerate().filter(|(_, (name, _))| *name == plain || is_suffixed(name));
    let fits = |header: &FileHeader| !header.contradicts(build_id);
    let exact = candidates().find(|(_, (_, header))| header.has_path(path) && fits(header));
    let by_id =
        || candidates().find(|(_, (_, header))| header.build_id.is_some() && header.build_id.as_deref() == build_id);
    // A relative path is what the caller of dlopen wrote.
    let by_tail = || {
        let tail = format!("/{}", tidy(path).trim_start_matches('/'));
        let ends = |header: &FileHeader| header.path.as_deref().is_some_and(|own| tidy(own).ends_with(&tail));
        candidates().find(|(_, (_, header))| !path.starts_with('/') && ends(header) && fits(header))
    };
    let without_header = || candidates().find(|(_, (_, header))| header.path.is_none() && fits(header));
    // One file of the name, and nothing that speaks against it but another folder.
    let only = || candidates().next().filter(|(_, (_, header))| candidates().count() == 1 && fits(header));
    exact.or_else(by_id).or_else(by_tail).or_else(without_header).or_else(only).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_come_from_the_next_address_or_the_column() {
        let text = "# symbols: 5\n# path name: /srv/a\n0000000000001000 P free\n0000000000001010 T main\n\
            0000000000001010 T alias\n0000000000001040 t odd\n0000000000001050 ? __sym_end\n0000000000002000 r skipped\n\
            0000000000003000 00000010 T sized\n0000000000004000 D last\tx\n\u{1}garbage\n";
        let symbols = Symbols::read(text.as_bytes());
        let name = |address| symbols.find(address).and_then(|at| symbols.get(at)).map(|symbol| symbol.name);
        assert_eq!(symbols.len(), 5);
        assert_eq!(
            (name(0x100f), name(0x1010), name(0x104f), name(0x1050)),
            (Some("free"), Some("main"), Some("odd"), None)
        );
        assert_eq!((name(0x300f), name(0x3010)), (Some("sized"), None));
        assert_eq!(
            (name(0x4000), symbols.get(4).map(|symbol| symbol.name)),
            (None, Some("last")),
            "nothing says where the last one ends"
        );
    }

    #[test]
    fn symbols_that_overlap_are_found() {
        let symbols = Symbols::read(b"1000 00000100 T big\n1010 00000008 T small\n");
        let name = |address| symbols.find(address).and_then(|at| symbols.get(at)).map(|symbol| symbol.name);
        assert_eq!(
            (name(0x1014), name(0x1018), name(0x10ff), name(0x1100)),
            (Some("small"), Some("big"), Some("big"), None)
        );
    }

    #[test]
    fn libraries_of_one_name_are_told_apart_by_their_headers() {
        let header = |path: &str, id: Option<&str>| FileHeader {
            path: Some(path.to_string()),
            build_id: id.map(str::to_string),
        };
        let files = [
            ("libp.so.sym".to_string(), header("/srv/a/libp.so", Some("aa"))),
            ("libp.so-66ad.sym".to_string(), header("/srv/b/libp.so", Some("66ad"))),
        ];
        assert_eq!(choose("/srv/a/libp.so", None, "sym", &files), Some(0));
        assert_eq!(choose("/srv/b/libp.so", None, "sym", &files), Some(1));
        assert_eq!(choose("./b/libp.so", None, "sym", &files), Some(1));
        assert_eq!(choose("/srv/c/libp.so", Some("66ad"), "sym", &files), Some(1));
        assert_eq!(choose("/srv/c/libp.so", Some("77"), "sym", &files), None);
        assert_eq!(choose("/srv/a/libq.so", None, "sym", &files), None);
    }
}
