"""The configuration of a run: what it accepts, what it refuses, and how it says so.

1. Every wrong line of a file or a command line is refused in one line that names the key and what would be right.
2. A file that is missing, a directory, not text, not YAML or no mapping is refused; an empty one means all defaults.
3. ``to_dict`` and ``from_dict`` are inverse, through YAML too; the command line and a file say the same.
4. Every key has its sentence in ``--help``; the shipped configurations load.
5. Stages change what a stage may change, from their number of games on.
"""

from __future__ import annotations

import dataclasses
import io
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from togyz_agents.training import config as config_
from togyz_agents.training.ablation import read_plan
from togyz_agents.training.config import Config, from_dict, keys, load, override, to_dict
from togyz_env import ConfigError

CONFIGS = Path(__file__).parent.parent / "configs"

WRONG = [  # a line of YAML, and what the message must hold
    ("learner: {lrate: 0.1}", ["learner.lrate: unknown key", "known: lr, lr_drops"]),
    ("learner: {warmup_step: 5}", ["learner.warmup_step: unknown key", "did you mean 'warmup_steps'?"]),
    ("lerner: {lr: 0.1}", ["lerner: unknown key", "did you mean 'learner'?"]),
    ("seed: 3", ["seed: unknown key", "did you mean 'run.seed'?"]),
    ("simulations: 3", ["'selfplay.simulations' or 'ladder.simulations' or 'final.simulations'"]),
    ("1: 2", ["1: unknown key", "known: run, rules, network"]),
    ("learner: {LR: 0.1}", ["learner.LR: unknown key", "known: lr, lr_drops"]),
    ("learner: 3", ["learner: 3 is not a mapping of keys to values"]),
    ("learner:", ["learner: None is not a mapping"]),
    ("- learner", ["the file: ['learner'] is not a mapping"]),
    ("learner", ["the file: 'learner' is not a mapping"]),
    ("run: {seed: 1.5}", ["run.seed: 1.5 is not a whole number"]),
    ("run: {seed: true}", ["run.seed: True is not a whole number"]),
    ("run: {seed: '1'}", ["run.seed: '1' is not a whole number"]),
    ("run: {seed: -1}", ["run.seed: -1 is not 0 or more"]),
    ("run: {seed: [1]}", ["run.seed: [1] is not a whole number"]),
    ("run: {seed: null}", ["run.seed: None is not a whole number"]),
    ("run: {dir: 3}", ["run.dir: 3 is not text"]),
    ("run: {minutes: 0}", ["run.minutes: 0.0 is not above 0"]),
    ("run: {minutes: .inf}", ["run.minutes: inf is not finite"]),
    ("run: {minutes: .nan}", ["run.minutes: nan is not above 0"]),
    ("run: {samples: 1.0}", ["run.samples: 1.0 is not a whole number"]),
    ("run: {iterations: -3}", ["run.iterations: -3 is not above 0"]),
    ("run: {checkpoint_every: 0}", ["run.checkpoint_every: 0 is not at least 1"]),
    ("run: {keep: 0}", ["run.keep: 0 is not at least 1"]),
    ("rules: {end: atsyrau}", ["rules.end: 'atsyrau' is not one of majority, playout"]),
    ("rules: {max_plies: 0}", ["max_plies of a ruleset: 0; expected a whole number from 1"]),
    ("rules: {max_plies: 3}", ["selfplay.opening_plies: 3 is not below rules.max_plies (3)"]),
    ("network: {encoder: conv}", ["network.encoder: 'conv' is not one of ", "plain, rules"]),
    ("network: {width: 0}", ["network.width: 0 is not between 1 and 16384"]),
    ("network: {blocks: -1}", ["network.blocks: -1 is not between 0 and 256"]),
    ("network: {blocks: false}", ["network.blocks: False is not a whole number"]),
    ("search: {solver: 1}", ["search.solver: 1 is not true or false"]),
    ("search: {solver: 'yes'}", ["search.solver: 'yes' is not true or false"]),
    ("search: {exploration: 0}", ["search.exploration: 0.0", "above 0"]),
    ("search: {exploration: .inf}", ["search.exploration: inf"]),
    ("search: {noise_fraction: .nan}", ["search.noise_fraction: nan is not between 0 and 1"]),
    ("search: {noise_alpha: -0.1}", ["search.noise_alpha: -0.1", "above 0"]),
    ("selfplay: {workers: 0}", ["selfplay.workers: 0 is not at least 1"]),
    ("selfplay: {slots: 3000000000}", ["selfplay.slots: 3000000000 is not a number that", "at most 1 TiB"]),
    ("selfplay: {precision: int8}", ["selfplay.precision: 'int8' is not one of auto, float32, bfloat16, float16"]),
    ("selfplay: {full_share: 1.01}", ["selfplay.full_share: 1.01 is not between 0 and 1"]),
    ("selfplay: {full_share: true}", ["selfplay.full_share: True is not a number"]),
    ("selfplay: {full_share: half}", ["selfplay.full_share: 'half' is not a number"]),
    ("selfplay: {temperature: 0}", ["selfplay.temperature: 0.0 is not above 0"]),
    ("selfplay: {temperature: .inf}", ["selfplay.temperature: inf is not finite"]),
    ("selfplay: {late_sampling: -0.5}", ["selfplay.late_sampling: -0.5 is not between 0 and 1"]),
    ("selfplay: {tree_reuse: 2}", ["selfplay.tree_reuse: 2 is not true or false"]),
    ("replay: {window: 0}", ["replay.window: 0.0 is not above 0 and at most 1"]),
    ("replay: {capacity: 0}", ["replay.capacity: 0 is not at least 1"]),
    ("learner: {lr: nan}", ["learner.lr: nan is not above 0"]),
    ("learner: {lr: .inf}", ["learner.lr: inf is not finite"]),
    ("learner: {lr: -0.001}", ["learner.lr: -0.001 is not above 0"]),
    ("learner: {margin_weight: .inf}", ["learner.margin_weight: inf is not finite"]),
    ("learner: {batch: 0}", ["learner.batch: 0 is not at least 1"]),
    ("learner: {reuse: -2}", ["learner.reuse: -2.0 is not above 0"]),
    ("learner: {average: 0}", ["learner.average: 0.0 is not above 0 and at most 1"]),
    ("learner: {outcome_share: 2}", ["learner.outcome_share: 2.0 is not between 0 and 1"]),
    ("learner: {lr_drops: 0.5}", ["learner.lr_drops: 0.5 is not a list"]),
    ("learner: {lr_drops: [0.5]}", ["learner.lr_drops[0]: 0.5 is not a list"]),
    ("learner: {lr_drops: [[0.5]]}", ["learner.lr_drops[0]: [0.5] is not a list of 2"]),
    ("learner: {lr_drops: [[0.5, a]]}", ["learner.lr_drops[0][1]: 'a' is not a number"]),
    ("learner: {lr_drops: [[0.5, .nan]]}", ["learner.lr_drops: ((0.5, nan),)", "factor from 0"]),
    ("learner: {lr_drops: [[0.5, 0.1], [0.4, 0.3]]}", ["learner.lr_drops", "rising shares"]),
    ("learner: {lr_drops: [[1.5, 0.1]]}", ["learner.lr_drops", "share from 0 to 1"]),
    ("ladder: {pairs: 0}", ["ladder.pairs: 0 is not at least 1"]),
    ("final: {pairs: -1}", ["final.pairs: -1 is not 0 or more"]),
    ("final: {simulations: 0}", ["final.simulations: 0 is not at least 1"]),
    ("stages: {games: 3}", ["stages: {'games': 3} is not a list"]),
    ("stages: [{selfplay.simulations: 3}]", ["stages[0]", "give games: N"]),
    ("stages: [{games: 0, selfplay.simulations: 3}]", ["stages: [0] is not an ascending list of games from 1"]),
    ("stages: [{games: x}]", ["stages[0].games: 'x' is not a whole number"]),
    ("stages: [{games: 5}, {games: 3}]", ["stages: [5, 3] is not an ascending list"]),
    (
        "stages: [{games: 5, selfplay.simulation: 3}]",
        ["'selfplay.simulation' cannot be changed", "did you mean 'selfplay.simulations'?"],
    ),
    ("stages: [{games: 5, selfplay.slots: 3}]", ["'selfplay.slots' cannot be changed"]),
    ("stages: [{games: 5, rules.end: playout}]", ["'rules.end' cannot be changed"]),
    ("stages: [{games: 5, selfplay.simulations: 0}]", ["stages: selfplay.simulations: 0 is not at least 1"]),
    ("stages: [{games: 5, learner.lr: .inf}]", ["learner.lr: inf is not finite"]),
]


