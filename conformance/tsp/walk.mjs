// Asks every endpoint of the Trace Server Protocol through the protocol's own client, and checks each answer against the
// schemas of its API file.
//
//     node walk.mjs --bin tracemill [--api API.yaml] --modules DIR TRACE...
//
// DIR/node_modules has the packages of package.json, which stands beside this file. Answers are seen as they come over the
// wire: the client gets a `fetch` that looks at them. The exit status is 1 when one is wrong. Without an API file the answers are
// checked against each other and by the client only.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, resolve } from 'node:path';
import { parseArgs } from 'node:util';

const { values: options, positionals: traces } = parseArgs({
  allowPositionals: true,
  options: { bin: { type: 'string' }, api: { type: 'string' }, modules: { type: 'string' } },
});
const load = createRequire(resolve(options.modules, 'package.json'));
const Ajv = load('ajv').default;
const parseJson = load('json-bigint')({ useNativeBigInt: true }).parse;

let wrong = 0;
const complain = (text) => {
  wrong += 1;
  console.log(`WRONG ${text}`);
};

// The schemas: those of OpenAPI 3.0 are nearly those of JSON Schema. Whole numbers of 64 bits come as BigInt.
const api = options.api ? load('yaml').parse(readFileSync(options.api, 'utf8')) : { paths: {} };
const ajv = new Ajv({ strict: false, allErrors: true, formats: { uuid: /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/ } });
ajv.addKeyword({ keyword: 'int64', validate: (_, value) => typeof value === 'bigint' || Number.isInteger(value) });
ajv.addKeyword({ keyword: 'anyNumber', validate: (_, value) => typeof value === 'bigint' || typeof value === 'number' });
const adapted = (node) => {
  if (Array.isArray(node)) return node.map(adapted);
  if (node === null || typeof node !== 'object') return node;
  const copy = Object.fromEntries(Object.entries(node).map(([key, value]) => [key, adapted(value)]));
  if (copy.type === 'integer') {
    delete copy.type;
    delete copy.format;
    copy.int64 = true;
  }
  if (copy.type === 'number') {
    delete copy.type;
    delete copy.format;
    copy.anyNumber = true;
  }
  // A style value is a text, a number or a whole number, which is a number too.
  if (copy.oneOf) {
    copy.anyOf = copy.oneOf;
    delete copy.oneOf;
    if (copy.type === 'object' && copy.anyOf.some((one) => one.type === 'string')) delete copy.type;
  }
  return copy;
};
ajv.addSchema(adapted(api), 'api');

// The operation of a path: literal parts win over parameters.
const templates = Object.keys(api.paths).map((path) => ({ path, parts: path.split('/') }));
const operationOf = (method, path) => {
  const parts = path.split('/');
  const fits = templates.filter(
    (one) => one.parts.length === parts.length && one.parts.every((part, i) => part.startsWith('{') || part === parts[i]),
  );
  fits.sort((a, b) => a.parts.filter((p) => p.startsWith('{')).length - b.parts.filter((p) => p.startsWith('{')).length);
  const found = fits.find((one) => api.paths[one.path][method]);
  return found && { path: found.path, of: api.paths[found.path][method] };
};

const seen = new Map();
const pointer = (text) => text.replaceAll('~', '~0').replaceAll('/', '~1');
const check = (method, url, status, text) => {
  if (!options.api) return;
  const path = url.pathname.replace('/tsp/api', '');
  const operation = operationOf(method, path);
  if (!operation) return complain(`${method} ${path} is not in the API file`);
  const name = `${method} ${operation.path}`;
  seen.set(name, (seen.get(name) ?? new Set()).add(status));
  const response = operation.of.responses[status];
  if (!response) return complain(`${name} answers ${status}, which the API file does not have: ${text.slice(0, 200)}`);
  if (!response.content) return;
  const place = `api#/paths/${pointer(operation.path)}/${method}/responses/${status}/content/application~1json/schema`;
  const validate = ajv.getSchema(place);
  const value = parseJson(text);
  if (!validate(value)) {
    const errors = validate.errors.slice(0, 3).map((error) => `${error.instancePath} ${error.message}`);
    complain(`${name} ${status}: ${errors.join('; ')}: ${text.slice(0, 200)}`);
  }
};

// The client fetches with node-fetch.
const nodeFetch = load.resolve('node-fetch');
const fetched = load('node-fetch');
const watching = async (address, init) => {
  const response = await fetched(address, init);
  // A clone of a long answer would wait until both are read.
  const text = await response.text();
  check((init?.method ?? 'get').toLowerCase(), new URL(address), response.status, text);
  return new fetched.Response(text, { status: response.status, statusText: response.statusText, headers: response.headers });
};
load.cache[nodeFetch].exports = Object.assign(watching, fetched, { default: watching });
const { HttpTspClient } = load('tsp-typescript-client/lib/protocol/http-tsp-client');
const { OutputConfigurationQuery, Query } = load('tsp-typescript-client/lib/models/query/query');
const { QueryHelper } = load('tsp-typescript-client/lib/models/query/query-helper');

