"""Gradient methods: gradient x input, SmoothGrad, integrated gradients and DeepLift.

All of them explain one number, a metric of the logits, by the embeddings of the word's symbols. A
symbol's value is the sum over its embedding, in the metric's unit; positive means that the symbol
raises the metric. BOS is not explained. Integrated gradients and DeepLift compare the word with
baselines, in which every symbol is replaced, and average over the baselines.

captum computes all but integrated gradients, which here put more points where the metric rises. It
takes half a second to import, so it is imported where it is used.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from interp.causal.metrics import Metric
from interp.model import HookedModel

EMBEDDING = "hook_embed"
POINTS, PARTS = 8, 3
"""A line is cut into so many parts at first. Each has so many points, at which integrated gradients
take the gradient (Gauss-Legendre quadrature)."""
MOST_STEPS = 384
"""Points on a line at most, unless another bound is asked for."""
ENOUGH = 0.01
"""The share of the gain by which integrated gradients may miss their sum."""
TOGETHER = 256
"""Parts that are computed at once."""


class FromEmbeddings(nn.Module):
    """The metric as a function of the embeddings at ``hook_embed``; all words have one length.

    It is a module because DeepLift looks for the activation functions in it.
    """

    def __init__(self, model: HookedModel, metric: Metric) -> None:
        super().__init__()
        self.model, self.metric = model, metric

    def apply(self, fn: Callable[[nn.Module], None]) -> FromEmbeddings:
        """Calls fn once for each module: in a bridge some have two parents, and captum would set
        its hooks twice."""
        for module in self.modules():
            fn(module)
        return self

    def of(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        """The embeddings of words, given as token ids with BOS."""
        with torch.no_grad():
            _, cache = self.model.run_with_cache(tokens, names_filter=[EMBEDDING])
        embeddings: Tensor = cache[EMBEDDING]
        return embeddings

    def forward(self, embeddings: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, " batch"]:
        tokens = torch.zeros(embeddings.shape[:2], dtype=torch.long, device=embeddings.device)
        hooked = [(EMBEDDING, lambda x, hook: embeddings)]
        value: Tensor = self.metric(self.model.run_with_hooks(tokens, fwd_hooks=hooked))
        return value


def _by_symbol(values: Float[Tensor, "batch pos d_model"]) -> Float[np.ndarray, " time"]:
    """Summed over the embedding, the mean over the batch, without BOS."""
    return values.detach().sum(dim=-1).mean(dim=0)[1:].double().cpu().numpy()


def gradient_x_input(
    model: HookedModel, word: Int[Tensor, " pos"], metric: Metric
) -> Float[np.ndarray, " time"]:
    """The gradient at the word times the word's embeddings (Shrikumar et al. 2016).

    Args:
        word: token ids with BOS.
        metric: the metric that is explained.

    Returns:
        One value per symbol, without BOS, in the metric's unit.
    """
    from captum.attr import InputXGradient

    f = FromEmbeddings(model, metric)
    return _by_symbol(InputXGradient(f).attribute(f.of(word[None]).requires_grad_()))


def smoothgrad(
    model: HookedModel,
    word: Int[Tensor, " pos"],
    metric: Metric,
    seed: int = 0,
    samples: int = 24,
    noise: float = 0.15,
) -> Float[np.ndarray, " time"]:
    """Gradient x input, with the mean gradient of noisy copies of the word (Smilkov et al. 2017).

    Args:
        word: token ids with BOS.
        metric: the metric that is explained.
        seed: seed of the noise.
        samples: noisy copies.
        noise: the standard deviation of the noise, as a share of the range of the embeddings.

    Returns:
        One value per symbol, without BOS, in the metric's unit.
    """
    from captum.attr import Saliency

    f = FromEmbeddings(model, metric)
    x = f.of(word[None])
    # captum's NoiseTunnel draws from the global state of the device, and would multiply each
    # gradient by its noisy copy. So the noise is drawn here, on the CPU: one seed, one answer.
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn((samples, *x.shape[1:]), generator=generator, dtype=x.dtype).to(x.device)
    noisy = x + drawn * noise * (x.max() - x.min())
    gradient = Saliency(f).attribute(noisy.requires_grad_(), abs=False)
    return _by_symbol(gradient.mean(dim=0, keepdim=True) * x)


def integrated_gradients(
    model: HookedModel,
    word: Int[Tensor, " pos"],
    baselines: Int[Tensor, "draws pos"],
    metrics: Sequence[Metric],
    steps: int = MOST_STEPS,
) -> Float[np.ndarray, "metric time"]:
    """The mean gradient on the line from each baseline to the word, times their difference.

    The values sum to the ``gain`` (Sundararajan et al. 2017), up to the error of the quadrature. On
    every part of a line the sum is known too: the difference of the metric at its ends. A part that
    misses it is cut in two, until the lines of a metric together miss at most ``ENOUGH`` of its
    gain, or have no steps left. Parts of all lines go through the model together.

    Args:
        word: token ids with BOS.
        baselines: the word with every symbol replaced, one row per replacement, with BOS.
        metrics: the metrics that are explained, each on lines of its own.
        steps: the largest number of points on each line; at least the ``POINTS * PARTS`` of the
            beginning are taken.

    Returns:
        For each metric one value per symbol, without BOS, in its unit: the mean over the baselines.
    """
    f = FromEmbeddings(model, metrics[0])
    x, start = f.of(word[None])[0], f.of(baselines)
    draws, lines = len(start), len(start) * len(metrics)
    gains = [abs(gain(model, word, baselines, metric)) for metric in metrics]
    allowed = ENOUGH * np.repeat(gains, draws)
    line = np.repeat(np.arange(lines), PARTS)
    ends = np.linspace(0, 1, PARTS + 1)
    low, high = np.tile(ends[:-1], lines), np.tile(ends[1:], lines)
    parts, used = np.full(lines, PARTS), np.full(lines, PARTS * POINTS)
    total = torch.zeros((len(metrics), *x.shape), dtype=x.dtype, device=x.device)
    while line.size:
        answers = [
            _quadrature(
                model, start[line[i] % draws], x, low[i], high[i], metrics, line[i] // draws
            )
            for i in np.split(np.arange(line.size), range(TOGETHER, line.size, TOGETHER))
        ]
        values, missed = (torch.cat(parts_of) for parts_of in zip(*answers, strict=True))
        rough = missed.abs().double().cpu().numpy() > (allowed / parts)[line]
        more = np.bincount(line[rough], minlength=lines)
        affordable = used + 2 * POINTS * more <= steps
        used, parts = used + 2 * POINTS * more * affordable, parts + more * affordable
        cut = rough & affordable[line]
        done = torch.as_tensor(np.flatnonzero(~cut), device=x.device)
        total.index_add_(0, torch.as_tensor((line // draws)[~cut], device=x.device), values[done])
        line, low, high = line[cut], low[cut], high[cut]
        middle = (low + high) / 2
        line = np.concatenate([line, line])
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
    return np.stack([_by_symbol(values[None] / draws) for values in total])


def _quadrature(
    model: HookedModel,
    start: Float[Tensor, "part pos d_model"],
    x: Float[Tensor, "pos d_model"],
    low: Float[np.ndarray, " part"],
    high: Float[np.ndarray, " part"],
    metrics: Sequence[Metric],
    which: Int[np.ndarray, " part"],
) -> tuple[Float[Tensor, "part pos d_model"], Float[Tensor, " part"]]:
    """The mean gradient on parts of the lines from ``start`` to x, times their length.

    Args:
        low, high: the ends of each part: 0 is the line's start, 1 is x.
        which: the number of each part's metric.

    Returns:
        The values of each part, and how far their sum misses the metric's difference of its ends.
    """
    nodes, weights = np.polynomial.legendre.leggauss(POINTS)
    share = np.concatenate([(nodes + 1) / 2, [0.0, 1.0]])  # the ends have no weight
    at = low[:, None] + (high - low)[:, None] * share
    shares, sizes, weight = (
        torch.as_tensor(numbers, dtype=x.dtype, device=x.device)
        for numbers in (at, high - low, [*weights / 2, 0.0, 0.0])
    )
    way = x - start
    points = (start[:, None] + shares[..., None, None] * way[:, None]).flatten(0, 1)
    chosen = torch.as_tensor(np.repeat(which, len(share)), device=x.device)[None]

    def metric(logits: Float[Tensor, "batch pos d_vocab"]) -> Float[Tensor, " batch"]:
        return torch.stack([one(logits) for one in metrics]).gather(0, chosen)[0]

    with torch.enable_grad():
        values = FromEmbeddings(model, metric)(points.requires_grad_())
        (slopes,) = torch.autograd.grad(values.sum(), points)
    slopes, values = slopes.unflatten(0, at.shape), values.detach().unflatten(0, at.shape)
    value = torch.einsum("abpd,b->apd", slopes, weight) * way * sizes[:, None, None]
    return value, value.sum(dim=(1, 2)) - (values[:, -1] - values[:, -2])


def deeplift(
    model: HookedModel,
    word: Int[Tensor, " pos"],
    baselines: Int[Tensor, "draws pos"],
    metric: Metric,
) -> Float[np.ndarray, " time"]:
    """DeepLift's rescale rule by captum (Shrikumar et al. 2017; Ancona et al. 2018).

    The activation functions of MLPs follow the rule. captum has no rule for attention and norms,
    which pass a plain gradient. So the values do not sum exactly to the metric of the word minus
    its mean over the baselines, their ``gain``.

    Args:
        word: token ids with BOS.
        baselines: the word with every symbol replaced, one row per replacement, with BOS.
        metric: the metric that is explained.

    Returns:
        One value per symbol, without BOS, in the metric's unit: the mean over the baselines.

    Raises:
        ValueError: the model computes its MLPs without modules for their activation functions,
            which the rule needs.
    """
    from captum.attr import DeepLift
    from captum.attr._core.deep_lift import SUPPORTED_NON_LINEAR, nonlinear

    f = FromEmbeddings(model, metric)
    # captum knows none of these, and would silently pass their plain gradient.
    kinds = {type(module) for module in f.modules() if _acts(module)}
    SUPPORTED_NON_LINEAR.update(dict.fromkeys(kinds, nonlinear))
    if "blocks.0.hook_mlp_out" in model.hook_dict:
        _require_activation_modules(f, word)
    x, start = f.of(word[None]), f.of(baselines)
    with warnings.catch_warnings(), torch.enable_grad():
        warnings.simplefilter("ignore", UserWarning)  # captum warns that it sets hooks
        values = DeepLift(f).attribute(x.expand_as(start).clone().requires_grad_(), start)
    return _by_symbol(values)


def _acts(module: nn.Module) -> bool:
    """Is it an activation function, of ours or of a ``transformers`` model?"""
    elementwise = isinstance(module, nn.GELU | nn.SiLU | nn.ReLU)
    return elementwise or type(module).__module__ == "transformers.activations"


@torch.no_grad()
def _require_activation_modules(f: FromEmbeddings, word: Int[Tensor, " pos"]) -> None:
    called: list[int] = []
    with ExitStack() as hooks:
        for module in filter(_acts, f.modules()):
            hooks.callback(module.register_forward_hook(lambda *_: called.append(1)).remove)
        f(f.of(word[None]))
    if len(called) < f.model.cfg.n_layers:
        raise ValueError(
            f"{type(f.model).__name__} computes the activation functions of its MLPs without "
            "modules, which DeepLift needs: use integrated gradients, or a bridge without "
            "compatibility mode"
        )


@torch.no_grad()
def gain(
    model: HookedModel,
    word: Int[Tensor, " pos"],
    baselines: Int[Tensor, "draws pos"],
    metric: Metric,
) -> float:
    """The metric of the word minus its mean over the baselines, in its unit."""
    return float(metric(model(word[None]))[0] - metric(model(baselines)).mean())
