"""The command as its users meet it: exit statuses, streams, files. usage: test_command.py ROPEWALK GENERATE HELLO MODEL

MODEL is examples/rope-llama; further models are made here, so small that their results are known without a reference.
"""
import json
import math
import os
import struct
import subprocess
import sys
import tempfile
import unittest

ROPEWALK, GENERATE, HELLO, MODEL = sys.argv[1:5]
PROMPT = 'It was a dark and'


def run(*args, program=None, stdin=b'', **more):
    p = subprocess.run([program or ROPEWALK, *map(str, args)], input=stdin, capture_output=True, timeout=120, **more)
    return p.returncode, p.stdout.decode(), p.stderr.decode()


def contents(path):
    with open(path, 'rb') as f:
        return f.read()


def ids_text(ids):
    return ' '.join(map(str, ids))


# ---- models made here ----

def f32(values):
    return struct.pack(f'<{len(values)}f', *values)


def write_safetensors(path, tensors):
    header, data = {}, b''
    for name, (shape, values) in tensors.items():
        header[name] = {'dtype': 'F32', 'shape': shape, 'data_offsets': [len(data), len(data) + 4 * len(values)]}
        data += f32(values)
    text = json.dumps(header).encode()
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text + data)


def read_safetensors(path):
    """name -> (shape, values), of F32 tensors."""
    with open(path, 'rb') as f:
        size, = struct.unpack('<Q', f.read(8))
        header, data = json.loads(f.read(size)), f.read()
    return {n: (t['shape'], struct.unpack_from(f'<{math.prod(t["shape"])}f', data, t['data_offsets'][0]))
            for n, t in header.items() if n != '__metadata__'}


def make_gpt2(path, logits, n_positions=32, **config):
    """A GPT-2 that answers every prompt with these logits: its last norm gives the first unit vector, and the output
    head's first column is the logits."""
    vocab, hidden = len(logits), 8
    os.makedirs(path)
    zeros = lambda *shape: (list(shape), [0.0] * math.prod(shape))
    unit = ([hidden], [1.0] + [0.0] * (hidden - 1))
    tensors = {
        'wte.weight': ([vocab, hidden], [x for l in logits for x in [l] + [0.0] * (hidden - 1)]),
        'wpe.weight': zeros(n_positions, hidden), 'ln_f.weight': zeros(hidden), 'ln_f.bias': unit,
        'h.0.attn.c_attn.weight': zeros(hidden, 3 * hidden), 'h.0.attn.c_attn.bias': zeros(3 * hidden),
        'h.0.attn.c_proj.weight': zeros(hidden, hidden), 'h.0.attn.c_proj.bias': zeros(hidden),
        'h.0.mlp.c_fc.weight': zeros(hidden, 4 * hidden), 'h.0.mlp.c_fc.bias': zeros(4 * hidden),
        'h.0.mlp.c_proj.weight': zeros(4 * hidden, hidden), 'h.0.mlp.c_proj.bias': zeros(hidden),
    }
    for n in ('h.0.ln_1', 'h.0.ln_2'):
        tensors[n + '.weight'], tensors[n + '.bias'] = zeros(hidden), zeros(hidden)
    write_safetensors(os.path.join(path, 'model.safetensors'), tensors)
    with open(os.path.join(path, 'config.json'), 'w') as f:
        json.dump({'model_type': 'gpt2', 'vocab_size': vocab, 'n_embd': hidden, 'n_layer': 1, 'n_head': 2,
                   'n_positions': n_positions, 'bos_token_id': None, 'eos_token_id': None, **config}, f)
    return path


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.tmp = cls.directory.name

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def done(self, *args, **more):
        """Standard output of a run that must succeed without a word on standard error."""
        code, out, err = run(*args, **more)
        self.assertEqual((code, err), (0, ''), args)
        return out

    def fails(self, *args, names=(), **more):
        """A run that must fail: status 1, one line that holds each of `names`."""
        code, out, err = run(*args, **more)
        self.assertEqual(code, 1, (args, err))
        self.assertTrue(err.startswith('ropewalk: ') and err.endswith('\n') and err.count('\n') == 1, err)
        for name in names:
            self.assertIn(str(name), err)
        return out

    def misused(self, *args, **more):
        code, out, err = run(*args, **more)
        self.assertEqual((code, out), (2, ''), args)
        self.assertRegex(err, r"\Aropewalk: [^\n]+\nTry 'ropewalk[^\n]*--help'\.\n\Z")

    def greedy_ids(self, *args):
        return [int(i) for i in self.done('generate', MODEL, PROMPT, '--greedy', '--print-ids', *args).split()]


