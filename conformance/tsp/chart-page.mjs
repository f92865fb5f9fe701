// A page that draws the threads of a trace with timeline-chart, the library of Trace Compass' front ends. chart.mjs opens it with
// `?server=ADDRESS&trace=PATH`; `window.drawn` says how much was drawn.
import { TimeGraphContainer } from 'timeline-chart/lib/time-graph-container';
import { TimeGraphRowController } from 'timeline-chart/lib/time-graph-row-controller';
import { TimeGraphUnitController } from 'timeline-chart/lib/time-graph-unit-controller';
import { TimeGraphAxis } from 'timeline-chart/lib/layer/time-graph-axis';
import { TimeGraphChart } from 'timeline-chart/lib/layer/time-graph-chart';
import { TimeGraphChartArrows } from 'timeline-chart/lib/layer/time-graph-chart-arrows';
import { TimeGraphChartGrid } from 'timeline-chart/lib/layer/time-graph-chart-grid';
import { HttpTspClient } from 'tsp-typescript-client/lib/protocol/http-tsp-client';
import { Query } from 'tsp-typescript-client/lib/models/query/query';
import { QueryHelper } from 'tsp-typescript-client/lib/models/query/query-helper';

const [rowHeight, width, axisHeight] = [20, 1000, 30];
const given = new URLSearchParams(location.search);
const client = new HttpTspClient(given.get('server'));
const model = async (ask) => {
  for (;;) {
    const answer = (await ask()).getModel();
    if (answer.status !== 'RUNNING') return answer.model;
    await new Promise((done) => setTimeout(done, 20));
  }
};

const trace = (await client.openTrace(new Query({ uri: given.get('trace') }))).getModel();
let experiment = (await client.createExperiment(new Query({ name: trace.name, traces: [trace.UUID] }))).getModel();
while (experiment.indexingStatus !== 'COMPLETED') experiment = (await client.fetchExperiment(experiment.UUID)).getModel();
const { UUID: uuid, start, end } = experiment;

const output = given.get('output') ?? 'threads';
const tree = await model(() => client.fetchTimeGraphTree(uuid, output, new Query({})));
const entries = tree.entries.filter((entry) => entry.hasData !== false);
const ids = entries.map((entry) => entry.id);
const { styles } = await model(() => client.fetchStyles(uuid, output, new Query({})));
const colour = (text) => Number.parseInt(text.slice(1), 16);
const styleOf = (style) => styles[style?.parentKey]?.values ?? {};

const unit = new TimeGraphUnitController(end - start);
unit.numberTranslator = (ns) => `${(Number(ns) / 1e9).toFixed(3)} s`;
const rows = new TimeGraphRowController(rowHeight, entries.length * rowHeight);
const names = document.querySelector('#names');
names.style.paddingTop = `${axisHeight}px`;
for (const entry of entries) {
  const name = document.createElement('div');
  name.textContent = entry.labels[0];
  name.style.height = `${rowHeight}px`;
  names.append(name);
}
const place = (id, height, layers) => {
  const container = new TimeGraphContainer({ id, width, height, backgroundColor: 0xffffff, forceCanvasRenderer: true }, unit);
  document.querySelector('#charts').append(container.canvas);
  container.addLayers(layers);
};

window.drawn = { rows: 0, states: 0, arrows: 0, labels: [] };
const arrowLayer = new TimeGraphChartArrows('arrows', rows);
const provider = {
  rowProvider: () => ({ rowIds: ids }),
  dataProvider: async (range, resolution) => {
    const span = [start + range.start, start + range.end];
    const samples = Math.max(2, Math.min(65536, Math.ceil(Number(range.end - range.start) / resolution)));
    const query = QueryHelper.selectionTimeRangeQuery(span[0], span[1], samples, ids);
    const states = await model(() => client.fetchTimeGraphStates(uuid, output, query));
    const arrows = await model(() =>
      client.fetchTimeGraphArrows(uuid, output, QueryHelper.timeRangeQuery(span[0], span[1], samples)),
    );
    const asRow = (row) => {
      const own = row.states.map((state, at) => ({
        id: `${row.entryId}-${at}`,
        label: state.label,
        range: { start: state.start - start, end: state.end - start },
        data: { style: styleOf(state.style) },
      }));
      const ends = { start: own[0]?.range.start ?? 0n, end: own.at(-1)?.range.end ?? 0n };
      const name = entries.find((entry) => entry.id === row.entryId).labels[0];
      const possible = { prevPossibleState: 0n, nextPossibleState: end - start };
      return { id: row.entryId, name, range: ends, states: own, annotations: [], ...possible };
    };
    const found = states.rows.map(asRow);
    const lines = arrows.map((arrow) => ({
      sourceId: arrow.sourceId,
      destinationId: arrow.targetId,
      range: { start: arrow.start - start, end: arrow.end - start },
    }));
    arrowLayer.addArrows(lines, ids);
    const all = found.flatMap((row) => row.states);
    window.drawn = { rows: found.length, states: all.length, arrows: lines.length, labels: [...new Set(all.map((state) => state.label))] };
    return { rows: found, range, resolution };
  },
  stateStyleProvider: (state) => ({
    color: colour(state.data.style['background-color']),
    height: rowHeight * 0.8 * (state.data.style.height ?? 1),
  }),
  rowStyleProvider: () => ({ backgroundColor: 0xffffff, backgroundOpacity: 0, lineColor: 0xdddddd, lineThickness: 1 }),
};
place('axis', axisHeight, [new TimeGraphAxis('axis', { color: 0xffffff, lineColor: 0x444444 })]);
const grid = new TimeGraphChartGrid('grid', rowHeight, 0xeeeeee);
place('chart', entries.length * rowHeight, [grid, new TimeGraphChart('threads', provider, rows), arrowLayer]);
