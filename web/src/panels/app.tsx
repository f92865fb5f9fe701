// The page: where everything is.
import { effect } from '@preact/signals';
import type { JSX } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { panelShown, tabsShown } from '../state/actions';
import { busy } from '../state/busy';
import { shownTotal } from '../state/event-rows';
import { selectAnswer, selected } from '../state/selection';
import { phase } from '../state/session';
import type { Tab } from '../state/state';
import { change, session, state } from '../state/store';
import { tracks } from '../state/tracks';
import { grouped } from '../time/format';
import { Analyses, AnalysisTools } from './analyses';
import { Bar } from './bar';
import { Details } from './details';
import { Dialogs } from './dialogs';
import { Events, EventTools } from './events';
import { Flame, FlameTools } from './flame';
import { labelWidth } from './label-width';
import { Legend } from './legend';
import { Menu } from './menu';
import { Overview, OverviewLabel, Ruler, RulerLabel } from './overview';
import { followPointer } from './parts';
import { Problems, problemCount } from './problems';
import { Calls, Selection, SelectionTools } from './selection';
import { freeSize, type Sizes, scheme, setSize, sizeBounds, sizes } from './settings';
import { Sql, SqlTools } from './sql';
import { Ended, Failure, isEmpty, NoToken } from './states';
import { Announce, Gone, Notice, Status } from './status';
import { Tracks } from './tracks';

const LABELS: Record<Tab, string> = {
  events: 'Events',
  selection: 'Selection',
  flame: 'Flame graph',
  calls: 'Calls',
  analyses: 'Analyses',
  problems: 'Problems',
  sql: 'SQL',
};

export function App(): JSX.Element {
  const ref = useRef<HTMLDivElement>(null);
  const shownState = phase.value === 'ready' && isEmpty() ? 'empty' : phase.value;
  // At once, and not when the page is rendered the next time.
  useLayoutEffect(
    () =>
      effect(() => {
        if (ref.current) ref.current.dataset['busy'] = busy.value ? '1' : '0';
      }),
    [ref.current],
  );
  useLayoutEffect(
    () =>
      effect(() => {
        const names = session.value?.traces.map((t) => t.name ?? t.path) ?? [];
        document.title = names.length ? `${names.slice(0, 3).join(', ')} - tracemill` : 'tracemill';
      }),
    [],
  );
  const instead = phase.value === 'token' ? <NoToken /> : phase.value === 'error' ? <Failure /> : null;
  const { side, bottom } = sizes.value;
  const label = labelWidth.value;
  return (
    <div
      ref={ref}
      data-testid="app"
      data-state={shownState}
      data-theme={scheme.value}
      id={instead ? undefined : 'app'}
      style={instead ? {} : { '--label': `${label}px`, '--side': `${side}px`, '--bottom': `${bottom}px` }}
    >
      {instead ?? <Whole />}
    </div>
  );
}

function Whole(): JSX.Element {
  return (
    <>
      <Bar />
      <main class="contents">
        <h2 class="sr">Timeline</h2>
        <OverviewLabel />
        <Overview />
        <RulerLabel />
        <Ruler />
        <Tracks />
        <Divider size="label" label="Width of the labels" />
        <Divider size="bottom" label="Height of the panel" />
        <Legend />
        <Bottom />
        <Divider size="side" label="Width of the details" />
        <Menu />
      </main>
      <Details />
      <Status />
      <Gone />
      <Notice />
      <Announce />
      {phase.value === 'ended' ? <Ended /> : null}
      <Dialogs />
    </>
  );
}

function badge(tab: Tab): { text: string; loss: boolean } {
  switch (tab) {
    case 'events': {
      const n = shownTotal.value;
      return {
        text: n === null ? '' : `${session.value?.index.state === 'complete' ? '' : '>\u202f'}${grouped(n)}`,
        loss: false,
      };
    }
    case 'selection': {
      const n = selected.value ? selectAnswer.value.value?.events : undefined;
      return { text: n === undefined ? '' : grouped(n), loss: false };
    }
    case 'calls': {
      const n = tracks.value.reduce((sum, t) => sum + (t.kind === 'calls' ? (t.calls ?? 0) : 0), 0);
      return { text: n ? grouped(n) : '', loss: false };
    }
    case 'problems': {
      const n = problemCount();
      return { text: n ? grouped(n) : '', loss: true };
    }
    case 'analyses':
    case 'flame':
    case 'sql':
      return { text: '', loss: false };
  }
}

