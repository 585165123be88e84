"""The library as others use it: installed, through pkg-config, shared and static; and as a Meson
subproject.

usage: test_install.py BUILD_ROOT SOURCE_ROOT MESON SANITIZE COMPILER...
SANITIZE: the build's b_sanitize, which programs must be linked with, too.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD, SOURCE, MESON, SANITIZE = sys.argv[1:5]
COMPILER = sys.argv[5:]
MODEL = os.path.join(SOURCE, 'examples', 'rope-llama')
HELLO = os.path.join(SOURCE, 'examples', 'hello.c')


def run(*args, env=None):
    p = subprocess.run(args, capture_output=True, timeout=600, env={**os.environ, **(env or {})})
    assert p.returncode == 0, (args, p.stdout.decode(), p.stderr.decode())
    return p.stdout.decode()


def hello(program, **env):
    return run(program, MODEL, 'It was a dark and', env=env)


def libraries(program):
    """What the program needs at run time."""
    return re.findall(r'NEEDED.*\[(.*)\]', run('readelf', '-d', program))


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.root = os.path.join(cls.directory.name, 'root')
        run(MESON, 'install', '-C', BUILD, '--no-rebuild', '--quiet', '--destdir', cls.root)
        cls.pc, = glob.glob(os.path.join(cls.root, '**', 'ropewalk.pc'), recursive=True)
        with open(cls.pc, encoding='utf-8') as f:
            cls.prefix = cls.root + re.search(r'^prefix=(.*)$', f.read(), re.M)[1]
        cls.lib = os.path.dirname(os.path.dirname(cls.pc))
        cls.expected = hello(os.path.join(BUILD, 'examples', 'hello'))

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def flags(self, *what):
        return run('pkg-config', f'--define-variable=prefix={self.prefix}', *what, 'ropewalk',
                   env={'PKG_CONFIG_PATH': os.path.dirname(self.pc)}).split()

    def compile(self, name, flags):
        program = os.path.join(self.directory.name, name)
        sanitize = [] if SANITIZE == 'none' else ['-fsanitize=' + SANITIZE]
        strict = ['-std=c99', '-pedantic', '-Wall', '-Wextra', '-Werror']
        run(*COMPILER, *strict, *sanitize, HELLO, '-o', program, *flags)
        return program

    def test_a_program_with_the_shared_library(self):
        program = self.compile('shared', self.flags('--cflags', '--libs'))
        self.assertIn('libropewalk.so.0', libraries(program))
        self.assertEqual(hello(program, LD_LIBRARY_PATH=self.lib), self.expected)

    def test_a_program_with_the_static_library(self):
        flags = self.flags('--cflags', '--libs', '--static')
        flags[flags.index('-lropewalk')] = '-l:libropewalk.a'
        program = self.compile('static', flags)
        self.assertFalse([name for name in libraries(program) if 'ropewalk' in name])
        self.assertEqual(hello(program), self.expected)

    def test_only_what_users_need_is_installed(self):
        names = {name for _, _, files in os.walk(self.prefix) for name in files}
        for name in ('ropewalk.h', 'ropewalk.pc', 'libropewalk.a', 'libropewalk.so.0'):
            self.assertIn(name, names)
        for name in names:
            self.assertTrue(name.startswith(('ropewalk', 'libropewalk')), name)


@unittest.skipUnless(SANITIZE == 'none', 'once is enough')
class Subproject(unittest.TestCase):
    def test_a_program_with_the_library_as_a_subproject(self):
        with tempfile.TemporaryDirectory() as directory:
            os.mkdir(os.path.join(directory, 'subprojects'))
            os.symlink(SOURCE, os.path.join(directory, 'subprojects', 'ropewalk'))
            shutil.copy(HELLO, directory)
            with open(os.path.join(directory, 'meson.build'), 'w', encoding='utf-8') as f:
                f.write("project('host', 'c', default_options: ['c_std=c99', 'buildtype=plain'])\n"
                        "ropewalk = dependency('ropewalk', fallback: 'ropewalk')\n"
                        "executable('hello', 'hello.c', dependencies: ropewalk)\n")
            build = os.path.join(directory, 'build')
            out = run(MESON, 'setup', build, directory, '--wrap-mode=forcefallback')
            self.assertIn('ropewalk', out)
            run(MESON, 'compile', '-C', build)
            expected = hello(os.path.join(BUILD, 'examples', 'hello'))
            self.assertEqual(hello(os.path.join(build, 'hello')), expected)
            tests = glob.glob(os.path.join(build, 'subprojects', 'ropewalk', 'test*', '*'))
            self.assertEqual(tests, [])


unittest.main(argv=sys.argv[:1])
