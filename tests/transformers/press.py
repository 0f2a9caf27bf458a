# SPDX-License-Identifier: MIT
"""Tests of LazyPrunePress: in kvpress, a policy keeps the keys and values of the tokens that it keeps in `prune`.

press.py FOLDER_OF_THE_PACKAGE
"""

import contextlib
import pathlib
import sys
import unittest

sys.path.insert(0, sys.argv.pop(1))

from small_models import FAMILIES, PRUNED, add_scorer_of_hidden_states, greedy, ids, needs, random_model  # first, since it skips without torch

needs("kvpress")
import kvpress

import torch
import transformers
from transformers import DynamicCache

import lazyprune
from lazyprune.press import LazyPrunePress

POCKET = pathlib.Path(__file__).resolve().parents[2] / "examples/pocket/model"


def prefilled(model, tokens, press=None):
    """Returns the cache of a prompt."""
    cache = DynamicCache()
    with torch.no_grad(), press(model) if press else contextlib.nullcontext():
        model.model(input_ids=ids(tokens), past_key_values=cache)
    return cache


def visible(model, tokens):
    """Returns the tokens that each layer's later queries see. Checks that they are the same for all heads."""
    found = []
    for layer in model.model.layers:
        masked = getattr(layer.self_attn, "masked_key_indices", None)
        seen = torch.ones(1, 2, tokens, dtype=torch.bool)
        if masked is not None:
            seen[masked] = False
        assert torch.equal(seen[:, 0], seen[:, 1])
        found.append(seen[0, 0].nonzero()[:, 0].tolist())
    return found


def kept_by_prune(model, policy, tokens):
    """Returns the active tokens of each layer in the prompt's step."""
    recorder = lazyprune.TraceRecorder()
    with lazyprune.prune(model, policy, trace=recorder):
        greedy(model, ids(tokens), tokens=1)
    return [layer["active"] for layer in recorder.steps[0]["layers"]]


