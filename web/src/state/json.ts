// One value of a JSON line, with its numbers as they were written.

/** The end of the value that begins at a place. */
function skip(text: string, from: number): number {
  let depth = 0;
  let at = from;
  for (; at < text.length; at++) {
    const c = text[at];
    if (c === '"') {
      at++;
      while (at < text.length && text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
      if (depth === 0) return at + 1;
    } else if (c === '{' || c === '[') depth++;
    else if (c === '}' || c === ']') {
      if (depth === 0) return at;
      if (--depth === 0) return at + 1;
    } else if (depth === 0 && c === ',') return at;
  }
  return at;
}

/** The texts of the members or elements of a value. */
function members(text: string): [string, string][] {
  const out: [string, string][] = [];
  const open = text[0];
  if (open !== '{' && open !== '[') return out;
  for (let at = 1, index = 0; at < text.length - 1; index++) {
    while (/[\s,]/.test(text[at] ?? '')) at++;
    let key = String(index);
    if (open === '{') {
      const end = skip(text, at);
      try {
        key = JSON.parse(text.slice(at, end)) as string;
      } catch {
        return out;
      }
      at = end;
      while (/[\s:]/.test(text[at] ?? '')) at++;
    }
    const end = skip(text, at);
    if (end === at) break;
    out.push([key, text.slice(at, end).trim()]);
    at = end;
  }
  return out;
}

const CONTEXTS = ['event_context', 'stream_context', 'packet_context'];
const SCOPES = new Set(['payload', 'header', ...CONTEXTS]);

/** The value at a path of a filter, as text; empty where it is not. */
export function valueAt(line: string, path: string): string {
  const steps = path
    .replace(/\[(\d+)\]/g, '.$1')
    .split('.')
    .map((s) => s.replace(/^`(.*)`$/, '$1'));
  const root = new Map(members(line));
  const from = (scope: string, rest: readonly string[]): string | null =>
    rest.reduce<string | null>((at, step) => {
      if (at === null) return null;
      const inside = new Map(members(at));
      return inside.get(step) ?? null;
    }, root.get(scope) ?? null);
  const [head = '', ...rest] = steps;
  let found: string | null;
  if (head === '$ctx') found = CONTEXTS.map((c) => from(c, rest)).find((v) => v !== null) ?? null;
  else if (SCOPES.has(head)) found = from(head, rest);
  else
    found =
      from('payload', steps) ??
      CONTEXTS.map((c) => from(c, steps)).find((v) => v !== null) ??
      (rest.length === 0 ? (root.get(head) ?? null) : null);
  return found === null ? '' : unquoted(found);
}

/** A text without its quotes, an enumeration as its labels. */
function unquoted(text: string): string {
  if (text.startsWith('"')) {
    try {
      return JSON.parse(text) as string;
    } catch {
      return text;
    }
  }
  if (text.startsWith('{')) {
    const inside = new Map(members(text));
    const value = inside.get('value');
    const labels = inside.get('labels') ?? inside.get('flags');
    if (value !== undefined && labels !== undefined) {
      const names = members(labels).map(([, t]) => unquoted(t));
      return names.length ? `${names.join(' ')} (${value})` : value;
    }
  }
  return text;
}
