#!/bin/sh
# Enrolls the server and the boards, then runs the broker. Enrolling again changes nothing.
set -eu
enroll() { fl-broker enroll "$@" --broker broker --folder /broker; }
enroll server --coordinator -o /server/server.toml
enroll viewer --viewer -o /server/viewer.toml
number=0
while [ "$number" -lt "$BOARDS" ]; do
    first=$((number * CLIENTS_PER_BOARD))
    number=$((number + 1))
    last=$((number * CLIENTS_PER_BOARD - 1))
    enroll "board-$number" --clients "$first-$last" -o "/boards/board-$number.toml"
done
exec fl-broker up --listen 0.0.0.0 --name broker --folder /broker
