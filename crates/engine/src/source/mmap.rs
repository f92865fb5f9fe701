//! Memory maps of trace files, and what happens when such a file is cut under us.
//!
//! This is the only module of tracemill with `unsafe`. Maps are worth it: they cost no private memory however many
//! streams are merged (64 MiB is the budget for any trace), and packets are reached in any order without copies.
//! Measured with `info --count -j1` on 778 MB of 20 million events in the page cache: mapped 0.32 s and 1 MiB of private
//! memory, the files read into memory instead 0.69 s and 746 MiB. Mapping the pages of a packet ahead
//! ([`Bytes::will_read`]) costs and gains nothing where the page cache has large pages; where it has small ones (tmpfs)
//! 0.43 s instead of 0.55 s.
//!
//! The handler (module `guard`) is what maps need so that a file that is cut meanwhile ends in a message, not a signal.
//!
//! A map of a file that others may change has two hazards. Bytes may *change*: we only ever read plain integers and
//! byte slices from it, check every offset before use, and never hand out `str`, so changed bytes give a wrong value
//! or an error, as they would with plain reading. Bytes may *vanish*: reading a page after the new end raises SIGBUS.
//! A handler then puts zeros in the place of the rest of the map, and [`Bytes::len_now`] shows the decoder that bytes
//! are gone, which becomes an error with its offset. The same happens to pages that a disk or a network does not give.
#![allow(unsafe_code)]

use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};

use memmap2::{Mmap, MmapOptions};
use tracemill_codec::chunk::Bytes;

/// Most bytes that are mapped ahead.
#[cfg(target_os = "linux")]
const READ_AHEAD: usize = 8 << 20;

/// A mapped file.
pub(super) struct Map {
    map: Mmap,
    path: PathBuf,
    id: Identity,
    #[cfg(unix)]
    region: &'static guard::Region,
}

/// Identity of a file, also when another one took its name.
#[derive(PartialEq, Eq)]
struct Identity(u64, u64);

impl Identity {
    #[cfg(unix)]
    fn from_metadata(meta: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Identity(meta.dev(), meta.ino())
    }

    #[cfg(not(unix))]
    fn from_metadata(_meta: &Metadata) -> Self {
        Identity(0, 0)
    }
}

impl Map {
    pub(super) fn new(file: &File, path: &Path, meta: &Metadata) -> std::io::Result<Self> {
        #[cfg(unix)]
        guard::install();
        // SAFETY: the map is read-only, lives in `self`, and is only read as plain bytes (see the module's text for
        // files that change); its length is that of the file now.
        let map = unsafe { MmapOptions::new().len(meta.len() as usize).map(file)? };
        #[cfg(unix)]
        let region = guard::Region::register(map.as_ptr() as usize, map.len());
        Ok(Map {
            map,
            path: path.to_path_buf(),
            id: Identity::from_metadata(meta),
            #[cfg(unix)]
            region,
        })
    }
}

impl Bytes for Map {
    fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Maps the pages in one go: many page faults cost more than one call.
    #[cfg(target_os = "linux")]
    fn will_read(&self, offset: usize, len: usize) {
        let end = offset.saturating_add(len.min(READ_AHEAD)).min(self.map.len());
        if offset < end {
            // An old kernel does not know it; the pages come by faults then.
            let _ = self.map.advise_range(memmap2::Advice::PopulateRead, offset, end - offset);
        }
    }

    fn len_now(&self) -> u64 {
        #[cfg(unix)]
        let len = (self.map.len() as u64).min(self.region.zeros_from() as u64);
        #[cfg(not(unix))]
        let len = self.map.len() as u64;
        match std::fs::metadata(&self.path) {
            Ok(meta) if Identity::from_metadata(&meta) == self.id => meta.len().min(len),
            // Removed or replaced: the mapped file itself lives on.
            _ => len,
        }
    }

    fn can_vanish(&self) -> bool {
        true
    }
}

#[cfg(unix)]
impl Drop for Map {
    fn drop(&mut self) {
        self.region.release();
    }
}

