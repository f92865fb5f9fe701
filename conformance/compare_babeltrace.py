#!/usr/bin/env python3
"""Run the real Python modules bt2 and babeltrace next to those of tracemill, and compare what programs see.

    compare_babeltrace.py MODULES [--analyses FOLDER] [--ros2 FOLDERS] [--tests FOLDER] [--speed] TRACE [TRACE ...]

The Python that runs it must have `bt2` 2.0.4 and `babeltrace` 1.5.11 (Debian: python3-bt2, python3-babeltrace). MODULES is the
folder that the package `tracemill` is in. TRACE is a folder of a CTF 1.8 trace, or one whose subfolders hold some. Of each, all
messages, events, fields, classes and clocks of bt2 are compared, the messages of parts of its time, and all events, fields and
declarations of babeltrace. The questions of `babeltrace_objects.py` are put to the objects of a trace of its own: operators,
functions, indexes, attributes.
With `--tests`, FOLDER is a checkout of babeltrace 2.0.4 (or has its folders `tests` and `doc`): bt2's own tests run on our module,
unchanged, with the outcomes of `TESTS`, and the examples of its documentation on both, for the first two traces.
With `--analyses`, FOLDER is a checkout of lttng-analyses, unchanged; its commands run on the traces of a kernel. They ask the
program `babeltrace` for its version.
With `--ros2`, FOLDERS are those of the packages tracetools_read, tracetools_analysis and tracetools_trace of ROS 2, with `:`
between them, unchanged; they read the trace that `ros2_trace.py` writes. The analysis needs pandas, and is left out without.
With `--speed`, the CPU times of both for names and times, and for all fields, are compared.

Allowed differences, which are counted: bt2 2.0.4 shows for an empty string the one that an earlier event left in the same
memory; it calls clocks that do not say so no clocks of the Unix epoch; it stops or aborts at damage that is skipped here, and
refuses traces that can be read. babeltrace orders events of equal time by chance, knows of integers without a base that they
have none, and takes each file of a stream for a stream, so that lttng-analyses has to run without the intersection of streams.
Exit status 0 when nothing else differs.
"""
import collections, os, pathlib, re, subprocess, sys, tempfile, time

import babeltrace_objects

STOPS = "!! stopped"


def show(value):
    return ascii(value)


# Tasks of a process of its own, with the real modules or with ours.


def snapshot(bt2, message, name):
    try:
        own = getattr(message, name)
    except ValueError:
        return None
    return "unknown" if type(own) is bt2._UnknownClockSnapshot else (own.value, own.ns_from_origin)


def describe(bt2, cls):
    """A field class. In 2.0.4 some are of the class that can be changed."""
    name = type(cls).__name__
    parts = [name if name.endswith("Const") else name + "Const"]
    for of in ("field_value_range", "preferred_display_base", "length"):
        if hasattr(cls, of):
            parts.append(getattr(cls, of))
    for of in ("selector_field_path", "length_field_path"):
        path = getattr(cls, of, None)
        if path is not None:
            parts.append((path.root_scope, [(type(item).__name__, getattr(item, "index", None)) for item in path]))
    ranges = lambda of: sorted((one.lower, one.upper) for one in of.ranges)
    if "Structure" in name:
        parts.append([(member, describe(bt2, cls[member].field_class)) for member in cls])
    elif "Variant" in name:
        parts.append([(option, ranges(cls[option]), describe(bt2, cls[option].field_class)) for option in cls])
    elif "Enumeration" in name:
        parts.append([(label, ranges(cls[label])) for label in cls])
    elif "Array" in name and "Bit" not in name:
        parts.append(describe(bt2, cls.element_field_class))
    return parts


