//! The files of a data folder beside those of its tasks: `info`, symbols, build ids in maps.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::elf::Elf;
use crate::probes::EVENTS;
use crate::prototypes::prototypes;
use crate::rules::{Describe, Description, LibraryCalls, Selection, ValueLines};

/// Sessions are listed, addresses of symbols are relative, the stack's greatest depth is known, tables of arguments are
/// there.
const FEATURES: u64 = 1 << 1 | 1 << 5 | 1 << 6 | 1 << 9;

/// The facts of the run that `info` holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunFacts {
    pub(crate) program: PathBuf,
    pub(crate) command: Vec<String>,
    /// As `wait` gives it.
    pub(crate) status: Option<i32>,
    pub(crate) elapsed: Duration,
    pub(crate) depth: u16,
    pub(crate) selection: Selection,
    /// Folder with files of symbols that stand for those of programs and libraries.
    pub(crate) symbols: Option<PathBuf>,
}

/// Where the features stand in the header.
const FEATURES_AT: usize = 16;
/// There are events of the kernel: in the first byte of the features.
const KERNEL: u8 = 1 << 2;
/// There are events of the program.
const OWN_EVENTS: u8 = 1 << 7;

/// While it is recorded: what [`finish`] needs to know when the recorder dies.
const RECORDING: &str = ".recording";

/// Writes the beginning of `info`, which says that the recording is not complete.
pub(crate) fn begin(folder: &Path, depth: u16, selection: &Selection, command: &[String]) -> io::Result<()> {
    let flags = [
        (selection.has_auto_values, "auto"),
        (selection.has_named_types, "types"),
        (selection.has_lines, "lines"),
        (selection.has_globs, "globs"),
        (selection.guesses_ends, "guesses"),
        (selection.library_calls != LibraryCalls::None, "libraries"),
    ];
    let flags = flags.into_iter().filter(|(is, _)| *is).map(|(_, name)| format!(" {name}")).collect::<String>();
    let ValueLines { arguments, results } = &selection.values;
    let mut text = format!("{depth}{flags}\0{arguments}\0{results}");
    command.iter().for_each(|word| text.push_str(&format!("\0{word}")));
    fs::write(folder.join(RECORDING), text)?;
    fs::write(folder.join("info"), header(0, depth, selection))
}

/// The run of a recorder that died, as far as it is known.
pub(crate) fn read_leftover(folder: &Path) -> RunFacts {
    let text = fs::read(folder.join(RECORDING)).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let mut parts = text.split('\0');
    let first = parts.next().unwrap_or_default();
    let has = |name: &str| first.split(' ').any(|word| word == name);
    let mut part = || parts.next().unwrap_or_default().to_string();
    let values = ValueLines { arguments: part(), results: part() };
    let library_calls = if has("libraries") { LibraryCalls::OfProgram } else { LibraryCalls::None };
    let selection = Selection {
        library_calls,
        values,
        has_auto_values: has("auto"),
        has_named_types: has("types"),
        has_lines: has("lines"),
        has_globs: has("globs"),
        guesses_ends: has("guesses"),
        ..Selection::default()
    };
    let depth = first.split(' ').next().and_then(|depth| depth.parse().ok()).unwrap_or(1024);
    RunFacts { depth, selection, command: parts.map(str::to_string).collect(), ..RunFacts::default() }
}

fn header(info: u64, depth: u16, selection: &Selection) -> Vec<u8> {
    let ValueLines { arguments, results } = &selection.values;
    let (is_auto, is_described) = (selection.has_auto_values, selection.describe.is_some());
    let more = [
        (selection.library_calls != LibraryCalls::None, 0),
        (is_auto || !arguments.is_empty(), 3),
        (is_auto || !results.is_empty(), 4),
        (is_described, 10),
        (selection.guesses_ends, 11),
    ];
    let features = more.into_iter().fold(FEATURES, |features, (has, bit)| features | u64::from(has) << bit);
    let mut bytes = b"Ftrace!\0".to_vec();
    bytes.extend_from_slice(&4_u32.to_le_bytes());
    bytes.extend_from_slice(&40_u16.to_le_bytes());
    bytes.extend_from_slice(&[1, 2]);
    bytes.extend_from_slice(&features.to_le_bytes());
    bytes.extend_from_slice(&info.to_le_bytes());
    bytes.extend_from_slice(&depth.to_le_bytes());
    bytes.resize(40, 0);
    bytes
}

