"""Counts the test cases in a testlog.json of `meson test`: Check and unittest programs by the totals they print, any other
program as one case. A program that ended badly counts as failed even where its own totals name no failure."""
import json
import re
import sys

CHECK = re.compile(r'^\d+%: Checks: (\d+), Failures: (\d+), Errors: (\d+)', re.M)
UNITTEST = re.compile(r'^Ran (\d+) tests? in ', re.M)
UNITTEST_BAD = re.compile(r'\b(?:failures|errors|unexpected successes)=(\d+)')
UNITTEST_SKIPPED = re.compile(r'\bskipped=(\d+)')


def sum_of(pattern, text):
    return sum(int(n) for n in pattern.findall(text))


def count(test):
    """(passed, failed, skipped) of one program."""
    text = test.get('stdout', '') + '\n' + test.get('stderr', '')
    passed = failed = skipped = 0
    for checks, failures, errors in CHECK.findall(text):
        bad = int(failures) + int(errors)
        passed, failed = passed + int(checks) - bad, failed + bad
    if UNITTEST.search(text):
        bad, left_out = sum_of(UNITTEST_BAD, text), sum_of(UNITTEST_SKIPPED, text)
        passed += sum_of(UNITTEST, text) - bad - left_out
        failed, skipped = failed + bad, skipped + left_out
    if test['result'] == 'SKIP':
        return 0, 0, 1
    if test['result'] != 'OK':
        return passed, max(failed, 1), skipped
    return (passed or 1), failed, skipped


totals = [0, 0, 0]
with open(sys.argv[1], encoding='utf-8') as log:
    for line in log:
        totals = [a + b for a, b in zip(totals, count(json.loads(line)))]
if totals[2]:
    print(f'{totals[2]} skipped')
print(f'{totals[0]} passed, {totals[1]} failed')
sys.exit(1 if totals[1] else 0)
