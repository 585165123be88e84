"""The examples of docs/api.md: the page holds their sources word for word, and each does what it
says.

usage: test_examples.py ROPEWALK MODEL SOURCE_ROOT NAME=PROGRAM...
"""
import math
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROPEWALK, MODEL, ROOT = sys.argv[1:4]
PROGRAMS = dict(word.split('=', 1) for word in sys.argv[4:])
TEXT = 'It was a dark and'


def run(program, *args):
    p = subprocess.run([program, *args], capture_output=True, timeout=120)
    return p.returncode, p.stdout.decode(), p.stderr.decode()


def example(name, *args):
    code, out, err = run(PROGRAMS[name], *args)
    assert code == 0 and not err, (name, code, err)
    return out


def ropewalk(*args):
    code, out, err = run(ROPEWALK, *args, '--quiet')
    assert code == 0, err
    return out


def contents(*path):
    with open(os.path.join(ROOT, *path), encoding='utf-8') as f:
        return f.read()


class Page(unittest.TestCase):
    def test_holds_every_example_word_for_word(self):
        page = contents('docs', 'api.md')
        blocks = re.findall(r'`(examples/api/\w+\.c)`:\n\n```c\n(.*?)```\n', page, re.S)
        files = os.listdir(os.path.join(ROOT, 'examples', 'api'))
        self.assertEqual(sorted(name for name, _ in blocks),
                         sorted(f'examples/api/{f}' for f in files))
        for name, text in blocks:
            self.assertEqual(text, contents(name), name)
        self.assertEqual(sorted(files), sorted(name + '.c' for name in PROGRAMS))

    def test_has_no_other_program(self):
        self.assertEqual(contents('docs', 'api.md').count('int main('), len(PROGRAMS))


class Examples(unittest.TestCase):
    def test_generate_prints_what_the_command_does(self):
        expected = TEXT + ropewalk('generate', MODEL, TEXT, '-n', '20', '--greedy')
        self.assertEqual(example('generate', MODEL, TEXT).rstrip('\n'), expected.rstrip('\n'))

    def test_stream_depends_on_the_seed_and_ends_before_a_full_stop(self):
        outputs = [example('stream', MODEL, TEXT, str(seed)) for seed in (1, 2, 3, 1)]
        self.assertEqual(outputs[0], outputs[3])
        self.assertGreater(len(set(outputs)), 1)
        for out in outputs:
            self.assertNotIn('.', out)
        code, _, err = run(PROGRAMS['stream'], MODEL, TEXT, '-1')
        self.assertEqual(code, 1)
        self.assertIn("seed: '-1' is not a whole number", err)

    def test_chat_computes_only_what_is_new(self):
        turns = re.findall(r'turn \d: (\d+) tokens, of which (\d+) were there already',
                           example('chat', MODEL, 'It was a dark night.', ' And then?', ' Why?'))
        self.assertEqual(len(turns), 3)
        before = 0
        for n, reused in turns:
            self.assertEqual(int(reused), before)
            before = int(n) + 12

    def test_score_adds_up(self):
        out = example('score', MODEL, 'It was a dark and stormy night')
        rows = re.findall(r'^ *(-\d+\.\d+)  rank (\d+) +(\S+) +(\S+) *$', out, re.M)
        self.assertGreater(len(rows), 4)
        for logprob, rank, token, best in rows:
            self.assertEqual(rank == '0', token == best)
        mean = sum(float(row[0]) for row in rows) / len(rows)
        printed = float(re.search(r'perplexity (\S+)', out)[1])
        self.assertAlmostEqual(printed / math.exp(-mean), 1, delta=1e-4)  # rows have four decimals

    def test_host_threads_give_the_same_tokens(self):
        expected = ropewalk('generate', MODEL, TEXT, '-n', '10', '--greedy', '--print-ids')
        self.assertEqual(example('host_threads', MODEL, TEXT).split(), expected.split())

    def test_memory_is_as_planned(self):
        out = example('memory', MODEL)
        planned, holds = re.search(r'planned (\d+), holds (\d+)', out).groups()
        self.assertEqual(planned, holds)
        weights = os.path.getsize(os.path.join(MODEL, 'model.safetensors'))
        self.assertEqual(int(re.search(r'in place: (\d+)', out)[1]), weights)

    def test_cancel_stops_where_it_says(self):
        self.assertEqual(example('cancel', MODEL).splitlines(),
                         ['the callback stopped it after 150 tokens', 'all 400 tokens are there'])

    def test_branches_share_their_steps(self):
        with tempfile.TemporaryDirectory() as directory:
            out = example('branches', MODEL, 'It was a', os.path.join(directory, 'state'))
        self.assertIn('passes over the weights: 13\n', out)  # the text, and twelve steps
        self.assertIn('loaded: the same logits\n', out)

    def test_all_report_a_model_that_is_not_there(self):
        more = {'generate': ['x'], 'stream': ['x', '1'], 'chat': ['x'], 'score': ['x'],
                'host_threads': ['x'], 'branches': ['x', '/nowhere/state'], 'cancel': []}
        for name, args in more.items():
            code, out, err = run(PROGRAMS[name], '/nowhere', *args)
            self.assertEqual((code, out), (1, ''), name)
            self.assertIn('/nowhere', err)


unittest.main(argv=sys.argv[:1])
