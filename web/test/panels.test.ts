import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readEvent } from '../src/api/server';
import { encodeQuery } from '../src/api/source';
import { valueOf } from '../src/panels/json';
import { parseColour, rgbOf } from '../src/draw/theme';

test('values of a JSON line keep their digits', () => {
  const line = '{"ns":5,"name":"x","stream_context":{"vpid":7},"payload":{"big":18446744073709551615,"s":"a \\"b\\" }","list":[1.50,[2,3]],"e":{"value":20,"labels":["2nd \\"crack\\"","x"]},"odd name":true,"none":null}}';
  const cases: readonly (readonly [string, string])[] = [
    ['payload.big', '18446744073709551615'], ['big', '18446744073709551615'], ['s', 'a "b" }'], ['payload.list[0]', '1.50'], ['list[1][1]', '3'], ['e', '2nd "crack" x (20)'], ['vpid', '7'], ['$ctx.vpid', '7'],
    ['`odd name`', 'true'], ['payload.none', 'null'], ['name', 'x'], ['payload.gone', ''], ['list[9]', ''], ['header.x', ''],
  ];
  for (const [path, wanted] of cases) assert.equal(valueOf(line, path), wanted, path);
  assert.equal(valueOf('', 'a.b'), '');
  assert.equal(valueOf('{"payload":{"a":', 'a'), '');
});

test('server-sent events', () => {
  assert.deepEqual(readEvent('event: filter\ndata: {"filter":"x","done":0.5,"matches":3}'), { kind: 'filter', filter: 'x', done: 0.5, matches: 3 });
  assert.deepEqual(readEvent('event: end\ndata: {}'), { kind: 'end' });
  assert.deepEqual(readEvent('event:index\ndata: {"state":"counting",\ndata: "done":0.25}'), { kind: 'index', index: { state: 'counting', done: 0.25 }, generation: undefined });
  assert.equal(readEvent(': a comment'), null);
  assert.equal(readEvent('event: of a later version\ndata: {}'), null);
});

test('queries leave out what is not there', () => {
  assert.equal(encodeQuery({ a: 1, b: null, c: undefined, d: '', e: 'x & y', f: 0 }), '?a=1&e=x%20%26%20y&f=0');
  assert.equal(encodeQuery({}), '');
});

test('colours', () => {
  assert.deepEqual(parseColour('#fff'), [1, 1, 1, 1]);
  assert.deepEqual(parseColour('#ff000080').map((x) => Math.round(x * 255)), [255, 0, 0, 128]);
  assert.deepEqual(parseColour('rgba(255, 0, 51, .5)'), [1, 0, 0.2, 0.5]);
  assert.deepEqual(rgbOf([1, 0, 0]).map((x) => Math.round(x * 255)), [255, 255, 255]);
  assert.deepEqual(rgbOf([0.628, 0.2577, 29.23]).map((x) => Math.round(x * 255)), [255, 0, 0]);
});
