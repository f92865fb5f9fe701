//! Differences between two traces: their events, the fields and the order of these, and how their values are spread.
//!
//! Each side is read once, in memory that depends on the number of its names and fields, not on that of its events. Two
//! spreads differ when a test says that chance hardly makes them so ([`noise`](compare_spreads)).
//!
//! | file | what |
//! |---|---|
//! | `names` | names of events as numbers of both sides |
//! | `shapes` | event classes and their fields |
//! | `reading` | one side: counts, sequences, values |
//! | `order` | where sequences differ first |
//! | `spread` | how values are spread |
//! | `states` | times in states, of system calls and interrupts, as values |
//! | `noise` | the test |

mod names;
mod noise;
mod order;
mod reading;
mod shapes;
mod spread;
mod states;

pub use names::EventNames;
pub use noise::{
    FEWEST_VALUES, LARGE_CHANGE, LARGE_DISTANCE, Metric, MetricKind, SIGNIFICANCE, SpreadRow, Verdict, chance,
    compare_spreads, corrected,
};
pub use order::{FirstDifference, SequencePlace, StreamPairs, first_difference, first_difference_of_all, pair_streams};
pub use reading::{Sequence, Side};
pub use shapes::{FieldDifference, FieldShape, FieldShapes, SchemaDifference, compare_shapes, shapes};
pub use spread::ValueSpread;
pub use states::add_states;