def leaves(bt2, field, path):
    """The fields that hold no others, with their paths, types and texts."""
    if field is None:
        yield path, None
    elif isinstance(field, bt2._StructureFieldConst):
        yield path, type(field).__name__, len(field)
        for name in field:
            yield from leaves(bt2, field[name], f"{path}.{name}")
    elif isinstance(field, bt2._ArrayFieldConst):
        yield path, type(field).__name__, len(field)
        for at, element in enumerate(field):
            yield from leaves(bt2, element, f"{path}[{at}]")
    elif isinstance(field, bt2._VariantFieldConst):
        yield path, type(field).__name__, field.selected_option_index
        yield from leaves(bt2, field.selected_option, path + "?")
    elif isinstance(field, bt2._EnumerationFieldConst):
        try:
            labels = list(field.labels)
        except (AssertionError, TypeError):
            # Values of signed enumerations without a label fail in 2.0.4.
            labels = []
        yield path, type(field).__name__, int(field), labels
    elif isinstance(field, bt2._StringFieldConst):
        yield path, type(field).__name__, "text", str(field)
    else:
        own = field == field
        yield path, type(field).__name__, repr(field), hash(field) if own else None, own, str(field)


def dump_bt2(bt2, path):
    known = set()

    def stream(of):
        trace, cls = of.trace, of.cls
        if trace.name not in known:
            known.add(trace.name)
            environment = sorted((name, type(value).__name__, str(value)) for name, value in trace.environment.items())
            print("trace", show(trace.name), trace.uuid, show(environment), sorted(trace), sorted(trace.cls))
        if of.name in known:
            return
        known.add(of.name)
        flags = [
            "supports_packets",
            "packets_have_beginning_default_clock_snapshot",
            "packets_have_end_default_clock_snapshot",
            "supports_discarded_events",
            "discarded_events_have_default_clock_snapshots",
            "supports_discarded_packets",
            "discarded_packets_have_default_clock_snapshots",
        ]
        print("stream", show(of.name), of.id, cls.id, show(cls.name), [getattr(cls, flag) for flag in flags])
        clock = cls.default_clock_class
        if clock is not None:
            offset = (clock.offset.seconds, clock.offset.cycles)
            print("clock", clock.name, show(clock.description), clock.frequency, clock.precision, offset, clock.uuid)
            print("epoch", clock.origin_is_unix_epoch)
        roots = [cls.packet_context_field_class, cls.event_common_context_field_class]
        print("contexts", show([None if root is None else describe(bt2, root) for root in roots]))
        for event in sorted(cls.values(), key=lambda event: event.id):
            roots = [event.payload_field_class, event.specific_context_field_class]
            roots = [None if root is None else describe(bt2, root) for root in roots]
            print("class", event.id, show(event.name), event.log_level, show(event.emf_uri), show(roots))

    for message in bt2.TraceCollectionMessageIterator(path):
        kind = type(message).__name__
        if kind == "_EventMessageConst":
            event = message.event
            stream(event.stream)
            print(kind, show(event.stream.name), show(event.name), event.id, snapshot(bt2, message, "default_clock_snapshot"))
            scopes = ("payload_field", "specific_context_field", "common_context_field")
            for scope, field in [(scope, getattr(event, scope)) for scope in scopes] + [("packet", event.packet.context_field)]:
                for leaf in leaves(bt2, field, scope):
                    print(" ", show(leaf))
            for name in event.payload_field or ():
                print("  key", show(name), "=", show(list(leaves(bt2, event[name], ""))))
        elif "Discarded" in kind:
            begin, end = (snapshot(bt2, message, f"{end}_default_clock_snapshot") for end in ("beginning", "end"))
            print(kind, show(message.stream.name), message.count, begin, end)
        else:
            of = message.packet.stream if "Packet" in kind else message.stream
            stream(of)
            print(kind, show(of.name), snapshot(bt2, message, "default_clock_snapshot"))