const server = spawn(options.bin, ['view', '--tsp=0', '--no-cache', ...traces], { stdio: ['ignore', 'pipe', 'inherit'] });
const address = await new Promise((give, fail) => {
  let line = '';
  server.stdout.on('data', (bytes) => {
    line += bytes;
    if (line.includes('\n')) give(line.trim());
  });
  server.on('exit', () => fail(new Error('the server ended')));
});

const client = new HttpTspClient(address);
const expect = (is, text) => is || complain(text);
const model = async (what, ask) => {
  for (;;) {
    const response = await ask();
    if (!response.isOk()) return complain(`${what}: status ${response.getStatusCode()}`);
    const answer = response.getModel();
    if (answer.status !== 'RUNNING') return answer.model;
    await new Promise((done) => setTimeout(done, 20));
  }
};
const refused = async (what, status, ask) => {
  const response = await ask();
  expect(response.getStatusCode() === status, `${what}: status ${response.getStatusCode()}, not ${status}`);
};
// The endpoints that the client has no call for.
const plain = async (method, path, parameters) => {
  const init = { method, headers: { 'Content-Type': 'application/json' } };
  if (parameters) init.body = JSON.stringify({ parameters });
  return parseJson(await (await watching(`${address}${path}`, init)).text());
};

const ofTimeGraph = async (experiment, id, range) => {
  const tree = await model(`${id} tree`, () => client.fetchTimeGraphTree(experiment, id, new Query({})));
  const items = tree.entries.filter((entry) => entry.hasData).map((entry) => entry.id);
  const sampled = () => QueryHelper.selectionTimeRangeQuery(range.start, range.end, 500, items);
  const states = await model(`${id} states`, () => client.fetchTimeGraphStates(experiment, id, sampled()));
  const arrows = await model(`${id} arrows`, () => client.fetchTimeGraphArrows(experiment, id, QueryHelper.timeRangeQuery(range.start, range.end, 500)));
  const styles = await model(`${id} style`, () => client.fetchStyles(experiment, id, new Query({})));
  expect(states.rows.length === items.length, `${id}: ${states.rows.length} rows for ${items.length} entries`);
  const ids = new Set(tree.entries.map((entry) => entry.id));
  expect(arrows.every((arrow) => ids.has(arrow.sourceId) && ids.has(arrow.targetId)), `${id}: an arrow leads nowhere`);
  for (const row of states.rows) {
    row.states.forEach((state, at) => {
      const before = row.states[at - 1];
      expect(state.start < state.end && (!before || before.end <= state.start), `${id} ${row.entryId}: states overlap`);
      expect(styles.styles[state.style.parentKey], `${id}: no style ${state.style.parentKey}`);
    });
  }
  const row = states.rows.find((one) => one.states.length > 0);
  if (row) {
    const [state] = row.states;
    const element = { elementType: 'STATE', time: state.start, duration: state.end - state.start, entryId: row.entryId };
    const query = QueryHelper.selectionTimeQuery([state.start], [row.entryId], { requested_element: element });
    const tip = await model(`${id} tooltip`, () => client.fetchTimeGraphTooltip(experiment, id, query));
    expect(tip.State === state.label, `${id}: the tooltip says ${tip.State}, the state ${state.label}`);
  }
  const count = states.rows.reduce((sum, one) => sum + one.states.length, 0);
  return `${tree.entries.length} entries, ${count} states, ${arrows.length} arrows`;
};

// A chart whose series are points: as many as there are samples at most, in the order of time, with the longest ones.
const ofScatter = async (experiment, id, range, items) => {
  const points = async (count) => {
    const query = QueryHelper.selectionTimeRangeQuery(range.start, range.end, count, items);
    return (await model(`${id} xy`, () => client.fetchXY(experiment, id, query))).series;
  };
  const [few, all] = [await points(20), await points(65536)];
  all.forEach((one, at) => {
    const longest = (series) => series.yValues.reduce((a, b) => Math.max(a, Number(b)), 0);
    const { xValues } = few[at];
    expect(one.style.values['series-type'] === 'scatter', `${id} ${one.seriesName}: no points`);
    expect(xValues.length <= 20, `${id} ${one.seriesName}: ${xValues.length} points for 20 samples`);
    expect(longest(few[at]) === longest(one), `${id} ${one.seriesName}: the longest is ${longest(few[at])}, not ${longest(one)}`);
    expect(xValues.every((x, i) => x >= range.start && x <= range.end && (i === 0 || xValues[i - 1] <= x)), `${id}: times`);
  });
  return all.reduce((sum, one) => sum + one.xValues.length, 0);
};

