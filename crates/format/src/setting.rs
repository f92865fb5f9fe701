//! Options that a format defines itself.

use std::collections::BTreeMap;

use tracemill_model::error::{Error, Result};

/// An option that a format adds to the commands that open traces, or a target to `convert`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Setting {
    /// Its name, without dashes: `ticks-per-us`.
    pub name: &'static str,
    /// Placeholder of its value in the help; `None` for a switch.
    pub value: Option<&'static str>,
    /// Its effect, in a line.
    pub help: &'static str,
}

impl Setting {
    /// An option without a value.
    pub const fn switch(name: &'static str, help: &'static str) -> Setting {
        Setting { name, value: None, help }
    }

    /// An option with a value, for which `value` stands in the help.
    pub const fn with_value(name: &'static str, value: &'static str, help: &'static str) -> Setting {
        Setting { name, value: Some(value), help }
    }
}

/// Options as they were typed: the value of each that was, empty for a switch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settings(pub BTreeMap<&'static str, String>);

impl Settings {
    /// No options.
    pub const fn new() -> Settings {
        Settings(BTreeMap::new())
    }

    /// The value of an option, `None` when it was not typed.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The number that an option holds.
    ///
    /// # Errors
    /// Wrong usage when it is none.
    pub fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let number = text.parse().map_err(|_| Error::misuse(format!("`{text}` is not a number for --{name}")))?;
        Ok(Some(number))
    }
}
