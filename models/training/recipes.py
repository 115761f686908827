"""Default configurations; a decoder's is exact in its window in under a minute on two cores."""

from __future__ import annotations

from dataclasses import replace

from models.config import Counting, ModelConfig, TrainConfig
from models.languages import LANGUAGES

SHAPE = ModelConfig(d_mlp=128, act_fn="relu", bias=False)
NEXT_SYMBOLS = TrainConfig("", spread="log", model=SHAPE)
VERDICT = TrainConfig("", max_n=20, objective="verdict", steps=600, batch_size=128, model=SHAPE)

PLAIN: dict[str, TrainConfig] = {
    "an": replace(NEXT_SYMBOLS, steps=200),
    "anbn": replace(NEXT_SYMBOLS, steps=800, learning_rate=3e-3),
    "anbncn": replace(NEXT_SYMBOLS, steps=1000, batch_size=48),
    "dieren": VERDICT,
    "dieren_muis": VERDICT,
}

FINE = replace(SHAPE, eps=1e-12)
AVERAGES = replace(FINE, counting=Counting(averaging_heads=2, head_norm=True, centred=True))
COUNTS = replace(FINE, counting=Counting(averaging_heads=3, counters=True))
COUNTING: dict[str, TrainConfig] = {
    "anbn": TrainConfig("", steps=1200, learning_rate=1e-3, model=AVERAGES),
    "anbncn": TrainConfig("", steps=1200, batch_size=48, model=COUNTS),
}
"""In the even average of symbols that sum to zero equal counts cancel, and the head's norm keeps
what is left from shrinking with the length. Of three symbols it is two that have to cancel first,
which steps alone make exact. What each part does: `lab sweep counting` and `lab sweep counters`."""


def recipe(language: str, asked: ModelConfig = SHAPE, plain: bool = False) -> TrainConfig:
    """The default configuration of a registered language, or of a corpus by its own name.

    Args:
        asked: whose architecture, mask and number of heads the defaults are for. A rival has about
            as many weights as the plain Transformer; an encoder recognises whole words, needs
            positions, and as many steps as one verdict a word takes to teach them.
        plain: whether nothing is built in for counting, as where kinds of models are compared. So
            it is for rivals, encoders, and a single head, which must learn where to look.
    """
    base = NEXT_SYMBOLS if language in LANGUAGES else VERDICT
    base = replace(PLAIN.get(language, base), language=language)
    if not asked.family.attends:
        return replace(base, model=ModelConfig(architecture=asked.architecture, act_fn="relu"))
    if asked.sees_ahead:
        encoder = replace(SHAPE, mask="bidirectional", positions="learned")
        return replace(base, objective="verdict", steps=3000, model=encoder)
    if language in COUNTING and asked.n_heads > 1 and not plain:
        base = replace(COUNTING[language], language=language)
        counting = base.model.counting
        averaging = counting.averaging_heads * asked.n_heads // base.model.n_heads
        counting = replace(counting, averaging_heads=averaging)
        sizes = {name: getattr(asked, name) for name in ("n_heads", "d_model", "head_width")}
        return replace(base, model=replace(base.model, counting=counting, **sizes))
    return base
