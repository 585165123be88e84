/* Comparing a directory with a manifest of checksums; `ropewalk checksum` writes one. */
#ifndef CHECKSUM_H
#define CHECKSUM_H

#include "options.h"

/* Ends the program, naming the first difference, unless every checksum of the manifest
 * options->verify holds. */
void checksum_verify(const char *directory, const struct options *options);

#endif