/// Does `info` have lines? Only a recording that was finished has them.
pub(crate) fn is_finished(folder: &Path) -> bool {
    let info = fs::read(folder.join("info")).unwrap_or_default();
    info.get(24..32).is_some_and(|mask| mask != [0; 8])
}

/// The number of programs into which the library was loaded.
pub(crate) fn sessions(folder: &Path) -> usize {
    let tasks = fs::read(folder.join("task.txt")).unwrap_or_default();
    tasks.split(|&byte| byte == b'\n').filter(|line| line.starts_with(b"SESS ")).count()
}

/// Writes what can be said only at the end. Gives the files whose symbols could not be read, and why.
pub(crate) fn finish(folder: &Path, run: &RunFacts) -> io::Result<Vec<(PathBuf, String)>> {
    let (symbols, unreadable) = write_symbols(folder, run.symbols.as_deref(), run.selection.describe.as_ref())?;
    let mut text = String::new();
    let mut mask = 0;
    let mut add = |bit: u32, lines: &str| {
        mask |= 1_u64 << bit;
        text.push_str(lines);
        text.push('\n');
    };
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let value = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.split([':', '=']).next().is_some_and(|name| name.trim() == key))?;
        line.split_once([':', '=']).map(|(_, value)| value.trim().to_string())
    };
    add(0, &format!("exename:{}", run.program.display()));
    if let Some(id) = symbols.get(&run.program) {
        add(1, &format!("build_id:{id}"));
    }
    if let Some(status) = run.status {
        add(2, &format!("exit_status:{status}"));
    }
    add(3, &format!("cmdline:{}", run.command.join(" ").replace('\\', "\\\\").replace('"', "\\\"")));
    let cpus = read("/proc/cpuinfo");
    let online = cpus.lines().filter(|line| line.starts_with("processor")).count();
    let model = value(&cpus, "model name").unwrap_or_default();
    add(4, &format!("cpuinfo:lines=2\ncpuinfo:nr_cpus={online} / {online} (online/possible)\ncpuinfo:desc={model}"));
    let memory = read("/proc/meminfo");
    let gigabytes = |key: &str| {
        let kilobytes = value(&memory, key).and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
        kilobytes.unwrap_or(0.0) / f64::from(1 << 20)
    };
    add(5, &format!("meminfo:{:.1} / {:.1} GB (free / total)", gigabytes("MemFree"), gigabytes("MemTotal")));
    let kernel = read("/proc/sys/kernel/osrelease");
    let (host, release) = (read("/proc/sys/kernel/hostname"), read("/etc/os-release"));
    let name = value(&release, "PRETTY_NAME").unwrap_or_else(|| "\"Linux\"".into());
    add(
        6,
        &format!(
            "osinfo:lines=3\nosinfo:kernel=Linux {}\nosinfo:hostname={}\nosinfo:distro={name}",
            kernel.trim(),
            host.trim()
        ),
    );
    let tids = tids(folder)?;
    let list: Vec<String> = tids.iter().map(u64::to_string).collect();
    add(7, &format!("taskinfo:lines=2\ntaskinfo:nr_tid={}\ntaskinfo:tids={}", tids.len(), list.join(",")));
    let load = read("/proc/loadavg");
    add(9, &format!("loadinfo:{}", load.split(' ').take(3).collect::<Vec<_>>().join(" / ")));
    let ValueLines { arguments, results } = &run.selection.values;
    let specs: Vec<_> =
        [("argspec", arguments), ("retspec", results)].into_iter().filter(|(_, text)| !text.is_empty()).collect();
    let is_auto = run.selection.has_auto_values;
    if !specs.is_empty() || is_auto {
        let mut lines = format!("argspec:lines={}", specs.len() + 3 + usize::from(is_auto));
        specs.iter().for_each(|(name, text)| lines.push_str(&format!("\n{name}:{text}")));
        let none = ValueLines::default();
        let has_prototypes = is_auto || run.selection.has_named_types;
        let ValueLines { arguments, results } = if has_prototypes { prototypes() } else { &none };
        let auto = if is_auto { "\nauto-args:1" } else { "" };
        add(10, &format!("{lines}\nargauto:{arguments}\nretauto:{results}\nenumauto:{auto}"));
    }
    let elapsed = run.elapsed;
    let date = date(std::time::SystemTime::now());
    add(11, &format!("record_date:{date}\nelapsed_time:{}.{:09} sec", elapsed.as_secs(), elapsed.subsec_nanos()));
    add(12, if run.selection.has_globs { "pattern_type:glob" } else { "pattern_type:regex" });
    add(13, concat!("uftrace_version:tracemill ", env!("CARGO_PKG_VERSION")));
    let mut bytes = header(mask, run.depth, &run.selection);
    if folder.join("kernel_header").is_file() {
        bytes[FEATURES_AT] |= KERNEL;
    }
    if folder.join(EVENTS).is_file() {
        bytes[FEATURES_AT] |= OWN_EVENTS;
    }
    bytes.extend_from_slice(text.as_bytes());
    // Whole or not at all: a folder whose `info` has no lines is one whose recorder died.
    fs::write(folder.join(".info.new"), bytes)?;
    fs::rename(folder.join(".info.new"), folder.join("info"))?;
    let _ = fs::remove_file(folder.join(RECORDING));
    Ok(unreadable)
}

