"""A list of a web that misbehaves: one command for each program, the same list, in turns."""
