//! Events of a C program, and where their states are.

use std::sync::atomic::AtomicU32;

use crate::field::FieldClass;
use crate::metadata::CallHalf;
use crate::site::Site;

/// The place in a C program where the state of an event is.
#[derive(Clone, Copy, Debug)]
pub struct StatePlace(pub &'static AtomicU32);

impl PartialEq for StatePlace {
    fn eq(&self, other: &StatePlace) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for StatePlace {}

/// An event of a C program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CEvent<'a> {
    /// The part of its full name before the colon.
    pub target: &'a str,
    /// The part after it.
    pub name: &'a str,
    /// Names and classes of its fields.
    pub fields: Vec<(&'a str, FieldClass)>,
}

impl CEvent<'_> {
    pub(crate) fn is_of(&self, site: &Site, classes: &[FieldClass]) -> bool {
        let fields = site.fields().iter().copied().zip(classes.iter().copied());
        site.names() == (self.target, self.name) && fields.eq(self.fields.iter().copied())
    }

    /// A site that lives for ever.
    pub(crate) fn leak(&self) -> (&'static Site, &'static [FieldClass]) {
        let text = |text: &str| -> &'static str { String::from(text).leak() };
        let fields = self.fields.iter().map(|(name, _)| text(name)).collect::<Vec<_>>().leak();
        let site = Site::new(text(self.target), text(self.name), CallHalf::None, fields);
        (Box::leak(Box::new(site)), self.fields.iter().map(|(_, class)| *class).collect::<Vec<_>>().leak())
    }
}
