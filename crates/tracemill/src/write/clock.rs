//! Clocks of streams.

use tracemill_model::schema::{ClockClass, ClockOrigin};

/// The clock in whose cycles the times of a stream are.
///
/// ```
/// use tracemill::write::{Clock, Ctf2};
/// # fn main() -> tracemill::Result<()> {
/// # let path = std::env::temp_dir().join(format!("tracemill-clock-doc-{}", std::process::id()));
/// // A counter of 24 MHz that was 0 at 2026-01-01T00:00:00Z.
/// let counter = Clock::new("counter").frequency(24_000_000).unix_origin().offset_seconds(1_767_225_600);
/// let trace = Ctf2::create(&path)?;
/// let class = trace.stream_class("cpu").clock(counter).build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Clock(pub(crate) ClockClass);

impl Clock {
    /// Nanoseconds since 1970-01-01T00:00:00Z, named `unix`: the clock of stream classes that name no other.
    pub fn unix_ns() -> Self {
        Clock::new("unix").unix_origin()
    }

    /// A clock of 1 GHz with an unknown zero. Streams that name equal clocks share one.
    pub fn new(name: &str) -> Self {
        Clock(ClockClass::nanoseconds(name))
    }

    /// Sets the frequency, in cycles a second.
    #[must_use]
    pub fn frequency(mut self, hz: u64) -> Self {
        self.0.frequency = hz;
        self
    }

    /// Counts its zero from 1970-01-01T00:00:00Z.
    #[must_use]
    pub fn unix_origin(mut self) -> Self {
        self.0.origin = ClockOrigin::Unix;
        self
    }

    /// Puts its zero this many seconds after its origin.
    #[must_use]
    pub fn offset_seconds(mut self, seconds: i64) -> Self {
        self.0.offset_seconds = seconds;
        self
    }

    /// Puts its zero so many cycles further after its origin.
    #[must_use]
    pub fn offset_cycles(mut self, cycles: u64) -> Self {
        self.0.offset_cycles = cycles.into();
        self
    }

    /// Sets a description.
    #[must_use]
    pub fn description(mut self, text: &str) -> Self {
        self.0.description = Some(text.into());
        self
    }
}
