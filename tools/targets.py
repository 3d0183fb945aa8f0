#!/usr/bin/env python3
"""Builds core's algorithms for the kernel's BPF and for the browser, and checks the resulting code.

A BPF program has no panic, no 128-bit arithmetic, no libc and 512 bytes of stack, and its verifier refuses code it cannot follow;
so none of these may remain after whole-program optimisation. bpf/cc/shim calls every event of each algorithm.

usage: tools/targets.py            exit 1 if any remains, one per line
"""
# SPDX-License-Identifier: Apache-2.0 OR MIT
import concurrent.futures
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# The distribution's compiler, by its path: it includes BPF's `core` and its source for other targets, which rustup's stable
# lacks, and must not replace the machine's own.
RUSTC = os.environ.get("BBRLAB_TARGETS_RUSTC", "/usr/bin/rustc")
OUT = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "targets")

# Components of the BPF shim.
PARTS = ["bbr1", "bbr2", "bbr3", "bbr3_linux", "bbr_lab", "cpa", "acd", "bbrs", "apg", "davis", "cubic", "reno", "dctcp", "prague"]
# All of core's features, so that nothing is left unchecked.
FEATURES = ["--cfg", 'feature="variants"', "--cfg", 'feature="unstable-internals"']

# The verifier's limit for a chain of calls, and the unit in which it counts a function's stack. Source: Linux
# MAX_BPF_STACK, check_max_stack_depth.
STACK = 512
STACK_UNIT = 32
# At opt-level 3 LLVM recognises 32-bit halves of a wide product and emits the wide product; a jump table is a pointer to code.
COMMON = ["--edition", "2024", "-Copt-level=2", "-Cpanic=abort", "-Ccodegen-units=1"]
TARGETS = {"bpfel-unknown-none": ["-Cjump-tables=no"], "wasm32-unknown-unknown": []}

WIDE = re.compile(r"__\w+ti[23]$|__multi3$")
PANIC = re.compile(r"panic|unwind")
MEMORY = re.compile(r"(mem(cpy|move|set|cmp)|bcmp)$")


def run(*arguments, **environment):
    """Runs a compiler. Returns its success, and its messages."""
    done = subprocess.run([RUSTC, *arguments], capture_output=True, text=True, env={**os.environ, **environment})
    return done.returncode == 0, done.stderr


def must(what, result):
    good, said = result
    if not good:
        sys.exit(f"targets: {what} does not compile:\n{said}")


def own_core(target, folder):
    """Compiles `core` from its source if the compiler includes none for the target; kept until the compiler changes."""
    sysroot = subprocess.run([RUSTC, "--print", "sysroot"], capture_output=True, text=True, check=True).stdout.strip()
    if os.path.isdir(os.path.join(sysroot, "lib/rustlib", target, "lib")):
        return
    version = subprocess.run([RUSTC, "-vV"], capture_output=True, text=True, check=True).stdout
    stamp = os.path.join(folder, "core-of")
    if os.path.exists(stamp) and open(stamp).read() == version:
        return
    # Only its generic code and the targets of panics matter here, so it need not be optimised by itself.
    plain = ["-Copt-level=0", "-Cdebug-assertions=off", "-Coverflow-checks=off", "-Cpanic=abort", "-Clinker-plugin-lto"]
    common = ["--edition", "2024", "--crate-type", "rlib", "--cap-lints", "allow", "--target", target, "--out-dir", folder]
    source = os.path.join(sysroot, "lib/rustlib/src/rust/library/core/src/lib.rs")
    must("core", run(*common, *plain, "--crate-name", "core", source, RUSTC_BOOTSTRAP="1"))
    # An empty one: calls into it show as missing symbols.
    empty = os.path.join(folder, "builtins.rs")
    with open(empty, "w") as file:
        file.write("#![no_std]\n#![feature(compiler_builtins)]\n#![compiler_builtins]\n")
    name = ["--crate-name", "compiler_builtins", "-L", folder]
    must("compiler_builtins", run(*common, *plain, *name, empty, RUSTC_BOOTSTRAP="1"))
    with open(stamp, "w") as file:
        file.write(version)


def functions(assembly):
    """Per function: bytes of stack, and its callees."""
    found, name, pointers = {}, None, set()
    for line in assembly.splitlines():
        if label := re.match(r"([A-Za-z_$][\w.$]*):", line):
            if not label[1].startswith(("LBB", ".L", "Ltmp", "Lfunc")):
                name, pointers = label[1], set()
                found[name] = [0, set()]
            continue
        # Of functions with identical code only one is kept.
        if alias := re.match(r"(?:\s*\.set\s+)?([A-Za-z_]\w*)(?:,| =) ([A-Za-z_]\w*)$", line):
            found[alias[1]] = [0, {alias[2]}]
        if name is None:
            continue
        stack, calls = found[name]
        if call := re.match(r"\s+call\s+([A-Za-z_$][\w.$]*)", line):
            calls.add(call[1])
        if copy := re.match(r"\s+(r\d) = r10$", line):
            pointers.add(copy[1])
        depth = re.search(r"r10 - (\d+)", line) or re.match(r"\s+(?:%s) \+= -(\d+)$" % "|".join(pointers or "-"), line)
        if depth:
            found[name][0] = max(stack, int(depth[1]))
    return found


