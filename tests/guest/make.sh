#!/bin/sh
# Makes the small Linux machine that tests and benchmarks boot: Debian's kernel, busybox and a workload.
# usage: make.sh DIR KERNEL [KERNEL ARGUMENT...]
# A busybox that needs no libraries and a module of the kernel's lie beside the kernel.
# The kernel is told not to test its timer: on a busy host the test fails, and the kernel gives up.
# Leaves DIR/workload and DIR/moved, with debug information, and DIR/initramfs. Prints QEMU's command line, a word a line.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$1 kernel=$2
busybox=$(dirname "$kernel")/busybox
shift 2
files=$dir/files
rm -rf "$files"
mkdir -p "$files/bin" "$files/proc" "$files/dev"
cp "$busybox" "$files/bin/busybox"
for applet in sh insmod mount echo seq sort md5sum grep sleep poweroff cat; do
    ln -s busybox "$files/bin/$applet"
done
cp "$here/init.sh" "$files/init"
cp "$(dirname "$kernel")/module.ko" "$files/module.ko"
chmod 755 "$files/init"
gcc -O1 -g -static -I"$here/../../include" -o "$dir/workload" "$here/workload.c"
cp "$dir/workload" "$files/bin/workload"
gcc -O1 -g -static-pie -o "$dir/moved" "$here/moved.c"
cp "$dir/moved" "$files/bin/moved"
(cd "$files" && find . | "$busybox" cpio -o -H newc) > "$dir/initramfs" 2> "$dir/cpio.log"
printf '%s\n' qemu-system-x86_64 -nodefaults -display none -no-reboot -m 128 -serial stdio \
    -kernel "$kernel" -initrd "$dir/initramfs" -append "console=ttyS0 quiet panic=-1 no_timer_check${*:+ $*}"
