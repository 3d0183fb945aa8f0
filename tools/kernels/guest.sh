#!/bin/bash
# The tests in a kernel. Each prints its output, then `ok: NAME` or `FAILED: NAME`, with the seconds it took.
# The kernel's command line has bbrlab.parts=algorithms, commands, long (both, and more) or runbook.
# SPDX-License-Identifier: Apache-2.0 OR MIT
export BBRLAB=/usr/bin/bbrlab
cd /tmp || exit
parts=$(sed -n 's/.*bbrlab\.parts=\([a-z]*\).*/\1/p' /proc/cmdline)
uname -sr

# check NAME COMMAND: COMMAND is a shell's, and succeeds.
check() {
    local name=$1 began=$SECONDS status=0
    shift
    timeout "${LIMIT:-120}" bash -c "set -e; $*" > /tmp/said 2>&1 < /dev/null || status=$?
    echo "== $name"
    tail -n 40 /tmp/said | cut -c 1-400
    if [ $status -eq 0 ]; then echo "ok: $name ($((SECONDS - began)) s)"; else echo "FAILED: $name (exit $status)"; fi
    return $status
}
# Everything that bbrlab may leave on a host; nothing is printed if it left nothing.
left() {
    grep -oE '\b(bbr[123]|bbr3_linux|bbr_lab|bbr_cpa|acd_linux|bbr_s|davis|bbrlab_[a-z]+|lab[0-9][^ ]*|v3)\b' /proc/sys/net/ipv4/tcp_available_congestion_control
    ls -d /sys/fs/bpf/bbrlab /run/bbrlab/*.json /run/bbrlab/registered /run/bbrlab/ab 2>/dev/null
    grep -vx cubic /proc/sys/net/ipv4/tcp_congestion_control
}
export -f left
nothing_left='[ -z "$(left)" ] || { echo "left: $(left)"; false; }'
works() { bbrlab doctor | grep -qE "^yes +$1  "; }

record_the_kernels_own() {
    works record || return
    check "the kernel's own calls replay bit for bit, restarts from idle among them" "
        bbrlab record --rate 10mbit --rtt 40ms --loss 1% --flow bbr1,on=1s,off=1s --flow cubic,on=1s,off=1s --duration 5s --out own.tap
        bbrlab replay own.tap | tee replayed; grep -q equal replayed; grep -q 'restart from idle' replayed; $nothing_left"
}

bbrlab doctor | sed -n '/^kernel\|load\|ab:\|watch\|CE marks\|record/p'

# A kernel that cannot hold an algorithm: refused with one line, nothing written, and the next command works.
if bbrlab doctor | grep -q '^no  *load: '; then
    [ "$parts" != algorithms ] || exit
    check "refuses in one line" 'bbrlab host load bbr3-linux > out 2> err && exit 1; cat err; [ "$(wc -l < err)" -eq 1 ] && ! grep -q "6\.10" err'
    check "leaves nothing" "$nothing_left; bbrlab host status; ! bbrlab host load reno; bbrlab host status"
    record_the_kernels_own
    exit
fi

runbook() {
    LIMIT=1800 check "every command of docs/roll-out.md in its order" "python3 /tests/tools/runbook.py; $nothing_left"
}
if [ "$parts" = runbook ]; then
    runbook
    exit
fi

iperf3 -s -D -p 5201 --logfile /tmp/iperf.log
sleep 1
algorithms() {
    [ ! -e /tests/differential ] ||
        LIMIT=300 check "20,000 random calls of each algorithm equal native code" 'BBRLAB_CALLS=20000 /tests/differential --ignored --test-threads=1'
    for algorithm in bbr1 bbr2 bbr3 bbr3-linux bbr-lab bbr-cpa acd-linux bbr-s davis cubic reno dctcp prague; do
        name=${algorithm//-/_}
        case $algorithm in cubic | reno | dctcp) name=bbrlab_$algorithm ;; esac
        if [ $algorithm = prague ] && ! bbrlab doctor | grep -q 'yes  accurate ECN'; then
            check "prague: refused in one line, nothing left" "! bbrlab host load prague 2> said; cat said; [ \$(wc -l < said) = 1 ]; $nothing_left"
            continue
        fi
        check "$algorithm: load, transfer, unload" "bbrlab host load $algorithm
            iperf3 -c 127.0.0.1 -C $name -n 4M -f m | grep sender
            bbrlab host status
            bbrlab host unload $name; $nothing_left"
    done
}

commands() {
    check "default, and a transfer outlives the unload" "bbrlab host load bbr3-linux,beta=0.6 --name v3 --default
        [ \$(cat /proc/sys/net/ipv4/tcp_congestion_control) = v3 ]
        iperf3 -c 127.0.0.1 -b 20M -t 1000 -i 1 --forceflush > long & transfer=\$!
        trap 'kill \$transfer' EXIT
        until bbrlab host status --connections | grep 'min RTT'; do sleep .2; done
        bbrlab watch --once --json > watch; grep -q '\"v3\"' watch
        bbrlab host unload v3; seen=\$(wc -l < long)
        until [ \$(wc -l < long) -gt \$((seen + 2)) ]; do sleep .2; done
        tail -n 1 long | grep 'Mbits/sec'; kill \$transfer; trap - EXIT; $nothing_left"
    check "run on this kernel" "bbrlab run --on kernel --rate 10mbit --rtt 40ms --duration 4s --flow bbr3-linux --flow bbr1,program=bbrlab --flow cubic; $nothing_left"
    if bbrlab doctor | grep -q 'yes  accurate ECN'; then
        check "Prague and DCTCP get marks, Prague beside CUBIC in DualPI2" "
            bbrlab run --on kernel --rate 10mbit --rtt 20ms --buffer 500p --aqm dualpi2 --flow prague --flow cubic --duration 10s | tee prague
            bbrlab run --on kernel --rate 10mbit --rtt 20ms --buffer 500p --aqm codel:ecn,ce=2ms --flow dctcp,program=bbrlab --duration 6s --json dctcp.json
            python3 -c 'import json; run = json.load(open(\"dctcp.json\")); assert run[\"bottleneck\"][\"marks\"] > 10 and not run[\"bottleneck\"][\"drops\"], run[\"bottleneck\"]'
            $nothing_left"
    fi
    check "what a killed run registered is gone after the next command" "
        bbrlab run --on kernel --rate 10mbit --rtt 40ms --duration 60s --flow bbr3-linux > /dev/null 2>&1 & run=\$!
        trap 'kill -9 \$run' EXIT
        until grep -o 'lab0[^ ]*' /proc/sys/net/ipv4/tcp_available_congestion_control; do sleep .2; done
        kill -9 \$run; trap - EXIT; sleep 1
        bbrlab host status > /dev/null; $nothing_left"
    check "recorded calls of ours replay bit for bit, restarts from idle among them" "
        bbrlab record --rate 10mbit --rtt 40ms --loss 1% --flow bbr3-linux,on=1s,off=1s --flow bbr1,program=bbrlab,on=1s,off=1s --flow cubic,program=bbrlab,on=1s,off=1s --duration 5s --out ours.tap
        bbrlab replay ours.tap | tee replayed; grep -q equal replayed; grep -q 'restart from idle' replayed; $nothing_left"
    record_the_kernels_own
    check "A/B test" "
        bbrlab ab start --arms cubic,bbr3-linux --port 5201 --out /tmp/test > ab.log 2>&1 & test=\$!
        for _ in {1..100}; do ! grep -q 'records in' ab.log || break; sleep .2; done
        for _ in {1..12}; do iperf3 -c 127.0.0.1 -n 100K > /dev/null; done
        bbrlab ab status; bbrlab ab stop; wait \$test || { cat ab.log; exit 1; }
        bbrlab ab report /tmp/test | tail -n 4
        python3 -c 'import json
counts = json.load(open(\"/tmp/test/experiment.json\"))[\"counts\"]
print(counts)
begun = sum(arm[\"established\"] for arm in counts[\"arms\"])
assert begun == counts[\"written\"] == 48, \"of 12 transfers 2 connections each, both ends\"
assert counts[\"ring_lost\"] + counts[\"disk_lost\"] + counts[\"no_memory\"] == 0'
    $nothing_left"
    printf 'default = "cubic"\n[[rule]]\nname = "web"\nports = [5202]\nclients = ["10.0.0.0/8", "127.0.0.0/8"]\nrtt = "< 10s"\ncgroup = "served"\nalgorithm = "bbr3-linux"\n' > policy.toml
    check "policy" "
        mkdir -p /sys/fs/cgroup/served
        echo \$\$ > /sys/fs/cgroup/served/cgroup.procs
        iperf3 -s -1 -D -p 5202
        echo \$\$ > /sys/fs/cgroup/cgroup.procs
        bbrlab host policy apply policy.toml
        sleep 1
        iperf3 -c 127.0.0.1 -p 5202 -R -t 1 > /dev/null
        bbrlab host policy status
        bbrlab host policy status --json | tr -d ' \\n' | grep -q '\"taken\":2.*\"taken\":0'
        bbrlab host policy remove; rmdir /sys/fs/cgroup/served; $nothing_left"
    check "README's commands with a web server" "/tests/tools/server.sh; $nothing_left"
}

[ "$parts" = commands ] || algorithms
[ "$parts" = algorithms ] || commands
if [ "$parts" = long ]; then
    runbook
    LIMIT=5000 check "a million recorded ACKs of all algorithms replay bit for bit" "
        acks=0; nth=0; flows=(bbr1,program=bbrlab bbr2 bbr3 bbr3-linux bbr-lab bbr-cpa acd-linux bbr-s davis cubic,program=bbrlab reno,program=bbrlab)
        while [ \$acks -lt 1000000 ]; do
            bbrlab record --rate 200mbit --rtt 10ms --loss 0.1% --flow \${flows[nth % 10]} --flow \${flows[(nth + 3) % 10]} --duration 30s --out many.tap > /dev/null
            bbrlab replay many.tap > replayed || { cat replayed; exit 1; }
            acks=\$((acks + \$(awk '\$2 == \"equal\" { print \$4 }' replayed))); nth=\$((nth + 1))
        done
        echo \$acks ACKs in \$nth recordings"
    [ ! -e /tests/host ] || LIMIT=1500 check "killed at each step, faults, full disk" '/tests/host --include-ignored --test-threads=1 --skip the_kernel_verifies_each_program_soon'
fi
busybox dmesg | grep -E 'WARNING:|BUG:|Oops|Call Trace' | head -n 5 > complaints
check "the kernel logged no warning" '[ ! -s complaints ] || { cat complaints; false; }'
