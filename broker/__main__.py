"""`python -m broker` is `fl-broker`."""

from broker.cli import main

main()
