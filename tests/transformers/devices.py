# SPDX-License-Identifier: MIT
"""Tests of models whose layers are on several devices, or whose weights are loaded when their layer runs: accelerate's device_map and its
offload to the host and to a disk. A pruned model keeps the tokens and gives the answers that it does on one device.

devices.py FOLDER_OF_THE_PACKAGE
"""

import copy
import sys
import tempfile
import unittest

sys.path.insert(0, sys.argv.pop(1))

from small_models import FAMILIES, PRUNED, greedy, ids, needs, padded, random_model  # first, since it skips the tests if torch is missing

needs("accelerate")
import accelerate

import torch
from accelerate.hooks import AlignDevicesHook, add_hook_to_module
from torch.overrides import TorchFunctionMode
from transformers import AutoModelForCausalLM

import lazyprune
from lazyprune.interface import CACHE

# Each model's later layers are on the second device.
FIRST = ("model.embed_tokens", "model.rotary_emb", *(f"model.layers.{i}" for i in range(3)))
SECOND = (*(f"model.layers.{i}" for i in range(3, 6)), "model.norm", "lm_head")


class TwoDevices(TorchFunctionMode):
    """Imitates two devices, cpu:0 and cpu:1, on a machine that has none. Each tensor has a mark that says where it is; a tensor without mark
    is on the host. As with real devices, an operation with tensors of several devices fails, unless it copies."""

    COPIES = {torch.Tensor.copy_, torch.Tensor.to, torch.Tensor.cpu}

    @staticmethod
    def place(tensor):
        return tensor.__dict__.get("place")

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        tensors = [t for t in (*flat(args), *flat(kwargs.values())) if isinstance(t, torch.Tensor)]
        if function == torch.Tensor.device.__get__:  # each access makes a new object
            place = self.place(args[0])
            return torch.device("cpu") if place is None or args[0].is_meta else torch.device("cpu", place)
        places = {self.place(t) for t in tensors if t.ndim or self.place(t) is not None}
        if len(places) > 1 and function not in self.COPIES:
            raise RuntimeError(f"{function.__name__}: expected all tensors on one device, found {places}")
        place = self.place(tensors[0]) if tensors else None
        asked = next((d for d in (*args[1:], *kwargs.values()) if isinstance(d, torch.device)), None)
        if function is torch.Tensor.numpy and place is not None:
            raise RuntimeError(f"numpy: expected a tensor on the host, found one on cpu:{place}")
        if asked is not None:
            bare = lambda value: torch.device("cpu") if isinstance(value, torch.device) else value
            args, kwargs = (*args[:1], *map(bare, args[1:])), {name: bare(value) for name, value in kwargs.items()}
            moved = place != asked.index
            place = asked.index
            if moved and function is torch.Tensor.to:
                args = (args[0].clone(), *args[1:])
        if function is torch.Tensor.cpu:
            args, place = (args[0].clone(),), None
        result = function(*args, **kwargs)
        for tensor in flat([result]):
            if isinstance(tensor, torch.Tensor) and place is not None:
                tensor.place = place
            elif isinstance(tensor, torch.Tensor):
                tensor.__dict__.pop("place", None)
        return result


def flat(values):
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from flat(value)
        else:
            yield value


class Brings(AlignDevicesHook):
    """accelerate's hook, for a module whose weights are on its device already."""

    def init_hook(self, module):
        return module


def on_two_devices(model):
    for place, names in enumerate((FIRST, SECOND)):
        for name in names:
            module = model.get_submodule(name)
            for tensor in (*module.parameters(), *module.buffers()):
                tensor.place = place
            add_hook_to_module(module, Brings(execution_device=torch.device("cpu", place)))
    add_hook_to_module(model, Brings(io_same_device=True))
    model.hf_device_map = {name: place for place, names in enumerate((FIRST, SECOND)) for name in names}
    return model


class SameAsOnOneDevice(unittest.TestCase):
    def answers(self, model, policy):
        """Returns answers, the cost, and what each layer saw."""
        batch, mask = padded()
        recorder = lazyprune.TraceRecorder()
        with lazyprune.prune(model, policy, trace=recorder) as pruned:
            found = [greedy(model, ids(60)).tolist(), pruned.statistics, recorder.steps]
        with lazyprune.prune(model, policy) as pruned:
            found.append(greedy(model, batch, attention_mask=mask, prefill_chunk_size=16).tolist())
            read = pruned.read(ids(40))
            found += [greedy(model, ids(50), cache=copy.deepcopy(read)).tolist(), pruned.statistics]
            logits = model(ids(30)).logits
            self.assertEqual(logits.device, torch.device("cpu"))
        return [*found, logits.tolist()]

    def test_two_devices(self):
        for name, make in FAMILIES.items():
            for policy in (PRUNED, "custom --scorer value_weighted_attention --stages 3:0.5") if name == "llama" else ("lazyllm --stages 2:0.5",):
                with self.subTest(name=name, policy=policy):
                    expected = self.answers(make(), policy)
                    model = on_two_devices(make())
                    with TwoDevices():
                        self.assertEqual(self.answers(model, policy), expected)

    def test_rows_live_where_their_layer_does(self):
        model = on_two_devices(random_model())
        with TwoDevices(), lazyprune.prune(model, PRUNED) as pruned:
            found = greedy(model, ids(60), tokens=20, return_dict_in_generate=True)
            (text,) = found[CACHE].texts
            for memory in (text.keys, text.values):
                self.assertEqual([tensor.device.index for tensor in memory], [0, 0, 0, 1, 1, 1])
            self.assertEqual({device.index: rows.device.index for device, rows in text.stored.items()}, {0: 0, 1: 1})
            self.assertGreater(pruned.statistics.revived, 0)

    def test_the_imitation_refuses_what_devices_refuse(self):
        """Without the hooks, a model on two devices cannot run."""
        model = on_two_devices(random_model())
        accelerate.hooks.remove_hook_from_module(model.model.layers[3])
        with TwoDevices(), lazyprune.prune(model, PRUNED), self.assertRaisesRegex(RuntimeError, "expected all tensors on one device"):
            greedy(model, ids(60))

    def test_weights_offloaded_to_the_host(self):
        expected = self.answers(random_model(), PRUNED)
        model = accelerate.cpu_offload(random_model(), execution_device=torch.device("cpu"))
        self.assertTrue(all(parameter.is_meta for parameter in model.parameters()))
        self.assertEqual(self.answers(model, PRUNED), expected)
        self.assertTrue(all(parameter.is_meta for parameter in model.parameters()))

    def test_weights_offloaded_to_a_disk(self):
        with tempfile.TemporaryDirectory() as folder:
            random_model().save_pretrained(folder)
            expected = self.answers(random_model(), PRUNED)
            for disk in (SECOND, FIRST):
                devices = {name: "disk" if name in disk else "cpu" for name in FIRST + SECOND}
                model = AutoModelForCausalLM.from_pretrained(
                    folder, dtype=torch.float64, device_map=devices, offload_folder=f"{folder}/offload"
                )
                offloaded = [name for name, parameter in model.named_parameters() if parameter.is_meta]
                self.assertTrue(offloaded and all(name.startswith(disk) for name in offloaded))
                self.assertEqual(self.answers(model, PRUNED), expected)


if __name__ == "__main__":
    unittest.main()