def dump_cut(bt2, path):
    """The messages of a part of the time, and of the time that all streams share; streams that are cut have no order in bt2."""

    def messages(**options):
        for message in bt2.TraceCollectionMessageIterator(path, **options):
            kind = type(message).__name__
            of = message.event if "Event" in kind and "Discarded" not in kind else message
            of = message.packet.stream if "Packet" in kind and "Discarded" not in kind else of.stream
            names = ["default", "beginning_default", "end_default"]
            names = [f"{name}_clock_snapshot" for name in names if hasattr(type(message), f"{name}_clock_snapshot")]
            counts = [message.count] if "Discarded" in kind else []
            yield [kind, of.name] + [snapshot(bt2, message, name) for name in names] + counts

    times = [message[2][1] for message in messages() if message[0] == "_EventMessageConst"]
    if times:
        times.sort()
        third = len(times) // 3
        for options in ({"begin": times[third] / 1e9}, {"end": times[2 * third] / 1e9}, {"stream_intersection_mode": True}):
            print(sorted(options), sorted(map(show, messages(**options))))


def declaration(of):
    parts = [type(of).__name__, of.name, of.type, of.scope, repr(of)]
    # Characters of texts are of no class of their own here.
    names = ("signedness", "length", "byte_order", "encoding") if of.name else ()
    parts += [getattr(of, name) for name in names if hasattr(of, name)]
    element = getattr(of, "element_declaration", None)
    return parts + ([] if element is None else [declaration(element)])


def dump_babeltrace(babeltrace, path):
    traces = babeltrace.TraceCollection()
    handles = traces.add_traces_recursive(path, "ctf")
    if handles is None:
        return print("refused")
    print(sorted(handles), traces.timestamp_begin, traces.timestamp_end)
    for path, handle in sorted(handles.items()):
        print(handle.path)
        for event in sorted(handle.events, key=lambda event: event.name):
            print(show(event.name), show([declaration(field) for field in event.fields]))
    lines, last = [], None
    for event in traces.events:
        scopes = []
        for scope in range(6):
            try:
                names = event.field_list_with_scope(scope)
                scopes.append([(name, event.field_with_scope(name, scope), event.get(name), name in event) for name in names])
            except babeltrace.FieldError as error:
                scopes.append(str(error))
        if event.timestamp != last:
            lines.sort()
            print("".join(lines), end="")
            lines, last = [], event.timestamp
        lines.append(show([event.name, event.cycles, event.timestamp, len(event), sorted(event.keys()), scopes]) + "\n")
    print("".join(sorted(lines)), end="")


def names_and_times(bt2, path):
    count = 0
    for message in bt2.TraceCollectionMessageIterator(path):
        if type(message) is bt2._EventMessageConst:
            message.event.name, message.default_clock_snapshot.ns_from_origin
            count += 1
    return count


def every_field(bt2, path):
    count = 0
    for message in bt2.TraceCollectionMessageIterator(path):
        if type(message) is bt2._EventMessageConst:
            event = message.event
            scopes = (event.payload_field, event.common_context_field, event.specific_context_field, event.packet.context_field)
            for scope in scopes:
                if scope is not None:
                    for name in scope:
                        scope[name]
                        count += 1
    return count


def child(modules, task, path):
    if modules:
        sys.path.insert(0, modules)
        from tracemill.compat import take_over

        take_over()
        import warnings

        warnings.simplefilter("ignore")
    if task == "babeltrace":
        import babeltrace

        return dump_babeltrace(babeltrace, path)
    import bt2

    if task == "objects":
        for line in (*babeltrace_objects.values(bt2), *babeltrace_objects.questions(bt2, path)):
            print(line)
        return None
    if task in ("bt2", "cut"):
        try:
            return dump_bt2(bt2, path) if task == "bt2" else dump_cut(bt2, path)
        except (bt2._Error, RuntimeError):
            return print(STOPS)
    # The best of three, in CPU time of all threads, as others use the machine too.
    for loop in (names_and_times, every_field):
        best, count = float("inf"), 0
        for _ in range(3):
            begin = time.process_time()
            count = loop(bt2, path)
            best = min(best, time.process_time() - begin)
        print(loop.__name__, count, best)


# Comparisons of the outputs of two such processes.


def run(modules, task, path):
    command = [sys.executable, __file__, "--child", modules, task, path]
    done = subprocess.run(command, capture_output=True)
    return done.returncode, done.stdout.decode("utf-8", "surrogateescape").splitlines(), done.stderr.decode(errors="replace")


