/* How many threads are sensible: the processors this process may run on, bounded by the quotas of
 * the control groups it is in.
 *
 *   affinity mask -> n;   /proc/self/cgroup -> group -> its quota and its ancestors' -> n = min(n,
 * floor(quota / period))
 *
 *   version 2   line "0::PATH";            file cpu.max under /sys/fs/cgroup PATH: "QUOTA PERIOD"
 * or "max PERIOD" version 1   line "N:..,cpu,..:PATH";   files cpu.cfs_quota_us (-1: none),
 * cpu.cfs_period_us under /sys/fs/cgroup/cpu PATH
 *
 * Inside a container PATH may be that of the host; then the group is mounted at the root, which is
 * always looked at. More threads than the quota allows are far worse than too few, since the
 * scheduler stops all of them at once. */
#include <ropewalk/ropewalk.h>

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum { PATH_SIZE = 4096 };

/* The file's beginning as text, "" if it cannot be read. */
static void read_text(const char *path, char *ret, size_t size)
{
    size_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    for (ssize_t got; fd >= 0 && n < size - 1 && (got = read(fd, ret + n, size - 1 - n)) > 0;)
        n += (size_t)got;
    if (fd >= 0)
        close(fd);
    ret[n] = '\0';
}

/* A decimal number at *text, which moves behind it and the blanks that follow; 0 when there is
 * none. */
static uint64_t number(const char **text)
{
    uint64_t n = 0;
    for (; **text >= '0' && **text <= '9'; ++*text)
        n = n < UINT64_MAX / 16 ? n * 10 + (uint64_t)(**text - '0') : n;
    while (**text == ' ' || **text == '\n')
        ++*text;
    return n;
}

/* path[0..length) + name -> text */
static void read_in(char *path, size_t length, const char *name, char *ret, size_t size)
{
    ret[0] = '\0';
    if (length + strlen(name) + 1 > PATH_SIZE)
        return;
    memcpy(path + length, name, strlen(name) + 1);
    read_text(path, ret, size);
}

/* Whole processors that the group at path[0..length) may use; UINT64_MAX: no quota. */
static uint64_t group_quota(char *path, size_t length, bool version_1)
{
    char text[64], period_text[64];
    const char *p = text, *q = period_text;
    uint64_t quota, period;
    read_in(path, length, version_1 ? "/cpu.cfs_quota_us" : "/cpu.max", text, sizeof text);
    quota = number(&p);
    if (version_1) {
        read_in(path, length, "/cpu.cfs_period_us", period_text, sizeof period_text);
        period = number(&q);
    } else {
        period = number(&p);
    }
    return quota && period ? quota / period : UINT64_MAX;
}

/* The least quota of the group named by group[0..n) and its ancestors, below `root`. */
static uint64_t least_quota(const char *root, const char *group, size_t n, bool version_1)
{
    char path[PATH_SIZE];
    uint64_t least = UINT64_MAX;
    size_t length = strlen(root);
    if (length + n >= PATH_SIZE)
        n = 0;
    memcpy(path, root, length);
    memcpy(path + length, group, n);
    for (;; n--) {
        uint64_t quota = group_quota(path, length + n, version_1);
        least = quota < least ? quota : least;
        while (n > 0 && group[n - 1] != '/')
            n--;
        if (n == 0)
            return least;
    }
}

static bool has_cpu_controller(const char *list, size_t n)
{
    for (size_t i = 0; i + 3 <= n; i++)
        if (memcmp(list + i, "cpu", 3) == 0 && (i == 0 || list[i - 1] == ',') &&
            (i + 3 == n || list[i + 3] == ','))
            return true;
    return false;
}

static uint64_t cgroup_quota(void)
{
    char text[8192];
    uint64_t least = UINT64_MAX;
    read_text("/proc/self/cgroup", text, sizeof text);
    for (const char *line = text, *end; *line; line = *end ? end + 1 : end) {
        end = line + strcspn(line, "\n");
        const char *list = memchr(line, ':', (size_t)(end - line));
        const char *group = list ? memchr(list + 1, ':', (size_t)(end - list - 1)) : NULL;
        if (!group)
            continue;
        list++;
        bool version_1 = has_cpu_controller(list, (size_t)(group - list));
        group++;
        if (version_1 || list + 1 == group) {
            uint64_t quota = least_quota(version_1 ? "/sys/fs/cgroup/cpu" : "/sys/fs/cgroup", group,
                                         (size_t)(end - group), version_1);
            least = quota < least ? quota : least;
        }
    }
    return least;
}

uint32_t rwk_default_threads(void)
{
    cpu_set_t set;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t n = sched_getaffinity(0, sizeof set, &set) == 0 ? (uint64_t)CPU_COUNT(&set)
                 : online > 0                                ? (uint64_t)online
                                                             : 1;
    uint64_t quota = cgroup_quota();
    n = quota < n ? quota : n;
    return n ? (uint32_t)n : 1;
}
