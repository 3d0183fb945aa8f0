#!/bin/bash
# Records the kernel's own BBR and CUBIC, and our algorithms in the kernel, and replays them against core; nothing is left
# on the host.
# usage: tools/oracle.sh situations | short | million [ACKS] | ours [ACKS [ALGORITHM…]] | soak [TIME]
#   situations  every situation of the tests, into crates/replay/tests/data/replay
#   short       some of them and of ours, into a temporary directory: the part that `make ci` runs
#   million     every situation at length, until there are ACKS (1000000) ACKs
#   soak        all of ours at once for TIME (600s), with losses, reordering and mixed sizes
#   ours        every situation, and with ECN and at 10 Gbit/s, with each of our algorithms in the kernel, until there are ACKS (1000000)
# Exit status: 0 equal, 1 different, 2 could not run. `tools/setup.sh oracle` lists its requirements.
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -uo pipefail

cd "$(dirname "$0")/.."
data=crates/replay/tests/data/replay
bbrlab=${BBRLAB:-target/release/bbrlab}

say() { echo "oracle: $*"; }

# record SITUATION CC OUT: records the situation with this algorithm.
record() {
    sed "s/FLOW/$2/" "$data/$1.toml" > "$scratch/$1.$2.toml"
    "$bbrlab" record "$scratch/$1.$2.toml" --out "$3" "${@:4}"
}

