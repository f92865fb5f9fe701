// The range that statistics are about.
import { fullRange, state } from '../state/store';
import type { Range } from '../time/range';

export const rangeShown = (): Range => state.value.selection ?? fullRange.value;