class Usage(Case):
    def test_malformed_counts_are_wrong_usage(self):
        for option in ('-n', '-c', '-t', '--seed', '--top-k', '--chunk', '--original-context'):
            for value in ('12x', '', '1e3', ' 5', '5 ', '-1', '+1', '0x10', '1.0', '99999999999999999999'):
                self.misused('generate', MODEL, PROMPT, f'--seed={value}' if option == '--seed' else option,
                             *([] if option == '--seed' else [value]))

    def test_counts_out_of_bounds_are_wrong_usage(self):
        for option, value in (('-n', 1 << 31), ('-c', 0), ('-t', 0), ('--chunk', 0), ('--top-k', 1 << 31)):
            self.misused('generate', MODEL, PROMPT, option, value)

    def test_malformed_reals_are_wrong_usage(self):
        for value in ('nan', 'inf', '-inf', 'abc', '', '0x1p3', '1,5', '-1', '1e999', '.', '1.', '1e'):
            for option in ('--temperature', '--top-p', '--min-p', '--repetition-penalty', '--rope-theta'):
                self.misused('generate', MODEL, PROMPT, option, value)
        for option, value in (('--top-p', '1.01'), ('--min-p', '2'), ('--repetition-penalty', '0')):
            self.misused('generate', MODEL, PROMPT, option, value)

    def test_unknown_words_are_wrong_usage(self):
        self.misused('frobnicate')
        self.misused('generate', MODEL, PROMPT, '--frobnicate')
        self.misused('generate', MODEL, PROMPT, '-Z')
        self.misused('generate', MODEL, PROMPT, 'one too many')
        self.misused('generate', MODEL, PROMPT, '--kv-type', 'f64')
        self.misused('generate', MODEL, PROMPT, '--greedy=yes')
        self.misused('generate', MODEL, PROMPT, '-n')
        self.misused('generate')
        self.misused('logits', MODEL, '--ids', '1')
        self.misused('logits', MODEL, '--output', 'x')
        self.misused('perplexity', MODEL)

    def test_options_that_would_have_no_effect_are_wrong_usage(self):
        self.misused('rope', MODEL, '--threads', 2)
        self.misused('tokenize', MODEL, 'x', '--greedy')
        self.misused('generate', MODEL, PROMPT, '--greedy', '--top-p', '0.5')
        self.misused('generate', MODEL, PROMPT, '--ids', '1')
        self.misused('generate', MODEL, PROMPT, '--rope-scaling', 'ntk:2', '--rope-scaling', 'ntk:4')

    def test_no_arguments_print_the_overview_and_fail(self):
        code, out, err = run()
        self.assertEqual((code, out), (2, ''))
        self.assertIn('perplexity', err)

    def test_help_and_version_succeed(self):
        self.assertIn('generate', self.done('--help'))
        self.assertRegex(self.done('--version'), r'\Aropewalk \d+\.\d+\.\d+\n\Z')
        for command in ('generate', 'logits', 'tokenize', 'detokenize', 'perplexity', 'inspect', 'rope', 'bench'):
            self.assertIn(f'usage: ropewalk {command} ', self.done(command, '--help'))

    def test_a_missing_model_fails_in_one_line_that_names_it(self):
        for command in ('generate', 'tokenize', 'inspect', 'rope', 'bench'):
            self.fails(command, '/nonexistent/model', names=['/nonexistent/model'])
        self.fails('inspect', self.tmp, names=[self.tmp])

    def test_control_characters_in_names_do_not_break_the_line(self):
        self.fails('inspect', 'a\nb.safetensors', names=['a?b.safetensors'])

    def test_a_full_disk_is_a_failure(self):
        with open('/dev/full', 'wb') as full:
            p = subprocess.run([ROPEWALK, 'inspect', MODEL], stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(p.returncode, 1)
        self.assertRegex(p.stderr, rb'\Aropewalk: standard output: [^\n]+\n\Z')

    def test_a_reader_that_went_away_is_a_failure_and_no_signal(self):
        reading, writing = os.pipe()
        os.close(reading)
        p = subprocess.run([ROPEWALK, 'generate', MODEL, PROMPT, '-n', '8'], stdout=writing, stderr=subprocess.PIPE)
        os.close(writing)
        self.assertEqual(p.returncode, 1)
        self.assertRegex(p.stderr, rb'\Aropewalk: standard output: [^\n]+\n\Z')


class Generate(Case):
    def test_the_program_named_generate_is_the_command_generate(self):
        args = (MODEL, PROMPT, '-n', 12, '--greedy')
        self.assertEqual(self.done(*args, program=GENERATE), self.done('generate', *args))

    def test_the_prompt_may_come_from_standard_input(self):
        args = ('-n', 12, '--greedy')
        self.assertEqual(self.done('generate', MODEL, *args, stdin=PROMPT.encode()),
                         self.done('generate', MODEL, PROMPT, *args))

    def test_ids_stand_for_the_prompt_they_encode(self):
        ids = self.done('tokenize', MODEL, PROMPT).strip()
        path = os.path.join(self.tmp, 'ids')
        with open(path, 'w') as f:
            f.write('[' + ids.replace(' ', ', ') + ']\n')
        want = self.greedy_ids('-n', 12)
        for option, value in (('--ids', ids), ('--ids-file', path)):
            out = self.done('generate', MODEL, option, value, '-n', 12, '--greedy', '--print-ids')
            self.assertEqual(out, ids_text(want) + '\n')

    def test_text_is_the_decoding_of_the_printed_ids(self):
        prompt = [int(i) for i in self.done('tokenize', MODEL, PROMPT).split()]
        ids = self.greedy_ids('-n', 30)
        self.assertEqual(len(ids), 30)
        text = self.done('generate', MODEL, PROMPT, '-n', 30, '--greedy')
        self.assertEqual(PROMPT + text, self.done('detokenize', MODEL, ids_text(prompt + ids)))

    def test_n_is_exact_and_0_prints_nothing(self):
        self.assertEqual(self.done('generate', MODEL, PROMPT, '-n', 0), '')
        self.assertEqual(self.done('generate', MODEL, PROMPT, '-n', 0, '--print-ids'), '')
        self.assertEqual(len(self.greedy_ids('-n', 1)), 1)
        self.assertEqual(len(self.greedy_ids('--ignore-eos')), 128)

    def test_results_do_not_depend_on_threads_chunks_or_cpu_level_repeats(self):
        want = self.greedy_ids('-n', 24)
        for threads in (1, 2, 3, 16):
            self.assertEqual(self.greedy_ids('-n', 24, '-t', threads), want)
        for chunk in (1, 3, 4096):
            self.assertEqual(self.greedy_ids('-n', 24, '--chunk', chunk), want)

    def test_results_do_not_depend_on_the_locale(self):
        args = ('generate', MODEL, PROMPT, '-n', 24, '--temperature', '0.7', '--top-p', '0.9', '--seed', 5)
        want = self.done(*args)
        for locale in ('C', 'C.UTF-8', 'de_DE.UTF-8', 'tr_TR.UTF-8'):
            self.assertEqual(self.done(*args, env={**os.environ, 'LC_ALL': locale}), want)

    def test_temperature_0_and_top_k_1_are_greedy_whatever_the_seed(self):
        want = self.greedy_ids('-n', 24)
        for options in (('--temperature', '0'), ('--temperature', '1e-30'), ('--top-k', 1), ('--top-p', '0')):
            out = self.done('generate', MODEL, PROMPT, '-n', 24, '--print-ids', '--seed', 7, *options)
            self.assertEqual([int(i) for i in out.split()], want, options)

    def test_a_seed_repeats_a_run_and_another_one_does_not(self):
        texts = [self.done('generate', MODEL, PROMPT, '-n', 24, '--seed', s) for s in (1, 1, 2)]
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])

    def test_without_a_seed_the_one_used_is_reported(self):
        r = json.loads(self.done('generate', MODEL, PROMPT, '-n', 24, '--temperature', '1', '--json'))
        again = self.done('generate', MODEL, PROMPT, '-n', 24, '--temperature', '1', '--seed', r['seed'])
        self.assertEqual(again, r['text'])

    def test_a_stop_text_ends_the_text_before_it(self):
        text = self.done('generate', MODEL, PROMPT, '-n', 30, '--greedy')
        for begin, end in ((5, 9), (11, 26), (0, 3), (20, 21)):
            stop = text[begin:end]
            out = self.done('generate', MODEL, PROMPT, '-n', 30, '--greedy', '--stop', stop)
            self.assertEqual(out, text[:text.index(stop)])

    def test_the_earliest_stop_text_counts_and_one_that_never_comes_loses_nothing(self):
        text = self.done('generate', MODEL, PROMPT, '-n', 30, '--greedy')
        never = text[3:8] + '\x01'
        self.assertEqual(self.done('generate', MODEL, PROMPT, '-n', 30, '--greedy', '--stop', never), text)
        out = self.done('generate', MODEL, PROMPT, '-n', 30, '--greedy', '--stop', text[20:24], '--stop', text[8:14])
        self.assertEqual(out, text[:min(text.index(text[20:24]), text.index(text[8:14]))])
        self.misused('generate', MODEL, PROMPT, '--stop', '')

    def test_json_tells_text_ids_counts_and_reason(self):
        r = json.loads(self.done('generate', MODEL, PROMPT, '-n', 12, '--greedy', '--json'))
        self.assertEqual(r['text'], self.done('generate', MODEL, PROMPT, '-n', 12, '--greedy'))
        self.assertEqual((r['ids'], r['new_tokens'], r['stop_reason'], r['sampled']),
                         (self.greedy_ids('-n', 12), 12, 'length', False))
        self.assertEqual(r['prompt_tokens'], len(self.done('tokenize', MODEL, PROMPT).split()))
        stop = r['text'][4:9]
        r = json.loads(self.done('generate', MODEL, PROMPT, '--greedy', '--json', '--stop', stop))
        self.assertEqual((r['stop_reason'], r['text'].endswith(stop)), ('stop_text', False))

    def test_an_empty_prompt_begins_with_the_models_first_token(self):
        self.assertEqual(self.done('generate', MODEL, '', '-n', 8, '--greedy', '--print-ids'),
                         self.done('generate', MODEL, '--ids', '0', '-n', 8, '--greedy', '--print-ids'))
        path = make_gpt2(os.path.join(self.tmp, 'no-bos'), [0.0] * 4)
        self.fails('generate', path, '--ids', '', '--print-ids', names=['empty'])

    def test_a_bad_id_fails_and_names_it(self):
        self.fails('generate', MODEL, '--ids', '1 4096', names=['4096'])
        for ids in ('1 x', '1 -2', '[1, 2', '1]', '1,,2', '1,', '4294967295', '1 2.0'):
            self.fails('generate', MODEL, '--ids', ids, names=['--ids'])

    def test_a_numbers_only_directory_needs_no_tokenizer(self):
        path = make_gpt2(os.path.join(self.tmp, 'plain'), [0.0, 1.0, 5.0, 2.0])
        self.assertEqual(self.done('generate', path, '--ids', '0', '-n', 3, '--print-ids'), '2 2 2\n')
        self.fails('generate', path, '--ids', '0', '-n', 3, names=[path])

    def test_the_end_token_ends_the_run_unless_ignored(self):
        path = make_gpt2(os.path.join(self.tmp, 'eos'), [0.0, 1.0, 5.0, 2.0], eos_token_id=2)
        self.assertEqual(self.done('generate', path, '--ids', '0', '-n', 3, '--print-ids'), '')
        self.assertEqual(self.done('generate', path, '--ids', '0', '-n', 3, '--print-ids', '--ignore-eos'), '2 2 2\n')
        r = json.loads(self.done('generate', path, '--ids', '0', '-n', 3, '--print-ids', '--json'))
        self.assertEqual((r['stop_reason'], r['stop_token'], r['ids']), ('eos', 2, []))

    def test_settings_of_the_model_apply_and_options_win(self):
        path = make_gpt2(os.path.join(self.tmp, 'settings'), [0.0, 0.0, 0.1, 0.0])
        with open(os.path.join(path, 'generation_config.json'), 'w') as f:
            json.dump({'do_sample': True, 'max_new_tokens': 20, 'temperature': 5.0}, f)
        out = self.done('generate', path, '--ids', '0', '--print-ids', '--seed', 1).split()
        self.assertEqual(len(out), 20)
        self.assertGreater(len(set(out)), 2)
        self.assertEqual(self.done('generate', path, '--ids', '0', '-n', 3, '--print-ids', '--greedy'), '2 2 2\n')

    def test_top_p_keeps_the_fewest_tokens_that_hold_it(self):
        logits = [math.log(p) for p in (0.1, 0.6, 0.3)]
        path = make_gpt2(os.path.join(self.tmp, 'top-p'), logits, n_positions=512)
        ids = self.done('generate', path, '--ids', '0', '-n', 400, '--print-ids', '--top-p', '0.7', '--seed', 3).split()
        self.assertEqual(set(ids), {'1', '2'})
        # 400 draws of probability 1/3: four standard deviations are 38
        self.assertAlmostEqual(ids.count('2'), 400 / 3, delta=38)

    def test_repetition_penalty_weakens_what_was_there(self):
        path = make_gpt2(os.path.join(self.tmp, 'penalty'), [-1.0, 2.0, 1.5])
        args = ('generate', path, '--ids', '0', '-n', 2, '--print-ids')
        self.assertEqual(self.done(*args), '1 1\n')
        self.assertEqual(self.done(*args, '--repetition-penalty', '2'), '1 2\n')


