import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  address,
  clock,
  day,
  device,
  duration,
  grouped,
  point,
  secondsSince,
  shortDuration,
  ticks,
} from '../src/time/format';
import { parseDuration, parseRange, parseTime } from '../src/time/parse';
import {
  centred,
  centredInside,
  fitted,
  levelOf,
  moved,
  NARROWEST_NS,
  type Range,
  scaled,
  shareOf,
  spanOf,
  tileBegin,
  tilesOf,
  timeAt,
  zoomedBy,
  zoomedIn,
  zoomedOut,
} from '../src/time/range';
import { Random } from './random';

const WHOLE: Range = { begin: 1_795_249_870_212_652_163n, end: 1_795_249_870_781_941_362n };

test('zooming in halves a view and keeps what it goes around', () => {
  const random = new Random(1);
  for (let round = 0; round < 200; round++) {
    let view = WHOLE;
    const around = WHOLE.begin + (spanOf(WHOLE) * BigInt(random.below(1001))) / 1000n;
    for (let steps = 0; spanOf(view) > NARROWEST_NS; steps++) {
      assert.ok(steps < 64);
      const next = zoomedIn(view, around);
      const wanted = spanOf(view) / 2n < NARROWEST_NS ? NARROWEST_NS : spanOf(view) / 2n;
      assert.equal(spanOf(next), wanted);
      assert.ok(next.begin <= around && around <= next.end, `${around} is in ${next.begin}..${next.end}`);
      if (spanOf(next) > 1000n) assert.ok(Math.abs(shareOf(next, around) - shareOf(view, around)) < 0.002);
      view = next;
    }
  }
});

test('zooming out ends at the whole, and never leaves it', () => {
  let view: Range = { begin: WHOLE.end - 40n, end: WHOLE.end };
  for (let steps = 0; spanOf(view) < spanOf(WHOLE); steps++) {
    assert.ok(steps < 64);
    view = zoomedOut(view, view.begin, WHOLE);
    assert.ok(view.begin >= WHOLE.begin && view.end <= WHOLE.end);
  }
  assert.deepEqual(view, WHOLE);
  assert.deepEqual(zoomedOut(WHOLE, WHOLE.begin, WHOLE), WHOLE);
  const wide = { begin: WHOLE.begin - 10n, end: WHOLE.end + 10n };
  assert.deepEqual(zoomedOut(wide, wide.begin, WHOLE), wide, 'one that was typed wider stays');
});

test('wheels zoom by any factor, and a step out always moves', () => {
  const point: Range = { begin: 100n, end: 116n };
  assert.ok(spanOf(zoomedBy(point, 1.0001, 108n, { begin: 0n, end: 1000n })) > spanOf(point));
  assert.equal(spanOf(zoomedBy(point, 0.1, 108n, { begin: 0n, end: 1000n })), NARROWEST_NS);
  assert.deepEqual(zoomedBy({ begin: 5n, end: 5n }, 2, 5n, { begin: 5n, end: 5n }), { begin: 5n, end: 5n });
});

test('moving there and back is exact', () => {
  const view = zoomedIn(zoomedIn(WHOLE, WHOLE.begin + spanOf(WHOLE) / 2n), WHOLE.begin + spanOf(WHOLE) / 2n);
  const by = spanOf(view) / 4n;
  assert.deepEqual(moved(moved(view, by, WHOLE), -by, WHOLE), view);
  assert.equal(moved(view, spanOf(WHOLE), WHOLE).end, WHOLE.end);
  assert.equal(spanOf(moved(view, -spanOf(WHOLE) * 4n, WHOLE)), spanOf(view));
});

