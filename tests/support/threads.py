"""Threads of the tests."""

from __future__ import annotations

import threading
from collections.abc import Callable


def together(count: int, work: Callable[[int], object]) -> None:
    """work(0), work(1), ..., each in a thread of its own, at the same time. Raises the first error
    of any."""
    errors: list[BaseException] = []

    def careful(k: int) -> None:
        try:
            work(k)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=careful, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
