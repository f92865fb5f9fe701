// Labels of enumerations, as the texts of rows show them: `gear = ( "COARSE", "FINE" : container = 5 )`.

const QUOTED = '"(?:[^"\\\\]|\\\\.)*"';

/** The labels that a field of this name has in some texts, sorted. */
export function labelsOf(field: string, texts: Iterable<string>): string[] {
  const met = new Set<string>();
  const word = field.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const group = new RegExp(`(?:^|[\\s{,])${word} = \\( (${QUOTED}(?:, ${QUOTED})*) :`, 'g');
  for (const text of texts) {
    for (const found of text.matchAll(group)) {
      for (const [label] of (found[1] ?? '').matchAll(new RegExp(QUOTED, 'g'))) met.add(label.slice(1, -1));
    }
  }
  return [...met].sort();
}
