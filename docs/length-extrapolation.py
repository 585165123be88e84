#!/usr/bin/env python3
"""Measure what docs/length-extrapolation.md shows, and write its tables and plots.

  ROPEWALK perplexity (one run for each table) -> DIR/NAME.json and DIR/NAME.svg
    -> the blocks `<!-- NAME -->` ... `<!-- end -->` of the page, and the plots beside it

EXPERIMENT holds rope-llama, alibi-bloom, learned-gpt2, sinusoidal-gpt2 and heldout.txt, as
tools/train_positions.py writes them. MODEL is a model with rotary positions trained to 8192 tokens,
TEXT has at least 16384 tokens; without --large that part of the page stays as it is. A run whose
result is in DIR already is not repeated, so that an interrupted measurement goes on where it
stopped. Only the standard library is used; the plots need gnuplot.
"""
import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile

MODELS = ['learned-gpt2', 'sinusoidal-gpt2', 'rope-llama', 'alibi-bloom']
SCALINGS = ['none'] + [f'{kind}:{factor}' for kind in ('linear', 'ntk', 'dynamic', 'yarn')
                       for factor in (2, 4)]
LARGE_SCALINGS = ['none', 'linear:2', 'ntk:2', 'dynamic:2', 'yarn:2']
LENGTHS = [128, 256, 512, 1024]
WINDOWS, BUCKETS = 24, 8
TEXT = 'heldout.txt'
LARGE = 16384


def scaling_options(scalings):
    return [word for s in scalings for word in ('--rope-scaling', s)]


class Measurements:
    """Runs of `ropewalk perplexity`, each kept under a name."""

    def __init__(self, program, directory):
        self.program, self.directory = os.path.abspath(program), os.path.abspath(directory)

    def path(self, name, ending):
        return os.path.join(self.directory, name + ending)

    def run(self, name, where, *arguments, plot=True):
        """The results of one run in the directory `where`, whose names the plot then shows."""
        kept = self.path(name, '.json')
        if not os.path.exists(kept):
            print(f'measuring {name} ...', file=sys.stderr, flush=True)
            drawn = ['--plot', self.path(name, '.svg')] if plot else []
            done = subprocess.run([self.program, 'perplexity', *map(str, arguments), '--quiet',
                                   '--json', *drawn], cwd=where, stdout=subprocess.PIPE)
            if done.returncode:
                sys.exit(f'{name}: ropewalk perplexity failed')
            with open(kept + '.part', 'wb') as f:
                f.write(done.stdout)
            os.replace(kept + '.part', kept)
        with open(kept, encoding='utf-8') as f:
            return json.load(f)['results']


# ---- tables ----

def table(head, rows, n_text=1):
    """Markdown; the first n_text columns are text, the others numbers."""
    lines = [head, ['---'] * n_text + ['---:'] * (len(head) - n_text), *rows]
    return '\n'.join('| ' + ' | '.join(line) + ' |' for line in lines)


def by_length(results, label):
    rows = {}
    for r in results:
        rows.setdefault(r[label], {})[r['length']] = f'{r["perplexity"]:.1f}'
    lengths = sorted({r['length'] for r in results})
    return table([label.replace('_', ' '), *map(str, lengths)],
                 [[name] + [row[n] for n in lengths] for name, row in rows.items()])


def by_position(results, label):
    spans = [f'{b["first_position"]}–{b["last_position"]}' for b in results[0]['buckets']]
    return table([label.replace('_', ' '), *spans],
                 [[r[label]] + [f'{b["perplexity"]:.1f}' for b in r['buckets']] for r in results])


def joined(buckets):
    n = sum(b['tokens'] for b in buckets)
    return math.exp(sum(b['tokens'] * math.log(b['perplexity']) for b in buckets) / n)