class Context(Case):
    """A table of 32 learned positions, which is a hard bound; and rotary positions, which have none."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.learned = make_gpt2(os.path.join(cls.tmp, 'learned'), [0.0, 1.0])

    def learned_run(self, n_prompt, n, *options):
        return run('generate', self.learned, '--ids', ids_text([0] * n_prompt), '-n', n, '--print-ids', *options)

    def test_generation_ends_at_the_context_and_says_so(self):
        code, out, err = self.learned_run(30, 8)
        self.assertEqual((code, out), (0, '1 1 1\n'))
        self.assertRegex(err, r'\Aropewalk: notice: [^\n]*3 of 8[^\n]*32\n\Z')
        self.assertEqual(self.learned_run(30, 8, '--quiet'), (0, '1 1 1\n', ''))
        self.assertEqual(json.loads(self.learned_run(30, 8, '--json', '--quiet')[1])['stop_reason'], 'context')

    def test_a_full_context_still_yields_one_token(self):
        self.assertEqual(self.learned_run(32, 1), (0, '1\n', ''))
        self.assertEqual(self.learned_run(32, 0), (0, '', ''))

    def test_a_longer_prompt_is_refused_with_both_numbers(self):
        for n in (33, 64, 3200):
            out = self.fails('generate', self.learned, '--ids', ids_text([0] * n), '-n', 0, '--print-ids', names=[n, 32])
            self.assertEqual(out, '')
        self.fails('generate', MODEL, '--ids', ids_text([1] * 300), names=[300, 256])
        self.fails('generate', MODEL, '--ids', ids_text([1] * 9), '-c', 8, names=[9, 8])

    def test_a_learned_table_is_a_hard_bound(self):
        self.fails('generate', self.learned, '--ids', '0', '-c', 33, '--print-ids', names=[33, 32])
        self.fails('logits', self.learned, '--ids', ids_text([0] * 33), '-o', os.path.join(self.tmp, 'l'), names=[33, 32])

    def test_rotary_positions_go_further_with_a_notice(self):
        args = ('generate', MODEL, PROMPT, '-n', 4, '--greedy', '-c', 300)
        code, out, err = run(*args)
        self.assertEqual(code, 0)
        self.assertRegex(err, r'\Aropewalk: notice: [^\n]*300[^\n]*256\n\Z')
        self.assertEqual(self.done(*args, '--quiet'), out)

    def test_only_a_number_of_tokens_that_was_asked_for_goes_beyond_the_plan(self):
        ids = ids_text(range(1, 201))
        code, out, err = run('generate', MODEL, '--ids', ids, '--print-ids', '--ignore-eos')
        self.assertEqual((code, len(out.split())), (0, 57))
        self.assertRegex(err, r'\Aropewalk: notice: [^\n]*57 of 128[^\n]*256\n\Z')
        code, out, err = run('generate', MODEL, '--ids', ids, '--print-ids', '--ignore-eos', '-n', 100)
        self.assertEqual((code, len(out.split())), (0, 100))
        self.assertRegex(err, r'\Aropewalk: notice: [^\n]*299[^\n]*256\n\Z')
        self.done('generate', MODEL, PROMPT, '-n', 2**31 - 1, '--stop', ' ', '--quiet')

    def test_scaling_at_load_time_widens_the_context(self):
        ids = ids_text([i % 4096 for i in range(1, 400)])
        self.fails('generate', MODEL, '--ids', ids, '-n', 1, names=[399, 256])
        self.done('generate', MODEL, '--ids', ids, '-n', 1, '--rope-scaling', 'yarn:4')

    def test_a_scaling_that_would_not_take_effect_is_refused(self):
        self.fails('generate', self.learned, '--ids', '0', '--print-ids', '--rope-scaling', 'ntk:4')
        self.fails('generate', MODEL, PROMPT, '--rope-scaling', 'frob:4')


class Logits(Case):
    def logits(self, *args):
        path = os.path.join(self.tmp, 'l.safetensors')
        self.assertEqual(self.done('logits', MODEL, '--output', path, *args), '')
        tensors = read_safetensors(path)
        self.assertEqual(list(tensors), ['logits'])
        return tensors['logits']

    def test_every_token_has_a_row_that_later_tokens_do_not_change(self):
        shape, long = self.logits('--ids', '10 20 30 40 50')
        self.assertEqual(shape, [5, 4096])
        shape, short = self.logits('--ids', '[10, 20, 30]')
        self.assertEqual((shape, short), ([3, 4096], long[:3 * 4096]))

    def test_the_bits_are_the_same_for_any_threads_and_chunks(self):
        ids = ids_text(range(1, 131))
        want = self.logits('--ids', ids)
        for options in (('-t', 1), ('-t', 3), ('--chunk', 1), ('--chunk', 7), ('--chunk', 4096), ('--load', 'read')):
            self.assertEqual(self.logits('--ids', ids, *options), want, options)

    def test_the_likeliest_token_is_the_greedy_one(self):
        ids = self.done('tokenize', MODEL, PROMPT).split()
        _, values = self.logits('--ids', ' '.join(ids), '--kv-type', 'f16')
        last = values[-4096:]
        self.assertEqual(last.index(max(last)), self.greedy_ids('-n', 1)[0])

    def test_a_failed_run_leaves_no_file(self):
        path = os.path.join(self.tmp, 'never.safetensors')
        self.fails('logits', MODEL, '--ids', '1 4096', '--output', path, names=['4096'])
        self.assertFalse(os.path.exists(path))
        self.fails('logits', MODEL, '--ids', '1', '--output', '/nonexistent/l', names=['/nonexistent/l'])
        self.fails('logits', MODEL, '--ids', '1 2', '--output', '/dev/full', names=['/dev/full'])
        self.fails('logits', MODEL, '--ids', ' ', '--output', path)


class Tokenize(Case):
    TEXTS = ['', 'a', '  a', 'Mr. Pickwick — “well”', '\n\n\tx', '歪 🙂', 'naïve café', '"\\/\x01\x7f', 'x' * 500, 'a\u2028b\x85c']

    def test_text_survives_there_and_back(self):
        for text in self.TEXTS:
            ids = self.done('tokenize', MODEL, text)
            self.assertEqual(self.done('detokenize', MODEL, ids), text)
            self.assertEqual(self.done('tokenize', MODEL, stdin=text.encode()), ids)
            self.assertEqual(self.done('detokenize', MODEL, stdin=ids.encode()), text)

    def test_json_lines_give_the_same_as_single_texts(self):
        lines = ''.join(json.dumps(t) + '\n' for t in self.TEXTS)
        out = self.done('tokenize', MODEL, '--jsonl', stdin=lines.encode())
        ids = [json.loads(line) for line in out.splitlines()]
        self.assertEqual(ids, [[int(i) for i in self.done('tokenize', MODEL, t).split()] for t in self.TEXTS])
        back = self.done('detokenize', MODEL, '--jsonl', stdin=out.encode())
        self.assertEqual([json.loads(line) for line in back.splitlines()], self.TEXTS)

    def test_a_bad_line_fails_and_names_it(self):
        for line in ('"unfinished', '5', '"a" "b"', '"\\q"', '["a"]'):
            self.fails('tokenize', MODEL, '--jsonl', stdin=f'"good"\n{line}\n'.encode(), names=['line 2'])
        for line in ('[1, 2', '"a"', '[1] [2]', '[99999]', '[-1]'):
            self.fails('detokenize', MODEL, '--jsonl', stdin=f'[1]\n{line}\n'.encode(), names=['line 2'])

    def test_a_line_is_answered_before_the_next_is_read(self):
        with subprocess.Popen([ROPEWALK, 'tokenize', MODEL, '--jsonl'], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as p:
            for text in ('one', 'two'):
                p.stdin.write(json.dumps(text).encode() + b'\n')
                p.stdin.flush()
                self.assertIsInstance(json.loads(p.stdout.readline()), list)
            p.stdin.close()
            self.assertEqual(p.wait(timeout=60), 0)

    def test_special_tokens_are_read_or_plain_as_asked(self):
        self.assertEqual(self.done('tokenize', MODEL, '<|endoftext|>'), '0\n')
        plain = self.done('tokenize', MODEL, '<|endoftext|>', '--plain-special')
        self.assertGreater(len(plain.split()), 1)
        self.assertEqual(self.done('detokenize', MODEL, '0'), '<|endoftext|>')
        self.assertEqual(self.done('detokenize', MODEL, '0', '--no-special'), '')

    def test_pieces_cover_the_text(self):
        rows = [line.split(None, 3) for line in self.done('tokenize', MODEL, 'so it was', '--pieces').splitlines()[1:]]
        self.assertEqual([int(r[1]) for r in rows[1:]], [int(r[2]) for r in rows[:-1]])
        self.assertEqual((rows[0][1], rows[-1][2]), ('0', '9'))
        self.assertEqual([r[0] for r in rows], self.done('tokenize', MODEL, 'so it was').split())

    def test_tokenizer_files_are_enough(self):
        path = os.path.join(self.tmp, 'only')
        os.makedirs(path)
        with open(os.path.join(MODEL, 'tokenizer.json'), 'rb') as a, open(os.path.join(path, 'tokenizer.json'), 'wb') as b:
            b.write(a.read())
        want = self.done('tokenize', MODEL, PROMPT)
        self.assertEqual(self.done('tokenize', path, PROMPT), want)
        self.assertEqual(self.done('tokenize', os.path.join(path, 'tokenizer.json'), PROMPT), want)


class Perplexity(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.text = os.path.join(cls.tmp, 'text')
        with open(cls.text, 'w') as f:
            f.write('It was the best of times, it was the worst of times. ' * 60)
        cls.uniform = make_gpt2(os.path.join(cls.tmp, 'uniform'), [0.0] * 4096, n_positions=256)
        os.link(os.path.join(MODEL, 'tokenizer.json'), os.path.join(cls.uniform, 'tokenizer.json')) \
            if os.stat(MODEL).st_dev == os.stat(cls.tmp).st_dev else \
            os.symlink(os.path.abspath(os.path.join(MODEL, 'tokenizer.json')), os.path.join(cls.uniform, 'tokenizer.json'))

    def results(self, *args):
        return json.loads(self.done('perplexity', *args, '--json'))['results']

    def n_tokens(self):
        return len(self.done('tokenize', MODEL, stdin=contents(self.text)).split())

    def test_a_uniform_model_has_the_vocabulary_as_perplexity(self):
        for r in self.results(self.uniform, self.text, '--length', '16,64,256'):
            # 4096 values of exp(0) are added in float32 without rounding; ln and exp are accurate to some 1e-15
            self.assertAlmostEqual(r['perplexity'] / 4096, 1, delta=1e-6)

    def test_counts_follow_the_stated_rule(self):
        n = self.n_tokens()
        for length in (16, 50, n - 1, n):
            r, = self.results(MODEL, self.text, '--length', length, '--quiet')
            self.assertEqual((r['length'], r['windows'], r['tokens']), (length, n // length, n // length * (length - 1)))
        r, = self.results(MODEL, self.text, '--length', 64, '--stride', 16)
        self.assertEqual((r['windows'], r['tokens']), ((n - 64) // 16 + 1, 63 + (n - 64) // 16 * 16))
        r, = self.results(MODEL, self.text, '--length', 64, '--max-tokens', 130)
        self.assertEqual((r['windows'], r['tokens']), (2, 126))

    def test_a_short_text_is_one_window(self):
        short = os.path.join(self.tmp, 'short')
        with open(short, 'w') as f:
            f.write('It was the best of times')
        r, = self.results(MODEL, short)
        self.assertEqual((r['windows'], r['tokens']), (1, r['length'] - 1))

    def test_it_is_exp_of_the_mean_of_the_logits_own_nll(self):
        ids = [int(i) for i in self.done('tokenize', MODEL, stdin=contents(self.text)).split()][:20]
        path = os.path.join(self.tmp, 'l.safetensors')
        self.done('logits', MODEL, '--ids', ids_text(ids), '-o', path)
        values, nll = read_safetensors(path)['logits'][1], 0.0
        for i, token in enumerate(ids[1:]):
            row = values[i * 4096:(i + 1) * 4096]
            most = max(row)
            nll -= row[token] - most - math.log(math.fsum(math.exp(v - most) for v in row))
        r, = self.results(MODEL, self.text, '--length', 20, '--max-tokens', 20)
        # the logits are the same bits; what is left is the rounding of one log-sum-exp
        self.assertAlmostEqual(r['perplexity'] / math.exp(nll / 19), 1, delta=1e-6)

    def test_nothing_to_score_is_a_failure(self):
        for text in ('', 'x'):
            path = os.path.join(self.tmp, 'nothing')
            with open(path, 'w') as f:
                f.write(text)
            self.fails('perplexity', MODEL, path, names=['nothing to score'])
        self.fails('perplexity', MODEL, self.text, '--length', 16000, names=['nothing to score', 16000])
        self.fails('perplexity', MODEL, self.text, '--length', 16, '--stride', 16, names=['--stride'])
        self.misused('perplexity', MODEL, self.text, '--length', 1)
        self.misused('perplexity', MODEL, self.text, '--length', '16,')

    def test_scalings_and_models_are_compared_in_one_run(self):
        rows = self.results(MODEL, self.uniform, self.text, '--length', '64,128')
        self.assertEqual([(r['model'], r['length']) for r in rows],
                         [(m, l) for m in (MODEL, self.uniform) for l in (64, 128)])
        rows = self.results(MODEL, self.text, '--length', 64, '--rope-scaling', 'none', '--rope-scaling', 'linear:4')
        self.assertEqual([r['rope_scaling'] for r in rows], ['none', 'linear:4'])
        self.assertNotEqual(rows[0]['perplexity'], rows[1]['perplexity'])
        plain, = self.results(MODEL, self.text, '--length', 64)
        self.assertEqual((plain['rope_scaling'], plain['perplexity']), (None, rows[0]['perplexity']))

    def test_what_cannot_be_measured_is_refused_before_anything_is(self):
        # the first model has no weights: an attempt to measure it would fail in another way
        hollow = os.path.join(self.tmp, 'hollow')
        os.makedirs(hollow)
        for name in ('config.json', 'tokenizer.json'):
            with open(os.path.join(hollow, name), 'wb') as f:
                f.write(contents(os.path.join(MODEL, name)))
        self.fails('perplexity', hollow, self.uniform, self.text, '--length', '64,300',
                   names=[self.uniform, 300, 256])
        self.fails('perplexity', hollow, self.uniform, self.text, '--length', 64,
                   '--rope-scaling', 'yarn:2', names=['rope-scaling', 'learned'])
        self.fails('perplexity', hollow, self.text, '--length', 64, '--rope-scaling', 'none',
                   '--rope-scaling', 'frob:2', names=['frob:2'])
        self.fails('perplexity', hollow, self.text, '--length', 64, names=['safetensors'])

    def test_buckets_add_up(self):
        r, = self.results(MODEL, self.text, '--length', 64, '--buckets', 4)
        self.assertEqual(sum(b['tokens'] for b in r['buckets']), r['tokens'])
        nll = sum(b['tokens'] * math.log(b['perplexity']) for b in r['buckets'])
        self.assertAlmostEqual(nll / r['tokens'], r['nll'], delta=1e-9)
        self.assertEqual((r['buckets'][0]['first_position'], r['buckets'][-1]['last_position']), (1, 63))

    def test_csv_holds_what_json_holds(self):
        path = os.path.join(self.tmp, 'p.csv')
        r, = self.results(MODEL, self.text, '--length', 64, '--csv', path)
        lines = contents(path).decode().splitlines()
        self.assertEqual(lines[0], 'model,rope_scaling,length,first_position,last_position,tokens,perplexity')
        self.assertEqual(float(lines[1].split(',')[-1]), r['perplexity'])
        self.assertEqual(len(lines), 2)

    def test_a_plot_is_drawn_where_gnuplot_is_and_refused_where_not(self):
        path = os.path.join(self.tmp, "it's.svg")
        args = ('perplexity', MODEL, self.text, '--length', '32,64', '--plot', path)
        if any(os.access(os.path.join(d, 'gnuplot'), os.X_OK) for d in os.environ['PATH'].split(':')):
            self.done(*args)
            self.assertIn('<svg', contents(path).decode())
        self.fails(*args, names=['gnuplot'], env={'PATH': '/nonexistent'})
        self.fails('perplexity', MODEL, self.text, '--plot', 'x.gif', names=['x.gif'])

    def test_a_byte_order_mark_is_no_text(self):
        marked = os.path.join(self.tmp, 'marked')
        with open(marked, 'wb') as f:
            f.write(b'\xef\xbb\xbf' + contents(self.text))
        a, = self.results(MODEL, self.text, '--length', 64)
        b, = self.results(MODEL, marked, '--length', 64)
        self.assertEqual(a['perplexity'], b['perplexity'])


class Inspect(Case):
    def test_a_model_directory_shows_family_sizes_and_memory(self):
        r = json.loads(self.done('inspect', MODEL, '--json', '--tensors'))
        self.assertEqual((r['family'], r['n_layers'], r['hidden_size'], r['vocab_size'], r['context']),
                         ('llama', 6, 256, 4096, 256))
        self.assertEqual(r['n_parameters'], sum(math.prod(t['shape']) for t in r['tensors'] if t['used']))
        self.assertEqual(len(r['tensors']), r['n_tensors'])
        text = self.done('inspect', MODEL, '--tensors')
        self.assertIn('model.layers.5.mlp.down_proj.weight', text)

    def test_memory_for_keys_and_values_follows_context_and_type(self):
        memory = lambda *o: json.loads(self.done('inspect', MODEL, '--json', '--quiet', *o))['memory']['kv_bytes']
        self.assertGreater(memory('-c', 4096), 3 * memory('-c', 1024))
        self.assertGreater(memory('-c', 4096, '--kv-type', 'f32'), 1.9 * memory('-c', 4096))

    def test_a_bare_configuration_and_a_weight_file_are_shown_too(self):
        self.assertIn('rope', self.done('inspect', os.path.join(MODEL, 'config.json')))
        path = os.path.join(MODEL, 'model.safetensors')
        self.assertIn('model.embed_tokens.weight', self.done('inspect', path))
        self.assertEqual(json.loads(self.done('inspect', path, '--json'))['n_tensors'], 56)

    def test_what_is_unsupported_or_broken_fails_in_one_line(self):
        path = os.path.join(self.tmp, 'odd.json')
        with open(path, 'w') as f:
            f.write('{"model_type": "frobnicator"}')
        self.fails('inspect', path, names=[path, 'frobnicator'])
        self.fails('rope', path, names=[path, 'frobnicator'])
        broken = os.path.join(self.tmp, 'broken.safetensors')
        with open(broken, 'wb') as f:
            f.write(b'\xff' * 8 + b'{}')
        self.fails('inspect', broken, names=[broken])


class Rope(Case):
    def plan(self, *args):
        return json.loads(self.done('rope', *args, '--json'))

    def test_the_plan_has_every_frequency(self):
        p = self.plan(MODEL)
        self.assertEqual(p['scheme'], 'rope')
        table = p['tables']['all']
        self.assertEqual((len(table['inv_freq']), table['attention_factor']), (16, 1))
        for i, f in enumerate(table['inv_freq']):
            # float32 of a power computed in double: half a unit in the last place, 2^-24, and the digits printed
            self.assertAlmostEqual(f / 10000 ** (-i / 16), 1, delta=2 ** -23)
        self.assertEqual(self.plan(os.path.join(MODEL, 'config.json')), p)

    def test_scaling_changes_the_plan(self):
        p = self.plan(MODEL, '--rope-scaling', 'linear:4')
        self.assertEqual(p['context'], 1024)
        self.assertAlmostEqual(p['tables']['all']['inv_freq'][0], 0.25)
        p = self.plan(MODEL, '--rope-scaling', '{"rope_type": "yarn", "factor": 4.0}')
        self.assertAlmostEqual(p['tables']['all']['attention_factor'], 0.1 * math.log(4) + 1)
        p = self.plan(MODEL, '--rope-theta', '500000')
        self.assertEqual(p['tables']['all']['rope_theta'], 500000)

    def test_other_schemes_have_no_tables(self):
        path = make_gpt2(os.path.join(self.tmp, 'learned'), [0.0])
        p = self.plan(path)
        self.assertEqual((p['scheme'], p['tables'], p['context_limit']), ('learned', {}, 32))
        path = os.path.join(self.tmp, 'bloom.json')
        with open(path, 'w') as f:
            json.dump({'model_type': 'bloom', 'n_head': 6, 'n_layer': 1, 'hidden_size': 48, 'vocab_size': 8}, f)
        p = self.plan(path)
        self.assertEqual((p['scheme'], p['tables']), ('alibi', {}))
        self.assertEqual(p['slopes'], [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125])


class Bench(Case):
    def test_json_has_the_speeds(self):
        r = json.loads(self.done('bench', MODEL, '-p', 32, '-n', 4, '-t', 1, '--repeat', 1, '--json'))
        for key in ('load_ms', 'prefill_tokens_per_s', 'decode_tokens_per_s', 'decode_gb_per_s',
                    'prefill_gflop_per_s', 'memory_read_gb_per_s'):
            self.assertGreater(r[key], 0, key)
        self.assertEqual((r['prompt_tokens'], r['decode_tokens'], r['depth'], r['threads']), (32, 4, 1, 1))

    def test_decoding_after_a_long_context(self):
        r = json.loads(self.done('bench', MODEL, '-p', 8, '-n', 4, '--depth', 100, '--repeat', 2, '--json'))
        self.assertEqual(r['depth'], 100)
        self.assertGreater(r['decode_tokens_per_s'], 0)

    def test_a_prompt_beyond_a_learned_table_is_refused(self):
        path = make_gpt2(os.path.join(self.tmp, 'learned'), [0.0, 1.0])
        self.fails('bench', path, '-p', 33, '-n', 1, names=[33, 32])


class Quantize(Case):
    def test_a_quantised_directory_runs_like_any_other(self):
        for kind in ('q8', 'q4'):
            path = os.path.join(self.tmp, 'as-' + kind)
            self.assertEqual(self.done('quantize', '--type', kind, MODEL, path), '')
            words = ('generate', PROMPT, '-n', 24, '--greedy', '--ignore-eos')
            at_load = self.done(words[0], MODEL, *words[1:], '--weights', kind, '-t', 1)
            self.assertEqual(self.done(words[0], path, *words[1:], '-t', 2), at_load)
            self.assertLess(os.path.getsize(os.path.join(path, 'model.safetensors')),
                            os.path.getsize(os.path.join(MODEL, 'model.safetensors')))
            config = json.load(open(os.path.join(path, 'config.json')))
            self.assertEqual(config.pop('quantization_config'),
                             {'quant_method': 'ropewalk', 'bits': int(kind[1]), 'block_size': 32})
            self.assertEqual(config, json.load(open(os.path.join(MODEL, 'config.json'))))
            self.fails('quantize', '--type', kind, MODEL, path, names=[path]) # it is there already
            self.fails('quantize', '--type', kind, path, path + '-again', names=[path])

    def test_what_cannot_be_had(self):
        path = os.path.join(self.tmp, 'nothing')
        self.misused('quantize', MODEL, path)
        self.misused('quantize', '--type', 'q5', MODEL, path)
        self.fails('quantize', '--type', 'q8', os.path.join(self.tmp, 'no-model'), path, names=['no-model'])
        self.fails('quantize', '--type', 'q8', MODEL, os.path.join(path, 'deeper'), names=['deeper'])
        self.assertFalse(os.path.exists(path))
        self.fails('generate', MODEL, PROMPT, '-n', 1, '--activations', 'int8', names=['activations'])


class Hello(Case):
    def test_the_example_program_says_what_the_command_says(self):
        p = subprocess.run([HELLO, MODEL, PROMPT], capture_output=True, text=True, timeout=60)
        self.assertEqual((p.returncode, p.stderr), (0, ''))
        self.assertEqual(p.stdout, self.done('generate', MODEL, PROMPT, '-n', 32, '--greedy', '--ignore-eos') + '\n')


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
