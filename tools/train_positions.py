#!/usr/bin/env python3
"""Train four small language models that differ in their positions, as ordinary model directories.

  TEXT (UTF-8, 10 MB are plenty) -> the last 3 % is OUT/heldout.txt -> a byte-level BPE tokenizer
  from the rest -> OUT/{rope-llama,alibi-bloom,learned-gpt2,sinusoidal-gpt2}, each with config.json,
  model.safetensors (bfloat16), tokenizer.json, and ppl_torch.json: PyTorch's perplexity by length
  over the first 24 windows of the held-out text, in float32 from the bfloat16 weights.

The models are those of docs/length-extrapolation.md, whose script measures OUT as it is. With
--check the logits that ROPEWALK computes are compared with PyTorch's, for every model.
Needs torch, transformers, tokenizers, safetensors.
"""
import argparse, json, math, os, subprocess, sys, tempfile
import torch
from safetensors.torch import load_file, save_file
from tokenizers import ByteLevelBPETokenizer
from transformers import (BloomConfig, BloomForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig,
                          LlamaForCausalLM, PreTrainedTokenizerFast)

LAYERS, HIDDEN, HEADS, INNER, CONTEXT, LONGEST = 6, 256, 8, 512, 256, 1024
RATE, WARMUP, DECAY = 2e-3, 60, 0.1
END = '<|endoftext|>'
TOLERANCE = 1e-4  # of the largest logit: what docs/parity.md promises of trained models


class ScaledEmbedding(torch.nn.Embedding):
    """Token embeddings times the square root of the hidden size; the output head is not scaled."""
    def forward(self, ids):
        return super().forward(ids) * math.sqrt(self.embedding_dim)


class Sinusoids(torch.nn.Module):
    """Sine and cosine in turn, frequencies 10000^(-2m/d): positions without a parameter."""
    def forward(self, positions):
        m = torch.arange(0, HIDDEN, 2, dtype=torch.float32)
        angles = positions[..., None] / 10000 ** (m / HIDDEN)
        return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)


def make_gpt2(common):
    return GPT2LMHeadModel(GPT2Config(n_embd=HIDDEN, n_layer=LAYERS, n_head=HEADS, n_inner=INNER,
                                      n_positions=LONGEST, resid_pdrop=0, embd_pdrop=0,
                                      attn_pdrop=0, **common))


def make_sinusoidal(common):
    model = make_gpt2(common)
    wte = ScaledEmbedding(common['vocab_size'], HIDDEN)
    wte.weight = model.transformer.wte.weight  # still shared with the output head
    model.transformer.wte, model.transformer.wpe = wte, Sinusoids()
    # keys of Ropewalk's own: transformers has no such GPT-2
    model.config.update({'position_embedding_type': 'sinusoidal', 'scale_embedding': True})
    return model


def make_rope(common):
    return LlamaForCausalLM(LlamaConfig(hidden_size=HIDDEN, intermediate_size=INNER,
                                        num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                                        max_position_embeddings=CONTEXT, rms_norm_eps=1e-5,
                                        rope_parameters={'rope_type': 'default',
                                                         'rope_theta': 10000.0}, **common))


def make_alibi(common):
    return BloomForCausalLM(BloomConfig(hidden_size=HIDDEN, n_layer=LAYERS, n_head=HEADS, **common))


MODELS = {'rope-llama': make_rope, 'alibi-bloom': make_alibi, 'learned-gpt2': make_gpt2,
          'sinusoidal-gpt2': make_sinusoidal}


