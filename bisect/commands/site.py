"""`bisect-precision report --html` and `serve`."""

from pathlib import Path

from sqlalchemy.orm import Session, sessionmaker

from ...runner.workspace.home import user_home
from ...store.database import open_to_read, sqlite_url
from ..site.folder import write_site
from ..site.serve import SiteServer
from .errors import run_command


def write_html(directory: Path, *, store: str | None) -> int:
    """Write the whole site into a folder; the exit code."""

    def body() -> int:
        written = write_site(_open(store), directory)
        print(f"{directory / 'index.html'}: {written.pages} pages, {written.changed} changed")
        return 0

    return run_command(body)


def serve(*, store: str | None, host: str, port: int) -> int:
    """Show the site until interrupted; the exit code."""

    def body() -> int:
        with SiteServer(_open(store), host, port) as server:
            where = f"[{host}]" if ":" in host else host
            print(f"http://{where}:{server.server_port}/  (Ctrl-C ends)", flush=True)
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                return 0
        return 0

    return run_command(body)


def _open(store: str | None) -> sessionmaker[Session]:
    return open_to_read(store or sqlite_url(user_home().store))
