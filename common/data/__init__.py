"""From public files to the samples of one client."""
