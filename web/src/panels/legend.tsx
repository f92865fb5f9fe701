// The states that occur, with the colour and the shape in which they are drawn.
import type { JSX } from 'preact';
import { goToState } from '../state/find';
import { shapeOf, stateColour } from '../state/states';
import { session } from '../state/store';

/** Which things are in a state, for the words of its entry. */
function subjectsOf(name: string, cpus: readonly string[], threads: readonly string[]): string {
  const [cpu, thread] = [cpus.includes(name), threads.includes(name)];
  return cpu && thread ? 'CPUs and threads' : cpu ? 'CPUs' : 'threads';
}

export function Legend(): JSX.Element | null {
  const states = session.value?.states;
  if (!states || states.cpus.length + states.threads.length === 0) return null;
  // In the order of their colours; what nothing is drawn for comes last.
  const names = [...new Set([...states.threads, ...states.cpus])].sort(
    (a, b) => (stateColour(a) ?? Infinity) - (stateColour(b) ?? Infinity),
  );
  return (
    <div class="legend" data-testid="legend" role="group" aria-label="Legend of states">
      {names.map((name) => {
        const colour = stateColour(name);
        const title = `${name}, of ${subjectsOf(name, states.cpus, states.threads)}`;
        const swatch = (
          <i
            class={`swatch ${colour === undefined ? 'none' : shapeOf(colour)}`}
            aria-hidden="true"
            style={colour === undefined ? {} : { '--fill': `var(--fill${colour})`, '--edge': `var(--edge${colour})` }}
          />
        );
        // An idle CPU is not drawn, so there is nothing to go to.
        if (colour === undefined)
          return (
            <span key={name} data-state={name} title={title}>
              {swatch}
              {name}
            </span>
          );
        return (
          <button
            type="button"
            key={name}
            data-state={name}
            title={`${title}: go to the next one`}
            onClick={(e) => void goToState(name, e.shiftKey ? 'previous' : 'next')}
          >
            {swatch}
            {name}
          </button>
        );
      })}
    </div>
  );
}