def deepest(found, name, above=()):
    """Bytes of stack of the deepest chain of calls from a function; the verifier accepts no cycle."""
    if name in above or name not in found:
        return STACK + 1 if name in above else 0
    stack, calls = found[name]
    share = -(-max(stack, 1) // STACK_UNIT) * STACK_UNIT
    return share + max((deepest(found, call, (*above, name)) for call in calls), default=0)


def faults(target, assembly, parts):
    """Forbidden code that was found, and the deepest stack with its function."""
    found = functions(assembly)
    called = set().union(*(calls for _, calls in found.values()))
    # Data contains the address of a function where a panic would format its message.
    missing = (called | set(re.findall(r"\b(core_may_panic|__\w+ti[23]|__multi3)\b", assembly))) - found.keys()
    said = []
    for name in sorted(missing | {name for name in found if PANIC.search(name)}):
        callers = sorted(caller for caller, (_, calls) in found.items() if name in calls) or ["data"]
        if target.startswith("wasm") and MEMORY.match(name):
            continue  # memory primitives are provided by the host there
        kind = "128-bit arithmetic" if WIDE.match(name) else "a panic" if PANIC.search(name) else "a call out"
        said.append(f"{kind}: {name}, from {', '.join(callers[:3])}")
    faces = [name for name in found if any(name.startswith(part + "_") for part in parts)]
    for part in parts:
        if not any(name == part + "_ack" for name in faces):
            said.append(f"{part} is missing from the object")
    most = max(((deepest(found, name), name) for name in faces), default=(0, "none"))
    if target.startswith("bpf") and most[0] > STACK:
        said.append(f"{most[1]} needs {most[0]} bytes of stack of the {STACK} that there are")
    return said, most, len(faces)


def library(target):
    """Compiles core for the target."""
    folder = os.path.join(OUT, target)
    os.makedirs(folder, exist_ok=True)
    own_core(target, folder)
    kind = ["--crate-type", "rlib", "--crate-name", "bbrlab_core", "-Clinker-plugin-lto", "--cap-lints", "allow"]
    must("crates/core", run(*flags(target, folder), *FEATURES, *kind, os.path.join(ROOT, "crates/core/src/lib.rs")))


def flags(target, folder):
    return [*COMMON, *TARGETS[target], "--target", target, "-L", folder, "--out-dir", folder]


def build(target, parts, name):
    """Compiles these parts of the BPF shim with core into one program. Returns its assembly, and the compiler's messages."""
    folder = os.path.join(OUT, target)
    assembly = os.path.join(folder, f"{name}.s")
    if os.path.exists(assembly):
        os.remove(assembly)
    chosen = [f'--cfg=feature="{part}"' for part in parts]
    extern = ["--extern", f"bbrlab_core={folder}/libbbrlab_core.rlib", "-Aunused"]
    # Only with a link step is the whole program optimised as one.
    wanted = ["--crate-type", "staticlib", "--crate-name", name, "-Clto=fat", "--emit=asm,link"]
    good, said = run(*flags(target, folder), *wanted, *chosen, *extern, os.path.join(ROOT, "bpf/cc/shim/src/lib.rs"))
    return (open(assembly).read() if good else None), said


def complaints(target, parts, name):
    """All faults of these parts, or a summary if there are none."""
    assembly, said = build(target, parts, name)
    if assembly is None:
        lines = [line for line in said.splitlines() if re.match(r"error(?!: aborting)|.*stack limit", line)]
        return (lines or [said]), ""
    wrong, (stack, deepest_name), count = faults(target, assembly, parts)
    depth = f"; deepest stack {stack} of {STACK} bytes ({deepest_name})" if target.startswith("bpf") else ""
    return wrong, f"{count} functions of {len(parts)} algorithms, no panic, no 128-bit arithmetic, no call out{depth}"


def main():
    failed = False

    def check(target):
        library(target)
        return complaints(target, PARTS, "shim")

    with concurrent.futures.ThreadPoolExecutor() as pool:
        results = list(pool.map(check, TARGETS))
    for target, (wrong, summary) in zip(TARGETS, results):
        for line in wrong:
            print(f"targets: {target}: {line}", file=sys.stderr)
        failed |= bool(wrong)
        if not wrong:
            print(f"targets: {target}: {summary}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