EMPTY = re.compile(r"'text', '(?:[^'\\]|\\.)*'|\"text\", \"[^\"]*\"")


def compare_bt2(modules, path, counts):
    """The differences between both; the number of lines."""
    status, real, _ = run("", "bt2", path)
    mine, own, errors = run(modules, "bt2", path)
    if mine:
        return [f"the module of tracemill failed: {errors.strip()[-500:]}"], 0
    # Real modules stop at damage, some by ending the process: what they saw comes first.
    is_stopped = status != 0 or (real and real[-1] == STOPS)
    if is_stopped:
        counts["stopped"] += 1
        real = [line for line in real if line != STOPS][:-1] if status else real[:-1]
        own = own[: len(real)]
    wrong = []
    if len(own) != len(real):
        wrong.append(f"{len(own)} lines, and {len(real)} of bt2")
    for mine, theirs in zip(own, real):
        if mine == theirs:
            continue
        if mine.startswith("epoch"):
            counts["epochs"] += 1
        elif "''" in mine and EMPTY.sub("", mine) == EMPTY.sub("", theirs):
            counts["stale strings"] += 1
        else:
            wrong.append(f"  ours {mine[:300]}\n  bt2  {theirs[:300]}")
    return wrong, len(real)


def compare_babeltrace(modules, path, counts):
    status, real, _ = run("", "babeltrace", path)
    mine, own, errors = run(modules, "babeltrace", path)
    if mine:
        return [f"the module of tracemill failed: {errors.strip()[-500:]}"], 0
    # Traces that babeltrace refuses may be read here.
    if status or real == ["refused"]:
        counts["aborted"] += 1
        return [], 0
    if real == own:
        return [], len(real)
    wrong = [f"  ours {a[:300]}\n  babeltrace {b[:300]}" for a, b in zip(own, real) if a != b]
    return wrong or [f"{len(own)} lines, and {len(real)} of babeltrace"], len(real)


def searched(*folders):
    """What Python searches for modules."""
    return ":".join([*folders, os.environ.get("PYTHONPATH", "")]).rstrip(":")


def compare_cut(modules, path, counts):
    status, real, _ = run("", "cut", path)
    mine, own, errors = run(modules, "cut", path)
    if status or STOPS in real:
        counts["stopped"] += 1
        return [], 0
    if mine:
        return [f"the module of tracemill failed: {errors.strip()[-500:]}"], 0
    wrong = [f"  ours {a[:300]}\n  bt2  {b[:300]}" for a, b in zip(own, real) if a != b]
    return wrong, len(real)


#: Questions whose answers may differ, with the reason.
ALLOWED = {
    "traces and their classes equal themselves, and can be keys": r"(trace|trace class|stream class) (is \w+|hash|with itself): ",
    "options cannot be copied, whatever the error": r"class of event \w+ payload_field_class.\w+ class.\w+ deepcopy: ",
    "classes that can be changed have more": r"(packet|common) context class (\+=|has append_member)",
    "events are mappings since 2.1": r"event \w+ (is Event|len|iter|sorted|reversed|dict|keys|values|items|in |call).*: ",
}


def compare_objects(modules, path):
    """Answers of both modules: what bt2 offers, must be the same here; more is allowed."""
    status, real, errors = run("", "objects", path)
    if status:
        return [f"bt2 failed: {errors.strip()[-500:]}"], 0
    status, own, errors = run(modules, "objects", path)
    if status:
        return [f"the module of tracemill failed: {errors.strip()[-500:]}"], 0
    known, answers = set(own), {line.rpartition(": ")[0]: line for line in own}
    # Classes that only one of them has are not compared.
    classes = {line.split()[1] for line in own if line.startswith("class ")}
    wrong = []
    for line in real:
        words = line.split(" ")
        if line in known or any(re.match(pattern, line) for pattern in ALLOWED.values()):
            continue
        if words[0] == "class" and len(words) == 4 and words[2] == "of":
            # Classes of what can be changed have names here, and nothing else.
            if words[1] not in classes or not re.search("Const$|Value$|Range$|RangeSet$", words[1]):
                continue
        mine = answers.get(line.rpartition(": ")[0], "nothing")
        wrong.append(f"  bt2  {line[:300]}\n  ours {mine[:300]}")
    return wrong, len(real)


