import assert from 'node:assert/strict';
import { test } from 'node:test';
import { joinSums, type Sum } from '../src/api/embedded-answers';

// The cases are those of the server (`lod/src/slices.rs`): a page in a file answers as it does.

const sum = (at: number, depth: number, name: number, length: number): Sum => ({
  at,
  len: 1,
  depth,
  name,
  longest: length,
  n: 2,
  ns: 2 * length,
  busy: 0,
});

test('neighbours stand together while they look alike', () => {
  const first = 1020;
  const cases: readonly (readonly [number, number])[] = [
    [10, 1],
    [12, 1],
    [12, 2],
    [12, 2],
    [12, 2],
    [12, 2],
    [30, 2],
    [0, 2],
  ];
  const runs = joinSums(
    cases.map(([length, name], i) => sum(first + i, 0, name, length)),
    64,
  );
  assert.deepEqual(
    runs.map(({ at, len, name, n, busy }) => [at - first, len, name, n, busy]),
    [
      [0, 2, 1, 4, 87],
      [2, 2, 2, 4, 95],
      [4, 2, 2, 4, 95],
      [6, 1, 2, 2, 239],
      [7, 1, 2, 2, 1],
    ],
  );
});

test('one that is alone stays alone', () => {
  const sums = [sum(1, 0, 1, 5), { ...sum(2, 0, 1, 10), n: 1, ns: 10 }, sum(3, 0, 1, 5)];
  assert.deepEqual(
    joinSums(sums, 64).map(({ at, len, n }) => [at, len, n]),
    [
      [1, 1, 2],
      [2, 1, 1],
      [3, 1, 2],
    ],
  );
});

test('many sums of a tile stand together, and those of the next one do not', () => {
  const sums: Sum[] = [];
  for (let at = 0; at < 2048; at += at < 1024 ? 1 : 4)
    for (let depth = 0; depth < 3; depth++) sums.push(sum(at, depth, (at * 3 + depth) % 7, 20 + ((at * 37) % 480)));
  const runs = joinSums(sums, 1024);
  const [one, next] = [runs.filter(({ at }) => at < 1024), runs.filter(({ at }) => at >= 1024)];
  assert.ok(one.length === 1536 && one.every(({ len, n }) => len === 2 && n === 4));
  assert.ok(next.length === 768 && next.every(({ len, n }) => len === 1 && n === 2));
  // Named as the longest of both.
  for (const run of one) {
    const [a, b] = [run.at, run.at + 1].map((at) => sums[at * 3 + run.depth]);
    assert.ok(a && b);
    assert.equal(run.name, b.longest > a.longest ? b.name : a.name);
  }
});
