/* The version that was built. */
#include <ropewalk/ropewalk.h>

uint32_t rwk_version(void)
{
    return RWK_VERSION_MAJOR << 16 | RWK_VERSION_MINOR << 8 | RWK_VERSION_PATCH;
}
