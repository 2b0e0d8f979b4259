"""The playbooks on machines of their own: `make fleet-test` (root, about ten minutes)."""
