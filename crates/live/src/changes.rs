//! Waits until something in folders changes, where the system tells: a store to a map raises no event, and network file systems
//! raise none for what others write.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

/// Folders and files whose changes are waited for.
#[derive(Default)]
pub(crate) struct Changes {
    #[cfg(target_os = "linux")]
    inotify: Option<rustix::fd::OwnedFd>,
    watched: BTreeSet<PathBuf>,
}

#[cfg(target_os = "linux")]
impl Changes {
    /// Watches these from now on, as far as the system lets it.
    pub(crate) fn watch(&mut self, wanted: BTreeSet<PathBuf>) {
        use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};

        if self.inotify.is_none() && !wanted.is_empty() {
            self.inotify = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        }
        let Some(inotify) = &self.inotify else { return };
        let events = WatchFlags::MODIFY
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVE
            | WatchFlags::ATTRIB
            | WatchFlags::MOVE_SELF;
        for path in wanted.difference(&self.watched) {
            // There may be too many of them: then the files are asked for their sizes.
            let _ = add_watch(inotify, path, events);
        }
        // One that went and comes again is another one.
        self.watched = wanted;
    }

    /// Waits until something changes, at most this long. `true` when something did.
    pub(crate) fn wait(&mut self, wait: Duration) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};

        let Some(inotify) = &self.inotify else {
            std::thread::sleep(wait);
            return false;
        };
        let timeout = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
        let is_ready = poll(&mut [PollFd::new(inotify, PollFlags::IN)], Some(&timeout)).is_ok_and(|ready| ready > 0);
        let mut events = [0; 4096];
        while is_ready && rustix::io::read(inotify, &mut events).is_ok_and(|len| len > 0) {}
        is_ready
    }
}

#[cfg(not(target_os = "linux"))]
impl Changes {
    /// Changes are not reported here.
    pub(crate) fn watch(&mut self, wanted: BTreeSet<PathBuf>) {
        self.watched = wanted;
    }

    /// Waits this long.
    pub(crate) fn wait(&mut self, wait: Duration) -> bool {
        std::thread::sleep(wait);
        false
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn changes_end_the_wait() {
        let folder = std::env::temp_dir().join(format!("tracemill-changes-{}", std::process::id()));
        let inner = folder.join("inner");
        std::fs::create_dir_all(&inner).expect("a folder");
        let mut changes = Changes::default();
        let short = Duration::from_millis(30);
        assert!(!changes.wait(short), "there is nothing to wait for yet");
        changes.watch([folder.clone(), inner.clone()].into());
        assert!(!changes.wait(short));
        let long = Duration::from_secs(20);
        let begin = Instant::now();
        let write = |name: &str| std::fs::write(inner.join(name), name).expect("there is room");
        for change in [&|| write("one"), &|| write("one"), &|| drop(std::fs::remove_dir_all(&inner))] as [&dyn Fn(); 3]
        {
            change();
            assert!(changes.wait(long));
            assert!(!changes.wait(short), "all changes were taken");
        }
        // Another folder of the same name.
        changes.watch([folder.clone()].into());
        std::fs::create_dir(&inner).expect("it is gone");
        assert!(changes.wait(long));
        changes.watch([folder.clone(), inner.clone()].into());
        write("two");
        assert!(changes.wait(long) && begin.elapsed() < long);
        std::fs::remove_dir_all(&folder).expect("it was made");
    }
}
