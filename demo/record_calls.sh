#!/bin/bash
# Records demo/calls/tasting with uftrace: builds src/tasting.cpp in /tmp/roastery, and keeps what readers need.
#
#     demo/record_calls.sh
#
# Needs g++ and uftrace. Symbols of libraries are left out: names of their functions that the program calls are in its own.
set -euo pipefail

here=$(cd -- "$(dirname -- "$0")" && pwd)
work=/tmp/roastery
out=$here/calls/tasting
mkdir -- "$work" || { echo "$work is there already" >&2; exit 1; }
trap 'rm -rf -- "$work"' EXIT

g++ -std=c++17 -O1 -fno-inline-functions -pg -pthread -o "$work/tasting" "$here/src/tasting.cpp"
cd -- "$work"
uftrace record -d tasting.data ./tasting
cd tasting.data
# Replace nothing but a recording.
[[ ! -e $out || -f $out/task.txt ]] || { echo "$out is no recording: not replaced" >&2; exit 1; }
rm -rf -- "$out"
mkdir -p -- "$out"
cp -- *.dat info sid-*.map task.txt tasting.sym "$out"
chmod -R u+rwX,go=rX -- "$out"
du -sh -- "$out"
