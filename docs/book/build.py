#!/usr/bin/env python3
"""Builds the guide as a folder of static pages, and follows every link in it.

    docs/book/build.py [--program target/release/tracemill] [--out target/book] [--mdbook mdbook]

The chapters are the pages of this folder and the pages of the repository that SUMMARY.md names: each text exists once. A
link to a page that is no chapter becomes plain text. The page of the bakery is made by `tracemill convert --to html`.

Needs Python 3.9 and mdbook 0.4.40 or newer (`cargo install --locked mdbook`). The exit status is 1 when a page, a file or
an anchor that a link names is missing.
"""

import argparse
import html.parser
import os
import posixpath
import re
import shutil
import subprocess
import sys
import urllib.parse
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BOOK = "docs/book"
LINK = re.compile(r"(?<!\\)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")
# Other pages as they are: a browser shows them.
LIVE = {"bakery.html": "demo/kernel/bakery"}


def moved(path):
    """Where a file of the repository stands in the book: pages of this folder at its top.

    mdbook makes `index.html` of a README and does not change links to it, so that it is called so from the beginning.
    """
    path = path[len(BOOK) + 1:] if path.startswith(BOOK + "/") else path
    return posixpath.join(posixpath.dirname(path), "index.md") if posixpath.basename(path) == "README.md" else path


def chapters():
    """Paths of the pages that SUMMARY.md names."""
    summary = (ROOT / BOOK / "SUMMARY.md").read_text(encoding="utf-8")
    return [posixpath.normpath(posixpath.join(BOOK, target)) for _, target in LINK.findall(summary)]


def rewritten(text, path, known, files):
    """A page whose links lead to where its targets stand in the book. Adds the files that it shows to `files`."""

    def replace(match):
        title, target = match.groups()
        if "://" in target or target.startswith(("mailto:", "#")):
            return match.group(0)
        name, hash_, anchor = target.partition("#")
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
        if wanted.endswith(".png") or wanted.endswith(".svg"):
            files.add(wanted)
        elif wanted not in known:
            return title
        to = posixpath.relpath(moved(wanted), posixpath.dirname(moved(path)) or ".")
        return f"[{title}]({to}{hash_}{anchor})"

    out, is_code = [], False
    for part in re.split(r"(^```.*$)", text, flags=re.MULTILINE):
        if part.startswith("```"):
            is_code = not is_code
        # Links may be wrapped; lines of code that are indented have none that lead anywhere.
        out.append(part if is_code or part.startswith("```") else LINK.sub(replace, part))
    return "".join(out)


def assemble(source):
    """The sources of the book in a folder."""
    known, files = chapters(), set()
    if len(set(known)) != len(known):
        sys.exit("SUMMARY.md names a page twice")
    summary = (ROOT / BOOK / "SUMMARY.md").read_text(encoding="utf-8")
    pages = [posixpath.join(BOOK, "SUMMARY.md"), *known]
    for path in pages:
        text = summary if path == pages[0] else (ROOT / path).read_text(encoding="utf-8")
        target = source / moved(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(rewritten(text, path, set(known), files), encoding="utf-8")
    for path in sorted(files):
        target = source / moved(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, target)
    left_out = {str(page.relative_to(ROOT)) for page in (ROOT / BOOK).rglob("*.md")} - set(pages)
    if left_out:
        sys.exit(f"SUMMARY.md does not name {', '.join(sorted(left_out))}")


class Page(html.parser.HTMLParser):
    """What a page links to, and the anchors that it has."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


def broken_links(folder):
    """Links of the pages of a folder that lead nowhere inside of it."""
    pages = {path: Page(path) for path in sorted(folder.rglob("*.html"))
             if path.name not in (*LIVE, "toc.html", "print.html")}
    broken, count = [], 0
    for path, page in pages.items():
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or link.startswith("//"):
                continue
            count += 1
            target = path if not parts.path else (path.parent / urllib.parse.unquote(parts.path)).resolve()
            if parts.path == "/":
                target = folder / "index.html"
            if not target.is_file():
                broken.append(f"{path.relative_to(folder)}: {link}: there is no such file")
            elif parts.fragment and target in pages and \
                    urllib.parse.unquote(parts.fragment) not in pages[target].anchors:
                broken.append(f"{path.relative_to(folder)}: {link}: there is no such section")
    return broken, count, len(pages)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser.add_argument("--program", default=target / "release" / "tracemill", type=Path)
    parser.add_argument("--out", default=target / "book", type=Path, help="the folder of pages, which is replaced")
    parser.add_argument("--mdbook", default="mdbook")
    options = parser.parse_args()
    out = options.out.resolve()
    # Beside the pages, on the same file system.
    source = out.with_name(out.name + ".src")
    if out.exists() and not list(out.glob("searchindex*.js")) and any(out.iterdir()):
        sys.exit(f"{out} is not a book: it is not replaced")
    shutil.rmtree(source, ignore_errors=True)
    assemble(source / "src")
    for name, trace in LIVE.items():
        subprocess.run([options.program.resolve(), "convert", "-q", "--to", "html", "-o", source / "src" / name, trace],
                       cwd=ROOT, check=True)
    for name in ("book.toml", "book.css"):
        shutil.copyfile(ROOT / BOOK / name, source / name)
    shutil.rmtree(out, ignore_errors=True)
    ran = subprocess.run([options.mdbook, "build", "--dest-dir", out, source], capture_output=True, text=True)
    sys.stderr.write(ran.stderr)
    if ran.returncode != 0 or re.search(r"\b(WARN|ERROR)\b", ran.stderr):
        sys.exit("mdbook build failed, or warned")
    shutil.rmtree(source)
    broken, links, pages = broken_links(out)
    for line in broken:
        print(line)
    print(f"{out}: {pages} pages, {links} links, {len(broken)} broken")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
