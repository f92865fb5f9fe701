#!/usr/bin/env bash
# Record data folders with the installed uftrace: one for each kind of thing that its commands show.
#   record.sh OUT_DIR
# compare_calls.py compares the commands of both on them. Needs uftrace, a C compiler and python3.
set -euo pipefail

(($# == 1)) || { printf 'usage: record.sh OUT_DIR\n' >&2; exit 2; }
out_dir=$1
for tool in uftrace python3 "${CC:-cc}"; do
	command -v "$tool" >/dev/null || { printf 'record.sh: %s is needed\n' "$tool" >&2; exit 1; }
done
[[ ! -e $out_dir ]] || { printf 'record.sh: %s exists already\n' "$out_dir" >&2; exit 1; }
mkdir -p -- "$out_dir"
out_dir=$(cd -- "$out_dir" && pwd)
src_dir=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/record-calls.XXXXXX")
trap 'rm -rf -- "$work"' EXIT

"${CC:-cc}" -pg -g -O1 -fno-optimize-sibling-calls -pthread -o "$work/programs" "$src_dir/programs.c" -ldl
"${CC:-cc}" -pg -g -O0 -shared -fPIC -o "$work/libplugin.so" "$src_dir/plugin.c"
"${CC:-cc}" -pg -g -O1 -fno-optimize-sibling-calls -pthread -o "$work/processes" "$src_dir/processes.c"
if command -v "${CXX:-c++}" >/dev/null; then
	"${CXX:-c++}" -std=c++17 -pg -g -O1 -fno-optimize-sibling-calls -o "$work/values" "$src_dir/values.cpp"
fi
cd "$work"

# record NAME WHAT [OPTION...]: a recorder that fails, or does not come to an end, leaves a line and no folder.
program=programs
record() {
	local name=$1 what=$2
	shift 2
	# The program may end by a signal or with a status of its own. Under a load the recorder sometimes waits for ever for
	# threads that end with the program.
	local status=0
	timeout -k 5 60 uftrace record -d "$out_dir/$name" "$@" "./$program" $what >/dev/null 2>"$work/log" || status=$?
	((status != 124 && status != 137)) || { printf 'not recorded: %s: no end in 60 s\n' "$name"; rm -rf -- "${out_dir:?}/$name"; return 0; }
	[[ -s $out_dir/$name/info ]] || { printf 'not recorded: %s: %s\n' "$name" "$(head -n 1 "$work/log")"; { sleep 1; rm -rf -- "${out_dir:?}/$name"; } || true; }
}

specs=(-A 'integers@arg1/i8,arg2/i16,arg3/i32,arg4/i64,arg5/u8,arg6/u16' -R 'integers@retval/i64'
	-A 'reals@fparg1/32,fparg2/64' -R 'reals@retval/f32' -A 'letter@arg1/c' -R 'letter@retval/c'
	-A 'text@arg1/s,arg2/s' -R 'text@retval/s' -A 'pointer@arg1/p' -R 'pointer@retval/p'
	-A 'paint@arg1/x' -R 'paint@retval/d')
specs_of_values=(-A 'truth@arg1/c,arg2/c,arg3/i8,arg4/u8,arg5/c,arg6/x16' -R 'truth@retval/c'
	-A 'letters@arg1/s' -R 'letters@retval/s' -A 'text@arg2/s' -A 'wide@fparg1/80%stack+1' -A 'large@arg1/u,arg2/x,arg3,arg4/i16'
	-R 'large@retval' -A 'shade@arg1/u8' -A 'flags@arg1/x8,arg1/i,arg1' -R 'flags@retval/i32' -A 'function@arg1/p,arg2/p'
	-A 'by_value@arg1/t8:Small,arg2/t40:Large%stack+1' -R 'thrower@retval/i32')
record plain plain
record threads threads
record exec exec
record exec-arguments exec -a
record jumps jumps
record arguments arguments "${specs[@]}"
record arguments-auto arguments -a
record arguments-none arguments --no-args
record forks forks
record forks-keep forks --keep-pid
record deep deep
record deep-cut deep -D 20
record signals signals
record killed die
record exit exit
record loads 'loads ./libplugin.so'
record time-filter threads -t 5us
record filter threads -F branch
record notrace threads -N leaf
record no-libcall threads --no-libcall
record estimate threads -e
record watch threads -W cpu
record read jumps -T 'branch@read=proc/statm|page-fault'
record sched threads -E linux:schedule
record no-sched threads --no-sched
record no-event threads --no-event
record source-lines plain --srcline
record small-buffers threads -b 4K
record max-stack deep --max-stack 64
program=processes
record processes-exec-thread exec-thread
record processes-chain chain
record processes-spawns spawns
record processes-forks forks -F main -N leaf
record processes-jumps jumps
record processes-signals signals -a
record processes-endings endings
record processes-contexts contexts -e
record processes-deep deep -t 1us
if [[ -x values ]]; then
	program=values
	record values-auto '' -a
	record values '' "${specs_of_values[@]}"
fi

recorder=$(uftrace --version)
# kernel NAME [OPTION...]
kernel() {
	local name=$1
	shift
	"$src_dir/make_kernel.py" "$out_dir/$name" --recorder "${recorder#uftrace }" "$@"
}
kernel kernel
kernel kernel-32 --32-bit --calls 40
kernel kernel-big --big-endian --calls 40
kernel kernel-cpus --cpus 2 --tasks 2 --calls 100
kernel kernel-events --calls 60 --events
kernel kernel-loss --calls 200 --loss
kernel kernel-mixed --cpus 2 --tasks 3 --calls 60 --events
kernel kernel-moves --cpus 4 --tasks 2 --calls 80 --events --move
kernel kernel-torn --cpus 2 --tasks 2 --calls 80 --torn
kernel kernel-sched --cpus 2 --tasks 2 --calls 60 --sched
kernel kernel-forks --cpus 3 --tasks 3 --calls 40 --sched --fork
ls -- "$out_dir" | tr '\n' ' '
printf '\n'