def by_half(results):
    rows = []
    for r in results:
        parts = r['buckets'][:BUCKETS // 2], r['buckets'][BUCKETS // 2:], r['buckets']
        rows.append([r['rope_scaling']] + [f'{joined(part):.2f}' for part in parts])
    first, last = results[0]['buckets'][BUCKETS // 2 - 1], results[0]['buckets'][-1]
    middle = first['last_position']
    spans = f'1–{middle}', f'{middle + 1}–{last["last_position"]}', 'all'
    return table(['rope scaling', *spans], rows)


# ---- against PyTorch ----

def torch_values(experiment):
    """(model, scaling or None, length) -> perplexity, of what lies in the directory."""
    values = {}
    for model in MODELS:
        path = os.path.join(experiment, model, 'ppl_torch.json')
        if os.path.exists(path):
            with open(path) as f:
                values.update({(model, None, int(n)): p for n, p in json.load(f).items()})
    path = os.path.join(experiment, 'rope_extension_torch.json')
    if os.path.exists(path):
        with open(path) as f:
            kept = json.load(f)
        for scaling, row in kept['perplexity'].items():
            values.update({(kept['model'], scaling, n): p for n, p in zip(kept['lengths'], row)})
    return values


def against_torch(measurements, experiment):
    expected, rows = torch_values(experiment), {}
    for length in LENGTHS:
        cases = [key for key in expected if key[2] == length]
        models = [model for model, scaling, _ in cases if scaling is None]
        scaled = sorted({(model, scaling) for model, scaling, _ in cases if scaling})
        runs = [(f'torch-{length}', models, [])] if models else []
        runs += [(f'torch-{model}-{length}', [model], [s for m, s in scaled if m == model])
                 for model in sorted({model for model, _ in scaled})]
        for name, of, scalings in runs:
            for r in measurements.run(name, experiment, *of, TEXT, '--length', length,
                                      '--max-tokens', WINDOWS * length,
                                      *scaling_options(scalings), plot=False):
                want = expected[r['model'], r['rope_scaling'], length]
                row = rows.setdefault((r['model'], r['rope_scaling'] or 'as configured'), [])
                row.append(abs(r['perplexity'] / want - 1))
    return table(['model', 'rope scaling', 'lengths', 'largest difference'],
                 [[m, s, str(len(row)), f'{100 * max(row):.4f} %'] for (m, s), row in rows.items()],
                 n_text=2)


# ---- the page ----

def replace_block(page, name, text):
    pattern = re.compile(rf'(<!-- {name} -->\n).*?(<!-- end -->)', re.S)
    if not pattern.search(page):
        sys.exit(f'the page has no block {name}')
    return pattern.sub(lambda m: f'{m[1]}\n{text}\n\n{m[2]}', page)


def measure(a, m):
    """block name -> Markdown"""
    tokens = ['--max-tokens', WINDOWS * LENGTHS[-1]]
    short = ['--length', ','.join(map(str, LENGTHS)), *tokens]
    places = ['--length', LENGTHS[-1], '--buckets', BUCKETS, *tokens]
    scalings, where = scaling_options(SCALINGS), a.experiment
    blocks = {
        'schemes': by_length(m.run('schemes', where, *MODELS, TEXT, *short), 'model'),
        'schemes-position': by_position(
            m.run('schemes-position', where, *MODELS, TEXT, *places), 'model'),
        'scalings': by_length(
            m.run('scalings', where, 'rope-llama', TEXT, *short, *scalings), 'rope_scaling'),
        'scalings-position': by_position(
            m.run('scalings-position', where, 'rope-llama', TEXT, *places, *scalings),
            'rope_scaling'),
        'torch': against_torch(m, where),
    }
    if a.large:
        model, text = map(os.path.abspath, a.large)
        large = m.run('large', os.path.dirname(model), os.path.basename(model), text,
                      '--length', LARGE, '--max-tokens', LARGE, '--buckets', BUCKETS,
                      *scaling_options(LARGE_SCALINGS))
        blocks['large'] = by_half(large)
        blocks['large-position'] = by_position(large, 'rope_scaling')
    return blocks


def main():
    beside = os.path.splitext(os.path.abspath(__file__))[0]
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('ropewalk', metavar='ROPEWALK')
    p.add_argument('experiment', metavar='EXPERIMENT')
    p.add_argument('--large', nargs=2, metavar=('MODEL', 'TEXT'))
    p.add_argument('--results', metavar='DIR', help='where results are kept (default: nowhere)')
    p.add_argument('--page', metavar='FILE', default=beside + '.md')
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory = a.results or temporary
        os.makedirs(directory, exist_ok=True)
        m = Measurements(a.ropewalk, directory)
        blocks = measure(a, m)
        with open(a.page, encoding='utf-8') as f:
            page = f.read()
        for name, text in blocks.items():
            page = replace_block(page, name, text)
        for name in ('schemes', 'scalings', 'scalings-position', 'large'):
            if os.path.exists(m.path(name, '.svg')):
                shutil.copyfile(m.path(name, '.svg'), f'{os.path.splitext(a.page)[0]}-{name}.svg')
        with open(a.page, 'w', encoding='utf-8', newline='\n') as f:
            f.write(page)


if __name__ == '__main__':
    main()
