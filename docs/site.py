"""What `mkdocs` does besides for these pages: it shows the repository's other Markdown files as pages of the site.

A link between documents is the path between their files, which a forge follows as well. On the site the folder `docs`
is the root, and what lies outside of it keeps its path: `benchmarks/search/README.md`.
"""

import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
_OTHERS = (
    "[!R]*.md", "LICENSE", "benchmarks/**/*.md", "changelog.d/README.md", "configs/**/*.*", "skills/**/*.md",
)  # fmt: skip
_CODE = re.compile(r"`[^`\n]+`")
_LINK = re.compile(r"(\]\()(?!\w+:|#)([^)#\s]+)")


def site_path(path: Path) -> str:
    """The path on the site of a file of the repository."""
    beside = path.relative_to(ROOT)
    return str(beside.relative_to("docs") if beside.parts[0] == "docs" else beside)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the documents that lie beside `docs`, but for README, whose place `docs/index.md` takes."""
    for pattern in _OTHERS:
        for path in sorted(ROOT.glob(pattern)):
            files.append(File.generated(config, site_path(path), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links between files of the repository into links between pages.

    A forge wants the `|` of code in a table escaped, and this generator does not.
    """
    source = page.file.abs_src_path
    assert source is not None
    folder = Path(source).parent

    def link(found: re.Match[str]) -> str:
        target = Path(os.path.normpath(folder / found[2]))
        return f"{found[1]}{os.path.relpath(site_path(target), Path(page.file.src_uri).parent)}"

    lines = [
        _CODE.sub(lambda code: code[0].replace(r"\|", "|"), line) if line.startswith("|") else line
        for line in _LINK.sub(link, markdown).split("\n")
    ]
    return "\n".join(lines)
