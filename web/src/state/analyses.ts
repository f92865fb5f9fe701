// The tables of `tracemill analyze` about what is in view: which are there, and the one that is shown.
import { computed, signal } from '@preact/signals';
import type { AnalysisInfo, AnalysisTable } from '../api/types';
import { isThread } from './active';
import { answer } from './answers';
import { readPeriodId } from './plots';
import { ask, epoch, phase } from './session';
import { change, isFile, session, state, view } from './store';
import { trackById } from './tracks';

/** The views of the spans of an analysis, with their words. */
export const VIEWS = [
  ['statistics', 'Statistics'],
  ['log', 'List'],
  ['top', 'Longest'],
  ['points', 'Over time'],
] as const;
export type AnalysisView = (typeof VIEWS)[number][0];

/** A question, as the link has it: the analysis, the kind of its rows, the key of its groups, the view. */
export interface AnalysisQuestion {
  readonly name: string;
  readonly of: string;
  readonly by: string;
  readonly view: AnalysisView;
}

export const readAnalysis = (text: string): AnalysisQuestion => {
  const [name = '', of = '', by = '', shown = ''] = text.split('/');
  const known = VIEWS.find(([own]) => own === shown);
  return { name, of, by, view: known?.[0] ?? 'statistics' };
};
export const writeAnalysis = ({ name, of, by, view: shown }: AnalysisQuestion): string =>
  [name, of, by, shown === 'statistics' ? '' : shown].join('/').replace(/\/+$/, '');

export const hasAnalyses = computed(() => session.value?.features.includes('analyses') ?? false);

export const analysesAnswer = answer<{ analyses: AnalysisInfo[] }>(() =>
  hasAnalyses.value && state.value.tab === 'analyses'
    ? { key: `${epoch.value}`, ask: (abort) => ask('analyze', {}, abort) }
    : null,
);

export const analysesShown = computed(() => analysesAnswer.value.value?.analyses ?? []);

/** The analysis that is shown, with the question that fits it. */
export const shownAnalysis = computed<{ info: AnalysisInfo; question: AnalysisQuestion } | null>(() => {
  const asked = readAnalysis(state.value.analysis);
  const list = analysesShown.value;
  // Without a question, sums say more than the first of many rows.
  const info = list.find((a) => a.name === asked.name) ?? list.find((a) => a.name === 'cpu') ?? list[0];
  if (!info) return null;
  if (info.name !== asked.name) return { info, question: { name: info.name, of: '', by: '', view: 'statistics' } };
  const form = formOf(info, asked);
  // A page in a file has statistics only.
  return { info, question: form?.spans && !isFile.value ? asked : { ...asked, view: 'statistics' } };
});

/** The form of an analysis that a question is about. */
export const formOf = (
  info: AnalysisInfo,
  { of, by }: Pick<AnalysisQuestion, 'of' | 'by'>,
): AnalysisInfo['forms'][number] | undefined =>
  info.forms.find((f) => (f.of ?? '') === of && (by === '' || f.keys.includes(by))) ?? info.forms[0];

/** Asks for another table. */
export const showAnalysis = (question: AnalysisQuestion): void => {
  sortedBy.value = '';
  change({ analysis: writeAnalysis(question), tab: 'analyses' });
};

/** The column by which statistics are sorted; empty is the order of the analysis. */
export const sortedBy = signal('');

/** The numbers of threads and CPUs whose tracks are chosen. */
function chosenNumbers(): { tid: string; cpu: string } {
  const tids: string[] = [];
  const cpus: string[] = [];
  for (const id of state.value.chosen) {
    const track = trackById.value.get(id);
    if (track?.kind !== 'state') continue;
    const [, cpu] = /^s\d+\.cpu(\d+)$/.exec(id) ?? [];
    if (cpu !== undefined) cpus.push(cpu);
    else if (isThread(track)) tids.push(id.split('.')[1] ?? '');
  }
  return { tid: tids.join(','), cpu: cpus.join(',') };
}

/** The thread that an analysis of one thread is about: the only chosen one, else that of the chosen state or the shown path. */
function oneThread(): string {
  const { tid } = chosenNumbers();
  if (tid !== '') return tid.includes(',') ? '' : tid;
  const id = state.value.slice?.track ?? state.value.path?.track ?? '';
  const track = trackById.value.get(id);
  return track && isThread(track) ? (id.split('.')[1] ?? '') : '';
}

/** Analyses of one thread. */
const OF_ONE: ReadonlySet<string> = new Set(['path', 'why']);
/** Whether the table waits for a thread to be chosen. */
export const needsThread = computed(() => OF_ONE.has(shownAnalysis.value?.info.name ?? '') && oneThread() === '');

/** Whether the table waits for periods to be defined. */
export const needsPeriod = computed(
  () => shownAnalysis.value?.info.name === 'periods' && readPeriodId(state.value.period) === null,
);

const REST_MS = 250;
const MOST_ROWS = 1000;

/** The parameters of the question: the range is that of the selection, else of the view. */
const query = computed<Record<string, string> | null>(() => {
  const shown = shownAnalysis.value;
  if (!shown || state.value.tab !== 'analyses' || needsThread.value || needsPeriod.value) return null;
  const { info, question } = shown;
  const takes = formOf(info, question)?.takes ?? [];
  const range = isFile.value ? null : (state.value.selection ?? (state.value.view === null ? null : view.value));
  const { tid, cpu } = isFile.value ? { tid: '', cpu: '' } : chosenNumbers();
  return {
    name: info.name,
    of: question.of,
    by: question.by,
    view: question.view === 'statistics' ? '' : question.view,
    top: question.view === 'top' ? String(MOST_ROWS / 10) : '',
    sort: question.view === 'statistics' ? sortedBy.value : '',
    tid: OF_ONE.has(info.name) ? oneThread() : takes.includes('tid') ? tid : '',
    cpu: takes.includes('cpu') ? cpu : '',
    begin: range ? String(range.begin) : '',
    end: range ? String(range.end) : '',
    limit: String(MOST_ROWS),
    period: info.name === 'periods' ? state.value.period : '',
  };
});

export const tableAnswer = answer<AnalysisTable>(() => {
  const asked = query.value;
  if (!asked || phase.value === 'ended') return null;
  return {
    key: `${Object.values(asked).join('\n')}\n${epoch.value}`,
    async ask(abort) {
      // The events are read once more for an answer: not for each step of a journey.
      await new Promise((resolve) => setTimeout(resolve, REST_MS));
      abort.throwIfAborted();
      return ask<AnalysisTable>('analyze', asked, abort);
    },
  };
});