def refused(message: str, *parts: str) -> None:
    assert "\n" not in message
    assert len(message) < 400
    for part in parts:
        assert part in message


# 1


@pytest.mark.parametrize(("line", "parts"), WRONG, ids=[line for line, _ in WRONG])
def test_a_wrong_line_of_a_file_is_refused_by_name(line: str, parts: list[str], tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(line)
    with pytest.raises(ConfigError) as caught:
        load(path)
    refused(str(caught.value), str(path), *parts)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--learner.lrr", "3"], ["--learner.lrr", "did you mean --learner.lr?"]),
        (["--learner.lrr=3"], ["--learner.lrr=3", "did you mean --learner.lr?"]),
        (["--selfplay.fast_simulation", "3"], ["did you mean --selfplay.fast-simulations?"]),
        (["--seed", "3"], ["did you mean --run.seed?"]),
        (["--simulations", "3"], ["--selfplay.simulations or --ladder.simulations or --final.simulations"]),
        (["--zzz"], ["--zzz", "--help lists the keys"]),
        (["configs/quick.yaml"], ["'configs/quick.yaml'", "--config FILE"]),
        (["--learner.lr"], ["--learner.lr", "Missing value"]),
        (["--learner.lr", "fast"], ["--learner.lr", "'fast'"]),
        (["--learner.lr", "nan"], ["learner.lr: nan is not above 0"]),
        (["--learner.lr", "inf"], ["learner.lr: inf is not finite"]),
        (["--learner.lr", "-1"], ["learner.lr: -1.0 is not above 0"]),
        (["--run.seed", "1.5"], ["--run.seed", "'1.5'"]),
        (["--network.width", "True"], ["--network.width", "'True'"]),
        (["--network.width", "99999"], ["network.width: 99999 is not between 1 and 16384"]),
        (["--rules.end", "draw"], ["--rules.end", "'draw'", "'majority', 'playout'"]),
        (["--search.solver", "maybe"], ["'maybe'", "--switch or --no-switch"]),
        (["--selfplay.workers=0"], ["selfplay.workers: 0 is not at least 1"]),
        (["--learner.lr-drops", "0.5"], ["--learner.lr-drops", "'0.5'"]),
        (["--final.pairs", "9" * 30], ["final.pairs", "is not at most 2147483647"]),
    ],
    ids=" ".join,
)
def test_a_wrong_argument_is_refused_by_name(arguments: list[str], parts: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        override(Config(), arguments)
    refused(str(caught.value), "command line: ", *parts)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("columns", ["40", "200"])
def test_messages_do_not_depend_on_the_terminal(columns: str, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding))
    expected = [
        (["--learner.lr", "nan"], "command line: learner.lr: nan is not above 0"),
        (["--run.seed", "x"], "command line: Error parsing --run.seed: invalid literal for int() with base 10: 'x'"),
    ]
    for arguments, message in expected:
        with pytest.raises(ConfigError) as caught:
            override(Config(), arguments)
        assert str(caught.value) == message


