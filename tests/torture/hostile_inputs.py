"""Hostile inputs, one a line. RUN is a finished run; the files are those of ``FILES``."""

from __future__ import annotations

DIGITS, LONG = "9" * 5000, "x" * 300
LINES = "".join(
    f"{'A' if i % 2 else 'B'}\t{'x ' * (i % 2)}y z {'y ' * (i // 2)}\n" for i in range(60)
)
TINY = (
    "--steps 6 --batch-size 8 --evaluate-every 3 --max-n 3 "
    "--model.d-model 8 --model.n-heads 2 --model.d-mlp 16"
)
SWEEP = 'question = "?"\nlanguages = ["an"]\nseeds = 1\n'
FIXED = "[fixed]\nsteps = 3\nbatch_size = 8\nmax_n = 3\n"

FILES = {
    "lines.tsv": LINES,
    "dieren.tsv": LINES,
    ".hidden.tsv": LINES,
    f"{'ü' * 120}.tsv": LINES,
    "mark.tsv": LINES.replace("y", "[/z]"),
    "header.tsv": LINES.replace("A\t", "class\t").replace("B\t", "group\t"),
    "words.tsv": "".join(f"{'AB'[i % 2]}\tw{i} v\n" for i in range(3000)),
    "wide.tsv": "A\t" + "x " * 20_000 + "\nB\ty\n",
    "empty.tsv": "",
    "zero.tsv": "\0" * 100,
    "nested.toml": "a = " + "[" * 5000 + "]" * 5000,
    "digits.toml": f"{SWEEP}[fixed]\nsteps = {DIGITS}\n",
    "seeds.toml": SWEEP.replace("seeds = 1", "seeds = 1000000000"),
    "lengths.toml": f'{SWEEP}[test]\nlengths = "1:99999999999"\n',
    "windows.toml": f"{SWEEP}[test]\nwindows = 1000\n[fixed]\nmax_n = 5000\n",
    "window.toml": f"{SWEEP}[fixed]\nmax_length = 99999999999999999999\n",
    "nan.toml": f"{SWEEP}[fixed]\nlearning_rate = nan\n",
    "many.toml": f"{SWEEP}[vary]\nmax_n = {list(range(1, 500))}\nsteps = {list(range(1, 500))}\n",
    "good.toml": SWEEP + FIXED,
    "notepad.toml": "\ufeff" + SWEEP + FIXED,
    "diverging.toml": f"{SWEEP}{FIXED}learning_rate = 1e3\nweight_decay = 1e3\n".replace(
        "steps = 3", "steps = 300"
    ),
}

REFUSED = f"""
train anbn --seed 18446744073709551616
train anbn --seed -1
train anbn --seed {DIGITS}
train anbn --seed ²
train anbn --steps {"9" * 60}
train anbn --steps 0
train anbn --threads 100000
train anbn --batch-size 1000000000
train anbn --batch-size 1000000 --max-n 1000
train anbn --max-n 1000000000
train anbn --max-n 9999
train anbn --evaluate-every {"9" * 60}
train anbn --model.d-model 1000000000
train anbn --model.d-model 100000
train anbn --model.n-layers 1000000000
train anbn --model.head-width 100000000000
train anbn --model.eps nan
train anbn --model.eps -1
train anbn --learning-rate inf
train anbn --learning-rate 1e-320
train anbn --weight-decay inf
train anbn --clip nan
train anbn --patience -1
train anbn --device cuda
train anbn --corpus lines.tsv
train anbn --out {LONG} {TINY}
train anbn --out lines.tsv/x {TINY}
train --corpus lines.tsv --objective next-symbols
train --corpus words.tsv
train --corpus wide.tsv
train --corpus empty.tsv
train --corpus zero.tsv
train --corpus fifo
train --corpus /dev/zero
train --corpus /proc/kmsg
train --corpus .
train --corpus {LONG}
train ""
train [/b]
rule fifo
rule /dev/zero
rule wide.tsv
rule lines.tsv --accepted -
rule lines.tsv --accepted=--
rule lines.tsv --networks 1000000000
resume {LONG}
resume [/b]
runs {LONG}
runs {"x/" * 3000}
runs lines.tsv
evaluate {LONG}
evaluate RUN --max-n 10000000
evaluate RUN --max-n 10000 --count 1
evaluate RUN --lengths ²:³
evaluate RUN --lengths 1:99999999999
evaluate RUN --lengths 1:{DIGITS}
evaluate RUN --lengths 9999:9999
evaluate RUN --count 1000000000
evaluate RUN --count 0
evaluate RUN --seed 4294967296
predict RUN {"ab" * 30_000}
predict RUN "a [/z]"
predict RUN {LONG}
analyse RUN [/b]
analyse RUN probing --words 1000000000
analyse RUN patching --n -5
analyse RUN patching --pairs 1e9
analyse RUN circuits --goal nan
analyse RUN discovery --queries nan
analyse RUN discovery --max-states 1000000000
analyse RUN explanations --samples 1000000000
analyse RUN explanations --word "\x1b[31m"
show RUN [/b]
seeds RUN [/b]
seeds RUN patching --workers 0
seeds RUN patching --workers -3
seeds {LONG} patching
sweep nested.toml
sweep digits.toml
sweep seeds.toml
sweep lengths.toml
sweep windows.toml
sweep window.toml
sweep nan.toml
sweep many.toml
sweep diverging.toml --out o --workers 1
sweep good.toml --languages an an
sweep good.toml --seeds 1000000000
sweep good.toml --scheduler http://127.0.0.1:1
sweep good.toml --scheduler foo://
sweep /dev/zero
sweep fifo
sweep lines.tsv
sweep {LONG}
plant rules --seeds 1000000000
leaderboard --words 1000000000
leaderboard --seeds 1000000000
leaderboard an an
dashboard {LONG}
dashboard . --port 99999
dashboard . --port -1
demo [/b]
demo an an
completion [/b]
[/b]
"""

ACCEPTED = f"""
train an --out o --seed 4294967295 {TINY}
train --corpus dieren.tsv --out o {TINY}
train --corpus .hidden.tsv --out o {TINY}
train --corpus mark.tsv --out o {TINY}
train --corpus header.tsv --out o {TINY}
train --corpus {"ü" * 120}.tsv --out o {TINY}
sweep good.toml --out o --workers 1
sweep notepad.toml --out o --workers 1
show RUN all
evaluate RUN --max-n 3 --count 2 --json
predict RUN "a b"
runs .
languages --csv
"""
