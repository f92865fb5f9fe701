//! Events of the kernel beside the calls of a program, in the data folder of uftrace that these are recorded into.
//!
//! | file | |
//! |---|---|
//! | `kernel_header` | formats of the events |
//! | `kernel-cpuN.dat` | pages of CPU N, as the kernel has them: they can be read at every instant |
//! | `kallsyms` | symbols of the kernel |
//! | `.kernel` | while it is recorded: name of the instance of the tracer, the size of a page, and, when it has changed that, the greatest depth of functions before this recording and that of it |

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};

use tracemill_model::error::{Error, Result};

use crate::pages;
use crate::recording::{self, Options, Recorded};
use crate::tracefs::{self, Chosen, Instance, Tracefs};

/// Name of the file that says what a recovery needs.
const STATE: &str = ".kernel";
/// Formats that the readers of calls want, where the kernel has them.
const OF_CALLS: [&str; 2] = ["funcgraph_entry", "funcgraph_exit"];

/// Starts a program whose events are recorded, once the folder is there.
pub type StartProgram<'a> = dyn FnMut(&mut Command) -> Result<Child> + 'a;

/// Records events of the kernel into the data folder [`Options::output`] while `run` records the calls of a program there:
/// it makes the folder, starts the program by what it is given, and returns when that is over.
///
/// # Errors
/// The errors of `run`; when tracefs cannot be had or used, an event is not there, or files cannot be written.
pub fn record_beside<T>(
    options: &Options,
    run: impl FnOnce(&mut StartProgram<'_>) -> Result<T>,
) -> Result<(T, Recorded)> {
    let tracefs = Tracefs::find(options.tracefs.as_deref())?;
    let (chosen, instance) = recording::set_up(&tracefs, options)?;
    let (folder, page_bytes, cpus) = (&options.output, recording::page_bytes(&instance), instance.cpus()?);
    let failed = |error: io::Error| Error::io("record events of the kernel into", folder, &error);
    let is_over = AtomicBool::new(false);
    let (result, moved) = std::thread::scope(|scope| {
        let mut copies = Vec::new();
        let result = run(&mut |command| {
            prepare(folder, &tracefs, &instance, &chosen, page_bytes).map_err(failed)?;
            instance.limit_depth()?;
            for (from, to) in cpu_files(folder, &instance, &cpus, page_bytes).map_err(failed)? {
                let is_over = &is_over;
                copies.push(scope.spawn(move || pages::copy(&from, &to, page_bytes as usize, is_over)));
            }
            recording::start(command, &instance, options)
        });
        instance.try_set("tracing_on", "0");
        is_over.store(true, Ordering::Relaxed);
        let broken = || Err(io::Error::other("a thread that moves pages has failed"));
        let moved: io::Result<Vec<u64>> =
            copies.into_iter().map(|copy| copy.join().unwrap_or_else(|_| broken())).collect();
        (result, moved)
    });
    let result = result?;
    let pages = |moved: Vec<u64>| moved.iter().sum::<u64>() / u64::from(page_bytes);
    let recorded = moved.and_then(|moved| finish(folder, &instance, &cpus, pages(moved)));
    let recorded = recorded.unwrap_or_else(|error| Recorded { failed: Some(error.to_string()), ..Recorded::default() });
    Ok((result, recorded))
}

/// Was a recorder killed while it recorded events of the kernel into this data folder?
pub fn is_left(folder: &Path) -> bool {
    folder.join(STATE).is_file()
}

/// Takes what is still with the kernel into the data folder of a recorder that was killed, unless another recording has
/// begun since, or tracefs is not to be had any more. `tracefs` is as [`Options::tracefs`].
///
/// # Errors
/// When the recorder still runs, or files cannot be read or written.
pub fn recover_beside(folder: &Path, tracefs: Option<&Path>) -> io::Result<Recorded> {
    let state = fs::read_to_string(folder.join(STATE))?;
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the file `.kernel` is damaged");
    let mut words = state.split_whitespace();
    let (name, page_bytes) = words.next().zip(words.next()).ok_or_else(damaged)?;
    let page_bytes = page_bytes.parse::<u32>().ok().filter(|bytes| *bytes > 0).ok_or_else(damaged)?;
    let depth = words.collect::<Vec<_>>().join(" ");
    if tracefs::is_alive(name) {
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, "its recorder still runs"));
    }
    let tracefs = Tracefs::find(tracefs).ok();
    if let Some(tracefs) = &tracefs {
        tracefs.put_back_depth(&depth);
    }
    let instance = tracefs.as_ref().and_then(|tracefs| Instance::leftover(tracefs, name));
    let Some(instance) = instance else {
        fs::remove_file(folder.join(STATE))?;
        return Ok(Recorded::default());
    };
    instance.try_set("tracing_on", "0");
    let cpus = instance.cpus().map_err(|error| io::Error::other(error.to_string()))?;
    let mut moved = 0;
    for (from, file) in cpu_files(folder, &instance, &cpus, page_bytes)? {
        moved += pages::copy(&from, &file, page_bytes as usize, &AtomicBool::new(true))?;
    }
    finish(folder, &instance, &cpus, moved / u64::from(page_bytes))
}

