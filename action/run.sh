#!/usr/bin/env bash
# Records MEMTAP_RUN and leaves in MEMTAP_OUT what a pull request shows: the trace, a page, findings as SARIF, and what grew.
# All of it is written before anything fails; then the exit status is that of the first thing that failed.
set -uo pipefail
out=${MEMTAP_OUT:-memtap-results}
mkdir -p "$out" || exit 1
status=0
check() {
    "$@"
    local got=$?
    [ "$status" -ne 0 ] || status=$got
}
fails_on() { [[ " ${MEMTAP_FAIL_ON-errors races} " == *" $1 "* ]]; }

check memtap record --force -o "$out/run.memtap" -- bash -c "${MEMTAP_RUN:?is the command to record}"
# Without a trace there is nothing to ask.
[ -e "$out/run.memtap" ] || exit "$status"
check memtap report "$out/run.memtap" --html "$out/report.html" --force

errors=(memtap errors "$out/run.memtap" --sarif)
races=(memtap race "$out/run.memtap" --sarif)
if [ -n "${MEMTAP_SUPPRESSIONS:-}" ]; then errors+=(--suppressions "$MEMTAP_SUPPRESSIONS"); fi
if fails_on errors; then errors+=(--fail-on-error); fi
if fails_on races; then races+=(--fail-on-race); fi
check "${errors[@]}" > "$out/errors.sarif"
check "${races[@]}" > "$out/race.sarif"

{
    echo '```'
    memtap report "$out/run.memtap" --top 10
    echo '```'
} >> "${GITHUB_STEP_SUMMARY:-/dev/stdout}"

if [ -n "${MEMTAP_BASELINE:-}" ]; then
    diff=(memtap diff "$MEMTAP_BASELINE" "$out/run.memtap")
    while IFS= read -r limit; do
        if [ -n "$limit" ]; then diff+=(--fail-if "$limit"); fi
    done <<< "${MEMTAP_FAIL_IF:-}"
    check "${diff[@]}" > "$out/diff.txt"
    cat "$out/diff.txt"
fi
exit "$status"
