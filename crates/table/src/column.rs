//! Columns of tables: their keys, units and titles.

use std::borrow::Cow;

use crate::layout::Align;

/// Kind of the values of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// A name or a number that names something.
    Name,
    /// A number of things.
    Count,
    /// A time in ns.
    Time,
    /// A duration in ns; people see microseconds.
    Duration,
    /// A part of 1; people see percents.
    Share,
    /// A correlation, from -1 to 1.
    Correlation,
    /// A size in bytes; people see KiB, MiB and GiB.
    Bytes,
    /// An address in memory; people see it in hexadecimal.
    Address,
    /// The number of a device; people see its two parts.
    Device,
}

impl Unit {
    /// The side at which its values stand: digits of one weight stand below each other.
    #[inline]
    pub fn align(self) -> Align {
        if matches!(self, Unit::Name | Unit::Address | Unit::Device) { Align::Left } else { Align::Right }
    }

    /// Is it an amount, of which the largest values say most?
    pub fn is_amount(self) -> bool {
        !matches!(self, Unit::Name | Unit::Address | Unit::Device | Unit::Time)
    }
}

/// A column of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// Its key: names of times and durations end with `_ns`, but for `from` and `to`.
    pub name: Cow<'static, str>,
    /// Its unit.
    pub unit: Unit,
    /// Its turn when a line has no room for all columns: of those that have one, the first goes first. The others go after
    /// them, from the right.
    pub spare: Option<u8>,
    /// Its meaning in one line; empty where the key says it all.
    pub meaning: &'static str,
}

impl Column {
    /// A column.
    pub fn new(name: impl Into<Cow<'static, str>>, unit: Unit) -> Column {
        Column { name: name.into(), unit, spare: None, meaning: "" }
    }

    /// The column, with its turn to be left out.
    pub fn spared(self, turn: Option<u8>) -> Column {
        Column { spare: turn, ..self }
    }

    /// Its title in tables: the key with the unit in which tables show it. Times have none where they are shown as the clock
    /// on the wall has them.
    pub fn title(&self, has_seconds: bool) -> String {
        let name = self.name.strip_suffix("_ns").unwrap_or(&self.name);
        let unit = match self.unit {
            Unit::Duration => "_us",
            Unit::Share => "_pct",
            Unit::Time if has_seconds => "_s",
            Unit::Time => "",
            Unit::Name | Unit::Address | Unit::Device | Unit::Count | Unit::Correlation | Unit::Bytes => {
                return self.name.to_string();
            }
        };
        [name, unit].concat()
    }

    /// The names by which users may call it, and for each the factor from its values to those of that name.
    pub fn names(&self) -> impl Iterator<Item = (String, f64)> {
        let factor = match self.unit {
            Unit::Duration => 1e-3,
            Unit::Share => 1e2,
            _ => 1.0,
        };
        let titles =
            [(self.title(false), factor), (self.title(true), if self.unit == Unit::Time { 1e-9 } else { factor })];
        let mut names = vec![(self.name.to_string(), 1.0)];
        for title in titles {
            if !names.iter().any(|(name, _)| *name == title.0) {
                names.push(title);
            }
        }
        names.into_iter()
    }
}
