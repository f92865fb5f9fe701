//! Long work, in a thread of its own: a screen asks for it, and shows it when it is there.

use std::sync::mpsc::{Receiver, TryRecvError, channel};

/// Something that was asked for.
pub(crate) struct Work<T> {
    state: WorkState<T>,
}

enum WorkState<T> {
    /// No work is requested.
    None,
    Running(Receiver<T>),
    Done(T),
}

impl<T> Default for Work<T> {
    fn default() -> Self {
        Work { state: WorkState::None }
    }
}

impl<T: Send + 'static> Work<T> {
    /// Starts over. What was asked for before is forgotten, even if it is not there yet.
    pub(crate) fn begin(&mut self, work: impl FnOnce() -> T + Send + 'static) {
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            // The receiver is gone when other work was requested meanwhile.
            let _ = sender.send(work());
        });
        self.state = WorkState::Running(receiver);
    }

    /// Forgets it.
    pub(crate) fn clear(&mut self) {
        self.state = WorkState::None;
    }

    /// Was it asked for?
    pub(crate) fn is_begun(&self) -> bool {
        !matches!(self.state, WorkState::None)
    }

    /// Takes note of an end. Says whether something is new.
    pub(crate) fn poll(&mut self) -> bool {
        let WorkState::Running(receiver) = &self.state else { return false };
        match receiver.try_recv() {
            Ok(done) => self.state = WorkState::Done(done),
            Err(TryRecvError::Empty) => return false,
            // The thread failed; it said so itself.
            Err(TryRecvError::Disconnected) => self.state = WorkState::None,
        }
        true
    }

    /// Is it on its way?
    pub(crate) fn is_running(&self) -> bool {
        matches!(self.state, WorkState::Running(_))
    }

    /// The result.
    pub(crate) fn get(&self) -> Option<&T> {
        match &self.state {
            WorkState::Done(done) => Some(done),
            _ => None,
        }
    }
}