/// Threads with a file, in the order of their ids.
fn tids(folder: &Path) -> io::Result<BTreeSet<u64>> {
    let mut tids = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        tids.extend(name.to_string_lossy().strip_suffix(".dat").and_then(|tid| tid.parse::<u64>().ok()));
    }
    Ok(tids)
}

/// Build ids of modules by path, and the modules that could not be read, each with the reason.
type DescribedModules = (BTreeMap<PathBuf, String>, Vec<(PathBuf, String)>);

/// Writes the symbols of all files that the maps and the list of tasks name, and the build ids to the maps. Returns those.
fn write_symbols(folder: &Path, given: Option<&Path>, describe: Option<&Describe>) -> io::Result<DescribedModules> {
    let mut modules =
        Modules { folder, given, describe, names: BTreeMap::new(), ids: BTreeMap::new(), unreadable: Vec::new() };
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.starts_with("sid-") || !name.ends_with(".map") {
            continue;
        }
        let map = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
        let mut with_ids = String::new();
        for line in map.lines() {
            with_ids.push_str(line);
            if let Some(at) = line.find('/').filter(|_| !line.contains(" build-id:")) {
                let file = PathBuf::from(&line[at..]);
                let is_code = line.split(' ').nth(1).is_some_and(|rights| rights.contains('x'));
                modules.write(&file, is_code)?;
                if let Some(id) = modules.ids.get(&file) {
                    with_ids.push_str(&format!(" build-id:{id}"));
                }
            }
            with_ids.push('\n');
        }
        fs::write(&path, with_ids)?;
    }
    let tasks = fs::read(folder.join("task.txt")).unwrap_or_default();
    for line in String::from_utf8_lossy(&tasks).lines().filter(|line| line.starts_with("DLOP ")) {
        let library = line.split_once("libname=\"").and_then(|(_, rest)| rest.strip_suffix('"'));
        if let Some(library) = library.map(PathBuf::from).filter(|path| path.is_file()) {
            modules.write(&library, true)?;
        }
    }
    Ok((modules.ids, modules.unreadable))
}

/// Files whose symbols are written.
struct Modules<'a> {
    folder: &'a Path,
    /// Folder with files of symbols that stand for those of programs and libraries.
    given: Option<&'a Path>,
    describe: Option<&'a Describe>,
    /// By the names that their files here have.
    names: BTreeMap<String, PathBuf>,
    ids: BTreeMap<PathBuf, String>,
    /// Files that cannot be read, and why.
    unreadable: Vec<(PathBuf, String)>,
}

