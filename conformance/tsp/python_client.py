#!/usr/bin/env python3
"""Ask `tracemill view --tsp` through the Python client of the Trace Server Protocol, unchanged.

    python_client.py BIN CLIENT TRACE [TRACE ...]

CLIENT is a checkout of eclipse-cdt-cloud/tsp-python-client; it needs the package `requests`. Its calls are made for an experiment
of all traces, except those that change global configurations, as there are none. What comes back must fit together: as many
events as `BIN print` shows, states that do not overlap, series with a value for each sample. Exit status 1 when something does not.
"""
import pathlib, subprocess, sys, time

program, client_folder, *traces = sys.argv[1:]
sys.path.insert(0, client_folder)
from tsp.health import HealthStatus  # noqa: E402
from tsp.indexing_status import IndexingStatus  # noqa: E402
from tsp.response import ResponseStatus  # noqa: E402
from tsp.tsp_client import TspClient  # noqa: E402

SAMPLES = 100
wrong = 0


def expect(is_so, text):
    global wrong
    if not is_so:
        wrong += 1
        print(f"WRONG {text}")


def model(what, ask, *arguments):
    """The model of a complete answer."""
    while True:
        answer = ask(*arguments)
        if answer.status_code != 200:
            raise SystemExit(f"WRONG {what}: status {answer.status_code}: {answer.status_text}")
        if answer.model.status is not ResponseStatus.RUNNING:
            expect(answer.model.status is ResponseStatus.COMPLETED, f"{what}: {answer.model.status}")
            return answer.model.model
        time.sleep(0.02)


def requested(experiment, items=None):
    times = {"start": experiment.start, "end": experiment.end, "nbTimes": SAMPLES}
    parameters = {TspClient.REQUESTED_TIME_RANGE_KEY: times}
    if items is not None:
        parameters[TspClient.REQUESTED_ITEM_KEY] = items
    return {TspClient.PARAMETERS_KEY: parameters}


def time_graph(client, experiment, output):
    own = experiment.UUID, output
    entries = model(f"{output} tree", client.fetch_timegraph_tree, *own).entries
    items = [entry.id for entry in entries if entry.has_row_model is not False]
    rows = model(f"{output} states", client.fetch_timegraph_states, *own, requested(experiment, items)).rows
    arrows = model(f"{output} arrows", client.fetch_timegraph_arrows, *own, requested(experiment))
    known = {entry.id for entry in entries}
    expect({row.entry_id for row in rows} <= known, f"{output}: rows of no entry")
    expect(all({arrow.source_id, arrow.target_id} <= known for arrow in arrows), f"{output}: an arrow leads nowhere")
    for row in rows:
        ends = [(state.start_time, state.end_time) for state in row.states]
        follow = all(before[1] <= after[0] for before, after in zip(ends, ends[1:]))
        expect(follow and all(start < end for start, end in ends), f"{output} {row.entry_id}: states overlap")
    return f"{len(entries)} entries, {sum(len(row.states) for row in rows)} states, {len(arrows)} arrows"


def chart(client, experiment, output):
    own = experiment.UUID, output
    items = [entry.id for entry in model(f"{output} tree", client.fetch_xy_tree, *own).entries]
    series = model(f"{output} xy", client.fetch_xy, *own, requested(experiment, items)).series
    for one in series:
        expect(len(one.x_values) == len(one.y_values), f"{output} {one.series_name}: x and y differ in number")
        is_sampled = len(one.x_values) == SAMPLES or "scatter" in output
        expect(is_sampled, f"{output} {one.series_name}: {len(one.x_values)} values for {SAMPLES} samples")
    if output == "histogram":
        total = sum(series[0].y_values)
        expect(total == experiment.number_of_events, f"the histogram has {total} events, not {experiment.number_of_events}")
    return f"{len(series)} series"


