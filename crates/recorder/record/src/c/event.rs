//! Events of a C program, and where their states are.

use std::sync::atomic::AtomicU32;

use crate::field::{FieldClass, IntegerClass, ValueLabel};
use crate::metadata::CallHalf;
use crate::rules::Level;
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
    /// Its level, if it has one.
    pub level: Option<Level>,
    /// Its fields.
    pub fields: Vec<CField<'a>>,
}

/// A field of an event of a C program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CField<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its class, whose values have no labels here.
    pub class: FieldClass,
    /// The labels of an integer.
    pub labels: Vec<ValueLabel<'a>>,
}

impl CField<'_> {
    fn is_of(&self, class: FieldClass) -> bool {
        match class {
            FieldClass::Integer(known) => {
                self.class == FieldClass::Integer(IntegerClass { labels: &[], ..known }) && self.labels == known.labels
            }
            class => self.class == class,
        }
    }

    fn leaked_class(&self) -> FieldClass {
        match self.class {
            FieldClass::Integer(integer) if !self.labels.is_empty() => {
                let leaked = |label: &ValueLabel<'_>| ValueLabel { name: leaked(label.name), ..*label };
                let labels = self.labels.iter().map(leaked).collect::<Vec<_>>().leak();
                FieldClass::Integer(IntegerClass { labels, ..integer })
            }
            class => class,
        }
    }
}

fn leaked(text: &str) -> &'static str {
    String::from(text).leak()
}

impl CEvent<'_> {
    pub(crate) fn is_of(&self, site: &Site, classes: &[FieldClass]) -> bool {
        let same_fields = || {
            let known = site.fields().iter().zip(classes);
            known.zip(&self.fields).all(|((name, class), field)| *name == field.name && field.is_of(*class))
        };
        site.names() == (self.target, self.name)
            && site.level() == self.level
            && classes.len() == self.fields.len()
            && same_fields()
    }

    /// A site that lives for ever.
    pub(crate) fn leak(&self) -> (&'static Site, &'static [FieldClass]) {
        let fields = self.fields.iter().map(|field| leaked(field.name)).collect::<Vec<_>>().leak();
        let site = Site::new(leaked(self.target), leaked(self.name), CallHalf::None, fields);
        let site = match self.level {
            Some(level) => site.with_level(level),
            None => site,
        };
        (Box::leak(Box::new(site)), self.fields.iter().map(CField::leaked_class).collect::<Vec<_>>().leak())
    }
}
