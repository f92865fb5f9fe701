#!/usr/bin/env bash
# Runs every fuzz target over its seeds and some thousands of mutations, with any toolchain and without libFuzzer.
# REPLAY_SECONDS=600 goes on for that long, REPLAY_SEED=7 makes other mutations.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
exec cargo test --test replay "$@" -- --nocapture
