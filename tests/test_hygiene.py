"""What the library may do to the process that loads it, read from its objects, and that a host's
locale changes nothing.
usage: test_hygiene.py SHARED STATIC HOST ROPEWALK CHECKPOINTS

The objects are read as built without sanitizers, which add imports and writable data of their own.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

SHARED, STATIC, HOST, ROPEWALK, CHECKPOINTS = sys.argv[1:6]

# All that the library may ask of the system; the first lines with files: read, and written
# where the host asked for quantised weights or a saved state. Not here, and so refused: anything
# that prints to a stream, ends the process, reads the environment, sets handlers or the locale,
# or starts programs. pthread_sigmask blocks signals in the threads of a pool that the host asked
# for and restores the caller's mask.
ALLOWED = set(
    '''
    clock_gettime close free fstat fstat64 lstat lstat64 madvise mlock mmap mmap64 munmap open
    open64 openat openat64
    mkdir opendir readdir readdir64 closedir rename unlink fsync write
    posix_memalign pread pread64 read sched_getaffinity __sched_cpucount sched_yield stat
    stat64 sysconf
    memchr memcmp memcpy memmem memmove memset bcmp qsort bsearch
    strchr strchrnul strrchr strcmp strcspn strlen strncmp strnlen strspn strstr strerror snprintf
    vsnprintf
    exp exp2 log pow cos sin sqrt floor ceil rint round trunc fmod
    pthread_attr_destroy pthread_attr_init pthread_attr_setstacksize pthread_create
    pthread_join
    pthread_cond_broadcast pthread_cond_destroy pthread_cond_init pthread_cond_signal
    pthread_cond_wait
    pthread_mutex_destroy pthread_mutex_init pthread_mutex_lock pthread_mutex_unlock
    pthread_sigmask sigfillset pthread_setaffinity_np
    __errno_location __cxa_finalize __gmon_start__ _ITM_deregisterTMCloneTable
    _ITM_registerTMCloneTable
    __stack_chk_fail __memcpy_chk __memmove_chk __memset_chk __snprintf_chk __vsnprintf_chk
    '''.split()
)
LIBRARIES = re.compile(r'(pcre2_\w+_8|utf8proc_\w+)\Z')


def nm(*args):
    return subprocess.run(
        ['nm', *args], check=True, capture_output=True, text=True
    ).stdout.splitlines()


def dynamic_names(which):
    return {line.split()[-1].split('@')[0] for line in nm('-D', which, SHARED)}


class Objects(unittest.TestCase):
    def test_exports_only_names_of_its_own(self):
        names = dynamic_names('--defined-only')
        self.assertIn('rwk_model_open', names)
        self.assertEqual(
            [n for n in names if not n.startswith('rwk_') and not re.match(r'ROPEWALK_\d', n)], []
        )

    def test_exports_nothing_that_the_header_does_not_declare(self):
        header = os.path.join(
            os.path.dirname(os.path.abspath(__file__)), '../runtime/include/ropewalk/ropewalk.h'
        )
        with open(header, encoding='utf-8') as f:
            declared = set(re.findall(r'\b(rwk_\w+)\(', f.read()))
        exported = {n for n in dynamic_names('--defined-only') if n.startswith('rwk_')}
        self.assertEqual(exported - declared, set())

    def test_imports_only_what_is_allowed(self):
        names = dynamic_names('--undefined-only')
        self.assertIn('pthread_create', names)
        self.assertEqual(
            [n for n in sorted(names) if n not in ALLOWED and not LIBRARIES.match(n)], []
        )

    def test_has_no_writable_globals(self):
        """Data may be written by the loader's relocations (.data.rel.ro) and by nobody after it."""
        rows = [
            [c.strip() for c in line.split('|')]
            for line in nm('--format=sysv', STATIC)
            if line.count('|') == 6
        ]
        self.assertIn('.text', {row[6] for row in rows})
        writable = re.compile(r'\.(data|bss|tdata|tbss)(?!\.rel\.ro)(\.|\Z)|\*COM\*')
        self.assertEqual([row[0] for row in rows if writable.match(row[6])], [])


class Locale(unittest.TestCase):
    """A locale with a decimal comma, made here."""

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        made = subprocess.run(
            [
                'localedef',
                '--no-archive',
                '-c',
                '-i',
                'de_DE',
                '-f',
                'UTF-8',
                os.path.join(cls.directory.name, 'de_DE.UTF-8'),
            ],
            capture_output=True,
            text=True,
        )
        if made.returncode > 1:  # 1: made, with warnings
            raise RuntimeError(made.stderr)
        cls.environment = {**os.environ, 'LOCPATH': cls.directory.name, 'LC_ALL': 'de_DE.UTF-8'}

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def output(self, *args, environment=None):
        p = subprocess.run(args, capture_output=True, env=environment, timeout=120)
        self.assertEqual((p.returncode, p.stderr), (0, b''), args)
        self.assertTrue(p.stdout)
        return p.stdout

    def test_a_host_with_a_decimal_comma_gets_the_same_bytes(self):
        for name in ('llama-yarn', 'gpt2', 'gemma2', 'bloom'):
            path = os.path.join(CHECKPOINTS, name)
            comma = self.output(HOST, path, 'de_DE.UTF-8', environment=self.environment)
            self.assertEqual(
                comma, self.output(HOST, path, 'C', environment=self.environment), name
            )

    def test_the_command_reads_and_prints_points(self):
        path = os.path.join(CHECKPOINTS, 'llama-yarn')
        for args in (
            ['rope', path, '--json', '--rope-theta', '10000.5'],
            ['inspect', path],
            [
                'generate',
                path,
                '--ids',
                '1 2 3',
                '-n',
                '8',
                '--print-ids',
                '--temperature',
                '0.7',
                '--seed',
                '1',
            ],
        ):
            plain = self.output(ROPEWALK, *args, environment={**os.environ, 'LC_ALL': 'C'})
            self.assertEqual(
                self.output(ROPEWALK, *args, environment=self.environment), plain, args
            )


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