const TOOLS: Partial<Record<Tab, () => JSX.Element>> = {
  events: EventTools,
  selection: SelectionTools,
  flame: FlameTools,
  calls: SelectionTools,
  analyses: AnalysisTools,
  sql: SqlTools,
};

function Bottom(): JSX.Element {
  const { tab } = state.value;
  const tabs = tabsShown();
  const Tools = TOOLS[tab];
  const on = panelShown.value;
  const onKeyDown = (e: KeyboardEvent): void => {
    const at = tabs.indexOf(tab);
    const by = e.key === 'ArrowRight' ? 1 : e.key === 'ArrowLeft' ? -1 : 0;
    if (by === 0) return;
    const next = tabs[(at + by + tabs.length) % tabs.length] ?? 'events';
    change({ tab: next });
    queueMicrotask(() => document.querySelector<HTMLElement>(`[data-testid="tab-${next}"]`)?.focus());
    e.preventDefault();
  };
  const panel = (name: Tab, content: JSX.Element | null): JSX.Element => (
    <div
      id={`panel-${name}`}
      role="tabpanel"
      aria-labelledby={tabs.includes(name) ? `tab-${name}` : undefined}
      aria-label={tabs.includes(name) ? undefined : LABELS[name]}
      class="panel"
      hidden={tab !== name || !on}
    >
      {content}
    </div>
  );
  return (
    <section class={`bot${on ? '' : ' off'}`} aria-label="Panel">
      <div class="tabbar">
        <div class="tabs" role="tablist" aria-label="Panels" onKeyDown={onKeyDown}>
          {tabs.map((t) => {
            const { text, loss } = badge(t);
            return (
              <button
                type="button"
                class="tab"
                role="tab"
                id={`tab-${t}`}
                data-testid={`tab-${t}`}
                aria-selected={t === tab}
                aria-controls={`panel-${t}`}
                tabIndex={t === tab ? 0 : -1}
                onClick={() => {
                  panelShown.value = true;
                  change({ tab: t });
                }}
              >
                {LABELS[t]}
                {text ? <span class={`bd${loss ? ' l' : ''}`}>{text}</span> : null}
              </button>
            );
          })}
        </div>
        <div class="tools">{Tools && on ? <Tools /> : null}</div>
      </div>
      {panel('events', <Events />)}
      {panel('selection', <Selection />)}
      {panel('flame', <Flame />)}
      {panel('calls', tab === 'calls' ? <Calls /> : null)}
      {panel('analyses', tab === 'analyses' ? <Analyses /> : null)}
      {panel('problems', <Problems />)}
      {panel('sql', tab === 'sql' ? <Sql /> : null)}
    </section>
  );
}

const widthOf = (size: keyof Sizes): number => (size === 'label' ? labelWidth.peek() : sizes.peek()[size]);

/** A line between parts that can be moved by mouse and keys; a double click gives the labels the width that their names need. */
function Divider({ size, label }: { size: keyof Sizes; label: string }): JSX.Element {
  const flat = size === 'bottom';
  const sign = size === 'label' ? 1 : -1;
  const { least, most } = sizeBounds(size);
  const onPointerDown = (e: PointerEvent): void => {
    if (!(e.currentTarget instanceof HTMLElement)) return;
    const target = e.currentTarget;
    const began = widthOf(size);
    const from = flat ? e.clientY : e.clientX;
    followPointer(target, e, (m) => setSize(size, began + sign * ((flat ? m.clientY : m.clientX) - from)));
  };
  const onKeyDown = (e: KeyboardEvent): void => {
    const by =
      { ArrowLeft: flat ? 0 : -1, ArrowRight: flat ? 0 : 1, ArrowUp: flat ? -1 : 0, ArrowDown: flat ? 1 : 0 }[e.key] ??
      0;
    if (by === 0) return;
    setSize(size, widthOf(size) + sign * by * 16);
    e.preventDefault();
    e.stopPropagation();
  };
  return (
    <div
      class={`sep ${flat ? 'h' : 'v'} of-${size}`}
      role="separator"
      tabIndex={0}
      aria-label={label}
      aria-orientation={flat ? 'horizontal' : 'vertical'}
      aria-valuenow={size === 'label' ? labelWidth.value : sizes.value[size]}
      aria-valuemin={least}
      aria-valuemax={most}
      onPointerDown={onPointerDown}
      onKeyDown={onKeyDown}
      onDblClick={() => {
        if (size === 'label') freeSize('label');
      }}
    />
  );
}
