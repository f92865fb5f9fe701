//! Events that are counted and not recorded.

use super::*;
use crate::Recorder;

/// A place that is not known yet, as a signal handler meets it that interrupts the recorder.
fn interrupted<T: crate::Field>(value: T) {
    crate::event!(target: "t", "interrupted", value = value);
}

/// One recorder a process at a time.
static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// A thread that waits for room when recording ends has an event that is nowhere.
#[test]
fn an_event_that_waits_at_the_end_is_counted() -> Result<(), Box<dyn std::error::Error>> {
    let _one = ONE.lock();
    let path = std::env::temp_dir().join(format!("tracemill-waiting-{}", std::process::id()));
    let recorder = Recorder::options(&path).block(8192).packet(4096).start()?;
    // Packets cannot be moved there.
    fs::create_dir(path.join("stream_0"))?;
    let tried = std::sync::Arc::new(AtomicU64::new(0));
    let thread = std::thread::spawn({
        let tried = tried.clone();
        // Two packets of 250 events, and one more.
        move || {
            (0..501_u64).for_each(|i| crate::event!(target: "t", "tick", i = tried.fetch_add(1, Ordering::SeqCst) + i))
        }
    });
    let waits = || process::locked(|state| state.writers.iter().any(|writer| writer.is_waiting())) == Some(true);
    while tried.load(Ordering::SeqCst) < 501 || !waits() {
        std::thread::yield_now();
    }
    assert!(recorder.finish().is_err(), "a folder takes no packets");
    assert!(thread.join().is_ok());
    fs::remove_dir(path.join("stream_0"))?;
    assert_eq!(folder::recover(&path)?.discarded, 1);
    fs::remove_dir_all(path)?;
    Ok(())
}

#[test]
fn events_within_the_recorder_are_counted() -> Result<(), Box<dyn std::error::Error>> {
    let _one = ONE.lock();
    let folder = std::env::temp_dir().join(format!("tracemill-recorder-{}", std::process::id()));
    let recorder = Recorder::options(folder.join("a")).start()?;
    // Without a ring, at the end of which there is none.
    process::locked(|_| interrupted(1_u8));
    assert_eq!(recorder.discarded(), 1);
    assert_eq!(recorder.finish()?, Summary { discarded: 1, uncounted: 1 });
    let recorder = Recorder::options(folder.join("b")).start()?;
    interrupted(2_u8);
    // Of another class than the place is known by.
    process::locked(|_| interrupted("three"));
    assert_eq!(recorder.discarded(), 1);
    assert_eq!(recorder.rotate(folder.join("c"))?, Summary { discarded: 1, uncounted: 0 });
    interrupted(4_u8);
    assert_eq!(recorder.finish()?, Summary { discarded: 0, uncounted: 0 });
    fs::remove_dir_all(folder)?;
    Ok(())
}
