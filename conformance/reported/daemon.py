"""A daemon, whose first process ends before the child has made a call: all calls are recorded, each time."""
import importlib.util
import pathlib

path = pathlib.Path(__file__).parent / "last_child.py"
spec = importlib.util.spec_from_file_location("last_child", path)
last_child = importlib.util.module_from_spec(spec)
spec.loader.exec_module(last_child)


def check(program, folder):
    return last_child.record(program, folder / "dm.c", "6", 1984, 10)
