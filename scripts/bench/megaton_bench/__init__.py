"""Megaton beside its peers: the same pictures, the same outputs, one machine, in turns."""
