//! Definitions of the facilities of early 2006 (section 9 of the note), for traces that come without theirs.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::definitions::{DefinitionFile, FacilityDefinition};

/// The files, in our own words.
const FILES: [(&str, &str); 14] = [
    ("fs.xml", include_str!("fs.xml")),
    ("ipc.xml", include_str!("ipc.xml")),
    ("kernel.xml", include_str!("kernel.xml")),
    ("kernel_arch_common.xml", include_str!("kernel_arch_common.xml")),
    ("kernel_arch_i386.xml", include_str!("kernel_arch_i386.xml")),
    ("kernel_arch_x86_64.xml", include_str!("kernel_arch_x86_64.xml")),
    ("memory.xml", include_str!("memory.xml")),
    ("network.xml", include_str!("network.xml")),
    ("process.xml", include_str!("process.xml")),
    ("socket.xml", include_str!("socket.xml")),
    ("statedump.xml", include_str!("statedump.xml")),
    ("timer.xml", include_str!("timer.xml")),
    ("later_2006.xml", include_str!("later_2006.xml")),
    ("later_2007.xml", include_str!("later_2007.xml")),
];

/// The definition of a facility with this checksum.
pub(super) fn find(name: &str, checksum: u32) -> Option<Arc<FacilityDefinition>> {
    all().iter().find(|known| known.name == name && known.checksum == checksum).cloned()
}

/// All definitions.
pub(super) fn all() -> &'static [Arc<FacilityDefinition>] {
    static ALL: OnceLock<Vec<Arc<FacilityDefinition>>> = OnceLock::new();
    ALL.get_or_init(|| {
        let files = FILES.iter().map(|(name, text)| DefinitionFile::parse(text.as_bytes(), Path::new(name)));
        files.flat_map(|file| file.facilities).collect()
    })
}

#[cfg(test)]
mod tests;
