//! `sid-X.map`: where the files of a session lie in its address space (`SPEC.md`, section 3).

use tracemill_model::error::Error;

use super::lines::read_lines;

/// A file in the address space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MappedFile {
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    pub path: String,
    pub build_id: Option<String>,
}

/// The map of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Map {
    /// Sorted by start.
    pub mappings: Vec<MappedFile>,
    /// Addresses from here on are the kernel's.
    pub kernel_base: u64,
}

/// The base of the kernel where no map says where the stack is.
const DEFAULT_KERNEL_BASE: u64 = 0xffff_8000_0000_0000;
/// Limits of the stack's address, and the base of the kernel for stacks below each.
const KERNEL_BASES: [(u64, u64); 7] = [
    (0x4000_0000, 0x4000_0000),
    (0x8000_0000, 0x8000_0000),
    (0xb000_0000, 0xb000_0000),
    (0xc000_0000, 0xc000_0000),
    (1 << 39, 0xffff_ff80_0000_0000),
    (1 << 42, 0xffff_fc00_0000_0000),
    (1 << 47, 0xffff_8000_0000_0000),
];

impl Default for Map {
    fn default() -> Self {
        Map { mappings: Vec::new(), kernel_base: DEFAULT_KERNEL_BASE }
    }
}

impl Map {
    /// Reads the file. Lines that cannot be read are warnings.
    pub(super) fn read(bytes: &[u8]) -> (Map, Vec<Error>) {
        let mut map = Map::default();
        let warnings = read_lines(bytes, "a line that is not a line of a map of addresses", |line| {
            let line = line.trim_end();
            if line.is_empty() { Some(()) } else { map.line(line) }
        });
        map.mappings.sort_by_key(|mapping| mapping.start);
        (map, warnings)
    }

    fn line(&mut self, text: &str) -> Option<()> {
        let mut words = text.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let (start, end) = (number(start)?, number(end)?);
        let (_protection, _offset, _device, _inode) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let Some(path) = words.next() else { return Some(()) };
        if path == "[stack]" {
            let known = KERNEL_BASES.iter().find(|(limit, _)| start < *limit);
            self.kernel_base = known.map_or(0xffff_0000_0000_0000, |&(_, base)| base);
            return Some(());
        }
        if path.starts_with('[') {
            return Some(());
        }
        let build_id = words.find_map(|word| word.strip_prefix("build-id:")).map(str::to_string);
        match self.mappings.last_mut() {
            // Files that were not merged: a run of lines of one path is one range.
            Some(last) if last.path == path => {
                last.end = end;
                last.build_id = last.build_id.take().or(build_id);
            }
            _ => self.mappings.push(MappedFile { start, end, path: path.to_string(), build_id }),
        }
        Some(())
    }

    /// The file at an address, by its index.
    pub(super) fn find(&self, address: u64) -> Option<usize> {
        let at = self.mappings.partition_point(|mapping| mapping.start <= address).checked_sub(1)?;
        (address < self.mappings[at].end).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_a_path_are_one_range() {
        let text = "00400000-00401000 r-xp 00000000 08:03 4096 /srv/abc\n\
            00600000-00601000 r--p 00000000 08:03 4096 /srv/abc\n\
            00602000-00603000 rw-p 00000000 00:00 0\n\
            00610000-00611000 rw-p 00001000 08:03 4096 /srv/abc\n\
            7f0000000000-7f0000001000 r-xp 0 0:0 0 /lib/a b.so build-id:00ff\n\
            7ffc00000000-7ffc00021000 rw-p 0 0:0 0 [stack]\n\
            nonsense\n";
        let (map, warnings) = Map::read(text.as_bytes());
        assert_eq!(map.mappings.len(), 2);
        assert_eq!((map.mappings[0].start, map.mappings[0].end), (0x40_0000, 0x61_1000));
        assert_eq!((map.mappings[1].path.as_str(), map.mappings[1].build_id.as_deref()), ("/lib/a", Some("00ff")));
        assert_eq!(map.kernel_base, 0xffff_8000_0000_0000);
        assert_eq!((map.find(0x60_1234), map.find(0x61_1000), map.find(0)), (Some(0), None, None));
        assert_eq!(warnings[0].place().text.as_ref().unwrap().line, 7);
    }
}
