#!/bin/sh
# follow.sh LOG REPLICA: Litestream on the segment that the router writes, anew for each segment.
#
#   follow.sh /var/lib/trioroute/log s3://bucket/trioroute        as the router's user, on its machine
#
# One segment at a time: Litestream holds what it follows open, and while it does a closed segment
# is not sealed, so neither log.archive nor retention takes it. The same with `dir:` and `watch:`.
set -eu
log=$1 replica=$2
child=

newest() {
    ls "$log" 2>/dev/null | sed -n 's/^log-\([0-9]*\)\.sqlite$/\1/p' | sort -n | tail -n 1
}

leave() {
    [ -z "$child" ] || { kill -TERM "$child" 2>/dev/null && wait "$child" || true; }
    exit 0
}
trap leave TERM INT

while :; do
    first=$(newest)
    if [ -z "$first" ]; then sleep 1; continue; fi
    name=log-$first.sqlite
    litestream replicate "$log/$name" "$replica/$name" &
    child=$!
    while [ "$(newest)" = "$first" ]; do
        kill -0 "$child" 2>/dev/null || { wait "$child" || exit $?; exit 1; }
        sleep 1
    done
    # It sends what it has not sent yet before it ends; then the router seals the segment.
    kill -TERM "$child" && wait "$child" || true
    child=
    rm -rf "$log/.$name-litestream"
done
