"""The accounting of receipts as training takes it: on the host, and on the device that counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pcer.train.receipts import allowance, fold

if TYPE_CHECKING:
    from torch import Tensor


class RenyiAccounts:
    """The accounting of receipts as training takes it: it travels to where models are trained."""

    fold = staticmethod(fold)
    allowance = staticmethod(allowance)

    @staticmethod
    def fold_there(
        steps_per_bin: Tensor, *, noise_multiplier: float, sampling_rate: float, dp_delta: float
    ) -> Tensor:
        """``fold`` on the device where the counts lie."""
        from pcer.train.device_receipts import fold_there

        return fold_there(
            steps_per_bin,
            noise_multiplier=noise_multiplier,
            sampling_rate=sampling_rate,
            dp_delta=dp_delta,
        )
