//! Definitions of the facilities of 2006 and 2007 (`SPEC.md`, section 9), for traces that come without theirs.

mod syscalls;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::definitions::{DefinitionFile, FacilityDefinition};

/// The files, in our own words.
const FILES: [(&str, &str); 11] = [
    ("fs.xml", include_str!("fs.xml")),
    ("ipc.xml", include_str!("ipc.xml")),
    ("kernel.xml", include_str!("kernel.xml")),
    ("kernel_arch_common.xml", include_str!("kernel_arch_common.xml")),
    ("memory.xml", include_str!("memory.xml")),
    ("network.xml", include_str!("network.xml")),
    ("process.xml", include_str!("process.xml")),
    ("socket.xml", include_str!("socket.xml")),
    ("statedump.xml", include_str!("statedump.xml")),
    ("timer.xml", include_str!("timer.xml")),
    ("later.xml", include_str!("later.xml")),
];

/// The definition of a facility with this checksum. The numbers of labels are not in it: of several that of the
/// architecture is the best.
pub(super) fn find(name: &str, checksum: u32, arch: Option<&str>) -> Option<Arc<FacilityDefinition>> {
    let mut found = all().iter().filter(|known| known.name == name && known.checksum == checksum);
    let first = found.clone().next()?;
    let own = found.find(|known| known.arch.is_some() && known.arch.as_deref() == arch);
    Some(own.unwrap_or(first).clone())
}

/// All definitions.
pub(super) fn all() -> &'static [Arc<FacilityDefinition>] {
    static ALL: OnceLock<Vec<Arc<FacilityDefinition>>> = OnceLock::new();
    ALL.get_or_init(|| {
        let files = FILES.iter().map(|(name, text)| DefinitionFile::parse(text.as_bytes(), Path::new(name)));
        files.flat_map(|file| file.facilities).chain(syscalls::all()).collect()
    })
}

#[cfg(test)]
mod tests;
