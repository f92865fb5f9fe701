"""Texts of trace_printk: those that trace-cmd shows, where it is installed."""
import json
import lzma
import pathlib
import re
import shutil
import subprocess
import tempfile


def check(program, folder):
    with tempfile.TemporaryDirectory() as place:
        trace = pathlib.Path(place) / "trace.dat"
        trace.write_bytes(lzma.decompress((folder / "trappy.dat.xz").read_bytes()))
        run = subprocess.run([program, "print", "--format", "jsonl", trace], capture_output=True, text=True)
        if run.returncode or run.stderr:
            yield f"status {run.returncode}, {run.stderr!r}"
        events = [json.loads(line) for line in run.stdout.splitlines()]
        texts = [event["payload"].get("text") for event in events if event["name"] == "bprint"]
        if len(texts) != 501 or texts[0] != "cpu_load: cpu: 3 freq: 800000 load: 0":
            yield f"{len(texts)} texts, the first is {texts[:1]}"
        if not shutil.which("trace-cmd"):
            return
        report = subprocess.run(["trace-cmd", "report", trace], capture_output=True, text=True).stdout
        expected = re.findall(r": bprint:\s+\S+: (.*)$", report, re.M)
        different = [pair for pair in zip(texts, expected, strict=True) if pair[0] != pair[1]]
        if different:
            yield f"{len(different)} texts are not those of trace-cmd, such as {different[0]}"
