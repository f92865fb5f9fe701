import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readEvent } from '../src/api/server';
import { encodeQuery } from '../src/api/source';
import { coloursOf, inkOn, parseColour, rgbOf } from '../src/draw/theme';
import { valueAt } from '../src/state/json';
import { labelsOf } from '../src/state/labels';
import { COLOURS } from '../src/state/names';
import { plotId, withPlots } from '../src/state/plots';
import { shapeOf } from '../src/state/states';

test('the id of a plotted field says what it shows', () => {
  assert.equal(plotId('g0', 'mill:grind', 'payload.args[1]'), 'p.g0.mill-3Agrind.payload-2Eargs-5B1-5D');
  assert.equal(plotId('g1', 'ü', '`a-b`'), 'p.g1.-C3-BC.-60a-2Db-60');
  const group = { id: 'g0', parent: null, kind: 'group', base: false, name: '', trace: 0, events: 1 } as const;
  const stream = { ...group, id: 'b0', parent: 'g0', kind: 'events' } as const;
  const plot = { ...stream, id: 'p.g0.a.b', kind: 'counter' } as const;
  assert.deepEqual(
    withPlots([group, stream], [plot]).map((t) => t.id),
    ['g0', 'p.g0.a.b', 'b0'],
  );
});

test('labels of an enumeration are found in the texts of rows', () => {
  const texts = [
    'grinder = 0, gear = ( "COARSE" : container = 3 ), grams = 1',
    'gear = ( "COARSE", "FI\\"NE" : container = 5 )',
    'top_gear = ( "NO" : container = 1 ), gear = "no label"',
  ];
  assert.deepEqual(labelsOf('gear', texts), ['COARSE', 'FI\\"NE']);
  assert.deepEqual(labelsOf('grams', texts), []);
});

test('values of a JSON line keep their digits', () => {
  const line =
    '{"ns":5,"name":"x","stream_context":{"vpid":7},"payload":{"big":18446744073709551615,"s":"a \\"b\\" }","list":[1.50,[2,3]],"e":{"value":20,"labels":["2nd \\"crack\\"","x"]},"odd name":true,"none":null}}';
  const cases: readonly (readonly [string, string])[] = [
    ['payload.big', '18446744073709551615'],
    ['big', '18446744073709551615'],
    ['s', 'a "b" }'],
    ['payload.list[0]', '1.50'],
    ['list[1][1]', '3'],
    ['e', '2nd "crack" x (20)'],
    ['vpid', '7'],
    ['$ctx.vpid', '7'],
    ['`odd name`', 'true'],
    ['payload.none', 'null'],
    ['name', 'x'],
    ['payload.gone', ''],
    ['list[9]', ''],
    ['header.x', ''],
  ];
  for (const [path, wanted] of cases) assert.equal(valueAt(line, path), wanted, path);
  assert.equal(valueAt('', 'a.b'), '');
  assert.equal(valueAt('{"payload":{"a":', 'a'), '');
});

test('server-sent events', () => {
  assert.deepEqual(readEvent('event: filter\ndata: {"filter":"x","done":0.5,"matches":3}'), {
    kind: 'filter',
    filter: 'x',
    done: 0.5,
    matches: 3,
  });
  assert.deepEqual(readEvent('event: end\ndata: {}'), { kind: 'end' });
  assert.deepEqual(readEvent('event:index\ndata: {"state":"counting",\ndata: "done":0.25}'), {
    kind: 'index',
    index: { state: 'counting', done: 0.25 },
    generation: undefined,
  });
  assert.equal(readEvent(': a comment'), null);
  assert.equal(readEvent('event: of a later version\ndata: {}'), null);
});

test('queries leave out what is not there', () => {
  assert.equal(encodeQuery({ a: 1, b: null, c: undefined, d: '', e: 'x & y', f: 0 }), '?a=1&e=x%20%26%20y&f=0');
  assert.equal(encodeQuery({}), '');
});

test('colours', () => {
  assert.deepEqual(parseColour('#fff'), [1, 1, 1, 1]);
  assert.deepEqual(
    parseColour('#ff000080').map((x) => Math.round(x * 255)),
    [255, 0, 0, 128],
  );
  assert.deepEqual(parseColour('rgba(255, 0, 51, .5)'), [1, 0, 0.2, 0.5]);
  assert.deepEqual(
    rgbOf([1, 0, 0]).map((x) => Math.round(x * 255)),
    [255, 255, 255],
  );
  assert.deepEqual(
    rgbOf([0.628, 0.2577, 29.23]).map((x) => Math.round(x * 255)),
    [255, 0, 0],
  );
});

// How colours look to eyes that lack a kind of cone (Machado and others, 2009), in linear sRGB.
const SIGHTS: Record<string, readonly (readonly [number, number, number])[]> = {
  normal: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  protan: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  deutan: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  tritan: [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039],
  ],
};
const linear = (rgb: readonly number[]): number[] =>
  rgb.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
const luminance = (rgb: readonly number[]): number => {
  const [r = 0, g = 0, b = 0] = linear(rgb);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (a: readonly number[], b: readonly number[]): number => {
  const [x, y] = [luminance(a), luminance(b)];
  return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
};
function oklab(rgb: readonly number[]): number[] {
  const [r = 0, g = 0, b = 0] = rgb;
  const cube = (x: number): number => Math.cbrt(Math.max(0, x));
  const [l, m, s] = [
    cube(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b),
    cube(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b),
    cube(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b),
  ];
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

test('names stay apart for every kind of sight, and lines can be seen on their grounds', () => {
  const grounds: Record<string, readonly string[]> = { light: ['#ffffff', '#efefeb'], dark: ['#191c21', '#22262d'] };
  for (const dark of [false, true]) {
    const all = coloursOf(dark);
    // States have words and shapes beside their colours.
    const [fills, edges] = [all.fills.slice(0, COLOURS), all.edges.slice(0, COLOURS)];
    for (const edge of all.edges)
      for (const ground of grounds[dark ? 'dark' : 'light'] ?? []) {
        assert.ok(contrast(rgbOf(edge), parseColour(ground)) >= 3, `${String(edge)} on ${ground}`);
      }
    all.fills.forEach((fill, i) => {
      if (shapeOf(i) === 'full')
        assert.ok(contrast(rgbOf(fill), parseColour(inkOn(fill))) >= 4.5, `text on ${String(fill)}`);
    });
    for (const set of [fills, edges])
      for (const [sight, matrix] of Object.entries(SIGHTS)) {
        const seen = set.map((c) => {
          const rgb = linear(rgbOf(c));
          return oklab(matrix.map((row) => row.reduce((sum, x, i) => sum + x * (rgb[i] ?? 0), 0)));
        });
        for (const [i, a] of seen.entries())
          for (const [j, b] of seen.slice(0, i).entries()) {
            assert.ok(
              Math.hypot(...a.map((x, k) => x - (b[k] ?? 0))) >= 0.064,
              `${sight}: colours ${i} and ${j} of ${dark ? 'dark' : 'light'}`,
            );
          }
      }
  }
});
