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
    /// There is a result, and a newer one is on its way.
    Refreshing(T, Receiver<T>),
}

impl<T> Default for Work<T> {
    fn default() -> Self {
        Work { state: WorkState::None }
    }
}

impl<T: Send + 'static> Work<T> {
    /// Starts over. What was asked for before is forgotten, even if it is not there yet.
    pub(crate) fn begin(&mut self, work: impl FnOnce() -> T + Send + 'static) {
        self.state = WorkState::Running(spawn(work));
    }

    /// Does it once more: the result that is there stays until the new one is.
    pub(crate) fn refresh(&mut self, work: impl FnOnce() -> T + Send + 'static) {
        self.state = match std::mem::replace(&mut self.state, WorkState::None) {
            WorkState::Done(done) | WorkState::Refreshing(done, _) => WorkState::Refreshing(done, spawn(work)),
            WorkState::None | WorkState::Running(_) => WorkState::Running(spawn(work)),
        };
    }

    /// Takes a result that was made elsewhere.
    pub(crate) fn set(&mut self, done: T) {
        self.state = WorkState::Done(done);
    }

    /// Forgets it.
    pub(crate) fn clear(&mut self) {
        self.state = WorkState::None;
    }

    /// Is it to be asked for: because it never was, or because the result is old?
    pub(crate) fn needs(&self, is_old: bool) -> bool {
        match self.state {
            WorkState::None => true,
            WorkState::Running(_) | WorkState::Refreshing(..) => false,
            WorkState::Done(_) => is_old,
        }
    }

    /// Takes note of an end. Says whether something is new.
    pub(crate) fn poll(&mut self) -> bool {
        let (WorkState::Running(receiver) | WorkState::Refreshing(_, receiver)) = &self.state else { return false };
        self.state = match (receiver.try_recv(), std::mem::replace(&mut self.state, WorkState::None)) {
            (Ok(done), _) => WorkState::Done(done),
            (Err(TryRecvError::Empty), same) => {
                self.state = same;
                return false;
            }
            // The thread failed; it said so itself.
            (Err(TryRecvError::Disconnected), WorkState::Refreshing(before, _)) => WorkState::Done(before),
            (Err(TryRecvError::Disconnected), _) => WorkState::None,
        };
        true
    }

    /// Is it on its way, and nothing there before?
    pub(crate) fn is_running(&self) -> bool {
        matches!(self.state, WorkState::Running(_))
    }

    /// Is a newer result on its way?
    pub(crate) fn is_refreshing(&self) -> bool {
        matches!(self.state, WorkState::Refreshing(..))
    }

    /// The result.
    pub(crate) fn get(&self) -> Option<&T> {
        match &self.state {
            WorkState::Done(done) | WorkState::Refreshing(done, _) => Some(done),
            WorkState::None | WorkState::Running(_) => None,
        }
    }
}

fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        // The receiver is gone when other work was requested meanwhile.
        let _ = sender.send(work());
    });
    receiver
}