fn finish(folder: &Path, instance: &Instance<'_>, cpus: &[u32], pages: u64) -> io::Result<Recorded> {
    let (lost, _) = recording::losses(instance, cpus);
    fs::remove_file(folder.join(STATE))?;
    Ok(Recorded { pages, cpus: cpus.len() as u32, lost, ..Recorded::default() })
}

/// Writes what is known before the first event.
fn prepare(
    folder: &Path,
    tracefs: &Tracefs,
    instance: &Instance<'_>,
    chosen: &[Chosen],
    page_bytes: u32,
) -> io::Result<()> {
    let depth = instance.changed_depth().unwrap_or_default();
    fs::write(folder.join(STATE), format!("{} {page_bytes} {depth}\n", instance.name()))?;
    let order = if cfg!(target_endian = "big") { "BE" } else { "LE" };
    let mut header = format!("PAGE_SIZE: {page_bytes}\nLONG_SIZE: {}\nENDIAN: {order}\n", size_of::<usize>());
    let mut header_of = |name: &str, text: &[u8]| {
        if !text.is_empty() {
            header.push_str(&format!("TRACEFS: {name}: {}\n", text.len()));
            header.push_str(&String::from_utf8_lossy(text));
        }
    };
    header_of("events/header_page", &tracefs.read("events/header_page"));
    for name in OF_CALLS.map(|name| format!("events/ftrace/{name}/format")) {
        header_of(&name, &tracefs.read(&name));
    }
    for event in chosen {
        let name = format!("events/{}/{}/format", event.system, event.name);
        header_of(&name, &instance.read(&name));
    }
    fs::write(folder.join("kernel_header"), header)?;
    fs::write(folder.join("kallsyms"), recording::symbols())
}

/// For each CPU the kernel's file of its pages, and ours after its whole pages.
fn cpu_files(
    folder: &Path,
    instance: &Instance<'_>,
    cpus: &[u32],
    page_bytes: u32,
) -> io::Result<Vec<(PathBuf, File)>> {
    let file = |cpu: &u32| {
        let name = folder.join(format!("kernel-cpu{cpu}.dat"));
        // Not to append: such a file takes nothing from a pipe.
        let mut file = File::options().create(true).truncate(false).write(true).open(name)?;
        let bytes = file.metadata()?.len();
        file.set_len(bytes - bytes % u64::from(page_bytes))?;
        file.seek(SeekFrom::End(0))?;
        Ok((instance.path(&format!("per_cpu/cpu{cpu}/trace_pipe_raw")), file))
    };
    cpus.iter().map(file).collect()
}
