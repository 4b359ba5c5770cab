"""PyTorch's own tests of its compiler, each run plain, plain again and under a lens: what differs?

sources ──► choosing ──► running (a child process for each group of tests) ──► comparing

`python -m corpus --help`, from the folder of our tests, says what can be asked for. The child (`child/`) knows no lens
unless it is asked to open one.
"""