def train(model, ids, steps, batch):
    """AdamW with decay on matrices only, linear warm-up, then a cosine down to a tenth."""
    windows = torch.Generator().manual_seed(7)  # the same windows for every model
    groups = [{'params': [p for p in model.parameters() if p.dim() >= 2], 'weight_decay': DECAY},
              {'params': [p for p in model.parameters() if p.dim() < 2], 'weight_decay': 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.95))
    warmup = min(WARMUP, steps // 10 + 1)
    for step in range(steps):
        cosine = math.cos(math.pi * max(0, step - warmup) / max(1, steps - warmup))
        for group in optimizer.param_groups:
            group['lr'] = RATE * min((step + 1) / warmup, 0.55 + 0.45 * cosine)
        starts = torch.randint(len(ids) - CONTEXT, (batch,), generator=windows)
        x = torch.stack([ids[s:s + CONTEXT] for s in starts])
        loss = model(input_ids=x, labels=x).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 20 == 0 or step == steps - 1:
            print(f'  step {step + 1}/{steps}: loss {loss.item():.3f}', flush=True)


@torch.no_grad()
def perplexities(model, ids):
    result = {}
    for length in (128, 256, 512, 1024):
        n = min(24, len(ids) // length)
        losses = [model(input_ids=w[None], labels=w[None]).loss.item()
                  for w in ids[:n * length].view(n, length)]
        if n:
            result[length] = round(math.exp(sum(losses) / n), 3)
    return result


def save(model, tokenizer, directory):
    """Stores bfloat16 and leaves in the model, in float32, what was stored."""
    model.to(torch.bfloat16)
    model.config.dtype = 'bfloat16'
    model.config.save_pretrained(directory)
    tensors = {n: p.detach().clone() for n, p in model.named_parameters()}  # tied ones once
    save_file(tensors, os.path.join(directory, 'model.safetensors'), metadata={'format': 'pt'})
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=END,
                            eos_token=END).save_pretrained(directory)
    model.to(torch.float32).eval()


@torch.no_grad()
def check(ropewalk, model, directory, ids):
    with tempfile.TemporaryDirectory() as tmp:
        output = os.path.join(tmp, 'logits.safetensors')
        subprocess.run([ropewalk, 'logits', directory, '--ids', ' '.join(map(str, ids.tolist())),
                        '--kv-type', 'f32', '--output', output, '--quiet'], check=True)
        got = load_file(output)['logits']
    want = model(input_ids=ids[None]).logits[0]
    difference = ((got - want).abs().max() / want.abs().max()).item()
    print(f'  {len(ids)} tokens: logits differ from PyTorch by {difference:.1e} of the largest')
    return difference <= TOLERANCE


def main():
    a = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument('text', metavar='TEXT')
    a.add_argument('out', metavar='OUT')
    a.add_argument('--steps', type=int, default=600)
    a.add_argument('--batch', type=int, default=16, help='windows of a step')
    a.add_argument('--vocab', type=int, default=4096, help='entries of the tokenizer')
    a.add_argument('--check', metavar='ROPEWALK')
    a = a.parse_args()
    with open(a.text, 'rb') as f:
        text = f.read().decode(errors='replace')
    os.makedirs(a.out, exist_ok=True)
    cut = int(len(text) * 0.97)
    with open(os.path.join(a.out, 'heldout.txt'), 'w', encoding='utf-8', newline='') as f:
        f.write(text[cut:])
    bpe = ByteLevelBPETokenizer()
    bpe.train_from_iterator([text[:cut]], vocab_size=a.vocab, special_tokens=[END],
                            show_progress=False)
    ids, heldout = (torch.tensor(bpe.encode(t).ids) for t in (text[:cut], text[cut:]))
    if len(ids) <= CONTEXT:
        sys.exit(f'{a.text}: too short to train on')
    common = {'vocab_size': bpe.get_vocab_size(), 'bos_token_id': 0, 'eos_token_id': 0,
              'tie_word_embeddings': True, 'attn_implementation': 'eager'}
    good = True
    for name, make in MODELS.items():
        print(name, flush=True)
        torch.manual_seed(1)
        model, directory = make(common).train(), os.path.join(a.out, name)
        train(model, ids, a.steps, a.batch)
        save(model, bpe._tokenizer, directory)
        result = perplexities(model, heldout)
        print('  held-out perplexity by length:', result)
        with open(os.path.join(directory, 'ppl_torch.json'), 'w') as f:
            json.dump(result, f)
        if a.check:
            good &= check(a.check, model, directory, heldout[:LONGEST])
    return not good


if __name__ == '__main__':
    sys.exit(main())
