"""The plots of reports, by matplotlib."""
