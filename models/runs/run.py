"""A run is one plain folder: configuration, metrics, checkpoints, results, figures.

    runs/anbn-s0/
      run.json                 configuration, status, versions, git commit
      metrics.jsonl            a line per evaluation
      corpus.tsv               the lines of a corpus run
      tokens.json              how words are cut, where symbols are not the tokens
      training.safetensors     the state to resume from
      checkpoints/step-000500/
      results/                 what was found out about it, as of ``analyses.answer_files``

A run can be copied from one machine and opened on another.
"""

from __future__ import annotations

import hashlib
import platform
import re
import subprocess
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from models.cards import card
from models.checks import MOST_SYMBOLS
from models.config import MOST_PAIRS, TrainConfig
from models.errors import UserError, lab, of_fields
from models.languages import FormalLanguage, Language
from models.languages.corpus import check_sides
from models.languages.tokens import WORDS, TokenisedLanguage
from models.objectives import OBJECTIVES, objective
from models.plain_files import folders_in, read_bytes
from models.runs.checkpoints import (
    CONFIG,
    WEIGHTS,
    checkpoint_files,
    folder_name,
    load_checkpoint,
    read_about,
)
from models.runs.files import as_json, make_folder, remove_folder, write_json
from models.runs.folders import RUN_FILE, run_folder
from models.runs.learnt import corpus_of, formal, selection_lengths, tokens_of
from models.runs.records import (
    Evaluation,
    RunRecord,
    config_of,
    read_record_lines,
    read_run,
)

if TYPE_CHECKING:  # whoever reads the files of a run alone waits for no PyTorch
    from models.base import LanguageModel
    from models.objectives.base import Objective

METRICS = "metrics.jsonl"
CORPUS, TOKENS, CHECKPOINTS = "corpus.tsv", "tokens.json", "checkpoints"
PATIENCE = 5
"""Seconds that git may take."""
PACKAGES = ("structure-lab", "torch", "transformer-lens", "numpy")


