"""What a text loses is warned of once, by whom it concerns."""

from __future__ import annotations

import warnings
from threading import Thread

import pytest

from cutaway.text import TextLossWarning, losses_known
from cutaway.text.lost_text import warn_of_loss


def test_known_losses_are_not_warned_of_in_this_thread_only() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with losses_known():
            warn_of_loss("x", 1)
            raised: list[Warning] = []

            def elsewhere() -> None:
                try:
                    warn_of_loss("y", 1)
                except TextLossWarning as warning:
                    raised.append(warning)

            thread = Thread(target=elsewhere)
            thread.start()
            thread.join()
        assert [str(warning) for warning in raised] == ["y"]
        with pytest.raises(TextLossWarning, match="z"):
            warn_of_loss("z", 1)
