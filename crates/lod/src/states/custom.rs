//! States that a user defines: a track for each key of a definition.

use tracemill_semantics::states::{Map, Ns};

use super::lanes::StoredPiece;
use super::{Of, StatesBuilder};

/// Keys of definitions that have tracks at most.
const MAX_CUSTOM: usize = 4096;

/// For each key of a definition its track, unless there was no room for one.
pub(super) type CustomTracks = Map<(u32, u32), Option<usize>>;

/// Says how many keys have no track.
pub(super) fn left_out(tracks: &CustomTracks) -> Option<String> {
    let left = tracks.values().filter(|track| track.is_none()).count();
    (left > 0).then(|| format!("custom states of {left} keys are not shown: those of the first {MAX_CUSTOM} are"))
}

impl StatesBuilder {
    /// A key of a definition of the user was in a state; `title` gives the name of its track.
    pub fn custom_piece(
        &mut self,
        machine: u32,
        (definition, key): (u32, u32),
        (from, to): (Ns, Ns),
        state: &str,
        title: impl FnOnce() -> String,
    ) {
        let Some((begin, end)) = self.cut(from, to) else { return };
        let track = match self.customs.get(&(definition, key)) {
            Some(track) => *track,
            None => {
                let has_room = self.customs.len() < MAX_CUSTOM;
                let track = has_room.then(|| self.track(machine, Of::Custom(definition, key), 1));
                self.customs.insert((definition, key), track);
                if let Some(track) = track {
                    self.states.tracks[track].name = title();
                }
                track
            }
        };
        let Some(track) = track else { return };
        let name = self.number_of(state.to_string());
        self.push((track, 0), StoredPiece { from: begin, to: end, name }, false, to);
    }
}
