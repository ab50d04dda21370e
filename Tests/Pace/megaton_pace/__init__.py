"""Measures from outside how fast a cluster stays when workers die, hosts are slow and fleets are uneven.

Only the program, its documented commands and its public lists are used, so that any version can be measured: no key of
Redis that is not public, and no code of Megaton. Python's own library is enough.
"""
