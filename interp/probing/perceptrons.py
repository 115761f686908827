"""Perceptrons of many sites fitted side by side, each as scikit-learn would fit it.

What a site's perceptron learns depends on that site's activations alone. The perceptrons are fitted
together, in batched products, in the same steps and from the same random draws. That takes a
fraction of the time of fitting one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor
from torch.nn.functional import one_hot

from interp.model import require_finite
from interp.probing.linear import Kind

HIDDEN = 64
EPOCHS = 20
BATCH = 200
LEARNING_RATE, BETA_1, BETA_2 = 5e-3, 0.9, 0.999
DECAY = 1e-4  # weight decay; it is divided by the size of the batch, as in scikit-learn


@dataclass(frozen=True)
class Perceptrons:
    """For each site a perceptron with one hidden layer of 64 ReLU units.

    Attributes:
        weights: W_1 [site, d, 64], b_1 [site, 1, 64], W_2 [site, 64, out], b_2 [site, 1, out].
        values: the values of a category; for a count, its mean and its standard deviation.
        kind: "count" or "category".
    """

    weights: tuple[Tensor, Tensor, Tensor, Tensor]
    values: Shaped[np.ndarray, " values"]
    kind: Kind

    @classmethod
    def fit(
        cls,
        z: Float[np.ndarray, "site n d"],
        y: Int[np.ndarray, " n"],
        kind: Kind,
        seed: int,
    ) -> Perceptrons:
        """Fits for 20 epochs of Adam, as ``MLPRegressor`` or ``MLPClassifier`` fits with this seed.

        A count is standardised first. A category of two values has one output; a category of more
        values has one output for each.

        Args:
            z: activations of every site, standardised.
            y: the variable's values, the same for all sites.
        """
        rng = np.random.RandomState(seed)  # as scikit-learn draws
        inputs = torch.as_tensor(z)
        require_finite(inputs, "the activations to read")
        if kind == "count":
            values = np.array([y.mean(), y.std()])
            aims = torch.as_tensor((y - values[0]) / values[1])[:, None]
        else:
            values, codes = np.unique(y, return_inverse=True)
            aims = torch.as_tensor(codes)[:, None]
            aims = aims if len(values) == 2 else one_hot(aims[:, 0], len(values))
        aims = aims.to(inputs.dtype)
        weights = []
        for fan_in, fan_out in pairwise([z.shape[2], HIDDEN, aims.shape[1]]):
            bound = np.sqrt(6 / (fan_in + fan_out))
            for rows in (fan_in, 1):
                drawn = torch.as_tensor(rng.uniform(-bound, bound, (rows, fan_out)))
                weights.append(drawn.to(inputs.dtype).repeat(len(z), 1, 1))
        made = cls((weights[0], weights[1], weights[2], weights[3]), values, kind)
        moments = [(w, torch.zeros_like(w), torch.zeros_like(w)) for w in weights]
        order, step = torch.arange(len(y)), 0
        for _ in range(EPOCHS):
            order = order[rng.permutation(len(y))]
            shuffled = inputs.index_select(1, order).split(BATCH, 1), aims[order].split(BATCH)
            for batch, aim in zip(*shuffled, strict=True):
                step += 1
                rate = LEARNING_RATE * (1 - BETA_2**step) ** 0.5 / (1 - BETA_1**step)
                for (w, mean, square), slope in zip(moments, made._slopes(batch, aim), strict=True):
                    mean.lerp_(slope, 1 - BETA_1)
                    square.lerp_(slope.square_(), 1 - BETA_2)
                    w.addcdiv_(mean, square.sqrt().add_(1e-8), value=-rate)
        return made

    def predict(self, z: Float[np.ndarray, "site n d"]) -> Shaped[np.ndarray, "site n"]:
        """The values that each site's perceptron reads at the site's standardised activations."""
        out = self._outputs(torch.as_tensor(z)).numpy()
        if self.kind == "count":
            mean, deviation = self.values
            return out[..., 0] * deviation + mean
        code = out.argmax(-1) if len(self.values) > 2 else (out[..., 0] > 0).astype(np.int64)
        return self.values[code]

    def _outputs(self, z: Float[Tensor, "site n d"]) -> Float[Tensor, "site n out"]:
        _, _, w_2, b_2 = self.weights
        return torch.baddbmm(b_2, self._hidden(z), w_2)

    def _hidden(self, z: Float[Tensor, "site n d"]) -> Float[Tensor, "site n 64"]:
        w_1, b_1, _, _ = self.weights
        return torch.baddbmm(b_1, z, w_1).relu_()

    def _slopes(
        self, z: Float[Tensor, "site n d"], aims: Float[Tensor, "n out"]
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The gradient of half the mean square error (count) or the mean cross-entropy (category).

        It has a part for each of ``weights``, weight decay included.
        """
        w_1, _, w_2, b_2 = self.weights
        hidden = self._hidden(z)
        out = torch.baddbmm(b_2, hidden, w_2)
        if self.kind == "category":
            out = out.sigmoid() if out.shape[2] == 1 else out.softmax(-1)
        error = (out - aims) / len(aims)
        back = torch.bmm(error, w_2.mT).mul_(hidden > 0)
        decay = DECAY / len(aims)
        return (
            torch.baddbmm(w_1, z.mT, back, beta=decay),
            back.sum(1, keepdim=True),
            torch.baddbmm(w_2, hidden.mT, error, beta=decay),
            error.sum(1, keepdim=True),
        )
