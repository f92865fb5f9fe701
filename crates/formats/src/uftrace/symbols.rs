//! `.sym` files: the symbols of a module, and which file belongs to which module (note, section 4).

/// A symbol of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Symbol {
    pub address: u64,
    pub size: u64,
    /// Letter of its type: `T`, `t`, `w` functions; `P` an entry of the procedure linkage table; `D`, `d`, `v`, `u` data;
    /// `K` the kernel's.
    pub kind: u8,
    /// Name as it is stored.
    pub name: Box<str>,
}

/// The symbols of a module, sorted by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Symbols(pub Vec<Symbol>);

/// Names that end a part of the list, whatever their type.
const END_MARKERS: [&str; 3] = ["__sym_end", "__dynsym_end", "__func_end"];

impl Symbols {
    /// Reads a `.sym` file. Lines that are none are passed over: it is the output of other tools.
    pub(super) fn read(bytes: &[u8]) -> Symbols {
        // As many as lines of the usual length.
        let mut all: Vec<(Symbol, bool, bool)> = Vec::with_capacity(bytes.len() / 32);
        let mut rest = bytes;
        while !rest.is_empty() {
            let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            let line = &rest[..end];
            rest = rest.get(end + 1..).unwrap_or(&[]);
            let Ok(line) = std::str::from_utf8(line) else { continue };
            if let Some((symbol, has_size)) = symbol(line) {
                let is_end = symbol.kind == b'?' || END_MARKERS.contains(&&*symbol.name);
                // Of several names at one place the first wins.
                let is_same = all.last().is_some_and(|(last, _, was_end)| {
                    !was_end && !is_end && last.address == symbol.address && last.kind == symbol.kind
                });
                if !is_same {
                    all.push((symbol, has_size, is_end));
                } else if let Some((last, ..)) = all.last_mut()
                    && is_better(&symbol.name, &last.name)
                {
                    last.name = symbol.name;
                }
            }
        }
        if !all.is_sorted_by_key(|(symbol, ..)| symbol.address) {
            all.sort_by_key(|(symbol, ..)| symbol.address);
        }
        // Up to the next address; what stands behind the last one is unknown.
        let (mut next, mut behind) = (None, None);
        for (symbol, has_size, _) in all.iter_mut().rev() {
            if behind != Some(symbol.address) {
                (next, behind) = (behind, Some(symbol.address));
            }
            if !*has_size {
                symbol.size = next.map_or(0, |next: u64| next - symbol.address);
            }
        }
        let mut symbols = Vec::with_capacity(all.len());
        symbols.extend(all.into_iter().filter(|(_, _, is_end)| !is_end).map(|(symbol, ..)| symbol));
        Symbols(symbols)
    }

    /// The symbol that covers an address, by its index.
    pub(super) fn find(&self, address: u64) -> Option<usize> {
        let covers = |at: usize| self.0.get(at).is_some_and(|symbol| address - symbol.address < symbol.size);
        let at = self.0.partition_point(|symbol| symbol.address <= address).checked_sub(1)?;
        if covers(at) {
            // Of several symbols at one address the first in the file.
            let address = self.0[at].address;
            let first = self.0[..at].iter().rposition(|symbol| symbol.address != address).map_or(0, |at| at + 1);
            return (first..=at).find(|&at| covers(at));
        }
        // Symbols overlap where sizes are stored: a small one may stand inside of a large one.
        (at.saturating_sub(MAX_NESTED)..at).rev().find(|&at| covers(at))
    }
}

/// System calls of the kernel have several names; this says which second one is taken.
fn is_better(name: &str, first: &str) -> bool {
    let is_pair = |own: &str, other: &str| matches!((name.strip_prefix(own), first.strip_prefix(other)), (Some(a), Some(b)) if a == b);
    is_pair("sys_", "SyS_") || is_pair("__x64", "__ia32")
}

/// Symbols before an address that are looked at for one that covers it.
const MAX_NESTED: usize = 8;

