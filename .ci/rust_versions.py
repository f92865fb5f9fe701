#!/usr/bin/env python3
"""Check that no dependency needs a newer Rust than the package that it is linked into promises (`cargo metadata` on stdin).

Our own code is held to the promise by clippy's `incompatible_msrv`.
"""
import json, sys

metadata = json.load(sys.stdin)
packages = {package["id"]: package for package in metadata["packages"]}
nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
ours = set(metadata["workspace_members"])


def version(package):
    parts = [int(part) for part in (package["rust_version"] or "1").split(".")]
    return parts + [0] * (3 - len(parts))


def linked(start):
    """The packages of others that `start` is linked with; packages of the workspace promise something themselves."""
    seen, stack = set(), [start]
    while stack:
        for dependency in nodes[stack.pop()]["deps"]:
            kinds = {kind["kind"] for kind in dependency["dep_kinds"]}
            if dependency["pkg"] not in seen and dependency["pkg"] not in ours and kinds & {None, "build"}:
                seen.add(dependency["pkg"])
                stack.append(dependency["pkg"])
    return seen


checked, wrong = 0, []
for member in sorted(ours):
    package = packages[member]
    if not package["rust_version"]:
        wrong.append(f"{package['name']} says no rust-version")
        continue
    for dependency in dict.fromkeys(sorted(linked(member))):
        needed = packages[dependency]
        checked += 1
        if version(needed) > version(package):
            wrong.append(
                f"{package['name']} promises Rust {package['rust_version']}, but {needed['name']} {needed['version']} "
                f"needs {needed['rust_version']}"
            )
    for dependency in nodes[member]["deps"]:
        if dependency["pkg"] in ours and version(packages[dependency["pkg"]]) > version(package):
            # An optional part, which the manifest has to name as such.
            name = packages[dependency["pkg"]]["name"]
            asked = [known for known in package["dependencies"] if known["name"] == name and known["kind"] != "dev"]
            if asked and not all(known["optional"] for known in asked):
                wrong.append(f"{package['name']} promises Rust {package['rust_version']}, but always has {name}")
print(f"{len(ours)} packages of the workspace, {checked} dependencies looked at")
for line in wrong:
    print(line)
sys.exit(bool(wrong) or not checked)
