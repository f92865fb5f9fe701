// The line of `tracemill print` that prints what the page shows, made from the line that began it.

/** The words of a line as a shell takes them. */
export function wordsOf(line: string): string[] {
  const words: string[] = [];
  let word: string | null = null;
  for (const [part] of line.matchAll(/'[^']*'|"(?:\\.|[^"\\])*"|\\[\s\S]|\s+|[^\s'"\\]+/g)) {
    if (/^\s/.test(part)) {
      if (word !== null) words.push(word);
      word = null;
      continue;
    }
    const bare = part.startsWith("'")
      ? part.slice(1, -1)
      : part.startsWith('"')
        ? part.slice(1, -1).replace(/\\([$`"\\])/g, '$1')
        : part.startsWith('\\')
          ? part.slice(1)
          : part;
    word = (word ?? '') + bare;
  }
  if (word !== null) words.push(word);
  return words;
}

/** A word as a shell has to be given it. */
export const shellWord = (text: string): string =>
  /^[\w./:=@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

/** Options that mean nothing to `print`, and whether a value follows. */
const OF_VIEW = new Map([
  ['--no-open', false],
  ['--port', true],
  ['--listen', true],
  ['--allow-host', true],
  ['--no-cache', false],
  ['--cache-dir', true],
  ['--idle-exit', true],
  ['--progress', true],
]);
const NAMED = new Map([
  ['-b', '--begin'],
  ['-e', '--end'],
]);

export interface Chosen {
  readonly begin: bigint | null;
  readonly end: bigint | null;
  readonly filter: string;
  /** Names of streams; none is all of them. */
  readonly streams: readonly string[];
  /** Clocks that were moved since: names of traces, and ns. */
  readonly moved: readonly (readonly [string, string])[];
}

/** The words of a command that prints what is chosen; options of the line that began the page stay, where what is chosen does not say more. */
export function printing(line: string, traces: readonly string[], chosen: Chosen, command = 'print'): string {
  const args = wordsOf(line);
  const at = args.indexOf('view');
  const options: string[] = [];
  const filters = chosen.filter ? [chosen.filter] : [];
  let rest: string[] = [];
  if (at < 0) rest = [...traces];
  else
    for (let i = at + 1; i < args.length; i++) {
      const word = args[i] ?? '';
      const [, name = word, , value] = /^(--[\w-]+)(=([\s\S]*))?$/.exec(word) ?? [];
      const known = NAMED.get(name) ?? name;
      const next = (): string => value ?? args[++i] ?? '';
      const takes = OF_VIEW.get(known);
      if (takes !== undefined) {
        if (takes) next();
      } else if (known === '--begin') {
        const text = next();
        if (chosen.begin === null) options.push(known, text);
      } else if (known === '--end') {
        const text = next();
        if (chosen.end === null) options.push(known, text);
      } else if (known === '--filter') filters.unshift(next());
      else if (known === '--stream') {
        const text = next();
        if (chosen.streams.length === 0) options.push(known, text);
      } else rest.push(word);
    }
  if (chosen.begin !== null) options.push('--begin', `${chosen.begin}ns`);
  if (chosen.end !== null) options.push('--end', `${chosen.end}ns`);
  if (filters.length)
    options.push('--filter', filters.length === 1 ? (filters[0] ?? '') : filters.map((f) => `(${f})`).join(' and '));
  // Names of streams are globs.
  for (const name of chosen.streams) options.push('--stream', name.replace(/[*?[\]\\]/g, '\\$&'));
  for (const [trace, ns] of chosen.moved) options.push('--clock-offset-ns', `${trace}=${ns}`);
  return ['tracemill', command, ...options, ...rest].map(shellWord).join(' ');
}
