// The parts that the scripts share which drive the page in a real browser: options, the browser, servers, waiting.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import path from 'node:path';

/** The root of the repository: traces are named from there. */
export const root = path.join(path.dirname(new URL(import.meta.url).pathname), '..');

/** The words of the command line; options are taken out of them as they are read. */
export const words = process.argv.slice(2);

/** The value of an option, or null. */
export const option = (name) => {
  const at = words.indexOf(`--${name}`);
  return at < 0 ? null : words.splice(at, 2)[1];
};

/** `--bin`, the program. */
export const bin = path.resolve(option('bin'));
const [modules, executablePath] = [path.resolve(option('modules')), option('chromium') ?? '/usr/bin/chromium'];

/** Loads a package from the folder of `--modules`. */
export const require = createRequire(path.join(modules, 'index.js'));

/** Starts the browser of `--chromium`. */
export const launch = (args = ['--no-sandbox']) => require('playwright-core').chromium.launch({ executablePath, args });

/** Runs `tracemill view`; `stderr` is where its messages go. */
export async function serve(traces, stderr = 'inherit') {
  const child = spawn(bin, ['view', ...traces, '--no-open', '--no-cache'], {
    cwd: root,
    stdio: ['ignore', 'pipe', stderr],
  });
  const address = await new Promise((resolve) => {
    let text = '';
    child.stdout.on('data', (d) => {
      text += d;
      if (text.includes('\n')) resolve(text.trim());
    });
  });
  return {
    child,
    address,
    end: () =>
      new Promise((resolve) => {
        child.on('exit', resolve);
        child.kill('SIGINT');
      }),
  };
}

/** The selector of an element by its name for tests. */
export const id = (name) => `[data-testid="${name}"]`;

/** Waits until the page has drawn the answers to all of its questions. */
export const settled = (page, state = 'ready') =>
  page.waitForSelector(`${id('app')}[data-state="${state}"][data-busy="0"]`, { state: 'attached', timeout: 30_000 });

/** Waits as long by the page's own timers: those that it set before are through then, on a slow machine too. */
export const pause = (page, ms) =>
  page.evaluate(
    (t) =>
      new Promise((resolve) => {
        setTimeout(resolve, t);
      }),
    ms,
  );

/** Waits for the timers of the page, then for its answers. */
export const rest = async (page, { ms = 60, state = 'ready' } = {}) => {
  await pause(page, ms);
  await settled(page, state);
};
