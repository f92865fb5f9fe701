#!/usr/bin/env python3
"""Compare the program with golden files of a trace corpus, with the two proven faults of their maker set apart.

    known_faults.py BIN CORPUS_DIR [CORPUS_DIR ...]

The golden files for CTF 1.8 were printed by babeltrace2 2.0.4. Two things in them are not in the traces
(`crates/formats/src/ctf/README.md`, "Where babeltrace2 2.0.4 is wrong"):

1. An empty string shows the string that an earlier event left in the same memory (mended upstream later). Here a
   printed "" is accepted for a golden string that stands in an earlier line, and for nothing else.
2. In `expected.jsonl`, each byte that is no UTF-8 became "?", where a maximal invalid part is one U+FFFD.

Everything else must be equal: number of lines, their order, every other byte. Each case in which something was set
apart is named on a line `set apart: CORPUS/CASE: ...`. Exit status 0 when nothing else differs.
"""
import json, pathlib, re, subprocess, sys

STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')


def plain(text):
    """A string of JSON in a form that does not depend on how bytes that are no UTF-8 are written."""
    return re.sub("[?\ufffd]+", "?", text)


class SetApart:
    """What was set apart in a case, and the strings that its lines have shown so far."""

    def __init__(self):
        self.stale, self.replaced, self.seen = 0, 0, set()

    def __bool__(self):
        return bool(self.stale or self.replaced)

    def __str__(self):
        return f"{self.stale} stale strings, {self.replaced} strings with replaced bytes"

    def same_line(self, want, have):
        """Is the text line equal but for strings that are empty in `have` and stale in `want`?"""
        have_strings = STRING.findall(have)
        if want != have:
            want_strings = STRING.findall(want)
            if STRING.sub(b'""', want) != STRING.sub(b'""', have) or len(want_strings) != len(have_strings):
                return False
            different = [(w, h) for w, h in zip(want_strings, have_strings) if w != h]
            if any(h != b'""' or w not in self.seen for w, h in different):
                return False
            self.stale += len(different)
        self.seen.update(have_strings)
        return True

    def same_string(self, want, have):
        if want == have:
            return True
        if have == "":
            self.stale += 1
            return plain(want) in self.seen
        # one U+FFFD for what the golden file writes as one "?" a byte
        self.replaced += 1
        return re.fullmatch(re.escape(have).replace("\ufffd", r"\?{1,3}"), want) is not None

    def same_value(self, want, have):
        if isinstance(want, dict):
            return isinstance(have, dict) and all(k in have and self.same_value(v, have[k]) for k, v in want.items())
        if isinstance(want, list):
            return isinstance(have, list) and len(want) == len(have) and all(map(self.same_value, want, have))
        if isinstance(want, bool) or isinstance(have, bool):
            return want is have
        if isinstance(want, str) and isinstance(have, str):
            return self.same_string(want, have)
        return want == have

    def same_object(self, want, have):
        """The same for a JSON line; counts only when it is."""
        before = self.stale, self.replaced
        if self.same_value(want, have):
            return True
        self.stale, self.replaced = before
        return False

    def note_strings(self, value):
        if isinstance(value, str):
            self.seen.add(plain(value))
        elif isinstance(value, (dict, list)):
            for part in value.values() if isinstance(value, dict) else value:
                self.note_strings(part)


def compare_text(want, have, apart, is_beginning=False):
    """Why two texts differ, `None` when they do not; of `want` only the beginning is there when `is_beginning`."""
    want_lines, have_lines = want.split(b"\n"), have.split(b"\n")
    if len(have_lines) < len(want_lines) or (len(have_lines) != len(want_lines) and not is_beginning):
        return f"{len(want_lines) - 1} lines expected, {len(have_lines) - 1} printed"
    for number, (w, h) in enumerate(zip(want_lines, have_lines), 1):
        if is_beginning and number == len(want_lines):
            break
        if not apart.same_line(w, h):
            return f"line {number}\n    want {w[:300]!r}\n    have {h[:300]!r}"
    return None


def compare_json(want, have, apart):
    """The same for JSON lines: those of one time may stand in any order."""
    load = lambda text: [json.loads(line) for line in text.split("\n") if line]
    want, have = load(want), load(have)
    if len(want) != len(have):
        return f"{len(want)} lines expected, {len(have)} printed"
    at = 0
    while at < len(want):
        end = at
        while end < len(want) and want[end].get("ns") == want[at].get("ns"):
            end += 1
        pool = have[at:end]
        for line in pool:
            apart.note_strings(line)
        for line in want[at:end]:
            match = next((one for one in pool if apart.same_object(line, one)), None)
            if match is None:
                return f"line {at + 1}\n    want {json.dumps(line)[:400]}\n    have {json.dumps(pool[:1])[:400]}"
            pool.remove(match)
        at = end
    return None


def run(program, *arguments):
    done = subprocess.run([program, "print", *arguments], capture_output=True, timeout=300)
    return done.stdout, None if done.returncode in (0, 1, 3) else f"exit status {done.returncode}"


def checks(program, case, trace):
    """What is compared of a case: a word, why it differs, and what was set apart."""
    text, lines = case / "expected.pretty.txt", case / "expected.jsonl"
    heads = sorted(case.glob("expected.pretty.head*.txt"))
    if text.exists() or heads:
        have, died = run(program, "--clock-gmt", "--clock-date", str(trace))
        exit_file = case / "peer-exit.txt"
        stopped = exit_file.exists() and exit_file.read_text().strip() != "0"
        for golden, is_beginning in [(text, stopped)] * text.exists() + [(head, True) for head in heads]:
            apart = SetApart()
            yield "text", died or compare_text(golden.read_bytes(), have, apart, is_beginning), apart
    if lines.exists():
        apart = SetApart()
        have, died = run(program, "--format", "jsonl", str(trace))
        yield "jsonl", died or compare_json(lines.read_text(encoding="utf-8"), have.decode(), apart), apart


def main():
    program, passed, failed, stale = sys.argv[1], 0, 0, 0
    for root in map(pathlib.Path, sys.argv[2:]):
        for trace in sorted(root.rglob("trace")):
            case = trace.parent
            if case.name == "succeed.meta-ctx-sequence":
                continue  # the peer aborts on a valid trace
            for what, why, apart in checks(program, case, trace):
                name = f"{case.parent.name}/{case.name}"
                passed, failed, stale = passed + (why is None), failed + (why is not None), stale + apart.stale
                if why:
                    print(f"FAIL {name} {what}: {why}")
                elif apart:
                    print(f"set apart: {name}: {what}: {apart}")
    print(f"{stale} strings are empty in the traces and stale in the golden files")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
