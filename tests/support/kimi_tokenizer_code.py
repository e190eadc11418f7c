"""The code that a Kimi-shaped model folder carries: a slow tiktoken tokenizer, loaded by `trust_remote_code` alone.

`tests.support.tokenizers` copies this file into the folder it builds; nothing imports it from here.
"""

import base64
from pathlib import Path

import tiktoken
from transformers.tokenization_utils import PreTrainedTokenizer

PATTERN = r"""\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s+"""


class TinyKimiTokenizer(PreTrainedTokenizer):
    vocab_files_names = {"vocab_file": "tiktoken.model"}  # noqa: RUF012
    model_input_names = ["input_ids", "attention_mask"]  # noqa: RUF012

    def __init__(self, vocab_file, special_texts=(), unnamed_ids=0, **kwargs):
        with Path(vocab_file).open(encoding="ascii") as lines:
            pairs = [line.split() for line in lines if line.strip()]
        ranks = {base64.b64decode(token): int(rank) for token, rank in pairs}
        self.vocab_file = vocab_file
        self.special = {text: len(ranks) + place for place, text in enumerate(special_texts)}
        self.model = tiktoken.Encoding("tiny", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=self.special)
        self.size = len(ranks) + len(special_texts)
        self.unnamed_ids = unnamed_ids
        super().__init__(**kwargs)
        print("a model's own code may print")

    @property
    def vocab_size(self):
        return self.size + self.unnamed_ids

    def get_vocab(self):
        return {self._convert_id_to_token(number): number for number in range(self.size)}

    def _tokenize(self, text, **kwargs):
        return [self._convert_id_to_token(number) for number in self.model.encode(text, allowed_special="all")]

    def _convert_token_to_id(self, token):
        if token in self.special:
            return self.special[token]
        return self.model.encode_single_token(token.encode("latin-1"))

    def _convert_id_to_token(self, number):
        return self.model.decode_single_token_bytes(number).decode("latin-1")

    def convert_tokens_to_string(self, tokens):
        return b"".join(token.encode("latin-1") for token in tokens).decode("utf-8", "replace")

    def apply_chat_template(self, conversation, tools=None, thinking=True, **kwargs):
        """Kimi's own code sorts the tools and takes `thinking` here, before the template sees them."""
        if tools:
            tools = [dict(sorted(tool.items())) for tool in tools]
        return super().apply_chat_template(conversation, tools=tools, thinking=thinking, **kwargs)

    def save_vocabulary(self, folder, filename_prefix=None):
        return (self.vocab_file,)