#: Of each file of bt2's tests that reads, what its tests give: those that pass, and those that need what is not offered.
TESTS = {
    "test_clock_class": (9, 28),
    "test_component_descriptor": (8, 0),
    "test_interrupter": (5, 0),
    "test_mip": (4, 3),
    "test_package": (169, 0),
    "test_query_executor": (17, 0),
    "test_trace_collection_message_iterator": (39, 15),
    "test_value": (8329, 0),
}
RUN_TESTS = """
import collections, os, sys, unittest
names = ("does not offer", "Some auto source component specs did not produce any component: ABCDE")
class Result(unittest.TestResult):
    def addSuccess(self, test):
        print("passed", test.id())
    def addFailure(self, test, error):
        is_named = any(name in str(error[1]) for name in names)
        print("not_offered" if is_named else "failed", test.id(), ascii(error[1]))
    addError = addFailure
for name in sys.argv[1:]:
    unittest.defaultTestLoader.loadTestsFromName(name).run(Result())
"""


def compare_tests(modules, folder):
    """bt2's own tests, unchanged: the outcomes that are not those of `TESTS`; the number of tests."""
    tests = pathlib.Path(folder) / "tests"
    data = tests / "data"
    environment = {
        **os.environ,
        "PYTHONPATH": searched(modules, str(tests / "bindings/python/bt2")),
        "BT_TESTS_DATADIR": str(data),
        "BT_CTF_TRACES_PATH": str(data / "ctf-traces"),
        "BABELTRACE_PLUGIN_PATH": "",
    }
    counts, wrong = collections.Counter(), []
    with tempfile.TemporaryDirectory() as scratch:
        script = pathlib.Path(scratch) / "run_tests.py"
        script.write_text(RUN_TESTS)
        command = [sys.executable, "-W", "ignore", "-m", "tracemill.compat", str(script), *TESTS]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=scratch)
    for line in done.stdout.splitlines():
        outcome, test = line.split(" ", 2)[:2]
        counts[outcome, test.split(".")[0]] += 1
        if outcome == "failed":
            wrong.append(f"  {line[:300]}")
    for name, (passed, not_offered) in TESTS.items():
        found = (counts["passed", name], counts["not_offered", name])
        if found != (passed, not_offered):
            wrong.append(f"  {name}: {found[0]} passed and {found[1]} need what is not offered; expected {passed} and {not_offered}")
    if done.returncode:
        wrong.append(f"  the tests stopped: {done.stderr[-500:]}")
    return wrong, sum(counts.values())


def examples(folder):
    """The programs in the documentation of bt2 that read traces."""
    text = (pathlib.Path(folder) / "doc/bindings/python/source/examples.rst").read_text()
    found, block = [], []
    for line in [*text.splitlines(), "end"]:
        if line.startswith("    ") or not line.strip():
            block.append(line[4:])
            continue
        if any(part.startswith("import bt2") for part in block) and any("sys.argv[1]" in part for part in block):
            found.append("\n".join(block))
        block = []
    return found


def compare_examples(modules, folder, paths):
    """The examples of bt2's documentation, unchanged, on both modules."""
    wrong, lines, programs = [], 0, examples(folder)
    with tempfile.TemporaryDirectory() as scratch:
        for at, program in enumerate(programs):
            script = pathlib.Path(scratch) / "example.py"
            script.write_text(program)
            for path in paths:
                outputs = []
                for own in ([], ["-m", "tracemill.compat"]):
                    environment = {**os.environ, "PYTHONPATH": searched(*[modules][: len(own)]), "PYTHONHASHSEED": "0"}
                    command = [sys.executable, "-W", "ignore", *own, str(script), path]
                    done = subprocess.run(command, capture_output=True, env=environment)
                    # Classes are those that cannot be changed, as the documentation has them; bt2 2.0.4 shows others.
                    outputs.append((done.returncode, done.stdout.replace(b"ClassConst`", b"Class`")))
                lines += outputs[0][1].count(b"\n")
                if outputs[0] != outputs[1]:
                    wrong.append(f"  example {at} of {path}: statuses {outputs[0][0]} and {outputs[1][0]}; the outputs differ")
    return wrong if programs else ["there are no examples"], lines


