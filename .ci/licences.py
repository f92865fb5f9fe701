#!/usr/bin/env python3
"""Check that every package of `cargo metadata` (on stdin) may be used under a licence that we accept."""
import json, os, re, sys

# The list of `deny.toml`, which another tool reads as well.
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "deny.toml")) as file:
    ACCEPTED = set(re.findall(r'"([^"]+)"', re.search(r"^allow = \[(.*?)\]", file.read(), re.MULTILINE | re.DOTALL).group(1)))
assert "MIT" in ACCEPTED


def is_accepted(expression):
    """An SPDX expression of names with AND, OR, WITH and parentheses (`/` is an old way to write OR)."""
    text = re.sub(r"\s+WITH\s+LLVM-exception", "", expression.replace("/", " OR "))
    tokens = re.findall(r"[()]|[^\s()]+", text)
    at = 0

    def any_of():
        nonlocal at
        result = all_of()
        while at < len(tokens) and tokens[at] == "OR":
            at += 1
            result = all_of() or result
        return result

    def all_of():
        nonlocal at
        result = one()
        while at < len(tokens) and tokens[at] == "AND":
            at += 1
            result = one() and result
        return result

    def one():
        nonlocal at
        token = tokens[at] if at < len(tokens) else ""
        at += 1
        if token == "(":
            result = any_of()
            at += 1
            return result
        return token in ACCEPTED

    return any_of() and at == len(tokens)


packages = json.load(sys.stdin)["packages"]
refused = [package for package in packages if not is_accepted(package["license"] or "")]
for package in refused:
    print(f"{package['name']} {package['version']}: {package['license']!r} is not accepted")
print(f"{len(packages)} packages, {len(refused)} refused")
sys.exit(1 if refused or not packages else 0)
