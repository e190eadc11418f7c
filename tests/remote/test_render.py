"""Prompts to ids with real tokenizers: a fast one, and a slow one that is the model's own code."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from remote.errors import OperatorError
from remote.fingerprint import cheap_fingerprint
from remote.options import Options
from remote.prompts import Prompt, parse_prompt
from remote.render import Unrenderable, load_tokenizer, prompt_digest
from tests.support.answered import FORMS
from tests.support.tokenizers import LoadedModel, fast_model, kimi_model, make_fast_model, make_kimi_model


@pytest.fixture(params=["fast", "kimi"])
def model(request: pytest.FixtureRequest) -> LoadedModel:
    return fast_model() if request.param == "fast" else kimi_model()


def _prompt(**form: object) -> Prompt:
    return parse_prompt(json.dumps({"sample_id": "s", **form}).encode())


def test_the_template_is_applied_once_with_each_special_token_as_one_id(model: LoadedModel) -> None:
    prompt = _prompt(messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Été, 数据?"}])
    ids = model.tokenizer.prompt_ids(prompt)
    assert model.tokenizer.decode(ids) == (
        "<|im_system|>system<|im_middle|>Be brief.<|im_end|>"
        "<|im_user|>user<|im_middle|>Été, 数据?<|im_end|>"
        "<|im_assistant|>assistant<|im_middle|><think>"
    )
    special = model.tokenizer.special_ids
    # Five of the chat's own tokens a turn would be ten or more ids if they were spelled out; no BOS comes in front.
    assert sum(number in special for number in ids) >= 8
    assert model.tokenizer.decode(ids[:1]) == "<|im_system|>"


def test_tools_reach_the_template(model: LoadedModel) -> None:
    tools = [{"type": "function", "function": {"name": "find_train"}}]
    text = model.tokenizer.decode(
        model.tokenizer.prompt_ids(_prompt(messages=[{"role": "user", "content": "?"}], tools=tools))
    )
    assert text.startswith("<|im_system|>tool_declare<|im_middle|>[{")
    assert '"find_train"' in text


def test_a_trailing_assistant_turn_is_no_part_of_the_prompt(model: LoadedModel) -> None:
    said = [{"from": "human", "value": "Prove it."}, {"from": "gpt", "value": "No."}]
    assert model.tokenizer.prompt_ids(_prompt(conversations=said)) == model.tokenizer.prompt_ids(
        _prompt(prompt="Prove it.")
    )


def test_every_form_renders_and_input_ids_pass_through(model: LoadedModel) -> None:
    for form in FORMS:
        ids = model.tokenizer.prompt_ids(_prompt(**form))
        assert ids and all(type(number) is int for number in ids)
        if "input_ids" in form:
            assert ids == form["input_ids"]


def test_template_kwargs_are_the_templates(model: LoadedModel) -> None:
    prompt = _prompt(prompt="Think?")
    off = load_tokenizer(replace(model.options, template_kwargs={"thinking": False}))
    assert model.tokenizer.decode(model.tokenizer.prompt_ids(prompt)).endswith("<think>")
    assert off.decode(off.prompt_ids(prompt)).endswith("<think></think>")
    assert off.fingerprint.digest != model.tokenizer.fingerprint.digest


def test_kwargs_that_are_ours_are_refused() -> None:
    with pytest.raises(OperatorError, match="may not set tokenize"):
        load_tokenizer(replace(fast_model().options, template_kwargs={"tokenize": False}))


def test_what_the_template_refuses_concerns_that_prompt_alone(model: LoadedModel) -> None:
    with pytest.raises(Unrenderable, match="unknown role wizard"):
        model.tokenizer.prompt_ids(_prompt(messages=[{"role": "wizard", "content": "x"}]))


def _kimi_vocabulary() -> int:
    config = json.loads((Path(kimi_model().path) / "config.json").read_text(encoding="utf-8"))
    return int(config["text_config"]["vocab_size"])


def test_an_id_that_no_table_names_is_shown_by_its_number() -> None:
    kimi = kimi_model().tokenizer
    unknown = _kimi_vocabulary() - 1
    assert kimi.decode([unknown]) == f"<id {unknown}>"
    assert kimi.decode([*b"ok", unknown]) == f"ok<id {unknown}>"


def test_the_models_own_code_runs_only_when_allowed() -> None:
    with pytest.raises(OperatorError) as caught:
        load_tokenizer(replace(kimi_model().options, trust_remote_code=False))
    assert caught.value.code == "needs-trust-remote-code"
    assert "--trust-remote-code" in caught.value.remedy


def test_what_is_not_there_is_said_with_what_to_do(tmp_path: Path) -> None:
    for options, code in (
        (Options(), "no-model-path"),
        (Options(model_path=str(tmp_path / "none")), "no-model"),
        (Options(model_path=str(tmp_path)), "no-tokenizer"),
    ):
        with pytest.raises(OperatorError) as caught:
            load_tokenizer(options)
        assert caught.value.code == code
        assert caught.value.remedy


def test_a_tokenizer_that_does_not_load_is_one_line(tmp_path: Path) -> None:
    options = make_fast_model(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(OperatorError) as caught:
        load_tokenizer(options)
    assert caught.value.code == "bad-tokenizer"
    assert "\n" not in str(caught.value)


def test_a_tokenizer_without_a_template_renders_only_what_is_tokenized(tmp_path: Path) -> None:
    options = make_fast_model(tmp_path)
    (tmp_path / "chat_template.jinja").unlink()
    bare = load_tokenizer(options)
    assert bare.prompt_ids(_prompt(input_ids=[4, 5])) == [4, 5]
    with pytest.raises(OperatorError) as caught:
        bare.prompt_ids(_prompt(prompt="x"))
    assert caught.value.code == "no-chat-template"


@pytest.mark.parametrize("missing", ["transformers", "jinja2", "tiktoken"])
def test_a_missing_library_is_named_with_the_command_that_installs_it(missing: str, tmp_path: Path) -> None:
    """A real Python in which that library cannot be imported."""
    options = make_kimi_model(tmp_path / "model")
    blocked = tmp_path / "blocked"
    (blocked / missing).mkdir(parents=True)
    (blocked / missing / "__init__.py").write_text(f"raise ImportError('no', name={missing!r})\n", encoding="utf-8")
    code = (
        "import sys, json; sys.path.insert(0, sys.argv[1])\n"
        "from remote.errors import OperatorError; from remote.options import Options; from remote.render import load_tokenizer\n"
        "try: load_tokenizer(Options.from_json(json.loads(sys.argv[2])))\n"
        "except OperatorError as error: print(json.dumps(error.to_json()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(blocked), json.dumps(options.to_json())],
        capture_output=True,
        timeout=60,
        check=False,
    )
    error = OperatorError.from_json(json.loads(done.stdout))
    assert error.code == "no-library"
    assert missing in error.message
    assert f"{sys.executable} -m pip install" in error.remedy
    assert missing in error.remedy


def test_loading_prints_nothing_on_stdout_and_needs_no_network(tmp_path: Path) -> None:
    """Kimi's own code may print; a proxy that nobody serves would make any request fail."""
    options = make_kimi_model(tmp_path / "model")
    code = (
        "import sys, json\n"
        "from remote.options import Options; from remote.render import load_tokenizer\n"
        "load_tokenizer(Options.from_json(json.loads(sys.argv[1]))); print('ok')\n"
    )
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/proc/nowhere",
        "https_proxy": "http://127.0.0.1:1",
        "TMPDIR": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(options.to_json())],
        capture_output=True,
        timeout=60,
        check=False,
        env=environment,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout == b"ok\n", done.stderr


def test_a_digest_is_of_the_ids_alone() -> None:
    # What sha256sum says of the bytes 01 00 00 00 02 01 00 00.
    assert prompt_digest([1, 258]) == "fb8bbe2ad3ab5292f19bc5d75bbab9b5"
    assert prompt_digest([1, 258]) != prompt_digest([258, 1])
    assert len(prompt_digest([])) == 32


def test_the_cheap_fingerprint_is_the_loaded_one_without_versions(tmp_path: Path) -> None:
    loaded = fast_model().tokenizer.fingerprint
    cheap = cheap_fingerprint(fast_model().options)
    assert cheap is not None
    assert cheap.versions == {} and loaded.versions["transformers"]
    assert cheap.digest == loaded.digest
    assert loaded.differences(cheap) == ()
    shutil.copytree(fast_model().path, tmp_path / "copy")
    (tmp_path / "copy" / "chat_template.jinja").write_text("{{ messages }}", encoding="utf-8")
    other = cheap_fingerprint(Options(model_path=str(tmp_path / "copy")))
    assert other is not None
    assert loaded.differences(other) == ("file chat_template.jinja",)