/// A line `ADDRESS [SIZE] TYPE NAME`, and whether it has a size.
fn symbol(line: &str) -> Option<(Symbol, bool)> {
    if line.starts_with('#') {
        return None;
    }
    let (address, rest) = line.split_once(' ')?;
    let address = u64::from_str_radix(address, 16).ok()?;
    let (size, rest) = match rest.bytes().next()? {
        b'0'..=b'9' => {
            let (size, rest) = rest.split_once(' ')?;
            (Some(u64::from_str_radix(size, 16).ok()?), rest)
        }
        _ => (None, rest),
    };
    let (kind, name) = rest.split_once(' ')?;
    let &[kind] = kind.as_bytes() else { return None };
    if !b"TtwPKDdvu?".contains(&kind) {
        return None;
    }
    let name = memchr::memchr(b'\t', name.as_bytes()).map_or(name, |end| &name[..end]);
    let symbol = Symbol { address, size: size.unwrap_or(0), kind, name: name.into() };
    Some((symbol, size.is_some()))
}

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

/// The file for the module `path` among those of its base name: their names and headers. The program computes a suffix
/// from the module itself, which is elsewhere now, so the headers decide.
pub(super) fn choose<'a>(
    path: &str,
    build_id: Option<&str>,
    extension: &str,
    files: &'a [(String, FileHeader)],
) -> Option<&'a str> {
    let base = base_name(path);
    let plain = format!("{base}.{extension}");
    let is_suffixed = |name: &str| {
        let rest = name.strip_prefix(base).and_then(|rest| rest.strip_prefix('-'));
        let suffix = rest.and_then(|rest| rest.strip_suffix(extension)).and_then(|rest| rest.strip_suffix('.'));
        suffix.is_some_and(|suffix| suffix.len() == 4 && suffix.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    let candidates = || files.iter().filter(|(name, _)| *name == plain || is_suffixed(name));
    let fits = |header: &FileHeader| !header.contradicts(build_id);
    let exact = candidates().find(|(_, header)| header.has_path(path) && fits(header));
    let by_id = || candidates().find(|(_, header)| header.build_id.is_some() && header.build_id.as_deref() == build_id);
    // A relative path is what the caller of dlopen wrote.
    let by_tail = || {
        let tail = format!("/{}", tidy(path).trim_start_matches('/'));
        let ends = |header: &FileHeader| header.path.as_deref().is_some_and(|own| tidy(own).ends_with(&tail));
        candidates().find(|(_, header)| !path.starts_with('/') && ends(header) && fits(header))
    };
    let without_header = || candidates().find(|(_, header)| header.path.is_none() && fits(header));
    // One file of the name, and nothing that speaks against it but another folder.
    let only = || candidates().next().filter(|(_, header)| candidates().count() == 1 && fits(header));
    exact.or_else(by_id).or_else(by_tail).or_else(without_header).or_else(only).map(|(name, _)| name.as_str())
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
        let name = |address| symbols.find(address).map(|at| &*symbols.0[at].name);
        assert_eq!(symbols.0.len(), 5);
        assert_eq!(
            (name(0x100f), name(0x1010), name(0x104f), name(0x1050)),
            (Some("free"), Some("main"), Some("odd"), None)
        );
        assert_eq!((name(0x300f), name(0x3010)), (Some("sized"), None));
        assert_eq!((name(0x4000), &*symbols.0[4].name), (None, "last"), "nothing says where the last one ends");
    }

    #[test]
    fn symbols_that_overlap_are_found() {
        let symbols = Symbols::read(b"1000 00000100 T big\n1010 00000008 T small\n");
        let name = |address| symbols.find(address).map(|at| &*symbols.0[at].name);
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
        assert_eq!(choose("/srv/a/libp.so", None, "sym", &files), Some("libp.so.sym"));
        assert_eq!(choose("/srv/b/libp.so", None, "sym", &files), Some("libp.so-66ad.sym"));
        assert_eq!(choose("./b/libp.so", None, "sym", &files), Some("libp.so-66ad.sym"));
        assert_eq!(choose("/srv/c/libp.so", Some("66ad"), "sym", &files), Some("libp.so-66ad.sym"));
        assert_eq!(choose("/srv/c/libp.so", Some("77"), "sym", &files), None);
        assert_eq!(choose("/srv/a/libq.so", None, "sym", &files), None);
    }
}
