#!/usr/bin/env python3
"""Try the inputs that people reported: each must give the right answer now.

    reported.py BIN FOLDER [NAME...]

FOLDER has one folder for each report. The check of a report is `reported/NAME.py` next to this file (a `-` of the report's
name is a `_` there), with a function `check(program, folder)` that returns or yields a sentence for each thing that is
wrong. An exception is a failure, too.
"""
import importlib.util
import pathlib
import sys
import traceback


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main():
    program, folder, *names = sys.argv[1:]
    here = pathlib.Path(__file__).parent / "reported"
    passed = failed = 0
    for path in sorted(here.glob("*.py")):
        name = path.stem.replace("_", "-")
        inputs = pathlib.Path(folder) / name
        if names and name not in names:
            continue
        if not inputs.is_dir():
            print(f"skipped: there is no folder {inputs}")
            continue
        try:
            faults = list(load(path).check(str(pathlib.Path(program).resolve()), inputs.resolve()) or [])
        except Exception:
            faults = [traceback.format_exc()]
        for fault in faults:
            print(f"FAIL {name}: {fault}")
        passed, failed = (passed, failed + 1) if faults else (passed + 1, failed)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
