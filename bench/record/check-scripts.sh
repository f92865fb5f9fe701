#!/usr/bin/env bash
# Check the recording scripts without running them: syntax, and a few habits.
# Runs shellcheck too where it is installed.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
status=0

# complain_if FILE MESSAGE PATTERN: no line but a comment may match PATTERN.
complain_if() {
	local hits
	if hits=$(grep -nE -- "$3" "$1" | grep -vE '^[0-9]+:[[:space:]]*#'); then
		printf '%s: %s\n%s\n' "$1" "$2" "$hits" >&2
		status=1
	fi
}

for script in "$root"/bench/record/record-ust.sh "$root"/bench/record/record-uftrace.sh "$root"/conformance/uftrace/record.sh "$root"/bench/record/check-scripts.sh "$root"/demo/record.sh; do
	bash -n "$script" || status=1
	[[ -x $script ]] || { printf '%s: not executable\n' "$script" >&2; status=1; }
	[[ $(head -n 1 "$script") == '#!/usr/bin/env bash' ]] || { printf '%s: first line\n' "$script" >&2; status=1; }
	grep -qx 'set -euo pipefail' "$script" || { printf '%s: set -euo pipefail\n' "$script" >&2; status=1; }
	complain_if "$script" 'trailing blanks' '[[:blank:]]+$'
	complain_if "$script" 'backquotes: use $(...)' '^[^'\'']*`'
	complain_if "$script" 'rm without --' '\brm -[a-z]+ [^-]'
	complain_if "$script" 'an unquoted variable as an argument' '(rm|cp|mv|mkdir|chmod|cd|kill|find)( -[-a-zA-Z0-9]+)* \$'
	complain_if "$script" 'processes must be ended by id' '(^|[[:space:]])(pkill|killall)([[:space:]]|$)'
	complain_if "$script" 'a home directory' '/(home|root|Users)/'
	if command -v shellcheck >/dev/null; then
		shellcheck "$script" || status=1
	fi
done
exit "$status"
