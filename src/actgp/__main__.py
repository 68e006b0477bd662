"""`python -m actgp`, which is `actgp`."""

from actgp.cli import main

if __name__ == "__main__":
    main()
