import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readFragment, takeKey, writeFragment } from '../src/state/fragment';
import { INITIAL, type State, TABS } from '../src/state/state';
import { TIME_FORMATS } from '../src/time/format';
import { ordered, type Range } from '../src/time/range';
import { Random } from './random';

function randomState(random: Random): State {
  const range = (): Range | null => (random.chance(0.3) ? null : ordered(random.big(), random.big()));
  const name = (): string => random.text() || 'x';
  return {
    view: range(),
    selection: range(),
    chosen: random.list(4, name),
    filter: random.text(),
    query: random.text(),
    event: random.chance(0.5) ? random.below(1e9) : null,
    call: random.chance(0.5) ? { track: name(), call: random.below(1e6) } : null,
    tab: random.pick(TABS),
    pins: random.list(3, name),
    folds: random.list(3, name),
    columns: random.list(3, name),
    format: random.chance(0.5) ? random.pick(TIME_FORMATS) : null,
    cursor: random.chance(0.5) ? random.big() : null,
    bookmarks: random.list(3, () => ({ ns: random.big(), label: random.text() })),
    hidden: random.list(3, name),
    first: random.list(3, name),
    last: random.list(3, name),
    groups: random.list(2, () => `${name()}:${name()}`),
    slice: random.chance(0.5) ? { track: name(), at: random.big(), depth: random.below(30) } : null,
    sql: random.text(),
    plots: random.list(3, name),
    path: random.chance(0.5) ? { track: name(), range: ordered(random.big(), random.big()) } : null,
    analysis: random.text(),
    period: random.text(),
    unknown: random.chance(0.3) ? ['later=1,2', 'flag'] : [],
  };
}

test('a state comes back from its link', () => {
  const random = new Random(4);
  for (let round = 0; round < 3000; round++) {
    const state = randomState(random);
    const link = writeFragment(state);
    assert.deepEqual(readFragment(link), state, link);
    assert.match(link, /^[\x21-\x7e]*$/, 'a link is plain text without spaces');
    assert.equal(writeFragment(readFragment(link)), link);
  }
});

test('the beginning has an empty link', () => assert.equal(writeFragment(INITIAL), ''));

test('keys are as they are fixed', () => {
  const state = readFragment(
    '#t=10..20&sel=12..14&tr=a,b%2Cc&f=cpu%20%3D%3D%200&q=x&ev=7&call=t_1:3&tab=flame&pin=p&fold=q&cols=payload.a&fmt=ns&cur=-5&bm=13~look%2C%20here%20~%20%26%20there&hide=h&up=u,v&down=w&by=g0%3Apayload.id&at=s.1:-7:2&sql=select%201&plot=p.g0.a.b,p.g0.c.d&path=s0.641.0:30..40&an=sched%2F%2Fthread%2Fpoints&per=q.f.a.b..9&new=1',
  );
  assert.deepEqual(state, {
    view: { begin: 10n, end: 20n },
    selection: { begin: 12n, end: 14n },
    chosen: ['a', 'b,c'],
    filter: 'cpu == 0',
    query: 'x',
    event: 7,
    call: { track: 't_1', call: 3 },
    tab: 'flame',
    pins: ['p'],
    folds: ['q'],
    columns: ['payload.a'],
    format: 'ns',
    cursor: -5n,
    bookmarks: [{ ns: 13n, label: 'look, here ~ & there' }],
    hidden: ['h'],
    first: ['u', 'v'],
    last: ['w'],
    groups: ['g0:payload.id'],
    slice: { track: 's.1', at: -7n, depth: 2 },
    sql: 'select 1',
    plots: ['p.g0.a.b', 'p.g0.c.d'],
    path: { track: 's0.641.0', range: { begin: 30n, end: 40n } },
    analysis: 'sched//thread/points',
    period: 'q.f.a.b..9',
    unknown: ['new=1'],
  });
});

test('nonsense is as if it were not there', () => {
  assert.deepEqual(
    readFragment('t=a..b&sel=5&ev=-1&call=x&tab=none&fmt=moon&cur=1.5&bm=~x&at=s:x:1&path=s0.1.0&t=1..2..3'),
    INITIAL,
  );
  assert.deepEqual(readFragment('q=%E0%A4%A'), { ...INITIAL, query: '%E0%A4%A' });
  assert.deepEqual(readFragment('t=20..10').view, { begin: 10n, end: 20n });
});

test('the token leaves the fragment, and everything else stays', () => {
  assert.deepEqual(takeKey('#token=abc&t=1..2&x', 'token'), { value: 'abc', rest: 't=1..2&x' });
  assert.deepEqual(takeKey('#t=1..2', 'token'), { value: null, rest: 't=1..2' });
  assert.deepEqual(takeKey('', 'token'), { value: null, rest: '' });
});
