#!/usr/bin/env python3
"""Makes tests/data/checkpoints from a folder of small checkpoints: weights rounded to bfloat16 (half the size), and what
transformers computes for them in float32 (eager attention; sdpa where eager is known to be wrong): `prompt`, `logits` of every
position, `greedy` continuation.

usage: make_checkpoints.py SOURCE OUT NAME...      Needs: pip install torch transformers safetensors
"""
import json, os, shutil, sys
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

source, out = sys.argv[1:3]
for name in sys.argv[3:]:
    src, dst = f'{source}/{name}', f'{out}/{name}'
    os.makedirs(dst, exist_ok=True)
    for f in os.listdir(src):
        if f.endswith('.json') and f != 'case.json':
            shutil.copyfile(f'{src}/{f}', f'{dst}/{f}')
        elif f.endswith('.safetensors') and not f.startswith('expected'):
            t = {k: v.to(torch.bfloat16).contiguous() if v.dtype == torch.float32 else v for k, v in load_file(f'{src}/{f}').items()}
            save_file(t, f'{dst}/{f}', metadata={'format': 'pt'})
    attention = 'sdpa' if 'falcon-alibi' in name else 'eager'
    model = AutoModelForCausalLM.from_pretrained(dst, dtype=torch.float32, attn_implementation=attention).eval()
    old = load_file(f'{src}/expected.safetensors')
    prompt = old['prompt']
    with torch.no_grad():
        logits = model(prompt[None], use_cache=False).logits[0].float()
        result = {'prompt': prompt, 'logits': logits.contiguous()}
        if 'greedy' in old:
            ids = prompt.clone()
            for _ in range(len(old['greedy'])):
                ids = torch.cat([ids, model(ids[None], use_cache=False).logits[0, -1].argmax()[None]])
            result['greedy'] = ids[len(prompt):].contiguous()
    save_file(result, f'{dst}/expected.safetensors')
    print(name)
