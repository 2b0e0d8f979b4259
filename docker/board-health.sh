#!/bin/sh
# Healthy: the board reaches the broker, is let in and is held to its topics.
set -eu
board=$(cat /tmp/board)
exec fl-client doctor --quick --credentials "/boards/$board.toml" --state "/state/$board"
