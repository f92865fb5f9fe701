//! Kinds of losses: facts about a trace that an output could not keep, with one wording each.
//!
//! A [`Target`](crate::target::Target) lists those that it cannot hold whatever the trace, and its writer counts those
//! that a trace has.

use std::collections::BTreeMap;
use std::fmt;

use tracemill_model::packet::{Gap, GapKind};

/// Makes the kinds of a table: each is documented by its wording, in which a kind may have one number.
macro_rules! kinds {
    ($($name:ident $(($limit:ident: $number:ty))? = $text:literal,)*) => {
        /// A kind of loss: something that a target cannot hold, with what it became in parentheses where that is said.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[non_exhaustive]
        pub enum Lost {
            $(#[doc = $text] $name $(($number))?,)*
        }

        impl fmt::Display for Lost {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Lost::$name $(($limit))? => write!(f, $text),)*
                }
            }
        }
    };
}

kinds! {
    // Events.
    UntimedEvents = "events without time (they get that of the event before)",
    UntimedClasses = "event classes without time (their events get the time of the event before)",
    UntimedLeftOut = "events without time (they are left out)",
    EarlyEvents = "events before the zero of their clock",
    ChangedEvents = "events whose file changed while they were read",
    OtherEvents = "events that are not records of the format",
    OtherClasses = "events of a second stream class in one file",
    UncountedEvents = "events after the last one that a log can count",
    MoreEventTypes = "events of more than 65,536 types, or after 4,294,967,295 others",
    MoreEventNames = "events of more than 1,048,576 names (they have the last one)",
    MoreEventClasses = "events of more than 65,280 classes",
    MoreElogTracks = "events of more than 65,536 tracks (they are on the last one)",
    WideAddresses = "bits of addresses above the 48 that a record holds",
    LongEventIds = "events whose id has more than 16 bits",
    UndescribedData = "data of events that nothing describes",
    KernelEvents = "events of the kernel without a format",
    LargeKernelEvents = "events of the kernel that are larger than a page",
    OtherCpuEvents = "events of processors that perf does not record",
    // Times and clocks.
    Clocks = "clocks, beside the times that they gave",
    ClocklessStreams = "streams without a clock",
    ClocklessEvents = "events of streams without a clock (they get a time)",
    ZeroTimes = "times before the zero of the clock (they become 0)",
    OutsideTimes = "times before the zero of the clock or beyond its end",
    LateTimes = "times beyond 64 bits",
    HeldTimes = "times of 2^64 ns and more since the zero of a clock (they are held there)",
    ClampedTimes = "times outside of 64 bits of ns from the zero of the clock (they stand at the end of those)",
    NullTimes = "times that need more than 64 bits of ns (they are null)",
    RoundedTimes = "times so far from the start of the log that their ns are rounded",
    ClockOrigins = "origins of clocks (times are the same)",
    EarlyOrigins = "origins of the times of events before September 2001 (times are the same)",
    EarlyLogs = "logs that begin before September 2001 (their times move by 1,490,885,108 s)",
    ClockFrequencies = "frequencies of clocks (times are in nanoseconds)",
    ShortCycles = "cycles of clocks of streams that are shorter than a nanosecond",
    DriftingCycles = "cycles of clocks whose drift is corrected (they become nanoseconds)",
    BrokenCycles = "cycles of clocks whose frequency is not a whole number (they become nanoseconds)",
    ShiftedCycles = "cycles of clocks whose zero does not fall on one (they become nanoseconds)",
    StartCycles = "cycles of clocks that the start of a trace cannot hold (they become nanoseconds)",
    DistantZeros = "zeros of clocks more than 2^63 seconds from their origin (they are moved there)",
    ClockDrifts = "drifts of clocks",
    ClockCorrections = "corrections of clocks, whose zero is that of the cycles",
    StartCorrections = "corrections of clocks that the start of the trace cannot hold",
    LogStarts = "starts of logs that cannot be moved there (times count from the old one)",
    UnknownRates = "clock values of streams whose clock has no known frequency",
    // Packets and what is missing between events.
    Packets = "packets and their contexts",
    PacketContexts = "fields of packet contexts",
    PacketHeaders = "members of packet headers that the other traces do not have",
    EncryptedPackets = "encrypted packets (they are written in the open)",
    CpuNumbers = "numbers of processors",
    DiscardedCounts = "counts of discarded events",
    LostPacketCounts = "counts of lost packets",
    LostPacketEvents = "numbers of events of lost packets (each counts as one)",
    UnknownGaps = "gaps of unknown size",
    GapInstants = "stretches where events or packets are missing (they become instants)",
    LastGaps = "gaps after the last event of a stream",
    TasklessGaps = "gaps without a task or a number of events",
    FirstLostPackets = "packets lost before the first one",
    UnnumberedLostPackets = "lost packets between packets without numbers",
    GoneStreams = "packets lost in streams of which nothing is left",
    OtherSections = "sections of unknown types (they keep the byte order of their numbers)",
    TrailingOctets = "octets after the events of a section, or of the log",
    // Traces and classes.
    Schemas = "schemas",
    Environment = "entries of the environment",
    BuildIds = "build ids of files of code (functions are looked up by paths)",
    TraceNames = "names of the trace",
    TraceUuid = "uuid of the trace",
    Names = "names of traces and streams, namespaces and unique ids",
    MergedNames = "names of traces that become one",
    MergedUuids = "UUIDs of traces that become one",
    TextForm = "the form in which text shows events",
    HiddenStacks = "traces whose samples have no stacks by name, as fields are hidden",
    TwiceShown = "event classes that are shown twice (as messages or samples, and with all fields as instants)",
    SliceNames = "names of event classes that begin or end slices (slices have titles)",
    MessageNames = "names of event classes and fields that become messages of the format (they get its names)",
    KernelNames = "names of fields of kernel events that other tracers use (they get those of the kernel)",
    EmptyNames = "empty names of event classes (they become classes without a name)",
    EventNames = "names of event classes (codes stand for them)",
    MarkerNames = "names of event classes that are not channel and marker (`a_b` becomes `a.b`)",
    TrackNames = "names of tracks (numbers stand for them)",
    TrackNumbers = "numbers of threads and CPUs that are taken, or have more than 32 bits (their tracks get another)",
    EventProperties = "properties of events beside name and id",
    EventHeaders = "fields of event headers",
    EventContexts = "contexts of single events (they become a member of the payload)",
    LongStreamIds = "ids of streams above 32 bits (they are counted anew)",
    LongClassIds = "ids of events above 32 bits (they are counted anew)",
    SharedStreamIds = "ids that several stream classes share (some get another)",
    SharedEventIds = "ids that several event classes share (some get another)",
    // Fields.
    Values = "values and contexts",
    Fields = "fields of event classes (they become one text)",
    FieldsBesideText = "fields of event classes beside their text and track",
    FieldsBesideNumber = "fields of event classes beside one number of at most 32 bits",
    UndefinedFields = "fields of event classes that definitions cannot hold",
    FieldsOfNoCalls = "fields of events that are not calls",
    FieldsOfCalls = "fields of calls beside function and task",
    FieldLayouts = "sizes and byte orders of fields",
    DeepFields = "fields that are nested too deep",
    FieldsBeyondArguments = "fields beyond 20 octets of arguments (they become one text)",
    FieldsAsText = "fields that are neither numbers nor texts (they become text)",
    Signs = "fields with a sign (arguments have none, texts show it)",
    MissingFields = "fields after the end of their event (they become zeros)",
    AbsentFields = "absent fields (they become 0 or empty)",
    NameCharacters = "characters in names of fields",
    OtherNames = "names that are not identifiers (characters become `_xHEX_`)",
    SharedNames = "names that two members of a structure share (one gets underscores)",
    // Kinds of fields.
    WideIntegers = "integers of more than 64 bits (they become text)",
    WideNumbers = "numbers of more than 64 bits (they are truncated)",
    TruncatedIntegers = "integers truncated to 64 bits",
    VariableIntegers = "integers of variable length (they become integers of 64 bits)",
    WideVariableIntegers = "integers of variable length with more than 64 bits",
    WideFloats = "floating point numbers wider than 64 bits (they are rounded)",
    Booleans = "booleans (they become integers)",
    BitFlags = "flags of bit maps (they become integers)",
    BitArrays = "bit arrays and bit maps (they become integers)",
    Blobs = "blobs (they become arrays of bytes)",
    MediaTypes = "media types of blobs (they become sequences of bytes)",
    Tuples = "tuples (they become structures with members `[0]`, `[1]`, ..)",
    Optionals = "optional fields (they become sequences)",
    Variants = "variants (they become sequences)",
    VariantTags = "variants whose selector is not an enumeration of their options (they get a tag of their own)",
    UnselectedOptions = "options of variants that no selector chooses",
    ComputedLengths = "lengths that are not fields (they become members before the elements)",
    Labels = "labels of enumerations",
    WideLabels = "labels of numbers beyond 64 bits",
    WideLabelsAndFlags = "labels and flags of integers of more than 64 bits",
    UnsignedLabels = "labels of unsigned enumerations of 64 bits",
    RangeLabels = "labels of long ranges of values",
    FurtherLabels = "labels of enumerations beside one of small unsigned numbers in a class",
    LargeEnumerators = "values of enumerations beyond 4095",
    // Texts.
    Encodings = "encodings of strings (they become UTF-8)",
    BadTexts = "strings with bytes that are not text (those are replaced)",
    TruncatedTexts = "texts with a zero inside (they are truncated there)",
    AbsentTexts = "absent texts that became empty",
    AbsenceOfTexts = "absence of texts that are made when they are shown (it becomes an empty text)",
    LongTexts = "texts that have a NUL, or more than 64 KiB",
    LongNames = "names of more than 64 KiB",
    TextsBeyondTable = "texts beyond the 4 GiB that a string table has",
    UnknownTexts = "texts that the string table of the log does not hold",
    HugeTexts = "strings and blobs of more than 2 GiB in a batch",
    // Calls and timelines.
    CallTimes = "when calls were made",
    NoCalls = "events that neither begin nor end a call",
    SampleFields = "fields of samples, beside their thread, CPU and stack",
    NoSamples = "events that are no samples",
    UndescribedValues = "values of calls that no specification describes",
    KernelCalls = "calls of the kernel without a format",
    LoneEnds = "ends of calls whose beginning is missing",
    LoneSliceEnds = "ends whose beginning is missing (they are instants)",
    OpenCalls = "calls whose end is missing (they end where other calls show that they are over)",
    OpenSlices = "slices whose end is missing (they end where others show that they are over)",
    UnendedCalls = "calls that have not ended (they end with their thread, or with its last event)",
    AsyncSlices = "slices that begin and end on different threads, beyond 32,768 open ones",
    UnendedSlices = "slices that have not ended (they end with their thread, or with the last event of their track)",
    DeepCalls(limit: usize) = "calls inside of {limit} others",
    DeepSlices(limit: usize) = "slices inside of {limit} others (they are instants)",
    MoreThreads(limit: usize) = "events of threads beyond the first {limit}",
    MoreTracks(limit: usize) = "events of tracks beyond the first {limit} (they stand on their streams)",
    MoreStacks(limit: usize) = "stacks of samples with calls beyond the first {limit}",
    MoreNames(limit: usize) = "names beyond the first {limit}",
    MoreWays(limit: usize) = "calls on call paths beyond the first {limit} (their time counts for their caller)",
}

