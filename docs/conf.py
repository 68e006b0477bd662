"""The documentation site, by Sphinx: `make docs` builds it into `site`, and every warning is an error.

Its pages are the Markdown files of the repository where they stand, so that a link between them is the same here and on
GitHub. The root of the site is the root of the repository; `index.html` there leads on to docs/index.md.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx

import actgp

project = "actgp"
author = "The actgp maintainers"
version = release = actgp.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**.md"]
exclude_patterns = [
    ".*",
    "benchmarks",
    "dist",
    "docs/browser",
    "experiments",
    "results",
    "site",
    "src",
    "tests",
]  # need not be walked

myst_heading_anchors = 4  # of headings down to this depth, as GitHub makes them

autodoc_default_options = {"members": True, "exclude-members": "config, extra_repr"}
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
default_role = "py:obj"  # `name` in a docstring is a link where there is a page for it, else code
napoleon_use_ivar = True
napoleon_use_rtype = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
pygments_style, pygments_dark_style = "a11y-light", "a11y-dark"
html_title = "actgp"
html_static_path = ["static"]
html_css_files = ["actgp.css"]
templates_path = ["templates"]
html_additional_pages = {"index": "to_the_start.html"}
html_show_sourcelink = html_copy_source = False
html_show_sphinx = html_show_copyright = False


def plain_text(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Docstrings are plain text with `code`, formulas and examples: what RST would see beyond that is escaped."""
    result: list[str] = []
    formulas_may_follow = True  # until the first section
    # Of what is returned, napoleon takes the words before a colon for a type; types are in the annotations.
    for line in [re.sub(r"^(:returns: )\*(.*?)\* -- ", r"\1\2: ", line) for line in lines]:
        if line.startswith((":", "..")):
            formulas_may_follow = False
        if formulas_may_follow and line.startswith("    "):
            if not result[-1]:
                result += ["::", ""]
            result.append(line)
        elif line.lstrip().startswith((">>>", "...")):
            result.append(line)
        else:
            outside, code = re.split(r"(`[^`]*`)", line)[::2], re.findall(r"`[^`]*`", line)
            escaped = [re.sub(r"(?<!\\)([*|]|(?<=\w)_(?!\w))", r"\\\1", text) for text in outside]
            result.append("".join(a + b for a, b in zip(escaped, [*code, ""], strict=True)))
    lines[:] = result


def skip_foreign(app: Sphinx, what: str, name: str, obj: object, skip: bool, options: object) -> bool | None:
    """What scikit-learn adds to estimators is in scikit-learn's documentation."""
    return True if str(getattr(obj, "__module__", "")).startswith("sklearn.") else None


# What screen readers and keyboards need: names of landmarks, and that what scrolls sideways can be reached by Tab.
ACCESSIBLE = {
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    '<th class="head"><p></p></th>': '<td class="head"></td>',
    'role="heading"': 'role="heading" aria-level="2"',
    '<aside class="sidebar-drawer"': '<aside class="sidebar-drawer" aria-label="Pages"',
    '<aside class="toc-drawer': '<aside aria-label="On this page" class="toc-drawer',
}


def make_accessible(app: Sphinx, error: Exception | None) -> None:
    """Adds it to the pages that were written."""
    for path in [] if error else Path(app.outdir).rglob("*.html"):
        page = path.read_text()
        for found, replacement in ACCESSIBLE.items():
            if replacement not in page:
                page = page.replace(found, replacement)
        path.write_text(page)


def setup(app: Sphinx) -> None:
    """Connects the three; `plain_text` comes after napoleon, which has priority 500."""
    app.connect("autodoc-process-docstring", plain_text, priority=900)
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("build-finished", make_accessible)
