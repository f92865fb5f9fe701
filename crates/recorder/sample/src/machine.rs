//! Facts about the machine for the head of the file, and build ids of files.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};
use tracemill_perf::write::{FeatureBuilder, MachineText, WrittenBuildId};

use crate::recording::{Options, SampleClock};

/// Notes of a file that are looked at.
const MAX_NOTES: u64 = 1 << 20;
/// The type of the note with a build id.
const BUILD_ID_NOTE: u32 = 3;

/// Adds what the system says about itself.
pub(crate) fn add_machine(features: &mut FeatureBuilder) {
    let system = rustix::system::uname();
    let texts = [
        (MachineText::Hostname, system.nodename()),
        (MachineText::Release, system.release()),
        (MachineText::Arch, system.machine()),
    ];
    texts.into_iter().for_each(|(which, text)| features.text(which, &text.to_string_lossy()));
    features.text(MachineText::Version, concat!("tracemill ", env!("CARGO_PKG_VERSION")));
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let fact = |name: &str| {
        let facts = processor.lines().filter_map(|line| line.split_once(':'));
        facts.map(|(key, value)| (key.trim(), value.trim())).find(|(key, _)| *key == name).map(|(_, value)| value)
    };
    if let Some(name) = fact("model name") {
        features.text(MachineText::CpuDescription, name);
    }
    let parts = ["vendor_id", "cpu family", "model", "stepping"].map(fact);
    if let [Some(vendor), Some(family), Some(model), Some(stepping)] = parts {
        features.text(MachineText::CpuId, &format!("{vendor},{family},{model},{stepping}"));
    }
    let online = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    let present = processor.lines().filter(|line| line.starts_with("processor")).count() as u32;
    features.cpus(present.max(online), present.max(1));
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse().ok());
    if let Some(kib) = kib {
        features.memory(kib);
    }
    features.pmus(&pmus());
}

/// The kernel's sources of events.
fn pmus() -> Vec<(u32, String)> {
    let devices = fs::read_dir("/sys/bus/event_source/devices").into_iter().flatten().flatten();
    let pmu = |device: fs::DirEntry| {
        let number = fs::read_to_string(device.path().join("type")).ok()?.trim().parse().ok()?;
        Some((number, device.file_name().into_string().ok()?))
    };
    let mut pmus: Vec<_> = devices.filter_map(pmu).collect();
    pmus.sort();
    pmus
}

/// Adds the clock, with the time since 1970 unless other clocks of the recording have none.
pub(crate) fn add_clock(features: &mut FeatureBuilder, options: &Options) {
    let clock = match options.clock {
        SampleClock::Mono => ClockId::Monotonic,
        SampleClock::MonoRaw => ClockId::MonotonicRaw,
        SampleClock::Boot => ClockId::Boottime,
    };
    let ns = |time: Timespec| {
        u64::try_from(time.tv_sec).unwrap_or(0).saturating_mul(1_000_000_000) + u64::try_from(time.tv_nsec).unwrap_or(0)
    };
    features.clock_resolution(ns(clock_getres(clock)).max(1));
    if options.has_origin {
        // The pair that took the least time is the best one.
        let pair = || {
            let (before, wall, after) =
                (ns(clock_gettime(clock)), ns(clock_gettime(ClockId::Realtime)), ns(clock_gettime(clock)));
            (after.saturating_sub(before), wall, before + after.saturating_sub(before) / 2)
        };
        let best = (0..8).map(|_| pair()).min_by_key(|(took, ..)| *took);
        if let Some((_, wall, clock)) = best {
            features.clock_origin(options.clock.number(), wall, clock);
        }
    }
}