def table(client, experiment, output):
    own = experiment.UUID, output
    columns = model(f"{output} columns", client.fetch_virtual_table_columns, *own).columns
    wanted = {TspClient.REQUESTED_TABLE_LINE_INDEX_KEY: 0, TspClient.REQUESTED_TABLE_LINE_COUNT_KEY: 50}
    wanted[TspClient.REQUESTED_TABLE_LINE_COLUMN_IDS_KEY] = [column.id for column in columns]
    lines = model(f"{output} lines", client.fetch_virtual_table_lines, *own, {TspClient.PARAMETERS_KEY: wanted})
    expect(lines.size == experiment.number_of_events, f"the table has {lines.size} lines, not {experiment.number_of_events}")
    expect([line.index for line in lines.lines] == list(range(50)), f"{output}: the lines are not the first")
    expect(all(len(line.cells) == len(columns) for line in lines.lines), f"{output}: cells and columns differ in number")
    return f"{lines.size} lines"


def tree(client, experiment, output):
    found = model(f"{output} tree", client.fetch_datatree, experiment.UUID, output, requested(experiment))
    expect(all(len(entry.labels) == len(found.headers) for entry in found.entries), f"{output}: labels and headers differ")
    return f"{len(found.entries)} entries"


def configured(client, experiment, output):
    """An output that a client makes by a configuration: it is shown, and deleted."""
    own = experiment.UUID, output
    (source,) = client.fetch_output_configuration_sources(*own).model.configuration_source_set
    expect(client.fetch_output_configuration_source(*own, source.id).model.id == source.id, f"{output}: another type")
    parameters = {"tid": source.schema["properties"]["tid"]["default"], "begin": None, "end": None}
    made = client.create_derived_output(*own, {"name": "asked", "sourceTypeId": source.id, "parameters": parameters}).model
    expect(made is not None and made.parent_id == output, f"{output}: no derived output")
    found = time_graph(client, experiment, made.id)
    expect(client.delete_derived_output(*own, made.id).model.id == made.id, f"{output}: not deleted")
    return found


KINDS = {"TIME_GRAPH": time_graph, "TREE_TIME_XY": chart, "TABLE": table, "DATA_TREE": tree, "NONE": configured}


def walk(client):
    expect(client.fetch_health().model.status is HealthStatus.UP, "the server is not up")
    expect(client.fetch_identifier().model is not None, "no identifier")
    expect(client.fetch_configuration_sources().model is not None, "no list of configurations")
    opened = [client.open_trace(pathlib.Path(path).name, str(pathlib.Path(path).resolve())).model for path in traces]
    expect([client.fetch_trace(trace.UUID).model.name for trace in opened] == [trace.name for trace in opened], "other names")
    expect(len(client.fetch_traces().model.traces) == len(traces), "not all traces are open")
    experiment = client.open_experiment("all", [trace.UUID for trace in opened]).model
    while experiment.indexing_status is not IndexingStatus.COMPLETED:
        time.sleep(0.02)
        experiment = client.fetch_experiment(experiment.UUID).model
    expect(len(client.fetch_experiments().model.experiments) == 1, "not one experiment")
    printed = subprocess.run([program, "print", *traces], capture_output=True, check=True).stdout.count(b"\n")
    expect(experiment.number_of_events == printed, f"{experiment.number_of_events} events, and {printed} lines of print")
    outputs = client.fetch_experiment_outputs(experiment.UUID).model.descriptors
    for output in outputs:
        print(f"{output.name}: {KINDS[output.type](client, experiment, output.id)}")
        expect(client.fetch_experiment_output(experiment.UUID, output.id).model.id == output.id, f"{output.id}: another output")
    expect({output.type for output in outputs} >= {"TIME_GRAPH", "TREE_TIME_XY", "TABLE", "DATA_TREE"}, "outputs are missing")
    client.delete_experiment(experiment.UUID)
    expect(client.fetch_experiment(experiment.UUID).status_code == 404, "a deleted experiment is there")
    for trace in opened:
        client.delete_trace(trace.UUID, False)
    expect(client.fetch_traces().model.traces == [], "deleted traces are open")


with subprocess.Popen([program, "view", "--tsp=0", "--no-cache", *traces], stdout=subprocess.PIPE, text=True) as server:
    try:
        walk(TspClient(server.stdout.readline().strip()))
    finally:
        server.terminate()
print("nothing is wrong" if wrong == 0 else f"{wrong} answers are wrong")
sys.exit(1 if wrong else 0)
