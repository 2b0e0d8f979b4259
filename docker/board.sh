#!/bin/sh
# Becomes a board that no other container is: its bundle and its state, taken by a lock that ends
# with this process.
set -eu
for bundle in /boards/board-*.toml; do
    board=$(basename "$bundle" .toml)
    exec 9>"/state/$board.lock"
    if flock --nonblock 9; then
        echo "$board" >/tmp/board
        exec fl-client run --credentials "$bundle" --state "/state/$board"
    fi
done
echo "all enrolled boards are taken; enroll more: BOARDS=8 docker compose up" >&2
exit 1