/// Lets writing after the largest size that files may have end in an error, not in a signal that ends the process and
/// leaves what was begun. One call at the start of a program; it is here as no safe one exists, and this file has what is
/// unsafe.
pub fn refuse_large_files_by_error() {
    #[cfg(unix)]
    // SAFETY: ignoring a signal runs no code of ours.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

#[cfg(unix)]
mod guard {
    //! The SIGBUS handler. It uses only what a signal handler may: atomics, `mmap` and `sigaction`.

    use std::sync::Once;
    use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

    /// A mapped region; entries live for ever and are used again.
    pub(super) struct Region {
        /// 0 when free.
        start: AtomicUsize,
        len: AtomicUsize,
        /// Offset from which the handler put zeros.
        zeros_from: AtomicUsize,
        next: AtomicPtr<Region>,
    }

    static FIRST: AtomicPtr<Region> = AtomicPtr::new(std::ptr::null_mut());

    /// Entries that may be free: with none, registering does not search the list.
    static FREE: AtomicUsize = AtomicUsize::new(0);

    /// Marks an entry that is being filled: no address is that high.
    const BUSY: usize = usize::MAX;

    impl Region {
        pub(super) fn register(start: usize, len: usize) -> &'static Region {
            let candidates = if FREE.load(Ordering::Acquire) == 0 { None } else { Some(regions()) };
            for region in candidates.into_iter().flatten() {
                if region.start.compare_exchange(0, BUSY, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                    FREE.fetch_sub(1, Ordering::AcqRel);
                    region.len.store(len, Ordering::Release);
                    region.zeros_from.store(usize::MAX, Ordering::Release);
                    region.start.store(start, Ordering::Release);
                    return region;
                }
            }
            let region: &'static Region = Box::leak(Box::new(Region {
                start: AtomicUsize::new(start),
                len: AtomicUsize::new(len),
                zeros_from: AtomicUsize::new(usize::MAX),
                next: AtomicPtr::new(std::ptr::null_mut()),
            }));
            let pointer = std::ptr::from_ref(region).cast_mut();
            let mut first = FIRST.load(Ordering::Acquire);
            loop {
                region.next.store(first, Ordering::Release);
                match FIRST.compare_exchange_weak(first, pointer, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => return region,
                    Err(now) => first = now,
                }
            }
        }

        pub(super) fn release(&self) {
            // Counted first, so that the count never falls below the number of free entries.
            FREE.fetch_add(1, Ordering::AcqRel);
            self.start.store(0, Ordering::Release);
        }

        /// Offset from which bytes were found gone.
        pub(super) fn zeros_from(&self) -> usize {
            self.zeros_from.load(Ordering::Acquire)
        }
    }

    fn regions() -> impl Iterator<Item = &'static Region> {
        let mut at = FIRST.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            // SAFETY: entries come from `Box::leak` and are never freed.
            let region: &'static Region = unsafe { at.as_ref()? };
            at = region.next.load(Ordering::Acquire);
            Some(region)
        })
    }

    pub(super) fn install() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // SAFETY: the struct is plain data for which zeros are valid; the handler has the signature that
            // SA_SIGINFO asks for and only does what a handler may.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handle as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
                libc::sigemptyset(&mut action.sa_mask);
                libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut());
            }
        });
    }

    extern "C" fn handle(_signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
        // SAFETY: the kernel hands a valid siginfo to an SA_SIGINFO handler of SIGBUS.
        let address = unsafe { (*info).si_addr() } as usize;
        // SAFETY: sysconf is safe to call in a handler on every system that we build for.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        for region in regions() {
            let (start, len) = (region.start.load(Ordering::Acquire), region.len.load(Ordering::Acquire));
            if start == 0 || start == BUSY || address < start || address >= start + len {
                continue;
            }
            let from = address & !(page - 1);
            let rest = (start + len).next_multiple_of(page) - from;
            region.zeros_from.fetch_min(from.saturating_sub(start), Ordering::AcqRel);
            // SAFETY: the pages are part of a map that we own and that is alive (its region is registered); they are
            // replaced by zeros of the same protection, and the owner unmaps the whole range later.
            let mapped = unsafe {
                libc::mmap(
                    from as *mut libc::c_void,
                    rest,
                    libc::PROT_READ,
                    libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                    -1,
                    0,
                )
            };
            if mapped != libc::MAP_FAILED {
                return;
            }
        }
        // Not ours: the default action ends the process when the instruction is tried again.
        // SAFETY: as in `install`.
        unsafe {
            libc::signal(libc::SIGBUS, libc::SIG_DFL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::FileSystem;
    use tracemill_format::Storage;

    #[test]
    fn a_file_that_is_cut_while_mapped_reads_as_zeros_and_says_so() {
        let path = std::env::temp_dir().join(format!("tracemill-cut-{}", std::process::id()));
        std::fs::write(&path, vec![7u8; 1 << 20]).expect("the temporary folder can be written");
        let bytes = FileSystem.open(&path).expect("the file was just written");
        assert_eq!(bytes.bytes()[(1 << 20) - 1], 7);
        std::fs::OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(10)).expect("can be cut");
        assert_eq!(bytes.bytes()[(1 << 20) - 1], 0);
        assert_eq!(bytes.bytes()[1 << 19], 0);
        assert_eq!(bytes.bytes()[9], 7);
        assert_eq!(bytes.len_now(), 10);
        std::fs::remove_file(&path).expect("can be removed");
        // The end is unknown now, but from the second page on there were zeros.
        let len_now = bytes.len_now();
        assert!((10..=1 << 19).contains(&len_now), "{len_now}");
    }
}
