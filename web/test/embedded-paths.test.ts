// Why threads waited, in a page that holds its data.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { why } from '../src/api/embedded-paths';
import type { Pack } from '../src/api/pack';
import { ApiError } from '../src/api/source';

/** A thread that runs, waits for another one and a disk, and runs again. */
const pack = {
  head: {
    states: ['s0.5.0', 's0.7.0', 's0.9.0'],
    paths: {
      causes: [
        [5, 'oven', 'running', 'running', null],
        [7, 'log', 'running', 'while log 7 ran', 'oven 5 waited for log 7'],
        [7, 'log', 'disk', 'waiting for disk sda', 'oven 5 waited for log 7'],
      ],
      paths: [
        {
          track: 's0.5.0',
          begin: '1000',
          end: '2000',
          parts: 4,
          sentence: 'oven 5 took 1.0 us',
          totals: [['running', '600', true]],
          others: [2, '400'],
          waits: [['1200', '1600', 'oven 5 took 400 ns']],
        },
      ],
      left_out: 1,
    },
  },
  paths: [
    {
      length: Float64Array.of(200, 100, 300, 400),
      cause: Uint32Array.of(0, 1, 2, 0),
      track: Uint32Array.of(1, 2, 0, 1),
    },
  ],
} as unknown as Pack;

test('the whole has its sentence and its sums', () => {
  const whole = why(pack, 's0.5.0', [null, null]);
  assert.deepEqual([whole.begin, whole.end, whole.sentence], ['1000', '2000', 'oven 5 took 1.0 us']);
  assert.deepEqual([whole.parts.length, whole.left_out, whole.note], [4, 0, undefined]);
  assert.deepEqual(whole.totals, [{ why: 'running', total: '600', share: 0.6, own: true }]);
  assert.deepEqual(whole.other_totals, { count: 2, total: '400' });
  assert.deepEqual(
    whole.parts.map((part) => [part.from, part.to, part.track, part.tid, part.state]),
    [
      ['1000', '1200', 's0.5.0', 5, 'running'],
      ['1200', '1300', 's0.7.0', 7, 'running'],
      ['1300', '1600', null, 7, 'disk'],
      ['1600', '2000', 's0.5.0', 5, 'running'],
    ],
  );
  // Times beyond it are those of the whole.
  assert.deepEqual(why(pack, 's0.5.0', [0n, 9999n]), whole);
});

test('a wait has its parts and its sentence', () => {
  const wait = why(pack, 's0.5.0', [1200n, 1600n]);
  assert.deepEqual([wait.sentence, wait.totals, wait.note], ['oven 5 took 400 ns', [], undefined]);
  assert.deepEqual(
    wait.parts.map((part) => part.why),
    ['while log 7 ran', 'waiting for disk sda'],
  );
});

test('parts are cut to a range, and the page says what it does not know of it', () => {
  const range = why(pack, 's0.5.0', [1250n, 1700n]);
  assert.deepEqual([range.sentence, range.totals, range.other_totals], [null, [], undefined]);
  assert.match(range.note ?? '', /tracemill view/);
  assert.deepEqual(
    range.parts.map((part) => [part.from, part.to]),
    [
      ['1250', '1300'],
      ['1300', '1600'],
      ['1600', '1700'],
    ],
  );
  assert.deepEqual(why(pack, 's0.5.0', [3000n, 4000n]).parts, []);
});

test('threads without a path are told from those that are not there', () => {
  const refused = (track: string, text: RegExp): void => {
    let said = '';
    try {
      why(pack, track, [null, null]);
    } catch (error) {
      if (error instanceof ApiError) said = error.body.message;
    }
    assert.match(said, text);
  };
  refused('s0.9.0', /the threads that waited longest \(1\)/);
  refused('s0.8.0', /there is no thread `s0\.8\.0`/);
});
