// Why threads waited, for a page that holds its data: parts of the critical paths over the whole.
import type { Pack } from './pack';
import { ApiError } from './source';
import type { PathPart, WhyAnswer } from './types';

/** Parts of an answer, as the server's. */
const MOST_PARTS = 20_000;

/** The path of the thread of a track, cut to a range. The whole and its waits have sentences, and the whole has sums. */
export function why(pack: Pack, track: string, [from, to]: readonly [bigint | null, bigint | null]): WhyAnswer {
  const { head } = pack;
  const missing = (message: string): ApiError => new ApiError(404, { code: 'track', message });
  const at = head.paths?.paths.findIndex((path) => path.track === track) ?? -1;
  const known = head.paths?.paths[at];
  const own = pack.paths[at];
  if (!head.paths || !known || !own) {
    if (!head.states.includes(track)) throw missing(`there is no thread \`${track}\``);
    throw missing(
      `this page has reasons for the threads that waited longest (${head.paths?.paths.length ?? 0}): tracemill view has the others`,
    );
  }
  const whole = [BigInt(known.begin), BigInt(known.end)] as const;
  const [begin, end] = [
    from === null || from < whole[0] ? whole[0] : from,
    to === null || to > whole[1] ? whole[1] : to,
  ];
  const parts: PathPart[] = [];
  let left = 0;
  let since = whole[0];
  for (let i = 0; i < own.length.length; i++) {
    const until = since + BigInt(own.length[i]!);
    if (since < end && begin < until) {
      if (parts.length === MOST_PARTS) left++;
      else {
        const [tid, comm, state, words, through] = head.paths.causes[own.cause[i]!]!;
        parts.push({
          from: String(since < begin ? begin : since),
          to: String(until > end ? end : until),
          track: head.states[own.track[i]! - 1] ?? null,
          tid,
          comm,
          state,
          why: words,
          through,
        });
      }
    }
    since = until;
  }
  const isWhole = begin === whole[0] && end === whole[1];
  const length = Number(whole[1] - whole[0]);
  const wait = known.waits.find(([first, last]) => first === String(begin) && last === String(end));
  return {
    track,
    begin: String(begin),
    end: String(end),
    sentence: isWhole ? known.sentence : (wait?.[2] ?? null),
    parts,
    left_out: left,
    totals: isWhole
      ? known.totals.map(([words, total, own]) => ({ why: words, total, share: Number(total) / length, own }))
      : [],
    ...(isWhole && known.others[0] ? { other_totals: { count: known.others[0], total: known.others[1] } } : {}),
    ...(isWhole || wait ? {} : { note: 'This page has sums of the whole only: tracemill view has those of a range.' }),
  };
}
