#!/bin/sh
# Enrolls the server and the boards, then runs the broker. Enrolling again changes nothing.
set -eu
enroll() { fl-broker enroll "$@" --broker broker --folder /broker; }
enroll server --coordinator -o /server/server.toml
enroll viewer --viewer -o /server/viewer.toml
board=1
while [ "$board" -le "$BOARDS" ]; do
    first=$(((board - 1) * CLIENTS_PER_BOARD))
    last=$((board * CLIENTS_PER_BOARD - 1))
    enroll "board-$board" --clients "$first-$last" -o "/bundles/$board/board.toml"
    board=$((board + 1))
done
exec fl-broker up --listen 0.0.0.0 --name broker --folder /broker
