/* Runs a fuzz target over the files of directories, each in a block of its exact size, then over
 * every prefix of the smaller ones: the corpus as an ordinary test, with or without sanitizers.
 *
 * For real fuzzing, compile a target without this file, with -fsanitize=fuzzer,address,undefined.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE = 1 << 20, PREFIXES_UP_TO = 512 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run(const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        abort();
    memcpy(copy, bytes, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static int run_file(const char *directory, const char *name)
{
    static uint8_t bytes[MAX_FILE];
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "rb");
    if (!file)
        return 1;
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    run(bytes, size);
    for (size_t n = 0; n < size && size <= PREFIXES_UP_TO; n++)
        run(bytes, n);
    return 0;
}

int main(int argc, char **argv)
{
    int n_files = 0;
    for (int i = 1; i < argc; i++) {
        DIR *directory = opendir(argv[i]);
        if (!directory) {
            perror(argv[i]);
            return 1;
        }
        for (struct dirent *entry; (entry = readdir(directory)); n_files++)
            if (entry->d_name[0] != '.' && run_file(argv[i], entry->d_name)) {
                fprintf(stderr, "%s/%s cannot be read\n", argv[i], entry->d_name);
                return 1;
            }
        closedir(directory);
    }
    return n_files == 0;
}
