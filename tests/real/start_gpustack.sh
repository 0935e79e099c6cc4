#!/usr/bin/env bash
# A real GPUStack server without a worker and without a gateway, for the tests in this directory.
#
#   start_gpustack.sh           sets it up (once: about a minute, 1 GB on disk) and leaves
#   start_gpustack.sh PORT DIR  and serves on PORT in the foreground with its data in DIR; Ctrl-C or
#                               SIGTERM ends it. The admin's password is Trio-Admin-1.
#
# Needs Linux, Python 3.11 or newer with venv, a package index that has gpustack, and for 2.x a
# PostgreSQL server (Debian: apt install postgresql), of which it starts a cluster of its own in DIR
# on PORT+1. GPUStack 2.x listens on all addresses. Environment:
#   REAL               where it is installed   (~/.cache/trioroute-real; delete it to start anew)
#   REAL_PYTHON        the interpreter of its venv             (python3)
#   GPUSTACK_VERSION   2.3.0, which the tests were written for; 0.7.1 needs no PostgreSQL, and has
#                      another API for the administrator
set -euo pipefail

REAL=${REAL:-$HOME/.cache/trioroute-real}
VERSION=${GPUSTACK_VERSION:-2.3.0}
VENV=$REAL/gpustack-$VERSION
READY=$VENV/.ready

say() { echo "start_gpustack.sh: $*" >&2; }

postgres_bin() {
    local found
    found=$(ls -d /usr/lib/postgresql/*/bin /usr/pgsql-*/bin 2>/dev/null | sort -V | tail -1 || true)
    if [ -z "$found" ]; then
        found=$(dirname "$(command -v initdb || true)")
    fi
    if [ ! -x "$found/initdb" ]; then
        say "GPUStack $VERSION needs a PostgreSQL server and there is none (apt install postgresql)," \
            "or take GPUSTACK_VERSION=0.7.1"
        return 1
    fi
    echo "$found"
}

set_up() {
    if [[ $VERSION == 2.* ]]; then
        postgres_bin >/dev/null
    fi
    if [ ! -f "$READY" ]; then
        local begin=$SECONDS
        say "installing gpustack $VERSION into $VENV (once, about a minute, 1 GB)"
        "${REAL_PYTHON:-python3}" -m venv --clear "$VENV"
        # 0.7.1 imports cachetools and does not require it.
        "$VENV/bin/pip" install -q "gpustack==$VERSION" cachetools
        touch "$READY"
        say "installed in $((SECONDS - begin)) s"
    fi
}

# PostgreSQL refuses to run as root: then it runs as the user that its package made.
as_postgres() {
    if [ "$(id -u)" = 0 ]; then
        su postgres -s /bin/bash -c "$*"
    else
        bash -c "$*"
    fi
}

start_postgres() {
    PG_BIN=$(postgres_bin)
    PG=$DIR/postgres
    if [ ! -f "$PG/PG_VERSION" ]; then
        mkdir -p "$PG"
        if [ "$(id -u)" = 0 ]; then
            chown postgres "$PG"
        fi
        as_postgres "$PG_BIN/initdb -D '$PG' -A trust -U postgres" >/dev/null
    fi
    local options="-p $((PORT + 1)) -c listen_addresses=127.0.0.1 -c unix_socket_directories=$PG"
    as_postgres "$PG_BIN/pg_ctl -D '$PG' -o '$options' -l '$PG/log' -w start" >/dev/null
    "$PG_BIN/createdb" -h 127.0.0.1 -p $((PORT + 1)) -U postgres gpustack 2>/dev/null || true
}

stop_all() {
    trap '' TERM INT
    if [ -n "${SERVER:-}" ]; then
        kill "$SERVER" 2>/dev/null || true
        wait "$SERVER" 2>/dev/null || true
    fi
    if [ -n "${PG:-}" ]; then
        as_postgres "$PG_BIN/pg_ctl -D '$PG' -m immediate -w stop" >/dev/null 2>&1 || true
    fi
}

mkdir -p "$REAL"
(
    flock 9
    set_up
) 9>"$REAL/lock-gpustack"
[ $# -gt 0 ] || exit 0

PORT=$1
DIR=$2
mkdir -p "$DIR/data"
trap stop_all EXIT
trap 'exit 143' TERM INT
if [[ $VERSION == 2.* ]]; then
    start_postgres
    # Its API is on --api-port; --port is that of the gateway, which is off.
    ARGS=(--database-url "postgresql://postgres:x@127.0.0.1:$((PORT + 1))/gpustack"
        --gateway-mode disabled --disable-builtin-observability --api-port "$PORT"
        --metrics-port $((PORT + 2)) --port $((PORT + 3)) --advertise-address 127.0.0.1)
else
    ARGS=(--host 127.0.0.1 --port "$PORT" --disable-worker)
fi
export HF_HUB_OFFLINE=1
"$VENV/bin/gpustack" start --data-dir "$DIR/data" --bootstrap-password Trio-Admin-1 \
    --disable-update-check "${ARGS[@]}" &
SERVER=$!
wait "$SERVER"
