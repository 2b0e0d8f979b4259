"""The training process, from inside and as its owner sees it."""
