"""`python -m cutaway` is the command `cutaway`."""

from cutaway.cli import main

if __name__ == "__main__":
    main()
