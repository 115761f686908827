"""Configurations to start from, by name; a decoder is exact in its window after about a minute.

"plain" is the Transformer of the lectures, and the default. "counting" has heads that count built
in, for the languages in which two or three counts have to agree.
"""

from __future__ import annotations

from dataclasses import replace

from models.choices import Counting
from models.config import TrainConfig
from models.errors import UserError, unknown
from models.languages import LANGUAGES
from models.languages import language as named
from models.model_config import ModelConfig

SHAPE = ModelConfig(d_mlp=128, act_fn="relu", bias=False)
NEXT_SYMBOLS = TrainConfig("", spread="log", model=SHAPE)
PAIRS = TrainConfig(
    "",
    objective="sequence-to-sequence",
    steps=3000,
    model=replace(SHAPE, positions="sinusoidal"),
)
IN_CONTEXT = replace(
    PAIRS,
    max_n=5,
    steps=8000,
    batch_size=128,
    learning_rate=3e-3,
    model=replace(SHAPE, positions="rotary", bias=True, even_start=False),
)
VERDICT = TrainConfig("", max_n=20, objective="verdict", steps=600, batch_size=128, model=SHAPE)

PLAIN: dict[str, TrainConfig] = {
    "an": replace(NEXT_SYMBOLS, steps=200),
    "anbn": replace(NEXT_SYMBOLS, steps=800, learning_rate=3e-3),
    "anbncn": replace(NEXT_SYMBOLS, steps=1000, batch_size=48),
    **dict.fromkeys(("dieren", "dieren-gaps", "dieren_muis"), VERDICT),
    **dict.fromkeys(("first-or-majority", "contains-or-even", "ends-or-even"), VERDICT),
    "halting": replace(VERDICT, max_n=3, steps=3000),
    **dict.fromkeys(("copy", "reverse", "sort"), replace(PAIRS, max_n=12)),
    **dict.fromkeys(("double", "parity-steps", "parity-answer"), PAIRS),
    "depths": replace(PAIRS, max_n=16),
    **dict.fromkeys(("in-context", "in-context-few"), IN_CONTEXT),
    "postfix": replace(PAIRS, max_n=25, steps=4000, batch_size=128),
    "parse": replace(PAIRS, max_n=45),
}

FINE = replace(SHAPE, eps=1e-12)
AVERAGES = replace(FINE, counting=Counting(averaging_heads=2, head_norm=True, centred=True))
COUNTS = replace(FINE, counting=Counting(averaging_heads=3, counters=True))
COUNTING: dict[str, TrainConfig] = {
    "anbn": TrainConfig("", steps=1200, learning_rate=1e-3, model=AVERAGES),
    "anbncn": TrainConfig("", steps=1200, batch_size=48, model=COUNTS),
}
"""In an even average of symbols that sum to zero, equal counts cancel, and the head's norm keeps
the remainder from shrinking with the length. With three symbols two of them have to cancel first,
and only steps make this exact. `lab sweep counting` and `lab sweep counters` show what each part
does."""


RECIPES: dict[str, dict[str, TrainConfig]] = {"plain": PLAIN, "counting": COUNTING}
"""The recipes by name, then by language. Every language has a plain one, listed here or not."""

ABOUT = {"plain": "nothing is built in for counting", "counting": "heads that count are built in"}
"""The meaning of a recipe, in a few words."""


def recipes_of(language: str) -> list[str]:
    """The names of a language's recipes."""
    return [name for name, recipes in RECIPES.items() if name == "plain" or language in recipes]


def recipe(
    language: str,
    model: ModelConfig = SHAPE,
    name: str = "plain",
    regex: str = "",
    symbols: str = "",
    grammar: str = "",
    pairs: bool = False,
) -> TrainConfig:
    """A configuration to start from, for a registered language, or for a corpus, a regular
    expression or a grammar by its own name.

    Args:
        model: the model that the recipe is for. Only its architecture and mask matter, and for
            "counting" also its heads and width. A rival gets about as many weights as the plain
            Transformer. An encoder gets learned positions, the objective "verdict", and 3000 steps:
            with one verdict a word it takes that long to learn positions. A feedforward network
            gets the objective "verdict" too.
            An encoder-decoder needs a language of pairs.
        name: the name of the recipe.
        regex: the expression, and its further ``symbols``.
        grammar: the productions.
        pairs: whether it is a corpus of pairs.

    Raises:
        UserError: the language has no such recipe, or the recipe is not for such a model.
    """
    if name not in recipes_of(language):
        names = ", ".join(recipes_of(language))
        raise UserError(f"{language or 'it'} has no recipe {name!r}: choose one of {names}")
    if name == "counting":
        return _counting(language, model)
    base = NEXT_SYMBOLS if language in LANGUAGES or regex or grammar else VERDICT
    base = PLAIN.get(language, base)
    if grammar:
        pairs = named(language, grammar=grammar).default_objective == PAIRS.objective
    if pairs or (model.family.two_sided and not language):
        base = PAIRS
    base = replace(base, language=language, regex=regex, symbols=symbols, grammar=grammar)
    if model.family.two_sided and base.objective != PAIRS.objective:
        raise UserError(
            f"{language} has no pairs, and an encoder-decoder is taught their targets: choose a "
            f"language of pairs such as copy, or another architecture than {model.architecture}"
        )
    if model.family.two_sided and model.family.attends:
        return replace(base, model=replace(base.model, architecture=model.architecture))
    if model.family.whole:
        base = replace(base, objective="verdict", steps=3000)
    if not model.family.attends:
        return replace(base, model=ModelConfig(architecture=model.architecture, act_fn="relu"))
    if model.sees_ahead:
        encoder = replace(SHAPE, mask="bidirectional", positions="learned")
        return replace(base, objective="verdict", steps=3000, model=encoder)
    return base


def recipe_or_plain(language: str, name: str) -> TrainConfig:
    """The recipe of this name where the language has one, else its plain one.

    Raises:
        UserError: no language has a recipe of this name.
    """
    if name not in RECIPES:
        raise unknown("recipe", name, RECIPES)
    return recipe(language, name=name if name in recipes_of(language) else "plain")


def _counting(language: str, model: ModelConfig) -> TrainConfig:
    """The recipe "counting", with the same share of averaging heads for any number of heads.

    At least one head learns where to look.
    """
    if not model.family.attends or model.sees_ahead or model.n_heads < 2:
        raise UserError(
            "the recipe 'counting' is for a causal Transformer of two heads or more: "
            "ask for one, or choose the recipe 'plain'"
        )
    base = replace(COUNTING[language], language=language, recipe="counting")
    counting = base.model.counting
    averaging = counting.averaging_heads * model.n_heads // base.model.n_heads
    counting = replace(counting, averaging_heads=averaging)
    sizes = {name: getattr(model, name) for name in ("n_heads", "d_model", "head_width")}
    return replace(base, model=replace(base.model, counting=counting, **sizes))
