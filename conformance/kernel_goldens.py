#!/usr/bin/env python3
"""Compare analyses of kernel traces with golden answers, where `docs/kernel.md` and their author agree.

    kernel_goldens.py CHECKER BIN CORPUS_DIR...

CHECKER is the program `analyses.py` that comes with the answers, and makes the comparison; its options follow. The author of
the answers takes a class of events that a trace does not have for an empty answer: `processes` has 0 and false there. By rule
K14 of `docs/kernel.md` these are null, as nothing tells. Everything else must be equal.
"""
import pathlib
import sys

# A life by K14, and the answers where no event shows it.
NOT_TOLD = {"kernel": False, "user_ns": 0, "system_ns": 0, "irq_ns": 0, "wait_cpu_ns": 0}



def is_not_told(key, want, have):
    return key in NOT_TOLD and want is not None and want == NOT_TOLD[key] and key in have and have[key] is None


def told(want, have):
    """What is compared of a golden row of a life."""
    return {key: value for key, value in want.items() if not is_not_told(key, value, have)}


path = pathlib.Path(sys.argv.pop(1))
# The checker runs when it is loaded: its definitions come first, then the comparison of rows is narrowed, then it begins.
definitions, begin = path.read_text(encoding="utf-8").rsplit("\n\n", 1)
checker = {"__name__": "checker", "__doc__": None}
exec(compile(definitions, str(path), "exec"), checker)
strict = checker["subset"]


def subset(want, have):
    is_life = isinstance(want, dict) and isinstance(have, dict) and "born_ns" in want
    return strict(told(want, have) if is_life else want, have)


checker["subset"] = subset
exec(compile(begin, str(path), "exec"), checker)