const ofChart = async (experiment, id, range) => {
  const tree = await model(`${id} tree`, () => client.fetchXYTree(experiment, id, new Query({})));
  const items = tree.entries.filter((entry) => entry.hasData).map((entry) => entry.id);
  const query = QueryHelper.selectionTimeRangeQuery(range.start, range.end, 100, items);
  const chart = await model(`${id} xy`, () => client.fetchXY(experiment, id, query));
  expect(chart.series.length === items.length, `${id}: ${chart.series.length} series for ${items.length} entries`);
  expect(chart.series.every((one) => one.xValues.length === one.yValues.length), `${id}: x and y differ in number`);
  if (id.includes('scatter')) return `${items.length} series, ${await ofScatter(experiment, id, range, items)} points`;
  expect(chart.series.every((one) => one.xValues.length === 100), `${id}: not a value for each sample`);
  if (id === 'histogram') {
    const sum = chart.series[0].yValues.reduce((a, b) => a + Number(b), 0);
    expect(sum === Number(range.events), `the histogram has ${sum} events, not ${range.events}`);
  }
  return `${items.length} series`;
};

const ofTable = async (experiment, id, range) => {
  const columns = await model(`${id} columns`, () => client.fetchTableColumns(experiment, id, new Query({})));
  const kind = columns.find((column) => column.name === 'Event type').id;
  const all = await model(`${id} lines`, () => client.fetchTableLines(experiment, id, QueryHelper.tableQuery(columns.map((one) => one.id), 0, 50)));
  expect(Number(all.size) === Number(range.events), `the table has ${all.size} lines, not ${range.events}`);
  const name = all.lines.at(-1).cells[all.columnIds.findIndex((own) => Number(own) === Number(kind))].content;
  const escaped = name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const search = { requested_table_index: 0, requested_table_count: 5, table_search_expressions: { [kind]: `^${escaped}$` }, table_search_direction: 'NEXT' };
  const found = await model(`${id} search`, () => client.fetchTableLines(experiment, id, new Query(search)));
  expect(found.lines[0]?.tags, `a search for ${name} finds no line`);
  return `${all.size} lines`;
};

const ofTree = async (experiment, id, range) => {
  const tree = await model(`${id} tree`, () => client.fetchDataTree(experiment, id, QueryHelper.timeRangeQuery(range.start, range.end)));
  expect(tree.entries.every((entry) => entry.labels.length === tree.headers.length), `${id}: labels and headers differ`);
  return `${tree.entries.length} entries`;
};

// The output of critical paths has no data: the client makes one of its own, shows it, and deletes it.
const ofConfigurator = async (experiment, id, range) => {
  const types = (await client.fetchOutputConfigurationTypes(experiment, id)).getModel();
  expect(types.length === 1 && types[0].schema, `${id}: no type with a schema`);
  const [type] = types;
  await client.fetchOutputConfigurationType(experiment, id, type.id);
  const { tid } = type.schema.properties;
  const make = (parameters, source = type.id) =>
    client.createDerivedOutput(experiment, id, new OutputConfigurationQuery('walked', 'by a walk', source, parameters));
  const parameters = { tid: Number(tid.default), begin: null, end: null };
  // Front ends check what a user typed.
  const schema = JSON.parse(JSON.stringify({ ...type.schema, $schema: undefined }, (_, value) => (typeof value === 'bigint' ? Number(value) : value)));
  expect(new Ajv({ strict: false }).validate(schema, parameters), `${id}: the defaults do not fit the schema`);
  const made = (await make(parameters)).getModel();
  expect(made?.parentId === id && made.capabilities?.canDelete, `${id}: no derived output`);
  expect((await make(parameters)).getModel()?.id === made.id, `${id}: the same configuration gives another output`);
  const listed = (await client.experimentOutputs(experiment)).getModel();
  expect(listed.some((output) => output.id === made.id), `${id}: the derived output is not in the list`);
  const found = await ofTimeGraph(experiment, made.id, range);
  await refused('a thread that is not there', 400, () => make({ tid: 123456789 }));
  await refused('no thread', 400, () => make({}));
  await refused('a type that is not there', 404, () => make(parameters, 'nosuch'));
  expect((await client.deleteDerivedOutput(experiment, id, made.id)).getModel()?.id === made.id, `${id}: not deleted`);
  await refused('a deleted output', 404, () => client.deleteDerivedOutput(experiment, id, made.id));
  return found;
};

