//! Sites that were registered, wherever their state stands.

#[cfg(feature = "c")]
use std::sync::atomic::Ordering;

use crate::field::FieldClass;
use crate::site::Site;

/// A site that was registered.
pub(super) struct RegisteredSite {
    pub(super) site: &'static Site,
    pub(super) classes: &'static [FieldClass],
    pub(super) shape: u64,
    #[cfg(feature = "c")]
    pub(super) mirror: Mirror,
}

/// Where else the state of a site stands.
#[cfg(feature = "c")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mirror {
    /// Nowhere: the macros of Rust look at the site.
    None,
    /// In the memory of a program or library in C.
    At(crate::c::event::StatePlace),
    /// In a library that was unloaded.
    Gone,
}

impl RegisteredSite {
    /// Copies the state of the site to where C looks for it.
    pub(super) fn copy_state(&self) {
        #[cfg(feature = "c")]
        if let Mirror::At(place) = self.mirror {
            place.0.store(self.site.state(), Ordering::Release);
        }
    }

    pub(super) fn turn_off(&self) {
        self.site.turn_off();
        self.copy_state();
    }

    pub(super) fn recheck(&self) {
        self.site.recheck();
        self.copy_state();
    }
}
