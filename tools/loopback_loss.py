#!/usr/bin/env python3
"""Runs a command in a network namespace of its own whose loopback device loses packets at random.
The loss is in percent. The host's own loopback is not changed.
The loss is seven BPF instructions on the device's egress (tcx), so it needs no kernel module; one packet is
one buffer of up to 64 kB, as for netem on this device. usage: loopback_loss.py PERCENT CMD…   (root)"""
# SPDX-License-Identifier: Apache-2.0 OR MIT
import ctypes
import os
import platform
import struct
import subprocess
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
SYS_BPF = {"x86_64": 321, "aarch64": 280}
CLONE_NEWNET = 0x40000000
# Source: Linux include/uapi/linux/bpf.h.
PROG_LOAD, LINK_CREATE = 5, 28
SCHED_CLS, TCX_EGRESS = 3, 47
TCX_NEXT, TCX_DROP = -1, 2
GET_PRANDOM_U32 = 7


def fail(what):
    sys.exit(f"loopback: {what}: {os.strerror(ctypes.get_errno())}")


def bpf(command, attributes, what):
    number = SYS_BPF.get(platform.machine()) or sys.exit(f"loopback: no bpf on {platform.machine()}")
    data = ctypes.create_string_buffer(attributes, 128)
    fd = LIBC.syscall(number, command, data, 128)
    return fd if fd >= 0 else fail(what)


def lose(percent):
    """Attaches the loss to lo; it is removed with the descriptor."""
    insn = lambda code, registers, offset, value: struct.pack("<BBhi", code, registers, offset, value)
    limit = round(percent / 100 * 2**32)
    program = b"".join([
        insn(0x85, 0, 0, GET_PRANDOM_U32),  # r0 = random
        insn(0x18, 1, 0, limit - 2**32 if limit >= 2**31 else limit) + insn(0, 0, 0, 0),  # r1 = limit, 64 bits
        insn(0x2D, 0x01, 2, 0),  # if r1 > r0: drop
        insn(0xB7, 0, 0, TCX_NEXT),
        insn(0x95, 0, 0, 0),
        insn(0xB7, 0, 0, TCX_DROP),
        insn(0x95, 0, 0, 0),
    ])
    text, licence = ctypes.create_string_buffer(program, len(program)), ctypes.create_string_buffer(b"Dual MIT/GPL")
    load = struct.pack("<IIQQ", SCHED_CLS, len(program) // 8, ctypes.addressof(text), ctypes.addressof(licence))
    loaded = bpf(PROG_LOAD, load, "the kernel refused the BPF program")
    # Loopback is device 1 of every namespace.
    return bpf(LINK_CREATE, struct.pack("<IIII", loaded, 1, TCX_EGRESS, 0), "no tcx on lo")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    percent, command = float(sys.argv[1]), sys.argv[2:]
    if LIBC.unshare(CLONE_NEWNET) != 0:
        fail("a network namespace of our own")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    link = lose(percent) if percent else None
    status = subprocess.run(command, check=False).returncode
    del link
    sys.exit(status)


main()
