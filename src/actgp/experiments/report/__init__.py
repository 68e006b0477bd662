"""A report of stored results: tables, ranks and figures, as one HTML page and as Markdown."""

__all__: list[str] = []
