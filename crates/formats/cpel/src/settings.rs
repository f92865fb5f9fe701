//! The options of the formats in this folder.

use tracemill_model::error::{Error, Result};

use tracemill_format::{Setting, Settings};

const TICKS_PER_US: &str = "ticks-per-us";
const RATE_UNIT: &str = "clock-rate-unit";
const WRAP: &str = "wrap";
const POINTDEFS: &str = "pointdefs";
const OCTETS: &str = "octets";

/// Options of CPEL and Gist.
pub(super) static CPEL: &[Setting] = &[
    Setting::with_value(
        TICKS_PER_US,
        "N",
        "Clock rate of Gist logs, and of CPEL event sections that state none, in ticks per microsecond",
    ),
    Setting::with_value(
        RATE_UNIT,
        "s|us",
        "Read the clock rates of CPEL logs as ticks per second or per microsecond, whatever their size",
    ),
    Setting::with_value(WRAP, "32", "Extend times of CPEL and Gist logs from a counter of 32 bits"),
    Setting::with_value(
        POINTDEFS,
        "FILE",
        "Read the event names of Gist logs from a C header with lines `#define NAME CODE /* name: format */`",
    ),
    Setting::switch(OCTETS, "Add the raw octets of names and data to the events of CPEL logs"),
];

/// The wishes of the user.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Wishes {
    /// Frequency of clocks whose rate is not in the file, in Hz.
    pub(super) frequency: Option<u64>,
    /// How many ticks per second a rate of 1 means, when that is forced.
    pub(super) unit: Option<u64>,
    /// Are times extended where they wrap?
    pub(super) wraps: bool,
    /// Do events hold the octets of their texts?
    pub(super) octets: bool,
    /// Header with the names of Gist events.
    pub(super) pointdefs: Option<String>,
    /// Was the format named?
    pub(super) is_forced: bool,
    /// Are names without an end errors?
    pub(super) is_strict: bool,
}

impl Wishes {
    /// Reads the options.
    ///
    /// # Errors
    /// Wrong usage.
    pub(super) fn from_settings(settings: &Settings) -> Result<Self> {
        let frequency = match settings.number::<u64>(TICKS_PER_US)? {
            None => None,
            Some(ticks) => {
                let frequency = ticks.checked_mul(1_000_000).filter(|&frequency| frequency > 0);
                let error = || Error::misuse(format!("--{TICKS_PER_US} {ticks}: no clock has that rate"));
                Some(frequency.ok_or_else(error)?)
            }
        };
        let unit = match settings.get(RATE_UNIT) {
            None => None,
            Some("s") => Some(1),
            Some("us") => Some(1_000_000),
            Some(other) => return Err(Error::misuse(format!("--{RATE_UNIT} is `s` or `us`, not `{other}`"))),
        };
        let wraps = match settings.get(WRAP) {
            None => false,
            Some("32") => true,
            Some(other) => {
                return Err(Error::misuse(format!("--{WRAP} `{other}`: only counters of 32 bits can be extended")));
            }
        };
        Ok(Wishes {
            frequency,
            unit,
            wraps,
            octets: settings.get(OCTETS).is_some(),
            pointdefs: settings.get(POINTDEFS).map(str::to_string),
            ..Wishes::default()
        })
    }

    /// The frequency of a clock in Hz, from the rate in the file (`SPEC.md`, D18); 0 when unknown.
    pub(super) fn frequency_of(&self, rate: u32) -> u64 {
        let rate = u64::from(rate);
        match self.unit {
            _ if rate == 0 => self.frequency.unwrap_or(0),
            Some(unit) => rate * unit,
            None if rate >= 100_000 => rate,
            None => rate * 1_000_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(typed: &[(&'static str, &str)]) -> Settings {
        Settings(typed.iter().map(|&(name, value)| (name, value.to_string())).collect())
    }

    #[test]
    fn rates_are_per_second_or_per_microsecond() {
        let plain = Wishes::default();
        let rates = [0, 1, 99_999, 100_000, 1_000_000_000, u32::MAX].map(|rate| plain.frequency_of(rate));
        assert_eq!(rates, [0, 1_000_000, 99_999_000_000, 100_000, 1_000_000_000, 4_294_967_295]);
        let seconds = Wishes::from_settings(&settings(&[("clock-rate-unit", "s")])).unwrap();
        assert_eq!([1, 100_000].map(|rate| seconds.frequency_of(rate)), [1, 100_000]);
        let microseconds =
            Wishes::from_settings(&settings(&[("clock-rate-unit", "us"), ("ticks-per-us", "25")])).unwrap();
        assert_eq!([0, 100_000].map(|rate| microseconds.frequency_of(rate)), [25_000_000, 100_000_000_000]);
    }

    #[test]
    fn wrong_options_are_refused() {
        for wrong in [
            ("clock-rate-unit", "ns"),
            ("wrap", "16"),
            ("wrap", ""),
            ("ticks-per-us", "0"),
            ("ticks-per-us", "fast"),
            ("ticks-per-us", "18446744073709551615"),
        ] {
            assert!(Wishes::from_settings(&settings(&[wrong])).is_err(), "{wrong:?}");
        }
        assert!(Wishes::from_settings(&settings(&[("wrap", "32")])).unwrap().wraps);
    }
}
