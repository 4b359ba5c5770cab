"""`python -m compiler_lens`."""

import sys

from compiler_lens.cli import main

if __name__ == "__main__":
    sys.exit(main())