/// Build ids of the files that were mapped, as records or the files say them; of the kernel, if it was sampled.
pub(crate) fn build_ids(files: &BTreeMap<Vec<u8>, Option<Vec<u8>>>, has_kernel: bool) -> Vec<WrittenBuildId> {
    let of_kernel = || {
        let id = build_id_in_notes(&fs::read("/sys/kernel/notes").ok()?)?;
        Some(WrittenBuildId { is_kernel: true, path: "[kernel.kallsyms]".to_string(), id })
    };
    let of_file = |(path, id): (&Vec<u8>, &Option<Vec<u8>>)| {
        let id = id.clone().or_else(|| build_id_of(Path::new(OsStr::from_bytes(path))))?;
        Some(WrittenBuildId { is_kernel: false, path: String::from_utf8_lossy(path).into_owned(), id })
    };
    let kernel = has_kernel.then(of_kernel).flatten();
    kernel.into_iter().chain(files.iter().filter_map(of_file)).collect()
}

/// The build id of an ELF file of this machine, by the notes that its program headers name.
fn build_id_of(path: &Path) -> Option<Vec<u8>> {
    // Devices and pipes may be mapped, or have a path that was a file's.
    let file = File::open(path).ok().filter(|file| file.metadata().is_ok_and(|of| of.is_file()))?;
    let mut head = Vec::new();
    Read::take(&file, 4096).read_to_end(&mut head).ok()?;
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let number = |at: usize| head.get(at..at + 8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("8 bytes")));
    let (programs, count) = (usize::try_from(number(32)?).ok()?, number(56)? & 0xffff);
    const PROGRAM_BYTES: usize = 56;
    (0..usize::try_from(count).ok()?).find_map(|at| {
        const NOTE: u64 = 4;
        let program = programs.checked_add(at * PROGRAM_BYTES)?;
        let is_note = number(program)? & 0xffff_ffff == NOTE;
        let (offset, len) = (number(program.checked_add(8)?)?, number(program.checked_add(32)?)?);
        let mut notes = vec![0; usize::try_from(len.min(MAX_NOTES)).ok().filter(|_| is_note)?];
        file.read_exact_at(&mut notes, offset).ok()?;
        build_id_in_notes(&notes)
    })
}

/// The build id among notes of ELF.
fn build_id_in_notes(notes: &[u8]) -> Option<Vec<u8>> {
    let mut rest = notes;
    loop {
        let word = |at: usize| rest.get(at..at + 4).map(|bytes| u32::from_le_bytes(bytes.try_into().expect("4 bytes")));
        let (name, len, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
        let content = 12 + name.checked_next_multiple_of(4)?;
        let id = rest.get(content..)?.get(..len)?;
        if kind == BUILD_ID_NOTE && rest.get(12..12 + name) == Some(b"GNU\0") {
            return Some(id.to_vec()).filter(|id| !id.is_empty());
        }
        rest = rest.get(content + len.checked_next_multiple_of(4)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_ids_stand_in_notes() {
        let note = |kind: u32, name: &[u8], content: &[u8]| {
            let mut out: Vec<u8> =
                [name.len() as u32, content.len() as u32, kind].into_iter().flat_map(u32::to_le_bytes).collect();
            for part in [name, content] {
                out.extend(part);
                out.resize(out.len().next_multiple_of(4), 0);
            }
            out
        };
        let notes = [note(1, b"GNU\0", &[9; 5]), note(3, b"Go\0\0", b"go"), note(3, b"GNU\0", &[7; 20])].concat();
        assert_eq!(build_id_in_notes(&notes), Some(vec![7; 20]));
        for len in 0..notes.len() {
            assert_eq!(build_id_in_notes(&notes[..len]), None, "{len}");
        }
        assert_eq!(build_id_in_notes(&[0xff; 40]), None);
    }

    /// `readelf` shows the same id.
    #[test]
    fn build_ids_are_those_of_readelf() {
        let path = Path::new("/bin/sh");
        let Ok(theirs) = std::process::Command::new("readelf").arg("-n").arg(path).output() else {
            eprintln!("left out: there is no readelf");
            return;
        };
        let theirs = String::from_utf8_lossy(&theirs.stdout).into_owned();
        let theirs = theirs.lines().find_map(|line| line.trim().strip_prefix("Build ID: "));
        let ours = build_id_of(path).map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        assert_eq!(ours.as_deref(), theirs);
        assert_eq!(build_id_of(Path::new("/dev/null")), None);
    }
}
