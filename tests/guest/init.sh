#!/bin/sh
# The first program of the guest of the tests: says where it is, loads a module, runs programs in a shell of its own, and ends the machine.
mount -t proc proc /proc
echo "guest: up"
insmod /module.ko
sh -c 'workload; moved; moved; seq 1 300 | sort -r | md5sum'
echo "guest: done"
# A test that wants to look at the machine asks it to wait.
grep -q wait_here /proc/cmdline && while true; do sleep 1; done
poweroff -f