class Run:
    """A run folder, opened for reading; training also writes through it.

    Attributes:
        path: the folder.
        opened: the record as it was when the run was opened.
        config: the configuration of the training.
        seen_at: the step whose checkpoint is looked at; None is the last that there is.
    """

    def __init__(self, path: Path, seen_at: int | None = None) -> None:
        """Opens a run; a folder that holds a single run stands for that run.

        Args:
            seen_at: the run as it was at this step. ``model``, ``model_hash`` and all that is asked
                of the run are then about this checkpoint.

        Raises:
            UserError: there is no run, this version of the lab cannot read it, or it has no
                checkpoint of this step.
        """
        self.path = run_folder(path)
        self.opened = self.record
        self.config = config_of(self.path / RUN_FILE, self.opened)
        self.seen_at = seen_at
        if seen_at is not None:
            self._folder(seen_at)

    @classmethod
    def create(
        cls,
        path: Path,
        config: TrainConfig,
        corpus: Path | None = None,
        parent: Run | None = None,
        model: LanguageModel | None = None,
        beside: Mapping[str, bytes] | None = None,
    ) -> Run:
        """Makes a new folder with its record, at once.

        Args:
            parent: the run whose weights a fine-tuning starts from (``TrainConfig.parent``).
            model: a network that is not to be trained: the run is finished with it.
            beside: further files by their names.

        Raises:
            UserError: the folder exists or cannot be written, or the configuration cannot work.
        """
        from models.base import build
        from models.runs.parents import check_subspace, files_of

        cls.check_new(path)
        files = dict(beside or {})
        # Whatever cannot work is refused before anything is written.
        if corpus is not None:
            learnt = corpus_of(corpus, config)
            files[CORPUS] = corpus.read_bytes()
        else:
            learnt = formal(config)
        if isinstance(learnt, TokenisedLanguage):
            files[TOKENS] = tokens_of(learnt, config)
        if not learnt.positive_lengths(learnt.lengths(config.max_n)):
            raise UserError(f"{learnt.name} has no word so short: choose a larger --max-n")
        objective(config.objective).check(learnt, learnt.lengths(config.max_n))
        if corpus is not None:
            check_sides(learnt)
        check_subspace(build(config.model, learnt.vocabulary), config)
        if bool(config.parent) != (parent is not None):
            raise UserError("weights to start from are given with their run: `lab finetune RUN`")
        if parent is not None:
            checkpoint = parent.checkpoints / folder_name(parent.step)
            files |= files_of(parent.name, parent.config, checkpoint, config)
        window = learnt.lengths(config.max_n)[-1]
        selecting = max(selection_lengths(learnt, config), default=0)
        if window > MOST_SYMBOLS or window**2 * config.batch_size > MOST_PAIRS:
            fits = MOST_PAIRS // window**2
            smaller = f"a --batch-size of at most {fits}, or " if fits else ""
            raise UserError(
                f"{config.batch_size} words of up to {window} symbols are too many for one step, "
                f"and {MOST_SYMBOLS:,} symbols are the most in a word: choose {smaller}shorter "
                "words"
            )
        longest = max(window + config.max_offset, selecting)
        most = config.model.most_symbols
        if most is not None and longest > most:
            raise UserError(
                f"words reach position {longest} and the model reads up to {most}: choose a larger "
                "--model.n-ctx"
            )
        record: dict[str, Any] = {
            "name": path.name,
            "status": "training",
            "config": asdict(config),
            "versions": installed_versions(PACKAGES),
            "git_commit": git_commit(),
        }
        if model is not None:
            record |= {"status": "finished", "steps": 0, "seconds": 0.0}
            parts = checkpoint_files(model, config, 0)
            files |= {f"{CHECKPOINTS}/{folder_name(0)}/{name}": parts[name] for name in parts}
        for file, digest in ((CORPUS, "corpus_sha256"), (TOKENS, "tokens_sha256")):
            if file in files:
                record[digest] = hashlib.sha256(files[file]).hexdigest()
        files[RUN_FILE] = as_json(record)
        if not make_folder(path, files):  # another process was faster
            raise _exists(path)
        return cls(path)

    @staticmethod
    def check_new(path: Path) -> None:
        """Raises UserError where no run can be made: its folder exists, or no list would show
        it."""
        if path.name.startswith("."):
            raise UserError(
                f"a run named {path.name} would be in no list, as its name begins with a dot: "
                "rename the file of lines"
            )
        if path.exists():
            raise _exists(path)

    def __repr__(self) -> str:
        return f"Run({self.name!r})"

    def _repr_html_(self) -> str:
        """The HTML card that a notebook shows."""
        config, symbols = self.config, " ".join(self.language.vocabulary.symbols)
        rows: dict[str, object] = {
            "language": f"{config.language} ({self.language.chomsky}; {symbols})",
            "model": config.model.kind or "decoder",
            "taught": f"{config.objective}, {self.window}, seed {config.seed}",
            "status": self.record["status"],
        }
        if last := self.evaluation():
            rows["step"] = last["step"]
            rows["right verdicts"] = f"{last['recognition']:.1%} in the training window"
        return card(self.name, rows)

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def record(self) -> RunRecord:
        """run.json as it now stands: ``status`` is "training", "finished" or "diverged"."""
        cure = f"put back the file, or remove {self.path} and train the run again"
        return read_run(self.path / RUN_FILE, cure)

    def update(self, **changes: Any) -> None:
        """Changes entries of run.json."""
        write_json(self.path / RUN_FILE, {**self.record, **changes})

    @cached_property
    def language(self) -> Language:
        if self.corpus_bytes() is not None:
            return corpus_of(self.path / CORPUS, self.config, self.config.language)
        tokens = self.tokens_bytes()
        try:
            return formal(self.config, tokens, self.path / TOKENS)
        except UserError as error:
            if str(self.path) in str(error):  # of the file of its tokens
                raise
            raise UserError(f"{self.path / RUN_FILE}: {of_fields(error)}") from None

    @property
    def window(self) -> str:
        """The training window in words."""
        if isinstance(self.language, FormalLanguage):
            return f"sizes 1 to {self.config.max_n}"
        lengths = self.language.lengths(self.config.max_n)
        return f"lines of {lengths[0]} to {lengths[-1]} symbols"

    @property
    def objective(self) -> Objective:
        """The objective that the run is taught."""
        return objective(self.config.objective)

    def corpus_bytes(self) -> bytes | None:
        """The lines of a corpus run as its file holds them; None for a language.

        Raises:
            UserError: they cannot be read, or are not those that the run was made with.
        """
        return self._kept(CORPUS, self.opened.get("corpus_sha256"))

    def tokens_bytes(self) -> bytes | None:
        """The file of the tokeniser; None if the symbols are the tokens. Raises UserError as
        ``corpus_bytes``."""
        return self._kept(TOKENS, self.opened.get("tokens_sha256"))

    def _kept(self, name: str, made_with: str | None) -> bytes | None:
        path = self.path / name
        cure = f"put back the file, or remove {self.path} and train the run again"
        content = read_bytes(path, cure) if path.exists() else None
        if made_with is not None and content is None:
            raise UserError(f"{path} is missing: {cure}")
        if made_with is not None and hashlib.sha256(content or b"").hexdigest() != made_with:
            raise UserError(
                f"{path} is not the file that the run was made with (its hash differs): {cure}"
            )
        return content

    def metrics(self) -> list[Evaluation]:
        """All evaluations so far; a line that is still being written is left out."""
        path = self.path / METRICS
        if not path.exists():
            return []
        cure = "remove it (the run is whole without it, only its training curve is lost)"
        return read_record_lines(path, Evaluation, cure)

    def evaluation(self) -> Evaluation | None:
        """The latest evaluation, or that of the selected step; None before the first."""
        lines, chosen = self.metrics(), self.record.get("selected_step")
        return next((x for x in reversed(lines) if chosen in (None, x["step"])), None)

    # -- checkpoints ----------------------------------------------------------------------------

    @property
    def checkpoints(self) -> Path:
        return self.path / CHECKPOINTS

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, ascending."""
        names = folders_in(self.checkpoints)
        return sorted(int(n[5:]) for n in names if re.fullmatch("step-[0-9]{6,15}", n))

    def forget_checkpoints(self, after: int, but: Collection[int] = ()) -> None:
        """Removes the checkpoints of later steps, but for some.

        A training that was killed left them behind: it goes on from its saved state, and until it
        comes there again, they would be taken for the newest.
        """
        for step in self.steps():
            if step > after and step not in but:
                remove_folder(self.checkpoints / folder_name(step), (WEIGHTS, CONFIG))

    @property
    def step(self) -> int:
        """The step of the checkpoint that is looked at. Raises UserError where there is none."""
        return int(self._folder(None).name.removeprefix("step-"))

    def model(self, step: int | None = None) -> LanguageModel:
        """The model of a checkpoint, by default the one looked at, in evaluation mode on the CPU.

        Raises:
            UserError: the checkpoint is missing, truncated, altered, or from another run; or what
                it answers are no numbers.
        """
        return self.model_and_hash(step)[0]

    def model_and_hash(self, step: int | None = None) -> tuple[LanguageModel, str]:
        """The model of ``model``, with the SHA-256 of its weights."""
        import torch

        from models.base import all_finite

        folder = self._folder(step)
        model, digest = load_checkpoint(folder, self.config, self.language.vocabulary)
        word = self.language.vocabulary.words([self.language.example()])
        with torch.no_grad():
            lost = model(torch.as_tensor(word.tokens)).isnan().any()
        if lost or not all_finite(model):
            raise UserError(
                f"{folder} answers with no numbers: its training diverged, or its weights are "
                f"damaged; choose an earlier --step, or remove {self.path} and train again"
            )
        return model, digest

    def _folder(self, step: int | None) -> Path:
        steps, step = self.steps(), self.seen_at if step is None else step
        record = self.record
        if not steps:
            if record["status"] == "training":
                cure = f"wait, or `{lab('resume', self.path)}`"
                raise UserError(f"{self.path} has no checkpoint yet: {cure}")
            raise UserError(
                f"{self.path} has no checkpoint: put {self.checkpoints} back, or train again"
            )
        if step is None and record["status"] == "finished":  # with no other it was to end
            step = record.get("selected_step", record["steps"])
        if step is not None and step not in steps:
            raise UserError(
                f"{self.path} has no checkpoint at step {step}: put it back, or choose one "
                f"of {steps}"
            )
        return self.checkpoints / folder_name(steps[-1] if step is None else step)

    def model_hash(self) -> str:
        """SHA-256 of the weights that are looked at, without building the model.

        Raises:
            UserError: there is no checkpoint, it is of another run or step, or the lines of a
                corpus run or the tokeniser were changed: what was found out was about others.
        """
        self.corpus_bytes()
        self.tokens_bytes()
        return read_about(self._folder(None), self.config)["sha256"]

    def untrained(self) -> LanguageModel:
        """The control: the same architecture and seed before the first step."""
        from models.base import build

        model = build(self.config.model, self.language.vocabulary, self.config.seed)
        return model.eval()

    @property
    def results(self) -> Path:
        return self.path / "results"


def installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """The versions of Python and of the packages, for the record of a run or a result."""
    return {"python": platform.python_version()} | {name: _version(name) for name in packages}


@cache
def _version(package: str) -> str:
    """A version as it was when it was first asked for, which is that of what was imported."""
    return version(package)


def _exists(path: Path) -> UserError:
    """The error for a new run whose folder is there. What is no run in training is not resumed."""
    try:
        begun = (path / RUN_FILE).exists() and Run(path).record["status"] == "training"
    except UserError:
        begun = False
    resume = f"continue it with `{lab('resume', path)}`, or " if begun else ""
    return UserError(
        f"{path} exists already: {resume}choose another folder with --out, or remove this one"
    )


def run_name(config: TrainConfig) -> str:
    """The default folder name of a run: language, recipe unless plain, kind of model, what is
    taught, what was fine-tuned, how disfluent its words are, seed."""
    shifted = "shifted" if config.max_offset else ""
    recipe = "" if config.recipe == "plain" else config.recipe
    taught = OBJECTIVES[config.objective].short
    tuned = f"from-{config.parent[:6]}-{config.tuned}" if config.parent else ""
    if config.tuned == "lora":
        tuned += f"-{config.adapted}-{config.rank}"
    if config.tuned == "subspace":
        tuned += f"-{config.rank}"
    few = f"{config.lines}-lines" if config.lines else ""
    spoken = f"disfluent-{config.disfluency}-{config.disfluent:g}" if config.disfluent else ""
    cut = "" if config.vocabulary == WORDS else config.vocabulary.replace(":", "-")
    changes = (cut, recipe, config.model.kind, taught, shifted, tuned, few, spoken)
    parts = (config.language, *changes, f"s{config.seed}")
    return "-".join(part for part in parts if part)


@cache
def git_commit() -> str | None:
    """The commit of this source tree when it was first asked for; None where git gives none."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE)
        if re.fullmatch(rb"[0-9a-f]{40,64}", commit := done.stdout.strip()):
            return commit.decode()
    return None
