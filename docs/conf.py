"""Configuration of the site. `make docs` builds it: offline, with warnings as errors."""

from __future__ import annotations

import os
import pathlib
import shutil
import sys

DOCS = pathlib.Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path[:0] = [str(ROOT), str(DOCS)]
os.environ["CUDAMATH_DEVICE"] = "cpu"

import gallery  # noqa: E402
import reference  # noqa: E402

import cudamath  # noqa: E402

project = "cudamath"
author = "the cudamath maintainers"
copyright = f"2026, {author}"  # noqa: A001  (Sphinx's name)
version = release = cudamath.__version__

extensions = ["sphinx.ext.autodoc", "numpydoc", "myst_nb"]
exclude_patterns = ["_build", "**.ipynb_checkpoints"]
source_suffix = {".rst": "restructuredtext", ".md": "myst-nb", ".ipynb": "myst-nb"}

nb_execution_mode = "off"  # notebooks are stored with their outputs
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
autodoc_typehints = "none"  # the docstrings have the types, in words
autodoc_member_order = "groupwise"
add_module_names = False
default_role = "literal"  # `x` in a docstring is code
toc_object_entries = False

html_theme = "pydata_sphinx_theme"
html_title = f"cudamath {version}"
html_static_path = ["_static"]
html_favicon = "_static/favicon.svg"
html_css_files = ["style.css"]
html_theme_options = {
    "navigation_depth": 2,
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "use_edit_page_button": False,
    "pygments_light_style": "tango",
}
html_context = {"default_mode": "auto"}
html_sidebars = {"index": []}
html_copy_source = False
html_show_sourcelink = False


def copy_notebooks() -> None:
    """Bring the notebooks below the folder that Sphinx reads."""
    target = DOCS / "notebooks"
    target.mkdir(exist_ok=True)
    names = {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}
    for path in target.glob("*.ipynb"):
        if path.name not in names:
            path.unlink()
    for name in names:
        source, copy = ROOT / "notebooks" / name, target / name
        if not copy.exists() or copy.read_bytes() != source.read_bytes():
            shutil.copy(source, copy)


def plain(_app: object, _what: str, _name: str, _item: object, _options: object, lines: list[str]):
    """Sphinx's hook: docstrings are plain text, see reference.py."""
    lines[:] = reference.markup(lines)


def setup(app):
    """Sphinx calls it."""
    app.connect("autodoc-process-docstring", plain, priority=400)  # before numpydoc
    reference.write(DOCS / "api")
    copy_notebooks()
    gallery.write(DOCS / "gallery")
