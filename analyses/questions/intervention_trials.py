"""What interventions need of a run: words and sites, and what is right according to its language.

The trials themselves are ``interp.probing.erasure_trials``, ``interp.probing.steering_trials`` and
``interp.causal.interchange``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from analyses.questions.last_blocks import LastBlocks, states_of_others
from analyses.questions.probing import site_hooks, targets
from analyses.words import ANALYSIS_SEED, WordTensors, sample_window
from interp.causal import interchange as das
from interp.model import HookedModel, activations
from interp.probing.erasure_trials import Right, erasure_trials
from interp.probing.steering import direction
from interp.probing.steering_trials import SteeringTrials
from models.base import LanguageModel
from models.languages import END_ID, Language, Sample, Vocabulary, Word
from models.languages.counting import CountingLanguage
from models.runs.run import Run
from models.training.evaluation import verdicts

ANSWERS = ("valid", "accepting")
"""Variables that are not part of the state that a reader must keep, but the answer itself."""
FURTHEST = 5  # the largest k that a counter is moved by
RANDOM = {
    "added": "random direction",
    "added in proportion": "random direction in proportion",
}
"""The control of each way to move a counter."""
LONGEST = 40  # symbols of a prefix: every training step of a direction runs a batch of prefixes
HELD_OUT = 256  # pairs that score an exchanged direction


def stream_hooks(model: HookedModel) -> dict[str, str]:
    """The hooks of the residual stream and of an LSTM's cells, by label: all that is passed on."""
    names = ("embed", "resid_mid", "resid_post", "cell")
    return {label: hook for label, hook in site_hooks(model).items() if label.split()[-1] in names}


def main_variables(language: Language) -> list[str]:
    """The hidden variables that a reader must keep, the one that says most first."""
    names = [name for name in language.variables if name not in ANSWERS]
    counts = [name for name in names if language.variables[name] == "count"]
    return sorted(names, key=lambda name: ("-" not in name, name not in counts))


def stream_before(model: LanguageModel) -> dict[str, str]:
    """The sites of the stream without the last one, from which the logits are read off.

    The output of a block is reached by the hook on the input of the next block. A recurrent network
    calls the hooks of its states once at every position, but TransformerLens wants a single call.
    """
    last = model.cfg.n_layers - 1
    hooks = {label: hook for label, hook in stream_hooks(model).items() if "cell" not in label}
    del hooks[f"L{last} resid_post"]
    for layer in range(last):
        hooks[f"L{layer} resid_post"] = f"blocks.{layer + 1}.hook_resid_pre"
    return hooks


# -- erasure ---------------------------------------------------------------------------------------


def asked_words(run: Run, count: int, seed: int) -> Sample:
    """The words to get right: members where every position is taught, else members and others."""
    rng = np.random.default_rng([ANALYSIS_SEED, seed, 1])  # other words than those that fit erasers
    language = run.language
    lengths = language.lengths(run.config.max_n)
    label = None if run.objective.verdict_alone else True
    return language.sample(rng, count, lengths, label, split="test")


def judge(run: Run, model: LanguageModel, sample: Sample) -> Right:
    """A function that takes hooks and says which words are right with them: whether all their next
    symbols are, or their verdict."""
    objective = run.objective
    batch = objective.batch(run.language, sample.words, model.config.readout, model.device)

    @torch.no_grad()
    def right(*hooks: tuple[str, Callable[..., Tensor]]) -> Float[np.ndarray, " batch"]:
        logits = model.run_with_hooks(batch.tokens, fwd_hooks=list(hooks))
        if objective.verdict_alone:
            found = verdicts(objective, model, logits, sample.words) == sample.labels
        else:
            found = objective.exact(logits, batch)
        return found.astype(float)

    return right


