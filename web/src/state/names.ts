// The colour of a name: one of eight, the same in each run.

export const COLOURS = 8;

const bytes = new TextEncoder();
const known = new Map<string, number>();
const KNOWN_NAMES = 20_000;

/** FNV-1a over the bytes of a name. */
export function hashOf(name: string): number {
  let hash = 0x811c9dc5;
  for (const byte of bytes.encode(name)) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash >>> 0;
}

export function colourOf(name: string): number {
  let colour = known.get(name);
  if (colour === undefined) {
    if (known.size >= KNOWN_NAMES) known.clear();
    colour = hashOf(name) % COLOURS;
    known.set(name, colour);
  }
  return colour;
}
