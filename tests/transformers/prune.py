# SPDX-License-Identifier: MIT
"""Tests of `lazyprune.prune` on small random models. If all tokens are kept, a pruned model equals plain transformers. A text has the same
result in a batch and alone. Caches can be continued, cropped, forked and reordered.

prune.py FOLDER_OF_THE_PACKAGE
"""

import copy
import re
import sys
import unittest
import warnings
from unittest import mock

sys.path.insert(0, sys.argv.pop(1))

from small_models import FAMILIES, PRUNED, greedy, ids, padded, random_model  # first, since it skips the tests if torch is missing

import torch
import transformers
from transformers import GenerationConfig, GPT2Config, GPT2LMHeadModel, set_seed

import lazyprune
from lazyprune.interface import CACHE


def takes_new_tokens_alone():
    """Whether this version of transformers continues a cache if only the new tokens are passed. Version 5.2 does not."""
    model, mask = random_model(), torch.ones(1, 30, dtype=torch.long)
    with torch.no_grad():
        cache = model(ids(20))[CACHE]
    try:
        model.generate(ids(10), attention_mask=mask, max_new_tokens=2, **{CACHE: cache})
    except IndexError:
        return False
    return True


class KeepAll(unittest.TestCase):
    """The policy `dense` computes what the model computes."""

    def test_logits_and_text_of_every_family(self):
        for name, make in FAMILIES.items():
            for implementation in ("sdpa", "eager"):
                with self.subTest(name=name, implementation=implementation), torch.no_grad():
                    model = make()
                    model.set_attn_implementation(implementation)
                    plain, text = model(ids(50)).logits, greedy(model, ids(50))
                    model = make()  # a new model, because some types of RoPE remember the longest text
                    model.set_attn_implementation(implementation)
                    with lazyprune.prune(model, "dense"):
                        self.assertLess((model(ids(50)).logits - plain).abs().max(), 1e-12)
                        self.assertTrue(torch.equal(greedy(model, ids(50)), text))
                    self.assertEqual(model.config._attn_implementation, implementation)

    def test_windows_that_the_model_ignores(self):
        """Llama ignores sliding_window, and Mistral ignores layer_types. The texts are compared without a cache, because transformers makes its
        cache by the configuration alone."""
        types = ["full_attention", "sliding_attention"] * 3
        for name, more in (("llama", {"sliding_window": 16}), ("llama", {"sliding_window": 16, "layer_types": types}), ("mistral", {"layer_types": types})):
            with self.subTest(name=name, **more), torch.no_grad():
                model = FAMILIES[name](**more)
                plain, text = model(ids(50)).logits, greedy(model, ids(50), use_cache=False)
                with lazyprune.prune(model, "dense"):
                    self.assertLess((model(ids(50)).logits - plain).abs().max(), 1e-12)
                    self.assertTrue(torch.equal(greedy(model, ids(50)), text))

    def test_ways_to_generate(self):
        model = random_model()
        batch, mask = padded()
        ways = {
            "a batch": lambda: greedy(model, batch, attention_mask=mask),
            "sampling": lambda: (set_seed(3), model.generate(ids(30), max_new_tokens=20, do_sample=True))[1],
            "samples of one prompt": lambda: (
                set_seed(4),
                model.generate(ids(30), max_new_tokens=9, do_sample=True, num_return_sequences=3),
            )[1],
            "beams": lambda: greedy(model, ids(30, 2), num_beams=3),
            "drafts from the text": lambda: greedy(model, ids(10).repeat(1, 3), prompt_lookup_num_tokens=4, eos_token_id=1),
            "drafts from a model": lambda: greedy(model, ids(30), assistant_model=assistant),
            "without a cache": lambda: greedy(model, ids(20), tokens=4, use_cache=False),
        }
        assistant = random_model()
        for name, way in ways.items():
            with self.subTest(name=name):
                plain = way()
                with lazyprune.prune(model, "dense"):
                    self.assertTrue(torch.equal(way(), plain))

    def test_a_pruned_model_drafts(self):
        model, assistant = random_model(), random_model()
        plain = greedy(model, ids(30), eos_token_id=1)
        with lazyprune.prune(assistant, PRUNED):
            self.assertTrue(torch.equal(greedy(model, ids(30), eos_token_id=1, assistant_model=assistant), plain))
            with lazyprune.prune(model, "dense"):
                self.assertTrue(torch.equal(greedy(model, ids(30), eos_token_id=1, assistant_model=assistant), plain))

    def test_chunks(self):
        model = random_model()
        batch, mask = padded()
        for inputs in ({"inputs": ids(50)}, {"inputs": batch, "attention_mask": mask}):
            plain = greedy(model, **inputs)
            with lazyprune.prune(model, "dense"):
                self.assertTrue(torch.equal(greedy(model, **inputs, prefill_chunk_size=16), plain))

    def test_chunks_of_a_configuration(self):
        """The chunk size may come from a passed configuration, an argument, or the model's configuration. The
        configurations are unchanged afterwards."""
        model = random_model()
        plain, sizes = greedy(model, ids(50)), []
        read = lazyprune.pruning.Pruning._run

        def counted(pruning, cache, columns, *rest):
            sizes.append(columns.shape[1])
            return read(pruning, cache, columns, *rest)

        config = GenerationConfig(max_new_tokens=12, do_sample=False, prefill_chunk_size=16, eos_token_id=None)
        model.generation_config.prefill_chunk_size = 20
        with mock.patch.object(lazyprune.pruning.Pruning, "_run", counted), lazyprune.prune(model, "dense"):
            for way in (lambda: model.generate(ids(50), config), lambda: greedy(model, ids(50), prefill_chunk_size=30), lambda: greedy(model, ids(50))):
                self.assertTrue(torch.equal(way(), plain))
        self.assertEqual([size for size in sizes if size > 1], [16, 16, 16, 2, 30, 20, 20, 20, 10])
        self.assertEqual((config.prefill_chunk_size, model.generation_config.prefill_chunk_size), (16, 20))

    def test_rows_are_those_of_the_dense_model(self):
        model = random_model()
        with lazyprune.prune(model, "dense") as pruned:
            greedy(model, ids(50), tokens=5)
        self.assertEqual(pruned.statistics.rows, 6 * 54)
        self.assertEqual(pruned.statistics.rows, pruned.statistics.dense_rows)


