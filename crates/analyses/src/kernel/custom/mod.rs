//! State machines and counters that the user defines (`docs/states.md`; `docs/kernel.md`, section 3.24): one follower of events, and what looks at it.
//!
//! | module | what |
//! |---|---|
//! | `definitions` | the file |
//! | `bound` | its definitions, for the event classes of a session |
//! | `follower` | from events to the state, or the number, of each key |
//! | `states`, `counters` | the analysis `custom` |

mod bound;
mod counters;
mod definitions;
mod follower;
mod states;

pub use bound::BoundCustom;
pub use definitions::{CustomDefinitions, CustomKind};
pub use follower::{CustomChange, CustomFollower, CustomKey, Held, PassedEvents, SeenEvent};
pub(super) use states::DESCRIPTOR;