class Press(unittest.TestCase):
    def test_the_tokens_are_those_of_prune(self):
        """With one stage, the press sees the evidence that `prune` sees, so the tokens are the same."""
        policies = (
            "lazyllm --stages 2:0.5",
            "lazyllm_blocks --stages 3:0.3 --selector blocks:size=4",
            "custom --scorer last_query_attention:over=max --stages 2:0.5",
            "custom --scorer value_weighted_attention --stages 2:0.5",
            "custom --scorer window_attention:window=5 --stages 2:0.5",
            "custom --scorer calibrated_attention:window=5,block=4,probes=2.0.3.max.mean@2/2.1.0.last.max.next@1/2.1.3.mean.mean@-0.5 --stages 2:0.5",
            "custom --scorer key_norm --stages 2:0.5",
            "streaming --schedule budget:after=0,tokens=20 --keep-first 2",
        )
        for name in ("llama", "qwen2", "qwen3"):
            model = FAMILIES[name]()
            dense = prefilled(model, 60)
            for policy in policies if name == "llama" else policies[:1]:
                with self.subTest(name=name, policy=policy):
                    active = kept_by_prune(model, policy, 60)
                    press = LazyPrunePress(policy)
                    cache = prefilled(model, 60, press)
                    self.assertLess(len(active[4]), 60)
                    self.assertEqual(visible(model, 60), active)
                    for layer, whole in zip(cache.layers, dense.layers):
                        self.assertTrue(torch.equal(layer.keys, whole.keys) and torch.equal(layer.values, whole.values))
                    self.assertAlmostEqual(press.compression_ratio, 1 - sum(map(len, active)) / (6 * 60))

    def test_gradients_may_be_on(self):
        model = random_model()
        with LazyPrunePress(PRUNED)(model):
            model.model(input_ids=ids(40), past_key_values=DynamicCache())

    def test_two_stages_nest(self):
        model = random_model()
        press = LazyPrunePress(PRUNED)
        for _ in range(2):  # a press is used for many prompts
            prefilled(model, 60, press)
            seen = visible(model, 60)
            self.assertEqual(list(map(len, seen)), [60, 60, 30, 30, 15, 15])
            self.assertLessEqual(set(seen[4]), set(seen[2]))
            self.assertAlmostEqual(press.compression_ratio, 150 / 360)

    def test_a_scorer(self):
        model = random_model()
        prefilled(model, 20, LazyPrunePress("lazyllm --stages 3:0.5", scorer=lambda attention, positions: -positions.double()))
        self.assertEqual(visible(model, 20)[3], [*range(9), 19])

    def test_a_press_leaves_nothing_behind(self):
        model = random_model()
        answer = lambda: greedy(model, ids(60), tokens=6)
        with lazyprune.prune(model, PRUNED):
            expected = answer()
        prefilled(model, 60, LazyPrunePress(PRUNED))
        with lazyprune.prune(model, PRUNED):
            self.assertTrue(torch.equal(answer(), expected))

    def test_a_ratio_sets_the_share(self):
        model = random_model()
        for policy in ("lazyllm --stages 2:{keep},4:{keep}", "custom --scorer value_weighted_attention --stages 1:{keep}"):
            press = LazyPrunePress(policy)
            for ratio in (0.0, 0.25, 0.5):
                self.assertTrue(hasattr(press, "compression_ratio"))  # kvpress's evaluation asks, and sets it
                press.compression_ratio = ratio
                prefilled(model, 400, press)
                kept = sum(map(len, visible(model, 400)))
                self.assertLessEqual(abs(1 - kept / (6 * 400) - ratio), 0.005)
                self.assertEqual(press.compression_ratio, ratio)

    def test_the_pipeline(self):
        model = transformers.AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32)
        tokenizer = transformers.AutoTokenizer.from_pretrained(POCKET)
        pipe = transformers.pipeline("kv-press-text-generation", model=model, tokenizer=tokenizer)
        context = "The old council met in the hall beside the river. " * 8
        answers = [
            pipe(context, questions=["Where?", "Who met?"], press=press, max_new_tokens=6)["answers"]
            for press in (None, LazyPrunePress("dense"), LazyPrunePress("lazyllm --stages 1:0.05"))
        ]
        self.assertEqual(answers[1], answers[0])
        self.assertNotEqual(answers[2], answers[0])

    def test_errors(self):
        model = random_model()
        add_scorer_of_hidden_states(lazyprune.shared_library())
        for press, text in (
            (LazyPrunePress("lazyllm --stages 4:{keep}", 0.5), "compression_ratio: expected 0 to 0.33, as much as"),
            (LazyPrunePress(PRUNED, 0.5), "compression_ratio: expected a policy with {keep}, which the ratio sets, found lazyllm"),
            (LazyPrunePress("lazy"), "expected one of lazyllm"),
            (LazyPrunePress("custom --scorer longest --stages 2:0.5"), "expected one that scores by attention, keys or values, found custom"),
            (kvpress.ComposedPress([kvpress.KnormPress(0.5), LazyPrunePress(PRUNED)]), "layer 0: expected the keys of all 60 tokens, found 30"),
        ):
            with self.subTest(text=text), self.assertRaises((ValueError, lazyprune.Error)) as caught:
                prefilled(model, 60, press)
            self.assertIn(text, str(caught.exception))
        with self.assertRaisesRegex(ValueError, "expected one text, found a batch of 2"), LazyPrunePress(PRUNED)(model):
            model.model(input_ids=ids(9, 2), past_key_values=DynamicCache())
        model.set_attn_implementation("eager")
        with self.assertRaisesRegex(ValueError, "expected another attn_implementation, such as sdpa, found eager"):
            prefilled(model, 9, LazyPrunePress(PRUNED))

    def test_hidden_keys_are_not_seen(self):
        """The next token's logits are those of a cache without the dropped keys."""
        model = random_model()
        cache = prefilled(model, 60, LazyPrunePress(PRUNED))
        next_token = {"input_ids": ids(1, seed=3), "position_ids": torch.tensor([[60]])}
        with torch.no_grad():
            found = model(**next_token, past_key_values=cache).logits
            seen = visible(model, 60)
            model = random_model()
            without = prefilled(model, 60)
            for layer, kept in zip(without.layers, seen):
                layer.keys, layer.values = layer.keys[:, :, kept], layer.values[:, :, kept]
            self.assertLess((model(**next_token, past_key_values=without).logits - found).abs().max(), 1e-12)
            self.assertGreater((model(**next_token, past_key_values=prefilled(model, 60)).logits - found).abs().max(), 1e-3)


if __name__ == "__main__":
    unittest.main()
