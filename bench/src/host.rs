//! The machine and the programs that were measured.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::Result;
use crate::measure;

/// The folder of this crate, when it is run through cargo from where it was built.
pub(crate) fn bench_dir() -> PathBuf {
    let run_by_cargo = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    run_by_cargo.unwrap_or_else(|| PathBuf::from("bench"))
}

/// The facts about a machine that explain its figures, none that identifies it.
pub(crate) struct Host {
    /// Day of the run, UTC.
    pub(crate) date: String,
    /// Operating system and architecture.
    pub(crate) kind: String,
    /// Processor.
    pub(crate) cpu: Option<String>,
    /// Processors that may be used.
    pub(crate) cpus: usize,
    /// Version of the kernel.
    pub(crate) kernel: Option<String>,
    /// Commit of the sources, with a `+` when they were changed.
    pub(crate) commit: Option<String>,
}

impl Host {
    /// This machine, now.
    pub(crate) fn detect() -> Self {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let (year, month, day) = civil(seconds / 86_400);
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let cpu_info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpu_info.lines().find(|line| line.starts_with("model name"));
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok();
        Host {
            date: format!("{year:04}-{month:02}-{day:02}"),
            kind: format!("{}-{}-{cpus}cpu", std::env::consts::OS, std::env::consts::ARCH),
            cpu: model.and_then(|line| line.split(':').nth(1)).map(|name| name.trim().to_string()),
            cpus,
            // After the version stands who built it.
            kernel: kernel.and_then(|kernel| kernel.trim().split('-').next().map(str::to_string)),
            commit: commit(),
        }
    }

    /// Where results go unless the user says otherwise.
    pub(crate) fn result_file(&self) -> PathBuf {
        bench_dir().join("results").join(format!("{}-{}.json", self.date, self.kind))
    }
}

fn commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output =
            measure::output(Command::new("git").args(["--no-optional-locks", "-C"]).arg(bench_dir()).args(arguments))
                .ok()?;
        Some(String::from_utf8_lossy(&output).trim().to_string())
    };
    let commit = git(&["rev-parse", "--short", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changed.is_empty() { commit } else { commit + "+" })
}

/// Year, month and day of a day since 1970-01-01 in the Gregorian calendar.
fn civil(day: u64) -> (u64, u64, u64) {
    // Counted from 0000-03-01, so that the leap day is the last of its year.
    let day = day + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day_of_month = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day_of_month)
}

/// The program to measure: the given one, or that which cargo builds beside this one from the same sources.
pub(crate) fn tracemill(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = given {
        return if path.is_file() { Ok(path.to_path_buf()) } else { Err(format!("no program {}", path.display())) };
    }
    let own = std::env::current_exe().map_err(|error| format!("where this program is cannot be found: {error}"))?;
    let beside = own.with_file_name("tracemill");
    if let (Some(cargo), Some(target)) = (std::env::var_os("CARGO"), own.parent().and_then(Path::parent)) {
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "-p", "tracemill-cli", "--features", "columnar", "--target-dir"]).arg(target);
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        let status = build.status().map_err(|error| format!("cargo build: {error}"))?;
        if !status.success() {
            return Err("tracemill could not be built; name one with --tracemill".into());
        }
    }
    if beside.is_file() { Ok(beside) } else { Err("which tracemill? name it with --tracemill PATH".into()) }
}

#[cfg(test)]
mod tests {
    use super::civil;

    #[test]
    fn days_have_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(11_017), (2000, 3, 1));
        assert_eq!(civil(20_453), (2025, 12, 31));
    }
}
