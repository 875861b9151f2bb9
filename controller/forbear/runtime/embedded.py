"""The worker that lives in the application's process: a thread, or a task where calls are async. It only says when.

What a pass does is in `worker.py`. The worker sleeps until the next due instant, and looks once a second where another
process may have answered a prompt meanwhile.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from datetime import timedelta
from typing import Final, Protocol

from forbear.errors import StoreError
from forbear.runtime.drive import running_loop
from forbear.runtime.engine import Engine
from forbear.runtime.warn import warn_beside
from forbear.store.codec import from_us

# Seconds between looks while something is scheduled (another process may have answered), and before the first look
# after opening (the application is still binding its tools).
POLL: Final = 1.0


class Works(Protocol):
    """What the worker drives."""

    def work(self) -> object:
        """Do what is due, in this thread."""
        ...

    async def awork(self) -> object:
        """Do what is due, in this task."""
        ...


class EmbeddedWorker:
    """Starts when something is scheduled, stops with its controller."""

    def __init__(self, works: Works, engine: Engine) -> None:
        self._works = works
        self._engine = engine
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopped = False
        self._thread: threading.Thread | None = None
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._awake: asyncio.Event | None = None

    def kick(self) -> None:
        """Something was scheduled: start where it is not running, look where it is."""
        if self._stopped:
            return
        with self._lock:
            loop = running_loop()
            if loop is not None and self._is_idle():
                self._start_task(loop)
            elif self._thread is None and (self._loop is None or self._loop.is_closed()):
                self._start_thread()
            elif self._loop is not None and self._awake is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._awake.set)
        self._wake.set()

    def look_soon(self) -> None:
        """A tool was bound: what the store has waited for may be done now."""
        if not self._stopped and self._is_idle() and self._engine.store.next_due_us() is not None:
            self.kick()

    def _is_idle(self) -> bool:
        return self._thread is None and (self._loop is None or self._loop.is_closed())

    def stop(self) -> None:
        """Look no more; a tool that is running is waited for in the thread, and cancelled in the task."""
        self._stopped = True
        self._wake.set()
        thread, task, loop = self._thread, self._task, self._loop
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        if task is not None and loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(task.cancel)

    # ---- thread -----------------------------------------------------------------------------------------------------

    def _start_thread(self) -> None:
        self._thread = threading.Thread(target=self._run, name="forbear-worker", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        pause: float | None = self._pause(first=True)
        while True:
            self._wake.wait(pause)
            self._wake.clear()
            if self._stopped:
                return
            try:
                self._works.work()
                pause = self._pause()
            except StoreError:
                pause = POLL
            except Exception as error:  # noqa: BLE001 - the worker goes on; the row stays due
                warn_beside(f"the worker met {type(error).__name__} and goes on")
                pause = POLL

    def _pause(self, *, first: bool = False) -> float | None:
        """Return the seconds until the next look; None = until something is scheduled."""
        due_us = self._engine.store.next_due_us()
        if due_us is None:
            # Another process may answer what waits here for a person, and the application wants to hear of it.
            return POLL if self._engine.on_ready is not None and self._engine.world.waiting_roots() else None
        left = (from_us(due_us) - self._engine.clock.now()) / timedelta(seconds=1)
        # What is overdue and still there cannot be worked on here: no busy loop.
        return POLL if first or left <= 0 else min(left, POLL)

    # ---- task -------------------------------------------------------------------------------------------------------

    def _start_task(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._awake = asyncio.Event()
        self._task = loop.create_task(self._arun(self._awake), name="forbear-worker")

    async def _arun(self, awake: asyncio.Event) -> None:
        pause: float | None = self._pause(first=True)
        while not self._stopped:
            with suppress(TimeoutError):
                await asyncio.wait_for(awake.wait(), pause)
            awake.clear()
            try:
                await self._works.awork()
                pause = self._pause()
            except StoreError:
                pause = POLL
            except Exception as error:  # noqa: BLE001 - the worker goes on; the row stays due
                warn_beside(f"the worker met {type(error).__name__} and goes on")
                pause = POLL


class JournalWriter:
    """Writes the journal lines of reads from a thread of its own, so that no caller waits for them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopped = False
        self._thread: threading.Thread | None = None

    def wake(self) -> None:
        """Many lines wait: write them."""
        if self._wake.is_set() or self._stopped:
            return
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="forbear-journal", daemon=True)
                    self._thread.start()
        self._wake.set()

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._stopped:
                return
            # What cannot be written waits on; the next read that would add to a long backlog meets the error itself.
            with suppress(StoreError):
                self._engine.world.batch.flush()
            self._engine.tell()

    def stop(self) -> None:
        """Write no more; what waits is written by whoever closes."""
        self._stopped = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