const walk = async () => {
  await client.checkHealth();
  await client.fetchIdentifier();
  await client.fetchConfigurationSourceTypes();
  await refused('a type that is not there', 404, () => client.fetchConfigurationSourceType('nosuch'));
  await refused('a trace outside', 404, () => client.openTrace(new Query({ uri: '/' })));
  await refused('a trace without a path', 400, () => client.openTrace(new Query({})));
  const opened = [];
  for (const path of traces) {
    const trace = (await client.openTrace(new Query({ uri: resolve(path), name: basename(path) }))).getModel();
    opened.push(trace);
    await client.fetchTrace(trace.UUID);
  }
  await client.fetchTraces();
  const each = [...opened.map((trace) => [trace]), opened];
  for (const [at, chosen] of each.entries()) {
    const query = new Query({ name: `experiment ${at}`, traces: chosen.map((trace) => trace.UUID) });
    let experiment = (await client.createExperiment(query)).getModel();
    const uuid = experiment.UUID;
    await refused('the name of another experiment', chosen.length > 1 ? 409 : 200, () =>
      client.createExperiment(new Query({ name: `experiment ${at}`, traces: [chosen[0].UUID] })),
    );
    while (experiment.indexingStatus !== 'COMPLETED') experiment = (await client.fetchExperiment(uuid)).getModel();
    await client.fetchExperiments();
    await refused('a trace in an experiment', 409, () => client.deleteTrace(chosen[0].UUID));
    const range = { start: experiment.start, end: experiment.end, events: experiment.nbEvents };
    await model('marker sets', () => client.fetchMarkerSets(uuid));
    const own = `/experiments/${uuid}/bookmarks`;
    const bookmark = await plain('POST', own, { name: 'here', start: 1, end: 2 });
    await plain('GET', own);
    await plain('GET', `${own}/${bookmark.uuid}`);
    await plain('PUT', `${own}/${bookmark.uuid}`, { name: 'there', start: 1, end: 2 });
    await plain('DELETE', `${own}/${bookmark.uuid}`);
    await plain('GET', `${own}/${bookmark.uuid}`);
    for (const output of (await client.experimentOutputs(uuid)).getModel()) {
      const by = { TIME_GRAPH: ofTimeGraph, TREE_TIME_XY: ofChart, TABLE: ofTable, DATA_TREE: ofTree, NONE: ofConfigurator }[output.type];
      const found = await by(uuid, output.id, range);
      console.log(`${chosen.map((trace) => trace.name).join(' + ')}: ${output.name}: ${found}`);
      await plain('GET', `/experiments/${uuid}/outputs/${output.id}`);
      await client.fetchOutputConfigurationTypes(uuid, output.id);
      await refused('a type that is not there', 404, () => client.fetchOutputConfigurationType(uuid, output.id, 'nosuch'));
      await model('categories', () => client.fetchAnnotationsCategories(uuid, output.id));
      await model('annotations', () => client.fetchAnnotations(uuid, output.id, QueryHelper.timeRangeQuery(range.start, range.end, 100)));
      await refused('no parameters', 400, () => client.fetchAnnotations(uuid, output.id, {}));
    }
    const none = () => new Query({});
    await refused('an output that is not there', 404, () => client.fetchTimeGraphTree(uuid, 'nosuch', none()));
    await refused('an output of another type', 404, () => client.fetchXY(uuid, 'events', none()));
    await refused('a chart without a time axis', 404, () => client.fetchGenericXYTree(uuid, 'nosuch', none()));
    await client.deleteExperiment(uuid);
    await refused('a deleted experiment', 404, () => client.fetchExperiment(uuid));
  }
  for (const trace of opened) await client.deleteTrace(trace.UUID);
  await refused('a deleted trace', 404, () => client.fetchTrace(opened[0].UUID));
};

try {
  await walk();
} catch (error) {
  complain(String(error.stack ?? error));
}
server.kill();
if (!options.api) {
  console.log(wrong === 0 ? 'nothing is wrong; the answers were not checked against an API file' : `${wrong} answers are wrong`);
  process.exit(wrong === 0 ? 0 : 1);
}
const all = Object.entries(api.paths).flatMap(([path, of]) => Object.keys(of).map((method) => `${method} ${path}`));
const unseen = all.filter((name) => !seen.has(name));
console.log(`${seen.size} of ${all.length} operations asked; not asked, as there are no global configurations: ${unseen.join(', ')}`);
console.log(wrong === 0 ? 'every answer is as the API file says' : `${wrong} answers are wrong`);
process.exit(wrong === 0 ? 0 : 1);
