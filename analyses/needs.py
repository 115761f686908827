"""Needs of questions: conditions on a run, and the message for a run that lacks one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from models.errors import UserError, lab
from models.languages import (
    AmbiguousLanguage,
    ContextFreeLanguage,
    FormalLanguage,
    PairCorpus,
    Transduction,
    UnlabelledCorpus,
)
from models.languages.pairs.in_context import InContext
from models.languages.pairs.steps import ParitySteps
from models.plants.record import read_plan
from models.runs.run import Run

Need = Literal[
    "verdict", "others", "next symbols", "whole words", "causal", "one side", "heads", "residual",
    "sum", "stream", "states", "gradients", "language", "symbols", "variables", "known states",
    "trees", "some tree", "pairs", "targets", "alignment", "prompts", "steps", "two rules",
    "classes", "lines",
]  # fmt: skip


@dataclass(frozen=True)
class _Condition:
    """Something that a run has or lacks.

    Attributes:
        holds: whether a run has it.
        words: the message for a run that lacks it, with the cure; in braces "run" and its
            "language" by name, what it was "taught", its "config", and why it is "unjudged".
    """

    holds: Callable[[Run], bool]
    words: str

    def lack(self, run: Run) -> str:
        """The message for this run."""
        return self.words.format(
            run=run.name,
            language=run.language.name,
            taught=run.objective.taught,
            config=run.config.model,
            unjudged=_unjudged(run),
        )


def _unjudged(run: Run) -> str:
    """The reason why nothing says whether a word is right, with the cure."""
    if not run.language.knows_others:
        return (
            "learned lines without labels, and which other lines are right is not known: ask "
            "perplexity"
        )
    return (
        f"was taught {run.objective.taught}, and says at no single place whether a word is in it: "
        f"fine-tune it, `{lab('finetune', run.path, objective='verdict')}`, or ask probing"
    )


def lack(run: Run, needs: Iterable[Need]) -> str | None:
    """The first of these needs that a run lacks, in one line; None if it has them all."""
    return next((NEEDS[need].lack(run) for need in needs if not NEEDS[need].holds(run)), None)


def require(run: Run, *needs: Need) -> None:
    """Raises UserError for a run that lacks one of these needs."""
    if reason := lack(run, needs):
        raise UserError(reason)


NEEDS: Mapping[Need, _Condition] = {
    "verdict": _Condition(
        lambda run: not (run.objective.hides or run.objective.tags) and run.language.knows_others,
        "{run} {unjudged}",
    ),
    "others": _Condition(lambda run: run.language.knows_others, "{run} {unjudged}"),
    "next symbols": _Condition(
        lambda run: not run.objective.verdict_alone,
        "{run} was taught verdicts alone, and knows no next symbol: ask one that was taught them "
        "(--objective language-model or next-symbols)",
    ),
    "whole words": _Condition(
        lambda run: not run.objective.of_pairs,
        "{run} was taught {taught}, and says nothing of the rest of a word: ask accuracy, or "
        "targets of a causal network",
    ),
    "causal": _Condition(
        lambda run: not run.config.model.sees_ahead,
        "{run} sees both sides of a place: ask a causal network",
    ),
    "targets": _Condition(
        lambda run: run.objective.tags or not run.config.model.sees_ahead,
        "{run} sees both sides of a place, and makes no targets: ask a causal network, or one that "
        "was taught tags",
    ),
    "one side": _Condition(
        lambda run: not run.config.model.family.two_sided,
        "{run} has two sides, and reads its source as a whole: ask patching or alignment",
    ),
    "heads": _Condition(
        lambda run: run.config.model.family.attends,
        "{run} has no attention heads: it is of architecture {config.architecture}",
    ),
    "residual": _Condition(
        lambda run: run.config.model.residual,
        "{run} has no residual stream that its parts write to: ask patching",
    ),
    "sum": _Condition(
        lambda run: run.config.model.norm_placement == "pre" or run.config.model.norm == "none",
        "{run} has {config.norm_placement}-norm blocks: a circuit of edges needs a stream that is "
        "the sum of what the parts wrote, as pre-norm leaves it",
    ),
    "stream": _Condition(
        lambda run: any(row.name.endswith("hook_resid_post") for row in run.config.model.hook_rows),
        "{run} has no residual stream: ask a Transformer",
    ),
    "states": _Condition(
        lambda run: not (run.config.model.family.tabular or run.config.model.family.whole),
        "{run} has no activations at every symbol of a word: ask a network that reads symbol by "
        "symbol",
    ),
    "gradients": _Condition(
        lambda run: not run.config.model.family.tabular,
        "{run} learns by counting, not by gradient: ask a network",
    ),
    "language": _Condition(
        lambda run: isinstance(run.language, FormalLanguage),
        "{run} learned lines, and nobody knows how likely which other line is, or what may follow "
        "a part of one: ask a run on a language",
    ),
    "symbols": _Condition(
        lambda run: isinstance(run.language, FormalLanguage | UnlabelledCorpus),
        "{run} learned labels or targets of lines, and not how lines go on: train on them with "
        "--objective language-model",
    ),
    "variables": _Condition(
        lambda run: bool(run.language.variables),
        "nothing is known of the hidden state of {language}: no variable to change",
    ),
    "known states": _Condition(
        lambda run: (
            read_plan(run.path) is not None
            or (isinstance(run.language, FormalLanguage) and bool(run.language.main_variables))
        ),
        "nothing is known of the state of {language}: ask a run on a formal language, or a plant",
    ),
    "trees": _Condition(
        lambda run: isinstance(run.language, ContextFreeLanguage),
        "{language} has no trees: ask a run on a grammar, such as nested or linear",
    ),
    "some tree": _Condition(
        lambda run: (
            isinstance(run.language, ContextFreeLanguage)
            or (isinstance(run.language, UnlabelledCorpus) and bool(run.language.heads))
        ),
        "{language} has no trees: ask a run on a grammar, such as nested or linear, or on a "
        "treebank",
    ),
    "classes": _Condition(
        lambda run: (
            isinstance(run.language, ContextFreeLanguage)
            and bool(run.language.grammar.word_classes)
        ),
        "{language} has no classes of words: ask a run on a grammar in which nonterminals become "
        "single words, such as nested or linear",
    ),
    "pairs": _Condition(
        lambda run: isinstance(run.language, Transduction | PairCorpus),
        "{language} has no pairs of a source and a target: ask a run on copy, reverse, sort, "
        "double, depths, postfix, parse, or a grammar of pairs",
    ),
    "alignment": _Condition(
        lambda run: isinstance(run.language, Transduction),
        "{language} has no pairs of a source and a target whose alignment is known: ask a run on "
        "copy, reverse, sort, double, depths, postfix, parse, or a grammar of pairs",
    ),
    "prompts": _Condition(
        lambda run: isinstance(run.language, InContext),
        "the words of {language} are no prompts with examples of a rule: ask a run on in-context "
        "or in-context-few, such as `lab train in-context`",
    ),
    "steps": _Condition(
        lambda run: isinstance(run.language, ParitySteps),
        "{language} writes no steps: ask a run on parity-steps, such as `lab train parity-steps`",
    ),
    "two rules": _Condition(
        lambda run: isinstance(run.language, AmbiguousLanguage),
        "the training words of {language} fit one rule alone: ask a run on first-or-majority, "
        "contains-or-even or ends-or-even",
    ),
    "lines": _Condition(
        lambda run: run.config.lines > 0,
        "{run} was not trained on a pool of lines, so none can be left out: train on a formal "
        "language with --lines, for example --lines 300",
    ),
}
