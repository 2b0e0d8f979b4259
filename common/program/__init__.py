"""What every program of ours does as a program: command line, logs, systemd, malloc."""
