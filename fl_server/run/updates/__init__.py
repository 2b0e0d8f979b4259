"""The updates of an open round: on their way in, on disk, added up."""
