"""Changes tried on a program, each in a process of its own, on copies of its files."""