# 2


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"run: [", "not YAML"),
        (b"run: {seed: 1\nlearner", "not YAML"),
        (b"run: {seed: 1, seed: 2}", "key 'seed' stands there twice"),
        (b"\tseed: 1", "not YAML"),
        (b"? [1]\n: 2", "not YAML"),
        (b"run: !!python/object/apply:os.system [ls]", "not YAML"),
        (b"\xff\xfe\x00", "cannot read"),
        (b"\x00\x01", "not YAML"),
        (b"word " * 1000, "is not a mapping"),
    ],
    ids=repr,
)
def test_a_file_that_is_no_configuration_is_refused(content: bytes, part: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load(path)
    refused(str(caught.value), str(path), part)


def test_a_missing_file_and_a_directory_are_refused(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "none.yaml", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(ConfigError) as caught:
            load(path)
        refused(str(caught.value), f"config: cannot read {str(path)!r}", reason)


def test_an_empty_file_means_all_defaults(tmp_path: Path) -> None:
    path = tmp_path / "empty.yaml"
    for content in ("", "# nothing\n", "{}"):
        path.write_text(content)
        assert load(path) == Config()


# 3


def test_plain_form_and_configuration_are_inverse() -> None:
    data: dict[str, Any] = {
        "run": {"minutes": 3, "dir": "x"},
        "rules": {"end": "playout", "max_plies": 77},
        "network": {"encoder": "plain", "width": 7, "blocks": 0},
        "search": {"solver": False, "exploration": "1e-1"},
        "learner": {"lr_drops": [[0.1, 0.5], [0.2, 0]]},
        "selfplay": {"temperature": 2},
        "stages": [{"games": 9, "selfplay.simulations": 5}, {"games": 20, "learner.lr_drops": [[0.5, 0.5]], "network.width": 9}],
    }
    config = from_dict(data, "test")
    assert config.run.minutes == 3.0
    assert isinstance(config.run.minutes, float)
    assert config.learner.lr_drops == ((0.1, 0.5), (0.2, 0.0))
    assert config.search.exploration == 0.1
    for one in (config, Config()):
        assert from_dict(to_dict(one), "test") == one
        assert from_dict(yaml.safe_load(yaml.safe_dump(to_dict(one))), "test") == one


def test_every_key_can_be_set_on_the_command_line_as_in_a_file() -> None:
    special: dict[str, Any] = {
        "run.device": "cuda",
        "rules.end": "playout",
        "network.encoder": "plain",
        "search.root": "gumbel",
        "search.gumbel_actions": 3,
        "selfplay.precision": "float32",
        "replay.store": "file",
        "learner.lr_drops": [[0.25, 0.5], [0.5, 0.125]],
    }
    data: dict[str, dict[str, Any]] = {}
    arguments: list[str] = []
    for key, default in config_.leaves(Config()).items():
        if key == "stages":
            continue
        section, name = key.split(".")
        if key in special:
            value = special[key]
        elif isinstance(default, bool):
            value = not default
        elif isinstance(default, int):
            value = default + 1
        elif isinstance(default, float):
            value = default / 2 or 0.5
        else:  # nothing by default
            value = "x" if name in ("dir", "network") else 5
        data.setdefault(section, {})[name] = value
        if isinstance(value, bool):
            arguments.append(f"--{section}.{'' if value else 'no-'}{name.replace('_', '-')}")
        else:
            arguments += (
                [f"--{key}", *(str(item) for pair in value for item in pair)] if key == "learner.lr_drops" else [f"--{key}={value}"]
            )
    expected = config_.leaves(from_dict(data, "test"))
    for hyphens in (False, True):  # names as in a file, or as --help prints them
        flags = [a.replace("_", "-") if hyphens and a.startswith("--") else a for a in arguments]
        found = config_.leaves(override(Config(), flags))
        assert found == expected
    unchanged = [key for key, value in config_.leaves(Config()).items() if found[key] == value]
    assert unchanged == ["stages"]


def test_the_command_line_goes_over_the_file() -> None:
    base = from_dict({"learner": {"lr": 0.5, "batch": 7}}, "test")
    changed = override(base, ["--learner.lr", "0.25"])
    assert (changed.learner.lr, changed.learner.batch) == (0.25, 7)
    assert override(base, []) == base


# 4


def test_every_key_has_its_sentence_in_help(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit) as caught:
        override(Config(), ["--help"])
    assert not caught.value.code
    sentences: dict[str, str] = {}
    flag = ""
    for line in capsys.readouterr().out.splitlines():
        if match := re.match(r"[│ ]*--([a-z][a-z.-]+)", line):
            flag = match[1]
            line = re.sub(r"^.*?  +(?=[^ ])", "", line.strip("│ "))  # the column beside the flag
        if flag:
            sentences[flag] = sentences.get(flag, "") + " " + line.strip("│ ")
    for key in keys():
        if key != "stages":
            sentence = sentences[key.replace("_", "-")].partition("(default:")[0]
            assert len(re.findall(r"[A-Za-z]{2,}", re.sub(r"--\S+", "", sentence))) >= 3, (key, sentence)


OF_TRAINING = [path for path in sorted(CONFIGS.glob("*.yaml")) if path.stem not in ("ablation", "tournament")]


@pytest.mark.parametrize("path", OF_TRAINING, ids=lambda path: path.name)
def test_shipped_configurations_load(path: Path) -> None:
    config = load(path)
    run = config.run
    assert run.minutes or run.samples or run.iterations, "a shipped configuration must come to an end"
    assert path.read_text().startswith("# "), "it says on top what it is for"


def test_every_variant_of_the_shipped_ablation_can_be_trained() -> None:
    plan = read_plan(CONFIGS / "ablation.yaml")
    assert len(plan.variants) > 10


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"minute": 3}, "expected the keys base, minutes, pairs, seed, simulations, variants"),
        ({"variants": {}}, "at least one variant"),
        ({"variants": ["a"]}, "must be mappings"),
        ({"variants": {"a": None, "b": 3}}, "variant 'b': 3 is not a mapping"),
        ({"variants": {"a": None, "b": {"learner.lrr": 3}}}, "variant 'b': command line: unknown '--learner.lrr'; did you mean"),
        ({"variants": {"a": {"learner.lr": "fast"}}}, "variant 'a': command line: Error parsing --learner.lr"),
        ({"base": {"selfplay.slots": 0}}, "variant 'a': command line: selfplay.slots: 0 is not at least 1"),
    ],
)
def test_a_wrong_ablation_is_refused_before_anything_is_trained(change: dict[str, Any], part: str, tmp_path: Path) -> None:
    plan = {"base": {"network.width": 8}, "minutes": 1, "pairs": 1, "simulations": 1, "seed": 1, "variants": {"a": None}}
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump(plan | change))
    with pytest.raises(ConfigError) as caught:
        read_plan(path)
    refused(str(caught.value), str(path), part)


# 5


def test_stages_hold_from_their_number_of_games_on() -> None:
    data = {
        "selfplay": {"simulations": 10},
        "stages": [
            {"games": 100, "selfplay.simulations": 20, "learner.lr": 0.5},
            {"games": 200, "selfplay.simulations": 30, "network.width": 512},
        ],
    }
    config = from_dict(data, "test")
    plain = dataclasses.replace(config, stages=())
    assert config_.at(config, 0) == config_.at(config, 99) == plain
    second = config_.at(config, 100)
    assert second == config_.at(config, 199)
    assert (second.selfplay.simulations, second.learner.lr, second.network.width) == (20, 0.5, 256)
    third = config_.at(config, 10**6)
    assert (third.selfplay.simulations, third.learner.lr, third.network.width) == (30, 0.5, 512)
