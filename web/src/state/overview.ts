// Tiles of the whole: those of the overview, and those that stand in for finer ones.
import { computed, effect } from '@preact/signals';
import { showsTiles } from '../draw/timeline';
import { levelOf } from '../time/range';
import { phase } from './session';
import { fullRange, session, state } from './store';
import { plainTiles, requestTiles, tilesStale } from './tiles-fetch';
import { rowsInSight, tracks, viewport } from './tracks';

/** Buckets of the overview are at most this part of it. */
const OVERVIEW_BUCKETS = 800;
const MOST_OVERVIEW_TRACKS = 256;

/** The tracks whose events together are all events: groups where there are any, else those that hold events. */
export const overviewTracks = computed<readonly string[]>(() => {
  const roots = tracks.value.filter((t) => t.parent === null);
  const list = roots.length > 0 && roots.every((t) => t.kind === 'group') ? roots : tracks.value.filter((t) => t.base);
  return list.slice(0, MOST_OVERVIEW_TRACKS).map((t) => t.id);
});
export const overviewLevel = computed(() => levelOf(fullRange.value, OVERVIEW_BUCKETS));

effect(() => {
  void tilesStale.value;
  if (!session.value || overviewTracks.value.length === 0 || phase.value === 'ended') return;
  requestTiles(plainTiles, '', overviewTracks.value, overviewLevel.value, fullRange.value, true);
});
// Tiles that stand in for every finer one.
effect(() => {
  void tilesStale.value;
  const { width } = viewport.value;
  if (width === 0 || !session.value || state.value.view === null || phase.value === 'ended') return;
  requestTiles(
    plainTiles,
    '',
    rowsInSight.value.filter(showsTiles).map((r) => r.track.id),
    levelOf(fullRange.value, width),
    fullRange.value,
    true,
  );
});
