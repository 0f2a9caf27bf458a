# SPDX-License-Identifier: MIT
"""Trains the pocket model: a Llama of 1.5 million parameters that answers questions about prompts of up to 4,096 tokens.

usage: train.py [stage ...]      (pip: torch, sentencepiece, safetensors; about 75 minutes on two CPU cores)

From random weights, a small transformer takes very long to learn how to find a token by its content. So `warm_start` sets some weights: the heads
of layer 0 look 1 to 4 tokens back, and the heads of layers 1 to 3 compare what those heads gathered. Then all weights are trained.
"""
import json, math, os, random, sys, time
import torch, torch.nn as nn, torch.nn.functional as F
import sentencepiece
from safetensors.torch import save_file
import tasks

HERE = os.path.dirname(os.path.abspath(__file__))
DIM, LAYERS, HEADS, KV_HEADS, FFN, VOCAB, THETA, EPS = 128, 6, 4, 2, 256, 2304, 1e7, 1e-5
HEAD = DIM // HEADS
EVEN = "single_doc_qa multi_doc_qa profile summarization few_shot passage_retrieval code_completion".split()
HARD = EVEN + "multi_doc_qa profile few_shot passage_retrieval".split()
# name: (stage to start from, [(steps, batch, tokens)], range of the document's share of a sequence, tasks, share of sequences of repeated words)
STAGES = {
    "short": (None, [(1500, 16, 256)], (0.25, 0.6), EVEN, 0.10),
    "long": ("short", [(1500, 8, 512), (1000, 4, 1024), (2400, 2, 2048), (300, 1, 4096)], (0.3, 0.93), HARD, 0.02),
}


def bf(w): return w.bfloat16()