/// How often each kind of loss happened.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Losses(BTreeMap<Lost, u64>);

impl Losses {
    /// Counts a loss. Allocates only for a kind that is new. Writers ask for each value, and mostly nothing is lost.
    #[inline]
    pub fn add(&mut self, kind: Lost, count: u64) {
        if count > 0 {
            self.add_some(kind, count);
        }
    }

    #[inline(never)]
    fn add_some(&mut self, kind: Lost, count: u64) {
        let sum = self.0.entry(kind).or_default();
        *sum = sum.saturating_add(count);
    }

    /// Counts what a target has no place for: how much is missing between events.
    pub fn add_gap(&mut self, gap: &Gap) {
        let kind = match gap.kind {
            GapKind::DiscardedEvents => Lost::DiscardedCounts,
            GapKind::LostPackets => Lost::LostPacketCounts,
        };
        self.add(kind, gap.count.unwrap_or(1));
    }

    /// Counts all that others have counted.
    pub fn extend(&mut self, others: &Losses) {
        for (kind, count) in &others.0 {
            self.add(*kind, *count);
        }
    }

    /// Takes off what others have counted too.
    pub fn subtract(&mut self, others: &Losses) {
        for (kind, count) in &others.0 {
            if let Some(sum) = self.0.get_mut(kind) {
                *sum = sum.saturating_sub(*count);
            }
        }
        self.0.retain(|_, sum| *sum > 0);
    }

    /// How often something was lost.
    pub fn count(&self, kind: Lost) -> u64 {
        self.0.get(&kind).copied().unwrap_or(0)
    }

    /// The kinds that were counted.
    pub fn kinds(&self) -> impl Iterator<Item = Lost> {
        self.0.keys().copied()
    }

    /// The wordings of what was lost in the order of the alphabet, with their counts.
    pub fn report(&self) -> Vec<(String, u64)> {
        let mut list: Vec<_> = self.0.iter().map(|(kind, count)| (kind.to_string(), *count)).collect();
        list.sort_unstable();
        list
    }

    /// Is everything kept?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_counted_by_kind_and_reported_by_wording() {
        let mut losses = Losses::default();
        losses.add(Lost::Variants, 2);
        losses.add(Lost::DeepCalls(3), 1);
        losses.add(Lost::Booleans, 0);
        losses.extend(&losses.clone());
        let report = [("calls inside of 3 others".into(), 2), ("variants (they become sequences)".into(), 4)];
        assert_eq!(losses.report(), report);
        let mut known = Losses::default();
        known.add(Lost::Variants, 4);
        losses.subtract(&known);
        assert_eq!(losses.kinds().collect::<Vec<_>>(), [Lost::DeepCalls(3)]);
    }
}
