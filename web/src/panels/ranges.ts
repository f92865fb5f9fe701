// The range that statistics are about.
import { state, whole } from '../state/store';
import type { Range } from '../time/range';

export const rangeShown = (): Range => state.value.selection ?? whole.value;
