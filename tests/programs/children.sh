#!/bin/sh
# A shell script: every program it starts goes into the same trace.
# stdout: 3
# stdout: b
# stdout: 7
set -e
printf 'a\nb\nc\n' | wc -l
printf 'c\nb\na\n' | sort | sed -n 2p
(exit 7) || echo $?
