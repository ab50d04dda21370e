"""Megaton beside its peers: the same images, the same outputs, one machine, in turns."""
