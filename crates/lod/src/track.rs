//! A base track, and its counts.

/// A base track: every event of the session stands on one of them.
#[derive(Clone, Debug)]
pub struct Track {
    /// Index of its trace in the session.
    pub trace: usize,
    /// The stream, by index in the trace; `None` for a track that the trace numbers itself.
    pub stream: Option<usize>,
    /// Its name.
    pub name: String,
    /// Its events.
    pub events: u64,
    /// Events without a time, among them.
    pub untimed: u64,
    /// Times of the first and the last event, in ns.
    pub range: Option<(i128, i128)>,
}
