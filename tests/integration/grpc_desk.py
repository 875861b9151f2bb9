"""A real gRPC server on loopback that takes orders, and refuses as a test says. Needs grpcio; imports it when it is used."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

# What it writes to stderr about handshakes and forks is of no use here.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

METHOD = "/desk.Desk/PlaceOrder"
ORDER = b"place_order"


class Desk:
    """The server's side: what it counted, and what it does with an order."""

    def __init__(self) -> None:
        self.port = 0
        self.orders = 0
        # Set when an order is carried out.
        self.done = threading.Event()
        # Ends every call that is open.
        self.stop: Callable[[], object] = lambda: None
        self.answer: Callable[[bytes, Any], bytes] = lambda _order, _context: b"done"

    def place(self, order: bytes, context: Any) -> bytes:
        """Carry an order out, and answer as the test says."""
        self.orders += 1
        self.done.set()
        return self.answer(order, context)


@contextmanager
def grpc_desk() -> Iterator[Desk]:
    """Run a server in this block."""
    grpc: Any = importlib.import_module("grpc")
    desk = Desk()

    class Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]
        """Serves one method, bytes for bytes."""

        def service(self, handler_call_details: Any) -> Any:
            if handler_call_details.method != METHOD:
                return None
            return grpc.unary_unary_rpc_method_handler(desk.place)

    server = grpc.server(ThreadPoolExecutor(4), handlers=[Handlers()])
    desk.port = server.add_insecure_port("127.0.0.1:0")
    desk.stop = lambda: server.stop(0)
    server.start()
    try:
        yield desk
    finally:
        server.stop(0).wait()
