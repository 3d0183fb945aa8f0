#!/bin/bash
# Boots a kernel with an initramfs under QEMU, its console on stdout, until the guest switches itself off.
# usage: boot.sh ROOT INITRAMFS [KERNEL_PARAMETER…]     ROOT: the directory to which the packages were unpacked
# env: LIMIT seconds (900), MEM MiB (2048)
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
root=$1 image=$2
shift 2
kernel=$(find "$root" -name 'vmlinuz*' | head -n 1)
# Without VMX or SVM a /dev/kvm emulates, and does not get through a boot.
accelerator=tcg,thread=multi
[ ! -w /dev/kvm ] || ! grep -qwE 'vmx|svm' /proc/cpuinfo || accelerator=kvm
exec timeout "${LIMIT:-900}" qemu-system-x86_64 -accel "$accelerator" -cpu max -smp 1 -m "${MEM:-2048}" \
    -nodefaults -no-user-config -display none -serial stdio -monitor none -no-reboot -kernel "$kernel" -initrd "$image" \
    -append "console=ttyS0 quiet panic=-1 random.trust_cpu=on no_timer_check rcupdate.rcu_cpu_stall_suppress=1 $*" < /dev/null
