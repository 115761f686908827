"""A training configuration: frozen, JSON-able, with the configuration of the model inside."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Interval
from tyro.conf import Positional, Suppress

from models.checks import AS_WRITTEN, MOST_SYMBOLS, check_fields
from models.choices import ABSOLUTE
from models.errors import UserError, first_fault
from models.languages import Spread
from models.languages.disfluencies import Disfluency
from models.languages.tokens import WORDS, merges_of
from models.model_config import ModelConfig
from models.objectives import OBJECTIVES, check_sight, objective

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Device = Literal["auto", "cpu", "cuda"]
Tuned = Literal["all", "last", "head", "lora", "subspace"]
Adapted = Literal["attention", "mlp", "both"]
MOST_SEED = 2**32 - 1
"""The largest seed that every source of random numbers takes."""

MOST_PAIRS = 2**27
"""The most pairs of symbols that a model compares at once: the number of words that it reads
together, times the square of their length."""

SELECTION_WORDS = 256
"""The number of words that choose the weights, of all lengths together."""


@dataclass(frozen=True)
class TrainConfig:
    """One training run; together with the version of the code it determines the weights.

    Attributes:
        language: the registry name, or the name that you give to a regular expression or a grammar.
            A corpus has that of its file.
        regex: a regular expression whose letters and digits are the symbols, such as "(a|b)*ab".
        symbols: symbols that the expression does not name.
        grammar: the productions of a context-free grammar, such as "S -> 'a' S 'b' | 'a' 'b'", or a
            file of them, or one of JFLAP.
        vocabulary: what its tokens are: "words", the symbols themselves; "characters", the letters
            of the symbols; or "bpe:16", letters and 16 merges of byte-pair encoding, learned on
            words of the language.
        rare: words of a corpus in fewer lines are read as <unk>, as later every unknown word is; 0
            refuses unknown words.
        recipe: the name of the configuration that this one started from: "plain", or "counting",
            with heads that count built in. It only chooses the defaults of the other fields.
        seed: decides the weights at the start and all training words.
        max_n: the training window holds sizes 1..max_n. A word's size is its length, or the length
            of one block in a counting language.
        spread: how often lengths of the window are drawn: "even" draws each equally often, "log"
            each order of magnitude equally often.
        objective: what is taught, by its name in ``models.objectives``: "next-symbols", the set of
            symbols that may come next at every position; "verdict", only whether the whole word is
            in the language; or "language-model", the one token that comes next in words of the
            language, by softmax and cross-entropy; "sequence-to-sequence", the same for the target
            of a pair alone, given its source; "masked", which symbols are hidden, given all others;
            "tags", the target of a pair as tags of the symbols of its source.
        steps: the longest training; the learning rate's schedule spans it.
        batch_size: words in a step.
        learning_rate: the peak; the rate rises for ``warmup`` steps and falls to zero in a cosine.
        max_offset: the absolute positions of a training word start at a random number from 0 to
            max_offset, so that positions beyond the window are trained too (Kiyono et al. 2021).
        warmup: steps in which the learning rate rises in a straight line.
        weight_decay: decoupled, as in AdamW.
        average: the decay of an exponential moving average of all weights, such as 0.99: each step
            it keeps this share of itself and takes the rest from the new weights. Evaluations and
            checkpoints hold the average; training goes on with the weights themselves. 0 is off.
        clip: the largest norm of the gradient; a longer gradient is scaled down to it.
        evaluate_every: steps between evaluations on the training window; the state to resume from
            is saved as often.
        threads: CPU threads of a step. Another number of threads changes the last bits of every
            sum, and so the weights; small models are no faster with more.
        patience: training stops after this many flawless evaluations in a row; 0 trains all steps.
        selection_window: the run ends with the weights of the evaluated step that was exact on the
            largest share of 256 words of sizes beyond ``max_n``, up to this many training windows,
            such as 1.5; of equal steps, the latest. What is found at these sizes is then no test.
            0 ends with the last step.
        lines: train on so many different words, drawn once; 0 draws fresh words at each step.
        disfluent: at so large a share of the symbols of training words the speaker stumbles; the
            label stays that of the word that was meant. Words for validation and tests are fluent.
        disfluency: what happens there: "fillers", a symbol that decides nothing comes before, or
            any symbol, if all decide; "repetitions", it is said twice; "restarts", it and the one
            or two before it are said again; "dropped"; "swapped" with the next; or one of "all".
        parent: the SHA-256 of the weights that a fine-tuning starts from; "" starts from random
            ones.
        tuned: what a fine-tuning changes: "all" weights, the "last" block and the unembedding, the
            "head", that is, the unembedding alone, "lora", low-rank additions to some linear maps,
            and the unembedding, or "subspace", all weights, along ``rank`` random directions.
        rank: of these additions, or the dimension of the subspace.
        adapted: the maps that get them: those of "attention" (queries, keys, values, output), of
            the "mlp", or "both".
        model: the parts and their sizes.
    """

    __pydantic_config__ = AS_WRITTEN

    language: Positional[str]
    regex: str = ""
    symbols: str = ""
    grammar: str = ""
    vocabulary: str = WORDS
    rare: Annotated[int, Interval(ge=0, le=10**7)] = 0
    recipe: str = "plain"
    seed: Annotated[int, Interval(ge=0, le=MOST_SEED)] = 0
    max_n: Annotated[int, Interval(ge=1, le=MOST_SYMBOLS)] = 25
    spread: Spread = "even"
    objective: str = "next-symbols"
    steps: Annotated[int, Interval(ge=1, le=10**9)] = 1000
    batch_size: Annotated[int, Interval(ge=1, le=2**20)] = 64
    learning_rate: Annotated[float, Interval(ge=1e-12, le=1e3)] = 2e-3
    max_offset: Annotated[int, Interval(ge=0, le=2**24)] = 0
    warmup: Annotated[int, Interval(ge=0, le=10**9)] = 50
    weight_decay: Annotated[float, Interval(ge=0, le=1e3)] = 0.0
    average: Annotated[float, Interval(ge=0, le=0.999999)] = 0.0
    clip: Annotated[float, Interval(ge=1e-12, le=1e12)] = 1.0
    evaluate_every: Annotated[int, Interval(ge=1, le=10**9)] = 50
    threads: Annotated[int, Interval(ge=1, le=256)] = 1
    patience: Annotated[int, Interval(ge=0, le=10**9)] = 0
    selection_window: Annotated[float, Interval(ge=0, le=1000)] = 0.0
    lines: Annotated[int, Interval(ge=0, le=10**7)] = 0
    disfluent: Annotated[float, Interval(ge=0, le=0.9)] = 0.0
    disfluency: Disfluency = "all"
    parent: Annotated[str, Suppress] = ""
    tuned: Tuned = "all"
    rank: Annotated[int, Interval(ge=1, le=2**16)] = 4
    adapted: Adapted = "attention"
    model: ModelConfig = field(default_factory=ModelConfig)

    def __post_init__(self) -> None:
        check_fields(self)
        merges_of(self.vocabulary)
        if self.tuned != "all" and not self.parent:
            raise UserError(
                f"tuned is {self.tuned}, but the training starts from random weights: fine-tune a "
                "run with `lab finetune RUN`, or leave it out"
            )
        maps = self.adapted != "mlp" or self.model.mlp != "none"
        if self.tuned == "lora" and not (self.model.family.attends and maps):
            raise UserError(
                f"the model has no linear maps to adapt ({self.adapted}): fine-tune a Transformer, "
                "or choose --tuned all, last or head"
            )
        if self.tuned == "subspace" and self.model.counting.centred:
            raise UserError(
                "centred embeddings leave a random subspace: choose another --tuned than subspace"
            )
        if self.average and (self.model.family.tabular or self.tuned in ("lora", "subspace")):
            raise UserError(
                "average is for models that learn all their weights by gradient: choose --average "
                "0, or another architecture than ngram, and another --tuned than lora or subspace"
            )
        if self.disfluent and (self.objective != "verdict" or self.vocabulary != WORDS):
            raise UserError(
                "a disfluent word keeps the label of what was meant, and nothing else is known of "
                "it: choose --disfluent 0, or --objective verdict and --vocabulary words"
            )
        if self.model.family.whole and not objective(self.objective).verdict_alone:
            raise UserError(
                f"a {self.model.architecture} network gives one verdict on a whole word, not "
                f"{self.objective}: choose --objective verdict"
            )
        check_sight(self.objective, self.model.sees_ahead)
        self._decide_output()
        if self.max_offset and self.model.positions not in ABSOLUTE:
            raise UserError(
                "max_offset shifts absolute positions, but the positions of this model are "
                f"{self.model.positions!r}: choose {' or '.join(ABSOLUTE)} positions, or leave "
                "max_offset out"
            )

    def _decide_output(self) -> None:
        output = OBJECTIVES[self.objective].output
        if self.model.family.two_sided and output != "conditional":
            raise UserError(
                f"an encoder-decoder is taught targets alone, not {self.objective}: choose "
                "--objective sequence-to-sequence and a language of pairs such as copy"
            )
        if self.model.output not in ("sigmoid", output):
            fit = [
                name for name, taught in OBJECTIVES.items() if taught.output == self.model.output
            ]
            raise UserError(
                f"the output {self.model.output} is that of {' and '.join(fit)}: leave "
                "--model.output out, and choose an --objective"
            )
        if self.model.output != output:
            object.__setattr__(self, "model", replace(self.model, output=output))

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TrainConfig:
        """The inverse of ``dataclasses.asdict``.

        Raises:
            UserError: a field is missing, unknown, or has a value that it cannot have.
        """
        from pydantic import ValidationError

        model = values.get("model")
        if isinstance(model, dict) and "counting" in model:
            try:
                return _read(json.dumps(values))
            except ValidationError as error:
                fault = first_fault(error)
        else:  # left out, they would be the defaults
            fault = "model.counting is missing" if isinstance(model, dict) else "model is no object"
        raise UserError(
            f"the configuration does not fit this version of the lab ({fault}): train the run again"
        )


@lru_cache(2048)
def _read(values: str) -> TrainConfig:
    """A configuration from JSON; its run and each of its checkpoints hold the same one."""
    return _adapter().validate_json(values)


@cache
def _adapter() -> TypeAdapter[TrainConfig]:
    """The checker of a configuration's types; imported late, because help needs no file."""
    from pydantic import TypeAdapter

    return TypeAdapter(TrainConfig)