def erasure(
    run: Run,
    model: LanguageModel,
    words: int,
    seed: int,
    progress: Callable[[str], None],
) -> pd.DataFrame:
    """The rows of the experiment "erasure" in ``analyses.questions.interventions``.

    One half of some fresh words of the window fits erasers and probes, the other half scores the
    probes. The words that the model should get right are different ones.
    """
    sample = sample_window(run, words, seed)
    known = targets(run.language, sample.words)
    labels = {hook: site for site, hook in stream_hooks(model).items()}
    table = erasure_trials(
        activations(model, WordTensors.of(sample.words).tokens, list(labels)),
        {name: known[name] for name in main_variables(run.language)},
        np.arange(words) % 2 == 0,
        judge(run, model, asked_words(run, words // 2, seed)),
        seed,
        lambda hook: progress(labels[hook]),
    )
    return table.assign(site=table["site"].map(labels)) if len(table) else table


# -- steering --------------------------------------------------------------------------------------


def steering_refusal(run: Run) -> str | None:
    """Why no counter can be moved; None where one can be moved."""
    language = run.language
    if not isinstance(language, CountingLanguage) or language.blocks < 2:
        return f"{language.name} has no two blocks whose difference could be moved"
    if run.config.model.sees_ahead:
        return f"{run.name} is an encoder: it sees the whole word at once, so no end can move"
    if reach(run) < 1:
        return f"the training window ends at n = {run.config.max_n}: too early to move an end"
    return None


def reach(run: Run) -> int:
    """The largest k such that an end moved by k, up or down, stays in the training window."""
    return min(FURTHEST, (run.config.max_n - 1) // 2)


def steering(
    run: Run, model: LanguageModel, progress: Callable[[str], None] = lambda site: None
) -> pd.DataFrame:
    """The rows of the experiment "steering" in ``analyses.questions.interventions``."""
    language = run.language
    assert isinstance(language, CountingLanguage)
    furthest = reach(run)
    ks = np.array([k for k in range(-furthest, furthest + 1) if k])
    sizes = np.arange(furthest + 1, run.config.max_n - furthest + 1)
    words = LastBlocks.of(language, sizes, 2 * furthest)
    members = LastBlocks.of(language, np.arange(1, run.config.max_n + 1), 0)
    # The states of these words stand in for moved ones.
    others = LastBlocks.of(language, members.n, 4 * furthest)
    sites = stream_hooks(model)
    seen = activations(model, members.tokens, list(sites.values()))
    states = activations(model, others.tokens, list(sites.values()))
    # A recurrent network goes on from a moved state: there the counter is moved once.
    recurrent = run.config.model.family.recurrent
    first = torch.arange(words.tokens.shape[1]) == words.start[:, None]
    at = first if recurrent else words.last
    k = torch.as_tensor(ks).repeat_interleave(len(sizes))[:, None]
    amount = (k * at.repeat(len(ks), 1)).double()
    length = torch.arange(1, words.tokens.shape[1] + 1)  # of the word with BOS, at each position
    trials = SteeringTrials(ks, ends_under(model, words, len(ks)))
    tables = []
    for site, hook in sites.items():
        progress(site)
        x, d = seen[hook][members.last], members.difference[members.last]
        position = torch.arange(members.last.shape[1]).expand_as(members.last)[members.last]
        ways = {"added": (direction(x, d), amount)}
        if not recurrent:
            ways["added in proportion"] = (direction(x, d / (position + 1)), amount / length)
        for method, (way, scale) in ways.items():
            names = {"steered": method, "random direction": RANDOM[method]}
            table = trials.along(hook, way, scale)
            tables.append(table.assign(method=table["method"].map(names), site=site))
        instead = trials.by(hook, states_of_others(words, others, states[hook], k[:, 0], at))
        tables.append(instead.assign(method="state of another word", site=site))
    variable = "-".join(language.vocabulary.symbols[-2:])
    return pd.concat(tables, ignore_index=True).assign(variable=variable)


def ends_under(
    model: LanguageModel, words: LastBlocks, copies: int
) -> Callable[..., Float[np.ndarray, "k batch"]]:
    """A function from hooks to where each copy of the words ends."""
    tokens = words.tokens.repeat(copies, 1)

    @torch.no_grad()
    def ends(*hooks: tuple[str, Callable[..., Tensor]]) -> Float[np.ndarray, "k batch"]:
        return words.ends(model.run_with_hooks(tokens, fwd_hooks=list(hooks)))

    return ends


# -- interchange -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prefixes:
    """Different prefixes of words.

    Attributes:
        words: the prefixes. None violates the language: after that no variable has a meaning.
        values: the values of the main variables after each prefix.
        ends: may the word end after this prefix?
    """

    words: list[Word]
    values: dict[str, Int[np.ndarray, " prefix"]]
    ends: Bool[np.ndarray, " prefix"]

    @classmethod
    def of(cls, run: Run, seed: int) -> Prefixes:
        """Prefixes of fresh words of the window; in a counting language, those that reach the last
        block."""
        language = run.language
        words = sample_window(run, 400, seed).words
        traced, allowed = language.trace(words), language.allowed(words)
        position = np.arange(words.tokens.shape[1])
        kept = (position > 0) & (position <= np.minimum(words.lengths, LONGEST)[:, None])
        kept &= traced["valid"] == 1
        if isinstance(language, CountingLanguage):
            kept &= traced["block"] == language.blocks - 1
        places = {tuple(words.ids[w, :p].tolist()): (w, p) for w, p in np.argwhere(kept)}
        at = tuple(np.array(list(places.values())).reshape(-1, 2).T)
        values = {name: traced[name][at] for name in main_variables(language)}
        return cls(
            [language.vocabulary.decode(ids) for ids in places], values, allowed[*at, END_ID]
        )

    def variable(self) -> str | None:
        """The first variable that decides alone whether a word may end; None if there is none."""
        for name, value in self.values.items():
            if not set(value[self.ends]) & set(value[~self.ends]):
                return name if 1 < self.ends.sum() < len(self.ends) - 1 else None
        return None

    def halves(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Two halves with the same number of prefixes that may end (give or take one)."""
        order = np.random.default_rng([ANALYSIS_SEED, seed]).permutation(len(self.words))
        order = order[np.argsort(self.ends[order], kind="stable")]
        return order[::2], order[1::2]


def drawn_pairs(
    model: LanguageModel,
    vocabulary: Vocabulary,
    found: Prefixes,
    among: Int[np.ndarray, " some"],
    count: int,
    seed: int,
) -> das.Pairs:
    """Pairs of the prefixes ``among``, a base and a source. Each may end in half of the cases.

    The variable decides alone. So with the source's variable, the base should end where the source
    may.
    """
    rng = np.random.default_rng([ANALYSIS_SEED, seed])
    sides = [among[found.ends[among] == end] for end in (False, True)]
    ends = rng.integers(2, size=(2, count))
    drawn = np.where(ends, *(rng.choice(side, (2, count)) for side in sides[::-1]))
    words = vocabulary.words([found.words[i] for i in drawn.ravel()])
    base, source = torch.as_tensor(words.tokens).chunk(2)
    base_at, source_at = model.verdict_positions(torch.as_tensor(words.lengths)).chunk(2)
    return das.Pairs(base, source, base_at, source_at, torch.as_tensor(ends[1]))


def interchange(
    run: Run,
    models: Mapping[str, LanguageModel],
    pairs: int,
    seed: int,
    progress: Callable[[str], None] = lambda site: None,
) -> pd.DataFrame:
    """The rows of the experiment "interchange" in ``analyses.questions.interventions``.

    Empty where no single variable decides whether a word may end.
    """
    found = Prefixes.of(run, seed)
    variable = found.variable()
    if variable is None:
        return pd.DataFrame()
    answers, tables = das.allowed_or_not(END_ID), []
    for name, model in models.items():
        fit, test = (
            drawn_pairs(model, run.language.vocabulary, found, side, count, seed)
            for side, count in zip(found.halves(seed), (pairs, HELD_OUT), strict=True)
        )
        for site, hook in stream_before(model).items():
            progress(f"{site}, {name} model")
            table = das.interchange(model, hook, fit, test, answers, seed=seed)
            tables.append(table.assign(model=name, site=site, variable=variable))
    table = pd.concat(tables, ignore_index=True).assign(measure="as predicted")
    return table.rename(columns={"rank": "amount", "pairs": "words"})
