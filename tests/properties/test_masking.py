"""No secret of a command line or an address is ever shown, and nothing that an operator needs is hidden."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote.masking import masked, masked_hook, masked_text, masked_url

SECRET = st.text("abcdefghijkmnopqrstuvwxyzABCDEFGH0123456789_", min_size=12, max_size=40).map(
    lambda text: "Zq9" + text
)
FLAGS = ["--api-key", "--api_key", "--apikey", "--token", "--hf-token", "--hub_token", "--password", "--auth-token"]
FLAGS += ["--openai-api-key", "--secret", "--client-secret", "--access-key", "-token", "--wandb-key", "--passphrase"]
PLAIN = ["python3", "-u", "run_inference.py", "--max-samples", "7000", "--token-budget", "10M", "--root", "/data/x"]
PLAIN += [
    "--datasets",
    "B2,B3",
    "--tokenizer",
    "/models/k",
    "--max-new-tokens=16384",
    "--eos-token",
    "</s>",
    "--monkey",
    "yes",
]
PLAIN += ["--api-key-file", "/etc/key", "--keys-per-shard", "4", "--passes", "3", "--token_budget=5", "--author", "ann"]


@given(SECRET, st.sampled_from(FLAGS), st.sampled_from(["two words", "equals"]), st.integers(0, len(PLAIN)))
def test_the_value_of_a_secret_flag_is_masked_and_the_rest_is_as_it_was(
    secret: str, flag: str, form: str, place: int
) -> None:
    given_words = [flag, secret] if form == "two words" else [f"{flag}={secret}"]
    place = min(place, len(PLAIN))
    # Between a flag and its value nothing can stand.
    while place and PLAIN[place - 1].startswith("--") and "=" not in PLAIN[place - 1]:
        place -= 1
    shown = masked([*PLAIN[:place], *given_words, *PLAIN[place:]])
    assert secret not in " ".join(shown)
    assert flag in " ".join(shown)
    assert shown[:place] == PLAIN[:place] and shown[place + len(given_words) :] == PLAIN[place:]


@given(SECRET, st.sampled_from(FLAGS), st.sampled_from([" ", "="]))
def test_in_a_script_given_to_a_shell_too(secret: str, flag: str, between: str) -> None:
    script = (
        f"while true; do python run.py --max-samples 70 {flag}{between}{shlex.quote(secret)} --root /d; sleep 1; done"
    )
    shown = masked(["bash", "-c", script])[2]
    assert secret not in shown and "--max-samples 70" in shown and "--root /d; sleep 1; done" in shown


@pytest.mark.parametrize(
    "text",
    [
        "HF_TOKEN={}",
        "OPENAI_API_KEY={}",
        "Authorization: Bearer {}",
        "password: {}",
        "http://user:{}@host:30000/v1",
        "https://host/v1?api_key={}&n=1",
        "https://host/v1?n=1&token={}",
        "export SECRET={}; run",
    ],
)
def test_assignments_headers_and_addresses(text: str) -> None:
    secret = "Zq9abcdefghijkl"
    shown = masked_text(text.format(secret))
    assert secret not in shown and "***" in shown


@pytest.mark.parametrize(
    "secret", ["sk-abcdefghijklmnop", "hf_abcdefghijklmnop", "ghp_abcdefghijklmnop", "xoxb-1234567890-abc"]
)
def test_known_shapes_wherever_they_stand(secret: str) -> None:
    assert secret not in " ".join(masked(["run", f"a{' '}{secret}", f"--note={secret}x"]))


@pytest.mark.parametrize("url", ["http://127.0.0.1:30000", "http://host/v1/loads?include=all", "https://h/a@b?q=1"])
def test_an_address_without_a_secret_stays_as_it_is(url: str) -> None:
    assert masked_url(url) == url


@given(st.lists(st.text(max_size=30), max_size=8))
def test_any_words_give_as_many_words(words: list[str]) -> None:
    assert len(masked(words)) == len(words)


@given(SECRET)
def test_a_webhooks_path_is_its_secret(secret: str) -> None:
    assert masked_hook(f"https://hooks.slack.com/services/T/B/{secret}") == "https://hooks.slack.com/***"
    assert (
        masked_hook(f"https://u:{secret}@ntfy.example.org/{secret}?auth={secret}") == "https://***@ntfy.example.org/***"
    )
    assert masked_hook("slack+https://host") != "slack+https://host" and masked_hook("http://host:8") == "http://host:8"
    assert secret not in masked_hook(secret)