def commands(folder):
    return re.findall(r"'([\w-]+) = ([\w.]+):(\w+)'", (pathlib.Path(folder) / "setup.py").read_text())


#: From the wakeup of a thread to its next turn on a CPU: for the commands that want a definition of periods.
PERIOD = 'turn : $evt.$name == "sched_wakeup" : $evt.$name == "sched_switch" && $evt.next_tid == $begin.$evt.tid'


def compare_analyses(modules, folder, path, counts):
    wrong, lines = [], 0
    with tempfile.TemporaryDirectory() as scratch:
        for name, module, function in commands(folder):
            script = pathlib.Path(scratch) / name
            script.write_text(f"from {module} import {function}\n{function}()\n")
            options = [] if name.endswith("-mi") else ["--no-progress"]
            if "period" in name:
                options += ["--period", PERIOD]

            def run_on(*own):
                environment = {**os.environ, "PYTHONPATH": searched(*[modules][: len(own)], folder), "PYTHONHASHSEED": "0"}
                command = [sys.executable, "-W", "ignore", *own, str(script), *options, "--gmt", path]
                return subprocess.run(command, capture_output=True, env=environment)

            real = run_on()
            if b"no intersection" in real.stdout + real.stderr:
                # babeltrace takes each file of a stream for a stream of its own.
                counts["commands without intersection"] += 1
                options.append("--no-intersection")
                real = run_on()
            own = run_on("-m", "tracemill.compat")
            lines += real.stdout.count(b"\n")
            counts["commands"] += 1
            if real.returncode or not real.stdout:
                wrong.append(f"  {name}: does not run with babeltrace: {real.stderr.decode(errors='replace')[-300:]}")
            if (real.returncode, real.stdout) != (own.returncode, own.stdout):
                wrong.append(f"  {name}: statuses {real.returncode} and {own.returncode}; the outputs differ")
    return wrong, lines


READ = """
import sys
from tracetools_read.trace import get_trace_events, is_trace_directory
print(is_trace_directory(sys.argv[1]))
for event in get_trace_events(sys.argv[1]):
    print(sorted(event.items()))
"""
ANALYSE = """
import contextlib, io, sys
from tracetools_analysis.loading import load_file
from tracetools_analysis.processor.ros2 import Ros2Handler
from tracetools_analysis.utils.ros2 import Ros2DataModelUtil
with contextlib.redirect_stdout(io.StringIO()):
    events = load_file(sys.argv[1], do_convert_if_needed=True, force_conversion=True)
    data = Ros2Handler.process(events).data
data.print_data()
utilities = Ros2DataModelUtil(data)
for callback, symbol in sorted(utilities.get_callback_symbols().items()):
    print(callback, symbol, utilities.get_callback_durations(callback).to_csv())
"""


