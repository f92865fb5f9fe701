"""A recording of an arm64 machine: its programs lie above bit 47."""
import json
import subprocess


def check(program, folder):
    trace = folder / "uftrace.data"

    def run(*arguments):
        return subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout

    lines = [json.loads(line) for line in run("print", "--format", "jsonl", "-q", trace).splitlines()]
    addresses = {line["payload"]["symbol"]: line["payload"]["addr"] for line in lines if "addr" in line["payload"]}
    if addresses.get("smapsGetSharedDirty") != 0xAAAADE32A1C4:
        yield f"smapsGetSharedDirty is at {addresses.get('smapsGetSharedDirty')}, not at 0xaaaade32a1c4"
    if None in addresses or max(addresses.values()) >= 1 << 48:
        yield "an address has no name, or bits that no record holds"
    for command in ("replay", "report", "dump", "flame"):
        if "smapsGetSharedDirty" not in run(command, trace):
            yield f"{command} does not name smapsGetSharedDirty"