test('fitted and centred views hold what they are about', () => {
  assert.deepEqual(fitted({ begin: 800n, end: 1600n }, WHOLE), { begin: 700n, end: 1700n });
  assert.deepEqual(fitted({ begin: 50n, end: 50n }, { begin: 0n, end: 10n }), centred({ begin: 0n, end: 10n }, 50n));
  assert.deepEqual(centred({ begin: 0n, end: 10n }, 50n), { begin: 45n, end: 55n });
  assert.deepEqual(centredInside({ begin: 0n, end: 10n }, 2n, { begin: 0n, end: 100n }), { begin: 0n, end: 10n });
  assert.deepEqual(centredInside({ begin: 0n, end: 10n }, 99n, { begin: 0n, end: 100n }), { begin: 90n, end: 100n });
  assert.deepEqual(centredInside({ begin: 0n, end: 10n }, 50n, { begin: 0n, end: 100n }), { begin: 45n, end: 55n });
  assert.deepEqual(centredInside({ begin: 0n, end: 10n }, 200n, { begin: 0n, end: 100n }), { begin: 190n, end: 200n });
});

test('division rounds down for all signs', () => {
  for (const [a, n, d, wanted] of [
    [7n, 1n, 2n, 3n],
    [-7n, 1n, 2n, -4n],
    [7n, -1n, 2n, -4n],
    [-8n, 1n, 2n, -4n],
    [0n, 5n, 3n, 0n],
  ] as const)
    assert.equal(scaled(a, n, d), wanted);
});

test('shares and times agree', () => {
  for (const share of [0, 0.25, 0.5, 0.999, 1])
    assert.ok(Math.abs(shareOf(WHOLE, timeAt(WHOLE, share)) - share) < 1e-8);
  assert.equal(timeAt(WHOLE, 0), WHOLE.begin);
  assert.equal(timeAt(WHOLE, 1), WHOLE.end);
  assert.equal(shareOf({ begin: 3n, end: 3n }, 3n), 0);
});

test('a bucket of the level is at most a pixel wide, and no coarser one would be', () => {
  const random = new Random(2);
  for (let round = 0; round < 500; round++) {
    const span = (random.big() + 1n) * (random.chance(0.5) ? 1n : 3n);
    const view = { begin: 0n, end: span < 0n ? -span : span };
    const pixels = 1 + random.below(3000);
    const level = levelOf(view, pixels);
    const perPixel = spanOf(view) / BigInt(pixels);
    if (level > 0) assert.ok(1n << BigInt(level) <= perPixel);
    assert.ok(1n << BigInt(level + 1) > perPixel);
  }
});

test('tiles of a view cover it', () => {
  const origin = WHOLE.begin - 12_345n;
  for (let level = 0; level < 40; level++) {
    const { from, to } = tilesOf(WHOLE, level, origin);
    assert.ok(tileBegin(from, level, origin) <= WHOLE.begin);
    assert.ok(tileBegin(to + 1, level, origin) > WHOLE.end);
    assert.ok(tileBegin(to, level, origin) <= WHOLE.end);
  }
  assert.deepEqual(tilesOf({ begin: -100n, end: 5n }, 0, 0n), { from: 0, to: 0 }, 'none is before the origin');
});

test('durations', () => {
  const cases: readonly (readonly [bigint, string, string])[] = [
    [0n, '0 ns', '0\u202fns'],
    [999n, '999 ns', '999\u202fns'],
    [1000n, '1.000 µs', '1\u202fµs'],
    [1_234_567n, '1.234 ms', '1.234567\u202fms'],
    [500_000_000n, '500.000 ms', '500\u202fms'],
    [1_496_317_840n, '1.496 s', '1.49631784\u202fs'],
    [-2_909_000n, '-2.909 ms', '-2.909\u202fms'],
    [12_345_000_000_000n, '12\u202f345.000 s', '12\u202f345\u202fs'],
  ];
  for (const [ns, long, short] of cases) {
    assert.equal(duration(ns), long);
    assert.equal(shortDuration(ns), short);
  }
});

test('numbers and times', () => {
  assert.equal(grouped(1234567), '1\u202f234\u202f567');
  assert.equal(grouped('-18446744073709551615'), '-18\u202f446\u202f744\u202f073\u202f709\u202f551\u202f615');
  assert.equal(clock(WHOLE.begin, 9), '08:31:10.212652163');
  assert.equal(clock(-1n, 9), '23:59:59.999999999');
  assert.equal(day(WHOLE.begin), '2026-11-21');
  assert.equal(day(10n ** 30n), '');
  assert.equal(secondsSince(-1n), '-0.000000001');
  const at = { format: 'cursor' as const, begin: 5n, cursor: 105n };
  assert.equal(point(5n, at), '-100 ns');
  assert.equal(point(1205n, { ...at, format: 'begin' }), '+0.000001200');
  assert.equal(point(1205n, { ...at, format: 'ns' }), '1\u202f205');
});

