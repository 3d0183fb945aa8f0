#!/bin/bash
# A production-like test on this kernel: nginx in a cgroup, clients of four classes behind emulated links, IPv4 and IPv6, and a fifth
# whose clients share their link. The same load runs under the control only, under the tested algorithm only, and in tests by connection, by
# client prefix and by time; the simulator runs the same links. Prints each class's gain in all of them.
# usage: tools/ab.sh production [SECONDS [ALGORITHM [CONTROL]]]    SECONDS of load for each (100), and five times as much by time; of
#        bbr3-linux over cubic, unless others are named; as root; $BBRLAB is the command
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
cd "$(dirname "$0")/../.."
BBRLAB=$(realpath "${BBRLAB:-target/release/bbrlab}")
export BBRLAB

fail() { echo "ab: $*" >&2; exit 1; }
if [ "${1-}" != inside ]; then
    # Debian's nginx: the installed one, or its package unpacked in a directory of the build.
    nginx=$(command -v nginx || true) from=${CARGO_TARGET_DIR:-$PWD/target}/nginx
    if [ -z "$nginx" ]; then
        nginx=$from/usr/sbin/nginx
        mkdir -p "$from"
        [ -x "$nginx" ] || (cd "$from" && apt-get -qq -o APT::Sandbox::User=root download nginx && dpkg-deb -x nginx_*.deb .) ||
            fail "there is no nginx, and its package could not be had"
    fi
    NGINX=$nginx exec unshare -mn --propagation private "$0" inside "${1-100}" "${2-bbr3-linux}" "${3-cubic}"
fi
seconds=$2 tested=$3 control=$4

mount -t tmpfs none /run
ip link set lo up
root=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/self/mounts)
cgroup=$root/bbrlab-ab.$$
scratch=$(mktemp -d)
chmod 755 "$scratch"
mkdir "$cgroup" "$scratch/www"
trap 'echo $$ > "$root/cgroup.procs"; rmdir "$cgroup"; rm -rf "$scratch"' EXIT
echo $$ > "$cgroup/cgroup.procs"
head -c 400k /dev/urandom > "$scratch/www/page"
head -c 4M /dev/urandom > "$scratch/www/file"
chmod -R a+rX "$scratch/www"

cat > "$scratch/nginx.conf" <<END
worker_processes 1;
events { worker_connections 512; }
http {
    access_log off;
    sendfile on;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    server { listen 8000; listen [::]:8000; root $scratch/www; }
}
END

# Each class: name, network of its clients, link. The clients of the last one share it, six at a time.
classes=(
    "cable 10.1 --rate 30mbit --rtt 30ms --buffer 2bdp"
    "wireless 10.2 --rate 20mbit --rtt 40ms --loss 1%"
    "bloated 10.3 --rate 10mbit --rtt 50ms --buffer 8bdp"
    "far6 2001:db8 --rate 20mbit --rtt 120ms --loss 0.2%"
    "shared 10.5 --rate 40mbit --rtt 40ms --buffer 2bdp"
)
for class in "${classes[@]}"; do
    read -r name network _ <<< "$class"
    case $network in *:*) echo "$network::/32 $name" ;; *) echo "$network.0.0/16 $name" ;; esac
done > "$scratch/classes"

# Each connection comes from the next client network in turn; every fourth fetches a large file.
cat > "$scratch/client" <<'END'
network=$1 until=$(($(date +%s) + $2)) i=$3 way=$4
while [ "$(date +%s)" -lt "$until" ]; do
    case $network in
    *:*) at="[$BBRLAB_SERVER_IP6]" own=$(printf '%s:%x::1' "$network" "$((i % 200 + 1))") ;;
    *) at=$BBRLAB_SERVER_IP own=$network.$((i % 200 + 1)).1 ;;
    esac
    file=page
    if [ "$way" = large ] || [ $((i % 4)) -eq 3 ]; then file=file; fi
    curl -sS -o /dev/null --interface "$own" "http://$at:8000/$file" || exit 1
    i=$((i + 1))
done
END
cat > "$scratch/clients" <<'END'
for ((i = 1; i <= 200; i++)); do
    case $2 in
    *:*) printf 'addr add %s:%x::1/128 dev bbrlab nodad\n' "$2" "$i" ;;
    *) echo "addr add $2.$i.1/32 dev bbrlab" ;;
    esac
done | ip -batch - || exit 1
if [ "$4" != shared ]; then exec bash "$1/client" "$2" "$3" 0 mixed; fi
for ((i = 0; i < 6; i++)); do bash "$1/client" "$2" "$3" $((i * 33)) large & clients+=($!); done
for client in "${clients[@]}"; do wait "$client" || exit 1; done
END

# load SCENE ARMS [FLAGS of ab start]: runs a test under the load of all classes
load() {
    local scene=$1 arms=$2 class name network link route client clients=()
    shift 2
    "$BBRLAB" ab start --arms "$arms" --cgroup "$cgroup" --port 8000 --direction in --out "$scratch/$scene" \
        --guard-retransmits 99 --guard-goodput 99 --guard-handshakes 99 "$@" > /dev/null & test=$!
    until [ -e "$scratch/$scene/experiment.json" ]; do kill -0 $test || fail "$scene: the test did not begin"; sleep .1; done
    sleep .5
    for class in "${classes[@]}"; do
        read -r name network link <<< "$class"
        mkdir -p "$scratch/$scene-$name"
        case $network in *:*) route="ip -6 route add $network::/32 dev bbrlab" ;; *) route="ip route add $network.0.0/16 dev bbrlab" ;; esac
        # shellcheck disable=SC2086 # a link is several words
        "$BBRLAB" emulate $link \
            --server "$route; exec $NGINX -e stderr -p $scratch/$scene-$name -c $scratch/nginx.conf -g 'daemon off; pid nginx.pid;'" -- \
            bash "$scratch/clients" "$scratch" "$network" "$seconds" "$name" > "$scratch/$scene-$name/said" 2>&1 & clients+=("$!")
    done
    for client in "${clients[@]}"; do wait "$client" || { cat "$scratch/$scene"-*/said >&2; fail "$scene: a client failed"; }; done
    "$BBRLAB" ab stop
    wait $test || fail "$scene: the test failed"
    "$BBRLAB" ab report "$scratch/$scene" --classes "$scratch/classes" --json "$scratch/$scene.json" --report "$scratch/$scene.html" > /dev/null
}

# One algorithm alone has both arms: a report gives the medians of arms that it can compare.
load control "$control,$control"
load tested "$tested,$tested"
load connection "$control,$tested"
load prefix "$control,$tested" --by client-prefix
# Slots must be longer than connections, and there must be more than ten of each arm.
seconds=$((seconds * 5)) load time "$control,$tested" --by time --slot "$((seconds / 5))s"
# Runs the simulator on the same links. Under random loss nine seeds of CUBIC had a median that was 15 % off that of 99.
for class in "${classes[@]}"; do
    read -r name network link <<< "$class"
    for size in 400kB 4MB; do
        for cc in "$control" "$tested"; do
            case $name in shared) flow="$cc*6@0s+20ms,size=24MB" ;; *) flow=$cc,size=$size ;; esac
            # shellcheck disable=SC2086
            "$BBRLAB" run $link --flow "$flow" --duration 60s --repeat 99 --json "$scratch/sim-$name-$size-$cc.json" > /dev/null
        done
    done
done
[ -z "${KEEP-}" ] || cp -r "$scratch"/*.json "$scratch"/*.html "$scratch/classes" "$KEEP"
python3 tools/ab/production.py "$scratch" "$tested" "$control"
