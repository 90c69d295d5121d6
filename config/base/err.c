/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/err.c: the rows of err.def as a table.
 *
 * For:       names for logs and metrics, status and texts for gateway/reply.c.
 * Called by: every room.
 * Knows not: how a reply is written. */
#include "config/base/err.h"

#define RETRY_YES true
#define RETRY_NO false

/* The names as err.def spells them, lowered once before main(). */
static char names[ERR_COUNT][32] = {
    [OK] = "ok",
#define ERR(name, http, retry, type, code, says) [ERR_##name] = #name,
#include "config/base/err.def"
#undef ERR
};

static const struct err_row rows[ERR_COUNT] = {
    [OK] = {names[OK], 200, false, "", "", ""},
#define ERR(name, http, retry, type, code, says)                                                   \
    [ERR_##name] = {names[ERR_##name], http, RETRY_##retry, type, code, says},
#include "config/base/err.def"
#undef ERR
};

__attribute__((constructor)) static void lower_names(void)
{
    for (int i = 0; i < ERR_COUNT; i++)
        for (char *byte = names[i]; *byte != '\0'; byte++)
            if (*byte >= 'A' && *byte <= 'Z')
                *byte = (char)(*byte + ('a' - 'A'));
}

const struct err_row *err_row(enum err err)
{
    if ((int)err < 0 || err >= ERR_COUNT)
        return &rows[ERR_INTERNAL];
    return &rows[err];
}