class Pruned(unittest.TestCase):
    def test_rows_are_left_out_and_come_back(self):
        model = random_model()
        rows = []
        hook = model.model.layers[5].mlp.register_forward_hook(lambda module, inputs, output: rows.append(output.shape[-2]))
        with lazyprune.prune(model, PRUNED) as pruned:
            greedy(model, ids(100))
        hook.remove()
        self.assertEqual(pruned.statistics.prefill_rows, (100, 100, 50, 50, 25, 25))
        self.assertGreater(pruned.statistics.revived, 0)
        self.assertEqual(rows[0], 1)  # the last layer computes the output of only the query's row
        self.assertLess(pruned.statistics.rows, pruned.statistics.dense_rows)

    def test_a_text_has_the_same_result_in_a_batch_and_alone(self):
        batch, mask = padded()
        for name, make in FAMILIES.items():
            model = make()
            policies = [PRUNED, "lazyllm_blocks --stages 2:0.5 --selector blocks:size=4 --decode dense", "static --stages 2:0.5", "streaming --schedule budget:after=0,tokens=20 --keep-first 2"]
            if "length" in name:  # this RoPE depends on the longest text of the batch, so a text alone has another result
                continue
            for policy in ["lazyllm --stages 2:0.5"] if "windows" in name else policies:
                with self.subTest(name=name, policy=policy), lazyprune.prune(model, policy) as pruned:
                    together = greedy(model, batch, attention_mask=mask)
                    rows, rows_alone = pruned.statistics.rows, 0
                    for i in range(3):
                        alone = greedy(model, batch[i : i + 1, mask[i].bool()])
                        self.assertTrue(torch.equal(together[i, -12:], alone[0, -12:]))
                        rows_alone += pruned.statistics.rows
                    self.assertEqual(rows, rows_alone)  # no padding is computed

    def test_chunks_are_one_prefill(self):
        model = random_model()
        batch, mask = padded()
        for policy in (PRUNED, "pyramid_kv --scorer window_attention:window=4", "random", "dense"):
            for inputs in ({"input_ids": ids(50)}, {"input_ids": batch, "attention_mask": mask}):
                with self.subTest(policy=policy), lazyprune.prune(model, policy) as pruned:
                    whole = model.generate(**inputs, max_new_tokens=10, do_sample=False)
                    rows = pruned.statistics.rows
                    for size in (7, 16, 49):
                        chunks = model.generate(**inputs, max_new_tokens=10, do_sample=False, prefill_chunk_size=size)
                        self.assertTrue(torch.equal(chunks, whole))
                        self.assertEqual(pruned.statistics.rows, rows)

    def test_every_kind_of_evidence(self):
        model = random_model()
        for scorer in (
            "last_query_attention",
            "last_query_attention:over=max",
            "value_weighted_attention",
            "window_attention:window=5",
            "prompt_window_attention:window=5",
            "calibrated_attention:window=5,block=4,probes=2.0.3.max.mean@2/2.1.0.last.max.next@1/2.1.3.mean.mean@-0.5",
            "accumulated_attention:over=max",
            "key_norm",
            "recency",
            "random",
        ):
            with self.subTest(scorer=scorer), lazyprune.prune(model, f"custom --scorer {scorer} --stages 2:0.5") as pruned:
                greedy(model, ids(40))
                self.assertEqual(pruned.statistics.prefill_rows, (40, 40, 20, 20, 20, 20))

    def test_autocast_does_not_round_scores(self):
        torch.manual_seed(5)
        given = (torch.randn(4, 3, 16), torch.randn(2, 40, 16), None, 0.25)
        expected = lazyprune.evidence.probabilities(*given)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            self.assertTrue(torch.equal(lazyprune.evidence.probabilities(*given), expected))

    def test_a_custom_scorer(self):
        model = random_model()
        calls = []

        def mean(attention, positions):
            calls.append((tuple(attention.shape), tuple(positions.shape)))
            return attention.mean(0)

        with lazyprune.prune(model, PRUNED):
            expected = greedy(model, ids(60))
        with lazyprune.prune(model, PRUNED, scorer=mean):
            self.assertTrue(torch.equal(greedy(model, ids(60)), expected))
        self.assertEqual(calls[:2], [((4, 60), (60,)), ((4, 30), (30,))])
        recorder = lazyprune.TraceRecorder()
        with lazyprune.prune(model, "lazyllm --stages 3:0.5", scorer=lambda attention, positions: -positions.double(), trace=recorder):
            greedy(model, ids(20), tokens=1)
        self.assertEqual(recorder.steps[0]["layers"][3]["active"], [*range(9), 19])  # the first tokens, and the query

    def test_policies_of_a_registry(self):
        library = lazyprune.Library(str(lazyprune.library.library_path()))
        library.add_schedule("halves", lambda layer, scores: layer.active // 2 if layer.done == 3 else None, first=3)
        model = random_model()
        with lazyprune.prune(model, "custom --schedule halves", library=library) as pruned:
            greedy(model, ids(40))
        self.assertEqual(pruned.statistics.prefill_rows, (40, 40, 40, 20, 20, 20))

        def fail(shown):
            raise ArithmeticError("no score")

        library.add_scorer("failing", fail)
        with lazyprune.prune(model, "custom --scorer failing --stages 2:0.5", library=library):
            with self.assertRaisesRegex(ArithmeticError, "no score"):
                model(ids(40))


class Caches(unittest.TestCase):
    def setUp(self):
        self.model = random_model()

    def test_conversations_continue(self):
        for policy in ("dense", PRUNED):
            with self.subTest(policy=policy), lazyprune.prune(self.model, policy) as pruned:
                first = greedy(self.model, ids(30), tokens=6, return_dict_in_generate=True)
                turn = torch.cat([first.sequences, ids(9, seed=5)], 1)
                second = greedy(self.model, turn, tokens=6, cache=first[CACHE], return_dict_in_generate=True)
                self.assertEqual(second[CACHE].get_seq_length(), 30 + 6 + 9 + 6 - 1)
                self.assertLessEqual(pruned.statistics.rows, 6 * 50)
            if policy == "dense":
                self.assertTrue(torch.equal(second.sequences, greedy(self.model, turn, tokens=6)))

    def test_drafts_after_a_cache(self):
        """Drafts for a text of which the cache has the beginning, and for the next turn."""
        text = ids(10).repeat(1, 3)
        for name, drafts in (("from the text", {"prompt_lookup_num_tokens": 4}), ("from a model", {"assistant_model": random_model()})):
            for chunk in (None, 4):
                with self.subTest(name=name, chunk=chunk):
                    with lazyprune.prune(self.model, "dense") as pruned:
                        cache = pruned.read(text[:, :20])
                        first = greedy(self.model, text, cache=cache, eos_token_id=1, prefill_chunk_size=chunk, **drafts)
                        turn = torch.cat([first, ids(9, seed=5)], 1)
                        second = greedy(self.model, turn, cache=cache, eos_token_id=1, prefill_chunk_size=chunk, **drafts)
                    self.assertTrue(torch.equal(first, greedy(self.model, text, eos_token_id=1)))
                    self.assertTrue(torch.equal(second, greedy(self.model, turn, eos_token_id=1)))

    def test_a_cache_of_one_document_forks(self):
        with lazyprune.prune(self.model, PRUNED) as pruned, torch.no_grad():
            document = pruned.cache()
            self.model(ids(30), cache=document, logits_to_keep=1)
            answers = []
            for seed in (6, 7, 6):
                question = torch.cat([ids(30), ids(8, seed=seed)], 1)
                answers.append(greedy(self.model, question, cache=copy.deepcopy(document)))
            self.assertTrue(torch.equal(answers[0], answers[2]))
            self.assertEqual(document.get_seq_length(), 30)

    def test_a_turn_in_chunks(self):
        """The turn is passed as the whole text, or as only the new tokens with a mask of the whole text."""
        with lazyprune.prune(self.model, PRUNED) as pruned:
            first = greedy(self.model, ids(40), tokens=6, return_dict_in_generate=True)
            mask, new = torch.ones(1, 45 + 30, dtype=torch.long), ids(30, seed=14)
            runs = {}
            for name, turn in {"whole": torch.cat([first.sequences[:, :45], new], 1), "new": new}.items():
                for size in (None, 8):
                    if name == "new" and not takes_new_tokens_alone():
                        self.skipTest(f"transformers {transformers.__version__} does not take new tokens alone")
                    cache = copy.deepcopy(first[CACHE])
                    text = greedy(self.model, turn, cache=cache, attention_mask=mask, prefill_chunk_size=size)
                    runs[name, size] = (text[:, -12:].tolist(), pruned.statistics)
                    self.assertEqual(runs[name, size], runs["whole", None])

    def test_holes_in_a_mask(self):
        mask = torch.ones(2, 20, dtype=torch.long)
        mask[0, 17] = mask[0, 3] = mask[1, 0] = 0
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        with torch.no_grad():
            plain = self.model(ids(20, 2), attention_mask=mask, position_ids=positions).logits
            with lazyprune.prune(self.model, "dense"):
                for keep in (1, 5, 20):
                    found = self.model(ids(20, 2), attention_mask=mask, position_ids=positions, logits_to_keep=keep).logits
                    seen = mask[:, -keep:].bool()
                    self.assertLess((found - plain[:, -keep:])[seen].abs().max(), 1e-12)

    def test_memory_is_not_made_for_every_token(self):
        tables, rotate = [], self.model.model.rotary_emb.forward
        self.model.model.rotary_emb.forward = lambda x, position_ids: (tables.append(position_ids.shape), rotate(x, position_ids))[1]
        with lazyprune.prune(self.model, PRUNED):
            greedy(self.model, ids(50), tokens=20)
        del self.model.model.rotary_emb.forward
        self.assertEqual(len(tables), 1)

    def test_inference_mode_may_end(self):
        with lazyprune.prune(self.model, PRUNED) as pruned:
            cache = pruned.cache()
            with torch.inference_mode():
                self.model(ids(20), cache=cache, logits_to_keep=1)
            self.model(ids(1), cache=cache, logits_to_keep=1)
            self.assertEqual(cache.get_seq_length(), 21)

    def test_a_document_is_read_once(self):
        batch, mask = padded()
        question = ids(6, 3, seed=13)
        whole, whole_mask = torch.cat([batch, question], 1), torch.cat([mask, torch.ones(3, 6, dtype=torch.long)], 1)
        for policy in (PRUNED, "lazyllm_blocks --stages 3:0.3 --selector blocks:size=4", "pyramid_kv --scorer window_attention:window=4"):
            with self.subTest(policy=policy), lazyprune.prune(self.model, policy) as pruned:
                expected, rows = greedy(self.model, whole, attention_mask=whole_mask), pruned.statistics.rows
                read = pruned.read(batch, mask)
                again = copy.deepcopy(read)
                for cache in (read, again):
                    found = greedy(self.model, whole, attention_mask=whole_mask, cache=cache)
                    self.assertTrue(torch.equal(found, expected))
                    self.assertEqual(pruned.statistics.rows, rows)

    def test_a_rollback_goes_back(self):
        with lazyprune.prune(self.model, "dense") as pruned, torch.no_grad():
            cache = pruned.cache()
            self.model(ids(30), cache=cache)
            expected = self.model(ids(5, seed=8), cache=copy.deepcopy(cache)).logits
            self.model(ids(11, seed=9), cache=cache)
            cache.crop(-11)
            self.assertEqual(cache.get_seq_length(), 30)
            found = self.model(ids(5, seed=8), cache=cache).logits
            self.assertTrue(torch.equal(found, expected))
            with self.assertRaisesRegex(ValueError, "crop: expected a number from -35, found -36"):
                cache.crop(-36)

    def test_several_answers_to_each_text_of_a_cache(self):
        both = torch.cat([ids(20), ids(20, seed=11)])
        with lazyprune.prune(self.model, "dense") as pruned, torch.no_grad():
            plain = greedy(self.model, both, num_beams=2)
            cache = pruned.cache()
            self.model(both[:, :12], cache=cache, logits_to_keep=1)
            cache.batch_repeat_interleave(2)
            self.assertTrue(torch.equal(greedy(self.model, both, num_beams=2, cache=cache), plain))

    def test_more_logits_than_columns_are_those_of_all_columns(self):
        with lazyprune.prune(self.model, "dense"), torch.no_grad():
            for mask in ([[0, 1, 1], [1, 1, 1]], [[0, 0, 1], [1, 1, 1]]):
                given = {"attention_mask": torch.tensor(mask)}
                self.assertTrue(torch.equal(self.model(ids(3, 2), logits_to_keep=5, **given).logits, self.model(ids(3, 2), **given).logits))

    def test_chunks_have_columns(self):
        with lazyprune.prune(self.model, PRUNED):
            for size in (0, -3):
                with self.assertRaisesRegex(ValueError, f"prefill_chunk_size: expected a number from 1, found {size}"):
                    greedy(self.model, ids(30), prefill_chunk_size=size)

    def test_texts_are_chosen_and_repeated(self):
        batch, mask = padded()
        with lazyprune.prune(self.model, PRUNED) as pruned, torch.no_grad():
            cache = pruned.cache()
            self.model(batch, attention_mask=mask, cache=cache, logits_to_keep=1)
            next_ids = ids(1, 3, seed=10)
            wider = torch.cat([mask, torch.ones(3, 1, dtype=torch.long)], 1)
            expected = self.model(next_ids, attention_mask=wider, cache=copy.deepcopy(cache), logits_to_keep=1).logits
            cache.batch_repeat_interleave(2)
            cache.reorder_cache(torch.tensor([5, 0, 0, 2]))
            cache.batch_select_indices(torch.tensor([0, 2, 3]))
            order = [2, 0, 1]
            found = self.model(next_ids[order], attention_mask=wider[order], cache=cache, logits_to_keep=1).logits
            self.assertTrue(torch.allclose(found, expected[order], atol=1e-12))

    def test_chunks_that_fail_are_forgotten(self):
        """If a chunk fails, the chunks before it are forgotten too. The earlier contents of the cache stay."""
        for known in (0, 30):
            with self.subTest(known=known), lazyprune.prune(self.model, PRUNED) as pruned, torch.no_grad():
                cache = pruned.read(ids(known)) if known else pruned.cache()
                expected = greedy(self.model, ids(60), cache=copy.deepcopy(cache))
                calls = []
                fault = self.model.model.layers[0].mlp.register_forward_hook(lambda *_: calls.append(1) or (1 / 0 if len(calls) == 3 else None))
                with self.assertRaises(ZeroDivisionError):
                    greedy(self.model, ids(60), cache=cache, prefill_chunk_size=8)
                fault.remove()
                self.assertEqual((len(calls), cache.get_seq_length()), (3, known))
                self.assertTrue(torch.equal(greedy(self.model, ids(60), cache=cache, prefill_chunk_size=8), expected))

    def test_both_names_of_a_cache(self):
        """transformers calls the argument `past_key_values` up to version 5.23, and `cache` in later versions. A pruned
        model takes both names."""
        with lazyprune.prune(self.model, PRUNED) as pruned, torch.no_grad():
            texts, logits = [], []
            for name in ("past_key_values", "cache"):
                cache = pruned.read(ids(30))
                texts.append(greedy(self.model, ids(40), **{name: cache}))
                logits.append(self.model(ids(1), **{name: cache}).logits)
                self.assertEqual(cache.get_seq_length(), 40 + 11 + 1)
            self.assertTrue(torch.equal(*texts) and torch.equal(*logits))

    def test_a_step_that_fails_is_forgotten(self):
        inner = self.model.model
        for policy, failing in ((PRUNED, inner.layers[0].mlp), ("dense", inner.layers[5].mlp), ("dense", inner.norm), ("dense", self.model.lm_head)):
            for known in (0, 30):
                recorder = lazyprune.TraceRecorder()
                with self.subTest(failing=failing, known=known), lazyprune.prune(self.model, policy, trace=recorder) as pruned, torch.no_grad():
                    cache = pruned.cache()
                    if known:
                        self.model(ids(known), cache=cache, logits_to_keep=1)
                    expected = self.model(ids(1, seed=11), cache=copy.deepcopy(cache)).logits
                    fault = failing.register_forward_hook(lambda *_: 1 / 0)
                    with self.assertRaises(ZeroDivisionError):
                        self.model(ids(7, seed=12), cache=cache, logits_to_keep=1)
                    fault.remove()
                    self.assertEqual(cache.get_seq_length(), known)
                    self.assertTrue(torch.equal(self.model(ids(1, seed=11), cache=cache).logits, expected))
                    self.assertEqual(recorder.steps[-1]["tokens"], ids(1, seed=11)[0].tolist())


class Errors(unittest.TestCase):
    def fails(self, text, call, kind=ValueError):
        with self.assertRaisesRegex(kind, re.escape(text)):
            call()

    def test_models(self):
        gpt2 = GPT2LMHeadModel(GPT2Config(n_embd=32, n_layer=2, n_head=2, vocab_size=50))
        self.fails("model: expected one of llama, mistral, qwen2, qwen3, found gpt2", lambda: lazyprune.prune(gpt2))
        self.fails("model: expected a language model of transformers, found Linear", lambda: lazyprune.prune(torch.nn.Linear(2, 2)))
        self.fails("model: expected a torch module, found str", lambda: lazyprune.prune("a folder"))
        model = random_model()
        model.config._attn_implementation = "flex_attention"
        self.fails("expected attn_implementation sdpa or eager, found flex_attention", lambda: lazyprune.prune(model))

    def test_policies(self):
        model = random_model()
        self.fails("expected one of lazyllm", lambda: lazyprune.prune(model, "lazy"), lazyprune.Error)
        self.fails("stages: stage 1: expected LAYER:SHARE", lambda: lazyprune.prune(model, "lazyllm --stages 2:x"), lazyprune.Error)
        for policy in ("custom --scorer key_norm --stages 2:0.5", "random", "dense"):
            self.fails("scorer: expected a policy of last_query_attention", lambda: lazyprune.prune(model, policy, scorer=torch.mean))
        with lazyprune.prune(model, PRUNED, scorer=lambda attention, positions: attention):
            self.fails("scorer: expected a tensor (9,), found (4, 9)", lambda: greedy(model, ids(9)))
        with lazyprune.prune(model, PRUNED, scorer=lambda attention, positions: [1.0] * 9):
            self.fails("scorer: expected a tensor (9,), found list", lambda: greedy(model, ids(9)))
        with lazyprune.prune(model, PRUNED, scorer=lambda attention, positions: attention[0] * float("nan")):
            self.fails("scorer: expected numbers, found NaN", lambda: greedy(model, ids(9)))
        self.fails("scorer: expected a function, found str", lambda: lazyprune.prune(model, PRUNED, scorer="recency"))
        self.fails("policy: expected a text, found NoneType", lambda: lazyprune.prune(model, None))
        self.fails("read: expected a call within", lambda: lazyprune.prune(model).read(ids(9)))
        self.fails("generate: expected a call within", lambda: lazyprune.prune(model).generate(ids(9)))

    def test_inputs(self):
        model = random_model()
        batch, mask = padded()
        with lazyprune.prune(model, PRUNED) as pruned:
            self.fails("found one within another prune", lambda: lazyprune.prune(model).enable())
            self.fails("padding on the left", lambda: greedy(model, batch, attention_mask=mask.flip(1)))
            self.fails("attention_mask: expected (3, 40), found (3, 39)", lambda: model(batch, attention_mask=mask[:, 1:]))
            self.fails("position_ids: expected each token's place", lambda: model(ids(5), position_ids=torch.arange(5)[None] + 1))
            self.fails("expected only arguments that a pruned model supports, found labels", lambda: model(ids(5), labels=ids(5)))
            self.fails("input_ids: expected (batch, columns), found None", lambda: model(inputs_embeds=torch.zeros(1, 2, 64)))
            self.fails("cache_implementation: expected none, found static", lambda: greedy(model, ids(5), cache_implementation="static"))
            self.fails(
                "cache: expected the PrunedCache of a pruned model, found DynamicCache",
                lambda: greedy(model, ids(5), cache=transformers.DynamicCache(config=model.config)),
            )
            static = transformers.StaticCache(config=model.config, max_cache_len=20)
            self.fails("expected the PrunedCache of a pruned model, found StaticCache", lambda: greedy(model, ids(5), cache=static))
            self.fails("expected generate with a padded batch", lambda: model.generate_batch([[5, 6, 7], [8, 9]]))
            self.fails("expected generate with a padded batch", lambda: model.continuous_batching_context_manager().__enter__())
            self.fails("cache_implementation: expected none, found paged", lambda: greedy(model, ids(5), cache_implementation="paged"))
            refused = pruned.cache()
            self.fails("padding on the left", lambda: greedy(model, batch, attention_mask=mask.flip(1), cache=refused))
            self.assertGreater(model(ids(10), cache=refused).logits.abs().max(), 0)  # the failed call left no chunk size behind
            self.fails("expected more than the 10 columns that the cache has, found 10", lambda: greedy(model, ids(10), cache=refused))
            asked = pruned.read(ids(30))
            greedy(model, ids(40), cache=asked)
            again = torch.cat([ids(30), ids(25, seed=15)], 1)
            self.fails("found another token at column 3", lambda: greedy(model, again, cache=asked))
            beams = pruned.cache()
            answers = greedy(model, ids(20), cache=beams, num_beams=2, num_return_sequences=2)
            turn = torch.cat([answers, ids(5, 2)], 1)
            self.fails("beam search leaves the texts of its beams", lambda: greedy(model, turn, cache=beams))
            self.fails("input_ids: expected (batch, columns), found str", lambda: pruned.read("a document"))
            other = lazyprune.prune(model, "dense").cache()
            self.fails("expected a cache of this model under 'lazyllm", lambda: model(ids(3), cache=other))
            self.fails("expected a cache of this model under 'lazyllm", lambda: greedy(model, ids(3), cache=other))
            cache = pruned.cache()
            model(batch, attention_mask=mask, cache=cache)
            self.fails("expected a batch of 3, as the cache has it, found 1", lambda: model(ids(1), cache=cache))
            changed = torch.cat([1 - mask, torch.ones(3, 2, dtype=torch.long)], 1)
            self.fails("attention_mask: expected the same columns as in the cache", lambda: model(ids(2, 3), attention_mask=changed, cache=cache))
            ends = torch.cat([mask, torch.tensor([[1], [0], [1]])], 1)
            self.fails("padding on the left", lambda: model(ids(1, 3), attention_mask=ends, cache=cache))
            with lazyprune.prune(random_model(), trace=lazyprune.TraceRecorder()) as traced:
                empty = traced.cache()
                self.fails("found a batch of 3", lambda: traced.decoder.model(batch, cache=empty))
                self.assertEqual(empty.get_seq_length(), 0)
        self.fails("PrunedCache: expected a model within lazyprune.prune", lambda: model(ids(1), **{CACHE: pruned.cache()}), Exception)
        self.fails("statistics: expected a forward pass before", lambda: lazyprune.prune(model).statistics)
        lazyprune.prune(model).disable()  # without enable(), disable() does nothing

    def test_outputs_that_the_configuration_asks_for(self):
        for name in ("output_attentions", "output_hidden_states"):
            model = random_model(attn_implementation="eager", **{name: True})
            with lazyprune.prune(model, PRUNED):
                for call in (lambda: model(ids(5)), lambda: greedy(model, ids(5))):
                    self.fails(f"expected only arguments that a pruned model supports, found {name}", call)
                model(ids(5), **{name: False})

    def test_a_trace_of_drafts(self):
        model, text, recorder = random_model(), ids(10).repeat(1, 3), lazyprune.TraceRecorder()
        with lazyprune.prune(model, "dense", trace=recorder) as pruned:
            self.fails("drafts cannot be recorded", lambda: greedy(model, text, eos_token_id=1, prompt_lookup_num_tokens=4))
            cache = pruned.cache()
            model(text, cache=cache, logits_to_keep=1)
            cache.crop(-4)
            self.fails("trace: expected a text that only grows, found one cut to 26 tokens", lambda: model(ids(1), cache=cache))
            self.fails("trace: expected one token in a decode step, found 3", lambda: model(ids(3), cache=cache))
            greedy(model, text)  # a new text may follow
            self.assertEqual([len(step["tokens"]) for step in recorder.steps[-12:]], [30] + 11 * [1])

    def test_a_newer_transformers_is_told_of_once(self):
        newer, tested = "7.1.0.dev0", lazyprune.interface.TESTED + ".9"
        for version, times in ((newer, 1), (tested, 0)):
            lazyprune.interface.warn_if_newer.cache_clear()
            with self.subTest(version=version), mock.patch.object(lazyprune.interface, "VERSION", version), warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                for _ in range(2):
                    with lazyprune.prune(random_model(), PRUNED) as pruned:
                        greedy(pruned.decoder.model, ids(9), tokens=2)
                here = [warning for warning in told if "lazyprune was tested with" in str(warning.message)]
                self.assertEqual(len(here), times)
                self.assertTrue(all(warning.filename == __file__ for warning in here))
        lazyprune.interface.warn_if_newer.cache_clear()

    def test_nothing_stays_behind(self):
        model = random_model()
        before = dict(model.__dict__)
        with self.assertRaises(KeyError), lazyprune.prune(model):
            raise KeyError
        self.assertEqual(before, model.__dict__)


if __name__ == "__main__":
    unittest.main()