impl Modules<'_> {
    /// Writes the symbols of a file, once, and its description. Files that cannot be read have none.
    fn write(&mut self, path: &Path, is_code: bool) -> io::Result<()> {
        if self.names.values().any(|known| known == path) {
            return Ok(());
        }
        let elf = match fs::read(path) {
            Ok(bytes) => Elf::read(&bytes),
            Err(error) => {
                if is_code && self.unreadable.iter().all(|(known, _)| known != path) {
                    self.unreadable.push((path.to_path_buf(), error.to_string()));
                }
                None
            }
        };
        let Some(elf) = elf else { return Ok(()) };
        let base = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = if self.names.contains_key(&base) { format!("{base}-{}", suffix(path, &elf)) } else { base };
        let mut head = format!("# path name: {}\n", path.display());
        if let Some(id) = &elf.build_id {
            head.push_str(&format!("# build-id: {id}\n"));
            self.ids.insert(path.to_path_buf(), id.clone());
        }
        if let Some(describe) = self.describe {
            self.write_description(&name, &head, elf.base, &(describe.0)(path))?;
        }
        let given = self.given.map(|given| given.join(format!("{name}.sym"))).filter(|given| given.is_file());
        let symbols = self.folder.join(format!("{name}.sym"));
        self.names.insert(name, path.to_path_buf());
        if let Some(given) = given {
            return fs::copy(given, symbols).map(drop);
        }
        let mut file = io::BufWriter::new(fs::File::create(symbols)?);
        write!(file, "# symbols: {}\n{head}", elf.symbols.len())?;
        let (mut end, mut slot_end) = (0, None);
        for (address, (letter, symbol_end, symbol)) in &elf.symbols {
            // A symbol ends where the next one begins: not the last of a run of slots.
            if let Some(slot_end) = slot_end.filter(|slot_end| slot_end < address) {
                writeln!(file, "{slot_end:016x} ? __dynsym_end")?;
            }
            slot_end = (*letter == 'P').then_some(*symbol_end);
            writeln!(file, "{address:016x} {letter} {symbol}")?;
            end = end.max(*symbol_end);
        }
        writeln!(file, "{end:016x} ? __sym_end")?;
        file.flush()
    }

    fn write_description(&self, name: &str, head: &str, base: u64, description: &Description) -> io::Result<()> {
        let mut file = io::BufWriter::new(fs::File::create(self.folder.join(format!("{name}.dbg")))?);
        write!(file, "{head}")?;
        for enumeration in &description.enumerations {
            writeln!(file, "E: {enumeration}")?;
        }
        for (address, (name, lines)) in &description.functions {
            let Some(address) = address.checked_sub(base) else { continue };
            writeln!(file, "F: {address:x} {name}")?;
            lines.iter().try_for_each(|line| writeln!(file, "{line}"))?;
        }
        file.flush()
    }
}

/// The suffix of the name of the second of two files of one name.
fn suffix(path: &Path, elf: &Elf) -> String {
    match &elf.build_id {
        Some(id) => id[..4].to_string(),
        None => {
            let sum =
                path.as_os_str().as_encoded_bytes().iter().fold(0_u16, |sum, &byte| sum.wrapping_add(byte.into()));
            format!("{sum:04x}")
        }
    }
}

/// A date as `ctime` writes it, in UTC.
fn date(time: std::time::SystemTime) -> String {
    let seconds = time.duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][(days % 7) as usize];
    let is_leap = |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let (mut year, mut day) = (1970, days);
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{weekday} {} {:2} {hour:02}:{minute:02}:{second:02} {year}", months[month], day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_ctime() {
        let date = |seconds| date(std::time::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(date(0), "Thu Jan  1 00:00:00 1970");
        assert_eq!(date(1_709_210_096), "Thu Feb 29 12:34:56 2024");
        assert_eq!(date(1_795_435_199), "Mon Nov 23 11:59:59 2026");
    }
}
