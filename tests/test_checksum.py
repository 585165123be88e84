"""Manifests of checksums: what they hold, and that no changed byte passes.
usage: test_checksum.py ROPEWALK MODEL SHARDED"""

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

ROPEWALK, MODEL, SHARDED = sys.argv[1:4]


def run(*args):
    p = subprocess.run([ROPEWALK, *map(str, args)], capture_output=True, timeout=120)
    return p.returncode, p.stdout.decode(), p.stderr.decode()


def header_size(path):
    with open(path, 'rb') as f:
        return 8 + struct.unpack('<Q', f.read(8))[0]


class Checksum(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.manifest = os.path.join(self.directory.name, 'manifest')

    def copy(self, model):
        to = os.path.join(self.directory.name, 'model')
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(model, to)
        return to

    def write(self, model, *args):
        code, out, err = run('checksum', model, *args)
        self.assertEqual((code, err), (0, ''))
        with open(self.manifest, 'w', encoding='utf-8') as f:
            f.write(out)
        return out

    def verify(self, model, *args):
        return run('inspect', model, '--verify', self.manifest, *args)

    def fails(self, model, *words):
        code, out, err = self.verify(model)
        self.assertEqual((code, out), (1, ''), err)
        self.assertTrue(err.startswith('ropewalk: ') and err.count('\n') == 1, err)
        for word in words:
            self.assertIn(word, err)

    def test_lines_are_every_byte_of_every_file_once(self):
        for model in (MODEL, SHARDED):
            sizes = {}
            for line in self.write(model).splitlines():
                if line.startswith('#'):
                    continue
                digits, size, kind, names = line.split(' ', 3)
                self.assertRegex(digits, r'\A[0-9a-f]{32}\Z')
                self.assertIn(kind, ('file', 'header', 'tensor'))
                name, end = json.JSONDecoder().raw_decode(names)
                self.assertEqual(kind == 'tensor', end < len(names))
                sizes[name] = sizes.get(name, 0) + int(size)
            self.assertEqual(
                sizes, {n: os.path.getsize(os.path.join(model, n)) for n in os.listdir(model)}
            )

    def test_the_hash_of_no_bytes_is_that_of_the_algorithm(self):
        model = self.copy(MODEL)
        open(os.path.join(model, 'empty'), 'w').close()
        self.assertIn('99aa06d3014798d86001c324468d497f 0 file "empty"\n', self.write(model))

    def test_threads_do_not_matter(self):
        self.assertEqual(self.write(SHARDED, '-t', 1), self.write(SHARDED, '-t', 5))

    def test_a_whole_model_passes(self):
        for model in (MODEL, SHARDED):
            self.write(model)
            plain, verified = run('inspect', model), self.verify(model)
            self.assertEqual(verified, plain)
            self.assertEqual(verified[0], 0)

    def test_a_manifest_inside_the_directory_is_no_part_of_it(self):
        model = self.copy(MODEL)
        self.manifest = os.path.join(model, 'manifest')
        with open(self.manifest, 'wb') as f:
            subprocess.run([ROPEWALK, 'checksum', model], stdout=f, check=True)
        self.assertEqual(self.verify(model)[::2], (0, ''))

    def test_one_changed_bit_anywhere_is_found(self):
        self.write(SHARDED)
        for name in sorted(os.listdir(SHARDED)):
            path = os.path.join(self.copy(SHARDED), name)
            if name.endswith('.safetensors'):
                places = [
                    header_size(path),
                    os.path.getsize(path) - 1,
                    (header_size(path) + os.path.getsize(path)) // 2,
                ]
            else:
                places = [0, os.path.getsize(path) - 1]
            for place in places:
                with open(path, 'r+b') as f:
                    f.seek(place)
                    byte = f.read(1)[0]
                    f.seek(place)
                    f.write(bytes([byte ^ 16]))
                self.fails(os.path.dirname(path), name, 'differ')
                with open(path, 'r+b') as f:
                    f.seek(place)
                    f.write(bytes([byte]))
            self.assertEqual(self.verify(os.path.dirname(path))[0], 0)

    def test_names_the_tensor_that_changed(self):
        self.write(MODEL)
        model = self.copy(MODEL)
        path = os.path.join(model, 'model.safetensors')
        with open(path, 'r+b') as f:
            (size,) = struct.unpack('<Q', f.read(8))
            header = json.loads(f.read(size))
            f.seek(8 + size + header['model.norm.weight']['data_offsets'][0])
            f.write(b'\1\2\3\4')
        self.fails(model, 'model.safetensors', 'tensor model.norm.weight', '1 of ')

    def test_a_missing_file_fails_and_a_new_one_is_told(self):
        self.write(MODEL)
        model = self.copy(MODEL)
        open(os.path.join(model, 'README.md'), 'w').close()
        code, _, err = self.verify(model)
        self.assertEqual((code, err.count('\n')), (0, 1))
        self.assertIn('notice', err)
        self.assertEqual(self.verify(model, '--quiet')[::2], (0, ''))
        os.remove(os.path.join(model, 'tokenizer_config.json'))
        self.fails(model, 'tokenizer_config.json', 'missing')

    def test_a_cut_weight_file_fails(self):
        self.write(MODEL)
        path = os.path.join(self.copy(MODEL), 'model.safetensors')
        os.truncate(path, os.path.getsize(path) - 1)
        self.fails(os.path.dirname(path), 'model.safetensors')

    def test_what_is_no_manifest_is_refused(self):
        good = self.write(MODEL).splitlines()[1]
        for text in (
            '',
            '#\n',
            'x',
            good[1:],
            good + ' ',
            good.replace(' file ', ' fill '),
            good.rsplit(' ', 1)[0],
            good[:40],
            good.replace('"config.json"', '"config.json'),
            good.replace(' 7', ' -7'),
            good + '\n\0\n',
            good.upper(),
            '{"a": 1}',
            good.replace(' file', ' 99999999999999999999 file'),
        ):
            with open(self.manifest, 'w', encoding='utf-8') as f:
                f.write(text)
            self.fails(MODEL, self.manifest)
        self.manifest = os.path.join(self.directory.name, 'none')
        self.fails(MODEL, self.manifest)

    def test_odd_names_survive(self):
        model = self.copy(MODEL)
        for name in ('a b', 'quo"te', 'back\\slash', 'line\nbreak', 'é'):
            with open(os.path.join(model, name), 'w') as f:
                f.write(name)
        out = self.write(model)
        self.assertIn('"line\\nbreak"', out)
        self.assertEqual(self.verify(model)[::2], (0, ''))

    def test_needs_a_directory(self):
        for path in (os.path.join(MODEL, 'config.json'), os.path.join(MODEL, 'nowhere')):
            code, out, err = run('checksum', path)
            self.assertEqual((code, out, err.count('\n')), (1, '', 1))
            self.assertIn(path, err)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
