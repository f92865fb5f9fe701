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

/// The module of the functions of a Python program.
pub(super) const PYTHON: &str = "python.fake";
/// More functions than a Python program has.
const MAX_PYTHON: u64 = 1 << 24;

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
        // The path is the rest of the line: it may hold blanks.
        let mut rest = text;
        let mut word = || {
            let (word, after) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
            rest = after.trim_start();
            (!word.is_empty()).then_some(word)
        };
        let (start, end) = word()?.split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let (start, end) = (number(start)?, number(end)?);
        let (_protection, _offset, _device, _inode) = (word()?, word()?, word()?, word()?);
        let (path, build_id) = match rest.rsplit_once(" build-id:") {
            Some((path, id)) if !id.contains(' ') => (path.trim_end(), Some(id.to_string())),
            _ => (rest, None),
        };
        if path.is_empty() {
            return Some(());
        }
        if path == "[stack]" {
            let known = KERNEL_BASES.iter().find(|(limit, _)| start < *limit);
            self.kernel_base = known.map_or(0xffff_0000_0000_0000, |&(_, base)| base);
            return Some(());
        }
        if path.starts_with('[') {
            return Some(());
        }
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

    /// Gives the program of a session its whole path: recorders truncate paths at the first blank.
    pub(super) fn complete_path(&mut self, exename: &str) {
        let cut = exename.split_once(' ').map(|(cut, _)| cut);
        for mapping in self.mappings.iter_mut().filter(|mapping| Some(mapping.path.as_str()) == cut) {
            mapping.path = exename.to_string();
        }
    }

    /// Adds the functions of a Python program, whose addresses count from 1: no file is mapped there.
    pub(super) fn add_python(&mut self) {
        let end = self.mappings.first().map_or(MAX_PYTHON, |first| first.start.min(MAX_PYTHON));
        let python = MappedFile { start: 0, end, path: PYTHON.to_string(), build_id: None };
        self.mappings.insert(0, python);
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
        assert_eq!((map.mappings[1].path.as_str(), map.mappings[1].build_id.as_deref()), ("/lib/a b.so", Some("00ff")));
        assert_eq!(map.kernel_base, 0xffff_8000_0000_0000);
        assert_eq!((map.find(0x60_1234), map.find(0x61_1000), map.find(0)), (Some(0), None, None));
        assert_eq!(warnings[0].place().text.as_ref().unwrap().line, 7);
    }

    #[test]
    fn a_path_that_was_truncated_at_a_blank_is_that_of_the_program() {
        let text = "1000-2000 r-xp 0 0:0 0    /srv/my\n3000-4000 r-xp 0 0:0 0    /srv/lib.so\n";
        let (mut map, _) = Map::read(text.as_bytes());
        map.complete_path("/srv/my app/a b");
        let paths: Vec<&str> = map.mappings.iter().map(|mapping| mapping.path.as_str()).collect();
        assert_eq!(paths, ["/srv/my app/a b", "/srv/lib.so"]);
        map.complete_path("/srv/lib.so");
        assert_eq!(map.mappings[1].path, "/srv/lib.so");
    }
}