test('ticks are 1, 2 or 5 times a power of ten, and far enough apart', () => {
  const random = new Random(3);
  for (let round = 0; round < 300; round++) {
    const begin = WHOLE.begin + BigInt(random.below(1e9));
    const end = begin + BigInt(1 + random.below(10 ** (1 + random.below(12))));
    const { step, first, base } = ticks(begin, end, 0.1, WHOLE.begin);
    assert.match(String(step), /^[125]0*$/);
    assert.ok(Number(step) >= Number(end - begin) * 0.1);
    assert.ok(first >= begin && first - step < begin);
    assert.equal((first - base) % step, 0n);
    assert.ok(base <= begin || base === WHOLE.begin);
  }
});

test('times that are typed', () => {
  const at = { begin: WHOLE.begin, end: WHOLE.end, local: false };
  const cases: readonly (readonly [string, bigint | null])[] = [
    ['1700000001000962416ns', 1_700_000_001_000_962_416n],
    ['12', 12_000_000_000n],
    ['-0.5', -500_000_000n],
    ['1.000000001', 1_000_000_001n],
    ['+1.5s', WHOLE.begin + 1_500_000_000n],
    ['-200ms', WHOLE.end - 200_000_000n],
    ['+1m30s', WHOLE.begin + 90_000_000_000n],
    ['2026-11-21 08:31:10.5', 1_795_249_870_500_000_000n],
    ['2026-11-21T08:31:10.5Z', 1_795_249_870_500_000_000n],
    ['2026-11-21T09:31+01:00', 1_795_249_860_000_000_000n],
    ['08:31:10.212652163', WHOLE.begin],
    ['08:31', 1_795_249_860_000_000_000n],
    ['2026-11-21', 1_795_219_200_000_000_000n],
    ['', null],
    ['soon', null],
    ['+5', null],
    ['1.0000000001', null],
  ];
  for (const [text, wanted] of cases) assert.equal(parseTime(text, at), wanted, text);
  assert.deepEqual(parseRange('+1s..-1s', at), {
    begin:
      WHOLE.begin + 1_000_000_000n < WHOLE.end - 1_000_000_000n
        ? WHOLE.begin + 1_000_000_000n
        : WHOLE.end - 1_000_000_000n,
    end:
      WHOLE.begin + 1_000_000_000n < WHOLE.end - 1_000_000_000n
        ? WHOLE.end - 1_000_000_000n
        : WHOLE.begin + 1_000_000_000n,
  });
  assert.deepEqual(parseRange('20ns..10ns', at), { begin: 10n, end: 20n });
  assert.deepEqual(
    [parseRange('10ns', at), parseRange('1ns..2ns..3ns', at), parseRange('..2ns', at), parseRange('soon..2ns', at)],
    [null, null, null, null],
  );
  assert.equal(parseDuration('1h2m3.5s'), 3_723_500_000_000n);
  assert.equal(parseDuration('5'), null);
  assert.equal(parseDuration('0.5ns'), null);
});

test('devices have two numbers', () => {
  assert.deepEqual([8 * 2 ** 20, 254 * 2 ** 20 + 3, 7, -1, 2 ** 40].map(device), [
    '8:0',
    '254:3',
    '7',
    '-1',
    '1099511627776',
  ]);
});

test('addresses are hexadecimal', () => {
  const all = [0n, 139_888_628_339_520n, 0xffff_8000_0000_0001n, -1n, 1n << 64n].map(address);
  assert.deepEqual(all, ['0x0', '0x7f3a5c001340', '0xffff800000000001', '0xffffffffffffffff', '0x10000000000000000']);
});
