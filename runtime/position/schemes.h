/* The rows of the table of schemes; one file each (none and learned, which compute nothing, stand with the table). */
#ifndef RWK_POSITION_SCHEMES_H
#define RWK_POSITION_SCHEMES_H

#include "runtime/position/position.h"

extern const struct rwk_position_scheme rwk_position_none, rwk_position_learned, rwk_position_sinusoidal, rwk_position_rope,
    rwk_position_alibi;

#endif