def rms_norm(x, w): return F.rms_norm(x.float(), (x.shape[-1],), w, EPS)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        lin = lambda i, o: nn.Linear(i, o, bias=False)
        self.q, self.k, self.v, self.o = lin(DIM, DIM), lin(DIM, KV_HEADS * HEAD), lin(DIM, KV_HEADS * HEAD), lin(DIM, DIM)
        self.g, self.u, self.dn = lin(DIM, FFN), lin(DIM, FFN), lin(FFN, DIM)
        self.n1, self.n2 = nn.Parameter(torch.ones(DIM)), nn.Parameter(torch.ones(DIM))

    def forward(self, x, cos, sin, mask):  # x: (batch, tokens, DIM)
        B, T, _ = x.shape
        y = bf(rms_norm(x, self.n1))
        split = lambda z, n: z.view(B, T, n, HEAD).transpose(1, 2)
        q, k, v = split(F.linear(y, bf(self.q.weight)), HEADS), split(F.linear(y, bf(self.k.weight)), KV_HEADS), split(F.linear(y, bf(self.v.weight)), KV_HEADS)

        def rope(t):
            a, b = t.float().chunk(2, -1)
            return bf(torch.cat([a * cos - b * sin, b * cos + a * sin], -1))
        q, k = rope(q), rope(k).repeat_interleave(HEADS // KV_HEADS, 1)
        v = v.repeat_interleave(HEADS // KV_HEADS, 1)
        a = ((q * HEAD ** -0.5) @ k.transpose(-1, -2) + mask).softmax(-1) @ v if T <= 600 else F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + F.linear(a.transpose(1, 2).reshape(B, T, DIM), bf(self.o.weight)).float()
        y = bf(rms_norm(x, self.n2))
        return x + F.linear(F.silu(F.linear(y, bf(self.g.weight))) * F.linear(y, bf(self.u.weight)), bf(self.dn.weight)).float()


class Pocket(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.head = nn.Embedding(VOCAB, DIM), nn.Linear(DIM, VOCAB, bias=False)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.nf = nn.Parameter(torch.ones(DIM))
        for n, p in self.named_parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=1.0 if "emb" in n else 0.02 if "head" in n else DIM ** -0.5 * ((2 * LAYERS) ** -0.5 if ".o." in n or ".dn." in n else 1))

    def forward(self, x, idx):  # returns logits only for the flattened positions `idx`
        T = x.shape[1]
        f = torch.arange(T).float()[:, None] * THETA ** (-torch.arange(0, HEAD, 2).float() / HEAD)
        mask = torch.full((T, T), float("-inf"), dtype=torch.bfloat16).triu(1)
        y = self.emb(x)
        for b in self.blocks:
            y = b(y, f.cos(), f.sin(), mask)
        return F.linear(bf(rms_norm(y.reshape(-1, DIM)[idx], self.nf)), bf(self.head.weight)).float()


@torch.no_grad()
def warm_start(m, const=4.0, sharp=6.0, gain=2.5, copy=4.0):
    half = HEAD // 2
    inv = THETA ** (-torch.arange(0, HEAD, 2).float() / HEAD)
    m.emb.weight[:, 0] = const                     # one constant feature, so that queries and keys can be constant
    amp = torch.zeros(half); amp[:int((inv > 0.03).sum())] = sharp
    b = m.blocks[0]; b.q.weight.mul_(0.05); b.k.weight.mul_(0.05)
    for h in range(HEADS):                         # head h looks h + 1 tokens back, and finds this place by the rotary angle alone
        b.q.weight[h * HEAD:h * HEAD + half, 0] += amp * torch.cos(-inv * (h + 1)) / const
        b.q.weight[h * HEAD + half:(h + 1) * HEAD, 0] += amp * torch.sin(-inv * (h + 1)) / const
    read = torch.randn(HEAD, DIM) * DIM ** -0.5; read[:, 0] = 0
    for h in range(KV_HEADS):
        b.k.weight[h * HEAD:h * HEAD + half, 0] += amp / const
        b.v.weight[h * HEAD:(h + 1) * HEAD] = read
    Q = torch.linalg.qr(torch.randn(DIM, DIM))[0]
    b.o.weight.copy_(Q * 1.5)
    code = [read] + [Q[:, h * HEAD:(h + 1) * HEAD].T for h in range(HEADS)]   # code[j] reads the token that is j places back
    slow = (inv * 300 < 1).float().repeat(2)       # content is compared only by rotary pairs that hardly turn over the length of a prompt

    def put(w, row, j): w[row * HEAD:(row + 1) * HEAD] = w[row * HEAD:(row + 1) * HEAD] * 0.1 + slow[:, None] * code[j] * gain
    for l, (ks, qs) in {1: ((1, 2), (1, 0, 2, 1)), 2: ((3, 4), (3, 2, 4, 3)), 3: ((0, 0), (4, 3, 2, 1))}.items():
        for i, j in enumerate(ks): put(m.blocks[l].k.weight, i, j)
        for i, j in enumerate(qs): put(m.blocks[l].q.weight, i, j)
    # In heads 1 and 3 of layers 1 and 2, the query is the token j places back, and the keys are the tokens j + 1 places back. Such a head finds
    # the token that followed an earlier occurrence of the same token. So these heads begin as heads that copy the token that they find.
    A = torch.linalg.qr(torch.randn(DIM, DIM))[0]
    e = m.emb.weight.clone(); e[:, 0] = 0
    m.head.weight.copy_(e @ A.T * 0.05)
    for l in (1, 2):
        b = m.blocks[l]; b.v.weight[:, 0] = 0
        for h in (1, 3):
            kv = h * KV_HEADS // HEADS
            b.o.weight[:, h * HEAD:(h + 1) * HEAD] = A @ b.v.weight[kv * HEAD:(kv + 1) * HEAD].T * copy


_tok = sentencepiece.SentencePieceProcessor(model_file=HERE + "/model/tokenizer.model")
_cache = {}


def encode(text):  # every word of the tasks is one token
    out = []
    for w in text.split():
        if w not in _cache: _cache[w] = _tok.encode(w)
        out += _cache[w]
    return out


WORDS = [i for w in sorted({w for l in tasks.CLASSES + [tasks.FIRST, tasks.LAST, tasks.TOPIC, tasks.LABEL, tasks.VAR] for w in l}) for i in encode(w)]


def repeated(r, T):
    """Returns random words followed by the same words. Every word of the repetition except the first is an answer."""
    out, ans = [1], [0]; n = r.randrange(8, T // 2)
    while len(out) < T + 1:
        ids = r.sample(WORDS, min(n, len(WORDS)))
        out += ids + ids; ans += [0] * (len(ids) + 1) + [1] * (len(ids) - 1)
    return out[:T + 1], ans[:T + 1]


def sequence(r, T, doc_share, mix, repeat):
    """Returns T + 1 token ids, and which of them are answers. The ids are documents, each followed by questions about it."""
    if r.random() < repeat: return repeated(r, T)
    ids, ans = [], []
    while len(ids) < T + 1:
        room, t = T + 1 - len(ids), r.choice(mix)
        budget = max(40, int(room * r.uniform(*doc_share))); filler = r.random() * 0.5 * (room > 200)
        ins, doc, qs = tasks.TASKS[t](r, max(2, int(budget * (1 - filler) / tasks.COST[t])), int(budget * filler / tasks.FILL_COST), 1 + room // 12)
        a = [1] + encode(ins + " " + doc); ids += a; ans += [0] * len(a)
        for q, words in qs:
            if len(ids) > T: break
            a = encode(q); ids += a; ans += [0] * len(a)
            for w in words:
                a = encode(w); ids += a; ans += [int(w not in ",.")] * len(a)
            if words[-1] != ".": ids += encode("."); ans.append(0)
    return ids[:T + 1], ans[:T + 1]


def train(stage):
    start, plan, doc_share, mix, repeat = STAGES[stage]
    torch.manual_seed(0); r = random.Random(1); m = Pocket()
    if start: m.load_state_dict(torch.load(f"{HERE}/{start}.pt"))
    else: warm_start(m)
    opts = [torch.optim.AdamW([m.emb.weight, m.head.weight] + [p for p in m.parameters() if p.dim() < 2], lr=1e-3, betas=(0.9, 0.98), weight_decay=0),
            torch.optim.Muon([p for n, p in m.named_parameters() if p.dim() > 1 and "blocks" in n], lr=4e-3, weight_decay=0.01)]
    base = [o.param_groups[0]["lr"] for o in opts]; total = sum(s for s, _, _ in plan); step = 0; t0 = time.time(); acc = 0
    for steps, B, T in plan:
        for _ in range(steps):
            for o, b in zip(opts, base): o.param_groups[0]["lr"] = b * min(1, (step + 1) / 150, max(0.02, (total - step) / (0.4 * total)))
            S = [sequence(r, T, doc_share, mix, repeat) for _ in range(B)]
            x, a = torch.tensor([s[0] for s in S]), torch.tensor([s[1] for s in S])
            y, w = x[:, 1:].reshape(-1), a[:, 1:].reshape(-1)
            idx = ((w > 0) | (torch.rand(w.shape) < 0.1)).nonzero()[:, 0]; y, w = y[idx], w[idx].float()
            z = m(x[:, :-1], idx); l = F.cross_entropy(z, y, reduction="none")
            loss = (l * w).sum() / w.sum().clamp(min=1) + 0.3 * (l * (1 - w)).sum() / (1 - w).sum().clamp(min=1)
            for o in opts: o.zero_grad()
            loss.backward(); nn.utils.clip_grad_norm_(m.parameters(), 1.0)
            for o in opts: o.step()
            step += 1; acc += 0.05 * (((z.argmax(-1) == y) * w).sum().item() / max(1, w.sum().item()) - acc)
            if step % 50 == 0: print(f"{stage} {step}/{total} tokens {T} loss {loss.item():.3f} answers right {acc:.3f} {time.time() - t0:.0f} s", flush=True)
    torch.save(m.state_dict(), f"{HERE}/{stage}.pt"); return m


def export(m, out):
    os.makedirs(out, exist_ok=True); s = m.state_dict()
    w = {"model.embed_tokens.weight": s["emb.weight"], "lm_head.weight": s["head.weight"], "model.norm.weight": s["nf"]}
    names = dict(q="self_attn.q_proj", k="self_attn.k_proj", v="self_attn.v_proj", o="self_attn.o_proj", g="mlp.gate_proj", u="mlp.up_proj", dn="mlp.down_proj")
    for l in range(LAYERS):
        for a, b in names.items(): w[f"model.layers.{l}.{b}.weight"] = s[f"blocks.{l}.{a}.weight"]
        w[f"model.layers.{l}.input_layernorm.weight"] = s[f"blocks.{l}.n1"]; w[f"model.layers.{l}.post_attention_layernorm.weight"] = s[f"blocks.{l}.n2"]
    save_file({k: bf(v).contiguous() for k, v in w.items()}, out + "/model.safetensors", metadata={"format": "pt"})
    json.dump(dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_act="silu", hidden_size=DIM, intermediate_size=FFN, num_hidden_layers=LAYERS,
                   num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=HEAD, vocab_size=VOCAB, max_position_embeddings=4096, rms_norm_eps=EPS, rope_theta=THETA,
                   rope_scaling=None, tie_word_embeddings=False, attention_bias=False, mlp_bias=False, bos_token_id=1, eos_token_id=2, torch_dtype="bfloat16"),
              open(out + "/config.json", "w"), indent=1)


if __name__ == "__main__":
    for stage in sys.argv[1:] or STAGES: m = train(stage)
    export(m, HERE + "/model")