def compare_ros2(modules, folders):
    """The differences that clients of ROS 2 show; the number of lines."""
    import importlib.util, ros2_trace

    clients = {"tracetools_read": READ}
    if importlib.util.find_spec("pandas"):
        clients["tracetools_analysis"] = ANALYSE
    else:
        print("without tracetools_analysis: pandas is not installed")
    wrong, lines = [], 0
    with tempfile.TemporaryDirectory() as scratch:
        trace = f"{scratch}/trace"
        ros2_trace.main(trace)
        for name, text in clients.items():
            script = pathlib.Path(scratch) / f"{name}_client.py"
            script.write_text(text)
            outputs = []
            for own in ([], ["-m", "tracemill.compat"]):
                environment = {**os.environ, "PYTHONPATH": searched(*[modules][: len(own)], folders)}
                command = [sys.executable, "-W", "ignore", *own, str(script), trace]
                done = subprocess.run(command, capture_output=True, env=environment)
                outputs.append((done.returncode, done.stdout))
            lines += outputs[0][1].count(b"\n")
            if outputs[0][0] or not outputs[0][1]:
                wrong.append(f"  {name} does not run with babeltrace: {done.stderr.decode(errors='replace')[-300:]}")
            if outputs[0] != outputs[1]:
                wrong.append(f"  {name}: statuses {outputs[0][0]} and {outputs[1][0]}; the outputs differ")
    return wrong, lines


def traces_in(path):
    return sorted(str(metadata.parent) for metadata in pathlib.Path(path).rglob("metadata"))


def main(arguments):
    modules, analyses, ros2, tests, speed, paths = os.path.abspath(arguments.pop(0)), None, None, None, False, []
    while arguments:
        word = arguments.pop(0)
        if word == "--analyses":
            analyses = os.path.abspath(arguments.pop(0))
        elif word == "--ros2":
            ros2 = ":".join(os.path.abspath(folder) for folder in arguments.pop(0).split(":"))
        elif word == "--tests":
            tests = os.path.abspath(arguments.pop(0))
        elif word == "--speed":
            speed = True
        else:
            paths += traces_in(word)
    known = ("stopped", "epochs", "stale strings", "aborted", "commands", "commands without intersection")
    counts = {name: 0 for name in known}
    failed = False
    if ros2:
        wrong, lines = compare_ros2(modules, ros2)
        print(f"{'FAILED' if wrong else 'ok'} clients of ROS 2: {lines} lines")
        print("\n".join(wrong) + ("\n" if wrong else ""), end="")
        failed |= bool(wrong)

    def shown(name, wrong, lines):
        print(f"{'FAILED' if wrong else 'ok'} {name}: {lines} lines")
        print("\n".join(wrong[:8]) + ("\n" if wrong else ""), end="")
        return bool(wrong)

    with tempfile.TemporaryDirectory() as scratch:
        babeltrace_objects.write_trace(f"{scratch}/trace")
        failed |= shown("questions to objects", *compare_objects(modules, f"{scratch}/trace"))
    if tests:
        failed |= shown("bt2's own tests", *compare_tests(modules, tests))
        failed |= shown("examples of bt2's documentation", *compare_examples(modules, tests, paths[:2]))
    for path in paths:
        checks = {"bt2": compare_bt2, "bt2, cut": compare_cut, "babeltrace": compare_babeltrace}
        for name, check in checks.items():
            wrong, lines = check(modules, path, counts)
            print(f"{'FAILED' if wrong else 'ok'} {name} {path}: {lines} lines")
            print("\n".join(wrong[:4]) + ("\n" if wrong else ""), end="")
            failed |= bool(wrong)
        if analyses and path.endswith("/kernel"):
            wrong, lines = compare_analyses(modules, analyses, path, counts)
            print(f"{'FAILED' if wrong else 'ok'} lttng-analyses {path}: {lines} lines")
            print("\n".join(wrong) + ("\n" if wrong else ""), end="")
            failed |= bool(wrong)
        if speed:
            (_, real, _), (_, own, _) = run("", "speed", path), run(modules, "speed", path)
            for theirs, mine in zip(real, own):
                (loop, count, slow), (_, same, fast) = theirs.split(), mine.split()
                failed |= count != same
                print(f"{loop}: {int(count)} in {float(fast):.3f} s, bt2 {float(slow):.3f} s: {float(slow) / float(fast):.1f} times as fast")
    print(f"{len(paths)} traces; allowed: {', '.join(f'{count} {name}' for name, count in counts.items())}")
    return 1 if failed or not paths else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        sys.exit(child(*sys.argv[2:]))
    sys.exit(main(sys.argv[1:]))
