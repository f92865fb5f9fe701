#!/bin/bash
# Records demo/heap/pantry: builds src/pantry.cpp in /tmp/pantry, records its calls with their values, and keeps what readers
# need. See README.md.
#
#     demo/record_pantry.sh
#
# Needs g++ and tracemill. Symbols of libraries are left out: names of their functions that the program calls are in its own.
set -euo pipefail

here=$(cd -- "$(dirname -- "$0")" && pwd)
work=/tmp/pantry
out=$here/heap/pantry
mkdir -- "$work" || { echo "$work is there already" >&2; exit 1; }
trap 'rm -rf -- "$work"' EXIT

g++ -std=c++17 -O1 -fno-inline-functions -fno-inline-functions-called-once -fno-builtin -pg -pthread -o "$work/pantry" "$here/src/pantry.cpp"
cd -- "$work"
tracemill record -a -o pantry.data ./pantry
cd pantry.data
# Replace nothing but a recording.
[[ ! -e $out || -f $out/task.txt ]] || { echo "$out is no recording: not replaced" >&2; exit 1; }
rm -rf -- "$out"
mkdir -p -- "$out"
cp -- [0-9]*.dat info sid-*.map task.txt pantry.sym "$out"
chmod -R u+rwX,go=rX -- "$out"
du -sh -- "$out"
