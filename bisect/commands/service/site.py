"""`bisect-precision report --html` and `serve`."""

from contextlib import suppress
from pathlib import Path
from threading import Thread

from sqlalchemy.orm import Session, sessionmaker

from ....store.database import open_to_read
from ...run.session import open_sessions
from ...site.folder import write_site
from ...site.serve import SiteServer
from ...site.writing import QueueWriting
from ..command_line.options import ServeOptions
from ..command_line.queue_options import WorkerOptions
from ..command_line.stores import store_url
from ..errors import run_command
from .submit import check_submission
from .worker import work


def write_html(directory: Path, *, store: str | None) -> int:
    """Write the whole site into a folder; the exit code."""

    def body() -> int:
        written = write_site(_open(store), directory)
        print(f"{directory / 'index.html'}: {written.pages} pages, {written.changed} changed")
        return 0

    return run_command(body)


def serve(options: ServeOptions) -> int:
    """Show the site until interrupted, and take submissions where that is asked for; the exit code."""

    def body() -> int:
        writing = None
        if options.work:
            sessions = open_sessions(store_url(options.store))
            writing = QueueWriting(sessions=sessions, check=check_submission)
        with SiteServer(_open(options.store), options.host, options.port, writing=writing) as server:
            where = f"[{options.host}]" if ":" in options.host else options.host
            print(f"http://{where}:{server.server_port}/  (Ctrl-C ends)", flush=True)
            if options.work:
                return _serve_beside_work(server, options)
            with suppress(KeyboardInterrupt):
                server.serve_forever()
        return 0

    return run_command(body)


def _serve_beside_work(server: SiteServer, options: ServeOptions) -> int:
    """Signals reach the main thread, where the worker is: it hands back what it runs."""
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        return work(WorkerOptions(board=(), quota=None, store=options.store))
    finally:
        server.shutdown()
        thread.join()


def _open(store: str | None) -> sessionmaker[Session]:
    return open_to_read(store_url(store))