situations() {
    local name cc
    for name in "$data"/*.toml; do
        name=$(basename "$name" .toml)
        for cc in bbr1 cubic; do
            say "$name $cc"
            record "$name" "$cc" "$scratch/$name.$cc.tap" || exit 2
            xz --extreme --check=crc32 --stdout "$scratch/$name.$cc.tap" > "$data/$name.$cc.tap.xz"
        done
    done
    "$bbrlab" replay "$data"/*.tap.xz
}

short() {
    record loss-1 bbr1 "$scratch/loss-1.bbr1.tap" && record rto bbr1 "$scratch/rto.bbr1.tap" &&
        record loss-1 cubic "$scratch/loss-1.cubic.tap" &&
        record loss-1 bbr3-linux "$scratch/loss-1.bbr3-linux.tap" && record rto bbr3-linux "$scratch/rto.bbr3-linux.tap" &&
        record rto bbr1,program=bbrlab "$scratch/rto.bbr1-ours.tap" || exit 2
    "$bbrlab" replay "$scratch"/*.tap
}

# Logs of a million ACKs are large: each is replayed and deleted.
million() {
    local want=$1 acks=0 outputs=0 round=0 name cc log json
    while [ "$acks" -lt "$want" ]; do
        round=$((round + 1))
        for name in "$data"/*.toml; do
            name=$(basename "$name" .toml)
            for cc in bbr1 cubic; do
                log=$scratch/$name.$cc.tap
                local seconds=12s rate=()
                case $name in
                    1-gbit) seconds=10s ;;
                    steady | startup | loss-1 | reorder) rate=(--rate 100mbit) ;;
                    loss-20 | policer | app-limited) rate=(--rate 50mbit) ;;
                    10-kbit) [ $round -eq 1 ] || continue; seconds=30s ;;
                    probe-rtt | rto | idle) seconds=25s ;;
                esac
                record "$name" "$cc" "$log" --duration "$seconds" --seed "$round" "${rate[@]}" > "$scratch/said" 2>&1 ||
                    { say "$name $cc: $(cat "$scratch/said")"; continue; }
                json=$("$bbrlab" replay --json "$log") || { "$bbrlab" replay "$log"; cp "$log" "${TMPDIR:-/tmp}/"; exit 1; }
                acks=$((acks + $(jq '.logs[0].report.acks' <<< "$json")))
                outputs=$((outputs + $(jq '.logs[0].report.outputs' <<< "$json")))
                jq -r '.logs[0].report | "  \(.acks) ACKs \(.events) \(.explained)"' <<< "$json" | sed "s/^/$name $cc/"
                rm "$log"
            done
        done
        say "round $round: $acks ACKs, $outputs outputs, all equal"
    done
}

# For our algorithms: a log is replayed and deleted; one that differs is kept.
held() {
    local what=$1 log=$2 json
    json=$("$bbrlab" replay --json "$log") || { "$bbrlab" replay "$log"; cp "$log" "${TMPDIR:-/tmp}/"; exit 1; }
    acks=$((acks + $(jq '.logs[0].report.acks' <<< "$json")))
    outputs=$((outputs + $(jq '.logs[0].report.outputs' <<< "$json")))
    jq -r --arg what "$what" '.logs[0].report | "  \($what): \(.acks) ACKs \(.events)"' <<< "$json"
    rm "$log"
}

ours() {
    local want=$1 acks=0 outputs=0 round=0 name cc log rest seconds
    shift
    [ $# -gt 0 ] || set -- bbr1 bbr2 bbr3 bbr3-linux bbr-lab bbr-cpa acd-linux bbr-s davis cubic reno
    log=$scratch/ours.tap
    while [ "$acks" -lt "$want" ]; do
        round=$((round + 1))
        for cc in "$@"; do
            for name in "$data"/*.toml; do
                name=$(basename "$name" .toml)
                [ "$name" != 10-kbit ] || [ $round -eq 1 ] || continue
                seconds=()
                [ "$name" != 1-gbit ] || seconds=(--duration 4s)
                record "$name" "$cc,program=bbrlab" "$log" --seed "$round" "${seconds[@]}" > "$scratch/said" 2>&1 ||
                    { say "$cc $name: $(cat "$scratch/said")"; continue; }
                held "$cc $name" "$log"
            done
            while read -r name rest; do
                # shellcheck disable=SC2086 # flags
                "$bbrlab" record $rest --seed "$round" --out "$log" > "$scratch/said" 2>&1 ||
                    { say "$cc $name: $(cat "$scratch/said")"; continue; }
                held "$cc $name" "$log"
            done <<< "ecn --rate 20mbit --rtt 20ms --buffer 2bdp --aqm red --duration 5s --flow $cc,program=bbrlab,ecn=on
10-gbit --rate 10gbit --rtt 1ms --buffer 2bdp --duration 3s --flow $cc,program=bbrlab"
        done
        say "round $round: $acks ACKs, $outputs outputs, all equal"
    done
}

# Every kind of flow at once, for long, with losses, reordering and mixed sizes. Fails on a single call for a connection without memory,
# a single call lost by the ring, or a single different output.
soak() {
    local acks=0 outputs=0 log=$scratch/soak.tap
    "$bbrlab" record --rate 40mbit --rtt 30ms --buffer 1bdp --loss 0.5% --reorder 1% --ack-loss 1% --duration "$1" \
        --flow bbr3-linux*2 --flow bbr3-linux,request=20kB/20ms --flow bbr3-linux,request=3MB/1s --flow bbr3,mss=1200 \
        --flow bbr1,rate=2mbit,program=bbrlab --flow bbr1,on=3s/off=2s,program=bbrlab --flow bbr2,mss=536 --flow bbr-s --flow bbr-cpa \
        --flow acd-linux --flow davis --flow cubic,program=bbrlab --flow reno,request=200kB/100ms,program=bbrlab \
        --out "$log" || exit 1
    held "soak of $1" "$log"
    say "soak: $acks ACKs, $outputs outputs, all equal"
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
command -v "$bbrlab" > /dev/null || { say "no $bbrlab; make build"; exit 2; }
case ${1-} in
    situations) situations ;;
    short) short ;;
    million) million "${2:-1000000}" ;;
    soak) soak "${2:-600s}" ;;
    ours) ours "${2:-1000000}" "${@:3}" ;;
    *) sed -n '4,10s/^# //p' "$0"; exit 2 ;;
esac
