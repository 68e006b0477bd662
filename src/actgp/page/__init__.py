"""One HTML page about a table's model, which refers to no other file. It needs the extra `cli`."""

from actgp.page.numbers import numbers
from actgp.page.write import write_page

__all__ = ["numbers", "write_page"]
