//! The bar on stderr for work over a second.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tracemill_engine::progress::Progress;

use crate::args::{InputOptions, When};

/// Shorter work shows nothing.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time between two looks at a terminal.
const FRAME: Duration = Duration::from_millis(100);
/// Time between two lines where there is no terminal.
const LINE: Duration = Duration::from_secs(1);

/// The bar that is on the terminal now. A process has one stderr.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

fn bar() -> MutexGuard<'static, Option<ProgressBar>> {
    BAR.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Shows the progress of a session until it is dropped.
pub(crate) struct ProgressLine(Option<(Sender<()>, JoinHandle<()>)>);

/// Begins to show progress if the options ask for it. `has_lines` when stdout gets lines all the time: a bar between
/// them on the same terminal would disturb both.
pub(crate) fn show(options: &InputOptions, progress: &Arc<Progress>, has_lines: bool) -> ProgressLine {
    let is_terminal = std::io::stderr().is_terminal();
    let is_wanted = match options.progress {
        When::Always => true,
        When::Never => false,
        When::Auto => !options.messages.quiet && is_terminal && !(has_lines && std::io::stdout().is_terminal()),
    };
    if !is_wanted {
        return ProgressLine(None);
    }
    let (end, ended) = channel();
    let progress = progress.clone();
    let thread = std::thread::spawn(move || {
        let is_over = |time| ended.recv_timeout(time) != Err(RecvTimeoutError::Timeout);
        if is_over(PATIENCE) {
            return;
        }
        if !is_terminal {
            loop {
                let _ = writeln!(std::io::stderr(), "{}", line(&progress));
                if is_over(LINE) {
                    return;
                }
            }
        }
        *bar() = Some(new_bar());
        loop {
            if let Some(bar) = &*bar() {
                bar.set_length(progress.total());
                bar.set_position(progress.done());
            }
            if is_over(FRAME) {
                return clear();
            }
        }
    });
    ProgressLine(Some((end, thread)))
}

fn new_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {percent:>3}% {bytes} of {total_bytes}, {eta} left");
    ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr())
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn line(progress: &Progress) -> String {
    let (done, total) = (progress.done(), progress.total());
    let percent = (u128::from(done) * 100).checked_div(u128::from(total)).unwrap_or(0);
    format!("progress: {percent}% of {total} bytes")
}

/// Takes the bar from the terminal.
pub(crate) fn clear() {
    if let Some(bar) = bar().take() {
        bar.finish_and_clear();
    }
}

/// Runs `work`, which writes to stderr, while the bar is off the terminal.
pub(crate) fn aside<T>(work: impl FnOnce() -> T) -> T {
    let bar = bar().clone();
    match bar {
        Some(bar) => bar.suspend(work),
        None => work(),
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.0.take() {
            drop(end);
            // It does nothing that can panic, and nothing is lost if it does.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_it_is() {
        assert_eq!(line(&Progress::default()), "progress: 0% of 0 bytes");
    }
}
