"""Directories that are odd or damaged, and disks that are full, as users of the command meet them.
usage: test_damage.py ROPEWALK CHECKPOINTS
"""

import json
import os
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

ROPEWALK, CHECKPOINTS = sys.argv[1:3]
IDS = '3 5 7 9 11'


def run(*args, **more):
    p = subprocess.run([ROPEWALK, *map(str, args)], capture_output=True, timeout=120, **more)
    return p.returncode, p.stdout.decode(), p.stderr.decode()


def read(path):
    with open(path, 'rb') as f:
        return f.read()


def write(path, data):
    with open(path, 'wb') as f:
        f.write(data)


def parse(data):
    """header, bytes behind it"""
    (size,) = struct.unpack_from('<Q', data)
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def weights(tensors, padding=b''):
    """tensors: [(name, dtype, shape, bytes)] in the order of the file."""
    header, at = {}, 0
    for name, dtype, shape, data in tensors:
        header[name] = {'dtype': dtype, 'shape': shape, 'data_offsets': [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode() + padding
    return struct.pack('<Q', len(text)) + text + b''.join(t[3] for t in tensors)


def tensors_of(data):
    header, rest = parse(data)
    rows = [(t['data_offsets'], name, t) for name, t in header.items() if name != '__metadata__']
    return [
        (name, t['dtype'], t['shape'], rest[a:b])
        for (a, b), name, t in sorted(rows, key=lambda r: r[0])
    ]


def limit_files(n_bytes):
    """No file of the child may grow beyond this: nearly a full disk, without a disk."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes))


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.tmp = self.directory.name

    def copy(self, name):
        to = os.path.join(self.tmp, name)
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(
            os.path.join(CHECKPOINTS, name), to, ignore=shutil.ignore_patterns('expected*')
        )
        return to

    def logits(self, model):
        path = os.path.join(self.tmp, 'logits')
        self.assertEqual(run('logits', model, '--ids', IDS, '--output', path), (0, '', ''))
        return read(path)

    def fails(self, *args, names=(), **more):
        code, out, err = run(*args, **more)
        self.assertEqual((code, out), (1, ''), (args, err))
        self.assertTrue(
            err.startswith('ropewalk: ') and err.endswith('\n') and err.count('\n') == 1, err
        )
        for name in names:
            self.assertIn(str(name), err)


class Safetensors(Case):
    """The kinds of faults of section (f)."""

    def rewritten(self, model, *args, **more):
        path = os.path.join(model, 'model.safetensors')
        original = read(path)
        write(path, weights(*args, **more))
        logits = self.logits(model)
        write(path, original)
        return logits

    def test_data_may_begin_at_any_address(self):
        for name in ('llama-mha', 'llama-f16'):
            model = self.copy(name)
            expected = self.logits(model)
            tensors = tensors_of(read(os.path.join(model, 'model.safetensors')))
            for n in range(9):
                self.assertEqual(self.rewritten(model, tensors, b' ' * n), expected, n)
            for n in (1, 3):
                odd = [('odd', 'BOOL', [n], b'\1' * n)] + tensors
                self.assertEqual(self.rewritten(model, odd), expected, n)

    def test_empty_tensors_are_passed_over(self):
        model = self.copy('gpt2')
        expected = self.logits(model)
        tensors = tensors_of(read(os.path.join(model, 'model.safetensors')))
        for shape in ([0], [2, 0], [0, 7, 3]):
            empty = ('empty', 'F32', shape, b'')
            for at in (0, len(tensors) // 2, len(tensors)):
                self.assertEqual(
                    self.rewritten(model, tensors[:at] + [empty] + tensors[at:]),
                    expected,
                    (shape, at),
                )

    def test_no_tensors_at_all_is_a_missing_tensor(self):
        model = self.copy('gpt2')
        write(os.path.join(model, 'model.safetensors'), weights([]))
        self.fails(
            'logits',
            model,
            '--ids',
            '1',
            '--output',
            os.path.join(self.tmp, 'l'),
            names=['model.safetensors', 'missing'],
        )

    def test_a_cut_shard_is_noticed_at_once(self):
        model = self.copy('llama-bf16-sharded')
        for shard in sorted(n for n in os.listdir(model) if n.endswith('.safetensors')):
            path = os.path.join(model, shard)
            data = read(path)
            header = 8 + struct.unpack_from('<Q', data)[0]
            for size in (len(data) - 1, len(data) - 4096, len(data) // 2, header, header - 1, 7, 0):
                write(path, data[:size])
                self.fails('inspect', model, names=[shard])
            write(path, data)
        self.assertEqual(run('inspect', model)[0], 0)

    def test_dtypes_that_nobody_needs_do_not_matter(self):
        model = self.copy('llama-mha')
        expected = self.logits(model)
        tensors = tensors_of(read(os.path.join(model, 'model.safetensors')))
        sizes = {
            'BOOL': 1,
            'U8': 1,
            'I8': 1,
            'I16': 2,
            'U16': 2,
            'I32': 4,
            'U32': 4,
            'I64': 8,
            'U64': 8,
            'F64': 8,
            'F16': 2,
            'BF16': 2,
            'F8_E4M3': 1,
            'F8_E5M2': 1,
        }
        more = [('extra.' + d, d, [3], b'\0' * 3 * n) for d, n in sizes.items()]
        self.assertEqual(self.rewritten(model, more + tensors), expected)
        for dtype in ('F8_E4M3', 'I8', 'F64'):
            name, _, shape, data = tensors[-1]
            n = len(data) // 4
            write(
                os.path.join(model, 'model.safetensors'),
                weights(tensors[:-1] + [(name, dtype, shape, b'\0' * n * sizes[dtype])]),
            )
            self.fails('inspect', model, names=[name, dtype])

    def test_float_dtypes_may_be_mixed(self):
        model = self.copy('llama-mha')
        expected = self.logits(model)
        tensors = tensors_of(read(os.path.join(model, 'model.safetensors')))

        def rounded(data, keep):
            return b''.join(struct.pack('<I', w & keep) for w, in struct.iter_unpack('<I', data))

        # values that bfloat16 holds, once as F32 and once as BF16
        half = [
            (n, d, s, rounded(data, 0xFFFF0000) if i % 2 else data)
            for i, (n, d, s, data) in enumerate(tensors)
        ]
        mixed = [
            (
                (n, 'BF16', s, b''.join(data[k + 2 : k + 4] for k in range(0, len(data), 4)))
                if i % 2
                else (n, d, s, data)
            )
            for i, (n, d, s, data) in enumerate(half)
        ]
        a, b = self.rewritten(model, half), self.rewritten(model, mixed)
        self.assertNotEqual(a, expected)
        values = [struct.unpack(f'<{len(x) // 4}f', x) for x in (parse(a)[1], parse(b)[1])]
        largest = max(map(abs, values[0]))
        # the same weights in other kernels: 2e-5 of the largest logit, as for the reference
        self.assertLess(max(abs(x - y) for x, y in zip(*values)), 2e-5 * largest)

    def test_reading_and_mapping_are_the_same(self):
        model = self.copy('llama-bf16-sharded')
        texts = {
            run('generate', model, '--ids', IDS, '-n', 8, '--print-ids', '--load', mode)
            for mode in ('map', 'read')
        }
        self.assertEqual(len(texts), 1)
        self.assertEqual(texts.pop()[0], 0)


class Config(Case):
    """The kinds of faults of section (j)."""

    def with_config(self, model, change):
        path = os.path.join(model, 'config.json')
        original = read(path)
        config = json.loads(original)
        change(config)
        write(path, json.dumps(config).encode())
        result = self.logits(model)
        write(path, original)
        return result

    def test_the_dtype_that_config_names_does_not_matter(self):
        model = self.copy('llama-mha')
        expected = self.logits(model)

        def set_types(**types):
            def change(config):
                for key in ('dtype', 'torch_dtype'):
                    config.pop(key, None)
                config.update(types)

            return change

        for types in (
            {},
            {'dtype': 'float16'},
            {'torch_dtype': 'torch.float16'},
            {'dtype': 'bfloat16', 'torch_dtype': 'float32'},
            {'dtype': 'no such type'},
            {'torch_dtype': None},
        ):
            self.assertEqual(self.with_config(model, set_types(**types)), expected, types)

    def test_whole_numbers_and_reals_are_told_apart_by_their_keys(self):
        model = self.copy('llama-yarn')
        expected = self.logits(model)
        path = os.path.join(model, 'config.json')
        text = read(path).decode()

        def spelled(old, new):
            self.assertIn(old, text)
            return text.replace(old, new, 1).encode()

        for new in ('4', '4.0', '4e0', '4.00', '40E-1', '0.4e+1'):
            write(path, spelled('"factor": 4.0', f'"factor": {new}'))
            self.assertEqual(self.logits(model), expected, new)
        for new in ('10000', '1e4', '1E+4'):
            write(path, spelled('"rope_theta": 10000.0', f'"rope_theta": {new}'))
            self.assertEqual(self.logits(model), expected, new)
        for new in ('0.00001', '1E-5', '10e-06'):
            write(path, spelled('"rms_norm_eps": 1e-05', f'"rms_norm_eps": {new}'))
            self.assertEqual(self.logits(model), expected, new)
        write(path, spelled('"hidden_size": 48', '"hidden_size": 48.0'))
        self.assertEqual(self.logits(model), expected)
        for new in ('48.5', '"48"', 'true', '[48]', '-48', '1e30'):
            write(path, spelled('"hidden_size": 48', f'"hidden_size": {new}'))
            self.fails('inspect', model, names=['config.json', 'hidden_size'])

    def test_a_config_that_does_not_end_is_refused(self):
        model = self.copy('llama-mha')
        path = os.path.join(model, 'config.json')
        for text in (
            b'',
            b'{',
            b'\xef\xbb\xbf',
            b'{}x',
            b'[]',
            b'{"a": 1,}',
            b'\0',
            b'{"x": ' + b'[' * 1000000,
        ):
            write(path, text)
            self.fails('inspect', model, names=['config.json'])
            self.fails('rope', path, names=['config.json'])


class Numbers(Case):
    def test_nan_and_infinity_end_generation(self):
        model = self.copy('llama-mha')
        path = os.path.join(model, 'model.safetensors')
        tensors = tensors_of(read(path))
        for bits in (0x7FC00000, 0x7F800000, 0xFF800000):
            for i, (name, dtype, shape, data) in enumerate(tensors):
                if name == 'model.norm.weight':
                    spoiled = (
                        tensors[:i]
                        + [(name, dtype, shape, struct.pack('<I', bits) + data[4:])]
                        + tensors[i + 1 :]
                    )
            write(path, weights(spoiled))
            for how in (['--greedy'], ['--temperature', '0.8'], ['--top-k', '3', '--seed', '1']):
                self.fails(
                    'generate',
                    model,
                    '--ids',
                    IDS,
                    '-n',
                    4,
                    '--print-ids',
                    *how,
                    names=['not a finite number'],
                )


class FullDisk(Case):
    def test_an_older_file_stays(self):
        model = self.copy('llama-mha')
        path = os.path.join(self.tmp, 'out.safetensors')
        for old in (b'older contents', None):
            if old:
                write(path, old)
            elif os.path.exists(path):
                os.remove(path)
            before = sorted(os.listdir(self.tmp))
            self.fails(
                'logits',
                model,
                '--ids',
                IDS,
                '--output',
                path,
                names=[path],
                preexec_fn=limit_files(1000),
            )
            self.assertEqual(sorted(os.listdir(self.tmp)), before)
            if old:
                self.assertEqual(read(path), old)
        self.assertEqual(len(self.logits(model)), os.path.getsize(os.path.join(self.tmp, 'logits')))

    def test_a_link_stays_a_link_and_a_pipe_a_pipe(self):
        model = self.copy('llama-mha')
        real, link, pipe = (os.path.join(self.tmp, n) for n in ('real', 'link', 'pipe'))
        expected = self.logits(model)
        write(real, b'old')
        os.symlink('real', link)
        self.assertEqual(run('logits', model, '--ids', IDS, '--output', link), (0, '', ''))
        self.assertTrue(os.path.islink(link))
        self.assertEqual(read(real), expected)
        os.mkfifo(pipe)
        with subprocess.Popen(['cat', pipe], stdout=subprocess.PIPE) as reader:
            self.assertEqual(run('logits', model, '--ids', IDS, '--output', pipe), (0, '', ''))
            self.assertEqual(reader.communicate()[0], expected)

    def test_quantised_weights_are_whole_or_not_there(self):
        model = self.copy('llama-mha')
        to = os.path.join(self.tmp, 'quantised')
        self.fails('quantize', '--type', 'q8', model, to, preexec_fn=limit_files(3000))
        self.assertNotEqual(run('inspect', to)[0], 0)
        self.assertEqual(
            run('quantize', '--type', 'q8', model, os.path.join(self.tmp, 'again'))[0], 0
        )
        self.assertEqual(run('inspect', os.path.join(self.tmp, 'again'))[0], 0)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
